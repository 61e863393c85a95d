//! What krond does: evaluate, start, record, release, finish, and recover.
//!
//! A daemon knows the state files, its own memory, what its sockets say, and whether a process that
//! it names by (boot id, PID, start time) is alive. It makes one write for a job at a time, each a
//! change of what the state file says.

use crate::model::slip::Slip;
use crate::model::steps::{Action, Key, Policy, Protocol, Starts, run};
use crate::model::world::{
    Code, CodeTruth, Document, Job, Life, Memory, Outcome, PERIODS, Record, Run, STARTS, Sent,
    Stage, Supervisor, TIME_LAST, Then, Track, World, Write, due, narrow,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The current period falls to be judged: it is started, or an outcome is written.
    Spawn {
        at: u8,
    },
    Record {
        at: u8,
        outcome: Outcome,
    },
    /// `Replacing` is written, before the first signal.
    BeginReplacing {
        at: u8,
    },
    /// SIGTERM to the supervisor of a run that is to be replaced.
    Ask {
        period: usize,
    },
    /// `Armed` is read and write 1 issued.
    Arm {
        period: usize,
    },
    Release {
        period: usize,
    },
    /// The start took too long: it is called off and the period is missed.
    Stall {
        period: usize,
    },
    /// `Executing` is read and write 2 issued.
    Confirm {
        period: usize,
    },
    /// `Ended` is read and write 3 issued.
    Finish {
        period: usize,
    },
    /// It is known first-hand that the command never ran: the write that says so is issued.
    GiveBack {
        period: usize,
    },
    /// The socket is closed and everything in it has been read.
    LoseSocket {
        period: usize,
    },
    /// Both processes are gone: the record is read and the write that ends the run issued.
    Settle {
        period: usize,
    },
    /// A record that no state file names is removed.
    Sweep {
        period: usize,
        start: usize,
    },
    Rename,
    Sync,
}

/// Takes the lock, makes sure that what can be read is durable, and follows every active run.
pub(crate) fn start(protocol: &Protocol, world: &mut World, daemon: usize) {
    world.daemons[daemon] = Life::Running;
    for job in &mut world.jobs[..protocol.jobs] {
        if !protocol.slips(Slip::NotSyncedAtOpening) {
            make_durable(job, job.file.visible);
        }
        let watch = |start| Track { start, stage: Stage::Watching };
        let track = job.file.visible.active.map(|active| active.map(watch));
        job.memory[daemon] = Memory { write: None, track };
    }
}

pub(crate) fn offer(
    protocol: &Protocol,
    world: &World,
    daemon: usize,
    job: usize,
    actions: &mut Vec<Action>,
) {
    let mut offer = |step| actions.push(Action::Daemon { daemon, job, step });
    let memory = &world.jobs[job].memory[daemon];
    let idle = match memory.write {
        None => true,
        Some(write) => {
            offer(if write.renamed { Step::Sync } else { Step::Rename });
            false
        }
    };
    // Nothing but an evaluation looks at the clock, so that is when time passes.
    let from = if world.left.clock > 0 { 0 } else { world.jobs[job].time };
    if idle {
        for at in from..=TIME_LAST {
            evaluate(protocol, &world.jobs[job], daemon, at, &mut offer);
        }
    }
    for period in 0..PERIODS {
        if let Some(track) = memory.track[period] {
            let key = Key { job, period, start: usize::from(track.start) };
            follow(protocol, world, key, track.stage, idle, &mut offer);
        }
        for start in 0..STARTS {
            if idle && is_superfluous(&world.jobs[job], period, start) {
                offer(Step::Sweep { period, start });
            }
        }
    }
}

/// Judges the period that is current at a time, and it only.
fn evaluate(protocol: &Protocol, job: &Job, daemon: usize, at: u8, offer: &mut impl FnMut(Step)) {
    let (period, on_time) = due(at);
    let document = &job.file.visible;
    let memory = &job.memory[daemon];
    let handled = usize::from(document.mark) > period;
    if handled || document.active[period].is_some() || memory.track[period].is_some() {
        return;
    }
    // Until the start of another period has a durable record, nothing may be written that relies
    // on it: a crash would leave the other period passed over without an outcome.
    let starting = memory.track.iter().flatten().any(|track| track.stage == Stage::Spawned);
    if starting && !protocol.slips(Slip::JudgedDuringAStart) {
        return;
    }
    let others = (0..PERIODS).any(|other| {
        other != period && (document.active[other].is_some() || memory.track[other].is_some())
    });
    // A replacement that has begun was judged then, and is not judged again.
    let replacing = document.replacing == Some(narrow(period));
    let starts_left = usize::from(job.starts[period]) < STARTS;
    let in_time = on_time || (replacing && starts_left);
    if !in_time {
        offer(Step::Record { at, outcome: Outcome::Missed });
    } else if others && protocol.policy == Policy::Forbid {
        offer(Step::Record { at, outcome: Outcome::Skipped });
    } else if others && protocol.policy == Policy::Replace {
        if !replacing {
            offer(Step::BeginReplacing { at });
        }
    } else if starts_left {
        offer(Step::Spawn { at });
    }
}

/// What can be done next about a run.
fn follow(
    protocol: &Protocol,
    world: &World,
    key: Key,
    stage: Stage,
    idle: bool,
    offer: &mut impl FnMut(Step),
) {
    let run = run(world, key);
    let period = key.period;
    let document = &world.jobs[key.job].file.visible;
    let alive = run.supervisor.alive();
    let may_fail = protocol.starts == Starts::MayFail;
    let undrained = protocol.slips(Slip::SocketIsNotDrained);
    match stage {
        Stage::Spawned => {
            if idle && run.sent != Sent::Nothing {
                offer(Step::Arm { period });
            }
            if idle && may_fail {
                offer(Step::Stall { period });
            }
            if !alive && run.sent == Sent::Nothing {
                offer(Step::LoseSocket { period });
            }
        }
        Stage::Arming | Stage::Finishing => {}
        Stage::Ready => {
            if alive {
                offer(Step::Release { period });
            }
            if idle && may_fail {
                offer(Step::Stall { period });
            }
            if idle {
                // RELEASE was never sent, so a dead supervisor is as good as a failed start.
                if !alive || run.sent == Sent::Failed {
                    offer(Step::GiveBack { period });
                }
            }
        }
        Stage::Released | Stage::Confirmed => {
            if idle && stage == Stage::Released {
                match run.sent {
                    Sent::Failed => offer(Step::GiveBack { period }),
                    Sent::Executing | Sent::Ended => offer(Step::Confirm { period }),
                    Sent::Nothing | Sent::Armed => {}
                }
                let unrecorded = document.active[period].is_none();
                if protocol.slips(Slip::RecordAfterStart) && unrecorded {
                    offer(Step::Arm { period });
                }
            }
            if idle && run.sent == Sent::Ended {
                offer(Step::Finish { period });
            }
            let drained = match stage {
                Stage::Released => matches!(run.sent, Sent::Nothing | Sent::Armed),
                _ => run.sent != Sent::Ended,
            };
            if !alive && (drained || undrained) {
                offer(Step::LoseSocket { period });
            }
        }
        Stage::Watching => {
            let supervised = alive || run.stranger;
            let over = match protocol.slip {
                Some(Slip::RecordIsReadEarly) => true,
                Some(Slip::OverWithoutTheCommand) => !supervised,
                _ => !supervised && !run.command.alive(),
            };
            if idle && over {
                offer(Step::Settle { period });
            }
        }
    }
    let replaced = document.replacing.is_some_and(|by| usize::from(by) != period);
    let in_progress = matches!(stage, Stage::Released | Stage::Confirmed | Stage::Watching);
    if replaced && in_progress && alive && !run.asked {
        offer(Step::Ask { period });
    }
}

/// Whether a sweep would remove this record while a power cut could still bring back the state file
/// that names it. A record that nothing names at all is forgotten without a step.
fn is_superfluous(job: &Job, period: usize, start: usize) -> bool {
    let start_named = |document: &Document| {
        document.active[period].is_some_and(|named| usize::from(named) == start)
    };
    job.runs[period][start].record.is_some()
        && !start_named(&job.file.visible)
        && start_named(&job.file.durable)
}

pub(crate) fn take(protocol: &Protocol, world: &mut World, daemon: usize, job: usize, step: Step) {
    let slip = protocol.slip;
    let job = &mut world.jobs[job];
    if let Step::Spawn { at } | Step::Record { at, .. } | Step::BeginReplacing { at } = step {
        world.left.clock -= u8::from(at < job.time);
        job.time = at;
    }
    match step {
        Step::Spawn { at } => {
            let (period, _) = due(at);
            let start = job.starts[period];
            job.starts[period] += 1;
            job.runs[period][usize::from(start)] = Run {
                supervisor: Supervisor::Started,
                peer: Some(narrow(daemon)),
                ..Run::default()
            };
            job.memory[daemon].track[period] = Some(Track { start, stage: Stage::Spawned });
        }
        Step::Record { at, outcome } => {
            let (period, _) = due(at);
            issue(job, daemon, Then::Nothing, |doc| doc.not_run(period, outcome, slip));
        }
        Step::BeginReplacing { at } => {
            let (period, _) = due(at);
            issue(job, daemon, Then::Nothing, |doc| doc.replacing = Some(narrow(period)));
        }
        Step::Ask { period } => tracked_run(job, daemon, period).asked = true,
        Step::Arm { period } => arm(protocol, job, daemon, period),
        Step::Release { period } => {
            tracked_run(job, daemon, period).release = true;
            set_stage(job, daemon, period, Stage::Released);
        }
        Step::Stall { period } => {
            tracked_run(job, daemon, period).peer = None;
            job.memory[daemon].track[period] = None;
            issue(job, daemon, Then::Nothing, |doc| {
                doc.not_run(period, Outcome::Missed, slip);
            });
        }
        Step::Confirm { period } => {
            set_stage(job, daemon, period, Stage::Confirmed);
            issue(job, daemon, Then::Nothing, |doc| {
                doc.executed(period, Code::Open, slip);
            });
        }
        Step::Finish { period } => {
            if protocol.slips(Slip::AcknowledgedEarly) {
                tracked_run(job, daemon, period).ack = true;
            }
            finish(job, daemon, period, |doc| doc.executed(period, Code::Known, slip));
        }
        Step::GiveBack { period } => {
            finish(job, daemon, period, |doc| doc.never_ran(period, slip));
        }
        Step::LoseSocket { period } => {
            let watching = Track { stage: Stage::Watching, ..track(job, daemon, period) };
            let unarmed = track(job, daemon, period).stage == Stage::Spawned;
            job.memory[daemon].track[period] = (!unarmed).then_some(watching);
        }
        Step::Settle { period } => settle(protocol, job, daemon, period),
        Step::Sweep { period, start } => job.runs[period][start].record = None,
        Step::Rename => {
            if let Some(write) = &mut job.memory[daemon].write {
                write.renamed = true;
                job.file.visible = write.document;
            }
            if protocol.slips(Slip::RenameIsDurable) {
                complete(job, daemon);
            }
        }
        Step::Sync => {
            if let Some(write) = job.memory[daemon].write {
                make_durable(job, write.document);
            }
            complete(job, daemon);
        }
    }
}

fn arm(protocol: &Protocol, job: &mut Job, daemon: usize, period: usize) {
    let Track { start, stage } = track(job, daemon, period);
    if protocol.slips(Slip::RecordAfterStart) && stage == Stage::Spawned {
        set_stage(job, daemon, period, Stage::Ready);
        return;
    }
    let then = if stage == Stage::Spawned {
        set_stage(job, daemon, period, Stage::Arming);
        Then::Arm(narrow(period))
    } else {
        Then::Nothing
    };
    issue(job, daemon, then, |doc| doc.arm(period, start));
}

/// What a record, or its absence, says about a run whose processes are gone.
fn settle(protocol: &Protocol, job: &mut Job, daemon: usize, period: usize) {
    let slip = protocol.slip;
    let record = if protocol.slips(Slip::RunIdIsReused) {
        job.runs[period].iter().find_map(|run| run.record)
    } else {
        tracked_run(job, daemon, period).record
    };
    if protocol.slips(Slip::RecordIsRemovedEarly) {
        tracked_run(job, daemon, period).record = None;
    }
    finish(job, daemon, period, |doc| match record {
        Some(Record::NotReleased | Record::ExecFailed) => doc.never_ran(period, slip),
        Some(Record::Ended) => doc.executed(period, Code::Known, slip),
        None if slip == Some(Slip::AbsenceMeansNeverStarted) => doc.never_ran(period, slip),
        None => doc.executed(period, Code::Lost, slip),
    });
}

fn finish(job: &mut Job, daemon: usize, period: usize, change: impl FnOnce(&mut Document)) {
    set_stage(job, daemon, period, Stage::Finishing);
    issue(job, daemon, Then::Finish(narrow(period)), change);
}

fn issue(job: &mut Job, daemon: usize, then: Then, change: impl FnOnce(&mut Document)) {
    let mut document = job.file.visible;
    change(&mut document);
    job.memory[daemon].write = Some(Write { document, then, renamed: false });
}

/// Does what waited for a write.
fn complete(job: &mut Job, daemon: usize) {
    let Some(write) = job.memory[daemon].write.take() else { return };
    match write.then {
        Then::Nothing => {}
        Then::Arm(period) => set_stage(job, daemon, usize::from(period), Stage::Ready),
        Then::Finish(period) => {
            let period = usize::from(period);
            let run = tracked_run(job, daemon, period);
            let given_back = run.record == Some(Record::NotReleased);
            run.ack = run.peer.is_some();
            run.peer = None;
            run.record = None;
            job.truth[period].given_back |= given_back;
            job.memory[daemon].track[period] = None;
        }
    }
}

/// A document reaches the disk; the promises compare it with what was there.
pub(crate) fn make_durable(job: &mut Job, document: Document) {
    let before = std::mem::replace(&mut job.file.durable, document);
    job.mark_moved_back |= document.mark < before.mark;
    for period in 0..PERIODS {
        job.outcome_changed |= match (before.outcome[period], document.outcome[period]) {
            (Outcome::Unhandled, _) | (Outcome::Executed(Code::Open), Outcome::Executed(_)) => {
                false
            }
            (old, new) => old != new,
        };
        let truth = &mut job.truth[period];
        let known = document.outcome[period] == Outcome::Executed(Code::Known);
        if known && truth.code != CodeTruth::Unseen {
            truth.code = CodeTruth::Durable;
        }
    }
}

fn track(job: &Job, daemon: usize, period: usize) -> Track {
    job.memory[daemon].track[period].expect("the step was offered for a tracked run")
}

fn set_stage(job: &mut Job, daemon: usize, period: usize, stage: Stage) {
    job.memory[daemon].track[period] = Some(Track { stage, ..track(job, daemon, period) });
}

fn tracked_run(job: &mut Job, daemon: usize, period: usize) -> &mut Run {
    let start = usize::from(track(job, daemon, period).start);
    &mut job.runs[period][start]
}
