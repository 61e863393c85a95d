//! Kills under load: a child process does what 64 clients and their workers do and tells what it
//! was told; its parent kills it at an arbitrary moment, recovers, and starts the next.
//!
//! The checker sees only what was acknowledged (lines on a pipe, read before the kill or left in
//! it) and what the handlers recorded (a file that each execution appends to); it reads the
//! database with SQL that shares nothing with the code that wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kron_queue::{
    Claim, Claimed, Enqueue, Finish, JobId, Liveness, NewJob, Outcome, Queue, Recover, RetryPolicy,
    Rules, RunEnd,
};
use kron_testkit::chance::number;
use kron_testkit::waiting::{PATIENCE, now};
use rusqlite::Connection;
use serde_json::json;

use crate::invariants;
use crate::support::at;

const DIRECTORY: &str = "KRON_QUEUE_TEST_CRASH";
const ROUND: &str = "KRON_QUEUE_TEST_CRASH_ROUND";
/// How long to go on, for the long version.
const SECONDS: &str = "KRON_QUEUE_SOAK_SECONDS";
const ROUNDS_MIN: u64 = 4;
/// How much must have happened at least, however slow the machine is.
const ENQUEUED_MIN: usize = 200;
const FINISHED_MIN: usize = 100;
const CLIENTS: i64 = 64;
const WORKERS: i64 = 8;
/// Priorities that jobs have, from 0.
const PRIORITIES: i64 = 3;

fn rules() -> Rules {
    let retry = RetryPolicy { backoff_first_ms: 0, lost_retries_max: 3, ..RetryPolicy::default() };
    Rules { workers_max: 1_000_000, retry, ..Rules::default() }
}

#[test]
fn what_was_told_survives_kills_and_nothing_is_doubled() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let round: u64 = std::env::var_os(ROUND).unwrap().to_str().unwrap().parse().unwrap();
        return under_load(directory.as_ref(), round);
    }
    kill_under_load(Duration::from_secs(number(SECONDS, 0)));
}

#[test]
#[ignore = "full: kills for half a minute"]
fn what_was_told_survives_many_kills_and_nothing_is_doubled() {
    kill_under_load(Duration::from_secs(30));
}

/// Kills a few times, and then for as long as this takes.
fn kill_under_load(time: Duration) {
    let begun = now();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let mut told = Told::default();
    let mut round = 0;
    let (mut last, mut since) = (told.counts(), now());
    while round < ROUNDS_MIN || begun.elapsed() < time || !told.is_enough() {
        run_and_kill(directory.path(), round, &mut told);
        let counts = told.counts();
        if counts != last {
            (last, since) = (counts, now());
        }
        let goes_on = told.is_enough() || now() < since + PATIENCE;
        assert!(goes_on, "no more within {PATIENCE:?}: {counts:?} enqueued and finished");
        check(&path, &told, round);
        recover(&path);
        check(&path, &told, round);
        round += 1;
    }
    drain(&path, directory.path(), round);
    check(&path, &told, round);
    told.nothing_vanished(&path);
    assert!(told.is_enough(), "too little happened");
}

/// What was told before the kills.
#[derive(Default)]
struct Told {
    /// Jobs by the names that their clients gave them.
    enqueued: BTreeMap<JobId, String>,
    claimed: BTreeSet<JobId>,
    /// Ends, with the successor if there was one.
    finished: BTreeMap<JobId, Option<JobId>>,
}

impl Told {
    fn is_enough(&self) -> bool {
        self.enqueued.len() > ENQUEUED_MIN && self.finished.len() > FINISHED_MIN
    }

    /// How many were enqueued, and how many were finished, as far as more of them are needed.
    fn counts(&self) -> (usize, usize) {
        let (enqueued, finished) = (self.enqueued.len(), self.finished.len());
        (enqueued.min(ENQUEUED_MIN + 1), finished.min(FINISHED_MIN + 1))
    }

    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        // A last line may be torn; then nobody was told.
        if words.last() != Some(&".") {
            return;
        }
        let id = |at: usize| words.get(at).and_then(|word| word.parse::<JobId>().ok());
        match (words[0], id(1)) {
            ("enqueued", Some(job)) => {
                let name = words[2].to_owned();
                let known = self.enqueued.insert(job, name.clone());
                // Repeating a request under its key gives the same job.
                assert!(known.is_none_or(|known| known == name), "{job} has two names");
            }
            ("claimed", Some(job)) => {
                assert!(self.claimed.insert(job), "job {job} was claimed twice");
            }
            ("finished", Some(job)) => {
                let before = self.finished.insert(job, id(2));
                assert!(before.is_none(), "job {job} was ended twice");
            }
            _ => {}
        }
    }

    /// After everything was done: each request has one chain, whose last job came to its end.
    fn nothing_vanished(&self, path: &Path) {
        let db = Connection::open(path).unwrap();
        let mut sql = db
            .prepare(
                "WITH RECURSIVE chain(job_id) AS (SELECT ?1 UNION ALL \
                 SELECT n.job_id FROM jobs n JOIN chain ON n.retry_of = chain.job_id) \
                 SELECT j.job_id, r.status, j.retry_decision FROM chain \
                 JOIN jobs j ON j.job_id = chain.job_id JOIN job_runs r ON r.job_id = j.job_id \
                 ORDER BY j.attempt DESC LIMIT 1",
            )
            .unwrap();
        for (id, name) in &self.enqueued {
            let (last, status, decision): (String, String, String) = sql
                .query_row([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .unwrap();
            let over = status == "COMPLETED" || decision.ends_with("exhausted");
            assert!(over, "{name}: its last job {last} is {status}, {decision}");
        }
    }
}

fn run_and_kill(directory: &Path, round: u64, told: &mut Told) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::what_was_told_survives_kills_and_nothing_is_doubled"])
        .args(["--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The kill comes after some acknowledgements, and then at an arbitrary moment.
    let enough = 150 + (round * 977 % 1_500) as usize;
    for line in lines.by_ref().take(enough) {
        told.hear(&line.unwrap());
    }
    std::thread::sleep(Duration::from_micros(round * 731 % 5_000));
    child.kill().unwrap();
    for line in lines.map_while(Result::ok) {
        told.hear(&line);
    }
    child.wait().unwrap();
}

fn recover(path: &Path) {
    let queue = Queue::open(path, rules()).unwrap();
    let dead = queue.open_runs().unwrap();
    let runs = BTreeMap::from_iter(dead.iter().map(|run| (run.run_id, Liveness::Dead)));
    let (reservation_owner, reservation_lasts_ms) = (Liveness::Dead, 1);
    queue.call(Recover { runs, reservation_owner, reservation_lasts_ms, now: at(0) }).unwrap();
    assert!(queue.open_runs().unwrap().is_empty());
}

/// Runs what is left, without kills.
fn drain(path: &Path, directory: &Path, round: u64) {
    let queue = Queue::open(path, rules()).unwrap();
    let witness = witness(directory);
    let claim = Claim { worker_id: format!("{round}-drain"), now: at(0) };
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let (queue, witness, claim) = (&queue, &witness, &claim);
            scope.spawn(move || {
                while let Claimed::Run(run) = queue.call(claim.clone()).unwrap() {
                    record(witness, run.job.job_id);
                    let (run_id, token) = (run.run.run_id, run.token);
                    let end = RunEnd::new(Outcome::Completed);
                    queue.call(Finish { run_id, token, end, now: at(0) }).unwrap();
                }
            });
        }
    });
}

fn check(path: &Path, told: &Told, round: u64) {
    let when = format!("round {round}");
    let db = Connection::open(path).unwrap();
    let one = |sql: &str, id: &JobId| -> Option<Option<String>> {
        let mut statement = db.prepare_cached(sql).unwrap();
        let mut rows = statement.query([id.to_string()]).unwrap();
        rows.next().unwrap().map(|row| row.get(0).unwrap())
    };
    for (id, name) in &told.enqueued {
        let found = one("SELECT params ->> 'name' FROM jobs WHERE job_id = ?1", id);
        assert_eq!(found, Some(Some(name.clone())), "{when}: {id} was acknowledged");
    }
    for id in &told.claimed {
        let found = one("SELECT run_id FROM job_runs WHERE job_id = ?1", id);
        assert!(found.is_some(), "{when}: the claim of {id} was acknowledged and is gone");
    }
    for (id, successor) in &told.finished {
        let found = one(
            "SELECT r.finished_at FROM job_runs r JOIN jobs j ON j.job_id = r.job_id \
             WHERE j.job_id = ?1 AND j.finished_at IS NOT NULL AND r.lost = 0",
            id,
        );
        assert!(matches!(found, Some(Some(_))), "{when}: the end of {id} was acknowledged");
        let next = one("SELECT job_id FROM jobs WHERE retry_of = ?1", id).flatten();
        let told = successor.map(|job| job.to_string());
        assert_eq!(next, told, "{when}: the retry of {id}");
    }
    // Every request once, whatever was told: an original for each name. And every failure that may
    // be retried has its retry.
    let nobody = |wrong: &str, sql: &str| {
        let mut statement = db.prepare(sql).unwrap();
        let found: Vec<String> =
            statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(found.is_empty(), "{when}: {wrong}: {found:?}");
    };
    nobody(
        "is there twice",
        "SELECT params ->> 'name' FROM jobs WHERE retry_of IS NULL \
         GROUP BY 1 HAVING count(*) > 1 LIMIT 1",
    );
    nobody(
        "failed and was not retried",
        "SELECT j.job_id FROM jobs j JOIN job_runs r ON r.job_id = j.job_id \
         WHERE r.status = 'FAILED' AND j.attempt < 3 AND j.retry_decision IS NOT 'lost_exhausted' \
         AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.retry_of = j.job_id) LIMIT 1",
    );
    executions(&db, path, &when);
    order(&db, &when);
    drop(db);
    invariants::check(path, &when);
}

/// What handlers recorded: each job once, and only jobs that were claimed.
fn executions(db: &Connection, path: &Path, when: &str) {
    #[expect(clippy::disallowed_methods, reason = "what handlers recorded")]
    let recorded = std::fs::read_to_string(path.with_file_name("witness")).unwrap();
    let mut seen = BTreeSet::new();
    let mut run = db.prepare("SELECT 1 FROM job_runs WHERE job_id = ?1").unwrap();
    for id in recorded.lines() {
        assert!(seen.insert(id), "{when}: job {id} ran twice");
        assert!(run.exists([id]).unwrap(), "{when}: job {id} ran without its run");
    }
}

/// Claims of one process came in the order of the queue: among one priority in that of insertion,
/// since nothing is moved or delayed here. And nothing was passed over.
fn order(db: &Connection, when: &str) {
    let mut statement = db
        .prepare(
            "SELECT j.priority, j.seq, substr(r.worker_id, 1, instr(r.worker_id, '-') - 1) \
             FROM job_runs r JOIN jobs j ON j.job_id = r.job_id ORDER BY r.run_id",
        )
        .unwrap();
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let mut last: BTreeMap<(i64, String), i64> = BTreeMap::new();
    let mut highest: BTreeMap<i64, i64> = BTreeMap::new();
    for row in rows {
        let (priority, seq, process): (i64, i64, String) = row.unwrap();
        let before = last.insert((priority, process), seq);
        assert!(before < Some(seq), "{when}: {seq} of priority {priority} after {before:?}");
        let highest = highest.entry(priority).or_default();
        *highest = seq.max(*highest);
    }
    for (priority, seq) in highest {
        let sql =
            "SELECT count(*) FROM jobs WHERE status = 'QUEUED' AND priority = ?1 AND seq < ?2";
        let passed: i64 = db.query_row(sql, [priority, seq], |row| row.get(0)).unwrap();
        assert_eq!(passed, 0, "{when}: jobs of priority {priority} before {seq} were passed over");
    }
}

fn tell(line: &str) {
    // One write for a line, which a kill therefore does not tear often.
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn witness(directory: &Path) -> std::fs::File {
    let path: PathBuf = directory.join("witness");
    std::fs::File::options().create(true).append(true).open(path).unwrap()
}

/// What a handler leaves behind when it runs.
fn record(mut witness: &std::fs::File, job_id: JobId) {
    witness.write_all(format!("{job_id}\n").as_bytes()).unwrap();
}

fn under_load(directory: &Path, round: u64) {
    let queue = Queue::open(&directory.join("queue.db"), rules()).unwrap();
    let witness = witness(directory);
    tell("\n");
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let queue = &queue;
            scope.spawn(move || client_of(queue, round, client));
        }
        for worker in 0..WORKERS {
            let (queue, witness) = (&queue, &witness);
            scope.spawn(move || work(queue, witness, round, worker));
        }
    });
}

fn client_of(queue: &Queue, round: u64, client: i64) {
    for n in 0_i64.. {
        let name = format!("{round}-{client}-{n}");
        let jobs = vec![NewJob {
            idempotency_key: Some(name.clone()),
            priority: Some(client % PRIORITIES),
            ..NewJob::of_type("t", json!({ "name": name }))
        }];
        // The second must find the first, whatever happened in between.
        for _ in 0..2 {
            let told = queue.call(Enqueue { jobs: jobs.clone(), now: at(n) }).unwrap();
            tell(&format!("enqueued {} {name} .\n", told[0].job().job_id));
        }
    }
}

fn work(queue: &Queue, witness: &std::fs::File, round: u64, worker: i64) {
    for n in 0_i64.. {
        let claim = Claim { worker_id: format!("{round}-{worker}"), now: at(n) };
        let Claimed::Run(run) = queue.call(claim).unwrap() else { continue };
        tell(&format!("claimed {} .\n", run.job.job_id));
        record(witness, run.job.job_id);
        let outcome = if n % 3 == 0 { Outcome::Failed } else { Outcome::Completed };
        let (run_id, token) = (run.run.run_id, run.token);
        let end = Finish { run_id, token, end: RunEnd::new(outcome), now: at(n) };
        let end = queue.call(end).unwrap();
        let next = end.successor.map(|job| job.job_id.to_string()).unwrap_or_default();
        tell(&format!("finished {} {next} .\n", end.job.job_id));
    }
}
