//! Things made up for tests, and what must hold of every store that was opened again.

use kron_core::{Outcome, UtcSecond};
use kron_state::{
    ActiveState, Cause, Change, Directory, Document, Ending, ExitStatus, Known, KnownJob,
    PeriodRef, Process, RunEnd, RunId, RunRecord, Store,
};

pub(crate) const HISTORY_MAX: usize = 8;
/// Longer than any file of these tests.
pub(crate) const BYTES_MAX: u64 = 1 << 24;

/// The second `minutes` minutes into March 2026.
pub(crate) fn minute(minutes: i64) -> UtcSecond {
    let march: UtcSecond = "2026-03-01T00:00:00Z".parse().unwrap();
    march.saturating_add(minutes * 60)
}

pub(crate) fn run(bits: u64) -> RunId {
    RunId::from_bits(bits)
}

pub(crate) fn armed(period: i64, bits: u64) -> ActiveState {
    ActiveState {
        period: PeriodRef::Period(minute(period)),
        pid: 4_000,
        started_at: minute(period),
        chosen_time: minute(period),
        run: run(bits),
        start_ticks: 77,
        supervisor: Process { pid: 3_999, start_ticks: 76 },
        boot_id: "8d3c".to_owned(),
        executed: false,
        unknown: serde_json::Map::new(),
    }
}

pub(crate) fn by_hand(bits: u64) -> ActiveState {
    let period = PeriodRef::Manual(format!("manual/2026-03-01T00:00:00Z-{bits}").into());
    ActiveState { period, ..armed(0, bits) }
}

pub(crate) fn missed(period: i64) -> Change {
    Change::Handle {
        nominal: minute(period),
        chosen: Some(minute(period)),
        outcome: Outcome::Missed,
        reason: "deadline exceeded".to_owned(),
        stretch: None,
        at: minute(period),
    }
}

pub(crate) fn finished(bits: u64, code: i32, at: i64) -> Change {
    Change::Finish {
        run: run(bits),
        ending: Ending::Exited,
        status: Some(ExitStatus::ExitCode(code)),
        at: minute(at),
        output_dropped: 0,
    }
}

/// A document with something in every field.
pub(crate) fn full_document(identity: &str) -> Document {
    let mut document = Document::new(identity);
    let stretch = Change::Handle {
        nominal: minute(1),
        chosen: None,
        outcome: Outcome::Missed,
        reason: "superseded".to_owned(),
        stretch: Some((minute(5), 5)),
        at: minute(6),
    };
    let changes = [
        stretch,
        Change::Arm(armed(6, 1)),
        Change::Start(run(1)),
        finished(1, 3, 7),
        Change::Arm(armed(7, 2)),
        Change::Start(run(2)),
        Change::Arm(by_hand(3)),
        Change::Replace(Some(kron_state::Replacing { period: minute(9), evaluated_at: minute(9) })),
    ];
    for change in &changes {
        document.apply(change, HISTORY_MAX).unwrap();
    }
    document
}

pub(crate) fn ended(code: i32) -> RunRecord {
    RunRecord::Ended(RunEnd {
        status: ExitStatus::ExitCode(code),
        cause: Cause::Own,
        at: minute(1),
        output_bytes: 12,
        output_dropped: 0,
    })
}

pub(crate) fn known(identities: &[&str]) -> Known {
    let mut known = Known::new("machine");
    for identity in identities {
        let job = KnownJob {
            effective_from: Some(minute(3)),
            suspended: true,
            suspend_override: Some(false),
            resumed_at: Some(minute(4)),
            has_state: true,
            ..KnownJob::new(minute(2), "00ff")
        };
        known.jobs.insert((*identity).into(), job);
    }
    known
}

/// What is recorded as handled, for tests that only move the mark.
pub(crate) fn mark<D: Directory>(store: &Store<D>, identity: &str) -> Option<UtcSecond> {
    store.read(identity).unwrap().and_then(|document| document.last_handled)
}

/// Every name that a finished write would not have left.
pub(crate) fn left_over(directory: &impl Directory) -> Vec<String> {
    let mut names = directory.names().unwrap();
    if let Some(runs) = directory.existing_subdirectory("runs").unwrap() {
        names.extend(runs.names().unwrap());
    }
    names.retain(|name| name.ends_with(".tmp"));
    names
}
