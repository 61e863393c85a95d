//! A client of the daemon's socket that outlives it: no answer is an answer, too.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use kron_testkit::waiting::PATIENCE;
use serde_json::Value;

/// Whoever asks.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

/// What a daemon answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Client {
    pub(crate) fn new(state_dir: &Path) -> Client {
        Client { socket: state_dir.join("krond.sock") }
    }

    /// Asks once. An error means that nobody knows whether it was heard.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> io::Result<Answer> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: krond\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        read(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    /// Asks a daemon that is certainly there.
    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &Value::Null).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    pub(crate) fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body).unwrap();
        assert!(answer.is_success(), "{method} {path}: {} {}", answer.status, answer.body);
        answer.body
    }

    /// All rows of a list.
    pub(crate) fn all(&self, list: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut page = self.get(&format!("{list}?limit=100"));
        loop {
            rows.extend(page["items"].as_array().unwrap().iter().cloned());
            let Some(next) = page["next"].as_str() else { return rows };
            page = self.get(&format!("{list}?limit=100&cursor={next}"));
        }
    }
}

/// A whole answer; one that was cut short is none, whatever its beginning promised.
fn read(answer: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| body.len() < length) {
        return None;
    }
    Some(Answer { status, body: serde_json::from_str(body).unwrap_or(Value::Null) })
}
