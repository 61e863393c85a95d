//! Plans of the lists, and what a page costs when what is wanted is rare.

use rusqlite::{Connection, StatementStatus};
use serde_json::json;

use super::*;
use crate::{
    Cancel, Claim, Claimed, CreateGroup, CreateTemplate, DeliveryStatus, Enqueue, Finish,
    GroupMode, NewJob, OnFailure, Outcome, Rules, RunEnd, RunState, TemplateSettings, limits,
};

const STATES: [JobState; 8] = [
    JobState::Queued,
    JobState::Delayed,
    JobState::Blocked,
    JobState::Running,
    JobState::Completed,
    JobState::Failed,
    JobState::Skipped,
    JobState::Cancelled,
];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + seconds * 1_000).unwrap()
}

/// Every filter alone, with ids that name nothing.
fn filters() -> Vec<JobFilter> {
    let id = "01900000-0000-7000-8000-000000000000";
    let none = JobFilter::default;
    let mut filters = vec![
        none(),
        JobFilter { job_type: Some("rare".into()), ..none() },
        JobFilter { group_id: id.parse().ok(), ..none() },
        JobFilter { schedule_id: id.parse().ok(), ..none() },
        JobFilter { template_id: id.parse().ok(), ..none() },
    ];
    filters.extend(STATES.map(|state| JobFilter { state: Some(state), ..none() }));
    filters
}

/// The statements of a list, with as many parameters as they need.
fn statements(filter: &JobFilter) -> Vec<String> {
    let list = List::of(filter);
    match list.route {
        Route::Ready => {
            [ORDER_SAME_SQL, ORDER_BELOW_SQL].map(|from| list.order_sql("j.job_id", from)).into()
        }
        _ => vec![list.sql("j.job_id")],
    }
}

fn plan(db: &Connection, sql: &str) -> String {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let rows = statement
        .query_map(rusqlite::params_from_iter(vec!["0"; count]), |row| row.get::<_, String>(3))
        .unwrap();
    rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

fn opened() -> (tempfile::TempDir, Queue) {
    let directory = tempfile::tempdir().unwrap();
    let rules = Rules { workers_max: 10, ..Rules::default() };
    let queue = Queue::open(&directory.path().join("queue.db"), rules).unwrap();
    (directory, queue)
}

#[test]
fn every_filter_alone_goes_along_an_index_and_never_sorts() {
    let (_directory, queue) = opened();
    let db = Connection::open(queue.path()).unwrap();
    let mut seen: Vec<(String, String)> = Vec::new();
    for filter in filters() {
        for sql in statements(&filter) {
            seen.push((format!("{filter:?}"), plan(&db, &sql)));
        }
    }
    for state in [None, Some(RunState::Completed), Some(RunState::Failed)] {
        seen.push((format!("{state:?}"), plan(&db, &crate::runs::list_sql(state, "run_id"))));
    }
    for status in [None, Some(DeliveryStatus::Pending)] {
        seen.push((format!("{status:?}"), plan(&db, &crate::outbox::list_sql(status, "target"))));
    }
    seen.push(("groups".into(), plan(&db, crate::group::LIST_SQL)));
    for (what, plan) in &seen {
        // Those that run are no more than there are workers.
        let few = what.contains("Running");
        assert!(few || !plan.contains("TEMP B-TREE"), "{what}: {plan}");
        assert!(few || !plan.contains("SCAN"), "{what}: {plan}");
        assert!(plan.contains("SEARCH") || plan.contains("jobs_active"), "{what}: {plan}");
    }
    assert_eq!(seen.len(), 13 + 1 + 3 + 2 + 1);
}

/// Many jobs of one type, most of them ended, and one or none of everything else.
fn filled(rows: usize) -> (tempfile::TempDir, Queue) {
    let (directory, queue) = opened();
    let settings = TemplateSettings {
        name: "t".into(),
        job_type: "rare".into(),
        params: json!({}),
        priority: 0,
    };
    let template = queue.call(CreateTemplate { settings, now: at(0) }).unwrap().template_id;
    let rare = NewJob { template_id: Some(template), ..NewJob::default() };
    let cancelled = queue.call(Enqueue { jobs: vec![rare.clone()], now: at(0) }).unwrap();
    let cancelled = cancelled[0].job().job_id;
    queue.call(Cancel { job_id: cancelled, now: at(0) }).unwrap();
    for outcome in [Outcome::Failed, Outcome::Skipped] {
        queue.call(Enqueue { jobs: vec![rare.clone()], now: at(0) }).unwrap();
        end(&queue, outcome);
    }
    let jobs = vec![NewJob::of_type("many", json!({})); 2];
    let (mode, on_failure) = (GroupMode::Sequential, OnFailure::Continue);
    queue.call(CreateGroup { name: None, mode, on_failure, jobs, now: at(0) }).unwrap();
    for call in 0..rows.div_ceil(limits::JOBS_PER_CALL_MAX) {
        let count = rows.min(limits::JOBS_PER_CALL_MAX);
        let jobs = vec![NewJob::of_type("many", json!({})); count];
        queue.call(Enqueue { jobs, now: at(call as i64 + 1) }).unwrap();
    }
    // Ended by a shell and without the rules, which cost more than the test has time for; lists do
    // not ask who wrote.
    let db = Connection::open(queue.path()).unwrap();
    let mut triggers = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
    let names: Vec<String> =
        triggers.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for name in names {
        db.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    db.execute_batch(
        "BEGIN; \
         INSERT INTO job_runs (run_id, job_id, params_snapshot, status, started_at, finished_at, \
           worker_id, claim_token) \
         SELECT job_id, job_id, '{}', 'COMPLETED', created_at, created_at, 'w', \
           '00000000000000000000000000000000' FROM jobs WHERE job_type = 'many' AND seq > 10; \
         UPDATE jobs SET status = 'RUNNING', started_at = created_at, finished_at = created_at, \
           retry_decision = 'none' WHERE job_type = 'many' AND seq > 10; COMMIT;",
    )
    .unwrap();
    drop(triggers);
    (directory, queue)
}

fn end(queue: &Queue, outcome: Outcome) {
    let claim = Claim { worker_id: "w".into(), now: at(0) };
    let Claimed::Run(run) = queue.call(claim).unwrap() else { panic!("nothing to claim") };
    let (run_id, token) = (run.run.run_id, run.token);
    queue.call(Finish { run_id, token, end: RunEnd::new(outcome), now: at(0) }).unwrap();
}

/// Steps of the virtual machine that the first page of a list takes.
fn steps(queue: &Queue, filter: &JobFilter) -> i32 {
    let db = Connection::open(queue.path()).unwrap();
    let list = List::of(filter);
    let (sql, first): (String, Vec<&dyn ToSql>) = match list.route {
        Route::Ready => (list.order_sql(JOB_COLUMNS, ORDER_BELOW_SQL), vec![&i64::MAX]),
        Route::Delayed => (list.sql(JOB_COLUMNS), vec![&"", &0_i64]),
        Route::Ended => (list.sql(JOB_COLUMNS), vec![&"~"]),
        _ => (list.sql(JOB_COLUMNS), vec![&i64::MAX]),
    };
    let mut values = list.values();
    values.extend(first);
    let mut statement = db.prepare(&sql).unwrap();
    let mut rows = statement.query(values.as_slice()).unwrap();
    for _ in 0..10 {
        if rows.next().unwrap().is_none() {
            break;
        }
    }
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn a_page_of_what_is_rare_costs_the_same_among_50_000_jobs() {
    let (_small_directory, small) = filled(500);
    let (_large_directory, large) = filled(50_000);
    for filter in filters() {
        let (few, many) = (steps(&small, &filter), steps(&large, &filter));
        assert!(
            many <= few + few / 2 + 20,
            "{filter:?}: {few} steps among 500, {many} among 50,000"
        );
    }
    let found = |filter: &JobFilter| large.jobs(filter, None, 10).unwrap().items.len();
    let counts: Vec<usize> = filters().iter().map(found).collect();
    // All, type, group, schedule, template (those three name nothing); then the states in their
    // order: the failed one has a successor that waits, and the group one that may not run yet.
    assert_eq!(counts, [10, 4, 0, 0, 0, 5, 1, 1, 0, 10, 1, 1, 1]);
}

#[test]
fn a_page_looks_at_so_many_rows_and_the_next_goes_on() {
    let (_directory, queue) = filled(25_000);
    let filter = JobFilter {
        state: Some(JobState::Completed),
        job_type: Some("rare".into()),
        ..JobFilter::default()
    };
    assert!(queue.jobs(&filter, None, 10).unwrap().next.is_none());
    // By their runs this is a walk past all the others.
    let filter = crate::RunFilter { state: None, job_type: Some("rare".into()) };
    let (mut found, mut pages, mut after) = (0, 0, None);
    loop {
        let page = queue.runs(&filter, after.as_ref(), 10).unwrap();
        (found, pages, after) = (found + page.items.len(), pages + 1, page.next);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, pages), (2, 25_000 / limits::PAGE_EXAMINED_MAX + 1));
}
