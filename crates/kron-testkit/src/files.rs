//! Small files and directories of a test's own.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

/// The text of a file; `None` if it does not exist or cannot be read.
#[expect(clippy::disallowed_methods, reason = "what a test reads is small and its own")]
pub fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Writes a file that only this user may read.
pub fn write_private(path: &Path, text: &str) {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Copies a program. Another process does so: a process that another thread starts meanwhile
/// would inherit what this one has open for writing, and nothing can be executed for as long.
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--").args([from, to]).status().unwrap();
    assert!(status.success(), "`{}` cannot be copied", from.display());
}

/// Writes a script that everybody can run, by another process as [`copy_program`] does.
pub fn write_script(path: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = command.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "`{}` cannot be written", path.display());
}

/// A directory in memory where the machine has one: for tests of many steps that need no real
/// syncs.
pub fn scratch() -> TempDir {
    scratch_for(0)
}

/// The same for a test that needs this much space there.
pub fn scratch_for(bytes: u64) -> TempDir {
    scratch_named("", bytes)
}

/// The same with a name that begins with this, or with any name.
pub fn scratch_named(prefix: &str, bytes: u64) -> TempDir {
    // `scripts/test` names a directory there that it removes at its end.
    let memory = std::env::var_os("KRON_TEST_MEMORY").filter(|path| !path.is_empty());
    let memory = memory.map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let space = statvfs(&memory).map(|there| there.blocks_available() * there.fragment_size());
    let named = || {
        let mut builder = tempfile::Builder::new();
        if !prefix.is_empty() {
            builder.prefix(prefix);
        }
        builder
    };
    let in_memory = space.is_ok_and(|space| space >= bytes).then(|| named().tempdir_in(&memory));
    in_memory.and_then(Result::ok).unwrap_or_else(|| named().tempdir().unwrap())
}
