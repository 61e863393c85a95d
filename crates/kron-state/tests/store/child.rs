//! What tests need a process of its own for: this test program, started again with one test of
//! this module to run. Each of them is ignored, and does nothing unless it is started from here.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kron_state::simulated::{Fault, Faulty};
use kron_state::{
    Change, Document, Epoch, EpochEvent, KnownRead, Lock, LockError, Operation, RealDirectory,
    RunRead, Store, write_run_record,
};

use crate::made::{HISTORY_MAX, armed, ended, finished, known, minute, missed, run};

/// Tells a child which directory to work in.
const DIRECTORY: &str = "KRON_TEST_CHILD_DIRECTORY";
/// What every line that is meant for the parent begins with.
const SAID: &str = "> ";

/// A child at work, which ends when this is dropped.
pub(crate) struct Working {
    pub(crate) process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

/// The arguments that make this program run one test of this module.
pub(crate) fn arguments(role: &str) -> Vec<String> {
    let test = format!("child::{role}");
    ["--exact", &test, "--ignored", "--nocapture", "--test-threads=1"].map(str::to_owned).to_vec()
}

/// A command that is to run `role` in `directory`; `wrapper` are the words before this program.
pub(crate) fn command(wrapper: &[&str], role: &str, directory: &Path) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    // What is looked for there makes calls, as many as there are packages tested together.
    command.args(words).args(arguments(role)).env(DIRECTORY, directory);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Starts `role` in `directory`.
pub(crate) fn start(role: &str, directory: &Path) -> Working {
    let mut command = command(&[], role, directory);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap());
    Working { process, lines }
}

impl Working {
    /// The next thing the child says, or `None` once it has ended.
    pub(crate) fn said(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The test harness may not have ended its own line.
            if let Some(at) = line.find(SAID) {
                return Some(line[at + SAID.len()..].trim_end().to_owned());
            }
        }
    }

    /// Lets the child end by itself.
    pub(crate) fn dismiss(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

fn say(what: &str) {
    println!("{SAID}{what}");
}

fn wait_for_dismissal() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
#[ignore = "a process that other tests start"]
fn hold_lock() {
    let Some(directory) = directory() else { return };
    match Lock::acquire(&directory, Duration::ZERO) {
        Ok(_lock) => {
            say("held");
            wait_for_dismissal();
        }
        Err(LockError::Held { by_pid }) => {
            say(&format!("refused {}", by_pid.unwrap_or_default()));
            wait_for_dismissal();
        }
        Err(LockError::Store(error)) => panic!("{error:?}"),
    }
}

#[test]
#[ignore = "a process that other tests start"]
fn commit_for_ever() {
    let Some(directory) = directory() else { return };
    commit_until_it_fails(RealDirectory::open_existing(&directory).unwrap());
}

#[test]
#[ignore = "a process that other tests start"]
fn commit_for_ever_without_directory_sync() {
    let Some(directory) = directory() else { return };
    let directory = RealDirectory::open_existing(&directory).unwrap();
    commit_until_it_fails(Faulty::new(directory, |operation, _| match operation {
        Operation::SyncDirectory => Fault::Swallowed,
        _ => Fault::None,
    }));
}

/// Moves the marks of a few jobs on, and says what was acknowledged.
fn commit_until_it_fails(directory: impl kron_state::Directory) {
    let store = Store::open(directory, HISTORY_MAX).unwrap();
    for period in 1.. {
        let job = format!("job-{}", period % 3);
        say(&format!("tries {job} {period}"));
        if store.commit(&job, &[missed(period)]).is_err() {
            return;
        }
        say(&format!("did {job} {period}"));
    }
}

#[test]
#[ignore = "a process that other tests start"]
fn commit_once() {
    let Some(directory) = directory() else { return };
    let state = RealDirectory::open_existing(&directory);
    let committed = state
        .and_then(|state| Store::open(state, HISTORY_MAX))
        .and_then(|store| store.commit("job", &[missed(2)]));
    match committed {
        Ok(()) => say("done"),
        Err(error) => say(&format!("{} {error:?}", error.category())),
    }
}

/// The job and the periods of [`act_out`]; the parent looks for what it left.
pub(crate) const JOB: &str = "job";
pub(crate) const DAMAGED: &str = "damaged";

/// Does everything a daemon and a supervisor do with a state directory, once, and says after each
/// thing that it was acknowledged. Stops at the first failure.
#[test]
#[ignore = "a process that other tests start"]
fn act_out() {
    let Some(directory) = directory() else { return };
    // So that the parent finds in a trace where this begins.
    eprintln!("BEGIN");
    if let Err(error) = acted_out(&directory) {
        say(&format!("failed {error}"));
    }
}

fn acted_out(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let _lock = Lock::acquire(directory, Duration::ZERO)?;
    let store = Store::open(RealDirectory::open(directory)?, HISTORY_MAX)?;
    let unreadable = store.scan()?.unreadable;
    if !unreadable.is_empty() {
        store.restore(DAMAGED, &Document::new(DAMAGED))?;
        say("restored");
    }
    let first = minute(1);
    store.alive(first)?;
    store.last_alive()?;
    store.commit(JOB, &[Change::Arm(armed(2, 2)), finished(2, 0, 3)])?;
    say("committed");
    if let KnownRead::Known(_) | KnownRead::Missing = store.known()? {
        store.save_known(&known(&["a", "b"]))?;
        say("saved");
    }
    write_run_record(directory, &run(2), &ended(2))?;
    say("left");
    if store.run_record(&run(2))? == RunRead::Missing {
        return Err("the run record is gone".into());
    }
    store.append_epoch(&Epoch { at: first, event: EpochEvent::Crash { alive_until: None } })?;
    say("told");
    store.epochs()?;
    say("done");
    Ok(())
}
