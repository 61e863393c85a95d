//! Programs that a test cannot do without.

use std::process::Command;

use crate::needs::Need;

/// Runs a program to its end.
///
/// # Panics
///
/// If it cannot be started or fails. `need` is what leaves such tests out.
#[track_caller]
pub fn must_run(need: Need, program: &str, arguments: &[&str]) {
    let need = need.name();
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| {
        panic!("`{program}` cannot be started (or set KRON_TEST_WITHOUT={need}): {error}")
    });
    assert!(
        output.status.success(),
        "`{program} {}` failed, which this test cannot do without (set KRON_TEST_WITHOUT={need} to \
         leave it out): {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}
