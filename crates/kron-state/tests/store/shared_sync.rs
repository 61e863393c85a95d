//! Commits of several threads, and the directory syncs they share.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kron_core::UtcSecond;
use kron_state::simulated::{Disk, DiskFile};
use kron_state::{Contents, Directory, FileError, Store};
use kron_testkit::waiting::PATIENCE;

use crate::made::{HISTORY_MAX, mark, minute, missed};

/// How a sync ends.
#[derive(Clone, Copy)]
enum End {
    Well,
    Failed,
}

/// A disk whose directory syncs take effect when they begin and end when and how they are told.
#[derive(Clone)]
struct Slow {
    disk: Disk,
    begun: Sender<()>,
    may_end: Arc<Mutex<Receiver<End>>>,
}

/// What the test has of such a disk.
struct Reins {
    disk: Disk,
    begins: Receiver<()>,
    let_end: Sender<End>,
    store: Arc<Store<Slow>>,
}

fn slow_store() -> Reins {
    let disk = Disk::new();
    let (begun, begins) = channel();
    let (let_end, may_end) = channel();
    let slow = Slow { disk: disk.clone(), begun, may_end: Arc::new(Mutex::new(may_end)) };
    // Opening syncs both directories.
    let_end.send(End::Well).unwrap();
    let_end.send(End::Well).unwrap();
    let store = Arc::new(Store::open(slow, HISTORY_MAX).unwrap());
    begins.recv_timeout(PATIENCE).unwrap();
    begins.recv_timeout(PATIENCE).unwrap();
    Reins { disk, begins, let_end, store }
}

impl Reins {
    /// Commits in a thread of its own, and tells how that went.
    fn commit(&self, identity: &'static str, done: &Sender<(&'static str, bool)>) {
        let (store, done) = (Arc::clone(&self.store), done.clone());
        std::thread::spawn(move || {
            let committed = store.commit(identity, &[missed(1)]).is_ok();
            done.send((identity, committed)).unwrap();
        });
    }

    /// Waits until the documents of these jobs have been put in place.
    fn wait_until_renamed(&self, identities: &[&str]) {
        let renamed = |identity: &&str| {
            let file = kron_state::document_file(identity);
            self.disk.names().unwrap().contains(&file)
        };
        while !identities.iter().all(renamed) {
            std::thread::yield_now();
        }
    }
}

impl Directory for Slow {
    type File = DiskFile;

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()?;
        self.begun.send(()).unwrap();
        match self.may_end.lock().unwrap().recv().unwrap() {
            End::Well => Ok(()),
            End::Failed => Err(io::Error::from_raw_os_error(5)),
        }
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
    fn subdirectory(&self, name: &str) -> Result<Slow, FileError> {
        Ok(Slow { disk: self.disk.subdirectory(name)?, ..self.clone() })
    }
    fn existing_subdirectory(&self, name: &str) -> Result<Option<Slow>, FileError> {
        self.subdirectory(name).map(Some)
    }
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }
    fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Contents>, FileError> {
        self.disk.read(name, bytes_max)
    }
    fn modified(&self, name: &str) -> Result<Option<UtcSecond>, FileError> {
        self.disk.modified(name)
    }
    fn set_modified(&self, name: &str, at: UtcSecond) -> Result<(), FileError> {
        self.disk.set_modified(name, at)
    }
    fn create(&self, name: &str) -> io::Result<DiskFile> {
        self.disk.create(name)
    }
    fn append(&self, name: &str) -> Result<DiskFile, FileError> {
        self.disk.append(name)
    }
    fn write(&self, file: &mut DiskFile, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(file, bytes)
    }
    fn sync_file(&self, file: &DiskFile) -> io::Result<()> {
        self.disk.sync_file(file)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

#[test]
fn a_commit_waits_for_a_sync_that_began_after_its_rename_and_shares_it() {
    let reins = slow_store();
    let (done, finished) = channel();
    reins.commit("first", &done);
    reins.begins.recv_timeout(PATIENCE).unwrap();
    // While the first sync is under way, others come too late for it.
    let late = ["a", "b", "c"];
    for identity in late {
        reins.commit(identity, &done);
    }
    reins.wait_until_renamed(&late);
    reins.let_end.send(End::Well).unwrap();
    reins.begins.recv_timeout(PATIENCE).unwrap();
    // The first commit is done; the others wait for the second sync, which has begun.
    assert_eq!(finished.recv_timeout(PATIENCE).unwrap(), ("first", true));
    assert!(finished.try_recv().is_err(), "one was done before its sync was");
    reins.let_end.send(End::Well).unwrap();
    // All three may share it, unless one had renamed its file but not yet begun to wait.
    let mut left = late.len();
    while left > 0 {
        if let Ok((identity, committed)) = finished.recv_timeout(Duration::from_millis(1)) {
            let lost = reins.disk.after_power_cut(&mut |_| 0);
            let reopened = Store::open(lost, HISTORY_MAX).unwrap();
            assert!(committed);
            assert_eq!(mark(&reopened, identity), Some(minute(1)), "{identity}");
            left -= 1;
        } else if reins.begins.try_recv().is_ok() {
            reins.let_end.send(End::Well).unwrap();
        }
    }
}

#[test]
fn a_sync_that_failed_failed_for_everybody() {
    let reins = slow_store();
    let (done, finished) = channel();
    reins.commit("first", &done);
    reins.begins.recv_timeout(PATIENCE).unwrap();
    reins.commit("second", &done);
    reins.wait_until_renamed(&["second"]);
    reins.let_end.send(End::Failed).unwrap();
    for _ in 0..2 {
        let (identity, committed) = finished.recv_timeout(PATIENCE).unwrap();
        assert!(!committed, "{identity}");
    }
    assert!(reins.begins.try_recv().is_err(), "it was tried again");
}

#[test]
fn many_threads_at_many_jobs_lose_nothing() {
    let disk = Disk::new();
    let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let store = &store;
            scope.spawn(move || {
                for period in 0..100 {
                    // Jobs of one's own, and one that is everybody's.
                    store.commit(&format!("job-{thread}"), &[missed(period)]).unwrap();
                    store.commit("shared", &[missed(period)]).unwrap();
                }
            });
        }
    });
    let reopened = Store::open(disk.after_power_cut(&mut |_| 0), HISTORY_MAX).unwrap();
    for identity in ["job-0", "job-1", "job-2", "job-3", "shared"] {
        assert_eq!(mark(&reopened, identity), Some(minute(99)), "{identity}");
    }
}

#[test]
fn commits_to_one_job_take_turns() {
    let store = Store::open(Disk::new(), 1_000).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let store = &store;
            scope.spawn(move || {
                for period in 0..50 {
                    store.commit("job", &[missed(thread * 50 + period)]).unwrap();
                }
            });
        }
    });
    // None of them was written over by another that had read the document before.
    assert_eq!(store.read("job").unwrap().unwrap().history.len(), 200);
}
