//! The queue as a whole: numbers, pauses, normalisation, direct runs and webhooks.

use axum::extract::{Request, State};
use axum::http::Uri;
use kron_queue::limits::PAGE_ROWS_MAX;
use kron_queue::{
    Normalise, Pause, Reservation, Resume, SetPause, Statistics, StoreError, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::api::{Answer, Api, PageView, ok};
use crate::bodies;
use crate::json::body;
use crate::limits::{BODY_BYTES_MAX, ENDED_WITHIN_MS, ENVELOPE_BYTES_MAX};
use crate::query::Query;
use crate::surface::HandlerView;

pub(crate) const DELIVERY_STATUSES: [&str; 3] = ["pending", "delivered", "failed"];

/// How the queue is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueView {
    /// How much there is of what.
    pub counts: Statistics,
    /// From when on ends are counted.
    pub ended_since: Timestamp,
    /// Everything that is paused.
    pub pauses: Vec<Pause>,
    /// Who has the next slot reserved.
    pub reservation: Option<Reservation>,
    /// How many jobs run at once.
    pub workers_max: u32,
    /// What is configured for which type.
    pub handlers: Vec<HandlerView>,
    /// Whether a write failed in a way after which no more are taken.
    pub stopped: bool,
}

/// Everything that is paused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PausesView {
    /// The pauses.
    pub pauses: Vec<Pause>,
}

/// Something was done about which there is nothing more to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DoneView {
    /// What.
    pub done: String,
}

pub(crate) async fn show(State(api): State<Api>) -> Answer {
    let ended_since = api.now().saturating_add_ms(-ENDED_WITHIN_MS);
    let executor = api.surface.executor.clone();
    let view = api
        .read(move |queue| {
            Ok::<_, StoreError>(QueueView {
                counts: queue.statistics(ended_since)?,
                ended_since,
                pauses: queue.pauses()?,
                reservation: queue.reservation()?,
                workers_max: executor.workers_max(),
                handlers: executor.handlers(),
                stopped: queue.is_stopped(),
            })
        })
        .await?;
    Ok(ok(view))
}

async fn pauses(api: &Api) -> Answer {
    let pauses = api.read(kron_queue::Queue::pauses).await?;
    Ok(ok(PausesView { pauses }))
}

pub(crate) async fn pause(State(api): State<Api>, request: Request) -> Answer {
    let (job_type, reason) = bodies::pause(body(request, ENVELOPE_BYTES_MAX).await?)?;
    api.write(SetPause { job_type, reason, now: api.now() }).await?;
    pauses(&api).await
}

pub(crate) async fn resume(State(api): State<Api>, request: Request) -> Answer {
    let job_type = bodies::resume(body(request, ENVELOPE_BYTES_MAX).await?)?;
    api.write(Resume { job_type }).await?;
    pauses(&api).await
}

pub(crate) async fn normalise(State(api): State<Api>) -> Answer {
    api.write(Normalise).await?;
    Ok(ok(DoneView { done: "normalised".to_owned() }))
}

pub(crate) async fn direct(State(api): State<Api>, request: Request) -> Answer {
    let request = bodies::direct(body(request, BODY_BYTES_MAX).await?)?;
    Ok(ok(api.surface.executor.direct(request).await?))
}

pub(crate) async fn deliveries(State(api): State<Api>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &["status", "cursor", "limit"])?;
    let status = query.word("status", &DELIVERY_STATUSES)?;
    let (cursor, limit) = (query.cursor(), query.limit(PAGE_ROWS_MAX)?);
    let page = api.read(move |queue| queue.deliveries(status, cursor.as_ref(), limit)).await?;
    Ok(ok(PageView::from(page)))
}
