//! Webhooks, numbers, and the end of what is old.

use kron_queue::{
    ClaimDeliveries, ClaimDelivery, CreateGroup, DeliveryStatus, FinishDelivery, GroupMode,
    Liveness, NewJob, OnFailure, Outcome, Purge, Recover, RetryPolicy, Rules, Webhook, limits,
};
use serde_json::json;

use crate::support::{World, at, many_workers};

fn with_webhook() -> Rules {
    let events = vec!["job.completed".to_owned(), "job.failed".to_owned()];
    let webhooks = vec![Webhook { target: "ops".into(), events }];
    Rules { webhooks, ..many_workers() }
}

#[test]
fn a_webhook_is_written_with_its_end_and_tried_four_times() {
    let world = World::new(with_webhook());
    world.story();
    let run = world.claim(1);
    let claim =
        |seconds| world.queue.call(ClaimDeliveries { lease_ms: 5_000, now: at(seconds) }).unwrap();
    assert!(claim(1).is_empty(), "the start is not asked for");
    world.finish(&run, Outcome::Completed, 2).unwrap();
    // A second end is refused, and tells nothing.
    world.finish(&run, Outcome::Failed, 2).unwrap_err();
    let delivery = claim(2).remove(0);
    assert_eq!((delivery.event.as_str(), delivery.attempts), ("job.completed", 1));
    assert_eq!(delivery.payload["job"]["state"], "completed");
    assert_eq!(delivery.payload["run"]["status"], "COMPLETED");
    assert!(claim(6).is_empty(), "somebody tries");
    // Nobody told how that ended: it is tried again.
    assert_eq!(claim(7).remove(0).attempts, 2);
    let say = world.shell().execute_batch("UPDATE webhook_deliveries SET payload = '{}'");
    assert!(say.unwrap_err().to_string().contains("immutable"));
    let id = delivery.delivery_id;
    let fail = |http_status, seconds| {
        let error = Some("no".to_owned());
        let end = FinishDelivery { delivery_id: id, http_status, error, now: at(seconds) };
        world.queue.call(end).unwrap()
    };
    assert_eq!(fail(Some(500), 8), DeliveryStatus::Pending);
    assert!(claim(47).is_empty());
    assert_eq!(claim(48).remove(0).attempts, 3);
    assert_eq!(fail(None, 50), DeliveryStatus::Pending);
    assert_eq!(claim(1_000).remove(0).attempts, limits::DELIVERY_ATTEMPTS_MAX);
    assert_eq!(fail(Some(302), 1_001), DeliveryStatus::Failed);
    assert!(claim(100_000).is_empty());
    let log = world.queue.delivery_log(id).unwrap();
    let tries: Vec<_> = log.iter().map(|one| (one.attempt, one.http_status)).collect();
    assert_eq!(tries, [(2, Some(500)), (3, None), (4, Some(302))]);
    let late = FinishDelivery { delivery_id: id, http_status: Some(200), error: None, now: at(0) };
    assert!(world.queue.call(late).is_err());
    let again = world.shell().execute_batch("UPDATE webhook_deliveries SET status = 'pending'");
    assert!(again.unwrap_err().to_string().contains("ends once"));
}

#[test]
fn what_an_earlier_daemon_was_delivering_is_due_at_once_and_what_waits_still_waits() {
    let world = World::new(with_webhook());
    for _ in 0..2 {
        world.story();
        let run = world.claim(1);
        world.finish(&run, Outcome::Completed, 2).unwrap();
    }
    let next = |seconds| {
        let claim = ClaimDelivery { target: "ops".into(), lease_ms: 600_000, now: at(seconds) };
        world.queue.call(claim).unwrap().delivery
    };
    let (failed, open) = (next(2).unwrap(), next(2).unwrap());
    let error = Some("no".to_owned());
    let delivery_id = failed.delivery_id;
    let end = FinishDelivery { delivery_id, http_status: None, error, now: at(3) };
    world.queue.call(end).unwrap();
    assert!(next(4).is_none(), "one waits for its backoff, the other is being tried");
    let recover = Recover {
        runs: std::collections::BTreeMap::new(),
        reservation_owner: Liveness::Dead,
        reservation_lasts_ms: 1_000,
        now: at(5),
    };
    world.queue.call(recover).unwrap();
    let again = next(5).expect("it is due");
    assert_eq!((again.delivery_id, again.attempts), (open.delivery_id, 2));
    assert!(next(5).is_none(), "a backoff lasts over a restart");
}

#[test]
fn a_delivery_that_is_taken_is_over() {
    let world = World::new(with_webhook());
    world.story();
    world.finish(&world.claim(1), Outcome::Failed, 2).unwrap();
    let claim = ClaimDeliveries { lease_ms: 5_000, now: at(2) };
    let delivery_id = world.queue.call(claim).unwrap().remove(0).delivery_id;
    let end = FinishDelivery { delivery_id, http_status: Some(204), error: None, now: at(3) };
    assert_eq!(world.queue.call(end).unwrap(), DeliveryStatus::Delivered);
    assert_eq!(world.queue.statistics(at(0)).unwrap().deliveries_pending, 0);
}

#[test]
fn numbers_are_derived() {
    let world = World::new(many_workers());
    for _ in 0..4 {
        world.story();
    }
    world.add(NewJob { not_before: Some(at(50)), ..NewJob::of_type("later", json!({})) });
    world.finish(&world.claim(1), Outcome::Completed, 2).unwrap();
    world.finish(&world.claim(1), Outcome::Failed, 3).unwrap();
    world.claim(4);
    let numbers = world.queue.statistics(at(0)).unwrap();
    assert_eq!((numbers.queued, numbers.delayed, numbers.blocked), (1, 2, 0));
    assert_eq!((numbers.running, numbers.completed, numbers.failed), (1, 1, 1));
    assert_eq!(numbers.types.len(), 1);
    assert_eq!((numbers.types[0].queued, numbers.types[0].running), (1, 1));
    assert_eq!(numbers.oldest_queued_at, Some(at(0)));
    assert_eq!(world.queue.statistics(at(3)).unwrap().completed, 0);
}

#[test]
fn old_chains_and_groups_go_as_a_whole() {
    let retry = RetryPolicy { backoff_first_ms: 0, retries_max: 1, ..RetryPolicy::default() };
    let world = World::new(Rules { retry, ..many_workers() });
    // A chain whose last job ended late stays, all of it.
    let late = world.story();
    world.finish(&world.claim(1), Outcome::Failed, 2).unwrap();
    world.finish(&world.claim(100), Outcome::Completed, 100).unwrap();
    // One that ended early goes.
    let early = world.story();
    world.finish(&world.claim(1), Outcome::Failed, 2).unwrap();
    world.finish(&world.claim(3), Outcome::Failed, 3).unwrap();
    let group = |seconds: i64| {
        let jobs = vec![NewJob::of_type("g", json!({})); 2];
        let (mode, on_failure) = (GroupMode::Parallel, OnFailure::Continue);
        let create = CreateGroup { name: None, mode, on_failure, jobs, now: at(0) };
        let (group, _) = world.queue.call(create).unwrap();
        world.finish(&world.claim(1), Outcome::Completed, 2).unwrap();
        world.finish(&world.claim(1), Outcome::Completed, seconds).unwrap();
        group.group_id
    };
    let (old, young) = (group(4), group(100));
    let queued = world.story();
    let purged = world.queue.call(Purge { ended_before: at(50) }).unwrap();
    assert_eq!((purged.jobs, purged.groups, purged.more), (4, 1, false));
    assert_eq!(world.queue.chain(late.job_id).unwrap().len(), 2);
    assert!(world.queue.job(early.job_id).unwrap().is_none());
    assert!(world.queue.group(old).unwrap().is_none());
    assert!(world.queue.group(young).unwrap().is_some());
    assert!(world.queue.job(queued.job_id).unwrap().is_some());
}
