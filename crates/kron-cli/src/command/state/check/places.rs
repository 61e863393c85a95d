//! What a start finds in a state directory beside what it reads: files of every kind, by name.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use kron_state::{
    Directory as _, FileError, FileKind, Operation, RealDirectory, Refusal, StoreError,
};
use krond::api::socket_path;

use super::{Fault, Weight, fault_of};
use crate::failure::Failure;

const LOCK_FILE: &str = "lock";
const LOGS_DIRECTORY: &str = "logs";
const RUNS_DIRECTORY: &str = "runs";
/// Hex digits of the name of a job's logs.
const HASH_DIGITS: usize = 64;
/// What the names of files that were set aside contain.
const SET_ASIDE: &str = ".corrupt.";

pub(super) fn look(
    directory: &RealDirectory,
    state_dir: &Path,
    faults: &mut Vec<Fault>,
) -> Result<(), Failure> {
    let names = directory.names().map_err(|source| {
        let file = state_dir.display().to_string();
        Failure::State(StoreError::Io { operation: Operation::List, file, source })
    })?;
    for name in names.iter().filter(|name| name.contains(SET_ASIDE)) {
        let file = directory.describe(name);
        faults.push(Fault {
            weight: Weight::Note,
            message: format!("`{file}` was set aside because it could not be read"),
            hint: Some("look into it, then remove it".to_owned()),
        });
    }
    if let Err(error) = directory.modified(LOCK_FILE) {
        faults.push(refused(Operation::Lock, directory, LOCK_FILE, error));
    }
    left_over(directory, &names, faults);
    // That it is not private is told by whoever reads what is in it.
    if let Ok(Some(runs)) = directory.existing_subdirectory(RUNS_DIRECTORY) {
        left_over(&runs, &runs.names().unwrap_or_default(), faults);
    }
    logs(directory, faults);
    socket(&socket_path(state_dir), faults);
    Ok(())
}

/// A start removes what unfinished writes left, and those were files.
fn left_over(directory: &RealDirectory, names: &[String], faults: &mut Vec<Fault>) {
    for name in names.iter().filter(|name| name.starts_with('.') && name.ends_with(".tmp")) {
        let found = directory.modified(name);
        let is_directory = matches!(
            found,
            Err(FileError::Refused(Refusal::Kind { found: FileKind::Directory, .. }))
        );
        if let (true, Err(error)) = (is_directory, found) {
            faults.push(refused(Operation::Remove, directory, name, error));
        }
    }
}

/// The directory of all logs refuses a start, that of one job the job's own.
fn logs(directory: &RealDirectory, faults: &mut Vec<Fault>) {
    let logs = match directory.existing_subdirectory(LOGS_DIRECTORY) {
        Ok(Some(logs)) => logs,
        Ok(None) => return,
        Err(error) => {
            faults.push(refused(Operation::OpenDirectory, directory, LOGS_DIRECTORY, error));
            return;
        }
    };
    let names = logs.names().unwrap_or_else(|error| {
        faults.push(refused(Operation::List, directory, LOGS_DIRECTORY, error.into()));
        Vec::new()
    });
    for name in names.iter().filter(|name| is_hash(name)) {
        if let Err(error) = logs.existing_subdirectory(name) {
            let fault = refused(Operation::OpenDirectory, &logs, name, error);
            let message = format!("{}; its job is not started", fault.message);
            faults.push(Fault { weight: Weight::Mend, message, ..fault });
        }
    }
}

/// Whether a name is that of a job's directory: a SHA-256 in hex.
fn is_hash(name: &str) -> bool {
    name.len() == HASH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What has the name of the control socket must be one, of a daemon that runs or is gone.
fn socket(path: &Path, faults: &mut Vec<Fault>) {
    let told = |cause: &str| format!("`{}`: {cause}", path.display());
    let (message, hint) = match path.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => return,
        Ok(_) => (told("it has the name of the control socket, and is none"), true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => (told(&error.to_string()), false),
    };
    let hint = hint.then(|| {
        "move it away if it is not needed, or choose another place with `krond run --socket`"
            .to_owned()
    });
    faults.push(Fault { weight: Weight::Refused, message, hint });
}

fn refused(operation: Operation, directory: &RealDirectory, name: &str, error: FileError) -> Fault {
    fault_of(&StoreError::of_file(operation, directory.describe(name), error))
}
