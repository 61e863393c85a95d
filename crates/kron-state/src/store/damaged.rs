//! Setting damaged files aside.
//!
//! The damaged file is copied, not moved: it keeps its place until its replacement takes it, so
//! that no crash in between makes a job look new that has a past.

use std::io;

use crate::directory::{Contents, Directory, Operation};
use crate::store::{Store, StoreError, contents};

/// Between a file's name and the time when the damaged one was written.
const INFIX: &str = ".corrupt.";
/// How many damaged forms of one file, all written in the same second, are kept.
const SAME_SECOND_MAX: u32 = 100;

impl<D: Directory> Store<D> {
    /// Makes a durable copy of a damaged file and tells its name. A copy that is already there,
    /// made before a crash and durable since the store was opened, is used.
    pub(super) fn set_aside(&self, file: &str, damaged: &Contents) -> Result<String, StoreError> {
        let length = damaged.bytes.len() as u64;
        let mut number = 1;
        loop {
            let name = copy_name(file, damaged, number);
            match contents(&self.state, &name, length) {
                Ok(None) => {
                    self.replace(&name, &damaged.bytes, length)?;
                    return Ok(name);
                }
                Ok(Some(copy)) if copy.bytes == damaged.bytes => return Ok(name),
                // Another one, shorter or longer: it is kept as well.
                Ok(Some(_)) | Err(StoreError::Refused { .. }) if number < SAME_SECOND_MAX => {
                    number += 1;
                }
                Ok(Some(_)) => {
                    let exists = io::ErrorKind::AlreadyExists.into();
                    let name = self.state.describe(&name);
                    return Err(StoreError::of_io(Operation::Create, name, exists));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// `<file>.corrupt.<time>`, where the time is that of the damaged file and so the same at every
/// attempt, and has no characters that other systems dislike in names.
pub(super) fn copy_name(file: &str, damaged: &Contents, number: u32) -> String {
    let mut name = format!("{file}{INFIX}");
    name.extend(damaged.modified.to_string().chars().filter(|byte| !matches!(byte, '-' | ':')));
    if number > 1 {
        name.push_str(&format!("-{number}"));
    }
    name
}
