//! A little API server: one KronJob with a resource version, its Jobs by name, one lease; and the
//! facts, as they happened.

use std::collections::BTreeMap;

use kron_core::{Decision, UtcSecond};

use super::super::super::{JobState, OwnedJob, Subject};
use super::{Definition, LEASE_S, Specs, wall};
use crate::job;
use crate::resource::{KronJobStatus, Record};

/// When histories begin.
const START_UNIX_S: i64 = 1_772_323_200;

/// What somebody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) place: usize,
    pub(super) suspend: bool,
    pub(super) broken: bool,
}

/// The KronJob as a client reads it.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) version: u64,
    pub(super) generation: i64,
    pub(super) spec: Spec,
    pub(super) status: KronJobStatus,
}

/// A spec, from when on it was there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Era {
    pub(super) since: i64,
    pub(super) generation: i64,
    pub(super) spec: Spec,
}

/// A Job that was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) period: UtcSecond,
    pub(super) chosen: Option<UtcSecond>,
    pub(super) second: i64,
    pub(super) wall: UtcSecond,
    /// The generation of the spec that whoever made it knew.
    pub(super) generation: i64,
}

pub(super) struct Lease {
    pub(super) holder: Option<usize>,
    pub(super) renewed: i64,
    pub(super) transitions: u64,
}

struct Late {
    second: i64,
    decision: Decision,
    generation: i64,
}

pub(super) struct Server {
    pub(super) specs: Specs,
    pub(super) spec: Spec,
    pub(super) created_at: UtcSecond,
    version: u64,
    generation: i64,
    status: KronJobStatus,
    jobs: Vec<(OwnedJob, i64)>,
    pub(super) lease: Lease,
    late: Vec<Late>,
    second: i64,
    offset_s: i64,
    /// The facts.
    pub(super) eras: Vec<Era>,
    pub(super) made: Vec<Made>,
    pub(super) outcomes: BTreeMap<UtcSecond, Record>,
    pub(super) faults: Vec<String>,
    story: Vec<String>,
}

impl Server {
    pub(super) fn new(specs: Specs, offset_s: i64) -> Server {
        let spec = Spec { place: 0, suspend: false, broken: false };
        Server {
            specs,
            spec,
            created_at: wall(START_UNIX_S + offset_s),
            version: 1,
            generation: 1,
            status: KronJobStatus::default(),
            jobs: Vec::new(),
            lease: Lease { holder: None, renewed: -LEASE_S, transitions: 0 },
            late: Vec::new(),
            second: 0,
            offset_s,
            eras: vec![Era { since: 0, generation: 1, spec }],
            made: Vec::new(),
            outcomes: BTreeMap::new(),
            faults: Vec::new(),
            story: Vec::new(),
        }
    }

    pub(super) fn set_time(&mut self, second: i64) {
        self.second = second;
    }

    /// The second of the history, which nobody in it knows.
    pub(super) fn second(&self) -> i64 {
        self.second
    }

    pub(super) fn wall(&self) -> UtcSecond {
        wall(START_UNIX_S + self.offset_s + self.second)
    }

    /// The second of the history at which a clock that was never set shows this.
    pub(super) fn second_of(&self, wall: UtcSecond) -> i64 {
        wall.unix() - START_UNIX_S - self.offset_s
    }

    pub(super) fn leap(&mut self, by_s: i64) {
        self.offset_s += by_s;
        self.tell(&format!("the clock leaps by {by_s} s"));
    }

    pub(super) fn tell(&mut self, words: &str) {
        let line = format!("{:>4} {} {words}", self.second, self.wall());
        self.story.push(line);
    }

    pub(super) fn story(&self) -> String {
        self.story.join("\n")
    }

    pub(super) fn definition(&self, spec: Spec) -> Result<&Definition, &'static str> {
        if spec.broken {
            return Err("spec.window: nonsense");
        }
        Ok(&self.specs.definitions[spec.place][usize::from(spec.suspend)])
    }

    pub(super) fn subject<'a>(&'a self, read: &'a Read, jobs: &'a [OwnedJob]) -> Subject<'a> {
        Subject {
            generation: read.generation,
            created_at: self.created_at,
            definition: self.definition(read.spec),
            status: &read.status,
            jobs,
            trouble: None,
            mended: false,
        }
    }

    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Spec)) {
        let before = self.spec;
        change(&mut self.spec);
        if before == self.spec {
            return;
        }
        self.version += 1;
        self.generation += 1;
        self.eras.push(Era { since: self.second, generation: self.generation, spec: self.spec });
        self.tell(&format!("edited: {:?}", self.spec));
    }

    /// What takes effect by itself: Jobs end, late requests arrive.
    pub(super) fn settle(&mut self) {
        let (second, now) = (self.second, self.wall());
        for (job, ends) in &mut self.jobs {
            if job.state == JobState::Active && *ends <= second {
                job.state = if ends.rem_euclid(4) == 0 {
                    JobState::Failed { at: now }
                } else {
                    JobState::Succeeded { at: now }
                };
            }
        }
        let (due, rest) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|late: &Late| late.second <= second);
        self.late = rest;
        let due: Vec<Late> = due;
        for late in due {
            let _ = self.make(&late.decision, late.generation);
        }
    }

    pub(super) fn read(&self) -> Read {
        Read {
            version: self.version,
            generation: self.generation,
            spec: self.spec,
            status: self.status.clone(),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn jobs(&self) -> Vec<OwnedJob> {
        self.jobs.iter().map(|(job, _)| job.clone()).collect()
    }

    /// Stores a status if the object is of this version; the version it has then.
    pub(super) fn store(&mut self, version: u64, status: &KronJobStatus) -> Option<u64> {
        if version != self.version {
            return None;
        }
        if *status == self.status {
            self.faults.push("a status was written that changes nothing".to_owned());
        }
        if status.last_handled_period < self.status.last_handled_period {
            self.faults.push("lastHandledPeriod moved back".to_owned());
        }
        for record in &status.recent {
            let known = self.outcomes.insert(record.period_id, record.clone());
            if known.is_none() {
                let first =
                    record.first_period_id.map(|first| format!("{first}..")).unwrap_or_default();
                let reason = record.reason.as_deref().unwrap_or_default();
                self.tell(&format!("{first}{} {}: {reason}", record.period_id, record.outcome));
            }
            if known.is_some_and(|known| known.outcome != record.outcome) {
                self.faults.push(format!("the outcome of {} changed", record.period_id));
            }
        }
        let claim = |status: &KronJobStatus| {
            let next = status.next.as_ref()?;
            Some((next.period_id, next.claimed_by.clone()?, next.replacing_since))
        };
        if claim(status) != claim(&self.status) {
            self.tell(&format!("claimed: {:?}", claim(status)));
        }
        self.status = status.clone();
        self.version += 1;
        Some(self.version)
    }

    /// Makes a Job, or finds the one that has the name.
    pub(super) fn make(&mut self, decision: &Decision, generation: i64) -> OwnedJob {
        let period = decision.nominal;
        let name = job::name("kj", period);
        if let Some((known, _)) = self.jobs.iter().find(|(job, _)| *job.name == *name) {
            return known.clone();
        }
        let now = self.wall();
        let number = self.made.len();
        if self.made.iter().any(|made| made.period == period) {
            self.faults.push(format!("a second Job of {period}"));
        }
        self.made.push(Made {
            period,
            chosen: decision.chosen,
            second: self.second,
            wall: now,
            generation,
        });
        self.tell(&format!(
            "made {name}, chosen {:?}",
            decision.chosen.map(|chosen| chosen.to_string())
        ));
        let job = OwnedJob {
            name: name.into(),
            uid: format!("uid {number}").into(),
            period: Some(period),
            chosen: decision.chosen,
            created_at: now,
            state: JobState::Active,
            deleting: false,
        };
        // How long it runs follows from its period: from 1 s to a minute and a half.
        let lasts = 1 + (period.unix() / 10 * 7_919).rem_euclid(90);
        self.jobs.push((job.clone(), self.second + lasts));
        job
    }

    /// A request to make a Job that takes effect later.
    pub(super) fn make_late(&mut self, decision: &Decision, generation: i64, after_s: i64) {
        self.tell(&format!("the Job of {} is {after_s} s under way", decision.nominal));
        self.late.push(Late { second: self.second + after_s, decision: *decision, generation });
    }

    /// Removes a Job that is no longer kept.
    pub(super) fn clean_up(&mut self, uid: &str, by_clock: bool) {
        let Some(place) = self.jobs.iter().position(|(job, _)| *job.uid == *uid) else { return };
        let (job, _) = self.jobs.remove(place);
        self.tell(&format!("cleaned up {}", job.name));
        if job.state == JobState::Active {
            self.faults.push(format!("{} was cleaned up while active", job.name));
        }
        if job.period > self.status.last_handled_period {
            self.faults.push(format!("{} was cleaned up before it was recorded", job.name));
        }
        if by_clock && self.wall().since(job.created_at) < 60 {
            self.faults.push(format!("{} was cleaned up while young", job.name));
        }
    }

    /// Removes an active Job that makes room.
    pub(super) fn replace(&mut self, uid: &str) {
        if let Some(place) = self.jobs.iter().position(|(job, _)| *job.uid == *uid) {
            let (job, _) = self.jobs.remove(place);
            self.tell(&format!("replaced {}", job.name));
            if !self.specs.replace {
                self.faults.push(format!("{} was replaced", job.name));
            }
            if self.status.next.as_ref().is_none_or(|next| next.replacing_since.is_none()) {
                self.faults.push(format!("{} was replaced unannounced", job.name));
            }
        }
    }
}
