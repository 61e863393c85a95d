//! The recovery matrix, row by row.

use std::collections::BTreeMap;

use kron_queue::{
    AttachProcess, CRASH_ERROR, Cancel, Claimed, ClaimedRun, Idle, JobState, Liveness, NewJob,
    Outcome, Recover, Recovered, Reserve, RetryDecision, Rules, RunStatus, StartDirect,
};
use serde_json::json;

use crate::support::{World, at, many_workers, process};

fn recover(world: &World, runs: &[(&ClaimedRun, Liveness)], owner: Liveness) -> Recovered {
    let runs = runs.iter().map(|(run, liveness)| (run.run.run_id, *liveness));
    world
        .queue
        .call(Recover {
            runs: BTreeMap::from_iter(runs),
            reservation_owner: owner,
            reservation_lasts_ms: 60_000,
            now: at(1_000),
        })
        .unwrap()
}

fn released(world: &World, pid: i64) -> ClaimedRun {
    world.story();
    let claimed = world.claim(1);
    let (run_id, token) = (claimed.run.run_id, claimed.token.clone());
    let attach =
        AttachProcess { run_id, token, process: process(pid), command: None, log_path: None };
    world.queue.call(attach).unwrap();
    claimed
}

#[test]
fn queued_jobs_stay_as_they_are() {
    let world = World::new(many_workers());
    let ids: Vec<_> = (0..5).map(|_| world.story().job_id).collect();
    let world = world.reopen(many_workers());
    let recovered = recover(&world, &[], Liveness::Dead);
    assert!(recovered.ended.is_empty() && recovered.adopted.is_empty());
    assert_eq!(world.order(), ids);
}

#[test]
fn a_dead_run_is_failed_and_retried_once_for_that() {
    let world = World::new(many_workers());
    let run = released(&world, 1);
    let world = world.reopen(many_workers());
    assert_eq!(world.queue.open_runs().unwrap()[0].run_id, run.run.run_id);
    let recovered = recover(&world, &[(&run, Liveness::Dead)], Liveness::Dead);
    let ended = &recovered.ended[0];
    assert_eq!(ended.run.status, Some(RunStatus::Failed));
    assert_eq!(ended.run.error.as_deref(), Some(CRASH_ERROR));
    assert!(ended.run.lost);
    assert_eq!(ended.job.state, JobState::Failed);
    assert_eq!(ended.successor.as_ref().unwrap().retry_of, Some(run.job.job_id));
    // A second recovery finds nothing to do.
    let again = recover(&world, &[(&run, Liveness::Dead)], Liveness::Dead);
    assert!(again.ended.is_empty());
    // The successor is lost as well: a job that kills the machine does so no third time.
    let second = world.claim(10_000);
    let recovered = recover(&world, &[(&second, Liveness::Dead)], Liveness::Dead);
    let decision = recovered.ended[0].job.retry_decision;
    assert_eq!(decision, Some(RetryDecision::LostExhausted));
    assert_eq!(recovered.ended[0].successor, None);
    assert!(matches!(world.claim_at(90_000), Claimed::Nothing(Idle::Empty { next_at: None })));
}

#[test]
fn a_live_run_is_adopted_and_can_be_ended() {
    let world = World::new(many_workers());
    let run = released(&world, 1);
    let world = world.reopen(many_workers());
    let recovered = recover(&world, &[(&run, Liveness::Alive)], Liveness::Dead);
    assert!(recovered.ended.is_empty());
    let end = world.finish(&recovered.adopted[0], Outcome::Completed, 2_000).unwrap();
    assert_eq!(end.job.state, JobState::Completed);
}

#[test]
fn what_cannot_be_told_is_left_whatever_time_passes() {
    let world = World::new(many_workers());
    let run = released(&world, 1);
    let recovered = recover(&world, &[], Liveness::Unknown);
    assert_eq!(recovered.undecided, [run.run.run_id]);
    assert_eq!(world.job(run.job.job_id).state, JobState::Running);
}

#[test]
fn a_run_that_was_never_released_is_dead() {
    let world = World::new(many_workers());
    world.story();
    let run = world.claim(1);
    let recovered = recover(&world, &[], Liveness::Dead);
    assert_eq!(recovered.ended[0].run.run_id, run.run.run_id);
    assert!(recovered.ended[0].successor.is_some());
}

#[test]
fn a_running_job_without_a_run_gets_a_failed_one() {
    let world = World::new(many_workers());
    let job = world.story();
    // Only somebody who removes the rule can do this.
    let shell = world.shell();
    shell
        .execute_batch(&format!(
            "DROP TRIGGER jobs_running; \
             UPDATE jobs SET status = 'RUNNING', started_at = '{}'",
            at(1)
        ))
        .unwrap();
    let recovered = recover(&world, &[], Liveness::Dead);
    let ended = &recovered.ended[0];
    assert_eq!((ended.job.job_id, ended.run.status), (job.job_id, Some(RunStatus::Failed)));
    assert_eq!(ended.run.error.as_deref(), Some(CRASH_ERROR));
    assert!(ended.successor.is_some());
}

#[test]
fn a_run_that_ended_ends_its_job() {
    let world = World::new(many_workers());
    let completed = released(&world, 1);
    let failed = released(&world, 2);
    let shell = world.shell();
    let end = |run: &ClaimedRun, status: &str| {
        let sql = "UPDATE job_runs SET status = ?1, finished_at = ?2 WHERE run_id = ?3";
        let run_id = run.run.run_id.to_string();
        shell.execute(sql, [status, &at(5).to_string(), &run_id]).unwrap();
    };
    end(&completed, "COMPLETED");
    end(&failed, "FAILED");
    let recovered = recover(&world, &[], Liveness::Dead);
    assert_eq!(recovered.ended.len(), 2);
    let job = world.job(completed.job.job_id);
    assert_eq!((job.state, job.finished_at), (JobState::Completed, Some(at(5))));
    let job = world.job(failed.job.job_id);
    assert_eq!(job.retry_decision, Some(RetryDecision::Retried));
    assert_eq!(world.queue.chain(job.job_id).unwrap().len(), 2);
}

#[test]
fn a_retry_that_was_not_decided_is_decided_once() {
    let world = World::new(many_workers());
    let run = released(&world, 1);
    let shell = world.shell();
    shell
        .execute_batch(&format!(
            "UPDATE job_runs SET status = 'FAILED', finished_at = '{0}'; \
             UPDATE jobs SET finished_at = '{0}'",
            at(5)
        ))
        .unwrap();
    assert_eq!(recover(&world, &[], Liveness::Dead).ended.len(), 1);
    assert!(recover(&world, &[], Liveness::Dead).ended.is_empty());
    assert_eq!(world.queue.chain(run.job.job_id).unwrap().len(), 2);
}

#[test]
fn a_dead_run_that_was_to_be_cancelled_is_cancelled() {
    let world = World::new(many_workers());
    let run = released(&world, 1);
    world.queue.call(Cancel { job_id: run.job.job_id, now: at(2) }).unwrap();
    let recovered = recover(&world, &[(&run, Liveness::Dead)], Liveness::Dead);
    assert_eq!(recovered.ended[0].job.state, JobState::Cancelled);
    assert_eq!(recovered.ended[0].successor, None);
}

#[test]
fn reservations_of_the_dead_expire_and_live_direct_runs_keep_theirs() {
    let world = World::new(Rules::default());
    let reserve = |seconds, lasts_ms| Reserve {
        reserved_by: "cli".into(),
        owner: process(1),
        lasts_ms,
        now: at(seconds),
    };
    // Not over, and its daemon cannot be told: left.
    let held = world.queue.call(reserve(900, 3_600_000)).unwrap();
    assert!(recover(&world, &[], Liveness::Unknown).expired.is_empty());
    // Its daemon is dead: over at once.
    assert_eq!(recover(&world, &[], Liveness::Dead).expired, [held.reservation_id]);
    // Its time is over.
    let old = world.queue.call(reserve(1, 1_000)).unwrap();
    assert_eq!(recover(&world, &[], Liveness::Alive).expired, [old.reservation_id]);
    // Its run lives.
    let direct = world.queue.call(reserve(1, 1_000)).unwrap();
    let start = StartDirect {
        reservation_id: direct.reservation_id,
        job: NewJob::of_type("story", json!({})),
        worker_id: "direct".into(),
        now: at(1),
    };
    let Claimed::Run(run) = world.queue.call(start).unwrap() else { panic!("no slot") };
    let recovered = recover(&world, &[(&run, Liveness::Alive)], Liveness::Dead);
    assert!(recovered.expired.is_empty());
    let kept = world.queue.reservation().unwrap().unwrap();
    assert_eq!(kept.expires_at, at(1_060));
    // And when it dies, its reservation goes with it.
    let recovered = recover(&world, &[(&run, Liveness::Dead)], Liveness::Dead);
    assert_eq!(recovered.expired, [direct.reservation_id]);
    assert_eq!(recovered.ended[0].job.retry_decision, Some(RetryDecision::Direct));
}
