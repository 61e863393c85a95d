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

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;

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

/// What is recorded of a job when its run falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    /// Nothing. Half a minute after its first record the daemon writes to `known.json` that there is
    /// one, in the middle of whatever else it does on a busy machine.
    New,
    /// A document in which nothing has happened ([`write_empty_document`]). A daemon that finds it at
    /// its start writes nothing more of that kind.
    Known,
}

/// Writes the document of a job to which nothing has happened, before the first daemon starts.
fn write_empty_document(world: &World, identity: &str) {
    DirBuilder::new().mode(0o700).create(world.state_dir()).unwrap();
    let document = serde_json::json!({
        "Version": "1", "Identity": identity, "LastHandledPeriodID": "", "LastOutcome": "",
        "LastChosenTime": "", "LastNominalTime": "", "ActiveExecution": null, "History": [],
    });
    world.write_document(identity, &document.to_string());
}
