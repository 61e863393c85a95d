//! The journal of systemd, where standard error leads to it.
//!
//! An entry goes there as one datagram, with its priority and each of its fields beside its text, so
//! that `journalctl` can be asked for the entries of one job. The text is the log line itself: a
//! reader of texts finds the same wherever the daemon runs. Whoever cannot be reached this way is
//! written to on standard error, with the priority in front as the journal understands it.
//!
//! Sending waits while the journal's queue is full, so only the outlet's thread may do it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use serde_json::Value;

use crate::machine::Level;

/// Where the journal takes entries with fields.
const SOCKET: &str = "/run/systemd/journal/socket";
/// By which name the journal shows the daemon, and which kind of program it is to syslog.
const SENDER: &[u8] = b"SYSLOG_IDENTIFIER=krond\nSYSLOG_FACILITY=3\n";
/// What stands before the name of a field of ours.
const FIELD_PREFIX: &str = "KRON_";
/// The journal drops fields with longer names.
const FIELD_NAME_BYTES_MAX: usize = 64;

/// A journal, and the socket it is reached through.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// The journal that standard error leads to, if it does. A service manager says so in the
    /// environment, which descendants inherit with other descriptors in place; so it is compared.
    pub(super) fn of_stderr() -> Option<Journal> {
        let told = std::env::var_os("JOURNAL_STREAM")?;
        let stderr = rustix::fs::fstat(rustix::stdio::stderr()).ok()?;
        if !is_stream(&told, &stderr) {
            return None;
        }
        Journal::at(Path::new(SOCKET)).ok()
    }

    /// Nothing is connected, so that a journal that is started anew is found again.
    pub(super) fn at(path: &Path) -> io::Result<Journal> {
        Ok(Journal { socket: UnixDatagram::unbound()?, path: path.to_owned() })
    }

    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        loop {
            match self.socket.send_to(datagram, &self.path) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(()),
            }
        }
    }
}

/// Whether that is the stream a service manager told of, as `device:inode`.
fn is_stream(told: &OsStr, stat: &Stat) -> bool {
    told.to_str().is_some_and(|told| told == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// How much something matters, in the words of syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Priority(u8);

impl From<Level> for Priority {
    fn from(level: Level) -> Priority {
        match level {
            Level::Info => Priority(6),
            Level::Warn => Priority(4),
            Level::Error => Priority(3),
        }
    }
}

/// One entry as the journal takes it.
pub(super) fn datagram(priority: Priority, text: &str, fields: &[(String, Value)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * text.len() + SENDER.len() + 64);
    put(&mut bytes, "PRIORITY", &priority.0.to_string());
    bytes.extend_from_slice(SENDER);
    put(&mut bytes, "MESSAGE", text.trim_end_matches('\n'));
    for (key, value) in fields {
        match value {
            Value::Null => {}
            Value::String(text) => put(&mut bytes, &field_name(key), text),
            other => put(&mut bytes, &field_name(key), &other.to_string()),
        }
    }
    bytes
}

/// A value of one line follows its name; one of several is told by its length.
fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(b'\n');
}

fn field_name(key: &str) -> String {
    let word = key.chars().map(|char| match char.to_ascii_uppercase() {
        char @ ('A'..='Z' | '0'..='9') => char,
        _ => '_',
    });
    FIELD_PREFIX.chars().chain(word).take(FIELD_NAME_BYTES_MAX).collect()
}

/// The same for standard error, when the journal's socket refuses it.
pub(super) fn prefixed(priority: Priority, text: &str) -> String {
    text.lines().map(|line| format!("<{}>{line}\n", priority.0)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// The fields of a datagram, read as the journal reads them.
    pub(in crate::log) fn read(mut bytes: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|&byte| byte == b'\n').expect("an end of line");
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            let (name, value) = match line.iter().position(|&byte| byte == b'=') {
                Some(at) => (&line[..at], line[at + 1..].to_vec()),
                None => {
                    let (length, rest) = bytes.split_at(8);
                    let length = u64::from_le_bytes(length.try_into().unwrap());
                    let (value, rest) = rest.split_at(usize::try_from(length).unwrap());
                    bytes = rest.strip_prefix(b"\n").expect("an end of the value");
                    (line, value.to_vec())
                }
            };
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            assert!(fields.insert(text(name), text(&value)).is_none(), "a field twice");
        }
        fields
    }

    #[test]
    fn the_stream_is_recognised_by_device_and_inode_and_nothing_else() {
        let file = tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let other = rustix::fs::fstat(tempfile::tempfile().unwrap()).unwrap();
        let told = format!("{}:{}", stat.st_dev, stat.st_ino);
        assert!(is_stream(OsStr::new(&told), &stat));
        assert!(!is_stream(OsStr::new(&told), &other));
        let rows = ["", ":", "1", &format!("{told}0"), &format!(" {told}"), &format!("1{told}")];
        for row in rows {
            assert!(!is_stream(OsStr::new(row), &stat), "{row}");
        }
    }

    #[test]
    fn an_entry_has_its_priority_its_text_and_every_field_that_is_not_null() {
        let fields: Vec<(String, Value)> = [
            ("event", json!("odd")),
            ("identity", json!("a=b\nPRIORITY=0")),
            ("period_id", json!("2026-03-01T00:00:00Z")),
            ("distribution", json!({"name": "uniform"})),
            ("exit-code", json!(7)),
            ("reason", Value::Null),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let expected: BTreeMap<String, String> = [
            ("PRIORITY", "3"),
            ("SYSLOG_IDENTIFIER", "krond"),
            ("SYSLOG_FACILITY", "3"),
            ("MESSAGE", "a line"),
            ("KRON_EVENT", "odd"),
            ("KRON_IDENTITY", "a=b\nPRIORITY=0"),
            ("KRON_PERIOD_ID", "2026-03-01T00:00:00Z"),
            ("KRON_DISTRIBUTION", r#"{"name":"uniform"}"#),
            ("KRON_EXIT_CODE", "7"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        assert_eq!(read(&datagram(Level::Error.into(), "a line\n", &fields)), expected);
    }

    #[test]
    fn names_of_fields_are_never_longer_than_the_journal_takes() {
        assert_eq!(field_name(&"x".repeat(100)).len(), FIELD_NAME_BYTES_MAX);
    }

    #[test]
    fn on_standard_error_every_line_has_its_priority() {
        assert_eq!(prefixed(Level::Warn.into(), "one\ntwo\n"), "<4>one\n<4>two\n");
        let told = [Level::Info, Level::Warn, Level::Error].map(|it| prefixed(it.into(), "x"));
        assert_eq!(told, ["<6>x\n", "<4>x\n", "<3>x\n"]);
    }
}
