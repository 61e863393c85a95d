//! Every system call fails, or is the last one before the process is killed.
//!
//! A child does everything a daemon and a supervisor do with a state directory. One trace of it
//! tells which calls it makes; then one after the other fails or kills, and what is left is opened:
//! each that decides something and some of the others, or all of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kron_state::{
    Directory as _, Document, KnownRead, Lock, RealDirectory, RunRead, Store, document_file,
};
use kron_testkit::files::scratch;
use kron_testkit::needs::{Need, left_out};
use kron_testkit::strace::chosen;

use crate::child::{self, DAMAGED, JOB};
use crate::made::{BYTES_MAX, HISTORY_MAX, ended, known, left_over, mark, minute, missed, run};

const DAMAGED_BYTES: &[u8] = b"{\"Version\":\0";
/// Calls that are no business of the store's: memory, threads, and closing.
const TRACED: &str = "trace=file,desc";
const NOT_FAILED: &[&str] = &["close", "mmap", "munmap", "poll", "ioctl", "execve"];

/// What a daemon finds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// Not even a directory.
    Nothing,
    /// What a crash has left.
    Past,
}

fn prepare(state: &Path, found: Found) {
    if found == Found::Nothing {
        return;
    }
    let store = Store::open(RealDirectory::open(state).unwrap(), HISTORY_MAX).unwrap();
    store.commit(JOB, &[missed(1)]).unwrap();
    store.save_known(&known(&["a"])).unwrap();
    let directory = RealDirectory::open(state).unwrap();
    let mut file = directory.create(&document_file(DAMAGED)).unwrap();
    directory.write(&mut file, DAMAGED_BYTES).unwrap();
    let mut file = directory.create(".known.json.0.tmp").unwrap();
    directory.write(&mut file, b"half").unwrap();
}

/// Runs the child under strace with these words; what it said, and the trace.
fn traced(state: &Path, words: &[&str]) -> (Vec<String>, String) {
    let trace = state.with_file_name("trace");
    let mut wrapper = vec!["strace", "-f", "-qq", "-o", trace.to_str().unwrap()];
    wrapper.extend(words);
    let output = child::command(&wrapper, "act_out", state).output().expect("strace is there");
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.lines().filter_map(|line| line.split_once("> ")).map(|(_, said)| said.into());
    (said.collect(), std::fs::read_to_string(trace).unwrap())
}

/// The calls the child makes, each with its number among those of its name in its thread.
fn calls(trace: &str) -> Vec<(String, usize)> {
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
        // What it says to its parent is no business of the store's either.
        let says = rest.trim_start().starts_with("write(1,");
        // The standard library looks at descriptors it is about to close when it is debugged.
        let looks = rest.contains("F_GETFD");
        if !says && !looks && !NOT_FAILED.contains(&name) {
            calls.push((name.to_owned(), *count));
        }
    }
    panic!("the child did not come to its end: {trace}");
}

/// What must be true of the state directory after the child said this and ended somehow.
fn check(state: &Path, before: Found, said: &[String], told: &str) {
    let acknowledged = |what: &str| said.iter().any(|line| line == what);
    let told = format!("{told}: {said:?}");
    drop(Lock::acquire(state, Duration::from_secs(60)).unwrap());
    let store = Store::open(RealDirectory::open(state).unwrap(), HISTORY_MAX).unwrap();
    let directory = RealDirectory::open(state).unwrap();
    assert_eq!(left_over(&directory), [""; 0], "{told}");
    let old_or_new = |what: &str, old: bool, new: bool| {
        assert!(new || (old && !acknowledged(what)), "{told}: not {what}");
    };
    let past = before == Found::Past;
    let found = mark(&store, JOB);
    old_or_new("committed", found == past.then(|| minute(1)), found == Some(minute(2)));
    match store.known().unwrap() {
        KnownRead::Missing => old_or_new("saved", !past, false),
        KnownRead::Known(found) => {
            old_or_new("saved", past && found == known(&["a"]), found == known(&["a", "b"]));
        }
        KnownRead::Unreadable { cause, .. } => panic!("{told}: {cause}"),
    }
    let found = store.run_record(&run(2)).unwrap();
    old_or_new("left", found == RunRead::Missing, found == RunRead::Record(ended(2)));
    let found = store.epochs().unwrap().epochs.len();
    old_or_new("told", found == 0, found == 1);
    if !past {
        return;
    }
    let found = directory.read(&document_file(DAMAGED), BYTES_MAX).unwrap().unwrap().bytes;
    let restored = Document::parse(&found, Some(DAMAGED)).is_ok();
    old_or_new("restored", found == DAMAGED_BYTES, restored);
    let mut names = directory.names().unwrap();
    names.retain(|name| name.contains(".corrupt."));
    let copies = names.iter().map(|name| directory.read(name, BYTES_MAX).unwrap().unwrap().bytes);
    let copies: Vec<_> = copies.collect();
    assert!(copies.iter().all(|copy| copy == DAMAGED_BYTES), "{told}: a copy that is none");
    assert!(!restored || copies.len() == 1, "{told}: {names:?}");
}

/// Injects something at calls, of those that decide nothing at every so many; `calls_min` is how
/// many calls there must be at least.
fn inject(what: &str, before: Found, calls_min: usize, every: usize) {
    if left_out("every system call of the store fails or kills", &[Need::Strace]) {
        return;
    }
    let parent = scratch();
    let state = parent.path().join("state");
    prepare(&state, before);
    let (said, trace) = traced(&state, &["-e", TRACED]);
    assert_eq!(said.last().map(String::as_str), Some("done"), "{said:?}");
    check(&state, before, &said, "nothing injected");
    let calls = calls(&trace);
    assert!(calls.len() >= calls_min, "only {} calls were found", calls.len());

    for (name, number) in &chosen(calls, |(name, _)| name, every) {
        let parent = scratch();
        let state = parent.path().join("state");
        prepare(&state, before);
        let injection = format!("inject={name}:{}", what.replace("WHEN", &number.to_string()));
        let (said, trace) = traced(&state, &["-e", &format!("trace={name}"), "-e", &injection]);
        assert!(trace.contains("INJECTED") || trace.contains("SIGKILL"), "{injection}: {trace}");
        check(&state, before, &said, &injection);
        let done = said.last().is_some_and(|last| last == "done");
        assert!(!done, "{injection} was not seen: {trace}");
    }
}

/// A new directory is durable only once the one it is in is synced.
#[test]
fn the_parent_of_a_new_directory_is_synced() {
    if left_out("the parent of a new directory is synced", &[Need::Strace]) {
        return;
    }
    let parent = scratch();
    let state = parent.path().join("state");
    let (said, trace) = traced(&state, &["-y", "-e", "trace=mkdir,mkdirat,fsync"]);
    assert_eq!(said.last().map(String::as_str), Some("done"), "{said:?}");
    for (made, within) in [("state\"", parent.path()), ("\"runs\"", &*state)] {
        let made = trace.find(made).expect("it is made");
        let synced = trace[made..].find(&format!("<{}>)", within.display()));
        assert!(synced.is_some(), "{}: {trace}", within.display());
    }
}

/// Every how many of the calls that decide nothing are tried where not all are.
const SOME: usize = 4;
const ALL: usize = 1;

fn kill_at(every: usize) {
    inject("signal=SIGKILL:when=WHEN", Found::Past, 80, every);
    inject("signal=SIGKILL:when=WHEN", Found::Nothing, 60, every);
}

fn fail_at(every: usize) {
    inject("error=EIO:when=WHEN", Found::Past, 80, every);
    inject("error=EIO:when=WHEN", Found::Nothing, 60, every);
}

fn fail_from(every: usize) {
    inject("error=ENOSPC:when=WHEN+", Found::Past, 80, every);
}

#[test]
fn a_process_killed_at_any_call_leaves_the_old_or_the_new() {
    kill_at(SOME);
}

#[test]
#[ignore = "full: every call"]
fn a_process_killed_at_every_call_leaves_the_old_or_the_new() {
    kill_at(ALL);
}

#[test]
fn an_error_of_any_call_leaves_the_old_or_the_new() {
    fail_at(SOME);
}

#[test]
#[ignore = "full: every call"]
fn an_error_of_every_call_leaves_the_old_or_the_new() {
    fail_at(ALL);
}

#[test]
fn an_error_of_any_call_and_all_later_ones_leaves_the_old_or_the_new() {
    fail_from(SOME);
}

#[test]
#[ignore = "full: every call"]
fn an_error_of_every_call_and_all_later_ones_leaves_the_old_or_the_new() {
    fail_from(ALL);
}
