//! `kron diff`: what an edit changes.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::ops::Range;

use kron_config::Job;
use kron_core::{Change, Compared, Forecast, Policy, Seconds, UtcSecond, compare};
use serde::Serialize;

use crate::args::{DiffArgs, OutputFormat};
use crate::command::forecast::{forecast, loads};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::text::{count, signed};

/// Changed periods of one job that are shown without `--all`.
const SHOWN_MAX: usize = 3;
/// Changed periods that are listed with `--all` and in JSON, of all jobs together.
const LISTED_MAX: usize = 100_000;

/// What changes for one job.
struct JobChange<'a> {
    identity: &'a str,
    presence: Presence,
    counts: Counts,
    /// The sum of all movements, in seconds.
    moved_seconds: i128,
    /// What the edit does to the policy, if anything.
    policy: Option<String>,
    /// The first changed periods, and how many more there are.
    periods: Vec<Change>,
    left_out: u64,
}

/// How many of a job's periods stay, and what becomes of the others.
#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    unchanged: u64,
    moved: u64,
    appeared: u64,
    vanished: u64,
    became_unschedulable: u64,
    became_schedulable: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Added,
    Removed,
    Edited,
    /// Nothing that is about time differs.
    Same,
}

pub(crate) fn run(args: &DiffArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let horizon = jobs::horizon(&args.horizon, Seconds::new(7 * 86_400))?;
    let old = jobs::load_usable(std::slice::from_ref(&args.old), &args.read)?;
    let new = jobs::load_usable(std::slice::from_ref(&args.new), &args.read)?;
    let identities: BTreeSet<&str> = old.jobs.iter().chain(&new.jobs).map(Job::identity).collect();
    let by_identity = |jobs: &'_ [Job]| -> HashMap<String, usize> {
        (0..).zip(jobs).map(|(index, job)| (job.identity().to_owned(), index)).collect()
    };
    let (old_index, new_index) = (by_identity(&old.jobs), by_identity(&new.jobs));
    let each = if args.all || args.format == OutputFormat::Json { LISTED_MAX } else { SHOWN_MAX };
    let mut listed = 0;
    let mut changes = Vec::new();
    for identity in identities {
        let old_job = old_index.get(identity).map(|&index| &old.jobs[index]);
        let new_job = new_index.get(identity).map(|&index| &new.jobs[index]);
        let room = each.min(LISTED_MAX - listed);
        let change = job_change(identity, old_job, new_job, horizon.from()..horizon.to(), room);
        listed += change.periods.len();
        if change.presence != Presence::Same {
            changes.push(change);
        }
    }
    let (before, after) = (forecast(&loads(&old), horizon)?, forecast(&loads(&new), horizon)?);
    let peak = after.chosen.peak().map_or(0, |(_, starts)| starts);
    match args.format {
        OutputFormat::Text => write_text(args, out, &changes, &before, &after)?,
        OutputFormat::Json => {
            serde_json::to_writer(&mut *out, &record(args, &changes, &before, &after))?;
            writeln!(out)?;
        }
    }
    let too_high = args.max_peak.is_some_and(|most| peak > most);
    let refused = too_high || (args.exit_code && changes.iter().any(JobChange::matters));
    Ok(if refused { Exit::No } else { Exit::Ok })
}

fn job_change<'a>(
    identity: &'a str,
    old: Option<&Job>,
    new: Option<&Job>,
    due: Range<UtcSecond>,
    room: usize,
) -> JobChange<'a> {
    let presence = match (old, new) {
        (None, _) => Presence::Added,
        (_, None) => Presence::Removed,
        (Some(old), Some(new)) if old.timing == new.timing => Presence::Same,
        _ => Presence::Edited,
    };
    let mut change = JobChange {
        identity,
        presence,
        counts: Counts::default(),
        moved_seconds: 0,
        policy: old
            .zip(new)
            .and_then(|(old, new)| policy_change(&old.timing.policy, &new.timing.policy)),
        periods: Vec::new(),
        left_out: 0,
    };
    if presence == Presence::Same {
        return change;
    }
    for compared in
        compare(old.map(|job| &job.timing), new.map(|job| &job.timing), due.start, due.end)
    {
        let period = match compared {
            Compared::Same(_) => {
                change.counts.unchanged += 1;
                continue;
            }
            Compared::Changed(period) => period,
        };
        match period {
            Change::Moved { old, new } => {
                change.counts.moved += 1;
                change.moved_seconds += i128::from(new.due().since(old.due()));
            }
            Change::Appeared { .. } => change.counts.appeared += 1,
            Change::Vanished { .. } => change.counts.vanished += 1,
            Change::BecameUnschedulable { .. } => change.counts.became_unschedulable += 1,
            Change::BecameSchedulable { .. } => change.counts.became_schedulable += 1,
        }
        if change.periods.len() < room {
            change.periods.push(period);
        } else {
            change.left_out += 1;
        }
    }
    change
}

/// What differs between two policies.
fn policy_change(old: &Policy, new: &Policy) -> Option<String> {
    let mut parts = Vec::new();
    let mut add = |name: &str, old: String, new: String| {
        if old != new {
            parts.push(format!("{name} {old} → {new}"));
        }
    };
    add("concurrency", old.concurrency.to_string(), new.concurrency.to_string());
    add("deadline", old.deadline.to_string(), new.deadline.to_string());
    add("suspend", old.suspend.to_string(), new.suspend.to_string());
    (!parts.is_empty()).then(|| parts.join(", "))
}

impl JobChange<'_> {
    /// Whether the job itself or any of its periods comes, goes or moves.
    fn matters(&self) -> bool {
        let periods = self.periods.len() as u64 + self.left_out;
        periods > 0 || matches!(self.presence, Presence::Added | Presence::Removed)
    }

    fn summary(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |number: u64, verb: &str| {
            if number > 0 {
                parts.push(format!("{} {verb}", count(number, "period")));
            }
        };
        add(self.counts.appeared, "appear");
        add(self.counts.vanished, "vanish");
        add(self.counts.became_unschedulable, "become unschedulable");
        add(self.counts.became_schedulable, "become schedulable");
        if self.counts.moved > 0 {
            let mean = (self.moved_seconds / i128::from(self.counts.moved)) as i64;
            parts.push(format!(
                "{} move, by {} on average",
                count(self.counts.moved, "period"),
                signed(mean)
            ));
        }
        if self.counts.unchanged > 0 {
            parts.push(format!("{} stay", count(self.counts.unchanged, "period")));
        }
        if parts.is_empty() {
            parts.push("no period in this time".to_owned());
        }
        parts.extend(self.policy.clone());
        parts.join("; ")
    }
}

fn change_line(change: &Change) -> String {
    let chosen =
        |time: Option<UtcSecond>| time.map_or("unschedulable".to_owned(), |t| t.to_string());
    match change {
        Change::Moved { old, new } => format!(
            "{}  {} → {}  ({})",
            new.nominal,
            chosen(old.chosen),
            chosen(new.chosen),
            signed(new.due().since(old.due()))
        ),
        Change::Appeared { new } => format!("{}  → {}", new.nominal, chosen(new.chosen)),
        Change::Vanished { old } => format!("{}  {} →", old.nominal, chosen(old.chosen)),
        Change::BecameUnschedulable { old, new } | Change::BecameSchedulable { old, new } => {
            format!("{}  {} → {}", new.nominal, chosen(old.chosen), chosen(new.chosen))
        }
    }
}

fn write_text(
    args: &DiffArgs,
    out: &mut dyn Write,
    changes: &[JobChange<'_>],
    before: &Forecast,
    after: &Forecast,
) -> Result<(), Failure> {
    let horizon = &after.horizon;
    writeln!(out, "{} to {}\n", horizon.from(), horizon.to())?;
    if changes.is_empty() {
        writeln!(out, "nothing changes when any job runs")?;
    }
    for change in changes {
        let mark = match change.presence {
            Presence::Added => '+',
            Presence::Removed => '-',
            Presence::Edited | Presence::Same => '~',
        };
        writeln!(out, "{mark} {}: {}", change.identity, change.summary())?;
        for period in &change.periods {
            writeln!(out, "    {}", change_line(period))?;
        }
        if change.left_out > 0 {
            let hint = if args.all { "than can be listed" } else { "; --all shows them" };
            writeln!(
                out,
                "    … {} more{}{hint}",
                change.left_out,
                if args.all { " " } else { "" }
            )?;
        }
    }
    let peak = |forecast: &Forecast| match forecast.chosen.peak() {
        None => "0".to_owned(),
        Some((bucket, starts)) => format!("{starts} at {}", horizon.bucket_start(bucket)),
    };
    writeln!(out, "\npeak per {}: {} → {}", horizon.bucket(), peak(before), peak(after))?;
    let most = after.chosen.peak().map_or(0, |(_, starts)| starts);
    if let Some(limit) = args.max_peak {
        let verdict = if most > limit { "more than" } else { "within" };
        writeln!(out, "{most} is {verdict} the {limit} that --max-peak allows")?;
    }
    Ok(())
}

#[derive(Serialize)]
struct DiffRecord<'a> {
    from: UtcSecond,
    to: UtcSecond,
    bucket_seconds: u64,
    peak_old: u32,
    peak_new: u32,
    max_peak: Option<u32>,
    within_max_peak: bool,
    jobs: Vec<JobRecord<'a>>,
}

#[derive(Serialize)]
struct JobRecord<'a> {
    identity: &'a str,
    change: &'static str,
    #[serde(flatten)]
    counts: Counts,
    policy: Option<&'a str>,
    periods: Vec<PeriodRecord>,
    periods_left_out: u64,
}

#[derive(Serialize)]
struct PeriodRecord {
    period_id: UtcSecond,
    change: &'static str,
    old: Option<UtcSecond>,
    new: Option<UtcSecond>,
}

fn record<'a>(
    args: &DiffArgs,
    changes: &'a [JobChange<'_>],
    before: &Forecast,
    after: &Forecast,
) -> DiffRecord<'a> {
    let peak = |forecast: &Forecast| forecast.chosen.peak().map_or(0, |(_, starts)| starts);
    let period = |change: &Change| {
        let (word, old, new) = match change {
            Change::Moved { old, new } => ("moved", old.chosen, new.chosen),
            Change::Appeared { new } => ("appeared", None, new.chosen),
            Change::Vanished { old } => ("vanished", old.chosen, None),
            Change::BecameUnschedulable { old, .. } => ("became_unschedulable", old.chosen, None),
            Change::BecameSchedulable { new, .. } => ("became_schedulable", None, new.chosen),
        };
        PeriodRecord { period_id: change.nominal(), change: word, old, new }
    };
    DiffRecord {
        from: after.horizon.from(),
        to: after.horizon.to(),
        bucket_seconds: after.horizon.bucket().get(),
        peak_old: peak(before),
        peak_new: peak(after),
        max_peak: args.max_peak,
        within_max_peak: args.max_peak.is_none_or(|most| peak(after) <= most),
        jobs: changes
            .iter()
            .map(|change| JobRecord {
                identity: change.identity,
                change: match change.presence {
                    Presence::Added => "added",
                    Presence::Removed => "removed",
                    Presence::Edited | Presence::Same => "edited",
                },
                counts: change.counts,
                policy: change.policy.as_deref(),
                periods: change.periods.iter().map(period).collect(),
                periods_left_out: change.left_out,
            })
            .collect(),
    }
}
