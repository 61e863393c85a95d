//! A little server of the queue's API on loopback, for the fuzzer and for trying things out:
//! `serve ADDRESS STATE_DIR TOKEN`. A worker ends jobs at random moments, so that all states occur.

#[path = "../tests/support/executor.rs"]
#[expect(clippy::unwrap_used, reason = "a server for the fuzzer ends when something is broken")]
mod executor;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use executor::{Gate, Machine, Worker};
use kron_queue::{Queue, Rules, Webhook};
use kron_queue_api::{Clock, PREFIX, Surface, router};

/// How often the worker looks for a job.
const PACE: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, state_dir, token] = arguments.as_slice() else {
        return Err("usage: serve ADDRESS STATE_DIR TOKEN".into());
    };
    let state_dir = std::path::PathBuf::from(state_dir);
    let webhooks = vec![Webhook { target: "somebody".to_owned(), events: Vec::new() }];
    let rules = Rules { workers_max: 4, webhooks, ..Rules::default() };
    let queue = Queue::open(&state_dir.join("queue.db"), rules)?;
    let clock: Arc<dyn Clock> = Arc::new(Machine);
    let held = Arc::new(Gate::default());
    held.open("nobody");
    let worker = Worker { queue: queue.clone(), clock: Arc::clone(&clock), held };
    let working = worker.clone();
    std::thread::spawn(move || work(&working));
    let surface = Surface { queue, state_dir, executor: Arc::new(worker), clock };
    let expected = format!("Bearer {token}");
    let guard = from_fn(move |request: Request, next: Next| {
        let admitted =
            request.headers().get(AUTHORIZATION).is_some_and(|given| *given == *expected);
        async move { if admitted { next.run(request).await } else { stranger() } }
    });
    let app = Router::new().nest(PREFIX, router(surface)).layer(guard);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        axum::serve(listener, app).await
    })?;
    Ok(())
}

/// Ends every other job at once and keeps the rest running for a while.
fn work(worker: &Worker) {
    let mut running = Vec::new();
    loop {
        std::thread::sleep(PACE);
        running.extend(worker.claim());
        if running.len() > 2 {
            worker.finish(&running.remove(0));
        }
    }
}

fn stranger() -> Response {
    let body = r#"{"type":"urn:kron:no-token","title":"Unauthorized","status":401,"detail":"a bearer token is expected","code":"no-token"}"#;
    let headers = [(CONTENT_TYPE, "application/problem+json")];
    (StatusCode::UNAUTHORIZED, headers, body).into_response()
}
