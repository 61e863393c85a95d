//! Groups of jobs: in parallel, or one after the other.
//!
//! A group's members are fixed when it is made; its status is derived from their rows and never
//! counted. In a sequential group the next member waits until the one before has ended for good,
//! retries included. When a member fails for good, `stop` cancels what has not started, `skip`
//! records it as skipped, `continue` goes on. A cancelled member is passed over: whoever cancelled
//! it decided about that one only.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use crate::cancel::cancel_queued;
use crate::change::Change;
use crate::claim::{RunError, begin};
use crate::enqueue::{EnqueueError, NewJob, hold, insert, resolve};
use crate::error::StoreError;
use crate::finish::{Outcome, Reported, RunEnd, end};
use crate::id::{GroupId, JobId};
use crate::input::{self, Invalid};
use crate::limits::{GROUP_PAGE_ROWS_MAX, JOBS_PER_CALL_MAX};
use crate::model::{Columns, JOB_COLUMNS, Job, JobState, words};
use crate::page::{Cursor, Found, Page, ReadError, Walk};
use crate::queue::Queue;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

words! {
    /// Whether members wait for each other.
    GroupMode {
        /// They do not.
        Parallel = "parallel",
        /// Each waits for the one before.
        Sequential = "sequential",
    }
}

words! {
    /// What the failure of a member means for those that have not started.
    OnFailure {
        /// They are cancelled.
        Stop = "stop",
        /// Nothing.
        Continue = "continue",
        /// They are recorded as skipped.
        Skip = "skip",
    }
}

words! {
    /// How a group is doing.
    GroupStatus {
        /// No member has started.
        Queued = "queued",
        /// Some have, and not all have ended.
        Running = "running",
        /// All have ended, none badly.
        Completed = "completed",
        /// All have ended, one badly.
        Failed = "failed",
        /// All have ended, none badly and one or more by cancelling.
        Cancelled = "cancelled",
    }
}

/// The worker that is recorded for members that were passed over.
const GROUP_WORKER: &str = "group";
/// The error of members that were passed over.
const PASSED_OVER_ERROR: &str = "an earlier job of the group failed";

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Group {
    /// Its id.
    pub group_id: GroupId,
    /// Its name.
    pub name: Option<String>,
    /// Whether members wait for each other.
    pub mode: GroupMode,
    /// What a failure means.
    pub on_failure: OnFailure,
    /// How it is doing.
    pub status: GroupStatus,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A member of a group: the last job of its chain of retries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupMember {
    /// Its place in the group.
    pub group_index: i64,
    /// The job.
    pub job_id: JobId,
    /// What kind of work it is.
    pub job_type: String,
    /// The state that people understand.
    pub state: JobState,
    /// How many jobs it repeats in all.
    pub attempt: u32,
}

/// The kind of the cursors of the list of groups.
const KIND: char = 'g';
/// What lists groups.
pub(crate) const LIST_SQL: &str =
    "SELECT group_id FROM job_groups WHERE group_id < ?1 ORDER BY group_id DESC";

/// Makes a group and enqueues its members.
#[derive(Clone, Debug)]
pub struct CreateGroup {
    /// A name for people.
    pub name: Option<String>,
    /// Whether members wait for each other.
    pub mode: GroupMode,
    /// What a failure means.
    pub on_failure: OnFailure,
    /// The members, in order. They have no idempotency keys of their own.
    pub jobs: Vec<NewJob>,
    /// The time.
    pub now: Timestamp,
}

impl Operation for CreateGroup {
    type Output = (Group, Vec<Job>);
    type Error = EnqueueError;

    fn execute(self, context: &mut Context<'_>) -> Result<(Group, Vec<Job>), EnqueueError> {
        let count = self.jobs.len();
        if count == 0 {
            return Err(Invalid::Empty { what: "jobs" }.into());
        }
        if count > JOBS_PER_CALL_MAX {
            let count_max = JOBS_PER_CALL_MAX;
            return Err(Invalid::TooMany { what: "jobs", count, count_max }.into());
        }
        if let Some(name) = &self.name {
            input::name("name", name)?;
        }
        let group_id = GroupId(context.id(self.now)?);
        context
            .db
            .prepare_cached(
                "INSERT INTO job_groups (group_id, name, mode, on_failure, created_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![group_id, self.name, self.mode, self.on_failure, self.now])?;
        let mut jobs = Vec::with_capacity(count);
        for (index, job) in (0_i64..).zip(self.jobs) {
            if job.idempotency_key.is_some() {
                let (what, which) = ("idempotency_key", "no place in a group");
                return Err(Invalid::Characters { what, which }.into());
            }
            let mut row = resolve(context, job)?;
            row.group = Some((group_id, index));
            row.waits_for_group = self.mode == GroupMode::Sequential && index > 0;
            jobs.push(insert(context, row, self.now)?);
        }
        context.announce(Change::Group { group_id });
        let group = group(context.db, group_id)?.ok_or(StoreError::Closed)?;
        Ok((group, jobs))
    }
}

/// What became of a member, for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    Failed,
    PassedOver,
}

/// Does what follows for its group when a job has ended for good.
pub(crate) fn after(
    context: &mut Context<'_>,
    job: &Job,
    fate: Fate,
    now: Timestamp,
) -> Result<(), RunError> {
    let Some(group_id) = job.group_id else { return Ok(()) };
    let (mode, on_failure): (GroupMode, OnFailure) = context
        .db
        .prepare_cached("SELECT mode, on_failure FROM job_groups WHERE group_id = ?1")?
        .query_row([group_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if fate == Fate::Failed {
        match on_failure {
            OnFailure::Continue => {}
            OnFailure::Stop => {
                for member in queued(context, group_id)? {
                    cancel_queued(context, member, now)?;
                }
            }
            OnFailure::Skip => {
                for member in queued(context, group_id)? {
                    let member =
                        crate::jobs::job(context.db, member)?.ok_or(RunError::NoJob(member))?;
                    let claimed = begin(context, member, GROUP_WORKER, None, now)?;
                    let error = Some(PASSED_OVER_ERROR.to_owned());
                    let skipped = RunEnd { error, ..RunEnd::new(Outcome::Skipped) };
                    end(context, claimed.run, skipped, Reported::ByWorker, now)?;
                }
            }
        }
    }
    if mode == GroupMode::Sequential && !is_busy(context, job)? {
        release_next(context, group_id, now)?;
    }
    Ok(())
}

fn queued(context: &Context<'_>, group_id: GroupId) -> Result<Vec<JobId>, StoreError> {
    let mut statement = context.db.prepare_cached(
        "SELECT job_id FROM jobs WHERE group_id = ?1 AND status = 'QUEUED' ORDER BY group_index",
    )?;
    Ok(statement.query_map([group_id], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Whether a member of the job's sequential group runs or is next.
pub(crate) fn is_busy(context: &Context<'_>, job: &Job) -> Result<bool, StoreError> {
    let Some(group_id) = job.group_id else { return Ok(false) };
    let found: Option<i64> = context
        .db
        .prepare_cached(
            "SELECT 1 FROM jobs j JOIN job_groups g ON g.group_id = j.group_id \
             WHERE j.group_id = ?1 AND g.mode = 'sequential' AND j.finished_at IS NULL \
             AND j.hold IS NOT 'group' LIMIT 1",
        )?
        .query_row([group_id], |row| row.get(0))
        .optional()?;
    Ok(found.is_some())
}

fn release_next(
    context: &mut Context<'_>,
    group_id: GroupId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let next: Option<(JobId, Option<Timestamp>)> = context
        .db
        .prepare_cached(
            "SELECT job_id, not_before FROM jobs WHERE group_id = ?1 AND status = 'QUEUED' \
             AND hold = 'group' ORDER BY group_index LIMIT 1",
        )?
        .query_row([group_id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((job_id, not_before)) = next {
        context
            .db
            .prepare_cached("UPDATE jobs SET hold = ?2 WHERE job_id = ?1")?
            .execute(params![job_id, hold(false, not_before, now)])?;
        context.announce(Change::Moved { job_id });
    }
    Ok(())
}

impl Queue {
    /// A group.
    ///
    /// # Errors
    /// When the database fails.
    pub fn group(&self, group_id: GroupId) -> Result<Option<Group>, StoreError> {
        self.read(|db| group(db, group_id))
    }

    /// A group and its members, in order, each by the last job of its chain.
    ///
    /// # Errors
    /// When the database fails.
    pub fn group_members(
        &self,
        group_id: GroupId,
    ) -> Result<Option<(Group, Vec<GroupMember>)>, StoreError> {
        self.read(|db| {
            let Some(group) = group(db, group_id)? else { return Ok(None) };
            let sql = format!(
                "SELECT {JOB_COLUMNS} FROM jobs j WHERE j.group_id = ?1 AND NOT EXISTS \
                 (SELECT 1 FROM jobs n WHERE n.retry_of = j.job_id) ORDER BY j.group_index"
            );
            let mut statement = db.prepare_cached(&sql)?;
            let members = statement.query_map([group_id], |row| {
                let job = Job::from_row(row)?;
                Ok(GroupMember {
                    group_index: job.group_index.unwrap_or_default(),
                    job_id: job.job_id,
                    job_type: job.job_type,
                    state: job.state,
                    attempt: job.attempt,
                })
            })?;
            Ok(Some((group, members.collect::<Result<_, _>>()?)))
        })
    }

    /// Groups, newest first.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn groups(
        &self,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<Group>, ReadError> {
        let before = Cursor::read(after, KIND, |key| key.parse::<GroupId>().ok())?;
        let before = before.map_or_else(|| "~".to_owned(), |id| id.to_string());
        self.read(|db| {
            let mut statement = db.prepare_cached(LIST_SQL)?;
            let mut rows = statement.query([before])?;
            let mut walk = Walk::new(rows_max.clamp(1, GROUP_PAGE_ROWS_MAX));
            let key = |row: &Row<'_>| Ok(Cursor::new(KIND, row.get_ref(0)?.as_str()?));
            walk.take(&mut rows, |row| Ok(Some(Found { item: row.get(0)?, bytes: 0 })), key)?;
            let Page { items, next } = walk.page();
            let groups = items.into_iter().filter_map(|id: GroupId| group(db, id).transpose());
            Ok(Page { items: groups.collect::<Result<_, _>>()?, next })
        })
    }
}

/// A member counts by the last job of its chain.
pub(crate) fn group(db: &Connection, group_id: GroupId) -> Result<Option<Group>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT g.name, g.mode, g.on_failure, g.created_at, \
           coalesce(sum(j.finished_at IS NULL), 0), coalesce(sum(j.started_at IS NOT NULL), 0), \
           coalesce(sum(j.status = 'CANCELLED'), 0), coalesce(sum(r.status = 'FAILED' AND \
             j.status <> 'CANCELLED' AND NOT EXISTS \
               (SELECT 1 FROM jobs n WHERE n.retry_of = j.job_id)), 0) \
         FROM job_groups g LEFT JOIN jobs j ON j.group_id = g.group_id \
         LEFT JOIN job_runs r ON r.job_id = j.job_id WHERE g.group_id = ?1 GROUP BY g.group_id",
    )?;
    let found = statement.query_row([group_id], |row| {
        let mut columns = Columns { row, next: 0 };
        let mut group = Group {
            group_id,
            name: columns.take()?,
            mode: columns.take()?,
            on_failure: columns.take()?,
            created_at: columns.take()?,
            status: GroupStatus::Queued,
        };
        let (open, started, cancelled, failed): (i64, i64, i64, i64) =
            (columns.take()?, columns.take()?, columns.take()?, columns.take()?);
        group.status = match (open, started, cancelled, failed) {
            (1.., 0, ..) => GroupStatus::Queued,
            (1.., ..) => GroupStatus::Running,
            (_, _, _, 1..) => GroupStatus::Failed,
            (_, _, 1.., _) => GroupStatus::Cancelled,
            _ => GroupStatus::Completed,
        };
        Ok(group)
    });
    Ok(found.optional()?)
}
