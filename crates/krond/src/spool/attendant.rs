//! The attendant of one spool: which task is started when, and what follows from each step of its
//! run.
//!
//! It is a machine in the daemon's loop: told what happened, it answers with [`Step`]s, and touches
//! nothing itself. A task is read, its command brought to its gate, the task moved to `running/` with
//! its processes in it, and only when that is durable is the command let go; its end is recorded
//! before its supervisor may leave. So a crash at any moment leaves either a task that waits, or one
//! whose processes are known.
//!
//! What the disk refuses is asked again after a while. When nobody can tell any more what the disk
//! holds, the spool rests until the daemon is started again: what stands at its gate is never let
//! go, what runs goes on under its supervisor.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kron_config::Handler;
use kron_core::{Category, Timestamp};
use kron_spool::{
    Finish, Found, Next, Outcome, Run, SetAside, SpoolError, Start, State, Task, TaskId, TaskResult,
};
use kron_state::{Process, RunId, RunRecord};

use super::Rules;
use super::waiting::{Waiter, Waiting};
use crate::machine::{Entry, Level, Report, StartFailure, StopMode, Urgency};
use crate::queue::dispatcher::Moment;
use crate::queue::end;
use crate::random::Random;

/// How soon something is tried again that the disk had no room or patience for.
const AGAIN: Duration = Duration::from_secs(5);
/// How soon a handler is tried again whose commands cannot be started at all; it doubles.
const HANDLER_PAUSE: Duration = Duration::from_secs(10);
const HANDLER_PAUSE_MAX: Duration = Duration::from_secs(300);
/// How long a daemon that leaves waits for the last words about its runs to be recorded.
const UNSETTLED_PATIENCE: Duration = Duration::from_secs(10);
/// The longest sleep; nothing waits for its end that should not.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);
/// Names that wait to be looked at again. Beyond it the directory is scanned anew, after a while.
const UNSETTLED_MAX: usize = 10_000;
/// Names that have changed and are still to be looked at. Beyond it the directory is scanned.
const NAMES_MAX: usize = 10_000;
/// Names that are looked at together; others have their turn between.
const LOOK_STEP: usize = 256;

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Step {
    /// Look at everything that waits.
    Scan,
    /// Look at what has these names.
    Look(Vec<String>),
    /// Put in order once more what could not be put in order at the start.
    Recover,
    /// Read a task again.
    Fetch(RunId, TaskId),
    /// Bring a command to its gate.
    Launch(Box<Launch>),
    /// Move a task to `running/`.
    Start(RunId, Box<Start>),
    /// Let the command at the gate go.
    LetGo(RunId),
    Abandon(RunId),
    End(RunId, Urgency),
    /// Move a task to where it belongs after its run.
    Finish(RunId, Box<Finish>),
    Acknowledge(RunId),
    Log(Box<Entry>),
}

/// A run that is to be started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) run: RunId,
    pub(crate) spool: Arc<str>,
    pub(crate) found: Found,
    pub(crate) handler: Arc<Handler>,
}

/// What came of a look at a name.
#[derive(Debug)]
pub(crate) enum Looked {
    Waits(Waiter),
    /// It is to be looked at again then.
    NotYet(String, Timestamp),
    /// It is not there.
    Gone(String),
    SetAside(SetAside),
    /// It was there a second time, and is not any more.
    Repeated(TaskId, State),
    /// It is wrong and could not be set aside, or could not be looked at.
    Stuck(String, String),
    /// The same, of something whose name is no text.
    StuckNoText(String),
}

/// What happened to a task, for whoever counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Started { waited: Duration },
    Ended { outcome: Outcome, ran: Duration },
    Retried { ran: Duration },
    Lost,
    SetAside,
}

/// The attendant.
#[derive(Debug)]
pub(crate) struct Attendant {
    name: Arc<str>,
    rules: Rules,
    waiting: Waiting,
    identity: Arc<str>,
    /// Names that have changed and are still to be looked at. Whoever writes there cannot make more
    /// of them than there are names.
    changed: HashSet<String>,
    /// Whether some are being looked at.
    looking: bool,
    /// Names that are to be looked at again, by the time since boot.
    unsettled: BTreeSet<(Duration, String)>,
    /// Names with which nothing could be done so far, each of which was told once.
    stuck: HashSet<String>,
    /// What was told last about a name that is no text.
    no_text: Option<String>,
    /// When everything is to be looked at again.
    scan_at: Option<Duration>,
    /// When it is tried again to put in order what an earlier daemon left.
    recover_at: Option<Duration>,
    runs: HashMap<RunId, Work>,
    of_task: HashMap<TaskId, RunId>,
    /// Handlers whose commands cannot be started: until when, and how long the pause was.
    paused: HashMap<String, (Duration, Duration)>,
    /// Until when nothing is started, because the disk refused something.
    held_until: Option<Duration>,
    /// Why nothing more is done.
    failure: Option<String>,
    /// What is tried again later.
    again: Vec<(Duration, RunId)>,
    /// Whether tasks wait that are not known here.
    overfull: bool,
    stop: Option<Stop>,
    random: Random,
    steps: Vec<Step>,
    happened: Vec<Happened>,
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
    id: TaskId,
    task_type: Arc<str>,
    created_at: Timestamp,
    /// When it could have been started.
    due_at: Timestamp,
    handler: Option<Arc<Handler>>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Being read.
    Fetching,
    /// On its way to the gate.
    Launching(Box<Found>),
    /// At the gate; its task is being moved.
    Starting,
    /// Gone from the gate while its task is being moved.
    Vanished,
    /// Let go.
    Running(Box<Task>),
    /// Ended; its task is being moved.
    Finishing(Box<Finish>),
}

impl Attendant {
    pub(crate) fn new(name: &str, rules: Rules, seed: u64) -> Attendant {
        Attendant {
            name: name.into(),
            identity: super::plan::identity(name).into(),
            rules,
            waiting: Waiting::default(),
            changed: HashSet::new(),
            looking: false,
            unsettled: BTreeSet::new(),
            stuck: HashSet::new(),
            no_text: None,
            scan_at: None,
            recover_at: None,
            runs: HashMap::new(),
            of_task: HashMap::new(),
            paused: HashMap::new(),
            held_until: None,
            failure: None,
            again: Vec::new(),
            overfull: false,
            stop: None,
            random: Random::of(seed),
            steps: Vec::new(),
            happened: Vec::new(),
        }
    }

    /// What is to be done since this was last asked.
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// What has happened since this was last asked.
    pub(crate) fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// Whether this run is one of the spool's.
    pub(crate) fn owns(&self, run: &RunId) -> bool {
        self.runs.contains_key(run)
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How many tasks were started and have not ended.
    pub(crate) fn running_len(&self) -> usize {
        self.runs.len()
    }

    /// Why nothing of it is started, if so.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Other rules are in force. What runs goes on as it was begun.
    pub(crate) fn reconfigure(&mut self, now: Moment, rules: Rules) {
        self.rules = rules;
        self.paused.clear();
        self.pick(now);
    }

    /// A run that an earlier daemon began, and that is watched from now on.
    pub(crate) fn adopt(&mut self, run: RunId, task: Task) {
        let handler = self.rules.handler(&task.payload.task_type).cloned();
        let work = Work {
            id: task.id.clone(),
            task_type: task.payload.task_type.as_str().into(),
            created_at: task.created_at,
            due_at: task.created_at,
            handler,
            stage: Stage::Running(Box::new(task)),
        };
        self.of_task.insert(work.id.clone(), run.clone());
        self.runs.insert(run, work);
    }

    /// Everything that waits is to be looked at.
    pub(crate) fn scan(&mut self) {
        if self.failure.is_none() {
            self.overfull = false;
            self.scan_at = None;
            self.steps.push(Step::Scan);
        }
    }

    /// Not everything could be looked at.
    pub(crate) fn not_scanned(&mut self, now: Moment, error: &SpoolError) {
        self.refused(now, "go over what waits", error);
        self.scan_at = Some(now.boot + AGAIN);
    }

    /// Something came into `pending/`, or changed there.
    pub(crate) fn came(&mut self, names: Vec<String>) {
        if self.failure.is_some() {
            return;
        }
        self.changed.extend(names);
        if self.changed.len() > NAMES_MAX {
            self.changed.clear();
            self.scan();
        }
        self.look();
    }

    /// Looks at some of what has changed, unless that is being done.
    fn look(&mut self) {
        if self.looking || self.changed.is_empty() || self.failure.is_some() {
            return;
        }
        let mut names: Vec<String> = self.changed.iter().take(LOOK_STEP).cloned().collect();
        for name in &names {
            self.changed.remove(name);
        }
        names.sort_unstable();
        self.looking = true;
        self.steps.push(Step::Look(names));
    }

    /// What had changed was looked at.
    pub(crate) fn looked_at(&mut self, now: Moment, looked: Vec<Looked>) {
        self.looking = false;
        self.looked(now, looked);
        self.look();
    }

    /// So many tasks that an earlier daemon left could not be put in order.
    pub(crate) fn unrecovered(&mut self, now: Moment, count: usize) {
        self.recover_at = (count > 0).then(|| now.boot + AGAIN);
    }

    /// Something left `pending/`.
    pub(crate) fn left(&mut self, name: &str) {
        if let Some(id) = id_of(name) {
            self.waiting.remove(&id);
        }
    }

    /// Names were looked at.
    pub(crate) fn looked(&mut self, now: Moment, looked: Vec<Looked>) {
        for looked in looked {
            match looked {
                Looked::Waits(waiter) => {
                    self.forget_stuck(&waiter.id.file_name());
                    if !self.waiting.insert(waiter, now.wall.0) && !self.overfull {
                        self.overfull = true;
                        let message = "more tasks wait than are kept in memory; the others are \
                                       looked for when there is room";
                        let entry = self.entry(Level::Warn, "spool_overfull");
                        self.log(entry.with("message", message));
                    }
                }
                Looked::NotYet(name, at) => {
                    let patience = elapsed(now.wall.0, at);
                    self.look_again(now, name, patience);
                }
                Looked::Gone(name) => {
                    self.forget_stuck(&name);
                    self.left(&name);
                }
                Looked::SetAside(aside) => {
                    self.forget_stuck(&aside.name);
                    self.left(&aside.name);
                    self.happened.push(Happened::SetAside);
                    let entry = self.entry(Level::Warn, "spool_rejected").with("name", aside.name);
                    let entry = entry.with("path", aside.path);
                    let message = aside.fault.to_string();
                    self.log(entry.error(Category::Validation, "look at a task", &message));
                }
                Looked::Repeated(id, other) => {
                    self.waiting.remove(&id);
                    let entry = self.entry(Level::Info, "spool_repeated");
                    self.log(entry.shown("task_id", id).shown("other", other));
                }
                Looked::Stuck(name, message) => {
                    self.left(&name);
                    if self.stuck.len() < UNSETTLED_MAX && self.stuck.insert(name.clone()) {
                        let entry = self.entry(Level::Error, "spool_stuck");
                        let entry = entry.with("name", name.as_str());
                        self.log(entry.error(Category::Persistence, "set aside", &message));
                    }
                    self.look_again(now, name, AGAIN);
                }
                Looked::StuckNoText(message) => {
                    if self.no_text.as_ref() != Some(&message) {
                        let entry = self.entry(Level::Error, "spool_stuck");
                        self.log(entry.error(Category::Persistence, "set aside", &message));
                        self.no_text = Some(message);
                    }
                    self.scan_at = Some(now.boot + AGAIN);
                }
            }
        }
        self.pick(now);
    }

    /// A name is to be looked at again after that.
    fn look_again(&mut self, now: Moment, name: String, after: Duration) {
        if self.unsettled.len() < UNSETTLED_MAX {
            self.unsettled.insert((now.boot + after, name));
        } else {
            self.scan_at = self.scan_at.or(Some(now.boot + AGAIN));
        }
    }

    fn forget_stuck(&mut self, name: &str) {
        if !self.stuck.is_empty() {
            self.stuck.remove(name);
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Moment) {
        if self.held_until.is_some_and(|until| until <= now.boot) {
            self.held_until = None;
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.again).into_iter().partition(|(at, _)| *at <= now.boot);
        self.again = later;
        for (_, run) in due {
            if let Some(Work { stage: Stage::Finishing(finish), .. }) = self.runs.get(&run) {
                self.steps.push(Step::Finish(run, finish.clone()));
            }
        }
        if self.scan_at.is_some_and(|at| at <= now.boot) {
            self.scan_at = None;
            self.scan();
        }
        if self.recover_at.is_some_and(|at| at <= now.boot) && self.failure.is_none() {
            self.recover_at = None;
            self.steps.push(Step::Recover);
        }
        let mut names = Vec::new();
        while let Some((at, _)) = self.unsettled.first()
            && *at <= now.boot
        {
            names.extend(self.unsettled.pop_first().map(|(_, name)| name));
        }
        self.came(names);
        self.waiting.pass(now.wall.0);
        self.pick(now);
    }

    /// How long the daemon may sleep.
    pub(crate) fn sleep(&self, now: Moment) -> Duration {
        let until = |at: Timestamp| {
            let ms = at.unix_ms().saturating_sub(now.wall.0.unix_ms());
            Duration::from_millis(u64::try_from(ms).unwrap_or_default())
        };
        let walls = self.waiting.next_due().into_iter().map(until);
        let unsettled = self.unsettled.first().map(|(at, _)| *at);
        let recover_at = self.recover_at.filter(|_| self.failure.is_none());
        let boots = self.again.iter().map(|(at, _)| *at);
        let boots = boots.chain(self.held_until).chain(self.scan_at).chain(unsettled);
        let boots = boots.chain(recover_at);
        // What passes without anything coming of it is not waited for a second time.
        let leaves = self.stop.and_then(|stop| stop.leave_at);
        let leaves = leaves.into_iter().flat_map(|at| [at, at + UNSETTLED_PATIENCE]);
        let pauses = self.paused.values().map(|(until, _)| *until);
        let boots = boots.chain(pauses.chain(leaves).filter(|until| *until > now.boot));
        let boots = boots.map(|at| at.saturating_sub(now.boot));
        walls.chain(boots).min().unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }

    /// Starts what can be started.
    fn pick(&mut self, now: Moment) {
        self.waiting.pass(now.wall.0);
        let resting = self.stop.is_some() || self.held_until.is_some() || self.failure.is_some();
        while !resting && self.runs.len() < self.rules.settings.workers_max as usize {
            let (rules, runs, paused) = (&self.rules, &self.runs, &self.paused);
            let is_open = |task_type: &str| {
                let Some(handler) = rules.handler(task_type) else { return false };
                let of_type = |work: &&Work| &*work.task_type == task_type;
                let full = handler
                    .workers_max
                    .is_some_and(|max| runs.values().filter(of_type).count() >= max as usize);
                let paused = paused.get(task_type).is_some_and(|(until, _)| *until > now.boot);
                !full && !paused
            };
            let open = rules.types().filter(|task_type| is_open(task_type));
            let Some(waiter) = self.waiting.take(open) else { break };
            // One whose start is still under way is looked at again when that is decided.
            if self.of_task.contains_key(&waiter.id) {
                continue;
            }
            let run = self.new_run_id();
            let Waiter { id, task_type, created_at, .. } = waiter;
            let handler = self.rules.handler(&task_type).cloned();
            self.steps.push(Step::Fetch(run.clone(), id.clone()));
            self.of_task.insert(id.clone(), run.clone());
            let stage = Stage::Fetching;
            let due_at = created_at;
            self.runs.insert(run, Work { id, task_type, created_at, due_at, handler, stage });
        }
        if self.overfull && self.waiting.has_much_room() && !resting {
            self.scan();
        }
    }

    fn new_run_id(&mut self) -> RunId {
        loop {
            let id = RunId::from_bits(self.random.next());
            if !self.runs.contains_key(&id) {
                return id;
            }
        }
    }

    /// A task was read again.
    pub(crate) fn fetched(&mut self, now: Moment, run: &RunId, result: Result<Found, Looked>) {
        let rests = self.stop.is_some() || self.failure.is_some();
        let Some(work) = self.runs.get_mut(run) else { return };
        let handler = work.handler.clone().filter(|_| !rests);
        match (result, handler) {
            (Ok(found), Some(handler))
                if found.task.not_before.is_none_or(|at| at <= now.wall.0)
                    && found.task.payload.task_type == handler.job_type =>
            {
                work.due_at = found.task.not_before.unwrap_or(work.created_at).max(work.created_at);
                work.stage = Stage::Launching(Box::new(found.clone()));
                let (run, spool) = (run.clone(), self.name.clone());
                self.steps.push(Step::Launch(Box::new(Launch { run, spool, found, handler })));
            }
            // It was replaced, or nothing is started any more: it waits as it is now.
            (Ok(found), _) => {
                self.drop_run(run);
                self.looked(now, vec![Looked::Waits(waiter(&found.task))]);
            }
            (Err(looked), _) => {
                self.drop_run(run);
                self.looked(now, vec![looked]);
            }
        }
    }

    /// The command stands at its gate: its task is moved, with its processes.
    pub(crate) fn armed(
        &mut self,
        run: &RunId,
        supervisor: Process,
        command: Process,
        boot_id: String,
    ) {
        let rests = self.stop.is_some() || self.failure.is_some();
        let Some(work) = self.runs.get_mut(run) else { return };
        let Stage::Launching(found) = &work.stage else { return };
        if rests {
            // It waits where it was; a spool that stays after all goes on with it.
            let (waiter, due_at) = (work.waiter(), work.due_at);
            self.give_up(run);
            self.waiting.insert(waiter, due_at);
            return;
        }
        let run_id = run.clone();
        let started = Run { run_id, boot_id, supervisor, command };
        let start = Start { found: (**found).clone(), run: started };
        work.stage = Stage::Starting;
        self.steps.push(Step::Start(run.clone(), Box::new(start)));
    }

    /// Its task is in `running/`, or could not be moved there.
    pub(crate) fn started(&mut self, now: Moment, run: &RunId, result: Result<Task, SpoolError>) {
        let kills = self.stop.is_some_and(|stop| stop.mode == StopMode::Kill);
        let rests = kills || self.failure.is_some();
        let Some(work) = self.runs.get_mut(run) else { return };
        let vanished = matches!(work.stage, Stage::Vanished);
        match result {
            Ok(task) if vanished || rests => {
                // Nobody has let it go, and nobody will.
                let task_type = work.task_type.clone();
                self.steps.push(Step::Abandon(run.clone()));
                if vanished {
                    self.pause(now, &task_type);
                }
                self.finish(run, task, Next::NotStarted);
            }
            Ok(task) => {
                self.paused.remove(&*work.task_type);
                let waited = elapsed(work.due_at, task.started_at.unwrap_or(work.due_at));
                work.stage = Stage::Running(Box::new(task.clone()));
                let entry = self.entry_of(Level::Info, "spool_task_started", &task);
                self.happened.push(Happened::Started { waited });
                self.log(entry.shown("run_id", run));
                self.steps.push(Step::LetGo(run.clone()));
            }
            Err(SpoolError::Gone { .. }) => {
                // Somebody took it back in time, or put another in its place.
                let name = work.id.file_name();
                self.give_up(run);
                self.came(vec![name]);
            }
            Err(error) => {
                let waiter = work.waiter();
                self.give_up(run);
                self.refused(now, "start a task", &error);
                self.waiting.insert(waiter, now.wall.0);
            }
        }
        self.pick(now);
    }

    /// Gives up a run at its gate; its task waits where it was.
    fn give_up(&mut self, run: &RunId) {
        self.steps.push(Step::Abandon(run.clone()));
        self.steps.push(Step::Acknowledge(run.clone()));
        self.drop_run(run);
    }

    fn drop_run(&mut self, run: &RunId) {
        if let Some(work) = self.runs.remove(run) {
            self.of_task.remove(&work.id);
        }
    }

    /// The disk refused something.
    fn refused(&mut self, now: Moment, operation: &str, error: &SpoolError) {
        let message = crate::log::told(error);
        let entry = self.entry(Level::Error, "spool_refused");
        self.log(entry.error(error.category(), operation, &message));
        if error.is_final() {
            self.fail(message);
        } else {
            self.held_until = Some(now.boot + AGAIN);
        }
    }

    /// Nothing more can be done.
    pub(crate) fn fail(&mut self, message: String) {
        if self.failure.is_none() {
            let entry = self.entry(Level::Error, "spool_rests").error(
                Category::Persistence,
                "use the spool",
                &format!("{message}; it rests until the daemon is started again"),
            );
            self.log(entry);
            self.failure = Some(message);
        }
    }

    /// A command could not be brought to its gate; nothing of it was executed.
    pub(crate) fn not_launched(&mut self, now: Moment, run: &RunId, failure: &StartFailure) {
        let Some(work) = self.runs.get(run) else { return };
        if !matches!(work.stage, Stage::Launching(_)) {
            // It was let go and could not be executed.
            return self.ended_as(now, run, end::of_failure(failure));
        }
        let waiter = work.waiter();
        let entry = self.entry(Level::Error, "spool_task_not_started");
        let entry = entry.shown("task_id", &waiter.id).with("task_type", &*waiter.task_type);
        self.log(entry.error(failure.category, &failure.operation, &failure.message));
        self.drop_run(run);
        // Whatever it is, it is not the task's fault: its type waits until it can be started.
        self.pause(now, &waiter.task_type);
        self.waiting.insert(waiter, now.wall.0);
        self.pick(now);
    }

    /// Nothing of a type is started for a while, and for twice as long the next time.
    fn pause(&mut self, now: Moment, task_type: &str) {
        let before = self.paused.get(task_type).map(|(_, pause)| *pause * 2);
        let pause = before.unwrap_or(HANDLER_PAUSE).min(HANDLER_PAUSE_MAX);
        self.paused.insert(task_type.to_owned(), (now.boot + pause, pause));
    }

    /// The run has ended.
    pub(crate) fn ended(&mut self, now: Moment, run: &RunId, report: &Report) {
        let Some(work) = self.runs.get_mut(run) else { return };
        let task = match &work.stage {
            Stage::Running(task) => task.clone(),
            Stage::Starting => {
                work.stage = Stage::Vanished;
                return;
            }
            _ => return,
        };
        let (task_type, handler) = (work.task_type.clone(), work.handler.clone());
        match report.record {
            Some(RunRecord::NotReleased) => {
                self.pause(now, &task_type);
                self.finish(run, *task, Next::NotStarted);
            }
            _ => self.ended_as(now, run, end::of_report(report, handler.as_deref())),
        }
    }

    fn ended_as(&mut self, now: Moment, run: &RunId, end: kron_queue::RunEnd) {
        let Some(Work { stage: Stage::Running(task), .. }) = self.runs.get(run) else { return };
        let task = task.clone();
        let policy = self.rules.policy(&task.payload.task_type);
        let outcome = match end.outcome {
            kron_queue::Outcome::Lost => {
                self.happened.push(Happened::Lost);
                let why = "its supervisor was lost, and nobody knows how far it had come";
                let next = policy.after_loss(&task, why);
                return self.finish(run, *task, next);
            }
            kron_queue::Outcome::Completed => Outcome::Succeeded,
            kron_queue::Outcome::Skipped => Outcome::Skipped,
            _ => Outcome::Failed,
        };
        let exit_code = end.exit_code.and_then(|code| i32::try_from(code).ok());
        let result = TaskResult { outcome, exit_code, error: end.error, output: None };
        let next = policy.after(&task, result, now.wall.0);
        self.finish(run, *task, next);
    }

    fn finish(&mut self, run: &RunId, task: Task, next: Next) {
        let finish = Box::new(Finish { task, next });
        if let Some(work) = self.runs.get_mut(run) {
            work.stage = Stage::Finishing(finish.clone());
            #[cfg(kron_canary)]
            if kron_canary::Canary::SpoolAcknowledgedBeforeRecorded.is_active() {
                self.steps.push(Step::Acknowledge(run.clone()));
            }
            self.steps.push(Step::Finish(run.clone(), finish));
        }
    }

    /// The end of a run is recorded, or could not be.
    pub(crate) fn finished(&mut self, now: Moment, run: &RunId, result: Result<Task, SpoolError>) {
        let Some(Work { stage: Stage::Finishing(finish), .. }) = self.runs.get(run) else { return };
        match result {
            Ok(task) => {
                let started = finish.task.started_at.unwrap_or(now.wall.0);
                let ran = elapsed(started, now.wall.0);
                self.drop_run(run);
                self.steps.push(Step::Acknowledge(run.clone()));
                let level = match &task.result {
                    Some(result) if result.outcome == Outcome::Failed => Level::Warn,
                    _ => Level::Info,
                };
                let mut entry = self.entry_of(level, "spool_task_ended", &task);
                entry = entry.shown("run_id", run).shown("state", task.state);
                self.happened.push(match &task.result {
                    Some(result) => {
                        entry = entry.shown("outcome", result.outcome);
                        Happened::Ended { outcome: result.outcome, ran }
                    }
                    None => Happened::Retried { ran },
                });
                let error =
                    task.result.as_ref().map_or(task.last_error.as_ref(), |it| it.error.as_ref());
                if let Some(error) = error {
                    entry = entry.with("error", error.as_str());
                }
                self.log(entry);
                if task.state == State::Pending {
                    self.waiting.insert(waiter(&task), now.wall.0);
                }
            }
            Err(error) if error.is_final() => {
                // Its supervisor stays, or leaves what the next daemon finds.
                self.refused(now, "record the end of a task", &error);
            }
            Err(error) => {
                self.refused(now, "record the end of a task", &error);
                self.again.push((now.boot + AGAIN, run.clone()));
            }
        }
        self.pick(now);
    }

    /// No more is started. What runs is waited for as `mode` says.
    pub(crate) fn stop(&mut self, now: Moment, mode: StopMode) {
        if self.stop.is_some_and(|stop| stop.mode >= mode && mode != StopMode::Leave) {
            return;
        }
        let grace = Duration::from_secs(self.rules.settings.stop_grace.get());
        let leave_at = (mode == StopMode::Leave).then(|| now.boot + grace);
        self.stop = Some(Stop { mode, leave_at });
        if mode == StopMode::Kill {
            let running = self.runs.iter().filter(|(_, work)| work.is_running());
            let ends: Vec<RunId> = running.map(|(run, _)| run.clone()).collect();
            for run in ends {
                self.steps.push(Step::End(run, Urgency::Terminate));
            }
        }
    }

    /// It goes on although it was told to stop.
    pub(crate) fn stay(&mut self) {
        self.stop = None;
    }

    /// Whether a daemon that was told to stop may leave now.
    pub(crate) fn may_leave(&self, now: Moment) -> bool {
        let Some(stop) = self.stop else { return false };
        let unsettled = self.failure.is_none() && self.runs.values().any(|work| !work.is_running());
        match stop.leave_at {
            // What cannot be settled in time is left as after a crash, which loses nothing.
            Some(at) => {
                self.runs.is_empty()
                    || (now.boot >= at && !unsettled)
                    || now.boot >= at + UNSETTLED_PATIENCE
            }
            None => self.runs.is_empty() || self.failure.is_some(),
        }
    }

    /// Whether nothing of it is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }

    fn entry(&self, level: Level, event: &'static str) -> Entry {
        Entry::new(level, event).of(&self.identity).with("spool", &*self.name)
    }

    fn entry_of(&self, level: Level, event: &'static str, task: &Task) -> Entry {
        self.entry(level, event)
            .period(&kron_state::PeriodRef::Manual(task.id.to_string().into()))
            .shown("task_id", &task.id)
            .with("task_type", task.payload.task_type.as_str())
            .with("attempts", task.attempts)
    }

    fn log(&mut self, entry: Entry) {
        self.steps.push(Step::Log(Box::new(entry)));
    }
}

impl Work {
    /// It as it waited before.
    fn waiter(&self) -> Waiter {
        Waiter {
            id: self.id.clone(),
            task_type: self.task_type.clone(),
            created_at: self.created_at,
            not_before: None,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }
}

/// What is kept in memory of a task that waits.
pub(crate) fn waiter(task: &Task) -> Waiter {
    Waiter {
        id: task.id.clone(),
        task_type: task.payload.task_type.as_str().into(),
        created_at: task.created_at,
        not_before: task.not_before,
    }
}

fn id_of(name: &str) -> Option<TaskId> {
    TaskId::new(name.strip_suffix(".json")?).ok()
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    let ms = to.unix_ms().saturating_sub(from.unix_ms());
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}
