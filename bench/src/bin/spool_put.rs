//! How fast tasks are put into a spool, beside the bare steps on the same disk.
//!
//! `spool_put DIRECTORY ROUNDS COUNT BATCH KRON`: in each round, one after the other, COUNT tasks by the bare steps
//! (write, fsync, rename, fsync of the directory), by the library one by one, by the library in batches of BATCH, by
//! `KRON spool put --stdin` with a line at a time, each waiting for its acknowledgement, and by the same with all
//! lines at once. Prints a line of JSON with tasks per second for each round. Nothing is removed in between: many file
//! systems tell their disk what was freed with the next sync, which would be somebody else's.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kron_core::Timestamp;
use kron_spool::{IdSource, NewTask, Put, Spool};

/// The data of every task; a file has about 300 bytes.
const DATA: &str =
    r#"{"to":"user@example.com","subject":"A short text of usual length","retry":false}"#;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    let directory = Path::new(&arguments[0]);
    let (rounds, count, batch, kron) = (number(1), number(2), number(3), &arguments[4]);
    let ids = IdSource::default();
    for round in 0..rounds {
        let place = |what: &str| {
            let path = directory.join(format!("{what}-{round}"));
            drop(Spool::open(&path, &[]).expect("a spool"));
            path
        };
        let bytes = file_bytes(&place("sample"), &ids);
        let mut contestants: Vec<(&str, Box<dyn Fn(&Path)>)> = vec![
            ("bare", Box::new(|path| bare(path, count, &bytes))),
            ("lone", Box::new(|path| library(path, count, 1, &ids))),
            ("batch", Box::new(|path| library(path, count, batch, &ids))),
            ("command_lone", Box::new(|path| command_lone(path, count, kron))),
            ("command_batch", Box::new(|path| command_batch(path, count, kron))),
        ];
        let first = round % contestants.len();
        contestants.rotate_left(first);
        let mut answer = serde_json::Map::new();
        for (name, act) in contestants {
            let path = place(name);
            // What was left to be written by whoever was before is not this one's.
            assert!(Command::new("sync").status().expect("sync").success());
            let began = Instant::now();
            act(&path);
            let rate = count as f64 / began.elapsed().as_secs_f64();
            let found = std::fs::read_dir(path.join("tasks/pending")).expect("it is there").count();
            assert_eq!(found, count, "{name}: every task is there");
            answer.insert(name.to_owned(), rate.into());
        }
        println!("{}", serde_json::Value::from(answer));
    }
}

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    Timestamp::from_unix_ms(now.as_millis() as i64).expect("a time before 9999")
}

fn task(ids: &IdSource) -> NewTask {
    NewTask::new(ids.next(now()).expect("an id"), "EMAIL_SEND", DATA).expect("a task")
}

/// What a task's file holds, for the bare steps.
fn file_bytes(path: &Path, ids: &IdSource) -> Vec<u8> {
    library(path, 1, 1, ids);
    let entry = std::fs::read_dir(path.join("tasks/pending")).expect("it is there").next();
    std::fs::read(entry.expect("one").expect("one").path()).expect("it is read")
}

fn bare(path: &Path, count: usize, bytes: &[u8]) {
    let pending = path.join("tasks/pending");
    let directory = File::open(&pending).expect("the directory");
    for at in 0..count {
        let (temporary, name) =
            (pending.join(format!(".tmp-{at}")), pending.join(format!("{at}.json")));
        let mut file = File::create_new(&temporary).expect("a file");
        file.write_all(bytes).expect("written");
        file.sync_all().expect("synced");
        std::fs::rename(&temporary, &name).expect("renamed");
        directory.sync_all().expect("synced");
    }
}

fn library(path: &Path, count: usize, batch: usize, ids: &IdSource) {
    let spool = Spool::open_to_put(path).expect("a spool");
    let mut left = count;
    while left > 0 {
        let tasks: Vec<NewTask> = (0..batch.min(left)).map(|_| task(ids)).collect();
        for result in spool.put(&tasks, now()) {
            assert_eq!(result.expect("put"), Put::New);
        }
        left -= tasks.len();
    }
}

fn command(path: &Path, kron: &str) -> std::process::Child {
    let words = ["spool", "put", "--stdin", "--type", "EMAIL_SEND", "--dir"];
    Command::new(kron)
        .args(words)
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("kron")
}

fn command_lone(path: &Path, count: usize, kron: &str) {
    let mut child = command(path, kron);
    let mut input = child.stdin.take().expect("its input");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut id = String::new();
    for _ in 0..count {
        input.write_all(format!("{DATA}\n").as_bytes()).expect("written");
        id.clear();
        assert!(output.read_line(&mut id).expect("acknowledged") > 1);
    }
    drop(input);
    assert!(child.wait().expect("its end").success());
}

fn command_batch(path: &Path, count: usize, kron: &str) {
    let mut child = command(path, kron);
    let mut input = child.stdin.take().expect("its input");
    let output = child.stdout.take().expect("its output");
    let reader = std::thread::spawn(move || BufReader::new(output).lines().count());
    let lines = format!("{DATA}\n").repeat(count);
    input.write_all(lines.as_bytes()).expect("written");
    drop(input);
    assert!(child.wait().expect("its end").success());
    assert_eq!(reader.join().expect("read"), count);
}
