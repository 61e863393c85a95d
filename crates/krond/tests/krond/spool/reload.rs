//! Other settings while the daemon runs.

use std::os::unix::fs::chown;

use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::new_world;
use crate::spool::site::{Site as _, alone, handler, spool, text, world};

#[test]
fn spools_and_handlers_come_change_and_go() {
    let world = new_world("[daemon]\nhistory = 10\n");
    let mut krond = world.start();
    let (status, answer) = world.ask("GET", "/api/v1/spools", "");
    assert_eq!((status, answer), (200, json!({ "spools": [] })));
    world.configure(&spool("", &handler("a", "echo $KRON_TASK_ID >> {dir}/ran")));
    world.make_pending();
    world.put("first", "a");
    world.put("unhandled", "b");
    world.reload();
    world.completed("first");
    eventually("it waits for a handler", || (world.view()["unhandled"] == 1).then_some(()));
    world.configure(&spool("workers = 7", &handler("b", "echo b $KRON_TASK_ID >> {dir}/ran")));
    world.reload();
    world.completed("unhandled");
    assert_eq!(world.view()["workers_max"], 7);
    world.put("left", "a");
    eventually("it waits for a handler", || (world.view()["unhandled"] == 1).then_some(()));
    world.configure("[daemon]\nhistory = 10\n");
    world.reload();
    krond.wait_for("spool_closed");
    world.put("later", "b");
    world.configure(&spool("", &handler("a", "echo $KRON_TASK_ID >> {dir}/ran")));
    world.reload();
    world.completed("left");
    assert!(world.task("pending", "later").is_some());
    assert_eq!(world.testimony("ran"), ["first", "b unhandled", "left"]);
    krond.stop();
}

#[test]
fn a_spool_that_goes_starts_nothing_more_and_waits_for_what_runs() {
    let world = world("", &alone("t", 0));
    let mut krond = world.start();
    world.put("1", "t");
    world.says("began", 1);
    world.put("2", "t");
    eventually("it is known", || (world.view()["pending"] == 1).then_some(()));
    world.configure("[daemon]\nhistory = 10\n");
    world.reload();
    let (_, answer) = world.ask("GET", "/api/v1/spools", "");
    assert_eq!(answer, json!({ "spools": [] }));
    // It comes back while it was about to go.
    world.configure(&spool("workers = 2", &alone("t", 0)));
    world.reload();
    world.says("began", 2);
    world.configure("[daemon]\nhistory = 10\n");
    world.reload();
    world.put("3", "t");
    world.permit("go");
    world.completed("1");
    world.completed("2");
    krond.wait_for("spool_closed");
    assert!(world.task("pending", "3").is_some());
    assert_eq!(world.testimony("began").len(), 2);
    assert!(world.testimony("twice").is_empty());
    krond.stop();
}

#[test]
fn other_producers_take_effect_as_soon_as_what_runs_has_ended() {
    if left_out("files of others", &[Need::Root]) {
        return;
    }
    let world = world("", &alone("t", 0));
    let mut krond = world.start();
    world.put("1", "t");
    world.says("began", 1);
    world.configure(&spool("producers = [\"4711\"]", &alone("t", 0)));
    world.reload();
    eventually("it says what it waits for", || {
        world.view()["error"].as_str().filter(|error| error.contains("has ended")).map(|_| ())
    });
    let draft = world.witness("draft");
    std::fs::write(&draft, text("2", "t", &Value::Null)).unwrap();
    chown(&draft, Some(4711), None).unwrap();
    world.permit("go");
    world.completed("1");
    krond.wait_for("spool_closed");
    eventually("it is open again", || world.view()["error"].is_null().then_some(()));
    std::fs::rename(&draft, world.pending("2.json")).unwrap();
    world.completed("2");
    krond.stop();
}

#[test]
fn a_spool_that_cannot_be_opened_at_a_reload_says_so_and_keeps_nobody() {
    let world = world("", &handler("t", "true"));
    let mut krond = world.start();
    let bad = "[spool.z]\ndir = \"{dir}/a-file/spool\"\n";
    std::fs::write(world.witness("a-file"), "").unwrap();
    world.configure(&(spool("", &handler("t", "true")) + bad));
    world.reload();
    let told = krond.wait_for("spool_not_opened");
    assert_eq!(told["spool"], "z");
    let (_, answer) = world.ask("GET", "/api/v1/spools", "");
    assert!(answer["spools"][1]["error"].is_string(), "{answer}");
    let (status, answer) = world.ask("POST", "/api/v1/spools/z/purge", r#"{"older_than_s":0}"#);
    assert_eq!(status, 503, "{answer}");
    world.put("t", "t");
    world.completed("t");
    krond.stop();
}

/// A spool that comes or goes while the daemon leaves changes nothing about when it leaves. Here it
/// is shown that the daemon leaves; when it does is held by
/// `other_settings_do_not_change_when_a_daemon_leaves` of the attendant, with a clock of its own.
#[test]
fn a_reload_while_it_stops_holds_nobody_up() {
    let other = "[spool.z]\ndir = \"{dir}/other\"\n";
    for (before, after) in [
        (spool("", &alone("t", 0)), spool("", &alone("t", 0)) + other),
        (spool("", &alone("t", 0)), "[daemon]\nhistory = 10\n".to_owned()),
    ] {
        let world = new_world(&before.replace("stop_grace = \"0s\"", "stop_grace = \"2s\""));
        let mut krond = world.start();
        world.put("1", "t");
        world.says("began", 1);
        krond.signal(Signal::SIGTERM);
        world.configure(&after);
        krond.signal(Signal::SIGHUP);
        // The task runs for ever, and so would a daemon that waited for it.
        assert!(krond.wait().success());
        world.permit("go");
        world.configure(&before);
        let krond = world.start();
        world.completed("1");
        krond.stop();
    }
}

/// As with everything that is wrong in a configuration: the old one stays in force.
#[test]
fn a_producer_who_is_nobody_refuses_the_reload_and_the_spool_goes_on() {
    let world = world("", &handler("t", "true"));
    let mut krond = world.start();
    world.configure(&spool("producers = [\"no-such-user\"]", &handler("t", "true")));
    let (status, answer) = world.ask("POST", "/api/v1/reload", "{}");
    assert_eq!(status, 500, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("no user `no-such-user`"), "{answer}");
    krond.wait_for("reload_failed");
    world.put("t", "t");
    world.completed("t");
    krond.stop();
}
