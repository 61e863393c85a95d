//! The judge notices what is wrong in audit logs that are written by hand.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::judge::{Expected, JobKey, Judge, Wrong, period_label};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A creation of the Job of `hourly` for this period, answered half a second after this time.
fn creation(period: &str, time: &str, code: u16) -> Value {
    let object = json!({ "metadata": {
        "name": format!("hourly-{}", period.to_lowercase()),
        "uid": format!("{period}-{time}"),
        "labels": { "kron.dev/kronjob": "hourly", "kron.dev/period": period },
        "ownerReferences": [{ "uid": "hourly-1" }],
    } });
    let status = json!({ "kind": "Status", "code": code });
    json!({
        "stage": "ResponseComplete",
        "verb": "create",
        "user": { "username": "operator" },
        "requestURI": "/apis/batch/v1/namespaces/a/jobs",
        "objectRef": { "resource": "jobs", "apiGroup": "batch", "namespace": "a" },
        "requestObject": object,
        "responseObject": if code == 201 { &object } else { &status },
        "responseStatus": { "code": code },
        "requestReceivedTimestamp": format!("{time}.250000Z"),
        "stageTimestamp": format!("{time}.500000Z"),
    })
}

const FIRST: &str = "20260301T000000Z";
const SECOND: &str = "20260301T010000Z";
const THIRD: &str = "20260301T020000Z";

/// A log in which nothing is wrong.
fn good() -> Vec<Value> {
    vec![
        creation(FIRST, "2026-03-01T00:00:00", 201),
        creation(SECOND, "2026-03-01T01:00:00", 201),
        creation(THIRD, "2026-03-01T02:00:00", 201),
    ]
}

fn expected() -> Expected {
    Expected {
        namespace: "a".to_owned(),
        kronjob: "hourly".to_owned(),
        every: Duration::from_secs(3600),
        from: at("2026-02-28T23:30:00Z"),
        to: at("2026-03-01T02:30:00Z"),
        deadline: Some(Duration::from_secs(60)),
    }
}

fn read(log: &[Value]) -> Judge {
    let lines: Vec<String> = log.iter().map(|line| format!("{line}\n")).collect();
    Judge::read_text(&lines.concat())
}

fn key(period: &str) -> JobKey {
    JobKey { namespace: "a".to_owned(), kronjob: "hourly".to_owned(), period: period.to_owned() }
}

#[track_caller]
fn check(log: &[Value], wrong: &[Wrong]) {
    assert_eq!(read(log).judge(&expected()), wrong);
}

#[test]
fn nothing_is_wrong_with_one_job_per_period() {
    check(&good(), &[]);
    let judge = read(&good());
    assert_eq!(judge.doubled(), []);
    assert_eq!(judge.created().len(), 3);
    assert_eq!(judge.lateness(&expected()), [jiff::SignedDuration::from_millis(500); 3]);
}

#[test]
fn a_doubled_job_is_noticed() {
    let mut log = good();
    log.push(creation(SECOND, "2026-03-01T01:00:30", 201));
    check(&log, &[Wrong::Doubled(key(SECOND), 2)]);
    assert_eq!(read(&log).doubled(), [Wrong::Doubled(key(SECOND), 2)]);
}

#[test]
fn a_job_doubled_by_server_side_apply_is_noticed() {
    let mut log = good();
    let mut second = creation(SECOND, "2026-03-01T01:00:30", 201);
    second["verb"] = "patch".into();
    log.push(second);
    check(&log, &[Wrong::Doubled(key(SECOND), 2)]);
}

#[test]
fn a_kronjob_that_is_created_again_may_have_a_job_of_the_same_period() {
    let kronjob = |uid: &str| {
        let mut created = creation(FIRST, "2026-02-28T23:00:00", 201);
        created["objectRef"]["resource"] = json!("kronjobs");
        created["responseObject"] = json!({ "metadata": { "name": "hourly", "uid": uid } });
        created
    };
    let owners = |owner: &Value| {
        let mut log = vec![kronjob("hourly-1"), kronjob("hourly-2")];
        log.extend(good());
        let mut second = creation(SECOND, "2026-03-01T01:00:30", 201);
        second["responseObject"]["metadata"]["ownerReferences"] = owner.clone();
        log.push(second);
        log
    };
    check(&owners(&json!([{ "uid": "hourly-2" }])), &[]);
    assert_eq!(read(&owners(&json!([{ "uid": "hourly-2" }]))).doubled(), []);
    // A Job without an owner, or of one that never was, counts for every KronJob.
    for unknown in [Value::Null, json!([{ "uid": "hourly-3" }])] {
        check(&owners(&unknown), &[Wrong::Doubled(key(SECOND), 2)]);
    }
    // Of three, two are of one KronJob.
    let mut three = owners(&json!([{ "uid": "hourly-2" }]));
    three.push(creation(SECOND, "2026-03-01T01:00:40", 201));
    check(&three, &[Wrong::Doubled(key(SECOND), 2)]);
}

#[test]
fn a_missing_job_is_noticed() {
    let mut log = good();
    log.remove(1);
    check(&log, &[Wrong::Missing(key(SECOND))]);
    check(&[], &[FIRST, SECOND, THIRD].map(|period| Wrong::Missing(key(period))));
}

#[test]
fn a_refused_job_is_missing_and_known_as_refused() {
    let mut log = good();
    log[1] = creation(SECOND, "2026-03-01T01:00:00", 500);
    check(&log, &[Wrong::Missing(key(SECOND))]);
    let judge = read(&log);
    let [refusal] = judge.refused() else { panic!("one is refused: {:?}", judge.refused()) };
    assert_eq!((&refusal.key, refusal.code), (&key(SECOND), 500));
}

#[test]
fn a_second_creation_that_is_refused_is_no_double() {
    let mut log = good();
    log.push(creation(SECOND, "2026-03-01T01:00:01", 409));
    check(&log, &[]);
}

#[test]
fn a_dry_run_is_no_job() {
    let mut log = good();
    log[1]["requestURI"] = "/apis/batch/v1/namespaces/a/jobs?dryRun=All&x=1".into();
    check(&log, &[Wrong::Missing(key(SECOND))]);
}

#[test]
fn a_job_that_still_exists_is_not_missing() {
    let mut log = good();
    let job = log.remove(1)["responseObject"].clone();
    let mut judge = read(&log);
    let mut job = job;
    job["metadata"]["namespace"] = "a".into();
    judge.also_exists(&json!({ "items": [job] }));
    assert_eq!(judge.judge(&expected()), []);
}

#[test]
fn a_job_out_of_its_time_is_noticed() {
    let mut log = good();
    log[0] = creation(FIRST, "2026-02-28T23:59:59", 201);
    log[2] = creation(THIRD, "2026-03-01T02:01:00", 201);
    check(&log, &[Wrong::Early(key(FIRST)), Wrong::Late(key(THIRD))]);
}

#[test]
fn a_job_that_nobody_expects_is_noticed() {
    let mut log = good();
    log.push(creation("20260301T013000Z", "2026-03-01T01:30:00", 201));
    check(&log, &[Wrong::Unexpected(key("20260301T013000Z"))]);
}

#[test]
fn another_namespace_and_another_kronjob_are_others() {
    let mut log = good();
    let mut elsewhere = creation(SECOND, "2026-03-01T01:00:00", 201);
    elsewhere["objectRef"]["namespace"] = "b".into();
    let mut other = creation(SECOND, "2026-03-01T01:00:00", 201);
    other["responseObject"]["metadata"]["labels"]["kron.dev/kronjob"] = "other".into();
    log.extend([elsewhere, other]);
    check(&log, &[]);
    assert_eq!(read(&log).doubled(), []);
}

#[test]
fn a_line_that_is_still_written_is_left_out() {
    let mut text = format!("{}\n", good()[0]);
    text.push_str(r#"{"stage":"Resp"#);
    assert_eq!(Judge::read_text(&text).created().len(), 1);
}

#[test]
fn times_are_the_multiples_within_the_bounds() {
    let mut expected = expected();
    expected.from = at("2026-03-01T01:00:00Z");
    expected.to = at("2026-03-01T03:00:00Z");
    let labels: Vec<String> = expected.times().map(period_label).collect();
    assert_eq!(labels, [SECOND, THIRD]);
    expected.from = at("2026-03-01T01:00:00.5Z");
    let labels: Vec<String> = expected.times().map(period_label).collect();
    assert_eq!(labels, [THIRD]);
}
