//! How often what happened.

use std::fmt;

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Happening {
    /// A command was executed.
    Executed,
    /// A period reached an outcome, with or without having run.
    Outcome,
    /// A daemon started.
    Daemon,
    /// A daemon was killed between two deeds.
    DaemonKilled,
    /// A daemon was killed in the middle of a write.
    WriteKilled,
    /// The power was cut.
    PowerCut,
    /// The power was cut in the middle of a write.
    WritePowerCut,
    /// A daemon left because it could not write.
    WriteFailed,
    /// A daemon refused to start because it could not read or write.
    StartRefused,
    /// A daemon was asked to stop.
    Stopped,
    /// A call of the file system failed or was cut short.
    DiskError,
    /// A supervisor was killed.
    SupervisorKilled,
    /// A command was killed by a stranger.
    CommandKilled,
    /// A run could not be spawned, or a command not be executed.
    StartFailed,
    /// The clock was set.
    ClockSet,
    /// The machine slept.
    Slept,
    /// A definition was edited and reloaded.
    Edited,
    /// A job was suspended or resumed by hand.
    Suspended,
    /// A run was asked for by hand.
    AskedByHand,
    /// A document was damaged.
    Damaged,
}

/// What each of them is called, in order.
const NAMES: [&str; COUNT] = [
    "executions",
    "outcomes of periods",
    "daemons started",
    "daemons killed",
    "daemons killed in the middle of a write",
    "power cuts",
    "power cuts in the middle of a write",
    "daemons that left because a write failed",
    "starts refused because of the disk",
    "stops asked for",
    "file system calls that failed or were cut short",
    "supervisors killed",
    "commands killed",
    "starts that failed",
    "clocks set",
    "sleeps",
    "edits and reloads",
    "suspensions and resumptions",
    "runs asked for by hand",
    "documents damaged",
];
const COUNT: usize = Happening::Damaged as usize + 1;

/// How often each of them happened.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tally([u64; COUNT]);

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Tally {
    /// How often something happened.
    #[must_use]
    pub fn of(&self, happening: Happening) -> u64 {
        self.0[happening as usize]
    }

    /// Every count with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.0)
    }

    pub(crate) fn count(&mut self, happening: Happening) {
        self.add_to(happening, 1);
    }

    pub(crate) fn add_to(&mut self, happening: Happening, times: u64) {
        self.0[happening as usize] += times;
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
