//! The start, record and recover protocol of krond, checked exhaustively.
//!
//! This is a model, not the code: a small world of daemons, supervisors, commands, sockets and a
//! disk, in which every interleaving is tried and every process can die at every step. It asks
//! whether the *protocol* keeps its promises (`promises`); whether the code follows the protocol is
//! for the crash tests and the simulation to show. It shares nothing with the code, on purpose.
//!
//! # What is modelled
//!
//! - A state file for each job, replaced by issue → rename → sync of the directory. What is renamed
//!   and not synced is visible to every process and may or may not survive a power cut. One write
//!   for a job at a time; a write of a killed daemon that is in the kernel's hands may still land,
//!   and the lock is held until it has landed or not.
//! - A supervisor for each start, its command behind a gate, and the socket between it and krond.
//!   Messages stay readable after the death of who sent them, and a RELEASE that is in the socket
//!   when krond dies may be read or not. `runs/<id>` is renamed and synced like a state file.
//! - Evaluation of the current period on time or after its deadline, with forbid, allow or replace;
//!   failed execs; stalled starts; retries; recovery with supervisor and command each alive or dead.
//! - Faults, each up to a bound: kill krond, or fail one of its writes (it exits 5, which closes all
//!   its sockets); kill a supervisor; kill a command; cut the power; set the clock back.
//!
//! # What is not
//!
//! Torn files (the temporary file is synced before the rename), quarantine, reload, suspension,
//! manual runs and signals other than the one that replaces. Time is only "on time", "late" and
//! "the next period". A daemon that waits for the lock is one that starts later. A command ends by
//! itself sooner or later. A supervisor whose own write fails tries again as long as it lives.
//!
//! # Bounds
//!
//! Two periods for each job and two starts for each period, and the faults that each `Setting` lists.
//! `the_protocol_keeps_its_promises_deeply` goes further and takes minutes:
//! `cargo test --release -p kron-sim --test sim -- --ignored --nocapture`.
//!
//! # Canaries
//!
//! `slip` lists mistakes; for each the checker must find a history that breaks a stated promise.
//! How small the state was made (`Protocol::forget`, `close`, `jobs_are_independent`) is argued
//! where it is done; the canaries also show that nothing essential was dropped.

mod daemon;
mod fault;
mod promises;
mod slip;
mod steps;
mod supervisor;
mod world;

use std::collections::{BTreeSet, HashMap};

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::promises::{
    CODE_ARRIVES, CODE_KEPT, LOCK, MARK, NO_OVERLAP, NOT_SILENT, ONCE, PERMANENT, PROVEN, RECORDED,
    SETTLES, TRUTHFUL,
};
use crate::model::slip::Slip;
use crate::model::steps::{Policy, Protocol, Question, Starts};
use crate::model::world::{Faults, World};

/// One exhaustive check: its bounds, and how many states it must have explored to count.
struct Setting {
    name: &'static str,
    jobs: usize,
    policy: Policy,
    starts: Starts,
    faults: Faults,
    states_min: usize,
}

const fn faults(daemon: u8, supervisor: u8, command: u8, power: u8, clock: u8) -> Faults {
    Faults { daemon, supervisor, command, power, clock }
}

// Checked by every run of the suite, each by a test of its own, so that they run side by side. With
// two jobs a start fails only through a fault: what a job does by itself is the same as alone.

const FORBID: Setting = Setting {
    name: "one job, forbid",
    jobs: 1,
    policy: Policy::Forbid,
    starts: Starts::MayFail,
    faults: faults(2, 1, 1, 1, 0),
    states_min: 1_300_000,
};

const FORBID_CLOCK_SET_BACK: Setting = Setting {
    name: "one job, forbid, the clock set back",
    jobs: 1,
    policy: Policy::Forbid,
    starts: Starts::MayFail,
    faults: faults(1, 1, 0, 1, 1),
    states_min: 400_000,
};

const ALLOW: Setting = Setting {
    name: "one job, allow",
    jobs: 1,
    policy: Policy::Allow,
    starts: Starts::MayFail,
    faults: faults(1, 1, 0, 1, 0),
    states_min: 600_000,
};

const REPLACE: Setting = Setting {
    name: "one job, replace",
    jobs: 1,
    policy: Policy::Replace,
    starts: Starts::MayFail,
    faults: faults(1, 1, 1, 1, 0),
    states_min: 600_000,
};

const TWO_JOBS_CRASH_AND_POWER_CUT: Setting = Setting {
    name: "two jobs, a crash and a power cut",
    jobs: 2,
    policy: Policy::Forbid,
    starts: Starts::Smooth,
    faults: faults(1, 0, 0, 1, 0),
    states_min: 3_000_000,
};

const TWO_JOBS_KILLED_SUPERVISOR: Setting = Setting {
    name: "two jobs, a killed supervisor",
    jobs: 2,
    policy: Policy::Forbid,
    starts: Starts::Smooth,
    faults: faults(0, 1, 0, 0, 0),
    states_min: 100_000,
};

/// Checked on demand.
const DEEP: [Setting; 4] = [
    Setting {
        name: "one job, forbid, deep",
        jobs: 1,
        policy: Policy::Forbid,
        starts: Starts::MayFail,
        faults: faults(2, 1, 1, 2, 1),
        states_min: 5_000_000,
    },
    Setting {
        name: "one job, allow, deep",
        jobs: 1,
        policy: Policy::Allow,
        starts: Starts::MayFail,
        faults: faults(2, 1, 1, 1, 0),
        states_min: 5_000_000,
    },
    Setting {
        name: "one job, replace, deep",
        jobs: 1,
        policy: Policy::Replace,
        starts: Starts::MayFail,
        faults: faults(2, 1, 1, 1, 1),
        states_min: 3_000_000,
    },
    Setting {
        name: "two jobs, deep",
        jobs: 2,
        policy: Policy::Forbid,
        starts: Starts::Smooth,
        faults: faults(1, 1, 0, 1, 0),
        states_min: 5_000_000,
    },
];

/// What a check found.
struct Findings {
    states: usize,
    depth: usize,
    /// Properties for which an example or a counterexample was found, with its steps.
    found: HashMap<&'static str, String>,
}

impl Setting {
    fn protocol(&self, question: Question) -> Protocol {
        Protocol {
            jobs: self.jobs,
            policy: self.policy,
            faults: self.faults,
            slip: None,
            starts: self.starts,
            question,
        }
    }

    /// Explores every state and fails with the steps to the first broken promise.
    fn check(&self) {
        let findings = explore(self.protocol(Question::Promises), HasDiscoveries::AnyFailures);
        if let Some((promise, steps)) = findings.found.iter().next() {
            panic!("{}: broken: {promise}\n{steps}", self.name);
        }
        assert!(
            findings.states >= self.states_min,
            "{}: only {} states were explored, expected at least {}",
            self.name,
            findings.states,
            self.states_min
        );
        println!("{}: {} states, depth {}", self.name, findings.states, findings.depth);
    }
}

fn explore(protocol: Protocol, until: HasDiscoveries) -> Findings {
    let checker = protocol.checker().finish_when(until).spawn_bfs().join();
    let found = checker
        .discoveries()
        .into_iter()
        .map(|(name, path)| {
            let steps = path.into_actions().into_iter().map(|action| format!("  {action:?}\n"));
            (name, steps.collect())
        })
        .collect();
    Findings { states: checker.unique_state_count(), depth: checker.max_depth(), found }
}

#[test]
fn the_protocol_keeps_its_promises_with_forbid() {
    FORBID.check();
}

#[test]
fn the_protocol_keeps_its_promises_when_the_clock_is_set_back() {
    FORBID_CLOCK_SET_BACK.check();
}

#[test]
fn the_protocol_keeps_its_promises_with_allow() {
    ALLOW.check();
}

#[test]
fn the_protocol_keeps_its_promises_with_replace() {
    REPLACE.check();
}

#[test]
fn the_protocol_keeps_its_promises_to_two_jobs_in_a_crash_and_a_power_cut() {
    TWO_JOBS_CRASH_AND_POWER_CUT.check();
}

#[test]
fn the_protocol_keeps_its_promises_to_two_jobs_when_a_supervisor_is_killed() {
    TWO_JOBS_KILLED_SUPERVISOR.check();
}

#[test]
#[ignore = "takes minutes; the documented deep check"]
fn the_protocol_keeps_its_promises_deeply() {
    for setting in &DEEP {
        setting.check();
    }
}

/// Promises about a world in which nothing happens would be worthless.
#[test]
fn everything_that_the_promises_are_about_can_happen() {
    const STATES_MIN: usize = 50_000;
    for policy in [Policy::Forbid, Policy::Allow, Policy::Replace] {
        let protocol = Protocol {
            jobs: 1,
            policy,
            faults: faults(1, 1, 0, 1, 0),
            slip: None,
            starts: Starts::MayFail,
            question: Question::Reach,
        };
        let wanted: BTreeSet<_> =
            protocol.properties().iter().map(|property| property.name).collect();
        let findings = explore(protocol, HasDiscoveries::All);
        let found: BTreeSet<_> = findings.found.keys().copied().collect();
        assert_eq!(found, wanted, "{policy:?}: not everything can happen");
        assert!(findings.states >= STATES_MIN, "{policy:?}: only {} states", findings.states);
        println!("{policy:?}: {} situations in {} states", found.len(), findings.states);
    }
}

/// What must happen in the end is asked only where nothing more can happen. That means something
/// only if every history comes to such an end, that is if no state can come back.
#[test]
fn no_history_goes_round_in_circles() {
    const STATES_MIN: usize = 20_000;
    for policy in [Policy::Forbid, Policy::Allow, Policy::Replace] {
        let protocol = Protocol {
            jobs: 1,
            policy,
            faults: faults(1, 0, 0, 0, 1),
            slip: None,
            starts: Starts::MayFail,
            question: Question::Promises,
        };
        // Whether a state is done, or on the path that is being followed.
        let mut seen: HashMap<World, bool> = HashMap::new();
        let mut path: Vec<(World, Vec<World>)> = Vec::new();
        for first in protocol.init_states() {
            seen.insert(first, false);
            path.push((first, protocol.next_states(&first)));
        }
        while let Some((world, ahead)) = path.last_mut() {
            match ahead.pop() {
                None => {
                    seen.insert(*world, true);
                    path.pop();
                }
                Some(next) => match seen.get(&next) {
                    Some(true) => {}
                    Some(false) => panic!("{policy:?}: this state comes back: {next:?}"),
                    None => {
                        seen.insert(next, false);
                        path.push((next, protocol.next_states(&next)));
                    }
                },
            }
        }
        assert!(seen.len() >= STATES_MIN, "{policy:?}: only {} states", seen.len());
        println!("{policy:?}: {} states, no circle", seen.len());
    }
}

/// The least faults with which each mistake must show, and the promise that it breaks.
const CANARIES: [(Slip, Faults, &str); 30] = [
    (Slip::RecordAfterStart, faults(1, 0, 0, 0, 0), RECORDED),
    (Slip::RecordAfterStart, faults(1, 0, 0, 0, 0), ONCE),
    (Slip::RenameIsDurable, faults(0, 0, 0, 1, 0), RECORDED),
    (Slip::RenameIsDurable, faults(0, 0, 0, 1, 0), ONCE),
    (Slip::MarkMovesBack, faults(0, 0, 0, 0, 0), MARK),
    (Slip::MarkMovesBack, faults(0, 0, 0, 0, 0), PERMANENT),
    (Slip::AbsenceMeansNeverStarted, faults(0, 1, 0, 0, 0), ONCE),
    (Slip::RecordIsReadEarly, faults(1, 0, 0, 0, 0), CODE_ARRIVES),
    (Slip::RecordIsReadEarly, faults(1, 0, 0, 0, 0), PROVEN),
    (Slip::OverWithoutTheCommand, faults(0, 1, 0, 0, 0), NO_OVERLAP),
    (Slip::GateOpensAtEof, faults(0, 1, 0, 0, 0), RECORDED),
    (Slip::GateNeverSeesEof, faults(0, 1, 0, 0, 0), SETTLES),
    (Slip::EofMeansNotReleased, faults(1, 0, 0, 0, 0), ONCE),
    (Slip::ForkKeepsTheLock, faults(1, 0, 0, 0, 0), LOCK),
    (Slip::ForkKeepsOtherGates, faults(1, 0, 0, 0, 0), SETTLES),
    (Slip::SupervisorDiesWithDaemon, faults(1, 0, 0, 0, 0), CODE_ARRIVES),
    (Slip::NoLock, faults(0, 0, 0, 0, 0), ONCE),
    (Slip::LockEndsBeforeWrites, faults(1, 0, 0, 0, 0), RECORDED),
    (Slip::AcknowledgedEarly, faults(1, 0, 0, 0, 0), CODE_ARRIVES),
    (Slip::FailureIsNotAcknowledged, faults(1, 0, 0, 0, 0), PROVEN),
    (Slip::SupervisorGivesUp, faults(1, 0, 0, 0, 0), CODE_ARRIVES),
    (Slip::SocketIsNotDrained, faults(0, 1, 0, 0, 0), CODE_ARRIVES),
    (Slip::RecordIsRemovedEarly, faults(2, 0, 0, 0, 0), CODE_KEPT),
    (Slip::NotSyncedAtOpening, faults(1, 0, 0, 1, 0), CODE_KEPT),
    (Slip::RunIdIsReused, faults(1, 1, 0, 0, 0), RECORDED),
    (Slip::JudgedDuringAStart, faults(0, 0, 0, 0, 0), TRUTHFUL),
    (Slip::SupersededIsWrittenLater, faults(0, 0, 0, 0, 0), NOT_SILENT),
    (Slip::PassedOverIsForgotten, faults(0, 0, 0, 0, 0), NOT_SILENT),
    (Slip::ActiveIsSuperseded, faults(0, 0, 0, 0, 0), TRUTHFUL),
    (Slip::PidWithoutBootId, faults(0, 0, 0, 1, 0), SETTLES),
];

#[test]
fn every_mistake_is_found() {
    const STATES_MIN: usize = 1_000;
    for (slip, faults, promise) in CANARIES {
        // Other runs' gates need another run.
        let jobs = if slip == Slip::ForkKeepsOtherGates { 2 } else { 1 };
        let protocol = Protocol {
            jobs,
            policy: Policy::Forbid,
            faults,
            slip: Some(slip),
            starts: if jobs == 1 { Starts::MayFail } else { Starts::Smooth },
            question: Question::Promises,
        };
        let findings = explore(protocol, HasDiscoveries::AnyOf(BTreeSet::from([promise])));
        let Some(steps) = findings.found.get(promise) else {
            panic!("{slip:?} goes unnoticed in {} states: {promise}", findings.states);
        };
        assert!(findings.states >= STATES_MIN, "{slip:?}: only {} states", findings.states);
        println!("{slip:?} breaks “{promise}”, {} states:\n{steps}", findings.states);
    }
}
