//! What can go wrong with the database itself; each area has its own errors and carries these.

use kron_core::Category;

/// The database could not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or its directory cannot be used.
    #[error("{what} `{path}`")]
    File {
        /// What was attempted, or what is wrong.
        what: &'static str,
        /// Which file or directory.
        path: String,
        /// Why.
        #[source]
        source: Option<std::sync::Arc<std::io::Error>>,
    },
    /// The database was written by a newer version.
    #[error("the database has version {found}, and only versions to {known} are known")]
    NewerVersion {
        /// Its version.
        found: i64,
        /// The newest that is known.
        known: i64,
    },
    /// The database has no version, and is not empty.
    #[error("`{path}` is a database of something else")]
    Foreign {
        /// Which file.
        path: String,
    },
    /// A statement failed.
    #[error("{doing}")]
    Sql {
        /// What was attempted.
        doing: &'static str,
        /// Why.
        #[source]
        source: std::sync::Arc<rusqlite::Error>,
    },
    /// The commit failed: nothing of it happened, or nobody knows.
    #[error("the commit failed: {reason}")]
    Commit {
        /// What the database said.
        reason: String,
    },
    /// An earlier commit failed in a way after which nothing more can be promised.
    #[error("the queue takes no more writes since a write failed")]
    Stopped,
    /// More operations wait than may.
    #[error("{} operations wait already", crate::limits::WAITING_OPERATIONS_MAX)]
    Busy,
    /// The queue was closed.
    #[error("the queue is closed")]
    Closed,
    /// There are no random bytes.
    #[error("no random bytes for an id")]
    Entropy(#[source] std::sync::Arc<std::io::Error>),
}

impl StoreError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::File { .. } => "store-file",
            StoreError::NewerVersion { .. } => "store-newer-version",
            StoreError::Foreign { .. } => "store-foreign",
            StoreError::Sql { .. } => "store-failed",
            StoreError::Commit { .. } => "store-commit-failed",
            StoreError::Stopped => "store-stopped",
            StoreError::Busy => "store-busy",
            StoreError::Closed => "store-closed",
            StoreError::Entropy(_) => "store-entropy",
        }
    }

    /// Its category.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            StoreError::NewerVersion { .. } | StoreError::Foreign { .. } => {
                Category::IncompatibleState
            }
            StoreError::Entropy(_) => Category::System,
            StoreError::File { .. }
            | StoreError::Sql { .. }
            | StoreError::Commit { .. }
            | StoreError::Stopped
            | StoreError::Busy
            | StoreError::Closed => Category::Persistence,
        }
    }

    pub(crate) fn sql(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
        move |source| StoreError::Sql { doing, source: std::sync::Arc::new(source) }
    }

    /// Whether it tells of a failing disk or a broken file, after which nothing can be promised.
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            StoreError::Sql { source, .. } => is_fatal(source),
            _ => false,
        }
    }
}

/// A full disk takes a transaction back and leaves the file sound; these do not.
pub(crate) fn is_fatal(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
        )
    )
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> StoreError {
        StoreError::Sql { doing: "a statement failed", source: std::sync::Arc::new(source) }
    }
}

/// Lets the errors of an area be made from what a statement says.
macro_rules! area_error {
    ($name:ident) => {
        impl From<rusqlite::Error> for $name {
            fn from(source: rusqlite::Error) -> $name {
                $name::Store(source.into())
            }
        }
        impl crate::writer::AreaError for $name {
            fn store(&self) -> Option<&crate::error::StoreError> {
                match self {
                    $name::Store(error) => Some(error),
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use area_error;
