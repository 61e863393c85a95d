//! The world: time, a queue of what happens next, and everything in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kron_state::{ExitStatus, RunId};
use krond::machine::{Event, Now};

use crate::checker::{self, Fault, Witness};
use crate::daemon::Daemon;
use crate::process::{Supervised, ToSupervisor};
use crate::rng::Rng;
use crate::scenario::{BEGIN_UNIX, JobPlan, Scenario};
use crate::storage::Storage;

/// How long after the last fault jobs are still started, in milliseconds.
const MEND_MS: u64 = 900_000;
/// How long a world is left alone before it is judged, in milliseconds beyond the longest run.
const SETTLE_MS: u64 = 600_000;

/// A simulated world.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) plans: Vec<JobPlan>,
    pub(crate) rng: Rng,
    /// True time since the beginning.
    pub(crate) time_ms: u64,
    /// How far the wall clock is set from true time.
    pub(crate) wall_offset_ms: i64,
    pub(crate) boot: u64,
    pub(crate) booted_ms: u64,
    queue: BTreeMap<(u64, u64), Occurrence>,
    sequence: u64,
    pub(crate) storage: Storage,
    pub(crate) daemon: Option<Daemon>,
    /// How many daemons there have been.
    pub(crate) life: u64,
    pub(crate) processes: BTreeMap<RunId, Supervised>,
    /// Runs whose end the present daemon watches.
    pub(crate) watched: BTreeSet<RunId>,
    /// Runs whose supervisor did not live to tell.
    pub(crate) unproven: BTreeSet<RunId>,
    pub(crate) witnesses: Vec<Witness>,
    /// Runs that were given up before they were spawned.
    pub(crate) cancelled: BTreeSet<RunId>,
    /// The daemon stops after so many operations of its next write; with it, perhaps, the machine.
    pub(crate) crash_soon: Option<(u64, bool)>,
    pub(crate) crash_cuts_power: bool,
    /// The latest wall time ever shown.
    pub(crate) wall_max_ms: i64,
    pub(crate) settling: bool,
    pub(crate) settled_unix: Option<i64>,
    /// Jobs whose state was damaged on purpose.
    pub(crate) damaged: BTreeSet<String>,
    trace: u64,
    told: Option<Vec<String>>,
}

/// Something that happens at a moment.
#[derive(Debug)]
pub(crate) enum Occurrence {
    StartDaemon,
    Wake(u64),
    Sync(u64),
    Spawn(u64, RunId, String, String),
    ToDaemon(u64, Box<Event>),
    ToSupervisor(RunId, ToSupervisor),
    CommandEnds(RunId, ExitStatus),
    Gone(u64, RunId, Option<ExitStatus>),
    Fault,
    Mend,
    Settle,
}

/// What came of a history.
#[derive(Debug)]
pub struct Outcome {
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// A hash of everything that happened, in order.
    pub trace: u64,
    /// Commands that were executed.
    pub executed: usize,
    /// Daemons that lived.
    pub lives: u64,
    /// What happened, where that was asked for.
    pub story: Vec<String>,
}

/// Plays a scenario and judges it.
#[must_use]
pub fn run(scenario: Scenario, tell: Tell) -> Outcome {
    let mut world = World::new(scenario, tell);
    world.play();
    world.judge()
}

/// Whether a history is told in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Only what came of it.
    Nothing,
    /// Everything that happened.
    Everything,
}

impl World {
    fn new(scenario: Scenario, tell: Tell) -> World {
        let rng = Rng::new(scenario.seed);
        World {
            plans: scenario.jobs.clone(),
            storage: Storage::new(scenario.seed, scenario.sabotage),
            scenario,
            rng,
            time_ms: 0,
            wall_offset_ms: BEGIN_UNIX * 1_000,
            boot: 1,
            booted_ms: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            daemon: None,
            life: 0,
            processes: BTreeMap::new(),
            watched: BTreeSet::new(),
            unproven: BTreeSet::new(),
            witnesses: Vec::new(),
            cancelled: BTreeSet::new(),
            crash_soon: None,
            crash_cuts_power: false,
            wall_max_ms: i64::MIN,
            settling: false,
            settled_unix: None,
            damaged: BTreeSet::new(),
            trace: 0xcbf2_9ce4_8422_2325,
            told: (tell == Tell::Everything).then(Vec::new),
        }
    }

    fn play(&mut self) {
        self.at(1_000, Occurrence::StartDaemon);
        let first = self.rng.between(2_000, 2_000 * self.scenario.fault_every_s);
        self.at(first, Occurrence::Fault);
        self.at(self.scenario.span_s * 1_000, Occurrence::Mend);
        self.at(self.scenario.span_s * 1_000 + MEND_MS, Occurrence::Settle);
        let longest = self.plans.iter().map(|plan| plan.duration_max_s).max().unwrap_or(0);
        let end_ms = (self.scenario.span_s + longest) * 1_000 + MEND_MS + SETTLE_MS;
        while let Some(((at, _), occurrence)) = self.queue.pop_first() {
            if at > end_ms {
                break;
            }
            self.time_ms = self.time_ms.max(at);
            self.wall_max_ms = self.wall_max_ms.max(self.wall_ms());
            self.note(|| format!("{occurrence:?}"));
            self.happen(occurrence);
        }
        self.time_ms = self.time_ms.max(end_ms);
    }

    fn happen(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::StartDaemon => self.start_daemon(),
            Occurrence::Wake(life) => {
                if self.daemon_lives(life) {
                    let synchronised = self.rng.one_in(2);
                    self.feed(Event::Tick { synchronised });
                }
            }
            Occurrence::Sync(life) => self.sync(life),
            Occurrence::Spawn(life, run, identity, period) => {
                self.spawn(life, run, identity, period);
            }
            Occurrence::ToDaemon(life, event) => {
                if self.daemon_lives(life) {
                    self.feed(*event);
                }
            }
            Occurrence::ToSupervisor(run, message) => self.receive(&run, message),
            Occurrence::CommandEnds(run, status) => self.command_ends(&run, status),
            Occurrence::Gone(life, run, reaped) => self.gone(life, &run, reaped),
            Occurrence::Fault => self.fault(),
            Occurrence::Mend => self.mend(),
            Occurrence::Settle => self.settle(),
        }
    }

    fn judge(mut self) -> Outcome {
        for witness in &mut self.witnesses {
            witness.seen &= !self.unproven.iter().any(|run| run.as_str() == witness.run);
        }
        let evidence = checker::Evidence {
            witnesses: &self.witnesses,
            marks: &self.storage.marks,
            documents: self
                .plans
                .iter()
                .filter_map(|plan| Some((plan.name.clone(), self.storage.document(&plan.name)?)))
                .collect(),
            entries: &self.storage.ledger,
            settled: self.daemon.is_some(),
            end_unix: self.settled_unix.unwrap_or(BEGIN_UNIX),
            begin_unix: BEGIN_UNIX + 1,
        };
        let expectations = self.expectations();
        let mut faults = checker::check(&evidence, &expectations);
        if self.daemon.is_none() {
            faults.push(Fault::new("", "no daemon was alive at the end".to_owned()));
        }
        Outcome {
            faults,
            trace: self.trace,
            executed: self.witnesses.len(),
            lives: self.life,
            story: self.told.take().unwrap_or_default(),
        }
    }

    /// Puts something into the queue.
    pub(crate) fn at(&mut self, at_ms: u64, occurrence: Occurrence) {
        self.sequence += 1;
        self.queue.insert((at_ms.max(self.time_ms), self.sequence), occurrence);
    }

    pub(crate) fn after(&mut self, delay_ms: u64, occurrence: Occurrence) {
        self.at(self.time_ms + delay_ms, occurrence);
    }

    pub(crate) fn tell_daemon(&mut self, life: u64, delay_ms: u64, event: Event) {
        self.after(delay_ms, Occurrence::ToDaemon(life, Box::new(event)));
    }

    pub(crate) fn daemon_lives(&self, life: u64) -> bool {
        self.daemon.is_some() && self.life == life
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.time_ms as i64 + self.wall_offset_ms
    }

    pub(crate) fn boot_ms(&self) -> u64 {
        self.time_ms - self.booted_ms
    }

    pub(crate) fn now(&self) -> Now {
        Now { wall: self.wall(), boot: Duration::from_millis(self.boot_ms()) }
    }

    pub(crate) fn message_delay(&mut self) -> u64 {
        if self.rng.one_in(200) { self.rng.between(1_000, 90_000) } else { self.rng.between(1, 30) }
    }

    /// Takes something into the history.
    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        let text = what();
        for byte in text.bytes().chain(self.time_ms.to_le_bytes()) {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let wall = self.wall();
        if let Some(told) = &mut self.told {
            told.push(format!("{} {wall} {text}", self.time_ms));
        }
    }

    /// A command leaves its mark on the world.
    pub(crate) fn witness(&mut self, run: &RunId) {
        let (wall_ms, wall_max_ms) = (self.wall_ms(), self.wall_max_ms);
        let Some(process) = self.processes.get(run) else { return };
        self.witnesses.push(Witness {
            run: run.to_string(),
            identity: process.identity.clone(),
            period: process.period.clone(),
            wall_unix: wall_ms.div_euclid(1_000),
            wall_max_unix: wall_max_ms.div_euclid(1_000),
            exit_code: None,
            seen: false,
        });
    }
}
