//! A real file system that really loses its power.
//!
//! ext4 on a loop device is shut down, without its journal being written out, while another
//! process commits; then it is mounted again. What was acknowledged must be there. The canary is
//! the same process without directory syncs: it must lose something.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kron_core::UtcSecond;
use kron_state::{RealDirectory, Store};

use crate::child;
use crate::made::{HISTORY_MAX, Seeded, left_out, left_over, mark, minute, must_run};

const ROUNDS: u64 = 20;
const DISK_BYTES: u64 = 16 * 1024 * 1024;
/// Commits that are waited for before the power goes.
const COMMITS_MAX: usize = 40;

/// Waits for a line and then shuts the file system of a directory down: `EXT4_IOC_SHUTDOWN` with
/// the flag for leaving the journal as it is.
const SHUTDOWN: &str = "import fcntl, os, struct, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
fcntl.ioctl(directory, 0x8004587D, struct.pack('I', 2))
";

/// An ext4 of its own, mounted while this lives.
struct LoopMount {
    _parent: tempfile::TempDir,
    image: PathBuf,
    mount_point: PathBuf,
    mounted: bool,
}

impl LoopMount {
    fn new() -> LoopMount {
        let parent = tempfile::tempdir().unwrap();
        let (image, mount_point) = (parent.path().join("image"), parent.path().join("mounted"));
        std::fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        std::fs::create_dir(&mount_point).unwrap();
        must_run("mkfs.ext4", &["-q", "-F", "-J", "size=4", image.to_str().unwrap()]);
        let mut mount = LoopMount { _parent: parent, image, mount_point, mounted: false };
        mount.mount();
        mount
    }

    fn mount(&mut self) {
        // Nothing may reach the journal by itself, only by somebody's sync.
        let options = "loop,commit=300";
        let (image, point) = (self.image.to_str().unwrap(), self.mount_point.to_str().unwrap());
        must_run("mount", &["-t", "ext4", "-o", options, image, point]);
        self.mounted = true;
    }

    fn unmount(&mut self) {
        must_run("umount", &[self.mount_point.to_str().unwrap()]);
        self.mounted = false;
    }

    fn state(&self) -> PathBuf {
        self.mount_point.join("state")
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.mount_point).status();
        }
    }
}

/// A process that takes the power away when it is told to.
struct Switch(Child);

impl Switch {
    fn on(directory: &Path) -> Switch {
        let mut python = Command::new("python3")
            .args(["-c", SHUTDOWN, directory.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut ready = [0; 6];
        std::io::Read::read_exact(python.stdout.as_mut().unwrap(), &mut ready).unwrap();
        Switch(python)
    }

    fn off(mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.0.wait().unwrap().success(), "the file system could not be shut down");
    }
}

/// Lets a child commit, takes the power away, and says what is missing of what it acknowledged.
fn lose_power(role: &str, seed: u64) -> Vec<String> {
    let mut mount = LoopMount::new();
    let state = mount.state();
    drop(Store::open(RealDirectory::open(&state).unwrap(), HISTORY_MAX).unwrap());

    let switch = Switch::on(&mount.mount_point);
    let mut committing = child::start(role, &state);
    let mut tried: BTreeMap<String, UtcSecond> = BTreeMap::new();
    let mut did: BTreeMap<String, UtcSecond> = BTreeMap::new();
    let mut listen = |said: &str| {
        let words: Vec<&str> = said.split(' ').collect();
        let period = minute(words[2].parse().unwrap());
        let heard = if words[0] == "did" { &mut did } else { &mut tried };
        heard.insert(words[1].to_owned(), period);
    };
    // Between any two lines there is another step of a commit.
    for _ in 0..Seeded(seed).below(2 * COMMITS_MAX) {
        listen(&committing.said().expect("it commits until it fails"));
    }
    switch.off();
    while let Some(said) = committing.said() {
        listen(&said);
    }
    committing.dismiss();
    mount.unmount();
    mount.mount();

    let directory = RealDirectory::open(&state).unwrap();
    let store = Store::open(directory, HISTORY_MAX).unwrap();
    let scan = store.scan().unwrap();
    assert_eq!(scan.unreadable, [], "round {seed}");
    assert_eq!(left_over(&RealDirectory::open(&state).unwrap()), [""; 0]);
    let mut missing = Vec::new();
    for (job, tried) in &tried {
        let found = mark(&store, job);
        if found < did.get(job).copied() {
            missing.push(format!("{job}: {found:?} instead of {:?}", did.get(job)));
        }
        assert!(found <= Some(*tried), "round {seed}, {job}: what was never written");
    }
    missing
}

#[test]
fn what_was_acknowledged_survives_a_real_power_cut() {
    if left_out("loop", "what was acknowledged survives a real power cut") {
        return;
    }
    for round in 0..ROUNDS {
        let missing = lose_power("commit_for_ever", round);
        assert_eq!(missing, [""; 0], "round {round}");
    }
}

#[test]
fn without_directory_syncs_a_real_power_cut_loses_something() {
    if left_out("loop", "without directory syncs a real power cut loses something") {
        return;
    }
    let lost = (0..ROUNDS)
        .any(|round| !lose_power("commit_for_ever_without_directory_sync", round).is_empty());
    assert!(lost, "nothing was lost: this test would not see a missing sync");
}
