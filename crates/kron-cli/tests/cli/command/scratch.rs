//! Directories for what a test writes.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A directory that goes when the value does.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory; `name` is unique among the tests of a process.
    pub(crate) fn new(name: &str) -> Scratch {
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        // A test that was killed may have left one, and its process's number come round again.
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("the directory is made");
        Scratch(dir)
    }

    /// Writes a file, which nobody else may write whatever the umask, and says where it is.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("the file is written");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("its mode is set");
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    /// The directory.
    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("the path is UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
