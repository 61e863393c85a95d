//! The steps that put files in their place: write, sync, rename, for one or for many at once.
//!
//! Files that go to one directory are all written before the first is synced, so that the disk has
//! them together, and one sync of the directory makes all their names durable; that sync is the
//! caller's.

use std::io;

use kron_state::{Moves, Operation, write_all};

use crate::error::SpoolError;

/// How the names of files begin that are not in their place yet. Whatever begins with a dot is
/// ignored.
pub(crate) const TEMPORARY: &str = ".tmp-";

/// Files that are open at once; a process may have 1,024 by default.
pub(crate) const TOGETHER_MAX: usize = 128;

/// A file to be put in its place.
pub(crate) struct Draft {
    pub(crate) temporary: String,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// What may be in the place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placing {
    /// Nothing: a file that is there stays.
    New,
    /// Anything: a file that is there is replaced.
    Over,
}

/// What became of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    Placed,
    /// Something of that name was there.
    Taken,
}

/// Puts files in their places. Their names are durable once the directory is synced.
pub(crate) fn place<D: Moves>(
    directory: &D,
    drafts: &[Draft],
    placing: Placing,
) -> Vec<Result<Placed, SpoolError>> {
    // All are synced before any is renamed: the first rename would make the syncs after it slower.
    let synced: Vec<Result<(), SpoolError>> = drafts
        .chunks(TOGETHER_MAX)
        .flat_map(|drafts| write_all_synced(directory, drafts))
        .collect();
    synced
        .into_iter()
        .zip(drafts)
        .map(|(synced, draft)| {
            let placed = synced.and_then(|()| rename(directory, draft, placing));
            if !matches!(placed, Ok(Placed::Placed)) {
                // It would be ignored anyway, and the first failure is the one to tell.
                let _ = directory.remove(&draft.temporary);
            }
            placed
        })
        .collect()
}

/// Writes and syncs temporary files.
fn write_all_synced<D: Moves>(directory: &D, drafts: &[Draft]) -> Vec<Result<(), SpoolError>> {
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for draft in drafts {
        match write(directory, draft) {
            Ok(file) => {
                files.push(file);
                failed.push(None);
            }
            Err(error) => failed.push(Some(error)),
        }
    }
    let mut synced = directory.sync_files(&files).into_iter();
    let results = failed.into_iter().zip(drafts).map(|(failed, draft)| match failed {
        Some(error) => Err(error),
        None => {
            let at = SpoolError::at(Operation::SyncFile, directory.describe(&draft.name));
            synced.next().unwrap_or(Ok(())).map_err(at)
        }
    });
    results.collect()
}

fn write<D: Moves>(directory: &D, draft: &Draft) -> Result<D::File, SpoolError> {
    let created = match directory.create(&draft.temporary) {
        // It is what a crash has left: nobody else makes a file of this name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            directory.remove(&draft.temporary).and_then(|()| directory.create(&draft.temporary))
        }
        result => result,
    };
    let path = || directory.describe(&draft.name);
    let mut file = created.map_err(SpoolError::at(Operation::Create, path()))?;
    match write_all(directory, &mut file, &draft.bytes) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = directory.remove(&draft.temporary);
            Err(SpoolError::at(Operation::Write, path())(error))
        }
    }
}

fn rename<D: Moves>(directory: &D, draft: &Draft, placing: Placing) -> Result<Placed, SpoolError> {
    let renamed = match placing {
        Placing::New => directory.rename_new(&draft.temporary, &draft.name),
        Placing::Over => directory.rename(&draft.temporary, &draft.name),
    };
    match renamed {
        Ok(()) => Ok(Placed::Placed),
        Err(error) if placing == Placing::New && error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(Placed::Taken)
        }
        Err(error) => {
            Err(SpoolError::at(Operation::Rename, directory.describe(&draft.name))(error))
        }
    }
}
