//! A job's whole timing: its schedule, its placement and its policy.
//!
//! **Invariant:** windows of neighbouring periods do not overlap. [`Timing::new`] refuses
//! definitions for which they could, and so chosen times are in the order of their periods, and
//! "the current period" and one high-water mark mean something.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::constraint::Side;
use crate::decision::{Decision, Placement};
use crate::duration::Seconds;
use crate::finding::Finding;
use crate::policy::Policy;
use crate::schedule::{Nominals, Schedule, ShortestGap};
use crate::seed::hex;
use crate::time::UtcSecond;
use crate::trigger::Past;

/// A schedule, a placement and a policy that go together.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    schedule: Schedule,
    placement: Placement,
    /// What the job allows when it falls due.
    pub policy: Policy,
}

impl Timing {
    /// Joins a schedule and a placement in the same zone.
    ///
    /// # Errors
    /// A validation error when the windows of two neighbouring periods could overlap, or the zones
    /// differ.
    pub fn new(
        schedule: Schedule,
        placement: Placement,
        policy: Policy,
    ) -> Result<Timing, Finding> {
        let fit = schedule.fits(placement.window().length());
        Timing::checked(schedule, placement, policy, fit)
    }

    /// As [`Timing::new`], with the answer of [`Schedule::fits`] already known.
    pub(crate) fn checked(
        schedule: Schedule,
        placement: Placement,
        policy: Policy,
        fit: Result<(), ShortestGap>,
    ) -> Result<Timing, Finding> {
        if schedule.zone() != placement.zone() {
            return Err(Finding::validation(
                0..0,
                format!(
                    "the schedule is in {} and the placement in {}",
                    schedule.zone(),
                    placement.zone()
                ),
            ));
        }
        if let Err(gap) = fit {
            return Err(Finding::validation(
                0..0,
                format!(
                    "windows of {} can overlap: the periods {} and {} are only {} apart",
                    placement.window().length(),
                    gap.from,
                    gap.to,
                    gap.length()
                ),
            )
            .help(format!("use a window of at most {}", gap.length())));
        }
        Ok(Timing { schedule, placement, policy })
    }

    /// The schedule.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The placement.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Decisions of the periods with a nominal time after `t`, in order.
    #[must_use]
    pub fn periods_after(&self, t: UtcSecond) -> Periods<'_> {
        Periods { nominals: self.schedule.after(t), placement: &self.placement }
    }

    /// Decisions of the periods that fall due after `t`, in order.
    pub fn due_after(&self, t: UtcSecond) -> impl Iterator<Item = Decision> + '_ {
        let window = self.placement.window();
        let reach = window.length().get_signed() - window.lead().get_signed();
        self.periods_after(t.saturating_add(-reach - 1)).skip_while(move |d| d.due() <= t)
    }

    /// The current period at `t`: the latest that fell due at or before it.
    #[must_use]
    pub fn current_at(&self, t: UtcSecond) -> Option<Decision> {
        let lead = self.placement.window().lead().get_signed();
        let mut nominal = self.schedule.prev_at_or_before(t.saturating_add(lead))?;
        loop {
            // A window that reaches past the year 9999 belongs to no period anybody can run.
            if let Ok(decision) = self.placement.decide(nominal)
                && decision.due() <= t
            {
                return Some(decision);
            }
            nominal = self.schedule.prev_at_or_before(nominal.checked_add(-1)?)?;
        }
    }

    /// What is to be done about this job at `now`: the periods to judge, and those that were
    /// passed over and are missed.
    #[must_use]
    pub fn backlog(&self, past: &Past, now: UtcSecond) -> Backlog {
        let Some(current) = self.current_at(now) else { return Backlog::default() };
        let unhandled = |decision: &Decision| {
            past.last_handled.is_none_or(|handled| decision.nominal > handled)
        };
        // Neighbouring windows may touch, so more than one period can choose the same second.
        let mut due = vec![current];
        let before = |decision: &Decision| {
            let nominal = self.schedule.prev_at_or_before(decision.nominal.checked_add(-1)?)?;
            self.placement.decide(nominal).ok()
        };
        while let Some(earlier) = before(&due[0]).filter(|earlier| earlier.due() == current.due()) {
            due.insert(0, earlier);
        }
        let Some(from) = self.first_unhandled(past) else {
            due.retain(unhandled);
            return Backlog { due, ..Backlog::default() };
        };
        let end = due[0].nominal;
        // Chosen times are in period order, so the change of definition falls between two periods.
        let split = match past.effective_from {
            None => from,
            Some(changed) => self
                .periods_after(from.saturating_add(-1))
                .find(|decision| decision.due() > changed || decision.nominal >= end)
                .map_or(end, |decision| decision.nominal),
        };
        let redefined = self.stretch(from, split.min(end));
        let superseded = self.stretch(split, end);
        due.retain(unhandled);
        Backlog { redefined, superseded, due }
    }

    /// The nominal time of the first period that has no outcome and should have one; `None` when
    /// nothing is known about the past.
    fn first_unhandled(&self, past: &Past) -> Option<UtcSecond> {
        let handled = past.last_handled.unwrap_or(UtcSecond::MIN);
        // What fell due before the job existed or while it was suspended has no outcome.
        let floor = match (past.created_at.max(past.resumed_at), past.last_handled) {
            (Some(floor), _) => floor,
            (None, Some(handled)) => return self.schedule.next_after(handled),
            (None, None) => past.effective_from?,
        };
        // Whatever fell due after the floor has its nominal time after this.
        let reach = self.placement.window().length().get_signed();
        self.periods_after(handled.max(floor.saturating_add(-reach - 1)))
            .find(|decision| decision.due() > floor)
            .map(|decision| decision.nominal)
    }

    /// The periods with nominal times in `from..to`, if there are any.
    fn stretch(&self, from: UtcSecond, to: UtcSecond) -> Option<PeriodStretch> {
        let mut nominals =
            self.schedule.after(from.saturating_add(-1)).take_while(|nominal| *nominal < to);
        let first = nominals.next()?;
        let start = PeriodStretch { first, last: first, count: 1 };
        Some(nominals.fold(start, |stretch, last| PeriodStretch {
            last,
            count: stretch.count + 1,
            ..stretch
        }))
    }

    /// A hash of everything that decides: schedule, zone, daylight saving, window, distribution,
    /// seed and constraints, but not policy. Definitions with the same hash decide alike, and
    /// defaults count the same whether they are written or not.
    ///
    /// It is recorded, so what goes into it is frozen by a test.
    #[must_use]
    pub fn decision_hash(&self) -> DecisionHash {
        let placement = &self.placement;
        let mut lines = Lines::of(placement.identity());
        lines.add(format_args!("{}", self.schedule.pattern()));
        lines.add(format_args!("{}", placement.zone().name()));
        lines.add(format_args!("{}", self.schedule.dst().gap.as_str()));
        lines.add(format_args!("{}", self.schedule.resolved_overlap().as_str()));
        let window = placement.window();
        // Without a window nothing is drawn, and how it would be does not matter.
        if window.length() != Seconds::ZERO {
            lines.add(format_args!("{} {}", window.mode(), window.length().get()));
            lines.add(format_args!("{}", placement.distribution().name()));
            for (name, value) in placement.distribution().parameters(window) {
                lines.add(format_args!("{name}={value}"));
            }
            lines.add(format_args!("{}", placement.seed_strategy().as_str()));
            lines.add(format_args!("{}", placement.salt()));
        }
        for side in [Side::Only, Side::Avoid] {
            for clause in placement.constraints().clauses(side) {
                lines.add(format_args!("{} {clause}", side.as_str()));
            }
        }
        DecisionHash(lines.0.finalize().into())
    }
}

/// Lines that are hashed as they come.
struct Lines(Sha256);

impl Lines {
    fn of(first: &str) -> Lines {
        Lines(Sha256::new_with_prefix(first))
    }

    fn add(&mut self, line: fmt::Arguments<'_>) {
        self.0.update(b"\n");
        // A hash takes whatever it is given.
        let _ = self.write_fmt(line);
    }
}

impl fmt::Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// What [`Timing::decision_hash`] gives. Prints as lowercase hex, and is read back from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecisionHash([u8; 32]);

impl fmt::Display for DecisionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(&hex(&self.0)).unwrap_or_default())
    }
}

impl fmt::Debug for DecisionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecisionHash({self})")
    }
}

impl FromStr for DecisionHash {
    type Err = Finding;

    fn from_str(text: &str) -> Result<DecisionHash, Finding> {
        let mut bytes = [0; 32];
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let pairs = text.as_bytes().chunks_exact(2);
        let sound = text.len() == 64
            && bytes.iter_mut().zip(pairs).all(|(byte, pair)| {
                let (high, low) = (digit(pair[0]), digit(pair[1]));
                high.zip(low).map(|(high, low)| *byte = high << 4 | low).is_some()
            });
        if sound {
            return Ok(DecisionHash(bytes));
        }
        Err(Finding::configuration(0..text.len(), "a decision hash has 64 hexadecimal digits"))
    }
}

/// What [`Timing::backlog`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Unhandled periods that a later one has overtaken and that fell due at or before the present
    /// definition took effect. They are skipped, reason [`crate::Reason::DefinitionChanged`], and
    /// recorded as one stretch before anything else.
    pub redefined: Option<PeriodStretch>,
    /// Unhandled periods that a later one has overtaken. They are missed, reason
    /// [`crate::Reason::Superseded`], and recorded as one stretch before anything that is due.
    pub superseded: Option<PeriodStretch>,
    /// The current period, if it is unhandled, after any that share its chosen second: judge each,
    /// in this order.
    pub due: Vec<Decision>,
}

/// A run of neighbouring periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodStretch {
    /// The nominal time of the first.
    pub first: UtcSecond,
    /// The nominal time of the last.
    pub last: UtcSecond,
    /// How many there are.
    pub count: u64,
}

/// Decisions in period order; made by [`Timing::periods_after`]. Ends where years end.
#[derive(Clone, Debug)]
pub struct Periods<'a> {
    nominals: Nominals<'a>,
    placement: &'a Placement,
}

impl Iterator for Periods<'_> {
    type Item = Decision;

    fn next(&mut self) -> Option<Decision> {
        // A window that reaches outside years 1 to 9999 belongs to no period anybody can run.
        self.nominals.by_ref().find_map(|nominal| self.placement.decide(nominal).ok())
    }
}
