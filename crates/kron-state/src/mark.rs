//! The mark of what was handled: whether it lies in the future, and moving it on purpose.
//!
//! A mark in the future comes from a clock that was wrong, and nothing of its job runs before it.
//! It may go back, and two things hold wherever it goes: what is known to have been executed, or
//! may be at this moment, is never executed again, and a document that is sound stays sound. What
//! the history has forgotten nobody knows, so a mark is not put behind it by request.
//!
//! A period lies in the future when both its nominal time and its chosen time do. One of them is
//! not enough: a window may choose before the nominal time or after it.

use std::collections::BTreeMap;

use kron_core::{Outcome, UtcSecond};

use crate::document::{Document, HistoryEntry, PeriodRef};

/// Why a mark is not put where somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkRefused {
    /// The time is yet to come.
    #[error("{0} lies in the future")]
    Future(UtcSecond),
    /// A later period was executed, or may be at this moment.
    #[error("period {executed} was executed after {wanted}, and nothing is executed twice")]
    Executed {
        /// The latest such period.
        executed: UtcSecond,
        /// Where the mark was to go.
        wanted: UtcSecond,
    },
    /// What happened in between may have been dropped from the history.
    #[error(
        "the history reaches back to period {oldest} only: what ran after {wanted} and before \
         that is not known, and nothing is executed twice"
    )]
    Forgotten {
        /// The oldest period that is still told of.
        oldest: UtcSecond,
        /// Where the mark was to go.
        wanted: UtcSecond,
    },
    /// There is no history that could tell what happened in between.
    #[error("there is no history: what ran after {0} is not known, and nothing is executed twice")]
    NoHistory(UtcSecond),
}

impl Document {
    /// Every period that is known to have been executed, or may be at this moment, with the time
    /// it was chosen for where that is known: those in the history, the mark's own, those of
    /// active runs, and those beyond a mark that was moved back before.
    #[must_use]
    pub fn executed(&self) -> BTreeMap<UtcSecond, Option<UtcSecond>> {
        let told = self
            .history
            .iter()
            .filter(|entry| entry.outcome == Some(Outcome::Executed))
            .filter_map(|entry| Some((entry.nominal_time?, entry.chosen_time)));
        let marked = self
            .last_handled
            .filter(|_| self.last_outcome == Some(Outcome::Executed))
            .map(|mark| (mark, self.last_chosen_time));
        let active = self
            .active()
            .filter_map(|active| Some((active.period.nominal()?, Some(active.chosen_time))));
        let ahead = self.executed_ahead.iter().map(|nominal| (*nominal, None));
        let mut executed = BTreeMap::new();
        for (nominal, chosen) in told.chain(marked).chain(active).chain(ahead) {
            let known = executed.entry(nominal).or_insert(chosen);
            *known = known.or(chosen);
        }
        executed
    }

    /// Whether the mark lies in the future, so that nothing runs that falls due before it.
    #[must_use]
    pub fn is_ahead_of(&self, now: UtcSecond) -> bool {
        let Some(mark) = self.last_handled else { return false };
        let told = || self.history.iter().rfind(|entry| entry.last_nominal() == Some(mark));
        let due = self.last_chosen_time.or_else(|| told().and_then(HistoryEntry::due));
        is_future(mark, due, now)
    }

    /// Where the mark goes when it is reset at `now`; `None` when it is well where it is.
    ///
    /// By itself it goes to the latest period of the history that does not lie in the future, or
    /// to the present where there is none, and only if it lies in the future itself.
    ///
    /// # Errors
    /// When something was executed after `wanted`, or may have been, or when that is yet to come.
    pub fn mark_target(
        &self,
        wanted: Option<UtcSecond>,
        now: UtcSecond,
    ) -> Result<Option<UtcSecond>, MarkRefused> {
        let past = self
            .history
            .iter()
            .filter(|entry| entry.outcome.is_some())
            .filter_map(|entry| Some((entry.last_nominal()?, entry.due())))
            .filter(|(nominal, due)| !is_future(*nominal, *due, now))
            .map(|(nominal, _)| nominal);
        let Some(wanted) = wanted else {
            return Ok(self.is_ahead_of(now).then(|| past.max().unwrap_or(now)));
        };
        let executed: Vec<UtcSecond> = self
            .executed()
            .into_iter()
            .filter(|(nominal, chosen)| !is_future(*nominal, *chosen, now))
            .map(|(nominal, _)| nominal)
            .collect();
        if wanted > now && !past.chain(executed.iter().copied()).any(|period| period == wanted) {
            return Err(MarkRefused::Future(wanted));
        }
        if let Some(executed) = executed.last().copied().filter(|executed| wanted < *executed) {
            return Err(MarkRefused::Executed { executed, wanted });
        }
        if self.last_handled.is_some_and(|mark| wanted < mark) {
            match self.oldest_told() {
                None => return Err(MarkRefused::NoHistory(wanted)),
                Some(oldest) if wanted < oldest => {
                    return Err(MarkRefused::Forgotten { oldest, wanted });
                }
                Some(_) => {}
            }
        }
        Ok(Some(wanted).filter(|to| self.last_handled != Some(*to)))
    }

    /// The period of the entry that the cap would drop first: of whatever was final before it
    /// nothing is known. Entries of active runs are kept whatever their age, and so tell nothing.
    fn oldest_told(&self) -> Option<UtcSecond> {
        let is_active = |entry: &HistoryEntry| {
            entry.run.as_ref().is_some_and(|run| self.active().any(|active| active.run == *run))
        };
        self.history
            .iter()
            .filter(|entry| entry.outcome.is_some() && !is_active(entry))
            .find_map(|entry| entry.nominal_time)
    }

    /// Puts the mark where somebody wants it, also back. What was executed is not executed again
    /// even then. A period that nothing is recorded about counts as missed, for that reason.
    pub(crate) fn reset(&mut self, to: Option<UtcSecond>, at: UtcSecond, history_max: usize) {
        let from = self.last_handled;
        let executed = self.executed();
        if to != from {
            let (outcome, chosen) = match to {
                Some(to) => match self.told_of(to, &executed) {
                    Some((outcome, chosen)) => (Some(outcome), chosen),
                    None => {
                        self.history.push(moved(from, to, at));
                        (Some(Outcome::Missed), Some(to))
                    }
                },
                None => (None, None),
            };
            self.last_outcome = outcome;
            self.last_chosen_time = chosen;
            self.last_nominal_time = to;
            self.last_handled = to;
        }
        self.executed_ahead =
            executed.into_keys().filter(|nominal| to.is_none_or(|to| *nominal > to)).collect();
        self.trim(history_max);
    }

    /// The outcome that a period has, and the time it was chosen for. Only what is unschedulable
    /// has none, so where that was not recorded the nominal time stands for it.
    fn told_of(
        &self,
        period: UtcSecond,
        executed: &BTreeMap<UtcSecond, Option<UtcSecond>>,
    ) -> Option<(Outcome, Option<UtcSecond>)> {
        if let Some(chosen) = executed.get(&period) {
            return Some((Outcome::Executed, Some(chosen.unwrap_or(period))));
        }
        let mut entries = self.history.iter().rev();
        entries.find_map(|entry| match (entry.outcome?, entry.last_nominal() == Some(period)) {
            (_, false) => None,
            (Outcome::Unschedulable, true) => Some((Outcome::Unschedulable, None)),
            (outcome, true) => Some((outcome, Some(entry.chosen_time.unwrap_or(period)))),
        })
    }
}

impl HistoryEntry {
    /// The period it is about, or the last of its stretch; none for a run by hand.
    fn last_nominal(&self) -> Option<UtcSecond> {
        self.last_period.or(self.nominal_time)
    }

    /// When what it tells of fell due, where it says so: an unschedulable period has no chosen
    /// time, but was found to be one only after its window had begun.
    fn due(&self) -> Option<UtcSecond> {
        let found = self.completed_at.filter(|_| self.outcome == Some(Outcome::Unschedulable));
        self.chosen_time.or(found)
    }
}

/// Whether a period is yet to come; without a chosen time its nominal one decides.
fn is_future(nominal: UtcSecond, chosen: Option<UtcSecond>, now: UtcSecond) -> bool {
    nominal > now && chosen.is_none_or(|chosen| chosen > now)
}

/// The entry of a mark that was put where nothing is recorded.
fn moved(from: Option<UtcSecond>, to: UtcSecond, at: UtcSecond) -> HistoryEntry {
    let from = from.map_or("none".to_owned(), |from| from.to_string());
    HistoryEntry {
        outcome: Some(Outcome::Missed),
        nominal_time: Some(to),
        chosen_time: Some(to),
        completed_at: Some(at),
        reason: Some(format!("mark reset from {from} to {to}")),
        ..HistoryEntry::new(PeriodRef::Period(to))
    }
}

#[cfg(test)]
mod tests;
