//! The control API: HTTP/1.1 and JSON on a unix socket.
//!
//! [`serve`] accepts connections, asks the kernel who is on the other end, and answers one request
//! per connection. It decides nothing: what changes something is asked of the loop through the
//! [`Handle`], and what is recorded is read from the store, off the runtime's thread.
//!
//! - who may do what is decided by the peer's credentials alone;
//! - every answer that is no success is an [`view::ProblemView`];
//! - requests, answers, connections and waiting are bounded, each by a named limit;
//! - a peer that is silent, or takes nothing of its answer, is given up after a short while; one that
//!   is merely slow keeps its slot for some minutes;
//! - those who may only look can take up the slots of others who may only look, and no more: some
//!   are kept for those who may change things (see `slots`).

mod access;
mod body;
mod describe;
mod ended;
mod expected;
mod failure;
mod handlers;
mod log_file;
mod patient;
mod queue;
mod slots;
mod spool;
pub mod view;
mod why;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use self::describe::entry as outcome;
pub(crate) use self::ended::EndedRuns;

use self::access::{Access, Peer, Rank};
use self::failure::Failure;
use self::patient::Patient;
use self::slots::Slots;
use crate::daemon::Handle;

/// The state directory of a daemon that was told no other.
pub const STATE_DIR_DEFAULT: &str = "/var/lib/krond";
/// The control socket that goes with it.
pub const SOCKET_DEFAULT: &str = "/run/krond/krond.sock";
/// The control socket's name in any other state directory.
const SOCKET_NAME: &str = "krond.sock";

/// The first part of every path.
pub const PREFIX: &str = "/api/v1";

/// The header of a piece of a log that says whether its run is active.
pub const LOG_ACTIVE_HEADER: &str = "kron-run-active";
/// The header of a piece of a log that says how long the whole log is.
pub const LOG_BYTES_HEADER: &str = "kron-log-bytes";

/// How long a client may take to say what it wants.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take nothing of its answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection is served; after that it is closed as soon as nobody waits for an answer.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(300);
/// How long the last answer may take from then on, once it is made.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(30);
/// How long the body of a request may take.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The bytes of the longest body: many jobs at once.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The pause after a connection could not be accepted, when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The bytes of a request's line and headers. Identities have at most 4 KiB, three times that when
/// they are percent-encoded.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// The bytes of a request's body.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// The control socket of a daemon with this state directory.
#[must_use]
pub fn socket_path(state_dir: &Path) -> PathBuf {
    if state_dir == Path::new(STATE_DIR_DEFAULT) {
        return PathBuf::from(SOCKET_DEFAULT);
    }
    state_dir.join(SOCKET_NAME)
}

/// Serves the API until the future is dropped.
///
/// # Errors
/// When the listener cannot be used at all. What goes wrong with a connection ends that connection
/// only.
pub async fn serve(handle: Handle, listener: UnixListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let router = router(handle.clone());
    let slots = Slots::new();
    loop {
        let Some(spare) = slots.spare().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(peer) = stream.peer_cred() else { continue };
        let turn = slots.turn(spare, Rank::of(peer.uid()));
        let (router, handle) = (router.clone(), handle.clone());
        tokio::spawn(async move {
            let Some(slot) = turn.slot().await else { return };
            let group = handle.settings().socket_group.clone();
            let access = access::of(peer.uid(), peer.gid(), group).await;
            connection(Peer::Local(access), router, stream).await;
            drop(slot);
        });
    }
}

/// Serves a network's address, until the future is dropped. Nobody vouches for who is there: who
/// bears the token may do everything, others may look at what the scheduler does.
///
/// # Errors
/// As for [`serve`].
pub async fn serve_network(handle: Handle, listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = router(handle.clone());
    let slots = Slots::new();
    loop {
        let Some(spare) = slots.spare().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let turn = slots.turn(spare, Rank::Other);
        let (router, handle) = (router.clone(), handle.clone());
        tokio::spawn(async move {
            let Some(slot) = turn.slot().await else { return };
            connection(Peer::Remote(handle), router, stream).await;
            drop(slot);
        });
    }
}

/// Answers one request after the other, until the peer leaves or has been here long enough.
async fn connection<S>(peer: Peer, router: Router, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let busy = Arc::new(Busy::default());
    let peer = Arc::new(peer);
    let service = {
        let busy = busy.clone();
        service_fn(move |request: Request<hyper::body::Incoming>| {
            let (peer, router, busy) = (peer.clone(), router.clone(), busy.clone());
            async move {
                let access = match admitted(&peer, &request) {
                    Ok(access) => access,
                    Err(refusal) => return Ok(refusal.into_response()),
                };
                let bytes_max = match access {
                    Access::Change => REQUEST_BYTES_MAX,
                    _ => BODY_BYTES_MAX,
                };
                let request = match whole(request, bytes_max).await {
                    Ok(request) => request,
                    Err(refusal) => return Ok(refusal.into_response()),
                };
                let _working = busy.work();
                let response = answer(access, router, request).await;
                busy.note(&response);
                Ok::<Response, Infallible>(response)
            }
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(true)
        .serve_connection(TokioIo::new(Patient::new(stream, WRITE_PATIENCE)), service);
    tokio::pin!(connection);
    // However it ends, it ends: the client has its answer or has gone.
    if tokio::time::timeout(CONNECTION_PATIENCE, &mut connection).await.is_ok() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    // Who waits for us, or for events, may go on doing so; who keeps us waiting may not.
    while tokio::time::timeout(FAREWELL_PATIENCE, &mut connection).await.is_err() {
        if !busy.is_busy() {
            return;
        }
    }
}

/// What a connection is doing.
#[derive(Debug, Default)]
struct Busy {
    working: AtomicUsize,
    streams: AtomicBool,
}

impl Busy {
    fn work(self: &Arc<Busy>) -> Working {
        self.working.fetch_add(1, Ordering::AcqRel);
        Working(self.clone())
    }

    /// Remembers an answer that has no end.
    fn note(&self, response: &Response) {
        let kind = response.headers().get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            self.streams.store(true, Ordering::Release);
        }
    }

    fn is_busy(&self) -> bool {
        self.streams.load(Ordering::Acquire) || self.working.load(Ordering::Acquire) > 0
    }
}

/// A request that is being worked on.
struct Working(Arc<Busy>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The request with all of its body, which must come in time and be of a size.
async fn whole(
    request: Request<hyper::body::Incoming>,
    bytes_max: usize,
) -> Result<Request, Failure> {
    let (parts, body) = request.into_parts();
    let reading = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(BODY_PATIENCE, reading).await {
        Err(_) => Err(Failure::too_slow()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::too_long(bytes_max)),
        Ok(Err(error)) => Err(Failure::bad_request(format!("the body is broken: {error}"))),
        Ok(Ok(body)) => Ok(Request::from_parts(parts, Body::from(body.to_bytes()))),
    }
}

/// What a request may do, by its head alone: nothing is read for who may not ask.
fn admitted<B>(peer: &Peer, request: &Request<B>) -> Result<Access, Failure> {
    let access = peer.access(request.headers())?;
    access.admits(request.method())?;
    if matches!(access, Access::ReadFromNetwork(_)) && !access::is_plain_host(request.headers()) {
        let why = "ask for this machine by its number or as `localhost`";
        return Err(Failure::forbidden(why));
    }
    Ok(access)
}

async fn answer(
    access: Access,
    router: TowerToHyperService<Router>,
    mut request: Request,
) -> Response {
    use hyper::service::Service as _;
    request.extensions_mut().insert(access);
    match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn router(handle: Handle) -> Router {
    let jobs = Router::new()
        .route("/", get(handlers::jobs))
        .route("/{identity}", get(handlers::job))
        .route("/{identity}/history", get(handlers::history))
        .route("/{identity}/why", get(handlers::why))
        .route("/{identity}/runs/{run}", get(handlers::run_state))
        .route("/{identity}/runs/{run}/log", get(handlers::log))
        .route("/{identity}/run", post(handlers::run))
        .route("/{identity}/suspend", post(handlers::suspend))
        .route("/{identity}/resume", post(handlers::resume));
    let api = Router::new()
        .route("/status", get(handlers::status))
        .route("/expected", get(expected::feed))
        .nest("/scheduler/jobs", jobs)
        .route("/reload", post(handlers::reload))
        .route("/stop", post(handlers::stop))
        .route("/clock/accept", post(handlers::accept_clock));
    let api = api.nest("/spools", spool::router());
    let api = api.merge(queue::router(&handle));
    Router::new()
        .route("/metrics", get(expected::metrics))
        .nest(PREFIX, api)
        .fallback(|request: Request| async move { Failure::no_such_path(request.uri()) })
        .method_not_allowed_fallback(|request: Request| async move {
            Failure::wrong_method(request.method())
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(handle)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::time::Instant;

    use super::*;

    /// Bytes on their way between a client and the server.
    const ON_THE_WAY: usize = 64 * 1024;

    /// What a client gets that writes `head` and then `drip` once a second until the connection is
    /// closed, and after how many seconds that is. The clock moves only while everything waits, to the
    /// next time that is waited for: how busy the machine is changes nothing.
    fn dripping(head: &'static str, drip: &'static [u8]) -> (String, u64) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (theirs, ours) = tokio::io::duplex(ON_THE_WAY);
            let since = Instant::now();
            let served = connection(Peer::Local(Access::Change), Router::new(), ours);
            let (answer, ()) = tokio::join!(client(theirs, head, drip), served);
            (answer, since.elapsed().as_secs())
        })
    }

    async fn client(stream: DuplexStream, head: &str, drip: &[u8]) -> String {
        let (mut from, mut to) = tokio::io::split(stream);
        to.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let reading = from.read_to_string(&mut answer);
        let dripping = async {
            loop {
                // It may be closed by now, which the other half reads.
                let _ = to.write_all(drip).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            read = reading => assert!(read.is_ok(), "{read:?}"),
            () = dripping => {}
        }
        answer
    }

    #[test]
    fn a_peer_that_does_not_complete_its_request_is_given_up_after_half_a_minute() {
        let head = "POST /jobs HTTP/1.1\r\nHost: k\r\nContent-Length: 5000\r\n";
        // One that says nothing, and one that does not come to the end of its head.
        for (head, drip) in [("", ""), (head, "X-A: b\r\n")] {
            assert_eq!(dripping(head, drip.as_bytes()), (String::new(), 10), "{head:?}");
        }
        // Two that do not come to the end of their body.
        let head = "POST /jobs HTTP/1.1\r\nHost: k\r\nContent-Length: 5000\r\n\r\n";
        for drip in ["", "x"] {
            let (answer, seconds) = dripping(head, drip.as_bytes());
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
            assert_eq!(seconds, 30, "{drip:?}");
        }
    }

    #[test]
    fn the_default_directory_has_its_socket_in_run() {
        assert_eq!(socket_path(Path::new("/var/lib/krond")), Path::new("/run/krond/krond.sock"));
        assert_eq!(socket_path(Path::new("/var/lib/krond/")), Path::new("/run/krond/krond.sock"));
        assert_eq!(socket_path(Path::new("state")), Path::new("state/krond.sock"));
    }
}
