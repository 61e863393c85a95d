use super::*;
use crate::time::UtcSecond;
use crate::zone::Zone;

fn allowed(only: &str, avoid: &str, time: &str) -> bool {
    let constraints = Constraints::parse(only, avoid).unwrap();
    let wall = Zone::utc().wall_at(time.parse::<UtcSecond>().unwrap());
    let allowed = constraints.allow(wall);
    assert_eq!(allowed, constraints.rejection(wall).is_none(), "{only} {avoid} {time}");
    allowed
}

#[test]
fn clauses_include_both_ends_and_wrap() {
    let check = |only: &str, yes: &[&str], no: &[&str]| {
        for (times, expected) in [(yes, true), (no, false)] {
            for time in times {
                assert_eq!(allowed(only, "", time), expected, "only {only} at {time}");
                assert_eq!(allowed("", only, time), !expected, "avoid {only} at {time}");
            }
        }
    };
    check(
        "hours=22-4",
        &["2026-03-01T22:00:00Z", "2026-03-01T04:59:59Z"],
        &["2026-03-01T05:00:00Z", "2026-03-01T21:59:59Z"],
    );
    check(
        "between=22:30-04:00",
        &["2026-03-01T22:30:00Z", "2026-03-01T04:00:59Z"],
        &["2026-03-01T04:01:00Z", "2026-03-01T22:29:59Z"],
    );
    check(
        "dow=FRI-MON",
        &["2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z", "2026-03-06T00:00:00Z"],
        &["2026-03-03T00:00:00Z", "2026-03-05T23:59:59Z"],
    );
    check("dow=5-7", &["2026-03-01T12:00:00Z"], &["2026-03-02T12:00:00Z"]);
    check(
        "months=NOV-FEB",
        &["2026-11-01T00:00:00Z", "2026-02-28T23:59:59Z"],
        &["2026-03-01T00:00:00Z", "2026-10-31T23:59:59Z"],
    );
    check(
        "dom=1,28-31",
        &["2026-03-01T00:00:00Z", "2026-03-31T00:00:00Z"],
        &["2026-03-02T00:00:00Z"],
    );
    check("date=2026-12-25", &["2026-12-25T00:00:00Z"], &["2026-12-26T00:00:00Z"]);
    check(
        "dates=2026-12-24..2027-01-02",
        &["2026-12-24T00:00:00Z", "2027-01-02T23:59:59Z"],
        &["2026-12-23T23:59:59Z", "2027-01-03T00:00:00Z"],
    );
}

#[test]
fn kinds_are_joined_by_and_clauses_of_one_kind_by_or() {
    let only = "hours=9-11;hours=20;dow=MON;date=2026-03-02;dates=2026-03-09..2026-03-10";
    assert!(allowed(only, "", "2026-03-02T20:30:00Z"));
    assert!(allowed(only, "", "2026-03-09T09:00:00Z"));
    assert!(!allowed(only, "", "2026-03-10T09:00:00Z"), "a Tuesday");
    assert!(!allowed(only, "", "2026-03-16T09:00:00Z"), "another Monday");
    assert!(!allowed(only, "hours=20", "2026-03-02T20:30:00Z"));
}

#[test]
fn clauses_print_in_one_canonical_way() {
    let check = |text: &str, canonical: &[&str]| {
        let constraints = Constraints::parse(text, "").unwrap();
        assert_eq!(constraints.clauses(Side::Only), canonical, "{text}");
        let again = Constraints::parse(&canonical.join(";"), "").unwrap();
        assert_eq!(again, constraints, "{text}");
    };
    check("hours=4,3,22-2", &["hours=22-4"]);
    check("hours=0-23", &["hours=0-23"]);
    check("dow=sat,sun", &["dow=SAT,SUN"]);
    check("dow=0-6", &["dow=MON-SUN"]);
    check("dow=FRI-mon", &["dow=FRI-MON"]);
    check("months=nov-2", &["months=NOV-FEB"]);
    check("dom=5,6,7;dom=1", &["dom=1,5-7"]);
    check("between=22:30-04:00,09:00-09:00", &["between=09:00-09:00", "between=22:30-04:00"]);
    check("date=2026-12-25;dates=2026-12-26..2026-12-31", &["dates=2026-12-25..2026-12-31"]);
    check("dates=2026-12-25..2026-12-25,2026-12-27", &["date=2026-12-25", "date=2026-12-27"]);
    check(" dow = MON ; hours = 9 - 17 ; ", &["hours=9-17", "dow=MON"]);
}

#[test]
fn contradictions_are_found() {
    let check = |only: &str, avoid: &str, contradictory: bool| {
        let constraints = Constraints::parse(only, avoid).unwrap();
        assert_eq!(constraints.contradiction().is_some(), contradictory, "{only} / {avoid}");
    };
    check("hours=9", "between=09:00-09:59", true);
    check("hours=9", "between=09:00-09:58", false);
    check("months=FEB;dom=30", "", true);
    check("months=FEB;dom=29", "", false);
    check("months=FEB;dom=29;dow=MON", "", false);
    check("date=2026-12-25;dow=MON", "", true);
    check("", "dow=MON-SUN", true);
    check("", "dates=0001-01-01..9000-01-01", false);
    check("", "dates=0001-01-01..9999-12-31", true);
    check(
        "dates=2026-01-01..2026-12-31",
        "dates=2026-01-01..2026-06-30,2026-07-02..2027-01-01",
        false,
    );
    check(
        "dates=2026-01-01..2026-12-31",
        "dates=2026-01-01..2026-06-30,2026-07-01..2027-01-01",
        true,
    );
    check("dates=0001-01-01..9999-12-31", "dates=0001-01-01..9999-12-30", false);
    check("dow=MON", "dates=0001-01-01..9999-12-30", true);
}

#[test]
fn malformed_clauses_say_what_was_expected() {
    for bad in [
        "hours",
        "hours=",
        "hours=24",
        "hours=x",
        "hours=1-",
        "dow=8",
        "dow=FOO",
        "months=0",
        "months=13",
        "dom=0",
        "dom=32",
        "dom=5-1",
        "between=9:00-10:00",
        "between=09:00",
        "between=24:00-01:00",
        "between=09:60-10:00",
        "date=2026-02-30",
        "dates=2026-01-02..2026-01-01",
        "date=",
        "hour=5",
        "=5",
        "hours=1;;bogus=2",
    ] {
        let finding = Constraints::parse(bad, "").unwrap_err();
        assert_eq!(finding.category, crate::Category::Validation, "{bad}");
    }
    let slip = Constraints::parse("hour=5", "").unwrap_err();
    assert_eq!(slip.help.as_deref(), Some("did you mean `hours`?"));
}

#[test]
fn the_clause_that_rejects_is_the_one_that_is_named() {
    let check = |only: &str, avoid: &str, time: &str, clause: &str| {
        let constraints = Constraints::parse(only, avoid).unwrap();
        let wall = Zone::utc().wall_at(time.parse::<UtcSecond>().unwrap());
        assert_eq!(constraints.rejection(wall).unwrap().to_string(), clause);
    };
    let noon = "2026-03-03T12:00:00Z";
    check("", "between=09:00-10:00;between=11:30-12:30", noon, "avoid between=11:30-12:30");
    check(
        "",
        "date=2026-01-01;dates=2026-03-01..2026-03-05",
        noon,
        "avoid dates=2026-03-01..2026-03-05",
    );
    check("", "hours=9-12;dow=MON-FRI", noon, "avoid hours=9-12");
    check("hours=12;dow=MON", "", noon, "only dow=MON");
    check(
        "date=2026-01-01,2026-01-03,2026-01-05,2026-01-07,2026-01-09",
        "",
        noon,
        "only date=2026-01-01;date=2026-01-03;date=2026-01-05 and 2 more",
    );
}
