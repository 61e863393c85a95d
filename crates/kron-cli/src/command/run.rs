//! `kron run`: a run by hand, now.

use std::io::Write;
use std::time::Duration;

use krond::api::view::{OutcomeView, RunOrder, RunStarted, RunStateView};
use serde::Serialize;

use crate::args::{OutputFormat, RunArgs};
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::outcome;
use crate::text::{duration, write_json};

/// The pause before a run that has not ended is asked for again.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// A run that was waited for.
#[derive(Serialize)]
struct Ended<'a> {
    run_id: &'a str,
    period_id: &'a str,
    outcome: Option<&'a OutcomeView>,
}

pub(crate) fn run(args: &RunArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let job = encode(&args.job);
    let order = RunOrder { force: args.force };
    let started: RunStarted = client.post(&format!("scheduler/jobs/{job}/run"), &order)?;
    if args.format == OutputFormat::Text {
        writeln!(out, "{}", started.run_id)?;
        out.flush()?;
    }
    if !args.wait {
        if args.format == OutputFormat::Json {
            write_json(out, &started)?;
        }
        return Ok(Exit::Ok);
    }
    let outcome = loop {
        let path = format!("scheduler/jobs/{job}/runs/{}", started.run_id);
        let state: RunStateView = client.get(&path)?;
        if !state.is_active {
            break state.outcome;
        }
        std::thread::sleep(WAIT_INTERVAL);
    };
    match args.format {
        OutputFormat::Json => write_json(
            out,
            &Ended {
                run_id: &started.run_id,
                period_id: &started.period_id,
                outcome: outcome.as_ref(),
            },
        )?,
        OutputFormat::Text => writeln!(out, "{}", words(outcome.as_ref()))?,
    }
    let is_success = outcome.is_some_and(|outcome| match outcome.ending.as_deref() {
        Some("exited") => outcome.exit_code == Some(0),
        ending => ending == Some("handed over"),
    });
    Ok(if is_success { Exit::Ok } else { Exit::No })
}

fn words(outcome: Option<&OutcomeView>) -> String {
    let Some(outcome) = outcome else { return "nothing is recorded about its end".to_owned() };
    let words = outcome::words(outcome);
    match outcome.started_at.zip(outcome.completed_at) {
        Some((started, ended)) => format!("{words} after {}", duration(ended.since(started))),
        None => words,
    }
}
