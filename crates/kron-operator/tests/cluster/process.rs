//! Processes that end with the test, however it ends.
//!
//! Every one is started through `setpriv --pdeathsig KILL` in a process group of its own. The kernel
//! sends that signal when the *thread* that started the process ends, and every test has a thread of
//! its own, so all are started by one thread that lives as long as the test's process.
//!
//! A directory of a shared control plane has no owner that is ever dropped; [`remove_at_exit`] gives
//! it one outside this process.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use kron_testkit::process;
use kron_testkit::waiting::now;
use nix::sys::signal::Signal;

/// How many bytes at the end of a log are shown when something went wrong.
const LOG_TAIL_BYTES: usize = 16 * 1024;
/// How often a condition is looked at again. Most of these are questions to an API server, which has
/// other things to do: hence not as often as in `kron_testkit::waiting`.
const POLL: Duration = Duration::from_millis(20);

/// A running program whose whole output goes to one file.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program. Its output is added to the file `log`.
    pub(crate) fn start(name: &str, program: &Path, args: &[String], log: &Path) -> Process {
        let out = File::options().create(true).append(true).open(log).unwrap();
        let err = out.try_clone().unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0);
        let child = spawn(command)
            .unwrap_or_else(|error| panic!("`setpriv` cannot start `{name}`: {error}"));
        Process { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// Sends a signal to the program and to whatever it started.
    pub(crate) fn signal(&self, signal: Signal) {
        // The negative number is that of its group.
        process::signal(-self.id(), signal);
    }

    /// The exit status, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let deadline = now() + timeout;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                now() < deadline,
                "`{}` has not ended after {timeout:?}:\n{}",
                self.name,
                self.log_tail()
            );
            thread::sleep(POLL);
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::SIGKILL);
            // Reaped, so that nothing of it is left: its ports, its files.
            drop(self.child.wait());
        }
    }

    /// The process id.
    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The end of its log.
    pub(crate) fn log_tail(&self) -> String {
        let text = read(&self.log);
        let mut start = text.len().saturating_sub(LOG_TAIL_BYTES);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        text[start..].to_owned()
    }

    /// Waits until something is true of a program that must not end meanwhile.
    pub(crate) fn wait_until<T>(
        &mut self,
        what: &str,
        timeout: Duration,
        mut condition: impl FnMut() -> Option<T>,
    ) -> T {
        let deadline = now() + timeout;
        loop {
            if let Some(found) = condition() {
                return found;
            }
            let ended = self.ended();
            assert!(
                ended.is_none() && now() < deadline,
                "`{}`: {what}: not within {timeout:?} (ended: {ended:?}):\n{}",
                self.name,
                self.log_tail()
            );
            thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until something is true, and says what has been waited for when it does not become so.
///
/// The timeout is [`PATIENCE`](kron_testkit::waiting::PATIENCE) or longer. What other programs do in
/// their own time fits in: the cluster's garbage collector looks every thirty seconds which kinds
/// there are, and backs off from owners of a kind that it does not know; clients of an API server
/// that was away may wait half a minute before they try again, and longer the second time.
pub(crate) fn wait_until<T>(
    what: &str,
    timeout: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> T {
    let deadline = now() + timeout;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(now() < deadline, "{what}: not within {timeout:?}");
        thread::sleep(POLL);
    }
}

/// What a file holds; a file that is not there holds nothing. Unlike that of `kron_testkit::files`
/// this reads logs that other programs write meanwhile, whose last character may not be complete.
pub(crate) fn read(path: &Path) -> String {
    #[expect(clippy::disallowed_methods, reason = "a test reads what the programs wrote")]
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Removes a directory when this process is gone, however it ended.
///
/// The pipe to the one that removes closes with this process. The processes that write there are
/// killed at the same moment, so removing is tried a few times.
pub(crate) fn remove_at_exit(directory: &Path) {
    const SCRIPT: &str = r#"
        read -r _
        for attempt in 1 2 3 4 5 6 7 8 9 10; do
          rm -rf -- "$1" 2>/dev/null && exit 0
          sleep 0.2
        done"#;
    static REMOVERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());
    let mut command = Command::new("sh");
    command
        .args(["-c", SCRIPT, "sh"])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // An interrupt at the terminal is for the tests, not for what cleans up behind them.
        .process_group(0);
    REMOVERS.lock().unwrap().push(spawn(command).unwrap());
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, received) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in received {
                drop(reply.send(command.spawn()));
            }
        });
        Mutex::new(orders)
    });
    let (reply, answer) = mpsc::channel();
    spawner.lock().unwrap().send((command, reply)).unwrap();
    answer.recv().unwrap()
}
