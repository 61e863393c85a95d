//! Many jobs due in one second: brought to their gates ahead, started at their time, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kron_testkit::krond::{Krond, LEADS_S, World, second_of};
use kron_testkit::process;
use kron_testkit::waiting::{eventually, wall_seconds};

use crate::new_world_in_memory;

/// The jobs of a burst that must stand at its gates in time. Each further job only takes time, of
/// which there is little: a daemon brings jobs to their gates eight seconds ahead, however long they
/// are known.
const JOBS: u16 = 3;

/// The jobs of a burst to a daemon as it usually runs, of which not all need stand there in time.
const JOBS_MANY: u16 = 40;

/// Jobs that fall due at once; each leaves its name and the second. No log is kept, whose directory
/// would have to be made and synced for each of them before it stands at its gate.
fn burst(jobs: u16, schedule: &str) -> String {
    let mut config = String::new();
    for number in 0..jobs {
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
    /// until a supervisor stands ready for each of the jobs, of which `identity` is one. `None` if
    /// that took until they were due.
    fn load(
        lead_s: u64,
        jobs: u16,
        (world, identity): (World, &str),
        config: impl Fn(&str) -> String,
    ) -> Option<Ready> {
        let mut world = world;
        world.burst = jobs;
        let count = usize::from(jobs);
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

fn everybody_ran_once(jobs: u16, world: &World) {
    eventually("all runs are recorded", || {
        let ended = |n: &u16| {
            let history = world.history(&format!("job-{n}"));
            history.iter().any(|entry| entry["ExitCode"] == 0)
        };
        (0..jobs).all(|n| ended(&n)).then_some(())
    });
    assert_eq!(world.testimony("all").len(), usize::from(jobs), "each ran once");
    for number in 0..jobs {
        let history = world.history(&format!("job-{number}"));
        assert_eq!(history.len(), 1, "{history:?}");
    }
}

/// Each of these jobs was decided on once, and ran for this period, not before it. Returns their runs.
fn runs_at_their_time(
    jobs: u16,
    due: &str,
    (world, krond): (&World, &mut Krond),
) -> BTreeSet<String> {
    everybody_ran_once(jobs, world);
    let jobs_count = usize::from(jobs);
    assert_eq!(krond.heard("decision", jobs_count).len(), jobs_count);
    let due_unix = second_of(due);
    let run = |number| {
        let second: u64 = world.testimony(&format!("job-{number}"))[0].parse().unwrap();
        assert!(second >= due_unix, "job-{number} ran at {second}, due at {due_unix}");
        let history = world.history(&format!("job-{number}"));
        assert_eq!(history[0]["PeriodID"], due);
        history[0]["RunID"].as_str().unwrap().to_owned()
    };
    (0..jobs).map(run).collect()
}

#[test]
fn a_burst_stands_at_its_gates_and_starts_at_its_time() {
    for lead_s in LEADS_S {
        let world = new_world_in_memory("");
        let ready = Ready::load(lead_s, JOBS, (world, "job-0"), |due| burst(JOBS, due));
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
        let ran = runs_at_their_time(JOBS, &due, (&world, &mut krond));
        // The supervisors that stood there are those of the runs: no other was started.
        assert_eq!(ran, before.into_values().collect());
        krond.stop();
        return;
    }
    panic!("this machine is too slow");
}

/// However many stand at their gates when they fall due, each runs once.
#[test]
fn a_burst_of_many_is_prepared_and_each_runs_once_at_its_time() {
    for lead_s in LEADS_S {
        let world = new_world_in_memory("");
        let mut krond = world.start();
        let due = world.load_due_in(lead_s, "job-0", |due| burst(JOBS_MANY, due));
        let Some(due) = due else { continue };
        eventually("they are prepared, or are due", || {
            let is_due = wall_seconds() >= second_of(&due);
            (is_due || !supervisors(&krond).is_empty()).then_some(())
        });
        let before = supervisors(&krond);
        let begun = world.testimony("all");
        if wall_seconds() >= second_of(&due) {
            continue;
        }
        let prepared = krond.heard("prepared", 1).pop().unwrap();
        let expected = (&JOBS_MANY.into(), &due.as_str().into());
        assert_eq!((&prepared["count"], &prepared["due"]), expected);
        assert!(begun.is_empty(), "a command starts before its time: {begun:?}");
        let ran = runs_at_their_time(JOBS_MANY, &due, (&world, &mut krond));
        // Each supervisor that stood there before its time is that of a run.
        assert!(before.into_values().all(|run| ran.contains(&run)), "another was started");
        krond.stop();
        return;
    }
    panic!("this machine is too slow");
}

#[test]
fn a_daemon_that_is_killed_leaves_nobody_at_the_gates() {
    for lead_s in LEADS_S {
        let world = new_world_in_memory("");
        let ready = Ready::load(lead_s, JOBS, (world, "job-0"), |due| burst(JOBS, due));
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
        everybody_ran_once(JOBS, &world);
        krond.stop();
        assert!(world.run_records().is_empty(), "what they left is cleared away");
        return;
    }
    panic!("this machine is too slow");
}

#[test]
fn a_directory_that_changes_while_a_burst_stands_ready_is_looked_up_again() {
    for lead_s in LEADS_S {
        let world = new_world_in_memory("");
        for name in ["old", "new"] {
            std::fs::create_dir(world.witness(name)).unwrap();
        }
        std::os::unix::fs::symlink(world.witness("old"), world.witness("current")).unwrap();
        let ready = Ready::load(lead_s, 1, (world, "here"), |schedule| {
            format!(
                r#"
                [job.here]
                schedule = "{schedule} @policy(deadline=1h)"
                command = "pwd -P > {{dir}}/where"
                shell = true
                output = "discard"
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
