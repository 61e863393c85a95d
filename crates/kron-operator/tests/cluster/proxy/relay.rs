//! The connections of the proxy: one to the API server for each of a client.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{Board, Fault};
use crate::process::read;

type AnyBody = BoxBody<Bytes, io::Error>;

/// Where requests go.
#[derive(Clone)]
pub(super) struct Upstream {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Upstream {
    pub(super) fn new(address: SocketAddr, certificates: &Path) -> Upstream {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(read(certificates).as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Upstream { address, tls: TlsConnector::from(Arc::new(config)) }
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Serves until told to end.
pub(super) fn run(
    listener: std::net::TcpListener,
    upstream: Upstream,
    board: Arc<Board>,
    ended: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).unwrap();
        tokio::select! {
            _ = ended => {}
            never = accept(listener, upstream, board) => match never {},
        }
    });
}

async fn accept(listener: TcpListener, upstream: Upstream, board: Arc<Board>) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        drop(stream.set_nodelay(true));
        let connection = Arc::new(Connection {
            upstream: upstream.clone(),
            board: Arc::clone(&board),
            sender: Mutex::new(None),
        });
        let service = service_fn(move |request| {
            let connection = Arc::clone(&connection);
            async move { connection.answer(request).await }
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service),
        );
    }
}

/// A client's connection and the one to the API server behind it.
struct Connection {
    upstream: Upstream,
    board: Arc<Board>,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Connection {
    /// An error closes the client's connection without an answer.
    async fn answer(&self, request: Request<Incoming>) -> io::Result<Response<AnyBody>> {
        let uri = request.uri();
        let watches = uri.query().is_some_and(|query| {
            query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"))
        });
        let path = uri.path().to_owned();
        let fault = self.board.strike(request.method().as_str(), &path);
        match fault {
            Some(Fault::Answer(status)) => return Ok(refusal(status, None)),
            Some(Fault::AnswerRetryAfter(status, after_s)) => {
                return Ok(refusal(status, Some(after_s)));
            }
            Some(Fault::Drop) => return Err(io::ErrorKind::ConnectionAborted.into()),
            _ => {}
        }
        // Read to its end first: the end of a connection is noticed only behind that of a request.
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let request = Request::from_parts(parts, Full::new(body));
        match fault {
            Some(Fault::DelayRequest(time)) => tokio::time::sleep(time).await,
            Some(Fault::HoldRequest) => self.board.hold().await,
            _ => {}
        }
        // Subscribed before the request is sent: a cut is about all that were open when it came.
        let cuts = self.board.cuts.subscribe();
        let response = self.forward(request).await?;
        match fault {
            Some(Fault::SwallowAnswer) => {
                // The last byte says that the API server is done.
                response.into_body().collect().await.map_err(io::Error::other)?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Some(Fault::DelayAnswer(time)) => tokio::time::sleep(time).await,
            Some(Fault::HoldAnswer) => self.board.await_release().await,
            _ => {}
        }
        if watches && response.status().is_success() {
            let board = Arc::clone(&self.board);
            return Ok(response.map(|body| Watched::new(body, path, cuts, board).boxed()));
        }
        Ok(response.map(|body| body.map_err(io::Error::other).boxed()))
    }

    async fn forward(&self, request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>> {
        let mut place = self.sender.lock().await;
        let ready = match place.as_mut() {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !ready {
            *place = Some(self.upstream.connect().await?);
        }
        let sender = place.as_mut().unwrap();
        sender.send_request(request).await.map_err(io::Error::other)
    }
}

/// An answer in the API server's form.
fn refusal(status: u16, retry_after_s: Option<u32>) -> Response<AnyBody> {
    let reason = match status {
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    let body = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "refused by the proxy of the test",
        "reason": reason,
        "code": status,
    });
    let mut response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after_s {
        response = response.header(RETRY_AFTER, seconds);
    }
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed();
    response.body(body).unwrap()
}

/// The body of a watch, which can be cut.
struct Watched {
    body: Incoming,
    path: String,
    cut: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    board: Arc<Board>,
}

impl Watched {
    fn new(
        body: Incoming,
        path: String,
        mut cuts: tokio::sync::watch::Receiver<u64>,
        board: Arc<Board>,
    ) -> Watched {
        board.open_watches.lock().unwrap().push(path.clone());
        let cut = Box::pin(async move { drop(cuts.changed().await) });
        Watched { body, path, cut, board }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut open = self.board.open_watches.lock().unwrap();
        let at = open.iter().position(|path| *path == self.path).unwrap();
        open.swap_remove(at);
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(io::Error::other)
    }
}
