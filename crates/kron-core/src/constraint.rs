//! Rules that forbid some of a window's seconds.
//!
//! A job may have an `only` side, of which every kind of clause present must match, and an
//! `avoid` side, of which any match rejects. Every clause speaks either about the calendar day or
//! about the minute of the day, so both sides together come down to one set of 1,440 minutes that
//! is the same every day and one predicate on days; checking a candidate is a bit test and, where
//! days matter at all, a look at the calendar.

use std::fmt;

use crate::civil::{DAY_SECONDS, Date, parse_date};
use crate::cron::{bits, month_name, month_of_name, runs_text, weekday_name, weekday_of_name};
use crate::finding::{Finding, Piece};
use crate::zone::Wall;

/// Clauses one side may have.
const CLAUSES_MAX: usize = 128;
/// Items one clause's list may have.
const LIST_ITEMS_MAX: usize = 512;

const KINDS: [&str; 7] = ["hours", "dow", "months", "dom", "between", "date", "dates"];

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
    pub fn allowed_minutes(&self) -> Vec<(u32, u32)> {
        let Some(compiled) = &self.0 else { return vec![(0, DAY_MINUTES - 1)] };
        let mut stretches: Vec<(u32, u32)> = Vec::new();
        for minute in 0..DAY_MINUTES {
            if compiled.minutes[minute as usize / 64] >> (minute % 64) & 1 == 0 {
                continue;
            }
            match stretches.last_mut() {
                Some((_, last)) if *last + 1 == minute => *last = minute,
                _ => stretches.push((minute, minute)),
            }
        }
        stretches
    }

    /// The canonical clause that rejects `wall`, with its side; `None` when it is allowed.
    #[must_use]
    pub fn rejection(&self, wall: Wall) -> Option<Rejection> {
        let compiled = self.0.as_ref()?;
        let seen = Seen::of(wall);
        let clause = |side, clauses: &Clauses, kind: Kind| Rejection {
            side,
            clause: clauses.texts(kind).join(";"),
        };
        if let Some(kind) = compiled.only.kinds().find(|&kind| !compiled.only.matches(kind, &seen))
        {
            return Some(clause(Side::Only, &compiled.only, kind));
        }
        let kind = compiled.avoid.kinds().find(|&kind| compiled.avoid.matches(kind, &seen))?;
        Some(clause(Side::Avoid, &compiled.avoid, kind))
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
        let days_matter = only.day_kinds().chain(avoid.day_kinds()).next().is_some();
        Compiled { only, avoid, minutes, days_matter }
    }

    fn allows_day(&self, day: i64) -> bool {
        let date = Date::from_days(day);
        let seen = Seen { minute: 0, day, weekday: crate::civil::weekday_of_days(day), date };
        self.only.day_kinds().all(|kind| self.only.matches(kind, &seen))
            && !self.avoid.day_kinds().any(|kind| self.avoid.matches(kind, &seen))
    }

    fn allows_any_day(&self) -> bool {
        if self.only.dates.is_empty() {
            // A date comes back on each weekday within 40 years, so the years after the last
            // forbidden date show every combination.
            let from = self.avoid.dates.last().map_or(0, |&(_, last)| i64::from(last) + 1);
            return (from..from + 41 * 366).any(|day| self.allows_day(day));
        }
        self.only.dates.iter().any(|&(first, last)| {
            (i64::from(first)..=i64::from(last)).any(|day| self.allows_day(day))
        })
    }
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
            Kind::Between => self.between.iter().any(|&(from, to)| {
                let (from, to) = (u32::from(from), u32::from(to));
                if from <= to {
                    (from..=to).contains(&seen.minute)
                } else {
                    seen.minute >= from || seen.minute <= to
                }
            }),
            Kind::Weekdays => self.weekdays.is_some_and(|set| set >> seen.weekday & 1 == 1),
            Kind::Days => self.days.is_some_and(|set| set >> seen.date.day & 1 == 1),
            Kind::Months => self.months.is_some_and(|set| set >> seen.date.month & 1 == 1),
            Kind::Dates => {
                let after = self.dates.partition_point(|&(first, _)| i64::from(first) <= seen.day);
                after > 0 && seen.day <= i64::from(self.dates[after - 1].1)
            }
        }
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

/// Collects clauses from as many texts as there are, then compiles them.
#[derive(Debug, Default)]
pub(crate) struct ConstraintParser {
    only: Clauses,
    avoid: Clauses,
    clause_count: usize,
}

impl ConstraintParser {
    /// Adds the clauses of one text, separated by `;`.
    pub(crate) fn side(&mut self, side: Side, piece: Piece<'_>, findings: &mut Vec<Finding>) {
        for clause in piece.split(';') {
            let clause = clause.trim();
            if clause.text.is_empty() {
                continue;
            }
            self.clause_count += 1;
            if self.clause_count > CLAUSES_MAX {
                findings.push(Finding::validation(
                    clause.span(),
                    format!("more than {CLAUSES_MAX} clauses"),
                ));
                return;
            }
            let clauses = match side {
                Side::Only => &mut self.only,
                Side::Avoid => &mut self.avoid,
            };
            if let Err(finding) = clauses.add(clause) {
                findings.push(finding);
            }
        }
    }

    pub(crate) fn finish(self) -> Constraints {
        if self.only.is_empty() && self.avoid.is_empty() {
            return Constraints(None);
        }
        Constraints(Some(Box::new(Compiled::new(self.only, self.avoid))))
    }
}

/// A malformed clause: a validation error by the error model.
fn malformed(piece: Piece<'_>, what: &str, expected: &str) -> Finding {
    Finding::validation(piece.span(), format!("`{}` is not {what}", piece.shown()))
        .help(format!("expected {expected}"))
}

impl Clauses {
    fn add(&mut self, clause: Piece<'_>) -> Result<(), Finding> {
        let Some((kind, list)) = clause.split_once('=') else {
            return Err(malformed(
                clause,
                "a clause",
                "one such as `hours=9-17`, `dow=MON-FRI`, `between=22:30-04:00` or `date=2026-12-25`",
            ));
        };
        let (kind, list) = (kind.trim(), list.trim());
        let items: Vec<Piece<'_>> =
            list.split(',').take(LIST_ITEMS_MAX + 1).map(|p| p.trim()).collect();
        if items.len() > LIST_ITEMS_MAX {
            return Err(Finding::validation(
                list.span(),
                format!("a list of more than {LIST_ITEMS_MAX} items"),
            ));
        }
        for item in items {
            match kind.text {
                "hours" => *self.hours.get_or_insert(0) |= circle(item, &HOURS)? as u32,
                "dow" => {
                    let set = circle(item, &WEEKDAYS)?;
                    *self.weekdays.get_or_insert(0) |= (set & 0x7F) as u8;
                }
                "months" => *self.months.get_or_insert(0) |= circle(item, &MONTHS)? as u16,
                "dom" => *self.days.get_or_insert(0) |= circle(item, &DAYS)? as u32,
                "between" => self.between.push(clock_range(item)?),
                "date" | "dates" => self.dates.push(date_range(item)?),
                _ => {
                    return Err(Finding::validation(
                        kind.span(),
                        format!("unknown constraint `{}`", kind.shown()),
                    )
                    .nearest(
                        kind.text,
                        KINDS,
                        "expected hours, dow, months, dom, between, date or dates",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Values a list clause takes.
struct Values {
    what: &'static str,
    low: u32,
    high: u32,
    /// The value that is written in a second way, and what it means: Sunday as 7.
    alias: Option<(u32, u32)>,
    wraps: bool,
    of_name: fn(&str) -> Option<u32>,
    expected: &'static str,
}

static HOURS: Values = Values {
    what: "an hour",
    low: 0,
    high: 23,
    alias: None,
    wraps: true,
    of_name: |_| None,
    expected: "hours from 0 to 23, such as `9`, `9-17` or `22-4`",
};
static WEEKDAYS: Values = Values {
    what: "a day of the week",
    low: 0,
    high: 6,
    alias: Some((7, 0)),
    wraps: true,
    of_name: weekday_of_name,
    expected: "days such as `MON`, `1-5` or `FRI-MON`",
};
static MONTHS: Values = Values {
    what: "a month",
    low: 1,
    high: 12,
    alias: None,
    wraps: true,
    of_name: month_of_name,
    expected: "months such as `DEC`, `6-8` or `NOV-FEB`",
};
static DAYS: Values = Values {
    what: "a day of the month",
    low: 1,
    high: 31,
    alias: None,
    wraps: false,
    of_name: |_| None,
    expected: "days from 1 to 31, such as `1` or `25-31`",
};

fn circle(item: Piece<'_>, values: &Values) -> Result<u64, Finding> {
    let value = |piece: Piece<'_>| {
        let piece = piece.trim();
        let number = crate::civil::digits(piece.text.as_bytes()).map(|number| match values.alias {
            Some((written, meant)) if number == written => meant,
            _ => number,
        });
        number
            .filter(|number| (values.low..=values.high).contains(number))
            .or_else(|| (values.of_name)(piece.text))
            .ok_or_else(|| malformed(piece, values.what, values.expected))
    };
    let Some((from, to)) = item.split_once('-') else {
        return Ok(1 << value(item)?);
    };
    let (from, mut to) = (value(from)?, value(to)?);
    if from > to {
        if !values.wraps {
            return Err(Finding::validation(
                item.span(),
                format!("the range `{}` runs backwards", item.shown()),
            ));
        }
        to += values.high - values.low + 1;
    }
    let size = values.high - values.low + 1;
    Ok((from..=to).fold(0, |set, value| set | 1 << (values.low + (value - values.low) % size)))
}

fn clock_range(item: Piece<'_>) -> Result<(u16, u16), Finding> {
    let expected = "two times of day, such as `22:30-04:00`";
    let clock = |piece: Piece<'_>| {
        let piece = piece.trim();
        let parts = piece.text.split_once(':').filter(|(h, m)| h.len() == 2 && m.len() == 2);
        parts
            .and_then(|(h, m)| {
                Some((crate::civil::digits(h.as_bytes())?, crate::civil::digits(m.as_bytes())?))
            })
            .filter(|&(hour, minute)| hour <= 23 && minute <= 59)
            .map(|(hour, minute)| (hour * 60 + minute) as u16)
            .ok_or_else(|| malformed(piece, "a time of day", expected))
    };
    let (from, to) =
        item.split_once('-').ok_or_else(|| malformed(item, "a range of times", expected))?;
    Ok((clock(from)?, clock(to)?))
}

fn date_range(item: Piece<'_>) -> Result<(i32, i32), Finding> {
    let expected = "a date such as `2026-12-25`, or a range such as `2026-12-24..2027-01-02`";
    let date = |piece: Piece<'_>| {
        let piece = piece.trim();
        parse_date(piece.text)
            .map(|date| date.to_days() as i32)
            .ok_or_else(|| malformed(piece, "a date", expected))
    };
    let (first, last) = match item.text.find("..") {
        None => {
            let day = date(item)?;
            (day, day)
        }
        Some(dots) => (date(item.slice(0..dots))?, date(item.slice(dots + 2..item.text.len()))?),
    };
    if first > last {
        return Err(Finding::validation(
            item.span(),
            format!("the range `{}` runs backwards", item.shown()),
        ));
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::UtcSecond;
    use crate::zone::Zone;

    fn allowed(only: &str, avoid: &str, time: &str) -> bool {
        let constraints = Constraints::parse(only, avoid).unwrap();
        let wall = Zone::utc().wall_at(time.parse::<UtcSecond>().unwrap());
        let allowed = constraints.allow(wall);
        assert_eq!(allowed, constraints.rejection(wall).is_none(), "{only} {avoid} {time}");
        allowed
    }

    #[test]
    fn clauses_include_both_ends_and_wrap() {
        let check = |only: &str, yes: &[&str], no: &[&str]| {
            for (times, expected) in [(yes, true), (no, false)] {
                for time in times {
                    assert_eq!(allowed(only, "", time), expected, "only {only} at {time}");
                    assert_eq!(allowed("", only, time), !expected, "avoid {only} at {time}");
                }
            }
        };
        check(
            "hours=22-4",
            &["2026-03-01T22:00:00Z", "2026-03-01T04:59:59Z"],
            &["2026-03-01T05:00:00Z", "2026-03-01T21:59:59Z"],
        );
        check(
            "between=22:30-04:00",
            &["2026-03-01T22:30:00Z", "2026-03-01T04:00:59Z"],
            &["2026-03-01T04:01:00Z", "2026-03-01T22:29:59Z"],
        );
        check(
            "dow=FRI-MON",
            &["2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z", "2026-03-06T00:00:00Z"],
            &["2026-03-03T00:00:00Z", "2026-03-05T23:59:59Z"],
        );
        check("dow=5-7", &["2026-03-01T12:00:00Z"], &["2026-03-02T12:00:00Z"]);
        check(
            "months=NOV-FEB",
            &["2026-11-01T00:00:00Z", "2026-02-28T23:59:59Z"],
            &["2026-03-01T00:00:00Z", "2026-10-31T23:59:59Z"],
        );
        check(
            "dom=1,28-31",
            &["2026-03-01T00:00:00Z", "2026-03-31T00:00:00Z"],
            &["2026-03-02T00:00:00Z"],
        );
        check("date=2026-12-25", &["2026-12-25T00:00:00Z"], &["2026-12-26T00:00:00Z"]);
        check(
            "dates=2026-12-24..2027-01-02",
            &["2026-12-24T00:00:00Z", "2027-01-02T23:59:59Z"],
            &["2026-12-23T23:59:59Z", "2027-01-03T00:00:00Z"],
        );
    }

    #[test]
    fn kinds_are_joined_by_and_clauses_of_one_kind_by_or() {
        let only = "hours=9-11;hours=20;dow=MON;date=2026-03-02;dates=2026-03-09..2026-03-10";
        assert!(allowed(only, "", "2026-03-02T20:30:00Z"));
        assert!(allowed(only, "", "2026-03-09T09:00:00Z"));
        assert!(!allowed(only, "", "2026-03-10T09:00:00Z"), "a Tuesday");
        assert!(!allowed(only, "", "2026-03-16T09:00:00Z"), "another Monday");
        assert!(!allowed(only, "hours=20", "2026-03-02T20:30:00Z"));
    }

    #[test]
    fn clauses_print_in_one_canonical_way() {
        let check = |text: &str, canonical: &[&str]| {
            let constraints = Constraints::parse(text, "").unwrap();
            assert_eq!(constraints.clauses(Side::Only), canonical, "{text}");
            let again = Constraints::parse(&canonical.join(";"), "").unwrap();
            assert_eq!(again, constraints, "{text}");
        };
        check("hours=4,3,22-2", &["hours=22-4"]);
        check("hours=0-23", &["hours=0-23"]);
        check("dow=sat,sun", &["dow=SAT,SUN"]);
        check("dow=0-6", &["dow=MON-SUN"]);
        check("dow=FRI-mon", &["dow=FRI-MON"]);
        check("months=nov-2", &["months=NOV-FEB"]);
        check("dom=5,6,7;dom=1", &["dom=1,5-7"]);
        check("between=22:30-04:00,09:00-09:00", &["between=09:00-09:00", "between=22:30-04:00"]);
        check("date=2026-12-25;dates=2026-12-26..2026-12-31", &["dates=2026-12-25..2026-12-31"]);
        check("dates=2026-12-25..2026-12-25,2026-12-27", &["date=2026-12-25", "date=2026-12-27"]);
        check(" dow = MON ; hours = 9 - 17 ; ", &["hours=9-17", "dow=MON"]);
    }

    #[test]
    fn contradictions_are_found() {
        let check = |only: &str, avoid: &str, contradictory: bool| {
            let constraints = Constraints::parse(only, avoid).unwrap();
            assert_eq!(constraints.contradiction().is_some(), contradictory, "{only} / {avoid}");
        };
        check("hours=9", "between=09:00-09:59", true);
        check("hours=9", "between=09:00-09:58", false);
        check("months=FEB;dom=30", "", true);
        check("months=FEB;dom=29", "", false);
        check("months=FEB;dom=29;dow=MON", "", false);
        check("date=2026-12-25;dow=MON", "", true);
        check("", "dow=MON-SUN", true);
        check("", "dates=0001-01-01..9000-01-01", false);
    }

    #[test]
    fn malformed_clauses_say_what_was_expected() {
        for bad in [
            "hours",
            "hours=",
            "hours=24",
            "hours=x",
            "hours=1-",
            "dow=8",
            "dow=FOO",
            "months=0",
            "months=13",
            "dom=0",
            "dom=32",
            "dom=5-1",
            "between=9:00-10:00",
            "between=09:00",
            "between=24:00-01:00",
            "between=09:60-10:00",
            "date=2026-02-30",
            "dates=2026-01-02..2026-01-01",
            "date=",
            "hour=5",
            "=5",
            "hours=1;;bogus=2",
        ] {
            let finding = Constraints::parse(bad, "").unwrap_err();
            assert_eq!(finding.category, crate::Category::Validation, "{bad}");
        }
        let slip = Constraints::parse("hour=5", "").unwrap_err();
        assert_eq!(slip.help.as_deref(), Some("did you mean `hours`?"));
    }
}
