//! The time as the queue believes it.
//!
//! A wall clock that leaps far ahead is not believed by the scheduler until somebody vouches for it,
//! and neither is it here: meanwhile the queue's time goes on from where it was, at the pace of the
//! time since boot. So a leap triggers no schedule, lets no delayed job go, and removes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kron_queue::Timestamp;

use super::dispatcher::Moment;
use crate::daemon::clock;
use crate::machine::LEAP_S;

/// What the queue believes.
#[derive(Debug)]
pub(crate) struct Believed {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// A wall time that was believed, and the time since boot at that moment.
    wall: Timestamp,
    boot: Duration,
    held: bool,
}

impl Believed {
    pub(crate) fn new() -> Believed {
        let (wall, boot) = present();
        Believed { state: Mutex::new(State { wall, boot, held: false }) }
    }

    /// The present.
    pub(crate) fn now(&self) -> Moment {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall, boot) = present();
        Moment { wall: state.look(wall, boot), boot }
    }

    /// The scheduler does not believe the clock, or does again.
    pub(crate) fn set_held(&self, held: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.held && !held {
            (state.wall, state.boot) = present();
        }
        state.held = held;
    }
}

impl State {
    fn look(&mut self, wall: Timestamp, boot: Duration) -> Timestamp {
        let passed = boot.saturating_sub(self.boot).as_millis();
        let expected = self.wall.saturating_add_ms(i64::try_from(passed).unwrap_or(i64::MAX));
        // A leap is seen here before the scheduler has had time to look.
        let leapt = wall.unix_ms().saturating_sub(expected.unix_ms()) > LEAP_S * 1_000;
        if self.held || leapt {
            return expected;
        }
        (self.wall, self.boot) = (wall, boot);
        wall
    }
}

fn present() -> (Timestamp, Duration) {
    (clock::milliseconds(), clock::now().boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_is_not_believed_and_time_goes_on_without_it() {
        let start = Timestamp::from_unix_ms(1_800_000_000_000).unwrap();
        let at = |ms: i64| start.saturating_add_ms(ms);
        let boot = Duration::from_millis;
        let day = LEAP_S * 1_000;
        let mut state = State { wall: start, boot: boot(0), held: false };
        assert_eq!(state.look(at(1_000), boot(1_000)), at(1_000));
        assert_eq!(state.look(at(day), boot(2_000)), at(day), "within the limit");
        assert_eq!(state.look(at(3 * day), boot(3_000)), at(day + 1_000), "beyond it");
        assert_eq!(state.look(at(day + 5_000), boot(7_000)), at(day + 5_000), "put right");
        assert_eq!(state.look(at(0), boot(8_000)), at(0), "back is believed");
        state.held = true;
        assert_eq!(state.look(at(100_000), boot(9_000)), at(1_000));
    }
}
