//! What fails without breaking the file: a panic, a full disk, a lock that another program holds,
//! an observer that is too slow. Nobody waits for ever and nobody is told what is not so.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use kron_queue::{
    Change, Claim, Claimed, Context, Enqueue, EnqueueError, Interest, Job, JobFilter, NewJob,
    Operation, Queue, Rules, SetRules, StoreError,
};
use kron_testkit::needs::left_out;
use kron_testkit::tmpfs_mount::{self, TmpfsMount};
use serde_json::json;

use crate::support::{World, at};

fn enqueue(queue: &Queue, n: i64) -> Result<Job, EnqueueError> {
    let jobs = vec![NewJob::of_type("t", json!({ "n": n }))];
    Ok(queue.call(Enqueue { jobs, now: at(n) })?.remove(0).job().clone())
}

/// Waits in the writer until it is let go.
struct Held {
    entered: Sender<()>,
    gate: Receiver<()>,
}

impl Operation for Held {
    type Output = ();
    type Error = StoreError;

    fn execute(self, _: &mut Context<'_>) -> Result<(), StoreError> {
        self.entered.send(()).unwrap();
        let _ = self.gate.recv();
        Ok(())
    }
}

/// Holds the writer up, so that whatever is asked for until the end is in one transaction.
fn hold_up(queue: &Queue) -> Sender<()> {
    let (entered, is_there) = channel();
    let (open, gate) = channel();
    queue.submit(Held { entered, gate }, |result| result.unwrap());
    is_there.recv().unwrap();
    open
}

struct Panics;

impl Operation for Panics {
    type Output = ();
    type Error = StoreError;

    fn execute(self, _: &mut Context<'_>) -> Result<(), StoreError> {
        panic!("on purpose");
    }
}

#[test]
fn a_panic_is_told_to_everybody_and_stops_the_queue() {
    let world = World::new(Rules::default());
    let before = world.story();
    let (sender, answers) = channel();
    let open = hold_up(&world.queue);
    // All of these share one transaction: some before the one that panics, some after.
    let submit = |n: i64| {
        let sender = sender.clone();
        let jobs = vec![NewJob::of_type("t", json!({ "n": n }))];
        world.queue.submit(Enqueue { jobs, now: at(n) }, move |result| {
            sender.send(result.map(|_| ())).unwrap();
        });
    };
    (0..5).for_each(submit);
    let told = sender.clone();
    world.queue.submit(Panics, move |result| {
        told.send(result.map_err(EnqueueError::from)).unwrap();
    });
    (5..10).for_each(submit);
    let waiting = {
        let queue = world.queue.clone();
        std::thread::spawn(move || enqueue(&queue, 99))
    };
    open.send(()).unwrap();
    for answer in answers.iter().take(11) {
        assert!(matches!(answer, Err(EnqueueError::Store(_))), "{answer:?}");
    }
    assert!(waiting.join().unwrap().is_err());
    assert!(world.queue.is_stopped());
    assert!(matches!(enqueue(&world.queue, 1), Err(EnqueueError::Store(StoreError::Stopped))));
    // Nothing of it is there, reading goes on, and another start finds everything sound.
    assert_eq!(world.order(), [before.job_id]);
    let world = world.reopen(Rules::default());
    assert_eq!(world.order(), [before.job_id]);
    enqueue(&world.queue, 1).unwrap();
}

#[test]
fn a_panic_of_a_reply_or_an_observer_harms_no_other_answer() {
    for from_observer in [true, false] {
        let world = World::new(Rules::default());
        let (sender, answers) = channel();
        let open = hold_up(&world.queue);
        if from_observer {
            world.queue.observe(|_| panic!("on purpose"));
        }
        for n in 0..10 {
            let sender = sender.clone();
            let jobs = vec![NewJob::of_type("t", json!({ "n": n }))];
            world.queue.submit(Enqueue { jobs, now: at(n) }, move |result| {
                sender.send(result.is_ok()).unwrap();
                assert!(from_observer || n != 4, "on purpose");
            });
        }
        open.send(()).unwrap();
        // They were committed, and are told so.
        assert_eq!(answers.iter().take(10).collect::<Vec<_>>(), [true; 10]);
        let after = loop {
            match enqueue(&world.queue, 11) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(after, EnqueueError::Store(StoreError::Stopped)), "{after}");
        assert!(world.queue.is_stopped());
        assert!(world.order().len() >= 10);
    }
}

const LOCK_PATH: &str = "KRON_QUEUE_TEST_LOCK";

/// Another program that has the write lock until it is told to go.
#[test]
fn a_lock_of_another_program_is_told_and_does_not_stop_the_queue() {
    if let Some(path) = std::env::var_os(LOCK_PATH) {
        return hold_the_lock(path.as_ref());
    }
    let world = World::new(Rules::default());
    let first = world.story();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("failures::a_lock_of_another_program_is_told_and_does_not_stop_the_queue")
        .env(LOCK_PATH, &world.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("locked")));
    // Rules that were told not to be in force are not.
    let rules = Rules { workers_max: 0, ..Rules::default() };
    let (sender, answers) = channel();
    let told = sender.clone();
    world.queue.submit(SetRules { rules }, move |result| told.send(result.is_ok()).unwrap());
    let jobs = vec![NewJob::of_type("t", json!({}))];
    world.queue.submit(Enqueue { jobs, now: at(1) }, move |result| {
        sender.send(result.is_ok()).unwrap();
    });
    assert_eq!(answers.iter().take(2).collect::<Vec<_>>(), [false, false]);
    assert!(!world.queue.is_stopped());
    // Reading is held up by nobody.
    assert_eq!(world.order(), [first.job_id]);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(child.wait().unwrap().success());
    let second = enqueue(&world.queue, 2).unwrap();
    assert_eq!(world.order(), [first.job_id, second.job_id]);
    assert_eq!(world.claim(3).job.job_id, first.job_id);
}

fn hold_the_lock(path: &Path) {
    let shell = rusqlite::Connection::open(path).unwrap();
    shell.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::io::stdout().write_all(b"\nlocked\n").unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    shell.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn a_full_disk_is_told_and_when_there_is_room_the_queue_goes_on() {
    if left_out("a full disk is told and when there is room the queue goes on", tmpfs_mount::NEEDS)
    {
        return;
    }
    let disk = TmpfsMount::of_kib(2_048);
    let path = disk.path().join("queue.db");
    let queue = Queue::open(&path, Rules::default()).unwrap();
    let mut told = vec![enqueue(&queue, 0).unwrap()];
    // Somebody else's file takes the rest, but for a little.
    let filler = disk.path().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
    let room = file.metadata().unwrap().len().saturating_sub(20 * 4_096);
    file.set_len(room).unwrap();
    let mut n = 1;
    let refused = loop {
        match enqueue(&queue, n) {
            Ok(job) => told.push(job),
            Err(error) => break error,
        }
        n += 1;
        assert!(n < 10_000, "the disk is never full");
    };
    let reason = format!("{refused:?}");
    assert!(reason.contains("full"), "{reason}");
    assert!(!queue.is_stopped(), "{reason}");
    let there = |queue: &Queue| {
        let mut jobs = queue.jobs(&JobFilter::default(), None, 1_000).unwrap().items;
        jobs.reverse();
        jobs
    };
    assert_eq!(there(&queue), told);
    // It stays so while there is no room, and rules that came in a commit that failed are not in
    // force.
    let (sender, answers) = channel();
    let open = hold_up(&queue);
    let rules = Rules { workers_max: 0, ..Rules::default() };
    let told_rules = sender.clone();
    queue.submit(SetRules { rules }, move |result| told_rules.send(result.is_ok()).unwrap());
    let jobs = vec![NewJob::of_type("t", json!({ "text": "x".repeat(200_000) }))];
    queue.submit(Enqueue { jobs, now: at(3) }, move |result| sender.send(result.is_ok()).unwrap());
    open.send(()).unwrap();
    assert_eq!(answers.iter().collect::<Vec<_>>(), [false, false]);
    std::fs::remove_file(&filler).unwrap();
    drop(file);
    for n in 0..50 {
        told.push(enqueue(&queue, 2_000 + n).unwrap());
    }
    assert_eq!(there(&queue), told);
    let claimed = queue.call(Claim { worker_id: "w".into(), now: at(4) }).unwrap();
    let Claimed::Run(run) = claimed else { panic!("{claimed:?}") };
    told[0] = run.job;
    drop(queue);
    let queue = Queue::open(&path, Rules::default()).unwrap();
    assert_eq!(there(&queue), told);
    let sound: String = rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
}

#[test]
fn an_observer_that_is_too_slow_is_told_that_it_missed_something() {
    let world = World::new(Rules::default());
    let slow = world.queue.subscribe(3);
    let (sender, seen) = channel();
    world.queue.observe(move |changes| {
        changes.iter().for_each(|change| sender.send(*change).unwrap());
        Interest::More
    });
    let jobs: Vec<Job> = (0..6).map(|n| enqueue(&world.queue, n).unwrap()).collect();
    let enqueued = |n: usize| Change::Enqueued { job_id: jobs[n].job_id };
    // Whoever is called for each commit misses nothing.
    assert_eq!(seen.iter().take(6).collect::<Vec<_>>(), (0..6).map(enqueued).collect::<Vec<_>>());
    assert_eq!(slow.try_iter().collect::<Vec<_>>(), [enqueued(0), enqueued(1), enqueued(2)]);
    // What is lost is named before the next that is told.
    let next = enqueue(&world.queue, 7).unwrap();
    let last = Change::Enqueued { job_id: next.job_id };
    assert_eq!(slow.recv().unwrap(), Change::Lagged);
    assert_eq!(slow.recv().unwrap(), last);
    assert!(slow.try_recv().is_err());
}
