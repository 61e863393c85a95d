//! Reading jobs and runs: one, a page of them, and the queue in its order.
//!
//! Pages are cut by keys, not by counting, so that a page costs the same wherever it is and rows
//! that come and go do not shift it.

use rusqlite::{Connection, OptionalExtension as _, ToSql};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::{GroupId, JobId, RunId, ScheduleId, TemplateId};
use crate::limits::PAGE_ROWS_MAX;
use crate::model::{JOB_COLUMNS, Job, JobRow, JobRun, JobState, RUN_COLUMNS};
use crate::queue::Queue;

/// Which jobs are wanted; what is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFilter {
    /// Jobs in this state.
    pub state: Option<JobState>,
    /// Jobs of this type.
    pub job_type: Option<String>,
    /// Jobs of this group.
    pub group_id: Option<GroupId>,
    /// Jobs of this schedule.
    pub schedule_id: Option<ScheduleId>,
    /// Jobs of this template.
    pub template_id: Option<TemplateId>,
}

/// Where a page begins, as an earlier page said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// A cursor from its text; a text that is none gives the first page's error when used.
    #[must_use]
    pub fn presented(text: &str) -> Cursor {
        Cursor(text.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Some rows, and where the next begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The next page; absent at the end.
    pub next: Option<Cursor>,
}

/// Why nothing could be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The cursor is none of ours.
    #[error("`{0}` is not a cursor")]
    BadCursor(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReadError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ReadError::BadCursor(_) => "bad-cursor",
            ReadError::Store(error) => error.code(),
        }
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> ReadError {
        ReadError::Store(error.into())
    }
}

/// What follows a row among its own priority, in the order of dispatch.
pub(crate) const ORDER_SAME_SQL: &str = "FROM jobs AS j WHERE j.status = 'QUEUED' \
    AND j.priority = ?1 AND (j.position, j.created_at, j.seq) > (?2, ?3, ?4) \
    ORDER BY j.position, j.created_at, j.seq LIMIT ?5";
/// What is below a priority, in the order of dispatch.
pub(crate) const ORDER_BELOW_SQL: &str = "FROM jobs AS j WHERE j.status = 'QUEUED' \
    AND j.priority < ?1 ORDER BY j.priority DESC, j.position, j.created_at, j.seq LIMIT ?2";

impl Queue {
    /// A job.
    ///
    /// # Errors
    /// When the database fails.
    pub fn job(&self, job_id: JobId) -> Result<Option<Job>, StoreError> {
        self.read(|db| job(db, job_id))
    }

    /// The run of a job; there is at most one.
    ///
    /// # Errors
    /// When the database fails.
    pub fn run_of(&self, job_id: JobId) -> Result<Option<JobRun>, StoreError> {
        self.read(|db| run_of(db, job_id))
    }

    /// A run.
    ///
    /// # Errors
    /// When the database fails.
    pub fn run(&self, run_id: RunId) -> Result<Option<JobRun>, StoreError> {
        self.read(|db| run(db, run_id))
    }

    /// The original of a job's chain of retries and everything after it, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub fn chain(&self, job_id: JobId) -> Result<Vec<Job>, StoreError> {
        self.read(|db| {
            let sql = format!(
                "WITH RECURSIVE up(job_id, retry_of) AS ( \
                   SELECT job_id, retry_of FROM jobs WHERE job_id = ?1 UNION ALL \
                   SELECT p.job_id, p.retry_of FROM jobs p JOIN up ON p.job_id = up.retry_of), \
                 down(job_id) AS ( \
                   SELECT job_id FROM up WHERE retry_of IS NULL UNION ALL \
                   SELECT n.job_id FROM jobs n JOIN down ON n.retry_of = down.job_id) \
                 SELECT {JOB_COLUMNS} FROM down JOIN jobs j ON j.job_id = down.job_id \
                 ORDER BY j.attempt"
            );
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map([job_id], Job::from_row)?;
            Ok(rows.map(|row| row.map(|row| row.job)).collect::<Result<_, _>>()?)
        })
    }

    /// Jobs, newest first.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<Job>, ReadError> {
        let before: i64 = match after {
            None => i64::MAX,
            Some(Cursor(text)) => text
                .strip_prefix("s")
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| ReadError::BadCursor(text.chars().take(80).collect()))?,
        };
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let mut wheres = vec!["j.seq < ?"];
        let mut values: Vec<&dyn ToSql> = vec![&before];
        if let Some(state) = filter.state {
            wheres.push(condition(state));
        }
        let filters: [(&str, Option<&dyn ToSql>); 4] = [
            ("j.job_type = ?", filter.job_type.as_ref().map(|value| value as &dyn ToSql)),
            ("j.group_id = ?", filter.group_id.as_ref().map(|value| value as &dyn ToSql)),
            ("j.schedule_id = ?", filter.schedule_id.as_ref().map(|value| value as &dyn ToSql)),
            ("j.template_id = ?", filter.template_id.as_ref().map(|value| value as &dyn ToSql)),
        ];
        for (condition, value) in filters {
            if let Some(value) = value {
                wheres.push(condition);
                values.push(value);
            }
        }
        let limit = rows_max as i64 + 1;
        values.push(&limit);
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs j WHERE {} ORDER BY j.seq DESC LIMIT ?",
            wheres.join(" AND ")
        );
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map(values.as_slice(), Job::from_row)?;
            let rows: Vec<JobRow> = rows.collect::<Result<_, _>>()?;
            Ok(page(rows, rows_max, |row| format!("s{}", row.seq)))
        })
    }

    /// Queued jobs in the order in which they are dispatched, those that may not be claimed yet
    /// among them.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn order(&self, after: Option<&Cursor>, rows_max: usize) -> Result<Page<Job>, ReadError> {
        let after = after
            .map(|Cursor(text)| {
                parse_order_cursor(text)
                    .ok_or_else(|| ReadError::BadCursor(text.chars().take(80).collect()))
            })
            .transpose()?;
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let limit = rows_max + 1;
        self.read(|db| {
            let mut rows: Vec<JobRow> = Vec::new();
            let below = match after {
                None => i64::MAX,
                Some((priority, position, created_at, seq)) => {
                    let sql = format!("SELECT {JOB_COLUMNS} {ORDER_SAME_SQL}");
                    let mut statement = db.prepare_cached(&sql)?;
                    let key = rusqlite::params![priority, position, created_at, seq, limit as i64];
                    for row in statement.query_map(key, Job::from_row)? {
                        rows.push(row?);
                    }
                    priority
                }
            };
            let left = limit - rows.len();
            if left > 0 {
                let sql = format!("SELECT {JOB_COLUMNS} {ORDER_BELOW_SQL}");
                let mut statement = db.prepare_cached(&sql)?;
                for row in statement.query_map([below, left as i64], Job::from_row)? {
                    rows.push(row?);
                }
            }
            Ok(page(rows, rows_max, |JobRow { job, seq }| {
                format!("o{},{},{},{seq}", job.priority, job.position, job.created_at)
            }))
        })
    }
}

fn parse_order_cursor(text: &str) -> Option<(i64, i64, String, i64)> {
    let mut parts = text.strip_prefix('o')?.split(',');
    let parsed = (
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        parts.next()?.to_owned(),
        parts.next()?.parse().ok()?,
    );
    parts.next().is_none().then_some(parsed)
}

fn page(mut rows: Vec<JobRow>, rows_max: usize, key: impl Fn(&JobRow) -> String) -> Page<Job> {
    let more = rows.len() > rows_max;
    rows.truncate(rows_max);
    let next = rows.last().filter(|_| more).map(|row| Cursor(key(row)));
    Page { items: rows.into_iter().map(|row| row.job).collect(), next }
}

/// What a state means in terms of rows.
fn condition(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "j.status = 'QUEUED' AND j.hold IS NULL",
        JobState::Delayed => "j.status = 'QUEUED' AND j.hold = 'delay'",
        JobState::Blocked => "j.status = 'QUEUED' AND j.hold = 'group'",
        JobState::Running => "j.status = 'RUNNING' AND j.finished_at IS NULL",
        JobState::Completed => {
            "j.status = 'RUNNING' AND j.finished_at IS NOT NULL AND \
             (SELECT status FROM job_runs r WHERE r.job_id = j.job_id) = 'COMPLETED'"
        }
        JobState::Failed => {
            "j.status = 'RUNNING' AND j.finished_at IS NOT NULL AND \
             (SELECT status FROM job_runs r WHERE r.job_id = j.job_id) = 'FAILED'"
        }
        JobState::Skipped => {
            "j.status = 'RUNNING' AND j.finished_at IS NOT NULL AND \
             (SELECT status FROM job_runs r WHERE r.job_id = j.job_id) = 'SKIPPED'"
        }
        JobState::Cancelled => "j.status = 'CANCELLED'",
    }
}

pub(crate) fn job(db: &Connection, job_id: JobId) -> Result<Option<Job>, StoreError> {
    let sql = format!("SELECT {JOB_COLUMNS} FROM jobs j WHERE j.job_id = ?1");
    let found = db.prepare_cached(&sql)?.query_row([job_id], Job::from_row).optional()?;
    Ok(found.map(|row| row.job))
}

pub(crate) fn run_of(db: &Connection, job_id: JobId) -> Result<Option<JobRun>, StoreError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM job_runs WHERE job_id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([job_id], JobRun::from_row).optional()?)
}

pub(crate) fn run(db: &Connection, run_id: RunId) -> Result<Option<JobRun>, StoreError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM job_runs WHERE run_id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([run_id], JobRun::from_row).optional()?)
}
