//! A daemon of a test's own, and `kron` to talk to it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use kron_testkit::programs::of_workspace;
use kron_testkit::waiting::eventually_every;
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits between two looks, most of which run `kron`.
const STEP: Duration = Duration::from_millis(20);

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The output as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.out).expect(&self.out)
    }

    /// The output of a command that worked.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// What a command said that ended with this code.
    #[track_caller]
    pub(crate) fn no(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.err
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("the output is UTF-8"),
            err: String::from_utf8(output.stderr).expect("the talk is UTF-8"),
        }
    }
}

/// Waits until something is there.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_every(STEP, what, look)
}

/// A daemon, its definitions and its state, all of which go when the value does.
pub(crate) struct Daemon {
    dir: TempDir,
    child: Option<Child>,
    socket: Option<PathBuf>,
}

impl Daemon {
    /// Starts a daemon with these definitions and waits until it answers.
    pub(crate) fn start(definitions: &str) -> Daemon {
        let mut daemon = Daemon::prepare(definitions);
        daemon.up();
        daemon
    }

    /// Everything but the daemon itself.
    pub(crate) fn prepare(definitions: &str) -> Daemon {
        let dir = tempfile::Builder::new().prefix("kron").tempdir().expect("a directory");
        let daemon = Daemon { dir, child: None, socket: None };
        daemon.define(definitions);
        daemon
    }

    /// Uses this socket, which need not be in the state directory.
    pub(crate) fn with_socket(mut self, name: &str) -> Daemon {
        self.socket = Some(self.path(name));
        self
    }

    /// Writes other definitions.
    pub(crate) fn define(&self, definitions: &str) {
        std::fs::write(self.path("jobs.toml"), definitions).expect("definitions are written");
    }

    /// Starts the daemon and waits until it answers.
    pub(crate) fn up(&mut self) {
        assert!(self.child.is_none(), "it is up");
        self.child = Some(self.spawn());
        wait_for("the daemon to answer", || {
            let gone = self.child.as_mut().and_then(|child| child.try_wait().ok()?);
            assert!(gone.is_none(), "{gone:?}: {}", self.log());
            (self.kron(&["status"]).code == Some(0)).then_some(())
        });
    }

    /// Starts a daemon that is to refuse to, and returns its exit code.
    pub(crate) fn refused(&self) -> Option<i32> {
        let mut child = KilledOnDrop(self.spawn());
        let status = wait_for("the daemon to refuse", || {
            let status = child.0.try_wait().expect("it can be waited for");
            let has_started = status.is_none() && self.kron(&["status"]).code == Some(0);
            assert!(!has_started, "it started: {}", self.log());
            status
        });
        status.code()
    }

    fn spawn(&self) -> Child {
        let mut command = Command::new(krond());
        command.arg("run").arg("--config").arg(self.path("jobs.toml"));
        command.arg("--state-dir").arg(self.state_dir());
        if let Some(socket) = &self.socket {
            command.arg("--socket").arg(socket);
        }
        let log_path = self.path("krond.log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log_path);
        let log = log.expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().expect("krond starts")
    }

    /// Kills the daemon without any chance to say good-bye.
    pub(crate) fn crash(&mut self) {
        let mut child = self.child.take().expect("it is up");
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
    }

    /// Stops the daemon with `kron stop` and these words, and waits for its end.
    pub(crate) fn stop(&mut self, words: &[&str]) -> Run {
        let run = self.kron(&[&["stop"], words].concat());
        let mut child = self.child.take().expect("it is up");
        assert_eq!(child.wait().expect("it is gone").code(), Some(0), "{}", self.log());
        run
    }

    /// Waits for the end of a daemon that something else has stopped.
    pub(crate) fn forget(&mut self) {
        let mut child = self.child.take().expect("it was up");
        assert_eq!(child.wait().expect("it is gone").code(), Some(0), "{}", self.log());
    }

    /// `kron` with these words, for this daemon.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kron"));
        command.args(words);
        match &self.socket {
            Some(socket) if words[0] != "state" => command.arg("--socket").arg(socket),
            _ => command.arg("--state-dir").arg(self.state_dir()),
        };
        command
    }

    /// Runs `kron` with these words.
    pub(crate) fn kron(&self, words: &[&str]) -> Run {
        self.command(words).output().expect("kron runs").into()
    }

    /// Runs `kron` with these words and reads its JSON.
    #[track_caller]
    pub(crate) fn ask(&self, words: &[&str]) -> Value {
        self.kron(&[words, &["--format", "json"]].concat()).json()
    }

    /// Waits until the history of a job has an entry that is right.
    #[track_caller]
    pub(crate) fn entry(&self, job: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        wait_for("an entry of the history", || {
            let history = self.ask(&["history", job, "-n", "1000"]);
            history["entries"]
                .as_array()
                .expect("a list")
                .iter()
                .find(|entry| is_right(entry))
                .cloned()
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.path("state/krond.sock"))
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&bytes(&self.path("krond.log"))).into_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Politely, so that what runs ends too.
        let asked = self.kron(&["stop", "--kill"]).code == Some(0);
        if !asked {
            let _ = child.kill();
        }
        let _ = child.wait();
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the daemon said:\n{}", self.log());
        }
    }
}

/// A process that does not outlive a test which fails.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file of a test.
#[expect(clippy::disallowed_methods, reason = "a file that the test itself caused")]
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

/// The daemon's program, built beside the command's.
fn krond() -> &'static Path {
    static KROND: OnceLock<PathBuf> = OnceLock::new();
    KROND.get_or_init(|| of_workspace("krond", Path::new(env!("CARGO_BIN_EXE_kron"))))
}
