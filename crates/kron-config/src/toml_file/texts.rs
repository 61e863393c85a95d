//! Where the contents of strings stand in the file.

use std::cell::OnceCell;
use std::ops::Range;

use kron_core::Piece;
use toml::Spanned;
use toml::de::DeValue;

/// The contents of strings, whose bytes are not where they are in the file: quotes, escapes and
/// ends of lines come between. Each content is given places of its own, behind the end of the file,
/// and what was found there is moved to the file afterwards.
pub(super) struct Texts<'v> {
    next: usize,
    known: Vec<Content<'v>>,
}

struct Content<'v> {
    /// The place that stands for its first byte.
    start: usize,
    text: &'v str,
    /// The string as written, with its quotes.
    written: Range<usize>,
    offsets: OnceCell<Vec<u32>>,
}

impl<'v> Texts<'v> {
    pub(super) fn from(next: usize) -> Texts<'v> {
        Texts { next, known: Vec::new() }
    }

    /// The content of the string `value`.
    pub(super) fn piece(&mut self, value: &Spanned<DeValue<'_>>, text: &'v str) -> Piece<'v> {
        let start = self.next;
        self.next += text.len() + 1;
        let content = Content { start, text, written: value.span(), offsets: OnceCell::new() };
        self.known.push(content);
        Piece { text, at: start }
    }

    /// The place in `file` of what was found at `span`.
    pub(super) fn place(&self, file: &str, span: Range<usize>) -> Range<usize> {
        let index = self.known.partition_point(|content| content.start <= span.start);
        let Some(content) = index.checked_sub(1).map(|index| &self.known[index]) else {
            return span;
        };
        let Content { start, text, written, offsets } = content;
        let offsets = offsets
            .get_or_init(|| raw_offsets(file.get(written.clone()).unwrap_or_default(), text));
        let place = |at: usize| {
            let offset = offsets.get(at - start).or(offsets.last());
            written.start + offset.map_or(0, |&offset| offset as usize)
        };
        place(span.start)..place(span.end)
    }
}

/// For every byte of a string's content, and for its end, the byte of the string as written.
fn raw_offsets(raw: &str, content: &str) -> Vec<u32> {
    let multiline = raw.starts_with("\"\"\"") || raw.starts_with("'''");
    let mut at = if multiline { 3 } else { 1 };
    let rest = raw.get(at..).unwrap_or("");
    if multiline && rest.starts_with(['\r', '\n']) {
        at += if rest.starts_with("\r\n") { 2 } else { 1 };
    }
    let mut offsets = Vec::with_capacity(content.len() + 1);
    for character in content.chars() {
        let mut rest = raw.get(at..).unwrap_or("");
        // A backslash before the end of a line takes all blanks up to the next word with it.
        while let Some(after) = rest.strip_prefix('\\').filter(|_| raw.starts_with('"'))
            && after.starts_with([' ', '\t', '\r', '\n'])
        {
            rest = after.trim_start();
            at = raw.len() - rest.len();
        }
        offsets.extend(std::iter::repeat_n(at as u32, character.len_utf8()));
        at += match rest.as_bytes() {
            [b'\\', kind, ..] if raw.starts_with('"') => match kind {
                b'x' => 4,
                b'u' => 6,
                b'U' => 10,
                _ => 2,
            },
            [b'\r', b'\n', ..] if character == '\n' => 2,
            _ => character.len_utf8(),
        };
    }
    offsets.push(at.min(raw.len()) as u32);
    offsets
}
