//! UTC times as text and as seconds, by arithmetic alone.
//!
//! The daemon has its own code for this; whoever judges the daemon must not use it.

const DAY: i64 = 86_400;

/// The seconds since 1970 of `2026-03-01T00:00:00Z`; `None` for anything that is not such a time.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')];
    if bytes.len() != 20 || separators.iter().any(|(at, separator)| bytes[*at] != *separator) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let days = days_since_1970(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    Some(days * DAY + number(11, 13)? * 3_600 + number(14, 16)? * 60 + number(17, 19)?)
}

/// The text of a time.
pub(crate) fn format(seconds: i64) -> String {
    let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // The year is found by trying: there are few of them.
    let mut year = 1970 + days / 366;
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_since_1970(year, month + 1, 1) <= days {
        month += 1;
    }
    let day = days - days_since_1970(year, month, 1) + 1;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let is_leap = leap_days(year) > leap_days(year - 1);
    let past = usize::try_from(month - 1).ok().and_then(|at| BEFORE.get(at)).unwrap_or(&0);
    (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
        + past
        + i64::from(is_leap && month > 2)
        + day
        - 1
}

#[test]
fn times_are_what_the_calendar_says() {
    for (text, seconds) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T23:59:59Z", 951_868_799),
        ("2026-11-15T11:45:42Z", 1_794_743_142),
        ("2100-03-01T00:00:00Z", 4_107_542_400),
    ] {
        assert_eq!(parse(text), Some(seconds), "{text}");
        assert_eq!(format(seconds), text);
    }
    for seconds in (0..4_000_000_000).step_by(86_400 * 13 + 7) {
        assert_eq!(parse(&format(seconds)), Some(seconds));
    }
    for text in ["", "manual/2026", "2026-11-15 11:45:42Z", "2026-11-15T11:45:42+00:00"] {
        assert_eq!(parse(text), None, "{text}");
    }
}
