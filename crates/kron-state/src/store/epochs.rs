//! Appending to and reading `epochs.jsonl`.

use std::sync::PoisonError;

use crate::directory::{Directory, Operation};
use crate::epoch::{Epoch, EpochLog, newer_half, whole_lines};
use crate::replace::{uninterrupted, write_all};
use crate::store::{Store, StoreError};

/// When the file would be longer than this, its older half is dropped.
pub const EPOCHS_BYTES_MAX: u64 = 1024 * 1024;

const EPOCHS_FILE: &str = "epochs.jsonl";

/// What is known about the end of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Tail {
    /// Nothing yet: it may end in a torn line, and its name may not be durable.
    #[default]
    Unknown,
    /// It ends with a whole line after this many bytes, all of them durable.
    Whole(u64),
    /// Writing or syncing it failed, and it is not to be written to again.
    Failed,
}

impl<D: Directory> Store<D> {
    /// Durably adds a line to the daemon's life.
    ///
    /// # Errors
    /// When it cannot be written. Part of the line may then be there, and is gone once another
    /// one is added.
    pub fn append_epoch(&self, epoch: &Epoch) -> Result<(), StoreError> {
        self.append_epochs(std::slice::from_ref(epoch))
    }

    /// Durably adds several lines at once, none of which is so long that it would not be read
    /// again. When all of them are too many, the newer ones are kept.
    pub(super) fn append_epochs(&self, epochs: &[Epoch]) -> Result<(), StoreError> {
        let mut lines = Vec::new();
        for epoch in epochs {
            let line = epoch.to_line();
            if line.len() as u64 > EPOCHS_BYTES_MAX {
                return Err(StoreError::TooLong {
                    file: self.state.describe(EPOCHS_FILE),
                    length: line.len() as u64,
                    bytes_max: EPOCHS_BYTES_MAX,
                });
            }
            lines.extend(line);
        }
        let lines_bytes = lines.len() as u64;
        self.check_synced(EPOCHS_FILE)?;
        let mut tail = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *tail, Tail::Failed);
        let fits = |length: u64| (length + lines_bytes <= EPOCHS_BYTES_MAX).then_some(length);
        let append_at = match before {
            Tail::Whole(length) => fits(length),
            Tail::Unknown => {
                let bytes = self.epoch_bytes()?;
                fits(bytes.len() as u64).filter(|_| whole_lines(&bytes) == bytes.len())
            }
            Tail::Failed => None,
        };
        let length = match append_at {
            Some(length) => {
                self.append_lines(&lines)?;
                if matches!(before, Tail::Unknown) {
                    self.sync_state(EPOCHS_FILE)?;
                }
                length + lines_bytes
            }
            None => self.rewrite_with(&lines)?,
        };
        *tail = Tail::Whole(length);
        Ok(())
    }

    /// The daemon's life as far as it is kept.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn epochs(&self) -> Result<EpochLog, StoreError> {
        Ok(EpochLog::parse(&self.epoch_bytes()?))
    }

    fn append_lines(&self, lines: &[u8]) -> Result<(), StoreError> {
        let failed = |operation| {
            move |error| StoreError::of_io(operation, self.state.describe(EPOCHS_FILE), error)
        };
        let mut file = uninterrupted(|| self.state.append(EPOCHS_FILE)).map_err(|error| {
            StoreError::of_file(Operation::Append, self.state.describe(EPOCHS_FILE), error)
        })?;
        write_all(&self.state, &mut file, lines).map_err(failed(Operation::Write))?;
        self.state.sync_file(&file).map_err(failed(Operation::SyncFile))
    }

    /// Replaces the file by its whole lines and `more`, or by the newer half of them where all
    /// are too many. Returns its length.
    fn rewrite_with(&self, more: &[u8]) -> Result<u64, StoreError> {
        let mut lines = self.epoch_bytes()?;
        lines.truncate(whole_lines(&lines));
        lines.extend_from_slice(more);
        let mut kept = &lines[..];
        while kept.len() as u64 > EPOCHS_BYTES_MAX {
            kept = newer_half(kept);
        }
        self.replace(EPOCHS_FILE, kept, EPOCHS_BYTES_MAX)?;
        Ok(kept.len() as u64)
    }

    fn epoch_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let contents = self.contents(EPOCHS_FILE, EPOCHS_BYTES_MAX)?;
        Ok(contents.map(|contents| contents.bytes).unwrap_or_default())
    }
}
