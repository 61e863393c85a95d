//! The handler of every task: this very test binary, which writes down that it ran.
//!
//! Its first deed is one line in the witness, its last before it leaves is another; each is one
//! small write to the end of the file. Nobody else writes there, so the order of the lines is the
//! order of what happened. What is killed are processes, never the machine, so nothing is synced.
//!
//! While it runs it holds a lock of the kernel on a file of its task's, which ends with it however
//! that ends; a handler that finds it taken runs beside another of the same task, and says so.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kron_testkit::files;
use kron_testkit::waiting::GLANCE;
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::spool_crash::checker::Kind;

/// The name of the witness, in the directory of witnesses.
pub(crate) const FILE: &str = "lines";
/// The directory of the locks, beside it.
const LOCKS: &str = "locks";
/// The test that is the handler when a daemon runs it.
const TEST: &str = "spool_crash::witness::a_handler_writes_down_that_it_ran";

/// What a handler said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It runs, with this in its payload.
    Begin { task: String, run: String, attempt: i64, mark: String },
    /// It runs beside another of its task.
    Overlap { task: String, run: String },
    /// It leaves, with this code.
    End { task: String, run: String, code: i64 },
}

impl Line {
    pub(crate) fn task(&self) -> &str {
        let (Line::Begin { task, .. } | Line::Overlap { task, .. } | Line::End { task, .. }) = self;
        task
    }
}

/// When a line was written, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) at_ns: u64,
    pub(crate) line: Line,
}

/// The table of a handler for this kind of task.
pub(crate) fn handler(spool: &str, kind: Kind, more: &str) -> String {
    let program = std::env::current_exe().unwrap();
    // The last word is a filter that meets nothing more; it tells where the witness is.
    format!(
        "[spool.{spool}.handler.{kind}]\n\
         command = [{program:?}, \"--exact\", \"--nocapture\", \"--test-threads=1\", {TEST:?}, \"{{dir}}\"]\n\
         {more}\n"
    )
}

/// Everything that was written down, in order.
pub(crate) fn lines(path: &Path) -> Vec<Said> {
    let text = files::read(path).unwrap_or_default();
    // A line that is being written is none yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| parse(line).unwrap_or_else(|| panic!("no line: `{line}`"))).collect()
}

fn parse(line: &str) -> Option<Said> {
    let words: Vec<&str> = line.split(' ').collect();
    let (at_ns, rest) = (words.first()?.parse().ok()?, &words[1..]);
    let owned = |word: &str| word.to_owned();
    let line = match *rest {
        ["begin", task, run, attempt, mark] => Line::Begin {
            task: owned(task),
            run: owned(run),
            attempt: attempt.parse().ok()?,
            mark: owned(mark),
        },
        ["overlap", task, run] => Line::Overlap { task: owned(task), run: owned(run) },
        ["end", task, run, code] => {
            Line::End { task: owned(task), run: owned(run), code: code.parse().ok()? }
        }
        _ => return None,
    };
    Some(Said { at_ns, line })
}

/// The clock by which the daemon decides when a task is tried again. What came first is told by the
/// order of the lines.
fn now_ns() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_REALTIME).unwrap()).as_nanos() as u64
}

/// The file that a task of [`Kind::Held`] waits for.
pub(crate) fn release_of(task: &str) -> String {
    format!("release-{task}")
}

/// What a handler prints, so that it is found in its result.
pub(crate) fn printed(task: &str, attempt: i64) -> String {
    format!("did {task} at attempt {attempt}")
}

#[test]
fn a_handler_writes_down_that_it_ran() {
    let Some(task) = told("KRON_TASK_ID") else { return };
    let run = told("KRON_RUN_ID").unwrap();
    let attempt: i64 = told("KRON_ATTEMPT").unwrap().parse().unwrap();
    let kind = Kind::of(&told("KRON_TASK_TYPE").unwrap()).unwrap();
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let payload: Value = serde_json::from_str(&text).unwrap();
    let directory = PathBuf::from(std::env::args().next_back().unwrap());
    let witness = File::options().create(true).append(true).open(directory.join(FILE)).unwrap();
    let mark = payload["data"]["mark"].as_str().unwrap_or("-");
    write(&witness, &format!("begin {task} {run} {attempt} {mark}"));
    fs::create_dir_all(directory.join(LOCKS)).unwrap();
    let lock = File::create(directory.join(LOCKS).join(&task)).unwrap();
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => write(&witness, &format!("overlap {task} {run}")),
        Err(TryLockError::Error(error)) => panic!("{error}"),
    }
    std::thread::sleep(Duration::from_millis(kind.lasts_ms()));
    let release = directory.join(release_of(&task));
    while kind == Kind::Held && directory.exists() && !release.exists() {
        std::thread::sleep(GLANCE);
    }
    writeln!(std::io::stdout(), "{}", printed(&task, attempt)).unwrap();
    let code = kind.exit_code(attempt);
    write(&witness, &format!("end {task} {run} {code}"));
    drop(lock);
    #[expect(clippy::disallowed_methods, reason = "this is the end of a handler, not of a test")]
    std::process::exit(code as i32);
}

fn write(mut witness: &File, line: &str) {
    witness.write_all(format!("{} {line}\n", now_ns()).as_bytes()).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "what a daemon tells its handlers")]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
