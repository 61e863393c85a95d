//! `runs/`: what supervisors leave when no daemon is there to be told.
//!
//! Supervisors write here at any time, also while a daemon starts and removes what is left over;
//! so a supervisor whose unfinished file vanishes writes it again.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::directory::{Directory, FileError, Operation};
use crate::real::RealDirectory;
use crate::replace::{Failure, put_in_place, uninterrupted};
use crate::run::{RunId, RunRecord};
use crate::sealed;
use crate::store::damaged::copy_name;
use crate::store::{RUNS_DIRECTORY, Store, StoreError, contents};

/// The longest run record that is read.
const RUN_BYTES_MAX: u64 = 64 * 1024;
/// How often a supervisor writes its record before it gives up. One daemon start undoes one.
const WRITES_MAX: usize = 10;
const RUN_SUFFIX: &str = ".json";

/// What is found under a run's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRead {
    /// Nothing, which proves nothing.
    Missing,
    /// Something damaged, which proves nothing either.
    Unreadable {
        /// What is wrong with it.
        cause: String,
    },
    /// What the supervisor left.
    Record(RunRecord),
}

/// A run record as it stands in its file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    #[serde(rename = "RunID")]
    run: RunId,
    record: RunRecord,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl<D: Directory> Store<D> {
    /// What the supervisor of a run left.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a private one.
    pub fn run_record(&self, run: &RunId) -> Result<RunRead, StoreError> {
        let Some(runs) = &self.runs else { return Ok(RunRead::Missing) };
        let Some(contents) = contents(runs, &run_file(run), RUN_BYTES_MAX)? else {
            return Ok(RunRead::Missing);
        };
        match parse(&contents.bytes, run) {
            Ok(record) => Ok(RunRead::Record(record)),
            Err(cause) => Ok(RunRead::Unreadable { cause }),
        }
    }

    /// Leaves a record as a supervisor does.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_run(&self, run: &RunId, record: &RunRecord) -> Result<(), StoreError> {
        let file = run_file(run);
        let runs = self.writable_runs(&file)?;
        let described = || runs.describe(&file);
        self.runs_sync
            .check()
            .map_err(|source| StoreError::SyncedBefore { file: described(), source })?;
        put_record_in_place(runs, run, record)
            .map_err(|error| StoreError::of_io(error.operation, described(), error.source))?;
        self.runs_sync
            .wait(|| runs.sync())
            .map_err(|error| StoreError::of_io(Operation::SyncDirectory, described(), error))
    }

    /// Removes the record of a run, once what it says is durable elsewhere; a damaged one is set
    /// aside. That it is not there is no error; and it may be there again after a power cut, which
    /// does no harm.
    ///
    /// # Errors
    /// When it cannot be removed, or is not a private file.
    pub fn remove_run(&self, run: &RunId) -> Result<(), StoreError> {
        let file = run_file(run);
        let runs = self.writable_runs(&file)?;
        let Some(contents) = contents(runs, &file, RUN_BYTES_MAX)? else { return Ok(()) };
        let removed = if parse(&contents.bytes, run).is_ok() {
            uninterrupted(|| runs.remove(&file))
        } else {
            uninterrupted(|| runs.rename(&file, &copy_name(&file, &contents, 1)))
        };
        removed.map_err(|error| StoreError::of_io(Operation::Remove, runs.describe(&file), error))
    }

    /// Every run that has a record, in order.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn run_ids(&self) -> Result<Vec<RunId>, StoreError> {
        let Some(runs) = &self.runs else { return Ok(Vec::new()) };
        let names = self.names(runs)?;
        let id = |name: &String| {
            name.strip_suffix(RUN_SUFFIX).and_then(|id| RunId::try_from(id.to_owned()).ok())
        };
        Ok(names.iter().filter_map(id).collect())
    }

    /// The directory of run records, which is missing only where a view found none.
    fn writable_runs(&self, file: &str) -> Result<&D, StoreError> {
        self.runs.as_ref().ok_or_else(|| {
            let missing = io::ErrorKind::NotFound.into();
            StoreError::of_io(Operation::OpenDirectory, self.state.describe(file), missing)
        })
    }
}

/// Durably leaves the record of a run in a state directory, for a supervisor that has no store.
///
/// # Errors
/// When it cannot be written.
pub fn write_run_record(state_dir: &Path, run: &RunId, record: &RunRecord) -> io::Result<()> {
    let state = RealDirectory::open_existing(state_dir).map_err(io::Error::other)?;
    let runs = match state.existing_subdirectory(RUNS_DIRECTORY) {
        Ok(Some(runs)) => runs,
        Ok(None) => return Err(io::ErrorKind::NotFound.into()),
        Err(FileError::Io(error)) => return Err(error),
        Err(FileError::Refused(refusal)) => return Err(io::Error::other(refusal)),
    };
    put_record_in_place(&runs, run, record).map_err(|failure| failure.source)?;
    runs.sync()
}

fn put_record_in_place<D: Directory>(
    runs: &D,
    run: &RunId,
    record: &RunRecord,
) -> Result<(), Failure> {
    let bytes = to_bytes(run, record);
    let mut attempts = 1;
    loop {
        match put_in_place(runs, &run_file(run), &bytes) {
            // A daemon that starts took the unfinished file for one that was left over.
            Err(failure)
                if failure.source.kind() == io::ErrorKind::NotFound && attempts < WRITES_MAX =>
            {
                attempts += 1;
            }
            result => return result,
        }
    }
}

fn run_file(run: &RunId) -> String {
    format!("{run}{RUN_SUFFIX}")
}

fn to_bytes(run: &RunId, record: &RunRecord) -> Vec<u8> {
    sealed::seal(&Written { run: run.clone(), record: record.clone(), unknown: Map::new() })
}

fn parse(bytes: &[u8], run: &RunId) -> Result<RunRecord, String> {
    let (text, seal) = sealed::open(bytes)?;
    let mut written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
    seal.remove_from(&mut written.unknown)?;
    if written.run != *run {
        return Err(format!("it belongs to the run `{}`", written.run));
    }
    Ok(written.record)
}
