//! The queue through its own interface and through a shell's: real files, real threads, real kills.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commit;
mod crash;
mod delayed;
mod direct;
mod failures;
mod group;
mod hostile;
mod invariants;
mod open;
mod order;
mod recovery;
mod rules;
mod run;
mod schedule;
mod steps;
mod support;
mod triggers;
mod upkeep;
