//! The canaries: mistakes that an implementation could make, one at a time.
//!
//! Each is a small, plausible deviation from the protocol. The checker must find a counterexample
//! for every one of them; if it does not, the model is too weak to be believed about the rest.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slip {
    /// RELEASE is sent first and `ActiveExecution` written after it.
    RecordAfterStart,
    /// A write counts as durable when the rename is done, before the directory is synced.
    RenameIsDurable,
    /// Write 2 or 3 of a long run sets the mark to its own period.
    MarkMovesBack,
    /// Recovery takes a missing `runs/<id>` for a start that never happened.
    AbsenceMeansNeverStarted,
    /// Recovery reads `runs/<id>` while the supervisor that will write it is alive.
    RecordIsReadEarly,
    /// The run counts as over when the supervisor is gone, although the command is alive.
    OverWithoutTheCommand,
    /// A command at its gate takes the end of its supervisor for the release.
    GateOpensAtEof,
    /// A command at its gate holds its own writing end, and never sees that its supervisor died.
    GateNeverSeesEof,
    /// A supervisor takes the end of krond after RELEASE for one before it.
    EofMeansNotReleased,
    /// The supervisor is a fork of the daemon and keeps the lock's descriptor.
    ForkKeepsTheLock,
    /// The supervisor is a fork of the daemon and keeps the other runs' sockets open.
    ForkKeepsOtherGates,
    /// The supervisor dies with the daemon.
    SupervisorDiesWithDaemon,
    /// A second daemon does not ask for the lock.
    NoLock,
    /// The lock is let go while a write is still in the kernel's hands.
    LockEndsBeforeWrites,
    /// The end of a run is acknowledged when its write is issued.
    AcknowledgedEarly,
    /// A supervisor does not wait for the acknowledgement of a start that failed.
    FailureIsNotAcknowledged,
    /// A supervisor whose record cannot be written leaves.
    SupervisorGivesUp,
    /// The death of a supervisor is acted upon before its last messages are read.
    SocketIsNotDrained,
    /// `runs/<id>` is removed before the state file that makes it superfluous is durable.
    RecordIsRemovedEarly,
    /// A new daemon relies on renames that the last one left unsynced.
    NotSyncedAtOpening,
    /// The run's id is made of the period, so a retry has the id of the first start.
    RunIdIsReused,
    /// A later period is judged while the start of an earlier one has no durable record.
    JudgedDuringAStart,
    /// Periods that the mark passes get their outcome in a later write.
    SupersededIsWrittenLater,
    /// A period that was passed over while its start was armed gets no outcome when that start
    /// turns out never to have run.
    PassedOverIsForgotten,
    /// A period that the mark passes is `missed` although its run is active.
    ActiveIsSuperseded,
    /// A process is recognised by its PID alone.
    PidWithoutBootId,
}
