//! Task ids: what a file may be called.
//!
//! An id is one component of a path that no shell, no file system and no person takes for anything
//! else: it is not hidden, is no option of a command, and has no blank in it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use kron_core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Bytes that an id may have; with what surrounds it a file name has 255.
const ID_BYTES_MAX: usize = 200;
/// How a task's file ends.
pub(crate) const SUFFIX: &str = ".json";
/// Hex digits of an identity's hash in the id of a scheduled task.
const IDENTITY_DIGITS: usize = 16;

/// Names one task of a spool, for ever.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(Box<str>);

/// Why a text is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// There is nothing in it.
    #[error("a task id must not be empty")]
    Empty,
    /// It is too long for a file name.
    #[error("a task id of {0} bytes; at most {ID_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// It has a character that is not allowed.
    #[error(
        "`{0}` cannot be a task id: letters, digits, `.`, `_` and `-` are allowed, and a letter or digit comes first"
    )]
    Characters(String),
}

impl TaskId {
    /// Reads an id.
    ///
    /// # Errors
    /// When the text cannot be one.
    pub fn new(text: &str) -> Result<TaskId, IdError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        match text.as_bytes() {
            [] => Err(IdError::Empty),
            bytes if bytes.len() > ID_BYTES_MAX => Err(IdError::TooLong(bytes.len())),
            [first, rest @ ..]
                if first.is_ascii_alphanumeric() && rest.iter().all(|byte| plain(*byte)) =>
            {
                Ok(TaskId(text.into()))
            }
            _ => Err(IdError::Characters(kron_core::finding::excerpt(text))),
        }
    }

    /// The id of the task in the file of this name.
    ///
    /// # Errors
    /// When it cannot be one; `None` when the name does not end in `.json`.
    pub(crate) fn of_file(name: &str) -> Result<Option<TaskId>, IdError> {
        name.strip_suffix(SUFFIX).map(TaskId::new).transpose()
    }

    /// What its file is called.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{self}{SUFFIX}")
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TaskId {
    type Error = IdError;

    fn try_from(text: String) -> Result<TaskId, IdError> {
        TaskId::new(&text)
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> String {
        id.0.into()
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The id of the task that a period of a job yields, the same whenever it is asked for.
///
/// # Errors
/// When the period's id has something in it that no id may have.
pub fn scheduled_id(identity: &str, period_id: &str) -> Result<TaskId, IdError> {
    let mut text: String = Sha256::digest(identity.as_bytes())
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(IDENTITY_DIGITS)
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect();
    text.push('-');
    // A run by hand has a `/` in its period.
    text.extend(period_id.chars().filter(|c| *c != ':').map(|c| if c == '/' { '-' } else { c }));
    TaskId::new(&text)
}

/// Makes ids that sort in the order in which they were made: UUIDs of version 7.
#[derive(Debug, Default)]
pub struct IdSource {
    /// The last one's milliseconds and count within them.
    last: AtomicU64,
}

/// Bits of an id that count within a millisecond.
const COUNT_BITS: u32 = 12;

impl IdSource {
    /// A new id. Within one millisecond, and while a clock that went back catches up, it counts.
    ///
    /// # Errors
    /// When the kernel has no random bytes.
    pub fn next(&self, now: Timestamp) -> std::io::Result<TaskId> {
        let now = u64::try_from(now.unix_ms()).unwrap_or(0) << COUNT_BITS;
        let step = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
        let mine = last.map_or(now, |last| now.max(last + 1));
        let mut bytes: [u8; 10] = random()?;
        let count = (mine & ((1 << COUNT_BITS) - 1)) as u16;
        bytes[..2].copy_from_slice(&count.to_be_bytes());
        let id = uuid::Builder::from_unix_timestamp_millis(mine >> COUNT_BITS, &bytes).into_uuid();
        Ok(TaskId(Uuid::hyphenated(id).to_string().into()))
    }
}

/// Random bytes of the kernel's.
pub(crate) fn random<const BYTES: usize>() -> std::io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let fill = || rustix::rand::getrandom(&mut bytes[filled..], flags);
        filled += rustix::io::retry_on_intr(fill)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_ids() {
        for good in ["task-123", "a", "7", "A.b_c-d", &"x".repeat(ID_BYTES_MAX)] {
            assert_eq!(TaskId::new(good).unwrap().file_name(), format!("{good}.json"));
        }
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for bad in [
            "", ".", "..", ".hidden", "-rf", "_x", "a/b", "../x", "a b", "a\n", "é", "a\0", "a:b",
            "a*", &long,
        ] {
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_period_has_one_task_id() {
        let id = scheduled_id("db-backup", "2026-01-06T10:15:30Z").unwrap();
        // The first digits of `printf db-backup | sha256sum`.
        assert_eq!(id.as_str(), "83c002043515eadc-2026-01-06T101530Z");
        assert!(scheduled_id("x", "manual/2026-01-06T10:15:30Z-9f").is_ok());
    }

    #[test]
    fn ids_sort_in_the_order_they_were_made() {
        let source = IdSource::default();
        let at = |ms| Timestamp::from_unix_ms(ms).unwrap();
        let times = [5_000, 5_000, 5_000, 4_000, 6_000];
        let ids: Vec<TaskId> = times.iter().map(|ms| source.next(at(*ms)).unwrap()).collect();
        assert!(ids.is_sorted() && ids[0] != ids[1], "{ids:?}");
        let many: Vec<TaskId> = (0..10_000).map(|_| source.next(at(7_000)).unwrap()).collect();
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
