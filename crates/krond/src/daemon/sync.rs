//! The threads that write state.
//!
//! They take the most urgent write from the [`Queue`], make it durable, and tell the loop. The
//! first write of state that fails stops them all: what is on disk is then unknown, so nothing
//! more is written and the loop leaves. Only exhaustion of descriptors or memory, which is met
//! before anything is changed, is waited out.

use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kron_core::Category;
use kron_state::{Change, PeriodRef, RealDirectory, Store, StoreError};

use super::clock;
use super::inbox::{Done, Results, WriteFailure};
use super::sync_queue::{Batch, Lane, Order, Queue, Work};
use super::worker;
use crate::log::{Log, told};
use crate::machine::{Entry, Level, Ticket};
use crate::metrics::Metrics;

/// The first pause when descriptors or memory have run out; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// How long a daemon that wants to leave waits out a shortage.
const LEAVING_PATIENCE: Duration = Duration::from_secs(5);
/// The longest such pause.
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// The threads and their queue.
#[derive(Debug)]
pub(super) struct SyncPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write, or nothing more will come.
    changed: Condvar,
    /// Nothing more may be written. Its own, so that whoever pauses takes no call from the others.
    stopped: Condvar,
    store: Arc<Store<RealDirectory>>,
    results: Results,
    metrics: Arc<Metrics>,
    log: Log,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    /// Nothing more will be asked for.
    closing: bool,
    /// Why nothing more may be written.
    failed: Option<String>,
    /// Until when shortages are waited out, once the daemon wants to leave; in time since boot.
    patient_until: Option<Duration>,
}

impl SyncPool {
    pub(super) fn start(
        thread_count: usize,
        store: Arc<Store<RealDirectory>>,
        results: Results,
        metrics: Arc<Metrics>,
        log: Log,
    ) -> io::Result<SyncPool> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            stopped: Condvar::new(),
            store,
            results,
            metrics,
            log,
        });
        let mut threads = Vec::with_capacity(thread_count);
        for number in 1..=thread_count {
            let shared = shared.clone();
            let name = format!("sync-{number}");
            threads.push(worker::spawn(name, move || shared.work())?);
        }
        Ok(SyncPool { shared, threads })
    }

    pub(super) fn order(&self, order: Order) {
        self.shared.lock().queue.push(order);
        self.shared.changed.notify_one();
    }

    /// The daemon wants to leave: shortages are not waited out for ever any more.
    pub(super) fn hurry(&self) {
        let until = clock::now().boot + LEAVING_PATIENCE;
        self.shared.lock().patient_until.get_or_insert(until);
        self.shared.stopped.notify_all();
    }

    /// Waits until everything asked for is written, and ends the threads.
    ///
    /// # Errors
    /// Why something could not be written.
    pub(super) fn close(&mut self) -> Result<(), String> {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        for thread in mem::take(&mut self.threads) {
            if thread.join().is_err() {
                return Err("a thread that writes state has panicked".to_owned());
            }
        }
        self.shared.lock().failed.take().map_or(Ok(()), Err)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the queue was held would be our own defect; its data is whole all the same.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(batch) = self.take() {
            let Batch { lane, work, tickets } = batch;
            let failed = self.carry_out(work, &tickets);
            self.over(lane, failed);
        }
    }

    fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if let Some(batch) = state.queue.take() {
                return Some(batch);
            }
            if state.closing && state.queue.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn over(&self, lane: Lane, failed: Option<String>) {
        let mut state = self.lock();
        state.queue.done(lane);
        if failed.is_some() {
            self.stopped.notify_all();
        }
        let wake_all = failed.is_some() || state.closing;
        if state.failed.is_none() {
            state.failed = failed;
        }
        let ready = state.queue.has_ready();
        drop(state);
        if wake_all {
            self.changed.notify_all();
        } else if ready {
            self.changed.notify_one();
        }
    }

    /// Does one write and tells whoever waits for it; why nothing more may be written, if so.
    fn carry_out(&self, work: Work, tickets: &[Ticket]) -> Option<String> {
        let result = match work {
            Work::Commit { identity, changes } => {
                let period = changes.iter().find_map(period_of);
                let mut about = Entry::new(Level::Error, "write_failed").of(&identity);
                if let Some(period) = &period {
                    about = about.period(period);
                }
                let began = clock::now().boot;
                let result = self
                    .patiently(&about, "write state", || self.store.commit(&identity, &changes));
                self.metrics.written(clock::now().boot.saturating_sub(began));
                result.map_err(|message| WriteFailure { identity: Some(identity), period, message })
            }
            Work::Restore { identity, document } => {
                let about = Entry::new(Level::Error, "write_failed").of(&identity);
                self.patiently(&about, "restore state", || self.store.restore(&identity, &document))
                    .map_err(|message| WriteFailure {
                        identity: Some(identity),
                        period: None,
                        message,
                    })
            }
            Work::SaveKnown(known) => {
                let about = Entry::new(Level::Error, "write_failed");
                let result = self
                    .patiently(&about, "write known jobs", || self.store.save_known(&known))
                    .map_err(|message| WriteFailure { identity: None, period: None, message });
                // It is rare, and of many jobs it is large.
                drop(known);
                kron_exec::give_back_memory();
                result
            }
            Work::ReadRun(of) => {
                let about = of.failure("read_failed");
                let run = of.run;
                let result =
                    self.patiently(&about, "read run record", || self.store.run_record(&run));
                let failed = result.as_ref().err().cloned();
                self.results.send(Done::RunRead { run, result });
                return failed;
            }
            // Those below are of use, but nothing rests on them.
            Work::Epoch(epoch) => {
                let about = Entry::new(Level::Error, "not_recorded");
                self.tell_failure(about, "record epoch", self.store.append_epoch(&epoch));
                return None;
            }
            Work::RemoveRun(of) => {
                let about = of.failure("not_recorded");
                self.tell_failure(about, "remove run record", self.store.remove_run(&of.run));
                return None;
            }
            Work::Alive(at) => {
                let about = Entry::new(Level::Error, "not_recorded");
                self.tell_failure(about, "leave a sign of life", self.store.alive(at));
                return None;
            }
        };
        let failed = result.as_ref().err().map(|failure| failure.message.clone());
        self.results.send(Done::Synced { tickets: tickets.to_vec(), result });
        failed
    }

    /// Does something, and again while descriptors or memory have run out; what fails for good is
    /// logged as `about` and told.
    fn patiently<T>(
        &self,
        about: &Entry,
        operation: &str,
        mut attempt: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<T, String> {
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match attempt() {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let message = told(&error);
            self.log.write(&about.clone().error(error.category(), operation, &message));
            if error.category() != Category::System {
                return Err(message);
            }
            let state = self.lock();
            let before = state.patient_until;
            if before.is_some_and(|until| clock::now().boot >= until) {
                return Err(message);
            }
            let (state, _) = self
                .stopped
                .wait_timeout_while(state, pause, |state| {
                    state.failed.is_none() && state.patient_until == before
                })
                .unwrap_or_else(PoisonError::into_inner);
            if state.failed.is_some() {
                return Err(message);
            }
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }

    fn tell_failure(&self, about: Entry, operation: &str, result: Result<(), StoreError>) {
        if let Err(error) = result {
            self.log.write(&about.error(error.category(), operation, &told(&error)));
        }
    }
}

/// The period that a change is about, where it says so.
fn period_of(change: &Change) -> Option<PeriodRef> {
    match change {
        Change::Arm(active) => Some(active.period.clone()),
        Change::HandOver { period, .. } => Some(period.clone()),
        Change::Handle { nominal, .. } => Some(PeriodRef::Period(*nominal)),
        Change::Owe(nominal) => Some(PeriodRef::Period(*nominal)),
        Change::Notify(delivery) => Some(delivery.entry.period.clone()),
        Change::Disarm(_)
        | Change::Start(_)
        | Change::Finish { .. }
        | Change::Replace(_)
        | Change::Delivered(_) => None,
    }
}
