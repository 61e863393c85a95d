//! What a run is told from outside, and the chances that it takes.

use std::time::Duration;

/// A number that is said from outside, or the usual one.
#[expect(clippy::disallowed_methods, reason = "the one place that reads them")]
pub(super) fn number(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("`{variable}` is not a number: `{text}`"))
        }
        Err(_) => usual,
    }
}

/// Random numbers that a seed repeats.
#[derive(Debug)]
pub(super) struct Seeded(pub(super) u64);

impl Seeded {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    pub(super) fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A time shorter than this.
    pub(super) fn within(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.below(usize::try_from(most.as_millis()).unwrap()) as u64)
    }

    /// All of these in another order.
    pub(super) fn shuffled<T: Copy>(&mut self, items: &[T]) -> Vec<T> {
        let mut left = items.to_vec();
        let mut shuffled = Vec::new();
        while !left.is_empty() {
            shuffled.push(left.swap_remove(self.below(left.len())));
        }
        shuffled
    }
}
