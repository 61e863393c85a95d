//! Leaving, asked or forced.

use std::sync::Arc;
use std::time::Duration;

use kron_core::Category;
use kron_state::{EpochEvent, PeriodRef, RunId};

use super::event::{Entry, ExitReason, Level, Now, StopMode};
use super::run::Asked;
use super::{Action, Machine, Timer, Urgency};

/// What supervisors may need beyond the grace to end their runs.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

impl Machine {
    /// Starts nothing more, and leaves as `mode` says.
    pub(super) fn stop(&mut self, now: Now, mode: StopMode) {
        // Leaving at once is always possible; otherwise asking again can only be more urgent.
        if mode != StopMode::Leave && self.stopping.is_some_and(|present| present >= mode) {
            return;
        }
        self.stopping = Some(mode);
        self.dismiss_standby();
        self.log(
            Entry::new(Level::Info, "stopping")
                .with("mode", mode.as_str())
                .with("active", self.runs.len()),
        );
        if mode == StopMode::Kill {
            let runs: Vec<RunId> = self.runs.keys().cloned().collect();
            let grace = runs.iter().map(|id| self.grace_of(id)).max().unwrap_or_default();
            for id in runs {
                self.end_run(&id, Asked::Stop, Urgency::Terminate);
            }
            self.timers.insert((now.boot + grace + STOP_PATIENCE, Timer::Stop));
        }
    }

    /// What was asked to end is still there; its supervisors go on, and the daemon leaves.
    pub(super) fn stop_overdue(&mut self) {
        if self.stopping != Some(StopMode::Kill) {
            return;
        }
        self.log(
            Entry::new(Level::Error, "stop_overdue")
                .error(
                    Category::System,
                    "stop",
                    "some runs could not be ended; they are left to their supervisors",
                )
                .with("active", self.runs.len()),
        );
        self.stopping = Some(StopMode::Leave);
    }

    /// Leaves when nothing is on its way any more.
    pub(super) fn leave_if_done(&mut self) {
        let Some(mode) = self.stopping else { return };
        if self.left || self.others_busy || !self.pending.is_empty() {
            return;
        }
        let may_leave = match mode {
            StopMode::Leave => !self.runs.values().any(|run| run.stage.is_gated()),
            StopMode::Wait | StopMode::Kill => self.runs.is_empty(),
        };
        if may_leave && self.known_is_stale {
            self.refresh_known();
        } else if may_leave {
            self.left = true;
            self.push(Action::Epoch(EpochEvent::Stop { mode: mode.as_str().to_owned() }));
            self.log(
                Entry::new(Level::Info, "stopped")
                    .with("mode", mode.as_str())
                    .with("active", self.runs.len()),
            );
            self.push(Action::Exit(ExitReason::Stopped(mode)));
        }
    }

    /// A write failed. Nobody knows what is on disk, so nothing more may be started: what stands
    /// at its gate is given up, what runs goes on under its supervisors, the daemon leaves.
    pub(super) fn not_durable(
        &mut self,
        operation: &'static str,
        identity: Option<&Arc<str>>,
        period: Option<&PeriodRef>,
        message: String,
    ) {
        self.left = true;
        let gated: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, run)| run.stage.is_gated())
            .map(|(id, _)| id.clone())
            .collect();
        for id in gated {
            self.push(Action::Abandon(id));
        }
        let mut entry = Entry::new(Level::Error, "fatal");
        if let Some(identity) = identity {
            entry = entry.of(identity);
        }
        if let Some(period) = period {
            entry = entry.period(period);
        }
        self.log(entry.error(Category::Persistence, operation, &message));
        self.push(Action::Exit(ExitReason::Persistence { message }));
    }
}
