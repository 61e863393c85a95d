//! What cannot be a task: each thing gets its words, is set aside with a report, and keeps nobody
//! else waiting.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use kron_core::Timestamp;
use kron_spool::{Fault, Look, Purged, Spool, State, TASK_BYTES_MAX};
use kron_state::Operation;
use kron_state::simulated::{self, Faulty};
use kron_testkit::files::scratch;
use kron_testkit::needs::{Need, left_out};
use serde_json::Value;

use crate::child;
use crate::made::{STRANGER, at, far_future, machine_now, new_task, open, open_with, text};
use crate::promises::Listing;

/// How long after its last change something counts.
const SETTLED_MS: i64 = 2_000;
const NAMED_MS: i64 = 60_000;

fn deep(levels: usize) -> String {
    let (open, close) = ("[".repeat(levels), "]".repeat(levels));
    text("a", "PENDING", &format!(r#""x":{open}{close},"#))
}

/// Something in `pending/`: its name, and how it is made.
type Thing = (String, Box<dyn Fn(&Path)>);

fn file(name: &str, bytes: impl AsRef<[u8]>) -> Thing {
    let bytes = bytes.as_ref().to_owned();
    (name.to_owned(), Box::new(move |path| std::fs::write(path, &bytes).unwrap()))
}

fn made(name: &str, make: fn(&Path)) -> Thing {
    (name.to_owned(), Box::new(make))
}

fn good(path: &Path) {
    std::fs::write(path, text("a", "PENDING", "")).unwrap();
}

fn with_mode(path: &Path, mode: u32) {
    good(path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

type Bad = (Thing, i64, &'static str);

/// What is put into `pending/`, when it counts, and the words for it.
fn table() -> Vec<Bad> {
    let long_id = format!("{}.json", "x".repeat(201));
    let with = |from: &str, to: &str| {
        let text = text("a", "PENDING", "");
        assert!(text.contains(from));
        file("a.json", text.replace(from, to))
    };
    let huge = text("a", "PENDING", &format!(r#""x":"{}","#, "x".repeat(TASK_BYTES_MAX)));
    let enormous = vec![b'x'; 4 << 20];
    // One that says it was started before has no more room for what a producer writes.
    let started = text("a", "PENDING", &format!(r#""attempts":1,"x":"{}","#, "x".repeat(300_000)));
    vec![
        (
            file(&long_id, "{}"),
            0,
            "its name is no task's: a task id of 201 bytes; at most 200 are allowed",
        ),
        (
            file("a b.json", "{}"),
            0,
            "its name is no task's: `a b` cannot be a task id: letters, digits, `.`, `_` and `-` are allowed, and a letter or digit comes first",
        ),
        (
            file("-rf.json", "{}"),
            0,
            "its name is no task's: `-rf` cannot be a task id: letters, digits, `.`, `_` and `-` are allowed, and a letter or digit comes first",
        ),
        (file("a.txt", "{}"), NAMED_MS, "its name does not end in `.json`"),
        (file("a.json.tmp", "{}"), NAMED_MS, "its name does not end in `.json`"),
        (file("a.json", ""), SETTLED_MS, "its JSON ends before it is complete"),
        (file("a.json", "{\"taskId\":\"a\""), SETTLED_MS, "its JSON ends before it is complete"),
        (
            file("a.json", "{\"taskId\": é}"),
            SETTLED_MS,
            "it is not the JSON of a task: expected value at line 1 column 12",
        ),
        (
            file("a.json", "[]"),
            SETTLED_MS,
            "it is not the JSON of a task: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (file("a.json", b"{\"a\":\"\xc3"), SETTLED_MS, "it is not UTF-8"),
        (file("a.json", huge), 0, "it has more than 262144 bytes"),
        (file("a.json", started), 0, "it has more than 262144 bytes"),
        (file("a.json", enormous), 0, "it has more than 262144 bytes"),
        (file("a.json", deep(64)), 0, "its JSON is nested more than 64 deep"),
        (file("a.json", deep(100_000)), 0, "its JSON is nested more than 64 deep"),
        (
            with(r#""taskId":"a""#, r#""taskId":"b""#),
            0,
            "its `taskId` is `b`, which is not its file's name",
        ),
        (
            with(r#""taskId":"a""#, r#""taskId":"../../etc/passwd""#),
            0,
            "its `taskId` is `../../etc/passwd`, which is not its file's name",
        ),
        (with(r#""taskId":"a","#, ""), 0, "it has no `taskId`"),
        (with(r#""taskId":"a""#, r#""taskId":"a","taskId":"b""#), 0, "it has `taskId` twice"),
        (with("PENDING", "RUNNING"), 0, "its `state` is `RUNNING`, but it is in `pending/`"),
        (with("PENDING", "DONE"), 0, "its `state` is `DONE`, but it is in `pending/`"),
        (
            with("2026-03-01T00:00:00Z", "yesterday"),
            0,
            "`createdAt`: `yesterday` is not a timestamp such as `2026-03-01T00:00:00.000Z`",
        ),
        (with(r#""type":"T","#, ""), 0, "it has no `payload.type`"),
        (
            with(r#""type":"T""#, r#""type":"../x""#),
            0,
            "`payload.type`: `../x`: a type is made of letters, digits, `_`, `-` and `.`",
        ),
        (
            made("a.json", |path| symlink("nowhere", path).unwrap()),
            0,
            "it is a symbolic link, and links are not followed",
        ),
        (
            made("a.json", |path| {
                let real = path.parent().unwrap().join(".real");
                good(&real);
                symlink(real, path).unwrap();
            }),
            0,
            "it is a symbolic link, and links are not followed",
        ),
        (
            made("a.json", |path| std::fs::create_dir(path).unwrap()),
            0,
            "it is a directory, not a regular file",
        ),
        (
            made("a.json", |path| {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                    .unwrap();
            }),
            0,
            "it is a named pipe, not a regular file",
        ),
        (
            made("a.json", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
            0,
            "it is a socket, not a regular file",
        ),
        (made("a.json", |path| with_mode(path, 0o602)), 0, "its permissions are 0602, not 0600"),
        (made("a.json", |path| with_mode(path, 0o666)), 0, "its permissions are 0666, not 0664"),
        (
            made("a.json", |path| {
                good(path);
                std::fs::hard_link(path, path.with_file_name(".other")).unwrap();
            }),
            SETTLED_MS,
            "it has 2 hard links",
        ),
    ]
}

/// Looks at it before and after it counts, and sets it aside.
fn check(spool: &Spool, path: &Path, name: &str, counts_ms: i64, words: &str) {
    let there = path.join("tasks/pending").join(name);
    let before = std::fs::symlink_metadata(&there).unwrap();
    let after_change = |ms: i64| {
        let changed_ms = before.ctime() * 1_000 + before.ctime_nsec() / 1_000_000;
        Timestamp::from_unix_ms(changed_ms + ms).unwrap()
    };
    for ms in [0, counts_ms - 1] {
        match spool.look(name, after_change(ms)).unwrap() {
            Look::NotYet(until) => assert_eq!(until, after_change(counts_ms), "{words}"),
            Look::Unfit(_) if counts_ms == 0 => {}
            other => panic!("{words}: {other:?}"),
        }
    }
    let fault = match spool.look(name, after_change(counts_ms)).unwrap() {
        Look::Unfit(fault) => fault,
        other => panic!("{words}: {other:?}"),
    };
    assert_eq!(fault.to_string(), words);
    let aside = spool.set_aside(State::Pending, name, &fault, at(7)).unwrap();
    assert_eq!((&*aside.name, &aside.fault), (name, &fault));
    assert!(std::fs::symlink_metadata(&there).is_err(), "{words}");
    // It is the very same thing, with its report.
    let after = std::fs::symlink_metadata(&aside.path).unwrap();
    assert_eq!((after.ino(), after.mode()), (before.ino(), before.mode()), "{words}");
    let report = std::fs::read(format!("{}.report", aside.path)).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let expected = serde_json::json!({
        "name": name,
        "directory": "pending",
        "rejectedAt": at(7).to_string(),
        "reason": words,
    });
    assert_eq!(report, expected);
}

#[test]
fn each_gets_its_words_and_is_set_aside_without_keeping_others() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    assert!(spool.put(&[new_task("good")], at(0)).pop().unwrap().is_ok());
    let pending = path.join("tasks/pending");
    let mut rejected = 0;
    for ((name, make), counts_ms, words) in table() {
        make(&pending.join(&name));
        check(&spool, &path, &name, counts_ms, words);
        for extra in [".real", ".other"] {
            let _ = std::fs::remove_file(pending.join(extra));
        }
        rejected += 1;
        assert_eq!(spool.counts().unwrap().rejected, rejected, "{words}");
        assert!(matches!(spool.look("good.json", far_future()).unwrap(), Look::Task(_)), "{words}");
    }
    // All that was called the same has got a name of its own.
    let same = table().iter().filter(|((name, _), ..)| name == "a.json").count();
    for number in 1..same {
        assert!(std::fs::symlink_metadata(path.join(format!("rejected/a.json.{number}"))).is_ok());
    }
    // They go when they are old; a directory stays as long as something is in it.
    let is_directory = |name: &&String| path.join("rejected").join(name).is_dir();
    let names = spool.rejected_names().unwrap();
    let directory = path.join("rejected").join(names.iter().find(is_directory).unwrap());
    std::fs::write(directory.join("something"), "").unwrap();
    let purged = spool.purge_rejected(far_future()).unwrap();
    assert_eq!(purged, Purged { rejected: rejected - 1, left: 1, ..Purged::default() });
    let listed = || -> Vec<String> {
        let names = Listing::of(&path).names();
        names.into_iter().filter(|name| name.starts_with("rejected/")).collect()
    };
    assert_eq!(listed().len(), 2, "{:?}", listed());
    assert_eq!(spool.counts().unwrap().rejected, 1);
    std::fs::remove_file(directory.join("something")).unwrap();
    let purged = spool.purge_rejected(far_future()).unwrap();
    assert_eq!(purged, Purged { rejected: 1, ..Purged::default() });
    assert_eq!(listed(), [""; 0]);
}

/// What is set aside together shares its syncs, whatever their number; what cannot be is where it
/// was, and keeps nobody.
#[test]
fn many_are_set_aside_with_three_syncs_of_directories() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let root = kron_state::RealDirectory::open(&path).unwrap();
    let syncs = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&syncs);
    let spool = Spool::over(&Faulty::new(root, move |operation, name| {
        match operation {
            Operation::SyncDirectory => seen.lock().unwrap().push("directory"),
            Operation::SyncFile => seen.lock().unwrap().push("file"),
            Operation::Rename => {
                seen.lock().unwrap().push("move");
                if name == "7.txt" {
                    return simulated::Fault::Errno(13);
                }
            }
            _ => {}
        }
        simulated::Fault::None
    }))
    .unwrap();
    let things: Vec<(String, Fault)> =
        (0..300).map(|number| (format!("{number}.txt"), Fault::NotNamedAsTask)).collect();
    for (name, _) in &things {
        std::fs::write(path.join("tasks/pending").join(name), "x").unwrap();
    }
    syncs.lock().unwrap().clear();
    let aside = spool.set_aside_all(State::Pending, &things, at(7));
    for (number, aside) in aside.iter().enumerate() {
        assert_eq!(aside.is_ok(), number != 7, "{aside:?}");
    }
    let mut expected = vec!["file"; 300];
    expected.push("directory");
    expected.extend(["move"; 300]);
    expected.extend(["directory"; 2]);
    assert_eq!(*syncs.lock().unwrap(), expected);
    assert_eq!(spool.pending_names().unwrap(), ["7.txt"]);
    let listed = Listing::of(&path).names();
    assert!(!listed.contains(&"rejected/7.txt.report".to_owned()), "a report of nothing is left");
    assert_eq!(listed.len(), 1 + 2 * 299);
    let report = spool.report("299.txt").unwrap().unwrap().unwrap();
    assert_eq!((&*report.name, report.rejected_at), ("299.txt", at(7)));
}

#[test]
fn hidden_names_are_ignored_and_what_is_gone_is_gone() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    for name in [".tmp-a.json", ".a.json", ".", ".."] {
        if name.len() > 2 {
            std::fs::write(path.join("tasks/pending").join(name), "{").unwrap();
        }
        assert!(matches!(spool.look(name, far_future()).unwrap(), Look::Ignored), "{name}");
    }
    assert!(matches!(spool.look("a.json", far_future()).unwrap(), Look::Gone));
    assert!(matches!(spool.look("a.txt", far_future()).unwrap(), Look::Gone));
}

/// A file whose time lies ahead does not wait until then.
#[test]
fn a_clock_that_went_back_does_not_keep_anything() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    std::fs::write(path.join("tasks/pending/a.json"), "{").unwrap();
    match spool.look("a.json", at(0)).unwrap() {
        Look::NotYet(until) => assert_eq!(until, at(2)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_are_no_text_are_set_aside() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let pending = path.join("tasks/pending");
    for name in [&b"\xff.json"[..], b".\xff", b"a\xfe"] {
        std::fs::write(pending.join(OsStr::from_bytes(name)), "{}").unwrap();
    }
    assert!(spool.put(&[new_task("good")], at(0)).pop().unwrap().is_ok());
    let mut aside: Vec<_> =
        spool.set_aside_no_texts(at(7)).unwrap().into_iter().map(Result::unwrap).collect();
    aside.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<&str> = aside.iter().map(|aside| aside.name.as_str()).collect();
    assert_eq!(names, [r"\xff.json", r"a\xfe"]);
    assert_eq!(aside[0].fault.to_string(), "its name is not UTF-8");
    assert!(path.join(r"rejected/\xff.json").exists());
    assert!(path.join(r"rejected/\xff.json.report").exists());
    assert_eq!(spool.set_aside_no_texts(at(8)).unwrap().len(), 0);
    assert_eq!(spool.counts().unwrap().pending, 1);
}

/// What is called like a report, and old, is not taken for one when reports are removed.
#[test]
fn what_is_called_like_a_report_is_kept_as_long_as_anything() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let there = path.join("tasks/pending/a.report");
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    std::fs::File::create(&there).unwrap().set_modified(old).unwrap();
    check(&spool, &path, "a.report", NAMED_MS, "its name does not end in `.json`");
    assert_eq!(spool.counts().unwrap().rejected, 1);
    assert_eq!(spool.purge_rejected(at(0)).unwrap().rejected, 0);
    assert_eq!(Listing::of(&path).0.len(), 2, "{:?}", Listing::of(&path).names());
    assert_eq!(spool.purge_rejected(far_future()).unwrap().rejected, 1);
    assert_eq!(Listing::of(&path).names(), [""; 0]);
}

#[test]
fn files_of_others_count_only_from_producers() {
    if left_out("files of others count only from producers", &[Need::Root]) {
        return;
    }
    let parent = scratch();
    let path = parent.path().join("spool");
    let pending = path.join("tasks/pending");
    let spool = open(&path);
    good(&pending.join("a.json"));
    chown(pending.join("a.json"), Some(STRANGER), None).unwrap();
    let admitting = open_with(&path, &[STRANGER]);
    assert!(matches!(admitting.look("a.json", machine_now()).unwrap(), Look::Task(_)));
    let words = "it belongs to user 12345, whose files are not accepted here";
    check(&spool, &path, "a.json", 0, words);
    // A producer's link or writable file is none the better.
    with_mode(&pending.join("a.json"), 0o666);
    chown(pending.join("a.json"), Some(STRANGER), None).unwrap();
    check(&admitting, &path, "a.json", 0, "its permissions are 0666, not 0664");
    // One that a group may write is the producers' business.
    with_mode(&pending.join("a.json"), 0o660);
    chown(pending.join("a.json"), Some(STRANGER), None).unwrap();
    assert!(matches!(admitting.look("a.json", machine_now()).unwrap(), Look::Task(_)));
}

/// A daemon that is not root cannot read everything.
#[test]
fn what_may_not_be_read_is_set_aside() {
    let name = "what may not be read is set aside";
    if left_out(name, &[Need::Root]) {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = parent.path().join("spool");
    drop(open(&path));
    for directory in ["", "tasks", "tasks/pending", "tasks/running", "tasks/completed", "rejected"]
    {
        chown(path.join(directory), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    let pending = path.join("tasks/pending");
    for (name, owner, mode) in [("a.json", STRANGER, 0), ("b.json", 0, 0o600), ("c.json", 0, 0o644)]
    {
        std::fs::write(pending.join(name), text(&name[..1], "PENDING", "")).unwrap();
        chown(pending.join(name), Some(owner), None).unwrap();
        std::fs::set_permissions(pending.join(name), std::fs::Permissions::from_mode(mode))
            .unwrap();
    }
    assert_eq!(
        child::run_as(STRANGER, "look_at_all", &path),
        [
            "a.json: it cannot be read: Permission denied (os error 13) (true)",
            "b.json: it cannot be read: Permission denied (os error 13) (true)",
            "c.json: a task",
        ]
    );
    assert_eq!(
        Listing::of(&path).names(),
        [
            "pending/c.json",
            "rejected/a.json",
            "rejected/a.json.report",
            "rejected/b.json",
            "rejected/b.json.report",
        ]
    );
}
