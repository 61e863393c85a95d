//! How soon a task is started after it was put, among so many that wait.
//!
//! `spool_pickup fill DIRECTORY COUNT TYPE` puts so many tasks, not one by one; `spool_pickup time DIRECTORY FILE COUNT`
//! puts tasks of type `stamp` one after the other, each when the one before has been executed, and prints how many
//! microseconds each took from the beginning of its put to its execution, as a line of JSON. The handler of that type
//! appends the time to FILE (see `stamp`).

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kron_core::Timestamp;
use kron_spool::{IdSource, NewTask, Spool};

const BATCH: usize = 256;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let spool = Spool::open_to_put(Path::new(&arguments[1])).expect("a spool");
    let ids = IdSource::default();
    let count = |at: usize| arguments[at].parse::<usize>().expect("a number");
    match arguments[0].as_str() {
        "fill" => fill(&spool, &ids, count(2), &arguments[3]),
        _ => time(&spool, &ids, Path::new(&arguments[2]), count(3)),
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970")
}

fn moment() -> Timestamp {
    Timestamp::from_unix_ms(now().as_millis() as i64).expect("a time before 9999")
}

fn task(ids: &IdSource, task_type: &str) -> NewTask {
    NewTask::new(ids.next(moment()).expect("an id"), task_type, "{}").expect("a task")
}

fn fill(spool: &Spool, ids: &IdSource, count: usize, task_type: &str) {
    let mut left = count;
    while left > 0 {
        let tasks: Vec<NewTask> = (0..BATCH.min(left)).map(|_| task(ids, task_type)).collect();
        for result in spool.put(&tasks, moment()) {
            result.expect("put");
        }
        left -= tasks.len();
    }
}

fn time(spool: &Spool, ids: &IdSource, stamps: &Path, count: usize) {
    let read = || std::fs::read_to_string(stamps).unwrap_or_default();
    let before = read().lines().count();
    let mut took_us = Vec::new();
    for at in 0..count {
        let task = task(ids, "stamp");
        let began = now();
        for result in spool.put(&[task], moment()) {
            result.expect("put");
        }
        let deadline = Instant::now() + PATIENCE;
        let stamp = loop {
            let text = read();
            if text.ends_with('\n')
                && let Some(line) = text.lines().nth(before + at)
            {
                break line.parse::<u64>().expect("nanoseconds");
            }
            assert!(Instant::now() < deadline, "it was never executed");
            std::thread::sleep(Duration::from_micros(200));
        };
        took_us.push((stamp as f64 - began.as_nanos() as f64) / 1_000.0);
    }
    println!("{}", serde_json::to_string(&took_us).expect("numbers"));
}
