//! A file system that can lose its power: ext4 on a loop device, shut down without its journal being
//! written out. It knows nothing of what is stored on it.
//!
//! It is mounted in a mount namespace of the test's thread and of what that starts from then on. So no
//! other process of the machine copies the mount into a namespace of its own and keeps it alive, and
//! nothing stays mounted if the test is killed.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::files::scratch_for;
use crate::mount_namespace;
use crate::needs::Need;
use crate::programs::must_run;
use crate::waiting::eventually;

/// Waits for a line and then shuts the file system of a directory down: `EXT4_IOC_SHUTDOWN` with
/// the flag for leaving the journal as it is.
const SHUTDOWN: &str = "import fcntl, os, struct, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
fcntl.ioctl(directory, 0x8004587D, struct.pack('I', 2))
";

/// What tests need that use it.
pub const NEEDS: &[Need] = &[Need::Root, Need::Loop, Need::Python];

/// An ext4 of its own, mounted while this lives.
pub struct LoopMount {
    _parent: tempfile::TempDir,
    image: PathBuf,
    point: PathBuf,
    mounted: bool,
}

impl LoopMount {
    /// Makes a file system of this size and mounts it.
    pub fn of_bytes(bytes: u64) -> LoopMount {
        mount_namespace::enter(Need::Loop);
        // What a loss of power takes depends on the journal, not on the disk below, which others sync.
        let parent = scratch_for(bytes);
        let (image, point) = (parent.path().join("image"), parent.path().join("mounted"));
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        std::fs::create_dir(&point).unwrap();
        must_run(Need::Loop, "mkfs.ext4", &["-q", "-F", "-J", "size=4", image.to_str().unwrap()]);
        let mut mount = LoopMount { _parent: parent, image, point, mounted: false };
        mount.mount();
        mount
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// Mounts it anew after its power was taken away and all processes have ended that used it.
    pub fn mount_again(&mut self) {
        // A process that another thread has forked holds it until it executes a program.
        let unmount = || Command::new("umount").arg(&self.point).output().unwrap();
        eventually("it is unmounted", || unmount().status.success().then_some(()));
        self.mounted = false;
        // The kernel gives the device back a moment later. Until then, mounting the image gives what has
        // lost its power.
        eventually("the device of the image is gone", || {
            let devices = Command::new("losetup").arg("-j").arg(&self.image).output().unwrap();
            (devices.status.success() && devices.stdout.is_empty()).then_some(())
        });
        self.mount();
    }

    fn mount(&mut self) {
        // Nothing may reach the journal by itself, only by a sync.
        let options = "loop,commit=300";
        let (image, point) = (self.image.to_str().unwrap(), self.point.to_str().unwrap());
        must_run(Need::Loop, "mount", &["-t", "ext4", "-o", options, image, point]);
        self.mounted = true;
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.point).status();
        }
    }
}

/// A process that takes the power away on request.
pub struct Switch(Child);

impl Switch {
    /// Prepares to take the power away from the file system of this directory.
    pub fn on(directory: &Path) -> Switch {
        let mut python = Command::new("python3")
            .args(["-c", SHUTDOWN, directory.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut ready = [0; 6];
        python.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Switch(python)
    }

    /// Takes the power away.
    pub fn off(mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.0.wait().unwrap().success(), "the file system could not be shut down");
    }
}
