//! `kron next`: the periods to come.

use std::io::Write;

use kron_core::{Decision, DecisionRecord, Timing, Zone};

use crate::args::{NextArgs, OutputFormat};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::text::write_table;

pub(crate) fn run(args: &NextArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (timing, _) = jobs::select(&args.job)?;
    let after = jobs::time("--after", args.after.as_deref())?;
    let decisions = timing.due_after(after).take(args.count as usize);
    let mut found = 0;
    match args.format {
        OutputFormat::Json => {
            for decision in decisions {
                found += 1;
                serde_json::to_writer(
                    &mut *out,
                    &DecisionRecord::of(timing.placement(), &decision),
                )?;
                writeln!(out)?;
            }
        }
        OutputFormat::Text => {
            let placement = timing.placement();
            writeln!(out, "{}: {timing}", placement.identity())?;
            writeln!(out, "after {after}, in {}\n", placement.zone())?;
            let header =
                ["nominal", "window start", "window end", "chosen", ""].map(str::to_owned).to_vec();
            let mut rows = vec![header];
            for decision in decisions {
                found += 1;
                rows.extend(lines(&timing, &decision));
            }
            if found > 0 {
                write_table(out, "", &rows)?;
            }
        }
    }
    if found == 0 {
        if args.format == OutputFormat::Text {
            writeln!(out, "nothing: this schedule has no period after that")?;
        }
        return Ok(Exit::No);
    }
    Ok(Exit::Ok)
}

/// A line in the job's zone and, where that is another, one in UTC.
fn lines(timing: &Timing, decision: &Decision) -> Vec<Vec<String>> {
    let zone = timing.placement().zone();
    let times = [
        Some(decision.nominal),
        Some(decision.window_start),
        Some(decision.window_end),
        decision.chosen,
    ];
    let line = |zone: &Zone, in_utc: bool| {
        let mut cells: Vec<String> = times
            .iter()
            .map(|time| match time {
                None => "unschedulable".to_owned(),
                Some(time) if in_utc => time.to_string(),
                Some(time) => zone.wall_at(*time).to_string(),
            })
            .collect();
        cells.push(if in_utc { "UTC".to_owned() } else { zone.to_string() });
        cells
    };
    if zone.name() == "UTC" {
        return vec![line(zone, true)];
    }
    vec![line(zone, false), line(zone, true)]
}
