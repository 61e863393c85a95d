//! Jobs that run: when, with what, and what is recorded about it.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kron_core::{DecisionEvent, TimingParser};
use kron_testkit::files::{copy_program, read};
use kron_testkit::krond::{Krond, World, due_in, second_of, seldom};
use kron_testkit::process::{threads, wait_until_idle};
use kron_testkit::waiting::{GLANCE, PATIENCE, eventually, now, wall_seconds};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::daemon::end_deadlines;
use crate::{new_world, new_world_in_memory};

/// After this long the daemon may do something of its own accord; it is far from that in a test that
/// took less.
const RESTS_AT_LEAST: Duration = Duration::from_secs(20);

/// How many jobs fall due until one is started in its second.
const JOBS_MAX: usize = 64;
/// How many of them may be late on a machine that lets a daemon run: not every delay is among those
/// that are measured.
const LATE_MAX: usize = 4;
/// The machine keeps a daemon from running in its second whose threads wait for a processor this long,
/// or where processes of the test's own take this long that do what a start does. A daemon that sleeps
/// past its second, or waits for something else, makes neither any longer.
const KEPT_WAITING: Duration = Duration::from_millis(250);

/// For how long the threads of a process were ready to run and had no processor.
fn run_delay(pid: i32) -> Duration {
    let of_thread = |(tid, _): (i32, String)| {
        let counts = read(format!("/proc/{pid}/task/{tid}/schedstat").as_ref())?;
        counts.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads(pid).into_iter().filter_map(of_thread).sum())
}

/// The longest that the machine kept this thread waiting from now until a moment after `second` began:
/// at its looks at the clock, and for two processes, one of which starts the other, as a supervisor
/// does a command.
fn delay_of_the_machine(second: u64) -> Duration {
    let mut worst = Duration::ZERO;
    let mut looked_at = now();
    while wall_seconds() < second {
        std::thread::sleep(GLANCE);
        worst = worst.max(looked_at.elapsed());
        looked_at = now();
    }
    let status = Command::new("/bin/sh").args(["-c", "/bin/true; exit 0"]).status().unwrap();
    assert!(status.success());
    worst.max(looked_at.elapsed())
}

/// A daemon that has decided on a job and executed its command in the very second of its period, and
/// has reported both by then: the job, the period, and the line about the start.
///
/// A daemon that the machine does not let run misses that second, however soon it is started. So one
/// job after the other falls due until one ran in its second: by the line about the decision, by the
/// time at which the supervisor executed the command, and by the line about that. A daemon that
/// decides late on a machine that lets it and others run, [`LATE_MAX`] times, is late by itself; one
/// that is late in whatever way for all [`JOBS_MAX`] fails in any case.
fn greeted() -> (World, Krond, String, String, Value) {
    let world = new_world_in_memory("");
    let mut krond = Krond::spawn(world.command().env("SECRET", "of the daemon's"));
    krond.wait_for("ready");
    let mut late = 0;
    for number in 0..JOBS_MAX {
        let job = format!("greet-{number}");
        let nominal = world.due_soon(&job, |schedule| {
            format!(
                r#"
                [job.{job}]
                schedule = "{schedule}"
                command = "env > {{dir}}/{job}.env; grep -E '^Sig(Blk|Ign)' /proc/self/status > {{dir}}/{job}.signals; echo out; echo err >&2; exit 3"
                shell = true
                env = {{ MODE = "prod" }}
                umask = "0027"
                "#
            )
        });
        let delay_before = run_delay(krond.pid());
        // Otherwise the machine kept this test waiting, and delays are missed.
        let is_measured = wall_seconds() < second_of(&nominal);
        let delay_of_others = delay_of_the_machine(second_of(&nominal));
        let entry = eventually("it has an outcome", || world.history(&job).into_iter().next());
        let mut is_decided_late = true;
        if entry["Outcome"] == "executed" {
            let decision = krond.wait_for_job("decision", &job);
            let started = krond.wait_for_job("started", &job);
            let times = [&decision["time"], &entry["StartedAt"], &started["time"]];
            let is_in_its_second =
                |time: &&Value| second_of(time.as_str().unwrap()) == second_of(&nominal);
            if times.iter().all(is_in_its_second) {
                return (world, krond, job, nominal, started);
            }
            is_decided_late = !is_in_its_second(&times[0]);
        }
        let delay = run_delay(krond.pid()).saturating_sub(delay_before);
        if is_decided_late && is_measured && delay.max(delay_of_others) < KEPT_WAITING {
            late += 1;
        }
        assert!(late < LATE_MAX, "it is late by itself:\n{}", krond.said.join("\n"));
    }
    panic!("this machine did not let a daemon run in any of {JOBS_MAX} seconds");
}

#[test]
fn a_job_runs_in_its_second_and_everything_about_it_is_recorded() {
    let (world, mut krond, job, nominal, started) = greeted();
    let finished = krond.wait_for_job("finished", &job);
    assert_eq!(finished["exit_code"], 3, "{finished}");

    let document = eventually("the end is recorded", || {
        let document = world.document(&job);
        document["ActiveExecution"].is_null().then_some(document)
    });
    assert_eq!(document["LastHandledPeriodID"], nominal.as_str());
    assert_eq!(document["LastOutcome"], "executed");
    assert_eq!(document["LastChosenTime"], nominal.as_str());
    let entry = &document["History"][0];
    assert_eq!(entry["ExitCode"], 3);
    assert_eq!(entry["Ending"], "exited");
    assert_eq!(entry["RunID"], started["run_id"]);
    assert_eq!(started["late_s"], 0, "{started}");
    assert_eq!(second_of(entry["StartedAt"].as_str().unwrap()), second_of(&nominal), "{entry}");

    let logs = world.logs(&job);
    assert_eq!(logs.len(), 1);
    assert_eq!(read(&logs[0]).unwrap(), "out\nerr\n");
    assert_eq!(logs[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let env = world.testimony(&format!("{job}.env"));
    let value = |name: &str| {
        let prefix = format!("{name}=");
        env.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("none").to_owned()
    };
    assert_eq!(value("KRON_IDENTITY"), job);
    for name in ["KRON_PERIOD_ID", "KRON_NOMINAL_TIME", "KRON_CHOSEN_TIME"] {
        assert_eq!(value(name), nominal);
    }
    assert_eq!(value("KRON_SEED_HASH").len(), 64);
    assert_eq!(value("MODE"), "prod");
    assert_eq!(value("SECRET"), "none", "the daemon's environment is not the command's");
    for line in world.testimony(&format!("{job}.signals")) {
        let mask = line.split_whitespace().nth(1).unwrap().to_owned();
        assert_eq!(mask, "0000000000000000", "{line}");
    }
    let witness = world.witness(&format!("{job}.env")).metadata().unwrap();
    assert_eq!(witness.permissions().mode() & 0o777, 0o640);

    eventually("its children are reaped", || {
        let pid = krond.pid();
        let children = read(format!("/proc/{pid}/task/{pid}/children").as_ref())?;
        children.is_empty().then_some(())
    });
    let epochs = world.epochs();
    assert_eq!(epochs[0]["Event"], "start");
    assert_eq!(epochs[1]["Event"], "load");
    krond.stop();
    assert_eq!(world.epochs().last().unwrap()["Event"], "stop");
    assert!(world.run_records().is_empty());
    assert!(!world.state_dir().join("krond.sock").exists());
}

#[test]
fn decisions_in_the_log_can_be_computed_again_in_both_forms() {
    std::thread::scope(|scope| {
        for format in ["text", "json"] {
            scope.spawn(move || can_be_computed_again(format));
        }
    });
}

fn can_be_computed_again(format: &str) {
    let world = new_world("");
    let mut krond = Krond::spawn(&mut world.command_logging(format));
    let socket = world.state_dir().join("krond.sock");
    eventually("it listens", || UnixStream::connect(&socket).ok());
    world.due_soon("odd%20%3D%20%22name%22", |schedule| {
        format!(
            r#"
            [job."odd = \"name\""]
            schedule = "{schedule} @seed(daily,salt=\"a b=c\") @policy(deadline=1h)"
            command = ["/bin/true"]
            "#
        )
    });
    eventually("the run is recorded", || {
        let history = world.history("odd = \"name\"");
        history.first().filter(|entry| entry["ExitCode"] == 0).map(drop)
    });
    krond.signal(Signal::SIGTERM);
    assert_eq!(krond.wait().code(), Some(0));
    let mut parser = TimingParser::new();
    let events: Vec<DecisionEvent> =
        krond.said.iter().filter_map(|line| DecisionEvent::parse(line).unwrap()).collect();
    assert_eq!(events.len(), 1, "{}", krond.said.join("\n"));
    assert_eq!(events[0].replay(&mut parser).unwrap(), []);
    for line in &krond.said {
        let parts = ["level", "component", "event"];
        match format {
            "text" => {
                let words: Vec<&str> = line.split(' ').collect();
                assert_eq!(words[0].len(), 30, "{line}");
                for (word, part) in words[1..].iter().zip(parts) {
                    assert!(word.starts_with(&format!("{part}=")), "{line}");
                }
            }
            _ => {
                assert!(line.starts_with(r#"{"time":""#), "{line}");
                let value: Value = serde_json::from_str(line).unwrap();
                assert!(parts.iter().all(|part| value[part].is_string()), "{line}");
            }
        }
    }
}

#[test]
fn a_command_that_cannot_be_executed_stays_unhandled_until_its_deadline() {
    let world = new_world("");
    let mut krond = world.start();
    let nominal = world.due_soon("gone", |schedule| {
        format!(
            r#"
            [job.gone]
            schedule = "{schedule} @policy(deadline=1h)"
            command = ["/no/such/program"]
            "#
        )
    });
    let failed = krond.wait_for("start_failed");
    assert_eq!(failed["error_type"], "ExecutionError");
    assert_eq!(failed["identity"], "gone");
    assert_eq!(failed["period_id"], nominal.as_str());
    for field in ["component", "operation", "message"] {
        assert!(failed[field].is_string(), "{failed}");
    }
    let document = eventually("the record of the start is taken back", || {
        let document = world.document("gone");
        (document["ActiveExecution"].is_null() && document.is_object()).then_some(document)
    });
    assert_eq!(document["LastHandledPeriodID"], "", "it is not handled yet");
    krond.wait_for("start_failed");
    assert_eq!(krond.events("missed"), [Value::Null; 0], "its deadline has not passed");
    end_deadlines(&world);
    let missed = krond.wait_for("missed");
    assert_eq!(missed["period_id"], nominal.as_str());
    let document = eventually("the miss is recorded", || {
        let document = world.document("gone");
        (document["LastOutcome"] == "missed").then_some(document)
    });
    assert_eq!(document["LastHandledPeriodID"], nominal.as_str());
    assert_eq!(document["History"].as_array().unwrap().len(), 1, "{document}");
    assert!(world.run_records().is_empty());
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_everything_it_started() {
    let seldom = seldom();
    // Its child outlives every wait of this test: it is gone only if it was ended.
    let config = |timeout_s: u64| {
        format!(
            r#"
            [job.slow]
            schedule = "{seldom}"
            command = "trap '' TERM; sleep 1000 & echo $! > {{dir}}/child; while :; do sleep 0.05; done"
            shell = true
            timeout = "{timeout_s}s"
            grace = "1s"
            "#
        )
    };
    let world = new_world("");
    let mut krond = world.start();
    // A run that had no time to get ready shows nothing; the next has twice the time.
    let run = (0..8).find_map(|doubled| {
        world.configure(&config(1 << doubled));
        world.reload_now();
        let run = world.run_now("slow")["run_id"].clone();
        let finished = krond.wait_for("finished");
        assert_eq!(finished["run_id"], run, "{finished}");
        assert_eq!(finished["ending"], "timed out", "{finished}");
        (!world.testimony("child").is_empty()).then_some(run)
    });
    let run = run.expect("a run that gets ready before its time is over");
    let entry = eventually("the end is recorded", || {
        let mut history = world.history("slow").into_iter();
        history.find(|entry| entry["RunID"] == run && entry["Ending"] == "timed out")
    });
    assert_eq!(entry["Signal"], 9, "{entry}");
    let child = world.testimony("child")[0].clone();
    eventually("its child is gone", || {
        let stat = read(format!("/proc/{child}/stat").as_ref());
        stat.is_none_or(|stat| stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn what_a_command_leaves_behind_is_reaped_when_it_ends() {
    let seldom = seldom();
    let world = new_world(&format!(
        r#"
        [job.father]
        schedule = "{seldom}"
        command = "(exec >/dev/null 2>&1; while [ -d {{dir}} ] && [ ! -e {{dir}}/permit ]; do sleep 0.02; done) & echo $! > {{dir}}/child"
        shell = true
        "#
    ));
    let mut krond = world.start();
    world.run_now("father");
    krond.wait_for("finished");
    let child = world.testimony("child")[0].clone();
    let parent = || {
        let status = read(format!("/proc/{child}/status").as_ref())?;
        let line = status.lines().find(|line| line.starts_with("PPid:"))?.to_owned();
        line.split_whitespace().nth(1).map(str::to_owned)
    };
    eventually("the daemon takes it over", || (parent()? == krond.pid().to_string()).then_some(()));
    world.permit("permit");
    eventually("it is reaped", || parent().is_none().then_some(()));
}

#[test]
fn a_run_by_hand_is_told_that_it_has_no_period() {
    let (schedule, _) = due_in(40_000);
    let world = new_world(&format!(
        "[job.rare]\nschedule = \"{schedule}\"\n\
         command = \"env > {{dir}}/env\"\nshell = true\n"
    ));
    let mut krond = world.start();
    let (status, answer) =
        world.ask("POST", "/api/v1/scheduler/jobs/rare/run", r#"{"force":false}"#);
    assert!((200..300).contains(&status), "{status} {answer}");
    let finished = krond.wait_for("finished");
    let period = finished["period_id"].as_str().unwrap();
    assert!(period.starts_with("manual/"), "{finished}");
    let env = world.testimony("env");
    for line in [&format!("KRON_PERIOD_ID={period}"), "KRON_NOMINAL_TIME=", "KRON_SEED_HASH="] {
        assert!(env.iter().any(|known| known == line), "{line} is not in {env:?}");
    }
    let document = eventually("the end is recorded", || {
        let document = world.document("rare");
        document["ActiveExecution"].is_null().then_some(document)
    });
    assert_eq!(document["LastHandledPeriodID"], "");
    assert_eq!(document["History"][0]["PeriodID"], period);
}

#[test]
fn old_logs_go_and_the_newest_stay() {
    let seldom = seldom();
    let world = new_world(&format!(
        r#"
        [daemon]
        log_runs = 2
        [job.often]
        schedule = "{seldom}"
        command = ["/bin/echo", "hello"]
        "#
    ));
    let mut krond = world.start();
    for _ in 0..4 {
        world.run_now("often");
        krond.wait_for("finished");
    }
    eventually("old logs are removed", || (world.logs("often").len() <= 3).then_some(()));
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0));
    let runs = world.history("often").into_iter().rev();
    let newest = runs.filter_map(|entry| Some(entry["RunID"].as_str()?.to_owned())).next().unwrap();
    let logs = world.logs("often");
    assert!(logs.iter().any(|log| log.to_str().unwrap().contains(&newest)), "{logs:?}");
}

#[test]
fn the_daemon_sleeps_while_nothing_is_due() {
    let deadline = now() + PATIENCE;
    // A daemon that is slow to start has its own work to do before it was watched for long enough.
    while !sleeps() {
        assert!(now() < deadline, "no daemon was watched before it had work of its own");
    }
}

/// Watches a daemon of which nothing is wanted; whether it was watched early enough.
fn sleeps() -> bool {
    let (schedule, _) = due_in(40_000);
    let world = new_world_in_memory(&format!(
        "[job.rare]\nschedule = \"{schedule}\"\ncommand = [\"/bin/true\"]\n"
    ));
    let began = now();
    let krond = world.start();
    let switches = || {
        let status = read(format!("/proc/{}/status", krond.pid()).as_ref()).unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
        line.unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    // Everything that was wanted at the start is written and over.
    let known = world.state_dir().join("known.json");
    eventually("its jobs are known", || known.exists().then_some(()));
    eventually("its load is recorded", || {
        world.epochs().iter().any(|epoch| epoch["Event"] == "load").then_some(())
    });
    wait_until_idle(krond.pid());
    let settled = switches();
    std::thread::sleep(Duration::from_secs(2));
    let found = switches();
    if began.elapsed() > RESTS_AT_LEAST {
        return false;
    }
    assert_eq!(found, settled, "the loop woke while nothing happened");
    true
}

#[test]
fn another_program_can_supervise_and_a_missing_one_is_said() {
    let seldom = seldom();
    let world = new_world(&format!(
        r#"
        [job.nap]
        schedule = "{seldom}"
        command = ["/bin/sleep", "600"]
        "#
    ));
    // krond is a supervisor when it is called one.
    let program = world.witness("another");
    copy_program(Path::new(crate::KROND), &program);
    let mut krond = Krond::spawn(world.command().arg("--supervisor").arg(&program));
    krond.wait_for("ready");
    world.run_now("nap");
    let active = &world.document("nap")["ActiveExecution"];
    let exe = std::fs::read_link(format!("/proc/{}/exe", active["Supervisor"]["PID"])).unwrap();
    assert_eq!(exe, program.canonicalize().unwrap());
    krond.stop();

    for (program, why) in [
        ("/no/such/program", "No such file or directory"),
        ("/bin/true", "it is no supervisor of this version of Kron"),
        ("/bin/cat", "it is no supervisor of this version of Kron"),
    ] {
        let mut krond = Krond::spawn(world.command().args(["--supervisor", program]));
        assert_eq!(krond.wait().code(), Some(2));
        let said = krond.said.join("\n");
        let wanted = format!("cannot start supervisors from `{program}`: {why}");
        assert!(said.contains(&wanted), "{said}");
    }
}
