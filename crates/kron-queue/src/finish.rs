//! The end of a run: its outcome, the decision about a successor, the successor, the group's next
//! step and what is to be told, in one transaction.
//!
//! **Invariant:** exactly one end wins. The decision about a successor is stored with the end, so
//! that nothing is decided twice and other rules never bring old failures back.

use rusqlite::params;

use crate::change::Change;
use crate::claim::{RunError, owned_run};
use crate::id::{ClaimToken, RunId};
use crate::input::{self, Invalid};
use crate::limits::{ARTIFACTS_MAX, ERROR_BYTES_MAX, PATH_BYTES_MAX};
use crate::model::{Artifact, Job, JobRun, JobState, JobStatus, RetryDecision, RunStatus};
use crate::recovery::CRASH_ERROR;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};
use crate::{group, outbox, retry};

/// The error of a run that was cancelled.
pub const CANCELLED_ERROR: &str = "cancelled";

/// Ends a run.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Which run.
    pub run_id: RunId,
    /// The proof that it is the caller's.
    pub token: ClaimToken,
    /// How it ended.
    pub end: RunEnd,
    /// The time.
    pub now: Timestamp,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// In one word.
    pub outcome: Outcome,
    /// The exit code of the process.
    pub exit_code: Option<i64>,
    /// What went wrong.
    pub error: Option<String>,
    /// What was produced.
    pub artifacts: Vec<Artifact>,
    /// Where the output is.
    pub log_path: Option<String>,
}

impl RunEnd {
    /// An end about which there is nothing more to say.
    #[must_use]
    pub fn new(outcome: Outcome) -> RunEnd {
        RunEnd { outcome, exit_code: None, error: None, artifacts: Vec::new(), log_path: None }
    }
}

/// How a run ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Completed,
    /// Badly. If its end had been asked for, it counts as cancelled.
    Failed,
    /// There was nothing to do.
    Skipped,
    /// Somebody asked for its end and got it.
    Cancelled,
    /// Its process is gone, and nobody knows how far it came: as if it had been lost to a crash.
    Lost,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The job, with what was decided about a successor.
    pub job: Job,
    /// The run.
    pub run: JobRun,
    /// The successor, if there is one.
    pub successor: Option<Job>,
}

impl Operation for Finish {
    type Output = Finished;
    type Error = RunError;

    fn execute(self, context: &mut Context<'_>) -> Result<Finished, RunError> {
        let count = self.end.artifacts.len();
        if count > ARTIFACTS_MAX {
            let count_max = ARTIFACTS_MAX;
            return Err(Invalid::TooMany { what: "artifacts", count, count_max }.into());
        }
        for artifact in &self.end.artifacts {
            input::text("artifacts.path", &artifact.path, PATH_BYTES_MAX)?;
            input::text("artifacts.sha256", &artifact.sha256, 64)?;
        }
        if let Some(path) = &self.end.log_path {
            input::text("log_path", path, PATH_BYTES_MAX)?;
        }
        let run = owned_run(context, self.run_id, &self.token)?;
        end(context, run, self.end, Reported::ByWorker, self.now)
    }
}

/// How the end of a run became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    ByWorker,
    /// It was lost in a crash.
    ByRecovery,
}

/// Ends a run that has not ended.
pub(crate) fn end(
    context: &mut Context<'_>,
    mut run: JobRun,
    end: RunEnd,
    reported: Reported,
    now: Timestamp,
) -> Result<Finished, RunError> {
    let job = crate::jobs::job(context.db, run.job_id)?.ok_or(RunError::NoJob(run.job_id))?;
    let cancelled = match end.outcome {
        Outcome::Cancelled => true,
        Outcome::Failed | Outcome::Lost => job.cancel_requested_at.is_some(),
        Outcome::Completed | Outcome::Skipped => false,
    };
    let status = match end.outcome {
        Outcome::Completed => RunStatus::Completed,
        Outcome::Skipped => RunStatus::Skipped,
        Outcome::Failed | Outcome::Cancelled | Outcome::Lost => RunStatus::Failed,
    };
    let error = if cancelled { Some(CANCELLED_ERROR.to_owned()) } else { end.error.map(shortened) };
    run.status = Some(status);
    run.finished_at = Some(now);
    run.exit_code = end.exit_code;
    run.error = error;
    run.artifacts.extend(end.artifacts);
    run.log_path = run.log_path.or(end.log_path);
    let is_lost = reported == Reported::ByRecovery || end.outcome == Outcome::Lost;
    run.lost = is_lost && !cancelled;
    if run.lost && run.error.is_none() {
        run.error = Some(CRASH_ERROR.to_owned());
    }
    let artifacts = serde_json::to_string(&run.artifacts).unwrap_or_else(|_| "[]".to_owned());
    let updated = context
        .db
        .prepare_cached(
            "UPDATE job_runs SET status = ?2, finished_at = ?3, exit_code = ?4, error = ?5, \
             artifacts = ?6, log_path = ?7, lost = ?8 \
             WHERE run_id = ?1 AND status IS NULL",
        )?
        .execute(params![
            run.run_id,
            status,
            now,
            run.exit_code,
            run.error,
            artifacts,
            run.log_path,
            run.lost
        ])?;
    if updated != 1 {
        return Err(RunError::RunEnded(run.run_id));
    }
    let decision = if cancelled {
        RetryDecision::Cancelled
    } else {
        retry::decide(context, &job, status, run.reservation_id)?
    };
    settle(context, job, run, decision, now)
}

/// Ends a job whose run has ended, and does what follows from it.
pub(crate) fn settle(
    context: &mut Context<'_>,
    mut job: Job,
    run: JobRun,
    decision: RetryDecision,
    now: Timestamp,
) -> Result<Finished, RunError> {
    let job_id = job.job_id;
    let cancelled = decision == RetryDecision::Cancelled;
    job.status = if cancelled { JobStatus::Cancelled } else { JobStatus::Running };
    job.state = match run.status {
        _ if cancelled => JobState::Cancelled,
        Some(RunStatus::Completed) => JobState::Completed,
        Some(RunStatus::Skipped) => JobState::Skipped,
        Some(RunStatus::Failed) | None => JobState::Failed,
    };
    job.finished_at = job.finished_at.or(Some(now));
    job.retry_decision = Some(decision);
    context
        .db
        .prepare_cached(
            "UPDATE jobs SET status = ?2, finished_at = ?3, retry_decision = ?4 WHERE job_id = ?1",
        )?
        .execute(params![job_id, job.status, job.finished_at, decision])?;
    let successor = match decision {
        RetryDecision::Retried => Some(retry::successor(context, &job, now)?),
        _ => None,
    };
    context.announce(Change::Finished { job_id, run_id: run.run_id });
    let event = match (decision, run.status) {
        (RetryDecision::Cancelled, _) => "job.cancelled",
        (_, Some(RunStatus::Completed)) => "job.completed",
        (_, Some(RunStatus::Skipped)) => "job.skipped",
        _ => "job.failed",
    };
    outbox::emit(context, event, &job, Some(&run), now)?;
    if successor.is_none() {
        let fate = match (decision, run.status) {
            (RetryDecision::Cancelled, _) => group::Fate::PassedOver,
            (_, Some(RunStatus::Failed)) => group::Fate::Failed,
            _ => group::Fate::Done,
        };
        group::after(context, &job, fate, now)?;
    }
    Ok(Finished { job, run, successor })
}

/// The error, cut and marked if it is too long: the end of a run is never refused for its error.
fn shortened(mut error: String) -> String {
    const MARK: &str = "… (cut)";
    if error.len() > ERROR_BYTES_MAX {
        let end = (0..=ERROR_BYTES_MAX - MARK.len())
            .rev()
            .find(|at| error.is_char_boundary(*at))
            .unwrap_or(0);
        error.truncate(end);
        error.push_str(MARK);
    }
    error.replace('\0', "\u{fffd}")
}
