//! What must be true of the file whatever happened to the process: the invariants of section 5 of
//! the persistence document and the checklist of its section 7, in SQL that shares nothing with the
//! code that keeps them.

use std::path::Path;

use rusqlite::Connection;

/// What is wrong, and a statement that finds it; none must find a row.
const NEVER: [(&str, &str); 15] = [
    (
        "5.1: a RUNNING job without its JobRun",
        "SELECT j.job_id FROM jobs j LEFT JOIN job_runs r ON r.job_id = j.job_id \
         WHERE j.status = 'RUNNING' AND r.run_id IS NULL",
    ),
    (
        "5.1: a JobRun beside a job that is QUEUED",
        "SELECT r.run_id FROM job_runs r JOIN jobs j ON j.job_id = r.job_id \
         WHERE j.status = 'QUEUED'",
    ),
    (
        "5.2: an orphan JobRun",
        "SELECT run_id FROM job_runs WHERE job_id NOT IN (SELECT job_id FROM jobs)",
    ),
    (
        "5.3: a job that ran twice",
        "SELECT job_id FROM job_runs GROUP BY job_id HAVING count(*) > 1",
    ),
    (
        "5.4: two jobs in one place",
        "SELECT priority FROM jobs WHERE status = 'QUEUED' \
         GROUP BY priority, position, created_at, seq HAVING count(*) > 1",
    ),
    (
        "5.5: two ACTIVE reservations",
        "SELECT 1 FROM direct_reservations WHERE status = 'ACTIVE' GROUP BY 1 HAVING count(*) > 1",
    ),
    (
        "7: half an end: the run without its job",
        "SELECT r.run_id FROM job_runs r JOIN jobs j ON j.job_id = r.job_id \
         WHERE (r.status IS NULL) <> (j.finished_at IS NULL)",
    ),
    (
        "7: an end without a decision",
        "SELECT job_id FROM jobs WHERE finished_at IS NOT NULL AND retry_decision IS NULL",
    ),
    (
        "7: a retry that was decided and is not there",
        "SELECT job_id FROM jobs j WHERE retry_decision = 'retried' \
         AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.retry_of = j.job_id)",
    ),
    (
        "7: a chain with a branch",
        "SELECT retry_of FROM jobs WHERE retry_of IS NOT NULL GROUP BY retry_of HAVING count(*) > 1",
    ),
    (
        "7: a chain that is counted wrongly or repeats what has not ended",
        "SELECT n.job_id FROM jobs n LEFT JOIN jobs j ON j.job_id = n.retry_of \
         WHERE n.attempt <> coalesce(j.attempt + 1, 0) \
         OR (n.retry_of IS NOT NULL AND j.finished_at IS NULL)",
    ),
    (
        "a run that was not told what its job was told",
        "SELECT r.run_id FROM job_runs r JOIN jobs j ON j.job_id = r.job_id \
         WHERE r.params_snapshot <> j.params",
    ),
    (
        "a period with two jobs, or an outcome without its job",
        "SELECT schedule_id FROM jobs WHERE period_id IS NOT NULL AND retry_of IS NULL \
         GROUP BY schedule_id, period_id HAVING count(*) > 1 UNION ALL \
         SELECT schedule_id FROM schedule_outcomes o WHERE outcome = 'executed' \
         AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = o.job_id)",
    ),
    (
        "a schedule whose mark is not its last outcome",
        "SELECT s.schedule_id FROM schedules s JOIN schedule_outcomes o \
         ON o.schedule_id = s.schedule_id GROUP BY s.schedule_id \
         HAVING s.last_handled_period IS NOT max(o.last_period)",
    ),
    (
        "two members of a sequential group at once",
        "SELECT g.group_id FROM job_groups g JOIN jobs j ON j.group_id = g.group_id \
         WHERE g.mode = 'sequential' AND j.finished_at IS NULL AND j.hold IS NOT 'group' \
         GROUP BY g.group_id HAVING count(*) > 1",
    ),
];

/// Panics with what is wrong with a file.
pub(crate) fn check(path: &Path, when: &str) {
    let db = Connection::open(path).unwrap();
    for pragma in ["integrity_check", "foreign_key_check"] {
        let mut statement = db.prepare(&format!("PRAGMA {pragma}")).unwrap();
        let found = statement.query_map((), |row| row.get(0)).unwrap();
        let found: Vec<String> = found.map(Result::unwrap).collect();
        assert!(found.is_empty() || found == ["ok"], "{when}: {pragma} found {found:?}");
    }
    for (wrong, sql) in NEVER {
        let mut statement = db.prepare(sql).unwrap();
        let mut rows = statement.query(()).unwrap();
        assert!(rows.next().unwrap().is_none(), "{when}: {wrong}");
    }
}

/// Everything that is in the file, as text.
pub(crate) fn dump(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut tables =
        db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> =
        tables.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut lines = Vec::new();
    for table in tables {
        let mut statement = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<_> =
                (0..columns).map(|column| format!("{:?}", row.get_ref(column).unwrap())).collect();
            lines.push(format!("{table}: {}", values.join(" ")));
        }
    }
    lines.sort();
    lines
}
