//! The command's process, from the fork to the gate and from the gate to `execve`.
//!
//! Everything that needs memory is made before the fork, in [`Prepared`]; after it nothing is
//! allocated, nothing is searched and nothing can unwind into the supervisor's code. Each step
//! either holds or ends the process with a [`Fault`] that names it: there is no step whose
//! failure is passed over. The one way to `execve` leads through a byte read at the gate, which
//! only the supervisor can write, and an end of file there ends the process.

use std::ffi::{CString, NulError, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use nix::sys::signal::SigSet;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Rlimit, getpid, setsid};

use super::identity::Identity;
use super::stage::{Fault, Stage, Word, at};
use crate::plan::{Limit, Plan, Resource};

/// The supervisor's handles of the process it forked.
pub(super) struct Forked {
    pub(super) pid: Pid,
    /// One byte written here lets it execute; closing it ends it.
    pub(super) gate: OwnedFd,
    /// Its words; closed when it executes or ends.
    pub(super) words: OwnedFd,
}

/// Where the command's standard descriptors lead; those that are absent stay the supervisor's.
pub(super) struct Streams {
    pub(super) stdin: OwnedFd,
    pub(super) output: Option<OwnedFd>,
}

/// Everything the forked process needs, made beforehand.
pub(super) struct Prepared {
    /// What `execve` is tried with, in order.
    candidates: Vec<CString>,
    argv: Texts,
    env: Texts,
    cwd: CString,
    umask: Mode,
    nice: Option<i32>,
    limits: Vec<(rustix::process::Resource, Rlimit)>,
    identity: Option<Identity>,
    no_new_privileges: bool,
    streams: Streams,
}

impl Prepared {
    /// # Errors
    /// A text holds a zero byte, which [`Plan::check`] has refused before.
    pub(super) fn new(plan: &Plan, streams: Streams) -> Result<Prepared, NulError> {
        let program = plan.argv.first().map(String::as_str).unwrap_or_default();
        let variables = plan.env.iter().map(|(name, value)| format!("{name}={value}"));
        let cwd = plan.cwd.clone().unwrap_or_else(|| PathBuf::from("/"));
        Ok(Prepared {
            candidates: candidates(program, plan.search_path())?,
            argv: Texts::new(plan.argv.iter().cloned())?,
            env: Texts::new(variables)?,
            cwd: CString::new(cwd.into_os_string().into_vec())?,
            umask: Mode::from_bits_truncate(plan.umask),
            nice: plan.nice.map(i32::from),
            limits: plan.limits.iter().map(limit).collect(),
            identity: plan.credentials.as_ref().map(Identity::new),
            no_new_privileges: plan.no_new_privileges,
            streams,
        })
    }

    /// Forks the process, which prepares itself and then waits at the gate.
    pub(super) fn fork(mut self) -> io::Result<Forked> {
        let (gate_in_command, gate) = pipe_with(PipeFlags::CLOEXEC)?;
        let (words, words_in_command) = pipe_with(PipeFlags::CLOEXEC)?;
        #[expect(unsafe_code, reason = "only a fork of the supervisor can wait at its gate")]
        // SAFETY: the supervisor has a single thread, so the child's memory is consistent; the
        // child never returns from `to_gate_and_beyond`.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => to_gate_and_beyond(&mut self, gate_in_command.as_fd(), words_in_command.as_fd()),
            pid => {
                let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                Ok(Forked { pid, gate, words })
            }
        }
    }
}

/// Texts as the kernel takes them: pointers, ended by a null pointer.
struct Texts {
    pointers: Vec<*const c_char>,
    /// Owns what the pointers point at; a `CString`'s bytes do not move with it.
    _texts: Vec<CString>,
}

impl Texts {
    fn new(texts: impl Iterator<Item = String>) -> Result<Texts, NulError> {
        let texts = texts.map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Ok(Texts { pointers, _texts: texts })
    }
}

/// A program with a slash is what it says. Any other is looked for in the absolute directories of
/// the path: what a name means must not depend on where the command starts.
fn candidates(program: &str, path: Option<&str>) -> Result<Vec<CString>, NulError> {
    if program.contains('/') {
        return Ok(vec![CString::new(program)?]);
    }
    let directories = path.unwrap_or_default().split(':').filter(|dir| dir.starts_with('/'));
    directories.map(|dir| CString::new(format!("{dir}/{program}"))).collect()
}

fn limit(limit: &Limit) -> (rustix::process::Resource, Rlimit) {
    use rustix::process::Resource as Known;
    let resource = match limit.resource {
        Resource::AddressSpace => Known::As,
        Resource::CoreSize => Known::Core,
        Resource::CpuSeconds => Known::Cpu,
        Resource::DataSize => Known::Data,
        Resource::FileSize => Known::Fsize,
        Resource::LockedMemory => Known::Memlock,
        Resource::OpenFiles => Known::Nofile,
        Resource::Processes => Known::Nproc,
        Resource::StackSize => Known::Stack,
    };
    (resource, Rlimit { current: limit.soft, maximum: limit.hard })
}

/// Runs in the forked process. Its C calling convention turns a panic into an abort, so that
/// nothing unwinds into the supervisor's code in the wrong process.
extern "C" fn to_gate_and_beyond(
    prepared: &mut Prepared,
    gate: BorrowedFd<'_>,
    words: BorrowedFd<'_>,
) -> ! {
    /// The exit codes shells use for what could not be executed; nobody but people reads them.
    const NOT_RELEASED: i32 = 125;
    const NOT_READY: i32 = 126;
    const NOT_EXECUTED: i32 = 127;

    if let Err(fault) = prepare(prepared, gate, words) {
        say(words, Word::Failed(fault));
        leave(NOT_READY);
    }
    if !say(words, Word::Ready) || !released(gate) {
        leave(NOT_RELEASED);
    }
    // It may have waited for a while, and its directory may be another by now.
    if let Err(fault) = enter(prepared) {
        say(words, Word::Failed(fault));
        leave(NOT_EXECUTED);
    }
    let errno = execute(prepared);
    say(words, Word::Failed(Fault { stage: Stage::Exec, errno }));
    leave(NOT_EXECUTED);
}

fn prepare(
    prepared: &mut Prepared,
    gate: BorrowedFd<'_>,
    words: BorrowedFd<'_>,
) -> Result<(), Fault> {
    descriptors(&prepared.streams, gate, words).map_err(at(Stage::Descriptors))?;
    reset_signals().map_err(at(Stage::Signals))?;
    session()?;
    rustix::process::umask(prepared.umask);
    for (resource, limit) in &prepared.limits {
        rustix::process::setrlimit(*resource, *limit).map_err(at(Stage::Limits))?;
    }
    if let Some(nice) = prepared.nice {
        rustix::process::setpriority_process(None, nice).map_err(at(Stage::Priority))?;
    }
    if let Some(identity) = &mut prepared.identity {
        identity.assume()?;
    }
    if prepared.no_new_privileges {
        let fault = at(Stage::NoNewPrivileges);
        rustix::thread::set_no_new_privs(true).map_err(&fault)?;
        if !rustix::thread::no_new_privs().map_err(&fault)? {
            return Err(Fault { stage: Stage::NoNewPrivileges, errno: 0 });
        }
    }
    enter(prepared)
}

/// As the user the command runs as: it must not be put where that user cannot go.
fn enter(prepared: &Prepared) -> Result<(), Fault> {
    rustix::process::chdir(prepared.cwd.as_c_str()).map_err(at(Stage::Directory))
}

/// The standard descriptors, the gate and the way back are all that stays open: above all the
/// supervisor's end of the gate goes, so that the gate closes with the supervisor.
fn descriptors(
    streams: &Streams,
    gate: BorrowedFd<'_>,
    words: BorrowedFd<'_>,
) -> rustix::io::Result<()> {
    rustix::stdio::dup2_stdin(&streams.stdin)?;
    if let Some(output) = &streams.output {
        rustix::stdio::dup2_stdout(output)?;
        rustix::stdio::dup2_stderr(output)?;
    }
    let (gate, words) = (gate.as_raw_fd(), words.as_raw_fd());
    let (low, high) = (gate.min(words), gate.max(words));
    close_range(3, low - 1)?;
    close_range(low + 1, high - 1)?;
    close_range(high + 1, RawFd::MAX)
}

/// Both ends included; nothing when there is nothing in between.
pub(super) fn close_range(first: RawFd, last: RawFd) -> rustix::io::Result<()> {
    if first > last {
        return Ok(());
    }
    #[expect(unsafe_code, reason = "no safe binding closes descriptors that others may own")]
    // SAFETY: callers close what belongs to nobody in this process: the supervisor before it
    // opened anything, the command's process because it runs none of the owners' code any more.
    let result = unsafe {
        // Not every C library has a function for it.
        libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, 0)
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// No signal is ignored or blocked: neither the supervisor's settings nor the daemon's leak.
fn reset_signals() -> rustix::io::Result<()> {
    /// The kernel's structure is smaller than this; zeroes are the default disposition.
    const DEFAULT: [u64; 8] = [0; 8];
    for signal in 1..=libc::SIGRTMAX() {
        // These two have no disposition to set.
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        #[expect(
            unsafe_code,
            reason = "the C library does not reset the signals it keeps to itself, though its `posix_spawn` leaves them ignored"
        )]
        // SAFETY: the kernel reads one structure and one mask, both of zeroes, and writes nothing.
        // The default disposition runs no code of ours.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
        if result != 0 {
            return Err(last_errno());
        }
    }
    set_signal_mask(&SigSet::empty())
}

/// Blocks exactly these signals.
pub(super) fn set_signal_mask(set: &SigSet) -> rustix::io::Result<()> {
    #[expect(unsafe_code, reason = "the safe binding overlooks failures")]
    // SAFETY: the set is one, and a null pointer asks for nothing back.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ref(), std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error)) }
}

/// A session of its own, hence a process group of its own and no terminal.
fn session() -> Result<(), Fault> {
    let fault = at(Stage::Session);
    setsid().map_err(&fault)?;
    // Not by rustix, which takes for granted that every session has a number: one led from outside
    // this process namespace has none, and reads as 0.
    let found = nix::unistd::getsid(None).map_err(|errno| fault(to_rustix(errno)))?;
    if found.as_raw() != getpid().as_raw_nonzero().get() {
        return Err(Fault { stage: Stage::Session, errno: 0 });
    }
    Ok(())
}

/// Waits at the gate: true for the byte that opens it, false when it closes.
fn released(gate: BorrowedFd<'_>) -> bool {
    let mut byte = [0];
    loop {
        match rustix::io::read(gate, &mut byte) {
            Err(Errno::INTR) => {}
            Ok(1) => return true,
            Ok(_) | Err(_) => return false,
        }
    }
}

/// Executes the first candidate that can be; returns why none could.
fn execute(prepared: &Prepared) -> i32 {
    let (argv, env) = (prepared.argv.pointers.as_ptr(), prepared.env.pointers.as_ptr());
    let mut denied = false;
    let mut errno = Errno::NOENT;
    for candidate in &prepared.candidates {
        #[expect(unsafe_code, reason = "the safe binding allocates")]
        // SAFETY: every pointer leads to a text that lives as long as `prepared`, and both lists
        // end with a null pointer.
        unsafe {
            libc::execve(candidate.as_ptr(), argv, env);
        }
        errno = last_errno();
        match errno {
            Errno::ACCESS => denied = true,
            Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
            _ => return errno.raw_os_error(),
        }
    }
    // One that exists and may not be executed explains more than the others' absence.
    if denied { Errno::ACCESS.raw_os_error() } else { errno.raw_os_error() }
}

/// Says whether anybody heard it: otherwise the supervisor is dead and the gate never opens.
fn say(words: BorrowedFd<'_>, word: Word) -> bool {
    rustix::io::write(words, &word.to_bytes()).is_ok()
}

fn leave(code: i32) -> ! {
    #[expect(unsafe_code, reason = "no handlers of the supervisor may run here")]
    // SAFETY: ends the process, whatever its state.
    unsafe {
        libc::_exit(code)
    }
}

fn to_rustix(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}

fn last_errno() -> Errno {
    to_rustix(nix::errno::Errno::last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_are_looked_for_in_absolute_directories_only() {
        let found = |program, path| {
            let candidates = candidates(program, path).expect("no zero bytes");
            candidates
                .iter()
                .map(|text| text.to_str().expect("text").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("ls", Some("/usr/bin::.:bin:/bin")), ["/usr/bin/ls", "/bin/ls"]);
        assert_eq!(found("/bin/ls", Some("/usr/bin")), ["/bin/ls"]);
        assert_eq!(found("./ls", Some("/usr/bin")), ["./ls"]);
        assert!(found("ls", None).is_empty());
        assert!(found("ls", Some("")).is_empty());
    }
}
