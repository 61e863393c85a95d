//! Health, readiness and metrics over HTTP.
//!
//! - `/healthz`: the controller's loop has come round lately. An operator that fails this is stuck
//!   and is best started again.
//! - `/readyz`: what the API server holds has been read once. One that stands by is ready, too.
//! - `/metrics`: the text format of Prometheus.
//!
//! Nothing here changes anything, nothing needs a name or a password, and nothing tells what a
//! KronJob holds. Connections are bounded in number and in time, so that whoever opens them and
//! says nothing keeps neither memory nor, for long, a place. The listener is bound by whoever calls:
//! an address that is taken is an error at the start, not later.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep};

use crate::metrics::Metrics;

/// Connections that are served at once; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 64;
/// How long one lives, whatever it does.
const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(30);
/// How long the end waits for answers that are under way.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// After an accept that failed, as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How the operator is, as its controller tells.
#[derive(Debug)]
pub(crate) struct Health {
    begun: Instant,
    /// Without a tick for so long it is stuck.
    tick_bound: Duration,
    /// When the loop last came round, in milliseconds since the beginning.
    ticked_ms: AtomicU64,
    filled: AtomicBool,
}

impl Health {
    /// Alive, and not yet ready.
    pub(crate) fn new(tick_bound: Duration) -> Health {
        Health {
            begun: Instant::now(),
            tick_bound,
            ticked_ms: AtomicU64::new(0),
            filled: AtomicBool::new(false),
        }
    }

    /// The controller's loop has come round.
    pub(crate) fn tick(&self) {
        self.ticked_ms.fetch_max(self.elapsed_ms(), Ordering::Relaxed);
    }

    /// Everything was read once.
    pub(crate) fn set_filled(&self) {
        self.filled.store(true, Ordering::Relaxed);
    }

    /// Whether everything was read once.
    pub(crate) fn is_ready(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }

    /// Whether the loop has come round lately.
    pub(crate) fn is_alive(&self) -> bool {
        let since_ms = self.elapsed_ms().saturating_sub(self.ticked_ms.load(Ordering::Relaxed));
        Duration::from_millis(since_ms) <= self.tick_bound
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Serves until `stop` says true or is dropped.
///
/// # Errors
/// When the listener cannot be used.
pub(crate) async fn serve(
    listener: TcpListener,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    // `get` would answer HEAD as well, which is as harmless.
    let app = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(health)
        .route("/metrics", get(text).with_state(metrics));
    let bounded = Bounded { listener, slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)) };
    let mut stopped = stop.clone();
    let server = axum::serve(bounded, app).with_graceful_shutdown(async move {
        let _ = stopped.wait_for(|stop| *stop).await;
    });
    let patience = async {
        let _ = stop.wait_for(|stop| *stop).await;
        sleep(END_PATIENCE).await;
    };
    tokio::select! {
        served = server => served,
        // Whoever holds a connection open does not hold up the end.
        () = patience => Ok(()),
    }
}

async fn healthz(State(health): State<Arc<Health>>) -> impl IntoResponse {
    told(health.is_alive(), "the controller has not come round lately\n")
}

async fn readyz(State(health): State<Arc<Health>>) -> impl IntoResponse {
    told(health.is_ready(), "the cluster has not been read yet\n")
}

fn told(well: bool, otherwise: &'static str) -> (StatusCode, &'static str) {
    if well { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, otherwise) }
}

async fn text(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    let mut text = String::new();
    match metrics.write(&mut text) {
        Ok(()) => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        // Writing to a `String` does not fail.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A listener whose connections are counted and end.
struct Bounded {
    listener: TcpListener,
    slots: Arc<Semaphore>,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
                std::future::pending().await
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let end = Box::pin(sleep(CONNECTION_LIFE_MAX));
                    return (Connection { stream, end, _slot: slot }, peer);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails once its time is over.
struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    fn poll_over(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use kron_testkit::waiting::PATIENCE;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::task::JoinHandle;
    use tokio::time::{advance, pause, resume, timeout};

    use super::*;

    /// Without a tick for longer than this the controller is stuck: no machine stalls for as long.
    const TICK_BOUND: Duration = Duration::from_secs(3600);

    struct Served {
        address: SocketAddr,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        stop: watch::Sender<bool>,
        server: JoinHandle<io::Result<()>>,
    }

    async fn start(tick_bound: Duration) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let health = Arc::new(Health::new(tick_bound));
        let metrics = Arc::new(Metrics::default());
        let (stop, stopped) = watch::channel(false);
        let server =
            tokio::spawn(serve(listener, Arc::clone(&health), Arc::clone(&metrics), stopped));
        Served { address, health, metrics, stop, server }
    }

    async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (code, answer)
    }

    #[tokio::test]
    async fn each_path_tells_what_it_is_for_and_nothing_is_changed() {
        let served = start(TICK_BOUND).await;
        let at = served.address;
        assert_eq!(ask(at, "GET", "/healthz").await.0, 200);
        assert_eq!(ask(at, "GET", "/readyz").await.0, 503);
        served.health.set_filled();
        assert_eq!(ask(at, "GET", "/readyz").await.0, 200);
        served.metrics.set_leading();
        let (code, text) = ask(at, "GET", "/metrics").await;
        assert_eq!(code, 200);
        assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
        assert!(text.lines().any(|line| line == "kron_leader 1"), "{text}");
        for method in ["POST", "PUT", "DELETE"] {
            assert_eq!(ask(at, method, "/metrics").await.0, 405);
        }
        assert_eq!(ask(at, "GET", "/").await.0, 404);
    }

    #[tokio::test]
    async fn a_controller_that_does_not_come_round_is_not_healthy() {
        let served = start(TICK_BOUND).await;
        // The clock stands still but for what the test lets pass.
        pause();
        advance(TICK_BOUND).await;
        served.health.tick();
        advance(TICK_BOUND).await;
        assert!(served.health.is_alive());
        advance(Duration::from_millis(1)).await;
        assert!(!served.health.is_alive());
        // Requests take their time.
        resume();
        assert_eq!(ask(served.address, "GET", "/healthz").await.0, 503);
        pause();
        served.health.tick();
        assert!(served.health.is_alive());
    }

    #[tokio::test]
    async fn silent_connections_wait_their_turn_and_do_not_hold_up_the_end() {
        let served = start(TICK_BOUND).await;
        let begun = Instant::now();
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(TcpStream::connect(served.address).await.unwrap());
        }
        // No place is left for one more, until somebody goes.
        let asked = tokio::spawn(ask(served.address, "GET", "/healthz"));
        let mut early = TcpStream::connect(served.address).await.unwrap();
        early.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let answered = timeout(Duration::from_millis(300), early.read_u8()).await;
        // On a machine that stalled for the life of a connection there is a place again.
        let is_full = begun.elapsed() < CONNECTION_LIFE_MAX;
        assert!(answered.is_err() || !is_full, "served beyond the bound");
        silent.drain(..2);
        assert_eq!(timeout(PATIENCE, asked).await.unwrap().unwrap().0, 200);
        served.stop.send(true).unwrap();
        timeout(PATIENCE, served.server).await.unwrap().unwrap().unwrap();
    }
}
