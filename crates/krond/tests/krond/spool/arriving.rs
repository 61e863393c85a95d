//! How tasks come: anything that puts a whole file into `pending/` is a producer.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kron_core::Timestamp;
use kron_spool::{NewTask, Put, Spool, TaskId};
use kron_testkit::files::read;
use kron_testkit::krond::World;
use kron_testkit::waiting::{self, PATIENCE, eventually};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::spool::site::{Site as _, handler, text, world};

const RAN: &str = "echo $KRON_TASK_ID >> {dir}/ran";

fn now() -> Timestamp {
    "2026-01-06T10:15:30Z".parse().unwrap()
}

/// How long the daemon waits for a producer that has begun and not finished.
const SETTLING_MS: i64 = 2_000;

/// The present in milliseconds since 1970, by the clock that files have their times from.
fn time_of_files_ms(world: &World) -> i64 {
    let stamp = world.witness("stamp");
    fs::write(&stamp, "now").unwrap();
    let metadata = fs::metadata(&stamp).unwrap();
    metadata.ctime() * 1_000 + metadata.ctime_nsec() / 1_000_000
}

/// Puts a task in several steps, as `put` does it with an id, until one is executed; returns its id.
///
/// The daemon waits two seconds for a task that is not finished, and a busy machine may need longer
/// between two steps. So a task that was set aside is put again under another id, and its files are
/// added to `set_aside`; but only if the daemon did wait so long.
fn put_in_steps(
    world: &World,
    way: &str,
    set_aside: &mut Vec<String>,
    put: impl Fn(&str),
) -> String {
    let deadline = waiting::now() + PATIENCE;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let id = format!("{way}-{attempts}");
        let since_ms = time_of_files_ms(world);
        put(&id);
        let rejected = format!("{id}.json");
        let report = format!("{rejected}.report");
        let ended = eventually(&format!("{id} has ended or is set aside"), || {
            if let Some(task) = world.task("completed", &id) {
                return Some(Ok(task));
            }
            fs::metadata(world.spool_path("rejected").join(&rejected)).ok()?;
            let text = read(&world.spool_path("rejected").join(&report))?;
            Some(Err(serde_json::from_str::<Value>(&text).ok()?))
        });
        match ended {
            Ok(task) => {
                assert_eq!(task["result"]["outcome"], "SUCCEEDED");
                return id;
            }
            Err(why) => {
                let at: Timestamp = why["rejectedAt"].as_str().unwrap().parse().unwrap();
                assert!(at.unix_ms() - since_ms >= SETTLING_MS, "set aside too early: {why}");
                assert!(waiting::now() < deadline, "its steps always take too long: {why}");
                set_aside.extend([rejected, report]);
            }
        }
    }
}

#[test]
fn a_task_comes_by_rename_by_link_by_copy_and_by_the_library() {
    let world = world("workers = 4", &(handler("t", RAN) + &handler("other", "true")));
    let krond = world.start();
    world.put("by-rename", "t");

    let spool = Spool::open_to_put(&world.spool_path("")).unwrap();
    let task = NewTask::new(TaskId::new("by-library").unwrap(), "t", "{}").unwrap();
    let put = spool.put(&[task.clone(), task], now());
    assert!(matches!(put[..], [Ok(Put::New), Ok(Put::Present { .. })]), "{put:?}");

    let mut set_aside = Vec::new();
    let by_link = put_in_steps(&world, "by-link", &mut set_aside, |id| {
        let draft = world.pending(".draft");
        fs::write(&draft, text(id, "t", &Value::Null)).unwrap();
        fs::hard_link(&draft, world.pending(&format!("{id}.json"))).unwrap();
        fs::remove_file(&draft).unwrap();
    });

    let by_copy = put_in_steps(&world, "by-copy", &mut set_aside, |id| {
        let outside = world.witness("outside");
        fs::write(&outside, text(id, "t", &Value::Null)).unwrap();
        fs::copy(&outside, world.pending(&format!("{id}.json"))).unwrap();
    });

    // Written where it is, in pieces: not taken before it is whole, and not set aside.
    let in_pieces = put_in_steps(&world, "in-pieces", &mut set_aside, |id| {
        let name = format!("{id}.json");
        let whole = text(id, "t", &Value::Null);
        let mut file = File::create(world.pending(&name)).unwrap();
        file.write_all(&whole.as_bytes()[..20]).unwrap();
        file.sync_all().unwrap();
        // What comes after it has been executed, so the daemon has looked at it.
        world.put(&format!("other-{id}"), "other");
        world.completed(&format!("other-{id}"));
        let is_set_aside = || world.spool_path("rejected").join(&name).exists();
        assert!(world.pending(&name).exists() || is_set_aside(), "it was taken before it is whole");
        file.write_all(&whole.as_bytes()[20..]).unwrap();
    });

    for id in ["by-rename", "by-library"] {
        assert_eq!(world.completed(id)["result"]["outcome"], "SUCCEEDED");
    }
    let mut ran = world.testimony("ran");
    ran.sort();
    assert_eq!(ran, [&*by_copy, "by-library", &*by_link, "by-rename", &*in_pieces]);
    set_aside.sort();
    assert_eq!(world.names("rejected"), set_aside);
    assert!(world.names("tasks/pending").is_empty());
    krond.stop();
}

#[test]
fn many_that_wait_for_the_daemon_and_many_that_come_meanwhile_all_run_once() {
    const EACH: usize = 150;
    let world = world("workers = 8", &handler("t", RAN));
    world.make_pending();
    for n in 0..EACH {
        world.put(&format!("before-{n:03}"), "t");
    }
    let krond = world.start();
    let spool = Spool::open_to_put(&world.spool_path("")).unwrap();
    let tasks: Vec<NewTask> = (0..EACH)
        .map(|n| NewTask::new(TaskId::new(&format!("after-{n:03}")).unwrap(), "t", "1").unwrap())
        .collect();
    assert!(spool.put(&tasks, now()).into_iter().all(|put| matches!(put, Ok(Put::New))));
    eventually("all have ended", || {
        (world.names("tasks/completed").len() == 2 * EACH).then_some(())
    });
    krond.stop();
    let mut ran = world.testimony("ran");
    ran.sort();
    let all = ran.len();
    ran.dedup();
    assert_eq!((all, ran.len()), (2 * EACH, 2 * EACH), "each of them, and once");
    assert!(world.names("tasks/running").is_empty());
}

#[test]
fn the_oldest_waiting_task_is_started_first() {
    let world = world("", &handler("t", RAN));
    world.make_pending();
    for (id, created) in [
        ("b", "2026-01-06T10:00:02Z"),
        ("a", "2026-01-06T10:00:03Z"),
        ("d", "2026-01-06T12:00:01+02:00"),
        ("c", "2026-01-06T10:00:02Z"),
    ] {
        let text = json!({ "taskId": id, "state": "PENDING", "createdAt": created,
            "payload": { "type": "t" } });
        world.drop_in(&format!("{id}.json"), &text.to_string());
    }
    // They are found together, and there is one worker.
    let _krond = world.start();
    let ran = world.says("ran", 4);
    assert_eq!(ran, ["d", "b", "c", "a"]);
}

#[test]
fn a_task_that_is_taken_away_while_it_waits_is_not_run() {
    let blocked = handler(
        "t",
        "echo $KRON_TASK_ID >> {dir}/ran; \
        while [ ! -e {dir}/go ]; do sleep 0.01; done",
    );
    let world = world("", &blocked);
    let krond = world.start();
    world.put("first", "t");
    world.says("ran", 1);
    world.put("second", "t");
    world.put("third", "t");
    eventually("both are known", || (world.view()["pending"] == 2).then_some(()));
    fs::remove_file(world.pending("second.json")).unwrap();
    eventually("it is forgotten", || (world.view()["pending"] == 1).then_some(()));
    world.permit("go");
    world.completed("third");
    assert_eq!(world.testimony("ran"), ["first", "third"]);
    krond.stop();
}

#[test]
fn a_task_is_not_started_before_its_time_over_a_restart() {
    let world = world("", &handler("t", RAN));
    let krond = world.start();
    let soon = |seconds| {
        let at = kron_testkit::krond::due_in(seconds).1;
        json!({ "taskId": "t", "state": "PENDING", "createdAt": "2026-01-06T10:15:30Z",
            "payload": { "type": "t" }, "notBefore": at })
    };
    world.drop_in("t.json", &soon(100_000).to_string());
    eventually("it is known", || (world.view()["delayed"] == 1).then_some(()));
    assert_eq!(world.view()["pending"], 1);
    krond.stop();
    let _krond = world.start();
    eventually("it is known", || (world.view()["delayed"] == 1).then_some(()));
    let task = soon(2);
    world.drop_in("t.json", &task.to_string());
    let completed = world.completed("t");
    let at = task["notBefore"].as_str().unwrap();
    assert!(completed["startedAt"].as_str().unwrap()[..19] >= at[..19], "{completed}");
    assert_eq!(world.testimony("ran"), ["t"]);
}

/// The kernel drops what it cannot tell in time, and says so.
#[test]
fn what_the_kernel_could_not_tell_is_found_all_the_same() {
    let told_max: usize = read(Path::new("/proc/sys/fs/inotify/max_queued_events"))
        .and_then(|text| text.trim().parse().ok())
        .unwrap();
    let count = told_max + 100;
    let world = world("", &handler("t", RAN));
    let krond = world.start();
    krond.signal(Signal::SIGSTOP);
    let draft = world.witness("draft");
    for n in 0..count {
        let id = format!("n{n}");
        fs::write(&draft, text(&id, "unhandled", &Value::Null)).unwrap();
        fs::rename(&draft, world.pending(&format!("{id}.json"))).unwrap();
    }
    world.put("last", "t");
    krond.signal(Signal::SIGCONT);
    world.completed("last");
    eventually("all are known", || (world.view()["unhandled"] == count).then_some(()));
    krond.stop();
}
