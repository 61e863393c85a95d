//! The loop: take one event, let the machine handle it, carry out what it asks for.
//!
//! This thread alone decides, and it never waits for anything but the next event: disks, users and
//! processes are other threads' business, whose results come back as events.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use kron_core::Category;
use kron_queue::Recovered;
use kron_state::{Epoch, RunId};
use nix::sys::signal::Signal;
use tokio::sync::{mpsc as tokio_mpsc, oneshot};

use super::clock;
use super::errand::Errand;
use super::handle::{ReloadFailure, ReloadView, Shared};
use super::hooks::{Hooks, Telling};
use super::inbox::{Arrived, Asked, Done, Inbox, NewDefinitions, WriteFailure};
use super::launch::Launchers;
use super::logs::Task;
use super::notify;
use super::poll::{Poll, Ready};
use super::queue::QueueWorks;
use super::reload;
use super::runs::{Runs, Step};
use super::socket::SocketFile;
use super::spool::{Adopted, SpoolWorks};
use super::sync::SyncPool;
use super::sync_queue::Order;
use crate::log::Log;
use crate::machine::{
    Action, Entry, Event, ExitReason, Launch, Level, Machine, Now, Reply, Request, RequestId,
    StartFailure, StopMode, Ticket,
};
use crate::queue::time::Believed;

/// How often a sign of life is left, and chores are looked after. It only dates a crash for
/// `kron why`; nothing that is due waits for it.
const CHORES_INTERVAL: Duration = Duration::from_secs(60);
/// How soon processes are looked for again that could not be watched.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(1);
/// How often the logs of all jobs are tidied up.
const TIDY_INTERVAL: Duration = Duration::from_secs(86_400);
/// Things taken out of the inbox before the clock and the signals are looked at again.
const INBOX_BATCH: usize = 256;
/// Names a failure that no write of the machine's waits for; the machine counts from 1.
pub(super) const NO_TICKET: Ticket = Ticket(0);

/// Everything the loop has its hands on.
#[derive(Debug)]
pub(super) struct EventLoop {
    pub(super) machine: Machine,
    pub(super) poll: Poll,
    pub(super) inbox: Inbox,
    pub(super) runs: Runs,
    pub(super) sync: SyncPool,
    pub(super) launchers: Launchers,
    pub(super) hooks: Hooks,
    pub(super) retention: mpsc::Sender<Task>,
    pub(super) reloads: tokio_mpsc::Sender<reload::Order>,
    pub(super) shared: Arc<Shared>,
    pub(super) socket: SocketFile,
    pub(super) queue: Option<QueueWorks>,
    pub(super) spools: SpoolWorks,
    /// The time as the queue and the spools believe it.
    pub(super) believed: Arc<Believed>,
    pub(super) log: Log,
    pub(super) own: Own,
}

/// What the loop keeps for itself.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// What has happened and was not handled yet.
    events: VecDeque<Event>,
    waiting: HashMap<RequestId, Waiter>,
    next_request: u64,
    alive_at: Duration,
    tidied_at: Option<Duration>,
    interrupted: bool,
    /// Whether definitions were loaded since memory was last given back.
    has_loaded: bool,
    exit: Option<ExitReason>,
    /// Whether the queue or a spool has something against leaving.
    others_busy: bool,
}

/// Who waits for a reply.
#[derive(Debug)]
enum Waiter {
    Request(oneshot::Sender<Reply>),
    Reload(oneshot::Sender<Result<ReloadView, ReloadFailure>>, ReloadView),
}

impl Own {
    /// For a daemon that has left its first sign of life.
    pub(super) fn alive_since(boot: Duration) -> Own {
        Own { alive_at: boot, ..Own::default() }
    }
}

impl EventLoop {
    /// Runs until the machine wants to leave.
    ///
    /// # Errors
    /// When the system refuses to let the loop wait.
    pub(super) fn run(&mut self) -> nix::Result<ExitReason> {
        loop {
            if let Some(reason) = self.own.exit.take() {
                return Ok(reason);
            }
            if let Some(event) = self.next_event()? {
                let now = clock::now();
                let actions = self.machine.handle(now, event);
                // Before anybody hears of a stop: no job is taken after that.
                self.stop_others();
                self.perform(now, actions);
            }
            self.run_others();
        }
    }

    /// Lets the queue and the spools know how the daemon is stopping, if it is.
    fn stop_others(&mut self) {
        if let Some(mode) = self.machine.stopping() {
            if let Some(queue) = &mut self.queue {
                queue.stop(mode, self.shared.queue.as_ref());
            }
            self.spools.stop(mode);
        }
    }

    /// Lets the queue and the spools go on, and does for them what only the loop can.
    pub(super) fn run_others(&mut self) {
        self.believed.set_held(self.machine.is_clock_held());
        match self.machine.stopping() {
            Some(_) => {
                let may_leave = self.queue.as_ref().is_none_or(QueueWorks::may_leave);
                if may_leave && self.spools.may_leave() && std::mem::take(&mut self.own.others_busy)
                {
                    self.machine.set_others_busy(false);
                    let synchronised = kron_exec::clock_is_synchronised();
                    self.own.events.push_back(Event::Tick { synchronised });
                }
            }
            None if !self.own.others_busy && (self.queue.is_some() || !self.spools.is_empty()) => {
                self.own.others_busy = true;
                self.machine.set_others_busy(true);
            }
            None => {}
        }
        let settings = self.shared.settings();
        let mut errands = self.spools.work();
        errands.extend(self.queue.iter_mut().flat_map(|queue| queue.work(&settings)));
        for errand in errands {
            self.carry_out(errand);
        }
    }

    fn carry_out(&mut self, errand: Errand) {
        match errand {
            Errand::Launch(launching) => {
                self.runs.launching_other(&launching);
                self.launchers.order_other(launching, self.shared.settings());
            }
            Errand::LetGo(run) => {
                let steps = self.runs.release(&mut self.poll, &run);
                self.walk(steps);
            }
            Errand::Abandon(run) => {
                let steps = self.runs.abandon(&mut self.poll, &run);
                self.walk(steps);
            }
            Errand::End(run, urgency) => self.runs.end(&run, urgency),
            Errand::Acknowledge(run) => {
                let steps = self.runs.acknowledge(&mut self.poll, &run);
                self.walk(steps);
            }
            Errand::Tell(event) => self.own.events.push_back(event),
        }
    }

    /// Goes on with the queue's runs that an earlier daemon began.
    pub(super) fn resume_queue(&mut self, recovered: Recovered) {
        let mut early = Vec::new();
        for claimed in &recovered.adopted {
            early.extend(self.runs.adopt_queued(&mut self.poll, claimed));
        }
        if let Some(queue) = &mut self.queue {
            queue.resume(recovered);
        }
        // Only now does the dispatcher know whose these are.
        self.walk(early);
        self.run_others();
    }

    /// Goes on with a spool's runs that an earlier daemon began; its attendant knows them already.
    pub(super) fn resume_spooled(&mut self, adopted: &[Adopted]) {
        for adopted in adopted {
            let steps = self.runs.adopt_spooled(&mut self.poll, adopted);
            self.walk(steps);
        }
    }

    /// Lets go of everything but the control socket's file.
    pub(super) fn into_socket(self) -> SocketFile {
        self.socket
    }

    /// The next thing that has happened to the machine, after sleeping until something does.
    fn next_event(&mut self) -> nix::Result<Option<Event>> {
        if let Some(event) = self.own.events.pop_front() {
            return Ok(Some(event));
        }
        if std::mem::take(&mut self.own.has_loaded) {
            kron_exec::give_back_memory();
        }
        if self.runs.take_unwatched_anew() {
            self.poll.arm_chores(UNWATCHED_INTERVAL)?;
        }
        let now = clock::now();
        self.poll.arm(now, self.machine.next_wakeup())?;
        let others = self.queue.as_ref().map(QueueWorks::sleep);
        if let Some(sleep) = others.into_iter().chain(self.spools.sleep()).min() {
            self.poll.arm_others(sleep)?;
        }
        for ready in self.poll.wait()? {
            self.take(ready)?;
        }
        // Looked into whatever woke the loop: a call that was missed costs a minute at most.
        self.open_inbox();
        self.show_life();
        Ok(self.own.events.pop_front())
    }

    /// Turns what woke the loop into events.
    fn take(&mut self, ready: Ready) -> nix::Result<()> {
        match ready {
            Ready::Wall | Ready::Boot => {
                let synchronised = kron_exec::clock_is_synchronised();
                self.own.events.push_back(Event::Tick { synchronised });
                // The clock may have been set.
                self.tick_others();
            }
            Ready::Others => self.tick_others(),
            Ready::Spools => self.spools.watched(),
            Ready::Chores => self.chores()?,
            Ready::Signals => {
                while let Some(signal) = self.poll.signal() {
                    self.signalled(signal);
                }
            }
            Ready::Inbox => self.inbox.wake.hush(),
            Ready::Run(token) => {
                let steps = self.runs.ready(&mut self.poll, token);
                self.walk(steps);
            }
        }
        Ok(())
    }

    fn tick_others(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.tick();
        }
        self.spools.tick();
    }

    fn signalled(&mut self, signal: Signal) {
        let mode = match signal {
            Signal::SIGTERM => StopMode::Leave,
            Signal::SIGINT if self.own.interrupted => StopMode::Kill,
            Signal::SIGINT => {
                self.own.interrupted = true;
                StopMode::Wait
            }
            Signal::SIGHUP => {
                // When the queue is full, definitions are read again after this signal anyway.
                let _ = self.reloads.try_send(reload::Order { origin: reload::Origin::Signal });
                return;
            }
            _ => {
                self.runs.reap();
                return;
            }
        };
        self.announce_stop();
        self.own.events.push_back(Event::Stop(mode));
    }

    fn announce_stop(&self) {
        self.sync.hurry();
        if let Err(error) = notify::tell(notify::State::Stopping) {
            self.log.write(&Entry::new(Level::Warn, "notify_failed").error(
                Category::System,
                "tell the service manager",
                &error.to_string(),
            ));
        }
    }

    fn open_inbox(&mut self) {
        for _ in 0..INBOX_BATCH {
            match self.inbox.take() {
                None => return,
                Some(Arrived::Done(done)) => self.done(done),
                Some(Arrived::Asked(Asked { request, reply })) => {
                    if matches!(request, Request::Stop(_)) {
                        self.announce_stop();
                    }
                    let id = self.wait_for(Waiter::Request(reply));
                    self.own.events.push_back(Event::Request { id, request });
                }
            }
        }
        self.inbox.wake.up();
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Launched { run, result } => {
                let steps = self.runs.launched(&mut self.poll, &run, result);
                self.walk(steps);
            }
            Done::Synced { tickets, result: Ok(()) } => {
                self.own.events.extend(tickets.into_iter().map(Event::Durable));
            }
            Done::Synced { tickets, result: Err(WriteFailure { identity, period, message }) } => {
                let ticket = tickets.first().copied().unwrap_or(NO_TICKET);
                let operation = "write state";
                let event = Event::NotDurable { ticket, operation, identity, period, message };
                self.own.events.push_back(event);
            }
            Done::RunRead { run, result: Ok(read) } => {
                let steps = self.runs.read(&run, read);
                self.walk(steps);
            }
            // How the run ended may be there, and must not be recorded as lost: the next daemon
            // looks again.
            Done::RunRead { run, result: Err(message) } => {
                let (ticket, identity) = (NO_TICKET, self.runs.identity(&run));
                let (operation, period) = ("read run record", self.runs.period(&run));
                let event = Event::NotDurable { ticket, operation, identity, period, message };
                self.own.events.push_back(event);
            }
            Done::Told { id, result } => {
                self.runs.reap_if_due();
                if result.is_err() {
                    self.shared.metrics.hook_failures.fetch_add(1, Ordering::Relaxed);
                }
                self.own.events.push_back(Event::Delivered { id, result });
            }
            Done::HandedOver { run, result } => {
                self.own.events.push_back(match result {
                    Ok(to) => Event::HandedOver { run, to },
                    Err(failure) => Event::LaunchFailed { run, failure },
                });
            }
            Done::Queue(done) => {
                if let Some(queue) = &mut self.queue {
                    queue.done(done);
                }
            }
            Done::Spool(number, done) => {
                let adopted = self.spools.done(number, done);
                self.resume_spooled(&adopted);
            }
            Done::Loaded(new) => self.loaded(*new),
        }
    }

    fn loaded(&mut self, new: NewDefinitions) {
        let is_other = self.shared.settings().socket_group != new.settings.socket_group;
        if is_other && let Err(error) = new.socket_group.and_then(|group| self.socket.admit(group))
        {
            self.log.write(&Entry::new(Level::Error, "socket_group_failed").error(
                Category::System,
                "set the group of the control socket",
                &crate::log::told(&error),
            ));
        }
        self.shared.store.set_history_max(new.settings.history_entries_max as usize);
        match new.token {
            Ok(token) => self.shared.set_token(token),
            Err(message) => self.log.write(&Entry::new(Level::Error, "token_unchanged").error(
                Category::Configuration,
                "read the token",
                &format!("{message}; the old one stays in force"),
            )),
        }
        match (&mut self.queue, &new.settings.queue) {
            (Some(queue), Some(settings)) => queue.reconfigure(settings),
            (None, None) => {}
            (Some(_), None) | (None, Some(_)) => self.log.write(
                &Entry::new(Level::Warn, "queue_unchanged")
                    .with("message", "whether there is a queue changes with the next start"),
            ),
        }
        self.spools.reconfigure(&new.settings.spools);
        self.shared.set_settings(new.settings);
        let view = ReloadView { job_count: new.jobs.len(), diagnostics: new.diagnostics };
        let request = new.reply.map(|reply| self.wait_for(Waiter::Reload(reply, view)));
        self.own.events.push_back(Event::Hooks(self.shared.settings().hooks.clone()));
        self.own.events.push_back(Event::Load { jobs: new.jobs, request });
        self.own.has_loaded = true;
    }

    fn wait_for(&mut self, waiter: Waiter) -> RequestId {
        self.own.next_request += 1;
        let id = RequestId(self.own.next_request);
        self.own.waiting.insert(id, waiter);
        id
    }

    /// Carries out what the machine wants done.
    pub(super) fn perform(&mut self, now: Now, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Launch(launch) if launch.definition.job.action.is_handed_over() => {
                    self.hand_over(&launch);
                }
                Action::Launch(launch) => {
                    self.runs.launching(&launch);
                    self.launchers.order(launch, self.shared.settings());
                }
                Action::Release(run) => {
                    let steps = self.runs.release(&mut self.poll, &run);
                    self.walk(steps);
                }
                Action::Abandon(run) => {
                    let steps = self.runs.abandon(&mut self.poll, &run);
                    self.walk(steps);
                }
                Action::End(run, urgency) => self.runs.end(&run, urgency),
                Action::Acknowledge(run) => self.acknowledge(&run),
                Action::Adopt { identity, active } => {
                    let steps = self.runs.adopt(&mut self.poll, identity, &active);
                    self.walk(steps);
                }
                Action::Commit { ticket, identity, changes, rank } => {
                    self.shared.metrics.record(&changes);
                    self.shared.ended.note(&identity, &changes);
                    self.sync.order(Order::Commit { ticket, identity, changes, rank });
                }
                Action::Restore { ticket, identity, document } => {
                    self.sync.order(Order::Restore { ticket, identity, document });
                }
                Action::SaveKnown { ticket, known } => {
                    self.sync.order(Order::SaveKnown { ticket, known });
                }
                Action::Deliver { identity, hook, delivery } => {
                    self.hooks.order(Telling { identity, hook, delivery });
                }
                Action::Epoch(event) => {
                    self.sync.order(Order::Epoch(Epoch { at: now.wall, event }));
                }
                Action::Log(entry) => self.log.write(&entry),
                Action::Reply { to, reply } => self.reply(to, reply),
                Action::Exit(reason) => {
                    self.own.exit = Some(reason);
                    return;
                }
            }
        }
    }

    /// Gives the queue or a spool what a job wants done.
    fn hand_over(&mut self, launch: &Launch) {
        let result = match &self.queue {
            _ if matches!(launch.definition.job.action, kron_config::Action::Spool(_)) => {
                self.spools.hand_over(launch)
            }
            Some(queue) => queue.hand_over(launch),
            None => Err(StartFailure {
                category: Category::Execution,
                operation: "enqueue".to_owned(),
                message: "there is no queue; it begins with the next start".to_owned(),
            }),
        };
        if let Err(failure) = result {
            let run = launch.run.clone();
            self.own.events.push_back(Event::LaunchFailed { run, failure });
        }
    }

    fn acknowledge(&mut self, run: &RunId) {
        if let Some(identity) = self.runs.identity(run) {
            let settings = self.shared.settings();
            // The thread lives as long as this loop.
            let _ = self.retention.send(Task::Job { identity, settings });
        }
        let steps = self.runs.acknowledge(&mut self.poll, run);
        self.walk(steps);
    }

    fn reply(&mut self, to: RequestId, reply: Reply) {
        // Whoever asked may have gone.
        match self.own.waiting.remove(&to) {
            None => {}
            Some(Waiter::Request(waiter)) => drop(waiter.send(reply)),
            Some(Waiter::Reload(waiter, view)) => drop(waiter.send(match reply {
                // A daemon that is leaving takes no definitions.
                Reply::Refused(_) => Err(ReloadFailure::Gone),
                _ => Ok(view),
            })),
        }
    }

    fn walk(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Tell(event) => self.tell(event),
                Step::Read(run) => self.sync.order(Order::ReadRun(run)),
                Step::Remove(run) => self.sync.order(Order::RemoveRun(run)),
            }
        }
    }

    /// Tells whoever's run it is about.
    fn tell(&mut self, event: Event) {
        match (&mut self.queue, event.run()) {
            (_, Some(run)) if self.spools.owns(run) => self.spools.run_event(event),
            (Some(queue), Some(run)) if queue.owns(run) => queue.run_event(event),
            _ => self.own.events.push_back(event),
        }
    }

    /// Leaves a sign of life, at most once per interval.
    fn show_life(&mut self) {
        let now = clock::now();
        if now.boot >= self.own.alive_at + CHORES_INTERVAL {
            self.own.alive_at = now.boot;
            self.sync.order(Order::Alive(now.wall));
        }
    }

    /// What nothing waits for, and must not be forgotten.
    pub(super) fn chores(&mut self) -> nix::Result<()> {
        self.runs.kill_hanging();
        let steps = self.runs.watch_again(&mut self.poll);
        self.walk(steps);
        let now = clock::now();
        if self.own.tidied_at.is_none_or(|at| now.boot >= at + TIDY_INTERVAL) {
            self.own.tidied_at = Some(now.boot);
            let _ = self.retention.send(Task::All { settings: self.shared.settings() });
        }
        if let (Some(queue), Some(settings)) = (&mut self.queue, &self.shared.settings().queue) {
            queue.tidy(settings);
        }
        self.spools.chores();
        self.poll.arm_chores(CHORES_INTERVAL)
    }
}
