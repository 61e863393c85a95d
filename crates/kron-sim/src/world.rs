//! The world: time, a queue of what happens next, and everything in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use kron_config::Job;
use kron_core::UtcSecond;
use kron_state::{ExitStatus, RunId};
use krond::machine::{Event, Now};

use crate::checker::{self, Fault, Witness};
use crate::daemon::Daemon;
use crate::plan::{JobPlan, definitions};
use crate::process::{Spawn, Supervised, ToSupervisor};
use crate::rng::Rng;
use crate::scenario::{Pace, Sabotage, Scenario};
use crate::storage::Storage;
use crate::tally::{Happening, Tally};
use crate::trace::Trace;

/// How long after the last fault jobs are still started, in milliseconds.
const MEND_MS: u64 = 900_000;
/// How long a world is left alone before it is judged, in milliseconds beyond the longest run.
const SETTLE_MS: u64 = 600_000;

/// A simulated world.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    plans: Vec<JobPlan>,
    /// What the loader makes of the plans, once it has.
    definitions: Option<Vec<Job>>,
    pub(crate) rng: Rng,
    /// True time since the beginning.
    pub(crate) time_ms: u64,
    /// How far the wall clock is set from true time.
    pub(crate) wall_offset_ms: i64,
    pub(crate) boot: u64,
    pub(crate) booted_ms: u64,
    /// How long the machine has slept, in all.
    pub(crate) slept_ms: u64,
    queue: BTreeMap<Place, Occurrence>,
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
    /// Which of them a run left last.
    pub(crate) witness_of: BTreeMap<RunId, usize>,
    /// Runs that were given up before they were spawned.
    pub(crate) cancelled: BTreeSet<RunId>,
    /// What the clock showed when the present daemon started.
    pub(crate) born_unix: i64,
    /// What it showed when the daemon started that made the jobs durably known.
    pub(crate) known_unix: Option<i64>,
    /// Jobs about which something was being written when a daemon died or gave up.
    pub(crate) in_doubt: BTreeSet<String>,
    /// Whether the present daemon was asked to stop.
    pub(crate) stop_asked: bool,
    /// Whether somebody ever set the clock.
    pub(crate) clock_set: bool,
    /// Jobs that were edited, suspended or resumed.
    pub(crate) touched: BTreeSet<String>,
    /// The daemon stops after so many operations of its next write; with it, perhaps, the machine.
    pub(crate) crash_soon: Option<(u64, bool)>,
    pub(crate) crash_cuts_power: bool,
    /// The latest wall time ever shown.
    pub(crate) wall_max_ms: i64,
    pub(crate) settling: bool,
    pub(crate) settled_unix: Option<i64>,
    /// Jobs whose state was damaged on purpose.
    pub(crate) damaged: BTreeSet<String>,
    /// Whether what is known about all jobs was.
    pub(crate) known_damaged: bool,
    /// What went wrong that must not, as far as it was seen at once.
    pub(crate) faults: Vec<Fault>,
    pub(crate) tally: Tally,
    trace: Trace,
    told: Option<Vec<String>>,
}

/// How far ahead of its time the machine is where that is broken on purpose, in milliseconds.
const HASTE_MS: i64 = 3_600_000;

/// Where something is in the queue: when it happens, and after what else at that time.
pub(crate) type Place = (u64, u64);

/// Something that happens at a moment.
#[derive(Debug)]
pub(crate) enum Occurrence {
    StartDaemon,
    Wake(u64),
    Sync(u64),
    Spawn(Spawn),
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
    /// How often what happened.
    pub tally: Tally,
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
        let whim = scenario.sabotage == Sabotage::Whim;
        let chance = if whim { RandomState::new().hash_one(scenario.seed) } else { 0 };
        let rng = Rng::new(scenario.seed ^ chance);
        World {
            plans: scenario.jobs.clone(),
            definitions: None,
            storage: Storage::new(&scenario),
            wall_offset_ms: scenario.begin_unix * 1_000,
            scenario,
            rng,
            time_ms: 0,
            boot: 1,
            booted_ms: 0,
            slept_ms: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            daemon: None,
            life: 0,
            processes: BTreeMap::new(),
            watched: BTreeSet::new(),
            unproven: BTreeSet::new(),
            witnesses: Vec::new(),
            witness_of: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            born_unix: 0,
            known_unix: None,
            in_doubt: BTreeSet::new(),
            stop_asked: false,
            clock_set: false,
            touched: BTreeSet::new(),
            crash_soon: None,
            crash_cuts_power: false,
            wall_max_ms: i64::MIN,
            settling: false,
            settled_unix: None,
            damaged: BTreeSet::new(),
            known_damaged: false,
            faults: Vec::new(),
            tally: Tally::default(),
            trace: Trace::default(),
            told: (tell == Tell::Everything).then(Vec::new),
        }
    }

    fn play(&mut self) {
        self.at(1_000, Occurrence::StartDaemon);
        if self.scenario.pace == Pace::Steady {
            let first = self.rng.between(2_000, 2_000 * self.scenario.fault_every_s);
            self.at(first, Occurrence::Fault);
        }
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
            self.note(format_args!("{occurrence:?}"));
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
            Occurrence::Spawn(spawn) => self.spawn(spawn),
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
        for run in &self.unproven {
            if let Some(at) = self.witness_of.get(run) {
                self.witnesses[*at].seen = false;
            }
        }
        self.tally.add_to(Happening::Executed, self.witnesses.len() as u64);
        self.tally.add_to(Happening::Daemon, self.life);
        self.tally.add_to(Happening::DiskError, self.storage.failed());
        for record in self.storage.records.values() {
            let outcomes = record.entries.values().map(|entry| entry.count.unwrap_or(1));
            self.tally.add_to(Happening::Outcome, outcomes.sum::<i64>() as u64);
        }
        let evidence = checker::Evidence {
            witnesses: &self.witnesses,
            records: &self.storage.records,
            active: self.storage.active(),
            settled: self.daemon.is_some(),
            end_unix: self.settled_unix.unwrap_or(self.scenario.begin_unix),
            first_unix: self.scenario.begin_unix + 1,
            begin_unix: self.known_unix.unwrap_or(i64::MAX),
        };
        let mut faults = checker::check(&evidence, &self.expectations());
        faults.append(&mut self.faults);
        if self.daemon.is_none() {
            faults.push(Fault::new("", "no daemon was alive at the end".to_owned()));
        }
        Outcome {
            faults,
            trace: self.trace.value(),
            tally: self.tally,
            story: self.told.unwrap_or_default(),
        }
    }

    /// The jobs as they are defined now.
    pub(crate) fn definitions(&mut self) -> Vec<Job> {
        let sabotage = self.scenario.sabotage;
        self.definitions.get_or_insert_with(|| definitions(&self.plans, sabotage)).clone()
    }

    /// The jobs.
    pub(crate) fn plans(&self) -> &[JobPlan] {
        &self.plans
    }

    /// The jobs, to be edited.
    pub(crate) fn plans_mut(&mut self) -> &mut [JobPlan] {
        self.definitions = None;
        &mut self.plans
    }

    /// Puts something into the queue.
    pub(crate) fn at(&mut self, at_ms: u64, occurrence: Occurrence) -> Place {
        self.sequence += 1;
        let place = (at_ms.max(self.time_ms), self.sequence);
        self.queue.insert(place, occurrence);
        place
    }

    /// Takes something out of the queue, if it is still there.
    pub(crate) fn take_back(&mut self, place: Place) {
        self.queue.remove(&place);
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

    /// What the machine is told.
    pub(crate) fn now(&self) -> Now {
        let haste_ms = if self.scenario.sabotage == Sabotage::HastyClock { HASTE_MS } else { 0 };
        let wall = second_of(self.wall_ms() + haste_ms);
        Now { wall, boot: Duration::from_millis(self.boot_ms()) }
    }

    pub(crate) fn wall(&self) -> UtcSecond {
        second_of(self.wall_ms())
    }

    pub(crate) fn message_delay(&mut self) -> u64 {
        let slow = self.rng.one_in(self.scenario.slow_one_in);
        if slow { self.rng.between(1_000, 90_000) } else { self.rng.between(1, 30) }
    }

    /// Takes something into the history.
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.take_in(self.time_ms, what);
        let wall = self.wall();
        if let Some(told) = &mut self.told {
            told.push(format!("{} {wall} {what}", self.time_ms));
        }
    }

    /// A command leaves its mark on the world.
    pub(crate) fn witness(&mut self, run: &RunId) {
        let (wall_ms, wall_max_ms) = (self.wall_ms(), self.wall_max_ms);
        let Some(process) = self.processes.get(run) else { return };
        self.witness_of.insert(run.clone(), self.witnesses.len());
        self.witnesses.push(Witness {
            run: run.to_string(),
            identity: process.identity.clone(),
            period: process.period.clone(),
            wall_unix: wall_ms.div_euclid(1_000),
            wall_max_unix: wall_max_ms.div_euclid(1_000),
            slept_s: (self.slept_ms - process.slept_ms).div_ceil(1_000) as i64,
            exit_code: None,
            seen: false,
        });
    }
}

fn second_of(wall_ms: i64) -> UtcSecond {
    UtcSecond::from_unix(wall_ms.div_euclid(1_000))
        .expect("the simulated clock stays within four digits")
}
