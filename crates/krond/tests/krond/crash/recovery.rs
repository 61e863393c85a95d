//! A daemon that finds what a crash left, and is killed at every weighty call of its recovery.
//!
//! Each wreck is made once and copied for every point. The daemon is traced from its start, all
//! its threads by one tracer that lets go of whatever it executes; each thread counts for itself,
//! so that a point is the first thread that comes to so many calls of a name.

use std::fs;
use std::path::Path;
use std::process::Command;

use kron_testkit::files::read;
use kron_testkit::krond::Krond;
use kron_testkit::needs::left_out;
use kron_testkit::process;
use kron_testkit::strace::{NEEDS, calls, inject, saw_end, saw_kill};
use kron_testkit::waiting::{GLANCE, PATIENCE, eventually, now};
use nix::sys::signal::Signal;

use crate::Past;
use crate::crash::checker::Fault;
use crate::crash::chronicle::Chronicle;
use crate::crash::matrix::{Extent, GENEROUS_S, chosen, play_each, points, undisturbed, weighty};
use crate::crash::strike::{Blow, Came, JOB, Point, Restart, Scene, Who};

/// What a crash left.
#[derive(Clone, Copy, Debug)]
enum Wreck {
    /// A command that was recorded and not released, which its supervisor has recorded too.
    NotReleased,
    /// A run that ended while no daemon was there.
    Ended,
    /// A run that nobody saw to its end.
    Lost,
}

impl Wreck {
    fn make(self) -> Scene {
        match self {
            Wreck::NotReleased => {
                let point = Point {
                    who: Who::Loop,
                    call: "sendto".to_owned(),
                    number: 1,
                    is_certain: true,
                    is_decisive: true,
                    past: Past::New,
                };
                let (mut scene, trap) =
                    Scene::prepared(GENEROUS_S, |scene| scene.trap(&point, Blow::Victim));
                assert!(scene.strike(trap), "there is a release");
                let world = &scene.chronicle.world;
                eventually("the supervisor leaves its record", || {
                    (!world.run_records().is_empty()).then_some(())
                });
                // It makes its record durable before it ends, and a daemon that finds it alive makes
                // other calls than one that does not.
                let supervisor = &world.document(JOB)["ActiveExecution"]["Supervisor"]["PID"];
                let pid = supervisor.as_i64().expect("a run was recorded") as i32;
                eventually("the supervisor ends", || process::has_ended(pid).then_some(()));
                scene
            }
            Wreck::Ended | Wreck::Lost => {
                let (mut scene, ()) = Scene::prepared(GENEROUS_S, Scene::in_time);
                scene.krond.wait_for("started");
                let supervisors = process::supervisors(scene.krond.pid());
                let pids: Vec<i32> = supervisors.into_iter().map(|(pid, _)| pid).collect();
                scene.kill_daemon();
                if matches!(self, Wreck::Lost) {
                    scene.chronicle.kill_runs(&pids);
                }
                scene.permit();
                eventually("the supervisor ends", || {
                    pids.iter().all(|pid| process::has_ended(*pid)).then_some(())
                });
                scene
            }
        }
    }

    fn allowed(self) -> &'static [Came] {
        match self {
            Wreck::NotReleased => &[Came::Retried],
            Wreck::Ended => &[Came::Executed],
            Wreck::Lost => &[Came::Lost],
        }
    }
}

/// The same wreck in a place of its own, in the hands of a daemon that is traced like this.
fn recovered(wreck: &Chronicle, options: &[&str]) -> Scene {
    let old = &wreck.world;
    let config = read(&old.config_path()).expect("a configuration");
    let witness = |path: &Path| path.to_str().expect("a path").trim_end_matches('/').to_owned();
    let config = config.replace(&witness(&old.witness("")), "{dir}");
    let mut chronicle = Chronicle::new(wreck.story.jobs.clone(), &config);
    chronicle.story = wreck.story.clone();
    let world = &chronicle.world;
    fs::remove_dir(world.witness("")).expect("an empty directory");
    for (from, to) in [
        (old.state_dir(), world.state_dir()),
        (old.witness(""), witness(&world.witness("")).into()),
    ] {
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(copied.expect("`cp`").success());
    }
    chronicle.note_life();
    let krond = chronicle.world.command();
    let mut traced = Command::new("strace");
    let file = chronicle.world.state_dir().with_file_name("trace");
    traced.args(["-D", "-f", "-b", "execve", "-o"]).arg(&file).args(options);
    traced.arg(krond.get_program()).args(krond.get_args());
    let krond = Krond::spawn(&mut traced);
    let due = chronicle.story.jobs[0].periods.first();
    Scene { chronicle, krond, due }
}

/// Waits until the daemon is killed, or has brought everything to its end; whether it was killed.
fn outcome(scene: &Scene) -> bool {
    let deadline = now() + PATIENCE;
    loop {
        if process::has_ended(scene.krond.pid()) {
            let file = scene.trace_file("trace");
            return saw_kill(&eventually("strace tells", || read(&file).filter(|t| saw_end(t))));
        }
        // A daemon that has just been killed is at rest, too.
        if (scene.is_over() || now() > deadline) && !process::has_ended(scene.krond.pid()) {
            return false;
        }
        std::thread::sleep(GLANCE);
    }
}

fn sweep(extent: Extent, wreck: Wreck, what: &str) {
    if left_out(what, NEEDS) {
        return;
    }
    let made = wreck.make().chronicle;
    let mut first = recovered(&made, &[]);
    assert!(!outcome(&first), "nobody killed it");
    let calls = calls(&read(&first.trace_file("trace")).expect("a trace"));
    first.recover(Restart::AtOnce);
    let (came, faults) = first.judge();
    undisturbed(came, wreck.allowed(), &faults);
    let mut points = points(Who::Daemon, Past::New, &calls);
    // Nothing but supervisors is executed, and they are none of the daemon's threads.
    points.retain(|point| weighty(point) && point.call != "execve");
    let points = chosen(extent, points);
    play_each(what, wreck.allowed(), &points, |point| play_point(&made, point));
}

fn play_point(wreck: &Chronicle, point: &Point) -> (Came, Vec<Fault>) {
    let options = inject(&point.call, Signal::SIGKILL, point.number);
    let mut scene = recovered(wreck, &options.each_ref().map(String::as_str));
    let reached = outcome(&scene);
    scene.recover(Restart::AtOnce);
    scene.judge_if(reached)
}

#[test]
fn krond_is_killed_while_it_starts_a_command_that_was_not_released() {
    sweep(Extent::Selection, Wreck::NotReleased, "krond killed at recovery of a run not released");
}

#[test]
#[ignore = "full: every weighty call"]
fn krond_is_killed_at_every_call_while_it_starts_a_command_that_was_not_released() {
    sweep(Extent::Everything, Wreck::NotReleased, "krond killed at recovery of a run not released");
}

#[test]
fn krond_is_killed_while_it_records_a_run_that_has_ended() {
    sweep(Extent::Selection, Wreck::Ended, "krond killed at recovery of a run that ended");
}

#[test]
#[ignore = "full: every weighty call"]
fn krond_is_killed_at_every_call_while_it_records_a_run_that_has_ended() {
    sweep(Extent::Everything, Wreck::Ended, "krond killed at recovery of a run that ended");
}

#[test]
fn krond_is_killed_while_it_records_a_run_that_was_lost() {
    sweep(Extent::Selection, Wreck::Lost, "krond killed at recovery of a lost run");
}

#[test]
#[ignore = "full: every weighty call"]
fn krond_is_killed_at_every_call_while_it_records_a_run_that_was_lost() {
    sweep(Extent::Everything, Wreck::Lost, "krond killed at recovery of a lost run");
}
