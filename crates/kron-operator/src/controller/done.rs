//! What becomes of requests.

use std::sync::Arc;
use std::time::Duration;

use kron_core::{Outcome, UtcSecond};

use super::catalogue::Doing;
use super::courier::Refusal;
use super::watched::{WatchedJob, WatchedKronJob, version_of};
use super::watches::Change;
use super::work::{Answered, Start};
use super::{Controller, clock};
use crate::log::Failure;
use crate::plan::{Note, NoteKind};
use crate::resource::KronJobStatus;

/// The first pause after a request that came to nothing; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause after a request that the server may well carry out the next time.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The longest pause after one that it refused for what it is.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(10);
/// For so many seconds after it was judged, a start that the server put off is not late by that.
const PUT_OFF_S_MAX: i64 = 5;
/// The longest that a server which puts a start off is left alone.
const PUT_OFF_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long until the removal of a Job is tried again.
const REMOVAL_PAUSE: Duration = Duration::from_secs(30);
/// After so many attempts that may yet succeed the trouble is shown in the status.
const ATTEMPTS_QUIET: u32 = 2;

/// Which of the two kinds of requests was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// One that goes first.
    Foreground,
    /// Any other.
    Background,
}

/// What came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// Making a Job, which was judged then.
    Start(UtcSecond),
    /// Storing a status.
    Status,
}

/// An answer.
#[derive(Debug)]
pub(super) enum Done {
    /// To the removal of what is in a start's way.
    Replaced {
        start: Box<Start>,
        /// The Jobs that were removed.
        removed: Vec<Box<str>>,
        /// Why the next one was not.
        refusal: Option<Refusal>,
    },
    /// To a start.
    Started { start: Box<Start>, made: Result<Box<WatchedJob>, Refusal> },
    /// To a look for a Job that may have been made.
    Found { identity: Arc<str>, uid: Box<str>, class: Class, job: Box<WatchedJob> },
    /// To a status.
    Stored {
        identity: Arc<str>,
        uid: Box<str>,
        class: Class,
        status: Box<KronJobStatus>,
        notes: Vec<Note>,
        stored: Result<String, Refusal>,
        /// The KronJob as it is, when it was not what we thought.
        fresh: Option<Box<Result<WatchedKronJob, Refusal>>>,
    },
    /// To a removal.
    Removed { identity: Arc<str>, uid: Box<str>, removed: Result<(), Refusal> },
    /// To an Event.
    Told { told: Result<(), Refusal> },
    /// Something is to be tried again.
    Look { identity: Arc<str> },
    /// A pause is over.
    Paused { identity: Arc<str>, number: u64 },
}

impl Controller {
    pub(super) fn finished(&mut self, done: Done) {
        match done {
            Done::Replaced { start, removed, refusal } => self.replaced(start, &removed, refusal),
            Done::Started { start, made } => {
                let answered = made.as_ref().map_or_else(Refusal::answered, |_| Answered::Well);
                self.work.foreground_done(&start.identity, answered);
                // Answers about another KronJob that had the name are nobody's.
                if self.catalogue.same_mut(&start.identity, &start.uid).is_some() {
                    self.started(&start, made);
                }
            }
            Done::Found { identity, uid, class, job } => {
                self.answered(&identity, class, Answered::Well);
                if self.catalogue.same_mut(&identity, &uid).is_some() {
                    self.catalogue.take_answer(&job);
                    self.give_up(&identity);
                }
            }
            Done::Stored { identity, uid, class, status, notes, stored, fresh } => {
                let answered = stored.as_ref().map_or_else(Refusal::answered, |_| Answered::Well);
                self.answered(&identity, class, answered);
                if self.catalogue.same_mut(&identity, &uid).is_none() {
                    return;
                }
                match stored {
                    Ok(version) => self.stored(&identity, status, notes, version),
                    Err(refusal) => {
                        if let Some(entry) = self.catalogue.get_mut(&identity)
                            && matches!(refusal, Refusal::Silence(_))
                        {
                            entry.unheard = Some(Box::new((*status, notes)));
                        }
                        self.not_stored(&identity, &uid, &refusal, fresh);
                    }
                }
            }
            Done::Removed { identity, uid, removed } => {
                self.work.background_done();
                if let Err(refusal) = removed {
                    self.fail("remove_job", &identity, None, &refusal);
                    self.catalogue.unmark_removed(&identity, &uid);
                    self.later(REMOVAL_PAUSE, Done::Look { identity });
                }
            }
            Done::Told { told } => {
                self.work.telling_done();
                if let Err(refusal) = told {
                    let message = refusal.to_string();
                    self.log.warn("event_not_told", &[("message", message.into())]);
                }
            }
            Done::Look { identity } => self.consider(&identity),
            Done::Paused { identity, number } => {
                let paused = Doing::Paused { number };
                let entry = self.catalogue.get_mut(&identity);
                if entry.is_some_and(|entry| entry.doing == paused) {
                    self.give_up(&identity);
                }
            }
        }
    }

    /// What was in the way is gone, or is not.
    fn replaced(&mut self, start: Box<Start>, removed: &[Box<str>], refusal: Option<Refusal>) {
        let identity = Arc::clone(&start.identity);
        let period = start.decision.nominal;
        if self.catalogue.same_mut(&identity, &start.uid).is_none() {
            self.work.foreground_done(&identity, Answered::NotSent);
            return;
        }
        for name in removed {
            self.catalogue.mark_replaced(&identity, name);
            let text = format!("removed the active Job {name} to make room");
            let note = Note { kind: NoteKind::Replaced, period: Some(period), text };
            self.tell(&identity, vec![note]);
        }
        match refusal {
            Some(refusal) => {
                self.work.foreground_done(&identity, refusal.answered());
                self.fail("remove_job", &identity, Some(&period.to_string()), &refusal);
                self.pause(&identity, &refusal, Attempt::Start(start.judged_at));
            }
            // It may have been edited or suspended in the time that took.
            None => self.make(start),
        }
    }

    fn started(&mut self, start: &Start, made: Result<Box<WatchedJob>, Refusal>) {
        let (identity, decision) = (&start.identity, &start.decision);
        let seen = made.as_ref().ok().and_then(|job| job.seen()).map(|seen| seen.job);
        let made = match (made, &seen) {
            // Somebody took its label away: nothing would ever record it.
            (Ok(_), Some(seen)) if seen.period != Some(decision.nominal) => {
                Err(Refusal::Foreign(seen.name.to_string()))
            }
            (made, _) => made,
        };
        match made {
            Ok(job) => {
                let late = clock::since(decision.due());
                self.metrics.started(late);
                let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                let fields = [
                    ("identity", (&**identity).into()),
                    ("period_id", decision.nominal.to_string().into()),
                    ("job", job.metadata.name.clone().into()),
                    ("late_ms", late_ms.into()),
                ];
                self.log.info("started", &fields);
                if let Some(entry) = self.catalogue.get_mut(identity) {
                    entry.trouble = None;
                    entry.attempts = 0;
                    entry.unanswered = None;
                    entry.made = seen;
                }
                // The watch will tell the same; whichever comes first.
                self.catalogue.take_answer(&job);
                self.give_up(identity);
            }
            Err(refusal) => {
                let period = decision.nominal.to_string();
                if !is_put_off(&refusal, start.judged_at) {
                    self.fail("create_job", identity, Some(&period), &refusal);
                }
                if let Some(entry) = self.catalogue.get_mut(identity)
                    && matches!(refusal, Refusal::Silence(_))
                {
                    entry.unanswered = Some(decision.nominal);
                }
                self.pause(identity, &refusal, Attempt::Start(start.judged_at));
            }
        }
    }

    fn stored(
        &mut self,
        identity: &Arc<str>,
        status: Box<KronJobStatus>,
        notes: Vec<Note>,
        version: String,
    ) {
        self.record(identity, &status, notes);
        if let Some(entry) = self.catalogue.get_mut(identity) {
            entry.unheard = None;
            let handled = entry.kept.status.last_handled_period < status.last_handled_period;
            if entry.trouble.is_none() || handled {
                entry.attempts = 0;
            }
            if entry.made.as_ref().is_some_and(|made| made.period <= status.last_handled_period) {
                entry.made = None;
            }
            // A change that the watch has shown meanwhile is newer than what was stored. The same
            // version is what the server makes of a status that changes nothing for it.
            let newer = version.parse::<u64>().ok().zip(entry.kept.version.parse::<u64>().ok());
            if newer.is_none_or(|(stored, known)| stored >= known) {
                entry.kept.version = version.into_boxed_str();
                entry.kept.status = status;
                entry.kept.mended = false;
            }
        }
        self.give_up(identity);
    }

    /// A status whose storing was not answered may turn out to be stored.
    pub(super) fn hear(&mut self, identity: &Arc<str>) {
        let Some(entry) = self.catalogue.get_mut(identity) else { return };
        let Some((status, notes)) = entry.unheard.take().map(|unheard| *unheard) else { return };
        let known = &entry.kept.status;
        if known.last_handled_period == status.last_handled_period && known.last == status.last {
            self.record(identity, &status, notes);
        }
    }

    /// Counts, logs and tells what a stored status records for the first time.
    fn record(&mut self, identity: &Arc<str>, status: &KronJobStatus, notes: Vec<Note>) {
        for note in &notes {
            let outcome = match note.kind {
                NoteKind::Created => Outcome::Executed,
                NoteKind::Skipped => Outcome::Skipped,
                NoteKind::Missed => Outcome::Missed,
                NoteKind::Unschedulable => Outcome::Unschedulable,
                NoteKind::Replaced | NoteKind::Invalid | NoteKind::Failed => {
                    let fields = [
                        ("identity", (&**identity).into()),
                        ("reason", note.kind.reason().into()),
                        ("message", note.text.clone().into()),
                    ];
                    self.log.warn("not_scheduled", &fields);
                    continue;
                }
            };
            let recorded =
                status.recent.iter().find(|record| Some(record.period_id) == note.period);
            let count = recorded.and_then(|record| record.count).unwrap_or(1);
            self.metrics.outcome(outcome, u64::try_from(count).unwrap_or(1));
            if outcome != Outcome::Executed {
                let fields = [
                    ("identity", (&**identity).into()),
                    ("period_id", note.period.map(|period| period.to_string()).into()),
                    ("outcome", outcome.as_str().into()),
                    ("reason", note.text.clone().into()),
                ];
                match outcome {
                    Outcome::Unschedulable => self.log.warn("outcome", &fields),
                    Outcome::Executed | Outcome::Skipped | Outcome::Missed => {
                        self.log.info("outcome", &fields);
                    }
                }
            }
        }
        self.tell(identity, notes);
    }

    fn not_stored(
        &mut self,
        identity: &Arc<str>,
        uid: &str,
        refusal: &Refusal,
        fresh: Option<Box<Result<WatchedKronJob, Refusal>>>,
    ) {
        match fresh.map(|fresh| *fresh) {
            Some(Ok(fresh)) => {
                let known = self.catalogue.get(identity).map(|entry| &entry.kept.version);
                let known = known.and_then(|version| version.parse::<u64>().ok());
                if known.is_some_and(|known| version_of(&fresh.metadata) < known) {
                    // What is asked for afterwards cannot be older, unless the server's store is.
                    self.log.warn("versions_went_back", &[("identity", (&**identity).into())]);
                    self.catalogue.believe_anything(identity);
                }
                if self.take_in(Change::KronJob(Box::new(fresh))).is_empty() {
                    // It is what we thought, and yet it was refused.
                    self.fail("store_status", identity, None, refusal);
                    self.pause(identity, refusal, Attempt::Status);
                    return;
                }
                self.hear(identity);
                if let Some(entry) = self.catalogue.get_mut(identity) {
                    // A claim that lost is judged as of now.
                    entry.judged = None;
                    entry.attempts = 0;
                }
                self.give_up(identity);
            }
            Some(Err(Refusal::Answer { code: 404, .. })) => {
                self.catalogue.forget(identity, uid);
            }
            Some(Err(_)) | None => {
                self.fail("store_status", identity, None, refusal);
                self.pause(identity, refusal, Attempt::Status);
            }
        }
    }

    /// Waits before the next attempt, longer each time. An edit ends the pause.
    fn pause(&mut self, identity: &Arc<str>, refusal: &Refusal, attempt: Attempt) {
        let Some(entry) = self.catalogue.get_mut(identity) else { return };
        let judged_at = match attempt {
            Attempt::Start(judged_at) => Some(judged_at),
            Attempt::Status => None,
        };
        let put_off = judged_at.filter(|judged_at| is_put_off(refusal, *judged_at));
        // The lease is about to end, or to be renewed: that says nothing about this KronJob.
        let failed = put_off.is_none() && !matches!(refusal, Refusal::NotLeading);
        entry.attempts += u32::from(failed);
        if judged_at.is_some() {
            if failed && (refusal.is_definite() || entry.attempts >= ATTEMPTS_QUIET) {
                entry.trouble = Some(refusal.to_string().into_boxed_str());
            }
            // What failed is judged again at its retry.
            entry.judged = put_off;
        }
        let longest = if refusal.is_definite() { REFUSED_PAUSE_MAX } else { PAUSE_MAX };
        let doubled = PAUSE_MIN.saturating_mul(1 << entry.attempts.saturating_sub(1).min(16));
        let asked = refusal.retry_after().unwrap_or_default().min(PUT_OFF_PAUSE_MAX);
        let pause = doubled.min(longest).max(asked);
        let number = self.catalogue.next_number();
        let Some(entry) = self.catalogue.get_mut(identity) else { return };
        entry.doing = Doing::Paused { number };
        let identity = Arc::clone(identity);
        self.later(pause, Done::Paused { identity, number });
    }

    /// Says so after a while.
    fn later(&self, pause: Duration, what: Done) {
        let done = self.done.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = done.send(what);
        });
    }

    fn take_in(&mut self, change: Change) -> Vec<Arc<str>> {
        self.catalogue.take_in(change, &mut self.parser, clock::now())
    }

    fn fail(&self, operation: &str, identity: &str, period_id: Option<&str>, refusal: &Refusal) {
        let error_type = match refusal {
            Refusal::Answer { .. } if operation == "store_status" => "PersistenceError",
            Refusal::Answer { .. } | Refusal::Foreign(_) => "ExecutionError",
            Refusal::Silence(_) | Refusal::NotLeading => "SystemError",
        };
        let message = refusal.to_string();
        let failure = Failure {
            error_type,
            operation,
            message: &message,
            identity: Some(identity),
            period_id,
        };
        self.log.error("request_failed", &failure, &[]);
    }
}

/// Whether the server has not looked at a start that was judged then: that is no failure yet.
fn is_put_off(refusal: &Refusal, judged_at: UtcSecond) -> bool {
    refusal.is_put_off() && (0..=PUT_OFF_S_MAX).contains(&clock::now().since(judged_at))
}
