//! Jobs: enqueueing, lists, changes, the end and the repetition.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse as _;
use kron_queue::limits::PAGE_ROWS_MAX;
use kron_queue::{
    AreaError, Cancel, CancelOutcome, Context, Edit, Enqueue, Enqueued, Job, JobFilter, JobId,
    Move, Operation, OrderError, Place, Retry, RunError, SetPriority, StoreError,
};
use serde::{Deserialize, Serialize};

use crate::api::{Answer, Api, PageView, created, ok};
use crate::bodies;
use crate::json::body;
use crate::limits::{BATCH_BYTES_MAX, BODY_BYTES_MAX};
use crate::problem::Problem;
use crate::query::{Id, Query};

/// The header that makes repeating a request harmless.
pub(crate) const KEY_HEADER: &str = "idempotency-key";
pub(crate) const STATES: [&str; 8] =
    ["queued", "delayed", "blocked", "running", "completed", "failed", "skipped", "cancelled"];
pub(crate) const LIST: [&str; 8] =
    ["state", "job_type", "group_id", "schedule_id", "template_id", "order", "cursor", "limit"];

/// One of many that were enqueued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EnqueuedView {
    /// Whether it was put into the queue now; otherwise it was there, under its key.
    pub new: bool,
    /// The job.
    pub job: Job,
}

/// Many that were enqueued, in the order of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchView {
    /// The jobs.
    pub jobs: Vec<EnqueuedView>,
}

pub(crate) async fn create(State(api): State<Api>, request: Request) -> Answer {
    let key = header_key(request.headers())?;
    let mut job = bodies::new_job(body(request, BODY_BYTES_MAX).await?, &bodies::NEW_JOB)?;
    if let Some(key) = key {
        if job.idempotency_key.as_ref().is_some_and(|field| *field != key) {
            let detail = "the header `Idempotency-Key` and the field `idempotency_key` differ";
            return Err(Problem::not_allowed("two-keys", detail).field("idempotency_key"));
        }
        job.idempotency_key = Some(key);
    }
    let enqueued = api.write(Enqueue { jobs: vec![job], now: api.now() }).await?;
    match enqueued.into_iter().next() {
        Some(Enqueued::New(job)) => Ok(created("jobs", job.job_id, job)),
        Some(Enqueued::Known(job)) => Ok(ok(job)),
        None => Err(StoreError::Closed.into()),
    }
}

fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut keys = headers.get_all(KEY_HEADER).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let wrong = |why: &str| {
        let detail = format!("the header `Idempotency-Key` {why}");
        Problem::malformed("bad-key", detail).field("Idempotency-Key")
    };
    if keys.next().is_some() {
        return Err(wrong("is given twice"));
    }
    let key = std::str::from_utf8(key.as_bytes()).map_err(|_| wrong("is not UTF-8"))?;
    Ok(Some(key.to_owned()))
}

pub(crate) async fn batch(State(api): State<Api>, request: Request) -> Answer {
    let jobs = bodies::batch(body(request, BATCH_BYTES_MAX).await?)?;
    let enqueued = api.write(Enqueue { jobs, now: api.now() }).await?;
    let view = |enqueued| match enqueued {
        Enqueued::New(job) => EnqueuedView { new: true, job },
        Enqueued::Known(job) => EnqueuedView { new: false, job },
    };
    let jobs: Vec<EnqueuedView> = enqueued.into_iter().map(view).collect();
    let any_new = jobs.iter().any(|one| one.new);
    let status = if any_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(BatchView { jobs })).into_response())
}

pub(crate) async fn list(State(api): State<Api>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &LIST)?;
    let filter = JobFilter {
        state: query.word("state", &STATES)?,
        job_type: query.job_type()?,
        group_id: query.id("group_id")?,
        schedule_id: query.id("schedule_id")?,
        template_id: query.id("template_id")?,
    };
    let by_order = query.word::<String>("order", &["queue"])?.is_some();
    if by_order && filter != JobFilter::default() {
        let detail = "`order=queue` is the whole queue: no filter goes with it";
        return Err(Problem::malformed("order-and-filter", detail).field("order"));
    }
    let (cursor, limit) = (query.cursor(), query.limit(PAGE_ROWS_MAX)?);
    let page = api
        .read(move |queue| match by_order {
            true => queue.order(cursor.as_ref(), limit),
            false => queue.jobs(&filter, cursor.as_ref(), limit),
        })
        .await?;
    Ok(ok(PageView::from(page)))
}

/// A job that must be there.
pub(crate) async fn known(api: &Api, id: JobId) -> Result<Job, Problem> {
    let job = api.read(move |queue| queue.job(id)).await?;
    job.ok_or_else(|| RunError::NoJob(id).into())
}

pub(crate) async fn show(State(api): State<Api>, Id(id): Id<JobId>) -> Answer {
    Ok(ok(known(&api, id).await?))
}

/// Changes of what a job is told and of its priority, as one.
struct Change {
    edit: Edit,
    priority: Option<SetPriority>,
}

/// Why a job stays as it is.
#[derive(Debug, thiserror::Error)]
enum ChangeError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AreaError for ChangeError {
    fn store(&self) -> Option<&StoreError> {
        match self {
            ChangeError::Run(error) => error.store(),
            ChangeError::Order(error) => error.store(),
            ChangeError::Store(error) => Some(error),
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Problem {
        match error {
            ChangeError::Run(error) => error.into(),
            ChangeError::Order(error) => error.into(),
            ChangeError::Store(error) => error.into(),
        }
    }
}

impl Operation for Change {
    type Output = Job;
    type Error = ChangeError;

    fn execute(self, context: &mut Context<'_>) -> Result<Job, ChangeError> {
        let job = self.edit.execute(context)?;
        match self.priority {
            // To go to the end of the priority that it has would be a move nobody asked for.
            Some(set) if set.priority != job.priority => Ok(set.execute(context)?),
            _ => Ok(job),
        }
    }
}

pub(crate) async fn change(
    State(api): State<Api>,
    Id(job_id): Id<JobId>,
    request: Request,
) -> Answer {
    let patch = bodies::job_patch(body(request, BODY_BYTES_MAX).await?)?;
    let edit = Edit { job_id, params: patch.params, not_before: patch.not_before, now: api.now() };
    let priority = patch.priority.map(|priority| SetPriority { job_id, priority });
    Ok(ok(api.write(Change { edit, priority }).await?))
}

pub(crate) async fn cancel(State(api): State<Api>, Id(job_id): Id<JobId>) -> Answer {
    match api.write(Cancel { job_id, now: api.now() }).await? {
        CancelOutcome::Cancelled(job) => Ok(ok(*job)),
        CancelOutcome::Requested(both) => {
            let (job, _) = *both;
            Ok((StatusCode::ACCEPTED, Json(job)).into_response())
        }
    }
}

pub(crate) async fn place(
    State(api): State<Api>,
    Id(job_id): Id<JobId>,
    request: Request,
) -> Answer {
    let to = bodies::place(body(request, BODY_BYTES_MAX).await?)?;
    let moved = api.write(Move { job_id, to }).await;
    let job = moved.map_err(|error| {
        let field = match (to, &error) {
            (Place::Before(_), OrderError::NoJob(id)) if *id != job_id => Some("before"),
            (Place::After(_), OrderError::NoJob(id)) if *id != job_id => Some("after"),
            _ => None,
        };
        let problem = Problem::from(error);
        field.map_or_else(|| problem.clone(), |field| problem.clone().of_body(field))
    })?;
    Ok(ok(job))
}

pub(crate) async fn retry(State(api): State<Api>, Id(job_id): Id<JobId>) -> Answer {
    let successor = api.write(Retry { job_id, now: api.now() }).await?;
    Ok(created("jobs", successor.job_id, successor))
}

pub(crate) async fn runs(State(api): State<Api>, Id(id): Id<JobId>) -> Answer {
    known(&api, id).await?;
    let run = api.read(move |queue| queue.run_of(id)).await?;
    Ok(ok(PageView { items: Vec::from_iter(run), next: None }))
}

pub(crate) async fn chain(State(api): State<Api>, Id(id): Id<JobId>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["cursor", "limit"])?;
    let (cursor, limit) = (query.cursor(), query.limit(PAGE_ROWS_MAX)?);
    known(&api, id).await?;
    let page = api.read(move |queue| queue.chain_page(id, cursor.as_ref(), limit)).await?;
    Ok(ok(PageView::from(page)))
}
