//! Schedules that are due make their jobs.
//!
//! Which periods are due, which were passed over and what is to be done about each is decided by
//! `kron-core` (`Timing::backlog` and `judge`), the same rules by which the daemon runs commands.
//! Here they are carried out in one transaction: the job, the period's outcome with its reason, and
//! the mark that never moves back.
//!
//! **Invariant:** a period makes at most one job, whatever crashes and whatever the clock does.

use kron_core::{Active, Decision, PeriodStretch, Reason, Timing, UtcSecond, Verdict, judge};
use rusqlite::{OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use crate::cancel::{cancel_queued, request};
use crate::change::Change;
use crate::claim::RunError;
use crate::enqueue::{EnqueueError, NewJob, insert, resolve};
use crate::error::StoreError;
use crate::id::{JobId, ScheduleId};
use crate::limits::{PAGE_ROWS_MAX, SCHEDULES_PER_CALL_MAX};
use crate::model::{Columns, Job, words};
use crate::queue::Queue;
use crate::schedule::{SCHEDULE_COLUMNS, Schedule, from_row, next_trigger};
use crate::template::DefinitionError;
use crate::timestamp::Timestamp;
use crate::writer::{Context, Operation};

words! {
    /// What became of a period.
    PeriodOutcome {
        /// It made a job.
        Executed = "executed",
        /// It was not to.
        Skipped = "skipped",
        /// It was too late.
        Missed = "missed",
        /// No time in its window was allowed.
        Unschedulable = "unschedulable",
    }
}

impl From<kron_core::Outcome> for PeriodOutcome {
    fn from(outcome: kron_core::Outcome) -> PeriodOutcome {
        match outcome {
            kron_core::Outcome::Executed => PeriodOutcome::Executed,
            kron_core::Outcome::Skipped => PeriodOutcome::Skipped,
            kron_core::Outcome::Missed => PeriodOutcome::Missed,
            kron_core::Outcome::Unschedulable => PeriodOutcome::Unschedulable,
        }
    }
}

/// What became of a period, or of a stretch of periods that were passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeriodRecord {
    /// Whose.
    pub schedule_id: ScheduleId,
    /// The first period's nominal time.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub first_period: UtcSecond,
    /// The last period's nominal time.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_period: UtcSecond,
    /// How many there are.
    pub periods: i64,
    /// What became of them.
    pub outcome: PeriodOutcome,
    /// Why.
    pub reason: Option<String>,
    /// The job that was made.
    pub job_id: Option<JobId>,
    /// When it was decided.
    pub recorded_at: Timestamp,
}

/// Triggers every schedule that is due, up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct TriggerSchedules {
    /// The time.
    pub now: Timestamp,
}

/// What was triggered.
#[derive(Clone, Debug, Default)]
pub struct Triggered {
    /// What became of the periods.
    pub records: Vec<PeriodRecord>,
    /// The jobs that were made.
    pub jobs: Vec<Job>,
    /// Schedules whose expressions cannot be read any more, and why. They are not due again until
    /// they are changed.
    pub broken: Vec<(ScheduleId, String)>,
    /// When the next schedule is due; if that is not after now, there are more.
    pub next_at: Option<Timestamp>,
}

/// Schedules that are due.
pub(crate) const DUE_SQL: &str = "FROM schedules WHERE enabled = 1 AND deleted_at IS NULL \
    AND next_trigger_at IS NOT NULL AND next_trigger_at <= ?1 ORDER BY next_trigger_at LIMIT ?2";

impl Operation for TriggerSchedules {
    type Output = Triggered;
    type Error = DefinitionError;

    fn execute(self, context: &mut Context<'_>) -> Result<Triggered, DefinitionError> {
        let sql = format!("SELECT {SCHEDULE_COLUMNS} {DUE_SQL}");
        let mut statement = context.db.prepare_cached(&sql)?;
        let due: Vec<Schedule> = statement
            .query_map(params![self.now, SCHEDULES_PER_CALL_MAX as i64], from_row)?
            .collect::<Result<_, _>>()?;
        drop(statement);
        let mut triggered = Triggered::default();
        for schedule in due {
            trigger(context, &schedule, self.now, &mut triggered)?;
        }
        triggered.next_at = context
            .db
            .prepare_cached(
                "SELECT next_trigger_at FROM schedules WHERE enabled = 1 AND deleted_at IS NULL \
                 AND next_trigger_at IS NOT NULL ORDER BY next_trigger_at LIMIT 1",
            )?
            .query_row((), |row| row.get(0))
            .optional()?;
        Ok(triggered)
    }
}

fn trigger(
    context: &mut Context<'_>,
    schedule: &Schedule,
    now: Timestamp,
    triggered: &mut Triggered,
) -> Result<(), DefinitionError> {
    let id = schedule.schedule_id;
    let read = context.timings.read(id, &schedule.cron_expression, Some(&schedule.timezone));
    let timing = match read {
        Ok(timing) => timing,
        Err(DefinitionError::Store(error)) => return Err(error.into()),
        // Another zone database may lack a zone; the other schedules must not suffer from it.
        Err(why) => {
            context
                .db
                .prepare_cached(
                    "UPDATE schedules SET next_trigger_at = NULL WHERE schedule_id = ?1",
                )?
                .execute([id])?;
            triggered.broken.push((id, why.to_string()));
            return Ok(());
        }
    };
    let past = kron_core::Past {
        last_handled: schedule.last_handled_period,
        created_at: Some(schedule.created_at.second()),
        effective_from: schedule.effective_from,
        resumed_at: schedule.resumed_at,
        replacing: None,
    };
    let backlog = timing.backlog(&past, now.second());
    let mut pen = Pen { schedule, now, handled: None, executed: false };
    let stretches = [
        (backlog.redefined, PeriodOutcome::Skipped, Reason::DefinitionChanged),
        (backlog.superseded, PeriodOutcome::Missed, Reason::Superseded),
    ];
    for (stretch, outcome, reason) in stretches {
        if let Some(stretch) = stretch {
            let reason = Some(reason.to_string());
            triggered.records.push(pen.record(context, stretch, outcome, reason, None)?);
        }
    }
    for decision in &backlog.due {
        judge_one(context, &mut pen, &timing, &past, decision, triggered)?;
    }
    let mark = pen.handled.max(schedule.last_handled_period);
    let triggered_at = if pen.executed { Some(now) } else { schedule.last_triggered_at };
    context
        .db
        .prepare_cached(
            "UPDATE schedules SET last_handled_period = ?2, last_triggered_at = ?3, \
             next_trigger_at = ?4 WHERE schedule_id = ?1",
        )?
        .execute(params![
            id,
            mark.map(|second| second.to_string()),
            triggered_at,
            next_trigger(&timing, schedule.enabled, now)
        ])?;
    context.announce(Change::Schedule { schedule_id: id });
    Ok(())
}

fn judge_one(
    context: &mut Context<'_>,
    pen: &mut Pen<'_>,
    timing: &Timing,
    past: &kron_core::Past,
    decision: &Decision,
    triggered: &mut Triggered,
) -> Result<(), DefinitionError> {
    let stretch = PeriodStretch { first: decision.nominal, last: decision.nominal, count: 1 };
    let open = open_jobs(context, pen.schedule.schedule_id)?;
    let active: Vec<Active> = open.iter().map(|(_, _, active)| *active).collect();
    match judge(decision, &timing.policy, past, &active, pen.now.second()) {
        Verdict::Start { replace } => {
            if replace {
                replace_all(context, &open, pen.now)?;
            }
            let record = match make_job(context, pen.schedule, decision, pen.now)? {
                Ok(job) => {
                    pen.executed = true;
                    let job_id = Some(job.job_id);
                    triggered.jobs.push(job);
                    pen.record(context, stretch, PeriodOutcome::Executed, None, job_id)?
                }
                Err(why) => {
                    pen.record(context, stretch, PeriodOutcome::Skipped, Some(why), None)?
                }
            };
            triggered.records.push(record);
        }
        Verdict::Record { outcome, reason } => {
            let reason = Some(reason.to_string());
            triggered.records.push(pen.record(context, stretch, outcome.into(), reason, None)?);
        }
        Verdict::Wait { .. } | Verdict::Leave { .. } => {}
    }
    Ok(())
}

/// Makes the period's job; what the template or the overrides make impossible is a reason, not a
/// failure: the other schedules must not suffer from it.
fn make_job(
    context: &mut Context<'_>,
    schedule: &Schedule,
    decision: &Decision,
    now: Timestamp,
) -> Result<Result<Job, String>, StoreError> {
    let request = NewJob {
        template_id: Some(schedule.template_id),
        params: schedule.param_overrides.clone(),
        ..NewJob::default()
    };
    let mut row = match resolve(context, request) {
        Ok(row) => row,
        Err(EnqueueError::Store(error)) => return Err(error),
        Err(why) => return Ok(Err(why.to_string())),
    };
    row.schedule = Some((schedule.schedule_id, decision.period_id()));
    insert(context, row, now).map(Ok)
}

type OpenJob = (JobId, bool, Active);

/// Jobs of a schedule that have not ended: which, whether they are queued, and of which period.
fn open_jobs(context: &Context<'_>, id: ScheduleId) -> Result<Vec<OpenJob>, StoreError> {
    let mut statement = context.db.prepare_cached(
        "SELECT job_id, status = 'QUEUED', period_id FROM jobs \
         WHERE schedule_id = ?1 AND finished_at IS NULL ORDER BY seq",
    )?;
    let rows = statement.query_map([id], |row| {
        let period: Option<String> = row.get(2)?;
        let nominal = period.and_then(|text| UtcSecond::parse(&text).ok());
        Ok((row.get(0)?, row.get(1)?, nominal.map_or(Active::Manual, Active::Period)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn replace_all(
    context: &mut Context<'_>,
    open: &[OpenJob],
    now: Timestamp,
) -> Result<(), StoreError> {
    for (job_id, queued, _) in open {
        let done = if *queued {
            cancel_queued(context, *job_id, now).map(|_| ())
        } else {
            request(context, *job_id, now)
        };
        match done {
            Ok(()) => {}
            Err(RunError::Store(error)) => return Err(error),
            // It was read in this transaction; nothing else can have happened to it.
            Err(_) => return Err(StoreError::Closed),
        }
    }
    Ok(())
}

/// Writes outcomes, and remembers how far they go.
struct Pen<'a> {
    schedule: &'a Schedule,
    now: Timestamp,
    handled: Option<UtcSecond>,
    executed: bool,
}

impl Pen<'_> {
    fn record(
        &mut self,
        context: &Context<'_>,
        stretch: PeriodStretch,
        outcome: PeriodOutcome,
        reason: Option<String>,
        job_id: Option<JobId>,
    ) -> Result<PeriodRecord, StoreError> {
        let record = PeriodRecord {
            schedule_id: self.schedule.schedule_id,
            first_period: stretch.first,
            last_period: stretch.last,
            periods: i64::try_from(stretch.count).unwrap_or(i64::MAX),
            outcome,
            reason,
            job_id,
            recorded_at: self.now,
        };
        context
            .db
            .prepare_cached(
                "INSERT INTO schedule_outcomes (schedule_id, first_period, last_period, periods, \
                 outcome, reason, job_id, recorded_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                record.schedule_id,
                record.first_period.to_string(),
                record.last_period.to_string(),
                record.periods,
                record.outcome,
                record.reason,
                record.job_id,
                record.recorded_at
            ])?;
        self.handled = self.handled.max(Some(stretch.last));
        Ok(record)
    }
}

impl Queue {
    /// What became of a schedule's periods, latest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn outcomes(
        &self,
        schedule_id: ScheduleId,
        before: Option<UtcSecond>,
        rows_max: usize,
    ) -> Result<Vec<PeriodRecord>, StoreError> {
        self.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT first_period, last_period, periods, outcome, reason, job_id, recorded_at \
                 FROM schedule_outcomes WHERE schedule_id = ?1 AND first_period < ?2 \
                 ORDER BY first_period DESC LIMIT ?3",
            )?;
            let before = before.map_or_else(|| "~".to_owned(), |second| second.to_string());
            let limit = rows_max.clamp(1, PAGE_ROWS_MAX) as i64;
            let rows = statement.query_map(params![schedule_id, before, limit], |row| {
                let mut columns = Columns { row, next: 0 };
                Ok(PeriodRecord {
                    schedule_id,
                    first_period: columns.second()?.unwrap_or(UtcSecond::MIN),
                    last_period: columns.second()?.unwrap_or(UtcSecond::MIN),
                    periods: columns.take()?,
                    outcome: columns.take()?,
                    reason: columns.take()?,
                    job_id: columns.take()?,
                    recorded_at: columns.take()?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}
