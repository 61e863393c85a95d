//! Putting jobs into the queue.
//!
//! A key makes repeating it harmless: the same request under the same key is answered with the job
//! that is already there, another request under it is refused.

use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::change::Change;
use crate::error::{StoreError, area_error};
use crate::id::{GroupId, JobId, ScheduleId, TemplateId};
use crate::input::{self, Invalid};
use crate::limits::{JOBS_PER_CALL_MAX, POSITION_GAP, POSITION_MAX};
use crate::model::{Hold, Job, JobState, JobStatus};
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// Enqueues jobs: all of them, or none.
#[derive(Clone, Debug)]
pub struct Enqueue {
    /// The jobs, in the order in which they go to the end.
    pub jobs: Vec<NewJob>,
    /// The time.
    pub now: Timestamp,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// The kind of work; the template's if absent.
    #[serde(default)]
    pub job_type: Option<String>,
    /// A template, whose settings count where nothing is said here.
    #[serde(default)]
    pub template_id: Option<TemplateId>,
    /// What the work is told, laid over the template's (RFC 7396).
    #[serde(default)]
    pub params: Option<Value>,
    /// Higher ones first; the template's, or 0, if absent.
    #[serde(default)]
    pub priority: Option<i64>,
    /// It is not claimed before.
    #[serde(default)]
    pub not_before: Option<Timestamp>,
    /// Makes repeating the request harmless.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

impl NewJob {
    /// A job of a type, with parameters.
    #[must_use]
    pub fn of_type(job_type: &str, params: Value) -> NewJob {
        NewJob { job_type: Some(job_type.to_owned()), params: Some(params), ..NewJob::default() }
    }
}

/// A job that is in the queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Enqueued {
    /// It was put there.
    New(Job),
    /// It was there, under this key.
    Known(Job),
}

impl Enqueued {
    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        match self {
            Enqueued::New(job) | Enqueued::Known(job) => job,
        }
    }
}

/// Why nothing was enqueued.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EnqueueError {
    /// Something is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such template.
    #[error("there is no template `{0}`")]
    NoTemplate(TemplateId),
    /// The key belongs to another request.
    #[error("the idempotency key `{key}` was used for another request, job `{job_id}`")]
    KeyConflict {
        /// The key.
        key: String,
        /// The job of the other request.
        job_id: JobId,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(EnqueueError);

impl EnqueueError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            EnqueueError::Invalid(invalid) => invalid.code(),
            EnqueueError::NoTemplate(_) => "no-template",
            EnqueueError::KeyConflict { .. } => "idempotency-conflict",
            EnqueueError::Store(error) => error.code(),
        }
    }
}

impl Operation for Enqueue {
    type Output = Vec<Enqueued>;
    type Error = EnqueueError;

    fn execute(self, context: &mut Context<'_>) -> Result<Vec<Enqueued>, EnqueueError> {
        let count = self.jobs.len();
        if count > JOBS_PER_CALL_MAX {
            return Err(
                Invalid::TooMany { what: "jobs", count, count_max: JOBS_PER_CALL_MAX }.into()
            );
        }
        self.jobs.into_iter().map(|job| enqueue(context, job, self.now)).collect()
    }
}

fn enqueue(
    context: &mut Context<'_>,
    request: NewJob,
    now: Timestamp,
) -> Result<Enqueued, EnqueueError> {
    let key = match &request.idempotency_key {
        None => None,
        Some(key) => {
            input::idempotency_key(key)?;
            let hash = request_hash(&request);
            if let Some(known) = known(context, key, &hash)? {
                return Ok(Enqueued::Known(known));
            }
            Some((key.clone(), hash))
        }
    };
    let mut row = resolve(context, request)?;
    row.key = key;
    Ok(Enqueued::New(insert(context, row, now)?))
}

/// Lays a request over its template, and checks the result.
pub(crate) fn resolve(context: &mut Context<'_>, request: NewJob) -> Result<NewRow, EnqueueError> {
    let template = match request.template_id {
        None => None,
        Some(id) => Some(template(context, id)?.ok_or(EnqueueError::NoTemplate(id))?),
    };
    let has_template = template.is_some();
    let (template_type, mut params, template_priority) =
        template.unwrap_or_else(|| (None, Value::Object(serde_json::Map::new()), 0));
    let job_type =
        request.job_type.or(template_type).ok_or(Invalid::Missing { what: "job_type" })?;
    input::job_type(&job_type)?;
    if let Some(over) = request.params {
        input::params("params", &over)?;
        // With nothing to be laid over, `null` removes nothing and stays what was sent.
        match has_template {
            true => input::merge(&mut params, over),
            false => params = over,
        }
    }
    let priority = request.priority.unwrap_or(template_priority);
    input::priority(priority)?;
    let params_text = input::params("params", &params)?;
    Ok(NewRow {
        template_id: request.template_id,
        not_before: request.not_before,
        ..NewRow::new(job_type, params, params_text, priority)
    })
}

type TemplateParts = (Option<String>, Value, i64);

fn template(context: &Context<'_>, id: TemplateId) -> Result<Option<TemplateParts>, EnqueueError> {
    let mut statement = context.db.prepare_cached(
        "SELECT params, job_type, priority FROM job_templates \
         WHERE template_id = ?1 AND deleted_at IS NULL",
    )?;
    let found = statement.query_row([id], |row| {
        let mut columns = crate::model::Columns { row, next: 0 };
        let params = columns.json()?;
        Ok((columns.take()?, params, columns.take()?))
    });
    Ok(found.optional()?)
}

/// A hash of everything that was asked for; JSON objects have one order of their keys here.
fn request_hash(request: &NewJob) -> String {
    let parts = serde_json::json!({
        "job_type": request.job_type, "template_id": request.template_id,
        "params": request.params, "priority": request.priority, "not_before": request.not_before,
    });
    Sha256::digest(parts.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known(context: &Context<'_>, key: &str, hash: &str) -> Result<Option<Job>, EnqueueError> {
    let found: Option<(JobId, String)> = context
        .db
        .prepare_cached("SELECT job_id, request_hash FROM jobs WHERE idempotency_key = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        None => Ok(None),
        Some((job_id, of)) if of == hash => Ok(crate::jobs::job(context.db, job_id)?),
        Some((job_id, _)) => Err(EnqueueError::KeyConflict { key: key.to_owned(), job_id }),
    }
}

/// A row that is about to be inserted, with everything checked.
pub(crate) struct NewRow {
    pub(crate) template_id: Option<TemplateId>,
    pub(crate) schedule: Option<(ScheduleId, String)>,
    pub(crate) group: Option<(GroupId, i64)>,
    pub(crate) job_type: String,
    pub(crate) params: Value,
    pub(crate) params_text: String,
    pub(crate) priority: i64,
    pub(crate) retry_of: Option<JobId>,
    pub(crate) attempt: u32,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) waits_for_group: bool,
    /// The idempotency key and the hash of its request.
    pub(crate) key: Option<(String, String)>,
}

impl NewRow {
    pub(crate) fn new(
        job_type: String,
        params: Value,
        params_text: String,
        priority: i64,
    ) -> NewRow {
        NewRow {
            template_id: None,
            schedule: None,
            group: None,
            job_type,
            params,
            params_text,
            priority,
            retry_of: None,
            attempt: 0,
            not_before: None,
            waits_for_group: false,
            key: None,
        }
    }
}

/// Inserts a job at the end of its priority.
pub(crate) fn insert(
    context: &mut Context<'_>,
    row: NewRow,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let job_id = JobId(context.id(now)?);
    let position = position_at_end(context, row.priority)?;
    let hold = hold(row.waits_for_group, row.not_before, now);
    let (schedule_id, period_id) = row.schedule.unzip();
    let (group_id, group_index) = row.group.unzip();
    let (key, hash) = row.key.unzip();
    context
        .db
        .prepare_cached(
            "INSERT INTO jobs (job_id, template_id, schedule_id, period_id, group_id, group_index, \
             job_type, params, status, priority, position, retry_of, attempt, created_at, \
             queued_at, not_before, hold, idempotency_key, request_hash) VALUES (?1, ?2, ?3, ?4, \
             ?5, ?6, ?7, ?8, 'QUEUED', ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16, ?17)",
        )?
        .execute(params![
            job_id,
            row.template_id,
            schedule_id,
            period_id,
            group_id,
            group_index,
            row.job_type,
            row.params_text,
            row.priority,
            position,
            row.retry_of,
            row.attempt,
            now,
            row.not_before,
            hold,
            key,
            hash,
        ])
        .map_err(StoreError::sql("cannot insert a job"))?;
    context.announce(Change::Enqueued { job_id });
    Ok(Job {
        job_id,
        template_id: row.template_id,
        schedule_id,
        period_id,
        group_id,
        group_index,
        job_type: row.job_type,
        params: row.params,
        status: JobStatus::Queued,
        state: match hold {
            None => JobState::Queued,
            Some(Hold::Delay) => JobState::Delayed,
            Some(Hold::Group) => JobState::Blocked,
        },
        priority: row.priority,
        position,
        retry_of: row.retry_of,
        attempt: row.attempt,
        retry_decision: None,
        created_at: now,
        queued_at: now,
        started_at: None,
        finished_at: None,
        not_before: row.not_before,
        worker_id: None,
        cancel_requested_at: None,
        idempotency_key: key,
    })
}

/// Why a job with this time may not be claimed at `now`, if it may not.
pub(crate) fn hold(
    waits_for_group: bool,
    not_before: Option<Timestamp>,
    now: Timestamp,
) -> Option<Hold> {
    if waits_for_group {
        return Some(Hold::Group);
    }
    not_before.filter(|time| *time > now).map(|_| Hold::Delay)
}

/// The position after every queued job of a priority.
pub(crate) fn position_at_end(context: &mut Context<'_>, priority: i64) -> Result<i64, StoreError> {
    let last = |context: &Context<'_>| -> Result<i64, StoreError> {
        let found = context
            .db
            .prepare_cached(
                "SELECT position FROM jobs WHERE status = 'QUEUED' AND priority = ?1 \
                 ORDER BY position DESC LIMIT 1",
            )?
            .query_row([priority], |row| row.get(0))
            .optional()?;
        Ok(found.unwrap_or(0))
    };
    let mut position = last(context)?.saturating_add(POSITION_GAP);
    if position > POSITION_MAX {
        crate::order::normalise(context, priority)?;
        position = last(context)? + POSITION_GAP;
    }
    Ok(position)
}
