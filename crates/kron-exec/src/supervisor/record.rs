//! What a supervisor leaves behind when nobody is there to be told.
//!
//! A record that cannot be written is tried again for a while: a full disk is often made room on.
//! Each attempt starts with a new file, so that no failed write or sync is ever trusted. What is
//! given up is told in the daemon's log, in the form of the daemon's own lines.

use std::io::{self, Write};
use std::time::Duration;

use kron_core::Category;
use kron_state::{PeriodRef, RunRecord, RunReport, write_run_report};
use serde_json::Value;

use super::{Run, timestamp};
use crate::log_line::log_line;

/// Pauses between attempts: doubling from the first to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// How long a record is tried for, not counting the attempts themselves.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Writes the record durably, trying for up to a quarter of an hour.
///
/// # Errors
/// It is not written; the run counts as lost.
pub(super) fn leave_record(run: &Run, record: RunRecord) -> io::Result<()> {
    let report = RunReport {
        record,
        identity: run.identity.clone(),
        // One that this supervisor does not understand is not worth the record.
        period: run.period_id.clone().and_then(|id| PeriodRef::try_from(id).ok()),
    };
    let mut pause = PAUSE_FIRST;
    let mut paused = Duration::ZERO;
    loop {
        let error = match write_run_report(&run.state_dir, &run.id, &report) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // Whoever removed the whole state directory does not want to know.
        if paused >= PATIENCE || !run.state_dir.exists() {
            // The daemon's own log is the last place to say it.
            let _ = io::stderr().write_all(lost(run, &timestamp(), &error).as_bytes());
            return Err(error);
        }
        std::thread::sleep(pause);
        paused += pause;
        pause = (pause * 2).min(PAUSE_LONGEST);
    }
}

/// The line that says that the run's last words are lost.
fn lost(run: &Run, time: &str, error: &io::Error) -> String {
    let fields = [
        ("event", Value::from("record_lost")),
        ("identity", Value::from(run.identity.as_deref())),
        ("period_id", Value::from(run.period_id.as_deref())),
        ("run_id", Value::from(run.id.as_str())),
        ("error_type", Value::from(Category::Persistence.as_str())),
        ("operation", Value::from("write run record")),
        ("message", Value::from(told(error))),
    ];
    // A daemon from before these were handed over does not say whose run it was.
    let told: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
    log_line(run.log_format, time, "error", "supervisor", &told)
}

/// An error and its sources in one line.
fn told(error: &io::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
