//! `kron spool stats`: how much there is of what.
//!
//! Files are counted, all of them; what they say is looked up in the first of each directory only,
//! and said so where there are more.

use std::collections::BTreeMap;
use std::io::Write;

use kron_core::Timestamp;
use kron_spool::{Outcome, Spool, State};
use krond::api::view::SpoolView;
use serde::Serialize;

use super::note;
use crate::args::{OutputFormat, SpoolStatsArgs};
use crate::clock;
use crate::failure::{Exit, Failure, is_denied};
use crate::queue::words::one_line;
use crate::spool::place::Place;
use crate::spool::words::moment;
use crate::text::{count, write_json, write_table};

/// Files of each directory that are looked into.
const LOOKED_AT_MAX: usize = 10_000;

#[derive(Serialize)]
struct Stats {
    dir: String,
    pending: usize,
    running: usize,
    completed: usize,
    rejected: usize,
    /// When the oldest of those that wait was made.
    oldest_pending_at: Option<Timestamp>,
    types: BTreeMap<String, OfType>,
    /// How those have ended that are completed.
    outcomes: Outcomes,
    /// Files that are no tasks.
    unfit: usize,
    /// Files of each directory that were looked into at most.
    looked_at_max: usize,
    /// Whether there are more files than were looked into.
    looked_at_part: bool,
    /// What the daemon says, if one was asked.
    daemon: Option<SpoolView>,
}

/// What a daemon says to those who may not look for themselves.
#[derive(Serialize)]
struct DaemonStats<'v> {
    dir: &'v str,
    pending: usize,
    running: usize,
    daemon: &'v SpoolView,
}

impl DaemonStats<'_> {
    fn of(view: &SpoolView) -> DaemonStats<'_> {
        DaemonStats { dir: &view.dir, pending: view.pending, running: view.running, daemon: view }
    }
}

#[derive(Default, Serialize)]
struct OfType {
    pending: usize,
    running: usize,
    completed: usize,
}

#[derive(Default, Serialize)]
struct Outcomes {
    succeeded: usize,
    skipped: usize,
    failed: usize,
}

pub(crate) fn run(args: &SpoolStatsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::of(&args.place)?;
    let spool = match (Spool::open_to_read(&place.dir), &place.daemon) {
        // Whoever may ask the daemon need not be one who may look into its directories.
        (Err(error), Some(asked)) if is_denied(&error) => {
            match args.format {
                OutputFormat::Json => write_json(out, &DaemonStats::of(&asked.view))?,
                OutputFormat::Text => write_daemon_text(out, &asked.view)?,
            }
            out.flush()?;
            note("this is what the daemon says; only root and its user may look into the spool");
            return Ok(Exit::Ok);
        }
        (opened, _) => opened?,
    };
    let stats = stats(&spool, place)?;
    match args.format {
        OutputFormat::Json => write_json(out, &stats)?,
        OutputFormat::Text => write_text(out, &stats)?,
    }
    Ok(Exit::Ok)
}

fn stats(spool: &Spool, place: Place) -> Result<Stats, Failure> {
    let counts = spool.counts()?;
    let mut stats = Stats {
        dir: place.dir.display().to_string(),
        pending: counts.pending,
        running: counts.running,
        completed: counts.completed,
        rejected: counts.rejected,
        oldest_pending_at: None,
        types: BTreeMap::new(),
        outcomes: Outcomes::default(),
        unfit: 0,
        looked_at_max: LOOKED_AT_MAX,
        looked_at_part: false,
        daemon: place.daemon.map(|asked| asked.view),
    };
    for state in State::ALL {
        let ids = spool.ids(state)?;
        stats.looked_at_part |= ids.len() > LOOKED_AT_MAX;
        for id in ids.iter().take(LOOKED_AT_MAX) {
            let task = match spool.read(state, id)? {
                None => continue,
                Some(Err(_)) => {
                    stats.unfit += 1;
                    continue;
                }
                Some(Ok(found)) => found.task,
            };
            let of_type = stats.types.entry(task.payload.task_type.clone()).or_default();
            match state {
                State::Pending => {
                    of_type.pending += 1;
                    let oldest = stats.oldest_pending_at.unwrap_or(task.created_at);
                    stats.oldest_pending_at = Some(oldest.min(task.created_at));
                }
                State::Running => of_type.running += 1,
                State::Completed => {
                    of_type.completed += 1;
                    match task.result.map(|result| result.outcome) {
                        Some(Outcome::Succeeded) => stats.outcomes.succeeded += 1,
                        Some(Outcome::Skipped) => stats.outcomes.skipped += 1,
                        Some(Outcome::Failed) => stats.outcomes.failed += 1,
                        None => {}
                    }
                }
            }
        }
    }
    Ok(stats)
}

fn write_text(out: &mut dyn Write, stats: &Stats) -> Result<(), Failure> {
    writeln!(
        out,
        "{} pending, {} running, {} completed, {} rejected in `{}`",
        stats.pending, stats.running, stats.completed, stats.rejected, stats.dir
    )?;
    if let Some(view) = &stats.daemon {
        write_view(out, view)?;
    }
    if stats.looked_at_part {
        writeln!(out, "what follows is from the first {LOOKED_AT_MAX} files of each directory")?;
    }
    if let Some(at) = stats.oldest_pending_at {
        writeln!(out, "the oldest that waits is from {}", moment(at, clock::now()))?;
    }
    if stats.completed > 0 {
        let Outcomes { succeeded, skipped, failed } = stats.outcomes;
        writeln!(out, "completed: {succeeded} succeeded, {skipped} skipped, {failed} failed")?;
    }
    if stats.unfit > 0 {
        writeln!(out, "{} no task's, as `kron spool ls` tells", are(stats.unfit))?;
    }
    if stats.types.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let header = ["type", "pending", "running", "completed"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (task_type, of) in &stats.types {
        let numbers = [of.pending, of.running, of.completed].map(|number| number.to_string());
        rows.push([task_type.clone()].into_iter().chain(numbers).collect());
    }
    write_table(out, "", &rows)?;
    Ok(())
}

fn write_daemon_text(out: &mut dyn Write, view: &SpoolView) -> Result<(), Failure> {
    writeln!(out, "{} pending, {} running in `{}`", view.pending, view.running, view.dir)?;
    write_view(out, view)
}

fn write_view(out: &mut dyn Write, view: &SpoolView) -> Result<(), Failure> {
    let workers = count(view.workers_max.into(), "worker");
    writeln!(
        out,
        "spool `{}`: {workers}, {} waiting for their time, {} without a handler",
        view.name, view.delayed, view.unhandled
    )?;
    if let Some(error) = &view.error {
        writeln!(out, "nothing of it is started: {}", one_line(error))?;
    }
    Ok(())
}

/// `1 file is`, `2 files are`.
fn are(number: usize) -> String {
    format!("{} {}", count(number as u64, "file"), if number == 1 { "is" } else { "are" })
}
