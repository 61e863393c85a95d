//! One job, due once, and a blow at a system call on its way.
//!
//! [`Scene::set`] starts a daemon whose only job falls due in a moment; [`Scene::trap`] attaches a
//! tracer to the thread or process that is to be struck; [`Scene::strike`] waits for the blow and
//! deals the others theirs; then another daemon finds what is left, and the story is judged.
//!
//! The job's command waits for a permit, which it gets when its start is recorded and the daemon
//! rests, so that one step of the daemon's never meets another by chance.

use std::fmt;
use std::time::Duration;

use kron_testkit::files::read;
use kron_testkit::krond::{Krond, seldom, wait_for_permit};
use kron_testkit::process;
use kron_testkit::strace::{Follow, Strace, inject};
use kron_testkit::waiting::{GLANCE, PATIENCE, eventually, now};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::crash::checker::{
    Fault, Job, Overlap, Periods, exit_code, history, is_final, period_of,
};
use crate::crash::chronicle::Chronicle;
use crate::crash::civil;
use crate::crash::witness::{self, wall};
use crate::{Past, write_empty_document};

/// The only job's identity.
pub(crate) const JOB: &str = "once";
/// The file that its command waits for.
const PERMIT: &str = "permit";
/// How long before the job falls due the tracer must be there.
const MARGIN: Duration = Duration::from_millis(50);
/// The least time for the tracer to attach, at first; each further attempt has twice as many more
/// seconds.
const LEAD: Duration = Duration::from_millis(500);
const ATTEMPTS: u32 = 7;

/// Whose calls are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// The daemon's thread that decides.
    Loop,
    /// Its thread that writes state.
    Sync,
    /// Its threads that start supervisors.
    Launch,
    /// Its thread that removes old logs.
    Retention,
    /// A process on its way to become a supervisor.
    Spawn,
    Supervisor,
    /// The command's process, up to its execution.
    Command,
    /// Any thread of the daemon's, from its very start, each counting for itself.
    Daemon,
}

impl Who {
    /// The name of the daemon's threads that are meant.
    fn thread(self) -> Option<&'static str> {
        match self {
            Who::Loop => Some("krond"),
            Who::Sync => Some("sync-"),
            Who::Launch => Some("launch-"),
            Who::Retention => Some("log-retention"),
            Who::Spawn | Who::Supervisor | Who::Command | Who::Daemon => None,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Who::Loop => "loop",
            Who::Sync => "sync",
            Who::Launch => "launch",
            Who::Retention => "retention",
            Who::Spawn => "spawn",
            Who::Supervisor => "supervisor",
            Who::Command => "command",
            Who::Daemon => "daemon",
        })
    }
}

/// A system call of somebody's.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) who: Who,
    pub(crate) call: String,
    /// Which call of this name it is, counted from 1.
    pub(crate) number: usize,
    /// Whether every run makes it: at least so many calls of this name in the list depend on nothing
    /// but what is done.
    pub(crate) is_certain: bool,
    /// Whether files or other processes are not the same before it and after it.
    pub(crate) is_decisive: bool,
    /// The past of the job in whose run it is.
    pub(crate) past: Past,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.who, self.call, self.number)
    }
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The one whose call it is, before the call happens.
    Victim,
    /// Everybody, as when the power goes: the one whose call it is has just made it and gets no
    /// further; the others are where they happen to be, and hear nothing of it.
    Everybody,
}

/// When the next daemon is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    AtOnce,
    /// When it is too late for the period.
    PastDeadline,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Came {
    /// Executed by the first attempt, its exit code known.
    Executed,
    /// Executed by a later attempt, its exit code known.
    Retried,
    /// Not executed, and recorded as missed.
    Missed,
    /// Executed and seen to be killed.
    Signalled,
    /// Recorded as executed, its end unknown.
    Lost,
    /// The call was not made this time.
    NotReached,
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Came::Executed => "executed",
            Came::Retried => "executed at a later attempt",
            Came::Missed => "missed",
            Came::Signalled => "killed",
            Came::Lost => "lost",
            Came::NotReached => "not reached",
        })
    }
}

/// The tracer was not there in time.
pub(crate) struct TooLate;

/// A daemon whose only job falls due in a moment.
pub(crate) struct Scene {
    pub(crate) chronicle: Chronicle,
    pub(crate) krond: Krond,
    pub(crate) due: i64,
}

impl Scene {
    /// Starts the daemon and gives it its job, which falls due some time after `lead`. A job that was
    /// known before has skipped what it was told too late, and that would be in its history.
    fn set(past: Past, deadline_s: i64, lead: Duration) -> Result<Scene, TooLate> {
        let mut chronicle = Chronicle::new(Vec::new(), "");
        if past == Past::Known {
            chronicle.world.configure(&configuration(seldom(), deadline_s));
            write_empty_document(&chronicle.world, JOB);
        }
        let krond = chronicle.start();
        let world = &chronicle.world;
        let loaded = |schedule: &str| configuration(schedule, deadline_s);
        let at = wall();
        let lead_s = (at + lead).as_secs() - at.as_secs() + 1;
        let due = world.load_due_in(lead_s, JOB, loaded).ok_or(TooLate)?;
        let due = civil::parse(&due).expect("a time");
        // A job that is not known yet is new to the next daemon, which leaves what fell due before.
        let known = world.state_dir().join("known.json");
        eventually("the job is known", || {
            read(&known)?.contains(&format!("\"{JOB}\"")).then_some(())
        });
        // Calls are counted from the same one each time.
        process::wait_until_idle(krond.pid());
        let job = Job {
            identity: JOB.to_owned(),
            periods: Periods::Once(due),
            deadline_s,
            overlap: Overlap::Forbid,
        };
        chronicle.story.jobs.push(job);
        Ok(Scene { chronicle, krond, due })
    }

    /// Sets a scene with a new job and prepares it, again and with more time if that took too long.
    pub(crate) fn prepared<T>(
        deadline_s: i64,
        prepare: impl Fn(&Scene) -> Result<T, TooLate>,
    ) -> (Scene, T) {
        Scene::prepared_with(Past::New, deadline_s, prepare)
    }

    /// As [`Scene::prepared`], with a job that has this past.
    pub(crate) fn prepared_with<T>(
        past: Past,
        deadline_s: i64,
        prepare: impl Fn(&Scene) -> Result<T, TooLate>,
    ) -> (Scene, T) {
        for attempt in 0..ATTEMPTS {
            let more = Duration::from_secs((1 << attempt) - 1);
            let Ok(scene) = Scene::set(past, deadline_s, LEAD + more) else { continue };
            if let Ok(prepared) = prepare(&scene) {
                return (scene, prepared);
            }
        }
        panic!("no tracer was attached in time");
    }

    /// Whether the job has still to fall due.
    pub(crate) fn in_time(&self) -> Result<(), TooLate> {
        let due = Duration::from_secs(self.due as u64);
        if wall() + MARGIN < due { Ok(()) } else { Err(TooLate) }
    }

    pub(crate) fn trace_file(&self, name: &str) -> std::path::PathBuf {
        self.chronicle.world.state_dir().with_file_name(name)
    }

    /// The daemon's threads that are meant.
    pub(crate) fn tids(&self, who: Who) -> Vec<i32> {
        let prefix = who.thread().expect("a thread of the daemon's");
        process::threads_named(self.krond.pid(), prefix)
    }

    /// Attaches a tracer with these options to whoever is meant. Those that do not exist yet are
    /// waited for, and are traced from their first call on, or in the case of a command's process
    /// from its third.
    pub(crate) fn trace(&self, who: Who, options: &[&str]) -> Result<(Strace, i32), TooLate> {
        let file = self.trace_file("trace");
        if who.thread().is_some() {
            let strace = Strace::attach(&self.tids(who), Follow::Nobody, options, &file);
            self.in_time()?;
            return Ok((strace, self.krond.pid()));
        }
        if who == Who::Spawn {
            let daemon = self.krond.pid();
            let strace = Strace::attach(&[daemon], Follow::Children, options, &file);
            self.in_time()?;
            return Ok((strace, daemon));
        }
        // Nobody but a supervisor executes anything, and nobody but a command's process, which is
        // forked from its supervisor, duplicates descriptors.
        let mut pid = self.arrest_supervisor()?;
        if who == Who::Command {
            let arrest = self.stop_child_at(pid, "/^dup[23]$", "arrest-command");
            process::signal(pid, Signal::SIGCONT);
            pid = self.arrested_child(pid, arrest);
        }
        let strace = Strace::attach(&[pid], Follow::Nobody, options, &file);
        process::signal(pid, Signal::SIGCONT);
        Ok((strace, pid))
    }

    /// The job's supervisor, stopped before it has made a call of its own.
    pub(crate) fn arrest_supervisor(&self) -> Result<i32, TooLate> {
        let arrest = self.stop_child_at(self.krond.pid(), "execve", "arrest");
        self.in_time()?;
        Ok(self.arrested_child(self.krond.pid(), arrest))
    }

    fn stop_child_at(&self, parent: i32, call: &str, name: &str) -> Strace {
        let options = inject(call, Signal::SIGSTOP, 1);
        let options = options.each_ref().map(String::as_str);
        Strace::attach(&[parent], Follow::Children, &options, &self.trace_file(name))
    }

    /// The child that a tracer stopped, without that tracer.
    fn arrested_child(&self, parent: i32, arrest: Strace) -> i32 {
        let child = eventually("a child is stopped", || {
            process::children(parent).first().copied().filter(|pid| arrest.saw_stop_of(*pid))
        });
        arrest.detach();
        eventually("it stays stopped", || process::is_stopped(child).then_some(()));
        child
    }

    /// Attaches the tracer that deals the blow.
    pub(crate) fn trap(&self, point: &Point, blow: Blow) -> Result<Trap, TooLate> {
        let signal = match blow {
            Blow::Victim => Signal::SIGKILL,
            Blow::Everybody => Signal::SIGSTOP,
        };
        let options = inject(&point.call, signal, point.number);
        let options = options.each_ref().map(String::as_str);
        let (strace, victim) = self.trace(point.who, &options)?;
        let run = process::run_of(victim);
        Ok(Trap { who: point.who, blow, strace, victim, run })
    }

    /// Waits for the blow and deals the others theirs; whether it came.
    pub(crate) fn strike(&mut self, trap: Trap) -> bool {
        let Trap { who, blow, strace, victim, run } = trap;
        let deadline = now() + PATIENCE;
        let has_come = || strace.saw_kill() || blow == Blow::Everybody && strace.saw_stop();
        while !has_come() {
            if self.is_over() || now() > deadline {
                // It may have come with the very last call, and its tracer may be about to say so.
                strace.catch_up();
                if has_come() {
                    break;
                }
                return false;
            }
            std::thread::sleep(GLANCE);
        }
        let story = &mut self.chronicle.story;
        match (blow, who) {
            (Blow::Victim, Who::Supervisor) => story.killed_supervisors.extend(run),
            (Blow::Victim, Who::Command) => {
                story.killed_commands.insert(victim);
            }
            (Blow::Victim, Who::Spawn) => {}
            (Blow::Victim, _) => self.wait_for_every_thread(),
            // Whoever was stopped stays so until all the others are dead.
            (Blow::Everybody, Who::Supervisor) => {
                self.kill_daemon();
                self.chronicle.kill_runs(&[victim]);
            }
            (Blow::Everybody, _) => {
                let supervisors = process::supervisors(self.krond.pid());
                let pids: Vec<i32> = supervisors.into_iter().map(|(pid, _)| pid).collect();
                self.chronicle.kill_runs(&pids);
                self.kill_daemon();
            }
        }
        true
    }

    pub(crate) fn kill_daemon(&self) {
        process::signal(self.krond.pid(), Signal::SIGKILL);
        self.wait_for_every_thread();
    }

    /// Waits until every thread of the daemon has ended. Its first thread may have while another is
    /// in a call that no signal interrupts, such as `fsync`: that one still changes files, and keeps
    /// the daemon's lock.
    fn wait_for_every_thread(&self) {
        let daemon = Pid::from_raw(self.krond.pid());
        // Its end stays to be seen by [`Krond::wait`].
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        eventually("every thread of the daemon ends", || {
            let ended = match waitid(Id::Pid(daemon), flags) {
                Ok(WaitStatus::StillAlive) => false,
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(Errno::ECHILD) => true,
                other => panic!("{other:?}"),
            };
            ended.then_some(())
        });
    }

    /// Lets the command come to its end once its start is recorded, or its supervisor is gone and
    /// will not say that it started, and the daemon rests.
    fn permit_in_time(&self) {
        let world = &self.chronicle.world;
        let about = |value: &serde_json::Value| period_of(value) == Some(self.due);
        let document = world.document(JOB);
        let supervisor = document["ActiveExecution"]["Supervisor"]["PID"].as_i64();
        let is_alone = || supervisor.is_some_and(|pid| process::has_ended(pid as i32));
        if !world.witness(PERMIT).exists()
            && (history(&document).iter().any(about) || is_alone())
            && process::is_idle(self.krond.pid())
        {
            self.permit();
        }
    }

    pub(crate) fn permit(&self) {
        self.chronicle.world.permit(PERMIT);
    }

    /// Whether the period has its outcome and nothing is active.
    fn is_settled(&self) -> bool {
        let document = self.chronicle.world.document(JOB);
        let about = |value: &&serde_json::Value| period_of(value) == Some(self.due);
        document["ActiveExecution"].is_null()
            && history(&document).iter().find(about).is_some_and(is_final)
    }

    /// Whether everything has happened: the period has its outcome, no supervisor is left, and
    /// every thread of the daemon's waits for work.
    pub(crate) fn is_over(&self) -> bool {
        self.permit_in_time();
        self.is_settled()
            && process::children(self.krond.pid()).is_empty()
            && process::is_idle(self.krond.pid())
    }

    fn settle(&self) {
        let deadline = now() + PATIENCE;
        // Whoever never settles is judged for it.
        while !self.is_over() && now() < deadline {
            std::thread::sleep(GLANCE);
        }
    }

    /// Lets the daemon finish if it lives, ends it, and lets another one finish and stop.
    pub(crate) fn recover(&mut self, restart: Restart) {
        if !process::has_ended(self.krond.pid()) {
            self.settle();
            process::signal(self.krond.pid(), Signal::SIGKILL);
        }
        self.krond.wait();
        self.permit();
        if restart == Restart::PastDeadline {
            self.pass_deadline();
        }
        self.krond = self.chronicle.start();
        self.settle();
        self.krond.signal(Signal::SIGTERM);
        let status = self.krond.wait();
        assert_eq!(status.code(), Some(0), "{}", self.krond.said.join("\n"));
    }

    /// Makes it too late for the period: the job's deadline ends with its second. A deadline may be
    /// changed without a change of the job's periods.
    fn pass_deadline(&mut self) {
        self.chronicle.story.jobs[0].deadline_s = 0;
        let of_day = self.due % 86_400;
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        let schedule = format!("{second} {minute} {hour} * * *");
        self.chronicle.world.configure(&configuration(&schedule, 0));
        eventually("the deadline is over", || {
            (wall() >= Duration::from_secs(self.due as u64 + 1)).then_some(())
        });
    }

    /// As [`Scene::judge`], for a blow that may not have come.
    pub(crate) fn judge_if(&mut self, reached: bool) -> (Came, Vec<Fault>) {
        let (came, faults) = self.judge();
        (if reached { came } else { Came::NotReached }, faults)
    }

    /// What came of it, and what is wrong with it.
    pub(crate) fn judge(&mut self) -> (Came, Vec<Fault>) {
        let faults = self.chronicle.judge(self.due);
        let story = &self.chronicle.story;
        let entries = history(&story.documents[JOB]);
        let entry = entries.iter().find(|entry| period_of(entry) == Some(self.due));
        let entry = entry.unwrap_or(&serde_json::Value::Null);
        let run = entry["RunID"].as_str().unwrap_or_default();
        let pid = story.witnesses.first().map(|witness| witness.pid);
        let forked = story.witnesses.first().and_then(|witness| witness.forked_since_boot);
        let again = story.lives.get(1).is_some_and(|life| forked >= Some(life.since_boot))
            || story.killed_supervisors.iter().any(|killed| killed != run)
            || story.killed_commands.iter().any(|killed| pid != Some(*killed));
        let came = match (entry["Outcome"].as_str(), entry["ExitCode"].as_i64()) {
            (Some("executed"), Some(code)) if code == exit_code(self.due) => {
                if again {
                    Came::Retried
                } else {
                    Came::Executed
                }
            }
            (Some("executed"), _) if entry["Signal"] == 9 => Came::Signalled,
            (Some("executed"), _) => Came::Lost,
            _ => Came::Missed,
        };
        (came, faults)
    }
}

/// The only job, with a schedule that falls due once a day.
fn configuration(schedule: &str, deadline_s: i64) -> String {
    let command = witness::command(&wait_for_permit(PERMIT));
    format!(
        "[job.{JOB}]\n\
         schedule = \"{schedule} @policy(deadline={deadline_s}s)\"\n\
         command = '''{command}'''\n\
         shell = true\n"
    )
}

/// A blow about to be dealt.
pub(crate) struct Trap {
    who: Who,
    blow: Blow,
    strace: Strace,
    victim: i32,
    /// The run that the victim supervises.
    run: Option<String>,
}
