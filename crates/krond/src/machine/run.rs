//! Runs, from their gate to their end.
//!
//! A run is launched, stands at its gate, is recorded, is released, is executed, ends, is recorded
//! again and acknowledged. The order of the two records and of the release is what the daemon's
//! guarantee rests on.

use std::time::Duration;

use kron_core::{Category, Outcome, Reason, Seconds, UtcSecond};
use kron_state::{
    ActiveState, Cause, Change, Ending, ExitStatus, HistoryEntry, PeriodRef, RunEnd, RunId,
    RunRecord,
};

use super::event::{
    Definition, Entry, Last, Level, Now, Rank, Refusal, Reply, Report, StartFailure,
};
use super::hook::event_of;
use super::job::JobIndex;
use super::standby::AtGate;
use super::{Action, Machine, Pending, RequestId, STALL, Urgency};

/// How long a run has between being asked to end and being killed, where nothing else is said.
pub(super) const GRACE_DEFAULT: Seconds = Seconds::new(10);

/// What the stage of a run is called that was let go.
pub(crate) const RUNNING: &str = "running";

/// A run that has not ended.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) job: JobIndex,
    pub(super) period: PeriodRef,
    pub(super) chosen: UtcSecond,
    pub(super) stage: Stage,
    /// When it was judged, in time since boot.
    pub(super) judged: Duration,
    pub(super) started_at: Option<UtcSecond>,
    pub(super) pid: Option<i32>,
    /// Why it is being ended.
    pub(super) asked: Option<Asked>,
    /// Who waits for it to be executed.
    pub(super) request: Option<RequestId>,
    pub(super) grace: Duration,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// On its way to the gate.
    Launching,
    /// At the gate; its record is on its way to disk.
    Recording,
    /// Released.
    Released,
    /// Executed.
    Running,
    /// Started by an earlier daemon, its end not yet known.
    Adopted,
}

/// Why a run was given up at its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandonment {
    /// It took too long.
    Stalled,
    /// A later period takes its place, or the daemon ends its runs.
    Ended,
}

/// Why a run is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A later period takes its place.
    Replace,
    /// The daemon was told to end its runs.
    Stop,
}

impl Stage {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Stage::Launching | Stage::Recording => "starting",
            Stage::Released | Stage::Running | Stage::Adopted => RUNNING,
        }
    }

    /// Whether nothing about the run is on its way to disk.
    pub(super) const fn is_unrecorded(self) -> bool {
        matches!(self, Stage::Launching)
    }

    /// Whether the command has not been released and never ran.
    pub(super) const fn is_gated(self) -> bool {
        matches!(self, Stage::Launching | Stage::Recording)
    }
}

impl Run {
    pub(super) fn new(
        job: JobIndex,
        period: PeriodRef,
        chosen: UtcSecond,
        judged: Duration,
    ) -> Run {
        Run {
            job,
            period,
            chosen,
            stage: Stage::Launching,
            judged,
            started_at: None,
            pid: None,
            asked: None,
            request: None,
            grace: Duration::from_secs(GRACE_DEFAULT.get()),
        }
    }
}

/// How long a run of this definition has between being asked to end and being killed.
pub(super) fn grace_of(definition: &Definition) -> Duration {
    Duration::from_secs(definition.job.execution.grace.unwrap_or(GRACE_DEFAULT).get())
}

impl Machine {
    /// The command stands at its gate: record it, unless it is to wait there for its time.
    pub(super) fn at_gate(&mut self, now: Now, id: &RunId, gate: AtGate) {
        if let Some(gate) = self.standby.armed(id, gate) {
            self.armed(now, id, gate);
        }
    }

    /// The command stands at its gate, and its time has come: record it.
    pub(super) fn armed(&mut self, now: Now, id: &RunId, gate: AtGate) {
        let AtGate { supervisor, command, boot_id } = gate;
        let Some(run) = self.runs.get_mut(id) else { return };
        if run.stage != Stage::Launching {
            return;
        }
        run.pid = Some(command.pid);
        if now.boot.saturating_sub(run.judged) > STALL {
            self.abandon(id, Abandonment::Stalled);
            return;
        }
        run.stage = Stage::Recording;
        run.started_at = Some(now.wall);
        let active = ActiveState {
            period: run.period.clone(),
            pid: command.pid,
            started_at: now.wall,
            chosen_time: run.chosen,
            run: id.clone(),
            start_ticks: command.start_ticks,
            supervisor,
            boot_id,
            executed: false,
            unknown: serde_json::Map::new(),
        };
        let job = run.job;
        #[cfg(kron_canary)]
        if kron_canary::Canary::RecordAfterStart.is_active() {
            run.stage = Stage::Released;
            self.push(Action::Release(id.clone()));
            self.commit(job, vec![Change::Arm(active)], Rank::Start, Pending::Recorded);
            return;
        }
        self.commit(job, vec![Change::Arm(active)], Rank::Start, Pending::Release(id.clone()));
    }

    /// The record is durable: let the command go, unless it is too late.
    pub(super) fn release(&mut self, now: Now, id: &RunId) {
        let Some(run) = self.runs.get_mut(id) else { return };
        if run.stage != Stage::Recording {
            return;
        }
        if now.boot.saturating_sub(run.judged) > STALL {
            self.abandon(id, Abandonment::Stalled);
            return;
        }
        run.stage = Stage::Released;
        self.push(Action::Release(id.clone()));
    }

    /// The time in which a start must be released is over.
    pub(super) fn stalled(&mut self, now: Now, id: &RunId) {
        let Some(run) = self.runs.get(id) else { return };
        let late = now.boot.saturating_sub(run.judged) >= STALL;
        if late && matches!(run.stage, Stage::Launching | Stage::Recording) {
            self.abandon(id, Abandonment::Stalled);
        }
    }

    /// Gives a run up at its gate. Only the release would have let the command go, and it is never
    /// sent now: whatever becomes of the processes, nothing has run and nothing will. So nobody
    /// waits for them, who may hang where no signal reaches.
    fn abandon(&mut self, id: &RunId, why: Abandonment) {
        let is_new = self.abandoned.iter().all(|(other, _)| other != id);
        if is_new {
            self.push(Action::Abandon(id.clone()));
            self.abandoned.push((id.clone(), why));
        }
    }

    /// Accounts for what was given up. That comes last, because it judges the periods anew.
    pub(super) fn settle_abandoned(&mut self, now: Now) {
        while let Some((id, why)) = self.abandoned.pop() {
            self.gone_from_gate(now, &id, Some(why));
        }
    }

    /// Ends a run, wherever it is.
    pub(super) fn end_run(&mut self, id: &RunId, asked: Asked, urgency: Urgency) {
        let Some(run) = self.runs.get_mut(id) else { return };
        match run.stage {
            Stage::Launching | Stage::Recording => self.abandon(id, Abandonment::Ended),
            Stage::Released | Stage::Running | Stage::Adopted => {
                run.asked = Some(asked);
                self.push(Action::End(id.clone(), urgency));
            }
        }
    }

    /// How long a run may take to end once it is asked to.
    pub(super) fn grace_of(&self, id: &RunId) -> Duration {
        self.runs.get(id).map_or(Duration::ZERO, |run| run.grace)
    }

    /// A run never came to its gate; nothing of it is left.
    pub(super) fn launch_failed(&mut self, now: Now, id: &RunId, failure: StartFailure) {
        if self.standby.gone(id) {
            // Its start will tell, if it fails again.
            return;
        }
        let Some(run) = self.runs.get(id) else { return };
        if run.stage == Stage::Launching {
            self.did_not_start(now, id, None, failure);
        }
    }

    /// The command was released and could not be executed.
    pub(super) fn exec_failed(&mut self, now: Now, id: &RunId, failure: StartFailure) {
        let Some(run) = self.runs.get(id) else { return };
        if !matches!(run.stage, Stage::Released | Stage::Adopted) {
            return;
        }
        self.did_not_start(now, id, Some(id), failure);
    }

    /// A run failed on its way; `clears` names it where its record must go.
    fn did_not_start(
        &mut self,
        now: Now,
        id: &RunId,
        clears: Option<&RunId>,
        failure: StartFailure,
    ) {
        let Some(run) = self.take_run(id) else { return };
        if let Some(to) = run.request {
            let reply = Reply::Refused(Refusal::NotStarted(failure.clone()));
            self.push(Action::Reply { to, reply });
        }
        self.start_failed(now, run.job, &run.period, clears, failure);
        if self.jobs[run.job.at()].past.replacing.is_some() {
            // What was in the way of another is gone.
            self.evaluate(now, run.job);
        }
        self.forget_if_removed(run.job);
    }

    /// The command was executed: its period is handled.
    pub(super) fn executing(&mut self, now: Now, id: &RunId) {
        let Some(run) = self.runs.get_mut(id) else { return };
        if run.stage != Stage::Released {
            return;
        }
        run.stage = Stage::Running;
        let (index, period, pid) = (run.job, run.period.clone(), run.pid);
        let request = run.request.take();
        let started_at = run.started_at;
        let late = now.wall.since(run.chosen);
        self.mark_executed(index, &period, started_at);
        self.commit(index, vec![Change::Start(id.clone())], Rank::Finish, Pending::Recorded);
        let identity = self.jobs[index.at()].identity.clone();
        self.log(
            Entry::new(Level::Info, "started")
                .of(&identity)
                .period(&period)
                .shown("run_id", id)
                .with("pid", pid)
                .with("late_s", late),
        );
        if let Some(to) = request {
            let reply = Reply::Started { run: id.clone(), period };
            self.push(Action::Reply { to, reply });
        }
    }

    /// What was to be done is kept by somebody else: its period is handled, and nothing is active.
    pub(super) fn handed_over(&mut self, now: Now, id: &RunId, to: String) {
        let Some(run) = self.runs.get(id) else { return };
        if run.stage != Stage::Launching {
            return;
        }
        let Some(run) = self.take_run(id) else { return };
        let index = run.job;
        self.mark_executed(index, &run.period, Some(now.wall));
        let at = now.wall;
        let entry = kron_state::handed_over(id, &run.period, run.chosen, &to, at);
        let mut changes = vec![Change::HandOver {
            run: id.clone(),
            period: run.period.clone(),
            chosen: run.chosen,
            reason: to.clone(),
            at,
        }];
        changes.extend(self.notify(now, index, event_of(Ending::HandedOver, None), &entry));
        self.commit(index, changes, Rank::Finish, Pending::Recorded);
        let job = &mut self.jobs[index.at()];
        job.recent.push(kron_state::RecentEvent::of_run(Ending::HandedOver, None));
        job.tell_last(Last {
            period: run.period.clone(),
            outcome: Outcome::Executed,
            reason: Some(to.as_str().into()),
            ending: Some(Ending::HandedOver),
            status: None,
            started_at: Some(at),
            completed_at: Some(at),
        });
        let identity = job.identity.clone();
        self.log(
            Entry::new(Level::Info, "handed_over")
                .of(&identity)
                .period(&run.period)
                .shown("run_id", id)
                .with("to", to)
                .with("late_s", at.since(run.chosen)),
        );
        if let Some(to) = run.request {
            let reply = Reply::Started { run: id.clone(), period: run.period };
            self.push(Action::Reply { to, reply });
        }
        self.evaluate(now, index);
        self.forget_if_removed(index);
    }

    fn mark_executed(
        &mut self,
        index: JobIndex,
        period: &PeriodRef,
        started_at: Option<UtcSecond>,
    ) {
        let job = &mut self.jobs[index.at()];
        if let PeriodRef::Period(nominal) = *period {
            job.mark(nominal);
            if job.failing.as_ref().is_some_and(|failing| failing.period <= nominal) {
                job.failing = None;
            }
        }
        // How the one before ended is told until this one has.
        if job.last.is_none() {
            job.tell_last(Last {
                period: period.clone(),
                outcome: Outcome::Executed,
                reason: None,
                ending: None,
                status: None,
                started_at,
                completed_at: None,
            });
        }
    }

    /// Supervisor and command are gone, or the supervisor has reported the end.
    pub(super) fn ended(&mut self, now: Now, id: &RunId, report: Report) {
        if self.standby.gone(id) {
            self.push(Action::Acknowledge(id.clone()));
            return;
        }
        let Some(run) = self.runs.get(id) else { return };
        match (run.stage, report.record) {
            // Whoever never sent the release knows that the command never ran.
            (Stage::Launching | Stage::Recording, _) | (_, Some(RunRecord::NotReleased)) => {
                self.gone_from_gate(now, id, None);
            }
            (_, Some(RunRecord::ExecFailed { stage, message, .. })) => {
                let failure =
                    StartFailure { category: Category::Execution, operation: stage, message };
                if let Some(run) = self.runs.get_mut(id) {
                    run.stage = Stage::Adopted;
                }
                self.exec_failed(now, id, failure);
            }
            (_, Some(RunRecord::Ended(end))) => self.finish(now, id, Some(&end), None),
            (_, None) => self.finish(now, id, None, report.reaped),
        }
    }

    /// A run is gone, or given up, that was never released.
    fn gone_from_gate(&mut self, now: Now, id: &RunId, why: Option<Abandonment>) {
        let Some(run) = self.take_run(id) else { return };
        let recorded = !run.stage.is_unrecorded();
        let index = run.job;
        let identity = self.jobs[index.at()].identity.clone();
        self.log(
            Entry::new(Level::Warn, "not_released")
                .of(&identity)
                .period(&run.period)
                .shown("run_id", id),
        );
        let message = match why {
            Some(_) => "the run was given up before it was started",
            None => "the run ended before it was started",
        };
        let failure = StartFailure {
            category: Category::System,
            operation: "release".to_owned(),
            message: message.to_owned(),
        };
        if let Some(to) = run.request {
            let reply = Reply::Refused(Refusal::NotStarted(failure.clone()));
            self.push(Action::Reply { to, reply });
        }
        let clears = recorded.then_some(id);
        // Something ends what stands at its gate, and may well do so again: that is tried again
        // after a pause. What ended with an earlier daemon is no such thing.
        let fails = why.is_none() && run.stage != Stage::Adopted;
        match run.period {
            _ if fails => self.start_failed(now, index, &run.period, clears, failure),
            PeriodRef::Period(nominal) if why == Some(Abandonment::Stalled) => {
                self.never_started(now, index, nominal, Reason::StartStalled, clears);
            }
            PeriodRef::Period(nominal) if self.is_overtaken(index, nominal) => {
                self.never_started(now, index, nominal, Reason::Superseded, clears);
            }
            // It is unhandled, and judged again; if it was ended on purpose, so is what follows.
            PeriodRef::Period(_) | PeriodRef::Manual(_) => self.clear(index, clears),
        }
        if clears.is_none() {
            self.push(Action::Acknowledge(id.clone()));
        }
        if !fails || self.jobs[index.at()].past.replacing.is_some() {
            self.evaluate(now, index);
        }
        self.forget_if_removed(index);
    }

    /// A run that may have been executed is over.
    fn finish(&mut self, now: Now, id: &RunId, end: Option<&RunEnd>, reaped: Option<ExitStatus>) {
        let Some(run) = self.take_run(id) else { return };
        let index = run.job;
        if run.stage != Stage::Running {
            self.mark_executed(index, &run.period, run.started_at);
        }
        if let Some(to) = run.request {
            // Nobody has said that it was executed, and it may have been.
            let reply = Reply::Started { run: id.clone(), period: run.period.clone() };
            self.push(Action::Reply { to, reply });
        }
        let status = end.map(|end| end.status).or(reaped);
        let ending = match (end, run.asked, status) {
            (Some(RunEnd { cause: Cause::Timeout, .. }), _, _) => Ending::TimedOut,
            (Some(RunEnd { cause: Cause::Asked, .. }), Some(Asked::Replace), _) => Ending::Replaced,
            (Some(RunEnd { cause: Cause::Asked, .. }), _, _)
                if self.jobs[index.at()].past.replacing.is_some() =>
            {
                Ending::Replaced
            }
            (Some(RunEnd { cause: Cause::Asked, .. }), _, _) => Ending::Stopped,
            (_, _, Some(ExitStatus::ExitCode(_))) => Ending::Exited,
            (_, _, Some(ExitStatus::Signal(_))) => Ending::Signalled,
            (_, _, None) => Ending::Lost,
        };
        let at = end.map_or(now.wall, |end| end.at);
        let output_dropped = end.map_or(0, |end| end.output_dropped);
        let entry = HistoryEntry {
            outcome: Some(Outcome::Executed),
            nominal_time: run.period.nominal(),
            chosen_time: Some(run.chosen),
            completed_at: Some(at),
            exit_code: status.and_then(ExitStatus::exit_code),
            run: Some(id.clone()),
            started_at: run.started_at,
            ending: Some(ending),
            signal: status.and_then(ExitStatus::signal),
            output_dropped: (output_dropped > 0).then_some(output_dropped),
            ..HistoryEntry::new(run.period.clone())
        };
        let run_id = id.clone();
        let mut changes = vec![Change::Finish { run: run_id, ending, status, at, output_dropped }];
        changes.extend(self.notify(now, index, event_of(ending, status), &entry));
        self.commit(index, changes, Rank::Finish, Pending::Acknowledge(id.clone()));
        let job = &mut self.jobs[index.at()];
        job.recent.push(kron_state::RecentEvent::of_run(ending, status));
        job.tell_last(Last {
            period: run.period.clone(),
            outcome: Outcome::Executed,
            reason: None,
            ending: Some(ending),
            status,
            started_at: run.started_at,
            completed_at: Some(at),
        });
        let identity = job.identity.clone();
        let level = match (ending, status) {
            (Ending::Exited, Some(ExitStatus::ExitCode(0))) => Level::Info,
            (Ending::Replaced | Ending::Stopped, _) => Level::Info,
            _ => Level::Warn,
        };
        let mut entry = Entry::new(level, "finished")
            .of(&identity)
            .period(&run.period)
            .shown("run_id", id)
            .shown("ending", ending);
        match status {
            Some(ExitStatus::ExitCode(code)) => entry = entry.with("exit_code", code),
            Some(ExitStatus::Signal(signal)) => entry = entry.with("signal", signal),
            None => {}
        }
        if let Some(started) = run.started_at {
            entry = entry.with("duration_s", at.since(started));
        }
        self.log(entry);
        self.evaluate(now, index);
        self.forget_if_removed(index);
    }

    /// Takes a run out of the machine and out of its job.
    fn take_run(&mut self, id: &RunId) -> Option<Run> {
        let run = self.runs.remove(id)?;
        self.jobs[run.job.at()].runs.retain(|other| other != id);
        Some(run)
    }
}
