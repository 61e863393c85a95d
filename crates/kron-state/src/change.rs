//! The transitions of a state document.
//!
//! A daemon says what happened; [`Document::apply`] turns that into the document's next form, and
//! keeps what must always hold, whoever asks:
//!
//! - the last handled period never moves back;
//! - a run that has not ended is never dropped, not even by the history's cap;
//! - a run by hand never touches what is recorded about periods.

use kron_core::{Outcome, UtcSecond};

use crate::delivery::{Delivery, DeliveryId};
use crate::document::{ActiveState, Document, HistoryEntry, PeriodRef, Replacing};
use crate::run::{Ending, ExitStatus, RunId};

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A command stands at its gate. It is not released before this is durable.
    Arm(ActiveState),
    /// A command that was armed never came to be.
    Disarm(RunId),
    /// A command was executed.
    Start(RunId),
    /// A run is over.
    Finish {
        /// The run.
        run: RunId,
        /// How it ended.
        ending: Ending,
        /// How the process ended, where that was seen.
        status: Option<ExitStatus>,
        /// When it ended, as far as is known.
        at: UtcSecond,
        /// Bytes of output dropped at the cap.
        output_dropped: u64,
    },
    /// A period, or a stretch of them, has an outcome without having run.
    Handle {
        /// The period, or the first of the stretch.
        nominal: UtcSecond,
        /// When it was due.
        chosen: Option<UtcSecond>,
        /// The outcome.
        outcome: Outcome,
        /// Why.
        reason: String,
        /// The last of the stretch and how many there are.
        stretch: Option<(UtcSecond, u64)>,
        /// When that was found.
        at: UtcSecond,
    },
    /// What was to be done was handed over to somebody who keeps it: the queue. There was no
    /// command, and nothing is active.
    HandOver {
        /// The run.
        run: RunId,
        /// What for.
        period: PeriodRef,
        /// When it was due.
        chosen: UtcSecond,
        /// To whom.
        reason: String,
        /// When it was kept.
        at: UtcSecond,
    },
    /// A replacement begins, or is over.
    Replace(Option<Replacing>),
    /// The start of this period is on its way and not recorded yet, and a later one is about to
    /// be. It opens no period that is handled already.
    Owe(UtcSecond),
    /// A hook is to be told.
    Notify(Box<Delivery>),
    /// A hook was told, or is not told any more.
    Delivered(DeliveryId),
}

/// A change that does not fit its document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inapplicable {
    /// There is no such active run.
    #[error("there is no active run `{0}`")]
    NoSuchRun(RunId),
    /// There is such a run already, active or in the history.
    #[error("there is a run `{0}` already")]
    Repeated(RunId),
    /// The period is handled or active already, and may not be armed again.
    #[error("the period {0} was started or handled before")]
    StartedBefore(UtcSecond),
    /// The run was executed, which cannot be undone.
    #[error("the run `{0}` was executed, and cannot be taken back")]
    Executed(RunId),
}

impl Document {
    /// The document after `change`, with at most `history_max` entries of history beside those of
    /// active runs.
    ///
    /// # Errors
    /// When the change names a run that is not there, or would start a period a second time. The
    /// document is then as it was.
    pub fn apply(&mut self, change: &Change, history_max: usize) -> Result<(), Inapplicable> {
        match change {
            Change::Arm(active) => self.arm(active.clone())?,
            Change::Disarm(run) => {
                if self.active().any(|active| active.run == *run && active.executed) {
                    return Err(Inapplicable::Executed(run.clone()));
                }
                let never_was = self.take_active(run)?;
                // While it was active it counted as executed, also for a mark that was moved back.
                self.executed_ahead.retain(|ahead| never_was.period.nominal() != Some(*ahead));
            }
            Change::Start(run) => self.start(run)?,
            Change::Finish { run, ending, status, at, output_dropped } => {
                // The record of the start may be merged with this one.
                self.start(run)?;
                let active = self.take_active(run)?;
                let recorded =
                    self.history.iter().rposition(|entry| entry.run.as_ref() == Some(run));
                // It goes to the end: a long run that has just ended is news, whatever has happened
                // meanwhile, and whatever the clock shows.
                let mut entry =
                    recorded.map_or_else(|| started(&active), |at| self.history.remove(at));
                entry.completed_at = Some(*at);
                entry.ending = Some(*ending);
                match status {
                    Some(ExitStatus::ExitCode(code)) => entry.exit_code = Some(*code),
                    Some(ExitStatus::Signal(signal)) => entry.signal = Some(*signal),
                    None => {}
                }
                entry.output_dropped = (*output_dropped > 0).then_some(*output_dropped);
                self.history.push(entry);
            }
            Change::Handle { nominal, chosen, outcome, reason, stretch, at } => {
                let last = stretch.map_or(*nominal, |(last, _)| last);
                self.owed.retain(|owed| owed < nominal || *owed > last);
                self.mark(last, *outcome, *chosen);
                self.history.push(HistoryEntry {
                    outcome: Some(*outcome),
                    nominal_time: Some(*nominal),
                    // Of a stretch it is the last period's, which only the mark tells.
                    chosen_time: chosen.filter(|_| stretch.is_none()),
                    completed_at: Some(*at),
                    reason: Some(reason.clone()),
                    last_period: stretch.map(|(last, _)| last),
                    count: stretch.map(|(_, count)| count),
                    ..HistoryEntry::new(PeriodRef::Period(*nominal))
                });
            }
            Change::HandOver { run, period, chosen, reason, at } => {
                self.is_new(run)?;
                self.open(period)?;
                if let PeriodRef::Period(nominal) = *period {
                    self.mark(nominal, Outcome::Executed, Some(*chosen));
                }
                self.history.push(handed_over(run, period, *chosen, reason, *at));
            }
            Change::Replace(replacing) => self.replacing = *replacing,
            Change::Notify(delivery) => self.deliveries.push((**delivery).clone()),
            Change::Delivered(id) => self.deliveries.retain(|delivery| delivery.id != *id),
            Change::Owe(nominal) => {
                // What the mark has passed without its being owed has its outcome, and what is
                // active is recorded.
                let recorded = self.last_handled >= Some(*nominal)
                    || self.active().any(|active| active.period == PeriodRef::Period(*nominal));
                if !recorded && !self.owed.contains(nominal) {
                    self.owed.push(*nominal);
                }
            }
        }
        self.trim(history_max);
        Ok(())
    }

    fn arm(&mut self, active: ActiveState) -> Result<(), Inapplicable> {
        self.is_new(&active.run)?;
        self.open(&active.period)?;
        self.other_active.extend(self.active_execution.replace(active));
        Ok(())
    }

    /// Refuses a run that is there already, active or in the history.
    fn is_new(&self, run: &RunId) -> Result<(), Inapplicable> {
        let is_known = self.active().any(|other| other.run == *run)
            || self.history.iter().any(|entry| entry.run.as_ref() == Some(run));
        if is_known { Err(Inapplicable::Repeated(run.clone())) } else { Ok(()) }
    }

    /// Lets a period begin, if it has not begun or been handled before.
    fn open(&mut self, period: &PeriodRef) -> Result<(), Inapplicable> {
        let PeriodRef::Period(nominal) = *period else { return Ok(()) };
        let has_begun = self.active().any(|other| other.period == *period)
            || self.executed_ahead.contains(&nominal)
            || self
                .history
                .iter()
                .any(|entry| entry.period == *period && entry.outcome == Some(Outcome::Executed))
            || (self.last_handled.is_some_and(|handled| nominal <= handled)
                && !self.owed.contains(&nominal));
        if has_begun {
            return Err(Inapplicable::StartedBefore(nominal));
        }
        self.owed.retain(|owed| *owed != nominal);
        Ok(())
    }

    fn start(&mut self, run: &RunId) -> Result<(), Inapplicable> {
        let active = self
            .other_active
            .iter_mut()
            .chain(&mut self.active_execution)
            .find(|active| active.run == *run)
            .ok_or_else(|| Inapplicable::NoSuchRun(run.clone()))?;
        if std::mem::replace(&mut active.executed, true) {
            return Ok(());
        }
        let entry = started(active);
        let (nominal, chosen) = (entry.nominal_time, entry.chosen_time);
        self.history.push(entry);
        if let Some(nominal) = nominal {
            self.mark(nominal, Outcome::Executed, chosen);
            if self.replacing.is_some_and(|replacing| replacing.period <= nominal) {
                self.replacing = None;
            }
        }
        Ok(())
    }

    /// Moves the mark of what is handled, forwards only.
    fn mark(&mut self, nominal: UtcSecond, outcome: Outcome, chosen: Option<UtcSecond>) {
        let is_handled = self.last_handled.is_some_and(|handled| nominal <= handled);
        #[cfg(kron_canary)]
        let is_handled = is_handled && !kron_canary::Canary::MarkMovesBack.is_active();
        if is_handled {
            return;
        }
        self.last_handled = Some(nominal);
        self.last_outcome = Some(outcome);
        self.last_chosen_time = chosen;
        self.last_nominal_time = Some(nominal);
        self.executed_ahead.retain(|ahead| *ahead > nominal);
        if self.replacing.is_some_and(|replacing| replacing.period <= nominal) {
            self.replacing = None;
        }
    }

    /// Takes a run out of the active ones; the newest of the rest becomes `ActiveExecution`.
    fn take_active(&mut self, run: &RunId) -> Result<ActiveState, Inapplicable> {
        if let Some(active) = self.active_execution.take_if(|active| active.run == *run) {
            self.active_execution = self.other_active.pop();
            return Ok(active);
        }
        let at = self.other_active.iter().position(|active| active.run == *run);
        at.map(|at| self.other_active.remove(at))
            .ok_or_else(|| Inapplicable::NoSuchRun(run.clone()))
    }

    /// Drops the entries that were final first, beyond the cap, but never that of an active run.
    /// A run that took long is thus still there when its end is recorded.
    pub(crate) fn trim(&mut self, history_max: usize) {
        let excess = self.history.len().saturating_sub(history_max);
        if excess == 0 {
            return;
        }
        let active: Vec<RunId> = self.active().map(|active| active.run.clone()).collect();
        let mut dropped = 0;
        self.history.retain(|entry| {
            let is_active = entry.run.as_ref().is_some_and(|run| active.contains(run));
            let keep = is_active || dropped == excess;
            dropped += usize::from(!keep);
            keep
        });
    }
}

/// The entry of what was handed over.
#[must_use]
pub fn handed_over(
    run: &RunId,
    period: &PeriodRef,
    chosen: UtcSecond,
    reason: &str,
    at: UtcSecond,
) -> HistoryEntry {
    HistoryEntry {
        outcome: Some(Outcome::Executed),
        nominal_time: period.nominal(),
        chosen_time: Some(chosen),
        run: Some(run.clone()),
        started_at: Some(at),
        completed_at: Some(at),
        ending: Some(Ending::HandedOver),
        reason: Some(reason.to_owned()),
        ..HistoryEntry::new(period.clone())
    }
}

/// The entry of a run that was executed and goes on.
fn started(active: &ActiveState) -> HistoryEntry {
    HistoryEntry {
        outcome: Some(Outcome::Executed),
        nominal_time: active.period.nominal(),
        chosen_time: Some(active.chosen_time),
        run: Some(active.run.clone()),
        started_at: Some(active.started_at),
        ..HistoryEntry::new(active.period.clone())
    }
}
