//! `kron state reset`: a mark of what was handled, moved on purpose.
//!
//! A mark in the future comes from a clock that was wrong. It may go back, but never behind a period
//! that was executed and is not in the future: nothing is executed twice.

use std::io::Write;
use std::time::Duration;

use kron_core::{Finding, Outcome, UtcSecond};
use kron_state::{Document, Lock, RealDirectory, Store};
use serde::Serialize;

use crate::args::{OutputFormat, StateResetArgs};
use crate::failure::{Exit, Failure};
use crate::text::write_json;
use crate::{clock, jobs};

/// A mark that was moved.
#[derive(Serialize)]
struct Moved {
    identity: String,
    from: Option<UtcSecond>,
    to: UtcSecond,
}

pub(super) fn run(args: &StateResetArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let now = clock::now();
    let to = match &args.to {
        Some(text) => Some(jobs::time("--to", Some(text))?),
        None => None,
    };
    // Opened first: a directory that is not there is not made.
    let directory = RealDirectory::open_existing(&args.dir.state_dir).map_err(Failure::State)?;
    let _lock = Lock::acquire(&args.dir.state_dir, Duration::ZERO)?;
    let store = Store::open(directory, usize::MAX).map_err(Failure::State)?;
    let documents = match &args.job {
        Some(job) => {
            let document = store
                .read(job)
                .map_err(Failure::State)?
                .ok_or_else(|| super::show::no_document(&store, job))?;
            vec![document]
        }
        None => in_future(&store, now)?,
    };
    let mut moved = Vec::new();
    for document in &documents {
        let Some(to) = target(document, to, now)? else { continue };
        store.reset(&document.identity, Some(to), now).map_err(Failure::NotRecorded)?;
        moved.push(Moved { identity: document.identity.clone(), from: document.last_handled, to });
    }
    for change in &moved {
        match args.format {
            OutputFormat::Json => write_json(out, change)?,
            OutputFormat::Text => {
                let from = change.from.map_or("nothing".to_owned(), |from| from.to_string());
                writeln!(out, "{}: the mark went from {from} to {}", change.identity, change.to)?;
            }
        }
    }
    if !moved.is_empty() {
        return Ok(Exit::Ok);
    }
    if args.format == OutputFormat::Text {
        writeln!(out, "no mark lies in the future")?;
    }
    // Whoever names a job wanted something to be done.
    Ok(if args.all_future { Exit::Ok } else { Exit::No })
}

fn in_future(store: &Store<RealDirectory>, now: UtcSecond) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for file in store.document_names().map_err(Failure::State)? {
        let document = store.read_file(&file).map_err(Failure::State)?;
        documents.extend(document.filter(|it| it.last_handled.is_some_and(|mark| mark > now)));
    }
    Ok(documents)
}

/// Where the mark goes; `None` when it is well where it is.
fn target(
    document: &Document,
    wanted: Option<UtcSecond>,
    now: UtcSecond,
) -> Result<Option<UtcSecond>, Failure> {
    let past = |executed_only: bool| {
        let entries = document.history.iter().filter(move |entry| match entry.outcome {
            Some(Outcome::Executed) => true,
            Some(_) => !executed_only,
            None => false,
        });
        let last = entries.filter_map(|entry| entry.last_period.or(entry.nominal_time));
        last.filter(|nominal| *nominal <= now).max()
    };
    let Some(wanted) = wanted else {
        let is_ahead = document.last_handled.is_some_and(|mark| mark > now);
        return Ok(is_ahead.then(|| past(false).unwrap_or(now)));
    };
    let refused = |message: String| Failure::argument("--to")(Finding::validation(0..0, message));
    if wanted > now {
        return Err(refused(format!("{wanted} lies in the future")));
    }
    if let Some(executed) = past(true).filter(|executed| wanted < *executed) {
        return Err(refused(format!(
            "period {executed} was executed after {wanted}, and nothing is executed twice"
        )));
    }
    Ok(Some(wanted).filter(|to| document.last_handled != Some(*to)))
}

#[cfg(test)]
mod tests {
    use kron_state::{HistoryEntry, PeriodRef};

    use super::*;

    fn at(day: u32) -> UtcSecond {
        UtcSecond::parse(&format!("2026-03-{day:02}T00:00:00Z")).unwrap()
    }

    fn document(mark: u32, entries: &[(u32, Outcome)]) -> Document {
        let mut document = Document::new("a");
        document.last_handled = Some(at(mark));
        document.history = entries
            .iter()
            .map(|(day, outcome)| HistoryEntry {
                outcome: Some(*outcome),
                nominal_time: Some(at(*day)),
                ..HistoryEntry::new(PeriodRef::Period(at(*day)))
            })
            .collect();
        document
    }

    #[test]
    fn a_mark_goes_to_the_latest_period_that_is_not_in_the_future() {
        use Outcome::{Executed, Missed};
        let now = at(10);
        for (mark, entries, expected) in [
            (20, &[(8, Executed), (9, Missed), (20, Executed)][..], Some(at(9))),
            (20, &[(20, Executed)], Some(now)),
            (20, &[], Some(now)),
            (10, &[(10, Executed)], None),
        ] {
            let document = document(mark, entries);
            assert_eq!(target(&document, None, now).unwrap(), expected, "{entries:?}");
        }
    }

    #[test]
    fn a_mark_never_goes_behind_what_was_executed_nor_ahead() {
        use Outcome::{Executed, Missed};
        let document = document(20, &[(5, Executed), (7, Missed), (20, Executed)]);
        let to = |day: u32| target(&document, Some(at(day)), at(10));
        assert!(to(4).is_err());
        assert_eq!(to(5).unwrap(), Some(at(5)));
        assert_eq!(to(6).unwrap(), Some(at(6)));
        assert!(to(11).is_err());
    }
}
