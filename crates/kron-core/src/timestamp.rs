//! Moments in UTC, in milliseconds, whose texts sort like the moments.

use std::fmt;
use std::str::FromStr;

use crate::time::UtcSecond;

/// A moment, from year 1 to year 9999. Prints as `2026-03-01T00:00:00.000Z`, always that wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    second: UtcSecond,
    millisecond: u16,
}

/// The text is no moment that can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampError {
    text: String,
}

impl fmt::Display for TimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a timestamp such as `2026-03-01T00:00:00.000Z`", self.text)
    }
}

impl std::error::Error for TimestampError {}

impl Timestamp {
    /// The moment this many milliseconds after the Unix epoch, if it lies in years 1 to 9999.
    #[must_use]
    pub fn from_unix_ms(ms: i64) -> Option<Timestamp> {
        let second = UtcSecond::from_unix(ms.div_euclid(1_000))?;
        Some(Timestamp { second, millisecond: ms.rem_euclid(1_000) as u16 })
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ms(self) -> i64 {
        self.second.unix() * 1_000 + i64::from(self.millisecond)
    }

    /// The second it lies in.
    #[must_use]
    pub fn second(self) -> UtcSecond {
        self.second
    }

    /// This moment and `ms` more, stopping at the ends of the range.
    #[must_use]
    pub fn saturating_add_ms(self, ms: i64) -> Timestamp {
        let end = if ms < 0 { UtcSecond::MIN } else { UtcSecond::MAX };
        let sum = self.unix_ms().saturating_add(ms);
        Timestamp::from_unix_ms(sum).unwrap_or_else(|| Timestamp::from(end))
    }
}

impl From<UtcSecond> for Timestamp {
    fn from(second: UtcSecond) -> Timestamp {
        Timestamp { second, millisecond: 0 }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.second.rfc3339();
        let second = std::str::from_utf8(&text[..19]).unwrap_or_default();
        write!(f, "{second}.{:03}Z", self.millisecond)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Reads RFC 3339 with any offset; what is finer than a millisecond is dropped.
    fn from_str(text: &str) -> Result<Timestamp, TimestampError> {
        let wrong = || TimestampError { text: text.chars().take(40).collect() };
        if !text.is_ascii() || text.len() < 20 {
            return Err(wrong());
        }
        let (whole, rest) = text.split_at(19);
        let (digits, zone) = match rest.strip_prefix('.') {
            None => ("", rest),
            Some(fraction) => {
                let end = fraction.bytes().take_while(u8::is_ascii_digit).count();
                if end == 0 {
                    return Err(wrong());
                }
                fraction.split_at(end)
            }
        };
        let second = UtcSecond::parse(&format!("{whole}{zone}")).map_err(|_| wrong())?;
        let millisecond = digits
            .bytes()
            .chain(std::iter::repeat(b'0'))
            .take(3)
            .fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
        Ok(Timestamp { second, millisecond })
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_sort_like_moments_and_come_back() {
        let texts = [
            "0001-01-01T00:00:00.000Z",
            "2026-03-01T00:00:00.007Z",
            "2026-03-01T00:00:00.070Z",
            "9999-12-31T23:59:59.999Z",
        ];
        for pair in texts.windows(2) {
            let (a, b): (Timestamp, Timestamp) =
                (pair[0].parse().unwrap(), pair[1].parse().unwrap());
            assert!(a < b && a.to_string() < b.to_string());
            assert_eq!(Timestamp::from_unix_ms(a.unix_ms()), Some(a));
            assert_eq!(a.to_string(), pair[0]);
        }
    }

    #[test]
    fn other_forms_are_read_or_refused() {
        let read = |text: &str| text.parse::<Timestamp>().map(|moment| moment.to_string()).ok();
        assert_eq!(
            read("2026-03-01T01:00:00.5+01:00").as_deref(),
            Some("2026-03-01T00:00:00.500Z")
        );
        assert_eq!(read("2026-03-01T00:00:00Z").as_deref(), Some("2026-03-01T00:00:00.000Z"));
        assert_eq!(read("2026-03-01T00:00:00.1239Z").as_deref(), Some("2026-03-01T00:00:00.123Z"));
        for wrong in [
            "",
            "now",
            "2026-03-01T00:00:00.Z",
            "2026-03-01 00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-03-01T00:00:00.000",
            "😀😀😀😀😀😀",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
