//! Peers that mean no good, against the real daemon: it stays there for the others.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use kron_testkit::krond::{Krond, World};
use kron_testkit::waiting::{PATIENCE, eventually, now};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::new_world;
use crate::queue_crash::act::client;
use crate::queue_crash::witness::handler;

const TOKEN: &str = "0123456789abcdef-token";
/// Connections that do nothing: more than are served and may wait.
const IDLE: usize = 600;
/// Connections whose request never comes to its end.
const DRIPS: usize = 20;
/// When a peer that is still kept counts as one that is kept for ever. It is given up after half a
/// minute at most, which the tests of `api` hold to the second, by a clock of their own: this one
/// shows that it is given up by the real daemon, however busy the machine is.
const GIVEN_UP: Duration = PATIENCE;

struct Site {
    world: World,
    krond: Krond,
    address: String,
    _token: NamedTempFile,
}

impl Site {
    fn new() -> Site {
        let token = NamedTempFile::new().unwrap();
        fs::write(token.path(), TOKEN).unwrap();
        let world = new_world(&format!(
            "[queue]\nstop_grace = \"0s\"\n[api]\ntoken_file = {:?}\n{}",
            token.path(),
            handler("plain", "")
        ));
        let mut krond = Krond::spawn(world.command().args(["--listen", "127.0.0.1:0"]));
        let address = krond.wait_for("listening")["address"].as_str().unwrap().to_owned();
        krond.wait_for("ready");
        Site { world, krond, address, _token: token }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(GIVEN_UP)).unwrap();
        stream
    }

    /// A connection with the head of a request whose body is yet to come.
    fn drip(&self) -> TcpStream {
        let mut stream = self.connect();
        let head = String::from_utf8(post("jobs", "", "")).unwrap();
        let head = head.replace("Content-Length: 0", "Content-Length: 5000");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// A job is enqueued and run.
    fn serves(&self) {
        let client = client(&self.world.state_dir());
        let job = client.must("POST", "jobs", &json!({ "job_type": "plain" }));
        let path = format!("jobs/{}", job["job_id"].as_str().unwrap());
        eventually("it runs", || (client.get(&path)["state"] == "completed").then_some(()));
    }

    /// What comes back for these bytes, until the daemon closes.
    fn answer(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // It may close before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn status(answer: &str) -> Option<u16> {
    answer.split(' ').nth(1)?.parse().ok()
}

/// A request with the token.
fn post(path: &str, extra: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nConnection: close\r\n{extra}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[test]
fn what_is_too_large_too_deep_or_broken_is_refused_with_a_reason() {
    let site = Site::new();
    let deep = format!(
        "{{\"job_type\":\"plain\",\"params\":{}1{}}}",
        "{\"a\":".repeat(5_000),
        "}".repeat(5_000)
    );
    let long =
        format!("{{\"job_type\":\"plain\",\"params\":{{\"a\":\"{}\"}}}}", "x".repeat(9 << 20));
    let header = format!("X-Long: {}\r\n", "y".repeat(200_000));
    let many: String = (0..500).map(|n| format!("X-{n}: z\r\n")).collect();
    for (what, request, expected) in [
        ("deep", post("jobs", "", &deep), &[400, 422][..]),
        ("long", post("jobs", "", &long), &[413]),
        ("long batch", post("jobs/batch", "", &long), &[413]),
        ("no JSON", post("jobs", "", "{\"job_type\": \"plain\",}"), &[400]),
        ("no UTF-8", [post("jobs", "", "")[..].to_vec(), vec![0xff; 4]].concat(), &[400]),
        ("a long header", post("jobs", &header, "{}"), &[431, 400]),
        ("many headers", post("jobs", &many, "{}"), &[431, 400]),
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n".to_vec(), &[400]),
        ("a long path", post(&"p/".repeat(20_000), "", "{}"), &[404, 414, 431]),
    ] {
        let answer = site.answer(&request);
        let status = status(&answer);
        let head: String = answer.chars().take(300).collect();
        assert!(status.is_some_and(|status| expected.contains(&status)), "{what}: {head}");
        // What is not HTTP at all is answered by the server below, without words.
        if matches!(status, Some(413 | 422)) || what == "deep" || what == "no JSON" {
            assert!(answer.contains("application/problem+json"), "{what}: {head}");
            assert!(answer.contains("\"detail\""), "{what}: {head}");
        }
        site.serves();
    }
    site.krond.stop();
}

/// How many of these were answered.
fn answered(drips: &[TcpStream]) -> usize {
    let is_answered = |stream: &&TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        stream.peek(&mut [0; 16]).is_ok()
    };
    drips.iter().filter(is_answered).count()
}

#[test]
fn idle_and_dripping_connections_keep_nobody_else_waiting() {
    let site = Site::new();
    let deadline = now() + GIVEN_UP;
    // Others are served, not when these are given up, but while they are held. Each is given up
    // after half a minute, which on a busy machine may be before others were served; then new ones
    // take their places.
    let (mut drips, idle) = loop {
        let drips: Vec<TcpStream> = (0..DRIPS).map(|_| site.drip()).collect();
        let idle: Vec<TcpStream> = (0..IDLE).map(|_| site.connect()).collect();
        site.serves();
        if answered(&drips) == 0 {
            break (drips, idle);
        }
        assert!(now() < deadline, "others are served only after a drip was given up");
        drop((drips, idle));
        eventually("there is room for new ones", || {
            let answer = site.answer(&post("jobs", "", "{\"job_type\":\"plain\"}"));
            (status(&answer) == Some(201)).then_some(())
        });
    };
    let began = now();
    while answered(&drips) < drips.len() {
        site.serves();
        let given_up = answered(&drips);
        assert!(now() < began + GIVEN_UP, "{given_up} of {} drip for ever", drips.len());
        for stream in &mut drips {
            let _ = stream.write_all(b" ");
        }
    }
    for mut stream in drips {
        let mut answer = String::new();
        stream.set_read_timeout(Some(GIVEN_UP)).unwrap();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(status(&answer), Some(408), "{answer}");
    }
    // Those who said nothing were given up, too: there is room for others.
    for mut stream in idle {
        let mut rest = Vec::new();
        stream.set_read_timeout(Some(GIVEN_UP)).unwrap();
        assert!(stream.read_to_end(&mut rest).is_ok(), "an idle connection is kept");
    }
    let answer = site.answer(&post("jobs", "", "{\"job_type\":\"plain\"}"));
    assert_eq!(status(&answer), Some(201), "{answer}");
    site.krond.stop();
}

#[test]
fn a_reader_of_events_that_reads_nothing_holds_nobody_up_and_is_told_what_it_missed() {
    let site = Site::new();
    let socket = site.world.state_dir().join("krond.sock");
    let mut slow: Vec<UnixStream> = (0..8)
        .map(|_| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: k\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let client = client(&site.world.state_dir());
    // Nobody handles these, so they stay and cost nothing else.
    let jobs: Vec<Value> = (0..1_000).map(|_| json!({ "job_type": "nobodys" })).collect();
    // A reader that held the daemon up would do so for ever: none of them is read until later. The
    // client gives up after its patience.
    for _ in 0..6 {
        client.must("POST", "jobs/batch", &json!({ "jobs": jobs }));
    }
    site.serves();
    for stream in &mut slow {
        stream.set_read_timeout(Some(GIVEN_UP)).unwrap();
        let deadline: Instant = now() + GIVEN_UP;
        let mut seen = String::new();
        let mut piece = [0; 65_536];
        // Either it is told that it missed something, or it was given up.
        while !seen.contains("lagged") && now() < deadline {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(length) => seen.push_str(&String::from_utf8_lossy(&piece[..length])),
            }
        }
        assert!(now() < deadline, "neither told nor given up: {} bytes", seen.len());
    }
    site.krond.stop();
}
