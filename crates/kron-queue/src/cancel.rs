//! Cancelling, and changing what a queued job is told.
//!
//! A queued job is cancelled at once. A running one is asked to end: the request is durable, and
//! the run's end then counts as cancelled, unless the run was done before.

use rusqlite::params;
use serde_json::Value;

use crate::change::Change;
use crate::claim::RunError;
use crate::enqueue::hold;
use crate::id::JobId;
use crate::model::{Job, JobRun, JobState, JobStatus};
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};
use crate::{group, input, outbox};

/// Cancels a job.
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    /// Which.
    pub job_id: JobId,
    /// The time.
    pub now: Timestamp,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub enum CancelOutcome {
    /// It was queued, and is cancelled.
    Cancelled(Box<Job>),
    /// It runs, and is to be ended.
    Requested(Box<(Job, JobRun)>),
}

impl Operation for Cancel {
    type Output = CancelOutcome;
    type Error = RunError;

    fn execute(self, context: &mut Context<'_>) -> Result<CancelOutcome, RunError> {
        let job = crate::jobs::job(context.db, self.job_id)?.ok_or(RunError::NoJob(self.job_id))?;
        if job.finished_at.is_some() {
            return Err(RunError::JobEnded(self.job_id));
        }
        if job.status == JobStatus::Queued {
            let job = cancel_queued(context, self.job_id, self.now)?;
            group::after(context, &job, group::Fate::PassedOver, self.now)?;
            return Ok(CancelOutcome::Cancelled(Box::new(job)));
        }
        request(context, self.job_id, self.now)?;
        let job = crate::jobs::job(context.db, self.job_id)?.ok_or(RunError::NoJob(self.job_id))?;
        let run =
            crate::jobs::run_of(context.db, self.job_id)?.ok_or(RunError::NoJob(self.job_id))?;
        Ok(CancelOutcome::Requested(Box::new((job, run))))
    }
}

/// Asks a running job to end; asking again changes nothing.
pub(crate) fn request(
    context: &mut Context<'_>,
    job_id: JobId,
    now: Timestamp,
) -> Result<(), RunError> {
    context
        .db
        .prepare_cached(
            "UPDATE jobs SET cancel_requested_at = ?2 \
             WHERE job_id = ?1 AND cancel_requested_at IS NULL",
        )?
        .execute(params![job_id, now])?;
    context.announce(Change::CancelRequested { job_id });
    Ok(())
}

pub(crate) fn cancel_queued(
    context: &mut Context<'_>,
    job_id: JobId,
    now: Timestamp,
) -> Result<Job, RunError> {
    context
        .db
        .prepare_cached(
            "UPDATE jobs SET status = 'CANCELLED', finished_at = ?2, retry_decision = 'cancelled' \
             WHERE job_id = ?1 AND status = 'QUEUED'",
        )?
        .execute(params![job_id, now])?;
    let job = crate::jobs::job(context.db, job_id)?.ok_or(RunError::NoJob(job_id))?;
    context.announce(Change::Cancelled { job_id });
    outbox::emit(context, "job.cancelled", &job, None, now)?;
    Ok(job)
}

/// Changes what a queued job is told, or when it may run.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Which.
    pub job_id: JobId,
    /// Other parameters, in place of the present ones.
    pub params: Option<Value>,
    /// Another time before which it is not claimed; the inner absence removes it.
    pub not_before: Option<Option<Timestamp>>,
    /// The time.
    pub now: Timestamp,
}

impl Operation for Edit {
    type Output = Job;
    type Error = RunError;

    fn execute(self, context: &mut Context<'_>) -> Result<Job, RunError> {
        let job_id = self.job_id;
        let job = crate::jobs::job(context.db, job_id)?.ok_or(RunError::NoJob(job_id))?;
        if job.status != JobStatus::Queued {
            return Err(RunError::NotQueued(job_id));
        }
        if let Some(params) = &self.params {
            let text = input::params("params", params)?;
            context
                .db
                .prepare_cached("UPDATE jobs SET params = ?2 WHERE job_id = ?1")?
                .execute(params![job_id, text])?;
        }
        if let Some(not_before) = self.not_before {
            let hold = hold(job.state == JobState::Blocked, not_before, self.now);
            context
                .db
                .prepare_cached("UPDATE jobs SET not_before = ?2, hold = ?3 WHERE job_id = ?1")?
                .execute(params![job_id, not_before, hold])?;
        }
        context.announce(Change::Moved { job_id });
        crate::jobs::job(context.db, job_id)?.ok_or(RunError::NoJob(job_id))
    }
}
