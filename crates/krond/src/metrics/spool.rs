//! What a daemon counts of its spools.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use kron_spool::Outcome;

use super::{Histogram, describe, label};
use crate::api::view::SpoolView;
use crate::spool::attendant::Happened;

/// What a daemon has counted of one spool.
#[derive(Debug, Default)]
pub(crate) struct SpoolMetrics {
    ended: [AtomicU64; ENDS.len()],
    retried: AtomicU64,
    lost: AtomicU64,
    set_aside: AtomicU64,
    waits: Histogram<BOUNDS>,
    runs: Histogram<BOUNDS>,
}

/// What can become of a task.
const ENDS: [Outcome; 3] = [Outcome::Succeeded, Outcome::Skipped, Outcome::Failed];
const BOUNDS: usize = 12;
const BOUNDS_S: [f64; BOUNDS] =
    [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0];

impl SpoolMetrics {
    /// Something has happened to a task.
    pub(crate) fn count(&self, happened: Happened) {
        let counter = match happened {
            Happened::Started { waited } => return self.waits.observe(&BOUNDS_S, waited),
            Happened::Ended { outcome, ran } => {
                self.runs.observe(&BOUNDS_S, ran);
                let at = ENDS.iter().position(|end| *end == outcome);
                at.map_or(&self.ended[ENDS.len() - 1], |at| &self.ended[at])
            }
            Happened::Retried { ran } => {
                self.runs.observe(&BOUNDS_S, ran);
                &self.retried
            }
            Happened::Lost => &self.lost,
            Happened::SetAside => &self.set_aside,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What all spools have counted, in the text format of Prometheus.
pub(crate) fn write(out: &mut String, spools: &[(SpoolView, &SpoolMetrics)]) -> fmt::Result {
    if spools.is_empty() {
        return Ok(());
    }
    let name = "kron_spool_tasks";
    describe(out, name, "Tasks that have not ended, by state.", "gauge")?;
    for (view, _) in spools {
        let ready = view.pending.saturating_sub(view.delayed + view.unhandled);
        for (state, count) in [
            ("ready", ready),
            ("delayed", view.delayed),
            ("unhandled", view.unhandled),
            ("running", view.running),
        ] {
            let spool = label(&view.name);
            writeln!(out, "{name}{{spool=\"{spool}\",state=\"{state}\"}} {count}")?;
        }
    }
    let name = "kron_spool_up";
    describe(out, name, "Whether tasks of a spool are started.", "gauge")?;
    for (view, _) in spools {
        let up = u8::from(view.error.is_none());
        writeln!(out, "{name}{{spool=\"{}\"}} {up}", label(&view.name))?;
    }
    let name = "kron_spool_ended_total";
    describe(out, name, "Tasks that ended for good, by how.", "counter")?;
    for (view, metrics) in spools {
        for (end, count) in ENDS.iter().zip(&metrics.ended) {
            let (spool, count) = (label(&view.name), count.load(Ordering::Relaxed));
            writeln!(out, "{name}{{spool=\"{spool}\",outcome=\"{end}\"}} {count}")?;
        }
    }
    type Value = fn(&SpoolMetrics) -> &AtomicU64;
    let counters: [(&str, &str, Value); 3] = [
        ("kron_spool_retries_total", "Runs whose tasks wait again.", |it| &it.retried),
        ("kron_spool_lost_total", "Runs that were lost to a crash.", |it| &it.lost),
        ("kron_spool_rejected_total", "Files that were set aside.", |it| &it.set_aside),
    ];
    for (name, help, value) in counters {
        describe(out, name, help, "counter")?;
        for (view, metrics) in spools {
            let count = value(metrics).load(Ordering::Relaxed);
            writeln!(out, "{name}{{spool=\"{}\"}} {count}", label(&view.name))?;
        }
    }
    type Taken = fn(&SpoolMetrics) -> &Histogram<BOUNDS>;
    let histograms: [(&str, &str, Taken); 2] = [
        ("kron_spool_wait_seconds", "From when a task is due to its start.", |it| &it.waits),
        ("kron_spool_run_seconds", "From the start of a task to its recorded end.", |it| &it.runs),
    ];
    for (name, help, taken) in histograms {
        describe(out, name, help, "histogram")?;
        for (view, metrics) in spools {
            let labels = format!("spool=\"{}\"", label(&view.name));
            taken(metrics).write_labelled(out, name, &labels, &BOUNDS_S)?;
        }
    }
    Ok(())
}
