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

/// What the API server answers when it had no time for a request.
const GATEWAY_TIMEOUT: u16 = 504;
/// How many statuses are told of a Job without a claim.
const CLAIMS_TOLD: usize = 4;

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
    answered: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// A Job, and the number under which it was stored; zero when it was not.
    JobCreation {
        key: JobKey,
        version: u64,
    },
    JobDeletion,
    /// A status, the number under which it was stored and that of what it replaced, and the claim in
    /// it: whose it is, and for which period.
    Status {
        kronjob: String,
        version: u64,
        replaced: u64,
        claimed_by: String,
        period: String,
    },
    /// A lease, and the holder in it; nothing when it was given back.
    Lease {
        holder: String,
    },
}

/// A Job that was created without a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unclaimed {
    pub(super) key: JobKey,
    /// Who created it, and when the request was received.
    creator: String,
    received: Timestamp,
    /// The claims in the latest statuses before it, newest first: whose, of which period, and when the
    /// write was received and answered.
    claims: Vec<(String, String, Timestamp, Timestamp)>,
}

/// A write of the lease that was carried out.
#[derive(Debug)]
pub(super) struct LeaseWrite<'a> {
    pub(super) user: &'a str,
    /// Who holds it then; empty after a release.
    pub(super) holder: &'a str,
    pub(super) received: Timestamp,
}

impl LeaseWrite<'_> {
    /// Whether a user took or renewed it.
    pub(super) fn is_held_by(&self, user: &str) -> bool {
        self.user == user && self.holder.starts_with(&format!("{user}-"))
    }
}

impl Ledger {
    /// Reads the audit log, once everything is in it that was answered, and looks at the Jobs: one
    /// may be there before its creation is answered.
    pub(super) fn read(plane: &ControlPlane, namespace: &str) -> Ledger {
        let existing = all_jobs(plane, namespace);
        let mut ledger = Ledger::of(plane.requests(namespace));
        for page in &existing {
            ledger.also_exists(page);
        }
        ledger
    }

    /// Looks at these requests.
    fn of(requests: Vec<Request>) -> Ledger {
        let mut writes: Vec<Write> = requests.iter().filter_map(Write::of).collect();
        writes.sort_by_key(|write| write.received);
        let judge = Judge::of(requests);
        let mut uids: BTreeMap<JobKey, BTreeSet<String>> = BTreeMap::new();
        for (key, creations) in judge.created() {
            let seen = uids.entry(key.clone()).or_default();
            seen.extend(creations.iter().map(|creation| creation.uid.clone()));
        }
        Ledger { judge, uids, writes }
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
    /// A request that was sent in time may be received late by [`LATE_GRACE`] and `on_its_way`.
    pub(super) fn wrong(
        &self,
        schedule: &Schedule,
        from: Timestamp,
        to: Timestamp,
        on_its_way: Duration,
    ) -> Vec<Wrong> {
        let late = schedule.deadline + LATE_GRACE + on_its_way;
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
                if creation.received > time + late {
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

    /// The Jobs that a replica created without a claim of their periods.
    ///
    /// The API server numbers all writes in the order in which it stores them. When a Job was stored,
    /// the status of its KronJob held its creator's claim of its period; or that claim was replaced
    /// while the request to create the Job was on its way to the API server, which takes no longer
    /// than `on_its_way` for a request that was received at a moment. With [`Duration::ZERO`] the API
    /// server had received the request by the time that it answered the one that replaced the claim.
    ///
    /// An API server on a busy machine may store a claim and answer that it had no time for it; see
    /// [`Ledger::is_stored_unanswered`].
    pub(super) fn without_claim(
        &self,
        on_its_way: impl Fn(Timestamp) -> Duration,
    ) -> Vec<Unclaimed> {
        let mut statuses: Vec<(&str, u64, &Write)> = Vec::new();
        let stored = || self.writes.iter().filter(|write| write.succeeded());
        for write in stored() {
            if let Kind::Status { kronjob, version, .. } = &write.kind {
                statuses.push((kronjob, *version, write));
            }
        }
        statuses.sort_by_key(|(_, version, _)| *version);
        let is_claimed = |creation: &Write, key: &JobKey, stored_as: u64| {
            let mut earlier = statuses
                .iter()
                .rev()
                .filter(|(kronjob, version, _)| *kronjob == key.kronjob && *version < stored_as)
                .map(|(_, _, write)| write);
            // Going back in time: what followed on the claim, and was stored first.
            let mut replaced_by: Option<&Write> = None;
            let has_claim = earlier.any(|write| {
                let is_claim = write.claims(&creation.user, &key.period);
                if !is_claim {
                    replaced_by = Some(write);
                }
                is_claim
            });
            let received = creation.received;
            let until = replaced_by.map(|write| write.answered + on_its_way(received));
            has_claim && until.is_none_or(|until| received <= until)
                || self.is_stored_unanswered(&statuses, creation, key, stored_as)
        };
        let mut without = Vec::new();
        for write in stored() {
            if let Kind::JobCreation { key, version } = &write.kind
                && !is_claimed(write, key, *version)
            {
                let earlier = statuses.iter().rev().filter(|(kronjob, of_status, _)| {
                    *kronjob == key.kronjob && of_status < version
                });
                without.push(Unclaimed {
                    key: key.clone(),
                    creator: write.user.clone(),
                    received: write.received,
                    claims: earlier
                        .take(CLAIMS_TOLD)
                        .filter_map(|(.., write)| write.claim())
                        .collect(),
                });
            }
        }
        without
    }

    /// Whether the creator of a Job claimed its period by a write of which the API server says that it
    /// had no time for it, and which it stored all the same: the status that was written next after the
    /// Job, if one was, replaced one that no answer tells of.
    fn is_stored_unanswered(
        &self,
        statuses: &[(&str, u64, &Write)],
        creation: &Write,
        key: &JobKey,
        stored_as: u64,
    ) -> bool {
        let of_this = || statuses.iter().filter(|(kronjob, ..)| *kronjob == key.kronjob);
        let before = of_this().rev().find(|(_, version, _)| *version < stored_as);
        let after = of_this().find(|(_, version, _)| *version > stored_as);
        let told = before.map_or(0, |(_, version, _)| *version);
        let is_untold = after.is_none_or(
            |(.., write)| matches!(write.kind, Kind::Status { replaced, .. } if replaced > told),
        );
        let claims = self.writes.iter().filter(|write| {
            write.code == GATEWAY_TIMEOUT
                && write.claims(&creation.user, &key.period)
                && matches!(&write.kind, Kind::Status { kronjob, .. } if *kronjob == key.kronjob)
        });
        let told_last = before.map(|(.., write)| write.received);
        is_untold
            && claims.map(|claim| (claim.received, claim.answered)).any(|(received, answered)| {
                received < creation.received && told_last.is_none_or(|told| told < answered)
            })
    }

    /// The first moment after another at which somebody took or renewed the lease.
    pub(super) fn lease_written(&self, user: &str, after: Timestamp) -> Option<Timestamp> {
        let writes = self.writes.iter().filter(|write| matches!(write.kind, Kind::Lease { .. }));
        let writes = writes.filter(|write| write.user == user && write.succeeded());
        writes.map(|write| write.received).find(|received| *received > after)
    }

    /// The writes of the lease in order, up to the first by a user after a moment.
    pub(super) fn handover(&self, to: &str, after: Timestamp) -> Vec<LeaseWrite<'_>> {
        let mut handover = Vec::new();
        for write in self.writes.iter().filter(|write| write.succeeded()) {
            if let Kind::Lease { holder } = &write.kind {
                let (user, received) = (write.user.as_str(), write.received);
                handover.push(LeaseWrite { user, holder, received });
                if user == to && received > after {
                    break;
                }
            }
        }
        handover
    }

    /// How often somebody asked for a Job or a status between two moments, whatever was answered.
    pub(super) fn asked(&self, user: &str, from: Timestamp, to: Timestamp) -> usize {
        let writes = self
            .writes
            .iter()
            .filter(|write| matches!(write.kind, Kind::JobCreation { .. } | Kind::Status { .. }));
        let writes = writes.filter(|write| write.user == user);
        writes.filter(|write| (from..to).contains(&write.received)).count()
    }

    /// The first moment after another at which a Job was created.
    pub(super) fn first_job(&self, after: Timestamp) -> Option<Timestamp> {
        let created = self.judge.created().values().flatten();
        created.map(|creation| creation.received).filter(|received| *received > after).min()
    }

    /// The codes with which the API server answered what a user asked for to create the Job of a period.
    pub(super) fn answers(&self, user: &str, key: &JobKey) -> Vec<u16> {
        let asked = self.writes.iter().filter(|write| {
            let is_of = matches!(&write.kind, Kind::JobCreation { key: of, .. } if of == key);
            is_of && write.user == user
        });
        asked.map(|write| write.code).collect()
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
                Kind::JobCreation { key: key_of(&sent)?, version: version_of(&request.given) }
            }
            ("delete", "jobs") => Kind::JobDeletion,
            ("patch" | "update", "kronjobs/status") => {
                let [replaced, status] = sent_status(&request.sent);
                let next = &status["next"];
                Kind::Status {
                    kronjob: kronjob_of(&request.uri),
                    version: version_of(&request.given),
                    replaced: text(replaced).parse().unwrap_or(0),
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
            answered: request.answered,
        })
    }

    /// The claim in a status: whose, of which period, and when it was received and answered.
    fn claim(&self) -> Option<(String, String, Timestamp, Timestamp)> {
        let Kind::Status { claimed_by, period, .. } = &self.kind else { return None };
        Some((claimed_by.clone(), period.clone(), self.received, self.answered))
    }

    /// Whether it is the claim of a period by a user.
    fn claims(&self, user: &str, claimed: &str) -> bool {
        // `operator-3_0a1b2c3d/17`
        matches!(&self.kind, Kind::Status { claimed_by, period, .. }
            if claimed_by.starts_with(&format!("{user}-")) && period == claimed)
    }

    fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// The version that a patch of a status replaces, and the status.
fn sent_status(patch: &Value) -> [&Value; 2] {
    ["/metadata/resourceVersion", "/status"].map(|path| {
        let mut steps = patch.as_array().into_iter().flatten();
        steps.find(|step| step["path"] == path).map_or(&Value::Null, |step| &step["value"])
    })
}

/// The KronJob in the address of its status.
fn kronjob_of(uri: &str) -> String {
    let name = uri.split_once("/kronjobs/").and_then(|(_, rest)| rest.split_once('/'));
    name.map(|(name, _)| name.to_owned()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The number under which the API server stored an object.
fn version_of(given: &Value) -> u64 {
    text(&given["metadata"]["resourceVersion"]).parse().unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PERIOD: &str = "20260301T000000Z";

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_772_323_200_000 + ms).unwrap()
    }

    fn request(user: &str, resource: &str, ms: [i64; 2], given: Value) -> Request {
        Request {
            user: user.to_owned(),
            verb: if resource == "jobs" { "create" } else { "patch" }.to_owned(),
            resource: resource.to_owned(),
            namespace: "here".to_owned(),
            code: 201,
            received: at(ms[0]),
            answered: at(ms[1]),
            uri: String::new(),
            sent: given.clone(),
            given,
        }
    }

    /// A status that is stored with a claim of this replica, in the place of another.
    fn claim_after(replaced: u64, user: &str, period: &str, version: u64, ms: [i64; 2]) -> Request {
        let next = json!({ "claimedBy": format!("{user}-1_0a1b2c3d/1"), "periodId": period });
        let given = json!({ "metadata": { "resourceVersion": version.to_string() } });
        Request {
            uri: "/apis/kron.dev/v1alpha1/namespaces/here/kronjobs/kj/status?a=b".to_owned(),
            sent: json!([
                { "op": "replace", "path": "/metadata/resourceVersion", "value": replaced.to_string() },
                { "op": "add", "path": "/status", "value": { "next": next } },
            ]),
            ..request(user, "kronjobs/status", ms, given)
        }
    }

    fn claim(user: &str, period: &str, version: u64, ms: [i64; 2]) -> Request {
        claim_after(version - 1, user, period, version, ms)
    }

    /// A claim that the API server says it had no time for.
    fn unanswered(user: &str, ms: [i64; 2]) -> Request {
        let claim = claim_after(10, user, "2026-03-01T00:00:00Z", 0, ms);
        Request { code: GATEWAY_TIMEOUT, given: Value::Null, ..claim }
    }

    /// The Job of the period, which `one` creates.
    fn creation(version: u64, ms: [i64; 2]) -> Request {
        let labels = json!({ "kron.dev/kronjob": "kj", "kron.dev/period": PERIOD });
        let metadata = json!({
            "namespace": "here", "uid": "j1", "resourceVersion": version.to_string(),
            "labels": labels,
        });
        request("one", "jobs", ms, json!({ "metadata": metadata }))
    }

    #[test]
    fn a_claim_that_was_stored_and_not_answered_counts() {
        let claimed = "2026-03-01T00:00:00Z";
        let other = || claim("two", claimed, 10, [0, 5]);
        let next = |replaced| claim_after(replaced, "one", "2026-03-01T00:01:00Z", 13, [30, 35]);
        let job = || creation(12, [22, 25]);
        for (what, requests, noticed) in [
            ("stored", vec![other(), unanswered("one", [10, 20]), job(), next(11)], false),
            ("not stored", vec![other(), unanswered("one", [10, 20]), job(), next(10)], true),
            ("nothing shows", vec![other(), unanswered("one", [10, 20]), job()], false),
            ("of another", vec![other(), unanswered("two", [10, 20]), job(), next(11)], true),
            ("sent later", vec![other(), unanswered("one", [23, 24]), job(), next(11)], true),
            ("not asked for", vec![other(), job(), next(11)], true),
            (
                "replaced before",
                vec![
                    unanswered("one", [10, 20]),
                    claim("two", claimed, 11, [21, 22]),
                    job(),
                    next(11),
                ],
                true,
            ),
        ] {
            let without = Ledger::of(requests).without_claim(|_| Duration::ZERO);
            assert_eq!(!without.is_empty(), noticed, "{what}");
        }
    }

    #[test]
    fn a_job_that_another_had_claimed_or_no_replica_is_noticed() {
        let claimed = "2026-03-01T00:00:00Z";
        let own = || claim("one", claimed, 10, [0, 5]);
        let second = Duration::from_secs(1);
        for (what, requests, on_its_way, noticed) in [
            ("claimed", vec![own(), creation(11, [6, 9])], Duration::ZERO, false),
            // The audit log has them in the order of their answers.
            ("claimed, answered later", vec![creation(11, [6, 9]), own()], Duration::ZERO, false),
            ("never claimed", vec![creation(11, [6, 9])], second, true),
            ("claimed too late", vec![creation(9, [6, 9]), own()], second, true),
            (
                "another period was claimed",
                vec![claim("one", "2026-03-01T00:01:00Z", 10, [0, 5]), creation(11, [6, 9])],
                second,
                true,
            ),
            (
                "another claimed it as the request arrived",
                vec![own(), claim("two", claimed, 11, [20, 25]), creation(12, [23, 29])],
                Duration::ZERO,
                false,
            ),
            (
                "another claimed it while the request was on its way",
                vec![own(), claim("two", claimed, 11, [20, 25]), creation(12, [1_025, 1_030])],
                second,
                false,
            ),
            (
                "another had claimed it before",
                vec![own(), claim("two", claimed, 11, [20, 25]), creation(12, [1_026, 1_030])],
                second,
                true,
            ),
            (
                "another had claimed it long before, and again of late",
                vec![
                    own(),
                    claim("two", claimed, 11, [20, 25]),
                    claim("two", claimed, 12, [4_000, 4_005]),
                    creation(13, [4_001, 4_009]),
                ],
                second,
                true,
            ),
            (
                "claimed again after another had",
                vec![
                    own(),
                    claim("two", claimed, 11, [20, 25]),
                    claim("one", claimed, 12, [4_000, 4_005]),
                    creation(13, [4_006, 4_009]),
                ],
                Duration::ZERO,
                false,
            ),
        ] {
            let without = Ledger::of(requests).without_claim(|_| on_its_way);
            assert_eq!(!without.is_empty(), noticed, "{what}");
        }
    }
}
