//! What is left after a crash, judged by what the commands themselves wrote down.

use kron_testkit::krond::World;
use kron_testkit::process::{has_ended, wait_until_idle};
use kron_testkit::waiting::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::new_world;
use crate::queue::site::{Site as _, handler, world};

/// A command that says when it begins, waits for a word, and ends with 7.
const PATIENT: &str = "echo $KRON_RUN_ID >> {dir}/began; \
     while [ ! -e {dir}/go ]; do sleep 0.01; done; echo $KRON_RUN_ID >> {dir}/ended; exit 7";

fn patient() -> World {
    world(&(handler("patient", PATIENT) + "retries = 0\nlost_retries = 1\n"))
}

fn supervisor(world: &World, id: &str) -> Pid {
    let pid = world.run(id)["process"]["pid"].as_i64().expect("a process");
    Pid::from_raw(pid as i32)
}

#[test]
fn a_run_that_is_alive_is_adopted_and_its_exit_code_recorded() {
    let world = patient();
    let krond = world.start();
    let id = world.add("patient", json!({}));
    eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
    krond.kill();
    let mut krond = world.start();
    assert_eq!(krond.events("queue_run_adopted")[0]["job_id"], id.as_str());
    assert_eq!(world.job(&id)["state"], "running");
    world.permit("go");
    let run = world.reaches(&id, "failed");
    assert_eq!((&run["exit_code"], &run["lost"]), (&json!(7), &json!(false)));
    assert_eq!(world.testimony("began").len(), 1, "it ran once");
    assert_eq!(world.chain(&id).len(), 1);
    eventually("nothing is left", || world.run_records().is_empty().then_some(()));
    krond.stop();
}

#[test]
fn a_run_that_ended_while_no_daemon_was_there_has_its_true_end() {
    let world = patient();
    let krond = world.start();
    let id = world.add("patient", json!({}));
    eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
    let supervisor = supervisor(&world, &id);
    krond.kill();
    world.permit("go");
    eventually("its supervisor has left", || has_ended(supervisor.as_raw()).then_some(()));
    let krond = world.start();
    let run = world.reaches(&id, "failed");
    assert_eq!((&run["exit_code"], &run["lost"]), (&json!(7), &json!(false)));
    assert_eq!(world.chain(&id).len(), 1, "its end is known, so it is not retried as lost");
    eventually("nothing is left", || world.run_records().is_empty().then_some(()));
    krond.stop();
}

#[test]
fn a_run_whose_supervisor_is_gone_goes_on_as_long_as_its_command_does() {
    for restart in [false, true] {
        let world = patient();
        let mut krond = world.start();
        let id = world.add("patient", json!({}));
        eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
        let supervisor = supervisor(&world, &id);
        // It has told its daemon that the command runs: only then is how that ended of any use.
        wait_until_idle(supervisor.as_raw());
        if restart {
            krond.kill();
            kill(supervisor, Signal::SIGKILL).unwrap();
            eventually("it is gone", || has_ended(supervisor.as_raw()).then_some(()));
            krond = world.start();
            assert_eq!(krond.events("queue_run_adopted").len(), 1);
        } else {
            kill(supervisor, Signal::SIGKILL).unwrap();
        }
        assert_eq!(world.job(&id)["state"], "running", "its command is alive");
        assert_eq!(world.testimony("began").len(), 1);
        world.permit("go");
        let run = world.reaches(&id, "failed");
        // Only its parent could have seen how it ended, which is the daemon that adopted it.
        if !restart {
            assert_eq!(run["exit_code"], 7, "{run}");
        }
        let ended = world.testimony("ended");
        assert_eq!(
            ended[0],
            run["run_id"].as_str().unwrap(),
            "it ran to its end before it counted"
        );
        krond.stop();
    }
}

#[test]
fn a_lost_run_fails_with_its_own_error_and_its_own_cap() {
    let line = "echo $KRON_RUN_ID >> {dir}/began; sleep 1000";
    let world = world(&(handler("lost", line) + "retries = 5\nlost_retries = 1\n"));
    let mut first = None;
    for round in 1..=2 {
        let krond = world.start();
        let id = first.get_or_insert_with(|| world.add("lost", json!({}))).clone();
        eventually("it runs", || (world.testimony("began").len() == round).then_some(()));
        let last = world.chain(&id).last().unwrap()["job_id"].as_str().unwrap().to_owned();
        let run = world.run(&last);
        krond.kill();
        for of in ["process", "command"] {
            let pid = Pid::from_raw(run[of]["pid"].as_i64().unwrap() as i32);
            kill(pid, Signal::SIGKILL).unwrap();
            eventually("it is gone", || has_ended(pid.as_raw()).then_some(()));
        }
    }
    let krond = world.start();
    let chain = world.chain(&first.unwrap());
    assert_eq!(chain.len(), 2, "the original and one more: {chain:?}");
    for job in &chain {
        let run = world.run(job["job_id"].as_str().unwrap());
        assert_eq!(run["error"], "Scheduler crash recovery");
        assert_eq!(run["lost"], true);
    }
    assert_eq!(chain[1]["retry_decision"], "lost_exhausted");
    assert_eq!(world.testimony("began").len(), 2);
    krond.stop();
}

#[test]
fn a_daemon_that_stops_leaves_runs_to_their_supervisors_and_the_next_goes_on() {
    let world = patient();
    let krond = world.start();
    let id = world.add("patient", json!({}));
    eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
    let queued = world.add("patient", json!({}));
    krond.stop();
    world.permit("go");
    let krond = world.start();
    assert_eq!(world.reaches(&id, "failed")["exit_code"], 7);
    assert_eq!(world.reaches(&queued, "failed")["exit_code"], 7);
    assert_eq!(world.testimony("began").len(), 2);
    krond.stop();
}

#[test]
fn a_daemon_that_is_told_to_wait_does_and_one_that_is_told_to_kill_ends_them() {
    let world = patient();
    let mut krond = world.start();
    let id = world.add("patient", json!({}));
    eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    let (status, answer) = world.ask("POST", "/api/v1/jobs", r#"{"job_type":"patient"}"#);
    assert_eq!(status, 503, "{answer}");
    world.permit("go");
    assert_eq!(krond.wait().code(), Some(0));
    let krond = world.start();
    assert_eq!(world.run(&id)["exit_code"], 7, "it was waited for");
    krond.stop();

    // It waits for the run's end, however slow the machine is.
    let world = new_world(&format!(
        "[queue]\nstop_grace = \"1000s\"\n{}retries = 0\n",
        handler("patient", PATIENT)
    ));
    let mut krond = world.start();
    let id = world.add("patient", json!({}));
    eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0));
    let krond = world.start();
    let run = world.run(&id);
    assert!(run["error"].as_str().unwrap().starts_with("ended by request"), "{run}");
    krond.stop();
}

#[test]
fn a_start_without_the_queue_in_between_loses_no_end() {
    let world = patient();
    let krond = world.start();
    let id = world.add("patient", json!({}));
    eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
    let supervisor = supervisor(&world, &id);
    krond.stop();
    world.permit("go");
    eventually("its supervisor has left", || has_ended(supervisor.as_raw()).then_some(()));
    world.configure("[daemon]\nhistory = 10\n");
    world.start().stop();
    world.configure(&format!("[queue]\nstop_grace = \"0s\"\n{}", handler("patient", PATIENT)));
    let krond = world.start();
    let run = world.reaches(&id, "failed");
    assert_eq!((&run["exit_code"], &run["lost"]), (&json!(7), &json!(false)));
    krond.stop();
}
