//! `kron state check`: what a daemon would stumble over, found without one.
//!
//! Whatever a start looks at is looked at here, by the same checks, and nothing is changed. One
//! finding does not hide the others.

mod places;

use std::io::Write;

use kron_core::Category;
use kron_state::{
    Directory as _, Document, DocumentError, KNOWN_BYTES_MAX, Known, KnownAhead, KnownTime,
    Operation, RealDirectory, RunRead, Store, StoreError,
};
use serde::Serialize;

use crate::args::{OutputFormat, StateLsArgs};
use crate::clock;
use crate::failure::{Exit, Failure, told};
use crate::text::{count, write_json};

const KNOWN_FILE: &str = "known.json";
/// What mends whatever lies in the future.
const RESET_HINT: &str = "`kron state reset`, with the daemon stopped";

/// Something that was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Fault {
    weight: Weight,
    message: String,
    hint: Option<String>,
}

/// What a fault means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Weight {
    /// Worth knowing.
    Note,
    /// A job does not run as it should.
    Mend,
    /// Something is lost, and a daemon goes on without it.
    Lost,
    /// No daemon starts.
    Refused,
}

impl Weight {
    const fn as_str(self) -> &'static str {
        match self {
            Weight::Note => "note",
            Weight::Mend => "mend",
            Weight::Lost => "lost",
            Weight::Refused => "refused",
        }
    }
}

pub(super) fn run(args: &StateLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let state_dir = &args.dir.state_dir;
    let directory = RealDirectory::open_existing(state_dir).map_err(Failure::State)?;
    let mut faults = Vec::new();
    known(&directory, &mut faults);
    places::look(&directory, state_dir, &mut faults)?;
    let store = match Store::view(directory, usize::MAX) {
        Ok(store) => store,
        Err(error) => {
            faults.push(fault_of(&error));
            Store::view_without_runs(
                RealDirectory::open_existing(state_dir).map_err(Failure::State)?,
            )
        }
    };
    let documents = documents(&store, &mut faults)?;
    runs(&store, &mut faults);
    epochs(&store, &mut faults);
    faults.sort_by_key(|fault| std::cmp::Reverse(fault.weight));
    match args.format {
        OutputFormat::Json => {
            for fault in &faults {
                write_json(out, fault)?;
            }
        }
        OutputFormat::Text => {
            for fault in &faults {
                writeln!(out, "{}: {}", fault.weight.as_str(), fault.message)?;
                if let Some(hint) = &fault.hint {
                    writeln!(out, "  {hint}")?;
                }
            }
            let found = match faults.len() {
                0 => "nothing to mend".to_owned(),
                number => count(number as u64, "finding"),
            };
            writeln!(out, "{}, {found}", count(documents, "document"))?;
        }
    }
    Ok(match faults.first().map(|fault| fault.weight) {
        None | Some(Weight::Note) => Exit::Ok,
        Some(Weight::Mend) => Exit::No,
        Some(Weight::Lost | Weight::Refused) => Exit::Unusable,
    })
}

/// Looks at `known.json` without setting anything aside.
fn known(directory: &RealDirectory, faults: &mut Vec<Fault>) {
    let file = directory.describe(KNOWN_FILE);
    let contents = match directory.read(KNOWN_FILE, KNOWN_BYTES_MAX) {
        Ok(Some(contents)) => contents,
        Ok(None) => {
            faults.push(Fault {
                weight: Weight::Note,
                message: format!("there is no `{file}`: every job counts as new at the next start"),
                hint: None,
            });
            return;
        }
        Err(error) => {
            faults.push(fault_of(&StoreError::of_file(Operation::Read, file, error)));
            return;
        }
    };
    match Known::parse(&contents.bytes) {
        // The time is asked for after the file was read, which a daemon may just have written.
        Ok(known) => faults.extend(known.ahead_of(clock::now()).iter().map(of_future)),
        Err(error @ DocumentError::Unreadable(_)) => faults.push(Fault {
            weight: Weight::Lost,
            message: format!(
                "`{file}` is {}: {error}: every job counts as new at the next start",
                error.verdict()
            ),
            hint: None,
        }),
        Err(source @ DocumentError::Incompatible(_)) => {
            faults.push(fault_of(&StoreError::Document { file, source }));
        }
    }
}

fn of_future(ahead: &KnownAhead) -> Fault {
    let KnownAhead { identity, time, at } = ahead;
    let what = match time {
        KnownTime::CreatedAt => format!("`{identity}` counts as created at {at}"),
        KnownTime::EffectiveFrom => {
            format!("the definition of `{identity}` counts as in force from {at}")
        }
        KnownTime::ResumedAt => format!("the suspension of `{identity}` counts as lifted at {at}"),
    };
    Fault {
        weight: Weight::Mend,
        message: format!("{what}, and nothing of it runs before that"),
        hint: Some(RESET_HINT.to_owned()),
    }
}

fn documents(store: &Store<RealDirectory>, faults: &mut Vec<Fault>) -> Result<u64, Failure> {
    let mut number = 0;
    for file in store.document_names().map_err(Failure::State)? {
        number += 1;
        match store.read_file(&file) {
            Ok(None) => {}
            Ok(Some(document)) => faults.extend(mark(&document)),
            Err(error) => faults.push(fault_of(&error)),
        }
    }
    Ok(number)
}

fn mark(document: &Document) -> Option<Fault> {
    let mark = document.last_handled.filter(|_| document.is_ahead_of(clock::now()))?;
    let due = match document.last_chosen_time.filter(|due| *due != mark) {
        Some(due) => format!("{mark}, due at {due},"),
        None => mark.to_string(),
    };
    Some(Fault {
        weight: Weight::Mend,
        message: format!(
            "`{}` counts everything up to {due} as handled, and runs nothing before that",
            document.identity
        ),
        hint: Some(RESET_HINT.to_owned()),
    })
}

fn runs(store: &Store<RealDirectory>, faults: &mut Vec<Fault>) {
    let runs = store.run_ids().unwrap_or_else(|error| {
        faults.push(fault_of(&error));
        Vec::new()
    });
    for run in runs {
        match store.run_record(&run) {
            Ok(RunRead::Missing | RunRead::Record(_)) => {}
            Ok(RunRead::Unreadable { cause }) => faults.push(Fault {
                weight: Weight::Lost,
                message: format!("how run `{run}` ended is not readable: {cause}"),
                hint: Some("its end is recorded as lost".to_owned()),
            }),
            Err(error) => faults.push(fault_of(&error)),
        }
    }
}

fn epochs(store: &Store<RealDirectory>, faults: &mut Vec<Fault>) {
    match store.epochs() {
        Ok(log) if log.unreadable_lines == 0 => {}
        Ok(log) => faults.push(Fault {
            weight: Weight::Note,
            message: format!(
                "{} of the daemon's own log cannot be read",
                count(log.unreadable_lines as u64, "line")
            ),
            hint: None,
        }),
        Err(error) => faults.push(fault_of(&error)),
    }
}

fn fault_of(error: &StoreError) -> Fault {
    match error {
        StoreError::Document { source: DocumentError::Unreadable(_), .. } => Fault {
            weight: Weight::Lost,
            message: told(error),
            hint: Some(
                "krond sets it aside and counts every period up to then as handled".to_owned(),
            ),
        },
        _ => {
            let weight =
                if error.category() == Category::System { Weight::Note } else { Weight::Refused };
            Fault { weight, message: told(error), hint: error.hint() }
        }
    }
}
