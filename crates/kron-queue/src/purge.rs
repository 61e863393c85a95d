//! Removing what is old.
//!
//! A chain of retries goes as a whole, when its last job ended before the limit; a group goes as a
//! whole, when all of its jobs did. Nothing else can remove a job, and nothing removes one that has
//! not ended. One call removes a bounded number, so that nobody waits long for it.

use rusqlite::{OptionalExtension as _, params};

use crate::change::Change;
use crate::error::StoreError;
use crate::id::{GroupId, JobId};
use crate::limits::{PURGE_CHAINS_MAX, PURGE_LOG_ROWS_MAX};
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// Removes jobs that ended before a moment, and logs from before it.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// The moment.
    pub ended_before: Timestamp,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Jobs.
    pub jobs: u64,
    /// Groups.
    pub groups: u64,
    /// Outcomes of periods.
    pub outcomes: u64,
    /// Deliveries with their logs.
    pub deliveries: u64,
    /// Whether a limit was reached, so that there may be more.
    pub more: bool,
}

impl Operation for Purge {
    type Output = Purged;
    type Error = StoreError;

    fn execute(self, context: &mut Context<'_>) -> Result<Purged, StoreError> {
        let mut purged = Purged::default();
        let db = context.db;
        db.execute("INSERT INTO purge_permit VALUES (1)", ())?;
        let ends = self.chain_ends(context)?;
        purged.more = ends.len() == PURGE_CHAINS_MAX;
        for (job_id, group_id) in ends {
            match group_id {
                None => purged.jobs += remove_chain(context, job_id)?,
                Some(group_id) => self.group(context, group_id, &mut purged)?,
            }
        }
        let limit = PURGE_LOG_ROWS_MAX as i64;
        purged.outcomes = db
            .prepare_cached(
                "DELETE FROM schedule_outcomes WHERE (schedule_id, first_period) IN ( \
                 SELECT schedule_id, first_period FROM schedule_outcomes WHERE recorded_at < ?1 \
                 ORDER BY recorded_at LIMIT ?2)",
            )?
            .execute(params![self.ended_before, limit])? as u64;
        purged.deliveries = db
            .prepare_cached(
                "DELETE FROM webhook_deliveries WHERE seq IN (SELECT seq FROM webhook_deliveries \
                 WHERE status <> 'pending' AND finished_at < ?1 ORDER BY finished_at LIMIT ?2)",
            )?
            .execute(params![self.ended_before, limit])? as u64;
        purged.more |= purged.outcomes.max(purged.deliveries) == PURGE_LOG_ROWS_MAX as u64;
        db.execute("DELETE FROM purge_permit", ())?;
        context.announce(Change::Purged);
        Ok(purged)
    }
}

impl Purge {
    /// Old jobs without a successor that stand alone or in a group that is old as a whole.
    fn chain_ends(
        &self,
        context: &Context<'_>,
    ) -> Result<Vec<(JobId, Option<GroupId>)>, StoreError> {
        let mut statement = context.db.prepare_cached(
            "SELECT j.job_id, j.group_id FROM jobs j INDEXED BY jobs_finished \
             WHERE j.finished_at < ?1 \
             AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.retry_of = j.job_id) \
             AND (j.group_id IS NULL OR NOT EXISTS (SELECT 1 FROM jobs m \
               WHERE m.group_id = j.group_id \
               AND (m.finished_at IS NULL OR m.finished_at >= ?1))) \
             ORDER BY j.finished_at LIMIT ?2",
        )?;
        let key = params![self.ended_before, PURGE_CHAINS_MAX as i64];
        let rows = statement.query_map(key, |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn group(
        &self,
        context: &Context<'_>,
        group_id: GroupId,
        purged: &mut Purged,
    ) -> Result<(), StoreError> {
        let mut statement = context.db.prepare_cached(
            "SELECT job_id FROM jobs j WHERE group_id = ?1 \
             AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.retry_of = j.job_id)",
        )?;
        let ends: Vec<JobId> =
            statement.query_map([group_id], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for job_id in ends {
            purged.jobs += remove_chain(context, job_id)?;
        }
        // A second member of the same group finds it gone.
        purged.groups += context
            .db
            .prepare_cached("DELETE FROM job_groups WHERE group_id = ?1")?
            .execute([group_id])? as u64;
        Ok(())
    }
}

/// Removes a job and those it repeats, last first.
fn remove_chain(context: &Context<'_>, end: JobId) -> Result<u64, StoreError> {
    let mut removed = 0;
    let mut next = Some(end);
    while let Some(job_id) = next {
        next = context
            .db
            .prepare_cached("SELECT retry_of FROM jobs WHERE job_id = ?1")?
            .query_row([job_id], |row| row.get(0))
            .optional()?
            .flatten();
        context.db.prepare_cached("DELETE FROM job_runs WHERE job_id = ?1")?.execute([job_id])?;
        removed +=
            context.db.prepare_cached("DELETE FROM jobs WHERE job_id = ?1")?.execute([job_id])?;
    }
    Ok(removed as u64)
}
