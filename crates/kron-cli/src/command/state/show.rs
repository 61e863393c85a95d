//! `kron state show`: a job's document as it is.

use std::io::Write;

use kron_core::finding::{excerpt, nearest};
use kron_state::{RealDirectory, Store};

use crate::args::{OutputFormat, StateShowArgs};
use crate::failure::{Exit, Failure};
use crate::text::write_json;

pub(super) fn run(args: &StateShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let store = super::view(&args.dir.state_dir)?;
    let document = store
        .read(&args.job)
        .map_err(Failure::State)?
        .ok_or_else(|| no_document(&store, &args.job))?;
    match args.format {
        OutputFormat::Json => write_json(out, &document)?,
        OutputFormat::Text => {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            writeln!(out)?;
        }
    }
    Ok(Exit::Ok)
}

/// Nothing is recorded about a job; perhaps another was meant.
pub(super) fn no_document(store: &Store<RealDirectory>, job: &str) -> Failure {
    let names: Vec<String> = store
        .document_names()
        .unwrap_or_default()
        .iter()
        .filter_map(|file| Some(store.read_file(file).ok()??.identity))
        .collect();
    let hint = match nearest(job, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "nothing is recorded about it; `kron state ls` lists what is".to_owned(),
    };
    Failure::NoSuchJob { wanted: Some(excerpt(job)), hint }
}
