//! `kron why`: what was decided about a period, what became of it, and why.

use std::io::Write;

use krond::api::view::WhyView;

use crate::args::{OutputFormat, WhyArgs};
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::text::{write_json, write_paragraph, write_table};

/// What the names of runs by hand begin with.
const MANUAL: &str = "manual/";

pub(crate) fn run(args: &WhyArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut path = format!("scheduler/jobs/{}/why", encode(&args.job));
    if let Some(text) = &args.at {
        let at = if text.starts_with(MANUAL) {
            text.clone()
        } else {
            jobs::time("--at", Some(text))?.to_string()
        };
        path = format!("{path}?at={}", encode(&at));
    }
    let why: WhyView = Client::of(&args.daemon).get(&path)?;
    match args.format {
        OutputFormat::Json => write_json(out, &why)?,
        OutputFormat::Text => write_text(out, &why)?,
    }
    Ok(Exit::Ok)
}

pub(crate) fn write_text(out: &mut dyn Write, why: &WhyView) -> Result<(), Failure> {
    match why.at {
        Some(at) => writeln!(out, "{} at {at}", why.identity)?,
        None => writeln!(out, "{}", why.identity)?,
    }
    let mut rows: Vec<[String; 2]> = Vec::new();
    if let Some(period) = &why.period_id {
        rows.push(["period".to_owned(), period.clone()]);
    }
    let answer = match &why.reason {
        Some(reason) => format!("{}: {reason}", why.answer),
        None => why.answer.clone(),
    };
    rows.push(["answer".to_owned(), answer]);
    if let Some(decision) = &why.decision {
        let both = |local: &Option<String>, utc: &str| match local {
            Some(local) if decision.timezone != "UTC" => format!("{local}   {utc}"),
            _ => utc.to_owned(),
        };
        rows.push(["nominal".to_owned(), both(&why.nominal_local, &decision.nominal_time)]);
        rows.push([
            "window".to_owned(),
            format!("{} to {}", decision.window_start, decision.window_end),
        ]);
        let chosen = match &decision.chosen_time {
            Some(chosen) => both(&why.chosen_local, chosen),
            None => "unschedulable".to_owned(),
        };
        rows.push(["chosen".to_owned(), chosen]);
        rows.push(["zone".to_owned(), format!("{}, tzdb {}", decision.timezone, decision.tzdb)]);
        rows.push(["seed hash".to_owned(), decision.seed_hash.clone()]);
    }
    writeln!(out)?;
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    write_table(out, "  ", &rows)?;
    writeln!(out)?;
    for sentence in &why.sentences {
        write_paragraph(out, sentence)?;
    }
    Ok(())
}
