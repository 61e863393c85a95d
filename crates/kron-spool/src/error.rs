//! What can go wrong, and whose fault it is.

use std::io;

use kron_core::Category;
use kron_state::{Operation, Refusal, StoreError};

use crate::id::IdError;
use crate::task::{State, TASK_BYTES_MAX, TASK_DEPTH_MAX};

/// Why something in a directory of tasks is no task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its name does not end as those of tasks do.
    #[error("its name does not end in `.json`")]
    NotNamedAsTask,
    /// Its name is no task's.
    #[error("its name is no task's: {0}")]
    Name(#[from] IdError),
    /// Its name is no text.
    #[error("its name is not UTF-8")]
    NameNotText,
    /// It is no plain file that may be trusted.
    #[error("{0}")]
    Refused(Refusal),
    /// It is too long.
    #[error("it has more than {TASK_BYTES_MAX} bytes")]
    TooLong,
    /// It may not be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is no text.
    #[error("it is not UTF-8")]
    NotText,
    /// It ends too early.
    #[error("its JSON ends before it is complete")]
    CutShort,
    /// It is no JSON object.
    #[error("it is not the JSON of a task: {message}")]
    Json {
        /// What the parser says.
        message: String,
    },
    /// It is nested too deeply.
    #[error("its JSON is nested more than {TASK_DEPTH_MAX} deep")]
    TooDeep,
    /// Something is missing.
    #[error("it has no `{field}`")]
    Missing {
        /// What.
        field: &'static str,
    },
    /// Something is there twice.
    #[error("it has `{field}` twice")]
    Twice {
        /// What.
        field: &'static str,
    },
    /// Something in it is wrong.
    #[error("`{field}`: {wrong}")]
    Field {
        /// Where.
        field: &'static str,
        /// What.
        wrong: String,
    },
    /// It says another id than its name.
    #[error("its `taskId` is `{found}`, which is not its file's name")]
    OtherId {
        /// The id it says.
        found: String,
    },
    /// It says another state than its directory.
    #[error("its `state` is `{found}`, but it is in `{}/`", directory.directory())]
    OtherState {
        /// The state it says.
        found: String,
        /// Where it is.
        directory: State,
    },
    /// Another task has its id.
    #[error("another task of this id is {0} already, with another payload; ids are for ever")]
    Taken(State),
}

/// Why a directory or a file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// A directory of the spool cannot be opened.
    #[error(transparent)]
    Directory(#[from] StoreError),
    /// A directory is not what it must be.
    #[error("`{path}` cannot be a spool's: {refusal}")]
    Refused {
        /// The directory.
        path: String,
        /// What is wrong.
        refusal: Refusal,
    },
    /// There is no spool.
    #[error("`{path}` is no spool: it has no `{missing}`")]
    NoSpool {
        /// The directory.
        path: String,
        /// What a spool has.
        missing: &'static str,
    },
    /// Whoever works a spool off could not read what would be put there.
    #[error(
        "user {owner}, whom `{path}` belongs to, could not read a task that was put there: it would \
         have another group than the directory"
    )]
    OwnerCannotRead {
        /// The directory.
        path: String,
        /// Its owner.
        owner: u32,
    },
    /// Another process has the spool.
    #[error("another process has the spool `{path}`")]
    Held {
        /// The directory.
        path: String,
    },
    /// The file system cannot lock.
    #[error("the file system of `{path}` locks no directories, so two daemons could use it")]
    CannotLock {
        /// The directory.
        path: String,
    },
    /// The system says no.
    #[error("cannot {operation} `{path}`")]
    Io {
        /// What was attempted.
        operation: Operation,
        /// On what.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The task is not there any more, or not the same.
    #[error("`{path}` was removed or replaced")]
    Gone {
        /// Its file.
        path: String,
    },
    /// A task is where it goes, and what it has left cannot be removed.
    #[error("cannot remove `{path}`, which its task has left")]
    Left {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A sync or a removal failed earlier: nobody knows what the disk holds, and nothing more is
    /// promised.
    #[error("an earlier sync or removal in `{path}` failed, so that nothing more is changed there")]
    Broken {
        /// The directory.
        path: String,
    },
}

impl SpoolError {
    /// The category of the error.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            SpoolError::Directory(error) => error.category(),
            SpoolError::Refused { .. } | SpoolError::NoSpool { .. } => Category::Validation,
            SpoolError::OwnerCannotRead { .. }
            | SpoolError::Held { .. }
            | SpoolError::CannotLock { .. } => Category::System,
            SpoolError::Io { .. }
            | SpoolError::Gone { .. }
            | SpoolError::Left { .. }
            | SpoolError::Broken { .. } => Category::Persistence,
        }
    }

    /// Whether nothing more can be promised about the spool until it is opened anew.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            SpoolError::Io { operation, .. } => {
                // What a file holds that was not synced is thrown away; another takes its place.
                matches!(operation, Operation::SyncDirectory)
            }
            SpoolError::Left { .. } | SpoolError::Broken { .. } => true,
            SpoolError::Directory(_)
            | SpoolError::Refused { .. }
            | SpoolError::NoSpool { .. }
            | SpoolError::OwnerCannotRead { .. }
            | SpoolError::Held { .. }
            | SpoolError::CannotLock { .. }
            | SpoolError::Gone { .. } => false,
        }
    }

    /// The same, for another whom it concerns.
    pub(crate) fn again(&self) -> SpoolError {
        match self {
            SpoolError::Io { operation, path, source } => SpoolError::Io {
                operation: *operation,
                path: path.clone(),
                source: io_again(source),
            },
            SpoolError::Left { path, source } => {
                SpoolError::Left { path: path.clone(), source: io_again(source) }
            }
            SpoolError::Refused { path, refusal } => {
                SpoolError::Refused { path: path.clone(), refusal: refusal.clone() }
            }
            SpoolError::Gone { path } => SpoolError::Gone { path: path.clone() },
            SpoolError::Broken { path } => SpoolError::Broken { path: path.clone() },
            // These end the opening of a spool, which nobody shares.
            other @ (SpoolError::Directory(_)
            | SpoolError::NoSpool { .. }
            | SpoolError::OwnerCannotRead { .. }
            | SpoolError::Held { .. }
            | SpoolError::CannotLock { .. }) => SpoolError::Broken { path: other.to_string() },
        }
    }

    pub(crate) fn at(operation: Operation, path: String) -> impl FnOnce(io::Error) -> SpoolError {
        move |source| SpoolError::Io { operation, path, source }
    }
}

fn io_again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
