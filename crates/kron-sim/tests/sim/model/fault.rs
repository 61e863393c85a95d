//! What befalls the processes and the disk.
//!
//! A fault also tells the promises what it took away that nothing could have saved: an exit code
//! that only a killed supervisor knew, or the last proof that a start never ran.

use crate::model::daemon::make_durable;
use crate::model::slip::Slip;
use crate::model::steps::{Action, Key, Protocol, is_named, keys, run};
use crate::model::world::{
    Code, CodeTruth, Command, DAEMONS, Life, Memory, Outcome, PERIODS, Record, STARTS, Supervisor,
    Truth, World,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    KillDaemon {
        daemon: usize,
    },
    /// A write fails before or after its rename: krond exits 5, which closes every socket.
    FailWrite {
        daemon: usize,
        job: usize,
    },
    KillSupervisor(Key),
    KillCommand(Key),
    /// Each bit of `kept` says whether one unsynced rename had reached the disk by itself.
    CutPower {
        kept: u16,
    },
}

/// Something whose rename is visible and would not certainly survive a power cut.
#[derive(Clone, Copy)]
enum Unsynced {
    File(usize),
    Record(Key),
}

fn unsynced(protocol: &Protocol, world: &World) -> impl Iterator<Item = Unsynced> {
    let file = |job: &usize| world.jobs[*job].file.visible != world.jobs[*job].file.durable;
    let record = |key: &Key| run(world, *key).record.is_some() && !run(world, *key).record_synced;
    let files = (0..protocol.jobs).filter(file).map(Unsynced::File);
    files.chain(keys(protocol.jobs).filter(record).map(Unsynced::Record))
}

pub(crate) fn offer(protocol: &Protocol, world: &World, actions: &mut Vec<Action>) {
    let mut offer = |fault| actions.push(Action::Fault(fault));
    for daemon in 0..DAEMONS {
        if world.left.daemon == 0 || world.daemons[daemon] != Life::Running {
            continue;
        }
        offer(Fault::KillDaemon { daemon });
        let writing = |job: &usize| world.jobs[*job].memory[daemon].write.is_some();
        for job in (0..protocol.jobs).filter(writing) {
            offer(Fault::FailWrite { daemon, job });
        }
    }
    for key in keys(protocol.jobs) {
        if world.left.supervisor > 0 && run(world, key).supervisor.alive() {
            offer(Fault::KillSupervisor(key));
        }
        if world.left.command > 0 && run(world, key).command.alive() {
            offer(Fault::KillCommand(key));
        }
    }
    if world.left.power > 0 {
        for kept in 0..1_u16 << unsynced(protocol, world).count() {
            offer(Fault::CutPower { kept });
        }
    }
}

pub(crate) fn take(protocol: &Protocol, world: &mut World, fault: Fault) {
    match fault {
        Fault::KillDaemon { daemon } => kill_daemon(protocol, world, daemon),
        Fault::FailWrite { daemon, job } => {
            world.jobs[job].memory[daemon].write = None;
            kill_daemon(protocol, world, daemon);
        }
        Fault::KillSupervisor(key) => {
            world.left.supervisor -= 1;
            let peer = run(world, key).peer;
            let heard = peer.is_some_and(|peer| world.daemons[usize::from(peer)] == Life::Running);
            let job = &mut world.jobs[key.job];
            let named = is_named(job, key.period, key.start);
            let run = &mut job.runs[key.period][key.start];
            let truth = &mut job.truth[key.period];
            let before = std::mem::replace(&mut run.supervisor, Supervisor::Gone);
            run.killed = true;
            // A living daemon that has not sent RELEASE, or has the report in its socket, knows
            // enough; so does the disk once the record is visible.
            let told = heard && matches!(before, Supervisor::Reported(_));
            let unreleased = heard && before < Supervisor::LetGo && !run.release;
            if run.record.is_none() && !told {
                truth.unprovable |= named && !unreleased;
                excuse(truth);
            }
        }
        Fault::KillCommand(key) => {
            world.left.command -= 1;
            let job = &mut world.jobs[key.job];
            let run = &mut job.runs[key.period][key.start];
            run.command = match run.command {
                Command::Gated => Command::Fell,
                // To its supervisor this looks like an exec and an end by signal.
                Command::Going => {
                    job.truth[key.period].unprovable = true;
                    Command::Over
                }
                _ => Command::Over,
            };
        }
        Fault::CutPower { kept } => cut_power(protocol, world, kept),
    }
}

/// A killed daemon's files stay open until its last system call has returned.
fn kill_daemon(protocol: &Protocol, world: &mut World, daemon: usize) {
    world.left.daemon -= 1;
    let in_kernel = world.jobs[..protocol.jobs]
        .iter()
        .any(|job| job.memory[daemon].write.is_some_and(|write| !write.renamed));
    if in_kernel {
        world.daemons[daemon] = Life::Dying;
    } else {
        vanish(protocol, world, daemon);
    }
}

/// The daemon's last thread is gone. What it alone knew is lost.
pub(crate) fn vanish(protocol: &Protocol, world: &mut World, daemon: usize) {
    world.daemons[daemon] = Life::Off;
    for job in &mut world.jobs[..protocol.jobs] {
        job.memory[daemon] = Memory::default();
        for period in 0..PERIODS {
            for start in 0..STARTS {
                let named = is_named(job, period, start);
                let run = &mut job.runs[period][start];
                let truth = &mut job.truth[period];
                if run.killed && run.record.is_none() {
                    truth.unprovable |= named;
                    if job.file.visible.outcome[period] != Outcome::Executed(Code::Known) {
                        excuse(truth);
                    }
                }
                if run.peer.is_some_and(|peer| usize::from(peer) == daemon) {
                    run.peer = None;
                    if protocol.slips(Slip::SupervisorDiesWithDaemon) {
                        run.supervisor = Supervisor::Gone;
                    }
                }
            }
        }
    }
}

/// Every process is gone, and so is whatever had not reached the disk.
fn cut_power(protocol: &Protocol, world: &mut World, kept: u16) {
    world.left.power -= 1;
    let at_stake: Vec<Unsynced> = unsynced(protocol, world).collect();
    world.daemons = [Life::Off; DAEMONS];
    for key in keys(protocol.jobs) {
        let job = &mut world.jobs[key.job];
        let run = &mut job.runs[key.period][key.start];
        let told = run.record.is_some() && run.record_synced;
        if !told && (run.supervisor.alive() || run.killed || run.record.is_some()) {
            job.truth[key.period].unprovable |= is_named(job, key.period, key.start);
        }
        let run = &mut job.runs[key.period][key.start];
        if protocol.slips(Slip::PidWithoutBootId) && run.supervisor != Supervisor::Absent {
            run.stranger = true;
        }
        if run.supervisor.alive() {
            run.supervisor = Supervisor::Gone;
        }
        run.command = Command::Absent;
    }
    for (bit, unsynced) in at_stake.into_iter().enumerate() {
        let kept = kept & (1 << bit) != 0;
        match unsynced {
            Unsynced::File(job) if kept => {
                let job = &mut world.jobs[job];
                make_durable(job, job.file.visible);
            }
            Unsynced::File(job) => world.jobs[job].file.visible = world.jobs[job].file.durable,
            Unsynced::Record(key) => {
                let job = &mut world.jobs[key.job];
                let run = &mut job.runs[key.period][key.start];
                run.record = run.record.filter(|_| kept);
                run.record_synced = kept;
                if run.record == Some(Record::Ended) {
                    job.truth[key.period].code = CodeTruth::Durable;
                }
            }
        }
    }
    for job in &mut world.jobs[..protocol.jobs] {
        job.memory = [Memory::default(); DAEMONS];
        job.truth.iter_mut().for_each(excuse);
    }
}

fn excuse(truth: &mut Truth) {
    if truth.code == CodeTruth::Seen {
        truth.code = CodeTruth::Excused;
    }
}
