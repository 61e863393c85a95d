//! A fingerprint of a history: two that differ in anything that was noted differ in it.

use std::fmt::{self, Write as _};

/// Everything that was taken in, in order, as one number.
#[derive(Clone, Debug)]
pub(crate) struct Trace(u64);

impl Default for Trace {
    fn default() -> Trace {
        Trace(0xcbf2_9ce4_8422_2325)
    }
}

impl Trace {
    pub(crate) fn take_in(&mut self, time_ms: u64, what: fmt::Arguments<'_>) {
        self.mix(time_ms);
        // Nothing is ever refused.
        let _ = self.write_fmt(what);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0
    }

    fn mix(&mut self, bits: u64) {
        self.0 = (self.0 ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 29;
    }
}

impl fmt::Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        Ok(())
    }
}
