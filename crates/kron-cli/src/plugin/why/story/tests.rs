//! What is answered about the KronJobs of a real API server, at any time, and about ones that differ
//! from them in one thing.

use kron_core::TimingParser;
use serde_json::{Value, json};

use super::*;

mod marks;
mod words;

/// As a real API server told them; see `tests/fixtures/cluster/record`.
const POLL: &str = include_str!("../../../../tests/fixtures/cluster/kronjob-poll.json");
const BROKEN: &str = include_str!("../../../../tests/fixtures/cluster/kronjob-broken.json");
const JOBS: &str = include_str!("../../../../tests/fixtures/cluster/jobs-poll.json");

/// When the recording was made, a period waits for its time.
const NOW: &str = "2026-11-16T03:52:00Z";

fn poll() -> Value {
    serde_json::from_str(POLL).unwrap()
}

struct Answer {
    answer: String,
    reason: Option<String>,
    text: String,
    is_known: bool,
}

fn ask(kronjob: &Value, jobs: &str, period: Option<&str>, now: &str) -> Answer {
    let object = serde_json::from_str(&kronjob.to_string()).unwrap();
    let kronjob = KronJob::read(&mut TimingParser::new(), object);
    let jobs: Value = serde_json::from_str(jobs).unwrap();
    let jobs: Vec<JobObject> = serde_json::from_value(jobs["items"].clone()).unwrap();
    let asked = period.map_or(Asked::Now, |text| Asked::At(text.parse().unwrap()));
    let story = tell(&kronjob, &jobs, asked, now.parse().unwrap());
    let WhyView { answer, reason, sentences, .. } = story.view;
    Answer { answer, reason, text: sentences.join("\n"), is_known: story.is_known }
}

/// Asks about the recorded KronJob after a change.
fn check(
    change: impl FnOnce(&mut Value),
    (period, now): (&str, &str),
    (answer, reason): (&str, Option<&str>),
    parts: &[&str],
) {
    let mut kronjob = poll();
    change(&mut kronjob);
    let said = ask(&kronjob, r#"{"items":[]}"#, Some(period), now);
    assert_eq!((&*said.answer, said.reason.as_deref()), (answer, reason), "{}", said.text);
    assert_eq!(said.is_known, answer != "unknown", "{}", said.text);
    for part in parts {
        assert!(said.text.contains(part), "{part}: {}", said.text);
    }
}

#[test]
fn recorded_periods_tell_their_outcome() {
    let executed = ask(&poll(), JOBS, Some("2026-11-16T03:20:00Z"), NOW);
    assert_eq!((&*executed.answer, executed.is_known), ("executed", true));
    assert!(
        executed.text.contains("was made by 2026-11-16T03:21:13Z, 1s after"),
        "{}",
        executed.text
    );
    assert!(
        executed.text.contains("Job poll-20261116t032000z has succeeded at 2026-11-16T03:21:40Z"),
        "{}",
        executed.text
    );
    let missed = ask(&poll(), JOBS, Some("2026-11-16T03:30:00Z"), NOW);
    assert_eq!(missed.reason.as_deref(), Some("deadline exceeded, 1m39s late"));
    assert!(missed.text.contains("It was missed: deadline exceeded"), "{}", missed.text);
    let running = ask(&poll(), JOBS, Some("2026-11-16T03:40:00Z"), NOW);
    assert!(running.text.contains("is running, since 2026-11-16T03:40:24Z"), "{}", running.text);
    assert!(running.text.contains("1 pod failed so far"), "{}", running.text);
    assert!(running.text.contains("Under way: poll-20261116t034000z"), "{}", running.text);
}

#[test]
fn of_many_jobs_under_way_some_are_named() {
    let mut many = poll();
    many["status"]["activeCount"] = json!(23);
    let said = ask(&many, JOBS, None, NOW);
    assert!(said.text.contains("Under way: poll-20261116t034000z and 22 more."), "{}", said.text);
}

#[test]
fn without_a_period_the_current_one_is_meant_and_the_next_is_told() {
    let said = ask(&poll(), JOBS, None, NOW);
    assert_eq!(said.answer, "executed");
    assert!(
        said.text.contains("The next period is 2026-11-16T03:50:00Z, due at 2026-11-16T03:53:31Z"),
        "{}",
        said.text
    );
}

#[test]
fn a_job_that_is_gone_is_told() {
    let same = |_: &mut Value| {};
    let at = |period| (period, NOW);
    check(same, at("2026-11-16T03:20:00Z"), ("executed", None), &["has succeeded; it is not kept"]);
    check(same, at("2026-11-16T03:40:00Z"), ("executed", None), &["somebody has deleted it"]);
}

#[test]
fn a_job_without_a_record_is_told() {
    let mut unrecorded = poll();
    unrecorded["status"] = json!({"observedGeneration": 1});
    let said = ask(&unrecorded, JOBS, Some("2026-11-16T03:40:00Z"), NOW);
    assert_eq!((&*said.answer, said.is_known), ("executed", true));
    assert!(said.text.contains("the status does not tell of it"), "{}", said.text);
}

#[test]
fn a_stretch_tells_of_each_of_its_periods() {
    let stretch = |kronjob: &mut Value| {
        kronjob["status"]["recent"] = json!([{
            "periodId": "2026-11-16T04:40:00Z", "nominalTime": "2026-11-16T04:40:00Z",
            "outcome": "missed", "reason": "superseded", "recordedAt": "2026-11-16T04:50:00Z",
            "firstPeriodId": "2026-11-16T03:50:00Z", "count": 6,
        }]);
    };
    let asked = ("2026-11-16T04:10:00Z", "2026-11-16T05:00:00Z");
    check(stretch, asked, ("missed", Some("superseded")), &["one of 6 periods from"]);
}

#[test]
fn what_is_not_recorded_has_a_reason() {
    let (due, later) = ("2026-11-16T03:50:00Z", "2026-11-16T03:53:40Z");
    let same = |_: &mut Value| {};
    check(same, (due, NOW), ("waiting", None), &["that is in 1m31s"]);
    check(same, (due, later), ("starting", None), &["9s ago", "deadline of 1m lasts until"]);
    let overdue = (due, "2026-11-16T03:59:00Z");
    check(same, overdue, ("starting", None), &["passed at 2026-11-16T03:54:31Z"]);
    let created = ("fell due before the job was created", "2026-11-16T03:19:11Z");
    check(same, ("2026-11-16T03:10:00Z", NOW), ("none", Some(created.0)), &[created.1]);
    let suspend = |since: &'static str| {
        move |kronjob: &mut Value| {
            kronjob["spec"]["policy"]["suspend"] = json!(true);
            kronjob["status"]["suspendedAt"] = json!(since);
        }
    };
    check(
        suspend("2026-11-16T03:45:00Z"),
        (due, later),
        ("none", Some("suspended")),
        &["suspended since 2026-11-16T03:45:00Z"],
    );
    // What fell due before is another matter.
    check(
        suspend("2026-11-16T03:53:35Z"),
        (due, later),
        ("starting", None),
        &["after it fell due"],
    );
    check(suspend("2026-11-16T03:45:00Z"), (due, NOW), ("waiting", Some("suspended")), &[]);
    let resumed = |kronjob: &mut Value| kronjob["status"]["resumedAt"] = json!(later);
    check(resumed, (due, later), ("none", Some("fell due while suspended")), &[later]);
    let changed = |kronjob: &mut Value| kronjob["status"]["effectiveFrom"] = json!(later);
    check(changed, (due, later), ("none", Some("definition changed")), &[later]);
    let failing = |kronjob: &mut Value| {
        kronjob["status"]["conditions"][2]["status"] = json!("True");
        kronjob["status"]["conditions"][2]["message"] = json!("quota exceeded");
    };
    check(failing, (due, later), ("failing", None), &["could not be made: quota exceeded"]);
    let handled = |kronjob: &mut Value| {
        kronjob["status"]["lastHandledPeriod"] = json!("2026-11-16T06:00:00Z");
    };
    let long_after = (due, "2026-11-16T06:05:00Z");
    check(handled, long_after, ("unknown", Some("already handled")), &["the latest 10 are kept"]);
    check(same, ("2026-11-16T03:20:01Z", "2026-11-16T03:20:30Z"), ("none", Some(created.0)), &[]);
}

#[test]
fn an_operator_that_is_not_there_is_told() {
    let unseen = |kronjob: &mut Value| kronjob["status"] = Value::Null;
    let asked = ("2026-11-16T03:50:00Z", "2026-11-16T03:53:40Z");
    check(unseen, asked, ("starting", None), &["has never looked at this KronJob"]);
    let behind = |kronjob: &mut Value| kronjob["metadata"]["generation"] = json!(4);
    check(behind, asked, ("starting", None), &["it has seen generation 1, not 4"]);
    let strange = |kronjob: &mut Value| kronjob["status"] = json!({"recent": 7});
    check(strange, asked, ("starting", None), &["The status cannot be read"]);
}

#[test]
fn an_invalid_spec_is_told() {
    let broken = serde_json::from_str(BROKEN).unwrap();
    let said = ask(&broken, r#"{"items":[]}"#, None, NOW);
    assert_eq!((&*said.answer, said.is_known), ("none", false));
    assert!(said.text.contains("The spec is invalid: spec.timeZone"), "{}", said.text);
}

mod remarks {
    use super::*;

    fn remarks(change: impl FnOnce(&mut Value), now: &str) -> String {
        let mut kronjob = poll();
        change(&mut kronjob);
        let object = serde_json::from_str(&kronjob.to_string()).unwrap();
        KronJob::read(&mut TimingParser::new(), object).remarks(now.parse().unwrap()).join("; ")
    }

    #[test]
    fn an_operator_that_agrees_needs_no_remark() {
        assert_eq!(remarks(|_| {}, NOW), "");
    }

    #[test]
    fn an_operator_that_says_otherwise_is_told() {
        let said = |field: &'static str, value: Value| {
            remarks(move |kronjob| kronjob["status"]["next"][field] = value, NOW)
        };
        let chosen = said("chosenTime", json!("2026-11-16T03:51:00Z"));
        assert_eq!(chosen, "the operator says 2026-11-16T03:51:00Z for 2026-11-16T03:50:00Z");
        assert!(said("nominalTime", json!("2026-11-16T03:51:00Z")).contains("no period"));
        let later = remarks(
            |kronjob| {
                kronjob["status"]["next"] = json!({
                    "periodId": "2026-11-16T04:00:00Z", "nominalTime": "2026-11-16T04:00:00Z",
                    "chosenTime": "2026-11-16T04:02:38Z",
                });
            },
            NOW,
        );
        assert_eq!(later, "the operator says 2026-11-16T04:00:00Z is next");
        let none = remarks(|kronjob| kronjob["status"]["next"] = Value::Null, NOW);
        assert_eq!(none, "the operator knows no next period, not 2026-11-16T03:50:00Z");
        let late = remarks(|_| {}, "2026-11-16T03:54:31Z");
        assert_eq!(late, "2026-11-16T03:50:00Z fell due 1m ago and is not recorded yet");
    }

    #[test]
    fn what_keeps_it_from_running_is_told() {
        let suspended = remarks(
            |kronjob| {
                kronjob["spec"]["policy"]["suspend"] = json!(true);
                kronjob["status"]["suspendedAt"] = json!("2026-11-16T03:45:00Z");
            },
            NOW,
        );
        assert_eq!(suspended, "suspended since 2026-11-16T03:45:00Z");
        let unseen = remarks(|kronjob| kronjob["status"] = Value::Null, NOW);
        assert_eq!(unseen, "not seen by the operator");
        let behind = remarks(|kronjob| kronjob["metadata"]["generation"] = json!(2), NOW);
        assert_eq!(behind, "the operator has seen generation 1, not 2");
        let gone = remarks(|kronjob| kronjob["metadata"]["deletionTimestamp"] = json!(NOW), NOW);
        assert_eq!(gone, "being deleted");
    }
}
