//! Answers that are no success (RFC 9457), and the one table from reasons to status codes.
//!
//! 400 what cannot be read (also a path or a query), 404 and 409 about what is there, 413 and 415
//! about the body as such, 422 what can be read and is not allowed, 429 too many listeners, 503 the
//! store or the daemon.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use kron_queue::{
    DefinitionError, EnqueueError, GroupError, Invalid, OrderError, PauseError, ReadError,
    RunError, StoreError,
};
use serde::{Deserialize, Serialize};

use crate::limits::{EXCERPT_CHARS_MAX, RETRY_AFTER_S};
use crate::surface::DirectRefusal;

/// The media type of problems.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// A problem as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProblemView {
    /// `urn:kron:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the status means.
    pub title: String,
    /// The status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong, and what to do about it.
    pub detail: String,
    /// The word that stands for it, for programs.
    pub code: String,
    /// Which part of what was sent is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Why a request is not answered with what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    field: Option<String>,
}

/// What was given, short enough to be shown.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.replace(char::is_control, "\u{fffd}")
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem { status, code, detail: detail.into(), field: None }
    }

    pub(crate) fn malformed(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn not_allowed(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    pub(crate) fn not_found(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, code, detail)
    }

    fn conflict(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, code, detail)
    }

    pub(crate) fn unavailable(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Problem {
        self.field = Some(field.into());
        self
    }

    /// What is wrong with the `index`th of many, told as such.
    pub(crate) fn within(mut self, list: &str, index: usize) -> Problem {
        let inner = self.field.take().map_or_else(String::new, |field| format!(".{field}"));
        self.field = Some(format!("{list}[{index}]{inner}"));
        self
    }

    /// What a request names in its body and does not exist is the request's fault, not the path's.
    pub(crate) fn of_body(mut self, field: &'static str) -> Problem {
        if self.status == StatusCode::NOT_FOUND {
            self.status = StatusCode::UNPROCESSABLE_ENTITY;
            self.field = Some(field.to_owned());
        }
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let view = ProblemView {
            kind: format!("urn:kron:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.to_owned(),
            field: self.field,
        };
        // Texts and numbers can always be written.
        let body = serde_json::to_vec(&view).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        let wait = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
        if wait.contains(&self.status) {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        // The cause is for the daemon's log: it may name files.
        let detail = match &error {
            StoreError::Busy | StoreError::Stopped | StoreError::Closed => error.to_string(),
            _ => "the database could not do it; the daemon's log says why".to_owned(),
        };
        Problem::unavailable(error.code(), detail)
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Problem {
        let field = match &invalid {
            Invalid::TooLong { what, .. }
            | Invalid::TooMany { what, .. }
            | Invalid::Empty { what }
            | Invalid::Characters { what, .. }
            | Invalid::NotAnObject { what }
            | Invalid::TooDeep { what }
            | Invalid::OutOfRange { what, .. }
            | Invalid::Missing { what } => *what,
        };
        Problem::not_allowed(invalid.code(), invalid.to_string()).field(field)
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Problem {
        match error {
            ReadError::BadCursor(text) => {
                let detail =
                    format!("`{}` is not a cursor of this list; begin without one", excerpt(&text));
                Problem::malformed("bad-cursor", detail).field("cursor")
            }
            ReadError::Store(error) => error.into(),
        }
    }
}

impl From<EnqueueError> for Problem {
    fn from(error: EnqueueError) -> Problem {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            EnqueueError::Invalid(invalid) => invalid.into(),
            EnqueueError::NoTemplate(_) => Problem::not_allowed(code, detail).field("template_id"),
            EnqueueError::KeyConflict { .. } => {
                Problem::conflict(code, detail).field("idempotency_key")
            }
            EnqueueError::Store(error) => error.into(),
        }
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Problem {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            RunError::Invalid(invalid) => invalid.into(),
            RunError::NoJob(_) | RunError::NoRun(_) => Problem::not_found(code, detail),
            RunError::WrongToken(_)
            | RunError::RunEnded(_)
            | RunError::JobEnded(_)
            | RunError::JobNotEnded(_)
            | RunError::Retried(_)
            | RunError::NotQueued(_)
            | RunError::ProcessKnown(_) => Problem::conflict(code, detail),
            RunError::Store(error) => error.into(),
        }
    }
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Problem {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            OrderError::Invalid(invalid) => invalid.into(),
            OrderError::NoJob(_) => Problem::not_found(code, detail),
            OrderError::NotQueued(_) | OrderError::OtherPriority { .. } => {
                Problem::conflict(code, detail)
            }
            OrderError::Itself(_) => Problem::not_allowed(code, detail),
            OrderError::Store(error) => error.into(),
        }
    }
}

impl From<GroupError> for Problem {
    fn from(error: GroupError) -> Problem {
        match error {
            GroupError::NoGroup(_) => Problem::not_found(error.code(), error.to_string()),
            GroupError::Run(error) => error.into(),
            GroupError::Store(error) => error.into(),
        }
    }
}

impl From<DefinitionError> for Problem {
    fn from(error: DefinitionError) -> Problem {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            DefinitionError::Invalid(invalid) => invalid.into(),
            DefinitionError::NoTemplate(_) | DefinitionError::NoSchedule(_) => {
                Problem::not_found(code, detail)
            }
            DefinitionError::NameTaken(_) => Problem::conflict(code, detail).field("name"),
            DefinitionError::InUse { .. } => Problem::conflict(code, detail),
            DefinitionError::Expression { help, .. } => {
                let hint = help.map_or_else(String::new, |help| format!("; {help}"));
                Problem::not_allowed(code, format!("{detail}{hint}")).field("cron_expression")
            }
            DefinitionError::Store(error) => error.into(),
        }
    }
}

impl From<PauseError> for Problem {
    fn from(error: PauseError) -> Problem {
        match error {
            PauseError::Invalid(invalid) => invalid.into(),
            PauseError::NotPaused(_) => Problem::conflict(error.code(), error.to_string()),
            PauseError::Store(error) => error.into(),
        }
    }
}

impl From<DirectRefusal> for Problem {
    fn from(refusal: DirectRefusal) -> Problem {
        let detail = refusal.to_string();
        match refusal {
            DirectRefusal::Busy { reservation: None } => Problem::conflict("busy", detail),
            DirectRefusal::Busy { reservation: Some(reservation) } => {
                let by = excerpt(&reservation.reserved_by);
                let until = reservation.expires_at;
                Problem::conflict(
                    "busy",
                    format!("{detail}: `{by}` has it until {until} or longer"),
                )
            }
            DirectRefusal::NoHandler { .. } => {
                Problem::not_allowed("no-handler", detail).field("job_type")
            }
            DirectRefusal::Invalid(invalid) => invalid.into(),
            DirectRefusal::Enqueue(error) => error.into(),
            DirectRefusal::Stopping => Problem::unavailable("stopping", detail),
            DirectRefusal::Failed { .. } => Problem::unavailable("not-run", detail),
            DirectRefusal::Store(error) => error.into(),
        }
    }
}
