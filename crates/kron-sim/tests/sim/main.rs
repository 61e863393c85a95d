//! The protocol as a model whose every interleaving is tried, and the daemon's own state machine in
//! seeded worlds.

#![expect(clippy::print_stdout, reason = "a test says how much it explored")]

mod model;
mod simulation;
