//! Outcomes, deadlines, concurrency, suspension, edits, creation and clocks: a row for each rule.

use super::*;

/// What happens at each of the times in turn.
#[track_caller]
fn check(sentence: &str, scene: &mut Scene, rows: &[(&str, &str)]) {
    for (time, expected) in rows {
        assert_eq!(scene.live(time), *expected, "{sentence}: at {time}");
    }
}

#[test]
fn deadlines() {
    let row = |sentence: &str, text: &str, time: &str, story: &str| {
        check(sentence, &mut Scene::new(text), &[(time, story)]);
    };
    let started = "start 00:10:00, JobCreated 00:10:00";
    row("without a deadline, in the chosen second", "*/10 * * * *", "00:10:00", started);
    row("without a deadline, a second late", "*/10 * * * *", "00:10:01", "PeriodMissed 00:10:00");
    let minute = "*/10 * * * * @policy(deadline=60s)";
    row("at the deadline", minute, "00:11:00", started);
    row("a second after the deadline", minute, "00:11:01", "PeriodMissed 00:10:00");
    row("a second early", minute, "00:09:59", "");

    let mut scene = Scene::new(minute);
    scene.live("00:11:01");
    assert_eq!(scene.last(), (Outcome::Missed, "deadline exceeded, 1m1s late".to_owned()));
    assert_eq!((scene.handled(), scene.next()), ("00:10:00".into(), "00:20:00 at 00:20:00".into()));
}

#[test]
fn a_run_takes_one_start_and_one_status() {
    let mut scene = Scene::new("*/10 * * * *");
    assert_eq!(scene.next(), "00:10:00 at 00:10:00");
    assert_eq!(scene.live("00:10:00"), "start 00:10:00, JobCreated 00:10:00");
    assert_eq!((scene.handled(), scene.next()), ("00:10:00".into(), "00:20:00 at 00:20:00".into()));
    let last = scene.status.last.clone().unwrap();
    assert_eq!(last.outcome, Outcome::Executed);
    assert_eq!(last.job.as_deref(), Some("kj-20260301t001000z"));
    assert_eq!((last.chosen_time, last.recorded_at), (Some(at("00:10:00")), at("00:10:00")));
    assert_eq!(scene.plan("00:10:00").wake, Some(at("00:20:00")));
    assert_eq!(scene.live("00:10:01"), "", "nothing twice");
}

#[test]
fn concurrency() {
    let made = ("00:10:00", "start 00:10:00, JobCreated 00:10:00");
    let policy = |concurrency| format!("*/10 * * * * @policy(concurrency={concurrency})");
    let mut scene = Scene::new(&policy("allow"));
    let again = ("00:20:00", "start 00:20:00, JobCreated 00:20:00");
    check("allow runs both", &mut scene, &[made, again]);
    assert_eq!(scene.status.active_count, 2);

    let mut scene = Scene::new(&policy("forbid"));
    check("forbid skips", &mut scene, &[made, ("00:20:00", "PeriodSkipped 00:20:00")]);
    assert_eq!(scene.last(), (Outcome::Skipped, "an execution is active".to_owned()));
    scene.finish("00:25:00");
    let next = ("00:30:00", "start 00:30:00, JobCreated 00:30:00");
    check("forbid runs when nothing is active", &mut scene, &[("00:25:00", "store"), next]);

    let mut scene = Scene::new(&policy("forbid"));
    scene.live("00:10:00");
    scene.jobs[0].deleting = true;
    check("what is being deleted is not active", &mut scene, &[("00:15:00", "store"), again]);

    let mut scene = Scene::new(&policy("replace"));
    let replaced = "store, start 00:20:00 for 20260301t001000z, JobCreated 00:20:00";
    check("replace ends the active one", &mut scene, &[made, ("00:20:00", replaced)]);
    assert_eq!(scene.status.active.len(), 1);
    let mut scene = Scene::new(&policy("replace"));
    scene.live("00:10:00");
    scene.finish("00:12:00");
    check("replace with nothing active", &mut scene, &[("00:12:00", "store"), again]);

    let mut scene = Scene::new(&policy("forbid"));
    let mut manual = owned(at("00:05:00"), at("00:05:00"), JobState::Active);
    manual.period = None;
    scene.jobs.push(manual);
    check(
        "a Job without a period counts as active",
        &mut scene,
        &[("00:05:00", "store"), ("00:10:00", "PeriodSkipped 00:10:00")],
    );

    let mut scene = Scene::new("*/10 * * * * @policy(concurrency=forbid)");
    scene.live("00:10:00");
    check(
        "the deadline is judged before the policy",
        &mut scene,
        &[("00:20:01", "PeriodMissed 00:20:00")],
    );
}

#[test]
fn a_replacement_that_has_begun_is_not_judged_again() {
    let replace = "*/10 * * * * @policy(concurrency=replace)";
    let begun = || {
        let mut scene = Scene::new(replace);
        scene.live("00:10:00");
        let Step::Store { status, urgent, .. } = scene.plan("00:20:00").step else { panic!() };
        assert_eq!(urgent, Some(at("00:20:00")));
        assert_eq!(status.next.as_ref().unwrap().replacing_since, Some(at("00:20:00")));
        scene.status = *status;
        scene
    };
    let replaced = "start 00:20:00 for 20260301t001000z, JobCreated 00:20:00";
    check("late", &mut begun(), &[("00:21:00", replaced)]);
    check("much too late", &mut begun(), &[("00:21:01", "PeriodMissed 00:20:00")]);
    let mut scene = begun();
    scene.jobs.clear();
    check(
        "with the old one gone",
        &mut scene,
        &[("00:20:30", "start 00:20:00, JobCreated 00:20:00")],
    );
    let mut scene = begun();
    scene.edit(&format!("{replace} @tz(Europe/Paris)"));
    check("after an edit", &mut scene, &[("00:21:00", &format!("store, {replaced}"))]);
    let mut scene = begun();
    scene.edit("*/10 * * * * @policy(concurrency=replace,suspend=true)");
    check("after a suspension", &mut scene, &[("00:21:00", &format!("store, {replaced}"))]);
    assert_eq!(scene.next(), "", "and nothing after it");
    check(
        "a later period falls due",
        &mut begun(),
        &[(
            "00:30:00",
            "PeriodMissed 00:20:00, start 00:30:00 for 20260301t001000z, JobCreated 00:30:00",
        )],
    );
    let mut scene = begun();
    scene.term = "two/2".to_owned();
    check("by another term", &mut scene, &[("00:20:05", &format!("store, {replaced}"))]);
}

#[test]
fn suspension() {
    let lax = |suspend| format!("*/10 * * * * @policy(deadline=1h,suspend={suspend})");
    let mut scene = Scene::new(&lax(false));
    scene.live("00:10:00");
    scene.finish("00:10:05");
    scene.live("00:10:05");
    scene.edit(&lax(true));
    let outcomes = scene.outcomes();
    check("suspended", &mut scene, &[("00:15:00", "store"), ("00:20:00", ""), ("00:30:00", "")]);
    assert_eq!(scene.status.suspended_at, Some(at("00:15:00")));
    assert_eq!((scene.next(), scene.handled()), (String::new(), "00:10:00".to_owned()));
    assert_eq!(scene.plan("00:30:00").wake, None);
    scene.edit(&lax(false));
    check("resumed in the chosen second", &mut scene, &[("00:40:00", "store"), ("00:45:00", "")]);
    assert_eq!((scene.status.suspended_at, scene.status.resumed_at), (None, Some(at("00:40:00"))));
    assert_eq!(scene.outcomes(), outcomes, "what fell due meanwhile has no outcome");
    check("afterwards", &mut scene, &[("00:50:00", "start 00:50:00, JobCreated 00:50:00")]);

    let mut scene = Scene::unseen(&lax(true));
    check("suspended from the start", &mut scene, &[("00:00:01", "store"), ("00:10:00", "")]);
    scene.edit(&lax(false));
    check(
        "and resumed",
        &mut scene,
        &[("00:12:00", "store"), ("00:20:00", "start 00:20:00, JobCreated 00:20:00")],
    );

    let mut scene = Scene::new(&lax(false));
    scene.edit(&lax(true));
    check("suspended while nobody looked", &mut scene, &[("00:15:00", "store")]);
    assert_eq!((scene.handled(), scene.outcomes().len()), (String::new(), 0), "nothing is handled");
}

#[test]
fn edits() {
    let lax = "*/10 * * * * @policy(deadline=1h)";
    let mut scene = Scene::new(lax);
    scene.edit("5,12,25 * * * * @policy(deadline=1h)");
    check(
        "nothing of the past runs",
        &mut scene,
        &[("00:13:00", "PeriodSkipped 00:05:00 + PeriodSkipped 00:12:00")],
    );
    assert_eq!(
        scene.outcomes(),
        ["00:05:00 skipped: definition changed", "00:12:00 skipped: definition changed",]
    );
    assert_eq!(scene.status.effective_from, Some(at("00:13:00")));
    check("the future does", &mut scene, &[("00:25:00", "start 00:25:00, JobCreated 00:25:00")]);

    let mut scene = Scene::new(lax);
    scene.edit("10 * * * * @policy(deadline=1h)");
    check("chosen in the very second", &mut scene, &[("00:10:00", "PeriodSkipped 00:10:00")]);

    let mut scene = Scene::new(lax);
    scene.live("00:10:00");
    scene.finish("00:10:10");
    scene.live("00:10:10");
    scene.edit("0,10,20,30 * * * * @policy(deadline=1h) @tz(Europe/Paris)");
    check("what was handled stays handled", &mut scene, &[("00:15:00", "store")]);
    assert_eq!((scene.handled(), scene.next()), ("00:10:00".into(), "00:20:00 at 00:20:00".into()));

    let mut scene = Scene::new(lax);
    scene.edit("*/10 * * * * @policy(deadline=2h,concurrency=allow)");
    check(
        "a policy decides nothing",
        &mut scene,
        &[("00:11:00", "start 00:10:00, JobCreated 00:10:00")],
    );
    assert_eq!(scene.status.effective_from, None);

    let mut scene = Scene::new("*/10 * * * * @win(after,5m) @policy(deadline=1h)");
    let before = scene.next();
    scene.edit("*/10 * * * * @win(after,5m) @seed(stable,salt=x) @policy(deadline=1h)");
    check("another seed", &mut scene, &[("00:01:00", "PeriodSkipped 00:00:00")]);
    assert_ne!(scene.next(), before, "the claim is of the new second");
}

#[test]
fn creation() {
    let mut scene = Scene::unseen("*/10 * * * * @policy(deadline=1d)");
    scene.created_at = at("00:10:00");
    check("a period chosen when it was created", &mut scene, &[("00:10:00", "store")]);
    assert_eq!((scene.handled(), scene.next()), (String::new(), "00:20:00 at 00:20:00".to_owned()));
    let mut scene = Scene::unseen("*/10 * * * * @policy(deadline=1d)");
    scene.created_at = at("00:09:59");
    check(
        "one chosen a second later, seen late",
        &mut scene,
        &[("00:12:00", "store, start 00:10:00, JobCreated 00:10:00")],
    );
    let mut scene = Scene::unseen("*/10 * * * * @policy(deadline=1d)");
    scene.created_at = at("02:00:00");
    check(
        "created by a clock that is ahead",
        &mut scene,
        &[("00:05:00", "store"), ("00:10:00", "store")],
    );
    assert_eq!(scene.next(), "00:20:00 at 00:20:00");
}

#[test]
fn the_passed_over_are_one_record() {
    let mut scene = Scene::new("*/10 * * * * @policy(deadline=5m)");
    scene.live("00:10:00");
    scene.finish("00:10:10");
    scene.live("00:10:10");
    check(
        "after an outage",
        &mut scene,
        &[("01:03:00", "PeriodMissed 00:50:00, start 01:00:00, JobCreated 01:00:00")],
    );
    assert_eq!(scene.outcomes()[1], "00:20:00..00:50:00 missed (4): superseded");
    assert_eq!(scene.handled(), "01:00:00");

    let mut scene = Scene::new("*/10 * * * * @policy(deadline=5m)");
    check(
        "the last one late, too",
        &mut scene,
        &[("00:26:00", "PeriodMissed 00:10:00 + PeriodMissed 00:20:00")],
    );
    assert_eq!(
        scene.outcomes(),
        ["00:10:00 missed: superseded", "00:20:00 missed: deadline exceeded, 6m late",]
    );
    let Step::Store { .. } =
        Scene::unseen("* * * * *").plan_at("2027-03-01T00:00:00Z".parse().unwrap()).step
    else {
        panic!("a year of minutes is one status");
    };
}

#[test]
fn clocks_that_leap() {
    let mut scene = Scene::new("*/10 * * * * @policy(deadline=1h)");
    scene.live("00:10:00");
    scene.finish("00:10:10");
    scene.live("00:10:10");
    scene.live("00:20:00");
    scene.finish("00:20:10");
    scene.live("00:20:10");
    let handled = scene.handled();
    check(
        "back",
        &mut scene,
        &[("00:05:00", ""), ("00:10:00", ""), ("00:15:00", ""), ("00:20:00", "")],
    );
    assert_eq!((scene.handled(), scene.next()), (handled, "00:30:00 at 00:30:00".to_owned()));
    assert_eq!(scene.plan("00:05:00").wake, Some(at("00:30:00")));
    check("and on", &mut scene, &[("00:30:00", "start 00:30:00, JobCreated 00:30:00")]);
    scene.finish("00:30:10");
    scene.live("00:30:10");
    check(
        "far ahead",
        &mut scene,
        &[("12:00:00", "PeriodMissed 11:50:00, start 12:00:00, JobCreated 12:00:00")],
    );
    scene.finish("12:00:10");
    scene.live("12:00:10");
    check("and back again", &mut scene, &[("00:40:00", ""), ("01:00:00", "")]);
    assert_eq!(scene.handled(), "12:00:00");
}

#[test]
fn no_second_is_allowed() {
    let mut scene = Scene::new("*/10 * * * * @win(after,5m) @avoid(hours=0)");
    assert_eq!(scene.next(), "00:10:00 at never");
    assert_eq!(scene.holding(), [ConditionKind::Ready, ConditionKind::Unschedulable]);
    check(
        "it is handled when its window begins",
        &mut scene,
        &[("00:10:00", "PeriodUnschedulable 00:10:00")],
    );
    let outcomes = scene.outcomes();
    assert_eq!(outcomes.len(), 1);
    assert!(outcomes[0].starts_with("00:10:00 unschedulable: "), "{outcomes:?}");
    check(
        "and the next, at last one that is",
        &mut scene,
        &[
            ("00:20:00", "PeriodUnschedulable 00:20:00"),
            ("00:59:00", "PeriodMissed 00:40:00 + PeriodUnschedulable 00:50:00"),
        ],
    );
    assert!(scene.holding().contains(&ConditionKind::Unschedulable));
    let next = scene.status.next.clone().unwrap().chosen_time.unwrap();
    scene.live_at(next);
    assert_eq!(scene.last().0, Outcome::Executed);
    assert_eq!(scene.holding(), [ConditionKind::Ready]);
}

/// Windows that touch can share a second: both periods are evaluated, in their order.
#[test]
fn two_periods_in_one_second() {
    let scene = |concurrency| {
        let policy = format!("* * * * * @win(after,60s) @policy(concurrency={concurrency})");
        let mut scene = Scene::unseen(&policy);
        let definition = scene.definition.clone().unwrap();
        let decisions: Vec<_> =
            definition.timing.periods_after(scene.created_at).take(20_000).collect();
        let pair = decisions.windows(2).find(|pair| pair[0].due() == pair[1].due());
        let [first, second] = pair.expect("some windows share a second") else { panic!() };
        scene.created_at = first.due().saturating_add(-30);
        scene.live_at(first.due().saturating_add(-20));
        let words = [clock(first.nominal), clock(second.nominal), job::compact(first.nominal)];
        (scene, first.due(), words)
    };
    let (mut both, due, [first, second, _]) = scene("allow");
    let story = both.live_at(due);
    let expected =
        format!("start {first}, JobCreated {first}, start {second}, JobCreated {second}");
    assert_eq!(story, expected);
    let (mut one, due, [first, second, _]) = scene("forbid");
    assert_eq!(
        one.live_at(due),
        format!("start {first}, JobCreated {first} + PeriodSkipped {second}")
    );
    let (mut other, due, [first, second, label]) = scene("replace");
    let label = label.to_lowercase();
    let expected = format!(
        "start {first}, JobCreated {first}, start {second} for {label}, JobCreated {second}"
    );
    assert_eq!(other.live_at(due), expected);
    let (mut late, due, [first, second, _]) = scene("allow");
    let story = late.live_at(due.saturating_add(1));
    assert_eq!(story, format!("PeriodMissed {first} + PeriodMissed {second}"));
}

#[test]
fn an_invalid_spec_and_its_mending() {
    let lax = "*/10 * * * * @policy(deadline=1h)";
    let mut scene = Scene::new(lax);
    scene.spoil("spec.window: nonsense");
    check(
        "told once",
        &mut scene,
        &[("00:05:00", "InvalidSpec"), ("00:06:00", ""), ("00:10:00", "")],
    );
    assert_eq!(scene.holding(), [ConditionKind::InvalidSpec]);
    assert_eq!((scene.next(), scene.plan("00:10:00").wake), (String::new(), None));
    scene.spoil("spec.window: other nonsense");
    check("told again when it is another", &mut scene, &[("00:11:00", "InvalidSpec")]);
    scene.edit(lax);
    check(
        "mending runs nothing of the past",
        &mut scene,
        &[("00:12:00", "PeriodSkipped 00:10:00")],
    );
    assert_eq!(scene.holding(), [ConditionKind::Ready]);
    check("but the future", &mut scene, &[("00:20:00", "start 00:20:00, JobCreated 00:20:00")]);

    let mut scene = Scene::unseen(lax);
    scene.spoil("spec.window: nonsense");
    check("invalid from the start", &mut scene, &[("00:00:01", "InvalidSpec")]);
    scene.edit(lax);
    check(
        "mending it runs nothing of the past",
        &mut scene,
        &[("00:12:00", "PeriodSkipped 00:10:00")],
    );

    let mut scene = Scene::new(lax);
    scene.live("00:10:00");
    scene.spoil("spec.window: nonsense");
    scene.finish("00:10:30");
    scene.live("00:10:30");
    let last = scene.status.last.clone().unwrap();
    assert_eq!(last.result.as_deref(), Some("succeeded"), "Jobs are followed all the same");
    assert_eq!(scene.handled(), "00:10:00");
}
