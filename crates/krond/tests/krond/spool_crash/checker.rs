//! The judge of what a daemon with a spool did, from the outside.
//!
//! It shares no code with the spool or the daemon. What it knows is what producers meant to put and
//! which of it they know to be durable; what handlers wrote down; whose supervisors the test killed;
//! what lay in the directories whenever no daemon lived; and what lies there when everything is
//! over. From that it tells every [`Fault`]: something that must never be, whatever was killed when.
//!
//! The story must be over when it is judged: nothing runs, and nothing waits that somebody handles.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::spool_crash::witness::{Line, Said, printed};

/// Retries of the handlers in these tests.
pub(crate) const RETRIES: i64 = 1;
/// How long a task of [`Kind::Once`] waits after its failure.
pub(crate) const BACKOFF_MS: u64 = 1_000;
/// How much of that is lost because times are recorded in milliseconds.
const ROUNDED_NS: u64 = NS_PER_MS;
/// The exit code that means that there was nothing to do.
pub(crate) const SKIP_CODE: i64 = 75;
/// The mark of tasks that a job of the scheduler drops.
pub(crate) const DROPPED: &str = "dropped";
/// That job.
pub(crate) const JOB: &str = "drop";
/// Characters of what is told about a fault.
const DETAIL_CHARS_MAX: usize = 3_000;
const NS_PER_MS: u64 = 1_000_000;

/// What a task is like, which is also its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// It succeeds at once.
    Ok,
    /// It fails at its first attempt, and succeeds later.
    Once,
    /// It always fails.
    Fail,
    /// It takes a while.
    Slow,
    /// It goes on until it is released.
    Held,
    /// It finds nothing to do.
    Skip,
    /// Nobody handles it.
    Nobody,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Ok, Kind::Once, Kind::Fail, Kind::Slow, Kind::Held, Kind::Skip, Kind::Nobody];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Ok => "ok",
            Kind::Once => "once",
            Kind::Fail => "fail",
            Kind::Slow => "slow",
            Kind::Held => "held",
            Kind::Skip => "skip",
            Kind::Nobody => "nobody",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn lasts_ms(self) -> u64 {
        match self {
            Kind::Slow => 200,
            _ => 0,
        }
    }

    pub(crate) fn exit_code(self, attempt: i64) -> i64 {
        match self {
            Kind::Once if attempt == 1 => 3,
            Kind::Fail => 7,
            Kind::Skip => SKIP_CODE,
            _ => 0,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Everything that is known from the outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// What producers put, by the ids they gave.
    pub(crate) asked: BTreeMap<String, Asked>,
    /// The tasks that were durable, in the order in which their producers knew it.
    pub(crate) acks: Vec<String>,
    /// Tasks that had failed for good and were to start anew, and whether somebody was told that
    /// they do.
    pub(crate) retried: BTreeMap<String, bool>,
    /// What was put and can never be a task.
    pub(crate) unfit: BTreeSet<String>,
    /// Periods of [`JOB`] that are on record as executed.
    pub(crate) periods: Vec<String>,
    pub(crate) lines: Vec<Said>,
    /// The runs whose supervisors the test killed.
    pub(crate) killed_supervisors: BTreeSet<String>,
    /// What was seen whenever no daemon lived.
    pub(crate) glances: Vec<Glance>,
    /// What is there at the end.
    pub(crate) files: Vec<Filed>,
    pub(crate) rejected: Vec<String>,
}

/// A task that somebody puts.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    /// What its payload says.
    pub(crate) mark: String,
    /// Whether its producer puts it more than once: what was counted may be forgotten then.
    pub(crate) repeated: bool,
}

/// What lay in the directories while no daemon lived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Glance {
    /// How many acknowledgements there were before.
    pub(crate) acks_len: usize,
    /// How many lines of the witness there were after.
    pub(crate) lines_len: usize,
    /// Ids of tasks in `pending/` and `running/`,
    pub(crate) open: Vec<String>,
    /// and in `completed/`.
    pub(crate) completed: Vec<String>,
}

/// A file of a task's.
#[derive(Clone, Debug)]
pub(crate) struct Filed {
    pub(crate) directory: &'static str,
    pub(crate) id: String,
    /// Null when it is not JSON.
    pub(crate) json: Value,
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// A task that was durable is nowhere.
    Vanished,
    /// A task is in two directories.
    TwoPlaces,
    /// A task is there, or ran, that nobody put.
    MadeUp,
    /// A task is not where it belongs in the end.
    NotOver,
    /// A completed task never ran.
    NeverRan,
    /// A task ran after it was completed.
    RanAgain,
    /// A task ran twice at once.
    AtOnce,
    /// Something ran that is not counted, or under a number that is taken.
    Unrecorded,
    /// A run counts as lost, or as begun, that was not.
    FalselyLost,
    /// It was tried too often or not often enough.
    Attempts,
    /// It was tried again before its time.
    TooSoon,
    /// A file says something else than what happened, or than what was put.
    Untrue,
    /// Something sound was set aside, or something unfit was not.
    SetAside,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wrong::Vanished => "acknowledged and gone",
            Wrong::TwoPlaces => "in two places",
            Wrong::MadeUp => "nobody put it",
            Wrong::NotOver => "not where it belongs",
            Wrong::NeverRan => "completed and never ran",
            Wrong::RanAgain => "ran after it was completed",
            Wrong::AtOnce => "ran twice at once",
            Wrong::Unrecorded => "unrecorded run",
            Wrong::FalselyLost => "falsely lost",
            Wrong::Attempts => "wrong number of attempts",
            Wrong::TooSoon => "tried again too soon",
            Wrong::Untrue => "untrue file",
            Wrong::SetAside => "wrongly set aside",
        })
    }
}

/// Something wrong, and where.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) wrong: Wrong,
    pub(crate) detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail: String = self.detail.chars().take(DETAIL_CHARS_MAX).collect();
        write!(f, "{}: {detail}", self.wrong)
    }
}

/// Everything that is wrong with a story.
pub(crate) fn check(story: &Story) -> Vec<Fault> {
    let mut judge = Judge::of(story);
    judge.overlaps();
    judge.glances();
    judge.places();
    judge.set_aside();
    for filed in &story.files {
        judge.task(filed);
    }
    judge.faults
}

/// How the ids of tasks begin that a job drops.
pub(crate) fn dropped_prefix() -> String {
    let digest = Sha256::digest(JOB.as_bytes());
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    hex + "-"
}

/// The id of the task that a period drops.
fn dropped_id(period: &str) -> String {
    dropped_prefix() + &period.replace(':', "").replace('/', "-")
}

/// What one run wrote down.
#[derive(Clone, Debug)]
struct Testimony<'a> {
    run: &'a str,
    attempt: i64,
    mark: &'a str,
    began_ns: u64,
    ended: Option<(u64, i64)>,
    /// Where in the witness it says that it began, and that it ended.
    began_at: usize,
    ended_at: Option<usize>,
}

struct Judge<'a> {
    story: &'a Story,
    /// The runs of each task that began, in their order.
    said: HashMap<&'a str, Vec<Testimony<'a>>>,
    faults: Vec<Fault>,
}

impl<'a> Judge<'a> {
    fn of(story: &'a Story) -> Judge<'a> {
        let mut said: HashMap<&str, Vec<Testimony<'_>>> = HashMap::new();
        for (at, Said { at_ns, line }) in story.lines.iter().enumerate() {
            let runs = said.entry(line.task()).or_default();
            match line {
                Line::Begin { run, attempt, mark, .. } => runs.push(Testimony {
                    run,
                    attempt: *attempt,
                    mark,
                    began_ns: *at_ns,
                    ended: None,
                    began_at: at,
                    ended_at: None,
                }),
                Line::End { run, code, .. } => {
                    if let Some(own) = runs.iter_mut().find(|own| own.run == run) {
                        own.ended = Some((*at_ns, *code));
                        own.ended_at = Some(at);
                    }
                }
                Line::Overlap { .. } => {}
            }
        }
        Judge { story, said, faults: Vec::new() }
    }

    fn fault(&mut self, wrong: Wrong, detail: impl Into<String>) {
        self.faults.push(Fault { wrong, detail: detail.into() });
    }

    /// What a task should be like; `None` when nobody put it.
    fn asked(&self, id: &str) -> Option<Asked> {
        let dropped = || {
            let mark = DROPPED.to_owned();
            let is_dropped = id.starts_with(&dropped_prefix());
            is_dropped.then_some(Asked { kind: Kind::Ok, mark, repeated: false })
        };
        self.story.asked.get(id).cloned().or_else(dropped)
    }

    /// Whenever no daemon lived, what was durable was somewhere, and what was completed has not run
    /// since.
    fn glances(&mut self) {
        let story = self.story;
        // Where in the witness each task was last named.
        let mut last: HashMap<&str, usize> = HashMap::new();
        for (at, said) in story.lines.iter().enumerate() {
            last.insert(said.line.task(), at);
        }
        let mut told: HashSet<&str> = HashSet::new();
        for (number, glance) in story.glances.iter().enumerate() {
            let places = glance.open.iter().chain(&glance.completed);
            let there: HashSet<&str> = places.map(String::as_str).collect();
            for id in story.acks.iter().take(glance.acks_len) {
                if !there.contains(id.as_str()) && told.insert(id) {
                    self.fault(Wrong::Vanished, format!("{id} was nowhere after death {number}"));
                }
            }
            let final_ones = glance.completed.iter().filter(|id| !story.retried.contains_key(*id));
            for id in final_ones {
                let later = last.get(id.as_str()).filter(|at| **at >= glance.lines_len);
                if let Some(at) = later
                    && told.insert(id)
                {
                    let said = &story.lines[*at];
                    let what = format!("completed at death {number}, and later {said:?}");
                    self.fault(Wrong::RanAgain, what);
                }
            }
        }
    }

    /// At the end everything is in one place, and that is the right one.
    fn places(&mut self) {
        let story = self.story;
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for filed in &story.files {
            places.entry(&filed.id).or_default().push(filed.directory);
        }
        let dropped: Vec<String> = story.periods.iter().map(|period| dropped_id(period)).collect();
        for id in story.acks.iter().chain(&dropped) {
            if !places.contains_key(id.as_str()) {
                self.fault(Wrong::Vanished, format!("{id} is nowhere in the end"));
            }
        }
        for (id, places) in &places {
            if places.len() > 1 {
                self.fault(Wrong::TwoPlaces, format!("{id} is in {places:?}"));
            }
            let Some(asked) = self.asked(id) else {
                self.fault(Wrong::MadeUp, format!("{id} in {places:?}"));
                continue;
            };
            let belongs = if asked.kind == Kind::Nobody { "pending" } else { "completed" };
            if !places.contains(&belongs) {
                self.fault(Wrong::NotOver, format!("{id} is in {places:?}"));
            }
        }
        let ran: Vec<&str> = self.said.keys().copied().collect();
        for id in ran {
            let handled = self.asked(id).is_some_and(|asked| asked.kind != Kind::Nobody);
            if !handled || !places.contains_key(id) {
                self.fault(Wrong::MadeUp, format!("{id} ran"));
            }
        }
    }

    /// What can never be a task is set aside once, with a report, and nothing else is.
    fn set_aside(&mut self) {
        let story = self.story;
        let is_report = |name: &&String| name.ends_with(".report");
        let (reports, files): (Vec<&String>, Vec<&String>) =
            story.rejected.iter().partition(is_report);
        let mut counts: BTreeMap<&str, u32> =
            story.unfit.iter().map(|name| (name.as_str(), 0)).collect();
        for file in files {
            // A number follows where a death came between the report and what it is about.
            let of = |name: &&str| file.strip_prefix(*name).is_some_and(is_number);
            let name = counts.keys().copied().find(of);
            match name.and_then(|name| counts.get_mut(name)) {
                Some(count) => *count += 1,
                None => self.fault(Wrong::SetAside, format!("{file} was set aside")),
            }
            if !reports.iter().any(|report| **report == format!("{file}.report")) {
                self.fault(Wrong::SetAside, format!("{file} has no report"));
            }
        }
        for (name, count) in counts {
            if count != 1 {
                self.fault(Wrong::SetAside, format!("{name} was set aside {count} times"));
            }
        }
    }

    /// What the file of a task says is what happened.
    fn task(&mut self, filed: &'a Filed) {
        let Filed { directory, id, json } = filed;
        let Some(mut asked) = self.asked(id) else { return };
        let runs = self.said.get(id.as_str()).cloned().unwrap_or_default();
        let told = || format!("{json} of {directory}, with {runs:?}");
        let payload = &json["payload"];
        let as_put = payload["type"] == asked.kind.name() && payload["data"]["mark"] == asked.mark;
        let named = json["taskId"] == id.as_str()
            && json["state"] == directory.to_uppercase()
            && json["createdAt"].is_string();
        if !as_put || !named || runs.iter().any(|run| run.mark != asked.mark) {
            self.fault(Wrong::Untrue, told());
        }
        if let Some(answered) = self.story.retried.get(id) {
            // All over again, or not at all.
            let all = RETRIES + 1;
            let begun = runs.len() as i64;
            if begun != 2 * all && (*answered || begun != all) {
                self.fault(Wrong::Attempts, format!("retried, answered: {answered}, {}", told()));
            }
            asked.repeated = true;
        }
        let number = |field: &str| json[field].as_i64().unwrap_or_default();
        let (attempts, lost) = (number("attempts"), number("lostAttempts"));
        let begun = runs.len() as i64;
        let killed = runs.iter().filter(|run| self.was_killed(run)).count() as i64;
        if !asked.repeated {
            let numbers: BTreeSet<i64> = runs.iter().map(|run| run.attempt).collect();
            if begun > attempts
                || numbers.len() != runs.len()
                || numbers.last().is_some_and(|last| *last > attempts)
            {
                self.fault(Wrong::Unrecorded, told());
            }
            if attempts > begun {
                self.fault(Wrong::FalselyLost, told());
            }
        }
        if lost > killed {
            self.fault(Wrong::FalselyLost, told());
        }
        if asked.kind == Kind::Once && killed == 0 && !asked.repeated {
            for pair in runs.windows(2) {
                let waited = |ended: u64| pair[1].began_ns.saturating_sub(ended) + ROUNDED_NS;
                let soon = |(ended, _)| waited(ended) < BACKOFF_MS * NS_PER_MS;
                if pair[0].ended.is_some_and(soon) {
                    self.fault(Wrong::TooSoon, told());
                }
            }
        }
        if *directory == "completed" {
            self.result(&asked, filed, &runs, killed);
        }
    }

    /// Whether the test killed the supervisor of a run.
    fn was_killed(&self, run: &Testimony<'_>) -> bool {
        self.story.killed_supervisors.contains(run.run)
    }

    /// The result of a completed task is that of its last run.
    fn result(&mut self, asked: &Asked, filed: &Filed, runs: &[Testimony<'_>], killed: i64) {
        let Filed { id, json, .. } = filed;
        let told = || format!("{json}, with {runs:?}");
        let Some(last) = runs.last() else {
            return self.fault(Wrong::NeverRan, json.to_string());
        };
        let result = &json["result"];
        let code = last.ended.map(|(_, code)| code);
        let outcome = match code {
            Some(0) => "SUCCEEDED",
            Some(SKIP_CODE) => "SKIPPED",
            _ => "FAILED",
        };
        let output = result["output"].as_str().unwrap_or_default();
        let is_true = result["outcome"] == outcome
            && result["exitCode"].as_i64() == code
            && code == Some(asked.kind.exit_code(last.attempt))
            && output.contains(&printed(id, last.attempt))
            && json["completedAt"].is_string()
            && json["run"].is_null();
        // A run whose supervisor was killed may have ended in a way that nobody heard of.
        if !is_true && !self.was_killed(last) {
            self.fault(Wrong::Untrue, told());
        }
        let codes = |wanted: fn(i64) -> bool| {
            let ended = runs.iter().filter(|run| !self.was_killed(run));
            ended.filter(|run| run.ended.is_some_and(|(_, code)| wanted(code))).count() as i64
        };
        let (good, bad) = (codes(|code| matches!(code, 0 | SKIP_CODE)), {
            codes(|code| !matches!(code, 0 | SKIP_CODE))
        });
        let fits = match asked.kind {
            Kind::Fail => good == 0 && bad + killed > RETRIES && bad <= RETRIES + 1,
            _ => good <= 1 && good + killed >= 1 && bad <= RETRIES,
        };
        if !fits && !asked.repeated {
            self.fault(Wrong::Attempts, told());
        }
    }

    /// No task ran twice at once: by what the kernel's lock said, and by the order of the lines.
    fn overlaps(&mut self) {
        for said in &self.story.lines {
            if let Line::Overlap { .. } = &said.line {
                self.fault(Wrong::AtOnce, format!("{said:?}"));
            }
        }
        let mut found = Vec::new();
        for (id, runs) in &self.said {
            for pair in runs.windows(2) {
                if pair[0].ended_at.is_some_and(|ended| ended > pair[1].began_at) {
                    found.push(format!("{id}: {pair:?}"));
                }
            }
        }
        for detail in found {
            self.fault(Wrong::AtOnce, detail);
        }
    }
}

/// Whether the rest of a name is nothing, or a number after a dot.
fn is_number(rest: &str) -> bool {
    let digits = rest.strip_prefix('.');
    rest.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}
