//! The lock that one daemon holds on a state directory for as long as it lives.
//!
//! It is a lock of the kernel on the open directory and on the open file `lock` in it, so that it
//! ends with its holder however that ends, and nothing needs to be cleaned up. The directory's
//! counts: somebody may remove the file, and a second one of the same name would be a second lock.
//! The file's is for daemons that know no other, and for file systems on which a directory cannot
//! be locked, such as NFS. The file is never removed here; it holds the holder's process number
//! for people, and its modification time is the daemon's sign of life.
//!
//! A holder whose directory or file was moved away, or replaced, is told so by
//! [`Lock::is_still_held`]: others can then no longer tell that it is there.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kron_core::{Category, UtcSecond};
use rustix::fs::{OFlags, fstat};

use crate::directory::{Directory as _, FileError, Operation};
use crate::real::{DirectoryLock, RealDirectory, modified, set_modified};
use crate::store::StoreError;

/// The lock's file.
pub(crate) const LOCK_FILE: &str = "lock";
/// How long to wait before the lock is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of the line that tells who holds the lock; any process number fits.
const PID_LINE_BYTES: usize = 16;
/// The modification time of a lock that no daemon has held yet.
pub(crate) const NEVER_ALIVE: UtcSecond = UtcSecond::from_unix(0).expect("1970 is in range");

/// The exclusive right to a state directory, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    /// Holds the directory's lock as long as it is open.
    directory: RealDirectory,
    /// Where the directory must be, whatever the working directory becomes.
    path: PathBuf,
    /// Holds the file's lock as long as it is open.
    file: File,
}

/// Why the lock could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("another daemon holds the lock{}", by_pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// Whose process number is in the file.
        by_pid: Option<i32>,
    },
    /// The directory or the file could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LockError {
    /// The category of the error.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            LockError::Held { .. } => Category::System,
            LockError::Store(error) => error.category(),
        }
    }
}

impl Lock {
    /// Takes the lock of a state directory, which is created if it is not there, trying again
    /// until `patience` has passed.
    ///
    /// # Errors
    /// When somebody else has it all that time, or directory or file are not private.
    pub fn acquire(state_dir: &Path, patience: Duration) -> Result<Lock, LockError> {
        let path = std::path::absolute(state_dir).map_err(|error| {
            let file = state_dir.display().to_string();
            StoreError::of_io(Operation::OpenDirectory, file, error)
        })?;
        let mut waited = Duration::ZERO;
        loop {
            // Opened at every attempt, because another may have come into its place.
            let directory = RealDirectory::open(state_dir)?;
            match try_acquire(&directory) {
                Ok(Attempt::Acquired(file)) => {
                    let lock = Lock { directory, path: path.clone(), file };
                    let is_held = lock.is_still_held().map_err(|error| {
                        let file = lock.directory.describe(LOCK_FILE);
                        StoreError::of_io(Operation::Lock, file, error)
                    })?;
                    if is_held {
                        return Ok(lock);
                    }
                    // Whoever does that again and again has it as good as any holder.
                    if waited >= patience {
                        return Err(LockError::Held { by_pid: None });
                    }
                }
                Ok(Attempt::Held(by_pid)) if waited >= patience => {
                    return Err(LockError::Held { by_pid });
                }
                Ok(Attempt::Held(_)) => {}
                Err(error) => {
                    let path = directory.describe(LOCK_FILE);
                    return Err(StoreError::of_file(Operation::Lock, path, error).into());
                }
            }
            std::thread::sleep(RETRY_INTERVAL);
            waited += RETRY_INTERVAL;
        }
    }

    /// Whether directory and file still have the names by which others look for them. When one of
    /// them has not, another daemon may come to work beside this one, and this one must end.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn is_still_held(&self) -> io::Result<bool> {
        let file = fstat(&self.file)?;
        Ok(self.directory.is_at(&self.path)? && self.directory.is_named(LOCK_FILE, &file)?)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing them ends it at the latest; a process that is just being started may have them, too.
        let _ = self.directory.unlock();
        let _ = self.file.unlock();
    }
}

/// Who has the lock of a state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody.
    Nobody,
    /// Somebody, and the process number in the file.
    Somebody(Option<i32>),
}

/// Looks who has the lock of a state directory that is there, without taking it for longer than
/// the look and without changing anything.
///
/// # Errors
/// When directory or file cannot be opened, or are not private.
pub fn holder(state_dir: &Path) -> Result<Holder, StoreError> {
    let directory = RealDirectory::open(state_dir)?;
    let look = || {
        let opened = directory.open_file(LOCK_FILE, OFlags::RDONLY)?;
        let file = opened.map(|(file, _)| File::from(file));
        let is_held = match directory.try_lock()? {
            DirectoryLock::Held => true,
            DirectoryLock::Acquired | DirectoryLock::Unsupported => match &file {
                None => false,
                Some(file) => match file.try_lock_shared() {
                    Ok(()) => false,
                    Err(TryLockError::WouldBlock) => true,
                    Err(TryLockError::Error(error)) => return Err(error.into()),
                },
            },
        };
        if !is_held {
            return Ok(Holder::Nobody);
        }
        let by_pid = file.as_ref().map(read_pid).transpose()?;
        Ok(Holder::Somebody(by_pid.flatten()))
    };
    let failed = |error| StoreError::of_file(Operation::Lock, directory.describe(LOCK_FILE), error);
    look().map_err(failed)
}

enum Attempt {
    Acquired(File),
    Held(Option<i32>),
}

fn try_acquire(directory: &RealDirectory) -> Result<Attempt, FileError> {
    match directory.try_lock()? {
        DirectoryLock::Acquired | DirectoryLock::Unsupported => {}
        // The file is not made here: it is its holder's to make.
        DirectoryLock::Held => {
            let opened = directory.open_file(LOCK_FILE, OFlags::RDONLY)?;
            let by_pid = opened.map(|(file, _)| read_pid(&File::from(file))).transpose()?;
            return Ok(Attempt::Held(by_pid.flatten()));
        }
    }
    let opened = directory.open_file(LOCK_FILE, OFlags::RDWR | OFlags::CREATE)?;
    let Some((file, stat)) = opened else { return Ok(Attempt::Held(None)) };
    let file = File::from(file);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Attempt::Held(read_pid(&file)?)),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    // Writing the number is no sign of life of a daemon; and a new file never saw any.
    let alive = if stat.st_size == 0 { NEVER_ALIVE } else { modified(&stat) };
    file.write_all_at(&pid_line(std::process::id()), 0)?;
    set_modified(file.as_fd(), alive)?;
    Ok(Attempt::Acquired(file))
}

/// The number in a line of fixed length, so that a shorter one leaves nothing of a longer one.
fn pid_line(pid: u32) -> [u8; PID_LINE_BYTES] {
    let mut line = [b' '; PID_LINE_BYTES];
    let text = pid.to_string();
    line[..text.len()].copy_from_slice(text.as_bytes());
    line[PID_LINE_BYTES - 1] = b'\n';
    line
}

fn read_pid(file: &File) -> io::Result<Option<i32>> {
    let mut line = [0; PID_LINE_BYTES];
    let length = file.read_at(&mut line, 0)?;
    let text = std::str::from_utf8(&line[..length]).unwrap_or_default();
    Ok(text.trim().parse().ok())
}
