//! Waiting for the queue: on its events where they can be had, and by asking again now and then,
//! since events are only news.

use std::time::Duration;

use kron_queue::{Job, JobId, RetryDecision};
use serde_json::Value;

use super::pages::Pages;
use super::words::has_ended;
use crate::client::events::{Events, News};
use crate::client::{Client, ClientError};

/// The pause before what has no events is asked for again.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
/// How long news are waited for before the daemon is asked anyway.
const NEWS_PATIENCE: Duration = Duration::from_secs(2);
/// Jobs of a chain that are looked at for a successor.
const CHAIN_MAX: usize = 10_000;

/// What there is to listen to.
#[derive(Debug)]
pub(crate) struct Listener {
    events: Option<Events>,
}

impl Listener {
    /// Listens from now on. A daemon that lets nobody more listen is asked again and again.
    pub(crate) fn new(client: &Client) -> Listener {
        Listener { events: client.events().ok() }
    }

    /// Waits until something may have become of a job.
    pub(crate) fn wait(&mut self, job_id: JobId) {
        let Some(events) = &mut self.events else { return std::thread::sleep(INTERVAL) };
        let wanted = job_id.to_string();
        loop {
            match events.next(NEWS_PATIENCE) {
                News::Change(change) if is_about(&change, &wanted) => return,
                News::Change(_) => {}
                News::Nothing => return,
                News::Over => {
                    self.events = None;
                    return;
                }
            }
        }
    }
}

/// Whether a change may concern a job; also when some were missed.
fn is_about(change: &Value, job_id: &str) -> bool {
    change["job_id"] == job_id || change["change"] == "lagged"
}

/// Waits until a job and its retries have ended, and returns the last of them.
pub(crate) fn for_end(
    client: &Client,
    listener: &mut Listener,
    job_id: JobId,
    mut retried: impl FnMut(&Job, &Job),
) -> Result<Job, ClientError> {
    let mut job_id = job_id;
    loop {
        let job: Job = client.get(&format!("jobs/{job_id}"))?;
        if !has_ended(job.state) {
            listener.wait(job_id);
            continue;
        }
        if job.retry_decision != Some(RetryDecision::Retried) {
            return Ok(job);
        }
        let chain: Vec<Job> = Pages::new(client, format!("jobs/{job_id}/chain")).rows(CHAIN_MAX)?;
        let Some(successor) = chain.into_iter().find(|next| next.retry_of == Some(job_id)) else {
            return Ok(job);
        };
        retried(&job, &successor);
        job_id = successor.job_id;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_news_of_the_job_are_worth_looking() {
        for (change, expected) in [
            (json!({"change": "finished", "job_id": "a", "run_id": "b"}), true),
            (json!({"change": "lagged", "missed": 3}), true),
            (json!({"change": "finished", "job_id": "b", "run_id": "a"}), false),
            (json!({"change": "pauses"}), false),
            (json!("a"), false),
        ] {
            assert_eq!(is_about(&change, "a"), expected, "{change}");
        }
    }
}
