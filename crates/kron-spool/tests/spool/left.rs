//! A file that was read is deleted, and no other that a producer puts in its place meanwhile.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use kron_spool::{Fate, Look, Recovered, Spool, Start, State};
use kron_state::simulated::{Fault, Faulty};
use kron_state::{Operation, RealDirectory};
use kron_testkit::files::scratch;

use crate::made::{a_run, at, far_future, id, new_task, open, recover, text_of_put};
use crate::promises::Listing;

const EIO: i32 = 5;

/// The file of another task `a`.
fn other(number: u32) -> String {
    text_of_put("a").replace(r#""of":"a""#, &format!(r#""of":"other {number}""#))
}

/// A producer renames a file over whatever waits.
fn put_over(spool: &Path, text: &str) {
    let pending = spool.join("tasks/pending");
    let mut file = std::fs::File::options();
    let file = file.write(true).create_new(true).mode(0o600).open(pending.join(".upload"));
    std::io::Write::write_all(&mut file.unwrap(), text.as_bytes()).unwrap();
    std::fs::rename(pending.join(".upload"), pending.join("a.json")).unwrap();
}

fn is_taken(operation: Operation, name: &str) -> bool {
    operation == Operation::Rename && name.starts_with(".tmp-left-")
}

/// Puts and starts `a` in a spool where something happens before operations.
fn start(
    path: &Path,
    decide: impl Fn(Operation, &str) -> Fault + Send + Sync + 'static,
) -> Result<kron_spool::Task, kron_spool::SpoolError> {
    let root = RealDirectory::open(path).unwrap();
    let spool = Spool::over(&Faulty::new(root, decide)).unwrap();
    spool.put(&[new_task("a")], at(0)).pop().unwrap().unwrap();
    let Look::Task(found) = spool.look("a.json", far_future()).unwrap() else { panic!() };
    spool.start(vec![Start { found: *found, run: a_run(1) }], at(1)).pop().unwrap()
}

fn payload(spool: &Spool, state: State) -> String {
    let found = spool.read(state, &id("a")).unwrap().unwrap().unwrap();
    found.task.payload.text().to_owned()
}

/// What was set aside, whatever it is called there.
fn set_aside(path: &Path) -> Vec<String> {
    let spool = Spool::open_to_read(path).unwrap();
    let names = spool.rejected_names().unwrap();
    let text = |name: &String| std::fs::read_to_string(path.join("rejected").join(name)).unwrap();
    names.iter().map(text).collect()
}

#[test]
fn what_comes_in_the_place_of_what_was_read_stays() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let (there, came) = (path.clone(), AtomicBool::new(false));
    start(&path, move |operation, name| {
        if is_taken(operation, name) && !came.swap(true, Ordering::Relaxed) {
            put_over(&there, &other(1));
        }
        Fault::None
    })
    .unwrap();
    assert_eq!(Listing::of(&path).names(), ["pending/a.json", "running/a.json"]);
    assert!(payload(&open(&path), State::Pending).contains("other 1"));
    assert!(!payload(&open(&path), State::Running).contains("other"));
}

/// Two come one after the other: the first of them has lost its place, and is set aside.
#[test]
fn what_has_lost_its_place_meanwhile_is_set_aside() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let (there, came) = (path.clone(), AtomicBool::new(false));
    start(&path, move |operation, name| {
        if is_taken(operation, name) {
            came.store(true, Ordering::Relaxed);
            put_over(&there, &other(1));
        } else if operation == Operation::Rename
            && name == "a.json"
            && came.swap(false, Ordering::Relaxed)
        {
            put_over(&there, &other(2));
        }
        Fault::None
    })
    .unwrap();
    let expected =
        ["pending/a.json", "rejected/a.json", "rejected/a.json.report", "running/a.json"];
    assert_eq!(Listing::of(&path).names(), expected);
    assert!(payload(&open(&path), State::Pending).contains("other 2"));
    assert_eq!(set_aside(&path), [other(1)]);
}

/// Starts `a` and dies when it has taken away what a producer has put over it.
fn died(path: &Path, text: String) {
    let (there, dead) = (path.to_owned(), AtomicBool::new(false));
    let started = start(path, move |operation, name| {
        if dead.load(Ordering::Relaxed) {
            return Fault::Errno(EIO);
        }
        if is_taken(operation, name) {
            put_over(&there, &text);
            dead.store(true, Ordering::Relaxed);
        }
        Fault::None
    });
    assert!(started.is_err());
    let names = Listing::of(path).names();
    assert!(names.iter().any(|name| name.starts_with("pending/.tmp-left-")), "{names:?}");
}

#[test]
fn what_a_crash_has_left_without_its_name_gets_it_back() {
    let parent = scratch();
    let in_new = |name: &str| -> PathBuf { parent.path().join(name) };
    // Another task has no right to the id, but is not lost.
    let path = in_new("other");
    died(&path, other(1));
    let recovered: Recovered = recover(&open(&path), Fate::Alive).unwrap();
    assert_eq!((recovered.set_aside.len(), recovered.failed.len()), (1, 0), "{recovered:?}");
    assert_eq!(set_aside(&path), [other(1)]);
    // The same task is a leftover as any other.
    let path = in_new("same");
    died(&path, text_of_put("a"));
    let recovered = recover(&open(&path), Fate::Alive).unwrap();
    assert_eq!(recovered.removed, [(id("a"), State::Pending)], "{recovered:?}");
    assert_eq!(Listing::of(&path).names(), ["running/a.json"]);
    // Something else has its name by now.
    let path = in_new("taken");
    died(&path, other(1));
    put_over(&path, &other(2));
    recover(&open(&path), Fate::Alive).unwrap();
    let mut texts = set_aside(&path);
    texts.sort();
    assert_eq!(texts, [other(1), other(2)]);
    // Also without a crash, when the old is purged; it keeps what is completed.
    let path = in_new("purged");
    died(&path, text_of_put("a"));
    let spool = open(&path);
    std::fs::rename(path.join("tasks/running/a.json"), path.join("tasks/completed/a.json"))
        .unwrap();
    assert_eq!(spool.purge(far_future(), far_future()).unwrap().completed, 0);
    assert_eq!(Listing::of(&path).names(), ["completed/a.json", "pending/a.json"]);
}
