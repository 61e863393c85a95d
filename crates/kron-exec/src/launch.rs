//! The daemon's side: starting a supervisor and talking to it.
//!
//! A supervisor is this very program, executed again under another name by `posix_spawn`, so that
//! neither the daemon's memory nor its lock nor its descriptors are copied. Nothing here waits:
//! the plan is in the socket before the supervisor exists, and every report is picked up when the
//! socket is readable.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;

use crate::SUPERVISOR_NAME;
use crate::plan::{PLAN_BYTES_MAX, Plan, PlanError};
use crate::process::{Held, ProcessId, Signal, start_ticks};
use crate::wire::{self, Message, Order, Received};

/// Starts a supervisor for `plan` from the program that is running.
///
/// # Errors
/// No supervisor was started, hence nothing was executed.
pub fn launch(plan: &Plan) -> Result<Supervisor, LaunchError> {
    Launcher::current().launch(plan)
}

/// Starts supervisors.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub image: Image,
    /// The supervisor's own environment. Commands never see it.
    pub environment: Vec<(OsString, OsString)>,
}

/// What supervisors are made of.
#[derive(Clone, Debug)]
pub enum Image {
    /// The program that is running, even if its file was replaced since, whose `main` hands over to [`supervise`](crate::supervise)
    /// when [`is_supervisor`](crate::is_supervisor) says so.
    Running,
    /// Another program, even if its file was replaced since.
    Held(Arc<OwnedFd>),
    /// Whatever is found there at each start.
    At(PathBuf),
}

impl Image {
    fn path(&self) -> PathBuf {
        match self {
            Image::Running => PathBuf::from("/proc/self/exe"),
            Image::Held(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
            Image::At(path) => path.clone(),
        }
    }
}

/// How long a program may take to show that it is a supervisor. What is none ends at once, so that
/// this ends only a hang.
const PROBE_PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
/// Everybody may write.
const WRITABLE_BY_ALL: u32 = 0o002;

fn no_answer() -> io::Error {
    let seconds = PROBE_PATIENCE.tv_sec;
    let what = format!("it did not answer as a supervisor of Kron within {seconds} s");
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl Launcher {
    /// Starts supervisors from the program that is running, even if its file was replaced since.
    #[must_use]
    pub fn current() -> Launcher {
        Launcher { image: Image::Running, environment: Vec::new() }
    }

    /// Starts supervisors from this program, as it is now: a file that takes its place later,
    /// perhaps of another version, is not used.
    ///
    /// # Errors
    /// The program cannot be executed, or anybody might exchange it.
    pub fn of(program: &Path) -> io::Result<Launcher> {
        let file = rustix::fs::open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let status = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        if status.st_mode & WRITABLE_BY_ALL != 0 {
            let why = "everybody may write it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        rustix::fs::access(program, Access::EXEC_OK)?;
        Ok(Launcher { image: Image::Held(Arc::new(file)), environment: Vec::new() })
    }

    /// Makes sure that the program is a supervisor that understands this daemon.
    ///
    /// Children must not be reaped by another thread meanwhile.
    ///
    /// # Errors
    /// It cannot be started, or is something else.
    pub fn probe(&self) -> io::Result<()> {
        let (socket, theirs) = control_sockets()?;
        wire::send_probe(&socket)?;
        let mut command = Command::new(self.image.path());
        command.arg0(SUPERVISOR_NAME).arg("probe").env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        drop(command);
        let mut fds = [PollFd::new(&socket, PollFlags::IN)];
        let answer = match poll(&mut fds, Some(&PROBE_PATIENCE)) {
            Ok(0) => Err(no_answer()),
            Ok(_) => wire::receive_report(&socket),
            Err(error) => Err(error.into()),
        };
        // It has nothing more to say, whatever it is.
        let _ = child.kill();
        child.wait()?;
        match answer? {
            Received::Packet(message) if wire::answers_probe(&message) => Ok(()),
            _ => Err(io::Error::other("it is no supervisor of this version of Kron")),
        }
    }

    /// Starts a supervisor for `plan`.
    ///
    /// Children must not be reaped by another thread meanwhile.
    ///
    /// # Errors
    /// No supervisor was started, hence nothing was executed.
    pub fn launch(&self, plan: &Plan) -> Result<Supervisor, LaunchError> {
        plan.check()?;
        let bytes = serde_json::to_vec(plan).map_err(LaunchError::Encode)?;
        if bytes.len() > PLAN_BYTES_MAX {
            return Err(LaunchError::PlanSize { bytes: bytes.len() });
        }
        let (socket, theirs) = control_sockets().map_err(LaunchError::Socket)?;
        wire::send_hello(&socket, &bytes).map_err(LaunchError::HandOver)?;
        drop(bytes);
        #[cfg(kron_canary)]
        if kron_canary::Canary::ForkedFromTheDaemon.is_active() {
            return fork_supervisor(socket, theirs);
        }

        let mut command = Command::new(self.image.path());
        command
            .arg0(SUPERVISOR_NAME)
            .arg(plan.run.as_str())
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(theirs))
            // A terminal's interrupt is for the daemon; it decides what becomes of its runs.
            .process_group(0);
        #[cfg(kron_canary)]
        command.envs(std::env::vars_os().filter(|(name, _)| name == kron_canary::VARIABLE));
        let child = command.spawn().map_err(LaunchError::Spawn)?;
        // Until here the command holds the supervisor's end of the socket.
        drop(command);
        hold(socket, Pid::from_child(&child))
    }
}

/// Takes hold of a supervisor that was just started.
fn hold(socket: OwnedFd, pid: Pid) -> Result<Supervisor, LaunchError> {
    let process = start_ticks(pid.as_raw_nonzero().get()).and_then(|start_ticks| {
        let process = ProcessId { pid: pid.as_raw_nonzero().get(), start_ticks };
        Ok((process, Held::child(pid)?))
    });
    match process {
        Ok((process, held)) => Ok(Supervisor { socket, process, held }),
        Err(error) => {
            // Its socket is closed without a release, so it executes nothing and leaves; it is a
            // child that has not been reaped, so its number is its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            Err(LaunchError::Hold(error))
        }
    }
}

/// Makes a supervisor of a copy of this process.
#[cfg(kron_canary)]
#[expect(clippy::disallowed_methods, reason = "the copy must not return to the daemon's work")]
fn fork_supervisor(socket: OwnedFd, theirs: OwnedFd) -> Result<Supervisor, LaunchError> {
    #[expect(unsafe_code, reason = "this is what must not be done")]
    // SAFETY: there is none.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = rustix::stdio::dup2_stdin(&theirs);
        let _ = rustix::process::setpgid(None, None);
        let _ = crate::supervise();
        std::process::exit(0);
    }
    drop(theirs);
    let pid = Pid::from_raw(child).ok_or_else(|| LaunchError::Spawn(io::Error::last_os_error()))?;
    hold(socket, pid)
}

/// Why no supervisor was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan cannot be written down.
    #[error("the plan cannot be encoded")]
    Encode(#[source] serde_json::Error),
    /// The plan is too large.
    #[error(
        "arguments, environment and input make a plan of {bytes} bytes; at most {PLAN_BYTES_MAX} are handed over"
    )]
    PlanSize {
        /// What it has.
        bytes: usize,
    },
    /// There are no sockets for it.
    #[error("could not make a control socket")]
    Socket(#[source] io::Error),
    /// The plan could not be put into the socket.
    #[error("could not hand over the plan")]
    HandOver(#[source] io::Error),
    /// The process could not be started.
    #[error("could not start a supervisor")]
    Spawn(#[source] io::Error),
    /// The process was started, could not be held, and was killed.
    #[error("could not hold the supervisor")]
    Hold(#[source] io::Error),
}

/// A supervisor that was started by this process.
///
/// Dropping it closes its socket: before the release that calls the run off, after it the
/// supervisor goes on and records the end itself. It stays a child of this process, to be reaped
/// by [`Supervisor::reap`] or [`reap_children`](crate::reap_children).
#[derive(Debug)]
pub struct Supervisor {
    socket: OwnedFd,
    process: ProcessId,
    held: Held,
}

impl Supervisor {
    /// The supervisor's process.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The supervisor's process, held: readable once it has ended.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// The next report, if there is one; [`Message::Closed`] for ever once there will be none.
    ///
    /// # Errors
    /// The report could not be received or understood.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        Ok(match wire::receive_report(&self.socket)? {
            Received::Packet(message) => Some(message),
            Received::Nothing => None,
            Received::Closed => Some(Message::Closed),
        })
    }

    /// Lets the armed command execute.
    ///
    /// # Errors
    /// The supervisor is gone or going: the command is not executed, unless a report says so.
    pub fn release(&self) -> io::Result<()> {
        wire::send_order(&self.socket, Order::Release)
    }

    /// Says that the run's last words are durable, so that the supervisor may leave.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn acknowledge(&self) -> io::Result<()> {
        wire::send_order(&self.socket, Order::Acknowledge)
    }

    /// Asks it to end its run; says whether it was still there to be asked. Before the release
    /// the command is not executed any more.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        self.held.signal(signal)
    }

    /// Reaps it if it has ended; says whether it has.
    ///
    /// # Errors
    /// The system did not say.
    pub fn reap(&self) -> io::Result<bool> {
        self.held.reap()
    }
}

impl AsFd for Supervisor {
    /// The control socket, readable when [`Supervisor::receive`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The daemon's end, which never waits, and the supervisor's.
fn control_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    fcntl_setfl(&ours, fcntl_getfl(&ours)? | OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}
