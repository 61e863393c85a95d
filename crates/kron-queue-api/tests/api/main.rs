//! The API over a real connection, with a real database and an executor that really runs.
#![expect(clippy::unwrap_used, reason = "a test ends when something is broken")]

mod events;
mod executor;
mod hostile;
mod invariants;
mod lists;
mod paths;
mod world;
