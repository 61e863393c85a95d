//! The least that a scheduler can do for a burst: so many durable replacements of small files, each
//! followed by the start of a process, one after the other.
//!
//! `bare COUNT DIRECTORY DUE PROGRAM ARGUMENT`: begins at the wall second DUE.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// About as long as a state document.
const BYTES: usize = 700;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (count, directory, due) = (number(0), Path::new(&arguments[1]), number(2));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    thread::sleep(Duration::from_secs(due).saturating_sub(now));
    let mut children = Vec::new();
    for at in 0..count as usize {
        replace(directory, at);
        let mut command = Command::new(&arguments[3]);
        command.arg(&arguments[4]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        children.push(command.spawn().expect("a process"));
    }
    for mut child in children {
        child.wait().expect("its end");
    }
}

fn replace(directory: &Path, at: usize) {
    let (temporary, path) =
        (directory.join(format!(".{at}.tmp")), directory.join(format!("{at}.json")));
    let mut file = File::create(&temporary).expect("a file");
    file.write_all(&[b'x'; BYTES]).expect("written");
    file.sync_all().expect("synced");
    std::fs::rename(&temporary, &path).expect("renamed");
    File::open(directory).expect("the directory").sync_all().expect("synced");
}
