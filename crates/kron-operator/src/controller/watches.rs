//! The watches on KronJobs and on the Jobs they own.
//!
//! A watch that breaks begins again, with a list where it must; what a list does not have any more
//! is gone. Failures are told once, and tried again with growing pauses.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt as _, utils::Backoff};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::Setup;
use super::watched::{WatchedJob, WatchedKronJob, identity};
use crate::fault::chain;
use crate::log::{Failure, Log};
use crate::metrics::{Metrics, Resource};
use crate::resource::LABEL_KRONJOB;

/// How many objects a list gives at once.
const PAGE: u32 = 250;
/// The pauses after failures: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The kinds of objects that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    KronJobs,
    Jobs,
}

/// One of the lists: what it has, and the place of its namespace among those looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) kind: Listed,
    pub(super) scope: usize,
}

impl List {
    pub(super) fn place(self) -> usize {
        2 * self.scope + usize::from(self.kind == Listed::Jobs)
    }
}

/// Something that changed in the cluster.
#[derive(Debug)]
pub(super) enum Change {
    /// A KronJob is there, or is another.
    KronJob(Box<WatchedKronJob>),
    /// A KronJob is gone.
    KronJobGone { identity: Arc<str>, uid: Box<str> },
    /// A Job is there, or is another.
    Job(Box<WatchedJob>),
    /// A Job is gone.
    JobGone { owner: Arc<str>, uid: Box<str> },
    /// A list is read anew.
    ListBegun(List),
    /// It was read to its end.
    ListRead(List),
}

/// Watches until nobody takes the changes any more.
pub(super) fn start(setup: &Setup, changes: &mpsc::Sender<Change>) {
    let scopes: Vec<Option<&str>> = match setup.namespaces.as_slice() {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    for (scope, namespace) in scopes.into_iter().enumerate() {
        let config = watcher::Config::default().page_size(PAGE);
        let list = List { kind: Listed::KronJobs, scope };
        let api: Api<WatchedKronJob> = api(setup, namespace);
        tokio::spawn(follow(api, config.clone(), Follower::new(setup, list, changes)));
        let list = List { kind: Listed::Jobs, scope };
        let api: Api<WatchedJob> = self::api(setup, namespace);
        let config = config.labels(LABEL_KRONJOB);
        tokio::spawn(follow(api, config, Follower::new(setup, list, changes)));
    }
}

fn api<K>(setup: &Setup, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(setup.client.clone(), namespace),
        None => Api::all(setup.client.clone()),
    }
}

/// An object as a change.
trait Watched: Sized {
    fn there(self) -> Change;
    fn gone(self) -> Option<Change>;
}

impl Watched for WatchedKronJob {
    fn there(self) -> Change {
        Change::KronJob(Box::new(self))
    }

    fn gone(self) -> Option<Change> {
        let identity = identity(&self.metadata)?;
        Some(Change::KronJobGone { identity, uid: self.metadata.uid?.into_boxed_str() })
    }
}

impl Watched for WatchedJob {
    fn there(self) -> Change {
        Change::Job(Box::new(self))
    }

    fn gone(self) -> Option<Change> {
        let seen = self.seen().map(|seen| (seen.owner, seen.job.uid));
        let (owner, uid) = seen.or_else(|| self.labelled())?;
        Some(Change::JobGone { owner, uid })
    }
}

struct Follower {
    list: List,
    changes: mpsc::Sender<Change>,
    log: Log,
    metrics: Arc<Metrics>,
}

impl Follower {
    fn new(setup: &Setup, list: List, changes: &mpsc::Sender<Change>) -> Follower {
        Follower {
            list,
            changes: changes.clone(),
            log: setup.log.clone(),
            metrics: Arc::clone(&setup.metrics),
        }
    }

    fn resource(&self) -> Resource {
        match self.list.kind {
            Listed::KronJobs => Resource::KronJobs,
            Listed::Jobs => Resource::Jobs,
        }
    }
}

async fn follow<K>(api: Api<K>, config: watcher::Config, follower: Follower)
where
    K: Watched + kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    K: Send + 'static,
{
    let Follower { list, ref changes, ref log, ref metrics } = follower;
    let mut stream = std::pin::pin!(watcher(api, config).backoff(Pauses(PAUSE_MIN)));
    let mut failing = false;
    while let Some(event) = stream.next().await {
        // A watch that tells something works again, with a new list or without.
        if failing && matches!(event, Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone)) {
            failing = false;
            log.info("watching", &[("resource", follower.resource().as_str().into())]);
        }
        let change = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => Some(object.there()),
            Ok(Event::Delete(object)) => object.gone(),
            Ok(Event::Init) => Some(Change::ListBegun(list)),
            Ok(Event::InitDone) => Some(Change::ListRead(list)),
            Err(error) => {
                metrics.watch_restarted(follower.resource());
                if !std::mem::replace(&mut failing, true) {
                    let operation = format!("watch {}", follower.resource().as_str());
                    let message = chain(&error);
                    let failure = Failure {
                        error_type: "SystemError",
                        operation: &operation,
                        message: &message,
                        identity: None,
                        period_id: None,
                    };
                    log.error("watch_failed", &failure, &[]);
                }
                None
            }
        };
        if let Some(change) = change
            && changes.send(change).await.is_err()
        {
            return;
        }
    }
}

/// Pauses that double up to the longest.
struct Pauses(Duration);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSE_MAX);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = PAUSE_MIN;
    }
}
