//! Looking at what is in a directory of tasks: a task, something that may become one, or neither.
//!
//! Producers are trusted with nothing but their payloads. A file that looks wrong and was changed a
//! moment ago may still be being written by somebody who does not rename; it gets a moment.

use std::io;

use kron_core::Timestamp;
use kron_state::{Contents, FileError, FileVersion, Moves, Operation, Refusal};

use crate::error::{Fault, SpoolError};
use crate::id::TaskId;
use crate::open::{Spool, file_error};
use crate::reject::SetAside;
use crate::task::{OWN_BYTES_MAX, RETURNED_BYTES_MAX, State, TASK_BYTES_MAX, Task};

/// How long something may look wrong after its last change before it is.
const SETTLING_MS: i64 = 2_000;
/// How long a file may have a name that no task has, after its last change: many producers write
/// under another name first.
const NAMING_MS: i64 = 60_000;
const NS_PER_MS: i128 = 1_000_000;

/// What something in a directory of tasks is.
#[derive(Debug)]
pub enum Look {
    /// A task.
    Task(Box<Found>),
    /// A task that is there already, further on.
    Repeat(Box<Repeat>),
    /// Nothing yet; it is to be looked at again then.
    NotYet(Timestamp),
    /// Nothing any more.
    Gone,
    /// Nothing that concerns anybody.
    Ignored,
    /// No task.
    Unfit(Fault),
}

/// A task, and the very file it was read from.
#[derive(Clone, Debug)]
pub struct Found {
    /// The task.
    pub task: Task,
    /// Its file.
    pub version: FileVersion,
}

/// A task that waits, and is further on at the same time.
#[derive(Debug)]
pub struct Repeat {
    /// The one that waits.
    pub found: Found,
    /// How far the other is.
    pub other: State,
    /// Whether both are to do the same.
    pub same: bool,
}

impl<D: Moves> Spool<D> {
    /// Looks at what is called `name` in `pending/`. The caller holds the spool's lock, and has no
    /// transition of it under way.
    ///
    /// # Errors
    /// When the system fails.
    pub fn look(&self, name: &str, now: Timestamp) -> Result<Look, SpoolError> {
        let found = match self.look_in(State::Pending, name, now)? {
            Look::Task(found) => found,
            other => return Ok(other),
        };
        for other in [State::Running, State::Completed] {
            match self.look_in(other, name, now)? {
                Look::Task(there) => {
                    let same = there.task.payload.is_same(&found.task.payload);
                    return Ok(Look::Repeat(Box::new(Repeat { found: *found, other, same })));
                }
                // Whatever it is, its id is taken.
                Look::Unfit(_) | Look::NotYet(_) => {
                    return Ok(Look::Repeat(Box::new(Repeat {
                        found: *found,
                        other,
                        same: false,
                    })));
                }
                Look::Gone | Look::Ignored | Look::Repeat(_) => {}
            }
        }
        Ok(Look::Task(found))
    }

    /// Drops a task that waits although it is further on: deletes it where both are the same, and
    /// sets it aside where not, which is then told. The caller holds the spool's lock.
    ///
    /// # Errors
    /// When that cannot be done; it is then where it was.
    pub fn drop_repeat(
        &self,
        repeat: &Repeat,
        now: Timestamp,
    ) -> Result<Option<SetAside>, SpoolError> {
        let name = repeat.found.task.id.file_name();
        if !repeat.same {
            let fault = Fault::Taken(repeat.other);
            return self.set_aside(State::Pending, &name, &fault, now).map(Some);
        }
        self.sync(self.directory(repeat.other)?)?;
        // Another that came meanwhile stays, and is looked at.
        self.remove_pending(&name, repeat.found.version, now)?;
        Ok(None)
    }

    /// Looks at what is called `name` in one directory.
    pub(crate) fn look_in(
        &self,
        state: State,
        name: &str,
        now: Timestamp,
    ) -> Result<Look, SpoolError> {
        if name.starts_with('.') {
            return Ok(Look::Ignored);
        }
        let directory = self.directory(state)?;
        let fault = match TaskId::of_file(name) {
            Ok(Some(id)) => match self.read(state, &id)? {
                None => return Ok(Look::Gone),
                Some(Ok(found)) => return Ok(Look::Task(Box::new(found))),
                Some(Err(fault)) => fault,
            },
            Ok(None) => Fault::NotNamedAsTask,
            Err(error) => Fault::Name(error),
        };
        let at = SpoolError::at(Operation::Read, directory.describe(name));
        let Some(version) = directory.version(name).map_err(at)? else { return Ok(Look::Gone) };
        let patience_ms = match fault {
            // Nobody writes to the others but the lock's holder, who renames.
            _ if state != State::Pending => 0,
            Fault::NotNamedAsTask => NAMING_MS,
            Fault::CutShort
            | Fault::NotText
            | Fault::Json { .. }
            | Fault::Refused(Refusal::Links(_)) => SETTLING_MS,
            _ => 0,
        };
        let changed_ms = i64::try_from(version.changed_ns / NS_PER_MS).unwrap_or(i64::MAX);
        // A file that claims to be from the future gets no more time than one of now.
        let until_ms = changed_ms.min(now.unix_ms()).saturating_add(patience_ms);
        match Timestamp::from_unix_ms(until_ms) {
            Some(until) if until > now => Ok(Look::NotYet(until)),
            _ => Ok(Look::Unfit(fault)),
        }
    }

    /// Reads a task of a state; `None` when there is none, the inner error when it is no task.
    ///
    /// # Errors
    /// When the system fails.
    pub fn read(
        &self,
        state: State,
        id: &TaskId,
    ) -> Result<Option<Result<Found, Fault>>, SpoolError> {
        let contents = match self.contents(state, id)? {
            None => return Ok(None),
            Some(Err(fault)) => return Ok(Some(Err(fault))),
            Some(Ok(contents)) => contents,
        };
        let parsed = Task::parse(&contents.bytes, id, state).and_then(|task| {
            let bytes_max = match state {
                State::Pending if task.attempts == 0 => TASK_BYTES_MAX,
                // One that has failed says more than its producer did.
                State::Pending => RETURNED_BYTES_MAX,
                State::Running | State::Completed => OWN_BYTES_MAX,
            };
            if contents.bytes.len() > bytes_max {
                return Err(Fault::TooLong);
            }
            Ok(Found { task, version: contents.version })
        });
        Ok(Some(parsed))
    }

    /// The bytes of the file of a task of a state, whatever they say; `None` when there is none, the
    /// inner error when it cannot be read as a file.
    ///
    /// # Errors
    /// When the system fails.
    pub fn bytes(
        &self,
        state: State,
        id: &TaskId,
    ) -> Result<Option<Result<Vec<u8>, Fault>>, SpoolError> {
        let contents = self.contents(state, id)?;
        Ok(contents.map(|contents| contents.map(|contents| contents.bytes)))
    }

    fn contents(
        &self,
        state: State,
        id: &TaskId,
    ) -> Result<Option<Result<Contents, Fault>>, SpoolError> {
        let directory = self.directory(state)?;
        let name = id.file_name();
        match directory.read(&name, OWN_BYTES_MAX as u64) {
            Ok(contents) => Ok(contents.map(Ok)),
            Err(FileError::Refused(Refusal::TooLong { .. })) => Ok(Some(Err(Fault::TooLong))),
            Err(FileError::Refused(refusal)) => Ok(Some(Err(Fault::Refused(refusal)))),
            Err(FileError::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(Some(Err(Fault::Unreadable(error.to_string()))))
            }
            Err(error) => Err(file_error(Operation::Read, directory.describe(&name), error)),
        }
    }
}
