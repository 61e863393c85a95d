//! Schedules against brute force: the shortest gap, the windows that fit it, and which period is
//! current and which is next at any moment.

use kron_core::{
    Category, Decision, Dst, Gap, Host, Overlap, Pattern, Schedule, Seconds, Timing, TimingParser,
    UtcSecond, Zone,
};

fn time(text: &str) -> UtcSecond {
    text.parse().expect(text)
}

fn timing(text: &str) -> Timing {
    TimingParser::new().parse(text, "schedule/job", Host::default()).expect(text)
}

/// The shortest distance between neighbours, by looking at each of the 40 years' nominal times.
fn shortest_gap_by_walking(schedule: &Schedule) -> Option<i64> {
    let end = time("2066-01-01T00:00:00Z");
    let mut previous: Option<UtcSecond> = None;
    let mut shortest: Option<i64> = None;
    for nominal in schedule.after(time("2025-12-31T23:59:59Z")).take_while(|&t| t < end) {
        if let Some(previous) = previous {
            let gap = nominal.since(previous);
            assert!(gap > 0, "nominal times are in order and apart");
            shortest = Some(shortest.map_or(gap, |shortest| shortest.min(gap)));
        }
        previous = Some(nominal);
    }
    shortest
}

const ZONES: [&str; 9] = [
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Pacific/Chatham",
];

fn policies() -> impl Iterator<Item = Dst> {
    let overlaps = [Overlap::Auto, Overlap::First, Overlap::Last, Overlap::Both];
    [Gap::Shift, Gap::Skip]
        .into_iter()
        .flat_map(move |gap| overlaps.map(move |overlap| Dst { gap, overlap }))
}

#[test]
fn the_shortest_gap_is_what_walking_forty_years_finds() {
    let patterns = [
        "30 2 * * *",
        "0 3 * * *",
        "0 0 * * *",
        "59 23 * * *",
        "45 1 * * *",
        "30 1,2 * * *",
        "15 1,3 * * *",
        "0 2,3 * * *",
        "10 0,23 * * *",
        "30 1 1 * *",
        "0 3 * * MON#L",
        "0 2 L * *",
        "30 2 29 2 *",
        "0 2 * 3 SUN",
        "15 2 * * SUN#L",
        "0 3 13 * FRI",
        "30 2 * 10 +SUN#L",
        "5 */3 * * *",
        "0 0,4-23 * * *",
        "50 1,2,3 * 3,10 SUN",
        "0 0 30 2 *",
    ];
    for zone_name in ZONES {
        let zone = Zone::named(zone_name).unwrap();
        for pattern in patterns {
            for dst in policies() {
                check_shortest_gap(pattern, &zone, dst);
            }
        }
    }
}

#[test]
fn the_shortest_gap_of_dense_patterns_is_what_walking_finds() {
    let patterns = ["0 * * * *", "0,50 * * * *", "*/20 1-3 * * *", "7 59 0-23 * * *"];
    for zone_name in ["Europe/Paris", "Australia/Lord_Howe", "Antarctica/Troll"] {
        let zone = Zone::named(zone_name).unwrap();
        for pattern in patterns {
            for overlap in [Overlap::Auto, Overlap::First] {
                for gap in [Gap::Shift, Gap::Skip] {
                    check_shortest_gap(pattern, &zone, Dst { gap, overlap });
                }
            }
        }
    }
}

fn check_shortest_gap(pattern: &str, zone: &Zone, dst: Dst) {
    let schedule = Schedule::new(Pattern::parse(pattern, "any").expect(pattern), zone.clone(), dst);
    let what = format!("{pattern} in {zone} with {dst:?}");
    let found = schedule.shortest_gap();
    let walked = shortest_gap_by_walking(&schedule);
    assert_eq!(found.map(|gap| gap.length().get_signed()), walked, "{what}");
    let Some(gap) = found else {
        assert_eq!(schedule.fits(Seconds::MAX), Ok(()), "{what}");
        return;
    };
    assert_eq!(schedule.next_after(gap.from), Some(gap.to), "{what}: neighbours");
    assert_eq!(schedule.prev_at_or_before(gap.from), Some(gap.from), "{what}: a nominal time");
    let length = gap.length().get();
    let fits = |length| schedule.fits(Seconds::new(length)).map_err(|gap| gap.length().get());
    assert_eq!(fits(length - 1), Ok(()), "{what}");
    assert_eq!(fits(length), Ok(()), "{what}");
    assert_eq!(fits(length + 1), Err(length), "{what}");
}

#[test]
fn the_shortest_gap_is_known_for_cases_worked_out_by_hand() {
    let check = |text: &str, from: &str, to: &str| {
        let gap = timing(text).schedule().shortest_gap().expect(text);
        assert_eq!((gap.from.to_string(), gap.to.to_string()), (from.into(), to.into()), "{text}");
    };
    check(
        "30 2 * * * @tz(Europe/Paris) @dst(overlap=both)",
        "2026-10-25T00:30:00Z",
        "2026-10-25T01:30:00Z",
    );
    check(
        "45 1 * * * @tz(Australia/Lord_Howe) @dst(overlap=both)",
        "2026-04-04T14:45:00Z",
        "2026-04-04T15:15:00Z",
    );
    // The day of the gap has 23 hours.
    check("0 12 * * * @tz(Europe/Paris)", "2026-03-28T11:00:00Z", "2026-03-29T10:00:00Z");
    // 02:30 is shifted to 03:30 on the day of the gap, and 02:30 of the next day is 23 hours on.
    check("30 2 * * * @tz(Europe/Paris)", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z");
    check("*/5 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z");
}

#[test]
fn windows_that_could_overlap_are_refused_where_they_stand() {
    let check = |text: &str, window: &str, fragments: &[&str], help: &str| {
        let findings =
            TimingParser::new().parse(text, "schedule/job", Host::default()).expect_err(text);
        let [finding] = &findings[..] else { panic!("{text}: {findings:?}") };
        assert_eq!(finding.category, Category::Validation, "{text}");
        for fragment in fragments {
            assert!(finding.message.contains(fragment), "{text}: {}", finding.message);
        }
        assert_eq!(finding.help.as_deref(), Some(help), "{text}");
        assert_eq!(&text[finding.span.clone()], window, "{text}: points at the window");
    };
    check(
        "*/5 * * * * @win(after,301s)",
        "after,301s",
        &["5m1s", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", "only 5m apart"],
        "use a window of at most 5m",
    );
    check(
        "30 2 * * * @tz(Europe/Paris) @dst(overlap=both) @win(around,2h)",
        "around,2h",
        &["2h", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "only 1h apart"],
        "use a window of at most 1h",
    );
    check(
        "0 12 * * * @win(before,24h) @tz(Europe/Paris)",
        "before,24h",
        &["2026-03-28T11:00:00Z", "2026-03-29T10:00:00Z", "only 23h apart"],
        "use a window of at most 23h",
    );
    for fits in [
        "*/5 * * * * @win(after,5m)",
        "30 2 * * * @tz(Europe/Paris) @dst(overlap=both) @win(around,1h)",
        "0 12 * * * @win(before,23h) @tz(Europe/Paris)",
        "0 12 * * * @win(before,24h)",
        "0 0 29 2 * @win(around,366d)",
    ] {
        timing(fits);
    }
}

/// All decisions whose nominal time is near the stretch, in period order.
fn decisions_near(timing: &Timing, from: UtcSecond, to: UtcSecond, reach: i64) -> Vec<Decision> {
    let end = to.saturating_add(reach);
    timing
        .schedule()
        .after(from.saturating_add(-reach))
        .take_while(|&nominal| nominal <= end)
        .map(|nominal| timing.placement().decide(nominal).expect("a decision"))
        .collect()
}

/// When a period falls due: its chosen time, or its window's start when it has none.
fn due(decision: &Decision) -> UtcSecond {
    decision.chosen.unwrap_or(decision.window_start)
}

#[test]
fn the_current_and_the_next_period_are_what_reading_the_list_says() {
    let texts = [
        "0 3 * * *",
        "0 3 * * * @win(after,24h)",
        "0 3 * * * @tz(Europe/Paris) @win(around,23h)",
        "0 3 * * * @tz(Europe/Paris) @win(before,23h) @dist(skewLate)",
        "0 */6 * * * @win(before,6h) @dist(exponential,dir=early)",
        "0 */6 * * * @win(around,5h59m59s) @dist(normal)",
        "*/10 * * * * @win(after,10m)",
        "*/10 * * * * @win(around,10m) @only(between=03:00-14:59)",
        "*/30 * * * * @tz(Europe/Paris) @win(before,30m) @avoid(hours=9-17)",
        "30 2 * * * @tz(Europe/Paris) @dst(overlap=both) @win(around,1h)",
        "0 3 * * * @win(around,24h) @only(dow=MON-FRI)",
        "30 2 * * SUN @tz(Australia/Lord_Howe) @win(before,6d) @only(hours=3)",
    ];
    // The week of the autumn change in Paris.
    let (from, to) = (time("2026-10-22T00:00:00Z"), time("2026-10-29T00:00:00Z"));
    for text in texts {
        let timing = timing(text);
        let decisions = decisions_near(&timing, from, to, 20 * 86_400);
        assert!(decisions.windows(2).all(|pair| due(&pair[0]) <= due(&pair[1])), "{text}: order");
        // Every 97 seconds meets every second of the minute; each due second is met exactly and
        // from both sides.
        let mut moments: Vec<UtcSecond> =
            (from.unix()..to.unix()).step_by(97).filter_map(UtcSecond::from_unix).collect();
        let near = decisions.iter().map(due).filter(|t| (from..to).contains(t));
        moments.extend(near.flat_map(|t| [-1, 0, 1].map(|by| t.checked_add(by).unwrap())));
        for t in moments {
            let current = decisions.iter().rfind(|decision| due(decision) <= t);
            assert_eq!(timing.current_at(t).as_ref(), current, "{text}: current at {t}");
            let next: Vec<&Decision> =
                decisions.iter().filter(|decision| due(decision) > t).take(2).collect();
            let found: Vec<Decision> = timing.due_after(t).take(2).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), next, "{text}: due after {t}");
        }
    }
}

#[test]
fn unschedulable_periods_are_among_those_tested() {
    let timing = timing("*/10 * * * * @win(around,10m) @only(between=03:00-14:59)");
    let (from, to) = (time("2026-10-22T00:00:00Z"), time("2026-10-23T00:00:00Z"));
    let decisions = decisions_near(&timing, from, to, 0);
    let without = decisions.iter().filter(|decision| decision.chosen.is_none()).count();
    assert!((60..=80).contains(&without), "{without} of {}", decisions.len());
}

#[test]
fn no_period_is_lost_or_doubled_when_walked_from_any_minute() {
    let timing = timing("0 0 * * * @tz(Europe/Paris) @win(around,23h)");
    let (from, to) = (time("2026-03-26T00:00:00Z"), time("2026-04-02T00:00:00Z"));
    let all = decisions_near(&timing, from, to, 30 * 86_400);
    let before = all.iter().filter(|d| due(d) < d.nominal).count();
    assert!(before > 10 && before < all.len() - 10, "some are chosen on either side");
    for minute in 0..7 * 24 * 60 {
        let start = from.checked_add(minute * 60).unwrap();
        let mut t = start;
        let mut walked = Vec::new();
        while let Some(next) = timing.due_after(t).next().filter(|next| due(next) <= to) {
            t = due(&next);
            walked.push(next.nominal);
        }
        let expected: Vec<UtcSecond> =
            all.iter().filter(|d| due(d) > start && due(d) <= to).map(|d| d.nominal).collect();
        assert_eq!(walked, expected, "from {start}");
    }
}
