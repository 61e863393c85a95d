//! The judge of histories.
//!
//! It knows the schedule of each job as arithmetic, what the commands themselves left behind, and
//! the JSON that was on the disk after each write and at the end. It shares no code with the
//! daemon: documents are read as plain JSON, times as plain numbers.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::calendar::{Periods, unix};
use crate::ledger::{Active, Entry, Record};

/// Seconds before the end from which on a period may still be on its way.
const UNSETTLED_S: i64 = 120;
/// Seconds after the end in which periods may still be started.
const AFTERMATH_S: i64 = 3_600;

/// What a command left behind: proof that it ran.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The run.
    pub run: String,
    /// The job.
    pub identity: String,
    /// The period, or the name of a run by hand.
    pub period: String,
    /// What the wall clock showed.
    pub wall_unix: i64,
    /// The latest that it had ever shown.
    pub wall_max_unix: i64,
    /// How long the machine slept between the decision to run it and that.
    pub slept_s: i64,
    /// How it exited, once it has.
    pub exit_code: Option<i64>,
    /// Whether somebody lived to see and tell that.
    pub seen: bool,
}

/// Everything there is to judge by.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// What commands left behind, in the order in which they ran.
    pub witnesses: &'a [Witness],
    /// What was ever durable, by job.
    pub records: &'a BTreeMap<String, Record>,
    /// The runs that are recorded as active at the end, by job.
    pub active: BTreeMap<String, Vec<Active>>,
    /// Whether a daemon had time to settle everything.
    pub settled: bool,
    /// What the wall clock showed when the first daemon started.
    pub first_unix: i64,
    /// What it showed when the daemon started that made the jobs durably known: what fell due
    /// before that may have an outcome or not.
    pub begin_unix: i64,
    /// What it showed at the end.
    pub end_unix: i64,
}

/// What must be true of one job beside what is true of all.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The job.
    pub identity: String,
    /// Its periods, each of which must have an outcome; `None` when something happened after
    /// which not all of them need one.
    pub periods: Option<Periods>,
    /// Seconds that its window begins before and ends after the nominal time; `None` when that
    /// has changed.
    pub reach_s: Option<(i64, i64)>,
    /// Nothing of it may run later than this many seconds after its chosen time.
    pub late_max_s: Option<i64>,
    /// Its state was damaged on purpose: what is recorded may be gone, but nothing may run twice.
    pub damaged: bool,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The job.
    pub identity: String,
    /// What is wrong.
    pub what: String,
}

impl Fault {
    pub(crate) fn new(identity: &str, what: String) -> Fault {
        Fault { identity: identity.to_owned(), what }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.identity, self.what)
    }
}

/// Everything that is wrong with a history.
#[must_use]
pub fn check(evidence: &Evidence<'_>, expectations: &[Expectation]) -> Vec<Fault> {
    let mut faults = Vec::new();
    duplicates(evidence, &mut faults);
    for expectation in expectations {
        let job = Job::new(evidence, expectation);
        job.odd(&mut faults);
        job.unrecorded(&mut faults);
        job.early_or_late(&mut faults);
        job.misplaced(&mut faults);
        job.exit_codes(&mut faults);
        job.left_over(&mut faults);
        job.contradicted(&mut faults);
        job.silent(&mut faults);
    }
    faults
}

/// No period is executed twice, whatever happened.
fn duplicates(evidence: &Evidence<'_>, faults: &mut Vec<Fault>) {
    let mut seen = HashSet::new();
    for witness in evidence.witnesses {
        if !seen.insert((&witness.identity, &witness.period)) {
            let what = format!("{} was executed twice", witness.period);
            faults.push(Fault::new(&witness.identity, what));
        }
    }
}

struct Job<'a> {
    evidence: &'a Evidence<'a>,
    expectation: &'a Expectation,
    record: Option<&'a Record>,
    witnesses: Vec<&'a Witness>,
}

impl<'a> Job<'a> {
    fn new(evidence: &'a Evidence<'a>, expectation: &'a Expectation) -> Job<'a> {
        let identity = &expectation.identity;
        let witnesses = evidence.witnesses.iter().filter(|witness| witness.identity == *identity);
        Job {
            evidence,
            expectation,
            record: evidence.records.get(identity),
            witnesses: witnesses.collect(),
        }
    }

    fn fault(&self, faults: &mut Vec<Fault>, what: String) {
        faults.push(Fault::new(&self.expectation.identity, what));
    }

    fn entries(&self) -> impl Iterator<Item = &'a Entry> {
        self.record.into_iter().flat_map(|record| record.entries.values())
    }

    fn entry(&self, witness: &Witness) -> Option<&'a Entry> {
        self.record?.entries.get(&witness.run)
    }

    fn active(&self) -> &'a [Active] {
        self.evidence.active.get(&self.expectation.identity).map_or(&[], Vec::as_slice)
    }

    /// What is durable never moves back, and what is final never changes.
    fn odd(&self, faults: &mut Vec<Fault>) {
        let Some(record) = self.record else { return };
        if self.expectation.damaged {
            return;
        }
        for pair in record.marks.windows(2) {
            if let [before, after] = pair
                && after < before
            {
                self.fault(faults, format!("the mark moved back from {before} to {after}"));
            }
        }
        for oddity in &record.oddities {
            self.fault(faults, oddity.clone());
        }
    }

    /// Whatever ran is recorded as executed, or as active.
    fn unrecorded(&self, faults: &mut Vec<Fault>) {
        if self.expectation.damaged {
            return;
        }
        for witness in &self.witnesses {
            let executed = self
                .entry(witness)
                .is_some_and(|entry| entry.executed && entry.period == witness.period);
            let active = self.active().iter().any(|active| active.run == witness.run);
            if !executed && !active {
                self.fault(faults, format!("{} ran and is not recorded", witness.period));
            }
        }
    }

    /// Nothing runs before its time, or after its deadline.
    fn early_or_late(&self, faults: &mut Vec<Fault>) {
        for witness in &self.witnesses {
            let Some(chosen) = self.entry(witness).and_then(|entry| entry.chosen_unix) else {
                continue;
            };
            if witness.wall_max_unix < chosen {
                self.fault(faults, format!("{} ran before its time", witness.period));
            }
            let late_s = witness.wall_unix - chosen - witness.slept_s;
            if let Some(late_max_s) = self.expectation.late_max_s
                && late_s > late_max_s
                && !witness.period.starts_with("manual/")
            {
                let what = format!("{} ran {late_s} s late, at most {late_max_s}", witness.period);
                self.fault(faults, what);
            }
        }
    }

    /// Nothing is due outside its window.
    fn misplaced(&self, faults: &mut Vec<Fault>) {
        let Some((before_s, after_s)) = self.expectation.reach_s else { return };
        for entry in self.entries() {
            let (Some(chosen), Some(nominal)) = (entry.chosen_unix, unix(&entry.period)) else {
                continue;
            };
            if !(nominal - before_s..=nominal + after_s).contains(&chosen) {
                self.fault(faults, format!("{} is due outside its window", entry.period));
            }
        }
    }

    /// An exit code that somebody lived to see is recorded, and no other one is.
    fn exit_codes(&self, faults: &mut Vec<Fault>) {
        if !self.evidence.settled || self.expectation.damaged {
            return;
        }
        for witness in &self.witnesses {
            let Some(entry) = self.entry(witness) else { continue };
            let recorded = entry.exit_code;
            if witness.seen && recorded != witness.exit_code {
                let what = format!(
                    "{} exited with {:?}, and {recorded:?} is recorded",
                    witness.period, witness.exit_code
                );
                self.fault(faults, what);
            }
            if recorded.is_some() && recorded != witness.exit_code {
                let what = format!("{} has a made-up exit code {recorded:?}", witness.period);
                self.fault(faults, what);
            }
        }
    }

    /// When everything has settled nothing is active, and every run has an end.
    fn left_over(&self, faults: &mut Vec<Fault>) {
        if !self.evidence.settled || self.expectation.damaged {
            return;
        }
        for active in self.active() {
            self.fault(faults, format!("{} is active for ever", active.period));
        }
        for entry in self.entries() {
            if entry.executed && !entry.has_ending {
                self.fault(faults, format!("the run of {} has no end", entry.period));
            }
            if !entry.executed && !entry.has_reason {
                self.fault(faults, format!("{} has no reason", entry.period));
            }
        }
    }

    /// No period has two outcomes, whatever happened.
    fn contradicted(&self, faults: &mut Vec<Fault>) {
        if self.expectation.damaged {
            return;
        }
        let mut spans: Vec<(i64, i64)> = self
            .entries()
            .filter_map(|entry| {
                unix(&entry.period).map(|first| (first, entry.last_unix.unwrap_or(first)))
            })
            .collect();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            if let [(_, last), (next, _)] = pair
                && next <= last
            {
                self.fault(faults, format!("{next} has two outcomes"));
            }
        }
    }

    /// Every period that was due has an outcome, and nothing else has.
    fn silent(&self, faults: &mut Vec<Fault>) {
        let Some(periods) = &self.expectation.periods else { return };
        let (before_s, after_s) = self.expectation.reach_s.unwrap_or_default();
        let (begin, end) = (self.evidence.begin_unix, self.evidence.end_unix);
        let first = self.evidence.first_unix - after_s;
        let nominals = periods.within(first, end + before_s + AFTERMATH_S);
        let mut handled = vec![false; nominals.len()];
        for entry in self.entries() {
            let Some(first) = unix(&entry.period) else { continue };
            let last = entry.last_unix.unwrap_or(first);
            let from = nominals.partition_point(|nominal| *nominal < first);
            let to = nominals.partition_point(|nominal| *nominal <= last);
            if from == to || nominals[from] != first || nominals[to - 1] != last {
                self.fault(faults, format!("{} is no period and has an outcome", entry.period));
                continue;
            }
            if entry.count.is_some_and(|count| count != (to - from) as i64) {
                let what = format!("the stretch from {} counts {:?}", entry.period, entry.count);
                self.fault(faults, what);
            }
            handled[from..to].fill(true);
        }
        for (nominal, handled) in nominals.iter().zip(handled) {
            let surely_due = nominal - before_s > begin && nominal + after_s < end - UNSETTLED_S;
            if surely_due && !handled {
                self.fault(faults, format!("{nominal} has no outcome"));
            }
        }
    }
}
