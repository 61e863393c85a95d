//! `kron next`: the periods to come.

use std::io::Write;

use kron_core::{Decision, DecisionRecord, Timing, UtcSecond, Zone};

use crate::args::{NextArgs, OutputFormat};
use crate::failure::{Exit, Failure};
use crate::jobs;

pub(crate) fn run(args: &NextArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (timing, _) = jobs::select(&args.job)?;
    let after = jobs::time("--after", args.after.as_deref())?;
    let mut found = 0;
    match args.format {
        OutputFormat::Json => {
            for decision in timing.due_after(after).take(args.count as usize) {
                found += 1;
                serde_json::to_writer(
                    &mut *out,
                    &DecisionRecord::of(timing.placement(), &decision),
                )?;
                writeln!(out)?;
            }
        }
        OutputFormat::Text => {
            let suspended = timing.policy.suspend;
            let remark = "suspended: until that is lifted, none of these runs".to_owned();
            let remarks = Vec::from_iter(suspended.then_some(remark));
            found = write_periods(out, &timing, after, args.count, &remarks)?;
        }
    }
    Ok(if found == 0 { Exit::No } else { Exit::Ok })
}

/// Writes a job's periods after a time, and says how many there were.
pub(crate) fn write_periods(
    out: &mut dyn Write,
    timing: &Timing,
    after: UtcSecond,
    count: u32,
    remarks: &[String],
) -> Result<u64, Failure> {
    let placement = timing.placement();
    let zone = placement.zone();
    writeln!(out, "{}: {timing}", placement.identity())?;
    writeln!(out, "after {after}, in {zone}")?;
    for remark in remarks {
        writeln!(out, "{remark}")?;
    }
    writeln!(out)?;
    let mut found = 0;
    for decision in timing.due_after(after).take(count as usize) {
        if found == 0 {
            let header = ["nominal", "window start", "window end", "chosen"];
            write_row(out, zone, &header.map(str::to_owned), "")?;
        }
        found += 1;
        write_decision(out, zone, &decision)?;
    }
    if found == 0 {
        writeln!(out, "nothing: this schedule has no period after that")?;
    }
    Ok(found)
}

/// A line in the job's zone and, where that is another, one in UTC.
fn write_decision(out: &mut dyn Write, zone: &Zone, decision: &Decision) -> Result<(), Failure> {
    let times = [
        Some(decision.nominal),
        Some(decision.window_start),
        Some(decision.window_end),
        decision.chosen,
    ];
    let cells = |show: &dyn Fn(UtcSecond) -> String| {
        times.map(|time| time.map_or("unschedulable".to_owned(), show))
    };
    if !is_utc(zone) {
        write_row(out, zone, &cells(&|time| zone.wall_at(time).to_string()), zone.name())?;
    }
    write_row(out, zone, &cells(&|time| time.to_string()), "UTC")
}

/// One line of the table. Its columns have the width of a time, whatever they hold, so that any
/// number of periods can be shown without being kept.
fn write_row(
    out: &mut dyn Write,
    zone: &Zone,
    cells: &[String; 4],
    remark: &str,
) -> Result<(), Failure> {
    let width =
        if is_utc(zone) { "2026-03-01T00:00:00Z" } else { "2026-03-01 00:00:00+00:00" }.len();
    let [nominal, start, end, chosen] = cells;
    let line = format!("{nominal:width$}  {start:width$}  {end:width$}  {chosen:width$}  {remark}");
    writeln!(out, "{}", line.trim_end())?;
    Ok(())
}

fn is_utc(zone: &Zone) -> bool {
    zone.name() == "UTC"
}
