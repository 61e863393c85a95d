//! Makes a state directory of so many jobs that have run before, without waiting for the disk.
//!
//! `documents COUNT DIRECTORY HISTORY`: jobs are called `job-0` and so on.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use kron_core::{Outcome, UtcSecond};
use kron_state::{Change, Document, document_file};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count: usize = arguments[0].parse().expect("a number");
    let directory = Path::new(&arguments[1]);
    let history: i64 = arguments[2].parse().expect("a number");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).expect("made");
    let first: UtcSecond = "2026-01-01T03:00:00Z".parse().expect("a time");
    for number in 0..count {
        let identity = format!("job-{number}");
        let mut document = Document::new(&identity);
        for day in 0..history {
            let nominal = first.saturating_add(day * 86_400);
            let change = Change::Handle {
                nominal,
                chosen: Some(nominal),
                outcome: Outcome::Missed,
                reason: "deadline exceeded, 31s late".to_owned(),
                stretch: None,
                at: nominal,
            };
            document.apply(&change, history as usize).expect("it fits");
        }
        let mut options = std::fs::OpenOptions::new();
        let path = directory.join(document_file(&identity));
        let mut file = options.write(true).create_new(true).mode(0o600).open(path).expect("a file");
        file.write_all(&document.to_bytes()).expect("written");
    }
}
