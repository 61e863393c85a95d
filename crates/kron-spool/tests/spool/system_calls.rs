//! Every system call fails, or is the last one before the process is killed.
//!
//! A child does one of everything with a spool. One trace of it tells which calls it makes; then
//! each of them kills or fails, another process recovers what is left, and every promise that the
//! child was given must be kept. Calls that decide something are all tried; of the others only some,
//! unless a test says that it tries all.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kron_spool::{Fate, Look, Spool};
use kron_testkit::files::scratch;
use kron_testkit::needs::{Need, left_out};
use kron_testkit::strace::chosen;

use crate::child::{self, PREPARED};
use crate::made::{far_future, recover};
use crate::promises::{Listing, Promise, Promises};

/// Every how many of the calls that decide nothing are tried where not all are.
const SOME: usize = 6;
const ALL: usize = 1;
const CHILDREN: usize = 2;
/// Calls that are no business of the spool's: memory, threads, and closing.
const TRACED: &str = "trace=file,desc,getrandom";
const NOT_FAILED: &[&str] = &["close", "mmap", "munmap", "poll", "ioctl", "execve"];

/// One call of the child.
#[derive(Clone, Debug)]
struct Call {
    name: String,
    /// Its number among those of its name in its thread.
    number: usize,
    line: String,
}

impl Call {
    /// Whether it makes names durable after the spool was opened, so that its failure is final.
    fn is_directory_sync(&self) -> bool {
        let is_file = [".tmp-", ".json", ".report"].iter().any(|part| self.line.contains(part));
        self.name == "fsync" && !is_file
    }
}

/// Runs the child under strace with these words; what it said, and the trace.
fn traced(spool: &Path, words: &[&str]) -> (Vec<String>, String) {
    let trace = spool.with_file_name("trace");
    let mut wrapper = vec!["strace", "-f", "-qq", "-y", "-o", trace.to_str().unwrap()];
    wrapper.extend(words);
    let output = child::command(&wrapper, "act_out", spool).output();
    let output =
        output.expect("install the Debian package `strace`, or set KRON_TEST_WITHOUT=strace");
    (child::said(&output.stdout), std::fs::read_to_string(trace).unwrap())
}

/// The calls the child makes between its beginning and its end.
fn calls(trace: &str) -> Vec<Call> {
    let mut lines = trace.lines().filter_map(|line| {
        let (thread, rest) = line.split_once(' ')?;
        let (name, _) = rest.trim_start().split_once('(')?;
        Some((thread, name, rest))
    });
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let acting = lines.by_ref().find_map(|(thread, name, rest)| {
        *counts.entry((thread, name)).or_default() += 1;
        rest.contains("BEGIN").then_some(thread)
    });
    let acting = acting.expect("the child says where it begins");
    let mut calls = Vec::new();
    for (_, name, rest) in lines.filter(|(thread, ..)| *thread == acting) {
        let count = counts.entry((acting, name)).or_default();
        *count += 1;
        if rest.contains("> done") {
            return calls;
        }
        // What it says to its parent is no business of the spool's either, nor is what it does as
        // a producer of its own, or how the standard library makes its hashes.
        let says = rest.trim_start().starts_with("write(1<");
        let looks = ["F_GETFD", "GRND_INSECURE", "/.copy"].iter().any(|part| rest.contains(part));
        if !says && !looks && !NOT_FAILED.contains(&name) {
            calls.push(Call { name: name.to_owned(), number: *count, line: rest.to_owned() });
        }
    }
    panic!("the child did not come to its end: {trace}");
}

/// What the child was promised.
fn promised(said: &[String]) -> Promises {
    let mut promises = Promises::default();
    PREPARED.iter().for_each(|(name, promise)| promises.tell(name, *promise));
    for line in said {
        if let Some((name, promise)) = line.split_once(' ')
            && let Ok(promise) = promise.parse::<Promise>()
        {
            promises.tell(name, promise);
        }
    }
    promises
}

/// Recovers what the child has left, and checks that every promise is kept.
fn check(spool: &Path, said: &[String], fate: Fate, told: &str) {
    let (opened, _lock) = Spool::open(spool, &[]).unwrap();
    let recovered = recover(&opened, fate).unwrap();
    assert!(recovered.failed.is_empty(), "{told}: {:?}", recovered.failed);
    let promises = promised(said);
    // A copy that the child made as a producer may have been left halfway.
    let _ = std::fs::remove_file(spool.join("tasks/pending/.copy"));
    let kept = promises.check(&Listing::of(spool));
    kept.unwrap_or_else(|why| panic!("{told}: {why}: {said:?}"));
    for name in opened.pending_names().unwrap() {
        match opened.look(&name, far_future()).unwrap() {
            Look::Task(_) | Look::Ignored => {}
            Look::Unfit(_) if promises.0.get(&name) == Some(&Promise::Bad) => {}
            other => panic!("{told}: pending/{name}: {other:?}"),
        }
    }
}

/// Injects something at calls, of those that decide nothing at every so many; `judge` gets the call
/// and what the child said last.
fn inject(what: &str, every: usize, judge: fn(&Call, &str, &str)) {
    if left_out("every system call of the spool fails or kills", &[Need::Strace]) {
        return;
    }
    let parent = scratch();
    let spool = parent.path().join("spool");
    child::prepare(&spool);
    let (said, trace) = traced(&spool, &["-e", TRACED]);
    assert_eq!(said.last().map(String::as_str), Some("done"), "{said:?}");
    check(&spool, &said, Fate::Lost, "nothing injected");
    let calls = calls(&trace);
    assert!(calls.len() > 250, "only {} calls were found", calls.len());

    let tried = chosen(calls, |call| &call.name, every);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CHILDREN {
            scope.spawn(|| {
                while let Some(call) = tried.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let parent = scratch();
                    let spool = parent.path().join("spool");
                    child::prepare(&spool);
                    let number = call.number.to_string();
                    let injection =
                        format!("inject={}:{}", call.name, what.replace("WHEN", &number));
                    let only = format!("trace={}", call.name);
                    let (said, trace) = traced(&spool, &["-e", &only, "-e", &injection]);
                    let met = trace.contains("INJECTED") || trace.contains("SIGKILL");
                    assert!(met, "{injection}: {trace}");
                    let fate = [Fate::Lost, Fate::NotStarted][call.number % 2];
                    check(&spool, &said, fate, &format!("{injection} {}", call.line));
                    judge(call, said.last().map_or("", String::as_str), &injection);
                }
            });
        }
    });
}

fn kill_at(every: usize) {
    inject("signal=SIGKILL:when=WHEN", every, |_, last, told| assert_ne!(last, "done", "{told}"));
}

#[test]
fn a_process_killed_at_any_call_breaks_no_promise() {
    kill_at(SOME);
}

#[test]
#[ignore = "full: every call"]
fn a_process_killed_at_every_call_breaks_no_promise() {
    kill_at(ALL);
}

/// One that fails once is followed by a second attempt on the same spool, which succeeds; only
/// after a directory that could not be synced, or a file that could not be removed, nothing more is
/// done.
fn judge_error(call: &Call, last: &str, told: &str) {
    match last {
        "done" => {
            // While the spool is opened nothing was promised yet that could be broken.
            let opening = call.line.contains("spool>") || call.line.contains("tasks>");
            assert!(!call.is_directory_sync() || opening, "{told}: {}", call.line);
        }
        "final" => {
            // A file is looked at once more before it is removed.
            let removes = ["unlinkat", "newfstatat"].contains(&&*call.name);
            let allowed = call.is_directory_sync() || removes;
            assert!(allowed, "{told}: {}", call.line);
        }
        _ => panic!("{told}: {last}: {}", call.line),
    }
}

#[test]
fn an_error_of_any_call_breaks_no_promise() {
    inject("error=EIO:when=WHEN", SOME, judge_error);
}

#[test]
#[ignore = "full: every call"]
fn an_error_of_every_call_breaks_no_promise() {
    inject("error=EIO:when=WHEN", ALL, judge_error);
}

#[test]
fn a_full_disk_at_any_call_breaks_no_promise() {
    inject("error=ENOSPC:when=WHEN", SOME, judge_error);
}

#[test]
#[ignore = "full: every call"]
fn a_full_disk_at_every_call_breaks_no_promise() {
    inject("error=ENOSPC:when=WHEN", ALL, judge_error);
}

/// New directories are durable only once the ones that they are in are synced.
#[test]
fn the_parents_of_new_directories_are_synced() {
    if left_out("the parents of new directories are synced", &[Need::Strace]) {
        return;
    }
    let parent = scratch();
    let spool = parent.path().join("one/two/spool");
    let trace = parent.path().join("trace");
    let wrapper = ["strace", "-f", "-y", "-e", "trace=mkdir,mkdirat,fsync", "-o"];
    let mut wrapper = wrapper.to_vec();
    wrapper.push(trace.to_str().unwrap());
    assert_eq!(child::run(&wrapper, "look_at_all", &spool), [""; 0]);
    let trace = std::fs::read_to_string(trace).unwrap();
    let (one, two) = (parent.path().join("one"), parent.path().join("one/two"));
    let made = [
        ("one\"", parent.path()),
        ("two\"", &*one),
        ("spool\"", &*two),
        ("\"tasks\"", &*spool),
        ("\"pending\"", &*spool.join("tasks")),
        ("\"rejected\"", &*spool),
    ];
    for (made, within) in made {
        let made = trace.find(made).unwrap_or_else(|| panic!("{made} is not made: {trace}"));
        let synced = trace[made..].find(&format!("<{}>)", within.display()));
        assert!(synced.is_some(), "{}: {trace}", within.display());
    }
}
