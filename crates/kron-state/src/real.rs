//! A directory of the machine's own file system.
//!
//! The directory is opened once and everything in it is reached through that descriptor, so that
//! nobody can put another directory under its path in between. Nothing is trusted because of its
//! name: what is opened is checked through its own descriptor to be a regular file of this user
//! with mode 0600 and one name. Each refusal says what is wrong.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kron_core::UtcSecond;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT,
    flock, fstat, futimens, mkdirat, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::directory::{Contents, Directory, FileError, FileKind, Operation, Refusal};
use crate::lock::LOCK_FILE;
use crate::store::{KNOWN_FILE, StoreError};

/// Permissions of the state directory and of those in it.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;
/// Permissions of every file.
pub(crate) const FILE_MODE: u32 = 0o600;
/// How much is read at once.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A private directory, held open.
#[derive(Debug)]
pub struct RealDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl RealDirectory {
    /// Opens the directory, and creates it durably first if it is not there. Its parent must
    /// exist.
    ///
    /// # Errors
    /// When it cannot be opened or created, or is not a private directory of this user.
    pub fn open(path: &Path) -> Result<RealDirectory, StoreError> {
        let path = without_trailing_parts(path);
        let opened = open_or_create(&path).and_then(checked_directory);
        RealDirectory::named(path, opened)
    }

    /// Opens the directory, which must be there.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a private directory of this user.
    pub fn open_existing(path: &Path) -> Result<RealDirectory, StoreError> {
        let path = without_trailing_parts(path);
        let opened = open_directory(&path).and_then(checked_directory);
        RealDirectory::named(path, opened)
    }

    fn named(
        path: PathBuf,
        opened: Result<OwnedFd, FileError>,
    ) -> Result<RealDirectory, StoreError> {
        match opened {
            Ok(descriptor) => Ok(RealDirectory { descriptor, path }),
            Err(FileError::Io(error)) => {
                let path = path.display().to_string();
                Err(StoreError::of_io(Operation::OpenDirectory, path, error))
            }
            Err(FileError::Refused(source)) => {
                let has_state = holds_state(&path);
                let path = path.display().to_string();
                Err(StoreError::Directory { path, source, has_state })
            }
        }
    }

    /// Takes the kernel's lock on the directory itself, until it is closed.
    pub(crate) fn try_lock(&self) -> io::Result<DirectoryLock> {
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        match rustix::io::retry_on_intr(|| flock(&self.descriptor, exclusive)) {
            Ok(()) => Ok(DirectoryLock::Acquired),
            Err(Errno::WOULDBLOCK) => Ok(DirectoryLock::Held),
            // Where locks are kept by a server only what is open for writing can be locked, which
            // no directory ever is.
            Err(Errno::BADF | Errno::OPNOTSUPP) => Ok(DirectoryLock::Unsupported),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether this directory is what `path` leads to.
    pub(crate) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = fstat(&self.descriptor)?;
        match rustix::fs::lstat(without_trailing_parts(path)) {
            Ok(there) => Ok(is_same(&own, &there)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the file `name` and checks what it is.
    pub(crate) fn open_file(
        &self,
        name: &str,
        flags: OFlags,
    ) -> Result<Option<(OwnedFd, Stat)>, FileError> {
        // Opening a pipe without anybody at its other end must not wait.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let descriptor = match openat(&self.descriptor, name, flags, mode) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(opening_error(errno, || self.lstat(name))),
        };
        let stat = fstat(&descriptor).map_err(io::Error::from)?;
        check_file(&stat)?;
        Ok(Some((descriptor, stat)))
    }

    fn lstat(&self, name: &str) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Whether `name` still stands for the file that `stat` describes.
    pub(crate) fn is_named(&self, name: &str, stat: &Stat) -> io::Result<bool> {
        match self.lstat(name) {
            Ok(now) => Ok(is_same(&now, stat)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What came of an attempt to lock a directory.
pub(crate) enum DirectoryLock {
    Acquired,
    Held,
    /// The file system locks no directories.
    Unsupported,
}

impl Directory for RealDirectory {
    type File = OwnedFd;

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn subdirectory(&self, name: &str) -> Result<RealDirectory, FileError> {
        match mkdirat(&self.descriptor, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(FileError::Io(errno.into())),
        }
        // One that was there may have been made just before a crash.
        self.sync()?;
        self.existing_subdirectory(name)?.ok_or_else(|| FileError::Io(Errno::NOENT.into()))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<RealDirectory>, FileError> {
        let descriptor = match openat(&self.descriptor, name, DIRECTORY_FLAGS, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(opening_error(errno, || self.lstat(name))),
        };
        let descriptor = checked_directory(descriptor)?;
        Ok(Some(RealDirectory { descriptor, path: self.path.join(name) }))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            // A name that is no text is not one of ours.
            if let Ok(name) = entry?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Contents>, FileError> {
        let Some((file, stat)) = self.open_file(name, OFlags::RDONLY)? else { return Ok(None) };
        let too_long = |bytes| FileError::Refused(Refusal::TooLong { bytes, bytes_max });
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        if length > bytes_max {
            return Err(too_long(length));
        }
        // One byte more than it has, so that its end is seen without a second look.
        let mut bytes = vec![0; length as usize + 1];
        let mut filled = 0;
        loop {
            let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut bytes[filled..]))
                .map_err(io::Error::from)?;
            if read == 0 {
                break;
            }
            filled += read;
            if filled as u64 > bytes_max {
                return Err(too_long(filled as u64));
            }
            if filled == bytes.len() {
                bytes.resize(filled + READ_CHUNK_BYTES, 0);
            }
        }
        bytes.truncate(filled);
        Ok(Some(Contents { bytes, modified: modified(&stat) }))
    }

    fn modified(&self, name: &str) -> Result<Option<UtcSecond>, FileError> {
        Ok(self.open_file(name, OFlags::RDONLY)?.map(|(_, stat)| modified(&stat)))
    }

    fn set_modified(&self, name: &str, at: UtcSecond) -> Result<(), FileError> {
        let Some((file, _)) = self.open_file(name, OFlags::RDONLY)? else {
            return Err(FileError::Io(Errno::NOENT.into()));
        };
        Ok(set_modified(file, at)?)
    }

    fn create(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        Ok(openat(&self.descriptor, name, flags, Mode::from_raw_mode(FILE_MODE))?)
    }

    fn append(&self, name: &str) -> Result<OwnedFd, FileError> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        match self.open_file(name, flags)? {
            Some((file, _)) => Ok(file),
            None => Err(FileError::Io(Errno::NOENT.into())),
        }
    }

    fn write(&self, file: &mut OwnedFd, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&*file, bytes)?)
    }

    fn sync_file(&self, file: &OwnedFd) -> io::Result<()> {
        Ok(rustix::fs::fsync(file)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.descriptor)?)
    }
}

const DIRECTORY_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// `path` without what would make the system follow a link at its end: `link/` and `link/.`.
fn without_trailing_parts(path: &Path) -> PathBuf {
    path.components().collect()
}

fn open_or_create(path: &Path) -> Result<OwnedFd, FileError> {
    match open_directory(path) {
        Err(FileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    match rustix::fs::mkdir(path, Mode::from_raw_mode(DIRECTORY_MODE)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(FileError::Io(errno.into())),
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = open(parent, flags, Mode::empty()).map_err(io::Error::from)?;
    rustix::fs::fsync(&parent).map_err(io::Error::from)?;
    open_directory(path)
}

fn open_directory(path: &Path) -> Result<OwnedFd, FileError> {
    open(path, DIRECTORY_FLAGS, Mode::empty())
        .map_err(|errno| opening_error(errno, || rustix::fs::lstat(path)))
}

fn checked_directory(descriptor: OwnedFd) -> Result<OwnedFd, FileError> {
    let stat = fstat(&descriptor).map_err(io::Error::from)?;
    check_owner(&stat)?;
    let found = stat.st_mode & 0o7777;
    // Bits for setting the group of new files or for removal by owners only give nobody access.
    if found & 0o077 != 0 {
        return Err(Refusal::Mode { found, wanted: DIRECTORY_MODE }.into());
    }
    Ok(descriptor)
}

/// Whether what is at `path` is clearly the state directory of a daemon: it has both files that
/// every daemon leaves at its first start, and nobody but the directory's owner made them.
fn holds_state(path: &Path) -> bool {
    let Ok(directory) = rustix::fs::lstat(path) else { return false };
    [LOCK_FILE, KNOWN_FILE].iter().all(|name| {
        rustix::fs::lstat(path.join(name))
            .is_ok_and(|file| kind(&file) == FileKind::Regular && file.st_uid == directory.st_uid)
    })
}

/// Whether both describe the same file or directory.
fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn check_file(stat: &Stat) -> Result<(), Refusal> {
    let found = kind(stat);
    if found != FileKind::Regular {
        return Err(Refusal::Kind { found, wanted: FileKind::Regular });
    }
    check_owner(stat)?;
    let found = stat.st_mode & 0o7777;
    if found != FILE_MODE {
        return Err(Refusal::Mode { found, wanted: FILE_MODE });
    }
    // A file that was removed or replaced since it was opened has no name left.
    #[expect(clippy::useless_conversion, reason = "its width differs between machines")]
    let links = u64::from(stat.st_nlink);
    if links > 1 {
        return Err(Refusal::Links(links));
    }
    Ok(())
}

fn check_owner(stat: &Stat) -> Result<(), Refusal> {
    let wanted = rustix::process::geteuid().as_raw();
    if stat.st_uid != wanted {
        return Err(Refusal::Owner { found: stat.st_uid, wanted });
    }
    Ok(())
}

fn kind(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Fifo => FileKind::Pipe,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Symlink | FileType::Unknown => FileKind::Other,
    }
}

/// Why something could not be opened, where the error number alone would puzzle people.
fn opening_error(errno: Errno, lstat: impl FnOnce() -> Result<Stat, Errno>) -> FileError {
    if !matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::ISDIR | Errno::NODEV) {
        return FileError::Io(errno.into());
    }
    let Ok(stat) = lstat() else { return FileError::Io(errno.into()) };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Refusal::Symlink.into();
    }
    let wanted = if errno == Errno::NOTDIR { FileKind::Directory } else { FileKind::Regular };
    match kind(&stat) {
        found if found == wanted => FileError::Io(errno.into()),
        found => Refusal::Kind { found, wanted }.into(),
    }
}

pub(crate) fn modified(stat: &Stat) -> UtcSecond {
    #[expect(clippy::useless_conversion, reason = "its width differs between machines")]
    let seconds = i64::from(stat.st_mtime);
    UtcSecond::from_unix(seconds).unwrap_or(if seconds < 0 {
        UtcSecond::MIN
    } else {
        UtcSecond::MAX
    })
}

pub(crate) fn set_modified(file: impl AsFd, at: UtcSecond) -> io::Result<()> {
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let modified = Timespec { tv_sec: at.unix(), tv_nsec: 0 };
    Ok(futimens(file, &Timestamps { last_access: omitted, last_modification: modified })?)
}
