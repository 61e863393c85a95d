//! The body that the simulation gives the machine: a disk, a thread that syncs, and sockets.

use std::collections::VecDeque;
use std::sync::Arc;

use kron_state::simulated::{Disk, Faulty};
use kron_state::{
    ActiveState, Change, Document, Epoch, EpochEvent, ExitStatus, Known, KnownRead, RunId, RunRead,
    RunRecord, Store,
};
use krond::machine::{Action, Boot, Event, ExitReason, Machine, Recorded, Report, Ticket};

use crate::process::ToSupervisor;
use crate::scenario::{Sabotage, definitions};
use crate::world::{Occurrence, World};

/// A daemon that lives.
pub(crate) struct Daemon {
    machine: Machine,
    store: Store<Faulty<Disk>>,
    writes: VecDeque<Write>,
    syncing: bool,
    /// When it wants to be woken, as it was last put into the queue.
    wake_at: Option<u64>,
}

/// Something on its way to the disk.
enum Write {
    Commit { ticket: Ticket, identity: Arc<str>, changes: Vec<Change> },
    Restore { ticket: Ticket, identity: Arc<str>, document: Box<Document> },
    Known { ticket: Ticket, known: Box<Known> },
    Epoch(EpochEvent),
}

impl World {
    /// A daemon starts, if none lives.
    pub(crate) fn start_daemon(&mut self) {
        if self.daemon.is_some() {
            return;
        }
        self.storage.set_now(self.wall());
        let opened = self.storage.open();
        let found = opened.and_then(|store| {
            let scan = store.scan()?;
            let known = match store.known()? {
                KnownRead::Known(known) => Some(known),
                KnownRead::Missing | KnownRead::Unreadable { .. } => None,
            };
            let latest = store.epochs()?.latest();
            Ok((store, scan, known, latest))
        });
        let (store, scan, known, latest_seen) = match found {
            Ok(found) => found,
            Err(error) => {
                // A daemon that cannot read its state refuses to start; somebody tries again.
                self.note(|| format!("refused: {error}"));
                self.storage.reboot();
                let delay = self.rng.between(1_000, 60_000);
                self.after(delay, Occurrence::StartDaemon);
                return;
            }
        };
        self.life += 1;
        self.watched.clear();
        let mut recorded: Vec<Recorded> = scan.documents.into_iter().map(Recorded::from).collect();
        if self.scenario.sabotage == Sabotage::ForgetMarks {
            for document in &mut recorded {
                document.last_handled = None;
            }
        }
        let boot = Boot {
            seed: self.rng.bits(),
            jobs: definitions(&self.plans),
            machine_id: "simulated".to_owned(),
            known,
            recorded,
            unreadable: scan
                .unreadable
                .into_iter()
                .map(|f| (f.identity_hash, f.modified))
                .collect(),
            latest_seen,
        };
        let (machine, actions) = Machine::boot(self.now(), boot);
        self.daemon =
            Some(Daemon { machine, store, writes: VecDeque::new(), syncing: false, wake_at: None });
        self.perform(actions);
    }

    /// Tells the machine something, and does what it says.
    pub(crate) fn feed(&mut self, event: Event) {
        let now = self.now();
        let Some(daemon) = &mut self.daemon else { return };
        let actions = daemon.machine.handle(now, event);
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            if self.daemon.is_none() {
                return;
            }
            self.act(action);
        }
        self.plan_wake();
        self.plan_sync();
    }

    fn act(&mut self, action: Action) {
        let life = self.life;
        match action {
            Action::Launch(launch) => {
                self.note(|| format!("launch {} {}", launch.run, launch.period));
                let delay = self.message_delay();
                let identity = launch.definition.job.identity().to_owned();
                self.watched.insert(launch.run.clone());
                let period = launch.period.to_string();
                self.after(delay, Occurrence::Spawn(life, launch.run, identity, period));
            }
            Action::Release(run) => self.tell(&run, ToSupervisor::Release),
            Action::Abandon(run) => self.abandon(&run),
            Action::End(run, urgency) => self.end(&run, urgency),
            Action::Acknowledge(run) => {
                self.tell(&run, ToSupervisor::Acknowledge);
                if let Some(daemon) = &self.daemon
                    && let Err(error) = daemon.store.remove_run(&run)
                {
                    self.note(|| format!("cannot remove {run}: {error}"));
                    self.die_if_crashed();
                }
            }
            Action::Adopt { active, .. } => self.adopt(&active),
            Action::Commit { ticket, identity, changes, .. } => {
                if self.scenario.sabotage == Sabotage::ReleaseBeforeRecord
                    && let Some(Change::Arm(active)) = changes.first()
                {
                    self.tell(&active.run, ToSupervisor::Release);
                }
                self.write(Write::Commit { ticket, identity, changes });
            }
            Action::Restore { ticket, identity, document } => {
                self.write(Write::Restore { ticket, identity, document });
            }
            Action::SaveKnown { ticket, known } => self.write(Write::Known { ticket, known }),
            Action::Epoch(event) => self.write(Write::Epoch(event)),
            Action::Log(entry) => self.note(|| {
                format!(
                    "{} {:?} {:?} {:?}",
                    entry.event, entry.identity, entry.period, entry.fields
                )
            }),
            Action::Reply { .. } => {}
            Action::Exit(reason) => {
                self.note(|| format!("exit {reason:?}"));
                let delay = match reason {
                    ExitReason::Stopped(_) => self.rng.between(1_000, 900_000),
                    ExitReason::Persistence { .. } => self.rng.between(1_000, 60_000),
                };
                self.daemon_gone(delay);
            }
        }
    }

    fn write(&mut self, write: Write) {
        if let Some(daemon) = &mut self.daemon {
            daemon.writes.push_back(write);
        }
    }

    /// The daemon lets go of a run at its gate.
    fn abandon(&mut self, run: &RunId) {
        if self.processes.contains_key(run) {
            self.tell(run, ToSupervisor::Closed);
        } else {
            // It was never spawned: the launcher gives up.
            let failure = krond::machine::StartFailure {
                category: kron_core::Category::System,
                operation: "launch".to_owned(),
                message: "abandoned".to_owned(),
            };
            let life = self.life;
            self.cancelled.insert(run.clone());
            self.tell_daemon(life, 5, Event::LaunchFailed { run: run.clone(), failure });
        }
    }

    fn adopt(&mut self, active: &ActiveState) {
        let run = active.run.clone();
        self.watched.insert(run.clone());
        let command = kron_state::Process { pid: active.pid, start_ticks: active.start_ticks };
        let alive = self.is_alive(&active.boot_id, active.supervisor)
            || self.is_alive(&active.boot_id, command);
        self.note(|| format!("adopt {run} alive={alive}"));
        if let Some(process) = self.processes.get_mut(&run) {
            process.told = false;
            self.notice_gone(&run);
        } else {
            self.after(1, Occurrence::Gone(self.life, run, None));
        }
    }

    /// Nothing is left of a run: what it left behind is read.
    pub(crate) fn gone(&mut self, life: u64, run: &RunId, reaped: Option<ExitStatus>) {
        if !self.daemon_lives(life) {
            return;
        }
        let Some(daemon) = &self.daemon else { return };
        let record = match daemon.store.run_record(run) {
            Ok(RunRead::Record(_)) if self.scenario.sabotage == Sabotage::IgnoreRunRecords => None,
            Ok(RunRead::Record(record)) => Some(record),
            Ok(_) => None,
            Err(error) => {
                self.note(|| format!("cannot read {run}: {error}"));
                self.unproven.insert(run.clone());
                self.die_if_crashed();
                None
            }
        };
        let report = Report { record, reaped };
        self.feed(Event::Ended { run: run.clone(), report });
    }

    /// The syncing thread has time for one write.
    pub(crate) fn sync(&mut self, life: u64) {
        if !self.daemon_lives(life) {
            return;
        }
        if let Some((operations, power)) = self.crash_soon.take() {
            self.storage.crash_after(operations);
            self.crash_cuts_power = power;
        }
        let wall = self.wall();
        self.storage.set_now(wall);
        let Some(daemon) = &mut self.daemon else { return };
        daemon.syncing = false;
        let Some(write) = daemon.writes.pop_front() else { return };
        let store = &daemon.store;
        let mut marked = None;
        let mut tickets = Vec::new();
        let result = match write {
            Write::Commit { ticket, identity, mut changes } => {
                tickets.push(ticket);
                // Whatever else waits for the same document is written with it.
                daemon.writes.retain_mut(|other| match other {
                    Write::Commit { ticket, identity: of, changes: more } if *of == identity => {
                        tickets.push(*ticket);
                        changes.append(more);
                        false
                    }
                    _ => true,
                });
                marked = Some(identity.clone());
                store.commit(&identity, &changes)
            }
            Write::Restore { ticket, identity, document } => {
                tickets.push(ticket);
                marked = Some(identity.clone());
                store.restore(&identity, &document)
            }
            Write::Known { ticket, known } => {
                tickets.push(ticket);
                store.save_known(&known)
            }
            Write::Epoch(event) => store.append_epoch(&Epoch { at: wall, event }),
        };
        if self.die_if_crashed() {
            return;
        }
        match result {
            Ok(()) => {
                if let Some(identity) = marked {
                    self.storage.take_note(&identity);
                }
                for ticket in tickets {
                    self.feed(Event::Durable(ticket));
                }
            }
            Err(error) => {
                self.note(|| format!("not durable: {error}"));
                let message = error.to_string();
                let ticket = tickets.first().copied().unwrap_or(Ticket(0));
                self.feed(Event::NotDurable { ticket, identity: None, period: None, message });
            }
        }
        self.plan_sync();
    }

    fn plan_sync(&mut self) {
        let delay = if self.rng.one_in(300) {
            self.rng.between(1_000, 80_000)
        } else {
            self.rng.between(1, 25)
        };
        let life = self.life;
        let Some(daemon) = &mut self.daemon else { return };
        if !daemon.syncing && !daemon.writes.is_empty() {
            daemon.syncing = true;
            self.after(delay, Occurrence::Sync(life));
        }
    }

    fn plan_wake(&mut self) {
        let jitter = self.rng.below(40);
        let life = self.life;
        let (booted, offset) = (self.booted_ms, self.wall_offset_ms);
        let now = self.time_ms;
        let Some(daemon) = &mut self.daemon else { return };
        let wakeup = daemon.machine.next_wakeup();
        let wall = wakeup.wall.map(|wall| (wall.unix() * 1_000 - offset).max(0) as u64);
        let boot = wakeup.boot.and_then(|boot| booted.checked_add(boot.as_millis() as u64));
        let Some(at) = wall.into_iter().chain(boot).min() else { return };
        let at = at.max(now);
        // An earlier one that is still in the queue does no harm.
        if daemon.wake_at.is_none_or(|planned| planned <= now || planned > at) {
            daemon.wake_at = Some(at);
            self.at(at + jitter, Occurrence::Wake(life));
        }
    }

    pub(crate) fn kill_daemon(&mut self) {
        if self.daemon.is_some() {
            let delay = if self.rng.one_in(3) {
                self.rng.between(10_000, 2_000 * self.scenario.fault_every_s + 20_000)
            } else {
                self.rng.between(100, 5_000)
            };
            self.daemon_gone(delay);
        }
    }

    /// The daemon is gone, and its ends of all sockets.
    fn daemon_gone(&mut self, restart_ms: u64) {
        self.daemon = None;
        self.storage.reboot();
        let life = self.life;
        let linked: Vec<RunId> = self
            .processes
            .iter()
            .filter(|(_, process)| process.link == Some(life))
            .map(|(run, _)| run.clone())
            .collect();
        for run in linked {
            self.tell(&run, ToSupervisor::Closed);
        }
        self.after(restart_ms, Occurrence::StartDaemon);
    }

    /// The disk stopped in the middle of an operation because the daemon, or the machine, did.
    fn die_if_crashed(&mut self) -> bool {
        if !self.storage.has_crashed() {
            return false;
        }
        self.note(|| "crashed in the middle of a write".to_owned());
        if self.crash_cuts_power {
            self.cut_power();
        } else {
            let delay = self.rng.between(100, 60_000);
            self.daemon_gone(delay);
        }
        true
    }

    /// A supervisor writes its record; whether it is there.
    pub(crate) fn write_run(&mut self, run: &RunId, record: &RunRecord) -> bool {
        let written =
            self.storage.for_supervisors().is_ok_and(|s| s.write_run(run, record).is_ok());
        let run = run.clone();
        self.note(|| format!("record of {run} written={written}"));
        written
    }
}
