//! Jobs of the queue as a table that fits where it is shown. Pure.

use kron_core::UtcSecond;
use kron_queue::{Job, JobState};
use kron_queue_api::QueueView;

use super::ids::Short;
use super::words;
use crate::board::{Cell, Layout, Paint, Style};
use crate::text::{brief, count};

/// The columns, from left to right.
const HEADERS: [&str; COLUMNS] = ["job", "type", "state", "prio", "since", "note", "params"];
const COLUMNS: usize = 7;
const LAYOUT: Layout<COLUMNS> = Layout {
    widths_min: [8, 8, 9, 1, 3, 12, 12],
    widths_usual: [8, 0, 9, 4, 5, 0, 0],
    cuts: [false, true, false, false, false, true, true],
    // Params, prio, since, note, type.
    left_out: &[6, 3, 4, 5, 1],
};
/// Characters of parameters that are shown.
const PARAMS_CHARS_MAX: usize = 60;

/// A job and what is to be said about it.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) job: &'a Job,
    pub(crate) note: String,
}

/// How much there is of what, in a line or a few.
pub(crate) fn queue_lines(queue: &QueueView, now: UtcSecond) -> Vec<String> {
    let counts = &queue.counts;
    let mut first = format!("{} queued", counts.queued);
    for (number, word) in [(counts.delayed, "delayed"), (counts.blocked, "blocked")] {
        if number > 0 {
            first.push_str(&format!(", {number} {word}"));
        }
    }
    let workers = count(queue.workers_max.into(), "worker");
    first.push_str(&format!(", {} running on {workers}", counts.running));
    first.push_str(&format!(
        "; in the last day {} completed, {} failed, {} skipped",
        counts.completed, counts.failed, counts.skipped
    ));
    let mut lines = vec![first];
    lines.extend(words::pauses(&queue.pauses, now));
    if let Some(reservation) = &queue.reservation {
        let by = words::one_line(&reservation.reserved_by);
        let since = words::moment(reservation.reserved_at, now);
        lines.push(format!("the next slot is reserved for {by} since {since}"));
    }
    if queue.stopped {
        lines.push("the queue takes nothing any more: a write failed".to_owned());
    }
    lines
}

/// The table: a line of headers and a line for each job.
pub(crate) fn table(lines: &[Line<'_>], now: UtcSecond, style: &Style) -> Vec<String> {
    let short = Short::among(lines.iter().map(|line| line.job.job_id));
    let header = HEADERS.map(|name| Cell::of(name, Paint::Faint));
    let rows = lines.iter().map(|line| row(line, short, now));
    let rows: Vec<[Cell; COLUMNS]> = std::iter::once(header).chain(rows).collect();
    LAYOUT.lines(&rows, style)
}

fn row(line: &Line<'_>, short: Short, now: UtcSecond) -> [Cell; COLUMNS] {
    let job = line.job;
    let since = now.since(words::since(job).second()).max(0);
    let priority = if job.priority == 0 { String::new() } else { job.priority.to_string() };
    let mut params = words::params(&job.params);
    if params.chars().count() > PARAMS_CHARS_MAX {
        params = params.chars().take(PARAMS_CHARS_MAX - 1).chain(['…']).collect();
    }
    [
        Cell::of(&short.of(&job.job_id), Paint::Strong),
        Cell::of(&job.job_type, Paint::Plain),
        Cell::of(job.state.as_str(), paint_of(job.state)),
        Cell::of(&priority, Paint::Plain),
        Cell::of(&brief(since), Paint::Plain),
        Cell::of(&line.note, Paint::Plain),
        Cell::of(&params, Paint::Faint),
    ]
}

fn paint_of(state: JobState) -> Paint {
    match state {
        JobState::Queued => Paint::Plain,
        JobState::Delayed | JobState::Blocked | JobState::Skipped => Paint::Faint,
        JobState::Running => Paint::Busy,
        JobState::Completed => Paint::Good,
        JobState::Failed => Paint::Bad,
        JobState::Cancelled => Paint::Doubtful,
    }
}
