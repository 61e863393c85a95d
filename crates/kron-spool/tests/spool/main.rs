//! The spool against everything that can happen to it: power cuts, kills, errors, and bad input.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(
    clippy::print_stdout,
    reason = "processes that tests start talk to them, and tests say what did not run"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests read the files and the environment of the processes they start"
)]

mod acting;
mod bad_input;
#[cfg(kron_canary)]
mod canaries;
mod child;
mod directories;
mod left;
mod long_life;
mod loop_device;
mod made;
mod power_cut;
mod promises;
mod put;
mod recovery;
mod scarcity;
mod system_calls;
