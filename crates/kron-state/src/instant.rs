//! Times as others may have written them.
//!
//! The state format asks for RFC 3339 and says nothing of fractions, while nothing here is finer
//! than a second: a fraction that another implementation wrote is dropped. What is written here
//! never has one.

use std::borrow::Cow;

use kron_core::{Finding, Outcome, UtcSecond};
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

/// Where the fraction of a second begins, if there is one.
const FRACTION_AT: usize = "2026-03-01T00:00:00".len();

/// The second in which an RFC 3339 time lies.
///
/// # Errors
/// When the text is no such time, or lies outside the years that there are.
pub(crate) fn parse(text: &str) -> Result<UtcSecond, Finding> {
    let fraction = text.get(FRACTION_AT..).and_then(|rest| rest.strip_prefix('.'));
    let after = fraction.map(|digits| digits.trim_start_matches(|c: char| c.is_ascii_digit()));
    match (fraction, after) {
        (Some(fraction), Some(after)) if after.len() < fraction.len() => {
            UtcSecond::parse(&format!("{}{after}", &text[..FRACTION_AT]))
        }
        _ => UtcSecond::parse(text),
    }
}

/// What stands in a document as a text, and may be empty there.
pub(crate) trait Written: Sized {
    /// What the text says.
    fn read(text: &str) -> Result<Self, Finding>;
}

impl Written for UtcSecond {
    fn read(text: &str) -> Result<UtcSecond, Finding> {
        parse(text)
    }
}

impl Written for Outcome {
    fn read(text: &str) -> Result<Outcome, Finding> {
        text.parse()
    }
}

/// For fields that must be there.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<UtcSecond, D::Error> {
    let text = <Cow<'de, str>>::deserialize(deserializer)?;
    parse(&text).map_err(|finding| D::Error::custom(finding.message))
}

/// For fields that may be left out.
pub(crate) fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<UtcSecond>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    let parsed = text.map(|text| parse(&text)).transpose();
    parsed.map_err(|finding| D::Error::custom(finding.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_dropped_and_nothing_else_is_forgiven() {
        for (text, expected) in [
            ("2026-03-01T00:00:05Z", "2026-03-01T00:00:05Z"),
            ("2026-03-01T00:00:05.9Z", "2026-03-01T00:00:05Z"),
            ("2026-03-01T00:00:05.999999999Z", "2026-03-01T00:00:05Z"),
            ("2026-03-01T01:00:05.123+01:00", "2026-03-01T00:00:05Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected, "{text}");
        }
        for text in [
            "",
            "2026-03-01T00:00:05",
            "2026-03-01T00:00:05.Z",
            "2026-03-01T00:00:05.5",
            "2026-03-01T00:00:05,5Z",
            "2026-03-01T00:00:05.5.5Z",
            "2026-03-01T00:00:60.5Z",
            "2026-03-01T00:00.5:00Z",
            "２２２２２２２２２２２２.5Z",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
