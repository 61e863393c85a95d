//! A world with a spool in it, and its [`Story`], which is written down while things happen.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, World, seldom};
use kron_testkit::process;
use kron_testkit::strace::{Follow, Strace, inject};
use kron_testkit::waiting::{PATIENCE, eventually, now};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::new_world;
use crate::spool_crash::checker::{
    Asked, BACKOFF_MS, DROPPED, Fault, Filed, Glance, JOB, Kind, RETRIES, SKIP_CODE, Story, check,
};
use crate::spool_crash::producers::{Place, text};
use crate::spool_crash::witness::{self, FILE, Line, handler};

/// Faults that are told in full.
const FAULTS_SHOWN: usize = 5;
/// The spool, and the thread of the daemon's that alone touches it.
const SPOOL: &str = "s";
const KEEPER: &str = "spool-s";
const GLANCE: Duration = Duration::from_millis(20);
/// The directories of tasks, in the order in which a task goes through them.
const DIRECTORIES: [&str; 3] = ["pending", "running", "completed"];

/// A world whose story is being written.
pub(crate) struct Chronicle {
    pub(crate) world: World,
    pub(crate) place: Place,
    pub(crate) story: Story,
    workers: u32,
    pub(crate) deaths: u64,
}

/// When the job of the scheduler's drops a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropping {
    /// Every second.
    Always,
    /// When it is told to.
    WhenTold,
    Never,
}

/// What one life of a daemon is to end with.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// A name of a system call, or several with commas.
    pub(crate) call: String,
    /// Which call of this name by the thread that is meant, counted from 1.
    pub(crate) number: usize,
}

impl Chronicle {
    pub(crate) fn new(workers: u32, dropping: Dropping) -> Chronicle {
        let world = new_world("");
        let beside = |name: &str| world.state_dir().with_file_name(name);
        let place = Place { dir: beside("spool"), outbox: beside("outbox"), acks: beside("acks") };
        fs::create_dir(&place.outbox).unwrap();
        let chronicle = Chronicle { world, place, story: Story::default(), workers, deaths: 0 };
        chronicle.configure(dropping);
        chronicle
    }

    fn configure(&self, dropping: Dropping) {
        let schedule = match dropping {
            Dropping::Always => "* * * * * * @policy(deadline=5s)",
            Dropping::WhenTold => seldom(),
            Dropping::Never => "",
        };
        let job = format!(
            "[job.{JOB}]\nschedule = \"{schedule}\"\n\
             spool = {{ name = \"{SPOOL}\", type = \"{}\", data = {{ mark = \"{DROPPED}\" }} }}\n",
            Kind::Ok
        );
        let job = if dropping == Dropping::Never { String::new() } else { job };
        let own = |kind: Kind, more: &str| handler(SPOOL, kind, more);
        self.world.configure(&format!(
            "[spool.{SPOOL}]\ndir = {:?}\nworkers = {}\nretries = {RETRIES}\nbackoff = \"0s\"\n\
             stop_grace = \"1s\"\n{}{}{}{}{}{}{job}",
            self.place.dir,
            self.workers,
            own(Kind::Ok, ""),
            own(Kind::Once, &format!("backoff = \"{}s\"", BACKOFF_MS / 1_000)),
            own(Kind::Fail, ""),
            own(Kind::Slow, ""),
            own(Kind::Held, ""),
            own(Kind::Skip, &format!("skip_codes = [{SKIP_CODE}]")),
        ));
    }

    /// Puts a task as any program can, and notes it before and after.
    pub(crate) fn put(&mut self, id: &str, kind: Kind) {
        let asked = Asked { kind, mark: format!("of-{id}"), repeated: false };
        self.story.asked.insert(id.to_owned(), asked.clone());
        self.place.put(
            crate::spool_crash::producers::Way::RenameFromElsewhere,
            &[(id.to_owned(), asked)],
        );
    }

    /// Puts a task that is completed once more, which must come to nothing.
    pub(crate) fn put_again(&mut self, id: &str) {
        let asked = &self.story.asked[id];
        let first = self.place.outbox.join(id);
        self.place.by_rename(&first, &format!("{id}.json"), &text(id, asked));
    }

    /// Puts what can be no task: its name and its id differ.
    pub(crate) fn put_unfit(&mut self, id: &str) {
        let asked = Asked { kind: Kind::Ok, mark: "unfit".to_owned(), repeated: false };
        let name = format!("{id}.json");
        self.story.unfit.insert(name.clone());
        let first = self.place.outbox.join(id);
        self.place.by_rename(&first, &name, &text(&format!("not-{id}"), &asked));
    }

    /// Has the job of the scheduler's drop a task, if anybody answers.
    pub(crate) fn drop_one(&self) {
        self.post(&format!("scheduler/jobs/{JOB}/run"), r#"{"force":false}"#);
    }

    /// Has a task that failed for good start anew, and notes whether anybody said that it will.
    pub(crate) fn retry(&mut self, id: &str) {
        let answered = self.post(&format!("spools/{SPOOL}/tasks/{id}/retry"), "");
        self.story.retried.insert(id.to_owned(), answered);
    }

    /// Asks the daemon for something; whether anybody said that it was done.
    fn post(&self, path: &str, body: &str) -> bool {
        let asked = || -> std::io::Result<String> {
            let mut stream = UnixStream::connect(self.world.state_dir().join("krond.sock"))?;
            let request = format!(
                "POST /api/v1/{path} HTTP/1.1\r\nHost: krond\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        match asked() {
            Ok(answer) if answer.is_empty() => false,
            Ok(answer) => {
                assert!(answer.starts_with("HTTP/1.1 2"), "{path}: {answer}");
                true
            }
            Err(_) => false,
        }
    }

    /// Kills a daemon, and looks at what is left.
    pub(crate) fn kill(&mut self, krond: &mut Krond) {
        process::signal(krond.pid(), Signal::SIGKILL);
        self.died(krond);
    }

    /// A daemon has died, however.
    pub(crate) fn died(&mut self, krond: &mut Krond) {
        krond.wait();
        self.deaths += 1;
        self.glance();
    }

    /// Notes what lies in the directories while no daemon lives.
    pub(crate) fn glance(&mut self) {
        let acks_len = self.acks().len();
        let [pending, running, completed] = DIRECTORIES.map(|directory| self.ids(directory));
        let open = pending.into_iter().chain(running).collect();
        let lines_len = witness::lines(&self.world.witness(FILE)).len();
        self.story.glances.push(Glance { acks_len, lines_len, open, completed });
    }

    /// What was acknowledged so far.
    fn acks(&self) -> Vec<String> {
        let text = read(&self.place.acks).unwrap_or_default();
        // A line that is being written is none yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(str::to_owned).collect()
    }

    /// The ids of the tasks in a directory.
    pub(crate) fn ids(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.place.dir.join("tasks").join(directory)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let names = names.filter(|name| !name.starts_with('.'));
        names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect()
    }

    /// How many tasks wait or run that somebody handles.
    pub(crate) fn open(&self) -> usize {
        let is_handled = |id: &String| match self.story.asked.get(id) {
            Some(asked) => asked.kind != Kind::Nobody,
            None => true,
        };
        let count = |directory| self.ids(directory).into_iter().filter(is_handled).count();
        // Twice, because one may go from the second to the first in between.
        let (before, running) = (count("pending"), count("running"));
        running + before.max(count("pending"))
    }

    /// Whether nothing is left to do: no task waits or runs, no supervisor is left, and every thread
    /// of the daemon's waits for work. Then whatever is handled is completed, and nowhere else.
    pub(crate) fn is_quiet(&self, krond: &Krond) -> bool {
        self.open() == 0
            && process::children(krond.pid()).is_empty()
            && process::is_idle(krond.pid())
    }

    /// Waits until nothing is left to do; whether that came to be before nothing happened for long.
    pub(crate) fn rest(&self, krond: &Krond) -> bool {
        let happened = || (self.open(), witness::lines(&self.world.witness(FILE)).len());
        let (mut last, mut since) = (happened(), now());
        while !self.is_quiet(krond) {
            std::thread::sleep(GLANCE);
            let seen = happened();
            if seen != last {
                (last, since) = (seen, now());
            }
            if now() > since + PATIENCE {
                return false;
            }
        }
        true
    }

    /// Has this daemon die at a call of the spool's keeper.
    pub(crate) fn trap(&self, krond: &Krond, point: &Point) -> Strace {
        let options = inject(&point.call, Signal::SIGKILL, point.number);
        let options = options.each_ref().map(String::as_str);
        let file = self.world.state_dir().with_file_name("trace");
        Strace::attach(&[keeper(krond)], Follow::Nobody, &options, &file)
    }

    /// Waits until a trapped daemon is dead, or kills it when it has nothing left to do; whether it
    /// died in the trap.
    pub(crate) fn spring(&mut self, krond: &mut Krond, strace: Strace) -> bool {
        self.wait_in_trap(krond);
        let sprang = process::has_ended(krond.pid());
        self.kill(krond);
        strace.detach();
        sprang
    }

    /// Waits until a trapped daemon is dead or has nothing left to do.
    pub(crate) fn wait_in_trap(&self, krond: &Krond) {
        eventually("it dies or rests", || {
            (process::has_ended(krond.pid()) || self.is_quiet(krond)).then_some(())
        });
    }

    /// Starts a daemon that dies at a call of its first thread, which puts the spool in order; `None`
    /// when it did, the daemon when it is ready.
    pub(crate) fn start_trapped(&mut self, point: &Point) -> Option<Krond> {
        let options = inject(&point.call, Signal::SIGKILL, point.number);
        let mut krond = self.start_traced(&options);
        loop {
            if process::has_ended(krond.pid()) {
                self.died(&mut krond);
                return None;
            }
            if !krond.events("ready").is_empty() {
                return Some(krond);
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Starts a daemon whose first thread is traced.
    pub(crate) fn start_traced(&self, options: &[String]) -> Krond {
        let own = self.world.command();
        let mut command = Command::new("strace");
        // The tracer is a grandchild, so that the child is the daemon.
        command.arg("-D").arg("-o").arg(self.trace_of_start()).args(options);
        Krond::spawn(command.arg(own.get_program()).args(own.get_args()))
    }

    pub(crate) fn trace_of_start(&self) -> std::path::PathBuf {
        self.world.state_dir().with_file_name("trace-of-start")
    }

    /// The supervisors of handlers that have begun and not ended, with their runs.
    pub(crate) fn supervisors(&self) -> Vec<(i32, String)> {
        let mut open = BTreeSet::new();
        for said in witness::lines(&self.world.witness(FILE)) {
            match said.line {
                Line::Begin { run, .. } => open.insert(run),
                Line::End { run, .. } => open.remove(&run),
                Line::Overlap { .. } => false,
            };
        }
        // Not those of other tests, which may run beside this one.
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let runs = pids.filter_map(|pid| Some((pid, process::run_of(pid)?)));
        runs.filter(|(_, run)| open.contains(run)).collect()
    }

    /// Kills a supervisor and notes whose it was.
    pub(crate) fn kill_supervisor(&mut self, (pid, run): (i32, String)) {
        self.deaths += 1;
        self.story.killed_supervisors.insert(run);
        process::signal(pid, Signal::SIGKILL);
    }

    /// Lets a last daemon finish everything that was begun, and judges what is left.
    pub(crate) fn end(mut self, mut krond: Krond) -> (Story, Vec<Fault>) {
        self.kill(&mut krond);
        self.story.periods = self.executed();
        self.configure(Dropping::Never);
        let krond = self.world.start();
        // Whatever never ends is judged for it.
        self.rest(&krond);
        krond.stop();
        self.story.acks = self.acks();
        self.story.lines = witness::lines(&self.world.witness(FILE));
        for directory in DIRECTORIES {
            for id in self.ids(directory) {
                let path = self.place.dir.join("tasks").join(directory).join(format!("{id}.json"));
                let text = read(&path).unwrap_or_default();
                let json = serde_json::from_str(&text).unwrap_or(Value::Null);
                self.story.files.push(Filed { directory, id, json });
            }
        }
        let rejected = fs::read_dir(self.place.dir.join("rejected")).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = rejected.map(|entry| name(entry).to_string_lossy().into_owned());
        self.story.rejected = names.collect();
        let faults = check(&self.story);
        (self.story, faults)
    }

    /// The periods of the job that are on record as executed.
    pub(crate) fn executed(&self) -> Vec<String> {
        let history = self.world.history(JOB).into_iter();
        let executed = history.filter(|entry| entry["Outcome"] == "executed");
        executed.filter_map(|entry| Some(entry["PeriodID"].as_str()?.to_owned())).collect()
    }
}

/// The thread of a daemon that keeps the spool.
pub(crate) fn keeper(krond: &Krond) -> i32 {
    let named = process::threads_named(krond.pid(), KEEPER);
    named.into_iter().next().expect("a thread keeps the spool")
}

/// Says what was done, and fails with what is wrong.
pub(crate) fn conclude(what: &str, deaths: u64, seconds: u64, story: &Story, faults: &[Fault]) {
    let begun = story.lines.iter().filter(|said| matches!(said.line, Line::Begin { .. })).count();
    let completed = story.files.iter().filter(|filed| filed.directory == "completed").count();
    let number = |field: &str| story.files.iter().filter_map(|it| it.json[field].as_i64()).sum();
    let lost: i64 = number("lostAttempts");
    let line = format!(
        "{what}: {deaths} deaths, {} acknowledged, {} periods, {completed} completed, {begun} \
         begun, {} supervisors killed, {lost} lost ({seconds} s)",
        story.acks.len(),
        story.periods.len(),
        story.killed_supervisors.len(),
    );
    writeln!(std::io::stdout(), "     {line}").expect("written");
    let total = faults.len();
    let faults: Vec<String> = faults.iter().take(FAULTS_SHOWN).map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{line}\n{total} faults:\n{}", faults.join("\n"));
}
