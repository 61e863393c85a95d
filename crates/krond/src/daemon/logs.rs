//! Where the output of runs is kept, and for how long.
//!
//! Every job has a directory under `logs/`, named as its state document is, and every run a file
//! in it. Old ones are removed in a thread of its own, after a run of the job has ended and, for
//! jobs that do not run any more, at the daemon's start and once a day. The log of a run that has
//! not ended is never removed.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use kron_config::DaemonSettings;
use kron_core::{Category, UtcSecond};
use kron_state::{Directory as _, Operation, RealDirectory, RunId, StoreError, document_file};

use super::clock;
use super::worker;
use crate::log::Log;
use crate::machine::{Entry, Level};

const LOGS_DIRECTORY: &str = "logs";
const LOG_SUFFIX: &str = ".log";

/// Where the output of a run is kept.
pub(super) fn path(state_dir: &Path, identity: &str, run: &RunId) -> PathBuf {
    directory(state_dir, identity).join(format!("{run}{LOG_SUFFIX}"))
}

fn directory(state_dir: &Path, identity: &str) -> PathBuf {
    state_dir.join(LOGS_DIRECTORY).join(directory_name(identity))
}

fn directory_name(identity: &str) -> String {
    document_file(identity).trim_end_matches(".json").to_owned()
}

/// Runs that have not ended.
pub(super) type ActiveRuns = Arc<Mutex<HashSet<RunId>>>;

/// What is to be tidied up.
#[derive(Debug)]
pub(super) enum Task {
    /// One job's logs.
    Job { identity: Arc<str>, settings: Arc<DaemonSettings> },
    /// All logs.
    All { settings: Arc<DaemonSettings> },
}

/// Starts the thread. It ends when the sender is gone.
pub(super) fn start_retention(
    state_dir: PathBuf,
    active: ActiveRuns,
    log: Log,
) -> io::Result<mpsc::Sender<Task>> {
    let (sender, tasks) = mpsc::channel();
    worker::spawn("log-retention".to_owned(), move || {
        for task in tasks {
            let now = clock::now().wall;
            match task {
                Task::Job { identity, settings } => {
                    let directory = directory(&state_dir, &identity);
                    told(log, &directory, prune(&directory, &settings, &active, now));
                }
                Task::All { settings } => {
                    let logs = state_dir.join(LOGS_DIRECTORY);
                    match subdirectories(&logs) {
                        Ok(directories) => {
                            for directory in directories {
                                told(log, &directory, prune(&directory, &settings, &active, now));
                            }
                        }
                        Err(error) => told(log, &logs, Err(error)),
                    }
                }
            }
        }
    })?;
    Ok(sender)
}

fn told(log: Log, directory: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        let message = format!("`{}`: {error}", directory.display());
        log.write(&Entry::new(Level::Error, "logs_not_pruned").error(
            Category::System,
            "prune logs",
            &message,
        ));
    }
}

/// The directory of all logs, which must be this daemon's own.
pub(super) fn open(state_dir: &RealDirectory) -> Result<RealDirectory, StoreError> {
    private(state_dir, LOGS_DIRECTORY)
}

/// Makes sure that a job's logs go to a directory of this daemon's own.
pub(super) fn prepare(logs: &RealDirectory, identity: &str) -> Result<(), StoreError> {
    private(logs, &directory_name(identity)).map(drop)
}

fn private(parent: &RealDirectory, name: &str) -> Result<RealDirectory, StoreError> {
    let found = match parent.existing_subdirectory(name) {
        Ok(None) => parent.subdirectory(name),
        Ok(Some(found)) => Ok(found),
        Err(error) => Err(error),
    };
    found.map_err(|error| {
        StoreError::of_file(Operation::OpenDirectory, parent.describe(name), error)
    })
}

fn subdirectories(logs: &Path) -> io::Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for entry in existing(logs)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            directories.push(entry.path());
        }
    }
    Ok(directories)
}

/// The entries of a directory; none when it is not there. What a link points at is not tidied up.
fn existing(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    let entries = match directory.symlink_metadata() {
        Ok(metadata) if !metadata.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) => directory.read_dir(),
        Err(error) => Err(error),
    };
    match entries {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

fn is_active(active: &ActiveRuns, run: &RunId) -> bool {
    active.lock().unwrap_or_else(PoisonError::into_inner).contains(run)
}

/// Removes the logs that are too many or too old.
fn prune(
    directory: &Path,
    settings: &DaemonSettings,
    active: &ActiveRuns,
    now: UtcSecond,
) -> io::Result<()> {
    let mut logs = Vec::new();
    for entry in existing(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let run = name.to_str().and_then(|name| name.strip_suffix(LOG_SUFFIX));
        let Some(run) = run.and_then(|run| RunId::try_from(run.to_owned()).ok()) else { continue };
        // One that is still written is neither counted nor removed.
        if is_active(active, &run) {
            continue;
        }
        let metadata = entry.metadata()?;
        logs.push((metadata.modified()?, run, entry.path()));
    }
    // Newest first; the id only makes the order complete.
    logs.sort_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
    let kept_max = settings.log_runs_max as usize;
    let oldest = now.saturating_add(-settings.log_age_max.get_signed());
    for (rank, (modified, run, path)) in logs.iter().enumerate() {
        let written = modified
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        if rank < kept_max && written >= oldest.unix() {
            continue;
        }
        // Looked at as late as can be: a run that starts now is in the set before its log exists.
        if is_active(active, run) {
            continue;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use kron_core::Seconds;

    use super::*;

    fn log(directory: &Path, bits: u64, written: i64) -> RunId {
        let run = RunId::from_bits(bits);
        let file = fs::File::create(directory.join(format!("{run}.log"))).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(written as u64)).unwrap();
        run
    }

    fn left(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = directory
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn settings(log_runs_max: u32, log_age_max: u64) -> DaemonSettings {
        DaemonSettings {
            log_runs_max,
            log_age_max: Seconds::new(log_age_max),
            ..DaemonSettings::default()
        }
    }

    #[test]
    fn the_newest_logs_are_kept_and_an_active_one_whatever_its_age() {
        let dir = tempfile::tempdir().unwrap();
        let now = 2_000_000_000;
        let oldest = log(dir.path(), 1, now - 50);
        for (bits, age) in [(2, 40), (3, 30), (4, 20), (5, 10)] {
            log(dir.path(), bits, now - age);
        }
        fs::write(dir.path().join("notes.txt"), "not a log").unwrap();
        let active = ActiveRuns::default();
        active.lock().unwrap().insert(oldest);
        let now = UtcSecond::from_unix(now).unwrap();
        prune(dir.path(), &settings(2, 1_000), &active, now).unwrap();
        let name = |bits| format!("{}.log", RunId::from_bits(bits));
        assert_eq!(left(dir.path()), [name(1), name(4), name(5), "notes.txt".to_owned()]);

        // One that stands at its gate takes nobody's place.
        let waiting = log(dir.path(), 6, now.unix());
        active.lock().unwrap().insert(waiting);
        prune(dir.path(), &settings(2, 1_000), &active, now).unwrap();
        assert_eq!(left(dir.path()).len(), 5, "{:?}", left(dir.path()));
        fs::remove_file(dir.path().join(name(6))).unwrap();

        active.lock().unwrap().clear();
        prune(dir.path(), &settings(20, 15), &active, now).unwrap();
        assert_eq!(left(dir.path()), [name(5), "notes.txt".to_owned()]);
    }

    #[test]
    fn a_job_without_logs_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let now = UtcSecond::from_unix(0).unwrap();
        prune(&dir.path().join("none"), &settings(1, 1), &ActiveRuns::default(), now).unwrap();
    }
}
