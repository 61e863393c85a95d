//! A small file system in memory, for what happens when a disk is full.
//!
//! It is mounted in a mount namespace of the test's thread and of what that starts from then on:
//! nothing stays mounted if the test is killed. A thread or a process that was started before does not
//! see it.

use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::mount_namespace;
use crate::needs::Need;
use crate::programs::must_run;

/// What tests need that use it.
pub const NEEDS: &[Need] = &[Need::Root, Need::Mount];
/// Bytes of a page, the smallest piece of such a file system.
pub const PAGE: usize = 4_096;

/// A file system in memory, mounted while this lives; private to this user.
pub struct TmpfsMount {
    path: PathBuf,
    // Removed after it is unmounted.
    _parent: Option<TempDir>,
}

impl TmpfsMount {
    /// Mounts one of this size on a directory of its own.
    pub fn of_kib(kib: usize) -> TmpfsMount {
        let parent = tempfile::tempdir().unwrap();
        let mut mount = TmpfsMount::at(parent.path().join("mounted"), kib);
        mount._parent = Some(parent);
        mount
    }

    /// Mounts one of this size on this directory, which is created if need be.
    pub fn at(path: PathBuf, kib: usize) -> TmpfsMount {
        mount_namespace::enter(Need::Mount);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
        let options = format!("size={kib}k,mode=0700");
        let point = path.to_str().unwrap();
        must_run(Need::Mount, "mount", &["-t", "tmpfs", "-o", &options, "kron-test", point]);
        TmpfsMount { path, _parent: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all the room there is but for these pages.
    pub fn fill_but(&self, pages_left: usize) {
        let mut ballast = File::create(self.ballast()).unwrap();
        let mut length = 0;
        while let Ok(written) = ballast.write(&[0; PAGE]) {
            length += written;
        }
        ballast.set_len((length - pages_left * PAGE) as u64).unwrap();
    }

    /// Gives it back.
    pub fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        // A process that still uses it goes on doing so; it is gone when they are.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

#[test]
fn a_mount_is_seen_by_no_other_process_of_the_machine() {
    if crate::needs::left_out("a mount in a namespace of its own", NEEDS) {
        return;
    }
    // A thread of its own, because the one that mounts stays in its namespace.
    let mounted = std::thread::spawn(|| {
        let mount = TmpfsMount::of_kib(64);
        let full = std::fs::write(mount.path().join("file"), vec![0; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let listed = |process: &str| {
            let mounts = crate::files::read(Path::new(&format!("/proc/{process}/mounts"))).unwrap();
            mounts.contains(mount.path().to_str().unwrap())
        };
        (listed("thread-self"), listed("self"))
    });
    assert_eq!(mounted.join().unwrap(), (true, false));
}
