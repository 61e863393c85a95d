//! From what a cluster knows about a period to the answer.
//!
//! [`tell`] is a pure function of the KronJob, its Jobs and the time. It never answers with silence:
//! where nothing is recorded it says why nothing is, and where it cannot know it says that.

mod absence;

use kron_core::{Decision, DecisionRecord, Outcome, Timing, UtcSecond};
use kron_operator::resource::{ActiveJob, KronJobStatus, LABEL_PERIOD, Record};
use krond::api::view::WhyView;

use super::JobObject;
use crate::plugin::kronjobs::KronJob;
use crate::plugin::period::of_label;
use crate::text::{count, duration, until};

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The present.
    Now,
    /// A time; where it is exactly a period's nominal time, that period.
    At(UtcSecond),
}

/// The answer, and what it is made of.
pub(super) struct Story<'a> {
    pub(super) view: WhyView,
    /// Whether anything is known of the period.
    pub(super) is_known: bool,
    /// The Job of the period.
    pub(super) job: Option<&'a JobObject>,
    /// The Jobs that are under way.
    pub(super) active: Vec<String>,
}

/// Tells what became of a period, and why.
pub(super) fn tell<'a>(
    kronjob: &KronJob,
    jobs: &'a [JobObject],
    asked: Asked,
    now: UtcSecond,
) -> Story<'a> {
    let status = kronjob.status.clone().unwrap_or_default();
    let at = match asked {
        Asked::Now => now,
        Asked::At(at) => at,
    };
    let mut view =
        WhyView { identity: kronjob.identity.clone(), at: Some(at), ..WhyView::default() };
    let facts = Facts { kronjob, timing: kronjob.timing.as_ref().ok(), status: &status, jobs, now };
    let mut story = match facts.period_at(at, asked) {
        Some(nominal) => facts.tell_period(nominal, view),
        None => {
            view.answer = "none".to_owned();
            facts.tell_no_period(at, &mut view);
            Story { view, is_known: false, job: None, active: Vec::new() }
        }
    };
    story.active = status.active.iter().map(|active| active.name.clone()).collect();
    facts.tell_operator(&mut story.view);
    if asked == Asked::Now {
        facts.tell_next(&mut story.view);
    }
    story
}

struct Facts<'f, 'a> {
    kronjob: &'f KronJob,
    timing: Option<&'f Timing>,
    status: &'f KronJobStatus,
    jobs: &'a [JobObject],
    now: UtcSecond,
}

impl<'a> Facts<'_, 'a> {
    /// The period that a time is about.
    fn period_at(&self, at: UtcSecond, asked: Asked) -> Option<UtcSecond> {
        let is_exact = matches!(asked, Asked::At(_))
            && (self.has_period(at) || self.record_of(at).is_some() || self.job_of(at).is_some());
        if is_exact {
            return Some(at);
        }
        let decided = self.timing.and_then(|timing| timing.current_at(at));
        let recorded = self
            .records()
            .filter(|record| record.chosen_time.unwrap_or(record.nominal_time) <= at)
            .map(|record| record.period_id)
            .max();
        // Before the present definition took effect another one decided.
        let is_before = self.status.effective_from.is_some_and(|from| at <= from);
        match (decided, recorded) {
            (Some(decision), Some(_)) if !is_before => Some(decision.nominal),
            (_, Some(recorded)) => Some(recorded),
            (Some(decision), None) => Some(decision.nominal),
            (None, None) => None,
        }
    }

    fn has_period(&self, nominal: UtcSecond) -> bool {
        self.timing
            .is_some_and(|timing| timing.schedule().prev_at_or_before(nominal) == Some(nominal))
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.status.recent.iter().chain(&self.status.last)
    }

    /// What is recorded about a period, alone or in a stretch.
    fn record_of(&self, nominal: UtcSecond) -> Option<&Record> {
        let alone = self.records().find(|record| record.period_id == nominal);
        alone.or_else(|| {
            self.records().find(|record| {
                let first = record.first_period_id.unwrap_or(record.period_id);
                first <= nominal && nominal <= record.period_id && self.has_period(nominal)
            })
        })
    }

    /// The Job that was made for a period, which its label tells.
    fn job_of(&self, nominal: UtcSecond) -> Option<&'a JobObject> {
        self.jobs.iter().find(|job| {
            let label = job.metadata.labels.get(LABEL_PERIOD);
            label.and_then(|label| of_label(label)) == Some(nominal)
        })
    }

    fn active_of(&self, nominal: UtcSecond) -> Option<&ActiveJob> {
        self.status.active.iter().find(|active| active.period_id == Some(nominal))
    }

    fn tell_period(&self, nominal: UtcSecond, mut view: WhyView) -> Story<'a> {
        view.period_id = Some(nominal.to_string());
        let record = self.record_of(nominal);
        let decision = self
            .timing
            .filter(|_| self.has_period(nominal))
            .and_then(|timing| timing.placement().decide(nominal).ok())
            .filter(|decision| {
                record.is_none_or(|it| it.count.is_some() || it.chosen_time == decision.chosen)
            });
        self.tell_decision(nominal, decision.as_ref(), record, &mut view);
        let job = self.job_of(nominal);
        let mut is_known = true;
        match (record, job) {
            (Some(record), job) => self.tell_record(record, job, &mut view),
            (None, Some(job)) => {
                view.answer = Outcome::Executed.as_str().to_owned();
                view.sentences.push(match self.active_of(nominal) {
                    Some(_) => "It is under way.".to_owned(),
                    None => "Its Job is there; the status does not tell of it.".to_owned(),
                });
                tell_job(job, &mut view);
            }
            (None, None) => {
                let due = decision.map_or(nominal, |decision| decision.due());
                is_known = self.tell_absence(nominal, due, &mut view);
            }
        }
        Story { view, is_known, job, active: Vec::new() }
    }

    fn tell_decision(
        &self,
        nominal: UtcSecond,
        decision: Option<&Decision>,
        record: Option<&Record>,
        view: &mut WhyView,
    ) {
        let (Some(decision), Some(timing)) = (decision, self.timing) else {
            view.sentences.push(match record.and_then(|record| record.chosen_time) {
                Some(chosen) => format!("Period {nominal} was due at {chosen}."),
                None => format!("Period {nominal} is not one of the present schedule."),
            });
            if let (Some(from), Some(_)) = (self.status.effective_from, record) {
                view.definition_changed_at = Some(from);
                view.sentences.push(format!(
                    "It was decided by an earlier spec; the present one took effect at {from}."
                ));
            }
            return;
        };
        let placement = timing.placement();
        let zone = placement.zone();
        view.decision = Some(DecisionRecord::of(placement, decision));
        view.nominal_local = Some(zone.wall_at(nominal).to_string());
        view.chosen_local = decision.chosen.map(|chosen| zone.wall_at(chosen).to_string());
        let be = if decision.due() > self.now { "is" } else { "was" };
        view.sentences.push(match decision.chosen {
            Some(chosen) => format!("Period {nominal} {be} due at {chosen}."),
            None => format!(
                "Period {nominal} has no time to run at: its constraints allow no candidate."
            ),
        });
    }

    fn tell_record(&self, record: &Record, job: Option<&JobObject>, view: &mut WhyView) {
        view.answer = record.outcome.as_str().to_owned();
        view.reason.clone_from(&record.reason);
        let recorded = record.recorded_at;
        if let (Some(stretch), Some(first)) = (record.count, record.first_period_id) {
            view.sentences.push(format!(
                "It is one of {} from {first} to {} that share their fate.",
                count(stretch.unsigned_abs(), "period"),
                record.period_id
            ));
        }
        let reason = record.reason.as_ref().map_or(String::new(), |it| format!(": {it}"));
        if record.outcome != Outcome::Executed {
            let outcome = record.outcome;
            view.sentences.push(format!("It was {outcome}{reason}, as recorded at {recorded}."));
            return;
        }
        let named = record.job.as_deref().unwrap_or("a Job");
        let late = record.chosen_time.map(|chosen| recorded.since(chosen));
        view.late_seconds = late;
        view.sentences.push(match late {
            Some(late) if late > 0 => {
                format!("Job {named} was made by {recorded}, {} after that.", duration(late))
            }
            _ => format!("Job {named} was made in time."),
        });
        match (job, record.result.as_deref()) {
            (Some(job), _) => tell_job(job, view),
            (None, Some(result)) => {
                view.sentences.push(format!("It has {result}; it is not kept any more."));
            }
            (None, None) => view.sentences.push(
                "The Job is not there any more, and nobody recorded how it ended: somebody has \
                 deleted it, or it is kept from you."
                    .to_owned(),
            ),
        }
    }

    fn tell_no_period(&self, at: UtcSecond, view: &mut WhyView) {
        match &self.kronjob.timing {
            Ok(_) => view.sentences.push(format!("No period fell due at or before {at}.")),
            Err(_) => view.sentences.push("Nothing is recorded.".to_owned()),
        }
    }

    /// What keeps the operator from doing what the spec says.
    fn tell_operator(&self, view: &mut WhyView) {
        if let Err(faults) = &self.kronjob.timing {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            view.sentences.push(format!("The spec is invalid: {}.", faults.join("; ")));
        }
        if let Some(fault) = &self.kronjob.status_fault {
            view.sentences.push(format!("The status cannot be read: {fault}."));
            return;
        }
        let generation = self.kronjob.metadata.generation;
        match self.status.observed_generation {
            None => view.sentences.push(
                "The operator has never looked at this KronJob: does it run, and is the namespace \
                 one of those it looks at?"
                    .to_owned(),
            ),
            Some(seen) if seen != generation => view.sentences.push(format!(
                "The operator has not looked at the present spec: it has seen generation {seen}, \
                 not {generation}."
            )),
            Some(_) => {}
        }
        if let Some(mark) = self.kronjob.mark_ahead(self.now) {
            view.sentences.push(format!(
                "Nothing runs before {}: that is `status.lastHandledPeriod`, the mark of what is \
                 handled, and a wrong clock has set it. Delete the KronJob and create it again.",
                mark.handled
            ));
        }
        if !self.status.active.is_empty() {
            let active: Vec<&str> =
                self.status.active.iter().map(|active| active.name.as_str()).collect();
            // Of many, the status names some.
            let all = usize::try_from(self.status.active_count).unwrap_or_default();
            let more = match all.saturating_sub(active.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            view.sentences.push(format!("Under way: {}{more}.", active.join(", ")));
        }
    }

    fn tell_next(&self, view: &mut WhyView) {
        let Some(timing) = self.timing else { return };
        let next = match self.kronjob.mark_ahead(self.now) {
            Some(mark) => timing.periods_after(mark.handled).find(|it| it.due() > self.now),
            None => timing.due_after(self.now).next(),
        };
        let Some(next) = next else {
            view.sentences.push("The schedule has no further period.".to_owned());
            return;
        };
        view.next = Some(DecisionRecord::of(timing.placement(), &next));
        let (nominal, due) = (next.nominal, next.due());
        let ahead = until(due, self.now);
        view.sentences.push(match (next.chosen, timing.policy.suspend) {
            (None, _) => format!("The next period, {nominal}, is unschedulable."),
            (_, false) => format!("The next period is {nominal}, due at {due}, in {ahead}."),
            (_, true) => format!(
                "The next period would be {nominal}, due at {due}; but the KronJob is suspended."
            ),
        });
    }
}

fn tell_job(job: &JobObject, view: &mut WhyView) {
    let name = &job.metadata.name;
    let status = &job.status;
    let state = job.state();
    let mut sentence = format!("Job {name} is {state}");
    if let Some(failed) = job.condition("Failed") {
        let reason = failed.reason.as_deref().unwrap_or("no reason given");
        sentence = format!("Job {name} has failed: {reason}");
        if let Some(message) = failed.message.as_deref().filter(|message| !message.is_empty()) {
            sentence.push_str(&format!(" ({message})"));
        }
    } else if job.condition("Complete").is_some() {
        sentence = format!("Job {name} has succeeded");
        if let Some(at) = &status.completion_time {
            sentence.push_str(&format!(" at {at}"));
        }
    } else if let Some(at) = &status.start_time {
        sentence.push_str(&format!(", since {at}"));
    }
    view.sentences.push(format!("{sentence}."));
    if status.failed > 0 && job.condition("Complete").is_none() {
        view.sentences
            .push(format!("{} failed so far.", count(status.failed.unsigned_abs().into(), "pod")));
    }
    view.sentences.push(format!(
        "`kubectl describe job {name} --namespace {}` shows its pods.",
        job.metadata.namespace
    ));
}

#[cfg(test)]
mod tests;
