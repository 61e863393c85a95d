//! What has just changed, for those in this process who want to know.
//!
//! Told after the commit, in the order of the changes. It is news, not a record: who needs to know
//! for certain reads the database.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use crate::id::{GroupId, JobId, ReservationId, RunId, ScheduleId, TemplateId};

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A job was enqueued.
    Enqueued {
        /// Which.
        job_id: JobId,
    },
    /// A queued job has another place, priority or time.
    Moved {
        /// Which.
        job_id: JobId,
    },
    /// A run began.
    Started {
        /// Of which job.
        job_id: JobId,
        /// Which run.
        run_id: RunId,
    },
    /// A run ended.
    Finished {
        /// Of which job.
        job_id: JobId,
        /// Which run.
        run_id: RunId,
    },
    /// A running job is to be ended.
    CancelRequested {
        /// Which.
        job_id: JobId,
    },
    /// A job was cancelled.
    Cancelled {
        /// Which.
        job_id: JobId,
    },
    /// Positions were assigned anew.
    Normalised,
    /// The queue or a type was paused or resumed.
    Pauses,
    /// A reservation was made, renewed or ended.
    Reservation {
        /// Which.
        reservation_id: ReservationId,
    },
    /// A template was made, changed or deleted.
    Template {
        /// Which.
        template_id: TemplateId,
    },
    /// A schedule was made, changed, triggered or deleted.
    Schedule {
        /// Which.
        schedule_id: ScheduleId,
    },
    /// A group was made.
    Group {
        /// Which.
        group_id: GroupId,
    },
    /// There is something to deliver.
    Webhook,
    /// Old jobs were removed.
    Purged,
    /// The receiver was too slow, and this many changes or more are missing here.
    Lagged,
}

type Observer = Box<dyn FnMut(&[Change]) -> Interest + Send>;

/// Whether an observer wants to hear more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Yes.
    More,
    /// No; it is not called again.
    Over,
}

/// Everybody who wants to know.
#[derive(Default)]
pub(crate) struct Observers(Mutex<Vec<Observer>>);

impl Observers {
    pub(crate) fn add(&self, observer: Observer) {
        self.lock().push(observer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn tell(&self, changes: &[Change]) {
        if !changes.is_empty() {
            self.lock().retain_mut(|observer| observer(changes) == Interest::More);
        }
    }

    /// Receives changes through a channel that never holds the writer up.
    pub(crate) fn subscribe(&self, changes_max: usize) -> Receiver<Change> {
        let (sender, receiver) = sync_channel(changes_max.max(1));
        let mut lagged = false;
        self.add(Box::new(move |changes| forward(&sender, changes, &mut lagged)));
        receiver
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Observer>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn forward(sender: &SyncSender<Change>, changes: &[Change], lagged: &mut bool) -> Interest {
    for change in changes {
        if *lagged {
            match sender.try_send(Change::Lagged) {
                Ok(()) => *lagged = false,
                Err(TrySendError::Full(_)) => return Interest::More,
                Err(TrySendError::Disconnected(_)) => return Interest::Over,
            }
        }
        match sender.try_send(*change) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => *lagged = true,
            Err(TrySendError::Disconnected(_)) => return Interest::Over,
        }
    }
    Interest::More
}
