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
#[cfg(kron_canary)]
mod canaries;
mod checker;
mod chronicle;
mod civil;
#[path = "../daemon/harness.rs"]
#[expect(dead_code, reason = "the tests of the daemon use the rest")]
mod harness;
mod matrix;
mod overtaken;
mod process;
mod random;
mod recovery;
mod strace;
mod strike;
mod witness;
