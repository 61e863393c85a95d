//! Supervisors and commands that die, and calls that fail, at every system call there is.
//!
//! A run is traced once, undisturbed, which gives the list of calls; then it is repeated once per
//! call with that call replaced by a death or an error. Whatever happens: a command is executed at
//! most once, only if it was released, and what is told and recorded agrees with what happened.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use kron_exec::{Message, Plan};
use kron_state::{ExitStatus, RunRecord};
use kron_testkit::strace::chosen;

use crate::place::{Place, next, wait_for_everybody};
use crate::runner::{Case, STRACE, note};
use crate::strace::{trace_file, traced, traced_again};

/// Every call that decides something, and of the others some of each name.
pub(crate) const CASES: &[Case] = &[
    ("crash::a_supervisor_killed_at_any_call_of_a_run", STRACE, || SUPERVISOR_KILLED.play(PART)),
    ("crash::a_supervisor_killed_at_any_call_after_its_daemon_left_the_gate", STRACE, || {
        KILLED_AFTER_GATE.play(PART);
    }),
    ("crash::a_supervisor_killed_at_any_call_after_its_daemon_left_the_run", STRACE, || {
        KILLED_AFTER_RELEASE.play(PART);
    }),
    ("crash::a_command_killed_at_any_call_before_its_execution", STRACE, || {
        COMMAND_KILLED.play(PART);
    }),
    ("crash::a_call_that_fails_anywhere", STRACE, || CALL_FAILS.play(PART)),
    ("crash::a_call_that_fails_after_the_daemon_left_the_gate", STRACE, || {
        CALL_FAILS_AFTER_GATE.play(PART);
    }),
    ("crash::a_call_that_fails_after_the_daemon_left_the_run", STRACE, || {
        CALL_FAILS_AFTER_RELEASE.play(PART);
    }),
];

/// The same with all of them.
pub(crate) const EVERY_CALL: &[Case] = &[
    ("crash::every_call::a_supervisor_killed_at_any_call_of_a_run", STRACE, || {
        SUPERVISOR_KILLED.play(ALL);
    }),
    (
        "crash::every_call::a_supervisor_killed_at_any_call_after_its_daemon_left_the_gate",
        STRACE,
        || KILLED_AFTER_GATE.play(ALL),
    ),
    (
        "crash::every_call::a_supervisor_killed_at_any_call_after_its_daemon_left_the_run",
        STRACE,
        || KILLED_AFTER_RELEASE.play(ALL),
    ),
    ("crash::every_call::a_command_killed_at_any_call_before_its_execution", STRACE, || {
        COMMAND_KILLED.play(ALL);
    }),
    ("crash::every_call::a_call_that_fails_anywhere", STRACE, || CALL_FAILS.play(ALL)),
    ("crash::every_call::a_call_that_fails_after_the_daemon_left_the_gate", STRACE, || {
        CALL_FAILS_AFTER_GATE.play(ALL);
    }),
    ("crash::every_call::a_call_that_fails_after_the_daemon_left_the_run", STRACE, || {
        CALL_FAILS_AFTER_RELEASE.play(ALL);
    }),
];

/// What a daemon does, and how far it comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Daemon {
    Stays,
    LeavesGate,
    LeavesRun,
}

/// Whose calls are listed and disturbed. Those of the command cannot be told from equal ones of
/// its supervisor, which are disturbed with them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Supervisor,
    Command,
}

/// What a daemon saw.
#[derive(Debug, Default)]
struct Seen {
    armed: Option<(i32, i32)>,
    released: bool,
    refused: bool,
    exec_failed: bool,
    ended: Option<ExitStatus>,
}

const CODE: i32 = 7;

/// What is disturbed, and how.
struct Sweep(Daemon, Whose, &'static str);

const SUPERVISOR_KILLED: Sweep = Sweep(Daemon::Stays, Whose::Supervisor, "signal=SIGKILL");
const KILLED_AFTER_GATE: Sweep = Sweep(Daemon::LeavesGate, Whose::Supervisor, "signal=SIGKILL");
const KILLED_AFTER_RELEASE: Sweep = Sweep(Daemon::LeavesRun, Whose::Supervisor, "signal=SIGKILL");
const COMMAND_KILLED: Sweep = Sweep(Daemon::Stays, Whose::Command, "signal=SIGKILL");
const CALL_FAILS: Sweep = Sweep(Daemon::Stays, Whose::Supervisor, "error=EIO");
const CALL_FAILS_AFTER_GATE: Sweep = Sweep(Daemon::LeavesGate, Whose::Supervisor, "error=ENOSPC");
const CALL_FAILS_AFTER_RELEASE: Sweep = Sweep(Daemon::LeavesRun, Whose::Supervisor, "error=ENOSPC");

/// Every how many of the calls that decide nothing are disturbed where not all are.
const PART: usize = 4;
const ALL: usize = 1;

impl Sweep {
    /// Disturbs every call that decides something, and of the others every so many of each name.
    fn play(&self, every: usize) {
        let Sweep(daemon, whose, injection) = *self;
        let follow = if whose == Whose::Command { "-f" } else { "" };
        let first = traced("-f");
        let seen = perform(&first, daemon);
        wait_for_everybody();
        let mut calls = calls(&first, &seen, whose);
        if injection.starts_with("error") {
            // An injected error keeps the call from being made, but a real `close` that fails has
            // closed; and these do not know errors, which those who call them rely on.
            let unfailing = ["close", "brk", "getpid", "geteuid", "umask"];
            calls.retain(|(name, _)| !unfailing.contains(&name.as_str()));
        }
        check(&first, &seen, "undisturbed");
        assert_eq!(first.executions(), usize::from(daemon != Daemon::LeavesGate));
        let total = calls.len();
        assert!(total > 40, "the trace is incomplete: {calls:?}");
        let played = chosen(calls, |(name, _)| name, every);
        let (mut executed, mut met) = (0, 0);
        for (name, number) in &played {
            let what = format!("{name}:{injection}:when={number}");
            let options = format!("{follow} -e trace={name} -e inject={what}");
            let place = traced_again(&first, &options);
            let context = Context(&what);
            let seen = perform(&place, daemon);
            wait_for_everybody();
            check(&place, &seen, &what);
            met += usize::from(was_met(&first));
            // Errors, unlike deaths, leave somebody to tell the end.
            if injection.starts_with("error") && place.executions() > 0 {
                let recorded = matches!(place.record(), Some(RunRecord::Ended(_)));
                assert!(seen.ended.is_some() || recorded, "its end is lost");
            }
            drop(context);
            executed += place.executions();
        }
        let played = played.len();
        note(&format!(
            "{played} of {total} calls to be disturbed by {injection}, {met} were; the command was \
             executed {executed} times"
        ));
        // A call that waits for others may be made once less.
        assert!(met * 10 >= played * 9, "only {met} of {played} calls were disturbed");
        // Disturbances before the release were among them, and where there could be, some after it.
        let after = whose == Whose::Supervisor && daemon != Daemon::LeavesGate;
        assert!(executed < played && (executed > 0) == after);
    }
}

/// Says what was injected when something else fails.
struct Context<'a>(&'a str);

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stdout(), "injected: {}", self.0);
        }
    }
}

/// A daemon's part, up to the end or the supervisor's death.
fn perform(place: &Place, daemon: Daemon) -> Seen {
    let plan = Plan { ..place.plan(&format!("echo output; exit {CODE}")) };
    let mut seen = Seen::default();
    let supervisor = place.launch(&plan);
    loop {
        match next(&supervisor) {
            Message::Armed { supervisor: process, command } => {
                seen.armed = Some((process.pid, command.pid));
                if daemon == Daemon::LeavesGate {
                    return seen;
                }
                // As a daemon must, before it tries: from here on it may have been executed.
                seen.released = true;
                let _ = supervisor.release();
                if daemon == Daemon::LeavesRun {
                    return seen;
                }
            }
            Message::Executing => {}
            Message::Refused { .. } => {
                seen.refused = true;
                let _ = supervisor.acknowledge();
            }
            Message::ExecFailed { .. } => {
                seen.exec_failed = true;
                let _ = supervisor.acknowledge();
            }
            Message::Ended(end) => {
                seen.ended = Some(end.status);
                let _ = supervisor.acknowledge();
            }
            Message::Closed => return seen,
        }
    }
}

fn check(place: &Place, seen: &Seen, what: &str) {
    let executions = place.executions();
    let record = place.record();
    let context = format!("{what}: {executions} executions, {seen:?}, {record:?}");
    assert!(executions <= 1, "{context}");
    assert!(executions == 0 || seen.released, "{context}");
    if seen.refused || seen.exec_failed {
        assert_eq!(executions, 0, "{context}");
    }
    match record {
        Some(RunRecord::NotReleased | RunRecord::ExecFailed { .. }) => {
            assert_eq!(executions, 0, "{context}");
        }
        Some(RunRecord::Ended(end)) => check_end(end.status, executions, &context),
        None => {}
    }
    if let Some(status) = seen.ended {
        check_end(status, executions, &context);
    }
}

/// Whether the call was made that was to be disturbed, by the trace that every play writes anew.
fn was_met(first: &Place) -> bool {
    let trace = fs::read_to_string(trace_file(first)).expect("a trace");
    trace.contains("(INJECTED)") || trace.contains("+++ killed by SIGKILL +++")
}

/// A command that ended was executed, or died on its way there by what is injected here.
fn check_end(status: ExitStatus, executions: usize, context: &str) {
    match status {
        ExitStatus::ExitCode(code) => assert_eq!((code, executions), (CODE, 1), "{context}"),
        ExitStatus::Signal(signal) => assert_eq!(signal, 9, "{context}"),
    }
}

/// The calls of the process from its execution to its end or its next execution, each with its
/// number among those of its name.
fn calls(place: &Place, seen: &Seen, whose: Whose) -> Vec<(String, usize)> {
    let (supervisor, command) = seen.armed.expect("it was armed");
    let pid = if whose == Whose::Supervisor { supervisor } else { command };
    let trace = fs::read_to_string(trace_file(place)).expect("a trace");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((number, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if number.parse() != Ok(pid) || !plain {
            continue;
        }
        if name == "execve" {
            if whose == Whose::Command {
                break;
            }
            continue;
        }
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        calls.push((name.to_owned(), *count));
    }
    calls
}
