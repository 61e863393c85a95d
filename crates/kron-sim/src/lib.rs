//! A seeded world for the daemon's mind, and the checker that judges what happened in it.
//!
//! [`run`] gives [`krond::machine::Machine`], the very code that the daemon runs, a clock that
//! is set and leaps, a disk that loses what was not synced, supervisors and commands that are
//! killed, machines that sleep and lose power, and people who edit, suspend and start jobs. Every
//! choice comes from one seed, so a history can be had again, bit for bit.
//!
//! [`checker`] knows nothing of the machine. It reads what the commands themselves left behind and
//! the JSON on the disk, and says what is wrong with them.
//!
//! Development only: nothing that is shipped depends on this crate.

pub mod calendar;
pub mod checker;
mod daemon;
mod fault;
pub mod ledger;
mod plan;
mod process;
mod rng;
mod scenario;
mod soak;
mod storage;
mod sync;
mod tally;
mod trace;
mod world;

pub use scenario::{Sabotage, Scenario};
pub use soak::{Soak, Verdict, Worlds};
pub use tally::{Happening, Tally};
pub use world::{Outcome, Tell, run};
