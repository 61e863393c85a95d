//! Pages of rows, cut by keys.
//!
//! A page is cut by the key of its last row, not by counting, so that it costs the same wherever it
//! is and rows that come and go do not shift it. It is bounded three ways: in rows, in bytes, and
//! in rows that were looked at and did not match; so a page may be short, or even empty, and still
//! have a next one. Only a page without a next one is the last.

use rusqlite::{Row, Rows};

use crate::error::StoreError;
use crate::limits::{PAGE_BYTES_MAX, PAGE_EXAMINED_MAX};

/// Where a page begins, as an earlier page said. Its text means nothing to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(String);

/// Characters of a cursor that are shown to whoever presented it.
const EXCERPT_CHARS_MAX: usize = 80;

impl Cursor {
    /// A cursor from its text; a text that is none is refused when it is used.
    #[must_use]
    pub fn presented(text: &str) -> Cursor {
        Cursor(text.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A cursor of one kind of list, by the key of a row.
    pub(crate) fn new(kind: char, key: &str) -> Cursor {
        let plain = format!("{kind}{key}");
        Cursor(plain.bytes().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The key, if the cursor is one of this kind of list.
    pub(crate) fn key(&self, kind: char) -> Option<String> {
        // What we made is ASCII, so that a text of another kind cannot be cut in a character.
        if !self.0.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let bytes: Option<Vec<u8>> = self
            .0
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let plain = String::from_utf8(bytes?).ok()?;
        let key = plain.strip_prefix(kind)?.to_owned();
        (Cursor::new(kind, &key) == *self).then_some(key)
    }

    /// Reads the key with `parse`, which refuses what is none.
    pub(crate) fn read<T>(
        after: Option<&Cursor>,
        kind: char,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        after
            .map(|cursor| {
                cursor.key(kind).and_then(|key| parse(&key)).ok_or_else(|| {
                    ReadError::BadCursor(cursor.0.chars().take(EXCERPT_CHARS_MAX).collect())
                })
            })
            .transpose()
    }
}

/// Some rows, and where the next begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The next page; absent at the end.
    pub next: Option<Cursor>,
}

/// Why nothing could be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The cursor is none of ours, or of another list.
    #[error("`{0}` is not a cursor of this list")]
    BadCursor(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReadError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ReadError::BadCursor(_) => "bad-cursor",
            ReadError::Store(error) => error.code(),
        }
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> ReadError {
        ReadError::Store(error.into())
    }
}

/// A row that is wanted, and how many bytes of it can be large.
pub(crate) struct Found<T> {
    pub(crate) item: T,
    pub(crate) bytes: usize,
}

/// Collects a page from rows, which may come from several statements.
pub(crate) struct Walk<T> {
    items: Vec<T>,
    rows_max: usize,
    bytes: usize,
    examined: usize,
    key: Option<Cursor>,
    more: bool,
}

impl<T> Walk<T> {
    pub(crate) fn new(rows_max: usize) -> Walk<T> {
        Walk { items: Vec::new(), rows_max, bytes: 0, examined: 0, key: None, more: false }
    }

    /// Takes rows until there are no more or the page is full. `found` gives what is wanted of a
    /// row, `key` gives the place of every row.
    pub(crate) fn take(
        &mut self,
        rows: &mut Rows<'_>,
        found: impl Fn(&Row<'_>) -> rusqlite::Result<Option<Found<T>>>,
        key: impl Fn(&Row<'_>) -> rusqlite::Result<Cursor>,
    ) -> rusqlite::Result<()> {
        while !self.more {
            let Some(row) = rows.next()? else { return Ok(()) };
            if self.items.len() >= self.rows_max
                || self.bytes >= PAGE_BYTES_MAX
                || self.examined >= PAGE_EXAMINED_MAX
            {
                self.more = true;
                return Ok(());
            }
            self.examined += 1;
            self.key = Some(key(row)?);
            if let Some(Found { item, bytes }) = found(row)? {
                self.items.push(item);
                self.bytes += bytes;
            }
        }
        Ok(())
    }

    pub(crate) fn page(self) -> Page<T> {
        Page { items: self.items, next: self.key.filter(|_| self.more) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_by_its_own_kind_of_list_only() {
        let cursor = Cursor::new('s', "12");
        assert_eq!(cursor.key('s').as_deref(), Some("12"));
        assert_eq!(cursor.key('o'), None);
        for wrong in ["", "s12", "7", "7g", "73é", "ff31", "7331 ", "73 1", "7A"] {
            assert_eq!(Cursor::presented(wrong).key('s'), None, "{wrong}");
        }
    }
}
