//! Moments in UTC, in milliseconds, as the database keeps them.

use std::fmt;
use std::str::FromStr;

pub use kron_core::TimestampError;
use kron_core::UtcSecond;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// A [`kron_core::Timestamp`] that is kept in the database as its text.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub kron_core::Timestamp);

impl Timestamp {
    /// The moment this many milliseconds after the Unix epoch, if it lies in years 1 to 9999.
    #[must_use]
    pub fn from_unix_ms(ms: i64) -> Option<Timestamp> {
        kron_core::Timestamp::from_unix_ms(ms).map(Timestamp)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ms(self) -> i64 {
        self.0.unix_ms()
    }

    /// The second it lies in.
    #[must_use]
    pub fn second(self) -> UtcSecond {
        self.0.second()
    }

    /// This moment and `ms` more, stopping at the ends of the range.
    #[must_use]
    pub fn saturating_add_ms(self, ms: i64) -> Timestamp {
        Timestamp(self.0.saturating_add_ms(ms))
    }
}

impl From<UtcSecond> for Timestamp {
    fn from(second: UtcSecond) -> Timestamp {
        Timestamp(second.into())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Timestamp, TimestampError> {
        text.parse().map(Timestamp)
    }
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.to_string()))
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}
