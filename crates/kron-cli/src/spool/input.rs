//! Tasks from lines of standard input, in batches of what has arrived together.
//!
//! A thread reads, so that whoever puts tasks never waits for the next line while some are there.
//! How many lines wait between the two is bounded, and so is each of them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use kron_core::{Seconds, Timestamp};
use kron_spool::{IdSource, NewTask, TASK_BYTES_MAX, TaskId};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::lines::{Line, Lines};

/// Tasks that share their syncs.
pub(crate) const BATCH_TASKS_MAX: usize = 64;
/// Lines that wait while tasks are put.
const LINES_AHEAD_MAX: usize = 2 * BATCH_TASKS_MAX;
/// What a task is told that is told nothing.
pub(crate) const NO_DATA: &str = "{}";

/// Lines that have arrived.
#[derive(Debug)]
pub(crate) struct Arrivals(Receiver<Arrival>);

/// A line with its number, or the end of all reading.
#[derive(Debug)]
pub(crate) enum Arrival {
    Line(usize, Vec<u8>),
    TooLong(usize),
    Failed(Failure),
}

impl Arrivals {
    /// The lines of standard input.
    pub(crate) fn of_stdin() -> Result<Arrivals, Failure> {
        let (sender, receiver) = sync_channel(LINES_AHEAD_MAX);
        std::thread::Builder::new().spawn(move || read(&sender)).map_err(Failure::Output)?;
        Ok(Arrivals(receiver))
    }

    /// What is there, as much as one batch may have; waits only when nothing is. Empty at the end.
    pub(crate) fn next(&self) -> Vec<Arrival> {
        let Ok(first) = self.0.recv() else { return Vec::new() };
        std::iter::once(first).chain(self.0.try_iter()).take(BATCH_TASKS_MAX).collect()
    }
}

/// Sends line by line until the end, or until nobody listens any more.
fn read(sender: &SyncSender<Arrival>) {
    let mut lines = match Lines::open_bounded(Path::new("-"), TASK_BYTES_MAX) {
        Ok(lines) => lines,
        Err(failure) => {
            let _ = sender.send(Arrival::Failed(failure));
            return;
        }
    };
    for number in 1.. {
        let arrival = match lines.next() {
            Ok(None) => return,
            Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => continue,
            Ok(Some(Line::Whole(line))) => Arrival::Line(number, line.to_vec()),
            Ok(Some(Line::TooLong)) => Arrival::TooLong(number),
            Err(failure) => Arrival::Failed(failure),
        };
        let is_last = matches!(arrival, Arrival::Failed(_));
        if sender.send(arrival).is_err() || is_last {
            return;
        }
    }
}

/// A line that says everything about a task.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WholeLine<'l> {
    #[serde(rename = "type", borrow)]
    task_type: Cow<'l, str>,
    #[serde(default, borrow, deserialize_with = "given")]
    data: Option<&'l RawValue>,
    #[serde(default, borrow)]
    id: Option<Cow<'l, str>>,
    #[serde(default, borrow)]
    not_before: Option<Cow<'l, str>>,
}

/// A value that is there, `null` too.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The task of a line: its data when the type is known, else an object that says everything.
pub(crate) fn task(
    line: &[u8],
    task_type: Option<&str>,
    ids: &IdSource,
    now: Timestamp,
) -> Result<NewTask, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?.trim();
    if let Some(task_type) = task_type {
        let id = ids.next(now).map_err(|error| format!("there is no id for it: {error}"))?;
        return NewTask::new(id, task_type, text).map_err(|fault| one_line(&fault.to_string()));
    }
    // A list would be taken for the fields in their order.
    if !text.starts_with('{') {
        return Err("it is no JSON object".to_owned());
    }
    let line: WholeLine<'_> =
        serde_json::from_str(text).map_err(|error| one_line(&format!("it is no task: {error}")))?;
    let id = match &line.id {
        Some(id) => TaskId::new(id).map_err(|error| error.to_string())?,
        None => ids.next(now).map_err(|error| format!("there is no id for it: {error}"))?,
    };
    let data = line.data.map_or(NO_DATA, RawValue::get);
    let task =
        NewTask::new(id, &line.task_type, data).map_err(|fault| one_line(&fault.to_string()))?;
    match &line.not_before {
        None => Ok(task),
        Some(text) => {
            let moment = not_before(text, now).map_err(|wrong| format!("`notBefore`: {wrong}"))?;
            Ok(task.not_before(moment))
        }
    }
}

/// A time, or a length of time from now.
pub(crate) fn not_before(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let length = match Seconds::parse(text) {
        Ok(length) => length.get_signed().checked_mul(1_000),
        Err(finding) => {
            return text.parse().map_err(|_| {
                // What looks like a length of time is one that is too long or misspelt.
                let is_length = text.starts_with(|letter: char| letter.is_ascii_digit())
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
                let shown = kron_core::finding::excerpt(text);
                match is_length {
                    true => finding.message,
                    false => format!(
                        "`{shown}` is neither a time such as `2026-03-01T00:00:00Z` nor a length \
                         of time such as `15m`"
                    ),
                }
            });
        }
    };
    let at = length.and_then(|ms| Timestamp::from_unix_ms(now.unix_ms().checked_add(ms)?));
    at.ok_or_else(|| "that is after the year 9999".to_owned())
}

/// A task is one line, so its number says nothing.
fn one_line(message: &str) -> String {
    message.replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(line: &str, task_type: Option<&str>) -> Result<NewTask, String> {
        let now = "2026-03-01T00:00:00Z".parse().unwrap();
        task(line.as_bytes(), task_type, &IdSource::default(), now)
    }

    #[test]
    fn lines_are_data_or_whole_tasks() {
        for line in ["{}", "null", "[1,2]", " 12345678901234567890123 ", r#""x""#] {
            assert!(put(line, Some("T")).is_ok(), "{line}");
        }
        let task = put(r#"{"type":"T","id":"a-1","data":null,"notBefore":"1h"}"#, None).unwrap();
        assert_eq!(task.id().as_str(), "a-1");
        let shown = format!("{task:?}");
        assert!(shown.contains("null"), "an explicit null is data: {shown}");
        assert!(format!("{:?}", put(r#"{"type":"T"}"#, None).unwrap()).contains("{}"));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, task_type, expected) in [
            ("{", Some("T"), "`data`: it is not JSON: EOF while parsing an object at column 1"),
            ("1 2", Some("T"), "`data`: it is not JSON: trailing characters at column 3"),
            ("[\"T\"]", None, "it is no JSON object"),
            ("{}", None, "it is no task: missing field `type` at column 2"),
            (r#"{"type":"T","tpye":1}"#, None, "it is no task: unknown field `tpye`"),
            (r#"{"type":"T","id":"../x"}"#, None, "`../x` cannot be a task id"),
            (r#"{"type":"a b"}"#, None, "`type`: `a b`"),
            (r#"{"type":"T","notBefore":"soon"}"#, None, "`notBefore`: `soon` is neither"),
            (r#"{"type":"T","type":"U"}"#, None, "duplicate field `type`"),
        ] {
            let told = put(line, task_type).expect_err(line);
            assert!(told.contains(expected), "{told}");
        }
        let deep = "[".repeat(65) + &"]".repeat(65);
        assert!(put(&deep, Some("T")).expect_err("deep").contains("nested"));
    }

    #[test]
    fn times_and_lengths_of_time_are_understood() {
        let now: Timestamp = "2026-03-01T00:00:00.500Z".parse().unwrap();
        let at = |text: &str| not_before(text, now).map(|at| at.to_string());
        assert_eq!(at("15m").as_deref(), Ok("2026-03-01T00:15:00.500Z"));
        assert_eq!(at("2026-03-01T01:00:00+01:00").as_deref(), Ok("2026-03-01T00:00:00.000Z"));
        assert!(at("tomorrow").is_err() && at("").is_err());
    }
}
