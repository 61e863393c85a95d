//! The decision: when, within its window, the run of one period takes place.
//!
//! [`Placement::decide`] is a pure function of a job's definition and a nominal time. It does not
//! allocate, and it is defined to the bit: the same input gives the same answer on every machine
//! and for ever within a major version.

use std::sync::Arc;

use crate::civil::DAY_SECONDS;
use crate::constraint::{Constraints, Rejection};
use crate::distribution::{Distribution, Sampler};
use crate::finding::Finding;
use crate::seed::{PeriodKey, Random, SeedHash, SeedStrategy};
use crate::time::UtcSecond;
use crate::window::Window;
use crate::zone::Zone;

/// Candidates that are tried before a period is unschedulable.
pub const ATTEMPTS_MAX: u32 = 64;

/// The reason recorded for an unschedulable period.
pub const UNSCHEDULABLE_REASON: &str = "no candidate accepted within MaxAttempts";

/// Bytes an identity or a salt may have.
pub const NAME_BYTES_MAX: usize = 4_096;

/// Everything but the schedule that decides: who, where, in which window, how and from what seed.
///
/// ```
/// use kron_core::{Placement, Window, WindowMode, Zone};
/// let placement = Placement::new("prod/db-backup", Zone::utc())?
///     .with_window(Window::new(WindowMode::After, "3h".parse()?)?)?
///     .with_salt("backup")?;
/// let decision = placement.decide("2026-03-01T00:00:00Z".parse()?)?;
/// assert_eq!(decision.chosen.unwrap().to_string(), "2026-03-01T02:32:20Z");
/// # Ok::<(), kron_core::Finding>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    identity: Arc<str>,
    zone: Zone,
    window: Window,
    distribution: Distribution,
    sampler: Sampler,
    seed_strategy: SeedStrategy,
    salt: Box<str>,
    constraints: Constraints,
}

/// The decision for one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The nominal time; it identifies the period.
    pub nominal: UtcSecond,
    /// First second of the window.
    pub window_start: UtcSecond,
    /// Last second of the window.
    pub window_end: UtcSecond,
    /// The chosen time; `None` when the period is unschedulable.
    pub chosen: Option<UtcSecond>,
    /// What the seed was renewed by.
    pub period_key: PeriodKey,
    /// The seed.
    pub seed_hash: SeedHash,
    /// Candidates tried; 0 when the window has no length.
    pub attempts: u32,
}

impl Decision {
    /// The period's identifier: its nominal time in RFC 3339, UTC.
    #[must_use]
    pub fn period_id(&self) -> String {
        self.nominal.to_string()
    }

    /// When the period falls due: its chosen time or, when it is unschedulable, the start of its
    /// window.
    #[must_use]
    pub fn due(&self) -> UtcSecond {
        self.chosen.unwrap_or(self.window_start)
    }
}

/// One candidate on the way to a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The random number drawn; `None` when the window has no length.
    pub u: Option<f64>,
    /// The share of the window it fell on.
    pub position: f64,
    /// Seconds from the window's start.
    pub offset: u64,
    /// The candidate.
    pub candidate: UtcSecond,
    /// The clause that rejected it; `None` for the chosen one.
    pub rejection: Option<Rejection>,
}

fn check_text(what: &str, text: &str) -> Result<(), Finding> {
    let fault = if text.len() > NAME_BYTES_MAX {
        format!("{what} is longer than {NAME_BYTES_MAX} bytes")
    } else if text.chars().any(char::is_control) {
        format!("{what} contains a control character")
    } else {
        return Ok(());
    };
    Err(Finding::validation(0..text.len(), fault))
}

impl Placement {
    /// A placement at exactly the nominal time, with every default.
    ///
    /// # Errors
    /// A configuration error for an empty identity, a validation error for one that is too long or
    /// contains control characters.
    pub fn new(identity: &str, zone: Zone) -> Result<Placement, Finding> {
        if identity.is_empty() {
            return Err(Finding::configuration(0..0, "the identity is empty")
                .help("an identity names the job and must never change"));
        }
        check_text("the identity", identity)?;
        let window = Window::default();
        let distribution = Distribution::default();
        Ok(Placement {
            identity: identity.into(),
            zone,
            window,
            distribution,
            sampler: distribution.sampler(window)?,
            seed_strategy: SeedStrategy::default(),
            salt: "".into(),
            constraints: Constraints::none(),
        })
    }

    /// The same with this window.
    ///
    /// # Errors
    /// A validation error when the distribution's parameters do not go with it.
    pub fn with_window(mut self, window: Window) -> Result<Placement, Finding> {
        self.sampler = self.distribution.sampler(window)?;
        self.window = window;
        Ok(self)
    }

    /// The same with this distribution.
    ///
    /// # Errors
    /// A validation error when one of its parameters is out of range.
    pub fn with_distribution(mut self, distribution: Distribution) -> Result<Placement, Finding> {
        self.sampler = distribution.sampler(self.window)?;
        self.distribution = distribution;
        Ok(self)
    }

    /// The same with this window and distribution, which are checked together.
    ///
    /// # Errors
    /// A validation error when one of the distribution's parameters is out of range.
    pub fn with_spread(
        mut self,
        window: Window,
        distribution: Distribution,
    ) -> Result<Placement, Finding> {
        self.sampler = distribution.sampler(window)?;
        self.window = window;
        self.distribution = distribution;
        Ok(self)
    }

    /// The same with this seed strategy.
    #[must_use]
    pub fn with_seed_strategy(mut self, strategy: SeedStrategy) -> Placement {
        self.seed_strategy = strategy;
        self
    }

    /// The same with this salt.
    ///
    /// # Errors
    /// A validation error when it is too long or contains control characters.
    pub fn with_salt(mut self, salt: &str) -> Result<Placement, Finding> {
        check_text("the salt", salt)?;
        self.salt = salt.into();
        Ok(self)
    }

    /// The same with these constraints.
    #[must_use]
    pub fn with_constraints(mut self, constraints: Constraints) -> Placement {
        self.constraints = constraints;
        self
    }

    /// The job's identity.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The job's identity, for whoever keeps it.
    #[must_use]
    pub fn shared_identity(&self) -> Arc<str> {
        self.identity.clone()
    }

    /// The zone that day keys and constraints are read in.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The window.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// The distribution as written.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// The distribution made ready for the window.
    #[must_use]
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// The seed strategy.
    #[must_use]
    pub fn seed_strategy(&self) -> SeedStrategy {
        self.seed_strategy
    }

    /// The salt.
    #[must_use]
    pub fn salt(&self) -> &str {
        &self.salt
    }

    /// The constraints.
    #[must_use]
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// Decides the period with this nominal time.
    ///
    /// # Errors
    /// A validation error when its window reaches outside years 1 to 9999.
    pub fn decide(&self, nominal: UtcSecond) -> Result<Decision, Finding> {
        self.decide_observed(nominal, &mut |_| {})
    }

    /// Decides as [`Placement::decide`] does and returns every candidate on the way.
    ///
    /// # Errors
    /// As [`Placement::decide`].
    pub fn trace(&self, nominal: UtcSecond) -> Result<(Decision, Vec<Attempt>), Finding> {
        let mut attempts = Vec::new();
        let decision = self.decide_observed(nominal, &mut |draw| {
            let candidate = draw.candidate;
            attempts.push(Attempt {
                u: draw.u,
                position: draw.u.map_or(0.0, |u| self.sampler.position(u)),
                offset: draw.offset,
                candidate,
                rejection: self.constraints.rejection(self.zone.wall_at(candidate)),
            });
        })?;
        Ok((decision, attempts))
    }

    #[inline]
    fn decide_observed(
        &self,
        nominal: UtcSecond,
        observe: &mut impl FnMut(Draw),
    ) -> Result<Decision, Finding> {
        let outside = |what: &str| {
            Finding::validation(
                0..0,
                format!("the {what} of {nominal} lies outside years 0001 to 9999"),
            )
        };
        let Some((window_start, window_end)) = self.window.bounds(nominal) else {
            return Err(outside("window"));
        };
        // Only at the very ends of time can the date be another year's in some zone.
        let well_inside =
            UtcSecond::MIN.unix() + 2 * DAY_SECONDS..UtcSecond::MAX.unix() - 2 * DAY_SECONDS;
        if !well_inside.contains(&nominal.unix())
            && !(1..=9999).contains(&self.zone.wall_at(nominal).date().year)
        {
            return Err(outside("local date"));
        }
        let period_key = self.seed_strategy.period_key(nominal, &self.zone);
        let seed_hash = SeedHash::of(&self.identity, &period_key, &self.salt);
        let allowed = |candidate: UtcSecond| {
            self.constraints.is_empty() || self.constraints.allow(self.zone.wall_at(candidate))
        };
        let mut attempts = 0;
        let mut chosen = None;
        if self.window.length().get() == 0 {
            observe(Draw { u: None, offset: 0, candidate: nominal });
            chosen = Some(nominal).filter(|&candidate| allowed(candidate));
        } else {
            let mut random = Random::new(&seed_hash);
            while attempts < ATTEMPTS_MAX && chosen.is_none() {
                attempts += 1;
                let u = random.next_unit();
                let offset = self.sampler.offset(u);
                let candidate = window_start.saturating_add(offset as i64);
                observe(Draw { u: Some(u), offset, candidate });
                chosen = Some(candidate).filter(|&candidate| allowed(candidate));
            }
        }
        Ok(Decision { nominal, window_start, window_end, chosen, period_key, seed_hash, attempts })
    }
}

struct Draw {
    u: Option<f64>,
    offset: u64,
    candidate: UtcSecond,
}
