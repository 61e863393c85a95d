//! A daemon that dies after a scheduled job was enqueued and before that is recorded.

use kron_core::UtcSecond;
use kron_testkit::files::read;
use kron_testkit::krond::World;
use kron_testkit::needs::left_out;
use kron_testkit::process;
use kron_testkit::strace::{Follow, NEEDS, Strace, inject};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};

use crate::new_world;
use crate::queue_crash::act::client;
use crate::queue_crash::witness::{FILE, Line, handler, lines};

/// Seconds until the job is due: time for the tracer. Each further attempt has twice as many.
const LEAD_S: u64 = 2;
const ATTEMPTS: u64 = 6;

/// Whether the death came after the job was in the queue.
fn died_in_between(lead_s: u64) -> Option<World> {
    let queue = format!("[queue]\nbackoff = \"1s\"\nstop_grace = \"0s\"\n{}", handler("once", ""));
    let world = new_world(&queue);
    let mut krond = world.start();
    let due = world.due_from(lead_s, "once", |schedule| {
        format!(
            "{queue}[job.once]\n\
             schedule = \"{schedule} @policy(deadline=1h)\"\nenqueue = {{ type = \"once\" }}\n"
        )
    });
    // A job that is not known yet is new to the next daemon, which leaves what fell due before.
    let state = world.state_dir();
    eventually("the job is known", || {
        read(&state.join("known.json"))?.contains("\"once\"").then_some(())
    });
    process::wait_until_idle(krond.pid());
    let sync = process::threads_named(krond.pid(), "sync-");
    // The first thing of a document's way to the disk is a file for it.
    let options = inject("openat", Signal::SIGKILL, 1);
    let options = options.each_ref().map(String::as_str);
    let trace = state.with_file_name("trace");
    let strace = Strace::attach(&sync, Follow::Nobody, &options, &trace);
    let is_due = || {
        let at = clock_gettime(ClockId::CLOCK_REALTIME).unwrap().tv_sec();
        UtcSecond::from_unix(at).unwrap().to_string() >= due
    };
    if is_due() {
        // The tracer may have come too late.
        return None;
    }
    krond.wait();
    strace.wait();
    // Once the daemon rests, nothing is written but what became of the job, which is enqueued by
    // then.
    is_due().then_some(world)
}

#[test]
fn a_period_that_was_enqueued_and_not_recorded_is_not_enqueued_again() {
    if left_out("a period that was enqueued and not recorded is not enqueued again", NEEDS) {
        return;
    }
    let world = (0..ATTEMPTS).find_map(|attempt| died_in_between(LEAD_S << attempt));
    let world = world.expect("no daemon died in between");
    let krond = world.start();
    eventually("it is recorded", || {
        world.history("once").iter().any(|entry| entry["Outcome"] == "executed").then_some(())
    });
    let client = client(&world.state_dir());
    eventually("it has run", || {
        let open = client.all("jobs").iter().any(|job| job["finished_at"].is_null());
        (!open).then_some(())
    });
    // Its first run may have been lost before it began, and is repeated then.
    let jobs = client.all("jobs");
    let originals = jobs.iter().filter(|job| job["retry_of"].is_null()).count();
    assert_eq!(originals, 1, "one period, two jobs: {jobs:?}");
    let said = lines(&world.witness(FILE));
    let ran = said.iter().filter(|said| matches!(said.line, Line::Begin { .. })).count();
    assert_eq!(ran, 1, "it ran once: {said:?}");
    krond.stop();
}
