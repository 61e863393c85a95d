//! What an edit changes: the periods of an old and a new timing side by side.

use std::ops::Range;

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

/// Goes over all periods that fall due in `from..to` under either timing, in the order of their
/// nominal times. A timing that is absent, or suspended, has none.
#[must_use]
pub fn compare<'a>(
    old: Option<&'a Timing>,
    new: Option<&'a Timing>,
    from: UtcSecond,
    to: UtcSecond,
) -> Comparison<'a> {
    let running = |timing: Option<&'a Timing>| timing.filter(|timing| !timing.policy.suspend);
    let sides = [running(old), running(new)];
    // Both walk over the same nominal times, as far as the wider window reaches.
    let windows = || sides.iter().flatten().map(|timing| timing.placement().window());
    let reach = windows().map(|window| window.length().get_signed()).max().unwrap_or(0);
    let lead = windows().map(|window| window.lead().get_signed()).max().unwrap_or(0);
    let [old, new] = sides.map(|timing| Walk {
        periods: timing.map(|timing| timing.periods_after(from.saturating_add(-reach - 1))),
        nominal_last: to.saturating_add(lead),
        held: None,
    });
    Comparison { old, new, due: from..to }
}

/// The iterator of [`compare`].
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    old: Walk<'a>,
    new: Walk<'a>,
    due: Range<UtcSecond>,
}

#[derive(Clone, Debug)]
struct Walk<'a> {
    periods: Option<Periods<'a>>,
    nominal_last: UtcSecond,
    held: Option<Decision>,
}

impl Walk<'_> {
    fn peek(&mut self) -> Option<Decision> {
        if self.held.is_none() {
            let next = self.periods.as_mut().and_then(Iterator::next);
            self.held = next.filter(|decision| decision.nominal <= self.nominal_last);
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
        loop {
            let (old, new) = self.next_period()?;
            let falls_due = |decision: Decision| self.due.contains(&decision.due());
            if old.is_some_and(falls_due) || new.is_some_and(falls_due) {
                return compared(old, new);
            }
        }
    }
}

impl Comparison<'_> {
    /// The decisions of the next period that either timing has.
    fn next_period(&mut self) -> Option<(Option<Decision>, Option<Decision>)> {
        let (old, new) = (self.old.peek(), self.new.peek());
        let take_old = old.is_some_and(|old| new.is_none_or(|new| old.nominal <= new.nominal));
        let take_new = new.is_some_and(|new| old.is_none_or(|old| new.nominal <= old.nominal));
        if take_old {
            self.old.held = None;
        }
        if take_new {
            self.new.held = None;
        }
        (take_old || take_new).then(|| (old.filter(|_| take_old), new.filter(|_| take_new)))
    }
}

/// What became of one period.
fn compared(old: Option<Decision>, new: Option<Decision>) -> Option<Compared> {
    Some(match (old, new) {
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

    #[test]
    fn periods_count_by_when_they_fall_due_and_not_by_their_nominal_times() {
        // 28 February's period falls due on 1 March under both, 2 March's on 3 March.
        let late = "0 23 * * * @win(after,12h) @dist(skewLate,shape=10)";
        let salted = format!("{late} @seed(stable,salt=x)");
        assert_eq!(changes(late, &salted), ["moved 28T23:00", "moved 01T23:00"]);
        let early = "0 23 * * * @win(before,23h) @dist(skewEarly,shape=100)";
        assert_eq!(changes("", early), ["appeared 01T23:00", "appeared 02T23:00"]);
        // A period that leaves the time and one that enters it are both told.
        let moved = changes("0 23 * * *", late);
        assert_eq!(moved, ["moved 28T23:00", "moved 01T23:00", "moved 02T23:00"]);
    }
}
