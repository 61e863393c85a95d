//! The store on a disk that loses its power at every step, in every way.
//!
//! Each script is run up to each of its operations; there the power goes, and every disk that this
//! could leave is opened again. The canaries are stores whose disk leaves out a step of the
//! procedure: the same check must find them out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kron_core::UtcSecond;
use kron_state::simulated::{Disk, Fault, Faulty};
use kron_state::{
    Change, Contents, Directory, Document, FileError, KnownRead, Operation, RunRead, Store,
    StoreError, document_file,
};
use kron_testkit::chance::Seeded;

use crate::made::{
    BYTES_MAX, HISTORY_MAX, armed, ended, finished, full_document, known, left_over, mark, minute,
    missed, run,
};

const EIO: i32 = 5;
/// Disks that are opened for one moment; where there are more, so many are drawn.
const SURVIVORS_MAX: usize = 3_000;

/// What a power cut is to be survived by: what there was, what is done, and what must hold.
struct Script {
    name: &'static str,
    before: fn(&Disk),
    act: fn(&Store<Faulty<Disk>>) -> Result<(), StoreError>,
    /// Told whether `act` had returned, and what was found when the store was opened again.
    check: fn(acknowledged: bool, &Store<Disk>, &Disk) -> Result<(), String>,
}

const JOB: &str = "db-backup";
const DAMAGED: &[u8] = b"{\"Version\":\"1\",\"Identity\":\"db-b\0\0\0\0";

fn commit_one(disk: &Disk) {
    Store::open(disk.clone(), HISTORY_MAX).unwrap().commit(JOB, &[missed(1)]).unwrap();
}

fn old_or_new<T: PartialEq + std::fmt::Debug>(
    acknowledged: bool,
    found: &T,
    old: &T,
    new: &T,
) -> Result<(), String> {
    if found == new || (found == old && !acknowledged) {
        return Ok(());
    }
    Err(format!("found {found:?}, acknowledged: {acknowledged}"))
}

fn found_mark(store: &Store<Disk>, identity: &str) -> Result<Option<UtcSecond>, String> {
    let document = store.read(identity).map_err(|error| format!("{error:?}"))?;
    Ok(document.and_then(|document| document.last_handled))
}

fn restored() -> Document {
    let mut document = Document::new(JOB);
    document.apply(&missed(30), HISTORY_MAX).unwrap();
    document
}

const SCRIPTS: &[Script] = &[
    Script {
        name: "the first commit of a job",
        before: |_| {},
        act: |store| store.commit(JOB, &[missed(2)]),
        check: |acknowledged, store, _| {
            let found = found_mark(store, JOB)?;
            old_or_new(acknowledged, &found, &None, &Some(minute(2)))
        },
    },
    Script {
        name: "a later commit",
        before: commit_one,
        act: |store| store.commit(JOB, &[Change::Arm(armed(2, 2)), finished(2, 0, 3)]),
        check: |acknowledged, store, _| {
            let found = store.read(JOB).map_err(|error| format!("{error:?}"))?;
            let found = found.ok_or("the document is gone")?;
            let (mark, entries) = (found.last_handled, found.history.len());
            let (old, new) = ((Some(minute(1)), 1), (Some(minute(2)), 2));
            old_or_new(acknowledged, &(mark, entries), &old, &new)
        },
    },
    Script {
        name: "three commits to two jobs",
        before: commit_one,
        act: |store| {
            store.commit(JOB, &[missed(2)])?;
            store.commit("other", &[missed(9)])?;
            store.commit(JOB, &[missed(3)])
        },
        check: |acknowledged, store, _| {
            let scan = store.scan().map_err(|error| format!("{error:?}"))?;
            if !scan.unreadable.is_empty() {
                return Err(format!("unreadable: {:?}", scan.unreadable));
            }
            let (first, other) = (found_mark(store, JOB)?, found_mark(store, "other")?);
            let possible = [
                (Some(minute(1)), None),
                (Some(minute(2)), None),
                (Some(minute(2)), Some(minute(9))),
                (Some(minute(3)), Some(minute(9))),
            ];
            let allowed = if acknowledged { &possible[3..] } else { &possible[..] };
            allowed
                .contains(&(first, other))
                .then_some(())
                .ok_or_else(|| format!("found {first:?} and {other:?}"))
        },
    },
    Script {
        name: "a damaged document restored",
        before: |disk| disk.put(&document_file(JOB), DAMAGED),
        act: |store| store.restore(JOB, &restored()),
        check: |acknowledged, store, disk| {
            let scan = store.scan().map_err(|error| format!("{error:?}"))?;
            match (&scan.documents[..], &scan.unreadable[..]) {
                ([summary], []) if summary.last_handled == Some(minute(30)) => {}
                ([], [_]) if !acknowledged => {
                    // The next daemon does it again.
                    store.restore(JOB, &restored()).map_err(|error| format!("{error:?}"))?;
                }
                found => return Err(format!("found {found:?}")),
            }
            let again = store.read(JOB).map_err(|error| format!("{error:?}"))?;
            if again != Some(restored()) {
                return Err(format!("restored {again:?}"));
            }
            let names = disk.names().unwrap();
            let copies: Vec<_> = names.iter().filter(|name| name.contains(".corrupt.")).collect();
            let kept = |name: &String| disk.read(name, BYTES_MAX).unwrap().unwrap().bytes;
            match &copies[..] {
                [copy] if kept(copy) == DAMAGED => Ok(()),
                _ => Err(format!("set aside: {copies:?}")),
            }
        },
    },
    Script {
        name: "`known.json` saved",
        before: |disk| {
            let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
            store.save_known(&known(&["a"])).unwrap();
        },
        act: |store| store.save_known(&known(&["a", "b"])),
        check: |acknowledged, store, _| match store.known() {
            Ok(KnownRead::Known(found)) => {
                old_or_new(acknowledged, &found, &known(&["a"]), &known(&["a", "b"]))
            }
            other => Err(format!("found {other:?}")),
        },
    },
    Script {
        name: "a run record left and another removed",
        before: |disk| {
            let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
            store.write_run(&run(1), &ended(1)).unwrap();
        },
        act: |store| {
            store.remove_run(&run(1))?;
            store.write_run(&run(2), &ended(2))
        },
        check: |acknowledged, store, _| {
            let read = |id| store.run_record(&run(id)).map_err(|error| format!("{error:?}"));
            old_or_new(acknowledged, &read(2)?, &RunRead::Missing, &RunRead::Record(ended(2)))?;
            old_or_new(false, &read(1)?, &RunRead::Record(ended(1)), &RunRead::Missing)
        },
    },
    Script {
        name: "a mark reset",
        before: |disk| {
            let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
            store.commit(JOB, &[missed(900)]).unwrap();
        },
        act: |store| store.reset(JOB, Some(minute(5)), minute(6)),
        check: |acknowledged, store, _| {
            let found = found_mark(store, JOB)?;
            old_or_new(acknowledged, &found, &Some(minute(900)), &Some(minute(5)))?;
            let audited = store.epochs().map_err(|error| format!("{error:?}"))?.epochs.len();
            match (found == Some(minute(5)), audited) {
                (true, 0) => Err("the mark was moved and nobody can tell".to_owned()),
                _ => Ok(()),
            }
        },
    },
];

/// What a disk does that cheats.
#[derive(Clone, Copy, PartialEq)]
enum Cheat {
    Nothing,
    NoFileSync,
    NoDirectorySync,
}

/// A disk that stops after so many operations, and counts them.
fn stopping(disk: &Disk, stop_after: usize, cheat: Cheat) -> (Faulty<Disk>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let faulty = Faulty::new(disk.clone(), move |operation, _| {
        if counter.fetch_add(1, Ordering::Relaxed) >= stop_after {
            return Fault::Errno(EIO);
        }
        match (operation, cheat) {
            (Operation::SyncFile, Cheat::NoFileSync)
            | (Operation::SyncDirectory, Cheat::NoDirectorySync) => Fault::Swallowed,
            _ => Fault::None,
        }
    });
    (faulty, count)
}

/// Runs a script up to every operation and opens every disk that a power cut there could leave.
/// Returns how many there were.
fn survive(script: &Script, cheat: Cheat) -> Result<usize, String> {
    let mut opened = 0;
    for stop_after in 0.. {
        let disk = Disk::new();
        disk.set_now(minute(0));
        (script.before)(&disk);
        let (faulty, count) = stopping(&disk, stop_after, cheat);
        let acknowledged = match Store::open(faulty, HISTORY_MAX) {
            Ok(store) => (script.act)(&store).is_ok(),
            Err(_) => false,
        };
        let stopped = count.load(Ordering::Relaxed) > stop_after;
        assert!(acknowledged || stopped, "{}: failed by itself", script.name);
        for survivor in survivors(&disk) {
            opened += 1;
            let store = Store::open(survivor.clone(), HISTORY_MAX).unwrap();
            assert_eq!(left_over(&survivor), [""; 0], "{}", script.name);
            (script.check)(acknowledged, &store, &survivor).map_err(|why| {
                format!("{}, stopped after {stop_after} operations: {why}", script.name)
            })?;
        }
        if !stopped {
            return Ok(opened);
        }
    }
    unreachable!("every script ends")
}

/// Every disk that a power cut could leave, or as many as can be looked at.
fn survivors(disk: &Disk) -> Vec<Disk> {
    let mut seeded = Seeded(7);
    disk.survivors(SURVIVORS_MAX, &mut |possibilities| seeded.index_below(possibilities))
}

#[test]
fn what_is_opened_after_a_power_cut_is_old_or_new_and_keeps_what_was_acknowledged() {
    for script in SCRIPTS {
        let opened = survive(script, Cheat::Nothing).unwrap();
        // Every script has at least a file whose bytes and whose name are in doubt at some moment.
        assert!(opened > 15, "{}: only {opened} disks", script.name);
    }
}

#[test]
fn a_store_that_does_not_sync_files_is_caught() {
    for script in SCRIPTS {
        let caught = survive(script, Cheat::NoFileSync);
        assert!(caught.is_err(), "{}: {caught:?}", script.name);
    }
}

#[test]
fn a_store_that_does_not_sync_its_directory_is_caught() {
    for script in SCRIPTS {
        let caught = survive(script, Cheat::NoDirectorySync);
        assert!(caught.is_err(), "{}: {caught:?}", script.name);
    }
}

/// A disk on which files are not renamed but written anew where they belong.
#[derive(Clone)]
struct InPlace(Disk);

impl Directory for InPlace {
    type File = <Disk as Directory>::File;

    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        let Contents { bytes, .. } =
            self.0.read(from, BYTES_MAX).map_err(std::io::Error::other)?.unwrap();
        let _ = self.0.remove(to);
        let mut file = self.0.create(to)?;
        self.0.write(&mut file, &bytes)?;
        self.0.sync_file(&file)?;
        self.0.remove(from)
    }

    fn describe(&self, name: &str) -> String {
        self.0.describe(name)
    }
    fn subdirectory(&self, name: &str) -> Result<InPlace, FileError> {
        self.0.subdirectory(name).map(InPlace)
    }
    fn existing_subdirectory(&self, name: &str) -> Result<Option<InPlace>, FileError> {
        Ok(self.0.existing_subdirectory(name)?.map(InPlace))
    }
    fn names(&self) -> std::io::Result<Vec<String>> {
        self.0.names()
    }
    fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Contents>, FileError> {
        self.0.read(name, bytes_max)
    }
    fn modified(&self, name: &str) -> Result<Option<UtcSecond>, FileError> {
        self.0.modified(name)
    }
    fn set_modified(&self, name: &str, at: UtcSecond) -> Result<(), FileError> {
        self.0.set_modified(name, at)
    }
    fn create(&self, name: &str) -> std::io::Result<Self::File> {
        self.0.create(name)
    }
    fn append(&self, name: &str) -> Result<Self::File, FileError> {
        self.0.append(name)
    }
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(file, bytes)
    }
    fn sync_file(&self, file: &Self::File) -> std::io::Result<()> {
        self.0.sync_file(file)
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.0.sync()
    }
}

#[test]
fn a_store_that_writes_in_place_is_caught() {
    let disk = Disk::new();
    let store = Store::open(InPlace(disk.clone()), HISTORY_MAX).unwrap();
    store.commit(JOB, &[missed(1)]).unwrap();
    // A directory sync that comes from elsewhere while the file is being written is enough.
    let gone = Arc::new(AtomicUsize::new(0));
    let (counter, looked_at) = (Arc::clone(&gone), disk.clone());
    let watched = Faulty::new(InPlace(disk), move |_, _| {
        for survivor in survivors(&looked_at) {
            let store = Store::open(survivor, HISTORY_MAX).unwrap();
            if !matches!(store.read(JOB), Ok(Some(_))) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        Fault::None
    });
    Store::open(watched, HISTORY_MAX).unwrap().commit(JOB, &[missed(2)]).unwrap();
    assert!(gone.load(Ordering::Relaxed) > 0, "a document written in place was always there");
}

/// The daemon dies while it restores, the next one restores again, and then the power goes.
#[test]
fn a_restoration_that_was_begun_before_is_finished() {
    let set_aside = |disk: &Disk| {
        let names = disk.names().unwrap();
        let mut copies = names.iter().filter(|name| name.contains(".corrupt."));
        copies.any(|name| disk.read(name, BYTES_MAX).unwrap().unwrap().bytes == DAMAGED)
    };
    let mut died = 0;
    for first_stop in 0.. {
        for second_stop in 0.. {
            let disk = Disk::new();
            disk.put(&document_file(JOB), DAMAGED);
            let (faulty, _) = stopping(&disk, first_stop, Cheat::Nothing);
            let _ =
                Store::open(faulty, HISTORY_MAX).and_then(|store| store.restore(JOB, &restored()));
            let (faulty, second) = stopping(&disk, second_stop, Cheat::Nothing);
            let again = Store::open(faulty, HISTORY_MAX).and_then(|store| {
                match store.scan()?.unreadable.is_empty() {
                    true => Ok(()),
                    false => store.restore(JOB, &restored()),
                }
            });
            for survivor in survivors(&disk) {
                let store = Store::open(survivor.clone(), HISTORY_MAX).unwrap();
                let told = format!("stopped after {first_stop}, then after {second_stop}");
                match store.read(JOB) {
                    Ok(document) => {
                        assert_eq!(document, Some(restored()), "{told}");
                        assert!(set_aside(&survivor), "{told}: nothing is set aside");
                    }
                    Err(StoreError::Document { .. }) => {
                        assert!(again.is_err(), "{told}: a daemon found it restored");
                        let bytes = survivor.read(&document_file(JOB), BYTES_MAX).unwrap();
                        assert_eq!(bytes.unwrap().bytes, DAMAGED, "{told}");
                    }
                    Err(error) => panic!("{told}: {error:?}"),
                }
            }
            died += 1;
            if second.load(Ordering::Relaxed) <= second_stop {
                break;
            }
        }
        let disk = Disk::new();
        disk.put(&document_file(JOB), DAMAGED);
        let (faulty, count) = stopping(&disk, first_stop, Cheat::Nothing);
        let _ = Store::open(faulty, HISTORY_MAX).and_then(|store| store.restore(JOB, &restored()));
        if count.load(Ordering::Relaxed) <= first_stop {
            break;
        }
    }
    assert!(died > 50, "only {died} deaths");
}

#[test]
fn a_long_life_with_many_power_cuts_never_goes_back() {
    let mut seeded = Seeded(2026);
    let jobs = ["a", "b", "c"];
    let mut acknowledged = [None; 3];
    let mut attempted = [None; 3];
    let mut disk = Disk::new();
    for life in 0..400 {
        disk.set_now(minute(life));
        let (faulty, _) = stopping(&disk, seeded.index_below(60), Cheat::Nothing);
        if let Ok(store) = Store::open(faulty, HISTORY_MAX) {
            for step in 0..20 {
                let job = seeded.index_below(jobs.len());
                let period = life * 20 + step;
                attempted[job] = Some(minute(period));
                if store.commit(jobs[job], &[missed(period)]).is_err() {
                    break;
                }
                acknowledged[job] = Some(minute(period));
            }
        }
        // Sometimes only the daemon dies, and the disk stays as it is.
        if seeded.index_below(3) > 0 {
            disk = disk.after_power_cut(&mut |possibilities| seeded.index_below(possibilities));
        }
        let store = Store::open(disk.clone(), HISTORY_MAX).unwrap();
        for (job, identity) in jobs.iter().enumerate() {
            let found = mark(&store, identity);
            assert!(found == acknowledged[job] || found == attempted[job], "life {life}");
            acknowledged[job] = found;
            attempted[job] = found;
        }
    }
}

#[test]
fn a_full_document_comes_back_as_it_was() {
    let disk = Disk::new();
    disk.put(&document_file(JOB), &full_document(JOB).to_bytes());
    let store = Store::open(disk, HISTORY_MAX).unwrap();
    assert_eq!(store.read(JOB).unwrap(), Some(full_document(JOB)));
}
