//! A few connections that only read, each call on one snapshot.
//!
//! Readers never wait for the writer, nor it for them. There are at most
//! [`READERS_MAX`](crate::limits::READERS_MAX); who comes when all are busy waits for one.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::database::{Access, connect};
use crate::error::StoreError;
use crate::limits::READERS_MAX;

pub(crate) struct Readers {
    path: PathBuf,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    open: usize,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Readers {
        Readers { path, pool: Mutex::default(), returned: Condvar::new() }
    }

    /// Reads from one snapshot.
    pub(crate) fn read<T, E: From<StoreError>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut lease = Lease { readers: self, connection: Some(self.take()?) };
        let Some(connection) = &mut lease.connection else { return Err(StoreError::Closed.into()) };
        let snapshot = connection.transaction().map_err(StoreError::from)?;
        read(&snapshot)
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let mut pool = self.lock();
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok(connection);
            }
            if pool.open < READERS_MAX {
                pool.open += 1;
                drop(pool);
                return connect(&self.path, Access::Read).inspect_err(|_| {
                    self.lock().open -= 1;
                    self.returned.notify_one();
                });
            }
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the connection back however the reading ends.
struct Lease<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.readers.lock().idle.push(connection);
            self.readers.returned.notify_one();
        }
    }
}
