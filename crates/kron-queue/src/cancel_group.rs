//! Cancelling a whole group: everything of it that has not ended, in one transaction.

use rusqlite::OptionalExtension as _;

use crate::cancel::{cancel_queued, request};
use crate::claim::RunError;
use crate::error::{StoreError, area_error};
use crate::group::{Group, group};
use crate::id::{GroupId, JobId};
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// Cancels every job of a group that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct CancelGroup {
    /// Which.
    pub group_id: GroupId,
    /// The time.
    pub now: Timestamp,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelledGroup {
    /// The group.
    pub group: Group,
    /// Jobs that were queued and are cancelled.
    pub cancelled: u32,
    /// Jobs that run and are to be ended.
    pub requested: u32,
}

/// Why a group was not cancelled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GroupError {
    /// There is no such group.
    #[error("there is no group `{0}`")]
    NoGroup(GroupId),
    /// A member could not be cancelled.
    #[error(transparent)]
    Run(RunError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(GroupError);

impl From<RunError> for GroupError {
    fn from(error: RunError) -> GroupError {
        match error {
            RunError::Store(error) => GroupError::Store(error),
            other => GroupError::Run(other),
        }
    }
}

impl GroupError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            GroupError::NoGroup(_) => "no-group",
            GroupError::Run(error) => error.code(),
            GroupError::Store(error) => error.code(),
        }
    }
}

impl Operation for CancelGroup {
    type Output = CancelledGroup;
    type Error = GroupError;

    fn execute(self, context: &mut Context<'_>) -> Result<CancelledGroup, GroupError> {
        let CancelGroup { group_id, now } = self;
        let known: Option<i64> = context
            .db
            .prepare_cached("SELECT 1 FROM job_groups WHERE group_id = ?1")?
            .query_row([group_id], |row| row.get(0))
            .optional()?;
        known.ok_or(GroupError::NoGroup(group_id))?;
        let mut statement = context.db.prepare_cached(
            "SELECT job_id, status = 'QUEUED' FROM jobs \
             WHERE group_id = ?1 AND finished_at IS NULL ORDER BY group_index",
        )?;
        let open: Vec<(JobId, bool)> = statement
            .query_map([group_id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        drop(statement);
        let (mut cancelled, mut requested) = (0, 0);
        for (job_id, queued) in open {
            if queued {
                cancel_queued(context, job_id, now)?;
                cancelled += 1;
            } else {
                request(context, job_id, now)?;
                requested += 1;
            }
        }
        let group = group(context.db, group_id)?.ok_or(GroupError::NoGroup(group_id))?;
        Ok(CancelledGroup { group, cancelled, requested })
    }
}
