//! What tests need a process of its own for: this test program, started again with one test of
//! this module to run. Each of them is ignored, and does nothing unless it is started from here.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kron_spool::{Fate, Look, Next, Spool, SpoolError};
use kron_state::simulated::{Fault, Faulty};
use kron_state::{Operation, RealDirectory};
use kron_testkit::files::copy_program;

use crate::acting::Acting;
use crate::made::{
    again, at, ended, far_future, machine_now, new_task, recover, text, text_of_put,
};
use crate::promises::Promise;

/// Tells a child which directory to work in.
const DIRECTORY: &str = "KRON_TEST_CHILD_DIRECTORY";
/// What every line that is meant for the parent begins with.
const SAID: &str = "> ";

/// A child at work, which ends when this is dropped.
pub(crate) struct Working {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

/// A command that is to run `role` in `directory`; `wrapper` are the words before this program.
pub(crate) fn command(wrapper: &[&str], role: &str, directory: &Path) -> Command {
    command_of(&std::env::current_exe().unwrap(), wrapper, role, directory)
}

/// The same with a copy of this program.
pub(crate) fn command_of(
    program: &Path,
    wrapper: &[&str],
    role: &str,
    directory: &Path,
) -> Command {
    let mut words = wrapper.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    let test = format!("child::{role}");
    command.args(words).args(["--exact", &test, "--ignored", "--nocapture", "--test-threads=1"]);
    // What is looked for there makes calls, as many as there are packages tested together.
    command.env(DIRECTORY, directory).env_remove("LD_LIBRARY_PATH");
    command
}

/// Runs `role` to its end, and gives what it said.
pub(crate) fn run(wrapper: &[&str], role: &str, directory: &Path) -> Vec<String> {
    said(&command(wrapper, role, directory).output().unwrap().stdout)
}

/// Runs `role` as another user, who gets a copy of this program beside the directory, since it may
/// be where only its owner can go.
pub(crate) fn run_as(user: u32, role: &str, directory: &Path) -> Vec<String> {
    run_as_by(&[], user, role, directory)
}

/// The same with a mask that lets nobody else read what is made.
pub(crate) fn run_hiding_as(user: u32, role: &str, directory: &Path) -> Vec<String> {
    run_as_by(&["sh", "-c", "umask 077; exec \"$0\" \"$@\""], user, role, directory)
}

fn run_as_by(before: &[&str], user: u32, role: &str, directory: &Path) -> Vec<String> {
    let program = directory.with_file_name("program");
    if !program.exists() {
        copy_program(&std::env::current_exe().unwrap(), &program);
    }
    let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
    let wrapper = [before, &["setpriv", &uid, &gid, "--clear-groups"]].concat();
    let mut command = command_of(&program, &wrapper, role, directory);
    said(&command.current_dir("/").output().unwrap().stdout)
}

pub(crate) fn said(stdout: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stdout);
    text.lines().filter_map(|line| Some(line.split_once(SAID)?.1.to_owned())).collect()
}

/// Starts `role` in `directory`.
pub(crate) fn start(role: &str, directory: &Path) -> Working {
    let mut process = command(&[], role, directory).stdout(Stdio::piped()).spawn().unwrap();
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

fn tell(name: &str, promise: Promise) {
    say(&format!("{name} {promise}"));
}

/// Does one of everything, and says what was promised. What fails and is not final is tried once
/// more; after what is final it says so and ends.
#[test]
#[ignore = "a process that other tests start"]
fn act_out() {
    let Some(directory) = directory() else { return };
    warm_up();
    // So that the parent finds in a trace where this begins.
    eprintln!("BEGIN");
    match acted_out(&directory) {
        Ok(()) => say("done"),
        Err(error) if error.is_final() => say("final"),
        Err(error) => say(&format!("failed twice: {error:?}")),
    }
}

/// Makes calls that are made, too, while this program is loaded, so often that none of what follows
/// has a number that one of those has: else an injection would hit them.
fn warm_up() {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    let nowhere = rustix::fs::openat(CWD, "/dev/null", OFlags::WRONLY, Mode::empty()).unwrap();
    for _ in 0..64 {
        let file = rustix::fs::openat(CWD, "/proc/self/stat", OFlags::RDONLY, Mode::empty());
        let file = file.unwrap();
        rustix::fs::fstat(&file).unwrap();
        rustix::fs::statat(CWD, "/proc/self/stat", AtFlags::empty()).unwrap();
        rustix::io::read(&file, &mut [0; 8]).unwrap();
        rustix::io::fcntl_getfd(&file).unwrap();
        rustix::io::write(&nowhere, b"-").unwrap();
        let flags = rustix::rand::GetRandomFlags::empty();
        rustix::rand::getrandom(&mut [0; 1], flags).unwrap();
    }
}

/// What [`acted_out`] finds, so that recovery has something to do.
pub(crate) fn prepare(path: &Path) {
    let tasks = crate::made::open(path);
    drop(tasks);
    let file = |state: &str, name: &str, text: &str| {
        std::fs::write(path.join("tasks").join(state).join(name), text).unwrap();
    };
    let result = r#""attempts":1,"result":{"outcome":"SUCCEEDED","exitCode":0},"#;
    file("pending", "both.json", &text("both", "PENDING", ""));
    file("running", "both.json", &text("both", "RUNNING", r#""attempts":1,"#));
    file("running", "ended.json", &text("ended", "RUNNING", r#""attempts":1,"#));
    file("completed", "ended.json", &text("ended", "COMPLETED", result));
    file("running", "alone.json", &text("alone", "RUNNING", r#""attempts":1,"#));
    file("running", ".tmp-x.json", "{");
    file("pending", "bad.json", "{\"no\":\"task\"}");
}

/// What is promised before anything is done.
pub(crate) const PREPARED: [(&str, Promise); 4] = [
    ("both.json", Promise::There),
    ("ended.json", Promise::Completed(0)),
    ("alone.json", Promise::There),
    ("bad.json", Promise::Bad),
];

fn acted_out(path: &Path) -> Result<(), SpoolError> {
    let (spool, _lock) = twice(|| Spool::open(path, &[]))?;
    twice(|| recover(&spool, Fate::Lost))?;
    twice(|| spool.set_aside_no_texts(at(0)).map(|_| ()))?;
    let mut tell = tell;
    let mut it = Acting { spool: &spool, tell: &mut tell };
    twice(|| it.put_new(&["a"]))?;
    twice(|| it.put_new(&["b", "c", "b", "d"]))?;
    twice(|| it.put(&["a"]))?;
    twice(|| it.set_aside("bad.json"))?;
    twice(|| it.start(&["a", "b", "alone"]))?;
    twice(|| it.put(&["a"]))?;
    twice(|| it.start(&["c"]))?;
    // A producer puts it once more.
    std::fs::write(path.join("tasks/pending/.copy"), text_of_put("c")).unwrap();
    std::fs::rename(path.join("tasks/pending/.copy"), path.join("tasks/pending/c.json")).unwrap();
    twice(|| it.drop_repeat("c"))?;
    let lost = Next::Lost { error: "lost".to_owned() };
    let ends = [
        ("a", again(40)),
        ("b", Next::Completed(ended(0))),
        ("c", Next::Completed(ended(1))),
        ("alone", lost),
    ];
    twice(|| it.finish(&ends))?;
    twice(|| it.retry("c"))?;
    twice(|| it.start(&["a"]))?;
    twice(|| it.finish(&[("a", Next::Completed(ended(0)))]))?;
    twice(|| it.purge(&["a", "b", "ended"]))?;
    twice(|| spool.purge_rejected(at(0)).map(|_| ()))?;
    Ok(())
}

/// A second attempt after the first has failed, unless that is final.
fn twice<T>(mut attempt: impl FnMut() -> Result<T, SpoolError>) -> Result<T, SpoolError> {
    match attempt() {
        Err(error) if error.is_final() => Err(error),
        Err(_) => attempt(),
        done => done,
    }
}

/// A producer puts the same 200 tasks as everybody else, in batches, and says what it was told.
#[test]
#[ignore = "a process that other tests start"]
fn put_two_hundred() {
    let Some(directory) = directory() else { return };
    let spool = match Spool::open_to_put(&directory) {
        Ok(spool) => spool,
        Err(error) => return say(&format!("not opened: {error}")),
    };
    let names: Vec<String> = (0..200).map(|number| format!("t{number}")).collect();
    for batch in names.chunks(7) {
        let tasks: Vec<_> = batch.iter().map(|name| new_task(name)).collect();
        for (name, put) in batch.iter().zip(spool.put(&tasks, at(0))) {
            match put {
                Ok(put) => say(&format!("{name} {put:?}")),
                Err(error) => say(&format!("{name} failed: {error}")),
            }
        }
    }
}

/// Puts more tasks in one batch than it may have files open.
#[test]
#[ignore = "a process that other tests start"]
fn put_a_thousand_at_once() {
    let Some(directory) = directory() else { return };
    let spool = Spool::open_to_put(&directory).unwrap();
    let tasks: Vec<_> = (0..1_000).map(|number| new_task(&format!("t{number}"))).collect();
    let put = spool.put(&tasks, at(0));
    say(&format!("{}", put.iter().filter(|put| put.is_ok()).count()));
    if let Some(Err(error)) = put.iter().find(|put| put.is_err()) {
        say(&error.to_string());
    }
}

/// Looks at everything that waits, and says what it is.
#[test]
#[ignore = "a process that other tests start"]
fn look_at_all() {
    let Some(directory) = directory() else { return };
    let (spool, _lock) = match Spool::open(&directory, &[]) {
        Ok(opened) => opened,
        Err(error) => return say(&format!("not opened: {error}")),
    };
    let mut names = spool.pending_names().unwrap();
    names.sort();
    for name in names {
        match spool.look(&name, far_future()).unwrap() {
            Look::Unfit(fault) => {
                let aside =
                    spool.set_aside(kron_spool::State::Pending, &name, &fault, machine_now());
                say(&format!("{name}: {fault} ({})", aside.is_ok()));
            }
            Look::Task(_) => say(&format!("{name}: a task")),
            other => say(&format!("{name}: {other:?}")),
        }
    }
}

/// Puts, starts and ends tasks until something fails, and says what was promised.
#[test]
#[ignore = "a process that other tests start"]
fn live_for_ever() {
    let Some(directory) = directory() else { return };
    let root = RealDirectory::open(&directory).unwrap();
    let spool = Spool::over(&root).unwrap();
    let mut tell = tell;
    let mut it = Acting { spool: &spool, tell: &mut tell };
    let mut number = 0;
    let mut one_more = || -> Result<(), SpoolError> {
        number += 1;
        let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}{number}"));
        it.put_new(&[&a])?;
        it.put_new(&[&b, &c])?;
        it.start(&[&a, &b])?;
        it.finish(&[(&a, Next::Completed(ended(0))), (&b, again(0))])?;
        it.start(&[&b, &c])?;
        it.finish(&[(&b, Next::Completed(ended(1)))])
    };
    while one_more().is_ok() {}
}

/// Puts one task without making its name durable, says what was promised, and ends.
#[test]
#[ignore = "a process that other tests start"]
fn put_one_without_directory_sync() {
    let Some(directory) = directory() else { return };
    let root = RealDirectory::open(&directory).unwrap();
    let root = Faulty::new(root, |operation, _| match operation {
        Operation::SyncDirectory => Fault::Swallowed,
        _ => Fault::None,
    });
    let spool = Spool::over(&root).unwrap();
    Acting { spool: &spool, tell: &mut tell }.put(&["a"]).unwrap();
}
