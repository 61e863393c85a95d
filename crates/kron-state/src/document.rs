//! The state document of one job.
//!
//! Its keys are spelled exactly as the state format spells them. Fields that are not part of the
//! format are additions of ours; fields that we do not know are kept and written back, so that an
//! older daemon does not forget what a newer one recorded.

use kron_core::{Category, Outcome, UtcSecond};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::delivery::Delivery;
use crate::instant;
use crate::migration::{MIGRATIONS, migrate};
use crate::run::{Ending, RunId};
use crate::sealed;

/// The version of the documents written here.
pub const VERSION: &str = "1";

/// Everything recorded about one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Document {
    /// The version of the format.
    pub version: String,
    /// The job's identity.
    pub identity: String,
    /// The latest period that reached an outcome.
    #[serde(rename = "LastHandledPeriodID", with = "text")]
    pub last_handled: Option<UtcSecond>,
    /// That period's outcome.
    #[serde(with = "text")]
    pub last_outcome: Option<Outcome>,
    /// When that period was due; absent when it was unschedulable.
    #[serde(with = "text")]
    pub last_chosen_time: Option<UtcSecond>,
    /// That period's nominal time.
    #[serde(with = "text")]
    pub last_nominal_time: Option<UtcSecond>,
    /// The newest run that has not ended.
    #[serde(default)]
    pub active_execution: Option<ActiveState>,
    /// Every other run that has not ended, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_active: Vec<ActiveState>,
    /// A replacement of active runs that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing: Option<Replacing>,
    /// Periods whose start was on its way, and not recorded yet, when a later one was: whoever
    /// finds one that came to nothing owes it an outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owed: Vec<UtcSecond>,
    /// Periods beyond the mark that were executed before somebody moved the mark back: they are
    /// not executed again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executed_ahead: Vec<UtcSecond>,
    /// Who has still to be told what, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Delivery>,
    /// What happened to recent periods and runs, oldest first.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub history: Vec<HistoryEntry>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A run that was armed and has not ended.
///
/// A record that another implementation wrote has only the first four fields. It is read as one
/// whose supervisor is the command itself, with `start_ticks` 0, an empty `boot_id`, and a run id
/// computed from those four, the same at every reading; see [`ActiveState::is_foreign`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", try_from = "WrittenActive")]
pub struct ActiveState {
    /// The period it is for, or the name of a run by hand.
    #[serde(rename = "PeriodID")]
    pub period: PeriodRef,
    /// The command's process.
    #[serde(rename = "PID")]
    pub pid: i32,
    /// When it was started.
    pub started_at: UtcSecond,
    /// When its period was due; for a run by hand, when it was asked for.
    pub chosen_time: UtcSecond,
    /// The run's id.
    #[serde(rename = "RunID")]
    pub run: RunId,
    /// When the command's process started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The process that supervises it.
    pub supervisor: Process,
    /// The boot in which both processes were started.
    #[serde(rename = "BootID")]
    pub boot_id: String,
    /// Whether the command is known to have been executed.
    #[serde(default)]
    pub executed: bool,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl ActiveState {
    /// Whether another implementation wrote the record: whether the run goes on can then only be
    /// told by whether a process with its number exists, as the state format says.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.boot_id.is_empty()
    }
}

/// An active record as it may stand in a document.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrittenActive {
    #[serde(rename = "PeriodID")]
    period: PeriodRef,
    #[serde(rename = "PID")]
    pid: i32,
    #[serde(deserialize_with = "instant::deserialize")]
    started_at: UtcSecond,
    #[serde(deserialize_with = "instant::deserialize")]
    chosen_time: UtcSecond,
    #[serde(rename = "RunID")]
    run: Option<RunId>,
    start_ticks: Option<u64>,
    supervisor: Option<Process>,
    #[serde(rename = "BootID")]
    boot_id: Option<String>,
    #[serde(default)]
    executed: bool,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl TryFrom<WrittenActive> for ActiveState {
    type Error = String;

    fn try_from(written: WrittenActive) -> Result<ActiveState, String> {
        let WrittenActive { period, pid, started_at, chosen_time, executed, unknown, .. } = written;
        let ours = (written.run, written.start_ticks, written.supervisor, written.boot_id);
        let (run, start_ticks, supervisor, boot_id) = match ours {
            (Some(run), Some(ticks), Some(supervisor), Some(boot)) => {
                (run, ticks, supervisor, boot)
            }
            (None, None, None, None) => {
                let run = foreign_run(&period, pid, started_at);
                (run, 0, Process { pid, start_ticks: 0 }, String::new())
            }
            _ => {
                return Err(
                    "`RunID`, `StartTicks`, `Supervisor` and `BootID` must be there together"
                        .to_owned(),
                );
            }
        };
        // Zero and negative numbers mean whole groups of processes to the kernel.
        if pid <= 0 || supervisor.pid <= 0 {
            return Err("a `PID` must be positive".to_owned());
        }
        Ok(ActiveState {
            period,
            pid,
            started_at,
            chosen_time,
            run,
            start_ticks,
            supervisor,
            boot_id,
            executed,
            unknown,
        })
    }
}

/// The run id of a record that has none.
fn foreign_run(period: &PeriodRef, pid: i32, started_at: UtcSecond) -> RunId {
    let digest = Sha256::digest(format!("{period}\n{pid}\n{started_at}"));
    let bits = digest.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    RunId::from_bits(bits)
}

/// A process that cannot be confused with a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Process {
    /// Its number.
    #[serde(rename = "PID")]
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// A replacement that was decided and has begun: it is durable before the first signal is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Replacing {
    /// The period that takes the place of what is active.
    #[serde(rename = "PeriodID")]
    pub period: UtcSecond,
    /// When it was judged.
    pub evaluated_at: UtcSecond,
}

/// What happened to a period, to a stretch of periods, or to a run by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HistoryEntry {
    /// The period, the first of a stretch, or the name of a run by hand.
    #[serde(rename = "PeriodID")]
    pub period: PeriodRef,
    /// The outcome.
    #[serde(with = "text")]
    pub outcome: Option<Outcome>,
    /// The period's nominal time; absent for a run by hand.
    #[serde(with = "text")]
    pub nominal_time: Option<UtcSecond>,
    /// When the period was due; absent when it was unschedulable, and for a stretch.
    #[serde(with = "text")]
    pub chosen_time: Option<UtcSecond>,
    /// When the outcome was final; absent while the run is active.
    #[serde(with = "text")]
    pub completed_at: Option<UtcSecond>,
    /// The command's exit code, when one was seen.
    pub exit_code: Option<i32>,
    /// Why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The run's id.
    #[serde(default, rename = "RunID", skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When the run was started.
    #[serde(
        default,
        deserialize_with = "instant::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub started_at: Option<UtcSecond>,
    /// How the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The signal that ended the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Bytes of output that were dropped at the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_dropped: Option<u64>,
    /// The last period of a stretch.
    #[serde(default, rename = "LastPeriodID", skip_serializing_if = "Option::is_none")]
    pub last_period: Option<UtcSecond>,
    /// How many periods a stretch has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl HistoryEntry {
    /// An entry about a period or a run by hand that says nothing yet.
    #[must_use]
    pub fn new(period: PeriodRef) -> HistoryEntry {
        HistoryEntry {
            period,
            outcome: None,
            nominal_time: None,
            chosen_time: None,
            completed_at: None,
            exit_code: None,
            reason: None,
            run: None,
            started_at: None,
            ending: None,
            signal: None,
            output_dropped: None,
            last_period: None,
            count: None,
            unknown: Map::new(),
        }
    }
}

/// What a run is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PeriodRef {
    /// A period, by its nominal time.
    Period(UtcSecond),
    /// A run by hand, `manual/<time>-<random>`.
    Manual(Box<str>),
}

impl PeriodRef {
    /// The nominal time, for a period.
    #[must_use]
    pub fn nominal(&self) -> Option<UtcSecond> {
        match self {
            PeriodRef::Period(nominal) => Some(*nominal),
            PeriodRef::Manual(_) => None,
        }
    }
}

impl TryFrom<String> for PeriodRef {
    type Error = String;

    fn try_from(text: String) -> Result<PeriodRef, String> {
        if text.starts_with("manual/") {
            return Ok(PeriodRef::Manual(text.into()));
        }
        instant::parse(&text).map(PeriodRef::Period).map_err(|finding| finding.message)
    }
}

impl From<PeriodRef> for String {
    fn from(period: PeriodRef) -> String {
        period.to_string()
    }
}

impl std::fmt::Display for PeriodRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeriodRef::Period(nominal) => nominal.fmt(f),
            PeriodRef::Manual(name) => f.pad(name),
        }
    }
}

/// Why bytes are not a usable document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// They are no JSON, or not the JSON that was written: to be set aside.
    #[error("{0}")]
    Unreadable(String),
    /// They are JSON that this version cannot use: to be left alone.
    #[error("{0}")]
    Incompatible(String),
}

impl DocumentError {
    /// A document that belongs to another job than expected.
    pub(crate) fn of_identity(found: &str) -> DocumentError {
        let found = found.escape_debug();
        DocumentError::Incompatible(format!("it belongs to the identity `{found}`"))
    }

    /// What the bytes are, to be said before the cause: `not readable` or `not usable`.
    #[must_use]
    pub const fn verdict(&self) -> &'static str {
        match self {
            DocumentError::Unreadable(_) => "not readable",
            DocumentError::Incompatible(_) => "not usable",
        }
    }

    /// The category of the error.
    #[must_use]
    pub const fn category(&self) -> Category {
        match self {
            DocumentError::Unreadable(_) => Category::Persistence,
            DocumentError::Incompatible(_) => Category::IncompatibleState,
        }
    }
}

impl Document {
    /// The document of a job about which nothing is recorded.
    #[must_use]
    pub fn new(identity: &str) -> Document {
        Document {
            version: VERSION.to_owned(),
            identity: identity.to_owned(),
            last_handled: None,
            last_outcome: None,
            last_chosen_time: None,
            last_nominal_time: None,
            active_execution: None,
            other_active: Vec::new(),
            replacing: None,
            owed: Vec::new(),
            deliveries: Vec::new(),
            executed_ahead: Vec::new(),
            history: Vec::new(),
            unknown: Map::new(),
        }
    }

    /// The document that these bytes are, in the present version.
    ///
    /// A document with a wrong checksum is unreadable; one without any was written by another
    /// implementation and is accepted.
    ///
    /// # Errors
    /// When the bytes are no JSON or not what was written, or when they miss a field, have one of
    /// another type, are of a version that cannot be migrated, or belong to another than
    /// `identity`.
    pub fn parse(bytes: &[u8], identity: Option<&str>) -> Result<Document, DocumentError> {
        let (text, seal) = sealed::open(bytes).map_err(DocumentError::Unreadable)?;
        let mut document = match serde_json::from_str::<Document>(text) {
            Ok(document) if document.version == VERSION => document,
            read => Document::parse_closely(text, read.err())?,
        };
        seal.remove_from(&mut document.unknown).map_err(DocumentError::Unreadable)?;
        if identity.is_some_and(|identity| identity != document.identity) {
            return Err(DocumentError::of_identity(&document.identity));
        }
        Ok(document)
    }

    /// What cannot be read as it stands: another version, or wrong in a way to be told.
    fn parse_closely(
        text: &str,
        found: Option<serde_json::Error>,
    ) -> Result<Document, DocumentError> {
        let incompatible =
            |error: serde_json::Error| DocumentError::Incompatible(error.to_string());
        let value: Value = serde_json::from_str(text)
            .map_err(|error| DocumentError::Unreadable(error.to_string()))?;
        let Value::Object(fields) = value else {
            return Err(DocumentError::Incompatible("it is not a JSON object".to_owned()));
        };
        let current = fields.get("Version").and_then(Value::as_str) == Some(VERSION);
        if let Some(error) = found.filter(|_| current) {
            return Err(incompatible(error));
        }
        let fields = migrate(fields, VERSION, MIGRATIONS).map_err(DocumentError::Incompatible)?;
        serde_json::from_value(Value::Object(fields)).map_err(incompatible)
    }

    /// The bytes to store: one line of JSON with its checksum.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        sealed::seal(self)
    }

    /// Every run that has not ended, oldest first.
    pub fn active(&self) -> impl Iterator<Item = &ActiveState> {
        self.other_active.iter().chain(&self.active_execution)
    }
}

/// A list that may be written as `null` when it is empty.
fn null_as_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<HistoryEntry>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Values that are texts, with the empty text for an absent one.
pub(crate) mod text {
    use std::fmt::Display;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::instant::Written;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_str(""),
        }
    }

    pub(crate) fn deserialize<'de, T: Written, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        T::read(&text).map(Some).map_err(|finding| D::Error::custom(finding.message))
    }
}
