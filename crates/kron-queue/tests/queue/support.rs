//! A queue in a directory of its own, and a shell's view of its file.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};

use kron_queue::{
    Claim, Claimed, ClaimedRun, Context, Enqueue, Finish, Finished, Job, JobId, NewJob, Operation,
    Outcome, ProcessIdentity, Queue, Rules, RunEnd, RunError, StoreError, Timestamp,
};
use kron_testkit::files::scratch;
use serde_json::json;

pub(crate) struct World {
    pub(crate) queue: Queue,
    pub(crate) path: PathBuf,
    _directory: tempfile::TempDir,
}

/// This many seconds after a fixed moment.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + seconds * 1_000).unwrap()
}

pub(crate) fn many_workers() -> Rules {
    Rules { workers_max: 1_000, ..Rules::default() }
}

pub(crate) fn process(pid: i64) -> ProcessIdentity {
    ProcessIdentity { boot_id: "boot".into(), pid, start_ticks: 7 }
}

/// Waits in the writer until it is opened, so that other operations gather behind it.
struct Gate(Receiver<()>);

impl Operation for Gate {
    type Output = ();
    type Error = StoreError;

    fn execute(self, _: &mut Context<'_>) -> Result<(), StoreError> {
        let _ = self.0.recv();
        Ok(())
    }
}

impl World {
    pub(crate) fn new(rules: Rules) -> World {
        let directory = scratch();
        let path = directory.path().join("state").join("queue.db");
        let queue = Queue::open(&path, rules).unwrap();
        World { queue, path, _directory: directory }
    }

    pub(crate) fn reopen(self, rules: Rules) -> World {
        let World { queue, path, _directory } = self;
        drop(queue);
        World { queue: Queue::open(&path, rules).unwrap(), path, _directory }
    }

    /// A connection as a shell would have it, with foreign keys on.
    pub(crate) fn shell(&self) -> rusqlite::Connection {
        let shell = rusqlite::Connection::open(&self.path).unwrap();
        shell.pragma_update(None, "foreign_keys", "ON").unwrap();
        shell.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        shell
    }

    pub(crate) fn add(&self, job: NewJob) -> Job {
        let jobs = self.queue.call(Enqueue { jobs: vec![job], now: at(0) }).unwrap();
        jobs[0].job().clone()
    }

    pub(crate) fn story(&self) -> Job {
        self.add(NewJob::of_type("story", json!({"n": 1})))
    }

    pub(crate) fn claim_at(&self, seconds: i64) -> Claimed {
        self.queue.call(Claim { worker_id: "w".into(), now: at(seconds) }).unwrap()
    }

    pub(crate) fn claim(&self, seconds: i64) -> ClaimedRun {
        match self.claim_at(seconds) {
            Claimed::Run(run) => *run,
            Claimed::Nothing(why) => panic!("nothing to claim: {why:?}"),
        }
    }

    pub(crate) fn finish(
        &self,
        run: &ClaimedRun,
        outcome: Outcome,
        seconds: i64,
    ) -> Result<Finished, RunError> {
        self.queue.call(Finish {
            run_id: run.run.run_id,
            token: run.token.clone(),
            end: RunEnd::new(outcome),
            now: at(seconds),
        })
    }

    pub(crate) fn job(&self, id: JobId) -> Job {
        self.queue.job(id).unwrap().unwrap()
    }

    /// Holds the writer until something is sent.
    pub(crate) fn hold_writer(&self) -> Sender<()> {
        let (open, gate) = mpsc::channel();
        self.queue.submit(Gate(gate), |result| result.unwrap());
        open
    }

    pub(crate) fn order(&self) -> Vec<JobId> {
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let page = self.queue.order(after.as_ref(), 7).unwrap();
            ids.extend(page.items.iter().map(|job| job.job_id));
            after = page.next;
            if after.is_none() {
                return ids;
            }
        }
    }
}
