//! Reading jobs and runs: one, a page of them, and the queue in its order.
//!
//! A list goes along the index of its most telling filter ([`Route`]); the other filters are looked
//! at row by row, no more rows for a page than `PAGE_EXAMINED_MAX`.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::{GroupId, JobId, RunId, ScheduleId, TemplateId};
use crate::limits::PAGE_ROWS_MAX;
use crate::model::{JOB_COLUMNS, Job, JobRun, JobState, RUN_COLUMNS};
use crate::page::{Cursor, Found, Page, ReadError, Walk};
use crate::queue::Queue;
use crate::timestamp::Timestamp;

/// Which jobs are wanted; what is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFilter {
    /// Jobs in this state.
    pub state: Option<JobState>,
    /// Jobs of this type.
    pub job_type: Option<String>,
    /// Jobs of this group.
    pub group_id: Option<GroupId>,
    /// Jobs of this schedule.
    pub schedule_id: Option<ScheduleId>,
    /// Jobs of this template.
    pub template_id: Option<TemplateId>,
}

/// What follows a row among its own priority, in the order of dispatch.
pub(crate) const ORDER_SAME_SQL: &str = "FROM jobs AS j WHERE j.status = 'QUEUED' \
    AND j.priority = ? AND (j.position, j.created_at, j.seq) > (?, ?, ?) \
    ORDER BY j.position, j.created_at, j.seq";
/// What is below a priority, in the order of dispatch.
pub(crate) const ORDER_BELOW_SQL: &str = "FROM jobs AS j WHERE j.status = 'QUEUED' \
    AND j.priority < ? ORDER BY j.priority DESC, j.position, j.created_at, j.seq";

/// The jobs of a chain, from the original on.
const CHAIN_SQL: &str = "WITH RECURSIVE up(job_id, retry_of) AS ( \
       SELECT job_id, retry_of FROM jobs WHERE job_id = ?1 UNION ALL \
       SELECT p.job_id, p.retry_of FROM jobs p JOIN up ON p.job_id = up.retry_of), \
     down(job_id) AS ( \
       SELECT job_id FROM up WHERE retry_of IS NULL UNION ALL \
       SELECT n.job_id FROM jobs n JOIN down ON n.retry_of = down.job_id)";
/// See [`CHAIN_SQL`].
const CHAIN_FROM_SQL: &str = "FROM down JOIN jobs j ON j.job_id = down.job_id WHERE 1";

impl Queue {
    /// A job.
    ///
    /// # Errors
    /// When the database fails.
    pub fn job(&self, job_id: JobId) -> Result<Option<Job>, StoreError> {
        self.read(|db| job(db, job_id))
    }

    /// The run of a job; there is at most one.
    ///
    /// # Errors
    /// When the database fails.
    pub fn run_of(&self, job_id: JobId) -> Result<Option<JobRun>, StoreError> {
        self.read(|db| run_of(db, job_id))
    }

    /// A run.
    ///
    /// # Errors
    /// When the database fails.
    pub fn run(&self, run_id: RunId) -> Result<Option<JobRun>, StoreError> {
        self.read(|db| run(db, run_id))
    }

    /// The original of a job's chain of retries and everything after it, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub fn chain(&self, job_id: JobId) -> Result<Vec<Job>, StoreError> {
        self.read(|db| {
            let sql =
                format!("{CHAIN_SQL} SELECT {JOB_COLUMNS} {CHAIN_FROM_SQL} ORDER BY j.attempt");
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map([job_id], Job::from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// A part of a job's chain of retries, in order.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn chain_page(
        &self,
        job_id: JobId,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<Job>, ReadError> {
        let attempt =
            Cursor::read(after, 'c', |key| key.parse::<u32>().ok())?.map_or(-1, i64::from);
        let sql = format!(
            "{CHAIN_SQL} SELECT {JOB_COLUMNS} {CHAIN_FROM_SQL} AND j.attempt > ?2 ORDER BY j.attempt"
        );
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(params![job_id, attempt])?;
            let mut walk = Walk::new(rows_max.clamp(1, PAGE_ROWS_MAX));
            walk.take(&mut rows, wanted, |row| {
                Ok(Cursor::new('c', &row.get::<_, u32>("attempt")?.to_string()))
            })?;
            Ok(walk.page())
        })
    }

    /// Jobs. Queued ones come in the order of dispatch and delayed ones soonest first, if nothing
    /// but that and the type is asked for; ended ones come by their runs, latest first; all others
    /// newest first.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<Job>, ReadError> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let list = List::of(filter);
        if list.route == Route::Ready {
            return self.dispatch_order(&list, after, rows_max);
        }
        let (kind, sql) = (list.route.kind(), list.sql(JOB_COLUMNS));
        let mut values = list.values();
        let seq: i64;
        let run_id: String;
        let time: String;
        match list.route {
            Route::Delayed => {
                let key = Cursor::read(after, kind, parse_delayed)?;
                (time, seq) = key.unwrap_or_default();
                values.push(&time);
                values.push(&seq);
            }
            Route::Ended => {
                let key = Cursor::read(after, kind, |key| key.parse::<RunId>().ok())?;
                run_id = key.map_or_else(|| "~".to_owned(), |id| id.to_string());
                values.push(&run_id);
            }
            _ => {
                seq = Cursor::read(after, kind, |key| key.parse().ok())?.unwrap_or(i64::MAX);
                values.push(&seq);
            }
        }
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(values.as_slice())?;
            let mut walk = Walk::new(rows_max);
            walk.take(&mut rows, matching, |row| {
                let seq: i64 = row.get("seq")?;
                let key = match list.route {
                    Route::Delayed => {
                        format!("{},{seq}", row.get_ref("not_before")?.as_str()?)
                    }
                    Route::Ended => row.get("run_id")?,
                    _ => seq.to_string(),
                };
                Ok(Cursor::new(kind, &key))
            })?;
            Ok(walk.page())
        })
    }

    /// Queued jobs in the order in which they are dispatched, those that may not be claimed yet
    /// among them.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn order(&self, after: Option<&Cursor>, rows_max: usize) -> Result<Page<Job>, ReadError> {
        let all = List { route: Route::Ready, main: None, rest: Vec::new() };
        self.dispatch_order(&all, after, rows_max.clamp(1, PAGE_ROWS_MAX))
    }

    /// A page in the order of dispatch: first what follows the cursor among its own priority, then
    /// what is below.
    fn dispatch_order(
        &self,
        list: &List<'_>,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<Job>, ReadError> {
        let kind = Route::Ready.kind();
        let after = Cursor::read(after, kind, parse_order)?;
        let key = |row: &Row<'_>| {
            let (priority, position): (i64, i64) = (row.get("priority")?, row.get("position")?);
            let created_at = row.get_ref("created_at")?.as_str()?;
            let seq: i64 = row.get("seq")?;
            Ok(Cursor::new(kind, &format!("{priority},{position},{created_at},{seq}")))
        };
        self.read(|db| {
            let mut walk = Walk::new(rows_max);
            let mut below = i64::MAX;
            if let Some((priority, position, created_at, seq)) = &after {
                let sql = list.order_sql(JOB_COLUMNS, ORDER_SAME_SQL);
                let mut values = list.values();
                values.extend::<[&dyn ToSql; 4]>([priority, position, created_at, seq]);
                let mut statement = db.prepare_cached(&sql)?;
                walk.take(&mut statement.query(values.as_slice())?, matching, key)?;
                below = *priority;
            }
            let sql = list.order_sql(JOB_COLUMNS, ORDER_BELOW_SQL);
            let mut values = list.values();
            values.push(&below);
            let mut statement = db.prepare_cached(&sql)?;
            walk.take(&mut statement.query(values.as_slice())?, matching, key)?;
            Ok(walk.page())
        })
    }
}

fn wanted(row: &Row<'_>) -> rusqlite::Result<Option<Found<Job>>> {
    let bytes = row.get_ref("params")?.as_str()?.len();
    Ok(Some(Found { item: Job::from_row(row)?, bytes }))
}

fn matching(row: &Row<'_>) -> rusqlite::Result<Option<Found<Job>>> {
    if row.get::<_, Option<bool>>("matches")? == Some(true) { wanted(row) } else { Ok(None) }
}

fn parse_order(key: &str) -> Option<(i64, i64, String, i64)> {
    let mut parts = key.split(',');
    let parsed = (
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        moment(parts.next()?)?,
        parts.next()?.parse().ok()?,
    );
    parts.next().is_none().then_some(parsed)
}

fn parse_delayed(key: &str) -> Option<(String, i64)> {
    let (time, seq) = key.split_once(',')?;
    Some((moment(time)?, seq.parse().ok()?))
}

/// The text of a moment, as the database has it.
fn moment(text: &str) -> Option<String> {
    text.parse::<Timestamp>().ok().map(|moment| moment.to_string()).filter(|same| same == text)
}

/// By which index a list goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// The table itself, newest first.
    All,
    /// An index of a column, newest first.
    Column(&'static str),
    /// An index of one state, newest first.
    State(&'static str),
    /// What may be claimed, or everything that is queued, in the order of dispatch.
    Ready,
    /// What waits for its time, soonest first.
    Delayed,
    /// Runs that ended, latest first.
    Ended,
}

impl Route {
    /// The kind of its cursors.
    fn kind(self) -> char {
        match self {
            Route::All | Route::Column(_) | Route::State(_) => 's',
            Route::Ready => 'o',
            Route::Delayed => 'd',
            Route::Ended => 'e',
        }
    }
}

type Condition<'a> = (&'static str, Option<&'a dyn ToSql>);

/// How a list is made: by one filter's index, the others looked at row by row.
struct List<'a> {
    route: Route,
    main: Option<Condition<'a>>,
    rest: Vec<Condition<'a>>,
}

impl<'a> List<'a> {
    fn of(filter: &'a JobFilter) -> List<'a> {
        fn some<T: ToSql>(value: &Option<T>) -> Option<&dyn ToSql> {
            value.as_ref().map(|value| value as &dyn ToSql)
        }
        let columns: [(Condition<'a>, &'static str); 3] = [
            (("j.group_id = ?", some(&filter.group_id)), "jobs_members"),
            (("j.schedule_id = ?", some(&filter.schedule_id)), "jobs_scheduled"),
            (("j.template_id = ?", some(&filter.template_id)), "jobs_templated"),
        ];
        let of_type: Condition<'a> = ("j.job_type = ?", some(&filter.job_type));
        let state = filter.state.map(|state| (condition(state), None));
        let mut given: Vec<_> =
            columns.into_iter().filter(|(given, _)| given.1.is_some()).collect();
        let mut rest: Vec<Condition<'a>> = Vec::new();
        if !given.is_empty() {
            let (main, index) = given.remove(0);
            rest.extend(given.into_iter().map(|(condition, _)| condition));
            rest.extend(of_type.1.map(|_| of_type));
            rest.extend(state);
            return List { route: Route::Column(index), main: Some(main), rest };
        }
        let typed = of_type.1.map(|_| of_type);
        let (route, main) = match filter.state {
            None => (typed.map_or(Route::All, |_| Route::Column("jobs_typed")), typed),
            // Most jobs are completed in the long run, so the type says more.
            Some(JobState::Completed) if typed.is_some() => {
                rest.extend(state);
                return List { route: Route::Column("jobs_typed"), main: typed, rest };
            }
            Some(JobState::Queued) => {
                let index = match typed {
                    None => READY,
                    Some(_) => READY_OF_TYPE,
                };
                return List { route: Route::Ready, main: Some((index, of_type.1)), rest };
            }
            Some(JobState::Delayed) => (Route::Delayed, state),
            Some(JobState::Blocked) => (Route::State("jobs_blocked"), state),
            Some(JobState::Running) => (Route::State("jobs_active"), state),
            Some(JobState::Cancelled) => (Route::State("jobs_cancelled"), state),
            Some(JobState::Completed) => (Route::Ended, Some(("r.status = 'COMPLETED'", None))),
            Some(JobState::Failed) => {
                // A job that was cancelled while it ran has a failed run.
                rest.push(("j.status = 'RUNNING'", None));
                (Route::Ended, Some(("r.status = 'FAILED'", None)))
            }
            Some(JobState::Skipped) => (Route::Ended, Some(("r.status = 'SKIPPED'", None))),
        };
        if filter.state.is_some() {
            rest.extend(typed);
        }
        List { route, main, rest }
    }

    /// What is to be bound before the key: the conditions in the order of the statement.
    fn values(&self) -> Vec<&'a dyn ToSql> {
        self.rest.iter().chain(&self.main).filter_map(|(_, value)| *value).collect()
    }

    /// Whether a row is wanted beyond what the index says.
    fn matches(&self) -> String {
        if self.rest.is_empty() {
            return "1".to_owned();
        }
        self.rest.iter().map(|(condition, _)| *condition).collect::<Vec<_>>().join(" AND ")
    }

    /// The statement of every list but those in the order of dispatch.
    fn sql(&self, columns: &str) -> String {
        let main = self.main.map_or("1", |(condition, _)| condition);
        let matches = self.matches();
        let indexed = |index| {
            format!(
                "SELECT {columns}, {matches} AS matches FROM jobs j INDEXED BY {index} \
                 WHERE {main} AND j.seq < ? ORDER BY j.seq DESC"
            )
        };
        match self.route {
            Route::Column(index) | Route::State(index) => indexed(index),
            Route::Delayed => format!(
                "SELECT {columns}, {matches} AS matches FROM jobs j INDEXED BY jobs_delayed \
                 WHERE {main} AND (j.not_before, j.seq) > (?, ?) ORDER BY j.not_before, j.seq"
            ),
            Route::Ended => format!(
                "SELECT {columns}, {matches} AS matches, r.run_id FROM job_runs r INDEXED BY job_runs_ended \
                 CROSS JOIN jobs j ON j.job_id = r.job_id \
                 WHERE {main} AND r.run_id < ? ORDER BY r.run_id DESC"
            ),
            Route::All | Route::Ready => format!(
                "SELECT {columns}, {matches} AS matches FROM jobs j WHERE {main} AND j.seq < ? \
                 ORDER BY j.seq DESC"
            ),
        }
    }

    /// A statement in the order of dispatch.
    fn order_sql(&self, columns: &str, from: &str) -> String {
        let queued = "j.status = 'QUEUED'";
        let from = match self.main {
            None => from.to_owned(),
            Some((main, _)) => from.replacen(queued, &format!("{queued} AND {main}"), 1),
        };
        format!("SELECT {columns}, {} AS matches {from}", self.matches())
    }
}

/// What may be claimed, of all types and of one.
const READY: &str = "j.hold IS NULL";
const READY_OF_TYPE: &str = "j.hold IS NULL AND j.job_type = ?";

/// What a state means in terms of rows.
fn condition(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "j.status = 'QUEUED' AND j.hold IS NULL",
        JobState::Delayed => "j.status = 'QUEUED' AND j.hold = 'delay'",
        JobState::Blocked => "j.status = 'QUEUED' AND j.hold = 'group'",
        JobState::Running => "j.status = 'RUNNING' AND j.finished_at IS NULL",
        JobState::Completed => {
            "j.status = 'RUNNING' AND j.finished_at IS NOT NULL AND \
             (SELECT status FROM job_runs r WHERE r.job_id = j.job_id) = 'COMPLETED'"
        }
        JobState::Failed => {
            "j.status = 'RUNNING' AND j.finished_at IS NOT NULL AND \
             (SELECT status FROM job_runs r WHERE r.job_id = j.job_id) = 'FAILED'"
        }
        JobState::Skipped => {
            "j.status = 'RUNNING' AND j.finished_at IS NOT NULL AND \
             (SELECT status FROM job_runs r WHERE r.job_id = j.job_id) = 'SKIPPED'"
        }
        JobState::Cancelled => "j.status = 'CANCELLED'",
    }
}

pub(crate) fn job(db: &Connection, job_id: JobId) -> Result<Option<Job>, StoreError> {
    let sql = format!("SELECT {JOB_COLUMNS} FROM jobs j WHERE j.job_id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([job_id], Job::from_row).optional()?)
}

pub(crate) fn run_of(db: &Connection, job_id: JobId) -> Result<Option<JobRun>, StoreError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM job_runs WHERE job_id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([job_id], JobRun::from_row).optional()?)
}

pub(crate) fn run(db: &Connection, run_id: RunId) -> Result<Option<JobRun>, StoreError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM job_runs WHERE run_id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([run_id], JobRun::from_row).optional()?)
}

#[cfg(test)]
mod tests;
