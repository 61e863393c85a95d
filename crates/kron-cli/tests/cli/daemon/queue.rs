//! `kron queue`: each command, what it says, and what it refuses.

mod definitions;
mod jobs;
mod runs;
mod top;

use std::process::Stdio;

use serde_json::Value;

use crate::daemon::krond::{Daemon, Run, wait_for};

/// Handlers that do, fail, skip, and wait until file `go` is there.
pub(crate) const QUEUE: &str = r#"
[queue]
workers = 1
backoff = "1s"

[queue.handler.echo]
command = ["/bin/sh", "-c", "cat; echo; mkdir -p $KRON_ARTIFACTS_DIR/d && echo done >$KRON_ARTIFACTS_DIR/d/out.txt"]

[queue.handler.bad]
command = ["/bin/sh", "-c", "echo oops; exit 3"]
retries = 1

[queue.handler.skip]
command = ["/bin/sh", "-c", "exit 75"]
skip_codes = [75]

[queue.handler.slow]
command = ["/bin/sh", "-c", "echo begun; echo 'kron-progress: 40 half way'; until test -e GO; do sleep 0.05; done; echo ended"]
retries = 0
"#;

/// A daemon with a queue.
pub(crate) fn queue() -> Daemon {
    let daemon = Daemon::prepare("");
    let go = daemon.path("go");
    daemon.define(&QUEUE.replace("GO", go.to_str().expect("text")));
    let mut daemon = daemon;
    daemon.up();
    daemon
}

/// Lets handlers of type `slow` end.
pub(crate) fn go(daemon: &Daemon) {
    std::fs::write(daemon.path("go"), "").expect("a file");
}

/// Enqueues a job and returns its id.
#[track_caller]
pub(crate) fn add(daemon: &Daemon, words: &[&str]) -> String {
    daemon.kron(&[&["queue", "add"], words].concat()).ok().trim_end().to_owned()
}

/// A job as `kron queue show` tells it.
#[track_caller]
pub(crate) fn show(daemon: &Daemon, job: &str) -> Value {
    daemon.ask(&["queue", "show", job])
}

/// Waits until a job is in this state.
#[track_caller]
pub(crate) fn wait_state(daemon: &Daemon, job: &str, state: &str) {
    wait_for(state, || (show(daemon, job)["job"]["state"] == state).then_some(()));
}

/// The jobs of `kron queue ls`, in its order.
#[track_caller]
pub(crate) fn ls(daemon: &Daemon, words: &[&str]) -> Vec<Value> {
    let words = [&["queue", "ls", "--format", "json"], words].concat();
    json_lines(&daemon.kron(&words).ok())
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[track_caller]
pub(crate) fn ids(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().map(|job| job["job_id"].as_str().expect("an id")).collect()
}

/// The digits with which both of two ids begin: the ids of what was made at about the same time
/// begin with that time.
pub(crate) fn common_beginning<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other);
    &one[..same.count()]
}

/// Runs `kron` with something on its standard input.
pub(crate) fn feed(daemon: &Daemon, words: &[&str], input: &str) -> Run {
    let mut command = daemon.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kron runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        use std::io::Write as _;
        // Whoever has seen enough reads no more.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().expect("it ends");
    writing.join().expect("all is written");
    output.into()
}
