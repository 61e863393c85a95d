//! The interval around a nominal time in which a chosen time may lie.

use std::fmt;

use crate::duration::Seconds;
use crate::finding::Finding;
use crate::time::UtcSecond;

/// On which side of the nominal time the window lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowMode {
    /// From the nominal time on.
    #[default]
    After,
    /// Half before, half after; an odd second goes before.
    Around,
    /// Up to the nominal time.
    Before,
}

impl WindowMode {
    /// The word used in `@win(…)` and in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            WindowMode::After => "after",
            WindowMode::Around => "around",
            WindowMode::Before => "before",
        }
    }

    pub(crate) const WORDS: [(&'static str, WindowMode); 3] = [
        ("after", WindowMode::After),
        ("around", WindowMode::Around),
        ("before", WindowMode::Before),
    ];
}

impl fmt::Display for WindowMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A window's mode and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Window {
    mode: WindowMode,
    length: Seconds,
}

impl Window {
    /// The longest window.
    pub const LENGTH_MAX: Seconds = Seconds::new(366 * 86_400);

    /// A window of `length` on the side `mode` says.
    ///
    /// # Errors
    /// A validation error when it is longer than [`Window::LENGTH_MAX`].
    pub fn new(mode: WindowMode, length: Seconds) -> Result<Window, Finding> {
        if length > Self::LENGTH_MAX {
            return Err(Finding::validation(0..0, format!("a window of {length} is too long"))
                .help(format!("the longest window is {}", Self::LENGTH_MAX)));
        }
        Ok(Window { mode, length })
    }

    /// The side.
    #[must_use]
    pub fn mode(self) -> WindowMode {
        self.mode
    }

    /// The length in seconds; the window has one second more, since both ends belong to it.
    #[must_use]
    pub fn length(self) -> Seconds {
        self.length
    }

    /// How far before the nominal time the window begins.
    #[must_use]
    pub fn lead(self) -> Seconds {
        match self.mode {
            WindowMode::After => Seconds::ZERO,
            WindowMode::Around => Seconds::new(self.length.get().div_ceil(2)),
            WindowMode::Before => self.length,
        }
    }

    /// First and last second of the window of `nominal`, both included; `None` when one of them
    /// lies outside years 1 to 9999.
    #[must_use]
    pub fn bounds(self, nominal: UtcSecond) -> Option<(UtcSecond, UtcSecond)> {
        let start = nominal.checked_add(-self.lead().get_signed())?;
        let end = start.checked_add(self.length.get_signed())?;
        Some((start, end))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mode, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: WindowMode, length: u64, start: &str, end: &str) {
        let window = Window::new(mode, Seconds::new(length)).unwrap();
        let (from, to) = window.bounds("2026-03-01T00:00:00Z".parse().unwrap()).unwrap();
        assert_eq!((from.to_string().as_str(), to.to_string().as_str()), (start, end));
        assert_eq!(to.since(from), length as i64);
    }

    #[test]
    fn windows_lie_on_their_side_and_have_exactly_their_length() {
        check(WindowMode::After, 3_600, "2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z");
        check(WindowMode::Around, 3_600, "2026-02-28T23:30:00Z", "2026-03-01T00:30:00Z");
        check(WindowMode::Around, 5, "2026-02-28T23:59:57Z", "2026-03-01T00:00:02Z");
        check(WindowMode::Around, 1, "2026-02-28T23:59:59Z", "2026-03-01T00:00:00Z");
        check(WindowMode::Before, 60, "2026-02-28T23:59:00Z", "2026-03-01T00:00:00Z");
        check(WindowMode::After, 0, "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z");
    }

    #[test]
    fn a_window_ends_where_years_end() {
        let window = Window::new(WindowMode::After, Seconds::new(2)).unwrap();
        assert!(window.bounds("9999-12-31T23:59:57Z".parse().unwrap()).is_some());
        assert!(window.bounds("9999-12-31T23:59:58Z".parse().unwrap()).is_none());
        assert!(Window::new(WindowMode::After, Seconds::new(366 * 86_400 + 1)).is_err());
    }
}
