//! The protocol as a model whose every interleaving is tried, and the daemon's own state machine in
//! seeded worlds.

mod model;
mod simulation;
