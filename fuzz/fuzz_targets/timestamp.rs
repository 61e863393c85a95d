//! Timestamps: print and parse again.
#![no_main]

use kron_core::UtcSecond;
use kron_fuzz::check_finding;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match UtcSecond::parse(text) {
        Err(finding) => check_finding(text, &finding),
        Ok(t) => {
            assert!((UtcSecond::MIN..=UtcSecond::MAX).contains(&t));
            let printed = t.to_string();
            assert_eq!(printed.len(), 20);
            assert_eq!(UtcSecond::parse(&printed), Ok(t));
        }
    }
});
