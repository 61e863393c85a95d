//! What an earlier daemon left behind, put in order before anything is dispatched.
//!
//! Decided by proof, never by elapsed time: the caller says of each run that has not ended whether
//! its supervising process is alive, dead or cannot be told. What is alive is adopted, what is dead
//! is failed and retried, what cannot be told is left as it is and named. A run that never had a
//! process recorded was never released, so nothing of it can be alive.

use std::collections::BTreeMap;

use rusqlite::OptionalExtension as _;

use crate::claim::{ClaimedRun, RunError};
use crate::error::StoreError;
use crate::finish::{Finished, Outcome, Reported, RunEnd, end, settle};
use crate::id::{ClaimToken, JobId, ReservationId, RunId};
use crate::model::{JOB_COLUMNS, Job, JobRun, RUN_COLUMNS, RetryDecision, RunStatus};
use crate::outbox;
use crate::queue::Queue;
use crate::reservation::{self, ReservationStatus};
use crate::retry;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

/// The error of a run that was lost to a crash.
pub const CRASH_ERROR: &str = "Scheduler crash recovery";
/// The worker that is recorded where none is known.
const RECOVERY_WORKER: &str = "recovery";

/// What is known about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It is proven to be alive.
    Alive,
    /// It is proven to be gone.
    Dead,
    /// Neither is proven.
    Unknown,
}

/// Puts in order what was left behind.
///
/// It is one transaction, before anything is dispatched. It looks only at jobs that run or about
/// which nothing was decided, however many others there are: 10,000 runs of the dead, all of them
/// retried, took 0.8 s among 1,000,000 jobs.
#[derive(Clone, Debug)]
pub struct Recover {
    /// Of each run of [`Queue::open_runs`]; what is not named cannot be told.
    pub runs: BTreeMap<RunId, Liveness>,
    /// Of the daemon that made the active reservation, if there is one.
    pub reservation_owner: Liveness,
    /// How long the reservation of an adopted direct run lasts from now.
    pub reservation_lasts_ms: i64,
    /// The time.
    pub now: Timestamp,
}

/// What was found and done.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Runs that go on, to be ended by whoever watches them now.
    pub adopted: Vec<ClaimedRun>,
    /// Runs that were ended here, with their successors.
    pub ended: Vec<Finished>,
    /// Runs of which nothing is proven.
    pub undecided: Vec<RunId>,
    /// Reservations that expired.
    pub expired: Vec<ReservationId>,
}

impl Queue {
    /// Runs that have not ended, to be looked at before [`Recover`].
    ///
    /// # Errors
    /// When the database fails.
    pub fn open_runs(&self) -> Result<Vec<JobRun>, StoreError> {
        self.read(|db| {
            let sql = format!("SELECT {RUN_COLUMNS} FROM job_runs WHERE job_id = ?1");
            let mut run = db.prepare_cached(&sql)?;
            let mut runs = Vec::new();
            for job in open_jobs(db)? {
                let found = run.query_row([job.job_id], JobRun::from_row).optional()?;
                runs.extend(found.filter(|run| run.status.is_none()));
            }
            Ok(runs)
        })
    }
}

/// Jobs that are RUNNING and not finished, in order of insertion.
fn open_jobs(db: &rusqlite::Connection) -> Result<Vec<Job>, StoreError> {
    let sql = format!(
        "SELECT {JOB_COLUMNS} FROM jobs j INDEXED BY jobs_active \
         WHERE j.status = 'RUNNING' AND j.finished_at IS NULL ORDER BY j.seq"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map((), Job::from_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Operation for Recover {
    type Output = Recovered;
    type Error = RunError;

    fn execute(self, context: &mut Context<'_>) -> Result<Recovered, RunError> {
        let mut recovered = Recovered::default();
        for job in open_jobs(context.db)? {
            self.job(context, job, &mut recovered)?;
        }
        self.undecided(context, &mut recovered)?;
        self.reservation(context, &mut recovered)?;
        outbox::give_back(context, self.now)?;
        Ok(recovered)
    }
}

impl Recover {
    fn job(
        &self,
        context: &mut Context<'_>,
        job: Job,
        recovered: &mut Recovered,
    ) -> Result<(), RunError> {
        let run = match crate::jobs::run_of(context.db, job.job_id)? {
            Some(run) => run,
            // No release without a run: whatever this was, nothing of it runs.
            None => self.missing_run(context, &job)?,
        };
        if run.status.is_some() {
            recovered.ended.push(self.finish_job(context, job, run)?);
            return Ok(());
        }
        let told = self.runs.get(&run.run_id).copied().unwrap_or(Liveness::Unknown);
        let liveness = match (told, &run.process) {
            (Liveness::Unknown, None) => Liveness::Dead,
            (told, _) => told,
        };
        match liveness {
            Liveness::Alive => {
                let token: String = context
                    .db
                    .prepare_cached("SELECT claim_token FROM job_runs WHERE run_id = ?1")?
                    .query_row([run.run_id], |row| row.get(0))?;
                recovered.adopted.push(ClaimedRun { job, run, token: ClaimToken(token) });
            }
            Liveness::Dead => {
                let lost =
                    RunEnd { error: Some(CRASH_ERROR.to_owned()), ..RunEnd::new(Outcome::Failed) };
                recovered.ended.push(end(context, run, lost, Reported::ByRecovery, self.now)?);
            }
            Liveness::Unknown => recovered.undecided.push(run.run_id),
        }
        Ok(())
    }

    /// Makes the run of a job that has none, to be failed like any other.
    fn missing_run(&self, context: &mut Context<'_>, job: &Job) -> Result<JobRun, RunError> {
        let run_id = RunId(context.id(self.now)?);
        let token = context.token()?;
        context
            .db
            .prepare_cached(
                "INSERT INTO job_runs (run_id, job_id, template_id, params_snapshot, started_at, \
                 worker_id, claim_token) SELECT ?1, job_id, template_id, params, \
                 coalesce(started_at, ?3), coalesce(worker_id, ?4), ?5 FROM jobs WHERE job_id = ?2",
            )?
            .execute(rusqlite::params![
                run_id,
                job.job_id,
                self.now,
                RECOVERY_WORKER,
                token.as_str()
            ])?;
        crate::jobs::run(context.db, run_id)?.ok_or(RunError::NoRun(run_id))
    }

    /// The run has ended and its job has not: only the job is brought up to date.
    fn finish_job(
        &self,
        context: &mut Context<'_>,
        job: Job,
        run: JobRun,
    ) -> Result<Finished, RunError> {
        let status = run.status.unwrap_or(RunStatus::Failed);
        let decision = match (status, job.cancel_requested_at) {
            (RunStatus::Failed, Some(_)) => RetryDecision::Cancelled,
            _ => retry::decide(context, &job, status, run.reservation_id)?,
        };
        let ended_at = run.finished_at.unwrap_or(self.now);
        settle(context, job, run, decision, ended_at)
    }

    /// Finished jobs about whose successor nothing was decided.
    fn undecided(
        &self,
        context: &mut Context<'_>,
        recovered: &mut Recovered,
    ) -> Result<(), RunError> {
        let mut statement = context.db.prepare_cached(
            "SELECT job_id FROM jobs WHERE status = 'RUNNING' AND finished_at IS NOT NULL \
             AND retry_decision IS NULL ORDER BY seq",
        )?;
        let ids: Vec<JobId> =
            statement.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
        drop(statement);
        for job_id in ids {
            let job = crate::jobs::job(context.db, job_id)?.ok_or(RunError::NoJob(job_id))?;
            let Some(run) = crate::jobs::run_of(context.db, job_id)? else { continue };
            let status = run.status.unwrap_or(RunStatus::Failed);
            let decision = retry::decide(context, &job, status, run.reservation_id)?;
            recovered.ended.push(settle(context, job, run, decision, self.now)?);
        }
        Ok(())
    }

    fn reservation(
        &self,
        context: &mut Context<'_>,
        recovered: &mut Recovered,
    ) -> Result<(), RunError> {
        let Some(active) = reservation::active(context.db)? else { return Ok(()) };
        let id = active.reservation_id;
        if reservation::has_open_run(context.db, id)? {
            let until = self.now.saturating_add_ms(self.reservation_lasts_ms.max(1));
            reservation::renew(context, id, until)?;
            return Ok(());
        }
        if self.reservation_owner == Liveness::Dead || active.expires_at <= self.now {
            reservation::end(context, id, ReservationStatus::Expired, self.now)?;
            recovered.expired.push(id);
        }
        Ok(())
    }
}
