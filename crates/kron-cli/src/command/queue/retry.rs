//! `kron queue retry`: a job once more.

use std::io::Write;

use kron_queue::Job;
use serde_json::json;

use crate::args::{OutputFormat, QueueJobArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::queue::lookup;
use crate::text::write_json;

pub(crate) fn run(args: &QueueJobArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let id = lookup::job(&client, &args.job)?;
    let successor: Job = client.post(&format!("jobs/{id}/retry"), &json!({}))?;
    match args.format {
        OutputFormat::Json => write_json(out, &successor)?,
        OutputFormat::Text => writeln!(out, "{}", successor.job_id)?,
    }
    Ok(Exit::Ok)
}
