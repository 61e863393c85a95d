//! The queue's part of the API, as `kron-queue-api` makes it, with the daemon behind it.
//!
//! On the socket whoever may change things may change the queue, and whoever may look may look at
//! it. What comes over a network sees nothing of it without the token: parameters of jobs are
//! nobody's business.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use kron_config::HandlerTarget;
use kron_queue::{NewJob, ReservationError, Timestamp};
use kron_queue_api::{
    Clock, DirectAnswer, DirectRefusal, DirectRequest, Directly, Executor, HandlerView, Surface,
};

use super::access::Access;
use super::failure::Failure;
use crate::daemon::Handle;
use crate::queue::dispatcher;
use crate::queue::time::Believed;

/// The first parts of the queue's paths.
const PATHS: [&str; 10] = [
    "jobs",
    "job-runs",
    "job-templates",
    "job-groups",
    "schedules",
    "direct",
    "queue",
    "webhook-deliveries",
    "events",
    "openapi.json",
];

/// The queue's paths; a daemon without one says so at each of them.
pub(super) fn router(handle: &Handle) -> Router<Handle> {
    let Some(queue) = handle.queue() else {
        return Router::new().fallback(|request: Request| async move {
            let path = request.uri().path();
            let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
            match PATHS.contains(&first) {
                true => Failure::no_queue(),
                false => Failure::no_such_path(request.uri()),
            }
        });
    };
    let surface = Surface {
        queue: queue.queue.clone(),
        state_dir: handle.state_dir().to_owned(),
        executor: Arc::new(Daemon(handle.clone())),
        clock: Arc::new(Wall(queue.clock.clone())),
    };
    let guard = from_fn_with_state(handle.clone(), guard);
    Router::new().fallback_service(kron_queue_api::router(surface).layer(guard))
}

/// Lets through what may use the queue now.
async fn guard(State(handle): State<Handle>, request: Request, next: Next) -> Response {
    if let Some(Access::ReadFromNetwork(token)) = request.extensions().get() {
        return token.refusal("the queue").into_response();
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes && handle.queue().is_some_and(crate::daemon::QueueHandle::is_stopping) {
        return Failure::stopping().into_response();
    }
    next.run(request).await
}

struct Wall(Arc<Believed>);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        self.0.now().wall
    }
}

struct Daemon(Handle);

impl Executor for Daemon {
    fn direct(&self, request: DirectRequest) -> Directly {
        let handle = self.0.clone();
        Box::pin(async move {
            let settings = handle.settings();
            let known = settings.queue.as_ref().and_then(|queue| queue.handler(&request.job_type));
            let (Some(queue), Some(_)) = (handle.queue(), known) else {
                return Err(DirectRefusal::NoHandler { job_type: request.job_type });
            };
            let ms = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or_default());
            let call = dispatcher::DirectCall {
                job: NewJob::of_type(&request.job_type, request.params),
                wait: ms(request.wait_ms),
                timeout: request.timeout_ms.map(ms),
                reserved_by: request.reserved_by,
            };
            match queue.direct(call).await {
                Ok(ended) => Ok(DirectAnswer { job: ended.job, run: ended.run }),
                Err(refusal) => Err(refused(refusal)),
            }
        })
    }

    fn handlers(&self) -> Vec<HandlerView> {
        let settings = self.0.settings();
        let handlers = settings.queue.as_ref().map(|queue| queue.handlers.as_slice());
        let handlers = handlers.unwrap_or_default().iter();
        handlers
            .map(|handler| HandlerView {
                job_type: handler.job_type.clone(),
                kind: match handler.target {
                    HandlerTarget::Command(_) => "command".to_owned(),
                    HandlerTarget::Web { .. } => "http".to_owned(),
                },
                concurrency_max: handler.workers_max,
                timeout_ms: handler.execution.timeout.map(|timeout| timeout.get() * 1_000),
                retries_max: handler.retry.retries_max,
            })
            .collect()
    }

    fn workers_max(&self) -> u32 {
        self.0.settings().queue.as_ref().map_or(0, |queue| queue.workers_max)
    }
}

fn refused(refusal: dispatcher::DirectRefusal) -> DirectRefusal {
    match refusal {
        // Who has the slot now is not who had it; the caller's own reservation may be still there.
        dispatcher::DirectRefusal::Busy => DirectRefusal::Busy { reservation: None },
        dispatcher::DirectRefusal::Stopping => DirectRefusal::Stopping,
        lost @ dispatcher::DirectRefusal::Lost => {
            DirectRefusal::Failed { reason: lost.to_string() }
        }
        dispatcher::DirectRefusal::Refused(error) => match error {
            ReservationError::Invalid(invalid) => DirectRefusal::Invalid(invalid),
            ReservationError::Enqueue(error) => DirectRefusal::Enqueue(error),
            ReservationError::Store(error) => DirectRefusal::Store(error),
            other => DirectRefusal::Failed { reason: other.to_string() },
        },
    }
}
