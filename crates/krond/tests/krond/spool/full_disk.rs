//! A disk on which there is really no room left.

use std::fs;

use kron_spool::{NewTask, Put, Spool, TaskId};
use kron_testkit::needs::left_out;
use kron_testkit::tmpfs_mount::{NEEDS, TmpfsMount};
use kron_testkit::waiting::eventually;

use crate::spool::site::{Site as _, alone, handler, text, world};

#[test]
fn what_was_put_before_the_disk_was_full_ends_once_when_there_is_room() {
    if left_out("a full disk", NEEDS) {
        return;
    }
    let world = world("workers = 2", &alone("t", 0));
    let mount = TmpfsMount::at(world.spool_path(""), 1 << 10);
    let mut krond = world.start();
    let spool = Spool::open_to_put(&world.spool_path("")).unwrap();
    let task = |id: &str| NewTask::new(TaskId::new(id).unwrap(), "t", "{}").unwrap();
    let ids: Vec<String> = (0..6).map(|n| format!("t{n}")).collect();
    let tasks: Vec<NewTask> = ids.iter().map(|id| task(id)).collect();
    let now = "2026-01-06T10:15:30Z".parse().unwrap();
    assert!(spool.put(&tasks, now).into_iter().all(|put| matches!(put, Ok(Put::New))));
    world.says("began", 2);
    mount.fill_but(0);
    let refused = spool.put(&[task("late")], now).pop().unwrap().unwrap_err();
    let source = std::error::Error::source(&refused).map(ToString::to_string);
    assert!(source.is_some_and(|it| it.contains("No space left")), "{refused:?}");
    assert!(!world.pending("late.json").exists(), "what was not acknowledged is not there");
    // Something wrong comes as well, and there is no room for a report.
    fs::create_dir(world.pending("wrong id.json")).unwrap();
    assert_eq!(krond.wait_for("spool_stuck")["name"], "wrong id.json");
    world.permit("go");
    let told = krond.wait_for("spool_refused");
    assert!(told["message"].as_str().unwrap().contains("No space left"), "{told}");
    assert!(world.view()["error"].is_null(), "it goes on when there is room");
    assert_eq!(world.names("tasks/running").len(), 2, "their ends are not recorded");
    mount.make_room();
    for id in &ids {
        assert_eq!(world.completed(id)["attempts"], 1, "{id}");
    }
    world.rejected("wrong id.json");
    assert_eq!(krond.events("spool_stuck").len(), 1, "told once");
    assert!(matches!(spool.put(&[task("late")], now)[..], [Ok(Put::New)]));
    world.completed("late");
    eventually("nothing waits", || world.names("tasks/pending").is_empty().then_some(()));
    krond.stop();
    let mut began = world.testimony("began");
    began.sort();
    assert_eq!(began.len(), 7);
    began.dedup();
    assert_eq!(began.len(), 7, "each once");
    let temporary = fs::read_dir(world.spool_path("tasks/pending")).unwrap().count();
    assert_eq!(temporary, 0, "nothing half is left");
    drop(mount);
}

/// A start that has no room to put things in order does so when there is.
#[test]
fn what_could_not_be_put_in_order_at_the_start_is_later() {
    if left_out("a full disk", NEEDS) {
        return;
    }
    let world = world("", &handler("t", "echo $KRON_TASK_ID >> {dir}/began"));
    let mount = TmpfsMount::at(world.spool_path(""), 1 << 10);
    world.start().stop();
    let text = text("lost", "t", &serde_json::Value::Null).replace("PENDING", "RUNNING");
    let text = text.replacen('{', "{\"attempts\":1,", 1);
    fs::write(world.spool_path("tasks/running/lost.json"), text).unwrap();
    mount.fill_but(0);
    let mut krond = world.start();
    let told = krond.events("spool_stuck");
    assert!(told[0]["message"].as_str().unwrap().contains("No space left"), "{told:?}");
    mount.make_room();
    let task = world.completed("lost");
    assert_eq!((&task["attempts"], &task["lostAttempts"]), (&2.into(), &1.into()), "{task}");
    assert_eq!(world.testimony("began"), ["lost"]);
    assert_eq!(krond.events("spool_stuck").len(), 1, "told once");
    krond.stop();
    drop(mount);
}
