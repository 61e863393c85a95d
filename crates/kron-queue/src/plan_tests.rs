//! Query plans of the hot statements, and what they cost as the queue grows.

use rusqlite::{Connection, StatementStatus};
use serde_json::json;

use crate::claim::{
    ACTIVE_SQL, HEAD_OF_TYPE_SQL, HEAD_SQL, NEXT_DELAYED_SQL, NEXT_TYPE_SQL, RELEASE_DELAYED_SQL,
};
use crate::jobs::{ORDER_BELOW_SQL, ORDER_SAME_SQL};
use crate::{Claim, Claimed, Enqueue, NewJob, Queue, Rules, SetPause, Timestamp, limits};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + seconds * 1_000).unwrap()
}

/// A queue of this many jobs: a paused type in front, delayed ones among them, an open one behind.
fn filled(rows: usize) -> (tempfile::TempDir, Queue) {
    let directory = tempfile::tempdir().unwrap();
    let rules = Rules { workers_max: 100, ..Rules::default() };
    let queue = Queue::open(&directory.path().join("queue.db"), rules).unwrap();
    let calls = rows.div_ceil(limits::JOBS_PER_CALL_MAX);
    for call in 0..calls {
        let jobs = (0..rows / calls).map(|n| {
            let (kind, priority) = if call == calls - 1 { ("open", 0) } else { ("paused", 1) };
            NewJob {
                priority: Some(priority),
                not_before: (n % 3 == 0).then(|| at(1_000_000)),
                ..NewJob::of_type(kind, json!({}))
            }
        });
        queue.call(Enqueue { jobs: jobs.collect(), now: at(0) }).unwrap();
    }
    let pause = SetPause { job_type: Some("paused".into()), reason: "broken".into(), now: at(0) };
    queue.call(pause).unwrap();
    (directory, queue)
}

/// The statements of a claim, with parameters that fit.
const HOT: [(&str, &[&str]); 8] = [
    (HEAD_SQL, &[]),
    (HEAD_OF_TYPE_SQL, &["open"]),
    (NEXT_TYPE_SQL, &[""]),
    (NEXT_TYPE_SQL, &["open"]),
    (RELEASE_DELAYED_SQL, &["2027-01-15T09:00:00.000Z"]),
    (NEXT_DELAYED_SQL, &[]),
    (ACTIVE_SQL, &[]),
    (
        "SELECT position FROM jobs WHERE status = 'QUEUED' AND priority = ?1 \
         ORDER BY position DESC LIMIT 1",
        &["1"],
    ),
];

fn plan(db: &Connection, sql: &str) -> String {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let rows = statement
        .query_map(rusqlite::params_from_iter(vec!["0"; count]), |row| row.get::<_, String>(3))
        .unwrap();
    rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[test]
fn hot_statements_use_an_index_and_never_sort() {
    let (_directory, queue) = filled(1_000);
    let db = Connection::open(queue.path()).unwrap();
    let order = [ORDER_SAME_SQL, ORDER_BELOW_SQL].map(|sql| format!("SELECT j.job_id {sql}"));
    let due = format!("SELECT schedule_id {}", crate::trigger::DUE_SQL);
    let all = HOT.iter().map(|(sql, _)| *sql).chain(order.iter().map(String::as_str));
    for sql in all.chain([due.as_str()]) {
        let plan = plan(&db, sql);
        assert!(plan.contains("INDEX"), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        // Going along a partial index from its beginning is called a scan, too.
        for part in plan.split("; ").filter(|part| part.starts_with("SCAN")) {
            let whole = ["jobs_ready", "jobs_active", "jobs_delayed"];
            assert!(whole.iter().any(|index| part.contains(index)), "{sql}: {plan}");
        }
    }
}

/// Steps of the virtual machine that the statements of a claim take.
fn steps(queue: &Queue) -> i32 {
    let db = Connection::open(queue.path()).unwrap();
    let step = |(sql, parameters): &(&str, &[&str])| {
        let mut statement = db.prepare(sql).unwrap();
        if sql.starts_with("UPDATE") {
            statement.execute(rusqlite::params_from_iter(*parameters)).unwrap();
        } else {
            let mut rows = statement.query(rusqlite::params_from_iter(*parameters)).unwrap();
            while rows.next().unwrap().is_some() {}
        }
        statement.get_status(StatementStatus::VmStep)
    };
    HOT.iter().map(step).sum()
}

#[test]
fn a_claim_costs_the_same_among_100_000_jobs() {
    let (_small_directory, small) = filled(1_000 * 2);
    let (_large_directory, large) = filled(100_000);
    let (few, many) = (steps(&small), steps(&large));
    assert!(many * 2 <= few * 3, "{few} steps among 2,000 jobs, {many} among 100,000");
    let claim = Claim { worker_id: "w".into(), now: at(1) };
    let Claimed::Run(run) = large.call(claim).unwrap() else { panic!("nothing to claim") };
    assert_eq!(run.job.job_type, "open");
}
