//! krond as it really is: the binary, real processes, real files, real time.
//!
//! Tests that need a run start it by request, from a job that is
//! [`seldom`](kron_testkit::krond::seldom) due. Tests that need a period load it into a running
//! daemon, about a second ahead.

use kron_testkit::files::read;
use kron_testkit::krond::World;

mod burst;
mod concurrency;
mod failures;
mod hooks;
mod metrics;
mod recovery;
mod reload;
mod runs;
mod socket;
mod starting;
mod stopping;
mod trust;
mod waiting;

/// Loads the present configuration with `deadline=0s` for `deadline=1h`. Deadlines do not decide
/// when a job is due, so that its pending period stays its own, and is past its deadline now.
pub(crate) fn end_deadlines(world: &World) {
    let config = read(&world.config_path()).unwrap();
    let ended = config.replace("deadline=1h", "deadline=0s");
    assert_ne!(ended, config, "no job has the deadline of an hour");
    world.configure(&ended);
    world.reload_now();
}
