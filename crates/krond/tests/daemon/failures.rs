//! Systems that fail: disks that take no more, descriptors that run out.

use std::fs;
use std::process::{Child, Command, Stdio};

use nix::sys::resource::{Resource, getrlimit};
use serde_json::Value;

use crate::harness::{Krond, World, due_in, eventually, read, wait_for_permit};

/// Makes a system call of the thread that writes state fail, from now on.
struct Fault {
    strace: Child,
}

impl Fault {
    fn inject(krond: &Krond, call: &str, error: &str) -> Fault {
        let tasks = format!("/proc/{}/task", krond.pid());
        let thread = fs::read_dir(tasks)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|task| read(&task.join("comm")).is_some_and(|name| name.trim() == "sync-1"))
            .expect("a thread that writes state");
        let thread = thread.file_name().unwrap().to_str().unwrap().to_owned();
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

fn is_called_off(call: &str, error: &str) {
    let (schedule, nominal) = due_in(5);
    let world = World::new(&format!(
        r#"
        [job.careful]
        schedule = "{schedule} @policy(deadline=1h)"
        command = "echo $KRON_PERIOD_ID >> {{dir}}/ran"
        shell = true
        "#
    ));
    let mut krond = world.start();
    let fault = Fault::inject(&krond, call, error);
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
    let (schedule, _) = due_in(2);
    let wait = wait_for_permit("permit");
    let world = World::new(&format!(
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
    let world = World::new(&format!(
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
    let (schedule, nominal) = due_in(2);
    let world = World::new(&format!(
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
