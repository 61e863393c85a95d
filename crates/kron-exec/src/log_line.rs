//! The one form of Kron's log lines, as text and as JSON.
//!
//! A daemon writes its own lines with [`log_line`], and so does a supervisor that has something to
//! say when nobody is there to be told: whoever reads the daemon's log cannot tell them apart but
//! by their component. Nothing here asks the time, knows an event or writes anything.

use std::fmt::Write as _;

use kron_core::quoted;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// `key=value` pairs.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// One line of the log, with its end. The time, the level and the component come first, then the
/// fields in their order; as text, those that are null are left out.
#[must_use]
pub fn log_line<K: AsRef<str>>(
    format: LogFormat,
    time: &str,
    level: &str,
    component: &str,
    fields: &[(K, Value)],
) -> String {
    let mut line = match format {
        LogFormat::Text => format!("{time} level={level} component={component}"),
        LogFormat::Json => {
            format!(r#"{{"time":"{time}","level":"{level}","component":"{component}""#)
        }
    };
    for (key, value) in fields {
        let key = key.as_ref();
        // Writing to a `String` cannot fail.
        let _ = match (format, value) {
            (LogFormat::Json, value) => write!(line, ",{}:{value}", Value::from(key)),
            (LogFormat::Text, Value::Null) => Ok(()),
            (LogFormat::Text, Value::String(text)) => write!(line, " {key}={}", quoted(text)),
            (LogFormat::Text, other) => write!(line, " {key}={}", quoted(&other.to_string())),
        };
    }
    line.push_str(match format {
        LogFormat::Text => "\n",
        LogFormat::Json => "}\n",
    });
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TIME: &str = "2026-03-01T00:00:00.000000001Z";

    fn line(format: LogFormat) -> String {
        let fields = [
            ("event", json!("odd")),
            ("identity", json!("a b=\"c\"")),
            ("message", json!("two\nlines")),
            ("count", json!(3)),
            ("nothing", Value::Null),
        ];
        log_line(format, TIME, "error", "krond", &fields)
    }

    #[test]
    fn whatever_a_value_holds_a_line_stays_one_line() {
        assert_eq!(
            line(LogFormat::Text),
            format!(
                "{TIME} level=error component=krond event=odd identity=\"a b=\\\"c\\\"\" \
                 message=\"two\\nlines\" count=3\n"
            )
        );
    }

    #[test]
    fn the_same_fields_make_one_json_object() {
        let line = line(LogFormat::Json);
        assert!(line.starts_with("{\"time\":") && line.ends_with("}\n"), "{line}");
        assert_eq!(line.lines().count(), 1);
        let expected = json!({
            "time": TIME, "level": "error", "component": "krond", "event": "odd",
            "identity": "a b=\"c\"", "message": "two\nlines", "count": 3, "nothing": null,
        });
        assert_eq!(serde_json::from_str::<Value>(&line).ok(), Some(expected));
    }
}
