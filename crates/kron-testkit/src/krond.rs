//! A real krond over a directory of its own.
//!
//! A [`World`] is a configuration, a state directory and a place for witnesses, the files that
//! commands themselves leave. [`World::start`] runs the daemon; [`Krond`] reads its log as JSON and
//! waits for what it says. State documents are read as plain JSON, so that nothing the daemon is
//! made of takes part in judging it. Waiting always means waiting for a condition.
//!
//! Which program is run is said by the test crate: only the tests of a package know where cargo
//! puts its programs.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::files::{read, scratch, write_private};
use crate::waiting::{GLANCE, PATIENCE, now, wall_seconds};

/// What is a burst to a daemon unless it is told otherwise.
const BURST: u16 = 16;
/// How far ahead a period is taken, one after the other until a daemon knows of one in time.
pub const LEADS_S: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// How often a wait for a log line looks whether the daemon is still there.
const LOOK_FOR_DEATH: Duration = Duration::from_millis(200);
/// What is written after the last line of a daemon that has ended.
const END_OF_LOG: &str = "kron-testkit: the daemon has ended";

/// Everything one daemon after the other lives in.
pub struct World {
    program: PathBuf,
    dir: TempDir,
    /// How many jobs due in one second the next daemon brings to their gates ahead.
    pub burst: u16,
}

/// A running daemon.
pub struct Krond {
    child: Child,
    /// The end of the pipe that its log is read from.
    log: OwnedFd,
    lines: mpsc::Receiver<String>,
    /// What it has said so far, line by line.
    pub said: Vec<String>,
    /// How much of that was looked at by [`Krond::wait_for`].
    looked_at: usize,
}

impl World {
    /// A world with this configuration, for daemons that this program is. `{dir}` in the
    /// configuration stands for the directory of witnesses.
    pub fn new(program: impl Into<PathBuf>, config: &str) -> World {
        World::in_directory(tempfile::tempdir().unwrap(), program, config)
    }

    /// As [`World::new`], in memory where the machine has a place for that: for tests of many writes,
    /// or of seconds, that are not about the disk.
    pub fn in_memory(program: impl Into<PathBuf>, config: &str) -> World {
        World::in_directory(scratch(), program, config)
    }

    fn in_directory(dir: TempDir, program: impl Into<PathBuf>, config: &str) -> World {
        let world = World { program: program.into(), dir, burst: BURST };
        fs::create_dir(world.dir.path().join("witness")).unwrap();
        world.configure(config);
        world
    }

    /// Writes another configuration, for the next daemon or a reload.
    pub fn configure(&self, config: &str) {
        let witness = self.dir.path().join("witness");
        self.write_config(&config.replace("{dir}", witness.to_str().unwrap()));
    }

    fn write_config(&self, config: &str) {
        // At once, as an editor does: whoever reads it meanwhile has the whole of the old one.
        let written = self.dir.path().join("jobs.toml.new");
        fs::write(&written, config).unwrap();
        fs::rename(&written, self.config_path()).unwrap();
    }

    /// Where the configuration is.
    pub fn config_path(&self) -> PathBuf {
        self.dir.path().join("jobs.toml")
    }

    /// The state directory, which the first daemon makes.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// A file that a command leaves, or waits for.
    pub fn witness(&self, name: &str) -> PathBuf {
        self.dir.path().join("witness").join(name)
    }

    /// The lines of a witness; none when it is not there.
    pub fn testimony(&self, name: &str) -> Vec<String> {
        let text = read(&self.witness(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Makes a file that a command waits for.
    pub fn permit(&self, name: &str) {
        fs::write(self.witness(name), "").unwrap();
    }

    /// The command that runs a daemon here, with the log that [`Krond`] reads.
    pub fn command(&self) -> Command {
        self.command_logging("json")
    }

    /// The command that runs a daemon with this format of its log.
    pub fn command_logging(&self, format: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .arg("--config")
            .arg(self.config_path())
            .arg("--state-dir")
            .arg(self.state_dir())
            .args(["--log-format", format, "--sync-threads", "1"])
            .args(["--burst", &self.burst.to_string()]);
        command
    }

    /// Starts a daemon and waits until it is ready.
    pub fn start(&self) -> Krond {
        let mut krond = Krond::spawn(&mut self.command());
        krond.wait_for("ready");
        krond
    }

    /// Runs a daemon that is expected to end by itself: its exit code and what it said.
    pub fn run_to_end(&self) -> (i32, String) {
        let mut krond = Krond::spawn(&mut self.command());
        let status = krond.wait();
        (status.code().expect("no signal ended it"), krond.said.join("\n"))
    }

    fn document_path(&self, identity: &str) -> PathBuf {
        self.state_dir().join(format!("{}.json", identity_hash(identity)))
    }

    /// The state document of a job, or null when there is none.
    pub fn document(&self, identity: &str) -> Value {
        read(&self.document_path(identity))
            .map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    /// The state document of a job, if it is there and can be read.
    pub fn readable_document(&self, identity: &str) -> Option<Value> {
        serde_json::from_str(&read(&self.document_path(identity))?).ok()
    }

    /// Puts this in the place of a job's document, private as the daemon's own.
    pub fn write_document(&self, identity: &str, text: &str) {
        write_private(&self.document_path(identity), text);
    }

    /// The history of a job, oldest first.
    pub fn history(&self, identity: &str) -> Vec<Value> {
        self.document(identity)["History"].as_array().cloned().unwrap_or_default()
    }

    /// The records that supervisors left.
    pub fn run_records(&self) -> Vec<Value> {
        let Ok(entries) = fs::read_dir(self.state_dir().join("runs")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .filter_map(|path| Some(serde_json::from_str(&read(&path)?).unwrap()))
            .collect()
    }

    /// The daemon's own history.
    pub fn epochs(&self) -> Vec<Value> {
        let text = read(&self.state_dir().join("epochs.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The logs of a job's runs.
    pub fn logs(&self, identity: &str) -> Vec<PathBuf> {
        let directory = self.state_dir().join("logs").join(identity_hash(identity));
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Loads the definitions that `config` makes of a schedule into the running daemon; returns the
    /// period of `identity` that falls due next, about a second ahead.
    ///
    /// A period is a job's own only if the daemon knew the job before it began. Whether it did is
    /// taken from the daemon's own record, so that no clock of the test is compared with its clock;
    /// where it did not, a period further ahead is taken. Before that the definitions that were there
    /// are loaded again, so that a job that was new is new again, and what it missed leaves no trace.
    ///
    /// A reload by request is answered when the daemon has made durable what it knows of its jobs: a
    /// daemon that is killed from then on leaves the period to the next one.
    pub fn due_soon(&self, identity: &str, config: impl Fn(&str) -> String) -> String {
        self.due_from(1, identity, config)
    }

    /// As [`World::due_soon`] with this lead only; `None` if the period is not the job's own. For
    /// tests that must have done something before it begins: they go through [`LEADS_S`] until it
    /// was done in time.
    pub fn load_due_in(
        &self,
        lead_s: u64,
        identity: &str,
        config: impl Fn(&str) -> String,
    ) -> Option<String> {
        let (schedule, nominal) = due_in(lead_s);
        self.is_loaded_before(&nominal, identity, &config(&schedule)).then_some(nominal)
    }

    /// Lets the running daemon read its configuration again.
    pub fn reload_now(&self) {
        let (status, answer) = self.ask("POST", "/api/v1/reload", "{}");
        assert_eq!(status, 200, "{answer}");
    }

    /// As [`World::due_soon`], at least `lead_s` seconds ahead when it is loaded, but for the part of
    /// a second that has passed.
    pub fn due_from(&self, lead_s: u64, identity: &str, config: impl Fn(&str) -> String) -> String {
        let before = read(&self.config_path()).expect("the definitions that are loaded");
        for factor in LEADS_S {
            if let Some(nominal) = self.load_due_in(lead_s * factor, identity, &config) {
                return nominal;
            }
            self.write_config(&before);
            self.reload_now();
        }
        panic!("no definition was loaded before its period began");
    }

    /// Loads these definitions into the running daemon; whether that was early enough for a period
    /// of `identity` to be the job's own, by the daemon's record.
    pub fn is_loaded_before(&self, nominal: &str, identity: &str, config: &str) -> bool {
        self.configure(config);
        self.reload_now();
        let (status, job) = self.ask("GET", &format!("/api/v1/scheduler/jobs/{identity}"), "");
        assert_eq!(status, 200, "{job}");
        let since = [&job["created_at"], &job["effective_from"]];
        since.iter().filter_map(|at| at.as_str()).all(|at| at < nominal)
    }

    /// Runs a job by request, and returns the daemon's answer: `run_id` and `period_id`.
    pub fn run_now(&self, identity: &str) -> Value {
        let (status, answer) =
            self.ask("POST", &format!("/api/v1/scheduler/jobs/{identity}/run"), "{}");
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Asks the daemon over its socket: the status and the answer.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = UnixStream::connect(self.state_dir().join("krond.sock")).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: krond\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
        let status = head.split(' ').nth(1).expect("a status").parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

impl Drop for World {
    /// Ends the runs that a test left behind.
    fn drop(&mut self) {
        end_commands_of(self.dir.path());
        let Ok(entries) = fs::read_dir(self.state_dir()) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let document = read(&path).and_then(|text| serde_json::from_str::<Value>(&text).ok());
            let Some(document) = document else { continue };
            let others = document["OtherActive"].as_array().cloned().unwrap_or_default();
            for active in others.iter().chain([&document["ActiveExecution"]]) {
                let run = active["RunID"].as_str().unwrap_or_default();
                let supervisor = &active["Supervisor"]["PID"];
                if let Some(pid) = supervisor.as_i64().filter(|pid| is_supervisor_of(*pid, run)) {
                    let _ = kill(Pid::from_raw(pid as i32), Signal::SIGQUIT);
                }
            }
        }
    }
}

/// Ends the runs of jobs in the queue, whose commands all name the directory of their test.
fn end_commands_of(directory: &Path) {
    let Ok(entries) = fs::read_dir("/proc") else { return };
    let name = directory.to_str().unwrap_or_default();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids.filter(|pid| *pid != std::process::id() as i32) {
        let words = read(Path::new(&format!("/proc/{pid}/cmdline"))).unwrap_or_default();
        let is_krond = || words.split('\0').any(|word| word == "krond" || word.ends_with("/krond"));
        if words.contains(name) && !is_krond() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn is_supervisor_of(pid: i64, run: &str) -> bool {
    let words = read(Path::new(&format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    words.split('\0').eq(["kron-supervisor", run, ""])
}

impl Krond {
    /// Starts this command and listens to its standard error.
    pub fn spawn(command: &mut Command) -> Krond {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let log = stderr.as_fd().try_clone_to_owned().unwrap();
        let stderr = BufReader::new(stderr);
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stderr.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Krond { child, log, lines, said: Vec::new(), looked_at: 0 }
    }

    /// The number of its process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The next log line of this event that was not looked at yet.
    pub fn wait_for(&mut self, event: &str) -> Value {
        self.wait_until(event, |_| true)
    }

    /// As [`Krond::wait_for`], for lines about one job.
    pub fn wait_for_job(&mut self, event: &str, identity: &str) -> Value {
        self.wait_until(event, |line| line["identity"] == identity)
    }

    fn wait_until(&mut self, event: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = now() + PATIENCE;
        let mut ended = false;
        loop {
            while self.looked_at < self.said.len() {
                self.looked_at += 1;
                let line = serde_json::from_str(&self.said[self.looked_at - 1]);
                let line: Value = line.unwrap_or(Value::Null);
                if line["event"] == event && wanted(&line) {
                    return line;
                }
            }
            let rest = deadline.saturating_duration_since(now());
            match self.lines.recv_timeout(rest.min(LOOK_FOR_DEATH)) {
                Ok(line) => self.said.push(line),
                // Supervisors that go on keep the pipe open, so that its end is not that of the log.
                Err(RecvTimeoutError::Timeout) if !ended && self.has_ended() => {
                    self.read_last_lines();
                    ended = true;
                }
                Err(RecvTimeoutError::Timeout) if !ended && !rest.is_zero() => {}
                Err(RecvTimeoutError::Timeout) if !ended => {
                    panic!("no `{event}` within {PATIENCE:?}:\n{}", self.said.join("\n"))
                }
                Err(_) => {
                    panic!("it ended without `{event}`:\n{}", self.said.join("\n"))
                }
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Every line of this event so far.
    pub fn events(&mut self, event: &str) -> Vec<Value> {
        self.said.extend(self.lines.try_iter());
        let parsed = self.said.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        parsed.filter(|line| line["event"] == event).collect()
    }

    /// The lines of this event, as soon as there are this many, whichever were looked at before.
    pub fn heard(&mut self, event: &str, count: usize) -> Vec<Value> {
        let deadline = now() + PATIENCE;
        loop {
            let found = self.events(event);
            if found.len() >= count {
                return found;
            }
            match self.lines.recv_timeout(deadline.saturating_duration_since(now())) {
                Ok(line) => self.said.push(line),
                Err(_) => panic!(
                    "`{event}` {} times, not {count}:\n{}",
                    found.len(),
                    self.said.join("\n")
                ),
            }
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Kills it as nothing else does: no farewell, no clean-up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.read_last_lines();
                return status;
            }
            if now() >= deadline {
                self.said.extend(self.lines.try_iter());
                panic!("it does not end:\n{}", self.said.join("\n"));
            }
            thread::sleep(GLANCE);
        }
    }

    /// Waits until everything that it started has ended too, for which it need not run any more:
    /// supervisors keep its log open as long as they live.
    pub fn wait_for_supervisors(&mut self) {
        let deadline = now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(now())) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("its supervisors do not end:\n{}", self.said.join("\n"))
                }
            }
        }
    }

    /// Reads what it wrote before it ended. Supervisors that go on keep its standard error open, so
    /// that the pipe does not end: a line of our own marks the place.
    fn read_last_lines(&mut self) {
        let path = format!("/proc/self/fd/{}", self.log.as_raw_fd());
        let mut pipe = fs::OpenOptions::new().write(true).open(path).unwrap();
        // A daemon that was killed may have written a part of a line.
        pipe.write_all(format!("\n{END_OF_LOG}\n").as_bytes()).unwrap();
        drop(pipe);
        let lines = self.lines.iter().take_while(|line| line != END_OF_LOG);
        self.said.extend(lines.filter(|line| !line.is_empty()));
    }

    /// Stops it in good order, leaving what runs.
    pub fn stop(mut self) -> Vec<String> {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait().code(), Some(0), "{}", self.said.join("\n"));
        std::mem::take(&mut self.said)
    }
}

impl Drop for Krond {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A schedule that falls due once a day, this many seconds from now, and that time.
pub fn due_in(seconds: u64) -> (String, String) {
    let at = wall_seconds() + seconds;
    let of_day = at % 86_400;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let nominal = kron_core::UtcSecond::from_unix(at as i64).unwrap().to_string();
    (format!("{second} {minute} {hour} * * *"), nominal)
}

/// A schedule for jobs that are run by request: it falls due once a year, half a year from now in
/// every time zone. A fixed date comes one day, and then every job has a run that its test does not
/// expect. Within one process it is always the same.
pub fn seldom() -> &'static str {
    static SELDOM: OnceLock<String> = OnceLock::new();
    SELDOM.get_or_init(|| {
        let now = kron_core::UtcSecond::from_unix(wall_seconds() as i64).unwrap().to_string();
        let month: u32 = now[5..7].parse().unwrap();
        format!("0 0 1 {} *", (month + 5) % 12 + 1)
    })
}

/// The second of a period, or of any time as the daemon writes it.
pub fn second_of(time: &str) -> u64 {
    let second = format!("{}Z", time.get(..19).unwrap_or(time));
    second.parse::<kron_core::UtcSecond>().unwrap().unix() as u64
}

fn identity_hash(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A shell script that waits until the file `name` is there, or its test is over.
pub fn wait_for_permit(name: &str) -> String {
    format!("while [ -d {{dir}} ] && [ ! -e {{dir}}/{name} ]; do sleep 0.02; done")
}
