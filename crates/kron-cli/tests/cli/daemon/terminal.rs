//! A program on a terminal of its own, its keys, and what can be seen there.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tempfile::TempDir;

use crate::daemon::krond::{bytes, wait_for};

/// A shell on a terminal that `script` makes, and the program in its place.
pub(crate) struct Terminal {
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    reading: Option<JoinHandle<()>>,
    /// Where the terminal's name and settings are written.
    notes: TempDir,
}

impl Terminal {
    /// Runs `kron` with these words in a directory, on a terminal of this size.
    pub(crate) fn start(directory: &Path, columns: u32, rows: u32, words: &[&str]) -> Terminal {
        let notes = tempfile::tempdir().expect("a directory");
        let words: Vec<_> =
            words.iter().map(|word| shlex::try_quote(word).expect("a word")).collect();
        let at = notes.path().display();
        // What Ctrl-C means is the program's to decide; the shell only looks on.
        let line = format!(
            "trap : INT; tty >{at}/tty; stty cols {columns} rows {rows}; stty -g >{at}/before; echo $$ >{at}/shell; \
             {} {}; code=$?; stty -g >{at}/after; exit $code",
            env!("CARGO_BIN_EXE_kron"),
            words.join(" ")
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"])
            .current_dir(directory)
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs");
        let output = Arc::new(Mutex::new(Vec::new()));
        let (mut from, to) = (child.stdout.take().expect("it is piped"), Arc::clone(&output));
        let reading = std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut some) {
                to.lock().expect("nobody panicked").extend_from_slice(&some[..length]);
            }
        });
        Terminal { child, output, reading: Some(reading), notes }
    }

    /// Everything that was written, as it was.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().expect("nobody panicked")).into_owned()
    }

    /// What is to be seen: the latest whole frame.
    pub(crate) fn frame(&self) -> String {
        let raw = self.raw();
        let mut frames = raw.rsplit("\x1b[H");
        let newest = frames.next().unwrap_or("");
        // A frame ends by clearing what is below.
        let whole = if newest.contains("\x1b[J") { newest } else { frames.next().unwrap_or("") };
        plain(whole)
    }

    /// Waits until a frame is right.
    #[track_caller]
    pub(crate) fn see(&self, what: &str, is_right: impl Fn(&str) -> bool) -> String {
        let seen = std::cell::RefCell::new(String::new());
        let look = || {
            let frame = self.frame();
            let right = is_right(&frame);
            *seen.borrow_mut() = frame;
            right.then(|| seen.borrow().clone())
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_for(what, look)));
        found.unwrap_or_else(|_| {
            panic!("never saw {what}; last:\n{}\n{:?}", seen.borrow(), self.raw())
        })
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        let keyboard = self.child.stdin.as_mut().expect("it is piped");
        keyboard.write_all(keys.as_bytes()).expect("keys are taken");
        keyboard.flush().expect("keys are taken");
    }

    /// Makes it another size.
    pub(crate) fn resize(&self, columns: u32, rows: u32) {
        let status = Command::new("stty")
            .args(["-F", &self.note("tty"), "cols", &columns.to_string()])
            .args(["rows", &rows.to_string()])
            .status();
        assert!(status.expect("stty runs").success());
    }

    /// The process of the program.
    pub(crate) fn pid(&self) -> String {
        let shell = self.note("shell");
        wait_for("the program", || {
            let children = bytes(&PathBuf::from(format!("/proc/{shell}/task/{shell}/children")));
            let children = String::from_utf8(children).expect("numbers");
            children.split_whitespace().next().map(str::to_owned)
        })
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid()]).status();
        assert!(sent.expect("kill runs").success());
    }

    fn note(&self, name: &str) -> String {
        let path = self.notes.path().join(name);
        wait_for(name, || {
            let text = String::from_utf8(bytes(&path)).expect("text");
            text.ends_with('\n').then(|| text.trim().to_owned())
        })
    }

    /// Waits for the end, and looks that the terminal is as it was. Tells the exit code and what
    /// was to be read after the last frame.
    #[track_caller]
    pub(crate) fn end(mut self) -> (i32, String) {
        let status = wait_for("the end", || self.child.try_wait().expect("it can be waited for"));
        self.reading.take().expect("it is read").join().expect("all is read");
        assert_eq!(self.note("before"), self.note("after"), "the terminal is as it was");
        let raw = self.raw();
        assert_eq!(
            raw.matches("\x1b[?1049h").count(),
            raw.matches("\x1b[?1049l").count(),
            "{raw:?}"
        );
        assert_eq!(raw.matches("\x1b[?25l").count(), raw.matches("\x1b[?25h").count(), "{raw:?}");
        (code(status), plain(raw.rsplit("\x1b[?1049l").next().unwrap_or("")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A text without the terminal's sequences.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 1..];
        let end = sequence.find(|letter: char| letter.is_ascii_alphabetic());
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    plain.push_str(rest);
    plain.replace('\r', "")
}
