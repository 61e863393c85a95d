//! What every fuzz target asserts about a parser, beyond that it does not panic.
//!
//! To add a target: write `fuzz_targets/<name>.rs` after the model of `duration.rs` (parse, check
//! the finding or print and parse again), give it a `[[bin]]` in `Cargo.toml`, and put twenty or so
//! hand-written seeds with telling names into `corpus/<name>/`. `fuzz/run` finds it by itself.

use kron_core::Finding;

/// The job that `H` is resolved for.
pub const IDENTITY: &str = "prod/any";

const MESSAGE_BYTES_MAX: usize = 2_048;

/// A finding is short, printable and points at whole characters of its text.
pub fn check_finding(text: &str, finding: &Finding) {
    check_message(finding);
    assert!(
        text.get(finding.span.clone()).is_some(),
        "{:?} is no part of {} bytes: {finding}",
        finding.span,
        text.len()
    );
}

/// A finding without one text to point into is at least short and printable.
pub fn check_message(finding: &Finding) {
    let message = finding.to_string();
    assert!(message.len() < MESSAGE_BYTES_MAX, "{} bytes", message.len());
    assert!(!message.contains(char::is_control), "{message:?}");
}
