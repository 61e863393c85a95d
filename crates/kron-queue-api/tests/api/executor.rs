//! An executor that really runs direct jobs through the queue's reservations, and a worker that
//! works the queue off. What a job does is in its parameters: `fail`, `skip`, `hold`.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use kron_queue::{
    Claim, Claimed, ClaimedRun, Finish, Finished, NewJob, Outcome, ProcessIdentity, Queue, Release,
    ReservationError, Reserve, RunEnd, StartDirect, StoreError, Timestamp,
};
use kron_queue_api::{
    Clock, DirectAnswer, DirectRefusal, DirectRequest, Directly, Executor, HandlerView,
};

/// The types for which there are handlers.
pub(crate) const TYPES: [&str; 2] = ["story", "research"];

/// Runs direct jobs, holding back those that say `hold` until they are let go.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) queue: Queue,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) held: Arc<Gate>,
}

/// Holds runs back, by the value of their `hold`.
#[derive(Default)]
pub(crate) struct Gate {
    open: Mutex<BTreeMap<String, bool>>,
    changed: Condvar,
}

impl Gate {
    /// Lets everything with this name go.
    pub(crate) fn open(&self, name: &str) {
        self.open.lock().unwrap().insert(name.to_owned(), true);
        self.changed.notify_all();
    }

    /// Waits until somebody lets `name` go.
    pub(crate) fn pass(&self, name: &str) {
        let open = self.open.lock().unwrap();
        let closed = |open: &mut BTreeMap<String, bool>| !open.get(name).copied().unwrap_or(false);
        drop(self.changed.wait_while(open, closed).unwrap());
    }
}

impl Worker {
    pub(crate) fn finish(&self, run: &ClaimedRun) -> Finished {
        let params = &run.run.params_snapshot;
        if let Some(name) = params.get("hold").and_then(|name| name.as_str()) {
            self.held.pass(name);
        }
        let outcome = if params.get("fail").is_some() {
            Outcome::Failed
        } else if params.get("skip").is_some() {
            Outcome::Skipped
        } else {
            Outcome::Completed
        };
        let end = RunEnd { exit_code: Some(0), ..RunEnd::new(outcome) };
        let (run_id, token) = (run.run.run_id, run.token.clone());
        self.queue.call(Finish { run_id, token, end, now: self.clock.now() }).unwrap()
    }

    /// Claims a job, if there is one to claim.
    pub(crate) fn claim(&self) -> Option<ClaimedRun> {
        let claim = Claim { worker_id: "w".to_owned(), now: self.clock.now() };
        match self.queue.call(claim).unwrap() {
            Claimed::Run(run) => Some(*run),
            Claimed::Nothing(_) => None,
        }
    }

    fn run(&self, request: DirectRequest) -> Result<DirectAnswer, DirectRefusal> {
        if !TYPES.contains(&request.job_type.as_str()) {
            return Err(DirectRefusal::NoHandler { job_type: request.job_type });
        }
        let now = self.clock.now();
        let owner = ProcessIdentity { boot_id: "boot".to_owned(), pid: 1, start_ticks: 1 };
        let reserve = Reserve { reserved_by: request.reserved_by, owner, lasts_ms: 60_000, now };
        let reservation_id =
            self.queue.call(reserve).map_err(|error| self.refusal(error))?.reservation_id;
        let job = NewJob::of_type(&request.job_type, request.params);
        let started =
            self.queue.call(StartDirect { reservation_id, job, worker_id: "direct".into(), now });
        let run = match started {
            Ok(Claimed::Run(run)) => run,
            Ok(Claimed::Nothing(_)) => {
                self.release(reservation_id);
                return Err(DirectRefusal::Busy { reservation: None });
            }
            Err(error) => {
                self.release(reservation_id);
                return Err(self.refusal(error));
            }
        };
        let ended = self.finish(&run);
        self.release(reservation_id);
        Ok(DirectAnswer { job: ended.job, run: ended.run })
    }

    fn release(&self, reservation_id: kron_queue::ReservationId) {
        let now = self.clock.now();
        // It may have been released with the end of its run.
        let _ = self.queue.call(Release { reservation_id, now });
    }

    fn refusal(&self, error: ReservationError) -> DirectRefusal {
        match error {
            ReservationError::Invalid(invalid) => DirectRefusal::Invalid(invalid),
            ReservationError::Busy(_) => {
                DirectRefusal::Busy { reservation: self.queue.reservation().unwrap() }
            }
            ReservationError::Enqueue(error) => DirectRefusal::Enqueue(error),
            ReservationError::Store(error) => DirectRefusal::Store(error),
            other => DirectRefusal::Failed { reason: other.to_string() },
        }
    }
}

impl Executor for Worker {
    fn direct(&self, request: DirectRequest) -> Directly {
        let worker = self.clone();
        Box::pin(async move {
            let closed = |_| DirectRefusal::Store(StoreError::Closed);
            tokio::task::spawn_blocking(move || worker.run(request)).await.map_err(closed)?
        })
    }

    fn handlers(&self) -> Vec<HandlerView> {
        TYPES
            .map(|job_type| HandlerView {
                job_type: job_type.to_owned(),
                kind: "command".to_owned(),
                concurrency_max: None,
                timeout_ms: Some(1_000),
                retries_max: 3,
            })
            .into()
    }

    fn workers_max(&self) -> u32 {
        4
    }
}

/// The machine's time.
pub(crate) struct Machine;

impl Clock for Machine {
    #[expect(clippy::disallowed_methods, reason = "the daemon's part is played here")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_unix_ms(since.as_millis() as i64).unwrap()
    }
}
