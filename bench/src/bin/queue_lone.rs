//! What one enqueue takes when nobody else wants anything, beside a bare commit.
//!
//! `queue_lone DIRECTORY ROUNDS COUNT [SOCKET]`: prints one line of JSON a round, with the medians in
//! microseconds of a bare commit, of an enqueue by the library, and of one over a daemon's socket.
//! The three go in turns, so that they see the same disk. A bare commit inserts one row of the same
//! parameters into a database with one table.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kron_queue::{Enqueue, NewJob, Queue, Rules, Timestamp};
use rusqlite::Connection;
use serde_json::json;

const PARAMS: &str = r#"{"number":1,"to":"someone@example.org"}"#;
/// How long a daemon may take to answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = Path::new(&arguments[0]);
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    let (rounds, count) = (number(1), number(2));
    let bare = bare(&directory.join("bare.db"));
    let mut insert = bare.prepare("INSERT INTO jobs (params) VALUES (?1)").expect("prepared");
    let queue = Queue::open(&directory.join("queue.db"), Rules::default()).expect("a queue");
    let mut socket = arguments.get(3).map(|path| Socket::connect(path));
    for _ in 0..rounds {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..count {
            times[0].push(took(|| {
                insert.execute([PARAMS]).expect("committed");
            }));
            times[1].push(took(|| {
                let params = serde_json::from_str(PARAMS).expect("JSON");
                let jobs = vec![NewJob::of_type("noop", params)];
                queue.call(Enqueue { jobs, now: now() }).expect("enqueued");
            }));
            if let Some(socket) = &mut socket {
                times[2].push(took(|| socket.post()));
            }
        }
        let [bare, library, socket] = times.map(median);
        println!("{}", json!({"bare": bare, "library": library, "socket": socket}));
    }
}

fn bare(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a database");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE jobs (id INTEGER PRIMARY KEY, params TEXT NOT NULL);",
        )
        .expect("set up");
    let synchronous: i64 =
        connection.pragma_query_value(None, "synchronous", |row| row.get(0)).expect("read");
    assert_eq!(synchronous, 2, "FULL");
    connection
}

/// One connection that is kept.
struct Socket {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Socket {
    fn connect(path: &str) -> Socket {
        let stream = UnixStream::connect(path).expect("a daemon");
        stream.set_read_timeout(Some(ANSWER_PATIENCE)).expect("set");
        let body = format!(r#"{{"job_type":"noop","params":{PARAMS}}}"#);
        let request = format!(
            "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        Socket { stream, request: request.into_bytes(), answer: Vec::new() }
    }

    fn post(&mut self) {
        self.stream.write_all(&self.request).expect("asked");
        self.answer.clear();
        let mut buffer = [0; 4096];
        while !is_whole(&self.answer) {
            let read = self.stream.read(&mut buffer).expect("an answer in time");
            assert_ne!(read, 0, "the daemon closed the connection");
            self.answer.extend_from_slice(&buffer[..read]);
        }
        let is_created = self.answer.starts_with(b"HTTP/1.1 201 ");
        assert!(is_created, "{}", String::from_utf8_lossy(&self.answer));
    }
}

/// Whether there are the headers and as much after them as they say.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let headers = std::str::from_utf8(&answer[..end]).expect("text").to_ascii_lowercase();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("a length").parse().expect("a number");
    answer.len() >= end + 4 + length
}

fn took(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e6
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    Timestamp::from_unix_ms(since.as_millis() as i64).expect("a time")
}
