//! Marks in the future and in the past, and where they may go.

use super::*;
use crate::document::{ActiveState, Process};
use crate::run::RunId;
use Outcome::{Executed, Missed, Skipped, Unschedulable};

/// Day `day` of March 2026, at `hour`.
fn on(day: u32, hour: u32) -> UtcSecond {
    UtcSecond::parse(&format!("2026-03-{day:02}T{hour:02}:00:00Z")).unwrap()
}

fn at(day: u32) -> UtcSecond {
    on(day, 0)
}

fn entry(nominal: UtcSecond, outcome: Outcome, chosen: Option<UtcSecond>) -> HistoryEntry {
    HistoryEntry {
        outcome: Some(outcome),
        nominal_time: Some(nominal),
        chosen_time: chosen,
        completed_at: chosen,
        ..HistoryEntry::new(PeriodRef::Period(nominal))
    }
}

/// A document with this mark, and with a history of periods that were chosen when they began.
fn document(mark: u32, outcome: Outcome, entries: &[(u32, Outcome)]) -> Document {
    let mut document = Document::new("a");
    document.last_handled = Some(at(mark));
    document.last_nominal_time = document.last_handled;
    document.last_chosen_time = document.last_handled;
    document.last_outcome = Some(outcome);
    document.history =
        entries.iter().map(|(day, outcome)| entry(at(*day), *outcome, Some(at(*day)))).collect();
    document
}

fn active(nominal: UtcSecond, chosen: UtcSecond) -> ActiveState {
    ActiveState {
        period: PeriodRef::Period(nominal),
        pid: 2,
        started_at: chosen,
        chosen_time: chosen,
        run: RunId::from_bits(7),
        start_ticks: 1,
        supervisor: Process { pid: 1, start_ticks: 1 },
        boot_id: "b".to_owned(),
        executed: false,
        unknown: serde_json::Map::new(),
    }
}

/// What every reset must leave: a mark that says what it is, and outcomes that the format has.
#[track_caller]
fn check_sound(document: &Document) {
    assert_eq!(document.last_nominal_time, document.last_handled);
    assert_eq!(document.last_outcome.is_some(), document.last_handled.is_some());
    let has_chosen = document.last_outcome.is_some_and(|outcome| outcome != Unschedulable);
    assert_eq!(document.last_chosen_time.is_some(), has_chosen, "{document:?}");
    for entry in &document.history {
        assert!(entry.outcome.is_some(), "an outcome that the format does not have: {entry:?}");
    }
    let text = String::from_utf8(document.to_bytes()).unwrap();
    assert!(!text.contains(r#""Outcome":"""#), "{text}");
}

#[test]
fn by_itself_a_mark_goes_to_the_latest_period_that_is_not_in_the_future() {
    let now = at(10);
    for (mark, entries, expected) in [
        (20, &[(8, Executed), (9, Missed), (20, Executed)][..], Some(at(9))),
        (20, &[(20, Executed)], Some(now)),
        (20, &[], Some(now)),
        (10, &[(10, Executed)], None),
    ] {
        let mut document = document(mark, Executed, entries);
        let target = document.mark_target(None, now).unwrap();
        assert_eq!(target, expected, "{entries:?}");
        let Some(target) = target else { continue };
        document.reset(Some(target), now, 100);
        check_sound(&document);
        assert_eq!(document.executed_ahead, [at(20)], "{entries:?}");
        assert!(!document.is_ahead_of(now));
    }
}

#[test]
fn windows_that_choose_before_or_after_the_nominal_time_are_no_fault() {
    let now = on(10, 12);
    for (nominal, chosen, is_ahead) in [
        // `before`: due this morning, nominal tonight.
        (on(10, 18), Some(on(10, 6)), false),
        // `after`: nominal this morning, chosen for tonight, and handled as lost state.
        (on(10, 6), Some(on(10, 18)), false),
        (on(10, 18), Some(on(10, 15)), true),
        (on(10, 15), Some(on(10, 18)), true),
        (on(10, 12), Some(on(10, 12)), false),
        (on(10, 13), None, true),
        (on(10, 12), None, false),
    ] {
        let mut document = document(1, Missed, &[]);
        document.last_handled = Some(nominal);
        document.last_chosen_time = chosen;
        assert_eq!(document.is_ahead_of(now), is_ahead, "{nominal} chosen {chosen:?}");
        assert_eq!(document.mark_target(None, now).unwrap().is_some(), is_ahead);
    }
    assert!(!Document::new("a").is_ahead_of(now));
}

#[test]
fn an_unschedulable_period_was_due_when_it_was_found() {
    let mut document = document(1, Unschedulable, &[]);
    document.last_handled = Some(on(10, 18));
    document.last_chosen_time = None;
    let mut found = entry(on(10, 18), Unschedulable, None);
    for (completed_at, is_ahead) in [(on(10, 6), false), (on(10, 18), true)] {
        found.completed_at = Some(completed_at);
        document.history = vec![found.clone()];
        assert_eq!(document.is_ahead_of(on(10, 12)), is_ahead, "found at {completed_at}");
    }
}

#[test]
fn the_marks_own_period_and_active_ones_count_as_executed() {
    let now = at(10);
    // No history: as a cap of nothing leaves it, or another implementation.
    let mut bare = document(20, Executed, &[]);
    bare.active_execution = Some(active(at(19), at(19)));
    bare.executed_ahead = vec![at(30)];
    let target = bare.mark_target(None, now).unwrap();
    bare.reset(target, now, 100);
    assert_eq!(bare.executed_ahead, [at(19), at(20), at(30)]);
    check_sound(&bare);

    // Those that are not in the future are not gone behind.
    let marked = document(8, Executed, &[(5, Missed)]);
    let refused = MarkRefused::Executed { executed: at(8), wanted: at(7) };
    assert_eq!(marked.mark_target(Some(at(7)), now), Err(refused));
    let mut running = document(9, Missed, &[(5, Missed)]);
    running.active_execution = Some(active(at(8), at(8)));
    assert_eq!(running.mark_target(Some(at(7)), now), Err(refused));
    assert_eq!(running.mark_target(Some(at(8)), now), Ok(Some(at(8))));
    let mut before = document(5, Executed, &[(5, Executed)]);
    before.executed_ahead = vec![at(8)];
    assert_eq!(before.mark_target(Some(at(7)), now), Err(refused));
}

#[test]
fn what_turns_out_not_to_have_been_executed_is_open_again() {
    use crate::change::Change;
    let mut document = document(20, Missed, &[(8, Missed)]);
    document.active_execution = Some(active(at(9), at(9)));
    document.reset(Some(at(8)), at(10), 100);
    assert_eq!(document.executed_ahead, [at(9)]);
    document.apply(&Change::Disarm(RunId::from_bits(7)), 100).unwrap();
    assert!(document.executed_ahead.is_empty(), "nothing was executed");
}

#[test]
fn a_mark_never_goes_behind_what_was_executed_nor_ahead() {
    let document = document(20, Executed, &[(5, Executed), (7, Missed), (20, Executed)]);
    let to = |day: u32| document.mark_target(Some(at(day)), at(10));
    assert_eq!(to(4), Err(MarkRefused::Executed { executed: at(5), wanted: at(4) }));
    assert_eq!(to(5), Ok(Some(at(5))));
    assert_eq!(to(6), Ok(Some(at(6))));
    assert_eq!(to(11), Err(MarkRefused::Future(at(11))));
}

#[test]
fn a_period_of_tonight_that_ran_this_morning_is_not_in_the_future() {
    let mut document = document(30, Missed, &[]);
    let tonight = on(10, 18);
    document.history = vec![entry(tonight, Executed, Some(on(10, 6)))];
    let now = on(10, 12);
    assert_eq!(document.mark_target(None, now), Ok(Some(tonight)));
    assert_eq!(document.mark_target(Some(tonight), now), Ok(Some(tonight)));
    let refused = MarkRefused::Executed { executed: tonight, wanted: now };
    assert_eq!(document.mark_target(Some(now), now), Err(refused));
}

#[test]
fn what_the_history_has_forgotten_is_not_gone_behind() {
    let now = at(10);
    let told = document(20, Missed, &[(5, Missed), (7, Skipped)]);
    assert_eq!(told.mark_target(Some(at(5)), now), Ok(Some(at(5))));
    let refused = MarkRefused::Forgotten { oldest: at(5), wanted: at(4) };
    assert_eq!(told.mark_target(Some(at(4)), now), Err(refused));
    assert!(refused.to_string().contains("reaches back to period 2026-03-05"), "{refused}");

    // An active run's entry is kept whatever its age; those after it may be gone all the same.
    let mut long = document(20, Missed, &[(1, Executed), (5, Missed)]);
    long.history[0].run = Some(RunId::from_bits(7));
    long.active_execution = Some(active(at(1), at(1)));
    let refused = MarkRefused::Forgotten { oldest: at(5), wanted: at(4) };
    assert_eq!(long.mark_target(Some(at(4)), now), Err(refused));

    let empty = document(20, Missed, &[]);
    assert_eq!(empty.mark_target(Some(at(9)), now), Err(MarkRefused::NoHistory(at(9))));
    // Forwards nothing can be repeated.
    let behind = document(3, Missed, &[]);
    assert_eq!(behind.mark_target(Some(at(9)), now), Ok(Some(at(9))));
    assert_eq!(Document::new("a").mark_target(Some(at(9)), now), Ok(Some(at(9))));
    assert_eq!(behind.mark_target(Some(at(3)), now), Ok(None));
}

#[test]
fn a_reset_takes_the_outcome_that_is_recorded_and_repeats_nothing() {
    let stretch = HistoryEntry {
        last_period: Some(at(6)),
        count: Some(3),
        chosen_time: None,
        ..entry(at(4), Missed, Some(at(7)))
    };
    let unschedulable =
        HistoryEntry { completed_at: Some(at(7)), ..entry(at(7), Unschedulable, None) };
    let executed = entry(at(8), Executed, Some(on(8, 3)));
    let foreign = entry(at(9), Skipped, None);
    let mut before = document(20, Executed, &[]);
    before.history = vec![stretch, unschedulable, executed, foreign];
    for (to, outcome, chosen) in [
        (at(6), Missed, Some(at(6))),
        (at(7), Unschedulable, None),
        (at(8), Executed, Some(on(8, 3))),
        (at(9), Skipped, Some(at(9))),
        (at(20), Executed, Some(at(20))),
    ] {
        let mut document = before.clone();
        document.reset(Some(to), at(10), 100);
        let mark = (document.last_handled, document.last_outcome, document.last_chosen_time);
        assert_eq!(mark, (Some(to), Some(outcome), chosen), "{to}");
        assert_eq!(document.history, before.history, "{to}: it has its entry");
        check_sound(&document);
    }

    let mut document = before.clone();
    document.reset(Some(on(9, 5)), at(10), 100);
    let entry = document.history.last().unwrap();
    assert_eq!((entry.outcome, entry.nominal_time), (Some(Missed), Some(on(9, 5))));
    let reason = "mark reset from 2026-03-20T00:00:00Z to 2026-03-09T05:00:00Z";
    assert_eq!(entry.reason.as_deref(), Some(reason));
    check_sound(&document);

    let mut document = before.clone();
    document.reset(None, at(10), 100);
    assert_eq!((document.last_handled, document.last_chosen_time), (None, None));
    assert_eq!(document.history, before.history);
    assert_eq!(document.executed_ahead, [at(8), at(20)]);
    check_sound(&document);
}
