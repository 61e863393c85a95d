//! Every statement that the writer executes, as it executes it: none reads or sorts a big table,
//! and none costs more among 1,000,000 jobs than among 1,000.
//!
//! The statements are not listed but listened to, so that none is forgotten: the connection that is
//! given to the queue tells what it executed and how many steps that took.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, StatementStatus};
use serde_json::json;

use crate::database::{Access, connect, prepare};
use crate::purge::PurgePermit;
use crate::{
    AttachProcess, Cancel, Claim, ClaimDeliveries, Claimed, ClaimedRun, CreateGroup,
    CreateSchedule, CreateTemplate, Edit, Enqueue, Finish, FinishDelivery, GroupMode, JobId,
    KernelEntropy, Liveness, Move, NewJob, OnFailure, Operation, Outcome, Place, ProcessIdentity,
    Purge, Queue, Recover, Release, Reserve, Retry, RetryPolicy, Rules, RunEnd, ScheduleSettings,
    SetPause, SetPriority, StartDirect, TemplateSettings, Timestamp, TriggerSchedules, Webhook,
};

const SMALL_ROWS: i64 = 1_000;
const LARGE_ROWS: i64 = 1_000_000;
/// More than the databases need with their logs.
const DATABASE_BYTES_MAX: u64 = 4 << 30;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + seconds * 1_000).unwrap()
}

/// What was heard of a statement.
#[derive(Clone, Copy, Default)]
struct Heard {
    steps: i64,
    /// Steps of which its counter had told before.
    steps_before: i32,
    /// How often it was prepared anew, which costs more than most of them do.
    prepared_again: i32,
}

static HEARD: Mutex<BTreeMap<String, Heard>> = Mutex::new(BTreeMap::new());

fn listen(event: TraceEvent<'_>) {
    let TraceEvent::Profile(statement, _) = event else { return };
    let steps = statement.get_status(StatementStatus::VmStep);
    let mut heard = HEARD.lock().unwrap();
    let heard = heard.entry(statement.sql().into_owned()).or_default();
    // The counter of a statement goes on while it is in the cache, and begins anew when it is not.
    let before = if steps >= heard.steps_before { heard.steps_before } else { 0 };
    heard.steps += i64::from(steps - before);
    heard.steps_before = steps;
    heard.prepared_again = statement.get_status(StatementStatus::RePrepare);
}

/// Half of the jobs are of a paused type, in front; a third of all are delayed; the rest may run.
fn fill(path: &Path, rows: i64) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000").unwrap();
    let far = at(100_000_000);
    let (time, near) = (at(0), at(1_000));
    db.execute_batch(&format!(
        "INSERT INTO jobs (job_id, job_type, params, status, priority, position, attempt, \
         created_at, queued_at, not_before, hold) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
         SELECT printf('01900000-0000-7000-8000-%012d', i), \
         iif(i % 2, 'paused', 'open'), '{{}}', 'QUEUED', i % 2, i * 100, 0, '{time}', '{time}', \
         CASE WHEN i = 6 THEN '{near}' WHEN i % 3 = 0 THEN '{far}' END, \
         CASE WHEN i % 3 = 0 THEN 'delay' END FROM n"
    ))
    .unwrap();
}

fn rules() -> Rules {
    Rules {
        workers_max: 100,
        type_limits: BTreeMap::from([("full".to_owned(), 1)]),
        retry_of_type: BTreeMap::from([(
            "member".to_owned(),
            RetryPolicy { retries_max: 0, ..RetryPolicy::default() },
        )]),
        webhooks: vec![Webhook { target: "hook".into(), events: vec!["job.failed".into()] }],
        ..Rules::default()
    }
}

/// One of everything that happens while a queue is in use.
struct Use(Queue);

impl Use {
    fn call<O: Operation>(&self, operation: O) -> O::Output {
        self.0.call(operation).unwrap()
    }

    fn add(&self, job: NewJob) -> JobId {
        self.call(Enqueue { jobs: vec![job], now: at(0) }).remove(0).job().job_id
    }

    fn first(&self, kind: &str, seconds: i64) -> ClaimedRun {
        match self.call(Claim { worker_id: "w".into(), now: at(seconds) }) {
            Claimed::Run(run) if run.job.job_type == kind => *run,
            other => panic!("{other:?}"),
        }
    }

    fn finish(&self, run: ClaimedRun, outcome: Outcome, seconds: i64) {
        let (run_id, token) = (run.run.run_id, run.token);
        self.call(Finish { run_id, token, end: RunEnd::new(outcome), now: at(seconds) });
    }

    fn urgent(kind: &str) -> NewJob {
        NewJob { priority: Some(5), ..NewJob::of_type(kind, json!({})) }
    }

    fn all(&self) {
        let process = ProcessIdentity { boot_id: "b".into(), pid: 1, start_ticks: 1 };
        let reason = "broken".to_owned();
        self.call(SetPause { job_type: Some("paused".into()), reason, now: at(0) });
        // Claims and ends, past a closed type, and with a job whose time comes.
        let run = self.first("open", 1);
        let (run_id, token) = (run.run.run_id, run.token.clone());
        let log_path = Some("x".to_owned());
        self.call(AttachProcess {
            run_id,
            token,
            process: process.clone(),
            command: None,
            log_path,
        });
        self.finish(run, Outcome::Completed, 2);
        let failed = self.first("open", 1_001);
        self.finish(failed, Outcome::Failed, 1_002);
        let id = self.add(NewJob { idempotency_key: Some("k".into()), ..Self::urgent("a") });
        self.add(NewJob { idempotency_key: Some("k".into()), ..Self::urgent("a") });
        // The order, by hand.
        let other = self.add(NewJob { not_before: Some(at(2_000)), ..Self::urgent("b") });
        for to in [Place::Top, Place::Bottom, Place::Before(other), Place::After(other)] {
            self.call(Move { job_id: id, to });
        }
        self.call(SetPriority { job_id: id, priority: 6 });
        self.call(Edit { job_id: id, params: Some(json!({})), not_before: None, now: at(3) });
        // Cancelling, and retries by hand.
        self.call(Cancel { job_id: other, now: at(3) });
        let run = self.first("a", 4);
        self.call(Cancel { job_id: run.job.job_id, now: at(4) });
        self.finish(run, Outcome::Cancelled, 4);
        self.call(Retry { job_id: id, now: at(4) });
        self.finish(self.first("a", 5), Outcome::Skipped, 5);
        // Direct execution.
        let lasts_ms = 1_000;
        let reserve = Reserve { reserved_by: "x".into(), owner: process, lasts_ms, now: at(6) };
        let reservation_id = self.call(reserve).reservation_id;
        let job = NewJob::of_type("direct", json!({}));
        let start = StartDirect { reservation_id, job, worker_id: "d".into(), now: at(6) };
        let Claimed::Run(run) = self.call(start) else { panic!("no slot") };
        self.finish(*run, Outcome::Failed, 7);
        self.call(Release { reservation_id, now: at(7) });
        self.schedules();
        self.groups();
        // What a crash leaves, what is old, and what is to be told.
        self.add(Self::urgent("a"));
        self.first("a", 9);
        let (runs, reservation_owner) = (BTreeMap::new(), Liveness::Dead);
        self.call(Recover { runs, reservation_owner, reservation_lasts_ms: 1, now: at(10) });
        for delivery in self.call(ClaimDeliveries { lease_ms: 1_000, now: at(10) }) {
            let delivery_id = delivery.delivery_id;
            let (http_status, error) = (Some(200), None);
            self.call(FinishDelivery { delivery_id, http_status, error, now: at(10) });
        }
        self.call(Purge { ended_before: at(100_000) });
    }

    fn schedules(&self) {
        let (name, job_type) = ("nightly".to_owned(), "timed".to_owned());
        let settings = TemplateSettings { name, job_type, params: json!({}), priority: 9 };
        let template_id = self.call(CreateTemplate { settings, now: at(0) }).template_id;
        let settings = ScheduleSettings {
            template_id,
            name: "hourly".into(),
            cron_expression: "0 * * * * @policy(concurrency=replace)".into(),
            timezone: None,
            enabled: true,
            param_overrides: None,
        };
        self.call(CreateSchedule { settings, now: at(0) });
        for hour in 1..3 {
            let made = self.call(TriggerSchedules { now: at(3_600 * hour) }).jobs;
            assert_eq!(made.len(), 1);
        }
        self.finish(self.first("timed", 7_300), Outcome::Completed, 7_300);
    }

    fn groups(&self) {
        for on_failure in [OnFailure::Continue, OnFailure::Stop, OnFailure::Skip] {
            let jobs = vec![Self::urgent("member"); 3];
            let (name, mode) = (None, GroupMode::Sequential);
            self.call(CreateGroup { name, mode, on_failure, jobs, now: at(8) });
            self.finish(self.first("member", 8), Outcome::Completed, 8);
            self.finish(self.first("member", 8), Outcome::Failed, 8);
            if on_failure == OnFailure::Continue {
                self.finish(self.first("member", 8), Outcome::Completed, 8);
            }
        }
    }
}

/// What a used queue of this many jobs executed, with the steps of each statement.
fn used(path: &Path, rows: i64) -> BTreeMap<String, Heard> {
    drop(Queue::open(path, rules()).unwrap());
    fill(path, rows);
    let path = prepare(path).unwrap();
    let mut connection = connect(&path, Access::Write).unwrap();
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    connection.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(listen)).unwrap();
    let queue = Queue::start(connection, path, rules(), Box::new(KernelEntropy)).unwrap();
    HEARD.lock().unwrap().clear();
    let used = Use(queue);
    used.all();
    drop(used);
    std::mem::take(&mut *HEARD.lock().unwrap())
}

fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
    let rows =
        statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3));
    rows.unwrap().map(Result::unwrap).collect()
}

/// A scan that reads little: along a partial index that holds few rows or from whose beginning only
/// as many are read as are asked for, of a table that is small, or of what was just gathered.
fn reads_little(part: &str) -> bool {
    const LITTLE: [&str; 12] = [
        "CONSTANT ROW",
        "SCAN chain",
        "SCAN down",
        "SCAN pauses",
        "SCAN old VIRTUAL TABLE",
        "INDEX jobs_ready",
        "INDEX jobs_active",
        "INDEX jobs_delayed",
        "INDEX jobs_undecided",
        "INDEX schedules_due",
        "INDEX direct_reservations_active",
        "INDEX webhook_deliveries_due",
    ];
    LITTLE.iter().any(|little| part.contains(little))
}

/// A sort of what is bounded otherwise: jobs that run, and the jobs of one schedule or group.
fn sorts_little(sql: &str) -> bool {
    sql.contains("INDEXED BY jobs_active")
        || sql.contains("schedule_id = ?1 AND finished_at IS NULL")
}

#[test]
fn what_the_writer_executes_costs_the_same_among_a_million_jobs() {
    let directory = kron_testkit::files::scratch_for(DATABASE_BYTES_MAX);
    let (small, large) = (directory.path().join("small.db"), directory.path().join("large.db"));
    let few = used(&small, SMALL_ROWS);
    let many = used(&large, LARGE_ROWS);
    assert!(few.len() > 60, "only {} statements were heard", few.len());
    let mut wrong = Vec::new();
    for (sql, heard) in &many {
        let before = few.get(sql).unwrap_or_else(|| panic!("not among few: {sql}")).steps;
        if heard.steps * 2 > before * 3 {
            wrong.push(format!("{before} steps became {}: {sql}", heard.steps));
        }
        if heard.prepared_again > 0 {
            wrong.push(format!("prepared again {} times: {sql}", heard.prepared_again));
        }
    }
    let db = Connection::open(&large).unwrap();
    let _permit = PurgePermit::install(&db).unwrap();
    for sql in many.keys() {
        for part in plan(&db, sql) {
            let scans = part.starts_with("SCAN") && !reads_little(&part);
            let sorts = part.contains("TEMP B-TREE") && !sorts_little(sql);
            if scans || sorts {
                wrong.push(format!("{part}: {sql}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
