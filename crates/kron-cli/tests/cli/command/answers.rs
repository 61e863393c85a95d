//! What the command answers to programs: JSON, checked by counting the same thing another way.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::kron::{fixture, kron, kron_reading};
use serde_json::{Value, json};

const FROM: &str = "2026-03-01T00:00:00Z";

const DECISION_FIELDS: [&str; 16] = [
    "attempts",
    "chosen_time",
    "constraints_applied",
    "distribution",
    "nominal_time",
    "period_id",
    "period_key",
    "reason",
    "salt",
    "seed_hash",
    "seed_strategy",
    "timezone",
    "tzdb",
    "unschedulable",
    "window_end",
    "window_start",
];

/// Seconds since 1970 of `YYYY-MM-DDTHH:MM:SSZ`, worked out without the engine.
fn unix(text: &str) -> i64 {
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().expect(text);
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    // Days from civil, with March as the first month.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 719_469;
    days * 86_400 + number(11..13) * 3_600 + number(14..16) * 60 + number(17..19)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} of {value}"))
}

/// What `kron next` tells of a period: when it falls due, and its chosen time if it has one.
struct Told {
    due: i64,
    chosen: Option<String>,
}

/// The periods of a job from well before to well after the days that are compared.
fn periods(file: &str, job: &str) -> BTreeMap<String, Told> {
    let run = kron(&[
        "next",
        job,
        "--config",
        file,
        "--after",
        "2026-02-27T00:00:00Z",
        "-n",
        "1000",
        "--format",
        "json",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    run.json_lines()
        .iter()
        .map(|decision| {
            let chosen = decision["chosen_time"].as_str().map(str::to_owned);
            let due = unix(chosen.as_deref().unwrap_or(text(decision, "window_start")));
            (text(decision, "period_id").to_owned(), Told { due, chosen })
        })
        .collect()
}

#[test]
fn a_decision_has_exactly_the_agreed_fields() {
    let requests = kron(&["decide", &fixture("requests.jsonl")]);
    assert_eq!((requests.code, requests.err.as_str()), (Some(0), ""));
    let schedule = "0 3 * * * @tz(Europe/Paris) @win(after,2h) @only(hours=3-4)";
    let next = kron(&["next", "--schedule", schedule, "--identity", "x", "--format", "json"]);
    let decisions = [requests.json_lines(), next.json_lines()].concat();
    assert_eq!(decisions.len(), 9);
    for decision in &decisions {
        let fields: Vec<&String> = decision.as_object().unwrap().keys().collect();
        let expected = BTreeSet::from(DECISION_FIELDS);
        assert_eq!(fields.iter().map(|field| field.as_str()).collect::<BTreeSet<_>>(), expected);
        assert_eq!(fields.len(), expected.len());
        assert_eq!(decision["period_id"], decision["nominal_time"]);
        assert_eq!(decision["unschedulable"], decision["chosen_time"].is_null());
        assert_eq!(decision["unschedulable"], !decision["reason"].is_null());
    }
    assert_eq!(decisions[0]["chosen_time"], "2026-03-01T02:32:20Z");
    assert_eq!(decisions[1]["chosen_time"], "2026-03-02T09:27:06Z");
    assert_eq!(decisions[1]["distribution"], json!({"name": "skewLate", "params": {"shape": 2.5}}));
    assert_eq!(decisions[2]["reason"], "no candidate accepted within MaxAttempts");
    assert_eq!(decisions[2]["attempts"], 64);
    let applied = json!({"only": ["hours=5"], "avoid": ["dow=SUN", "months=JAN"]});
    assert_eq!(decisions[2]["constraints_applied"], applied);
    assert_eq!(decisions[3]["nominal_time"], "2026-03-02T09:00:00Z");
}

#[test]
fn a_bad_request_is_answered_on_its_line_and_the_rest_goes_on() {
    let run = kron(&["decide", &fixture("bad-requests.jsonl")]);
    assert_eq!((run.code, run.err.as_str()), (Some(2), ""));
    let lines = run.json_lines();
    assert_eq!(lines.len(), 17, "an empty line asks nothing");
    for (index, line) in lines.iter().enumerate() {
        if index == 0 || index == 16 {
            assert_eq!(text(line, "period_id"), FROM);
            continue;
        }
        let fields: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["error"], "{line}");
        let fields: Vec<&String> = line["error"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["category", "message"], "{line}");
        let category = text(&line["error"], "category");
        assert!(["ConfigurationError", "ValidationError"].contains(&category), "{line}");
        assert!(!text(&line["error"], "message").is_empty());
    }
}

#[test]
fn decide_and_next_agree() {
    let run = kron(&[
        "next",
        "db-backup",
        "--config",
        &fixture("host.toml"),
        "--after",
        FROM,
        "--format",
        "json",
    ]);
    for decision in run.json_lines() {
        let request = json!({
            "identity": "db-backup",
            "nominal_time": decision["nominal_time"],
            "timezone": "Europe/Paris",
            "window_duration": "2h",
            "distribution": {"name": "skewEarly"},
            "constraints": {"avoid": "between=04:00-04:30"},
        });
        let answer = kron_reading(&["decide"], request.to_string().as_bytes());
        assert_eq!(answer.json(), decision);
    }
}

/// Counts per bucket and in all, from what `next` says of each job.
fn counted(files: &[(&str, &[&str])], bucket: i64, days: i64) -> (Vec<u64>, u64, u64) {
    let (start, end) = (unix(FROM), unix(FROM) + days * 86_400);
    let mut buckets = vec![0; ((end - start) / bucket) as usize];
    let (mut nominal, mut unschedulable) = (0, 0);
    for (file, jobs) in files {
        for job in *jobs {
            for (period, Told { due, chosen }) in periods(file, job) {
                let inside = |t: i64| (start..end).contains(&t);
                nominal += u64::from(inside(unix(&period)));
                match chosen {
                    Some(_) if inside(due) => buckets[((due - start) / bucket) as usize] += 1,
                    Some(_) => {}
                    None => unschedulable += u64::from(inside(due)),
                }
            }
        }
    }
    (buckets, nominal, unschedulable)
}

#[test]
fn forecast_counts_what_next_lists() {
    let (host, web) = (fixture("host.toml"), fixture("web.krontab"));
    // `resting` is suspended.
    let host_jobs: &[&str] = &["db-backup", "log-rotate", "heartbeat", "impossible"];
    let web_jobs: &[&str] = &[
        "invoices",
        "rollup",
        "thumbnails",
        "search",
        "sitemap",
        "geoip",
        "rates",
        "ldap",
        "täglich/Sicherung",
    ];
    for (bucket, seconds) in [("1h", 3_600), ("20m", 1_200), ("1d", 86_400)] {
        let run = kron(&[
            "forecast", &host, &web, "--from", FROM, "--for", "2d", "--bucket", bucket, "--format",
            "json",
        ]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let forecast = run.json();
        let (expected, nominal, unschedulable) =
            counted(&[(&host, host_jobs), (&web, web_jobs)], seconds, 2);
        let buckets = forecast["buckets"].as_array().unwrap();
        let starts: Vec<u64> =
            buckets.iter().map(|bucket| bucket["starts"].as_u64().unwrap()).collect();
        assert_eq!(starts, expected, "per {bucket}");
        let total: u64 = starts.iter().sum();
        assert_eq!(forecast["starts"], total);
        let sum = |field: &str| buckets.iter().map(|b| b[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("starts_without_windows"), nominal);
        assert_eq!(forecast["starts_without_windows"], nominal);
        assert_eq!(forecast["unschedulable"], unschedulable);
        assert_eq!((&forecast["jobs"], &forecast["jobs_suspended"]), (&json!(14), &json!(1)));
        let peak = expected.iter().max().unwrap();
        assert_eq!(forecast["peak"]["starts"], *peak);
        let index = expected.iter().position(|starts| starts == peak).unwrap();
        assert_eq!(forecast["peak"]["start"], buckets[index]["start"]);
        assert_eq!(forecast["peak"]["runs"].as_array().unwrap().len() as u64, *peak);
        assert_eq!(unix(text(&buckets[1], "start")) - unix(FROM), seconds);
    }
}

#[test]
fn diff_counts_what_next_lists() {
    let (old, new) = (fixture("host.toml"), fixture("host-edited.toml"));
    let run = kron(&["diff", &old, &new, "--from", FROM, "--for", "2d", "--format", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let diff = run.json();
    let mut seen = 0;
    for (job, in_old, in_new) in [
        ("db-backup", true, true),
        ("log-rotate", true, false),
        ("heartbeat", true, true),
        ("impossible", true, true),
        ("verify", false, true),
        // Suspended in the old file.
        ("resting", false, true),
    ] {
        let list = |there: bool, file: &str| {
            if there { periods(file, job) } else { BTreeMap::new() }
        };
        let compared = unix(FROM)..unix(FROM) + 2 * 86_400;
        let (before, after) = (list(in_old, &old), list(in_new, &new));
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        for period in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let (old, new) = (before.get(period), after.get(period));
            if ![old, new].iter().flatten().any(|told| compared.contains(&told.due)) {
                continue;
            }
            let word = match (old.map(|told| &told.chosen), new.map(|told| &told.chosen)) {
                (None, _) => "appeared",
                (_, None) => "vanished",
                (Some(None), Some(Some(_))) => "became_schedulable",
                (Some(Some(_)), Some(None)) => "became_unschedulable",
                (old, new) if old == new => "unchanged",
                _ => "moved",
            };
            *expected.entry(word).or_default() += 1;
        }
        let jobs = diff["jobs"].as_array().unwrap();
        let told = jobs.iter().find(|told| told["identity"] == job).unwrap();
        for word in [
            "unchanged",
            "moved",
            "appeared",
            "vanished",
            "became_unschedulable",
            "became_schedulable",
        ] {
            assert_eq!(told[word], expected.get(word).copied().unwrap_or(0), "{job} {word}");
        }
        let changed: u64 =
            expected.iter().filter(|(word, _)| **word != "unchanged").map(|(_, n)| n).sum();
        assert_eq!(told["periods"].as_array().unwrap().len() as u64, changed, "{job}");
        for period in told["periods"].as_array().unwrap() {
            let id = text(period, "period_id");
            let chosen = |list: &BTreeMap<String, Told>| {
                json!(list.get(id).and_then(|told| told.chosen.clone()))
            };
            assert_eq!((&period["old"], &period["new"]), (&chosen(&before), &chosen(&after)));
        }
        seen += 1;
    }
    assert_eq!(diff["jobs"].as_array().unwrap().len(), seen);
    for (file, field) in [(&old, "peak_old"), (&new, "peak_new")] {
        let forecast =
            kron(&["forecast", file, "--from", FROM, "--for", "2d", "--format", "json"]).json();
        assert_eq!(diff[field], forecast["peak"]["starts"]);
    }
}

#[test]
fn the_candidates_of_explain_lead_to_its_decision() {
    for (job, at) in [
        ("db-backup", "2026-03-01T02:00:00Z"),
        ("heartbeat", FROM),
        ("impossible", "2026-03-01T09:00:00Z"),
        ("log-rotate", "2026-03-05T00:00:00Z"),
    ] {
        let run = kron(&[
            "explain",
            job,
            "--config",
            &fixture("host.toml"),
            "--at",
            at,
            "--format",
            "json",
        ]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let story = run.json();
        let decision = &story["decision"];
        let answer = kron_reading(&["decide"], story["request"].to_string().as_bytes());
        assert_eq!(&answer.json(), decision, "the request is the one that was decided");
        let start = unix(text(decision, "window_start"));
        let end = unix(text(decision, "window_end"));
        let candidates = story["candidates"].as_array().unwrap();
        assert_eq!(decision["attempts"], candidates.len());
        let mut chosen = None;
        for (index, candidate) in candidates.iter().enumerate() {
            assert_eq!(candidate["attempt"], index + 1);
            let t = unix(text(candidate, "candidate"));
            let position = candidate["position"].as_f64().unwrap();
            let offset = ((position * (end - start + 1) as f64) as i64).min(end - start);
            assert_eq!(t, start + offset);
            assert_eq!(candidate["offset_seconds"], offset);
            let allowed = story["coverage"]["allowed"].as_array().unwrap().iter().any(|stretch| {
                let bound = |index: usize| unix(stretch[index].as_str().unwrap());
                (bound(0)..=bound(1)).contains(&t)
            });
            assert_eq!(candidate["rejected_by"].is_null(), allowed, "{candidate}");
            assert!(chosen.is_none(), "nothing is tried after a choice");
            chosen = allowed.then(|| candidate["candidate"].clone());
        }
        assert_eq!(decision["chosen_time"], chosen.unwrap_or(Value::Null));
    }
}

/// The line of `log` on which a decision stands, with one digit of its chosen time changed.
fn tampered(log: &str, wanted: usize, key: &str) -> (String, usize) {
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    let (index, line) = lines
        .iter_mut()
        .enumerate()
        .filter(|(_, line)| line.contains(key))
        .nth(wanted)
        .expect("there is such a decision");
    let at = line.find(key).expect("it was found") + key.len() + "2026-03-02T09:27:0".len();
    let digit = line.as_bytes()[at];
    assert!(digit.is_ascii_digit(), "{line}");
    let other = if digit == b'9' { "0" } else { "9" };
    line.replace_range(at..=at, other);
    (lines.join("\n"), index + 1)
}

#[test]
fn replay_finds_one_changed_digit() {
    for (name, key) in
        [("decisions.log", "chosen_time="), ("decisions.json.log", "\"chosen_time\": \"")]
    {
        #[expect(clippy::disallowed_methods, reason = "a fixture")]
        let log = std::fs::read_to_string(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture(name)),
        )
        .unwrap();
        let sound = kron_reading(&["replay", "-"], log.as_bytes());
        let said = "4 decisions, all as recorded\n";
        assert_eq!((sound.code, sound.out.as_str()), (Some(0), said), "{name}");
        for wanted in 0..3 {
            let (log, line) = tampered(&log, wanted, key);
            let run = kron_reading(&["replay", "-", "--format", "json"], log.as_bytes());
            assert_eq!(run.code, Some(1), "{name} {wanted}");
            let report = run.json();
            assert_eq!(report["identical"], false);
            assert_eq!(report["first_difference"]["line"], line);
            let fields = report["first_difference"]["fields"].as_array().unwrap();
            assert_eq!(fields.len(), 1);
            assert_eq!(fields[0]["field"], "chosen_time");
            let told = kron_reading(&["replay", "-"], log.as_bytes());
            assert!(told.out.starts_with(&format!("line {line}: ")), "{}", told.out);
        }
    }
}

#[test]
fn what_decide_logs_replay_reads() {
    let log = kron(&["decide", "--format", "log", &fixture("requests.jsonl")]);
    assert_eq!(log.out.lines().count(), 4);
    assert!(log.out.lines().all(|line| line.starts_with("event=decision identity=")));
    let replay = kron_reading(&["replay", "-"], log.out.as_bytes());
    assert_eq!((replay.code, replay.out.as_str()), (Some(0), "4 decisions, all as recorded\n"));
}
