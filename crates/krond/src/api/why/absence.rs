//! Why nothing is recorded about a period.
//!
//! The order of the questions is that of [`kron_core::judge`], which has decided.

use kron_core::{Reason, UtcSecond};
use kron_state::PeriodRef;

use super::life::{self, Span};
use super::words::{instant, length, suspender};
use super::{Facts, Subject, WhyView};

impl<'a> Facts<'a> {
    pub(super) fn tell_absence(&self, subject: &Subject<'a>, view: &mut WhyView) {
        let due = subject.decision.map_or(subject.nominal, |decision| decision.due());
        if self.tell_active(&PeriodRef::Period(subject.nominal), view) {
            return;
        }
        let handled = self.document.last_handled.max(self.job.and_then(|j| j.past.last_handled));
        let is_passed = handled.is_some_and(|handled| subject.nominal <= handled);
        if due > self.now {
            self.tell_waiting(due, handled.filter(|_| is_passed), view);
            return;
        }
        if is_passed && self.document.last_handled.is_none_or(|mark| mark < subject.nominal) {
            self.tell_unwritten(subject, view);
            return;
        }
        let due_by = |moment: Option<UtcSecond>| moment.is_some_and(|moment| due <= moment);
        let past = self.job.map(|job| job.past).unwrap_or_default();
        if due_by(past.created_at) {
            let created = past.created_at.unwrap_or(due);
            view.sentences.push(format!(
                "It fell due before the job was created: krond first saw the job at {created}, and \
                 a new job never runs the past."
            ));
            no_outcome(Reason::DueBeforeCreation, view);
            return;
        }
        if let Some(span) = self.suspension_at(due, is_passed) {
            self.tell_suspension(&span, view);
            view.sentences.push(
                "A suspended job handles nothing, and what falls due meanwhile is not caught up."
                    .to_owned(),
            );
            let over = span.to.is_some();
            no_outcome(if over { Reason::DueWhileSuspended } else { Reason::Suspended }, view);
            return;
        }
        if is_passed {
            self.tell_passed(subject, due, view);
            return;
        }
        self.tell_pending(subject, due, view);
    }

    /// It is not due yet.
    fn tell_waiting(&self, due: UtcSecond, passed: Option<UtcSecond>, view: &mut WhyView) {
        view.answer = "waiting".to_owned();
        let zone = self.timing().map(|timing| timing.placement().zone());
        let when = zone.map_or_else(|| due.to_string(), |zone| instant(due, zone));
        view.sentences.push(format!(
            "It is not yet due: that is in {}, at {when}.",
            length(due.since(self.now))
        ));
        if let Some(handled) = passed {
            view.answer = "none".to_owned();
            view.reason = Some(Reason::AlreadyHandled.to_string());
            view.sentences.push(format!(
                "It will not run: period {handled} counts as handled, and the mark never moves \
                 back by itself. `kron state reset` moves it, with the daemon stopped."
            ));
            self.tell_resets(UtcSecond::MIN, view);
        }
        if let Some(suspension) = self.job.and_then(|job| job.suspension) {
            view.reason = Some(Reason::Suspended.to_string());
            view.sentences.push(format!(
                "The job is suspended by {}: unless that is lifted before, it does not run.",
                suspender(suspension)
            ));
        }
    }

    /// The machine has handled it, and its document does not say so yet.
    fn tell_unwritten(&self, subject: &Subject<'a>, view: &mut WhyView) {
        let period = PeriodRef::Period(subject.nominal);
        let last = self.job.and_then(|job| job.last.as_ref()).filter(|last| last.period == period);
        let what = match last {
            Some(last) => {
                view.answer = last.outcome.to_string();
                view.reason = last.reason.as_deref().map(str::to_owned);
                let reason = last.reason.as_ref().map_or(String::new(), |it| format!(": {it}"));
                format!("It was {}{reason}", last.outcome)
            }
            None => {
                view.answer = "unknown".to_owned();
                "It was handled a moment ago".to_owned()
            }
        };
        view.sentences.push(format!("{what}; that is being written down at this moment."));
    }

    /// The suspension that a due time falls into, if that is why it has no outcome.
    fn suspension_at(&self, due: UtcSecond, is_passed: bool) -> Option<Span> {
        let by_hand = life::suspended(self.epochs, self.identity);
        let known = by_hand.iter().rfind(|span| span.from.is_some() && span.touches(due, due));
        if let Some(span) = known {
            return Some(span.clone());
        }
        let job = self.job?;
        if let Some(suspension) = job.suspension.filter(|_| !is_passed) {
            let by = suspender(suspension).to_owned();
            return Some(Span { from: None, to: None, by, is_vague: false });
        }
        // What was handled later says nothing about it unless the history would tell.
        let lifted = job.past.resumed_at.filter(|lifted| due <= *lifted)?;
        (!is_passed || self.history_reaches(due)).then(|| Span {
            from: None,
            to: Some(lifted),
            by: "hand or definition".to_owned(),
            is_vague: false,
        })
    }

    /// Whether the history would have an entry of something that happened at `due`.
    fn history_reaches(&self, due: UtcSecond) -> bool {
        self.oldest_entry().is_some_and(|oldest| oldest < due)
    }

    fn oldest_entry(&self) -> Option<UtcSecond> {
        self.document.history.iter().filter_map(|entry| entry.nominal_time).min()
    }

    /// A later period was handled, and this one is not in the history.
    fn tell_passed(&self, subject: &Subject<'a>, due: UtcSecond, view: &mut WhyView) {
        view.answer = "unknown".to_owned();
        view.reason = Some(Reason::AlreadyHandled.to_string());
        let kept = self.document.history.len();
        if !self.history_reaches(subject.nominal) {
            let oldest = self
                .oldest_entry()
                .map_or(String::new(), |oldest| format!("; the oldest is about period {oldest}"));
            view.sentences.push(format!(
                "What became of it is not known any more: the history keeps {} entries, has {kept} \
                 and no longer reaches back that far{oldest}.",
                self.history_max
            ));
        } else if self.effective_from().is_some_and(|from| due <= from) {
            view.definition_changed_at = self.effective_from();
            let from = self.effective_from().unwrap_or(due);
            view.sentences.push(format!(
                "The definition that has this period took effect at {from}, when later periods \
                 were handled already: it was none of the job's periods when it would have been \
                 due."
            ));
        } else {
            view.answer = "none".to_owned();
            view.sentences.push(
                "A later period was handled before it could be judged, and what is handled is never \
                 gone back to."
                    .to_owned(),
            );
        }
        self.tell_down(due, due, view);
        self.tell_clock(due, due, view);
        self.tell_resets(due, view);
    }

    /// It is due, it could run, and it has not been handled.
    fn tell_pending(&self, subject: &Subject<'a>, due: UtcSecond, view: &mut WhyView) {
        let late = length(self.now.since(due));
        let deadline = self.timing().map_or(String::new(), |timing| {
            format!(" Its deadline is {} after its chosen time.", timing.policy.deadline)
        });
        let is_current = self
            .timing()
            .and_then(|timing| timing.current_at(self.now))
            .is_some_and(|current| current.nominal == subject.nominal);
        if let Some((attempts, failure)) = self.job.and_then(|job| job.failing.as_ref())
            && is_current
        {
            view.answer = "failing".to_owned();
            view.reason = Some(failure.message.clone());
            view.sentences.push(format!(
                "It could not be started so far, {late} after its chosen time, and is tried again \
                 until its deadline or the next period.{deadline}"
            ));
            view.sentences.push(format!(
                "Attempt {attempts} failed: {}: {} ({}).",
                failure.operation, failure.message, failure.category
            ));
        } else if let Some(since) = self.clock_held_since {
            view.answer = "waiting".to_owned();
            view.reason = Some("the clock is not believed".to_owned());
            view.sentences.push(format!(
                "Nothing is judged at present: the clock leapt ahead at {since} and is not believed \
                 until it has held for a minute while synchronised, or `kron clock accept`."
            ));
        } else if self.job.is_some_and(|job| job.past.replacing == Some(subject.nominal)) {
            view.answer = "starting".to_owned();
            view.sentences.push("It is about to take the place of an active run.".to_owned());
        } else if self.timing().is_none() {
            view.answer = "none".to_owned();
            view.sentences.push("It was not handled while the job was defined.".to_owned());
        } else {
            view.answer = "unknown".to_owned();
            view.sentences.push(format!(
                "It fell due {late} ago and nothing is recorded about it yet; krond is about to \
                 judge it or to write it down."
            ));
        }
        self.tell_down(due, self.now, view);
    }
}

fn no_outcome(reason: Reason, view: &mut WhyView) {
    view.answer = "none".to_owned();
    view.reason = Some(reason.to_string());
}
