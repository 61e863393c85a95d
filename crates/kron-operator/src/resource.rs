//! The resource `KronJob`: what a user writes, and what the operator answers in its status.
//!
//! The doc comments of the fields are what `kubectl explain` prints, so they speak to users. What
//! can be wrong in one field alone is refused by the schema (patterns, enumerations, rules in CEL);
//! what takes the engine to see, such as windows that overlap, becomes a condition.
//!
//! **Invariant:** the operator never writes a spec. Everything it remembers is in the status.

mod schema;
mod status;
#[cfg(test)]
mod tests;
mod timing;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use schema::crd;
pub use status::{
    ACTIVE_MAX, ActiveJob, Condition, ConditionKind, KronJobStatus, NextPeriod, RECENT_MAX, Record,
};
pub use timing::{Fault, timing};

/// The API group.
pub const GROUP: &str = "kron.dev";
/// The label of a Job and its pods with the KronJob's name.
pub const LABEL_KRONJOB: &str = "kron.dev/kronjob";
/// The label of a Job and its pods with the period, as `20260301T000000Z`.
pub const LABEL_PERIOD: &str = "kron.dev/period";
/// The annotation with the whole decision as JSON, for `kron replay`.
pub const ANNOTATION_DECISION: &str = "kron.dev/decision";
/// The annotation with the second that was chosen.
pub const ANNOTATION_CHOSEN: &str = "kron.dev/chosen-time";

/// The annotation by which people see that somebody has made a Job by hand.
pub const ANNOTATION_MANUAL: &str = "kron.dev/manual";

/// A Job on a schedule: at one reproducible second of a window, at most once a period.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kron.dev",
    version = "v1alpha1",
    kind = "KronJob",
    plural = "kronjobs",
    namespaced,
    status = "KronJobStatus",
    shortname = "kj",
    category = "all",
    doc = "A KronJob makes one Job per period of a schedule, at a second that is chosen reproducibly from a window, at most once whatever crashes.",
    printcolumn = r#"{"name":"Schedule","type":"string","jsonPath":".spec.schedule","description":"The cron pattern"}"#,
    printcolumn = r#"{"name":"Zone","type":"string","jsonPath":".spec.timeZone","priority":1,"description":"The time zone of the schedule"}"#,
    printcolumn = r#"{"name":"Suspend","type":"boolean","jsonPath":".spec.policy.suspend","description":"Whether nothing is started"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status","description":"Whether the schedule is valid and its Jobs can be made"}"#,
    printcolumn = r#"{"name":"Next","type":"string","jsonPath":".status.next.chosenTime","description":"When the next Job will be made"}"#,
    printcolumn = r#"{"name":"Last","type":"string","jsonPath":".status.last.outcome","description":"What became of the latest period"}"#,
    printcolumn = r#"{"name":"Active","type":"integer","jsonPath":".status.activeCount","description":"How many Jobs are under way"}"#,
    printcolumn = r#"{"name":"Result","type":"string","jsonPath":".status.last.result","priority":1,"description":"How the latest period's Job ended"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.last.reason","priority":1,"description":"Why the latest period did not run"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KronJobSpec {
    /// When periods begin: five cron fields (minute, hour, day of month, month, day of week), an
    /// optional sixth in front for seconds, or a nickname such as `@daily`. `H` stands for a value
    /// that is fixed for each KronJob. Everything else about the time has its own field.
    #[schemars(schema_with = "schema::schedule")]
    pub schedule: String,
    /// The time zone in which the schedule and the constraints are read: an exact name of the IANA
    /// database, such as `Europe/Paris`.
    #[serde(default = "defaults::time_zone")]
    #[schemars(schema_with = "schema::time_zone")]
    pub time_zone: String,
    /// How far from its nominal time a period may run. Windows of neighbouring periods may not
    /// overlap.
    #[serde(default)]
    pub window: WindowSpec,
    /// How the second is drawn from the window.
    #[serde(default)]
    pub distribution: DistributionSpec,
    /// What makes the draw reproducible.
    #[serde(default)]
    pub seed: SeedSpec,
    /// Times that a run must or must not have.
    #[serde(default)]
    pub constraints: ConstraintsSpec,
    /// What happens to nominal times when clocks change.
    #[serde(default)]
    pub dst: DstSpec,
    /// What is allowed when a period falls due.
    #[serde(default)]
    pub policy: PolicySpec,
    /// How many Jobs that succeeded are kept. Those made within the last three minutes are always
    /// kept, unless the operator has another `--minimum-job-age`.
    #[serde(default = "defaults::successful")]
    #[schemars(schema_with = "schema::successful_limit")]
    pub successful_jobs_history_limit: u32,
    /// How many Jobs that failed are kept. Those made within the last three minutes are always
    /// kept, unless the operator has another `--minimum-job-age`.
    #[serde(default = "defaults::failed")]
    #[schemars(schema_with = "schema::failed_limit")]
    pub failed_jobs_history_limit: u32,
    /// The Job that is made for every period: `metadata` (labels and annotations) and `spec` as in
    /// a CronJob; `kubectl explain job.spec` tells its fields. `ttlSecondsAfterFinished` is kept by
    /// the operator, which never removes a Job whose period is not recorded.
    #[schemars(schema_with = "schema::job_template")]
    pub job_template: Value,
}

/// How far from its nominal time a period may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowSpec {
    /// Where the window lies: `after` the nominal time, `around` it or `before` it.
    #[schemars(schema_with = "schema::window_mode")]
    pub mode: String,
    /// How long the window is, such as `90m` or `1h30m`, in whole seconds, at most 366 days. `0s`
    /// is the nominal time itself.
    #[schemars(schema_with = "schema::duration")]
    pub duration: String,
}

impl Default for WindowSpec {
    fn default() -> WindowSpec {
        WindowSpec { mode: "after".to_owned(), duration: defaults::zero() }
    }
}

/// How the second is drawn from the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DistributionSpec {
    /// `uniform`, `skewEarly`, `skewLate`, `exponential` or `normal`.
    #[schemars(schema_with = "schema::distribution_name")]
    pub name: String,
    /// Parameters of the distribution; those that are left out have defaults.
    #[serde(skip_serializing_if = "ParamsSpec::is_empty")]
    pub params: ParamsSpec,
}

impl Default for DistributionSpec {
    fn default() -> DistributionSpec {
        DistributionSpec { name: "uniform".to_owned(), params: ParamsSpec::default() }
    }
}

/// Parameters of a distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamsSpec {
    /// Of `skewEarly` and `skewLate`: how strong the skew is, 0.01 to 100; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number_or_text")]
    pub shape: Option<Value>,
    /// Of `exponential`: how fast it falls, 0.01 to 100; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number_or_text")]
    pub lambda: Option<Value>,
    /// Of `exponential`: to which end it leans, `early` (the default) or `late`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::direction")]
    pub dir: Option<String>,
    /// Of `normal`: where its middle lies: `nominal`, `start`, `mid` or `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mu")]
    pub mu: Option<String>,
    /// Of `normal`: its standard deviation as a duration; a sixth of the window by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_duration")]
    pub sigma: Option<String>,
}

impl ParamsSpec {
    fn is_empty(&self) -> bool {
        *self == ParamsSpec::default()
    }
}

/// What makes the draw reproducible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SeedSpec {
    /// What shares a draw: `stable` draws anew each period, `daily` and `weekly` keep one place in
    /// the window for a day or an ISO week, `fixed` for ever.
    #[schemars(schema_with = "schema::seed_strategy")]
    pub strategy: String,
    /// A text of your own that goes into the seed; another one gives other times.
    #[schemars(schema_with = "schema::salt")]
    pub salt: String,
}

impl Default for SeedSpec {
    fn default() -> SeedSpec {
        SeedSpec { strategy: "stable".to_owned(), salt: String::new() }
    }
}

/// Times that a run must or must not have, in the schedule's zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConstraintsSpec {
    /// Clauses that must hold, such as `hours=9-17`, `dow=MON-FRI`, `dom=1-7`, `months=NOV-FEB`,
    /// `between=22:00-04:30`, `date=2026-12-24` or `dates=2026-12-24..2027-01-02`: every kind that
    /// is given must match, several of one kind are alternatives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::clauses")]
    pub only: Vec<String>,
    /// Clauses that must not hold; any match rejects a time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::clauses")]
    pub avoid: Vec<String>,
}

/// What happens to nominal times when clocks change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DstSpec {
    /// A time that does not exist: `shift` moves it forward by the gap, `skip` drops it.
    #[schemars(schema_with = "schema::gap")]
    pub gap: String,
    /// A time that exists twice: `first`, `last` or `both`; `auto` is both when the hour field
    /// allows every hour, else first.
    #[schemars(schema_with = "schema::overlap")]
    pub overlap: String,
}

impl Default for DstSpec {
    fn default() -> DstSpec {
        DstSpec { gap: "shift".to_owned(), overlap: "auto".to_owned() }
    }
}

/// What is allowed when a period falls due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySpec {
    /// When a Job of this KronJob is still active: `allow` a second one, `forbid` it (the period is
    /// skipped) or `replace` the active one.
    #[schemars(schema_with = "schema::concurrency")]
    pub concurrency: String,
    /// How late a Job may be made, counted from the chosen time in whole seconds. With `0s` it is
    /// made within the chosen second or not at all; allow a minute if a change of the operator's
    /// leader should not cost a run.
    #[schemars(schema_with = "schema::duration")]
    pub deadline: String,
    /// Whether nothing is started. Periods that fall due meanwhile are never made up for.
    pub suspend: bool,
}

impl Default for PolicySpec {
    fn default() -> PolicySpec {
        PolicySpec { concurrency: "forbid".to_owned(), deadline: defaults::zero(), suspend: false }
    }
}

mod defaults {
    pub(super) fn time_zone() -> String {
        "UTC".to_owned()
    }

    pub(super) fn zero() -> String {
        "0s".to_owned()
    }

    pub(super) fn successful() -> u32 {
        3
    }

    pub(super) fn failed() -> u32 {
        1
    }
}
