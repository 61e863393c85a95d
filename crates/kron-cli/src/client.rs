//! The other end of the control API: one request, one answer, one connection.
//!
//! Everything is bounded: how long an answer may take, and how long it may be. An answer of a newer
//! daemon may say more than is known here, which is ignored. Nothing is tried again: whoever asks
//! decides whether to ask once more.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kron_core::Category;
use krond::api::view::{ErrorBody, ErrorView};
use krond::api::{LOG_ACTIVE_HEADER, PREFIX, STATE_DIR_DEFAULT, socket_path};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

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
    Refused { status: StatusCode, error: ErrorView },
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

    /// Reads what follows `offset` in the output of a run.
    pub(crate) fn log(&self, job: &str, run: &str, offset: u64) -> Result<LogPiece, ClientError> {
        let path = format!("jobs/{}/runs/{}/log?offset={offset}", encode(job), encode(run));
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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| ClientError::Connect { socket: self.socket.clone(), source })?;
        let uri = format!("{PREFIX}/{path}");
        let (response, bytes) = runtime.block_on(async {
            match tokio::time::timeout(ANSWER_PATIENCE, self.exchange(method, &uri, body)).await {
                Ok(answer) => answer,
                Err(_) => Err(self.broken(&"no answer in time")),
            }
        })?;
        if response.status().is_success() {
            return Ok((response, bytes));
        }
        let error = match serde_json::from_slice::<ErrorBody>(&bytes) {
            Ok(body) => body.error,
            Err(_) => return Err(self.broken(&format!("status {}", response.status()))),
        };
        Err(ClientError::Refused { status: response.status(), error })
    }

    async fn exchange(
        &self,
        method: &Method,
        uri: &str,
        body: Bytes,
    ) -> Result<(Response<()>, Bytes), ClientError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| self.unconnected(e))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
                .await
                .map_err(|error| self.broken(&error))?;
        let driving = tokio::spawn(connection);
        let request = Request::builder()
            .method(method.clone())
            .uri(uri)
            .header("host", "krond")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| self.broken(&error))?;
        let response: Response<Incoming> =
            sender.send_request(request).await.map_err(|error| self.broken(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| self.broken(&error))?.to_bytes();
        driving.abort();
        Ok((Response::from_parts(head, ()), bytes))
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
            _ => ClientError::Connect { socket, source },
        }
    }
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
            ClientError::Refused { status, error } => match *status {
                StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE => 1,
                StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => 2,
                StatusCode::FORBIDDEN => 6,
                _ => match error.category.as_str() {
                    category if category == Category::IncompatibleState.as_str() => 3,
                    category if category == Category::Persistence.as_str() => 5,
                    _ => 6,
                },
            },
        }
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
                write!(f, "error: {}", error.message)?;
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
    fn every_refusal_has_its_exit_code() {
        let refused = |status: u16, category: Category| {
            ClientError::Refused {
                status: StatusCode::from_u16(status).unwrap(),
                error: ErrorView {
                    category: category.to_string(),
                    message: String::new(),
                    hint: None,
                    details: None,
                },
            }
            .exit_code()
        };
        for (status, category, code) in [
            (400, Category::Configuration, 2),
            (403, Category::System, 6),
            (404, Category::Configuration, 1),
            (409, Category::Execution, 1),
            (422, Category::Configuration, 2),
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
