//! What the operators have to do: KronJobs whose times are known by arithmetic.

use std::time::Duration;

use jiff::Timestamp;
use kron_testkit::waiting::PATIENCE;
use serde_json::{Value, json};

use super::wall;
use crate::control_plane::ControlPlane;
use crate::judge::{JobKey, period_label};
use crate::process::wait_until;

/// A KronJob that is due in every second that leaves `offset_s` when divided by `every_s`.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) namespace: String,
    pub(super) name: String,
    every_s: i64,
    offset_s: i64,
    pub(super) deadline: Duration,
    pods: Pods,
    /// How many Jobs that succeeded are kept.
    kept: u32,
}

/// Waits until every Job is there that was due between two moments, or its deadline is over.
pub(super) fn await_jobs(
    plane: &ControlPlane,
    schedules: &[Schedule],
    from: Timestamp,
    to: Timestamp,
) {
    let longest = schedules.iter().map(|schedule| schedule.deadline).max().unwrap_or_default();
    wait_until("the last Jobs are there", longest + PATIENCE, || {
        let there = |schedule: &Schedule| {
            let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", schedule.namespace);
            let is_there = |time: Timestamp| {
                plane.api().get(&format!("{jobs}/{}", schedule.job(time))).status == 200
            };
            schedule.times(from, to).pop().is_none_or(is_there)
        };
        (schedules.iter().all(there) || wall() > to + longest).then_some(())
    });
}

/// What becomes of the pods of Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pods {
    /// There are none: the Jobs are suspended.
    None,
    /// They succeed at once.
    Succeed,
}

impl Schedule {
    /// One whose Jobs have no pods. The periods divide a minute.
    pub(super) fn new(namespace: &str, name: &str, every_s: i64, offset_s: i64) -> Schedule {
        assert!(60 % every_s == 0 && offset_s < every_s, "every {every_s} s at {offset_s} s");
        Schedule {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            every_s,
            offset_s,
            deadline: Duration::from_secs(30),
            pods: Pods::None,
            kept: 3,
        }
    }

    /// The same with pods that succeed at once, of which so many Jobs are kept.
    pub(super) fn with_pods(self, kept: u32) -> Schedule {
        Schedule { pods: Pods::Succeed, kept, ..self }
    }

    /// The same with another deadline.
    pub(super) fn with_deadline(self, deadline: Duration) -> Schedule {
        Schedule { deadline, ..self }
    }

    /// Makes the KronJob. Periods up to the moment of its creation, which is returned, never run.
    pub(super) fn create(&self, plane: &ControlPlane) -> Timestamp {
        let path = format!("/apis/kron.dev/v1alpha1/namespaces/{}/kronjobs", self.namespace);
        let created = plane.api().post(&path, &self.object()).expect(201);
        created["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
    }

    fn object(&self) -> Value {
        let seconds: Vec<String> = (0..60 / self.every_s)
            .map(|count| (count * self.every_s + self.offset_s).to_string())
            .collect();
        let container = json!({ "name": "main", "image": "none" });
        json!({
            "apiVersion": "kron.dev/v1alpha1",
            "kind": "KronJob",
            "metadata": { "name": self.name },
            "spec": {
                "schedule": format!("{} * * * * *", seconds.join(",")),
                "policy": {
                    "concurrency": "allow",
                    "deadline": format!("{}s", self.deadline.as_secs()),
                },
                "successfulJobsHistoryLimit": self.kept,
                "jobTemplate": { "spec": {
                    "suspend": self.pods == Pods::None,
                    "template": { "spec": { "restartPolicy": "Never", "containers": [container] } },
                } },
            },
        })
    }

    /// Whether it is due at this time.
    pub(super) fn is_due(&self, time: Timestamp) -> bool {
        time.as_second().rem_euclid(self.every_s) == self.offset_s
    }

    /// The times from one moment until before another at which it is due.
    pub(super) fn times(&self, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let seconds = from.as_second() + 1..to.as_second();
        let times = seconds.map(|second| Timestamp::from_second(second).unwrap());
        times.filter(|time| self.is_due(*time)).collect()
    }

    /// The name of a period's Job.
    pub(super) fn job(&self, time: Timestamp) -> String {
        format!("{}-{}", self.name, period_label(time).to_lowercase())
    }

    /// What a period's Job is known by.
    pub(super) fn key(&self, time: Timestamp) -> JobKey {
        JobKey {
            namespace: self.namespace.clone(),
            kronjob: self.name.clone(),
            period: period_label(time),
        }
    }
}
