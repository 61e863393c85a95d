//! `kron resume`: a suspended job is started again when it next falls due.

use std::io::Write;

use krond::api::view::DoneView;
use serde_json::json;

use crate::args::{JobCommandArgs, OutputFormat};
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::text::write_json;

pub(crate) fn run(args: &JobCommandArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let path = format!("scheduler/jobs/{}/resume", encode(&args.job));
    let done: DoneView = Client::of(&args.daemon).post(&path, &json!({}))?;
    match args.format {
        OutputFormat::Json => write_json(out, &done)?,
        OutputFormat::Text => writeln!(out, "{} is resumed", args.job)?,
    }
    Ok(Exit::Ok)
}
