//! How much of a window the constraints leave, and what that means for a period.

use std::ops::Range;

use crate::civil::DAY_SECONDS;
use crate::decision::{ATTEMPTS_MAX, Placement};
use crate::time::UtcSecond;
use crate::timing::Timing;
use crate::zone::HORIZON;

/// What the constraints leave of one period's window.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// First and last second of each allowed stretch, in order, both included.
    pub allowed: Vec<(UtcSecond, UtcSecond)>,
    /// Seconds that are allowed.
    pub allowed_seconds: u64,
    /// Seconds the window has; one more than its length.
    pub window_seconds: u64,
    /// The probability that a candidate is allowed, by the distribution.
    pub acceptance: f64,
}

impl Coverage {
    /// The share of the window's seconds that is allowed.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.allowed_seconds as f64 / self.window_seconds as f64
    }

    /// The probability that no candidate is allowed, over all seeds.
    #[must_use]
    pub fn unschedulable_chance(&self) -> f64 {
        if self.window_seconds == 1 {
            return if self.allowed_seconds == 0 { 1.0 } else { 0.0 };
        }
        let mut chance = 1.0;
        for _ in 0..ATTEMPTS_MAX {
            chance *= 1.0 - self.acceptance;
        }
        chance
    }
}

impl Placement {
    /// What the constraints leave of the window of `nominal`; `None` when that window reaches
    /// outside years 1 to 9999.
    #[must_use]
    pub fn coverage(&self, nominal: UtcSecond) -> Option<Coverage> {
        let (start, end) = self.window().bounds(nominal)?;
        let allowed = self.allowed_stretches(start.unix(), end.unix() + 1);
        let allowed_seconds = allowed.iter().map(|(from, to)| to - from).sum::<i64>() as u64;
        let acceptance = allowed
            .iter()
            .map(|&(from, to)| {
                let offset = |t: i64| (t - start.unix()) as u64;
                self.sampler().mass(offset(from), offset(to - 1))
            })
            // Not `sum`, whose empty sum is −0.
            .fold(0.0, |sum, mass| sum + mass);
        Some(Coverage {
            allowed: allowed
                .into_iter()
                .map(|(from, to)| (UtcSecond::clamped(from), UtcSecond::clamped(to - 1)))
                .collect(),
            allowed_seconds,
            window_seconds: self.window().length().get() + 1,
            acceptance: if self.window().length().get() == 0 {
                allowed_seconds as f64
            } else {
                acceptance.min(1.0)
            },
        })
    }

    /// The allowed stretches of `start..end`, half open, day by day of the zone's calendar.
    fn allowed_stretches(&self, start: i64, end: i64) -> Vec<(i64, i64)> {
        if self.constraints().is_empty() {
            return vec![(start, end)];
        }
        let minutes = self.constraints().allowed_minutes();
        let mut stretches: Vec<(i64, i64)> = Vec::new();
        let mut t = start;
        while t < end {
            let zone = self.zone().stretch_at(t);
            let day = (t + zone.offset).div_euclid(DAY_SECONDS);
            let midnight = day * DAY_SECONDS - zone.offset;
            let until = (midnight + DAY_SECONDS).min(zone.end).min(end);
            if self.constraints().allow_day(day) {
                for &(first, last) in minutes {
                    let from = (midnight + i64::from(first) * 60).max(t);
                    let to = (midnight + (i64::from(last) + 1) * 60).min(until);
                    if from >= to {
                        continue;
                    }
                    match stretches.last_mut() {
                        Some((_, previous)) if *previous == from => *previous = to,
                        _ => stretches.push((from, to)),
                    }
                }
            }
            t = until;
        }
        stretches
    }
}

/// After this long, a calendar has shown every combination of date and weekday that it soon will.
const CALENDAR_SECONDS: i64 = 41 * 366 * DAY_SECONDS;

impl Timing {
    /// Whether any period has an allowed second. `false` is certain: it is said only where a
    /// bounded look at the calendar settles the matter. The schedule's own periods are not in
    /// question: one that never fires is said to be able to.
    #[must_use]
    pub fn can_run(&self) -> bool {
        const PERIODS_FIRST: usize = 16;
        let placement = self.placement();
        let start = UtcSecond::clamped(HORIZON.start - 1);
        if placement.constraints().is_empty() || self.schedule().next_after(start).is_none() {
            return true;
        }
        let mut first = self.schedule().after(start).take(PERIODS_FIRST);
        if first.any(|nominal| placement.coverage(nominal).is_some_and(|c| c.allowed_seconds > 0)) {
            return true;
        }
        let conclusive = self.conclusive_range();
        conclusive.is_none_or(|range| self.may_meet_its_constraints(range))
    }

    /// A stretch of time that shows whether the constraints are ever met; `None` when none does.
    fn conclusive_range(&self) -> Option<Range<i64>> {
        let constraints = self.placement().constraints();
        let only = constraints.only_dates();
        let years = self.schedule().named_years();
        let range = match (years, only, constraints.last_avoided_date()) {
            (Some(years), ..) => years,
            // A day more on either side: dates are those of the zone.
            (None, [(first, _), .., (_, last)] | [(first, last)], _)
                if i64::from(last - first) * DAY_SECONDS <= CALENDAR_SECONDS =>
            {
                (i64::from(*first) - 1) * DAY_SECONDS..(i64::from(*last) + 2) * DAY_SECONDS
            }
            (None, [(first, _)], None) => {
                let start = (i64::from(*first) - 1) * DAY_SECONDS;
                start..start + CALENDAR_SECONDS
            }
            (None, [_, ..], _) => return None,
            (None, [], avoided) => {
                let after = avoided.map_or(HORIZON.start, |last| (last + 1) * DAY_SECONDS);
                let start = after.max(HORIZON.start);
                start..start + CALENDAR_SECONDS
            }
        };
        (UtcSecond::MIN.unix() < range.start && range.end < UtcSecond::MAX.unix()).then_some(range)
    }

    /// Whether a window meets an allowed stretch of `range`; `true` when there are too many to say.
    fn may_meet_its_constraints(&self, range: Range<i64>) -> bool {
        const STRETCHES_MAX: usize = 50_000;
        let placement = self.placement();
        let lead = placement.window().lead().get_signed();
        let tail = placement.window().length().get_signed() - lead;
        let mut looked_at = 0;
        let mut from = range.start;
        while from < range.end {
            let to = (from + 366 * DAY_SECONDS).min(range.end);
            for (first, end) in placement.allowed_stretches(from, to) {
                // A window meets the stretch when its nominal time lies within reach of it.
                let before = UtcSecond::clamped(first - tail - 1);
                let next = self.schedule().next_after(before);
                looked_at += 1;
                if next.is_some_and(|nominal| nominal.unix() <= end - 1 + lead)
                    || looked_at == STRETCHES_MAX
                {
                    return true;
                }
            }
            from = to;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::{Host, TimingParser};

    #[test]
    fn coverage_counts_exactly_the_seconds_the_constraints_allow() {
        let expressions = [
            "0 0 * * * @win(after,1d)",
            "0 0 * * * @win(after,23h) @only(hours=22-4)",
            "0 1 * * * @tz(Europe/Paris) @win(around,90m) @avoid(between=01:15-01:40)",
            "0 0 28 * * @tz(Europe/Paris) @win(after,3d) @only(dow=SUN;hours=1-3) @dist(normal)",
            "0 0 24 10 * @tz(Europe/Paris) @win(after,3d) @only(hours=2) @dist(exponential,dir=late)",
            "0 9 * * * @only(dow=MON)",
        ];
        let mut parser = TimingParser::new();
        for text in expressions {
            let timing = parser.parse(text, "job", Host::default()).unwrap();
            let placement = timing.placement();
            for decision in timing.periods_after("2026-03-20T00:00:00Z".parse().unwrap()).take(12) {
                let coverage = placement.coverage(decision.nominal).unwrap();
                let mut counted = 0;
                let mut mass = 0.0;
                let length = placement.window().length().get();
                for offset in 0..=length {
                    let t = decision.window_start.checked_add(offset as i64).unwrap();
                    let allowed = placement.constraints().allow(placement.zone().wall_at(t));
                    let listed = coverage.allowed.iter().any(|&(a, b)| a <= t && t <= b);
                    assert_eq!(allowed, listed, "{text} {t}");
                    counted += u64::from(allowed);
                    if allowed && length > 0 {
                        mass += placement.sampler().mass(offset, offset);
                    }
                }
                assert_eq!(counted, coverage.allowed_seconds, "{text}");
                assert_eq!(length + 1, coverage.window_seconds, "{text}");
                if length > 0 {
                    assert!((mass - coverage.acceptance).abs() < 1e-6, "{text}");
                }
                if counted == 0 {
                    assert_eq!(coverage.unschedulable_chance(), 1.0, "{text}");
                    assert!(decision.chosen.is_none(), "{text}");
                }
            }
        }
    }
}
