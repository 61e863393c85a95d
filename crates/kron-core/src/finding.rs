//! What a parser has to say about a text: errors and warnings with their place.
//!
//! Every parser in this crate reports through [`Finding`], so that a caller can show all errors
//! of a line at once and point at the exact byte. A finding never quotes more of the input than
//! a short excerpt, so hostile input cannot make a message large.

use std::fmt;
use std::ops::Range;

/// The eight kinds of error every part of Kron uses.
///
/// The category is decided where the error arises; only the edges (a command's exit code, an
/// HTTP status, a condition on a resource) translate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// The text is not well formed, names something unknown, or lacks something required.
    Configuration,
    /// The text is well formed but asks for something that is not allowed.
    Validation,
    /// A decision could not be computed.
    Scheduling,
    /// A constraint could not be evaluated.
    Constraint,
    /// A process could not be started, or failed.
    Execution,
    /// State could not be read or written.
    Persistence,
    /// The operating system refused something.
    System,
    /// Recorded state has a version or shape this build does not know.
    IncompatibleState,
}

impl Category {
    /// The name used in logs and in JSON, such as `ConfigurationError`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Category::Configuration => "ConfigurationError",
            Category::Validation => "ValidationError",
            Category::Scheduling => "SchedulingError",
            Category::Constraint => "ConstraintError",
            Category::Execution => "ExecutionError",
            Category::Persistence => "PersistenceError",
            Category::System => "SystemError",
            Category::IncompatibleState => "IncompatibleStateError",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a [`Finding`] forbids the use of what was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing may be scheduled from this text.
    Error,
    /// Usable, but probably not what was meant.
    Warning,
}

/// One thing wrong, or suspicious, at one place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Error or warning.
    pub severity: Severity,
    /// The kind of error; for a warning, the kind it would be.
    pub category: Category,
    /// The bytes of the parsed text this is about.
    pub span: Range<usize>,
    /// What is wrong: a lowercase fragment with literals in backticks.
    pub message: String,
    /// What to do about it, where there is something to say.
    pub help: Option<String>,
}

impl Finding {
    /// An error of `category` about `span`.
    pub fn error(category: Category, span: Range<usize>, message: impl Into<String>) -> Self {
        Finding { severity: Severity::Error, category, span, message: message.into(), help: None }
    }

    /// A [`Category::Configuration`] error.
    pub fn configuration(span: Range<usize>, message: impl Into<String>) -> Self {
        Self::error(Category::Configuration, span, message)
    }

    /// A [`Category::Validation`] error.
    pub fn validation(span: Range<usize>, message: impl Into<String>) -> Self {
        Self::error(Category::Validation, span, message)
    }

    /// A warning about `span`.
    pub fn warning(span: Range<usize>, message: impl Into<String>) -> Self {
        Finding {
            severity: Severity::Warning,
            category: Category::Validation,
            span,
            message: message.into(),
            help: None,
        }
    }

    /// The same finding with a hint.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same finding with a hint naming the word of `known` nearest to `word`, if one is near;
    /// otherwise `otherwise`.
    #[must_use]
    pub fn nearest<'a>(
        self,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
        otherwise: impl Into<String>,
    ) -> Self {
        match nearest(word, known) {
            Some(near) => self.help(format!("did you mean `{near}`?")),
            None => self.help(otherwise),
        }
    }

    /// Whether this is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Finding {}

/// The word of `known` that is most like `word`, if any is like enough to be a slip.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_CHARS_MAX: usize = 64;
    if word.is_empty() || word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, candidate)| candidate)
}

/// A short, printable excerpt of untrusted text for use inside a message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    printable(text, 40)
}

/// Another parser's message, which may quote its input at any length, made printable and bounded.
#[must_use]
pub fn foreign_message(message: &str) -> String {
    printable(message, 300)
}

fn printable(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == chars_max {
            shown.push('…');
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A stretch of a larger text that knows where it stands in it.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The text.
    pub text: &'a str,
    /// The byte it begins at.
    pub at: usize,
}

impl<'a> Piece<'a> {
    /// A text of its own.
    #[must_use]
    pub fn whole(text: &'a str) -> Self {
        Piece { text, at: 0 }
    }

    /// The bytes of the larger text it covers.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    /// A part of it; the range must lie on character boundaries.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Piece<'a> {
        Piece { text: &self.text[range.clone()], at: self.at + range.start }
    }

    /// Without blanks at either end.
    #[must_use]
    pub fn trim(&self) -> Piece<'a> {
        let start = self.text.len() - self.text.trim_start().len();
        Piece { text: self.text.trim(), at: self.at + start }
    }

    /// Without blanks at its start.
    #[must_use]
    pub fn trim_start(&self) -> Piece<'a> {
        let start = self.text.len() - self.text.trim_start().len();
        self.slice(start..self.text.len())
    }

    /// The word it begins with, and what follows the blanks after that.
    #[must_use]
    pub fn split_word(&self) -> (Piece<'a>, Piece<'a>) {
        let end = self.text.find(char::is_whitespace).unwrap_or(self.text.len());
        (self.slice(0..end), self.slice(end..self.text.len()).trim_start())
    }

    pub(crate) fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut at = self.at;
        self.text.split(separator).map(move |text| {
            let piece = Piece { text, at };
            at += text.len() + separator.len_utf8();
            piece
        })
    }

    pub(crate) fn split_once(&self, separator: char) -> Option<(Piece<'a>, Piece<'a>)> {
        let index = self.text.find(separator)?;
        Some((self.slice(0..index), self.slice(index + separator.len_utf8()..self.text.len())))
    }

    /// The text for a message: short and printable.
    pub(crate) fn shown(&self) -> String {
        excerpt(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_slips_and_only_slips() {
        let known = ["after", "around", "before"];
        assert_eq!(nearest("arond", known), Some("around"));
        assert_eq!(nearest("AFTER", known), Some("after"));
        assert_eq!(nearest("xyz", known), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn excerpts_are_short_and_printable() {
        assert_eq!(excerpt("a\nb\u{0}"), "a\\nb\\u{0}");
        assert!(excerpt(&"x".repeat(1000)).chars().count() <= 41);
    }

    #[test]
    fn pieces_keep_their_place() {
        let piece = Piece::whole("  ab, cd ").trim();
        let parts: Vec<_> = piece.split(',').map(|p| p.trim()).collect();
        assert_eq!(parts[0].span(), 2..4);
        assert_eq!(parts[1].span(), 6..8);
    }
}
