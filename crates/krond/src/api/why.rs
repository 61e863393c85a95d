//! Why something ran, or did not: one period or run by hand, what was decided about it, what became
//! of it, and what the daemon went through meanwhile.
//!
//! [`explain`] is a pure function of what is known: definition, document, the daemon's log of its
//! own life, and the time. It never answers with silence: where nothing is recorded it says why
//! nothing is, and where it cannot know it says that.
//!
//! [`outcome`] tells what is recorded, [`absence`] why nothing is, [`life`] what the daemon went
//! through, [`words`] are the words for all of it.

mod absence;
mod life;
mod outcome;
mod words;

use kron_core::{Decision, DecisionRecord, Timing, UtcSecond};
use kron_state::{Document, Epoch, HistoryEntry, PeriodRef};

use self::words::{instant, signed_length};
use super::describe;
use super::view::WhyView;
use crate::machine::JobView;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The present.
    Now,
    /// A time; where it is exactly a period's nominal time, that period.
    At(UtcSecond),
    /// A run by hand.
    Manual(Box<str>),
}

impl Asked {
    /// A time, the id of a period, or the name of a run by hand.
    pub(super) fn parse(text: &str) -> Result<Asked, String> {
        Ok(match PeriodRef::try_from(text.to_owned())? {
            PeriodRef::Period(at) => Asked::At(at),
            PeriodRef::Manual(name) => Asked::Manual(name),
        })
    }
}

/// Everything an explanation is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) identity: &'a str,
    /// The job as the machine sees it; `None` when it is not defined and does not run.
    pub(super) job: Option<&'a JobView>,
    /// What is recorded about it; empty when nothing is.
    pub(super) document: &'a Document,
    /// The daemon's life.
    pub(super) epochs: &'a [Epoch],
    /// Since when the clock is not believed.
    pub(super) clock_held_since: Option<UtcSecond>,
    /// How many entries a history keeps.
    pub(super) history_max: u32,
    pub(super) now: UtcSecond,
}

/// The period or run that an explanation is about.
#[derive(Clone, Copy, Debug)]
struct Subject<'a> {
    nominal: UtcSecond,
    /// What the present definition decides, if it has the period and its record does not contradict.
    decision: Option<Decision>,
    /// What is recorded, about it alone or about a stretch it belongs to.
    entry: Option<&'a HistoryEntry>,
}

/// Explains what `asked` is about.
pub(super) fn explain(facts: &Facts<'_>, asked: &Asked) -> WhyView {
    let mut view = WhyView {
        identity: facts.identity.to_owned(),
        at: match asked {
            Asked::Now => Some(facts.now),
            Asked::At(at) => Some(*at),
            Asked::Manual(_) => None,
        },
        ..WhyView::default()
    };
    match asked {
        Asked::Manual(name) => facts.explain_manual(name, &mut view),
        Asked::Now | Asked::At(_) => match facts.subject(asked) {
            Some(subject) => facts.explain_period(&subject, &mut view),
            None => facts.explain_nothing(asked, &mut view),
        },
    }
    if facts.timing().is_none() {
        view.sentences.push("The job is not defined any more.".to_owned());
    }
    if matches!(asked, Asked::Now) {
        facts.tell_next(&mut view);
    }
    view
}

impl<'a> Facts<'a> {
    fn timing(&self) -> Option<&'a Timing> {
        Some(&self.job?.definition.as_ref()?.job.timing)
    }

    /// The period that a time is about.
    fn subject(&self, asked: &Asked) -> Option<Subject<'a>> {
        let at = match asked {
            Asked::At(at) => {
                if self.entry_of(*at).is_some() || self.has_period(*at) {
                    return Some(self.subject_at(*at));
                }
                *at
            }
            _ => self.now,
        };
        let decided = self.timing().and_then(|timing| timing.current_at(at));
        let recorded = self
            .document
            .history
            .iter()
            .filter_map(|entry| Some((entry_due(entry)?, entry)))
            .filter(|(due, _)| *due <= at)
            .max_by_key(|(due, _)| *due)
            .and_then(|(_, entry)| entry.last_period.or(entry.nominal_time));
        // Before the present definition took effect another one decided, and only the history
        // knows what.
        let before_present = self.effective_from().is_some_and(|from| at <= from);
        let nominal = match (decided, recorded) {
            (Some(decision), Some(_)) if !before_present => decision.nominal,
            (_, Some(recorded)) => recorded,
            (Some(decision), None) => decision.nominal,
            (None, None) => return None,
        };
        Some(self.subject_at(nominal))
    }

    fn subject_at(&self, nominal: UtcSecond) -> Subject<'a> {
        let entry = self.entry_of(nominal);
        let decision = self
            .timing()
            .filter(|_| self.has_period(nominal))
            .and_then(|timing| timing.placement().decide(nominal).ok())
            .filter(|decision| {
                entry.is_none_or(|entry| {
                    entry.count.is_some() || entry.chosen_time == decision.chosen
                })
            });
        Subject { nominal, decision, entry }
    }

    /// Whether the present definition has a period with this nominal time.
    fn has_period(&self, nominal: UtcSecond) -> bool {
        self.timing()
            .is_some_and(|timing| timing.schedule().prev_at_or_before(nominal) == Some(nominal))
    }

    /// What is recorded about a period, alone or in a stretch.
    fn entry_of(&self, nominal: UtcSecond) -> Option<&'a HistoryEntry> {
        // An entry without an outcome tells of a mark that was moved, not of a period.
        let mut outcomes = self.document.history.iter().filter(|entry| entry.outcome.is_some());
        let alone = outcomes
            .clone()
            .rfind(|entry| entry.period == PeriodRef::Period(nominal) && entry.count.is_none());
        alone.or_else(|| {
            outcomes.rfind(|entry| {
                let (Some(first), Some(last)) = (entry.nominal_time, entry.last_period) else {
                    return false;
                };
                first == nominal
                    || last == nominal
                    || (first < nominal && nominal < last && self.has_period(nominal))
            })
        })
    }

    fn effective_from(&self) -> Option<UtcSecond> {
        self.job?.past.effective_from
    }

    fn explain_period(&self, subject: &Subject<'a>, view: &mut WhyView) {
        view.period_id = Some(subject.nominal.to_string());
        self.tell_decision(subject, view);
        match subject.entry {
            Some(entry) => self.tell_outcome(subject, entry, view),
            None => self.tell_absence(subject, view),
        }
    }

    fn explain_manual(&self, name: &str, view: &mut WhyView) {
        view.period_id = Some(name.to_owned());
        let period = PeriodRef::Manual(name.into());
        let entry = self.document.history.iter().rfind(|entry| entry.period == period);
        if let Some(entry) = entry {
            let asked = entry.chosen_time.map_or(String::new(), |at| format!(" at {at}"));
            view.sentences.push(format!("Somebody asked for this run by hand{asked}."));
            self.tell_run(entry, view);
        } else if self.tell_active(&period, view) {
            view.sentences.insert(0, "Somebody asked for this run by hand.".to_owned());
        } else {
            view.answer = "unknown".to_owned();
            view.sentences.push(format!(
                "Nothing is recorded about `{name}`: it was never started, or the history, which \
                 keeps {} entries, no longer reaches back to it.",
                self.history_max
            ));
        }
    }

    fn explain_nothing(&self, asked: &Asked, view: &mut WhyView) {
        view.answer = "none".to_owned();
        let at = match asked {
            Asked::At(at) => *at,
            _ => self.now,
        };
        view.sentences.push(match self.timing() {
            Some(_) => format!("No period of the job had fallen due at {at}."),
            None => format!("Nothing is recorded about the job at {at} or before."),
        });
    }

    fn tell_decision(&self, subject: &Subject<'a>, view: &mut WhyView) {
        let nominal = subject.nominal;
        let (Some(decision), Some(timing)) = (&subject.decision, self.timing()) else {
            let chosen = subject.entry.and_then(|entry| entry.chosen_time);
            view.sentences.push(match chosen {
                Some(chosen) => format!("Period {nominal} was due at {chosen}."),
                None => format!("Period {nominal} is known from the history only."),
            });
            if self.timing().is_some() {
                view.definition_changed_at = self.effective_from();
                view.sentences.push(match self.effective_from() {
                    Some(from) => format!(
                        "It was decided by an earlier definition; the present one took effect at \
                         {from}."
                    ),
                    None => "The present definition does not decide it so.".to_owned(),
                });
            }
            return;
        };
        let placement = timing.placement();
        let zone = placement.zone();
        view.decision = Some(DecisionRecord::of(placement, decision));
        view.nominal_local = Some(zone.wall_at(nominal).to_string());
        view.chosen_local = decision.chosen.map(|chosen| zone.wall_at(chosen).to_string());
        let be = if decision.due() > self.now { "is" } else { "was" };
        let window = (decision.window_start != decision.window_end).then(|| {
            format!(" of its window {} to {}", decision.window_start, decision.window_end)
        });
        view.sentences.push(match decision.chosen {
            Some(chosen) => {
                let window = window.map_or(String::new(), |window| format!(", a second{window}"));
                format!("Period {nominal} {be} due at {}{window}.", instant(chosen, zone))
            }
            None => format!(
                "Period {nominal} has no time to run at: its constraints allow no candidate{}.",
                window.unwrap_or_default()
            ),
        });
    }

    /// What comes next, for those who ask about the present.
    fn tell_next(&self, view: &mut WhyView) {
        let (Some(job), Some(timing)) = (self.job, self.timing()) else { return };
        let Some(next) = &job.next else {
            view.sentences.push("The schedule has no further period.".to_owned());
            return;
        };
        view.next = Some(DecisionRecord::of(timing.placement(), next));
        // It may be what all of this is about.
        if view.period_id.as_deref() == Some(&next.period_id()) {
            return;
        }
        let due = instant(next.due(), timing.placement().zone());
        let ahead = signed_length(next.due().since(self.now));
        view.sentences.push(match (next.chosen, job.suspension) {
            (None, _) => format!("The next period, {}, is unschedulable.", next.nominal),
            (Some(_), None) => {
                format!("The next period is {}, due at {due}, in {ahead}.", next.nominal)
            }
            (Some(_), Some(suspension)) => format!(
                "The next period would be {}, due at {due}, in {ahead}; but the job is suspended \
                 by {}.",
                next.nominal,
                words::suspender(suspension)
            ),
        });
    }

    /// Whether a run of the period is on its way or active; if so, that is the answer.
    fn tell_active(&self, period: &PeriodRef, view: &mut WhyView) -> bool {
        let active = self.job.and_then(|job| job.active.iter().find(|run| run.period == *period));
        let recorded = self.document.active().find(|active| active.period == *period);
        let (run, started_at, is_running) = match (active, recorded) {
            (Some(run), _) => (&run.run, run.started_at, run.stage != "starting"),
            (None, Some(active)) => (&active.run, Some(active.started_at), active.executed),
            (None, None) => return false,
        };
        let since = started_at.map_or(String::new(), |at| format!(" since {at}"));
        if is_running {
            view.answer = "running".to_owned();
            view.sentences.push(format!("It is running{since}, as run {run}."));
        } else {
            view.answer = "starting".to_owned();
            view.sentences.push(format!("It is being started{since}, as run {run}."));
        }
        true
    }
}

/// When what an entry records fell due, as far as it says; nothing for a run by hand or a moved mark.
fn entry_due(entry: &HistoryEntry) -> Option<UtcSecond> {
    entry.outcome?;
    entry.nominal_time?;
    entry.last_period.or(entry.chosen_time).or(entry.nominal_time)
}

#[cfg(test)]
mod tests;
