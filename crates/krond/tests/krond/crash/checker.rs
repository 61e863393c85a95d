//! The judge of what a daemon did, from the outside.
//!
//! It shares no code with the daemon. What it knows are the schedules, by arithmetic; the witness
//! files that commands themselves left; who was killed by the test; and the state documents as
//! plain JSON, at the end and at every moment at which no daemon was there. From that it tells
//! every [`Fault`]: something that must never be, whatever was killed when.
//!
//! The story must be over when it is judged: no daemon runs, and every run has ended.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::crash::civil;
use crate::crash::witness::Witness;

/// Everything that is known from the outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) jobs: Vec<Job>,
    /// The daemons, one after the other.
    pub(crate) lives: Vec<Life>,
    /// The runs whose supervisors the test killed.
    pub(crate) killed_supervisors: HashSet<String>,
    /// The commands that the test killed.
    pub(crate) killed_commands: HashSet<i32>,
    pub(crate) witnesses: Vec<Witness>,
    /// The state documents at the end, by identity.
    pub(crate) documents: HashMap<String, Value>,
    /// What is known about the jobs at the end.
    pub(crate) known: Value,
    /// Every period up to this time has an outcome.
    pub(crate) until: i64,
}

/// A job as the test made it.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) identity: String,
    pub(crate) periods: Periods,
    pub(crate) deadline_s: i64,
    pub(crate) overlap: Overlap,
}

/// When a job falls due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Periods {
    /// At this time, and not again for a day.
    Once(i64),
    /// At every multiple of so many seconds, which divide a minute.
    Every(i64),
}

/// What happens when a period falls due while a run is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    Allow,
    Forbid,
    Replace,
}

/// A daemon, from its start to the next one's.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// When it was started, in time since boot.
    pub(crate) since_boot: Duration,
    /// The same in whole seconds of the wall clock.
    pub(crate) wall: i64,
    /// The state documents it found, by identity.
    pub(crate) found: HashMap<String, Value>,
    /// The periods that had left a witness by then.
    pub(crate) witnessed: Vec<(String, i64)>,
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wrong {
    /// A period was executed twice.
    Duplicate,
    /// A command ran of which no document knew, at the end or when a daemon was gone.
    Unrecorded,
    /// A period was executed that had been handled, or was too late, when its daemon started.
    Replay,
    /// A run of a job that forbids it began before another had ended.
    Overlap,
    /// A document says that a command was executed which left no witness, though nobody was
    /// killed who could have seen to that.
    NoWitness,
    /// A supervisor lived to see an exit code that is not recorded.
    ExitCodeLost,
    /// An exit code is recorded that no command had.
    ExitCodeMadeUp,
    /// The mark of what is handled went back.
    MarkMovedBack,
    /// A run is recorded as active that has long ended.
    ActiveForEver,
    /// A period has no outcome.
    NoOutcome,
    /// A period has two outcomes.
    TwoOutcomes,
    /// An outcome is recorded for a period that does not exist, or for a wrong number of them.
    NoSuchPeriod,
    /// What was final is not any more.
    RecordChanged,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wrong::Duplicate => "duplicate execution",
            Wrong::Unrecorded => "unrecorded run",
            Wrong::Replay => "replay",
            Wrong::Overlap => "overlap",
            Wrong::NoWitness => "no witness",
            Wrong::ExitCodeLost => "exit code lost",
            Wrong::ExitCodeMadeUp => "exit code made up",
            Wrong::MarkMovedBack => "mark moved back",
            Wrong::ActiveForEver => "active for ever",
            Wrong::NoOutcome => "no outcome",
            Wrong::TwoOutcomes => "two outcomes",
            Wrong::NoSuchPeriod => "no such period",
            Wrong::RecordChanged => "record changed",
        })
    }
}

/// Something wrong, and where.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) wrong: Wrong,
    pub(crate) identity: String,
    pub(crate) detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of `{}`: {}", self.wrong, self.identity, self.detail)
    }
}

/// The exit code of the command of a period: no code that anything else ends with.
pub(crate) fn exit_code(period: i64) -> i64 {
    40 + period % 60
}

/// How far apart two clocks may be: start times of processes are in hundredths of a second.
const CLOCKS_APART: Duration = Duration::from_millis(50);

/// Everything that is wrong with the story.
pub(crate) fn check(story: &Story) -> Vec<Fault> {
    let mut faults = Vec::new();
    for job in &story.jobs {
        let mut check = Check { story, job, faults: &mut faults };
        check.executions();
        check.each_life();
        check.outcomes();
        check.endings();
        check.active();
    }
    faults
}

/// The examination of one job.
struct Check<'a> {
    story: &'a Story,
    job: &'a Job,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Check<'a> {
    fn fault(&mut self, wrong: Wrong, detail: String) {
        let identity = self.job.identity.clone();
        self.faults.push(Fault { wrong, identity, detail });
    }

    fn document(&self) -> &'a Value {
        self.story.documents.get(&self.job.identity).unwrap_or(&Value::Null)
    }

    fn witnesses(&self) -> Vec<&'a Witness> {
        let of_job = |witness: &&Witness| witness.identity == self.job.identity;
        self.story.witnesses.iter().filter(of_job).collect()
    }

    /// The life in which a command was forked, if its witness could still say when that was.
    fn life_of(&self, witness: &Witness) -> Option<&'a Life> {
        let forked = witness.forked_since_boot?;
        self.story.lives.iter().rev().find(|life| life.since_boot <= forked)
    }

    fn executions(&mut self) {
        let mut witnesses = self.witnesses();
        witnesses.sort_by_key(|witness| (witness.period, witness.forked_since_boot));
        for pair in witnesses.windows(2) {
            if pair[0].period == pair[1].period {
                self.fault(Wrong::Duplicate, format!("{} and {}", pair[0], pair[1]));
            }
        }
        for witness in &witnesses {
            if !is_recorded(self.document(), witness.period) {
                self.fault(Wrong::Unrecorded, witness.to_string());
            }
            if !self.job.periods.contains(witness.period) {
                self.fault(Wrong::NoSuchPeriod, witness.to_string());
            }
            self.replay(witness);
        }
        if self.job.overlap == Overlap::Forbid {
            witnesses.sort_by_key(|witness| witness.forked_since_boot);
            for pair in witnesses.windows(2) {
                let (ended, forked) = (pair[0].ended_since_boot, pair[1].forked_since_boot);
                if let (Some(ended), Some(forked)) = (ended, forked)
                    && forked + CLOCKS_APART < ended
                {
                    self.fault(Wrong::Overlap, format!("{} and {}", pair[0], pair[1]));
                }
            }
        }
    }

    /// Whether a command should not have been started by the daemon that started it, given what
    /// that daemon found and when it came.
    fn replay(&mut self, witness: &Witness) {
        let Some(life) = self.life_of(witness) else { return };
        let found = life.found.get(&self.job.identity).unwrap_or(&Value::Null);
        if mark(found) >= Some(witness.period) {
            self.fault(Wrong::Replay, format!("{witness}: it had been handled before a restart"));
        }
        // A replacement that had begun is continued without another look at the deadline.
        let goes_on = period_of(&found["Replacing"]) == Some(witness.period);
        if witness.period + self.job.deadline_s < life.wall && !goes_on {
            let since = civil::format(life.wall);
            let detail = format!("{witness}: its deadline was over when krond started at {since}");
            self.fault(Wrong::Replay, detail);
        }
    }

    /// What held whenever no daemon was there, and what became of it.
    fn each_life(&mut self) {
        let identity = &self.job.identity;
        let null = Value::Null;
        let lives = self.story.lives.iter();
        let mut found: Vec<&Value> =
            lives.clone().map(|life| life.found.get(identity).unwrap_or(&null)).collect();
        for (life, document) in lives.zip(&found) {
            for (_, period) in life.witnessed.iter().filter(|(of, _)| of == identity) {
                if !is_recorded(document, *period) {
                    let at = civil::format(life.wall);
                    let detail = format!("{} had run at {at}", civil::format(*period));
                    self.fault(Wrong::Unrecorded, detail);
                }
            }
        }
        found.push(self.document());
        for pair in found.windows(2) {
            let (before, after) = (mark(pair[0]), mark(pair[1]));
            if after < before {
                let show = |mark: Option<i64>| mark.map_or("nothing".to_owned(), civil::format);
                let detail = format!("from {} to {}", show(before), show(after));
                self.fault(Wrong::MarkMovedBack, detail);
            }
            let later = history(pair[1]);
            for entry in history(pair[0]).iter().filter(|entry| is_final(entry)) {
                if !later.contains(entry) {
                    self.fault(Wrong::RecordChanged, entry.to_string());
                }
            }
        }
    }

    /// Every period has one outcome and is one of the schedule's.
    fn outcomes(&mut self) {
        let document = self.document();
        let mut outcomes: HashMap<i64, Vec<String>> = HashMap::new();
        for entry in history(document) {
            let Some(first) = period_of(entry) else {
                self.fault(Wrong::NoSuchPeriod, entry.to_string());
                continue;
            };
            let last = entry["LastPeriodID"].as_str().and_then(civil::parse).unwrap_or(first);
            let periods = self.job.periods.between(first, last);
            let count = entry["Count"].as_u64().unwrap_or(1);
            if periods.len() as u64 != count || !self.job.periods.contains(first) {
                self.fault(Wrong::NoSuchPeriod, entry.to_string());
            }
            let said = format!("{} {}", entry["Outcome"], entry["Reason"]);
            for period in periods {
                outcomes.entry(period).or_default().push(said.clone());
            }
        }
        for (period, said) in outcomes.iter().filter(|(_, said)| said.len() > 1) {
            self.fault(Wrong::TwoOutcomes, format!("{}: {said:?}", civil::format(*period)));
        }
        let known = &self.story.known["Jobs"][&self.job.identity]["CreatedAt"];
        let Some(created) = known.as_str().and_then(civil::parse) else {
            self.fault(Wrong::NoOutcome, "`known.json` does not know the job".to_owned());
            return;
        };
        for period in self.job.periods.between(created + 1, self.story.until) {
            if !outcomes.contains_key(&period) {
                self.fault(Wrong::NoOutcome, civil::format(period));
            }
        }
        let latest = outcomes.keys().max().copied();
        if mark(document) != latest {
            let show = |mark: Option<i64>| mark.map_or("nothing".to_owned(), civil::format);
            let detail = format!("it is {}, not {}", show(mark(document)), show(latest));
            self.fault(Wrong::MarkMovedBack, detail);
        }
    }

    /// How executed runs ended.
    fn endings(&mut self) {
        for entry in history(self.document()) {
            let Some(period) = period_of(entry).filter(|_| entry["Outcome"] == "executed") else {
                continue;
            };
            let run = entry["RunID"].as_str().unwrap_or_default();
            let alone = self.story.killed_supervisors.contains(run);
            let replaced = self.job.overlap == Overlap::Replace && entry["Ending"] == "replaced";
            let witness = self.witnesses().into_iter().find(|witness| witness.period == period);
            // Whoever was killed before it could leave a witness cannot be told from the others.
            let commands = &self.story.killed_commands;
            let killed = entry["Signal"] == 9
                && witness.map_or(!commands.is_empty(), |witness| commands.contains(&witness.pid));
            if witness.is_none() && !alone && !replaced && !killed {
                self.fault(Wrong::NoWitness, entry.to_string());
            }
            match entry["ExitCode"].as_i64() {
                Some(code) if witness.is_none() || code != exit_code(period) => {
                    self.fault(Wrong::ExitCodeMadeUp, entry.to_string());
                }
                None if is_final(entry) && !alone && !replaced && !killed => {
                    self.fault(Wrong::ExitCodeLost, entry.to_string());
                }
                Some(_) | None => {}
            }
        }
    }

    /// Nothing is active any more.
    fn active(&mut self) {
        for active in active(self.document()) {
            self.fault(Wrong::ActiveForEver, active.to_string());
        }
        for entry in history(self.document()).iter().filter(|entry| !is_final(entry)) {
            self.fault(Wrong::ActiveForEver, entry.to_string());
        }
    }
}

impl Periods {
    fn contains(self, period: i64) -> bool {
        match self {
            Periods::Once(at) => period == at,
            Periods::Every(step) => period % step == 0,
        }
    }

    /// The first period there is.
    pub(crate) fn first(self) -> i64 {
        match self {
            Periods::Once(at) => at,
            Periods::Every(_) => 0,
        }
    }

    /// All periods from `first` to `last`, both included.
    pub(crate) fn between(self, first: i64, last: i64) -> Vec<i64> {
        match self {
            Periods::Once(at) => Vec::from_iter((first <= at && at <= last).then_some(at)),
            Periods::Every(step) => (first..=last).filter(|at| at % step == 0).collect(),
        }
    }
}

/// The mark of what is handled.
pub(crate) fn mark(document: &Value) -> Option<i64> {
    document["LastHandledPeriodID"].as_str().and_then(civil::parse)
}

/// Every run that has not ended.
pub(crate) fn active(document: &Value) -> impl Iterator<Item = &Value> {
    let others = document["OtherActive"].as_array().map(Vec::as_slice).unwrap_or_default();
    let newest = Some(&document["ActiveExecution"]).filter(|active| !active.is_null());
    others.iter().chain(newest)
}

/// What is recorded about the past, oldest first.
pub(crate) fn history(document: &Value) -> &[Value] {
    document["History"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The period that something in a document is about.
pub(crate) fn period_of(value: &Value) -> Option<i64> {
    value["PeriodID"].as_str().and_then(civil::parse)
}

/// Whether an entry of the history will not change any more.
pub(crate) fn is_final(entry: &Value) -> bool {
    entry["CompletedAt"].as_str().is_some_and(|at| !at.is_empty())
}

/// Whether a document knows that a period was, or is being, executed.
fn is_recorded(document: &Value, period: i64) -> bool {
    let executed = history(document).iter().filter(|entry| entry["Outcome"] == "executed");
    executed.chain(active(document)).any(|value| period_of(value) == Some(period))
}

mod tests;
