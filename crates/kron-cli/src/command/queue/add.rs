//! `kron queue add`: jobs into the queue, one or many.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use kron_queue::{Job, JobState};
use kron_queue_api::{BatchView, QueueView};

use crate::args::{OutputFormat, QueueAddArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::queue::body::{self, Body};
use crate::queue::input::Batches;
use crate::queue::waiting::{self, Listener};
use crate::queue::{ids, lookup, words};
use crate::text::write_json;

pub(crate) fn run(args: &QueueAddArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    if args.stdin_jobs {
        return many(&client, args.format, out);
    }
    let template = match &args.template {
        Some(template) => Some(lookup::template(&client, template)?.template_id),
        None => None,
    };
    let params = body::params(&args.params)?;
    let body = Body::new()
        .field("job_type", args.job_type.as_ref())?
        .field("template_id", template)?
        .raw("params", params.as_deref())
        .field("priority", args.priority)?
        .field("not_before", body::not_before(&args.start)?)?
        .field("idempotency_key", args.key.as_ref())?
        .finish();
    // Before the job is there, so that nothing of it is missed.
    let listener = args.wait.then(|| Listener::new(&client));
    let (job, is_new): (Job, bool) = client.make("jobs", body)?;
    if args.format == OutputFormat::Text {
        writeln!(out, "{}", job.job_id)?;
    }
    if !is_new {
        note(&format!("it was there already, under its key, and is {}", job.state));
    }
    unhandled(&client, &[&job]);
    out.flush()?;
    let Some(mut listener) = listener else {
        if args.format == OutputFormat::Json {
            write_json(out, &job)?;
        }
        return Ok(Exit::Ok);
    };
    let last = waiting::for_end(&client, &mut listener, job.job_id, |job, successor| {
        let until =
            successor.not_before.map_or_else(String::new, |at| format!(" at {}", at.second()));
        let (id, successor) = (ids::short(&job.job_id), successor.job_id);
        note(&format!("{id} failed and is repeated{until} by {successor}"));
    })?;
    match args.format {
        OutputFormat::Json => write_json(out, &last)?,
        OutputFormat::Text => {
            let run = lookup::run_of(&client, last.job_id)?;
            let words = run.map_or_else(
                || last.state.to_string(),
                |run| match last.state {
                    JobState::Cancelled => last.state.to_string(),
                    _ => words::run(&run, crate::clock::now()),
                },
            );
            writeln!(out, "{words}")?;
        }
    }
    Ok(if last.state == JobState::Completed { Exit::Ok } else { Exit::No })
}

/// Jobs from standard input. Each batch is there or not as a whole; its ids are written at once, so
/// that whoever reads them knows how far it came.
fn many(client: &Client, format: OutputFormat, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut batches = Batches::open(Path::new("-"))?;
    let mut told: BTreeSet<String> = BTreeSet::new();
    while let Some(batch) = batches.next()? {
        let body = Body::new().raw("jobs", Some(&batch.json())).finish();
        let (view, _): (BatchView, bool) =
            client.make("jobs/batch", body).map_err(|error| batch.blame(error))?;
        for enqueued in &view.jobs {
            match format {
                OutputFormat::Json => write_json(out, enqueued)?,
                OutputFormat::Text => writeln!(out, "{}", enqueued.job.job_id)?,
            }
        }
        out.flush()?;
        let news: Vec<&Job> = view.jobs.iter().map(|enqueued| &enqueued.job).collect();
        let news: Vec<&Job> =
            news.into_iter().filter(|job| told.insert(job.job_type.clone())).collect();
        unhandled(client, &news);
    }
    Ok(Exit::Ok)
}

/// Says of which types nothing handles jobs; the jobs are there all the same.
fn unhandled(client: &Client, jobs: &[&Job]) {
    if jobs.is_empty() {
        return;
    }
    // The job is there; that its handler is not known is no reason to fail.
    let Ok(queue) = client.get::<QueueView>("queue") else { return };
    for job in jobs {
        if words::handler(&queue, &job.job_type).is_none() && !words::has_ended(job.state) {
            note(&format!(
                "it waits because nothing handles type `{0}`; a table `[queue.handler.{0}]` in the \
                 configuration does, after `kron reload`",
                job.job_type
            ));
        }
    }
}

fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {text}");
}
