//! What a daemon counts, for whoever watches many of them.
//!
//! Counts begin with the daemon and are kept in memory only; what must outlive it is in the state
//! documents. Every thread may count; nobody waits.

mod queue;
mod spool;

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kron_config::HookEvent;
use kron_state::Change;

use crate::machine::told_as;
pub(crate) use queue::QueueMetrics;
pub(crate) use spool::{SpoolMetrics, write as write_spools};

/// What a daemon has counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    outcomes: [AtomicU64; HookEvent::ALL.len()],
    /// From the chosen second to the command's execution.
    pub(crate) lateness: Histogram<LATENESS>,
    /// One durable write of one job's state.
    pub(crate) state_writes: Histogram<WRITES>,
    /// Attempts to tell hooks that failed.
    pub(crate) hook_failures: AtomicU64,
}

const LATENESS: usize = 14;
const LATENESS_BOUNDS_S: [f64; LATENESS] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0];
const WRITES: usize = 12;
const WRITES_BOUNDS_S: [f64; WRITES] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// How often something took how long.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    /// Those up to each bound and beyond the one before; the last has no bound.
    counts: [AtomicU64; N],
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
    fn observe(&self, bounds_s: &[f64; N], took: Duration) {
        let seconds = took.as_secs_f64();
        let at = bounds_s.iter().position(|bound| seconds <= *bound);
        let count = at.map_or(&self.beyond, |at| &self.counts[at]);
        count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, help: &str, bounds_s: &[f64; N]) -> fmt::Result {
        describe(out, name, help, "histogram")?;
        self.write_labelled(out, name, "", bounds_s)
    }

    /// One series of a histogram; `labels` are as in `a="1",b="2"`, or nothing.
    fn write_labelled(
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

impl Metrics {
    /// A command was executed so long after its chosen second.
    pub(crate) fn executed(&self, late: Duration) {
        self.lateness.observe(&LATENESS_BOUNDS_S, late);
    }

    /// A write of state took so long.
    pub(crate) fn written(&self, took: Duration) {
        self.state_writes.observe(&WRITES_BOUNDS_S, took);
    }

    /// Counts the outcomes that are about to be recorded.
    pub(crate) fn record(&self, changes: &[Change]) {
        for change in changes {
            if let Some((event, count)) = told_as(change) {
                let at = HookEvent::ALL.iter().position(|known| *known == event);
                if let Some(counter) = at.and_then(|at| self.outcomes.get(at)) {
                    counter.fetch_add(count, Ordering::Relaxed);
                }
            }
        }
    }

    /// All of it in the text format of Prometheus.
    pub(crate) fn write(&self, out: &mut String) -> fmt::Result {
        let name = "kron_outcomes_total";
        describe(
            out,
            name,
            "Periods and runs that reached their end, by what became of them.",
            "counter",
        )?;
        for (event, count) in HookEvent::ALL.iter().zip(&self.outcomes) {
            let count = count.load(Ordering::Relaxed);
            writeln!(out, "{name}{{event=\"{}\"}} {count}", event.as_str())?;
        }
        let help = "From the chosen second to the execution of the command.";
        self.lateness.write(out, "kron_start_lateness_seconds", help, &LATENESS_BOUNDS_S)?;
        let help = "One durable write of one job's state.";
        self.state_writes.write(out, "kron_state_write_seconds", help, &WRITES_BOUNDS_S)?;
        let name = "kron_hook_failures_total";
        describe(out, name, "Attempts to tell hooks that failed.", "counter")?;
        writeln!(out, "{name} {}", self.hook_failures.load(Ordering::Relaxed))
    }
}

/// The two lines that stand before a metric.
pub(crate) fn describe(out: &mut String, name: &str, help: &str, kind: &str) -> fmt::Result {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// A label's value as the format wants it.
pub(crate) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_everything_up_to_their_bounds() {
        let metrics = Metrics::default();
        for milliseconds in [5, 10, 11, 900, 4_000_000] {
            metrics.executed(Duration::from_millis(milliseconds));
        }
        let mut text = String::new();
        metrics.write(&mut text).unwrap();
        for line in [
            "kron_start_lateness_seconds_bucket{le=\"0.01\"} 2",
            "kron_start_lateness_seconds_bucket{le=\"0.025\"} 3",
            "kron_start_lateness_seconds_bucket{le=\"1\"} 4",
            "kron_start_lateness_seconds_bucket{le=\"3600\"} 4",
            "kron_start_lateness_seconds_bucket{le=\"+Inf\"} 5",
            "kron_start_lateness_seconds_count 5",
            "kron_start_lateness_seconds_sum 4000.926",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn labels_cannot_end_themselves() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
