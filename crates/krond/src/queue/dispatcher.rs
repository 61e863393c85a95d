//! The dispatcher: which job is claimed when, and what follows from each step of its run.
//!
//! It is a machine in the daemon's loop: told what happened, it answers with [`Step`]s, and touches
//! nothing itself. A job is claimed, brought to its gate, its process is recorded, and only when
//! that is durable is it let go; its end is recorded before its supervisor may leave. So a crash at
//! any moment leaves either a run whose process is known, or one that was never let go.
//!
//! What the database refuses for want of room or patience is asked again. When the database takes
//! no more writes at all, the daemon leaves: what stands at its gate is never let go, what runs goes
//! on under its supervisor.

mod direct;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kron_config::{Handler, HandlerTarget};
use kron_core::Category;
use kron_queue::{
    Artifact, AttachProcess, Claim, Claimed, ClaimedRun, DefinitionError, Finish, Finished, Idle,
    Job, JobId, Outcome, ProcessIdentity, Release, Renew, Reserve, Rules, RunEnd, RunError,
    StartDirect, StoreError, Timestamp, TriggerSchedules, Triggered,
};
use kron_state::{Process, RunId};

pub(crate) use direct::{DirectCall, DirectId, DirectRefusal};

use super::{Handlers, end, log_path, supervised};
use crate::machine::{Entry, Level, Report, StartFailure, StopMode, Urgency};
use direct::Line;

/// How soon something is tried again that the database had no room or patience for.
const AGAIN: Duration = Duration::from_secs(1);
/// How long nobody looks at the queue when nothing happens. Nothing waits for it that should not:
/// times are waited for, and changes are told.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// How long a daemon that leaves waits for the last words about its runs to be recorded.
const UNSETTLED_PATIENCE: Duration = Duration::from_secs(10);

/// The time, twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// As people tell it.
    pub(crate) wall: Timestamp,
    /// Since the machine was booted.
    pub(crate) boot: Duration,
}

/// Something to be done.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Claim(Claim),
    Trigger(TriggerSchedules),
    Reserve(DirectId, Reserve),
    StartDirect(DirectId, StartDirect),
    Renew(Renew),
    GiveBack(Release),
    SetRules(Box<Rules>),
    /// Bring a command to its gate.
    Launch(Box<Start>),
    /// Post a job to an endpoint.
    Post(Box<Start>),
    Attach(RunId, AttachProcess),
    /// Let the command at the gate go.
    LetGo(RunId),
    Abandon(RunId),
    End(RunId, Urgency),
    /// Look at what the run has left.
    Collect(RunId, kron_queue::RunId),
    Finish(RunId, Box<Finish>),
    Acknowledge(RunId),
    Answer(DirectId, Box<Result<Finished, DirectRefusal>>),
    Log(Box<Entry>),
    /// The database takes no more writes.
    Fatal(String),
}

/// A run that is to be started.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) run: RunId,
    pub(crate) claimed: ClaimedRun,
    pub(crate) handler: Arc<Handler>,
    /// How long it may take, where its caller wants it shorter than its handler.
    pub(crate) timeout: Option<Duration>,
}

/// The dispatcher.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    handlers: Handlers,
    worker_id: String,
    owner: ProcessIdentity,
    stop_grace: Duration,
    runs: HashMap<RunId, Work>,
    of_job: HashMap<JobId, RunId>,
    claim: Asking,
    trigger: Asking,
    /// When the next delayed job's time comes.
    delayed_until: Option<Timestamp>,
    /// When the next schedule is due.
    schedules_at: Option<Timestamp>,
    /// What is tried again later.
    again: Vec<(Duration, Step)>,
    line: Line,
    looked_at: Duration,
    stop: Option<Stop>,
    steps: Vec<Step>,
}

/// Whether the database is being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// No.
    Idle,
    /// Yes.
    Under,
    /// Yes, and since then something has changed.
    Anew,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    mode: StopMode,
    /// When what still runs is left to its supervisors.
    leave_at: Option<Duration>,
}

/// A run of this daemon's.
#[derive(Debug)]
struct Work {
    claimed: ClaimedRun,
    handler: Option<Arc<Handler>>,
    stage: Stage,
    /// Whether its end was asked for by somebody who does not want the job.
    cancelled: bool,
    direct: Option<DirectId>,
    /// How it ended, while that is being recorded.
    end: Option<RunEnd>,
    /// Whether a supervisor waits for a word.
    supervised: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// On its way to the gate.
    Launching,
    /// At the gate; its process is being recorded.
    Attaching,
    /// Let go, or posted.
    Running,
    /// Ended; what it left is being looked at.
    Collecting,
    /// Ended; that is being recorded.
    Finishing,
}

impl Stage {
    /// Whether a daemon that leaves must wait for it.
    const fn is_unsettled(self) -> bool {
        !matches!(self, Stage::Running)
    }
}

impl Dispatcher {
    pub(crate) fn new(
        handlers: Handlers,
        owner: ProcessIdentity,
        stop_grace: Duration,
    ) -> Dispatcher {
        Dispatcher {
            handlers,
            worker_id: format!("krond-{}", owner.pid),
            owner,
            stop_grace,
            runs: HashMap::new(),
            of_job: HashMap::new(),
            claim: Asking::Idle,
            trigger: Asking::Idle,
            delayed_until: None,
            schedules_at: None,
            again: Vec::new(),
            line: Line::default(),
            looked_at: Duration::ZERO,
            stop: None,
            steps: Vec::new(),
        }
    }

    /// What is to be done since this was last asked.
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// Whether this run is one of the queue's.
    pub(crate) fn owns(&self, run: &RunId) -> bool {
        self.runs.contains_key(run)
    }

    /// Other handlers are in force. What runs goes on as it was begun.
    pub(crate) fn reconfigure(
        &mut self,
        now: Moment,
        handlers: Handlers,
        rules: Rules,
        stop_grace: Duration,
    ) {
        self.handlers = handlers;
        self.stop_grace = stop_grace;
        // Older rules that wait to be tried again are overtaken.
        self.again.retain(|(_, step)| !matches!(step, Step::SetRules(_)));
        self.steps.push(Step::SetRules(Box::new(rules)));
        self.slots_changed();
        self.look(now);
    }

    /// Other rules are in force, or could not be put there.
    pub(crate) fn rules_set(
        &mut self,
        now: Moment,
        rules: Box<Rules>,
        result: Result<(), StoreError>,
    ) {
        match result {
            Ok(()) => self.look(now),
            Err(error) => {
                let step = Step::SetRules(rules);
                self.refused(now, "change the rules", Some(&error), &error, step);
            }
        }
    }

    /// A run that an earlier daemon began, and that is watched from now on.
    pub(crate) fn adopt(&mut self, claimed: ClaimedRun) {
        let handler = self.handlers.of_type(&claimed.job.job_type);
        let cancelled = claimed.job.cancel_requested_at.is_some();
        let run = self.insert(claimed, handler, None, Stage::Running);
        if let Some(work) = self.runs.get_mut(&run) {
            work.supervised = true;
            work.cancelled = cancelled;
            if cancelled {
                self.steps.push(Step::End(run, Urgency::Terminate));
            }
        }
    }

    /// Something in the queue may be claimed now that could not be before, or its time is nearer.
    pub(crate) fn look(&mut self, now: Moment) {
        self.ask_claim(now);
        self.direct_turn(now);
    }

    /// Schedules have changed.
    pub(crate) fn look_at_schedules(&mut self, now: Moment) {
        if self.stop.is_some() {
            return;
        }
        match self.trigger {
            Asking::Idle => {
                self.trigger = Asking::Under;
                self.steps.push(Step::Trigger(TriggerSchedules { now: now.wall }));
            }
            Asking::Under | Asking::Anew => self.trigger = Asking::Anew,
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Moment) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.again).into_iter().partition(|(at, _)| *at <= now.boot);
        self.again = later;
        for (_, step) in due {
            match step {
                Step::Claim(_) => self.ask_claim(now),
                Step::Trigger(_) => self.look_at_schedules(now),
                other => self.steps.push(other),
            }
        }
        if self.schedules_at.is_some_and(|at| at <= now.wall) {
            self.look_at_schedules(now);
        }
        let idle_long = now.boot >= self.looked_at + LOOK_INTERVAL;
        if idle_long || self.delayed_until.is_some_and(|at| at <= now.wall) {
            self.looked_at = now.boot;
            self.delayed_until = None;
            self.ask_claim(now);
        }
        self.direct_turn(now);
        self.give_up_posts(now);
    }

    /// Ends requests that a leaving daemon cannot wait for: they have no supervisor.
    fn give_up_posts(&mut self, now: Moment) {
        if self.stop.and_then(|stop| stop.leave_at).is_none_or(|at| now.boot < at) {
            return;
        }
        let posted = |(_, work): &(&RunId, &Work)| work.stage == Stage::Running && !work.supervised;
        let given_up: Vec<RunId> =
            self.runs.iter().filter(posted).map(|(run, _)| run.clone()).collect();
        for run in given_up {
            let why = "the daemon stopped before the endpoint answered".to_owned();
            self.over(&run, end::without_status(why, Outcome::Failed));
        }
    }

    /// How long the daemon may sleep.
    pub(crate) fn sleep(&self, now: Moment) -> Duration {
        let until = |at: Timestamp| {
            let ms = at.unix_ms().saturating_sub(now.wall.unix_ms());
            Duration::from_millis(u64::try_from(ms).unwrap_or_default())
        };
        let walls = [self.delayed_until, self.schedules_at.filter(|_| self.stop.is_none())];
        let boots = self.again.iter().map(|(at, _)| *at);
        let leaves = self.stop.and_then(|stop| stop.leave_at).map(|at| match now.boot < at {
            true => at,
            false => at + UNSETTLED_PATIENCE,
        });
        let boots = boots.chain(self.line.wakes_at()).chain(leaves);
        walls
            .into_iter()
            .flatten()
            .map(until)
            .chain(boots.map(|at| at.saturating_sub(now.boot)))
            .chain([LOOK_INTERVAL])
            .min()
            .unwrap_or(LOOK_INTERVAL)
    }

    fn ask_claim(&mut self, now: Moment) {
        if self.stop.is_some() {
            return;
        }
        match self.claim {
            Asking::Idle => {
                self.claim = Asking::Under;
                let worker_id = self.worker_id.clone();
                self.steps.push(Step::Claim(Claim { worker_id, now: now.wall }));
            }
            Asking::Under | Asking::Anew => self.claim = Asking::Anew,
        }
    }

    /// The database has answered a claim.
    pub(crate) fn claimed(&mut self, now: Moment, result: Result<Claimed, RunError>) {
        let anew = std::mem::replace(&mut self.claim, Asking::Idle) == Asking::Anew;
        match result {
            Ok(Claimed::Run(claimed)) => {
                self.start(*claimed, None, None);
                self.ask_claim(now);
            }
            Ok(Claimed::Nothing(idle)) => {
                self.delayed_until = match idle {
                    Idle::Empty { next_at } | Idle::TypesClosed { next_at } => next_at,
                    _ => None,
                };
                if anew {
                    self.ask_claim(now);
                }
            }
            Err(error) => {
                let step = Step::Claim(Claim { worker_id: String::new(), now: now.wall });
                self.refused(now, "claim a job", store_error(&error), &error, step);
            }
        }
    }

    /// The database has looked at the schedules.
    pub(crate) fn triggered(&mut self, now: Moment, result: Result<Triggered, DefinitionError>) {
        let anew = std::mem::replace(&mut self.trigger, Asking::Idle) == Asking::Anew;
        match result {
            Ok(triggered) => {
                for record in &triggered.records {
                    let mut entry = Entry::new(Level::Info, "queue_period")
                        .shown("schedule_id", record.schedule_id)
                        .shown("period_id", record.first_period)
                        .with("periods", record.periods)
                        .shown("outcome", record.outcome);
                    if let Some(reason) = &record.reason {
                        entry = entry.with("reason", reason.as_str());
                    }
                    if let Some(job_id) = record.job_id {
                        entry = entry.shown("job_id", job_id);
                    }
                    self.log(entry);
                }
                for (schedule, why) in &triggered.broken {
                    let entry = Entry::new(Level::Error, "schedule_broken");
                    self.log(entry.shown("schedule_id", schedule).error(
                        Category::Scheduling,
                        "read schedule",
                        why,
                    ));
                }
                self.schedules_at = triggered.next_at;
                if anew || triggered.next_at.is_some_and(|at| at <= now.wall) {
                    self.look_at_schedules(now);
                }
            }
            Err(error) => {
                let store = match &error {
                    DefinitionError::Store(store) => Some(store),
                    _ => None,
                };
                let step = Step::Trigger(TriggerSchedules { now: now.wall });
                self.refused(now, "trigger schedules", store, &error, step);
            }
        }
    }

    /// Something was refused that must be asked again, or shows that nothing can be asked any more.
    fn refused(
        &mut self,
        now: Moment,
        operation: &str,
        store: Option<&StoreError>,
        error: &dyn std::error::Error,
        step: Step,
    ) {
        let message = crate::log::told(error);
        if matches!(store, Some(StoreError::Stopped | StoreError::Closed)) {
            self.steps.push(Step::Fatal(message));
            return;
        }
        if !matches!(store, Some(StoreError::Busy)) {
            let entry = Entry::new(Level::Error, "queue_refused");
            self.log(entry.error(Category::Persistence, operation, &message));
        }
        self.again.push((now.boot + AGAIN, step));
    }

    fn insert(
        &mut self,
        claimed: ClaimedRun,
        handler: Option<Arc<Handler>>,
        direct: Option<DirectId>,
        stage: Stage,
    ) -> RunId {
        let run = supervised(claimed.run.run_id);
        self.of_job.insert(claimed.job.job_id, run.clone());
        let work = Work {
            claimed,
            handler,
            stage,
            cancelled: false,
            direct,
            end: None,
            supervised: false,
        };
        self.runs.insert(run.clone(), work);
        run
    }

    /// A job was claimed: bring it to its gate.
    fn start(&mut self, claimed: ClaimedRun, direct: Option<DirectId>, timeout: Option<Duration>) {
        let handler = self.handlers.of_type(&claimed.job.job_type);
        let stage = match &handler {
            Some(handler) if matches!(handler.target, HandlerTarget::Web { .. }) => Stage::Running,
            _ => Stage::Launching,
        };
        let run = self.insert(claimed.clone(), handler.clone(), direct, stage);
        match handler {
            None => {
                let why = format!("there is no handler for type `{}`", claimed.job.job_type);
                self.over(&run, end::without_status(why, Outcome::Failed));
            }
            Some(handler) => {
                let start = Box::new(Start { run, claimed, handler, timeout });
                self.steps.push(match stage {
                    Stage::Running => Step::Post(start),
                    _ => Step::Launch(start),
                });
            }
        }
    }

    /// The command stands at its gate: record its process, unless nobody wants it any more.
    pub(crate) fn armed(
        &mut self,
        run: &RunId,
        supervisor: Process,
        command: Process,
        boot_id: String,
    ) {
        let Some(work) = self.runs.get_mut(run) else { return };
        if work.stage != Stage::Launching {
            return;
        }
        work.supervised = true;
        if work.cancelled {
            return self.withdraw(run);
        }
        work.stage = Stage::Attaching;
        let attach = AttachProcess {
            run_id: work.claimed.run.run_id,
            token: work.claimed.token.clone(),
            process: recorded(supervisor, boot_id.clone()),
            command: Some(recorded(command, boot_id)),
            log_path: Some(log_path(work.claimed.run.run_id)),
        };
        #[cfg(kron_canary)]
        if kron_canary::Canary::QueueLetGoBeforeRecorded.is_active() {
            self.steps.push(Step::LetGo(run.clone()));
        }
        self.steps.push(Step::Attach(run.clone(), attach));
    }

    /// Its process is recorded, or could not be.
    pub(crate) fn attached(&mut self, run: &RunId, result: Result<Job, RunError>) {
        let Some(work) = self.runs.get_mut(run) else { return };
        if work.stage != Stage::Attaching {
            return;
        }
        match result {
            Ok(job) if job.cancel_requested_at.is_some() || work.cancelled => {
                work.cancelled = true;
                self.withdraw(run);
            }
            Ok(_) if self.stop.is_some_and(|stop| stop.mode == StopMode::Kill) => {
                self.steps.push(Step::Abandon(run.clone()));
                let why = "the daemon ended its runs before this one was let go".to_owned();
                self.over(run, end::without_status(why, Outcome::Failed));
            }
            // It was claimed before the daemon was stopped, and is brought on its way.
            Ok(_) => {
                work.stage = Stage::Running;
                let entry = named(Entry::new(Level::Info, "queue_run_started"), &work.claimed);
                self.log(entry);
                #[cfg(kron_canary)]
                if kron_canary::Canary::QueueLetGoBeforeRecorded.is_active() {
                    return;
                }
                self.steps.push(Step::LetGo(run.clone()));
            }
            Err(error) => {
                let store = store_error(&error);
                if matches!(store, Some(StoreError::Stopped | StoreError::Closed)) {
                    self.steps.push(Step::Abandon(run.clone()));
                    self.steps.push(Step::Fatal(crate::log::told(&error)));
                    return;
                }
                self.steps.push(Step::Abandon(run.clone()));
                let why = format!("its process could not be recorded: {error}");
                self.over(run, end::without_status(why, Outcome::Failed));
            }
        }
    }

    /// Gives a run up at its gate because nobody wants the job.
    fn withdraw(&mut self, run: &RunId) {
        self.steps.push(Step::Abandon(run.clone()));
        self.over(run, RunEnd::new(Outcome::Cancelled));
    }

    /// The run was not started: nothing of it was executed.
    pub(crate) fn not_started(&mut self, run: &RunId, failure: &StartFailure) {
        let cancelled = self.runs.get(run).is_some_and(|work| work.cancelled);
        let end = match cancelled {
            true => RunEnd::new(Outcome::Cancelled),
            false => end::of_failure(failure),
        };
        self.over(run, end);
    }

    /// The run has ended.
    pub(crate) fn ended(&mut self, run: &RunId, report: &Report) {
        let Some(work) = self.runs.get(run) else { return };
        let end = end::of_report(report, work.handler.as_deref());
        self.over(run, end);
    }

    /// The endpoint has answered, or has not.
    pub(crate) fn answered(&mut self, run: &RunId, end: RunEnd) {
        self.over(run, end);
    }

    /// A run is over: look at what it has left.
    fn over(&mut self, run: &RunId, end: RunEnd) {
        let Some(work) = self.runs.get_mut(run) else { return };
        if matches!(work.stage, Stage::Collecting | Stage::Finishing) {
            return;
        }
        work.end = Some(end);
        work.stage = Stage::Collecting;
        #[cfg(kron_canary)]
        if kron_canary::Canary::QueueAcknowledgedBeforeRecorded.is_active()
            && std::mem::take(&mut work.supervised)
        {
            self.steps.push(Step::Acknowledge(run.clone()));
        }
        self.steps.push(Step::Collect(run.clone(), work.claimed.run.run_id));
    }

    /// What a run has left was looked at.
    pub(crate) fn collected(
        &mut self,
        now: Moment,
        run: &RunId,
        artifacts: Vec<Artifact>,
        log_path: Option<String>,
    ) {
        let Some(work) = self.runs.get_mut(run) else { return };
        let (Stage::Collecting, Some(mut end)) = (work.stage, work.end.take()) else { return };
        end.artifacts = artifacts;
        end.log_path = log_path;
        work.stage = Stage::Finishing;
        work.end = Some(end.clone());
        let finish = Finish {
            run_id: work.claimed.run.run_id,
            token: work.claimed.token.clone(),
            end,
            now: now.wall,
        };
        self.steps.push(Step::Finish(run.clone(), Box::new(finish)));
    }

    /// The end is recorded, or could not be.
    pub(crate) fn finished(
        &mut self,
        now: Moment,
        run: &RunId,
        result: Result<Finished, RunError>,
    ) {
        if let Err(RunError::Invalid(why)) = &result
            && self.drop_left(now, run)
        {
            // The end of a run is never refused: what it left is, if that is at fault.
            let entry = Entry::new(Level::Warn, "queue_artifact_left").shown("run_id", run);
            let message = why.to_string();
            return self.log(entry.error(Category::Execution, "record artifacts", &message));
        }
        let Some(work) = self.runs.get(run) else { return };
        let error = match result {
            Ok(finished) => {
                let mut entry = named(Entry::new(Level::Info, "queue_run_ended"), &work.claimed)
                    .shown("state", finished.job.state);
                if let Some(code) = finished.run.exit_code {
                    entry = entry.with("exit_code", code);
                }
                if let Some(error) = &finished.run.error {
                    entry = entry.with("message", error.as_str());
                }
                if let Some(successor) = &finished.successor {
                    entry = entry.shown("retried_by", successor.job_id);
                }
                self.log(entry);
                return self.done(now, run, Some(finished));
            }
            Err(error) => error,
        };
        match error {
            // Somebody else's end won; what it says is recorded.
            RunError::RunEnded(_) | RunError::NoRun(_) | RunError::WrongToken(_) => {
                let entry = named(Entry::new(Level::Warn, "queue_run_ended"), &work.claimed);
                self.log(entry.with("message", error.to_string()));
                self.done(now, run, None);
            }
            error => {
                let (token, run_id) = (work.claimed.token.clone(), work.claimed.run.run_id);
                let end = work.end.clone().unwrap_or_else(|| RunEnd::new(Outcome::Lost));
                let finish = Box::new(Finish { run_id, token, end, now: now.wall });
                let step = Step::Finish(run.clone(), finish);
                self.refused(now, "record the end of a run", store_error(&error), &error, step);
            }
        }
    }

    /// Records the end of a run without what it left, if it left anything.
    fn drop_left(&mut self, now: Moment, run: &RunId) -> bool {
        let Some(work) = self.runs.get_mut(run) else { return false };
        let Some(end) = &mut work.end else { return false };
        if end.artifacts.is_empty() && end.log_path.is_none() {
            return false;
        }
        end.artifacts.clear();
        end.log_path = None;
        let finish = Finish {
            run_id: work.claimed.run.run_id,
            token: work.claimed.token.clone(),
            end: end.clone(),
            now: now.wall,
        };
        self.steps.push(Step::Finish(run.clone(), Box::new(finish)));
        true
    }

    fn done(&mut self, now: Moment, run: &RunId, finished: Option<Finished>) {
        let Some(work) = self.runs.remove(run) else { return };
        self.of_job.remove(&work.claimed.job.job_id);
        if work.supervised {
            self.steps.push(Step::Acknowledge(run.clone()));
        }
        if let Some(reservation_id) = work.claimed.run.reservation_id {
            let release = Release { reservation_id, now: now.wall };
            self.steps.push(Step::GiveBack(release));
        }
        if let Some(direct) = work.direct {
            let answer = finished.ok_or(DirectRefusal::Lost);
            self.direct_over(direct, answer);
        }
        self.look(now);
    }

    /// Somebody does not want a running job any more.
    pub(crate) fn cancel(&mut self, job: JobId) {
        let Some(run) = self.of_job.get(&job).cloned() else { return };
        let Some(work) = self.runs.get_mut(&run) else { return };
        work.cancelled = true;
        match (work.stage, work.supervised) {
            (Stage::Running, true) => self.steps.push(Step::End(run, Urgency::Terminate)),
            // What the endpoint does with it is the endpoint's; its answer is not waited for.
            (Stage::Running, false) => self.over(&run, RunEnd::new(Outcome::Cancelled)),
            // At the gate it is seen to when its next step is told.
            _ => {}
        }
    }

    /// Claims nothing more. What runs is waited for as `mode` says.
    pub(crate) fn stop(&mut self, now: Moment, mode: StopMode) {
        if self.stop.is_some_and(|stop| stop.mode >= mode && mode != StopMode::Leave) {
            return;
        }
        let leave_at = (mode == StopMode::Leave).then(|| now.boot + self.stop_grace);
        self.stop = Some(Stop { mode, leave_at });
        self.direct_turn(now);
        self.give_up_posts(now);
        if mode == StopMode::Kill {
            let running = self.runs.iter().filter(|(_, work)| work.stage == Stage::Running);
            let ends: Vec<RunId> = running.map(|(run, _)| run.clone()).collect();
            for run in ends {
                self.steps.push(Step::End(run, Urgency::Terminate));
            }
        }
    }

    /// Whether a daemon that was told to stop may leave now.
    pub(crate) fn may_leave(&self, now: Moment) -> bool {
        let Some(stop) = self.stop else { return false };
        let asking =
            self.claim != Asking::Idle || self.trigger != Asking::Idle || !self.line.is_settled();
        let unsettled = asking || self.runs.values().any(|work| work.stage.is_unsettled());
        match stop.leave_at {
            // What cannot be settled in time is left as after a crash, which loses nothing.
            Some(at) => {
                (self.runs.is_empty() && !asking)
                    || (now.boot >= at && !unsettled)
                    || now.boot >= at + UNSETTLED_PATIENCE
            }
            None => self.runs.is_empty() && !asking,
        }
    }

    fn log(&mut self, entry: Entry) {
        self.steps.push(Step::Log(Box::new(entry)));
    }
}

/// What every entry about a run says.
fn named(entry: Entry, claimed: &ClaimedRun) -> Entry {
    entry
        .shown("job_id", claimed.job.job_id)
        .shown("run_id", claimed.run.run_id)
        .with("job_type", claimed.job.job_type.as_str())
}

fn recorded(process: Process, boot_id: String) -> ProcessIdentity {
    ProcessIdentity {
        boot_id,
        pid: i64::from(process.pid),
        start_ticks: i64::try_from(process.start_ticks).unwrap_or(i64::MAX),
    }
}

fn store_error(error: &RunError) -> Option<&StoreError> {
    match error {
        RunError::Store(store) => Some(store),
        _ => None,
    }
}
