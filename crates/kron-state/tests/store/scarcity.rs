//! Too little room, too few descriptors, and a disk that is not to be written to.

use kron_core::Category;
use kron_state::{RealDirectory, Store};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::programs::must_run;
use kron_testkit::tmpfs_mount::{NEEDS, TmpfsMount};

use crate::child;
use crate::made::{HISTORY_MAX, left_over, mark, minute, missed};

#[test]
fn a_disk_that_is_full_or_read_only_keeps_what_it_has() {
    if left_out("a disk that is full or read-only keeps what it has", NEEDS) {
        return;
    }
    let mount = TmpfsMount::of_kib(256);
    let state = mount.path().join("state");
    let open = || Store::open(RealDirectory::open(&state).unwrap(), HISTORY_MAX).unwrap();
    let store = open();
    store.commit("job", &[missed(1)]).unwrap();

    mount.fill_but(0);
    let error = store.commit("job", &[missed(2)]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("No space left"), "{error:?}");
    assert_eq!(error.category(), Category::Persistence);
    assert_eq!(left_over(&RealDirectory::open(&state).unwrap()), [""; 0]);
    assert_eq!(mark(&open(), "job"), Some(minute(1)));
    mount.make_room();
    store.commit("job", &[missed(3)]).unwrap();

    must_run(Need::Mount, "mount", &["-o", "remount,ro", mount.path().to_str().unwrap()]);
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
