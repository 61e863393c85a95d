//! Krontab lines: diagnostics in place, the same jobs twice, timings that print and parse again.
#![no_main]

use kron_config::Format;
use kron_fuzz::check_definitions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| check_definitions(text, &Format::Krontab));
