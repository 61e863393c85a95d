//! Ids as people read and type them.
//!
//! An id is 32 hexadecimal digits, of which the first tell the time: ids that were made at about
//! the same time begin alike, and differ at their ends, which are random. So tables show the last
//! digits, and both ends are understood.

/// The digits that are shown at least.
const SHOWN_DIGITS_MIN: usize = 8;
/// The digits of a whole id.
const DIGITS: usize = 32;
/// The digits that mean an id at least; fewer are too easily mistyped.
pub(crate) const PART_DIGITS_MIN: usize = 4;

/// An end of an id that says which is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part(String);

impl Part {
    /// The digits of a text, with or without the dashes of an id.
    pub(crate) fn of(text: &str) -> Option<Part> {
        let digits: String = text.chars().filter(|&letter| letter != '-').collect();
        let is_part = (PART_DIGITS_MIN..DIGITS).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_part.then(|| Part(digits.to_ascii_lowercase()))
    }

    /// Whether an id begins or ends so.
    pub(crate) fn means(&self, id: &impl ToString) -> bool {
        let digits = digits(id);
        digits.starts_with(&self.0) || digits.ends_with(&self.0)
    }

    pub(crate) fn digit_count(&self) -> usize {
        self.0.len()
    }
}

fn digits(id: &impl ToString) -> String {
    id.to_string().replace('-', "")
}

/// How many digits tell the ids of a table apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    digit_count: usize,
}

impl Short {
    /// As many digits as these ids need.
    pub(crate) fn among<I: ToString>(ids: impl IntoIterator<Item = I>) -> Short {
        let mut all: Vec<String> = ids.into_iter().map(|id| digits(&id)).collect();
        all.sort_unstable();
        all.dedup();
        let differ = |digit_count: &usize| {
            let mut ends: Vec<&str> = all.iter().map(|id| end(id, *digit_count)).collect();
            ends.sort_unstable();
            ends.windows(2).all(|pair| pair[0] != pair[1])
        };
        let digit_count = (SHOWN_DIGITS_MIN..DIGITS).find(differ).unwrap_or(DIGITS);
        Short { digit_count }
    }

    /// An id of the table.
    pub(crate) fn of(self, id: &impl ToString) -> String {
        end(&digits(id), self.digit_count).to_owned()
    }
}

/// An id on its own, where others need not be told apart from it.
pub(crate) fn short(id: &impl ToString) -> String {
    Short { digit_count: SHOWN_DIGITS_MIN }.of(id)
}

fn end(id: &str, digit_count: usize) -> &str {
    // What is no id is shown as it is.
    id.len().checked_sub(digit_count).and_then(|at| id.get(at..)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0198c5d1-7a10-7000-8c3f-5f215f21c09a";
    const B: &str = "0198c5d1-7a10-7001-8c3f-5f225f21c09a";

    #[test]
    fn both_ends_are_understood_and_nothing_else() {
        for text in ["0198", "0198C5D1-7a", "c09a", "5f215f21C09A", "3f-5f215f21c09a"] {
            assert!(Part::of(text).expect(text).means(&A), "{text}");
        }
        for text in ["5f21", "c5d1", "0198c6", "c09b", "7000"] {
            assert!(!Part::of(text).expect(text).means(&A), "{text}");
        }
        for text in ["", "09a", "---", "nightly", "c09ä", "0x198c", A] {
            assert_eq!(Part::of(text), None, "{text}");
        }
    }

    #[test]
    fn as_many_digits_are_shown_as_are_needed() {
        assert_eq!(Short::among([A]).of(&A), "5f21c09a");
        let both = Short::among([A, B]);
        assert_eq!((both.of(&A).as_str(), both.of(&B).as_str()), ("15f21c09a", "25f21c09a"));
        assert!(Part::of(&both.of(&A)).is_some_and(|part| part.means(&A) && !part.means(&B)));
        assert_eq!(Short::among([A, A]).of(&A), "5f21c09a", "the same twice is no other");
        assert_eq!(short(&"x"), "x");
    }
}
