//! The pure planning of one KronJob: what is known of it, its Jobs and the time → what to do next.
//!
//! A plan is one of three things: a start under a claim that is already stored; a status to be
//! stored, after which one plans again; or nothing until a second that it names. Beside it there
//! may be old Jobs to remove. Whoever carries plans out does one at a time for each KronJob and
//! keeps no memory of its own: all that counts is in the status and in the Jobs.
//!
//! **Invariant:** a start is planned only for the period in the *stored* `status.next`, claimed by
//! the present term of leadership, with everything that could forbid it (edit, suspension) stored.
//!
//! **Invariant:** `lastHandledPeriod` never moves back, and no Job is removed whose period is not
//! recorded.

mod conditions;
mod history;
#[cfg(test)]
mod tests;

use kron_core::{
    Active, Decision, Outcome, Past, PeriodStretch, Reason, Timing, UtcSecond, Verdict, judge,
};

use crate::resource::{ACTIVE_MAX, ActiveJob, KronJobStatus, NextPeriod, RECENT_MAX, Record};

/// How long before a period falls due a claim of an earlier term is renewed.
const CLAIM_AHEAD_S: i64 = 30;
/// The longest time for which a request to create a Job can still be under way: a process that was
/// stopped may send it on an idle connection, which an API server keeps for 90 s, and an API server
/// carries a request out within 60 s (`--request-timeout`).
pub const CREATE_UNDER_WAY_S_MAX: i64 = 90 + 60;
/// How old a Job must be to be removed, unless the operator is started with another age. Above
/// [`CREATE_UNDER_WAY_S_MAX`], so that no late request can create a removed Job a second time.
pub const JOB_AGE_S_MIN: i64 = 180;
/// How long the removal of active Jobs is waited for without judging the period again.
const REPLACING_S_MAX: i64 = 60;
/// A mark that lies so far in the future was set by a wrong clock.
const FUTURE_MARK_S: i64 = 86_400;

/// What stands for the hash of a spec that is not valid.
const NO_DEFINITION: &str = "invalid";

/// What of a spec the planner needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// When it runs, and what is allowed then.
    pub timing: Timing,
    /// [`Timing::decision_hash`], as it is recorded.
    pub decision_hash: String,
    /// How many succeeded and failed Jobs are kept.
    pub keep: Keep,
}

/// How many finished Jobs are kept, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Those that succeeded.
    pub succeeded: usize,
    /// Those that failed.
    pub failed: usize,
    /// The template's `ttlSecondsAfterFinished`.
    pub ttl_s: Option<i64>,
}

/// A KronJob as the planner sees it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The generation of the spec.
    pub generation: i64,
    /// When the KronJob was created.
    pub created_at: UtcSecond,
    /// The spec, or what is wrong with it.
    pub definition: Result<&'a Definition, &'a str>,
    /// The status as it is stored.
    pub status: &'a KronJobStatus,
    /// Its Jobs.
    pub jobs: &'a [OwnedJob],
    /// Why the latest attempt to make a Job failed, if it did.
    pub trouble: Option<&'a str>,
    /// Whether the status is not what is stored, so that it must be stored in any case.
    pub mended: bool,
}

/// A Job that a KronJob owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedJob {
    /// Its name.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
    /// The period it was made for.
    pub period: Option<UtcSecond>,
    /// The second that was chosen for it.
    pub chosen: Option<UtcSecond>,
    /// When it was created.
    pub created_at: UtcSecond,
    /// How far it is.
    pub state: JobState,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// How far a Job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It has not ended.
    Active,
    /// All its work is done.
    Succeeded {
        /// When.
        at: UtcSecond,
    },
    /// It was given up.
    Failed {
        /// When.
        at: UtcSecond,
    },
}

impl OwnedJob {
    fn is_active(&self) -> bool {
        self.state == JobState::Active && !self.deleting
    }
}

/// What to do next about a KronJob.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The first thing to do.
    pub step: Step,
    /// Finished Jobs that are no longer kept, by their places among the subject's Jobs.
    pub remove: Vec<usize>,
    /// When to plan again, whatever happens before.
    pub wake: Option<UtcSecond>,
}

/// The first thing to do about a KronJob.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Step {
    /// Nothing.
    #[default]
    Rest,
    /// Store this status, by compare-and-swap; then tell the notes, and plan again.
    Store {
        /// The whole status.
        status: Box<KronJobStatus>,
        /// What it records for the first time.
        notes: Vec<Note>,
        /// When a start waits for the claim in it: the second the start was chosen for.
        urgent: Option<UtcSecond>,
    },
    /// Make the Job of this period; then plan again.
    Start {
        /// The decision.
        decision: Box<Decision>,
        /// Active Jobs to remove before, by their places among the subject's Jobs.
        replace: Vec<usize>,
    },
}

/// Something that people should hear of: it becomes an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What kind it is.
    pub kind: NoteKind,
    /// The period, where it is about one.
    pub period: Option<UtcSecond>,
    /// A sentence.
    pub text: String,
}

/// The kinds of notes, by the reasons of their Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// A Job was made.
    Created,
    /// Policy said not to run.
    Skipped,
    /// The deadline had passed, or a later period came first.
    Missed,
    /// The constraints allowed no second.
    Unschedulable,
    /// An active Job was removed to make room.
    Replaced,
    /// The spec cannot be scheduled.
    Invalid,
    /// A Job could not be made.
    Failed,
}

impl NoteKind {
    /// The reason of the Event.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            NoteKind::Created => "JobCreated",
            NoteKind::Skipped => "PeriodSkipped",
            NoteKind::Missed => "PeriodMissed",
            NoteKind::Unschedulable => "PeriodUnschedulable",
            NoteKind::Replaced => "JobReplaced",
            NoteKind::Invalid => "InvalidSpec",
            NoteKind::Failed => "JobNotCreated",
        }
    }

    /// Whether somebody should look into it.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        !matches!(self, NoteKind::Created | NoteKind::Skipped | NoteKind::Replaced)
    }
}

/// Plans what to do about a KronJob now, by the term of leadership that `claimant` names. No Job is
/// removed that is younger than `job_age_s_min`; see [`JOB_AGE_S_MIN`].
#[must_use]
pub fn plan(subject: &Subject<'_>, claimant: &str, job_age_s_min: i64, now: UtcSecond) -> Plan {
    let mut draft = Draft::of(subject, claimant, job_age_s_min, now);
    draft.note_jobs();
    let start = match subject.definition {
        Ok(definition) => draft.schedule(definition),
        Err(why) => {
            draft.reject(why);
            None
        }
    };
    draft.conclude(start)
}

/// A status in the making.
struct Draft<'a> {
    subject: &'a Subject<'a>,
    claimant: &'a str,
    job_age_s_min: i64,
    now: UtcSecond,
    status: KronJobStatus,
    notes: Vec<Note>,
    wake: Option<UtcSecond>,
}

/// A period that is to be started now.
struct Due {
    decision: Decision,
    replace: bool,
}

impl<'a> Draft<'a> {
    fn of(
        subject: &'a Subject<'a>,
        claimant: &'a str,
        job_age_s_min: i64,
        now: UtcSecond,
    ) -> Draft<'a> {
        let mut status = subject.status.clone();
        status.observed_generation = Some(subject.generation);
        Draft { subject, claimant, job_age_s_min, now, status, notes: Vec::new(), wake: None }
    }

    /// Takes over what the Jobs say: which are active, which periods were executed, how they ended.
    fn note_jobs(&mut self) {
        let jobs = self.subject.jobs;
        let mut active: Vec<&OwnedJob> = jobs.iter().filter(|job| job.is_active()).collect();
        active.sort_by_key(|job| (job.period, &job.name));
        self.status.active_count = i32::try_from(active.len()).unwrap_or(i32::MAX);
        let unlisted = active.len().saturating_sub(ACTIVE_MAX);
        self.status.active = active.into_iter().skip(unlisted).map(listed).collect();
        let succeeded = jobs.iter().filter_map(|job| match job.state {
            JobState::Succeeded { at } => Some(at),
            JobState::Active | JobState::Failed { .. } => None,
        });
        self.status.last_successful_time =
            self.status.last_successful_time.into_iter().chain(succeeded).max();
        let handled = self.status.last_handled_period;
        let mut made: Vec<(UtcSecond, &OwnedJob)> = jobs
            .iter()
            .filter_map(|job| Some((job.period?, job)))
            .filter(|(period, _)| handled.is_none_or(|handled| *period > handled))
            .collect();
        made.sort_by_key(|(period, _)| *period);
        for (period, job) in made {
            self.record(Record {
                job: Some(job.name.to_string()),
                chosen_time: job.chosen,
                ..self.blank(period, Outcome::Executed)
            });
            let text = format!("made Job {}", job.name);
            self.note(NoteKind::Created, Some(period), text);
        }
        let result = |record: &Record| {
            let name = record.job.as_deref()?;
            let job = jobs.iter().find(|job| *job.name == *name)?;
            match job.state {
                JobState::Active => None,
                JobState::Succeeded { .. } => Some("succeeded"),
                JobState::Failed { .. } => Some("failed"),
            }
        };
        for record in self.status.last.iter_mut().chain(&mut self.status.recent) {
            if record.result.is_none()
                && let Some(result) = result(record)
            {
                record.result = Some(result.to_owned());
            }
        }
    }

    /// Judges what is due, and finds what comes next.
    fn schedule(&mut self, definition: &Definition) -> Option<Due> {
        let now = self.now;
        let timing = &definition.timing;
        if self.status.decision_hash.as_ref() != Some(&definition.decision_hash) {
            // Nothing of the past runs because of an edit; a KronJob that is new has its creation.
            if self.status.decision_hash.is_some() || self.subject.generation > 1 {
                self.status.effective_from = Some(now);
            }
            self.status.decision_hash = Some(definition.decision_hash.clone());
        }
        // What was removed to make room is gone: the period is not judged again, for a while.
        let replacing = self.subject.status.next.as_ref().filter(|next| {
            next.replacing_since.is_some_and(|since| {
                (0..=REPLACING_S_MAX).contains(&now.since(since)) && self.subject.trouble.is_none()
            })
        });
        let replacing = replacing.map(|next| next.period_id);
        if timing.policy.suspend {
            self.status.suspended_at.get_or_insert(now);
            if replacing.is_none() {
                self.status.next = None;
                self.set_conditions(definition, None);
                return None;
            }
        } else if self.status.suspended_at.take().is_some() {
            self.status.resumed_at = Some(now);
        }
        let due = self.judge_due(definition, replacing);
        let coming = match &due {
            Some(due) => Some(due.decision),
            None => self.next_decision(timing).filter(|_| !timing.policy.suspend),
        };
        self.claim(coming.as_ref(), due.as_ref());
        self.set_conditions(definition, coming.as_ref());
        due
    }

    /// Gives every period that is due its outcome, up to the first that is to be started.
    fn judge_due(&mut self, definition: &Definition, replacing: Option<UtcSecond>) -> Option<Due> {
        let timing = &definition.timing;
        let mut past = Past {
            last_handled: self.status.last_handled_period,
            created_at: Some(self.subject.created_at),
            effective_from: self.status.effective_from,
            resumed_at: self.status.resumed_at,
            replacing,
        };
        let backlog = timing.backlog(&past, self.now);
        self.record_stretch(backlog.redefined, Outcome::Skipped, Reason::DefinitionChanged);
        self.record_stretch(backlog.superseded, Outcome::Missed, Reason::Superseded);
        let active: Vec<Active> = self
            .subject
            .jobs
            .iter()
            .filter(|job| job.is_active())
            .map(|job| job.period.map_or(Active::Manual, Active::Period))
            .collect();
        for decision in backlog.due {
            past.last_handled = self.status.last_handled_period;
            match judge(&decision, &timing.policy, &past, &active, self.now) {
                Verdict::Start { replace } => return Some(Due { decision, replace }),
                Verdict::Record { outcome, reason } => {
                    self.record_verdict(&decision, outcome, reason);
                }
                Verdict::Wait { .. } | Verdict::Leave { .. } => {}
            }
        }
        None
    }

    fn record_verdict(&mut self, decision: &Decision, outcome: Outcome, reason: Reason) {
        let mut why = reason.to_string();
        // What kept it from being made in time.
        if let (Outcome::Missed, Some(trouble)) = (outcome, self.subject.trouble) {
            why = format!("{why}; {trouble}");
        }
        let kind = match outcome {
            Outcome::Executed => NoteKind::Created,
            Outcome::Skipped => NoteKind::Skipped,
            Outcome::Missed => NoteKind::Missed,
            Outcome::Unschedulable => NoteKind::Unschedulable,
        };
        self.note(kind, Some(decision.nominal), format!("{outcome}: {why}"));
        self.record(Record {
            chosen_time: decision.chosen,
            reason: Some(why),
            ..self.blank(decision.nominal, outcome)
        });
    }

    fn record_stretch(&mut self, stretch: Option<PeriodStretch>, outcome: Outcome, reason: Reason) {
        let Some(stretch) = stretch else { return };
        let kind = if outcome == Outcome::Missed { NoteKind::Missed } else { NoteKind::Skipped };
        let several = stretch.count > 1;
        let text = if several {
            format!("{outcome}: {reason}; {} periods from {}", stretch.count, stretch.first)
        } else {
            format!("{outcome}: {reason}")
        };
        self.note(kind, Some(stretch.last), text);
        self.record(Record {
            reason: Some(reason.to_string()),
            first_period_id: several.then_some(stretch.first),
            count: several.then(|| i64::try_from(stretch.count).unwrap_or(i64::MAX)),
            ..self.blank(stretch.last, outcome)
        });
    }

    fn blank(&self, period: UtcSecond, outcome: Outcome) -> Record {
        Record {
            period_id: period,
            nominal_time: period,
            chosen_time: None,
            outcome,
            reason: None,
            job: None,
            result: None,
            recorded_at: self.now,
            first_period_id: None,
            count: None,
        }
    }

    fn record(&mut self, record: Record) {
        self.status.last_handled_period =
            self.status.last_handled_period.max(Some(record.period_id));
        self.status.recent.insert(0, record.clone());
        self.status.recent.truncate(RECENT_MAX);
        self.status.last = Some(record);
    }

    fn note(&mut self, kind: NoteKind, period: Option<UtcSecond>, text: String) {
        self.notes.push(Note { kind, period, text });
    }

    /// The first period that falls due after now and has no outcome.
    fn next_decision(&self, timing: &Timing) -> Option<Decision> {
        let now = self.now;
        match self.status.last_handled_period {
            // The clock went back, or the latest period was chosen before its nominal time.
            Some(handled) if handled > now => {
                timing.periods_after(handled).find(|decision| decision.due() > now)
            }
            handled => timing
                .due_after(now)
                .find(|decision| handled.is_none_or(|handled| decision.nominal > handled)),
        }
    }

    /// Whether the mark of what is handled lies where no clock should be.
    fn is_marked_ahead(&self) -> bool {
        let limit = self.now.saturating_add(FUTURE_MARK_S);
        self.status.last_handled_period.is_some_and(|handled| handled > limit)
    }

    /// Writes what comes next, and who will start it.
    fn claim(&mut self, coming: Option<&Decision>, due: Option<&Due>) {
        let Some(coming) = coming else {
            self.status.next = None;
            return;
        };
        let stored = self.subject.status.next.as_ref();
        let stored = stored.filter(|stored| {
            stored.period_id == coming.nominal && stored.chosen_time == coming.chosen
        });
        let replacing_since = due.filter(|due| due.replace).map(|_| self.now);
        let mut next = NextPeriod {
            period_id: coming.nominal,
            nominal_time: coming.nominal,
            chosen_time: coming.chosen,
            claimed_by: Some(self.claimant.to_owned()),
            replacing_since: stored.and_then(|stored| stored.replacing_since).or(replacing_since),
        };
        // The claim of an earlier term is left alone until the period comes near, so that a change
        // of leader does not write to every KronJob there is.
        let near = coming.due().saturating_add(-CLAIM_AHEAD_S);
        if let Some(stored) = stored
            && next.claimed_by != stored.claimed_by
            && self.now < near
        {
            next.claimed_by.clone_from(&stored.claimed_by);
            self.wake_at(near);
        }
        self.status.next = Some(next);
        if due.is_none() {
            self.wake_at(coming.due());
        }
    }

    fn reject(&mut self, why: &str) {
        self.status.next = None;
        // Whatever is valid next took effect then, even if it is what was valid before.
        self.status.decision_hash = Some(NO_DEFINITION.to_owned());
        self.set_invalid(why);
    }

    fn wake_at(&mut self, second: UtcSecond) {
        self.wake = Some(self.wake.map_or(second, |wake| wake.min(second)));
    }

    fn conclude(mut self, due: Option<Due>) -> Plan {
        let remove = self.removable();
        let stored = self.subject.status;
        let claimed_here = |status: &KronJobStatus| {
            status
                .next
                .as_ref()
                .is_some_and(|next| next.claimed_by.as_deref() == Some(self.claimant))
        };
        let settled = !self.subject.mended
            && self.status.next == stored.next
            && claimed_here(stored)
            && self.status.decision_hash == stored.decision_hash
            && self.status.effective_from == stored.effective_from
            && self.status.resumed_at == stored.resumed_at
            && self.status.suspended_at == stored.suspended_at;
        // A KronJob whose Jobs cannot be made says so before the next attempt.
        let told = self.subject.trouble.is_none() || self.status.conditions == stored.conditions;
        let step = match due {
            Some(due) if settled && told => {
                let active = self.subject.jobs.iter().enumerate();
                let active = active.filter(|(_, job)| due.replace && job.is_active());
                let replace = active.map(|(place, _)| place).collect();
                Step::Start { decision: Box::new(due.decision), replace }
            }
            due if self.status != *stored || self.subject.mended => {
                // Whoever writes takes the claim along.
                if let Some(next) = &mut self.status.next {
                    next.claimed_by = Some(self.claimant.to_owned());
                }
                let urgent = due.map(|due| due.decision.due());
                Step::Store { status: Box::new(self.status), notes: self.notes, urgent }
            }
            _ => Step::Rest,
        };
        Plan { step, remove, wake: self.wake }
    }
}

fn listed(job: &OwnedJob) -> ActiveJob {
    ActiveJob { name: job.name.to_string(), uid: job.uid.to_string(), period_id: job.period }
}
