//! Requests that the API server carries out although nobody hears of it.

use std::time::Duration;

use kron_testkit::waiting::PATIENCE;

use super::load::{Schedule, await_jobs};
use super::replica::{Replica, await_starts, pair};
use super::verdict::Ledger;
use super::wall;
use crate::control_plane::ControlPlane;
use crate::process::wait_until;
use crate::proxy::{Fault, Matching, Often};
use crate::pulse::Pulse;

/// How many answers are lost at once: of several Jobs, and of the same Job again and again.
const LOST: usize = 12;
/// How often each KronJob is due, and how many there are.
const EVERY_S: i64 = 60;
/// Watches of Jobs, and lists of them.
const JOBS_READ: Matching = Matching { method: "GET", path_end: "/jobs", path_part: "" };
/// The deadline of the KronJobs, by which all that was struck must have come right.
const DEADLINE: Duration = Duration::from_secs(55);

#[test]
fn lost_answers_neither_double_nor_lose_a_job() {
    let plane = ControlPlane::quiet();
    let namespace = plane.namespace("lost-answers");
    // One is due every second, and each has as long as its deadline until a later period supersedes
    // this one.
    let schedules: Vec<Schedule> = (0..EVERY_S)
        .map(|count| {
            let name = format!("answer-{count}");
            Schedule::new(&namespace, &name, EVERY_S, count).with_deadline(DEADLINE)
        })
        .collect();
    for schedule in &schedules {
        schedule.create(plane);
    }
    let pair = pair(plane, &namespace);
    await_starts(&pair);
    // What fell due before anybody led may rightly have been passed over.
    let from = wall();
    let pulse = Pulse::start(plane, &namespace);
    // Both replicas are struck, because on a busy machine either may lead.
    // The Job is made; its watch tells of it, or not, and then only its name is in the way.
    lose_answers(&pair, Matching::JOB_CREATION, LOST);
    for replica in &pair {
        replica.proxy.inject(JOBS_READ, Fault::Drop, Often::Always);
        replica.proxy.cut_watches();
    }
    wait_until("no watch of Jobs is open", PATIENCE, || {
        (!pair.iter().any(|replica| replica.proxy.is_watched("/jobs"))).then_some(())
    });
    let blind = wall();
    lose_answers(&pair, Matching::JOB_CREATION, LOST);
    let seen = wall();
    for replica in &pair {
        replica.proxy.heal();
    }
    // The claim is stored, or the Job recorded.
    lose_answers(&pair, Matching::STATUS, LOST);
    for replica in &pair {
        replica.proxy.cut_watches();
    }
    lose_answers(&pair, Matching::STATUS, LOST);
    // The lease is renewed.
    lose_answers(&pair, Matching::LEASE, 2);
    let to = wall();
    await_jobs(plane, &schedules, from, to);
    let on_its_way = pulse.longest_beat();

    let ledger = Ledger::read(plane, &namespace);
    for schedule in &schedules {
        assert_eq!(ledger.wrong(schedule, from, to, on_its_way), []);
    }
    // On a busy machine another may lead, and claim, while a request is on its way.
    assert_eq!(ledger.without_claim(|_| on_its_way), []);
    let refused = |schedule: &Schedule| {
        let times = schedule.times(blind, seen).into_iter();
        times.flat_map(|time| ledger.refusals(&schedule.key(time))).count()
    };
    let refused: usize = schedules.iter().map(refused).sum();
    assert!(refused > 0, "Jobs were asked for again of which no answer and no watch had told");
}

/// Loses the answers to the next requests of a kind, and waits until Jobs are made after that.
fn lose_answers(pair: &[Replica<'_>; 2], matching: Matching, lost: usize) {
    let struck = || pair.iter().map(|replica| replica.proxy.struck()).sum::<usize>();
    let before = struck();
    for replica in pair {
        replica.proxy.inject(matching, Fault::SwallowAnswer, Often::Next(lost));
    }
    wait_until("answers are lost", PATIENCE, || (struck() >= before + lost).then_some(()));
    await_starts(pair);
}
