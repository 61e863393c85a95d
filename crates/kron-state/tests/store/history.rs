//! What holds of a document whatever happens to its job, in any order.

use std::collections::BTreeSet;

use kron_core::{Outcome, UtcSecond};
use kron_state::simulated::Disk;
use kron_state::{
    ActiveState, Change, Document, Ending, ExitStatus, Inapplicable, PeriodRef, Replacing, RunId,
    Store, Summary, document_file,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::made::{armed, by_hand, finished, minute, missed, run};

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![Just(Outcome::Skipped), Just(Outcome::Missed), Just(Outcome::Unschedulable)]
}

/// Anything at all; few runs and periods, so that changes often concern the same ones.
fn change() -> impl Strategy<Value = Change> {
    let (period, id) = (0..12_i64, 0..6_u64);
    let handle =
        (period.clone(), 0..3_i64, outcome()).prop_map(|(period, more, outcome)| Change::Handle {
            nominal: minute(period),
            chosen: (more == 0).then(|| minute(period)),
            outcome,
            reason: "because".to_owned(),
            stretch: (more > 0).then(|| (minute(period + more), more as u64 + 1)),
            at: minute(period + more),
        });
    let replace = proptest::option::of(period.clone()).prop_map(|period| {
        let replacing = |period| Replacing { period: minute(period), evaluated_at: minute(period) };
        Change::Replace(period.map(replacing))
    });
    let hand_over =
        (period.clone(), id.clone(), any::<bool>()).prop_map(|(period, id, by_hand)| {
            Change::HandOver {
                run: run(id),
                period: match by_hand {
                    true => PeriodRef::Manual("manual/x".into()),
                    false => PeriodRef::Period(minute(period)),
                },
                chosen: minute(period),
                reason: "enqueued".to_owned(),
                at: minute(period),
            }
        });
    let owe = period.clone().prop_map(|period| Change::Owe(minute(period)));
    prop_oneof![
        3 => (period.clone(), id.clone()).prop_map(|(period, id)| Change::Arm(armed(period, id))),
        1 => id.clone().prop_map(|id| Change::Arm(by_hand(id))),
        1 => id.clone().prop_map(|id| Change::Disarm(run(id))),
        3 => id.clone().prop_map(|id| Change::Start(run(id))),
        3 => (id, 0..3_i32, period).prop_map(|(id, code, at)| finished(id, code, at)),
        2 => handle,
        2 => hand_over,
        1 => replace,
        1 => owe,
    ]
}

fn active(document: &Document) -> Vec<(RunId, bool)> {
    document.active().map(|active| (active.run.clone(), active.executed)).collect()
}

/// What one change may have done.
fn check_step(
    before: &Document,
    change: &Change,
    result: &Result<(), Inapplicable>,
    after: &Document,
    history_max: usize,
) {
    if result.is_err() {
        assert_eq!(before, after, "a change that does not fit changes nothing");
        return;
    }
    assert!(after.last_handled >= before.last_handled, "the mark went back: {change:?}");
    assert_eq!(after.last_nominal_time, after.last_handled);
    assert_eq!(after.last_outcome.is_some(), after.last_handled.is_some());

    // Runs leave only by their own end.
    let (was, is) = (active(before), active(after));
    let leaves = match change {
        Change::Finish { run, .. } | Change::Disarm(run) => Some(run),
        _ => None,
    };
    for (run, executed) in &was {
        match is.iter().find(|(other, _)| other == run) {
            Some((_, still)) => assert!(*still || !executed, "an execution was forgotten"),
            None => assert_eq!(leaves, Some(run), "a run was dropped: {change:?}"),
        }
    }
    assert!(leaves.is_none_or(|run| is.iter().all(|(other, _)| other != run)));
    assert_eq!(after.active_execution.is_none(), is.is_empty());

    // A run that goes on, once it is executed, has its entry, whatever the cap.
    let entries =
        |run: &RunId| after.history.iter().filter(|entry| entry.run.as_ref() == Some(run)).count();
    let is_active = |run: &Option<RunId>| is.iter().any(|(other, _)| Some(other) == run.as_ref());
    let others = after.history.iter().filter(|entry| !is_active(&entry.run)).count();
    assert!(others <= history_max, "{others} entries");
    for (run, executed) in &is {
        assert_eq!(entries(run), usize::from(*executed));
    }
    if let Change::Finish { run, ending, status, .. } = change
        && history_max > 0
    {
        // The end that was just recorded can be read, however long the run took.
        let entry = after.history.iter().rfind(|entry| entry.run.as_ref() == Some(run));
        if let Some(entry) = entry {
            assert_eq!(entry.ending, Some(*ending));
            assert_eq!(entry.exit_code.map(ExitStatus::ExitCode), *status);
        }
    }
    if is_by_hand(before, change) {
        let marks = |document: &Document| {
            let Document { last_handled, last_outcome, last_chosen_time, .. } = document;
            (*last_handled, *last_outcome, *last_chosen_time)
        };
        assert_eq!(marks(before), marks(after), "a run by hand touched the mark");
    }
}

fn is_by_hand(document: &Document, change: &Change) -> bool {
    let of = |run: &RunId| document.active().find(|active| active.run == *run).cloned();
    let active: Option<ActiveState> = match change {
        Change::Arm(active) => Some(active.clone()),
        Change::Start(run) | Change::Finish { run, .. } | Change::Disarm(run) => of(run),
        Change::HandOver { period, .. } => return matches!(period, PeriodRef::Manual(_)),
        Change::Handle { .. }
        | Change::Replace(_)
        | Change::Owe(_)
        | Change::Notify(_)
        | Change::Delivered(_) => None,
    };
    active.is_some_and(|active| matches!(active.period, PeriodRef::Manual(_)))
}

fn with_unknown(document: &Document) -> Vec<u8> {
    let mut value = serde_json::to_value(document).unwrap();
    value["FromTheFuture"] = json!({"deep": [1, 2.5, "three", null], "big": u64::MAX});
    serde_json::to_vec(&value).unwrap()
}

/// What a scan finds: by skimming where there is a checksum, else by reading everything.
fn summary(bytes: &[u8]) -> Summary {
    let disk = Disk::new();
    disk.put(&document_file("job"), bytes);
    let store = Store::open(disk, 0).unwrap();
    store.scan().unwrap().documents.remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_record_keeps_its_promises(
        changes in proptest::collection::vec(change(), 0..60),
        history_max in 0..6_usize,
    ) {
        let mut document = Document::parse(&with_unknown(&Document::new("job")), None).unwrap();
        let mut executed: BTreeSet<UtcSecond> = BTreeSet::new();
        for change in &changes {
            let before = document.clone();
            let result = document.apply(change, history_max);
            check_step(&before, change, &result, &document, history_max);

            // No period is executed twice, whatever the cap made of the history.
            let newly = match change {
                Change::Start(run) | Change::Finish { run, .. } if result.is_ok() => {
                    before.active().find(|active| active.run == *run && !active.executed).cloned()
                }
                _ => None,
            };
            if let Some(PeriodRef::Period(nominal)) = newly.map(|active| active.period) {
                prop_assert!(executed.insert(nominal), "{nominal} was executed twice");
                prop_assert!(document.last_handled >= Some(nominal));
            }

            // It is read as it was written, and what nobody here knows stays in it.
            let bytes = document.to_bytes();
            let read = Document::parse(&bytes, Some("job")).unwrap();
            prop_assert_eq!(&read, &document);
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(&value["FromTheFuture"]["big"], &json!(u64::MAX));
            prop_assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
        prop_assert_eq!(summary(&document.to_bytes()), summary(&with_unknown(&document)));
    }
}

#[test]
fn the_keys_are_spelled_as_the_format_spells_them() {
    let mut document = Document::new("job");
    let changes =
        [missed(1), Change::Arm(armed(2, 1)), Change::Start(run(1)), Change::Arm(by_hand(2))];
    for change in &changes {
        document.apply(change, 9).unwrap();
    }
    let value: Value = serde_json::from_slice(&document.to_bytes()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let has = |value: &Value, wanted: &[&str]| {
        let found = keys(value);
        assert!(wanted.iter().all(|key| found.contains(*key)), "{wanted:?} in {found:?}");
    };
    has(
        &value,
        &[
            "Version",
            "Identity",
            "LastHandledPeriodID",
            "LastOutcome",
            "LastChosenTime",
            "LastNominalTime",
            "ActiveExecution",
            "History",
        ],
    );
    has(&value["ActiveExecution"], &["PeriodID", "PID", "StartedAt", "ChosenTime"]);
    has(&value["OtherActive"][0], &["PeriodID", "PID", "StartedAt", "ChosenTime"]);
    let entry = ["PeriodID", "Outcome", "NominalTime", "ChosenTime", "CompletedAt", "ExitCode"];
    for number in 0..2 {
        has(&value["History"][number], &entry);
    }
    assert_eq!(value["History"][1]["CompletedAt"], "", "it goes on");
    assert_eq!(value["LastHandledPeriodID"], "2026-03-01T00:02:00Z");
    let empty: Value = serde_json::from_slice(&Document::new("job").to_bytes()).unwrap();
    assert_eq!(empty["LastHandledPeriodID"], "");
    assert_eq!(empty["ActiveExecution"], Value::Null);
    assert_eq!(empty["History"], json!([]));
}

#[test]
fn an_executed_run_cannot_be_taken_back() {
    let mut document = Document::new("job");
    document.apply(&Change::Arm(armed(2, 1)), 9).unwrap();
    document.apply(&Change::Start(run(1)), 9).unwrap();
    let refused = document.apply(&Change::Disarm(run(1)), 9);
    assert_eq!(refused, Err(Inapplicable::Executed(run(1))));
}

#[test]
fn a_run_that_never_came_to_be_leaves_its_period_open() {
    let mut document = Document::new("job");
    document.apply(&missed(1), 9).unwrap();
    let before = document.clone();
    document.apply(&Change::Arm(armed(2, 1)), 9).unwrap();
    document.apply(&Change::Disarm(run(1)), 9).unwrap();
    assert_eq!(document, before);
    document.apply(&Change::Arm(armed(2, 5)), 9).unwrap();
}

#[test]
fn a_long_run_is_in_the_history_when_it_ends() {
    let mut document = Document::new("job");
    document.apply(&Change::Arm(armed(1, 1)), 3).unwrap();
    document.apply(&Change::Start(run(1)), 3).unwrap();
    for period in 2..20 {
        document.apply(&missed(period), 3).unwrap();
    }
    let lost = Change::Finish {
        run: run(1),
        ending: Ending::Signalled,
        status: Some(ExitStatus::Signal(9)),
        // The clock went back meanwhile.
        at: minute(0),
        output_dropped: 7,
    };
    document.apply(&lost, 3).unwrap();
    assert_eq!(document.history.len(), 3);
    let entry = document.history.last().unwrap();
    assert_eq!((entry.run.as_ref(), entry.signal), (Some(&run(1)), Some(9)));
    assert_eq!((entry.output_dropped, entry.completed_at), (Some(7), Some(minute(0))));
    assert_eq!(document.last_handled, Some(minute(19)), "its end moves nothing back");
    // It began long ago, but it is the newest of what is over.
    for (later, kept) in [(31, true), (32, true), (33, false)] {
        document.apply(&missed(later), 3).unwrap();
        let is_kept = document.history.iter().any(|entry| entry.run == Some(run(1)));
        assert_eq!(is_kept, kept, "after {later}");
    }
}

#[test]
fn a_replacement_is_over_with_its_period() {
    let replacing = Some(Replacing { period: minute(5), evaluated_at: minute(5) });
    let mut document = Document::new("job");
    document.apply(&Change::Replace(replacing), 9).unwrap();
    document.apply(&missed(4), 9).unwrap();
    assert_eq!(document.replacing, replacing);
    let mut started = document.clone();
    started.apply(&Change::Arm(armed(5, 1)), 9).unwrap();
    assert_eq!(started.replacing, replacing, "not before it is executed");
    started.apply(&Change::Start(run(1)), 9).unwrap();
    assert_eq!(started.replacing, None);
    document.apply(&missed(6), 9).unwrap();
    assert_eq!(document.replacing, None);
}

#[test]
fn a_start_on_its_way_may_be_overtaken_only_when_it_is_owed() {
    let mut document = Document::new("job");
    let mut too_late = document.clone();
    document.apply(&Change::Owe(minute(4)), 9).unwrap();
    document.apply(&missed(5), 9).unwrap();
    document.apply(&Change::Owe(minute(4)), 9).unwrap();
    assert_eq!(document.owed, [minute(4)]);

    too_late.apply(&missed(5), 9).unwrap();
    too_late.apply(&Change::Owe(minute(4)), 9).unwrap();
    assert_eq!(too_late.owed, [], "what is handled is not opened again");
    assert_eq!(
        too_late.apply(&Change::Arm(armed(4, 1)), 9),
        Err(Inapplicable::StartedBefore(minute(4)))
    );

    let mut given_up = document.clone();
    given_up.apply(&missed(4), 9).unwrap();
    assert!(given_up.owed.is_empty(), "it has its outcome");
    assert_eq!(given_up.last_handled, Some(minute(5)));
    document.apply(&Change::Arm(armed(4, 1)), 9).unwrap();
    assert!(document.owed.is_empty(), "it is recorded");
    let mut beyond = Document::new("job");
    beyond.apply(&Change::Arm(armed(4, 1)), 9).unwrap();
    beyond.apply(&Change::Owe(minute(4)), 9).unwrap();
    assert!(beyond.owed.is_empty(), "it is recorded");
    document.apply(&Change::Start(run(1)), 9).unwrap();
    assert_eq!(document.last_handled, Some(minute(5)), "and moves nothing back");
}

#[test]
fn what_was_executed_beyond_a_mark_that_was_reset_is_remembered() {
    let disk = Disk::new();
    let store = Store::open(disk, 1).unwrap();
    let changes = [Change::Arm(armed(7, 1)), Change::Start(run(1))];
    store.commit("job", &changes).unwrap();
    store.reset("job", Some(minute(3)), minute(4)).unwrap();
    let mut document = store.read("job").unwrap().unwrap();
    assert_eq!(document.executed_ahead, [minute(7)]);
    let again = Change::Arm(armed(7, 2));
    assert_eq!(document.apply(&again, 1), Err(Inapplicable::StartedBefore(minute(7))));
    document.apply(&missed(8), 1).unwrap();
    assert!(document.executed_ahead.is_empty(), "the mark has passed it");
}
