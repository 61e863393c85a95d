//! Everything that prints is read back as what it was.
//!
//! Canonical texts are how definitions are compared, hashed and recorded, so a text must stand for
//! exactly one value and a value have exactly one text. The strategies build texts in every form
//! the grammars allow, not only canonical ones.

use kron_core::{
    Constraints, DecisionRecord, Host, Pattern, Request, Seconds, Side, Timing, TimingParser,
    UtcSecond,
};
use proptest::prelude::*;
use proptest::sample::select;

const IDENTITY: &str = "prod/any";
const MONTHS: [&str; 12] =
    ["JAN", "feb", "Mar", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 8] = ["SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT", "7"];

fn joined(
    item: impl Strategy<Value = String> + 'static,
    separator: &'static str,
    count: std::ops::Range<usize>,
) -> BoxedStrategy<String> {
    prop::collection::vec(item, count).prop_map(move |items| items.join(separator)).boxed()
}

/// A range in order, with or without a step.
fn range(low: u32, high: u32) -> impl Strategy<Value = String> {
    (low..=high, low..=high, 0u32..12).prop_map(|(a, b, step)| {
        let (from, to) = (a.min(b), a.max(b));
        if step == 0 { format!("{from}-{to}") } else { format!("{from}-{to}/{step}") }
    })
}

fn field(low: u32, high: u32) -> BoxedStrategy<String> {
    let item = prop_oneof![
        3 => (low..=high).prop_map(|value| value.to_string()),
        2 => range(low, high),
        1 => (1u32..40).prop_map(|step| format!("*/{step}")),
        1 => Just("*".to_owned()),
        1 => Just("H".to_owned()),
        1 => (1..=high - low).prop_map(|step| format!("H/{}", step.min(20))),
        1 => (low..=high, low..=high)
            .prop_map(|(a, b)| format!("H({}-{})", a.min(b), a.max(b))),
    ];
    joined(item, ",", 1..4)
}

fn day() -> BoxedStrategy<String> {
    let special = prop_oneof![
        Just("L".to_owned()),
        Just("LW".to_owned()),
        (1u32..=30).prop_map(|before| format!("L-{before}")),
        (1u32..=31).prop_map(|day| format!("{day}W")),
        (1u32..=31).prop_map(|day| day.to_string()),
        range(1, 31),
    ];
    prop_oneof![
        2 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        3 => field(1, 28),
        3 => joined(special, ",", 1..5),
    ]
    .boxed()
}

fn weekday() -> BoxedStrategy<String> {
    let special = prop_oneof![
        select(&WEEKDAYS[..]).prop_map(str::to_owned),
        (select(&WEEKDAYS[..]), 1..=5).prop_map(|(day, nth)| format!("{day}#{nth}")),
        select(&WEEKDAYS[..]).prop_map(|day| format!("{day}#L")),
        (0u32..=7).prop_map(|day| format!("{day}L")),
        (1usize..=6).prop_map(|day| format!("{}-SUN", WEEKDAYS[day])),
        range(0, 7),
    ];
    let list = prop_oneof![
        2 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        1 => field(0, 6),
        3 => joined(special, ",", 1..5),
    ];
    (list, prop::bool::weighted(0.2))
        .prop_map(|(list, and)| if and { format!("+{list}") } else { list })
        .boxed()
}

fn month() -> BoxedStrategy<String> {
    let named = select(&MONTHS[..]).prop_map(str::to_owned);
    prop_oneof![2 => Just("*".to_owned()), 1 => field(1, 12), 1 => joined(named, ",", 1..4)].boxed()
}

fn year() -> BoxedStrategy<String> {
    let item = prop_oneof![
        Just("*".to_owned()),
        (1970u32..=2199).prop_map(|year| year.to_string()),
        range(1970, 2199),
        (2u32..50).prop_map(|step| format!("*/{step}")),
    ];
    joined(item, ",", 1..3)
}

fn pattern() -> BoxedStrategy<String> {
    let fields = (field(0, 59), field(0, 59), field(0, 23), day(), month(), weekday(), year());
    let written = (fields, 5usize..=7).prop_map(|((s, m, h, dom, mon, dow, y), count)| {
        let five = format!("{m} {h} {dom} {mon} {dow}");
        match count {
            5 => five,
            6 => format!("{s} {five}"),
            _ => format!("{s}\t {five}   {y}"),
        }
    });
    let nickname = select(vec![
        "@hourly",
        "@daily",
        "@midnight",
        "@weekly",
        "@monthly",
        "@yearly",
        "@annually",
    ]);
    prop_oneof![9 => written, 1 => nickname.prop_map(str::to_owned)].boxed()
}

fn clause() -> BoxedStrategy<String> {
    let pair = |low: u32, high: u32| (low..=high, low..=high, any::<bool>());
    let numbers = move |name: &'static str, low: u32, high: u32, wraps: bool| {
        let item = pair(low, high).prop_map(move |(a, b, single)| match (single, wraps) {
            (true, _) => a.to_string(),
            (false, true) => format!("{a}-{b}"),
            (false, false) => format!("{}-{}", a.min(b), a.max(b)),
        });
        joined(item, ",", 1..4).prop_map(move |list| format!("{name}={list}"))
    };
    let clock = (0u32..24, 0u32..60).prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}"));
    let between = joined((clock.clone(), clock).prop_map(|(a, b)| format!("{a}-{b}")), ",", 1..3);
    let date = (1i64..3_652_059).prop_map(|day| kron_core::civil::Date::from_days(day - 719_163));
    let dates = (date.clone(), date, any::<bool>()).prop_map(|(a, b, single)| {
        if single { a.to_string() } else { format!("{}..{}", a.min(b), a.max(b)) }
    });
    let named =
        (select(&WEEKDAYS[..7]), select(&WEEKDAYS[..7])).prop_map(|(a, b)| format!("dow={a}-{b}"));
    let months =
        (select(&MONTHS[..]), select(&MONTHS[..])).prop_map(|(a, b)| format!("months={a}-{b}"));
    prop_oneof![
        numbers("hours", 0, 23, true),
        numbers("dow", 0, 7, true),
        numbers("months", 1, 12, true),
        numbers("dom", 1, 31, false),
        between.prop_map(|list| format!("between={list}")),
        joined(dates, ",", 1..3).prop_map(|list| format!("dates= {list} ")),
        named,
        months,
    ]
    .boxed()
}

fn clauses() -> BoxedStrategy<String> {
    joined(clause(), " ; ", 0..4)
}

fn distribution() -> BoxedStrategy<String> {
    let number = prop_oneof![
        (1u32..=10_000).prop_map(|hundredths| format!("{}", f64::from(hundredths) / 100.0)),
        (0.01f64..=100.0).prop_map(|number| number.to_string()),
        Just("2.50".to_owned()),
        Just("1e1".to_owned()),
    ];
    let mu = select(vec!["", ",mu=nominal", ",mu=start", ",mu=mid", ",mu=end"]);
    let sigma = select(vec!["", ",sigma=1s", ",sigma=90s", ",sigma=5m", ",sigma=W/6"]);
    prop_oneof![
        Just("uniform".to_owned()),
        Just("skewEarly".to_owned()),
        number.clone().prop_map(|shape| format!("skewEarly,shape={shape}")),
        number.clone().prop_map(|shape| format!("skewLate, shape = \"{shape}\"")),
        (number, select(vec!["", ",dir=early", ",dir=late"]))
            .prop_map(|(lambda, dir)| format!("exponential,lambda={lambda}{dir}")),
        (mu, sigma).prop_map(|(mu, sigma)| format!("normal{mu}{sigma}")),
    ]
    .boxed()
}

/// A salt as it is meant.
fn salt() -> BoxedStrategy<String> {
    prop_oneof!["[a-z]{0,8}", "[\"\\\\%,()=; '@aé🦀]{0,12}", "\\PC{0,20}"].boxed()
}

/// A salt as it is written.
fn quoted(salt: &str) -> String {
    let salt = salt.replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{salt}\"")
}

fn modifiers() -> BoxedStrategy<String> {
    let of =
        |text: BoxedStrategy<String>| prop::option::of(text).prop_map(Option::unwrap_or_default);
    let zones = ["UTC", "Etc/UTC", "Europe/Paris", "Africa/Casablanca", "Australia/Lord_Howe"];
    let zone = select(zones.to_vec()).prop_map(|zone| format!("@tz({zone})")).boxed();
    let window = (select(vec!["after", "around", "before"]), 0u32..120)
        .prop_map(|(mode, length)| format!("@win({mode},{length}s)"))
        .boxed();
    let strategies = select(vec!["stable", "daily", "weekly", "fixed"]);
    let seed = (strategies, salt())
        .prop_map(|(strategy, salt)| format!("@seed({strategy},salt={})", quoted(&salt)))
        .boxed();
    let policy = (select(vec!["allow", "forbid", "replace"]), 0u32..9_999, any::<bool>())
        .prop_map(|(concurrency, deadline, suspend)| {
            format!("@policy(concurrency={concurrency},deadline={deadline}s,suspend={suspend})")
        })
        .boxed();
    let overlaps = select(vec!["auto", "first", "last", "both"]);
    let dst = (select(vec!["shift", "skip"]), overlaps)
        .prop_map(|(gap, overlap)| format!("@dst(gap={gap},overlap={overlap})"))
        .boxed();
    let distribution = distribution().prop_map(|text| format!("@dist({text})")).boxed();
    let only = clause().prop_map(|clause| format!("@only({clause})")).boxed();
    let avoid = clause().prop_map(|clause| format!("@avoid({clause})")).boxed();
    (
        (of(zone), of(window), of(distribution), of(seed)),
        (of(policy), of(dst), of(only.clone()), of(only), of(avoid)),
    )
        .prop_map(|((a, b, c, d), (e, f, g, h, i))| vec![a, b, c, d, e, f, g, h, i])
        .prop_shuffle()
        .prop_map(|words| words.join("  "))
        .boxed()
}

/// Whole expressions: any pattern at most once a minute or so, with any modifiers.
fn expression() -> BoxedStrategy<String> {
    let rare = select(vec!["0 0 * * *", "@daily", "30 2 L * MON#2", "0 */6 1,15 * ?", "H H * * *"]);
    (prop_oneof![pattern(), rare.prop_map(str::to_owned)], modifiers())
        .prop_map(|(pattern, modifiers)| format!("{pattern} {modifiers}"))
        .boxed()
}

fn parse(text: &str) -> Option<Timing> {
    TimingParser::new().parse(text, IDENTITY, Host::default()).ok()
}

fn read_pattern(text: &str) -> Pattern {
    Pattern::parse(text, IDENTITY).unwrap_or_else(|finding| panic!("`{text}`: {finding}"))
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(8_000))]

    #[test]
    fn patterns(a in pattern(), b in pattern()) {
        let (a, b) = (read_pattern(&a), read_pattern(&b));
        let text = a.to_string();
        // `H` is gone from a canonical text: any identity reads it alike.
        let again = Pattern::parse(&text, "another").unwrap();
        prop_assert_eq!(&again, &a, "{}", text);
        prop_assert_eq!(again.to_string(), text);
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
    }

    #[test]
    fn durations(seconds in prop_oneof![0u64..200_000, 0..=Seconds::MAX.get()]) {
        let text = Seconds::new(seconds).to_string();
        prop_assert_eq!(Seconds::parse(&text).unwrap(), Seconds::new(seconds));
        prop_assert_eq!(Seconds::parse(&format!("{seconds}s")).unwrap().to_string(), text);
    }

    #[test]
    fn timestamps(
        unix in UtcSecond::MIN.unix()..=UtcSecond::MAX.unix(),
        offset in -1_439i64..=1_439,
    ) {
        let t = UtcSecond::from_unix(unix).unwrap();
        prop_assert_eq!(UtcSecond::parse(&t.to_string()).unwrap(), t);
        if let Some(wall) = t.checked_add(offset * 60) {
            let sign = if offset < 0 { '-' } else { '+' };
            let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
            let elsewhere = wall.to_string().replace('Z', &format!(".00{sign}{hours:02}:{minutes:02}"));
            prop_assert_eq!(UtcSecond::parse(&elsewhere).unwrap(), t, "{}", elsewhere);
        }
    }

    #[test]
    fn constraints(only in clauses(), avoid in clauses(), other in clauses()) {
        let first = Constraints::parse(&only, &avoid).unwrap();
        let text = |constraints: &Constraints, side| constraints.clauses(side).join(";");
        let again =
            Constraints::parse(&text(&first, Side::Only), &text(&first, Side::Avoid)).unwrap();
        prop_assert_eq!(&again, &first);
        for side in [Side::Only, Side::Avoid] {
            prop_assert_eq!(again.clauses(side), first.clauses(side));
        }
        let second = Constraints::parse(&other, &avoid).unwrap();
        prop_assert_eq!(first == second, first.clauses(Side::Only) == second.clauses(Side::Only));
    }

    #[test]
    fn expressions(text in expression(), policy in select(vec![
        "", "@policy(suspend=true)", "@policy(concurrency=allow)", "@policy(deadline=1h)",
    ])) {
        let Some(timing) = parse(&text) else { return Ok(()) };
        let printed = timing.to_string();
        let again = parse(&printed);
        prop_assert_eq!(again.as_ref(), Some(&timing), "`{}` printed as `{}`", text, printed);
        let again = again.unwrap();
        prop_assert_eq!(again.to_string(), printed);
        prop_assert_eq!(again.decision_hash(), timing.decision_hash());
        // Policy never decides.
        let deciding = timing.deciding_expression();
        let other = parse(&format!("{deciding} {policy}")).unwrap();
        prop_assert_eq!(other.decision_hash(), timing.decision_hash());
        prop_assert_eq!(other.deciding_expression(), deciding);
        prop_assert_eq!(other == timing, other.policy == timing.policy);
    }

    #[test]
    fn equal_expressions_are_equal_timings(a in modifiers(), b in modifiers()) {
        let (a, b) = (parse(&format!("0 0 * * * {a}")), parse(&format!("0 0 * * * {b}")));
        let (Some(a), Some(b)) = (a, b) else { return Ok(()) };
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
        let same_hash = a.decision_hash() == b.decision_hash();
        if a.deciding_expression() == b.deciding_expression() {
            prop_assert!(same_hash);
        }
        // Defaults count the same whether they are written or not, so a hash may be shared by
        // different texts, but never by different decisions.
        if same_hash {
            let periods = |timing: &Timing| -> Vec<_> {
                let from = "2026-03-01T00:00:00Z".parse().unwrap();
                let chosen = timing.periods_after(from).map(|d| (d.nominal, d.chosen));
                chosen.take(5).collect()
            };
            prop_assert_eq!(periods(&a), periods(&b));
        }
    }

    #[test]
    fn salts(meant in salt()) {
        let text = format!("0 0 * * * @seed(stable,salt={})", quoted(&meant));
        let timing = parse(&text);
        prop_assert_eq!(timing.as_ref().map(|timing| timing.placement().salt()), Some(&*meant));
        let printed = timing.unwrap().to_string();
        let again = parse(&printed).unwrap();
        prop_assert_eq!(again.placement().salt(), meant);
    }

    #[test]
    fn requests_and_records(text in expression(), from in 0i64..4_000_000_000) {
        let Some(timing) = parse(&text) else { return Ok(()) };
        let from = UtcSecond::from_unix(from).unwrap();
        let Some(decision) = timing.periods_after(from).next() else { return Ok(()) };
        let placement = timing.placement();
        let request = Request::of(placement, decision.nominal);
        let json = serde_json::to_string(&request).unwrap();
        let read: Request = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&read, &request);
        let (resolved, nominal) = read.resolve(&mut TimingParser::new()).unwrap();
        prop_assert_eq!(nominal, decision.nominal);
        let again = resolved.decide(nominal).unwrap();
        prop_assert_eq!(again, decision);
        // A request spells defaults out; asking the same again changes nothing any more.
        prop_assert_eq!(Request::of(&resolved, nominal), request);

        let record = DecisionRecord::of(placement, &decision);
        prop_assert_eq!(&DecisionRecord::of(&resolved, &again), &record);
        let json = serde_json::to_string(&record).unwrap();
        prop_assert_eq!(serde_json::from_str::<DecisionRecord>(&json).unwrap(), record);
    }
}

/// The strategies must hit: a property that skips nearly every case proves nothing.
#[test]
fn most_generated_expressions_are_valid() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let valid = (0..1_000)
        .filter(|_| {
            let text = expression().new_tree(&mut runner).unwrap().current();
            parse(&text).is_some()
        })
        .count();
    println!("{valid} of 1000 expressions are valid");
    assert!(valid > 300, "{valid}");
}
