//! `kron state check`: what a daemon would stumble over, found without one.

use std::io::Write;

use kron_core::{Category, UtcSecond};
use kron_state::{
    Directory as _, DocumentError, KNOWN_BYTES_MAX, Known, Operation, RealDirectory, RunRead,
    Store, StoreError,
};
use serde::Serialize;

use crate::args::{OutputFormat, StateLsArgs};
use crate::clock;
use crate::failure::{Exit, Failure, told};
use crate::text::{count, write_json};

const KNOWN_FILE: &str = "known.json";
/// What the names of files that were set aside contain.
const SET_ASIDE: &str = ".corrupt.";

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
    let directory = RealDirectory::open_existing(&args.dir.state_dir).map_err(Failure::State)?;
    let mut faults = Vec::new();
    known(&directory, &mut faults);
    let names = directory.names().map_err(|source| {
        let file = args.dir.state_dir.display().to_string();
        Failure::State(StoreError::Io { operation: Operation::List, file, source })
    })?;
    for name in names.iter().filter(|name| name.contains(SET_ASIDE)) {
        faults.push(Fault {
            weight: Weight::Note,
            message: format!(
                "`{}` was set aside because it could not be read",
                directory.describe(name)
            ),
            hint: Some("look into it, then remove it".to_owned()),
        });
    }
    let store = Store::view(directory, usize::MAX).map_err(Failure::State)?;
    let documents = documents(&store, clock::now(), &mut faults)?;
    runs(&store, &mut faults)?;
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
    let (weight, message) = match directory.read(KNOWN_FILE, KNOWN_BYTES_MAX) {
        Err(error) => (Weight::Refused, format!("`{file}`: {error}")),
        Ok(None) => (
            Weight::Note,
            format!("there is no `{file}`: every job counts as new at the next start"),
        ),
        Ok(Some(contents)) => match Known::parse(&contents.bytes) {
            Ok(_) => return,
            Err(error @ DocumentError::Unreadable(_)) => (
                Weight::Lost,
                format!("`{file}` is {error}: every job counts as new at the next start"),
            ),
            Err(error @ DocumentError::Incompatible(_)) => {
                (Weight::Refused, format!("`{file}` is {error}"))
            }
        },
    };
    faults.push(Fault { weight, message, hint: None });
}

fn documents(
    store: &Store<RealDirectory>,
    now: UtcSecond,
    faults: &mut Vec<Fault>,
) -> Result<u64, Failure> {
    let mut number = 0;
    for file in store.document_names().map_err(Failure::State)? {
        number += 1;
        match store.read_file(&file) {
            Ok(None) => {}
            Ok(Some(document)) => {
                if let Some(handled) = document.last_handled.filter(|handled| *handled > now) {
                    faults.push(Fault {
                        weight: Weight::Mend,
                        message: format!(
                            "`{}` counts everything up to {handled} as handled, and runs nothing \
                             before that",
                            document.identity
                        ),
                        hint: Some("`kron state reset`, with the daemon stopped".to_owned()),
                    });
                }
            }
            Err(error) => faults.push(fault_of(&error)),
        }
    }
    Ok(number)
}

fn runs(store: &Store<RealDirectory>, faults: &mut Vec<Fault>) -> Result<(), Failure> {
    for run in store.run_ids().map_err(Failure::State)? {
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
    Ok(())
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
