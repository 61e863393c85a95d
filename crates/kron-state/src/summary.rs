//! What a document says, read without its history.
//!
//! A daemon with many jobs reads all their documents when it starts, and keeps no histories. A
//! document that carries its checksum was written here, so the entries of its history need not be
//! read to know that they are sound; every other document is read in full.

mod recent;

use kron_core::{Outcome, UtcSecond};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::delivery::Delivery;
use crate::document::{
    ActiveState, Document, DocumentError, HistoryEntry, Replacing, VERSION, text,
};
use crate::run::Ending;
use crate::sealed::{self, Seal};

pub use self::recent::{Recent, RecentEvent};

/// What a document says, without its history.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The job.
    pub identity: String,
    /// The latest period that reached an outcome.
    pub last_handled: Option<UtcSecond>,
    /// That period's outcome.
    pub last_outcome: Option<Outcome>,
    /// When that period was due.
    pub last_chosen: Option<UtcSecond>,
    /// Runs that have not ended, oldest first.
    pub active: Vec<ActiveState>,
    /// A replacement that has begun.
    pub replacing: Option<Replacing>,
    /// Periods that may be owed an outcome.
    pub owed: Vec<UtcSecond>,
    /// Periods beyond the mark that were executed before it was moved back.
    pub executed_ahead: Vec<UtcSecond>,
    /// Who has still to be told what, oldest first.
    pub deliveries: Vec<Delivery>,
    /// The newest entry of the history that has an outcome.
    pub last_entry: Option<Box<HistoryEntry>>,
    /// What became of the latest periods and runs.
    pub recent: Recent,
}

/// A document of ours with the entries of its history as they stand.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Skimmed<'a> {
    version: String,
    identity: String,
    #[serde(rename = "LastHandledPeriodID", with = "text")]
    last_handled: Option<UtcSecond>,
    #[serde(with = "text")]
    last_outcome: Option<Outcome>,
    #[serde(with = "text")]
    last_chosen_time: Option<UtcSecond>,
    active_execution: Option<ActiveState>,
    #[serde(default)]
    other_active: Vec<ActiveState>,
    #[serde(default)]
    replacing: Option<Replacing>,
    #[serde(default)]
    owed: Vec<UtcSecond>,
    #[serde(default)]
    executed_ahead: Vec<UtcSecond>,
    #[serde(default)]
    deliveries: Vec<Delivery>,
    #[serde(borrow)]
    history: Vec<&'a RawValue>,
}

/// As much of an entry as [`Recent`] needs.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SkimmedEntry {
    #[serde(with = "text")]
    outcome: Option<Outcome>,
    exit_code: Option<i32>,
    #[serde(default)]
    ending: Option<Ending>,
}

impl Summary {
    /// What the document that these bytes are says.
    ///
    /// # Errors
    /// As for [`Document::parse`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Summary, DocumentError> {
        let (text, seal) = sealed::open(bytes).map_err(DocumentError::Unreadable)?;
        let summary = match seal {
            Seal::Intact => skim(text),
            Seal::Absent => None,
        };
        match summary {
            Some(summary) => Ok(summary),
            None => Document::parse(bytes, None).map(Summary::from),
        }
    }
}

/// The summary of a document of the present version, or `None` when it is to be read in full.
fn skim(text: &str) -> Option<Summary> {
    let skimmed: Skimmed<'_> = serde_json::from_str(text).ok()?;
    if skimmed.version != VERSION {
        return None;
    }
    let mut last_entry = None;
    let recent = recent_of(&skimmed.history);
    for entry in skimmed.history.into_iter().rev() {
        let entry: HistoryEntry = serde_json::from_str(entry.get()).ok()?;
        if entry.outcome.is_some() {
            last_entry = Some(Box::new(entry));
            break;
        }
    }
    let mut active = skimmed.other_active;
    active.extend(skimmed.active_execution);
    Some(Summary {
        identity: skimmed.identity,
        last_handled: skimmed.last_handled,
        last_outcome: skimmed.last_outcome,
        last_chosen: skimmed.last_chosen_time,
        active,
        replacing: skimmed.replacing,
        owed: skimmed.owed,
        executed_ahead: skimmed.executed_ahead,
        deliveries: skimmed.deliveries,
        last_entry,
        recent,
    })
}

/// What became of the latest of these entries; one that cannot be read is told by whoever needs it.
fn recent_of(history: &[&RawValue]) -> Recent {
    Recent::of_newest_first(history.iter().rev().map(|entry| {
        let entry: SkimmedEntry = serde_json::from_str(entry.get()).ok()?;
        RecentEvent::of_entry(entry.outcome, entry.ending, entry.exit_code)
    }))
}

impl From<Document> for Summary {
    fn from(mut document: Document) -> Summary {
        let recent =
            Recent::of_newest_first(
                document.history.iter().rev().map(|entry| {
                    RecentEvent::of_entry(entry.outcome, entry.ending, entry.exit_code)
                }),
            );
        let last = document.history.iter().rposition(|entry| entry.outcome.is_some());
        let last_entry = last.map(|at| Box::new(document.history.swap_remove(at)));
        let mut active = document.other_active;
        active.extend(document.active_execution);
        Summary {
            identity: document.identity,
            last_handled: document.last_handled,
            last_outcome: document.last_outcome,
            last_chosen: document.last_chosen_time,
            active,
            replacing: document.replacing,
            owed: document.owed,
            executed_ahead: document.executed_ahead,
            deliveries: document.deliveries,
            last_entry,
            recent,
        }
    }
}
