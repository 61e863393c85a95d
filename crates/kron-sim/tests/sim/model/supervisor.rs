//! What a supervisor does: fork, report, release, reap, and write `runs/<id>` when nobody listens.
//!
//! It knows its socket, its command, and nothing of the state files. A write of its own that fails
//! is tried again with a new file for as long as it lives, which changes nothing anybody can see;
//! so a failed write is not a step.

use crate::model::slip::Slip;
use crate::model::steps::{Action, Key, Protocol, keys, run};
use crate::model::world::{CodeTruth, Command, Record, Run, Sent, Supervisor, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Fork,
    Report,
    /// RELEASE is read and passed on to the gate.
    LetGo,
    /// krond is gone, or asks for the end, before the release: the command is killed and reaped.
    CallOff,
    /// The command died at its gate.
    SeeFall,
    SeeExec,
    SeeRefusal,
    /// SIGTERM: the command is ended.
    EndCommand,
    Reap,
    TakeAck,
    /// krond is gone and has not acknowledged the end.
    WriteInstead,
    RenameRecord,
    SyncRecord,
    /// Leaves without having written anything: when there is nothing to say, or by mistake.
    Leave,
    /// Only with [`Slip::EofMeansNotReleased`].
    MistakeEof,
}

/// Whether the supervisor sees the end of its socket. It may see it although a RELEASE is still to
/// be read: a peer that closes with something unread resets the connection.
fn sees_eof(protocol: &Protocol, world: &World, key: Key) -> bool {
    let held_by_others = protocol.slips(Slip::ForkKeepsOtherGates)
        && keys(protocol.jobs).any(|other| other != key && run(world, other).supervisor.alive());
    run(world, key).peer.is_none() && !held_by_others
}

pub(crate) fn offer(protocol: &Protocol, world: &World, key: Key, actions: &mut Vec<Action>) {
    let run = run(world, key);
    let mut offer = |step| actions.push(Action::Supervisor { key, step });
    let eof = sees_eof(protocol, world, key);
    match run.supervisor {
        Supervisor::Absent | Supervisor::Gone => {}
        Supervisor::Started => {
            offer(if eof { Step::Leave } else { Step::Fork });
        }
        Supervisor::Forked => {
            if eof {
                offer(Step::CallOff);
            } else if run.command == Command::Fell {
                offer(Step::Leave);
            } else {
                offer(Step::Report);
            }
        }
        Supervisor::Gated => {
            if eof || run.asked {
                offer(Step::CallOff);
            }
            if run.command == Command::Fell {
                offer(Step::SeeFall);
            } else if run.release {
                offer(Step::LetGo);
            }
        }
        Supervisor::LetGo => match run.command {
            Command::Executing | Command::Over => offer(Step::SeeExec),
            Command::Refused => offer(Step::SeeRefusal),
            Command::Absent | Command::Gated | Command::Fell | Command::Going => {}
        },
        Supervisor::Supervising => match run.command {
            Command::Over => offer(Step::Reap),
            _ if run.asked => offer(Step::EndCommand),
            _ => {}
        },
        Supervisor::Reported(record) => {
            if protocol.slips(Slip::FailureIsNotAcknowledged) && record != Record::Ended {
                offer(Step::Leave);
            }
            if run.ack {
                offer(Step::TakeAck);
            } else if eof {
                offer(Step::WriteInstead);
            }
        }
        Supervisor::Writing(_) => {
            offer(Step::RenameRecord);
            if protocol.slips(Slip::SupervisorGivesUp) {
                offer(Step::Leave);
            }
        }
        Supervisor::Renamed(_) => offer(Step::SyncRecord),
    }
    let let_go = matches!(run.supervisor, Supervisor::LetGo | Supervisor::Supervising);
    if protocol.slips(Slip::EofMeansNotReleased) && let_go && eof {
        offer(Step::MistakeEof);
    }
}

pub(crate) fn take(protocol: &Protocol, world: &mut World, key: Key, step: Step) {
    let deaf = sees_eof(protocol, world, key);
    let job = &mut world.jobs[key.job];
    let truth = &mut job.truth[key.period];
    let run = &mut job.runs[key.period][key.start];
    match step {
        Step::Fork => {
            run.command = Command::Gated;
            run.supervisor = Supervisor::Forked;
        }
        Step::Report => {
            run.sent = Sent::Armed;
            run.supervisor = Supervisor::Gated;
        }
        Step::LetGo => {
            run.release = false;
            run.command = Command::Going;
            run.supervisor = Supervisor::LetGo;
        }
        Step::CallOff => {
            run.command = Command::Absent;
            run.release = false;
            report(run, deaf, Sent::Failed, Record::NotReleased);
        }
        Step::SeeFall | Step::SeeRefusal => {
            run.command = Command::Absent;
            run.release = false;
            report(run, deaf, Sent::Failed, Record::ExecFailed);
        }
        Step::SeeExec => {
            run.supervisor = Supervisor::Supervising;
            run.sent = Sent::Executing;
        }
        Step::EndCommand => run.command = Command::Over,
        Step::Reap => {
            run.command = Command::Absent;
            if truth.code == CodeTruth::Unseen {
                truth.code = CodeTruth::Seen;
            }
            report(run, deaf, Sent::Ended, Record::Ended);
        }
        Step::WriteInstead => {
            if let Supervisor::Reported(record) = run.supervisor {
                run.supervisor = Supervisor::Writing(record);
            }
        }
        Step::RenameRecord => {
            if let Supervisor::Writing(record) = run.supervisor {
                run.record = Some(record);
                run.record_synced = false;
                run.supervisor = Supervisor::Renamed(record);
            }
        }
        Step::SyncRecord => {
            // The record may have been removed meanwhile; then there is nothing left to sync.
            run.record_synced = run.record.is_some();
            if run.record == Some(Record::Ended) {
                truth.code = CodeTruth::Durable;
            }
            run.supervisor = Supervisor::Gone;
        }
        Step::TakeAck | Step::Leave => run.supervisor = Supervisor::Gone,
        Step::MistakeEof => {
            run.command = Command::Absent;
            run.supervisor = Supervisor::Writing(Record::NotReleased);
        }
    }
}

/// Tells krond how it ended, or the disk if krond is not there.
fn report(run: &mut Run, deaf: bool, message: Sent, record: Record) {
    run.asked = false;
    if deaf {
        run.supervisor = Supervisor::Writing(record);
    } else {
        run.sent = message;
        run.supervisor = Supervisor::Reported(record);
    }
}
