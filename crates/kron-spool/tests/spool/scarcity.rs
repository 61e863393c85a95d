//! What happens when there is not enough, of descriptors or of room on a real file system, and when
//! a disk fails so that nothing more can be promised.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kron_spool::{Fate, Finish, Look, Next, PutError, Spool, Start, State};
use kron_state::Operation;
use kron_state::simulated::{Disk, Fault, Faulty};
use kron_testkit::files::scratch;
use kron_testkit::needs::left_out;
use kron_testkit::tmpfs_mount::{self, TmpfsMount};

use crate::child;
use crate::made::{a_run, at, ended, far_future, id, new_task, open, recover};
use crate::promises::{Listing, Promise, Promises};

#[test]
fn a_batch_may_have_more_tasks_than_a_process_files() {
    let parent = scratch();
    let spool = parent.path().join("spool");
    drop(open(&spool));
    let said = child::run(&["prlimit", "--nofile=200"], "put_a_thousand_at_once", &spool);
    assert_eq!(said, ["1000"]);
    assert_eq!(Listing::of(&spool).0.len(), 1_000);
}

/// Takes all the room that is left.
fn fill(path: &Path) -> PathBuf {
    let filler = path.with_file_name("filler");
    let error = std::fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    filler
}

#[test]
fn a_full_file_system_loses_nothing_and_is_used_again_when_there_is_room() {
    let name = "a full file system loses nothing and is used again when there is room";
    if left_out(name, tmpfs_mount::NEEDS) {
        return;
    }
    let small = TmpfsMount::of_kib(256);
    let path = small.path().join("spool");
    let (spool, _lock) = Spool::open(&path, &[]).unwrap();
    for put in spool.put(&[new_task("a"), new_task("b")], at(0)) {
        put.unwrap();
    }
    let found = |name: &str| match spool.look(name, far_future()).unwrap() {
        Look::Task(found) => Start { found: *found, run: a_run(1) },
        other => panic!("{other:?}"),
    };
    let started = spool.start(vec![found("a.json")], at(1)).pop().unwrap().unwrap();
    std::fs::write(path.join("tasks/pending/bad.json"), "{}").unwrap();
    let before = Listing::of(&path).0;

    let filler = fill(&path);
    let full = |error: &dyn std::error::Error| {
        let source = error.source().map(ToString::to_string).unwrap_or_default();
        assert_eq!(source, "No space left on device (os error 28)", "{error}");
    };
    let ends = |task: &kron_spool::Task| {
        vec![Finish { task: task.clone(), next: Next::Completed(ended(0)) }]
    };
    match spool.put(&[new_task("c"), new_task("c")], at(2)).as_slice() {
        [Err(PutError::Spool(one)), Err(PutError::Spool(other))] => {
            full(one);
            full(other);
            assert!(one.to_string().starts_with("cannot write `"), "{one}");
        }
        other => panic!("{other:?}"),
    }
    full(&spool.start(vec![found("b.json")], at(3)).pop().unwrap().unwrap_err());
    full(&spool.finish(ends(&started), at(4)).pop().unwrap().unwrap_err());
    let Look::Unfit(fault) = spool.look("bad.json", far_future()).unwrap() else { panic!() };
    full(&spool.set_aside(State::Pending, "bad.json", &fault, at(5)).unwrap_err());
    assert_eq!(Listing::of(&path).0, before, "something is left or gone");
    let recovered = recover(&spool, Fate::Unknown).unwrap();
    assert_eq!(recovered.undecided, [id("a")]);

    std::fs::remove_file(filler).unwrap();
    assert!(spool.put(&[new_task("c")], at(6)).pop().unwrap().is_ok());
    assert!(spool.start(vec![found("b.json")], at(7)).pop().unwrap().is_ok());
    assert!(spool.finish(ends(&started), at(8)).pop().unwrap().is_ok());
    spool.set_aside(State::Pending, "bad.json", &fault, at(9)).unwrap();
    assert_eq!(
        Listing::of(&path).names(),
        [
            "completed/a.json",
            "pending/c.json",
            "rejected/bad.json",
            "rejected/bad.json.report",
            "running/b.json",
        ]
    );
}

/// After a directory that could not be synced, or a file that could not be removed, nothing more is
/// done with the spool; opened anew, it is recovered.
#[test]
fn after_what_is_final_nothing_more_is_changed() {
    const EIO: i32 = 5;
    for failing in [Operation::SyncDirectory, Operation::Remove] {
        let disk = Disk::new();
        let fails = Arc::new(AtomicBool::new(false));
        let (decides, failed) = (Arc::clone(&fails), Arc::new(AtomicBool::new(false)));
        let faulty = Faulty::new(disk.clone(), move |operation, _| {
            let now = operation == failing && decides.load(Ordering::Relaxed);
            match now && !failed.swap(true, Ordering::Relaxed) {
                true => Fault::Errno(EIO),
                false => Fault::None,
            }
        });
        let spool = Spool::over(&faulty).unwrap();
        let puts = spool.put(&[new_task("a"), new_task("b")], at(0));
        assert!(puts.iter().all(Result::is_ok));
        let found = |name: &str| match spool.look(name, far_future()).unwrap() {
            Look::Task(found) => Start { found: *found, run: a_run(1) },
            other => panic!("{other:?}"),
        };
        fails.store(true, Ordering::Relaxed);
        let starts = vec![found("a.json"), found("b.json")];
        let results = spool.start(starts, at(1));
        let first = results[0].as_ref().unwrap_err();
        assert!(first.is_final(), "{failing:?}: {first}");
        // The disk works again, but nobody knows what it holds.
        let puts = spool.put(&[new_task("c")], at(2));
        let [Err(PutError::Spool(error))] = &puts[..] else { panic!("{failing:?}: {puts:?}") };
        assert!(error.is_final(), "{failing:?}: {error}");
        assert_eq!(
            error.to_string(),
            "an earlier sync or removal in `..` failed, so that nothing more is changed there"
        );
        let mut promises = Promises::default();
        promises.tell("a.json", Promise::There);
        promises.tell("b.json", Promise::There);
        for fate in [Fate::Lost, Fate::NotStarted] {
            let survivor = disk.after_power_cut(&mut |_| 1);
            recover(&Spool::over(&survivor).unwrap(), fate).unwrap();
            promises.check(&Listing::of_disk(&survivor)).unwrap();
        }
    }
}
