//! News of the queue: server-sent events, one at a time.
//!
//! They are news and not a record: a stream may end, and a reader that was too slow has missed some.
//! So whoever waits for something looks for itself now and then, and an event only means that it is
//! worth looking at once.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::{Bytes, Incoming};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{ANSWER_BYTES_MAX, Client, ClientError};

/// Bytes of an event; what is longer is no event of this daemon.
const EVENT_BYTES_MAX: usize = 64 * 1024;
/// How long the beginning of a stream may take.
const OPEN_PATIENCE: Duration = Duration::from_secs(10);

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    runtime: Runtime,
    body: Incoming,
    /// What has arrived and is not yet a whole event.
    pending: Vec<u8>,
}

/// What came of waiting.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// This has changed.
    Change(Value),
    /// Nothing within the time.
    Nothing,
    /// The stream is over.
    Over,
}

impl Client {
    /// Opens a stream of what changes from now on.
    pub(crate) fn events(&self) -> Result<Events, ClientError> {
        let runtime = self.runtime()?;
        let body = runtime.block_on(async {
            let open = async {
                let response = self.send(&Method::GET, "events", Bytes::new()).await?;
                let status = response.status();
                if status.is_success() {
                    return Ok(response.into_body());
                }
                let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
                let bytes = body.collect().await.map_err(|error| self.broken(&error))?.to_bytes();
                Err(self.refused(status, &bytes))
            };
            match tokio::time::timeout(OPEN_PATIENCE, open).await {
                Ok(opened) => opened,
                Err(_) => Err(self.broken(&"no answer in time")),
            }
        })?;
        Ok(Events { runtime, body, pending: Vec::new() })
    }
}

impl Events {
    /// Waits for the next change, no longer than this.
    pub(crate) fn next(&mut self, patience: Duration) -> News {
        let Events { runtime, body, pending } = self;
        runtime.block_on(async {
            let next = async {
                loop {
                    while let Some(event) = take_event(pending) {
                        if let Some(change) = change(&event) {
                            return News::Change(change);
                        }
                    }
                    let Some(Ok(frame)) = body.frame().await else { return News::Over };
                    if let Some(bytes) = frame.data_ref() {
                        pending.extend_from_slice(bytes);
                    }
                    if pending.len() > EVENT_BYTES_MAX && !has_event(pending) {
                        return News::Over;
                    }
                }
            };
            tokio::time::timeout(patience, next).await.unwrap_or(News::Nothing)
        })
    }
}

/// Where the first event ends: at an empty line.
fn end_of_event(pending: &[u8]) -> Option<usize> {
    pending.windows(2).position(|pair| pair == b"\n\n")
}

fn has_event(pending: &[u8]) -> bool {
    end_of_event(pending).is_some()
}

fn take_event(pending: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = end_of_event(pending)?;
    let rest = pending.split_off(end + 2);
    let mut event = std::mem::replace(pending, rest);
    event.truncate(end);
    Some(event)
}

/// What an event says; comments and the like say nothing.
fn change(event: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(event).ok()?;
    let data: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| data.strip_prefix(' ').unwrap_or(data))
        .collect();
    if data.is_empty() { None } else { serde_json::from_str(&data.join("\n")).ok() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_taken_whole_and_comments_passed_over() {
        let mut pending =
            b": hello\nretry: 2000\n\nevent: started\ndata: {\"a\":1}\n\ndata: {".to_vec();
        let first = take_event(&mut pending).expect("a comment");
        assert_eq!(change(&first), None);
        let second = take_event(&mut pending).expect("an event");
        assert_eq!(change(&second), Some(json!({"a": 1})));
        assert_eq!(take_event(&mut pending), None);
        pending.extend_from_slice(b"\ndata: }\n\n");
        let third = take_event(&mut pending).expect("an event in two pieces");
        assert_eq!(change(&third), Some(json!({})));
        assert!(pending.is_empty());
        for nothing in [&b""[..], b"event: x", b"data: no json", b"data: \xff"] {
            assert_eq!(change(nothing), None);
        }
    }
}
