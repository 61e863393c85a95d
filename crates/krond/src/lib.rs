//! Kron's host daemon: decides when jobs are due, runs them, and records what happened.
//!
//! [`machine`] is the daemon's mind: a pure function of events, time and what was recorded.
//! [`daemon`] is its body: clocks, files, processes, signals and threads. [`api`] is how people
//! talk to it. The simulation gives the same mind another body.

pub mod api;
pub mod daemon;
pub mod log;
pub mod machine;
mod metrics;
pub mod options;
mod queue;
mod random;
mod spool;
mod web;
