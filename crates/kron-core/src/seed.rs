//! From a job and a period to a stream of numbers, the same on every machine and for ever.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::civil::Date;
use crate::time::{UtcSecond, put};
use crate::zone::Zone;

/// What a job's random numbers are renewed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SeedStrategy {
    /// Every period has its own.
    #[default]
    Stable,
    /// All periods of one day, in the job's zone, share theirs.
    Daily,
    /// All periods of one ISO week, in the job's zone, share theirs.
    Weekly,
    /// The job has one, for ever.
    Fixed,
}

impl SeedStrategy {
    /// The word used in `@seed(…)` and in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SeedStrategy::Stable => "stable",
            SeedStrategy::Daily => "daily",
            SeedStrategy::Weekly => "weekly",
            SeedStrategy::Fixed => "fixed",
        }
    }

    pub(crate) const WORDS: [(&'static str, SeedStrategy); 4] = [
        ("stable", SeedStrategy::Stable),
        ("daily", SeedStrategy::Daily),
        ("weekly", SeedStrategy::Weekly),
        ("fixed", SeedStrategy::Fixed),
    ];

    /// The key of the period with this nominal time.
    #[must_use]
    pub fn period_key(self, nominal: UtcSecond, zone: &Zone) -> PeriodKey {
        match self {
            SeedStrategy::Stable => PeriodKey::from_bytes(&nominal.rfc3339()),
            SeedStrategy::Daily => {
                let Date { year, month, day } = zone.wall_at(nominal).date();
                let mut text = *b"0000-00-00";
                put(&mut text[0..4], year as u32);
                put(&mut text[5..7], u32::from(month));
                put(&mut text[8..10], u32::from(day));
                PeriodKey::from_bytes(&text)
            }
            SeedStrategy::Weekly => {
                let (year, week) = zone.wall_at(nominal).date().iso_week();
                let mut text = *b"0000-W00";
                put(&mut text[0..4], year as u32);
                put(&mut text[6..8], u32::from(week));
                PeriodKey::from_bytes(&text)
            }
            SeedStrategy::Fixed => PeriodKey::from_bytes(b"fixed"),
        }
    }
}

impl fmt::Display for SeedStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The part of a seed that changes from period to period.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeriodKey {
    text: [u8; 20],
    length: u8,
}

impl PeriodKey {
    fn from_bytes(bytes: &[u8]) -> PeriodKey {
        let mut text = [0; 20];
        text[..bytes.len()].copy_from_slice(bytes);
        PeriodKey { text, length: bytes.len() as u8 }
    }

    /// The key's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Debug for PeriodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeriodKey({})", self.as_str())
    }
}

impl fmt::Display for PeriodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// SHA-256 of identity, period key and salt, separated by newlines. Prints as lowercase hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeedHash([u8; 32]);

impl SeedHash {
    /// Computes the hash.
    #[must_use]
    pub fn of(identity: &str, period_key: &PeriodKey, salt: &str) -> SeedHash {
        let mut hasher = Sha256::new();
        hasher.update(identity.as_bytes());
        hasher.update(b"\n");
        hasher.update(period_key.as_str().as_bytes());
        hasher.update(b"\n");
        hasher.update(salt.as_bytes());
        SeedHash(hasher.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The digits of a hash.
pub(crate) fn hex(bytes: &[u8; 32]) -> [u8; 64] {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

impl fmt::Display for SeedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(&hex(&self.0)).unwrap_or_default())
    }
}

impl fmt::Debug for SeedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeedHash({self})")
    }
}

/// SplitMix64, started from the first eight bytes of a seed hash.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(hash: &SeedHash) -> Random {
        Random(hash.0.iter().take(8).fold(0, |state, &byte| state << 8 | u64::from(byte)))
    }

    /// The next number in [0, 1), a multiple of 2⁻⁵³.
    pub(crate) fn next_unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_zone_of_the_job() {
        let late = "2026-12-31T23:30:00Z".parse().unwrap();
        let check = |strategy: SeedStrategy, zone: &str, key: &str| {
            let zone = Zone::named(zone).unwrap();
            assert_eq!(strategy.period_key(late, &zone).as_str(), key);
        };
        check(SeedStrategy::Stable, "Europe/Paris", "2026-12-31T23:30:00Z");
        check(SeedStrategy::Daily, "UTC", "2026-12-31");
        check(SeedStrategy::Daily, "Europe/Paris", "2027-01-01");
        check(SeedStrategy::Weekly, "UTC", "2026-W53");
        check(SeedStrategy::Weekly, "Europe/Paris", "2026-W53");
        check(SeedStrategy::Fixed, "UTC", "fixed");
    }

    #[test]
    fn splitmix_gives_its_published_numbers() {
        // The first outputs for seed 1234567, as published with the algorithm.
        let mut random = Random(1_234_567);
        let expected =
            [6_457_827_717_110_365_317u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for value in expected {
            assert_eq!(random.next_unit(), (value >> 11) as f64 / (1u64 << 53) as f64);
        }
    }
}
