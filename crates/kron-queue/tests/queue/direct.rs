//! Direct execution: one reservation at a time, and the queue waits.

use std::sync::{Arc, Barrier};

use kron_queue::{
    Claimed, Idle, NewJob, Outcome, Release, Renew, ReservationError, Reserve, RetryDecision,
    Rules, StartDirect,
};
use serde_json::json;

use crate::support::{World, at, process};

fn reserve(seconds: i64) -> Reserve {
    Reserve { reserved_by: "cli".into(), owner: process(1), lasts_ms: 10_000, now: at(seconds) }
}

#[test]
fn one_of_many_gets_the_slot() {
    let world = World::new(Rules::default());
    for round in 0..10 {
        let barrier = Arc::new(Barrier::new(8));
        let tries: Vec<_> = (0..8)
            .map(|_| {
                let (queue, barrier) = (world.queue.clone(), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    barrier.wait();
                    queue.call(reserve(round))
                })
            })
            .collect();
        let tries: Vec<_> = tries.into_iter().map(|one| one.join().unwrap()).collect();
        let won: Vec<_> = tries.iter().flatten().collect();
        assert_eq!(won.len(), 1);
        assert!(tries.iter().all(|one| matches!(one, Ok(_) | Err(ReservationError::Busy(_)))));
        let reservation_id = won[0].reservation_id;
        world.queue.call(Release { reservation_id, now: at(round) }).unwrap();
    }
}

#[test]
fn the_queue_waits_and_its_order_is_untouched() {
    let world = World::new(Rules::default());
    let (first, second) = (world.story(), world.story());
    let order = world.order();
    let running = world.claim(0);
    let held = world.queue.call(reserve(1)).unwrap();
    let start = |seconds| StartDirect {
        reservation_id: held.reservation_id,
        job: NewJob::of_type("story", json!({"direct": true})),
        worker_id: "direct".into(),
        now: at(seconds),
    };
    // What runs is not pre-empted.
    let busy = world.queue.call(start(1)).unwrap();
    assert!(matches!(busy, Claimed::Nothing(Idle::WorkersBusy)));
    world.finish(&running, Outcome::Completed, 2).unwrap();
    let world = world.reopen(Rules::default());
    let waiting = world.claim_at(3);
    assert!(matches!(waiting, Claimed::Nothing(Idle::Reserved(id)) if id == held.reservation_id));
    let Claimed::Run(direct) = world.queue.call(start(3)).unwrap() else { panic!("no slot") };
    assert!(matches!(world.queue.call(start(3)), Err(ReservationError::Used(_))));
    assert_eq!(world.order(), order[1..]);
    // Its time is over, but its run goes on.
    assert!(matches!(world.claim_at(100), Claimed::Nothing(Idle::Reserved(_))));
    let end = world.finish(&direct, Outcome::Failed, 101).unwrap();
    assert_eq!((end.successor, end.job.retry_decision), (None, Some(RetryDecision::Direct)));
    world.queue.call(Release { reservation_id: held.reservation_id, now: at(101) }).unwrap();
    assert_eq!(world.claim(102).job.job_id, second.job_id);
    let _ = first;
}

#[test]
fn a_reservation_ends_with_its_time_unless_it_is_renewed() {
    let world = World::new(Rules::default());
    let job = world.story();
    let held = world.queue.call(reserve(0)).unwrap();
    let id = held.reservation_id;
    world.queue.call(Renew { reservation_id: id, lasts_ms: 10_000, now: at(5) }).unwrap();
    assert!(matches!(world.claim_at(14), Claimed::Nothing(Idle::Reserved(_))));
    assert_eq!(world.claim(15).job.job_id, job.job_id);
    let late = world.queue.call(Renew { reservation_id: id, lasts_ms: 1, now: at(15) });
    assert!(matches!(late, Err(ReservationError::NotActive(_))));
    let late = world.queue.call(Release { reservation_id: id, now: at(15) });
    assert!(matches!(late, Err(ReservationError::NotActive(_))));
    assert!(world.queue.reservation().unwrap().is_none());
}
