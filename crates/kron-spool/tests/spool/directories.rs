//! A spool's directories: made as they must be, refused where others could change them.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use kron_spool::Spool;
use kron_testkit::files::scratch;
use kron_testkit::needs::{Need, left_out};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::made::{STRANGER, at, new_task, open};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// What is said when the spool is opened.
fn refused(path: &Path) -> String {
    Spool::open(path, &[]).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_spool_is_made_for_its_user_alone() {
    let parent = scratch();
    let path = parent.path().join("var/spool/mail");
    drop(open(&path));
    for directory in ["", "tasks", "tasks/pending", "tasks/running", "tasks/completed", "rejected"]
    {
        assert_eq!(mode(&path.join(directory)), 0o700, "{directory}");
    }
    // What an administrator has opened for producers stays open.
    set_mode(&path.join("tasks/pending"), 0o1777);
    drop(open(&path));
    assert_eq!(mode(&path.join("tasks/pending")), 0o1777);
}

#[test]
fn directories_that_others_could_change_are_refused() {
    for directory in ["", "tasks", "tasks/running", "tasks/completed", "rejected"] {
        let parent = scratch();
        let path = parent.path().join("spool");
        drop(open(&path));
        let there = path.join(directory);
        let shown = there.display().to_string();
        let shown = shown.trim_end_matches('/');
        for (denied, wanted) in [(0o770, "0750"), (0o757, "0755"), (0o777, "0755")] {
            set_mode(&there, denied);
            let words = format!(
                "`{shown}` cannot be a spool's: its permissions are {denied:04o}, not {wanted}"
            );
            assert_eq!(refused(&path), words);
        }
        set_mode(&there, 0o755);
        drop(open(&path));
        // Whoever could open this one could hold the lock.
        let is_locked = directory == "tasks/running";
        assert_eq!(mode(&there), if is_locked { 0o700 } else { 0o755 }, "{directory}");
    }
}

/// Who may look at a spool from outside cannot keep its daemon out of it.
#[test]
fn a_lock_on_what_others_may_open_keeps_nobody_out() {
    let parent = scratch();
    let path = parent.path().join("spool");
    drop(open(&path));
    for directory in ["", "tasks", "tasks/pending", "tasks/completed", "rejected"] {
        set_mode(&path.join(directory), 0o755);
        let opened = std::fs::File::open(path.join(directory)).unwrap();
        opened.try_lock().unwrap();
        assert!(Spool::open(&path, &[]).is_ok(), "{directory}");
    }
    let opened = std::fs::File::open(path.join("tasks/running")).unwrap();
    opened.try_lock().unwrap();
    assert_eq!(refused(&path), format!("another process has the spool `{}`", path.display()));
}

#[test]
fn directories_of_others_are_refused() {
    if left_out("directories of others are refused", &[Need::Root]) {
        return;
    }
    for directory in ["", "tasks", "tasks/pending", "tasks/running", "tasks/completed", "rejected"]
    {
        let parent = scratch();
        let path = parent.path().join("spool");
        drop(open(&path));
        let there = path.join(directory);
        let shown = there.display().to_string();
        chown(&there, Some(STRANGER), None).unwrap();
        let words = format!(
            "`{}` cannot be a spool's: it belongs to user 12345, whose files are not accepted here",
            shown.trim_end_matches('/')
        );
        assert_eq!(refused(&path), words);
    }
}

#[test]
fn links_and_files_in_the_place_of_directories_are_refused() {
    for directory in ["", "tasks", "tasks/pending", "tasks/running", "tasks/completed", "rejected"]
    {
        let parent = scratch();
        let path = parent.path().join("spool");
        drop(open(&path));
        let there = path.join(directory);
        let shown = there.display().to_string();
        let shown = shown.trim_end_matches('/');
        let there = Path::new(shown);
        let elsewhere = parent.path().join("elsewhere");
        std::fs::rename(there, &elsewhere).unwrap();
        symlink(&elsewhere, there).unwrap();
        let words = format!(
            "`{shown}` cannot be a spool's: it is a symbolic link, and links are not followed"
        );
        assert_eq!(refused(&path), words);
        std::fs::remove_file(there).unwrap();
        std::fs::write(there, "").unwrap();
        let words = format!("`{shown}` cannot be a spool's: it is a regular file, not a directory");
        assert_eq!(refused(&path), words);
    }
}

/// A program that is just being started has everything of the process that starts it.
#[test]
fn a_lock_that_is_given_back_is_free_even_if_somebody_has_a_copy() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let (spool, lock) = Spool::open(&path, &[]).unwrap();
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let running = path.canonicalize().unwrap().join("tasks/running");
    let opened = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let copies: Vec<OwnedFd> = opened
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == running))
        .map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
        .map(|number| pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).unwrap())
        .collect();
    assert_eq!(copies.len(), 2, "that of the lock, and that of the spool");
    drop((spool, lock));
    drop(open(&path));
    drop(copies);
}

#[test]
fn one_process_at_a_time_has_the_lock() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let (spool, lock) = Spool::open(&path, &[]).unwrap();
    let held = format!("another process has the spool `{}`", path.display());
    assert_eq!(refused(&path), held);
    // Others may put and look all the same.
    let producer = Spool::open_to_put(&path).unwrap();
    assert!(producer.put(&[new_task("a")], at(0)).pop().unwrap().is_ok());
    assert_eq!(Spool::open_to_read(&path).unwrap().counts().unwrap().pending, 1);
    // The lock is held as long as it is, not as the spool is.
    drop(spool);
    assert_eq!(refused(&path), held);
    drop(lock);
    drop(open(&path));
}

#[test]
fn what_is_no_spool_is_said_to_be_none() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let said = |opened: Result<Spool, kron_spool::SpoolError>| opened.unwrap_err().to_string();
    let words = said(Spool::open_to_put(&path));
    assert!(words.contains("spool"), "{words}");
    std::fs::create_dir(&path).unwrap();
    let no_spool = format!("`{}` is no spool: it has no `tasks`", path.display());
    assert_eq!(said(Spool::open_to_put(&path)), no_spool);
    assert_eq!(said(Spool::open_to_read(&path)), no_spool);
    std::fs::create_dir(path.join("tasks")).unwrap();
    let no_spool = format!("`{}` is no spool: it has no `pending`", path.display());
    assert_eq!(said(Spool::open_to_put(&path)), no_spool);
    assert!(!path.join("tasks/pending").exists(), "who puts makes no spool");
}
