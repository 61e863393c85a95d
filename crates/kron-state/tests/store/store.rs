//! What a store does when nothing goes wrong.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use kron_core::{Category, Outcome};
use kron_state::simulated::Disk;
use kron_state::{
    Change, Directory as _, Document, DocumentError, Ending, EpochEvent, HistoryEntry,
    Inapplicable, KnownAhead, KnownRead, KnownTime, Lock, PeriodRef, RealDirectory, RunRead,
    RunRecord, RunReport, Store, StoreError, document_file, write_run_record, write_run_report,
};

use crate::made::{
    HISTORY_MAX, armed, by_hand, ended, finished, full_document, known, mark, minute, missed, run,
};

#[test]
fn a_scan_tells_what_every_document_says() {
    let disk = Disk::new();
    disk.set_now(minute(77));
    disk.put(&document_file("full"), &full_document("full").to_bytes());
    disk.put(&document_file("damaged"), b"{\"Version\":");
    disk.put("notes.txt", b"not ours");
    disk.put(&format!("{}.corrupt.20260301T000000Z", document_file("old")), b"not a document");
    let store = Store::open(disk, HISTORY_MAX).unwrap();
    store.commit("plain", &[missed(3)]).unwrap();

    let scan = store.scan().unwrap();
    assert_eq!(scan.unreadable.len(), 1);
    let unreadable = &scan.unreadable[0];
    assert_eq!(format!("{}.json", unreadable.identity_hash), document_file("damaged"));
    assert_eq!(unreadable.modified, minute(77));
    assert!(unreadable.cause.contains("EOF"), "{}", unreadable.cause);

    assert_eq!(scan.documents.len(), 2);
    let summary = |identity: &str| {
        scan.documents.iter().find(|summary| summary.identity == identity).unwrap()
    };
    let plain = summary("plain");
    assert_eq!(plain.last_handled, Some(minute(3)));
    assert_eq!(plain.last_outcome, Some(Outcome::Missed));
    assert_eq!(plain.last_chosen, Some(minute(3)));
    assert_eq!((plain.active.len(), plain.replacing), (0, None));
    let full = summary("full");
    let document = full_document("full");
    assert_eq!(full.last_handled, Some(minute(7)));
    assert_eq!(full.active, document.active().cloned().collect::<Vec<_>>());
    assert_eq!(full.replacing, document.replacing);
    let last: &HistoryEntry = full.last_entry.as_deref().unwrap();
    assert_eq!((last.period.clone(), last.ending), (PeriodRef::Period(minute(7)), None));
    let names = store.document_names().unwrap();
    assert_eq!(names.len(), 3);
    for name in names {
        let read = store.read_file(&name);
        assert_eq!(read.is_err(), name == document_file("damaged"), "{name}: {read:?}");
    }
}

#[test]
fn many_documents_are_scanned_in_order_and_one_that_is_unusable_stops_it() {
    let disk = Disk::new();
    for number in 0..5_000 {
        let identity = format!("job-{number}");
        let document =
            if number == 0 { full_document(&identity) } else { Document::new(&identity) };
        disk.put(&document_file(&identity), &document.to_bytes());
    }
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    let scan = store.scan().unwrap();
    let files: Vec<String> =
        scan.documents.iter().map(|summary| document_file(&summary.identity)).collect();
    assert_eq!(files.len(), 5_000);
    assert!(files.is_sorted());
    for number in [1_234, 4_321] {
        disk.put(&document_file(&format!("job-{number}")), b"damaged");
    }
    let scan = store.scan().unwrap();
    assert_eq!((scan.documents.len(), scan.unreadable.len()), (4_998, 2));
    disk.put(&document_file("job-4999"), b"{}");
    let error = store.scan().unwrap_err();
    assert_eq!(error.category(), Category::IncompatibleState, "{error:?}");
}

#[test]
fn a_document_under_another_name_is_refused() {
    let disk = Disk::new();
    disk.put(&document_file("a"), &full_document("b").to_bytes());
    let store = Store::open(disk, HISTORY_MAX).unwrap();
    for error in [
        store.scan().map(drop).unwrap_err(),
        store.read("a").map(drop).unwrap_err(),
        store.commit("a", &[missed(1)]).unwrap_err(),
        store.restore("a", &Document::new("a")).unwrap_err(),
    ] {
        assert_eq!(error.category(), Category::IncompatibleState, "{error:?}");
        assert!(error.hint().unwrap().contains("krond"), "{error:?}");
    }
}

#[test]
fn a_commit_is_all_or_nothing() {
    let store = Store::open(Disk::new(), HISTORY_MAX).unwrap();
    store.commit("a", &[missed(1)]).unwrap();
    let error = store.commit("a", &[missed(2), Change::Start(run(9))]).unwrap_err();
    assert!(
        matches!(&error, StoreError::Inapplicable { source: Inapplicable::NoSuchRun(_), .. }),
        "{error:?}"
    );
    assert_eq!(mark(&store, "a"), Some(minute(1)));
}

#[test]
fn only_what_cannot_be_read_is_restored() {
    let disk = Disk::new();
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    store.commit("a", &[missed(5)]).unwrap();
    let replacement = Document::new("a");
    let error = store.restore("a", &replacement).unwrap_err();
    assert!(matches!(error, StoreError::Readable { .. }), "{error:?}");
    assert_eq!(mark(&store, "a"), Some(minute(5)));
    let error = store.restore("b", &replacement).unwrap_err();
    assert!(matches!(error, StoreError::Document { .. }), "{error:?}");

    disk.put(&document_file("a"), b"");
    let error = store.commit("a", &[missed(6)]).unwrap_err();
    assert_eq!(error.category(), Category::Persistence, "{error:?}");
    store.restore("a", &replacement).unwrap();
    assert_eq!(store.read("a").unwrap(), Some(replacement));
}

#[test]
fn every_damaged_form_is_kept_once() {
    let disk = Disk::new();
    disk.set_now(minute(90));
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    let file = document_file("a");
    for damaged in [&b"first"[..], b"second, longer", b"third", b"first"] {
        disk.put(&file, damaged);
        store.restore("a", &Document::new("a")).unwrap();
    }
    let mut names = disk.names().unwrap();
    names.retain(|name| name.contains(".corrupt."));
    assert_eq!(
        names,
        [
            format!("{file}.corrupt.20260301T013000Z"),
            format!("{file}.corrupt.20260301T013000Z-2"),
            format!("{file}.corrupt.20260301T013000Z-3"),
        ]
    );
}

#[test]
fn a_damaged_known_file_is_set_aside_and_stays_until_it_is_saved_anew() {
    let disk = Disk::new();
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    assert!(matches!(store.known().unwrap(), KnownRead::Missing));
    disk.set_now(minute(3));
    disk.put("known.json", b"{");
    for _ in 0..2 {
        let KnownRead::Unreadable { modified, set_aside, .. } = store.known().unwrap() else {
            panic!("it is damaged")
        };
        assert_eq!(modified, minute(3));
        assert_eq!(set_aside, "known.json.corrupt.20260301T000300Z");
        assert_eq!(disk.read(&set_aside, 10).unwrap().unwrap().bytes, b"{");
    }
    store.save_known(&known(&["a"])).unwrap();
    let KnownRead::Known(found) = store.known().unwrap() else { panic!("it was saved") };
    assert_eq!(found, known(&["a"]));

    disk.put("known.json", br#"{"Version":"2","MachineID":"","Jobs":{}}"#);
    let error = store.known().unwrap_err();
    assert_eq!(error.category(), Category::IncompatibleState);
    disk.put("known.json", br#"{"Version":"1","Jobs":{}}"#);
    let error = store.known().unwrap_err();
    assert_eq!(error.category(), Category::IncompatibleState);
}

#[test]
fn fields_of_a_newer_version_stay_in_known() {
    let disk = Disk::new();
    let text = r#"{"Version":"1","MachineID":"m","Jobs":{"a":{"CreatedAt":"2026-03-01T00:00:00Z","DecisionHash":"x","Colour":{"deep":[1,"two",null]}}},"Mood":0.1}"#;
    disk.put("known.json", text.as_bytes());
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    let KnownRead::Known(mut known) = store.known().unwrap() else { panic!("it is whole") };
    known.jobs.get_mut("a").unwrap().suspended = true;
    store.save_known(&known).unwrap();
    let written = disk.read("known.json", 1_000).unwrap().unwrap().bytes;
    let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(written["Mood"], 0.1);
    assert_eq!(written["Jobs"]["a"]["Colour"]["deep"][1], "two");
    assert_eq!(written["Jobs"]["a"]["Suspended"], true);
}

#[test]
fn a_reset_moves_the_mark_and_is_told_of() {
    let store = Store::open(Disk::new(), HISTORY_MAX).unwrap();
    let changes = [Change::Arm(armed(4, 1)), finished(1, 0, 5), missed(9_000)];
    store.commit("a", &changes).unwrap();
    store.commit("a", &[Change::Arm(by_hand(2))]).unwrap();
    store.reset("a", Some(minute(6)), minute(10)).unwrap();

    let document = store.read("a").unwrap().unwrap();
    assert_eq!(document.last_handled, Some(minute(6)));
    assert_eq!(document.last_nominal_time, Some(minute(6)));
    assert_eq!(document.last_outcome, Some(Outcome::Missed));
    assert_eq!(document.active().count(), 1, "what runs is not touched");
    let entry = document.history.last().unwrap();
    assert!(
        entry.reason.as_deref().unwrap().starts_with("mark reset from 2026-03-07"),
        "{entry:?}"
    );
    assert_eq!((entry.outcome, entry.chosen_time), (Some(Outcome::Missed), Some(minute(6))));
    assert_eq!(document.last_chosen_time, Some(minute(6)));
    let epochs = store.epochs().unwrap().epochs;
    let expected =
        EpochEvent::Reset { identity: "a".into(), from: Some(minute(9_000)), to: Some(minute(6)) };
    assert_eq!((epochs[0].at, &epochs[0].event), (minute(10), &expected));

    // Periods after the mark may run again, but not those that are known to have run.
    store.reset("a", None, minute(11)).unwrap();
    let error = store.commit("a", &[Change::Arm(armed(4, 7))]).unwrap_err();
    assert!(matches!(error, StoreError::Inapplicable { .. }), "{error:?}");
    store.commit("a", &[Change::Arm(armed(8, 7))]).unwrap();
    let document = store.read("a").unwrap().unwrap();
    assert_eq!((document.last_handled, document.last_outcome), (None, None));

    store.reset("a", Some(minute(4)), minute(12)).unwrap();
    let document = store.read("a").unwrap().unwrap();
    assert_eq!(document.last_outcome, Some(Outcome::Executed), "as the history has it");
    assert_eq!(document.last_chosen_time, Some(minute(4)));
}

#[test]
fn what_is_known_comes_back_from_the_future_and_is_told_of() {
    let disk = Disk::new();
    let store = Store::open(disk, HISTORY_MAX).unwrap();
    assert_eq!(store.reset_known(None, minute(9)).unwrap(), [], "there is nothing");
    let mut before = known(&["a", "b", "c"]);
    for (job, time) in [("a", 900), ("b", 800)] {
        before.jobs.get_mut(job).unwrap().created_at = minute(time);
    }
    before.jobs.get_mut("a").unwrap().effective_from = Some(minute(700));
    before.jobs.get_mut("a").unwrap().resumed_at = Some(minute(950));
    store.save_known(&before).unwrap();
    let ahead = |identity: &str, time, at| KnownAhead { identity: identity.into(), time, at };
    let of_a = [
        ahead("a", KnownTime::CreatedAt, minute(900)),
        ahead("a", KnownTime::EffectiveFrom, minute(700)),
        ahead("a", KnownTime::ResumedAt, minute(950)),
    ];
    let of_b = [ahead("b", KnownTime::CreatedAt, minute(800))];
    assert_eq!(before.ahead_of(minute(9)), [&of_a[..], &of_b].concat());

    let read = || match store.known().unwrap() {
        KnownRead::Known(known) => known,
        other => panic!("{other:?}"),
    };
    assert_eq!(store.reset_known(Some("b"), minute(9)).unwrap(), of_b);
    assert_eq!(read().ahead_of(minute(9)), of_a, "the others are as they were");
    assert_eq!(store.reset_known(None, minute(10)).unwrap(), of_a);
    let after = read();
    let mut expected = known(&["a", "b", "c"]);
    expected.jobs.get_mut("a").unwrap().created_at = minute(10);
    expected.jobs.get_mut("a").unwrap().effective_from = Some(minute(10));
    expected.jobs.get_mut("a").unwrap().resumed_at = Some(minute(10));
    expected.jobs.get_mut("b").unwrap().created_at = minute(9);
    assert_eq!(after, expected, "nothing else has changed");
    assert_eq!(store.reset_known(None, minute(10)).unwrap(), []);
    let told: Vec<_> = store.epochs().unwrap().epochs;
    let reset = |identity: &str, from: i64, to: i64| EpochEvent::Reset {
        identity: identity.into(),
        from: Some(minute(from)),
        to: Some(minute(to)),
    };
    assert_eq!(told.len(), 2);
    assert_eq!((told[0].at, &told[0].event), (minute(9), &reset("b", 800, 9)));
    assert_eq!((told[1].at, &told[1].event), (minute(10), &reset("a", 950, 10)));
}

#[test]
fn the_cap_of_histories_can_be_changed() {
    let store = Store::open(Disk::new(), 3).unwrap();
    let periods = |store: &Store<Disk>| store.read("a").unwrap().unwrap().history.len();
    for period in 1..=5 {
        store.commit("a", &[missed(period)]).unwrap();
    }
    assert_eq!(periods(&store), 3);
    store.set_history_max(5);
    for period in 6..=9 {
        store.commit("a", &[missed(period)]).unwrap();
    }
    assert_eq!(periods(&store), 5);
    store.set_history_max(1);
    assert_eq!(periods(&store), 5, "nothing is written for it");
    store.commit("a", &[missed(10)]).unwrap();
    assert_eq!(periods(&store), 1);
}

#[test]
fn run_records_are_left_by_supervisors_and_found_by_the_daemon() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let store = Store::open(RealDirectory::open(&path).unwrap(), HISTORY_MAX).unwrap();
    let failed = RunRecord::ExecFailed {
        stage: "exec".to_owned(),
        errno: 2,
        message: "no such file or directory".to_owned(),
    };
    let records = [RunRecord::NotReleased, failed, ended(3)];
    for (id, record) in records.iter().enumerate() {
        write_run_record(&path, &run(id as u64), record).unwrap();
        assert_eq!(store.run_record(&run(id as u64)).unwrap(), RunRead::Record(record.clone()));
    }
    assert_eq!(store.run_ids().unwrap(), [run(0), run(1), run(2)]);
    store.remove_run(&run(1)).unwrap();
    store.remove_run(&run(1)).unwrap();
    assert_eq!(store.run_record(&run(1)).unwrap(), RunRead::Missing);

    // A record that is damaged, or was meant for another run, proves nothing.
    let file = |id| path.join("runs").join(format!("{}.json", run(id)));
    std::fs::rename(file(0), file(9)).unwrap();
    assert!(matches!(store.run_record(&run(9)).unwrap(), RunRead::Unreadable { .. }));
    let whole = std::fs::read(file(2)).unwrap();
    for length in 0..whole.len() - 1 {
        std::fs::write(file(2), &whole[..length]).unwrap();
        assert!(matches!(store.run_record(&run(2)).unwrap(), RunRead::Unreadable { .. }));
    }
    // It is not thrown away either.
    let damaged = std::fs::read(file(2)).unwrap();
    store.remove_run(&run(2)).unwrap();
    assert_eq!(store.run_ids().unwrap(), [run(9)]);
    let mut kept = std::fs::read_dir(path.join("runs")).unwrap();
    let copy = kept.find_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        name.starts_with(&format!("{}.json.corrupt.2", run(2))).then_some(path)
    });
    assert_eq!(std::fs::read(copy.unwrap()).unwrap(), damaged);
}

#[test]
fn a_run_record_tells_whose_run_it_was() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let store = Store::open(RealDirectory::open(&path).unwrap(), HISTORY_MAX).unwrap();
    let report = RunReport::new(ended(3), "db-backup", PeriodRef::Period(minute(4)));
    write_run_report(&path, &run(1), &report).unwrap();
    assert_eq!(store.run_report(&run(1)).unwrap(), Some(report.clone()));
    assert_eq!(store.run_record(&run(1)).unwrap(), RunRead::Record(ended(3)));
    let file = |id| path.join("runs").join(format!("{}.json", run(id)));
    let value: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file(1)).unwrap()).unwrap();
    assert_eq!(value["Identity"], "db-backup");
    assert_eq!(value["PeriodID"], "2026-03-01T00:04:00Z");
    let by_hand = PeriodRef::Manual("manual/2026-03-01T00:00:00Z-1".into());
    let by_hand = RunReport::new(RunRecord::NotReleased, "b", by_hand);
    store.write_run_report(&run(2), &by_hand).unwrap();
    assert_eq!(store.run_report(&run(2)).unwrap(), Some(by_hand));

    // Records of before there were these fields are as good, and are written as before.
    write_run_record(&path, &run(3), &ended(0)).unwrap();
    let text = String::from_utf8(std::fs::read(file(3)).unwrap()).unwrap();
    assert!(!text.contains("Identity") && !text.contains("PeriodID"), "{text}");
    assert_eq!(store.run_report(&run(3)).unwrap(), Some(RunReport::from(ended(0))));
    let old = format!(r#"{{"RunID":"{}","Record":"not_released","Mood":1}}"#, run(3));
    std::fs::write(file(3), old).unwrap();
    let expected = RunReport::from(RunRecord::NotReleased);
    assert_eq!(store.run_report(&run(3)).unwrap(), Some(expected));
    std::fs::write(file(3), "{").unwrap();
    assert_eq!(store.run_report(&run(3)).unwrap(), None);
    assert_eq!(store.run_report(&run(9)).unwrap(), None);
}

#[test]
fn a_supervisor_without_a_state_directory_fails() {
    let parent = tempfile::tempdir().unwrap();
    let missing = parent.path().join("state");
    assert!(write_run_record(&missing, &run(1), &ended(0)).is_err());
    assert!(!missing.exists());
}

#[test]
fn what_is_created_is_private() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let store = Store::open(RealDirectory::open(&path).unwrap(), HISTORY_MAX).unwrap();
    store.commit("a", &[missed(1)]).unwrap();
    store.save_known(&known(&[])).unwrap();
    store.write_run(&run(1), &ended(0)).unwrap();
    let _lock = Lock::acquire(&path, Duration::ZERO).unwrap();
    store.alive(minute(5)).unwrap();
    store.reset("a", None, minute(1)).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("runs")), 0o700);
    let run_file = format!("runs/{}.json", run(1));
    for name in [&document_file("a"), "known.json", &run_file, "epochs.jsonl", "lock"] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
    assert_eq!(store.last_alive().unwrap(), Some(minute(5)));
}

#[test]
fn a_view_changes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    assert!(RealDirectory::open_existing(&path).is_err());
    let directory = RealDirectory::open(&path).unwrap();
    directory.create(".x.json.0.tmp").unwrap();
    let view = Store::view(RealDirectory::open_existing(&path).unwrap(), HISTORY_MAX).unwrap();
    assert_eq!(view.scan().unwrap().documents.len(), 0);
    assert_eq!(view.run_ids().unwrap().len(), 0);
    assert_eq!(view.run_record(&run(1)).unwrap(), RunRead::Missing);
    assert_eq!(view.last_alive().unwrap(), None);
    assert!(view.write_run(&run(1), &ended(0)).is_err());
    assert_eq!(directory.names().unwrap(), [".x.json.0.tmp"]);
}

#[test]
fn a_document_that_would_not_be_read_again_is_not_written() {
    let store = Store::open(Disk::new(), HISTORY_MAX).unwrap();
    store.commit("a", &[missed(1)]).unwrap();
    let mut long = missed(2);
    if let Change::Handle { reason, .. } = &mut long {
        *reason = "x".repeat(kron_state::DOCUMENT_BYTES_MAX as usize);
    }
    let error = store.commit("a", &[long]).unwrap_err();
    assert!(matches!(error, StoreError::TooLong { .. }));
    assert_eq!(mark(&store, "a"), Some(minute(1)));
}

#[test]
fn an_active_record_of_another_implementation_is_read_and_ended() {
    let text = r#"{"Version":"1","Identity":"a","LastHandledPeriodID":"2026-03-01T00:01:00Z",
        "LastOutcome":"executed","LastChosenTime":"2026-03-01T00:01:00Z",
        "LastNominalTime":"2026-03-01T00:01:00Z","History":null,
        "ActiveExecution":{"PeriodID":"2026-03-01T00:02:00Z","PID":812,
        "StartedAt":"2026-03-01T00:02:01Z","ChosenTime":"2026-03-01T00:02:00Z"}}"#;
    let disk = Disk::new();
    disk.put(&document_file("a"), text.as_bytes());
    let store = Store::open(disk, HISTORY_MAX).unwrap();
    let summary = store.scan().unwrap().documents.remove(0);
    let active = &summary.active[0];
    assert!(active.is_foreign());
    assert_eq!((active.pid, active.supervisor.pid, active.start_ticks), (812, 812, 0));
    assert!(!armed(1, 1).is_foreign());

    // Its id is the same at every reading, so that its end can be recorded.
    let lost = Change::Finish {
        run: active.run.clone(),
        ending: Ending::Lost,
        status: None,
        at: minute(8),
        output_dropped: 0,
    };
    store.commit("a", &[lost]).unwrap();
    let document = store.read("a").unwrap().unwrap();
    assert_eq!(document.active().count(), 0);
    assert_eq!(document.last_handled, Some(minute(2)));
    assert_eq!(document.history[0].exit_code, None);
    assert_eq!(document.history[0].outcome, Some(Outcome::Executed));
}

#[test]
fn fractions_of_seconds_of_another_implementation_are_dropped() {
    let text = r#"{"Version":"1","Identity":"a","LastHandledPeriodID":"2026-03-01T00:01:00Z",
        "LastOutcome":"executed","LastChosenTime":"2026-03-01T00:01:00.25Z",
        "LastNominalTime":"2026-03-01T00:01:00.000Z",
        "ActiveExecution":{"PeriodID":"2026-03-01T00:02:00Z","PID":812,
        "StartedAt":"2026-03-01T00:02:01.734512Z","ChosenTime":"2026-03-01T00:02:00.5Z"},
        "History":[{"PeriodID":"2026-03-01T00:01:00.0Z","Outcome":"executed",
        "NominalTime":"2026-03-01T00:01:00Z","ChosenTime":"2026-03-01T00:01:00.25Z",
        "StartedAt":"2026-03-01T00:01:00.9Z","CompletedAt":"2026-03-01T00:01:59.999999999Z",
        "ExitCode":0}]}"#;
    let disk = Disk::new();
    disk.put(&document_file("a"), text.as_bytes());
    let store = Store::open(disk, HISTORY_MAX).unwrap();
    let summary = store.scan().unwrap().documents.remove(0);
    assert_eq!(summary.last_chosen, Some(minute(1)));
    let active = &summary.active[0];
    assert_eq!((active.started_at, active.chosen_time), (minute(2).saturating_add(1), minute(2)));
    store.commit("a", &[missed(3)]).unwrap();
    let document = store.read("a").unwrap().unwrap();
    assert_eq!(document.active().next().unwrap().run, active.run, "it is the same run");
    let entry = &document.history[0];
    assert_eq!(entry.completed_at, Some(minute(2).saturating_add(-1)));
    assert_eq!((entry.started_at, entry.chosen_time), (Some(minute(1)), Some(minute(1))));
    let written = String::from_utf8(document.to_bytes()).unwrap();
    assert!(!written.contains('.'), "{written}");
    let error = Document::parse(text.replace(".734512Z", ".Z").as_bytes(), None).unwrap_err();
    assert!(matches!(error, DocumentError::Incompatible(_)), "{error:?}");
}

#[test]
fn an_error_says_once_what_a_file_is_and_truly_what_to_do() {
    let disk = Disk::new();
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    let told =
        |error: &StoreError| format!("{error}: {}", std::error::Error::source(error).unwrap());
    let file = document_file("a");
    disk.put(&file, br#"{"Version":"2"}"#);
    let error = store.read("a").unwrap_err();
    let expected = "is not usable: its version is `2`, and this build reads `1`";
    assert!(told(&error).starts_with(&format!("`{file}` {expected}")), "{}", told(&error));
    let hint = error.hint().unwrap();
    assert!(hint.contains("its job is then lost"), "{hint}");
    assert!(hint.contains("the current period too, does not run"), "{hint}");
    assert!(!hint.contains("new"), "{hint}");

    disk.put(&file, b"{");
    let error = store.read("a").unwrap_err();
    assert!(told(&error).starts_with(&format!("`{file}` is not readable: EOF")), "{error}");

    disk.put("known.json", br#"{"Version":"2","MachineID":"","Jobs":{}}"#);
    let error = store.known().map(drop).unwrap_err();
    assert!(told(&error).starts_with("`known.json` is not usable: its version"), "{error}");
    assert!(error.hint().unwrap().contains("every job then counts as new"), "{error:?}");
}

#[test]
fn what_is_json_but_no_document_of_ours_is_left_alone() {
    let whole = r#"{"Version":"1","Identity":"a","LastHandledPeriodID":"","LastOutcome":"","LastChosenTime":"","LastNominalTime":""}"#;
    let check = |text: &str, said: &str| match Document::parse(text.as_bytes(), Some("a")) {
        Err(DocumentError::Incompatible(why)) => assert!(why.contains(said), "{text}: {why}"),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(Document::parse(whole.as_bytes(), Some("a")).unwrap(), Document::new("a"));
    check("[]", "not a JSON object");
    check("{}", "`Version` is missing");
    for field in
        ["Identity", "LastHandledPeriodID", "LastOutcome", "LastChosenTime", "LastNominalTime"]
    {
        check(&whole.replace(field, "Other"), field);
    }
    check(&whole.replace(r#""1""#, r#""2""#), "its version is `2`");
    check(&whole.replace(r#""1""#, "1"), "`Version` is not a text");
    check(&whole.replace(r#""a""#, r#""b""#), "belongs to the identity `b`");
    check(&whole.replace(r#""LastOutcome":"""#, r#""LastOutcome":"done""#), "unknown outcome");
    check(&whole.replace(r#""LastOutcome":"""#, r#""LastOutcome":7"#), "invalid type");
    check(
        &whole.replace(r#""LastOutcome":"""#, r#""LastOutcome":"","LastOutcome":"""#),
        "duplicate field",
    );
    let with_active = |active: &str| {
        whole.replace(
            r#""LastOutcome":"""#,
            &format!(r#""LastOutcome":"","ActiveExecution":{active}"#),
        )
    };
    let times = r#""StartedAt":"2026-03-01T00:00:00Z","ChosenTime":"2026-03-01T00:00:00Z""#;
    let active = format!(r#"{{"PeriodID":"2026-03-01T00:00:00Z","PID":7,{times}}}"#);
    assert!(Document::parse(with_active(&active).as_bytes(), Some("a")).is_ok());
    check(&with_active(&active.replace("7", "0")), "positive");
    check(&with_active(&active.replace("7", "-1")), "positive");
    check(&with_active(&active.replace("\"PID\":7", "\"PID\":7,\"StartTicks\":5")), "together");
    check(&with_active(&active.replace("\"PID\":7,", "")), "PID");
}
