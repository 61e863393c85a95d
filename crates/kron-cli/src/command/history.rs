//! `kron history`: what became of a job's periods and runs.

use std::io::Write;

use krond::api::view::{HistoryView, OutcomeView};

use crate::args::{HistoryArgs, OutputFormat};
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::outcome;
use crate::text::{duration, local, write_json, write_table};

pub(crate) fn run(args: &HistoryArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let path = format!("scheduler/jobs/{}/history?count={}", encode(&args.job), args.count);
    let history: HistoryView = client.get(&path)?;
    match args.format {
        OutputFormat::Json => write_json(out, &history)?,
        OutputFormat::Text => write_text(out, &history)?,
    }
    Ok(Exit::Ok)
}

fn write_text(out: &mut dyn Write, history: &HistoryView) -> Result<(), Failure> {
    let zone = history.timezone.as_deref().unwrap_or("UTC");
    let shown = history.entries.len() as u64;
    match &history.timezone {
        Some(zone) => write!(out, "{}: times in {zone}", history.identity)?,
        None => write!(out, "{}: not defined any more, times in UTC", history.identity)?,
    }
    if shown == 0 && history.active.is_empty() {
        writeln!(out, "\nnothing is recorded")?;
        return Ok(());
    }
    if shown < history.kept_count {
        writeln!(out, "; {shown} of {} entries, the newest first", history.kept_count)?;
    } else {
        writeln!(out, ", the newest first")?;
    }
    writeln!(out)?;
    let header = ["period", "due", "outcome", "started", "took", "run"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    // What is on its way has no entry yet.
    for run in history.active.iter().rev() {
        if !history.entries.iter().any(|entry| entry.run_id.as_ref() == Some(&run.run_id)) {
            let started = run.started_at.map_or(String::new(), |at| local(at, zone));
            rows.push(vec![
                run.period_id.clone(),
                String::new(),
                run.stage.clone(),
                started,
                String::new(),
                run.run_id.clone(),
            ]);
        }
    }
    rows.extend(history.entries.iter().map(|entry| row(entry, zone)));
    write_table(out, "", &rows)?;
    Ok(())
}

fn row(entry: &OutcomeView, zone: &str) -> Vec<String> {
    let due = entry.chosen_time.filter(|_| entry.nominal_time.is_some());
    let due = due.map_or(String::new(), |at| local(at, zone));
    let late = entry.chosen_time.zip(entry.started_at).map(|(chosen, at)| at.since(chosen));
    // A run by hand has nothing to be late for.
    let started = match (entry.started_at, late.filter(|_| entry.nominal_time.is_some())) {
        (None, _) => String::new(),
        (Some(_), Some(0)) => "on time".to_owned(),
        (Some(_), Some(late)) => format!("{} late", duration(late)),
        (Some(at), None) => local(at, zone),
    };
    let took = entry
        .started_at
        .zip(entry.completed_at)
        .map_or(String::new(), |(started, ended)| duration(ended.since(started)));
    let outcome = match (entry.last_period_id, entry.count) {
        (Some(last), Some(number)) => {
            format!("{} (and all to {last}, {number} in all)", outcome::words(entry))
        }
        _ => outcome::words(entry),
    };
    let run = entry.run_id.clone().unwrap_or_default();
    vec![entry.period_id.clone(), due, outcome, started, took, run]
}
