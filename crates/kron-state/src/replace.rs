//! The durable replacement of a file: the only way documents reach the disk.
//!
//! Write a new file beside the old one, sync it, give it the old one's name, sync the directory.
//! Whatever stops this at any point, the name stands for the whole old file or the whole new one.
//! A failed step is not tried again: after a failed sync nobody knows what the disk holds, and a
//! second one may report success without having done anything.

use std::io;

use crate::directory::{Directory, FileError, Operation};

/// How often an interrupted call is made again before its interruption counts as an error.
const INTERRUPTIONS_MAX: usize = 100;
/// How many names are tried for a new file; more are in use only if nothing ever removes them.
const NAMES_MAX: u32 = 1_000;

/// The step of a replacement that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) operation: Operation,
    pub(crate) source: io::Error,
}

impl Failure {
    pub(crate) fn at(operation: Operation) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure { operation, source }
    }
}

/// Puts a file with `bytes` in the place of `name`. It is durable once the directory is synced,
/// which is the caller's to do.
pub(crate) fn put_in_place<D: Directory>(
    directory: &D,
    name: &str,
    bytes: &[u8],
) -> Result<(), Failure> {
    let (mut file, temporary) = create_beside(directory, name)?;
    let written = fill(directory, &mut file, bytes);
    drop(file);
    let placed = written.and_then(|()| {
        uninterrupted(|| directory.rename(&temporary, name)).map_err(Failure::at(Operation::Rename))
    });
    if placed.is_err() {
        // It would be removed at the next start anyway, and the first failure is the one to tell.
        let _ = directory.remove(&temporary);
    }
    placed
}

fn fill<D: Directory>(directory: &D, file: &mut D::File, bytes: &[u8]) -> Result<(), Failure> {
    write_all(directory, file, bytes).map_err(Failure::at(Operation::Write))?;
    directory.sync_file(file).map_err(Failure::at(Operation::SyncFile))
}

/// Writes all of `bytes`, however little is taken at once.
///
/// # Errors
/// When something could not be written; how much was is unknown.
pub fn write_all<D: Directory>(
    directory: &D,
    file: &mut D::File,
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = uninterrupted(|| directory.write(file, bytes))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

/// A new file whose name tells what it will become and that it is not yet that.
fn create_beside<D: Directory>(directory: &D, name: &str) -> Result<(D::File, String), Failure> {
    let mut number = 0;
    loop {
        let temporary = format!(".{name}.{number}.tmp");
        match uninterrupted(|| directory.create(&temporary)) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {
                number += 1;
            }
            Err(source) => return Err(Failure { operation: Operation::Create, source }),
        }
    }
}

/// Whether a name is that of a file that never came to its place.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

/// Makes a call again as long as it is interrupted. Not for syncs, whose failures are final.
pub(crate) fn uninterrupted<T, E: Interruptible>(
    mut call: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 0..INTERRUPTIONS_MAX {
        match call() {
            Err(error) if error.is_interruption() => {}
            result => return result,
        }
    }
    call()
}

/// Errors that may mean nothing but that a signal came.
pub(crate) trait Interruptible {
    fn is_interruption(&self) -> bool;
}

impl Interruptible for io::Error {
    fn is_interruption(&self) -> bool {
        self.kind() == io::ErrorKind::Interrupted
    }
}

impl Interruptible for FileError {
    fn is_interruption(&self) -> bool {
        matches!(self, FileError::Io(error) if error.is_interruption())
    }
}
