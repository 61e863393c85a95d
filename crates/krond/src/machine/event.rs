//! What the machine is told, and what it asks for.
//!
//! Both are plain data: the daemon carries actions out with real files and processes, the
//! simulation with imagined ones, and the machine cannot tell.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kron_config::{Hook, Job};
use kron_core::{Category, Decision, DecisionHash, Outcome, Past, UtcSecond};
use kron_state::{
    ActiveState, Change, Delivery, DeliveryId, Document, Ending, EpochEvent, ExitStatus, Known,
    PeriodRef, Process, Recent, RunId, RunRecord, Summary,
};
use serde_json::Value;

/// The time, twice: as people tell it, and as the machine counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall time, which people and the network set.
    pub wall: UtcSecond,
    /// Time since the machine was booted, suspension included. It never goes back.
    pub boot: Duration,
}

/// One job as it was defined by one load.
#[derive(Debug)]
pub struct Definition {
    /// The job.
    pub job: Job,
    /// [`kron_core::Timing::decision_hash`] of it.
    pub hash: DecisionHash,
    /// Which load defined it, counted from 1.
    pub generation: u64,
}

/// What a new daemon finds.
#[derive(Debug, Default)]
pub struct Boot {
    /// Random bits for run ids.
    pub seed: u64,
    /// The jobs to schedule.
    pub jobs: Vec<Job>,
    /// This machine's id; another than the recorded one means a copied state directory.
    pub machine_id: String,
    /// What is recorded about jobs; `None` when that is missing or lost.
    pub known: Option<Known>,
    /// What the state documents say.
    pub recorded: Vec<Recorded>,
    /// State files that cannot be read: the hash in their names, and when they were last written.
    pub unreadable: Vec<(String, UtcSecond)>,
    /// The latest time that any daemon over this state directory is known to have seen. The clock
    /// may have gone back since.
    pub latest_seen: Option<UtcSecond>,
    /// Who wants to be told what became of periods.
    pub hooks: Vec<Hook>,
    /// Whether runs are brought to their gates ahead of a burst.
    pub preparation: Option<Preparation>,
}

/// When runs are brought to their gates before they fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// How many jobs due in one second are a burst.
    pub burst_min: usize,
    /// How many runs stand ready at most.
    pub runs_max: usize,
}

/// What one state document says, without its history.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The job.
    pub identity: String,
    /// Its high-water mark.
    pub last_handled: Option<UtcSecond>,
    /// What happened last.
    pub last: Option<Last>,
    /// Runs that had not ended.
    pub active: Vec<ActiveState>,
    /// A replacement that had begun.
    pub replacing: Option<UtcSecond>,
    /// Periods whose start was on its way when a later one was recorded.
    pub owed: Vec<UtcSecond>,
    /// Periods beyond the mark that were executed before it was moved back on purpose.
    pub executed_ahead: Vec<UtcSecond>,
    /// What hooks had still to be told.
    pub deliveries: Vec<Delivery>,
    /// What became of its latest periods and runs.
    pub recent: Recent,
}

impl From<Summary> for Recorded {
    fn from(summary: Summary) -> Recorded {
        let last = summary.last_entry.and_then(|entry| {
            let status =
                entry.exit_code.map(ExitStatus::ExitCode).or(entry.signal.map(ExitStatus::Signal));
            Some(Last {
                // Of a stretch, the last period is the latest.
                period: entry.last_period.map_or(entry.period, PeriodRef::Period),
                outcome: entry.outcome?,
                reason: entry.reason.map(Arc::from),
                ending: entry.ending,
                status,
                started_at: entry.started_at,
                completed_at: entry.completed_at,
            })
        });
        Recorded {
            identity: summary.identity,
            last_handled: summary.last_handled,
            last,
            active: summary.active,
            replacing: summary.replacing.map(|replacing| replacing.period),
            owed: summary.owed,
            executed_ahead: summary.executed_ahead,
            deliveries: summary.deliveries,
            recent: summary.recent,
        }
    }
}

/// The latest outcome of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// The period, or the run by hand.
    pub period: PeriodRef,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why it did not run.
    pub reason: Option<Arc<str>>,
    /// How its run ended; `None` when it did not run or has not ended.
    pub ending: Option<Ending>,
    /// How its process ended.
    pub status: Option<ExitStatus>,
    /// When it was started.
    pub started_at: Option<UtcSecond>,
    /// When its outcome was final.
    pub completed_at: Option<UtcSecond>,
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// Time has passed. Spurious ones do no harm.
    Tick {
        /// Whether the kernel says that the clock is synchronised.
        synchronised: bool,
    },
    /// These hooks are to take the place of the present ones.
    Hooks(Vec<Hook>),
    /// A hook was told, or could not be.
    Delivered {
        /// What it was told.
        id: DeliveryId,
        /// Why it could not be.
        result: Result<(), String>,
    },
    /// New definitions are to take the place of the present ones.
    Load {
        /// All jobs.
        jobs: Vec<Job>,
        /// Who wants to know when that is done.
        request: Option<RequestId>,
    },
    /// A command stands at its gate.
    Armed {
        /// The run.
        run: RunId,
        /// Its supervisor.
        supervisor: Process,
        /// The command.
        command: Process,
        /// The boot both belong to.
        boot_id: String,
    },
    /// A run could not be brought to its gate; nothing of it is left.
    LaunchFailed {
        /// The run.
        run: RunId,
        /// Why.
        failure: StartFailure,
    },
    /// A released command was executed.
    Executing {
        /// The run.
        run: RunId,
    },
    /// A released command could not be executed; its supervisor waits to be acknowledged.
    ExecFailed {
        /// The run.
        run: RunId,
        /// Why.
        failure: StartFailure,
    },
    /// What was to be done was handed over, and is kept.
    HandedOver {
        /// The run.
        run: RunId,
        /// To whom, as in “enqueued as …”.
        to: String,
    },
    /// Supervisor and command are both gone, or the supervisor has reported the end and waits.
    Ended {
        /// The run.
        run: RunId,
        /// What is known about its end.
        report: Report,
    },
    /// What an action with this ticket asked to be durable is durable.
    Durable(Ticket),
    /// What an action with this ticket asked for could not be made durable. That is fatal.
    NotDurable {
        /// The ticket.
        ticket: Ticket,
        /// What was to be done.
        operation: &'static str,
        /// Whose state it was, where it was one job's.
        identity: Option<Arc<str>>,
        /// The period that it was about, where it was about one.
        period: Option<PeriodRef>,
        /// Why.
        message: String,
    },
    /// Somebody asks something.
    Request {
        /// Where the answer goes.
        id: RequestId,
        /// What is asked.
        request: Request,
    },
    /// The daemon is asked to stop by a signal.
    Stop(StopMode),
}

impl Event {
    /// The run it is about, if it is about one.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        match self {
            Event::Armed { run, .. }
            | Event::LaunchFailed { run, .. }
            | Event::Executing { run }
            | Event::ExecFailed { run, .. }
            | Event::HandedOver { run, .. }
            | Event::Ended { run, .. } => Some(run),
            _ => None,
        }
    }
}

/// What is known about the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// What the supervisor said or left behind; `None` when it was lost.
    pub record: Option<RunRecord>,
    /// How the command ended, where the daemon itself reaped it.
    pub reaped: Option<ExitStatus>,
}

/// Why a run did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// Whose fault it is: execution, or the system.
    pub category: Category,
    /// What was attempted.
    pub operation: String,
    /// What went wrong.
    pub message: String,
}

/// Joins an action that must be durable with the event that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Joins a request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What people ask of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How things are.
    Status,
    /// All jobs.
    Jobs,
    /// One job.
    Job(String),
    /// Run a job by hand.
    Run {
        /// The job.
        identity: String,
        /// What to do when a run is active and the policy forbids another.
        overlap: ManualOverlap,
    },
    /// Stop starting a job.
    Suspend(String),
    /// Start it again when it falls due.
    Resume(String),
    /// Stop the daemon.
    Stop(StopMode),
    /// Believe the clock although it leapt.
    AcceptClock,
}

/// Whether a run by hand respects `concurrency=forbid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManualOverlap {
    /// It is refused while another run is active.
    Respect,
    /// It runs beside it.
    Force,
}

/// How a daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopMode {
    /// Start nothing more and leave at once; what runs goes on under its supervisors.
    Leave,
    /// Start nothing more, wait for what runs, leave.
    Wait,
    /// Start nothing more, end what runs, leave.
    Kill,
}

impl StopMode {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            StopMode::Leave => "leave",
            StopMode::Wait => "wait",
            StopMode::Kill => "kill",
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Done.
    Done,
    /// A run was started by hand.
    Started {
        /// Its id.
        run: RunId,
        /// Its name in the history.
        period: PeriodRef,
    },
    /// How things are.
    Status(StatusView),
    /// Jobs.
    Jobs(Vec<JobView>),
    /// It was not done.
    Refused(Refusal),
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such job.
    NoSuchJob {
        /// What was asked for.
        identity: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A run of the job is active and its policy forbids another.
    Active {
        /// The run.
        run: RunId,
    },
    /// The run could not be started.
    NotStarted(StartFailure),
    /// The daemon is stopping.
    Stopping,
    /// There is nothing to do.
    Unchanged {
        /// How things already are.
        message: String,
    },
}

/// How things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusView {
    /// Jobs that are scheduled.
    pub job_count: usize,
    /// Jobs among them that are suspended.
    pub suspended_count: usize,
    /// Runs that have not ended.
    pub active_count: usize,
    /// Which load is in force.
    pub generation: u64,
    /// When that load happened.
    pub loaded_at: UtcSecond,
    /// When the daemon started.
    pub started_at: UtcSecond,
    /// Since when the clock is not believed.
    pub clock_held_since: Option<UtcSecond>,
    /// Whether the daemon is stopping.
    pub stopping: Option<StopMode>,
    /// When something falls due next.
    pub next_due: Option<UtcSecond>,
}

/// A job as the machine sees it.
#[derive(Clone, Debug)]
pub struct JobView {
    /// The definition; `None` for a job that was removed and still runs.
    pub definition: Option<Arc<Definition>>,
    /// The job's identity.
    pub identity: Arc<str>,
    /// What is recorded about its past.
    pub past: Past,
    /// Whether it is suspended now.
    pub suspension: Option<Suspension>,
    /// The next period and its decision.
    pub next: Option<Decision>,
    /// What happened last.
    pub last: Option<Last>,
    /// Its runs that have not ended, oldest first.
    pub active: Vec<RunView>,
    /// Why the current period could not be started, and how often that was tried.
    pub failing: Option<(u32, StartFailure)>,
    /// What became of its latest periods and runs.
    pub recent: Recent,
}

/// What suspends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// Its definition.
    Definition,
    /// Somebody, by hand.
    Hand,
}

/// A run as the machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// Its id.
    pub run: RunId,
    /// What it is for.
    pub period: PeriodRef,
    /// How far it is.
    pub stage: &'static str,
    /// When it was started.
    pub started_at: Option<UtcSecond>,
    /// The command's process.
    pub pid: Option<i32>,
}

/// Something the machine wants done.
#[derive(Debug)]
pub enum Action {
    /// Bring a command to its gate.
    Launch(Launch),
    /// Let the command at the gate go.
    Release(RunId),
    /// Let it never go: the supervisor ends it at the gate.
    Abandon(RunId),
    /// Ask a supervisor to end its run.
    End(RunId, Urgency),
    /// The end of the run is durable: its supervisor may leave, and its record can be removed.
    Acknowledge(RunId),
    /// Watch a run that an earlier daemon started, and report its end.
    Adopt {
        /// The job.
        identity: Arc<str>,
        /// The run.
        active: ActiveState,
    },
    /// Make these changes of one job's document durable, after all earlier ones of that job.
    Commit {
        /// Named by the answer.
        ticket: Ticket,
        /// The job.
        identity: Arc<str>,
        /// The changes.
        changes: Vec<Change>,
        /// What waits for it.
        rank: Rank,
    },
    /// Set an unreadable document aside and put this one in its place, durably.
    Restore {
        /// Named by the answer.
        ticket: Ticket,
        /// The job.
        identity: Arc<str>,
        /// The new document.
        document: Box<Document>,
    },
    /// Make what is known about all jobs durable, after all earlier ones.
    SaveKnown {
        /// Named by the answer.
        ticket: Ticket,
        /// All of it.
        known: Box<Known>,
    },
    /// Tell a hook, and report how that went.
    Deliver {
        /// The job.
        identity: Arc<str>,
        /// The hook.
        hook: Arc<Hook>,
        /// What it is told.
        delivery: Arc<Delivery>,
    },
    /// Write to the daemon's own log of epochs.
    Epoch(EpochEvent),
    /// Tell the log.
    Log(Entry),
    /// Answer a request.
    Reply {
        /// Whose.
        to: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// Leave. Nothing follows.
    Exit(ExitReason),
}

/// How soon a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Asked first, killed after the grace.
    Terminate,
    /// Killed at once.
    Kill,
}

/// The order in which writes of different jobs go to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A command waits at its gate for it.
    Start,
    /// A run has ended.
    Finish,
    /// It could be computed again.
    Background,
}

/// Why the daemon leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It was asked to.
    Stopped(StopMode),
    /// State could not be written.
    Persistence {
        /// What went wrong.
        message: String,
    },
}

/// A run to bring to its gate.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its id.
    pub run: RunId,
    /// The definition it is started with, whatever is loaded meanwhile.
    pub definition: Arc<Definition>,
    /// What it is for.
    pub period: PeriodRef,
    /// The decision; `None` for a run by hand.
    pub decision: Option<Decision>,
    /// When it was asked for or fell due.
    pub chosen: UtcSecond,
}

/// How much a log entry matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    /// The word in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// How much it matters.
    pub level: Level,
    /// What happened, as a fixed word.
    pub event: &'static str,
    /// The job it is about.
    pub identity: Option<Arc<str>>,
    /// The period or run by hand it is about.
    pub period: Option<PeriodRef>,
    /// More, in this order.
    pub fields: Vec<(&'static str, Value)>,
    /// The decision of a `decision` event, and the definition that made it.
    pub decision: Option<(Arc<Definition>, Decision)>,
}

impl Entry {
    pub(crate) fn new(level: Level, event: &'static str) -> Entry {
        Entry { level, event, identity: None, period: None, fields: Vec::new(), decision: None }
    }

    pub(crate) fn of(mut self, identity: &Arc<str>) -> Entry {
        self.identity = Some(identity.clone());
        self
    }

    pub(crate) fn period(mut self, period: &PeriodRef) -> Entry {
        self.period = Some(period.clone());
        self
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Entry {
        self.fields.push((key, value.into()));
        self
    }

    /// As with [`Entry::with`], for anything that can be shown.
    pub(crate) fn shown(self, key: &'static str, value: impl fmt::Display) -> Entry {
        self.with(key, value.to_string())
    }

    /// What every logged error carries beside its job and period.
    pub(crate) fn error(self, category: Category, operation: &str, message: &str) -> Entry {
        self.shown("error_type", category).with("operation", operation).with("message", message)
    }
}
