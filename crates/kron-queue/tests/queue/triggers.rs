//! Every rule of the schema is the reason for some refusal: with the rule the statement is refused,
//! without it the same statement gets through. A trigger or an index that no row of the table
//! names is an error, so that none is untested.
//!
//! The names in brackets are the invariants of section 5 of the persistence document and the lines
//! of its checklist in section 7 that the rule stands for.

use std::collections::BTreeSet;
use std::path::Path;

use kron_queue::{
    AttachProcess, Claim, Claimed, CreateGroup, CreateSchedule, CreateTemplate, Enqueue, Finish,
    GroupMode, NewJob, OnFailure, Outcome, Queue, Release, Reserve, Rules, RunEnd,
    ScheduleSettings, SetRules, TemplateSettings, Timestamp, TriggerSchedules, Webhook,
};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{at, many_workers, process};

/// A job that ran and one that runs, one that is queued, and some of everything else.
fn world(path: &Path) {
    let webhooks = vec![Webhook { target: "hook".into(), events: vec!["job.completed".into()] }];
    let rules = Rules { webhooks, ..many_workers() };
    let queue = Queue::open(path, Rules::default()).unwrap();
    queue.call(SetRules { rules }).unwrap();
    let add = |kind: &str, key: Option<&str>| {
        let idempotency_key = key.map(str::to_owned);
        let jobs = vec![NewJob { idempotency_key, ..NewJob::of_type(kind, json!({"n": 1})) }];
        queue.call(Enqueue { jobs, now: at(0) }).unwrap();
    };
    let claim = || match queue.call(Claim { worker_id: "w".into(), now: at(1) }).unwrap() {
        Claimed::Run(run) => *run,
        Claimed::Nothing(why) => panic!("{why:?}"),
    };
    let finish = |outcome| {
        let run = claim();
        let (run_id, token) = (run.run.run_id, run.token);
        let attach = AttachProcess {
            run_id,
            token: token.clone(),
            process: process(1),
            command: None,
            log_path: Some("queue/logs/x.log".into()),
        };
        queue.call(attach).unwrap();
        let error = (outcome == Outcome::Failed).then(|| "no".to_owned());
        let end = RunEnd { error, exit_code: Some(3), ..RunEnd::new(outcome) };
        queue.call(Finish { run_id, token, end, now: at(2) }).unwrap();
    };
    add("done", None);
    finish(Outcome::Completed);
    add("failed", None);
    finish(Outcome::Failed);
    add("running", None);
    let running = claim();
    let attach = AttachProcess {
        run_id: running.run.run_id,
        token: running.token,
        process: process(2),
        command: None,
        log_path: None,
    };
    queue.call(attach).unwrap();
    add("queued", Some("k"));
    let settings = TemplateSettings {
        name: "nightly".into(),
        job_type: "story".into(),
        params: json!({}),
        priority: 0,
    };
    let template = queue.call(CreateTemplate { settings, now: at(0) }).unwrap();
    let settings = ScheduleSettings {
        template_id: template.template_id,
        name: "hourly".into(),
        cron_expression: "0 * * * *".into(),
        timezone: None,
        enabled: true,
        param_overrides: None,
    };
    queue.call(CreateSchedule { settings, now: at(0) }).unwrap();
    queue.call(TriggerSchedules { now: Timestamp::from(at(3_600).second()) }).unwrap();
    let (mode, on_failure) = (GroupMode::Sequential, OnFailure::Stop);
    let jobs = vec![NewJob::of_type("g", json!({})); 2];
    queue.call(CreateGroup { name: None, mode, on_failure, jobs, now: at(0) }).unwrap();
    let reserve =
        || Reserve { reserved_by: "cli".into(), owner: process(1), lasts_ms: 1_000, now: at(1) };
    let old = queue.call(reserve()).unwrap();
    queue.call(Release { reservation_id: old.reservation_id, now: at(1) }).unwrap();
    queue.call(reserve()).unwrap();
}

const RUN: &str = "INSERT INTO job_runs (run_id, job_id, template_id, params_snapshot, started_at, \
    worker_id, claim_token";
const NEW_ID: &str = "'01900000-0000-7000-8000-000000000000'";
const TIME: &str = "'2026-03-01T00:00:00.000Z'";

/// A statement that inserts a run of the first job that fits, with these further columns.
fn run_of(job: &str, more: &str, values: &str) -> String {
    format!(
        "{RUN}{more}) SELECT {NEW_ID}, job_id, template_id, params, {TIME}, 'shell', \
         '00000000000000000000000000000000'{values} FROM jobs WHERE {job} LIMIT 1"
    )
}

fn job_like(job: &str, changes: &[(&str, &str)]) -> String {
    let columns = [
        "job_id",
        "template_id",
        "schedule_id",
        "period_id",
        "job_type",
        "params",
        "status",
        "priority",
        "position",
        "retry_of",
        "attempt",
        "created_at",
        "queued_at",
        "idempotency_key",
        "request_hash",
    ];
    let value = |column: &str| {
        let changed = changes.iter().find(|(name, _)| *name == column);
        changed.map_or_else(|| column.to_owned(), |(_, value)| (*value).to_owned())
    };
    let values: Vec<String> = columns.iter().map(|column| value(column)).collect();
    format!(
        "INSERT INTO jobs ({}) SELECT {} FROM jobs WHERE {job} LIMIT 1",
        columns.join(", "),
        values.join(", ")
    )
}

/// What keeps the rule, why the statement is refused, and the statement.
type Row = (&'static str, &'static str, String);

/// A job that is there again, but for its names.
const AGAIN: [(&str, &str); 5] = [
    ("job_id", NEW_ID),
    ("status", "'QUEUED'"),
    ("period_id", "NULL"),
    ("idempotency_key", "NULL"),
    ("request_hash", "NULL"),
];

fn again(job: &str, changes: &[(&'static str, &'static str)]) -> String {
    let all: Vec<_> = changes.iter().copied().chain(AGAIN).collect();
    job_like(job, &all)
}

/// A row in its own place: what removes it without asking.
fn replaced(table: &str, row: &str) -> String {
    format!("INSERT OR REPLACE INTO {table} SELECT * FROM {table} WHERE {row}")
}

fn update(table: &str, row: &str, change: &str) -> String {
    format!("UPDATE {table} SET {change} WHERE {row}")
}

const DONE: &str = "job_type = 'done'";
const RUNNING: &str = "job_type = 'running'";
const QUEUED: &str = "job_type = 'queued'";

fn of_run(job: &str) -> String {
    format!("job_id = (SELECT job_id FROM jobs WHERE {job})")
}

/// [5.1 no RUNNING without JobRun] [7 JobRun is created atomically with the RUNNING transition]
fn a_running_job_has_its_run() -> Vec<Row> {
    let running = format!("status = 'RUNNING', started_at = {TIME}, worker_id = 'shell'");
    vec![
        ("jobs_running", "only with its JobRun", update("jobs", QUEUED, &running)),
        ("jobs_insert", "begins as QUEUED", again(DONE, &[("status", "'CANCELLED'")])),
        (
            "jobs_finish",
            "finishes after its JobRun",
            update("jobs", RUNNING, &format!("finished_at = {TIME}")),
        ),
    ]
}

/// [5.2 no orphan JobRuns] [5.3 no duplicate execution] [7 all transitions are transactional]
fn runs_belong_to_jobs_and_a_job_runs_once() -> Vec<Row> {
    let old = "(SELECT reservation_id FROM direct_reservations WHERE status <> 'ACTIVE')";
    vec![
        ("job_runs_insert", "about to run", run_of("status = 'CANCELLED' OR 1", "", "")),
        ("job_runs_insert", "without an end", run_of(QUEUED, ", lost", ", 1")),
        (
            "job_runs_insert",
            "what its job is told",
            run_of(QUEUED, "", "").replace(" params,", " '{}',"),
        ),
        (
            "job_runs_insert",
            "the active reservation",
            run_of(QUEUED, ", reservation_id", &format!(", {old}")),
        ),
        ("jobs_status", "never back", update("jobs", RUNNING, "status = 'QUEUED'")),
        ("jobs_status", "never back", update("jobs", DONE, "status = 'CANCELLED'")),
        (
            "jobs_replace",
            "never replaced",
            job_like(DONE, &[("status", "'QUEUED'")]).replace("INSERT", "INSERT OR REPLACE"),
        ),
        ("job_runs_replace", "never replaced", replaced("job_runs", &of_run(RUNNING))),
        ("jobs_delete", "kron_purge_permitted", format!("DELETE FROM jobs WHERE {QUEUED}")),
        ("job_runs_delete", "kron_purge_permitted", "DELETE FROM job_runs".into()),
    ]
}

/// [INV-001, INV-002: what does not change] [7 no in-memory-only job state]
fn what_is_written_stays() -> Vec<Row> {
    let done = of_run(DONE);
    let mut rows: Vec<Row> = vec![
        ("jobs_frozen", "only while QUEUED", update("jobs", RUNNING, "params = '{}'")),
        ("jobs_frozen", "only while QUEUED", update("jobs", RUNNING, "priority = 5")),
        ("jobs_frozen", "only while QUEUED", update("jobs", RUNNING, "position = 5")),
        ("jobs_frozen", "only while QUEUED", update("jobs", RUNNING, "not_before = created_at")),
        ("jobs_write_once", "written once", update("jobs", DONE, "finished_at = created_at")),
        ("jobs_write_once", "written once", update("jobs", RUNNING, "started_at = created_at")),
        ("jobs_write_once", "written once", update("jobs", RUNNING, "worker_id = 'x'")),
        ("jobs_write_once", "written once", update("jobs", DONE, "retry_decision = 'direct'")),
        ("job_runs_terminal", "outcome is immutable", update("job_runs", &done, "lost = 1")),
        (
            "job_runs_artifacts",
            "append-only",
            "UPDATE job_runs SET artifacts = '[1]'; UPDATE job_runs SET artifacts = '[]'".into(),
        ),
    ];
    let immutable = [
        ("seq", "999"),
        ("job_id", NEW_ID),
        ("job_type", "'x'"),
        ("attempt", "1"),
        ("created_at", TIME),
        ("queued_at", TIME),
        ("idempotency_key", "'z'"),
    ];
    for (field, value) in immutable {
        let change = format!("{field} = {value}");
        rows.push(("jobs_immutable", "immutable", update("jobs", QUEUED, &change)));
    }
    let immutable = [
        ("run_id", NEW_ID),
        ("params_snapshot", "'[]'"),
        ("started_at", TIME),
        ("worker_id", "'x'"),
        ("claim_token", "'11111111111111111111111111111111'"),
    ];
    for (field, value) in immutable {
        let change = format!("{field} = {value}");
        rows.push(("job_runs_immutable", "immutable", update("job_runs", &done, &change)));
    }
    let once = ["status = 'FAILED'", "exit_code = 9", "finished_at = started_at"];
    for change in once {
        rows.push(("job_runs_write_once", "written once", update("job_runs", &done, change)));
    }
    let running = of_run(RUNNING);
    rows.push(("job_runs_write_once", "written once", update("job_runs", &running, "pid = 77")));
    rows
}

/// [2.4 retry chain] [7 retry chain is traceable via `retry_of`]
fn chains_are_counted_and_have_no_branches() -> Vec<Row> {
    let original = "(SELECT retry_of FROM jobs WHERE retry_of IS NOT NULL)";
    vec![
        ("jobs_insert", "attempt 0", again(DONE, &[("attempt", "1")])),
        (
            "jobs_insert",
            "follows a finished job",
            again(QUEUED, &[("retry_of", "job_id"), ("attempt", "1")]),
        ),
        (
            "jobs_retry_of",
            "UNIQUE constraint failed: jobs.retry_of",
            again(QUEUED, &[("retry_of", original), ("attempt", "1")]),
        ),
    ]
}

/// [5.5 reservation exclusivity] [7 direct reservation survives crash]
fn one_reservation_is_active_and_ends_once() -> Vec<Row> {
    let insert = |status: &str, ended: &str| {
        format!(
            "INSERT INTO direct_reservations VALUES ({NEW_ID}, {TIME}, 'x', {status}, {TIME}, \
             {ended}, 'b', 1, 1)"
        )
    };
    let released = "status = 'RELEASED'";
    let active = "(SELECT reservation_id FROM direct_reservations WHERE status = 'ACTIVE')";
    let direct = run_of(QUEUED, ", reservation_id", &format!(", {active}"));
    let second =
        direct.replacen("0000-7000-8000", "0000-7000-8001", 1).replace(QUEUED, "job_type = 'g'");
    vec![
        ("direct_reservations_active", "UNIQUE", insert("'ACTIVE'", "NULL")),
        (
            "reservations_replace",
            "never replaced",
            replaced("direct_reservations", "status = 'ACTIVE'"),
        ),
        ("reservations_insert", "begins as ACTIVE", insert("'RELEASED'", TIME)),
        (
            "reservations_update",
            "ends once",
            update("direct_reservations", released, "status = 'EXPIRED'"),
        ),
        (
            "reservations_update",
            "does not change",
            update("direct_reservations", "status = 'ACTIVE'", "reserved_by = 'x'"),
        ),
        ("job_runs_reservation", "UNIQUE", format!("{direct}; {second}")),
    ]
}

/// [Schedules: a period is enqueued at most once and nothing is decided twice]
fn periods_happen_once() -> Vec<Row> {
    let of_schedule = "schedule_id IS NOT NULL";
    let same_period = [("job_id", NEW_ID), ("idempotency_key", "NULL")];
    vec![
        ("jobs_period", "UNIQUE", job_like(of_schedule, &same_period)),
        (
            "schedules_mark",
            "never moves back",
            "UPDATE schedules SET last_handled_period = '2020-01-01T00:00:00Z'".into(),
        ),
        ("schedules_immutable", "immutable", format!("UPDATE schedules SET created_at = {TIME}")),
        (
            "schedule_outcomes_immutable",
            "immutable",
            "UPDATE schedule_outcomes SET outcome = 'missed'".into(),
        ),
    ]
}

/// [Names and keys] [Webhooks: what is told is not changed, and ends once]
fn names_keys_and_deliveries() -> Vec<Row> {
    let template = "INSERT INTO job_templates (template_id, name, job_type, params, priority, \
        created_at, updated_at) SELECT NEW, name, job_type, params, priority, created_at, \
        updated_at FROM job_templates";
    let schedule = "INSERT INTO schedules (schedule_id, template_id, name, cron_expression, \
        timezone, enabled, created_at, updated_at, decision_hash) SELECT NEW, template_id, name, \
        cron_expression, timezone, enabled, created_at, updated_at, decision_hash FROM schedules";
    let delivered =
        format!("UPDATE webhook_deliveries SET status = 'delivered', finished_at = {TIME}");
    vec![
        (
            "jobs_idempotency",
            "UNIQUE constraint failed: jobs.idempotency_key",
            job_like(QUEUED, &[("job_id", NEW_ID)]),
        ),
        ("job_templates_name", "UNIQUE", template.replace("NEW", NEW_ID)),
        ("schedules_name", "UNIQUE", schedule.replace("NEW", NEW_ID)),
        (
            "webhook_deliveries_immutable",
            "immutable",
            "UPDATE webhook_deliveries SET payload = '{}'".into(),
        ),
        (
            "webhook_deliveries_status",
            "ends once",
            format!("{delivered}; UPDATE webhook_deliveries SET attempts = 9"),
        ),
    ]
}

fn rows() -> Vec<Row> {
    let all = [
        a_running_job_has_its_run,
        runs_belong_to_jobs_and_a_job_runs_once,
        what_is_written_stays,
        chains_are_counted_and_have_no_branches,
        one_reservation_is_active_and_ends_once,
        periods_happen_once,
        names_keys_and_deliveries,
    ];
    all.iter().flat_map(|rows| rows()).collect()
}

/// Runs a statement in a transaction that is taken back; what it said, if it was refused.
fn tried(shell: &Connection, before: &str, sql: &str) -> Result<(), String> {
    shell.execute_batch("BEGIN").unwrap();
    shell.execute_batch(before).unwrap();
    let result = shell.execute_batch(sql).map_err(|error| error.to_string());
    shell.execute_batch("ROLLBACK").unwrap();
    result
}

fn drop_rule(shell: &Connection, name: &str) -> String {
    let kind: String = shell
        .query_row("SELECT type FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))
        .unwrap_or_else(|_| panic!("there is no rule `{name}`"));
    format!("DROP {kind} {name}")
}

#[test]
fn every_trigger_and_unique_index_is_the_reason_of_a_refusal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    world(&path);
    let shell = Connection::open(&path).unwrap();
    shell.pragma_update(None, "foreign_keys", "ON").unwrap();
    let rows = rows();
    for (rule, why, sql) in &rows {
        let said = tried(&shell, "", sql).expect_err(&format!("{rule} let this through: {sql}"));
        assert!(said.contains(why), "{rule}: `{sql}` said `{said}`, not `{why}`");
        // Other rules may refuse it for their own reasons; this one does not any more.
        let without = tried(&shell, &drop_rule(&shell, rule), sql);
        let same = without.as_ref().is_err_and(|said| said.contains(why));
        assert!(!same, "{sql} is refused without `{rule}`, too: {without:?}");
    }
    let tested: BTreeSet<&str> = rows.iter().map(|(rule, ..)| *rule).collect();
    let mut statement = shell
        .prepare(
            "SELECT name FROM sqlite_schema WHERE sql IS NOT NULL AND \
             (type = 'trigger' OR (type = 'index' AND sql LIKE 'CREATE UNIQUE%')) ORDER BY name",
        )
        .unwrap();
    let names: Vec<String> =
        statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    // This one does something instead of refusing, and is tested below.
    let untested: Vec<&String> = names
        .iter()
        .filter(|name| !tested.contains(name.as_str()) && *name != "job_runs_begin")
        .collect();
    assert!(untested.is_empty(), "no statement shows what these are for: {untested:?}");
}

/// How many of the rules refuse for a reason of their own: without them the statement gets
/// through to the end.
#[test]
fn most_rules_are_alone_in_what_they_refuse() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    world(&path);
    let shell = Connection::open(&path).unwrap();
    shell.pragma_update(None, "foreign_keys", "ON").unwrap();
    // A job that is no longer finished may not be deleted either, as its run would be an orphan,
    // and the table itself refuses what makes no sense at all.
    let rules: BTreeSet<&str> = rows().iter().map(|(rule, ..)| *rule).collect();
    let passes = |rule: &&str| {
        rows()
            .iter()
            .any(|(of, _, sql)| of == rule && tried(&shell, &drop_rule(&shell, rule), sql).is_ok())
    };
    let never: Vec<&&str> = rules.iter().filter(|rule| !passes(rule)).collect();
    assert!(never.is_empty(), "no statement gets through without these: {never:?}");
}

/// [5.1, 5.3] A run cannot lie beside a queued job: to insert it is to claim the job.
#[test]
fn a_run_inserted_by_a_shell_claims_its_job_and_is_recovered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    world(&path);
    let shell = Connection::open(&path).unwrap();
    let insert = run_of(QUEUED, "", "");
    let state = |shell: &Connection| -> (String, Option<String>, Option<String>) {
        let sql = format!("SELECT status, started_at, worker_id FROM jobs WHERE {QUEUED}");
        shell.query_row(&sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
    };
    // Without the trigger it would lie there.
    shell.execute_batch(&format!("BEGIN; DROP TRIGGER job_runs_begin; {insert}")).unwrap();
    assert_eq!(state(&shell).0, "QUEUED");
    shell.execute_batch("ROLLBACK").unwrap();
    shell.execute_batch(&insert).unwrap();
    let time = TIME.trim_matches('\'').to_owned();
    assert_eq!(state(&shell), ("RUNNING".into(), Some(time), Some("shell".into())));
    drop(shell);
    let queue = Queue::open(&path, many_workers()).unwrap();
    let open = queue.open_runs().unwrap();
    assert!(open.iter().any(|run| run.worker_id == "shell" && run.process.is_none()));
}
