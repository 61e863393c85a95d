//! A daemon that finds what a crash left, and is killed at every weighty call of its recovery.
//!
//! Each wreck is made once and copied for every point. The daemon is traced from its start, all
//! its threads by one tracer that lets go of whatever it executes; each thread counts for itself,
//! so that a point is the first thread that comes to so many calls of a name.

use std::fs;
use std::path::Path;
use std::process::Command;

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, wait_for_permit};
use kron_testkit::needs::left_out;
use kron_testkit::process;
use kron_testkit::strace::{NEEDS, calls, inject, saw_end, saw_kill};
use kron_testkit::waiting::{eventually, now};
use nix::sys::signal::Signal;

use crate::crash::checker::Fault;
use crate::crash::chronicle::Chronicle;
use crate::crash::matrix::{play_each, points, selected, undisturbed, weighty};
use crate::crash::strike::{AFTERMATH, Came, PATIENCE, Point, Restart, Scene, Who};

/// Longer than the tests take, so that every wreck can still be brought to its end.
const DEADLINE_S: i64 = 3_600;

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
                let point = Point { who: Who::Loop, call: "sendto".to_owned(), number: 1 };
                let (mut scene, trap) = Scene::prepared(DEADLINE_S, "", |scene| {
                    scene.trap(&point, crate::crash::strike::Blow::Victim)
                });
                assert!(scene.strike(trap), "there is a release");
                eventually("the supervisor leaves its record", || {
                    (!scene.chronicle.world.run_records().is_empty()).then_some(())
                });
                scene
            }
            Wreck::Ended | Wreck::Lost => {
                let body = wait_for_permit("permit");
                let (mut scene, ()) = Scene::prepared(DEADLINE_S, &body, Scene::in_time);
                scene.krond.wait_for("started");
                let supervisors = process::supervisors(scene.krond.pid());
                let pids: Vec<i32> = supervisors.into_iter().map(|(pid, _)| pid).collect();
                scene.kill_daemon();
                if matches!(self, Wreck::Lost) {
                    scene.chronicle.kill_runs(&pids);
                }
                scene.chronicle.world.permit("permit");
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
    let mut over = None;
    loop {
        if process::has_ended(scene.krond.pid()) {
            let file = scene.trace_file("trace");
            return saw_kill(&eventually("strace tells", || read(&file).filter(|t| saw_end(t))));
        }
        if scene.is_settled() {
            let since = *over.get_or_insert_with(now);
            if now() > since + AFTERMATH {
                return false;
            }
        }
        if now() > deadline {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn sweep(wreck: Wreck, what: &str) {
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
    let mut points = selected(points(Who::Daemon, &calls));
    // Nothing but supervisors is executed, and they are none of the daemon's threads.
    points.retain(|point| weighty(point) && point.call != "execve");
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
    sweep(Wreck::NotReleased, "krond killed at recovery of a run not released");
}

#[test]
fn krond_is_killed_while_it_records_a_run_that_has_ended() {
    sweep(Wreck::Ended, "krond killed at recovery of a run that ended");
}

#[test]
fn krond_is_killed_while_it_records_a_run_that_was_lost() {
    sweep(Wreck::Lost, "krond killed at recovery of a lost run");
}
