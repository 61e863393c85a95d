//! The store: every durable thing a daemon keeps, in one directory.
//!
//! | file | what it is |
//! |---|---|
//! | `<64 hex>.json` | the document of the job with that SHA-256 of its identity |
//! | `<64 hex>.json.corrupt.<time>` | one that could not be read, set aside |
//! | `known.json` | [`Known`] |
//! | `runs/<run id>.json` | a [`RunRecord`](crate::RunRecord) that a supervisor left |
//! | `epochs.jsonl` | the daemon's life |
//! | `lock` | the [`Lock`](crate::Lock) and the daemon's sign of life |
//!
//! The store keeps nothing in memory: a commit reads the document, applies what happened and
//! replaces the file. When a commit returns, it is on the disk; when it fails, the file is the old
//! document or the new one, and after a failed sync of the directory every later commit fails too,
//! because nothing can be said about the disk any more.
//!
//! It may be shared by threads. Commits to the same document take turns; others run at once and
//! share directory syncs.

mod damaged;
mod epochs;
mod error;
mod runs;
mod scan;

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kron_core::UtcSecond;
use sha2::{Digest as _, Sha256};

use crate::change::Change;
use crate::directory::{Contents, Directory, FileError, Operation};
use crate::document::{Document, DocumentError};
use crate::epoch::{Epoch, EpochEvent};
use crate::known::{Known, KnownAhead};
use crate::lock::{LOCK_FILE, NEVER_ALIVE};
use crate::replace::{is_temporary, put_in_place, uninterrupted};
use crate::sealed::hex;
use crate::shared_sync::SharedSync;

pub use epochs::EPOCHS_BYTES_MAX;
pub use error::StoreError;
pub use runs::{RunRead, write_run_record, write_run_report};
pub use scan::{Scan, UnreadableFile};

/// The longest document that is read or written.
pub const DOCUMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The longest `known.json` that is read or written: a kilobyte for each of 250,000 jobs.
pub const KNOWN_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Documents whose commits never wait for one another have different stripes.
const STRIPES: usize = 64;

pub(crate) const KNOWN_FILE: &str = "known.json";
const RUNS_DIRECTORY: &str = "runs";

/// Everything durable that belongs to one daemon.
#[derive(Debug)]
pub struct Store<D> {
    state: D,
    runs: Option<D>,
    history_max: AtomicUsize,
    sync: SharedSync,
    runs_sync: SharedSync,
    stripes: [Mutex<()>; STRIPES],
    epochs: Mutex<epochs::Tail>,
}

/// What `known.json` says.
#[derive(Debug)]
pub enum KnownRead {
    /// There is none.
    Missing,
    /// It was damaged. A copy is set aside; the file itself stays until the next
    /// [`Store::save_known`].
    Unreadable {
        /// What is wrong with it.
        cause: String,
        /// When it was last written.
        modified: UtcSecond,
        /// The copy.
        set_aside: String,
    },
    /// What is known.
    Known(Known),
}

impl<D: Directory> Store<D> {
    /// The store in a directory, for whoever holds its lock: what interrupted writes left behind
    /// is removed, and what is there is made durable. Documents keep at most `history_max` entries
    /// beside those of active runs.
    ///
    /// # Errors
    /// When the directory cannot be listed or synced, or what is left over cannot be removed.
    pub fn open(state: D, history_max: usize) -> Result<Store<D>, StoreError> {
        let runs = uninterrupted(|| state.subdirectory(RUNS_DIRECTORY)).map_err(|error| {
            StoreError::of_file(Operation::OpenDirectory, state.describe(RUNS_DIRECTORY), error)
        })?;
        let store = Store::over(state, Some(runs), history_max);
        for directory in [&store.state].into_iter().chain(&store.runs) {
            for name in store.names(directory)?.iter().filter(|name| is_temporary(name)) {
                match uninterrupted(|| directory.remove(name)) {
                    // A supervisor has just finished its record and given it its name.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    result => result.map_err(|error| {
                        StoreError::of_io(Operation::Remove, directory.describe(name), error)
                    })?,
                }
            }
            // What a daemon before this one put in place is seen, but may not be durable. Nothing
            // is decided upon what a power cut could take back.
            directory.sync().map_err(|error| {
                StoreError::of_io(Operation::SyncDirectory, directory.describe(""), error)
            })?;
        }
        Ok(store)
    }

    /// The store in a directory that a daemon may be using at this moment: to read, or to leave
    /// run records as supervisors do. Nothing is created at once, and nothing removed.
    ///
    /// # Errors
    /// When the directory of run records is not a private one.
    pub fn view(state: D, history_max: usize) -> Result<Store<D>, StoreError> {
        let runs =
            uninterrupted(|| state.existing_subdirectory(RUNS_DIRECTORY)).map_err(|error| {
                StoreError::of_file(Operation::OpenDirectory, state.describe(RUNS_DIRECTORY), error)
            })?;
        Ok(Store::over(state, runs, history_max))
    }

    /// The documents and the epochs of a directory whose run records nobody can get at: to read.
    pub fn view_without_runs(state: D) -> Store<D> {
        Store::over(state, None, usize::MAX)
    }

    /// How many entries of history documents keep from now on, beside those of active runs. Each
    /// document is cut at its next commit.
    pub fn set_history_max(&self, history_max: usize) {
        self.history_max.store(history_max, Ordering::Relaxed);
    }

    fn history_max(&self) -> usize {
        self.history_max.load(Ordering::Relaxed)
    }

    fn over(state: D, runs: Option<D>, history_max: usize) -> Store<D> {
        Store {
            state,
            runs,
            history_max: AtomicUsize::new(history_max),
            sync: SharedSync::default(),
            runs_sync: SharedSync::default(),
            stripes: std::array::from_fn(|_| Mutex::new(())),
            epochs: Mutex::default(),
        }
    }

    /// The document of a job, or `None` when nothing is recorded about it.
    ///
    /// # Errors
    /// When the file cannot be read, is not a private one, or is no usable document.
    pub fn read(&self, identity: &str) -> Result<Option<Document>, StoreError> {
        self.read_named(&document_file(identity), identity)
    }

    /// Makes durable what happened to a job, all of it or, on an error before the end, nothing.
    ///
    /// # Errors
    /// When a change does not fit the document, or it cannot be read or replaced. After a failed
    /// replacement the file is the old document or the new one.
    pub fn commit(&self, identity: &str, changes: &[Change]) -> Result<(), StoreError> {
        let file = document_file(identity);
        let _turn = self.turn(&file);
        let mut document =
            self.read_named(&file, identity)?.unwrap_or_else(|| Document::new(identity));
        let history_max = self.history_max();
        for change in changes {
            document.apply(change, history_max).map_err(|source| StoreError::Inapplicable {
                identity: identity.to_owned(),
                source,
            })?;
        }
        self.write_document(&file, &document)
    }

    /// Puts `document` in the place of one that cannot be read, after a copy of that is durably
    /// set aside. Doing it again after a crash at any point ends the same way.
    ///
    /// # Errors
    /// When the present document can be read after all, is of another version, or when anything
    /// cannot be read or written; the old bytes are then still there.
    pub fn restore(&self, identity: &str, document: &Document) -> Result<(), StoreError> {
        let file = document_file(identity);
        if document.identity != identity {
            let source = DocumentError::of_identity(&document.identity);
            return Err(StoreError::Document { file: self.state.describe(&file), source });
        }
        let _turn = self.turn(&file);
        if let Some(contents) = self.contents(&file, DOCUMENT_BYTES_MAX)? {
            match Document::parse(&contents.bytes, Some(identity)) {
                Ok(_) => return Err(StoreError::Readable { file: self.state.describe(&file) }),
                Err(DocumentError::Unreadable(_)) => self.set_aside(&file, &contents)?,
                Err(source @ DocumentError::Incompatible(_)) => {
                    return Err(StoreError::Document { file: self.state.describe(&file), source });
                }
            };
        }
        self.write_document(&file, document)
    }

    /// Moves a job's mark on purpose, also back, and records that in the epochs; a period about
    /// which nothing was recorded gets an entry in the job's history. Active runs stay as they
    /// are. Whether the mark may go there is told by [`Document::mark_target`].
    ///
    /// # Errors
    /// When the document or the epochs cannot be read or written.
    pub fn reset(
        &self,
        identity: &str,
        to: Option<UtcSecond>,
        at: UtcSecond,
    ) -> Result<(), StoreError> {
        let file = document_file(identity);
        let _turn = self.turn(&file);
        let mut document =
            self.read_named(&file, identity)?.unwrap_or_else(|| Document::new(identity));
        // Recorded before it is done: a reset that nobody can find out about must not be.
        let from = document.last_handled;
        let event = EpochEvent::Reset { identity: identity.to_owned(), from, to };
        self.append_epoch(&Epoch { at, event })?;
        document.reset(to, at, self.history_max());
        self.write_document(&file, &document)
    }

    /// What is known about all jobs. A damaged file is set aside, also in a view.
    ///
    /// # Errors
    /// When it cannot be read, is not a private file, or is of another version.
    pub fn known(&self) -> Result<KnownRead, StoreError> {
        let Some(contents) = self.contents(KNOWN_FILE, KNOWN_BYTES_MAX)? else {
            return Ok(KnownRead::Missing);
        };
        match Known::parse(&contents.bytes) {
            Ok(known) => Ok(KnownRead::Known(known)),
            Err(DocumentError::Unreadable(cause)) => {
                let set_aside = self.set_aside(KNOWN_FILE, &contents)?;
                Ok(KnownRead::Unreadable { cause, modified: contents.modified, set_aside })
            }
            Err(source @ DocumentError::Incompatible(_)) => {
                Err(StoreError::Document { file: self.state.describe(KNOWN_FILE), source })
            }
        }
    }

    /// Makes durable what is known about all jobs.
    ///
    /// # Errors
    /// When it cannot be written; the file is then the old or the new one.
    pub fn save_known(&self, known: &Known) -> Result<(), StoreError> {
        self.replace(KNOWN_FILE, &known.to_bytes(), KNOWN_BYTES_MAX)
    }

    /// Brings what is known about a job, or about every job, back from a future in which a wrong
    /// clock put it, and records that in the epochs. Returns what was brought back.
    ///
    /// # Errors
    /// When it cannot be read, or the epochs or it cannot be written.
    pub fn reset_known(
        &self,
        identity: Option<&str>,
        now: UtcSecond,
    ) -> Result<Vec<KnownAhead>, StoreError> {
        let KnownRead::Known(mut known) = self.known()? else { return Ok(Vec::new()) };
        let mut ahead = known.ahead_of(now);
        ahead.retain(|ahead| identity.is_none_or(|identity| *identity == *ahead.identity));
        // Recorded before it is done, as a mark that is moved is.
        let mut epochs = Vec::new();
        for of_job in ahead.chunk_by(|one, next| one.identity == next.identity) {
            let Some(first) = of_job.first() else { continue };
            if let Some(job) = known.jobs.get_mut(&first.identity) {
                job.bring_back(now);
            }
            let from = of_job.iter().map(|ahead| ahead.at).max();
            let identity = first.identity.to_string();
            let event = EpochEvent::Reset { identity, from, to: Some(now) };
            epochs.push(Epoch { at: now, event });
        }
        if !ahead.is_empty() {
            self.append_epochs(&epochs)?;
            self.save_known(&known)?;
        }
        Ok(ahead)
    }

    /// Leaves a sign of life.
    ///
    /// # Errors
    /// When the lock's file cannot be touched. One that is gone is not made again: whoever removed
    /// it may mean that nobody holds the lock.
    pub fn alive(&self, now: UtcSecond) -> Result<(), StoreError> {
        let touched = uninterrupted(|| self.state.set_modified(LOCK_FILE, now));
        touched.map_err(|error| {
            let error = match error {
                FileError::Io(error) if error.kind() == ErrorKind::NotFound => {
                    let gone = "the file is gone, and a lock that is held is not to be removed";
                    FileError::Io(io::Error::new(ErrorKind::NotFound, gone))
                }
                error => error,
            };
            StoreError::of_file(Operation::SetModified, self.state.describe(LOCK_FILE), error)
        })
    }

    /// The last sign of life of any daemon.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn last_alive(&self) -> Result<Option<UtcSecond>, StoreError> {
        let modified = uninterrupted(|| self.state.modified(LOCK_FILE)).map_err(|error| {
            StoreError::of_file(Operation::Read, self.state.describe(LOCK_FILE), error)
        })?;
        Ok(modified.filter(|at| *at > NEVER_ALIVE))
    }

    fn read_named(&self, file: &str, identity: &str) -> Result<Option<Document>, StoreError> {
        let Some(contents) = self.contents(file, DOCUMENT_BYTES_MAX)? else { return Ok(None) };
        Document::parse(&contents.bytes, Some(identity))
            .map(Some)
            .map_err(|source| StoreError::Document { file: self.state.describe(file), source })
    }

    fn write_document(&self, file: &str, document: &Document) -> Result<(), StoreError> {
        self.replace(file, &document.to_bytes(), DOCUMENT_BYTES_MAX)
    }

    fn contents(&self, file: &str, bytes_max: u64) -> Result<Option<Contents>, StoreError> {
        contents(&self.state, file, bytes_max)
    }

    /// Replaces a file durably.
    fn replace(&self, file: &str, bytes: &[u8], bytes_max: u64) -> Result<(), StoreError> {
        let described = || self.state.describe(file);
        if bytes.len() as u64 > bytes_max {
            let length = bytes.len() as u64;
            return Err(StoreError::TooLong { file: described(), length, bytes_max });
        }
        self.check_synced(file)?;
        put_in_place(&self.state, file, bytes)
            .map_err(|error| StoreError::of_io(error.operation, described(), error.source))?;
        #[cfg(kron_canary)]
        if kron_canary::Canary::NoDirectoryFsync.is_active() {
            return Ok(());
        }
        self.sync_state(file)
    }

    /// Fails when a sync of the directory failed before.
    fn check_synced(&self, file: &str) -> Result<(), StoreError> {
        self.sync
            .check()
            .map_err(|source| StoreError::SyncedBefore { file: self.state.describe(file), source })
    }

    fn sync_state(&self, file: &str) -> Result<(), StoreError> {
        self.sync.wait(|| self.state.sync()).map_err(|error| {
            StoreError::of_io(Operation::SyncDirectory, self.state.describe(file), error)
        })
    }

    fn names(&self, directory: &D) -> Result<Vec<String>, StoreError> {
        let mut names = uninterrupted(|| directory.names())
            .map_err(|error| StoreError::of_io(Operation::List, directory.describe(""), error))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Holds off every other commit to the same document.
    fn turn(&self, file: &str) -> MutexGuard<'_, ()> {
        // The first two of its hex digits are as good a hash as any.
        let stripe = usize::from_str_radix(&file[..2], 16).unwrap_or(0) % STRIPES;
        // What a panic left half done was in memory only.
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn contents<D: Directory>(
    directory: &D,
    file: &str,
    bytes_max: u64,
) -> Result<Option<Contents>, StoreError> {
    uninterrupted(|| directory.read(file, bytes_max))
        .map_err(|error| StoreError::of_file(Operation::Read, directory.describe(file), error))
}

/// The name of a job's document: nothing of the identity itself is used as a file name.
#[must_use]
pub fn document_file(identity: &str) -> String {
    let mut name = hex(&Sha256::digest(identity.as_bytes()));
    name.push_str(DOCUMENT_SUFFIX);
    name
}

const DOCUMENT_SUFFIX: &str = ".json";
