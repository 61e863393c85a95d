//! What is left after a crash or a stop, judged by what the commands themselves wrote down.

use std::fs;

use kron_testkit::krond::World;
use kron_testkit::process::{has_ended, wait_until_idle};
use kron_testkit::waiting::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::new_world;
use crate::spool::site::{Site as _, alone, handler, metrics, spool, world};

/// A process of the run of a task.
fn pid(world: &World, id: &str, of: &str) -> Pid {
    let task = world.task("running", id).expect("it runs");
    // As the state's documents have it.
    Pid::from_raw(task["run"][of]["PID"].as_i64().unwrap_or_else(|| panic!("{task}")) as i32)
}

fn running() -> World {
    world("workers = 2\nretries = 0", &alone("t", 7))
}

/// Nothing is left of the run, and nothing was ever run beside itself.
fn assert_settled(world: &World) {
    assert!(world.testimony("twice").is_empty(), "it ran twice at once");
    eventually("nothing is left", || world.run_records().is_empty().then_some(()));
    for directory in ["tasks/pending", "tasks/running", "rejected"] {
        assert!(world.names(directory).is_empty(), "{directory}");
    }
}

#[test]
fn a_run_that_is_alive_is_adopted_and_its_true_end_recorded() {
    let world = running();
    let krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    krond.kill();
    let mut krond = world.start();
    assert_eq!(krond.events("spool_task_adopted")[0]["task_id"], "t");
    world.put("other", "t");
    world.says("began", 2);
    eventually("both are shown", || (world.view()["running"] == 2).then_some(()));
    world.permit("go");
    let task = world.completed("t");
    assert_eq!(
        (&task["attempts"], &task["result"]["exitCode"], &task["lostAttempts"]),
        (&json!(1), &json!(7), &Value::Null)
    );
    world.completed("other");
    assert_eq!(world.testimony("began"), ["t", "other"], "each ran once");
    krond.stop();
    assert_settled(&world);
}

#[test]
fn a_run_that_ended_while_no_daemon_was_there_has_its_true_end_and_output() {
    let world = world(
        "retries = 0",
        &handler(
            "t",
            "echo begun; echo t >> {dir}/began; \
        while [ ! -e {dir}/go ]; do sleep 0.01; done; echo done; exit 7",
        ),
    );
    let krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    let supervisor = pid(&world, "t", "supervisor");
    krond.kill();
    world.permit("go");
    eventually("its supervisor has left", || has_ended(supervisor.as_raw()).then_some(()));
    let krond = world.start();
    assert_eq!(
        world.completed("t")["result"],
        json!({ "outcome": "FAILED", "exitCode": 7, "error": "exit code 7",
            "output": "begun\ndone\n" })
    );
    assert_eq!(world.testimony("began").len(), 1);
    krond.stop();
    assert_settled(&world);
}

#[test]
fn a_run_that_was_lost_runs_again_and_is_counted_until_it_is_enough() {
    let world = world("retries = 0\nlost_retries = 1", &alone("t", 0));
    for round in 1..=2 {
        let krond = world.start();
        if round == 1 {
            world.put("t", "t");
        }
        world.says("began", round);
        let task = world.task("running", "t").unwrap();
        assert_eq!(task["attempts"], round);
        assert_eq!(task["lostAttempts"].as_u64().unwrap_or(0), round as u64 - 1);
        let processes = ["supervisor", "command"].map(|of| pid(&world, "t", of));
        krond.kill();
        for process in processes {
            kill(process, Signal::SIGKILL).unwrap();
            eventually("it is gone", || has_ended(process.as_raw()).then_some(()));
        }
        fs::remove_file(world.witness("lock.t")).unwrap();
    }
    let krond = world.start();
    let task = world.completed("t");
    eventually("it is counted", || {
        metrics(&world).contains("kron_spool_lost_total{spool=\"s\"} 1\n").then_some(())
    });
    assert_eq!((&task["result"]["outcome"], &task["attempts"]), (&json!("FAILED"), &json!(2)));
    let error = task["result"]["error"].as_str().unwrap();
    assert!(error.contains("lost"), "{task}");
    assert_eq!(world.testimony("began").len(), 2);
    krond.stop();
    assert_settled(&world);
}

#[test]
fn a_run_whose_supervisor_is_killed_is_not_run_beside_itself() {
    for restart in [false, true] {
        let world = running();
        let mut krond = world.start();
        world.put("t", "t");
        world.says("began", 1);
        let supervisor = pid(&world, "t", "supervisor");
        // It has told its daemon that the command runs: only then is how that ended of any use.
        wait_until_idle(supervisor.as_raw());
        if restart {
            krond.kill();
            kill(supervisor, Signal::SIGKILL).unwrap();
            eventually("it is gone", || has_ended(supervisor.as_raw()).then_some(()));
            krond = world.start();
            assert_eq!(krond.events("spool_task_adopted").len(), 1);
        } else {
            kill(supervisor, Signal::SIGKILL).unwrap();
            eventually("it is gone", || has_ended(supervisor.as_raw()).then_some(()));
        }
        // Its command lives, so it is not started again, whatever else is.
        world.put("other", "t");
        world.says("began", 2);
        assert!(world.task("running", "t").is_some());
        world.permit("go");
        let task = world.completed("t");
        // Only its parent could have seen how it ended, which is the daemon that adopted it.
        match restart {
            false => assert_eq!(task["result"]["exitCode"], 7, "{task}"),
            true => assert_eq!(task["lostAttempts"], 1, "{task}"),
        }
        world.completed("other");
        krond.stop();
        assert_settled(&world);
    }
}

#[test]
fn a_daemon_that_stops_leaves_runs_to_their_supervisors_and_the_next_goes_on() {
    let world = world("retries = 0", &alone("t", 7));
    let krond = world.start();
    world.put("1", "t");
    world.says("began", 1);
    world.put("2", "t");
    eventually("it is known", || (world.view()["pending"] == 1).then_some(()));
    krond.stop();
    assert_eq!(world.names("tasks/running"), ["1.json"]);
    assert_eq!(world.names("tasks/pending"), ["2.json"]);
    let krond = world.start();
    world.permit("go");
    for id in ["1", "2"] {
        assert_eq!(world.completed(id)["result"]["exitCode"], 7);
    }
    assert_eq!(world.testimony("began"), ["1", "2"]);
    krond.stop();
    assert_settled(&world);
}

#[test]
fn a_daemon_that_leaves_waits_for_the_grace() {
    let world = new_world(
        &spool("", &alone("t", 0)).replace("stop_grace = \"0s\"", "stop_grace = \"1000s\""),
    );
    let mut krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    krond.signal(Signal::SIGTERM);
    krond.wait_for("stopping");
    world.put("later", "t");
    world.permit("go");
    assert_eq!(krond.wait().code(), Some(0));
    assert!(world.task("completed", "t").is_some(), "its end was waited for");
    assert!(world.task("pending", "later").is_some(), "and nothing more was started");
    assert_eq!(world.testimony("began"), ["t"]);
}

#[test]
fn a_daemon_that_is_told_to_wait_does_and_one_that_is_told_to_kill_ends_them() {
    let world = running();
    let mut krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    world.permit("go");
    assert_eq!(krond.wait().code(), Some(0));
    assert_eq!(world.task("completed", "t").unwrap()["result"]["exitCode"], 7);
    assert_settled(&world);

    // It waits for the task's end, however slow the machine is.
    let world = new_world(
        &spool("retries = 0", &alone("t", 7))
            .replace("stop_grace = \"0s\"", "stop_grace = \"1000s\""),
    );
    let mut krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0));
    let task = world.task("completed", "t").unwrap();
    let error = task["result"]["error"].as_str().unwrap();
    assert!(error.starts_with("ended by request"), "{task}");
    assert_settled(&world);
}

#[test]
fn a_task_that_is_found_running_without_processes_runs() {
    let world = world("", &handler("t", "echo $KRON_TASK_ID >> {dir}/began"));
    fs::create_dir_all(world.spool_path("tasks/running")).unwrap();
    // As another scheduler of the same format leaves it after a crash.
    let text = crate::spool::site::text("t", "t", &Value::Null).replace("PENDING", "RUNNING");
    fs::write(world.spool_path("tasks/running/t.json"), text).unwrap();
    fs::write(world.spool_path("tasks/running/.tmp-u.json"), "half a ta").unwrap();
    let krond = world.start();
    assert_eq!(world.completed("t")["result"]["outcome"], "SUCCEEDED");
    assert_eq!(world.testimony("began"), ["t"]);
    assert!(!world.spool_path("tasks/running/.tmp-u.json").exists());
    krond.stop();
}

#[test]
fn a_start_without_the_spool_in_between_loses_no_end() {
    let world = world("retries = 0", &alone("t", 7));
    let krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    let supervisor = pid(&world, "t", "supervisor");
    krond.stop();
    world.permit("go");
    eventually("its supervisor has left", || has_ended(supervisor.as_raw()).then_some(()));
    world.configure("[daemon]\nhistory = 10\n");
    world.start().stop();
    world.configure(&spool("retries = 0", &alone("t", 7)));
    let krond = world.start();
    let task = world.completed("t");
    assert_eq!((&task["result"]["exitCode"], &task["lostAttempts"]), (&json!(7), &Value::Null));
    krond.stop();
    assert_settled(&world);
}
