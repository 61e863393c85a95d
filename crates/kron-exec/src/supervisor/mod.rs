//! The supervisor: a process that starts one command, sees it to its end, and tells.
//!
//! It has one thread, and keeps little: the plan is forgotten as soon as the command is forked.
//! It blocks every signal, hears only those it is meant to, and ends by itself when the run's last
//! words are durable, be it with the daemon or in the state directory. It never connects to
//! anything: when its daemon is gone, it is alone until it is done.
//!
//! Descriptor 0 is its control socket; its output is the daemon's.

mod command;
mod descendants;
mod identity;
mod output;
mod record;
mod stage;
mod watch;

use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use kron_core::UtcSecond;
use kron_state::{RunEnd, RunId, RunRecord};
use nix::sys::signal::{SigHandler, SigSet, Signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketType;

use self::command::{Prepared, Streams, close_range, set_signal_mask};
use self::output::open_output;
use self::watch::{Daemon, LastWords, Watch};
use crate::SUPERVISOR_NAME;
use crate::log_line::LogFormat;
use crate::memory::give_back_memory;
use crate::plan::{Output, Plan};
use crate::process::become_subreaper;
use crate::wire::{self, HelloError, Message, Order, Received};

/// The exit code for being started by anything but a daemon.
const USAGE: u8 = 2;

/// Whether this process was started to be a supervisor: then `main` hands over to [`supervise`]
/// before it does anything else.
#[must_use]
pub fn is_supervisor() -> bool {
    std::env::args_os().next().is_some_and(|name| name == SUPERVISOR_NAME)
}

/// Supervises one run, from the plan on descriptor 0 to its last words.
///
/// To be called in a process of one thread that has opened nothing yet.
#[must_use]
pub fn supervise() -> ExitCode {
    let control = rustix::stdio::stdin();
    if rustix::net::sockopt::socket_type(control) != Ok(SocketType::SEQPACKET) {
        let _ = writeln!(io::stderr(), "error: {SUPERVISOR_NAME} is started by krond, not by hand");
        return ExitCode::from(USAGE);
    }
    let started = settle()
        .map_err(|error| Failure::new("supervisor", "become a supervisor", &error))
        .and_then(|()| start(control, receive_plan(control)?));
    let (run, watch) = match started {
        Ok(started) => {
            // What the plan took: a supervisor may be there for days.
            give_back_memory();
            started
        }
        Err(failure) => {
            // If nobody is there to hear it, nobody is waiting for it.
            let _ = wire::send_report(control, &failure.into_message());
            return ExitCode::FAILURE;
        }
    };
    match watch.run() {
        Some((last, daemon)) => conclude(control, &run, last, daemon),
        None => ExitCode::FAILURE,
    }
}

/// A failure before the command could be watched: nothing was executed.
struct Failure {
    stage: &'static str,
    errno: i32,
    message: String,
}

impl Failure {
    fn new(stage: &'static str, attempt: &str, error: &io::Error) -> Failure {
        let errno = error.raw_os_error().unwrap_or_default();
        Failure { stage, errno, message: format!("could not {attempt}: {error}") }
    }

    fn into_message(self) -> Message {
        let Failure { stage, errno, message } = self;
        Message::Refused { stage: stage.to_owned(), errno, message: wire::bounded(message) }
    }
}

/// What of the plan is needed to its end.
struct Run {
    id: RunId,
    state_dir: PathBuf,
    program: String,
    identity: Option<String>,
    period_id: Option<String>,
    log_format: LogFormat,
}

/// Makes this process one that nothing but its purpose can end.
fn settle() -> io::Result<()> {
    set_signal_mask(&SigSet::all())?;
    #[expect(unsafe_code, reason = "a daemon that ignores its children's ends must not be copied")]
    // SAFETY: the default disposition runs no code of ours.
    unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    close_inherited()?;
    become_subreaper()?;
    #[cfg(kron_canary)]
    if kron_canary::Canary::SupervisedByTheDaemon.is_active() {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    }
    // For those who list processes; without it they read `exe`.
    let _ = rustix::thread::set_name(c"kron-supervisor");
    rustix::process::umask(Mode::from_bits_truncate(0o077));
    rustix::process::chdir("/")?;
    Ok(())
}

/// Closes whatever the daemon failed to mark as its own.
fn close_inherited() -> rustix::io::Result<()> {
    #[cfg(kron_canary)]
    if kron_canary::Canary::ForkedFromTheDaemon.is_active() {
        return Ok(());
    }
    close_range(3, i32::MAX)
}

fn receive_plan(control: BorrowedFd<'_>) -> Result<Plan, Failure> {
    let bytes = wire::receive_hello(control).map_err(|error| match error {
        HelloError::Io(error) => Failure::new("protocol", "receive the plan", &error),
        HelloError::Closed | HelloError::Version(_) | HelloError::NotAPlan => {
            Failure { stage: "protocol", errno: 0, message: error.to_string() }
        }
    })?;
    let plan: Plan = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("could not read the plan: {error}");
        Failure { stage: "plan", errno: 0, message }
    })?;
    plan.check().map_err(|error| Failure {
        stage: "plan",
        errno: 0,
        message: error.to_string(),
    })?;
    Ok(plan)
}

/// Opens what the command needs and forks it.
fn start(control: BorrowedFd<'static>, plan: Plan) -> Result<(Run, Watch), Failure> {
    let opened = open_output(&plan.output, plan.credentials.as_ref()).map_err(|error| {
        let attempt = match &plan.output {
            Output::Log { path, .. } => format!("create the log file `{}`", path.display()),
            Output::Inherit | Output::Discard | Output::Syslog { .. } => {
                "open its output".to_owned()
            }
        };
        Failure::new("output", &attempt, &error)
    })?;
    let mut pump = opened.pump;
    let forked = open_input(plan.stdin.as_deref())
        .map_err(|error| Failure::new("input", "provide its input", &error))
        .and_then(|stdin| {
            let fork =
                |error: io::Error| Failure::new("fork", "fork the command's process", &error);
            let prepared = Prepared::new(&plan, Streams { stdin, output: opened.stream });
            prepared.map_err(|error| fork(error.into()))?.fork().map_err(fork)
        });
    let forked = match forked {
        Ok(forked) => forked,
        Err(failure) => {
            pump.take().into_iter().for_each(output::Pump::discard);
            return Err(failure);
        }
    };
    if let Some(pump) = &mut pump {
        pump.name_process(forked.pid.as_raw_nonzero().get());
    }
    let Plan { run, argv, state_dir, timeout, grace, identity, period_id, log_format, .. } = plan;
    let program = argv.into_iter().next().unwrap_or_default();
    let run = Run { id: run, state_dir, program, identity, period_id, log_format };
    // When this fails the gate closes, and the forked process leaves without having executed.
    let watch = Watch::new(control, forked, pump, timeout, grace)
        .map_err(|error| Failure::new("supervisor", "watch the command", &error))?;
    Ok((run, watch))
}

/// The text from a file, so that a command that does not read it holds up nobody.
fn open_input(text: Option<&str>) -> io::Result<OwnedFd> {
    match text {
        Some(text) => wire::sealed("kron-stdin", text.as_bytes()),
        None => Ok(rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?),
    }
}

/// Makes the last words durable: by telling the daemon, or by recording them.
fn conclude(control: BorrowedFd<'_>, run: &Run, last: LastWords, daemon: Daemon) -> ExitCode {
    let armed = !matches!(last, LastWords::Refused { armed: false, .. });
    let (message, record) = put_into_words(last, &run.program);
    let told = match (message, daemon) {
        (Some(message), Daemon::Present) => wire::send_report(control, &message).is_ok(),
        (None, _) | (_, Daemon::Gone) => false,
    };
    // What was never armed was never recorded by the daemon, so nobody needs to know more.
    if told && (!armed || is_acknowledged(control)) {
        return ExitCode::SUCCESS;
    }
    match record::leave_record(run, record) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// What is told, if anything is, and what is recorded if it cannot be told.
fn put_into_words(last: LastWords, program: &str) -> (Option<Message>, RunRecord) {
    match last {
        LastWords::NotReleased => (None, RunRecord::NotReleased),
        LastWords::Refused { why, .. } => {
            let (stage, errno, message) = why.explain();
            (Some(Failure { stage, errno, message }.into_message()), RunRecord::NotReleased)
        }
        LastWords::ExecFailed(fault) => {
            let (stage, errno, message) = fault.explain(exec_hint(fault.errno, program));
            let message = wire::bounded(format!("`{program}`: {message}"));
            let stage = stage.to_owned();
            let record =
                RunRecord::ExecFailed { stage: stage.clone(), errno, message: message.clone() };
            (Some(Message::ExecFailed { stage, errno, message }), record)
        }
        LastWords::Ended { status, cause, output } => {
            let end = RunEnd {
                status,
                cause,
                at: wall().0,
                output_bytes: output.kept,
                output_dropped: output.dropped,
            };
            (Some(Message::Ended(end.clone())), RunRecord::Ended(end))
        }
    }
}

/// What the system's error does not say.
fn exec_hint(errno: i32, program: &str) -> &'static str {
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT if program.starts_with('/') && std::path::Path::new(program).exists() => {
            "; the file is there, its interpreter is not"
        }
        Errno::NOEXEC => "; a script starts with `#!` and its interpreter",
        _ => "",
    }
}

/// Waits for the daemon: true when it acknowledges, false when it goes away.
fn is_acknowledged(control: BorrowedFd<'_>) -> bool {
    loop {
        match wire::receive_order(control) {
            Ok(Received::Packet(Order::Acknowledge)) => return true,
            // A release that crossed the last words comes too late.
            Ok(Received::Packet(Order::Release)) => {}
            Ok(Received::Nothing) => {
                let mut fds = [PollFd::from_borrowed_fd(control, PollFlags::IN)];
                if poll(&mut fds, None).is_err_and(|errno| errno != Errno::INTR) {
                    return false;
                }
            }
            Ok(Received::Closed) | Err(_) => return false,
        }
    }
}

/// The present with nanoseconds, for the log: `2026-03-01T00:00:00.000000000Z`.
fn timestamp() -> String {
    let (second, nanoseconds) = wall();
    format!("{}.{nanoseconds:09}Z", second.to_string().trim_end_matches('Z'))
}

/// The wall clock, and the nanoseconds since its second began. For the record and the log only:
/// nothing is decided by it.
fn wall() -> (UtcSecond, u32) {
    #[expect(clippy::disallowed_methods, reason = "the supervisor alone sees when its run ends")]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let second = i64::try_from(since.as_secs()).ok().and_then(UtcSecond::from_unix);
    (second.unwrap_or(UtcSecond::MAX), since.subsec_nanos())
}
