//! What no user means well: every parser and every search on inputs chosen to break it.
//!
//! Nothing may panic, take longer than a second or answer with a long text, whatever the input
//! is: definitions come from files, flags, requests and clusters that Kron does not control.
//!
//! The second is one of processor time of the testing thread (`kron_testkit::effort`), so a machine that
//! is busy with other tests does not use it up.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::fmt::Debug;
use std::time::Duration;

use kron_core::{
    ClausesRecord, Constraints, ConstraintsRecord, DistributionRecord, Dst, Finding, Gap, Host,
    Overlap, ParameterRecord, Pattern, Request, Schedule, Seconds, TimingParser, UtcSecond, Zone,
};
use kron_testkit::effort::bounded;
use proptest::prelude::*;

/// Processor time that any one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const MESSAGE_BYTES_MAX: usize = 2_048;
/// Findings that one text may cause: seven lists of 256 faulty items, and some modifiers.
const FINDINGS_MAX: usize = 2_048;

/// Runs `work` and fails when it takes too long.
fn timed<T>(what: &dyn Debug, work: impl Fn() -> T) -> T {
    bounded(what, ANSWER_MAX, work)
}

/// A finding is short, and points into the text at whole characters.
fn check_finding(text: &str, finding: &Finding) {
    let message = finding.to_string();
    assert!(message.len() < MESSAGE_BYTES_MAX, "{} bytes: {message:.200}", message.len());
    assert!(!message.contains(char::is_control), "control character in {message:?}");
    let inside = text.get(finding.span.clone()).is_some();
    assert!(inside, "{:?} of {} bytes: {message}", finding.span, text.len());
}

/// A finding about a part of a request, which has no one text to point into.
fn check_message(finding: &Finding) {
    let message = finding.to_string();
    assert!(message.len() < MESSAGE_BYTES_MAX, "{} bytes: {message:.200}", message.len());
}

/// Gives `text` to every parser.
fn check(text: &str) {
    let shown: String = text.chars().take(60).collect();
    let shown = format!("{shown:?}, {} bytes", text.len());
    let parsed = timed(&("pattern", &shown), || Pattern::parse(text, "any"));
    match parsed {
        Ok(pattern) => check_pattern(&pattern),
        Err(finding) => check_finding(text, &finding),
    }
    for found in [
        timed(&("duration", &shown), || Seconds::parse(text).err()),
        timed(&("timestamp", &shown), || UtcSecond::parse(text).err()),
        timed(&("zone", &shown), || Zone::named(text).err()),
        timed(&("only", &shown), || Constraints::parse(text, "").err()),
        timed(&("avoid", &shown), || Constraints::parse("", text).err()),
    ]
    .iter()
    .flatten()
    {
        check_finding(text, found);
    }
    for expression in [
        text.to_owned(),
        format!("* * * * * {text}"),
        format!("0 0 * * * @seed(stable,salt={text})"),
        format!("0 0 * * * @only({text})"),
        format!("0 0 * * * @{text}()"),
    ] {
        let result = timed(&("expression", &shown), || {
            TimingParser::new().parse(&expression, "any", Host::default())
        });
        match result {
            Ok(timing) => {
                let printed = timed(&("print", &shown), || timing.to_string());
                assert!(printed.len() <= 4 * expression.len() + 256, "{shown}");
            }
            Err(findings) => {
                assert!(findings.len() < FINDINGS_MAX, "{} findings: {shown}", findings.len());
                findings.iter().for_each(|finding| check_finding(&expression, finding));
            }
        }
    }
    check_request(text, &shown);
}

/// Puts `text` into every field of a request in turn.
fn check_request(text: &str, shown: &str) {
    let text = || Some(text.to_owned());
    let clauses = || text().map(ClausesRecord::Text);
    let constraints = |only, avoid| Some(ConstraintsRecord { only, avoid });
    let distribution = |name: Option<String>, value: Option<String>| {
        let value = value.map(|value| ("shape".to_owned(), ParameterRecord::Text(value)));
        let params = value.into_iter().collect();
        Some(DistributionRecord { name: name.unwrap_or_default(), params: Some(params) })
    };
    let plain = Request {
        identity: Some("any".to_owned()),
        nominal_time: Some("2026-03-01T00:00:00Z".to_owned()),
        window_duration: Some("1h".to_owned()),
        ..Request::default()
    };
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = plain.clone();
        change(&mut request);
        request
    };
    for request in [
        with(&|request| request.identity = text()),
        with(&|request| request.nominal_time = text()),
        with(&|request| request.timezone = text()),
        with(&|request| request.window_mode = text()),
        with(&|request| request.window_duration = text()),
        with(&|request| request.distribution = distribution(text(), None)),
        with(&|request| {
            request.distribution = distribution(Some("skewLate".to_owned()), text());
        }),
        with(&|request| request.seed_strategy = text()),
        with(&|request| request.salt = text()),
        with(&|request| request.constraints = constraints(clauses(), None)),
        with(&|request| request.constraints = constraints(None, clauses())),
    ] {
        let resolved = timed(&shown, || request.resolve(&mut TimingParser::new()));
        match resolved {
            Ok((placement, nominal)) => {
                let decided = timed(&shown, || placement.decide(nominal));
                if let Err(finding) = decided {
                    check_message(&finding);
                }
            }
            Err(finding) => check_message(&finding),
        }
    }
}

/// Searches of a pattern end quickly, in the right direction.
fn check_pattern(pattern: &Pattern) {
    for zone in ["UTC", "Africa/Casablanca", "Europe/Dublin"] {
        check_schedule(&Schedule::new(pattern.clone(), Zone::named(zone).unwrap(), Dst::default()));
    }
}

fn check_schedule(schedule: &Schedule) {
    let shown = format!("{} in {}", schedule.pattern(), schedule.zone());
    for t in [
        UtcSecond::MIN,
        UtcSecond::from_unix(-1).unwrap(),
        "2026-03-28T12:00:00Z".parse().unwrap(),
        "2199-12-31T23:59:59Z".parse().unwrap(),
        UtcSecond::MAX,
    ] {
        let next = timed(&("next", &shown), || schedule.next_after(t));
        assert!(next.is_none_or(|next| next > t), "{shown} after {t}: {next:?}");
        let previous = timed(&("previous", &shown), || schedule.prev_at_or_before(t));
        assert!(previous.is_none_or(|previous| previous <= t), "{shown} at {t}: {previous:?}");
    }
    if let Some(gap) = timed(&("shortest gap", &shown), || schedule.shortest_gap()) {
        assert!(gap.from < gap.to, "{shown}: {gap:?}");
    }
}

#[test]
fn ten_megabytes_of_anything_are_refused_at_once() {
    const BYTES: usize = 10_000_000;
    for unit in [
        "*", ",", "9", "0", "(", ")", "@", ";", "-", "H", "\"", "\\", " ", "\t", "/", "#", "L",
        "W", "+", "?", "=", "%", ".", "\0", "\u{85}", "é", "🦀", "\u{202e}",
    ] {
        check(&unit.repeat(BYTES / unit.len()));
    }
}

#[test]
fn ten_megabytes_with_structure_are_refused_at_once() {
    const BYTES: usize = 10_000_000;
    for unit in [
        "1,",
        "1-2,",
        "*/2,",
        "H,",
        "x,",
        "* ",
        "0 0 ",
        "@x() ",
        "@only(hours=1) ",
        "@only() ",
        "@tz(UTC) ",
        "@dst() ",
        "hours=1;",
        "x;",
        ";",
        "dow=MON,",
        "date=2026-01-01;",
        "dates=2026-01-01..2026-01-02,",
        "between=00:00-23:59;",
        "1h",
        "0s",
        "1.",
        "\"\\\"",
        "@win(",
        "a=b,",
        "{[",
        "2026-03-01T00:00:00Z",
        "Europe/Paris",
    ] {
        check(&unit.repeat(BYTES / unit.len()));
    }
    let number = "9".repeat(BYTES);
    for text in [
        format!("0 0 {number} * *"),
        format!("*/{number} * * * *"),
        format!("0 0 0 1 1 * {number}"),
        format!("0 0 * * {number}#{number}"),
        format!("H({number}-{number}) * * * *"),
        format!("{number}h"),
        format!("0.{number}h"),
        format!("2026-03-01T00:00:00.{number}Z"),
        format!("hours={number}-{number}"),
        format!("0 0 * * * @win(after,{number}h)"),
        format!("0 0 * * * @dist(skewEarly,shape={number})"),
        format!("0 0 * * * @dist(skewEarly,shape=0.{number})"),
        format!("0 0 * * * @seed(stable,salt=\"{number})"),
        format!("a{}b", " ".repeat(BYTES)),
        format!("{} * * * *", ["59"; BYTES / 3].join(",")),
    ] {
        check(&text);
    }
}

#[test]
fn a_request_with_a_million_clauses_is_refused_at_once() {
    for clause in ["hours=1", "x", "", "date=2026-01-01"] {
        let request = Request {
            identity: Some("any".to_owned()),
            nominal_time: Some("2026-03-01T00:00:00Z".to_owned()),
            constraints: Some(ConstraintsRecord {
                only: Some(ClausesRecord::List(vec![clause.to_owned(); 1_000_000])),
                avoid: Some(ClausesRecord::Text(format!("{clause};").repeat(1_000_000))),
            }),
            ..Request::default()
        };
        let resolved = timed(&clause, || request.resolve(&mut TimingParser::new()));
        if let Err(finding) = resolved {
            check_message(&finding);
        }
    }
}

#[test]
fn odd_texts_are_answered() {
    for text in [
        "",
        "\0",
        "0 0 * * *\0",
        "\u{feff}0 0 * * *",
        "0\u{a0}0\u{a0}*\u{a0}*\u{a0}*",
        "0 0 * * * @",
        "0 0 * * * @(",
        "0 0 * * * @tz",
        "0 0 * * * @tz(",
        "0 0 * * * @tz()",
        "0 0 * * * @tz(\"UTC)",
        "0 0 * * * @tz(UTC)é",
        "0 0 * * * @tz(é)é",
        "0 0 * * * @seed(stable,salt=\"\\x\")",
        "0 0 * * * @seed(stable,salt=%)",
        "0 0 * * * @seed(stable,salt=%é)",
        "0 0 * * * @win(after,-1h)",
        "0 0 * * * @win(after,9223372037s)",
        "0 0 * * * @dist(normal,sigma=0s)",
        "0 0 * * * @dist(normal)",
        "-1h",
        "-",
        "0x10s",
        "1e9s",
        "١h",
        "99999999999999999999d",
        "*/0 * * * *",
        "*/4294967296 * * * *",
        "*/18446744073709551616 * * * *",
        "59-0 * * * *",
        "0 0 0 0 0",
        "0 0 32 13 8",
        "0 0 L-31 * *",
        "0 0 L-0 * *",
        "0 0 0W * *",
        "0 0 W * *",
        "0 0 1-5W * *",
        "0 0 * * #",
        "0 0 * * MON#",
        "0 0 * * #1",
        "0 0 * * L",
        "0 0 * * +",
        "0 0 * * ++1",
        "H( * * * *",
        "H() * * * *",
        "H(-) * * * *",
        "H(1-2)/0 * * * *",
        "H(59-0) * * * *",
        "Hé * * * *",
        "éW * * * *",
        "0 0 éW * *",
        "0 0 * * éL",
        "0 0 * * é#é",
        "0 0 * * * * 1969",
        "0 0 0 * * * 1969-2200",
        "0 0 0 * * * 99999",
        "@",
        "@daily é",
        "@reboot",
        "0000-00-00T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-03-01T00:00:00+é",
        "2026-03-01T00:00:00.é",
        "hours",
        "=",
        "hours=",
        "=1",
        "hours=1-",
        "between=é0:00-00:00",
        "between=0é:00-00:00",
        "date=2026-02-30",
        "dates=..",
        "dates=2026-01-01..",
        "dates=9999-12-31..0001-01-01",
        "dates=0001-01-01..9999-12-31;dow=MON;months=FEB;dom=30",
    ] {
        check(text);
    }
}

#[test]
fn requests_nested_or_overlong_are_refused() {
    for text in [
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        format!("{{\"distribution\":{}", "{\"name\":".repeat(100_000)),
        format!("{{\"distribution\":{{\"name\":\"normal\",\"params\":{}", "[".repeat(100_000)),
        "{\"identity\":1}".to_owned(),
        "{\"identity\":null,\"nominal_time\":null}".to_owned(),
        "{\"identity\":\"a\",\"identity\":\"b\"}".to_owned(),
        "{\"distribution\":{\"name\":\"normal\",\"params\":{\"sigma\":1e400}}}".to_owned(),
        "\u{0}".to_owned(),
    ] {
        let resolved = timed(&text.len(), || {
            serde_json::from_str::<Request>(&text)
                .ok()
                .map(|request| request.resolve(&mut TimingParser::new()))
        });
        if let Some(Err(finding)) = resolved {
            check_message(&finding);
        }
    }
}

#[test]
fn numbers_in_requests_have_limits() {
    for number in ["1e308", "-1e308", "5e-324", "18446744073709551615", "-9223372036854775808", "0"]
    {
        let text = format!(
            "{{\"identity\":\"a\",\"nominal_time\":\"2026-03-01T00:00:00Z\",\"distribution\":\
             {{\"name\":\"skewEarly\",\"params\":{{\"shape\":{number}}}}}}}"
        );
        let request: Request = serde_json::from_str(&text).unwrap();
        let finding = request.resolve(&mut TimingParser::new()).unwrap_err();
        check_message(&finding);
    }
}

#[test]
fn searches_of_rare_and_dense_patterns_end() {
    let zones: Vec<Zone> = [
        "UTC",
        "Africa/Casablanca",
        "America/Havana",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Antarctica/Troll",
    ]
    .iter()
    .map(|name| Zone::named(name).unwrap())
    .collect();
    for text in [
        "* * * * * *",
        "*/2 * * * * *",
        "0,1,59 * * * * *",
        "59 59 23 * * *",
        "*/7 */7 */7 */7 */7 */7",
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 29 2 *",
        "0 0 29 2 +MON",
        "0 0 29 2 +MON#1",
        "0 0 29 2 +MON#5",
        "0 0 1 1 +MON#5",
        "0 0 L-30 2 *",
        "0 0 31W 2 *",
        "59 59 23 31 12 +7#5 2199",
        "0 0 0 1 1 * 1970",
        "0 0 0 1 1 * 2199",
        "* * * 30 2 * 2199",
        "* * * * * * 1970",
        "0 0 0 29 2 * 2100",
        "* * * 29 2 * 1970-2199/4",
    ] {
        let pattern = Pattern::parse(text, "any").unwrap();
        for zone in &zones {
            for gap in [Gap::Shift, Gap::Skip] {
                for overlap in [Overlap::Auto, Overlap::First, Overlap::Last, Overlap::Both] {
                    let dst = Dst { gap, overlap };
                    check_schedule(&Schedule::new(pattern.clone(), zone.clone(), dst));
                }
            }
        }
    }
}

/// Texts that are nearly right: pieces of the grammar in any order.
fn nearly() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "*",
        "0",
        "59",
        "60",
        "7",
        "31",
        "2199",
        "99999999999",
        "H",
        "H(",
        "H(0-9)",
        "L",
        "LW",
        "W",
        "L-3",
        "#",
        "#L",
        "MON",
        "jan",
        "-",
        ",",
        "/",
        "?",
        "+",
        " ",
        "  ",
        "\t",
        "@",
        "@daily",
        "@tz(",
        "@win(",
        "@dist(",
        "@seed(",
        "@policy(",
        "@only(",
        "@avoid(",
        "@dst(",
        ")",
        "(",
        "\"",
        "\\",
        "%",
        "%H",
        "=",
        ";",
        ":",
        "..",
        ".",
        "after",
        "around",
        "before",
        "1h",
        "30m",
        "-1s",
        "normal",
        "skewEarly",
        "shape",
        "sigma",
        "W/6",
        "stable",
        "fixed",
        "salt",
        "hours",
        "dow",
        "dom",
        "months",
        "between",
        "date",
        "dates",
        "22-4",
        "FRI-MON",
        "00:00-23:59",
        "2026-02-29",
        "2026-03-01T00:00:00Z",
        "+01:00",
        "UTC",
        "Europe/Paris",
        "gap",
        "overlap",
        "deadline",
        "é",
        "🦀",
        "\u{0}",
        "\u{2028}",
        "µs",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

/// Valid expressions with one piece cut out, doubled or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let seed = prop::sample::select(vec![
        "0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly,shape=2.5) @avoid(dow=SUN)",
        "*/15 9-17 1,15,L * MON-FRI @seed(daily,salt=\"a \\\"b\\\" %%\") @dst(gap=skip,overlap=both)",
        "H H(0-7) H * * @only(hours=22-4;between=22:30-04:00;dates=2026-01-01..2026-02-01)",
        "0 0 0 15W 2 MON#2 2026-2030 @dist(normal,mu=mid,sigma=5m) @win(around,30m)",
        "@daily @policy(concurrency=replace,deadline=5m,suspend=true)",
        "2026-03-01T01:00:00.000+01:00",
        "1h30m15.0s",
        "hours=9-17;dow=MON-FRI;months=NOV-FEB;dom=1-7;date=2026-12-25",
        "America/Argentina/Buenos_Aires",
    ]);
    (seed, any::<prop::sample::Index>(), 0usize..12, "\\PC{0,4}|[*,/()@;=\"\\\\ %#+-]{0,4}")
        .prop_map(|(seed, place, cut, put)| {
            let characters: Vec<char> = seed.chars().collect();
            let from = place.index(characters.len());
            let to = (from + cut).min(characters.len());
            characters[..from]
                .iter()
                .chain(&put.chars().collect::<Vec<_>>())
                .chain(&characters[to..])
                .collect()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}|(?s:.){0,60}") {
        check(&text);
    }

    #[test]
    fn pieces_of_grammar_are_answered(text in nearly()) {
        check(&text);
    }

    #[test]
    fn damaged_expressions_are_answered(text in mutated()) {
        check(&text);
    }
}
