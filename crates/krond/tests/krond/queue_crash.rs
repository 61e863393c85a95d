//! krond with a queue, killed again and again under load, and the proof that nothing acknowledged
//! is lost and nothing runs twice.
//!
//! | what | where |
//! |---|---|
//! | deaths at random moments, 64 clients at work | [`load`] |
//! | a death at each step of each operation | [`steps`] |
//! | one death between a scheduled job's enqueueing and its record | [`handed_over`] |
//! | peers that mean no good | [`hostile`] |
//! | the handler, which writes down that it ran | [`witness`] |
//! | the judge, which shares no code with the daemon | [`checker`] |
//!
//! `KRON_QUEUE_CRASH_SECONDS`, `KRON_QUEUE_CRASH_EVERY` and `KRON_CRASH_SEED` make the tests longer
//! or different, as `scripts/soak-queue-daemon` does; `KRON_CRASH_SUBSET` chooses points, as canaries do.

mod act;
mod checker;
mod chronicle;
mod client;
mod handed_over;
mod hostile;
mod load;
mod steps;
mod witness;
