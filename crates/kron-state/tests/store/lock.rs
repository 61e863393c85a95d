//! One daemon at a time.

use std::process::{Command, Stdio};
use std::time::Duration;

use kron_core::Category;
use kron_state::{Directory as _, Lock, LockError, RealDirectory, Store};
use kron_testkit::needs::{Need, left_out};

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
        // Until the other has ended, however long that takes.
        std::thread::spawn(move || Lock::acquire(&path, Duration::MAX).map(drop))
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

/// The lock is the directory's: without the file it is held all the same.
#[test]
fn removing_or_replacing_the_file_lets_no_second_daemon_in() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let file = path.join("lock");
    let lock = Lock::acquire(&path, Duration::ZERO).unwrap();
    let store = Store::open(RealDirectory::open(&path).unwrap(), HISTORY_MAX).unwrap();
    store.alive(minute(7)).unwrap();
    assert!(lock.is_still_held().unwrap());

    std::fs::remove_file(&file).unwrap();
    let mut other = child::start("hold_lock", &path);
    assert_eq!(other.said().as_deref(), Some("refused 0"), "nobody knows whose it is");
    assert_eq!(holder(Lock::acquire(&path, Duration::from_millis(50)).unwrap_err()), None);
    assert!(!lock.is_still_held().unwrap());
    let error = store.alive(minute(8)).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.starts_with("the file is gone"), "{error}: {source}");
    assert!(!file.exists(), "neither a sign of life nor an attempt makes it again");

    drop(RealDirectory::open(&path).unwrap().create("lock").unwrap());
    assert!(!lock.is_still_held().unwrap(), "it is another file");
    holder(Lock::acquire(&path, Duration::ZERO).unwrap_err());
    drop(lock);
    let lock = Lock::acquire(&path, AGES).unwrap();
    assert!(lock.is_still_held().unwrap());
}

#[test]
fn a_daemon_whose_directory_was_moved_away_knows_it() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let aside = parent.path().join("aside");
    let lock = Lock::acquire(&path, Duration::ZERO).unwrap();
    std::fs::rename(&path, &aside).unwrap();
    assert!(!lock.is_still_held().unwrap(), "it is gone");
    let other = Lock::acquire(&path, AGES).unwrap();
    assert!(!lock.is_still_held().unwrap(), "it is another");
    assert!(other.is_still_held().unwrap());
    drop(other);
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    assert!(lock.is_still_held().unwrap());
}

/// A daemon of before the directory was locked holds the file's lock only.
#[test]
fn whoever_holds_the_file_alone_holds_the_lock() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    drop(Lock::acquire(&path, Duration::ZERO).unwrap());
    let file = std::fs::File::options().read(true).write(true).open(path.join("lock")).unwrap();
    file.lock().unwrap();
    holder(Lock::acquire(&path, Duration::from_millis(50)).unwrap_err());
    drop(file);
    Lock::acquire(&path, AGES).unwrap();
}

/// Where a directory cannot be locked, as on NFS, the file's lock stands in for it.
#[test]
fn where_no_directory_can_be_locked_the_file_is() {
    if left_out("where no directory can be locked the file is", &[Need::Strace]) {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("state");
    let without = |error: &str| {
        let inject = format!("inject=flock:error={error}:when=1");
        let trace = parent.path().join("trace");
        let trace = trace.to_str().unwrap();
        let wrapper =
            ["strace", "-f", "-qq", "-o", trace, "-e", "trace=flock", "-e", inject.as_str()];
        let mut command = child::command(&wrapper, "hold_lock", &path);
        let output = command.stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for error in ["EBADF", "EOPNOTSUPP"] {
        assert!(without(error).contains("> held"), "{error}");
        let lock = Lock::acquire(&path, AGES).unwrap();
        let refused = format!("> refused {}", std::process::id());
        assert!(without(error).contains(&refused), "{error}");
        drop(lock);
    }
    assert!(!without("EIO").contains("> held"), "what is wrong is told");
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
