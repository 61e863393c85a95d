//! Processes as the kernel shows them, and the end of those that this test has to do with.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::files::read;

/// The threads of a process: their numbers and names.
pub fn threads(pid: i32) -> Vec<(i32, String)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|tid: i32| Some((tid, read_proc(&format!("{pid}/task/{tid}/comm"))?)))
        .map(|(tid, name)| (tid, name.trim_end().to_owned()))
        .collect()
}

/// The children of all threads of a process.
pub fn children(pid: i32) -> Vec<i32> {
    let of_thread = |(tid, _)| read_proc(&format!("{pid}/task/{tid}/children"));
    let lists = threads(pid).into_iter().filter_map(of_thread);
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(text: &str) -> Vec<i32> {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The supervisors below a daemon, with the runs they are for.
pub fn supervisors(daemon: i32) -> Vec<(i32, String)> {
    children(daemon).into_iter().filter_map(|pid| Some((pid, run_of(pid)?))).collect()
}

/// The run that a process supervises; `None` when it is no supervisor.
pub fn run_of(pid: i32) -> Option<String> {
    let words = read_proc(&format!("{pid}/cmdline"))?;
    let run = words.strip_prefix("kron-supervisor\0")?.strip_suffix('\0')?;
    Some(run.to_owned())
}

/// Whether a process has ended; its parent need not have taken notice of it.
pub fn has_ended(pid: i32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// Whether a process is stopped and not traced.
pub fn is_stopped(pid: i32) -> bool {
    state(pid) == Some('T')
}

fn state(pid: i32) -> Option<char> {
    let stat = read_proc(&format!("{pid}/stat"))?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a thread is traced.
pub fn is_traced(tid: i32) -> bool {
    let status = read_proc(&format!("{tid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

fn read_proc(path: &str) -> Option<String> {
    read(&Path::new("/proc").join(path))
}

/// Sends a signal to a process that may be gone already.
pub fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}
