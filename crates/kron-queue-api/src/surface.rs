//! What the API needs of the daemon around it.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use kron_queue::{EnqueueError, Invalid, Job, JobRun, Queue, Reservation, StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the API needs of the daemon around it.
#[derive(Clone)]
pub struct Surface {
    /// The queue.
    pub queue: Queue,
    /// Beneath it are the logs and artifacts of runs; nothing outside it is ever opened.
    pub state_dir: PathBuf,
    /// Who runs jobs.
    pub executor: Arc<dyn Executor>,
    /// Who knows the time.
    pub clock: Arc<dyn Clock>,
}

/// Who knows the time.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;
}

/// The answer to a direct run, some time.
pub type Directly = Pin<Box<dyn Future<Output = Result<DirectAnswer, DirectRefusal>> + Send>>;

/// Who runs jobs.
pub trait Executor: Send + Sync {
    /// Runs a job directly; answers when it has ended, or why it was not run. When the caller goes
    /// away the future is dropped, and what that means for the run is the executor's to say.
    fn direct(&self, request: DirectRequest) -> Directly;

    /// The configured handlers.
    fn handlers(&self) -> Vec<HandlerView>;

    /// How many jobs run at once.
    fn workers_max(&self) -> u32;
}

/// A job that is to be run at once, and answered with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectRequest {
    /// What kind of work it is.
    pub job_type: String,
    /// What the work is told: an object, not yet checked otherwise.
    pub params: Value,
    /// How long it may wait for its slot.
    pub wait_ms: i64,
    /// How long it may take; the handler's own limit if absent.
    pub timeout_ms: Option<i64>,
    /// For whom the slot is reserved.
    pub reserved_by: String,
}

/// A direct run that has ended, however.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DirectAnswer {
    /// The job.
    pub job: Job,
    /// Its run.
    pub run: JobRun,
}

/// Why nothing was run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DirectRefusal {
    /// No slot became free in time.
    #[error("no slot became free within the time that was given")]
    Busy {
        /// Who has it reserved, if somebody has.
        reservation: Option<Reservation>,
    },
    /// Nothing is configured for the type.
    #[error("there is no handler for type `{job_type}`")]
    NoHandler {
        /// The type.
        job_type: String,
    },
    /// Something is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The job cannot be made.
    #[error(transparent)]
    Enqueue(EnqueueError),
    /// The daemon is leaving.
    #[error("the daemon is stopping and starts nothing more")]
    Stopping,
    /// The run could not be begun or ended for a reason of the machine's.
    #[error("the job could not be run: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is configured for a type of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HandlerView {
    /// The type.
    pub job_type: String,
    /// What runs it, such as `command` or `http`.
    pub kind: String,
    /// Runs at once; no limit of its own if absent.
    pub concurrency_max: Option<u32>,
    /// How long a run may take; for ever if absent.
    pub timeout_ms: Option<u64>,
    /// Retries after the original.
    pub retries_max: u32,
}
