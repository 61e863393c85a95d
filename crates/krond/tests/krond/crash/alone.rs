//! Supervisors whose daemon is gone, killed in their turn at every call they make from then on.
//!
//! What a supervisor leaves is all that the next daemon has to go by: that the command was never
//! released, or how it ended. Until that is durable, its death makes the run a lost one, which
//! counts as executed.

use kron_testkit::needs::left_out;
use kron_testkit::process;
use kron_testkit::strace::{Call, Follow, NEEDS, Strace, calls, inject};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;

use crate::Past;
use crate::crash::checker::Fault;
use crate::crash::matrix::{Extent, GENEROUS_S, chosen, play_each, points, undisturbed};
use crate::crash::strike::{Came, JOB, Point, Restart, Scene, Who};

/// A deadline that is over when a supervisor that hangs is given up.
const DEADLINE_S: i64 = 30;

/// Where a supervisor loses its daemon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// With its command at the gate: the daemon dies at the release.
    AtGate,
    /// With its command running.
    WithRun,
}

/// Plays the scene with a supervisor that is traced like this, and lets it come to its end. The
/// last is the run it was for.
fn play(left: Left, options: &[&str]) -> (Scene, Strace, String) {
    match left {
        Left::AtGate => {
            let (scene, (strace, supervisor, run)) = Scene::prepared(GENEROUS_S, |scene| {
                let supervisor = scene.arrest_supervisor()?;
                let run = process::run_of(supervisor).expect("a supervisor");
                let release = inject("sendto", Signal::SIGKILL, 1);
                let release = release.each_ref().map(String::as_str);
                let file = scene.trace_file("trace-release");
                let daemon =
                    Strace::attach(&scene.tids(Who::Loop), Follow::Nobody, &release, &file);
                let file = scene.trace_file("trace");
                let strace = Strace::attach(&[supervisor], Follow::Nobody, options, &file);
                process::signal(supervisor, Signal::SIGCONT);
                eventually("the daemon dies or its supervisor does", || {
                    (daemon.saw_kill() || process::has_ended(supervisor)).then_some(())
                });
                if daemon.saw_kill() {
                    scene.kill_daemon();
                }
                Ok((strace, supervisor, run))
            });
            wait_for_end(supervisor);
            strace.wait();
            (scene, strace, run)
        }
        Left::WithRun => {
            let (mut scene, ()) = Scene::prepared(GENEROUS_S, Scene::in_time);
            scene.krond.wait_for("started");
            let document = scene.chronicle.world.document(JOB);
            let supervisor = &document["ActiveExecution"]["Supervisor"]["PID"];
            let supervisor = supervisor.as_i64().expect("a supervisor") as i32;
            let run = process::run_of(supervisor).expect("a supervisor");
            let file = scene.trace_file("trace");
            let strace = Strace::attach(&[supervisor], Follow::Nobody, options, &file);
            scene.kill_daemon();
            scene.permit();
            wait_for_end(supervisor);
            strace.wait();
            (scene, strace, run)
        }
    }
}

fn wait_for_end(supervisor: i32) {
    eventually("the supervisor ends", || process::has_ended(supervisor).then_some(()));
}

fn play_point(left: Left, point: &Point) -> (Came, Vec<Fault>) {
    let options = inject(&point.call, Signal::SIGKILL, point.number);
    let (mut scene, strace, run) = play(left, &options.each_ref().map(String::as_str));
    let reached = strace.saw_kill();
    if reached {
        scene.chronicle.story.killed_supervisors.insert(run);
    }
    scene.recover(Restart::AtOnce);
    scene.judge_if(reached)
}

fn sweep(extent: Extent, left: Left, what: &str, allowed: &[Came]) {
    if left_out(what, NEEDS) {
        return;
    }
    let (mut scene, strace, _) = play(left, &[]);
    scene.recover(Restart::AtOnce);
    let (came, faults) = scene.judge();
    undisturbed(came, allowed, &faults);
    let calls = calls(&strace.text());
    let from = match left {
        // Up to its word that the command stands at the gate, its daemon lives.
        Left::AtGate => calls.iter().position(|call| call.name == "sendto").expect("its word") + 1,
        Left::WithRun => 0,
    };
    let own: Vec<Call> = calls[from..].to_vec();
    let mut points = chosen(extent, points(Who::Supervisor, Past::New, &own));
    if matches!(left, Left::WithRun) {
        // It may see that its command has ended before it reads that it is alone, and then does not.
        for point in points.iter_mut().filter(|point| point.call.starts_with("recv")) {
            point.is_certain = false;
        }
    }
    play_each(what, allowed, &points, |point| play_point(left, point));
}

fn left_at_the_gate(extent: Extent) {
    let allowed = &[Came::Retried, Came::Lost];
    sweep(extent, Left::AtGate, "supervisor alone at the gate killed", allowed);
}

#[test]
fn a_supervisor_left_at_the_gate_is_killed_at_every_call() {
    left_at_the_gate(Extent::Selection);
}

#[test]
#[ignore = "full: every call"]
fn a_supervisor_left_at_the_gate_is_killed_at_really_every_call() {
    left_at_the_gate(Extent::Everything);
}

fn left_with_its_run(extent: Extent) {
    let allowed = &[Came::Executed, Came::Lost];
    sweep(extent, Left::WithRun, "supervisor alone with its run killed", allowed);
}

#[test]
fn a_supervisor_left_with_its_run_is_killed_at_every_call() {
    left_with_its_run(Extent::Selection);
}

#[test]
#[ignore = "full: every call"]
fn a_supervisor_left_with_its_run_is_killed_at_really_every_call() {
    left_with_its_run(Extent::Everything);
}

/// A supervisor may hang where no signal reaches it. Its daemon gives it up after a minute, says
/// so, and can be told to leave; and the command is never executed.
#[test]
fn a_supervisor_that_hangs_before_its_gate_holds_nobody_up() {
    if left_out("a supervisor that hangs before its gate holds nobody up", NEEDS) {
        return;
    }
    let (mut scene, supervisor) = Scene::prepared(DEADLINE_S, Scene::arrest_supervisor);
    // It has a minute to come to its gate.
    let entry = eventually("it is given up", || scene.chronicle.world.history(JOB).pop());
    assert_eq!((&entry["Outcome"], &entry["Reason"]), (&"missed".into(), &"start stalled".into()));
    scene.krond.signal(Signal::SIGTERM);
    assert_eq!(scene.krond.wait().code(), Some(0), "{}", scene.krond.said.join("\n"));
    process::signal(supervisor, Signal::SIGCONT);
    wait_for_end(supervisor);
    assert!(scene.chronicle.witnesses().is_empty(), "it was executed");
    assert_eq!(scene.chronicle.world.document(JOB)["ActiveExecution"], serde_json::Value::Null);
}
