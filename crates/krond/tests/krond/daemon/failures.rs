//! Systems that fail: disks that take no more, descriptors that run out.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use kron_testkit::krond::{Krond, LEADS_S, World, second_of, seldom, wait_for_permit};
use kron_testkit::needs::left_out;
use kron_testkit::process::{is_traced_since, switches, threads_named, wait_until_idle};
use kron_testkit::strace;
use kron_testkit::waiting::{eventually, wall_seconds};
use nix::sys::resource::{Resource, getrlimit};
use serde_json::Value;

use crate::new_world;

/// Makes a system call of the thread that writes state fail, from now on.
struct Fault {
    strace: Child,
}

impl Fault {
    /// Injects the error into a daemon that waits for work.
    fn inject(krond: &Krond, call: &str, error: &str) -> Fault {
        let thread = writing_thread(krond);
        let before = switches(thread);
        // Only that thread: supervisors must be able to write what they have to say.
        let strace = Command::new("strace")
            .args(["-qq", "-o", "/dev/null", "-p", &thread.to_string()])
            .args(["-e", &format!("inject={call}:error={error}")])
            .stdin(Stdio::null())
            .spawn()
            .expect("strace is needed by this test");
        // On a busy machine the fault may have struck before it is seen here.
        eventually("strace is attached", || is_traced_since(thread, before).then_some(()));
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
    let threads = threads_named(krond.pid(), "sync-1");
    assert_eq!(threads.len(), 1, "{threads:?}");
    threads[0]
}

/// Asks for a run without waiting for the answer.
fn request_run(world: &World, identity: &str) -> UnixStream {
    let mut stream = UnixStream::connect(world.state_dir().join("krond.sock")).unwrap();
    write!(
        stream,
        "POST /api/v1/scheduler/jobs/{identity}/run HTTP/1.1\r\nHost: krond\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    stream
}

fn fatal(krond: &mut Krond) -> Value {
    let line = krond.wait_for("fatal");
    assert_eq!(line["error_type"], "PersistenceError", "{line}");
    assert_eq!(krond.wait().code(), Some(5));
    line
}

#[test]
fn a_start_that_cannot_be_recorded_never_happens() {
    if left_out("starts that cannot be recorded", strace::NEEDS) {
        return;
    }
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
/// What a load writes is written before that, so that the first to fail is the record of the run:
/// a job that is not known to be there would be new to the next daemon, which leaves what fell due
/// before. A machine that was too slow for that gets more time.
fn failing_before_due(call: &str, error: &str) -> (World, Krond, Fault, String) {
    for lead_s in LEADS_S {
        let world = new_world("");
        let krond = world.start();
        let nominal = world.load_due_in(lead_s, "careful", |schedule| {
            format!(
                r#"
                [job.careful]
                schedule = "{schedule} @policy(deadline=1h)"
                command = "echo $KRON_PERIOD_ID >> {{dir}}/ran"
                shell = true
                "#
            )
        });
        let Some(nominal) = nominal else { continue };
        wait_until_idle(krond.pid());
        let fault = Fault::inject(&krond, call, error);
        if wall_seconds() < second_of(&nominal) {
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
    if left_out("ends that cannot be recorded", strace::NEEDS) {
        return;
    }
    let (seldom, wait) = (seldom(), wait_for_permit("permit"));
    let world = new_world(&format!(
        r#"
        [job.careful]
        schedule = "{seldom}"
        command = "echo >> {{dir}}/ran; {wait}; exit 9"
        shell = true
        "#
    ));
    let mut krond = world.start();
    world.run_now("careful");
    eventually("the start is recorded", || world.history("careful").pop());
    wait_until_idle(krond.pid());
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
    if left_out("records that cannot be written", strace::NEEDS) {
        return;
    }
    let (seldom, wait) = (seldom(), wait_for_permit("permit"));
    let world = new_world(&format!(
        r#"
        [job.running]
        schedule = "{seldom}"
        command = "echo >> {{dir}}/running; {wait}; echo >> {{dir}}/ended"
        shell = true
        [job.starting]
        schedule = "{seldom}"
        command = "echo >> {{dir}}/starting"
        shell = true
        "#
    ));
    let mut krond = world.start();
    world.run_now("running");
    eventually("the start is recorded", || world.history("running").pop());
    wait_until_idle(krond.pid());
    let fault = Fault::inject(&krond, "fsync,fdatasync", "EIO");
    // It is never answered.
    let _request = request_run(&world, "starting");
    fatal(&mut krond);
    drop(fault);
    assert!(world.testimony("starting").is_empty());
    world.permit("permit");
    eventually("the running command comes to its end", || world.testimony("ended").pop());
    eventually("its supervisor leaves a record", || world.run_records().pop());
}

#[test]
fn a_shortage_of_descriptors_delays_a_start_and_handles_nothing() {
    let (world, mut krond, nominal) = short_of_descriptors();
    let failed = krond.wait_for("start_failed");
    assert_eq!(failed["error_type"], "SystemError", "{failed}");
    assert_eq!(failed["period_id"], nominal.as_str());
    limit_descriptors(&krond, 1_024);
    let finished = krond.wait_for("finished");
    assert_eq!(finished["period_id"], nominal.as_str());
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert_eq!(world.testimony("ran"), [soft.to_string()], "once, with the usual limit");
}

/// A daemon whose one job, `patient`, has yet to fall due, and that may open no more than it has
/// opened. A machine that was too slow for that gets more time.
fn short_of_descriptors() -> (World, Krond, String) {
    for lead_s in LEADS_S {
        let world = new_world("");
        let krond = world.start();
        let nominal = world.load_due_in(lead_s, "patient", |schedule| {
            format!(
                r#"
                [job.patient]
                schedule = "{schedule} @policy(deadline=1h)"
                command = "ulimit -Sn >> {{dir}}/ran"
                shell = true
                "#
            )
        });
        let Some(nominal) = nominal else { continue };
        // The connection of the request that loaded it is closed by then.
        wait_until_idle(krond.pid());
        let open = fs::read_dir(format!("/proc/{}/fd", krond.pid())).unwrap().count();
        limit_descriptors(&krond, open);
        if wall_seconds() < second_of(&nominal) {
            return (world, krond, nominal);
        }
    }
    panic!("this machine is too slow");
}

fn limit_descriptors(krond: &Krond, soft: usize) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let status = Command::new("prlimit")
        .args(["--pid", &krond.pid().to_string(), &format!("--nofile={soft}:{hard}")])
        .status()
        .expect("prlimit is needed by this test");
    assert!(status.success());
}
