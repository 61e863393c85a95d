//! When jobs are expected, for those who watch from outside: metrics, and a feed for dead-man
//! switches that follows every job's chosen times exactly.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use kron_core::{Decision, UtcSecond};
use kron_state::{Ending, ExitStatus, PeriodRef};

use super::failure::Failure;
use super::handlers::ask;
use super::view::{ExpectedJobView, ExpectedView};
use crate::daemon::{Handle, clock};
use crate::machine::{Definition, JobView, RUNNING, Reply, Request};
use crate::metrics::{describe, label};

/// The least grace: a start takes a moment, and so does whoever watches.
const GRACE_LEAST_S: i64 = 60;

/// By when a job's next run must have begun, if all is well: that of the period that is due and
/// has not begun yet, so that whoever watches sees it become overdue, or else of the next.
fn expected(job: &JobView, now: UtcSecond) -> Option<ExpectedJobView> {
    let definition = job.definition.as_ref().filter(|_| job.suspension.is_none())?;
    let next = waiting(job, definition, now).or(job.next)?;
    let chosen = next.chosen?;
    let deadline = definition.job.timing.policy.deadline.get_signed();
    let grace = deadline.max(GRACE_LEAST_S);
    Some(ExpectedJobView {
        identity: job.identity.to_string(),
        period_id: next.nominal.to_string(),
        chosen_time: chosen,
        grace_seconds: grace as u64,
        expected_by: chosen.saturating_add(grace),
    })
}

/// The period that has fallen due and has neither begun nor got an outcome.
fn waiting(job: &JobView, definition: &Definition, now: UtcSecond) -> Option<Decision> {
    let decision = definition.job.timing.current_at(now)?;
    let chosen = decision.chosen?;
    let past = &job.past;
    let since = [past.created_at, past.effective_from, past.resumed_at].into_iter().flatten().max();
    let period = PeriodRef::Period(decision.nominal);
    let has_begun = job.active.iter().any(|run| run.period == period && run.stage == RUNNING);
    let is_open = past.last_handled.is_none_or(|handled| decision.nominal > handled)
        && since.is_none_or(|since| chosen > since);
    (is_open && !has_begun).then_some(decision)
}

async fn jobs(handle: &Handle) -> Result<Vec<JobView>, Failure> {
    let Reply::Jobs(mut jobs) = ask(handle, Request::Jobs).await? else {
        return Err(Failure::confused());
    };
    jobs.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
    Ok(jobs)
}

/// `GET /api/v1/expected`
pub(super) async fn feed(State(handle): State<Handle>) -> Result<Json<ExpectedView>, Failure> {
    let jobs = jobs(&handle).await?;
    let now = clock::now().wall;
    Ok(Json(ExpectedView { jobs: jobs.iter().filter_map(|job| expected(job, now)).collect() }))
}

/// `GET /metrics`
pub(super) async fn metrics(State(handle): State<Handle>) -> Result<Response, Failure> {
    let Reply::Status(status) = ask(&handle, Request::Status).await? else {
        return Err(Failure::confused());
    };
    let jobs = jobs(&handle).await?;
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_daemon(&mut out, &status);
    let _ = handle.metrics().write(&mut out);
    let _ = write_jobs(&mut out, &jobs, clock::now().wall);
    if let Some(queue) = handle.queue() {
        let (database, since) = (queue.queue.clone(), clock::milliseconds());
        let read = tokio::task::spawn_blocking(move || database.statistics(since)).await;
        if let Ok(Ok(statistics)) = read {
            let _ = queue.metrics.write(&mut out, &statistics);
        }
    }
    let _ = handle.spools().write_metrics(&mut out);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out).into_response())
}

fn write_daemon(out: &mut String, status: &crate::machine::StatusView) -> std::fmt::Result {
    describe(out, "kron_build_info", "The daemon's version.", "gauge")?;
    writeln!(out, "kron_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"))?;
    let seconds = |at: UtcSecond| at.unix();
    let rows = [
        ("kron_jobs", "Jobs that are scheduled.", status.job_count as i64),
        ("kron_jobs_suspended", "Jobs that are suspended.", status.suspended_count as i64),
        ("kron_active_runs", "Runs that have not ended.", status.active_count as i64),
        ("kron_start_time_seconds", "When the daemon started.", seconds(status.started_at)),
        ("kron_load_time_seconds", "When definitions were last loaded.", seconds(status.loaded_at)),
        (
            "kron_clock_held",
            "Whether the clock leapt and is not believed.",
            i64::from(status.clock_held_since.is_some()),
        ),
    ];
    for (name, help, value) in rows {
        describe(out, name, help, "gauge")?;
        writeln!(out, "{name} {value}")?;
    }
    Ok(())
}

fn write_jobs(out: &mut String, jobs: &[JobView], now: UtcSecond) -> std::fmt::Result {
    type Value = fn(&JobView, UtcSecond) -> Option<i64>;
    let rows: [(&str, &str, Value); 8] = [
        ("kron_job_next_run_timestamp_seconds", "The chosen time of the next period.", |job, _| {
            job.next.as_ref().filter(|_| job.suspension.is_none())?.chosen.map(UtcSecond::unix)
        }),
        (
            "kron_job_expected_by_timestamp_seconds",
            "When the next run must have begun, if all is well.",
            |job, now| expected(job, now).map(|expected| expected.expected_by.unix()),
        ),
        ("kron_job_last_start_timestamp_seconds", "When its latest run began.", |job, _| {
            job.last.as_ref()?.started_at.map(UtcSecond::unix)
        }),
        (
            "kron_job_last_completion_timestamp_seconds",
            "When its latest period or run reached its end.",
            |job, _| job.last.as_ref()?.completed_at.map(UtcSecond::unix),
        ),
        (
            "kron_job_last_succeeded",
            "Whether its latest period or run that reached its end succeeded.",
            |job, _| {
                let last = job.last.as_ref().filter(|last| last.completed_at.is_some())?;
                let is_kept = last.ending == Some(Ending::HandedOver);
                Some(i64::from(is_kept || last.status == Some(ExitStatus::ExitCode(0))))
            },
        ),
        ("kron_job_active_runs", "Runs of the job that have not ended.", |job, _| {
            Some(job.active.len() as i64)
        }),
        ("kron_job_suspended", "Whether the job is suspended.", |job, _| {
            Some(i64::from(job.suspension.is_some()))
        }),
        (
            "kron_job_failing_starts",
            "Attempts to start the current period that failed.",
            |job, _| Some(job.failing.as_ref().map_or(0, |(attempts, _)| i64::from(*attempts))),
        ),
    ];
    for (name, help, value) in rows {
        describe(out, name, help, "gauge")?;
        for job in jobs {
            if let Some(value) = value(job, now) {
                writeln!(out, "{name}{{identity=\"{}\"}} {value}", label(&job.identity))?;
            }
        }
    }
    Ok(())
}
