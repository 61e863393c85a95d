//! `kron queue show`: everything about a job.

use std::io::Write;

use kron_core::UtcSecond;
use kron_queue::{Job, JobId, JobState};
use kron_queue_api::{QueueView, RunView};
use serde::Serialize;

use crate::args::{OutputFormat, QueueShowArgs};
use crate::client::{Client, ClientError};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::lookup;
use crate::queue::pages::Pages;
use crate::queue::words::{self, moment, one_line};
use crate::text::{write_json, write_table};

/// Jobs of a chain that are shown.
const CHAIN_MAX: usize = 100;
/// Jobs at the head of the queue among which a job's turn is looked for.
const AHEAD_MAX: usize = 999;

/// Everything, as one object.
#[derive(Serialize)]
struct Everything<'a> {
    job: &'a Job,
    run: Option<&'a RunView>,
    chain: &'a [Job],
    /// What comes next, in words.
    next: Option<String>,
}

pub(crate) fn run(args: &QueueShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let id = lookup::job(&client, &args.job)?;
    let job: Job = client.get(&format!("jobs/{id}"))?;
    let run: Option<RunView> = match lookup::run_of(&client, id)? {
        Some(run) => Some(client.get(&format!("job-runs/{}", run.run_id))?),
        None => None,
    };
    let chain: Vec<Job> = Pages::new(&client, format!("jobs/{id}/chain")).rows(CHAIN_MAX)?;
    let queue: QueueView = client.get("queue")?;
    let before = match job.state {
        JobState::Queued => ahead(&client, id)?,
        _ => None,
    };
    let successor = chain.iter().find(|next| next.retry_of == Some(id));
    let next = words::next(&job, successor, &queue, before, clock::now());
    match args.format {
        OutputFormat::Json => {
            write_json(out, &Everything { job: &job, run: run.as_ref(), chain: &chain, next })?;
        }
        OutputFormat::Text => write_text(out, &job, run.as_ref(), &chain, next)?,
    }
    Ok(Exit::Ok)
}

/// How many jobs are before this one, if it is near enough to the head of the queue.
fn ahead(client: &Client, id: JobId) -> Result<Option<usize>, ClientError> {
    let order = Pages::new(client, "jobs").filter("order", Some("queue".to_owned()));
    let jobs: Vec<Job> = { order }.rows(AHEAD_MAX)?;
    let at = jobs.iter().position(|job| job.job_id == id);
    // Those whose time has not come are passed over.
    Ok(at.map(|at| jobs[..at].iter().filter(|job| job.state == JobState::Queued).count()))
}

fn write_text(
    out: &mut dyn Write,
    job: &Job,
    run: Option<&RunView>,
    chain: &[Job],
    next: Option<String>,
) -> Result<(), Failure> {
    let now = clock::now();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut tell = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    tell("type", job.job_type.clone());
    tell("state", job.state.to_string());
    if job.priority != 0 {
        tell("priority", job.priority.to_string());
    }
    let params = words::params(&job.params);
    if !params.is_empty() {
        tell("params", one_line(&params));
    }
    for (name, id) in [
        ("template", job.template_id.map(|id| id.to_string())),
        ("schedule", job.schedule_id.map(|id| id.to_string())),
        ("period", job.period_id.clone()),
        ("group", job.group_id.map(|id| id.to_string())),
        ("key", job.idempotency_key.as_deref().map(one_line)),
    ] {
        if let Some(id) = id {
            tell(name, id);
        }
    }
    for (name, at) in [
        ("created", Some(job.created_at)),
        ("not before", job.not_before),
        ("started", job.started_at),
        ("ended", job.finished_at),
    ] {
        if let Some(at) = at {
            tell(name, moment(at, now));
        }
    }
    if let Some(run) = run {
        tell_run(&mut tell, run, now);
    }
    if chain.len() > 1 {
        for (index, other) in chain.iter().enumerate() {
            let name = if index == 0 { "chain" } else { "" };
            let this = if other.job_id == job.job_id { ", this one" } else { "" };
            tell(name, format!("{} {}{this}", other.job_id, other.state));
        }
    }
    if let Some(next) = next {
        tell("next", next);
    }
    writeln!(out, "{}", job.job_id)?;
    write_table(out, "  ", &rows)?;
    Ok(())
}

fn tell_run(tell: &mut impl FnMut(&str, String), view: &RunView, now: UtcSecond) {
    let run = &view.run;
    tell("run", format!("{}, {}", run.run_id, words::run(run, now)));
    if let Some(progress) = &view.progress {
        tell("progress", words::progress(progress));
    }
    if let Some(error) = words::error(run) {
        for (index, line) in error.lines().enumerate() {
            tell(if index == 0 { "error" } else { "" }, one_line(line));
        }
    }
    if run.lost {
        tell("", "its end was not reported: it was found after a crash".to_owned());
    }
    tell("worker", one_line(&run.worker_id));
    if let Some(process) = run.process.as_ref().filter(|_| run.status.is_none()) {
        tell("process", process.pid.to_string());
    }
    for (index, artifact) in run.artifacts.iter().enumerate() {
        let name = if index == 0 { "artifacts" } else { "" };
        let path = one_line(&artifact.path);
        tell(name, format!("{path}, {} bytes", artifact.size_bytes));
    }
}
