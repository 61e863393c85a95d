//! Nothing is executed that was not released, and whatever was released is accounted for.

use kron_exec::{Launcher, Message, Signal};
use kron_state::{Cause, ExitStatus, RunRecord};
use kron_testkit::waiting::wall_seconds;

use crate::place::{LONG, Place, next, wait_for_end, wait_for_process, wait_for_text, wait_until};
use crate::runner::{Case, NOTHING, STRACE};
use crate::strace::traced;

pub(crate) const CASES: &[Case] = &[
    ("gate::an_acknowledged_run_leaves_no_record", NOTHING, acknowledged),
    ("gate::a_daemon_that_goes_at_the_gate_calls_the_run_off", NOTHING, gone_at_gate),
    ("gate::a_daemon_that_goes_at_once_calls_the_run_off", NOTHING, gone_at_once),
    ("gate::a_supervisor_that_dies_at_the_gate_takes_the_command_along", NOTHING, killed_at_gate),
    ("gate::a_release_just_before_the_end_counts", NOTHING, released_and_gone),
    ("gate::a_daemon_that_goes_during_the_run_finds_its_end_recorded", NOTHING, gone_during_run),
    ("gate::an_end_that_nobody_acknowledges_is_recorded", NOTHING, unacknowledged),
    ("gate::a_request_to_end_before_the_release_calls_the_run_off", NOTHING, asked_at_gate),
    ("gate::a_refusal_that_nobody_acknowledges_is_recorded", NOTHING, refused_and_gone),
    ("gate::a_command_that_dies_at_the_gate_is_refused", NOTHING, command_dies_at_gate),
    ("gate::a_release_before_the_gate_is_armed_is_refused", STRACE, released_early),
    ("gate::supervisors_do_not_hold_each_others_gates", NOTHING, gates_are_apart),
    ("gate::a_record_that_cannot_be_written_is_tried_again", NOTHING, record_retried),
    ("gate::nobody_waits_for_a_state_directory_that_is_gone", NOTHING, state_gone),
    ("gate::supervisors_are_spawned_and_not_forked", STRACE, spawned),
    ("gate::another_version_of_the_protocol_is_refused", NOTHING, another_version),
    ("gate::by_hand_nothing_is_supervised", NOTHING, by_hand),
    ("gate::the_small_program_supervises_and_stays_the_same", NOTHING, small_program),
    ("gate::a_program_that_everybody_may_write_is_refused", NOTHING, unsafe_program),
];

fn acknowledged() {
    let place = Place::new();
    let before = wall_seconds() as i64;
    let end = place.run(&place.plan("echo out; echo err >&2"));
    let after = wall_seconds() as i64;
    assert_eq!((end.status, end.cause), (ExitStatus::ExitCode(0), Cause::Own));
    assert_eq!((end.output_bytes, end.output_dropped), (8, 0));
    assert!((before..=after).contains(&end.at.unix()), "{before} to {after}: {}", end.at);
    assert_eq!(place.logged(), "out\nerr\n");
    assert_eq!(place.executions(), 1);
}

/// The program that does nothing but supervise, in a place of its own.
fn small_copy(place: &Place) -> std::path::PathBuf {
    let copy = place.open.join("small");
    std::fs::copy(env!("CARGO_BIN_EXE_kron-supervisor"), &copy).expect("a copy");
    copy
}

fn small_program() {
    let mut place = Place::new();
    let small = small_copy(&place);
    place.launcher = Launcher::of(&small).expect("a program");
    // Whatever takes its place is not used.
    std::fs::remove_file(&small).expect("removed");
    std::fs::write(&small, "#!/bin/false\n").expect("written");
    let end = place.run(&place.plan("echo out; exit 7"));
    assert_eq!((end.status, end.cause), (ExitStatus::ExitCode(7), Cause::Own));
    assert_eq!((place.logged(), place.executions()), ("out\n".to_owned(), 1));
    let plan = kron_exec::Plan { output: kron_exec::Output::Discard, ..place.plan("") };
    let (supervisor, _) = place.arm(&plan);
    let exe = std::fs::read_link(format!("/proc/{}/exe", supervisor.process().pid)).expect("alive");
    assert!(exe.to_string_lossy().ends_with("small (deleted)"), "{}", exe.display());
    drop(supervisor);
    crate::place::wait_for_everybody();
}

fn unsafe_program() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let small = small_copy(&place);
    let with = |mode: u32| {
        std::fs::set_permissions(&small, PermissionsExt::from_mode(mode)).expect("a mode");
        Launcher::of(&small).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(with(0o755), Ok(()));
    assert_eq!(with(0o757), Err("everybody may write it".to_owned()));
    assert!(with(0o644).is_err_and(|why| why.contains("Permission denied")));
    assert!(Launcher::of(&place.open).is_err_and(|why| why.to_string() == "it is not a file"));
    assert!(Launcher::of(&place.open.join("none")).is_err());
}

fn gone_at_gate() {
    let place = Place::new();
    let (supervisor, command) = place.arm(&place.plan(""));
    assert!(place.log().exists());
    drop(supervisor);
    crate::place::wait_for_everybody();
    wait_for_process(command);
    assert_eq!(place.executions(), 0);
    assert_eq!(place.record(), Some(RunRecord::NotReleased));
    assert!(!place.log().exists(), "no log of what never ran");
}

fn gone_at_once() {
    let place = Place::new();
    drop(place.launch(&place.plan("")));
    crate::place::wait_for_everybody();
    assert_eq!(place.executions(), 0);
    assert_eq!(place.record(), Some(RunRecord::NotReleased));
}

fn killed_at_gate() {
    let place = Place::new();
    let (supervisor, command) = place.arm(&place.plan(""));
    kill(supervisor.process().pid, "KILL");
    assert_eq!(next(&supervisor), Message::Closed);
    wait_for_end(&supervisor);
    wait_for_process(command);
    // Too late, and nobody is there.
    assert!(supervisor.release().is_err());
    crate::place::wait_for_everybody();
    assert_eq!(place.executions(), 0);
    assert_eq!(place.record(), None);
}

fn released_and_gone() {
    let place = Place::new();
    let (supervisor, _) = place.arm(&place.plan("exit 3"));
    supervisor.release().expect("released");
    drop(supervisor);
    crate::place::wait_for_everybody();
    assert_eq!(place.executions(), 1);
    let Some(RunRecord::Ended(end)) = place.record() else { panic!("not recorded") };
    assert_eq!((end.status, end.cause), (ExitStatus::ExitCode(3), Cause::Own));
}

fn gone_during_run() {
    let place = Place::new();
    let go = place.open.join("go");
    let script = format!(
        "echo before; until [ -e {} ]; do sleep 0.01; done; echo after; exit 4",
        go.display()
    );
    let (supervisor, command) = place.execute(&place.plan(&script));
    wait_for_text(&place.log());
    drop(supervisor);
    assert!(crate::place::hold(command).is_some_and(|held| !held.has_ended().expect("an answer")));
    std::fs::write(go, "").expect("written");
    crate::place::wait_for_everybody();
    let Some(RunRecord::Ended(end)) = place.record() else { panic!("not recorded") };
    assert_eq!((end.status, end.cause), (ExitStatus::ExitCode(4), Cause::Own));
    assert_eq!(place.logged(), "before\nafter\n");
}

fn unacknowledged() {
    let place = Place::new();
    let (supervisor, _) = place.execute(&place.plan("kill -USR1 $$"));
    let Message::Ended(end) = next(&supervisor) else { panic!("not ended") };
    assert_eq!(place.record(), None, "the daemon may still acknowledge");
    drop(supervisor);
    crate::place::wait_for_everybody();
    assert_eq!(end.status, ExitStatus::Signal(10));
    assert_eq!(place.record(), Some(RunRecord::Ended(end)));
}

fn asked_at_gate() {
    for signal in [Signal::Terminate, Signal::Kill] {
        let place = Place::new();
        let (supervisor, command) = place.arm(&place.plan(""));
        assert!(supervisor.signal(signal).expect("signalled"));
        refused(&next(&supervisor), "gate", "asked to end before it was released");
        wait_for_process(command);
        // A release that crosses the refusal changes nothing.
        supervisor.release().expect("sent");
        supervisor.acknowledge().expect("acknowledged");
        assert_eq!(next(&supervisor), Message::Closed);
        wait_for_end(&supervisor);
        assert_eq!(place.executions(), 0);
        assert_eq!(place.record(), None);
    }
}

fn refused_and_gone() {
    let place = Place::new();
    let (supervisor, _) = place.arm(&place.plan(""));
    assert!(supervisor.signal(Signal::Terminate).expect("signalled"));
    refused(&next(&supervisor), "gate", "asked to end before it was released");
    drop(supervisor);
    crate::place::wait_for_everybody();
    assert_eq!(place.executions(), 0);
    assert_eq!(place.record(), Some(RunRecord::NotReleased));
}

fn command_dies_at_gate() {
    let place = Place::new();
    let (supervisor, command) = place.arm(&place.plan(""));
    kill(command.pid, "KILL");
    refused(&next(&supervisor), "gate", "the process was ended by signal 9 before it was released");
    supervisor.release().expect("sent");
    supervisor.acknowledge().expect("acknowledged");
    wait_for_end(&supervisor);
    assert_eq!(place.executions(), 0);
}

fn released_early() {
    // The command's process does not get as far as being armed.
    let place = traced("-f -e trace=setsid -e inject=setsid:signal=SIGSTOP");
    let supervisor = place.launch(&place.plan(""));
    supervisor.release().expect("sent");
    refused(&next(&supervisor), "protocol", "the daemon sent an unexpected order");
    assert_eq!(next(&supervisor), Message::Closed);
    wait_for_end(&supervisor);
    assert_eq!(place.executions(), 0);
}

fn another_version() {
    use std::os::unix::process::CommandExt;

    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets");
    send(&ours, b"kron\x09\0\0\0something new", SendFlags::empty()).expect("sent");
    let mut child = std::process::Command::new("/proc/self/exe")
        .arg0(kron_exec::SUPERVISOR_NAME)
        .stdin(std::process::Stdio::from(theirs))
        .spawn()
        .expect("a supervisor");
    let mut bytes = [0; 1_000];
    let (length, _) = recv(&ours, &mut bytes, rustix::net::RecvFlags::empty()).expect("a report");
    let report = String::from_utf8_lossy(&bytes[..length]);
    let expected = r#"{"refused":{"stage":"protocol","errno":0,"message":"the daemon speaks version 9 of the protocol, this supervisor speaks 1"}}"#;
    assert_eq!(report, expected);
    assert!(!child.wait().expect("reaped").success());
}

fn gates_are_apart() {
    let place = Place::new();
    let plan = |name: &str| kron_exec::Plan {
        output: kron_exec::Output::Log { path: place.state.join(name), bytes_max: 100 },
        timeout: Some(LONG),
        ..place.plan("sleep 1000")
    };
    let (first, first_command) = place.arm(&plan("a.log"));
    let (second, second_command) = place.arm(&plan("b.log"));
    let (third, _) = place.execute(&plan("c.log"));
    // The middle one dies; its command must notice although others were forked before and after.
    kill(second.process().pid, "KILL");
    wait_for_process(second_command);
    assert!(crate::place::hold(first_command).is_some());
    first.signal(Signal::Kill).expect("signalled");
    refused(&next(&first), "gate", "asked to end before it was released");
    first.acknowledge().expect("acknowledged");
    third.signal(Signal::Kill).expect("signalled");
    place.end_of(&third);
    assert_eq!(place.executions(), 1);
}

fn record_retried() {
    let place = Place::new();
    let runs = place.state.join("runs");
    std::fs::remove_dir(&runs).expect("removed");
    let (supervisor, command) = place.execute(&place.plan("exit 8"));
    let process = supervisor.process();
    drop(supervisor);
    wait_for_process(command);
    // It waits between two attempts: asleep, and not for anything it can be told.
    wait_until("it tries again", || {
        let path = format!("/proc/{}/syscall", process.pid);
        let call = std::fs::read_to_string(path).unwrap_or_default();
        call.split(' ').next().and_then(|number| number.parse().ok())
            == Some(libc::SYS_clock_nanosleep)
    });
    std::fs::create_dir(&runs).expect("made");
    std::fs::set_permissions(&runs, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("a mode");
    crate::place::wait_for_everybody();
    let Some(RunRecord::Ended(end)) = place.record() else { panic!("not recorded") };
    assert_eq!(end.status, ExitStatus::ExitCode(8));
}

fn state_gone() {
    let place = Place::new();
    let (supervisor, _) = place.execute(&place.plan("exit 8"));
    std::fs::remove_dir_all(&place.state).expect("removed");
    drop(supervisor);
    crate::place::wait_for_everybody();
}

fn spawned() {
    let place = Place::new();
    let trace = place.root.path().join("trace");
    let status = std::process::Command::new("strace")
        .args(["-qq", "-e", "signal=none", "-e", "trace=?fork,?vfork,clone,?clone3", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().expect("this program"))
        .args(["--case", "gate::an_acknowledged_run_leaves_no_record"])
        .status()
        .expect("strace starts");
    assert!(status.success());
    let trace = std::fs::read_to_string(trace).expect("a trace");
    let calls: Vec<&str> = trace.lines().collect();
    assert_eq!(calls.len(), 1, "{trace}");
    assert!(calls[0].contains("CLONE_VM|CLONE_VFORK"), "{trace}");
}

fn by_hand() {
    use std::os::unix::process::CommandExt;
    let output = std::process::Command::new("/proc/self/exe")
        .arg0(kron_exec::SUPERVISOR_NAME)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("an answer");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, "error: kron-supervisor is started by krond, not by hand\n");
}

/// Checks a refusal.
pub(crate) fn refused(message: &Message, expected_stage: &str, expected_message: &str) {
    match message {
        Message::Refused { stage, message, .. } => {
            assert_eq!(stage, expected_stage, "{message}");
            assert!(message.contains(expected_message), "{message:?} lacks {expected_message:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// Sends a signal by name, as anybody could.
pub(crate) fn kill(pid: i32, signal: &str) {
    let status = std::process::Command::new("/bin/kill")
        .args([format!("-{signal}"), "--".to_owned(), pid.to_string()])
        .status()
        .expect("a kill");
    assert!(status.success());
}
