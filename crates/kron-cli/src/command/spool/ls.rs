//! `kron spool ls`: tasks, or what was set aside, as a table.

use std::io::Write;

use kron_core::{Timestamp, UtcSecond};
use kron_spool::{Fault, Outcome, Report, Spool, State, Task, TaskId};
use serde::Serialize;

use super::note;
use crate::args::{OutputFormat, SpoolLsArgs, TaskStateWord};
use crate::board::{Cell, Layout, Paint};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::screen;
use crate::spool::files;
use crate::spool::place::Place;
use crate::spool::words;
use crate::text::{count, write_json};

const HEADERS: [&str; COLUMNS] = ["task", "state", "type", "created", "attempts", "note"];
const COLUMNS: usize = 6;
const LAYOUT: Layout<COLUMNS> = Layout {
    widths_min: [8, 9, 8, 20, 8, 20],
    widths_usual: [0; COLUMNS],
    cuts: [false, false, true, false, false, true],
    // Created, attempts, note, type.
    left_out: &[3, 4, 5, 2],
};
const REJECTED_HEADERS: [&str; REJECTED_COLUMNS] = ["name", "from", "rejected", "reason"];
const REJECTED_COLUMNS: usize = 4;
const REJECTED_LAYOUT: Layout<REJECTED_COLUMNS> = Layout {
    widths_min: [8, 7, 20, 20],
    widths_usual: [0; REJECTED_COLUMNS],
    cuts: [false, false, false, true],
    left_out: &[2, 1],
};

/// A task of the list, for programs.
#[derive(Serialize)]
struct TaskRow<'a> {
    task_id: &'a TaskId,
    state: &'static str,
    #[serde(rename = "type")]
    task_type: Option<&'a str>,
    created_at: Option<Timestamp>,
    attempts: Option<u32>,
    lost_attempts: Option<u32>,
    last_error: Option<&'a str>,
    not_before: Option<Timestamp>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    outcome: Option<&'static str>,
    exit_code: Option<i32>,
    error: Option<&'a str>,
    /// Why its file is no task's.
    fault: Option<String>,
}

/// Something that was set aside, for programs.
#[derive(Serialize)]
struct RejectedRow<'a> {
    name: &'a str,
    state: &'static str,
    original_name: Option<&'a str>,
    directory: Option<&'a str>,
    rejected_at: Option<Timestamp>,
    reason: &'a str,
}

pub(crate) fn run(args: &SpoolLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let states: &[State] = match args.state {
        None => &[State::Running, State::Pending],
        Some(TaskStateWord::Pending) => &[State::Pending],
        Some(TaskStateWord::Running) => &[State::Running],
        Some(TaskStateWord::Completed) => &[State::Completed],
        Some(TaskStateWord::Rejected) => return rejected(args, out),
    };
    let spool = Place::of(&args.place)?.to_read()?;
    let rows_max = args.limit as usize;
    let mut listed = Listed::default();
    for state in states {
        listed.look(&spool, *state, args.task_type.as_deref(), rows_max)?;
    }
    match args.format {
        OutputFormat::Json => {
            for (id, state, read) in &listed.rows {
                write_json(out, &record(id, *state, read))?;
            }
        }
        OutputFormat::Text => {
            let now = clock::now();
            let header = HEADERS.map(|name| Cell::of(name, Paint::Faint));
            let rows = listed.rows.iter().map(|(id, state, read)| row(id, *state, read, now));
            let table: Vec<[Cell; COLUMNS]> = std::iter::once(header).chain(rows).collect();
            write_lines(out, LAYOUT.lines(&table, &screen::style_of_output(false)))?;
        }
    }
    let is_any = args.state.is_none() && args.task_type.is_none();
    let noun = match (args.state, is_any) {
        (_, true) => "task that waits or runs",
        (_, false) => "such task",
    };
    tell_rest(out, args.format, listed.rows.len(), listed.more, "task", noun)
}

/// Tasks that are shown.
#[derive(Default)]
struct Listed {
    rows: Vec<(TaskId, State, Result<Task, Fault>)>,
    more: More,
}

/// What is not shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum More {
    #[default]
    None,
    /// This many.
    Counted(usize),
    /// Some; how many was not looked for.
    Some,
}

impl Listed {
    fn look(
        &mut self,
        spool: &Spool,
        state: State,
        task_type: Option<&str>,
        rows_max: usize,
    ) -> Result<(), Failure> {
        let ids = spool.ids(state)?;
        let mut left = ids.len();
        for id in ids {
            let is_full = self.rows.len() == rows_max;
            if is_full && task_type.is_none() {
                let before = if let More::Counted(before) = self.more { before } else { 0 };
                self.more = More::Counted(before + left);
                return Ok(());
            }
            left -= 1;
            // One that is gone by now is somewhere else.
            let Some(read) = spool.read(state, &id)? else { continue };
            let read = read.map(|found| found.task);
            let is_of_type =
                |wanted: &str| matches!(&read, Ok(task) if task.payload.task_type == wanted);
            if task_type.is_some_and(|wanted| !is_of_type(wanted)) {
                continue;
            }
            if is_full {
                self.more = More::Some;
                return Ok(());
            }
            self.rows.push((id, state, read));
        }
        Ok(())
    }
}

fn record<'a>(id: &'a TaskId, state: State, read: &'a Result<Task, Fault>) -> TaskRow<'a> {
    let task = read.as_ref().ok();
    let result = task.and_then(|task| task.result.as_ref());
    TaskRow {
        task_id: id,
        state: state.directory(),
        task_type: task.map(|task| task.payload.task_type.as_str()),
        created_at: task.map(|task| task.created_at),
        attempts: task.map(|task| task.attempts),
        lost_attempts: task.map(|task| task.lost_attempts),
        last_error: task.and_then(|task| task.last_error.as_deref()),
        not_before: task.and_then(|task| task.not_before),
        started_at: task.and_then(|task| task.started_at),
        completed_at: task.and_then(|task| task.completed_at),
        outcome: result.map(|result| result.outcome.as_str()),
        exit_code: result.and_then(|result| result.exit_code),
        error: result.and_then(|result| result.error.as_deref()),
        fault: read.as_ref().err().map(ToString::to_string),
    }
}

fn row(id: &TaskId, state: State, read: &Result<Task, Fault>, now: UtcSecond) -> [Cell; COLUMNS] {
    let name = Cell::of(id.as_str(), Paint::Strong);
    let task = match read {
        Ok(task) => task,
        Err(fault) => {
            let dash = || Cell::of("-", Paint::Faint);
            let state = Cell::of(state.directory(), Paint::Bad);
            let told = Cell::of(&format!("no task: {fault}"), Paint::Bad);
            return [name, state, dash(), dash(), dash(), told];
        }
    };
    let outcome = task.result.as_ref().map(|result| result.outcome);
    let paint = match (state, outcome) {
        (State::Pending, _) => Paint::Plain,
        (State::Running, _) => Paint::Busy,
        (State::Completed, Some(Outcome::Succeeded)) => Paint::Good,
        (State::Completed, Some(Outcome::Skipped)) => Paint::Faint,
        (State::Completed, _) => Paint::Bad,
    };
    [
        name,
        Cell::of(state.directory(), paint),
        Cell::of(&task.payload.task_type, Paint::Plain),
        Cell::of(&task.created_at.second().to_string(), Paint::Faint),
        Cell::of(&task.attempts.to_string(), Paint::Plain),
        Cell::of(&words::note(task, now), Paint::Plain),
    ]
}

fn rejected(args: &SpoolLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    if args.task_type.is_some() {
        return Err(Failure::Unclear {
            message: "what was set aside has no type".to_owned(),
            hint: "leave out `--type`".to_owned(),
        });
    }
    let spool = Place::of(&args.place)?.to_read()?;
    let names = spool.rejected_names()?;
    let shown = &names[..names.len().min(args.limit as usize)];
    let reports: Vec<(&str, Result<Report, String>)> =
        shown.iter().map(|name| (name.as_str(), files::report(&spool, name))).collect();
    match args.format {
        OutputFormat::Json => {
            for (name, report) in &reports {
                let (good, bad) = (report.as_ref().ok(), report.as_ref().err());
                let reason = good.map(|report| report.reason.as_str());
                let row = RejectedRow {
                    name,
                    state: "rejected",
                    original_name: good.map(|report| report.name.as_str()),
                    directory: good.map(|report| report.directory.as_str()),
                    rejected_at: good.map(|report| report.rejected_at),
                    reason: reason.or(bad.map(String::as_str)).unwrap_or_default(),
                };
                write_json(out, &row)?;
            }
        }
        OutputFormat::Text => {
            let header = REJECTED_HEADERS.map(|name| Cell::of(name, Paint::Faint));
            let rows = reports.iter().map(|(name, report)| {
                let name = Cell::of(name, Paint::Strong);
                match report {
                    Ok(report) => [
                        name,
                        Cell::of(&report.directory, Paint::Faint),
                        Cell::of(&report.rejected_at.second().to_string(), Paint::Faint),
                        Cell::of(&report.reason, Paint::Plain),
                    ],
                    Err(wrong) => {
                        let dash = || Cell::of("-", Paint::Faint);
                        [name, dash(), dash(), Cell::of(wrong, Paint::Doubtful)]
                    }
                }
            });
            let table: Vec<[Cell; REJECTED_COLUMNS]> =
                std::iter::once(header).chain(rows).collect();
            write_lines(out, REJECTED_LAYOUT.lines(&table, &screen::style_of_output(false)))?;
        }
    }
    let more = match names.len() - shown.len() {
        0 => More::None,
        more => More::Counted(more),
    };
    tell_rest(out, args.format, shown.len(), more, "thing", "thing that was set aside")
}

/// The lines of a table, unless it has only its headers.
fn write_lines(out: &mut dyn Write, lines: Vec<String>) -> Result<(), Failure> {
    if lines.len() > 1 {
        for line in lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Says what is not shown: people see it below the table, programs beside it.
fn tell_rest(
    out: &mut dyn Write,
    format: OutputFormat,
    shown: usize,
    more: More,
    noun: &str,
    none: &str,
) -> Result<Exit, Failure> {
    let shown_of = |total: usize| format!("{shown} of {}", count(total as u64, noun));
    let rest = match more {
        More::None => None,
        More::Counted(more) => Some(shown_of(shown + more) + "; `--limit N` shows more"),
        More::Some => {
            let shown = count(shown as u64, noun);
            Some(format!("{shown}; there are more, which `--limit N` shows"))
        }
    };
    match (format, rest) {
        (OutputFormat::Json, Some(rest)) => {
            out.flush()?;
            note(&rest);
        }
        (OutputFormat::Text, Some(rest)) => writeln!(out, "\n{rest}")?,
        (OutputFormat::Text, None) if shown == 0 => writeln!(out, "there is no {none}")?,
        (OutputFormat::Json | OutputFormat::Text, None) => {}
    }
    Ok(Exit::Ok)
}
