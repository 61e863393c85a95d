//! krond as it really is: the binary, real processes, real files, real time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod burst;
#[cfg(kron_canary)]
mod canaries;
mod concurrency;
mod failures;
mod harness;
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
