//! What is due, what was passed over, and that no period is ever silent.

use std::collections::BTreeMap;

use kron_core::{
    Active, Backlog, Decision, Host, Outcome, Past, PeriodStretch, Reason, Timing, TimingParser,
    UtcSecond, Verdict, judge,
};

fn time(text: &str) -> UtcSecond {
    text.parse().expect("a time")
}

fn timing(text: &str) -> Timing {
    TimingParser::new().parse(text, "job", Host::default()).expect("a valid expression")
}

fn nominals(backlog: &Backlog) -> Vec<String> {
    backlog.due.iter().map(Decision::period_id).collect()
}

#[test]
fn the_current_period_is_due_and_older_ones_are_one_stretch() {
    let hourly = timing("0 * * * *");
    let past = Past { last_handled: Some(time("2026-03-01T02:00:00Z")), ..Past::default() };
    let check = |past: &Past, now: &str, due: &[&str], superseded: Option<(&str, &str, u64)>| {
        let backlog = hourly.backlog(past, time(now));
        assert_eq!(nominals(&backlog), due, "{now}");
        let expected = superseded.map(|(first, last, count)| PeriodStretch {
            first: time(first),
            last: time(last),
            count,
        });
        assert_eq!(backlog.superseded, expected, "{now}");
    };
    check(&past, "2026-03-01T02:59:59Z", &[], None);
    check(&past, "2026-03-01T03:00:00Z", &["2026-03-01T03:00:00Z"], None);
    check(
        &past,
        "2026-03-01T06:30:00Z",
        &["2026-03-01T06:00:00Z"],
        Some(("2026-03-01T03:00:00Z", "2026-03-01T05:00:00Z", 3)),
    );
    // A clock that went back finds nothing to do.
    check(&past, "2026-02-28T12:00:00Z", &[], None);
    // A new job and a resumed one have nothing to make up for.
    let new = Past { created_at: Some(time("2026-03-01T04:10:00Z")), ..Past::default() };
    check(&new, "2026-03-01T05:30:00Z", &["2026-03-01T05:00:00Z"], None);
    check(
        &new,
        "2026-03-01T07:30:00Z",
        &["2026-03-01T07:00:00Z"],
        Some(("2026-03-01T05:00:00Z", "2026-03-01T06:00:00Z", 2)),
    );
    let resumed = Past { resumed_at: Some(time("2026-03-01T06:10:00Z")), ..past };
    check(&resumed, "2026-03-01T07:30:00Z", &["2026-03-01T07:00:00Z"], None);
    // Periods from before an edit are told apart from those after it.
    let edited = Past { effective_from: Some(time("2026-03-01T04:30:00Z")), ..past };
    let backlog = hourly.backlog(&edited, time("2026-03-01T07:30:00Z"));
    let stretch = |first: &str, last: &str, count| {
        Some(PeriodStretch { first: time(first), last: time(last), count })
    };
    assert_eq!(backlog.redefined, stretch("2026-03-01T03:00:00Z", "2026-03-01T04:00:00Z", 2));
    assert_eq!(backlog.superseded, stretch("2026-03-01T05:00:00Z", "2026-03-01T06:00:00Z", 2));
    assert_eq!(nominals(&backlog), ["2026-03-01T07:00:00Z"]);
    let backlog = hourly.backlog(&edited, time("2026-03-01T04:45:00Z"));
    assert_eq!(backlog.redefined, stretch("2026-03-01T03:00:00Z", "2026-03-01T03:00:00Z", 1));
    assert_eq!((backlog.superseded, nominals(&backlog).len()), (None, 1));
    // A period that falls due in the very second of the edit is from before it.
    let at_once = Past { effective_from: Some(time("2026-03-01T04:00:00Z")), ..past };
    let backlog = hourly.backlog(&at_once, time("2026-03-01T06:30:00Z"));
    assert_eq!(backlog.redefined, stretch("2026-03-01T03:00:00Z", "2026-03-01T04:00:00Z", 2));
    assert_eq!(backlog.superseded, stretch("2026-03-01T05:00:00Z", "2026-03-01T05:00:00Z", 1));
    // Nothing is known about the past: nothing can be said to have been missed.
    check(&Past::default(), "2026-03-01T07:30:00Z", &["2026-03-01T07:00:00Z"], None);
    // A year of downtime is one stretch and quickly found.
    let long = timing("* * * * * *").backlog(&past, time("2027-03-01T02:00:00Z"));
    assert_eq!(long.superseded.unwrap().count, 365 * 86_400 - 1);
}

#[test]
fn periods_that_share_their_chosen_second_are_all_due_in_order() {
    let dense = timing("* * * * * * @win(after,1s)");
    let mut shared = 0;
    for second in 0..600 {
        let now = time("2026-03-01T00:00:00Z").saturating_add(second);
        let backlog = dense.backlog(&Past::default(), now);
        let current = dense.current_at(now).unwrap();
        assert_eq!(backlog.due.last(), Some(&current));
        let expected: Vec<_> = dense
            .periods_after(now.saturating_add(-10))
            .take(20)
            .filter(|decision| decision.due() == current.due())
            .collect();
        assert_eq!(backlog.due, expected);
        shared += usize::from(expected.len() > 1);
    }
    assert!(shared > 50, "the case must occur: {shared}");
}

/// An adapter as small as can be: it asks for the backlog whenever it is awake and does what it is
/// told. Every period that falls due while the job exists must end with exactly one outcome.
fn outcomes(timing: &Timing, start: UtcSecond, steps: &[i64]) -> BTreeMap<UtcSecond, Outcome> {
    let mut past = Past { created_at: Some(start), ..Past::default() };
    let mut outcomes = BTreeMap::new();
    let mut now = start;
    for step in steps {
        now = now.saturating_add(*step);
        let backlog = timing.backlog(&past, now);
        let mut record = |nominal: UtcSecond, outcome: Outcome| {
            assert_eq!(outcomes.insert(nominal, outcome), None, "{nominal} has two outcomes");
            assert!(past.last_handled.is_none_or(|handled| handled < nominal), "{nominal} is late");
            past.last_handled = Some(nominal);
        };
        if let Some(PeriodStretch { first, last, count }) = backlog.superseded {
            let passed: Vec<UtcSecond> = timing
                .schedule()
                .after(first.saturating_add(-1))
                .take_while(|nominal| *nominal <= last)
                .collect();
            assert_eq!(passed.len() as u64, count);
            passed.into_iter().for_each(|nominal| record(nominal, Outcome::Missed));
        }
        for decision in &backlog.due {
            let active: [Active; 0] = [];
            let handled = outcomes.keys().next_back().copied();
            let known = Past { last_handled: handled, ..past };
            let outcome = match judge(decision, &timing.policy, &known, &active, now) {
                Verdict::Start { .. } => Outcome::Executed,
                Verdict::Record { outcome, .. } => outcome,
                Verdict::Leave { reason: Reason::DueBeforeCreation } => continue,
                other => panic!("{other:?}"),
            };
            assert_eq!(outcomes.insert(decision.nominal, outcome), None);
            past.last_handled = Some(decision.nominal);
        }
    }
    for decision in timing.periods_after(start.saturating_add(-100_000)) {
        if decision.window_start > now {
            break;
        }
        let expected = decision.due() > start && decision.due() <= now;
        let told = outcomes.contains_key(&decision.nominal);
        assert_eq!(told, expected, "{} due {}", decision.nominal, decision.due());
    }
    outcomes
}

#[test]
fn no_period_is_silent_whatever_the_clock_does() {
    let mut state = 11u64;
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as i64
    };
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for text in [
        "* * * * * * @win(after,1s)",
        "*/10 * * * * * @win(around,10s) @policy(deadline=2s)",
        "* * * * * @win(before,1m) @only(hours=0-11) @policy(deadline=30s)",
        "*/5 * * * * @win(after,5m) @policy(deadline=1h)",
        "30 2 * * * @tz(Europe/Paris) @win(around,6h) @policy(deadline=1d)",
    ] {
        let timing = timing(text);
        for _ in 0..40 {
            let start = time("2026-03-28T00:00:00Z").saturating_add(draw(3 * 86_400));
            let steps: Vec<i64> = (0..60)
                .map(|_| match draw(10) {
                    0 => -draw(600),
                    1 | 2 => 600 + draw(5_000),
                    3..=5 => draw(120),
                    _ => 1,
                })
                .collect();
            // The last step goes forward past every earlier one, so that all is settled.
            let steps: Vec<i64> = steps.into_iter().chain([20_000]).collect();
            for outcome in outcomes(&timing, start, &steps).values() {
                *seen.entry(outcome.as_str()).or_default() += 1;
            }
        }
    }
    for outcome in ["executed", "missed", "unschedulable"] {
        assert!(
            seen.get(outcome).is_some_and(|&count| count > 20),
            "{outcome} must occur: {seen:?}"
        );
    }
}

#[test]
fn windows_do_not_overlap_in_the_years_that_a_year_field_names() {
    let refused = |text: &str| TimingParser::new().parse(text, "job", Host::default()).is_err();
    assert!(refused("0 0 0 * * * 2070-2080 @win(after,30d)"));
    assert!(refused("0 0 0 * * * 1990-1991 @win(after,25h)"));
    assert!(!refused("0 0 0 * * * 2070-2080 @win(after,24h)"));
    assert!(!refused("0 0 0 1 1 * 2070 @win(after,366d)"));
    let pacific = "0 0 0 * * * 2011 @tz(Pacific/Apia) @dst(gap=skip)";
    assert!(!refused(&format!("{pacific} @win(after,23h)")));
    assert!(refused(&format!("{pacific} @win(after,25h)")));
}

#[test]
fn the_ends_of_time_are_passed_over_and_not_an_end_of_everything() {
    let early = timing("0 0 1 6 * @win(before,365d)");
    let first = early.periods_after(UtcSecond::MIN).next().unwrap();
    assert_eq!(first.period_id(), "0002-06-01T00:00:00Z");
    let late = timing("0 23 * * * @win(after,2h)");
    let current = late.current_at(time("9999-12-31T23:30:00Z")).unwrap();
    assert_eq!(current.period_id(), "9999-12-30T23:00:00Z");
    let tokyo = timing("0 9 * * * @tz(Asia/Tokyo) @seed(daily)");
    assert!(tokyo.placement().decide(time("9999-12-31T15:00:00Z")).is_err());
    assert!(tokyo.placement().decide(time("9999-12-31T14:59:59Z")).is_ok());
}

#[test]
fn a_replacement_that_has_begun_is_not_judged_late() {
    let job = timing("0 3 * * * @policy(concurrency=replace,deadline=10s)");
    let decision = job.placement().decide(time("2026-03-01T03:00:00Z")).expect("a decision");
    let active = [Active::Period(time("2026-02-28T03:00:00Z"))];
    let verdict = |replacing: Option<UtcSecond>, late: i64| {
        let past = Past { replacing, ..Past::default() };
        judge(&decision, &job.policy, &past, &active, decision.nominal.saturating_add(late))
    };
    let this = Some(decision.nominal);
    // Nor does an edit, or a suspension, stop what has been signalled to make room.
    let edited = Past { replacing: this, effective_from: this, ..Past::default() };
    let suspended = kron_core::Policy { suspend: true, ..job.policy };
    let now = decision.nominal.saturating_add(5);
    assert_eq!(
        judge(&decision, &job.policy, &edited, &active, now),
        Verdict::Start { replace: true }
    );
    assert_eq!(judge(&decision, &suspended, &edited, &[], now), Verdict::Start { replace: false });
    let missed = |verdict| matches!(verdict, Verdict::Record { outcome: Outcome::Missed, .. });
    assert_eq!(verdict(None, 10), Verdict::Start { replace: true });
    assert!(missed(verdict(None, 11)));
    assert_eq!(verdict(this, 500), Verdict::Start { replace: true });
    assert!(missed(verdict(Some(time("2026-02-28T03:00:00Z")), 11)), "another period's");
}
