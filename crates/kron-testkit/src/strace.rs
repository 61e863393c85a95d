//! `strace` as the means to stop or kill a process at a system call of our choice.
//!
//! A tracer is attached to the threads that are meant and to no other, so that "the third `fsync`"
//! is the third of one thread: `strace` counts for each thread it traces. A signal it injects is
//! there when the call begins: `SIGKILL` keeps the call from happening at all, `SIGSTOP` takes
//! effect when the call is done.
//!
//! A process that does not exist yet is arrested: a tracer that follows its parent stops it at a
//! call it makes early and its parent never makes, and makes way for the one that is meant.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use crate::files::read;
use crate::needs::Need;
use crate::process;
use crate::waiting::eventually;

/// The number of the call in which a tracer waits for what it traces.
#[cfg(target_arch = "x86_64")]
const WAITS_FOR_TRACEES: &str = "61";
#[cfg(target_arch = "aarch64")]
const WAITS_FOR_TRACEES: &str = "260";

/// What `strace` writes when the process it traces was killed, or stopped by a signal.
const KILLED: &str = "+++ killed by SIGKILL +++";
const STOPPED: &str = "--- stopped by SIGSTOP ---";

/// A running tracer.
pub struct Strace {
    child: Child,
    output: PathBuf,
}

/// Whether a tracer follows new processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// It traces what it is attached to, and nothing else.
    Nobody,
    /// It traces the children of what it is attached to as well.
    Children,
}

/// A system call that was traced.
#[derive(Clone, Debug)]
pub struct Call {
    /// The thread that made it, where several are traced.
    pub tid: Option<i32>,
    /// What it is called.
    pub name: String,
    /// Which call of this name by this thread it is, counted from 1.
    pub number: usize,
    /// The whole line.
    pub text: String,
}

/// What tests need that attach a tracer.
pub const NEEDS: &[Need] = &[Need::Strace, Need::Attach];

impl Strace {
    /// Attaches to these threads, and to all other threads and children of their processes if it
    /// is to follow. Returns when `strace` reports that it is attached to all of them.
    ///
    /// By then it has interrupted each of them, so that their next call is traced. That a thread
    /// has a tracer is not enough: it belongs to its tracer a moment before it is interrupted, and
    /// what it calls in between is not seen.
    ///
    /// # Panics
    ///
    /// If `strace` ends while one of these threads lives.
    #[track_caller]
    pub fn attach(tids: &[i32], follow: Follow, options: &[&str], output: &Path) -> Strace {
        let mut command = Command::new("strace");
        command.arg("-o").arg(output).args(options);
        if follow == Follow::Children {
            command.arg("-f");
        }
        for tid in tids {
            command.arg("-p").arg(tid.to_string());
        }
        let report_path = output.with_extension("strace");
        let report = File::create(&report_path).expect("a file for what strace reports");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(report));
        let child = command.spawn().expect("strace");
        let strace = Strace { child, output: output.to_owned() };
        eventually("strace attaches", || {
            // Whether it has ended is asked before its report is read, which is complete then.
            let has_ended = process::has_ended(strace.child.id() as i32);
            let report = read(&report_path).unwrap_or_default();
            // A process is reported after its threads were attached, with their number behind it.
            let is_attached = |tid: &i32| report.contains(&format!("Process {tid} attached"));
            let are_attached = tids.iter().all(is_attached);
            let are_gone = || tids.iter().all(|tid| process::has_ended(*tid));
            assert!(!has_ended || are_attached || are_gone(), "strace does not attach: {report}");
            (has_ended || are_attached).then_some(())
        });
        strace
    }

    /// What it wrote so far.
    pub fn text(&self) -> String {
        read(&self.output).unwrap_or_default()
    }

    /// Whether a process it traced was killed.
    pub fn saw_kill(&self) -> bool {
        saw_kill(&self.text())
    }

    /// Whether a process it traced was stopped by a signal.
    pub fn saw_stop(&self) -> bool {
        self.text().contains(STOPPED)
    }

    /// Whether this process, one of several it follows, was stopped by a signal.
    pub fn saw_stop_of(&self, pid: i32) -> bool {
        let pid = pid.to_string();
        self.text().lines().any(|line| line.strip_prefix(&pid).is_some_and(|l| l.trim() == STOPPED))
    }

    /// Waits until it has written down everything that the kernel has reported to it. The end of a
    /// process is reported to its tracer first, and to its parent when the tracer has taken notice.
    pub fn catch_up(&self) {
        let tracer = self.child.id() as i32;
        let path = PathBuf::from(format!("/proc/{tracer}/syscall"));
        eventually("strace waits for the next call", || {
            let is_waiting = || read(&path)?.split(' ').next().map(|it| it == WAITS_FOR_TRACEES);
            (process::has_ended(tracer) || is_waiting() == Some(true)).then_some(())
        });
    }

    /// Waits until everything it traces has ended and it has written that down.
    pub fn wait(&self) {
        eventually("strace ends", || process::has_ended(self.child.id() as i32).then_some(()));
    }

    /// Detaches it from everything it traces. What is stopped stays stopped.
    pub fn detach(mut self) {
        self.end();
    }

    fn end(&mut self) {
        process::signal(self.child.id() as i32, Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a process was killed, by the trace of it.
pub fn saw_kill(trace: &str) -> bool {
    trace.contains(KILLED)
}

/// Whether a process has ended, by the trace of it.
pub fn saw_end(trace: &str) -> bool {
    saw_kill(trace) || trace.contains("+++ exited with")
}

/// The option that sends `signal` at a call, and those that keep the output short.
pub fn inject(call: &str, signal: Signal, number: usize) -> [String; 4] {
    let injection = format!("inject={call}:signal={signal}:when={number}");
    ["-e".to_owned(), format!("trace={call}"), "-e".to_owned(), injection]
}

/// The calls in a trace, in their order.
pub fn calls(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut numbers: HashMap<(Option<i32>, String), usize> = HashMap::new();
    for line in trace.lines() {
        // The number of a thread stands before its calls where several are traced.
        let (tid, text) = match line.split_once(' ') {
            Some((tid, text)) if tid.bytes().all(|byte| byte.is_ascii_digit()) => {
                (tid.parse().ok(), text.trim_start())
            }
            _ => (None, line),
        };
        // `--- SIGCHLD …`, `+++ exited …` and `<... read resumed>` are no calls.
        let name = text.split('(').next().unwrap_or_default();
        let is_call = text.contains('(')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_call {
            let number = numbers.entry((tid, name.to_owned())).or_default();
            *number += 1;
            calls.push(Call { tid, name: name.to_owned(), number: *number, text: text.to_owned() });
        }
    }
    calls
}

/// Calls by which files change or last, or by which other processes learn of something.
const DECIDING: &[&str] = &[
    "clone",
    "clone3",
    "execve",
    "fdatasync",
    "flock",
    "fsync",
    "ftruncate",
    "kill",
    "linkat",
    "mkdir",
    "mkdirat",
    "recvfrom",
    "recvmsg",
    "rename",
    "renameat",
    "renameat2",
    "sendmsg",
    "sendto",
    "unlink",
    "unlinkat",
    "vfork",
    "waitid",
    "write",
];

/// Those of the calls that a test tries which cannot try all: every one that decides something,
/// and of the others the first of each name and then every so many. `every` = 1 is all of them.
pub fn chosen<T>(calls: Vec<T>, name: impl Fn(&T) -> &str, every: usize) -> Vec<T> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let is_chosen = |call: &T| {
        let count = counts.entry(name(call).to_owned()).or_default();
        *count += 1;
        DECIDING.contains(&name(call)) || *count % every == 1 % every
    };
    calls.into_iter().filter(is_chosen).collect()
}

#[test]
fn all_that_decides_is_chosen_and_some_of_every_name() {
    let calls = vec!["read", "fsync", "read", "read", "fsync", "read", "stat"];
    let chosen_of = |every| chosen(calls.clone(), |call| call, every);
    assert_eq!(chosen_of(3), ["read", "fsync", "fsync", "read", "stat"]);
    assert_eq!(chosen_of(1), calls);
}
