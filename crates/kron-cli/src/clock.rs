//! The one place that asks what time it is.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kron_core::{Timestamp, UtcSecond};

/// The present second.
#[expect(clippy::disallowed_methods, reason = "this is the module that may ask")]
pub(crate) fn now() -> UtcSecond {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(seconds).ok().and_then(UtcSecond::from_unix).unwrap_or(UtcSecond::MAX)
}

/// The present moment, in milliseconds after the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "this is the module that may ask")]
pub(crate) fn now_unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The present moment.
pub(crate) fn now_timestamp() -> Timestamp {
    Timestamp::from_unix_ms(now_unix_ms()).unwrap_or_else(|| UtcSecond::MAX.into())
}

/// How long it is since this was first asked, whatever anybody does to the clock.
#[expect(clippy::disallowed_methods, reason = "this is the module that may ask")]
pub(crate) fn elapsed() -> Duration {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed()
}

/// The present second, rounded down to a whole `unit`.
pub(crate) fn now_floored(unit_seconds: i64) -> UtcSecond {
    let now = now();
    now.saturating_add(-now.unix().rem_euclid(unit_seconds))
}
