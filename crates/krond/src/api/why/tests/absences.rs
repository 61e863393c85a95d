//! Periods of which nothing is recorded, and why.

use super::*;

#[test]
fn it_is_not_yet_due() {
    let world = World::hourly("02:47");
    check(
        &world.at("05:00"),
        "waiting",
        None,
        &[
            "Period 2026-03-10T05:00:00Z is due at 2026-03-10T05:00:00Z.",
            "It is not yet due: that is in 2h13m, at 2026-03-10T05:00:00Z.",
        ],
    );
    // A time that is no period's means the one that had last fallen due.
    assert_eq!(world.at("05:01").period_id.as_deref(), Some("2026-03-10T05:00:00Z"));
    assert_eq!(world.at("04:59").period_id.as_deref(), Some("2026-03-10T04:00:00Z"));
}

#[test]
fn a_suspended_job_waits_for_nothing() {
    let mut world = World::hourly("02:47");
    world.job().suspension = Some(Suspension::Hand);
    let view = world.at("05:00");
    assert_eq!((view.answer.as_str(), view.reason.as_deref()), ("waiting", Some("suspended")));
    assert_eq!(
        view.sentences[2],
        "The job is suspended by hand: unless that is lifted before, it does not run."
    );
    let next = world.why(&Asked::Now).sentences.pop().unwrap();
    assert_eq!(
        next,
        "The next period would be 2026-03-10T03:00:00Z, due at 2026-03-10T03:00:00Z, in 13m; but \
         the job is suspended by hand."
    );
}

#[test]
fn a_mark_in_the_future_stops_everything() {
    let mut world = World::hourly("02:47");
    world.document.last_handled = Some(at("2027-01-01T00:00:00Z"));
    world
        .epoch("02:00", EpochEvent::Reset { identity: "another".to_owned(), from: None, to: None });
    check(
        &world.at("05:00"),
        "none",
        Some("already handled"),
        &[
            "Period 2026-03-10T05:00:00Z is due at 2026-03-10T05:00:00Z.",
            "It is not yet due: that is in 2h13m, at 2026-03-10T05:00:00Z.",
            "It will not run: period 2027-01-01T00:00:00Z counts as handled, and the mark never \
             moves back by itself. `kron state reset` moves it, with the daemon stopped.",
        ],
    );
}

#[test]
fn suspended_by_hand_by_definition_and_lifted() {
    let suspend = EpochEvent::Suspend { identity: NAME.to_owned() };
    let resume = EpochEvent::Resume { identity: NAME.to_owned() };
    let lesson = "A suspended job handles nothing, and what falls due meanwhile is not caught up.";

    let mut world = World::hourly("06:30");
    world.epoch("04:50", suspend).epoch("05:50", resume);
    world.job().past.resumed_at = Some(on("05:50"));
    world.entry(ran("06:00", "06:00", Some("06:01")));
    let by_hand = "The job was suspended by hand from 2026-03-10T04:50:00Z to 2026-03-10T05:50:00Z \
                   (1h).";
    check(
        &world.at("05:00"),
        "none",
        Some("fell due while suspended"),
        &["Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.", by_hand, lesson],
    );
    assert_eq!(world.at("06:00").answer, "executed");
    // Before it, only the history could tell.
    assert_eq!(world.at("04:00").answer, "unknown");

    let mut world = World::hourly("05:30");
    world.job().suspension = Some(Suspension::Definition);
    check(
        &world.at("05:00"),
        "none",
        Some("suspended"),
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "The job was suspended by its definition for an unknown time.",
            lesson,
        ],
    );

    let mut world = World::hourly("05:30");
    world.job().past.resumed_at = Some(on("05:20"));
    assert_eq!(
        world.at("05:00").sentences[1],
        "The job was suspended by hand or definition until 2026-03-10T05:20:00Z, nobody knows since \
         when."
    );
}

#[test]
fn it_fell_due_before_the_job_was_created() {
    let mut world = World::hourly("05:30");
    world.job().past.created_at = Some(on("05:10"));
    check(
        &world.at("05:00"),
        "none",
        Some("fell due before the job was created"),
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "It fell due before the job was created: krond first saw the job at \
             2026-03-10T05:10:00Z, and a new job never runs the past.",
        ],
    );
}

#[test]
fn the_history_does_not_reach_back() {
    let mut world = World::hourly("05:30");
    world.entry(ran("05:00", "05:00", Some("05:12")));
    check(
        &world.at("02:00"),
        "unknown",
        Some("already handled"),
        &[
            "Period 2026-03-10T02:00:00Z was due at 2026-03-10T02:00:00Z.",
            "What became of it is not known any more: the history keeps 100 entries, has 1 and no \
             longer reaches back that far; the oldest is about period 2026-03-10T05:00:00Z.",
        ],
    );
}

#[test]
fn a_moved_mark_is_no_outcome() {
    let mut world = World::hourly("05:30");
    world.entry(ran("02:00", "02:00", Some("02:01")));
    let moved = HistoryEntry {
        nominal_time: Some(on("04:00")),
        completed_at: Some(on("04:30")),
        reason: Some("mark reset from none to 2026-03-10T04:00:00Z".to_owned()),
        ..HistoryEntry::new(PeriodRef::Period(on("04:00")))
    };
    world.entry(moved).epoch(
        "04:30",
        EpochEvent::Reset {
            identity: NAME.to_owned(),
            from: Some(at("2027-01-01T00:00:00Z")),
            to: Some(on("04:00")),
        },
    );
    for period in ["03:00", "04:00"] {
        let view = world.at(period);
        assert_eq!(view.answer, "none");
        assert_eq!(
            view.sentences[1..],
            [
                "A later period was handled before it could be judged, and what is handled is never \
                 gone back to.",
                "Somebody reset the job's mark at 2026-03-10T04:30:00Z, from 2027-01-01T00:00:00Z \
                 to 2026-03-10T04:00:00Z.",
            ]
        );
    }
}

#[test]
fn it_cannot_be_started() {
    let mut world = World::new("0 * * * * @policy(deadline=30m)", "05:03");
    let failure = StartFailure {
        category: Category::Execution,
        operation: "exec".to_owned(),
        message: "No such file or directory".to_owned(),
    };
    world.job().failing = Some((4, failure));
    check(
        &world.at("05:00"),
        "failing",
        Some("No such file or directory"),
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "It could not be started so far, 3m after its chosen time, and is tried again until its \
             deadline or the next period. Its deadline is 30m after its chosen time.",
            "Attempt 4 failed: exec: No such file or directory (ExecutionError).",
        ],
    );
}

#[test]
fn nothing_recorded_yet_is_said() {
    let world = World::hourly("05:00:01");
    let view = world.at("05:00");
    assert_eq!(view.answer, "unknown");
    assert_eq!(
        view.sentences[1],
        "It fell due 1s ago and nothing is recorded about it yet; krond is about to judge it or to \
         write it down."
    );
    let mut world = World::hourly("05:00:01");
    world.job().past.replacing = Some(on("05:00"));
    assert_eq!(world.at("05:00").answer, "starting");
}

#[test]
fn what_is_handled_and_not_written_yet_is_told() {
    let mut world = World::hourly("05:00:01");
    world.entry(ran("04:00", "04:00", Some("04:01")));
    world.job().past.last_handled = Some(on("05:00"));
    assert_eq!(
        world.at("05:00").sentences[1],
        "It was handled a moment ago; that is being written down at this moment."
    );
    world.job().last = Some(Last {
        period: PeriodRef::Period(on("05:00")),
        outcome: Outcome::Missed,
        reason: Some("superseded".into()),
        ending: None,
        status: None,
        started_at: None,
        completed_at: Some(on("05:00")),
    });
    check(
        &world.at("05:00"),
        "missed",
        Some("superseded"),
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "It was missed: superseded; that is being written down at this moment.",
        ],
    );
}

#[test]
fn no_period_at_all() {
    let world = World::new("0 0 0 1 1 ? 2030", "05:30");
    check(
        &world.why(&Asked::Now),
        "none",
        None,
        &[
            "No period of the job had fallen due at 2026-03-10T05:30:00Z.",
            "The next period is 2030-01-01T00:00:00Z, due at 2030-01-01T00:00:00Z, in 1392d18h30m.",
        ],
    );
    let world = World::new("0 0 0 1 1 ? 2025", "05:30");
    assert_eq!(
        world.why(&Asked::Now).sentences.last().unwrap(),
        "The schedule has no further period."
    );
}
