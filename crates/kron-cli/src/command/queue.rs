//! `kron queue`: jobs of the daemon's queue, put in, looked at and changed.

mod add;
mod artifacts;
mod cancel;
mod direct;
mod edit;
mod group;
mod logs;
mod ls;
mod pause;
mod place;
mod prio;
mod resume;
mod retry;
mod show;
mod stats;
mod top;

use std::io::Write;

use kron_queue::Job;

use crate::args::{OutputFormat, QueueArgs, QueueCommand};
use crate::failure::{Exit, Failure};
use crate::text::write_json;

pub(crate) fn run(args: &QueueArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &args.command {
        QueueCommand::Add(args) => add::run(args, out),
        QueueCommand::Ls(args) => ls::run(args, out),
        QueueCommand::Show(args) => show::run(args, out),
        QueueCommand::Move(args) => place::run(args, out),
        QueueCommand::Prio(args) => prio::run(args, out),
        QueueCommand::Edit(args) => edit::run(args, out),
        QueueCommand::Cancel(args) => cancel::run(args, out),
        QueueCommand::Retry(args) => retry::run(args, out),
        QueueCommand::Pause(args) => pause::run(args, out),
        QueueCommand::Resume(args) => resume::run(args, out),
        QueueCommand::Direct(args) => direct::run(args, out),
        QueueCommand::Logs(args) => logs::run(args, out),
        QueueCommand::Artifacts(args) => artifacts::run(args, out),
        QueueCommand::Stats(args) => stats::run(args, out),
        QueueCommand::Top(args) => top::run(args),
        QueueCommand::Group(args) => group::run(args, out),
    }
}

/// Says what became of a job, or shows it as it is now.
fn say(out: &mut dyn Write, format: OutputFormat, job: &Job, words: &str) -> Result<Exit, Failure> {
    match format {
        OutputFormat::Json => write_json(out, job)?,
        OutputFormat::Text => writeln!(out, "{}: {words}", job.job_id)?,
    }
    Ok(Exit::Ok)
}
