//! The judge of what a daemon with a queue did, from the outside.
//!
//! It shares no code with the daemon and knows nothing of its database. What it knows is what
//! clients asked for and what they were answered; what handlers wrote down; whose supervisors the
//! test killed; and what the API says when everything is over. From that it tells every [`Fault`]:
//! something that must never be, whatever was killed when.
//!
//! The story must be over when it is judged: nothing is queued, nothing runs.

mod order;
mod retries;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde_json::Value;

use crate::queue_crash::witness::{Line, Said};

/// Retries of the handlers in these tests, and those after a loss.
pub(crate) const RETRIES: i64 = 2;
pub(crate) const LOST_RETRIES: i64 = 1;
/// The exit code that means that there was nothing to do.
pub(crate) const SKIP_CODE: i64 = 75;
/// Characters of what is told about a fault.
const DETAIL_CHARS_MAX: usize = 3_000;
/// The type of which one job runs at a time, so that its jobs begin in their order.
pub(crate) const ORDERED: &str = "ordered";
/// The type that a job of the scheduler enqueues.
pub(crate) const HANDED_OVER: &str = "handed-over";

/// Everything that is known from the outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// Jobs that clients asked for, by the names they gave them.
    pub(crate) asked: BTreeMap<String, Asked>,
    /// What they were told, in the order in which they heard it.
    pub(crate) acks: Vec<Ack>,
    /// Jobs whose end was asked for, with the status of the answer; 0 when there was none.
    pub(crate) cancels: Vec<(String, u16)>,
    /// What callers of direct runs were told: the answer, or null for "busy".
    pub(crate) directs: Vec<(String, Value)>,
    /// Answers that nobody should get: server errors and refusals of sound requests.
    pub(crate) strange: Vec<String>,
    pub(crate) lines: Vec<Said>,
    /// The runs whose supervisors the test killed: the last 16 digits of their ids.
    pub(crate) killed_supervisors: BTreeSet<String>,
    /// What the API says at the end.
    pub(crate) jobs: Vec<Value>,
    pub(crate) runs: Vec<Value>,
    pub(crate) deliveries: Vec<Value>,
    pub(crate) reservation: Value,
    /// Jobs and events that the webhook's receiver was told.
    pub(crate) heard: BTreeSet<(String, String)>,
}

/// A job that somebody asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Everything that was asked for at once: all of it is there, or nothing.
    pub(crate) together: Vec<String>,
}

/// A job that somebody was told is in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    pub(crate) name: String,
    pub(crate) job: String,
    pub(crate) at_ns: u64,
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// An acknowledged job is not there, or is another one.
    Vanished,
    /// One request made two jobs.
    Doubled,
    /// Of what was asked for at once, only a part is there.
    Torn,
    /// A job is there that nobody asked for.
    MadeUp,
    /// A job began twice.
    RanTwice,
    /// Something ran of which the API knows nothing, or something else.
    Unrecorded,
    /// A job or a run has not ended, or has ended in two ways.
    NoOneOutcome,
    /// A run counts as lost, or as never begun, whose handler ran to its end.
    FalselyLost,
    /// The recorded exit code is not the handler's.
    ExitCode,
    /// A failed job has no successor and no reason for that.
    RetryLost,
    /// A job has two successors, or one that it must not have.
    RetryDoubled,
    /// A job ran that was cancelled before, or its cancellation was forgotten.
    CancelForgotten,
    /// A caller of a direct run was told something else than what happened.
    Untrue,
    /// A period made two jobs.
    PeriodTwice,
    /// A job began before one that was ahead of it.
    OutOfOrder,
    /// A member of a group began before its turn.
    GroupOrder,
    /// A reservation is still there.
    ReservationStays,
    /// Nobody is to be told of an end, or nobody was who is said to have been.
    Untold,
    /// An answer that nobody should get.
    Strange,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wrong::Vanished => "acknowledged and gone",
            Wrong::Doubled => "one request, two jobs",
            Wrong::Torn => "torn apart",
            Wrong::MadeUp => "nobody asked for it",
            Wrong::RanTwice => "ran twice",
            Wrong::Unrecorded => "unrecorded run",
            Wrong::NoOneOutcome => "not exactly one outcome",
            Wrong::FalselyLost => "falsely lost",
            Wrong::ExitCode => "wrong exit code",
            Wrong::RetryLost => "retry lost",
            Wrong::RetryDoubled => "retry doubled",
            Wrong::CancelForgotten => "cancel forgotten",
            Wrong::Untrue => "untrue answer",
            Wrong::PeriodTwice => "period twice",
            Wrong::OutOfOrder => "out of order",
            Wrong::GroupOrder => "out of its group's turn",
            Wrong::ReservationStays => "reservation stays",
            Wrong::Untold => "untold",
            Wrong::Strange => "strange answer",
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

/// What one job's handlers wrote down.
#[derive(Clone, Debug, Default)]
struct Testimony {
    /// Where in the witness it began, and when.
    began: Vec<(usize, u64)>,
    ended: Option<(usize, i64)>,
}

/// Everything that is wrong with a story.
pub(crate) fn check(story: &Story) -> Vec<Fault> {
    let mut judge = Judge::of(story);
    judge.requests();
    judge.runs();
    judge.cancels();
    judge.directs();
    judge.periods();
    judge.webhooks();
    retries::check(&mut judge);
    order::check(&mut judge);
    if !story.reservation.is_null() {
        judge.fault(Wrong::ReservationStays, story.reservation.to_string());
    }
    for answer in &story.strange {
        judge.fault(Wrong::Strange, answer.clone());
    }
    judge.faults
}

struct Judge<'a> {
    story: &'a Story,
    jobs: HashMap<&'a str, &'a Value>,
    /// The runs of each job.
    runs_of: HashMap<&'a str, Vec<&'a Value>>,
    said: HashMap<&'a str, Testimony>,
    faults: Vec<Fault>,
}

/// A text in a row; empty when it is null.
fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

impl<'a> Judge<'a> {
    fn of(story: &'a Story) -> Judge<'a> {
        let mut runs_of: HashMap<&str, Vec<&Value>> = HashMap::new();
        for run in &story.runs {
            runs_of.entry(text(run, "job_id")).or_default().push(run);
        }
        let mut said: HashMap<&str, Testimony> = HashMap::new();
        for (at, Said { at_ns, line }) in story.lines.iter().enumerate() {
            match line {
                Line::Begin { job, .. } => said.entry(job).or_default().began.push((at, *at_ns)),
                Line::End { job, code, .. } => {
                    said.entry(job).or_default().ended = Some((at, *code));
                }
            }
        }
        let jobs = story.jobs.iter().map(|job| (text(job, "job_id"), job)).collect();
        Judge { story, jobs, runs_of, said, faults: Vec::new() }
    }

    fn fault(&mut self, wrong: Wrong, detail: impl Into<String>) {
        self.faults.push(Fault { wrong, detail: detail.into() });
    }

    fn run_of(&self, job: &str) -> Option<&'a Value> {
        self.runs_of.get(job).and_then(|runs| runs.first().copied())
    }

    /// Whether somebody asked for the end of a job that had not ended, answered or not.
    fn was_cancelled(&self, job: &str) -> bool {
        let asked = &mut self.story.cancels.iter();
        asked.any(|(cancelled, status)| cancelled == job && *status != 409)
    }

    fn supervisor_was_killed(&self, run: &str) -> bool {
        let digits = run.replace('-', "");
        let half = digits.get(16..).unwrap_or_default();
        self.story.killed_supervisors.contains(half)
    }

    /// What was acknowledged is there, once and whole, and nothing else is.
    fn requests(&mut self) {
        let story = self.story;
        let mut told: BTreeMap<&str, &str> = BTreeMap::new();
        for Ack { name, job, .. } in &story.acks {
            match self.jobs.get(job.as_str()) {
                None => self.fault(Wrong::Vanished, format!("{name} as {job}")),
                Some(found) if found["params"]["name"] != name.as_str() => {
                    self.fault(Wrong::Vanished, format!("{name} as {job}, which is {found}"));
                }
                Some(_) => {}
            }
            if *told.entry(name).or_insert(job) != job {
                self.fault(Wrong::Doubled, format!("{name} was told to be {job} and another"));
            }
        }
        let mut originals: BTreeMap<&str, u32> = BTreeMap::new();
        for job in story.jobs.iter().filter(|job| job["retry_of"].is_null()) {
            // What the clock makes has no name.
            let name = text(&job["params"], "name");
            if !job["schedule_id"].is_null() || job["job_type"] == HANDED_OVER {
                continue;
            }
            *originals.entry(name).or_default() += 1;
            if !story.asked.contains_key(name) {
                self.fault(Wrong::MadeUp, job.to_string());
            }
        }
        for (name, asked) in &story.asked {
            let count = originals.get(name.as_str()).copied().unwrap_or_default();
            if count > 1 {
                self.fault(Wrong::Doubled, format!("{name}: {count} jobs"));
            }
            let others = asked.together.iter();
            let present = others.filter(|other| originals.contains_key(other.as_str())).count();
            if present != 0 && present != asked.together.len() {
                self.fault(Wrong::Torn, format!("{present} of {:?}", asked.together));
            }
        }
    }

    /// Each run ran once, and ended as it is recorded.
    fn runs(&mut self) {
        let story = self.story;
        for Said { line, .. } in &story.lines {
            let (Line::Begin { job, run, .. } | Line::End { job, run, .. }) = line;
            let known = self.runs_of.get(job.as_str());
            if !known.is_some_and(|runs| runs.iter().any(|known| known["run_id"] == run.as_str())) {
                self.fault(Wrong::Unrecorded, format!("{line:?}"));
            }
            if let Line::Begin { attempt, retry_of, .. } = line
                && let Some(found) = self.jobs.get(job.as_str())
            {
                let parent = found["retry_of"].as_str().unwrap_or("-");
                if found["attempt"] != *attempt || parent != retry_of {
                    self.fault(Wrong::Unrecorded, format!("{line:?} of {found}"));
                }
            }
        }
        for job in &story.jobs {
            self.outcome(job);
        }
        let twice: Vec<String> = self
            .said
            .iter()
            .filter(|(_, said)| said.began.len() > 1)
            .map(|(job, said)| format!("{job} began at lines {:?}", said.began))
            .collect();
        for detail in twice {
            self.fault(Wrong::RanTwice, detail);
        }
    }

    fn outcome(&mut self, job: &'a Value) {
        let id = text(job, "job_id");
        let runs = self.runs_of.get(id).cloned().unwrap_or_default();
        let state = text(job, "state");
        let statuses: Vec<&str> = runs.iter().map(|run| text(run, "status")).collect();
        let fits = match (state, statuses.as_slice()) {
            ("completed", ["COMPLETED"]) | ("failed", ["FAILED"]) => true,
            // A member of a group that is passed over never ran.
            ("skipped", [] | ["SKIPPED"]) | ("cancelled", [] | ["FAILED"]) => true,
            _ => false,
        };
        if !fits {
            self.fault(Wrong::NoOneOutcome, format!("{job} with runs {runs:?}"));
        }
        let Some(run) = runs.first() else { return };
        let testimony = self.said.get(id).cloned().unwrap_or_default();
        let (recorded, ended) = (run["exit_code"].as_i64(), testimony.ended.map(|(_, code)| code));
        if let Some(code) = recorded {
            // A handler may come to a good end when it has been asked to end: it is cancelled all the same.
            let is_cancelled = self.was_cancelled(id) && run["error"] == "cancelled";
            let expected = match code {
                _ if is_cancelled => "FAILED",
                0 => "COMPLETED",
                SKIP_CODE => "SKIPPED",
                _ => "FAILED",
            };
            if ended != Some(code) || run["status"] != expected {
                self.fault(Wrong::ExitCode, format!("the handler said {ended:?}: {run}"));
            }
        }
        let undisturbed =
            !self.was_cancelled(id) && !self.supervisor_was_killed(text(run, "run_id"));
        if !testimony.began.is_empty() && undisturbed && (recorded.is_none() || run["lost"] == true)
        {
            self.fault(Wrong::FalselyLost, format!("the handler said {ended:?}: {run}"));
        }
    }

    fn cancels(&mut self) {
        for (id, status) in &self.story.cancels {
            let Some(job) = self.jobs.get(id.as_str()).copied() else { continue };
            let began = self.said.get(id.as_str()).is_some_and(|said| !said.began.is_empty());
            match status {
                // It was still queued: it is cancelled and nothing of it ever runs.
                200 if job["state"] != "cancelled" || began => {
                    self.fault(Wrong::CancelForgotten, format!("began: {began}, {job}"));
                }
                // It ran: unless it came to a good end before, it is cancelled.
                202 if job["state"] == "failed" => {
                    self.fault(Wrong::CancelForgotten, job.to_string());
                }
                _ => {}
            }
        }
    }

    /// Callers of direct runs were told the truth.
    fn directs(&mut self) {
        for (name, answer) in &self.story.directs {
            let of_name = |job: &&Value| job["params"]["name"] == name.as_str();
            if answer.is_null() {
                if let Some(job) = self.story.jobs.iter().find(of_name) {
                    self.fault(Wrong::Untrue, format!("{name} was told busy, but: {job}"));
                }
                continue;
            }
            let id = text(&answer["job"], "job_id");
            let (job, run) = (self.jobs.get(id).copied(), self.run_of(id));
            let same = |told: &Value, found: Option<&Value>, fields: &[&str]| {
                found.is_some_and(|found| fields.iter().all(|field| told[field] == found[field]))
            };
            let same_job = same(&answer["job"], job, &["state", "params", "finished_at"]);
            let told = ["run_id", "status", "exit_code", "error", "finished_at"];
            if !same_job || !same(&answer["run"], run, &told) {
                self.fault(Wrong::Untrue, format!("{answer} but {job:?} {run:?}"));
            }
        }
    }

    /// Each period made one job at most.
    fn periods(&mut self) {
        let mut seen = BTreeSet::new();
        for job in self.story.jobs.iter().filter(|job| job["retry_of"].is_null()) {
            let period = match job["job_type"] == HANDED_OVER {
                true => ("scheduler", text(job, "idempotency_key")),
                false => (text(job, "schedule_id"), text(job, "period_id")),
            };
            if !period.0.is_empty() && !seen.insert(period) {
                self.fault(Wrong::PeriodTwice, job.to_string());
            }
        }
    }

    /// Of each end somebody is to be told, and whoever is said to have been told was.
    fn webhooks(&mut self) {
        let mut recorded = BTreeSet::new();
        for delivery in &self.story.deliveries {
            let job = text(&delivery["payload"]["job"], "job_id");
            let event = text(delivery, "event");
            if !recorded.insert((job, event)) {
                self.fault(Wrong::Untold, format!("twice: {delivery}"));
            }
            let heard = self.story.heard.contains(&(job.to_owned(), event.to_owned()));
            if delivery["status"] == "delivered" && !heard {
                self.fault(Wrong::Untold, format!("nobody heard {delivery}"));
            }
        }
        if self.story.deliveries.is_empty() {
            return;
        }
        for job in &self.story.jobs {
            let event = format!("job.{}", text(job, "state"));
            if !recorded.contains(&(text(job, "job_id"), event.as_str())) {
                self.fault(Wrong::Untold, format!("no delivery about {job}"));
            }
        }
    }
}
