//! The daemon's own life: `epochs.jsonl`, one JSON object per line.
//!
//! It tells people why nothing happened ("krond was down from 02:10 to 02:40"); nothing is decided
//! by it. Lines are appended and synced, so that a crash can leave at most its last line torn;
//! that line is ignored by whoever reads, and cut off by whoever appends next.

use kron_core::UtcSecond;
use serde::{Deserialize, Serialize};

/// Something in the daemon's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// When.
    #[serde(rename = "At")]
    pub at: UtcSecond,
    /// What.
    #[serde(flatten)]
    pub event: EpochEvent,
}

/// What happens in a daemon's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "Event", rename_all = "snake_case", rename_all_fields = "PascalCase")]
pub enum EpochEvent {
    /// A daemon started.
    Start {
        /// Its version.
        version: String,
        /// Its process.
        #[serde(rename = "PID")]
        pid: i32,
        /// The machine's boot.
        #[serde(rename = "BootID")]
        boot_id: String,
        /// The last sign of life of the daemon before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous_alive_until: Option<UtcSecond>,
    },
    /// It stopped in good order.
    Stop {
        /// How: `wait`, `leave` or `kill`.
        mode: String,
    },
    /// The daemon before this one ended without saying so.
    Crash {
        /// Its last sign of life.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alive_until: Option<UtcSecond>,
    },
    /// Definitions were loaded.
    Load {
        /// How many jobs.
        jobs: u64,
        /// Which load of this daemon it was, counted from 1.
        generation: u64,
    },
    /// A job was suspended.
    Suspend {
        /// The job.
        identity: String,
    },
    /// A job's suspension was lifted.
    Resume {
        /// The job.
        identity: String,
    },
    /// The clock was set.
    ClockStep {
        /// What it would have shown.
        from: UtcSecond,
        /// What it showed.
        to: UtcSecond,
    },
    /// The clock leapt so far ahead that nothing is evaluated.
    ClockHeld {
        /// What it would have shown.
        from: UtcSecond,
        /// What it showed.
        to: UtcSecond,
    },
    /// The clock is believed again.
    ClockAccepted {
        /// Why, such as `synchronised` or `asked`.
        reason: String,
    },
    /// A job's mark was moved on purpose, or what is known of it brought back from the future.
    Reset {
        /// The job.
        identity: String,
        /// Where the mark was, or the latest of the times that were brought back.
        from: Option<UtcSecond>,
        /// Where it was put.
        to: Option<UtcSecond>,
    },
}

/// The daemon's life as far as it is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpochLog {
    /// What happened, in the order in which it was recorded.
    pub epochs: Vec<Epoch>,
    /// Lines that are no record known here, a torn last line apart.
    pub unreadable_lines: usize,
}

impl EpochLog {
    /// What these lines say; a last line without its end is ignored.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> EpochLog {
        let mut log = EpochLog::default();
        for line in bytes[..whole_lines(bytes)].split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(epoch) => log.epochs.push(epoch),
                Err(_) => log.unreadable_lines += 1,
            }
        }
        log
    }
}

impl EpochLog {
    /// The latest time that any daemon is known to have seen, on whatever clock it believed.
    #[must_use]
    pub fn latest(&self) -> Option<UtcSecond> {
        let mut held = false;
        let seen = self.epochs.iter().map(|epoch| {
            match &epoch.event {
                // What it showed before counts, what it shows now does not.
                EpochEvent::ClockHeld { from, .. } => {
                    held = true;
                    return Some(*from);
                }
                EpochEvent::ClockAccepted { .. } => held = false,
                // Whatever clock it finds, a daemon believes at its start. What its predecessor
                // left while it did not believe its own says nothing.
                EpochEvent::Crash { .. } | EpochEvent::Start { .. } if held => {
                    held = false;
                    return None;
                }
                _ if held => return None,
                _ => {}
            }
            let told = match &epoch.event {
                EpochEvent::ClockStep { from, .. } => Some(*from),
                EpochEvent::Crash { alive_until } => *alive_until,
                EpochEvent::Start { previous_alive_until, .. } => *previous_alive_until,
                _ => None,
            };
            told.max(Some(epoch.at))
        });
        seen.max().flatten()
    }

    /// Whether the last daemon did not believe its clock at the end.
    #[must_use]
    pub fn ends_in_doubt(&self) -> bool {
        let about = |epoch: &&Epoch| {
            use EpochEvent::{ClockAccepted, ClockHeld, Start};
            matches!(epoch.event, ClockHeld { .. } | ClockAccepted { .. } | Start { .. })
        };
        let last = self.epochs.iter().rfind(about);
        last.is_some_and(|epoch| matches!(epoch.event, EpochEvent::ClockHeld { .. }))
    }
}

impl Epoch {
    /// The line that records it.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut line =
            serde_json::to_vec(self).expect("structs with text keys always have a JSON form");
        line.push(b'\n');
        line
    }
}

/// How many bytes of `bytes` are whole lines.
pub(crate) fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}

/// The newer half of whole lines, and at least the last one.
pub(crate) fn newer_half(lines: &[u8]) -> &[u8] {
    let last = lines.len().saturating_sub(1);
    let middle = lines.len() / 2;
    match lines[middle..last].iter().position(|byte| *byte == b'\n') {
        Some(at) => &lines[middle + at + 1..],
        // The last line reaches back beyond the middle.
        None => &lines[whole_lines(&lines[..last])..],
    }
}
