//! Ids: UUIDs of version 7, so that they sort in the order of their creation.
//!
//! [`IdSource`] is told the time and given its random bytes, so tests repeat. Within one
//! millisecond, and while a clock that went back catches up, it counts.

use std::fmt;

use uuid::Uuid;

use crate::timestamp::Timestamp;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::try_parse(text).map($name)
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::openapi::id()
            }
        }
        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}

        impl rusqlite::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.0.hyphenated().to_string().into())
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                Uuid::try_parse(value.as_str()?).map($name).map_err(rusqlite::types::FromSqlError::other)
            }
        }
    )*};
}

ids! {
    /// Names a job.
    JobId,
    /// Names a run of a job.
    RunId,
    /// Names a template.
    TemplateId,
    /// Names a schedule.
    ScheduleId,
    /// Names a group of jobs.
    GroupId,
    /// Names a reservation for direct execution.
    ReservationId,
    /// Names a delivery of a webhook.
    DeliveryId,
}

/// Proves that its bearer claimed a run: 32 hexadecimal digits nobody can guess.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ClaimToken(pub(crate) String);

impl ClaimToken {
    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A token that somebody presents; whether it is right is for the queue to say.
    #[must_use]
    pub fn presented(text: &str) -> ClaimToken {
        ClaimToken(text.to_owned())
    }
}

impl fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimToken(…)")
    }
}

/// Where random bytes come from.
pub trait Entropy: Send {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// When there are none to be had.
    fn fill(&mut self, bytes: &mut [u8]) -> std::io::Result<()>;
}

/// The kernel's random bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelEntropy;

impl Entropy for KernelEntropy {
    fn fill(&mut self, mut bytes: &mut [u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let count =
                rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
            bytes = &mut bytes[count..];
        }
        Ok(())
    }
}

/// The counter of ids within a millisecond has 12 bits.
const COUNTER_MAX: u16 = 0x0fff;

/// Makes ids in order.
pub(crate) struct IdSource {
    entropy: Box<dyn Entropy>,
    last_ms: u64,
    counter: u16,
}

impl IdSource {
    /// Continues after `latest`, the newest id there is.
    pub(crate) fn new(entropy: Box<dyn Entropy>, latest: Option<Uuid>) -> IdSource {
        let last_ms = latest.and_then(|id| id.get_timestamp()).map_or(0, |stamp| {
            let (seconds, nanoseconds) = stamp.to_unix();
            seconds * 1_000 + u64::from(nanoseconds) / 1_000_000
        });
        IdSource { entropy, last_ms, counter: COUNTER_MAX }
    }

    pub(crate) fn next(&mut self, now: Timestamp) -> std::io::Result<Uuid> {
        let now_ms = u64::try_from(now.unix_ms()).unwrap_or(0);
        if now_ms > self.last_ms {
            (self.last_ms, self.counter) = (now_ms, 0);
        } else if self.counter < COUNTER_MAX {
            self.counter += 1;
        } else {
            (self.last_ms, self.counter) = (self.last_ms + 1, 0);
        }
        let mut bytes = [0; 10];
        self.entropy.fill(&mut bytes[2..])?;
        bytes[..2].copy_from_slice(&self.counter.to_be_bytes());
        Ok(uuid::Builder::from_unix_timestamp_millis(self.last_ms, &bytes).into_uuid())
    }

    pub(crate) fn token(&mut self) -> std::io::Result<ClaimToken> {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes)?;
        Ok(ClaimToken(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_when_the_clock_stands_or_goes_back() {
        let mut ids = IdSource::new(Box::new(KernelEntropy), None);
        let at = |ms| Timestamp::from_unix_ms(1_800_000_000_000 + ms).unwrap();
        let mut last = ids.next(at(0)).unwrap();
        for step in 0..10_000_i64 {
            let next = ids.next(at(-step % 7)).unwrap();
            assert!(next > last);
            assert_eq!(next.get_version_num(), 7);
            last = next;
        }
        let mut reopened = IdSource::new(Box::new(KernelEntropy), Some(last));
        assert!(reopened.next(at(-1_000)).unwrap() > last);
    }
}
