//! `runs/`: what supervisors leave when no daemon is there to be told.
//!
//! Supervisors write here at any time, also while a daemon starts and removes what is left over;
//! so a supervisor whose unfinished file vanishes writes it again.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::directory::{Directory, FileError, Operation};
use crate::document::PeriodRef;
use crate::real::RealDirectory;
use crate::replace::{Failure, put_in_place, uninterrupted};
use crate::run::{RunId, RunRecord, RunReport};
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(default, rename = "PeriodID", skip_serializing_if = "Option::is_none")]
    period: Option<PeriodRef>,
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
        Ok(match self.parsed_run(run)? {
            None => RunRead::Missing,
            Some(Ok(report)) => RunRead::Record(report.record),
            Some(Err(cause)) => RunRead::Unreadable { cause },
        })
    }

    /// What the supervisor of a run left, with what it was a run of; `None` when there is nothing
    /// or nothing that can be read.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a private one.
    pub fn run_report(&self, run: &RunId) -> Result<Option<RunReport>, StoreError> {
        Ok(self.parsed_run(run)?.and_then(Result::ok))
    }

    fn parsed_run(&self, run: &RunId) -> Result<Option<Result<RunReport, String>>, StoreError> {
        let Some(runs) = &self.runs else { return Ok(None) };
        let contents = contents(runs, &run_file(run), RUN_BYTES_MAX)?;
        Ok(contents.map(|contents| parse(&contents.bytes, run)))
    }

    /// Leaves a record as a supervisor does.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_run(&self, run: &RunId, record: &RunRecord) -> Result<(), StoreError> {
        self.write_run_report(run, &record.clone().into())
    }

    /// Leaves a record as a supervisor does that knows what it was a run of.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_run_report(&self, run: &RunId, report: &RunReport) -> Result<(), StoreError> {
        let file = run_file(run);
        let runs = self.writable_runs(&file)?;
        let described = || runs.describe(&file);
        self.runs_sync
            .check()
            .map_err(|source| StoreError::SyncedBefore { file: described(), source })?;
        put_report_in_place(runs, run, report)
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
    write_run_report(state_dir, run, &record.clone().into())
}

/// Durably leaves the record of a run and what it was a run of in a state directory, for a
/// supervisor that has no store.
///
/// # Errors
/// When it cannot be written.
pub fn write_run_report(state_dir: &Path, run: &RunId, report: &RunReport) -> io::Result<()> {
    let state = RealDirectory::open_existing(state_dir).map_err(io::Error::other)?;
    let runs = match state.existing_subdirectory(RUNS_DIRECTORY) {
        Ok(Some(runs)) => runs,
        Ok(None) => return Err(io::ErrorKind::NotFound.into()),
        Err(FileError::Io(error)) => return Err(error),
        Err(FileError::Refused(refusal)) => return Err(io::Error::other(refusal)),
    };
    put_report_in_place(&runs, run, report).map_err(|failure| failure.source)?;
    runs.sync()
}

fn put_report_in_place<D: Directory>(
    runs: &D,
    run: &RunId,
    report: &RunReport,
) -> Result<(), Failure> {
    let bytes = to_bytes(run, report);
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

fn to_bytes(run: &RunId, report: &RunReport) -> Vec<u8> {
    let RunReport { record, identity, period } = report.clone();
    sealed::seal(&Written { run: run.clone(), identity, period, record, unknown: Map::new() })
}

fn parse(bytes: &[u8], run: &RunId) -> Result<RunReport, String> {
    let (text, seal) = sealed::open(bytes)?;
    let mut written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
    seal.remove_from(&mut written.unknown)?;
    if written.run != *run {
        return Err(format!("it belongs to the run `{}`", written.run));
    }
    Ok(RunReport { record: written.record, identity: written.identity, period: written.period })
}
