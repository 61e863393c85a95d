//! Judging what has fallen due.
//!
//! Everything that is due is judged before anything is started, so that a burst of starts never
//! turns into misses. A job is judged when its next period falls due, when a failed start is to be
//! tried again, and when one of its runs has ended.

use std::time::Duration;

use kron_core::{Category, Decision, Outcome, PeriodStretch, Reason, UtcSecond, Verdict, judge};
use kron_state::{Change, HistoryEntry, PeriodRef, Replacing, RunId};

use super::event::{Entry, Last, Launch, Level, Now, Rank, StartFailure};
use super::hook::event_of_outcome;
use super::job::{Failing, JobIndex};
use super::run::{Asked, Run, grace_of};
use super::{Action, Machine, Pending, STALL, Timer, Urgency};

/// The first pause before a failed start is tried again; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest such pause.
const RETRY_LONGEST: Duration = Duration::from_secs(300);
/// What a supervisor may need beyond the grace to end a run that is to be replaced.
const REPLACE_PATIENCE: Duration = Duration::from_secs(10);

/// A period, or a stretch of them, that does not run.
#[derive(Clone, Copy)]
pub(super) struct Unrun {
    /// The period, or the first of the stretch.
    pub(super) nominal: UtcSecond,
    /// When the period, or the last of the stretch, would have run.
    pub(super) chosen: Option<UtcSecond>,
    pub(super) outcome: Outcome,
    pub(super) reason: Reason,
    /// The last of the stretch, and how many there are.
    pub(super) stretch: Option<(UtcSecond, u64)>,
}

impl Machine {
    /// Judges every job that has something due.
    pub(super) fn evaluate_due(&mut self, now: Now) {
        if self.left || self.stopping.is_some() || self.clock.is_held() {
            return;
        }
        while let Some(&(at, index)) = self.due.first() {
            if at > now.wall {
                return;
            }
            self.due.pop_first();
            self.jobs[index.at()].due = None;
            self.evaluate(now, index);
            self.plan_next(now, index);
        }
    }

    /// Judges one job now.
    pub(super) fn evaluate(&mut self, now: Now, index: JobIndex) {
        if self.left || self.stopping.is_some() || self.clock.is_held() {
            return;
        }
        let job = &self.jobs[index.at()];
        let Some(definition) = job.definition.clone() else { return };
        let Some(policy) = job.policy() else { return };
        // A suspended job handles nothing; only a replacement that has begun goes on.
        if policy.suspend && job.past.replacing.is_none() {
            return;
        }
        let backlog = definition.job.timing.backlog(&self.claimed_past(job), now.wall);
        if let Some(stretch) = backlog.redefined {
            self.pass_over(now, index, stretch, Outcome::Skipped, Reason::DefinitionChanged);
        }
        if let Some(stretch) = backlog.superseded {
            self.pass_over(now, index, stretch, Outcome::Missed, Reason::Superseded);
        }
        for decision in backlog.due {
            let job = &mut self.jobs[index.at()];
            if job.executed_ahead.contains(&decision.nominal) {
                // It has its outcome; only the mark, moved back on purpose, does not say so.
                job.mark(decision.nominal);
                let verdict = Verdict::Leave { reason: Reason::AlreadyStarted };
                self.carry_out(now, index, &decision, verdict);
                continue;
            }
            let job = &self.jobs[index.at()];
            let past = self.claimed_past(job);
            let verdict = judge(&decision, &policy, &past, &self.active(job), now.wall);
            self.carry_out(now, index, &decision, verdict);
        }
    }

    fn carry_out(&mut self, now: Now, index: JobIndex, decision: &Decision, verdict: Verdict) {
        let job = &mut self.jobs[index.at()];
        let nominal = decision.nominal;
        match verdict {
            Verdict::Wait { .. } => {}
            Verdict::Leave { reason } => {
                if matches!(reason, Reason::AlreadyHandled | Reason::AlreadyStarted)
                    || job.left >= Some(nominal)
                {
                    return;
                }
                job.left = Some(nominal);
                let identity = job.identity.clone();
                let period = PeriodRef::Period(nominal);
                self.log(
                    Entry::new(Level::Info, "left")
                        .of(&identity)
                        .period(&period)
                        .shown("reason", reason),
                );
            }
            Verdict::Record { outcome, reason } => {
                self.log_decision(index, decision);
                self.record(now, index, decision, outcome, reason);
            }
            Verdict::Start { replace: false } => {
                self.log_decision(index, decision);
                self.begin(now, index, decision);
            }
            Verdict::Start { replace: true } => self.begin_replacement(now, index, decision),
        }
    }

    /// Records the outcome of a period that does not run.
    pub(super) fn record(
        &mut self,
        now: Now,
        index: JobIndex,
        decision: &Decision,
        outcome: Outcome,
        reason: Reason,
    ) {
        let Decision { nominal, chosen, .. } = *decision;
        let unrun = Unrun { nominal, chosen, outcome, reason, stretch: None };
        self.handle_period(now, index, unrun, None);
    }

    fn pass_over(
        &mut self,
        now: Now,
        index: JobIndex,
        stretch: PeriodStretch,
        outcome: Outcome,
        reason: Reason,
    ) {
        let definition = self.jobs[index.at()].definition.clone();
        let chosen =
            definition.and_then(|d| d.job.timing.placement().decide(stretch.last).ok()?.chosen);
        let nominal = stretch.first;
        let stretch = (stretch.count > 1).then_some((stretch.last, stretch.count));
        self.handle_period(now, index, Unrun { nominal, chosen, outcome, reason, stretch }, None);
    }

    fn handle_period(&mut self, now: Now, index: JobIndex, unrun: Unrun, clears: Option<&RunId>) {
        let Unrun { nominal, outcome, reason, stretch, .. } = unrun;
        let last = stretch.map_or(nominal, |(last, _)| last);
        let job = &mut self.jobs[index.at()];
        if job.failing.as_ref().is_some_and(|failing| failing.period <= last) {
            job.failing = None;
        }
        job.mark(last);
        job.tell_last(Last::not_run(last, outcome, reason.to_string(), now.wall));
        let identity = job.identity.clone();
        // A missed deadline is as it should be; a period that can never run deserves a look.
        let level = if outcome == Outcome::Unschedulable { Level::Warn } else { Level::Info };
        let mut entry = Entry::new(level, outcome.as_str())
            .of(&identity)
            .period(&PeriodRef::Period(nominal))
            .shown("reason", reason);
        if let Some((last, count)) = stretch {
            entry = entry.shown("last_period_id", last).with("count", count);
        }
        self.log(entry);
        let mut changes: Vec<Change> =
            clears.map(|run| Change::Disarm(run.clone())).into_iter().collect();
        changes.extend(self.handling(now, index, unrun));
        match clears {
            None => self.commit(index, changes, Rank::Background, Pending::Recorded),
            Some(run) => {
                self.commit(index, changes, Rank::Finish, Pending::Acknowledge(run.clone()));
            }
        }
    }

    /// What records an outcome, and lets hooks be told of it.
    pub(super) fn handling(&mut self, now: Now, index: JobIndex, unrun: Unrun) -> Vec<Change> {
        let Unrun { nominal, chosen, outcome, reason, stretch } = unrun;
        let reason = reason.to_string();
        let entry = HistoryEntry {
            outcome: Some(outcome),
            nominal_time: Some(nominal),
            chosen_time: chosen.filter(|_| stretch.is_none()),
            completed_at: Some(now.wall),
            reason: Some(reason.clone()),
            last_period: stretch.map(|(last, _)| last),
            count: stretch.map(|(_, count)| count),
            ..HistoryEntry::new(PeriodRef::Period(nominal))
        };
        let at = now.wall;
        let mut changes = vec![Change::Handle { nominal, chosen, outcome, reason, stretch, at }];
        changes.extend(self.notify(now, index, event_of_outcome(outcome), &entry));
        changes
    }

    /// Starts a period: from here on it counts as active.
    fn begin(&mut self, now: Now, index: JobIndex, decision: &Decision) {
        let job = &self.jobs[index.at()];
        let (Some(definition), Some(chosen)) = (job.definition.clone(), decision.chosen) else {
            return;
        };
        let ready = self.standby.take(index, &definition, decision.nominal);
        let run = ready.as_ref().map(|(run, _)| run.clone()).unwrap_or_else(|| self.new_run_id());
        let period = PeriodRef::Period(decision.nominal);
        let mut state = Run::new(index, period.clone(), chosen, now.boot);
        state.grace = grace_of(&definition);
        self.runs.insert(run.clone(), state);
        let job = &mut self.jobs[index.at()];
        job.runs.push(run.clone());
        // What it replaces, if anything, is gone.
        job.replacement_due = None;
        let Some((_, gate)) = ready else {
            let decision = Some(*decision);
            self.launches.push(Launch { run, definition, period, decision, chosen });
            return;
        };
        self.timers.insert((now.boot + STALL, Timer::Stall(run.clone())));
        if let Some(gate) = gate {
            self.armed(now, &run, gate);
        }
    }

    /// Makes the intention durable; [`Machine::end_replaced`] then ends what is in the way.
    fn begin_replacement(&mut self, now: Now, index: JobIndex, decision: &Decision) {
        let job = &mut self.jobs[index.at()];
        if job.past.replacing == Some(decision.nominal) {
            // It was durable before the daemon was restarted, or is on its way.
            if job.replacement_due.is_none() {
                self.end_replaced(now, index, decision.nominal);
            }
            return;
        }
        job.past.replacing = Some(decision.nominal);
        // Until the record is durable and the signals are sent, nothing is overdue.
        job.replacement_due = Some(Duration::MAX);
        self.log_decision(index, decision);
        let replacing = Replacing { period: decision.nominal, evaluated_at: now.wall };
        let change = Change::Replace(Some(replacing));
        let then = Pending::Replace(self.jobs[index.at()].identity.clone(), decision.nominal);
        self.commit(index, vec![change], Rank::Start, then);
    }

    /// Ends every run that `period` takes the place of.
    pub(super) fn end_replaced(&mut self, now: Now, index: JobIndex, period: UtcSecond) {
        let job = &mut self.jobs[index.at()];
        if job.past.replacing != Some(period) {
            return;
        }
        let identity = job.identity.clone();
        let runs = job.runs.clone();
        if runs.is_empty() {
            job.replacement_due = None;
            self.evaluate(now, index);
            return;
        }
        let mut grace = Duration::ZERO;
        for id in runs {
            grace = grace.max(self.grace_of(&id));
            self.end_run(&id, Asked::Replace, Urgency::Terminate);
        }
        let overdue = now.boot + grace + REPLACE_PATIENCE;
        self.jobs[index.at()].replacement_due = Some(overdue);
        self.timers.insert((overdue, Timer::Replacement(index)));
        let period = PeriodRef::Period(period);
        self.log(Entry::new(Level::Info, "replacing").of(&identity).period(&period));
    }

    /// What is to be replaced is still there: the period is judged again.
    pub(super) fn replacement_overdue(&mut self, now: Now, index: JobIndex) {
        let job = &mut self.jobs[index.at()];
        let Some(period) = job.past.replacing else { return };
        if job.replacement_due.is_none_or(|due| due > now.boot) {
            return;
        }
        if job.runs.is_empty() {
            self.evaluate(now, index);
            return;
        }
        job.past.replacing = None;
        job.replacement_due = None;
        let identity = job.identity.clone();
        let runs = job.runs.clone();
        self.log(
            Entry::new(Level::Error, "termination_failed")
                .of(&identity)
                .period(&PeriodRef::Period(period))
                .error(Category::System, "replace", "the active execution could not be ended"),
        );
        for id in runs {
            self.end_run(&id, Asked::Replace, Urgency::Kill);
        }
        self.commit(index, vec![Change::Replace(None)], Rank::Start, Pending::Recorded);
        self.evaluate(now, index);
    }

    /// A period could not be started. It stays unhandled and is judged again after a pause, unless
    /// a later one has been handled or is on its way.
    pub(super) fn start_failed(
        &mut self,
        now: Now,
        index: JobIndex,
        period: &PeriodRef,
        clears: Option<&RunId>,
        failure: StartFailure,
    ) {
        let job = &self.jobs[index.at()];
        let identity = job.identity.clone();
        self.log(Entry::new(Level::Error, "start_failed").of(&identity).period(period).error(
            failure.category,
            &failure.operation,
            &failure.message,
        ));
        let PeriodRef::Period(nominal) = *period else { return self.clear(index, clears) };
        if self.is_overtaken(index, nominal) {
            self.never_started(now, index, nominal, Reason::Superseded, clears);
            return;
        }
        self.clear(index, clears);
        let job = &mut self.jobs[index.at()];
        // It is judged again, deadline included.
        let was_replacing = job.past.replacing.take_if(|replacing| *replacing == nominal).is_some();
        let attempts = match &job.failing {
            Some(failing) if failing.period == nominal => failing.attempts + 1,
            _ => 1,
        };
        let pause = RETRY_FIRST.saturating_mul(1 << (attempts - 1).min(16)).min(RETRY_LONGEST);
        let retry_at = now.boot + pause;
        job.failing = Some(Box::new(Failing { period: nominal, attempts, failure }));
        self.timers.insert((retry_at, Timer::Retry(index)));
        if was_replacing {
            self.commit(index, vec![Change::Replace(None)], Rank::Background, Pending::Recorded);
        }
    }

    /// Whether a later period has been handled or is on its way.
    pub(super) fn is_overtaken(&self, index: JobIndex, nominal: UtcSecond) -> bool {
        self.claimed_past(&self.jobs[index.at()]).last_handled >= Some(nominal)
    }

    /// Removes the record of a run that never was.
    pub(super) fn clear(&mut self, index: JobIndex, clears: Option<&RunId>) {
        if let Some(run) = clears {
            let then = Pending::Acknowledge(run.clone());
            self.commit(index, vec![Change::Disarm(run.clone())], Rank::Finish, then);
        }
    }

    /// A period that was on its way will not run any more: that is its outcome. What `clears`
    /// names goes with the same write, or a crash in between would leave the period without one.
    pub(super) fn never_started(
        &mut self,
        now: Now,
        index: JobIndex,
        nominal: UtcSecond,
        reason: Reason,
        clears: Option<&RunId>,
    ) {
        let definition = self.jobs[index.at()].definition.clone();
        let chosen = definition.and_then(|d| d.job.timing.placement().decide(nominal).ok()?.chosen);
        let unrun = Unrun { nominal, chosen, outcome: Outcome::Missed, reason, stretch: None };
        self.handle_period(now, index, unrun, clears);
    }

    fn log_decision(&mut self, index: JobIndex, decision: &Decision) {
        let job = &self.jobs[index.at()];
        let Some(definition) = job.definition.clone() else { return };
        let mut entry = Entry::new(Level::Info, "decision")
            .of(&job.identity)
            .period(&PeriodRef::Period(decision.nominal));
        entry.decision = Some((definition, *decision));
        self.log(entry);
    }

    /// Puts the job into the queue for its next period.
    pub(super) fn plan_next(&mut self, now: Now, index: JobIndex) {
        let job = &mut self.jobs[index.at()];
        let next = job
            .definition
            .as_ref()
            .and_then(|definition| definition.job.timing.due_after(now.wall).next())
            .map(|decision| decision.due());
        if let Some(old) = job.due.take() {
            self.due.remove(&(old, index));
        }
        let job = &mut self.jobs[index.at()];
        job.due = next;
        if let Some(at) = next {
            self.due.insert((at, index));
        }
    }

    pub(super) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }
}
