//! Why nothing is recorded about a period.

use kron_core::{Reason, UtcSecond};
use kron_operator::resource::{ConditionKind, RECENT_MAX};
use krond::api::view::WhyView;

use super::Facts;
use crate::plugin::kronjobs::MarkAhead;
use crate::text::duration;

impl Facts<'_, '_> {
    /// Says why nothing is recorded, in the order in which the operator asks; and whether that is
    /// known at all.
    pub(super) fn tell_absence(
        &self,
        nominal: UtcSecond,
        due: UtcSecond,
        view: &mut WhyView,
    ) -> bool {
        let none = |reason: Reason, view: &mut WhyView| {
            view.answer = "none".to_owned();
            view.reason = Some(reason.to_string());
        };
        let due_by = |moment: Option<UtcSecond>| moment.filter(|moment| due <= *moment);
        if !self.has_period(nominal) {
            view.answer = "unknown".to_owned();
            return false;
        }
        let suspended = self.timing.is_some_and(|timing| timing.policy.suspend);
        let mark = self.kronjob.mark_ahead(self.now).filter(|mark| nominal <= mark.handled);
        if let Some(mark) = mark.filter(|_| due > self.now) {
            return tell_mark(mark, due, view);
        }
        if due > self.now {
            view.answer = "waiting".to_owned();
            let ahead = duration(due.since(self.now));
            view.sentences.push(format!("It is not yet due: that is in {ahead}."));
            if suspended {
                view.reason = Some(Reason::Suspended.to_string());
                view.sentences.push(
                    "The KronJob is suspended: unless that is lifted before, it does not run."
                        .to_owned(),
                );
            }
            return true;
        }
        if let Some(created) = due_by(self.kronjob.metadata.creation_timestamp) {
            view.sentences.push(format!(
                "It fell due before the KronJob was created, at {created}; a new one never runs \
                 the past."
            ));
            none(Reason::DueBeforeCreation, view);
            return true;
        }
        if suspended {
            let since = self.status.suspended_at;
            view.sentences.push(match since {
                Some(since) if due < since => {
                    format!("The KronJob is suspended since {since}, which is after it fell due.")
                }
                Some(since) => format!("The KronJob is suspended since {since}."),
                None => "The KronJob is suspended.".to_owned(),
            });
            if since.is_none_or(|since| since <= due) {
                view.sentences.push("What falls due meanwhile is never made up for.".to_owned());
                none(Reason::Suspended, view);
                return true;
            }
        }
        if let Some(resumed) = due_by(self.status.resumed_at) {
            view.sentences.push(format!(
                "It fell due before a suspension was lifted, at {resumed}; what falls due while \
                 suspended is never made up for."
            ));
            none(Reason::DueWhileSuspended, view);
            return true;
        }
        if let Some(from) = due_by(self.status.effective_from) {
            view.definition_changed_at = Some(from);
            view.sentences.push(format!(
                "The present schedule took effect at {from}, after that; an edit never runs the \
                 past."
            ));
            none(Reason::DefinitionChanged, view);
            return true;
        }
        if let Some(mark) = mark {
            return tell_mark(mark, due, view);
        }
        if self.status.last_handled_period.is_some_and(|handled| nominal <= handled) {
            view.answer = "unknown".to_owned();
            view.reason = Some(Reason::AlreadyHandled.to_string());
            view.sentences.push(format!(
                "It was handled; of the outcomes only the latest {RECENT_MAX} are kept, and its \
                 Job is not there any more. The log of the operator may have it."
            ));
            return false;
        }
        self.tell_pending(due, view);
        true
    }

    /// It is due, and the operator has said nothing about it.
    fn tell_pending(&self, due: UtcSecond, view: &mut WhyView) {
        view.answer = "starting".to_owned();
        let late = self.now.since(due);
        view.sentences.push(format!(
            "It fell due {} ago, and the operator has not recorded anything about it.",
            duration(late)
        ));
        if let Some(since) = self.status.next.as_ref().and_then(|next| next.replacing_since) {
            view.sentences.push(format!("Since {since} active Jobs are removed to make room."));
        }
        if let Some(condition) = self
            .status
            .condition(ConditionKind::SchedulingError)
            .filter(|condition| condition.is_true())
        {
            view.answer = "failing".to_owned();
            view.sentences.push(format!("Its Job could not be made: {}.", condition.message));
        }
        let Some(timing) = self.timing else { return };
        let deadline = timing.policy.deadline;
        let last = due.saturating_add(deadline.get_signed());
        view.sentences.push(if last < self.now {
            format!(
                "Its deadline of {deadline} passed at {last}: when the operator is back, the \
                 period will be missed."
            )
        } else {
            format!("Its deadline of {deadline} lasts until {last}.")
        });
    }
}

/// Says that a period counts as handled that nobody may have handled; and whether that is known.
fn tell_mark(mark: MarkAhead, due: UtcSecond, view: &mut WhyView) -> bool {
    view.sentences.push("It counts as handled, by a mark that lies in the future.".to_owned());
    view.reason = Some("the mark of what is handled lies in the future".to_owned());
    // What fell due before the mark was noticed may have run, and its record may be gone.
    let is_known = due > mark.since;
    view.answer = if is_known { "none" } else { "unknown" }.to_owned();
    is_known
}
