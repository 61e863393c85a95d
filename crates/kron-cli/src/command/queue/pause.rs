//! `kron queue pause`: no more starts, of anything or of a type.

use std::io::Write;

use kron_queue_api::PausesView;
use serde_json::json;

use crate::args::{OutputFormat, QueuePauseArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::text::write_json;

pub(crate) fn run(args: &QueuePauseArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let order = json!({"job_type": args.job_type, "reason": args.reason});
    let view: PausesView = Client::of(&args.daemon).post("queue/pause", &order)?;
    match (args.format, &args.job_type) {
        (OutputFormat::Json, _) => write_json(out, &view)?,
        (OutputFormat::Text, Some(job_type)) => writeln!(out, "type {job_type} is paused")?,
        (OutputFormat::Text, None) => writeln!(out, "the queue is paused")?,
    }
    Ok(Exit::Ok)
}
