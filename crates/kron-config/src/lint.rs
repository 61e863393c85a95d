//! Doubts about jobs that are valid: what their constraints leave of their windows.
//!
//! The periods looked at are those from 2026-01-01 on, not those from today, so that the same job
//! gives the same answer on every day.

use kron_core::{Coverage, Finding, UtcSecond};

use crate::diagnostic::Diagnostic;
use crate::job::Job;

/// Periods that are looked at: a year of hourly ones.
const PERIODS_MAX: usize = 8_784;
/// 2026-01-01T00:00:00Z, less a second.
const BEFORE_START: i64 = 1_767_225_599;
/// How far ahead periods are looked for: four years, so that leap days are seen.
const REACH_SECONDS: i64 = 4 * 366 * 86_400;

/// A share of the window below this is called little.
const SHARE_MIN: f64 = 0.10;
/// A chance of `unschedulable` above this is worth a word.
const CHANCE_MAX: f64 = 1e-6;

/// What the constraints of one job leave of its windows.
#[derive(Clone, Debug)]
pub struct CoverageReport {
    /// Periods looked at.
    pub periods: usize,
    /// Periods without any allowed second, of those looked at.
    pub impossible: usize,
    /// The first period without any allowed second.
    pub first_impossible: Option<UtcSecond>,
    /// The period with the least chance, of those that have one, and what is left of its window.
    pub tightest: Option<(UtcSecond, Coverage)>,
}

impl CoverageReport {
    /// Looks at a job's periods; `None` when it has no constraints.
    #[must_use]
    pub fn of(job: &Job) -> Option<CoverageReport> {
        let placement = job.timing.placement();
        if placement.constraints().is_empty() {
            return None;
        }
        let mut report =
            CoverageReport { periods: 0, impossible: 0, first_impossible: None, tightest: None };
        let from = UtcSecond::from_unix(BEFORE_START)?;
        let to = from.checked_add(REACH_SECONDS)?;
        let nominals = job.timing.schedule().after(from).take_while(|&nominal| nominal < to);
        for nominal in nominals.take(PERIODS_MAX) {
            let coverage = placement.coverage(nominal)?;
            report.periods += 1;
            if coverage.allowed_seconds == 0 {
                report.impossible += 1;
                report.first_impossible = report.first_impossible.or(Some(nominal));
                continue;
            }
            let tighter = report
                .tightest
                .as_ref()
                .is_none_or(|(_, tightest)| coverage.acceptance < tightest.acceptance);
            if tighter {
                report.tightest = Some((nominal, coverage));
            }
        }
        Some(report)
    }
}

/// Doubts about one job.
#[must_use]
pub fn lint(job: &Job) -> Vec<Diagnostic> {
    let Some(report) = CoverageReport::of(job) else { return Vec::new() };
    let at = |finding: Finding| Diagnostic::at(&job.origin, finding);
    let mut diagnostics = Vec::new();
    let identity = job.identity();
    if let Some(first) = report.first_impossible {
        diagnostics.push(at(Finding::warning(
            0..0,
            format!(
                "job `{identity}`: {} of the first {} periods from 2026-01-01 on have no allowed second and are always `unschedulable`, the first at {first}",
                report.impossible, report.periods
            ),
        )
        .help("leave those periods out of the schedule, or make the window longer")));
    }
    if let Some((nominal, coverage)) = &report.tightest {
        let chance = coverage.unschedulable_chance();
        if coverage.window_seconds > 1 && (coverage.share() < SHARE_MIN || chance > CHANCE_MAX) {
            diagnostics.push(at(Finding::warning(
                0..0,
                format!(
                    "job `{identity}`: the constraints leave {} of {} seconds of the window ({}) in the period {nominal}; the chance of `unschedulable` is {}",
                    coverage.allowed_seconds,
                    coverage.window_seconds,
                    percent(coverage.share()),
                    percent(chance),
                ),
            )
            .help("make the window longer, or the constraints wider")));
        }
    }
    diagnostics
}

/// A share in percent, with digits where it is small.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent >= 0.1 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1e} %")
    }
}
