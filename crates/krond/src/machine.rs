//! The daemon's mind: events in, actions out.
//!
//! [`Machine::handle`] is told the time and one event and answers with what is to be done. It does
//! no I/O, reads no clock and draws its only random numbers from a seed it is given, so the daemon
//! and the simulation run the very same code. A spurious event does nothing.
//!
//! What it keeps, whatever it is told and in whatever order:
//!
//! - a command is released only after the record that names it is durable;
//! - a period is started at most once: what is recorded, and what is on its way, is asked first;
//! - a mark of what was handled never moves back;
//! - every period that falls due reaches an outcome, or a logged reason for having none;
//! - after a failed write nothing more is started, and the daemon leaves.
//!
//! `evaluate` judges what is due; `run` takes runs from their gate to their end; `load`
//! brings in definitions; `clock` decides whether the time is believed; `request` answers
//! people; `standby` brings bursts to their gates ahead; `stop` ends it all.

mod clock;
mod evaluate;
mod event;
mod hook;
mod job;
mod load;
mod request;
mod run;
mod standby;
mod stop;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kron_config::Hook;
use kron_core::UtcSecond;
use kron_state::{Change, DeliveryId, RunId};

use crate::random::Random;
use serde_json::{Map, Value};

pub use self::event::{
    Action, Boot, Definition, Entry, Event, ExitReason, JobView, Last, Launch, Level,
    ManualOverlap, Now, Preparation, Rank, Recorded, Refusal, Reply, Report, Request, RequestId,
    RunView, StartFailure, StatusView, StopMode, Suspension, Ticket, Urgency,
};

use self::clock::Clock;
pub(crate) use self::clock::LEAP_S;
use self::hook::Underway;
pub(crate) use self::hook::told_as;
use self::job::{Archived, JobIndex, JobState};
pub(crate) use self::run::RUNNING;
use self::run::{Abandonment, Run};
use self::standby::{AtGate, Standby};

/// A start that is not released this long after it was judged is given up.
const STALL: Duration = Duration::from_secs(60);

/// How long it may take until it is written which jobs have got their first documents: it is one
/// write for all of them.
const KNOWN_DELAY: Duration = Duration::from_secs(30);

/// When the machine wants to be woken at the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// At this wall time.
    pub wall: Option<UtcSecond>,
    /// At this time since boot.
    pub boot: Option<Duration>,
}

/// The state of a daemon.
#[derive(Debug)]
pub struct Machine {
    jobs: Vec<JobState>,
    /// Where each job is; only looked up, never walked, so that its order does not matter.
    names: HashMap<Arc<str>, JobIndex>,
    /// Slots of `jobs` that are free.
    free: Vec<JobIndex>,
    /// What is recorded about jobs that are not defined now.
    archive: HashMap<Arc<str>, Archived>,
    /// State files that could not be read, by the hash in their names, and when they were written.
    unreadable: HashMap<String, UtcSecond>,
    /// The latest time that was ever seen.
    latest_seen: UtcSecond,
    runs: BTreeMap<RunId, Run>,
    /// Runs that stand at their gates before they fall due.
    standby: Standby,
    /// Runs that were given up at their gates and have yet to be accounted for.
    abandoned: Vec<(RunId, Abandonment)>,
    /// Who wants to be told what became of periods.
    hooks: Vec<Arc<Hook>>,
    /// What has still to be told.
    deliveries: BTreeMap<DeliveryId, Underway>,
    /// What may be told when a write is durable.
    undelivered: BTreeMap<Ticket, Vec<DeliveryId>>,
    due: BTreeSet<(UtcSecond, JobIndex)>,
    timers: BTreeSet<(Duration, Timer)>,
    /// What happens when a write is durable.
    pending: BTreeMap<Ticket, Pending>,
    next_ticket: u64,
    /// The state of the generator of run ids.
    random: Random,
    clock: Clock,
    generation: u64,
    machine_id: String,
    /// What a newer version knows about all jobs.
    known_unknown: Map<String, Value>,
    /// Whether jobs have got their first documents since that was last written.
    known_is_stale: bool,
    known_is_planned: bool,
    started_at: UtcSecond,
    loaded_at: UtcSecond,
    stopping: Option<StopMode>,
    /// Whether something beside the machine has yet to be brought to an end before it leaves.
    others_busy: bool,
    /// Set once: nothing is done any more.
    left: bool,
    actions: Vec<Action>,
    /// Starts, which follow everything else so that a burst is judged before it is worked on.
    launches: Vec<Launch>,
}

/// Something to look at again after a while.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A start failed; the period is judged again.
    Retry(JobIndex),
    /// What is to be replaced should be gone by now.
    Replacement(JobIndex),
    /// The start should be released by now.
    Stall(RunId),
    /// The clock may be believed again.
    Clock,
    /// What was asked to end should be gone by now.
    Stop,
    /// A hook that could not be told is told again.
    Deliver(DeliveryId),
    /// Jobs have got their first documents since it was last written which jobs have one.
    Known,
}

/// What waits for a write to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pending {
    /// Nothing but the daemon's leaving.
    Recorded,
    /// A command at its gate.
    Release(RunId),
    /// A supervisor that has reported.
    Acknowledge(RunId),
    /// What is to be replaced.
    Replace(Arc<str>, UtcSecond),
    /// Somebody who asked.
    Reply(RequestId),
}

impl Machine {
    /// A machine over what a new daemon finds, and the first things to do.
    #[must_use]
    pub fn boot(now: Now, boot: Boot) -> (Machine, Vec<Action>) {
        let mut machine = Machine {
            jobs: Vec::with_capacity(boot.jobs.len()),
            names: HashMap::with_capacity(boot.jobs.len()),
            free: Vec::new(),
            archive: HashMap::new(),
            unreadable: boot.unreadable.into_iter().collect(),
            latest_seen: boot.latest_seen.unwrap_or(now.wall),
            runs: BTreeMap::new(),
            standby: Standby::new(boot.preparation),
            abandoned: Vec::new(),
            hooks: boot.hooks.into_iter().map(Arc::new).collect(),
            deliveries: BTreeMap::new(),
            undelivered: BTreeMap::new(),
            due: BTreeSet::new(),
            timers: BTreeSet::new(),
            pending: BTreeMap::new(),
            next_ticket: 0,
            random: Random::of(boot.seed),
            clock: Clock::new(now),
            generation: 0,
            machine_id: boot.machine_id,
            known_unknown: Map::new(),
            known_is_stale: false,
            known_is_planned: false,
            started_at: now.wall,
            loaded_at: now.wall,
            stopping: None,
            others_busy: false,
            left: false,
            actions: Vec::new(),
            launches: Vec::new(),
        };
        machine.recall(boot.recorded);
        machine.load(now, boot.jobs, &load::Remembered::Found(boot.known), None);
        machine.settle_debts(now);
        machine.deliver_recalled();
        machine.evaluate_due(now);
        machine.prepare(now);
        let actions = machine.take_actions(now);
        (machine, actions)
    }

    /// What is to be done about `event`.
    pub fn handle(&mut self, now: Now, event: Event) -> Vec<Action> {
        if self.left {
            return Vec::new();
        }
        let synchronised = matches!(event, Event::Tick { synchronised: true });
        self.look_at_clock(now, synchronised);
        if !self.clock.is_held() {
            self.latest_seen = self.latest_seen.max(now.wall);
        }
        match event {
            Event::Tick { .. } => {}
            Event::Hooks(hooks) => self.set_hooks(hooks),
            Event::Delivered { id, result } => self.delivered(now, id, result),
            Event::Load { jobs, request } => {
                self.load(now, jobs, &load::Remembered::Kept, request);
            }
            Event::Armed { run, supervisor, command, boot_id } => {
                self.at_gate(now, &run, AtGate { supervisor, command, boot_id });
            }
            Event::LaunchFailed { run, failure } => self.launch_failed(now, &run, failure),
            Event::Executing { run } => self.executing(now, &run),
            Event::ExecFailed { run, failure } => self.exec_failed(now, &run, failure),
            Event::HandedOver { run, to } => self.handed_over(now, &run, to),
            Event::Ended { run, report } => self.ended(now, &run, report),
            Event::Durable(ticket) => self.durable(now, ticket),
            Event::NotDurable {
                #[cfg(kron_canary)]
                ticket,
                operation,
                identity,
                period,
                message,
                ..
            } => {
                #[cfg(kron_canary)]
                if kron_canary::Canary::StartAfterAFailedWrite.is_active() {
                    self.durable(now, ticket);
                }
                self.not_durable(operation, identity.as_ref(), period.as_ref(), message);
            }
            Event::Request { id, request } => self.answer(now, id, request),
            Event::Stop(mode) => self.stop(now, mode),
        }
        self.fire_timers(now);
        self.settle_abandoned(now);
        self.evaluate_due(now);
        self.settle_abandoned(now);
        self.prepare(now);
        self.leave_if_done();
        self.take_actions(now)
    }

    /// How the machine is stopping, if it is.
    #[must_use]
    pub fn stopping(&self) -> Option<StopMode> {
        self.stopping
    }

    /// Whether the clock leapt ahead and is not believed.
    #[must_use]
    pub fn is_clock_held(&self) -> bool {
        self.clock.is_held()
    }

    /// Says whether something beside the machine has yet to be brought to an end before it leaves.
    pub fn set_others_busy(&mut self, busy: bool) {
        self.others_busy = busy;
    }

    /// When to call [`Machine::handle`] at the latest, if nothing happens before.
    #[must_use]
    pub fn next_wakeup(&self) -> Wakeup {
        if self.left {
            return Wakeup::default();
        }
        let awake = self.stopping.is_none() && !self.clock.is_held();
        let due = || self.due.first().map(|(at, _)| *at);
        Wakeup {
            wall: if awake { self.next_preparation().or_else(due) } else { None },
            boot: self.timers.first().map(|(at, _)| *at),
        }
    }

    fn take_actions(&mut self, now: Now) -> Vec<Action> {
        if !self.left {
            for launch in std::mem::take(&mut self.launches) {
                self.timers.insert((now.boot + STALL, Timer::Stall(launch.run.clone())));
                self.actions.push(Action::Launch(launch));
            }
        }
        self.launches.clear();
        if self.known_is_stale && !self.known_is_planned && !self.left {
            self.known_is_planned = true;
            self.timers.insert((now.boot + KNOWN_DELAY, Timer::Known));
        }
        std::mem::take(&mut self.actions)
    }

    fn log(&mut self, entry: Entry) {
        self.actions.push(Action::Log(entry));
    }

    fn ticket(&mut self, then: Pending) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.pending.insert(ticket, then);
        ticket
    }

    /// Asks for changes to be made durable. If a start is on its way and not recorded yet, they
    /// may overtake it, and a crash would leave it without an outcome; so they say that it is owed
    /// one.
    fn commit(&mut self, index: JobIndex, changes: Vec<Change>, rank: Rank, then: Pending) {
        let runs = self.jobs[index.at()].runs.iter().filter_map(|id| self.runs.get(id));
        let unrecorded = runs.filter(|run| run.stage.is_unrecorded());
        let owed = unrecorded.filter_map(|run| run.period.nominal()).map(Change::Owe);
        let changes: Vec<Change> = owed.chain(changes).collect();
        let ticket = self.ticket(then);
        let job = &mut self.jobs[index.at()];
        // Should the document vanish, it must be known that there was one.
        self.known_is_stale |= !std::mem::replace(&mut job.has_state, true);
        let identity = job.identity.clone();
        self.deliver_after(ticket, &changes);
        self.actions.push(Action::Commit { ticket, identity, changes, rank });
    }

    fn durable(&mut self, now: Now, ticket: Ticket) {
        self.deliver_durable(ticket);
        match self.pending.remove(&ticket) {
            None | Some(Pending::Recorded) => {}
            Some(Pending::Release(run)) => self.release(now, &run),
            Some(Pending::Acknowledge(run)) => self.actions.push(Action::Acknowledge(run)),
            Some(Pending::Replace(identity, period)) => {
                if let Some(&index) = self.names.get(&identity) {
                    self.end_replaced(now, index, period);
                }
            }
            Some(Pending::Reply(to)) => {
                self.actions.push(Action::Reply { to, reply: Reply::Done });
            }
        }
    }

    fn fire_timers(&mut self, now: Now) {
        while let Some((at, timer)) = self.timers.pop_first() {
            if at > now.boot {
                self.timers.insert((at, timer));
                return;
            }
            match timer {
                Timer::Retry(index) => self.evaluate(now, index),
                Timer::Replacement(index) => self.replacement_overdue(now, index),
                Timer::Stall(run) => self.stalled(now, &run),
                Timer::Clock => self.clock_may_be_believed(now),
                Timer::Stop => self.stop_overdue(),
                Timer::Deliver(id) => self.deliver(id),
                Timer::Known => {
                    self.known_is_planned = false;
                    self.refresh_known();
                }
            }
        }
    }

    /// The next of the run ids. They come from a seeded generator, so that a simulation repeats.
    fn new_run_id(&mut self) -> RunId {
        loop {
            let id = RunId::from_bits(self.random.next());
            if !self.runs.contains_key(&id) && !self.standby.contains(&id) {
                return id;
            }
        }
    }
}
