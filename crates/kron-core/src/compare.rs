//! What an edit changes: the periods of an old and a new timing side by side.

use crate::decision::Decision;
use crate::time::UtcSecond;
use crate::timing::{Periods, Timing};

/// What became of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its chosen time is another.
    Moved {
        /// The decision under the old timing.
        old: Decision,
        /// The decision under the new timing.
        new: Decision,
    },
    /// Only the new timing has it.
    Appeared {
        /// Its decision.
        new: Decision,
    },
    /// Only the old timing has it.
    Vanished {
        /// Its decision.
        old: Decision,
    },
    /// No time is allowed any more.
    BecameUnschedulable {
        /// The decision under the old timing.
        old: Decision,
        /// The decision under the new timing.
        new: Decision,
    },
    /// A time is allowed now.
    BecameSchedulable {
        /// The decision under the old timing.
        old: Decision,
        /// The decision under the new timing.
        new: Decision,
    },
}

impl Change {
    /// The period's nominal time.
    #[must_use]
    pub fn nominal(&self) -> UtcSecond {
        match self {
            Change::Vanished { old } => old.nominal,
            Change::Moved { new, .. }
            | Change::Appeared { new }
            | Change::BecameUnschedulable { new, .. }
            | Change::BecameSchedulable { new, .. } => new.nominal,
        }
    }
}

/// A period that both timings have, or a change; made by [`compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Both decide the same.
    Same(Decision),
    /// Something is different.
    Changed(Change),
}

/// Goes over all periods with a nominal time in `from..to`, in order. A timing that is absent, or
/// suspended, has none.
#[must_use]
pub fn compare<'a>(
    old: Option<&'a Timing>,
    new: Option<&'a Timing>,
    from: UtcSecond,
    to: UtcSecond,
) -> Comparison<'a> {
    let side = |timing: Option<&'a Timing>| Walk {
        periods: timing
            .filter(|timing| !timing.policy.suspend)
            .map(|timing| timing.periods_after(from.saturating_add(-1))),
        to,
        held: None,
    };
    Comparison { old: side(old), new: side(new) }
}

/// The iterator of [`compare`].
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    old: Walk<'a>,
    new: Walk<'a>,
}

#[derive(Clone, Debug)]
struct Walk<'a> {
    periods: Option<Periods<'a>>,
    to: UtcSecond,
    held: Option<Decision>,
}

impl Walk<'_> {
    fn peek(&mut self) -> Option<Decision> {
        if self.held.is_none() {
            self.held =
                self.periods.as_mut().and_then(Iterator::next).filter(|d| d.nominal < self.to);
            if self.held.is_none() {
                self.periods = None;
            }
        }
        self.held
    }
}

impl Iterator for Comparison<'_> {
    type Item = Compared;

    fn next(&mut self) -> Option<Compared> {
        let (old, new) = (self.old.peek(), self.new.peek());
        let take_old = old.is_some_and(|old| new.is_none_or(|new| old.nominal <= new.nominal));
        let take_new = new.is_some_and(|new| old.is_none_or(|old| new.nominal <= old.nominal));
        if take_old {
            self.old.held = None;
        }
        if take_new {
            self.new.held = None;
        }
        Some(match (old.filter(|_| take_old), new.filter(|_| take_new)) {
            (None, None) => return None,
            (Some(old), None) => Compared::Changed(Change::Vanished { old }),
            (None, Some(new)) => Compared::Changed(Change::Appeared { new }),
            (Some(old), Some(new)) => match (old.chosen, new.chosen) {
                (a, b) if a == b => Compared::Same(new),
                (Some(_), None) => Compared::Changed(Change::BecameUnschedulable { old, new }),
                (None, Some(_)) => Compared::Changed(Change::BecameSchedulable { old, new }),
                _ => Compared::Changed(Change::Moved { old, new }),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, TimingParser};

    fn changes(old: &str, new: &str) -> Vec<String> {
        let mut parser = TimingParser::new();
        let mut timing = |text: &str| {
            (!text.is_empty()).then(|| parser.parse(text, "job", Host::default()).unwrap())
        };
        let (old, new) = (timing(old), timing(new));
        let (from, to) =
            ("2026-03-01T00:00:00Z".parse().unwrap(), "2026-03-03T00:00:00Z".parse().unwrap());
        compare(old.as_ref(), new.as_ref(), from, to)
            .map(|compared| {
                let (word, nominal) = match compared {
                    Compared::Same(decision) => ("same", decision.nominal),
                    Compared::Changed(change) => (
                        match change {
                            Change::Moved { .. } => "moved",
                            Change::Appeared { .. } => "appeared",
                            Change::Vanished { .. } => "vanished",
                            Change::BecameUnschedulable { .. } => "unschedulable",
                            Change::BecameSchedulable { .. } => "schedulable",
                        },
                        change.nominal(),
                    ),
                };
                format!("{word} {}", &nominal.to_string()[8..16])
            })
            .collect()
    }

    #[test]
    fn every_period_of_either_side_is_told_once_and_in_order() {
        assert_eq!(changes("0 3 * * *", "0 3 * * *"), ["same 01T03:00", "same 02T03:00"]);
        assert_eq!(
            changes("0 3 * * *", "0 3 * * * @win(after,1h)"),
            ["moved 01T03:00", "moved 02T03:00"]
        );
        assert_eq!(changes("0 3 * * *", ""), ["vanished 01T03:00", "vanished 02T03:00"]);
        assert_eq!(changes("", "0 0 * * *"), ["appeared 01T00:00", "appeared 02T00:00"]);
        assert_eq!(
            changes("0 3 * * *", "0 3,5 2 * *"),
            ["vanished 01T03:00", "same 02T03:00", "appeared 02T05:00"]
        );
        assert_eq!(
            changes("0 3 * * *", "0 3 * * * @only(dow=MON)"),
            ["unschedulable 01T03:00", "same 02T03:00"]
        );
        assert_eq!(
            changes("0 3 * * * @only(dow=MON)", "0 3 * * *"),
            ["schedulable 01T03:00", "same 02T03:00"]
        );
        assert_eq!(changes("0 3 * * *", "0 3 * * * @policy(suspend=true)").len(), 2);
    }
}
