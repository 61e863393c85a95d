//! Too little room, too few descriptors, and a disk that is not to be written to.

use std::io::Write as _;
use std::process::Command;

use kron_core::Category;
use kron_state::{RealDirectory, Store};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::programs::must_run;

use crate::child;
use crate::made::{HISTORY_MAX, left_over, mark, minute, missed};

/// A small file system in memory, mounted while this lives.
struct SmallMount(tempfile::TempDir);

impl SmallMount {
    fn new() -> SmallMount {
        let point = tempfile::tempdir().unwrap();
        let options = "size=256k,mode=0700";
        must_run(
            Need::Mount,
            "mount",
            &["-t", "tmpfs", "-o", options, "none", point.path().to_str().unwrap()],
        );
        SmallMount(point)
    }
}

impl Drop for SmallMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_is_full_or_read_only_keeps_what_it_has() {
    if left_out("a disk that is full or read-only keeps what it has", &[Need::Root, Need::Mount]) {
        return;
    }
    let mount = SmallMount::new();
    let state = mount.0.path().join("state");
    let open = || Store::open(RealDirectory::open(&state).unwrap(), HISTORY_MAX).unwrap();
    let store = open();
    store.commit("job", &[missed(1)]).unwrap();

    let fill = mount.0.path().join("fill");
    let mut file = std::fs::File::create(&fill).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let error = store.commit("job", &[missed(2)]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("No space left"), "{error:?}");
    assert_eq!(error.category(), Category::Persistence);
    assert_eq!(left_over(&RealDirectory::open(&state).unwrap()), [""; 0]);
    assert_eq!(mark(&open(), "job"), Some(minute(1)));
    drop(file);
    std::fs::remove_file(&fill).unwrap();
    store.commit("job", &[missed(3)]).unwrap();

    must_run(Need::Mount, "mount", &["-o", "remount,ro", mount.0.path().to_str().unwrap()]);
    let error = store.commit("job", &[missed(4)]).unwrap_err();
    assert_eq!(error.category(), Category::Persistence, "{error:?}");
    // What cannot be written can still be read.
    let view = Store::view(RealDirectory::open_existing(&state).unwrap(), HISTORY_MAX).unwrap();
    assert_eq!(mark(&view, "job"), Some(minute(3)));
}

#[test]
fn too_few_descriptors_are_the_systems_affair() {
    let parent = tempfile::tempdir().unwrap();
    let state = parent.path().join("state");
    let store = Store::open(RealDirectory::open(&state).unwrap(), HISTORY_MAX).unwrap();
    store.commit("job", &[missed(1)]).unwrap();
    let mut refused = 0;
    for descriptors in 3.. {
        let limit = format!("--nofile={descriptors}:{descriptors}");
        let output = child::command(&["prlimit", &limit], "commit_once", &state).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if said.contains("> done") {
            break;
        }
        // With too few to load a program at all there is nothing to see.
        if said.contains("> ") {
            assert!(said.contains("> SystemError"), "{descriptors} descriptors: {said}");
            refused += 1;
        }
        assert_eq!(mark(&store, "job"), Some(minute(1)), "{descriptors} descriptors");
        assert!(descriptors < 30, "{said}");
    }
    assert!(refused > 0, "the limit was never met");
    assert_eq!(mark(&store, "job"), Some(minute(2)));
}
