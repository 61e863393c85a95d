//! Many jobs due in one second: brought to their gates ahead, started at their time, each once.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kron_testkit::krond::{Krond, World, due_in};
use kron_testkit::waiting::eventually;

use crate::new_world;

/// More than a daemon starts as always.
const JOBS: usize = 40;

/// Jobs that fall due at once, in so many seconds; each leaves its name and the second.
fn burst(seconds: u64) -> (World, String) {
    let (schedule, due) = due_in(seconds);
    let mut config = String::new();
    for number in 0..JOBS {
        writeln!(
            config,
            "[job.job-{number}]\nschedule = \"{schedule} @policy(deadline=20s)\"\n\
             command = [\"/bin/sh\", \"-c\", \"date +%s > {{dir}}/job-{number}; echo x >> {{dir}}/all\"]"
        )
        .unwrap();
    }
    (new_world(&config), due)
}

/// The supervisors below a daemon.
fn supervisors(krond: &Krond) -> BTreeSet<String> {
    let below = std::process::Command::new("ps")
        .args(["--ppid", &krond.pid().to_string(), "-o", "pid=,args="])
        .output()
        .unwrap();
    let below = String::from_utf8(below.stdout).unwrap();
    let supervisors = below.lines().filter(|line| line.contains("kron-supervisor"));
    supervisors.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

fn everybody_ran_once(world: &World) {
    eventually("all runs are recorded", || {
        let ended = |n: &usize| {
            let history = world.history(&format!("job-{n}"));
            history.iter().any(|entry| entry["ExitCode"] == 0)
        };
        (0..JOBS).all(|n| ended(&n)).then_some(())
    });
    assert_eq!(world.testimony("all").len(), JOBS, "each ran once");
    for number in 0..JOBS {
        let history = world.history(&format!("job-{number}"));
        assert_eq!(history.len(), 1, "{history:?}");
    }
}

#[test]
fn a_burst_stands_at_its_gates_and_starts_at_its_time() {
    let (world, due) = burst(10);
    let mut krond = world.start();
    let ready = eventually("all stand ready", || {
        let found = supervisors(&krond);
        (found.len() == JOBS).then_some(found)
    });
    let prepared = krond.events("prepared").pop().expect("it is told");
    assert_eq!((&prepared["count"], &prepared["due"]), (&JOBS.into(), &due.as_str().into()));
    assert!(world.testimony("all").is_empty(), "nobody starts before the time");
    assert!((0..JOBS).all(|n| world.document(&format!("job-{n}")).is_null()), "or is recorded");
    everybody_ran_once(&world);
    let decided = krond.events("decision");
    assert_eq!(decided.len(), JOBS);
    let due_unix = due.parse::<kron_core::UtcSecond>().unwrap().unix() as u64;
    for number in 0..JOBS {
        let second: u64 = world.testimony(&format!("job-{number}"))[0].parse().unwrap();
        assert!(second >= due_unix, "job-{number} ran at {second}, due at {due_unix}");
        let history = world.history(&format!("job-{number}"));
        assert_eq!(history[0]["PeriodID"], due.as_str());
    }
    // Those who stood there are those who ran: nobody else was started.
    assert!(supervisors(&krond).is_subset(&ready));
    krond.stop();
}

#[test]
fn a_daemon_that_is_killed_leaves_nobody_at_the_gates() {
    let (mut world, _) = burst(12);
    world.burst = 2;
    let krond = world.start();
    let ready = eventually("all stand ready", || {
        let found = supervisors(&krond);
        (found.len() == JOBS).then_some(found)
    });
    krond.kill();
    eventually("they leave", || {
        let there = |pid: &String| std::path::Path::new("/proc").join(pid).join("exe").exists();
        (!ready.iter().any(there)).then_some(())
    });
    assert!(world.testimony("all").is_empty());
    let krond = world.start();
    everybody_ran_once(&world);
    krond.stop();
    assert!(world.run_records().is_empty(), "what they left is cleared away");
}

#[test]
fn a_directory_that_changes_while_a_burst_stands_ready_is_looked_up_again() {
    let (schedule, _) = due_in(10);
    let mut world = new_world(&format!(
        r#"
        [job.here]
        schedule = "{schedule} @policy(deadline=20s)"
        command = "pwd -P > {{dir}}/where"
        shell = true
        cwd = "{{dir}}/current"
        "#
    ));
    world.burst = 1;
    for name in ["old", "new"] {
        std::fs::create_dir(world.witness(name)).unwrap();
    }
    std::os::unix::fs::symlink(world.witness("old"), world.witness("current")).unwrap();
    let krond = world.start();
    eventually("it stands ready", || (supervisors(&krond).len() == 1).then_some(()));
    std::fs::remove_file(world.witness("current")).unwrap();
    std::os::unix::fs::symlink(world.witness("new"), world.witness("current")).unwrap();
    let place = eventually("it runs", || world.testimony("where").first().cloned());
    assert!(place.ends_with("/new"), "{place}");
    krond.stop();
}
