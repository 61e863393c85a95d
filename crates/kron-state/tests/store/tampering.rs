//! A state directory that somebody has been at: links, pipes, sockets, devices, other owners and
//! other permissions in the place of everything that is opened. Nothing is followed or waited for,
//! everything is refused, and each refusal says what is wrong and what to do.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kron_core::Category;
use kron_state::{
    Document, Epoch, EpochEvent, FileKind, Lock, LockError, RealDirectory, Refusal, Store,
    StoreError, document_file, write_run_record,
};
use kron_testkit::files::scratch;
use kron_testkit::needs::{Need, left_out};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::made::{HISTORY_MAX, ended, known, minute, missed, run};

const JOB: &str = "job";
const STRANGER: u32 = 12_345;

/// What somebody has done to a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tampering {
    Symlink,
    DanglingSymlink,
    Directory,
    Pipe,
    Socket,
    Device,
    HardLink,
    Owner,
    Mode(u32),
}

const FILES: &[Tampering] = &[
    Tampering::Symlink,
    Tampering::DanglingSymlink,
    Tampering::Directory,
    Tampering::Pipe,
    Tampering::Socket,
    Tampering::Device,
    Tampering::HardLink,
    Tampering::Owner,
    Tampering::Mode(0o640),
    Tampering::Mode(0o604),
    Tampering::Mode(0o620),
    Tampering::Mode(0o602),
    Tampering::Mode(0o666),
    Tampering::Mode(0o700),
    Tampering::Mode(0o4600),
];

const DIRECTORIES: &[Tampering] = &[
    Tampering::Symlink,
    Tampering::DanglingSymlink,
    Tampering::Pipe,
    Tampering::Socket,
    Tampering::Device,
    Tampering::Owner,
    Tampering::Mode(0o710),
    Tampering::Mode(0o701),
    Tampering::Mode(0o750),
    Tampering::Mode(0o755),
    Tampering::Mode(0o1777),
];

/// Does it to the file or directory at `path`; what was there is moved to `elsewhere`.
fn tamper(path: &Path, elsewhere: &Path, how: Tampering) {
    let special = |kind| {
        let device = if kind == FileType::CharacterDevice { makedev(1, 3) } else { 0 };
        mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device).unwrap();
    };
    let moved = || std::fs::rename(path, elsewhere).unwrap();
    match how {
        Tampering::Symlink => {
            moved();
            symlink(elsewhere, path).unwrap();
        }
        Tampering::DanglingSymlink => {
            moved();
            symlink(elsewhere.with_extension("not-there"), path).unwrap();
        }
        Tampering::Directory => {
            moved();
            std::fs::create_dir(path).unwrap();
        }
        Tampering::Pipe => {
            moved();
            special(FileType::Fifo);
        }
        Tampering::Socket => {
            moved();
            // Its path may be too long for a socket, but not its name.
            let short = elsewhere.with_file_name("socket");
            drop(UnixListener::bind(&short).unwrap());
            std::fs::rename(short, path).unwrap();
        }
        Tampering::Device => {
            moved();
            special(FileType::CharacterDevice);
        }
        Tampering::HardLink => std::fs::hard_link(path, elsewhere).unwrap(),
        Tampering::Owner => chown(path, Some(STRANGER), None).unwrap(),
        Tampering::Mode(mode) => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

fn expected(how: Tampering, wanted: FileKind) -> Refusal {
    let own = rustix::process::geteuid().as_raw();
    let mode = if wanted == FileKind::Directory { 0o700 } else { 0o600 };
    match how {
        Tampering::Symlink | Tampering::DanglingSymlink => Refusal::Symlink,
        Tampering::Directory => Refusal::Kind { found: FileKind::Directory, wanted },
        Tampering::Pipe => Refusal::Kind { found: FileKind::Pipe, wanted },
        Tampering::Socket => Refusal::Kind { found: FileKind::Socket, wanted },
        Tampering::Device => Refusal::Kind { found: FileKind::Device, wanted },
        Tampering::HardLink => Refusal::Links(2),
        Tampering::Owner => Refusal::Owner { found: STRANGER, wanted: own },
        Tampering::Mode(found) => Refusal::Mode { found, wanted: mode },
    }
}

/// A state directory with one of everything, and room beside it.
struct Place {
    parent: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { parent: scratch() };
        let store = place.store().unwrap();
        store.commit(JOB, &[missed(1)]).unwrap();
        store.save_known(&known(&[JOB])).unwrap();
        store.write_run(&run(1), &ended(0)).unwrap();
        store.append_epoch(&epoch()).unwrap();
        drop(Lock::acquire(&place.state(), Duration::ZERO).unwrap());
        place
    }

    fn state(&self) -> PathBuf {
        self.parent.path().join("state")
    }

    fn store(&self) -> Result<Store<RealDirectory>, StoreError> {
        Store::open(RealDirectory::open(&self.state())?, HISTORY_MAX)
    }
}

fn epoch() -> Epoch {
    Epoch { at: minute(1), event: EpochEvent::Stop { mode: "wait".to_owned() } }
}

/// Something that is done with a state directory.
type Act = fn(&Place) -> Result<(), StoreError>;

/// Everything of `victim` that is looked at must be refused, and nothing elsewhere be changed.
fn check(victim: &str, wanted: FileKind, ways: &[Tampering], acts: &[Act]) {
    if left_out("tampered state directories", &[Need::Root]) {
        return;
    }
    for how in ways {
        for (number, act) in acts.iter().enumerate() {
            let place = Place::new();
            let path = place.state().join(victim);
            let path: PathBuf = path.components().collect();
            let elsewhere = place.parent.path().join("elsewhere");
            tamper(&path, &elsewhere, *how);
            let before = std::fs::read(&elsewhere).ok();
            let told = format!("{victim}, {how:?}, act {number}");
            let error = act(&place).expect_err(&told);
            let (file, source) = match &error {
                StoreError::Refused { file, source } if !victim.is_empty() => (file, source),
                StoreError::Directory { path, source, .. } if victim.is_empty() => (path, source),
                _ => panic!("{told}: {error:?}"),
            };
            assert_eq!(*source, expected(*how, wanted), "{told}");
            assert_eq!(Path::new(file), path, "{told}");
            assert_eq!(error.category(), Category::Persistence, "{told}");
            let hint = error.hint().expect(&told);
            assert!(hint.contains(file.as_str()), "{told}: {hint}");
            assert_eq!(std::fs::read(&elsewhere).ok(), before, "{told}");
            let dangling = elsewhere.with_extension("not-there");
            assert!(!dangling.exists(), "{told}: the link was followed");
        }
    }
}

fn lock(place: &Place) -> Result<(), StoreError> {
    match Lock::acquire(&place.state(), Duration::ZERO) {
        Ok(_) => Ok(()),
        Err(LockError::Store(error)) => Err(error),
        Err(error @ LockError::Held { .. }) => panic!("{error:?}"),
    }
}

#[test]
fn a_tampered_state_directory_is_refused() {
    let acts: &[Act] = &[
        |place| place.store().map(drop),
        |place| RealDirectory::open_existing(&place.state()).map(drop),
        // Neither a slash at the end nor a dot makes a link followed.
        |place| RealDirectory::open(&place.state().join("")).map(drop),
        |place| RealDirectory::open(&place.state().join(".")).map(drop),
        lock,
    ];
    check("", FileKind::Directory, DIRECTORIES, acts);
}

#[test]
fn a_tampered_directory_of_runs_is_refused() {
    let acts: &[Act] = &[
        |place| place.store().map(drop),
        |place| Store::view(RealDirectory::open(&place.state())?, 0).map(drop),
    ];
    check("runs", FileKind::Directory, DIRECTORIES, acts);
}

#[test]
fn a_supervisor_does_not_write_to_a_tampered_directory() {
    if left_out("a supervisor does not write to a tampered directory", &[Need::Root]) {
        return;
    }
    for how in DIRECTORIES {
        for victim in ["", "runs"] {
            let place = Place::new();
            let path: PathBuf = place.state().join(victim).components().collect();
            let elsewhere = place.parent.path().join("elsewhere");
            tamper(&path, &elsewhere, *how);
            let error = write_run_record(&place.state(), &run(2), &ended(0)).unwrap_err();
            let told = format!("{error:?}");
            assert!(told.contains(&format!("{:?}", expected(*how, FileKind::Directory))), "{told}");
        }
    }
}

#[test]
fn a_tampered_document_is_refused() {
    let acts: &[Act] = &[
        |place| place.store()?.scan().map(drop),
        |place| place.store()?.read(JOB).map(drop),
        |place| place.store()?.commit(JOB, &[missed(2)]),
        |place| place.store()?.restore(JOB, &Document::new(JOB)),
        |place| place.store()?.reset(JOB, None, minute(1)),
    ];
    check(&document_file(JOB), FileKind::Regular, FILES, acts);
}

#[test]
fn tampered_knowledge_is_refused() {
    check("known.json", FileKind::Regular, FILES, &[|place| place.store()?.known().map(drop)]);
}

#[test]
fn a_tampered_run_record_is_refused() {
    let victim = format!("runs/{}.json", run(1));
    check(
        &victim,
        FileKind::Regular,
        FILES,
        &[|place| place.store()?.run_record(&run(1)).map(drop)],
    );
}

#[test]
fn tampered_epochs_are_refused() {
    let acts: &[Act] = &[
        |place| place.store()?.epochs().map(drop),
        |place| place.store()?.append_epoch(&epoch()),
        |place| {
            // Also when they were whole when they were first looked at.
            let store = place.store()?;
            store.append_epoch(&epoch())
        },
    ];
    check("epochs.jsonl", FileKind::Regular, FILES, acts);
}

#[test]
fn a_tampered_lock_is_refused() {
    let acts: &[Act] = &[
        lock,
        |place| place.store()?.alive(minute(5)),
        |place| place.store()?.last_alive().map(drop),
    ];
    check("lock", FileKind::Regular, FILES, acts);
}

/// What has the name of something that was left over is removed, and not what it points to; what
/// is saved takes the place of a link, and not of what that points to.
#[test]
fn links_in_places_that_are_written_to_are_replaced_and_not_followed() {
    let place = Place::new();
    let precious = place.parent.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let state = place.state();
    symlink(&precious, state.join(".known.json.0.tmp")).unwrap();
    std::fs::remove_file(state.join("known.json")).unwrap();
    symlink(&precious, state.join("known.json")).unwrap();
    symlink(&precious, state.join("runs").join(format!("{}.json", run(5)))).unwrap();
    let store = place.store().unwrap();
    symlink(&precious, state.join(".known.json.0.tmp")).unwrap();
    store.save_known(&known(&[])).unwrap();
    store.write_run(&run(5), &ended(1)).unwrap();
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert!(state.join("known.json").symlink_metadata().unwrap().is_file());

    // What was damaged is set aside beside a link of that name, not through it.
    let file = document_file(JOB);
    std::fs::write(state.join(&file), "damaged").unwrap();
    let copy = |store: &Store<RealDirectory>| {
        let modified = store.scan().unwrap().unreadable[0].modified;
        let digits: String =
            modified.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect();
        state.join(format!("{file}.corrupt.{digits}"))
    };
    let name = copy(&store);
    symlink(&precious, &name).unwrap();
    store.restore(JOB, &Document::new(JOB)).unwrap();
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    let beside = format!("{}-2", name.display());
    assert_eq!(std::fs::read_to_string(beside).unwrap(), "damaged");
}

#[test]
fn what_is_left_over_and_cannot_be_removed_is_told() {
    let place = Place::new();
    std::fs::create_dir(place.state().join(".x.0.tmp")).unwrap();
    let error = place.store().map(drop).unwrap_err();
    assert!(error.to_string().contains(".x.0.tmp"), "{error}");
}

/// What people name by mistake is not to be changed or moved, and what is krond's is named as such.
#[test]
fn nobody_is_advised_to_change_what_is_not_a_state_directory() {
    if left_out("nobody is advised to change what is not a state directory", &[Need::Root]) {
        return;
    }
    let place = Place::new();
    let other = place.parent.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let open = |path: &Path, mode: u32, owner: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        chown(path, Some(owner), None).unwrap();
        let error = RealDirectory::open_existing(path).unwrap_err();
        assert!(error.to_string().ends_with("is refused as state directory"), "{error}");
        error.hint().unwrap()
    };
    let check = |hint: &str, said: &[&str]| {
        for harm in ["chown", "move"] {
            assert!(!hint.contains(harm), "{hint}");
        }
        let has_chmod = said.iter().any(|said| said.starts_with("chmod"));
        assert_eq!(hint.contains("chmod"), has_chmod, "{hint}");
        assert!(said.iter().all(|said| hint.contains(said)), "{hint}");
    };
    check(&open(&other, 0o1777, 0), &["--state-dir", "one that is not there is made"]);
    check(&open(&other, 0o700, STRANGER), &["--state-dir", "as user 12345, who owns it"]);
    // One of both files may be anybody's; and files of others prove nothing.
    std::fs::write(other.join("lock"), "").unwrap();
    check(&open(&other, 0o755, 0), &["--state-dir"]);
    std::fs::write(other.join("known.json"), "").unwrap();
    chown(other.join("lock"), Some(STRANGER), None).unwrap();
    check(&open(&other, 0o755, 0), &["--state-dir"]);

    let error = RealDirectory::open_existing(Path::new("/etc/passwd")).unwrap_err();
    check(&error.hint().unwrap(), &["--state-dir", "`/etc/passwd`"]);
    let link = place.parent.path().join("link");
    symlink(place.state(), &link).unwrap();
    let error = RealDirectory::open_existing(&link).unwrap_err();
    check(&error.hint().unwrap(), &["--state-dir", "the directory itself"]);

    place.store().unwrap();
    let state = place.state();
    check(&open(&state, 0o755, 0), &[&format!("chmod 0700 '{}'", state.display())]);
    check(&open(&state, 0o700, STRANGER), &["run it as user 12345, who owns"]);
}

/// What a hint tells people to type is one word to their shell, whatever the path.
#[test]
fn a_path_in_a_hint_is_quoted() {
    let refusal = Refusal::Mode { found: 0o644, wanted: 0o600 };
    let hint = refusal.hint("/it's here/known.json");
    assert!(hint.ends_with(r"`chmod 0600 '/it'\''s here/known.json'`"), "{hint}");
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    let place = Place::new();
    let path = place.state().join(document_file(JOB));
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let store = place.store().unwrap();
    // A file with a hole in it can be longer than all memory.
    for length in [kron_state::DOCUMENT_BYTES_MAX + 1, 1 << 42] {
        file.set_len(length).unwrap();
        for error in [store.scan().map(drop).unwrap_err(), store.commit(JOB, &[]).unwrap_err()] {
            let StoreError::Refused { source, .. } = &error else { panic!("{error:?}") };
            assert!(matches!(source, Refusal::TooLong { .. }), "{error:?}");
        }
    }
}
