//! Runs and how they ended: ids, endings, and the record a supervisor leaves under `runs/`.

use std::fmt;

use kron_core::UtcSecond;
use serde::{Deserialize, Serialize};

use crate::document::PeriodRef;

/// Bytes a run's id has: 16 lower-case hex digits.
const RUN_ID_BYTES: usize = 16;

/// Names one run of one job, for ever: 16 lower-case hex digits drawn at random.
///
/// It is used as a file name, so nothing else is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(Box<str>);

impl RunId {
    /// The id with these random bits.
    #[must_use]
    pub fn from_bits(bits: u64) -> RunId {
        RunId(format!("{bits:016x}").into())
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<RunId, String> {
        let hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if hex && text.len() == RUN_ID_BYTES {
            return Ok(RunId(text.into()));
        }
        Err(format!("a run id is {RUN_ID_BYTES} lower-case hex digits"))
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0.into()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How the command's process ended, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    ExitCode(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// The code it exited with, if it exited.
    #[must_use]
    pub fn exit_code(self) -> Option<i32> {
        match self {
            ExitStatus::ExitCode(code) => Some(code),
            ExitStatus::Signal(_) => None,
        }
    }

    /// The signal that ended it, if one did.
    #[must_use]
    pub fn signal(self) -> Option<i32> {
        match self {
            ExitStatus::ExitCode(_) => None,
            ExitStatus::Signal(signal) => Some(signal),
        }
    }
}

/// What made a run end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The command itself.
    Own,
    /// Its timeout.
    Timeout,
    /// Somebody asked the supervisor to end it.
    Asked,
}

/// The end of a run, as its supervisor saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// How the process ended.
    pub status: ExitStatus,
    /// What made it end.
    pub cause: Cause,
    /// When.
    pub at: UtcSecond,
    /// Bytes of output that were kept.
    pub output_bytes: u64,
    /// Bytes of output that were dropped at the cap.
    pub output_dropped: u64,
}

/// What a supervisor leaves in `runs/<id>.json` when nobody is there to be told.
///
/// That there is none proves nothing: the supervisor may have been killed, or is still at work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRecord {
    /// The daemon went away before it released the command, which was killed at the gate.
    NotReleased,
    /// The command was released and could not be executed.
    ExecFailed {
        /// What was attempted.
        stage: String,
        /// The system's error number.
        errno: i32,
        /// What it means.
        message: String,
    },
    /// The command ran and ended.
    Ended(RunEnd),
}

/// A run's record with what it was a run of, as far as its supervisor was told: enough to say
/// whose it was when no document names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// What became of it.
    pub record: RunRecord,
    /// The job. Older supervisors do not say.
    pub identity: Option<String>,
    /// The period, or the name of a run by hand. Older supervisors do not say.
    pub period: Option<PeriodRef>,
}

impl RunReport {
    /// The report on a run of this job and period.
    #[must_use]
    pub fn new(record: RunRecord, identity: &str, period: PeriodRef) -> RunReport {
        RunReport { record, identity: Some(identity.to_owned()), period: Some(period) }
    }
}

/// A record whose run is nobody's, as far as is told.
impl From<RunRecord> for RunReport {
    fn from(record: RunRecord) -> RunReport {
        RunReport { record, identity: None, period: None }
    }
}

/// How a run that was started ended, for the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The command exited by itself.
    #[serde(rename = "exited")]
    Exited,
    /// A signal ended the command.
    #[serde(rename = "signalled")]
    Signalled,
    /// It ran longer than it may.
    #[serde(rename = "timed out")]
    TimedOut,
    /// A later period took its place.
    #[serde(rename = "replaced")]
    Replaced,
    /// Somebody stopped it.
    #[serde(rename = "stopped")]
    Stopped,
    /// Nobody saw its end; it may or may not have run to it.
    #[serde(rename = "lost")]
    Lost,
    /// There was no command: what was to be done was handed over, durably.
    #[serde(rename = "handed over")]
    HandedOver,
}

impl Ending {
    /// The word that is recorded.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Ending::Exited => "exited",
            Ending::Signalled => "signalled",
            Ending::TimedOut => "timed out",
            Ending::Replaced => "replaced",
            Ending::Stopped => "stopped",
            Ending::Lost => "lost",
            Ending::HandedOver => "handed over",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
