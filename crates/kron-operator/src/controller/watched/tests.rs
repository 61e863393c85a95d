//! What is kept of what a watch shows.

use serde_json::json;

use super::*;

fn second(text: &str) -> UtcSecond {
    text.parse().unwrap()
}

fn kept(spec: &Value, status: &Value) -> Kept {
    let object = json!({
        "metadata": {
            "namespace": "here", "name": "kj", "uid": "k1", "generation": 3,
            "resourceVersion": "100", "creationTimestamp": "2026-03-01T00:00:00Z",
        },
        "spec": spec,
        "status": status,
    });
    let watched: WatchedKronJob = serde_json::from_value(object).unwrap();
    Kept::of(watched, None, &mut TimingParser::new(), second("2026-03-01T00:05:00Z")).unwrap()
}

#[test]
fn a_kronjob() {
    let template = json!({ "spec": { "ttlSecondsAfterFinished": 5, "template": {} } });
    let spec = json!({
        "schedule": "0 3 * * *", "jobTemplate": template, "successfulJobsHistoryLimit": 7,
        "failedJobsHistoryLimit": 0,
    });
    let kept = kept(&spec, &Value::Null);
    assert_eq!((&*kept.namespace, &*kept.name, &*kept.uid), ("here", "kj", "k1"));
    assert_eq!((kept.generation, &*kept.version), (3, "100"));
    assert_eq!(kept.created_at, second("2026-03-01T00:00:00Z"));
    let definition = kept.definition.unwrap();
    assert_eq!(definition.keep, Keep { succeeded: 7, failed: 0, ttl_s: Some(5) });
    assert_eq!(definition.timing.placement().identity(), "here/kj");
    assert_eq!(definition.decision_hash, definition.timing.decision_hash().to_string());
    assert_eq!(serde_json::from_str::<Value>(&kept.template).unwrap(), template);
    assert_eq!(*kept.status, KronJobStatus::default());
}

#[test]
fn a_spec_of_any_kind_is_a_fault_and_no_failure() {
    let specs = [
        Value::Null,
        json!(3),
        json!("x"),
        json!([]),
        json!({}),
        json!({ "schedule": 5 }),
        json!({ "schedule": "0 3 * * *", "policy": "x" }),
        json!({ "schedule": "0 3 * * *", "successfulJobsHistoryLimit": -1 }),
    ];
    for spec in specs {
        let why = kept(&spec, &Value::Null).definition.unwrap_err();
        assert!(why.starts_with("spec"), "{spec}: {why}");
    }
    let spec = json!({ "schedule": "x", "timeZone": "Y", "jobTemplate": {} });
    let why = kept(&spec, &Value::Null).definition.unwrap_err();
    assert!(why.contains("spec.schedule: ") && why.contains("; spec.timeZone: "), "{why}");
}

#[test]
fn a_status_that_cannot_be_read_runs_nothing_of_the_past() {
    let spec = || json!({ "schedule": "0 3 * * *", "jobTemplate": {} });
    let lost = kept(&spec(), &json!({ "lastHandledPeriod": "yesterday" })).status;
    assert_eq!(lost.effective_from, Some(second("2026-03-01T00:05:00Z")));
    assert_eq!(lost.last_handled_period, None);
    let read = kept(&spec(), &json!({ "lastHandledPeriod": "2026-02-28T03:00:00Z" })).status;
    assert_eq!(read.last_handled_period, Some(second("2026-02-28T03:00:00Z")));
    assert_eq!(read.effective_from, None);
}

fn seen(change: impl FnOnce(&mut Value)) -> Option<SeenJob> {
    let mut object = json!({
        "metadata": {
            "namespace": "here", "name": "kj-1", "uid": "j1",
            "resourceVersion": "200", "creationTimestamp": "2026-03-01T00:10:01Z",
            "labels": { "kron.dev/period": "20260301T001000Z" },
            "annotations": { "kron.dev/chosen-time": "2026-03-01T00:10:00Z" },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x" },
                { "apiVersion": "kron.dev/v1alpha1", "kind": "KronJob", "name": "kj", "uid": "k1", "controller": true },
            ],
        },
    });
    change(&mut object);
    serde_json::from_value::<WatchedJob>(object).unwrap().seen()
}

#[test]
fn a_job() {
    let SeenJob { owner, owner_uid, version, job } = seen(|_| {}).unwrap();
    assert_eq!((&*owner, &*owner_uid, version), ("here/kj", "k1", 200));
    assert_eq!(
        job,
        OwnedJob {
            name: "kj-1".into(),
            uid: "j1".into(),
            period: Some(second("2026-03-01T00:10:00Z")),
            chosen: Some(second("2026-03-01T00:10:00Z")),
            created_at: second("2026-03-01T00:10:01Z"),
            state: JobState::Active,
            deleting: false,
        }
    );
    let bare = seen(|job| {
        job["metadata"]["labels"] = Value::Null;
        job["metadata"]["annotations"] = Value::Null;
    });
    let bare = bare.unwrap().job;
    assert_eq!((bare.period, bare.chosen), (None, None));
    let others: [fn(&mut Value); 4] = [
        |job| job["metadata"]["ownerReferences"] = Value::Null,
        |job| job["metadata"]["ownerReferences"][1]["controller"] = false.into(),
        |job| job["metadata"]["ownerReferences"][1]["kind"] = "CronJob".into(),
        |job| job["metadata"]["ownerReferences"][1]["apiVersion"] = "kron.development/v1".into(),
    ];
    for change in others {
        assert!(seen(change).is_none());
    }
}

#[test]
fn how_a_job_ends() {
    let at = second("2026-03-01T00:11:00Z");
    let made = second("2026-03-01T00:10:01Z");
    let rows = [
        (json!([]), JobState::Active),
        (json!([{ "type": "Complete", "status": "False" }]), JobState::Active),
        (json!([{ "type": "FailureTarget", "status": "True" }]), JobState::Active),
        (json!([{ "type": "SuccessCriteriaMet", "status": "True" }]), JobState::Active),
        (json!([{ "type": "Suspended", "status": "True" }]), JobState::Active),
        (
            json!([{ "type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T00:11:00Z" }]),
            JobState::Succeeded { at },
        ),
        (
            json!([
                { "type": "FailureTarget", "status": "True" },
                { "type": "Failed", "status": "True", "lastTransitionTime": "2026-03-01T00:11:00Z" },
            ]),
            JobState::Failed { at },
        ),
        (json!([{ "type": "Failed", "status": "True" }]), JobState::Failed { at: made }),
    ];
    for (conditions, expected) in rows {
        let job = seen(|job| job["status"] = json!({ "conditions": conditions })).unwrap().job;
        assert_eq!(job.state, expected, "{conditions}");
    }
    let job = seen(|job| job["metadata"]["deletionTimestamp"] = "2026-03-01T00:11:00Z".into());
    assert!(job.unwrap().job.deleting);
}
