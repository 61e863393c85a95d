//! Everything that a command started, wherever it went.
//!
//! The supervisor is a subreaper: whatever the command starts stays below it, in whatever session
//! or group, however often it forks. Walking the tree of children therefore finds every escapee;
//! those that appear while it is walked are found by the next walk.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid,
};

use crate::process::{parent, read_bounded};

/// Bytes read of one process's list of children; those beyond are found by a later walk.
const CHILDREN_BYTES_MAX: u64 = 256 << 10;
/// Generations walked down at once; those below move up when their ancestors die.
const DEPTH_MAX: usize = 64;

/// Kills everything below this process that is seen.
pub(super) fn kill_all() {
    let me = getpid();
    for child in children(me).unwrap_or_default() {
        kill_tree(child, me, None, DEPTH_MAX);
    }
}

/// Reaps every ended child but `kept`, as far as they are seen; says whether there may be any
/// other.
pub(super) fn reap_others(kept: Pid) -> bool {
    let Ok(children) = children(getpid()) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let others = children.into_iter().filter(|child| *child != kept);
    // Every one of them, not only up to the first that is left.
    others.fold(false, |left, child| left | matches!(waitid(WaitId::Pid(child), options), Ok(None)))
}

/// Reaps every ended child; says whether there may be any other. Unlike a list of children this
/// cannot overlook one.
pub(super) fn reap_all() -> bool {
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(errno) => return errno != Errno::CHILD,
        }
    }
}

/// Kills `pid` and everything below it, if it is a child of `parent_pid`.
///
/// A number from a list may be somebody else's by now. So whoever has it is held first, then
/// asked for its parent, and the parent, held too, must still be there: then the number in
/// question was the parent's all along and the one that is held is its child.
fn kill_tree(pid: Pid, parent_pid: Pid, parent_held: Option<&OwnedFd>, depth: usize) {
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let is_child = parent(number(pid)).is_ok_and(|found| found == number(parent_pid));
    // This process itself is there.
    let parent_is_there = parent_held.is_none_or(is_unreaped);
    if !is_child || !parent_is_there {
        return;
    }
    // Whoever has a deadly signal coming starts nothing any more, so its children are complete.
    if pidfd_send_signal(&held, Signal::KILL).is_err() || depth == 0 {
        return;
    }
    for child in children(pid).unwrap_or_default() {
        kill_tree(child, pid, Some(&held), depth - 1);
    }
}

fn is_unreaped(held: &OwnedFd) -> bool {
    // Sent to what is dying already, so it changes nothing.
    !matches!(pidfd_send_signal(held, Signal::KILL), Err(Errno::SRCH))
}

fn children(pid: Pid) -> io::Result<Vec<Pid>> {
    let pid = number(pid);
    // Every thread has its own list; a process whose main thread is alone has the one.
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.file_name();
        let path = format!("/proc/{pid}/task/{}/children", thread.to_string_lossy());
        let Ok(list) = read_bounded(&path, CHILDREN_BYTES_MAX) else { continue };
        // A list that was cut may end within a number.
        let whole = list.rsplit_once(' ').map_or("", |(whole, _)| whole);
        found.extend(
            whole.split_ascii_whitespace().filter_map(|text| Pid::from_raw(text.parse().ok()?)),
        );
    }
    Ok(found)
}

fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
