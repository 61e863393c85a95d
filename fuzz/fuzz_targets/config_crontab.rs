//! Crontab files, as the system's and as a user's: diagnostics in place, the same jobs twice, timings
//! that print and parse again.
#![no_main]

use kron_config::{CrontabOwner, Format};
use kron_fuzz::check_definitions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    check_definitions(text, &Format::Crontab(CrontabOwner::System));
    check_definitions(text, &Format::Crontab(CrontabOwner::User("ann".to_owned())));
});
