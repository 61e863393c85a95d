//! What may be put in: the checks of every text and number that comes from outside.

use serde_json::Value;

use crate::limits::{
    IDEMPOTENCY_KEY_BYTES_MAX, JOB_TYPE_BYTES_MAX, NAME_BYTES_MAX, PARAMS_BYTES_MAX,
    PARAMS_DEPTH_MAX, PRIORITY_MAX,
};

/// What was put in is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A text is too long.
    #[error("`{what}` has {bytes} bytes; at most {bytes_max} are allowed")]
    TooLong {
        /// Which.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// There are too many of something.
    #[error("{count} {what}; at most {count_max} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The limit.
        count_max: usize,
    },
    /// A text must not be empty.
    #[error("`{what}` is empty")]
    Empty {
        /// Which.
        what: &'static str,
    },
    /// A text has characters that it must not have.
    #[error("`{what}` has {which}")]
    Characters {
        /// Which text.
        what: &'static str,
        /// Which characters.
        which: &'static str,
    },
    /// Parameters are an object.
    #[error("`{what}` is not a JSON object")]
    NotAnObject {
        /// Which.
        what: &'static str,
    },
    /// Parameters are nested too deeply.
    #[error("`{what}` is nested more than {PARAMS_DEPTH_MAX} deep")]
    TooDeep {
        /// Which.
        what: &'static str,
    },
    /// A number is out of its range.
    #[error("`{what}` is {value}; it goes from {from} to {to}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// Its value.
        value: i64,
        /// The smallest.
        from: i64,
        /// The greatest.
        to: i64,
    },
    /// Something is needed and not there.
    #[error("`{what}` is missing")]
    Missing {
        /// What.
        what: &'static str,
    },
}

impl Invalid {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Invalid::TooLong { .. } => "too-long",
            Invalid::TooMany { .. } => "too-many",
            Invalid::Empty { .. } => "empty",
            Invalid::Characters { .. } => "bad-characters",
            Invalid::NotAnObject { .. } => "not-an-object",
            Invalid::TooDeep { .. } => "too-deep",
            Invalid::OutOfRange { .. } => "out-of-range",
            Invalid::Missing { .. } => "missing",
        }
    }
}

pub(crate) fn text(what: &'static str, text: &str, bytes_max: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::Empty { what });
    }
    if text.len() > bytes_max {
        return Err(Invalid::TooLong { what, bytes: text.len(), bytes_max });
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::Characters { what, which: "control characters" });
    }
    Ok(())
}

pub(crate) fn name(what: &'static str, name: &str) -> Result<(), Invalid> {
    text(what, name, NAME_BYTES_MAX)
}

pub(crate) fn idempotency_key(key: &str) -> Result<(), Invalid> {
    text("idempotency_key", key, IDEMPOTENCY_KEY_BYTES_MAX)
}

/// A type is a word of the configuration: letters, digits, `_`, `-` and `.`.
pub(crate) fn job_type(job_type: &str) -> Result<(), Invalid> {
    text("job_type", job_type, JOB_TYPE_BYTES_MAX)?;
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !job_type.chars().all(sound) {
        let which = "other characters than letters, digits, `_`, `-` and `.`";
        return Err(Invalid::Characters { what: "job_type", which });
    }
    Ok(())
}

pub(crate) fn priority(value: i64) -> Result<(), Invalid> {
    range("priority", value, -PRIORITY_MAX, PRIORITY_MAX)
}

pub(crate) fn range(what: &'static str, value: i64, from: i64, to: i64) -> Result<(), Invalid> {
    if (from..=to).contains(&value) {
        return Ok(());
    }
    Err(Invalid::OutOfRange { what, value, from, to })
}

/// Checks parameters and gives their one text.
pub(crate) fn params(what: &'static str, params: &Value) -> Result<String, Invalid> {
    if !params.is_object() {
        return Err(Invalid::NotAnObject { what });
    }
    if is_deeper(params, PARAMS_DEPTH_MAX) {
        return Err(Invalid::TooDeep { what });
    }
    let text = params.to_string();
    if text.len() > PARAMS_BYTES_MAX {
        return Err(Invalid::TooLong { what, bytes: text.len(), bytes_max: PARAMS_BYTES_MAX });
    }
    Ok(text)
}

/// Looks no deeper than it must, so that a hostile value cannot exhaust the stack here.
fn is_deeper(value: &Value, depth_max: usize) -> bool {
    match value {
        Value::Array(items) => {
            depth_max == 0 || items.iter().any(|item| is_deeper(item, depth_max - 1))
        }
        Value::Object(fields) => {
            depth_max == 0 || fields.values().any(|field| is_deeper(field, depth_max - 1))
        }
        _ => false,
    }
}

/// Lays `over` over `base` as RFC 7396 says: objects merge, `null` removes, the rest replaces.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    base.remove(&key);
                } else {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (base, Value::Object(over)) => {
            *base = Value::Object(serde_json::Map::new());
            merge(base, Value::Object(over));
        }
        (base, over) => *base = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn overrides_merge_as_rfc_7396_says() {
        let mut base = json!({"a": {"x": 1, "y": 2}, "b": [1], "c": 1});
        merge(&mut base, json!({"a": {"y": null, "z": {"w": null}}, "b": [2], "d": 4}));
        assert_eq!(base, json!({"a": {"x": 1, "z": {}}, "b": [2], "c": 1, "d": 4}));
    }

    #[test]
    fn depth_is_counted_exactly() {
        let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert!(params("params", &nested(PARAMS_DEPTH_MAX)).is_ok());
        let deep = params("params", &nested(PARAMS_DEPTH_MAX + 1));
        assert_eq!(deep, Err(Invalid::TooDeep { what: "params" }));
    }
}
