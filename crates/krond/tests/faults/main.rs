//! The real daemon against what goes wrong around it.
//!
//! | module | what goes wrong |
//! |---|---|
//! | [`recording`] | a system call of the thread that records a run fails, from its start to its end |
//! | [`starting`] | a system call of a start fails, in a directory that a crash left behind |
//! | [`exhaustion`] | descriptors, processes, memory or the loop's own system calls fail |
//! | [`full_disk`] | there is really no room left |
//! | [`commands`] | the command itself cannot be started, fails, or dies |
//! | [`clocks`] | the clock is set, the machine sleeps, summer time begins and ends |
//! | [`tampering`] | somebody was at the state directory |
//! | [`reload`] | definitions change at the worst moment, or are not what they should be |
//!
//! Everything is judged by what the commands themselves left behind ([`scene`]), by the documents
//! as plain JSON and by the log. Nothing sleeps for a while to see what happens: what is waited
//! for is a line, a file or the time itself.
//!
//! Most of it needs root and `strace`, the clocks need `libfaketime`, the full disk a mount. What
//! is missing fails the tests with the name of the package, unless `KRON_TEST_WITHOUT` names it
//! (`root`, `strace`, `faketime`, `mount`; several with commas).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[cfg(kron_canary)]
mod canaries;
mod clocks;
mod commands;
mod exhaustion;
mod full_disk;
#[expect(dead_code, reason = "shared with the tests of the daemon, which need more of it")]
#[path = "../daemon/harness.rs"]
mod harness;
mod needs;
mod recording;
mod reload;
mod scene;
mod starting;
mod strace;
mod tampering;
