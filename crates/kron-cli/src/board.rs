//! The jobs of a daemon as a table that fits where it is shown.
//!
//! Pure: what a daemon said and how wide the place is go in, lines come out. Nothing is told by
//! colour alone. When there is not enough room, long cells are cut first, and then whole columns
//! are left out, the least needed first; the job and how long it has to wait always stay. What
//! comes from elsewhere may hold control characters, which a terminal would obey: they are shown
//! as `?`.

mod cell;
mod layout;

use kron_core::{UtcSecond, Zone};
use krond::api::view::{JobView, OutcomeView, RunView, StatusView};

pub(crate) use self::cell::{Cell, Paint, Style, painted, shortened};
pub(crate) use self::layout::Layout;
use crate::outcome;
use crate::schedule_words;
use crate::text::{brief, clock_face, count, weekday};

/// The columns, from left to right.
const HEADERS: [&str; COLUMNS] =
    ["job", "schedule", "nominal", "chosen", "in", "last", "recent", "now"];
const COLUMNS: usize = 8;
const LAYOUT: Layout<COLUMNS> = Layout {
    widths_min: [10, 14, 8, 9, 3, 12, 6, 8],
    widths_usual: [0, 0, 8, 9, 4, 26, 10, 11],
    // Times are whole or not there.
    cuts: [true, true, false, false, false, true, false, true],
    // Nominal, schedule, now, recent, chosen, last.
    left_out: &[2, 1, 7, 6, 3, 5],
};
/// How the identity of a crontab's entry begins.
const CRONTAB: &str = "crontab/";
/// Characters of its command that are shown.
const COMMAND_CHARS_MAX: usize = 40;
/// The events that are shown.
const EVENTS_MAX: usize = 10;

/// What the daemon says about itself, in a line or a few.
pub(crate) fn daemon_lines(daemon: &StatusView) -> Vec<String> {
    let mut lines = vec![format!(
        "krond {}, process {}, since {}: {}, {} suspended, {} active",
        daemon.version,
        daemon.pid,
        daemon.started_at,
        count(daemon.job_count, "job"),
        daemon.suspended_count,
        count(daemon.active_count, "run"),
    )];
    if let Some(mode) = &daemon.stopping {
        let runs = count(daemon.active_count, "run");
        lines.push(match mode.as_str() {
            "wait" => format!("stopping: nothing more is started, {runs} to wait for"),
            "kill" => format!("stopping: nothing more is started, {runs} to be ended"),
            mode => format!("stopping (`{mode}`): nothing more is started"),
        });
    }
    if let Some(since) = daemon.clock_held_since {
        lines.push(format!(
            "the clock leapt ahead at {since} and is not believed: nothing is started before it \
             has held, or `kron clock accept`"
        ));
    }
    lines
}

/// The table: a line of headers and a line for each job.
pub(crate) fn table(jobs: &[&JobView], now: UtcSecond, style: &Style) -> Vec<String> {
    let header = HEADERS.map(|name| Cell::of(name, Paint::Faint));
    let rows: Vec<[Cell; COLUMNS]> =
        std::iter::once(header).chain(jobs.iter().map(|job| row(job, now, style))).collect();
    LAYOUT.lines(&rows, style)
}

fn row(job: &JobView, now: UtcSecond, style: &Style) -> [Cell; COLUMNS] {
    let zone = job.definition.as_ref().map_or("UTC", |definition| &definition.timezone);
    let zone = Zone::named(zone).unwrap_or_else(|_| Zone::utc());
    let schedule = job
        .definition
        .as_ref()
        .map_or_else(String::new, |definition| schedule_words::words(&definition.expression));
    let [nominal, next, ahead] = next(job, &zone, now);
    [
        Cell::of(&name(job), Paint::Strong),
        Cell::of(&schedule, Paint::Plain),
        nominal,
        next,
        ahead,
        last(job, now),
        recent(job, style),
        now_words(job, now),
    ]
}

/// What people know the job by: its name, and for an entry of a crontab, which has none, also the
/// beginning of its command.
fn name(job: &JobView) -> String {
    let command = job.definition.as_ref().map(|definition| definition.command.as_slice());
    match command {
        Some([.., line]) if job.identity.starts_with(CRONTAB) => {
            let line: String = line.chars().take(COMMAND_CHARS_MAX).collect();
            format!("{} {line}", job.identity)
        }
        _ => job.identity.clone(),
    }
}

/// When the next period is nominally, when it is due, and how long that is.
fn next(job: &JobView, zone: &Zone, now: UtcSecond) -> [Cell; 3] {
    let alone = |words: &str, paint| [Cell::empty(), Cell::of(words, paint), Cell::empty()];
    if job.definition.is_none() {
        return alone("not defined any more", Paint::Faint);
    }
    if let Some(by) = &job.suspended_by {
        return alone(&format!("suspended by {by}"), Paint::Doubtful);
    }
    let Some(next) = &job.next else { return alone("never", Paint::Faint) };
    let chosen = next.chosen_time.as_deref().map(str::parse);
    let nominal = match (next.nominal_time.parse(), &chosen) {
        // The date stands beside it.
        (Ok(nominal), Some(Ok(chosen)))
            if zone.wall_at(nominal).date() == zone.wall_at(*chosen).date() =>
        {
            clock_face(zone.wall_at(nominal))
        }
        (Ok(nominal), _) => moment(nominal, zone, now),
        (Err(_), _) => next.nominal_time.clone(),
    };
    let nominal = Cell::of(&nominal, Paint::Faint);
    match chosen {
        None => [nominal, Cell::of("unschedulable", Paint::Bad), Cell::empty()],
        Some(Err(_)) => [nominal, Cell::of("?", Paint::Doubtful), Cell::empty()],
        Some(Ok(chosen)) => [
            nominal,
            Cell::of(
                &format!("{}{}", moment(chosen, zone, now), offset(chosen, zone)),
                Paint::Plain,
            ),
            Cell::of(&ahead(chosen, now), Paint::Strong),
        ],
    }
}

/// How far ahead something is; what is past should have been there.
fn ahead(at: UtcSecond, now: UtcSecond) -> String {
    let seconds = at.since(now);
    let sign = if seconds < 0 { "-" } else { "" };
    format!("{sign}{}", brief(seconds))
}

/// A time on the clocks of a zone, with as much of its date as is needed.
fn moment(at: UtcSecond, zone: &Zone, now: UtcSecond) -> String {
    let (wall, today) = (zone.wall_at(at), zone.wall_at(now).date());
    let (date, time) = (wall.date(), clock_face(wall));
    if date == today {
        return time;
    }
    match date.to_days() - today.to_days() {
        // The name of a day means the next one of that name.
        1..7 => format!("{} {time}", weekday(at, zone)),
        _ if date.year == today.year => format!("{:02}-{:02} {time}", date.month, date.day),
        _ => format!("{}-{:02}-{:02} {time}", date.year, date.month, date.day),
    }
}

fn offset(at: UtcSecond, zone: &Zone) -> String {
    if zone.name() == "UTC" {
        return "Z".to_owned();
    }
    let seconds = zone.offset_at(at);
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// What happened last: how it ended, how long it took, how long ago that was.
fn last(job: &JobView, now: UtcSecond) -> Cell {
    let event = job.recent.last().map(|event| event.replace('_', " "));
    match &job.last {
        // It runs, which another column tells; this one is about what has ended.
        Some(OutcomeView { completed_at: None, .. }) | None => match event {
            Some(event) => Cell::of(&event, Paint::Faint),
            None => Cell::of("-", Paint::Faint),
        },
        Some(last) => {
            let mut words = outcome::words(last);
            if let (Some(started), Some(ended)) = (last.started_at, last.completed_at) {
                words.push_str(&format!(" in {}", brief(ended.since(started))));
            }
            if let Some(at) = last.completed_at {
                // Clocks may disagree; then it has only just happened.
                words.push_str(&format!(", {} ago", brief(now.since(at).max(0))));
            }
            Cell::of(&words, paint_of(last))
        }
    }
}

fn paint_of(last: &OutcomeView) -> Paint {
    match (last.outcome.as_deref(), last.ending.as_deref(), last.exit_code) {
        (Some("executed"), Some("exited"), Some(0))
        | (Some("executed"), Some("handed over"), _) => Paint::Good,
        (Some("executed"), Some("replaced" | "stopped"), _) => Paint::Doubtful,
        (Some("executed"), ..) | (Some("unschedulable"), ..) => Paint::Bad,
        (Some("missed" | "skipped"), ..) => Paint::Doubtful,
        _ => Paint::Plain,
    }
}

/// A mark for each of the latest periods and runs, the newest at the right.
fn recent(job: &JobView, style: &Style) -> Cell {
    let from = job.recent.len().saturating_sub(EVENTS_MAX);
    let mut cell = Cell::empty();
    for event in &job.recent[from..] {
        let (mark, ascii, paint) = match event.as_str() {
            "succeeded" => ("✓", "+", Paint::Good),
            "failed" => ("✗", "x", Paint::Bad),
            "timed_out" => ("T", "T", Paint::Bad),
            "lost" => ("?", "?", Paint::Bad),
            "replaced" => ("R", "R", Paint::Doubtful),
            "stopped" => ("S", "S", Paint::Doubtful),
            "missed" => ("–", "-", Paint::Doubtful),
            "skipped" => ("·", ".", Paint::Faint),
            "unschedulable" => ("!", "!", Paint::Bad),
            _ => ("*", "*", Paint::Plain),
        };
        cell.push(if style.ascii { ascii } else { mark }, paint);
    }
    cell
}

/// What runs now, or why it does not.
fn now_words(job: &JobView, now: UtcSecond) -> Cell {
    match (&job.failing, job.active.last()) {
        (_, Some(newest)) => Cell::of(&active_words(job.active.len(), newest, now), Paint::Busy),
        (Some(failing), None) => {
            let times = count(u64::from(failing.attempts), "time");
            let why =
                format!("not started, tried {times}: {}: {}", failing.operation, failing.message);
            Cell::of(&why, Paint::Bad)
        }
        (None, None) => Cell::of("-", Paint::Faint),
    }
}

fn active_words(number: usize, newest: &RunView, now: UtcSecond) -> String {
    let since =
        newest.started_at.map_or(String::new(), |at| format!(" {}", brief(now.since(at).max(0))));
    let others = if number > 1 { format!(", {number} in all") } else { String::new() };
    format!("{}{since}{others}", newest.stage)
}

#[cfg(test)]
mod tests;
