//! The API server's audit log, read as plain JSON: what was asked, by whom, and what came of it.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

use crate::process::read;

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

/// All requests in an audit log. A last line that is still being written is left out.
pub(crate) fn requests(log: &Path) -> Vec<Request> {
    requests_in(&read(log))
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
