//! Direct execution: the next slot reserved for one caller.
//!
//! At most one reservation is ACTIVE, by a unique index. While one is, no worker claims; what runs
//! is never pre-empted, and the queue's order is untouched. A reservation whose time is over
//! expires when somebody looks, unless its run still goes on.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::claim::{Claimed, Idle, RunError, begin, full_types};
use crate::enqueue::{EnqueueError, NewJob, insert, resolve};
use crate::error::{StoreError, area_error};
use crate::id::ReservationId;
use crate::input::{self, Invalid};
use crate::limits::RESERVATION_MS_MAX;
use crate::model::{Columns, ProcessIdentity, words};
use crate::queue::Queue;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

words! {
    /// How a reservation is doing.
    ReservationStatus {
        /// It holds.
        Active = "ACTIVE",
        /// It was given back.
        Released = "RELEASED",
        /// Its time was over, or its daemon dead.
        Expired = "EXPIRED",
    }
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reservation {
    /// Its id.
    pub reservation_id: ReservationId,
    /// When it was made.
    pub reserved_at: Timestamp,
    /// For whom.
    pub reserved_by: String,
    /// How it is doing.
    pub status: ReservationStatus,
    /// When it ends unless it is renewed.
    pub expires_at: Timestamp,
    /// The daemon that made it.
    pub owner: ProcessIdentity,
}

/// Why there is no reservation, or no direct run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReservationError {
    /// Something is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Somebody else has the slot.
    #[error("the slot is reserved already, by reservation `{0}`")]
    Busy(ReservationId),
    /// The reservation does not hold, or not any more.
    #[error("reservation `{0}` is not active")]
    NotActive(ReservationId),
    /// The reservation was used.
    #[error("reservation `{0}` has had its run")]
    Used(ReservationId),
    /// The job cannot be made.
    #[error(transparent)]
    Enqueue(EnqueueError),
    /// The run cannot be made.
    #[error(transparent)]
    Run(RunError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(ReservationError);

impl From<EnqueueError> for ReservationError {
    fn from(error: EnqueueError) -> ReservationError {
        match error {
            EnqueueError::Store(error) => ReservationError::Store(error),
            other => ReservationError::Enqueue(other),
        }
    }
}

impl From<RunError> for ReservationError {
    fn from(error: RunError) -> ReservationError {
        match error {
            RunError::Store(error) => ReservationError::Store(error),
            other => ReservationError::Run(other),
        }
    }
}

impl ReservationError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ReservationError::Invalid(invalid) => invalid.code(),
            ReservationError::Busy(_) => "reserved",
            ReservationError::NotActive(_) => "not-active",
            ReservationError::Used(_) => "reservation-used",
            ReservationError::Enqueue(error) => error.code(),
            ReservationError::Run(error) => error.code(),
            ReservationError::Store(error) => error.code(),
        }
    }
}

/// Reserves the next slot, or tells who has it.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// For whom.
    pub reserved_by: String,
    /// The daemon that makes it.
    pub owner: ProcessIdentity,
    /// How long it lasts unless it is renewed.
    pub lasts_ms: i64,
    /// The time.
    pub now: Timestamp,
}

impl Operation for Reserve {
    type Output = Reservation;
    type Error = ReservationError;

    fn execute(self, context: &mut Context<'_>) -> Result<Reservation, ReservationError> {
        input::name("reserved_by", &self.reserved_by)?;
        input::name("boot_id", &self.owner.boot_id)?;
        input::range("lasts_ms", self.lasts_ms, 1, RESERVATION_MS_MAX)?;
        if let Some(other) = active_after_expiry(context, self.now)? {
            return Err(ReservationError::Busy(other));
        }
        let reservation_id = ReservationId(context.id(self.now)?);
        let expires_at = self.now.saturating_add_ms(self.lasts_ms);
        context
            .db
            .prepare_cached(
                "INSERT INTO direct_reservations (reservation_id, reserved_at, reserved_by, \
                 status, expires_at, boot_id, pid, start_ticks) \
                 VALUES (?1, ?2, ?3, 'ACTIVE', ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                reservation_id,
                self.now,
                self.reserved_by,
                expires_at,
                self.owner.boot_id,
                self.owner.pid,
                self.owner.start_ticks
            ])?;
        context.announce(Change::Reservation { reservation_id });
        Ok(Reservation {
            reservation_id,
            reserved_at: self.now,
            reserved_by: self.reserved_by,
            status: ReservationStatus::Active,
            expires_at,
            owner: self.owner,
        })
    }
}

/// Lets a reservation last longer.
#[derive(Clone, Copy, Debug)]
pub struct Renew {
    /// Which.
    pub reservation_id: ReservationId,
    /// How long it lasts from now.
    pub lasts_ms: i64,
    /// The time.
    pub now: Timestamp,
}

impl Operation for Renew {
    type Output = ();
    type Error = ReservationError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), ReservationError> {
        input::range("lasts_ms", self.lasts_ms, 1, RESERVATION_MS_MAX)?;
        if active_after_expiry(context, self.now)? != Some(self.reservation_id) {
            return Err(ReservationError::NotActive(self.reservation_id));
        }
        renew(context, self.reservation_id, self.now.saturating_add_ms(self.lasts_ms))?;
        Ok(())
    }
}

pub(crate) fn renew(
    context: &mut Context<'_>,
    reservation_id: ReservationId,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    context
        .db
        .prepare_cached(
            "UPDATE direct_reservations SET expires_at = max(expires_at, ?2) \
             WHERE reservation_id = ?1",
        )?
        .execute(params![reservation_id, expires_at])?;
    context.announce(Change::Reservation { reservation_id });
    Ok(())
}

/// Gives a reservation back.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// Which.
    pub reservation_id: ReservationId,
    /// The time.
    pub now: Timestamp,
}

impl Operation for Release {
    type Output = ();
    type Error = ReservationError;

    fn execute(self, context: &mut Context<'_>) -> Result<(), ReservationError> {
        if end(context, self.reservation_id, ReservationStatus::Released, self.now)? {
            return Ok(());
        }
        Err(ReservationError::NotActive(self.reservation_id))
    }
}

/// Makes a job and its run under a reservation, if a slot is free.
#[derive(Clone, Debug)]
pub struct StartDirect {
    /// The reservation, which serves for one run.
    pub reservation_id: ReservationId,
    /// The job.
    pub job: NewJob,
    /// Who runs it.
    pub worker_id: String,
    /// The time.
    pub now: Timestamp,
}

impl Operation for StartDirect {
    type Output = Claimed;
    type Error = ReservationError;

    fn execute(self, context: &mut Context<'_>) -> Result<Claimed, ReservationError> {
        input::name("worker_id", &self.worker_id)?;
        if active_after_expiry(context, self.now)? != Some(self.reservation_id) {
            return Err(ReservationError::NotActive(self.reservation_id));
        }
        let used: bool = context
            .db
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM job_runs WHERE reservation_id = ?1)")?
            .query_row([self.reservation_id], |row| row.get(0))?;
        if used {
            return Err(ReservationError::Used(self.reservation_id));
        }
        let row = resolve(context, NewJob { not_before: None, ..self.job })?;
        match full_types(context)? {
            None => return Ok(Claimed::Nothing(Idle::WorkersBusy)),
            Some(full) if full.contains(&row.job_type) => {
                return Ok(Claimed::Nothing(Idle::TypesClosed { next_at: None }));
            }
            Some(_) => {}
        }
        let job = insert(context, row, self.now)?;
        let reservation = Some(self.reservation_id);
        let claimed = begin(context, job, &self.worker_id, reservation, self.now)?;
        Ok(Claimed::Run(Box::new(claimed)))
    }
}

/// Ends a reservation, if it is active.
pub(crate) fn end(
    context: &mut Context<'_>,
    reservation_id: ReservationId,
    status: ReservationStatus,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let updated = context
        .db
        .prepare_cached(
            "UPDATE direct_reservations SET status = ?2, ended_at = ?3 \
             WHERE reservation_id = ?1 AND status = 'ACTIVE'",
        )?
        .execute(params![reservation_id, status, now])?;
    if updated == 1 {
        context.announce(Change::Reservation { reservation_id });
    }
    Ok(updated == 1)
}

/// The active reservation, after one whose time is over has expired.
pub(crate) fn active_after_expiry(
    context: &mut Context<'_>,
    now: Timestamp,
) -> Result<Option<ReservationId>, StoreError> {
    let Some(active) = active(context.db)? else { return Ok(None) };
    let id = active.reservation_id;
    if active.expires_at > now || has_open_run(context.db, id)? {
        return Ok(Some(id));
    }
    end(context, id, ReservationStatus::Expired, now)?;
    Ok(None)
}

pub(crate) fn has_open_run(db: &Connection, id: ReservationId) -> Result<bool, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM job_runs WHERE reservation_id = ?1 AND status IS NULL)",
    )?;
    Ok(statement.query_row([id], |row| row.get(0))?)
}

pub(crate) fn active(db: &Connection) -> Result<Option<Reservation>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT reservation_id, reserved_at, reserved_by, status, expires_at, boot_id, pid, \
         start_ticks FROM direct_reservations WHERE status = 'ACTIVE'",
    )?;
    Ok(statement.query_row((), from_row).optional()?)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Reservation> {
    let mut columns = Columns { row, next: 0 };
    Ok(Reservation {
        reservation_id: columns.take()?,
        reserved_at: columns.take()?,
        reserved_by: columns.take()?,
        status: columns.take()?,
        expires_at: columns.take()?,
        owner: ProcessIdentity {
            boot_id: columns.take()?,
            pid: columns.take()?,
            start_ticks: columns.take()?,
        },
    })
}

impl Queue {
    /// The active reservation.
    ///
    /// # Errors
    /// When the database fails.
    pub fn reservation(&self) -> Result<Option<Reservation>, StoreError> {
        self.read(active)
    }
}
