//! Whole seconds on the UTC time line: the only kind of instant the engine knows.

use std::fmt;
use std::num::NonZeroU64;

use crate::civil::{DAY_SECONDS, Date, days_in_month, digits};
use crate::finding::{Finding, Piece};

/// A whole second in UTC, from year 1 to year 9999.
///
/// ```
/// use kron_core::UtcSecond;
/// let t: UtcSecond = "2026-03-01T01:00:00+01:00".parse()?;
/// assert_eq!(t.to_string(), "2026-03-01T00:00:00Z");
/// # Ok::<(), kron_core::Finding>(())
/// ```
///
/// It is kept as the number of the second, counted from the first of year 1, which is never 0: an
/// absent one takes no more memory than one that is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UtcSecond(NonZeroU64);

/// What is added to seconds since the Unix epoch, so that the first second of year 1 is 1.
const SHIFT: i64 = 1 - MIN_UNIX;
const MIN_UNIX: i64 = -62_135_596_800;
const MAX_UNIX: i64 = 253_402_300_799;

impl UtcSecond {
    /// 0001-01-01T00:00:00Z.
    pub const MIN: UtcSecond = UtcSecond::shifted(MIN_UNIX);
    /// 9999-12-31T23:59:59Z.
    pub const MAX: UtcSecond = UtcSecond::shifted(MAX_UNIX);

    /// The second this many seconds after the Unix epoch, which must lie in years 1 to 9999.
    const fn shifted(seconds: i64) -> UtcSecond {
        match NonZeroU64::new((seconds + SHIFT) as u64) {
            Some(number) => UtcSecond(number),
            None => UtcSecond(NonZeroU64::MIN),
        }
    }

    /// The second this many seconds after the Unix epoch, if it lies in years 1 to 9999.
    #[must_use]
    pub const fn from_unix(seconds: i64) -> Option<UtcSecond> {
        if seconds < MIN_UNIX || seconds > MAX_UNIX {
            return None;
        }
        Some(UtcSecond::shifted(seconds))
    }

    /// The nearest representable second.
    pub(crate) fn clamped(seconds: i64) -> UtcSecond {
        UtcSecond::shifted(seconds.clamp(MIN_UNIX, MAX_UNIX))
    }

    /// Seconds since the Unix epoch.
    #[must_use]
    pub const fn unix(self) -> i64 {
        self.0.get() as i64 - SHIFT
    }

    /// This second moved by `seconds`, if the result is representable.
    #[must_use]
    pub const fn checked_add(self, seconds: i64) -> Option<UtcSecond> {
        match self.unix().checked_add(seconds) {
            Some(sum) => Self::from_unix(sum),
            None => None,
        }
    }

    /// This second moved by `seconds`, stopping at the ends of the range.
    #[must_use]
    pub const fn saturating_add(self, seconds: i64) -> UtcSecond {
        match self.checked_add(seconds) {
            Some(sum) => sum,
            None if seconds < 0 => Self::MIN,
            None => Self::MAX,
        }
    }

    /// Seconds from `earlier` to this one; negative when it is later.
    #[must_use]
    pub const fn since(self, earlier: UtcSecond) -> i64 {
        self.unix() - earlier.unix()
    }

    /// `YYYY-MM-DDTHH:MM:SSZ`, without allocating.
    #[must_use]
    pub fn rfc3339(self) -> [u8; 20] {
        let mut text = *b"0000-00-00T00:00:00Z";
        let date = Date::from_days(self.unix().div_euclid(DAY_SECONDS));
        let second_of_day = self.unix().rem_euclid(DAY_SECONDS) as u32;
        put(&mut text[0..4], date.year as u32);
        put(&mut text[5..7], u32::from(date.month));
        put(&mut text[8..10], u32::from(date.day));
        put(&mut text[11..13], second_of_day / 3_600);
        put(&mut text[14..16], second_of_day / 60 % 60);
        put(&mut text[17..19], second_of_day % 60);
        text
    }

    /// Parses an RFC 3339 timestamp with any offset; the fraction, if any, must be zero.
    ///
    /// # Errors
    /// A configuration error when the text is no timestamp, a validation error when it is not a
    /// whole second or lies outside years 1 to 9999.
    pub fn parse(text: &str) -> Result<UtcSecond, Finding> {
        parse(Piece::whole(text))
    }
}

/// Writes `value` right-aligned in decimal over `field`.
pub(crate) fn put(field: &mut [u8], mut value: u32) {
    for byte in field.iter_mut().rev() {
        *byte = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

impl fmt::Debug for UtcSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UtcSecond").field(&self.unix()).finish()
    }
}

impl fmt::Display for UtcSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.rfc3339();
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl std::str::FromStr for UtcSecond {
    type Err = Finding;

    fn from_str(text: &str) -> Result<Self, Finding> {
        UtcSecond::parse(text)
    }
}

impl serde::Serialize for UtcSecond {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for UtcSecond {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        UtcSecond::parse(&text).map_err(serde::de::Error::custom)
    }
}

fn parse(piece: Piece<'_>) -> Result<UtcSecond, Finding> {
    let malformed = || {
        Finding::configuration(piece.span(), format!("`{}` is not a timestamp", piece.shown()))
            .help(
                "expected RFC 3339, such as `2026-03-01T00:00:00Z` or `2026-03-01T01:00:00+01:00`",
            )
    };
    let bytes = piece.text.as_bytes();
    if !piece.text.is_ascii() || bytes.len() < 20 {
        return Err(malformed());
    }
    let separators =
        [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|&(at, byte)| bytes[at] == byte);
    if !separators || !matches!(bytes[10], b'T' | b't') {
        return Err(malformed());
    }
    let number = |from: usize, to: usize| digits(&bytes[from..to]).ok_or_else(malformed);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);

    let mut rest = &bytes[19..];
    let mut fraction_is_zero = true;
    if rest[0] == b'.' {
        let length = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return Err(malformed());
        }
        fraction_is_zero = rest[1..=length].iter().all(|&byte| byte == b'0');
        rest = &rest[1 + length..];
    }
    let offset_seconds = match rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let hours = digits(&[*h1, *h2]).ok_or_else(malformed)?;
            let minutes = digits(&[*m1, *m2]).ok_or_else(malformed)?;
            if hours > 23 || minutes > 59 {
                return Err(malformed());
            }
            let magnitude = i64::from(hours * 3_600 + minutes * 60);
            if *sign == b'-' { -magnitude } else { magnitude }
        }
        _ => return Err(malformed()),
    };

    let impossible = |what: &str| {
        Finding::configuration(
            piece.span(),
            format!("`{}` is not a timestamp: {what}", piece.shown()),
        )
    };
    if !(1..=12).contains(&month) {
        return Err(impossible("months go from 01 to 12"));
    }
    if year == 0 {
        return Err(Finding::validation(
            piece.span(),
            format!("`{}` lies outside years 0001 to 9999", piece.shown()),
        ));
    }
    let (year, month) = (year as i32, month as u8);
    if day == 0 || day > u32::from(days_in_month(year, month)) {
        return Err(impossible("that month has no such day"));
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(impossible("hours go to 23, minutes and seconds to 59"));
    }
    if !fraction_is_zero {
        return Err(Finding::validation(
            piece.span(),
            format!("`{}` is not a whole second", piece.shown()),
        ));
    }
    let days = Date { year, month, day: day as u8 }.to_days();
    let wall = days * DAY_SECONDS + i64::from(hour * 3_600 + minute * 60 + second);
    UtcSecond::from_unix(wall - offset_seconds).ok_or_else(|| {
        Finding::validation(
            piece.span(),
            format!("`{}` lies outside years 0001 to 9999", piece.shown()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Category;

    fn check(text: &str, expected: &str) {
        assert_eq!(UtcSecond::parse(text).unwrap().to_string(), expected, "{text}");
    }

    #[test]
    fn timestamps_are_read_in_any_offset_and_printed_in_utc() {
        check("2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z");
        check("2026-03-01t01:00:00+01:00", "2026-03-01T00:00:00Z");
        check("2026-02-28T18:30:00-05:30", "2026-03-01T00:00:00Z");
        check("2026-03-01T00:00:00.000Z", "2026-03-01T00:00:00Z");
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z");
        check("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z");
        check("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z");
    }

    #[test]
    fn what_is_no_timestamp_is_refused_with_its_category() {
        for bad in [
            "",
            "now",
            "2026-03-01",
            "2026-03-01T00:00:00",
            "2026-03-01 00:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-03-01T00:00:60Z",
            "2026-03-01T00:00:00+25:00",
            "2026-03-01T00:00:00.Z",
            "2026-03-01T00:00:00ZZ",
            "+026-03-01T00:00:00Z",
            "２026-03-01T00:00:00Z",
        ] {
            assert_eq!(
                UtcSecond::parse(bad).unwrap_err().category,
                Category::Configuration,
                "{bad}"
            );
        }
        for bad in ["2026-03-01T00:00:00.5Z", "0000-03-01T00:00:00Z", "9999-12-31T23:59:59-01:00"] {
            assert_eq!(UtcSecond::parse(bad).unwrap_err().category, Category::Validation, "{bad}");
        }
    }
}
