//! Commands that handle tasks.

use kron_testkit::files::read;
use kron_testkit::process::has_ended;
use kron_testkit::waiting::eventually;
use serde_json::{Value, json};

use crate::spool::site::{Site as _, handler, logs, spool, world};

#[test]
fn a_command_reads_the_payload_as_it_was_written_and_is_told_what_it_is() {
    let line = "cat > {dir}/stdin; env | grep ^KRON_ | sort > {dir}/env; echo out; echo err >&2";
    let world = world("", &handler("t", line));
    let _krond = world.start();
    // Numbers and spaces that nothing must touch.
    let payload = r#"{ "type":"t",   "data": {"n": 1.10, "big": 123456789012345678901234567890, "u": "\u00fc\n"} , "x": [ ]}"#;
    let text = format!(
        r#"{{"taskId": "a", "state": "PENDING", "createdAt": "2026-01-06T10:15:30.5+01:00",
            "payload": {payload}, "own": {{"kept": 1.0}}}}"#
    );
    world.drop_in("a.json", &text);
    let task = world.completed("a");
    assert_eq!(read(&world.witness("stdin")).unwrap(), payload);
    let env = world.testimony("env");
    assert_eq!(env[..4], ["KRON_ATTEMPT=1", "KRON_IDENTITY=spool/s", "KRON_PERIOD_ID=", &env[3]]);
    assert!(env[3].starts_with("KRON_RUN_ID="), "{env:?}");
    assert_eq!(env[4..], ["KRON_SPOOL=s", "KRON_TASK_ID=a", "KRON_TASK_TYPE=t"]);
    let file = read(&world.spool_path("tasks/completed/a.json")).unwrap();
    assert!(file.contains(payload) && file.contains(r#""own": {"kept": 1.0}"#), "{file}");
    assert!(file.contains(r#""createdAt": "2026-01-06T10:15:30.5+01:00""#), "{file}");
    assert_eq!(
        task["result"],
        json!({ "outcome": "SUCCEEDED", "exitCode": 0, "output": "out\nerr\n" })
    );
    assert_eq!((&task["state"], &task["attempts"]), (&json!("COMPLETED"), &json!(1)));
    assert!(
        task["startedAt"].is_string() && task["completedAt"].is_string() && task["run"].is_null()
    );
}

#[test]
fn the_end_of_the_output_is_in_the_result_and_all_of_it_in_the_log() {
    let tables = handler("long", "seq 1 3000; echo the end")
        + &handler("bytes", "head -c 6000 /dev/zero | tr '\\0' '\\377'; echo the end");
    let world = world("", &tables);
    let _krond = world.start();
    world.put("long", "long");
    let output = world.completed("long")["result"]["output"].as_str().unwrap().to_owned();
    assert!(output.len() <= 4_096 && output.len() > 4_000, "{}", output.len());
    assert!(output.ends_with("\n3000\nthe end\n"), "{output}");
    world.put("bytes", "bytes");
    let output = world.completed("bytes")["result"]["output"].as_str().unwrap().to_owned();
    assert!(output.len() <= 4_096 && output.ends_with("\u{fffd}the end\n"), "{output}");
    let logs = logs(&world);
    assert_eq!(logs.len(), 2, "what is not told in full is kept");
    assert!(logs.iter().any(|log| log.starts_with("1\n2\n3\n")));
}

#[test]
fn exit_codes_timeouts_and_bad_programs_have_their_outcomes() {
    let tables = [
        handler("skip", "exit 75"),
        "skip_codes = [75]\n".to_owned(),
        handler("bad", "echo why; exit 3"),
        "retries = 0\n".to_owned(),
        handler("shot", "kill -9 $$"),
        "retries = 0\n".to_owned(),
        "[spool.s.handler.none]\ncommand = [\"/nonexistent/program\"]\nretries = 0\n".to_owned(),
    ];
    let world = world("workers = 4", &tables.concat());
    let _krond = world.start();
    for id in ["skip", "bad", "shot", "none"] {
        world.put(id, id);
    }
    let result = |id: &str| world.completed(id)["result"].clone();
    assert_eq!(result("skip"), json!({ "outcome": "SKIPPED", "exitCode": 75 }));
    assert_eq!(
        result("bad"),
        json!({ "outcome": "FAILED", "exitCode": 3, "error": "exit code 3", "output": "why\n" })
    );
    assert_eq!(result("shot"), json!({ "outcome": "FAILED", "error": "killed by SIGKILL" }));
    let none = result("none");
    assert_eq!(none["outcome"], "FAILED");
    assert!(none["error"].as_str().unwrap().contains("No such file"), "{none}");
}

#[test]
fn a_timeout_ends_a_command_and_what_it_started() {
    let world = world("", "");
    let _krond = world.start();
    // A busy machine may need a while until the command has started something.
    let child = [1, 2, 4, 8, 16, 32].into_iter().find_map(|timeout_s| {
        let slow = handler("slow", "sleep 1000 & echo $! > {dir}/child; wait");
        let slow = format!("{slow}retries = 0\ntimeout = \"{timeout_s}s\"\n");
        world.configure(&spool("", &slow));
        world.reload();
        let id = format!("slow-{timeout_s}");
        world.put(&id, "slow");
        let result = world.completed(&id)["result"].clone();
        assert_eq!(
            (&result["outcome"], &result["error"]),
            (&json!("FAILED"), &json!(format!("timed out after {timeout_s}s")))
        );
        world.testimony("child").first().map(|child| child.parse().unwrap())
    });
    let child = child.expect("a command that has started something");
    eventually("its child is gone", || has_ended(child).then_some(()));
}

#[test]
fn a_failure_is_tried_again_after_its_backoff_until_it_is_enough() {
    let line = "echo $KRON_ATTEMPT $(date +%s%N) >> {dir}/tries; echo tried; exit 9";
    let tables = handler("t", line) + &handler("later", "exit 9") + "backoff = \"1h\"\n";
    let world = world("retries = 1", &tables);
    let _krond = world.start();
    // Its backoff is not over before it is looked at.
    world.put("later", "later");
    let again = eventually("it waits again", || {
        world.task("pending", "later").filter(|task| task["attempts"] == 1)
    });
    assert_eq!((&again["state"], &again["lastError"]), (&json!("PENDING"), &json!("exit code 9")));
    assert!(again["notBefore"].is_string() && again["run"].is_null(), "{again}");
    assert!(again["startedAt"].is_null() && again["result"].is_null(), "{again}");
    world.put("t", "t");
    let task = world.completed("t");
    assert_eq!((&task["attempts"], &task["lostAttempts"]), (&json!(2), &Value::Null));
    assert_eq!(task["result"]["outcome"], "FAILED");
    let tries = world.testimony("tries");
    let nanos = |at: usize| tries[at].split_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(tries.len(), 2);
    assert!(tries[0].starts_with("1 ") && tries[1].starts_with("2 "), "{tries:?}");
    assert!(nanos(1) - nanos(0) >= 1_000_000_000, "{tries:?}");
    // By hand it may begin anew.
    let (status, answer) = world.ask("POST", "/api/v1/spools/s/tasks/t/retry", "");
    assert_eq!((status, &answer["task_id"]), (200, &json!("t")), "{answer}");
    assert!(world.says("tries", 3)[2].starts_with("1 "));
    eventually("it has failed again", || {
        world.task("completed", "t").filter(|task| task["attempts"] == 2)
    });
}

#[test]
fn as_many_run_at_once_as_there_are_workers_of_the_spool_and_of_the_type() {
    let line = "echo $KRON_TASK_TYPE >> {dir}/began; while [ ! -e {dir}/go ]; do sleep 0.01; done";
    let tables = handler("few", line) + "workers = 1\n" + &handler("many", line);
    let world = world("workers = 3", &tables);
    let krond = world.start();
    for id in ["1", "2", "3"] {
        world.put(&format!("a{id}"), "few");
    }
    for id in ["1", "2", "3"] {
        world.put(&format!("b{id}"), "many");
    }
    let mut began = world.says("began", 3);
    eventually("the others wait", || {
        let view = world.view();
        (view["running"] == 3 && view["pending"] == 3).then_some(())
    });
    began.sort();
    assert_eq!(began, ["few", "many", "many"]);
    assert_eq!(world.names("tasks/running").len(), 3);
    world.permit("go");
    for id in ["a1", "a2", "a3", "b1", "b2", "b3"] {
        world.completed(id);
    }
    assert_eq!(world.testimony("began").len(), 6);
    krond.stop();
}

#[test]
fn a_command_that_cannot_be_started_makes_its_type_wait_and_no_attempt() {
    let tables = handler("t", "true") + "user = \"nobody-of-this-name\"\n" + &handler("u", "true");
    let world = world("", &tables);
    let mut krond = world.start();
    world.put("t", "t");
    let told = krond.wait_for("spool_task_not_started");
    assert_eq!((&told["task_id"], &told["task_type"]), (&json!("t"), &json!("t")), "{told}");
    world.put("u", "u");
    world.completed("u");
    let waits = world.task("pending", "t").unwrap();
    assert!(waits["attempts"].is_null() && waits["lastError"].is_null(), "{waits}");
    world.configure(&spool("", &handler("t", "true")));
    world.reload();
    assert_eq!(world.completed("t")["attempts"], 1);
    krond.stop();
}
