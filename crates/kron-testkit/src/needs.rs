//! What tests need of the machine they run on.
//!
//! A test whose needs are not met fails and says what to install. The variable `KRON_TEST_WITHOUT`
//! names what a machine does not have (`root`, `strace`, `faketime`, `loop`, `mount`, `python3`,
//! `terminal`; several with commas): the tests that need it are left out instead. Each of them is reported on
//! standard error and, where `KRON_TEST_LEFT_OUT` names a file, by a line at its end: the need, a
//! tab and the name of the test.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::read;

/// Names what the machine does not have.
const WITHOUT: &str = "KRON_TEST_WITHOUT";
/// Names the file that lists the tests that were left out.
const LEFT_OUT: &str = "KRON_TEST_LEFT_OUT";

/// Something that not every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To own files as another user, to run commands as one, to mount.
    Root,
    /// To make system calls fail, or kill a process at one.
    Strace,
    /// To trace processes that are not the tracer's children. Where the kernel allows that to root
    /// only, it is left out with `root`.
    Attach,
    /// A clock of a process's own.
    Faketime,
    /// An ext4 that loses its power.
    Loop,
    /// A disk that can be filled.
    Mount,
    /// Scripts that make system calls which no other program makes.
    Python,
    /// A terminal of a program's own.
    Terminal,
}

impl Need {
    /// The word that `KRON_TEST_WITHOUT` has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Need::Root | Need::Attach => "root",
            Need::Strace => "strace",
            Need::Faketime => "faketime",
            Need::Loop => "loop",
            Need::Mount => "mount",
            Need::Python => "python3",
            Need::Terminal => "terminal",
        }
    }

    /// What is missing, if it is.
    fn missing(self) -> Option<&'static str> {
        let is_root = nix::unistd::geteuid().is_root();
        match self {
            Need::Root => (!is_root).then_some("this test is run by root"),
            Need::Attach => {
                (!is_root && attaching_is_restricted()).then_some("only root may attach a tracer")
            }
            Need::Strace => missing_program("strace", "install the Debian package `strace`"),
            Need::Faketime => {
                preloaded_clock().is_none().then_some("install the Debian package `faketime`")
            }
            Need::Loop => missing_program("mkfs.ext4", "install the Debian package `e2fsprogs`"),
            Need::Mount => missing_program("mount", "install the Debian package `mount`"),
            Need::Python => missing_program("python3", "install the Debian package `python3`"),
            Need::Terminal => missing_program("script", "install the Debian package `bsdutils`"),
        }
    }
}

fn missing_program(program: &str, advice: &'static str) -> Option<&'static str> {
    Command::new(program).arg("--version").output().is_err().then_some(advice)
}

/// Whether the kernel lets users trace their own children only.
fn attaching_is_restricted() -> bool {
    let scope = read(Path::new("/proc/sys/kernel/yama/ptrace_scope"));
    scope.is_some_and(|scope| scope.trim() != "0")
}

/// Whether a test is left out because `KRON_TEST_WITHOUT` names something that it needs, which is
/// reported. `test` says what it is about.
///
/// # Panics
///
/// If something is missing that was not named.
#[track_caller]
pub fn left_out(test: &str, needs: &[Need]) -> bool {
    match declined(needs) {
        Some(need) => {
            report_left_out(test, need);
            true
        }
        None => {
            require(needs);
            false
        }
    }
}

/// The first of these needs that `KRON_TEST_WITHOUT` names.
pub fn declined(needs: &[Need]) -> Option<Need> {
    let without = variable(WITHOUT).unwrap_or_default();
    let is_named = |need: &Need| without.split([',', ' ']).any(|word| word == need.name());
    // Not everything that root is always allowed to do is forbidden to others.
    let is_declined =
        |need: &Need| is_named(need) && (*need != Need::Attach || need.missing().is_some());
    needs.iter().copied().find(is_declined)
}

/// Requires that the machine has all of this.
///
/// # Panics
///
/// If something is missing.
#[track_caller]
pub fn require(needs: &[Need]) {
    if let Some(missing) = missing(needs) {
        panic!("{missing}");
    }
}

/// What the machine lacks of this, and how to leave out the tests that need it.
pub fn missing(needs: &[Need]) -> Option<String> {
    let (need, missing) = needs.iter().find_map(|need| Some((need, need.missing()?)))?;
    Some(format!("{missing}, or set {WITHOUT}={}", need.name()))
}

/// Reports that a test did not run.
#[expect(clippy::print_stderr, reason = "a test that did not run is reported")]
pub fn report_left_out(test: &str, need: Need) {
    let need = need.name();
    eprintln!("did not run, because {WITHOUT} names `{need}`: {test}");
    let Some(path) = variable(LEFT_OUT).filter(|path| !path.is_empty()) else { return };
    let mut list = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // At once: other tests write to it too.
    list.write_all(format!("{need}\t{}\n", running_test().as_deref().unwrap_or(test)).as_bytes())
        .unwrap();
}

/// The name of the test that calls this. The harness gives it to the thread of a test, unless all
/// tests share one thread.
fn running_test() -> Option<String> {
    let thread = std::thread::current();
    thread.name().filter(|name| *name != "main").map(str::to_owned)
}

#[expect(clippy::disallowed_methods, reason = "the variables that leave tests out")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The library that gives a program another clock, for programs with several threads.
pub fn preloaded_clock() -> Option<PathBuf> {
    const NAME: &str = "faketime/libfaketimeMT.so.1";
    let directories = Path::new("/usr/lib").read_dir().ok()?;
    let paths = directories.filter_map(|entry| Some(entry.ok()?.path().join(NAME)));
    paths.chain([Path::new("/usr/lib").join(NAME)]).find(|path| path.exists())
}
