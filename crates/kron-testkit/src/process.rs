//! Processes as the kernel shows them, and the end of those that this test has to do with.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::files::read;
use crate::waiting::eventually;

/// The threads of a process: their numbers and names.
pub fn threads(pid: i32) -> Vec<(i32, String)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|tid: i32| Some((tid, read_proc(&format!("{pid}/task/{tid}/comm"))?)))
        .map(|(tid, name)| (tid, name.trim_end().to_owned()))
        .collect()
}

/// The threads of a process whose name begins like this, as soon as all threads have their names: a
/// thread names itself, and is called like the process until it has run for the first time.
pub fn threads_named(pid: i32, prefix: &str) -> Vec<i32> {
    let of_main = |threads: &[(i32, String)]| {
        let main = threads.iter().find(|(tid, _)| *tid == pid).map(|(_, name)| name.clone());
        main.map_or(0, |main| threads.iter().filter(|(_, name)| *name == main).count())
    };
    let named = eventually("every thread has its name", || {
        let threads = threads(pid);
        (of_main(&threads) == 1).then_some(threads)
    });
    named.into_iter().filter(|(_, name)| name.starts_with(prefix)).map(|(tid, _)| tid).collect()
}

/// The calls in which a thread waits for work: `futex`, `epoll_wait`, `epoll_pwait`, `poll`, `ppoll`.
#[cfg(target_arch = "x86_64")]
const WAITS: &[&str] = &["202", "232", "281", "7", "271"];
#[cfg(target_arch = "aarch64")]
const WAITS: &[&str] = &["98", "22", "73"];

/// Whether each of these threads sleeps in a call in which it waits for work, and none ran between
/// two looks at all of them. A thread that was woken is runnable, and one that its tracer holds is
/// stopped, so nothing is under way but what all of them wait for.
pub fn are_idle(tids: &[i32]) -> bool {
    let look = || -> Option<Vec<String>> {
        let look_at = |tid: &i32| {
            let call = read_proc(&format!("{tid}/syscall"))?;
            WAITS.contains(&call.split(' ').next()?).then_some(())?;
            let status = read_proc(&format!("{tid}/status"))?;
            status.contains("\nState:\tS").then_some(())?;
            Some(status.lines().filter(|line| line.contains("ctxt_switches")).collect())
        };
        tids.iter().map(look_at).collect()
    };
    look().is_some_and(|first| look() == Some(first))
}

/// How often a thread has made way for others; `None` when it has ended. What waits for work and is
/// then held by a tracer makes way at least once.
pub fn switches(tid: i32) -> Option<u64> {
    let status = read_proc(&format!("{tid}/status"))?;
    let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
    counts.map(|line| line.rsplit('\t').next()?.trim().parse::<u64>().ok()).sum()
}

/// Whether a thread that waited for work, and had made way this often, is traced from its next call
/// on, or has ended. That it has a tracer is not enough: a thread belongs to its tracer a moment
/// before it is held for the first time, and what it calls until then is not seen.
pub fn is_traced_since(tid: i32, switches_before: Option<u64>) -> bool {
    if has_ended(tid) {
        return true;
    }
    let waits = || {
        let call = read_proc(&format!("{tid}/syscall"))?;
        Some(WAITS.contains(&call.split(' ').next()?) && state(tid) == Some('S'))
    };
    is_traced(tid) && switches(tid) != switches_before && waits() == Some(true)
}

/// Whether every thread of a process waits for work.
pub fn is_idle(pid: i32) -> bool {
    let tids: Vec<i32> = threads(pid).into_iter().map(|(tid, _)| tid).collect();
    !tids.is_empty() && are_idle(&tids)
}

/// Waits until every thread of a process waits for work.
#[track_caller]
pub fn wait_until_idle(pid: i32) {
    eventually("every thread waits for work", || is_idle(pid).then_some(()));
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

/// Whether a thread has a tracer, which need not hold it yet.
fn is_traced(tid: i32) -> bool {
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
