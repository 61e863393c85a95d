//! `kubectl kron next`: the coming runs of KronJobs, all of them in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use kron_core::{Decision, DecisionRecord, Timing, UtcSecond};
use kron_operator::resource::Fault;
use serde::Serialize;

use super::kronjobs::{self, KronJob};
use super::kubectl::{Kubectl, Which};
use crate::args::{OutputFormat, PluginNextArgs};
use crate::command::next::write_periods;
use crate::failure::{Exit, Failure};
use crate::text::write_json;
use crate::{clock, jobs};

/// Runs of a single KronJob that are shown where nothing else is said.
const COUNT_OF_ONE: u32 = 5;

pub(crate) fn run(
    args: &PluginNextArgs,
    kubectl: &Kubectl<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let after = jobs::time("--after", args.after.as_deref())?;
    let kronjobs = kronjobs::fetch(kubectl, Which::of(&args.names, &args.choice))?;
    let is_alone = args.names.len() == 1 && kronjobs.len() == 1;
    let count = args.count.unwrap_or(if is_alone { COUNT_OF_ONE } else { 1 });
    let now = clock::now();
    let found = match args.format {
        OutputFormat::Json => write_records(out, &kronjobs, after, count, now)?,
        OutputFormat::Text => match kronjobs.first() {
            Some(KronJob { timing: Ok(timing), .. }) if is_alone => {
                write_periods(out, timing, after, count, &kronjobs[0].remarks(now))?
            }
            _ => write_text(out, &kronjobs, after, count, now)?,
        },
    };
    let is_invalid = kronjobs.iter().any(|kronjob| kronjob.timing.is_err());
    Ok(match found {
        _ if is_invalid && !args.names.is_empty() => Exit::Refused,
        0 => Exit::No,
        _ => Exit::Ok,
    })
}

/// The runs of many KronJobs in order of time, without keeping more than one of each.
struct Merged<'a> {
    /// When the next run of each is due, its nominal time, and whose it is.
    order: BinaryHeap<Reverse<(UtcSecond, UtcSecond, usize)>>,
    /// The next run of each.
    next: Vec<Option<Decision>>,
    /// The runs after that.
    rest: Vec<Box<dyn Iterator<Item = Decision> + 'a>>,
}

impl<'a> Merged<'a> {
    fn new(timings: &[&'a Timing], after: UtcSecond, count: u32) -> Merged<'a> {
        let mut merged = Merged {
            order: BinaryHeap::new(),
            next: vec![None; timings.len()],
            rest: Vec::with_capacity(timings.len()),
        };
        for (index, timing) in timings.iter().enumerate() {
            merged.rest.push(Box::new(timing.due_after(after).take(count as usize)));
            merged.advance(index);
        }
        merged
    }

    fn advance(&mut self, index: usize) {
        self.next[index] = self.rest[index].next();
        if let Some(decision) = &self.next[index] {
            self.order.push(Reverse((decision.due(), decision.nominal, index)));
        }
    }
}

impl Iterator for Merged<'_> {
    type Item = (usize, Decision);

    fn next(&mut self) -> Option<(usize, Decision)> {
        let Reverse((_, _, index)) = self.order.pop()?;
        let decision = self.next[index]?;
        self.advance(index);
        Some((index, decision))
    }
}

/// KronJobs that the engine can read, with their timings.
fn sound(kronjobs: &[KronJob]) -> (Vec<&KronJob>, Vec<&Timing>) {
    kronjobs.iter().filter_map(|kronjob| Some((kronjob, kronjob.timing.as_ref().ok()?))).unzip()
}

fn write_text(
    out: &mut dyn Write,
    kronjobs: &[KronJob],
    after: UtcSecond,
    count: u32,
    now: UtcSecond,
) -> Result<u64, Failure> {
    writeln!(out, "after {after}\n")?;
    let (sound, timings) = sound(kronjobs);
    let remarks: Vec<String> =
        sound.iter().map(|kronjob| kronjob.remarks(now).join("; ")).collect();
    let width = |cells: &mut dyn Iterator<Item = usize>, header: &str| {
        cells.max().unwrap_or(0).max(header.len())
    };
    let names = width(&mut sound.iter().map(|kronjob| kronjob.identity.chars().count()), "kronjob");
    let zones = width(&mut timings.iter().map(|timing| zone_name(timing).len()), "zone");
    let mut found = 0;
    for (index, decision) in Merged::new(&timings, after, count) {
        if found == 0 {
            let (chosen, nominal) = ("chosen", "nominal");
            let line = format!("{chosen:20}  {:names$}  {nominal:20}  zone", "kronjob");
            writeln!(out, "{line}")?;
        }
        found += 1;
        let chosen = decision.chosen.map_or("unschedulable".to_owned(), |at| at.to_string());
        let line = format!(
            "{chosen:20}  {:names$}  {}  {:zones$}  {}",
            sound[index].identity,
            decision.nominal,
            zone_name(timings[index]),
            remarks[index]
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    if found == 0 {
        let why = match kronjobs.is_empty() {
            true => "there is no KronJob here",
            false => "no KronJob has a period after that",
        };
        writeln!(out, "nothing: {why}")?;
    }
    for kronjob in kronjobs {
        let Err(faults) = &kronjob.timing else { continue };
        writeln!(out, "\n{}: invalid, nothing runs", kronjob.identity)?;
        for fault in faults {
            writeln!(out, "  {fault}")?;
        }
    }
    Ok(found)
}

fn zone_name(timing: &Timing) -> &str {
    timing.placement().zone().name()
}

/// A run, or a KronJob that has none because it is invalid.
#[derive(Serialize)]
struct RunRecord<'a> {
    namespace: &'a str,
    name: &'a str,
    suspended: bool,
    /// Whether the operator has read the spec as it is now.
    observed: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    remarks: &'a [String],
    #[serde(flatten)]
    decision: Option<DecisionRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    invalid: Vec<FaultRecord<'a>>,
}

#[derive(Serialize)]
struct FaultRecord<'a> {
    field: &'a str,
    message: &'a str,
}

impl<'a> RunRecord<'a> {
    fn of(kronjob: &'a KronJob, remarks: &'a [String]) -> RunRecord<'a> {
        let faults: &[Fault] = kronjob.timing.as_ref().err().map_or(&[], Vec::as_slice);
        RunRecord {
            namespace: &kronjob.metadata.namespace,
            name: &kronjob.metadata.name,
            suspended: kronjob.timing.as_ref().is_ok_and(|timing| timing.policy.suspend),
            observed: kronjob.is_observed(),
            remarks,
            decision: None,
            invalid: faults
                .iter()
                .map(|fault| FaultRecord { field: fault.field, message: &fault.message })
                .collect(),
        }
    }
}

fn write_records(
    out: &mut dyn Write,
    kronjobs: &[KronJob],
    after: UtcSecond,
    count: u32,
    now: UtcSecond,
) -> Result<u64, Failure> {
    let (sound, timings) = sound(kronjobs);
    let remarks: Vec<Vec<String>> = sound.iter().map(|kronjob| kronjob.remarks(now)).collect();
    let mut found = 0;
    for (index, decision) in Merged::new(&timings, after, count) {
        found += 1;
        let placement = timings[index].placement();
        let record = RunRecord {
            decision: Some(DecisionRecord::of(placement, &decision)),
            ..RunRecord::of(sound[index], &remarks[index])
        };
        write_json(out, &record)?;
    }
    for kronjob in kronjobs.iter().filter(|kronjob| kronjob.timing.is_err()) {
        write_json(out, &RunRecord::of(kronjob, &kronjob.remarks(now)))?;
    }
    Ok(found)
}
