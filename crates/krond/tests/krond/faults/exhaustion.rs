//! What the loop and the threads that start supervisors need of the system runs out.
//!
//! A call fails once, on its way from the gate to the end of a run; every call is enumerated from
//! a run in which nothing fails. Whatever comes of it, it must be told, the period must run once
//! and be recorded, and nothing may be stuck: by a retry of the same daemon or, if that gave up,
//! by the next.
//!
//! What is sampled: of each call the errors that the kernel documents for a want of something.

use std::cell::RefCell;
use std::fmt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use kron_testkit::krond::{Krond, World, wait_for_permit};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::{eventually, now};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::faults::scene::{
    all, assert_ran_once, assert_tells, before_due, threads_named, wait_for_end, witnesses,
};
use crate::faults::strace::{Attached, Effect, Injection, Tracing, When, end_tracer_around};

/// How long the daemon waits after a connection that it could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A thread of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// The first, which is the loop.
    Loop,
    /// Those that start supervisors. A start is any one's.
    Launchers,
}

#[derive(Debug)]
struct Case {
    thread: Thread,
    injection: Injection,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.thread, self.injection)
    }
}

fn case(thread: Thread, calls: &str, error: &'static str, when: When) -> Case {
    let effect = Effect::Error(error);
    Case { thread, injection: Injection { calls: calls.to_owned(), effect, when } }
}

/// A daemon with a run ahead of it and these threads traced.
fn traced(case: &Case, script: &str) -> (World, Krond, (Tracing, Attached), String) {
    before_due(script, "", |world, krond| {
        let tracing = Tracing::anywhere(&world.state_dir(), &case.injection);
        let threads = match case.thread {
            Thread::Loop => vec![krond.pid()],
            Thread::Launchers => threads_named(krond, "launch-"),
        };
        let attached = tracing.attach(&threads);
        (tracing, attached)
    })
}

/// How often the loop makes each of these calls, through one run.
fn counted(calls: &[&str]) -> Vec<usize> {
    // A number that is never reached.
    let nothing = case(Thread::Loop, &calls.join(","), "EIO", When::Once(60_000));
    let (world, krond, (tracing, attached), _) = traced(&nothing, &wait_for_permit("permit"));
    eventually("the start is recorded", || world.history("careful").pop());
    world.permit("permit");
    wait_for_end(&world);
    eventually("its supervisor is gone", || {
        let calls = tracing.calls();
        (calls.iter().filter(|call| call.name == "pidfd_open").count() >= 2).then_some(())
    });
    krond.stop();
    attached.ended();
    let seen = tracing.calls();
    calls.iter().map(|name| seen.iter().filter(|call| call.name == *name).count()).collect()
}

#[test]
fn a_shortage_in_the_loop_neither_repeats_nor_loses_nor_holds_up_a_run() {
    if left_out("shortages in the loop", &[Need::Root, Need::Strace]) {
        return;
    }
    let wants: [(&str, &[&str]); 5] = [
        ("openat", &["EMFILE"]),
        ("epoll_ctl", &["ENOSPC", "ENOMEM"]),
        ("recvfrom", &["ENOMEM"]),
        ("sendto", &["ENOBUFS", "ENOMEM"]),
        ("pidfd_open", &["EMFILE"]),
    ];
    let counts = counted(&wants.map(|(name, _)| name));
    let mut cases = Vec::new();
    for ((name, errors), count) in wants.into_iter().zip(counts) {
        assert!(count > 0, "the loop makes no `{name}`");
        for number in 1..=count {
            let error = errors[number % errors.len()];
            cases.push(case(Thread::Loop, name, error, When::Once(number)));
        }
    }
    // The first is the release.
    cases.retain(|case| case.injection.calls != "sendto" || case.injection.when != When::Once(1));
    all(&cases, survive);
}

#[test]
fn a_release_that_cannot_be_sent_is_not_the_end_of_a_job() {
    if left_out("releases that cannot be sent", &[Need::Root, Need::Strace]) {
        return;
    }
    let cases =
        ["ENOBUFS", "ENOMEM"].map(|error| case(Thread::Loop, "sendto", error, When::Once(1)));
    all(&cases, survive);
}

fn survive(case: &Case) {
    let (world, mut krond, (tracing, attached), nominal) = traced(case, &wait_for_permit("permit"));
    // As in the run that was counted: else start and end might come in one call.
    eventually("the start is recorded, or it has failed", || {
        let is_recorded = || !world.history("careful").is_empty();
        (is_recorded() || !tracing.injected().is_empty()).then_some(())
    });
    world.permit("permit");
    wait_for_end(&world);
    eventually("it fails", || tracing.injected().pop());
    assert!(krond.events("fatal").is_empty(), "{}", krond.said.join("\n"));
    krond.stop();
    drop(attached);
    assert_ran_once(&world, &nominal);
    let krond = world.start();
    eventually("nothing is left over", || world.run_records().is_empty().then_some(()));
    krond.stop();
    assert_ran_once(&world, &nominal);
}

#[test]
fn a_shortage_at_a_start_delays_it_and_handles_nothing() {
    if left_out("shortages at starts", &[Need::Root, Need::Strace]) {
        return;
    }
    let rows = [
        ("socketpair", "EMFILE"),
        ("memfd_create", "EMFILE"),
        ("memfd_create", "ENFILE"),
        ("sendmsg", "ENOMEM"),
        ("clone,clone3,vfork", "EAGAIN"),
        ("clone,clone3,vfork", "ENOMEM"),
        ("pidfd_open", "EMFILE"),
    ];
    let cases = rows.map(|(calls, error)| case(Thread::Launchers, calls, error, When::ForGood(1)));
    all(&cases, |case| {
        let (world, mut krond, (_, attached), nominal) = traced(case, "true");
        // Twice, so that it is seen to be tried again.
        for _ in 0..2 {
            let failed = krond.wait_for("start_failed");
            assert_tells(&failed, "SystemError");
            assert_eq!(
                (&failed["identity"], &failed["period_id"]),
                (&"careful".into(), &Value::from(&*nominal))
            );
        }
        assert!(witnesses(&world).is_empty(), "it ran all the same");
        assert!(world.document("careful").is_null(), "its period is not handled");
        drop(attached);
        wait_for_end(&world);
        krond.stop();
        assert_ran_once(&world, &nominal);
    });
}

/// The loop cannot wait any more: it says so and leaves, and nothing is lost.
#[test]
fn a_loop_that_cannot_wait_says_so_and_leaves() {
    if left_out("a loop that cannot wait", &[Need::Root, Need::Strace]) {
        return;
    }
    let rows = [("epoll_wait,epoll_pwait", "ENOMEM"), ("timerfd_settime", "ENOMEM")];
    // The first may be what it did when the tracer came.
    let cases = rows.map(|(calls, error)| case(Thread::Loop, calls, error, When::ForGood(2)));
    all(&cases, |case| {
        let (world, mut krond, (_, attached), nominal) = traced(case, "true");
        // That the job falls due makes it wait for something else.
        assert_tells(&krond.wait_for("fatal"), "SystemError");
        assert_eq!(krond.wait().code(), Some(6), "{}", krond.said.join("\n"));
        attached.ended();
        let krond = world.start();
        wait_for_end(&world);
        krond.stop();
        assert_ran_once(&world, &nominal);
    });
}

/// Not injected but real, from no descriptor at all to as many as a run needs.
#[test]
fn however_few_descriptors_are_left_a_period_runs_once_when_there_are_more() {
    if left_out("a few descriptors", &[Need::Root]) {
        return;
    }
    let limit = |krond: &Krond, descriptors: usize| {
        let status = Command::new("prlimit")
            .args(["--pid", &krond.pid().to_string(), &format!("--nofile={descriptors}:")])
            .status()
            .expect("prlimit; install the Debian package `util-linux`");
        assert!(status.success());
    };
    let cases: Vec<usize> = (0..8).collect();
    all(&cases, |spare| {
        let (world, krond, (), nominal) = before_due("true", "", |_, krond| {
            let open = format!("/proc/{}/fd", krond.pid());
            limit(krond, std::fs::read_dir(open).unwrap().count() + spare);
        });
        let krond = RefCell::new(krond);
        let said = |event| !krond.borrow_mut().events(event).is_empty();
        eventually("it fails, or runs to its end", || {
            let failed = said("start_failed") || said("write_failed");
            (failed || said("finished")).then_some(())
        });
        let krond = krond.into_inner();
        limit(&krond, 1_024);
        wait_for_end(&world);
        krond.stop();
        assert_ran_once(&world, &nominal);
    });
}

#[test]
fn people_who_cannot_be_let_in_wait_and_runs_do_not() {
    if left_out("connections that cannot be accepted", &[Need::Root, Need::Strace]) {
        return;
    }
    let effect = Effect::Error("EMFILE");
    let calls = "accept,accept4".to_owned();
    let injection = Injection { calls, effect, when: When::ForGood(1) };
    let prepare = |world: &World, krond: &Krond| {
        let tracing = Tracing::anywhere(&world.state_dir(), &injection);
        let began = now();
        let attached = tracing.attach(&threads_named(krond, "api"));
        (tracing, attached, began)
    };
    let (world, krond, (tracing, attached, began), nominal) = before_due("true", "", prepare);
    thread::scope(|scope| {
        let answer = scope.spawn(|| world.ask("GET", "/api/v1/status", ""));
        wait_for_end(&world);
        eventually("it is tried again", || (tracing.injected().len() > 1).then_some(()));
        assert!(!answer.is_finished(), "nobody was let in");
        drop(attached);
        assert_eq!(answer.join().unwrap().0, 200);
    });
    // It is tried again after a pause each time, not all the time.
    let attempts = tracing.injected().len() as u128;
    let pauses = began.elapsed().as_millis() / ACCEPT_PAUSE.as_millis();
    assert!(attempts <= pauses + 2, "{attempts} attempts with {pauses} pauses");
    krond.stop();
    assert_ran_once(&world, &nominal);
}

/// What cannot be written for want of descriptors is not worth staying for: it never started.
#[test]
fn a_daemon_that_waits_for_descriptors_can_be_stopped() {
    if left_out("stops without descriptors", &[Need::Root, Need::Strace]) {
        return;
    }
    let effect = Effect::Error("EMFILE");
    let calls = "openat".to_owned();
    let injection = Injection { calls, effect, when: When::ForGood(1) };
    let (world, mut krond, attached, nominal) = before_due("true", "", |world, krond| {
        let tracing = Tracing::anywhere(&world.state_dir(), &injection);
        tracing.attach(&threads_named(krond, "sync-1"))
    });
    krond.wait_for("write_failed");
    krond.signal(Signal::SIGTERM);
    let code = krond.wait().code();
    assert!(matches!(code, Some(0 | 5)), "{code:?}: {}", krond.said.join("\n"));
    attached.ended();
    assert!(witnesses(&world).is_empty(), "it ran without a record");
    let krond = world.start();
    wait_for_end(&world);
    krond.stop();
    assert_ran_once(&world, &nominal);
}

/// A run that an earlier daemon started is not given up because it cannot be watched.
#[test]
fn a_run_that_cannot_be_watched_is_not_taken_for_gone() {
    if left_out("runs that cannot be watched", &[Need::Root, Need::Strace]) {
        return;
    }
    let rows = [
        ("pidfd_open", "EMFILE", When::Once(1)),
        ("pidfd_open", "ENOMEM", When::Once(2)),
        ("pidfd_open", "EMFILE", When::ForGood(1)),
        ("pidfd_open", "ENFILE", When::ForGood(2)),
    ];
    let cases = rows.map(|(calls, error, when)| case(Thread::Loop, calls, error, when));
    all(&cases, |case| {
        let wait = wait_for_permit("permit");
        let (world, krond, (), nominal) = before_due(&wait, "", |_, _| ());
        eventually("the start is recorded", || world.history("careful").pop());
        krond.kill();
        let tracing = Tracing::anywhere(&world.state_dir(), &case.injection);
        let mut krond = Krond::spawn(&mut tracing.around(&world.command()));
        krond.wait_for("ready");
        eventually("it fails", || tracing.injected().pop());
        if matches!(case.injection.when, When::ForGood(_)) {
            eventually("it is tried again", || (tracing.injected().len() > 2).then_some(()));
            end_tracer_around(krond.pid());
        }
        assert!(krond.events("finished").is_empty(), "it still runs");
        assert!(!world.document("careful")["ActiveExecution"].is_null());
        world.permit("permit");
        wait_for_end(&world);
        krond.stop();
        assert_ran_once(&world, &nominal);
    });
}
