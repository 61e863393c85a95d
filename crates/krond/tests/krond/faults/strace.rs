//! System calls that fail on purpose.
//!
//! `strace` is put around a whole daemon, of which it then sees the first thread only, or is
//! attached to one thread of a running daemon. Either way it looks at calls on a few paths only,
//! so that a call is known by its name and its number among those, and neither the log nor the
//! wake-up of another thread is hit by accident. What was hit is in the trace and is checked.

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kron_testkit::files::read;
use kron_testkit::process::{is_traced_since, switches};
use kron_testkit::waiting::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The calls by which anything durable is opened, looked at, changed or made durable. Those that
/// only a closed descriptor can fail (`close`, `fcntl`) are not among them.
pub(crate) const STORE_CALLS: &str = "open,openat,mkdir,mkdirat,fstat,newfstatat,statx,flock,\
     read,pread64,getdents64,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,\
     unlink,unlinkat,chmod,fchmodat,utimensat";

/// What happens instead of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It fails with this error.
    Error(&'static str),
    /// It does nothing, and claims to have succeeded with this result.
    Returns(u64),
}

/// Which of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// This one, counted from 1.
    Once(usize),
    /// This one and all that follow.
    ForGood(usize),
}

/// Calls that are made to go wrong.
#[derive(Clone, Debug)]
pub(crate) struct Injection {
    /// Their names, with commas between.
    pub(crate) calls: String,
    pub(crate) effect: Effect,
    pub(crate) when: When,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.calls)?;
        match self.effect {
            Effect::Error(error) => write!(f, "error={error}")?,
            Effect::Returns(result) => write!(f, "retval={result}")?,
        }
        match self.when {
            When::Once(number) => write!(f, ":when={number}"),
            When::ForGood(number) => write!(f, ":when={number}+"),
        }
    }
}

/// One call as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Its number among the calls of that name, from 1.
    pub(crate) number: usize,
    /// What it was about: the paths of its descriptors and the names it was given, with `S` for
    /// the state directory.
    pub(crate) about: String,
    /// What came of it.
    pub(crate) result: String,
    pub(crate) injected: bool,
}

impl Call {
    /// Whether it changes something, or makes a change durable.
    pub(crate) fn changes(&self) -> bool {
        let names = [
            "write",
            "pwrite64",
            "ftruncate",
            "fsync",
            "fdatasync",
            "rename",
            "renameat",
            "renameat2",
            "unlink",
            "unlinkat",
            "mkdir",
            "mkdirat",
            "chmod",
            "fchmodat",
            "utimensat",
        ];
        names.contains(&&*self.name)
    }
}

/// Which calls of a path are made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All by which something changes, and the first of each other name in each part of the path.
    Weighty,
    /// All.
    Every,
}

impl Extent {
    /// Those of these calls that are made to fail, each with the part of the path that it is in.
    pub(crate) fn of<P: Clone + PartialEq>(self, calls: &[(P, Call)]) -> Vec<(P, Call)> {
        let is_first = |place: usize| {
            let (part, call) = &calls[place];
            !calls[..place].iter().any(|(other, seen)| other == part && seen.name == call.name)
        };
        let is_meant =
            |place: usize| self == Extent::Every || calls[place].1.changes() || is_first(place);
        let meant: Vec<usize> = (0..calls.len()).filter(|place| is_meant(*place)).collect();
        meant.into_iter().map(|place| calls[place].clone()).collect()
    }
}

/// What is traced, and where the trace goes.
#[derive(Debug)]
pub(crate) struct Tracing {
    state_dir: PathBuf,
    arguments: Vec<String>,
    trace: PathBuf,
}

impl Tracing {
    /// Looks at calls on these names in the state directory, and on the directory itself for an
    /// empty name.
    pub(crate) fn new(state_dir: &Path, names: &[&str], injection: Option<&Injection>) -> Tracing {
        let trace = state_dir.with_extension("trace");
        let mut arguments = vec!["-qq".to_owned(), "-y".to_owned(), "-o".to_owned()];
        arguments.push(trace.to_str().unwrap().to_owned());
        for name in names {
            let path = if name.is_empty() { state_dir.to_owned() } else { state_dir.join(name) };
            arguments.extend(["-P".to_owned(), path.to_str().unwrap().to_owned()]);
            // Calls relative to the directory are known by the name alone.
            if !name.is_empty() {
                arguments.extend(["-P".to_owned(), (*name).to_owned()]);
            }
        }
        arguments.extend(["-e".to_owned(), format!("trace={STORE_CALLS}")]);
        if let Some(injection) = injection {
            arguments.extend(["-e".to_owned(), format!("inject={injection}")]);
        }
        Tracing { state_dir: state_dir.to_owned(), arguments, trace }
    }

    /// The same for calls that are about no path.
    pub(crate) fn anywhere(state_dir: &Path, injection: &Injection) -> Tracing {
        let trace = state_dir.with_extension("trace");
        let arguments = ["-qq", "-y", "-o", trace.to_str().unwrap(), "-e"].map(str::to_owned);
        let mut arguments = arguments.to_vec();
        arguments.extend([format!("trace={}", injection.calls), "-e".to_owned()]);
        arguments.push(format!("inject={injection}"));
        Tracing { state_dir: state_dir.to_owned(), arguments, trace }
    }

    /// The command with its first thread traced from its first call on. The tracer is no parent:
    /// process id and exit status are the command's own.
    pub(crate) fn around(&self, command: &Command) -> Command {
        self.wrap(command, &["-D"])
    }

    /// The same with all its threads and children, each of which counts for itself.
    pub(crate) fn around_all(&self, command: &Command) -> Command {
        self.wrap(command, &["-D", "-f"])
    }

    fn wrap(&self, command: &Command, flags: &[&str]) -> Command {
        let mut traced = Command::new("strace");
        // A tracer that started what it traces would not be ended by a signal.
        traced.args(flags).arg("-I2").args(&self.arguments).arg("--");
        traced.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            traced.env(name, value.unwrap_or_default());
        }
        traced
    }

    /// Traces these threads of a running daemon from now on. They wait for work.
    pub(crate) fn attach(&self, threads: &[i32]) -> Attached {
        let before: Vec<_> = threads.iter().map(|thread| switches(*thread)).collect();
        let mut strace = Command::new("strace");
        strace.args(&self.arguments);
        for thread in threads {
            strace.args(["-p", &thread.to_string()]);
        }
        let child = strace.stdin(Stdio::null()).process_group(0).spawn().unwrap();
        let attached = Attached { child };
        for (thread, before) in threads.iter().zip(before) {
            // On a busy machine the daemon may have met its failure before that is seen here.
            eventually("strace is attached", || is_traced_since(*thread, before).then_some(()));
        }
        attached
    }

    /// What was seen so far, call by call.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        for line in read(&self.trace).unwrap_or_default().lines() {
            let Some((name, rest)) = line.split_once('(') else { continue };
            // With several threads their number comes first.
            let name = name.rsplit(' ').next().unwrap_or(name);
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                continue;
            }
            let number = calls.iter().filter(|call| call.name == name).count() + 1;
            let injected = rest.ends_with("(INJECTED)");
            let (arguments, result) = rest.rsplit_once(" = ").unwrap_or((rest, ""));
            let (name, result) = (name.to_owned(), result.to_owned());
            calls.push(Call { name, number, about: self.about(arguments), result, injected });
        }
        calls
    }

    /// The calls that were made to go wrong.
    pub(crate) fn injected(&self) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.injected).collect()
    }

    fn about(&self, arguments: &str) -> String {
        let state_dir = self.state_dir.to_str().unwrap();
        let arguments = arguments.replace(state_dir, "S");
        // What is written or read is in quotes too, but begins with a brace or is no name.
        let mut words = Vec::new();
        let mut rest = &*arguments;
        while let Some(start) = rest.find(['<', '"']) {
            let close = if rest[start..].starts_with('<') { '>' } else { '"' };
            let word = &rest[start + 1..];
            let Some(end) = word.find(close) else { break };
            let named = word[..end].bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
            if named && end > 0 {
                words.push(&word[..end]);
            }
            rest = &word[end + 1..];
        }
        words.join(" ")
    }
}

/// A tracer of a running daemon. It ends with what it traces, or when it is dropped, which lets
/// the daemon go on untraced.
#[derive(Debug)]
pub(crate) struct Attached {
    child: Child,
}

impl Attached {
    /// Waits until it has written everything down, which is when all it traced has ended.
    pub(crate) fn ended(mut self) {
        let child = std::cell::RefCell::new(&mut self.child);
        eventually("strace ends", || child.borrow_mut().try_wait().unwrap());
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // It lets go of what it traces before it leaves.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Ends the tracer around a daemon, which goes on untraced.
pub(crate) fn end_tracer_around(pid: i32) {
    let tracer = tracer_of(pid).filter(|tracer| *tracer != 0).expect("it is traced");
    kill(Pid::from_raw(tracer), Signal::SIGTERM).unwrap();
    eventually("strace lets go", || (tracer_of(pid).unwrap_or(0) == 0).then_some(()));
}

fn tracer_of(thread: i32) -> Option<i32> {
    let status = read(Path::new(&format!("/proc/{thread}/status")))?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok()
}
