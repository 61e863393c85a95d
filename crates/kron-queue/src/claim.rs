//! Dispatch: the claim that takes the first job that may run and makes its run.
//!
//! Reservations, pauses, limits and times filter; they never reorder. Whatever is in the way, a
//! claim looks only at the beginning of an index: jobs whose time or turn has not come are not in
//! it, and when types are closed it looks at the first job of each open one.
//!
//! Jobs whose time has come are let into the index before a claim chooses, all of them, because any
//! of them may be the first; but only so many in one transaction, so that nobody waits long behind
//! a claim when very many are due at once.
//!
//! **Invariant:** a run is inserted and its job becomes RUNNING in one statement, or neither.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension as _, params};

use crate::change::Change;
use crate::error::{StoreError, area_error};
use crate::id::{ClaimToken, JobId, ReservationId, RunId};
use crate::input::{self, Invalid};
use crate::limits::{PATH_BYTES_MAX, RELEASES_PER_COMMIT_MAX};
use crate::model::{JOB_COLUMNS, Job, JobRun, JobState, JobStatus, ProcessIdentity, RUN_COLUMNS};
use crate::outbox;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation, Prepared};

/// Claims the first job that may run.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who claims.
    pub worker_id: String,
    /// The time.
    pub now: Timestamp,
}

/// What a claim found.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// A job that is this worker's to run.
    Run(Box<ClaimedRun>),
    /// Nothing, and why.
    Nothing(Idle),
}

/// A run, and the proof that it was claimed.
#[derive(Clone, Debug)]
pub struct ClaimedRun {
    /// The job.
    pub job: Job,
    /// Its run.
    pub run: JobRun,
    /// Whoever has it may end the run.
    pub token: ClaimToken,
}

/// Why there is nothing to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The next slot is reserved for direct execution.
    Reserved(ReservationId),
    /// The queue is paused.
    Paused {
        /// Why.
        reason: String,
    },
    /// As much runs as may.
    WorkersBusy,
    /// Jobs wait, of types that are paused, that nobody handles, or of which as much runs as may.
    TypesClosed {
        /// When the time of the next one comes, if one waits for its time.
        next_at: Option<Timestamp>,
    },
    /// No job may run now.
    Empty {
        /// When the time of the next one comes, if one waits for its time.
        next_at: Option<Timestamp>,
    },
}

/// Why a run could not be claimed or ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// Something is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such job.
    #[error("there is no job `{0}`")]
    NoJob(JobId),
    /// There is no such run.
    #[error("there is no run `{0}`")]
    NoRun(RunId),
    /// The run was claimed by somebody else.
    #[error("the claim token is not that of run `{0}`")]
    WrongToken(RunId),
    /// The run has ended.
    #[error("run `{0}` has ended already")]
    RunEnded(RunId),
    /// The job has ended.
    #[error("job `{0}` has ended already")]
    JobEnded(JobId),
    /// The job has not ended.
    #[error("job `{0}` has not ended")]
    JobNotEnded(JobId),
    /// The job was retried already.
    #[error("job `{0}` was retried already")]
    Retried(JobId),
    /// The job has been claimed, and cannot be changed any more.
    #[error("job `{0}` is not queued")]
    NotQueued(JobId),
    /// Another process was recorded for the run.
    #[error("run `{0}` has a process already")]
    ProcessKnown(RunId),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
area_error!(RunError);

impl RunError {
    /// The word that stands for it in answers to programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            RunError::Invalid(invalid) => invalid.code(),
            RunError::NoJob(_) => "no-job",
            RunError::NoRun(_) => "no-run",
            RunError::WrongToken(_) => "wrong-token",
            RunError::RunEnded(_) => "run-ended",
            RunError::JobEnded(_) => "job-ended",
            RunError::JobNotEnded(_) => "job-not-ended",
            RunError::Retried(_) => "retried",
            RunError::NotQueued(_) => "not-queued",
            RunError::ProcessKnown(_) => "process-known",
            RunError::Store(error) => error.code(),
        }
    }
}

/// The first job that may run, of all types.
pub(crate) const HEAD_SQL: &str = "SELECT seq, job_type FROM jobs WHERE status = 'QUEUED' \
    AND hold IS NULL ORDER BY priority DESC, position, created_at, seq LIMIT 1";
/// The first job of one type that may run.
pub(crate) const HEAD_OF_TYPE_SQL: &str = "SELECT priority, position, created_at, seq FROM jobs \
    WHERE status = 'QUEUED' AND hold IS NULL AND job_type = ?1 \
    ORDER BY priority DESC, position, created_at, seq LIMIT 1";
/// The next type of which jobs may run.
pub(crate) const NEXT_TYPE_SQL: &str = "SELECT job_type FROM jobs WHERE status = 'QUEUED' \
    AND hold IS NULL AND job_type > ?1 ORDER BY job_type LIMIT 1";
/// Lets some jobs whose time has come into the index of those that may run.
pub(crate) const RELEASE_DELAYED_SQL: &str = "UPDATE jobs SET hold = NULL WHERE seq IN ( \
    SELECT seq FROM jobs WHERE status = 'QUEUED' AND hold = 'delay' AND not_before <= ?1 \
    ORDER BY not_before LIMIT ?2)";
/// How much runs, by type.
pub(crate) const ACTIVE_SQL: &str = "SELECT job_type, count(*) FROM jobs \
    WHERE status = 'RUNNING' AND finished_at IS NULL GROUP BY job_type";
/// When the next delayed job's time comes.
pub(crate) const NEXT_DELAYED_SQL: &str = "SELECT not_before FROM jobs WHERE status = 'QUEUED' \
    AND hold = 'delay' ORDER BY not_before LIMIT 1";

impl Operation for Claim {
    type Output = Claimed;
    type Error = RunError;

    /// Lets delayed jobs in whose time has come.
    fn prepare(&self, context: &mut Context<'_>) -> Result<Prepared, RunError> {
        if next_delayed(context)?.is_none_or(|time| time > self.now) {
            return Ok(Prepared::Ready);
        }
        let released = context
            .db
            .prepare_cached(RELEASE_DELAYED_SQL)?
            .execute(params![self.now, RELEASES_PER_COMMIT_MAX as i64])?;
        Ok(if released < RELEASES_PER_COMMIT_MAX { Prepared::Ready } else { Prepared::More })
    }

    fn execute(self, context: &mut Context<'_>) -> Result<Claimed, RunError> {
        input::name("worker_id", &self.worker_id)?;
        if let Some(id) = crate::reservation::active_after_expiry(context, self.now)? {
            return Ok(Claimed::Nothing(Idle::Reserved(id)));
        }
        let seq = match choose(context)? {
            Ok(seq) => seq,
            Err(idle) => return Ok(Claimed::Nothing(idle)),
        };
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs j WHERE j.seq = ?1");
        let job = context.db.prepare_cached(&sql)?.query_row([seq], Job::from_row)?;
        let claimed = begin(context, job, &self.worker_id, None, self.now)?;
        Ok(Claimed::Run(Box::new(claimed)))
    }
}

/// The job whose turn it is, or why nobody's is.
fn choose(context: &Context<'_>) -> Result<Result<i64, Idle>, RunError> {
    let mut closed = BTreeSet::new();
    for pause in crate::pause::pauses(context.db)? {
        match pause.job_type {
            None => return Ok(Err(Idle::Paused { reason: pause.reason })),
            Some(job_type) => closed.insert(job_type),
        };
    }
    let Some(full) = full_types(context)? else { return Ok(Err(Idle::WorkersBusy)) };
    closed.extend(full);
    let head: Option<(i64, String)> = context
        .db
        .prepare_cached(HEAD_SQL)?
        .query_row((), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((seq, job_type)) = head else {
        return Ok(Err(Idle::Empty { next_at: next_delayed(context)? }));
    };
    if is_open(context, &closed, &job_type) {
        return Ok(Ok(seq));
    }
    match first_of_open_types(context, &closed)? {
        Some(seq) => Ok(Ok(seq)),
        None => Ok(Err(Idle::TypesClosed { next_at: next_delayed(context)? })),
    }
}

/// When the time of the next delayed job comes.
fn next_delayed(context: &Context<'_>) -> Result<Option<Timestamp>, StoreError> {
    let mut statement = context.db.prepare_cached(NEXT_DELAYED_SQL)?;
    Ok(statement.query_row((), |row| row.get(0)).optional()?)
}

/// The types of which as much runs as may; nothing when that is so of all together.
pub(crate) fn full_types(context: &Context<'_>) -> Result<Option<Vec<String>>, RunError> {
    let mut statement = context.db.prepare_cached(ACTIVE_SQL)?;
    let active: Vec<(String, u32)> =
        statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let total: u32 = active.iter().map(|(_, count)| count).sum();
    if total >= context.rules.workers_max {
        return Ok(None);
    }
    let count_of =
        |name: &str| active.iter().find(|(of, _)| of == name).map_or(0, |(_, count)| *count);
    let limits = context.rules.type_limits.iter();
    Ok(Some(
        limits
            .filter(|(name, limit)| count_of(name) >= **limit)
            .map(|(name, _)| name.clone())
            .collect(),
    ))
}

/// Whether jobs of a type may be claimed.
fn is_open(context: &Context<'_>, closed: &BTreeSet<String>, job_type: &str) -> bool {
    let handled = &context.rules.types_handled;
    !closed.contains(job_type) && handled.as_ref().is_none_or(|types| types.contains(job_type))
}

fn first_of_open_types(
    context: &Context<'_>,
    closed: &BTreeSet<String>,
) -> Result<Option<i64>, RunError> {
    let mut next = context.db.prepare_cached(NEXT_TYPE_SQL)?;
    let mut head = context.db.prepare_cached(HEAD_OF_TYPE_SQL)?;
    let mut best: Option<(i64, i64, String, i64)> = None;
    let mut at = String::new();
    while let Some(job_type) = next.query_row([&at], |row| row.get::<_, String>(0)).optional()? {
        if is_open(context, closed, &job_type) {
            let found = head.query_row([&job_type], |row| {
                let priority: i64 = row.get(0)?;
                Ok((-priority, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            if best.as_ref().is_none_or(|best| found < *best) {
                best = Some(found);
            }
        }
        at = job_type;
    }
    Ok(best.map(|(_, _, _, seq)| seq))
}

/// Makes a queued job's run, by which the job runs.
pub(crate) fn begin(
    context: &mut Context<'_>,
    mut job: Job,
    worker_id: &str,
    reservation_id: Option<ReservationId>,
    now: Timestamp,
) -> Result<ClaimedRun, RunError> {
    let (job_id, run_id) = (job.job_id, RunId(context.id(now)?));
    let token = context.token()?;
    let inserted = context
        .db
        .prepare_cached(
            "INSERT INTO job_runs (run_id, job_id, template_id, params_snapshot, started_at, \
             worker_id, claim_token, reservation_id) SELECT ?1, job_id, template_id, params, ?3, \
             ?4, ?5, ?6 FROM jobs WHERE job_id = ?2 AND status = 'QUEUED'",
        )?
        .execute(params![run_id, job_id, now, worker_id, token.as_str(), reservation_id])?;
    if inserted != 1 {
        return Err(RunError::NotQueued(job_id));
    }
    // What the insertion and its trigger have made of the rows.
    job.status = JobStatus::Running;
    job.state = JobState::Running;
    job.started_at = Some(now);
    job.worker_id = Some(worker_id.to_owned());
    let run = JobRun {
        run_id,
        job_id,
        template_id: job.template_id,
        params_snapshot: job.params.clone(),
        status: None,
        started_at: now,
        finished_at: None,
        exit_code: None,
        error: None,
        artifacts: Vec::new(),
        log_path: None,
        worker_id: worker_id.to_owned(),
        process: None,
        command: None,
        reservation_id,
        lost: false,
    };
    context.announce(Change::Started { job_id, run_id });
    outbox::emit(context, "job.started", &job, Some(&run), now)?;
    Ok(ClaimedRun { job, run, token })
}

/// Records the process that supervises a run, before the run is released.
#[derive(Clone, Debug)]
pub struct AttachProcess {
    /// Which run.
    pub run_id: RunId,
    /// The proof that it is the caller's.
    pub token: ClaimToken,
    /// The process.
    pub process: ProcessIdentity,
    /// The command that it supervises, which may outlive it. It is of the same boot.
    pub command: Option<ProcessIdentity>,
    /// Where the output will be.
    pub log_path: Option<String>,
}

impl Operation for AttachProcess {
    /// The job, which says whether its end was asked for meanwhile.
    type Output = Job;
    type Error = RunError;

    fn execute(self, context: &mut Context<'_>) -> Result<Job, RunError> {
        input::name("boot_id", &self.process.boot_id)?;
        if let Some(path) = &self.log_path {
            input::text("log_path", path, PATH_BYTES_MAX)?;
        }
        let run = owned_run(context, self.run_id, &self.token)?;
        let is_other = run.process.as_ref().is_some_and(|known| *known != self.process)
            || (run.process.is_some() && run.command != self.command);
        if is_other {
            return Err(RunError::ProcessKnown(self.run_id));
        }

        context
            .db
            .prepare_cached(
                "UPDATE job_runs SET boot_id = ?2, pid = ?3, start_ticks = ?4, \
                 log_path = coalesce(log_path, ?5), command_pid = ?6, command_start_ticks = ?7 \
                 WHERE run_id = ?1",
            )?
            .execute(params![
                self.run_id,
                self.process.boot_id,
                self.process.pid,
                self.process.start_ticks,
                self.log_path,
                self.command.as_ref().map(|command| command.pid),
                self.command.as_ref().map(|command| command.start_ticks)
            ])?;
        crate::jobs::job(context.db, run.job_id)?.ok_or(RunError::NoJob(run.job_id))
    }
}

/// A run that has not ended, if the token is its own.
pub(crate) fn owned_run(
    context: &Context<'_>,
    run_id: RunId,
    token: &ClaimToken,
) -> Result<JobRun, RunError> {
    let sql = format!("SELECT {RUN_COLUMNS}, claim_token FROM job_runs WHERE run_id = ?1");
    let (run, own): (JobRun, String) = context
        .db
        .prepare_cached(&sql)?
        .query_row([run_id], |row| Ok((JobRun::from_row(row)?, row.get("claim_token")?)))
        .optional()?
        .ok_or(RunError::NoRun(run_id))?;
    if own != token.as_str() {
        return Err(RunError::WrongToken(run_id));
    }
    if run.status.is_some() {
        return Err(RunError::RunEnded(run_id));
    }
    Ok(run)
}
