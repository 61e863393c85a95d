//! Retries: a failed job gets a successor, a new job that names it.
//!
//! A job has at most one successor (a unique index sees to it). The successor keeps the priority
//! and goes to the end. Runs that were lost to a crash are retried too, but fewer times: a job that
//! takes the machine down must not do so for ever.

use rusqlite::{OptionalExtension as _, params};

use crate::claim::RunError;
use crate::enqueue::{NewRow, insert};
use crate::error::StoreError;
use crate::group;
use crate::id::{JobId, ReservationId};
use crate::model::{Job, RetryDecision, RunStatus};
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// Retries the last job of a chain by hand, whatever the limits say.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Which.
    pub job_id: JobId,
    /// The time.
    pub now: Timestamp,
}

impl Operation for Retry {
    /// The successor.
    type Output = Job;
    type Error = RunError;

    fn execute(self, context: &mut Context<'_>) -> Result<Job, RunError> {
        let job = crate::jobs::job(context.db, self.job_id)?.ok_or(RunError::NoJob(self.job_id))?;
        if job.finished_at.is_none() {
            return Err(RunError::JobNotEnded(self.job_id));
        }
        if has_successor(context, self.job_id)? {
            return Err(RunError::Retried(self.job_id));
        }
        let waits_for_group = group::is_busy(context, &job)?;
        let row = NewRow { waits_for_group, ..repetition(&job) };
        Ok(insert(context, row, self.now)?)
    }
}

pub(crate) fn has_successor(context: &Context<'_>, job_id: JobId) -> Result<bool, StoreError> {
    let found: Option<i64> = context
        .db
        .prepare_cached("SELECT 1 FROM jobs WHERE retry_of = ?1")?
        .query_row([job_id], |row| row.get(0))
        .optional()?;
    Ok(found.is_some())
}

/// What is to be done about a job whose run ended like this.
pub(crate) fn decide(
    context: &Context<'_>,
    job: &Job,
    status: RunStatus,
    reservation: Option<ReservationId>,
) -> Result<RetryDecision, RunError> {
    if status != RunStatus::Failed {
        return Ok(RetryDecision::None);
    }
    if reservation.is_some() {
        return Ok(RetryDecision::Direct);
    }
    // Somebody may have repeated it by hand before this was decided.
    if has_successor(context, job.job_id)? {
        return Ok(RetryDecision::None);
    }
    let policy = context.rules.retry_for(&job.job_type);
    if job.attempt >= policy.retries_max {
        return Ok(RetryDecision::Exhausted);
    }
    let (lost, this_lost): (u32, bool) = context
        .db
        .prepare_cached(
            "WITH RECURSIVE chain(job_id, retry_of) AS ( \
               SELECT job_id, retry_of FROM jobs WHERE job_id = ?1 UNION ALL \
               SELECT p.job_id, p.retry_of FROM jobs p JOIN chain ON p.job_id = chain.retry_of) \
             SELECT coalesce(sum(r.lost), 0), coalesce(max(r.lost AND r.job_id = ?1), 0) \
             FROM chain JOIN job_runs r ON r.job_id = chain.job_id",
        )?
        .query_row(params![job.job_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if this_lost && lost > policy.lost_retries_max {
        return Ok(RetryDecision::LostExhausted);
    }
    Ok(RetryDecision::Retried)
}

/// Inserts the successor that was decided.
pub(crate) fn successor(
    context: &mut Context<'_>,
    job: &Job,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let policy = context.rules.retry_for(&job.job_type);
    let wait_ms = policy.backoff_ms(job.attempt + 1);
    let row = NewRow { not_before: Some(now.saturating_add_ms(wait_ms)), ..repetition(job) };
    insert(context, row, now)
}

fn repetition(job: &Job) -> NewRow {
    let params_text = job.params.to_string();
    NewRow {
        template_id: job.template_id,
        schedule: job.schedule_id.zip(job.period_id.clone()),
        group: job.group_id.zip(job.group_index),
        retry_of: Some(job.job_id),
        attempt: job.attempt + 1,
        ..NewRow::new(job.job_type.clone(), job.params.clone(), params_text, job.priority)
    }
}
