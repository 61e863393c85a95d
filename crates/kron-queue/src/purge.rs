//! Removing what is old.
//!
//! A chain of retries goes as a whole, when its last job ended before the limit; a group goes as a
//! whole, when all of its jobs did. Nothing else can remove a job, and nothing removes one that has
//! not ended. One call removes a bounded number, so that nobody waits long for it.
//!
//! **Invariant:** the triggers that guard jobs and runs ask a function which only our writer has,
//! and which says yes only while [`Purge`] is carried out. To a shell there is no such function, so
//! that it cannot delete even on purpose, short of dropping the trigger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension as _, params};

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
    /// Reservations that have ended.
    pub reservations: u64,
    /// Whether a limit was reached, so that there may be more.
    pub more: bool,
}

impl Operation for Purge {
    type Output = Purged;
    type Error = StoreError;

    fn execute(self, context: &mut Context<'_>) -> Result<Purged, StoreError> {
        let mut purged = Purged::default();
        let db = context.db;
        let permitted = context.permit.grant();
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
        purged.reservations = db
            .prepare_cached(
                "DELETE FROM direct_reservations WHERE reservation_id IN ( \
                 SELECT reservation_id FROM direct_reservations AS d \
                 INDEXED BY direct_reservations_ended WHERE status <> 'ACTIVE' \
                 AND ended_at < ?1 AND NOT EXISTS (SELECT 1 FROM job_runs \
                 WHERE reservation_id = d.reservation_id) LIMIT ?2)",
            )?
            .execute(params![self.ended_before, limit])? as u64;
        let most = purged.outcomes.max(purged.deliveries).max(purged.reservations);
        purged.more |= most == PURGE_LOG_ROWS_MAX as u64;
        drop(permitted);
        context.announce(Change::Purged);
        Ok(purged)
    }
}

/// The function's name in the triggers.
const PERMIT_FUNCTION: &str = "kron_purge_permitted";

/// Lets the triggers of one connection pass what is purged.
pub(crate) struct PurgePermit(Arc<AtomicBool>);

impl PurgePermit {
    /// Gives the connection the function that the triggers ask.
    pub(crate) fn install(connection: &Connection) -> Result<PurgePermit, StoreError> {
        let permitted = Arc::new(AtomicBool::new(false));
        let answer = Arc::clone(&permitted);
        // Innocuous, since it is the triggers of an untrusted schema that call it.
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function(PERMIT_FUNCTION, 0, flags, move |_| {
            Ok(answer.load(Ordering::Relaxed))
        })?;
        Ok(PurgePermit(permitted))
    }

    fn grant(&self) -> Granted {
        self.0.store(true, Ordering::Relaxed);
        Granted(Arc::clone(&self.0))
    }
}

/// The permission, which ends with it.
struct Granted(Arc<AtomicBool>);

impl Drop for Granted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
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
