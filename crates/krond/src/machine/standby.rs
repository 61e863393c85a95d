//! Runs that stand at their gates before they fall due.
//!
//! When many jobs fall due in one second, starting their processes is most of the work, and the
//! times are known. So a few seconds ahead each of them is brought to its gate, where it executes
//! nothing and is recorded nowhere: whatever becomes of it, nothing has run. A period is judged at
//! its time and not before, by the same rules as ever; a start then takes over what stands ready
//! for it. Whatever does not fit any more is sent away, and started as always if it is to start.

use std::collections::BTreeMap;
use std::sync::Arc;

use kron_core::{Concurrency, UtcSecond};
use kron_state::{PeriodRef, Process, RunId};

use super::event::{Definition, Entry, Launch, Level, Now, Preparation};
use super::job::JobIndex;
use super::{Action, Machine};

/// How long before a burst its runs are brought to their gates.
const LEAD_S: i64 = 8;
/// A clock that was set back by more than this makes what stands ready wait too long.
const SLACK_S: i64 = 2;

/// What stands ready for one second.
#[derive(Debug)]
pub(super) struct Standby {
    preparation: Option<Preparation>,
    /// The second that was prepared last.
    at: Option<UtcSecond>,
    runs: BTreeMap<RunId, Ready>,
    jobs: BTreeMap<JobIndex, RunId>,
}

/// A run on its way to its gate, or there.
#[derive(Debug)]
struct Ready {
    job: JobIndex,
    definition: Arc<Definition>,
    nominal: UtcSecond,
    gate: Option<AtGate>,
}

/// The processes of a run at its gate.
#[derive(Debug)]
pub(super) struct AtGate {
    pub(super) supervisor: Process,
    pub(super) command: Process,
    pub(super) boot_id: String,
}

impl Standby {
    pub(super) fn new(preparation: Option<Preparation>) -> Standby {
        Standby { preparation, at: None, runs: BTreeMap::new(), jobs: BTreeMap::new() }
    }

    pub(super) fn contains(&self, run: &RunId) -> bool {
        self.runs.contains_key(run)
    }

    /// A run has come to its gate; gives the news back if it is none of these.
    pub(super) fn armed(&mut self, run: &RunId, gate: AtGate) -> Option<AtGate> {
        let Some(ready) = self.runs.get_mut(run) else { return Some(gate) };
        ready.gate = Some(gate);
        None
    }

    /// A run is gone; whether it was one of these.
    pub(super) fn gone(&mut self, run: &RunId) -> bool {
        let Some(ready) = self.runs.remove(run) else { return false };
        self.jobs.remove(&ready.job);
        true
    }

    /// What stands ready for this period under this definition.
    pub(super) fn take(
        &mut self,
        job: JobIndex,
        definition: &Arc<Definition>,
        nominal: UtcSecond,
    ) -> Option<(RunId, Option<AtGate>)> {
        let run = self.jobs.get(&job)?;
        let ready = self.runs.get(run)?;
        if ready.nominal != nominal || !Arc::ptr_eq(&ready.definition, definition) {
            return None;
        }
        let run = self.jobs.remove(&job)?;
        let ready = self.runs.remove(&run)?;
        Some((run, ready.gate))
    }
}

impl Machine {
    /// When runs are to be brought to their gates for what falls due next.
    pub(super) fn next_preparation(&self) -> Option<UtcSecond> {
        let burst_min = self.standby.preparation?.burst_min;
        let at = self.due.first()?.0;
        let is_burst = self.due_at(at).nth(burst_min.saturating_sub(1)).is_some();
        (is_burst && self.standby.at != Some(at)).then(|| at.saturating_add(-LEAD_S))
    }

    fn due_at(&self, at: UtcSecond) -> impl Iterator<Item = JobIndex> {
        self.due.iter().take_while(move |(due, _)| *due <= at).map(|(_, index)| *index)
    }

    /// Brings the runs of the next burst to their gates, if it is time for that.
    pub(super) fn prepare(&mut self, now: Now) {
        let awake = !self.left && self.stopping.is_none() && !self.clock.is_held();
        let waits = |at: UtcSecond| {
            at > now.wall && at <= now.wall.saturating_add(LEAD_S).saturating_add(SLACK_S)
        };
        if !awake || !self.standby.at.is_some_and(waits) {
            // Its time has come, and whoever is still here was not wanted; or it has moved away.
            self.reset_standby();
        }
        if !awake || self.next_preparation().is_none_or(|at| at > now.wall) {
            return;
        }
        let Some(&(at, _)) = self.due.first() else { return };
        let Some(Preparation { runs_max, .. }) = self.standby.preparation else { return };
        self.reset_standby();
        self.standby.at = Some(at);
        let jobs: Vec<JobIndex> = self.due_at(at).take(runs_max).collect();
        for index in jobs {
            self.stand_by(now, index, at);
        }
        let count = self.standby.runs.len();
        if count > 0 {
            self.log(Entry::new(Level::Info, "prepared").shown("due", at).with("count", count));
        }
    }

    fn stand_by(&mut self, now: Now, index: JobIndex, at: UtcSecond) {
        let job = &self.jobs[index.at()];
        let (Some(definition), Some(policy)) = (job.definition.clone(), job.policy()) else {
            return;
        };
        // What is handed over has no gate: it would be there before its time.
        if definition.job.action.is_handed_over() {
            return;
        }
        // What is not going to start, or not at once, is not worth its processes.
        let blocked = policy.concurrency != Concurrency::Allow && !job.runs.is_empty();
        if policy.suspend || blocked || job.failing.is_some() {
            return;
        }
        let Some(decision) = definition.job.timing.due_after(now.wall).next() else { return };
        let nominal = decision.nominal;
        let handled = self.claimed_past(job).last_handled >= Some(nominal);
        if decision.chosen != Some(at) || handled || job.executed_ahead.contains(&nominal) {
            return;
        }
        let run = self.new_run_id();
        let ready = Ready { job: index, definition: definition.clone(), nominal, gate: None };
        self.standby.runs.insert(run.clone(), ready);
        self.standby.jobs.insert(index, run.clone());
        let period = PeriodRef::Period(nominal);
        let decision = Some(decision);
        self.push(Action::Launch(Launch { run, definition, period, decision, chosen: at }));
    }

    /// Sends everybody away who stands ready.
    pub(super) fn dismiss_standby(&mut self) {
        self.standby.jobs.clear();
        for run in std::mem::take(&mut self.standby.runs).into_keys() {
            self.push(Action::Abandon(run.clone()));
            self.push(Action::Acknowledge(run));
        }
    }

    /// Sends everybody away, and lets the next burst be prepared anew.
    pub(super) fn reset_standby(&mut self) {
        self.dismiss_standby();
        self.standby.at = None;
    }
}
