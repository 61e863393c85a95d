//! Lists of runs, latest first.

use rusqlite::Row;

use crate::id::RunId;
use crate::limits::PAGE_ROWS_MAX;
use crate::model::{JobRun, RUN_COLUMNS, words};
use crate::page::{Cursor, Found, Page, ReadError, Walk};
use crate::queue::Queue;

words! {
    /// A run that goes on, or how it ended.
    RunState {
        /// It goes on.
        Running = "RUNNING",
        /// It ended well.
        Completed = "COMPLETED",
        /// It ended badly.
        Failed = "FAILED",
        /// There was nothing to do.
        Skipped = "SKIPPED",
    }
}

/// Which runs are wanted; what is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs that go on, or ended like this.
    pub state: Option<RunState>,
    /// Runs of jobs of this type.
    pub job_type: Option<String>,
}

/// The kind of this list's cursors.
const KIND: char = 'r';
/// What is after every id in the order of texts.
const AFTER_ALL: &str = "~";

/// What lists runs, by state.
pub(crate) fn list_sql(state: Option<RunState>, columns: &str) -> String {
    let (index, condition) = match state {
        None => ("", "1"),
        // There are no more of them than workers.
        Some(RunState::Running) => (
            "",
            "status IS NULL AND job_id IN (SELECT job_id FROM jobs \
             WHERE status = 'RUNNING' AND finished_at IS NULL)",
        ),
        Some(RunState::Completed) => ("INDEXED BY job_runs_ended", "status = 'COMPLETED'"),
        Some(RunState::Failed) => ("INDEXED BY job_runs_ended", "status = 'FAILED'"),
        Some(RunState::Skipped) => ("INDEXED BY job_runs_ended", "status = 'SKIPPED'"),
    };
    format!(
        "SELECT {columns}, ?1 IS NULL OR ?1 = \
           (SELECT job_type FROM jobs WHERE jobs.job_id = job_runs.job_id) AS matches \
         FROM job_runs {index} WHERE {condition} AND run_id < ?2 ORDER BY run_id DESC"
    )
}

impl Queue {
    /// Runs, latest first.
    ///
    /// # Errors
    /// When the cursor is none, or the database fails.
    pub fn runs(
        &self,
        filter: &RunFilter,
        after: Option<&Cursor>,
        rows_max: usize,
    ) -> Result<Page<JobRun>, ReadError> {
        let before = Cursor::read(after, KIND, |key| key.parse::<RunId>().ok())?;
        let before = before.map_or_else(|| AFTER_ALL.to_owned(), |id| id.to_string());
        let sql = list_sql(filter.state, RUN_COLUMNS);
        self.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params![filter.job_type, before])?;
            let mut walk = Walk::new(rows_max.clamp(1, PAGE_ROWS_MAX));
            walk.take(&mut rows, found, |row| {
                Ok(Cursor::new(KIND, row.get_ref("run_id")?.as_str()?))
            })?;
            Ok(walk.page())
        })
    }
}

fn found(row: &Row<'_>) -> rusqlite::Result<Option<Found<JobRun>>> {
    if !row.get::<_, bool>("matches")? {
        return Ok(None);
    }
    let item = JobRun::from_row(row)?;
    let error = item.error.as_ref().map_or(0, String::len);
    let length = |name: &str| Ok::<_, rusqlite::Error>(row.get_ref(name)?.as_str()?.len());
    let bytes = length("params_snapshot")? + length("artifacts")? + error;
    Ok(Some(Found { item, bytes }))
}
