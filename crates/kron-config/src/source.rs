//! A text with a name, and places in it.

use std::ops::Range;
use std::sync::Arc;

/// Bytes one source may have; they are counted in 32 bits.
pub(crate) const SOURCE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A named text.
#[derive(Clone, Debug)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// The byte each line begins at.
    line_starts: Arc<Vec<u32>>,
}

/// A place in a source, for people: both counts start at 1, columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The source's name, usually a path.
    pub file: Arc<str>,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Source {
    /// A source called `name`. What lies beyond 64 MiB is left out; [`crate::files::read`] refuses
    /// such files. A byte order mark is an editor's, not a part of the text.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Source {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = &text[..floor_boundary(text, text.len().min(SOURCE_BYTES_MAX))];
        // Counted first, so that a file of ten million empty lines costs no more than it must.
        let ends = || (1u32..).zip(text.bytes()).filter(|(_, byte)| *byte == b'\n');
        let mut line_starts = Vec::with_capacity(ends().count() + 1);
        line_starts.push(0);
        line_starts.extend(ends().map(|(after, _)| after));
        Source { name: name.into(), text: text.into(), line_starts: Arc::new(line_starts) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The index of the line that byte `at` is on, from 0.
    pub(crate) fn line_index(&self, at: usize) -> usize {
        self.line_starts.partition_point(|&start| start as usize <= at).saturating_sub(1)
    }

    /// The bytes of a line without its end.
    pub(crate) fn line_range(&self, index: usize) -> Range<usize> {
        let start = self.line_starts[index] as usize;
        let end =
            self.line_starts.get(index + 1).map_or(self.text.len(), |&next| next as usize - 1);
        let end = if self.text[start..end].ends_with('\r') { end - 1 } else { end };
        start..end.max(start)
    }

    /// How many lines there are.
    pub(crate) fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// The place of byte `at`.
    #[must_use]
    pub fn location(&self, at: usize) -> Location {
        let index = self.line_index(at);
        let start = self.line_starts[index] as usize;
        let at = floor_boundary(&self.text, at.min(self.text.len()));
        let column = self.text[start..at.max(start)].chars().count() + 1;
        Location { file: self.name.clone(), line: index + 1, column }
    }
}

/// The nearest character boundary at or before `at`.
pub(crate) fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let source = Source::new("x", "ab\r\nçd\n\nend");
        let at = |byte| {
            let location = source.location(byte);
            (location.line, location.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(4), (2, 1));
        assert_eq!(at(6), (2, 2));
        assert_eq!(at(8), (3, 1));
        assert_eq!(at(9), (4, 1));
        assert_eq!(at(999), (4, 4));
        assert_eq!(source.line_range(0), 0..2);
        assert_eq!(source.line_count(), 4);
    }
}
