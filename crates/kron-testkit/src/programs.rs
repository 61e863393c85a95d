//! Programs that a test cannot do without: those of the machine, and those of this workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::needs::Need;

/// Names the directory in which the programs of the workspace were built.
const PROGRAMS: &str = "KRON_TEST_PROGRAMS";

/// A program of another package than the one that is tested: cargo says only where those of its
/// own are. `sibling` is one of its own, in whose directory the other is, too.
///
/// Where `KRON_TEST_PROGRAMS` names a directory, the programs have been built there, and nothing is
/// built. Otherwise cargo is asked for it, with the features of the whole workspace, so that
/// nothing is built that is not built anyway.
///
/// # Panics
///
/// If it was not built, or cannot be.
#[track_caller]
pub fn of_workspace(program: &str, sibling: &Path) -> PathBuf {
    if let Some(directory) = variable(PROGRAMS).map(PathBuf::from) {
        let path = directory.join(program);
        assert!(
            path.is_file(),
            "{PROGRAMS} names `{}`, which has no `{program}`: build it with `cargo build \
             --workspace --bins`, or unset the variable",
            directory.display()
        );
        return path;
    }
    let profile_dir = sibling.parent().unwrap();
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    // The one that runs this test, if one does.
    let cargo = variable("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--workspace", "--bin", program])
        .args(["--profile", profile, "--target-dir"])
        .arg(profile_dir.parent().unwrap())
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")])
        .status()
        .unwrap();
    assert!(status.success(), "`{program}` is built");
    profile_dir.join(program)
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

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
