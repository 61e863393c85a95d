//! `kron status`: the daemon and its jobs as they are now.

use std::io::Write;

use krond::api::view::{JobView, JobsView, OutcomeView, RunView, StatusView};
use serde::Serialize;

use crate::args::{OutputFormat, StatusArgs};
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::outcome;
use crate::text::{
    ago, command_line, count, duration, local, local_and_utc, until, write_json, write_table,
};

/// Everything, as one object.
#[derive(Serialize)]
struct Everything<'a> {
    daemon: &'a StatusView,
    jobs: &'a [JobView],
}

pub(crate) fn run(args: &StatusArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let daemon: StatusView = client.get("status")?;
    if let Some(name) = &args.job {
        let job: JobView = client.get(&format!("jobs/{}", encode(name)))?;
        match args.format {
            OutputFormat::Json => write_json(out, &job)?,
            OutputFormat::Text => write_job(out, &job, &daemon)?,
        }
        return Ok(Exit::Ok);
    }
    let JobsView { jobs } = client.get("jobs")?;
    match args.format {
        OutputFormat::Json => write_json(out, &Everything { daemon: &daemon, jobs: &jobs })?,
        OutputFormat::Text => {
            write_daemon(out, &daemon)?;
            if !jobs.is_empty() {
                writeln!(out)?;
                let header = ["job", "next", "in", "last", "active"].map(str::to_owned).to_vec();
                let mut rows = vec![header];
                rows.extend(jobs.iter().map(|job| row(job, &daemon)));
                write_table(out, "", &rows)?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn write_daemon(out: &mut dyn Write, daemon: &StatusView) -> Result<(), Failure> {
    writeln!(
        out,
        "krond {}, process {}, since {}: {}, {} suspended, {} active",
        daemon.version,
        daemon.pid,
        daemon.started_at,
        count(daemon.job_count, "job"),
        daemon.suspended_count,
        count(daemon.active_count, "run"),
    )?;
    if let Some(mode) = &daemon.stopping {
        writeln!(out, "stopping (`{mode}`): nothing more is started")?;
    }
    if let Some(since) = daemon.clock_held_since {
        writeln!(
            out,
            "the clock leapt ahead at {since} and is not believed: nothing is started before it \
             has held, or `kron clock accept`"
        )?;
    }
    Ok(())
}

/// A job's line of the table.
fn row(job: &JobView, daemon: &StatusView) -> Vec<String> {
    let zone = zone(job);
    let chosen = job.next.as_ref().map(|next| next.chosen_time.as_deref());
    let (next, ahead) = match (&job.suspended_by, &job.definition, chosen) {
        (_, None, _) => ("not defined any more".to_owned(), String::new()),
        (Some(by), _, _) => (format!("suspended by {by}"), String::new()),
        (None, _, None) => ("never".to_owned(), String::new()),
        (None, _, Some(None)) => ("unschedulable".to_owned(), String::new()),
        (None, _, Some(Some(chosen))) => match chosen.parse() {
            Ok(chosen) => (local(chosen, zone), until(chosen, daemon.time)),
            Err(_) => (chosen.to_owned(), String::new()),
        },
    };
    let last = job.last.as_ref().map_or("-".to_owned(), |last| last_words(last, daemon));
    let active = match (&job.failing, job.active.last()) {
        (_, Some(run)) => active_words(job.active.len(), run, daemon),
        (Some(failing), None) => {
            let times = count(u64::from(failing.attempts), "time");
            format!("not started, tried {times}: {}: {}", failing.operation, failing.message)
        }
        (None, None) => "-".to_owned(),
    };
    vec![job.identity.clone(), next, ahead, last, active]
}

fn last_words(last: &OutcomeView, daemon: &StatusView) -> String {
    let words = outcome::words(last);
    match last.completed_at {
        Some(at) => format!("{words}, {}", ago(at, daemon.time)),
        None => words,
    }
}

fn active_words(number: usize, newest: &RunView, daemon: &StatusView) -> String {
    let since = newest
        .started_at
        .map_or(String::new(), |at| format!(" for {}", duration(daemon.time.since(at))));
    let others = if number > 1 { format!(", {number} in all") } else { String::new() };
    format!("{}{since}{others}", newest.stage)
}

fn zone(job: &JobView) -> &str {
    job.definition.as_ref().map_or("UTC", |definition| &definition.timezone)
}

/// Everything about one job.
fn write_job(out: &mut dyn Write, job: &JobView, daemon: &StatusView) -> Result<(), Failure> {
    let zone = zone(job);
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut tell = |name: &str, value: String| rows.push([name.to_owned(), value]);
    match &job.definition {
        None => tell("definition", "not defined any more; it still runs".to_owned()),
        Some(definition) => {
            if let Some(description) = &definition.description {
                tell("for", description.clone());
            }
            tell("schedule", definition.expression.clone());
            tell("command", command_line(&definition.command));
            if let Some(user) = &definition.user {
                tell("user", user.clone());
            }
            tell(
                "policy",
                format!(
                    "concurrency={}, deadline={}",
                    definition.concurrency,
                    duration(definition.deadline_seconds.cast_signed())
                ),
            );
            tell("defined at", definition.defined_at.clone());
        }
    }
    if let Some(by) = &job.suspended_by {
        tell("suspended", format!("by {by}: nothing is started until `kron resume`"));
    }
    for (name, time) in [
        ("created", job.created_at),
        ("changed", job.effective_from),
        ("resumed", job.resumed_at),
        ("handled", job.last_handled_period_id),
    ] {
        if let Some(time) = time {
            tell(name, time.to_string());
        }
    }
    if let Some(next) = &job.next {
        match next.chosen_time.as_deref().and_then(|chosen| chosen.parse().ok()) {
            Some(chosen) => tell(
                "next",
                format!("{}, in {}", local_and_utc(chosen, zone), until(chosen, daemon.time)),
            ),
            None => tell("next", format!("{} is unschedulable", next.period_id)),
        }
        tell("", format!("period {}", next.period_id));
    } else if job.definition.is_some() {
        tell("next", "the schedule has no further period".to_owned());
    }
    match &job.last {
        None => tell("last", "nothing is recorded".to_owned()),
        Some(last) => {
            tell("last", last_words(last, daemon));
            tell("", format!("period {}", last.period_id));
            if let Some(times) = outcome::times(last) {
                tell("", times);
            }
        }
    }
    for run in &job.active {
        let started = run.started_at.map_or(String::new(), |at| format!(" since {at}"));
        let pid = run.pid.map_or(String::new(), |pid| format!(", process {pid}"));
        tell("active", format!("run {}, {}{started}{pid}", run.run_id, run.stage));
        tell("", format!("period {}", run.period_id));
    }
    if let Some(failing) = &job.failing {
        let times = count(u64::from(failing.attempts), "time");
        tell("failing", format!("tried {times}: {}: {}", failing.operation, failing.message));
    }
    writeln!(out, "{}", job.identity)?;
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    write_table(out, "  ", &rows)?;
    Ok(())
}
