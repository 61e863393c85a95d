//! `kron status`: the daemon and its jobs as they are now.

use std::io::Write;

use krond::api::view::{JobView, JobsView, OutcomeView, StatusView};
use serde::Serialize;

use crate::args::{OutputFormat, StatusArgs};
use crate::board;
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::outcome;
use crate::schedule_words;
use crate::screen;
use crate::text::{
    ago, command_line, count, duration, local_and_utc, until, write_json, write_table,
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
        let job: JobView = client.get(&format!("scheduler/jobs/{}", encode(name)))?;
        match args.format {
            OutputFormat::Json => write_json(out, &job)?,
            OutputFormat::Text => write_job(out, &job, &daemon)?,
        }
        return Ok(Exit::Ok);
    }
    let JobsView { jobs } = client.get("scheduler/jobs")?;
    match args.format {
        OutputFormat::Json => write_json(out, &Everything { daemon: &daemon, jobs: &jobs })?,
        OutputFormat::Text => {
            let style = screen::style_of_output(args.ascii);
            for line in board::daemon_lines(&daemon) {
                writeln!(out, "{line}")?;
            }
            if !jobs.is_empty() {
                writeln!(out)?;
                let jobs: Vec<&JobView> = jobs.iter().collect();
                for line in board::table(&jobs, daemon.time, &style) {
                    writeln!(out, "{line}")?;
                }
            }
        }
    }
    Ok(Exit::Ok)
}

fn last_words(last: &OutcomeView, daemon: &StatusView) -> String {
    let words = outcome::words(last);
    match last.completed_at {
        Some(at) => format!("{words}, {}", ago(at, daemon.time)),
        None => words,
    }
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
            let words = schedule_words::words(&definition.expression);
            if words != definition.expression {
                tell("", words);
            }
            match (&definition.enqueues, &definition.spools) {
                (Some(job_type), _) => tell("enqueues", format!("a job of type `{job_type}`")),
                (None, Some(what)) => {
                    let (spool, task_type) = what.split_once('/').unwrap_or((what, "?"));
                    tell("spools", format!("a task of type `{task_type}` into `{spool}`"));
                }
                (None, None) => tell("command", command_line(&definition.command)),
            }
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
    if !job.recent.is_empty() {
        let recent: Vec<String> = job.recent.iter().map(|it| it.replace('_', " ")).collect();
        tell("recent", recent.join(", "));
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
