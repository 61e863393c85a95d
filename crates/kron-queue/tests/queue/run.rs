//! The life of a run: claims, ends, retries, cancelling, pauses and limits.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

use kron_queue::{
    Artifact, AttachProcess, Cancel, CancelOutcome, Change, ClaimToken, Claimed, Edit, Enqueue,
    Finish, Idle, JobState, JobStatus, NewJob, Outcome, Resume, Retry, RetryDecision, RetryPolicy,
    Rules, RunEnd, RunError, RunStatus, SetPause, SetRules, limits,
};
use serde_json::json;

use crate::support::{World, at, many_workers, process};

#[test]
fn a_claim_makes_its_run_with_it() {
    let world = World::new(Rules::default());
    let changes = world.queue.subscribe(100);
    let job = world.story();
    assert_eq!((job.status, job.state), (JobStatus::Queued, JobState::Queued));
    let claimed = world.claim(5);
    assert_eq!(claimed.job.job_id, job.job_id);
    assert_eq!(claimed.job.state, JobState::Running);
    assert_eq!(claimed.job.started_at, Some(at(5)));
    assert_eq!(claimed.job.worker_id.as_deref(), Some("w"));
    assert_eq!(claimed.run.params_snapshot, json!({"n": 1}));
    assert_eq!(claimed.run.status, None);
    assert_eq!(world.queue.run_of(job.job_id).unwrap(), Some(claimed.run.clone()));
    assert_eq!(world.job(job.job_id), claimed.job);
    let done = world.finish(&claimed, Outcome::Completed, 6).unwrap();
    assert_eq!(world.queue.run_of(job.job_id).unwrap(), Some(done.run.clone()));
    assert_eq!(world.job(job.job_id), done.job);
    assert_eq!((done.job.status, done.job.state), (JobStatus::Running, JobState::Completed));
    assert_eq!(done.run.status, Some(RunStatus::Completed));
    assert_eq!((done.run.finished_at, done.job.finished_at), (Some(at(6)), Some(at(6))));
    assert_eq!(done.successor, None);
    let told: Vec<Change> = (0..3).map(|_| changes.recv().unwrap()).collect();
    let (job_id, run_id) = (job.job_id, claimed.run.run_id);
    assert_eq!(
        told,
        [
            Change::Enqueued { job_id },
            Change::Started { job_id, run_id },
            Change::Finished { job_id, run_id }
        ]
    );
}

#[test]
fn exactly_one_end_wins() {
    let world = World::new(many_workers());
    for _ in 0..20 {
        world.story();
        let claimed = world.claim(1);
        let barrier = Arc::new(Barrier::new(8));
        let ends: Vec<_> = (0..8)
            .map(|n| {
                let (queue, claimed) = (world.queue.clone(), claimed.clone());
                let barrier = Arc::clone(&barrier);
                std::thread::spawn(move || {
                    barrier.wait();
                    let mut end = RunEnd::new(Outcome::Completed);
                    end.exit_code = Some(n);
                    let (run_id, token) = (claimed.run.run_id, claimed.token);
                    queue.call(Finish { run_id, token, end, now: at(2) })
                })
            })
            .collect();
        let ends: Vec<_> = ends.into_iter().map(|end| end.join().unwrap()).collect();
        let won: Vec<_> = ends.iter().filter_map(|end| end.as_ref().ok()).collect();
        assert_eq!(won.len(), 1);
        assert!(ends.iter().all(|end| matches!(end, Ok(_) | Err(RunError::RunEnded(_)))));
        assert_eq!(world.queue.run(claimed.run.run_id).unwrap().unwrap(), won[0].run);
    }
}

#[test]
fn one_job_is_claimed_once_by_many_threads() {
    let world = World::new(many_workers());
    for _ in 0..50 {
        world.story();
    }
    let claims: Vec<_> = (0..8)
        .map(|n| {
            let queue = world.queue.clone();
            std::thread::spawn(move || {
                let mut got = Vec::new();
                loop {
                    let claim = kron_queue::Claim { worker_id: format!("w{n}"), now: at(1) };
                    match queue.call(claim).unwrap() {
                        Claimed::Run(run) => got.push(run.job.job_id),
                        Claimed::Nothing(_) => return got,
                    }
                }
            })
        })
        .collect();
    let mut all: Vec<_> = claims.into_iter().flat_map(|claim| claim.join().unwrap()).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 50);
}

#[test]
fn a_wrong_token_ends_nothing() {
    let world = World::new(Rules::default());
    world.story();
    let mut claimed = world.claim(1);
    let right = std::mem::replace(&mut claimed.token, ClaimToken::presented("0000"));
    let refused = world.finish(&claimed, Outcome::Completed, 2);
    assert!(matches!(refused, Err(RunError::WrongToken(_))));
    assert_eq!(world.job(claimed.job.job_id).state, JobState::Running);
    claimed.token = right;
    world.finish(&claimed, Outcome::Completed, 2).unwrap();
}

#[test]
fn a_chain_has_an_original_and_three_retries() {
    let world = World::new(Rules::default());
    let first =
        world.add(NewJob { priority: Some(3), ..NewJob::of_type("story", json!({"n": 1})) });
    let mut waits = Vec::new();
    let mut now = 10;
    let last = loop {
        let claimed = world.claim(now);
        let end = world.finish(&claimed, Outcome::Failed, now).unwrap();
        match end.successor {
            Some(next) => {
                assert_eq!(next.retry_of, Some(claimed.job.job_id));
                assert_eq!((next.priority, &next.params), (3, &first.params));
                assert_eq!(next.state, JobState::Delayed);
                let wait = (next.not_before.unwrap().unix_ms() - at(now).unix_ms()) / 1_000;
                // Not a second before its time.
                assert!(matches!(
                    world.claim_at(now + wait - 1),
                    Claimed::Nothing(Idle::Empty { next_at: Some(_) })
                ));
                waits.push(wait);
                now += wait;
            }
            None => break end.job,
        }
    };
    assert_eq!(waits, [10, 20, 40]);
    assert_eq!((last.attempt, last.retry_decision), (3, Some(RetryDecision::Exhausted)));
    let chain = world.queue.chain(last.job_id).unwrap();
    assert_eq!(chain.iter().map(|job| job.attempt).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(chain[0].job_id, first.job_id);
    // A greater limit does not bring it back; a person does.
    let retry = RetryPolicy { retries_max: 9, ..RetryPolicy::default() };
    world.queue.call(SetRules { rules: Rules { retry, ..Rules::default() } }).unwrap();
    assert!(matches!(
        world.claim_at(now + 10_000),
        Claimed::Nothing(Idle::Empty { next_at: None })
    ));
    let by_hand = world.queue.call(Retry { job_id: last.job_id, now: at(now) }).unwrap();
    assert_eq!((by_hand.attempt, by_hand.state), (4, JobState::Queued));
    let twice = world.queue.call(Retry { job_id: last.job_id, now: at(now) });
    assert!(matches!(twice, Err(RunError::Retried(_))));
    let queued = world.queue.call(Retry { job_id: by_hand.job_id, now: at(now) });
    assert!(matches!(queued, Err(RunError::JobNotEnded(_))));
}

#[test]
fn a_retry_goes_to_the_end() {
    let world = World::new(Rules::default());
    world.story();
    let claimed = world.claim(1);
    let other = world.story();
    let end = world.finish(&claimed, Outcome::Failed, 2).unwrap();
    assert_eq!(world.order(), [other.job_id, end.successor.unwrap().job_id]);
}

#[test]
fn cancelling_queued_and_running_jobs() {
    let world = World::new(Rules::default());
    let queued = world.story();
    let cancelled = world.queue.call(Cancel { job_id: queued.job_id, now: at(1) }).unwrap();
    assert!(matches!(cancelled, CancelOutcome::Cancelled(job) if job.state == JobState::Cancelled));
    let again = world.queue.call(Cancel { job_id: queued.job_id, now: at(1) });
    assert!(matches!(again, Err(RunError::JobEnded(_))));

    let running = world.story();
    let claimed = world.claim(2);
    let asked = world.queue.call(Cancel { job_id: running.job_id, now: at(3) }).unwrap();
    assert!(matches!(asked, CancelOutcome::Requested(both) if both.0.state == JobState::Running));
    let end = world.finish(&claimed, Outcome::Failed, 4).unwrap();
    assert_eq!((end.job.status, end.job.state), (JobStatus::Cancelled, JobState::Cancelled));
    assert_eq!(end.run.status, Some(RunStatus::Failed));
    assert_eq!(end.run.error.as_deref(), Some("cancelled"));
    assert_eq!((end.successor, end.job.retry_decision), (None, Some(RetryDecision::Cancelled)));

    // What was done before the signal came is done.
    let done = world.story();
    let claimed = world.claim(5);
    world.queue.call(Cancel { job_id: done.job_id, now: at(6) }).unwrap();
    let end = world.finish(&claimed, Outcome::Completed, 7).unwrap();
    assert_eq!(end.job.state, JobState::Completed);
}

#[test]
fn workers_types_and_pauses_filter_and_never_reorder() {
    let limits = BTreeMap::from([("a".to_owned(), 1)]);
    let world = World::new(Rules { workers_max: 3, type_limits: limits, ..Rules::default() });
    let add = |kind: &str| world.add(NewJob::of_type(kind, json!({}))).job_id;
    let (a1, a2, b1, c1, b2) = (add("a"), add("a"), add("b"), add("c"), add("b"));
    let first = world.claim(1);
    assert_eq!(first.job.job_id, a1);
    world
        .queue
        .call(SetPause { job_type: Some("b".into()), reason: "b is broken".into(), now: at(1) })
        .unwrap();
    // a is full and b paused: c is the first of the open ones.
    let second = world.claim(2);
    assert_eq!(second.job.job_id, c1);
    assert!(matches!(world.claim_at(2), Claimed::Nothing(Idle::TypesClosed { .. })));
    let world = world.reopen(Rules {
        workers_max: 3,
        type_limits: BTreeMap::from([("a".to_owned(), 1)]),
        ..Rules::default()
    });
    assert_eq!(world.queue.pauses().unwrap().len(), 1);
    assert!(matches!(world.claim_at(2), Claimed::Nothing(Idle::TypesClosed { .. })));
    world.queue.call(Resume { job_type: Some("b".into()) }).unwrap();
    assert_eq!(world.claim(3).job.job_id, b1);
    assert!(matches!(world.claim_at(3), Claimed::Nothing(Idle::WorkersBusy)));
    world.finish(&first, Outcome::Completed, 4).unwrap();
    let whole = SetPause { job_type: None, reason: "stop".into(), now: at(4) };
    world.queue.call(whole).unwrap();
    assert!(
        matches!(world.claim_at(4), Claimed::Nothing(Idle::Paused { reason }) if reason == "stop")
    );
    world.queue.call(Resume { job_type: None }).unwrap();
    assert_eq!(world.claim(5).job.job_id, a2);
    world.finish(&second, Outcome::Skipped, 6).unwrap();
    assert_eq!(world.claim(6).job.job_id, b2);
}

#[test]
fn delayed_jobs_keep_their_place() {
    let world = World::new(many_workers());
    let later = NewJob { not_before: Some(at(10)), ..NewJob::of_type("t", json!({})) };
    let (first, second) = (world.add(later.clone()), world.add(later));
    let third = world.add(NewJob::of_type("t", json!({})));
    assert_eq!(world.order(), [first.job_id, second.job_id, third.job_id]);
    assert_eq!(world.claim(9).job.job_id, third.job_id);
    let next = world.claim_at(9);
    assert!(matches!(next, Claimed::Nothing(Idle::Empty { next_at }) if next_at == Some(at(10))));
    let none = Edit { job_id: second.job_id, params: None, not_before: Some(None), now: at(9) };
    world.queue.call(none).unwrap();
    assert_eq!(world.claim(9).job.job_id, second.job_id);
    assert_eq!(world.claim(10).job.job_id, first.job_id);
}

#[test]
fn params_change_only_while_queued() {
    let world = World::new(many_workers());
    let job = world.story();
    let edit =
        Edit { job_id: job.job_id, params: Some(json!({"n": 2})), not_before: None, now: at(1) };
    assert_eq!(world.queue.call(edit.clone()).unwrap().params, json!({"n": 2}));
    assert_eq!(world.claim(1).run.params_snapshot, json!({"n": 2}));
    assert!(matches!(world.queue.call(edit), Err(RunError::NotQueued(_))));
}

#[test]
fn a_run_has_one_process_and_its_artifacts() {
    let world = World::new(Rules::default());
    world.story();
    let claimed = world.claim(1);
    let (run_id, token) = (claimed.run.run_id, claimed.token.clone());
    let attach = |pid| AttachProcess {
        run_id,
        token: token.clone(),
        process: process(pid),
        command: None,
        log_path: Some("/log/1".into()),
    };
    world.queue.call(attach(1)).unwrap();
    world.queue.call(attach(1)).unwrap();
    assert!(matches!(world.queue.call(attach(2)), Err(RunError::ProcessKnown(_))));
    let artifact = Artifact { path: "a.txt".into(), size_bytes: 3, sha256: "0".repeat(64) };
    let error = "é".repeat(limits::ERROR_BYTES_MAX);
    let end = RunEnd {
        exit_code: Some(1),
        error: Some(error),
        artifacts: vec![artifact.clone()],
        ..RunEnd::new(Outcome::Failed)
    };
    let end = world.queue.call(Finish { run_id, token: token.clone(), end, now: at(2) }).unwrap();
    assert_eq!(end.run.artifacts, [artifact]);
    assert_eq!(end.run.process, Some(process(1)));
    let error = end.run.error.unwrap();
    assert!(error.len() <= limits::ERROR_BYTES_MAX && error.ends_with("… (cut)"));
}

#[test]
fn pages_meet_without_gaps() {
    let world = World::new(many_workers());
    let jobs = (0..25).map(|n| NewJob::of_type(if n % 2 == 0 { "a" } else { "b" }, json!({})));
    world.queue.call(Enqueue { jobs: jobs.collect(), now: at(0) }).unwrap();
    let filter = kron_queue::JobFilter { job_type: Some("a".into()), ..Default::default() };
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = world.queue.jobs(&filter, after.as_ref(), 4).unwrap();
        seen.extend(page.items.into_iter().map(|job| job.job_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 13);
    assert!(seen.is_sorted_by(|a, b| a > b), "newest first");
    let bad = kron_queue::Cursor::presented("x1");
    assert!(world.queue.jobs(&filter, Some(&bad), 4).is_err());
    assert!(world.queue.order(Some(&bad), 4).is_err());
}
