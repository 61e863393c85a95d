//! Whether the wall clock is believed.
//!
//! Wall time and time since boot go together unless somebody sets the clock. A small step is told
//! and followed. A leap of more than a day ahead is not followed at once, since every mark it
//! writes would lie in the future for good: nothing is judged until the leap has held for a while
//! with the kernel's clock synchronised, or somebody says that it is right.

use std::time::Duration;

use kron_core::UtcSecond;
use kron_state::EpochEvent;

use super::event::{Entry, Level, Now, RequestId};
use super::{Action, Machine, Refusal, Reply, Timer};

/// A leap ahead of this many seconds is not believed at once.
pub(crate) const LEAP_S: i64 = 24 * 60 * 60;
/// A difference of this many seconds is a step; less is rounding.
const STEP_S: i64 = 2;
/// How long a leap must hold.
const HOLD: Duration = Duration::from_secs(60);

/// The clock as the machine has come to know it.
#[derive(Debug)]
pub(super) struct Clock {
    /// Wall time minus time since boot, in seconds, as last believed.
    offset_s: i64,
    held: Option<Held>,
    synchronised: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    offset_s: i64,
    since: Duration,
    /// What the clock would show had it not leapt.
    believed: UtcSecond,
}

fn offset_of(now: Now) -> i64 {
    now.wall.unix() - now.boot.as_secs() as i64
}

impl Clock {
    pub(super) fn new(now: Now) -> Clock {
        Clock { offset_s: offset_of(now), held: None, synchronised: false }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn held_since(&self) -> Option<UtcSecond> {
        self.held.map(|held| held.believed)
    }
}

impl Machine {
    pub(super) fn look_at_clock(&mut self, now: Now, synchronised: bool) {
        self.clock.synchronised = synchronised;
        let offset_s = offset_of(now);
        let ahead_s = offset_s - self.clock.offset_s;
        let believed = now.wall.saturating_add(-ahead_s);
        match self.clock.held {
            None if ahead_s > LEAP_S => self.hold(now, offset_s, believed),
            Some(held) if ahead_s > LEAP_S => {
                if (offset_s - held.offset_s).abs() >= STEP_S {
                    self.hold(now, offset_s, held.believed);
                }
            }
            None if ahead_s.abs() < STEP_S => {}
            held => {
                self.clock.held = None;
                if held.is_some() {
                    let reason = "taken back".to_owned();
                    self.push(Action::Epoch(EpochEvent::ClockAccepted { reason }));
                }
                self.follow(now, offset_s);
                if ahead_s < 0 || held.is_some() {
                    // What was written while the clock was ahead.
                    if self.leave_the_future(now) {
                        self.save_known(None);
                    }
                }
                if held.is_some() {
                    self.judge_all(now);
                }
            }
        }
    }

    fn hold(&mut self, now: Now, offset_s: i64, believed: UtcSecond) {
        self.clock.held = Some(Held { offset_s, since: now.boot, believed });
        self.timers.insert((now.boot + HOLD, Timer::Clock));
        let ahead_s = offset_s - self.clock.offset_s;
        self.push(Action::Epoch(EpochEvent::ClockHeld { from: believed, to: now.wall }));
        self.log(
            Entry::new(Level::Warn, "clock_held")
                .with("ahead_s", ahead_s)
                .with("message", "the clock leapt ahead by more than a day; nothing is judged until it has held for a minute while synchronised, or `kron clock accept`"),
        );
    }

    /// Follows the clock to where it is now.
    fn follow(&mut self, now: Now, offset_s: i64) {
        let step_s = offset_s - self.clock.offset_s;
        self.clock.offset_s = offset_s;
        if step_s.abs() < STEP_S {
            return;
        }
        let from = now.wall.saturating_add(-step_s);
        self.push(Action::Epoch(EpochEvent::ClockStep { from, to: now.wall }));
        let level = if step_s < 0 { Level::Warn } else { Level::Info };
        self.log(
            Entry::new(level, "clock_step")
                .shown("from", from)
                .shown("to", now.wall)
                .with("step_s", step_s),
        );
    }

    /// The time a leap must hold is over.
    pub(super) fn clock_may_be_believed(&mut self, now: Now) {
        let Some(held) = self.clock.held else { return };
        if now.boot.saturating_sub(held.since) < HOLD {
            return;
        }
        if self.clock.synchronised {
            self.believe(now, "synchronised");
        } else {
            self.timers.insert((now.boot + HOLD, Timer::Clock));
        }
    }

    pub(super) fn accept_clock(&mut self, now: Now, to: RequestId) {
        let reply = if self.clock.is_held() {
            self.believe(now, "asked");
            Reply::Done
        } else {
            let message = "the clock is believed already".to_owned();
            Reply::Refused(Refusal::Unchanged { message })
        };
        self.push(Action::Reply { to, reply });
    }

    fn believe(&mut self, now: Now, reason: &str) {
        self.clock.held = None;
        self.push(Action::Epoch(EpochEvent::ClockAccepted { reason: reason.to_owned() }));
        self.log(Entry::new(Level::Info, "clock_accepted").with("reason", reason));
        self.follow(now, offset_of(now));
        self.judge_all(now);
    }
}
