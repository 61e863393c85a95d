//! What some tests need of the machine: said loudly when it is left out, never assumed.

use std::io::Write as _;

/// Whether a test is left out, because the environment says that something is not to be had.
#[expect(clippy::disallowed_methods, reason = "the one variable that leaves tests out")]
pub(crate) fn left_out(requirement: &str, test: &str) -> bool {
    let without = std::env::var("KRON_TEST_WITHOUT").unwrap_or_default();
    let left_out = without.split([',', ' ']).any(|word| word == requirement);
    if left_out {
        let said =
            format!("did not run, because KRON_TEST_WITHOUT names `{requirement}`: {test}\n");
        std::io::stderr().write_all(said.as_bytes()).unwrap();
    }
    left_out
}
