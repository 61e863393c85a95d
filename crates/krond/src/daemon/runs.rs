//! Runs as processes: their sockets, who is still alive, and what they leave behind.
//!
//! A run that this daemon started is known by its control socket. When that closes before the
//! supervisor has said how the run ended, and for every run that an earlier daemon started, the
//! run is over only when the supervisor *and* the command are gone; then what the supervisor left
//! on disk is read. A supervisor that was told to leave is watched until it has left, so that it
//! can be reaped and its record removed after it can write no more.
//!
//! The table makes events out of all that and carries out the machine's orders about runs. It
//! decides nothing. Only supervisors are signalled; a command itself only when it has outlived its
//! supervisor, because nobody else is left to do it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use kron_core::{Category, UtcSecond};
use kron_exec::{Held, Message, Signal, Supervisor};
use kron_queue::ClaimedRun;
use kron_state::{ActiveState, ExitStatus, PeriodRef, Process, RunId, RunRead, RunRecord};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use super::clock;
use super::errand::Launching;
use super::launch::{Nursery, category_of};
use super::logs::ActiveRuns;
use super::poll::{Poll, Token};
use super::spool;
use super::sync_queue::RunOf;
use crate::log::Log;
use crate::machine::{Entry, Event, Launch, Report, StartFailure, Urgency};
use crate::metrics::Metrics;
use crate::queue::{plan as queue_plan, recovery, supervised};

/// All runs that this daemon knows of.
#[derive(Debug)]
pub(super) struct Runs {
    live: HashMap<RunId, Live>,
    tokens: HashMap<Token, (RunId, Watched)>,
    /// Runs whose processes could not be watched when they should have been.
    unwatched: Vec<RunId>,
    unwatched_anew: bool,
    launching_count: usize,
    /// Whether children have ended that could not be reaped yet.
    reap_due: bool,
    boot_id: String,
    active: ActiveRuns,
    nursery: Nursery,
    metrics: Arc<Metrics>,
    log: Log,
}

/// What a descriptor of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Socket,
    Supervisor,
    Command,
}

#[derive(Debug)]
struct Live {
    identity: Arc<str>,
    period: PeriodRef,
    /// When it was due, if it is no run by hand.
    chosen: Option<UtcSecond>,
    /// The boot its processes belong to.
    boot_id: String,
    /// Whether another implementation recorded it: there is no supervisor, and only a number says
    /// which process it is.
    foreign: bool,
    supervisor: Option<Process>,
    command: Option<Process>,
    link: Link,
    /// Whether the command is known to have been executed.
    executed: bool,
    /// How the command ended, where it was reaped here.
    reaped: Option<ExitStatus>,
    /// How soon its end was asked for.
    asked_to_end: Option<Signal>,
    /// Whether the supervisor has said how it ended.
    said_all: bool,
    /// Whether the supervisor may leave something on disk.
    leaves_record: bool,
    /// Set for a run that was given up at its gate: how long ago.
    abandoned: Option<Patience>,
    tokens: Vec<Token>,
}

impl Live {
    /// An entry about something that failed.
    fn failure(&self, event: &'static str, run: &RunId) -> Entry {
        self.named(run).failure(event)
    }

    fn named(&self, run: &RunId) -> RunOf {
        RunOf { run: run.clone(), of: Some((self.identity.clone(), self.period.clone())) }
    }
}

/// How the daemon hears of a run.
#[derive(Debug)]
enum Link {
    /// Not yet: its supervisor is being started.
    Launching(Wanted),
    /// Through its socket.
    Open(Supervisor),
    /// By the end of its processes; `None` for one that is gone.
    Watching { supervisor: Option<Held>, command: Option<Held>, then: Then },
    /// By nothing, for want of descriptors; its processes are to be watched.
    Unwatched(Then),
    /// What it left is being read, or the machine knows all there is.
    Over,
}

/// Whether a run that is being launched is still wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    Abandoned,
    /// Abandoned, and accounted for already.
    Acknowledged,
}

/// How long processes that should be gone are waited for, in rounds of chores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    New,
    Over,
}

/// What happens when the processes are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// What the supervisor left is read and the end reported.
    Report,
    /// The end is reported already; nothing, until it is acknowledged.
    Rest,
    /// The end is recorded already; the run is forgotten.
    Forget,
}

/// What the loop is to do after the table was told something.
#[derive(Debug)]
pub(super) enum Step {
    /// Tell the machine.
    Tell(Event),
    /// Read what the supervisor left.
    Read(RunOf),
    /// Remove what the supervisor left.
    Remove(RunOf),
}

impl Runs {
    pub(super) fn new(
        boot_id: String,
        active: ActiveRuns,
        nursery: Nursery,
        metrics: Arc<Metrics>,
        log: Log,
    ) -> Runs {
        Runs {
            live: HashMap::new(),
            tokens: HashMap::new(),
            unwatched: Vec::new(),
            unwatched_anew: false,
            launching_count: 0,
            reap_due: false,
            boot_id,
            active,
            nursery,
            metrics,
            log,
        }
    }

    /// A supervisor is being started.
    pub(super) fn launching(&mut self, launch: &Launch) {
        self.launching_count += 1;
        let identity = launch.definition.job.identity().into();
        let link = Link::Launching(Wanted::Yes);
        let live = self.insert(launch.run.clone(), identity, launch.period.clone(), link);
        live.chosen = launch.decision.as_ref().map(|_| launch.chosen);
    }

    /// A supervisor is being started for somebody other than the scheduler.
    pub(super) fn launching_other(&mut self, launching: &Launching) {
        self.launching_count += 1;
        let (run, (identity, period)) = match launching {
            Launching::Queued(start) => (start.run.clone(), queued(&start.claimed)),
            Launching::Spooled(launch) => {
                (launch.run.clone(), spool::named(&launch.spool, &launch.found.task.id))
            }
        };
        self.insert(run, identity, period, Link::Launching(Wanted::Yes));
    }

    /// A job of the queue's that an earlier daemon started.
    pub(super) fn adopt_queued(&mut self, poll: &mut Poll, claimed: &ClaimedRun) -> Vec<Step> {
        let (identity, period) = queued(claimed);
        let run = supervised(claimed.run.run_id);
        let live = self.insert(run.clone(), identity, period, Link::Over);
        if let Some(process) = &claimed.run.process {
            live.boot_id.clone_from(&process.boot_id);
            live.supervisor = recovery::local(process);
        }
        live.command = claimed.run.command.as_ref().and_then(recovery::local);
        self.adopt_other(poll, &run)
    }

    /// A task of a spool's that an earlier daemon started.
    pub(super) fn adopt_spooled(&mut self, poll: &mut Poll, adopted: &spool::Adopted) -> Vec<Step> {
        let (identity, period) = spool::named(&adopted.spool, &adopted.task);
        let run = adopted.run.run_id.clone();
        let live = self.insert(run.clone(), identity, period, Link::Over);
        live.boot_id.clone_from(&adopted.run.boot_id);
        live.supervisor = Some(adopted.run.supervisor);
        live.command = Some(adopted.run.command);
        self.adopt_other(poll, &run)
    }

    fn adopt_other(&mut self, poll: &mut Poll, run: &RunId) -> Vec<Step> {
        if let Some(live) = self.live.get_mut(run) {
            live.executed = true;
            live.leaves_record = true;
        }
        self.watch_processes(poll, run, Then::Report)
    }

    fn insert(
        &mut self,
        run: RunId,
        identity: Arc<str>,
        period: PeriodRef,
        link: Link,
    ) -> &mut Live {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone());
        let live = Live {
            identity,
            period,
            chosen: None,
            boot_id: self.boot_id.clone(),
            foreign: false,
            supervisor: None,
            command: None,
            link,
            executed: false,
            reaped: None,
            asked_to_end: None,
            said_all: false,
            leaves_record: false,
            abandoned: None,
            tokens: Vec::new(),
        };
        self.live.entry(run).insert_entry(live).into_mut()
    }

    /// A supervisor was started, or could not be.
    pub(super) fn launched(
        &mut self,
        poll: &mut Poll,
        run: &RunId,
        result: Result<Supervisor, StartFailure>,
    ) -> Vec<Step> {
        self.launching_count = self.launching_count.saturating_sub(1);
        self.reap_if_due();
        let Some(live) = self.live.get_mut(run) else { return Vec::new() };
        let supervisor = match result {
            Ok(supervisor) => supervisor,
            Err(failure) => {
                self.forget(run);
                return vec![Step::Tell(Event::LaunchFailed { run: run.clone(), failure })];
            }
        };
        live.supervisor = Some(supervisor.process());
        if let Link::Launching(wanted @ (Wanted::Abandoned | Wanted::Acknowledged)) = live.link {
            live.link = Link::Open(supervisor);
            let mut steps = self.abandon(poll, run);
            if wanted == Wanted::Acknowledged {
                steps.extend(self.acknowledge(poll, run));
            }
            return steps;
        }
        match poll.watch(&supervisor) {
            Ok(token) => {
                self.tokens.insert(token, (run.clone(), Watched::Socket));
                live.tokens.push(token);
                live.link = Link::Open(supervisor);
                Vec::new()
            }
            Err(errno) => {
                // Without a release it executes nothing, and leaves when its socket closes.
                drop(supervisor);
                self.forget(run);
                let failure = StartFailure {
                    category: Category::System,
                    operation: "watch the supervisor".to_owned(),
                    message: errno.desc().to_owned(),
                };
                vec![Step::Tell(Event::LaunchFailed { run: run.clone(), failure })]
            }
        }
    }

    /// A run that an earlier daemon started.
    pub(super) fn adopt(
        &mut self,
        poll: &mut Poll,
        identity: Arc<str>,
        active: &ActiveState,
    ) -> Vec<Step> {
        let (run, period) = (active.run.clone(), active.period.clone());
        let live = self.insert(run, identity, period, Link::Over);
        live.boot_id.clone_from(&active.boot_id);
        live.foreign = active.is_foreign();
        live.supervisor = (!live.foreign).then_some(active.supervisor);
        live.command = Some(Process { pid: active.pid, start_ticks: active.start_ticks });
        live.executed = active.executed;
        live.leaves_record = true;
        self.watch_processes(poll, &active.run, Then::Report)
    }

    /// Something can be read from a run's descriptor.
    pub(super) fn ready(&mut self, poll: &mut Poll, token: Token) -> Vec<Step> {
        let Some((run, what)) = self.tokens.get(&token).cloned() else { return Vec::new() };
        match what {
            Watched::Socket => self.receive(poll, &run),
            Watched::Supervisor | Watched::Command => self.process_gone(poll, &run, token, what),
        }
    }

    /// Takes one report from a run's socket; there is another wake-up for the next.
    fn receive(&mut self, poll: &mut Poll, run: &RunId) -> Vec<Step> {
        let boot_id = self.boot_id.clone();
        let Some(live) = self.live.get_mut(run) else { return Vec::new() };
        let Link::Open(supervisor) = &live.link else { return Vec::new() };
        let message = match supervisor.receive() {
            Ok(Some(message)) => message,
            Ok(None) => return Vec::new(),
            Err(error) => {
                let entry = live.failure("supervisor_unintelligible", run).error(
                    Category::System,
                    "receive",
                    &error.to_string(),
                );
                self.log.write(&entry);
                Message::Closed
            }
        };
        let told = |event| vec![Step::Tell(event)];
        let run_id = run.clone();
        match message {
            Message::Armed { supervisor, command } => {
                live.supervisor = Some(supervisor);
                live.command = Some(command);
                live.leaves_record = true;
                told(Event::Armed { run: run_id, supervisor, command, boot_id })
            }
            Message::Executing => {
                live.executed = true;
                if let Some(chosen) = live.chosen {
                    self.metrics.executed(clock::since(chosen));
                }
                told(Event::Executing { run: run_id })
            }
            Message::Refused { stage, errno, message } if live.command.is_none() => {
                self.part(poll, run);
                let category = category_of(errno);
                let failure = StartFailure { category, operation: stage, message };
                told(Event::LaunchFailed { run: run_id, failure })
            }
            // It was armed and will not run: that is the same as if it had not been released.
            Message::Refused { stage, errno, message } => {
                live.said_all = true;
                let entry = live.failure("refused_at_gate", run).error(
                    category_of(errno),
                    &stage,
                    &message,
                );
                self.log.write(&entry);
                let report = Report { record: Some(RunRecord::NotReleased), reaped: None };
                told(Event::Ended { run: run_id, report })
            }
            Message::ExecFailed { stage, errno, message } => {
                live.said_all = true;
                let category = category_of(errno);
                let failure = StartFailure { category, operation: stage, message };
                told(Event::ExecFailed { run: run_id, failure })
            }
            Message::Ended(end) => {
                live.said_all = true;
                let report = Report { record: Some(RunRecord::Ended(end)), reaped: None };
                told(Event::Ended { run: run_id, report })
            }
            Message::Closed if live.said_all => {
                // It did not wait to be acknowledged; what it said is recorded all the same.
                self.watch_processes(poll, run, Then::Rest)
            }
            Message::Closed if live.command.is_none() => {
                self.part(poll, run);
                let failure = StartFailure {
                    category: Category::System,
                    operation: "launch".to_owned(),
                    message: "the supervisor ended before the command was ready".to_owned(),
                };
                told(Event::LaunchFailed { run: run_id, failure })
            }
            Message::Closed => self.watch_processes(poll, run, Then::Report),
        }
    }

    /// Lets the command at the gate go.
    pub(super) fn release(&mut self, poll: &mut Poll, run: &RunId) -> Vec<Step> {
        let Some(live) = self.live.get(run) else { return Vec::new() };
        let Link::Open(supervisor) = &live.link else { return Vec::new() };
        let Err(error) = supervisor.release() else { return Vec::new() };
        self.log.write(&live.failure("release_failed", run).error(
            Category::System,
            "release",
            &error.to_string(),
        ));
        // Its supervisor is gone, or the system had no memory for the word. Either way it was not
        // let go: the end of its socket calls it off, and what it leaves says so.
        self.watch_processes(poll, run, Then::Report)
    }

    /// Lets it never go: without its socket the supervisor ends it at the gate. Nobody waits for
    /// that; what it leaves is removed when both are gone.
    pub(super) fn abandon(&mut self, poll: &mut Poll, run: &RunId) -> Vec<Step> {
        let Some(live) = self.live.get_mut(run) else { return Vec::new() };
        match &mut live.link {
            Link::Launching(wanted) => {
                *wanted = Wanted::Abandoned;
                Vec::new()
            }
            Link::Open(_) => {
                live.leaves_record = true;
                live.abandoned = Some(Patience::New);
                self.watch_processes(poll, run, Then::Rest)
            }
            Link::Watching { .. } | Link::Unwatched(_) | Link::Over => Vec::new(),
        }
    }

    /// Asks for the end of a run.
    pub(super) fn end(&mut self, run: &RunId, urgency: Urgency) {
        let signal = match urgency {
            Urgency::Terminate => Signal::Terminate,
            Urgency::Kill => Signal::Kill,
        };
        let Some(live) = self.live.get_mut(run) else { return };
        if live.foreign {
            // The number may be a stranger's by now.
            self.log.write(&live.failure("end_failed", run).error(
                Category::System,
                "signal the command",
                "another implementation started it, so it cannot be told apart from a stranger",
            ));
            return;
        }
        live.asked_to_end = Some(signal);
        let result = match &live.link {
            Link::Open(supervisor) => supervisor.signal(signal),
            Link::Watching { supervisor: Some(held), .. } => held.signal(signal),
            // For want of descriptors it could not be held; perhaps it can be now.
            Link::Unwatched(_) => match live.supervisor {
                Some(supervisor) => Held::open(&live.boot_id, supervisor)
                    .and_then(|held| held.map_or(Ok(false), |held| held.signal(signal))),
                None => return,
            },
            Link::Watching { .. } => return self.end_orphan(run),
            Link::Launching(_) | Link::Over => return,
        };
        if let Err(error) = result {
            self.log.write(&live.failure("end_failed", run).error(
                Category::System,
                "signal the supervisor",
                &error.to_string(),
            ));
        }
    }

    /// Ends a command that has outlived its supervisor, if its end was asked for: the supervisor
    /// may have gone before it could see to that.
    fn end_orphan(&self, run: &RunId) {
        let Some(live) = self.live.get(run) else { return };
        let Link::Watching { supervisor: None, command: Some(command), .. } = &live.link else {
            return;
        };
        let Some(signal) = live.asked_to_end else { return };
        if let Err(error) = command.signal_orphan(signal) {
            self.log.write(&live.failure("end_failed", run).error(
                Category::System,
                "signal the command",
                &error.to_string(),
            ));
        }
    }

    /// The end of the run is durable: its supervisor may leave, and what it left can go.
    pub(super) fn acknowledge(&mut self, poll: &mut Poll, run: &RunId) -> Vec<Step> {
        let Some(live) = self.live.get_mut(run) else { return Vec::new() };
        match &mut live.link {
            Link::Open(supervisor) => {
                // A supervisor that hears it leaves nothing behind.
                live.leaves_record = supervisor.acknowledge().is_err();
                self.watch_processes(poll, run, Then::Forget)
            }
            Link::Watching { then, .. } | Link::Unwatched(then) => {
                *then = Then::Forget;
                Vec::new()
            }
            Link::Launching(wanted) => {
                *wanted = Wanted::Acknowledged;
                Vec::new()
            }
            Link::Over => self.over(run),
        }
    }

    /// The run's period, for as long as the run is known.
    pub(super) fn period(&self, run: &RunId) -> Option<PeriodRef> {
        self.live.get(run).map(|live| live.period.clone())
    }

    /// The run's job, for as long as the run is known.
    pub(super) fn identity(&self, run: &RunId) -> Option<Arc<str>> {
        self.live.get(run).map(|live| live.identity.clone())
    }

    /// What the supervisor left was looked for.
    pub(super) fn read(&mut self, run: &RunId, read: RunRead) -> Vec<Step> {
        let Some(live) = self.live.get(run) else { return Vec::new() };
        let record = match read {
            RunRead::Record(record) => Some(record),
            RunRead::Missing => None,
            RunRead::Unreadable { cause } => {
                self.log.write(&live.failure("run_record_unreadable", run).error(
                    Category::Persistence,
                    "read run record",
                    &cause,
                ));
                None
            }
        };
        // A process that leaves the gate without having executed anything has an exit code too,
        // but not the command's.
        let reaped = live.reaped.filter(|_| live.executed);
        let report = Report { record, reaped };
        vec![Step::Tell(Event::Ended { run: run.clone(), report })]
    }

    /// Goes over from a run's socket, if it is open, to its processes.
    fn watch_processes(&mut self, poll: &mut Poll, run: &RunId, then: Then) -> Vec<Step> {
        let Some(live) = self.live.get_mut(run) else { return Vec::new() };
        let hold = |process: Option<Process>| match process {
            Some(process) if live.foreign => Held::open_by_number(process.pid),
            Some(process) => Held::open(&live.boot_id, process),
            None => Ok(None),
        };
        let held = hold(live.supervisor).and_then(|s| Ok((s, hold(live.command)?)));
        let previous = std::mem::replace(&mut live.link, Link::Over);
        if let Link::Open(supervisor) = previous {
            poll.forget(&supervisor);
            for token in live.tokens.drain(..) {
                self.tokens.remove(&token);
            }
            drop(supervisor);
        }
        let watched = held.map_err(|error| error.to_string()).and_then(|(supervisor, command)| {
            let mut tokens = Vec::new();
            let processes = [(&supervisor, Watched::Supervisor), (&command, Watched::Command)];
            for (held, what) in processes {
                if let Some(held) = held {
                    let token = poll.watch(held).map_err(|errno| errno.desc().to_owned())?;
                    tokens.push((token, (run.clone(), what)));
                }
            }
            Ok((supervisor, command, tokens))
        });
        match watched {
            Ok((supervisor, command, tokens)) => {
                live.tokens.extend(tokens.iter().map(|(token, _)| *token));
                self.tokens.extend(tokens);
                live.link = Link::Watching { supervisor, command, then };
                self.end_orphan(run);
                self.conclude_if_gone(run)
            }
            Err(message) => {
                let entry = live.failure("watch_failed", run).error(
                    Category::System,
                    "watch the run's processes",
                    &message,
                );
                self.log.write(&entry);
                live.link = Link::Unwatched(then);
                self.unwatched_anew = true;
                self.unwatched.push(run.clone());
                Vec::new()
            }
        }
    }

    /// Whether processes have come to wait to be watched since this was last asked.
    pub(super) fn take_unwatched_anew(&mut self) -> bool {
        std::mem::take(&mut self.unwatched_anew)
    }

    /// Kills supervisors that still hang a while after their runs were given up. They cannot have
    /// let their commands go, and a command whose supervisor is gone finds its gate closed.
    pub(super) fn kill_hanging(&mut self) {
        for (run, live) in &mut self.live {
            match &mut live.abandoned {
                None => {}
                Some(patience @ Patience::New) => *patience = Patience::Over,
                Some(Patience::Over) => {
                    let Link::Watching { supervisor: Some(held), .. } = &live.link else {
                        continue;
                    };
                    if let Err(error) = held.kill_at_once() {
                        self.log.write(&live.failure("end_failed", run).error(
                            Category::System,
                            "kill the supervisor",
                            &error.to_string(),
                        ));
                    }
                }
            }
        }
    }

    /// Tries again to watch what could not be watched.
    pub(super) fn watch_again(&mut self, poll: &mut Poll) -> Vec<Step> {
        let mut steps = Vec::new();
        for run in std::mem::take(&mut self.unwatched) {
            if let Some(&Live { link: Link::Unwatched(then), .. }) = self.live.get(&run) {
                steps.extend(self.watch_processes(poll, &run, then));
            }
        }
        steps
    }

    fn process_gone(&mut self, poll: &Poll, run: &RunId, token: Token, what: Watched) -> Vec<Step> {
        self.tokens.remove(&token);
        let Some(live) = self.live.get_mut(run) else { return Vec::new() };
        let Link::Watching { supervisor, command, .. } = &mut live.link else { return Vec::new() };
        let held = match what {
            Watched::Supervisor => supervisor.take(),
            Watched::Command => command.take(),
            Watched::Socket => None,
        };
        if let Some(held) = held {
            poll.forget(&held);
            // Whoever is no child of this process is reaped by another.
            let status = waitid(Id::PIDFd(std::os::fd::AsFd::as_fd(&held)), exited());
            if what == Watched::Command {
                live.reaped = live.reaped.or(status.ok().and_then(exit_status));
            }
        }
        self.end_orphan(run);
        self.conclude_if_gone(run)
    }

    /// A run whose processes are both gone is over.
    fn conclude_if_gone(&mut self, run: &RunId) -> Vec<Step> {
        let Some(live) = self.live.get_mut(run) else { return Vec::new() };
        let Link::Watching { supervisor: None, command: None, then } = live.link else {
            return Vec::new();
        };
        live.link = Link::Over;
        match then {
            Then::Report => vec![Step::Read(live.named(run))],
            Then::Rest => Vec::new(),
            Then::Forget => self.over(run),
        }
    }

    /// Nobody needs to know about the run any more.
    fn over(&mut self, run: &RunId) -> Vec<Step> {
        let left = self.live.get(run).filter(|live| live.leaves_record);
        let steps = left.map(|live| Step::Remove(live.named(run))).into_iter().collect();
        self.forget(run);
        steps
    }

    /// Closes a run's socket and forgets it.
    fn part(&mut self, poll: &Poll, run: &RunId) {
        if let Some(Live { link: Link::Open(supervisor), .. }) = self.live.get(run) {
            poll.forget(supervisor);
        }
        self.forget(run);
    }

    fn forget(&mut self, run: &RunId) {
        for token in self.live.remove(run).into_iter().flat_map(|live| live.tokens) {
            self.tokens.remove(&token);
        }
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }

    /// Reaps children that have ended, if that had to wait.
    pub(super) fn reap_if_due(&mut self) {
        if self.reap_due {
            self.reap();
        }
    }

    /// Reaps children that have ended: supervisors, and what commands left behind. While one is
    /// being launched its number is not known here yet and it must not vanish, so that waits.
    pub(super) fn reap(&mut self) {
        let nursery = self.nursery.clone();
        let alone = nursery.try_write();
        self.reap_due = self.launching_count > 0 || alone.is_err();
        while !self.reap_due {
            let Ok(Some(pid)) =
                waitid(Id::All, exited() | WaitPidFlag::WNOWAIT).map(|status| status.pid())
            else {
                return;
            };
            // An orphaned command is looked at before it is reaped, while its number is its own.
            let orphan = self.live.values_mut().find(|live| {
                live.command.is_some_and(|command| {
                    command.pid == pid.as_raw()
                        && matches!(Held::open(&live.boot_id, command), Ok(Some(_)))
                })
            });
            let status = waitid(Id::Pid(pid), exited());
            if let (Some(live), Ok(status)) = (orphan, status) {
                live.reaped = live.reaped.or(exit_status(status));
            }
        }
    }
}

/// What a run of the queue's is called among the scheduler's.
fn queued(claimed: &ClaimedRun) -> (Arc<str>, PeriodRef) {
    let identity = queue_plan::identity(&claimed.job.job_type).into();
    (identity, PeriodRef::Manual(claimed.job.job_id.to_string().into()))
}

fn exited() -> WaitPidFlag {
    WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG
}

fn exit_status(status: WaitStatus) -> Option<ExitStatus> {
    match status {
        WaitStatus::Exited(_, code) => Some(ExitStatus::ExitCode(code)),
        WaitStatus::Signaled(_, signal, _) => Some(ExitStatus::Signal(signal as i32)),
        _ => None,
    }
}
