//! The queue's order, and changing it by hand.
//!
//! Order is priority (higher first), position (lower first), time of creation, order of insertion;
//! nothing else, so the same database has the same order always. A job moves among its own
//! priority; to leave it, its priority is set. Positions are 100 apart, and a job that is moved
//! takes the middle between its new neighbours; when there is none, the positions of that priority
//! are assigned anew in the same transaction.

use rusqlite::{OptionalExtension as _, Row, params};

use crate::change::Change;
use crate::enqueue::position_at_end;
use crate::error::{StoreError, area_error};
use crate::id::JobId;
use crate::input::{self, Invalid};
use crate::limits::{POSITION_GAP, POSITION_MAX};
use crate::model::Job;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// Moves a queued job among those of its priority.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// Which.
    pub job_id: JobId,
    /// Where to.
    pub to: Place,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before every other job of its priority.
    Top,
    /// After every other job of its priority.
    Bottom,
    /// Right before a job of its priority.
    Before(JobId),
    /// Right after a job of its priority.
    After(JobId),
}

/// Gives a queued job another priority, at whose end it goes.
#[derive(Clone, Copy, Debug)]
pub struct SetPriority {
    /// Which.
    pub job_id: JobId,
    /// The priority.
    pub priority: i64,
}

/// Assigns the positions of all queued jobs anew: 100, 200, 300 and so on in each priority.
///
/// It is one transaction, as the persistence document asks, and everybody who writes waits for it:
/// among 1,000,000 queued jobs about 10 s when every position changes, and 1 s when none does
/// (measured on two shared cores). A [`Move`] or an enqueue for which there is no room does the
/// same for its own priority. Nothing needs it to be called.
#[derive(Clone, Copy, Debug)]
pub struct Normalise;

/// Why the order stays as it is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OrderError {
    /// Something is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such job.
    #[error("there is no job `{0}`")]
    NoJob(JobId),
    /// It is not queued any more.
    #[error("job `{0}` is not queued")]
    NotQueued(JobId),
    /// The other job has another priority.
    #[error("job `{other}` has priority {theirs}, not {ours}; set the priority first")]
    OtherPriority {
        /// The other job.
        other: JobId,
        /// Its priority.
        theirs: i64,
        /// The priority of the job to be moved.
        ours: i64,
    },
    /// A job cannot be before or after itself.
    #[error("job `{0}` cannot be moved next to itself")]
    Itself(JobId),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(OrderError);

impl OrderError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            OrderError::Invalid(invalid) => invalid.code(),
            OrderError::NoJob(_) => "no-job",
            OrderError::NotQueued(_) => "not-queued",
            OrderError::OtherPriority { .. } => "other-priority",
            OrderError::Itself(_) => "itself",
            OrderError::Store(error) => error.code(),
        }
    }
}

/// What places a queued job.
#[derive(Clone, Debug)]
struct Placed {
    seq: i64,
    priority: i64,
    position: i64,
    created_at: Timestamp,
}

impl Placed {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Placed> {
        Ok(Placed {
            seq: row.get(0)?,
            priority: row.get(1)?,
            position: row.get(2)?,
            created_at: row.get(3)?,
        })
    }
}

impl Operation for Move {
    type Output = Job;
    type Error = OrderError;

    fn execute(self, context: &mut Context<'_>) -> Result<Job, OrderError> {
        if let Place::Before(other) | Place::After(other) = self.to
            && other == self.job_id
        {
            return Err(OrderError::Itself(other));
        }
        let position = match middle(context, self)? {
            Some(position) => position,
            None => {
                normalise(context, placed(context, self.job_id)?.priority)?;
                // Neighbours are a whole gap apart now.
                middle(context, self)?.unwrap_or(POSITION_GAP)
            }
        };
        set(context, self.job_id, position)
    }
}

/// The position that puts a job where it is to go, if there is room.
fn middle(context: &mut Context<'_>, order: Move) -> Result<Option<i64>, OrderError> {
    let this = placed(context, order.job_id)?;
    let (low, high) = match order.to {
        Place::Top => (None, end(context, &this, "ASC")?),
        Place::Bottom => (end(context, &this, "DESC")?, None),
        Place::Before(other) => {
            let other = target(context, other, &this)?;
            (neighbour(context, &this, &other, Side::Before)?, Some(other))
        }
        Place::After(other) => {
            let other = target(context, other, &this)?;
            let next = neighbour(context, &this, &other, Side::After)?;
            (Some(other), next)
        }
    };
    let position = match (low, high) {
        // It is alone: any position is right, also its own.
        (None, None) => this.position,
        (None, Some(high)) => high.position.saturating_sub(POSITION_GAP),
        (Some(low), None) => low.position.saturating_add(POSITION_GAP),
        (Some(low), Some(high)) => {
            let middle = low.position + (high.position - low.position) / 2;
            if middle == low.position || middle == high.position {
                return Ok(None);
            }
            middle
        }
    };
    Ok((position.abs() <= POSITION_MAX).then_some(position))
}

fn placed(context: &Context<'_>, job_id: JobId) -> Result<Placed, OrderError> {
    let found = context
        .db
        .prepare_cached(
            "SELECT seq, priority, position, created_at, status FROM jobs WHERE job_id = ?1",
        )?
        .query_row([job_id], |row| Ok((Placed::from_row(row)?, row.get::<_, String>(4)?)))
        .optional()?;
    match found {
        None => Err(OrderError::NoJob(job_id)),
        Some((placed, status)) if status == "QUEUED" => Ok(placed),
        Some(_) => Err(OrderError::NotQueued(job_id)),
    }
}

fn target(context: &Context<'_>, other: JobId, this: &Placed) -> Result<Placed, OrderError> {
    let found = placed(context, other)?;
    if found.priority != this.priority {
        let (theirs, ours) = (found.priority, this.priority);
        return Err(OrderError::OtherPriority { other, theirs, ours });
    }
    Ok(found)
}

/// The first or last job of the priority that is not the one to be moved.
fn end(
    context: &Context<'_>,
    this: &Placed,
    direction: &'static str,
) -> Result<Option<Placed>, OrderError> {
    let sql = format!(
        "SELECT seq, priority, position, created_at FROM jobs WHERE status = 'QUEUED' AND \
         priority = ?1 AND seq <> ?2 ORDER BY position {direction}, created_at {direction}, \
         seq {direction} LIMIT 1"
    );
    let mut statement = context.db.prepare_cached(&sql)?;
    Ok(statement.query_row([this.priority, this.seq], Placed::from_row).optional()?)
}

#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}

/// The job next to `other` that is not the one to be moved.
fn neighbour(
    context: &Context<'_>,
    this: &Placed,
    other: &Placed,
    side: Side,
) -> Result<Option<Placed>, OrderError> {
    let (compare, direction) = match side {
        Side::Before => ("<", "DESC"),
        Side::After => (">", "ASC"),
    };
    let sql = format!(
        "SELECT seq, priority, position, created_at FROM jobs WHERE status = 'QUEUED' AND \
         priority = ?1 AND (position, created_at, seq) {compare} (?2, ?3, ?4) AND seq <> ?5 \
         ORDER BY position {direction}, created_at {direction}, seq {direction} LIMIT 1"
    );
    let mut statement = context.db.prepare_cached(&sql)?;
    let key = params![this.priority, other.position, other.created_at, other.seq, this.seq];
    Ok(statement.query_row(key, Placed::from_row).optional()?)
}

fn set(context: &mut Context<'_>, job_id: JobId, position: i64) -> Result<Job, OrderError> {
    context
        .db
        .prepare_cached("UPDATE jobs SET position = ?2 WHERE job_id = ?1")?
        .execute(params![job_id, position])?;
    context.announce(Change::Moved { job_id });
    crate::jobs::job(context.db, job_id)?.ok_or(OrderError::NoJob(job_id))
}

impl Operation for SetPriority {
    type Output = Job;
    type Error = OrderError;

    fn execute(self, context: &mut Context<'_>) -> Result<Job, OrderError> {
        input::priority(self.priority)?;
        let this = placed(context, self.job_id)?;
        if this.priority != self.priority {
            let position = position_at_end(context, self.priority)?;
            context
                .db
                .prepare_cached("UPDATE jobs SET priority = ?2, position = ?3 WHERE job_id = ?1")?
                .execute(params![self.job_id, self.priority, position])?;
            context.announce(Change::Moved { job_id: self.job_id });
        }
        crate::jobs::job(context.db, self.job_id)?.ok_or(OrderError::NoJob(self.job_id))
    }
}

/// The highest priority below another of which jobs are queued.
pub(crate) const PRIORITY_BELOW_SQL: &str = "SELECT priority FROM jobs WHERE status = 'QUEUED' \
    AND priority < ?1 ORDER BY priority DESC LIMIT 1";
/// Assigns the positions of one priority anew. The new ones are all known before the first row
/// changes, so that no row is met twice.
pub(crate) const NORMALISE_SQL: &str = "UPDATE jobs SET position = ranked.position FROM ( \
    SELECT seq, ?2 * row_number() OVER (ORDER BY position, created_at, seq) AS position \
    FROM jobs WHERE status = 'QUEUED' AND priority = ?1) AS ranked \
    WHERE jobs.seq = ranked.seq AND jobs.position <> ranked.position";

impl Operation for Normalise {
    type Output = ();
    type Error = OrderError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), OrderError> {
        let mut below = i64::MAX;
        loop {
            let mut statement = context.db.prepare_cached(PRIORITY_BELOW_SQL)?;
            let next: Option<i64> = statement.query_row([below], |row| row.get(0)).optional()?;
            drop(statement);
            let Some(priority) = next else { return Ok(()) };
            normalise(context, priority)?;
            below = priority;
        }
    }
}

/// Assigns the positions of one priority anew.
pub(crate) fn normalise(context: &mut Context<'_>, priority: i64) -> Result<(), StoreError> {
    context.db.prepare_cached(NORMALISE_SQL)?.execute([priority, POSITION_GAP])?;
    context.announce(Change::Normalised);
    Ok(())
}
