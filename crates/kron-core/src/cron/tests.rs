//! Patterns, row by row: what is accepted and how it prints, what is refused and where, what
//! never fires, and how close two times of a day come. When they fire is frozen in
//! `tests/engine/vectors.rs`.

use std::ops::Range;

use super::*;

enum Says<'a> {
    /// It is accepted and this is its canonical form.
    Prints(&'a str),
    /// It is refused with a message that contains this, about these bytes.
    Refuses(&'a str, Range<usize>),
    /// It is accepted and no wall time matches.
    Never,
    /// It is accepted and some wall time matches.
    Sometimes,
    /// Two of its times of one day come this close, in seconds.
    Apart(Option<i64>),
}
use Says::{Apart, Never, Prints, Refuses, Sometimes};

fn check(text: &str, says: &Says<'_>) {
    check_for("job", text, says);
}

fn check_for(identity: &str, text: &str, says: &Says<'_>) {
    let parsed = Pattern::parse(text, identity);
    if let Refuses(fragment, span) = says {
        let finding = parsed.expect_err(text);
        assert!(finding.message.contains(fragment), "`{text}` says `{}`", finding.message);
        assert_eq!(&finding.span, span, "`{text}` says `{}`", finding.message);
        assert_eq!(finding.category, crate::Category::Configuration, "`{text}`");
        return;
    }
    let pattern = parsed.unwrap_or_else(|finding| panic!("`{text}` is refused: {finding}"));
    let printed = pattern.to_string();
    let again = Pattern::parse(&printed, "another").expect(&printed);
    assert_eq!(again, pattern, "`{text}` prints as `{printed}`, which is another pattern");
    assert_eq!(again.to_string(), printed, "`{text}` prints in two ways");
    match says {
        Prints(canonical) => assert_eq!(&printed, canonical, "`{text}`"),
        Never => assert!(!pattern.is_satisfiable(), "`{text}` fires"),
        Sometimes => assert!(pattern.is_satisfiable(), "`{text}` never fires"),
        Apart(gap) => assert_eq!(pattern.shortest_gap_in_day(), *gap, "`{text}`"),
        Refuses(..) => unreachable!("handled above"),
    }
}

#[test]
fn accepted_patterns_have_one_canonical_form() {
    check("0 3 * * *", &Prints("0 3 * * *"));
    check("  0\t3  * * * ", &Prints("0 3 * * *"));
    check("00 03 * * *", &Prints("0 3 * * *"));
    check("0,15,30,45 9-17 * * 1-5", &Prints("*/15 9-17 * * MON-FRI"));
    check("*/15 9,10,11 * * 1,2,3", &Prints("*/15 9-11 * * MON-WED"));
    check("*/40 * * * *", &Prints("0,40 * * * *"));
    check("*/90 * * * *", &Prints("0 * * * *"));
    check("5-20/5 * * * *", &Prints("5-20/5 * * * *"));
    check("0-59 0-23 1-31 1-12 0-6", &Prints("* * * * *"));
    check("30,10,20,10 * * * *", &Prints("10-30/10 * * * *"));
    check("0 3,4 * * *", &Prints("0 3,4 * * *"));

    check("@hourly", &Prints("0 * * * *"));
    check("@daily", &Prints("0 0 * * *"));
    check("@midnight", &Prints("0 0 * * *"));
    check("@weekly", &Prints("0 0 * * SUN"));
    check("@monthly", &Prints("0 0 1 * *"));
    check("@yearly", &Prints("0 0 1 JAN *"));
    check("@annually", &Prints("0 0 1 JAN *"));

    check("0 0 0 * * *", &Prints("0 0 * * *"));
    check("*/20 0 0 * * *", &Prints("*/20 0 0 * * *"));
    check("0 0 0 1 1 * *", &Prints("0 0 1 JAN *"));
    check("0 0 0 1 1 * 1970-2199", &Prints("0 0 1 JAN *"));
    check("0 0 0 1 1 * 2030", &Prints("0 0 0 1 JAN * 2030"));
    check("0 0 0 1 1 * 2027,2026,2028", &Prints("0 0 0 1 JAN * 2026-2028"));

    check("0 0 1 jan *", &Prints("0 0 1 JAN *"));
    check("0 0 * */3 *", &Prints("0 0 * */3 *"));
    check("0 0 * 2-11/3 *", &Prints("0 0 * FEB-NOV/3 *"));
    check("0 0 * * 7", &Prints("0 0 * * SUN"));
    check("0 0 * * 0,7", &Prints("0 0 * * SUN"));
    check("0 0 * * fri-sun", &Prints("0 0 * * SUN,FRI,SAT"));
    check("0 0 * * 5-7", &Prints("0 0 * * SUN,FRI,SAT"));

    check("0 0 LW,L-3,L,15W,1 * *", &Prints("0 0 1,15W,L,L-3,LW * *"));
    check("0 0 * * 5L", &Prints("0 0 * * FRI#L"));
    check("0 0 * * 7#2,MON#2", &Prints("0 0 * * SUN#2,MON#2"));
    check("0 0 * * MON,MON#2,1L", &Prints("0 0 * * MON"));

    check("0 0 ? * TUE", &Prints("0 0 * * TUE"));
    check("0 0 1 * ?", &Prints("0 0 1 * *"));
    check("0 0 13 * FRI", &Prints("0 0 13 * FRI"));
    check("0 0 13 * +FRI", &Prints("0 0 13 * +FRI"));
    check("0 0 * * +FRI", &Prints("0 0 * * FRI"));
    check("0 0 */2 * MON", &Prints("0 0 */2 * +MON"));
    check("0 0 1-31/2 * MON", &Prints("0 0 1-31/2 * MON"));
    check("0 0 1-7 * */2", &Prints("0 0 1-7 * +SUN,TUE,THU,SAT"));
    check("0 0 1-31 * MON", &Prints("0 0 * * *"));
    check("0 0 13 1 0-7", &Prints("0 0 * JAN *"));
}

#[test]
fn h_becomes_a_plain_value() {
    // SHA-256 of `job\nH\nminute` and its like, modulo the width of each field.
    check("H * * * *", &Prints("9 * * * *"));
    check("H H * * *", &Prints("9 15 * * *"));
    check("H(0-9) * * * *", &Prints("9 * * * *"));
    check("H/20 * * * *", &Prints("9-49/20 * * * *"));
    check("0 0 H H *", &Prints("0 0 22 APR *"));
    check("0 0 * * H", &Prints("0 0 * * THU"));
    check_for("other", "H H * * *", &Prints("51 0 * * *"));
    check_for("", "H * * * *", &Refuses("`H` needs to know the job", 0..1));
    check_for("", "0 * * * *", &Prints("0 * * * *"));
}

#[test]
fn refused_patterns_say_why_and_where() {
    check("", &Refuses("a schedule with no fields", 0..0));
    check("0", &Refuses("only 1 field", 0..1));
    check("0 3 * *", &Refuses("only 4 fields", 0..7));
    check("0 0 0 0 0 0 0 0", &Refuses("more than 7 fields", 0..15));
    check("@dayly", &Refuses("unknown nickname `@dayly`", 0..6));
    check("@Daily", &Refuses("unknown nickname `@Daily`", 0..6));
    check("@reboot", &Refuses("`@reboot` is not a time", 0..7));

    check("60 * * * *", &Refuses("`60` is outside the minute field", 0..2));
    check("  60 * * * *", &Refuses("`60` is outside the minute field", 2..4));
    check("99999999999 * * * *", &Refuses("is outside the minute field", 0..11));
    check("* 24 * * *", &Refuses("`24` is outside the hour field", 2..4));
    check("60 0 0 * * *", &Refuses("`60` is outside the second field", 0..2));
    check("0 0 0 * *", &Refuses("`0` is outside the day-of-month field", 4..5));
    check("0 0 1,32 * *", &Refuses("`32` is outside the day-of-month field", 6..8));
    check("0 0 * 0 *", &Refuses("`0` is outside the month field", 6..7));
    check("0 0 * 13 *", &Refuses("`13` is outside the month field", 6..8));
    check("0 0 * * 8", &Refuses("`8` is outside the day-of-week field", 8..9));
    check("0 0 0 1 1 * 1969", &Refuses("`1969` is outside the year field", 12..16));
    check("0 0 0 1 1 * 2200", &Refuses("`2200` is outside the year field", 12..16));
    check("0 0 0 1 1 * H", &Refuses("`H` is not a year", 12..13));

    check("MON * * * *", &Refuses("`MON` is not a minute", 0..3));
    check("0 0 * FOO *", &Refuses("`FOO` is not a month", 6..9));
    check("0 0 * * MOM", &Refuses("`MOM` is not a day-of-week", 8..11));
    check("0 0 * * MONDAY", &Refuses("`MONDAY` is not a day-of-week", 8..14));
    check("0 é * * *", &Refuses("`é` is not a hour", 2..4));
    check("-5 * * * *", &Refuses("an empty value in the minute field", 0..0));
    check("5- * * * *", &Refuses("an empty value in the minute field", 2..2));
    check("1,,2 * * * *", &Refuses("an empty value in the minute field", 2..2));
    check("1, * * * *", &Refuses("an empty value in the minute field", 2..2));
    check("10-5 * * * *", &Refuses("the range `10-5` runs backwards", 0..4));
    check("0 0 * NOV-FEB *", &Refuses("the range `NOV-FEB` runs backwards", 6..13));
    check("0 0 * * FRI-MON", &Refuses("the range `FRI-MON` runs backwards", 8..15));
    check("0~30 * * * *", &Refuses("random ranges are not reproducible", 0..4));

    check("5/15 * * * *", &Refuses("a step needs `*` or a range before it, not `5`", 0..4));
    check("*/0 * * * *", &Refuses("a step of 0 never moves", 2..3));
    check("*/x * * * *", &Refuses("`x` is not a step", 2..3));
    check("*/ * * * *", &Refuses("`` is not a step", 2..2));
    check("*/99999999999 * * * *", &Refuses("the step `99999999999` is too large", 2..13));

    check("? * * * *", &Refuses("`?` stands alone", 0..1));
    check("0 0 ?,1 * *", &Refuses("`?` stands alone", 4..5));
    check("0 0 L-31 * *", &Refuses("no month has that many days before its last", 4..8));
    check("0 0 L-0 * *", &Refuses("`0` is outside the day-of-month field", 6..7));
    check("0 0 1-5W * *", &Refuses("`W` goes with a single day, not a range", 4..8));
    check("0 0 *W * *", &Refuses("`*` is not a day-of-month", 4..5));
    check("0 0 W * *", &Refuses("an empty value in the day-of-month field", 4..4));
    check("L * * * *", &Refuses("`L` is not a minute", 0..1));
    check("0 0 * * L", &Refuses("`L` alone names no day of the week", 8..9));
    check("0 0 * * MON#6", &Refuses("`6` is no occurrence", 12..13));
    check("0 0 * * MON#0", &Refuses("`0` is no occurrence", 12..13));
    check("0 0 * * MON#", &Refuses("`` is no occurrence", 12..12));
    check("0 0 * * 8#2", &Refuses("`8` is outside the day-of-week field", 8..9));
    check("0 0 1 * ++MON", &Refuses("`+MON` is not a day-of-week", 9..13));
    check("0 0 +1 * MON", &Refuses("`+1` is not a day-of-month", 4..6));

    check("HX * * * *", &Refuses("`HX` is not a minute", 0..2));
    check("H(5) * * * *", &Refuses("`H(5)` lacks a range", 0..4));
    check("H(9-5) * * * *", &Refuses("the range `9-5` runs backwards", 2..5));
    check("H(0-60) * * * *", &Refuses("`60` is outside the minute field", 4..6));
    check("H/61 * * * *", &Refuses("the step of `H` must be 1 to 60", 2..4));
    check("H/0 * * * *", &Refuses("the step of `H` must be 1 to 60", 2..3));
    check("0 0 H/29 * *", &Refuses("the step of `H` must be 1 to 28", 6..8));
    let crowd = vec!["1"; 257].join(",");
    check(&format!("{crowd} * * * *"), &Refuses("a list of more than 256 items", 0..513));
}

#[test]
fn some_patterns_never_fire() {
    check("0 0 30 2 *", &Never);
    check("0 0 31 4,6,9,11 *", &Never);
    check("0 0 30W 2 *", &Never);
    check("0 0 L-30 2,4 *", &Never);
    check("0 0 29 2 +MON#2", &Never);
    check("0 0 31 2 +FRI", &Never);
    check("0 0 0 29 2 * 2027", &Never);
    check("0 0 0 29 2 * 2100", &Never);
    check("0 0 29 2 *", &Sometimes);
    check("0 0 29 2 +MON", &Sometimes);
    check("0 0 30 2 MON", &Sometimes);
    check("0 0 L-30 1 *", &Sometimes);
    check("0 0 0 29 2 * 2028", &Sometimes);
}

#[test]
fn the_shortest_gap_of_a_day_is_known_without_walking_it() {
    check("0 3 * * *", &Apart(None));
    check("0 3,5 * * *", &Apart(Some(7_200)));
    check("*/5 * * * *", &Apart(Some(300)));
    check("0,59 3 * * *", &Apart(Some(3_540)));
    check("0,59 3,5 * * *", &Apart(Some(3_540)));
    check("0,50 3,4 * * *", &Apart(Some(600)));
    check("0,59 * * * *", &Apart(Some(60)));
    check("0,59 0 0 * * *", &Apart(Some(59)));
    check("0,59 * * * * *", &Apart(Some(1)));
    check("0,30 0,30 0,12 * * *", &Apart(Some(30)));
    check("0,40 0,1 3 * * *", &Apart(Some(20)));
}
