//! Jobs from lines of JSON, in batches that the daemon takes.

use std::path::Path;

use kron_core::Finding;
use kron_queue::limits::JOBS_PER_CALL_MAX;
use kron_queue_api::limits::{BATCH_BYTES_MAX, ENVELOPE_BYTES_MAX};
use serde_json::{Map, Value};

use crate::client::ClientError;
use crate::failure::Failure;
use crate::lines::{LINE_BYTES_MAX, Line, Lines};

/// Bytes of the jobs of a batch; there is room around them.
const JOBS_BYTES_MAX: usize = BATCH_BYTES_MAX - ENVELOPE_BYTES_MAX;

/// Jobs that are sent together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    jobs: String,
    /// The line of each job.
    lines: Vec<usize>,
}

/// A source of batches.
pub(crate) struct Batches {
    lines: Lines,
    line: usize,
    /// A job that did not fit into the batch before.
    left: Option<(usize, String)>,
}

impl Batch {
    /// The jobs, as a JSON array.
    pub(crate) fn json(&self) -> String {
        format!("[{}]", self.jobs)
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// A refusal with the line that it is about.
    pub(crate) fn blame(&self, error: ClientError) -> Failure {
        let ClientError::Refused { status, mut error, field } = error else { return error.into() };
        let index = field.as_deref().and_then(|field| {
            let (index, _) = field.strip_prefix("jobs[")?.split_once(']')?;
            index.parse::<usize>().ok()
        });
        if let Some(line) = index.and_then(|index| self.lines.get(index)) {
            error.detail = format!("line {line}: {}", error.detail);
        }
        ClientError::Refused { status, error, field }.into()
    }
}

impl Batches {
    pub(crate) fn open(path: &Path) -> Result<Batches, Failure> {
        Ok(Batches { lines: Lines::open(path)?, line: 0, left: None })
    }

    /// The next jobs, as many as one request may have; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, Failure> {
        let mut batch = Batch::default();
        while batch.len() < JOBS_PER_CALL_MAX {
            let next = match self.left.take() {
                Some(left) => Some(left),
                None => self.job()?,
            };
            let Some((line, job)) = next else { break };
            if batch.len() > 0 && batch.jobs.len() + job.len() + 1 > JOBS_BYTES_MAX {
                self.left = Some((line, job));
                break;
            }
            if batch.len() > 0 {
                batch.jobs.push(',');
            }
            batch.jobs.push_str(&job);
            batch.lines.push(line);
        }
        Ok((batch.len() > 0).then_some(batch))
    }

    /// The next line that is not empty, which must be an object.
    fn job(&mut self) -> Result<Option<(usize, String)>, Failure> {
        loop {
            self.line += 1;
            let line = self.line;
            let wrong = |message: String| {
                let finding = Finding::configuration(0..0, format!("line {line}: {message}"));
                let help = "each line is an object such as `{\"job_type\": \"resize\"}`";
                Failure::argument("jobs")(finding.help(help))
            };
            let text = match self.lines.next()? {
                None => return Ok(None),
                Some(Line::TooLong) => {
                    return Err(wrong(format!("it has more than {LINE_BYTES_MAX} bytes")));
                }
                Some(Line::Whole(bytes)) => match std::str::from_utf8(bytes) {
                    Ok(text) => text.trim().to_owned(),
                    Err(_) => return Err(wrong("it is not UTF-8".to_owned())),
                },
            };
            if text.is_empty() {
                continue;
            }
            serde_json::from_str::<Map<String, Value>>(&text)
                .map_err(|error| wrong(format!("no JSON object: {error}")))?;
            return Ok(Some((line, text)));
        }
    }
}
