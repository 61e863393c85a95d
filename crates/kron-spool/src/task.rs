//! A task, and its file.
//!
//! What the format prescribes is checked to the letter; what it does not know is kept as it was. A
//! payload is opaque but for its type, and goes through byte by byte: no number is rounded and no
//! key moved on the way from its producer to its handler.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use kron_core::Timestamp;
use kron_core::finding::excerpt;
use kron_state::{Process, RunId};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::Fault;
use crate::id::TaskId;

/// Bytes that a producer's file may have.
pub const TASK_BYTES_MAX: usize = 256 * 1024;
/// Bytes that a file may have that was written here: a producer's, and what became of it.
pub(crate) const OWN_BYTES_MAX: usize = TASK_BYTES_MAX + 64 * 1024;
/// Bytes that the file of a task may have that says it was started before: a producer's, and the
/// last error. The rest of what may be written here still has room after that.
pub(crate) const RETURNED_BYTES_MAX: usize = TASK_BYTES_MAX + 16 * 1024;
/// How deeply arrays and objects may be nested, the outermost counted.
pub const TASK_DEPTH_MAX: usize = 64;
/// Bytes of a run's output that are kept with its result.
pub const OUTPUT_BYTES_MAX: usize = 4 * 1024;
/// Bytes of an error that are kept.
const ERROR_BYTES_MAX: usize = 1024;
/// Bytes of a type's name.
const TYPE_BYTES_MAX: usize = 64;
/// Fields that a file may have at its top.
const FIELDS_MAX: usize = 256;
/// Starts that can be counted.
pub(crate) const ATTEMPTS_MAX: u32 = 1_000_000;

/// What has become of a task, as its directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// It waits.
    Pending,
    /// It was started.
    Running,
    /// It has ended for good.
    Completed,
}

impl State {
    /// All of them, in the order in which a task goes through them.
    pub const ALL: [State; 3] = [State::Pending, State::Running, State::Completed];

    /// Its directory, and what people call it.
    #[must_use]
    pub const fn directory(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Running => "running",
            State::Completed => "completed",
        }
    }

    /// As a task's file says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Pending => "PENDING",
            State::Running => "RUNNING",
            State::Completed => "COMPLETED",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.directory())
    }
}

/// One task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its id, which is the name of its file.
    pub id: TaskId,
    /// What has become of it.
    pub state: State,
    /// When its producer made it.
    pub created_at: Timestamp,
    /// The same as its producer wrote it.
    pub(crate) created_text: Box<str>,
    /// What is to be done.
    pub payload: Payload,
    /// How often it was started.
    pub attempts: u32,
    /// How many of those starts were lost to a crash.
    pub lost_attempts: u32,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Before when it is not started.
    pub not_before: Option<Timestamp>,
    /// When it was last started, while it runs.
    pub started_at: Option<Timestamp>,
    /// Its processes, while it runs.
    pub run: Option<Run>,
    /// When it ended for good.
    pub completed_at: Option<Timestamp>,
    /// How it ended for good.
    pub result: Option<TaskResult>,
    /// What the format does not know, as it was found.
    pub(crate) others: Vec<(String, Box<RawValue>)>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Payload {
    /// What kind of task it is: who handles it.
    pub task_type: String,
    text: Box<RawValue>,
}

impl Payload {
    /// The payload as its producer wrote it: an object with at least `type`.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// Whether both are the same, to the byte.
    #[must_use]
    pub fn is_same(&self, other: &Payload) -> bool {
        self.text() == other.text()
    }

    /// Whether both are the same but for blanks between their parts.
    #[must_use]
    pub fn is_alike(&self, other: &Payload) -> bool {
        self.is_same(other) || compact(self.text()) == compact(other.text())
    }

    pub(crate) fn of(text: Box<RawValue>) -> Result<Payload, Fault> {
        let fields = Fields::read(text.get())
            .map_err(|_| Fault::Field { field: "payload", wrong: "it is not an object".into() })?;
        let raw = fields.get("type")?.ok_or(Fault::Missing { field: "payload.type" })?;
        let task_type: String = typed("payload.type", raw)?;
        check_type(&task_type).map_err(|wrong| Fault::Field { field: "payload.type", wrong })?;
        Ok(Payload { task_type, text })
    }
}

/// JSON without the blanks between its parts; numbers and texts are as they were.
#[must_use]
pub fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let kept = |letter: &char| {
        if in_string {
            in_string = escaped || *letter != '"';
            escaped = !escaped && *letter == '\\';
            return true;
        }
        in_string = *letter == '"';
        !letter.is_ascii_whitespace()
    };
    json.chars().filter(kept).collect()
}

/// Checks the name of a type.
///
/// # Errors
/// What is wrong with it.
pub fn check_type(task_type: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if task_type.is_empty() || task_type.len() > TYPE_BYTES_MAX {
        return Err(format!("a type has 1 to {TYPE_BYTES_MAX} bytes"));
    }
    if !task_type.chars().all(plain) {
        let shown = excerpt(task_type);
        return Err(format!("`{shown}`: a type is made of letters, digits, `_`, `-` and `.`"));
    }
    Ok(())
}

/// The processes of a run, so that no other can be taken for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Names the run.
    pub run_id: RunId,
    /// The boot they belong to.
    pub boot_id: String,
    /// Whoever watches over the command.
    pub supervisor: Process,
    /// The command.
    pub command: Process,
}

/// How a task ended for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskResult {
    /// Whether it did what it should.
    pub outcome: Outcome,
    /// What its command exited with, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// The end of what its command wrote.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
}

/// Whether a task did what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// It did.
    Succeeded,
    /// There was nothing to do.
    Skipped,
    /// It did not, and is not tried again.
    Failed,
}

impl Outcome {
    /// As people call it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Skipped => "skipped",
            Outcome::Failed => "failed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Task {
    /// A task that waits and was never started.
    pub(crate) fn new(id: TaskId, payload: Payload, now: Timestamp) -> Task {
        Task {
            id,
            state: State::Pending,
            created_at: now,
            created_text: now.to_string().into(),
            payload,
            attempts: 0,
            lost_attempts: 0,
            last_error: None,
            not_before: None,
            started_at: None,
            run: None,
            completed_at: None,
            result: None,
            others: Vec::new(),
        }
    }

    /// Reads the file `id.json` of the directory of `state`.
    ///
    /// # Errors
    /// Why it is no task.
    pub fn parse(bytes: &[u8], id: &TaskId, state: State) -> Result<Task, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotText)?;
        check_depth(text)?;
        let fields = Fields::read(text)?;
        if fields.0.len() > FIELDS_MAX {
            return Err(Fault::Json { message: format!("more than {FIELDS_MAX} fields") });
        }
        let required = |field| fields.get(field)?.ok_or(Fault::Missing { field });
        let found: String = typed("taskId", required("taskId")?)?;
        if found != id.as_str() {
            return Err(Fault::OtherId { found: excerpt(&found) });
        }
        let found: String = typed("state", required("state")?)?;
        if found != state.as_str() {
            return Err(Fault::OtherState { found: excerpt(&found), directory: state });
        }
        let created_text: Box<str> = typed("createdAt", required("createdAt")?)?;
        let created_at = moment("createdAt", &created_text)?;
        let payload = Payload::of(required("payload")?.to_owned())?;
        let task = Task {
            id: id.clone(),
            state,
            created_at,
            created_text,
            payload,
            attempts: fields.optional("attempts")?.unwrap_or(0),
            lost_attempts: fields.optional("lostAttempts")?.unwrap_or(0),
            last_error: fields.optional("lastError")?,
            not_before: fields.moment("notBefore")?,
            started_at: fields.moment("startedAt")?,
            run: fields.optional("run")?,
            completed_at: fields.moment("completedAt")?,
            result: fields.optional("result")?,
            others: fields.others(),
        };
        if task.attempts > ATTEMPTS_MAX || task.lost_attempts > task.attempts {
            let wrong = format!("there are at most {ATTEMPTS_MAX}, and no more lost than made");
            return Err(Fault::Field { field: "attempts", wrong });
        }
        Ok(task)
    }

    /// The names of the fields that the format does not know, in their order.
    pub fn unknown_fields(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(|(name, _)| name.as_str())
    }

    /// Its file.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::with_capacity(self.payload.text().len() + 512);
        text.push('{');
        let mut put = |field: &str, value: &str| {
            let comma = if text.len() > 1 { "," } else { "" };
            let _ = write!(text, "{comma}\n  {}: {value}", json(&field));
        };
        put("taskId", &json(&self.id));
        put("state", &json(&self.state.as_str()));
        put("createdAt", &json(&self.created_text));
        put("payload", self.payload.text());
        if self.attempts > 0 {
            put("attempts", &json(&self.attempts));
        }
        if self.lost_attempts > 0 {
            put("lostAttempts", &json(&self.lost_attempts));
        }
        let optional = [
            ("lastError", self.last_error.as_ref().map(|error| json(&cut(error)))),
            ("notBefore", self.not_before.map(|moment| json(&moment))),
            ("startedAt", self.started_at.map(|moment| json(&moment))),
            ("run", self.run.as_ref().map(json)),
            ("completedAt", self.completed_at.map(|moment| json(&moment))),
            ("result", self.result.as_ref().map(json)),
        ];
        for (field, value) in optional {
            if let Some(value) = value {
                put(field, &value);
            }
        }
        for (field, value) in &self.others {
            put(field, value.get());
        }
        text.push_str("\n}\n");
        text
    }
}

/// The fields that the format knows.
const KNOWN: [&str; 12] = [
    "taskId",
    "state",
    "createdAt",
    "payload",
    "attempts",
    "lostAttempts",
    "lastError",
    "notBefore",
    "startedAt",
    "run",
    "completedAt",
    "result",
];

/// The fields of an object, in their order, none of them read yet.
struct Fields<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'t> Fields<'t> {
    fn read(text: &'t str) -> Result<Fields<'t>, Fault> {
        serde_json::from_str::<Fields<'_>>(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => Fault::CutShort,
            _ => Fault::Json { message: error.to_string() },
        })
    }

    fn get(&self, field: &'static str) -> Result<Option<&'t RawValue>, Fault> {
        let mut found = self.0.iter().filter(|(name, _)| name == field);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Fault::Twice { field }),
            (found, None) => Ok(found.map(|(_, value)| *value)),
        }
    }

    fn optional<T: DeserializeOwned>(&self, field: &'static str) -> Result<Option<T>, Fault> {
        match self.get(field)? {
            None => Ok(None),
            Some(raw) => typed(field, raw),
        }
    }

    fn moment(&self, field: &'static str) -> Result<Option<Timestamp>, Fault> {
        let text: Option<String> = self.optional(field)?;
        text.map(|text| moment(field, &text)).transpose()
    }

    fn others(&self) -> Vec<(String, Box<RawValue>)> {
        let others = self.0.iter().filter(|(name, _)| !KNOWN.contains(&&**name));
        others.map(|(name, value)| (name.to_string(), (*value).to_owned())).collect()
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    fields.push((name.0, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Name<'t>(#[serde(borrow)] Cow<'t, str>);

fn typed<T: DeserializeOwned>(field: &'static str, raw: &RawValue) -> Result<T, Fault> {
    serde_json::from_str(raw.get()).map_err(|error| {
        // Where in the value it is would be taken for where in the file.
        let mut wrong = error.to_string();
        wrong.truncate(wrong.find(" at line ").unwrap_or(wrong.len()));
        Fault::Field { field, wrong }
    })
}

fn moment(field: &'static str, text: &str) -> Result<Timestamp, Fault> {
    text.parse().map_err(|error: kron_core::TimestampError| Fault::Field {
        field,
        wrong: error.to_string(),
    })
}

/// What is written is text, numbers and names of our own, for which there is always JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// As much of an error as is kept.
pub(crate) fn cut(error: &str) -> String {
    let mut text = error.to_owned();
    text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
    text
}

/// As much of an output as is kept: its end.
pub(crate) fn tail(output: &str) -> String {
    let from = output.len().saturating_sub(OUTPUT_BYTES_MAX);
    output[output.ceil_char_boundary(from)..].to_owned()
}

/// Refuses what is nested too deeply, without nesting oneself.
pub(crate) fn check_depth(text: &str) -> Result<(), Fault> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > TASK_DEPTH_MAX {
                    return Err(Fault::TooDeep);
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
