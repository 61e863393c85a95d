//! Waiting for a condition, and the clocks that tests of real time read.
//!
//! A test never sleeps for a while to see what happens: it waits for a condition, and fails when
//! that does not hold within [`PATIENCE`].

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::files::read;

/// After how long a condition that does not hold counts as a hang. It bounds nothing else: no test
/// passes or fails by how long something takes, and a machine may be busy for a long time.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// How often a condition is looked at.
pub const GLANCE: Duration = Duration::from_millis(5);

/// Waits until there is something.
#[track_caller]
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_every(GLANCE, what, look)
}

/// As [`eventually`], with this pause between looks: for a look that starts a program, which takes
/// processor time from what the test waits for.
#[track_caller]
pub fn eventually_every<T>(pause: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(pause);
    }
}

/// The numbers of the calls in which a thread waits for another.
#[cfg(target_arch = "x86_64")]
pub const WAIT_FOR_A_THREAD: &[&str] = &["202"];
/// The numbers of the calls in which a thread waits for another.
#[cfg(target_arch = "aarch64")]
pub const WAIT_FOR_A_THREAD: &[&str] = &["98"];

/// Waits until a thread waits in one of these calls.
#[track_caller]
pub fn wait_until_blocked(thread: i32, calls: &[&str]) {
    let path = PathBuf::from(format!("/proc/{thread}/syscall"));
    eventually("the thread sleeps", || {
        let call = read(&path)?;
        calls.contains(&call.split(' ').next()?).then_some(())
    });
}

/// The second that the wall clock shows.
#[expect(clippy::disallowed_methods, reason = "tests of real time ask for it")]
pub fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "tests of real time ask for it")]
pub fn now() -> Instant {
    Instant::now()
}
