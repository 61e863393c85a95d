//! The Job of a period: its name, its labels and annotations, its body; and one by hand.
//!
//! **Invariant:** the name depends on nothing but the KronJob's name and the period, so that two
//! attempts for one period collide at the API server.
//!
//! **Invariant:** a Job by hand has no label of a period, which is the proof that it was run.

use kron_core::{Decision, DecisionEvent, Placement, UtcSecond};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::resource::{
    ANNOTATION_CHOSEN, ANNOTATION_DECISION, ANNOTATION_MANUAL, LABEL_KRONJOB, LABEL_PERIOD,
};

/// The longest name of a Job whose pods can have names from it.
const NAME_BYTES_MAX: usize = 63;
/// `-20260301t000000z`
const PERIOD_BYTES: usize = 17;
/// What stays of a name that is too long, before a dash and the hash.
const CUT_NAME_BYTES: usize = NAME_BYTES_MAX - PERIOD_BYTES - 1 - HASH_DIGITS;
const HASH_DIGITS: usize = 10;
/// How many characters the API server adds to a name that it ends.
const GENERATED_BYTES: usize = 5;
/// Between the KronJob's name and those, of a Job by hand.
const MANUAL: &str = "-manual-";

/// Marks with which deployment tools find what they manage; a Job that had them would be taken for
/// something that nobody declared, and removed.
const TRACKING_PREFIXES: [&str; 4] = [
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// The KronJob that a Job belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

/// The name of a period's Job.
#[must_use]
pub fn name(kronjob: &str, period: UtcSecond) -> String {
    let period = compact(period).to_ascii_lowercase();
    if kronjob.len() + PERIOD_BYTES <= NAME_BYTES_MAX {
        return format!("{kronjob}-{period}");
    }
    let hash = Sha256::digest(kronjob.as_bytes());
    let digits: String = hash
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(HASH_DIGITS)
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect();
    format!("{}-{digits}-{period}", cut(kronjob, CUT_NAME_BYTES))
}

/// As much of a name as has room.
fn cut(kronjob: &str, bytes_max: usize) -> &str {
    // Names of objects are ASCII. A part of a name may not end with a dash or a dot.
    kronjob.get(..bytes_max).unwrap_or(kronjob).trim_end_matches(['-', '.'])
}

/// A period as the value of a label: `20260301T000000Z`.
#[must_use]
pub fn compact(period: UtcSecond) -> String {
    period.to_string().replace(['-', ':'], "")
}

/// The period in a label, if it is one.
#[must_use]
pub fn period_of(label: &str) -> Option<UtcSecond> {
    let digits = |range: std::ops::Range<usize>| label.get(range);
    let text = format!(
        "{}-{}-{}:{}:{}",
        digits(0..4)?,
        digits(4..6)?,
        digits(6..11)?,
        digits(11..13)?,
        label.get(13..)?
    );
    text.parse().ok()
}

/// The whole Job, ready to be created.
#[must_use]
pub fn body(
    owner: Owner<'_>,
    template: &Value,
    placement: &Placement,
    decision: &Decision,
) -> Value {
    let period = decision.nominal;
    let event = DecisionEvent::of(placement, decision);
    let mut annotations = vec![(ANNOTATION_DECISION, event.to_json())];
    annotations.extend(decision.chosen.map(|chosen| (ANNOTATION_CHOSEN, chosen.to_string())));
    let nominal = period.to_string();
    let variables = [
        ("KRON_IDENTITY", placement.identity().to_owned()),
        ("KRON_PERIOD_ID", nominal.clone()),
        ("KRON_NOMINAL_TIME", nominal),
        ("KRON_CHOSEN_TIME", decision.chosen.map(|chosen| chosen.to_string()).unwrap_or_default()),
        ("KRON_SEED_HASH", decision.seed_hash.to_string()),
    ];
    let labels = [(LABEL_KRONJOB, owner.name.to_owned()), (LABEL_PERIOD, compact(period))];
    let told = Told { labels: &labels, annotations: &annotations, variables: &variables };
    let mut job = job(owner, template, told);
    job["metadata"]["name"] = name(owner.name, period).into();
    job["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = true.into();
    job
}

/// A Job that somebody makes by hand, whose name the API server ends: as a period's, but for what
/// is about a period.
#[must_use]
pub fn manual(owner: Owner<'_>, template: &Value) -> Value {
    let labels = [(LABEL_KRONJOB, owner.name.to_owned())];
    let annotations = [(ANNOTATION_MANUAL, "true".to_owned())];
    // There, so that a script that asks for them does not fail, and empty.
    let variables = [
        ("KRON_IDENTITY", format!("{}/{}", owner.namespace, owner.name)),
        ("KRON_PERIOD_ID", String::new()),
        ("KRON_NOMINAL_TIME", String::new()),
        ("KRON_CHOSEN_TIME", String::new()),
        ("KRON_SEED_HASH", String::new()),
    ];
    let told = Told { labels: &labels, annotations: &annotations, variables: &variables };
    // `blockOwnerDeletion` takes rights to finalizers in some clusters, which the operator has and
    // people do not.
    let mut job = job(owner, template, told);
    let begun = cut(owner.name, NAME_BYTES_MAX - GENERATED_BYTES - MANUAL.len());
    job["metadata"]["generateName"] = format!("{begun}{MANUAL}").into();
    job
}

/// What a Job is told about itself.
#[derive(Clone, Copy)]
struct Told<'a> {
    /// Of the Job and its pods.
    labels: &'a [(&'a str, String)],
    annotations: &'a [(&'a str, String)],
    variables: &'a [(&'a str, String)],
}

/// A Job without a name.
fn job(owner: Owner<'_>, template: &Value, told: Told<'_>) -> Value {
    let with = |field: &str, more: &[(&str, String)]| {
        let mut texts = kept(&template["metadata"][field]);
        texts.extend(more.iter().map(|(key, text)| ((*key).to_owned(), text.as_str().into())));
        texts
    };
    let mut spec = template["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        // The operator removes old Jobs itself, and none whose period is not recorded.
        spec.remove("ttlSecondsAfterFinished");
        tell_pods(spec, told);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": owner.namespace,
            "labels": with("labels", told.labels),
            "annotations": with("annotations", told.annotations),
            "ownerReferences": [{
                "apiVersion": "kron.dev/v1alpha1",
                "kind": "KronJob",
                "name": owner.name,
                "uid": owner.uid,
                "controller": true,
            }],
        },
        "spec": spec,
    })
}

/// The labels and annotations of a template that its Jobs get.
fn kept(texts: &Value) -> Map<String, Value> {
    let tracking = |key: &str| TRACKING_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    let texts = texts.as_object().into_iter().flatten();
    texts.filter(|(key, _)| !tracking(key)).map(|(key, text)| (key.clone(), text.clone())).collect()
}

/// Pods carry the labels of their Job, and every command is told what it is.
fn tell_pods(spec: &mut Map<String, Value>, told: Told<'_>) {
    let Some(template) = spec.get_mut("template").and_then(Value::as_object_mut) else { return };
    let metadata = filled(template, "metadata", json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        let labels = filled(metadata, "labels", json!({}));
        if let Some(labels) = labels.as_object_mut() {
            for (key, text) in told.labels {
                labels.insert((*key).to_owned(), text.as_str().into());
            }
        }
    }
    for kind in ["initContainers", "containers"] {
        let containers = template.get_mut("spec").and_then(|spec| spec.get_mut(kind));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let variables = filled(container, "env", json!([]));
            let Some(variables) = variables.as_array_mut() else { continue };
            // In front, so that the template's own can refer to them; what it says itself stays.
            for (key, value) in told.variables.iter().rev() {
                if !variables.iter().any(|variable| variable["name"] == *key) {
                    variables.insert(0, json!({ "name": key, "value": value }));
                }
            }
        }
    }
}

/// A field, with `empty` in it where there is nothing: a null is nothing, too.
fn filled<'a>(object: &'a mut Map<String, Value>, key: &str, empty: Value) -> &'a mut Value {
    let value = object.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = empty;
    }
    value
}

#[cfg(test)]
mod tests;
