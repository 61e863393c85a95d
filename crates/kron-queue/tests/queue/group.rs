//! Groups: whose turn it is, and what a failure means.

use kron_queue::{
    Cancel, Claimed, CreateGroup, GroupId, GroupMode, GroupStatus, JobId, JobState, NewJob,
    OnFailure, Outcome, Retry, RetryPolicy, Rules,
};
use serde_json::json;

use crate::support::{World, at};

fn world(retries_max: u32) -> World {
    let retry = RetryPolicy { retries_max, ..RetryPolicy::default() };
    World::new(Rules { workers_max: 10, retry, ..Rules::default() })
}

fn create(world: &World, mode: GroupMode, on_failure: OnFailure) -> (GroupId, Vec<JobId>) {
    let jobs = (0..3).map(|n| NewJob::of_type("t", json!({ "n": n }))).collect();
    let group = CreateGroup { name: None, mode, on_failure, jobs, now: at(0) };
    let (group, jobs) = world.queue.call(group).unwrap();
    (group.group_id, jobs.iter().map(|job| job.job_id).collect())
}

fn status(world: &World, id: GroupId) -> GroupStatus {
    world.queue.group(id).unwrap().unwrap().status
}

fn nothing(world: &World, seconds: i64) {
    assert!(matches!(world.claim_at(seconds), Claimed::Nothing(_)));
}

#[test]
fn a_sequential_group_goes_one_by_one_and_waits_for_retries() {
    let world = world(1);
    let (id, jobs) = create(&world, GroupMode::Sequential, OnFailure::Stop);
    assert_eq!(status(&world, id), GroupStatus::Queued);
    assert_eq!(world.job(jobs[1]).state, JobState::Blocked);
    let first = world.claim(1);
    assert_eq!(first.job.job_id, jobs[0]);
    nothing(&world, 1);
    let retry = world.finish(&first, Outcome::Failed, 2).unwrap().successor.unwrap();
    // Until its retry has ended, the next one waits.
    nothing(&world, 3);
    assert_eq!(status(&world, id), GroupStatus::Running);
    let second = world.claim(100);
    assert_eq!(second.job.job_id, retry.job_id);
    nothing(&world, 100);
    world.finish(&second, Outcome::Completed, 101).unwrap();
    let third = world.claim(102);
    assert_eq!(third.job.job_id, jobs[1]);
    nothing(&world, 102);
    world.finish(&third, Outcome::Completed, 103).unwrap();
    let last = world.claim(104);
    world.finish(&last, Outcome::Completed, 105).unwrap();
    assert_eq!(status(&world, id), GroupStatus::Completed);
}

#[test]
fn a_failure_stops_skips_or_means_nothing() {
    for (on_failure, others, group) in [
        (OnFailure::Stop, JobState::Cancelled, GroupStatus::Failed),
        (OnFailure::Skip, JobState::Skipped, GroupStatus::Failed),
    ] {
        for mode in [GroupMode::Sequential, GroupMode::Parallel] {
            let world = world(0);
            let (id, jobs) = create(&world, mode, on_failure);
            let first = world.claim(1);
            world.finish(&first, Outcome::Failed, 2).unwrap();
            for job in &jobs[1..] {
                assert_eq!(world.job(*job).state, others, "{on_failure} {mode}");
            }
            assert_eq!(status(&world, id), group);
            nothing(&world, 3);
        }
    }
    let world = world(0);
    let (id, jobs) = create(&world, GroupMode::Sequential, OnFailure::Continue);
    for (turn, job) in jobs.iter().enumerate() {
        let claimed = world.claim(1);
        assert_eq!(claimed.job.job_id, *job);
        let outcome = if turn == 1 { Outcome::Failed } else { Outcome::Completed };
        world.finish(&claimed, outcome, 2).unwrap();
    }
    assert_eq!(status(&world, id), GroupStatus::Failed);
    // A retry by hand that ends well mends it.
    world.queue.call(Retry { job_id: jobs[1], now: at(3) }).unwrap();
    let again = world.claim(3);
    world.finish(&again, Outcome::Completed, 4).unwrap();
    assert_eq!(status(&world, id), GroupStatus::Completed);
}

#[test]
fn a_parallel_group_goes_at_once() {
    let world = world(0);
    let (_, jobs) = create(&world, GroupMode::Parallel, OnFailure::Continue);
    let claimed: Vec<JobId> = (0..3).map(|_| world.claim(1).job.job_id).collect();
    assert_eq!(claimed, jobs);
}

#[test]
fn a_cancelled_member_is_passed_over() {
    let world = world(0);
    let (id, jobs) = create(&world, GroupMode::Sequential, OnFailure::Stop);
    world.queue.call(Cancel { job_id: jobs[0], now: at(1) }).unwrap();
    let second = world.claim(1);
    assert_eq!(second.job.job_id, jobs[1]);
    world.queue.call(Cancel { job_id: jobs[1], now: at(2) }).unwrap();
    world.finish(&second, Outcome::Cancelled, 3).unwrap();
    let third = world.claim(4);
    assert_eq!(third.job.job_id, jobs[2]);
    world.finish(&third, Outcome::Completed, 5).unwrap();
    assert_eq!(status(&world, id), GroupStatus::Cancelled);
}

#[test]
fn cancelling_one_that_waits_lets_nobody_in_early() {
    let world = world(0);
    let (_, jobs) = create(&world, GroupMode::Sequential, OnFailure::Stop);
    let first = world.claim(1);
    world.queue.call(Cancel { job_id: jobs[1], now: at(1) }).unwrap();
    nothing(&world, 1);
    world.finish(&first, Outcome::Completed, 2).unwrap();
    assert_eq!(world.claim(3).job.job_id, jobs[2]);
}
