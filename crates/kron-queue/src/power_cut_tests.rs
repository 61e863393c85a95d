//! A file system that really loses its power under the database.
//!
//! ext4 on a loop device is shut down, without its journal being written out, while another process
//! enqueues, claims and finishes with several threads and says what it was told; then it is mounted
//! again. What was told must be there. The canary is the same process with `synchronous=NORMAL`,
//! which must lose something. Its connection is given to the queue here, inside the crate, so that
//! nobody outside can have one that is less durable.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use kron_testkit::loop_mount::{self, LoopMount, Switch};
use kron_testkit::needs::left_out;
use serde_json::json;

use crate::database::{Access, connect, prepare};
use crate::{
    Claim, Claimed, Enqueue, Finish, KernelEntropy, NewJob, Outcome, Queue, RetryPolicy, Rules,
    RunEnd, Timestamp,
};

/// Power cuts; every one of them is a file system of its own.
const ROUNDS: u64 = 20;
const DISK_BYTES: u64 = 24 * 1024 * 1024;
const DIRECTORY: &str = "KRON_QUEUE_TEST_POWER_CUT";
const SYNCHRONOUS: &str = "KRON_QUEUE_TEST_SYNCHRONOUS";
const CLIENTS: i64 = 6;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + seconds * 1_000).unwrap()
}

/// What was told: of each job how far it had come, and what succeeded it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Enqueued,
    Claimed,
    Finished { successor: Option<String> },
}

fn heard(told: &mut BTreeMap<String, Told>, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let (Some(id), Some(last)) = (words.get(1), words.last()) else { return };
    // A line that was torn was told to nobody.
    if id.len() != 36 || *last != "." {
        return;
    }
    let what = match words[0] {
        "enqueued" => Told::Enqueued,
        "claimed" => Told::Claimed,
        "finished" => {
            let successor = words.get(2).filter(|word| word.len() == 36);
            if let Some(successor) = successor {
                told.entry((*successor).to_owned()).or_insert(Told::Enqueued);
            }
            Told::Finished { successor: successor.map(|word| (*word).to_owned()) }
        }
        _ => return,
    };
    let known = told.entry((*id).to_owned()).or_insert(Told::Enqueued);
    *known = what.max(known.clone());
}

/// Lets a child work, takes the power away, and says what is missing of what it was told. The
/// checker reads the file with SQL, and knows only what was told.
fn lose_power(test: &str, synchronous: Option<&str>, round: u64) -> Vec<String> {
    let mut mount = LoopMount::of_bytes(DISK_BYTES);
    let path = mount.path().join("state").join("queue.db");
    drop(Queue::open(&path, rules()).unwrap());
    let switch = Switch::on(mount.path());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(DIRECTORY, &path)
        .envs(synchronous.map(|value| (SYNCHRONOUS, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut told = BTreeMap::new();
    let acknowledgements = 20 + round * 97;
    let enough = usize::try_from(acknowledgements).unwrap();
    for line in lines.by_ref().filter(|line| line.ends_with(" .")).take(enough) {
        heard(&mut told, &line);
    }
    // What is told after the power is gone does not count, though a process that outlives it may
    // be told so: a sync that was under way when ext4 gave its journal up can claim to be done.
    switch.off();
    lines.for_each(drop);
    child.kill().unwrap();
    child.wait().unwrap();
    mount.mount_again();
    assert!(told.len() > 5, "too little happened");
    missing(&path, &told)
}

fn missing(path: &Path, told: &BTreeMap<String, Told>) -> Vec<String> {
    drop(Queue::open(path, rules()).unwrap());
    let db = rusqlite::Connection::open(path).unwrap();
    let sound: String = db.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let mut sql = db
        .prepare(
            "SELECT j.status, j.finished_at IS NOT NULL, r.run_id IS NOT NULL, \
             r.status IS NOT NULL, (SELECT n.job_id FROM jobs n WHERE n.retry_of = j.job_id) \
             FROM jobs j LEFT JOIN job_runs r ON r.job_id = j.job_id WHERE j.job_id = ?1",
        )
        .unwrap();
    let mut missing = Vec::new();
    for (id, told) in told {
        let found: Option<(String, bool, bool, bool, Option<String>)> = sql
            .query_map([id], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })
            .unwrap()
            .next()
            .map(Result::unwrap);
        let there = match (&found, told) {
            (None, _) => false,
            (Some(_), Told::Enqueued) => true,
            (Some((status, _, run, ..)), Told::Claimed) => status == "RUNNING" && *run,
            (Some((_, job, _, run, next)), Told::Finished { successor }) => {
                *job && *run && next == successor
            }
        };
        if !there {
            missing.push(format!("{id}: {found:?} instead of {told:?}"));
        }
    }
    missing
}

fn rules() -> Rules {
    let retry = RetryPolicy { backoff_first_ms: 0, ..RetryPolicy::default() };
    Rules { workers_max: 1_000_000, retry, ..Rules::default() }
}

/// The child: works until something fails.
fn work(path: &Path, synchronous: Option<&str>) {
    let queue = match synchronous {
        None => Queue::open(path, rules()).unwrap(),
        Some(synchronous) => {
            let path = prepare(path).unwrap();
            let connection = connect(&path, Access::Write).unwrap();
            connection.pragma_update(None, "synchronous", synchronous).unwrap();
            Queue::start(connection, path, rules(), Box::new(KernelEntropy)).unwrap()
        }
    };
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let queue = &queue;
            scope.spawn(move || client_of(queue, client));
        }
    });
}

fn tell(line: &str) {
    // Whoever reads it may be gone before us.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Enqueues, and claims and finishes whatever is first.
fn client_of(queue: &Queue, client: i64) {
    for n in 0.. {
        let jobs = vec![NewJob::of_type("t", json!({ "client": client, "n": n }))];
        let Ok(jobs) = queue.call(Enqueue { jobs, now: at(n) }) else { return };
        tell(&format!("\nenqueued {} .\n", jobs[0].job().job_id));
        let claim = Claim { worker_id: format!("w{client}"), now: at(n) };
        let Ok(Claimed::Run(run)) = queue.call(claim) else { return };
        tell(&format!("\nclaimed {} .\n", run.job.job_id));
        let outcome = if n % 3 == 0 { Outcome::Failed } else { Outcome::Completed };
        let (run_id, token) = (run.run.run_id, run.token);
        let end = Finish { run_id, token, end: RunEnd::new(outcome), now: at(n) };
        let Ok(end) = queue.call(end) else { return };
        let next = end.successor.map(|job| job.job_id.to_string()).unwrap_or_default();
        tell(&format!("\nfinished {} {next} .\n", end.job.job_id));
    }
}

/// Whether this is the child, which then has done its work.
#[expect(clippy::disallowed_methods, reason = "how a child is told what to do")]
fn is_child() -> bool {
    let Some(path) = std::env::var_os(DIRECTORY) else { return false };
    work(path.as_ref(), std::env::var(SYNCHRONOUS).ok().as_deref());
    true
}

#[test]
fn what_was_acknowledged_survives_a_power_cut() {
    if is_child() || left_out("what was acknowledged survives a power cut", loop_mount::NEEDS) {
        return;
    }
    for round in 0..ROUNDS {
        let test = "power_cut_tests::what_was_acknowledged_survives_a_power_cut";
        assert_eq!(lose_power(test, None, round), [""; 0], "round {round}");
    }
}

#[test]
fn without_a_sync_for_each_commit_a_power_cut_loses_what_was_acknowledged() {
    let name = "without_a_sync_for_each_commit_a_power_cut_loses_what_was_acknowledged";
    if is_child() || left_out(name, loop_mount::NEEDS) {
        return;
    }
    let test = format!("power_cut_tests::{name}");
    let lost = (0..ROUNDS).any(|round| !lose_power(&test, Some("NORMAL"), round).is_empty());
    assert!(lost, "nothing was lost: this test would not see a missing sync");
}
