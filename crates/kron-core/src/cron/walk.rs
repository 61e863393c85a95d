//! Wall times of a pattern in order, forwards with a cursor and backwards one at a time.
//!
//! All work is bit scanning: the next second, minute and hour of a day, the next day in a month's
//! mask, the next month. A search that finds nothing ends after one 400-year cycle of the
//! calendar, so an impossible pattern costs microseconds, never a hang.

use super::{ALL_DAYS, Pattern};
use crate::civil::{DAY_SECONDS, Date, days_in_month};

/// After this many years every combination of date and weekday has been seen.
const CYCLE_YEARS: i32 = 400;
/// Years a walk may visit; what lies outside no [`crate::UtcSecond`] can name.
const WALK_YEARS: std::ops::RangeInclusive<i32> = 0..=10_000;

/// A position on one matching wall time of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    year: i32,
    month: u8,
    /// Day number of the zeroth of the month, so that adding a day of the month gives its number.
    month_base: i64,
    /// Matching days of the month after the current one.
    days_left: u32,
    day: i64,
    hour: u32,
    minute: u32,
    second: u32,
}

/// The members of `set` that are at least `from`.
fn at_least(set: u64, from: u32) -> u64 {
    if from >= 64 { 0 } else { set >> from << from }
}

impl Cursor {
    /// The first matching wall time at or after `wall`.
    pub(crate) fn at_or_after(pattern: &Pattern, wall: i64) -> Option<Cursor> {
        let days = wall.div_euclid(DAY_SECONDS);
        let second_of_day = wall.rem_euclid(DAY_SECONDS) as u32;
        let date = Date::from_days(days);
        if !WALK_YEARS.contains(&date.year) {
            return None;
        }
        let month_base = days - i64::from(date.day);
        let mut cursor = Cursor {
            year: date.year,
            month: date.month,
            month_base,
            days_left: 0,
            day: days,
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        };
        let month_matches =
            pattern.months >> date.month & 1 == 1 && pattern.matches_year(date.year);
        if month_matches {
            let mask = pattern.month_mask(date.year, date.month, month_base + 1);
            cursor.days_left = mask & (ALL_DAYS << date.day);
            if mask >> date.day & 1 == 1 && cursor.settle_time(pattern) {
                return Some(cursor);
            }
        }
        cursor.next_day(pattern).then_some(cursor)
    }

    /// The wall second the cursor stands on.
    pub(crate) fn wall(&self) -> i64 {
        self.day * DAY_SECONDS + i64::from(self.hour * 3_600 + self.minute * 60 + self.second)
    }

    /// Moves to the next matching wall time; `false` when there is none.
    pub(crate) fn advance(&mut self, pattern: &Pattern) -> bool {
        let seconds = at_least(pattern.seconds, self.second + 1);
        if seconds != 0 {
            self.second = seconds.trailing_zeros();
            return true;
        }
        self.second = pattern.seconds.trailing_zeros();
        let minutes = at_least(pattern.minutes, self.minute + 1);
        if minutes != 0 {
            self.minute = minutes.trailing_zeros();
            return true;
        }
        self.minute = pattern.minutes.trailing_zeros();
        let hours = at_least(u64::from(pattern.hours), self.hour + 1);
        if hours != 0 {
            self.hour = hours.trailing_zeros();
            return true;
        }
        self.next_day(pattern)
    }

    /// Moves to the last matching time of the current day.
    pub(crate) fn pass_day(&mut self, pattern: &Pattern) {
        self.hour = 31 - pattern.hours.leading_zeros();
        self.minute = 63 - pattern.minutes.leading_zeros();
        self.second = 63 - pattern.seconds.leading_zeros();
    }

    /// Moves forward within the current day to the first matching time at or after the one the
    /// cursor holds; `false` when the day has none left.
    fn settle_time(&mut self, pattern: &Pattern) -> bool {
        let hours = at_least(u64::from(pattern.hours), self.hour);
        if hours == 0 {
            return false;
        }
        if hours.trailing_zeros() > self.hour {
            self.hour = hours.trailing_zeros();
            self.minute = pattern.minutes.trailing_zeros();
            self.second = pattern.seconds.trailing_zeros();
            return true;
        }
        let minutes = at_least(pattern.minutes, self.minute);
        if minutes != 0 && minutes.trailing_zeros() == self.minute {
            let seconds = at_least(pattern.seconds, self.second);
            if seconds != 0 {
                self.second = seconds.trailing_zeros();
                return true;
            }
        }
        self.second = pattern.seconds.trailing_zeros();
        let minutes = at_least(
            pattern.minutes,
            self.minute + u32::from(minutes.trailing_zeros() == self.minute),
        );
        if minutes != 0 {
            self.minute = minutes.trailing_zeros();
            return true;
        }
        self.minute = pattern.minutes.trailing_zeros();
        let hours = at_least(u64::from(pattern.hours), self.hour + 1);
        if hours != 0 {
            self.hour = hours.trailing_zeros();
            return true;
        }
        false
    }

    /// Moves to the first time of the next matching day; `false` when there is none.
    fn next_day(&mut self, pattern: &Pattern) -> bool {
        self.hour = pattern.hours.trailing_zeros();
        self.minute = pattern.minutes.trailing_zeros();
        self.second = pattern.seconds.trailing_zeros();
        let year_last = (self.year + CYCLE_YEARS).min(*WALK_YEARS.end());
        while self.days_left == 0 {
            let months = at_least(u64::from(pattern.months), u32::from(self.month) + 1);
            if months != 0 && pattern.matches_year(self.year) {
                let next = months.trailing_zeros() as u8;
                while self.month < next {
                    self.month_base += i64::from(days_in_month(self.year, self.month));
                    self.month += 1;
                }
            } else {
                self.year += 1;
                if self.year > year_last {
                    return false;
                }
                self.month = pattern.months.trailing_zeros() as u8;
                self.month_base = Date { year: self.year, month: self.month, day: 1 }.to_days() - 1;
                if !pattern.matches_year(self.year) {
                    continue;
                }
            }
            self.days_left = pattern.month_mask(self.year, self.month, self.month_base + 1);
        }
        self.day = self.month_base + i64::from(self.days_left.trailing_zeros());
        self.days_left &= self.days_left - 1;
        true
    }
}

/// The last matching wall time at or before `wall`.
pub(super) fn last_at_or_before(pattern: &Pattern, wall: i64) -> Option<i64> {
    let days = wall.div_euclid(DAY_SECONDS);
    let second_of_day = wall.rem_euclid(DAY_SECONDS) as u32;
    let date = Date::from_days(days);
    if !WALK_YEARS.contains(&date.year) {
        return None;
    }
    let month_base = days - i64::from(date.day);
    if pattern.months >> date.month & 1 == 1 && pattern.matches_year(date.year) {
        let mask = pattern.month_mask(date.year, date.month, month_base + 1);
        if mask >> date.day & 1 == 1
            && let Some(time) = last_time_at_or_before(pattern, second_of_day)
        {
            return Some(days * DAY_SECONDS + i64::from(time));
        }
        let earlier = mask & !(ALL_DAYS << (date.day - 1));
        if earlier != 0 {
            return Some(last_of_day(pattern, month_base, earlier));
        }
    }
    let (mut year, mut month, mut base) = (date.year, date.month, month_base);
    let year_first = (year - CYCLE_YEARS).max(*WALK_YEARS.start());
    loop {
        if month == 1 {
            year -= 1;
            if year < year_first {
                return None;
            }
            month = 12;
        } else {
            month -= 1;
        }
        base -= i64::from(days_in_month(year, month));
        if pattern.months >> month & 1 == 0 || !pattern.matches_year(year) {
            continue;
        }
        let mask = pattern.month_mask(year, month, base + 1);
        if mask != 0 {
            return Some(last_of_day(pattern, base, mask));
        }
    }
}

fn last_of_day(pattern: &Pattern, month_base: i64, mask: u32) -> i64 {
    let day = month_base + i64::from(31 - mask.leading_zeros());
    day * DAY_SECONDS + pattern.first_and_last_second_of_day().1
}

fn last_time_at_or_before(pattern: &Pattern, second_of_day: u32) -> Option<u32> {
    let highest = |set: u64| (set != 0).then(|| 63 - set.leading_zeros());
    let at_most = |set: u64, to: u32| highest(set & ((2u64 << to) - 1));
    let (hour, minute, second) =
        (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
    let last_second = highest(pattern.seconds)?;
    let last_minute = highest(pattern.minutes)?;
    let hours = u64::from(pattern.hours);
    let at = |h: u32, m: u32, s: u32| h * 3_600 + m * 60 + s;
    if hours >> hour & 1 == 1 {
        if pattern.minutes >> minute & 1 == 1
            && let Some(s) = at_most(pattern.seconds, second)
        {
            return Some(at(hour, minute, s));
        }
        if minute > 0
            && let Some(m) = at_most(pattern.minutes, minute - 1)
        {
            return Some(at(hour, m, last_second));
        }
    }
    let earlier_hour = if hour > 0 { at_most(hours, hour - 1) } else { None };
    earlier_hour.map(|h| at(h, last_minute, last_second))
}

impl Pattern {
    /// The first matching wall second at or after `wall`.
    pub(crate) fn first_at_or_after(&self, wall: i64) -> Option<i64> {
        Cursor::at_or_after(self, wall).map(|cursor| cursor.wall())
    }

    /// The last matching wall second at or before `wall`.
    pub(crate) fn last_at_or_before(&self, wall: i64) -> Option<i64> {
        last_at_or_before(self, wall)
    }
}
