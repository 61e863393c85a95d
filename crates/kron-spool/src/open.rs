//! A spool's directories: how they are opened, and who may do what with them.
//!
//! The holder of the lock may do everything. Others may put tasks into `pending/` as far as its
//! permissions let them ([`Spool::open_to_put`]), or look ([`Spool::open_to_read`]). Everything is
//! reached through descriptors that were opened once, so that nobody can put another directory
//! under a path in between.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kron_state::{
    Admission, Directory as _, DirectoryLock, FileError, Making, Moves, Operation, Owners,
    RealDirectory, StoreError,
};

use crate::error::SpoolError;
use crate::id::random;
use crate::steps::TEMPORARY;
use crate::task::State;

/// The directory of the three directories of tasks.
const TASKS: &str = "tasks";
/// The directory of what could not be a task.
const REJECTED: &str = "rejected";
/// The superuser, who may do all this anyway.
const ROOT: u32 = 0;

/// A spool.
#[derive(Debug)]
pub struct Spool<D = RealDirectory> {
    pub(crate) pending: D,
    /// Absent for a producer who may not look into it; as are the next two.
    pub(crate) running: Option<D>,
    pub(crate) completed: Option<D>,
    pub(crate) rejected: Option<D>,
    /// Whether a sync has failed.
    pub(crate) broken: AtomicBool,
    /// Distinguishes the temporary files of this value from each other,
    pub(crate) drafts: AtomicU64,
    /// and from everybody else's: process ids are the same in different containers.
    pub(crate) owner: u64,
}

/// The right to change everything in a spool, until it is dropped: a lock of the kernel on its
/// `tasks/running`, which ends with its holder however that ends. Nobody else may open that
/// directory, and so nobody else can hold the lock.
#[derive(Debug)]
pub struct SpoolLock {
    directory: RealDirectory,
}

impl Drop for SpoolLock {
    fn drop(&mut self) {
        // It ends when the directory is closed, at the latest.
        let _ = self.directory.unlock();
    }
}

impl Spool<RealDirectory> {
    /// Opens a spool to do everything with it; makes it if it is not there. Files in `pending/` count
    /// when they are this user's, root's, or one of these `producers`'.
    ///
    /// # Errors
    /// When it cannot be made or opened, when another process has it, or when somebody else could
    /// change what only its holder may.
    pub fn open(path: &Path, producers: &[u32]) -> Result<(Spool, SpoolLock), SpoolError> {
        if let Some(parent) = path.parent() {
            make_durably(parent)
                .map_err(SpoolError::at(Operation::OpenDirectory, parent.display().to_string()))?;
        }
        let own = own(producers);
        let root = RealDirectory::open_admitting(path, own.clone()).map_err(directory_error)?;
        let shown = || path.display().to_string();
        let inside = |directory: &RealDirectory, name: &'static str, admission: Admission| {
            let opened = directory.subdirectory_admitting(name, admission, Making::IfMissing);
            opened
                .and_then(|it| it.ok_or_else(|| FileError::Io(io::ErrorKind::NotFound.into())))
                .map_err(|error| {
                    file_error(Operation::OpenDirectory, directory.describe(name), error)
                })
        };
        let tasks = inside(&root, TASKS, own.clone())?;
        let of = |state: State, admission| inside(&tasks, state.directory(), admission);
        let lock = of(State::Running, own.clone())?;
        // Whoever can open a directory can lock it, and keep the daemon out.
        let at = SpoolError::at(Operation::Lock, lock.describe(""));
        lock.close_to_others().map_err(at)?;
        match lock.try_lock().map_err(SpoolError::at(Operation::Lock, lock.describe("")))? {
            DirectoryLock::Acquired => {}
            DirectoryLock::Held => return Err(SpoolError::Held { path: shown() }),
            DirectoryLock::Unsupported => return Err(SpoolError::CannotLock { path: shown() }),
        }
        let pending = Admission { directory_denied: 0, file_denied: 0o002, ..own.clone() };
        let spool = Spool::of(
            of(State::Pending, pending)?,
            Some(of(State::Running, own.clone())?),
            Some(of(State::Completed, own.clone())?),
            Some(inside(&root, REJECTED, own)?),
        )?;
        Ok((spool, SpoolLock { directory: lock }))
    }

    /// Opens a spool that is there to put tasks into it, as far as this user may. Its owner can read
    /// what is put, whoever puts it: root gives it away, others leave it to the group of `pending/`.
    ///
    /// # Errors
    /// When there is none, its `pending/` cannot be opened, or its owner could not read what is put.
    pub fn open_to_put(path: &Path) -> Result<Spool, SpoolError> {
        // Straight to it: a producer need not be able to list what is above.
        let tasks = path.join(TASKS);
        let place = tasks.join(State::Pending.directory());
        let pending = RealDirectory::open_existing_admitting(&place, any()).map_err(|error| {
            let is_there = |place: &Path| place.symlink_metadata().is_ok();
            match directory_error(error) {
                // Let what is missing be named, and not what is below it.
                SpoolError::Directory(StoreError::Io { operation, source, .. })
                    if !is_there(path) =>
                {
                    let file = path.display().to_string();
                    SpoolError::Directory(StoreError::Io { operation, file, source })
                }
                _ if !is_there(&tasks) && may_search(path) => no_spool(path, TASKS),
                _ if !is_there(&place) && may_search(&tasks) => {
                    no_spool(path, State::Pending.directory())
                }
                error => error,
            }
        })?;
        let at = SpoolError::at(Operation::OpenDirectory, place.display().to_string());
        let pending = pending.handing_to_owner().map_err(at)?.map_err(|owner| {
            SpoolError::OwnerCannotRead { path: place.display().to_string(), owner }
        })?;
        // A producer who may not look into these is told less about what is there already.
        let others = |place: PathBuf| RealDirectory::open_existing_admitting(&place, any()).ok();
        let running = others(tasks.join(State::Running.directory()));
        let completed = others(tasks.join(State::Completed.directory()));
        Spool::of(pending, running, completed, others(path.join(REJECTED)))
    }

    /// Opens a spool that is there to look at it.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    pub fn open_to_read(path: &Path) -> Result<Spool, SpoolError> {
        let (root, tasks) = open_existing(path)?;
        Spool::of(
            required(&tasks, State::Pending.directory(), path)?,
            Some(required(&tasks, State::Running.directory(), path)?),
            Some(required(&tasks, State::Completed.directory(), path)?),
            Some(required(&root, REJECTED, path)?),
        )
    }
}

impl Spool<RealDirectory> {
    /// Whether its directories are what the paths below `path` lead to, so that others find them.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let tasks = path.join(TASKS);
        let places = [
            (Some(&self.pending), State::Pending),
            (self.running.as_ref(), State::Running),
            (self.completed.as_ref(), State::Completed),
        ];
        for (directory, state) in places {
            if let Some(directory) = directory
                && !directory.is_at(&tasks.join(state.directory()))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<D: Moves> Spool<D> {
    /// A spool in any kind of directory, which nobody else uses: for simulations.
    ///
    /// # Errors
    /// When its directories cannot be opened or made.
    pub fn over(root: &D) -> Result<Spool<D>, SpoolError> {
        let inside = |directory: &D, name: &str| {
            directory.subdirectory(name).map_err(|error| {
                file_error(Operation::OpenDirectory, directory.describe(name), error)
            })
        };
        let tasks = inside(root, TASKS)?;
        Spool::of(
            inside(&tasks, State::Pending.directory())?,
            Some(inside(&tasks, State::Running.directory())?),
            Some(inside(&tasks, State::Completed.directory())?),
            Some(inside(root, REJECTED)?),
        )
    }

    fn of(
        pending: D,
        running: Option<D>,
        completed: Option<D>,
        rejected: Option<D>,
    ) -> Result<Spool<D>, SpoolError> {
        let (broken, drafts) = (AtomicBool::new(false), AtomicU64::new(0));
        let at = SpoolError::at(Operation::Create, pending.describe(TEMPORARY));
        let owner = u64::from_ne_bytes(random().map_err(at)?);
        Ok(Spool { pending, running, completed, rejected, broken, drafts, owner })
    }

    /// A name for a temporary file that nobody else has.
    pub(crate) fn own_temporary(&self) -> String {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        format!("{TEMPORARY}{:016x}.{number}", self.owner)
    }

    /// The directory of a state.
    pub(crate) fn directory(&self, state: State) -> Result<&D, SpoolError> {
        let directory = match state {
            State::Pending => Some(&self.pending),
            State::Running => self.running.as_ref(),
            State::Completed => self.completed.as_ref(),
        };
        directory.ok_or_else(|| self.closed(state.directory()))
    }

    pub(crate) fn rejected(&self) -> Result<&D, SpoolError> {
        self.rejected.as_ref().ok_or_else(|| self.closed(REJECTED))
    }

    fn closed(&self, name: &str) -> SpoolError {
        let path = self.pending.describe(&format!("../{name}"));
        let source = io::ErrorKind::PermissionDenied.into();
        SpoolError::Io { operation: Operation::OpenDirectory, path, source }
    }

    /// Syncs a directory. One that fails is the last.
    pub(crate) fn sync(&self, directory: &D) -> Result<(), SpoolError> {
        self.check()?;
        directory.sync().map_err(|source| {
            self.broken.store(true, Ordering::Release);
            let path = directory.describe("");
            SpoolError::Io { operation: Operation::SyncDirectory, path, source }
        })
    }

    /// Fails when nothing more can be promised.
    ///
    /// # Errors
    /// When a sync or a deletion has failed.
    pub fn check(&self) -> Result<(), SpoolError> {
        if self.broken.load(Ordering::Acquire) {
            return Err(SpoolError::Broken { path: self.pending.describe("..") });
        }
        Ok(())
    }
}

/// Makes a directory and those it is in, each of them durably.
fn make_durably(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    make_durably(parent)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        result => result?,
    }
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    std::fs::File::open(parent)?.sync_all()
}

/// What the holder of a spool admits: nothing that others could have changed.
fn own(producers: &[u32]) -> Admission {
    let listed: Vec<u32> = producers.iter().copied().chain([ROOT]).collect();
    Admission {
        directory_owners: Owners::These([ROOT].into()),
        directory_denied: 0o022,
        directory_mode: 0o700,
        file_owners: Owners::These(listed.into()),
        file_denied: 0o022,
        file_mode: 0o600,
        exact: false,
    }
}

/// What somebody admits who changes nothing that is there. Files that are made can be read by the
/// directory's group, so that a daemon that is not root can be let in.
fn any() -> Admission {
    Admission {
        directory_owners: Owners::Anybody,
        directory_denied: 0,
        directory_mode: 0o700,
        file_owners: Owners::Anybody,
        file_denied: 0,
        file_mode: 0o640,
        exact: false,
    }
}

fn open_existing(path: &Path) -> Result<(RealDirectory, RealDirectory), SpoolError> {
    let root = RealDirectory::open_existing_admitting(path, any()).map_err(directory_error)?;
    let tasks = required(&root, TASKS, path)?;
    Ok((root, tasks))
}

fn required(
    directory: &RealDirectory,
    name: &'static str,
    path: &Path,
) -> Result<RealDirectory, SpoolError> {
    match directory.subdirectory_admitting(name, any(), Making::Never) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(no_spool(path, name)),
        Err(error) => Err(file_error(Operation::OpenDirectory, directory.describe(name), error)),
    }
}

fn no_spool(path: &Path, missing: &'static str) -> SpoolError {
    SpoolError::NoSpool { path: path.display().to_string(), missing }
}

/// Whether what is in a directory can be told at all.
fn may_search(path: &Path) -> bool {
    let inside = path.join(".").symlink_metadata();
    !inside.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// A directory that is not admitted is told in words of a spool's.
fn directory_error(error: StoreError) -> SpoolError {
    match error {
        StoreError::Directory { path, source, .. } => SpoolError::Refused { path, refusal: source },
        other => SpoolError::Directory(other),
    }
}

pub(crate) fn file_error(operation: Operation, path: String, error: FileError) -> SpoolError {
    match error {
        FileError::Io(source) => SpoolError::Io { operation, path, source },
        FileError::Refused(refusal) => SpoolError::Refused { path, refusal },
    }
}
