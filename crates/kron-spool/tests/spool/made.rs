//! Things made up for tests.

use std::path::Path;

use kron_core::Timestamp;
use kron_spool::{
    Fate, NewTask, Next, Outcome, Recovered, RetryPolicy, Run, Spool, SpoolError, TaskId,
    TaskResult,
};
use kron_state::{Moves, Process, RunId};

/// Who is neither root nor anybody else on this machine.
pub(crate) const STRANGER: u32 = 12_345;

/// So many seconds into March 2026.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let march: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    march.saturating_add_ms(seconds * 1_000)
}

/// Later than anything that any test writes, whatever the machine's clock says.
pub(crate) fn far_future() -> Timestamp {
    "2999-01-01T00:00:00Z".parse().unwrap()
}

/// The machine's time, which real files carry.
pub(crate) fn machine_now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_unix_ms(i64::try_from(since.as_millis()).unwrap()).unwrap()
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

/// A task whose payload says whose it is.
pub(crate) fn new_task(text: &str) -> NewTask {
    NewTask::new(id(text), "T", &data(text)).unwrap()
}

pub(crate) fn data(text: &str) -> String {
    format!(r#"{{"of":"{text}"}}"#)
}

/// The file of a task as a producer that has nothing of ours would write it.
pub(crate) fn text(id: &str, state: &str, more: &str) -> String {
    let data = data(id);
    format!(
        r#"{{"taskId":"{id}","state":"{state}","createdAt":"2026-03-01T00:00:00Z",{more}"payload":{{"type":"T","data":{data}}}}}"#
    )
}

/// As [`new_task`] is written, so that both are the same to the byte.
pub(crate) fn text_of_put(id: &str) -> String {
    let data = data(id);
    format!(
        "{{\"taskId\":\"{id}\",\"state\":\"PENDING\",\"createdAt\":\"2026-03-01T00:00:00Z\",\
         \"payload\":{{\n    \"type\": \"T\",\n    \"data\": {data}\n  }}}}"
    )
}

pub(crate) fn a_run(bits: u64) -> Run {
    Run {
        run_id: RunId::from_bits(bits),
        boot_id: "8d3c".to_owned(),
        supervisor: Process { pid: 3_999, start_ticks: 76 },
        command: Process { pid: 4_000, start_ticks: 77 },
    }
}

pub(crate) fn ended(code: i32) -> TaskResult {
    let outcome = if code == 0 { Outcome::Succeeded } else { Outcome::Failed };
    let error = (code != 0).then(|| format!("it exited with {code}"));
    TaskResult { outcome, exit_code: Some(code), error, output: Some("out\n".to_owned()) }
}

pub(crate) fn again(seconds: i64) -> Next {
    Next::Again { error: "it exited with 1".to_owned(), not_before: at(seconds) }
}

pub(crate) fn policy(_: &str) -> RetryPolicy {
    RetryPolicy {
        retries_max: 3,
        lost_retries_max: 10,
        backoff_first_ms: 10_000,
        backoff_max_ms: 3_600_000,
    }
}

pub(crate) fn recover<D: Moves>(spool: &Spool<D>, fate: Fate) -> Result<Recovered, SpoolError> {
    spool.recover(at(1_000), &mut |_| fate, &policy)
}

pub(crate) fn open(path: &Path) -> Spool {
    open_with(path, &[])
}

/// The lock goes at once, so that a test can open a spool twice.
pub(crate) fn open_with(path: &Path, producers: &[u32]) -> Spool {
    let (spool, _lock) = Spool::open(path, producers).unwrap();
    spool
}

/// Small numbers from a seed: enough to choose among possibilities, and the same every time.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// Whether a test may be left out, because the environment says that something is not to be had.
pub(crate) fn left_out(requirement: &str, test: &str) -> bool {
    let without = std::env::var("KRON_TEST_WITHOUT").unwrap_or_default();
    let left_out = without.split([',', ' ']).any(|word| word == requirement);
    if left_out {
        eprintln!("did not run, because KRON_TEST_WITHOUT names `{requirement}`: {test}");
    }
    left_out
}

/// Whether a test that needs root may be left out.
pub(crate) fn without_root(test: &str) -> bool {
    let left_out = left_out("root", test);
    let is_root = rustix::process::geteuid().is_root();
    assert!(left_out || is_root, "needs root (or set KRON_TEST_WITHOUT=root): {test}");
    left_out
}

/// A directory in memory where that can be had: for tests of many steps that need no real syncs.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
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
