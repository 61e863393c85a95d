//! The rules of [`judge`], row by row, and what they add up to over a job's life.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::decision::Placement;
use crate::expression::{Host, TimingParser};
use crate::zone::Zone;

/// Everything `judge` looks at. A row changes what its sentence is about; the rest is a period
/// that is due this second, with nothing against it.
struct Moment {
    decision: Decision,
    policy: Policy,
    past: Past,
    active: Vec<Active>,
    now: UtcSecond,
}

const START: Verdict = Verdict::Start { replace: false };
const REPLACE: Verdict = Verdict::Start { replace: true };

const fn leave(reason: Reason) -> Verdict {
    Verdict::Leave { reason }
}

const fn record(outcome: Outcome, reason: Reason) -> Verdict {
    Verdict::Record { outcome, reason }
}

const fn missed(late: u64) -> Verdict {
    record(Outcome::Missed, Reason::DeadlineExceeded { late: Seconds::new(late) })
}

/// The period's nominal time; it is chosen five minutes later.
fn nominal() -> UtcSecond {
    "2026-03-01T03:00:00Z".parse().unwrap()
}

/// So many seconds after the chosen time.
fn chosen(after: i64) -> UtcSecond {
    nominal().checked_add(300 + after).unwrap()
}

fn check(sentence: &str, change: impl FnOnce(&mut Moment), expected: Verdict) {
    let placement = Placement::new("job", Zone::utc()).unwrap();
    let mut decision = placement.decide(nominal()).unwrap();
    decision.window_end = chosen(300);
    decision.chosen = Some(chosen(0));
    let mut moment = Moment {
        decision,
        policy: Policy::default(),
        past: Past::default(),
        active: Vec::new(),
        now: chosen(0),
    };
    change(&mut moment);
    let Moment { decision, policy, past, active, now } = &moment;
    assert_eq!(judge(decision, policy, past, active, *now), expected, "{sentence}");
}

fn earlier() -> UtcSecond {
    nominal().checked_add(-3_600).unwrap()
}

#[test]
fn eligibility() {
    check("due this second: start", |_| {}, START);
    check("a second early: wait", |m| m.now = chosen(-1), Verdict::Wait { until: chosen(0) });
    check("at the nominal time: wait", |m| m.now = nominal(), Verdict::Wait { until: chosen(0) });
    check(
        "years early: wait",
        |m| m.now = "1999-01-01T00:00:00Z".parse().unwrap(),
        Verdict::Wait { until: chosen(0) },
    );
    check(
        "chosen before its nominal time: due then",
        |m| {
            m.decision.chosen = Some(earlier());
            m.now = earlier();
        },
        START,
    );
}

#[test]
fn deadline() {
    let deadline = |seconds| move |m: &mut Moment| m.policy.deadline = Seconds::new(seconds);
    let at = |seconds: u64, late: i64| {
        move |m: &mut Moment| {
            deadline(seconds)(m);
            m.now = chosen(late);
        }
    };
    check("no deadline, within the chosen second", at(0, 0), START);
    check("no deadline, a second late", at(0, 1), missed(1));
    check("exactly at the deadline", at(60, 60), START);
    check("a second after the deadline", at(60, 61), missed(61));
    check("the deadline counts from the chosen time, not the nominal", at(299, 299), START);
    check("a year late", at(60, 31_536_000), missed(31_536_000));
    check("the longest deadline", at(Seconds::MAX.get(), 31_536_000), START);
    check(
        "missed even while an execution is active",
        |m| {
            m.now = chosen(1);
            m.active.push(Active::Manual);
        },
        missed(1),
    );
}

#[test]
fn concurrency() {
    use Concurrency::{Allow, Forbid, Replace};
    let skipped = record(Outcome::Skipped, Reason::ExecutionActive);
    let row = |concurrency, active: &[Active], expected| {
        let sentence = format!("{concurrency} with {active:?}");
        check(
            &sentence,
            |m| {
                m.policy.concurrency = concurrency;
                m.active = active.to_vec();
            },
            expected,
        );
    };
    let other = Active::Period(earlier());
    row(Allow, &[], START);
    row(Allow, &[other], START);
    row(Allow, &[Active::Manual, other], START);
    row(Forbid, &[], START);
    row(Forbid, &[other], skipped);
    row(Forbid, &[Active::Manual], skipped);
    row(Replace, &[], START);
    row(Replace, &[other], REPLACE);
    row(Replace, &[Active::Manual, other], REPLACE);
    for concurrency in [Allow, Forbid, Replace] {
        let started = leave(Reason::AlreadyStarted);
        row(concurrency, &[Active::Period(nominal())], started);
        row(concurrency, &[other, Active::Manual, Active::Period(nominal())], started);
    }
}

#[test]
fn suspension() {
    check("suspended: nothing", |m| m.policy.suspend = true, leave(Reason::Suspended));
    check(
        "suspended and late: not even missed",
        |m| {
            m.policy.suspend = true;
            m.now = chosen(1_000);
        },
        leave(Reason::Suspended),
    );
    check(
        "suspended and unschedulable: no outcome",
        |m| {
            m.policy.suspend = true;
            m.decision.chosen = None;
        },
        leave(Reason::Suspended),
    );
    let resumed = |at| move |m: &mut Moment| m.past.resumed_at = Some(at);
    let slept = leave(Reason::DueWhileSuspended);
    check("resumed a second before the chosen time", resumed(chosen(-1)), START);
    check("resumed in the chosen second", resumed(chosen(0)), slept);
    check("resumed after the nominal but before the chosen time", resumed(nominal()), START);
    check("resumed later than now: the clock went back", resumed(chosen(500)), slept);
    check(
        "resumed after it and late: no outcome rather than missed",
        |m| {
            m.past.resumed_at = Some(chosen(10));
            m.now = chosen(20);
        },
        slept,
    );
}

#[test]
fn idempotency_and_clock_jumps() {
    let handled = |at| move |m: &mut Moment| m.past.last_handled = Some(at);
    let done = leave(Reason::AlreadyHandled);
    check("an earlier period was handled", handled(earlier()), START);
    check("this period was handled", handled(nominal()), done);
    check("a later period was handled", handled(chosen(86_400)), done);
    check(
        "handled, and the clock went back before it: still handled",
        |m| {
            m.past.last_handled = Some(nominal());
            m.now = chosen(-86_400);
        },
        done,
    );
    check(
        "handled, and the clock leapt ahead: still handled, not missed",
        |m| {
            m.past.last_handled = Some(nominal());
            m.now = chosen(86_400);
        },
        done,
    );
    check(
        "started, and the clock went back before it: still started",
        |m| {
            m.active.push(Active::Period(nominal()));
            m.now = chosen(-86_400);
        },
        leave(Reason::AlreadyStarted),
    );
    check("leapt over: missed", |m| m.now = chosen(86_400), missed(86_400));
    check(
        "handled wins over started",
        |m| {
            m.past.last_handled = Some(nominal());
            m.active.push(Active::Period(nominal()));
        },
        done,
    );
    check(
        "handled wins over suspended",
        |m| {
            m.past.last_handled = Some(nominal());
            m.policy.suspend = true;
        },
        done,
    );
}

#[test]
fn creation_and_definition() {
    let created = |at| move |m: &mut Moment| m.past.created_at = Some(at);
    let unborn = leave(Reason::DueBeforeCreation);
    check("created a second before the chosen time", created(chosen(-1)), START);
    check("created in the chosen second", created(chosen(0)), unborn);
    check("created after the nominal but before the chosen time", created(nominal()), START);
    check(
        "created after it, judged late: no outcome",
        |m| {
            m.past.created_at = Some(chosen(10));
            m.now = chosen(20);
        },
        unborn,
    );

    let edited = |at| move |m: &mut Moment| m.past.effective_from = Some(at);
    let changed = record(Outcome::Skipped, Reason::DefinitionChanged);
    check("edited a second before the chosen time", edited(chosen(-1)), START);
    check("edited in the chosen second", edited(chosen(0)), changed);
    check("edited after the nominal but before the chosen time", edited(nominal()), START);
    check(
        "edited after it, judged late: skipped, not missed",
        |m| {
            m.past.effective_from = Some(chosen(10));
            m.now = chosen(20);
        },
        changed,
    );
    check(
        "created after an edit: creation wins",
        |m| {
            m.past.created_at = Some(chosen(10));
            m.past.effective_from = Some(chosen(10));
        },
        unborn,
    );
    check(
        "created while suspended: creation wins",
        |m| {
            m.past.created_at = Some(chosen(10));
            m.past.resumed_at = Some(chosen(10));
        },
        unborn,
    );
    check(
        "edited while suspended: suspension wins, it handles nothing",
        |m| {
            m.past.effective_from = Some(chosen(10));
            m.past.resumed_at = Some(chosen(10));
        },
        leave(Reason::DueWhileSuspended),
    );
    check(
        "edited and not yet due: wait",
        |m| {
            m.past.effective_from = Some(chosen(10));
            m.now = chosen(-1);
        },
        Verdict::Wait { until: chosen(0) },
    );
}

#[test]
fn unschedulable_periods() {
    // Its window starts at the nominal time, and that is when it falls due.
    let none = record(Outcome::Unschedulable, Reason::NoCandidate);
    let unschedulable = |change: fn(&mut Moment)| {
        move |m: &mut Moment| {
            m.decision.chosen = None;
            change(m);
        }
    };
    let wait = Verdict::Wait { until: nominal() };
    check("in its window", unschedulable(|_| {}), none);
    check("as its window starts", unschedulable(|m| m.now = nominal()), none);
    check("before its window", unschedulable(|m| m.now = nominal().checked_add(-1).unwrap()), wait);
    check("long after: not missed", unschedulable(|m| m.now = chosen(86_400)), none);
    check("active, forbid: not skipped", unschedulable(|m| m.active.push(Active::Manual)), none);
    check(
        "created in its window: no outcome",
        unschedulable(|m| m.past.created_at = Some(nominal())),
        leave(Reason::DueBeforeCreation),
    );
    check(
        "edited in its window: skipped",
        unschedulable(|m| m.past.effective_from = Some(nominal())),
        record(Outcome::Skipped, Reason::DefinitionChanged),
    );
    check(
        "handled",
        unschedulable(|m| m.past.last_handled = Some(nominal())),
        leave(Reason::AlreadyHandled),
    );
}

#[test]
fn reasons_are_the_words_that_records_use() {
    let says = |reason: Reason, text: &str| assert_eq!(reason.to_string(), text);
    says(Reason::NoCandidate, "no candidate accepted within MaxAttempts");
    says(Reason::DefinitionChanged, "definition changed");
    says(Reason::Superseded, "superseded");
    says(Reason::StateLost, "state lost");
    says(Reason::StartStalled, "start stalled");
    says(Reason::DeadlineExceeded { late: Seconds::new(90) }, "deadline exceeded, 1m30s late");
    assert_eq!(Outcome::Executed.to_string(), "executed");
    assert_eq!(Outcome::Unschedulable.to_string(), "unschedulable");
}

/// What may happen to a job between two looks at the clock.
#[derive(Clone, Debug)]
enum Event {
    /// The clock moves, forwards or back.
    Clock(i64),
    /// The clock moves to so many seconds after the next period falls due.
    ToNextDue(i64),
    /// The start that the next verdict asks for fails; nothing is recorded.
    StartFails,
    /// The oldest active execution ends.
    RunEnds,
    ManualRun,
    Suspend,
    Resume,
    /// The definition changes.
    Edit,
    Policy(Concurrency, u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0i64..400).prop_map(Event::Clock),
        8 => (-1i64..3).prop_map(Event::ToNextDue),
        2 => (-3_000i64..20_000).prop_map(Event::Clock),
        1 => (-1_000_000i64..1_000_000).prop_map(Event::Clock),
        2 => Just(Event::StartFails),
        4 => Just(Event::RunEnds),
        1 => Just(Event::ManualRun),
        1 => Just(Event::Suspend),
        2 => Just(Event::Resume),
        1 => Just(Event::Edit),
        1 => (
            prop_oneof![Just(Concurrency::Allow), Just(Concurrency::Forbid), Just(Concurrency::Replace)],
            prop_oneof![Just(0), Just(60), 0u64..2_000],
        )
            .prop_map(|(concurrency, deadline)| Event::Policy(concurrency, deadline)),
    ]
}

fn timings() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        &[
            "*/10 * * * *",
            "*/10 * * * * @win(after,10m)",
            "*/10 * * * * @win(around,9m59s) @dist(normal)",
            "*/10 * * * * @win(before,10m) @dist(exponential)",
            "*/10 * * * * @win(around,10m) @only(between=00:00-11:59)",
            "*/10 * * * * @tz(Europe/Paris) @win(after,5m) @avoid(between=12:00-12:59)",
        ][..],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An adapter that does what it is told, under any clock, keeps every promise.
    #[test]
    fn an_adapter_that_obeys_keeps_the_promises(
        text in timings(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let timing = TimingParser::new().parse(text, "job", Host::default()).unwrap();
        let mut now: UtcSecond = "2026-10-20T10:05:00Z".parse().unwrap();
        let mut policy = Policy::default();
        let mut past = Past { created_at: Some(now), ..Past::default() };
        let mut active: Vec<Active> = Vec::new();
        let mut started: BTreeMap<UtcSecond, UtcSecond> = BTreeMap::new();
        let mut outcomes: BTreeMap<UtcSecond, Outcome> = BTreeMap::new();
        for event in events {
            let mut start_fails = false;
            match event {
                Event::Clock(by) => now = now.checked_add(by).unwrap(),
                Event::ToNextDue(by) => {
                    let next = timing.due_after(now).next().expect("a next period");
                    now = next.due().checked_add(by).unwrap();
                }
                Event::StartFails => start_fails = true,
                Event::RunEnds if active.is_empty() => {}
                Event::RunEnds => drop(active.remove(0)),
                Event::ManualRun => active.push(Active::Manual),
                Event::Suspend => policy.suspend = true,
                Event::Resume => {
                    if policy.suspend {
                        past.resumed_at = Some(now);
                    }
                    policy.suspend = false;
                }
                Event::Edit => past.effective_from = Some(now),
                Event::Policy(concurrency, deadline) => {
                    policy.concurrency = concurrency;
                    policy.deadline = Seconds::new(deadline);
                }
            }
            // The next period is never touched early, whatever the clock has done.
            if let Some(next) = timing.due_after(now).next() {
                let verdict = judge(&next, &policy, &past, &active, now);
                prop_assert!(
                    matches!(verdict, Verdict::Wait { until } if until > now)
                        || matches!(verdict, Verdict::Leave { .. }),
                    "{verdict:?} before its time"
                );
            }
            let Some(decision) = timing.current_at(now) else { continue };
            let period = decision.nominal;
            let verdict = judge(&decision, &policy, &past, &active, now);
            prop_assert_eq!(verdict, judge(&decision, &policy, &past, &active, now));
            let outcome = match verdict {
                Verdict::Wait { until } => {
                    return Err(TestCaseError::fail(format!("the current period waits for {until}")));
                }
                Verdict::Leave { reason } => {
                    // Silence needs one of the reasons that stand for it.
                    prop_assert!(matches!(
                        reason,
                        Reason::AlreadyHandled
                            | Reason::AlreadyStarted
                            | Reason::Suspended
                            | Reason::DueWhileSuspended
                            | Reason::DueBeforeCreation
                    ));
                    continue;
                }
                Verdict::Start { .. } if start_fails => continue,
                Verdict::Start { replace } => {
                    let chosen = decision.chosen.expect("only a chosen time starts");
                    prop_assert!(started.insert(period, now).is_none(), "{period} started twice");
                    prop_assert!(chosen <= now, "{period} started before its time");
                    prop_assert!(
                        now.since(chosen) <= policy.deadline.get_signed(),
                        "{period} started after its deadline"
                    );
                    prop_assert!(!policy.suspend, "{period} started while suspended");
                    for moment in [past.created_at, past.effective_from, past.resumed_at] {
                        prop_assert!(
                            moment.is_none_or(|moment| chosen > moment),
                            "{period} is of the past"
                        );
                    }
                    match policy.concurrency {
                        Concurrency::Forbid => prop_assert!(active.is_empty()),
                        Concurrency::Replace => prop_assert_eq!(replace, !active.is_empty()),
                        Concurrency::Allow => prop_assert!(!replace),
                    }
                    if replace {
                        active.clear();
                    }
                    active.push(Active::Period(period));
                    Outcome::Executed
                }
                Verdict::Record { outcome, .. } => {
                    prop_assert!(!policy.suspend, "suspension handles nothing");
                    prop_assert_ne!(outcome, Outcome::Executed);
                    prop_assert_eq!(
                        outcome == Outcome::Unschedulable,
                        decision.chosen.is_none()
                            && past.effective_from.is_none_or(|from| decision.due() > from)
                    );
                    outcome
                }
            };
            let before = outcomes.insert(period, outcome);
            prop_assert!(before.is_none(), "{period} was {before:?} and became {outcome}");
            prop_assert!(past.last_handled.is_none_or(|last| last < period), "moved back");
            past.last_handled = Some(period);
            // Handled once is handled for good, at any time.
            for by in [0, -86_400, 86_400] {
                let then = now.checked_add(by).unwrap();
                let verdict = judge(&decision, &policy, &past, &active, then);
                prop_assert_eq!(verdict, Verdict::Leave { reason: Reason::AlreadyHandled });
            }
        }
    }
}
