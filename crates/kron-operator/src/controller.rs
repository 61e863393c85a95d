//! The controller: watches the cluster, plans each KronJob when something about it changed or its
//! second has come, and sends what the plans say.
//!
//! One task owns all of it and alone decides; requests run beside it and report back. Of each
//! KronJob at most one step is under way. A standby keeps the same picture of the cluster and plans
//! nothing, so that it can lead at once.
//!
//! What it deliberately does not do: look again at times of its own. It sleeps until the next second
//! that a plan named, and is woken by watches, by answers, by a change of leadership and by a leap
//! of the clock.

mod catalogue;
pub(crate) mod clock;
mod courier;
mod done;
mod watched;
mod watches;
mod work;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kron_core::{DecisionEvent, TimingParser, UtcSecond};
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::catalogue::{Catalogue, Doing};
use self::clock::{Leap, Leaps, WallTimer};
use self::courier::Courier;
use self::done::{Class, Done};
use self::watched::WatchedJob;
use self::watches::Change;
use self::work::{Answered, Item, Removal, Start, Telling, Urgent, Work, namespace_of};
use crate::job;
use crate::lease::{Leadership, Tenure};
use crate::log::Log;
use crate::metrics::{self, Metrics};
use crate::plan::{Note, Plan, Step, plan};
use crate::serve::Health;

/// How many changes of the cluster may wait; then the watches do.
const CHANGES_MAX: usize = 4096;
/// How many changes are taken in before anything is sent.
const CHANGES_AT_ONCE: usize = 512;
/// How often the loop shows that it is alive, and the gauges are set.
const PULSE: Duration = Duration::from_secs(1);
/// How long a graceful end waits for requests that are under way.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How many KronJobs are planned before anything else is looked at.
const PLANS_AT_ONCE: usize = 1000;
/// For how long, at most.
const PLANNING_MAX: Duration = Duration::from_millis(50);
/// So long after it was judged a start is judged again.
const STALLED_S: i64 = 60;
/// Without some of the lists, the others are worked on after so long.
const FILL_PATIENCE: Duration = Duration::from_secs(30);
/// How long Events are told after the lease was let go.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What the controller works with.
pub(crate) struct Controller {
    catalogue: Catalogue,
    /// The seconds at which KronJobs are looked at, lazily: an entry counts if the KronJob agrees.
    due: BinaryHeap<Reverse<(UtcSecond, Arc<str>)>>,
    work: Work,
    parser: TimingParser,
    /// How old a Job must be to be removed.
    job_age_s_min: i64,
    courier: Courier,
    leadership: Leadership,
    /// The term in which plans are made now.
    claimant: Option<Arc<str>>,
    log: Log,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    done: mpsc::UnboundedSender<Done>,
    /// KronJobs that are to be looked at, soonest first, when there are too many for one go.
    pending: VecDeque<Arc<str>>,
    pending_since: Option<Instant>,
    filled: Arc<Notify>,
    begun: Instant,
    leaps: Leaps,
    events_told: u64,
    events_lost: u64,
}

/// Events that are left when the controller has ended.
pub(crate) struct LastWords {
    courier: Courier,
    untold: Vec<Telling>,
    told: u64,
}

impl LastWords {
    /// Tells as many as there is time for.
    pub(crate) async fn tell(self) {
        let LastWords { courier, untold, told } = self;
        let all = async {
            for (telling, number) in untold.iter().zip(told + 1..) {
                let _ = courier.tell(telling, number).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, all).await;
    }
}

/// What [`Controller::run`] needs.
pub(crate) struct Setup {
    pub(crate) client: kube::Client,
    /// The namespaces to look at; none for all.
    pub(crate) namespaces: Vec<String>,
    /// How old a Job must be to be removed.
    pub(crate) job_age_s_min: i64,
    pub(crate) leadership: Leadership,
    /// The name of this process in Events.
    pub(crate) instance: Arc<str>,
    pub(crate) log: Log,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    /// Told when enough of the cluster is read to lead.
    pub(crate) filled: Arc<Notify>,
}

/// Runs until `stop` says true and what was under way is answered.
///
/// # Errors
/// When the kernel's timer fails.
pub(crate) async fn run(setup: Setup, mut stop: watch::Receiver<bool>) -> io::Result<LastWords> {
    let (changes, mut changed) = mpsc::channel(CHANGES_MAX);
    watches::start(&setup, &changes);
    let (done, mut finished) = mpsc::unbounded_channel();
    let mut controller = Controller::new(setup, done);
    let timer = WallTimer::new()?;
    let mut leadership = controller.leadership.clone();
    let mut pulse = interval(PULSE);
    pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut several = Vec::new();
    while !*stop.borrow_and_update() {
        controller.check_clock();
        controller.follow_leadership();
        controller.wake_due(clock::now());
        controller.plan_some();
        controller.dispatch();
        timer.set(controller.next_wake())?;
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            () = leadership.changed() => {}
            () = timer.elapsed() => {}
            _ = pulse.tick() => controller.show(),
            Some(done) = finished.recv() => {
                controller.finished(done);
                while let Ok(done) = finished.try_recv() {
                    controller.finished(done);
                }
            }
            _ = changed.recv_many(&mut several, CHANGES_AT_ONCE) => {
                for change in several.drain(..) {
                    controller.changed(change);
                }
            }
            () = std::future::ready(()), if !controller.pending.is_empty() => {
                tokio::task::yield_now().await;
            }
        }
    }
    // What waits is left to the next leader; what is under way is waited for, as its answers are
    // the only proof of what became of it.
    controller.work.clear();
    controller.claimant = None;
    let patience = tokio::time::sleep(END_PATIENCE);
    tokio::pin!(patience);
    while !controller.work.is_settled() {
        tokio::select! {
            Some(done) = finished.recv() => controller.finished(done),
            () = &mut patience => break,
        }
    }
    let untold = controller.work.untold();
    Ok(LastWords { courier: controller.courier, untold, told: controller.events_told })
}

impl Controller {
    fn new(setup: Setup, done: mpsc::UnboundedSender<Done>) -> Controller {
        let Setup {
            client,
            namespaces,
            job_age_s_min,
            leadership,
            instance,
            log,
            metrics,
            health,
            filled,
        } = setup;
        let courier = Courier {
            client,
            leadership: leadership.clone(),
            metrics: Arc::clone(&metrics),
            instance,
        };
        Controller {
            catalogue: Catalogue::new(namespaces),
            due: BinaryHeap::new(),
            work: Work::default(),
            parser: TimingParser::new(),
            job_age_s_min,
            courier,
            leadership,
            claimant: None,
            log,
            metrics,
            health,
            done,
            pending: VecDeque::new(),
            pending_since: None,
            filled,
            begun: Instant::now(),
            leaps: Leaps::new(Instant::now(), clock::since_epoch()),
            events_told: 0,
            events_lost: 0,
        }
    }

    /// Begins to plan everything with a new term, and stops when it is over.
    fn follow_leadership(&mut self) {
        let tenure = self.leadership.tenure().filter(|_| self.leaps.is_believed());
        let claimant = tenure.map(|Tenure { claimant, .. }| claimant);
        if claimant == self.claimant {
            return;
        }
        self.work.clear();
        self.due.clear();
        self.catalogue.let_go();
        self.pending.clear();
        self.pending_since = None;
        self.claimant = claimant;
        if self.claimant.is_some() {
            self.look_at_all();
        }
    }

    /// Looks at every KronJob, those first that are next.
    fn look_at_all(&mut self) {
        let mut all = self.catalogue.identities();
        let chosen = |identity: &Arc<str>| {
            let entry = self.catalogue.get(identity)?;
            entry.kept.status.next.as_ref()?.chosen_time
        };
        all.sort_by_cached_key(|identity| chosen(identity).map_or(i64::MAX, UtcSecond::unix));
        self.pending = all.into();
        self.pending_since = Some(Instant::now());
    }

    /// Plans some of those that are to be looked at.
    fn plan_some(&mut self) {
        let Some(since) = self.pending_since else { return };
        let begun = Instant::now();
        for _ in 0..PLANS_AT_ONCE {
            // A long absence takes long to plan.
            if begun.elapsed() > PLANNING_MAX {
                break;
            }
            let Some(identity) = self.pending.pop_front() else { break };
            self.consider(&identity);
        }
        if self.pending.is_empty() {
            self.pending_since = None;
            let planned_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let fields =
                [("kronjobs", self.catalogue.len().into()), ("planned_ms", planned_ms.into())];
            self.log.info("planned", &fields);
        }
    }

    /// Says so when the wall clock was set.
    fn check_clock(&mut self) {
        let (event, leapt) = match self.leaps.compare(Instant::now(), clock::since_epoch()) {
            Some(Leap::Back(leapt)) => ("clock_set_back", leapt),
            Some(Leap::Ahead(leapt)) => ("clock_set_ahead", leapt),
            None => return,
        };
        self.log.warn(event, &[("seconds", leapt.as_secs().into())]);
    }

    fn changed(&mut self, change: Change) {
        let list = matches!(change, Change::ListRead(_));
        let is_kronjob = matches!(change, Change::KronJob(_));
        let touched = self.catalogue.take_in(change, &mut self.parser, clock::now());
        if list {
            self.check_filled();
            if self.claimant.is_some() && !touched.is_empty() {
                self.pending.extend(touched);
                self.pending_since.get_or_insert_with(Instant::now);
            }
            return;
        }
        for identity in touched {
            if is_kronjob {
                self.hear(&identity);
            }
            self.consider(&identity);
        }
    }

    /// Says when enough is read to lead: everything, or after a while what can be read.
    fn check_filled(&mut self) {
        if self.health.is_ready() {
            return;
        }
        let waited = self.begun.elapsed() > FILL_PATIENCE;
        if self.catalogue.is_filled() || (waited && self.catalogue.is_partly_filled()) {
            self.health.set_filled();
            self.filled.notify_one();
            let fields = [
                ("kronjobs", self.catalogue.len().into()),
                ("complete", self.catalogue.is_filled().into()),
            ];
            self.log.info("read", &fields);
        }
    }

    /// Looks at every KronJob whose second has come.
    fn wake_due(&mut self, now: UtcSecond) {
        let mut come = Vec::new();
        while self.due.peek().is_some_and(|Reverse((second, _))| *second <= now) {
            come.extend(self.due.pop().map(|Reverse(due)| due));
        }
        for (second, identity) in come {
            let entry = self.catalogue.get_mut(&identity);
            if let Some(entry) = entry.filter(|entry| entry.wake == Some(second)) {
                entry.wake = None;
                match entry.doing {
                    Doing::Waiting(Class::Foreground) | Doing::Sent => {
                        self.judge(&identity, now);
                    }
                    Doing::Nothing | Doing::Waiting(Class::Background) | Doing::Paused { .. } => {
                        self.consider(&identity);
                    }
                }
            }
        }
    }

    fn next_wake(&mut self) -> Option<UtcSecond> {
        loop {
            let Reverse((second, identity)) = self.due.peek()?;
            let entry = self.catalogue.get(identity);
            if entry.is_some_and(|entry| entry.wake == Some(*second)) {
                return Some(*second);
            }
            self.due.pop();
        }
    }

    /// Plans a KronJob, unless a step of it is under way, and notes what is to be done.
    fn consider(&mut self, identity: &Arc<str>) {
        let Some(claimant) = self.claimant.clone() else { return };
        let Some(entry) = self.catalogue.get(identity) else { return };
        match entry.doing {
            Doing::Nothing => self.act(identity, &claimant),
            Doing::Waiting(Class::Background) => self.promote(identity),
            // It is looked at when that is over.
            Doing::Waiting(Class::Foreground) | Doing::Sent | Doing::Paused { .. } => {}
        }
    }

    /// What is due is judged now, though something else must be answered first. The second for
    /// which something was chosen, if anything is due.
    fn judge(&mut self, identity: &Arc<str>, now: UtcSecond) -> Option<UtcSecond> {
        let claimant = self.claimant.clone()?;
        let Plan { step, wake, .. } = self.planned_as_of(identity, &claimant, now)?;
        self.wake_at(identity, wake.filter(|second| *second > now));
        let chosen = match step {
            Step::Store { urgent: Some(chosen), .. } => chosen,
            Step::Start { decision, .. } => decision.due(),
            Step::Store { urgent: None, .. } | Step::Rest => return None,
        };
        self.catalogue.get_mut(identity)?.judged.get_or_insert(now);
        Some(chosen)
    }

    /// Looks at a KronJob again at this second.
    fn wake_at(&mut self, identity: &Arc<str>, wake: Option<UtcSecond>) {
        let Some(entry) = self.catalogue.get_mut(identity) else { return };
        if entry.wake != wake
            && let Some(second) = wake
        {
            self.due.push(Reverse((second, Arc::clone(identity))));
        }
        entry.wake = wake;
    }

    /// A status waits to be stored, and now a start may wait for it.
    fn promote(&mut self, identity: &Arc<str>) {
        if let Some(chosen) = self.judge(identity, clock::now())
            && let Some(entry) = self.catalogue.get_mut(identity)
        {
            entry.doing = Doing::Waiting(Class::Foreground);
            self.work.urgent(chosen, Urgent::Claim(Arc::clone(identity)));
        }
    }

    fn act(&mut self, identity: &Arc<str>, claimant: &Arc<str>) {
        let now = clock::now();
        let Some(Plan { step, remove, wake }) = self.planned(identity, claimant) else { return };
        self.wake_at(identity, wake);
        let Some(entry) = self.catalogue.get_mut(identity) else { return };
        let judged_at = entry.judged.take().unwrap_or(now);
        match step {
            Step::Rest => {}
            Step::Store { urgent: Some(chosen), .. } => {
                // It was judged: that the claim takes a while does not make it late.
                entry.judged = Some(judged_at);
                entry.doing = Doing::Waiting(Class::Foreground);
                self.work.urgent(chosen, Urgent::Claim(Arc::clone(identity)));
            }
            Step::Store { urgent: None, .. } => {
                entry.doing = Doing::Waiting(Class::Background);
                self.work.store(Arc::clone(identity));
            }
            Step::Start { decision, replace } => {
                entry.doing = Doing::Waiting(Class::Foreground);
                let (generation, uid) = (entry.kept.generation, entry.kept.uid.clone());
                let replace = self.catalogue.names_of(identity, &replace);
                let chosen = decision.due();
                let start = Start {
                    identity: Arc::clone(identity),
                    decision,
                    replace,
                    generation,
                    claimant: Arc::clone(claimant),
                    uid,
                    judged_at,
                };
                self.work.urgent(chosen, Urgent::Start(Box::new(start)));
            }
        }
        for (name, uid) in self.catalogue.mark_removed(identity, &remove) {
            self.work.remove(Removal { identity: Arc::clone(identity), name, uid });
        }
    }

    /// The plan of a KronJob of which everything is read, as of when it was judged.
    fn planned(&self, identity: &Arc<str>, claimant: &str) -> Option<Plan> {
        let now = clock::now();
        let fresh = |judged: &UtcSecond| (0..=STALLED_S).contains(&now.since(*judged));
        let judged = self.catalogue.get(identity)?.judged.filter(fresh);
        self.planned_as_of(identity, claimant, judged.unwrap_or(now))
    }

    fn planned_as_of(
        &self,
        identity: &Arc<str>,
        claimant: &str,
        second: UtcSecond,
    ) -> Option<Plan> {
        let entry = self.catalogue.get(identity)?;
        if entry.kept.deleting || !self.catalogue.is_read(identity) {
            return None;
        }
        let jobs = self.catalogue.jobs_of(identity);
        Some(plan(&entry.subject(&jobs), claimant, self.job_age_s_min, second))
    }

    /// Sends as much of what waits as may be under way.
    fn dispatch(&mut self) {
        while let Some(item) = self.work.next() {
            match item {
                Item::Urgent(Urgent::Start(start)) => self.send_start(start),
                Item::Urgent(Urgent::Claim(identity)) => {
                    self.send_status(identity, Class::Foreground);
                }
                Item::Store(identity) => self.send_status(identity, Class::Background),
                Item::Remove(removal) => self.send_removal(removal),
                Item::Tell(telling) => self.send_event(telling),
            }
        }
    }

    fn send_start(&mut self, mut start: Box<Start>) {
        if start.replace.is_empty() || !self.is_current(&start) {
            self.make(start);
            return;
        }
        let replace = std::mem::take(&mut start.replace);
        if let Some(entry) = self.catalogue.get_mut(&start.identity) {
            entry.doing = Doing::Sent;
        }
        let (courier, done) = (self.courier.clone(), self.done.clone());
        let namespace = namespace_of(&start.identity).to_owned();
        tokio::spawn(async move {
            let mut removed = Vec::new();
            let mut refusal = None;
            for (name, uid) in replace {
                match courier.remove(&namespace, &name, &uid, &start.claimant).await {
                    Ok(()) => removed.push(name),
                    Err(error) => {
                        refusal = Some(error);
                        break;
                    }
                }
            }
            let _ = done.send(Done::Replaced { start, removed, refusal });
        });
    }

    /// Makes the Job of a start, unless it is overtaken.
    fn make(&mut self, start: Box<Start>) {
        if !self.is_current(&start) {
            // It was edited or removed meanwhile, waited for too long, or another leads.
            self.work.foreground_done(&start.identity, Answered::NotSent);
            if self.catalogue.same_mut(&start.identity, &start.uid).is_some() {
                self.give_up(&start.identity);
            }
            return;
        }
        let Some(entry) = self.catalogue.get_mut(&start.identity) else { return };
        let kept = &entry.kept;
        let Ok(definition) = &kept.definition else { return };
        let placement = definition.timing.placement();
        // It was read as JSON.
        let template: Value = serde_json::from_str(&kept.template).unwrap_or_default();
        let owner = job::Owner { namespace: &kept.namespace, name: &kept.name, uid: &kept.uid };
        let body = job::body(owner, &template, placement, &start.decision);
        self.log.decision(&DecisionEvent::of(placement, &start.decision));
        let namespace = kept.namespace.clone();
        entry.doing = Doing::Sent;
        let (courier, done) = (self.courier.clone(), self.done.clone());
        tokio::spawn(async move {
            let made = courier.make(&namespace, &start.uid, &body, &start.claimant).await;
            let _ = done.send(Done::Started { start, made: made.map(Box::new) });
        });
    }

    /// Whether a start is still what its KronJob has claimed in this term.
    fn is_current(&self, start: &Start) -> bool {
        let Some(entry) = self.catalogue.get(&start.identity) else { return false };
        let kept = &entry.kept;
        let claimed = kept.status.next.as_ref().is_some_and(|next| {
            next.period_id == start.decision.nominal
                && next.chosen_time == start.decision.chosen
                && next.claimed_by.as_deref() == Some(&start.claimant)
        });
        claimed
            && kept.uid == start.uid
            && kept.generation == start.generation
            && kept.definition.is_ok()
            && !kept.deleting
            && self.claimant.as_ref() == Some(&start.claimant)
            && (0..=STALLED_S).contains(&clock::now().since(start.judged_at))
    }

    /// Plans again, so that what is stored is the latest, and stores it.
    fn send_status(&mut self, identity: Arc<str>, class: Class) {
        let claimant = self.claimant.clone();
        let entry = self.catalogue.get_mut(&identity);
        let waiting = entry.filter(|entry| entry.doing == Doing::Waiting(class));
        let (Some(claimant), Some(entry)) = (claimant, waiting) else {
            self.answered(&identity, class, Answered::NotSent);
            return;
        };
        entry.doing = Doing::Nothing;
        let step = self.planned(&identity, &claimant).map(|plan| plan.step);
        let (Some(Step::Store { status, notes, .. }), Some(entry)) =
            (step, self.catalogue.get_mut(&identity))
        else {
            self.answered(&identity, class, Answered::NotSent);
            self.consider(&identity);
            return;
        };
        entry.doing = Doing::Sent;
        let doubtful = entry.doubtful(&status, &notes, &claimant);
        let kept = &entry.kept;
        let (namespace, name, uid) = (kept.namespace.clone(), kept.name.clone(), kept.uid.clone());
        let version = kept.version.clone();
        let (courier, done) = (self.courier.clone(), self.done.clone());
        tokio::spawn(async move {
            // Before a period is said not to have run that may have been made, its Job is asked
            // for.
            let looked = match doubtful.map(|period| job::name(&name, period)) {
                Some(job) => courier.look(&namespace, &uid, &job).await,
                None => Ok(None),
            };
            // One without its label would be recorded by nobody.
            let period = |job: &WatchedJob| job.seen().and_then(|seen| seen.job.period);
            let looked = looked.map(|job| job.filter(|job| period(job) == doubtful));
            let stored = match looked {
                Ok(Some(job)) => {
                    let job = Box::new(job);
                    let _ = done.send(Done::Found { identity, uid, class, job });
                    return;
                }
                Ok(None) => courier.store(&namespace, &name, &version, &status, &claimant).await,
                Err(refusal) => Err(refusal),
            };
            let (stored, fresh) = match stored {
                // Somebody changed it: what they made of it is asked for at once.
                Err(refusal) if matches!(refusal.code(), Some(404 | 409)) => {
                    let fresh = courier.fetch(&namespace, &name).await;
                    (Err(refusal), Some(fresh))
                }
                stored => (stored, None),
            };
            let fresh = fresh.map(Box::new);
            let _ = done.send(Done::Stored { identity, uid, class, status, notes, stored, fresh });
        });
    }

    fn send_removal(&mut self, removal: Removal) {
        let (courier, done) = (self.courier.clone(), self.done.clone());
        let Some(claimant) = self.claimant.clone() else {
            self.work.background_done();
            return;
        };
        let namespace = namespace_of(&removal.identity).to_owned();
        tokio::spawn(async move {
            let Removal { identity, name, uid } = removal;
            let removed = courier.remove(&namespace, &name, &uid, &claimant).await;
            let _ = done.send(Done::Removed { identity, uid, removed });
        });
    }

    fn send_event(&mut self, telling: Telling) {
        self.events_told += 1;
        let number = self.events_told;
        let (courier, done) = (self.courier.clone(), self.done.clone());
        tokio::spawn(async move {
            let told = courier.tell(&telling, number).await;
            let _ = done.send(Done::Told { told });
        });
    }

    /// Nothing is sent for this KronJob any more; it is looked at anew.
    fn give_up(&mut self, identity: &Arc<str>) {
        if let Some(entry) = self.catalogue.get_mut(identity) {
            entry.doing = Doing::Nothing;
            self.consider(identity);
        }
    }

    fn tell(&mut self, identity: &Arc<str>, notes: Vec<Note>) {
        let Some(entry) = self.catalogue.get(identity) else { return };
        let at_us = u64::try_from(clock::since_epoch().as_micros()).unwrap_or(u64::MAX);
        for note in notes {
            let kept = &entry.kept;
            self.work.tell(Telling {
                namespace: kept.namespace.clone(),
                name: kept.name.clone(),
                uid: kept.uid.clone(),
                note,
                at_us,
            });
        }
    }

    fn answered(&mut self, identity: &str, class: Class, answered: Answered) {
        match class {
            Class::Foreground => self.work.foreground_done(identity, answered),
            Class::Background => self.work.background_done(),
        }
    }

    /// Shows that the loop is alive, and how much there is to do.
    fn show(&mut self) {
        self.health.tick();
        self.check_filled();
        let [starts, statuses, removals, events] = self.work.depths();
        self.metrics.set_queue_depth(metrics::Queue::Due, self.due.len());
        self.metrics.set_queue_depth(metrics::Queue::Starts, starts);
        self.metrics.set_queue_depth(metrics::Queue::Statuses, statuses);
        self.metrics.set_queue_depth(metrics::Queue::Cleanup, removals);
        self.metrics.set_queue_depth(metrics::Queue::Events, events);
        let [valid, invalid, suspended] = self.catalogue.counts();
        self.metrics.set_kronjobs(metrics::State::Valid, valid);
        self.metrics.set_kronjobs(metrics::State::Invalid, invalid);
        self.metrics.set_kronjobs(metrics::State::Suspended, suspended);
        let lost = self.work.dropped;
        if lost > self.events_lost {
            self.log.warn("events_dropped", &[("count", (lost - self.events_lost).into())]);
            self.events_lost = lost;
        }
    }
}

#[cfg(test)]
mod tests;
