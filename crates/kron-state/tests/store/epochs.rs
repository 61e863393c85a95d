//! The daemon's life, torn, damaged and too long.

use std::sync::{Arc, Mutex};

use kron_state::simulated::{Disk, Fault, Faulty};
use kron_state::{
    Directory as _, EPOCHS_BYTES_MAX, Epoch, EpochEvent, EpochLog, Operation, Store, StoreError,
};

use crate::made::{HISTORY_MAX, minute};

const FILE: &str = "epochs.jsonl";

fn every_event() -> Vec<EpochEvent> {
    let identity = "db-backup".to_owned();
    let start = |previous_alive_until| EpochEvent::Start {
        version: "0.1.0".to_owned(),
        pid: 12,
        boot_id: "8d3c".to_owned(),
        previous_alive_until,
    };
    vec![
        start(None),
        start(Some(minute(3))),
        EpochEvent::Stop { mode: "leave".to_owned() },
        EpochEvent::Crash { alive_until: Some(minute(1)) },
        EpochEvent::Load { jobs: 100_000, generation: 2 },
        EpochEvent::Suspend { identity: identity.clone() },
        EpochEvent::Resume { identity: identity.clone() },
        EpochEvent::ClockStep { from: minute(1), to: minute(2) },
        EpochEvent::ClockHeld { from: minute(1), to: minute(2) },
        EpochEvent::ClockAccepted { reason: "synchronised".to_owned() },
        EpochEvent::Reset { identity, from: Some(minute(9)), to: None },
    ]
}

fn epochs() -> Vec<Epoch> {
    let at = |(at, event)| Epoch { at: minute(at), event };
    (0..).zip(every_event()).map(at).collect()
}

#[test]
fn every_event_is_read_as_it_was_written() {
    let disk = Disk::new();
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    for epoch in epochs() {
        store.append_epoch(&epoch).unwrap();
    }
    let read = store.epochs().unwrap();
    assert_eq!((read.epochs, read.unreadable_lines), (epochs(), 0));
    let text = String::from_utf8(disk.read(FILE, 1 << 20).unwrap().unwrap().bytes).unwrap();
    assert_eq!(
        text.lines().next(),
        Some(
            r#"{"At":"2026-03-01T00:00:00Z","Event":"start","Version":"0.1.0","PID":12,"BootID":"8d3c"}"#
        )
    );
}

#[test]
fn a_torn_line_is_ignored_and_cut_off_wherever_it_was_torn() {
    let lines: Vec<u8> = {
        let disk = Disk::new();
        let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
        for epoch in &epochs()[..2] {
            store.append_epoch(epoch).unwrap();
        }
        disk.read(FILE, 1 << 20).unwrap().unwrap().bytes
    };
    let next = &epochs()[5];
    for length in 0..=lines.len() {
        let whole = lines[..length].iter().filter(|byte| **byte == b'\n').count();
        let disk = Disk::new();
        disk.put(FILE, &lines[..length]);
        let store = Store::open(disk, HISTORY_MAX).unwrap();
        let read = store.epochs().unwrap();
        assert_eq!((&read.epochs[..], read.unreadable_lines), (&epochs()[..whole], 0));
        store.append_epoch(next).unwrap();
        let read = store.epochs().unwrap();
        assert_eq!(read.epochs.len(), whole + 1, "torn after {length}");
        assert_eq!(read.epochs.last(), Some(next));
        assert_eq!(read.unreadable_lines, 0);
    }
}

/// A file whose sync failed is not synced again, as if that could succeed: it is replaced.
#[test]
fn after_a_failure_the_file_is_written_anew() {
    for failing in [Operation::SyncFile, Operation::Write, Operation::Append] {
        let disk = Disk::new();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let called = Arc::clone(&calls);
        let faulty = Faulty::new(disk.clone(), move |operation, _| {
            let mut calls = called.lock().unwrap();
            calls.push(operation);
            let times = calls.iter().filter(|call| **call == failing).count();
            // The second time, so that there is something to lose.
            if times == 2 { Fault::Errno(5) } else { Fault::None }
        });
        let store = Store::open(faulty, HISTORY_MAX).unwrap();
        store.append_epoch(&epochs()[0]).unwrap();
        store.append_epoch(&epochs()[1]).unwrap_err();
        calls.lock().unwrap().clear();
        store.append_epoch(&epochs()[2]).unwrap();
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        assert!(calls.contains(&Operation::Rename), "{failing:?}: {calls:?}");
        assert!(!calls.contains(&Operation::Append), "{failing:?}: {calls:?}");
        let reopened = Store::open(disk.after_power_cut(&mut |_| 0), HISTORY_MAX).unwrap();
        let read = reopened.epochs().unwrap().epochs;
        assert_eq!((read.first(), read.last()), (Some(&epochs()[0]), Some(&epochs()[2])));
    }
}

#[test]
fn what_a_newer_daemon_told_is_counted_and_kept() {
    let disk = Disk::new();
    disk.put(FILE, b"{\"At\":\"2026-03-01T00:00:00Z\",\"Event\":\"eclipse\"}\nnonsense\n");
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    store.append_epoch(&epochs()[0]).unwrap();
    let EpochLog { epochs, unreadable_lines } = store.epochs().unwrap();
    assert_eq!((epochs.len(), unreadable_lines), (1, 2));
    assert!(disk.read(FILE, 1 << 20).unwrap().unwrap().bytes.starts_with(b"{\"At\":\"2026"));
}

#[test]
fn the_older_half_is_dropped_when_it_is_too_much() {
    let disk = Disk::new();
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    let epoch = |number: usize| Epoch {
        at: minute(number as i64),
        event: EpochEvent::Suspend { identity: "x".repeat(40_000) },
    };
    let mut least = usize::MAX;
    for number in 0..100 {
        store.append_epoch(&epoch(number)).unwrap();
        let length = disk.read(FILE, EPOCHS_BYTES_MAX).unwrap().unwrap().bytes.len();
        let read = store.epochs().unwrap();
        assert_eq!(read.unreadable_lines, 0);
        assert_eq!(read.epochs.last(), Some(&epoch(number)));
        let first = read.epochs[0].at;
        assert_eq!(minute(number as i64).since(first), 60 * (read.epochs.len() as i64 - 1));
        if number > 30 {
            least = least.min(length);
        }
    }
    assert!(least as u64 > EPOCHS_BYTES_MAX / 3, "no more than half was dropped: {least}");

    let long = EpochEvent::Suspend { identity: "x".repeat(EPOCHS_BYTES_MAX as usize) };
    let error = store.append_epoch(&Epoch { at: minute(1), event: long }).unwrap_err();
    assert!(matches!(error, StoreError::TooLong { .. }));
    let almost = EpochEvent::Suspend { identity: "x".repeat(EPOCHS_BYTES_MAX as usize - 200) };
    store.append_epoch(&Epoch { at: minute(1), event: almost }).unwrap();
    assert_eq!(store.epochs().unwrap().epochs.len(), 1);
}
