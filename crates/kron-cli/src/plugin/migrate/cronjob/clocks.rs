//! Where a CronJob and its KronJob differ because clocks are changed.
//!
//! A CronJob leaves out a time that the clocks jump over, and runs twice at one that they show twice.
//! Kron says so with `dst: {gap: skip, overlap: both}`; what a KronJob does without that is better for
//! most, and so it is left, and told.

use kron_core::{Dst, Gap, Overlap, Schedule, UtcSecond, Zone};

/// How far ahead differences are looked for.
const AHEAD_DAYS: i64 = 366;

/// When a CronJob with the schedule of a KronJob runs.
pub(super) fn old_times(new: &Schedule) -> Schedule {
    let dst = Dst { gap: Gap::Skip, overlap: Overlap::Both };
    Schedule::new(new.pattern().clone(), new.zone().clone(), dst)
}

/// What differs within a year, and what makes it the same.
pub(super) fn difference(old: &Schedule, new: &Schedule, now: UtcSecond) -> Option<String> {
    let zone = new.zone();
    let end = now.saturating_add(AHEAD_DAYS * 86_400);
    // Only where a clock is changed can they differ; others have too many times to look at.
    if has_one_offset(zone, now, end) {
        return None;
    }
    let soon = |schedule: &Schedule| -> Vec<UtcSecond> {
        schedule.after(now).take_while(|t| *t < end).collect()
    };
    let (olds, news) = (soon(old), soon(new));
    let first = |these: &[UtcSecond], those: &[UtcSecond]| {
        these.iter().copied().find(|t| those.binary_search(t).is_err())
    };
    let (doubled, shifted) = (first(&olds, &news), first(&news, &olds));
    let mut told = Vec::new();
    let mut dst = Vec::new();
    if let Some(at) = shifted {
        told.push(format!(
            "a time that the clocks jump over is left out by the CronJob and run by the KronJob, \
             first at {}",
            zone.wall_at(at)
        ));
        dst.push("gap: skip");
    }
    if let Some(at) = doubled {
        told.push(format!(
            "a time that the clocks show twice is run twice by the CronJob and once by the \
             KronJob, first at {}",
            zone.wall_at(at)
        ));
        dst.push("overlap: both");
    }
    if told.is_empty() {
        return None;
    }
    let (told, dst) = (told.join("; "), dst.join(", "));
    Some(format!("where clocks are changed, {told}. `dst: {{{dst}}}` is the way of the CronJob"))
}

/// Whether a zone's clocks stay as they are from one time to another.
fn has_one_offset(zone: &Zone, from: UtcSecond, to: UtcSecond) -> bool {
    const STEP_SECONDS: i64 = 7 * 86_400;
    let offset = |t: UtcSecond| zone.wall_at(t).offset();
    let steps = to.since(from) / STEP_SECONDS + 1;
    (0..=steps).all(|step| offset(from.saturating_add(step * STEP_SECONDS)) == offset(from))
}
