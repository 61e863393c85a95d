//! Kron's nominal times against those of two other cron implementations, and against a model.
//!
//! Random patterns are written in each peer's dialect, read in random zones and asked about
//! random instants, most of them close to where calendars and clocks are awkward. Three answers
//! are compared: Kron's, the peer's, and that of [`Model`], a slow evaluation that shares no code
//! with Kron: it works on the generated tree, never on text, and takes its offsets from
//! `chrono-tz`. Kron must agree with the model always. Where the peer disagrees, the model must
//! give the peer's very answer once some of the peer's own [`Difference`]s are switched on;
//! anything else fails. Every difference must occur, so that one which no longer applies is seen.
//!
//! The generator is seeded: a run says the same every time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, Datelike, NaiveDate, Offset as _, TimeZone as _};
use chrono_tz::Tz;
use kron_core::{Dst, Overlap, Pattern, Schedule, UtcSecond, Zone};

/// Patterns per peer, and instants each is asked about, forwards and backwards.
const PATTERNS: usize = 13_800;
const INSTANTS: usize = 8;

const DAY: i64 = 86_400;

/// Why a peer and Kron may give different answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// Kron follows Vixie: a day field that begins with `*` is unrestricted, so `*/2` narrows the
    /// other day field. `croner` calls only a bare `*` unrestricted and joins `*/2` by OR.
    StarStepNarrows,
    /// Kron moves a wall time that a gap jumped over forward by the length of the gap. `croner`
    /// runs a job with one time a day at the gap's end and drops all other jobs' times; `cron`
    /// drops all.
    GapShifts,
    /// Kron runs a repeated wall time twice if the hour field allows all 24 hours, else the first
    /// time. `croner` runs it once only if second, minute and hour are each a single value.
    FoldFollowsHours,
    /// Kron orders instants. `cron` walks the wall clock alone: after the first pass of a repeated
    /// hour it skips the second, and asked during the second it answers with the first, in the past.
    FoldIsOrdered,
    /// Kron's schedules without a year field have no first and no last year; `cron` knows none
    /// before 1970 and none after 2100.
    YearsGoOn,
    /// `croner` gives up on a gap longer than two hours, such as a day that a zone left out by
    /// crossing the date line.
    LongGaps,
    /// `croner` moves hour by hour and day by day; if one of these steps, such as a midnight, falls
    /// into a gap, it runs a job with one time a day at the gap's end, whatever that time is.
    GapsOnTheWay,
    /// Kron goes back to the end of an earlier year. `cron` goes back to the month, day and time
    /// of that year which it was asked about, so it misses the rest of the last matching year.
    YearsEndInDecember,
    /// The peers' zone tables are older than Kron's, and this zone's rules have changed since.
    ZoneTables,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }
}

/// One item of a field's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Every {
        step: u32,
    },
    Value(u32),
    Range {
        from: u32,
        to: u32,
        step: u32,
    },
    /// `L` in the day-of-month field.
    LastDay,
    /// `LW`.
    LastWeekday,
    /// `15W`.
    NearestWeekday(u32),
    /// `MON#2`.
    Nth(u32, u32),
    /// `FRI#L`.
    Last(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
    Year,
}

impl Name {
    fn bounds(self) -> (u32, u32) {
        match self {
            Name::Second | Name::Minute => (0, 59),
            Name::Hour => (0, 23),
            Name::Day => (1, 31),
            Name::Month => (1, 12),
            Name::Weekday => (0, 6),
            Name::Year => (1970, 2099),
        }
    }
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A generated pattern.
#[derive(Clone, Debug)]
struct Tree {
    second: Option<Vec<Item>>,
    minute: Vec<Item>,
    hour: Vec<Item>,
    day: Vec<Item>,
    month: Vec<Item>,
    weekday: Vec<Item>,
    year: Option<Vec<Item>>,
    /// `+`: a day must match both day fields.
    both_days: bool,
    /// Whether months and weekdays are written as names.
    names: bool,
    /// Whether an unrestricted day field is written `?`.
    question: bool,
    nickname: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Kron,
    Croner,
    Cron,
}

const EVERY: Item = Item::Every { step: 1 };

impl Tree {
    fn random(random: &mut Random, peer: Dialect) -> Tree {
        if random.chance(3) {
            return Tree::nickname(random);
        }
        let list = |random: &mut Random, name: Name, every: u32| {
            if random.chance(every) {
                return vec![EVERY];
            }
            let (low, high) = name.bounds();
            let count = if random.chance(70) { 1 } else { random.between(2, 4) };
            (0..count).map(|_| plain_item(random, low, high)).collect::<Vec<_>>()
        };
        let second = random.chance(25).then(|| {
            // Many seconds of many minutes are slow to check one by one; a few such suffice.
            let every = if random.chance(10) { 60 } else { 0 };
            if every == 0 && random.chance(80) {
                vec![Item::Value(random.below(60))]
            } else {
                list(random, Name::Second, every)
            }
        });
        let minute = list(random, Name::Minute, 12);
        let hour = list(random, Name::Hour, 35);
        let month = list(random, Name::Month, 65);
        let mut day = list(random, Name::Day, 45);
        let mut weekday = list(random, Name::Weekday, 50);
        if peer == Dialect::Croner {
            if random.chance(12) {
                // `croner` takes `L` and `W` in one list for `LW`, so they are never mixed here.
                day = match random.below(3) {
                    0 => vec![Item::LastDay],
                    1 => vec![Item::LastWeekday],
                    _ => vec![Item::NearestWeekday(random.between(1, 31) as u32)],
                };
                if random.chance(30) {
                    day.push(Item::Value(random.between(1, 31) as u32));
                }
            }
            if random.chance(12) {
                let named = random.below(7);
                weekday = vec![if random.chance(60) {
                    Item::Nth(named, random.between(1, 5) as u32)
                } else {
                    Item::Last(named)
                }];
                if random.chance(30) {
                    weekday.push(Item::Value(random.below(7)));
                }
            }
        }
        let year = (second.is_some() && random.chance(30)).then(|| {
            let from = random.between(1970, 2090) as u32;
            match random.below(3) {
                0 => vec![EVERY],
                1 => vec![Item::Value(from)],
                _ => vec![Item::Range { from, to: from + random.below(9), step: 1 }],
            }
        });
        let both_days = match peer {
            // `cron` always wants both, which Kron writes `+`.
            Dialect::Cron => true,
            _ => random.chance(10) && day != [EVERY] && weekday != [EVERY],
        };
        Tree {
            second,
            minute,
            hour,
            day,
            month,
            weekday,
            year,
            both_days,
            names: random.chance(40),
            question: random.chance(15),
            nickname: None,
        }
    }

    fn nickname(random: &mut Random) -> Tree {
        let zero = || vec![Item::Value(0)];
        let one = || vec![Item::Value(1)];
        let every = || vec![EVERY];
        let nickname = random.pick(&["@hourly", "@daily", "@weekly", "@monthly", "@yearly"]);
        Tree {
            second: None,
            minute: zero(),
            hour: if nickname == "@hourly" { every() } else { zero() },
            day: if matches!(nickname, "@monthly" | "@yearly") { one() } else { every() },
            month: if nickname == "@yearly" { one() } else { every() },
            weekday: if nickname == "@weekly" { zero() } else { every() },
            year: None,
            both_days: false,
            names: false,
            question: false,
            nickname: Some(nickname),
        }
    }

    fn text(&self, dialect: Dialect) -> String {
        if let Some(nickname) = self.nickname {
            return nickname.to_owned();
        }
        let field = |name: Name, items: &[Item]| {
            if self.question && matches!(name, Name::Day | Name::Weekday) && items == [EVERY] {
                return "?".to_owned();
            }
            let texts: Vec<String> =
                items.iter().map(|&item| self.item_text(dialect, name, item)).collect();
            texts.join(",")
        };
        let mut fields = Vec::new();
        match (&self.second, dialect) {
            (Some(second), _) => fields.push(field(Name::Second, second)),
            (None, Dialect::Cron) => fields.push("0".to_owned()),
            (None, _) => {}
        }
        fields.push(field(Name::Minute, &self.minute));
        fields.push(field(Name::Hour, &self.hour));
        fields.push(field(Name::Day, &self.day));
        fields.push(field(Name::Month, &self.month));
        let mut weekday = field(Name::Weekday, &self.weekday);
        if self.both_days && dialect != Dialect::Cron {
            weekday.insert(0, '+');
        }
        fields.push(weekday);
        fields.extend(self.year.as_ref().map(|year| field(Name::Year, year)));
        fields.join(" ")
    }

    fn item_text(&self, dialect: Dialect, name: Name, item: Item) -> String {
        let value = |value: u32| match name {
            Name::Month if self.names => MONTHS[value as usize - 1].to_owned(),
            Name::Weekday if self.names => WEEKDAYS[value as usize].to_owned(),
            // `cron` counts from Sunday = 1.
            Name::Weekday if dialect == Dialect::Cron => (value + 1).to_string(),
            _ => value.to_string(),
        };
        let mut text = match item {
            Item::Every { .. } => "*".to_owned(),
            Item::Value(only) => value(only),
            Item::Range { from, to, .. } => format!("{}-{}", value(from), value(to)),
            Item::LastDay => "L".to_owned(),
            Item::LastWeekday => "LW".to_owned(),
            Item::NearestWeekday(day) => format!("{day}W"),
            Item::Nth(day, nth) => format!("{}#{nth}", value(day)),
            Item::Last(day) => format!("{}#L", value(day)),
        };
        if let Item::Every { step: step @ 2.. } | Item::Range { step: step @ 2.., .. } = item {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "/{step}");
        }
        text
    }
}

fn plain_item(random: &mut Random, low: u32, high: u32) -> Item {
    match random.below(10) {
        0..=4 => Item::Value(random.between(i64::from(low), i64::from(high)) as u32),
        5 | 6 => Item::Every { step: random.between(2, i64::from((high - low).min(30))) as u32 },
        _ => {
            let from = random.between(i64::from(low), i64::from(high) - 1) as u32;
            let to = random.between(i64::from(from) + 1, i64::from(high)) as u32;
            let step =
                if random.chance(40) { random.between(1, i64::from(to - from)) as u32 } else { 1 };
            Item::Range { from, to, step }
        }
    }
}

/// A zone by `chrono-tz`: when each offset begins.
struct Offsets {
    tz: Tz,
    /// Unix time and the offset from then on; the first begins before all time.
    changes: Vec<(i64, i64)>,
    /// Stretches in which Kron's table says something else.
    disputed: Vec<(i64, i64)>,
}

/// 1970 to 2100.
const TABLE: std::ops::Range<i64> = 0..4_102_444_800;

impl Offsets {
    fn of(name: &str) -> Offsets {
        let tz: Tz = name.parse().unwrap();
        let zone = Zone::named(name).unwrap();
        let theirs = |t: i64| {
            let utc = DateTime::from_timestamp(t, 0).unwrap().naive_utc();
            i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc())
        };
        let kron = |t: i64| zone.offset_at(UtcSecond::from_unix(t).unwrap());
        let mut changes = vec![(i64::MIN, theirs(TABLE.start))];
        for t in TABLE.step_by(DAY as usize / 4) {
            let (mut before, mut after) = (t, t + DAY / 4);
            if theirs(before) == theirs(after) {
                continue;
            }
            while after - before > 1 {
                let middle = before + (after - before) / 2;
                if theirs(middle) == theirs(before) {
                    before = middle;
                } else {
                    after = middle;
                }
            }
            changes.push((after, theirs(after)));
        }
        let mut disputed: Vec<(i64, i64)> = Vec::new();
        for t in TABLE.step_by(3_600) {
            if theirs(t) == kron(t) {
                continue;
            }
            match disputed.last_mut() {
                Some((_, end)) if *end >= t => *end = t + 3_600,
                _ => disputed.push((t - 3_600, t + 3_600)),
            }
        }
        Offsets { tz, changes, disputed }
    }

    fn at(&self, t: i64) -> i64 {
        self.changes[self.changes.partition_point(|&(start, _)| start <= t) - 1].1
    }

    /// Whether no clock change lies within three days of `t`.
    fn is_quiet(&self, t: i64) -> bool {
        let next = self.changes.partition_point(|&(start, _)| start <= t - 3 * DAY);
        self.changes.get(next).is_none_or(|&(start, _)| start > t + 3 * DAY)
    }

    fn is_disputed(&self, from: i64, to: i64) -> bool {
        self.disputed.iter().any(|&(start, end)| start <= to + 2 * DAY && from - 2 * DAY <= end)
    }

    /// The instants at which a clock shows `wall`, in order.
    fn instants(&self, wall: i64) -> Vec<i64> {
        let near = self.changes.partition_point(|&(start, _)| start <= wall - 3 * DAY) - 1;
        let mut instants = Vec::new();
        for index in near..self.changes.len().min(near + 8) {
            let (start, offset) = self.changes[index];
            let end = self.changes.get(index + 1).map_or(i64::MAX, |&(end, _)| end);
            if (start..end).contains(&(wall - offset)) {
                instants.push(wall - offset);
            }
        }
        instants
    }

    /// The gap that jumped over `wall`: when it was, and the offset before it.
    fn gap_over(&self, wall: i64) -> (i64, i64) {
        let pair = self
            .changes
            .windows(2)
            .find(|pair| {
                let ((_, before), (start, after)) = (pair[0], pair[1]);
                start + before <= wall && wall < start + after
            })
            .expect("a wall time that never happens lies in a gap");
        (pair[1].0, pair[0].1)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Shift,
    Skip,
    /// To the first second after the gap.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    First,
    Last,
    Both,
}

/// How the model reads a pattern.
#[derive(Clone, Copy)]
struct Rules {
    star_step_narrows: bool,
    gap: Gap,
    fold: Fold,
}

/// The slow evaluation of a [`Tree`].
struct Model<'a> {
    tree: &'a Tree,
    seconds: Vec<i64>,
    minutes: Vec<i64>,
    hours: Vec<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Next,
    Previous,
}

fn has(items: &[Item], name: Name, value: u32) -> bool {
    let (low, high) = name.bounds();
    items.iter().any(|&item| match item {
        Item::Every { step } => (low..=high).contains(&value) && (value - low).is_multiple_of(step),
        Item::Value(only) => value == only,
        Item::Range { from, to, step } => {
            (from..=to).contains(&value) && (value - from).is_multiple_of(step)
        }
        _ => false,
    })
}

impl<'a> Model<'a> {
    fn new(tree: &'a Tree) -> Model<'a> {
        let values = |items: &[Item], name: Name| {
            (0..=name.bounds().1).filter(|&v| has(items, name, v)).map(i64::from).collect()
        };
        let zero = [Item::Value(0)];
        Model {
            tree,
            seconds: values(tree.second.as_deref().unwrap_or(&zero), Name::Second),
            minutes: values(&tree.minute, Name::Minute),
            hours: values(&tree.hour, Name::Hour),
        }
    }

    fn kron_rules(&self) -> Rules {
        let fold = if self.hours.len() == 24 { Fold::Both } else { Fold::First };
        Rules { star_step_narrows: true, gap: Gap::Shift, fold }
    }

    fn matches_year(&self, year: i32) -> bool {
        match self.tree.year.as_deref() {
            None | Some([EVERY]) => true,
            Some(items) => has(items, Name::Year, year as u32),
        }
    }

    fn matches_day(&self, rules: Rules, date: NaiveDate) -> bool {
        let (day, weekday) = (date.day(), date.weekday().num_days_from_sunday());
        if !has(&self.tree.month, Name::Month, date.month()) || !self.matches_year(date.year()) {
            return false;
        }
        let first_of_next = if date.month() == 12 {
            NaiveDate::from_ymd_opt(date.year() + 1, 1, 1)
        } else {
            NaiveDate::from_ymd_opt(date.year(), date.month() + 1, 1)
        };
        let last = first_of_next.unwrap().pred_opt().unwrap().day();
        // A weekday is the nearest to day `n` if no other weekday of the month is nearer; of
        // two equally near ones a Saturday takes Friday and a Sunday Monday.
        let weekday_of = |n: u32| date.with_day(n).unwrap().weekday().num_days_from_sunday();
        let nearest = |n: u32| {
            let is_weekday = |d: i64| {
                (1..=i64::from(last)).contains(&d) && (1..=5).contains(&weekday_of(d as u32))
            };
            [0, -1, 1, -2, 2].iter().map(|shift| i64::from(n) + shift).find(|&d| is_weekday(d))
        };
        let by_day = has(&self.tree.day, Name::Day, day)
            || self.tree.day.iter().any(|&item| match item {
                Item::LastDay => day == last,
                Item::LastWeekday => {
                    let last_weekday = (1..=last).rev().find(|&d| (1..=5).contains(&weekday_of(d)));
                    last_weekday == Some(day)
                }
                Item::NearestWeekday(n) => n <= last && nearest(n) == Some(i64::from(day)),
                _ => false,
            });
        let by_weekday = has(&self.tree.weekday, Name::Weekday, weekday)
            || self.tree.weekday.iter().any(|&item| match item {
                Item::Nth(named, nth) => weekday == named && day.div_ceil(7) == nth,
                Item::Last(named) => weekday == named && day + 7 > last,
                _ => false,
            });
        let restricts = |items: &[Item]| match items {
            [EVERY] => false,
            [Item::Every { .. }, ..] => !rules.star_step_narrows,
            _ => true,
        };
        if self.tree.both_days || !restricts(&self.tree.day) || !restricts(&self.tree.weekday) {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        }
    }

    /// The instants that a matching wall time stands for.
    fn instants(&self, rules: Rules, offsets: &Offsets, wall: i64) -> Vec<i64> {
        let mut instants = offsets.instants(wall);
        if instants.is_empty() {
            let (start, before) = offsets.gap_over(wall);
            match rules.gap {
                Gap::Shift => instants.push(wall - before),
                Gap::Skip => {}
                Gap::End => {
                    let there = NaiveDate::from_epoch_days(
                        ((start + offsets.at(start)).div_euclid(DAY)) as i32,
                    );
                    if self.matches_day(rules, there.unwrap()) {
                        instants.push(start);
                    }
                }
            }
        }
        match rules.fold {
            Fold::First => instants.truncate(1),
            Fold::Last => instants = instants.split_off(instants.len().saturating_sub(1)),
            Fold::Both => {}
        }
        instants
    }

    /// All matching seconds of a day, in order.
    fn times(&self) -> impl DoubleEndedIterator<Item = i64> + '_ {
        self.hours.iter().flat_map(move |hour| {
            self.minutes.iter().flat_map(move |minute| {
                self.seconds.iter().map(move |second| hour * 3_600 + minute * 60 + second)
            })
        })
    }

    /// Matching days from `first` on in the given direction, as far as the search goes.
    fn days(&self, rules: Rules, first: i64, way: Way) -> impl Iterator<Item = i64> + '_ {
        let step = if way == Way::Next { 1 } else { -1 };
        let mut date = NaiveDate::from_epoch_days(first as i32).unwrap();
        let mut done = false;
        std::iter::from_fn(move || {
            loop {
                if done || date.year() > 2230 || date.year() < 1700 {
                    return None;
                }
                let passed = match (way, self.tree.year.as_deref()) {
                    (_, None | Some([EVERY])) => false,
                    (Way::Next, _) => date.year() > 2100,
                    (Way::Previous, _) => date.year() < 1969,
                };
                if passed {
                    done = true;
                    return None;
                }
                let here = date;
                let month_matches = has(&self.tree.month, Name::Month, date.month())
                    && self.matches_year(date.year());
                date = if month_matches {
                    date + chrono::TimeDelta::days(step)
                } else if way == Way::Next {
                    date.with_day(1).unwrap() + chrono::Months::new(1)
                } else {
                    date.with_day(1).unwrap().pred_opt().unwrap()
                };
                if month_matches && self.matches_day(rules, here) {
                    return Some(i64::from(here.to_epoch_days()));
                }
            }
        })
    }

    /// The nearest matching instant after `t`, or at or before it.
    fn search(&self, rules: Rules, offsets: &Offsets, t: i64, way: Way) -> Option<i64> {
        let wanted = |instant: i64| match way {
            Way::Next => instant > t,
            Way::Previous => instant <= t,
        };
        let nearer = |a: i64, b: i64| match way {
            Way::Next => a.min(b),
            Way::Previous => a.max(b),
        };
        let today = (t + offsets.at(t)).div_euclid(DAY);
        let first = if way == Way::Next { today - 2 } else { today + 2 };
        let mut best: Option<i64> = None;
        for day in self.days(rules, first, way) {
            // Clocks never changed by more than a day, so later days cannot do better.
            if best.is_some_and(|best| (best + offsets.at(best)).div_euclid(DAY).abs_diff(day) > 2)
            {
                break;
            }
            let midnight = day * DAY;
            let mut keep = |instant: i64| {
                if wanted(instant) {
                    best = Some(best.map_or(instant, |best| nearer(best, instant)));
                }
            };
            if offsets.is_quiet(midnight) {
                let instant = |time: i64| midnight + time - offsets.at(midnight);
                let found = match way {
                    Way::Next => self.times().map(instant).find(|&instant| wanted(instant)),
                    Way::Previous => self.times().rev().map(instant).find(|&i| wanted(i)),
                };
                found.into_iter().for_each(keep);
            } else {
                for time in self.times() {
                    self.instants(rules, offsets, midnight + time).into_iter().for_each(&mut keep);
                }
            }
        }
        best
    }

    /// The answer of a walk along the wall clock that knows nothing of instants: the first wall
    /// time that exists, and of two instants the one the walk would meet first.
    fn wall_walk(&self, offsets: &Offsets, from: i64, way: Way) -> Option<i64> {
        let rules = self.kron_rules();
        for day in self.days(rules, from.div_euclid(DAY), way) {
            let walls = self.times().map(|time| day * DAY + time);
            let found = match way {
                Way::Next => walls
                    .filter(|&wall| wall >= from)
                    .find_map(|wall| offsets.instants(wall).first().copied()),
                Way::Previous => walls
                    .rev()
                    .filter(|&wall| wall <= from)
                    .find_map(|wall| offsets.instants(wall).last().copied()),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Zones with and without daylight saving, at midnight and at 2, by half an hour, an hour, two
/// and a day, in both hemispheres, with rules of their own and with offsets in seconds.
const ZONES: [&str; 26] = [
    "UTC",
    "Europe/Paris",
    "Europe/London",
    "Europe/Dublin",
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Havana",
    "America/Sao_Paulo",
    "America/Asuncion",
    "America/Scoresbysund",
    "America/Vancouver",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Antarctica/Troll",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Asia/Beirut",
    "Asia/Amman",
    "Asia/Gaza",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Pacific/Chatham",
];

/// An instant from 1975 to 2095.
fn random_instant(random: &mut Random, offsets: &Offsets) -> i64 {
    const FIRST: i64 = 157_766_400;
    const LAST: i64 = 3_944_678_400;
    let date = |year: i64, month: u32, day: u32| {
        let date = NaiveDate::from_ymd_opt(year as i32, month, day).unwrap();
        i64::from(date.to_epoch_days()) * DAY
    };
    let near = |random: &mut Random| match random.below(6) {
        0 => random.between(-2, 2),
        1 => random.between(-2, 2) * 1_800,
        2 | 3 => random.between(-10_800, 10_800),
        _ => random.between(-2 * DAY, 2 * DAY),
    };
    let t = match random.below(10) {
        0..=4 if offsets.changes.len() > 1 => {
            let change = 1 + random.below(offsets.changes.len() as u32 - 1) as usize;
            offsets.changes[change].0 + near(random)
        }
        5 | 6 => {
            let month = random.between(1, 12) as u32;
            date(random.between(1975, 2094), month, 1) - offsets.at(FIRST) + near(random)
        }
        7 => date(random.between(1975, 2094), 3, 1) - random.between(0, 2 * DAY),
        _ => random.between(FIRST, LAST),
    };
    t.clamp(FIRST, LAST)
}

/// A peer's answer: an instant, or nothing.
type Answer = Option<i64>;

/// The iterator takes shortcuts that single searches do not; both must say the same.
fn check_walk(schedule: &Schedule, at: UtcSecond, steps: usize) {
    let walked: Vec<UtcSecond> = schedule.after(at).take(steps).collect();
    let searched: Vec<UtcSecond> =
        std::iter::successors(schedule.next_after(at), |&t| schedule.next_after(t))
            .take(steps)
            .collect();
    let pattern = schedule.pattern();
    assert_eq!(walked, searched, "`{pattern}` in {} from {at}", schedule.zone());
    for pair in walked.windows(2) {
        let back = schedule.prev_at_or_before(pair[1].saturating_add(-1));
        assert_eq!(back, Some(pair[0]), "`{pattern}` in {} before {}", schedule.zone(), pair[1]);
    }
}

struct Tally {
    triples: usize,
    agreed: usize,
    differences: BTreeMap<Difference, usize>,
}

/// Compares Kron with one peer. `ask` parses the peer's text and answers; `explain` names the
/// differences that make the model give the peer's answer.
#[expect(clippy::print_stdout, reason = "the counts are what a reader of a run wants to see")]
fn compare<P>(
    peer: Dialect,
    seed: u64,
    parse: impl Fn(&str) -> P,
    ask: impl Fn(&P, Tz, i64, Way) -> Answer,
    explain: impl Fn(&Model<'_>, &Offsets, i64, Way, Answer) -> Option<Vec<Difference>>,
) -> Tally {
    let mut random = Random(seed);
    let zones: Vec<(Zone, Offsets)> =
        ZONES.iter().map(|name| (Zone::named(name).unwrap(), Offsets::of(name))).collect();
    let mut tally = Tally { triples: 0, agreed: 0, differences: BTreeMap::new() };
    let mut patterns = 0;
    while patterns < PATTERNS {
        let tree = Tree::random(&mut random, peer);
        let text = tree.text(Dialect::Kron);
        let pattern = Pattern::parse(&text, "any").unwrap_or_else(|e| panic!("{text}: {e}"));
        if !pattern.is_satisfiable() {
            // A peer looks for the 30th of February for seconds; the model's word is enough.
            let model = Model::new(&tree);
            assert_eq!(model.days(model.kron_rules(), 0, Way::Next).next(), None, "{text}");
            continue;
        }
        patterns += 1;
        let (zone, offsets) = &zones[random.below(ZONES.len() as u32) as usize];
        let schedule = Schedule::new(pattern, zone.clone(), Dst::default());
        let theirs = parse(&tree.text(peer));
        let model = Model::new(&tree);
        for _ in 0..INSTANTS {
            let t = random_instant(&mut random, offsets);
            let at = UtcSecond::from_unix(t).unwrap();
            tally.triples += 1;
            check_walk(&schedule, at, 3);
            for way in [Way::Next, Way::Previous] {
                let kron = match way {
                    Way::Next => schedule.next_after(at),
                    Way::Previous => schedule.prev_at_or_before(at),
                };
                let kron = kron.map(UtcSecond::unix);
                let answer = ask(&theirs, offsets.tz, t, way);
                let ends = [t, kron.unwrap_or(t), answer.unwrap_or(t)];
                let (low, high) = (*ends.iter().min().unwrap(), *ends.iter().max().unwrap());
                if offsets.is_disputed(low, high) {
                    *tally.differences.entry(Difference::ZoneTables).or_default() += 1;
                    continue;
                }
                let show = |answer: Answer| {
                    answer.map_or("never".to_owned(), |t| {
                        UtcSecond::from_unix(t).unwrap().to_string()
                    })
                };
                let triple = || format!("{way:?} of `{text}` in {zone} at {at}");
                // Offsets before 1970 and after 2100 are no business of this test.
                if kron.is_none_or(|kron| TABLE.contains(&kron)) {
                    let expected = model.search(model.kron_rules(), offsets, t, way);
                    assert_eq!(show(kron), show(expected), "Kron, model: {}", triple());
                }
                if kron == answer {
                    tally.agreed += 1;
                    continue;
                }
                let Some(why) = explain(&model, offsets, t, way, answer) else {
                    panic!("{}: Kron {}, {peer:?} {}", triple(), show(kron), show(answer));
                };
                for difference in why {
                    *tally.differences.entry(difference).or_default() += 1;
                }
            }
        }
    }
    println!("{peer:?}: {} triples both ways, {} agreed", tally.triples, tally.agreed);
    for (difference, count) in &tally.differences {
        println!("  {difference:?}: {count}");
    }
    tally
}

fn check(tally: &Tally, expected: &[Difference]) {
    // What the zone tables kept from being compared does not count.
    let disputed = tally.differences.get(&Difference::ZoneTables).copied().unwrap_or(0);
    assert!(2 * tally.triples - disputed >= 2 * 100_000);
    let seen: Vec<Difference> = tally.differences.keys().copied().collect();
    assert_eq!(seen, expected, "a difference that never occurs is no difference");
}

#[test]
fn croner_agrees_or_differs_for_a_known_reason() {
    let tally = compare(
        Dialect::Croner,
        1,
        |text| text.parse::<croner::Cron>().unwrap_or_else(|e| panic!("{text}: {e}")),
        |cron, tz, t, way| {
            let at = tz.timestamp_opt(t, 0).unwrap();
            let found = match way {
                Way::Next => cron.find_next_occurrence(&at, false),
                Way::Previous => cron.find_previous_occurrence(&at, true),
            };
            found.ok().map(|found| found.timestamp())
        },
        |model, offsets, t, way, answer| {
            let single = |items: &[Item]| matches!(items, [Item::Value(_)]);
            let fixed = model.tree.second.as_deref().is_none_or(single)
                && single(&model.tree.minute)
                && single(&model.tree.hour);
            let kron = model.kron_rules();
            // Fewest differences first.
            for chosen in [1, 2, 4, 3, 5, 6, 7] {
                let mut why = Vec::new();
                let mut rules = kron;
                if chosen & 1 != 0 {
                    why.push(Difference::StarStepNarrows);
                    rules.star_step_narrows = false;
                }
                if chosen & 2 != 0 {
                    why.push(Difference::GapShifts);
                    rules.gap = if fixed { Gap::End } else { Gap::Skip };
                }
                if chosen & 4 != 0 {
                    why.push(Difference::FoldFollowsHours);
                    rules.fold = if fixed { Fold::First } else { Fold::Both };
                }
                if model.search(rules, offsets, t, way) == answer {
                    return Some(why);
                }
            }
            let ends_gap = |t: i64| offsets.at(t) > offsets.at(t - 1);
            if fixed && answer.is_some_and(ends_gap) {
                return Some(vec![Difference::GapsOnTheWay]);
            }
            let long_gap = offsets.changes.windows(2).any(|pair| pair[1].1 - pair[0].1 > 7_200);
            (answer.is_none() && long_gap && fixed).then(|| vec![Difference::LongGaps])
        },
    );
    check(
        &tally,
        &[
            Difference::StarStepNarrows,
            Difference::GapShifts,
            Difference::FoldFollowsHours,
            Difference::LongGaps,
            Difference::GapsOnTheWay,
            Difference::ZoneTables,
        ],
    );
}

#[test]
fn cron_agrees_or_differs_for_a_known_reason() {
    let tally = compare(
        Dialect::Cron,
        2,
        |text| text.parse::<cron::Schedule>().unwrap_or_else(|e| panic!("{text}: {e}")),
        |schedule, tz, t, way| {
            let found = match way {
                Way::Next => schedule.after(&tz.timestamp_opt(t, 0).unwrap()).next(),
                // It answers with what is strictly before.
                Way::Previous => schedule.after(&tz.timestamp_opt(t + 1, 0).unwrap()).next_back(),
            };
            found.map(|found| found.timestamp())
        },
        |model, offsets, t, way, answer| {
            let kron = model.kron_rules();
            if model.search(Rules { gap: Gap::Skip, ..kron }, offsets, t, way) == answer {
                return Some(vec![Difference::GapShifts]);
            }
            let from = match way {
                Way::Next => t + 1 + offsets.at(t + 1),
                Way::Previous => t + offsets.at(t),
            };
            if model.wall_walk(offsets, from, way) == answer {
                return Some(vec![Difference::FoldIsOrdered]);
            }
            if way == Way::Previous {
                let date = NaiveDate::from_epoch_days(from.div_euclid(DAY) as i32).unwrap();
                let year = (1969..date.year()).rev().find(|&year| model.matches_year(year));
                let there = year.map(|year| {
                    let there = NaiveDate::from_ymd_opt(year, date.month(), date.day());
                    let there =
                        there.unwrap_or_else(|| date.pred_opt().unwrap().with_year(year).unwrap());
                    i64::from(there.to_epoch_days()) * DAY + from.rem_euclid(DAY)
                });
                let found = there.and_then(|from| model.wall_walk(offsets, from, way));
                if !model.matches_year(date.year()) && found == answer {
                    return Some(vec![Difference::YearsEndInDecember]);
                }
            }
            let beyond = |t: i64| !(TABLE.start..TABLE.end + 366 * DAY).contains(&t);
            let kron = model.search(kron, offsets, t, way);
            (answer.is_none() && kron.is_some_and(beyond)).then(|| vec![Difference::YearsGoOn])
        },
    );
    check(
        &tally,
        &[
            Difference::GapShifts,
            Difference::FoldIsOrdered,
            Difference::YearsGoOn,
            Difference::YearsEndInDecember,
            Difference::ZoneTables,
        ],
    );
}

/// Patterns that name one date of a clock change, or a few years from it on, so that there is
/// nothing left to find just before or just after the change.
#[test]
fn the_model_agrees_on_every_policy_around_clock_changes() {
    const ROUNDS: usize = 20_000;
    let mut random = Random(3);
    let zones: Vec<(Zone, Offsets)> =
        ZONES.iter().map(|name| (Zone::named(name).unwrap(), Offsets::of(name))).collect();
    let mut found = 0;
    for _ in 0..ROUNDS {
        let (zone, offsets) = &zones[random.below(ZONES.len() as u32) as usize];
        if offsets.changes.len() < 2 {
            continue;
        }
        let change = 1 + random.below(offsets.changes.len() as u32 - 1) as usize;
        let start = offsets.changes[change].0;
        if start > TABLE.end - 10 * 366 * DAY
            || offsets.is_disputed(start - 30 * DAY, start + 10 * 366 * DAY)
        {
            continue;
        }
        // The clock as it was up to the change, a little before or after it.
        let wall = start + offsets.at(start - 1) + random.between(-7_200, 7_200);
        let date = NaiveDate::from_epoch_days(wall.div_euclid(DAY) as i32).unwrap();
        let year = date.year() as u32;
        let mut tree = Tree::random(&mut random, Dialect::Croner);
        tree.nickname = None;
        tree.second = Some(vec![Item::Value(0)]);
        tree.day = vec![Item::Value(date.day())];
        tree.month = vec![Item::Value(date.month())];
        tree.weekday = vec![EVERY];
        tree.both_days = false;
        if random.chance(70) {
            tree.hour = vec![Item::Value(wall.rem_euclid(DAY) as u32 / 3_600)];
        }
        tree.year = Some(match random.below(3) {
            0 => vec![Item::Range { from: year, to: year + 5, step: 1 }],
            1 if year > 1975 => vec![Item::Range { from: year - 5, to: year, step: 1 }],
            _ => vec![Item::Value(year)],
        });
        let text = tree.text(Dialect::Kron);
        let pattern = Pattern::parse(&text, "any").unwrap();
        let model = Model::new(&tree);
        let kron = model.kron_rules();
        let (gap, rule) =
            random.pick(&[(kron_core::Gap::Shift, Gap::Shift), (kron_core::Gap::Skip, Gap::Skip)]);
        let (overlap, fold) = random.pick(&[
            (Overlap::Auto, kron.fold),
            (Overlap::First, Fold::First),
            (Overlap::Last, Fold::Last),
            (Overlap::Both, Fold::Both),
        ]);
        let rules = Rules { gap: rule, fold, ..kron };
        let schedule = Schedule::new(pattern, zone.clone(), Dst { gap, overlap });
        for _ in 0..INSTANTS {
            let t = start + random.between(-7_200, 7_200);
            let at = UtcSecond::from_unix(t).unwrap();
            check_walk(&schedule, at, 10);
            for way in [Way::Next, Way::Previous] {
                let kron = match way {
                    Way::Next => schedule.next_after(at),
                    Way::Previous => schedule.prev_at_or_before(at),
                };
                let expected = model.search(rules, offsets, t, way);
                let expected = expected.map(|t| UtcSecond::from_unix(t).unwrap().to_string());
                assert_eq!(
                    kron.map(|t| t.to_string()),
                    expected,
                    "{way:?} of `{text}` in {zone} at {at}, {gap:?}, {overlap:?}"
                );
                found += usize::from(kron.is_some());
            }
        }
    }
    println!("{found} found");
    assert!(found > ROUNDS);
}
