//! What a supervisor leaves behind when nobody is there to be told.
//!
//! A record that cannot be written is tried again for a while: a full disk is often made room on.
//! Each attempt starts with a new file, so that no failed write or sync is ever trusted.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use kron_state::{RunId, RunRecord, write_run_record};

/// Pauses between attempts: doubling from the first to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// How long a record is tried for, not counting the attempts themselves.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Writes the record durably, trying for up to a quarter of an hour.
///
/// # Errors
/// It is not written; the run counts as lost.
pub(super) fn leave_record(state_dir: &Path, run: &RunId, record: &RunRecord) -> io::Result<()> {
    let mut pause = PAUSE_FIRST;
    let mut paused = Duration::ZERO;
    loop {
        let error = match write_run_record(state_dir, run, record) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // Whoever removed the whole state directory does not want to know.
        if paused >= PATIENCE || !state_dir.exists() {
            // The daemon's own log is the last place to say it.
            let _ = writeln!(
                io::stderr(),
                "level=error component=supervisor event=record_lost run={run} message={:?}",
                error.to_string()
            );
            return Err(error);
        }
        std::thread::sleep(pause);
        paused += pause;
        pause = (pause * 2).min(PAUSE_LONGEST);
    }
}
