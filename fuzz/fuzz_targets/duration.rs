//! Durations: print and parse again.
#![no_main]

use kron_core::Seconds;
use kron_fuzz::check_finding;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Seconds::parse(text) {
        Err(finding) => check_finding(text, &finding),
        Ok(duration) => {
            assert!(duration <= Seconds::MAX);
            assert_eq!(Seconds::parse(&duration.to_string()), Ok(duration));
        }
    }
});
