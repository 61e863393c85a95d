//! A task whose id was there before: ids are for ever.

use kron_testkit::waiting::eventually;
use serde_json::json;

use crate::spool::site::{Site as _, alone, handler, text, world};

#[test]
fn the_same_task_again_is_nothing_new_in_any_state() {
    let world = world("", &alone("t", 0));
    let mut krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    world.put("waits", "t");
    // Running: what came again is gone.
    world.put("t", "t");
    let told = krond.wait_for("spool_repeated");
    assert_eq!((&told["task_id"], &told["other"]), (&json!("t"), &json!("running")));
    // Waiting: it waits once.
    world.put("waits", "t");
    eventually("one waits", || (world.names("tasks/pending") == ["waits.json"]).then_some(()));
    world.permit("go");
    world.completed("t");
    world.completed("waits");
    // Completed: never again, also not by another daemon.
    world.put("t", "t");
    let told = krond.wait_for("spool_repeated");
    assert_eq!(told["other"], "completed");
    krond.stop();
    world.put("waits", "t");
    let mut krond = world.start();
    eventually("it is gone", || world.names("tasks/pending").is_empty().then_some(()));
    assert_eq!(krond.events("spool_leftover_removed").len(), 1);
    krond.stop();
    assert_eq!(world.testimony("began"), ["t", "waits"]);
    assert!(world.testimony("twice").is_empty());
    assert!(world.names("rejected").is_empty());
}

#[test]
fn another_task_of_a_used_id_is_set_aside_and_never_run() {
    let world = world("", &(alone("t", 0) + &handler("waiting", "cat > {dir}/payload")));
    let krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    let other = text("t", "t", &json!("another"));
    world.drop_in("t.json", &other);
    assert_eq!(
        world.rejected("t.json"),
        "another task of this id is running already, with another payload; ids are for ever"
    );
    // One that waits is its producer's to replace.
    world.drop_in("w.json", &text("w", "waiting", &json!("old")));
    eventually("it is known", || (world.view()["pending"] == 1).then_some(()));
    world.drop_in("w.json", &text("w", "waiting", &json!("new")));
    world.permit("go");
    world.completed("t");
    world.completed("w");
    assert_eq!(world.testimony("payload"), [r#"{"data":"new","type":"waiting"}"#]);
    world.drop_in("t.json", &other);
    assert!(world.rejected("t.json.1").contains("is completed already"));
    krond.stop();
    world.drop_in("t.json", &other);
    let krond = world.start();
    assert!(world.rejected("t.json.2").contains("is completed already"));
    krond.stop();
    assert_eq!(world.testimony("began"), ["t"]);
}

#[test]
fn a_task_that_fails_while_it_was_put_again_waits_once() {
    let world = world("retries = 1", &alone("t", 1));
    let krond = world.start();
    world.put("t", "t");
    world.says("began", 1);
    krond.stop();
    world.put("t", "t");
    world.permit("go");
    world.says("ended", 1);
    let krond = world.start();
    let task = world.completed("t");
    assert_eq!((&task["attempts"], &task["result"]["exitCode"]), (&json!(2), &json!(1)));
    assert_eq!(world.testimony("began").len(), 2);
    assert!(world.testimony("twice").is_empty());
    assert!(world.names("tasks/pending").is_empty());
    krond.stop();
}
