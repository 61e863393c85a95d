//! The handler of every job: this very test binary, which writes down that it ran.
//!
//! Its first deed is one line in the witness, its last before it leaves is another; each is one
//! small write to the end of the file, and synced. Nobody else writes there, so the order of the
//! lines is the order of what happened.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kron_testkit::files;
use kron_testkit::waiting::GLANCE;
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// The name of the witness, in the directory of witnesses.
pub(crate) const FILE: &str = "lines";
/// What a handler waits for that is held, there.
pub(crate) const RELEASE: &str = "release";
/// The test that is the handler when a daemon runs it.
const TEST: &str = "queue_crash::witness::a_handler_writes_down_that_it_ran";

/// What a handler said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It runs.
    Begin { job: String, run: String, attempt: i64, retry_of: String, name: String },
    /// It leaves, with this code.
    End { job: String, run: String, code: i64 },
}

/// When a line was written, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) at_ns: u64,
    pub(crate) line: Line,
}

/// The table of a handler for this type.
pub(crate) fn handler(job_type: &str, more: &str) -> String {
    let program = std::env::current_exe().unwrap();
    // The last word is a filter that meets nothing more; it tells where the witness is.
    format!(
        "[queue.handler.{job_type}]\n\
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
        ["begin", job, run, attempt, retry_of, name] => Line::Begin {
            job: owned(job),
            run: owned(run),
            attempt: attempt.parse().ok()?,
            retry_of: owned(retry_of),
            name: owned(name),
        },
        ["end", job, run, code] => {
            Line::End { job: owned(job), run: owned(run), code: code.parse().ok()? }
        }
        _ => return None,
    };
    Some(Said { at_ns, line })
}

/// A clock that all processes share and nobody sets.
pub(crate) fn now_ns() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_nanos() as u64
}

#[test]
fn a_handler_writes_down_that_it_ran() {
    let Some(job) = told("KRON_JOB_ID") else { return };
    let run = told("KRON_RUN_ID").unwrap();
    let or_dash = |name| told(name).filter(|text| !text.is_empty()).unwrap_or("-".to_owned());
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let params: Value = serde_json::from_str(&text).unwrap();
    let directory = PathBuf::from(std::env::args().next_back().unwrap());
    let witness = File::options().create(true).append(true).open(directory.join(FILE)).unwrap();
    let name = params["name"].as_str().unwrap_or("-");
    let (attempt, retry_of) = (or_dash("KRON_ATTEMPT"), or_dash("KRON_RETRY_OF"));
    write(&witness, &format!("begin {job} {run} {attempt} {retry_of} {name}"));
    std::thread::sleep(Duration::from_millis(params["ms"].as_u64().unwrap_or_default()));
    while params["held"] == true && directory.exists() && !directory.join(RELEASE).exists() {
        std::thread::sleep(GLANCE);
    }
    let code = params["code"].as_i64().unwrap_or_default();
    write(&witness, &format!("end {job} {run} {code}"));
    #[expect(clippy::disallowed_methods, reason = "this is the end of a handler, not of a test")]
    std::process::exit(code as i32);
}

fn write(mut witness: &File, line: &str) {
    let line = format!("{} {line}\n", now_ns());
    witness.write_all(line.as_bytes()).unwrap();
    witness.sync_data().unwrap();
}

#[expect(clippy::disallowed_methods, reason = "what a daemon tells its handlers")]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
