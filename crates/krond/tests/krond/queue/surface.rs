//! Who may use the queue, and what is seen of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use kron_testkit::krond::{Krond, World};
use kron_testkit::waiting::{PATIENCE, eventually};
use serde_json::{Value, json};

use crate::new_world;
use crate::queue::site::{JOBS, Site as _, handler, world};

fn over_tcp(address: &str, method: &str, path: &str, header: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{header}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

fn listening(world: &World) -> (Krond, String) {
    let mut krond = Krond::spawn(world.command().args(["--listen", "127.0.0.1:0"]));
    let address = krond.wait_for("listening")["address"].as_str().unwrap().to_owned();
    krond.wait_for("ready");
    (krond, address)
}

#[test]
fn over_a_network_the_queue_needs_the_token_and_the_token_can_be_changed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "0123456789abcdef-first\n").unwrap();
    let world = world(&format!("[api]\ntoken_file = {:?}\n{}", file.path(), handler("a", "true")));
    let (_krond, address) = listening(&world);
    let job = r#"{"job_type":"a"}"#;
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for (method, path, header, status) in [
        ("GET", JOBS, String::new(), 401),
        ("POST", JOBS, String::new(), 401),
        ("GET", JOBS, bearer("0123456789abcdef-wrong"), 401),
        ("GET", "/metrics", bearer("wrong"), 401),
        ("GET", "/metrics", String::new(), 200),
        ("GET", JOBS, bearer("0123456789abcdef-first"), 200),
        ("POST", JOBS, bearer("0123456789abcdef-first"), 201),
        ("POST", "/api/v1/reload", bearer("0123456789abcdef-first"), 200),
    ] {
        let (answered, answer) = over_tcp(&address, method, path, &header, job);
        assert_eq!(answered, status, "{method} {path} {header}: {answer}");
        if status == 401 {
            assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
            assert!(!answer.contains("0123456789abcdef"), "nothing is told: {answer}");
        }
    }
    fs::write(file.path(), "0123456789abcdef-second\n").unwrap();
    world.post("/api/v1/reload", &json!({}));
    eventually("the new one is in force", || {
        let header = bearer("0123456789abcdef-second");
        (over_tcp(&address, "GET", JOBS, &header, "").0 == 200).then_some(())
    });
    assert_eq!(over_tcp(&address, "GET", JOBS, &bearer("0123456789abcdef-first"), "").0, 401);
}

#[test]
fn a_daemon_without_a_queue_says_so() {
    let world = new_world("[daemon]\nhistory = 10\n");
    let (_krond, address) = listening(&world);
    let (status, answer) = world.ask("GET", JOBS, "");
    assert_eq!(status, 404);
    assert!(answer["hint"].as_str().unwrap().contains("[queue]"), "{answer}");
    assert_eq!(over_tcp(&address, "POST", "/api/v1/stop", "", "{}").0, 403);
    assert!(!world.state_dir().join("queue.db").exists());
}

#[test]
fn a_short_token_and_a_database_of_something_else_refuse_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "short").unwrap();
    let world = new_world(&format!("[queue]\n[api]\ntoken_file = {:?}\n", file.path()));
    let (code, said) = world.run_to_end();
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("less than 16 bytes") && !said.contains("short\\\""), "{said}");
    world.configure("[queue]\n");
    let path = world.state_dir().join("queue.db");
    let _ = fs::remove_file(&path);
    fs::write(&path, "not a database at all, but long enough to be taken for one".repeat(100))
        .unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (code, said) = world.run_to_end();
    assert_eq!(code, 3, "{said}");
}

#[test]
fn changes_are_streamed_and_counted() {
    let world = world(&(handler("a", "true") + &handler("bad", "false") + "retries = 0\n"));
    let _krond = world.start();
    let mut stream = UnixStream::connect(world.state_dir().join("krond.sock")).unwrap();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: k\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut seen = String::new();
    let mut read_until = |wanted: &str| {
        let mut piece = [0; 4096];
        while !seen.contains(wanted) {
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0, "closed: {seen}");
            seen.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
    };
    read_until("text/event-stream");
    let id = world.add("a", json!({}));
    let bad = world.add("bad", json!({}));
    world.reaches(&id, "completed");
    world.reaches(&bad, "failed");
    read_until("enqueued");
    read_until("finished");
    let (_, _) = world.ask("GET", "/api/v1/status", "");
    let lines = [
        "kron_queue_runs_total{state=\"completed\"} 1",
        "kron_queue_runs_total{state=\"failed\"} 1",
        "kron_queue_enqueued_total 2",
        "kron_queue_jobs{state=\"queued\"} 0",
        "kron_queue_wait_seconds_count 2",
    ];
    // What has ended is counted a moment after it is recorded.
    eventually("all is counted", || {
        let mut socket = UnixStream::connect(world.state_dir().join("krond.sock")).unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: k\r\nConnection: close\r\n\r\n";
        socket.write_all(request).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        lines.iter().all(|line| text.lines().any(|found| found == *line)).then_some(())
    });
    let document: Value = world.get("/api/v1/openapi.json");
    assert!(document["paths"]["/api/v1/jobs"].is_object());
}

#[test]
fn one_connection_serves_many_requests() {
    let world = world(&handler("a", "true"));
    let _krond = world.start();
    let mut stream = UnixStream::connect(world.state_dir().join("krond.sock")).unwrap();
    // All at once: a connection that waits for its next request is closed after a while.
    stream.write_all(&b"GET /api/v1/queue HTTP/1.1\r\nHost: k\r\n\r\n".repeat(3)).unwrap();
    for _ in 0..3 {
        let head = read_answer(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
}

/// Reads one answer to its end, which is where the next begins; its head.
fn read_answer(stream: &mut UnixStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(char::from(byte[0]));
    }
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, length) = lengths.next().expect("a length");
    stream.read_exact(&mut vec![0; length.trim().parse().unwrap()]).unwrap();
    head
}
