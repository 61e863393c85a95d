//! Commands that handle jobs.

use kron_testkit::files::read;
use kron_testkit::process::has_ended;
use kron_testkit::waiting::eventually;
use serde_json::json;

use crate::queue::site::{JOBS, Site as _, handler, world};

#[test]
fn a_command_reads_its_parameters_and_what_it_leaves_is_recorded() {
    let line = "cat > {dir}/stdin; env | grep ^KRON_ | sort > {dir}/env; echo out; echo err >&2; \
                mkdir $KRON_ARTIFACTS_DIR/d; printf abc > $KRON_ARTIFACTS_DIR/d/x";
    let world = world(&handler("echo", line));
    let _krond = world.start();
    let id = world.add("echo", json!({ "a": [1, "ü\"\n"], "b": null }));
    let run = world.reaches(&id, "completed");
    let stdin = read(&world.witness("stdin")).unwrap();
    let told: serde_json::Value = serde_json::from_str(&stdin).unwrap();
    assert_eq!(told, json!({ "a": [1, "ü\"\n"], "b": null }));
    let env = world.testimony("env");
    let run_id = run["run_id"].as_str().unwrap();
    for expected in [
        format!("KRON_JOB_ID={id}"),
        format!("KRON_RUN_ID={run_id}"),
        "KRON_JOB_TYPE=echo".to_owned(),
        "KRON_ATTEMPT=0".to_owned(),
        "KRON_RETRY_OF=".to_owned(),
        "KRON_IDENTITY=queue/echo".to_owned(),
    ] {
        assert!(env.contains(&expected), "{expected} in {env:?}");
    }
    assert_eq!(
        run["artifacts"],
        json!([{ "path": "d/x", "size_bytes": 3,
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" }])
    );
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("COMPLETED"), &json!(0)));
    let log = read(&world.state_dir().join(run["log_path"].as_str().unwrap()));
    assert_eq!(log.unwrap(), "out\nerr\n");
    assert_eq!(world.job(&id)["status"], "RUNNING", "as the persistence document has it");
}

#[test]
fn exit_codes_timeouts_and_bad_programs_have_their_outcomes() {
    let tables = [
        handler("skip", "exit 75"),
        "skip_codes = [75]\n".to_owned(),
        handler("bad", "echo why; exit 3"),
        "retries = 0\n".to_owned(),
        handler("slow", "sleep 1000"),
        "retries = 0\ntimeout = \"1s\"\n".to_owned(),
        "[queue.handler.none]\ncommand = [\"/nonexistent/program\"]\nretries = 0\n".to_owned(),
    ];
    let world = world(&tables.concat());
    let _krond = world.start();
    let ids = ["skip", "bad", "slow", "none"].map(|job_type| world.add(job_type, json!({})));
    let skipped = world.reaches(&ids[0], "skipped");
    assert_eq!((&skipped["status"], &skipped["exit_code"]), (&json!("SKIPPED"), &json!(75)));
    let bad = world.reaches(&ids[1], "failed");
    assert_eq!((&bad["error"], &bad["exit_code"]), (&json!("exit code 3"), &json!(3)));
    assert_eq!(world.reaches(&ids[2], "failed")["error"], "timed out after 1s");
    let none = world.reaches(&ids[3], "failed");
    assert!(none["error"].as_str().unwrap().contains("No such file"), "{none}");
    assert_eq!(world.job(&ids[1])["retry_decision"], "exhausted");
}

#[test]
fn a_failed_job_is_retried_as_a_new_one_until_it_is_enough() {
    let world = world(
        &(handler("flaky", "echo $KRON_ATTEMPT $KRON_RETRY_OF >> {dir}/tries; exit 1")
            + "retries = 2\n"),
    );
    let _krond = world.start();
    let first = world.add("flaky", json!({}));
    let chain = eventually("three jobs", || {
        let chain = world.chain(&first);
        (chain.len() == 3 && chain[2]["state"] == "failed").then_some(chain)
    });
    let id = |at: usize| chain[at]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(
        world.testimony("tries"),
        ["0".to_owned(), format!("1 {}", id(0)), format!("2 {}", id(1))]
    );
    assert_eq!(chain[2]["retry_decision"], "exhausted");
    // The last one may be retried by hand, and only the last.
    let (status, _) = world.ask("POST", &format!("{JOBS}/{}/retry", id(1)), "");
    assert_eq!(status, 409);
    world.post(&format!("{JOBS}/{}/retry", id(2)), &json!({}));
    eventually("a fourth try", || (world.testimony("tries").len() == 4).then_some(()));
}

#[test]
fn jobs_run_in_their_order_as_many_at_once_as_there_are_workers() {
    let line = "read n; echo $n >> {dir}/order; while [ ! -e {dir}/go ]; do sleep 0.01; done";
    let world = world(&handler("ordered", line));
    let krond = world.start();
    let mut jobs = vec![world.add("ordered", json!({ "n": 0 }))];
    eventually("one runs", || (world.testimony("order").len() == 1).then_some(()));
    jobs.extend((1..3).map(|n| world.add("ordered", json!({ "n": n }))));
    let urgent =
        world.post(JOBS, &json!({ "job_type": "ordered", "params": {"n": 9}, "priority": 5 }));
    world.post(&format!("{JOBS}/{}/move", jobs[2]), &json!({ "to": "top" }));
    world.permit("go");
    for id in jobs.iter().map(String::as_str).chain([urgent["job_id"].as_str().unwrap()]) {
        world.reaches(id, "completed");
    }
    let order = world.testimony("order");
    assert_eq!(order, ["{\"n\":0}", "{\"n\":9}", "{\"n\":2}", "{\"n\":1}"]);
    krond.stop();
}

#[test]
fn pauses_last_over_a_restart_and_jobs_that_nobody_handles_wait() {
    let world = world(&handler("a", "true"));
    let krond = world.start();
    world.post("/api/v1/queue/pause", &json!({ "reason": "maintenance" }));
    let id = world.add("a", json!({}));
    let unhandled = world.add("later", json!({}));
    krond.stop();
    let krond = world.start();
    assert_eq!(world.get("/api/v1/queue")["pauses"][0]["reason"], "maintenance");
    assert_eq!(world.job(&id)["state"], "queued");
    world.post("/api/v1/queue/resume", &json!({}));
    world.reaches(&id, "completed");
    assert_eq!(world.job(&unhandled)["state"], "queued");
    // A handler that comes with a reload takes what waits for it.
    world.configure(&format!("[queue]\n{}{}", handler("a", "true"), handler("later", "true")));
    world.post("/api/v1/reload", &json!({}));
    world.reaches(&unhandled, "completed");
    krond.stop();
}

#[test]
fn a_running_job_is_cancelled_and_not_retried_and_what_it_started_is_gone() {
    let world = world(&handler("slow", "sleep 1000 & echo $! > {dir}/child; wait"));
    let _krond = world.start();
    let id = world.add("slow", json!({}));
    let child: i32 = eventually("it runs", || world.testimony("child").first()?.parse().ok());
    let (status, _) = world.ask("DELETE", &format!("{JOBS}/{id}"), "");
    assert_eq!(status, 202);
    let run = world.reaches(&id, "cancelled");
    assert_eq!((&run["status"], &run["error"]), (&json!("FAILED"), &json!("cancelled")));
    assert_eq!(world.chain(&id).len(), 1);
    eventually("its child is gone", || has_ended(child).then_some(()));
    let (status, _) = world.ask("DELETE", &format!("{JOBS}/{id}"), "");
    assert_eq!(status, 409, "it has ended");
}
