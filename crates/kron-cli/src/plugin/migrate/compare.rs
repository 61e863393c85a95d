//! `kubectl kron migrate --diff`: what becomes of a manifest, and of its next runs.

use std::io::Write;

use kron_core::UtcSecond;
use similar::TextDiff;

use super::cronjob::Migrated;
use crate::failure::Failure;
use crate::plugin::yaml;
use crate::text::{signed, write_table};

/// Runs that are set side by side.
const RUNS: usize = 5;

pub(super) fn write(
    out: &mut dyn Write,
    migrated: &Migrated,
    identity: &str,
    now: UtcSecond,
) -> Result<(), Failure> {
    let (old, new) = (yaml::document(&migrated.cronjob), yaml::document(&migrated.kronjob));
    let diff = TextDiff::from_lines(&old, &new);
    let (old_name, new_name) = (format!("CronJob {identity}"), format!("KronJob {identity}"));
    write!(out, "{}", diff.unified_diff().header(&old_name, &new_name))?;
    for note in migrated.comments() {
        writeln!(out, "# {note}")?;
    }
    writeln!(out)?;
    let zone = migrated.timing.placement().zone();
    let times: Vec<UtcSecond> = migrated.old_times.after(now).take(RUNS).collect();
    let mut rows = vec![vec![
        format!("CronJob, in {zone}"),
        format!("KronJob, in {zone}"),
        "difference".to_owned(),
    ]];
    for nominal in times {
        let is_period = migrated.timing.schedule().prev_at_or_before(nominal) == Some(nominal);
        let decided = migrated.timing.placement().decide(nominal).ok().filter(|_| is_period);
        let (chosen, difference) = match decided.map(|decision| decision.chosen) {
            Some(Some(chosen)) if chosen == nominal => {
                (zone.wall_at(chosen).to_string(), "none".to_owned())
            }
            Some(Some(chosen)) => (zone.wall_at(chosen).to_string(), signed(chosen.since(nominal))),
            Some(None) => ("unschedulable".to_owned(), String::new()),
            None => ("no run".to_owned(), "clocks are changed".to_owned()),
        };
        rows.push(vec![zone.wall_at(nominal).to_string(), chosen, difference]);
    }
    if rows.len() == 1 {
        writeln!(out, "neither runs again")?;
    } else {
        write_table(out, "", &rows)?;
    }
    if migrated.is_suspended {
        writeln!(out, "suspended: until that is lifted, none of these runs")?;
    }
    writeln!(out)?;
    Ok(())
}
