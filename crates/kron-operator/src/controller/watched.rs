//! KronJobs and Jobs as the watches see them: no more of each than is needed.
//!
//! A hundred thousand KronJobs are held at once, so what is kept of one is small: the timing, the
//! template as text, the status.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kron_core::{TimingParser, UtcSecond};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use crate::job::period_of;
use crate::plan::{Definition, JobState, Keep, OwnedJob};
use crate::resource::{
    ANNOTATION_CHOSEN, KronJobSpec, KronJobStatus, LABEL_KRONJOB, LABEL_PERIOD, timing,
};

/// The largest template: what is larger is no template, and a few thousand of them no memory.
const TEMPLATE_BYTES_MAX: usize = 256 * 1024;

/// A KronJob, its spec and status not yet looked at.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WatchedKronJob {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default)]
    pub(crate) status: Value,
}

/// A Job, as far as it tells how it goes.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WatchedJob {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) status: WatchedJobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchedJobStatus {
    #[serde(default)]
    conditions: Vec<WatchedCondition>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<String>,
}

macro_rules! resource {
    ($type:ty, $scope:ty, $kind:literal, $group:literal, $version:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(WatchedKronJob, NamespaceResourceScope, "KronJob", "kron.dev", "v1alpha1", "kronjobs");
resource!(WatchedJob, NamespaceResourceScope, "Job", "batch", "v1", "jobs");
/// What is kept of a KronJob.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) generation: i64,
    /// The resource version.
    pub(crate) version: Box<str>,
    pub(crate) created_at: UtcSecond,
    /// The definition, or what is wrong with it.
    pub(crate) definition: Result<Box<Definition>, Box<str>>,
    /// The Job template, as JSON.
    pub(crate) template: Box<str>,
    /// Whether it is being deleted; then nothing is started any more.
    pub(crate) deleting: bool,
    pub(crate) status: Box<KronJobStatus>,
    /// Whether the status is not what is stored: somebody has moved the mark back.
    pub(crate) mended: bool,
}

/// The identity of an object: `namespace/name`.
pub(crate) fn identity(metadata: &ObjectMeta) -> Option<Arc<str>> {
    Some(format!("{}/{}", metadata.namespace.as_deref()?, metadata.name.as_deref()?).into())
}

fn second(time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time) -> Option<UtcSecond> {
    UtcSecond::from_unix(time.0.as_second())
}

impl Kept {
    /// What is kept of `watched`, unless its metadata are not those of an object. What was known
    /// of the same generation is not read again.
    pub(crate) fn of(
        watched: WatchedKronJob,
        known: Option<Kept>,
        parser: &mut TimingParser,
        now: UtcSecond,
    ) -> Option<Kept> {
        let WatchedKronJob { metadata, mut spec, status } = watched;
        let identity = identity(&metadata)?;
        let uid = metadata.uid?.into_boxed_str();
        let generation = metadata.generation.unwrap_or_default();
        let handled =
            known.as_ref().map(|known| (known.uid.clone(), known.status.last_handled_period));
        let known = known.filter(|known| known.uid == uid && known.generation == generation);
        let deleting = metadata.deletion_timestamp.is_some();
        let mut status = Box::new(read_status(status, now));
        let mut mended = false;
        // Whoever else writes a status, the mark never moves back.
        if let Some(handled) = handled.filter(|(known, _)| *known == uid).map(|(_, at)| at)
            && status.last_handled_period < handled
        {
            status.last_handled_period = handled;
            status.effective_from = Some(now);
            mended = true;
        }
        let (definition, template) = match known {
            Some(known) => (known.definition, known.template),
            None => {
                let template = spec["jobTemplate"].to_string().into_boxed_str();
                let ttl_s = spec["jobTemplate"]["spec"]["ttlSecondsAfterFinished"].as_i64();
                // The template need not be taken apart to read the rest.
                if let Some(fields) = spec.as_object_mut() {
                    fields.insert("jobTemplate".to_owned(), Value::Null);
                }
                if template.len() > TEMPLATE_BYTES_MAX {
                    let why = format!(
                        "spec.jobTemplate: {} bytes are more than {TEMPLATE_BYTES_MAX}",
                        template.len()
                    );
                    (Err(why.into_boxed_str()), Box::default())
                } else {
                    (define(&identity, spec, ttl_s, parser), template)
                }
            }
        };
        Some(Kept {
            namespace: metadata.namespace?.into_boxed_str(),
            name: metadata.name?.into_boxed_str(),
            uid,
            generation,
            version: metadata.resource_version?.into_boxed_str(),
            created_at: metadata.creation_timestamp.as_ref().and_then(second)?,
            definition,
            template,
            deleting,
            status,
            mended,
        })
    }
}

/// The stored status. One that cannot be read is as good as lost: then nothing of the past runs.
fn read_status(status: Value, now: UtcSecond) -> KronJobStatus {
    if status.is_null() {
        return KronJobStatus::default();
    }
    serde_json::from_value(status).unwrap_or_else(|_| KronJobStatus {
        effective_from: Some(now),
        last_handled_period: None,
        ..KronJobStatus::default()
    })
}

fn define(
    identity: &str,
    spec: Value,
    ttl_s: Option<i64>,
    parser: &mut TimingParser,
) -> Result<Box<Definition>, Box<str>> {
    let spec: KronJobSpec =
        serde_json::from_value(spec).map_err(|error| format!("spec: {error}").into_boxed_str())?;
    let timing = timing(parser, identity, &spec).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        faults.join("; ").into_boxed_str()
    })?;
    let limit = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
    let decision_hash = timing.decision_hash().to_string();
    let keep = Keep {
        succeeded: limit(spec.successful_jobs_history_limit),
        failed: limit(spec.failed_jobs_history_limit),
        ttl_s,
    };
    Ok(Box::new(Definition { timing, decision_hash, keep }))
}

/// A Job, and the KronJob that owns it.
#[derive(Debug)]
pub(crate) struct SeenJob {
    /// The identity of the owner.
    pub(crate) owner: Arc<str>,
    pub(crate) owner_uid: Box<str>,
    pub(crate) version: u64,
    pub(crate) job: OwnedJob,
}

impl WatchedJob {
    /// The Job and its owner, if a KronJob owns it.
    pub(crate) fn seen(&self) -> Option<SeenJob> {
        let metadata = &self.metadata;
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| {
            owner.kind == "KronJob"
                && owner.api_version.starts_with("kron.dev/")
                && owner.controller == Some(true)
        })?;
        let namespace = metadata.namespace.as_deref()?;
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_PERIOD));
        let chosen = metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION_CHOSEN));
        let created_at = metadata.creation_timestamp.as_ref().and_then(second)?;
        Some(SeenJob {
            owner: format!("{namespace}/{}", owner.name).into(),
            owner_uid: owner.uid.as_str().into(),
            version: version_of(metadata),
            job: OwnedJob {
                name: metadata.name.as_deref()?.into(),
                uid: metadata.uid.as_deref()?.into(),
                period: label.and_then(|label| period_of(label)),
                chosen: chosen.and_then(|chosen| chosen.parse().ok()),
                created_at,
                state: self.state(created_at),
                deleting: metadata.deletion_timestamp.is_some(),
            },
        })
    }

    /// The KronJob that owned it by its label, whoever owns it now, and its UID.
    pub(crate) fn labelled(&self) -> Option<(Arc<str>, Box<str>)> {
        let metadata = &self.metadata;
        let owner = metadata.labels.as_ref()?.get(LABEL_KRONJOB)?;
        let owner = format!("{}/{owner}", metadata.namespace.as_deref()?);
        Some((owner.into(), metadata.uid.as_deref()?.into()))
    }

    fn state(&self, created_at: UtcSecond) -> JobState {
        let holds = |kind: &str| {
            let conditions = &self.status.conditions;
            conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
        };
        let at = |condition: &WatchedCondition| {
            let text = condition.last_transition_time.as_deref();
            text.and_then(|text| text.parse().ok()).unwrap_or(created_at)
        };
        match (holds("Complete"), holds("Failed")) {
            (Some(complete), _) => JobState::Succeeded { at: at(complete) },
            (None, Some(failed)) => JobState::Failed { at: at(failed) },
            (None, None) => JobState::Active,
        }
    }
}

/// The resource version as the number it is in every API server; zero where it is none.
pub(crate) fn version_of(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
