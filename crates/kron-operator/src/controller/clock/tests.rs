//! Which leaps are told, and which are believed.

use super::*;

const DAY_S: u64 = 86_400;

/// Two clocks; the wall clock is set by hand.
struct Clocks {
    begun: Instant,
    leaps: Leaps,
}

impl Clocks {
    fn new() -> Clocks {
        let begun = Instant::now();
        Clocks { begun, leaps: Leaps::new(begun, Duration::from_secs(100 * DAY_S)) }
    }

    /// So long after the beginning the wall clock is so many seconds off.
    fn at(&mut self, after_s: u64, off_s: i64) -> (Option<Leap>, bool) {
        let wall = (100 * DAY_S + after_s).checked_add_signed(off_s).unwrap();
        let now = self.begun + Duration::from_secs(after_s);
        (self.leaps.compare(now, Duration::from_secs(wall)), self.leaps.is_believed())
    }
}

fn ahead(seconds: u64) -> Option<Leap> {
    Some(Leap::Ahead(Duration::from_secs(seconds)))
}

fn back(seconds: u64) -> Option<Leap> {
    Some(Leap::Back(Duration::from_secs(seconds)))
}

#[test]
fn a_clock_that_is_set_is_told_once_and_believed() {
    let mut clocks = Clocks::new();
    assert_eq!(clocks.at(10, 0), (None, true));
    assert_eq!(clocks.at(20, 1), (None, true), "that is no leap");
    assert_eq!(clocks.at(30, 3_600), (ahead(3_600), true));
    assert_eq!(clocks.at(40, 3_600), (None, true));
    assert_eq!(clocks.at(50, -60), (back(3_660), true));
    assert_eq!(clocks.at(60, -60), (None, true));
}

#[test]
fn a_leap_of_days_is_believed_when_it_has_lasted() {
    let days = 400 * DAY_S;
    let off = i64::try_from(days).unwrap();
    let mut clocks = Clocks::new();
    assert_eq!(clocks.at(10, off), (ahead(days), false));
    assert_eq!(clocks.at(69, off), (None, false));
    assert_eq!(clocks.at(70, off), (None, true));
    assert_eq!(clocks.at(1_000, off), (None, true));
}

#[test]
fn a_leap_of_days_that_comes_back_was_none() {
    let days = 2 * DAY_S;
    let off = i64::try_from(days).unwrap();
    let mut clocks = Clocks::new();
    assert_eq!(clocks.at(10, off), (ahead(days), false));
    assert_eq!(clocks.at(12, 0), (back(days), true));
    assert_eq!(clocks.at(13, off), (ahead(days), false), "each is doubted anew");
}

#[test]
fn a_leap_back_by_days_is_believed() {
    // Nothing is decided twice, and nothing early: it waits.
    let mut clocks = Clocks::new();
    assert_eq!(clocks.at(10, -9 * 86_400), (back(9 * DAY_S), true));
}
