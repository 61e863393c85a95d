//! Commands that cannot be started, fail, or die.
//!
//! A process that never came to be leaves its period unhandled until the deadline, and missed
//! after it. One that came to be has run, however it ended, and does not run again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use kron_testkit::files::copy_program;
use kron_testkit::krond::{Krond, LEADS_S, World, second_of};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::{eventually, wall_seconds};
use nix::sys::resource::{Resource, getrlimit};
use serde_json::Value;

use crate::daemon::end_deadlines;
use crate::faults::scene::{
    CODE, TESTIFY, assert_ran_once, assert_tells, judge, settle, wait_for_end, witnesses,
    witnesses_of,
};
use crate::new_world;

/// A user with no rights, on every machine.
const NOBODY: u32 = 65_534;

#[test]
fn what_cannot_be_started_is_unhandled_until_its_deadline_and_missed_after_it() {
    if left_out("commands of other users", &[Need::Root]) {
        return;
    }
    let rows = [
        ("not-there", r#"command = ["/no/such/command"]"#, "No such file"),
        ("not-executable", r#"command = ["{dir}/plain"]"#, "Permission denied"),
        ("no-program", r#"command = ["{dir}/unknown"]"#, "Exec format error"),
        ("directory", r#"command = ["{dir}"]"#, "Permission denied"),
        ("no-interpreter", r#"command = ["{dir}/script"]"#, "its interpreter is not"),
        (
            "no-user",
            "command = [\"/bin/true\"]\nuser = \"kron-nobody-is-called-so\"",
            "kron-nobody-is-called-so",
        ),
        (
            "no-group",
            "command = [\"/bin/true\"]\ngroup = \"kron-nobody-is-called-so\"",
            "kron-nobody-is-called-so",
        ),
        ("no-cwd", "command = [\"/bin/true\"]\ncwd = \"/no/such/directory\"", "No such file"),
        (
            "forbidden-cwd",
            "command = [\"/bin/true\"]\nuser = \"nobody\"\ncwd = \"{dir}/closed\"",
            "Permission denied",
        ),
    ];
    let world = new_world("");
    let file = |name, text, mode| {
        let path = world.witness(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    file("plain", "#!/bin/sh\n", 0o644);
    file("unknown", "\u{7f}nothing anybody executes", 0o755);
    file("script", "#!/no/such/interpreter\n", 0o755);
    fs::DirBuilder::new().mode(0o700).create(world.witness("closed")).unwrap();
    let mut krond = world.start();
    let nominal = world.due_soon(rows[0].0, |schedule| {
        let job = |(name, lines, _): &(&str, &str, &str)| {
            format!("[job.{name}]\nschedule = \"{schedule} @policy(deadline=1h)\"\n{lines}\n")
        };
        rows.iter().map(job).collect()
    });

    // Some are tried again before others are tried at all.
    let mut failed = BTreeMap::new();
    while failed.len() < rows.len() {
        let line = krond.wait_for("start_failed");
        failed.entry(line["identity"].as_str().unwrap().to_owned()).or_insert(line);
    }
    for (name, _, why) in rows {
        let line = &failed[name];
        assert_tells(line, "ExecutionError");
        assert_eq!(line["period_id"], *nominal);
        assert!(line["message"].as_str().unwrap().contains(why), "{line}");
        assert_ne!(world.document(name)["LastHandledPeriodID"], *nominal, "{name}: too early");
    }
    assert!(krond.events("missed").is_empty(), "no deadline has passed");
    end_deadlines(&world);
    let missed: Vec<Value> = rows.iter().map(|_| krond.wait_for("missed")).collect();
    for (name, ..) in rows {
        let line = missed.iter().find(|line| line["identity"] == name).expect(name);
        assert_eq!(line["level"], "info", "that a deadline passes is no error: {line}");
        assert_eq!(line["period_id"], *nominal);
        let document = eventually("it is recorded", || {
            Some(world.document(name)).filter(|document| document["LastOutcome"] == "missed")
        });
        assert_eq!(document["LastHandledPeriodID"], *nominal);
        assert!(document["ActiveExecution"].is_null());
        let history = world.history(name);
        assert_eq!(history.len(), 1, "{history:?}");
        assert!(history[0]["ExitCode"].is_null());
    }
    assert!(krond.events("started").is_empty());
    krond.stop();
    assert!(world.run_records().is_empty());
}

#[test]
fn what_is_mended_within_its_deadline_runs_once() {
    let world = new_world("");
    let mut krond = world.start();
    let nominal = world.due_soon("careful", |schedule| {
        format!(
            "[job.careful]\nschedule = \"{schedule} @policy(deadline=1h)\"\n\
             command = [\"{{dir}}/late\"]\n"
        )
    });
    krond.wait_for("start_failed");
    // A daemon in between makes no difference.
    krond.kill();
    let mut krond = world.start();
    krond.wait_for("start_failed");
    let script = world.witness("late.new");
    let witness = TESTIFY.replace("{dir}", world.witness("").to_str().unwrap());
    fs::write(&script, format!("#!/bin/sh\n{witness}\nexit {CODE}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(script, world.witness("late")).unwrap();
    wait_for_end(&world);
    krond.stop();
    assert_ran_once(&world, &nominal);
}

#[test]
fn what_ran_has_run_however_it_ended() {
    let rows = [
        ("fails", "exit 3", ("exited", Some(3), None)),
        ("killed", "kill -KILL $$", ("signalled", None, Some(9))),
        ("aborts", "kill -ABRT $$", ("signalled", None, Some(6))),
        ("succeeds", "exit 0", ("exited", Some(0), None)),
    ];
    let world = new_world("");
    let mut krond = world.start();
    let nominal = world.due_soon(rows[0].0, |schedule| {
        let jobs = rows.iter().map(|(name, script, _)| {
            format!(
                "[job.{name}]\nschedule = \"{schedule} @policy(deadline=1h)\"\n\
                 command = \"{TESTIFY}; {script}\"\nshell = true\nlimits = {{ core = 0 }}\n"
            )
        });
        jobs.collect()
    });
    for _ in rows {
        krond.wait_for("finished");
    }
    let (code, _) = world.ask("GET", "/api/v1/status", "");
    assert_eq!(code, 200);
    krond.stop();
    // A second daemon does not make up for what went wrong.
    let mut krond = world.start();
    settle(&world, &krond);
    assert!(krond.events("decision").is_empty(), "{}", krond.said.join("\n"));
    krond.stop();
    for (name, _, (ending, exit_code, signal)) in rows {
        let history = world.history(name);
        assert_eq!(history.len(), 1, "{name}: {history:?}");
        let entry = &history[0];
        assert_eq!(entry["Outcome"], "executed", "{entry}");
        assert_eq!(entry["Ending"], ending, "{entry}");
        assert_eq!(entry["ExitCode"].as_i64(), exit_code, "{entry}");
        assert_eq!(entry["Signal"].as_i64(), signal, "{entry}");
        assert_eq!(world.document(name)["LastHandledPeriodID"], *nominal);
        assert_eq!(
            witnesses_of(&world, name).into_iter().collect::<Vec<_>>(),
            [(nominal.clone(), 1)]
        );
        judge(&world, name);
    }
}

/// A daemon of a user with no rights, in a world that is that user's. It has no jobs yet.
fn unprivileged() -> (World, Krond) {
    let world = new_world("");
    let home = world.state_dir().parent().unwrap().to_owned();
    for path in [&home, &world.witness(""), &world.config_path()] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // Where it was built others may not go.
    let program = home.join("krond");
    copy_program(Path::new(crate::KROND), &program);
    let mut command = Command::new(program);
    command.args(world.command().get_args()).uid(NOBODY).gid(NOBODY);
    let mut krond = Krond::spawn(&mut command);
    krond.wait_for("ready");
    (world, krond)
}

/// Lets the daemon's user have this many processes, as far as the daemon is concerned. That user
/// may do so; root may not where it has been deprived of rights.
fn limit_processes(krond: &Krond, processes: u64) {
    let status = Command::new("prlimit")
        .args(["--pid", &krond.pid().to_string(), &format!("--nproc={processes}:")])
        .uid(NOBODY)
        .gid(NOBODY)
        .status()
        .expect("prlimit; install the Debian package `util-linux`");
    assert!(status.success());
}

#[test]
fn a_user_who_may_have_no_more_processes_is_waited_for() {
    if left_out("limits on processes", &[Need::Root]) {
        return;
    }
    for lead_s in LEADS_S {
        let (world, mut krond) = unprivileged();
        let nominal = world.load_due_in(lead_s, "careful", |schedule| {
            format!(
                r#"
                [job.careful]
                schedule = "{schedule} @policy(deadline=1h)"
                command = "{TESTIFY}; exit {CODE}"
                shell = true
                [job.hasty]
                schedule = "{schedule} @policy(deadline=0s)"
                command = "{TESTIFY}"
                shell = true
                "#
            )
        });
        let Some(nominal) = nominal else { continue };
        limit_processes(&krond, 1);
        if wall_seconds() >= second_of(&nominal) {
            continue;
        }
        let failed = krond.wait_for_job("start_failed", "careful");
        assert_tells(&failed, "SystemError");
        assert_eq!(failed["period_id"], *nominal);
        krond.wait_for_job("start_failed", "careful");
        assert!(witnesses(&world).is_empty());
        assert!(world.document("careful").is_null(), "nothing is handled");
        // Each is tried again by itself, so this may come a moment later.
        if krond.events("missed").is_empty() {
            krond.wait_for("missed");
        }
        let missed = krond.events("missed");
        assert_eq!(missed.len(), 1, "the other's deadline has passed: {missed:?}");
        assert_eq!(missed[0]["identity"], "hasty");
        let (usual, _) = getrlimit(Resource::RLIMIT_NPROC).unwrap();
        limit_processes(&krond, usual);
        wait_for_end(&world);
        krond.stop();
        assert_ran_once(&world, &nominal);
        assert_eq!(world.document("hasty")["LastOutcome"], "missed");
        return;
    }
    panic!("this machine is too slow");
}

#[test]
fn a_user_that_the_daemon_cannot_become_never_runs_anything() {
    if left_out("daemons of other users", &[Need::Root]) {
        return;
    }
    let (world, mut krond) = unprivileged();
    let nominal = world.due_soon("climber", |schedule| {
        format!(
            r#"
            [job.climber]
            schedule = "{schedule} @policy(deadline=1h)"
            command = "{TESTIFY}"
            shell = true
            user = "root"
            "#
        )
    });
    let failed = krond.wait_for("start_failed");
    assert_tells(&failed, "ExecutionError");
    assert_eq!(
        (&failed["identity"], &failed["period_id"]),
        (&"climber".into(), &Value::from(nominal))
    );
    end_deadlines(&world);
    krond.wait_for("missed");
    krond.stop();
    assert!(witnesses_of(&world, "climber").is_empty(), "it ran as somebody else");
    judge(&world, "climber");
}
