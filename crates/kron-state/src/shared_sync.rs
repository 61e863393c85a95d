//! Directory syncs that several threads share.
//!
//! A sync makes every change of the directory durable that was made before it *began*. So whoever
//! waits needs one that begins after its own change, and all who wait at the same time can have
//! the same one.
//!
//! A failed sync is final: it is reported to everybody who waits and to everybody who comes later,
//! because no later success would say anything about what came before it.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

/// The syncs of one directory.
#[derive(Debug, Default)]
pub(crate) struct SharedSync {
    progress: Mutex<Progress>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// How many syncs have begun.
    begun: u64,
    /// The last of them that succeeded.
    succeeded: u64,
    running: bool,
    /// The error number of the one that failed.
    failed: Option<i32>,
}

impl SharedSync {
    /// Returns once a sync has succeeded that began after this call.
    ///
    /// # Errors
    /// When that, or any one before it, failed.
    pub(crate) fn wait(&self, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = progress.begun + 1;
        while progress.succeeded < wanted {
            if let Some(errno) = progress.failed {
                return Err(io::Error::from_raw_os_error(errno));
            }
            if progress.running {
                progress = self.ended.wait(progress).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            progress.running = true;
            progress.begun += 1;
            let mine = progress.begun;
            drop(progress);
            let result = sync();
            progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.running = false;
            match result {
                Ok(()) => progress.succeeded = mine,
                Err(error) => {
                    progress.failed =
                        Some(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()));
                }
            }
            self.ended.notify_all();
        }
        Ok(())
    }

    /// Fails when an earlier sync did.
    ///
    /// # Errors
    /// What the system said then.
    pub(crate) fn check(&self) -> io::Result<()> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match progress.failed {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }
}
