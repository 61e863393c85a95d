//! Patterns: print and parse again, and search in both directions.
#![no_main]

use kron_core::{Dst, Pattern, Schedule, UtcSecond, Zone};
use kron_fuzz::{IDENTITY, check_finding};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static ZONES: Vec<Zone> = ["UTC", "Europe/Paris", "Africa/Casablanca", "Australia/Lord_Howe"]
        .iter()
        .map(|name| Zone::named(name).unwrap())
        .collect();
}

fuzz_target!(|text: &str| {
    let pattern = match Pattern::parse(text, IDENTITY) {
        Ok(pattern) => pattern,
        Err(finding) => return check_finding(text, &finding),
    };
    let printed = pattern.to_string();
    assert_eq!(Pattern::parse(&printed, "another").as_ref(), Ok(&pattern), "{printed}");
    ZONES.with(|zones| {
        for zone in zones {
            let schedule = Schedule::new(pattern.clone(), zone.clone(), Dst::default());
            // The start of the last hour before a change in Paris, and before time in Kron ends.
            for t in [1_792_886_400, 1_774_742_400, 253_402_300_000] {
                let t = UtcSecond::from_unix(t).unwrap();
                let walked: Vec<UtcSecond> = schedule.after(t).take(4).collect();
                let mut at = t;
                for next in walked {
                    assert_eq!(schedule.next_after(at), Some(next), "{printed} {zone} {at}");
                    assert!(next > at, "{printed} {zone} {at}");
                    assert_eq!(schedule.prev_at_or_before(next), Some(next), "{printed} {zone}");
                    at = next;
                }
                if let Some(previous) = schedule.prev_at_or_before(t) {
                    assert!(previous <= t, "{printed} {zone} {t}");
                    let next = schedule.next_after(previous);
                    assert!(next.is_none_or(|next| next > t), "{printed} {zone} {t}");
                }
            }
        }
    });
});
