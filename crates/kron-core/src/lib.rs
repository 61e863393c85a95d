//! Kron's pure decision engine.
//!
//! Kron decides *when* work runs: a schedule gives nominal times, a window says how far a run may
//! stray from its nominal time, and a seeded distribution picks one second of the window, once
//! per period, reproducibly and explainably. This crate is that decision and nothing else. It is
//! told the time and never asks for it; it does no I/O, keeps no global state, and allocates
//! nothing on the way to a decision. Within a major version the same input gives the same answer
//! on every machine.
//!
//! # From text to a decision
//!
//! ```
//! use kron_core::{Host, TimingParser};
//!
//! let mut parser = TimingParser::new();
//! let timing = parser
//!     .parse(
//!         "0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly) @avoid(dow=SUN)",
//!         "db-backup",
//!         Host::default(),
//!     )
//!     .expect("a valid expression");
//!
//! let after = "2026-03-27T12:00:00Z".parse()?;
//! let decision = timing.due_after(after).next().expect("a daily job has a next period");
//! assert_eq!(decision.period_id(), "2026-03-28T02:00:00Z");
//! assert!(decision.window_start <= decision.due() && decision.due() <= decision.window_end);
//! # Ok::<(), kron_core::Finding>(())
//! ```
//!
//! # The pieces
//!
//! | piece | what it is |
//! |---|---|
//! | [`Pattern`] | a cron text as a set of wall times |
//! | [`Zone`] | a named time zone from the compiled-in database |
//! | [`Schedule`] | a pattern in a zone with a daylight-saving policy: the nominal times |
//! | [`Window`], [`Distribution`], [`SeedStrategy`], [`Constraints`] | how a period's time is chosen |
//! | [`Placement`] | those four, with an identity: [`Placement::decide`] makes a [`Decision`] |
//! | [`Policy`] | what the job allows when a period falls due |
//! | [`Timing`] | schedule, placement and policy of one job |
//! | [`Timing::backlog`] | which periods to judge now, and which were passed over |
//! | [`judge`] | decision, policy, recorded past, active executions and time → [`Verdict`] |
//! | [`Coverage`], [`forecast`](forecast()), [`compare`](compare()) | what constraints leave, the load of many jobs, what an edit changes |
//! | [`TimingParser`] | texts → timings, with every fault placed |
//! | [`Request`], [`DecisionRecord`], [`DecisionEvent`] | both ends of a decision as data, and in a log |
//!
//! # What stays the same
//!
//! The meaning of a period's id, the window arithmetic, the seed hash, the random numbers, the
//! distributions and the reading of patterns are frozen by test vectors. A new version of the zone
//! database is a new input: it is compiled in, pinned, and named in every [`DecisionRecord`].

pub mod civil;
mod compare;
mod constraint;
mod coverage;
mod cron;
mod decision;
mod distribution;
mod duration;
mod event;
mod expression;
pub mod finding;
mod forecast;
mod policy;
mod record;
mod schedule;
mod seed;
mod time;
mod timestamp;
mod timing;
mod trigger;
mod window;
mod zone;

pub use compare::{Change, Compared, Comparison, compare};
pub use constraint::{Constraints, Rejection, Side};
pub use coverage::Coverage;
pub use cron::Pattern;
pub use decision::{
    ATTEMPTS_MAX, Attempt, Decision, NAME_BYTES_MAX, Placement, UNSCHEDULABLE_REASON,
};
pub use distribution::{Direction, Distribution, Mu, Parameter, Sampler};
pub use duration::Seconds;
pub use event::{DecisionEvent, Difference, quoted};
pub use expression::{Argument, Draft, Fields, Host, Modifier, TimingParser};
pub use finding::{Category, Finding, Piece, Severity};
pub use forecast::{
    ACTIVE_MAX, BUCKETS_MAX, Forecast, Horizon, Load, Overlapping, STARTS_MAX, Starts, forecast,
};
pub use policy::{Concurrency, Policy};
pub use record::{
    AppliedRecord, ClausesRecord, ConstraintsRecord, DecisionRecord, DistributionRecord,
    ParameterRecord, Request,
};
pub use schedule::{Dst, Gap, Nominals, Overlap, Schedule, ShortestGap, Treatment};
pub use seed::{PeriodKey, SeedHash, SeedStrategy};
pub use time::UtcSecond;
pub use timestamp::{Timestamp, TimestampError};
pub use timing::{Backlog, DecisionHash, PeriodStretch, Periods, Timing};
pub use trigger::{Active, Outcome, Past, Reason, Verdict, judge};
pub use window::{Window, WindowMode};
pub use zone::{Wall, Zone, tzdb_version, zone_names};
