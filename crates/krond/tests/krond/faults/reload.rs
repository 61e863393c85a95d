//! Definitions that change at the worst moment, or are not what they should be.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::Path;

use kron_testkit::krond::{Krond, World, second_of, wait_for_permit};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::{eventually, wall_seconds};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

use crate::faults::scene::{
    CODE, TESTIFY, assert_ran_once, assert_tells, before_due, careful, judge, settle, thread_named,
    unfinished, wait_for_end, wait_for_witness, witnesses, witnesses_of,
};
use crate::faults::strace::{Effect, Injection, Tracing, When};
use crate::new_world;

/// Signals of a storm.
const STORM: usize = 300;

/// Keeps every second of a job that is judged, however long its test takes.
const HISTORY: &str = "[daemon]\nhistory = 1000\n";

/// A job that is run by request and leaves its witness then.
fn seldom(name: &str) -> String {
    // The name of a run by request has a slash in it.
    let testify = TESTIFY.replace("$KRON_PERIOD_ID", "${KRON_PERIOD_ID#manual/}");
    let schedule = kron_testkit::krond::seldom();
    format!("[job.{name}]\nschedule = \"{schedule}\"\ncommand = \"{testify}\"\nshell = true\n")
}

/// As [`judge`] for `careful`, of which there were runs by request as well: they leave the mark
/// where it is.
fn judge_with_requests(world: &World) {
    let document = world.document("careful");
    let mark = document["LastHandledPeriodID"].as_str().unwrap();
    let history = world.history("careful");
    let ran = witnesses(world);
    let mut executed = 0;
    for entry in &history {
        let period = entry["PeriodID"].as_str().unwrap();
        let same = history.iter().filter(|other| other["PeriodID"] == period).count();
        assert_eq!(same, 1, "{period} is recorded {same} times: {document}");
        if entry["Outcome"] == "executed" {
            executed += 1;
            let requested = period.strip_prefix("manual/");
            let runs = ran.get(requested.unwrap_or(period));
            assert_eq!(runs, Some(&1), "{period} did not run once: {document}");
            let is_marked = requested.is_some() || mark >= period;
            assert!(is_marked, "{period} is beyond the mark: {document}");
        }
    }
    assert_eq!(ran.len(), executed, "a run is not recorded: {document}");
}

/// Waits for a run of `tick`, a job that is due every second, in a period that begins after this
/// second: the schedule goes on.
fn wait_for_tick_after(krond: &mut Krond, second: u64) {
    loop {
        let finished = krond.wait_for_job("finished", "tick");
        if second_of(finished["period_id"].as_str().unwrap()) > second {
            return;
        }
    }
}

fn secondly(name: &str) -> String {
    format!("[job.{name}]\nschedule = \"* * * * * *\"\ncommand = \"{TESTIFY}\"\nshell = true\n")
}

#[test]
fn a_storm_of_signals_ends_with_the_latest_definitions_and_costs_no_run() {
    let world = new_world(&[HISTORY, &secondly("careful")].concat());
    let mut krond = world.start();
    krond.wait_for("finished");
    for number in 0..STORM {
        if number == STORM / 2 {
            world.configure(&[HISTORY, &secondly("careful"), &secondly("second")].concat());
        }
        krond.signal(Signal::SIGHUP);
    }
    world.configure(&[HISTORY, &secondly("careful"), &secondly("third")].concat());
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
    let config = [HISTORY, &seldom("careful"), &secondly("tick")].concat();
    let world = new_world(&config);
    let mut krond = world.start();
    world.run_now("careful");
    krond.wait_for_job("finished", "careful");
    krond.wait_for_job("finished", "tick");
    krond.stop();
    // A daemon that finds a job's document writes nothing more about the job of its own accord.
    let mut krond = world.start();
    settle(&world, &krond);
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
        krond.wait_for("reload_failed");
        let failed_at = wall_seconds();
        // What was there before goes on.
        let (_, job) = world.ask("GET", "/api/v1/scheduler/jobs/careful", "");
        assert!(job.to_string().contains("careful"), "{what}: {job}");
        world.run_now("careful");
        krond.wait_for_job("finished", "careful");
        wait_for_tick_after(&mut krond, failed_at);
        assert_eq!(known(), before, "{what}: something was recorded");
        let path = world.config_path();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        world.configure(&config);
    }
    assert_eq!(krond.events("loaded").len(), 1, "nothing was loaded after the start");
    // What is sound takes effect, and falls due.
    world.configure(&[HISTORY, &secondly("careful"), &secondly("tick")].concat());
    krond.signal(Signal::SIGHUP);
    krond.wait_for("loaded");
    krond.wait_for_job("finished", "careful");
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0));
    judge_with_requests(&world);
    judge(&world, "tick");
}

#[test]
fn definitions_that_cannot_be_read_for_want_of_descriptors_change_nothing() {
    if left_out("reloads without descriptors", &[Need::Root, Need::Strace]) {
        return;
    }
    let world = new_world(&[HISTORY, &seldom("careful"), &secondly("tick")].concat());
    let mut krond = world.start();
    for error in ["EMFILE", "EIO", "EACCES"] {
        let injection = Injection {
            calls: "open,openat".to_owned(),
            effect: Effect::Error(error),
            when: When::ForGood(1),
        };
        let config = world.config_path();
        let names = [config.to_str().unwrap()];
        let tracing = Tracing::new(&world.state_dir(), &names, Some(&injection));
        settle(&world, &krond);
        let attached = tracing.attach(&[thread_named(&krond, "reload")]);
        krond.signal(Signal::SIGHUP);
        assert_tells(&krond.wait_for("reload_failed"), "SystemError");
        let failed_at = wall_seconds();
        drop(attached);
        world.run_now("careful");
        krond.wait_for_job("finished", "careful");
        wait_for_tick_after(&mut krond, failed_at);
    }
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0));
    assert_eq!(world.history("careful").len(), 3, "a run after each");
    judge_with_requests(&world);
    judge(&world, "tick");
}

/// A daemon with a job that runs until it is permitted to end, the job's definition, and its period,
/// which is about to begin.
fn long() -> (World, Krond, String, String) {
    let world = new_world("");
    let mut krond = world.start();
    let config = RefCell::new(String::new());
    let nominal = world.due_soon("careful", |schedule| {
        config.replace(careful(schedule, &wait_for_permit("permit"), ""));
        config.borrow().clone()
    });
    // Every load after that of the start is looked at: those that follow are waited for.
    let generation = world.ask("GET", "/api/v1/status", "").1["generation"].as_u64().unwrap();
    for _ in 1..generation {
        krond.wait_for("loaded");
    }
    (world, krond, config.into_inner(), nominal)
}

fn reload(world: &World, krond: &mut Krond, config: &str) {
    world.configure(config);
    krond.signal(Signal::SIGHUP);
    krond.wait_for("loaded");
}

#[test]
fn a_job_that_is_removed_and_comes_back_keeps_its_run_and_its_past() {
    let (world, mut krond, config, nominal) = long();
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
    let (world, mut krond, config, nominal) = long();
    let started = krond.wait_for("started");
    wait_for_witness(&world, &nominal);
    let command = Pid::from_raw(started["pid"].as_i64().unwrap() as i32);
    let edits = [
        // Another command, another time, other rules, other limits.
        config.replace("exit 7", "exit 8"),
        config.replace("deadline=1h", "deadline=1h,concurrency=replace"),
        config.replace("shell = true", "shell = true\ntimeout = \"1s\"\ngrace = \"1s\""),
        config.replace("deadline=1h", "deadline=1h,suspend=true"),
        config.replace("shell = true", "shell = true\nuser = \"no-such-user\"\ncwd = \"/no/such\""),
    ];
    for edit in &edits {
        reload(&world, &mut krond, edit);
        kill(command, None).expect("the command still runs");
    }
    let later_nominal = world.due_soon("careful", |schedule| careful(schedule, "true", ""));
    kill(command, None).expect("the command still runs");
    // The new period falls due while the old run goes on, which is forbidden. One whose definition
    // came too late was skipped because of that.
    loop {
        let skipped = krond.wait_for_job("skipped", "careful");
        if skipped["period_id"] == *later_nominal {
            break;
        }
        assert_eq!(skipped["reason"], "definition changed", "{skipped}");
    }
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
