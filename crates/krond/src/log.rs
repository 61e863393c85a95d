//! The daemon's log: one line per event on standard error, as `key=value` text or as JSON.
//!
//! Both forms begin with the time, the level and the component, and carry the same fields. A
//! `decision` event carries every field of the request and of the decision, so that `kron replay`
//! can compute it again. What a job's environment or standard input holds never comes here: entries
//! are made of identities, periods, paths and messages only.
//!
//! Lines are written whole, so that those of several threads never mix. A log that cannot be written
//! is given up silently: there is nobody left to tell, and jobs matter more. A log that nobody reads
//! must not hold anybody up either, so a daemon's takes its way through an outlet of its own.
//!
//! Where standard error is the journal of systemd, entries go there with their fields; those who
//! ask for JSON get JSON on standard error there, too.

mod journal;
mod outlet;

use std::fmt::Write as _;
use std::io::{self, Write as _};

use kron_core::DecisionEvent;
use serde_json::Value;

use self::journal::{Journal, Priority};
use self::outlet::{Outlet, Record};
use crate::daemon::clock;
use crate::machine::Entry;

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// `key=value` pairs
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// The log on standard error. Every thread may have one.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    format: LogFormat,
    outlet: Option<&'static Outlet>,
}

impl Log {
    /// A log of this form, whose lines are written before anything else happens.
    #[must_use]
    pub fn new(format: LogFormat) -> Log {
        Log { format, outlet: None }
    }

    /// A log of this form for a process that must not wait for its readers. Lives as long as the
    /// process; [`Log::flush`] comes before its end.
    ///
    /// # Errors
    /// When there can be no thread for it.
    pub(crate) fn detached(format: LogFormat) -> io::Result<Log> {
        let journal = match format {
            LogFormat::Text => Journal::of_stderr(),
            LogFormat::Json => None,
        };
        Ok(Log { format, outlet: Some(Outlet::start(format, journal)?) })
    }

    /// Waits until everything is written, but not for ever.
    pub(crate) fn flush(self) {
        if let Some(outlet) = self.outlet {
            outlet.flush();
        }
    }

    /// How its lines are written.
    #[must_use]
    pub fn format(self) -> LogFormat {
        self.format
    }

    /// Writes one entry.
    pub fn write(self, entry: &Entry) {
        match self.outlet {
            Some(outlet) => outlet.take(outlet.record(entry)),
            None => write_now(&line(self.format, entry)),
        }
    }

    /// Writes what is meant for people only, such as a diagnostic with its source lines.
    pub(crate) fn write_plain(self, text: &str) {
        match self.outlet {
            Some(outlet) => outlet.take(Record::plain(text)),
            None => write_now(text),
        }
    }
}

/// Standard error has no buffer, so this is one write, and its lock keeps others out.
fn write_now(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

fn line(format: LogFormat, entry: &Entry) -> String {
    line_of(format, entry, &fields(entry))
}

fn line_of(format: LogFormat, entry: &Entry, fields: &[(String, Value)]) -> String {
    let time = clock::timestamp();
    kron_exec::log_line(format.into(), &time, entry.level.as_str(), "krond", fields)
}

impl From<LogFormat> for kron_exec::LogFormat {
    fn from(format: LogFormat) -> kron_exec::LogFormat {
        match format {
            LogFormat::Text => kron_exec::LogFormat::Text,
            LogFormat::Json => kron_exec::LogFormat::Json,
        }
    }
}

/// The fields between the component and what an entry adds itself.
fn fields(entry: &Entry) -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    if let Some((definition, decision)) = &entry.decision {
        let event = DecisionEvent::of(definition.job.timing.placement(), decision);
        let known = event.fields();
        for key in ["event", "identity", "period_id"] {
            fields.extend(known.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        for (key, value) in known {
            if !matches!(key.as_str(), "event" | "identity" | "period_id") {
                fields.push((key.clone(), value.clone()));
            }
        }
    } else {
        fields.push(("event".to_owned(), entry.event.into()));
        if let Some(identity) = &entry.identity {
            fields.push(("identity".to_owned(), (**identity).into()));
        }
        if let Some(period) = &entry.period {
            fields.push(("period_id".to_owned(), period.to_string().into()));
        }
    }
    fields.extend(entry.fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    fields
}

/// An error and its sources in one line.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::Level;

    #[test]
    fn a_line_begins_with_time_level_and_component_and_then_says_what_happened_to_whom() {
        let entry = Entry::new(Level::Error, "odd").of(&"a job".into()).with("count", 3);
        let text = line(LogFormat::Text, &entry);
        let (time, rest) = text.split_once(' ').unwrap();
        assert_eq!(time.len(), "2026-03-01T00:00:00.000000001Z".len());
        assert_eq!(rest, "level=error component=krond event=odd identity=\"a job\" count=3\n");
        let value: Value = serde_json::from_str(&line(LogFormat::Json, &entry)).unwrap();
        let mut fields = value.as_object().unwrap().clone();
        assert!(fields.remove("time").is_some());
        let expected = json!({
            "level": "error", "component": "krond", "event": "odd", "identity": "a job", "count": 3,
        });
        assert_eq!(Value::from(fields), expected);
    }

    /// What docs/krond.md tells a collector of OpenTelemetry about the lines.
    #[test]
    fn times_are_rfc_3339_with_nanoseconds_and_levels_are_severities_of_opentelemetry() {
        let severities = ["trace", "debug", "info", "warn", "error", "fatal"];
        for level in [Level::Info, Level::Warn, Level::Error] {
            let text = line(LogFormat::Json, &Entry::new(level, "odd"));
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(severities.contains(&value["level"].as_str().unwrap()), "{text}");
            let shape: String = value["time"].as_str().unwrap().chars().map(shape_of).collect();
            assert_eq!(shape, "0000-00-00T00:00:00.000000000Z", "{text}");
        }
    }

    fn shape_of(char: char) -> char {
        if char.is_ascii_digit() { '0' } else { char }
    }
}
