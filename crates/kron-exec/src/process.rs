//! Processes that cannot be confused with others of the same number.
//!
//! A number alone names nothing: the kernel gives it to somebody else. A recorded process is a
//! boot, a number and a start time, and [`Held`] compares them *after* it got hold of whatever
//! process has the number now, so that what is compared is what is signalled later. Two processes
//! with one number and one start tick are told apart by nothing; numbers would have to be used
//! up within a hundredth of a second.
//!
//! Where nothing but a number is recorded, whoever has it can be watched and never be signalled.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitid,
};

pub use kron_state::Process as ProcessId;

/// Bytes that are read of a process's `stat`: its command's name has at most 64, the rest are
/// numbers.
const STAT_BYTES_MAX: u64 = 4 << 10;
/// Bytes that are read of the boot id, which has 37.
const BOOT_ID_BYTES_MAX: u64 = 64;

/// What a supervisor is asked to do with its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End it: ask it to end, give it its grace, then kill what is left.
    Terminate,
    /// Kill it, now.
    Kill,
}

/// A process that is held: signals reach it or nobody.
#[derive(Debug)]
pub struct Held {
    pidfd: OwnedFd,
    known_by: KnownBy,
}

/// What is known about a process that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownBy {
    /// It is the one that was meant.
    Identity,
    /// It has the number of the one that was meant, and may be anybody.
    Number,
}

impl Held {
    /// Takes hold of `process`, if it is this boot's and was not reaped yet.
    ///
    /// `None` means that it is gone for certain.
    ///
    /// # Errors
    /// The system did not say whether it is there.
    pub fn open(boot: &str, process: ProcessId) -> io::Result<Option<Held>> {
        if boot != boot_id()? {
            return Ok(None);
        }
        let Some(held) = Held::open_by_number(process.pid)? else { return Ok(None) };
        match start_ticks(process.pid) {
            Ok(ticks) if ticks == process.start_ticks => {
                Ok(Some(Held { known_by: KnownBy::Identity, ..held }))
            }
            Ok(_) => Ok(None),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes hold of whatever process has this number now, for a record that names neither boot
    /// nor start time. It may be anybody, so it must never be signalled: every way to do so fails
    /// and signals nobody. What it is good for is to learn that the number is free, hence that the
    /// process that was meant is gone.
    ///
    /// `None` means that no process has the number, not even one that waits to be reaped.
    ///
    /// # Errors
    /// The system did not say whether there is one.
    pub fn open_by_number(pid: i32) -> io::Result<Option<Held>> {
        // A negative number would mean a group, zero the caller.
        let Some(pid) = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw) else {
            return Ok(None);
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Some(Held { pidfd, known_by: KnownBy::Number })),
            // The latter two: it is the number of a thread now, hence of no process.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Holds a child of this process that nobody has reaped.
    pub(crate) fn child(pid: Pid) -> io::Result<Held> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Held { pidfd, known_by: KnownBy::Identity })
    }

    /// Asks it, a supervisor, to end its run; says whether it was still there to be asked.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        self.refuse_strangers()?;
        let signal = match signal {
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::QUIT,
        };
        sent(pidfd_send_signal(&self.pidfd, signal))
    }

    /// Signals it, a command that lost its supervisor, and its process group; says whether it was
    /// still there.
    ///
    /// Kernels before 6.9 cannot name a group without naming a number: there only the process
    /// itself is signalled.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn signal_orphan(&self, signal: Signal) -> io::Result<bool> {
        self.refuse_strangers()?;
        let signals: &[rustix::process::Signal] = match signal {
            // A stopped process would not notice that it is asked to end.
            Signal::Terminate => &[rustix::process::Signal::TERM, rustix::process::Signal::CONT],
            Signal::Kill => &[rustix::process::Signal::KILL],
        };
        let mut there = false;
        for &signal in signals {
            there |= match send_to_group(self.as_fd(), signal) {
                Err(Errno::INVAL) => sent(pidfd_send_signal(&self.pidfd, signal)),
                result => sent(result),
            }?;
        }
        Ok(there)
    }

    /// Kills a supervisor that hangs before it could let its command go: the command finds its
    /// gate closed. One that may have let it go is asked by [`Held::signal`], which also sees to
    /// everything the command has started. Says whether it was still there.
    ///
    /// # Errors
    /// The signal could not be sent.
    pub fn kill_at_once(&self) -> io::Result<bool> {
        self.refuse_strangers()?;
        sent(pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL))
    }

    fn refuse_strangers(&self) -> io::Result<()> {
        match self.known_by {
            KnownBy::Identity => Ok(()),
            KnownBy::Number => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a process that is known by its number alone is not signalled",
            )),
        }
    }

    /// Whether it has ended, reaped or not. [`Held::as_fd`] becomes readable when it has.
    ///
    /// # Errors
    /// The system did not say.
    pub fn has_ended(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec::default()))? > 0)
    }

    /// Reaps it if it is an ended child of the caller's; says whether it is gone.
    pub(crate) fn reap(&self) -> io::Result<bool> {
        match waitid(WaitId::PidFd(self.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(ended) => Ok(ended.is_some()),
            // Somebody else reaped it.
            Err(Errno::CHILD) => self.has_ended(),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Held {
    /// A descriptor that is readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Names this boot of this machine.
///
/// # Errors
/// The system's process directory is not there.
pub fn boot_id() -> io::Result<String> {
    let text = read_bounded("/proc/sys/kernel/random/boot_id", BOOT_ID_BYTES_MAX)?;
    Ok(text.trim_ascii().to_owned())
}

/// The calling process, as no other can be taken for it.
///
/// # Errors
/// The system's process directory is not there.
pub fn own_process() -> io::Result<ProcessId> {
    let pid = getpid().as_raw_nonzero().get();
    Ok(ProcessId { pid, start_ticks: start_ticks(pid)? })
}

/// Makes orphans below this process its children, so that it can reap them.
///
/// # Errors
/// The kernel refused.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Reaps every child that has ended and says which they were.
///
/// Not to be called while a [`launch`](crate::launch) is under way: the launched supervisor must
/// not vanish before it is held.
///
/// # Errors
/// The system did not say.
pub fn reap_children() -> io::Result<Vec<i32>> {
    let mut reaped = Vec::new();
    loop {
        match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
            Ok(Some((pid, _))) => reaped.push(pid.as_raw_nonzero().get()),
            Ok(None) | Err(Errno::CHILD) => return Ok(reaped),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// When the process that has this number now was started, in clock ticks since boot.
pub(crate) fn start_ticks(pid: i32) -> io::Result<u64> {
    // Fields 3 and 22 of `stat`; those after the name are counted from 3.
    stat_field(pid, 22)
}

/// The parent of the process that has this number now.
pub(crate) fn parent(pid: i32) -> io::Result<i32> {
    stat_field(pid, 4)
}

fn stat_field<T: std::str::FromStr>(pid: i32, number: usize) -> io::Result<T> {
    let stat = read_bounded(&format!("/proc/{pid}/stat"), STAT_BYTES_MAX)?;
    // The name is in parentheses and may itself hold any character but a zero byte.
    stat.rsplit_once(") ")
        .and_then(|(_, fields)| fields.split_ascii_whitespace().nth(number - 3))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an unreadable process status"))
}

/// A small file of the system's process directory; a name that is no text is replaced.
pub(crate) fn read_bounded(path: &str, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether the error says that there is no such process any more.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::SRCH)
}

fn sent(result: rustix::io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn send_to_group(pidfd: BorrowedFd<'_>, signal: rustix::process::Signal) -> rustix::io::Result<()> {
    /// `PIDFD_SIGNAL_PROCESS_GROUP`, since Linux 6.9.
    const PROCESS_GROUP: libc::c_uint = 1 << 2;
    #[expect(unsafe_code, reason = "no safe binding takes the flag")]
    // SAFETY: the arguments are of the kernel's types, and a null pointer stands for no details.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal.as_raw(),
            std::ptr::null::<libc::siginfo_t>(),
            PROCESS_GROUP,
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calling_process_is_found_under_its_own_name_and_no_other() {
        let pid = std::process::id() as i32;
        let me = ProcessId { pid, start_ticks: start_ticks(pid).expect("own start time") };
        let boot = boot_id().expect("a boot id");
        let open = |boot: &str, process| Held::open(boot, process).expect("an answer");

        let held = open(&boot, me).expect("it is there");
        assert!(!held.has_ended().expect("an answer"));
        assert!(open("another boot", me).is_none());
        assert!(open(&boot, ProcessId { start_ticks: me.start_ticks + 1, ..me }).is_none());
        for pid in [0, -1, i32::MIN, i32::MAX] {
            assert!(open(&boot, ProcessId { pid, ..me }).is_none(), "{pid}");
        }
        assert_eq!(parent(pid).expect("a parent"), std::os::unix::process::parent_id() as i32);
    }

    #[test]
    fn a_process_that_is_known_by_its_number_alone_is_watched_and_never_signalled() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("a child");
        let pid = child.id() as i32;
        let open = |pid| Held::open_by_number(pid).expect("an answer");
        let held = open(pid).expect("it is there");
        for refused in [
            held.signal(Signal::Terminate),
            held.signal(Signal::Kill),
            held.signal_orphan(Signal::Terminate),
            held.signal_orphan(Signal::Kill),
            held.kill_at_once(),
        ] {
            let error = refused.expect_err("nobody is signalled");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        assert!(!held.has_ended().expect("an answer"));
        assert!(child.try_wait().expect("an answer").is_none(), "it was not signalled");

        child.kill().expect("killed");
        let mut fds = [PollFd::new(&held, PollFlags::IN)];
        poll(&mut fds, None).expect("its end");
        assert!(held.has_ended().expect("an answer"));
        assert!(open(pid).is_some(), "it waits to be reaped");
        child.wait().expect("reaped");
        assert!(open(pid).is_none(), "the number is free");
        for pid in [0, -1, i32::MIN, i32::MAX] {
            assert!(open(pid).is_none(), "{pid}");
        }
    }
}
