//! The judge of what an operator did, from the outside.
//!
//! It shares no code with the operator. What it knows are the schedules, by arithmetic, and what the
//! API server wrote down. From that it tells which periods had more than one Job, which had none,
//! and which had one although nobody asked for it.
//!
//! A Job is what was created with success, whatever became of it: one that was deleted and made
//! again is two. A KronJob that is deleted and created again is another one and has another UID; it
//! may have a Job of a period that the one before it had, too. An API server that is killed with
//! `SIGKILL` may have created a Job without writing it down; [`Judge::also_exists`] adds what is
//! still there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::audit::{Request, requests_in};

const KRONJOB_LABEL: &str = "kron.dev/kronjob";
const PERIOD_LABEL: &str = "kron.dev/period";

/// Which Job is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobKey {
    pub(crate) namespace: String,
    pub(crate) kronjob: String,
    /// As in the label: `20260301T000000Z`.
    pub(crate) period: String,
}

/// A Job that the API server created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Creation {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The UID of the owner that it names; empty where it names none.
    pub(crate) owner: String,
    pub(crate) received: Timestamp,
    pub(crate) answered: Timestamp,
}

/// A Job that the API server did not create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) key: JobKey,
    pub(crate) code: u16,
    pub(crate) received: Timestamp,
}

/// What a test knows about a schedule: due at every multiple of `every`, with windows of no length.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) namespace: String,
    pub(crate) kronjob: String,
    pub(crate) every: Duration,
    /// The first moment that counts.
    pub(crate) from: Timestamp,
    /// The first moment that does not count any more.
    pub(crate) to: Timestamp,
    /// How long after its time a Job may still be created; `None` means for ever.
    pub(crate) deadline: Option<Duration>,
}

impl Expected {
    /// The times at which it is due.
    pub(crate) fn times(&self) -> impl Iterator<Item = Timestamp> + use<> {
        let every = i64::try_from(self.every.as_secs()).unwrap();
        assert!(every > 0 && self.every.subsec_nanos() == 0, "whole seconds");
        let (from, to) = (first_second_at(self.from), first_second_at(self.to));
        let first = from.div_euclid(every) + i64::from(from.rem_euclid(every) > 0);
        (first..)
            .map(move |count| count * every)
            .take_while(move |&second| second < to)
            .map(|second| Timestamp::from_second(second).unwrap())
    }

    fn key(&self, time: Timestamp) -> JobKey {
        JobKey {
            namespace: self.namespace.clone(),
            kronjob: self.kronjob.clone(),
            period: period_label(time),
        }
    }
}

/// What must never be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// A period of one KronJob had more than one Job.
    Doubled(JobKey, usize),
    /// A period had no Job.
    Missing(JobKey),
    /// A Job was created before its time.
    Early(JobKey),
    /// A Job was created after its deadline.
    Late(JobKey),
    /// A KronJob's Job was created for a period that nobody expected.
    Unexpected(JobKey),
}

/// What has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judge {
    /// The UIDs of the KronJobs that were created.
    kronjobs: BTreeSet<String>,
    created: BTreeMap<JobKey, Vec<Creation>>,
    refused: Vec<Refusal>,
    existing: BTreeSet<JobKey>,
}

impl Judge {
    /// Reads the text of an audit log.
    pub(crate) fn read_text(audit_log: &str) -> Judge {
        Judge::of(requests_in(audit_log))
    }

    /// Looks at these requests.
    pub(crate) fn of(requests: impl IntoIterator<Item = Request>) -> Judge {
        let mut judge = Judge::default();
        for request in requests {
            judge.see(&request);
        }
        judge
    }

    fn see(&mut self, request: &Request) {
        // A server-side apply creates, too, and then says 201.
        let creates = request.verb == "create" || (request.verb == "patch" && request.code == 201);
        if !creates || is_dry_run(&request.uri) {
            return;
        }
        match request.resource.as_str() {
            "kronjobs" => {
                self.kronjobs.extend(request.given["metadata"]["uid"].as_str().map(str::to_owned));
            }
            "jobs" => self.see_job(request),
            _ => {}
        }
    }

    fn see_job(&mut self, request: &Request) {
        let given = if request.succeeded() { &request.given } else { &request.sent };
        let Some(key) = key_of(&request.namespace, given) else { return };
        if request.succeeded() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            self.created.entry(key).or_default().push(Creation {
                name: text(&given["metadata"]["name"]),
                uid: text(&given["metadata"]["uid"]),
                owner: text(&given["metadata"]["ownerReferences"][0]["uid"]),
                received: request.received,
                answered: request.answered,
            });
        } else {
            self.refused.push(Refusal { key, code: request.code, received: request.received });
        }
    }

    /// Adds the Jobs of a list, as the API server gives it, that were not written down.
    pub(crate) fn also_exists(&mut self, list: &Value) {
        for job in list["items"].as_array().into_iter().flatten() {
            let namespace = job["metadata"]["namespace"].as_str().unwrap_or_default();
            self.existing.extend(key_of(namespace, job));
        }
    }

    /// Every Job that was created.
    pub(crate) fn created(&self) -> &BTreeMap<JobKey, Vec<Creation>> {
        &self.created
    }

    /// Every creation that the API server refused.
    pub(crate) fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// The periods with more than one Job.
    pub(crate) fn doubled(&self) -> Vec<Wrong> {
        let counted =
            self.created.iter().map(|(key, creations)| (key, self.most_of_one(creations)));
        let many = counted.filter(|(_, count)| *count > 1);
        many.map(|(key, count)| Wrong::Doubled(key.clone(), count)).collect()
    }

    /// Everything that is wrong about a schedule.
    pub(crate) fn judge(&self, expected: &Expected) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        let mut known = BTreeSet::new();
        for time in expected.times() {
            let key = expected.key(time);
            known.insert(key.clone());
            let creations = self.created.get(&key).map_or(&[][..], Vec::as_slice);
            if creations.is_empty() && !self.existing.contains(&key) {
                wrong.push(Wrong::Missing(key));
                continue;
            }
            let count = self.most_of_one(creations);
            if count > 1 {
                wrong.push(Wrong::Doubled(key.clone(), count));
            }
            if creations.iter().any(|creation| creation.answered < time) {
                wrong.push(Wrong::Early(key.clone()));
            }
            let limit = expected.deadline.and_then(|deadline| time.checked_add(deadline).ok());
            if limit.is_some_and(|limit| creations.iter().any(|c| c.received > limit)) {
                wrong.push(Wrong::Late(key));
            }
        }
        let ours =
            |key: &&JobKey| key.namespace == expected.namespace && key.kronjob == expected.kronjob;
        for key in self.created.keys().filter(ours).filter(|key| !known.contains(*key)) {
            wrong.push(Wrong::Unexpected(key.clone()));
        }
        wrong
    }

    /// How many of a period's Jobs one KronJob had at most. A Job whose owner is not known to have been
    /// created counts for every KronJob.
    fn most_of_one(&self, creations: &[Creation]) -> usize {
        let is_of = |creation: &&Creation, owner: &str| {
            creation.owner == owner || !self.kronjobs.contains(&creation.owner)
        };
        let owners = creations.iter().map(|creation| creation.owner.as_str());
        let of_one = |owner| creations.iter().filter(|creation| is_of(creation, owner)).count();
        owners.map(of_one).max().unwrap_or_default()
    }

    /// How much later than its time each Job of a schedule was created, in no order.
    pub(crate) fn lateness(&self, expected: &Expected) -> Vec<SignedDuration> {
        let times = expected.times();
        times
            .filter_map(|time| {
                let creation = self.created.get(&expected.key(time))?.first()?;
                Some(creation.answered.duration_since(time))
            })
            .collect()
    }
}

/// The period id of a time, as it is in a label.
pub(crate) fn period_label(time: Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn first_second_at(time: Timestamp) -> i64 {
    time.as_second() + i64::from(time.subsec_nanosecond() > 0)
}

fn is_dry_run(uri: &str) -> bool {
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|part| part.starts_with("dryRun="))
}

fn key_of(namespace: &str, job: &Value) -> Option<JobKey> {
    let labels = &job["metadata"]["labels"];
    Some(JobKey {
        namespace: namespace.to_owned(),
        kronjob: labels[KRONJOB_LABEL].as_str()?.to_owned(),
        period: labels[PERIOD_LABEL].as_str()?.to_owned(),
    })
}
