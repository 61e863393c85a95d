//! Waiting, in one place: for the time, for signals, for other threads, and for runs.
//!
//! The daemon sleeps until the second that was chosen and not a moment less; it never looks at a
//! clock to see whether it is time yet. Wall time is waited for on a timer that the kernel cancels
//! when somebody sets the clock, so a step wakes the loop at once; for that to work the timer is
//! always armed, however far ahead.

use std::os::fd::AsFd;
use std::time::Duration;

use kron_core::UtcSecond;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::inbox::Wake;
use crate::machine::{Now, Wakeup};

/// How far ahead the wall clock's timer is armed when nothing is due. It only has to be armed.
const NOTHING_DUE_SECONDS: i64 = 366 * 86_400;
/// The shortest time a relative timer can be armed for: none would disarm it.
const SOONEST: Duration = Duration::from_nanos(1);
/// Events that one wait brings in.
const EVENTS_MAX: usize = 256;

/// The signals that the loop takes; they are blocked in every thread.
const SIGNALS: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD];

const WALL: u64 = 0;
const BOOT: u64 = 1;
const CHORES: u64 = 2;
const SIGNALLED: u64 = 3;
const INBOX: u64 = 4;
const OTHERS: u64 = 5;
const SPOOLS: u64 = 6;
const FIRST_RUN: u64 = 7;

/// Why the loop woke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// A wall time has come, or the clock was set.
    Wall,
    /// A time since boot has come.
    Boot,
    /// It is time for chores.
    Chores,
    /// The queue or a spool wants to be woken.
    Others,
    /// Something has happened in the directory of a spool.
    Spools,
    /// There are signals.
    Signals,
    /// Another thread has something.
    Inbox,
    /// A run's descriptor has something.
    Run(Token),
}

/// Names a descriptor of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token(u64);

/// Everything that is waited for.
#[derive(Debug)]
pub(super) struct Poll {
    epoll: Epoll,
    wall: TimerFd,
    boot: TimerFd,
    chores: TimerFd,
    others: TimerFd,
    signals: SignalFd,
    /// What the timers are armed for; `None` when that must be done anew.
    armed_wall: Option<Option<UtcSecond>>,
    armed_boot: Option<Option<Duration>>,
    next_token: u64,
}

/// Blocks the loop's signals, and the one that would end the daemon at a file that may not grow:
/// that is an error of the write like any other. To be called before any other thread exists, so
/// that all inherit it.
pub(super) fn block_signals() -> nix::Result<()> {
    SIGNALS.into_iter().chain([Signal::SIGXFSZ]).collect::<SigSet>().thread_block()
}

impl Poll {
    pub(super) fn new(wake: &Wake) -> nix::Result<Poll> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let wall = TimerFd::new(ClockId::CLOCK_REALTIME, flags)?;
        let boot = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        let chores = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        let others = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        let signals = SignalFd::with_flags(
            &SIGNALS.into_iter().collect(),
            SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
        )?;
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll.add(&wall, readable(WALL))?;
        epoll.add(&boot, readable(BOOT))?;
        epoll.add(&chores, readable(CHORES))?;
        epoll.add(&others, readable(OTHERS))?;
        epoll.add(&signals, readable(SIGNALLED))?;
        epoll.add(wake, readable(INBOX))?;
        Ok(Poll {
            epoll,
            wall,
            boot,
            chores,
            others,
            signals,
            armed_wall: None,
            armed_boot: None,
            next_token: FIRST_RUN,
        })
    }

    /// Watches a descriptor of a run until [`Poll::forget`].
    pub(super) fn watch(&mut self, fd: impl AsFd) -> nix::Result<Token> {
        let token = self.next_token;
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        self.next_token += 1;
        Ok(Token(token))
    }

    /// Watches what tells of the spools' directories.
    pub(super) fn watch_spools(&self, fd: impl AsFd) -> nix::Result<()> {
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, SPOOLS))
    }

    /// Watches it no longer. To be called while it is still open.
    pub(super) fn forget(&self, fd: impl AsFd) {
        // It can only fail for what is not watched.
        let _ = self.epoll.delete(fd);
    }

    /// Arms the timers for when the machine wants to be woken.
    pub(super) fn arm(&mut self, now: Now, wakeup: Wakeup) -> nix::Result<()> {
        if self.armed_wall != Some(wakeup.wall) {
            let at = wakeup.wall.unwrap_or_else(|| now.wall.saturating_add(NOTHING_DUE_SECONDS));
            // Zero would disarm the timer; anything that early is long past.
            let at = TimeSpec::new(at.unix().max(1), 0);
            self.wall.set(
                Expiration::OneShot(at),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET,
            )?;
            self.armed_wall = Some(wakeup.wall);
        }
        if self.armed_boot != Some(wakeup.boot) {
            match wakeup.boot {
                None => self.boot.unset()?,
                // Relative, so that it does not matter where this clock is said to stand.
                Some(at) => relative(&self.boot, at.saturating_sub(now.boot))?,
            }
            self.armed_boot = Some(wakeup.boot);
        }
        Ok(())
    }

    /// Arms the timer of chores.
    pub(super) fn arm_chores(&self, after: Duration) -> nix::Result<()> {
        relative(&self.chores, after)
    }

    /// Arms the timer of the queue and the spools.
    pub(super) fn arm_others(&self, after: Duration) -> nix::Result<()> {
        relative(&self.others, after)
    }

    /// Sleeps until something happens.
    pub(super) fn wait(&mut self) -> nix::Result<Vec<Ready>> {
        let mut events = [EpollEvent::empty(); EVENTS_MAX];
        let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
            Err(Errno::EINTR) => 0,
            result => result?,
        };
        let mut ready = Vec::with_capacity(count);
        for event in &events[..count] {
            ready.push(match event.data() {
                WALL => {
                    // Expired or cancelled, it is the same: the machine is told the time.
                    let _ = self.wall.wait();
                    self.armed_wall = None;
                    Ready::Wall
                }
                BOOT => {
                    let _ = self.boot.wait();
                    self.armed_boot = None;
                    Ready::Boot
                }
                CHORES => {
                    let _ = self.chores.wait();
                    Ready::Chores
                }
                OTHERS => {
                    let _ = self.others.wait();
                    Ready::Others
                }
                SIGNALLED => Ready::Signals,
                INBOX => Ready::Inbox,
                SPOOLS => Ready::Spools,
                token => Ready::Run(Token(token)),
            });
        }
        Ok(ready)
    }

    /// The next signal that has come.
    pub(super) fn signal(&self) -> Option<Signal> {
        let info = self.signals.read_signal().ok()??;
        i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
    }
}

fn relative(timer: &TimerFd, after: Duration) -> nix::Result<()> {
    timer.set(Expiration::OneShot(after.max(SOONEST).into()), TimerSetTimeFlags::empty())
}

#[cfg(test)]
mod tests {
    use nix::time::{ClockId as Clock, clock_gettime};

    use super::*;
    use crate::daemon::clock;

    #[test]
    fn a_timer_that_is_armed_for_the_past_wakes_at_once_and_only_then() {
        let wake = Wake::new().unwrap();
        let mut poll = Poll::new(&wake).unwrap();
        let now = clock::now();
        let past = Wakeup { wall: Some(now.wall), boot: Some(Duration::ZERO) };
        poll.arm(now, past).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(poll.wait().unwrap());
        }
        assert!(seen.contains(&Ready::Wall) && seen.contains(&Ready::Boot), "{seen:?}");
        poll.arm(now, Wakeup::default()).unwrap();
        wake.up();
        assert_eq!(poll.wait().unwrap(), [Ready::Inbox]);
    }

    #[test]
    fn a_second_that_was_waited_for_has_come() {
        let wake = Wake::new().unwrap();
        let mut poll = Poll::new(&wake).unwrap();
        let now = clock::now();
        let next = now.wall.saturating_add(1);
        poll.arm(now, Wakeup { wall: Some(next), boot: None }).unwrap();
        // A signal that this thread was given ends a wait without any event.
        let mut seen = Vec::new();
        while seen.is_empty() {
            seen = poll.wait().unwrap();
        }
        assert_eq!(seen, [Ready::Wall]);
        // A busy machine may wake this thread later than that; what the kernel was asked for is exact.
        assert!(clock::now().wall >= next, "{:?} is before {next:?}", clock::now().wall);
    }

    /// Between which times, on this clock, a timer expires by what the kernel says is left of it. They
    /// are as far apart as the looks at the clock before and after that.
    fn expiry(timer: &TimerFd, clock: Clock) -> (Duration, Duration) {
        let read = || Duration::from(clock_gettime(clock).unwrap());
        let before = read();
        let left = timer.get().unwrap();
        let after = read();
        let Some(Expiration::OneShot(left)) = left else { panic!("{left:?}") };
        (before + left.into(), after + left.into())
    }

    #[test]
    fn timers_are_armed_for_exactly_what_is_asked_for() {
        let wake = Wake::new().unwrap();
        let mut poll = Poll::new(&wake).unwrap();
        // So far ahead that nothing expires before it is looked at.
        let ahead = Duration::from_secs(3_600);
        let now = clock::now();
        let wall = now.wall.saturating_add(3_600);
        let boot = now.boot + ahead;
        poll.arm(now, Wakeup { wall: Some(wall), boot: Some(boot) }).unwrap();
        let took = clock::now().boot - now.boot;
        let wall = Duration::from_secs(wall.unix().unsigned_abs());
        let (earliest, latest) = expiry(&poll.wall, Clock::CLOCK_REALTIME);
        assert!((earliest..=latest).contains(&wall), "{wall:?}: {earliest:?} to {latest:?}");
        // A relative timer is late by no more than it took to arm it.
        let (earliest, latest) = expiry(&poll.boot, Clock::CLOCK_BOOTTIME);
        assert!(latest >= boot && earliest <= boot + took, "{boot:?}: {earliest:?} to {latest:?}");
        poll.arm(now, Wakeup::default()).unwrap();
        let (_, latest) = expiry(&poll.wall, Clock::CLOCK_REALTIME);
        assert!(latest > wall, "with nothing due it is armed to notice a clock that is set");
        assert_eq!(poll.boot.get().unwrap(), None);
    }
}
