//! A small file system in memory, for what happens when a disk is full.
//!
//! It is mounted in a mount namespace of the test's thread and of what that starts from then on:
//! nothing stays mounted if the test is killed. A thread or a process that was started before does not
//! see it.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::mount_namespace;
use crate::needs::Need;
use crate::programs::must_run;

/// What tests need that use it.
pub const NEEDS: &[Need] = &[Need::Root, Need::Mount];

/// A file system in memory, mounted while this lives; private to this user.
pub struct TmpfsMount(TempDir);

impl TmpfsMount {
    /// Mounts one of this size.
    pub fn of_kib(kib: u32) -> TmpfsMount {
        mount_namespace::enter(Need::Mount);
        let point = tempfile::tempdir().unwrap();
        let options = format!("size={kib}k,mode=0700");
        let path = point.path().to_str().unwrap();
        must_run(Need::Mount, "mount", &["-t", "tmpfs", "-o", &options, "kron-test", path]);
        TmpfsMount(point)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
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
