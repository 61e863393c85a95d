//! What the machine remembers about one job.

use std::sync::Arc;
use std::time::Duration;

use kron_core::{Active, Outcome, Past, Policy, UtcSecond};
use kron_state::{DeliveryId, PeriodRef, Recent, RecentEvent, RunId, Unknown};
use thin_vec::ThinVec;

use super::event::{Definition, Last, StartFailure, Suspension};
use super::run::Run;
use super::{JobView, Machine, RunView};

/// Where a job is in the machine's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct JobIndex(pub(super) u32);

impl JobIndex {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// One job: its definition, its past, and what is on its way.
///
/// There may be very many, of which few do anything: what is mostly absent is small when it is.
#[derive(Debug)]
pub(super) struct JobState {
    pub(super) identity: Arc<str>,
    /// `None` when the job was removed and is only supervised to its end.
    pub(super) definition: Option<Arc<Definition>>,
    pub(super) past: Past,
    pub(super) suspend_override: Option<bool>,
    /// Whether a state document exists or is on its way.
    pub(super) has_state: bool,
    pub(super) last: Option<Box<Last>>,
    /// What became of its latest periods and runs.
    pub(super) recent: Recent,
    /// Its runs that have not ended, oldest first.
    pub(super) runs: ThinVec<RunId>,
    /// When it is judged next.
    pub(super) due: Option<UtcSecond>,
    pub(super) failing: Option<Box<Failing>>,
    /// When the runs being replaced should be gone.
    pub(super) replacement_due: Option<Duration>,
    /// The latest period that was left without an outcome, so that it is told once.
    pub(super) left: Option<UtcSecond>,
    /// Periods that an earlier daemon owes an outcome.
    pub(super) owed: ThinVec<UtcSecond>,
    /// Periods beyond the mark that were executed before it was moved back on purpose.
    pub(super) executed_ahead: ThinVec<UtcSecond>,
    /// What hooks have still to be told, oldest first.
    pub(super) deliveries: ThinVec<DeliveryId>,
    /// What a newer version knows about the job.
    pub(super) unknown: Unknown,
}

/// A period that could not be started yet.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    pub(super) period: UtcSecond,
    pub(super) attempts: u32,
    pub(super) failure: StartFailure,
}

/// What is kept about a job that is not defined now.
#[derive(Clone, Debug, Default)]
pub(super) struct Archived {
    pub(super) last_handled: Option<UtcSecond>,
    pub(super) last: Option<Box<Last>>,
    pub(super) recent: Recent,
    pub(super) replacing: Option<UtcSecond>,
    pub(super) executed_ahead: ThinVec<UtcSecond>,
    /// Whether a state document exists or is on its way.
    pub(super) has_state: bool,
    /// What somebody asked for by hand: it holds when the job comes back.
    pub(super) suspend_override: Option<bool>,
}

impl JobState {
    pub(super) fn new(identity: Arc<str>, archived: Option<Archived>) -> JobState {
        let archived = archived.unwrap_or_default();
        JobState {
            identity,
            definition: None,
            past: Past {
                last_handled: archived.last_handled,
                replacing: archived.replacing,
                ..Past::default()
            },
            suspend_override: archived.suspend_override,
            has_state: archived.has_state,
            last: archived.last,
            recent: archived.recent,
            runs: ThinVec::new(),
            due: None,
            failing: None,
            replacement_due: None,
            left: None,
            owed: ThinVec::new(),
            executed_ahead: archived.executed_ahead,
            deliveries: ThinVec::new(),
            unknown: Unknown::default(),
        }
    }

    /// The policy in force, with what was said by hand.
    pub(super) fn policy(&self) -> Option<Policy> {
        let mut policy = self.definition.as_ref()?.job.timing.policy;
        policy.suspend = self.suspend_override.unwrap_or(policy.suspend);
        Some(policy)
    }

    pub(super) fn suspension(&self) -> Option<Suspension> {
        let by_definition = self.definition.as_ref()?.job.timing.policy.suspend;
        match self.suspend_override {
            Some(true) if !by_definition => Some(Suspension::Hand),
            Some(false) => None,
            _ if by_definition => Some(Suspension::Definition),
            _ => None,
        }
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.suspension().is_some()
    }

    /// Moves the mark of what is handled, forwards only.
    pub(super) fn mark(&mut self, nominal: UtcSecond) {
        self.past.last_handled = self.past.last_handled.max(Some(nominal));
        if self.past.replacing.is_some_and(|replacing| replacing <= nominal) {
            self.past.replacing = None;
            self.replacement_due = None;
        }
    }

    /// Remembers what happened, unless it is about an earlier period than what is remembered.
    pub(super) fn tell_last(&mut self, last: Last) {
        if let Some(event) = RecentEvent::of_period(last.outcome) {
            self.recent.push(event);
        }
        let before = self.last.as_ref().and_then(|last| last.period.nominal());
        if last.period.nominal().is_none_or(|nominal| before.is_none_or(|before| nominal >= before))
        {
            self.last = Some(Box::new(last));
        }
    }

    pub(super) fn archived(&self) -> Archived {
        Archived {
            last_handled: self.past.last_handled,
            last: self.last.clone(),
            recent: self.recent,
            replacing: self.past.replacing,
            executed_ahead: self.executed_ahead.clone(),
            has_state: self.has_state,
            suspend_override: self.suspend_override,
        }
    }
}

impl Machine {
    /// The past with periods that are on their way counted as handled: a later period must not
    /// declare them missed, and nothing may start them again.
    pub(super) fn claimed_past(&self, job: &JobState) -> Past {
        let claimed = job.runs.iter().filter_map(|run| self.runs.get(run)?.period.nominal()).max();
        Past { last_handled: job.past.last_handled.max(claimed), ..job.past }
    }

    pub(super) fn active(&self, job: &JobState) -> Vec<Active> {
        let runs = job.runs.iter().filter_map(|run| self.runs.get(run));
        runs.map(|run| run.period.nominal().map_or(Active::Manual, Active::Period)).collect()
    }

    pub(super) fn job_view(&self, index: JobIndex, now: UtcSecond) -> JobView {
        let job = &self.jobs[index.at()];
        let view = |id: &RunId| {
            let run: &Run = self.runs.get(id)?;
            Some(RunView {
                run: id.clone(),
                period: run.period.clone(),
                stage: run.stage.as_str(),
                started_at: run.started_at,
                pid: run.pid,
            })
        };
        JobView {
            definition: job.definition.clone(),
            identity: job.identity.clone(),
            past: job.past,
            suspension: job.suspension(),
            next: job.definition.as_ref().and_then(|definition| {
                definition.job.timing.due_after(now).find(|decision| {
                    job.past.last_handled.is_none_or(|handled| decision.nominal > handled)
                })
            }),
            last: job.last.as_deref().cloned(),
            active: job.runs.iter().filter_map(view).collect(),
            failing: job.failing.as_ref().map(|f| (f.attempts, f.failure.clone())),
            recent: job.recent,
        }
    }
}

impl Last {
    /// The outcome of a period that did not run.
    pub(super) fn not_run(
        decision: UtcSecond,
        outcome: Outcome,
        reason: String,
        now: UtcSecond,
    ) -> Last {
        Last {
            period: PeriodRef::Period(decision),
            outcome,
            reason: Some(reason.into()),
            ending: None,
            status: None,
            started_at: None,
            completed_at: Some(now),
        }
    }
}
