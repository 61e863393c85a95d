//! Kron's durable job queue: a database with the rules of a queue.
//!
//! An acknowledgement means something here: when [`Queue::call`] returns a job, the job is on the
//! disk. A job is executed at most once; a retry is a new job; the queue's order depends on nothing
//! but the database. The rules that must never be broken are kept by the database itself, with
//! constraints and triggers, so that no program and no shell can break them by accident.
//!
//! This crate is the database and its rules and nothing else: it starts no process, opens no
//! socket and never asks the time. Whatever changes the queue is an [`Operation`], a plain value
//! with the time in it; [`Queue::call`] carries it out and waits, [`Queue::submit`] does not wait.
//!
//! | piece | what it is |
//! |---|---|
//! | [`Queue`] | the handle: one writer thread, a few readers |
//! | [`Enqueue`], [`Edit`], [`Move`], [`SetPriority`], [`Normalise`] | the queue and its order |
//! | [`Claim`], [`AttachProcess`], [`Finish`], [`Cancel`], [`Retry`] | the life of a run |
//! | [`Recover`] | what an earlier daemon left behind |
//! | [`Reserve`], [`StartDirect`], [`Renew`], [`Release`] | direct execution |
//! | [`SetPause`], [`Resume`], [`SetRules`] | what may run |
//! | [`CreateGroup`] | jobs that belong together |
//! | [`CreateTemplate`], [`CreateSchedule`], [`TriggerSchedules`] and relatives | jobs made by the clock |
//! | [`Queue::statistics`], [`Purge`] | numbers, and the end of what is old |
//! | [`ClaimDeliveries`], [`FinishDelivery`] | webhooks |

mod cancel;
mod cancel_group;
mod change;
mod claim;
mod database;
mod enqueue;
mod error;
mod finish;
mod group;
mod id;
mod input;
mod jobs;
pub mod limits;
mod model;
#[cfg(feature = "openapi")]
mod openapi;
mod order;
mod outbox;
mod page;
mod patch;
mod pause;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod power_cut_tests;
mod purge;
mod queue;
mod readers;
mod recovery;
mod reservation;
mod retry;
mod rules;
mod runs;
mod schedule;
mod statistics;
mod template;
mod timestamp;
mod trigger;
mod writer;

pub use cancel::{Cancel, CancelOutcome, Edit};
pub use cancel_group::{CancelGroup, CancelledGroup, GroupError};
pub use change::{Change, Interest};
pub use claim::{AttachProcess, Claim, Claimed, ClaimedRun, Idle, RunError};
pub use enqueue::{Enqueue, EnqueueError, Enqueued, NewJob};
pub use error::StoreError;
pub use finish::{CANCELLED_ERROR, Finish, Finished, Outcome, RunEnd};
pub use group::{CreateGroup, Group, GroupMember, GroupMode, GroupStatus, OnFailure};
pub use id::{
    ClaimToken, DeliveryId, Entropy, GroupId, JobId, KernelEntropy, ReservationId, RunId,
    ScheduleId, TemplateId,
};
pub use input::Invalid;
pub use jobs::JobFilter;
pub use model::{
    Artifact, Hold, Job, JobRun, JobState, JobStatus, ProcessIdentity, RetryDecision, RunStatus,
};
pub use order::{Move, Normalise, OrderError, Place, SetPriority};
pub use outbox::{
    ClaimDeliveries, ClaimDelivery, Delivery, DeliveryAttempt, DeliveryError, DeliveryRecord,
    DeliveryStatus, FinishDelivery, NextDelivery,
};
pub use page::{Cursor, Page, ReadError};
pub use patch::{PatchSchedule, PatchTemplate, SchedulePatch, TemplatePatch};
pub use pause::{Pause, PauseError, Resume, SetPause};
pub use purge::{Purge, Purged};
pub use queue::Queue;
pub use recovery::{CRASH_ERROR, Liveness, Recover, Recovered};
pub use reservation::{
    Release, Renew, Reservation, ReservationError, ReservationStatus, Reserve, StartDirect,
};
pub use retry::Retry;
pub use rules::{RetryPolicy, Rules, SetRules, Webhook};
pub use runs::{RunFilter, RunState};
pub use schedule::{
    CreateSchedule, DeleteSchedule, Schedule, ScheduleSettings, Upcoming, UpdateSchedule,
};
pub use statistics::{Statistics, TypeStatistics};
pub use template::{
    CreateTemplate, DefinitionError, DeleteTemplate, Template, TemplateSettings, UpdateTemplate,
};
pub use timestamp::{Timestamp, TimestampError};
pub use trigger::{PeriodOutcome, PeriodRecord, TriggerSchedules, Triggered};
pub use writer::{AreaError, Context, Operation, Prepared};
