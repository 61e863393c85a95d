//! Random numbers that a seed repeats, and numbers that the environment sets.

/// A number from the environment, or the usual one.
///
/// # Panics
///
/// If the variable is set to anything but a number.
#[expect(clippy::disallowed_methods, reason = "the one place that reads them")]
pub fn number(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("`{variable}` is not a number: `{text}`"))
        }
        Err(_) => usual,
    }
}

/// Random numbers (SplitMix64); the same seed gives the same numbers.
#[derive(Debug)]
pub struct Seeded(pub u64);

impl Seeded {
    /// A number below this bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// A count, or an index of a list, below this bound.
    pub fn index_below(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// One of these; `None` if there are none. It takes one number either way.
    pub fn one_of<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let at = self.index_below(items.len().max(1));
        items.get(at).cloned()
    }
}

#[test]
fn a_seed_gives_the_numbers_of_splitmix64() {
    // The first outputs of the reference implementation for the seed 1234567.
    let mut seeded = Seeded(1_234_567);
    let numbers = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    assert_eq!(numbers.map(|_| seeded.below(u64::MAX)), numbers);
}

/// Whether `KRON_CRASH_SUBSET` leaves a point of this name, such as `sync:3`: each of its words is
/// what the name of a point may start with. Unset or empty, it leaves all of them.
pub fn is_selected(point: &str) -> bool {
    is_selected_from(&subset(), point)
}

/// Whether `KRON_CRASH_SUBSET` may leave a point whose name begins like this, such as `sync:`.
pub fn may_be_selected(prefix: &str) -> bool {
    may_be_selected_from(&subset(), prefix)
}

/// Whether `KRON_CRASH_SUBSET` chooses points: then from all of them, also where the suite plays only
/// some.
pub fn has_subset() -> bool {
    !subset().is_empty()
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
fn subset() -> String {
    std::env::var("KRON_CRASH_SUBSET").unwrap_or_default()
}

fn is_selected_from(subset: &str, point: &str) -> bool {
    subset.is_empty() || subset.split(',').any(|word| point.starts_with(word))
}

fn may_be_selected_from(subset: &str, prefix: &str) -> bool {
    let may_be = |word: &str| prefix.starts_with(word) || word.starts_with(prefix);
    subset.is_empty() || subset.split(',').any(may_be)
}

#[test]
fn a_subset_selects_points_by_how_their_names_begin() {
    for (subset, selected) in [
        ("", &["sync:fsync:1", "loop:recvfrom:2"][..]),
        ("sync:fsync", &["sync:fsync:1"]),
        ("sync:fsync:2,loop", &["loop:recvfrom:2"]),
        ("outlives", &[]),
    ] {
        let points = ["sync:fsync:1", "loop:recvfrom:2"];
        let of_subset = points.into_iter().filter(|point| is_selected_from(subset, point));
        assert_eq!(of_subset.collect::<Vec<_>>(), selected, "{subset}");
    }
    for (subset, may_be) in [("", true), ("sync:fsync:2,loop", true), ("s", true), ("loop", false)]
    {
        assert_eq!(may_be_selected_from(subset, "sync:"), may_be, "{subset}");
    }
}
