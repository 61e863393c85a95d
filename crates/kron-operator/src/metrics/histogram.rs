//! How often something took how long.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts between bounds that whoever uses it keeps.
#[derive(Debug)]
pub(super) struct Histogram<const N: usize> {
    /// Those up to each bound and beyond the one before.
    counts: [AtomicU64; N],
    /// Those beyond the last.
    beyond: AtomicU64,
    sum_us: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Histogram<N> {
        Histogram {
            counts: [const { AtomicU64::new(0) }; N],
            beyond: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Histogram<N> {
    pub(super) fn observe(&self, bounds_s: &[f64; N], took: Duration) {
        let seconds = took.as_secs_f64();
        let at = bounds_s.iter().position(|bound| seconds <= *bound);
        let count = at.map_or(&self.beyond, |at| &self.counts[at]);
        count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().chain([&self.beyond]).all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// One series of it; `labels` are as in `a="1",b="2"`, or nothing.
    pub(super) fn write(
        &self,
        out: &mut String,
        name: &str,
        labels: &str,
        bounds_s: &[f64; N],
    ) -> fmt::Result {
        let (before, alone) = match labels {
            "" => (String::new(), String::new()),
            labels => (format!("{labels},"), format!("{{{labels}}}")),
        };
        let mut total = 0;
        for (bound, count) in bounds_s.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            writeln!(out, "{name}_bucket{{{before}le=\"{bound}\"}} {total}")?;
        }
        total += self.beyond.load(Ordering::Relaxed);
        writeln!(out, "{name}_bucket{{{before}le=\"+Inf\"}} {total}")?;
        let sum_s = Duration::from_micros(self.sum_us.load(Ordering::Relaxed)).as_secs_f64();
        writeln!(out, "{name}_sum{alone} {sum_s}\n{name}_count{alone} {total}")
    }
}
