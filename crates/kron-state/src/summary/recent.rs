//! What became of a job's latest periods and runs, so small that every job can have it at hand.
//!
//! Histories stay on disk; this is what is left of them for a glance. It explains nothing, and
//! nothing is decided by it.

use std::fmt;

use kron_core::Outcome;

use crate::run::{Ending, ExitStatus};

/// How many events are kept.
const EVENTS_MAX: u32 = 10;
/// Bits that one event takes; all of them zero is none.
const EVENT_BITS: u32 = 4;

/// The latest ten events of a job, in one number: the newest in the lowest bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Recent(u64);

/// What became of a period or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecentEvent {
    /// It ran and said that all is well.
    Succeeded,
    /// It ran and said otherwise, or was ended by a signal.
    Failed,
    /// It ran out of time.
    TimedOut,
    /// It may have run; how it ended is unknown.
    Lost,
    /// A later period took its place.
    Replaced,
    /// It was ended with the daemon.
    Stopped,
    /// It did not run in time.
    Missed,
    /// It was not to run.
    Skipped,
    /// No second of its window was allowed.
    Unschedulable,
}

impl Recent {
    /// Adds what happened last, and forgets what was the oldest.
    pub fn push(&mut self, event: RecentEvent) {
        let kept = self.0 & !(u64::MAX << (EVENT_BITS * (EVENTS_MAX - 1)));
        self.0 = kept << EVENT_BITS | event.code();
    }

    /// Everything that is kept, oldest first.
    pub fn events(self) -> impl Iterator<Item = RecentEvent> {
        let code = move |at: u32| self.0 >> (EVENT_BITS * at) & !(u64::MAX << EVENT_BITS);
        (0..EVENTS_MAX).rev().map(code).filter_map(RecentEvent::from_code)
    }

    /// The newest of these, which are newest first; what has not ended is no event yet.
    pub(super) fn of_newest_first(events: impl Iterator<Item = Option<RecentEvent>>) -> Recent {
        let newest = events.flatten().take(EVENTS_MAX as usize);
        Recent((0..).zip(newest).map(|(at, event)| event.code() << (EVENT_BITS * at)).sum())
    }
}

impl RecentEvent {
    const ALL: [RecentEvent; 9] = [
        RecentEvent::Succeeded,
        RecentEvent::Failed,
        RecentEvent::TimedOut,
        RecentEvent::Lost,
        RecentEvent::Replaced,
        RecentEvent::Stopped,
        RecentEvent::Missed,
        RecentEvent::Skipped,
        RecentEvent::Unschedulable,
    ];

    /// What a run that ended so is.
    #[must_use]
    pub fn of_run(ending: Ending, status: Option<ExitStatus>) -> RecentEvent {
        match (ending, status) {
            (Ending::Exited, Some(ExitStatus::ExitCode(0))) | (Ending::HandedOver, _) => {
                RecentEvent::Succeeded
            }
            (Ending::Exited | Ending::Signalled, _) => RecentEvent::Failed,
            (Ending::TimedOut, _) => RecentEvent::TimedOut,
            (Ending::Replaced, _) => RecentEvent::Replaced,
            (Ending::Stopped, _) => RecentEvent::Stopped,
            (Ending::Lost, _) => RecentEvent::Lost,
        }
    }

    /// What a period with this outcome is; one that was executed is what its run became.
    #[must_use]
    pub fn of_period(outcome: Outcome) -> Option<RecentEvent> {
        match outcome {
            Outcome::Missed => Some(RecentEvent::Missed),
            Outcome::Skipped => Some(RecentEvent::Skipped),
            Outcome::Unschedulable => Some(RecentEvent::Unschedulable),
            Outcome::Executed => None,
        }
    }

    /// What an entry of a history is, unless it has not ended.
    pub(super) fn of_entry(
        outcome: Option<Outcome>,
        ending: Option<Ending>,
        exit_code: Option<i32>,
    ) -> Option<RecentEvent> {
        match ending {
            Some(ending) => Some(RecentEvent::of_run(ending, exit_code.map(ExitStatus::ExitCode))),
            None => RecentEvent::of_period(outcome?),
        }
    }

    /// The word for it, the same that hooks are told.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RecentEvent::Succeeded => "succeeded",
            RecentEvent::Failed => "failed",
            RecentEvent::TimedOut => "timed_out",
            RecentEvent::Lost => "lost",
            RecentEvent::Replaced => "replaced",
            RecentEvent::Stopped => "stopped",
            RecentEvent::Missed => "missed",
            RecentEvent::Skipped => "skipped",
            RecentEvent::Unschedulable => "unschedulable",
        }
    }

    const fn code(self) -> u64 {
        self as u64 + 1
    }

    fn from_code(code: u64) -> Option<RecentEvent> {
        RecentEvent::ALL.into_iter().find(|event| event.code() == code)
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.events()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_newest_are_kept_in_order() {
        let mut recent = Recent::default();
        assert_eq!(recent.events().count(), 0);
        let mut all = Vec::new();
        for event in RecentEvent::ALL.into_iter().cycle().take(25) {
            recent.push(event);
            all.push(event);
            let newest: Vec<RecentEvent> = all.iter().rev().take(10).rev().copied().collect();
            assert_eq!(recent.events().collect::<Vec<_>>(), newest);
            let read = all.iter().rev().flat_map(|event| [None, Some(*event)]);
            assert_eq!(Recent::of_newest_first(read), recent);
        }
    }
}
