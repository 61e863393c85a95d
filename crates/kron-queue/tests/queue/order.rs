//! The queue's order beside a plain list that is sorted by the rules.

use kron_queue::{
    Cancel, Change, Claimed, Job, JobId, Move, NewJob, Normalise, OrderError, Outcome, Place,
    SetPriority,
};
use kron_testkit::waiting::PATIENCE;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{World, at, many_workers};

/// The model: priorities, and in each the jobs in their order.
#[derive(Default)]
struct Model(Vec<(i64, JobId)>);

impl Model {
    /// Puts a job at the end of its priority.
    fn push(&mut self, priority: i64, id: JobId) {
        let at = self.0.iter().position(|(other, _)| *other < priority).unwrap_or(self.0.len());
        self.0.insert(at, (priority, id));
    }

    fn remove(&mut self, id: JobId) -> i64 {
        let at = self.0.iter().position(|(_, other)| *other == id).unwrap();
        self.0.remove(at).0
    }

    fn ids(&self) -> Vec<JobId> {
        self.0.iter().map(|(_, id)| *id).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(i64),
    Top(usize),
    Bottom(usize),
    Before(usize, usize),
    After(usize, usize),
    Priority(usize, i64),
    Cancel(usize),
    Claim,
    Normalise,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (-1..2_i64).prop_map(Step::Add),
        1 => any::<usize>().prop_map(Step::Top),
        1 => any::<usize>().prop_map(Step::Bottom),
        5 => any::<(usize, usize)>().prop_map(|(a, b)| Step::Before(a, b)),
        5 => any::<(usize, usize)>().prop_map(|(a, b)| Step::After(a, b)),
        1 => (any::<usize>(), -1..2_i64).prop_map(|(a, p)| Step::Priority(a, p)),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => Just(Step::Claim),
        1 => Just(Step::Normalise),
    ];
    proptest::collection::vec(step, 1..60)
}

fn add(world: &World, model: &mut Model, priority: i64) -> Job {
    let job = world.add(NewJob { priority: Some(priority), ..NewJob::of_type("t", json!({})) });
    model.push(priority, job.job_id);
    job
}

fn beside(world: &World, model: &mut Model, ids: (JobId, JobId), place: Place, offset: usize) {
    let (id, other) = ids;
    let priority = |model: &Model, id| model.0.iter().find(|(_, of)| *of == id).unwrap().0;
    let moved = world.queue.call(Move { job_id: id, to: place });
    if id == other {
        assert!(matches!(moved, Err(OrderError::Itself(_))));
    } else if priority(model, id) != priority(model, other) {
        assert!(matches!(moved, Err(OrderError::OtherPriority { .. })));
    } else {
        moved.unwrap();
        let priority = model.remove(id);
        let at = model.0.iter().position(|(_, of)| *of == other).unwrap();
        model.0.insert(at + offset, (priority, id));
    }
}

fn take(world: &World, model: &mut Model, step: &Step) {
    let ids = model.ids();
    let pick = |n: usize| ids[n % ids.len()];
    match *step {
        Step::Add(priority) => drop(add(world, model, priority)),
        Step::Claim => match world.claim_at(1) {
            Claimed::Run(run) => {
                assert_eq!(Some(&run.job.job_id), ids.first());
                model.remove(run.job.job_id);
            }
            Claimed::Nothing(_) => assert!(ids.is_empty()),
        },
        Step::Normalise => world.queue.call(Normalise).unwrap(),
        _ if ids.is_empty() => {}
        Step::Top(n) => {
            let id = pick(n);
            world.queue.call(Move { job_id: id, to: Place::Top }).unwrap();
            let priority = model.remove(id);
            let at = model.0.iter().position(|(of, _)| *of <= priority).unwrap_or(model.0.len());
            model.0.insert(at, (priority, id));
        }
        Step::Bottom(n) => {
            let id = pick(n);
            world.queue.call(Move { job_id: id, to: Place::Bottom }).unwrap();
            let priority = model.remove(id);
            model.push(priority, id);
        }
        Step::Before(n, m) => {
            beside(world, model, (pick(n), pick(m)), Place::Before(pick(m)), 0);
        }
        Step::After(n, m) => beside(world, model, (pick(n), pick(m)), Place::After(pick(m)), 1),
        Step::Priority(n, priority) => {
            let id = pick(n);
            world.queue.call(SetPriority { job_id: id, priority }).unwrap();
            if model.0.iter().any(|(of, other)| *other == id && *of != priority) {
                model.remove(id);
                model.push(priority, id);
            }
        }
        Step::Cancel(n) => {
            world.queue.call(Cancel { job_id: pick(n), now: at(1) }).unwrap();
            model.remove(pick(n));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_order_is_that_of_a_sorted_list(steps in steps()) {
        let world = World::new(many_workers());
        let mut model = Model::default();
        for step in &steps {
            take(&world, &mut model, step);
            prop_assert_eq!(world.order(), model.ids(), "after {:?}", step);
        }
        let world = world.reopen(many_workers());
        prop_assert_eq!(world.order(), model.ids());
    }
}

#[test]
fn positions_are_a_hundred_apart_and_gaps_are_made_when_they_run_out() {
    let world = World::new(many_workers());
    let mut model = Model::default();
    let jobs: Vec<Job> = (0..3).map(|_| add(&world, &mut model, 0)).collect();
    assert_eq!(jobs.iter().map(|job| job.position).collect::<Vec<_>>(), [100, 200, 300]);
    let changes = world.queue.subscribe(1_000);
    // Swapping two jobs before a third halves the gap each time.
    for turn in 0..30 {
        let (id, other) = (jobs[turn % 2].job_id, jobs[2].job_id);
        beside(&world, &mut model, (id, other), Place::Before(other), 0);
        assert_eq!(world.order(), model.ids());
    }
    // Subscribers hear of a change after the call that made it.
    let mut changes = std::iter::from_fn(|| changes.recv_timeout(PATIENCE).ok());
    assert!(changes.any(|change| change == Change::Normalised));
}

#[test]
fn ties_are_broken_by_time_and_then_by_insertion() {
    let world = World::new(many_workers());
    let ids: Vec<JobId> = (0..3).map(|_| world.story().job_id).collect();
    world.shell().execute_batch("UPDATE jobs SET position = 5").unwrap();
    assert_eq!(world.order(), ids);
    // Before the middle one of three that share a position.
    world.queue.call(Move { job_id: ids[2], to: Place::Before(ids[1]) }).unwrap();
    assert_eq!(world.order(), [ids[0], ids[2], ids[1]]);
}

#[test]
fn positions_at_the_end_of_their_range_are_assigned_anew() {
    let world = World::new(many_workers());
    let first = world.story().job_id;
    world.shell().execute_batch("UPDATE jobs SET position = 1 << 53").unwrap();
    let second = world.story();
    assert_eq!((second.position, world.order()), (200, vec![first, second.job_id]));
}

#[test]
fn only_queued_jobs_move() {
    let world = World::new(many_workers());
    let job = world.story();
    let claimed = world.claim(1);
    let moved = world.queue.call(Move { job_id: job.job_id, to: Place::Top });
    assert!(matches!(moved, Err(OrderError::NotQueued(_))));
    world.finish(&claimed, Outcome::Completed, 2).unwrap();
    let other = world.queue.call(SetPriority { job_id: job.job_id, priority: 1 });
    assert!(matches!(other, Err(OrderError::NotQueued(_))));
}
