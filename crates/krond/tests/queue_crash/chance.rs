//! What a run of a crash test is told from outside, and the chances that it takes. Tests of spools use it too.

/// A number that is said from outside, or the usual one.
#[expect(clippy::disallowed_methods, reason = "the one place that reads them")]
pub(crate) fn number(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("`{variable}` is not a number: `{text}`"))
        }
        Err(_) => usual,
    }
}

/// Whether `KRON_CRASH_SUBSET` leaves a point of this name, such as `sync:3`: each of its words is
/// what the name of a point may start with. Unset or empty, it leaves all of them.
#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
pub(crate) fn is_selected(point: &str) -> bool {
    let subset = std::env::var("KRON_CRASH_SUBSET").unwrap_or_default();
    subset.is_empty() || subset.split(',').any(|word| point.starts_with(word))
}

/// Random numbers that a seed repeats.
#[derive(Debug)]
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    pub(crate) fn one_of<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let at = self.below(items.len().max(1) as u64);
        items.get(at as usize).cloned()
    }
}
