//! Direct execution over the socket.

use std::thread;

use kron_testkit::krond::World;
use kron_testkit::waiting::eventually;
use serde_json::{Value, json};

use crate::queue::site::{Site as _, handler, world};

const WAITS: &str = "read n; echo $n >> {dir}/began; \
     while [ ! -e {dir}/go ]; do sleep 0.01; done; exit 4";

fn direct(world: &World, wait_ms: i64) -> (u16, Value) {
    let body = json!({ "job_type": "w", "params": { "direct": true }, "wait_ms": wait_ms });
    world.ask("POST", "/api/v1/direct", &body.to_string())
}

#[test]
fn the_next_slot_is_the_callers_and_the_queue_is_as_it_was() {
    let world = world(&(handler("w", WAITS) + "retries = 0\n"));
    let krond = world.start();
    let first = world.add("w", json!({ "n": 1 }));
    let second = world.add("w", json!({ "n": 2 }));
    eventually("the first runs", || (world.testimony("began").len() == 1).then_some(()));
    let (status, busy) = direct(&world, 0);
    assert_eq!(status, 409, "{busy}");
    let (status, answer) = thread::scope(|scope| {
        let caller = scope.spawn(|| direct(&world, 300_000));
        eventually("it is reserved", || {
            (!world.get("/api/v1/queue")["reservation"].is_null()).then_some(())
        });
        world.permit("go");
        caller.join().unwrap()
    });
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["run"]["exit_code"], 4);
    world.reaches(&first, "failed");
    world.reaches(&second, "failed");
    let began = world.testimony("began");
    assert_eq!(began, ["{\"n\":1}", "{\"direct\":true}", "{\"n\":2}"]);
    assert!(world.get("/api/v1/queue")["reservation"].is_null());
    assert_eq!(world.chain(answer["job"]["job_id"].as_str().unwrap()).len(), 1, "never retried");
    krond.stop();
}

#[test]
fn a_reservation_of_a_dead_daemon_expires_at_once_and_that_of_a_live_run_lasts() {
    let world = world(&(handler("w", WAITS) + "retries = 0\n"));
    let krond = world.start();
    let caller = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let body = json!({ "job_type": "w", "params": {} }).to_string();
            // The daemon is killed under it: there is no answer.
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                world.ask("POST", "/api/v1/direct", &body)
            }))
        });
        eventually("it runs", || (world.testimony("began").len() == 1).then_some(()));
        krond.kill();
        caller.join().unwrap()
    });
    assert!(caller.is_err(), "{caller:?}");
    let krond = world.start();
    assert!(!world.get("/api/v1/queue")["reservation"].is_null(), "its run is alive");
    let queued = world.add("w", json!({}));
    assert_eq!(world.job(&queued)["state"], "queued");
    world.permit("go");
    world.reaches(&queued, "failed");
    assert!(world.get("/api/v1/queue")["reservation"].is_null());
    krond.stop();
}
