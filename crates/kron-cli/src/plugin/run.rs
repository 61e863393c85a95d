//! `kubectl kron run`: a Job of a KronJob, beside its periods.
//!
//! It is written, not made: `kubectl create` makes it. The operator knows it by its label and its
//! owner, and counts it as a run by hand: active for `forbid` and `replace`, and no period's.

use std::io::{self, Write};

use kron_operator::job::{self, Owner};
use serde_json::Value;

use super::kubectl::Kubectl;
use super::{kronjobs, write_pretty, yaml};
use crate::args::{ManifestFormat, PluginRunArgs};
use crate::failure::{Exit, Failure};

pub(crate) fn run(
    args: &PluginRunArgs,
    kubectl: &Kubectl<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let kronjob: Value = kronjobs::fetch_object(kubectl, &args.name)?;
    let job = job(&kronjob).ok_or_else(|| Failure::InvalidKronJob {
        identity: args.name.clone(),
        faults: vec!["spec.jobTemplate: it has no spec of a Job".to_owned()],
    })?;
    if let Some(note) = note(&kronjob) {
        let _ = writeln!(io::stderr(), "note: {note}");
    }
    match args.format {
        ManifestFormat::Yaml => {
            writeln!(out, "# For `kubectl create --filename -`: the API server ends its name.")?;
            out.write_all(yaml::document(&job).as_bytes())?;
        }
        ManifestFormat::Json => write_pretty(out, &job)?,
    }
    Ok(Exit::Ok)
}

/// What becomes of periods while the Job is active, or of the Job.
fn note(kronjob: &Value) -> Option<&'static str> {
    if !kronjob["metadata"]["deletionTimestamp"].is_null() {
        return Some("the KronJob is being deleted, and this Job with it");
    }
    match kronjob["spec"]["policy"]["concurrency"].as_str() {
        Some("allow") => None,
        Some("replace") => Some("`replace`: the next period removes this Job if it is active then"),
        _ => Some("`forbid`: periods that fall due while this Job is active are skipped"),
    }
}

/// A Job as the KronJob's template has it; nothing if there is no template.
fn job(kronjob: &Value) -> Option<Value> {
    let of = |field: &str| kronjob["metadata"][field].as_str();
    let owner = Owner { name: of("name")?, namespace: of("namespace")?, uid: of("uid")? };
    let template = &kronjob["spec"]["jobTemplate"];
    template["spec"].is_object().then(|| job::manual(owner, template))
}

#[cfg(test)]
mod tests {
    use kron_core::TimingParser;
    use kron_operator::job::body;
    use kron_operator::resource::{
        ANNOTATION_CHOSEN, ANNOTATION_DECISION, ANNOTATION_MANUAL, KronJobSpec, LABEL_PERIOD,
        timing,
    };
    use serde_json::json;

    use super::*;

    const ABOUT_PERIOD: [&str; 4] =
        ["KRON_PERIOD_ID", "KRON_NOMINAL_TIME", "KRON_CHOSEN_TIME", "KRON_SEED_HASH"];

    fn kronjob() -> Value {
        json!({
            "metadata": {"name": "backup", "namespace": "prod", "uid": "7-8-9"},
            "spec": {
                "schedule": "0 3 * * *",
                "jobTemplate": {
                    "metadata": {
                        "labels": {
                            "app": "shop",
                            "argocd.argoproj.io/instance": "shop",
                            "kustomize.toolkit.fluxcd.io/name": "shop",
                            "app.kubernetes.io/instance": "shop",
                            "kron.dev/kronjob": "another",
                        },
                        "annotations": {
                            "owner": "team-db",
                            "helm.toolkit.fluxcd.io/name": "shop",
                            "kubectl.kubernetes.io/last-applied-configuration": "{}",
                        },
                    },
                    "spec": {
                        "ttlSecondsAfterFinished": 60,
                        "backoffLimit": 2,
                        "template": {
                            "metadata": {"labels": null},
                            "spec": {
                                "restartPolicy": "Never",
                                "initContainers": [{"name": "i", "env": null}],
                                "containers": [
                                    {"name": "c", "env": [
                                        {"name": "KRON_IDENTITY", "value": "mine"},
                                        {"name": "A", "value": "$(KRON_PERIOD_ID)"},
                                    ]},
                                    {"name": "d"},
                                ],
                            },
                        },
                    },
                },
            },
        })
    }

    /// What the operator makes of the same KronJob, without what is about a period.
    fn of_operator(kronjob: &Value) -> Value {
        let spec: KronJobSpec = serde_json::from_value(kronjob["spec"].clone()).unwrap();
        let timing = timing(&mut TimingParser::new(), "prod/backup", &spec).unwrap();
        let placement = timing.placement();
        let decision = placement.decide("2026-03-01T03:00:00Z".parse().unwrap()).unwrap();
        let owner = Owner { namespace: "prod", name: "backup", uid: "7-8-9" };
        let mut made = body(owner, &spec.job_template, placement, &decision);
        let remove = |made: &mut Value, place: &str, key: &str| {
            let map = made.pointer_mut(place).and_then(Value::as_object_mut).unwrap();
            assert!(map.remove(key).is_some(), "{place} has {key}");
        };
        remove(&mut made, "/metadata", "name");
        remove(&mut made, "/metadata/labels", LABEL_PERIOD);
        remove(&mut made, "/metadata/annotations", ANNOTATION_CHOSEN);
        remove(&mut made, "/metadata/annotations", ANNOTATION_DECISION);
        remove(&mut made, "/metadata/ownerReferences/0", "blockOwnerDeletion");
        remove(&mut made, "/spec/template/metadata/labels", LABEL_PERIOD);
        for kind in ["initContainers", "containers"] {
            let containers = made["spec"]["template"]["spec"][kind].as_array_mut().unwrap();
            let variables = containers.iter_mut().filter_map(|it| it["env"].as_array_mut());
            for variable in variables.flatten() {
                if ABOUT_PERIOD.iter().any(|key| variable["name"] == *key) {
                    variable["value"] = json!("");
                }
            }
        }
        made
    }

    #[test]
    fn it_is_what_the_operator_makes_without_a_period() {
        let mut made = job(&kronjob()).unwrap();
        let metadata = made["metadata"].as_object_mut().unwrap();
        assert_eq!(metadata.remove("generateName"), Some(json!("backup-manual-")));
        let annotations = metadata["annotations"].as_object_mut().unwrap();
        assert_eq!(annotations.remove(ANNOTATION_MANUAL), Some(json!("true")));
        assert_eq!(made, of_operator(&kronjob()));
    }

    #[test]
    fn names_have_room_for_what_the_api_server_adds() {
        for (name, expected) in [
            ("a".to_owned(), "a-manual-".to_owned()),
            ("b".repeat(50), format!("{}-manual-", "b".repeat(50))),
            ("c".repeat(63), format!("{}-manual-", "c".repeat(50))),
            (format!("{}.-x", "d".repeat(48)), format!("{}-manual-", "d".repeat(48))),
        ] {
            let mut long = kronjob();
            long["metadata"]["name"] = name.into();
            let made = job(&long).unwrap()["metadata"]["generateName"].take();
            assert_eq!(made, expected);
            assert!(made.as_str().unwrap().len() <= 58);
        }
    }

    #[test]
    fn without_a_template_there_is_no_job() {
        for template in [json!(null), json!({}), json!({"spec": "x"})] {
            let mut kronjob = kronjob();
            kronjob["spec"]["jobTemplate"] = template;
            assert_eq!(job(&kronjob), None);
        }
    }

    #[test]
    fn what_it_means_for_periods_is_told() {
        for (concurrency, part) in [
            (json!(null), Some("skipped")),
            (json!("forbid"), Some("skipped")),
            (json!("replace"), Some("removes this Job")),
            (json!("allow"), None),
        ] {
            let mut kronjob = kronjob();
            kronjob["spec"]["policy"]["concurrency"] = concurrency;
            assert_eq!(note(&kronjob).is_some(), part.is_some());
            assert!(note(&kronjob).unwrap_or_default().contains(part.unwrap_or_default()));
        }
        let mut leaving = kronjob();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-03-01T00:00:00Z");
        assert!(note(&leaving).is_some_and(|note| note.contains("being deleted")));
    }
}
