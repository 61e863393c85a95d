//! The fields of a body, taken one after the other.
//!
//! A field that is not known is refused with the nearest that is; a field of another kind than
//! expected is refused by its name.

use kron_queue::{GroupId, JobId, RunId, ScheduleId, TemplateId, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::problem::{Problem, excerpt};

/// How alike a wrong name and a right one must be for it to be worth naming, from 0 to 1.
const LIKENESS_MIN: f64 = 0.75;

/// The known name that is nearest to `given`.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let short: String = given.chars().take(2 * crate::limits::EXCERPT_CHARS_MAX).collect();
    let alike = known.iter().map(|name| (strsim::jaro_winkler(&short, name), *name));
    let best = alike.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= LIKENESS_MIN).map(|(_, name)| name)
}

/// What a name that is not known is answered with.
pub(crate) fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let shown = excerpt(given);
    match nearest(given, known) {
        Some(near) => format!("there is no {what} `{shown}`; did you mean `{near}`?"),
        None if known.is_empty() => format!("there is no {what} `{shown}`; none is known here"),
        None => format!("there is no {what} `{shown}`; known are `{}`", known.join("`, `")),
    }
}

/// The fields of an object.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of `value`, all of which are in `known`.
    pub(crate) fn of(value: Value, known: &[&str]) -> Result<Fields, Problem> {
        let Value::Object(fields) = value else {
            let detail = format!("the body is {}; an object is expected", kind(&value));
            return Err(Problem::not_allowed("not-an-object", detail));
        };
        if let Some(given) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            let problem = Problem::not_allowed("unknown-field", unknown("field", given, known));
            return Err(problem.field(excerpt(given)));
        }
        Ok(Fields(fields))
    }

    /// A field that may be absent or null.
    pub(crate) fn optional<T: Field>(&mut self, name: &'static str) -> Result<Option<T>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(name, value).map(Some),
        }
    }

    /// A field that may be absent, and is not null.
    pub(crate) fn given<T: Field>(&mut self, name: &'static str) -> Result<Option<T>, Problem> {
        self.0.remove(name).map(|value| read(name, value)).transpose()
    }

    /// A field that may be absent, or null to remove what is there.
    pub(crate) fn removable<T: Field>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Option<T>>, Problem> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(value) => read(name, value).map(|value| Some(Some(value))),
        }
    }

    /// A field that must be there.
    pub(crate) fn required<T: Field>(&mut self, name: &'static str) -> Result<T, Problem> {
        self.given(name)?.ok_or_else(|| {
            Problem::not_allowed("missing", format!("`{name}` is missing")).field(name)
        })
    }

    /// One word of a few.
    pub(crate) fn word<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        words: &[&str],
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.given::<String>(name)? else { return Ok(None) };
        word(name, &text, words)
            .map(Some)
            .map_err(|detail| Problem::not_allowed("unknown-word", detail).field(name))
    }
}

/// Reads one word of a few, or says which there are.
pub(crate) fn word<T: DeserializeOwned>(
    name: &str,
    text: &str,
    words: &[&str],
) -> Result<T, String> {
    let known = words.contains(&text).then(|| Value::String(text.to_owned()));
    known.and_then(|value| serde_json::from_value(value).ok()).ok_or_else(|| {
        format!("`{name}` is `{}`; it is one of `{}`", excerpt(text), words.join("`, `"))
    })
}

fn read<T: Field>(name: &'static str, value: Value) -> Result<T, Problem> {
    T::read(value).map_err(|wrong| {
        let detail = format!("`{name}` is {wrong}; {} is expected", T::EXPECTED);
        Problem::not_allowed("wrong-kind", detail).field(name)
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number that is too large",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// What a field may be.
pub(crate) trait Field: Sized {
    /// In words.
    const EXPECTED: &'static str;

    /// Reads it, or says what it is instead.
    fn read(value: Value) -> Result<Self, String>;
}

impl Field for String {
    const EXPECTED: &'static str = "a string";

    fn read(value: Value) -> Result<String, String> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(kind(&other).to_owned()),
        }
    }
}

impl Field for i64 {
    const EXPECTED: &'static str = "a whole number";

    fn read(value: Value) -> Result<i64, String> {
        value.as_i64().ok_or_else(|| kind(&value).to_owned())
    }
}

impl Field for bool {
    const EXPECTED: &'static str = "a boolean";

    fn read(value: Value) -> Result<bool, String> {
        value.as_bool().ok_or_else(|| kind(&value).to_owned())
    }
}

/// Parameters: an object, whatever is in it.
impl Field for Map<String, Value> {
    const EXPECTED: &'static str = "an object";

    fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(fields) => Ok(fields),
            other => Err(kind(&other).to_owned()),
        }
    }
}

impl Field for Vec<Value> {
    const EXPECTED: &'static str = "an array";

    fn read(value: Value) -> Result<Vec<Value>, String> {
        match value {
            Value::Array(items) => Ok(items),
            other => Err(kind(&other).to_owned()),
        }
    }
}

impl Field for Timestamp {
    const EXPECTED: &'static str = "a timestamp such as `2026-03-01T00:00:00.000Z`";

    fn read(value: Value) -> Result<Timestamp, String> {
        let text = String::read(value)?;
        text.parse().map_err(|_| format!("`{}`", excerpt(&text)))
    }
}

/// The characters of a UUID with its hyphens, the only form that is taken.
const ID_CHARS: usize = 36;

/// Reads an id in the one form that is shown.
pub(crate) fn id<T: std::str::FromStr>(text: &str) -> Option<T> {
    (text.len() == ID_CHARS).then(|| text.parse().ok()).flatten()
}

macro_rules! id_fields {
    ($($name:ident),*) => {$(
        impl Field for $name {
            const EXPECTED: &'static str = "a UUID";

            fn read(value: Value) -> Result<$name, String> {
                let text = String::read(value)?;
                id(&text).ok_or_else(|| format!("`{}`", excerpt(&text)))
            }
        }
    )*};
}
id_fields!(JobId, RunId, TemplateId, ScheduleId, GroupId);
