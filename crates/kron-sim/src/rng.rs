//! Random numbers that a seed repeats.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of `0..n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    /// One of `from..=to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// One of `from..=to`, each order of magnitude alike. `from` is not 0.
    pub(crate) fn of_any_size(&mut self, from: u64, to: u64) -> u64 {
        let power = self.between(u64::from(from.ilog2()), u64::from(to.max(from).ilog2()));
        let (low, high) = (1 << power, (1 << power) * 2 - 1);
        self.between(low, high).clamp(from, to.max(from))
    }

    /// Whether something with a chance of one in `n` happens.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}
