//! The socket as hostile or careless clients use it: bytes that are no HTTP, paths that are not
//! there, too much of everything, and silence.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use kron_testkit::krond::seldom;
use kron_testkit::waiting::PATIENCE;
use serde_json::Value;

use crate::daemon::krond::Daemon;

fn jobs() -> String {
    format!("[job.a]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n", seldom())
}

/// What comes back for these bytes.
fn send(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(daemon.socket()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    // It may refuse before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(daemon: &Daemon, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answer = send(daemon, text.as_bytes());
    let status = answer.get(9..12).unwrap_or_default().parse().expect(&answer);
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, serde_json::from_str(body).expect(&answer))
}

#[test]
fn every_refusal_has_a_status_and_says_why() {
    let daemon = Daemon::start(&jobs());
    let long = format!("{{\"force\":true{}}}", " ".repeat(20_000));
    for (method, path, body, status) in [
        ("GET", "/", "", 404),
        ("GET", "/api/v1", "", 404),
        ("GET", "/api/v1/nothing", "", 404),
        ("GET", "/api/v2/status", "", 404),
        ("GET", "/api/v1/scheduler/jobs/b", "", 404),
        ("GET", "/api/v1/scheduler/jobs/a/nothing", "", 404),
        ("GET", "/api/v1/scheduler/jobs/a/runs/latest", "", 404),
        ("GET", "/api/v1/scheduler/jobs/a/runs/0123456789abcdef/log", "", 404),
        ("GET", "/api/v1/scheduler/jobs/a/runs/..%2F..%2Fknown/log", "", 400),
        ("GET", "/api/v1/scheduler/jobs/%ff", "", 400),
        ("GET", "/api/v1/scheduler/jobs/a/why?at=never", "", 400),
        ("GET", "/api/v1/scheduler/jobs/a/why?at=%ff", "", 400),
        ("GET", "/api/v1/scheduler/jobs/a/history?count=-1", "", 400),
        ("POST", "/api/v1/status", "", 405),
        ("DELETE", "/api/v1/scheduler/jobs/a", "", 405),
        ("GET", "/api/v1/stop", "", 405),
        ("POST", "/api/v1/stop", "", 400),
        ("POST", "/api/v1/stop", "{\"mode\":\"explode\"}", 400),
        ("POST", "/api/v1/scheduler/jobs/a/run", "{\"forse\":true}", 400),
        ("POST", "/api/v1/scheduler/jobs/a/run", "[", 400),
        ("POST", "/api/v1/scheduler/jobs/a/run", &long, 400),
        ("POST", "/api/v1/scheduler/jobs/a/resume", "", 409),
        ("POST", "/api/v1/clock/accept", "", 409),
    ] {
        let (answered, value) = request(&daemon, method, path, body);
        assert_eq!(answered, status, "{method} {path}: {value}");
        assert!(value["category"].as_str().unwrap().ends_with("Error"), "{value}");
        assert!(!value["detail"].as_str().unwrap().is_empty(), "{value}");
        assert_eq!(value["status"], status, "{value}");
    }
    assert_eq!(request(&daemon, "GET", "/api/v1/status", "").0, 200);
    assert_eq!(daemon.ask(&["history", "a"])["kept_count"], 0, "nothing was started");
}

#[test]
fn bytes_that_are_no_request_hurt_nobody() {
    let daemon = Daemon::start(&jobs());
    let endless = [b"GET /".as_slice(), &[b'x'; 200_000]].concat();
    let headers = [
        b"GET /api/v1/status HTTP/1.1\r\n".as_slice(),
        &b"a: b\r\n".repeat(50_000),
        b"\r\n".as_slice(),
    ]
    .concat();
    for bytes in [
        &b""[..],
        b"\0\0\0\0",
        b"\r\n\r\n\r\n",
        b"HELO\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /api/v1/status HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /api/v1/stop HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n{\"mode\":\"kill\"}",
        &endless,
        &headers,
    ] {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200") || bytes.starts_with(b"GET /api"));
    }
    assert_eq!(daemon.ask(&["status"])["daemon"]["stopping"], Value::Null);
}

#[test]
fn the_silent_do_not_keep_others_waiting() {
    let daemon = Daemon::start(&jobs());
    let silent: Vec<UnixStream> =
        (0..100).map(|_| UnixStream::connect(daemon.socket()).unwrap()).collect();
    assert_eq!(daemon.ask(&["status"])["daemon"]["job_count"], 1);
    // And they are not waited for either: each is shown the door.
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the connection is closed");
    }
}
