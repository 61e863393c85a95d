//! What a daemon counts of its queue, and what the queue itself says.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kron_queue::{Finished, JobState, Statistics, Timestamp};

use super::{Histogram, describe, label};

/// What a daemon has counted of its queue.
#[derive(Debug, Default)]
pub(crate) struct QueueMetrics {
    ended: [AtomicU64; ENDS.len()],
    /// Jobs that were enqueued, retries among them.
    pub(crate) enqueued: AtomicU64,
    /// Runs that were retried.
    retried: AtomicU64,
    /// Runs that were found lost.
    lost: AtomicU64,
    /// Tries of webhooks that failed.
    pub(crate) webhook_failures: AtomicU64,
    waits: Histogram<WAITS>,
    runs: Histogram<RUNS>,
}

/// What can become of a run.
const ENDS: [JobState; 4] =
    [JobState::Completed, JobState::Failed, JobState::Skipped, JobState::Cancelled];
const WAITS: usize = 12;
const WAITS_BOUNDS_S: [f64; WAITS] =
    [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0];
const RUNS: usize = 12;
const RUNS_BOUNDS_S: [f64; RUNS] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0];

impl QueueMetrics {
    /// The end of a run was recorded.
    pub(crate) fn finished(&self, finished: &Finished) {
        let job = &finished.job;
        if let Some(at) = ENDS.iter().position(|end| *end == job.state) {
            self.ended[at].fetch_add(1, Ordering::Relaxed);
        }
        if finished.run.lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        if finished.successor.is_some() {
            self.retried.fetch_add(1, Ordering::Relaxed);
        }
        let started = finished.run.started_at;
        // A delayed job does not wait before its time.
        let ready = job.not_before.unwrap_or(job.queued_at).max(job.queued_at);
        self.waits.observe(&WAITS_BOUNDS_S, between(ready, started));
        if let Some(ended) = finished.run.finished_at {
            self.runs.observe(&RUNS_BOUNDS_S, between(started, ended));
        }
    }

    /// All of it in the text format of Prometheus, with what the queue says.
    pub(crate) fn write(&self, out: &mut String, now: &Statistics) -> fmt::Result {
        let name = "kron_queue_jobs";
        describe(out, name, "Jobs that have not ended, by state.", "gauge")?;
        for (state, count) in [
            (JobState::Queued, now.queued),
            (JobState::Delayed, now.delayed),
            (JobState::Blocked, now.blocked),
            (JobState::Running, now.running),
        ] {
            writeln!(out, "{name}{{state=\"{state}\"}} {count}")?;
        }
        type Value = fn(&kron_queue::TypeStatistics) -> i64;
        let by_type: [(&str, &str, Value); 2] = [
            ("kron_queue_type_queued", "Jobs of a type that may be claimed.", |of| of.queued),
            ("kron_queue_type_running", "Jobs of a type that run.", |of| of.running),
        ];
        for (name, help, value) in by_type {
            describe(out, name, help, "gauge")?;
            for of in &now.types {
                writeln!(out, "{name}{{job_type=\"{}\"}} {}", label(&of.job_type), value(of))?;
            }
        }
        let name = "kron_queue_oldest_queued_timestamp_seconds";
        describe(out, name, "When the oldest job that may be claimed was made.", "gauge")?;
        if let Some(oldest) = now.oldest_queued_at {
            writeln!(out, "{name} {}", oldest.unix_ms() / 1_000)?;
        }
        let name = "kron_queue_webhooks_pending";
        describe(out, name, "Webhooks that are to be delivered.", "gauge")?;
        writeln!(out, "{name} {}", now.deliveries_pending)?;
        let name = "kron_queue_runs_total";
        describe(out, name, "Runs that ended, by how.", "counter")?;
        for (end, count) in ENDS.iter().zip(&self.ended) {
            writeln!(out, "{name}{{state=\"{end}\"}} {}", count.load(Ordering::Relaxed))?;
        }
        for (name, help, count) in [
            ("kron_queue_enqueued_total", "Jobs that were enqueued.", &self.enqueued),
            ("kron_queue_retries_total", "Runs that were retried.", &self.retried),
            ("kron_queue_lost_total", "Runs that were lost to a crash.", &self.lost),
            (
                "kron_queue_webhook_failures_total",
                "Tries of webhooks that failed.",
                &self.webhook_failures,
            ),
        ] {
            describe(out, name, help, "counter")?;
            writeln!(out, "{name} {}", count.load(Ordering::Relaxed))?;
        }
        let help = "From the moment a job could be claimed to its claim.";
        self.waits.write(out, "kron_queue_wait_seconds", help, &WAITS_BOUNDS_S)?;
        let help = "From the claim of a job to its recorded end.";
        self.runs.write(out, "kron_queue_run_seconds", help, &RUNS_BOUNDS_S)
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    let ms = to.unix_ms().saturating_sub(from.unix_ms());
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}
