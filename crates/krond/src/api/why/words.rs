//! Times, lengths and names as an explanation says them.

use kron_core::{Seconds, UtcSecond, Zone};

use crate::machine::Suspension;

/// A time as the job's own clock shows it, and in UTC where that is another.
pub(super) fn instant(at: UtcSecond, zone: &Zone) -> String {
    if zone.name() == "UTC" { at.to_string() } else { format!("{} ({at})", zone.wall_at(at)) }
}

/// A length of time, such as `2h13m`.
pub(super) fn length(seconds: i64) -> String {
    Seconds::new(seconds.unsigned_abs()).to_string()
}

/// A length of time that may have passed already.
pub(super) fn signed_length(seconds: i64) -> String {
    if seconds < 0 { format!("-{}", length(seconds)) } else { length(seconds) }
}

/// What suspends a job.
pub(super) const fn suspender(suspension: Suspension) -> &'static str {
    match suspension {
        Suspension::Definition => "its definition",
        Suspension::Hand => "hand",
    }
}

/// `1 period`, `2 periods`.
pub(super) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
