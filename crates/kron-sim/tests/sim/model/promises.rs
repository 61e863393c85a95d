//! What must hold in every state, and what must be possible in some.
//!
//! The promises look at the disk and at what really happened, never at what a process believes.
//! Whatever must happen in the end is asked of every *settled* state: one in which nothing but a
//! fault can happen any more. The model has no cycles, so every history without further faults
//! ends in one.

use stateright::Property;

use crate::model::steps::{Policy, Protocol, keys, run};
use crate::model::world::{
    Code, CodeTruth, Command, Document, Job, Life, Outcome, PERIODS, Record, Run, STARTS, Stage,
    Supervisor, Then, World, narrow,
};

pub(crate) const ONCE: &str = "a period is executed at most once";
pub(crate) const RECORDED: &str = "an execution is on disk before it happens, and stays there";
pub(crate) const MARK: &str = "the mark never moves back";
pub(crate) const PERMANENT: &str = "a recorded outcome is permanent";
pub(crate) const NOT_SILENT: &str = "no period is passed over without an outcome";
pub(crate) const TRUTHFUL: &str = "what ran is never recorded as not run";
pub(crate) const PROVEN: &str = "what provably never ran is never recorded as executed";
pub(crate) const CODE_KEPT: &str = "an exit code on disk stays on disk";
pub(crate) const CODE_ARRIVES: &str = "an exit code that a supervisor lived to report is recorded";
pub(crate) const NO_OVERLAP: &str = "forbid and replace never let two commands of a job overlap";
pub(crate) const LOCK: &str = "nothing but a daemon holds the lock";
pub(crate) const SETTLES: &str = "everything ends: no process, no gate and no period is left over";

pub(crate) fn promises() -> Vec<Property<Protocol>> {
    vec![
        Property::always(ONCE, |p, w| {
            each_period(p, w, |job, period| job.truth[period].executed.count_ones() <= 1)
        }),
        Property::always(RECORDED, |p, w| each_period(p, w, is_recorded)),
        Property::always(MARK, |p, w| jobs(p, w).iter().all(|job| !job.mark_moved_back)),
        Property::always(PERMANENT, |p, w| jobs(p, w).iter().all(|job| !job.outcome_changed)),
        Property::always(NOT_SILENT, |p, w| {
            each_document(p, w, |document, _, period| {
                let passed = usize::from(document.mark) > period;
                let told = document.outcome[period] != Outcome::Unhandled;
                !passed || told || document.active[period].is_some()
            })
        }),
        Property::always(TRUTHFUL, |p, w| {
            each_document(p, w, |document, job, period| {
                let denied = matches!(document.outcome[period], Outcome::Missed | Outcome::Skipped);
                !denied || job.truth[period].executed == 0
            })
        }),
        Property::always(PROVEN, |p, w| {
            each_document(p, w, |document, job, period| {
                let claimed = matches!(document.outcome[period], Outcome::Executed(_));
                let truth = &job.truth[period];
                !claimed || truth.executed != 0 || truth.unprovable
            })
        }),
        Property::always(CODE_KEPT, |p, w| {
            each_period(p, w, |job, period| {
                job.truth[period].code != CodeTruth::Durable
                    || job.file.durable.outcome[period] == Outcome::Executed(Code::Known)
                    || job.runs[period]
                        .iter()
                        .any(|run| run.record == Some(Record::Ended) && run.record_synced)
            })
        }),
        Property::always(CODE_ARRIVES, |p, w| {
            !is_settled(p, w)
                || each_period(p, w, |job, period| {
                    !matches!(job.truth[period].code, CodeTruth::Seen | CodeTruth::Durable)
                        || job.file.durable.outcome[period] == Outcome::Executed(Code::Known)
                })
        }),
        Property::always(NO_OVERLAP, |p, w: &World| {
            let executing = |job: &Job| {
                let runs = job.runs.as_flattened().iter();
                runs.filter(|run| run.command == Command::Executing).count()
            };
            p.policy == Policy::Allow || jobs(p, w).iter().all(|job| executing(job) <= 1)
        }),
        Property::always(LOCK, |p, w: &World| {
            w.daemons.iter().any(|life| *life != Life::Off) || p.lock_is_free(w)
        }),
        Property::always(SETTLES, |p, w| !is_settled(p, w) || ended_well(p, w)),
    ]
}

/// Situations without which the promises would be kept for want of anything happening.
pub(crate) fn reach(policy: Policy) -> Vec<Property<Protocol>> {
    let mut all: Vec<Property<Protocol>> = vec![
        Property::sometimes("a run completes with its exit code", |p, w: &World| {
            some_period(p, w, |job, period| {
                job.file.durable.outcome[period] == Outcome::Executed(Code::Known)
            })
        }),
        Property::sometimes("a running command is adopted", |p, w: &World| {
            some_watched(p, w, |run| run.supervisor.alive() && run.command == Command::Executing)
        }),
        Property::sometimes("a command is adopted whose supervisor is dead", |p, w: &World| {
            some_watched(p, w, |run| !run.supervisor.alive() && run.command == Command::Executing)
        }),
        Property::sometimes(
            "the exit code of an adopted run is taken from its record",
            |p, w: &World| {
                some_finish(p, w, |run, outcome| {
                    run.record == Some(Record::Ended) && outcome == Outcome::Executed(Code::Known)
                })
            },
        ),
        Property::sometimes("a run that really happened is lost", |p, w: &World| {
            some_period(p, w, |job, period| {
                let lost = job.file.durable.outcome[period] == Outcome::Executed(Code::Lost);
                lost && job.truth[period].executed != 0
            })
        }),
        Property::sometimes(
            "a run that never happened counts as lost, for want of proof",
            |p, w: &World| {
                some_period(p, w, |job, period| {
                    let lost = job.file.durable.outcome[period] == Outcome::Executed(Code::Lost);
                    lost && job.truth[period].executed == 0
                })
            },
        ),
        Property::sometimes(
            "a start that was not released is retried and executes",
            |p, w: &World| {
                some_period(p, w, |job, period| {
                    job.truth[period].given_back && job.truth[period].executed == 0b10
                })
            },
        ),
        Property::sometimes("a failed exec is read from its record", |p, w: &World| {
            some_finish(p, w, |run, _| run.record == Some(Record::ExecFailed))
        }),
        Property::sometimes("RELEASE is still unread when its daemon is gone", |p, w: &World| {
            keys(p.jobs).any(|key| {
                let run = run(w, key);
                run.release && run.peer.is_none() && run.supervisor == Supervisor::Gated
            })
        }),
        Property::sometimes("a period is missed", |p, w: &World| {
            some_period(p, w, |job, period| job.file.durable.outcome[period] == Outcome::Missed)
        }),
        Property::sometimes(
            "a killed daemon still holds the lock while its write lands",
            |_, w: &World| w.daemons.contains(&Life::Dying),
        ),
        Property::sometimes("a rename is visible that a power cut can undo", |p, w: &World| {
            let all_off = w.daemons.iter().all(|life| *life == Life::Off);
            all_off && jobs(p, w).iter().any(|job| job.file.visible != job.file.durable)
        }),
        Property::sometimes("everything is over", is_settled),
    ];
    all.push(match policy {
        Policy::Forbid => {
            Property::sometimes("a start that never ran turns out to be passed over", |p, w| {
                some_finish(p, w, |_, outcome| outcome == Outcome::Missed)
            })
        }
        Policy::Allow => Property::sometimes("two commands of a job overlap", |p, w| {
            jobs(p, w).iter().any(|job| {
                let executing = |period: &[Run; STARTS]| {
                    period.iter().any(|run| run.command == Command::Executing)
                };
                job.runs.iter().all(executing)
            })
        }),
        Policy::Replace => Property::sometimes("a run is replaced and its code kept", |p, w| {
            jobs(p, w).iter().any(|job| {
                job.file.durable.outcome[0] == Outcome::Executed(Code::Known)
                    && job.file.durable.replacing == Some(1)
                    && job.truth[1].executed == 0
            })
        }),
    });
    all
}

fn jobs<'w>(protocol: &Protocol, world: &'w World) -> &'w [Job] {
    &world.jobs[..protocol.jobs]
}

fn each_period(protocol: &Protocol, world: &World, holds: impl Fn(&Job, usize) -> bool) -> bool {
    jobs(protocol, world).iter().all(|job| (0..PERIODS).all(|period| holds(job, period)))
}

fn some_period(protocol: &Protocol, world: &World, holds: impl Fn(&Job, usize) -> bool) -> bool {
    jobs(protocol, world).iter().any(|job| (0..PERIODS).any(|period| holds(job, period)))
}

/// What anybody may come to read: what is visible now, and what a power cut would leave.
fn each_document(
    protocol: &Protocol,
    world: &World,
    holds: impl Fn(&Document, &Job, usize) -> bool,
) -> bool {
    each_period(protocol, world, |job, period| {
        holds(&job.file.visible, job, period) && holds(&job.file.durable, job, period)
    })
}

fn some_watched(protocol: &Protocol, world: &World, holds: impl Fn(&Run) -> bool) -> bool {
    some_period(protocol, world, |job, period| {
        job.memory.iter().filter_map(|memory| memory.track[period]).any(|track| {
            track.stage == Stage::Watching && holds(&job.runs[period][usize::from(track.start)])
        })
    })
}

fn some_finish(protocol: &Protocol, world: &World, holds: impl Fn(&Run, Outcome) -> bool) -> bool {
    some_period(protocol, world, |job, period| {
        job.memory.iter().any(|memory| match (memory.track[period], memory.write) {
            (Some(track), Some(write)) => {
                write.then == Then::Finish(narrow(period))
                    && holds(
                        &job.runs[period][usize::from(track.start)],
                        write.document.outcome[period],
                    )
            }
            _ => false,
        })
    })
}

/// In both documents, so that neither a reader nor a power cut finds an execution without a record.
fn is_recorded(job: &Job, period: usize) -> bool {
    (0..STARTS).filter(|start| job.truth[period].executed & (1 << start) != 0).all(|start| {
        [job.file.visible, job.file.durable].iter().all(|document| {
            let active = document.active[period].is_some_and(|named| usize::from(named) == start);
            active || matches!(document.outcome[period], Outcome::Executed(_) | Outcome::Closed)
        })
    })
}

/// Whether nothing but a fault can happen any more.
pub(crate) fn is_settled(protocol: &Protocol, world: &World) -> bool {
    // Most states are told apart by this alone, without listing their steps: each of these can
    // always go on.
    let writing = |job: &Job| {
        job.memory
            .iter()
            .zip(world.daemons)
            .any(|(memory, life)| life == Life::Running && memory.write.is_some())
    };
    let moving = |run: &Run| {
        matches!(
            run.supervisor,
            Supervisor::Started
                | Supervisor::Forked
                | Supervisor::Writing(_)
                | Supervisor::Renamed(_)
        ) || matches!(run.command, Command::Going | Command::Executing)
    };
    if jobs(protocol, world)
        .iter()
        .any(|job| writing(job) || job.runs.as_flattened().iter().any(moving))
    {
        return false;
    }
    let mut steps = Vec::new();
    protocol.offer_steps(world, &mut steps);
    steps.is_empty()
}

/// A daemon runs, every period has its final outcome, and nothing of any run is left.
fn ended_well(protocol: &Protocol, world: &World) -> bool {
    let running = world.daemons.contains(&Life::Running);
    let processes = keys(protocol.jobs)
        .any(|key| run(world, key).supervisor.alive() || run(world, key).command.alive());
    running
        && !processes
        && each_period(protocol, world, |job, period| {
            let document = &job.file.durable;
            let open = matches!(
                document.outcome[period],
                Outcome::Unhandled | Outcome::Executed(Code::Open)
            );
            !open
                && document.active[period].is_none()
                && document.replacing.is_none()
                && job.file.visible == *document
                && job.memory.iter().all(|memory| memory.track[period].is_none())
        })
}
