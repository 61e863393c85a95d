//! Calendar arithmetic on the proleptic Gregorian calendar, in integers.
//!
//! Written here and not taken from a dependency because every decision rests on it and must
//! never change. A *wall second* in this crate is a count of seconds since 1970-01-01T00:00:00
//! on some clock's face, whatever that clock's offset from UTC.

use std::fmt;

/// Seconds in a civil day.
pub const DAY_SECONDS: i64 = 86_400;

/// A calendar date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date {
    /// The year, 1 to 9999 in everything this crate accepts.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
}

impl Date {
    /// The date that exists under this year, month and day, if one does.
    #[must_use]
    pub fn new(year: i32, month: u8, day: u8) -> Option<Date> {
        let exists = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day);
        exists.then_some(Date { year, month, day })
    }

    /// The date `days` after 1970-01-01.
    #[must_use]
    pub const fn from_days(days: i64) -> Date {
        // Years are counted from 1 March, so that the leap day comes last; 719,468 days lie
        // between 0000-03-01 and 1970-01-01, and 146,097 days make 400 years.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        // Within an era everything is small and positive, which makes the divisions cheap.
        let day_of_era = shifted.rem_euclid(146_097) as u32;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era as i64 + era * 400 + (month <= 2) as i64;
        Date { year: year as i32, month: month as u8, day: day as u8 }
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub const fn to_days(self) -> i64 {
        let year = self.year as i64 - (self.month <= 2) as i64;
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = (self.month as i64 + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day as i64 - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// The day of the week, 0 = Sunday.
    #[must_use]
    pub const fn weekday(self) -> u8 {
        weekday_of_days(self.to_days())
    }

    /// The ISO 8601 week-year and week.
    #[must_use]
    pub const fn iso_week(self) -> (i32, u8) {
        let days = self.to_days();
        // A week belongs to the year that holds its Thursday.
        let monday_first = (weekday_of_days(days) as i64 + 6) % 7;
        let thursday = days - monday_first + 3;
        let year = Date::from_days(thursday).year;
        let january_first = Date { year, month: 1, day: 1 }.to_days();
        (year, ((thursday - january_first) / 7 + 1) as u8)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// The day of the week of a day counted from 1970-01-01 (a Thursday), 0 = Sunday.
#[must_use]
pub const fn weekday_of_days(days: i64) -> u8 {
    (days + 4).rem_euclid(7) as u8
}

/// Whether `year` has a 29 February.
#[must_use]
pub const fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month has.
#[must_use]
pub const fn days_in_month(year: i32, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Parses `YYYY-MM-DD`.
#[must_use]
pub fn parse_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = digits(&bytes[0..4])?;
    let month = digits(&bytes[5..7])?;
    let day = digits(&bytes[8..10])?;
    Date::new(i32::try_from(year).ok()?, u8::try_from(month).ok()?, u8::try_from(day).ok()?)
}

/// The value of a run of ASCII digits that cannot overflow (at most nine).
pub(crate) fn digits(bytes: &[u8]) -> Option<u32> {
    if bytes.is_empty() || bytes.len() > 9 {
        return None;
    }
    bytes.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_round_trips_in_order() {
        let first = Date { year: 1890, month: 1, day: 1 }.to_days();
        let mut previous = Date::from_days(first - 1);
        for days in first..first + 146_097 {
            let date = Date::from_days(days);
            assert_eq!(date.to_days(), days);
            assert!(date > previous);
            assert!(date.day <= days_in_month(date.year, date.month));
            assert_eq!(date.weekday(), (previous.weekday() + 1) % 7);
            previous = date;
        }
    }

    #[test]
    fn agrees_with_jiff_on_dates_weekdays_and_iso_weeks() {
        for days in (-719_162..2_932_896).step_by(37) {
            let ours = Date::from_days(days);
            let theirs = jiff::Timestamp::from_second(days * DAY_SECONDS)
                .unwrap()
                .to_zoned(jiff::tz::TimeZone::UTC)
                .date();
            assert_eq!(
                (ours.year, ours.month as i8, ours.day as i8),
                (i32::from(theirs.year()), theirs.month(), theirs.day())
            );
            assert_eq!(ours.weekday() as i8, theirs.weekday().to_sunday_zero_offset());
            let week = theirs.iso_week_date();
            assert_eq!(ours.iso_week(), (i32::from(week.year()), week.week() as u8));
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        assert_eq!(parse_date("2026-02-29"), None);
        assert!(parse_date("2028-02-29").is_some());
        for bad in ["2026-13-01", "2026-00-10", "26-01-01", "2026-1-1", "2026-01-01 ", "0000-01-01"]
        {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }
}
