//! krond as it really is: the program, real processes, real files, real time.
//!
//! | module | what is looked at |
//! |---|---|
//! | [`daemon`] | runs, restarts, reloads, stops, hooks, metrics, the control socket |
//! | [`crontab`] | crontabs of the system, as cron ran them |
//! | [`queue`] | the queue inside the daemon |
//! | [`spool`] | spools inside the daemon |
//! | [`faults`] | what goes wrong around the daemon: errors, clocks, full disks, tampering |
//! | [`crash`] | death at every system call of a run, and at random moments |
//! | [`queue_crash`] | the same with a queue |
//! | [`spool_crash`] | the same with a spool |
//! | `canaries` | tests that must fail when the daemon is broken on purpose |
//!
//! What they share with the tests of other crates is in `kron-testkit`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use kron_testkit::krond::World;

#[cfg(kron_canary)]
mod canaries;
mod crash;
mod crontab;
mod daemon;
mod faults;
mod queue;
mod queue_crash;
mod spool;
mod spool_crash;

/// The program under test.
const KROND: &str = env!("CARGO_BIN_EXE_krond");

/// A world with this configuration, for daemons that this crate builds. `{dir}` in it stands for
/// the directory of witnesses.
fn new_world(config: &str) -> World {
    World::new(KROND, config)
}

/// As [`new_world`], in memory: for tests that are not about the disk and cannot wait for one.
fn new_world_in_memory(config: &str) -> World {
    World::in_memory(KROND, config)
}
