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

/// Runs a program that a test cannot do without; `requirement` is what to name to leave it out.
pub(crate) fn must_run(requirement: &str, program: &str, arguments: &[&str]) {
    let output = std::process::Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("`{program}` cannot be started (or set KRON_TEST_WITHOUT={requirement}): {error}")
    });
    assert!(
        output.status.success(),
        "`{program} {}` failed, which this test cannot do without (set \
         KRON_TEST_WITHOUT={requirement} to leave it out): {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}
