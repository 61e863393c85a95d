//! What was ever durable about each job, read from the disk as plain JSON.
//!
//! Histories are cut short, so what a document says is taken in after every write. Nothing here
//! knows how the daemon reads its documents: the keys are those of the state format, times are
//! numbers, and a text that needs escapes is taken for unreadable, because none is ever written.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::calendar::unix;

/// What was ever durable about one job.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The high-water marks in the order in which they became durable, each once.
    pub marks: Vec<i64>,
    /// Entries of its history as they were last seen, by run or, where nothing ran, by period.
    pub entries: BTreeMap<String, Entry>,
    /// What was final and changed, and documents that could not be read.
    pub oddities: Vec<String>,
}

/// One entry of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The period, the first of a stretch, or the name of a run by hand.
    pub period: String,
    /// Whether something ran.
    pub executed: bool,
    /// The run's id.
    pub run: Option<String>,
    /// Whether a reason is given.
    pub has_reason: bool,
    /// When it was due.
    pub chosen_unix: Option<i64>,
    /// When it was final.
    pub completed_unix: Option<i64>,
    /// Whether the end of the run is recorded.
    pub has_ending: bool,
    /// The exit code.
    pub exit_code: Option<i64>,
    /// The last period of a stretch.
    pub last_unix: Option<i64>,
    /// How many periods the stretch has.
    pub count: Option<i64>,
}

/// A run that is recorded as active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    /// The run's id.
    pub run: String,
    /// The period or the name of a run by hand.
    pub period: String,
}

/// A document.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default, borrow, rename = "LastHandledPeriodID")]
    mark: Option<&'a str>,
    #[serde(default, borrow, rename = "ActiveExecution")]
    newest: Option<ActiveLine<'a>>,
    #[serde(default, borrow, rename = "OtherActive")]
    others: Vec<ActiveLine<'a>>,
    #[serde(default, borrow, rename = "History")]
    history: Vec<Line<'a>>,
}

#[derive(Deserialize)]
struct ActiveLine<'a> {
    #[serde(rename = "RunID")]
    run: &'a str,
    #[serde(rename = "PeriodID")]
    period: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line<'a> {
    #[serde(rename = "PeriodID")]
    period: &'a str,
    #[serde(default, borrow)]
    outcome: Option<&'a str>,
    #[serde(default, borrow, rename = "RunID")]
    run: Option<&'a str>,
    #[serde(default, borrow)]
    reason: Option<&'a str>,
    #[serde(default, borrow)]
    chosen_time: Option<&'a str>,
    #[serde(default, borrow)]
    completed_at: Option<&'a str>,
    #[serde(default, borrow)]
    ending: Option<&'a str>,
    #[serde(default)]
    exit_code: Option<i64>,
    #[serde(default, borrow, rename = "LastPeriodID")]
    last_period: Option<&'a str>,
    #[serde(default)]
    count: Option<i64>,
}

impl Record {
    /// Takes in what a document says that has just become durable.
    pub(crate) fn take_in(&mut self, bytes: &[u8]) {
        let page: Page<'_> = match serde_json::from_slice(bytes) {
            Ok(page) => page,
            Err(error) => {
                self.oddities.push(format!("what was written cannot be read: {error}"));
                return;
            }
        };
        let mark = page.mark.and_then(unix);
        if self.marks.last() != mark.as_ref() {
            self.marks.extend(mark);
        }
        for line in page.history {
            let key = line.run.unwrap_or(line.period);
            match self.entries.get_mut(key) {
                Some(entry) if line.says(entry) => {}
                Some(entry) => {
                    // A run gets its end; nothing else that is final changes.
                    if entry.has_ending || entry.run.is_none() {
                        self.oddities.push(format!("{key} was final and is recorded anew"));
                    }
                    *entry = line.entry();
                }
                None => {
                    self.entries.insert(key.to_owned(), line.entry());
                }
            }
        }
    }
}

impl Line<'_> {
    /// Whether the entry says the same. Times are compared only where they can change.
    fn says(&self, entry: &Entry) -> bool {
        entry.period == self.period
            && entry.executed == self.is_executed()
            && entry.run.as_deref() == self.run
            && entry.exit_code == self.exit_code
            && entry.has_ending == self.ending.is_some()
            && entry.count == self.count
            && entry.completed_unix == self.completed_at.and_then(unix)
    }

    fn is_executed(&self) -> bool {
        self.outcome == Some("executed")
    }

    fn entry(&self) -> Entry {
        Entry {
            period: self.period.to_owned(),
            executed: self.is_executed(),
            run: self.run.map(str::to_owned),
            has_reason: self.reason.is_some_and(|reason| !reason.is_empty()),
            chosen_unix: self.chosen_time.and_then(unix),
            completed_unix: self.completed_at.and_then(unix),
            has_ending: self.ending.is_some(),
            exit_code: self.exit_code,
            last_unix: self.last_period.and_then(unix),
            count: self.count,
        }
    }
}

/// The runs that a document says are active; `None` when it cannot be read.
pub(crate) fn active_of(bytes: &[u8]) -> Option<Vec<Active>> {
    let page: Page<'_> = serde_json::from_slice(bytes).ok()?;
    let lines = page.newest.into_iter().chain(page.others);
    let active =
        |line: ActiveLine<'_>| Active { run: line.run.to_owned(), period: line.period.to_owned() };
    Some(lines.map(active).collect())
}
