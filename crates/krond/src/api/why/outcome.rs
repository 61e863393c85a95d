//! What is recorded about a period or a run by hand, and what led to it.

use kron_core::{Outcome, Reason, UtcSecond};
use kron_state::{Ending, HistoryEntry, PeriodRef};

use super::words::{count, length};
use super::{Facts, Subject, WhyView, describe, entry_due};

impl<'a> Facts<'a> {
    pub(super) fn tell_outcome(
        &self,
        subject: &Subject<'a>,
        entry: &'a HistoryEntry,
        view: &mut WhyView,
    ) {
        if entry.run.is_some() || entry.outcome == Some(Outcome::Executed) {
            self.tell_run(entry, view);
            let started = entry.started_at.or(entry.completed_at).unwrap_or(self.now);
            if view.late_seconds.is_some_and(|late| late > 0) {
                self.tell_context(due_of(subject, entry), started, view);
            }
            return;
        }
        view.outcome = Some(describe::entry(entry));
        view.reason.clone_from(&entry.reason);
        view.answer = entry.outcome.map_or("unknown", Outcome::as_str).to_owned();
        let found = entry.completed_at.unwrap_or(self.now);
        self.tell_reason(subject, entry, found, view);
        if let (Some(first), Some(last), Some(stretch)) =
            (entry.nominal_time, entry.last_period, entry.count)
        {
            view.sentences.push(format!(
                "It is one of {} from {first} to {last} that were passed over together.",
                count(stretch, "period")
            ));
        }
        self.tell_context(due_of(subject, entry), found, view);
    }

    /// What the daemon went through between two times.
    fn tell_context(&self, from: UtcSecond, to: UtcSecond, view: &mut WhyView) {
        self.tell_down(from, to, view);
        self.tell_clock(from, to, view);
        self.tell_resets(from, view);
    }

    fn tell_reason(
        &self,
        subject: &Subject<'a>,
        entry: &'a HistoryEntry,
        found: UtcSecond,
        view: &mut WhyView,
    ) {
        let reason = entry.reason.as_deref().unwrap_or("no reason is recorded");
        let is = |known: Reason| reason == known.as_str();
        let outcome = view.answer.clone();
        if entry.outcome == Some(Outcome::Unschedulable) {
            view.sentences.push(format!("It is unschedulable: {reason}."));
        } else if reason.starts_with("deadline exceeded") {
            view.sentences.push(self.deadline_words(entry, found));
        } else if is(Reason::Superseded) {
            let next = self.successor(subject, entry);
            view.superseded_by = next;
            let next = next.map_or("a later period".to_owned(), |next| format!("period {next}"));
            view.sentences.push(format!(
                "It was missed: {next} had fallen due when krond came to judge it at {found}, and \
                 nothing is caught up."
            ));
        } else if is(Reason::DefinitionChanged) {
            view.definition_changed_at = self.effective_from();
            let from = self.effective_from().map_or(String::new(), |from| format!(" at {from}"));
            view.sentences.push(format!(
                "It was skipped: the definition changed{from}, after it had fallen due, and an \
                 edit never runs the past."
            ));
        } else if is(Reason::ExecutionActive) {
            view.sentences.push(
                "It was skipped: another run of the job was active, and its policy is `forbid`."
                    .to_owned(),
            );
            self.tell_obstacle(found, view);
        } else if is(Reason::StateLost) {
            view.sentences.push(format!(
                "It counts as missed: what was recorded about the job was found lost at {found}, \
                 and what may have run is not run again."
            ));
        } else if is(Reason::StartStalled) {
            view.sentences.push(
                "It was missed: it could not be started within a minute of being judged, and was \
                 given up."
                    .to_owned(),
            );
        } else {
            view.sentences.push(format!("It was {outcome}: {reason}."));
        }
    }

    fn deadline_words(&self, entry: &HistoryEntry, found: UtcSecond) -> String {
        let late = entry.chosen_time.map_or(String::new(), |chosen| {
            format!(", {} after its chosen time", length(found.since(chosen)))
        });
        let deadline = self.timing().map_or(String::new(), |timing| {
            format!(" (the job's deadline is {} now)", timing.policy.deadline)
        });
        format!(
            "It was missed: it could be judged only at {found}{late}, past its deadline{deadline}."
        )
    }

    /// The period after a subject that was superseded.
    fn successor(&self, subject: &Subject<'a>, entry: &HistoryEntry) -> Option<UtcSecond> {
        let last = entry.last_period.unwrap_or(subject.nominal);
        let decided = self.timing()?.schedule().next_after(last)?;
        // The present definition may have come later than this.
        self.effective_from()
            .is_none_or(|from| entry_due(entry).is_some_and(|due| due > from))
            .then_some(decided)
    }

    /// The runs that stood in the way at `found`.
    fn tell_obstacle(&self, found: UtcSecond, view: &mut WhyView) {
        let obstacles = self.document.history.iter().filter(|entry| {
            entry.started_at.is_some_and(|started| started <= found)
                && entry.completed_at.is_none_or(|completed| completed >= found)
        });
        for entry in obstacles.filter(|entry| entry.run.is_some()) {
            let run = entry.run.as_ref().map_or(String::new(), ToString::to_string);
            let until = entry
                .completed_at
                .map_or("and still runs".to_owned(), |end| format!("and ended at {end}"));
            let started =
                entry.started_at.map_or(String::new(), |started| format!("at {started} "));
            view.sentences
                .push(format!("Run {run} of {} was started {started}{until}.", entry.period));
        }
    }

    /// What became of a run.
    pub(super) fn tell_run(&self, entry: &'a HistoryEntry, view: &mut WhyView) {
        view.outcome = Some(describe::entry(entry));
        view.answer = entry.outcome.map_or("unknown", Outcome::as_str).to_owned();
        let run = entry.run.as_ref().map_or(String::new(), |run| format!(" as run {run}"));
        if let Some(started) = entry.started_at {
            let is_period = matches!(entry.period, PeriodRef::Period(_));
            let late = entry.chosen_time.filter(|_| is_period).map(|at| started.since(at));
            view.late_seconds = late;
            let late = match late {
                None => String::new(),
                Some(0) => ", on time".to_owned(),
                Some(late) => format!(", {} after its chosen time", length(late)),
            };
            view.sentences.push(format!("It was started at {started}{late},{run}."));
        }
        let Some(ended) = entry.completed_at else {
            view.answer = "running".to_owned();
            view.sentences.push("It has not ended.".to_owned());
            return;
        };
        let took = entry
            .started_at
            .map_or(String::new(), |started| format!(" after {}", length(ended.since(started))));
        let status = match (entry.exit_code, entry.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "exit code unknown".to_owned(),
        };
        view.sentences.push(match entry.ending {
            Some(Ending::Exited) | None => format!("It ended at {ended}{took}, {status}."),
            Some(Ending::Signalled) => format!("It was ended by {status} at {ended}{took}."),
            Some(Ending::TimedOut) => {
                format!("It ran into its timeout and was ended at {ended}{took}, {status}.")
            }
            Some(Ending::Replaced) => {
                format!("A later period took its place: it was ended at {ended}{took}, {status}.")
            }
            Some(Ending::Stopped) => {
                format!("It was stopped by request at {ended}{took}, {status}.")
            }
            Some(Ending::HandedOver) => {
                let to = entry.reason.as_deref().unwrap_or("handed over");
                format!("It was {to} at {ended}.")
            }
            Some(Ending::Lost) => format!(
                "Nobody saw its end: at {ended} it was found gone, and may or may not have run to \
                 its end."
            ),
        });
        if entry.ending == Some(Ending::Lost)
            && let Some(started) = entry.started_at
        {
            self.tell_down(started, ended, view);
        }
        if let Some(dropped) = entry.output_dropped {
            view.sentences.push(format!(
                "{} of its output went beyond the log's size and were dropped.",
                count(dropped, "byte")
            ));
        }
    }
}

/// When a period fell due, as it was decided, or else as it is recorded.
fn due_of(subject: &Subject<'_>, entry: &HistoryEntry) -> UtcSecond {
    subject.decision.map(|decision| decision.due()).or(entry.chosen_time).unwrap_or(subject.nominal)
}
