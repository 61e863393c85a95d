//! Webhooks to be delivered: written in the transaction of what they tell, delivered by others.
//!
//! Delivery is at least once: a delivery that was claimed and not ended is claimed again when its
//! claim runs out. Every try is logged.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::change::Change;
use crate::error::{StoreError, area_error};
use crate::id::DeliveryId;
use crate::limits::{
    DELIVERIES_PER_CALL_MAX, DELIVERY_ATTEMPTS_MAX, DELIVERY_BACKOFF_FIRST_MS, ERROR_BYTES_MAX,
    PAGE_ROWS_MAX,
};
use crate::model::{Columns, Job, JobRun, words};
use crate::page::{Cursor, Found, Page, ReadError, Walk};
use crate::queue::Queue;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

words! {
    /// How a delivery is doing.
    DeliveryStatus {
        /// It is to be tried.
        Pending = "pending",
        /// It was taken.
        Delivered = "delivered",
        /// It was tried too often.
        Failed = "failed",
    }
}

/// Something to be told to one receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// Its id, the same at every try.
    pub delivery_id: DeliveryId,
    /// The receiver.
    pub target: String,
    /// What happened, such as `job.failed`.
    pub event: String,
    /// All of it.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub payload: Value,
    /// How it is doing.
    pub status: DeliveryStatus,
    /// Tries that have begun.
    pub attempts: u32,
    /// When it may be tried next.
    pub next_at: Timestamp,
    /// When it happened.
    pub created_at: Timestamp,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryAttempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The receiver's answer.
    pub http_status: Option<u16>,
    /// What went wrong.
    pub error: Option<String>,
}

/// Writes down what is to be told about a job.
pub(crate) fn emit(
    context: &mut Context<'_>,
    event: &'static str,
    job: &Job,
    run: Option<&JobRun>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let wants = |events: &[String]| events.is_empty() || events.iter().any(|name| name == event);
    let targets: Vec<String> = context
        .rules
        .webhooks
        .iter()
        .filter(|webhook| wants(&webhook.events))
        .map(|webhook| webhook.target.clone())
        .collect();
    for target in targets {
        let delivery_id = DeliveryId(context.id(now)?);
        let payload = json!({
            "delivery_id": delivery_id, "event": event, "at": now, "job": job, "run": run,
        });
        context
            .db
            .prepare_cached(
                "INSERT INTO webhook_deliveries (delivery_id, target, event, payload, status, \
                 next_at, created_at) VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?5)",
            )?
            .execute(params![delivery_id, target, event, payload.to_string(), now])?;
        context.announce(Change::Webhook);
    }
    Ok(())
}

/// Why a delivery could not be ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeliveryError {
    /// There is no such delivery that is still to be made.
    #[error("there is no pending delivery `{0}`")]
    NotPending(DeliveryId),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(DeliveryError);

impl DeliveryError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            DeliveryError::NotPending(_) => "no-delivery",
            DeliveryError::Store(error) => error.code(),
        }
    }
}

/// Claims deliveries that are due, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct ClaimDeliveries {
    /// How long each may take before it is claimed again.
    pub lease_ms: i64,
    /// The time.
    pub now: Timestamp,
}

const DELIVERY_COLUMNS: &str =
    "delivery_id, target, event, payload, status, attempts, next_at, created_at";

fn delivery_from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Delivery> {
    let mut columns = Columns { row, next: 0 };
    Ok(Delivery {
        delivery_id: columns.take()?,
        target: columns.take()?,
        event: columns.take()?,
        payload: columns.json()?,
        status: columns.take()?,
        attempts: columns.take()?,
        next_at: columns.take()?,
        created_at: columns.take()?,
    })
}

impl Operation for ClaimDeliveries {
    type Output = Vec<Delivery>;
    type Error = DeliveryError;

    fn execute(self, context: &mut Context<'_>) -> Result<Vec<Delivery>, DeliveryError> {
        let sql = format!(
            "SELECT {DELIVERY_COLUMNS} FROM webhook_deliveries \
             INDEXED BY webhook_deliveries_due WHERE status = 'pending' AND next_at <= ?1 \
             ORDER BY next_at, seq LIMIT ?2"
        );
        let mut statement = context.db.prepare_cached(&sql)?;
        let due: Vec<Delivery> = statement
            .query_map(params![self.now, DELIVERIES_PER_CALL_MAX as i64], delivery_from_row)?
            .collect::<Result<_, _>>()?;
        let mut claimed = Vec::new();
        for mut delivery in due {
            if begin_attempt(context, &mut delivery, self.lease_ms, self.now)? {
                claimed.push(delivery);
            }
        }
        Ok(claimed)
    }
}

/// Claims the delivery to one receiver that is due first, so that receivers do not wait for each
/// other.
#[derive(Clone, Debug)]
pub struct ClaimDelivery {
    /// The receiver.
    pub target: String,
    /// How long it may take before it is claimed again.
    pub lease_ms: i64,
    /// The time.
    pub now: Timestamp,
}

/// What is to be delivered to one receiver.
#[derive(Clone, Debug, Default)]
pub struct NextDelivery {
    /// Something that is due.
    pub delivery: Option<Delivery>,
    /// When something is, if nothing is now.
    pub next_at: Option<Timestamp>,
}

/// The delivery to one receiver that is due first.
pub(crate) fn next_of_target_sql() -> String {
    format!(
        "SELECT {DELIVERY_COLUMNS} FROM webhook_deliveries \
         INDEXED BY webhook_deliveries_of_target WHERE status = 'pending' AND target = ?1 \
         ORDER BY next_at LIMIT 1"
    )
}

impl Operation for ClaimDelivery {
    type Output = NextDelivery;
    type Error = DeliveryError;

    fn execute(self, context: &mut Context<'_>) -> Result<NextDelivery, DeliveryError> {
        loop {
            let first = context
                .db
                .prepare_cached(&next_of_target_sql())?
                .query_row([&self.target], delivery_from_row)
                .optional()?;
            let Some(mut delivery) = first else { return Ok(NextDelivery::default()) };
            if delivery.next_at > self.now {
                return Ok(NextDelivery { delivery: None, next_at: Some(delivery.next_at) });
            }
            if begin_attempt(context, &mut delivery, self.lease_ms, self.now)? {
                return Ok(NextDelivery { delivery: Some(delivery), next_at: None });
            }
        }
    }
}

/// Makes deliveries due again that an earlier daemon was trying: nobody will tell how that ended.
pub(crate) fn give_back(context: &mut Context<'_>, now: Timestamp) -> Result<(), StoreError> {
    let given = context
        .db
        .prepare_cached(
            "UPDATE webhook_deliveries INDEXED BY webhook_deliveries_due SET next_at = ?1 \
             WHERE status = 'pending' AND next_at > ?1 AND attempts > 0 AND NOT EXISTS ( \
             SELECT 1 FROM webhook_attempts AS a WHERE a.delivery_id = \
             webhook_deliveries.delivery_id AND a.attempt = webhook_deliveries.attempts)",
        )?
        .execute([now])?;
    if given > 0 {
        context.announce(Change::Webhook);
    }
    Ok(())
}

/// Notes that a delivery is being tried, unless it was tried too often; says whether it is.
fn begin_attempt(
    context: &Context<'_>,
    delivery: &mut Delivery,
    lease_ms: i64,
    now: Timestamp,
) -> Result<bool, DeliveryError> {
    if delivery.attempts >= DELIVERY_ATTEMPTS_MAX {
        // The last try began and nobody told how it ended.
        end(context, delivery, None, Some("interrupted"), now)?;
        return Ok(false);
    }
    delivery.attempts += 1;
    delivery.next_at = now.saturating_add_ms(lease_ms.max(1));
    context
        .db
        .prepare_cached(
            "UPDATE webhook_deliveries SET attempts = ?2, next_at = ?3 WHERE delivery_id = ?1",
        )?
        .execute(params![delivery.delivery_id, delivery.attempts, delivery.next_at])?;
    Ok(true)
}

/// Tells how a try ended. Answers 200 to 299 are deliveries.
#[derive(Clone, Debug)]
pub struct FinishDelivery {
    /// Which.
    pub delivery_id: DeliveryId,
    /// The receiver's answer, if there was one.
    pub http_status: Option<u16>,
    /// What went wrong.
    pub error: Option<String>,
    /// The time.
    pub now: Timestamp,
}

impl Operation for FinishDelivery {
    type Output = DeliveryStatus;
    type Error = DeliveryError;

    fn execute(mut self, context: &mut Context<'_>) -> Result<DeliveryStatus, DeliveryError> {
        let sql = format!(
            "SELECT {DELIVERY_COLUMNS} FROM webhook_deliveries \
             WHERE delivery_id = ?1 AND status = 'pending' AND attempts > 0"
        );
        let delivery = context
            .db
            .prepare_cached(&sql)?
            .query_row([self.delivery_id], delivery_from_row)
            .optional()?
            .ok_or(DeliveryError::NotPending(self.delivery_id))?;
        if let Some(error) = &mut self.error {
            let end = (0..=ERROR_BYTES_MAX.min(error.len())).rev();
            let end = end.into_iter().find(|at| error.is_char_boundary(*at)).unwrap_or(0);
            error.truncate(end);
        }
        end(context, &delivery, self.http_status, self.error.as_deref(), self.now)
    }
}

fn end(
    context: &Context<'_>,
    delivery: &Delivery,
    http_status: Option<u16>,
    error: Option<&str>,
    now: Timestamp,
) -> Result<DeliveryStatus, DeliveryError> {
    let id = delivery.delivery_id;
    context
        .db
        .prepare_cached(
            "INSERT INTO webhook_attempts (delivery_id, attempt, ended_at, http_status, error) \
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET ended_at = excluded.ended_at, \
             http_status = excluded.http_status, error = excluded.error",
        )?
        .execute(params![id, delivery.attempts, now, http_status, error])?;
    let taken = http_status.is_some_and(|status| (200..300).contains(&status));
    let status = match taken {
        true => DeliveryStatus::Delivered,
        false if delivery.attempts >= DELIVERY_ATTEMPTS_MAX => DeliveryStatus::Failed,
        false => DeliveryStatus::Pending,
    };
    let (next_at, finished_at) = if status == DeliveryStatus::Pending {
        let doublings = 2 * (delivery.attempts - 1).min(20);
        (now.saturating_add_ms(DELIVERY_BACKOFF_FIRST_MS << doublings), None)
    } else {
        (delivery.next_at, Some(now))
    };
    context
        .db
        .prepare_cached(
            "UPDATE webhook_deliveries SET status = ?2, next_at = ?3, finished_at = ?4 \
             WHERE delivery_id = ?1",
        )?
        .execute(params![id, status, next_at, finished_at])?;
    Ok(status)
}

/// A delivery and its tries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryRecord {
    /// The delivery.
    #[serde(flatten)]
    pub delivery: Delivery,
    /// Its tries that have ended, in order.
    pub log: Vec<DeliveryAttempt>,
}

/// The kind of the cursors of the list of deliveries.
const KIND: char = 'w';

/// What lists deliveries.
pub(crate) fn list_sql(status: Option<DeliveryStatus>, columns: &str) -> String {
    let (index, condition) = match status {
        None => ("", "?1 IS NULL"),
        Some(_) => ("INDEXED BY webhook_deliveries_status", "status = ?1"),
    };
    format!(
        "SELECT {columns}, seq FROM webhook_deliveries {index} WHERE {condition} \
         AND seq < ?2 ORDER BY seq DESC"
    )
}

impl Queue {
    /// Deliveries with their tries, newest first.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn deliveries(
        &self,
        status: Option<DeliveryStatus>,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<DeliveryRecord>, ReadError> {
        let before = Cursor::read(after, KIND, |key| key.parse::<i64>().ok())?.unwrap_or(i64::MAX);
        let sql = list_sql(status, DELIVERY_COLUMNS);
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(params![status, before])?;
            let mut walk = Walk::new(rows_max.clamp(1, PAGE_ROWS_MAX));
            let found = |row: &rusqlite::Row<'_>| {
                let bytes = row.get_ref("payload")?.as_str()?.len();
                Ok(Some(Found { item: delivery_from_row(row)?, bytes }))
            };
            let key = |row: &rusqlite::Row<'_>| {
                Ok(Cursor::new(KIND, &row.get::<_, i64>("seq")?.to_string()))
            };
            walk.take(&mut rows, found, key)?;
            let Page { items, next } = walk.page();
            let records = items.into_iter().map(|delivery: Delivery| {
                let log = log(db, delivery.delivery_id)?;
                Ok::<_, StoreError>(DeliveryRecord { delivery, log })
            });
            Ok(Page { items: records.collect::<Result<_, _>>()?, next })
        })
    }

    /// The tries of a delivery, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub fn delivery_log(&self, id: DeliveryId) -> Result<Vec<DeliveryAttempt>, StoreError> {
        self.read(|db| log(db, id))
    }
}

fn log(db: &Connection, id: DeliveryId) -> Result<Vec<DeliveryAttempt>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT attempt, ended_at, http_status, error FROM webhook_attempts \
         WHERE delivery_id = ?1 ORDER BY attempt",
    )?;
    let rows = statement.query_map([id], |row| {
        Ok(DeliveryAttempt {
            attempt: row.get(0)?,
            ended_at: row.get(1)?,
            http_status: row.get(2)?,
            error: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
