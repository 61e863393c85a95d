//! A finding in its file: what people see when something is wrong.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use kron_core::{Category, Finding, Severity};

use crate::source::{Location, Source, floor_boundary};

/// Characters of a line that are shown; of a longer one, the stretch around the fault.
const SHOWN_BYTES_MAX: usize = 160;

/// One fault or doubt, with its place and the line it stands on. It keeps a bounded excerpt, not
/// the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The kind of error.
    pub category: Category,
    /// Where, when it is about a place.
    pub location: Option<Location>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The line, or the stretch of it around the fault.
    excerpt: String,
    /// The bytes of the excerpt this is about.
    marked: Range<usize>,
}

impl Diagnostic {
    /// A finding about `source`.
    #[must_use]
    pub fn in_source(source: &Source, finding: Finding) -> Diagnostic {
        Diagnostic::hiding(source, finding, &[])
    }

    /// A finding about `source` that shows none of the `hidden` bytes, which are ranges in order.
    pub(crate) fn hiding(source: &Source, finding: Finding, hidden: &[Range<usize>]) -> Diagnostic {
        let text = source.text();
        let start = floor_boundary(text, finding.span.start.min(text.len()));
        let line = source.line_range(source.line_index(start));
        let end = floor_boundary(text, finding.span.end.min(line.end)).max(start);
        let mut shown = line.clone();
        if shown.len() > SHOWN_BYTES_MAX {
            shown.start =
                floor_boundary(text, start.saturating_sub(SHOWN_BYTES_MAX / 2).max(line.start));
            shown.end = floor_boundary(text, (shown.start + SHOWN_BYTES_MAX).min(line.end));
        }
        let end = end.min(shown.end.max(start));
        let shown = shown.start.min(start)..shown.end.max(start);
        let marked = start - shown.start..end - shown.start;
        Diagnostic {
            severity: finding.severity,
            category: finding.category,
            location: Some(source.location(start)),
            message: finding.message,
            help: finding.help,
            excerpt: without(&printable(&text[shown.clone()]), &shown, hidden),
            marked,
        }
    }

    /// A finding about no place in particular.
    #[must_use]
    pub fn without_place(finding: Finding) -> Diagnostic {
        Diagnostic {
            severity: finding.severity,
            category: finding.category,
            location: None,
            message: finding.message,
            help: finding.help,
            excerpt: String::new(),
            marked: 0..0,
        }
    }

    /// A finding about the thing defined at `location`.
    #[must_use]
    pub fn at(location: &Location, finding: Finding) -> Diagnostic {
        Diagnostic { location: Some(location.clone()), ..Diagnostic::without_place(finding) }
    }

    /// Whether the excerpt begins where its line begins.
    fn shown_from_start(&self, location: &Location) -> bool {
        self.excerpt[..self.marked.start].chars().count() + 1 == location.column
    }

    /// Whether this is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

fn origin(location: &Location) -> Origin<'_> {
    Origin::path(printable_path(location)).line(location.line).char_column(location.column)
}

/// The text without what a terminal would obey and the renderer lets through; as long in bytes.
fn printable(text: &str) -> String {
    text.replace(|c: char| ('\u{80}'..='\u{9f}').contains(&c), "·")
}

/// The text, which stands at `shown`, with stars for the `hidden` bytes, which are in order; nothing
/// when all of it is hidden.
fn without(text: &str, shown: &Range<usize>, hidden: &[Range<usize>]) -> String {
    let first = hidden.partition_point(|range| range.end <= shown.start);
    let last = hidden.partition_point(|range| range.start < shown.end);
    let hidden = hidden.get(first..last).unwrap_or_default();
    let is_hidden = |at: usize| hidden.iter().any(|range| range.contains(&(shown.start + at)));
    let mut kept = String::with_capacity(text.len());
    let mut is_open = hidden.is_empty();
    for (at, character) in text.char_indices() {
        if is_hidden(at) {
            kept.extend(std::iter::repeat_n('*', character.len_utf8()));
        } else {
            kept.push(character);
            is_open |= !character.is_whitespace();
        }
    }
    if is_open { kept } else { String::new() }
}

/// The file's name without what a terminal would obey.
fn printable_path(location: &Location) -> String {
    location.file.replace(char::is_control, "·")
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(self.message.as_str());
        let mut group = match &self.location {
            None => Group::with_title(title),
            Some(location) if self.excerpt.is_empty() => title.element(origin(location)),
            Some(location) => {
                let snippet = Snippet::source(self.excerpt.as_str())
                    .line_start(location.line)
                    .annotation(AnnotationKind::Primary.span(self.marked.clone()));
                if self.shown_from_start(location) {
                    title.element(snippet.path(printable_path(location)))
                } else {
                    // The renderer counts the column in what it shows, which is not all.
                    title.element(origin(location)).element(snippet)
                }
            }
        };
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        f.write_str(&Renderer::plain().render(&[group]))
    }
}
