//! One daemon at a time.

use std::process::{Command, Stdio};
use std::time::Duration;

use kron_core::Category;
use kron_state::{Lock, LockError, RealDirectory, Store};

use crate::child::{self, Working};
use crate::made::{HISTORY_MAX, minute};

/// Long enough for any process to end or to begin.
const AGES: Duration = Duration::from_secs(60);

fn holder(error: LockError) -> Option<i32> {
    assert_eq!(error.category(), Category::System);
    match error {
        LockError::Held { by_pid } => by_pid,
        LockError::Store(error) => panic!("{error:?}"),
    }
}

#[test]
fn of_many_processes_that_race_for_the_lock_one_gets_it() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let mut racers: Vec<Working> = (0..8).map(|_| child::start("hold_lock", &path)).collect();
    // A racer that comes early may see the file before the number is in it, so it may not know.
    let said: Vec<String> = racers.iter_mut().map(|racer| racer.said().unwrap()).collect();
    let holders: Vec<usize> = (0..said.len()).filter(|at| said[*at] == "held").collect();
    assert_eq!(holders.len(), 1, "{said:?}");
    let held_by = racers[holders[0]].process.id();
    for (at, said) in said.iter().enumerate() {
        let refusals = ["held".to_owned(), format!("refused {held_by}"), "refused 0".to_owned()];
        assert!(refusals.contains(said), "{at}: {said}");
    }
    let error = Lock::acquire(&path, Duration::ZERO).unwrap_err();
    assert_eq!(holder(error), Some(held_by as i32));

    // However it ends, the lock ends with it.
    racers[holders[0]].process.kill().unwrap();
    drop(racers);
    Lock::acquire(&path, AGES).unwrap();
}

#[test]
fn a_start_waits_for_the_daemon_before_it_to_end() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let mut before = child::start("hold_lock", &path);
    assert_eq!(before.said().as_deref(), Some("held"));
    let waiting = {
        let path = path.clone();
        std::thread::spawn(move || Lock::acquire(&path, AGES).map(drop))
    };
    let error = Lock::acquire(&path, Duration::from_millis(50)).unwrap_err();
    assert_eq!(holder(error), Some(before.process.id() as i32));
    before.dismiss();
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_process_that_was_started_does_not_hold_the_lock() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let lock = Lock::acquire(&path, Duration::ZERO).unwrap();
    let mut command = Command::new("cat");
    let mut cat = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    drop(lock);
    // Other tests fork too, and their children hold everything until they execute something.
    Lock::acquire(&path, AGES).unwrap();
    drop(cat.stdin.take());
    cat.wait().unwrap();
}

#[test]
fn taking_the_lock_is_no_sign_of_life() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    drop(Lock::acquire(&path, AGES).unwrap());
    let store = Store::open(RealDirectory::open(&path).unwrap(), HISTORY_MAX).unwrap();
    assert_eq!(store.last_alive().unwrap(), None);
    store.alive(minute(70)).unwrap();
    let _lock = Lock::acquire(&path, AGES).unwrap();
    assert_eq!(store.last_alive().unwrap(), Some(minute(70)));
    let written = std::fs::read_to_string(path.join("lock")).unwrap();
    assert_eq!(written.trim(), std::process::id().to_string());
}
