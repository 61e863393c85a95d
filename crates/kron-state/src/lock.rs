//! The lock that one daemon holds on a state directory for as long as it lives.
//!
//! It is a lock of the kernel on the open file `lock`, so that it ends with its holder however
//! that ends, and nothing needs to be cleaned up. The file is never removed: a second one of the
//! same name would be a second lock. It holds the holder's process number for people, and its
//! modification time is the daemon's sign of life.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use kron_core::{Category, UtcSecond};
use rustix::fs::OFlags;

use crate::directory::{Directory as _, FileError, Operation};
use crate::real::{RealDirectory, modified, set_modified};
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
    _file: File,
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
        let directory = RealDirectory::open(state_dir)?;
        let mut waited = Duration::ZERO;
        loop {
            match try_acquire(&directory) {
                Ok(Attempt::Acquired(lock)) => return Ok(lock),
                Ok(Attempt::Held(by_pid)) if waited >= patience => {
                    return Err(LockError::Held { by_pid });
                }
                // Whoever does that again and again has it as good as any holder.
                Ok(Attempt::Renamed) if waited >= patience => {
                    return Err(LockError::Held { by_pid: None });
                }
                Ok(Attempt::Held(_) | Attempt::Renamed) => {}
                Err(error) => {
                    let path = directory.describe(LOCK_FILE);
                    return Err(StoreError::of_file(Operation::Lock, path, error).into());
                }
            }
            std::thread::sleep(RETRY_INTERVAL);
            waited += RETRY_INTERVAL;
        }
    }
}

enum Attempt {
    Acquired(Lock),
    Held(Option<i32>),
    /// The file was removed or replaced meanwhile, so that the lock on it means nothing.
    Renamed,
}

fn try_acquire(directory: &RealDirectory) -> Result<Attempt, FileError> {
    let opened = directory.open_file(LOCK_FILE, OFlags::RDWR | OFlags::CREATE)?;
    let Some((file, stat)) = opened else { return Ok(Attempt::Renamed) };
    let file = File::from(file);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Attempt::Held(read_pid(&file)?)),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    if !directory.is_named(LOCK_FILE, &stat)? {
        return Ok(Attempt::Renamed);
    }
    // Writing the number is no sign of life of a daemon; and a new file never saw any.
    let alive = if stat.st_size == 0 { NEVER_ALIVE } else { modified(&stat) };
    file.write_all_at(&pid_line(std::process::id()), 0)?;
    set_modified(file.as_fd(), alive)?;
    Ok(Attempt::Acquired(Lock { _file: file }))
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
