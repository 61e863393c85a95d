//! The body that the simulation gives the machine: a disk, a thread that syncs, and sockets.

use std::collections::VecDeque;

use kron_state::simulated::{Disk, Faulty};
use kron_state::{
    ActiveState, Change, ExitStatus, KnownRead, RunId, RunRead, RunRecord, Store, StoreError,
};
use krond::machine::{Action, Boot, Event, ExitReason, Machine, Recorded, Report};

use crate::checker::Fault;
use crate::process::{Spawn, ToSupervisor};
use crate::scenario::{Pace, Sabotage};
use crate::sync::Write;
use crate::tally::Happening;
use crate::world::{Occurrence, Place, World};

/// A daemon that lives.
pub(crate) struct Daemon {
    machine: Machine,
    pub(crate) store: Store<Faulty<Disk>>,
    /// Everything that waits to be written.
    pub(crate) writes: VecDeque<Write>,
    /// Whether the writing thread is at work.
    pub(crate) syncing: bool,
    /// When it wants to be woken, and where that is in the queue.
    wake: Option<(u64, Place)>,
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
                self.note(format_args!("refused: {error}"));
                self.tally.count(Happening::StartRefused);
                if let StoreError::Document { file, .. } = &error {
                    self.look_into(file);
                }
                self.storage.reboot();
                let delay = self.rng.between(1_000, 60_000);
                self.after(delay, Occurrence::StartDaemon);
                return;
            }
        };
        self.life += 1;
        self.stop_asked = false;
        self.watched.clear();
        // A write that was interrupted may have happened.
        for identity in std::mem::take(&mut self.in_doubt) {
            self.storage.take_note(&identity);
        }
        // No daemon but the one that launched it can be told more about a run than is on the disk.
        let boot = self.boot;
        self.processes.retain(|_, process| process.is_alive(boot));
        let mut recorded: Vec<Recorded> = scan.documents.into_iter().map(Recorded::from).collect();
        if self.scenario.sabotage == Sabotage::ForgetMarks {
            for document in &mut recorded {
                document.last_handled = None;
            }
        }
        let boot = Boot {
            seed: self.rng.bits(),
            jobs: self.definitions(),
            machine_id: "simulated".to_owned(),
            known,
            recorded,
            unreadable: scan
                .unreadable
                .into_iter()
                .map(|f| (f.identity_hash, f.modified))
                .collect(),
            latest_seen,
            hooks: Vec::new(),
            preparation: self.scenario.preparation,
        };
        self.born_unix = self.wall().unix();
        let (machine, actions) = Machine::boot(self.now(), boot);
        self.daemon =
            Some(Daemon { machine, store, writes: VecDeque::new(), syncing: false, wake: None });
        self.perform(actions);
    }

    /// Somebody finds out why the daemon refuses a document. One that was damaged more than once
    /// may pass for one of another version; it is emptied, and so can be set aside.
    fn look_into(&mut self, file: &str) {
        match self.storage.identity_of(file) {
            Some(identity) if self.damaged.contains(&identity) => self.storage.empty(file),
            None if self.known_damaged => self.storage.empty(file),
            identity => {
                let what = format!("`{file}` cannot be used, and nobody has touched it");
                self.faults.push(Fault::new(&identity.unwrap_or_default(), what));
            }
        }
    }

    /// Tells the machine something, and does what it says.
    pub(crate) fn feed(&mut self, event: Event) {
        let deaf = self.scenario.sabotage == Sabotage::DeafToEnds;
        if deaf && matches!(event, Event::Ended { .. }) {
            return;
        }
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
                self.deed();
                self.note(format_args!("launch {} {}", launch.run, launch.period));
                let delay = self.message_delay();
                let identity = launch.definition.job.identity().to_owned();
                self.watched.insert(launch.run.clone());
                let period = launch.period.to_string();
                let slept_ms = self.slept_ms;
                let spawn = Spawn { life, run: launch.run, identity, period, slept_ms };
                self.after(delay, Occurrence::Spawn(spawn));
            }
            Action::Release(run) => self.tell(&run, ToSupervisor::Release),
            Action::Abandon(run) => self.abandon(&run),
            Action::End(run, urgency) => self.end(&run, urgency),
            Action::Acknowledge(run) => {
                self.tell(&run, ToSupervisor::Acknowledge);
                if let Some(daemon) = &self.daemon
                    && let Err(error) = daemon.store.remove_run(&run)
                {
                    self.note(format_args!("cannot remove {run}: {error}"));
                    self.die_if_crashed();
                }
            }
            // These worlds have no hooks.
            Action::Deliver { .. } => {}
            Action::Adopt { active, .. } => self.adopt(&active),
            Action::Commit { ticket, identity, changes, .. } => {
                if self.scenario.sabotage == Sabotage::ReleaseBeforeRecord
                    && let Some(Change::Arm(active)) = changes.first()
                {
                    self.tell(&active.run, ToSupervisor::Release);
                }
                self.deed();
                self.write(Write::Commit { ticket, identity, changes });
            }
            Action::Restore { ticket, identity, document } => {
                self.write(Write::Restore { ticket, identity, document });
            }
            Action::SaveKnown { ticket, known } => self.write(Write::Known { ticket, known }),
            Action::Epoch(event) => self.write(Write::Epoch(event)),
            Action::Log(entry) => self.note(format_args!(
                "{} {:?} {:?} {:?}",
                entry.event, entry.identity, entry.period, entry.fields
            )),
            Action::Reply { .. } => {}
            Action::Exit(reason) => {
                self.note(format_args!("exit {reason:?}"));
                let delay = match reason {
                    ExitReason::Stopped(_) => self.rng.between(1_000, 900_000),
                    ExitReason::Persistence { .. } => {
                        self.tally.count(Happening::WriteFailed);
                        self.rng.between(1_000, 60_000)
                    }
                };
                self.daemon_gone(delay);
            }
        }
    }

    /// The machine did something after which something may go wrong.
    fn deed(&mut self) {
        if let Pace::AfterDeeds(one_in) = self.scenario.pace
            && self.known_unix.is_some()
            && self.rng.one_in(one_in)
        {
            let delay = self.rng.of_any_size(1, self.scenario.fault_every_s * 1_000);
            self.after(delay, Occurrence::Fault);
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
        self.note(format_args!("adopt {run} alive={alive}"));
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
                self.note(format_args!("cannot read {run}: {error}"));
                self.unproven.insert(run.clone());
                self.die_if_crashed();
                None
            }
        };
        let report = Report { record, reaped };
        self.feed(Event::Ended { run: run.clone(), report });
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
        if daemon.wake.is_none_or(|(planned, _)| planned <= now || planned > at) {
            let later = daemon.wake.take().map(|(_, place)| place);
            let place = self.at(at + jitter, Occurrence::Wake(life));
            if let Some(daemon) = &mut self.daemon {
                daemon.wake = Some((at, place));
            }
            if let Some(later) = later {
                self.take_back(later);
            }
        }
    }

    pub(crate) fn kill_daemon(&mut self) {
        if self.daemon.is_some() {
            self.tally.count(Happening::DaemonKilled);
            let delay =
                if self.rng.one_in(3) { self.lull_ms() } else { self.rng.between(100, 5_000) };
            self.daemon_gone(delay);
        }
    }

    /// The daemon is gone, and its ends of all sockets.
    pub(crate) fn daemon_gone(&mut self, restart_ms: u64) {
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

    /// A supervisor writes its record; whether it is there.
    pub(crate) fn write_run(&mut self, run: &RunId, record: &RunRecord) -> bool {
        let written =
            self.storage.for_supervisors().is_ok_and(|s| s.write_run(run, record).is_ok());
        let run = run.clone();
        self.note(format_args!("record of {run} written={written}"));
        written
    }
}
