//! Threads of the daemon beside its loop.
//!
//! A thread that breaks an invariant of our own must not leave half a daemon behind, in which
//! writes or starts silently never happen. So it takes the whole daemon with it: that is a crash
//! like any other, and what it means for runs and records is settled.

use std::io;
use std::process;
use std::thread::{self, Builder, JoinHandle};

/// Starts a thread that ends the daemon if it panics.
pub(crate) fn spawn(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name).spawn(move || {
        let _guard = AbortOnPanic;
        work();
    })
}

/// Waits until a process has ended, whether its parent has taken notice or not; for a minute at
/// most, because a command may run for as long as it likes.
#[cfg(kron_canary)]
pub(crate) fn wait_until_gone(pid: i64) {
    for _ in 0..6_000 {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        if program.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
