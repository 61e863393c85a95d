//! Which of several operators leads: a Lease of `coordination.k8s.io`, held by compare-and-swap.
//!
//! A [`Candidate`] reads, takes, renews and releases the lease; everybody else in the process holds
//! a [`Leadership`] and asks it, before anything that only a leader may do, for the [`Tenure`] and
//! for how long it still lasts. The rules are in [`campaign`]; this module carries them out.
//!
//! **Invariant:** a tenure ends by itself. It is renewed only by a write that the API server has
//! confirmed, is counted from before that write was sent, and [`Leadership::tenure`] looks at the
//! clock each time. So a process that was stopped past its lease does not lead for an instant when
//! it goes on, and an API server that hangs cannot keep a tenure alive: every request ends at a
//! time of its own, and at the end of the tenure at the latest.
//!
//! Whoever does not lead watches the lease, so that a release is seen at once. A watch that breaks
//! or falls silent is made up for by reading. No fault of the API server ends a campaign: it is
//! told in the log once, and what follows is tried again until it is told to stop.
//!
//! The clock is the machine's monotonic one, which stands still while the machine is suspended. So
//! a tenure also ends when the wall clock gets ahead of it: whoever slept begins a new term, in
//! which every claim is made anew by compare-and-swap. The lease does not protect from a machine
//! that is suspended between the look at the clocks and the request that follows.

mod campaign;

use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, TryFutureExt as _};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::campaign::{Campaign, Pace, Record, Seen, Step};
use crate::log::{Failure, Log};
use crate::metrics::{Metrics, Resource, Verb};

/// A lease that is shorter cannot be written down: its unit is the second.
const DURATION_MIN: Duration = Duration::from_secs(1);
/// A leader that is gone would be waited for so long.
const DURATION_MAX: Duration = Duration::from_secs(3600);
/// How long a watch goes on before it is begun again.
const WATCH_S_MAX: u32 = 290;
/// By how much the wall clock may get ahead of the monotonic one between two renewals.
const AHEAD_MAX: Duration = Duration::from_secs(1);
/// How often a release is tried whose lease turns out to have changed.
const RELEASE_TRIES_MAX: u32 = 3;

/// Which lease, in whose name, for how long.
#[derive(Clone, Debug)]
pub(crate) struct LeaseOptions {
    /// Where the lease is.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// The name of this process among those who want it. Different for every process.
    pub(crate) identity: String,
    /// How long others wait for a leader that gives no sign of life.
    pub(crate) duration: Duration,
}

/// Why there can be no campaign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LeaseError {
    /// The duration cannot be written in a lease, or makes no sense.
    #[error("lease duration `{0:?}` is not between `{DURATION_MIN:?}` and `{DURATION_MAX:?}`")]
    Duration(Duration),
    /// A lease with an empty holder is a free one.
    #[error("identity is empty")]
    Identity,
}

/// The time during which this process leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    /// The identity and the lease's number of transitions: no two tenures have the same.
    pub(crate) claimant: Arc<str>,
    until: Instant,
    /// What the two clocks showed when it was last renewed.
    renewed: (Instant, Timestamp),
}

impl Tenure {
    /// Whether the wall clock went on as the monotonic one did: one that is ahead has been set,
    /// or the machine has slept, and others may have led meanwhile.
    fn is_awake(&self, now: Instant, wall: Timestamp) -> bool {
        let (then, wall_then) = self.renewed;
        let passed = now.saturating_duration_since(then);
        let shown = Duration::try_from(wall.duration_since(wall_then)).unwrap_or_default();
        shown.saturating_sub(passed) <= AHEAD_MAX
    }

    /// How long it certainly lasts; zero once it is over.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }
}

/// Whether this process leads. Cheap to ask: a look at memory and at the clock.
#[derive(Clone, Debug)]
pub(crate) struct Leadership {
    tenure: watch::Receiver<Option<Tenure>>,
}

impl Leadership {
    /// The tenure, if this process leads now.
    pub(crate) fn tenure(&self) -> Option<Tenure> {
        let (now, wall) = (Instant::now(), wall());
        let tenure = self.tenure.borrow();
        let lasting =
            |tenure: &&Tenure| !tenure.remaining(now).is_zero() && tenure.is_awake(now, wall);
        tenure.as_ref().filter(lasting).cloned()
    }

    /// Waits for a tenure to begin or end; a renewal is no change. Waits for ever once the
    /// candidate is gone, since nothing changes any more.
    pub(crate) async fn changed(&mut self) {
        if self.tenure.changed().await.is_err() {
            future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
impl Tenure {
    /// A tenure of this claimant that lasts for so long from a moment.
    pub(crate) fn lasting(claimant: &str, left: Duration, now: Instant) -> Tenure {
        Tenure { claimant: claimant.into(), until: now + left, renewed: (now, wall()) }
    }
}

#[cfg(test)]
impl Leadership {
    /// A tenure of this claimant that lasts for so long from now.
    pub(crate) fn lasting(claimant: &str, left: Duration) -> Leadership {
        let tenure = Tenure::lasting(claimant, left, Instant::now());
        Leadership { tenure: watch::channel(Some(tenure)).1 }
    }
}

/// One who wants the lease, or has it.
pub(crate) struct Candidate {
    api: Api<Lease>,
    options: LeaseOptions,
    campaign: Campaign,
    published: watch::Sender<Option<Tenure>>,
    /// The lease as it was last seen: what others put there is kept.
    lease: Lease,
    changes: Option<Changes>,
    /// What was last told of, so that a fault that lasts is told once.
    standing_by: Option<String>,
    failing: bool,
    log: Log,
    metrics: Arc<Metrics>,
}

type Changes = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Lease>>> + Send>>;

/// How a request ended without what it was for.
enum Unanswered {
    /// There is no such lease.
    Absent,
    /// Somebody else was faster.
    Refused,
    /// Anything else.
    Failed,
}

impl Candidate {
    /// A candidate and what it will tell of itself. The client should have a connection of its own,
    /// so that a burst of other requests does not stand before a renewal.
    ///
    /// # Errors
    /// When the options make no sense.
    pub(crate) fn new(
        client: kube::Client,
        options: LeaseOptions,
        log: Log,
        metrics: Arc<Metrics>,
    ) -> Result<(Candidate, Leadership), LeaseError> {
        if options.duration < DURATION_MIN || options.duration > DURATION_MAX {
            return Err(LeaseError::Duration(options.duration));
        }
        if options.identity.is_empty() {
            return Err(LeaseError::Identity);
        }
        let pace = Pace::of(options.duration);
        let (published, tenure) = watch::channel(None);
        let candidate = Candidate {
            api: Api::namespaced(client, &options.namespace),
            campaign: Campaign::new(options.identity.clone(), pace, Instant::now()),
            published,
            lease: Lease::default(),
            changes: None,
            standing_by: None,
            failing: false,
            options,
            log,
            metrics,
        };
        Ok((candidate, Leadership { tenure }))
    }

    /// Wants the lease until `stop` says true or is dropped, and then lets go of it. What only a
    /// leader may do must have ended before: others may lead at once.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            if *stop.borrow_and_update() || stop.has_changed().is_err() {
                break;
            }
            let step = self.campaign.next(Instant::now(), wall());
            // Before the step, which may take its time: a tenure may just have ended.
            self.publish();
            match step {
                Step::Wait(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    change = next_of(&mut self.changes) => self.changed(change),
                    _ = stop.changed() => {}
                },
                Step::Read => tokio::select! {
                    () = self.read() => {}
                    _ = stop.changed() => {}
                },
                // A write is never left alone: whatever becomes of it must be known to let go.
                Step::Create(record) => self.write(None, record).await,
                Step::Acquire(Seen { record, version }) | Step::Renew(Seen { record, version }) => {
                    self.write(Some(version), record).await;
                }
            }
        }
        self.release().await;
    }

    /// Reads the lease, and watches it from there.
    async fn read(&mut self) {
        let sent = Instant::now();
        let until = self.campaign.request_until(sent);
        self.changes = None;
        let get = timeout_at(until, self.api.get(&self.options.name)).await;
        match self.answer(Verb::Get, sent, get) {
            Ok(lease) => {
                self.campaign.observed(Instant::now(), Some(self.seen(&lease)));
                self.watch(lease.metadata.resource_version.as_deref().unwrap_or_default());
                self.lease = lease;
            }
            Err(Unanswered::Absent) => {
                self.lease = Lease::default();
                self.campaign.observed(Instant::now(), None);
            }
            Err(Unanswered::Refused | Unanswered::Failed) => self.campaign.failed(sent),
        }
    }

    /// Creates the lease, or replaces it at a version.
    async fn write(&mut self, version: Option<String>, record: Record) {
        let lease = self.lease_of(version.clone(), &record);
        let params = PostParams::default();
        let sent = Instant::now();
        let until = self.campaign.request_until(sent);
        let (verb, answer) = match version {
            Some(_) => {
                let put = self.api.replace(&self.options.name, &params, &lease);
                (Verb::Update, timeout_at(until, put).await)
            }
            None => (Verb::Create, timeout_at(until, self.api.create(&params, &lease)).await),
        };
        match self.answer(verb, sent, answer) {
            Ok(lease) => {
                self.campaign.written(sent, Instant::now(), self.seen(&lease));
                self.lease = lease;
                // Who leads has no use for being told of its own renewals.
                self.changes = None;
            }
            Err(Unanswered::Absent | Unanswered::Refused) => {
                self.campaign.refused(sent, Instant::now());
            }
            Err(Unanswered::Failed) => self.campaign.failed(sent),
        }
    }

    async fn release(&mut self) {
        for _ in 0..RELEASE_TRIES_MAX {
            let release = self.campaign.release(Instant::now(), wall());
            // Nobody in this process leads before anybody else may.
            self.publish();
            let Some(Seen { record, version }) = release else { break };
            let lease = self.lease_of(Some(version), &record);
            let sent = Instant::now();
            let until = self.campaign.request_until(sent);
            let params = PostParams::default();
            let put = self.api.replace(&self.options.name, &params, &lease);
            let put = timeout_at(until, put).await;
            match self.answer(Verb::Update, sent, put) {
                Ok(_) => {
                    self.log.info("lease_released", &[("lease", self.path().into())]);
                    return;
                }
                // Perhaps by a write of its own whose answer was lost.
                Err(Unanswered::Refused) => self.read().await,
                Err(Unanswered::Absent | Unanswered::Failed) => return,
            }
        }
    }

    /// What came of a request, counted and told.
    fn answer<T>(
        &mut self,
        verb: Verb,
        sent: Instant,
        answer: Result<kube::Result<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, Unanswered> {
        let (code, unanswered, message) = match answer {
            Ok(Ok(value)) => {
                let code = if verb == Verb::Create { 201 } else { 200 };
                self.count(verb, sent, Some(code));
                if std::mem::take(&mut self.failing) {
                    self.log.info("lease_recovered", &[("lease", self.path().into())]);
                }
                return Ok(value);
            }
            Ok(Err(kube::Error::Api(status))) => {
                let unanswered = match status.code {
                    404 if verb != Verb::Create => Unanswered::Absent,
                    409 => Unanswered::Refused,
                    _ => Unanswered::Failed,
                };
                (Some(status.code), unanswered, status.message)
            }
            Ok(Err(error)) => (None, Unanswered::Failed, error.to_string()),
            Err(_) => (None, Unanswered::Failed, "no answer in time".to_owned()),
        };
        self.count(verb, sent, code);
        if matches!(unanswered, Unanswered::Failed) && !std::mem::replace(&mut self.failing, true) {
            let operation = format!("{} lease", verb.as_str());
            let failure = Failure {
                error_type: "SystemError",
                operation: &operation,
                message: &message,
                identity: None,
                period_id: None,
            };
            self.log.error("lease_failed", &failure, &[("lease", self.path().into())]);
        }
        Err(unanswered)
    }

    fn count(&self, verb: Verb, sent: Instant, code: Option<u16>) {
        let took = Instant::now().saturating_duration_since(sent);
        self.metrics.request(verb, Resource::Leases, code, took);
    }

    /// A watch from this version; it is opened when it is first asked for a change.
    fn watch(&mut self, version: &str) {
        let name = format!("metadata.name={}", self.options.name);
        let params = WatchParams::default().fields(&name).timeout(WATCH_S_MAX);
        let (api, version) = (self.api.clone(), version.to_owned());
        let opened = async move { api.watch(&params, &version).await };
        self.changes = Some(Box::pin(opened.try_flatten_stream()));
    }

    /// What the watch told, or that it is over.
    fn changed(&mut self, change: Option<kube::Result<WatchEvent<Lease>>>) {
        let now = Instant::now();
        match change {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                self.campaign.observed(now, Some(self.seen(&lease)));
                self.lease = lease;
            }
            Some(Ok(WatchEvent::Deleted(_))) => {
                self.lease = Lease::default();
                self.campaign.observed(now, None);
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                self.changes = None;
                self.metrics.watch_restarted(Resource::Leases);
                self.campaign.unwatched(now);
            }
        }
    }

    /// Tells the rest of the process, and the log, what has changed.
    fn publish(&mut self) {
        let tenure = self.campaign.tenure();
        let claimant = tenure.as_ref().map(|tenure| Arc::clone(&tenure.claimant));
        let mut before = None;
        self.published.send_if_modified(|published| {
            before = std::mem::replace(published, tenure).map(|tenure| tenure.claimant);
            before != claimant
        });
        let path = self.path();
        let lease = || ("lease", path.as_str().into());
        if before != claimant {
            if let Some(before) = &before {
                self.log.info("leading_ended", &[lease(), ("claimant", (**before).into())]);
            }
            match &claimant {
                Some(claimant) => {
                    self.metrics.set_leading();
                    self.log.info("leading", &[lease(), ("claimant", (**claimant).into())]);
                }
                None => self.metrics.set_following(),
            }
            self.standing_by = None;
        }
        let holder = self.campaign.holder().filter(|holder| !holder.is_empty());
        if holder.is_some() && holder != self.standing_by.as_deref() {
            self.standing_by = holder.map(str::to_owned);
            self.log.info("standing_by", &[lease(), ("holder", holder.into())]);
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name)
    }

    fn seen(&self, lease: &Lease) -> Seen {
        let spec = lease.spec.clone().unwrap_or_default();
        let record = Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_s: spec.lease_duration_seconds.unwrap_or_default(),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
        };
        Seen { record, version: lease.metadata.resource_version.clone().unwrap_or_default() }
    }

    /// The lease with this record, and everything else in it as it was.
    fn lease_of(&self, version: Option<String>, record: &Record) -> Lease {
        let metadata = match version {
            Some(_) => ObjectMeta { resource_version: version, ..self.lease.metadata.clone() },
            None => ObjectMeta { name: Some(self.options.name.clone()), ..ObjectMeta::default() },
        };
        let spec = LeaseSpec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: Some(record.duration_s),
            lease_transitions: Some(record.transitions),
            acquire_time: record.acquired.map(MicroTime),
            renew_time: record.renewed.map(MicroTime),
            ..self.lease.spec.clone().unwrap_or_default()
        };
        Lease { metadata, spec: Some(spec) }
    }
}

/// The next change; never, where nothing is watched.
async fn next_of(changes: &mut Option<Changes>) -> Option<kube::Result<WatchEvent<Lease>>> {
    match changes {
        Some(changes) => changes.next().await,
        None => future::pending().await,
    }
}

/// The time for people to read, in the microseconds that a lease can hold.
fn wall() -> Timestamp {
    let now = wall_now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

#[cfg(not(test))]
#[expect(clippy::disallowed_methods, reason = "a lease shows when it was acquired and renewed")]
fn wall_now() -> Timestamp {
    Timestamp::now()
}

/// The time by the clock of tokio, which tests pause: where the wall clock went on beside it, a test
/// that was kept waiting would look like a machine that has slept.
#[cfg(test)]
fn wall_now() -> Timestamp {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let (now, origin) = (Instant::now(), *ORIGIN.get_or_init(Instant::now));
    let epoch = Timestamp::constant(1_800_000_000, 0);
    epoch + now.saturating_duration_since(origin) - origin.saturating_duration_since(now)
}

#[cfg(test)]
mod tests;
