//! Delayed jobs beside a plain list: whatever comes due, and however much at once, the first by
//! rank is claimed.

use kron_queue::{Change, Claimed, Enqueue, Idle, JobId, NewJob, Timestamp, limits};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{World, at, many_workers};

/// The model: every queued job with its priority and its time, in the order of insertion.
#[derive(Default)]
struct Model(Vec<(i64, Timestamp, JobId)>);

impl Model {
    /// Takes the first job that may run: the highest priority, and in it the earliest inserted.
    fn claim(&mut self, now: Timestamp) -> Option<JobId> {
        let may_run = self.0.iter().enumerate().filter(|(_, (_, time, _))| *time <= now);
        let (index, _) = may_run.max_by_key(|(index, job)| (job.0, std::cmp::Reverse(*index)))?;
        Some(self.0.remove(index).2)
    }

    fn next_at(&self) -> Option<Timestamp> {
        self.0.iter().map(|(_, time, _)| *time).min()
    }
}

fn add(world: &World, model: &mut Model, jobs: &[(i64, i64)]) {
    for part in jobs.chunks(limits::JOBS_PER_CALL_MAX) {
        let new = |(priority, seconds): &(i64, i64)| NewJob {
            priority: Some(*priority),
            not_before: Some(at(*seconds)),
            ..NewJob::of_type("t", json!({}))
        };
        let jobs = part.iter().map(new).collect();
        let added = world.queue.call(Enqueue { jobs, now: at(0) }).unwrap();
        let rows = part.iter().zip(added);
        model.0.extend(
            rows.map(|((priority, seconds), job)| (*priority, at(*seconds), job.job().job_id)),
        );
    }
}

fn claim_beside(world: &World, model: &mut Model, seconds: i64) {
    match (world.claim_at(seconds), model.claim(at(seconds))) {
        (Claimed::Run(run), Some(expected)) => assert_eq!(run.job.job_id, expected),
        (Claimed::Nothing(Idle::Empty { next_at }), None) => assert_eq!(next_at, model.next_at()),
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_due_is_claimed_by_rank(
        batches in proptest::collection::vec(
            (proptest::collection::vec((-1..3_i64, 0..30_i64), 0..12), 0..30_i64, 0..6_usize), 1..12)
    ) {
        let world = World::new(many_workers());
        let mut model = Model::default();
        let mut now = 0;
        for (jobs, time, claims) in batches {
            add(&world, &mut model, &jobs);
            // What has come due stays so; a clock that goes back is another matter.
            now = now.max(time);
            for _ in 0..claims {
                claim_beside(&world, &mut model, now);
            }
        }
        while !model.0.is_empty() {
            claim_beside(&world, &mut model, 30);
        }
    }
}

/// More than one commit lets in come due at once; the one of the highest rank came due last.
#[test]
fn very_many_due_at_once_are_claimed_by_rank() {
    let world = World::new(many_workers());
    let mut model = Model::default();
    let rows = limits::RELEASES_PER_COMMIT_MAX as i64 * 3 + 500;
    let mut jobs: Vec<(i64, i64)> = (0..rows).map(|n| (n % 5, 1 + n * 7 % 1_000)).collect();
    jobs.extend([(0, 0), (9, 1_001), (8, 1_000)]);
    add(&world, &mut model, &jobs);
    let changes = world.queue.subscribe(100);
    for _ in 0..40 {
        claim_beside(&world, &mut model, 1_001);
    }
    assert!(changes.iter().take(40).all(|change| matches!(change, Change::Started { .. })));
    // All of them are in, so that the next claim has nothing to let in.
    let held: i64 = world
        .shell()
        .query_row("SELECT count(*) FROM jobs WHERE hold = 'delay'", (), |row| row.get(0))
        .unwrap();
    assert_eq!(held, 0);
}

/// Operations that wait get their turn between the pieces of a claim's preparation.
#[test]
fn nobody_waits_for_all_that_is_due() {
    let world = World::new(many_workers());
    let mut model = Model::default();
    let rows = limits::RELEASES_PER_COMMIT_MAX as i64 * 4;
    add(&world, &mut model, &(0..rows).map(|n| (0, 1 + n % 10)).collect::<Vec<_>>());
    let (sender, answers) = std::sync::mpsc::channel();
    let told = sender.clone();
    let open = world.hold_writer();
    let claim = kron_queue::Claim { worker_id: "w".into(), now: at(20) };
    world.queue.submit(claim, move |result| {
        assert!(matches!(result, Ok(Claimed::Run(_))));
        told.send("claimed").unwrap();
    });
    let jobs = vec![NewJob::of_type("t", json!({}))];
    world.queue.submit(Enqueue { jobs, now: at(20) }, move |result| {
        assert!(result.is_ok());
        sender.send("enqueued").unwrap();
    });
    open.send(()).unwrap();
    assert_eq!(answers.iter().collect::<Vec<_>>(), ["enqueued", "claimed"]);
}
