//! One handler per path: take the question apart, ask the loop or the store, translate.
//!
//! Questions about the past are answered for jobs that are no longer defined, too, as long as their
//! document is there: what ran yesterday is not forgotten because its file was edited today.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use kron_core::finding::excerpt;
use kron_state::{Document, RunId, StoreError};
use serde::Deserialize;

use super::failure::Failure;
use super::view::{
    DoneView, HistoryView, JobView, ReloadedView, RunOrder, RunStarted, RunStateView, StatusView,
    StopOrder, StopOrderMode, WhyView,
};
use super::why::{self, Asked};
use super::{LOG_ACTIVE_HEADER, LOG_BYTES_HEADER, body, describe, log_file};
use crate::daemon::{self, Handle};
use crate::machine::{self, ManualOverlap, Refusal, Reply, Request, StopMode};

/// How long the loop has to answer. A run by hand is answered when its command is executed, and a
/// start is given up after a minute.
const ANSWER_PATIENCE: Duration = Duration::from_secs(90);
/// Entries of a history that are shown when nobody says how many.
const HISTORY_COUNT_DEFAULT: usize = 20;
/// What stands for a run's id and means the latest.
const LATEST: &str = "latest";

type Identity = Result<Path<String>, PathRejection>;

pub(super) async fn status(State(handle): State<Handle>) -> Result<Json<StatusView>, Failure> {
    let Reply::Status(status) = ask(&handle, Request::Status).await? else {
        return Err(Failure::confused());
    };
    let process = describe::Process {
        pid: std::process::id(),
        state_dir: handle.state_dir().display().to_string(),
        now: daemon::clock::now().wall,
    };
    Ok(Json(describe::status(&status, process)))
}

pub(super) async fn jobs(State(handle): State<Handle>) -> Result<Response, Failure> {
    let Reply::Jobs(mut jobs) = ask(&handle, Request::Jobs).await? else {
        return Err(Failure::confused());
    };
    jobs.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
    Ok(body::list("jobs", jobs.into_iter().map(|job| describe::job(&job))))
}

pub(super) async fn job(
    State(handle): State<Handle>,
    identity: Identity,
) -> Result<Json<JobView>, Failure> {
    let job = defined(&handle, segment(identity)?).await??;
    Ok(Json(describe::job(&job)))
}

/// What a question about the history may say.
#[derive(Debug, Deserialize)]
pub(super) struct HistoryQuery {
    count: Option<usize>,
}

pub(super) async fn history(
    State(handle): State<Handle>,
    identity: Identity,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<HistoryView>, Failure> {
    let identity = segment(identity)?;
    let Query(query) = query.map_err(|rejection| Failure::bad_request(rejection.body_text()))?;
    let (job, document) = recorded(&handle, &identity).await?;
    let count = query.count.unwrap_or(HISTORY_COUNT_DEFAULT);
    let zone = job.as_ref().and_then(|job| job.definition.as_ref());
    Ok(Json(HistoryView {
        timezone: zone.map(|it| it.job.timing.placement().zone().name().to_owned()),
        kept_count: document.history.len() as u64,
        entries: document.history.iter().rev().take(count).map(describe::entry).collect(),
        active: document.active().map(describe::recorded_run).collect(),
        identity,
    }))
}

/// What a question why may say.
#[derive(Debug, Deserialize)]
pub(super) struct WhyQuery {
    at: Option<String>,
}

pub(super) async fn why(
    State(handle): State<Handle>,
    identity: Identity,
    query: Result<Query<WhyQuery>, QueryRejection>,
) -> Result<Json<WhyView>, Failure> {
    let identity = segment(identity)?;
    let Query(query) = query.map_err(|rejection| Failure::bad_request(rejection.body_text()))?;
    let asked = match query.at.as_deref() {
        None => Asked::Now,
        Some(text) => Asked::parse(text).map_err(Failure::bad_request)?,
    };
    let (job, document) = recorded(&handle, &identity).await?;
    let Reply::Status(status) = ask(&handle, Request::Status).await? else {
        return Err(Failure::confused());
    };
    let now = daemon::clock::now().wall;
    blocking(&handle, move |handle| {
        let life = handle.store().epochs().map_err(|error| unreadable(&error))?;
        Ok(Json(why::explain(
            &why::Facts {
                identity: &identity,
                job: job.as_ref(),
                document: &document,
                epochs: &life.epochs,
                clock_held_since: status.clock_held_since,
                history_max: handle.settings().history_entries_max,
                now,
            },
            &asked,
        )))
    })
    .await
}

pub(super) async fn run_state(
    State(handle): State<Handle>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<RunStateView>, Failure> {
    let Path((identity, run)) =
        path.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let (job, document) = recorded(&handle, &identity).await?;
    let run = run_id(&handle, &run, job.as_ref(), &document)?;
    let is_active = is_active(&run, job.as_ref(), &document);
    let recorded = document.history.iter().rfind(|entry| entry.run.as_ref() == Some(&run));
    // A short history may have dropped it. Only what has left the document is looked for
    // elsewhere: what is on its way there is not over.
    let ended = || handle.ended_run(&identity, &run).filter(|_| !is_active);
    Ok(Json(RunStateView {
        run_id: run.to_string(),
        is_active,
        outcome: recorded.cloned().or_else(ended).as_ref().map(describe::entry),
    }))
}

/// Where a piece of a log starts.
#[derive(Debug, Deserialize)]
pub(super) struct LogQuery {
    #[serde(default)]
    offset: u64,
}

/// A piece of a run's output, with whether the run is active in a header. That is looked up before
/// the file is read, so whoever reads to the end of the file of a run that was not active has seen
/// all of it.
pub(super) async fn log(
    State(handle): State<Handle>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<LogQuery>, QueryRejection>,
) -> Result<Response, Failure> {
    let Path((identity, run)) =
        path.map_err(|refused| Failure::bad_request(refused.body_text()))?;
    let Query(query) = query.map_err(|rejection| Failure::bad_request(rejection.body_text()))?;
    let (job, document) = recorded(&handle, &identity).await?;
    let run = run_id(&handle, &run, job.as_ref(), &document)?;
    let active = is_active(&run, job.as_ref(), &document);
    let piece = blocking(&handle, move |handle| {
        log_file::read(&handle.log_path(&identity, &run), query.offset)
            .map_err(|error| {
                let message = format!("the output of run `{run}` cannot be read: {error}");
                Failure::unreadable(kron_core::Category::System, message, None)
            })?
            .ok_or_else(|| no_output(&run, job.as_ref(), handle))
    })
    .await?;
    let headers = [
        (CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (LOG_ACTIVE_HEADER, active.to_string()),
        (LOG_BYTES_HEADER, piece.file_bytes.to_string()),
    ];
    Ok((headers, piece.bytes).into_response())
}

fn no_output(run: &RunId, job: Option<&machine::JobView>, handle: &Handle) -> Failure {
    let output = job
        .and_then(|job| job.definition.as_ref())
        .map(|definition| handle.settings().for_job(&definition.job.execution).output);
    let hint = match output {
        Some(kron_config::Output::Log) | None => {
            "logs are removed when they are old or too many: `log_age`, `log_runs`".to_owned()
        }
        Some(output) => format!("the job's `output` is `{}`", output.as_str()),
    };
    Failure::no_such_run(format!("no output of run `{run}` is kept"), hint)
}

pub(super) async fn run(
    State(handle): State<Handle>,
    identity: Identity,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<RunStarted>, Failure> {
    let identity = segment(identity)?;
    let order: RunOrder = order(body)?;
    let overlap = if order.force { ManualOverlap::Force } else { ManualOverlap::Respect };
    match ask(&handle, Request::Run { identity, overlap }).await? {
        Reply::Started { run, period } => Ok(Json(describe::started(&run, &period))),
        _ => Err(Failure::confused()),
    }
}

pub(super) async fn suspend(
    State(handle): State<Handle>,
    identity: Identity,
) -> Result<Json<DoneView>, Failure> {
    done(&handle, Request::Suspend(segment(identity)?), "suspended").await
}

pub(super) async fn resume(
    State(handle): State<Handle>,
    identity: Identity,
) -> Result<Json<DoneView>, Failure> {
    done(&handle, Request::Resume(segment(identity)?), "resumed").await
}

pub(super) async fn reload(State(handle): State<Handle>) -> Result<Json<ReloadedView>, Failure> {
    let reloaded = handle.reload().await?;
    Ok(Json(ReloadedView {
        job_count: reloaded.job_count as u64,
        diagnostics: reloaded.diagnostics,
    }))
}

pub(super) async fn stop(
    State(handle): State<Handle>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<DoneView>, Failure> {
    let order: StopOrder = order(body)?;
    let mode = match order.mode {
        StopOrderMode::Wait => StopMode::Wait,
        StopOrderMode::Leave => StopMode::Leave,
        StopOrderMode::Kill => StopMode::Kill,
    };
    done(&handle, Request::Stop(mode), "stopping").await
}

pub(super) async fn accept_clock(State(handle): State<Handle>) -> Result<Json<DoneView>, Failure> {
    done(&handle, Request::AcceptClock, "accepted").await
}

async fn done(handle: &Handle, request: Request, word: &str) -> Result<Json<DoneView>, Failure> {
    match ask(handle, request).await? {
        Reply::Done => Ok(Json(DoneView { done: word.to_owned() })),
        _ => Err(Failure::confused()),
    }
}

/// Asks the loop; a refusal is a failure.
pub(super) async fn ask(handle: &Handle, request: Request) -> Result<Reply, Failure> {
    match tokio::time::timeout(ANSWER_PATIENCE, handle.ask(request)).await {
        Err(_) => Err(Failure::timed_out()),
        Ok(Err(gone)) => Err(gone.into()),
        Ok(Ok(Reply::Refused(refusal))) => Err(refusal.into()),
        Ok(Ok(reply)) => Ok(reply),
    }
}

/// The job as the machine sees it; the inner error says that it knows none.
async fn defined(
    handle: &Handle,
    identity: String,
) -> Result<Result<machine::JobView, Failure>, Failure> {
    let asked = tokio::time::timeout(ANSWER_PATIENCE, handle.ask(Request::Job(identity))).await;
    match asked.map_err(|_| Failure::timed_out())?? {
        Reply::Jobs(mut jobs) => Ok(jobs.pop().ok_or_else(Failure::confused)),
        Reply::Refused(refusal @ Refusal::NoSuchJob { .. }) => Ok(Err(refusal.into())),
        Reply::Refused(refusal) => Err(refusal.into()),
        _ => Err(Failure::confused()),
    }
}

/// A job and what is recorded about it. One of the two is enough.
///
/// The machine is asked first: what it has told to be written may not be readable yet, and what it
/// no longer holds is.
async fn recorded(
    handle: &Handle,
    identity: &str,
) -> Result<(Option<machine::JobView>, Document), Failure> {
    let job = defined(handle, identity.to_owned()).await?;
    let name = identity.to_owned();
    let document = blocking(handle, move |handle| {
        handle.store().read(&name).map_err(|error| unreadable(&error))
    })
    .await?;
    match (job, document) {
        (Err(no_such_job), None) => Err(no_such_job),
        (job, document) => Ok((job.ok(), document.unwrap_or_else(|| Document::new(identity)))),
    }
}

fn unreadable(error: &StoreError) -> Failure {
    let source = std::error::Error::source(error).map_or(String::new(), |it| format!(": {it}"));
    Failure::unreadable(error.category(), format!("{error}{source}"), error.hint())
}

/// Runs what may wait for a disk off the runtime's thread.
async fn blocking<T: Send + 'static>(
    handle: &Handle,
    work: impl FnOnce(&Handle) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let handle = handle.clone();
    let finished = tokio::task::spawn_blocking(move || work(&handle)).await;
    finished.unwrap_or_else(|_| Err(Failure::confused()))
}

/// The run that a path names. `latest` is the newest that was started.
fn run_id(
    handle: &Handle,
    text: &str,
    job: Option<&machine::JobView>,
    document: &Document,
) -> Result<RunId, Failure> {
    if text == LATEST {
        // A run has its entry from when it was executed; one that is on its way is newer than all.
        // Only the machine knows those: in the document one may stand that never came to be.
        let has_entry =
            |run: &RunId| document.history.iter().any(|entry| entry.run.as_ref() == Some(run));
        let starting = job
            .and_then(|job| job.active.iter().rfind(|run| !has_entry(&run.run)))
            .map(|active| &active.run);
        let recorded = || document.history.iter().rev().find_map(|entry| entry.run.as_ref());
        let latest = starting.or_else(recorded).cloned();
        return latest.ok_or_else(|| {
            let message = format!("job `{}` has never run", excerpt(&document.identity));
            Failure::no_such_run(message, "`kron why` tells what became of its periods")
        });
    }
    let run = RunId::try_from(text.to_owned()).map_err(Failure::bad_request)?;
    let known = document.history.iter().any(|entry| entry.run.as_ref() == Some(&run))
        || is_active(&run, job, document)
        || handle.ended_run(&document.identity, &run).is_some();
    if !known {
        let message = format!("job `{}` has no run `{run}`", excerpt(&document.identity));
        return Err(Failure::no_such_run(message, "`kron history` lists its runs"));
    }
    Ok(run)
}

/// Whether a run has not ended, or its end is not recorded yet.
fn is_active(run: &RunId, job: Option<&machine::JobView>, document: &Document) -> bool {
    job.is_some_and(|job| job.active.iter().any(|active| active.run == *run))
        || document.active().any(|active| active.run == *run)
}

fn segment(identity: Identity) -> Result<String, Failure> {
    let Path(identity) =
        identity.map_err(|rejection| Failure::bad_request(rejection.body_text()))?;
    Ok(identity)
}

/// The body of a request; an empty one stands for every default.
pub(super) fn order<T: for<'de> Deserialize<'de>>(
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Failure> {
    let body = body.map_err(|rejection| Failure::bad_request(rejection.body_text()))?;
    let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
    serde_json::from_slice(text)
        .map_err(|error| Failure::bad_request(format!("the body is not usable: {error}")))
}
