//! Stopping by signals.

use kron_testkit::krond::{World, seldom, wait_for_permit};
use nix::sys::signal::Signal;

use crate::new_world;

/// A job that runs until it is permitted to end. It ends at the first signal, and nothing kills it
/// before, however long that takes.
fn long_run(schedule: &str) -> World {
    let wait = wait_for_permit("permit");
    new_world(&format!(
        r#"
        [job.long]
        schedule = "{schedule}"
        command = "echo $KRON_PERIOD_ID >> {{dir}}/started; {wait}; echo $KRON_PERIOD_ID >> {{dir}}/ended; exit 7"
        shell = true
        grace = "1h"
        "#
    ))
}

#[test]
fn an_interrupt_waits_for_what_runs_and_starts_nothing_more() {
    // There is more to start every second.
    let world = long_run("* * * * * *");
    let mut krond = world.start();
    let started = krond.wait_for("started");
    krond.signal(Signal::SIGINT);
    let stopping = krond.wait_for("stopping");
    assert_eq!(stopping["mode"], "wait");
    world.permit("permit");
    let finished = krond.wait_for("finished");
    assert_eq!(finished["period_id"], started["period_id"]);
    assert_eq!(krond.wait().code(), Some(0));
    assert_eq!(world.testimony("started").len(), 1);
    assert_eq!(world.testimony("ended").len(), 1);
    let history = world.history("long");
    assert_eq!(history.iter().filter(|entry| entry["ExitCode"] == 7).count(), 1, "{history:?}");
    assert!(world.document("long")["ActiveExecution"].is_null());
}

#[test]
fn a_second_interrupt_ends_what_runs() {
    let world = long_run(seldom());
    let mut krond = world.start();
    world.run_now("long");
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait_for("stopping")["mode"], "kill");
    assert_eq!(krond.wait_for("finished")["ending"], "stopped");
    assert_eq!(krond.wait().code(), Some(0));
    let history = world.history("long");
    let entry = history.iter().find(|entry| entry["Ending"] == "stopped").expect("it is recorded");
    assert_eq!(entry["Signal"], 15);
    assert!(world.testimony("ended").is_empty());
}

#[test]
fn a_stop_by_hand_is_answered_before_the_daemon_leaves() {
    let world = long_run(seldom());
    let mut krond = world.start();
    world.run_now("long");
    let (status, answer) = world.ask("POST", "/api/v1/stop", r#"{"mode":"leave"}"#);
    assert_eq!(status, 200, "{answer}");
    krond.wait_for("stopped");
    assert_eq!(krond.wait().code(), Some(0));
}
