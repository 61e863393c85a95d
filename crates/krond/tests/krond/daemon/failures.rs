//! Systems that fail: disks that take no more, descriptors that run out.

use std::fs;
use std::process::{Child, Command, Stdio};

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, SOON_S, World, due_in, wait_for_permit};
use kron_testkit::waiting::{WAIT_FOR_A_THREAD, eventually, wait_until_blocked, wall_seconds};
use nix::sys::resource::{Resource, getrlimit};
use serde_json::Value;

use crate::new_world;

/// Makes a system call of the thread that writes state fail, from now on.
struct Fault {
    strace: Child,
}

impl Fault {
    fn inject(krond: &Krond, call: &str, error: &str) -> Fault {
        let thread = writing_thread(krond).to_string();
        // Only that thread: supervisors must be able to write what they have to say.
        let strace = Command::new("strace")
            .args(["-qq", "-o", "/dev/null", "-p", &thread])
            .args(["-e", &format!("inject={call}:error={error}")])
            .stdin(Stdio::null())
            .spawn()
            .expect("strace is needed by this test");
        eventually("strace is attached", || {
            let status = read(format!("/proc/{}/task/{thread}/status", krond.pid()).as_ref());
            // On a busy machine the fault may have struck before it is seen here.
            let Some(status) = status else { return Some(()) };
            let tracer = status.lines().find(|line| line.starts_with("TracerPid:"))?;
            (!tracer.ends_with("\t0")).then_some(())
        });
        Fault { strace }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// The thread that writes state.
fn writing_thread(krond: &Krond) -> i32 {
    let tasks = format!("/proc/{}/task", krond.pid());
    // It gives itself its name, which may be a moment after the daemon is ready.
    let task = eventually("a thread that writes state", || {
        let mut tasks = fs::read_dir(&tasks).unwrap().map(|entry| entry.unwrap().path());
        tasks.find(|task| read(&task.join("comm")).is_some_and(|name| name.trim() == "sync-1"))
    });
    task.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn fatal(krond: &mut Krond) -> Value {
    let line = krond.wait_for("fatal");
    assert_eq!(line["error_type"], "PersistenceError", "{line}");
    assert_eq!(krond.wait().code(), Some(5));
    line
}

#[test]
fn a_start_that_cannot_be_recorded_never_happens() {
    let faults = [
        ("fsync,fdatasync", "EIO"),
        ("renameat,renameat2", "ENOSPC"),
        ("openat,openat2", "EACCES"),
    ];
    std::thread::scope(|scope| {
        for (call, error) in faults {
            scope.spawn(move || is_called_off(call, error));
        }
    });
}

/// A daemon whose one job has yet to fall due, and whose thread that writes state fails already.
/// What a start writes is written before that, so that the first to fail is the record of the run:
/// a job of which nothing is recorded would be new to the next daemon, which leaves what fell due
/// before. A machine that was too slow for that gets more time.
fn failing_before_due(call: &str, error: &str) -> (World, Krond, Fault, String) {
    for lead in [5, 10, 20, 40] {
        let due = wall_seconds() + lead;
        let (schedule, nominal) = due_in(lead);
        let world = new_world(&format!(
            r#"
            [job.careful]
            schedule = "{schedule} @policy(deadline=1h)"
            command = "echo $KRON_PERIOD_ID >> {{dir}}/ran"
            shell = true
            "#
        ));
        let krond = world.start();
        // It comes last, and is durable when its writer sleeps again.
        let known = world.state_dir().join("known.json");
        eventually("the job is known", || known.exists().then_some(()));
        wait_until_blocked(writing_thread(&krond), WAIT_FOR_A_THREAD);
        let fault = Fault::inject(&krond, call, error);
        if wall_seconds() < due {
            return (world, krond, fault, nominal);
        }
    }
    panic!("this machine is too slow");
}

fn is_called_off(call: &str, error: &str) {
    let (world, mut krond, fault, nominal) = failing_before_due(call, error);
    fatal(&mut krond);
    drop(fault);
    assert!(world.testimony("ran").is_empty(), "{call} {error}: it ran without a record");
    // Whether the record got to disk is not known; that the command was not released is.
    let active = &world.document("careful")["ActiveExecution"];
    if !active.is_null() {
        let record = eventually("the supervisor says so", || world.run_records().pop());
        assert!(record.to_string().contains("not_released"), "{record}");
    }

    let mut krond = world.start();
    let finished = krond.wait_for("finished");
    assert_eq!(finished["period_id"], nominal.as_str(), "{call} {error}");
    assert_eq!(world.testimony("ran"), [nominal], "{call} {error}: it runs once after all");
}

#[test]
fn an_end_that_cannot_be_recorded_is_kept_by_the_supervisor() {
    let (schedule, _) = due_in(SOON_S);
    let wait = wait_for_permit("permit");
    let world = new_world(&format!(
        r#"
        [job.careful]
        schedule = "{schedule} @policy(deadline=1h)"
        command = "echo >> {{dir}}/ran; {wait}; exit 9"
        shell = true
        "#
    ));
    let mut krond = world.start();
    krond.wait_for("started");
    eventually("the start is recorded", || world.history("careful").pop());
    let fault = Fault::inject(&krond, "fsync,fdatasync", "EIO");
    world.permit("permit");
    fatal(&mut krond);
    drop(fault);
    eventually("the supervisor leaves a record", || world.run_records().pop());
    let mut krond = world.start();
    assert_eq!(krond.wait_for("finished")["exit_code"], 9);
    assert_eq!(world.testimony("ran").len(), 1);
}

#[test]
fn running_commands_go_on_when_another_jobs_record_cannot_be_written() {
    let (schedule, _) = due_in(5);
    let wait = wait_for_permit("permit");
    let world = new_world(&format!(
        r#"
        [job.running]
        schedule = "* * * * * *"
        command = "echo >> {{dir}}/running; {wait}; echo >> {{dir}}/ended"
        shell = true
        [job.starting]
        schedule = "{schedule}"
        command = "echo >> {{dir}}/starting"
        shell = true
        "#
    ));
    let mut krond = world.start();
    krond.wait_for_job("started", "running");
    eventually("the start is recorded", || world.history("running").pop());
    let fault = Fault::inject(&krond, "fsync,fdatasync", "EIO");
    fatal(&mut krond);
    drop(fault);
    assert!(world.testimony("starting").is_empty());
    world.permit("permit");
    eventually("the running command comes to its end", || world.testimony("ended").pop());
    eventually("its supervisor leaves a record", || world.run_records().pop());
}

#[test]
fn a_shortage_of_descriptors_delays_a_start_and_handles_nothing() {
    let (schedule, nominal) = due_in(SOON_S);
    let world = new_world(&format!(
        r#"
        [job.patient]
        schedule = "{schedule} @policy(deadline=1h)"
        command = "ulimit -Sn >> {{dir}}/ran"
        shell = true
        "#
    ));
    let mut krond = world.start();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let pid = krond.pid().to_string();
    let limit = |soft: &str| {
        let status = Command::new("prlimit")
            .args(["--pid", &pid, &format!("--nofile={soft}:{hard}")])
            .status()
            .expect("prlimit is needed by this test");
        assert!(status.success());
    };
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    limit(&open.to_string());
    let failed = krond.wait_for("start_failed");
    assert_eq!(failed["error_type"], "SystemError", "{failed}");
    assert_eq!(failed["period_id"], nominal.as_str());
    limit("1024");
    let finished = krond.wait_for("finished");
    assert_eq!(finished["period_id"], nominal.as_str());
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert_eq!(world.testimony("ran"), [soft.to_string()], "once, with the usual limit");
}
