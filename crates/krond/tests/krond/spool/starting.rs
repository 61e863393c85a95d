//! Spools that refuse the start of a daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use kron_testkit::waiting::eventually;

use crate::new_world;
use crate::spool::site::{Site as _, handler, spool, world};

#[test]
fn two_daemons_do_not_share_a_spool() {
    let first = world("", &handler("t", "true"));
    let _krond = first.start();
    let dir = first.spool_path("");
    let second = new_world(&format!("[spool.other]\ndir = {dir:?}\n"));
    let (code, said) = second.run_to_end();
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("another process has the spool"), "{said}");
    first.put("t", "t");
    first.completed("t");
}

#[test]
fn directories_that_others_could_change_are_refused() {
    for (path, refused) in [
        ("", true),
        ("tasks", true),
        ("tasks/running", true),
        ("tasks/completed", true),
        ("rejected", true),
        ("tasks/pending", false),
    ] {
        let world = world("", &handler("t", "true"));
        for path in ["tasks/pending", "tasks/running", "tasks/completed", "rejected"] {
            fs::create_dir_all(world.spool_path(path)).unwrap();
        }
        let open = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(world.spool_path(path), open).unwrap();
        if refused {
            let (code, said) = world.run_to_end();
            assert_eq!(code, 2, "{path}: {said}");
            assert!(said.contains("nobody but the daemon's user may change"), "{said}");
        } else {
            world.put("t", "t");
            let krond = world.start();
            world.completed("t");
            krond.stop();
        }
    }
}

#[test]
fn a_producer_that_is_nobody_and_a_link_for_a_directory_are_refused() {
    let world = world("producers = [\"no-user-of-this-name\"]", "");
    let (code, said) = world.run_to_end();
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("there is no user `no-user-of-this-name`"), "{said}");
    world.configure(&spool("", ""));
    fs::create_dir(world.witness("elsewhere")).unwrap();
    std::os::unix::fs::symlink(world.witness("elsewhere"), world.witness("spool")).unwrap();
    let (code, said) = world.run_to_end();
    assert_eq!(code, 2, "{said}");
}

#[test]
fn a_spool_whose_directory_is_taken_away_rests_and_says_so() {
    let world = world("", &handler("t", "true"));
    let mut krond = world.start();
    world.put("t", "t");
    world.completed("t");
    fs::rename(world.spool_path("tasks/pending"), world.witness("away")).unwrap();
    let told = krond.wait_for("spool_rests");
    assert!(told["message"].as_str().unwrap().contains("moved away"), "{told}");
    // What is shown is gathered after what is told.
    eventually("it is shown, too", || {
        world.view()["error"]
            .as_str()
            .is_some_and(|error| error.contains("moved away"))
            .then_some(())
    });
    fs::rename(world.witness("away"), world.spool_path("tasks/pending")).unwrap();
    krond.stop();
    let krond = world.start();
    world.put("u", "t");
    world.completed("u");
    krond.stop();
}
