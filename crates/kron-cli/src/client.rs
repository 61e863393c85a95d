//! The other end of the control API: one request, one answer, one connection.
//!
//! Everything is bounded: how long an answer may take, and how long it may be; only a direct run,
//! whose answer is its end, is waited for without a limit. An answer of a newer daemon may say more
//! than is known here, which is ignored. Nothing is tried again: whoever asks decides whether to ask
//! once more. News of the queue come as a stream of their own ([`events`]).

pub(crate) mod events;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kron_core::Category;
use krond::api::view::ProblemView;
use krond::api::{LOG_ACTIVE_HEADER, PREFIX, STATE_DIR_DEFAULT, socket_path};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use crate::args::{DaemonArgs, UP_STATE_DIR};

/// How long an answer may take. A reload reads every job file.
const ANSWER_PATIENCE: Duration = Duration::from_secs(300);
/// The bytes of an answer: a quarter of a million jobs with long names.
const ANSWER_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// A daemon that can be asked.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

/// A piece of a run's output.
#[derive(Debug)]
pub(crate) struct LogPiece {
    pub(crate) bytes: Bytes,
    /// Whether the run had not ended when the piece was read.
    pub(crate) is_active: bool,
}

/// A piece of a file that a run left behind.
#[derive(Debug)]
pub(crate) struct FilePiece {
    pub(crate) bytes: Bytes,
    pub(crate) headers: HeaderMap,
}

impl FilePiece {
    /// What a header says.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Which part of a request a refusal is about.
#[derive(Deserialize)]
struct Blame {
    #[serde(default)]
    field: Option<String>,
}

/// Why there is no answer, or none that was hoped for.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// Nobody listens.
    NotRunning { socket: PathBuf, is_one_here: bool },
    /// The socket may not be used.
    Denied { socket: PathBuf },
    /// The socket cannot be used.
    Connect { socket: PathBuf, source: io::Error },
    /// The answer is no HTTP, no JSON, too long, or never came.
    Broken { socket: PathBuf, message: String },
    /// The daemon says no.
    Refused { status: StatusCode, error: Box<ProblemView>, field: Option<String> },
}

impl Client {
    /// The daemon that the arguments name.
    pub(crate) fn of(args: &DaemonArgs) -> Client {
        let state_dir = args.state_dir.as_deref().unwrap_or(Path::new(STATE_DIR_DEFAULT));
        Client { socket: args.socket.clone().unwrap_or_else(|| socket_path(state_dir)) }
    }

    /// The daemon that listens there.
    pub(crate) fn at(socket: PathBuf) -> Client {
        Client { socket }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Reads what is at `path`, which stands below the API's prefix.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (_, bytes) = self.ask(&Method::GET, path, Bytes::new())?;
        self.read(&bytes)
    }

    /// Asks for something to be done.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        order: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(order).map_err(|error| self.broken(&error))?;
        let (_, bytes) = self.ask(&Method::POST, path, body.into())?;
        self.read(&bytes)
    }

    /// Asks for something to be made, and tells whether it was; otherwise it was there.
    pub(crate) fn make<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
    ) -> Result<(T, bool), ClientError> {
        let (response, bytes) = self.ask(&Method::POST, path, body.into())?;
        Ok((self.read(&bytes)?, response.status() == StatusCode::CREATED))
    }

    /// Asks for something to be done, and waits for its end, however long that takes.
    pub(crate) fn post_patiently<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
    ) -> Result<T, ClientError> {
        let (_, bytes) = self.ask_within(&Method::POST, path, body.into(), None)?;
        self.read(&bytes)
    }

    /// Changes something.
    pub(crate) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
    ) -> Result<T, ClientError> {
        let (_, bytes) = self.ask(&Method::PATCH, path, body.into())?;
        self.read(&bytes)
    }

    /// Deletes or cancels something. An answer without a body is a `()`.
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let (_, bytes) = self.ask(&Method::DELETE, path, Bytes::new())?;
        self.read(if bytes.is_empty() { b"null" } else { &bytes })
    }

    /// Reads a piece of a file.
    pub(crate) fn piece(&self, path: &str, offset: u64) -> Result<FilePiece, ClientError> {
        let path = format!("{path}?offset={offset}");
        let (response, bytes) = self.ask(&Method::GET, &path, Bytes::new())?;
        Ok(FilePiece { bytes, headers: response.headers().clone() })
    }

    /// Reads what follows `offset` in the output of a run.
    pub(crate) fn log(&self, job: &str, run: &str, offset: u64) -> Result<LogPiece, ClientError> {
        let path =
            format!("scheduler/jobs/{}/runs/{}/log?offset={offset}", encode(job), encode(run));
        let (response, bytes) = self.ask(&Method::GET, &path, Bytes::new())?;
        let active = response.headers().get(LOG_ACTIVE_HEADER);
        Ok(LogPiece { bytes, is_active: active.is_some_and(|value| value == "true") })
    }

    fn read<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(bytes).map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &impl ToString) -> ClientError {
        ClientError::Broken { socket: self.socket.clone(), message: error.to_string() }
    }

    fn ask(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(Response<()>, Bytes), ClientError> {
        self.ask_within(method, path, body, Some(ANSWER_PATIENCE))
    }

    fn ask_within(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
        patience: Option<Duration>,
    ) -> Result<(Response<()>, Bytes), ClientError> {
        let (response, bytes) = self.runtime()?.block_on(async {
            let exchange = async {
                let response = self.send(method, path, body).await?;
                let (head, body) = response.into_parts();
                let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
                let bytes = body.map_err(|error| self.broken(&error))?.to_bytes();
                Ok((Response::from_parts(head, ()), bytes))
            };
            let Some(patience) = patience else { return exchange.await };
            match tokio::time::timeout(patience, exchange).await {
                Ok(answer) => answer,
                Err(_) => Err(self.broken(&"no answer in time")),
            }
        })?;
        if response.status().is_success() {
            return Ok((response, bytes));
        }
        Err(self.refused(response.status(), &bytes))
    }

    fn runtime(&self) -> Result<Runtime, ClientError> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| ClientError::Connect { socket: self.socket.clone(), source })
    }

    fn refused(&self, status: StatusCode, bytes: &[u8]) -> ClientError {
        match serde_json::from_slice::<ProblemView>(bytes) {
            Ok(problem) => {
                let blame = serde_json::from_slice::<Blame>(bytes).ok();
                let field = blame.and_then(|blame| blame.field);
                ClientError::Refused { status, error: Box::new(problem), field }
            }
            Err(_) => self.broken(&format!("status {status}")),
        }
    }

    /// Sends a request; the connection is driven as long as the runtime is, and ends with it.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| self.unconnected(e))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
                .await
                .map_err(|error| self.broken(&error))?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("{PREFIX}/{path}"))
            .header("host", "krond")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| self.broken(&error))?;
        sender.send_request(request).await.map_err(|error| self.broken(&error))
    }

    fn unconnected(&self, source: io::Error) -> ClientError {
        let socket = self.socket.clone();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                let here = socket_path(Path::new(UP_STATE_DIR));
                let is_one_here = socket != here && here.exists();
                ClientError::NotRunning { socket, is_one_here }
            }
            io::ErrorKind::PermissionDenied => ClientError::Denied { socket },
            // The daemon closed its socket while this connection was in the socket's queue.
            io::ErrorKind::ConnectionReset => self.broken(&source),
            _ => ClientError::Connect { socket, source },
        }
    }
}

/// A path with what follows its `?`; what has no value is left out.
pub(crate) fn with_query(path: &str, query: &[(&str, Option<String>)]) -> String {
    let mut whole = String::from(path);
    let given = query.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    for (index, (name, value)) in given.enumerate() {
        let mark = if index == 0 { '?' } else { '&' };
        let _ = write!(whole, "{mark}{name}={}", encode(value));
    }
    whole
}

/// A text as one segment of a path: everything but letters, digits and `-._~` is encoded.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

impl ClientError {
    /// The exit code, from the one table of them.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            ClientError::NotRunning { .. } => 1,
            ClientError::Denied { .. }
            | ClientError::Connect { .. }
            | ClientError::Broken { .. } => 6,
            ClientError::Refused { status, error, .. } => match *status {
                StatusCode::NOT_FOUND
                | StatusCode::CONFLICT
                | StatusCode::TOO_MANY_REQUESTS
                | StatusCode::SERVICE_UNAVAILABLE => 1,
                StatusCode::BAD_REQUEST
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNPROCESSABLE_ENTITY => 2,
                StatusCode::FORBIDDEN => 6,
                _ => match error.category.as_str() {
                    category if category == Category::IncompatibleState.as_str() => 3,
                    category if category == Category::Persistence.as_str() => 5,
                    _ => 6,
                },
            },
        }
    }

    /// Whether the daemon refused with this word.
    pub(crate) fn is_refusal(&self, code: &str) -> bool {
        matches!(self, ClientError::Refused { error, .. } if error.code == code)
    }

    /// Whether nobody is there to ask.
    pub(crate) fn is_not_running(&self) -> bool {
        matches!(self, ClientError::NotRunning { .. })
    }
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::NotRunning { socket, is_one_here } => {
                write!(f, "error: no daemon answers at `{}`\nhint: ", socket.display())?;
                match is_one_here {
                    true => {
                        write!(f, "`--state-dir {UP_STATE_DIR}` means the one of `kron up` here")
                    }
                    false => f.write_str(
                        "start one with `kron up` or `krond run --config PATH`, or say which one \
                         with `--state-dir DIR` or `--socket PATH`",
                    ),
                }
            }
            ClientError::Denied { socket } => write!(
                f,
                "error: `{}` may not be used\nhint: root, the daemon's own user and the members of \
                 its `socket_group` may",
                socket.display()
            ),
            ClientError::Connect { socket, source } => {
                write!(f, "error: `{}` cannot be used: {source}", socket.display())
            }
            ClientError::Broken { socket, message } => {
                write!(f, "error: no usable answer from `{}`: {message}", socket.display())
            }
            ClientError::Refused { error, .. } => {
                if let Some(details) = &error.details {
                    writeln!(f, "{details}\n")?;
                }
                write!(f, "error: {}", error.detail)?;
                match &error.hint {
                    Some(hint) => write!(f, "\nhint: {hint}"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_one_segment() {
        for (identity, expected) in [
            ("db-backup", "db-backup"),
            ("prod/db backup", "prod%2Fdb%20backup"),
            ("..", ".."),
            ("täglich?#%", "t%C3%A4glich%3F%23%25"),
            ("crontab/root/0011#2", "crontab%2Froot%2F0011%232"),
        ] {
            assert_eq!(encode(identity), expected);
        }
    }

    #[test]
    fn what_is_not_asked_for_is_not_in_the_query() {
        let query = [("state", None), ("job_type", Some("a&b=c".to_owned())), ("limit", None)];
        assert_eq!(with_query("jobs", &query), "jobs?job_type=a%26b%3Dc");
        assert_eq!(with_query("jobs", &query[..1]), "jobs");
        let two = [("a", Some("1".to_owned())), ("b", Some("ä".to_owned()))];
        assert_eq!(with_query("jobs", &two), "jobs?a=1&b=%C3%A4");
    }

    /// `kron stop` asks a daemon that is ending until no daemon answers.
    #[test]
    fn a_socket_that_closes_is_not_one_that_cannot_be_used() {
        let client = Client::at("krond.sock".into());
        for (kind, is_ending, is_not_running) in [
            (io::ErrorKind::ConnectionReset, true, false),
            (io::ErrorKind::ConnectionRefused, false, true),
            (io::ErrorKind::NotFound, false, true),
            (io::ErrorKind::OutOfMemory, false, false),
        ] {
            let error = client.unconnected(kind.into());
            assert_eq!(matches!(error, ClientError::Broken { .. }), is_ending, "{kind}");
            assert_eq!(error.is_not_running(), is_not_running, "{kind}");
        }
    }

    #[test]
    fn every_refusal_has_its_exit_code() {
        let refused = |status: u16, category: Category| {
            ClientError::Refused {
                status: StatusCode::from_u16(status).unwrap(),
                error: Box::new(ProblemView {
                    category: category.to_string(),
                    ..ProblemView::default()
                }),
                field: None,
            }
            .exit_code()
        };
        for (status, category, code) in [
            (400, Category::Configuration, 2),
            (403, Category::System, 6),
            (404, Category::Configuration, 1),
            (409, Category::Execution, 1),
            (413, Category::Configuration, 2),
            (422, Category::Configuration, 2),
            (429, Category::System, 1),
            (500, Category::Execution, 6),
            (500, Category::Persistence, 5),
            (500, Category::IncompatibleState, 3),
            (503, Category::System, 1),
            (504, Category::System, 6),
        ] {
            assert_eq!(refused(status, category), code, "{status} {category}");
        }
    }
}
