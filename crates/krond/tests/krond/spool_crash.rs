//! krond with a spool, killed again and again, and the proof that no task is lost, that none runs
//! after it was completed, and that none runs twice at once.
//!
//! | what | where |
//! |---|---|
//! | deaths at random moments, 8 producers at work | [`load`] |
//! | a death at each step of the keeper's, and of recovery | [`steps`] |
//! | programs that put tasks, most of them knowing nothing of Kron | [`producers`] |
//! | the handler, which writes down that it ran | [`witness`] |
//! | the judge, which shares no code with the spool or the daemon | [`checker`] |
//!
//! `KRON_SPOOL_CRASH_TASKS`, `KRON_SPOOL_CRASH_EVERY` and `KRON_CRASH_SEED` make the tests longer or
//! different, as `scripts/soak-spool` does; `KRON_CRASH_SUBSET` chooses points, as canaries do.

mod checker;
mod chronicle;
mod load;
mod producers;
mod steps;
mod witness;
