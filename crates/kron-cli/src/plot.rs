//! Small pictures for terminals: the window of a period, and a histogram.

use std::io;

use kron_core::{Coverage, Decision, Placement, UtcSecond};

use crate::text::clock_face;

/// Columns the window's plot has.
const COLUMNS: u64 = 64;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a period's window: the distribution, what the constraints forbid, the nominal time and
/// the choice.
pub(crate) fn write_window(
    out: &mut dyn io::Write,
    placement: &Placement,
    decision: &Decision,
    coverage: &Coverage,
) -> io::Result<()> {
    let seconds = coverage.window_seconds;
    let columns = COLUMNS.min(seconds);
    // Column c covers the offsets first(c) up to, not including, first(c + 1).
    let first = |column: u64| column * seconds / columns;
    let mass: Vec<f64> = (0..columns)
        .map(|column| {
            let (from, to) = (first(column), first(column + 1) - 1);
            placement.sampler().mass(from, to) / (to - from + 1) as f64
        })
        .collect();
    let greatest = mass.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let curve: String =
        mass.iter().map(|mass| LEVELS[((mass / greatest * 8.0) as usize).min(7)]).collect();
    writeln!(out, "  likelihood  {curve}")?;
    if !placement.constraints().is_empty() {
        let forbidden: String = (0..columns)
            .map(|column| {
                share_mark(coverage, decision.window_start, first(column), first(column + 1))
            })
            .collect();
        writeln!(out, "  forbidden   {forbidden}   x all, / some, · none")?;
    }
    let column_of = |t: UtcSecond| {
        let offset = t.since(decision.window_start) as u64;
        (0..columns).rev().find(|&column| first(column) <= offset).unwrap_or(0) as usize
    };
    let mut marks = vec![' '; columns as usize];
    marks[column_of(decision.nominal)] = 'N';
    if let Some(chosen) = decision.chosen {
        let column = column_of(chosen);
        marks[column] = if marks[column] == 'N' { '*' } else { '^' };
    }
    let marks: String = marks.into_iter().collect();
    let legend = match decision.chosen {
        Some(_) if marks.contains('*') => "* nominal and chosen",
        Some(_) => "N nominal, ^ chosen",
        None => "N nominal; nothing was chosen",
    };
    writeln!(out, "              {marks}   {legend}")?;
    let zone = placement.zone();
    let (start, end) = (zone.wall_at(decision.window_start), zone.wall_at(decision.window_end));
    // Over a midnight or a change of the offset, the time of day alone would mislead.
    let (start, end) = if start.date() == end.date() && start.offset() == end.offset() {
        (clock_face(start), clock_face(end))
    } else {
        (start.to_string(), end.to_string())
    };
    let gap = (columns as usize).saturating_sub(start.len() + end.len()).max(1);
    writeln!(out, "              {start}{}{end}", " ".repeat(gap))
}

/// How much of the offsets `from..to` is forbidden.
fn share_mark(coverage: &Coverage, start: UtcSecond, from: u64, to: u64) -> char {
    let (from, to) = (start.unix() + from as i64, start.unix() + to as i64);
    let allowed: i64 = coverage
        .allowed
        .iter()
        .map(|&(a, b)| ((b.unix() + 1).min(to) - a.unix().max(from)).max(0))
        .sum();
    match allowed {
        0 => 'x',
        all if all == to - from => '·',
        _ => '/',
    }
}

/// A bar of `value` out of `most`, with a mark where `other` would end.
pub(crate) fn bar(value: u32, other: u32, most: u32, width: usize) -> String {
    let length = |value: u32| {
        let exact = f64::from(value) / f64::from(most.max(1)) * width as f64;
        if value > 0 { (exact.round() as usize).max(1) } else { 0 }
    };
    let (filled, mark) = (length(value), length(other));
    (0..width)
        .map(|column| match column {
            column if column + 1 == mark && mark > filled => '┆',
            column if column < filled => '█',
            _ => ' ',
        })
        .collect()
}
