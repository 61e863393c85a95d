//! A job's whole timing: its schedule, its placement and its policy.
//!
//! **Invariant:** windows of neighbouring periods do not overlap. [`Timing::new`] refuses
//! definitions for which they could, and so chosen times are in the order of their periods, and
//! "the current period" and one high-water mark mean something.

use sha2::{Digest as _, Sha256};

use crate::decision::{Decision, Placement};
use crate::finding::Finding;
use crate::policy::Policy;
use crate::schedule::{Nominals, Schedule, ShortestGap};
use crate::time::UtcSecond;

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
            let decision = self.placement.decide(nominal).ok()?;
            if decision.due() <= t {
                return Some(decision);
            }
            nominal = self.schedule.prev_at_or_before(nominal.checked_add(-1)?)?;
        }
    }

    /// A hash of everything that decides: schedule, zone, daylight saving, window, distribution,
    /// seed and constraints, but not policy. Two definitions with the same hash decide alike.
    #[must_use]
    pub fn decision_hash(&self) -> String {
        let text = format!("{}\n{}", self.placement.identity(), self.deciding_expression());
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
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
        self.placement.decide(self.nominals.next()?).ok()
    }
}
