//! `kron reload`: the daemon reads its job files again.

use std::io::Write;

use krond::api::view::ReloadedView;
use serde_json::json;

use crate::args::{OutputFormat, ReloadArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::text::{count, write_json};

pub(crate) fn run(args: &ReloadArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let reloaded: ReloadedView = Client::of(&args.daemon).post("reload", &json!({}))?;
    match args.format {
        OutputFormat::Json => write_json(out, &reloaded)?,
        OutputFormat::Text => {
            if !reloaded.diagnostics.is_empty() {
                let _ = writeln!(std::io::stderr(), "{}\n", reloaded.diagnostics.trim_end());
            }
            writeln!(out, "reloaded: {}", count(reloaded.job_count, "job"))?;
        }
    }
    Ok(Exit::Ok)
}
