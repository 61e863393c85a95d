//! Trials: a test is run with a canary, and is required to fail.
//!
//! [`canary_tests!`](crate::canary_tests) makes an ordinary test of each canary. That test executes
//! its own test program again for the one test that must notice, with [`VARIABLE`] set, and in a PID
//! namespace of its own where it may have one, so that whatever broken supervisors leave running
//! ends with it. It fails with the output of that run if the run succeeds (a test of a wrong name is
//! such a run), does not say what it must, or hangs.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Canary, VARIABLE};

/// When a trial is taken for hung. It is a little less than what nextest gives the test around it
/// (`.config/nextest.toml`), so that what the trial said is reported. Its time proves nothing: a
/// single wait of the test in it may take three minutes.
const PATIENCE: Duration = Duration::from_secs(1_100);
/// How often it is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(20);
/// The environment variable that chooses points of the crash tests.
const SUBSET: &str = "KRON_CRASH_SUBSET";
/// The environment variable that names what the machine lacks, whose tests are left out.
const WITHOUT: &str = "KRON_TEST_WITHOUT";
/// The environment variable that names the file that lists the tests that were left out.
const LEFT_OUT: &str = "KRON_TEST_LEFT_OUT";
/// The need to trace processes that are not the tracer's children. Where the kernel allows that to
/// root only, it is left out with [`AS_ROOT`], as in `kron_testkit::needs`.
const ATTACH: &str = "attach";
/// The word for what only root may do.
const AS_ROOT: &str = "root";
/// The user id of root.
const ROOT: u32 = 0;
/// A PID namespace that ends with its first process, as `unshare` has it.
const NAMESPACE: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// The test programs that have canaries, as `cargo test` is told of them.
const SUITES: &[&str] = &[
    "-p kron-exec --test supervision",
    "-p kron-spool --test spool",
    "-p kron-state --test store",
    "-p krond --test krond",
];

/// Makes a test of each canary of a test program, and one that none of them lacks its own. A program
/// with a harness of its own calls [`require_noticed`] and [`require_whole`] itself.
///
/// The canaries of a program are those whose patches name it.
#[macro_export]
macro_rules! canary_tests {
    ($($test:ident: $canary:ident,)*) => {
        const SUITE: &str =
            concat!("-p ", env!("CARGO_PKG_NAME"), " --test ", env!("CARGO_CRATE_NAME"));

        $(
            #[test]
            fn $test() {
                $crate::trial::require_noticed(SUITE, $crate::Canary::$canary);
            }
        )*

        #[test]
        fn every_canary_has_its_test() {
            $crate::trial::require_whole(SUITE, &[$($crate::Canary::$canary,)*]);
        }
    };
}

/// Who must notice a canary, as the text above its patch says.
struct Notice {
    /// The test program, as `cargo test` is told of it.
    suite: String,
    /// The arguments of that program that select the test.
    arguments: Vec<String>,
    /// The points of the crash matrix; empty for all of them.
    subset: String,
    /// What the test needs of the machine: words that [`WITHOUT`] may hold, and [`ATTACH`].
    needs: Vec<String>,
    /// What the test must say.
    expected: String,
}

/// The directory of the patches.
fn patches() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../krond/tests/canaries")
}

impl Notice {
    fn of(canary: Canary) -> Notice {
        let path = patches().join(format!("{canary}.patch"));
        #[expect(clippy::disallowed_methods, reason = "a file of the test suite")]
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("`{}`: {error}", path.display()));
        let field = |name: &str| {
            let head = text.lines().take_while(|line| !line.starts_with("--- "));
            let mut values = head.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            values.next().unwrap_or_default().to_owned()
        };
        let (run, expected) = (field("run"), field("expect"));
        let (suite, arguments) = run.split_once(" -- ").unwrap_or_default();
        assert!(!suite.is_empty() && !expected.is_empty(), "{canary} does not say who notices it");
        let words = |text: &str| text.split_ascii_whitespace().map(str::to_owned).collect();
        Notice {
            suite: suite.to_owned(),
            arguments: words(arguments),
            needs: words(&field("needs")),
            subset: field("subset"),
            expected,
        }
    }
}

/// Runs the test that must notice `canary`, and fails unless it does.
///
/// # Panics
/// Nothing noticed it, or not in the expected words.
pub fn require_noticed(suite: &str, canary: Canary) {
    let notice = Notice::of(canary);
    assert_eq!(notice.suite, suite, "{canary} is noticed elsewhere");
    if is_left_out(canary, &notice) {
        return;
    }
    let (status, output) = run(canary, &notice);
    let why = match status {
        None => format!("nothing noticed {canary} within {PATIENCE:?}"),
        Some(status) if status.success() => format!("nothing noticed {canary}"),
        Some(status) if status.signal().is_some() => format!("{canary} killed its test: {status}"),
        Some(_) if !output.contains(&notice.expected) => {
            format!("{canary} made its test fail, but not with `{}`", notice.expected)
        }
        Some(_) => return,
    };
    panic!("{why}; the test was {:?} and said:\n{output}", notice.arguments);
}

/// Whether [`WITHOUT`] names something that the test needs.
#[expect(clippy::print_stderr, reason = "what did not run is reported")]
fn is_left_out(canary: Canary, notice: &Notice) -> bool {
    let without = std::env::var_os(WITHOUT).unwrap_or_default();
    let without = without.to_string_lossy();
    let missing = notice.needs.iter().find_map(|need| declined(need, &without, may_attach));
    if let Some(missing) = missing {
        eprintln!("did not run, because {WITHOUT} names `{missing}`: {canary}");
        if let Some(path) = std::env::var_os(LEFT_OUT).filter(|path| !path.is_empty()) {
            let list = File::options().create(true).append(true).open(path);
            let line = format!("{missing}\tcanary {canary}\n");
            list.and_then(|mut list| list.write_all(line.as_bytes())).expect("the list is written");
        }
    }
    missing.is_some()
}

/// The word of `without` that leaves this need out, if there is one.
fn declined<'a>(need: &'a str, without: &str, may_attach: fn() -> bool) -> Option<&'a str> {
    let word = if need == ATTACH { AS_ROOT } else { need };
    let is_named = without.split([',', ' ']).any(|named| named == word);
    (is_named && (need != ATTACH || !may_attach())).then_some(word)
}

/// Whether a tracer of this user's may attach to processes that are not its children.
fn may_attach() -> bool {
    let scope = File::open("/proc/sys/kernel/yama/ptrace_scope").and_then(io::read_to_string);
    is_root() || !scope.is_ok_and(|scope| scope.trim() != "0")
}

/// Runs the test and returns its status, if it ended in time, and its output.
fn run(canary: Canary, notice: &Notice) -> (Option<ExitStatus>, String) {
    let program = std::env::current_exe().expect("the path of this test program");
    let mut output = unnamed_file(canary).expect("a file for the output");
    let mut command = if has_namespaces() {
        let mut command = Command::new("unshare");
        command.args(NAMESPACE).arg("--").arg(program);
        command
    } else {
        Command::new(program)
    };
    // A file and not a pipe: broken supervisors that outlive the test would keep a pipe open.
    let stream = || Stdio::from(output.try_clone().expect("a descriptor"));
    command
        .args(&notice.arguments)
        .arg("--nocapture")
        .env(VARIABLE, canary.name())
        .env(SUBSET, &notice.subset)
        .stdin(Stdio::null())
        .stdout(stream())
        .stderr(stream())
        .process_group(0);
    let status = wait(command.spawn().expect("the test is started"));
    let mut said = Vec::new();
    output.rewind().and_then(|()| output.read_to_end(&mut said)).expect("its output");
    (status, String::from_utf8_lossy(&said).into_owned())
}

/// A file that is gone when it is closed.
fn unnamed_file(canary: Canary) -> io::Result<File> {
    let name = format!("kron-canary-{canary}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).append(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Whether this process may make namespaces; root in a container may not.
fn has_namespaces() -> bool {
    let probe = Command::new("unshare").args(NAMESPACE).args(["--", "true"]).output();
    probe.is_ok_and(|output| output.status.success())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == ROOT)
}

#[expect(clippy::disallowed_methods, reason = "a test that hangs is ended by the clock")]
fn wait(mut child: Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("the test's status") {
            return Some(status);
        }
        thread::sleep(GLANCE);
    }
    // In a namespace, everything in it ends with this.
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Fails unless `tested` are the canaries of this test program, and every canary and every patch
/// belongs to the other.
///
/// # Panics
/// The list is not whole.
pub fn require_whole(suite: &str, tested: &[Canary]) {
    assert!(SUITES.contains(&suite), "`{suite}` is not among the programs that have canaries");
    for canary in Canary::ALL {
        let notice = Notice::of(*canary);
        let known = SUITES.contains(&notice.suite.as_str());
        assert!(known, "{canary} is noticed by `{}`, which has no canaries", notice.suite);
        let is_tested = tested.contains(canary);
        assert_eq!(is_tested, notice.suite == suite, "{canary} is tested here: {is_tested}");
    }
    for entry in std::fs::read_dir(patches()).expect("the patches") {
        let name = entry.expect("a patch").file_name().to_string_lossy().into_owned();
        let canary = name.strip_suffix(".patch").map(str::parse::<Canary>);
        assert!(matches!(canary, Some(Ok(_))), "`{name}` is the patch of no canary");
    }
}

#[test]
fn a_canary_is_left_out_by_the_words_that_leave_out_its_test() {
    for (need, without, may_attach, word) in [
        ("strace", "", false, None),
        ("strace", "root,strace", true, Some("strace")),
        ("root", "strace root", true, Some("root")),
        ("mount", "root", true, None),
        (ATTACH, "root", false, Some("root")),
        (ATTACH, "root", true, None),
        (ATTACH, "strace", false, None),
    ] {
        let may_attach: fn() -> bool = if may_attach { || true } else { || false };
        assert_eq!(declined(need, without, may_attach), word, "{need} without {without}");
    }
}
