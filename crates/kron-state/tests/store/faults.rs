//! Every call of every operation fails, once and for good, with every error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kron_core::Category;
use kron_state::simulated::{Disk, Fault, Faulty};
use kron_state::{
    Change, Directory, Document, Epoch, EpochEvent, KnownRead, Operation, RealDirectory, RunRead,
    Store, StoreError, document_file,
};
use kron_testkit::files::scratch;

use crate::made::{
    BYTES_MAX, HISTORY_MAX, armed, ended, finished, known, left_over, mark, minute, missed, run,
};

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

const JOB: &str = "db-backup";
const DAMAGED: &str = "damaged";
const DAMAGED_BYTES: &[u8] = b"{\"Version\":\"1\"\0\0\0";

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lasting {
    Once,
    ForGood,
}

type Act<D> = fn(&Store<Faulty<D>>) -> Result<(), StoreError>;

/// Everything a store can be asked, by name.
fn acts<D: Directory>() -> Vec<(&'static str, Act<D>)> {
    vec![
        ("nothing but opening", |_| Ok(())),
        ("scan", |store| store.scan().map(drop)),
        ("read", |store| store.read(JOB).map(drop)),
        ("commit", |store| store.commit(JOB, &[Change::Arm(armed(2, 2)), finished(2, 0, 3)])),
        ("first commit", |store| store.commit("new", &[missed(1)])),
        ("restore", |store| store.restore(DAMAGED, &Document::new(DAMAGED))),
        ("known", |store| store.known().map(drop)),
        ("save known", |store| store.save_known(&known(&["a", "b"]))),
        ("write run", |store| store.write_run(&run(2), &ended(2))),
        ("run record", |store| store.run_record(&run(1)).map(drop)),
        ("run ids", |store| store.run_ids().map(drop)),
        ("remove run", |store| store.remove_run(&run(1))),
        ("epoch", |store| store.append_epoch(&stopped(2))),
        ("epochs", |store| store.epochs().map(drop)),
        ("reset", |store| store.reset(JOB, Some(minute(0)), minute(9))),
        ("reset known", |store| store.reset_known(None, minute(0)).map(drop)),
        ("alive", |store| store.alive(minute(9))),
        ("last alive", |store| store.last_alive().map(drop)),
    ]
}

fn stopped(at: i64) -> Epoch {
    Epoch { at: minute(at), event: EpochEvent::Stop { mode: "wait".to_owned() } }
}

/// A state directory as it was before, with a damaged document and a file that was left over.
fn prepare(directory: impl Directory) {
    for (name, bytes) in [
        (document_file(DAMAGED).as_str(), DAMAGED_BYTES),
        (".known.json.0.tmp", b"half of it"),
        ("lock", b""),
    ] {
        let mut file = directory.create(name).unwrap();
        directory.write(&mut file, bytes).unwrap();
    }
    let store = Store::view(directory, HISTORY_MAX).unwrap();
    store.commit(JOB, &[missed(1)]).unwrap();
    store.save_known(&known(&["a"])).unwrap();
    store.append_epoch(&stopped(1)).unwrap();
    store.alive(minute(1)).unwrap();
}

/// Lets every call of every act fail in one way. `fresh` makes a new directory and returns what
/// opens it, as often as one likes.
fn fail_every_call<D: Directory + 'static, O: Fn() -> D>(
    fresh: impl Fn() -> O,
    fault: Fault,
    lasting: Lasting,
) {
    for (act_name, act) in acts::<D>() {
        for at in 0.. {
            let open = fresh();
            open().subdirectory("runs").unwrap();
            prepare(open());
            Store::view(open(), 0).unwrap().write_run(&run(1), &ended(1)).unwrap();
            let count = Arc::new(AtomicUsize::new(0));
            let hit = Arc::new(Mutex::new(None));
            let (counter, hitting) = (Arc::clone(&count), Arc::clone(&hit));
            let faulty = Faulty::new(open(), move |operation, _| {
                let number = counter.fetch_add(1, Ordering::Relaxed);
                if number < at || (number > at && lasting == Lasting::Once) {
                    return Fault::None;
                }
                hitting.lock().unwrap().get_or_insert(operation);
                fault
            });
            let result = Store::open(faulty, HISTORY_MAX).and_then(|store| act(&store));
            let hit = *hit.lock().unwrap();
            let told = format!("{act_name}, {fault:?} at call {at} ({hit:?}), {lasting:?}");
            judge(&result, fault, lasting, hit, &told);
            check(open, act_name, result.is_ok(), &told);
            if hit.is_none() {
                break;
            }
        }
    }
}

/// What an act may say when this was the first call that was hit.
fn judge(
    result: &Result<(), StoreError>,
    fault: Fault,
    lasting: Lasting,
    hit: Option<Operation>,
    told: &str,
) {
    let is_sync = matches!(hit, Some(Operation::SyncFile | Operation::SyncDirectory));
    let expected_to_fail = match (hit, fault) {
        (None, _) | (_, Fault::None | Fault::Short | Fault::Swallowed) => false,
        // Interruptions are waited out, but no sync that failed is made again.
        (Some(_), Fault::Errno(EINTR)) => is_sync || lasting == Lasting::ForGood,
        (Some(_), Fault::Errno(_)) => true,
    };
    match result {
        Ok(()) => assert!(!expected_to_fail, "{told}: success"),
        Err(error) => {
            assert!(expected_to_fail, "{told}: {error:?}");
            let before_any_change = matches!(
                hit,
                Some(
                    Operation::OpenDirectory
                        | Operation::List
                        | Operation::Read
                        | Operation::Create
                        | Operation::Append
                        | Operation::SetModified
                )
            );
            let category = match fault {
                Fault::Errno(EMFILE) if before_any_change => Category::System,
                _ => Category::Persistence,
            };
            assert_eq!(error.category(), category, "{told}: {error:?}");
            assert!(error.to_string().contains('`'), "{told}: says on which file: {error}");
        }
    }
}

/// What is true of the state directory, faults gone, after `act` was attempted.
fn check<D: Directory>(open: impl Fn() -> D, act: &str, succeeded: bool, told: &str) {
    let store = Store::open(open(), HISTORY_MAX).unwrap();
    assert_eq!(left_over(&open()), [""; 0], "{told}");
    let old_or_new = |acted: &str, old: bool, new: bool| {
        let right = if act == acted { new || (old && !succeeded) } else { old };
        assert!(right, "{told}: {acted}");
    };

    let found = mark(&store, JOB);
    let epochs = store.epochs().unwrap();
    assert_eq!((epochs.unreadable_lines, &epochs.epochs[0]), (0, &stopped(1)), "{told}");
    let KnownRead::Known(found_known) = store.known().unwrap() else {
        panic!("{told}: known is lost")
    };
    if act == "reset known" {
        let is_back = found_known.ahead_of(minute(0)).is_empty();
        old_or_new("reset known", found_known == known(&["a"]), is_back);
        assert!(!is_back || epochs.epochs.len() == 2, "{told}: nobody is told");
    } else {
        old_or_new("save known", found_known == known(&["a"]), found_known == known(&["a", "b"]));
    }
    if act == "reset known" {
        assert_eq!(found, Some(minute(1)), "{told}");
    } else if act == "reset" {
        old_or_new("reset", found == Some(minute(1)), found == Some(minute(0)));
        // A mark that was moved is told of, also where an error hides that it was.
        assert!(found == Some(minute(1)) || epochs.epochs.len() == 2, "{told}");
    } else {
        old_or_new("commit", found == Some(minute(1)), found == Some(minute(2)));
        old_or_new("epoch", epochs.epochs.len() == 1, epochs.epochs.len() == 2);
    }
    let found = mark(&store, "new");
    old_or_new("first commit", found.is_none(), found == Some(minute(1)));
    let found = store.run_record(&run(1)).unwrap();
    old_or_new("remove run", found == RunRead::Record(ended(1)), found == RunRead::Missing);
    let found = store.run_record(&run(2)).unwrap();
    old_or_new("write run", found == RunRead::Missing, found == RunRead::Record(ended(2)));

    let damaged = open().read(&document_file(DAMAGED), BYTES_MAX).unwrap().unwrap().bytes;
    let replaced = Document::parse(&damaged, Some(DAMAGED)).is_ok();
    old_or_new("restore", damaged == DAMAGED_BYTES, replaced);
    let names = open().names().unwrap();
    let copies = names.iter().filter(|name| name.contains(".corrupt."));
    let copies: Vec<_> =
        copies.map(|name| open().read(name, BYTES_MAX).unwrap().unwrap().bytes).collect();
    assert!(copies.iter().all(|copy| copy == DAMAGED_BYTES), "{told}: a copy that is none");
    assert!(copies.len() <= 1 && (!replaced || copies.len() == 1), "{told}: set aside");

    // And it is fit for use again.
    if !replaced {
        store.restore(DAMAGED, &Document::new(DAMAGED)).unwrap();
    }
    store.commit(JOB, &[missed(50)]).unwrap();
    store.append_epoch(&stopped(50)).unwrap();
    let scan = store.scan().unwrap();
    assert_eq!((scan.unreadable.len(), mark(&store, JOB)), (0, Some(minute(50))), "{told}");
    assert_eq!(store.epochs().unwrap().epochs.last(), Some(&stopped(50)), "{told}");
}

fn in_memory() -> impl Fn() -> Disk {
    let disk = Disk::new();
    move || disk.clone()
}

fn on_disk() -> impl Fn() -> RealDirectory {
    let parent = scratch();
    move || RealDirectory::open(&parent.path().join("state")).unwrap()
}

#[test]
fn every_error_at_every_call_leaves_the_old_or_the_new() {
    for errno in [EINTR, EIO, EACCES, EMFILE, ENOSPC, EROFS, EDQUOT] {
        fail_every_call(in_memory, Fault::Errno(errno), Lasting::Once);
        fail_every_call(in_memory, Fault::Errno(errno), Lasting::ForGood);
    }
}

#[test]
fn the_same_holds_on_a_real_file_system() {
    fail_every_call(on_disk, Fault::Errno(EIO), Lasting::Once);
    fail_every_call(on_disk, Fault::Errno(ENOSPC), Lasting::ForGood);
}

#[test]
fn short_writes_are_finished() {
    fail_every_call(in_memory, Fault::Short, Lasting::Once);
    fail_every_call(in_memory, Fault::Short, Lasting::ForGood);
    fail_every_call(on_disk, Fault::Short, Lasting::ForGood);
}

#[test]
fn after_a_failed_directory_sync_nothing_is_promised_any_more() {
    let disk = Disk::new();
    let fail_next = Arc::new(AtomicUsize::new(0));
    let failing = Arc::clone(&fail_next);
    let faulty = Faulty::new(disk.clone(), move |operation, _| {
        if operation == Operation::SyncDirectory && failing.swap(0, Ordering::Relaxed) == 1 {
            return Fault::Errno(EIO);
        }
        Fault::None
    });
    let store = Store::open(faulty, HISTORY_MAX).unwrap();
    store.commit(JOB, &[missed(1)]).unwrap();
    fail_next.store(1, Ordering::Relaxed);
    let first = store.commit(JOB, &[missed(2)]).unwrap_err();
    assert!(matches!(first, StoreError::Io { operation: Operation::SyncDirectory, .. }));
    // The system would now say yes, and nobody knows what became of the first one.
    for result in [
        store.commit(JOB, &[missed(3)]),
        store.commit("other", &[missed(3)]),
        store.save_known(&known(&[])),
        store.reset(JOB, None, minute(3)),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::SyncedBefore { .. }), "{error:?}");
        assert_eq!(error.category(), Category::Persistence);
    }
    assert_eq!(disk.names().unwrap().len(), 2, "nothing was written: {:?}", disk.names());
}

#[test]
fn a_supervisor_whose_unfinished_record_is_tidied_away_writes_it_again() {
    let disk = Disk::new();
    let tidied = Arc::new(AtomicUsize::new(0));
    let (tidying, looked_at) = (Arc::clone(&tidied), disk.clone());
    let faulty = Faulty::new(disk.clone(), move |operation, _| {
        if operation == Operation::Rename && tidying.fetch_add(1, Ordering::Relaxed) == 0 {
            // A daemon starts at this very moment.
            drop(Store::open(looked_at.clone(), HISTORY_MAX).unwrap());
        }
        Fault::None
    });
    let store = Store::open(faulty, HISTORY_MAX).unwrap();
    store.write_run(&run(1), &ended(4)).unwrap();
    assert_eq!(store.run_record(&run(1)).unwrap(), RunRead::Record(ended(4)));
    assert_eq!(tidied.load(Ordering::Relaxed), 2, "it was renamed twice");
    assert_eq!(left_over(&disk), [""; 0]);
}
