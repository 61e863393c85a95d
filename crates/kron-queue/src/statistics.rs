//! Numbers about the queue, derived from its rows at the moment of asking.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::queue::Queue;
use crate::timestamp::Timestamp;

/// How much there is of what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Statistics {
    /// Jobs that may be claimed.
    pub queued: i64,
    /// Jobs that wait for their time.
    pub delayed: i64,
    /// Jobs that wait for their group's turn.
    pub blocked: i64,
    /// Jobs that run.
    pub running: i64,
    /// Runs that ended since the moment that was asked for, by how.
    pub completed: i64,
    /// See `completed`.
    pub failed: i64,
    /// See `completed`.
    pub skipped: i64,
    /// The oldest creation among jobs that may be claimed and are first of their type.
    pub oldest_queued_at: Option<Timestamp>,
    /// By type, those that may be claimed and those that run.
    pub types: Vec<TypeStatistics>,
    /// Webhooks that are to be delivered.
    pub deliveries_pending: i64,
}

/// How much there is of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TypeStatistics {
    /// The type.
    pub job_type: String,
    /// Jobs that may be claimed.
    pub queued: i64,
    /// Jobs that run.
    pub running: i64,
}

impl Queue {
    /// Numbers about the queue; ends are counted from `since` on.
    ///
    /// # Errors
    /// When the database fails.
    pub fn statistics(&self, since: Timestamp) -> Result<Statistics, StoreError> {
        self.read(|db| {
            let all = count(db, "jobs WHERE status = 'QUEUED'")?;
            let queued = count(db, "jobs WHERE status = 'QUEUED' AND hold IS NULL")?;
            let delayed = count(db, "jobs WHERE status = 'QUEUED' AND hold = 'delay'")?;
            let ended = |status: &str| -> Result<i64, StoreError> {
                let mut statement = db.prepare_cached(
                    "SELECT count(*) FROM job_runs WHERE finished_at >= ?1 AND status = ?2",
                )?;
                Ok(statement.query_row(rusqlite::params![since, status], |row| row.get(0))?)
            };
            Ok(Statistics {
                queued,
                delayed,
                blocked: all - queued - delayed,
                running: count(db, "jobs WHERE status = 'RUNNING' AND finished_at IS NULL")?,
                completed: ended("COMPLETED")?,
                failed: ended("FAILED")?,
                skipped: ended("SKIPPED")?,
                oldest_queued_at: db
                    .prepare_cached(
                        "SELECT min(created_at) FROM jobs WHERE status = 'QUEUED' AND hold IS NULL",
                    )?
                    .query_row((), |row| row.get(0))?,
                types: types(db)?,
                deliveries_pending: count(db, "webhook_deliveries WHERE status = 'pending'")?,
            })
        })
    }
}

fn count(db: &Connection, of: &'static str) -> Result<i64, StoreError> {
    let sql = format!("SELECT count(*) FROM {of}");
    Ok(db.prepare_cached(&sql)?.query_row((), |row| row.get(0))?)
}

fn types(db: &Connection) -> Result<Vec<TypeStatistics>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT job_type, sum(queued), sum(running) FROM ( \
           SELECT job_type, count(*) AS queued, 0 AS running FROM jobs \
             WHERE status = 'QUEUED' AND hold IS NULL GROUP BY job_type UNION ALL \
           SELECT job_type, 0, count(*) FROM jobs \
             WHERE status = 'RUNNING' AND finished_at IS NULL GROUP BY job_type) \
         GROUP BY job_type ORDER BY job_type",
    )?;
    let rows = statement.query_map((), |row| {
        Ok(TypeStatistics { job_type: row.get(0)?, queued: row.get(1)?, running: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
