//! Pieces of text with their colours, measured in the columns of a terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How a table is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Whether terminals are told colours.
    pub(crate) colours: bool,
    /// Whether our own marks keep to ASCII.
    pub(crate) ascii: bool,
    /// The columns there are; `None` when it does not matter.
    pub(crate) width: Option<usize>,
}

/// What a text is like; the colour follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Doubtful,
    Busy,
}

impl Paint {
    /// The parameter of the terminal's sequence.
    const fn code(self) -> Option<&'static str> {
        match self {
            Paint::Plain => None,
            Paint::Strong => Some("1"),
            Paint::Faint => Some("2"),
            Paint::Good => Some("32"),
            Paint::Bad => Some("31"),
            Paint::Doubtful => Some("33"),
            Paint::Busy => Some("36"),
        }
    }
}

/// Text in its colours.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    spans: Vec<(String, Paint)>,
}

impl Cell {
    pub(crate) fn empty() -> Cell {
        Cell { spans: Vec::new() }
    }

    pub(crate) fn of(text: &str, paint: Paint) -> Cell {
        let mut cell = Cell::empty();
        cell.push(text, paint);
        cell
    }

    pub(crate) fn push(&mut self, text: &str, paint: Paint) {
        self.spans.push((harmless(text), paint));
    }

    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|(text, _)| text.width()).sum()
    }

    /// The cell in at most `width` columns; what does not fit ends in an ellipsis.
    pub(crate) fn cut(&self, width: usize, style: &Style) -> Cell {
        if self.width() <= width {
            return self.clone();
        }
        let ellipsis = if style.ascii { "~" } else { "…" };
        let mut room = width.saturating_sub(1);
        let mut cut = Cell::empty();
        for (text, paint) in &self.spans {
            let fitting = prefix(text, room);
            room -= fitting.width();
            cut.spans.push((fitting.to_owned(), *paint));
            if fitting.len() < text.len() {
                break;
            }
        }
        if width > 0
            && let Some((text, _)) = cut.spans.last_mut()
        {
            text.push_str(ellipsis);
        }
        cut
    }

    pub(crate) fn write(&self, line: &mut String, style: &Style) {
        for (text, paint) in &self.spans {
            line.push_str(&painted(text, *paint, style));
        }
    }
}

/// A text as one line that fits, with an ellipsis when it would not.
pub(crate) fn shortened(text: &str, style: &Style) -> String {
    let cell = Cell::of(text, Paint::Plain);
    let mut line = String::new();
    cell.cut(style.width.unwrap_or(usize::MAX), style).write(&mut line, &Style::default());
    line
}

/// A text in its colour, where there are colours.
pub(crate) fn painted(text: &str, paint: Paint, style: &Style) -> String {
    match paint.code().filter(|_| style.colours && !text.is_empty()) {
        Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
        None => text.to_owned(),
    }
}

/// As much of a text as fits.
fn prefix(text: &str, room: usize) -> &str {
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        used += letter.width().unwrap_or(0);
        if used > room {
            return &text[..at];
        }
    }
    text
}

/// A text without what a terminal would obey.
fn harmless(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
