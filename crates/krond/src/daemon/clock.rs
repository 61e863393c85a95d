//! The one place that asks what time it is.
//!
//! Both clocks are read through the C library, so that a preloaded clock reaches the daemon too.
//! Wall time is rounded down to whole seconds, the only ones the machine knows: a second has come
//! when it is read here, never before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kron_core::UtcSecond;
use nix::time::{ClockId, clock_gettime};

use crate::machine::Now;

/// The present, on both clocks.
pub(crate) fn now() -> Now {
    Now { wall: wall().0, boot: boot() }
}

/// The present with nanoseconds, for the log: `2026-03-01T00:00:00.000000000Z`.
pub(crate) fn timestamp() -> String {
    let (second, nanoseconds) = wall();
    let text = second.to_string();
    format!("{}.{nanoseconds:09}Z", text.trim_end_matches('Z'))
}

/// The present in milliseconds, for the queue.
pub(crate) fn milliseconds() -> kron_queue::Timestamp {
    let (second, nanoseconds) = wall();
    kron_queue::Timestamp::from(second).saturating_add_ms(i64::from(nanoseconds / 1_000_000))
}

/// How long ago that second began.
pub(crate) fn since(second: UtcSecond) -> Duration {
    let (now, nanoseconds) = wall();
    let seconds = u64::try_from(now.since(second)).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

/// The present second, and the nanoseconds since it began.
#[expect(clippy::disallowed_methods, reason = "this is the module that may ask")]
fn wall() -> (UtcSecond, u32) {
    let now = SystemTime::now();
    let (seconds, nanoseconds) = match now.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
        // Before 1970, where a machine without a battery may think itself: the second is rounded
        // down there too, so that time does not run backwards within it.
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => (-seconds, 0),
                nanoseconds => (-seconds - 1, 1_000_000_000 - nanoseconds),
            }
        }
    };
    (UtcSecond::MIN.saturating_add(seconds.saturating_sub(UtcSecond::MIN.unix())), nanoseconds)
}

/// Time since boot, suspension included. A kernel without that clock is older than any this runs
/// on; its time would stand still rather than jump.
fn boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_nanoseconds_and_name_the_present() {
        let before = now().wall;
        let text = timestamp();
        let after = now().wall;
        assert_eq!(text.len(), "2026-03-01T00:00:00.000000000Z".len(), "{text}");
        let second = UtcSecond::parse(&format!("{}Z", &text[..19])).unwrap();
        assert!(before <= second && second <= after, "{before} {text} {after}");
    }

    #[test]
    fn boot_time_goes_on() {
        let first = now().boot;
        assert!(first > Duration::ZERO);
        while now().boot == first {}
        assert!(now().boot > first);
    }
}
