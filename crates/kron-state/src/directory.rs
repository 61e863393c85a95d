//! The little that the store needs of a file system.
//!
//! [`Directory`] is small so that three implementations stay honest: the real one
//! ([`RealDirectory`](crate::RealDirectory)), one in memory that knows what a power cut leaves
//! ([`Disk`](crate::simulated::Disk)), and one that fails on request around either
//! ([`Faulty`](crate::simulated::Faulty)). It has no policy: what is done in which order, and what
//! is tried again, is the store's business.

use std::fmt;
use std::io;
use std::sync::Arc;

use kron_core::UtcSecond;

/// A directory that one user alone may enter, and the files in it.
///
/// Names are single path components. No method follows a symbolic link, and each that opens an
/// existing file refuses one that is not a private regular file.
pub trait Directory: Sized + Send + Sync {
    /// A file that is being written.
    type File: Send;

    /// What to call the file `name` when talking to people.
    fn describe(&self, name: &str) -> String;

    /// The directory `name` inside this one, made durably if it is not there.
    ///
    /// # Errors
    /// When it cannot be made or opened, or is not a private directory.
    fn subdirectory(&self, name: &str) -> Result<Self, FileError>;

    /// The directory `name` inside this one, or `None` when it is not there.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a private directory.
    fn existing_subdirectory(&self, name: &str) -> Result<Option<Self>, FileError>;

    /// The names of everything in the directory, in no order.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// What the file `name` holds, or `None` when there is no such file.
    ///
    /// # Errors
    /// When it cannot be read, is longer than `bytes_max`, or is not a private regular file.
    fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Contents>, FileError>;

    /// When the file `name` was last written, or `None` when there is no such file.
    ///
    /// # Errors
    /// When it cannot be told, or is not a private regular file.
    fn modified(&self, name: &str) -> Result<Option<UtcSecond>, FileError>;

    /// Sets when the file `name` was last written.
    ///
    /// # Errors
    /// When there is no such file, it is not a private regular one, or the time cannot be set.
    fn set_modified(&self, name: &str, at: UtcSecond) -> Result<(), FileError>;

    /// A new, empty file `name` that only this user may read and write.
    ///
    /// # Errors
    /// When it cannot be created, or there is anything of that name already.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// The file `name`, to be written at its end; created if it is not there.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a private regular file.
    fn append(&self, name: &str) -> Result<Self::File, FileError>;

    /// Writes some of `bytes` and says how many.
    ///
    /// # Errors
    /// When none could be written.
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<usize>;

    /// Makes what the file holds durable.
    ///
    /// # Errors
    /// When that failed. What the file holds on disk is then unknown, and a second attempt may
    /// succeed without having done anything: it is never made.
    fn sync_file(&self, file: &Self::File) -> io::Result<()>;

    /// Gives the file `from` the name `to`, atomically taking the place of what had that name.
    ///
    /// # Errors
    /// When that cannot be done; both names are then as they were.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes the file `name`.
    ///
    /// # Errors
    /// When there is none, or it cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes every earlier creation, renaming and removal in this directory durable.
    ///
    /// # Errors
    /// As for [`Directory::sync_file`].
    fn sync(&self) -> io::Result<()>;
}

/// What moving files between directories needs beyond that: names that are only taken when they are
/// free, and syncs of many files at once.
pub trait Moves: Directory {
    /// Gives the file `from` the name `to`, unless anything has that name.
    ///
    /// # Errors
    /// When something has it, or it cannot be done; both names are then as they were.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;

    /// Moves whatever is called `name`, a file or not, into another directory of the same file
    /// system under the name `to`, unless anything there has that name.
    ///
    /// # Errors
    /// When something has it, or it cannot be done; both names are then as they were.
    fn move_to(&self, name: &str, directory: &Self, to: &str) -> io::Result<()>;

    /// What is called `name`, a file or not, or `None` when nothing is.
    ///
    /// # Errors
    /// When it cannot be told.
    fn version(&self, name: &str) -> io::Result<Option<FileVersion>>;

    /// Makes what the file `name` holds durable, whoever wrote it.
    ///
    /// # Errors
    /// When it cannot be opened or is not admitted, and as for [`Directory::sync_file`].
    fn sync_named(&self, name: &str) -> Result<(), FileError>;

    /// Removes the file `name` if it is still the one that was read, and says whether it was. Only
    /// for a directory to which nobody else writes: another file could come into its place between
    /// the look and the removal.
    ///
    /// # Errors
    /// When it cannot be told or removed.
    fn remove_read(&self, name: &str, read: FileVersion) -> io::Result<bool>;

    /// Removes the directory `name` inside this one, if nothing is in it.
    ///
    /// # Errors
    /// When something is in it, when it is none, or when it cannot be removed.
    fn remove_directory(&self, name: &str) -> io::Result<()>;

    /// Makes what several files of this directory hold durable, together where that is cheaper.
    ///
    /// # Errors
    /// For each file, as for [`Directory::sync_file`].
    fn sync_files(&self, files: &[Self::File]) -> Vec<io::Result<()>> {
        files.iter().map(|file| self.sync_file(file)).collect()
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// When it was last written.
    pub modified: UtcSecond,
    /// Which file it is.
    pub version: FileVersion,
}

/// Tells a file from another that came into its place, or from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// The file system.
    pub device: u64,
    /// The file.
    pub inode: u64,
    /// When anything about it last changed, its name included, in nanoseconds since the epoch.
    pub changed_ns: i128,
    /// When it was last written, in nanoseconds since the epoch.
    pub modified_ns: i128,
    /// How long it is.
    pub bytes: u64,
}

impl FileVersion {
    /// Whether both are the same file and hold the same, whatever it is called by now: to rename a
    /// file changes its last change.
    #[must_use]
    pub fn is_same_but_for_its_name(&self, other: &FileVersion) -> bool {
        FileVersion { changed_ns: other.changed_ns, ..*self } == *other
    }
}

/// Whom and what a [`RealDirectory`](crate::RealDirectory) admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Who may own the directory itself.
    pub directory_owners: Owners,
    /// Permissions that the directory must not give.
    pub directory_denied: u32,
    /// The permissions of directories that are made.
    pub directory_mode: u32,
    /// Who may own files.
    pub file_owners: Owners,
    /// Permissions that a file must not give.
    pub file_denied: u32,
    /// The permissions of files that are made; where `exact`, the only ones that are admitted.
    pub file_mode: u32,
    /// Whether files with fewer permissions than `file_mode` are refused as well.
    pub exact: bool,
}

impl Admission {
    /// Nobody but this user, and nothing that this crate has not made.
    pub const PRIVATE: Admission = Admission {
        directory_owners: Owners::Own,
        directory_denied: 0o077,
        directory_mode: 0o700,
        file_owners: Owners::Own,
        file_denied: 0o7177,
        file_mode: 0o600,
        exact: true,
    };
}

/// Users to whom something may belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    /// This process's own.
    Own,
    /// These, and this process's own.
    These(Arc<[u32]>),
    /// Anybody.
    Anybody,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system says no.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not what it must be.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

/// What is wrong with a file or directory that could be tampered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is a symbolic link.
    #[error("it is a symbolic link, and links are not followed")]
    Symlink,
    /// It is something else than a file or directory as expected.
    #[error("it is a {found}, not a {wanted}")]
    Kind {
        /// What it is.
        found: FileKind,
        /// What it should be.
        wanted: FileKind,
    },
    /// It belongs to somebody else.
    #[error("it belongs to user {found}, not to user {wanted}")]
    Owner {
        /// Its owner.
        found: u32,
        /// Who should own it.
        wanted: u32,
    },
    /// It belongs to nobody who is listed.
    #[error("it belongs to user {found}, whose files are not accepted here")]
    Stranger {
        /// Its owner.
        found: u32,
    },
    /// Its permissions are not those of a private file or directory.
    #[error("its permissions are {found:04o}, not {wanted:04o}")]
    Mode {
        /// Its permissions.
        found: u32,
        /// What they should be.
        wanted: u32,
    },
    /// It can be reached by another name, and so be changed from elsewhere.
    #[error("it has {0} hard links")]
    Links(u64),
    /// It is longer than anything that was written here.
    #[error("it has {bytes} bytes, more than the {bytes_max} that are read")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
}

impl Refusal {
    /// What to do about it, with `path` as the name of a file or directory inside of the state
    /// directory, where everything is krond's own.
    #[must_use]
    pub fn hint(&self, path: &str) -> String {
        let word = shell_word(path);
        match self {
            Refusal::Symlink | Refusal::Kind { .. } => {
                format!("find out who put it there, and move `{path}` away")
            }
            Refusal::Stranger { .. } => format!("look into `{path}`, and whose it is"),
            Refusal::Owner { wanted, .. } => {
                format!("check what it holds, then `chown {wanted} {word}`")
            }
            Refusal::Mode { wanted, .. } => {
                format!("check what it holds, then `chmod {wanted:04o} {word}`")
            }
            Refusal::Links(_) => {
                format!("find its other names with `find / -xdev -samefile {word}` and remove them")
            }
            Refusal::TooLong { .. } => format!("look into `{path}`, and move it away"),
        }
    }

    /// What to do about it, with `path` as what was named as state directory. People name by
    /// mistake what belongs to the system or to others, so that nothing is to be changed or moved
    /// that does not clearly hold state.
    pub(crate) fn directory_hint(&self, path: &str, has_state: bool) -> String {
        match self {
            Refusal::Owner { found, .. } if has_state => {
                format!("run it as user {found}, who owns `{path}`")
            }
            Refusal::Owner { found, .. } => format!(
                "name a directory of krond's own with `--state-dir`; if `{path}` is that, run it \
                 as user {found}, who owns it"
            ),
            Refusal::Mode { .. } if has_state => self.hint(path),
            Refusal::Symlink => {
                format!("name the directory itself with `--state-dir`, not the link `{path}`")
            }
            Refusal::Kind { .. }
            | Refusal::Stranger { .. }
            | Refusal::Mode { .. }
            | Refusal::Links(_)
            | Refusal::TooLong { .. } => format!(
                "name a directory of krond's own with `--state-dir` instead of `{path}`; one that \
                 is not there is made"
            ),
        }
    }
}

/// A path as one word of a shell's command.
fn shell_word(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''"))
}

/// Kinds of things that have a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
    /// A symbolic link, or something nobody has heard of.
    Other,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FileKind::Regular => "regular file",
            FileKind::Directory => "directory",
            FileKind::Pipe => "named pipe",
            FileKind::Socket => "socket",
            FileKind::Device => "device",
            FileKind::Other => "thing of another kind",
        })
    }
}

/// What was attempted on a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`Directory::subdirectory`] and its like, and the opening of the state directory itself.
    OpenDirectory,
    /// [`Directory::names`].
    List,
    /// [`Directory::read`], [`Directory::modified`] and [`Moves::version`].
    Read,
    /// [`Directory::set_modified`].
    SetModified,
    /// [`Directory::create`].
    Create,
    /// [`Directory::append`].
    Append,
    /// [`Directory::write`].
    Write,
    /// [`Directory::sync_file`].
    SyncFile,
    /// [`Directory::rename`], [`Moves::rename_new`] and [`Moves::move_to`].
    Rename,
    /// [`Directory::remove`] and [`Moves::remove_read`].
    Remove,
    /// [`Directory::sync`].
    SyncDirectory,
    /// [`Lock::acquire`](crate::Lock::acquire).
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operation::OpenDirectory => "open the directory",
            Operation::List => "list",
            Operation::Read => "read",
            Operation::SetModified => "set the time of",
            Operation::Create => "create a file beside",
            Operation::Append => "open for appending",
            Operation::Write => "write",
            Operation::SyncFile => "sync",
            Operation::Rename => "put in place",
            Operation::Remove => "remove",
            Operation::SyncDirectory => "sync the directory of",
            Operation::Lock => "lock",
        })
    }
}
