//! `kron queue stats`: how much there is of what.

use std::collections::BTreeSet;
use std::io::Write;

use kron_core::UtcSecond;
use kron_queue_api::QueueView;

use crate::args::{OutputFormat, QueueStatsArgs};
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::{board, words};
use crate::text::{brief, duration, write_json, write_table};

pub(crate) fn run(args: &QueueStatsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let queue: QueueView = Client::of(&args.daemon).get("queue")?;
    match args.format {
        OutputFormat::Json => write_json(out, &queue)?,
        OutputFormat::Text => write_text(out, &queue, clock::now())?,
    }
    Ok(Exit::Ok)
}

fn write_text(out: &mut dyn Write, queue: &QueueView, now: UtcSecond) -> Result<(), Failure> {
    for line in board::queue_lines(queue, now) {
        writeln!(out, "{line}")?;
    }
    if let Some(oldest) = queue.counts.oldest_queued_at {
        writeln!(out, "the oldest waits for {}", brief(now.since(oldest.second()).max(0)))?;
    }
    if queue.counts.deliveries_pending > 0 {
        writeln!(out, "{} webhooks to be delivered", queue.counts.deliveries_pending)?;
    }
    let types: BTreeSet<&str> = queue
        .handlers
        .iter()
        .map(|handler| handler.job_type.as_str())
        .chain(queue.counts.types.iter().map(|of| of.job_type.as_str()))
        .collect();
    if types.is_empty() {
        writeln!(out, "nothing is handled: there is no table `[queue.handler.TYPE]`")?;
        return Ok(());
    }
    writeln!(out)?;
    let header = ["type", "queued", "running", "at once", "timeout", "retries", "handler"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for job_type in types {
        let of = queue.counts.types.iter().find(|of| of.job_type == job_type);
        let handler = words::handler(queue, job_type);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let timeout = handler.and_then(|handler| handler.timeout_ms);
        let timeout = timeout.map(|ms| duration(i64::try_from(ms / 1_000).unwrap_or(i64::MAX)));
        rows.push(vec![
            job_type.to_owned(),
            of.map_or(0, |of| of.queued).to_string(),
            of.map_or(0, |of| of.running).to_string(),
            or_dash(handler.and_then(|handler| handler.concurrency_max).map(|max| max.to_string())),
            or_dash(timeout),
            or_dash(handler.map(|handler| handler.retries_max.to_string())),
            handler.map_or_else(|| "none".to_owned(), |handler| handler.kind.clone()),
        ]);
    }
    write_table(out, "", &rows)?;
    Ok(())
}
