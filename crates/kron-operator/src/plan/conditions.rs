//! The five conditions, always all of them, so that `kubectl wait` finds each.

use kron_core::{Decision, Outcome};

use super::{Definition, Draft, NoteKind};
use crate::resource::{Condition, ConditionKind};

impl Draft<'_> {
    pub(super) fn set_conditions(&mut self, definition: &Definition, coming: Option<&Decision>) {
        // What another leader met is believed until a Job is made, or the spec is another.
        let met = self.status.condition(ConditionKind::SchedulingError).filter(|condition| {
            let made = self.notes.iter().any(|note| note.kind == NoteKind::Created);
            condition.is_true()
                && !made
                && condition.observed_generation == Some(self.subject.generation)
        });
        let met = met.map(|condition| condition.message.clone());
        let trouble = self.subject.trouble.map(str::to_owned).or(met);
        let trouble = trouble.as_deref();
        let suspended = definition.timing.policy.suspend;
        let barren = coming.filter(|decision| decision.chosen.is_none());
        let last = self.status.last.as_ref();
        let last = last.filter(|last| last.outcome == Outcome::Unschedulable);
        let barren = match (barren, last) {
            (Some(coming), _) => Some(format!(
                "the constraints leave no second of the window of period {}",
                coming.nominal
            )),
            (None, Some(last)) => Some(format!(
                "the constraints left no second of the window of period {}",
                last.period_id
            )),
            (None, None) => None,
        };
        let ready = match (trouble, suspended) {
            (Some(_), _) => (false, "SchedulingError", "the latest Job could not be made"),
            _ if self.is_marked_ahead() => (
                false,
                "HandledInFuture",
                "status.lastHandledPeriod lies in the future, set by a clock that was wrong; nothing \
                 runs before it: delete the KronJob and create it again",
            ),
            (None, true) => (true, "Suspended", "the spec is valid; nothing is started"),
            (None, false) if coming.is_none() => {
                (true, "NeverDue", "the spec is valid, and no period is left to fall due")
            }
            (None, false) => (true, "Scheduled", "the spec is valid and its periods are scheduled"),
        };
        self.set(ConditionKind::Ready, ready.0, ready.1, ready.2.to_owned());
        self.set(ConditionKind::InvalidSpec, false, "Valid", "the spec is valid".to_owned());
        match trouble {
            Some(trouble) => {
                if !self.holds(ConditionKind::SchedulingError) {
                    self.note(NoteKind::Failed, None, trouble.to_owned());
                }
                self.set(ConditionKind::SchedulingError, true, "JobNotCreated", trouble.to_owned());
            }
            None => self.set(
                ConditionKind::SchedulingError,
                false,
                "NoError",
                "Jobs can be made".to_owned(),
            ),
        }
        match barren {
            Some(text) => self.set(ConditionKind::Unschedulable, true, "NoCandidate", text),
            None => self.set(
                ConditionKind::Unschedulable,
                false,
                "Schedulable",
                "the constraints leave time".to_owned(),
            ),
        }
        let (reason, text) = if suspended {
            ("Suspended", "spec.policy.suspend is true")
        } else {
            ("NotSuspended", "spec.policy.suspend is false")
        };
        self.set(ConditionKind::Suspended, suspended, reason, text.to_owned());
    }

    pub(super) fn set_invalid(&mut self, why: &str) {
        let known = self
            .status
            .condition(ConditionKind::InvalidSpec)
            .is_some_and(|condition| condition.is_true() && condition.message == why);
        if !known {
            self.note(NoteKind::Invalid, None, why.to_owned());
        }
        self.set(ConditionKind::Ready, false, "InvalidSpec", "the spec is not valid".to_owned());
        self.set(ConditionKind::InvalidSpec, true, "InvalidSpec", why.to_owned());
        let unknown = "the spec is not valid".to_owned();
        self.set(ConditionKind::SchedulingError, false, "InvalidSpec", unknown.clone());
        self.set(ConditionKind::Unschedulable, false, "InvalidSpec", unknown.clone());
        self.set(ConditionKind::Suspended, false, "InvalidSpec", unknown);
    }

    fn holds(&self, kind: ConditionKind) -> bool {
        self.status.condition(kind).is_some_and(Condition::is_true)
    }

    fn set(&mut self, kind: ConditionKind, holds: bool, reason: &str, message: String) {
        let status = if holds { "True" } else { "False" };
        let mut condition = Condition {
            kind,
            status: status.to_owned(),
            last_transition_time: self.now,
            reason: reason.to_owned(),
            message,
            observed_generation: Some(self.subject.generation),
        };
        let conditions = &mut self.status.conditions;
        match conditions.iter_mut().find(|known| known.kind == kind) {
            Some(known) => {
                if known.status == condition.status {
                    condition.last_transition_time = known.last_transition_time;
                }
                *known = condition;
            }
            None => conditions.push(condition),
        }
    }
}
