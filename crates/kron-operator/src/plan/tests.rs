//! The planner: tables of its rules, and a simulation of what they add up to.
//!
//! A [`Scene`] is one KronJob on an API server that never fails, with one operator that does what
//! the plans say; what it did is told in words, so that a row of a table is a sentence.

mod claims;
mod keeping;
mod policies;
mod simulation;
mod telling;

use kron_core::{Host, Outcome, TimingParser, UtcSecond};

use super::{
    CREATE_UNDER_WAY_S_MAX, Definition, JOB_AGE_S_MIN, JobState, Keep, OwnedJob, Plan, Step,
    Subject, plan,
};
use crate::job;
use crate::resource::{ConditionKind, KronJobStatus};

/// The term of leadership in which scenes play.
const TERM: &str = "one/1";
/// More steps than any plan needs before it rests.
const STEPS_MAX: usize = 12;

/// A second of the day on which scenes play.
fn at(time: &str) -> UtcSecond {
    format!("2026-03-01T{time}Z").parse().unwrap()
}

/// The time of day of a second.
fn clock(second: UtcSecond) -> String {
    second.to_string()[11..19].to_owned()
}

fn definition(text: &str) -> Definition {
    let timing = TimingParser::new().parse(text, "here/kj", Host::default()).unwrap();
    let decision_hash = timing.decision_hash().to_string();
    Definition { timing, decision_hash, keep: Keep { succeeded: 3, failed: 1, ttl_s: None } }
}

struct Scene {
    definition: Result<Definition, String>,
    generation: i64,
    created_at: UtcSecond,
    status: KronJobStatus,
    jobs: Vec<OwnedJob>,
    trouble: Option<String>,
    term: String,
    job_age_s_min: i64,
}

impl Scene {
    /// A KronJob that was created at midnight, and is looked at a second later.
    fn new(text: &str) -> Scene {
        let mut scene = Scene::unseen(text);
        scene.live("00:00:01");
        scene
    }

    /// The same, not looked at yet.
    fn unseen(text: &str) -> Scene {
        Scene {
            definition: Ok(definition(text)),
            generation: 1,
            created_at: at("00:00:00"),
            status: KronJobStatus::default(),
            jobs: Vec::new(),
            trouble: None,
            term: TERM.to_owned(),
            job_age_s_min: JOB_AGE_S_MIN,
        }
    }

    fn edit(&mut self, text: &str) {
        let keep = self.definition.as_ref().map(|known| known.keep);
        let mut definition = definition(text);
        definition.keep = keep.unwrap_or(definition.keep);
        self.definition = Ok(definition);
        self.generation += 1;
    }

    fn spoil(&mut self, why: &str) {
        self.definition = Err(why.to_owned());
        self.generation += 1;
    }

    fn keep(&mut self, keep: Keep) {
        self.definition.as_mut().unwrap().keep = keep;
    }

    fn plan_at(&self, now: UtcSecond) -> Plan {
        let subject = Subject {
            generation: self.generation,
            created_at: self.created_at,
            definition: self.definition.as_ref().map_err(String::as_str),
            status: &self.status,
            jobs: &self.jobs,
            trouble: self.trouble.as_deref(),
            mended: false,
        };
        plan(&subject, &self.term, self.job_age_s_min, now)
    }

    fn plan(&self, time: &str) -> Plan {
        self.plan_at(at(time))
    }

    /// Does what the plans say until they say nothing, and tells it: `store` with what it notes,
    /// `start` with what it replaces.
    fn live(&mut self, time: &str) -> String {
        self.live_at(at(time))
    }

    fn live_at(&mut self, now: UtcSecond) -> String {
        let mut story = Vec::new();
        for _ in 0..STEPS_MAX {
            let before = self.status.clone();
            match self.plan_at(now).step {
                Step::Rest => return story.join(", "),
                Step::Store { status, notes, .. } => {
                    assert!(status.last_handled_period >= before.last_handled_period);
                    assert_ne!(*status, before, "a status that changes nothing");
                    self.status = *status;
                    let notes = notes.iter().map(|note| {
                        let period = note.period.map(|period| format!(" {}", clock(period)));
                        format!("{}{}", note.kind.reason(), period.unwrap_or_default())
                    });
                    let notes: Vec<String> = notes.collect();
                    story.push(if notes.is_empty() {
                        "store".to_owned()
                    } else {
                        notes.join(" + ")
                    });
                }
                Step::Start { decision, replace } => {
                    let names: Vec<String> =
                        replace.iter().map(|place| self.jobs[*place].name.to_string()).collect();
                    let mut places = replace;
                    places.sort_unstable();
                    for place in places.into_iter().rev() {
                        self.jobs.remove(place);
                    }
                    let mut words = format!("start {}", clock(decision.nominal));
                    for name in names {
                        words.push_str(&format!(" for {}", &name[3..]));
                    }
                    story.push(words);
                    let period = decision.nominal;
                    let job = owned(period, now, JobState::Active);
                    self.jobs.push(OwnedJob { chosen: decision.chosen, ..job });
                }
            }
        }
        panic!("no rest after {STEPS_MAX} steps: {story:?}");
    }

    /// Ends the Jobs that are active.
    fn finish(&mut self, time: &str) {
        for job in &mut self.jobs {
            if job.state == JobState::Active {
                job.state = JobState::Succeeded { at: at(time) };
            }
        }
    }

    fn handled(&self) -> String {
        self.status.last_handled_period.map(clock).unwrap_or_default()
    }

    /// The next period and its chosen second, as times of the day.
    fn next(&self) -> String {
        let Some(next) = &self.status.next else { return String::new() };
        let chosen = next.chosen_time.map_or_else(|| "never".to_owned(), clock);
        format!("{} at {chosen}", clock(next.period_id))
    }

    /// The outcomes that are recorded, oldest first.
    fn outcomes(&self) -> Vec<String> {
        let words = self.status.recent.iter().rev().map(|record| {
            let first = record.first_period_id.map(|first| format!("{}..", clock(first)));
            let count = record.count.map(|count| format!(" ({count})"));
            let reason = record.reason.as_ref().map(|reason| format!(": {reason}"));
            format!(
                "{}{} {}{}{}",
                first.unwrap_or_default(),
                clock(record.period_id),
                record.outcome,
                count.unwrap_or_default(),
                reason.unwrap_or_default()
            )
        });
        words.collect()
    }

    fn last(&self) -> (Outcome, String) {
        let last = self.status.last.as_ref().unwrap();
        (last.outcome, last.reason.clone().unwrap_or_default())
    }

    /// Which conditions hold.
    fn holding(&self) -> Vec<ConditionKind> {
        let holding = self.status.conditions.iter().filter(|condition| condition.is_true());
        holding.map(|condition| condition.kind).collect()
    }
}

/// A Job of this period.
fn owned(period: UtcSecond, created_at: UtcSecond, state: JobState) -> OwnedJob {
    let name = job::name("kj", period);
    OwnedJob {
        uid: format!("uid of {name} since {created_at}").into(),
        name: name.into(),
        period: Some(period),
        chosen: Some(period),
        created_at,
        state,
        deleting: false,
    }
}
