//! The judge's own calendar: dates, daylight saving, and when a job's periods are.
//!
//! It is arithmetic, and shares nothing with the engine, which asks a library and its tables. It
//! knows few zones, by the rules that have held in them since 2008 and are told for the future, and
//! nothing before that year.

/// Seconds of a day.
const DAY_S: i64 = 86_400;
/// Days from the first of March of the year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;

/// When the periods of a job are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Periods {
    /// At `phase_s + n · distance_s` seconds since 1970.
    Every {
        /// The distance of two periods.
        distance_s: i64,
        /// What is left of any of them.
        phase_s: i64,
    },
    /// On some days, at a time of a zone.
    On {
        /// The days.
        days: Days,
        /// The time of day, in seconds as clocks show it.
        second: i64,
        /// The zone.
        zone: Zone,
    },
}

/// Some of all days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Days {
    /// All of them.
    Every,
    /// A day of the week, counted from Sunday, which is 0.
    OfWeek(i64),
    /// A day of every `every`-th month from `month` on. Months that lack the day are left out.
    OfMonth {
        /// The day.
        day: i64,
        /// The first of the months in a year.
        month: i64,
        /// A divisor of 12.
        every: i64,
    },
}

/// A zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// The zone that has no summer.
    Utc,
    /// Neither has this one, and its offset has odd minutes.
    Kathmandu,
    /// Summer from the last Sunday of March to that of October, at 01:00 UTC everywhere.
    Berlin,
    /// Summer from the second Sunday of March to the first of November, at 02:00 local time.
    NewYork,
    /// Half an hour of summer, from the first Sunday of October to that of April.
    LordHowe,
}

impl Periods {
    /// The nominal times after `from` and up to `to`, in order.
    #[must_use]
    pub fn within(&self, from: i64, to: i64) -> Vec<i64> {
        match *self {
            Periods::Every { distance_s, phase_s } => {
                let first = from - (from - phase_s).rem_euclid(distance_s) + distance_s;
                (first..=to).step_by(usize::try_from(distance_s).unwrap_or(usize::MAX)).collect()
            }
            Periods::On { days, second, zone } => {
                // Local dates are at most a day away from those of UTC.
                (from.div_euclid(DAY_S) - 1..=to.div_euclid(DAY_S) + 1)
                    .filter(|day| days.contain(*day))
                    .map(|day| zone.to_unix(day * DAY_S + second))
                    .filter(|nominal| *nominal > from && *nominal <= to)
                    .collect()
            }
        }
    }
}

impl Days {
    fn contain(self, day: i64) -> bool {
        match self {
            Days::Every => true,
            Days::OfWeek(weekday) => weekday_of(day) == weekday,
            Days::OfMonth { day: wanted, month, every } => {
                let (_, of_year, of_month) = date(day);
                of_month == wanted && (of_year - month).rem_euclid(every) == 0
            }
        }
    }
}

impl Zone {
    /// Its name in the time zone database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Zone::Utc => "UTC",
            Zone::Kathmandu => "Asia/Kathmandu",
            Zone::Berlin => "Europe/Berlin",
            Zone::NewYork => "America/New_York",
            Zone::LordHowe => "Australia/Lord_Howe",
        }
    }

    /// Seconds that its clocks are ahead of UTC in winter, and further ahead in summer.
    const fn offsets_s(self) -> (i64, i64) {
        match self {
            Zone::Utc => (0, 0),
            Zone::Kathmandu => (20_700, 0),
            Zone::Berlin => (3_600, 3_600),
            Zone::NewYork => (-18_000, 3_600),
            Zone::LordHowe => (37_800, 1_800),
        }
    }

    fn is_summer(self, unix: i64) -> bool {
        let year = date(unix.div_euclid(DAY_S)).0;
        match self {
            Zone::Utc | Zone::Kathmandu => false,
            Zone::Berlin => {
                let begin = sunday(year, 3, 25) * DAY_S + 3_600;
                let end = sunday(year, 10, 25) * DAY_S + 3_600;
                (begin..end).contains(&unix)
            }
            Zone::NewYork => {
                let begin = sunday(year, 3, 8) * DAY_S + 7_200 + 18_000;
                let end = sunday(year, 11, 1) * DAY_S + 7_200 + 14_400;
                (begin..end).contains(&unix)
            }
            Zone::LordHowe => {
                let end = sunday(year, 4, 1) * DAY_S + 7_200 - 39_600;
                let begin = sunday(year, 10, 1) * DAY_S + 7_200 - 37_800;
                !(end..begin).contains(&unix)
            }
        }
    }

    /// The moment at which clocks show `local`: the first one where they do twice, and where they
    /// never do, as much later as they jump.
    fn to_unix(self, local: i64) -> i64 {
        let (winter_s, summer_s) = self.offsets_s();
        let in_summer = local - winter_s - summer_s;
        if self.is_summer(in_summer) { in_summer } else { local - winter_s }
    }
}

/// Seconds since 1970 of `YYYY-MM-DDTHH:MM:SSZ`.
pub(crate) fn unix(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let day = day_number(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    Some(day * DAY_S + hour * 3_600 + minute * 60 + second)
}

/// Days since 1970 of a date.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last of one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_TO_1970
}

/// Year, month and day of a day since 1970.
fn date(day: i64) -> (i64, i64, i64) {
    let mut year = 1970 + day.div_euclid(366);
    while day_number(year + 1, 1, 1) <= day {
        year += 1;
    }
    // Years are shorter than that, so before 1970 the guess is too late.
    while day_number(year, 1, 1) > day {
        year -= 1;
    }
    let mut month = 1 + (day - day_number(year, 1, 1)) / 31;
    while month < 12 && day_number(year, month + 1, 1) <= day {
        month += 1;
    }
    (year, month, day - day_number(year, month, 1) + 1)
}

/// Days since Sunday.
fn weekday_of(day: i64) -> i64 {
    (day + 4).rem_euclid(7)
}

/// The first Sunday at or after a date, in days since 1970.
fn sunday(year: i64, month: i64, day: i64) -> i64 {
    let from = day_number(year, month, day);
    from + (7 - weekday_of(from)) % 7
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(zone: Zone, local: &str, expected: &str) {
        let local = unix(local).expect("a time");
        assert_eq!(zone.to_unix(local), unix(expected).expect("a time"), "{zone:?} {expected}");
    }

    #[test]
    fn zones_change_their_clocks_when_people_say() {
        check(Zone::Utc, "2026-07-01T12:00:00Z", "2026-07-01T12:00:00Z");
        check(Zone::Kathmandu, "2026-07-01T12:00:00Z", "2026-07-01T06:15:00Z");
        check(Zone::Berlin, "2026-03-29T01:59:59Z", "2026-03-29T00:59:59Z");
        check(Zone::Berlin, "2026-03-29T02:30:00Z", "2026-03-29T01:30:00Z");
        check(Zone::Berlin, "2026-03-29T03:00:00Z", "2026-03-29T01:00:00Z");
        check(Zone::Berlin, "2026-10-25T02:30:00Z", "2026-10-25T00:30:00Z");
        check(Zone::Berlin, "2026-10-25T03:00:00Z", "2026-10-25T02:00:00Z");
        check(Zone::NewYork, "2026-03-08T02:30:00Z", "2026-03-08T07:30:00Z");
        check(Zone::NewYork, "2026-11-01T01:30:00Z", "2026-11-01T05:30:00Z");
        check(Zone::NewYork, "2026-11-01T02:00:00Z", "2026-11-01T07:00:00Z");
        check(Zone::LordHowe, "2026-04-05T01:45:00Z", "2026-04-04T14:45:00Z");
        check(Zone::LordHowe, "2026-04-05T02:00:00Z", "2026-04-04T15:30:00Z");
        check(Zone::LordHowe, "2026-10-04T02:15:00Z", "2026-10-03T15:45:00Z");
        check(Zone::LordHowe, "2026-10-04T02:30:00Z", "2026-10-03T15:30:00Z");
    }

    #[test]
    fn dates_and_days_go_together() {
        for day in -200_000..200_000 {
            let (year, month, of_month) = date(day);
            assert_eq!(day_number(year, month, of_month), day);
            assert!((1..=12).contains(&month) && (1..=31).contains(&of_month), "{day}");
        }
        assert_eq!(date(unix("2024-02-29T00:00:00Z").expect("a time") / DAY_S), (2024, 2, 29));
        assert_eq!(weekday_of(unix("2026-03-29T00:00:00Z").expect("a time") / DAY_S), 0);
    }

    #[test]
    fn a_month_without_the_day_is_left_out() {
        let days = Days::OfMonth { day: 31, month: 1, every: 1 };
        let periods = Periods::On { days, second: 3_600, zone: Zone::Utc };
        let (from, to) = (unix("2026-01-01T00:00:00Z"), unix("2027-01-01T00:00:00Z"));
        assert_eq!(periods.within(from.expect("a time"), to.expect("a time")).len(), 7);
    }
}
