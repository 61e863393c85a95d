//! Cron patterns on bit sets.
//!
//! A [`Pattern`] is the set of wall times a cron text stands for; [`crate::Schedule`] turns those
//! into instants of a zone. The evaluator is our own because decisions may not change when a
//! dependency does: the public crates disagree with each other on folds, on 29 February over
//! 2100 and on the two day fields.
//!
//! - `parse`: text → pattern, with every fault placed.
//! - `walk`: pattern → wall times in order, in either direction.
//! - `print`: pattern → its one canonical text.

mod parse;
mod print;
mod walk;

pub(crate) use parse::{month_of_name, parse_fields, parse_nickname, weekday_of_name};
pub(crate) use print::{month_name, runs_text, weekday_name};
pub(crate) use walk::Cursor;

use crate::civil::{days_in_month, weekday_of_days};
use crate::finding::{Finding, Piece};

/// The set of wall times that a cron text stands for.
///
/// Two texts that stand for the same set in the same way are equal and print alike:
///
/// ```
/// use kron_core::Pattern;
/// let a = Pattern::parse("0,15,30,45 9-17 * * MON-FRI", "any")?;
/// let b = Pattern::parse("*/15 9-17 * * 1,2,3,4,5", "any")?;
/// assert_eq!(a, b);
/// assert_eq!(a.to_string(), "*/15 9-17 * * MON-FRI");
/// # Ok::<(), kron_core::Finding>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u32,
    /// Bit `m` for month `m`, 1 to 12.
    pub(crate) months: u16,
    pub(crate) days: DaysOfMonth,
    pub(crate) weekdays: DaysOfWeek,
    pub(crate) combination: Combination,
    /// Bit `y - 1970` for year `y`; `None` is every year.
    pub(crate) years: Option<Box<[u64; YEAR_WORDS]>>,
}

/// The years a year field may name.
pub(crate) const YEARS: std::ops::RangeInclusive<i32> = 1970..=2199;
const YEAR_WORDS: usize = 4;

/// How the two day fields combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Combination {
    /// A day must match both fields: at least one is unrestricted, or `+` asked for it.
    Both,
    /// A day must match either: both are restricted, as in Vixie cron.
    Either,
}

/// What the day-of-month field allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct DaysOfMonth {
    /// Bit `d` for day `d`, 1 to 31.
    pub(crate) plain: u32,
    /// Bit `n` for the day `n` before the last: `L` is bit 0, `L-3` bit 3.
    pub(crate) from_last: u32,
    /// Bit `d` for the weekday nearest to day `d`: `15W`.
    pub(crate) nearest_weekday: u32,
    /// The last Monday-to-Friday of the month: `LW`.
    pub(crate) last_weekday: bool,
}

/// What the day-of-week field allows; days count from Sunday = 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct DaysOfWeek {
    /// Bit `d` for every such day.
    pub(crate) plain: u8,
    /// For each occurrence 1 to 5 (index 0 to 4), bit `d` for that day: `MON#2`.
    pub(crate) nth: [u8; 5],
    /// Bit `d` for the last such day of the month: `5L`, `FRI#L`.
    pub(crate) last: u8,
}

const ALL_DAYS: u32 = 0xFFFF_FFFE;
const ALL_WEEKDAYS: u8 = 0x7F;
const ALL_HOURS: u32 = 0x00FF_FFFF;
const ALL_MONTHS: u16 = 0x1FFE;

impl DaysOfMonth {
    fn is_every_day(&self) -> bool {
        self.plain == ALL_DAYS
    }

    /// Whether the days are the same in all months of one length.
    fn is_plain(&self) -> bool {
        self.from_last | self.nearest_weekday == 0 && !self.last_weekday
    }

    /// Days of a month that match, bit `d` for day `d`.
    fn mask(&self, length: u8, first_weekday: u8) -> u32 {
        let mut mask = self.plain;
        if !self.is_plain() {
            mask |= self.special_mask(length, first_weekday);
        }
        mask & days_up_to(length)
    }

    #[cold]
    fn special_mask(&self, length: u8, first_weekday: u8) -> u32 {
        let weekday = |day: u8| (first_weekday + day - 1) % 7;
        let mut mask = 0;
        for before in bits(u64::from(self.from_last)) {
            if before < u32::from(length) {
                mask |= 1 << (u32::from(length) - before);
            }
        }
        for day in bits(u64::from(self.nearest_weekday)) {
            let day = day as u8;
            if day > length {
                continue;
            }
            // Never across a month's end: a Saturday the 1st moves to Monday the 3rd.
            mask |= 1
                << match weekday(day) {
                    6 if day == 1 => 3,
                    6 => day - 1,
                    0 if day == length => day - 2,
                    0 => day + 1,
                    _ => day,
                };
        }
        if self.last_weekday {
            mask |= 1
                << match weekday(length) {
                    6 => length - 1,
                    0 => length - 2,
                    _ => length,
                };
        }
        mask
    }
}

impl DaysOfWeek {
    fn is_every_day(&self) -> bool {
        self.plain == ALL_WEEKDAYS
    }

    fn mask(&self, length: u8, first_weekday: u8) -> u32 {
        let mut mask = ALL_DAYS;
        if self.plain != ALL_WEEKDAYS {
            // The seven bits turned so that bit 0 is the first of the month, five times over.
            let week = (u64::from(self.plain) * 0x81) >> first_weekday & 0x7F;
            mask = ((week | week << 7 | week << 14 | week << 21 | week << 28) << 1) as u32;
        }
        if self.last != 0 || self.nth != [0; 5] {
            mask |= self.special_mask(length, first_weekday);
        }
        mask & days_up_to(length)
    }

    #[cold]
    fn special_mask(&self, length: u8, first_weekday: u8) -> u32 {
        let first_of = |weekday: u32| (weekday as u8 + 7 - first_weekday) % 7 + 1;
        let mut mask = 0;
        for (weeks, set) in (0u8..).zip(self.nth) {
            for weekday in bits(u64::from(set)) {
                let day = first_of(weekday) + 7 * weeks;
                if day <= length {
                    mask |= 1 << day;
                }
            }
        }
        for weekday in bits(u64::from(self.last)) {
            let first = first_of(weekday);
            mask |= 1 << (first + (length - first) / 7 * 7);
        }
        mask
    }
}

impl Pattern {
    /// Parses five fields (minute first), six (second first), seven (second first, year last) or
    /// a nickname such as `@daily`. `identity` resolves `H`.
    ///
    /// # Errors
    /// The first fault found, with its place in `text`.
    pub fn parse(text: &str, identity: &str) -> Result<Pattern, Finding> {
        let mut findings = Vec::new();
        let pattern = parse::parse(Piece::whole(text), identity, &mut findings);
        match (pattern, findings.into_iter().find(Finding::is_error)) {
            (Some(pattern), None) => Ok(pattern),
            (_, Some(error)) => Err(error),
            (None, None) => Err(Finding::configuration(0..text.len(), "not a schedule")),
        }
    }

    /// Whether any wall time matches at all; `0 0 30 2 *` has none.
    #[must_use]
    pub fn is_satisfiable(&self) -> bool {
        // The calendar repeats every 400 years, and every year field lies within this range.
        Cursor::at_or_after(self, 0).is_some()
    }

    /// Whether the hour field allows every hour, so that a repeated hour runs twice.
    #[must_use]
    pub fn allows_every_hour(&self) -> bool {
        self.hours == ALL_HOURS
    }

    pub(crate) fn matches_year(&self, year: i32) -> bool {
        match &self.years {
            None => true,
            Some(_) if !YEARS.contains(&year) => false,
            Some(set) => {
                let index = (year - YEARS.start()) as usize;
                set[index / 64] >> (index % 64) & 1 == 1
            }
        }
    }

    /// The first and the last year that the year field names; `None` when it names none.
    pub(crate) fn year_span(&self) -> Option<(i32, i32)> {
        self.years.as_ref()?;
        let mut named = YEARS.filter(|&year| self.matches_year(year));
        let first = named.next()?;
        Some((first, named.next_back().unwrap_or(first)))
    }

    /// Days of a month that match, bit `d` for day `d`, whatever the month and year fields say.
    pub(crate) fn month_mask(&self, year: i32, month: u8, first_day: i64) -> u32 {
        let length = days_in_month(year, month);
        // Most patterns name no weekday, and then it does not matter which one a month begins on.
        if self.days.is_plain()
            && self.weekdays.is_every_day()
            && self.combination == Combination::Both
        {
            return self.days.plain & days_up_to(length);
        }
        let first_weekday = weekday_of_days(first_day);
        let by_day = self.days.mask(length, first_weekday);
        let by_weekday = self.weekdays.mask(length, first_weekday);
        match self.combination {
            Combination::Both => by_day & by_weekday,
            Combination::Either => by_day | by_weekday,
        }
    }

    /// The first and the last second of a day that match.
    pub(crate) fn first_and_last_second_of_day(&self) -> (i64, i64) {
        let first = |set: u64| i64::from(set.trailing_zeros());
        let last = |set: u64| i64::from(63 - set.leading_zeros());
        let hours = u64::from(self.hours);
        (
            first(hours) * 3_600 + first(self.minutes) * 60 + first(self.seconds),
            last(hours) * 3_600 + last(self.minutes) * 60 + last(self.seconds),
        )
    }

    /// The shortest distance between two matching seconds of one day, if a day has two.
    pub(crate) fn shortest_gap_in_day(&self) -> Option<i64> {
        let (second_gap, seconds_first, seconds_last) = shortest_gap_in_set(self.seconds);
        let (minute_gap, minutes_first, minutes_last) = shortest_gap_in_set(self.minutes);
        let (hour_gap, ..) = shortest_gap_in_set(u64::from(self.hours));
        let seconds_spread = seconds_last - seconds_first;
        let minutes_spread = (minutes_last - minutes_first) * 60 + seconds_spread;
        [
            second_gap,
            minute_gap.map(|gap| gap * 60 - seconds_spread),
            hour_gap.map(|gap| gap * 3_600 - minutes_spread),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// The shortest distance between neighbours in a set, its first and its last member.
fn shortest_gap_in_set(set: u64) -> (Option<i64>, i64, i64) {
    let mut shortest = None;
    let mut first = None;
    let mut previous: Option<i64> = None;
    for value in bits(set).map(i64::from) {
        if let Some(previous) = previous {
            let gap = value - previous;
            shortest = Some(shortest.map_or(gap, |s: i64| s.min(gap)));
        }
        first = first.or(Some(value));
        previous = Some(value);
    }
    (shortest, first.unwrap_or(0), previous.unwrap_or(0))
}

/// Bits 1 to `length`.
const fn days_up_to(length: u8) -> u32 {
    ((2u64 << length) - 2) as u32
}

/// The positions of the set bits, in order.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let position = set.trailing_zeros();
        set &= set - 1;
        Some(position)
    })
}

#[cfg(test)]
mod tests;
