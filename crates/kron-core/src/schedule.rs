//! Nominal times: a pattern read in a zone, with daylight saving treated by a named policy.
//!
//! Facts and policy are kept apart. The facts are the zone's stretches of constant offset. The
//! policy ([`Dst`]) says which wall times count in each: those a gap jumped over may be shifted
//! behind it, those a fold repeats may count the first time, the second, or both. Within one
//! stretch that leaves at most two streams of candidates, the stretch's own wall times and the
//! shifted ones, and both are walked with the same bit sets.

use std::fmt;
use std::ops::Range;

use crate::civil::{DAY_SECONDS, Date};
use crate::cron::{Cursor, Pattern};
use crate::duration::Seconds;
use crate::time::UtcSecond;
use crate::zone::{HORIZON, Stretch, Wall, Zone};

/// What becomes of a wall time that does not exist because clocks jumped over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gap {
    /// It moves forward by the length of the gap.
    #[default]
    Shift,
    /// It is dropped.
    Skip,
}

/// What becomes of a wall time that happens twice because clocks went back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// `Both` when the hour field allows every hour, else `First`: a daily job runs once, a
    /// five-minute job never pauses.
    #[default]
    Auto,
    /// Only the first counts.
    First,
    /// Only the second counts.
    Last,
    /// Both count.
    Both,
}

/// The daylight-saving policy of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dst {
    /// Wall times that do not exist.
    pub gap: Gap,
    /// Wall times that happen twice.
    pub overlap: Overlap,
}

impl Gap {
    /// The word used in `@dst(gap=…)`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Gap::Shift => "shift",
            Gap::Skip => "skip",
        }
    }
}

impl Overlap {
    /// The word used in `@dst(overlap=…)`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Overlap::Auto => "auto",
            Overlap::First => "first",
            Overlap::Last => "last",
            Overlap::Both => "both",
        }
    }
}

/// How daylight saving touched one nominal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Not at all: its wall time happens once.
    Plain,
    /// The wall time asked for was jumped over; this is it, moved forward by the gap.
    Shifted {
        /// The wall time that does not exist.
        asked: Wall,
        /// The length of the gap.
        gap: Seconds,
    },
    /// Its wall time happens twice, and this is the first.
    FirstOfTwo,
    /// Its wall time happens twice, and this is the second.
    SecondOfTwo,
}

impl fmt::Display for Treatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Treatment::Plain => f.write_str("none: this wall time happens exactly once"),
            Treatment::Shifted { asked, gap } => {
                let second = asked.second_of_day();
                write!(
                    f,
                    "{} {:02}:{:02}:{:02} does not exist (clocks jump {gap}); shifted forward by {gap}",
                    asked.date(),
                    second / 3_600,
                    second / 60 % 60,
                    second % 60
                )
            }
            Treatment::FirstOfTwo => f.write_str("this wall time happens twice; this is the first"),
            Treatment::SecondOfTwo => {
                f.write_str("this wall time happens twice; this is the second")
            }
        }
    }
}

/// A pattern in a zone: the source of nominal times.
///
/// ```
/// use kron_core::{Dst, Pattern, Schedule, Zone};
/// let schedule = Schedule::new(
///     Pattern::parse("30 2 * * *", "any")?,
///     Zone::named("Europe/Paris")?,
///     Dst::default(),
/// );
/// // 02:30 does not exist on 29 March 2026; the job still runs, at 03:30 summer time.
/// let next = schedule.next_after("2026-03-28T12:00:00Z".parse()?).unwrap();
/// assert_eq!(next.to_string(), "2026-03-29T01:30:00Z");
/// # Ok::<(), kron_core::Finding>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pattern: Pattern,
    zone: Zone,
    dst: Dst,
    /// `dst.overlap` with `Auto` resolved.
    repeats: Repeats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    First,
    Last,
    Both,
}

/// Two nominal times and the distance between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortestGap {
    /// The earlier of the two.
    pub from: UtcSecond,
    /// The later of the two.
    pub to: UtcSecond,
}

impl ShortestGap {
    /// The distance.
    #[must_use]
    pub fn length(self) -> Seconds {
        Seconds::new(self.to.since(self.from).unsigned_abs())
    }
}

/// The instants of one stretch at which nominal times may lie.
struct Streams {
    /// Instants whose own wall time counts.
    own: Range<i64>,
    offset: i64,
    /// Instants that stand for wall times the gap before this stretch jumped over.
    shifted: Range<i64>,
    offset_before: i64,
}

/// No two offsets of one zone differ by more than this.
const OFFSETS_APART_MAX: i64 = 2 * DAY_SECONDS;

impl Schedule {
    /// A schedule of `pattern` in `zone`.
    #[must_use]
    pub fn new(pattern: Pattern, zone: Zone, dst: Dst) -> Schedule {
        let repeats = match dst.overlap {
            Overlap::First => Repeats::First,
            Overlap::Last => Repeats::Last,
            Overlap::Both => Repeats::Both,
            Overlap::Auto if pattern.allows_every_hour() => Repeats::Both,
            Overlap::Auto => Repeats::First,
        };
        Schedule { pattern, zone, dst, repeats }
    }

    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The zone.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The daylight-saving policy as written.
    #[must_use]
    pub fn dst(&self) -> Dst {
        self.dst
    }

    /// The overlap policy with [`Overlap::Auto`] resolved.
    #[must_use]
    pub fn resolved_overlap(&self) -> Overlap {
        match self.repeats {
            Repeats::First => Overlap::First,
            Repeats::Last => Overlap::Last,
            Repeats::Both => Overlap::Both,
        }
    }

    /// The smallest nominal time after `t`.
    #[must_use]
    pub fn next_after(&self, t: UtcSecond) -> Option<UtcSecond> {
        self.first_at_or_after(t.unix() + 1).and_then(UtcSecond::from_unix)
    }

    /// The greatest nominal time at or before `t`.
    #[must_use]
    pub fn prev_at_or_before(&self, t: UtcSecond) -> Option<UtcSecond> {
        self.last_at_or_before(t.unix()).and_then(UtcSecond::from_unix)
    }

    /// All nominal times after `t`, in order. Walking them costs a few nanoseconds each.
    #[must_use]
    pub fn after(&self, t: UtcSecond) -> Nominals<'_> {
        Nominals { schedule: self, last: t.unix(), track: None }
    }

    /// How daylight saving touched the nominal time `t`; [`Treatment::Plain`] for any instant that
    /// is none.
    #[must_use]
    pub fn treatment(&self, t: UtcSecond) -> Treatment {
        let t = t.unix();
        let stretch = self.zone.stretch_at(t);
        let streams = self.streams(&stretch);
        let asked = t + streams.offset_before;
        if streams.shifted.contains(&t) && self.pattern.first_at_or_after(asked) == Some(asked) {
            let own = t + streams.offset;
            let also_own = self.pattern.first_at_or_after(own) == Some(own);
            if !also_own {
                return Treatment::Shifted {
                    asked: Wall::new(asked, streams.offset_before),
                    gap: Seconds::new(stretch.gap_before().unsigned_abs()),
                };
            }
        }
        if t < stretch.start.saturating_add(stretch.fold_before()) {
            Treatment::SecondOfTwo
        } else if t >= stretch.end - stretch.fold_after() {
            Treatment::FirstOfTwo
        } else {
            Treatment::Plain
        }
    }

    fn streams(&self, stretch: &Stretch) -> Streams {
        let mut own = stretch.start..stretch.end;
        if self.repeats == Repeats::First {
            own.start = own.start.saturating_add(stretch.fold_before());
        }
        if self.repeats == Repeats::Last {
            own.end -= stretch.fold_after();
        }
        let gap = match self.dst.gap {
            Gap::Shift => stretch.gap_before(),
            Gap::Skip => 0,
        };
        Streams {
            own,
            offset: stretch.offset,
            shifted: stretch.start..stretch.start.saturating_add(gap).min(stretch.end),
            offset_before: stretch.offset_before,
        }
    }

    fn first_at_or_after(&self, mut from: i64) -> Option<i64> {
        let mut search = Search { pattern: &self.pattern, known: None };
        loop {
            if from > UtcSecond::MAX.unix() {
                return None;
            }
            let stretch = self.zone.stretch_at(from);
            let streams = self.streams(&stretch);
            let own_from = from.max(streams.own.start);
            let own = search.first_at_or_after(own_from + streams.offset);
            let mut found =
                own.map(|wall| wall - streams.offset).filter(|t| streams.own.contains(t));
            if from < streams.shifted.end {
                let shifted = search
                    .first_at_or_after(from + streams.offset_before)
                    .map(|wall| wall - streams.offset_before)
                    .filter(|t| streams.shifted.contains(t));
                found = [found, shifted].into_iter().flatten().min();
            }
            if found.is_some() || stretch.end == i64::MAX {
                return found;
            }
            // Nothing here. Far from the stretch's end, no wall time before `own` can match in
            // any later stretch either, so years, or all that is left, can be passed over at
            // once. Close to it, a fold may bring wall times back.
            let far = stretch.end - own_from > OFFSETS_APART_MAX;
            from = match own {
                Some(wall) if far => stretch.end.max(wall - OFFSETS_APART_MAX),
                None if far => return None,
                _ => stretch.end,
            };
        }
    }

    fn last_at_or_before(&self, mut to: i64) -> Option<i64> {
        loop {
            if to < UtcSecond::MIN.unix() {
                return None;
            }
            let stretch = self.zone.stretch_at(to);
            let streams = self.streams(&stretch);
            let own_to = to.min(streams.own.end - 1);
            let own = self.pattern.last_at_or_before(own_to + streams.offset);
            let mut found =
                own.map(|wall| wall - streams.offset).filter(|t| streams.own.contains(t));
            if !streams.shifted.is_empty() {
                let shifted_to = to.min(streams.shifted.end - 1);
                let shifted = self
                    .pattern
                    .last_at_or_before(shifted_to + streams.offset_before)
                    .map(|wall| wall - streams.offset_before)
                    .filter(|t| streams.shifted.contains(t));
                found = [found, shifted].into_iter().flatten().max();
            }
            if found.is_some() || stretch.start == i64::MIN {
                return found;
            }
            let before = stretch.start - 1;
            let far = own_to - before > OFFSETS_APART_MAX;
            to = match own {
                Some(wall) if far => before.min(wall + OFFSETS_APART_MAX),
                None if far => return None,
                _ => before,
            };
        }
    }

    /// The shortest distance between two neighbouring nominal times in the 40 years from
    /// 2026-01-01 and in all years that a year field names, after daylight saving; `None` when
    /// there are fewer than two. It never depends on the present, so a definition that is valid
    /// today stays valid.
    #[must_use]
    pub fn shortest_gap(&self) -> Option<ShortestGap> {
        let mut shortest: Option<ShortestGap> = None;
        let mut consider = |from: i64, to: i64| {
            let closer = shortest.is_none_or(|s| to - from < s.to.unix() - s.from.unix());
            if closer {
                shortest = Some(ShortestGap {
                    from: UtcSecond::clamped(from),
                    to: UtcSecond::clamped(to),
                });
            }
            to - from == 1
        };
        let (first_second, last_second) = self.pattern.first_and_last_second_of_day();
        let in_day = self.pattern.shortest_gap_in_day();
        // A day that no change of offset touches is one unit of the search; any other is walked
        // one nominal time after the other.
        let mut in_day_seen = false;
        let mut previous: Option<i64> = None;
        let horizon = self.horizon();
        let mut walk = self.after(UtcSecond::clamped(horizon.start - 1));
        while let Some(next) = walk.next().map(UtcSecond::unix).filter(|t| horizon.contains(t)) {
            if previous.is_some_and(|previous| consider(previous, next)) {
                break;
            }
            previous = Some(next);
            if last_second == first_second {
                continue;
            }
            let stretch = self.zone.stretch_at(next);
            let wall = next + stretch.offset;
            let day_start = wall - wall.rem_euclid(DAY_SECONDS) - stretch.offset;
            let untouched = day_start >= stretch.start.saturating_add(stretch.shift_before())
                && day_start + DAY_SECONDS <= stretch.end - stretch.fold_after()
                && day_start + DAY_SECONDS <= horizon.end;
            if !untouched || next != day_start + first_second {
                continue;
            }
            if !in_day_seen && let Some(gap) = in_day {
                in_day_seen = true;
                let (from, to) = self.pair_in_day(next, gap);
                if consider(from, to) {
                    break;
                }
            }
            previous = Some(day_start + last_second);
            walk.pass_day(day_start + last_second);
        }
        shortest
    }

    /// The time that shortest gaps are looked for in.
    fn horizon(&self) -> Range<i64> {
        match self.named_years() {
            None => HORIZON,
            Some(years) => years.start.min(HORIZON.start)..years.end.max(HORIZON.end),
        }
    }

    /// The time from the first to the last year that the year field names, if there is one, and a
    /// day more on either side, since years are those of the zone.
    pub(crate) fn named_years(&self) -> Option<Range<i64>> {
        let (first, last) = self.pattern.year_span()?;
        let new_year = |year| Date { year, month: 1, day: 1 }.to_days() * DAY_SECONDS;
        Some(new_year(first) - DAY_SECONDS..new_year(last + 1) + DAY_SECONDS)
    }

    /// The first two nominal times from `first` on that are `gap` apart.
    fn pair_in_day(&self, first: i64, gap: i64) -> (i64, i64) {
        let mut previous = first;
        for next in self.after(UtcSecond::clamped(first)).map(UtcSecond::unix) {
            if next - previous <= gap {
                return (previous, next);
            }
            previous = next;
        }
        (first, first + gap)
    }

    /// Whether no two neighbouring nominal times are closer than `length`.
    ///
    /// # Errors
    /// The pair that is too close.
    pub fn fits(&self, length: Seconds) -> Result<(), ShortestGap> {
        if self.surely_fits(length) {
            return Ok(());
        }
        match self.shortest_gap() {
            Some(gap) if gap.length() < length => Err(gap),
            _ => Ok(()),
        }
    }

    /// Whether the pattern's own arithmetic is enough to know that neighbours are at least
    /// `length` apart. `false` means that [`Schedule::shortest_gap`] must be asked.
    pub(crate) fn surely_fits(&self, length: Seconds) -> bool {
        if self.pattern.year_span().is_some() && length != Seconds::ZERO {
            // The bounds on changes of offset that are used below hold for the common horizon.
            return false;
        }
        let (first, last) = self.pattern.first_and_last_second_of_day();
        let across_days = DAY_SECONDS - (last - first);
        let on_the_wall =
            self.pattern.shortest_gap_in_day().map_or(across_days, |gap| gap.min(across_days));
        let mut at_least = on_the_wall - self.zone.shift_seconds_max();
        if self.repeats == Repeats::Both
            && let Some(fold) = self.zone.fold_seconds_min()
        {
            at_least = at_least.min(fold);
        }
        length.get_signed() <= at_least.max(1)
    }
}

/// Looks for a pattern's wall times and remembers the last answer, which is often the answer in
/// the next stretch as well.
struct Search<'a> {
    pattern: &'a Pattern,
    /// A wall time asked about and the first match at or after it.
    known: Option<(i64, i64)>,
}

impl Search<'_> {
    #[inline]
    fn first_at_or_after(&mut self, wall: i64) -> Option<i64> {
        if let Some((asked, found)) = self.known
            && (asked..=found).contains(&wall)
        {
            return Some(found);
        }
        let found = self.pattern.first_at_or_after(wall)?;
        self.known = Some((wall, found));
        Some(found)
    }
}

/// Nominal times in order; made by [`Schedule::after`].
#[derive(Clone, Debug)]
pub struct Nominals<'a> {
    schedule: &'a Schedule,
    last: i64,
    track: Option<Track>,
}

/// A walk along one stretch's own wall times, good until `end`.
#[derive(Clone, Debug)]
struct Track {
    cursor: Cursor,
    offset: i64,
    end: i64,
}

impl Track {
    /// The instant of the cursor's wall time, which is the first match after that of `last`;
    /// `None` when only a careful search can tell what comes next.
    #[inline]
    fn reach(&mut self, last: i64, schedule: &Schedule) -> Option<i64> {
        let wall = self.cursor.wall();
        let next = wall - self.offset;
        if next < self.end { Some(next) } else { self.change(wall, last, schedule) }
    }

    /// Moves to the stretch that holds `wall`, if `last` and `wall` are so far from the changes
    /// between them that no wall time up to `last` is seen again and `wall` is not seen before.
    fn change(&mut self, wall: i64, last: i64, schedule: &Schedule) -> Option<i64> {
        let stretch = schedule.zone.stretch_at(wall - self.offset);
        let next = wall - stretch.offset;
        let own = schedule.streams(&stretch).own;
        let far = self.end - last > OFFSETS_APART_MAX
            && next > stretch.start.saturating_add(OFFSETS_APART_MAX)
            && next < own.end;
        if !far {
            return None;
        }
        (self.offset, self.end) = (stretch.offset, own.end);
        Some(next)
    }
}

impl Nominals<'_> {
    /// Passes over the rest of the day that the walk stands on; `last` is its last nominal time,
    /// and the offset does not change before it.
    fn pass_day(&mut self, last: i64) {
        self.last = last;
        if let Some(track) = &mut self.track {
            track.cursor.pass_day(&self.schedule.pattern);
        }
    }

    /// Finds the next nominal time the careful way and, if the way ahead is plain, a track.
    #[cold]
    fn find(&mut self) -> Option<UtcSecond> {
        let next = self.schedule.first_at_or_after(self.last + 1)?;
        let found = UtcSecond::from_unix(next)?;
        let stretch = self.schedule.zone.stretch_at(next);
        let streams = self.schedule.streams(&stretch);
        if streams.own.contains(&next) && next >= streams.shifted.end {
            self.track = Cursor::at_or_after(&self.schedule.pattern, next + streams.offset)
                .map(|cursor| Track { cursor, offset: streams.offset, end: streams.own.end });
        }
        self.last = next;
        Some(found)
    }
}

impl Iterator for Nominals<'_> {
    type Item = UtcSecond;

    #[inline]
    fn next(&mut self) -> Option<UtcSecond> {
        if let Some(track) = &mut self.track {
            if track.cursor.advance(&self.schedule.pattern)
                && let Some(next) = track.reach(self.last, self.schedule)
            {
                self.last = next;
                return UtcSecond::from_unix(next);
            }
            self.track = None;
        }
        self.find()
    }
}

impl std::iter::FusedIterator for Nominals<'_> {}
