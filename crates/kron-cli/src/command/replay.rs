//! `kron replay`: every decision of a log, computed again.

use std::io::Write;

use kron_core::{DecisionEvent, Difference, TimingParser, tzdb_version};
use serde::Serialize;
use serde_json::Value;

use crate::args::{OutputFormat, ReplayArgs};
use crate::failure::{Exit, Failure};
use crate::lines::{Line, Lines};
use crate::text::count;

#[derive(Serialize)]
struct Report<'a> {
    decisions: u64,
    identical: bool,
    unreadable: u64,
    first_unreadable: Option<Unreadable<'a>>,
    tzdb: &'static str,
    recorded_tzdb: Vec<String>,
    first_difference: Option<Found<'a>>,
}

#[derive(Serialize)]
struct Unreadable<'a> {
    line: usize,
    message: &'a str,
}

#[derive(Serialize)]
struct Found<'a> {
    line: usize,
    identity: &'a str,
    period_id: &'a str,
    fields: Vec<Field>,
}

#[derive(Serialize)]
struct Field {
    field: String,
    recorded: Option<Value>,
    computed: Value,
}

pub(crate) fn run(args: &ReplayArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut log = Lines::open(&args.log)?;
    let mut parser = TimingParser::new();
    let mut decisions = 0;
    let mut versions: Vec<String> = Vec::new();
    let mut first: Option<(usize, DecisionEvent, Vec<Difference>)> = None;
    let mut unreadable = 0;
    let mut first_unreadable: Option<(usize, String)> = None;
    let mut line = 0;
    while let Some(text) = log.next()? {
        line += 1;
        // A line this long is no decision; Kron writes none.
        let Line::Whole(text) = text else { continue };
        let read = DecisionEvent::parse(&String::from_utf8_lossy(text)).and_then(|event| {
            event.map(|event| Ok((event.replay(&mut parser)?, event))).transpose()
        });
        let (differences, event) = match read {
            Ok(Some(replayed)) => replayed,
            Ok(None) => continue,
            // A line that was cut off, by a crash or a full disk, says nothing about the others.
            Err(finding) => {
                unreadable += 1;
                first_unreadable.get_or_insert((line, finding.message));
                continue;
            }
        };
        decisions += 1;
        if let Some(version) = event.tzdb()
            && !versions.iter().any(|known| known == version)
        {
            versions.push(version.to_owned());
        }
        if !differences.is_empty() {
            first = Some((line, event, differences));
            break;
        }
    }
    let exit = if first.is_some() {
        Exit::No
    } else if unreadable > 0 {
        Exit::Refused
    } else if decisions == 0 {
        Exit::No
    } else {
        Exit::Ok
    };
    match args.format {
        OutputFormat::Json => {
            let report = Report {
                decisions,
                identical: first.is_none() && unreadable == 0,
                unreadable,
                first_unreadable: first_unreadable
                    .as_ref()
                    .map(|(line, message)| Unreadable { line: *line, message }),
                tzdb: tzdb_version(),
                recorded_tzdb: versions,
                first_difference: first.as_ref().map(|(line, event, differences)| Found {
                    line: *line,
                    identity: field(event, "identity"),
                    period_id: field(event, "period_id"),
                    fields: differences
                        .iter()
                        .map(|difference| Field {
                            field: difference.field.clone(),
                            recorded: difference.recorded.clone(),
                            computed: difference.computed.clone(),
                        })
                        .collect(),
                }),
            };
            serde_json::to_writer(&mut *out, &report)?;
            writeln!(out)?;
        }
        OutputFormat::Text => {
            write_text(out, decisions, &versions, first.as_ref())?;
            if let Some((line, message)) = first_unreadable {
                let lines = count(unreadable, "`decision` line");
                writeln!(out, "{lines} cannot be read, the first at line {line}: {message}")?;
            }
        }
    }
    Ok(exit)
}

fn field<'a>(event: &'a DecisionEvent, name: &str) -> &'a str {
    event.fields().get(name).and_then(Value::as_str).unwrap_or("")
}

fn write_text(
    out: &mut dyn Write,
    decisions: u64,
    versions: &[String],
    first: Option<&(usize, DecisionEvent, Vec<Difference>)>,
) -> Result<(), Failure> {
    match first {
        None if decisions == 0 => writeln!(out, "no `decision` events in this log")?,
        None => writeln!(out, "{}, all as recorded", count(decisions, "decision"))?,
        Some((line, event, differences)) => {
            writeln!(
                out,
                "line {line}: {} {} differs (decision {decisions} of the log)",
                field(event, "identity"),
                field(event, "period_id")
            )?;
            for difference in differences {
                let recorded =
                    difference.recorded.as_ref().map_or("missing".to_owned(), Value::to_string);
                writeln!(
                    out,
                    "  {}: recorded {recorded}, computed {}",
                    difference.field, difference.computed
                )?;
            }
        }
    }
    let others: Vec<&String> =
        versions.iter().filter(|version| *version != tzdb_version()).collect();
    if !others.is_empty() {
        let others: Vec<&str> = others.iter().map(|version| version.as_str()).collect();
        writeln!(
            out,
            "note: the log was written with tzdb {}, this is {}; zones may have changed between them",
            others.join(", "),
            tzdb_version()
        )?;
    }
    Ok(())
}
