//! Says when it was executed: appends the wall clock's nanoseconds to the file it is given.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let path = std::env::args_os().nth(1).expect("the file to append to");
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(path).expect("opened");
    // One short write at the end of a file is not mixed with others'.
    file.write_all(format!("{}\n", now.as_nanos()).as_bytes()).expect("written");
}
