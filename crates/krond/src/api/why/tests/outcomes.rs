//! Periods and runs of which something is recorded.

use super::*;

#[test]
fn it_ran() {
    let mut world = World::hourly("05:30");
    world.entry(ran("05:00", "05:00", Some("05:12")));
    check(
        &world.why(&Asked::Now),
        "executed",
        None,
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "It was started at 2026-03-10T05:00:00Z, on time, as run 00000000000000aa.",
            "It ended at 2026-03-10T05:12:00Z after 12m, exit code 0.",
            "The next period is 2026-03-10T06:00:00Z, due at 2026-03-10T06:00:00Z, in 30m.",
        ],
    );
}

#[test]
fn windows_and_zones_are_told() {
    let world = World::new("0 6 * * * @tz(Europe/Paris) @win(after,2h)", "04:30");
    let view = world.at("05:00");
    assert_eq!(
        view.sentences[0],
        "Period 2026-03-10T05:00:00Z is due at 2026-03-10 06:55:20+01:00 (2026-03-10T05:55:20Z), a \
         second of its window 2026-03-10T05:00:00Z to 2026-03-10T07:00:00Z."
    );
    assert_eq!(view.nominal_local.as_deref(), Some("2026-03-10 06:00:00+01:00"));
    assert_eq!(view.chosen_local.as_deref(), Some("2026-03-10 06:55:20+01:00"));
    let decision = view.decision.unwrap();
    assert_eq!(decision.chosen_time.as_deref(), Some("2026-03-10T05:55:20Z"));
    assert_eq!(decision.seed_hash.len(), 64);
}

#[test]
fn endings_are_told_apart() {
    let rows = [
        (Ending::Exited, Some(3), None, "It ended at 2026-03-10T05:12:00Z after 12m, exit code 3."),
        (
            Ending::Signalled,
            None,
            Some(9),
            "It was ended by signal 9 at 2026-03-10T05:12:00Z after 12m.",
        ),
        (
            Ending::TimedOut,
            None,
            Some(15),
            "It ran into its timeout and was ended at 2026-03-10T05:12:00Z after 12m, signal 15.",
        ),
        (
            Ending::Replaced,
            None,
            Some(15),
            "A later period took its place: it was ended at 2026-03-10T05:12:00Z after 12m, signal \
             15.",
        ),
        (
            Ending::Stopped,
            Some(0),
            None,
            "It was stopped by request at 2026-03-10T05:12:00Z after 12m, exit code 0.",
        ),
        (
            Ending::Lost,
            None,
            None,
            "Nobody saw its end: at 2026-03-10T05:12:00Z it was found gone, and may or may not have \
             run to its end.",
        ),
    ];
    for (ending, exit_code, signal, sentence) in rows {
        let mut world = World::hourly("05:30");
        let ended = ran("05:00", "05:00", Some("05:12"));
        world.entry(HistoryEntry { ending: Some(ending), exit_code, signal, ..ended });
        let view = world.at("05:00");
        assert_eq!(view.answer, "executed", "{ending}");
        assert_eq!(view.sentences[2], sentence);
    }
}

#[test]
fn a_lost_run_names_the_daemons_absence_and_a_long_log_what_was_dropped() {
    let mut world = World::hourly("05:30");
    let lost = ran("05:00", "05:00", Some("05:12"));
    world.down("05:05", "05:12").entry(HistoryEntry {
        ending: Some(Ending::Lost),
        exit_code: None,
        output_dropped: Some(7),
        ..lost
    });
    assert_eq!(
        world.at("05:00").sentences[3..],
        [
            "krond was down from 2026-03-10T05:05:00Z to 2026-03-10T05:12:00Z (7m): it had been \
             stopped (`leave`).",
            "7 bytes of its output went beyond the log's size and were dropped.",
        ]
    );
}

#[test]
fn it_runs_or_is_being_started() {
    let mut world = World::hourly("05:30");
    world.entry(ran("05:00", "05:00", None));
    check(
        &world.at("05:00"),
        "running",
        None,
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "It was started at 2026-03-10T05:00:00Z, on time, as run 00000000000000aa.",
            "It has not ended.",
        ],
    );
    for (stage, answer, sentence) in [
        ("starting", "starting", "It is being started, as run 00000000000000aa."),
        ("running", "running", "It is running, as run 00000000000000aa."),
    ] {
        let mut world = World::hourly("05:00:01");
        world.job().active.push(RunView {
            run: run_id(),
            period: PeriodRef::Period(on("05:00")),
            stage,
            started_at: None,
            pid: None,
        });
        let view = world.at("05:00");
        assert_eq!((view.answer.as_str(), view.sentences[1].as_str()), (answer, sentence));
    }
    // As an earlier daemon left it.
    let mut world = World::hourly("05:00:01");
    world.document.active_execution = Some(ActiveState {
        period: PeriodRef::Period(on("05:00")),
        pid: 7,
        started_at: on("05:00"),
        chosen_time: on("05:00"),
        run: run_id(),
        start_ticks: 1,
        supervisor: Process { pid: 6, start_ticks: 1 },
        boot_id: "b".to_owned(),
        executed: true,
        unknown: serde_json::Map::new(),
    });
    assert_eq!(
        world.at("05:00").sentences[1],
        "It is running since 2026-03-10T05:00:00Z, as run 00000000000000aa."
    );
}

#[test]
fn krond_was_down_past_the_deadline() {
    let mut world = World::hourly("05:30");
    world.down("04:50", "05:20").entry(not_run(
        "05:00",
        Outcome::Missed,
        "deadline exceeded, 20m late",
        "05:20",
    ));
    check(
        &world.at("05:00"),
        "missed",
        Some("deadline exceeded, 20m late"),
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "It was missed: it could be judged only at 2026-03-10T05:20:00Z, 20m after its chosen \
             time, past its deadline (the job's deadline is 0s now).",
            "krond was down from 2026-03-10T04:50:00Z to 2026-03-10T05:20:00Z (30m): it had been \
             stopped (`leave`).",
        ],
    );
    let down = &world.at("05:00").down;
    assert_eq!((down[0].from, down[0].to), (Some(on("04:50")), Some(on("05:20"))));
}

#[test]
fn krond_was_down_over_several_periods() {
    let mut world = World::hourly("08:30");
    world.down("04:50", "08:10");
    world.entry(HistoryEntry {
        chosen_time: None,
        last_period: Some(on("07:00")),
        count: Some(3),
        ..not_run("05:00", Outcome::Missed, "superseded", "08:10")
    });
    for period in ["05:00", "06:00", "07:00"] {
        let view = world.at(period);
        check(
            &view,
            "missed",
            Some("superseded"),
            &[
                &format!("Period 2026-03-10T{period}:00Z was due at 2026-03-10T{period}:00Z."),
                "It was missed: period 2026-03-10T08:00:00Z had fallen due when krond came to judge \
                 it at 2026-03-10T08:10:00Z, and nothing is caught up.",
                "It is one of 3 periods from 2026-03-10T05:00:00Z to 2026-03-10T07:00:00Z that were \
                 passed over together.",
                "krond was down from 2026-03-10T04:50:00Z to 2026-03-10T08:10:00Z (3h20m): it had \
                 been stopped (`leave`).",
            ],
        );
        assert_eq!(view.superseded_by, Some(on("08:00")));
    }
    assert_eq!(world.at("04:00").answer, "unknown", "outside the stretch");
}

#[test]
fn krond_had_crashed() {
    let mut world = World::hourly("06:30");
    let event = EpochEvent::Start {
        version: "1".to_owned(),
        pid: 1,
        boot_id: "b".to_owned(),
        previous_alive_until: Some(on("04:50")),
    };
    world
        .epoch("05:20", EpochEvent::Crash { alive_until: Some(on("04:50")) })
        .epoch("05:20", event)
        .entry(not_run("05:00", Outcome::Missed, "deadline exceeded, 20m late", "05:20"));
    let said = |from: &str, length: &str| {
        format!(
            "krond was down from {from} to 2026-03-10T05:20:00Z ({length}): it had ended without \
             saying so, and {from} is its last sign of life."
        )
    };
    assert_eq!(world.at("05:00").sentences[2], said("2026-03-10T04:50:00Z", "30m"));
    // The job's own history knows better; that a run ended meanwhile proves nothing.
    world.entry(ran("04:00", "04:55", Some("05:10")));
    assert_eq!(world.at("05:00").sentences[2], said("2026-03-10T04:55:00Z", "25m"));
}

#[test]
fn krond_was_down_and_still_in_time() {
    let mut world = World::new("0 * * * * @policy(deadline=30m)", "05:30");
    world.down("04:50", "05:20").entry(ran("05:00", "05:20", Some("05:21")));
    let view = world.at("05:00");
    assert_eq!(view.late_seconds, Some(1_200));
    assert_eq!(
        view.sentences[1..],
        [
            "It was started at 2026-03-10T05:20:00Z, 20m after its chosen time, as run \
             00000000000000aa.",
            "It ended at 2026-03-10T05:21:00Z after 1m, exit code 0.",
            "krond was down from 2026-03-10T04:50:00Z to 2026-03-10T05:20:00Z (30m): it had been \
             stopped (`leave`).",
        ]
    );
}

#[test]
fn the_clock_was_set() {
    let mut world = World::hourly("05:50");
    world
        .epoch("05:40", EpochEvent::ClockStep { from: on("04:40"), to: on("05:40") })
        .epoch("05:45", EpochEvent::ClockStep { from: on("05:46"), to: on("05:45") })
        .entry(not_run("05:00", Outcome::Missed, "deadline exceeded, 40m late", "05:40"));
    assert_eq!(
        world.at("05:00").sentences[2..],
        ["The clock went ahead by 1h, from 2026-03-10T04:40:00Z to 2026-03-10T05:40:00Z."]
    );
    let mut held = World::hourly("05:00:30");
    held.clock_held_since = Some(at("2026-03-08T00:00:00Z"));
    let view = held.at("05:00");
    assert_eq!(view.reason.as_deref(), Some("the clock is not believed"));
    assert!(view.sentences[1].contains("`kron clock accept`"), "{view:?}");
}

#[test]
fn another_run_was_active() {
    let mut world = World::hourly("06:30");
    world.entry(ran("05:00", "05:00", Some("06:10"))).entry(not_run(
        "06:00",
        Outcome::Skipped,
        "an execution is active",
        "06:00",
    ));
    check(
        &world.at("06:00"),
        "skipped",
        Some("an execution is active"),
        &[
            "Period 2026-03-10T06:00:00Z was due at 2026-03-10T06:00:00Z.",
            "It was skipped: another run of the job was active, and its policy is `forbid`.",
            "Run 00000000000000aa of 2026-03-10T05:00:00Z was started at 2026-03-10T05:00:00Z and \
             ended at 2026-03-10T06:10:00Z.",
        ],
    );
}

#[test]
fn an_edit_came_between() {
    let mut world = World::hourly("05:30");
    world.job().past.effective_from = Some(on("05:10"));
    world.entry(not_run("05:00", Outcome::Skipped, "definition changed", "05:10"));
    check(
        &world.at("05:00"),
        "skipped",
        Some("definition changed"),
        &[
            "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
            "It was skipped: the definition changed at 2026-03-10T05:10:00Z, after it had fallen \
             due, and an edit never runs the past.",
        ],
    );
    assert_eq!(world.at("05:00").definition_changed_at, Some(on("05:10")));
}

#[test]
fn an_earlier_definition_had_other_periods() {
    let mut world = World::hourly("05:30");
    world.job().past.effective_from = Some(on("04:45"));
    world.entry(ran("04:20", "04:20", Some("04:21")));
    // Exactly that period, and a time at which it was the latest.
    for time in ["04:20", "04:40"] {
        check(
            &world.at(time),
            "executed",
            None,
            &[
                "Period 2026-03-10T04:20:00Z was due at 2026-03-10T04:20:00Z.",
                "It was decided by an earlier definition; the present one took effect at \
                 2026-03-10T04:45:00Z.",
                "It was started at 2026-03-10T04:20:00Z, on time, as run 00000000000000aa.",
                "It ended at 2026-03-10T04:21:00Z after 1m, exit code 0.",
            ],
        );
    }
    // A period of the present definition that came too late to be one.
    let mut world = World::hourly("05:30");
    world.job().past.effective_from = Some(on("04:45"));
    world.entry(ran("03:20", "03:20", Some("03:21"))).entry(ran("04:20", "04:20", Some("04:21")));
    let view = world.at("04:00");
    assert_eq!(view.answer, "unknown");
    assert_eq!(
        view.sentences[1],
        "The definition that has this period took effect at 2026-03-10T04:45:00Z, when later \
         periods were handled already: it was none of the job's periods when it would have been due."
    );
    // A window that was changed: the same period, another time.
    let mut world = World::new("0 * * * * @win(after,30m)", "06:30");
    world.job().past.effective_from = Some(on("05:45"));
    world.entry(ran("05:00", "05:00", Some("05:01")));
    let view = world.at("05:00");
    assert_eq!(view.decision, None);
    assert_eq!(view.sentences[0], "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.");
}

#[test]
fn the_other_reasons_are_told() {
    for (outcome, reason, sentence) in [
        (
            Outcome::Missed,
            "state lost",
            "It counts as missed: what was recorded about the job was found lost at \
             2026-03-10T05:20:00Z, and what may have run is not run again.",
        ),
        (
            Outcome::Missed,
            "start stalled",
            "It was missed: it could not be started within a minute of being judged, and was given \
             up.",
        ),
        (
            Outcome::Unschedulable,
            "no candidate accepted within MaxAttempts",
            "It is unschedulable: no candidate accepted within MaxAttempts.",
        ),
        (Outcome::Skipped, "a reason of tomorrow", "It was skipped: a reason of tomorrow."),
    ] {
        let mut world = World::hourly("05:30");
        world.entry(not_run("05:00", outcome, reason, "05:20"));
        let view = world.at("05:00");
        assert_eq!(view.answer, outcome.as_str());
        assert!(view.sentences.contains(&sentence.to_owned()), "{view:?}");
    }
}

#[test]
fn a_job_that_is_gone_has_a_past() {
    let mut world = World::hourly("05:30");
    world.entry(ran("05:00", "05:00", Some("05:12")));
    world.job = None;
    for asked in [Asked::Now, Asked::At(on("05:00"))] {
        check(
            &world.why(&asked),
            "executed",
            None,
            &[
                "Period 2026-03-10T05:00:00Z was due at 2026-03-10T05:00:00Z.",
                "It was started at 2026-03-10T05:00:00Z, on time, as run 00000000000000aa.",
                "It ended at 2026-03-10T05:12:00Z after 12m, exit code 0.",
                "The job is not defined any more.",
            ],
        );
    }
    check(
        &world.at("04:00"),
        "none",
        None,
        &[
            "Nothing is recorded about the job at 2026-03-10T04:00:00Z or before.",
            "The job is not defined any more.",
        ],
    );
}

#[test]
fn runs_by_hand_have_a_name() {
    let name = "manual/2026-03-10T05:05:00Z-00000000";
    let asked = Asked::parse(name).unwrap();
    let mut world = World::hourly("05:30");
    let unknown = world.why(&asked);
    assert_eq!(unknown.answer, "unknown");
    assert_eq!(
        unknown.sentences,
        [
            "Nothing is recorded about `manual/2026-03-10T05:05:00Z-00000000`: it was never started, \
          or the history, which keeps 100 entries, no longer reaches back to it."
        ]
    );
    let run = ran("05:00", "05:05", Some("05:06"));
    world.document.history.push(HistoryEntry {
        period: PeriodRef::Manual(name.into()),
        nominal_time: None,
        chosen_time: Some(on("05:05")),
        ..run
    });
    check(
        &world.why(&asked),
        "executed",
        None,
        &[
            "Somebody asked for this run by hand at 2026-03-10T05:05:00Z.",
            "It was started at 2026-03-10T05:05:00Z, as run 00000000000000aa.",
            "It ended at 2026-03-10T05:06:00Z after 1m, exit code 0.",
        ],
    );
    // It is no period, whatever time is asked about.
    assert_eq!(world.at("05:10").period_id.as_deref(), Some("2026-03-10T05:00:00Z"));
}

#[test]
fn questions_are_times_periods_or_runs_by_hand() {
    assert_eq!(Asked::parse("2026-03-10T06:00:00+01:00"), Ok(Asked::At(on("05:00"))));
    assert!(Asked::parse("yesterday").is_err());
}
