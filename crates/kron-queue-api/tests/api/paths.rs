//! Every path, and every way in which it says no.

use axum::body::Bytes;
use axum::http::Request;
use http_body_util::Full;
use kron_queue::{Artifact, Finish, Outcome, Rules, RunEnd, Webhook};
use kron_queue_api::{Clock as _, PREFIX};
use serde_json::{Value, json};

use crate::executor::Machine;
use crate::world::{World, ids};

const NOBODY: &str = "01900000-0000-7000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_enqueued_shown_and_known_again() {
    let world = World::new().await;
    let body = json!({"job_type": "story", "params": {"a": [1, "\u{0}", null]}, "priority": -3});
    let got = world.post("/jobs", body).await;
    let location = got.headers["location"].to_str().unwrap().to_owned();
    let job = got.expect(201);
    let id = job["job_id"].as_str().unwrap();
    assert_eq!(location, format!("{PREFIX}/jobs/{id}"));
    assert_eq!((&job["state"], &job["priority"]), (&json!("queued"), &json!(-3)));
    assert_eq!(job["params"], json!({"a": [1, "\u{0}", null]}));
    assert_eq!(world.job(id).await, job);
    let keyed = |key: &str, field: Value| {
        Request::post(format!("{PREFIX}/jobs"))
            .header("content-type", "application/json; charset=utf-8")
            .header("idempotency-key", key)
            .body(Full::new(Bytes::from(
                json!({"job_type": "story", "idempotency_key": field}).to_string(),
            )))
            .unwrap()
    };
    let made = world.send(keyed("k1", Value::Null)).await.expect(201);
    let again = world.send(keyed("k1", json!("k1"))).await.expect(200);
    assert_eq!(made, again);
    world.send(keyed("k1", json!("k2"))).await.problem(422, "two-keys");
    let long = "k".repeat(201);
    world.send(keyed(&long, Value::Null)).await.problem(422, "too-long");
    world.get(&format!("/jobs/{NOBODY}")).await.problem(404, "no-job");
    let runs = world.get(&format!("/jobs/{id}/runs")).await.expect(200);
    assert_eq!(runs, json!({"items": [], "next": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_all_or_none() {
    let world = World::new().await;
    let one = |n: i64| json!({"job_type": "story", "params": {"n": n}});
    let batch = world.post("/jobs/batch", json!({"jobs": [one(1), one(2)]})).await.expect(201);
    assert_eq!(batch["jobs"][1]["job"]["params"]["n"], 2);
    let bad = json!({"jobs": [one(3), {"job_type": "story", "prio": 1}]});
    let problem = world.post("/jobs/batch", bad).await.problem(422, "unknown-field");
    assert_eq!(problem["field"], "jobs[1].prio");
    assert!(problem["detail"].as_str().unwrap().contains("`priority`"), "{problem}");
    let bad = json!({"jobs": [one(3), {"job_type": "no such type!"}]});
    world.post("/jobs/batch", bad).await.problem(422, "bad-characters");
    world.post("/jobs/batch", json!({"jobs": []})).await.problem(422, "empty");
    let many: Vec<Value> = (0..1_001).map(one).collect();
    world.post("/jobs/batch", json!({"jobs": many})).await.problem(422, "too-many");
    let all = world.get("/jobs").await.expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let keyed = json!({"jobs": [{"job_type": "story", "idempotency_key": "k"}]});
    let first = world.post("/jobs/batch", keyed.clone()).await.expect(201);
    let second = world.post("/jobs/batch", keyed).await.expect(200);
    assert_eq!(first["jobs"][0]["job"], second["jobs"][0]["job"]);
    assert_eq!(second["jobs"][0]["new"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_move_among_their_priority() {
    let world = World::new().await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(world.add(json!({"job_type": "story"})).await);
    }
    let high = world.add(json!({"job_type": "story", "priority": 9})).await;
    let place = async |id: &str, body: Value| world.post(&format!("/jobs/{id}/move"), body).await;
    place(&jobs[3], json!({"to": "top"})).await.expect(200);
    place(&jobs[0], json!({"to": "bottom"})).await.expect(200);
    place(&jobs[2], json!({"before": jobs[1]})).await.expect(200);
    let order = world.get("/jobs?order=queue").await.expect(200);
    let expected = [&high, &jobs[3], &jobs[2], &jobs[1], &jobs[0]];
    assert_eq!(ids(&order, "job_id").iter().collect::<Vec<_>>(), expected);
    place(&jobs[1], json!({"after": jobs[1]})).await.problem(422, "itself");
    place(&jobs[1], json!({"after": high})).await.problem(409, "other-priority");
    assert_eq!(
        place(&jobs[1], json!({"after": NOBODY})).await.problem(422, "no-job")["field"],
        "after"
    );
    place(NOBODY, json!({"to": "top"})).await.problem(404, "no-job");
    place(&jobs[1], json!({"to": "tpo"})).await.problem(422, "unknown-word");
    place(&jobs[1], json!({})).await.problem(422, "one-of");
    place(&jobs[1], json!({"to": "top", "before": high})).await.problem(422, "one-of");
    world.post("/queue/normalise", json!({})).await.expect(200);
    let again = world.get("/jobs?order=queue").await.expect(200);
    assert_eq!(ids(&again, "job_id"), ids(&order, "job_id"));
    assert_eq!(again["items"][4]["position"], 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_progress_then_output_and_artifacts() {
    let world = World::new().await;
    world.add(json!({"job_type": "story"})).await;
    let run = world.claim().await;
    let id = run.run.run_id;
    let logs = world.state_dir.join("queue/logs");
    let artifacts = world.state_dir.join(format!("queue/artifacts/{id}/a"));
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::create_dir_all(&artifacts).unwrap();
    let path = format!("/job-runs/{id}");
    world.get(&format!("{path}/log")).await.problem(404, "no-log");
    let text = "begin\nkron-progress: 40 of the way\nmore\n";
    std::fs::write(logs.join(format!("{id}.log")), text).unwrap();
    std::fs::write(artifacts.join("b.bin"), [0, 255, 7]).unwrap();
    std::fs::write(artifacts.join("secret"), "not recorded").unwrap();
    let view = world.get(&path).await.expect(200);
    assert_eq!(view["progress"], json!({"percent": 40.0, "text": "of the way"}));
    let got = world.get(&format!("{path}/log?offset=6")).await;
    assert_eq!(got.headers["kron-run-active"], "true");
    assert_eq!(got.headers["kron-log-bytes"], text.len().to_string());
    assert_eq!(got.bytes, &text[6..]);
    let made = |path: &str| Artifact { path: path.into(), size_bytes: 3, sha256: "0".repeat(64) };
    let end = RunEnd {
        artifacts: vec![made("a/b.bin"), made("../../../queue.db"), made("gone")],
        log_path: Some(format!("queue/logs/{id}.log")),
        ..RunEnd::new(Outcome::Completed)
    };
    let finish = Finish { run_id: id, token: run.token.clone(), end, now: Machine.now() };
    let refused = world.queue.call(finish.clone()).is_err();
    if refused {
        // The library itself keeps such a path out.
        let mut finish = finish;
        finish.end.artifacts.remove(1);
        world.queue.call(finish).unwrap();
    }
    let view = world.get(&path).await.expect(200);
    assert_eq!((&view["progress"], &view["status"]), (&Value::Null, &json!("COMPLETED")));
    assert_eq!(world.get(&format!("{path}/log")).await.headers["kron-run-active"], "false");
    let got = world.get(&format!("{path}/artifacts/a%2Fb.bin?offset=1")).await;
    assert_eq!((got.status.as_u16(), &got.bytes[..]), (200, &[255, 7][..]));
    assert_eq!(got.headers["kron-artifact-bytes"], "3");
    assert_eq!(world.get(&format!("{path}/artifacts/a/b.bin")).await.bytes.len(), 3);
    for absent in ["a/secret", "gone", "../../../queue.db", "%2e%2e%2f%2e%2e%2f%2e%2e%2fqueue.db"] {
        world.get(&format!("{path}/artifacts/{absent}")).await.problem(404, "no-artifact");
    }
    world.get(&format!("{path}/log?offset=-1")).await.problem(400, "out-of-range");
    world.get(&format!("/job-runs/{NOBODY}/log")).await.problem(404, "no-run");
    world.get(&format!("/job-runs/{NOBODY}")).await.problem(404, "no-run");
    let nobody = format!("/job-runs/{NOBODY}/retry");
    world.post(&nobody, json!({})).await.problem(404, "no-run");
    let retry = world.post(&format!("{path}/retry"), json!({})).await.expect(201);
    assert_eq!(retry["attempt"], 1);
    let runs = world.get("/job-runs?status=COMPLETED&job_type=story").await.expect(200);
    assert_eq!(ids(&runs, "run_id"), [id.to_string()]);
    for (query, count) in [("status=RUNNING", 0), ("job_type=other", 0), ("", 1)] {
        let page = world.get(&format!("/job-runs?{query}")).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_and_schedules_live_and_end() {
    let world = World::new().await;
    let body = json!({"name": "daily", "job_type": "story", "params": {"a": 1}, "priority": 2});
    let template = world.post("/job-templates", body.clone()).await.expect(201);
    let template_id = template["template_id"].as_str().unwrap();
    world.post("/job-templates", body).await.problem(409, "name-taken");
    world.post("/job-templates", json!({"name": "x"})).await.problem(422, "missing");
    let path = format!("/job-templates/{template_id}");
    let changed = world.patch(&path, json!({"params": {"b": 2}})).await.expect(200);
    assert_eq!((&changed["params"], &changed["priority"]), (&json!({"b": 2}), &json!(2)));
    world.patch(&path, json!({"priority": null})).await.problem(422, "wrong-kind");
    assert_eq!(world.get(&path).await.expect(200), changed);
    let body = json!({"name": "s", "template_id": template_id, "cron_expression": "0 3 * * *",
        "timezone": "Europe/Paris", "param_overrides": {"c": 3}});
    let schedule = world.post("/schedules", body.clone()).await.expect(201);
    let schedule_id = schedule["schedule_id"].as_str().unwrap();
    assert_eq!(schedule["timezone"], "Europe/Paris");
    world.post("/schedules", body.clone()).await.problem(409, "name-taken");
    let with = |key: &str, value: Value| {
        let mut body = body.clone();
        body["name"] = json!("other");
        body[key] = value;
        body
    };
    let problem = world.post("/schedules", with("template_id", json!(NOBODY))).await;
    assert_eq!(problem.problem(422, "no-template")["field"], "template_id");
    let bad = with("cron_expression", json!("0 25 * * *"));
    world.post("/schedules", bad).await.problem(422, "bad-expression");
    let bad = with("timezone", json!("Europe/Nowhere"));
    world.post("/schedules", bad).await.problem(422, "bad-expression");
    world.delete(&path).await.problem(409, "in-use");
    let place = format!("/schedules/{schedule_id}");
    let after = "2026-03-28T12:00:00Z";
    let next = world.get(&format!("{place}/next?count=2&after={after}")).await.expect(200);
    assert_eq!(next["items"][0]["chosen_time"], "2026-03-29T01:00:00Z");
    assert_eq!(next["items"][1]["nominal_time"], "2026-03-30T01:00:00Z");
    world.get(&format!("{place}/next?count=101")).await.problem(400, "out-of-range");
    world.get(&format!("{place}/next?after=tomorrow")).await.problem(400, "bad-timestamp");
    let off = world.patch(&place, json!({"enabled": false, "param_overrides": null})).await;
    let off = off.expect(200);
    assert_eq!((&off["enabled"], &off["next_trigger_at"]), (&json!(false), &Value::Null));
    assert_eq!((&off["param_overrides"], &off["name"]), (&Value::Null, &json!("s")));
    let outcomes = world.get(&format!("{place}/outcomes")).await.expect(200);
    assert_eq!(outcomes, json!({"items": [], "next": null}));
    world.get(&format!("{place}/outcomes?cursor=x")).await.problem(400, "bad-cursor");
    let listed = world.get("/schedules?limit=1").await.expect(200);
    assert_eq!(ids(&listed, "schedule_id"), [schedule_id]);
    assert_eq!(world.delete(&place).await.status, 204);
    world.get(&place).await.problem(404, "no-schedule");
    world.patch(&place, json!({})).await.problem(404, "no-schedule");
    world.delete(&place).await.problem(404, "no-schedule");
    world.get(&format!("{place}/next")).await.problem(404, "no-schedule");
    world.get(&format!("{place}/outcomes")).await.problem(404, "no-schedule");
    assert_eq!(world.delete(&path).await.status, 204);
    world.get(&path).await.problem(404, "no-template");
    let job = json!({"template_id": template_id});
    assert_eq!(world.post("/jobs", job).await.problem(422, "no-template")["field"], "template_id");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_made_shown_and_cancelled() {
    let world = World::new().await;
    let job = |n: i64| json!({"job_type": "story", "params": {"n": n}});
    let body =
        json!({"mode": "sequential", "on_failure": "skip", "jobs": [job(0), job(1), job(2)]});
    let group = world.post("/job-groups", body).await.expect(201);
    assert_eq!(group["jobs"][1]["state"], "blocked");
    let path = format!("/job-groups/{}", group["group_id"].as_str().unwrap());
    let run = world.claim().await;
    let shown = world.get(&path).await.expect(200);
    assert_eq!(
        (&shown["status"], &shown["members"][0]["state"]),
        (&json!("running"), &json!("running"))
    );
    let cancelled = world.delete(&path).await.expect(200);
    assert_eq!((&cancelled["cancelled"], &cancelled["requested"]), (&json!(2), &json!(1)));
    world.finish(run).await;
    let shown = world.get(&path).await.expect(200);
    let states: Vec<&Value> =
        shown["members"].as_array().unwrap().iter().map(|member| &member["state"]).collect();
    // The run was done before it heard of its end.
    assert_eq!(states, ["completed", "cancelled", "cancelled"]);
    assert!(world.worker.claim().is_none());
    world.post("/job-groups", json!({"jobs": []})).await.problem(422, "empty");
    world
        .post("/job-groups", json!({"mode": "both", "jobs": [job(0)]}))
        .await
        .problem(422, "unknown-word");
    let keyed = json!({"jobs": [{"job_type": "story", "idempotency_key": "k"}]});
    world.post("/job-groups", keyed).await.problem(422, "unknown-field");
    world.get(&format!("/job-groups/{NOBODY}")).await.problem(404, "no-group");
    world.delete(&format!("/job-groups/{NOBODY}")).await.problem(404, "no-group");
    let list = world.get("/job-groups").await.expect(200);
    assert_eq!(list["items"][0]["group_id"], group["group_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_paused_resumed_and_counted() {
    let world = World::new().await;
    world.add(json!({"job_type": "story"})).await;
    let pauses = world.post("/queue/pause", json!({"reason": "broken"})).await.expect(200);
    assert_eq!(pauses["pauses"][0]["reason"], "broken");
    assert!(world.worker.claim().is_none());
    world.post("/queue/pause", json!({"job_type": "story", "reason": "x"})).await.expect(200);
    world.post("/queue/pause", json!({"reason": ""})).await.problem(422, "empty");
    world.post("/queue/pause", json!({})).await.problem(422, "missing");
    world.post("/queue/resume", json!({})).await.expect(200);
    world.post("/queue/resume", json!({})).await.problem(409, "not-paused");
    assert!(world.worker.claim().is_none());
    world.post("/queue/resume", json!({"job_type": "story"})).await.expect(200);
    world.claim().await;
    let queue = world.get("/queue").await.expect(200);
    assert_eq!((&queue["counts"]["running"], &queue["workers_max"]), (&json!(1), &json!(4)));
    assert_eq!(queue["handlers"][0]["job_type"], "story");
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_runs_are_refused_with_their_reason() {
    let world = World::new().await;
    let direct = async |body: Value| world.post("/direct", body).await;
    direct(json!({"job_type": "unheard-of"})).await.problem(422, "no-handler");
    direct(json!({})).await.problem(422, "missing");
    direct(json!({"job_type": "story", "wait_ms": -1})).await.problem(422, "out-of-range");
    direct(json!({"job_type": "story", "timeout_ms": 0})).await.problem(422, "out-of-range");
    direct(json!({"job_type": "story", "params": []})).await.problem(422, "wrong-kind");
    direct(json!({"job_type": "story", "reserved_by": "a\nb"}))
        .await
        .problem(422, "bad-characters");
    let failed = direct(json!({"job_type": "story", "params": {"fail": 1}})).await.expect(200);
    assert_eq!(
        (&failed["run"]["status"], &failed["job"]["retry_decision"]),
        (&json!("FAILED"), &json!("direct"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_listed_with_their_tries() {
    let webhooks =
        vec![Webhook { target: "somebody".into(), events: vec!["job.completed".into()] }];
    let world = World::with(Rules { webhooks, ..Rules::default() }).await;
    for _ in 0..3 {
        world.add(json!({"job_type": "story"})).await;
        let run = world.claim().await;
        world.finish(run).await;
    }
    let claim = kron_queue::ClaimDeliveries { lease_ms: 1_000, now: Machine.now() };
    let first = world.queue.call(claim).unwrap()[0].delivery_id;
    let finish = kron_queue::FinishDelivery {
        delivery_id: first,
        http_status: Some(204),
        error: None,
        now: Machine.now(),
    };
    world.queue.call(finish).unwrap();
    let page = world.get("/webhook-deliveries?limit=2").await.expect(200);
    let rest = format!("/webhook-deliveries?limit=2&cursor={}", page["next"].as_str().unwrap());
    let rest = world.get(&rest).await.expect(200);
    assert_eq!((page["items"].as_array().unwrap().len(), &rest["next"]), (2, &Value::Null));
    assert_eq!(rest["items"][0]["log"][0]["http_status"], 204);
    let pending = world.get("/webhook-deliveries?status=pending").await.expect(200);
    assert_eq!(pending["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served_and_other_paths_are_not() {
    let world = World::new().await;
    let document = world.get("/openapi.json").await.expect(200);
    assert_eq!(document, serde_json::to_value(kron_queue_api::openapi()).unwrap());
    world.get("/nowhere").await.problem(404, "no-path");
    world.get("/jobs/").await.problem(404, "no-path");
    let got = world.raw("PUT", "/jobs", "").await;
    assert_eq!(got.headers["allow"], "GET,HEAD,POST");
    got.problem(405, "wrong-method");
    world.delete("/openapi.json").await.problem(405, "wrong-method");
}
