//! Telling hooks what became of periods, at least once.
//!
//! What a hook is to be told is written with the outcome it is about, in the same write. Only when
//! that is durable is it told, and only when it was told is it removed; an attempt that fails is
//! followed by another after a pause, for as long as the hook says. A crash in between means that
//! it is told again, under the same id.

use std::sync::Arc;
use std::time::Duration;

use kron_config::{Hook, HookEvent};
use kron_core::{Category, Outcome};
use kron_state::{Change, Delivery, DeliveryId, Ending, ExitStatus, HistoryEntry};

use super::event::{Entry, Level, Now, Rank, Ticket};
use super::job::JobIndex;
use super::{Action, Machine, Pending, Timer};

/// Deliveries of one job that may wait. A hook that cannot be told must not fill the disk.
const DELIVERIES_MAX: usize = 100;
/// The first pause before a failed delivery is tried again; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(10);
/// The longest such pause.
const RETRY_LONGEST: Duration = Duration::from_secs(600);

/// A delivery on its way.
#[derive(Debug)]
pub(super) struct Underway {
    job: JobIndex,
    delivery: Arc<Delivery>,
    attempts: u32,
}

/// What a run that ended so is told as.
pub(super) fn event_of(ending: Ending, status: Option<ExitStatus>) -> HookEvent {
    match (ending, status) {
        (Ending::Exited, Some(ExitStatus::ExitCode(0))) | (Ending::HandedOver, _) => {
            HookEvent::Succeeded
        }
        (Ending::Exited | Ending::Signalled, _) => HookEvent::Failed,
        (Ending::TimedOut, _) => HookEvent::TimedOut,
        (Ending::Replaced, _) => HookEvent::Replaced,
        (Ending::Stopped, _) => HookEvent::Stopped,
        (Ending::Lost, _) => HookEvent::Lost,
    }
}

/// What a change records, as hooks are told, and of how many periods.
pub(crate) fn told_as(change: &Change) -> Option<(HookEvent, u64)> {
    match change {
        Change::Finish { ending, status, .. } => Some((event_of(*ending, *status), 1)),
        Change::HandOver { .. } => Some((HookEvent::Succeeded, 1)),
        Change::Handle { outcome, stretch, .. } => {
            Some((event_of_outcome(*outcome), stretch.map_or(1, |(_, count)| count)))
        }
        _ => None,
    }
}

/// What a period that did not run is told as.
pub(super) fn event_of_outcome(outcome: Outcome) -> HookEvent {
    match outcome {
        Outcome::Missed => HookEvent::Missed,
        Outcome::Skipped => HookEvent::Skipped,
        Outcome::Unschedulable => HookEvent::Unschedulable,
        Outcome::Executed => HookEvent::Succeeded,
    }
}

impl Machine {
    pub(super) fn set_hooks(&mut self, hooks: Vec<Hook>) {
        self.hooks = hooks.into_iter().map(Arc::new).collect();
    }

    /// Takes in what an earlier daemon had still to tell.
    pub(super) fn recall_deliveries(&mut self, index: JobIndex, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            let id = delivery.id;
            self.jobs[index.at()].deliveries.push(id);
            let underway = Underway { job: index, delivery: Arc::new(delivery), attempts: 0 };
            self.deliveries.insert(id, underway);
        }
    }

    /// Tells what an earlier daemon had still to tell.
    pub(super) fn deliver_recalled(&mut self) {
        let ids: Vec<DeliveryId> = self.deliveries.keys().copied().collect();
        ids.into_iter().for_each(|id| self.deliver(id));
    }

    /// The changes that let hooks be told of `entry`, to be written with it.
    pub(super) fn notify(
        &mut self,
        now: Now,
        index: JobIndex,
        event: HookEvent,
        entry: &HistoryEntry,
    ) -> Vec<Change> {
        let identity = self.jobs[index.at()].identity.clone();
        let wanted = self.hooks.iter().filter(|hook| hook.wants(event, &identity));
        let names: Vec<Box<str>> = wanted.map(|hook| hook.name.as_str().into()).collect();
        let mut changes = Vec::new();
        for hook in names {
            let id = DeliveryId::from_bits(self.random.next());
            let delivery = Delivery {
                id,
                hook,
                event: event.as_str().into(),
                since: now.wall,
                entry: entry.clone(),
            };
            changes.push(Change::Notify(Box::new(delivery.clone())));
            self.jobs[index.at()].deliveries.push(id);
            let underway = Underway { job: index, delivery: Arc::new(delivery), attempts: 0 };
            self.deliveries.insert(id, underway);
        }
        while self.jobs[index.at()].deliveries.len() > DELIVERIES_MAX {
            let oldest = self.jobs[index.at()].deliveries[0];
            let why = format!("more than {DELIVERIES_MAX} of this job wait");
            changes.extend(self.give_up(oldest, &why));
        }
        changes
    }

    /// What is in these changes may be told once they are durable.
    pub(super) fn deliver_after(&mut self, ticket: Ticket, changes: &[Change]) {
        let ids: Vec<DeliveryId> = changes
            .iter()
            .filter_map(|change| match change {
                Change::Notify(delivery) => Some(delivery.id),
                _ => None,
            })
            .collect();
        if !ids.is_empty() {
            self.undelivered.insert(ticket, ids);
        }
    }

    pub(super) fn deliver_durable(&mut self, ticket: Ticket) {
        for id in self.undelivered.remove(&ticket).unwrap_or_default() {
            self.deliver(id);
        }
    }

    /// Has a hook told, if there is still such a hook.
    pub(super) fn deliver(&mut self, id: DeliveryId) {
        let Some(underway) = self.deliveries.get(&id) else { return };
        let delivery = underway.delivery.clone();
        let job = underway.job;
        let hook = self.hooks.iter().find(|hook| *hook.name == *delivery.hook).cloned();
        match hook {
            Some(hook) => {
                let identity = self.jobs[job.at()].identity.clone();
                self.push(Action::Deliver { identity, hook, delivery });
            }
            None => {
                let changes = self.give_up(id, "there is no such hook any more");
                self.commit(job, changes, Rank::Background, Pending::Recorded);
                self.forget_if_removed(job);
            }
        }
    }

    /// An attempt to tell a hook is over.
    pub(super) fn delivered(&mut self, now: Now, id: DeliveryId, result: Result<(), String>) {
        let Some(underway) = self.deliveries.get_mut(&id) else { return };
        underway.attempts += 1;
        let (job, attempts) = (underway.job, underway.attempts);
        let delivery = underway.delivery.clone();
        let about = |level, event| {
            Entry::new(level, event)
                .period(&delivery.entry.period)
                .with("hook", &*delivery.hook)
                .with("hook_event", &*delivery.event)
                .shown("delivery_id", id)
                .with("attempts", attempts)
        };
        let identity = self.jobs[job.at()].identity.clone();
        let Err(message) = result else {
            self.log(about(Level::Info, "notified").of(&identity));
            self.forget_delivery(id);
            self.commit(job, vec![Change::Delivered(id)], Rank::Background, Pending::Recorded);
            self.forget_if_removed(job);
            return;
        };
        let entry = about(Level::Warn, "notification_failed").of(&identity);
        self.log(entry.error(Category::System, "tell hook", &message));
        let hook = self.hooks.iter().find(|hook| *hook.name == *delivery.hook);
        let patience = hook.map_or(0, |hook| hook.retry_for.get_signed());
        // A clock that is not believed does not say that the time is over.
        if !self.clock.is_held() && now.wall.since(delivery.since) >= patience {
            let changes = self.give_up(id, "it could not be told in time");
            self.commit(job, changes, Rank::Background, Pending::Recorded);
            self.forget_if_removed(job);
            return;
        }
        let pause = RETRY_FIRST.saturating_mul(1 << (attempts - 1).min(16)).min(RETRY_LONGEST);
        self.timers.insert((now.boot + pause, Timer::Deliver(id)));
    }

    /// Tells a hook no more, which is told.
    fn give_up(&mut self, id: DeliveryId, why: &str) -> Vec<Change> {
        let Some(underway) = self.deliveries.get(&id) else { return Vec::new() };
        let delivery = underway.delivery.clone();
        let identity = self.jobs[underway.job.at()].identity.clone();
        self.log(
            Entry::new(Level::Error, "notification_dropped")
                .of(&identity)
                .period(&delivery.entry.period)
                .with("hook", &*delivery.hook)
                .with("hook_event", &*delivery.event)
                .shown("delivery_id", id)
                .error(Category::System, "tell hook", why),
        );
        self.forget_delivery(id);
        vec![Change::Delivered(id)]
    }

    fn forget_delivery(&mut self, id: DeliveryId) {
        if let Some(underway) = self.deliveries.remove(&id) {
            self.jobs[underway.job.at()].deliveries.retain(|other| *other != id);
        }
    }
}
