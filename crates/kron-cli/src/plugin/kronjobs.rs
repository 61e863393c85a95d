//! The KronJobs of a cluster: what they say, how the engine reads it, and what the operator has made
//! of it.
//!
//! One object that cannot be read never hides the others: what is wrong with it stays with it.

use kron_core::{Timing, TimingParser, UtcSecond};
use kron_operator::resource::{
    ConditionKind, Fault, KronJobSpec, KronJobStatus, NextPeriod, timing,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::kubectl::{Kubectl, Which};
use crate::failure::Failure;
use crate::text::duration;

/// The resource, so that no other kind of that name is meant.
pub(super) const KIND: &str = "kronjobs.kron.dev";
/// Why the operator starts nothing although everything is in order: the word of its condition.
const HANDLED_IN_FUTURE: &str = "HandledInFuture";

/// A KronJob.
pub(crate) struct KronJob {
    pub(crate) metadata: Metadata,
    /// `namespace/name`, which is what its times are chosen for.
    pub(crate) identity: String,
    /// Its timing, or what is wrong with its spec.
    pub(crate) timing: Result<Timing, Vec<Fault>>,
    /// What the operator says; nothing when it has never said anything.
    pub(crate) status: Option<KronJobStatus>,
    /// The status is there and cannot be read.
    pub(crate) status_fault: Option<String>,
}

/// A mark of what is handled that lies in the future. Nothing runs before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkAhead {
    pub(crate) handled: UtcSecond,
    /// Since when nothing is started; nothing that fell due after this has run.
    pub(crate) since: UtcSecond,
}

/// What every object of a cluster has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) creation_timestamp: Option<UtcSecond>,
    pub(crate) deletion_timestamp: Option<UtcSecond>,
    pub(crate) labels: std::collections::BTreeMap<String, String>,
}

/// A KronJob as the API server sends it.
#[derive(Deserialize)]
pub(super) struct Object {
    metadata: Metadata,
    spec: Box<RawValue>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

/// Asks for KronJobs, in order of namespace and name.
pub(crate) fn fetch(kubectl: &Kubectl<'_>, which: Which<'_>) -> Result<Vec<KronJob>, Failure> {
    let mut parser = TimingParser::new();
    let objects = kubectl.list::<Object>(KIND, which)?;
    let mut kronjobs: Vec<KronJob> =
        objects.into_iter().map(|object| KronJob::read(&mut parser, object)).collect();
    kronjobs.sort_by(|a, b| a.identity.cmp(&b.identity));
    // Somebody may have named one twice.
    kronjobs.dedup_by(|a, b| a.identity == b.identity);
    Ok(kronjobs)
}

/// Asks for one KronJob.
pub(crate) fn fetch_one(kubectl: &Kubectl<'_>, name: &str) -> Result<KronJob, Failure> {
    Ok(KronJob::read(&mut TimingParser::new(), fetch_object(kubectl, name)?))
}

/// Asks for one KronJob as it is.
pub(super) fn fetch_object<T: DeserializeOwned>(
    kubectl: &Kubectl<'_>,
    name: &str,
) -> Result<T, Failure> {
    let object = kubectl.list(KIND, Which::Named(&[name.to_owned()]))?.pop();
    object.ok_or_else(|| Failure::NoSuchJob {
        wanted: Some(name.to_owned()),
        hint: "`kubectl kron next` shows those of the namespace".to_owned(),
    })
}

impl KronJob {
    pub(super) fn read(parser: &mut TimingParser, object: Object) -> KronJob {
        let Object { metadata, spec, status } = object;
        let identity = format!("{}/{}", metadata.namespace, metadata.name);
        let timing = match serde_json::from_str::<KronJobSpec>(spec.get()) {
            Ok(spec) => timing(parser, &identity, &spec),
            Err(error) => Err(vec![Fault { field: "spec", message: error.to_string() }]),
        };
        let (status, status_fault) = match status.map(|raw| serde_json::from_str(raw.get())) {
            None => (None, None),
            Some(Ok(status)) => (Some(status), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        KronJob { metadata, identity, timing, status, status_fault }
    }

    /// Whether the operator has read the spec as it is now.
    pub(crate) fn is_observed(&self) -> bool {
        let observed = self.status.as_ref().and_then(|status| status.observed_generation);
        observed == Some(self.metadata.generation)
    }

    /// What is marked as handled, if a wrong clock has set that mark and it lies ahead.
    pub(crate) fn mark_ahead(&self, now: UtcSecond) -> Option<MarkAhead> {
        let status = self.status.as_ref()?;
        let ready = status.condition(ConditionKind::Ready);
        let ready = ready.filter(|it| !it.is_true() && it.reason == HANDLED_IN_FUTURE)?;
        let handled = status.last_handled_period.filter(|handled| *handled > now)?;
        Some(MarkAhead { handled, since: ready.last_transition_time })
    }

    /// Why the operator may not do what the spec says, in a few words; nothing when it will.
    pub(crate) fn remarks(&self, now: UtcSecond) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(fault) = &self.status_fault {
            remarks.push(format!("its status cannot be read: {fault}"));
            return remarks;
        }
        if self.metadata.deletion_timestamp.is_some() {
            remarks.push("being deleted".to_owned());
        }
        if let Ok(timing) = &self.timing
            && timing.policy.suspend
        {
            let since = self.status.as_ref().and_then(|status| status.suspended_at);
            remarks.push(match since {
                Some(since) => format!("suspended since {since}"),
                None => "suspended".to_owned(),
            });
        }
        match self.status.as_ref().and_then(|status| status.observed_generation) {
            None => remarks.push("not seen by the operator".to_owned()),
            Some(seen) if seen != self.metadata.generation => remarks.push(format!(
                "the operator has seen generation {seen}, not {}",
                self.metadata.generation
            )),
            Some(_) => match self.mark_ahead(now) {
                Some(mark) => remarks.push(format!(
                    "nothing runs before {}, which a wrong clock has marked as handled",
                    mark.handled
                )),
                None => remarks.extend(self.disagreement(now)),
            },
        }
        remarks
    }

    /// What the operator says about the next period, where the engine says something else.
    fn disagreement(&self, now: UtcSecond) -> Option<String> {
        let timing = self.timing.as_ref().ok().filter(|timing| !timing.policy.suspend)?;
        let Some(next) = self.status.as_ref()?.next.as_ref() else {
            let expected = timing.due_after(now).next()?;
            return Some(format!("the operator knows no next period, not {}", expected.nominal));
        };
        let is_period =
            timing.schedule().prev_at_or_before(next.nominal_time) == Some(next.nominal_time);
        let decided = timing.placement().decide(next.nominal_time).ok().filter(|_| is_period);
        let Some(decided) = decided else {
            return Some(format!("the operator says {}, which is no period", next.period_id));
        };
        if decided.chosen != next.chosen_time {
            let said = next.chosen_time.map_or("unschedulable".to_owned(), |at| at.to_string());
            return Some(format!("the operator says {said} for {}", next.period_id));
        }
        let late = now.since(decided.due());
        if late > 0 {
            return Some(overdue(next, late));
        }
        let sooner =
            timing.due_after(now).next().filter(|first| first.nominal < decided.nominal)?;
        let created = self.metadata.creation_timestamp;
        (created.is_none_or(|created| created < sooner.due()))
            .then(|| format!("the operator says {} is next", next.period_id))
    }
}

fn overdue(next: &NextPeriod, late: i64) -> String {
    format!("{} fell due {} ago and is not recorded yet", next.period_id, duration(late))
}
