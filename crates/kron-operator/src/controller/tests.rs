//! The controller between a change of the cluster and a request: what it notes, and what it keeps.
//!
//! It leads by decree, and whatever it sends is refused at once, since it has no lease. The tests
//! give it the answers.

use std::convert::Infallible;

use axum::body::Body;
use http::{Request, Response};
use kron_core::Decision;
use serde_json::json;

use super::courier::Refusal;
use super::*;
use crate::lease::{Candidate, LeaseOptions};
use crate::log::LogFormat;
use crate::plan::{JOB_AGE_S_MIN, NoteKind};
use crate::resource::{KronJobStatus, Record};

const TERM: &str = "one/1";
const KJ: &str = "here/kj";

/// A client that nobody answers.
pub(super) fn nowhere() -> kube::Client {
    let silence = tower::service_fn(|_: Request<kube::client::Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    kube::Client::new(silence, "here")
}

fn controller() -> Controller {
    let client = nowhere();
    let log = Log::new(LogFormat::Json).unwrap();
    let metrics = Arc::new(Metrics::default());
    let options = LeaseOptions {
        namespace: "here".to_owned(),
        name: "lease".to_owned(),
        identity: "one".to_owned(),
        duration: Duration::from_secs(15),
    };
    let candidate = Candidate::new(client.clone(), options, log.clone(), Arc::clone(&metrics));
    let setup = Setup {
        client,
        namespaces: Vec::new(),
        job_age_s_min: JOB_AGE_S_MIN,
        leadership: candidate.unwrap().1,
        instance: "one".into(),
        log,
        metrics,
        health: Arc::new(Health::new(Duration::from_secs(60))),
        filled: Arc::new(Notify::new()),
    };
    let mut controller = Controller::new(setup, mpsc::unbounded_channel().0);
    for kind in [watches::Listed::KronJobs, watches::Listed::Jobs] {
        let list = watches::List { kind, scope: 0 };
        controller.changed(Change::ListBegun(list));
        controller.changed(Change::ListRead(list));
    }
    controller.claimant = Some(TERM.into());
    controller
}

fn kronjob(schedule: &str, version: &str, status: &Value) -> Change {
    let object = json!({
        "metadata": {
            "namespace": "here", "name": "kj", "uid": "k1", "generation": 1,
            // No period of a yearly schedule lies between that and now.
            "resourceVersion": version, "creationTimestamp": seconds_ago(3600).to_string(),
        },
        "spec": {
            "schedule": schedule, "successfulJobsHistoryLimit": 0,
            "policy": { "concurrency": "allow", "deadline": "1h" },
            "jobTemplate": { "spec": {} },
        },
        "status": status,
    });
    Change::KronJob(Box::new(serde_json::from_value(object).unwrap()))
}

/// A schedule that is due only in half a year, at whatever time a test runs.
fn far() -> String {
    let then = clock::now().saturating_add(183 * 86_400);
    let then = jiff::Timestamp::from_second(then.unix()).unwrap();
    then.strftime("%-S %-M %-H %-d %-m *").to_string()
}

fn seconds_ago(seconds: i64) -> UtcSecond {
    clock::now().saturating_add(-seconds)
}

impl Controller {
    fn entry(&mut self) -> &mut catalogue::Entry {
        self.catalogue.get_mut(KJ).unwrap()
    }
}

#[tokio::test]
async fn a_second_that_has_come_is_looked_at_once() {
    let mut controller = controller();
    controller.changed(kronjob(&far(), "100", &Value::Null));
    // A Job that became removable a second ago, seen as of two seconds before that.
    let now = clock::now();
    let made = seconds_ago(181).to_string();
    let job = json!({
        "metadata": {
            "namespace": "here", "name": "kj-old", "uid": "j1", "resourceVersion": "90",
            "creationTimestamp": made, "labels": { "kron.dev/kronjob": "kj" },
            "ownerReferences": [{
                "apiVersion": "kron.dev/v1alpha1", "kind": "KronJob", "name": "kj", "uid": "k1",
                "controller": true,
            }],
        },
        "status": { "conditions": [
            { "type": "Complete", "status": "True", "lastTransitionTime": made },
        ] },
    });
    let job = serde_json::from_value(job).unwrap();
    controller.changed(Change::Job(Box::new(job)));
    for doing in [Doing::Sent, Doing::Waiting(Class::Foreground)] {
        let come = seconds_ago(1);
        let entry = controller.entry();
        entry.doing = doing;
        entry.judged = Some(seconds_ago(3));
        entry.wake = Some(come);
        controller.due.push(Reverse((come, KJ.into())));
        controller.wake_due(now);
        assert!(controller.entry().wake.is_none_or(|wake| wake > now), "{doing:?}");
        assert_eq!(controller.entry().doing, doing);
    }
}

#[tokio::test]
async fn what_wakes_early_does_not_sleep_through_the_second_that_is_due() {
    let mut controller = controller();
    controller.changed(kronjob(&far(), "100", &Value::Null));
    assert_eq!(controller.entry().doing, Doing::Waiting(Class::Background));
    let due = controller.entry().wake.unwrap();
    for doing in [Doing::Waiting(Class::Background), Doing::Sent] {
        let early = seconds_ago(0);
        let entry = controller.entry();
        entry.doing = doing;
        entry.wake = Some(early);
        controller.due.push(Reverse((early, KJ.into())));
        controller.wake_due(clock::now());
        let entry = controller.entry();
        assert_eq!((entry.wake, entry.judged), (Some(due), None), "{doing:?}");
    }
    assert_eq!(controller.next_wake(), Some(due));
}

/// A status with an outcome for this period, and the note of it.
fn recorded(period: UtcSecond) -> (Box<KronJobStatus>, Vec<Note>) {
    let record = Record {
        period_id: period,
        nominal_time: period,
        chosen_time: Some(period),
        outcome: kron_core::Outcome::Missed,
        reason: Some("superseded".to_owned()),
        job: None,
        result: None,
        recorded_at: period,
        first_period_id: None,
        count: None,
    };
    let status = KronJobStatus {
        last_handled_period: Some(period),
        last: Some(record.clone()),
        recent: vec![record],
        ..KronJobStatus::default()
    };
    let note = Note { kind: NoteKind::Missed, period: Some(period), text: "missed".to_owned() };
    (Box::new(status), vec![note])
}

fn stored(answer: Result<&str, Refusal>, period: UtcSecond) -> Done {
    let (status, notes) = recorded(period);
    Done::Stored {
        identity: KJ.into(),
        uid: "k1".into(),
        class: Class::Background,
        status,
        notes,
        stored: answer.map(str::to_owned),
        fresh: None,
    }
}

#[tokio::test]
async fn a_status_that_changes_nothing_for_the_server_is_ours_all_the_same() {
    for (version, taken) in [("99", false), ("100", true), ("101", true)] {
        let mut controller = controller();
        controller.changed(kronjob(&far(), "100", &Value::Null));
        controller.entry().doing = Doing::Sent;
        let period = seconds_ago(600);
        controller.finished(stored(Ok(version), period));
        let handled = controller.entry().kept.status.last_handled_period;
        assert_eq!(handled == Some(period), taken, "{version}");
    }
}

#[tokio::test]
async fn what_was_stored_without_an_answer_is_told_when_it_is_seen() {
    let silence = || Err(Refusal::Silence("it did not come in time".to_owned()));
    let period = seconds_ago(600);
    for (seen, told) in [(true, 1), (false, 0)] {
        let mut controller = controller();
        controller.changed(kronjob(&far(), "100", &Value::Null));
        controller.entry().doing = Doing::Sent;
        controller.finished(stored(silence(), period));
        assert_eq!(controller.work.depths()[3], 0);
        let status = if seen { json!(recorded(period).0) } else { json!({}) };
        controller.changed(kronjob(&far(), "101", &status));
        assert_eq!(controller.work.depths()[3], told);
        // Once.
        controller.changed(kronjob(&far(), "102", &status));
        assert_eq!(controller.work.depths()[3], told);
    }
}

fn started(controller: &mut Controller, code: u16, judged_at: UtcSecond) {
    let decision = controller.entry().kept.definition.as_ref().unwrap().timing.due_after(judged_at);
    let decision: Decision = { decision }.next().unwrap();
    let refusal =
        Refusal::Answer { code, exists: false, message: String::new(), retry_after: None };
    controller.entry().doing = Doing::Sent;
    controller.finished(Done::Started {
        start: Box::new(Start {
            identity: KJ.into(),
            decision: Box::new(decision),
            replace: Vec::new(),
            generation: 1,
            claimant: TERM.into(),
            uid: "k1".into(),
            judged_at,
        }),
        made: Err(refusal),
    });
}

/// A start that is no older than so many seconds is not late.
const PUT_OFF_S: i64 = 5;

#[tokio::test]
async fn a_start_that_is_put_off_is_not_late_by_that_for_a_while() {
    for (code, ago, attempts, on_time) in [
        (429, 0, 0, true),
        (409, 2, 0, true),
        (429, 20, 1, false),
        (500, 0, 1, false),
        (403, 0, 1, false),
    ] {
        let (mut controller, judged_at) = loop {
            let mut controller = controller();
            controller.changed(kronjob("* * * * *", "100", &Value::Null));
            let judged_at = seconds_ago(ago);
            started(&mut controller, code, judged_at);
            // A machine that stalled until it was late proves nothing.
            if !on_time || clock::now().since(judged_at) <= PUT_OFF_S {
                break (controller, judged_at);
            }
        };
        let entry = controller.entry();
        assert!(matches!(entry.doing, Doing::Paused { .. }), "{code}");
        assert_eq!(entry.attempts, attempts, "{code}");
        assert_eq!(entry.judged, on_time.then_some(judged_at), "{code}");
        assert_eq!(entry.trouble.is_some(), code == 403, "{code}");
    }
}

#[tokio::test]
async fn what_failed_yesterday_is_not_held_against_today() {
    let mut controller = controller();
    controller.changed(kronjob(&far(), "100", &Value::Null));
    let entry = controller.entry();
    entry.doing = Doing::Sent;
    entry.attempts = 20;
    entry.trouble = Some("no room".into());
    controller.finished(stored(Ok("101"), seconds_ago(600)));
    assert_eq!(controller.entry().attempts, 0);
}
