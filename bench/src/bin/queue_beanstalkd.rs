//! How many operations a second beanstalkd acknowledges durably.
//!
//! `queue_beanstalkd DIRECTORY enqueue|cycle SECONDS CLIENTS PROGRAM`: starts PROGRAM with a binlog
//! that is synced for every write (`-f0`), on a unix socket in DIRECTORY, and ends it. Prints one line
//! of JSON. A cycle is put, reserve and delete; a reservation is not recorded there, so it syncs twice.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BODY: &str = r#"{"number":1,"to":"someone@example.org"}"#;
/// How long the server may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(5);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, what, seconds, clients, program] = arguments.as_slice() else {
        panic!("queue_beanstalkd DIRECTORY enqueue|cycle SECONDS CLIENTS PROGRAM");
    };
    let clients: usize = clients.parse().expect("a number of clients");
    let limit = Duration::from_secs_f64(seconds.parse().expect("a number of seconds"));
    let socket = Path::new(directory).join("socket");
    let log = Path::new(directory).join("binlog");
    std::fs::create_dir(&log).expect("made");
    let server = Command::new(program)
        .arg("-f0")
        .arg("-b")
        .arg(&log)
        .arg("-l")
        .arg(format!("unix:{}", socket.display()))
        .stdin(Stdio::null())
        .spawn()
        .expect("started");
    let server = Server(server);
    let connections: Vec<Connection> = (0..clients).map(|_| Connection::open(&socket)).collect();
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    thread::scope(|scope| {
        for mut connection in connections {
            let (done, over) = (&done, &over);
            let is_cycle = what == "cycle";
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    connection.put();
                    if is_cycle {
                        connection.work();
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(limit);
        over.store(true, Ordering::Relaxed);
    });
    let seconds = began.elapsed().as_secs_f64();
    drop(server);
    let answer = serde_json::json!({
        "done": done.into_inner(), "seconds": seconds,
        "clients": format!("{clients} threads with a connection each"), "durability": "-f0",
    });
    println!("{answer}");
}

/// Ends with whoever started it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    fn open(path: &Path) -> Connection {
        let began = Instant::now();
        loop {
            match UnixStream::connect(path) {
                Ok(stream) => return Connection(BufReader::new(stream)),
                Err(error) if began.elapsed() > START_PATIENCE => panic!("no server: {error}"),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn ask(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).expect("asked");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("answered");
        line
    }

    fn put(&mut self) {
        let line = self.ask(&format!("put 0 0 60 {}\r\n{BODY}\r\n", BODY.len()));
        assert!(line.starts_with("INSERTED "), "{line}");
    }

    /// Takes a job, does nothing with it, and deletes it.
    fn work(&mut self) {
        let line = self.ask("reserve\r\n");
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("RESERVED"), "{line}");
        let id = words.next().expect("an id").to_owned();
        let mut body = vec![0; BODY.len() + 2];
        self.0.read_exact(&mut body).expect("a body");
        let line = self.ask(&format!("delete {id}\r\n"));
        assert_eq!(line, "DELETED\r\n");
    }
}
