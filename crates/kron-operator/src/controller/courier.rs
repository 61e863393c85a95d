//! The requests of the controller: each bounded in time, none repeated behind its back.
//!
//! **Invariant:** a Job is created only within the term of leadership that claimed its period; the
//! request's time limit ends before the lease does.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::watched::{WatchedJob, WatchedKronJob};
use super::work::{Answered, Telling};
use crate::fault::chain;
use crate::lease::{Leadership, Tenure};
use crate::metrics::{Metrics, Resource, Verb};
use crate::resource::KronJobStatus;

/// How long any request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// With less than this left of the lease, nothing is begun.
const LEASE_LEFT_MIN: Duration = Duration::from_millis(200);
/// How often an Event is told that nobody heard, and the pause after the first time.
const EVENT_TRIES_MAX: u32 = 3;
const EVENT_PAUSE: Duration = Duration::from_millis(500);
/// The longest text of an answer that is passed on.
const MESSAGE_BYTES_MAX: usize = 400;
/// What an Event has room for.
const NOTE_BYTES_MAX: usize = 1024;
const INSTANCE_BYTES_MAX: usize = 128;

/// Sends requests.
#[derive(Clone)]
pub(crate) struct Courier {
    pub(crate) client: kube::Client,
    pub(crate) leadership: Leadership,
    pub(crate) metrics: Arc<Metrics>,
    /// Who tells Events.
    pub(crate) instance: Arc<str>,
}

/// Why a request came to nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The server said no.
    #[error("{message} ({code})")]
    Answer {
        /// The status.
        code: u16,
        /// Whether it says that something of this name is there.
        exists: bool,
        /// What it said.
        message: String,
        /// For how long it put the request off.
        retry_after: Option<Duration>,
    },
    /// No answer, or none that could be read: the request may have been carried out or not.
    #[error("no answer: {0}")]
    Silence(String),
    /// The lease has ended, or is about to.
    #[error("the lease has ended")]
    NotLeading,
    /// The name is taken by a Job that is not this KronJob's.
    #[error("a Job `{0}` exists that does not belong to this KronJob")]
    Foreign(String),
}

impl Refusal {
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Refusal::Answer { code, .. } => Some(*code),
            Refusal::Silence(_) | Refusal::NotLeading | Refusal::Foreign(_) => None,
        }
    }

    /// Whether it says something about the request rather than about the server's state.
    pub(crate) fn is_definite(&self) -> bool {
        match self {
            Refusal::Answer { code, .. } => (400..500).contains(code) && !self.is_put_off(),
            Refusal::Foreign(_) => true,
            Refusal::Silence(_) | Refusal::NotLeading => false,
        }
    }

    /// Whether the server has not come to look at it: it is too busy, or something that it needed
    /// for that (a quota) was changed meanwhile.
    pub(crate) fn is_put_off(&self) -> bool {
        matches!(self.code(), Some(409 | 429))
    }

    /// For how long the server wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Refusal::Answer { retry_after, .. } => *retry_after,
            Refusal::Silence(_) | Refusal::NotLeading | Refusal::Foreign(_) => None,
        }
    }

    /// What it means for others in the namespace.
    pub(crate) fn answered(&self) -> Answered {
        match self {
            Refusal::NotLeading => Answered::NotSent,
            Refusal::Silence(_) => Answered::Badly,
            Refusal::Answer { code: 429 | 500.., .. } => Answered::Badly,
            Refusal::Answer { .. } | Refusal::Foreign(_) => Answered::Well,
        }
    }
}

/// What is needed of an answer to a stored status.
#[derive(Debug, Deserialize)]
struct Stored {
    metadata: StoredMetadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMetadata {
    resource_version: String,
}

/// The paths of a namespace's objects.
fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

fn kronjob(namespace: &str, name: &str) -> String {
    format!("/apis/kron.dev/v1alpha1/namespaces/{namespace}/kronjobs/{name}")
}

impl Courier {
    /// Makes a Job in the term of `claimant`. One that is already there, and was made for the same
    /// period of the same KronJob, is as good.
    pub(crate) async fn make(
        &self,
        namespace: &str,
        owner_uid: &str,
        body: &Value,
        claimant: &str,
    ) -> Result<WatchedJob, Refusal> {
        let limit = self.limit(claimant)?;
        // The server gives up when we do, so that nothing is made after we looked away.
        let uri = format!(
            "{}?fieldManager=kron-operator&timeout={}ms",
            jobs(namespace),
            limit.as_millis()
        );
        let text = body.to_string().into_bytes();
        let request = build(Method::POST, &uri, "application/json", text)?;
        match self.send(Verb::Create, Resource::Jobs, request, limit).await {
            Err(taken @ Refusal::Answer { exists: true, .. }) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                match self.found(namespace, owner_uid, name, limit).await {
                    // It is gone again.
                    Err(Refusal::Answer { code: 404, .. }) => Err(taken),
                    found => found,
                }
            }
            made => made,
        }
    }

    /// The Job of this name, if it is there and belongs to this KronJob.
    pub(crate) async fn look(
        &self,
        namespace: &str,
        owner_uid: &str,
        name: &str,
    ) -> Result<Option<WatchedJob>, Refusal> {
        match self.found(namespace, owner_uid, name, PATIENCE).await {
            Ok(job) => Ok(Some(job)),
            Err(Refusal::Answer { code: 404, .. } | Refusal::Foreign(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// The Job that has taken the name.
    async fn found(
        &self,
        namespace: &str,
        owner_uid: &str,
        name: &str,
        limit: Duration,
    ) -> Result<WatchedJob, Refusal> {
        let request = build(Method::GET, &format!("{}/{name}", jobs(namespace)), "", Vec::new())?;
        let job: WatchedJob = self.send(Verb::Get, Resource::Jobs, request, limit).await?;
        match job.seen() {
            Some(seen) if *seen.owner_uid == *owner_uid => Ok(job),
            _ => Err(Refusal::Foreign(name.to_owned())),
        }
    }

    /// How long a request of this term may take.
    fn limit(&self, claimant: &str) -> Result<Duration, Refusal> {
        let tenure = self.leadership.tenure().ok_or(Refusal::NotLeading)?;
        limit_within(&tenure, claimant, Instant::now())
    }

    /// Stores a status if the object is still of this version; the version it has then.
    pub(crate) async fn store(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        status: &KronJobStatus,
        claimant: &str,
    ) -> Result<String, Refusal> {
        let limit = self.limit(claimant)?;
        // The version that the object is given is the one it must have: that is the comparison.
        let patch = json!([
            { "op": "replace", "path": "/metadata/resourceVersion", "value": version },
            { "op": "add", "path": "/status", "value": status },
        ]);
        let uri = format!("{}/status?fieldManager=kron-operator", kronjob(namespace, name));
        let body = patch.to_string().into_bytes();
        let request = build(Method::PATCH, &uri, "application/json-patch+json", body)?;
        let stored: Stored = self.send(Verb::Patch, Resource::Statuses, request, limit).await?;
        Ok(stored.metadata.resource_version)
    }

    /// The KronJob as it is now.
    pub(crate) async fn fetch(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<WatchedKronJob, Refusal> {
        let request = build(Method::GET, &kronjob(namespace, name), "", Vec::new())?;
        self.send(Verb::Get, Resource::KronJobs, request, PATIENCE).await
    }

    /// Removes a Job and, later, its pods; one that is gone is no failure.
    pub(crate) async fn remove(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        claimant: &str,
    ) -> Result<(), Refusal> {
        let limit = self.limit(claimant)?;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": { "uid": uid },
        });
        let uri = format!("{}/{name}", jobs(namespace));
        let body = options.to_string().into_bytes();
        let request = build(Method::DELETE, &uri, "application/json", body)?;
        match self.send::<IgnoredAny>(Verb::Delete, Resource::Jobs, request, limit).await {
            // Another Job of the name is none of ours.
            Ok(_) | Err(Refusal::Answer { code: 404 | 409, .. }) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Tells an Event.
    pub(crate) async fn tell(&self, telling: &Telling, number: u64) -> Result<(), Refusal> {
        let Telling { namespace, name, uid, note, at_us } = telling;
        let text = match note.period {
            Some(period) => format!("period {period}: {}", note.text),
            None => note.text.clone(),
        };
        let at = Duration::from_micros(*at_us);
        let seconds = i64::try_from(at.as_secs()).unwrap_or_default();
        let second = kron_core::UtcSecond::from_unix(seconds).map(|second| second.to_string());
        let second = second.unwrap_or_default();
        let time = format!("{}.{:06}Z", second.trim_end_matches('Z'), at.subsec_micros());
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{name}.{at_us:x}.{number:x}"),
                "namespace": namespace,
            },
            "eventTime": time,
            "reportingController": "kron.dev/operator",
            "reportingInstance": cut(&self.instance, INSTANCE_BYTES_MAX),
            "action": "Schedule",
            "reason": note.kind.reason(),
            "type": if note.kind.is_warning() { "Warning" } else { "Normal" },
            "note": cut(&text, NOTE_BYTES_MAX),
            "regarding": {
                "apiVersion": "kron.dev/v1alpha1",
                "kind": "KronJob",
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
        });
        let uri = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let body = body.to_string().into_bytes();
        let mut tries = 1;
        loop {
            let request = build(Method::POST, &uri, "application/json", body.clone())?;
            let told = self.send::<IgnoredAny>(Verb::Create, Resource::Events, request, PATIENCE);
            match told.await {
                // It is there: an answer got lost.
                Ok(_) | Err(Refusal::Answer { code: 409, .. }) => return Ok(()),
                Err(refusal) if refusal.is_definite() || tries == EVENT_TRIES_MAX => {
                    return Err(refusal);
                }
                Err(_) => tokio::time::sleep(EVENT_PAUSE * tries).await,
            }
            tries += 1;
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        verb: Verb,
        resource: Resource,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<T, Refusal> {
        let begun = Instant::now();
        let answer = tokio::time::timeout(limit, self.client.request::<T>(request)).await;
        let answer = match answer {
            // Always the same words, so that a condition that lasts is written once.
            Err(_) => Err(Refusal::Silence("it did not come in time".to_owned())),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => {
                let details = status.details.as_ref();
                let put_off = details.map(|details| details.retry_after_seconds);
                let put_off = put_off.filter(|seconds| *seconds > 0);
                Err(Refusal::Answer {
                    code: status.code,
                    exists: status.reason == "AlreadyExists",
                    message: cut(&status.message, MESSAGE_BYTES_MAX),
                    retry_after: put_off.map(|seconds| Duration::from_secs(seconds.into())),
                })
            }
            Ok(Err(error)) => Err(Refusal::Silence(cut(&chain(&error), MESSAGE_BYTES_MAX))),
        };
        let code = match &answer {
            Ok(_) => Some(if verb == Verb::Create { 201 } else { 200 }),
            Err(refusal) => refusal.code(),
        };
        self.metrics.request(verb, resource, code, begun.elapsed());
        answer
    }
}

/// How long a request of this term may take that is sent now, within a tenure.
fn limit_within(tenure: &Tenure, claimant: &str, now: Instant) -> Result<Duration, Refusal> {
    let left = tenure.remaining(now);
    if *tenure.claimant != *claimant || left < LEASE_LEFT_MIN {
        return Err(Refusal::NotLeading);
    }
    Ok(left.min(PATIENCE))
}

fn build(
    method: Method,
    uri: &str,
    kind: &str,
    body: Vec<u8>,
) -> Result<Request<Vec<u8>>, Refusal> {
    let mut request = Request::builder().method(method).uri(uri);
    if !kind.is_empty() {
        request = request.header(http::header::CONTENT_TYPE, kind);
    }
    request.body(body).map_err(|error| Refusal::Silence(error.to_string()))
}

/// The text, or as much of it as has room, with a mark.
fn cut(text: &str, bytes_max: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}

#[cfg(test)]
mod tests;
