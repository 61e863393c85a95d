//! Many jobs due in one second: brought to their gates ahead, started at their time, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kron_testkit::krond::{Krond, World, second_of};
use kron_testkit::process;
use kron_testkit::waiting::{eventually, wall_seconds};

use crate::{new_world, new_world_in_memory};

/// One more than a daemon starts as always. Each further job only takes time, of which there is
/// little: a daemon brings jobs to their gates eight seconds ahead, however long they are known.
const JOBS: usize = 17;

/// How many seconds ahead a burst is loaded, the shortest first: a machine that did not bring it to
/// its gates in time gets the next. The last ones give a daemon all the time that it takes.
const LEADS_S: [u64; 5] = [3, 6, 12, 12, 12];

/// Jobs that fall due at once; each leaves its name and the second. No log is kept, whose directory
/// would have to be made and synced for each of them before it stands at its gate.
fn burst(schedule: &str) -> String {
    let mut config = String::new();
    for number in 0..JOBS {
        writeln!(
            config,
            "[job.job-{number}]\nschedule = \"{schedule} @policy(deadline=1h)\"\n\
             output = \"discard\"\n\
             command = [\"/bin/sh\", \"-c\", \"date +%s > {{dir}}/job-{number}; echo x >> {{dir}}/all\"]"
        )
        .unwrap();
    }
    config
}

/// A burst that stands at its gates.
struct Ready {
    world: World,
    krond: Krond,
    due: String,
    /// The supervisors and the runs they are for.
    supervisors: BTreeMap<i32, String>,
}

impl Ready {
    /// Loads `config` into a daemon to which this many jobs due in one second are a burst, and waits
    /// until `count` supervisors stand ready for the jobs, of which `identity` is one. `None` if
    /// that took until they were due.
    fn load(
        lead_s: u64,
        (burst_min, count): (u16, usize),
        (world, identity): (World, &str),
        config: impl Fn(&str) -> String,
    ) -> Option<Ready> {
        let mut world = world;
        world.burst = burst_min;
        let krond = world.start();
        let due = world.load_due_in(lead_s, identity, config)?;
        let supervisors = eventually("all stand ready, or are due", || {
            let found = supervisors(&krond);
            (found.len() == count || wall_seconds() >= second_of(&due)).then_some(found)
        });
        let ready = Ready { world, krond, due, supervisors };
        (ready.supervisors.len() == count && ready.is_ahead()).then_some(ready)
    }

    /// Whether the jobs are not due yet.
    fn is_ahead(&self) -> bool {
        wall_seconds() < second_of(&self.due)
    }
}

/// The supervisors below a daemon.
fn supervisors(krond: &Krond) -> BTreeMap<i32, String> {
    process::supervisors(krond.pid()).into_iter().collect()
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
    for lead_s in LEADS_S {
        let world = new_world_in_memory("");
        let burst_min = world.burst;
        let ready = Ready::load(lead_s, (burst_min, JOBS), (world, "job-0"), burst);
        let Some(mut ready) = ready else { continue };
        let prepared = ready.krond.heard("prepared", 1).pop().unwrap();
        let begun = ready.world.testimony("all");
        let documents: Vec<_> =
            (0..JOBS).map(|n| ready.world.document(&format!("job-{n}"))).collect();
        if !ready.is_ahead() {
            continue;
        }
        let Ready { world, mut krond, due, supervisors: before } = ready;
        assert_eq!((&prepared["count"], &prepared["due"]), (&JOBS.into(), &due.as_str().into()));
        assert!(begun.is_empty(), "a command starts before its time: {begun:?}");
        assert!(documents.iter().all(serde_json::Value::is_null), "nothing is recorded before");
        everybody_ran_once(&world);
        assert_eq!(krond.heard("decision", JOBS).len(), JOBS);
        let due_unix = second_of(&due);
        let mut ran = BTreeSet::new();
        for number in 0..JOBS {
            let second: u64 = world.testimony(&format!("job-{number}"))[0].parse().unwrap();
            assert!(second >= due_unix, "job-{number} ran at {second}, due at {due_unix}");
            let history = world.history(&format!("job-{number}"));
            assert_eq!(history[0]["PeriodID"], due.as_str());
            ran.insert(history[0]["RunID"].as_str().unwrap().to_owned());
        }
        // The supervisors that stood there are those of the runs: no other was started.
        assert_eq!(ran, before.into_values().collect());
        krond.stop();
        return;
    }
    panic!("this machine is too slow");
}

#[test]
fn a_daemon_that_is_killed_leaves_nobody_at_the_gates() {
    for lead_s in LEADS_S {
        let world = new_world_in_memory("");
        let ready = Ready::load(lead_s, (2, JOBS), (world, "job-0"), burst);
        let Some(ready) = ready else { continue };
        let Ready { world, krond, due, supervisors } = ready;
        krond.kill();
        if wall_seconds() >= second_of(&due) {
            continue;
        }
        eventually("they exit", || {
            let is_there =
                |(pid, run): (&i32, &String)| process::run_of(*pid).as_ref() == Some(run);
            (!supervisors.iter().any(is_there)).then_some(())
        });
        assert!(world.testimony("all").is_empty());
        let krond = world.start();
        everybody_ran_once(&world);
        krond.stop();
        assert!(world.run_records().is_empty(), "what they left is cleared away");
        return;
    }
    panic!("this machine is too slow");
}

#[test]
fn a_directory_that_changes_while_a_burst_stands_ready_is_looked_up_again() {
    for lead_s in LEADS_S {
        let world = new_world("");
        for name in ["old", "new"] {
            std::fs::create_dir(world.witness(name)).unwrap();
        }
        std::os::unix::fs::symlink(world.witness("old"), world.witness("current")).unwrap();
        let ready = Ready::load(lead_s, (1, 1), (world, "here"), |schedule| {
            format!(
                r#"
                [job.here]
                schedule = "{schedule} @policy(deadline=1h)"
                command = "pwd -P > {{dir}}/where"
                shell = true
                cwd = "{{dir}}/current"
                "#
            )
        });
        let Some(ready) = ready else { continue };
        std::fs::remove_file(ready.world.witness("current")).unwrap();
        let (new, current) = (ready.world.witness("new"), ready.world.witness("current"));
        std::os::unix::fs::symlink(new, current).unwrap();
        if !ready.is_ahead() {
            continue;
        }
        let Ready { world, krond, .. } = ready;
        let place = eventually("it runs", || world.testimony("where").first().cloned());
        assert!(place.ends_with("/new"), "{place}");
        krond.stop();
        return;
    }
    panic!("this machine is too slow");
}
