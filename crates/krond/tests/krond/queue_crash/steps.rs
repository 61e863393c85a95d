//! A death at each step by which the database changes.
//!
//! The thread that owns the database is traced alone, and its n-th write or sync is its last: the
//! daemon dies before it, whatever the other threads are doing. First with nothing but one job in
//! the world, so that each sync is known; then with one of everything, where the number of a call
//! says only roughly what it was for.

use kron_testkit::chance::{is_selected, number};
use kron_testkit::krond::Krond;
use kron_testkit::needs::left_out;
use kron_testkit::strace::{Follow, NEEDS, Strace, calls};
use kron_testkit::waiting::{eventually, now};

use crate::queue_crash::act::{Actor, Deed, Unanswered};
use crate::queue_crash::checker::ORDERED;
use crate::queue_crash::chronicle::{
    CERTAINLY_TRAPPED, Chronicle, Making, Point, SYNC, TRAPPED, WRITE, conclude, queue_thread,
};
use crate::queue_crash::witness::{self, FILE, Line, OUTLIVES, PERMIT};

/// Every how many of the calls are tried when somebody waits; 1 is all of them.
const EVERY: u64 = 12;
/// The syncs of a job, each of which waits for the one before: enqueued, claimed, its process
/// recorded, ended. What is told about its end may go with others.
const SYNCS_OF_ONE: usize = 4;
/// Every how many of the writes between them are tried: each sync has at least as many.
const WRITES_STEP: usize = 2;
/// More writes than those of a job.
const WRITES_OF_ONE: usize = 50;

/// [It must hold: kill -9 at every step of enqueue, claim, finish, retry creation]
#[test]
fn one_job_whose_daemon_dies_at_each_step_has_its_one_true_end() {
    if left_out("one job whose daemon dies at each step has its one true end", NEEDS) {
        return;
    }
    let began = now();
    let mut chronicle = Chronicle::new(Making::ClientsOnly);
    let mut krond = chronicle.begin();
    let syncs = (1..=SYNCS_OF_ONE).map(|number| (SYNC, number));
    let writes = (1..=WRITES_OF_ONE).step_by(WRITES_STEP).map(|number| (WRITE, number));
    let points = syncs.chain(writes).filter(|(call, number)| {
        let kind = if *call == SYNC { "sync" } else { "write" };
        is_selected(&format!("{kind}:{number}"))
    });
    for (at, (call, number)) in points.enumerate() {
        // Alone in the world, so that the numbers of the calls are its own.
        eventually("the one before is over", || (chronicle.open() == Some(0)).then_some(()));
        let strace = chronicle.trap(&krond, &Point { call: call.to_owned(), number });
        // Every other one fails, and so is retried.
        let deed = Deed { code: 4 * (at as i64 % 2), ms: 30 };
        let _ = chronicle.actor().enqueue(&format!("{call}-{number}"), "plain", deed, 0, None);
        let patience = if call == SYNC { CERTAINLY_TRAPPED } else { TRAPPED };
        let sprang = chronicle.spring(&mut krond, strace, patience);
        assert!(sprang || call == WRITE, "there was no {call} {number}");
        krond = chronicle.world.start();
    }
    // And one whose command outlives its daemon, and is there when the next one looks.
    let _ = chronicle.actor().enqueue(OUTLIVES, "plain", Deed { code: 0, ms: 0 }, 0, None);
    eventually("it begins", || {
        let mut lines = witness::lines(&chronicle.world.witness(FILE)).into_iter();
        let is_it = |line| matches!(line, Line::Begin { name, .. } if name == OUTLIVES);
        lines.any(|said| is_it(said.line)).then_some(())
    });
    chronicle.kill(&mut krond);
    krond = chronicle.world.start();
    chronicle.world.permit(PERMIT);
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    conclude("one job at a time", deaths, seconds, &story, &faults);
    assert!(story.runs.len() > SYNCS_OF_ONE, "too little happened");
}

/// One of everything; ends when nobody answers any more.
fn everything(actor: Actor<'_>, life: &str) -> Result<(), Unanswered> {
    let quick = Deed { code: 0, ms: 0 };
    let slow = Deed { code: 0, ms: 400 };
    let name = |what: &str| format!("{life}-{what}");
    actor.enqueue(&name("slow"), "plain", slow, 5, None)?;
    let slow = actor.known(0);
    actor.enqueue(&name("fails"), "plain", Deed { code: 9, ms: 0 }, 1, None)?;
    actor.enqueue(&name("key"), "plain", quick, 0, Some(&name("key")))?;
    actor.enqueue(&name("key"), "plain", quick, 0, Some(&name("key")))?;
    actor.batch(&name("batch"), quick)?;
    actor.enqueue(&name("unwanted"), ORDERED, quick, -1, None)?;
    if let Some(job) = actor.known(0) {
        actor.cancel(&job)?;
    }
    actor.group(&name("stop"), "stop", Deed { code: 3, ms: 0 })?;
    actor.group(&name("skip"), "skip", Deed { code: 3, ms: 0 })?;
    if let Some(job) = slow {
        actor.cancel(&job)?;
    }
    actor.direct(&name("direct"), Deed { code: 5, ms: 20 })
}

/// The calls that one of everything makes, to its end.
fn count(chronicle: &Chronicle, krond: &Krond) -> Vec<Point> {
    let file = chronicle.world.state_dir().with_file_name("count");
    let options = ["-e", "trace=pwrite64,fsync,fdatasync"];
    let strace = Strace::attach(&[queue_thread(krond)], Follow::Nobody, &options, &file);
    everything(chronicle.actor(), "whole").expect("nobody is killed yet");
    eventually("it is done", || {
        // The clock goes on making some.
        chronicle.open().is_some_and(|open| open < 3).then_some(())
    });
    let text = strace.text();
    strace.detach();
    let made = calls(&text);
    let is_of = |names: &str, name: &str| names.split(',').any(|one| one == name);
    let of_call = |names: &str| made.iter().filter(|call| is_of(names, &call.name)).count();
    let every = number("KRON_QUEUE_CRASH_EVERY", EVERY).max(1) as usize;
    let syncs = (1..=of_call(SYNC)).step_by(every.div_ceil(2));
    let writes = (1..=of_call(WRITE)).step_by(every * 4);
    let point = |call: &str, number| Point { call: call.to_owned(), number };
    syncs.map(|n| point(SYNC, n)).chain(writes.map(|n| point(WRITE, n))).collect()
}

/// [It must hold: kill -9 at every step of reservation, schedule trigger, and of all the rest]
#[test]
fn one_of_everything_and_a_death_at_each_step_of_it() {
    if left_out("one of everything and a death at each step of it", NEEDS) {
        return;
    }
    let began = now();
    let mut chronicle = Chronicle::new(Making::ClockToo);
    let mut krond = chronicle.begin();
    let points = count(&chronicle, &krond);
    assert!(points.len() > 8, "only {points:?}");
    for Point { call, number } in &points {
        let strace = chronicle.trap(&krond, &Point { call: call.clone(), number: *number });
        // Until it is dead, which is seen by its silence; some calls come later.
        let _ = everything(chronicle.actor(), &format!("{call}-{number}"));
        chronicle.spring(&mut krond, strace, TRAPPED);
        krond = chronicle.world.start();
    }
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let seconds = now().duration_since(began).as_secs();
    conclude("one of everything", deaths, seconds, &story, &faults);
}
