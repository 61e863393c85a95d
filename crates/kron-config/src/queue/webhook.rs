//! Reading a table `[queue.webhook.NAME]`.

use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds};

use super::QueueWebhook;
use crate::value::{self, Value, wrong_kind};
use crate::web::{self, Headers};

/// The keys of a webhook.
pub(crate) const KEYS: [&str; 6] =
    ["url", "on", "headers", "secret_file", "timeout", "allow_private"];

/// What the queue tells, in the order of a job's life.
const EVENTS: [&str; 5] =
    ["job.started", "job.completed", "job.failed", "job.skipped", "job.cancelled"];
/// Events that may be listed, repeats counted.
const EVENTS_MAX: usize = 64;
/// How long one try may take.
const TIMEOUT_DEFAULT: Seconds = Seconds::new(10);
/// The longest that one try may be given.
const TIMEOUT_MAX: Seconds = Seconds::new(600);

/// A webhook in the making.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    url: Option<String>,
    on: Vec<String>,
    headers: Headers,
    secret_file: Option<String>,
    timeout: Option<Seconds>,
    allow_private: bool,
    /// Whether its address was given and refused.
    refused: bool,
}

impl Draft {
    /// Applies `key = value`; the key is one of [`KEYS`].
    pub(crate) fn set(
        &mut self,
        key: &str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Vec<Finding>> {
        let one = |finding| vec![finding];
        match key {
            "url" => {
                self.refused = true;
                self.url = Some(web::url(value, span).map_err(one)?);
            }
            "on" => self.on = events(value, span)?,
            "headers" => self.headers = web::headers(value, span)?,
            "secret_file" => {
                self.secret_file = Some(value::absolute_path(value, span).map_err(one)?);
            }
            "timeout" => {
                let timeout = value::positive(value, span).map_err(one)?;
                if timeout > TIMEOUT_MAX {
                    let message = format!("`timeout` of a webhook is at most {TIMEOUT_MAX}");
                    return Err(vec![Finding::validation(span.clone(), message)]);
                }
                self.timeout = Some(timeout);
            }
            _ => self.allow_private = value::boolean(value, span).map_err(one)?,
        }
        Ok(())
    }

    /// The webhook of this name, which stands at `span`.
    pub(crate) fn finish(
        self,
        name: &str,
        span: &Range<usize>,
        findings: &mut Vec<Finding>,
    ) -> Option<QueueWebhook> {
        if self.url.is_none() && !self.refused {
            let message = format!("webhook `{}` has no `url`", excerpt(name));
            findings.push(
                Finding::configuration(span.clone(), message).help("as in `url = \"https://…\"`"),
            );
        }
        Some(QueueWebhook {
            name: name.to_owned(),
            url: self.url?,
            on: self.on,
            headers: self.headers,
            secret_file: self.secret_file,
            timeout: self.timeout.unwrap_or(TIMEOUT_DEFAULT),
            allow_private: self.allow_private,
        })
    }
}

/// The events of a list, each once, in the order of [`EVENTS`].
fn events(value: &Value<'_>, span: &Range<usize>) -> Result<Vec<String>, Vec<Finding>> {
    let Value::List(items) = value else {
        let expected = "a list such as `[\"job.failed\"]`";
        return Err(vec![wrong_kind(value, span, expected)]);
    };
    if items.len() > EVENTS_MAX {
        let message = format!("more than {EVENTS_MAX} events");
        return Err(vec![Finding::validation(span.clone(), message)]);
    }
    let mut wanted = [false; EVENTS.len()];
    let mut faults = Vec::new();
    for (item, span) in items {
        match value::inner_text(item, span) {
            Err(finding) => faults.push(finding),
            Ok(word) => match EVENTS.iter().position(|event| *event == word) {
                Some(at) => wanted[at] = true,
                None => faults.push(
                    Finding::configuration(
                        span.clone(),
                        format!("unknown event `{}`", excerpt(word)),
                    )
                    .nearest(
                        word,
                        EVENTS,
                        format!("expected {}", EVENTS.join(", ")),
                    ),
                ),
            },
        }
    }
    if items.is_empty() {
        // No event would be read as every event further on.
        faults.push(
            Finding::validation(span.clone(), "a webhook that is never told anything")
                .help("leave `on` out for every event"),
        );
    }
    let events = EVENTS.iter().zip(wanted).filter(|(_, wanted)| *wanted);
    let events = events.map(|(event, _)| (*event).to_owned()).collect();
    if faults.is_empty() { Ok(events) } else { Err(faults) }
}
