//! Input that is too much, too deep or no text; and keys that make repeating harmless.

use kron_queue::{Enqueue, EnqueueError, Enqueued, Invalid, NewJob, Rules, limits};
use serde_json::{Value, json};

use crate::support::{World, at};

fn refused(world: &World, job: NewJob) -> Invalid {
    match world.queue.call(Enqueue { jobs: vec![job], now: at(0) }) {
        Err(EnqueueError::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_limit_is_told() {
    let world = World::new(Rules::default());
    let kind = |job_type: &str| NewJob::of_type(job_type, json!({}));
    let too_long = refused(&world, kind(&"x".repeat(limits::JOB_TYPE_BYTES_MAX + 1))).to_string();
    assert_eq!(too_long, "`job_type` has 65 bytes; at most 64 are allowed");
    assert_eq!(refused(&world, kind("")).code(), "empty");
    for bad in ["a b", "a/b", "a\0b", "ä", "a\n", "'; DROP TABLE jobs; --"] {
        assert_eq!(refused(&world, kind(bad)).code(), "bad-characters", "{bad:?}");
    }
    let with = |params: Value| NewJob::of_type("t", params);
    let huge = json!({"x": "y".repeat(limits::PARAMS_BYTES_MAX)});
    assert_eq!(refused(&world, with(huge)).code(), "too-long");
    for params in [json!([]), json!(null), json!("x"), json!(1)] {
        assert_eq!(refused(&world, with(params)).code(), "not-an-object");
    }
    let deep = (0..1_000).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    let deep = Value::Object([("x".to_owned(), deep)].into_iter().collect());
    assert_eq!(refused(&world, with(deep)).code(), "too-deep");
    let missing = NewJob { params: Some(json!({})), ..NewJob::default() };
    assert_eq!(refused(&world, missing).to_string(), "`job_type` is missing");
    let urgent = NewJob { priority: Some(i64::MAX), ..kind("t") };
    assert_eq!(refused(&world, urgent).code(), "out-of-range");
    for key in ["", "a\0b", &"k".repeat(limits::IDEMPOTENCY_KEY_BYTES_MAX + 1)] {
        refused(&world, NewJob { idempotency_key: Some(key.to_owned()), ..kind("t") });
    }
    let many = vec![kind("t"); limits::JOBS_PER_CALL_MAX + 1];
    assert!(world.queue.call(Enqueue { jobs: many, now: at(0) }).is_err());
    assert!(world.order().is_empty());
}

#[test]
fn what_is_allowed_comes_back_as_it_was() {
    let world = World::new(Rules::default());
    let params = json!({
        "nul": "a\u{0}b", "quote": "'\"`", "emoji": "😀", "big": u64::MAX, "small": i64::MIN,
        "float": 0.1, "null": [null], "sql": "'); DELETE FROM jobs; --",
    });
    let job = world.add(NewJob::of_type("t", params.clone()));
    assert_eq!(world.job(job.job_id).params, params);
    assert_eq!(world.claim(1).run.params_snapshot, params);
}

#[test]
fn all_of_a_call_or_nothing() {
    let world = World::new(Rules::default());
    let jobs = vec![NewJob::of_type("t", json!({})), NewJob::of_type("", json!({}))];
    assert!(world.queue.call(Enqueue { jobs, now: at(0) }).is_err());
    assert!(world.order().is_empty());
}

#[test]
fn a_key_makes_repeating_harmless() {
    let world = World::new(Rules::default());
    let keyed = |n: i64| NewJob {
        idempotency_key: Some("k".into()),
        ..NewJob::of_type("t", json!({ "n": n }))
    };
    let call = |job| world.queue.call(Enqueue { jobs: vec![job], now: at(0) });
    let Enqueued::New(first) = call(keyed(1)).unwrap().remove(0) else { panic!("not new") };
    let Enqueued::Known(again) = call(keyed(1)).unwrap().remove(0) else { panic!("twice") };
    assert_eq!(again, first);
    let other = call(keyed(2));
    assert!(
        matches!(other, Err(EnqueueError::KeyConflict { job_id, .. }) if job_id == first.job_id)
    );
    // Twice in one call, too, and after a restart.
    let both = world.queue.call(Enqueue { jobs: vec![keyed(1), keyed(1)], now: at(0) }).unwrap();
    assert!(both.iter().all(|one| matches!(one, Enqueued::Known(_))));
    let world = world.reopen(Rules::default());
    let racing: Vec<_> = (0..8)
        .map(|_| {
            let queue = world.queue.clone();
            std::thread::spawn(move || {
                let job = NewJob {
                    idempotency_key: Some("race".into()),
                    ..NewJob::of_type("t", json!({}))
                };
                queue.call(Enqueue { jobs: vec![job], now: at(1) }).unwrap().remove(0)
            })
        })
        .collect();
    let all: Vec<Enqueued> = racing.into_iter().map(|one| one.join().unwrap()).collect();
    assert_eq!(all.iter().filter(|one| matches!(one, Enqueued::New(_))).count(), 1);
    assert_eq!(world.order().len(), 2);
}
