//! `kron queue resume`: the end of a pause.

use std::io::Write;

use kron_queue_api::PausesView;
use serde_json::json;

use crate::args::{OutputFormat, QueueResumeArgs};
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::words;
use crate::text::write_json;

pub(crate) fn run(args: &QueueResumeArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let order = json!({"job_type": args.job_type});
    let view: PausesView = Client::of(&args.daemon).post("queue/resume", &order)?;
    match (args.format, &args.job_type) {
        (OutputFormat::Json, _) => write_json(out, &view)?,
        (OutputFormat::Text, Some(job_type)) => writeln!(out, "type {job_type} is resumed")?,
        (OutputFormat::Text, None) => writeln!(out, "the queue is resumed")?,
    }
    if args.format == OutputFormat::Text {
        for line in words::pauses(&view.pauses, clock::now()) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(Exit::Ok)
}
