//! A supervisor and nothing else: what `krond --supervisor` starts for every run.
//!
//! krond can be its own supervisor, and is unless it is told otherwise. This program does the same
//! and is smaller, so that each run costs less memory and starts sooner.

use std::process::ExitCode;

fn main() -> ExitCode {
    kron_exec::supervise()
}
