//! The store against everything that can happen to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(
    clippy::print_stdout,
    reason = "processes that tests start talk to them, and tests say what did not run"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests read the files and the environment of the processes they start"
)]

#[cfg(kron_canary)]
mod canaries;
mod child;
mod damage;
mod epochs;
mod faults;
mod history;
mod lock;
mod loop_device;
mod made;
mod power_cut;
mod scarcity;
mod shared_sync;
mod store;
mod system_calls;
mod tampering;
