//! The status of a KronJob: everything the operator remembers about it.
//!
//! `next` is more than a forecast: written by compare-and-swap it is the claim under which the
//! leader makes the period's Job. `lastHandledPeriod` never moves back, so that a period whose Job
//! is long deleted is not run again.

use kron_core::{Outcome, UtcSecond};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many outcomes [`KronJobStatus::recent`] keeps.
pub const RECENT_MAX: usize = 10;
/// How many Jobs [`KronJobStatus::active`] names.
pub const ACTIVE_MAX: usize = 20;

/// What the operator knows about the KronJob. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KronJobStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The latest period that reached an outcome. It never moves back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_handled_period: Option<UtcSecond>,
    /// What became of the latest period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Record>,
    /// The next period, claimed by the operator that will make its Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextPeriod>,
    /// When a Job of this KronJob last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_successful_time: Option<UtcSecond>,
    /// How many Jobs are under way.
    pub active_count: i32,
    /// The Jobs that are under way, by their periods; of more than twenty, the latest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ActiveJob>,
    /// The latest outcomes, newest first; at most ten.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<Record>,
    /// What stands in the way, and what does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// A hash of everything that decides; when it changes, `effectiveFrom` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_hash: Option<String>,
    /// When the present definition took effect. Periods chosen at or before it are not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub effective_from: Option<UtcSecond>,
    /// Since when the KronJob is suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub suspended_at: Option<UtcSecond>,
    /// When a suspension was last lifted. Periods chosen at or before it are not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub resumed_at: Option<UtcSecond>,
}

impl KronJobStatus {
    /// The condition of this kind.
    #[must_use]
    pub fn condition(&self, kind: ConditionKind) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// What became of a period, or of a stretch of periods that share their fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The period: its nominal time in UTC. Of a stretch, the last.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub period_id: UtcSecond,
    /// The nominal time.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub nominal_time: UtcSecond,
    /// The second that was chosen; absent of a stretch, and when none was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub chosen_time: Option<UtcSecond>,
    /// `executed`, `skipped`, `missed` or `unschedulable`.
    #[serde(with = "outcome")]
    #[schemars(
        with = "String",
        extend("enum" = ["executed", "skipped", "missed", "unschedulable"])
    )]
    pub outcome: Outcome,
    /// Why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The Job that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// How the Job ended: `succeeded` or `failed`; absent while it is under way or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// When this was recorded.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub recorded_at: UtcSecond,
    /// Of a stretch, its first period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub first_period_id: Option<UtcSecond>,
    /// Of a stretch, how many periods it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

/// The next period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextPeriod {
    /// The period: its nominal time in UTC.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub period_id: UtcSecond,
    /// The nominal time.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub nominal_time: UtcSecond,
    /// The second at which its Job will be made; absent when the constraints allow none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub chosen_time: Option<UtcSecond>,
    /// Which operator, and which of its terms as leader, will make it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Since when active Jobs are being removed to make room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub replacing_since: Option<UtcSecond>,
}

/// A Job that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveJob {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The period it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub period_id: Option<UtcSecond>,
}

/// One of the things that can stand in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: ConditionKind,
    /// `True` or `False`.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Since when it has this status.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: UtcSecond,
    /// One word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// The generation of the spec it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether it holds.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The conditions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionKind {
    /// The schedule is valid, and its Jobs can be made.
    Ready,
    /// The spec cannot be scheduled; the message says why.
    InvalidSpec,
    /// A Job could not be made; it is tried again until its deadline.
    SchedulingError,
    /// The constraints left no second of a window.
    Unschedulable,
    /// Nothing is started.
    Suspended,
}

mod outcome {
    use kron_core::Outcome;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn serialize<S: Serializer>(
        outcome: &Outcome,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(outcome.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Outcome, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("an unknown outcome"))
    }
}
