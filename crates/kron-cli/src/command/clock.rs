//! `kron clock accept`: the clock is right although it leapt.

use std::io::Write;

use krond::api::view::DoneView;
use serde_json::json;

use crate::args::{ClockArgs, ClockCommand, OutputFormat};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::text::write_json;

pub(crate) fn run(args: &ClockArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let ClockCommand::Accept(args) = &args.command;
    let done: DoneView = Client::of(&args.daemon).post("clock/accept", &json!({}))?;
    match args.format {
        OutputFormat::Json => write_json(out, &done)?,
        OutputFormat::Text => writeln!(out, "the clock is believed")?,
    }
    Ok(Exit::Ok)
}
