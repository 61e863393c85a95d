//! `kron state ls`: a line about every job's document.

use std::io::Write;

use kron_core::{Outcome, UtcSecond};
use kron_state::Document;
use serde::Serialize;

use crate::args::{OutputFormat, StateLsArgs};
use crate::failure::{Exit, Failure, told};
use crate::text::{write_json, write_table};

/// A line for programs.
#[derive(Serialize)]
struct Row<'a> {
    identity: &'a str,
    file: &'a str,
    last_handled_period_id: Option<UtcSecond>,
    last_outcome: Option<&'static str>,
    active_count: usize,
    history_count: usize,
}

pub(super) fn run(args: &StateLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let store = super::view(&args.dir.state_dir)?;
    let header = ["job", "handled", "outcome", "active", "history"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mut faults = 0;
    for file in store.document_names().map_err(Failure::State)? {
        let document = match store.read_file(&file) {
            Ok(Some(document)) => document,
            Ok(None) => continue,
            Err(error) => {
                faults += 1;
                let _ = writeln!(std::io::stderr(), "error: {}", told(&error));
                continue;
            }
        };
        match args.format {
            OutputFormat::Json => write_json(
                out,
                &Row {
                    identity: &document.identity,
                    file: &file,
                    last_handled_period_id: document.last_handled,
                    last_outcome: document.last_outcome.map(Outcome::as_str),
                    active_count: document.active().count(),
                    history_count: document.history.len(),
                },
            )?,
            OutputFormat::Text => rows.push(row(&document)),
        }
    }
    if args.format == OutputFormat::Text {
        if rows.len() == 1 {
            writeln!(out, "nothing is recorded")?;
        } else {
            rows[1..].sort_unstable();
            write_table(out, "", &rows)?;
        }
    }
    Ok(if faults > 0 { Exit::Unusable } else { Exit::Ok })
}

fn row(document: &Document) -> Vec<String> {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    vec![
        document.identity.clone(),
        or_dash(document.last_handled.map(|handled| handled.to_string())),
        or_dash(document.last_outcome.map(|outcome| outcome.to_string())),
        document.active().count().to_string(),
        document.history.len().to_string(),
    ]
}
