//! The schema of a KronJob, as structural as an API server wants it.
//!
//! The Job template has the whole schema of `batch/v1` without its descriptions: with them the
//! definition would be too large for `kubectl apply`, and `kubectl explain job.spec` has them
//! anyway. Quantities may be numbers, as everywhere in Kubernetes.

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::KronJob;

/// The longest name of a KronJob: it is the value of a label.
const NAME_CHARS_MAX: u32 = 63;
/// The longest schedule.
const SCHEDULE_CHARS_MAX: u32 = 1024;
/// The longest salt.
const SALT_CHARS_MAX: u32 = 253;
/// The longest clause, and how many there may be on a side.
const CLAUSE_CHARS_MAX: u32 = 1024;
const CLAUSES_MAX: u32 = 64;
/// The most Jobs of a kind that are kept.
const HISTORY_MAX: u32 = 1000;

/// An unsigned duration of Go's grammar, with days.
const DURATION: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+)$";

/// The definition of the resource, to be given to an API server.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut crd = KronJob::crd();
    let rule = json!([{
        "rule": format!("self.metadata.name.size() <= {NAME_CHARS_MAX}"),
        "message": format!("the name of a KronJob has at most {NAME_CHARS_MAX} characters"),
    }]);
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            // Plain data of our own always converts.
            schema.x_kubernetes_validations = serde_json::from_value(rule.clone()).ok();
        }
    }
    crd
}

pub(super) fn schedule(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": SCHEDULE_CHARS_MAX,
        "x-kubernetes-validations": [{
            "rule": "!self.contains('(') || !self.contains('@')",
            "message": "only cron fields belong here; the zone, the window and everything else \
                        have fields of their own",
        }],
    })
}

pub(super) fn time_zone(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 64,
        "pattern": "^[A-Za-z0-9_+/-]+$",
        "default": "UTC",
        "x-kubernetes-validations": [{
            "rule": "self != 'Local'",
            "message": "`Local` is no zone; name one, such as `Europe/Paris`",
        }],
    })
}

pub(super) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 64, "pattern": DURATION, "default": "0s" })
}

pub(super) fn optional_duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 64, "pattern": DURATION })
}

fn words(words: &[&str], default: Option<&str>) -> Schema {
    let mut schema = json_schema!({ "type": "string", "enum": words });
    if let Some(default) = default {
        schema.insert("default".to_owned(), default.into());
    }
    schema
}

pub(super) fn window_mode(_: &mut SchemaGenerator) -> Schema {
    words(&["after", "around", "before"], Some("after"))
}

pub(super) fn distribution_name(_: &mut SchemaGenerator) -> Schema {
    words(&kron_core::Distribution::NAMES, Some("uniform"))
}

pub(super) fn direction(_: &mut SchemaGenerator) -> Schema {
    words(&["early", "late"], None)
}

pub(super) fn mu(_: &mut SchemaGenerator) -> Schema {
    words(&["nominal", "start", "mid", "end"], None)
}

pub(super) fn seed_strategy(_: &mut SchemaGenerator) -> Schema {
    words(&["stable", "daily", "weekly", "fixed"], Some("stable"))
}

pub(super) fn gap(_: &mut SchemaGenerator) -> Schema {
    words(&["shift", "skip"], Some("shift"))
}

pub(super) fn overlap(_: &mut SchemaGenerator) -> Schema {
    words(&["auto", "first", "last", "both"], Some("auto"))
}

pub(super) fn concurrency(_: &mut SchemaGenerator) -> Schema {
    words(&["allow", "forbid", "replace"], Some("forbid"))
}

/// `2`, `2.5` and `"2.5"` alike. Nothing in a structural schema is a number or a text, so the
/// engine looks at it.
pub(super) fn number_or_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

pub(super) fn salt(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": SALT_CHARS_MAX,
        "default": "",
        "x-kubernetes-validations": [{
            "rule": "!self.matches('%[Hm]')",
            "message": "a KronJob runs on no host in particular: `%H` and `%m` have no meaning here",
        }],
    })
}

pub(super) fn clauses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": CLAUSES_MAX,
        "items": {
            "type": "string",
            "maxLength": CLAUSE_CHARS_MAX,
            "pattern": "^ *(hours|dow|months|dom|between|date|dates) *=",
        },
    })
}

pub(super) fn successful_limit(_: &mut SchemaGenerator) -> Schema {
    limit(3)
}

pub(super) fn failed_limit(_: &mut SchemaGenerator) -> Schema {
    limit(1)
}

fn limit(default: u32) -> Schema {
    json_schema!({
        "type": "integer",
        "format": "int32",
        "minimum": 0,
        "maximum": HISTORY_MAX,
        "default": default,
    })
}

pub(super) fn job_template(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<JobTemplateSpec>().to_value();
    terse(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.insert("required".to_owned(), json!(["spec"]));
    }
    // It was an object before.
    Schema::try_from(schema).unwrap_or_default()
}

/// Takes the descriptions out, and mends what the plain types say too strictly or too loosely.
fn terse(node: &mut Value) {
    match node {
        Value::Object(object) => {
            let description = object.get("description").and_then(Value::as_str).unwrap_or_default();
            if description.starts_with("Quantity is a fixed-point") {
                *node = json!({ "x-kubernetes-int-or-string": true });
                return;
            }
            // Only the metadata of an object knows who manages its fields.
            if object.get("properties").is_some_and(|fields| fields.get("managedFields").is_some())
            {
                *node = template_metadata();
                return;
            }
            // A property may be called `description`, too; then it is no text.
            if object.get("description").is_some_and(Value::is_string) {
                object.remove("description");
            }
            object.values_mut().for_each(terse);
        }
        Value::Array(items) => items.iter_mut().for_each(terse),
        _ => {}
    }
}

/// What of an object's metadata a template may have. The creation time is there because many
/// programs write `creationTimestamp: null`.
fn template_metadata() -> Value {
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let mut properties = Map::new();
    properties.insert("labels".to_owned(), texts.clone());
    properties.insert("annotations".to_owned(), texts);
    for name in ["name", "generateName", "namespace"] {
        properties.insert(name.to_owned(), json!({ "type": "string" }));
    }
    properties.insert(
        "creationTimestamp".to_owned(),
        json!({ "type": "string", "format": "date-time", "nullable": true }),
    );
    properties
        .insert("finalizers".to_owned(), json!({ "type": "array", "items": { "type": "string" } }));
    json!({ "type": "object", "properties": properties })
}
