//! Acknowledgements: many share a commit, a failure takes back only itself, a broken disk stops
//! everything.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use kron_queue::{AreaError as _, Enqueue, EnqueueError, JobId, NewJob, Queue, Rules, StoreError};
use serde_json::json;

use crate::support::{World, at};

#[test]
fn what_64_threads_were_told_is_there_after_reopening() {
    let world = World::new(Rules::default());
    let threads: Vec<_> = (0..64)
        .map(|thread| {
            let queue = world.queue.clone();
            std::thread::spawn(move || {
                let mut told = Vec::new();
                for n in 0..20 {
                    // Every fifth is refused, and takes nobody with it.
                    let kind = if n % 5 == 4 { "" } else { "t" };
                    let jobs = vec![
                        NewJob::of_type("t", json!({ "thread": thread, "n": n })),
                        NewJob::of_type(kind, json!({})),
                    ];
                    match queue.call(Enqueue { jobs, now: at(n) }) {
                        Ok(jobs) => told.extend(jobs.iter().map(|job| job.job().job_id)),
                        Err(EnqueueError::Invalid(_)) => assert_eq!(kind, ""),
                        Err(other) => panic!("{other}"),
                    }
                }
                told
            })
        })
        .collect();
    let told: BTreeSet<JobId> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(told.len(), 64 * 16 * 2);
    let world = world.reopen(Rules::default());
    assert_eq!(world.order().into_iter().collect::<BTreeSet<_>>(), told);
}

#[test]
fn callbacks_come_in_order_and_one_refusal_harms_nobody() {
    let world = World::new(Rules::default());
    let open = world.hold_writer();
    let (sender, answers) = std::sync::mpsc::channel();
    for n in 0..100 {
        let sender = sender.clone();
        let kind = if n % 2 == 0 { "t" } else { "" };
        let jobs = vec![NewJob::of_type("t", json!({ "n": n })), NewJob::of_type(kind, json!({}))];
        world.queue.submit(Enqueue { jobs, now: at(0) }, move |result| {
            sender.send((n, result.is_ok())).unwrap();
        });
    }
    open.send(()).unwrap();
    let answers: Vec<(i32, bool)> = answers.iter().take(100).collect();
    assert_eq!(answers, (0..100).map(|n| (n, n % 2 == 0)).collect::<Vec<_>>());
    assert_eq!(world.order().len(), 100);
}

#[test]
fn a_closed_queue_has_done_what_was_asked() {
    let world = World::new(Rules::default());
    let (sender, answers) = std::sync::mpsc::channel();
    for _ in 0..50 {
        let sender = sender.clone();
        let jobs = vec![NewJob::of_type("t", json!({}))];
        world.queue.submit(Enqueue { jobs, now: at(0) }, move |result| {
            sender.send(result.is_ok()).unwrap();
        });
    }
    let world = world.reopen(Rules::default());
    assert_eq!(answers.try_iter().filter(|ok| *ok).count(), 50);
    assert_eq!(world.order().len(), 50);
}

const DISK_DIRECTORY: &str = "KRON_QUEUE_TEST_DISK";

/// Runs as another process, whose files may not grow beyond a limit: a disk that fails.
#[test]
fn a_failing_disk_stops_the_queue() {
    if let Some(directory) = std::env::var_os(DISK_DIRECTORY) {
        return on_a_failing_disk(directory.as_ref());
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "commit::a_failing_disk_stops_the_queue", "--nocapture"])
        .env(DISK_DIRECTORY, directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let told: BTreeSet<JobId> = said
        .lines()
        .filter_map(|line| line.split_once("told ").and_then(|(_, id)| id.parse().ok()))
        .collect();
    assert!(told.len() > 10, "{said}");
    let queue = Queue::open(&directory.path().join("queue.db"), Rules::default()).unwrap();
    for id in &told {
        assert!(queue.job(*id).unwrap().is_some(), "job {id} was acknowledged");
    }
    // What failed was not told to anybody as done; at most the one commit in flight is unknown.
    let there = queue.statistics(at(0)).unwrap().queued;
    assert!(there <= told.len() as i64 + 1, "{there} there, {} told", told.len());
}

fn on_a_failing_disk(directory: &std::path::Path) {
    let queue = Queue::open(&directory.join("queue.db"), Rules::default()).unwrap();
    for n in 0..100_000 {
        let jobs = vec![NewJob::of_type("t", json!({"text": "x".repeat(2_000)}))];
        match queue.call(Enqueue { jobs, now: at(n) }) {
            Ok(jobs) => {
                let line = format!("told {}\n", jobs[0].job().job_id);
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
            Err(error) => {
                assert!(error.store().is_some(), "{error}");
                assert!(queue.is_stopped(), "{error}");
                break;
            }
        }
    }
    assert!(queue.is_stopped());
    for _ in 0..3 {
        let jobs = vec![NewJob::of_type("t", json!({}))];
        let refused = queue.call(Enqueue { jobs, now: at(0) });
        assert!(matches!(refused, Err(EnqueueError::Store(StoreError::Stopped))), "{refused:?}");
    }
}
