//! The wall clock: the one place where it is read, and a timer that follows it.
//!
//! A sleep until a second of the wall clock must end when the clock is set, so the timer is the
//! kernel's own, cancelled on any leap.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use kron_core::UtcSecond;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rustix::io::Errno;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A leap of the clock by more is not believed at once.
const LEAP_MAX: Duration = Duration::from_secs(86_400);
/// It is believed once it has lasted.
const LEAP_PATIENCE: Duration = Duration::from_secs(60);
/// Less is no leap.
const DRIFT_MAX: Duration = Duration::from_secs(1);
/// So far off that no clock shows it.
const FAR_UNIX_S: i64 = 1 << 40;

/// The time since 1970.
#[expect(clippy::disallowed_methods, reason = "the one reader of the wall clock")]
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The second that the wall clock shows.
pub(crate) fn now() -> UtcSecond {
    let seconds = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
    UtcSecond::from_unix(seconds).unwrap_or(UtcSecond::MAX)
}

/// How long ago this second of the wall clock began.
pub(crate) fn since(second: UtcSecond) -> Duration {
    let began = Duration::from_secs(u64::try_from(second.unix()).unwrap_or_default());
    since_epoch().saturating_sub(began)
}

/// A wall clock that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leap {
    /// It shows so much less than it would.
    Back(Duration),
    /// It shows so much more.
    Ahead(Duration),
}

/// Notices when the wall clock is set. A leap ahead by days is believed only when it has lasted:
/// what is decided by a clock that is wrong for a moment cannot be taken back.
#[derive(Debug)]
pub(crate) struct Leaps {
    /// What the two clocks showed together.
    seen: (Instant, Duration),
    doubted_until: Option<Instant>,
}

impl Leaps {
    pub(crate) fn new(now: Instant, wall: Duration) -> Leaps {
        Leaps { seen: (now, wall), doubted_until: None }
    }

    /// Compares the two clocks, and tells of a leap once.
    pub(crate) fn compare(&mut self, now: Instant, wall: Duration) -> Option<Leap> {
        if self.doubted_until.is_some_and(|until| now >= until) {
            self.doubted_until = None;
        }
        let expected = self.seen.1 + now.saturating_duration_since(self.seen.0);
        let leapt = wall.abs_diff(expected);
        if leapt <= DRIFT_MAX {
            return None;
        }
        self.seen = (now, wall);
        let leap = if wall < expected { Leap::Back(leapt) } else { Leap::Ahead(leapt) };
        // One that comes back ends the doubt.
        let doubted = matches!(leap, Leap::Ahead(leapt) if leapt > LEAP_MAX);
        self.doubted_until = doubted.then(|| now + LEAP_PATIENCE);
        Some(leap)
    }

    /// Whether the wall clock is to be believed.
    pub(crate) fn is_believed(&self) -> bool {
        self.doubted_until.is_none()
    }
}

/// A timer on the wall clock. A thread of its own waits for it.
pub(crate) struct WallTimer {
    timer: Arc<TimerFd>,
    rung: Arc<Notify>,
}

impl WallTimer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// When there is no timer or no thread to be had.
    pub(crate) fn new() -> io::Result<WallTimer> {
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, TimerFlags::TFD_CLOEXEC)?;
        let (timer, rung) = (Arc::new(timer), Arc::new(Notify::new()));
        let waiting = (Arc::clone(&timer), Arc::clone(&rung));
        thread::Builder::new().name("wall-timer".to_owned()).spawn(move || {
            let (timer, rung) = waiting;
            let mut ticks = [0; 8];
            loop {
                match rustix::io::read(&*timer, &mut ticks) {
                    // The second has come, or the clock has leapt.
                    Ok(_) | Err(Errno::CANCELED) => rung.notify_one(),
                    Err(Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        })?;
        Ok(WallTimer { timer, rung })
    }

    /// Sets it to the beginning of this second, or so that only a leap of the clock ends it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn set(&self, second: Option<UtcSecond>) -> io::Result<()> {
        let unix = second.map_or(FAR_UNIX_S, |second| second.unix().max(1));
        let flags =
            TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        match self.timer.set(Expiration::OneShot(TimeSpec::new(unix, 0)), flags) {
            // The clock leapt since the timer was last looked at: then it is set anew.
            Err(nix::errno::Errno::ECANCELED) => self.rung.notify_one(),
            set => set?,
        }
        Ok(())
    }

    /// Waits until the second has come, or the clock has leapt.
    pub(crate) async fn elapsed(&self) {
        self.rung.notified().await;
    }
}

#[cfg(test)]
mod tests;
