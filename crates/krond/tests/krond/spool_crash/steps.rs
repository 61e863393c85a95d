//! A death at each step by which a spool changes.
//!
//! The keeper is traced alone, and its n-th call of a kind is its last: the daemon dies before it,
//! whatever the other threads are doing. One task runs at a time, so that no two share a step. The
//! same is done to the thread that puts the spool in order at a start.

use std::path::Path;

use kron_testkit::chance::{is_selected, number};
use kron_testkit::files::read;
use kron_testkit::krond::Krond;
use kron_testkit::needs::left_out;
use kron_testkit::process;
use kron_testkit::strace::{Call, Follow, NEEDS, Strace, calls};
use kron_testkit::waiting::{eventually, now};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::spool_crash::checker::{Kind, dropped_prefix};
use crate::spool_crash::chronicle::{Chronicle, Dropping, Point, conclude, keeper};
use crate::spool_crash::witness::{self, FILE, Line, release_of};

/// Every how many of the calls of one of everything are tried in the suite; 1 is all of them.
const EVERY: u64 = 19;
/// The same for the calls of a start, of which there are fewer.
const EVERY_OF_START: u64 = 6;
/// And for those of a retry.
const EVERY_OF_RETRY: u64 = 2;
/// The calls by which a spool changes.
const TRACED: &str = "trace=fsync,fdatasync,renameat,renameat2,unlinkat,linkat,openat,write";
/// The calls in which the event loop waits.
const WAITS: &str = ",epoll_wait,epoll_pwait,epoll_pwait2";
/// What is on its way to the disk before anything else is done: no file that is made is no step.
const MAKES: &str = "O_CREAT";

/// One of everything: what goes well, is retried, fails for good, is set aside, is dropped by a job.
fn everything(chronicle: &mut Chronicle, life: &str) {
    for kind in [Kind::Ok, Kind::Once, Kind::Fail, Kind::Skip, Kind::Nobody] {
        chronicle.put(&format!("{life}-{kind}"), kind);
    }
    chronicle.put_unfit(&format!("{life}-unfit"));
    chronicle.drop_one();
}

/// The calls that are steps, of which every so many is taken.
fn points(made: &[Call], every: u64) -> Vec<Point> {
    let is_step = |call: &&Call| call.name != "openat" || call.text.contains(MAKES);
    let point = |call: &Call| Point { call: call.name.clone(), number: call.number };
    made.iter().filter(is_step).map(point).step_by(every.max(1) as usize).collect()
}

/// Traces a life to its end, and tells its steps, of which every so many is taken.
fn count(
    chronicle: &mut Chronicle,
    krond: &Krond,
    every: u64,
    live: impl Fn(&mut Chronicle, &str),
) -> Vec<Point> {
    let file = chronicle.world.state_dir().with_file_name("count");
    let strace = Strace::attach(&[keeper(krond)], Follow::Nobody, &["-e", TRACED], &file);
    live(chronicle, "whole");
    assert!(chronicle.rest(krond), "it does not come to rest");
    let made = calls(&strace.text());
    strace.detach();
    points(&made, every)
}

/// Lives once for each of these points, and dies there. A life that is over before its daemon has
/// made so many calls is followed by another one; how many there were.
fn die_at_each(
    chronicle: &mut Chronicle,
    krond: &mut Krond,
    points: &[Point],
    live: impl Fn(&mut Chronicle, &str),
) -> usize {
    let mut lives = 0;
    for (at, point) in points.iter().enumerate() {
        let strace = chronicle.trap(krond, point);
        while !process::has_ended(krond.pid()) {
            lives += 1;
            live(chronicle, &format!("{at}-{}-{}-{lives}", point.call, point.number));
            chronicle.wait_in_trap(krond);
        }
        strace.wait();
        chronicle.died(krond);
        *krond = chronicle.world.start();
        // Alone in the world, so that the numbers of the calls are its own.
        assert!(chronicle.rest(krond), "it does not come to rest after {point:?}");
    }
    lives
}

/// [It must hold: kill -9 at every system call of a start and of an end]
#[test]
fn one_task_whose_daemon_dies_at_each_step_runs_and_is_completed() {
    if left_out("one task whose daemon dies at each step runs and is completed", NEEDS) {
        return;
    }
    let began = now();
    let mut chronicle = Chronicle::new(1, Dropping::Never);
    let mut krond = chronicle.world.start();
    let live = |chronicle: &mut Chronicle, life: &str| chronicle.put(life, Kind::Ok);
    let mut points = count(&mut chronicle, &krond, 1, live);
    // Two transitions: a file made, written, synced, renamed, both directories synced, one deleted.
    assert!(points.len() >= 14, "only {points:?}");
    points.retain(|point| is_selected(&format!("{}:{}", point.call, point.number)));
    let lives = die_at_each(&mut chronicle, &mut krond, &points, live);
    outlived(&mut chronicle, &mut krond);
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    let what = format!("one task, {} steps in {lives} lives", points.len());
    conclude(&what, deaths, seconds, &story, &faults);
    // Every point was died at. A thread that is awake already is not woken, so that one task may make
    // a write less than another, and the point is reached in the next life.
    assert!(lives < 2 * points.len(), "one task does not make most of {points:?}: {lives} lives");
}

/// [It must hold: kill -9 at every system call of every transition]
#[test]
fn one_of_everything_and_a_death_at_each_step_of_it() {
    one_of_everything(EVERY);
}

#[test]
#[ignore = "full: every step"]
fn one_of_everything_and_a_death_at_really_each_step_of_it() {
    one_of_everything(1);
}

fn one_of_everything(usual_every: u64) {
    if left_out("one of everything and a death at each step of it", NEEDS) {
        return;
    }
    let began = now();
    let mut chronicle = Chronicle::new(1, Dropping::WhenTold);
    let mut krond = chronicle.world.start();
    let every = number("KRON_SPOOL_CRASH_EVERY", usual_every);
    let points = count(&mut chronicle, &krond, every, |chronicle, life| {
        everything(chronicle, life);
        eventually("a job dropped a task", || {
            let dropped = |id: &String| id.starts_with(&dropped_prefix());
            chronicle.ids("completed").iter().any(dropped).then_some(())
        });
    });
    assert!(points.len() > 4, "only {points:?}");
    let lives = die_at_each(&mut chronicle, &mut krond, &points, everything);
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    let what = format!("one of everything, {} steps in {lives} lives", points.len());
    conclude(&what, deaths, seconds, &story, &faults);
    assert!(!story.periods.is_empty(), "no period was handed over");
}

/// A task whose command outlives its daemon, and is there when the next one looks.
fn outlived(chronicle: &mut Chronicle, krond: &mut Krond) {
    chronicle.put("outlives", Kind::Held);
    begun(chronicle, "outlives");
    chronicle.kill(krond);
    *krond = chronicle.world.start();
    chronicle.world.permit(&release_of("outlives"));
}

fn begun(chronicle: &Chronicle, id: &str) {
    eventually("it begins", || {
        let mut lines = witness::lines(&chronicle.world.witness(FILE)).into_iter();
        let is_it = |line| matches!(line, Line::Begin { task, .. } if task == id);
        lines.any(|said| is_it(said.line)).then_some(())
    });
}

/// [It must hold: kill -9 at every system call of every transition, of a retry by hand, too]
#[test]
fn a_retry_by_hand_and_a_death_at_each_step_of_it() {
    a_retry_by_hand(EVERY_OF_RETRY);
}

#[test]
#[ignore = "full: every step"]
fn a_retry_by_hand_and_a_death_at_really_each_step_of_it() {
    a_retry_by_hand(1);
}

fn a_retry_by_hand(usual_every: u64) {
    if left_out("a retry by hand and a death at each step of it", NEEDS) {
        return;
    }
    let began = now();
    let mut chronicle = Chronicle::new(1, Dropping::Never);
    let mut krond = chronicle.world.start();
    fail_for_good(&mut chronicle, &krond, "whole");
    let file = chronicle.world.state_dir().with_file_name("count");
    let strace = Strace::attach(&[keeper(&krond)], Follow::Nobody, &["-e", TRACED], &file);
    chronicle.retry("whole");
    // What comes after the answer belongs to its next start.
    let points = points(&calls(&strace.text()), number("KRON_SPOOL_CRASH_EVERY", usual_every));
    strace.detach();
    assert!(points.len() > 4, "only {points:?}");
    let mut sprung = 0;
    for (at, point) in points.iter().enumerate() {
        let id = format!("{at}-{}", point.call);
        fail_for_good(&mut chronicle, &krond, &id);
        let strace = chronicle.trap(&krond, point);
        chronicle.retry(&id);
        sprung += usize::from(chronicle.spring(&mut krond, strace));
        krond = chronicle.world.start();
    }
    assert!(chronicle.rest(&krond), "it does not come to rest");
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    let what = format!("retries, {sprung} of {} steps", points.len());
    conclude(&what, deaths, seconds, &story, &faults);
    let answered = story.retried.values().filter(|answered| **answered).count();
    assert!(answered > 0 && answered < story.retried.len(), "{answered} were answered");
    assert_eq!(sprung, points.len(), "not all died at their step");
}

/// Puts a task and waits until it has failed for good, alone in the world.
fn fail_for_good(chronicle: &mut Chronicle, krond: &Krond, id: &str) {
    assert!(chronicle.rest(krond), "it does not come to rest before {id}");
    chronicle.put(id, Kind::Fail);
    assert!(chronicle.rest(krond), "{id} does not end");
    assert!(chronicle.ids("completed").contains(&id.to_owned()), "{id} is not completed");
}

/// Leaves what a start has to put in order: a run that is lost, and a completed task put again.
fn leave_disorder(chronicle: &mut Chronicle, krond: &mut Krond, life: &str) {
    let (done, lost) = (format!("{life}-done"), format!("{life}-lost"));
    chronicle.put(&done, Kind::Ok);
    eventually("it is completed", || chronicle.ids("completed").contains(&done).then_some(()));
    chronicle.put(&lost, Kind::Held);
    begun(chronicle, &lost);
    let supervisors = chronicle.supervisors();
    assert!(!supervisors.is_empty(), "nobody supervises {lost}");
    // The daemon first, which would hear of it.
    chronicle.kill(krond);
    for (pid, run) in supervisors {
        chronicle.kill_supervisor((pid, run));
        reap(pid);
    }
    chronicle.world.permit(&release_of(&lost));
    let path = chronicle.place.dir.join("tasks/running").join(format!("{lost}.json"));
    let task = read(&path).expect("it is recorded as running");
    let task: serde_json::Value = serde_json::from_str(&task).expect("a task");
    reap(task["run"]["command"]["PID"].as_i64().expect("its command") as i32);
    chronicle.put_again(&done);
}

/// Waits until a process that lost its parent has ended and its number names nothing. A start looks
/// closer at a process that has ended and was not reaped yet, which takes more calls. So this process
/// is the parent of all orphans, and no start depends on when another one reaps them.
fn reap(pid: i32) {
    eventually("it is gone", || {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        read(Path::new(&format!("/proc/{pid}/stat"))).is_none().then_some(())
    });
}

/// [It must hold: recovery restores "exactly one", wherever it dies itself]
#[test]
fn a_start_that_dies_at_each_step_of_putting_things_in_order() {
    a_start_that_dies(EVERY_OF_START);
}

#[test]
#[ignore = "full: every step"]
fn a_start_that_dies_at_really_each_step_of_putting_things_in_order() {
    a_start_that_dies(1);
}

fn a_start_that_dies(usual_every: u64) {
    if left_out("a start that dies at each step of putting things in order", NEEDS) {
        return;
    }
    let began = now();
    set_child_subreaper(true).expect("this process is the parent of orphans");
    let mut chronicle = Chronicle::new(2, Dropping::Never);
    let mut krond = chronicle.world.start();
    leave_disorder(&mut chronicle, &mut krond, "whole");
    krond = chronicle.start_traced(&["-e".to_owned(), format!("{TRACED}{WAITS}")]);
    krond.wait_for("ready");
    // What it does later is not the same in each life.
    let mut made = eventually("it waits for an event", || {
        let mut made = calls(&read(&chronicle.trace_of_start())?);
        let first_wait = made.iter().position(|call| call.name.starts_with("epoll_"))?;
        made.truncate(first_wait);
        Some(made)
    });
    made.retain(|call| call.name != "write" || !call.text.contains("write(2"));
    let points = points(&made, number("KRON_SPOOL_CRASH_EVERY", usual_every));
    assert!(points.len() > 2, "only {points:?}");
    let mut sprung = 0;
    for (at, point) in points.iter().enumerate() {
        assert!(chronicle.rest(&krond), "it does not come to rest before {point:?}");
        leave_disorder(&mut chronicle, &mut krond, &format!("{at}"));
        match chronicle.start_trapped(point) {
            None => sprung += 1,
            // Its first thread says that it is ready before the last of its steps.
            Some(mut ready) => {
                chronicle.wait_in_trap(&ready);
                sprung += usize::from(process::has_ended(ready.pid()));
                chronicle.kill(&mut ready);
            }
        }
        krond = chronicle.world.start();
    }
    assert!(chronicle.rest(&krond), "it does not come to rest");
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    let what = format!("starts, {sprung} of {} steps", points.len());
    conclude(&what, deaths, seconds, &story, &faults);
    assert_eq!(sprung, points.len(), "not all died at their step");
}
