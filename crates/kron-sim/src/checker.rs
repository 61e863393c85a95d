//! The judge of histories.
//!
//! It knows the schedule of each job as arithmetic, what the commands themselves left behind, and
//! the JSON that is on the disk at the end. It shares no code with the daemon: documents are read
//! as plain JSON, times as plain numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

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
    /// (identity, period) marks in the order in which they became durable.
    pub marks: &'a [(String, String)],
    /// The documents at the end.
    pub documents: BTreeMap<String, Value>,
    /// Entries of histories that were durable at any time, by job and by run or period, as they
    /// were last seen.
    pub entries: &'a BTreeMap<String, BTreeMap<String, Value>>,
    /// Whether a daemon had time to settle everything.
    pub settled: bool,
    /// The wall clock at the beginning.
    pub begin_unix: i64,
    /// The wall clock at the end.
    pub end_unix: i64,
}

/// What must be true of one job beside what is true of all.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The job.
    pub identity: String,
    /// Its periods are at `phase + n · distance`, are due at their nominal times, and each must
    /// have an outcome.
    pub every: Option<(i64, i64)>,
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
    marks(evidence, expectations, &mut faults);
    for expectation in expectations {
        let job = Job::new(evidence, expectation);
        job.unrecorded(&mut faults);
        job.early_or_late(&mut faults);
        job.exit_codes(&mut faults);
        job.left_over(&mut faults);
        job.silent(&mut faults);
    }
    faults
}

/// No period is executed twice, whatever happened.
fn duplicates(evidence: &Evidence<'_>, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for witness in evidence.witnesses {
        if !seen.insert((&witness.identity, &witness.period)) {
            let what = format!("{} was executed twice", witness.period);
            faults.push(Fault::new(&witness.identity, what));
        }
    }
}

/// What is durable about a job never moves back.
fn marks(evidence: &Evidence<'_>, expectations: &[Expectation], faults: &mut Vec<Fault>) {
    let mut latest: BTreeMap<&str, &str> = BTreeMap::new();
    for (identity, mark) in evidence.marks {
        let damaged = expectations.iter().any(|e| e.identity == *identity && e.damaged);
        let before = latest.insert(identity, mark);
        // Timestamps of one form are in the order of their texts.
        if let Some(before) = before
            && before > mark.as_str()
            && !damaged
        {
            let what = format!("the mark moved back from {before} to `{mark}`");
            faults.push(Fault::new(identity, what));
        }
    }
}

struct Job<'a> {
    evidence: &'a Evidence<'a>,
    expectation: &'a Expectation,
    document: Option<&'a Value>,
    entries: Vec<&'a Value>,
}

impl<'a> Job<'a> {
    fn new(evidence: &'a Evidence<'a>, expectation: &'a Expectation) -> Job<'a> {
        let document = evidence.documents.get(&expectation.identity);
        let entries = evidence.entries.get(&expectation.identity);
        let entries = entries.map(|entries| entries.values().collect()).unwrap_or_default();
        Job { evidence, expectation, document, entries }
    }

    fn fault(&self, faults: &mut Vec<Fault>, what: String) {
        faults.push(Fault::new(&self.expectation.identity, what));
    }

    fn witnesses(&self) -> impl Iterator<Item = &'a Witness> {
        let identity = &self.expectation.identity;
        self.evidence.witnesses.iter().filter(move |witness| witness.identity == *identity)
    }

    fn entry(&self, witness: &Witness) -> Option<&'a Value> {
        self.entries.iter().copied().find(|entry| entry["RunID"] == witness.run.as_str())
    }

    /// Whatever ran is recorded as executed, or as active.
    fn unrecorded(&self, faults: &mut Vec<Fault>) {
        if self.expectation.damaged {
            return;
        }
        for witness in self.witnesses() {
            let executed = self.entry(witness).is_some_and(|entry| {
                entry["Outcome"] == "executed" && entry["PeriodID"] == witness.period.as_str()
            });
            let active = self.active().any(|active| active["RunID"] == witness.run.as_str());
            if !executed && !active {
                self.fault(faults, format!("{} ran and is not recorded", witness.period));
            }
        }
    }

    fn active(&self) -> impl Iterator<Item = &'a Value> {
        let newest = self.document.map(|document| &document["ActiveExecution"]);
        let others = self.document.and_then(|document| document["OtherActive"].as_array());
        newest.into_iter().filter(|active| !active.is_null()).chain(others.into_iter().flatten())
    }

    /// Nothing runs before its time, or after its deadline.
    fn early_or_late(&self, faults: &mut Vec<Fault>) {
        for witness in self.witnesses() {
            let Some(entry) = self.entry(witness) else { continue };
            let Some(chosen) = entry["ChosenTime"].as_str().and_then(unix) else { continue };
            if witness.wall_max_unix < chosen {
                self.fault(faults, format!("{} ran before its time", witness.period));
            }
            let late_s = witness.wall_unix - chosen;
            if let Some(late_max_s) = self.expectation.late_max_s
                && late_s > late_max_s
                && !witness.period.starts_with("manual/")
            {
                let what = format!("{} ran {late_s} s late, at most {late_max_s}", witness.period);
                self.fault(faults, what);
            }
        }
    }

    /// An exit code that somebody lived to see is recorded, and no other one is.
    fn exit_codes(&self, faults: &mut Vec<Fault>) {
        if !self.evidence.settled || self.expectation.damaged {
            return;
        }
        for witness in self.witnesses() {
            let Some(entry) = self.entry(witness) else { continue };
            let recorded = entry["ExitCode"].as_i64();
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
            self.fault(faults, format!("{} is active for ever", active["PeriodID"]));
        }
        for entry in &self.entries {
            if entry["Outcome"] == "executed" && entry["Ending"].is_null() {
                self.fault(faults, format!("the run of {} has no end", entry["PeriodID"]));
            }
            if entry["Outcome"] != "executed" && entry["Reason"].as_str().is_none_or(str::is_empty)
            {
                self.fault(faults, format!("{} has no reason", entry["PeriodID"]));
            }
        }
    }

    /// Every period that was due has exactly one outcome.
    fn silent(&self, faults: &mut Vec<Fault>) {
        let Some((distance, phase)) = self.expectation.every else { return };
        let mut outcomes: BTreeMap<i64, usize> = BTreeMap::new();
        for entry in &self.entries {
            let Some(first) = entry["PeriodID"].as_str().and_then(unix) else { continue };
            let last = entry["LastPeriodID"].as_str().and_then(unix).unwrap_or(first);
            let mut count = 0;
            let mut nominal = first;
            while nominal <= last {
                *outcomes.entry(nominal).or_default() += 1;
                nominal += distance;
                count += 1;
            }
            if let Some(told) = entry["Count"].as_i64()
                && told != count
            {
                self.fault(faults, format!("the stretch from {} counts {told}", entry["PeriodID"]));
            }
        }
        let begin = self.evidence.begin_unix;
        let mut nominal = begin - (begin - phase).rem_euclid(distance) + distance;
        // The very last one may still be on its way.
        while nominal < self.evidence.end_unix - 120 {
            let count = outcomes.remove(&nominal).unwrap_or(0);
            if count != 1 {
                self.fault(faults, format!("{nominal} has {count} outcomes"));
            }
            nominal += distance;
        }
        for nominal in outcomes.keys() {
            if (nominal - phase).rem_euclid(distance) != 0 || *nominal <= begin {
                self.fault(faults, format!("{nominal} is no period and has an outcome"));
            }
        }
    }
}

/// Seconds since 1970 of `YYYY-MM-DDTHH:MM:SSZ`.
fn unix(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Days from a year that begins in March, so that the leap day is the last of it.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}
