//! Rules that forbid some of a window's seconds.
//!
//! A job may have an `only` side, of which every kind of clause present must match, and an
//! `avoid` side, of which any match rejects. Every clause speaks either about the calendar day or
//! about the minute of the day, so both sides together come down to one set of 1,440 minutes that
//! is the same every day and one predicate on days; checking a candidate is a bit test and, where
//! days matter at all, a look at the calendar.

mod parse;

use std::fmt;

pub(crate) use parse::ConstraintParser;

use crate::civil::{DAY_SECONDS, Date};
use crate::cron::{bits, month_name, runs_text, weekday_name};
use crate::finding::{Finding, Piece};
use crate::zone::Wall;

/// The sides of a job's constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The allowed set.
    Only,
    /// The forbidden set.
    Avoid,
}

impl Side {
    /// The word used in `@only(…)`, `@avoid(…)` and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Side::Only => "only",
            Side::Avoid => "avoid",
        }
    }
}

/// A job's constraints; without any, every second is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints(Option<Box<Compiled>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Compiled {
    only: Clauses,
    avoid: Clauses,
    /// Bit `m` for every minute of the day that is allowed on an allowed day.
    minutes: [u64; MINUTE_WORDS],
    /// The same as stretches, first and last minute included.
    allowed: Box<[(u16, u16)]>,
    /// Whether any clause looks at the day.
    days_matter: bool,
}

const MINUTE_WORDS: usize = 23;
const DAY_MINUTES: u32 = 1_440;

/// The clauses of one side, one set per kind; `None` or empty when a kind is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Clauses {
    hours: Option<u32>,
    weekdays: Option<u8>,
    months: Option<u16>,
    days: Option<u32>,
    /// First and last minute of the day, both included; a range may wrap midnight.
    between: Vec<(u16, u16)>,
    /// First and last day number, both included, in order and apart.
    dates: Vec<(i32, i32)>,
}

impl Constraints {
    /// Constraints without any clause.
    #[must_use]
    pub fn none() -> Constraints {
        Constraints(None)
    }

    /// Whether there is no clause at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Parses the two sides, each a text of clauses separated by `;`.
    ///
    /// # Errors
    /// The first fault; its place is in the text of its side.
    pub fn parse(only: &str, avoid: &str) -> Result<Constraints, Finding> {
        let mut parser = ConstraintParser::default();
        let mut findings = Vec::new();
        parser.side(Side::Only, Piece::whole(only), &mut findings);
        parser.side(Side::Avoid, Piece::whole(avoid), &mut findings);
        match findings.into_iter().find(Finding::is_error) {
            Some(error) => Err(error),
            None => Ok(parser.finish()),
        }
    }

    /// Whether a candidate that a clock on the wall shows as `wall` is allowed.
    #[must_use]
    pub fn allow(&self, wall: Wall) -> bool {
        match &self.0 {
            None => true,
            Some(compiled) => {
                let minute = wall.second_of_day() / 60;
                let minute_allowed =
                    compiled.minutes[minute as usize / 64] >> (minute % 64) & 1 == 1;
                minute_allowed
                    && (!compiled.days_matter
                        || compiled.allows_day(wall.seconds().div_euclid(DAY_SECONDS)))
            }
        }
    }

    /// Whether the day with this number since 1970-01-01 has allowed minutes at all, as far as
    /// day clauses are concerned.
    #[must_use]
    pub fn allow_day(&self, day: i64) -> bool {
        self.0.as_ref().is_none_or(|compiled| compiled.allows_day(day))
    }

    /// The stretches of an allowed day's minutes that are allowed, first and last included.
    #[must_use]
    pub fn allowed_minutes(&self) -> &[(u16, u16)] {
        self.0.as_ref().map_or(&[(0, DAY_MINUTES as u16 - 1)], |compiled| &compiled.allowed)
    }

    /// The clause that rejects `wall`, in canonical form and with its side; `None` when it is
    /// allowed. Where several alternatives of one kind all fail to match, they are one clause.
    #[must_use]
    pub fn rejection(&self, wall: Wall) -> Option<Rejection> {
        const ALTERNATIVES_SHOWN: usize = 3;
        let compiled = self.0.as_ref()?;
        let seen = Seen::of(wall);
        let only = &compiled.only;
        if let Some(kind) = only.kinds().find(|&kind| !only.matches(kind, &seen)) {
            let mut clauses = only.texts(kind);
            let more = clauses.len().saturating_sub(ALTERNATIVES_SHOWN);
            clauses.truncate(ALTERNATIVES_SHOWN);
            let mut clause = clauses.join(";");
            if more > 0 {
                clause.push_str(&format!(" and {more} more"));
            }
            return Some(Rejection { side: Side::Only, clause });
        }
        let avoid = &compiled.avoid;
        let kind = avoid.kinds().find(|&kind| avoid.matches(kind, &seen))?;
        // Of several ranges, the one that matches is the one to name.
        let mut matching = Clauses::default();
        match kind {
            Kind::Between => {
                matching.between = vec![*avoid.between.iter().find(|range| seen.between(range))?];
            }
            Kind::Dates => matching.dates = vec![*avoid.dates_around(seen.day)?],
            Kind::Hours | Kind::Weekdays | Kind::Days | Kind::Months => matching = avoid.clone(),
        }
        Some(Rejection { side: Side::Avoid, clause: matching.texts(kind).concat() })
    }

    /// First and last day of each range of dates that `only` names, counted from 1970-01-01.
    pub(crate) fn only_dates(&self) -> &[(i32, i32)] {
        self.0.as_ref().map_or(&[], |compiled| &compiled.only.dates)
    }

    /// The last day that `avoid` names by date, counted from 1970-01-01.
    pub(crate) fn last_avoided_date(&self) -> Option<i64> {
        Some(i64::from(self.0.as_ref()?.avoid.dates.last()?.1))
    }

    /// The canonical clauses of a side: one per kind, range of times and range of dates.
    #[must_use]
    pub fn clauses(&self, side: Side) -> Vec<String> {
        let Some(compiled) = &self.0 else { return Vec::new() };
        let clauses = match side {
            Side::Only => &compiled.only,
            Side::Avoid => &compiled.avoid,
        };
        clauses.kinds().flat_map(|kind| clauses.texts(kind)).collect()
    }

    /// Why no time whatever can be allowed, if that is so.
    #[must_use]
    pub fn contradiction(&self) -> Option<&'static str> {
        let compiled = self.0.as_ref()?;
        if compiled.minutes == [0; MINUTE_WORDS] {
            return Some("no minute of any day is allowed");
        }
        if compiled.days_matter && !compiled.allows_any_day() {
            return Some("no day of any year is allowed");
        }
        None
    }
}

/// A clause that rejected a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The side the clause stands on.
    pub side: Side,
    /// The clause in canonical form.
    pub clause: String,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.side.as_str(), self.clause)
    }
}

impl Compiled {
    fn new(mut only: Clauses, mut avoid: Clauses) -> Compiled {
        only.normalise();
        avoid.normalise();
        let mut minutes = [0; MINUTE_WORDS];
        for minute in 0..DAY_MINUTES {
            let seen = Seen { minute, day: 0, weekday: 0, date: Date::from_days(0) };
            let allowed = only.minute_kinds().all(|kind| only.matches(kind, &seen))
                && !avoid.minute_kinds().any(|kind| avoid.matches(kind, &seen));
            minutes[minute as usize / 64] |= u64::from(allowed) << (minute % 64);
        }
        let mut allowed: Vec<(u16, u16)> = Vec::new();
        for minute in 0..DAY_MINUTES as u16 {
            if minutes[usize::from(minute) / 64] >> (minute % 64) & 1 == 0 {
                continue;
            }
            match allowed.last_mut() {
                Some((_, last)) if *last + 1 == minute => *last = minute,
                _ => allowed.push((minute, minute)),
            }
        }
        let days_matter = only.day_kinds().chain(avoid.day_kinds()).next().is_some();
        Compiled { only, avoid, minutes, allowed: allowed.into(), days_matter }
    }

    fn allows_day(&self, day: i64) -> bool {
        let date = Date::from_days(day);
        let seen = Seen { minute: 0, day, weekday: crate::civil::weekday_of_days(day), date };
        self.only.day_kinds().all(|kind| self.only.matches(kind, &seen))
            && !self.avoid.day_kinds().any(|kind| self.avoid.matches(kind, &seen))
    }

    /// Whether any day of years 1 to 9999 is allowed. After days of one range that show every
    /// combination of date and weekday, the rest of the range cannot differ; after very many
    /// ranges the answer is taken to be yes.
    fn allows_any_day(&self) -> bool {
        const RANGE_DAYS_MAX: i64 = 41 * 366;
        const DAYS_MAX: i64 = 300_000;
        let first = Date { year: 1, month: 1, day: 1 }.to_days();
        let last = Date { year: 9999, month: 12, day: 31 }.to_days();
        let everything = [(first as i32, last as i32)];
        let dates: &[_] = if self.only.dates.is_empty() { &everything } else { &self.only.dates };
        let mut looked_at = 0;
        for (first, last) in without(dates, &self.avoid.dates) {
            for day in (first..=last).take(RANGE_DAYS_MAX as usize) {
                if self.allows_day(day) || looked_at == DAYS_MAX {
                    return true;
                }
                looked_at += 1;
            }
        }
        false
    }
}

/// The ranges of `from` less those of `less`; both are in order and apart.
fn without(from: &[(i32, i32)], less: &[(i32, i32)]) -> Vec<(i64, i64)> {
    let mut left = Vec::new();
    let mut next = less.iter().peekable();
    for &(first, last) in from {
        let (mut first, last) = (i64::from(first), i64::from(last));
        while let Some(&&(cut_first, cut_last)) = next.peek() {
            if i64::from(cut_first) > last {
                break;
            }
            if first < i64::from(cut_first) {
                left.push((first, i64::from(cut_first) - 1));
            }
            first = first.max(i64::from(cut_last) + 1);
            if i64::from(cut_last) > last {
                break;
            }
            next.next();
        }
        if first <= last {
            left.push((first, last));
        }
    }
    left
}

/// What clauses look at.
struct Seen {
    minute: u32,
    day: i64,
    weekday: u8,
    date: Date,
}

impl Seen {
    fn of(wall: Wall) -> Seen {
        let day = wall.seconds().div_euclid(DAY_SECONDS);
        Seen {
            minute: wall.second_of_day() / 60,
            day,
            weekday: crate::civil::weekday_of_days(day),
            date: wall.date(),
        }
    }

    fn between(&self, &(from, to): &(u16, u16)) -> bool {
        let (from, to) = (u32::from(from), u32::from(to));
        if from <= to {
            (from..=to).contains(&self.minute)
        } else {
            self.minute >= from || self.minute <= to
        }
    }
}

/// The kinds of clause in canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hours,
    Between,
    Weekdays,
    Days,
    Months,
    Dates,
}

impl Clauses {
    fn is_empty(&self) -> bool {
        self.kinds().next().is_none()
    }

    fn minute_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        [(Kind::Hours, self.hours.is_some()), (Kind::Between, !self.between.is_empty())]
            .into_iter()
            .filter_map(|(kind, present)| present.then_some(kind))
    }

    fn day_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        [
            (Kind::Weekdays, self.weekdays.is_some()),
            (Kind::Days, self.days.is_some()),
            (Kind::Months, self.months.is_some()),
            (Kind::Dates, !self.dates.is_empty()),
        ]
        .into_iter()
        .filter_map(|(kind, present)| present.then_some(kind))
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.minute_kinds().chain(self.day_kinds())
    }

    fn matches(&self, kind: Kind, seen: &Seen) -> bool {
        match kind {
            Kind::Hours => self.hours.is_some_and(|set| set >> (seen.minute / 60) & 1 == 1),
            Kind::Between => self.between.iter().any(|range| seen.between(range)),
            Kind::Weekdays => self.weekdays.is_some_and(|set| set >> seen.weekday & 1 == 1),
            Kind::Days => self.days.is_some_and(|set| set >> seen.date.day & 1 == 1),
            Kind::Months => self.months.is_some_and(|set| set >> seen.date.month & 1 == 1),
            Kind::Dates => self.dates_around(seen.day).is_some(),
        }
    }

    /// The range of dates that a day lies in.
    fn dates_around(&self, day: i64) -> Option<&(i32, i32)> {
        let after = self.dates.partition_point(|&(first, _)| i64::from(first) <= day);
        let range = self.dates.get(after.checked_sub(1)?)?;
        (day <= i64::from(range.1)).then_some(range)
    }

    fn normalise(&mut self) {
        self.between.sort_unstable();
        self.between.dedup();
        self.dates.sort_unstable();
        let mut merged: Vec<(i32, i32)> = Vec::with_capacity(self.dates.len());
        for &(first, last) in &self.dates {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = (*end).max(last),
                _ => merged.push((first, last)),
            }
        }
        self.dates = merged;
    }

    /// The canonical clauses of a kind.
    fn texts(&self, kind: Kind) -> Vec<String> {
        let number = |value: u32| value.to_string();
        match kind {
            Kind::Hours => {
                let set = u64::from(self.hours.unwrap_or(0));
                vec![format!("hours={}", circle_text(set, 0, 23, number))]
            }
            Kind::Weekdays => {
                // Weeks are shown from Monday, so that a weekend is one run.
                let set = u64::from(self.weekdays.unwrap_or(0));
                let sundays_last = (set | (set & 1) << 7) & !1;
                let name = |day: u32| weekday_name(day % 7).to_owned();
                vec![format!("dow={}", circle_text(sundays_last, 1, 7, name))]
            }
            Kind::Months => {
                let set = u64::from(self.months.unwrap_or(0));
                let name = |month: u32| month_name(month).to_owned();
                vec![format!("months={}", circle_text(set, 1, 12, name))]
            }
            Kind::Days => {
                let days: Vec<u32> = bits(u64::from(self.days.unwrap_or(0))).collect();
                vec![format!("dom={}", runs_text(&days, number))]
            }
            Kind::Between => {
                let clock = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
                let ranges = self.between.iter();
                ranges.map(|&(a, b)| format!("between={}-{}", clock(a), clock(b))).collect()
            }
            Kind::Dates => {
                let date = |day: i32| Date::from_days(i64::from(day));
                let clause = |&(a, b): &(i32, i32)| match a == b {
                    true => format!("date={}", date(a)),
                    false => format!("dates={}..{}", date(a), date(b)),
                };
                self.dates.iter().map(clause).collect()
            }
        }
    }
}

/// Runs of a set whose values go round: a run over the end is written as one, `22-4`.
fn circle_text(set: u64, low: u32, high: u32, name: impl Fn(u32) -> String) -> String {
    let size = high - low + 1;
    let has = |value: u32| set >> (low + (value - low) % size) & 1 == 1;
    let full = (low..=high).all(has);
    // Where a run goes over the end, start after the gap that precedes it.
    let start = if !full && has(low) && has(high) {
        (low..=high).rev().find(|&value| !has(value)).map_or(low, |gap| gap + 1)
    } else {
        low
    };
    let values: Vec<u32> = (start..start + size).filter(|&value| has(value)).collect();
    runs_text(&values, |value| name(low + (value - low) % size))
}

#[cfg(test)]
mod tests;
