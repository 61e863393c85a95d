//! What tests need of the machine they run on.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that not every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To own files as somebody else, to trace, to mount.
    Root,
    /// To make system calls fail.
    Strace,
    /// To set a clock that is nobody else's.
    Faketime,
    /// To have a disk that can be filled.
    Mount,
}

impl Need {
    const fn name(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::Strace => "strace",
            Need::Faketime => "faketime",
            Need::Mount => "mount",
        }
    }

    /// What is missing, if it is.
    fn missing(self) -> Option<&'static str> {
        let answers = |program: &str| Command::new(program).arg("--version").output().is_ok();
        match self {
            Need::Root => {
                (!nix::unistd::geteuid().is_root()).then_some("these tests are run by root")
            }
            Need::Strace => (!answers("strace")).then_some("install the Debian package `strace`"),
            Need::Faketime => {
                preloaded_clock().is_none().then_some("install the Debian package `faketime`")
            }
            Need::Mount => (!answers("mount")).then_some("install the Debian package `mount`"),
        }
    }
}

/// Whether a test is left out because somebody said so. A test whose needs are not met fails.
#[expect(clippy::disallowed_methods, reason = "the one variable that leaves tests out")]
#[expect(clippy::print_stderr, reason = "what did not run is said")]
pub(crate) fn left_out(test: &str, needs: &[Need]) -> bool {
    let without = std::env::var("KRON_TEST_WITHOUT").unwrap_or_default();
    for need in needs {
        if without.split([',', ' ']).any(|word| word == need.name()) {
            eprintln!("did not run, because KRON_TEST_WITHOUT names `{}`: {test}", need.name());
            return true;
        }
        if let Some(missing) = need.missing() {
            panic!("{missing}, or set KRON_TEST_WITHOUT={}", need.name());
        }
    }
    false
}

/// The library that gives a program another clock, for programs with several threads.
pub(crate) fn preloaded_clock() -> Option<PathBuf> {
    const NAME: &str = "faketime/libfaketimeMT.so.1";
    let directories = Path::new("/usr/lib").read_dir().ok()?;
    let paths = directories.filter_map(|entry| Some(entry.ok()?.path().join(NAME)));
    paths.chain([Path::new("/usr/lib").join(NAME)]).find(|path| path.exists())
}
