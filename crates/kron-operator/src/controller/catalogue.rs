//! The picture of the cluster: every KronJob and the Jobs that KronJobs own.
//!
//! **Invariant:** what is kept of an object is never replaced by an older version of it, whichever
//! way it came: by a watch, a list, or the answer to a request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use kron_core::{TimingParser, UtcSecond};

use super::done::Class;
use super::watched::{Kept, SeenJob, WatchedJob, identity, version_of};
use super::watches::{Change, List, Listed};
use crate::plan::{Note, NoteKind, OwnedJob, Subject};
use crate::resource::KronJobStatus;

/// How many Jobs that are gone are remembered: an answer about one may come after the news.
const GONE_MAX: usize = 1000;

/// What is under way for a KronJob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing.
    Nothing,
    /// A step waits to be sent.
    Waiting(Class),
    /// A request was sent.
    Sent,
    /// A request came to nothing, and the next one is not due.
    Paused {
        /// Which pause.
        number: u64,
    },
}

/// A KronJob.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) kept: Kept,
    pub(super) doing: Doing,
    /// When to look at it.
    pub(super) wake: Option<UtcSecond>,
    /// When what is due was judged, while something else had to come first.
    pub(super) judged: Option<UtcSecond>,
    /// The Job that was made here, until its period is recorded: it may be gone by then.
    pub(super) made: Option<OwnedJob>,
    /// The period whose creation was not answered: it may have been made.
    pub(super) unanswered: Option<UtcSecond>,
    /// Why the latest attempt to make a Job failed.
    pub(super) trouble: Option<Box<str>>,
    pub(super) attempts: u32,
    /// A status whose storing was not answered, and what is to be told if it was stored.
    pub(super) unheard: Option<Box<(KronJobStatus, Vec<Note>)>>,
    /// The list it was last seen in.
    round: u32,
}

impl Entry {
    /// The period that is about to be called anything but executed and may have been made: its
    /// creation was not answered, or it was an earlier leader's.
    pub(super) fn doubtful(
        &self,
        status: &KronJobStatus,
        notes: &[Note],
        claimant: &str,
    ) -> Option<UtcSecond> {
        let next = self.kept.status.next.as_ref().filter(|next| next.chosen_time.is_some())?;
        let period = Some(next.period_id);
        let handled = self.kept.status.last_handled_period < period
            && status.last_handled_period >= period
            && !notes.iter().any(|note| note.kind == NoteKind::Created && note.period == period);
        let uncertain = self.unanswered == period || next.claimed_by.as_deref() != Some(claimant);
        period.filter(|_| handled && uncertain)
    }

    /// How the planner sees it.
    pub(super) fn subject<'a>(&'a self, jobs: &'a [OwnedJob]) -> Subject<'a> {
        Subject {
            generation: self.kept.generation,
            created_at: self.kept.created_at,
            definition: self.kept.definition.as_deref().map_err(|why| &**why),
            status: &self.kept.status,
            jobs,
            trouble: self.trouble.as_deref(),
            mended: self.kept.mended,
        }
    }
}

#[derive(Debug)]
struct HeldJob {
    owner_uid: Box<str>,
    /// Whether its removal was asked for here.
    removing: bool,
    version: u64,
    round: u32,
    job: OwnedJob,
}

/// Everything that is known.
#[derive(Debug)]
pub(super) struct Catalogue {
    entries: HashMap<Arc<str>, Entry>,
    jobs: HashMap<Arc<str>, Vec<HeldJob>>,
    /// The namespaces that are looked at, each with lists of its own; none for one list of all.
    namespaces: Vec<String>,
    /// How often each list was begun; two for each namespace.
    rounds: Vec<u32>,
    /// Which lists have been read to their end once.
    read: Vec<bool>,
    numbers: u64,
    /// The UIDs of the latest Jobs that are gone.
    gone: VecDeque<Box<str>>,
    /// How many KronJobs are valid, invalid and suspended, once they are counted.
    counts: Option<[usize; 3]>,
}

impl Catalogue {
    /// One that is filled once the KronJobs and the Jobs of these namespaces are read; of all, if
    /// there are none.
    pub(super) fn new(namespaces: Vec<String>) -> Catalogue {
        let lists = 2 * namespaces.len().max(1);
        Catalogue {
            entries: HashMap::new(),
            jobs: HashMap::new(),
            namespaces,
            rounds: vec![0; lists],
            read: vec![false; lists],
            numbers: 0,
            gone: VecDeque::new(),
            counts: None,
        }
    }

    /// Whether everything was read once.
    pub(super) fn is_filled(&self) -> bool {
        self.read.iter().all(|read| *read)
    }

    /// Whether the lists of one namespace at least were read once.
    pub(super) fn is_partly_filled(&self) -> bool {
        self.read.chunks(2).any(|lists| lists.iter().all(|read| *read))
    }

    /// Whether everything about this KronJob was read: before that, an absent Job proves nothing.
    pub(super) fn is_read(&self, identity: &str) -> bool {
        [Listed::KronJobs, Listed::Jobs]
            .into_iter()
            .all(|kind| self.read[self.list(kind, identity).place()])
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn identities(&self) -> Vec<Arc<str>> {
        self.entries.keys().cloned().collect()
    }

    pub(super) fn get(&self, identity: &str) -> Option<&Entry> {
        self.entries.get(identity)
    }

    pub(super) fn get_mut(&mut self, identity: &str) -> Option<&mut Entry> {
        self.entries.get_mut(identity)
    }

    /// A number that no pause had.
    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The Jobs of a KronJob.
    pub(super) fn jobs_of(&self, identity: &str) -> Vec<OwnedJob> {
        let Some(entry) = self.entries.get(identity) else { return Vec::new() };
        let held = self.jobs.get(identity).into_iter().flatten();
        let held = held.filter(|held| held.owner_uid == entry.kept.uid);
        let mut jobs: Vec<OwnedJob> = held
            .map(|held| OwnedJob {
                deleting: held.job.deleting || held.removing,
                ..held.job.clone()
            })
            .collect();
        // What was made and is gone before it was recorded was made all the same.
        if let Some(made) = &entry.made
            && made.period > entry.kept.status.last_handled_period
            && !jobs.iter().any(|job| job.uid == made.uid)
        {
            jobs.push(OwnedJob { deleting: true, ..made.clone() });
        }
        jobs
    }

    /// Names and UIDs of the Jobs at these places of [`Catalogue::jobs_of`].
    pub(super) fn names_of(&self, identity: &str, places: &[usize]) -> Vec<(Box<str>, Box<str>)> {
        if places.is_empty() {
            return Vec::new();
        }
        let jobs = self.jobs_of(identity);
        let jobs = places.iter().filter_map(|place| jobs.get(*place));
        jobs.map(|job| (job.name.clone(), job.uid.clone())).collect()
    }

    /// As [`Catalogue::names_of`]; the Jobs count as being deleted from now on.
    pub(super) fn mark_removed(
        &mut self,
        identity: &str,
        places: &[usize],
    ) -> Vec<(Box<str>, Box<str>)> {
        let named = self.names_of(identity, places);
        for (_, uid) in &named {
            self.set_removing(identity, uid, true);
        }
        named
    }

    /// A Job was removed to make room.
    pub(super) fn mark_replaced(&mut self, identity: &str, name: &str) {
        let held = self.jobs.get_mut(identity).into_iter().flatten();
        for held in held.filter(|held| *held.job.name == *name) {
            held.removing = true;
        }
    }

    /// A removal came to nothing.
    pub(super) fn unmark_removed(&mut self, identity: &str, uid: &str) {
        self.set_removing(identity, uid, false);
    }

    fn set_removing(&mut self, identity: &str, uid: &str, removing: bool) {
        let held = self.jobs.get_mut(identity).into_iter().flatten();
        for held in held.filter(|held| *held.job.uid == *uid) {
            held.removing = removing;
        }
    }

    /// A term of leadership ended or began: nothing is under way any more that counts.
    pub(super) fn let_go(&mut self) {
        for entry in self.entries.values_mut() {
            // What was sent is answered yet, and planned again then.
            if entry.doing != Doing::Sent {
                entry.doing = Doing::Nothing;
            }
            entry.wake = None;
            entry.judged = None;
            // Whoever led meanwhile may have met something else; the status says what.
            entry.trouble = None;
            entry.attempts = 0;
        }
        for held in self.jobs.values_mut().flatten() {
            held.removing = false;
        }
    }

    /// Forgets a KronJob, unless another has its name by now.
    pub(super) fn forget(&mut self, identity: &str, uid: &str) {
        if self.entries.get(identity).is_some_and(|entry| *entry.kept.uid == *uid) {
            self.entries.remove(identity);
            self.counts = None;
        }
    }

    /// Versions have gone back, as after the cluster's store was restored: whatever is told next
    /// about this KronJob and its Jobs counts.
    pub(super) fn believe_anything(&mut self, identity: &str) {
        if let Some(entry) = self.entries.get_mut(identity) {
            entry.kept.version = "0".into();
        }
        for held in self.jobs.get_mut(identity).into_iter().flatten() {
            held.version = 0;
        }
    }

    /// Takes in the answer to a request about a Job, which may be gone by now.
    pub(super) fn take_answer(&mut self, job: &WatchedJob) {
        if let Some(seen) = job.seen()
            && !self.gone.contains(&seen.job.uid)
        {
            self.hold(seen);
        }
    }

    /// The KronJob of this identity, if it is still the one with this UID.
    pub(super) fn same_mut(&mut self, identity: &str, uid: &str) -> Option<&mut Entry> {
        self.entries.get_mut(identity).filter(|entry| *entry.kept.uid == *uid)
    }

    /// How many KronJobs are valid, invalid and suspended.
    pub(super) fn counts(&mut self) -> [usize; 3] {
        if let Some(counts) = self.counts {
            return counts;
        }
        let mut counts = [0; 3];
        for entry in self.entries.values() {
            let place = match &entry.kept.definition {
                Ok(definition) if definition.timing.policy.suspend => 2,
                Ok(_) => 0,
                Err(_) => 1,
            };
            counts[place] += 1;
        }
        self.counts = Some(counts);
        counts
    }

    /// Takes a change in, and names the KronJobs that are to be looked at.
    pub(super) fn take_in(
        &mut self,
        change: Change,
        parser: &mut TimingParser,
        now: UtcSecond,
    ) -> Vec<Arc<str>> {
        match change {
            Change::KronJob(kronjob) => self.keep(*kronjob, parser, now).into_iter().collect(),
            Change::KronJobGone { identity, uid } => {
                self.forget(&identity, &uid);
                Vec::new()
            }
            Change::Job(job) => self.see_job(&job),
            Change::JobGone { owner, uid } => {
                let touched = self.drop_job(&owner, &uid);
                if self.gone.len() == GONE_MAX {
                    self.gone.pop_front();
                }
                self.gone.push_back(uid);
                touched.into_iter().collect()
            }
            Change::ListBegun(list) => {
                self.rounds[list.place()] += 1;
                Vec::new()
            }
            Change::ListRead(list) => {
                let first = !std::mem::replace(&mut self.read[list.place()], true);
                let gone = self.sweep(list);
                // Whatever waited for the list can be looked at now.
                if first { self.identities() } else { gone }
            }
        }
    }

    fn keep(
        &mut self,
        kronjob: super::watched::WatchedKronJob,
        parser: &mut TimingParser,
        now: UtcSecond,
    ) -> Option<Arc<str>> {
        let identity = identity(&kronjob.metadata)?;
        let round = self.round(Listed::KronJobs, &identity);
        let known = self.entries.remove(&identity);
        let Some(mut entry) = known else {
            let kept = Kept::of(kronjob, None, parser, now)?;
            self.counts = None;
            self.entries.insert(
                Arc::clone(&identity),
                Entry {
                    kept,
                    doing: Doing::Nothing,
                    wake: None,
                    judged: None,
                    made: None,
                    unanswered: None,
                    trouble: None,
                    attempts: 0,
                    unheard: None,
                    round,
                },
            );
            return Some(identity);
        };
        entry.round = round;
        let version = version_of(&kronjob.metadata);
        let known_version: u64 = entry.kept.version.parse().unwrap_or(0);
        let same = kronjob.metadata.uid.as_deref() == Some(&entry.kept.uid);
        // The echo of what was stored here, or something older.
        if same && version != 0 && version <= known_version {
            self.entries.insert(identity, entry);
            return None;
        }
        let generation = entry.kept.generation;
        let kept = Kept::of(kronjob, Some(entry.kept), parser, now)?;
        if !same {
            entry.made = None;
            entry.unanswered = None;
            entry.unheard = None;
            // Whatever is under way is not about this one.
            entry.doing = Doing::Nothing;
        }
        if !same || kept.generation != generation {
            self.counts = None;
            entry.judged = None;
            entry.trouble = None;
            entry.attempts = 0;
            if let Doing::Paused { .. } = entry.doing {
                entry.doing = Doing::Nothing;
            }
        }
        entry.kept = kept;
        self.entries.insert(Arc::clone(&identity), entry);
        Some(identity)
    }

    /// The list in which an object with this identity, or this owner, would be.
    fn list(&self, kind: Listed, identity: &str) -> List {
        let namespace = identity.split('/').next().unwrap_or_default();
        let scope = self.namespaces.iter().position(|name| name == namespace).unwrap_or(0);
        List { kind, scope }
    }

    fn round(&self, kind: Listed, identity: &str) -> u32 {
        self.rounds[self.list(kind, identity).place()]
    }

    /// A Job as the watch shows it. One that a KronJob owned and no longer owns is none of ours.
    fn see_job(&mut self, job: &WatchedJob) -> Vec<Arc<str>> {
        let seen = job.seen();
        let owner = seen.as_ref().map(|seen| Arc::clone(&seen.owner));
        let left = job.labelled().filter(|(labelled, _)| Some(labelled) != owner.as_ref());
        let left = left.and_then(|(labelled, uid)| self.drop_job(&labelled, &uid));
        let held = seen.and_then(|seen| self.hold(seen));
        left.into_iter().chain(held).collect()
    }

    fn hold(&mut self, seen: SeenJob) -> Option<Arc<str>> {
        let SeenJob { owner, owner_uid, version, job } = seen;
        let round = self.round(Listed::Jobs, &owner);
        let jobs = self.jobs.entry(Arc::clone(&owner)).or_default();
        match jobs.iter_mut().find(|held| held.job.uid == job.uid) {
            Some(held) => {
                held.round = round;
                if version <= held.version {
                    return None;
                }
                held.version = version;
                let changed = held.job.state != job.state || held.job.deleting != job.deleting;
                held.job = job;
                changed.then_some(owner)
            }
            None => {
                jobs.push(HeldJob { owner_uid, removing: false, version, round, job });
                Some(owner)
            }
        }
    }

    fn drop_job(&mut self, owner: &Arc<str>, uid: &str) -> Option<Arc<str>> {
        let jobs = self.jobs.get_mut(owner)?;
        let before = jobs.len();
        jobs.retain(|held| *held.job.uid != *uid);
        let changed = jobs.len() < before;
        if jobs.is_empty() {
            self.jobs.remove(owner);
        }
        changed.then(|| Arc::clone(owner))
    }

    /// Forgets what a list that was read to its end did not have.
    fn sweep(&mut self, list: List) -> Vec<Arc<str>> {
        let round = self.rounds[list.place()];
        match list.kind {
            Listed::KronJobs => {
                let old = self.entries.iter().filter(|(_, entry)| entry.round != round);
                let old: Vec<Arc<str>> = old.map(|(identity, _)| Arc::clone(identity)).collect();
                for identity in old {
                    if self.list(list.kind, &identity) == list {
                        self.entries.remove(&identity);
                    }
                }
                self.counts = None;
                Vec::new()
            }
            Listed::Jobs => {
                let old = |held: &HeldJob| held.round != round;
                let owners = self.jobs.iter().filter(|(_, jobs)| jobs.iter().any(old));
                let owners: Vec<Arc<str>> = owners.map(|(owner, _)| Arc::clone(owner)).collect();
                let ours = |owner: &Arc<str>| self.list(list.kind, owner) == list;
                let owners: Vec<Arc<str>> = owners.into_iter().filter(ours).collect();
                for owner in &owners {
                    if let Some(jobs) = self.jobs.get_mut(owner) {
                        jobs.retain(|held| !old(held));
                    }
                }
                self.jobs.retain(|_, jobs| !jobs.is_empty());
                owners
            }
        }
    }
}

#[cfg(test)]
mod tests;
