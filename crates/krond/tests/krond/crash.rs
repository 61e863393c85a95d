//! krond killed at every step, and the proof that nothing is run twice, forgotten or made up.
//!
//! | what | where |
//! |---|---|
//! | one death at every system call of a run | [`matrix`] |
//! | a supervisor's death after its daemon's | [`alone`] |
//! | a daemon's death while it recovers from another's | [`recovery`] |
//! | many deaths at random moments, under load | [`random`] |
//! | the judge, which shares no code with the daemon | [`checker`] |
//!
//! `KRON_CRASH_SUBSET`, `KRON_CRASH_KILLS` and `KRON_CRASH_SEED` make the tests smaller, longer or
//! different; `scripts/soak-krond` and `scripts/canaries` use them.

mod alone;
mod checker;
mod chronicle;
mod civil;
mod matrix;
mod overtaken;
pub(crate) mod progress;
mod random;
mod recovery;
mod strike;
mod witness;
