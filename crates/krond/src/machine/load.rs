//! Bringing in definitions, at the start and at every reload.
//!
//! A load never runs the past: a job that is new counts from now, and so does a definition that
//! decides differently from the one that was known, a suspension that was lifted, and a state
//! directory that came from another machine. It never touches a run: a start carries its own
//! definition, and the runs of a job that was removed are supervised to their end.

use std::collections::HashSet;
use std::sync::Arc;

use kron_config::Job;
use kron_core::{DecisionHash, Outcome, Reason, UtcSecond};
use kron_state::{Change, Document, EpochEvent, Known, KnownJob, Unknown, document_file};
use thin_vec::ThinVec;

use super::evaluate::Unrun;
use super::event::{Definition, Entry, Last, Level, Now, Rank, Recorded};
use super::job::{Archived, JobIndex, JobState};
use super::run::{Run, Stage, grace_of};
use super::{Action, Machine, Pending, RequestId};

/// Marks that lie in the future are told one by one up to so many.
const MARKS_TOLD_MAX: usize = 20;

/// What is known about jobs before a load.
pub(super) enum Remembered {
    /// What the state directory says; `None` makes every job new.
    Found(Option<Known>),
    /// What the machine itself remembers.
    Kept,
}

/// What is remembered about one job.
struct Prior {
    created_at: UtcSecond,
    /// `None` when it cannot be read, and so is another.
    hash: Option<DecisionHash>,
    effective_from: Option<UtcSecond>,
    suspended: bool,
    suspend_override: Option<bool>,
    resumed_at: Option<UtcSecond>,
    has_state: bool,
    unknown: Unknown,
}

impl From<&KnownJob> for Prior {
    fn from(known: &KnownJob) -> Prior {
        Prior {
            created_at: known.created_at,
            hash: known.decision_hash.parse().ok(),
            effective_from: known.effective_from,
            suspended: known.suspended,
            suspend_override: known.suspend_override,
            resumed_at: known.resumed_at,
            has_state: known.has_state,
            unknown: known.unknown.clone(),
        }
    }
}

impl Machine {
    /// Takes in what the state documents say, and watches the runs that had not ended.
    pub(super) fn recall(&mut self, recorded: Vec<Recorded>) {
        // Many say the same, and one copy is enough.
        let mut reasons: HashSet<Arc<str>> = HashSet::new();
        for mut document in recorded {
            if let Some(reason) = document.last.as_mut().and_then(|last| last.reason.as_mut()) {
                match reasons.get(reason) {
                    Some(known) => reason.clone_from(known),
                    None => drop(reasons.insert(reason.clone())),
                }
            }
            let identity: Arc<str> = document.identity.into();
            let archived = Archived {
                last_handled: document.last_handled,
                last: document.last.map(Box::new),
                recent: document.recent,
                replacing: document.replacing,
                executed_ahead: document.executed_ahead.into(),
                has_state: true,
                suspend_override: None,
            };
            let active = document.active.iter().filter_map(|active| active.period.nominal());
            let active: Vec<UtcSecond> = active.collect();
            // What no later period has overtaken is judged as any other.
            let owed = |nominal: &UtcSecond| {
                !active.contains(nominal) && document.last_handled >= Some(*nominal)
            };
            let owed: ThinVec<UtcSecond> = document.owed.into_iter().filter(owed).collect();
            let deliveries = document.deliveries;
            if document.active.is_empty() && owed.is_empty() && deliveries.is_empty() {
                self.archive.insert(identity, archived);
                continue;
            }
            let index = self.place(JobState::new(identity.clone(), Some(archived)));
            self.jobs[index.at()].owed = owed;
            self.recall_deliveries(index, deliveries);
            for active in document.active {
                let mut run =
                    Run::new(index, active.period.clone(), active.chosen_time, Default::default());
                run.stage = Stage::Adopted;
                run.started_at = Some(active.started_at);
                run.pid = Some(active.pid);
                self.jobs[index.at()].runs.push(active.run.clone());
                self.runs.insert(active.run.clone(), run);
                self.push(Action::Adopt { identity: identity.clone(), active });
            }
        }
    }

    /// Gives every period its outcome whose start came to nothing in an earlier daemon, after a
    /// later one was recorded.
    pub(super) fn settle_debts(&mut self, now: Now) {
        for at in 0..self.jobs.len() {
            let index = JobIndex(at as u32);
            for nominal in std::mem::take(&mut self.jobs[at].owed) {
                self.never_started(now, index, nominal, Reason::Superseded, None);
            }
            self.forget_if_removed(index);
        }
    }

    /// Puts these definitions in the place of the present ones.
    pub(super) fn load(
        &mut self,
        now: Now,
        jobs: Vec<Job>,
        remembered: &Remembered,
        request: Option<RequestId>,
    ) {
        self.reset_standby();
        self.generation += 1;
        self.loaded_at = now.wall;
        let known = match remembered {
            Remembered::Found(known) => known.as_ref(),
            Remembered::Kept => None,
        };
        if let Some(known) = known {
            self.known_unknown.clone_from(&known.unknown);
        }
        let moved = known.is_some_and(|known| known.machine_id != self.machine_id);
        if moved {
            self.log(
                Entry::new(Level::Warn, "machine_changed")
                    .with("message", "the state directory was written on another machine; every definition takes effect now"),
            );
        }
        if let Some(known) = known {
            self.recall_overrides(known);
        }
        let (mut added, mut changed) = (0_u64, 0_u64);
        let mut defined = vec![false; self.jobs.len()];
        for job in jobs {
            let identity = job.timing.placement().shared_identity();
            let index = self.slot(&identity);
            let prior = match remembered {
                Remembered::Found(known) => known
                    .as_ref()
                    .and_then(|known| known.jobs.get(&*identity))
                    .filter(|job| !job.removed)
                    .map(Prior::from),
                Remembered::Kept => self.prior_of(index),
            };
            added += u64::from(prior.is_none());
            changed += u64::from(self.define(now, index, job, prior, moved));
            if index.at() >= defined.len() {
                defined.resize(index.at() + 1, false);
            }
            defined[index.at()] = true;
        }
        let mut removed = 0_u64;
        for (at, defined) in defined.into_iter().enumerate() {
            let index = JobIndex(at as u32);
            if !defined && self.jobs[at].definition.take().is_some() {
                removed += 1;
                self.unplan(index);
                self.forget_if_removed(index);
            }
        }
        self.archive.shrink_to_fit();
        self.leave_the_future(now);
        let job_count = self.jobs.iter().filter(|job| job.definition.is_some()).count() as u64;
        let generation = self.generation;
        self.push(Action::Epoch(EpochEvent::Load { jobs: job_count, generation }));
        self.log(
            Entry::new(Level::Info, "loaded")
                .with("generation", generation)
                .with("jobs", job_count)
                .with("added", added)
                .with("changed", changed)
                .with("removed", removed),
        );
        self.save_known(request);
    }

    /// Gives a job its definition; whether it decides differently from before.
    fn define(
        &mut self,
        now: Now,
        index: JobIndex,
        job: Job,
        prior: Option<Prior>,
        moved: bool,
    ) -> bool {
        let hash = job.timing.decision_hash();
        let definition = Arc::new(Definition { job, hash, generation: self.generation });
        let mut changed = false;
        let mut lost = false;
        let state = &mut self.jobs[index.at()];
        state.definition = Some(definition.clone());
        match prior {
            None => {
                state.past.created_at = Some(now.wall);
                state.past.effective_from = None;
                state.past.resumed_at = None;
            }
            Some(prior) => {
                changed = prior.hash != Some(definition.hash);
                state.past.created_at = Some(prior.created_at);
                state.past.effective_from =
                    if changed || moved { Some(now.wall) } else { prior.effective_from };
                state.suspend_override = prior.suspend_override;
                let lifted = prior.suspended && !state.is_suspended();
                state.past.resumed_at = if lifted { Some(now.wall) } else { prior.resumed_at };
                lost = prior.has_state && !state.has_state;
                state.unknown = prior.unknown;
            }
        }
        for id in &state.runs {
            if let Some(run) = self.runs.get_mut(id)
                && run.stage == Stage::Adopted
            {
                run.grace = grace_of(&definition);
            }
        }
        let unreadable = if self.unreadable.is_empty() {
            None
        } else {
            let file = document_file(&self.jobs[index.at()].identity);
            self.unreadable.remove(file.trim_end_matches(".json"))
        };
        if let Some(modified) = unreadable {
            self.restore(now, index, &definition, modified);
        } else if lost {
            self.restore_missing(now, index, &definition);
        }
        self.plan_at(index, now.wall);
        changed
    }

    /// The job's state file cannot be read: whatever may have run counts as handled.
    fn restore(&mut self, now: Now, index: JobIndex, definition: &Definition, modified: UtcSecond) {
        let lost = self.lose(now, index, definition, modified);
        let job = &mut self.jobs[index.at()];
        job.has_state = true;
        let identity = job.identity.clone();
        let mut document = Document::new(&identity);
        for change in &lost {
            // An empty document takes any outcome.
            let _ = document.apply(change, 1);
        }
        let ticket = self.ticket(Pending::Recorded);
        self.deliver_after(ticket, &lost);
        self.push(Action::Restore { ticket, identity, document: Box::new(document) });
    }

    /// The job's state file is gone.
    fn restore_missing(&mut self, now: Now, index: JobIndex, definition: &Definition) {
        let lost = self.lose(now, index, definition, now.wall);
        if !lost.is_empty() {
            self.commit(index, lost, Rank::Background, Pending::Recorded);
        }
    }

    /// Counts every period whose window had started at `written`, now, or at any time that was
    /// ever seen as handled: each of them may have run. Skipping beats doubling.
    fn lose(
        &mut self,
        now: Now,
        index: JobIndex,
        definition: &Definition,
        written: UtcSecond,
    ) -> Vec<Change> {
        let at = written.max(now.wall).max(self.latest_seen);
        let timing = &definition.job.timing;
        let lead = timing.placement().window().lead().get_signed();
        let Some(nominal) = timing.schedule().prev_at_or_before(at.saturating_add(lead)) else {
            return Vec::new();
        };
        let chosen = timing.placement().decide(nominal).ok().and_then(|decision| decision.chosen);
        let job = &mut self.jobs[index.at()];
        job.mark(nominal);
        let reason = Reason::StateLost.to_string();
        job.tell_last(Last::not_run(nominal, Outcome::Missed, reason, now.wall));
        let identity = job.identity.clone();
        self.log(
            Entry::new(Level::Error, "state_lost")
                .of(&identity)
                .period(&kron_state::PeriodRef::Period(nominal))
                .error(
                    kron_core::Category::Persistence,
                    "read state",
                    "what was recorded about the job is lost; every period up to this one counts as handled",
                ),
        );
        let (outcome, reason) = (Outcome::Missed, Reason::StateLost);
        let unrun = Unrun { nominal, chosen, outcome, reason, stretch: None };
        self.handling(now, index, unrun)
    }

    /// What somebody asked for by hand holds for jobs that are not defined now, too.
    fn recall_overrides(&mut self, known: &Known) {
        for (identity, job) in &known.jobs {
            if job.suspend_override.is_none() {
                continue;
            }
            if let Some(index) = self.names.get(&**identity) {
                self.jobs[index.at()].suspend_override = job.suspend_override;
            } else {
                let archived = self.archive.entry((&**identity).into()).or_default();
                archived.suspend_override = job.suspend_override;
                archived.has_state |= job.has_state;
            }
        }
    }

    /// The clock was ahead when something was written. Since when jobs exist, have their definition
    /// or are resumed is put to now, which never runs the past; marks are left alone, which might
    /// run something again, and told. Whether anything known is another now.
    pub(super) fn leave_the_future(&mut self, now: Now) -> bool {
        let (mut moved, mut first_moved) = (0_u64, None);
        let mut marks = Vec::new();
        for job in &mut self.jobs {
            let Some(definition) = &job.definition else { continue };
            let past = &mut job.past;
            let mut moves = false;
            for at in [&mut past.created_at, &mut past.effective_from, &mut past.resumed_at] {
                if at.is_some_and(|at| at > now.wall) {
                    *at = Some(now.wall);
                    moves = true;
                }
            }
            if moves {
                moved += 1;
                first_moved = first_moved.or_else(|| Some(job.identity.clone()));
            }
            let lead = definition.job.timing.placement().window().lead().get_signed();
            if let Some(handled) = past.last_handled
                && handled.saturating_add(-lead) > now.wall
            {
                marks.push((job.identity.clone(), handled));
            }
        }
        if let Some(identity) = first_moved {
            self.log(
                Entry::new(Level::Warn, "created_in_future").of(&identity).with("count", moved).with(
                    "message",
                    "these jobs were created, changed or resumed while the clock was ahead; that counts as now",
                ),
            );
        }
        let (told, untold) = marks.split_at(marks.len().min(MARKS_TOLD_MAX));
        for (identity, handled) in told {
            self.log(
                Entry::new(Level::Warn, "mark_in_future")
                    .of(identity)
                    .shown("last_handled_period_id", handled)
                    .with("message", "nothing runs before this time; `kron state reset` mends it"),
            );
        }
        if !untold.is_empty() {
            self.log(
                Entry::new(Level::Warn, "marks_in_future").with("count", untold.len()).with(
                    "message",
                    "so have more jobs; `kron state reset --all-future` mends them",
                ),
            );
        }
        moved > 0
    }

    fn prior_of(&self, index: JobIndex) -> Option<Prior> {
        let job = &self.jobs[index.at()];
        let definition = job.definition.as_ref()?;
        Some(Prior {
            created_at: job.past.created_at?,
            hash: Some(definition.hash),
            effective_from: job.past.effective_from,
            suspended: job.is_suspended(),
            suspend_override: job.suspend_override,
            resumed_at: job.past.resumed_at,
            has_state: job.has_state,
            unknown: job.unknown.clone(),
        })
    }

    /// Writes which jobs have documents, if that is another than was written.
    pub(super) fn refresh_known(&mut self) {
        if self.known_is_stale {
            self.save_known(None);
        }
    }

    /// Makes what is known about all defined jobs durable.
    pub(super) fn save_known(&mut self, request: Option<RequestId>) {
        let mut known = Known::new(&self.machine_id);
        known.unknown.clone_from(&self.known_unknown);
        for job in &self.jobs {
            let (Some(definition), Some(created_at)) = (&job.definition, job.past.created_at)
            else {
                continue;
            };
            known.jobs.insert(
                job.identity.as_ref().into(),
                KnownJob {
                    created_at,
                    decision_hash: definition.hash.to_string().into(),
                    effective_from: job.past.effective_from,
                    suspended: job.is_suspended(),
                    suspend_override: job.suspend_override,
                    resumed_at: job.past.resumed_at,
                    removed: false,
                    has_state: job.has_state,
                    unknown: job.unknown.clone(),
                },
            );
        }
        // What was asked for by hand is kept for jobs that may come back.
        let undefined = self.jobs.iter().filter(|job| job.definition.is_none());
        let undefined = undefined.map(|job| (&job.identity, job.suspend_override, job.has_state));
        let archived = self.archive.iter();
        let archived = archived.map(|(name, job)| (name, job.suspend_override, job.has_state));
        for (identity, suspend_override, has_state) in undefined.chain(archived) {
            if suspend_override.is_none() || known.jobs.contains_key(&**identity) {
                continue;
            }
            known.jobs.insert(
                identity.as_ref().into(),
                KnownJob {
                    created_at: self.loaded_at,
                    decision_hash: Box::default(),
                    effective_from: None,
                    suspended: suspend_override == Some(true),
                    suspend_override,
                    resumed_at: None,
                    removed: true,
                    has_state,
                    unknown: Unknown::default(),
                },
            );
        }
        self.known_is_stale = false;
        let ticket = self.ticket(request.map_or(Pending::Recorded, Pending::Reply));
        self.push(Action::SaveKnown { ticket, known: Box::new(known) });
    }

    /// Where the job of this identity is, or a new place for it.
    fn slot(&mut self, identity: &Arc<str>) -> JobIndex {
        if let Some(index) = self.names.get(identity) {
            return *index;
        }
        let archived = self.archive.remove(identity);
        self.place(JobState::new(identity.clone(), archived))
    }

    fn place(&mut self, job: JobState) -> JobIndex {
        let identity = job.identity.clone();
        let index = if let Some(index) = self.free.pop() {
            self.jobs[index.at()] = job;
            index
        } else {
            self.jobs.push(job);
            JobIndex((self.jobs.len() - 1) as u32)
        };
        self.names.insert(identity, index);
        index
    }

    /// Lets go of a job that is not defined any more, once its last run is over.
    pub(super) fn forget_if_removed(&mut self, index: JobIndex) {
        let job = &self.jobs[index.at()];
        if job.definition.is_some() || !job.runs.is_empty() || !job.deliveries.is_empty() {
            return;
        }
        let identity = job.identity.clone();
        if self.names.get(&identity) != Some(&index) {
            return;
        }
        let archived = job.archived();
        self.names.remove(&identity);
        self.archive.insert(identity, archived);
        self.free.push(index);
    }

    /// Judges every job now: what happened while nothing was judged may have left work to do.
    pub(super) fn judge_all(&mut self, now: Now) {
        for at in 0..self.jobs.len() {
            if self.jobs[at].definition.is_some() {
                self.plan_at(JobIndex(at as u32), now.wall);
            }
        }
    }

    fn unplan(&mut self, index: JobIndex) {
        if let Some(at) = self.jobs[index.at()].due.take() {
            self.due.remove(&(at, index));
        }
    }

    fn plan_at(&mut self, index: JobIndex, at: UtcSecond) {
        self.unplan(index);
        self.jobs[index.at()].due = Some(at);
        self.due.insert((at, index));
    }
}
