//! Nothing on the way to a decision allocates.
//!
//! The counts are those of the measuring thread, so other tests do not disturb them.

use allocation_counter::measure;
use kron_core::{
    Active, Constraints, Direction, Distribution, Host, Mu, Past, Placement, Seconds, SeedStrategy,
    Timing, TimingParser, UtcSecond, Window, WindowMode, Zone, judge,
};

fn time(text: &str) -> UtcSecond {
    text.parse().expect(text)
}

fn timing(text: &str) -> Timing {
    TimingParser::new().parse(text, "allocation/job", Host::default()).expect(text)
}

/// Fails when `work` allocates, the first time or later.
fn check<T>(what: &str, mut work: impl FnMut() -> T) {
    let info = measure(|| {
        for _ in 0..50 {
            std::hint::black_box(work());
        }
    });
    assert_eq!(info.count_total, 0, "{what}: {info:?}");
}

#[test]
fn the_counter_counts() {
    let info = measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(info.count_total, 1);
}

#[test]
fn deciding_does_not_allocate() {
    let distributions = [
        Distribution::Uniform,
        Distribution::SkewEarly { shape: 2.5 },
        Distribution::SkewLate { shape: 0.5 },
        Distribution::Exponential { lambda: 3.0, direction: Direction::Early },
        Distribution::Exponential { lambda: 3.0, direction: Direction::Late },
        Distribution::Normal { mu: None, sigma: None },
        Distribution::Normal { mu: Some(Mu::End), sigma: Some(Seconds::new(60)) },
    ];
    let constraints = [
        Constraints::none(),
        Constraints::parse("hours=9-17;dow=MON-FRI", "dates=2026-12-24..2026-12-31").unwrap(),
        Constraints::parse("between=09:00-09:00;dom=1", "months=JAN-NOV").unwrap(),
    ];
    let zone = Zone::named("Europe/Paris").unwrap();
    for distribution in distributions {
        for constraints in &constraints {
            for strategy in [
                SeedStrategy::Stable,
                SeedStrategy::Daily,
                SeedStrategy::Weekly,
                SeedStrategy::Fixed,
            ] {
                for length in [0, 86_400] {
                    let window = Window::new(WindowMode::Around, Seconds::new(length)).unwrap();
                    if length == 0
                        && matches!(distribution, Distribution::Normal { sigma: Some(_), .. })
                    {
                        continue;
                    }
                    let placement = Placement::new("allocation/job", zone.clone())
                        .unwrap()
                        .with_spread(window, distribution)
                        .unwrap()
                        .with_salt("a salt that is longer than any small buffer would be, surely")
                        .unwrap()
                        .with_seed_strategy(strategy)
                        .with_constraints(constraints.clone());
                    let mut nominal = time("2026-03-01T00:00:00Z");
                    check(&format!("{distribution} {strategy:?} {length}"), || {
                        nominal = nominal.checked_add(36_000).unwrap();
                        placement.decide(nominal).unwrap()
                    });
                }
            }
        }
    }
}

const EXPRESSIONS: [&str; 6] = [
    "*/5 * * * *",
    "30 2 * * * @tz(Europe/Paris)",
    "*/15 * * * * @tz(Australia/Lord_Howe)",
    "0 0 LW,15W * MON#2,FRI#L @tz(America/New_York)",
    "0 0 29 2 * @tz(Pacific/Apia)",
    "0 0 0 1 1 * 2026-2199 @tz(Antarctica/Troll)",
];

#[test]
fn finding_nominal_times_does_not_allocate() {
    for text in EXPRESSIONS {
        let timing = timing(text);
        let schedule = timing.schedule();
        let mut t = time("2026-03-28T00:00:00Z");
        check(&format!("next_after of {text}"), || {
            t = schedule.next_after(t).unwrap();
        });
        check(&format!("prev_at_or_before of {text}"), || {
            t = schedule.prev_at_or_before(t.checked_add(-1).unwrap()).unwrap();
        });
        let mut nominals = schedule.after(time("2026-10-24T00:00:00Z"));
        check(&format!("Nominals of {text}"), || nominals.next());
    }
}

#[test]
fn looking_for_the_current_and_next_period_does_not_allocate() {
    for text in EXPRESSIONS {
        let timing = timing(&format!("{text} @win(around,5m)"));
        let mut t = time("2026-10-24T00:00:00Z");
        check(text, || {
            t = t.checked_add(10_007).unwrap();
            (timing.current_at(t), timing.due_after(t).next())
        });
    }
}

#[test]
fn judging_does_not_allocate() {
    let timing = timing("*/10 * * * * @win(after,10m) @policy(concurrency=replace,deadline=1h)");
    let mut t = time("2026-10-24T00:00:00Z");
    let decision = timing.current_at(t).unwrap();
    let past = Past { created_at: Some(time("2026-01-01T00:00:00Z")), ..Past::default() };
    let active = [Active::Manual, Active::Period(time("2026-10-23T00:00:00Z"))];
    check("judge", || {
        t = t.checked_add(197).unwrap();
        judge(&decision, &timing.policy, &past, &active, t)
    });
}
