//! Constraints: print and parse again; what is allowed and what is rejected never meet.
//!
//! A line break separates the two sides.
#![no_main]

use kron_core::{Constraints, Side, UtcSecond, Zone};
use kron_fuzz::{check_finding, check_message};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static ZONE: Zone = Zone::named("Europe/Paris").unwrap();
}

fuzz_target!(|text: &str| {
    let (only, avoid) = text.split_once('\n').unwrap_or((text, ""));
    let constraints = match Constraints::parse(only, avoid) {
        Ok(constraints) => constraints,
        Err(finding) => {
            // The finding points into the text of its side, and does not say which.
            if avoid.is_empty() {
                check_finding(only, &finding);
            }
            return check_message(&finding);
        }
    };
    let clauses = |side| constraints.clauses(side).join(";");
    let again = Constraints::parse(&clauses(Side::Only), &clauses(Side::Avoid));
    assert_eq!(again.as_ref(), Ok(&constraints));
    let contradictory = constraints.contradiction().is_some();
    for step in 0..200 {
        // Eleven days and an odd time, so that weekdays, months and minutes all change.
        let t = UtcSecond::from_unix(1_767_225_600 + step * 987_654).unwrap();
        let wall = ZONE.with(|zone| zone.wall_at(t));
        let allowed = constraints.allow(wall);
        assert_eq!(allowed, constraints.rejection(wall).is_none(), "{wall}");
        assert!(!(allowed && contradictory), "{wall}");
    }
});
