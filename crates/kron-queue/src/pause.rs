//! Pauses: of the whole queue or of a type, durable, with a reason.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::error::{StoreError, area_error};
use crate::input::{self, Invalid};
use crate::limits::REASON_BYTES_MAX;
use crate::queue::Queue;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pause {
    /// The type that is paused; the whole queue if absent.
    pub job_type: Option<String>,
    /// Why.
    pub reason: String,
    /// Since when.
    pub paused_at: Timestamp,
}

/// Pauses the queue or a type; what runs goes on. Pausing again changes the reason.
#[derive(Clone, Debug)]
pub struct SetPause {
    /// The type; the whole queue if absent.
    pub job_type: Option<String>,
    /// Why.
    pub reason: String,
    /// The time.
    pub now: Timestamp,
}

/// Ends a pause of the queue or of a type.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The type; the whole queue if absent.
    pub job_type: Option<String>,
}

/// Why nothing was paused or resumed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PauseError {
    /// Something is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It is not paused.
    #[error("{} is not paused", .0.as_ref().map_or("the queue".to_owned(), |name| format!("type `{name}`")))]
    NotPaused(Option<String>),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(PauseError);

impl PauseError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            PauseError::Invalid(invalid) => invalid.code(),
            PauseError::NotPaused(_) => "not-paused",
            PauseError::Store(error) => error.code(),
        }
    }
}

fn scope(job_type: Option<&str>) -> (&'static str, &str) {
    job_type.map_or(("queue", ""), |name| ("type", name))
}

impl Operation for SetPause {
    type Output = ();
    type Error = PauseError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), PauseError> {
        if let Some(job_type) = &self.job_type {
            input::job_type(job_type)?;
        }
        input::text("reason", &self.reason, REASON_BYTES_MAX)?;
        let (scope, job_type) = scope(self.job_type.as_deref());
        context
            .db
            .prepare_cached(
                "INSERT INTO pauses (scope, job_type, reason, paused_at) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO UPDATE SET reason = excluded.reason",
            )?
            .execute(params![scope, job_type, self.reason, self.now])?;
        context.announce(Change::Pauses);
        Ok(())
    }
}

impl Operation for Resume {
    type Output = ();
    type Error = PauseError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), PauseError> {
        let (scope, job_type) = scope(self.job_type.as_deref());
        let deleted = context
            .db
            .prepare_cached("DELETE FROM pauses WHERE scope = ?1 AND job_type = ?2")?
            .execute([scope, job_type])?;
        if deleted == 0 {
            return Err(PauseError::NotPaused(self.job_type));
        }
        context.announce(Change::Pauses);
        Ok(())
    }
}

impl Queue {
    /// Everything that is paused.
    ///
    /// # Errors
    /// When the database fails.
    pub fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.read(pauses)
    }
}

pub(crate) fn pauses(db: &Connection) -> Result<Vec<Pause>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT nullif(job_type, ''), reason, paused_at FROM pauses ORDER BY scope, job_type",
    )?;
    let rows = statement.query_map((), |row| {
        Ok(Pause { job_type: row.get(0)?, reason: row.get(1)?, paused_at: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
