//! `kron lint`: everything that is wrong or doubtful with job files, at once.

use std::io::Write;

use kron_config::{Diagnostic, lint};
use kron_core::Severity;
use serde::Serialize;

use crate::args::{LintArgs, OutputFormat};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::text::count;

/// Doubts about valid jobs that are told.
const DOUBTS_MAX: usize = 1_000;

#[derive(Serialize)]
struct Row<'a> {
    severity: &'static str,
    category: &'static str,
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    help: Option<&'a str>,
}

pub(crate) fn run(args: &LintArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let loaded = jobs::load(&args.files, &args.read)?;
    let mut diagnostics = loaded.diagnostics;
    let mut doubts = loaded.jobs.iter().flat_map(lint);
    diagnostics.extend(doubts.by_ref().take(DOUBTS_MAX));
    let cut_short = loaded.cut_short || doubts.next().is_some();
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    let warnings = diagnostics.len() - errors;
    match args.format {
        OutputFormat::Json => {
            for diagnostic in &diagnostics {
                serde_json::to_writer(&mut *out, &row(diagnostic))?;
                writeln!(out)?;
            }
        }
        OutputFormat::Text => {
            for diagnostic in &diagnostics {
                writeln!(out, "{diagnostic}\n")?;
            }
            if cut_short {
                writeln!(out, "{}\n", jobs::CUT_SHORT)?;
            }
            writeln!(
                out,
                "{}, {}, {}",
                count(loaded.jobs.len() as u64, "job"),
                count(errors as u64, "error"),
                count(warnings as u64, "warning")
            )?;
        }
    }
    let refused = errors > 0 || loaded.cut_short || (args.strict && warnings > 0);
    Ok(if refused { Exit::Refused } else { Exit::Ok })
}

fn row(diagnostic: &Diagnostic) -> Row<'_> {
    let location = diagnostic.location.as_ref();
    Row {
        severity: match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        category: diagnostic.category.as_str(),
        file: location.map(|location| &*location.file),
        line: location.map(|location| location.line),
        column: location.map(|location| location.column),
        message: &diagnostic.message,
        help: diagnostic.help.as_deref(),
    }
}
