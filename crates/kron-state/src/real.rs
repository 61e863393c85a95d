//! A directory of the machine's own file system.
//!
//! The directory is opened once and everything in it is reached through that descriptor, so that
//! nobody can put another directory under its path in between. Nothing is trusted because of its
//! name: what is opened is checked through its own descriptor to be a regular file of this user
//! with mode 0600 and one name. Each refusal says what is wrong.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kron_core::UtcSecond;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
    UTIME_OMIT, fchmod, fchown, flock, fstat, futimens, linkat, mkdirat, open, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::Uid;

use crate::directory::{
    Admission, Contents, Directory, FileError, FileKind, FileVersion, Moves, Operation, Owners,
    Refusal,
};
use crate::lock::LOCK_FILE;
use crate::store::{KNOWN_FILE, StoreError};

/// How many files are synced together rather than each for itself.
const SYNC_TOGETHER_MIN: usize = 8;
/// How much is read at once.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A private directory, held open.
#[derive(Debug)]
pub struct RealDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
    admission: Admission,
    handing: Handing,
}

/// Who is to read the files that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handing {
    /// Whoever made them, and whom that user's mask lets.
    Kept,
    /// This user, who is given them.
    To(u32),
    /// The directory's group, whatever the mask of whoever makes them says.
    ToGroup,
}

impl RealDirectory {
    /// Opens the directory, and creates it durably first if it is not there. Its parent must
    /// exist.
    ///
    /// # Errors
    /// When it cannot be opened or created, or is not a private directory of this user.
    pub fn open(path: &Path) -> Result<RealDirectory, StoreError> {
        RealDirectory::open_admitting(path, Admission::PRIVATE)
    }

    /// Opens a directory that is not private, and creates it durably first if it is not there.
    /// Its parent must exist.
    ///
    /// # Errors
    /// When it cannot be opened or created, or is not admitted.
    pub fn open_admitting(path: &Path, admission: Admission) -> Result<RealDirectory, StoreError> {
        let path = without_trailing_parts(path);
        let opened = open_or_create(&path, &admission)
            .and_then(|descriptor| checked_directory(descriptor, &admission));
        RealDirectory::named(path, opened, admission)
    }

    /// Opens a directory that is not private and must be there.
    ///
    /// # Errors
    /// When it cannot be opened, or is not admitted.
    pub fn open_existing_admitting(
        path: &Path,
        admission: Admission,
    ) -> Result<RealDirectory, StoreError> {
        let path = without_trailing_parts(path);
        let opened =
            open_directory(&path).and_then(|descriptor| checked_directory(descriptor, &admission));
        RealDirectory::named(path, opened, admission)
    }

    /// Another view of the directory `name` inside this one, which admits something else. It is made
    /// durably if it is not there and `making` says so.
    ///
    /// # Errors
    /// When it cannot be opened or made, or is not admitted.
    pub fn subdirectory_admitting(
        &self,
        name: &str,
        admission: Admission,
        making: Making,
    ) -> Result<Option<RealDirectory>, FileError> {
        if making == Making::IfMissing {
            match mkdirat(&self.descriptor, name, Mode::from_raw_mode(admission.directory_mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(FileError::Io(errno.into())),
            }
            // One that was there may have been made just before a crash.
            self.sync()?;
        }
        let descriptor = match openat(&self.descriptor, name, DIRECTORY_FLAGS, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(opening_error(errno, || self.lstat(name))),
        };
        let descriptor = checked_directory(descriptor, &admission)?;
        let path = self.path.join(name);
        Ok(Some(RealDirectory { descriptor, path, admission, handing: Handing::Kept }))
    }

    /// Names in it that are no text, which [`Directory::names`] leaves out.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn names_that_are_no_text(&self) -> io::Result<Vec<CString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            if entry.file_name().to_str().is_err() {
                names.push(entry.file_name().to_owned());
            }
        }
        Ok(names)
    }

    /// Moves what has a name that is no text, as [`Moves::move_to`] does.
    ///
    /// # Errors
    /// As there.
    pub fn move_no_text(&self, name: &CStr, directory: &RealDirectory, to: &str) -> io::Result<()> {
        rename_new(&self.descriptor, name, &directory.descriptor, to)
    }

    /// Takes from others whatever they may do with the directory.
    ///
    /// # Errors
    /// When this user may not.
    pub fn close_to_others(&self) -> io::Result<()> {
        let mode = fstat(&self.descriptor)?.st_mode & 0o7777;
        if mode & 0o077 != 0 {
            fchmod(&self.descriptor, Mode::from_raw_mode(mode & !0o077))?;
        }
        Ok(())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory, which must be there.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a private directory of this user.
    pub fn open_existing(path: &Path) -> Result<RealDirectory, StoreError> {
        let path = without_trailing_parts(path);
        RealDirectory::open_existing_admitting(&path, Admission::PRIVATE)
    }

    fn named(
        path: PathBuf,
        opened: Result<OwnedFd, FileError>,
        admission: Admission,
    ) -> Result<RealDirectory, StoreError> {
        match opened {
            Ok(descriptor) => {
                Ok(RealDirectory { descriptor, path, admission, handing: Handing::Kept })
            }
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

    /// Lets the directory's owner read the files that are made from now on: root gives them away,
    /// others leave them to the directory's group.
    ///
    /// # Errors
    /// When that cannot be told. The number of the owner, when that is another and files that are
    /// made here would not have the directory's group.
    pub fn handing_to_owner(self) -> io::Result<Result<RealDirectory, u32>> {
        let stat = fstat(&self.descriptor)?;
        let own = rustix::process::geteuid();
        let handing = match stat.st_uid {
            owner if owner == own.as_raw() => Handing::Kept,
            owner if own.is_root() => Handing::To(owner),
            // Root reads whatever there is.
            0 => Handing::Kept,
            owner => {
                let gives_its_group = stat.st_mode & Mode::SGID.as_raw_mode() != 0;
                if !gives_its_group && stat.st_gid != rustix::process::getegid().as_raw() {
                    return Ok(Err(owner));
                }
                Handing::ToGroup
            }
        };
        Ok(Ok(RealDirectory { handing, ..self }))
    }

    /// Does what was said about files that are made.
    fn hand_over(&self, file: &OwnedFd) -> rustix::io::Result<()> {
        match self.handing {
            Handing::Kept => Ok(()),
            Handing::To(owner) => fchown(file, Some(Uid::from_raw(owner)), None),
            Handing::ToGroup => fchmod(file, Mode::from_raw_mode(self.admission.file_mode)),
        }
    }

    /// Takes the kernel's lock on the directory itself, until it is closed or unlocked.
    ///
    /// # Errors
    /// When the system fails.
    pub fn try_lock(&self) -> io::Result<DirectoryLock> {
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

    /// Gives the kernel's lock back, whoever else has the same descriptor open: a process that is
    /// just being started may, for a moment.
    ///
    /// # Errors
    /// When the system fails.
    pub fn unlock(&self) -> io::Result<()> {
        Ok(rustix::io::retry_on_intr(|| flock(&self.descriptor, FlockOperation::Unlock))?)
    }

    /// Whether this directory is what `path` leads to.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
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
        let mode = Mode::from_raw_mode(self.admission.file_mode);
        let descriptor = match openat(&self.descriptor, name, flags, mode) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(opening_error(errno, || self.lstat(name))),
        };
        let stat = fstat(&descriptor).map_err(io::Error::from)?;
        check_file(&stat, &self.admission)?;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryLock {
    /// It is had.
    Acquired,
    /// Another process has it.
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
        self.subdirectory_admitting(name, self.admission.clone(), Making::IfMissing)?
            .ok_or_else(|| FileError::Io(Errno::NOENT.into()))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<RealDirectory>, FileError> {
        self.subdirectory_admitting(name, self.admission.clone(), Making::Never)
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
        Ok(Some(Contents { bytes, modified: modified(&stat), version: version(&stat) }))
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
        let mode = Mode::from_raw_mode(self.admission.file_mode);
        let file = openat(&self.descriptor, name, flags, mode)?;
        if let Err(errno) = self.hand_over(&file) {
            let _ = self.remove(name);
            return Err(errno.into());
        }
        Ok(file)
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

impl Moves for RealDirectory {
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        rename_new(&self.descriptor, from, &self.descriptor, to)
    }

    fn move_to(&self, name: &str, directory: &RealDirectory, to: &str) -> io::Result<()> {
        rename_new(&self.descriptor, name, &directory.descriptor, to)
    }

    fn version(&self, name: &str) -> io::Result<Option<FileVersion>> {
        match self.lstat(name) {
            Ok(stat) => Ok(Some(version(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_named(&self, name: &str) -> Result<(), FileError> {
        match self.open_file(name, OFlags::RDONLY)? {
            Some((file, _)) => Ok(self.sync_file(&file)?),
            None => Err(FileError::Io(Errno::NOENT.into())),
        }
    }

    fn remove_read(&self, name: &str, read: FileVersion) -> io::Result<bool> {
        match self.version(name)? {
            Some(found) if found == read => self.remove(name).map(|()| true),
            _ => Ok(false),
        }
    }

    fn remove_directory(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_files(&self, files: &[OwnedFd]) -> Vec<io::Result<()>> {
        if files.len() < SYNC_TOGETHER_MIN {
            return files.iter().map(|file| self.sync_file(file)).collect();
        }
        // The whole file system: a disk takes about as long for that as for one file. An error of
        // any write since this directory was opened is told here, whosever it was.
        let synced = rustix::fs::syncfs(&self.descriptor);
        files.iter().map(|_| synced.map_err(io::Error::from)).collect()
    }
}

const DIRECTORY_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// `path` without what would make the system follow a link at its end: `link/` and `link/.`.
fn without_trailing_parts(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Whether a directory that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// It is.
    IfMissing,
    /// It is not.
    Never,
}

/// Renames across directories unless the new name is taken.
fn rename_new(
    from_dir: &OwnedFd,
    from: impl Arg + Copy,
    to_dir: &OwnedFd,
    to: &str,
) -> io::Result<()> {
    match renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        // A file system that cannot: a second name first, which nothing can be in the way of.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(from_dir, from, to_dir, to, AtFlags::empty())?;
            Ok(unlinkat(from_dir, from, AtFlags::empty())?)
        }
        result => Ok(result?),
    }
}

fn open_or_create(path: &Path, admission: &Admission) -> Result<OwnedFd, FileError> {
    match open_directory(path) {
        Err(FileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    match rustix::fs::mkdir(path, Mode::from_raw_mode(admission.directory_mode)) {
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

fn checked_directory(descriptor: OwnedFd, admission: &Admission) -> Result<OwnedFd, FileError> {
    let stat = fstat(&descriptor).map_err(io::Error::from)?;
    check_owner(&stat, &admission.directory_owners)?;
    let found = stat.st_mode & 0o7777;
    // Bits for setting the group of new files or for removal by owners only give nobody access.
    if found & admission.directory_denied != 0 {
        let wanted = if admission.directory_denied == 0o077 {
            admission.directory_mode
        } else {
            found & !admission.directory_denied
        };
        return Err(Refusal::Mode { found, wanted }.into());
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

fn check_file(stat: &Stat, admission: &Admission) -> Result<(), Refusal> {
    let found = kind(stat);
    if found != FileKind::Regular {
        return Err(Refusal::Kind { found, wanted: FileKind::Regular });
    }
    check_owner(stat, &admission.file_owners)?;
    let found = stat.st_mode & 0o7777;
    if admission.exact && found != admission.file_mode {
        return Err(Refusal::Mode { found, wanted: admission.file_mode });
    }
    if found & admission.file_denied != 0 {
        return Err(Refusal::Mode { found, wanted: found & !admission.file_denied });
    }
    // A file that was removed or replaced since it was opened has no name left.
    #[expect(clippy::useless_conversion, reason = "its width differs between machines")]
    let links = u64::from(stat.st_nlink);
    if links > 1 {
        return Err(Refusal::Links(links));
    }
    Ok(())
}

fn check_owner(stat: &Stat, owners: &Owners) -> Result<(), Refusal> {
    let (found, own) = (stat.st_uid, rustix::process::geteuid().as_raw());
    match owners {
        Owners::Anybody => Ok(()),
        _ if found == own => Ok(()),
        Owners::Own => Err(Refusal::Owner { found, wanted: own }),
        Owners::These(users) if users.contains(&found) => Ok(()),
        Owners::These(_) => Err(Refusal::Stranger { found }),
    }
}

fn version(stat: &Stat) -> FileVersion {
    let ns = |seconds: i128, nanoseconds: i128| seconds * 1_000_000_000 + nanoseconds;
    #[expect(clippy::useless_conversion, reason = "its width differs between machines")]
    let (device, inode) = (u64::from(stat.st_dev), u64::from(stat.st_ino));
    FileVersion {
        device,
        inode,
        changed_ns: ns(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        modified_ns: ns(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
    }
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
