//! The API server's audit log, read as plain JSON: what was asked, by whom, and what came of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;

/// One request that has been answered.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) user: String,
    pub(crate) verb: String,
    /// The resource, with a subresource behind a slash: `jobs`, `kronjobs/status`.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) code: u16,
    /// When it was received.
    pub(crate) received: Timestamp,
    /// When it was answered.
    pub(crate) answered: Timestamp,
    /// The path and the query.
    pub(crate) uri: String,
    /// What was sent, where the policy keeps it.
    pub(crate) sent: Value,
    /// What was given back, where the policy keeps it.
    pub(crate) given: Value,
}

impl Request {
    /// Whether it did what it asked for.
    pub(crate) fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    fn from_line(line: &str) -> Option<Request> {
        let event: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("no line of an audit log: {error}: `{line}`"));
        // A watch has a line at its start, too, and a request whose handler panicked has one of its
        // own kind; neither is an answer.
        if event["stage"] != "ResponseComplete" {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let subresource = text(&object["subresource"]);
        let mut resource = text(&object["resource"]);
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        let time = |field: &str| event[field].as_str().unwrap().parse().unwrap();
        Some(Request {
            user: text(&event["user"]["username"]),
            verb: text(&event["verb"]),
            resource,
            namespace: text(&object["namespace"]),
            code: u16::try_from(event["responseStatus"]["code"].as_u64().unwrap_or(0)).unwrap(),
            received: time("requestReceivedTimestamp"),
            answered: time("stageTimestamp"),
            uri: text(&event["requestURI"]),
            sent: event["requestObject"].clone(),
            given: event["responseObject"].clone(),
        })
    }
}

/// The file that an API server writes its audit log to.
///
/// Many tests share a file that grows all the time, so each reads only what was written since its
/// own process began, and only the lines about its namespace are taken apart.
#[derive(Debug)]
pub(crate) struct AuditLog {
    file: PathBuf,
    /// Where this process begins to read.
    from: u64,
}

impl AuditLog {
    /// A log of which everything counts.
    pub(crate) fn from_the_start(file: PathBuf) -> AuditLog {
        AuditLog { file, from: 0 }
    }

    /// A log of which nothing counts that has been written so far.
    pub(crate) fn from_now_on(file: PathBuf) -> AuditLog {
        let mut log = AuditLog { file, from: 0 };
        log.from = log.len();
        log
    }

    /// How long it is.
    pub(crate) fn len(&self) -> u64 {
        std::fs::metadata(&self.file).map_or(0, |metadata| metadata.len())
    }

    /// The whole lines that begin after this place. A last line that is still being written is left
    /// out.
    pub(crate) fn text_from(&self, place: u64) -> String {
        let mut file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return String::new(),
            Err(error) => panic!("cannot read `{}`: {error}", self.file.display()),
        };
        // The place may lie within a line that was being written; then that line began before it.
        file.seek(SeekFrom::Start(place.saturating_sub(1))).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        bytes.truncate(end);
        let begin = match place {
            0 => 0,
            _ => bytes.iter().position(|byte| *byte == b'\n').map_or(0, |first| first + 1),
        };
        String::from_utf8(bytes.split_off(begin)).unwrap()
    }

    /// All requests about a namespace since this process began.
    pub(crate) fn requests_about(&self, namespace: &str) -> Vec<Request> {
        let named = format!(r#""namespace":"{namespace}""#);
        let text = self.text_from(self.from);
        let lines = text.lines().filter(|line| line.contains(&named));
        lines
            .filter_map(Request::from_line)
            .filter(|request| request.namespace == namespace)
            .collect()
    }

    /// All requests of a user since this process began.
    pub(crate) fn requests_of(&self, user: &str) -> Vec<Request> {
        let mut requests = requests_in(&self.text_from(self.from));
        requests.retain(|request| request.user == user);
        requests
    }

    /// All requests that were ever answered.
    pub(crate) fn all_requests(&self) -> Vec<Request> {
        requests_in(&self.text_from(0))
    }
}

/// All requests in the text of an audit log.
pub(crate) fn requests_in(text: &str) -> Vec<Request> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(Request::from_line).collect()
}

/// How many calls of each kind (`create jobs`) a user made.
pub(crate) fn calls(requests: &[Request], user: &str) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for request in requests.iter().filter(|request| request.user == user) {
        *calls.entry(format!("{} {}", request.verb, request.resource)).or_default() += 1;
    }
    calls
}
