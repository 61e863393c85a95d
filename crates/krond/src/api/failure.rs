//! Answers that are no success, and the one table from reasons to HTTP status codes.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use kron_core::Category;
use kron_core::finding::excerpt;

use super::view::{ProblemView, SpoolView};
use crate::daemon::{Gone, ReloadFailure};
use crate::machine::Refusal;

/// The media type of problems.
const PROBLEM_TYPE: &str = "application/problem+json";
/// When to ask again a daemon that is leaving: another may be there by then.
const RETRY_AFTER_S: &str = "5";

/// Why a request is not answered with what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    status: StatusCode,
    category: Category,
    detail: String,
    hint: Option<String>,
    details: Option<String>,
}

impl Failure {
    fn new(status: StatusCode, category: Category, message: impl Into<String>) -> Failure {
        Failure { status, category, detail: message.into(), hint: None, details: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn forbidden(message: &str) -> Failure {
        Failure::new(StatusCode::FORBIDDEN, Category::System, message)
            .hint("root may do everything; members of the group `socket_group` may read")
    }

    /// Nobody vouches for who asks.
    pub(super) fn unauthorised(message: &str) -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, Category::System, message)
            .hint("`Authorization: Bearer …` with what `token_file` in `[api]` names")
    }

    pub(super) fn too_slow() -> Failure {
        let message = "the body did not come in time";
        Failure::new(StatusCode::REQUEST_TIMEOUT, Category::Configuration, message)
    }

    pub(super) fn too_long(bytes_max: usize) -> Failure {
        let message = format!("the body has more than {bytes_max} bytes");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, Category::Configuration, message)
    }

    pub(super) fn no_queue() -> Failure {
        Failure::new(StatusCode::NOT_FOUND, Category::Configuration, "this daemon has no queue")
            .hint("a table `[queue]` in its configuration makes one, with its next start")
    }

    pub(super) fn no_such_spool(name: &str, names: &[String]) -> Failure {
        let message = format!("no spool `{}`", excerpt(name));
        let failure = Failure::new(StatusCode::NOT_FOUND, Category::Configuration, message);
        match names {
            [] => failure.hint("a table `[spool.NAME]` in the configuration makes one"),
            names => failure.hint(format!("there are {}", names.join(", "))),
        }
    }

    /// A spool that rests, or is not open yet.
    pub(super) fn spool_closed(spool: &SpoolView) -> Failure {
        let why = spool.error.as_deref().unwrap_or("it is being opened");
        let message = format!("the spool `{}` is not open: {why}", excerpt(&spool.name));
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, Category::System, message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::CONFLICT, Category::Validation, message)
    }

    /// Who asks whether to expect more hears when to come again.
    pub(super) fn stopping() -> Failure {
        Failure::from(Refusal::Stopping)
    }

    pub(super) fn no_such_path(uri: &Uri) -> Failure {
        let message = format!("there is nothing at `{}`", excerpt(uri.path()));
        Failure::new(StatusCode::NOT_FOUND, Category::Configuration, message)
    }

    pub(super) fn wrong_method(method: &Method) -> Failure {
        let message = format!("`{}` means nothing here", excerpt(method.as_str()));
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, Category::Configuration, message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, Category::Configuration, message)
    }

    pub(super) fn no_such_job(identity: &str, nearest: Option<&str>) -> Failure {
        let message = format!("no job `{}`", excerpt(identity));
        let failure = Failure::new(StatusCode::NOT_FOUND, Category::Configuration, message);
        match nearest {
            Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
            None => failure.hint("`kron status` lists the jobs"),
        }
    }

    pub(super) fn no_such_run(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, Category::Configuration, message).hint(hint)
    }

    /// What is recorded could not be read.
    pub(super) fn unreadable(
        category: Category,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Failure {
        let mut failure = Failure::new(StatusCode::INTERNAL_SERVER_ERROR, category, message);
        failure.hint = hint;
        failure
    }

    pub(super) fn timed_out() -> Failure {
        Failure::new(
            StatusCode::GATEWAY_TIMEOUT,
            Category::System,
            "the daemon did not answer in time",
        )
        .hint("whether it does what was asked is not known; `kron status` shows how things are")
    }

    /// The daemon gave an answer that does not go with the question.
    pub(super) fn confused() -> Failure {
        Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Category::System,
            "the daemon's answer does not go with the question",
        )
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = self.status;
        let title = status.canonical_reason().unwrap_or("a problem").to_owned();
        let code = title.to_ascii_lowercase().replace(' ', "-");
        let problem = ProblemView {
            kind: format!("urn:kron:{code}"),
            title,
            status: status.as_u16(),
            detail: self.detail,
            code,
            category: self.category.to_string(),
            hint: self.hint,
            details: self.details,
        };
        let mut response = (status, Json(problem)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

impl From<Gone> for Failure {
    fn from(_: Gone) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, Category::System, "the daemon is leaving")
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::NoSuchJob { identity, nearest } => {
                Failure::no_such_job(&identity, nearest.as_deref())
            }
            Refusal::Active { run } => Failure::new(
                StatusCode::CONFLICT,
                Category::Execution,
                format!("run `{run}` is active, and the job's policy forbids another"),
            )
            .hint("`--force` runs it all the same"),
            Refusal::NotStarted(failure) => Failure::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                failure.category,
                format!("not started: {}: {}", failure.operation, failure.message),
            ),
            Refusal::Stopping => Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                Category::System,
                "the daemon is stopping and starts nothing more",
            ),
            Refusal::Unchanged { message } => {
                Failure::new(StatusCode::CONFLICT, Category::Configuration, message)
            }
        }
    }
}

impl From<ReloadFailure> for Failure {
    fn from(failure: ReloadFailure) -> Failure {
        let category = failure.category();
        let message = failure.to_string();
        match failure {
            ReloadFailure::Invalid { diagnostics } => {
                let mut failure = Failure::new(StatusCode::UNPROCESSABLE_ENTITY, category, message);
                failure.details = Some(diagnostics);
                failure
            }
            ReloadFailure::Unreadable { .. } => {
                Failure::new(StatusCode::INTERNAL_SERVER_ERROR, category, message)
            }
            ReloadFailure::Gone => Failure::from(Gone),
        }
    }
}
