//! Situations, and what is said about them.

mod absences;
mod outcomes;

use std::sync::Arc;

use kron_config::{Format, Loader, Options, Source};
use kron_core::{Category, Outcome, Past, UtcSecond};
use kron_state::{
    ActiveState, Document, Ending, Epoch, EpochEvent, HistoryEntry, PeriodRef, Process, RunId,
};

use super::{Asked, Facts, explain};
use crate::api::view::WhyView;
use crate::machine::{Definition, JobView, Last, RunView, StartFailure, Suspension};

const NAME: &str = "db-backup";
const RUN: &str = "00000000000000aa";

fn at(text: &str) -> UtcSecond {
    UtcSecond::parse(text).expect(text)
}

/// `HH:MM` or `HH:MM:SS` on the day of most tests.
fn on(time: &str) -> UtcSecond {
    let seconds = if time.len() == 5 { ":00" } else { "" };
    at(&format!("2026-03-10T{time}{seconds}Z"))
}

fn run_id() -> RunId {
    RunId::try_from(RUN.to_owned()).unwrap()
}

/// What is known, to be varied by each test.
struct World {
    job: Option<JobView>,
    document: Document,
    epochs: Vec<Epoch>,
    clock_held_since: Option<UtcSecond>,
    now: UtcSecond,
}

impl World {
    /// A job with this schedule that was created on the first of the month.
    fn new(schedule: &str, now: &str) -> World {
        let mut loader = Loader::new(Options::default());
        let text = format!("{schedule} name={NAME} command=/bin/true\n");
        loader.load(&Source::new("jobs.krontab", &text), &Format::Krontab);
        let mut loaded = loader.finish();
        assert!(loaded.is_usable(), "{:?}", loaded.diagnostics);
        let job = loaded.jobs.remove(0);
        let now = on(now);
        let next = job.timing.due_after(now).next();
        let definition = Definition { hash: job.timing.decision_hash(), job, generation: 1 };
        World {
            job: Some(JobView {
                definition: Some(Arc::new(definition)),
                identity: NAME.into(),
                past: Past { created_at: Some(at("2026-03-01T00:00:00Z")), ..Past::default() },
                suspension: None,
                next,
                last: None,
                active: Vec::new(),
                failing: None,
                recent: Default::default(),
            }),
            document: Document::new(NAME),
            epochs: Vec::new(),
            clock_held_since: None,
            now,
        }
    }

    /// An hourly job at minute 0, without a window.
    fn hourly(now: &str) -> World {
        World::new("0 * * * *", now)
    }

    fn job(&mut self) -> &mut JobView {
        self.job.as_mut().expect("it is defined")
    }

    fn entry(&mut self, entry: HistoryEntry) -> &mut World {
        if let PeriodRef::Period(nominal) = entry.period {
            let last = entry.last_period.unwrap_or(nominal);
            self.document.last_handled = self.document.last_handled.max(Some(last));
        }
        self.document.history.push(entry);
        self
    }

    fn epoch(&mut self, time: &str, event: EpochEvent) -> &mut World {
        self.epochs.push(Epoch { at: on(time), event });
        self
    }

    fn down(&mut self, from: &str, to: &str) -> &mut World {
        self.epoch(from, EpochEvent::Stop { mode: "leave".to_owned() });
        let event = EpochEvent::Start {
            version: "1".to_owned(),
            pid: 1,
            boot_id: "b".to_owned(),
            previous_alive_until: Some(on(from)),
        };
        self.epoch(to, event)
    }

    fn why(&self, asked: &Asked) -> WhyView {
        let facts = Facts {
            identity: NAME,
            job: self.job.as_ref(),
            document: &self.document,
            epochs: &self.epochs,
            clock_held_since: self.clock_held_since,
            history_max: 100,
            now: self.now,
        };
        let view = explain(&facts, asked);
        assert!(!view.sentences.is_empty(), "silence");
        assert!(!view.answer.is_empty(), "{view:?}");
        assert!(view.sentences.iter().all(|sentence| sentence.ends_with('.')), "{view:?}");
        view
    }

    fn at(&self, time: &str) -> WhyView {
        self.why(&Asked::At(on(time)))
    }
}

fn not_run(period: &str, outcome: Outcome, reason: &str, found: &str) -> HistoryEntry {
    HistoryEntry {
        outcome: Some(outcome),
        nominal_time: Some(on(period)),
        chosen_time: (outcome != Outcome::Unschedulable).then(|| on(period)),
        completed_at: Some(on(found)),
        reason: Some(reason.to_owned()),
        ..HistoryEntry::new(PeriodRef::Period(on(period)))
    }
}

fn ran(period: &str, started: &str, ended: Option<&str>) -> HistoryEntry {
    HistoryEntry {
        outcome: Some(Outcome::Executed),
        nominal_time: Some(on(period)),
        chosen_time: Some(on(period)),
        completed_at: ended.map(on),
        exit_code: ended.map(|_| 0),
        ending: ended.map(|_| Ending::Exited),
        run: Some(run_id()),
        started_at: Some(on(started)),
        ..HistoryEntry::new(PeriodRef::Period(on(period)))
    }
}

/// Checks the answer in a word, the reason, and every sentence.
#[track_caller]
fn check(view: &WhyView, answer: &str, reason: Option<&str>, sentences: &[&str]) {
    assert_eq!(view.sentences, sentences);
    assert_eq!((view.answer.as_str(), view.reason.as_deref()), (answer, reason));
}
