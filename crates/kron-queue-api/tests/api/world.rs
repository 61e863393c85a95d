//! A server of the API on loopback, its database, and a client.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kron_queue::{ClaimedRun, Queue, Rules};
use kron_queue_api::{Clock, PREFIX, Surface, router};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::executor::{Gate, Machine, Worker};

pub(crate) struct World {
    pub(crate) queue: Queue,
    pub(crate) worker: Worker,
    pub(crate) state_dir: PathBuf,
    pub(crate) address: std::net::SocketAddr,
    _directory: tempfile::TempDir,
}

/// An answer, with a body that is JSON unless it is not.
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl std::fmt::Debug for Got {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.bytes[..self.bytes.len().min(500)];
        write!(f, "{} {}", self.status, String::from_utf8_lossy(shown))
    }
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// A problem with this status and code, whose form is checked.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["type"], format!("urn:kron:{code}"));
        assert_eq!(body["status"], status);
        assert!(!body["detail"].as_str().unwrap().is_empty());
        assert!(!body["title"].as_str().unwrap().is_empty());
        body
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(Rules { workers_max: 100, ..Rules::default() }).await
    }

    pub(crate) async fn with(rules: Rules) -> World {
        let directory = tempfile::tempdir().unwrap();
        let state_dir = directory.path().join("state");
        let queue = Queue::open(&state_dir.join("queue.db"), rules).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(Machine);
        let held = Arc::new(Gate::default());
        let worker = Worker { queue: queue.clone(), clock: Arc::clone(&clock), held };
        let executor = Arc::new(worker.clone());
        let surface =
            Surface { queue: queue.clone(), state_dir: state_dir.clone(), executor, clock };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = axum::Router::new().nest(PREFIX, router(surface));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        World { queue, worker, state_dir, address, _directory: directory }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Got {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let response = sender.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Got { status: parts.status, headers: parts.headers, bytes }
    }

    pub(crate) async fn raw(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Got {
        let request = Request::builder()
            .method(method)
            .uri(format!("{PREFIX}{path}"))
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(body.into()))
            .unwrap();
        self.send(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.raw("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Got {
        self.raw("POST", path, body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Got {
        self.raw("PATCH", path, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Got {
        self.raw("DELETE", path, "").await
    }

    /// Enqueues a job and gives its id.
    pub(crate) async fn add(&self, body: Value) -> String {
        let job = self.post("/jobs", body).await.expect(201);
        job["job_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn claim(&self) -> ClaimedRun {
        let worker = self.worker.clone();
        let claimed = tokio::task::spawn_blocking(move || worker.claim()).await.unwrap();
        claimed.expect("nothing to claim")
    }

    pub(crate) async fn finish(&self, run: ClaimedRun) {
        let worker = self.worker.clone();
        tokio::task::spawn_blocking(move || worker.finish(&run)).await.unwrap();
    }

    pub(crate) async fn job(&self, id: &str) -> Value {
        self.get(&format!("/jobs/{id}")).await.expect(200)
    }
}

/// The ids of a page.
pub(crate) fn ids(page: &Value, key: &str) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}
