//! The world of the model: what is on disk, what each process knows, what is in flight.
//!
//! Everything here is plain data without behaviour of its own, small enough to be copied, compared
//! and hashed millions of times. The steps are in `steps`, the promises in `promises`.

use std::hash::{Hash, Hasher};

use crate::model::slip::Slip;

/// Jobs that the state has room for; a setting uses one or both.
pub(crate) const JOBS: usize = 2;
/// Periods of each job.
pub(crate) const PERIODS: usize = 2;
/// Starts that may be attempted for one period: the first, and a retry.
pub(crate) const STARTS: usize = 2;
/// Daemons that could run at once if the lock did not forbid it.
pub(crate) const DAEMONS: usize = 2;
/// The last moment of the modelled time.
pub(crate) const TIME_LAST: u8 = 3;

/// What one state file says, as far as the protocol depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Document {
    /// `LastHandledPeriodID`: 0 for none, else the number of a period (from 1).
    pub(crate) mark: u8,
    /// `ActiveExecution` and `OtherActive`: for each period, the start whose run is active.
    pub(crate) active: [Option<u8>; PERIODS],
    /// `Replacing`: the index of the period whose replacement has begun.
    pub(crate) replacing: Option<u8>,
    /// `History`: what is recorded of each period.
    pub(crate) outcome: [Outcome; PERIODS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Outcome {
    #[default]
    Unhandled,
    Executed(Code),
    Missed,
    Skipped,
    /// One of the final ones, checked and done with; see `Protocol::close`.
    Closed,
}

/// The exit code in a history entry. Its value does not matter, only whether it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Code {
    /// The run has not ended.
    Open,
    Known,
    Lost,
}

impl Document {
    /// Write 1: the gate is armed.
    pub(crate) fn arm(&mut self, period: usize, start: u8) {
        self.active[period] = Some(start);
        self.replacing = None;
    }

    /// Writes 2 and 3: the command was executed, and its exit code is open, known or lost.
    pub(crate) fn executed(&mut self, period: usize, code: Code, slip: Option<Slip>) {
        self.outcome[period] = Outcome::Executed(code);
        if code != Code::Open {
            self.active[period] = None;
        }
        self.advance(period, slip);
    }

    /// It is proven that the command never ran: the period is unhandled again, unless a later one
    /// was handled meanwhile. Then it would never be looked at again, and gets its outcome now.
    pub(crate) fn never_ran(&mut self, period: usize, slip: Option<Slip>) {
        self.active[period] = None;
        let passed_over = usize::from(self.mark) > period;
        if passed_over
            && self.outcome[period] == Outcome::Unhandled
            && slip != Some(Slip::PassedOverIsForgotten)
        {
            self.outcome[period] = Outcome::Missed;
        }
    }

    /// An outcome of a period that does not run.
    pub(crate) fn not_run(&mut self, period: usize, outcome: Outcome, slip: Option<Slip>) {
        self.active[period] = None;
        self.outcome[period] = outcome;
        self.advance(period, slip);
    }

    /// Moves the mark, never back, and in the same write gives every period that it passes its
    /// outcome: later nobody would look at them again.
    fn advance(&mut self, period: usize, slip: Option<Slip>) {
        let number = narrow(period + 1);
        self.mark = if slip == Some(Slip::MarkMovesBack) { number } else { self.mark.max(number) };
        if self.replacing.is_some_and(|by| usize::from(by) <= period) {
            self.replacing = None;
        }
        if slip == Some(Slip::SupersededIsWrittenLater) {
            return;
        }
        for older in 0..period {
            let active = self.active[older].is_some() && slip != Some(Slip::ActiveIsSuperseded);
            if self.outcome[older] == Outcome::Unhandled && !active {
                self.outcome[older] = Outcome::Missed;
            }
        }
    }
}

/// One state file: what a reader sees, and what a power cut leaves for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StateFile {
    pub(crate) visible: Document,
    pub(crate) durable: Document,
}

/// What a supervisor wrote to `runs/<id>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Record {
    NotReleased,
    ExecFailed,
    Ended,
}

/// How far a supervisor has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Supervisor {
    /// Never started, or gone and of no further interest.
    #[default]
    Absent,
    Started,
    /// The command is forked and waits at its gate; nothing has been reported.
    Forked,
    /// `Armed` is sent.
    Gated,
    /// RELEASE is read and passed on to the gate.
    LetGo,
    /// The exec is confirmed.
    Supervising,
    /// The end was sent to krond, which has not acknowledged it.
    Reported(Record),
    /// There is nobody to tell: the record is being written, and is not visible yet.
    Writing(Record),
    /// The record is visible and not yet synced.
    Renamed(Record),
    Gone,
}

impl Supervisor {
    pub(crate) fn alive(self) -> bool {
        !matches!(self, Supervisor::Absent | Supervisor::Gone)
    }
}

/// The command's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Command {
    #[default]
    Absent,
    /// Waits at the gate.
    Gated,
    /// Died at the gate; its supervisor has not noticed.
    Fell,
    /// The gate is open and the exec is about to happen, whatever becomes of the supervisor.
    Going,
    /// The exec failed; its supervisor has not noticed.
    Refused,
    Executing,
    /// Has ended; its supervisor has not noticed.
    Over,
}

impl Command {
    pub(crate) fn alive(self) -> bool {
        matches!(self, Command::Gated | Command::Going | Command::Executing)
    }
}

/// The last message from a supervisor. Earlier ones are before it in the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sent {
    #[default]
    Nothing,
    Armed,
    Failed,
    Executing,
    Ended,
}

/// One start: its supervisor, its command, their socket and their record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) supervisor: Supervisor,
    pub(crate) command: Command,
    /// The daemon that holds the other end of the socket open.
    pub(crate) peer: Option<u8>,
    pub(crate) sent: Sent,
    /// RELEASE is in the socket.
    pub(crate) release: bool,
    /// ACK is in the socket.
    pub(crate) ack: bool,
    /// SIGTERM is pending at the supervisor.
    pub(crate) asked: bool,
    pub(crate) record: Option<Record>,
    /// The record would survive a power cut.
    pub(crate) record_synced: bool,
    /// For the promises: the supervisor was killed.
    pub(crate) killed: bool,
    /// Only with [`Slip::PidWithoutBootId`]: a stranger has the supervisor's PID.
    pub(crate) stranger: bool,
}

/// How far a daemon has come with one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The supervisor is started and has not reported.
    Spawned,
    /// Write 1 is under way.
    Arming,
    /// Write 1 is durable.
    Ready,
    Released,
    /// Write 2 is under way or durable.
    Confirmed,
    /// The socket is lost, or was another daemon's: wait until both processes are gone.
    Watching,
    /// The write that ends the run is under way.
    Finishing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Track {
    pub(crate) start: u8,
    pub(crate) stage: Stage,
}

/// What follows when a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Then {
    Nothing,
    Arm(u8),
    /// Acknowledge, remove the record, forget the run.
    Finish(u8),
}

/// A write under way; it is issued, then renamed, then synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Write {
    pub(crate) document: Document,
    pub(crate) then: Then,
    pub(crate) renamed: bool,
}

/// What one daemon knows of one job, besides what it reads from the state file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Memory {
    pub(crate) write: Option<Write>,
    pub(crate) track: [Option<Track>; PERIODS],
}

/// What really happened to a period: known to the promises only, never to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Truth {
    /// One bit for each start whose command was executed.
    pub(crate) executed: u8,
    pub(crate) code: CodeTruth,
    /// A fault destroyed every proof that a start never ran.
    pub(crate) unprovable: bool,
    /// A start was given back because its record says `not_released`.
    pub(crate) given_back: bool,
}

/// Where an exit code has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CodeTruth {
    #[default]
    Unseen,
    /// A supervisor has seen it.
    Seen,
    /// A fault took the supervisor or the power before the code was on disk.
    Excused,
    /// It is on disk: in the record of the run or in the state file.
    Durable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    /// When the job was last evaluated. 0: the first period is due, 1: its deadline has passed, 2 and
    /// 3: the same of the second. Each job has its own time, as their periods may lie anyhow.
    pub(crate) time: u8,
    pub(crate) file: StateFile,
    pub(crate) memory: [Memory; DAEMONS],
    pub(crate) runs: [[Run; STARTS]; PERIODS],
    /// Starts attempted so far.
    pub(crate) starts: [u8; PERIODS],
    pub(crate) truth: [Truth; PERIODS],
    /// For the promises: a durable mark was followed by a smaller one.
    pub(crate) mark_moved_back: bool,
    /// For the promises: a durable outcome was followed by another.
    pub(crate) outcome_changed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Life {
    #[default]
    Off,
    Running,
    /// Killed; a system call of one of its threads has not returned, so its files are still open.
    Dying,
}

/// How many faults may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// krond is killed, or a write of its fails and it exits 5.
    pub(crate) daemon: u8,
    pub(crate) supervisor: u8,
    pub(crate) command: u8,
    pub(crate) power: u8,
    /// The clock is set back.
    pub(crate) clock: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) daemons: [Life; DAEMONS],
    pub(crate) jobs: [Job; JOBS],
    pub(crate) left: Faults,
}

/// Indices are kept small, since a world is copied and hashed for every step.
pub(crate) fn narrow(index: usize) -> u8 {
    u8::try_from(index).expect("there are two of everything")
}

/// The period that is current at a time, and whether its deadline has not passed.
pub(crate) fn due(time: u8) -> (usize, bool) {
    (usize::from(time / 2), time.is_multiple_of(2))
}

/// Hashes what is there in full, and what is not there as one byte: most of a world is not there,
/// and hashing is most of the checker's work.
macro_rules! hash_if_present {
    ($type:ty: $($field:ident),+) => {
        impl Hash for $type {
            fn hash<H: Hasher>(&self, hasher: &mut H) {
                let Self { $($field),+ } = self;
                if *self == Self::default() {
                    hasher.write_u8(0);
                } else {
                    hasher.write_u8(1);
                    $($field.hash(hasher);)+
                }
            }
        }
    };
}

hash_if_present!(
    Run: supervisor, command, peer, sent, release, ack, asked, record, record_synced, killed, stranger
);
hash_if_present!(Memory: write, track);
hash_if_present!(Job: time, file, memory, runs, starts, truth, mark_moved_back, outcome_changed);
