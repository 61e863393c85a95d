//! What becomes of the labels and annotations of a CronJob, and who may have an eye on them.

use serde_json::{Map, Value, json};

use super::without_nulls;

/// Annotations that repeat the manifest; nobody misses them.
const REPEATING: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How keys begin by which deployment tools find what is theirs. A KronJob that has them and is not
/// in the tool's source may be removed by it.
const TRACKING: [&str; 13] = [
    "app.kubernetes.io/instance",
    "applyset.kubernetes.io/",
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/tracking-id",
    "config.k8s.io/owning-inventory",
    "config.kubernetes.io/",
    "fleet.cattle.io/",
    "helm.toolkit.fluxcd.io/",
    "kapp.k14s.io/",
    "kustomize.toolkit.fluxcd.io/",
    "meta.helm.sh/",
    "objectset.rio.cattle.io/",
    "pulumi.com/",
];

/// The metadata of a KronJob.
pub(super) struct Metadata {
    pub(super) fields: Value,
    /// Whether somebody else keeps the CronJob as it is: a tool, or an object that it belongs to.
    pub(super) is_deployed: bool,
    /// What differs.
    pub(super) notes: Vec<String>,
}

/// Takes over the metadata of a CronJob.
pub(super) fn take(old: &Value, name: &str, namespace: Option<&str>) -> Metadata {
    let mut fields = Map::new();
    let mut notes = Vec::new();
    let (mut has_tool, mut has_owner) = (false, false);
    fields.insert("name".to_owned(), json!(name));
    if let Some(namespace) = namespace {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    for kind in ["labels", "annotations"] {
        let (kept, tracking) = split_tracking(kind, &old[kind]);
        if !tracking.is_empty() {
            has_tool = true;
            let tracking = tracking.join(", ");
            notes.push(format!("{kind} of whoever deployed the CronJob are left out: {tracking}"));
        }
        if !kept.is_empty() {
            fields.insert(kind.to_owned(), Value::Object(kept));
        }
    }
    if has_tool {
        notes.push(
            "it is deployed by a tool, which may undo a suspension or make the CronJob anew: \
             suspend it and remove it in the tool's source, not by kubectl"
                .to_owned(),
        );
    }
    for owner in old["ownerReferences"].as_array().into_iter().flatten() {
        has_owner = true;
        let of = |field: &str| owner[field].as_str().unwrap_or("?").to_owned();
        notes.push(format!(
            "it belongs to {} `{}`, which may make it anew: change it there",
            of("kind"),
            of("name")
        ));
    }
    if old["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
        notes.push(format!("its finalizers are left out: {}", old["finalizers"]));
    }
    Metadata { fields: Value::Object(fields), is_deployed: has_tool || has_owner, notes }
}

/// Labels or annotations that stay, and the keys of those by which a tool knows its own.
fn split_tracking(kind: &str, entries: &Value) -> (Map<String, Value>, Vec<String>) {
    let mut kept = Map::new();
    let mut tracking = Vec::new();
    for (key, value) in entries.as_object().into_iter().flatten() {
        let names_a_tool = key == "app.kubernetes.io/managed-by" || key == "heritage";
        let is_helms = kind == "labels" && names_a_tool && value == "Helm";
        if key == REPEATING {
            continue;
        }
        if is_helms || TRACKING.iter().any(|known| key.starts_with(known)) {
            tracking.push(format!("`{key}`"));
        } else {
            kept.insert(key.clone(), value.clone());
        }
    }
    (kept, tracking)
}

/// A manifest without what its API server keeps in it.
pub(super) fn bare(object: &Value) -> Value {
    let old = &object["metadata"];
    let mut metadata = Map::new();
    for field in ["annotations", "finalizers", "labels", "name", "namespace", "ownerReferences"] {
        let mut value = old[field].clone();
        if let Some(map) = value.as_object_mut() {
            map.remove(REPEATING);
            if map.is_empty() {
                continue;
            }
        }
        if !value.is_null() {
            metadata.insert(field.to_owned(), value);
        }
    }
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": metadata,
        "spec": without_nulls(&object["spec"]),
    })
}
