//! The real `kron`, run and looked at from outside.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a run left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    /// What ended it, if that was a signal.
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// Each line of the output as JSON.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect(&self.out)
    }
}

/// `kron` with these words, in the crate's directory.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kron"));
    command.args(words).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// Runs `kron` without any input.
pub(crate) fn kron(words: &[&str]) -> Run {
    kron_reading(words, b"")
}

/// Runs `kron` with `input` on its standard input.
pub(crate) fn kron_reading(words: &[&str], input: &[u8]) -> Run {
    finish(command(words), input)
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    let input = input.to_vec();
    // It may refuse before it has read everything.
    let feeding = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("it ends");
    feeding.join().expect("the input was given");
    Run {
        code: output.status.code(),
        signal: output.status.signal(),
        out: String::from_utf8(output.stdout).expect("the output is UTF-8"),
        err: String::from_utf8(output.stderr).expect("the talk is UTF-8"),
    }
}

/// A fixture, as `kron` is told of it.
pub(crate) fn fixture(name: &str) -> String {
    format!("tests/fixtures/{name}")
}
