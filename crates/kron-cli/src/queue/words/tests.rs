//! What is said about fixed jobs.

use serde_json::json;

use super::*;

const ID: &str = "0198c5d1-7a10-7000-8c3f-5f215f21c09a";
const OTHER: &str = "0198c5d1-7a10-7001-8c3f-5f225f21c09b";

fn now() -> UtcSecond {
    "2026-03-02T09:00:00Z".parse().expect("a time")
}

fn job(fields: &Value) -> Job {
    let mut job = json!({
        "job_id": ID, "template_id": null, "schedule_id": null, "period_id": null,
        "group_id": null, "group_index": null, "job_type": "resize", "params": {},
        "status": "QUEUED", "state": "queued", "priority": 0, "position": 100, "retry_of": null,
        "attempt": 0, "retry_decision": null, "created_at": "2026-03-02T08:00:00.000Z",
        "queued_at": "2026-03-02T08:00:00.000Z", "started_at": null, "finished_at": null,
        "not_before": null, "worker_id": null, "cancel_requested_at": null,
        "idempotency_key": null,
    });
    job.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
    serde_json::from_value(job).expect("a job")
}

fn queue(fields: &Value) -> QueueView {
    let mut queue = json!({
        "counts": {
            "queued": 1, "delayed": 0, "blocked": 0, "running": 0, "completed": 0, "failed": 0,
            "skipped": 0, "oldest_queued_at": null, "types": [], "deliveries_pending": 0,
        },
        "ended_since": "2026-03-01T09:00:00.000Z", "pauses": [], "reservation": null,
        "workers_max": 1, "stopped": false,
        "handlers": [{
            "job_type": "resize", "kind": "command", "concurrency_max": 1, "timeout_ms": null,
            "retries_max": 3,
        }],
    });
    for (path, value) in fields.as_object().expect("fields") {
        *queue.pointer_mut(path).expect("a place") = value.clone();
    }
    serde_json::from_value(queue).expect("a queue")
}

#[test]
fn what_a_job_waits_for_is_told() {
    let pause = |job_type: Value| json!({"job_type": job_type, "reason": "disk\u{7} full", "paused_at": "2026-03-02T08:00:00.000Z"});
    let running = |count: i64| json!({"job_type": "resize", "queued": 1, "running": count});
    let job = job(&json!({}));
    for (fields, expected) in [
        (json!({}), None),
        (json!({"/pauses": [pause(json!(null))]}), Some("the queue is paused: disk? full")),
        (json!({"/pauses": [pause(json!("resize"))]}), Some("its type is paused: disk? full")),
        (json!({"/pauses": [pause(json!("other"))]}), None),
        (json!({"/handlers": []}), Some("nothing handles its type")),
        (json!({"/counts/types": [running(1)]}), Some("1 of its type run, no more are allowed")),
        (json!({"/counts/running": 1}), Some("1 worker busy")),
        (json!({"/counts/running": 2, "/workers_max": 2}), Some("2 workers busy")),
        (json!({"/counts/running": 1, "/workers_max": 2}), None),
    ] {
        assert_eq!(obstacle(&job, &queue(&fields)).as_deref(), expected, "{fields}");
    }
}

#[test]
fn what_comes_next_is_told() {
    let successor = job(&json!({"job_id": OTHER, "retry_of": ID, "state": "delayed"}));
    for (fields, before, expected) in [
        (json!({}), Some(0), "it is the first in the queue; it starts when its turn comes"),
        (json!({}), Some(1), "1 job is before it; it starts when its turn comes"),
        (
            json!({"job_type": "odd"}),
            Some(12),
            "12 jobs are before it; it waits: nothing handles its type",
        ),
        (
            json!({"state": "delayed", "not_before": "2026-03-02T09:05:00.000Z"}),
            None,
            "it may start at 2026-03-02T09:05:00Z, in 5m",
        ),
        (
            json!({"state": "running", "attempt": 1}),
            None,
            "if it fails it is retried, 2 times more at most",
        ),
        (json!({"state": "running", "attempt": 3}), None, "if it fails it is not retried any more"),
        (
            json!({"state": "running", "cancel_requested_at": "2026-03-02T08:05:00.000Z"}),
            None,
            "somebody cancelled it: its process is being ended",
        ),
        (
            json!({"state": "failed", "retry_decision": "retried"}),
            None,
            "job 0198c5d1-7a10-7001-8c3f-5f225f21c09b repeats it, delayed",
        ),
    ] {
        let told = next(&job(&fields), Some(&successor), &queue(&json!({})), before, now());
        assert_eq!(told.as_deref(), Some(expected), "{fields}");
    }
    let exhausted = job(&json!({"state": "failed", "retry_decision": "exhausted"}));
    let told = next(&exhausted, None, &queue(&json!({})), None, now()).expect("advice");
    assert!(told.contains(&format!("`kron queue retry {ID}`")), "{told}");
    let completed = job(&json!({"state": "completed", "retry_decision": "none"}));
    assert_eq!(next(&completed, None, &queue(&json!({})), None, now()), None);
}

#[test]
fn short_times_are_told_in_tenths() {
    for (ms, expected) in [
        (-5, "0.0s"),
        (0, "0.0s"),
        (1_049, "1.0s"),
        (9_999, "9.9s"),
        (10_000, "10s"),
        (3_725_000, "1h2m"),
    ] {
        assert_eq!(took(ms), expected);
    }
}
