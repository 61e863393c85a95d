//! Kills under load: a child process does what clients and workers do and tells what it was told;
//! its parent kills it at an arbitrary moment and looks at what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kron_queue::{
    Claim, Claimed, Enqueue, Finish, JobFilter, JobId, Liveness, NewJob, Outcome, Queue, Recover,
    RetryPolicy, Rules, RunEnd,
};
use serde_json::json;

use crate::support::at;

const DIRECTORY: &str = "KRON_QUEUE_TEST_CRASH";
const ROUNDS: u32 = 8;

fn rules() -> Rules {
    let retry = RetryPolicy { backoff_first_ms: 0, lost_retries_max: 3, ..RetryPolicy::default() };
    Rules { workers_max: 1_000_000, retry, ..Rules::default() }
}

#[test]
fn what_was_told_survives_kills_and_nothing_is_doubled() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return under_load(directory.as_ref());
    }
    let directory = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    for round in 0..ROUNDS {
        told.merge(run_and_kill(directory.path(), round));
        let queue = Queue::open(&directory.path().join("queue.db"), rules()).unwrap();
        check(&queue, &told);
        let dead = queue.open_runs().unwrap();
        let runs = BTreeMap::from_iter(dead.iter().map(|run| (run.run_id, Liveness::Dead)));
        let (reservation_owner, reservation_lasts_ms) = (Liveness::Dead, 1);
        let now = at(i64::from(round));
        queue.call(Recover { runs, reservation_owner, reservation_lasts_ms, now }).unwrap();
        assert!(queue.open_runs().unwrap().is_empty());
        check(&queue, &told);
    }
    assert!(told.enqueued.len() > 100 && told.finished.len() > 20, "too little happened");
}

/// What a client was told before the kill.
#[derive(Default)]
struct Told {
    enqueued: BTreeSet<JobId>,
    claimed: Vec<JobId>,
    finished: BTreeMap<JobId, Option<JobId>>,
}

impl Told {
    fn merge(&mut self, other: Told) {
        self.enqueued.extend(other.enqueued);
        self.claimed.extend(other.claimed);
        self.finished.extend(other.finished);
    }
}

fn run_and_kill(directory: &Path, round: u32) -> Told {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::what_was_told_survives_kills_and_nothing_is_doubled"])
        .args(["--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told = Told::default();
    let read = |line: String, told: &mut Told| {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |at: usize| words.get(at).and_then(|word| word.parse::<JobId>().ok());
        match (words[0], id(1)) {
            ("enqueued", Some(job)) => drop(told.enqueued.insert(job)),
            ("claimed", Some(job)) => told.claimed.push(job),
            ("finished", Some(job)) => drop(told.finished.insert(job, id(2))),
            _ => {}
        }
    };
    // The kill comes after some acknowledgements, and then at an arbitrary moment.
    let enough = 60 + round as usize * 17;
    for line in lines.by_ref() {
        read(line.unwrap(), &mut told);
        if told.enqueued.len() >= enough {
            break;
        }
    }
    std::thread::sleep(Duration::from_micros(u64::from(round) * 731));
    child.kill().unwrap();
    // A last line may be torn; then nobody was told.
    for line in lines.map_while(Result::ok) {
        read(line, &mut told);
    }
    child.wait().unwrap();
    told
}

fn check(queue: &Queue, told: &Told) {
    for id in &told.enqueued {
        assert!(queue.job(*id).unwrap().is_some(), "job {id} was acknowledged and is gone");
    }
    let mut claimed = told.claimed.clone();
    claimed.sort();
    claimed.dedup();
    assert_eq!(claimed.len(), told.claimed.len(), "a job was claimed twice");
    for (id, successor) in &told.finished {
        let job = queue.job(*id).unwrap().unwrap();
        assert!(job.finished_at.is_some(), "the end of job {id} was acknowledged and is gone");
        let chain = queue.chain(*id).unwrap();
        let next: Vec<JobId> =
            chain.iter().filter(|job| job.retry_of == Some(*id)).map(|job| job.job_id).collect();
        assert_eq!(next, Vec::from_iter(*successor), "the retry of job {id}");
    }
    // Every payload once: an original for each, whatever was told.
    let mut seen = BTreeSet::new();
    let mut after = None;
    loop {
        let page = queue.jobs(&JobFilter::default(), after.as_ref(), 1_000).unwrap();
        for job in page.items.iter().filter(|job| job.retry_of.is_none()) {
            assert!(seen.insert(job.params.to_string()), "{} is there twice", job.params);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let ids: Vec<_> = queue.order(None, 1_000).unwrap().items;
    let key = |job: &kron_queue::Job| (-job.priority, job.position, job.created_at);
    assert!(ids.is_sorted_by_key(key), "the order");
}

fn tell(line: &str) {
    let mut line = line.to_owned();
    line.push('\n');
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn under_load(directory: &Path) {
    let queue = Queue::open(&directory.join("queue.db"), rules()).unwrap();
    tell("");
    let pid = std::process::id();
    let mut threads = Vec::new();
    for client in 0..12 {
        let queue = queue.clone();
        threads.push(std::thread::spawn(move || {
            for n in 0_i64.. {
                let name = format!("{pid}-{client}-{n}");
                let jobs = vec![NewJob {
                    idempotency_key: Some(name.clone()),
                    ..NewJob::of_type("t", json!({ "name": name }))
                }];
                // The second must find the first, whatever happened in between.
                for _ in 0..2 {
                    let told = queue.call(Enqueue { jobs: jobs.clone(), now: at(n) }).unwrap();
                    tell(&format!("enqueued {}", told[0].job().job_id));
                }
            }
        }));
    }
    for worker in 0..4 {
        let queue = queue.clone();
        threads.push(std::thread::spawn(move || {
            for n in 0_i64.. {
                let claim = Claim { worker_id: format!("w{worker}"), now: at(n) };
                let Claimed::Run(run) = queue.call(claim).unwrap() else { continue };
                tell(&format!("claimed {}", run.job.job_id));
                let outcome = if n % 3 == 0 { Outcome::Failed } else { Outcome::Completed };
                let (run_id, token) = (run.run.run_id, run.token);
                let end = Finish { run_id, token, end: RunEnd::new(outcome), now: at(n) };
                let end = queue.call(end).unwrap();
                let next = end.successor.map(|job| job.job_id.to_string()).unwrap_or_default();
                tell(&format!("finished {} {next}", end.job.job_id));
            }
        }));
    }
    for thread in threads {
        thread.join().unwrap();
    }
}
