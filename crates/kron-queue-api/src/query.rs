//! The query and the ids of a path: few names, each once, everything checked.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;
use kron_queue::Cursor;
use kron_queue::limits::JOB_TYPE_BYTES_MAX;
use serde::de::DeserializeOwned;

use crate::fields::{id, unknown, word};
use crate::limits::PAGE_ROWS_DEFAULT;
use crate::problem::{Problem, excerpt};

/// What follows the `?`.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// The query of a request, all of whose names are in `known`.
    pub(crate) fn of(uri: &Uri, known: &[&str]) -> Result<Query, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if !known.contains(&name.as_str()) {
                let problem = Problem::malformed("unknown-query", unknown("query", &name, known));
                return Err(problem.field(excerpt(&name)));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                let detail = format!("`{name}` is given twice");
                return Err(Problem::malformed("query-twice", detail).field(name));
            }
            pairs.push((name, value));
        }
        Ok(Query(pairs))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn id<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.text(name).map(|text| id(text).ok_or_else(|| not_an_id(text).field(name))).transpose()
    }

    pub(crate) fn word<T: DeserializeOwned>(
        &self,
        name: &str,
        words: &[&str],
    ) -> Result<Option<T>, Problem> {
        let wrong = |detail| Problem::malformed("unknown-word", detail).field(name);
        self.text(name).map(|text| word(name, text, words).map_err(wrong)).transpose()
    }

    /// A type, which is a word of the configuration.
    pub(crate) fn job_type(&self) -> Result<Option<String>, Problem> {
        let Some(text) = self.text("job_type") else { return Ok(None) };
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if (1..=JOB_TYPE_BYTES_MAX).contains(&text.len()) && text.bytes().all(sound) {
            return Ok(Some(text.to_owned()));
        }
        let detail = format!(
            "`job_type` is `{}`; it has 1 to {JOB_TYPE_BYTES_MAX} letters, digits, `_`, `-` and `.`",
            excerpt(text)
        );
        Err(Problem::malformed("bad-type", detail).field("job_type"))
    }

    /// A number from `from` to `to`.
    pub(crate) fn number(&self, name: &str, from: u64, to: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        match number.filter(|number| (from..=to).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let shown = excerpt(text);
                let detail = format!("`{name}` is `{shown}`; it is a number from {from} to {to}");
                Err(Problem::malformed("out-of-range", detail).field(name))
            }
        }
    }

    pub(crate) fn limit(&self, rows_max: usize) -> Result<usize, Problem> {
        let limit = self.number("limit", 1, rows_max as u64)?;
        Ok(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE_ROWS_DEFAULT))
    }

    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.text("cursor").map(Cursor::presented)
    }
}

pub(crate) fn not_an_id(text: &str) -> Problem {
    let detail = format!("`{}` is not a UUID", excerpt(text));
    Problem::malformed("bad-id", detail)
}

fn decode(text: &str) -> Result<String, Problem> {
    let wrong = |why| {
        let detail = format!("the query has {why} in `{}`", excerpt(text));
        Problem::malformed("bad-query", detail)
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(), digit());
                let value = high.zip(low).map(|(high, low)| (high * 16 + low) as u8);
                value.ok_or_else(|| wrong("a `%` without two hexadecimal digits"))?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong("bytes that are not UTF-8"))
}

/// The id in a path.
pub(crate) struct Id<T>(pub(crate) T);

impl<S: Send + Sync, T: std::str::FromStr> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id<T>, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|rejection| bad_path(&rejection))?;
        id(&text).map(Id).ok_or_else(|| not_an_id(&text))
    }
}

pub(crate) fn bad_path(rejection: &PathRejection) -> Problem {
    Problem::malformed("bad-path", rejection.body_text())
}
