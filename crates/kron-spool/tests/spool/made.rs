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
