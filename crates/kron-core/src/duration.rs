//! Durations in whole seconds, written as Go writes them, with `d` for 24 hours.

use std::fmt;

use crate::finding::{Finding, Piece};

/// A non-negative whole number of seconds.
///
/// ```
/// use kron_core::Seconds;
/// assert_eq!("1.5h".parse::<Seconds>()?, Seconds::new(5400));
/// assert_eq!(Seconds::new(5400).to_string(), "1h30m");
/// # Ok::<(), kron_core::Finding>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seconds(u64);

impl Seconds {
    /// No time at all.
    pub const ZERO: Seconds = Seconds(0);
    /// The longest duration that can be written: the 292 years of a 64-bit count of nanoseconds.
    pub const MAX: Seconds = Seconds(9_223_372_036);

    /// This many seconds.
    #[must_use]
    pub const fn new(seconds: u64) -> Seconds {
        Seconds(seconds)
    }

    /// The number of seconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of seconds, signed. Parsed durations always fit; larger ones saturate.
    #[must_use]
    pub const fn get_signed(self) -> i64 {
        if self.0 > i64::MAX as u64 { i64::MAX } else { self.0 as i64 }
    }

    /// Parses a duration such as `90m`, `1h30m`, `1.5h`, `2d` or `0`.
    ///
    /// # Errors
    /// A configuration error when the text is no duration or is negative; a validation error
    /// when it is not a whole number of seconds or is longer than [`Seconds::MAX`].
    pub fn parse(text: &str) -> Result<Seconds, Finding> {
        parse(Piece::whole(text))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        if self.0 == 0 {
            return f.pad("0s");
        }
        let parts = [
            (self.0 / 86_400, 'd'),
            (self.0 / 3_600 % 24, 'h'),
            (self.0 / 60 % 60, 'm'),
            (self.0 % 60, 's'),
        ];
        let mut text = String::with_capacity(16);
        for (count, unit) in parts {
            if count > 0 {
                write!(text, "{count}{unit}")?;
            }
        }
        f.pad(&text)
    }
}

impl std::str::FromStr for Seconds {
    type Err = Finding;

    fn from_str(text: &str) -> Result<Self, Finding> {
        Seconds::parse(text)
    }
}

const NANOSECONDS: u128 = 1_000_000_000;

pub(crate) fn parse(piece: Piece<'_>) -> Result<Seconds, Finding> {
    let malformed = || {
        Finding::configuration(piece.span(), format!("`{}` is not a duration", piece.shown()))
            .help("expected numbers with units, such as `90m`, `1h30m`, `45s` or `2d`")
    };
    let too_long = || {
        Finding::validation(piece.span(), format!("`{}` is too long", piece.shown()))
            .help(format!("the longest duration is {}", Seconds::MAX))
    };
    let not_whole = || {
        Finding::validation(
            piece.span(),
            format!("`{}` is not a whole number of seconds", piece.shown()),
        )
    };
    if piece.text == "0" {
        return Ok(Seconds::ZERO);
    }
    if piece.text.starts_with('-') {
        return Err(Finding::configuration(
            piece.span(),
            format!("`{}` is negative", piece.shown()),
        )
        .help("durations have no sign"));
    }
    let mut rest = piece.text;
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total_nanoseconds: u128 = 0;
    let mut whole = true;
    while !rest.is_empty() {
        let integer_length = digit_count(rest);
        let integer = &rest[..integer_length];
        rest = &rest[integer_length..];
        let mut fraction = "";
        if let Some(after_point) = rest.strip_prefix('.') {
            let length = digit_count(after_point);
            fraction = &after_point[..length];
            rest = &after_point[length..];
        }
        if integer.is_empty() && fraction.is_empty() {
            return Err(malformed());
        }
        let unit_length = rest
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(rest.len());
        let unit_nanoseconds = match &rest[..unit_length] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => NANOSECONDS,
            "m" => 60 * NANOSECONDS,
            "h" => 3_600 * NANOSECONDS,
            "d" => 86_400 * NANOSECONDS,
            _ => return Err(malformed()),
        };
        rest = &rest[unit_length..];
        let (nanoseconds, exact) =
            component(integer, fraction, unit_nanoseconds).ok_or_else(too_long)?;
        whole &= exact;
        total_nanoseconds += nanoseconds;
        if total_nanoseconds > u128::from(Seconds::MAX.0) * NANOSECONDS {
            return Err(too_long());
        }
    }
    if !whole || !total_nanoseconds.is_multiple_of(NANOSECONDS) {
        return Err(not_whole());
    }
    Ok(Seconds((total_nanoseconds / NANOSECONDS) as u64))
}

fn digit_count(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// `integer.fraction` units in nanoseconds, and whether that is exact; `None` when it is absurdly
/// large.
fn component(integer: &str, fraction: &str, unit_nanoseconds: u128) -> Option<(u128, bool)> {
    const INTEGER_DIGITS_MAX: usize = 19;
    const FRACTION_DIGITS_MAX: usize = 18;
    let integer = integer.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if integer.len() > INTEGER_DIGITS_MAX {
        return None;
    }
    let value = |text: &str| text.bytes().fold(0u128, |v, byte| v * 10 + u128::from(byte - b'0'));
    let mut nanoseconds = value(integer).checked_mul(unit_nanoseconds)?;
    let mut exact = true;
    if !fraction.is_empty() {
        let kept = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
        let scale = 10u128.pow(kept.len() as u32);
        let product = value(kept) * unit_nanoseconds;
        exact = kept.len() == fraction.len() && product.is_multiple_of(scale);
        nanoseconds += product / scale;
    }
    Some((nanoseconds, exact))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Category;

    fn check(text: &str, seconds: u64, printed: &str) {
        let parsed = Seconds::parse(text).unwrap();
        assert_eq!(parsed, Seconds(seconds), "{text}");
        assert_eq!(parsed.to_string(), printed, "{text}");
        assert_eq!(Seconds::parse(printed).unwrap(), parsed);
    }

    #[test]
    fn durations_are_read_and_printed() {
        check("0", 0, "0s");
        check("0s", 0, "0s");
        check("90m", 5_400, "1h30m");
        check("1.5h", 5_400, "1h30m");
        check(".5m", 30, "30s");
        check("1.m", 60, "1m");
        check("2d", 172_800, "2d");
        check("36h", 129_600, "1d12h");
        check("1000ms", 1, "1s");
        check("500ms500ms", 1, "1s");
        check("1000000µs", 1, "1s");
        check("366d", 31_622_400, "366d");
        check("0.1m", 6, "6s");
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_category() {
        use Category::{Configuration, Validation};
        let long = format!("{}s", "9".repeat(1_000));
        let thin = format!("0.{}1s", "0".repeat(1_000));
        for (bad, category) in [
            ("", Configuration),
            ("-5m", Configuration),
            ("+5m", Configuration),
            ("5", Configuration),
            ("5 m", Configuration),
            ("m", Configuration),
            ("5x", Configuration),
            ("1h-5m", Configuration),
            ("1e3s", Configuration),
            (".s", Configuration),
            ("1.5s", Validation),
            ("999ms", Validation),
            ("0.3333333333333h", Validation),
            (&long, Validation),
            (&thin, Validation),
            ("300000d", Validation),
        ] {
            assert_eq!(Seconds::parse(bad).unwrap_err().category, category, "{bad}");
        }
    }
}
