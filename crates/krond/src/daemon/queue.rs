//! The queue's place in the loop: its dispatcher's steps are carried out here, and whatever comes
//! of them is told to it.
//!
//! The loop waits for nothing: the database has its own thread, endpoints and artifacts have theirs,
//! and commands go the same way as the scheduler's.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kron_config::{Action, DaemonSettings, QueueSettings};
use kron_core::Category;
use kron_queue::{
    Artifact, Change, Claimed, DefinitionError, Enqueue, EnqueueError, Finished, Interest, Job,
    JobId, NewJob, ProcessIdentity, Purge, Queue, Recovered, Release, Reservation,
    ReservationError, Rules, RunEnd, RunError, SetRules, StoreError, Triggered,
};
use kron_state::RunId;
use tokio::sync::oneshot;

use super::errand::{Errand, Launching};
use super::inbox::{Done, Results};
use super::launch::duration;
use super::worker;
use crate::log::{Log, told};
use crate::machine::{Entry, Event, Launch, Level, StartFailure, StopMode};
use crate::metrics::QueueMetrics;
use crate::queue::dispatcher::{DirectCall, DirectId, DirectRefusal, Dispatcher, Step};
use crate::queue::time::Believed;
use crate::queue::webhooks::Webhooks;
use crate::queue::{self, Handlers, artifacts, post};

/// Requests beyond the workers' that may be under way, because their jobs were cancelled.
const POSTS_SPARE: usize = 64;
/// How often old jobs are looked for.
const TIDY_INTERVAL: Duration = Duration::from_secs(3_600);

/// What the queue's workers have done.
#[derive(Debug)]
pub(super) enum QueueDone {
    News(News),
    Claimed(Result<Claimed, RunError>),
    Triggered(Result<Triggered, DefinitionError>),
    Reserved(DirectId, Result<Reservation, ReservationError>),
    StartedDirect(DirectId, Result<Claimed, ReservationError>),
    RulesSet(Box<Rules>, Result<(), StoreError>),
    GaveBack(Release, Result<(), ReservationError>),
    Attached(RunId, Box<Result<Job, RunError>>),
    Collected { run: RunId, artifacts: Vec<Artifact>, log_path: Option<String> },
    Posted(RunId, RunEnd),
    Finished(RunId, Box<Result<Finished, RunError>>),
    Direct(DirectId, Box<DirectCall>, oneshot::Sender<Result<Finished, DirectRefusal>>),
    DirectGone(DirectId),
}

/// What has changed in the queue, as far as the dispatcher must know.
#[derive(Debug, Default)]
pub(super) struct News {
    work: bool,
    /// Whether something ended or was opened, so that a slot may be free.
    slots: bool,
    schedules: bool,
    cancels: Vec<JobId>,
}

/// The queue as the loop has it.
pub(super) struct QueueWorks {
    pub(super) queue: Queue,
    dispatcher: Dispatcher,
    waiting: HashMap<DirectId, oneshot::Sender<Result<Finished, DirectRefusal>>>,
    results: Results,
    state_dir: PathBuf,
    told_to_stop: Option<StopMode>,
    tidied_at: Option<Duration>,
    tidying: Arc<AtomicBool>,
    webhooks: Webhooks,
    metrics: Arc<QueueMetrics>,
    clock: Arc<Believed>,
    /// Requests to endpoints that are under way, cancelled ones among them.
    posts: Arc<AtomicUsize>,
    log: Log,
}

impl std::fmt::Debug for QueueWorks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueWorks").field("dispatcher", &self.dispatcher).finish_non_exhaustive()
    }
}

/// The queue as other threads see it.
#[derive(Clone, Debug)]
pub(crate) struct QueueHandle {
    pub(crate) queue: Queue,
    results: Results,
    next_direct: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    pub(crate) metrics: Arc<QueueMetrics>,
    /// The time as the queue believes it.
    pub(crate) clock: Arc<Believed>,
}

impl QueueHandle {
    /// Runs a job directly, and waits for its end. Whoever stops waiting before the run has begun
    /// gives its place up.
    pub(crate) async fn direct(&self, call: DirectCall) -> Result<Finished, DirectRefusal> {
        let id = DirectId(self.next_direct.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.results.send(Done::Queue(QueueDone::Direct(id, Box::new(call), reply)));
        let gone = Gone { id, results: &self.results };
        let answer = answer.await.unwrap_or(Err(DirectRefusal::Stopping));
        std::mem::forget(gone);
        answer
    }

    /// Whether the daemon takes no more jobs.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// Says that a caller has gone, unless it is forgotten before.
struct Gone<'a> {
    id: DirectId,
    results: &'a Results,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.results.send(Done::Queue(QueueDone::DirectGone(self.id)));
    }
}

impl QueueWorks {
    /// Takes charge of a queue in which everything is in order.
    pub(super) fn new(
        queue: Queue,
        settings: &QueueSettings,
        owner: ProcessIdentity,
        results: Results,
        state_dir: PathBuf,
        clock: Arc<Believed>,
        log: Log,
    ) -> (QueueWorks, QueueHandle) {
        let stop_grace = duration(settings.stop_grace);
        let dispatcher = Dispatcher::new(Handlers::of(settings), owner, stop_grace);
        let metrics = Arc::<QueueMetrics>::default();
        let (news, counts) = (results.clone(), metrics.clone());
        queue.observe(move |changes| {
            let is_new = |change: &&Change| matches!(change, Change::Enqueued { .. });
            let count = changes.iter().filter(is_new).count() as u64;
            counts.enqueued.fetch_add(count, Ordering::Relaxed);
            let told = read(changes);
            if told.work || told.schedules || !told.cancels.is_empty() {
                news.send(Done::Queue(QueueDone::News(told)));
            }
            Interest::More
        });
        let webhooks =
            Webhooks::start(&queue, &settings.webhooks, metrics.clone(), clock.clone(), log);
        let handle = QueueHandle {
            queue: queue.clone(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            results: results.clone(),
            next_direct: Arc::default(),
            stopping: Arc::default(),
        };
        let works = QueueWorks {
            queue,
            dispatcher,
            waiting: HashMap::new(),
            results,
            state_dir,
            told_to_stop: None,
            tidied_at: None,
            tidying: Arc::default(),
            webhooks,
            metrics,
            clock,
            posts: Arc::default(),
            log,
        };
        (works, handle)
    }

    /// Goes on from where an earlier daemon was.
    pub(super) fn resume(&mut self, recovered: Recovered) {
        let ended: Vec<kron_queue::RunId> =
            recovered.ended.iter().map(|finished| finished.run.run_id).collect();
        self.drop_staged(ended);
        for finished in &recovered.ended {
            self.metrics.finished(finished);
            let mut entry = Entry::new(Level::Warn, "queue_run_lost")
                .shown("job_id", finished.job.job_id)
                .shown("run_id", finished.run.run_id)
                .with("job_type", finished.job.job_type.as_str());
            if let Some(successor) = &finished.successor {
                entry = entry.shown("retried_by", successor.job_id);
            }
            self.log.write(&entry);
        }
        for run in &recovered.undecided {
            self.log.write(
                &Entry::new(Level::Error, "queue_run_undecided").shown("run_id", run).error(
                    Category::System,
                    "look for the process",
                    "whether it is alive could not be told; the next start looks again",
                ),
            );
        }
        for reservation in &recovered.expired {
            let entry = Entry::new(Level::Info, "queue_reservation_expired");
            self.log.write(&entry.shown("reservation_id", reservation));
        }
        for claimed in recovered.adopted {
            self.log.write(
                &Entry::new(Level::Info, "queue_run_adopted")
                    .shown("job_id", claimed.job.job_id)
                    .shown("run_id", claimed.run.run_id),
            );
            self.dispatcher.adopt(claimed);
        }
        let now = self.clock.now();
        self.dispatcher.look(now);
        self.dispatcher.look_at_schedules(now);
    }

    pub(super) fn owns(&self, run: &RunId) -> bool {
        self.dispatcher.owns(run)
    }

    /// Other settings are in force.
    pub(super) fn reconfigure(&mut self, settings: &QueueSettings) {
        self.webhooks.reconfigure(&settings.webhooks);
        let grace = duration(settings.stop_grace);
        let rules = queue::rules(settings);
        self.dispatcher.reconfigure(self.clock.now(), Handlers::of(settings), rules, grace);
    }

    /// Puts into the queue what a job of the scheduler wants done. Asking twice for the same period
    /// puts it there once.
    pub(super) fn hand_over(&self, launch: &Launch) -> Result<(), StartFailure> {
        let Action::Enqueue(wanted) = &launch.definition.job.action else {
            return Err(not_enqueued(Category::Execution, "the job has a command".to_owned()));
        };
        let params = serde_json::from_str(&wanted.params)
            .map_err(|error| not_enqueued(Category::Execution, error.to_string()))?;
        let identity = launch.definition.job.identity();
        let job = NewJob {
            priority: Some(wanted.priority),
            idempotency_key: Some(queue::key_of(identity, &launch.period)),
            ..NewJob::of_type(&wanted.job_type, params)
        };
        #[cfg(kron_canary)]
        let job = match kron_canary::Canary::QueuePeriodWithoutAKey.is_active() {
            true => NewJob { idempotency_key: None, ..job },
            false => job,
        };
        let (run, results) = (launch.run.clone(), self.results.clone());
        self.queue.submit(Enqueue { jobs: vec![job], now: self.clock.now().wall }, move |result| {
            let result = match result {
                Ok(enqueued) => match enqueued.first() {
                    Some(first) => Ok(format!("enqueued as job {}", first.job().job_id)),
                    None => Err(not_enqueued(Category::System, "nothing came of it".to_owned())),
                },
                // It was enqueued before a crash, and the definition was edited since.
                Err(EnqueueError::KeyConflict { job_id, .. }) => {
                    Ok(format!("enqueued as job {job_id}"))
                }
                Err(error) => Err(not_enqueued(Category::Execution, told(&error))),
            };
            results.send(Done::HandedOver { run, result });
        });
        Ok(())
    }

    /// Removes what runs have staged that were lost: nobody knows whether it is whole.
    fn drop_staged(&self, runs: Vec<kron_queue::RunId>) {
        let (state_dir, log) = (self.state_dir.clone(), self.log);
        let work = move || {
            for run in runs {
                if let Err(error) = artifacts::remove_staged(&state_dir, run) {
                    log.write(&Entry::new(Level::Warn, "queue_artifact_left").error(
                        Category::System,
                        "remove artifacts",
                        &error.to_string(),
                    ));
                }
            }
        };
        // What is not removed now is with the next tidying.
        let _ = worker::spawn("queue-tidy".to_owned(), work);
    }

    /// Time has passed, or something has.
    pub(super) fn tick(&mut self) {
        self.dispatcher.tick(self.clock.now());
    }

    pub(super) fn sleep(&self) -> Duration {
        self.dispatcher.sleep(self.clock.now())
    }

    /// The daemon stops.
    pub(super) fn stop(&mut self, mode: StopMode, handle: Option<&QueueHandle>) {
        if self.told_to_stop != Some(mode) {
            self.told_to_stop = Some(mode);
            if let Some(handle) = handle {
                handle.stopping.store(true, Ordering::Release);
            }
            self.dispatcher.stop(self.clock.now(), mode);
        }
    }

    pub(super) fn may_leave(&self) -> bool {
        self.dispatcher.may_leave(self.clock.now())
    }

    /// A run of the queue's has come a step further.
    pub(super) fn run_event(&mut self, event: Event) {
        match event {
            Event::Armed { run, supervisor, command, boot_id } => {
                self.dispatcher.armed(&run, supervisor, command, boot_id);
            }
            Event::LaunchFailed { run, failure } | Event::ExecFailed { run, failure } => {
                self.dispatcher.not_started(&run, &failure);
            }
            Event::Ended { run, report } => self.dispatcher.ended(&run, &report),
            _ => {}
        }
    }

    /// A worker has done something.
    pub(super) fn done(&mut self, done: QueueDone) {
        let now = self.clock.now();
        let dispatcher = &mut self.dispatcher;
        match done {
            QueueDone::News(News { work, slots, schedules, cancels }) => {
                if slots {
                    dispatcher.slots_changed();
                }
                for job in cancels {
                    dispatcher.cancel(job);
                }
                if work {
                    dispatcher.look(now);
                }
                if schedules {
                    dispatcher.look_at_schedules(now);
                }
            }
            QueueDone::Claimed(result) => dispatcher.claimed(now, result),
            QueueDone::Triggered(result) => dispatcher.triggered(now, result),
            QueueDone::Reserved(id, result) => dispatcher.reserved(now, id, result),
            QueueDone::StartedDirect(id, result) => dispatcher.started_direct(now, id, result),
            QueueDone::RulesSet(rules, result) => dispatcher.rules_set(now, rules, result),
            QueueDone::GaveBack(release, result) => dispatcher.gave_back(now, release, &result),
            QueueDone::Attached(run, result) => dispatcher.attached(&run, *result),
            QueueDone::Collected { run, artifacts, log_path } => {
                dispatcher.collected(now, &run, artifacts, log_path);
            }
            QueueDone::Posted(run, end) => dispatcher.answered(&run, end),
            QueueDone::Finished(run, result) => {
                if let Ok(finished) = &*result {
                    self.metrics.finished(finished);
                }
                dispatcher.finished(now, &run, *result);
            }
            QueueDone::Direct(id, call, reply) => {
                self.waiting.insert(id, reply);
                dispatcher.direct(now, id, *call);
            }
            QueueDone::DirectGone(id) => {
                self.waiting.remove(&id);
                dispatcher.direct_gone(now, id);
            }
        }
    }

    /// Carries out what the dispatcher wants, as far as the loop is not needed for it.
    pub(super) fn work(&mut self, settings: &Arc<DaemonSettings>) -> Vec<Errand> {
        let mut errands = Vec::new();
        loop {
            let steps = self.dispatcher.take_steps();
            if steps.is_empty() {
                return errands;
            }
            for step in steps {
                errands.extend(self.step(step, settings));
            }
        }
    }

    fn step(&mut self, step: Step, settings: &Arc<DaemonSettings>) -> Option<Errand> {
        let results = self.results.clone();
        let tell = move |done| results.send(Done::Queue(done));
        match step {
            Step::Claim(claim) => {
                self.queue.submit(claim, move |result| tell(QueueDone::Claimed(result)));
            }
            Step::Trigger(trigger) => {
                self.queue.submit(trigger, move |result| tell(QueueDone::Triggered(result)));
            }
            Step::Reserve(id, reserve) => {
                self.queue.submit(reserve, move |result| tell(QueueDone::Reserved(id, result)));
            }
            Step::StartDirect(id, start) => {
                self.queue.submit(start, move |result| tell(QueueDone::StartedDirect(id, result)));
            }
            Step::Renew(renew) => {
                let log = self.log;
                self.queue.submit(renew, move |result| {
                    if let Err(error) = result {
                        log.write(&Entry::new(Level::Warn, "queue_refused").error(
                            Category::Persistence,
                            "renew a reservation",
                            &told(&error),
                        ));
                    }
                });
            }
            Step::SetRules(rules) => {
                let told = rules.clone();
                self.queue.submit(SetRules { rules: *rules }, move |result| {
                    tell(QueueDone::RulesSet(told, result));
                });
            }
            Step::GiveBack(release) => {
                self.queue
                    .submit(release, move |result| tell(QueueDone::GaveBack(release, result)));
            }
            #[cfg(kron_canary)]
            Step::Attach(run, attach)
                if kron_canary::Canary::QueueLetGoBeforeRecorded.is_active() =>
            {
                let queue = self.queue.clone();
                let _ = worker::spawn("late".to_owned(), move || {
                    worker::wait_until_gone(attach.command.as_ref().map_or(0, |it| it.pid));
                    queue.submit(attach, move |result| {
                        tell(QueueDone::Attached(run, Box::new(result)));
                    });
                });
            }
            Step::Attach(run, attach) => {
                self.queue.submit(attach, move |result| {
                    tell(QueueDone::Attached(run, Box::new(result)));
                });
            }
            Step::Finish(run, finish) => {
                self.queue.submit(*finish, move |result| {
                    tell(QueueDone::Finished(run, Box::new(result)));
                });
            }
            Step::Post(start) => {
                let posts = self.posts.clone();
                let workers_max = settings.queue.as_ref().map_or(1, |queue| queue.workers_max);
                if posts.fetch_add(1, Ordering::AcqRel) >= workers_max as usize + POSTS_SPARE {
                    posts.fetch_sub(1, Ordering::AcqRel);
                    let why = "too many requests that were cancelled are still under way";
                    let end =
                        queue::end::without_status(why.to_owned(), kron_queue::Outcome::Failed);
                    tell(QueueDone::Posted(start.run, end));
                    return None;
                }
                let (settings, state_dir) = (settings.clone(), self.state_dir.clone());
                let (run, tell_failure) = (start.run.clone(), tell.clone());
                let spawned = worker::spawn("queue-post".to_owned(), move || {
                    let end = post::post(&start, &settings, &state_dir);
                    posts.fetch_sub(1, Ordering::AcqRel);
                    tell(QueueDone::Posted(start.run, end));
                });
                if let Err(error) = spawned {
                    let end = no_thread(&error);
                    tell_failure(QueueDone::Posted(run, end));
                }
            }
            Step::Collect(run, run_id) => self.collect(run, run_id),
            Step::Launch(start) => return Some(Errand::Launch(Launching::Queued(start))),
            Step::LetGo(run) => return Some(Errand::LetGo(run)),
            Step::Abandon(run) => return Some(Errand::Abandon(run)),
            Step::End(run, urgency) => return Some(Errand::End(run, urgency)),
            Step::Acknowledge(run) => return Some(Errand::Acknowledge(run)),
            Step::Answer(id, answer) => {
                // Whoever asked may have gone.
                if let Some(reply) = self.waiting.remove(&id) {
                    let _ = reply.send(*answer);
                }
            }
            Step::Log(entry) => self.log.write(&entry),
            Step::Fatal(message) => {
                return Some(Errand::Tell(Event::NotDurable {
                    ticket: super::event_loop::NO_TICKET,
                    operation: "write the queue",
                    identity: None,
                    period: None,
                    message,
                }));
            }
        }
        None
    }

    /// Looks at what a run has left, in a thread: there may be a lot.
    fn collect(&self, run: RunId, run_id: kron_queue::RunId) {
        let (state_dir, results, log) = (self.state_dir.clone(), self.results.clone(), self.log);
        let work =
            move || {
                let left = artifacts::collect(&state_dir, run_id);
                for note in &left.notes {
                    log.write(
                        &Entry::new(Level::Warn, "queue_artifact_left")
                            .shown("run_id", run_id)
                            .error(Category::Execution, "record an artifact", note),
                    );
                }
                let path = queue::log_path(run_id);
                let log_path = state_dir.join(&path).exists().then_some(path);
                let artifacts = left.artifacts;
                results.send(Done::Queue(QueueDone::Collected { run, artifacts, log_path }));
            };
        let (results, other) = (self.results.clone(), queue::supervised(run_id));
        if let Err(error) = worker::spawn("queue-collect".to_owned(), work) {
            self.log.write(&Entry::new(Level::Error, "queue_artifact_left").error(
                Category::System,
                "record artifacts",
                &error.to_string(),
            ));
            let (artifacts, log_path) = (Vec::new(), Some(queue::log_path(run_id)));
            results.send(Done::Queue(QueueDone::Collected { run: other, artifacts, log_path }));
        }
    }

    /// Removes what is old, now and then, in a thread.
    pub(super) fn tidy(&mut self, settings: &QueueSettings) {
        let now = self.clock.now();
        let recent = self.tidied_at.is_some_and(|at| now.boot < at + TIDY_INTERVAL);
        if recent || self.tidying.swap(true, Ordering::AcqRel) {
            return;
        }
        self.tidied_at = Some(now.boot);
        let ended_before = now.wall.saturating_add_ms(-queue::ms(settings.keep));
        let (queue, state_dir, log) = (self.queue.clone(), self.state_dir.clone(), self.log);
        let tidying = self.tidying.clone();
        let work = move || {
            if let Err(error) = tidy(&queue, &state_dir, ended_before) {
                log.write(&Entry::new(Level::Error, "queue_not_tidied").error(
                    Category::Persistence,
                    "remove old jobs",
                    &error,
                ));
            }
            tidying.store(false, Ordering::Release);
        };
        if worker::spawn("queue-tidy".to_owned(), work).is_err() {
            self.tidying.store(false, Ordering::Release);
        }
    }
}

fn tidy(
    queue: &Queue,
    state_dir: &std::path::Path,
    ended_before: kron_queue::Timestamp,
) -> Result<(), String> {
    while queue.call(Purge { ended_before }).map_err(|error| told(&error))?.more {}
    queue::sweep(queue, state_dir).map_err(|error| error.to_string())
}

fn not_enqueued(category: Category, message: String) -> StartFailure {
    StartFailure { category, operation: "enqueue".to_owned(), message }
}

fn no_thread(error: &io::Error) -> RunEnd {
    queue::end::without_status(
        format!("there is no thread for it: {error}"),
        kron_queue::Outcome::Failed,
    )
}

fn read(changes: &[Change]) -> News {
    let mut news = News::default();
    for change in changes {
        match change {
            Change::Finished { .. } | Change::Cancelled { .. } | Change::Pauses => {
                (news.work, news.slots) = (true, true);
            }
            Change::Enqueued { .. }
            | Change::Moved { .. }
            | Change::Reservation { .. }
            | Change::Group { .. } => news.work = true,
            Change::Schedule { .. } => news.schedules = true,
            Change::CancelRequested { job_id } => news.cancels.push(*job_id),
            Change::Started { .. }
            | Change::Normalised
            | Change::Template { .. }
            | Change::Webhook
            | Change::Purged
            | Change::Lagged => {}
        }
    }
    news
}
