//! What became of it all, from the audit log. It shares no code with the operator.
//!
//! An API server that is killed may have done something and not written it down, so the Jobs that
//! are there are looked at, too: every UID that was ever seen is a Job.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil};
use serde_json::Value;

use super::load::Schedule;
use crate::audit::Request;
use crate::control_plane::ControlPlane;
use crate::judge::{JobKey, Judge, Wrong};

/// How much later than its deadline a Job may arrive: the operator counts in whole seconds, and a
/// request takes its time.
const LATE_GRACE: Duration = Duration::from_secs(3);

/// What happened in a namespace.
pub(super) struct Ledger {
    judge: Judge,
    /// The Jobs of each period by their UIDs, however they were seen.
    uids: BTreeMap<JobKey, BTreeSet<String>>,
    writes: Vec<Write>,
}

/// A request of the operator that wrote something.
struct Write {
    user: String,
    kind: Kind,
    code: u16,
    received: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    JobCreation(JobKey),
    JobDeletion,
    /// A status, and the claim in it: whose it is, and for which period.
    Status {
        kronjob: String,
        version: u64,
        claimed_by: String,
        period: String,
    },
    /// A lease, and the holder in it; nothing when it was given back.
    Lease {
        holder: String,
    },
}

impl Ledger {
    /// Reads the audit log, once everything is in it that was answered, and looks at the Jobs: one
    /// may be there before its creation is answered.
    pub(super) fn read(plane: &ControlPlane, namespace: &str) -> Ledger {
        let existing = all_jobs(plane, namespace);
        let requests = plane.requests(namespace);
        let mut writes: Vec<Write> = requests.iter().filter_map(Write::of).collect();
        writes.sort_by_key(|write| write.received);
        let judge = Judge::of(requests);
        let mut uids: BTreeMap<JobKey, BTreeSet<String>> = BTreeMap::new();
        for (key, creations) in judge.created() {
            let seen = uids.entry(key.clone()).or_default();
            seen.extend(creations.iter().map(|creation| creation.uid.clone()));
        }
        let mut ledger = Ledger { judge, uids, writes };
        for page in &existing {
            ledger.also_exists(page);
        }
        ledger
    }

    /// Adds the Jobs of a list.
    pub(super) fn also_exists(&mut self, list: &Value) {
        for job in list["items"].as_array().into_iter().flatten() {
            let Some(key) = key_of(job) else { continue };
            let uid = text(&job["metadata"]["uid"]);
            self.uids.entry(key).or_default().insert(uid);
        }
    }

    /// Everything that is wrong about a schedule.
    ///
    /// Between `from` and `to` every period must have its Job; where both are the same, none must.
    pub(super) fn wrong(&self, schedule: &Schedule, from: Timestamp, to: Timestamp) -> Vec<Wrong> {
        let times = schedule.times(from, to).into_iter();
        let missing =
            times.map(|time| schedule.key(time)).filter(|key| !self.uids.contains_key(key));
        let mut wrong: Vec<Wrong> = missing.map(Wrong::Missing).collect();
        let ours =
            |key: &&JobKey| key.namespace == schedule.namespace && key.kronjob == schedule.name;
        for key in self.uids.keys().filter(ours) {
            let time = time_of(&key.period);
            if !schedule.is_due(time) {
                wrong.push(Wrong::Unexpected(key.clone()));
            }
            let count = self.uids[key].len();
            if count > 1 {
                wrong.push(Wrong::Doubled(key.clone(), count));
            }
            let creations = self.judge.created().get(key).into_iter().flatten();
            for creation in creations {
                if creation.answered < time {
                    wrong.push(Wrong::Early(key.clone()));
                }
                if creation.received > time + schedule.deadline + LATE_GRACE {
                    wrong.push(Wrong::Late(key.clone()));
                }
            }
        }
        wrong
    }

    /// Whether there ever was the Job of a period.
    pub(super) fn has(&self, schedule: &Schedule, time: Timestamp) -> bool {
        self.uids.contains_key(&schedule.key(time))
    }

    /// How many Jobs there ever were.
    pub(super) fn jobs(&self) -> usize {
        self.uids.values().map(BTreeSet::len).sum()
    }

    /// How many Jobs were deleted.
    pub(super) fn deletions(&self) -> usize {
        self.writes
            .iter()
            .filter(|write| write.kind == Kind::JobDeletion && write.succeeded())
            .count()
    }

    /// How late each Job was created, in order.
    pub(super) fn lateness(&self) -> Vec<SignedDuration> {
        let created = self.judge.created().iter();
        let mut lateness: Vec<SignedDuration> = created
            .map(|(key, creations)| creations[0].received.duration_since(time_of(&key.period)))
            .collect();
        lateness.sort();
        lateness
    }

    /// The Jobs that somebody created who had not claimed their periods: the stored status of the
    /// KronJob, as the API server last gave it back, named another period or another claimant.
    /// A request may be on its way for so long: the claim was there when it was sent, and another may
    /// have claimed the period since.
    pub(super) fn without_claim_before(&self, on_its_way: Duration) -> Vec<JobKey> {
        let mut claims: BTreeMap<&str, (u64, &str, &str)> = BTreeMap::new();
        // Until when a claim was the stored one.
        let mut past: BTreeMap<(&str, &str, &str), Timestamp> = BTreeMap::new();
        let mut without = Vec::new();
        for write in self.writes.iter().filter(|write| write.succeeded()) {
            match &write.kind {
                Kind::Status { kronjob, version, claimed_by, period } => {
                    let claim = claims.entry(kronjob).or_default();
                    let newest = (*claim).max((*version, claimed_by, period));
                    past.insert((kronjob, claim.1, claim.2), write.received);
                    *claim = newest;
                }
                Kind::JobCreation(key) => {
                    let (_, claimed_by, period) =
                        claims.get(key.kronjob.as_str()).copied().unwrap_or_default();
                    // `operator-3_0a1b2c3d/17`
                    let is_own =
                        |claimed_by: &str| claimed_by.starts_with(&format!("{}-", write.user));
                    let was_own = past.iter().any(|((kronjob, claimed_by, period), until)| {
                        *kronjob == key.kronjob
                            && *period == key.period
                            && is_own(claimed_by)
                            && *until + on_its_way > write.received
                    });
                    if (!is_own(claimed_by) || period != key.period) && !was_own {
                        without.push(key.clone());
                    }
                }
                Kind::JobDeletion | Kind::Lease { .. } => {}
            }
        }
        without
    }

    /// The first moment after another at which somebody took or renewed the lease.
    pub(super) fn lease_written(&self, user: &str, after: Timestamp) -> Option<Timestamp> {
        let writes = self.writes.iter().filter(|write| matches!(write.kind, Kind::Lease { .. }));
        let writes = writes.filter(|write| write.user == user && write.succeeded());
        writes.map(|write| write.received).find(|received| *received > after)
    }

    /// Who wrote the lease after a moment, and which holder it had then: the first writes up to the
    /// first by another user, in order.
    pub(super) fn handover(&self, after: Timestamp) -> Vec<(&str, &str)> {
        let mut writes = self.writes.iter().filter_map(|write| match &write.kind {
            Kind::Lease { holder } if write.succeeded() && write.received > after => {
                Some((write.user.as_str(), holder.as_str()))
            }
            _ => None,
        });
        let mut handover: Vec<(&str, &str)> = Vec::new();
        while handover.last().is_none_or(|(user, _)| *user == handover[0].0)
            && let Some(write) = writes.next()
        {
            handover.push(write);
        }
        handover
    }

    /// How often somebody asked for a Job or a status between two moments, whatever was answered.
    pub(super) fn asked(&self, user: &str, from: Timestamp, to: Timestamp) -> usize {
        let writes = self
            .writes
            .iter()
            .filter(|write| matches!(write.kind, Kind::JobCreation(_) | Kind::Status { .. }));
        let writes = writes.filter(|write| write.user == user);
        writes.filter(|write| (from..to).contains(&write.received)).count()
    }

    /// The first moment after another at which a Job was created.
    pub(super) fn first_job(&self, after: Timestamp) -> Option<Timestamp> {
        let created = self.judge.created().values().flatten();
        created.map(|creation| creation.received).filter(|received| *received > after).min()
    }

    /// The codes with which the API server refused to create the Job of a period.
    pub(super) fn refusals(&self, key: &JobKey) -> Vec<u16> {
        let refused = self.judge.refused().iter().filter(|refusal| refusal.key == *key);
        refused.map(|refusal| refusal.code).collect()
    }
}

impl Write {
    fn of(request: &Request) -> Option<Write> {
        let kind = match (request.verb.as_str(), request.resource.as_str()) {
            ("create", "jobs") => {
                let mut sent = request.sent.clone();
                sent["metadata"]["namespace"] = request.namespace.as_str().into();
                Kind::JobCreation(key_of(&sent)?)
            }
            ("delete", "jobs") => Kind::JobDeletion,
            ("patch" | "update", "kronjobs/status") => {
                let given = &request.given;
                let next = &given["status"]["next"];
                Kind::Status {
                    kronjob: text(&given["metadata"]["name"]),
                    version: text(&given["metadata"]["resourceVersion"]).parse().unwrap_or(0),
                    claimed_by: text(&next["claimedBy"]),
                    period: text(&next["periodId"]).replace(['-', ':'], ""),
                }
            }
            ("create" | "update" | "patch", "leases") => {
                Kind::Lease { holder: text(&request.given["spec"]["holderIdentity"]) }
            }
            _ => return None,
        };
        Some(Write {
            user: request.user.clone(),
            kind,
            code: request.code,
            received: request.received,
        })
    }

    fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn key_of(job: &Value) -> Option<JobKey> {
    let metadata = &job["metadata"];
    Some(JobKey {
        namespace: metadata["namespace"].as_str()?.to_owned(),
        kronjob: metadata["labels"]["kron.dev/kronjob"].as_str()?.to_owned(),
        period: metadata["labels"]["kron.dev/period"].as_str()?.to_owned(),
    })
}

/// The time in a label such as `20260301T000000Z`.
fn time_of(period: &str) -> Timestamp {
    let time = civil::DateTime::strptime("%Y%m%dT%H%M%SZ", period);
    let time = time.unwrap_or_else(|error| panic!("`{period}` is no period: {error}"));
    time.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp()
}

/// All Jobs of a namespace, in pages as the API server gives them.
pub(super) fn all_jobs(plane: &ControlPlane, namespace: &str) -> Vec<Value> {
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs?limit={PAGE}");
    let mut pages = vec![plane.api().get(&path).expect(200)];
    while let Some(token) = pages.last().and_then(|page| page["metadata"]["continue"].as_str())
        && !token.is_empty()
    {
        let next = plane.api().get(&format!("{path}&continue={token}")).expect(200);
        pages.push(next);
    }
    pages
}

/// How many Jobs are on a page.
const PAGE: usize = 500;
