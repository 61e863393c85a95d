//! What the control API says, as data: the server writes it and `kron` reads it.
//!
//! Every time is RFC 3339 in UTC. A reader ignores fields it does not know and does without those
//! that may be absent, so that a command and a daemon of different versions understand each other.
//! Nothing here decides or asks anything.

use kron_core::{DecisionRecord, UtcSecond};
use serde::{Deserialize, Serialize};

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusView {
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Its state directory.
    pub state_dir: String,
    /// What time it has.
    pub time: UtcSecond,
    /// When it started.
    pub started_at: UtcSecond,
    /// Which load of the definitions is in force, counted from 1.
    pub generation: u64,
    /// When that load happened.
    pub loaded_at: UtcSecond,
    /// Jobs that are scheduled.
    pub job_count: u64,
    /// Jobs among them that are suspended.
    pub suspended_count: u64,
    /// Runs that have not ended.
    pub active_count: u64,
    /// When something falls due next.
    pub next_due: Option<UtcSecond>,
    /// Since when the clock is not believed and nothing is evaluated.
    pub clock_held_since: Option<UtcSecond>,
    /// `leave`, `wait` or `kill` when it is stopping.
    pub stopping: Option<String>,
}

/// When jobs are expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedView {
    /// Every job that has a next run, in the order of their identities.
    pub jobs: Vec<ExpectedJobView>,
}

/// When one job is expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedJobView {
    /// Its identity.
    pub identity: String,
    /// Its next period.
    pub period_id: String,
    /// When that period is due.
    pub chosen_time: UtcSecond,
    /// How late it may begin: the deadline, and at least a minute.
    pub grace_seconds: u64,
    /// When it must have begun, if all is well.
    pub expected_by: UtcSecond,
}

/// All jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobsView {
    /// In the order of their identities.
    pub jobs: Vec<JobView>,
}

/// A job as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// Its identity.
    pub identity: String,
    /// Its definition; absent when it was removed and still runs.
    pub definition: Option<DefinitionView>,
    /// What suspends it: `definition` or `hand`.
    pub suspended_by: Option<String>,
    /// When it was first seen.
    pub created_at: Option<UtcSecond>,
    /// When its present definition took effect.
    pub effective_from: Option<UtcSecond>,
    /// When a suspension was last lifted.
    pub resumed_at: Option<UtcSecond>,
    /// The latest period that reached an outcome.
    pub last_handled_period_id: Option<UtcSecond>,
    /// The next period.
    pub next: Option<DecisionRecord>,
    /// What happened last.
    pub last: Option<OutcomeView>,
    /// Its runs that have not ended, oldest first.
    #[serde(default)]
    pub active: Vec<RunView>,
    /// Why its current period could not be started.
    pub failing: Option<FailingView>,
    /// What became of its latest periods and runs, oldest first: `succeeded`, `failed`,
    /// `timed_out`, `lost`, `replaced`, `stopped`, `missed`, `skipped` or `unschedulable`.
    #[serde(default)]
    pub recent: Vec<String>,
}

/// A job as it is defined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionView {
    /// Its schedule with every modifier.
    pub expression: String,
    /// Its zone.
    pub timezone: String,
    /// The words that are run, or the shell and its line.
    pub command: Vec<String>,
    /// The type of the job that it puts into the queue, where it has no command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueues: Option<String>,
    /// The spool into which it drops tasks, and their type, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spools: Option<String>,
    /// The user it runs as; the daemon's own when absent.
    pub user: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// File, line and column.
    pub defined_at: String,
    /// `allow`, `forbid` or `replace`.
    pub concurrency: String,
    /// How late it may start.
    pub deadline_seconds: u64,
    /// The hash of all that decides.
    pub decision_hash: String,
    /// Which load defined it.
    pub generation: u64,
}

/// What happened to a period, to a stretch of periods, or to a run by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeView {
    /// The period, the first of a stretch, or the name of a run by hand.
    pub period_id: String,
    /// `executed`, `skipped`, `missed` or `unschedulable`.
    pub outcome: Option<String>,
    /// Why it did not run.
    pub reason: Option<String>,
    /// The nominal time; absent for a run by hand.
    pub nominal_time: Option<UtcSecond>,
    /// When it was due.
    pub chosen_time: Option<UtcSecond>,
    /// The run.
    pub run_id: Option<String>,
    /// When the run started.
    pub started_at: Option<UtcSecond>,
    /// When the outcome was final; absent while the run is active.
    pub completed_at: Option<UtcSecond>,
    /// How the run ended: `exited`, `signalled`, `timed out`, `replaced`, `stopped` or `lost`.
    pub ending: Option<String>,
    /// The command's exit code, where one was seen.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Bytes of output that were dropped at the cap.
    pub output_dropped_bytes: Option<u64>,
    /// The last period of a stretch.
    pub last_period_id: Option<UtcSecond>,
    /// How many periods a stretch has.
    pub count: Option<u64>,
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunView {
    /// The run.
    pub run_id: String,
    /// What it is for.
    pub period_id: String,
    /// How far it is.
    pub stage: String,
    /// When it was started.
    pub started_at: Option<UtcSecond>,
    /// The command's process.
    pub pid: Option<i32>,
}

/// Why a period could not be started so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingView {
    /// How often that was tried.
    pub attempts: u32,
    /// The category of the last failure.
    pub category: String,
    /// What was attempted.
    pub operation: String,
    /// What went wrong.
    pub message: String,
}

/// What is recorded about a job's past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryView {
    /// The job.
    pub identity: String,
    /// Its zone; absent when the job is no longer defined.
    pub timezone: Option<String>,
    /// How many entries are kept.
    pub kept_count: u64,
    /// Outcomes, the newest first.
    pub entries: Vec<OutcomeView>,
    /// Runs that have not ended, oldest first.
    #[serde(default)]
    pub active: Vec<RunView>,
}

/// One run: how far it is or how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStateView {
    /// The run.
    pub run_id: String,
    /// Whether it has not ended.
    pub is_active: bool,
    /// What is recorded; absent until it was started.
    pub outcome: Option<OutcomeView>,
}

/// A run that was started by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run.
    pub run_id: String,
    /// Its name in the history.
    pub period_id: String,
}

/// Why something happened, or did not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhyView {
    /// The job.
    pub identity: String,
    /// The time that was asked about.
    pub at: Option<UtcSecond>,
    /// The period or run by hand that the answer is about; absent when there is none.
    pub period_id: Option<String>,
    /// The answer in a word: an outcome, or `running`, `starting`, `failing`, `waiting`, `none`
    /// (no outcome, and there will be none) or `unknown`.
    pub answer: String,
    /// Why, in fixed words.
    pub reason: Option<String>,
    /// What was decided, as the present definition decides it.
    pub decision: Option<DecisionRecord>,
    /// The nominal time in the job's zone.
    pub nominal_local: Option<String>,
    /// The chosen time in the job's zone.
    pub chosen_local: Option<String>,
    /// What is recorded.
    pub outcome: Option<OutcomeView>,
    /// How long after its chosen time it was started.
    pub late_seconds: Option<i64>,
    /// The later period that took its place.
    pub superseded_by: Option<UtcSecond>,
    /// When the daemon was not there, as far as it matters here.
    #[serde(default)]
    pub down: Vec<SpanView>,
    /// When the job was suspended, as far as it matters here.
    #[serde(default)]
    pub suspended: Vec<SpanView>,
    /// When the definition changed, if that was after the period fell due.
    pub definition_changed_at: Option<UtcSecond>,
    /// When the clock was set, as far as it matters here.
    #[serde(default)]
    pub clock_steps: Vec<ClockStepView>,
    /// The next period.
    pub next: Option<DecisionRecord>,
    /// All of it in plain sentences.
    pub sentences: Vec<String>,
}

/// A stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanView {
    /// Its first second; absent when that is not known.
    pub from: Option<UtcSecond>,
    /// Its end; absent when it has not ended.
    pub to: Option<UtcSecond>,
    /// What made it so.
    pub by: Option<String>,
}

/// A change of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStepView {
    /// What the clock showed before.
    pub from: UtcSecond,
    /// What it showed then.
    pub to: UtcSecond,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneView {
    /// What it was.
    pub done: String,
}

/// A reload that took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadedView {
    /// Jobs that are defined now.
    pub job_count: u64,
    /// Doubts about the definitions, as `kron lint` shows them; empty when there are none.
    #[serde(default)]
    pub diagnostics: String,
}

/// How a run by hand is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOrder {
    /// Run beside an active run although the policy forbids that.
    pub force: bool,
}

/// How the daemon is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopOrder {
    /// What happens to running jobs.
    pub mode: StopOrderMode,
}

/// What happens to running jobs when the daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopOrderMode {
    /// The daemon waits for them.
    Wait,
    /// They go on under their supervisors.
    Leave,
    /// They are ended.
    Kill,
}

/// The body of every answer that is no success: `application/problem+json` (RFC 9457), the same as
/// the queue's, with a category and advice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemView {
    /// `urn:kron:` and the code.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// What the status means.
    #[serde(default)]
    pub title: String,
    /// The status.
    #[serde(default)]
    pub status: u16,
    /// What went wrong.
    pub detail: String,
    /// The word that stands for it, for programs.
    #[serde(default)]
    pub code: String,
    /// One of the categories of errors.
    #[serde(default)]
    pub category: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// More, as it is to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// The spools of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolsView {
    /// Them, in the order of their names.
    pub spools: Vec<SpoolView>,
}

/// One spool as the daemon has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolView {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub dir: String,
    /// How many of its tasks run at once.
    pub workers_max: u32,
    /// Tasks that wait, those that are not due among them.
    pub pending: usize,
    /// Tasks that wait for their time.
    pub delayed: usize,
    /// Tasks that wait for a handler of their type.
    pub unhandled: usize,
    /// Tasks that run.
    pub running: usize,
    /// Why nothing of it is started, if so.
    pub error: Option<String>,
}

/// What is to be removed from a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpoolPurge {
    /// How long ago a task has ended at least, in seconds.
    pub older_than_s: u64,
    /// Whether things that were set aside are meant, and not completed tasks.
    #[serde(default)]
    pub rejected: bool,
}

/// What was removed from a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolPurged {
    /// Completed tasks.
    pub completed: usize,
    /// Things that were set aside.
    pub rejected: usize,
    /// Temporary files that nobody had finished.
    pub temporary: usize,
}

/// A task that waits again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolRetried {
    /// Its id.
    pub task_id: String,
}
