//! Runs: lists, one with its progress, its repetition, its output and what it produced.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse as _, Response};
use kron_queue::limits::PAGE_ROWS_MAX;
use kron_queue::{JobRun, Queue, Retry, RunError, RunFilter, RunId};
use serde::{Deserialize, Serialize};

use super::files::{self, FileError, Piece, Place};
use crate::api::{Answer, Api, PageView, created, ok};
use crate::fields::id;
use crate::problem::{Problem, excerpt};
use crate::query::{Id, Query, bad_path, not_an_id};

/// The header that says whether the run of a log is active.
pub const LOG_ACTIVE_HEADER: &str = "kron-run-active";
/// The header that says how long the whole log is.
pub const LOG_BYTES_HEADER: &str = "kron-log-bytes";
/// The header that says how long the whole artifact is.
pub const ARTIFACT_BYTES_HEADER: &str = "kron-artifact-bytes";
/// The header that says the SHA-256 of the whole artifact.
pub const ARTIFACT_HASH_HEADER: &str = "kron-artifact-sha256";

pub(crate) const STATUSES: [&str; 4] = ["RUNNING", "COMPLETED", "FAILED", "SKIPPED"];
pub(crate) const LIST: [&str; 4] = ["status", "job_type", "cursor", "limit"];

/// A run, with its progress while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunView {
    /// The run.
    #[serde(flatten)]
    pub run: JobRun,
    /// How far it says it is, while it runs and if it says so.
    pub progress: Option<Progress>,
}

/// How far a run says it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Progress {
    /// From 0 to 100.
    #[schema(minimum = 0, maximum = 100)]
    pub percent: f64,
    /// What it says about it.
    pub text: Option<String>,
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Problem {
        Problem::unavailable("file-unreadable", error.to_string())
    }
}

pub(crate) async fn list(State(api): State<Api>, uri: Uri) -> Answer {
    let query = Query::of(&uri, &LIST)?;
    let filter = RunFilter { state: query.word("status", &STATUSES)?, job_type: query.job_type()? };
    let (cursor, limit) = (query.cursor(), query.limit(PAGE_ROWS_MAX)?);
    let page = api.read(move |queue| queue.runs(&filter, cursor.as_ref(), limit)).await?;
    Ok(ok(PageView::from(page)))
}

fn known(queue: &Queue, run_id: RunId) -> Result<JobRun, Problem> {
    let run = queue.run(run_id).map_err(Problem::from)?;
    run.ok_or_else(|| RunError::NoRun(run_id).into())
}

pub(crate) async fn show(State(api): State<Api>, Id(run_id): Id<RunId>) -> Answer {
    let state_dir = api.surface.state_dir.clone();
    let view = api
        .read(move |queue| {
            let run = known(queue, run_id)?;
            let progress = match run.status {
                Some(_) => None,
                None => files::progress(&state_dir, &Place::log(&run))?,
            };
            Ok::<_, Problem>(RunView { run, progress })
        })
        .await?;
    Ok(ok(view))
}

pub(crate) async fn retry(State(api): State<Api>, Id(run_id): Id<RunId>) -> Answer {
    let run = api.read(move |queue| known(queue, run_id)).await?;
    let successor = api.write(Retry { job_id: run.job_id, now: api.now() }).await?;
    Ok(created("jobs", successor.job_id, successor))
}

/// A piece of a run's output. Whether the run is active is looked up before the file is read, so
/// whoever reads to the end of the file of a run that was not active has seen all of it.
pub(crate) async fn log(State(api): State<Api>, Id(run_id): Id<RunId>, uri: Uri) -> Answer {
    let offset = offset(&uri)?;
    let state_dir = api.surface.state_dir.clone();
    let (active, piece) = api
        .read(move |queue| {
            let run = known(queue, run_id)?;
            let piece = files::piece(&state_dir, &Place::log(&run), offset)?;
            let none =
                || Problem::not_found("no-log", format!("no output of run `{run_id}` is kept"));
            Ok::<_, Problem>((run.status.is_none(), piece.ok_or_else(none)?))
        })
        .await?;
    let headers = [
        (CONTENT_TYPE.as_str(), "text/plain; charset=utf-8".to_owned()),
        (X_CONTENT_TYPE_OPTIONS.as_str(), "nosniff".to_owned()),
        (LOG_ACTIVE_HEADER, active.to_string()),
        (LOG_BYTES_HEADER, piece.file_bytes.to_string()),
    ];
    Ok((headers, piece.bytes).into_response())
}

pub(crate) async fn artifact(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
) -> Answer {
    let Path((run_id, path)) = path.map_err(|rejection| bad_path(&rejection))?;
    let run_id: RunId = id(&run_id).ok_or_else(|| not_an_id(&run_id))?;
    let offset = offset(&uri)?;
    let state_dir = api.surface.state_dir.clone();
    let (hash, piece) = api
        .read(move |queue| {
            let run = known(queue, run_id)?;
            let none = || {
                let shown = excerpt(&path);
                Problem::not_found("no-artifact", format!("run `{run_id}` has no file `{shown}`"))
            };
            // Only what was recorded: whoever asks names a file of a list, never a path.
            let artifact = run.artifacts.iter().find(|artifact| artifact.path == path);
            let artifact = artifact.ok_or_else(none)?;
            let place = Place::artifact(run_id, &artifact.path);
            let piece = files::piece(&state_dir, &place, offset)?.ok_or_else(none)?;
            Ok::<_, Problem>((artifact.sha256.clone(), piece))
        })
        .await?;
    Ok(attachment(hash, piece))
}

fn attachment(hash: String, piece: Piece) -> Response {
    let headers = [
        (CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (X_CONTENT_TYPE_OPTIONS.as_str(), "nosniff".to_owned()),
        (CONTENT_DISPOSITION.as_str(), "attachment".to_owned()),
        (ARTIFACT_BYTES_HEADER, piece.file_bytes.to_string()),
        (ARTIFACT_HASH_HEADER, hash),
    ];
    (headers, piece.bytes).into_response()
}

fn offset(uri: &Uri) -> Result<u64, Problem> {
    let query = Query::of(uri, &["offset"])?;
    Ok(query.number("offset", 0, files::OFFSET_MAX)?.unwrap_or(0))
}
