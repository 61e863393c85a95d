//! Jobs and their runs, as the database has them, and the state that people understand.

use rusqlite::Row;
use rusqlite::types::FromSql;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{GroupId, JobId, ReservationId, RunId, ScheduleId, TemplateId};
use crate::timestamp::Timestamp;

/// Makes an enum whose variants are words, in JSON and in the database.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// The word for it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::openapi::words(&[$($word),*])
            }
        }
        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}

        impl rusqlite::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(
                value: rusqlite::types::ValueRef<'_>,
            ) -> rusqlite::types::FromSqlResult<Self> {
                match value.as_str()? {
                    $($word => Ok($name::$variant),)*
                    _ => Err(rusqlite::types::FromSqlError::InvalidType),
                }
            }
        }
    };
}
pub(crate) use words;

/// A unit of work, which is executed at most once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Its name.
    pub job_id: JobId,
    /// The template it was made from.
    pub template_id: Option<TemplateId>,
    /// The schedule that made it.
    pub schedule_id: Option<ScheduleId>,
    /// The period of the schedule that made it.
    pub period_id: Option<String>,
    /// The group it belongs to.
    pub group_id: Option<GroupId>,
    /// Its place in the group.
    pub group_index: Option<i64>,
    /// What kind of work it is.
    pub job_type: String,
    /// What the work is told.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Value,
    /// The status of the persistence document; a finished job stays `RUNNING`.
    pub status: JobStatus,
    /// The state that people understand.
    pub state: JobState,
    /// Higher ones first.
    pub priority: i64,
    /// Lower ones first among the same priority.
    pub position: i64,
    /// The job it repeats.
    pub retry_of: Option<JobId>,
    /// How many jobs it repeats in all.
    pub attempt: u32,
    /// What was decided about a successor when it ended.
    pub retry_decision: Option<RetryDecision>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was put into the queue.
    pub queued_at: Timestamp,
    /// When it was claimed.
    pub started_at: Option<Timestamp>,
    /// When it ended, or was cancelled.
    pub finished_at: Option<Timestamp>,
    /// It is not claimed before.
    pub not_before: Option<Timestamp>,
    /// Who claimed it.
    pub worker_id: Option<String>,
    /// When somebody asked for its end while it ran.
    pub cancel_requested_at: Option<Timestamp>,
    /// The key under which it was enqueued.
    pub idempotency_key: Option<String>,
}

words! {
    /// The status of a job in the persistence document.
    JobStatus {
        /// It waits.
        Queued = "QUEUED",
        /// It was claimed; it is running only as long as `finished_at` is absent.
        Running = "RUNNING",
        /// It was cancelled.
        Cancelled = "CANCELLED",
    }
}

words! {
    /// The state of a job, derived from its row and its run's.
    JobState {
        /// It can be claimed.
        Queued = "queued",
        /// It waits for its time.
        Delayed = "delayed",
        /// It waits for its group's turn.
        Blocked = "blocked",
        /// It runs.
        Running = "running",
        /// It ended well.
        Completed = "completed",
        /// It ended badly.
        Failed = "failed",
        /// It ended without having anything to do, or was passed over.
        Skipped = "skipped",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

words! {
    /// What was decided about the successor of a job.
    RetryDecision {
        /// It needs none.
        None = "none",
        /// It has one.
        Retried = "retried",
        /// It failed too often.
        Exhausted = "exhausted",
        /// It was lost to crashes too often.
        LostExhausted = "lost_exhausted",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// Its caller has the result and decides.
        Direct = "direct",
    }
}

words! {
    /// How a run ended.
    RunStatus {
        /// Well.
        Completed = "COMPLETED",
        /// Badly.
        Failed = "FAILED",
        /// There was nothing to do.
        Skipped = "SKIPPED",
    }
}

/// The execution of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobRun {
    /// Its name.
    pub run_id: RunId,
    /// The job that it executes.
    pub job_id: JobId,
    /// The job's template.
    pub template_id: Option<TemplateId>,
    /// What the work was told.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params_snapshot: Value,
    /// How it ended; absent until then.
    pub status: Option<RunStatus>,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The exit code of the process.
    pub exit_code: Option<i64>,
    /// What went wrong.
    pub error: Option<String>,
    /// What it produced.
    pub artifacts: Vec<Artifact>,
    /// Where its output is.
    pub log_path: Option<String>,
    /// Who claimed it.
    pub worker_id: String,
    /// Its supervising process.
    pub process: Option<ProcessIdentity>,
    /// The command that is supervised, which may outlive its supervisor.
    pub command: Option<ProcessIdentity>,
    /// The reservation under which it runs, if it runs directly.
    pub reservation_id: Option<ReservationId>,
    /// Whether its end was found by recovery and not reported.
    pub lost: bool,
}

/// A file that a run produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Artifact {
    /// Where it is.
    pub path: String,
    /// How long it is.
    pub size_bytes: u64,
    /// The SHA-256 of its bytes, as lowercase hex.
    pub sha256: String,
}

/// A process that no other can be taken for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProcessIdentity {
    /// The boot it belongs to.
    pub boot_id: String,
    /// Its number.
    pub pid: i64,
    /// When it started, in clock ticks after the boot.
    pub start_ticks: i64,
}

/// What [`Job::from_row`] reads, in its order, and the key of the order of insertion.
pub(crate) const JOB_COLUMNS: &str = "j.job_id, j.template_id, j.schedule_id, j.period_id, \
    j.group_id, j.group_index, j.job_type, j.params, j.status, j.priority, j.position, j.retry_of, \
    j.attempt, j.retry_decision, j.created_at, j.queued_at, j.started_at, j.finished_at, \
    j.not_before, j.worker_id, j.cancel_requested_at, j.idempotency_key, j.hold, \
    (SELECT status FROM job_runs WHERE job_id = j.job_id), j.seq";

/// What [`JobRun::from_row`] reads, in its order.
pub(crate) const RUN_COLUMNS: &str = "run_id, job_id, template_id, params_snapshot, status, \
    started_at, finished_at, exit_code, error, artifacts, log_path, worker_id, boot_id, pid, \
    start_ticks, command_pid, command_start_ticks, reservation_id, lost";

words! {
    /// Why a queued job may not be claimed.
    Hold {
        /// Its time has not come.
        Delay = "delay",
        /// Its group's turn has not come.
        Group = "group",
    }
}

impl Job {
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Job> {
        let mut columns = Columns { row, next: 0 };
        let mut job = Job {
            job_id: columns.take()?,
            template_id: columns.take()?,
            schedule_id: columns.take()?,
            period_id: columns.take()?,
            group_id: columns.take()?,
            group_index: columns.take()?,
            job_type: columns.take()?,
            params: columns.json()?,
            status: columns.take()?,
            state: JobState::Queued,
            priority: columns.take()?,
            position: columns.take()?,
            retry_of: columns.take()?,
            attempt: columns.take()?,
            retry_decision: columns.take()?,
            created_at: columns.take()?,
            queued_at: columns.take()?,
            started_at: columns.take()?,
            finished_at: columns.take()?,
            not_before: columns.take()?,
            worker_id: columns.take()?,
            cancel_requested_at: columns.take()?,
            idempotency_key: columns.take()?,
        };
        let (hold, run): (Option<Hold>, Option<RunStatus>) = (columns.take()?, columns.take()?);
        job.state = derive(job.status, hold, job.finished_at, run);
        Ok(job)
    }
}

fn derive(
    status: JobStatus,
    hold: Option<Hold>,
    finished_at: Option<Timestamp>,
    run: Option<RunStatus>,
) -> JobState {
    match (status, hold, finished_at, run) {
        (JobStatus::Queued, None, ..) => JobState::Queued,
        (JobStatus::Queued, Some(Hold::Delay), ..) => JobState::Delayed,
        (JobStatus::Queued, Some(Hold::Group), ..) => JobState::Blocked,
        (JobStatus::Running, _, None, _) => JobState::Running,
        (JobStatus::Running, _, Some(_), Some(RunStatus::Completed)) => JobState::Completed,
        (JobStatus::Running, _, Some(_), Some(RunStatus::Skipped)) => JobState::Skipped,
        (JobStatus::Running, _, Some(_), Some(RunStatus::Failed) | None) => JobState::Failed,
        (JobStatus::Cancelled, ..) => JobState::Cancelled,
    }
}

impl JobRun {
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<JobRun> {
        let mut columns = Columns { row, next: 0 };
        let command;
        Ok(JobRun {
            run_id: columns.take()?,
            job_id: columns.take()?,
            template_id: columns.take()?,
            params_snapshot: columns.json()?,
            status: columns.take()?,
            started_at: columns.take()?,
            finished_at: columns.take()?,
            exit_code: columns.take()?,
            error: columns.take()?,
            artifacts: columns.json()?,
            log_path: columns.take()?,
            worker_id: columns.take()?,
            process: {
                let (boot_id, pid, start_ticks): (Option<String>, Option<i64>, Option<i64>) =
                    (columns.take()?, columns.take()?, columns.take()?);
                let (command_pid, command_ticks): (Option<i64>, Option<i64>) =
                    (columns.take()?, columns.take()?);
                let identity =
                    |(boot_id, (pid, start_ticks))| ProcessIdentity { boot_id, pid, start_ticks };
                command = boot_id.clone().zip(command_pid.zip(command_ticks)).map(identity);
                boot_id.zip(pid.zip(start_ticks)).map(identity)
            },
            command,
            reservation_id: columns.take()?,
            lost: columns.take()?,
        })
    }
}

/// Reads the columns of a row one after the other.
pub(crate) struct Columns<'r, 's> {
    pub(crate) row: &'r Row<'s>,
    pub(crate) next: usize,
}

impl Columns<'_, '_> {
    pub(crate) fn take<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    /// A period's nominal time, or another whole second.
    pub(crate) fn second(&mut self) -> rusqlite::Result<Option<kron_core::UtcSecond>> {
        let at = self.next;
        let text: Option<String> = self.take()?;
        text.map(|text| {
            kron_core::UtcSecond::parse(&text).map_err(|finding| {
                rusqlite::Error::FromSqlConversionFailure(
                    at,
                    rusqlite::types::Type::Text,
                    finding.message.into(),
                )
            })
        })
        .transpose()
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&mut self) -> rusqlite::Result<T> {
        let at = self.next;
        self.next += 1;
        let text = self.row.get_ref(at)?.as_str()?;
        serde_json::from_str(text).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(
                at,
                rusqlite::types::Type::Text,
                Box::new(error),
            )
        })
    }

    pub(crate) fn json_or_none<T: serde::de::DeserializeOwned>(
        &mut self,
    ) -> rusqlite::Result<Option<T>> {
        if matches!(self.row.get_ref(self.next)?, rusqlite::types::ValueRef::Null) {
            self.next += 1;
            return Ok(None);
        }
        self.json().map(Some)
    }
}
