//! Deleting a file that was read, where producers may put another in its place at any moment.
//!
//! To look at a name and then to delete it could delete what nobody has read. So the file gets a
//! name of its own first, `.tmp-left-<number>-<name>`; what has that name is looked at, and deleted
//! only if it is the one that was read. If it is another, it goes back. A crash in between leaves
//! such a name, which [`Spool::recover`] and [`Spool::purge_some`] give back: what it then is, is
//! told as of any other file.

use std::io;
use std::sync::atomic::Ordering;

use kron_core::Timestamp;
use kron_state::{FileVersion, Moves, Operation};

use crate::error::{Fault, SpoolError};
use crate::id::TaskId;
use crate::open::Spool;
use crate::reject::SetAside;
use crate::steps::TEMPORARY;
use crate::task::{OWN_BYTES_MAX, State, Task};

/// How the names begin of files that are about to be deleted, after [`TEMPORARY`].
const LEFT: &str = "left-";

impl<D: Moves> Spool<D> {
    /// Deletes the file `name` of `pending/` if it is still the one that was read. Another that has
    /// come in its place stays; if yet another has come in that one's place, it is set aside.
    pub(crate) fn remove_pending(
        &self,
        name: &str,
        read: FileVersion,
        now: Timestamp,
    ) -> Result<(), SpoolError> {
        let pending = &self.pending;
        let at = |operation| SpoolError::at(operation, pending.describe(name));
        if pending.version(name).map_err(at(Operation::Read))? != Some(read) {
            return Ok(());
        }
        let left = self.own_temporary().replacen(TEMPORARY, &format!("{TEMPORARY}{LEFT}"), 1);
        let left = format!("{left}-{name}");
        match pending.rename_new(name, &left) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // A full disk may have no room for a longer name, but always lets a file go.
            Err(_) => {
                let removed = pending.remove_read(name, read);
                return removed.map(|_| ()).map_err(at(Operation::Remove));
            }
        }
        let found = match pending.version(&left) {
            Ok(found) => found,
            Err(error) => {
                self.give_back(&left, name, now)?;
                return Err(at(Operation::Read)(error));
            }
        };
        if found.is_some_and(|found| found.is_same_but_for_its_name(&read)) {
            return pending.remove(&left).or_else(|error| {
                if error.kind() == io::ErrorKind::NotFound {
                    return Ok(());
                }
                self.give_back(&left, name, now)?;
                Err(at(Operation::Remove)(error))
            });
        }
        self.give_back(&left, name, now).map(|_| ())
    }

    /// Gives a file its name back. If something else has it by now, it is set aside, or deleted
    /// where both are to do the same.
    fn give_back(
        &self,
        left: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<Option<SetAside>, SpoolError> {
        let given = self.pending.rename_new(left, name);
        let at = |operation| SpoolError::at(operation, self.pending.describe(left));
        match given {
            Ok(()) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                // It has a name that nobody looks at; the next opening of the spool does.
                self.broken.store(true, Ordering::Release);
                return Err(at(Operation::Rename)(error));
            }
        }
        if self.is_same_task(left, name) {
            // The one that stays may be a producer's, who has not made it durable.
            let synced = self.pending.sync_named(name);
            if synced.is_ok() {
                self.sync(&self.pending)?;
                self.pending.remove(left).map_err(at(Operation::Remove))?;
                return Ok(None);
            }
        }
        self.set_aside_called(State::Pending, left, name, &Fault::Taken(State::Pending), now)
            .map(Some)
    }

    /// Whether both names of `pending/` stand for tasks that are to do the same.
    fn is_same_task(&self, left: &str, name: &str) -> bool {
        let Ok(Some(id)) = TaskId::of_file(name) else { return false };
        let task = |name: &str| {
            let contents = self.pending.read(name, OWN_BYTES_MAX as u64).ok()??;
            Task::parse(&contents.bytes, &id, State::Pending).ok()
        };
        match (task(left), task(name)) {
            (Some(left), Some(there)) => left.payload.is_same(&there.payload),
            _ => false,
        }
    }

    /// Gives a file of `pending/` its name back that a crash has left without it; nothing happens to
    /// any other. The caller holds the spool's lock.
    pub(crate) fn restore(
        &self,
        left: &str,
        now: Timestamp,
    ) -> Result<Option<SetAside>, SpoolError> {
        match name_of(left) {
            Some(name) => self.give_back(left, name, now),
            None => Ok(None),
        }
    }
}

/// What a file was called that has the name of one that is about to be deleted.
fn name_of(left: &str) -> Option<&str> {
    let (_, name) = left.strip_prefix(TEMPORARY)?.strip_prefix(LEFT)?.split_once('-')?;
    // Whatever else has such a name was not taken here.
    matches!(TaskId::of_file(name), Ok(Some(_))).then_some(name)
}
