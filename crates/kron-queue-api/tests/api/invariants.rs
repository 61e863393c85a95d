//! The rules of the persistence document, attacked through HTTP.

use kron_queue::RetryPolicy;
use kron_queue::Rules;
use serde_json::{Value, json};

use crate::world::{World, ids};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_cannot_be_changed_or_moved() {
    let world = World::new().await;
    let running = world.add(json!({"job_type": "story", "params": {"n": 1}})).await;
    let other = world.add(json!({"job_type": "story"})).await;
    let run = world.claim().await;
    assert_eq!(run.job.job_id.to_string(), running);
    let path = format!("/jobs/{running}");
    for body in [
        json!({"params": {"n": 2}}),
        json!({"priority": 5}),
        json!({"not_before": "2030-01-01T00:00:00Z"}),
        json!({"not_before": null}),
        json!({}),
    ] {
        world.patch(&path, body).await.problem(409, "not-queued");
    }
    for body in [json!({"to": "top"}), json!({"to": "bottom"}), json!({"before": other})] {
        world.post(&format!("{path}/move"), body).await.problem(409, "not-queued");
    }
    let next_to = json!({"after": running});
    world.post(&format!("/jobs/{other}/move"), next_to).await.problem(409, "not-queued");
    let job = world.job(&running).await;
    assert_eq!((&job["params"], &job["state"]), (&json!({"n": 1}), &json!("running")));
    world.finish(run).await;
    world.patch(&path, json!({"priority": 5})).await.problem(409, "not-queued");
    let job = world.job(&running).await;
    assert_eq!((&job["status"], &job["state"]), (&json!("RUNNING"), &json!("completed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_made_whole_or_not_at_all() {
    let world = World::new().await;
    let id = world.add(json!({"job_type": "story", "params": {"n": 1}})).await;
    let path = format!("/jobs/{id}");
    let body = json!({"params": {"n": 2}, "not_before": null, "priority": 1_000_001});
    world.patch(&path, body).await.problem(422, "out-of-range");
    assert_eq!(world.job(&id).await["params"], json!({"n": 1}));
    let body = json!({"params": {"n": 2}, "priority": 7, "not_before": "2999-01-01T00:00:00Z"});
    let job = world.patch(&path, body).await.expect(200);
    assert_eq!(
        (&job["params"]["n"], &job["priority"], &job["state"]),
        (&json!(2), &json!(7), &json!("delayed"))
    );
    let job = world.patch(&path, json!({"not_before": null})).await.expect(200);
    assert_eq!((&job["state"], &job["not_before"]), (&json!("queued"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_priority_is_not_a_move() {
    let world = World::new().await;
    let first = world.add(json!({"job_type": "story", "priority": 3})).await;
    let second = world.add(json!({"job_type": "story", "priority": 3})).await;
    world.patch(&format!("/jobs/{first}"), json!({"priority": 3})).await.expect(200);
    let order = world.get("/jobs?order=queue").await.expect(200);
    assert_eq!(ids(&order, "job_id"), [first, second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_has_one_successor_however_many_ask() {
    let rules = Rules {
        workers_max: 100,
        retry: RetryPolicy { retries_max: 0, ..RetryPolicy::default() },
        ..Rules::default()
    };
    let world = World::with(rules).await;
    let id = world.add(json!({"job_type": "story", "params": {"fail": true}})).await;
    world.post(&format!("/jobs/{id}/retry"), json!({})).await.problem(409, "job-not-ended");
    let run = world.claim().await;
    let run_id = run.run.run_id;
    world.post(&format!("/jobs/{id}/retry"), json!({})).await.problem(409, "job-not-ended");
    world.finish(run).await;
    let (by_job, by_run) = (format!("/jobs/{id}/retry"), format!("/job-runs/{run_id}/retry"));
    let asked = [&by_job, &by_run, &by_job, &by_run].map(|path| world.post(path, json!({})));
    let [a, b, c, d] = asked;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let mut statuses = [a, b, c, d].map(|got| got.status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409]);
    let chain = world.get(&format!("/jobs/{id}/chain")).await.expect(200);
    let items = chain["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!((&items[1]["retry_of"], &items[1]["attempt"]), (&json!(id), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_direct_run_at_a_time_and_the_queue_waits_in_its_order() {
    let world = World::new().await;
    let queued = world.add(json!({"job_type": "story"})).await;
    let held = json!({"job_type": "story", "params": {"hold": "a"}, "reserved_by": "me"});
    let first = world.post("/direct", held);
    let both = async {
        // The slot is taken as soon as the reservation shows.
        loop {
            let queue = world.get("/queue").await.expect(200);
            if !queue["reservation"].is_null() && queue["counts"]["running"] == 1 {
                assert_eq!(queue["reservation"]["reserved_by"], "me");
                break;
            }
            tokio::task::yield_now().await;
        }
        let second = world.post("/direct", json!({"job_type": "story"})).await;
        let problem = second.problem(409, "busy");
        assert!(problem["detail"].as_str().unwrap().contains("`me`"), "{problem}");
        let worker = world.worker.clone();
        assert!(tokio::task::spawn_blocking(move || worker.claim()).await.unwrap().is_none());
        world.worker.held.open("a");
    };
    let (first, ()) = tokio::join!(first, both);
    let first = first.expect(200);
    assert_eq!(first["job"]["state"], "completed");
    assert_eq!(first["run"]["status"], "COMPLETED");
    assert!(!first["run"]["reservation_id"].is_null());
    assert!(world.get("/queue").await.expect(200)["reservation"].is_null());
    assert_eq!(world.claim().await.job.job_id.to_string(), queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_one_job_however_many_ask_at_once() {
    let world = World::new().await;
    let body = json!({"job_type": "story", "params": {"n": 1}, "idempotency_key": "k"});
    let asked = std::iter::repeat_with(|| world.post("/jobs", body.clone())).take(16);
    let answers = futures_util::future::join_all(asked).await;
    let made = answers.iter().filter(|got| got.status == 201).count();
    assert_eq!(made, 1);
    let mut jobs: Vec<Value> =
        answers.into_iter().map(|got| got.json()["job_id"].clone()).collect();
    jobs.dedup();
    assert_eq!(jobs.len(), 1);
    let other = json!({"job_type": "story", "params": {"n": 2}, "idempotency_key": "k"});
    let problem = world.post("/jobs", other).await.problem(409, "idempotency-conflict");
    assert_eq!(problem["field"], "idempotency_key");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_job_is_not_cancelled_and_a_cancelled_one_never_runs() {
    let world = World::new().await;
    let done = world.add(json!({"job_type": "story"})).await;
    let run = world.claim().await;
    world.finish(run).await;
    world.delete(&format!("/jobs/{done}")).await.problem(409, "job-ended");
    let queued = world.add(json!({"job_type": "story"})).await;
    let job = world.delete(&format!("/jobs/{queued}")).await.expect(200);
    assert_eq!(job["state"], "cancelled");
    world.delete(&format!("/jobs/{queued}")).await.problem(409, "job-ended");
    assert!(world.worker.claim().is_none());
    let running = world.add(json!({"job_type": "story", "params": {"fail": true}})).await;
    let run = world.claim().await;
    let job = world.delete(&format!("/jobs/{running}")).await.expect(202);
    assert_eq!(job["state"], "running");
    assert!(!job["cancel_requested_at"].is_null());
    world.finish(run).await;
    let job = world.job(&running).await;
    assert_eq!((&job["state"], &job["retry_decision"]), (&json!("cancelled"), &json!("cancelled")));
}
