//! Definitions that change at the worst moment, or are not what they should be.

use std::fs::{self, File};
use std::path::Path;

use kron_testkit::krond::{Krond, SOON_S, World, due_in, wait_for_permit};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::eventually;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

use crate::faults::scene::{
    CODE, TESTIFY, assert_ran_once, assert_tells, before_due, judge, thread_named, unfinished,
    wait_for_end, wait_for_witness, witnesses, witnesses_of,
};
use crate::faults::strace::{Effect, Injection, Tracing, When};
use crate::new_world;

/// Signals of a storm.
const STORM: usize = 300;

fn secondly(name: &str) -> String {
    format!("[job.{name}]\nschedule = \"* * * * * *\"\ncommand = \"{TESTIFY}\"\nshell = true\n")
}

/// A job that is due once, in a moment, and runs until it is permitted to end.
fn long(lead: u64) -> (String, String) {
    let (schedule, nominal) = due_in(lead);
    let wait = wait_for_permit("permit");
    let config = format!(
        r#"
        [job.careful]
        schedule = "{schedule} @policy(deadline=1h)"
        command = "{TESTIFY}; {wait}; exit {CODE}"
        shell = true
        "#
    );
    (config, nominal)
}

#[test]
fn a_storm_of_signals_ends_with_the_latest_definitions_and_costs_no_run() {
    let world = new_world(&secondly("careful"));
    let mut krond = world.start();
    krond.wait_for("finished");
    for number in 0..STORM {
        if number == STORM / 2 {
            world.configure(&[secondly("careful"), secondly("second")].concat());
        }
        krond.signal(Signal::SIGHUP);
    }
    world.configure(&[secondly("careful"), secondly("third")].concat());
    krond.signal(Signal::SIGHUP);
    krond.wait_for_job("finished", "third");
    krond.wait_for_job("finished", "careful");
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0), "{}", krond.said.join("\n"));
    let loads = krond.events("loaded");
    assert_eq!(loads.last().unwrap()["jobs"], 2, "{loads:?}");
    assert!(krond.events("reload_failed").is_empty());
    for job in ["careful", "second", "third"] {
        judge(&world, job);
    }
    // Every second of the job that was always there is accounted for.
    let mut seconds: Vec<(i64, i64)> = world
        .history("careful")
        .iter()
        .map(|entry| {
            let period = entry["PeriodID"].as_str().unwrap();
            let second = |text: &str| text.parse::<kron_core::UtcSecond>().unwrap().unix();
            let last = entry["LastPeriodID"].as_str().unwrap_or(period);
            (second(period), second(last))
        })
        .collect();
    seconds.sort_unstable();
    for pair in seconds.windows(2) {
        assert_eq!(pair[0].1 + 1, pair[1].0, "a gap or an overlap: {seconds:?}");
    }
    assert!(witnesses(&world).len() >= 2);
}

/// What stands in the place of the definitions, by the name of the case.
type Spoil = fn(&Path);

#[test]
fn definitions_that_cannot_be_used_change_nothing() {
    let rows: [(&str, Spoil); 8] = [
        ("broken", |path| fs::write(path, "[job.careful\nschedule = ").unwrap()),
        ("invalid", |path| {
            fs::write(path, "[job.x]\nschedule = \"61 * * * *\"\ncommand = [\"/bin/true\"]\n")
                .unwrap();
        }),
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("huge", |path| File::create(path).unwrap().set_len(1 << 40).unwrap()),
        ("no text", |path| fs::write(path, [b'#', 0xff, 0xfe, b'\n']).unwrap()),
        ("a directory with nothing in it", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("a pipe", |path| {
            fs::remove_file(path).unwrap();
            mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        }),
        ("a link to itself", |path| {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink(path, path).unwrap();
        }),
    ];
    let world = new_world(&secondly("careful"));
    let mut krond = world.start();
    krond.wait_for("finished");
    let known = || kron_testkit::files::read(&world.state_dir().join("known.json")).unwrap();
    let before = known();
    for (what, spoil) in rows {
        spoil(&world.config_path());
        krond.signal(Signal::SIGHUP);
        let failed = krond.wait_for("reload_failed");
        assert_eq!(failed["level"], "error", "{what}: {failed}");
        for field in ["error_type", "operation", "message"] {
            assert!(failed[field].is_string(), "{what}: {failed}");
        }
        let (code, answer) = world.ask("POST", "/api/v1/reload", "{}");
        assert!((400..600).contains(&code), "{what}: {code} {answer}");
        let is_told = answer["category"].is_string() && answer["detail"].is_string();
        assert!(is_told, "{what}: {answer}");
        // What was there before goes on.
        let (_, job) = world.ask("GET", "/api/v1/scheduler/jobs/careful", "");
        assert!(job.to_string().contains("careful"), "{what}: {job}");
        krond.wait_for_job("finished", "careful");
        assert_eq!(known(), before, "{what}: something was recorded");
        let path = world.config_path();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        world.configure(&secondly("careful"));
    }
    assert_eq!(krond.events("loaded").len(), 1, "nothing was loaded after the start");
    krond.signal(Signal::SIGHUP);
    krond.wait_for("loaded");
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0));
    judge(&world, "careful");
}

#[test]
fn definitions_that_cannot_be_read_for_want_of_descriptors_change_nothing() {
    if left_out("reloads without descriptors", &[Need::Root, Need::Strace]) {
        return;
    }
    let world = new_world(&secondly("careful"));
    let mut krond = world.start();
    krond.wait_for("finished");
    for error in ["EMFILE", "EIO", "EACCES"] {
        let injection = Injection {
            calls: "open,openat".to_owned(),
            effect: Effect::Error(error),
            when: When::ForGood(1),
        };
        let config = world.config_path();
        let names = [config.to_str().unwrap()];
        let tracing = Tracing::new(&world.state_dir(), &names, Some(&injection));
        let attached = tracing.attach(&[thread_named(&krond, "reload")]);
        krond.signal(Signal::SIGHUP);
        assert_tells(&krond.wait_for("reload_failed"), "SystemError");
        drop(attached);
        krond.wait_for("finished");
    }
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0));
    judge(&world, "careful");
}

fn reload(world: &World, krond: &mut Krond, config: &str) {
    world.configure(config);
    krond.signal(Signal::SIGHUP);
    krond.wait_for("loaded");
}

#[test]
fn a_job_that_is_removed_and_comes_back_keeps_its_run_and_its_past() {
    let (config, nominal) = long(SOON_S);
    let world = new_world(&config);
    let mut krond = world.start();
    wait_for_witness(&world, &nominal);
    reload(&world, &mut krond, &secondly("other"));
    krond.wait_for_job("finished", "other");
    // Back again while its run goes on, and its period is still within its deadline.
    reload(&world, &mut krond, &config);
    assert!(krond.events("finished").iter().all(|line| line["identity"] == "other"));
    reload(&world, &mut krond, &secondly("other"));
    // A daemon that never knew the job sees the run to its end.
    krond.kill();
    let mut krond = world.start();
    world.permit("permit");
    let finished = krond.wait_for_job("finished", "careful");
    assert_eq!(
        (&finished["period_id"], &finished["exit_code"]),
        (&Value::from(&*nominal), &CODE.into())
    );
    wait_for_end(&world);
    // And back after it: nothing of the past runs.
    reload(&world, &mut krond, &config);
    reload(&world, &mut krond, &config);
    krond.stop();
    assert_ran_once(&world, &nominal);
}

#[test]
fn an_edit_never_disturbs_what_runs() {
    let (config, nominal) = long(SOON_S);
    let world = new_world(&config);
    let mut krond = world.start();
    let started = krond.wait_for("started");
    wait_for_witness(&world, &nominal);
    let command = Pid::from_raw(started["pid"].as_i64().unwrap() as i32);
    let (later, later_nominal) = due_in(SOON_S);
    let edits = [
        // Another command, another time, other rules, other limits.
        config.replace("exit 7", "exit 8"),
        config.replace("deadline=1h", "deadline=1h,concurrency=replace"),
        config.replace("shell = true", "shell = true\ntimeout = \"1s\"\ngrace = \"1s\""),
        config.replace("deadline=1h", "deadline=1h,suspend=true"),
        config.replace("shell = true", "shell = true\nuser = \"no-such-user\"\ncwd = \"/no/such\""),
        format!(
            "[job.careful]\nschedule = \"{later} @policy(deadline=1h)\"\n\
             command = \"{TESTIFY}; exit {CODE}\"\nshell = true\n"
        ),
    ];
    for edit in &edits {
        reload(&world, &mut krond, edit);
        kill(command, None).expect("the command still runs");
    }
    // The new period falls due while the old run goes on, which is forbidden.
    let skipped = krond.wait_for_job("skipped", "careful");
    assert_eq!(skipped["period_id"], *later_nominal);
    kill(command, None).expect("the command still runs");
    world.permit("permit");
    let finished = krond.wait_for_job("finished", "careful");
    assert_eq!(finished["run_id"], started["run_id"]);
    assert_eq!(finished["exit_code"], CODE, "as it was when it was started: {finished}");
    assert_eq!(finished["ending"], "exited", "{finished}");
    eventually("the end is recorded", || {
        world.document("careful")["ActiveExecution"].is_null().then_some(())
    });
    krond.stop();
    assert_eq!(witnesses(&world).into_iter().collect::<Vec<_>>(), [(nominal, 1)]);
    judge(&world, "careful");
    assert!(witnesses_of(&world, "other").is_empty());
}

#[test]
fn a_reload_that_cannot_be_recorded_ends_the_daemon_and_not_its_runs() {
    if left_out("failures of a reload", &[Need::Root, Need::Strace]) {
        return;
    }
    for (calls, error) in
        [("openat", "EROFS"), ("write", "ENOSPC"), ("fsync", "EIO"), ("renameat", "EACCES")]
    {
        let injection = Injection {
            calls: calls.to_owned(),
            effect: Effect::Error(error),
            when: When::ForGood(1),
        };
        let (world, mut krond, attached, nominal) =
            before_due(&wait_for_permit("permit"), "", |world, krond| {
                let name = unfinished("known.json");
                let tracing = Tracing::new(&world.state_dir(), &[&name], Some(&injection));
                tracing.attach(&[thread_named(krond, "sync-1")])
            });
        wait_for_witness(&world, &nominal);
        krond.signal(Signal::SIGHUP);
        assert_tells(&krond.wait_for("fatal"), "PersistenceError");
        assert_eq!(krond.wait().code(), Some(5), "{calls}");
        attached.ended();
        let krond = world.start();
        world.permit("permit");
        wait_for_end(&world);
        krond.stop();
        assert_ran_once(&world, &nominal);
    }
}
