//! A death at each step by which the database changes.
//!
//! The thread that owns the database is traced alone, and its n-th write or sync is its last: the
//! daemon dies before it, whatever the other threads are doing. First with nothing but one job in
//! the world, so that each sync is known; then with one of everything, where the number of a call
//! says only roughly what it was for.

use std::collections::BTreeSet;

use kron_testkit::chance::{is_selected, number};
use kron_testkit::krond::Krond;
use kron_testkit::needs::left_out;
use kron_testkit::strace::{Follow, NEEDS, Strace, calls};
use kron_testkit::waiting::{eventually, now};
use serde_json::Value;

use crate::queue_crash::act::{Actor, Deed, Unanswered};
use crate::queue_crash::checker::ORDERED;
use crate::queue_crash::chronicle::{
    Chronicle, Making, Point, SYNC, WRITE, conclude, queue_thread,
};
use crate::queue_crash::witness::{self, FILE, Line, RELEASE};

/// Every how many of the calls of one of everything are tried: of the syncs every twelfth, which is
/// half of this, and of the writes every 96th, which is four times as many.
const EVERY: u64 = 24;
/// The same where there is more time: every sync, and every fourth write. A life of its own for each
/// write would take far longer than all other points together. Every write of a job is tried by
/// [`one_job`], and every write of every operation by `kron-queue`'s own tests.
const EVERY_OF_FULL: u64 = 1;
/// The syncs of a job, each of which waits for the one before: enqueued, claimed, its process
/// recorded, ended. What is told about its end may go with others.
const SYNCS_OF_ONE: usize = 4;
/// How many of the writes of a job are tried in the suite, beside all syncs and those below.
const WRITES: usize = 10;
/// The writes at which canaries are noticed (`subset:` in `tests/canaries`). The suite tries them
/// whether or not a canary is active.
const WRITES_OF_CANARIES: [usize; 7] = [11, 13, 15, 17, 31, 33, 35];
/// A handler that outlives its daemon.
const OUTLIVES: Deed = Deed { code: 0, ms: 0, held: true };

/// [It must hold: kill -9 at every step of enqueue, claim, finish, retry creation]
#[test]
fn one_job_whose_daemon_dies_at_each_step_has_its_one_true_end() {
    one_job(WRITES);
}

#[test]
#[ignore = "full: every write"]
fn one_job_whose_daemon_dies_at_each_write_has_its_one_true_end() {
    one_job(usize::MAX);
}

fn one_job(writes_max: usize) {
    if left_out("one job whose daemon dies at each step has its one true end", NEEDS) {
        return;
    }
    let began = now();
    let mut chronicle = Chronicle::new(Making::ClientsOnly);
    let mut krond = chronicle.begin();
    let whole = |actor: Actor<'_>| {
        actor.enqueue("whole-job", "plain", FAILS, 0, None).expect("the daemon answers");
    };
    // `has_ended` first: a canary answers before the job is there.
    let made = count(&chronicle, &krond, whole, |chronicle| {
        has_ended(chronicle, "whole") && chronicle.is_quiet(&krond)
    });
    assert!(made.syncs >= SYNCS_OF_ONE, "only {made:?}");
    let syncs = (1..=SYNCS_OF_ONE).map(|number| (SYNC, number));
    let spread = (1..=made.writes).step_by(made.writes.div_ceil(writes_max).max(1));
    let writes: BTreeSet<usize> = spread.chain(WRITES_OF_CANARIES).collect();
    let writes = writes.into_iter().map(|number| (WRITE, number));
    let points = syncs.chain(writes).filter(|(call, number)| {
        let kind = if *call == SYNC { "sync" } else { "write" };
        is_selected(&format!("{kind}:{number}"))
    });
    for (at, (call, number)) in points.enumerate() {
        // Alone in the world, so that the numbers of the calls are its own.
        eventually("the one before is over", || chronicle.is_quiet(&krond).then_some(()));
        let strace = chronicle.trap(&krond, &Point { call: call.to_owned(), number });
        // Every other one fails, and so is retried. One that ends before the daemon has made so many
        // calls is followed by another.
        let deed = if at % 2 == 0 { Deed::new(0, 30) } else { FAILS };
        let mut jobs = 0;
        chronicle.die(&mut krond, strace, |actor| {
            jobs += 1;
            let _ = actor.enqueue(&format!("{call}-{number}-{jobs}"), "plain", deed, 0, None);
        });
        assert!(jobs == 1 || call == WRITE, "one job makes no {call} {number}");
        krond = chronicle.world.start();
    }
    // And one whose command outlives its daemon, and is there when the next one looks.
    let _ = chronicle.actor().enqueue("outlives", "plain", OUTLIVES, 0, None);
    eventually("it begins", || {
        let mut lines = witness::lines(&chronicle.world.witness(FILE)).into_iter();
        let is_it = |line| matches!(line, Line::Begin { name, .. } if name == "outlives");
        lines.any(|said| is_it(said.line)).then_some(())
    });
    chronicle.kill(&mut krond);
    krond = chronicle.world.start();
    chronicle.world.permit(RELEASE);
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    conclude("one job at a time", deaths, seconds, &story, &faults);
    assert!(story.runs.len() > SYNCS_OF_ONE, "too little happened");
}

/// A job that fails, and so is retried.
const FAILS: Deed = Deed { code: 4, ms: 30, held: false };

/// One of everything; ends when nobody answers any more.
fn everything(actor: Actor<'_>, life: &str) -> Result<(), Unanswered> {
    let quick = Deed::new(0, 0);
    let slow = Deed::new(0, 400);
    let name = |what: &str| format!("{life}-{what}");
    actor.enqueue(&name("slow"), "plain", slow, 5, None)?;
    let slow = actor.known(0);
    actor.enqueue(&name("fails"), "plain", Deed::new(9, 0), 1, None)?;
    actor.enqueue(&name("key"), "plain", quick, 0, Some(&name("key")))?;
    actor.enqueue(&name("key"), "plain", quick, 0, Some(&name("key")))?;
    actor.batch(&name("batch"), quick)?;
    actor.enqueue(&name("unwanted"), ORDERED, quick, -1, None)?;
    if let Some(job) = actor.known(0) {
        actor.cancel(&job)?;
    }
    actor.group(&name("stop"), "stop", Deed::new(3, 0))?;
    actor.group(&name("skip"), "skip", Deed::new(3, 0))?;
    if let Some(job) = slow {
        actor.cancel(&job)?;
    }
    actor.direct(&name("direct"), Deed::new(5, 20))
}

/// Whether every job of a life has ended that was acknowledged, with all its retries.
fn has_ended(chronicle: &Chronicle, life: &str) -> bool {
    let prefix = format!("{life}-");
    let jobs = chronicle.client.all("jobs");
    let is_of_life =
        |job: &&Value| job["params"]["name"].as_str().is_some_and(|name| name.starts_with(&prefix));
    let jobs: Vec<&Value> = jobs.iter().filter(is_of_life).collect();
    let is_over = |job: &&Value| {
        let is_decided = job["state"] != "failed" || !job["retry_decision"].is_null();
        let is_followed = job["retry_decision"] != "retried"
            || jobs.iter().any(|next| next["retry_of"] == job["job_id"]);
        !job["finished_at"].is_null() && is_decided && is_followed
    };
    let story = chronicle.story.lock().unwrap();
    let mut acks = story.acks.iter().filter(|ack| ack.name.starts_with(&prefix));
    let are_listed = acks.all(|ack| jobs.iter().any(|job| job["job_id"] == *ack.job));
    are_listed && jobs.iter().all(is_over)
}

/// How many calls were made.
#[derive(Clone, Copy, Debug)]
struct Made {
    syncs: usize,
    writes: usize,
}

/// The calls that this makes, to its end.
fn count(
    chronicle: &Chronicle,
    krond: &Krond,
    live: impl Fn(Actor<'_>),
    is_done: impl Fn(&Chronicle) -> bool,
) -> Made {
    let file = chronicle.world.state_dir().with_file_name("count");
    let options = ["-e", "trace=pwrite64,fsync,fdatasync"];
    let strace = Strace::attach(&[queue_thread(krond)], Follow::Nobody, &options, &file);
    live(chronicle.actor());
    eventually("it is done", || is_done(chronicle).then_some(()));
    let text = strace.text();
    strace.detach();
    let made = calls(&text);
    let is_of = |names: &str, name: &str| names.split(',').any(|one| one == name);
    let of_call = |names: &str| made.iter().filter(|call| is_of(names, &call.name)).count();
    Made { syncs: of_call(SYNC), writes: of_call(WRITE) }
}

/// [It must hold: kill -9 at every step of reservation, schedule trigger, and of all the rest]
#[test]
fn one_of_everything_and_a_death_at_each_step_of_it() {
    one_of_everything(EVERY);
}

/// A death at every sync, and at every fourth write.
#[test]
#[ignore = "full: every sync, every fourth write"]
fn one_of_everything_and_a_death_at_each_sync_of_it() {
    one_of_everything(EVERY_OF_FULL);
}

fn one_of_everything(usual_every: u64) {
    if left_out("one of everything and a death at each step of it", NEEDS) {
        return;
    }
    let began = now();
    let mut chronicle = Chronicle::new(Making::ClockToo);
    let mut krond = chronicle.begin();
    let whole = |actor: Actor<'_>| everything(actor, "whole").expect("the daemon answers");
    // The clock makes two jobs a second for ever, which a slow disk may never catch up with.
    let made = count(&chronicle, &krond, whole, |chronicle| has_ended(chronicle, "whole"));
    let every = number("KRON_QUEUE_CRASH_EVERY", usual_every).max(1) as usize;
    let syncs = (1..=made.syncs).step_by(every.div_ceil(2)).map(|number| (SYNC, number));
    let writes = (1..=made.writes).step_by(every * 4).map(|number| (WRITE, number));
    let points: Vec<(&str, usize)> = syncs.chain(writes).collect();
    assert!(points.len() > 8, "only {points:?}");
    for (call, number) in points {
        let strace = chronicle.trap(&krond, &Point { call: call.to_owned(), number });
        // Until it is dead, which is seen by its silence; some calls come later, at the latest when
        // the clock has made enough jobs.
        let _ = everything(chronicle.actor(), &format!("{call}-{number}"));
        chronicle.die(&mut krond, strace, |_| {});
        krond = chronicle.world.start();
    }
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    conclude("one of everything", deaths, seconds, &story, &faults);
}
