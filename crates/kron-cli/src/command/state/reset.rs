//! `kron state reset`: what a wrong clock put into the future, brought back on purpose.
//!
//! That is a job's mark of what was handled, and since when the job, its definition and the end of
//! its suspension are known. Where a mark may go is [`Document::mark_target`]'s to say; nothing is
//! executed twice by it. What is known goes to the present, so that nothing of the past runs.

use std::io::Write;
use std::time::Duration;

use kron_core::{Finding, UtcSecond};
use kron_state::{Document, KnownRead, Lock, MarkRefused, RealDirectory, Store};
use serde::Serialize;

use crate::args::{OutputFormat, StateResetArgs};
use crate::failure::{Exit, Failure};
use crate::text::write_json;
use crate::{clock, jobs};

/// The key of the mark, as documents spell it.
const MARK: &str = "LastHandledPeriodID";

/// A time that was moved.
#[derive(Serialize)]
struct Moved {
    identity: String,
    field: &'static str,
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
        Some(job) => Vec::from_iter(named(&store, job)?),
        None => ahead(&store, now)?,
    };
    let mut targets = Vec::new();
    for document in &documents {
        let target = document.mark_target(to, now).map_err(refused)?;
        targets.extend(target.map(|target| (document, target)));
    }
    let mut moved = Vec::new();
    for (document, to) in targets {
        store.reset(&document.identity, Some(to), now).map_err(Failure::NotRecorded)?;
        let identity = document.identity.clone();
        moved.push(Moved { identity, field: MARK, from: document.last_handled, to });
    }
    let known = store.reset_known(args.job.as_deref(), now).map_err(Failure::NotRecorded)?;
    moved.extend(known.into_iter().map(|ahead| Moved {
        identity: ahead.identity.into(),
        field: ahead.time.as_str(),
        from: Some(ahead.at),
        to: now,
    }));
    for change in &moved {
        match args.format {
            OutputFormat::Json => write_json(out, change)?,
            OutputFormat::Text => {
                let what = if change.field == MARK { "the mark" } else { change.field };
                let from = change.from.map_or("nothing".to_owned(), |from| from.to_string());
                writeln!(out, "{}: {what} went from {from} to {}", change.identity, change.to)?;
            }
        }
    }
    if !moved.is_empty() {
        return Ok(Exit::Ok);
    }
    if args.format == OutputFormat::Text {
        let why = if to.is_some() { "the mark is there" } else { "nothing lies in the future" };
        writeln!(out, "{why}")?;
    }
    // Whoever names a job wanted something to be done.
    Ok(if args.all_future { Exit::Ok } else { Exit::No })
}

/// The document of a job; `None` when the job is known and nothing has happened to it yet.
fn named(store: &Store<RealDirectory>, job: &str) -> Result<Option<Document>, Failure> {
    let document = store.read(job).map_err(Failure::State)?;
    if document.is_some() {
        return Ok(document);
    }
    match store.known().map_err(Failure::State)? {
        KnownRead::Known(known) if known.jobs.contains_key(job) => Ok(None),
        _ => Err(super::show::no_document(store, job)),
    }
}

/// Every document whose mark lies in the future.
fn ahead(store: &Store<RealDirectory>, now: UtcSecond) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for file in store.document_names().map_err(Failure::State)? {
        let document = store.read_file(&file).map_err(Failure::State)?;
        documents.extend(document.filter(|document| document.is_ahead_of(now)));
    }
    Ok(documents)
}

fn refused(refusal: MarkRefused) -> Failure {
    let finding = Finding::validation(0..0, refusal.to_string());
    Failure::argument("--to")(match refusal {
        MarkRefused::Forgotten { .. } | MarkRefused::NoHistory(_) => {
            finding.help("without `--to` a mark that lies in the future goes where it may")
        }
        MarkRefused::Future(_) | MarkRefused::Executed { .. } => finding,
    })
}
