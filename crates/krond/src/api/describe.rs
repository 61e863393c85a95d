//! What the machine and the documents know, in the words of the control API.
//!
//! Only translation: nothing is asked, decided or left out on the way, except what a reader of the
//! socket has no business with (a job's environment and standard input).

use kron_config::Action;
use kron_core::{DecisionRecord, UtcSecond};
use kron_state::{ActiveState, Ending, ExitStatus, HistoryEntry};

use super::view::{
    DefinitionView, FailingView, JobView, OutcomeView, RunStarted, RunView, StatusView,
};
use crate::machine::{self, StopMode, Suspension};

/// The daemon as a process, which the machine does not know.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) state_dir: String,
    pub(super) now: UtcSecond,
}

pub(super) fn status(status: &machine::StatusView, process: Process) -> StatusView {
    StatusView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: process.pid,
        state_dir: process.state_dir,
        time: process.now,
        started_at: status.started_at,
        generation: status.generation,
        loaded_at: status.loaded_at,
        job_count: status.job_count as u64,
        suspended_count: status.suspended_count as u64,
        active_count: status.active_count as u64,
        next_due: status.next_due,
        clock_held_since: status.clock_held_since,
        stopping: status.stopping.map(StopMode::as_str).map(str::to_owned),
    }
}

pub(super) fn job(job: &machine::JobView) -> JobView {
    let placement = job.definition.as_ref().map(|it| it.job.timing.placement());
    JobView {
        identity: job.identity.to_string(),
        definition: job.definition.as_deref().map(definition),
        suspended_by: job.suspension.map(suspension).map(str::to_owned),
        created_at: job.past.created_at,
        effective_from: job.past.effective_from,
        resumed_at: job.past.resumed_at,
        last_handled_period_id: job.past.last_handled,
        next: placement
            .zip(job.next.as_ref())
            .map(|(placement, decision)| DecisionRecord::of(placement, decision)),
        last: job.last.as_ref().map(last),
        active: job.active.iter().map(run).collect(),
        failing: job.failing.as_ref().map(|(attempts, failure)| FailingView {
            attempts: *attempts,
            category: failure.category.to_string(),
            operation: failure.operation.clone(),
            message: failure.message.clone(),
        }),
        recent: job.recent.events().map(|event| event.as_str().to_owned()).collect(),
    }
}

/// The word for what suspends a job.
pub(super) const fn suspension(suspension: Suspension) -> &'static str {
    match suspension {
        Suspension::Definition => "definition",
        Suspension::Hand => "hand",
    }
}

fn definition(definition: &machine::Definition) -> DefinitionView {
    let job = &definition.job;
    let policy = job.timing.policy;
    DefinitionView {
        expression: job.timing.to_string(),
        timezone: job.timing.placement().zone().name().to_owned(),
        command: job.action.to_argv(),
        enqueues: match &job.action {
            Action::Enqueue(settings) => Some(settings.job_type.to_string()),
            Action::Program(_) | Action::Shell { .. } | Action::Spool(_) => None,
        },
        spools: match &job.action {
            Action::Spool(drop) => Some(format!("{}/{}", drop.spool, drop.task_type)),
            Action::Program(_) | Action::Shell { .. } | Action::Enqueue(_) => None,
        },
        user: job.execution.user.clone(),
        description: job.description.as_deref().map(str::to_owned),
        defined_at: job.origin.to_string(),
        concurrency: policy.concurrency.to_string(),
        deadline_seconds: policy.deadline.get(),
        decision_hash: definition.hash.to_string(),
        generation: definition.generation,
    }
}

fn last(last: &machine::Last) -> OutcomeView {
    let (exit_code, signal) = match last.status {
        Some(ExitStatus::ExitCode(code)) => (Some(code), None),
        Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    OutcomeView {
        period_id: last.period.to_string(),
        outcome: Some(last.outcome.to_string()),
        reason: last.reason.as_deref().map(str::to_owned),
        nominal_time: last.period.nominal(),
        started_at: last.started_at,
        completed_at: last.completed_at,
        ending: last.ending.map(Ending::as_str).map(str::to_owned),
        exit_code,
        signal,
        ..OutcomeView::default()
    }
}

fn run(run: &machine::RunView) -> RunView {
    RunView {
        run_id: run.run.to_string(),
        period_id: run.period.to_string(),
        stage: run.stage.to_owned(),
        started_at: run.started_at,
        pid: run.pid,
    }
}

/// A run that a document has as active.
pub(super) fn recorded_run(active: &ActiveState) -> RunView {
    RunView {
        run_id: active.run.to_string(),
        period_id: active.period.to_string(),
        stage: if active.executed { "running" } else { "starting" }.to_owned(),
        started_at: Some(active.started_at),
        pid: Some(active.pid),
    }
}

pub(crate) fn entry(entry: &HistoryEntry) -> OutcomeView {
    OutcomeView {
        period_id: entry.period.to_string(),
        outcome: entry.outcome.map(|outcome| outcome.to_string()),
        reason: entry.reason.clone(),
        nominal_time: entry.nominal_time,
        chosen_time: entry.chosen_time,
        run_id: entry.run.as_ref().map(ToString::to_string),
        started_at: entry.started_at,
        completed_at: entry.completed_at,
        ending: entry.ending.map(Ending::as_str).map(str::to_owned),
        exit_code: entry.exit_code,
        signal: entry.signal,
        output_dropped_bytes: entry.output_dropped,
        last_period_id: entry.last_period,
        count: entry.count,
    }
}

pub(super) fn started(run: &kron_state::RunId, period: &kron_state::PeriodRef) -> RunStarted {
    RunStarted { run_id: run.to_string(), period_id: period.to_string() }
}
