//! Why the store could not do what it was asked.

use std::io;
use std::path::Path;

use kron_core::Category;
use rustix::io::Errno;

use crate::change::Inapplicable;
use crate::directory::{FileError, Operation, Refusal};
use crate::document::DocumentError;
use crate::store::KNOWN_FILE;

/// Why something could not be read or made durable.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system says no.
    #[error("cannot {operation} `{file}`")]
    Io {
        /// What was attempted.
        operation: Operation,
        /// On which file.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// What was named as state directory is not what one must be.
    #[error("`{path}` is refused as state directory")]
    Directory {
        /// Which one.
        path: String,
        /// What is wrong with it.
        source: Refusal,
        /// Whether it clearly is the state directory of a daemon all the same.
        has_state: bool,
    },
    /// A file or directory inside of it is not what it must be.
    #[error("`{file}` is refused")]
    Refused {
        /// Which one.
        file: String,
        /// What is wrong with it.
        source: Refusal,
    },
    /// A file is not what it should hold.
    #[error("`{file}` is {}", source.verdict())]
    Document {
        /// Which one.
        file: String,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// A change does not fit the document of its job.
    #[error("the record of `{identity}` does not allow what happened")]
    Inapplicable {
        /// The job.
        identity: String,
        /// Why not.
        source: Inapplicable,
    },
    /// A document that was to be restored is not damaged.
    #[error("`{file}` can be read, and is not to be restored")]
    Readable {
        /// Which one.
        file: String,
    },
    /// What was to be written is longer than what would be read again.
    #[error("`{file}` would have {length} bytes, more than the {bytes_max} that are read")]
    TooLong {
        /// Which one.
        file: String,
        /// How long it would be.
        length: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The directory could not be synced before, so that nothing can be promised any more.
    #[error("cannot write `{file}`: an earlier sync of its directory failed")]
    SyncedBefore {
        /// What was to be written.
        file: String,
        /// What the system said then.
        source: io::Error,
    },
}

impl StoreError {
    /// The category of the error.
    ///
    /// That descriptors or memory ran out before anything was changed is the system's affair and
    /// may pass; every other error of the system is one of persistence.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            StoreError::Io { operation, source, .. }
                if changes_nothing(*operation) && is_exhaustion(source) =>
            {
                Category::System
            }
            StoreError::Document { source, .. } => source.category(),
            StoreError::Io { .. }
            | StoreError::Directory { .. }
            | StoreError::Refused { .. }
            | StoreError::Inapplicable { .. }
            | StoreError::Readable { .. }
            | StoreError::TooLong { .. }
            | StoreError::SyncedBefore { .. } => Category::Persistence,
        }
    }

    /// What to do about it, where that can be told.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            StoreError::Refused { file, source } => Some(source.hint(file)),
            StoreError::Directory { path, source, has_state } => {
                Some(source.directory_hint(path, *has_state))
            }
            StoreError::Document { source: DocumentError::Incompatible(_), file } => {
                let lost = if is_known(file) {
                    "every job then counts as new, and what is due by then does not run"
                } else {
                    "what it says of its job is then lost, and what is due by then, the current \
                     period too, does not run"
                };
                Some(format!(
                    "use the version of krond that wrote it, or move `{file}` away: {lost}"
                ))
            }
            StoreError::Io { .. }
            | StoreError::Document { .. }
            | StoreError::Inapplicable { .. }
            | StoreError::Readable { .. }
            | StoreError::TooLong { .. }
            | StoreError::SyncedBefore { .. } => None,
        }
    }

    pub(crate) fn of_io(operation: Operation, file: String, source: io::Error) -> StoreError {
        StoreError::Io { operation, file, source }
    }

    /// The error of an operation on this file or directory.
    #[must_use]
    pub fn of_file(operation: Operation, file: String, error: FileError) -> StoreError {
        match error {
            FileError::Io(source) => StoreError::Io { operation, file, source },
            FileError::Refused(source) => StoreError::Refused { file, source },
        }
    }
}

/// Whether this is the file about all jobs, and not the document of one.
fn is_known(file: &str) -> bool {
    Path::new(file).file_name().is_some_and(|name| name == KNOWN_FILE)
}

/// Whether a failed operation leaves everything as it was, so that all can be done again.
const fn changes_nothing(operation: Operation) -> bool {
    match operation {
        Operation::OpenDirectory
        | Operation::List
        | Operation::Read
        | Operation::SetModified
        | Operation::Create
        | Operation::Append
        | Operation::Lock => true,
        Operation::Write
        | Operation::SyncFile
        | Operation::Rename
        | Operation::Remove
        | Operation::SyncDirectory => false,
    }
}

/// Whether something ran out that every process of the machine or this one shares.
fn is_exhaustion(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}
