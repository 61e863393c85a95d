//! From a CronJob to the KronJob that does the same.
//!
//! A pure function of the manifest and of what was asked for. Nothing is passed over in silence:
//! every field is taken over, translated with a note, or told to have no counterpart.

mod clocks;
mod metadata;

use kron_core::{Schedule, Seconds, Timing, TimingParser, UtcSecond};
use kron_operator::resource::{KronJobSpec, timing};
use serde_json::{Map, Value, json};

use super::schedule::translate;

/// Kinds of a CronJob that is asked for; the older one had the same fields.
const VERSIONS: [&str; 2] = ["batch/v1", "batch/v1beta1"];
/// The deadline where a schedule has so few periods that there is no distance between two.
const DEADLINE_FALLBACK: Seconds = Seconds::new(3_600);
/// The most Jobs of a kind that a KronJob keeps.
const HISTORY_MAX: u64 = 1_000;
/// Where a manifest goes that says no namespace, unless kubectl says otherwise.
const NAMESPACE_FALLBACK: &str = "default";

/// What was asked for.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// The window's mode and length.
    pub(super) window: Option<(String, Seconds)>,
    /// The distribution, as in a spec.
    pub(super) distribution: Option<Value>,
    /// The zone of CronJobs that say none.
    pub(super) zone: Option<String>,
    /// The namespace of manifests that say none.
    pub(super) namespace: Option<String>,
}

/// A CronJob that became a KronJob.
pub(super) struct Migrated {
    /// The namespace, as far as anybody has said it.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// The CronJob, without what its API server keeps in it.
    pub(super) cronjob: Value,
    pub(super) kronjob: Value,
    /// The nominal times of the CronJob, as its controller finds them.
    pub(super) old_times: Schedule,
    pub(super) timing: Timing,
    /// Whether the CronJob starts nothing now.
    pub(super) is_suspended: bool,
    /// Whether somebody else keeps the CronJob as it is: a tool, or an object that it belongs to.
    pub(super) is_deployed: bool,
    /// What differs.
    pub(super) notes: Vec<String>,
}

/// A CronJob that did not become one.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub(super) identity: String,
    pub(super) reason: String,
}

/// Whether an object is a CronJob.
pub(super) fn is_cronjob(object: &Value) -> bool {
    object["kind"] == "CronJob" && VERSIONS.iter().any(|version| object["apiVersion"] == *version)
}

/// Turns a CronJob into a KronJob.
pub(super) fn migrate(
    parser: &mut TimingParser,
    object: &Value,
    wishes: &Wishes,
    now: UtcSecond,
) -> Result<Migrated, LeftOut> {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    let namespace = metadata["namespace"].as_str().map(str::to_owned);
    let namespace = namespace.or_else(|| wishes.namespace.clone());
    let shown = |namespace: Option<&str>| match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    };
    let left_out = |reason: String| LeftOut { identity: shown(namespace.as_deref()), reason };
    if !is_name(&name) || !namespace.as_deref().is_none_or(is_name) {
        return Err(left_out("it has no name that Kubernetes allows".to_owned()));
    }
    let mut taking = Taking { spec: &object["spec"], notes: Vec::new() };
    let anchor = [&object["status"]["lastScheduleTime"], &metadata["creationTimestamp"]];
    let anchor = anchor.iter().find_map(|time| time.as_str()?.parse().ok());
    let identity = format!("{}/{name}", namespace.as_deref().unwrap_or(NAMESPACE_FALLBACK));
    let mut spec = taking.spec(wishes, anchor).map_err(&left_out)?;
    let timing = taking.timing(parser, &identity, &mut spec, wishes).map_err(&left_out)?;
    if namespace.is_none() && wishes.window.is_some() {
        taking.notes.push(format!(
            "it says no namespace, which has a say in when it runs; these times are those of the \
             namespace `{NAMESPACE_FALLBACK}`, and `--namespace NAME` gives those of another"
        ));
    }
    let old_times = clocks::old_times(timing.schedule());
    taking.notes.extend(clocks::difference(&old_times, timing.schedule(), now));
    let metadata = metadata::take(metadata, &name, namespace.as_deref());
    taking.notes.extend(metadata.notes);
    let kronjob = json!({
        "apiVersion": "kron.dev/v1alpha1",
        "kind": "KronJob",
        "metadata": metadata.fields,
        "spec": spec,
    });
    Ok(Migrated {
        namespace,
        name,
        cronjob: in_order(&metadata::bare(object)),
        kronjob: in_order(&kronjob),
        old_times,
        is_suspended: timing.policy.suspend,
        is_deployed: metadata.is_deployed,
        timing,
        notes: taking.notes,
    })
}

/// What `Forbid` does that `forbid` does not.
const FORBID: &str = "a run that `Forbid` has kept back is started by a CronJob when the active Job \
                      ends, if its deadline allows; a KronJob records it as `skipped` and does not \
                      start it";

/// A CronJob's spec while it is taken over.
struct Taking<'a> {
    spec: &'a Value,
    notes: Vec<String>,
}

impl Taking<'_> {
    fn spec(&mut self, wishes: &Wishes, anchor: Option<UtcSecond>) -> Result<Value, String> {
        let fields = self.spec.as_object().ok_or("it has no spec")?;
        let schedule =
            fields.get("schedule").and_then(Value::as_str).ok_or("it has no schedule")?;
        let translated = translate(schedule, anchor)?;
        self.notes.extend(translated.notes);
        let mut spec = Map::new();
        let (mut concurrency, mut suspend) = ("allow", false);
        let mut deadline = None;
        let mut zone = None;
        for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let strange = || format!("`spec.{field}: {value}` cannot be read");
            match field.as_str() {
                "schedule" => {}
                "timeZone" => zone = Some(value.as_str().ok_or_else(strange)?.to_owned()),
                "concurrencyPolicy" => {
                    concurrency = match value.as_str() {
                        Some("Allow") => "allow",
                        Some("Forbid") => {
                            self.notes.push(FORBID.to_owned());
                            "forbid"
                        }
                        Some("Replace") => "replace",
                        _ => return Err(strange()),
                    };
                }
                "startingDeadlineSeconds" => {
                    deadline = Some(Seconds::new(value.as_u64().ok_or_else(strange)?));
                }
                "suspend" => suspend = value.as_bool().ok_or_else(strange)?,
                "successfulJobsHistoryLimit" | "failedJobsHistoryLimit" => {
                    let limit = value.as_u64().ok_or_else(strange)?;
                    if limit > HISTORY_MAX {
                        self.notes.push(format!(
                            "`{field}` is {HISTORY_MAX}, the most there is, not {limit}"
                        ));
                    }
                    spec.insert(field.clone(), json!(limit.min(HISTORY_MAX)));
                }
                "jobTemplate" => {
                    spec.insert(field.clone(), without_nulls(value));
                }
                _ => self.notes.push(format!("`spec.{field}` has no counterpart: {value}")),
            }
        }
        spec.insert("schedule".to_owned(), json!(translated.schedule));
        spec.insert("timeZone".to_owned(), json!(self.zone(translated.zone, zone, wishes)));
        let mut policy = Map::new();
        policy.insert("concurrency".to_owned(), json!(concurrency));
        if let Some(deadline) = deadline {
            policy.insert("deadline".to_owned(), json!(deadline.to_string()));
        }
        if suspend {
            policy.insert("suspend".to_owned(), json!(true));
        }
        spec.insert("policy".to_owned(), Value::Object(policy));
        Ok(Value::Object(spec))
    }

    fn zone(
        &mut self,
        of_schedule: Option<String>,
        said: Option<String>,
        wishes: &Wishes,
    ) -> String {
        if let Some(zone) = of_schedule.or(said) {
            return zone;
        }
        if let Some(zone) = &wishes.zone {
            self.notes.push(format!("it says no `timeZone`; it is read in {zone}, as you say"));
            return zone.clone();
        }
        self.notes.push(
            "it says no `timeZone`, and so follows the clock of its controller's machine, mostly \
             UTC; the KronJob is in UTC, `--timezone ZONE` says otherwise"
                .to_owned(),
        );
        "UTC".to_owned()
    }

    /// The timing of the new spec, to which it adds the window and the deadline: both depend on how
    /// far apart periods are.
    fn timing(
        &mut self,
        parser: &mut TimingParser,
        identity: &str,
        spec: &mut Value,
        wishes: &Wishes,
    ) -> Result<Timing, String> {
        let read = |parser: &mut TimingParser, spec: &Value| {
            let spec: KronJobSpec =
                serde_json::from_value(spec.clone()).map_err(|error| error.to_string())?;
            timing(parser, identity, &spec).map_err(|faults| {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                faults.join("; ")
            })
        };
        let plain = read(parser, spec)?;
        let gap = plain.schedule().shortest_gap().map(kron_core::ShortestGap::length);
        if spec["policy"]["deadline"].is_null() {
            let deadline = gap.unwrap_or(DEADLINE_FALLBACK);
            spec["policy"]["deadline"] = json!(deadline.to_string());
            self.notes.push(format!(
                "without `startingDeadlineSeconds` a CronJob makes up for its latest run, however \
                 late; here within {deadline}, the shortest time between two runs: \
                 `policy.deadline`"
            ));
        }
        if let Some((mode, wished)) = &wishes.window {
            let length = gap.map_or(*wished, |gap| gap.min(*wished));
            if length != *wished {
                self.notes.push(format!(
                    "the window is {length}, not {wished}: two runs are no further apart"
                ));
            }
            spec["window"] = json!({"mode": mode, "duration": length.to_string()});
            if let Some(distribution) = &wishes.distribution {
                spec["distribution"] = distribution.clone();
            }
        }
        read(parser, spec)
    }
}

/// A value with the keys of its maps in order, as kubectl writes them, so that two manifests can be
/// set side by side.
fn in_order(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(
                entries.into_iter().map(|(key, value)| (key.clone(), in_order(value))).collect(),
            )
        }
        Value::Array(items) => items.iter().map(in_order).collect(),
        scalar => scalar.clone(),
    }
}

/// A value without fields that say nothing. Older API servers write `creationTimestamp: null`.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

/// Whether Kubernetes allows a name; then it is a fit name of a file, too.
fn is_name(name: &str) -> bool {
    const NAME_CHARS_MAX: usize = 253;
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [name.bytes().next(), name.bytes().last()];
    ends.iter().all(|end| end.is_some_and(is_inner))
        && name.len() <= NAME_CHARS_MAX
        && name.bytes().all(|byte| is_inner(byte) || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests;
