//! The queue's HTTP API: a router over [`kron_queue::Queue`] and the document that describes it.
//!
//! [`router`] knows the queue and nothing of who asks: authentication, connections and their limits
//! are the daemon's, which mounts the router under [`PREFIX`]. What it needs of the daemon is the
//! [`Surface`].
//!
//! - nothing here blocks the runtime: writes are awaited, reads go to threads that may block;
//! - every answer that is no success is a [`ProblemView`], also those of the framework;
//! - whatever is sent gets an answer below 500; 503 is the store's or the daemon's own trouble;
//! - bodies, pages, files and streams are bounded, each by a named limit ([`limits`]);
//! - [`openapi`] documents every answer that can occur, and is held to it by a fuzzer.

mod api;
mod bodies;
mod fields;
mod handlers;
mod json;
pub mod limits;
mod openapi;
mod problem;
mod query;
mod surface;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, get, post};

pub use api::PageView;
pub use handlers::groups::{CancelledGroupView, GroupView, NewGroupView};
pub use handlers::jobs::{BatchView, EnqueuedView};
pub use handlers::queue::{DoneView, PausesView, QueueView};
pub use handlers::runs::{
    ARTIFACT_BYTES_HEADER, ARTIFACT_HASH_HEADER, LOG_ACTIVE_HEADER, LOG_BYTES_HEADER, Progress,
    RunView,
};
pub use openapi::openapi;
pub use problem::ProblemView;
pub use surface::{
    Clock, DirectAnswer, DirectRefusal, DirectRequest, Directly, Executor, HandlerView, Surface,
};

use api::Api;
use handlers::{definitions, events, groups, jobs, queue, runs};
use problem::{Problem, excerpt};

/// The first part of every path, under which the daemon mounts the router.
pub const PREFIX: &str = "/api/v1";

/// The API's paths, without the prefix.
pub fn router(surface: Surface) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| router.route(path, methods))
        .route("/events", get(events::stream))
        .route("/openapi.json", get(document))
        .fallback(|request: Request| async move {
            let detail = format!("there is nothing at `{}`", excerpt(request.uri().path()));
            Problem::not_found("no-path", detail)
        })
        .method_not_allowed_fallback(|request: Request| async move {
            let detail = format!("`{}` means nothing here", excerpt(request.method().as_str()));
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", detail)
        })
        .with_state(Api::new(surface))
}

fn routes() -> [(&'static str, MethodRouter<Api>); 26] {
    [
        ("/jobs", get(jobs::list).post(jobs::create)),
        ("/jobs/batch", post(jobs::batch)),
        ("/jobs/{job_id}", get(jobs::show).patch(jobs::change).delete(jobs::cancel)),
        ("/jobs/{job_id}/move", post(jobs::place)),
        ("/jobs/{job_id}/retry", post(jobs::retry)),
        ("/jobs/{job_id}/runs", get(jobs::runs)),
        ("/jobs/{job_id}/chain", get(jobs::chain)),
        ("/job-runs", get(runs::list)),
        ("/job-runs/{run_id}", get(runs::show)),
        ("/job-runs/{run_id}/retry", post(runs::retry)),
        ("/job-runs/{run_id}/log", get(runs::log)),
        ("/job-runs/{run_id}/artifacts/{*path}", get(runs::artifact)),
        ("/job-templates", get(definitions::templates).post(definitions::create_template)),
        (
            "/job-templates/{template_id}",
            get(definitions::template)
                .patch(definitions::change_template)
                .delete(definitions::delete_template),
        ),
        ("/schedules", get(definitions::schedules).post(definitions::create_schedule)),
        (
            "/schedules/{schedule_id}",
            get(definitions::schedule)
                .patch(definitions::change_schedule)
                .delete(definitions::delete_schedule),
        ),
        ("/schedules/{schedule_id}/outcomes", get(definitions::outcomes)),
        ("/schedules/{schedule_id}/next", get(definitions::next)),
        ("/job-groups", get(groups::list).post(groups::create)),
        ("/job-groups/{group_id}", get(groups::show).delete(groups::cancel)),
        ("/direct", post(queue::direct)),
        ("/queue", get(queue::show)),
        ("/queue/pause", post(queue::pause)),
        ("/queue/resume", post(queue::resume)),
        ("/queue/normalise", post(queue::normalise)),
        ("/webhook-deliveries", get(queue::deliveries)),
    ]
}

/// The document, as it is served.
async fn document() -> axum::response::Response {
    // It is made of texts, so that it can always be written.
    let text = openapi().to_json().unwrap_or_default();
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
