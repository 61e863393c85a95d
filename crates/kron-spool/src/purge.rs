//! The end of what is old, and the return of what has failed.

use std::io;

use kron_core::Timestamp;
use kron_state::{FileError, FileVersion, Moves, Operation};

use crate::error::{Fault, SpoolError};
use crate::id::TaskId;
use crate::open::{Spool, file_error};
use crate::reject::REPORT;
use crate::steps::TEMPORARY;
use crate::task::{Outcome, State, Task};
use crate::transition::Move;

/// How long a producer's temporary file is left alone.
const TEMPORARY_MS: i64 = 86_400_000;
const NS_PER_MS: i128 = 1_000_000;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Completed tasks.
    pub completed: usize,
    /// Things that had been set aside.
    pub rejected: usize,
    /// Temporary files that nobody has finished.
    pub temporary: usize,
    /// Directories that had been set aside and stay, since something is in them.
    pub left: usize,
}

/// Why a task is not tried again.
#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    /// It is not completed.
    #[error("task `{0}` is not completed")]
    NotCompleted(TaskId),
    /// It did what it should.
    #[error("task `{0}` has succeeded")]
    Succeeded(TaskId),
    /// Its file is no task's any more.
    #[error("the file of task `{id}` cannot be used: {fault}")]
    Unfit {
        /// The task.
        id: TaskId,
        /// Why.
        fault: Fault,
    },
    /// It could not be moved.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl<D: Moves> Spool<D> {
    /// Removes completed tasks whose files were written before then, and temporary files that
    /// nobody has finished: all of them at once. The caller holds the spool's lock.
    ///
    /// # Errors
    /// When a directory fails.
    pub fn purge(&self, ended_before: Timestamp, now: Timestamp) -> Result<Purged, SpoolError> {
        self.purge_some(&self.purge_names()?, ended_before, now)
    }

    /// The names of everything that [`Spool::purge_some`] may remove, in the order in which it is to
    /// be given them.
    ///
    /// # Errors
    /// When a directory cannot be listed.
    pub fn purge_names(&self) -> Result<Vec<String>, SpoolError> {
        let mut names = self.names(State::Pending)?;
        names.retain(|name| name.starts_with(TEMPORARY));
        let completed = self.names(State::Completed)?.into_iter();
        names.extend(completed.filter(|name| matches!(TaskId::of_file(name), Ok(Some(_)))));
        Ok(names)
    }

    /// As [`Spool::purge`], but only what has one of these names: a part of all of them, so that
    /// other work can be done in between. No file is opened. The caller holds the spool's lock.
    ///
    /// # Errors
    /// When a directory fails.
    pub fn purge_some(
        &self,
        names: &[String],
        ended_before: Timestamp,
        now: Timestamp,
    ) -> Result<Purged, SpoolError> {
        let (temporary, completed): (Vec<&str>, Vec<&str>) =
            names.iter().map(String::as_str).partition(|name| name.starts_with(TEMPORARY));
        // First these: what is given back may keep a completed task, without which it would be run.
        let temporary = self.purge_temporary(&temporary, now)?;
        let completed = self.purge_completed(&completed, ended_before)?;
        Ok(Purged { completed, temporary, ..Purged::default() })
    }

    fn purge_temporary(&self, names: &[&str], now: Timestamp) -> Result<usize, SpoolError> {
        let abandoned = now.saturating_add_ms(-TEMPORARY_MS);
        let mut removed = 0;
        for name in names {
            // What was about to be deleted when somebody died is told as any other file.
            self.restore(name, now)?;
            // Its last change counts: many give a file the time of what they copy.
            if !self.is_before(&self.pending, name, abandoned, |it| it.changed_ns)? {
                continue;
            }
            match self.pending.remove(name) {
                Ok(()) => removed += 1,
                Err(error) if is_not_ours_to_remove(&error) => {}
                Err(error) => {
                    return Err(SpoolError::at(Operation::Remove, self.pending.describe(name))(
                        error,
                    ));
                }
            }
        }
        Ok(removed)
    }

    fn purge_completed(&self, names: &[&str], before: Timestamp) -> Result<usize, SpoolError> {
        let directory = self.directory(State::Completed)?;
        let mut old = Vec::new();
        for name in names {
            if self.is_before(directory, name, before, |it| it.modified_ns)? {
                old.push(*name);
            }
        }
        if old.is_empty() {
            return Ok(0);
        }
        // Their other files are gone for good before they are: else one that waited could come back
        // after a power cut and be run again.
        self.sync(&self.pending)?;
        self.sync(self.directory(State::Running)?)?;
        let mut removed = 0;
        for name in old {
            // What is still elsewhere, too, would count again without this.
            if self.is_also(&[State::Pending, State::Running], name)? {
                continue;
            }
            match directory.remove(name) {
                Ok(()) => removed += 1,
                // What is strange there is nothing that was written here, and stays.
                Err(error) if is_not_ours_to_remove(&error) => {}
                Err(error) => {
                    return Err(SpoolError::at(Operation::Remove, directory.describe(name))(error));
                }
            }
        }
        Ok(removed)
    }

    /// Whether one of a file's times is before then; not, if there is no such file.
    fn is_before(
        &self,
        directory: &D,
        name: &str,
        before: Timestamp,
        time_ns: fn(&FileVersion) -> i128,
    ) -> Result<bool, SpoolError> {
        let at = SpoolError::at(Operation::Read, directory.describe(name));
        let version = directory.version(name).map_err(at)?;
        let before_ns = i128::from(before.unix_ms()) * NS_PER_MS;
        Ok(version.is_some_and(|version| time_ns(&version) < before_ns))
    }

    /// Removes everything that was set aside before then but directories that hold something.
    ///
    /// # Errors
    /// When the directory fails.
    pub fn purge_rejected(&self, before: Timestamp) -> Result<Purged, SpoolError> {
        let rejected = self.rejected()?;
        let at = SpoolError::at(Operation::List, rejected.describe(""));
        let mut purged = Purged::default();
        for name in rejected.names().map_err(at)? {
            let Some(subject) = name.strip_suffix(REPORT) else { continue };
            // The report tells when; what it is about may be from any time, or no file at all.
            let modified = match rejected.modified(&name) {
                Ok(modified) => modified,
                // No report that was written here.
                Err(FileError::Refused(_)) => continue,
                Err(error) => {
                    return Err(file_error(Operation::Read, rejected.describe(&name), error));
                }
            };
            if modified.is_none_or(|at| Timestamp::from(at) >= before) {
                continue;
            }
            let at = |name: &str| SpoolError::at(Operation::Remove, rejected.describe(name));
            if rejected.version(subject).map_err(at(subject))?.is_some() {
                let removed = match rejected.remove(subject) {
                    Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                        rejected.remove_directory(subject)
                    }
                    result => result,
                };
                match removed {
                    Ok(()) => purged.rejected += 1,
                    // What is in a directory is not for a program to throw away.
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                        purged.left += 1;
                        continue;
                    }
                    Err(error) => return Err(at(subject)(error)),
                }
            }
            rejected.remove(&name).map_err(at(&name))?;
        }
        Ok(purged)
    }

    /// Whether anything of this name is in one of these directories.
    fn is_also(&self, states: &[State], name: &str) -> Result<bool, SpoolError> {
        for state in states {
            let directory = self.directory(*state)?;
            let at = SpoolError::at(Operation::Read, directory.describe(name));
            if directory.version(name).map_err(at)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `COMPLETED → PENDING`: starts a task anew that has ended without success. Its attempts begin
    /// at nothing.
    ///
    /// # Errors
    /// When it is not there, has succeeded, or cannot be moved. The caller holds the spool's lock.
    pub fn retry(&self, id: &TaskId, now: Timestamp) -> Result<Task, RetryError> {
        let found = match self.read(State::Completed, id)? {
            None => return Err(RetryError::NotCompleted(id.clone())),
            Some(Err(fault)) => return Err(RetryError::Unfit { id: id.clone(), fault }),
            Some(Ok(found)) => found,
        };
        // A run that lives on although its task was completed ends first.
        if self.is_also(&[State::Running], &id.file_name())? {
            return Err(RetryError::NotCompleted(id.clone()));
        }
        let outcome = found.task.result.as_ref().map(|result| result.outcome);
        if outcome == Some(Outcome::Succeeded) {
            return Err(RetryError::Succeeded(id.clone()));
        }
        let task = Task {
            state: State::Pending,
            attempts: 0,
            lost_attempts: 0,
            not_before: None,
            started_at: None,
            completed_at: None,
            result: None,
            ..found.task
        };
        // The file of its last run is gone for good before it waits again: that has more attempts.
        self.sync(self.directory(State::Running)?)?;
        let moved = vec![Ok(Move { task, read: Some(found.version) })];
        let path = || self.pending.describe(&id.file_name());
        let task = match self.carry(State::Completed, State::Pending, moved, now).pop() {
            Some(result) => result?,
            None => return Err(SpoolError::Broken { path: path() }.into()),
        };
        // Else a power cut could bring back what has ended, which counts before what waits.
        self.sync(self.directory(State::Completed)?)?;
        Ok(task)
    }
}

/// Whether something is no file, is gone, or is another's in a directory where only they may remove
/// it: it stays, and keeps nobody.
fn is_not_ours_to_remove(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), IsADirectory | NotFound | PermissionDenied)
}
