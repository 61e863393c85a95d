//! Runs that outlive their daemon, or their supervisor.

use std::os::unix::fs::DirBuilderExt as _;

use kron_testkit::krond::{Krond, World, seldom, wait_for_permit};
use kron_testkit::waiting::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::new_world;

/// The definition of a job that runs until it is permitted to end. It ends at the first signal, and
/// nothing kills it before, however long that takes.
fn long(schedule: &str) -> String {
    let wait = wait_for_permit("permit");
    format!(
        r#"
        [job.long]
        schedule = "{schedule}"
        command = "echo $KRON_PERIOD_ID $$ >> {{dir}}/started; {wait}; exit 7"
        shell = true
        grace = "1h"
        "#
    )
}

/// A daemon with a run by request, and the line about its start.
fn one_long_run() -> (World, Krond, Value) {
    let world = new_world(&long(seldom()));
    let mut krond = world.start();
    world.run_now("long");
    let started = krond.wait_for("started");
    (world, krond, started)
}

/// A daemon with a run of a period, the line about its start, and the period.
fn one_long_period() -> (World, Krond, Value, String) {
    let world = new_world("");
    let mut krond = world.start();
    let nominal =
        world.due_soon("long", |schedule| long(&format!("{schedule} @policy(deadline=1h)")));
    let started = krond.wait_for("started");
    (world, krond, started, nominal)
}

fn entry(world: &World) -> Option<Value> {
    world.history("long").into_iter().find(|entry| !entry["Ending"].is_null())
}

/// Starts the job, ends the daemon, starts another one, and checks that it adopts the run.
fn survives(end: impl FnOnce(Krond)) {
    let (world, krond, started, nominal) = one_long_period();
    end(krond);
    let active = world.document("long")["ActiveExecution"].clone();
    assert_eq!(active["PeriodID"], nominal.as_str());

    let mut krond = world.start();
    assert_eq!(world.ask("GET", "/api/v1/status", "").0, 200);
    world.permit("permit");
    let finished = krond.wait_for("finished");
    assert_eq!(finished["exit_code"], 7, "{finished}");
    assert_eq!(finished["run_id"], started["run_id"]);
    let entry = eventually("the end is recorded", || entry(&world));
    assert_eq!(entry["ExitCode"], 7);
    assert_eq!(entry["Ending"], "exited");
    eventually("its record is removed", || world.run_records().is_empty().then_some(()));
    assert_eq!(world.testimony("started").len(), 1, "it ran once");
}

#[test]
fn a_run_survives_a_stop_and_its_exit_code_is_recorded_by_the_next_daemon() {
    survives(|krond| drop(krond.stop()));
}

#[test]
fn a_run_survives_the_death_of_its_daemon() {
    survives(Krond::kill);
}

#[test]
fn a_run_that_ended_while_no_daemon_was_there_is_recorded_by_the_next() {
    let (world, krond, _) = one_long_run();
    krond.kill();
    world.permit("permit");
    eventually("its supervisor leaves a record", || world.run_records().pop());
    let mut krond = world.start();
    assert_eq!(krond.wait_for("finished")["exit_code"], 7);
    let entry = eventually("the end is recorded", || entry(&world));
    assert_eq!(entry["ExitCode"], 7);
    eventually("its record is removed", || world.run_records().is_empty().then_some(()));
    let epochs = world.epochs();
    assert!(epochs.iter().any(|epoch| epoch["Event"] == "crash"), "{epochs:?}");
    assert_eq!(world.testimony("started").len(), 1);
}

#[test]
fn a_command_that_lost_its_supervisor_is_waited_for_and_its_exit_code_seen() {
    let (world, mut krond, _) = one_long_run();
    let active = world.document("long")["ActiveExecution"].clone();
    let supervisor = active["Supervisor"]["PID"].as_i64().unwrap();
    kill(Pid::from_raw(supervisor as i32), Signal::SIGKILL).unwrap();
    eventually("the supervisor is gone", || {
        let stat = kron_testkit::files::read(format!("/proc/{supervisor}/stat").as_ref());
        stat.is_none_or(|stat| stat.contains(") Z ")).then_some(())
    });
    assert!(!world.document("long")["ActiveExecution"].is_null(), "the command still runs");
    assert!(krond.events("finished").is_empty());
    world.permit("permit");
    let finished = krond.wait_for("finished");
    assert_eq!(finished["exit_code"], 7, "{finished}");
    let entry = eventually("the end is recorded", || entry(&world));
    assert_eq!(entry["ExitCode"], 7);
}

#[test]
fn a_command_that_lost_its_supervisor_can_still_be_ended() {
    let (world, mut krond, _) = one_long_run();
    let active = world.document("long")["ActiveExecution"].clone();
    let supervisor = active["Supervisor"]["PID"].as_i64().unwrap();
    kill(Pid::from_raw(supervisor as i32), Signal::SIGKILL).unwrap();
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    krond.signal(Signal::SIGINT);
    krond.wait_for("finished");
    assert_eq!(krond.wait().code(), Some(0));
    let entry = entry(&world).expect("the end is recorded");
    assert_eq!(entry["Signal"], 15, "{entry}");
}

#[test]
fn a_supervisor_that_dies_when_its_run_is_to_end_spares_nobody() {
    ends_without_its_supervisor(|_, krond| krond);
}

#[test]
fn an_adopted_supervisor_that_dies_when_its_run_is_to_end_spares_nobody() {
    ends_without_its_supervisor(|world, krond| {
        krond.kill();
        world.start()
    });
}

fn ends_without_its_supervisor(meanwhile: impl FnOnce(&World, Krond) -> Krond) {
    let (world, krond, started) = one_long_run();
    let command = started["pid"].as_i64().unwrap();
    let mut krond = meanwhile(&world, krond);
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    let active = world.document("long")["ActiveExecution"].clone();
    let supervisor = Pid::from_raw(active["Supervisor"]["PID"].as_i64().unwrap() as i32);
    // Stopped, it cannot follow the order to end its run; then it dies without having done so.
    kill(supervisor, Signal::SIGSTOP).unwrap();
    krond.signal(Signal::SIGINT);
    krond.wait_for("stopping");
    kill(supervisor, Signal::SIGKILL).unwrap();
    krond.wait_for("finished");
    assert_eq!(krond.wait().code(), Some(0));
    let stat = kron_testkit::files::read(format!("/proc/{command}/stat").as_ref());
    assert!(stat.is_none_or(|stat| stat.contains(") Z ")), "the command still runs");
    assert!(entry(&world).is_some(), "the end is recorded");
}

#[test]
fn a_run_of_which_nothing_is_left_is_lost_and_not_repeated() {
    let (world, krond, started, nominal) = one_long_period();
    eventually("the command has left its trace", || world.testimony("started").pop());
    krond.kill();
    let active = world.document("long")["ActiveExecution"].clone();
    let supervisor = active["Supervisor"]["PID"].as_i64().unwrap() as i32;
    let command = started["pid"].as_i64().unwrap() as i32;
    for pid in [supervisor, command] {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    let mut krond = world.start();
    let finished = krond.wait_for("finished");
    assert_eq!(finished["ending"], "lost", "{finished}");
    let entry = eventually("the loss is recorded", || entry(&world));
    assert_eq!(entry["Outcome"], "executed");
    assert_eq!(entry["ExitCode"], Value::Null);
    assert_eq!(world.document("long")["LastHandledPeriodID"], nominal.as_str());
    assert_eq!(world.testimony("started").len(), 1);
}

#[test]
fn records_that_nobody_needs_are_removed_and_others_are_not() {
    let (world, krond, _) = one_long_run();
    krond.kill();
    world.permit("permit");
    let record = eventually("its supervisor leaves a record", || world.run_records().pop());
    let stale = world.state_dir().join("runs/0123456789abcdef.json");
    kron_testkit::files::write_private(&stale, &record.to_string());
    let mut krond = world.start();
    krond.wait_for("finished");
    eventually("both are removed", || world.run_records().is_empty().then_some(()));
    assert_eq!(world.history("long")[0]["ExitCode"], 7);
}

/// Another implementation of the state format knows only the process's number.
#[test]
fn a_run_of_another_implementation_counts_as_active_while_its_process_lives() {
    let world = new_world(
        "[job.long]\nschedule = \"* * * * * *\"\ncommand = \"echo ran >> {dir}/started\"\nshell = true\n",
    );
    // It ends by itself should the test fail, and holds no pipe of the test's.
    let mut stranger = std::process::Command::new("sleep")
        .arg("600")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let period = "2026-01-01T00:00:00Z";
    let active = serde_json::json!({
        "PeriodID": period, "PID": stranger.id(), "StartedAt": period, "ChosenTime": period,
    });
    let document = serde_json::json!({
        "Version": "1", "Identity": "long", "LastHandledPeriodID": "", "LastOutcome": "",
        "LastChosenTime": "", "LastNominalTime": "", "ActiveExecution": active, "History": [],
    });
    std::fs::DirBuilder::new().mode(0o700).create(world.state_dir()).unwrap();
    world.write_document("long", &document.to_string());
    let mut krond = world.start();
    krond.wait_for("skipped");
    assert!(krond.events("finished").is_empty() && world.testimony("started").is_empty());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let finished = krond.wait_for("finished");
    assert_eq!(finished["ending"], "lost", "{finished}");
    krond.wait_for("started");
    krond.stop();
}

#[test]
fn a_document_that_vanishes_after_the_first_run_does_not_bring_it_back() {
    let world = new_world("");
    let mut krond = world.start();
    let nominal = world.due_soon("once", |schedule| {
        format!(
            "[job.once]\nschedule = \"{schedule} @policy(deadline=1h)\"\n\
             command = \"echo $KRON_PERIOD_ID >> {{dir}}/started\"\nshell = true\n"
        )
    });
    krond.wait_for("finished");
    krond.stop();
    std::fs::remove_file(world.state_dir().join(kron_state::document_file("once"))).unwrap();
    let mut krond = world.start();
    let lost = krond.events("state_lost");
    assert_eq!(lost[0]["identity"], "once");
    eventually("the loss is recorded", || {
        world.history("once").pop().filter(|entry| entry["Reason"] == "state lost")
    });
    krond.stop();
    assert_eq!(world.testimony("started"), [nominal]);
}
