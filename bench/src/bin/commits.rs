//! How fast state is committed, beside the bare write, fsync, rename, fsync of the same bytes.
//!
//! `commits DIRECTORY COUNT THREADS ROUNDS`: prints one line a round, commits and bare replacements
//! a second, in turns.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use kron_core::{Outcome, UtcSecond};
use kron_state::{Change, RealDirectory, Store};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    let directory = Path::new(&arguments[0]);
    let (count, threads, rounds) = (number(1), number(2), number(3));
    let (state, bare) = (directory.join("state"), directory.join("bare"));
    std::fs::create_dir(&bare).expect("made");
    let store =
        Store::open(RealDirectory::open(&state).expect("a directory"), 100).expect("a store");
    let first: UtcSecond = "2026-01-01T03:00:00Z".parse().expect("a time");
    for round in 0..rounds {
        let nominal = first.saturating_add(round as i64 * 86_400);
        let commits = rate(count, threads, |at| {
            let change = Change::Handle {
                nominal,
                chosen: Some(nominal),
                outcome: Outcome::Skipped,
                reason: "an execution is active".to_owned(),
                stretch: None,
                at: nominal,
            };
            store.commit(&format!("job-{at}"), &[change]).expect("committed");
        });
        let document = store.read("job-0").expect("read").expect("there");
        let bytes = document.to_bytes();
        let replacements = rate(count, threads, |at| replace(&bare, at, &bytes));
        println!("{commits:.1} {replacements:.1}");
    }
}

fn rate(count: usize, threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    work(at);
                }
            });
        }
    });
    count as f64 / began.elapsed().as_secs_f64()
}

fn replace(directory: &Path, at: usize, bytes: &[u8]) {
    let (temporary, path) =
        (directory.join(format!(".{at}.tmp")), directory.join(format!("{at}.json")));
    let mut file = File::create(&temporary).expect("a file");
    file.write_all(bytes).expect("written");
    file.sync_all().expect("synced");
    std::fs::rename(&temporary, &path).expect("renamed");
    File::open(directory).expect("the directory").sync_all().expect("synced");
}
