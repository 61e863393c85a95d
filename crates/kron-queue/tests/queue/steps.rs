//! A process that is killed at every step of every operation.
//!
//! A child does one of everything, with ids that are the same each time, and says what it was told.
//! One trace of it gives the system calls by which anything in the files changes; then each of them
//! is the last one of another child. What is left must be exactly what was there after the last
//! operation that was told, or after the one that was under way: all of it, or nothing. Calls
//! between those (locks, reads) leave what the next of them finds.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use kron_queue::{
    AttachProcess, Cancel, Claim, Claimed, ClaimedRun, CreateGroup, CreateSchedule, CreateTemplate,
    Enqueue, Entropy, Finish, GroupMode, JobId, Liveness, Move, NewJob, Normalise, OnFailure,
    Operation, Outcome, Place, Purge, Queue, Recover, Release, Reserve, Retry, RetryPolicy, Rules,
    RunEnd, ScheduleSettings, SetPriority, StartDirect, TemplateSettings, TriggerSchedules,
    Webhook,
};
use kron_testkit::chance::number;
use kron_testkit::files::scratch;
use kron_testkit::needs::{Need, left_out};
use kron_testkit::strace::chosen;
use serde_json::json;

use crate::invariants::{check, dump};
use crate::support::{at, process};

const DIRECTORY: &str = "KRON_QUEUE_TEST_STEPS";
/// Every how many of the writes are tried; 1 is all of them.
const EVERY: &str = "KRON_QUEUE_STEPS_EVERY";
const EVERY_DEFAULT: u64 = 6;
/// Calls by which the files change or become durable.
const CHANGING: &str = "pwrite64,fdatasync,fsync,ftruncate,unlink";
const CHILDREN: usize = 3;

/// The same bytes every time.
struct Counted(u64);

impl Entropy for Counted {
    fn fill(&mut self, bytes: &mut [u8]) -> std::io::Result<()> {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            *byte = (self.0 >> 33) as u8;
        }
        Ok(())
    }
}

fn rules() -> Rules {
    let never = RetryPolicy { retries_max: 0, ..RetryPolicy::default() };
    Rules {
        workers_max: 100,
        retry_of_type: BTreeMap::from([("member".to_owned(), never)]),
        webhooks: vec![Webhook { target: "hook".into(), events: Vec::new() }],
        ..Rules::default()
    }
}

fn open(path: &Path) -> Queue {
    Queue::open_with(path, rules(), Box::new(Counted(7))).unwrap()
}

/// One of everything; `told` hears the name of each operation that was acknowledged.
struct Act<'a> {
    queue: &'a Queue,
    told: &'a mut dyn FnMut(&str),
}

impl Act<'_> {
    fn did<O: Operation>(&mut self, name: &str, operation: O) -> O::Output {
        let output = self.queue.call(operation).unwrap();
        (self.told)(name);
        output
    }

    fn claim(&mut self, name: &str) -> ClaimedRun {
        match self.did(name, Claim { worker_id: "w".into(), now: at(60) }) {
            Claimed::Run(run) => *run,
            Claimed::Nothing(why) => panic!("{why:?}"),
        }
    }

    fn finish(&mut self, name: &str, run: &ClaimedRun, outcome: Outcome) {
        let (run_id, token) = (run.run.run_id, run.token.clone());
        self.did(name, Finish { run_id, token, end: RunEnd::new(outcome), now: at(61) });
    }

    fn all(&mut self) {
        let job = |n: i64, priority: i64| NewJob {
            priority: Some(priority),
            ..NewJob::of_type("t", json!({ "n": n }))
        };
        let keyed = NewJob { idempotency_key: Some("k".into()), ..job(1, 5) };
        let delayed = NewJob { not_before: Some(at(50)), ..job(2, 4) };
        let jobs = vec![keyed, delayed, job(3, 3), job(4, 0), job(5, 0)];
        let jobs = self.did("enqueue", Enqueue { jobs, now: at(0) });
        let ids: Vec<JobId> = jobs.iter().map(|job| job.job().job_id).collect();
        let run = self.claim("claim with a job that comes due");
        let (run_id, token) = (run.run.run_id, run.token.clone());
        let log_path = Some("queue/logs/x.log".to_owned());
        let attach = AttachProcess { run_id, token, process: process(1), command: None, log_path };
        self.did("attach", attach);
        self.finish("finish with a retry", &run, Outcome::Failed);
        let run = self.claim("claim");
        self.finish("finish", &run, Outcome::Completed);
        self.did("retry by hand", Retry { job_id: ids[1], now: at(62) });
        self.order(&ids);
        self.cancel(&ids);
        self.direct();
        self.schedule();
        self.group();
        self.claim("claim before a crash");
        let recover = Recover {
            runs: BTreeMap::new(),
            reservation_owner: Liveness::Dead,
            reservation_lasts_ms: 1,
            now: at(100),
        };
        self.did("recover", recover);
        self.did("purge", Purge { ended_before: at(62) });
    }

    fn order(&mut self, ids: &[JobId]) {
        self.did("move", Move { job_id: ids[4], to: Place::Before(ids[3]) });
        self.did("set priority", SetPriority { job_id: ids[4], priority: 2 });
        self.did("normalise", Normalise);
    }

    fn cancel(&mut self, ids: &[JobId]) {
        self.did("cancel a queued job", Cancel { job_id: ids[3], now: at(63) });
        let run = self.claim("claim what is cancelled");
        self.did("cancel a running job", Cancel { job_id: run.job.job_id, now: at(64) });
        self.finish("finish what is cancelled", &run, Outcome::Failed);
    }

    fn direct(&mut self) {
        let (reserved_by, owner, lasts_ms) = ("cli".to_owned(), process(1), 1_000);
        let reserve = Reserve { reserved_by, owner, lasts_ms, now: at(65) };
        let reservation_id = self.did("reserve", reserve).reservation_id;
        let job = NewJob::of_type("t", json!({}));
        let start = StartDirect { reservation_id, job, worker_id: "d".into(), now: at(65) };
        let Claimed::Run(run) = self.did("start direct", start) else { panic!("no slot") };
        self.finish("finish direct", &run, Outcome::Failed);
        self.did("release", Release { reservation_id, now: at(66) });
    }

    fn schedule(&mut self) {
        let (name, job_type) = ("nightly".to_owned(), "t".to_owned());
        let settings = TemplateSettings { name, job_type, params: json!({}), priority: 0 };
        let template = CreateTemplate { settings, now: at(0) };
        let template_id = self.did("create template", template).template_id;
        let settings = ScheduleSettings {
            template_id,
            name: "hourly".into(),
            cron_expression: "0 * * * *".into(),
            timezone: None,
            enabled: true,
            param_overrides: None,
        };
        self.did("create schedule", CreateSchedule { settings, now: at(0) });
        self.did("trigger with periods that were missed", TriggerSchedules { now: at(3 * 3_600) });
    }

    fn group(&mut self) {
        for on_failure in [OnFailure::Stop, OnFailure::Skip] {
            let member = NewJob { priority: Some(9), ..NewJob::of_type("member", json!({})) };
            let (mode, jobs) = (GroupMode::Sequential, vec![member; 4]);
            let group = CreateGroup { name: None, mode, on_failure, jobs, now: at(67) };
            self.did("create group", group);
            let run = self.claim("claim a member");
            self.finish("finish a member, and the next one's turn", &run, Outcome::Completed);
            let run = self.claim("claim a member");
            self.finish("finish a member, and the end of the rest", &run, Outcome::Failed);
        }
    }
}

fn child(path: &Path) {
    let queue = open(path);
    let mut told = |_: &str| {
        std::io::stdout().lock().write_all(b"\ntold\n").unwrap();
    };
    Act { queue: &queue, told: &mut told }.all();
    drop(queue);
}

/// A child under strace with these words; how much it was told, and whether it was killed.
fn traced(path: &Path, words: &[&str]) -> (usize, bool) {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y"])
        .args(["-e", &format!("trace={CHANGING}")])
        .args(["-P", path.to_str().unwrap()])
        .args(["-P", path.with_file_name("queue.db-wal").to_str().unwrap()])
        .args(words)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("steps::a_process_killed_at_any_step_leaves_all_of_an_operation_or_nothing")
        .env(DIRECTORY, path)
        .stdin(Stdio::null())
        .output()
        .expect("install the Debian package `strace`, or set KRON_TEST_WITHOUT=strace");
    let said = String::from_utf8_lossy(&output.stdout);
    (said.lines().filter(|line| *line == "told").count(), !output.status.success())
}

/// The calls of a trace, each with its number among those of its name. Only the writer's thread
/// makes any.
fn calls(trace: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut threads: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((name, _)) = rest.trim_start().split_once('(') else { continue };
        if !CHANGING.split(',').any(|changing| changing == name) {
            continue;
        }
        *threads.entry(thread).or_default() += 1;
        let count = counts.entry(name).or_default();
        *count += 1;
        calls.push((name.to_owned(), *count));
    }
    assert_eq!(threads.len(), 1, "another thread writes, too: {threads:?}");
    calls
}

/// [7 All Job state transitions are transactional] [7 Recovery scenarios are tested]
#[test]
fn a_process_killed_at_any_step_leaves_all_of_an_operation_or_nothing() {
    if let Some(path) = std::env::var_os(DIRECTORY) {
        return child(path.as_ref());
    }
    kill_at_steps(number(EVERY, EVERY_DEFAULT).max(1) as usize);
}

#[test]
#[ignore = "full: every call"]
fn a_process_killed_at_every_step_leaves_all_of_an_operation_or_nothing() {
    kill_at_steps(1);
}

fn kill_at_steps(every: usize) {
    if left_out(
        "a process killed at any step leaves all of an operation or nothing",
        &[Need::Strace],
    ) {
        return;
    }
    let parent = scratch();
    let empty = parent.path().join("empty.db");
    drop(open(&empty));
    // What is there after each operation.
    let path = parent.path().join("queue.db");
    std::fs::copy(&empty, &path).unwrap();
    let (mut names, mut after) = (vec!["nothing".to_owned()], vec![dump(&empty)]);
    let queue = open(&path);
    let mut told = |name: &str| {
        check(&path, name);
        names.push(name.to_owned());
        after.push(dump(&path));
    };
    Act { queue: &queue, told: &mut told }.all();
    drop(queue);

    let of_child = |name: &str| {
        let directory = parent.path().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("queue.db");
        std::fs::copy(&empty, &path).unwrap();
        path
    };
    let path = of_child("whole");
    let trace = parent.path().join("trace");
    let (told, killed) = traced(&path, &["-o", trace.to_str().unwrap()]);
    assert_eq!((told, killed), (names.len() - 1, false));
    assert_eq!(Some(&dump(&path)), after.last(), "the ids are not the same each time");
    #[expect(clippy::disallowed_methods, reason = "the trace of a child")]
    let calls = calls(&std::fs::read_to_string(&trace).unwrap());
    assert!(calls.len() > 300, "only {} calls were found", calls.len());

    // Syncs are few and decide, so all of them; of the writes, every so many.
    let tried = chosen(calls, |(name, _)| name, every);
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..CHILDREN {
            let (tried, next, names, after, of_child) = (&tried, &next, &names, &after, &of_child);
            scope.spawn(move || {
                while let Some((name, number)) =
                    tried.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let path = of_child(&format!("killed-{thread}"));
                    let injection = format!("inject={name}:signal=SIGKILL:when={number}");
                    let (told, killed) = traced(&path, &["-o", "/dev/null", "-e", &injection]);
                    assert!(killed, "{injection} was not met");
                    let during = names.get(told + 1).map_or("close", String::as_str);
                    let when = format!("{injection}, during `{during}`");
                    judge(&path, after, told, &when);
                }
            });
        }
    });
}

fn judge(path: &Path, after: &[Vec<String>], told: usize, when: &str) {
    check(path, when);
    let found = dump(path);
    let same = [after.get(told), after.get(told + 1)].contains(&Some(&found));
    assert!(same, "{when}: neither all nor nothing: {found:#?}");
    // And it goes on from there.
    let queue = Queue::open(path, rules()).unwrap();
    let dead = queue.open_runs().unwrap();
    let runs = BTreeMap::from_iter(dead.iter().map(|run| (run.run_id, Liveness::Dead)));
    let (reservation_owner, reservation_lasts_ms) = (Liveness::Dead, 1);
    queue.call(Recover { runs, reservation_owner, reservation_lasts_ms, now: at(200) }).unwrap();
    assert!(queue.open_runs().unwrap().is_empty(), "{when}");
    assert!(queue.reservation().unwrap().is_none(), "{when}");
    drop(queue);
    check(path, when);
}
