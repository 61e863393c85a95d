//! The queue and its jobs in words: what a job waits for, what became of it, what comes next.
//!
//! Pure: what the daemon said and the time go in, words come out.

use kron_core::UtcSecond;
use kron_queue::{Job, JobRun, JobState, Pause, RetryDecision, Timestamp};
use kron_queue_api::{HandlerView, Progress, QueueView};
use serde_json::Value;

use crate::board::{Style, shortened};
use crate::clock;
use crate::text::{ago, brief, count};

/// How long ago something was, seen from now.
pub(crate) fn age(at: Timestamp) -> String {
    ago(at.second(), clock::now())
}

/// A time, and how long ago it was or how far ahead it is.
pub(crate) fn moment(at: Timestamp, now: UtcSecond) -> String {
    let seconds = at.second().since(now);
    match seconds {
        1.. => format!("{}, in {}", at.second(), brief(seconds)),
        _ => format!("{}, {} ago", at.second(), brief(seconds)),
    }
}

/// Whether nothing more will become of a job.
pub(crate) fn has_ended(state: JobState) -> bool {
    match state {
        JobState::Queued | JobState::Delayed | JobState::Blocked | JobState::Running => false,
        JobState::Completed | JobState::Failed | JobState::Skipped | JobState::Cancelled => true,
    }
}

/// What is paused, each in a line.
pub(crate) fn pauses(pauses: &[Pause], now: UtcSecond) -> Vec<String> {
    pauses
        .iter()
        .map(|pause| {
            let what = match &pause.job_type {
                Some(job_type) => format!("type {job_type} is paused"),
                None => "the queue is paused".to_owned(),
            };
            let reason = one_line(&pause.reason);
            format!("{what} since {}: {reason}", moment(pause.paused_at, now))
        })
        .collect()
}

/// Why a job that could be claimed is not; nothing when its turn simply has not come.
pub(crate) fn obstacle(job: &Job, queue: &QueueView) -> Option<String> {
    let paused = |job_type: Option<&str>| {
        queue.pauses.iter().find(|pause| pause.job_type.as_deref() == job_type)
    };
    if let Some(pause) = paused(None) {
        return Some(format!("the queue is paused: {}", one_line(&pause.reason)));
    }
    if let Some(pause) = paused(Some(&job.job_type)) {
        return Some(format!("its type is paused: {}", one_line(&pause.reason)));
    }
    let Some(handler) = handler(queue, &job.job_type) else {
        return Some("nothing handles its type".to_owned());
    };
    if queue.reservation.is_some() {
        return Some("a direct run has the next slot".to_owned());
    }
    let running_of_type = queue.counts.types.iter().find(|of| of.job_type == job.job_type);
    let running_of_type = running_of_type.map_or(0, |of| of.running);
    if let Some(limit) = handler.concurrency_max.filter(|&limit| running_of_type >= limit.into()) {
        return Some(format!("{limit} of its type run, no more are allowed"));
    }
    let workers_max = queue.workers_max;
    (queue.counts.running >= workers_max.into())
        .then(|| format!("{} busy", count(workers_max.into(), "worker")))
}

pub(crate) fn handler<'a>(queue: &'a QueueView, job_type: &str) -> Option<&'a HandlerView> {
    queue.handlers.iter().find(|handler| handler.job_type == job_type)
}

/// A job in a few words, for the last column of a table.
pub(crate) fn note(job: &Job, queue: &QueueView, now: UtcSecond) -> String {
    match job.state {
        JobState::Queued => obstacle(job, queue).unwrap_or_default(),
        JobState::Delayed => job.not_before.map_or_else(String::new, |at| {
            let seconds = at.second().since(now);
            if seconds > 0 { format!("in {}", brief(seconds)) } else { "due".to_owned() }
        }),
        JobState::Blocked => "its group's turn has not come".to_owned(),
        JobState::Running if job.cancel_requested_at.is_some() => "is being ended".to_owned(),
        JobState::Running => String::new(),
        JobState::Failed => match job.retry_decision {
            Some(RetryDecision::Retried) => "retried".to_owned(),
            Some(RetryDecision::Exhausted | RetryDecision::LostExhausted) => {
                "no more retries".to_owned()
            }
            _ => String::new(),
        },
        JobState::Completed | JobState::Skipped | JobState::Cancelled => String::new(),
    }
}

/// Since when a job is what it is.
pub(crate) fn since(job: &Job) -> Timestamp {
    match job.state {
        JobState::Queued | JobState::Delayed | JobState::Blocked => job.queued_at,
        JobState::Running => job.started_at.unwrap_or(job.queued_at),
        JobState::Completed | JobState::Failed | JobState::Skipped | JobState::Cancelled => {
            job.finished_at.unwrap_or(job.queued_at)
        }
    }
}

/// How far a run says it is.
pub(crate) fn progress(progress: &Progress) -> String {
    let percent = progress.percent;
    match &progress.text {
        Some(text) => format!("{percent}%, {}", one_line(text)),
        None => format!("{percent}%"),
    }
}

/// How a run ended, such as `failed, exit code 3, after 2s`; or since when it runs.
pub(crate) fn run(run: &JobRun, now: UtcSecond) -> String {
    let (Some(status), Some(finished_at)) = (run.status, run.finished_at) else {
        return format!("runs since {}", moment(run.started_at, now));
    };
    let mut words = status.as_str().to_ascii_lowercase();
    if let Some(code) = run.exit_code {
        words.push_str(&format!(", exit code {code}"));
    }
    let took_ms = finished_at.unix_ms() - run.started_at.unix_ms();
    words.push_str(&format!(", after {}", took(took_ms)));
    words
}

/// What went wrong with a run, unless its exit code says so already.
pub(crate) fn error(run: &JobRun) -> Option<&str> {
    let error = run.error.as_deref()?;
    let code = run.exit_code.map(|code| format!("exit code {code}"));
    (code.as_deref() != Some(error)).then_some(error)
}

/// How long something took; short times in tenths of a second.
fn took(ms: i64) -> String {
    const TENTHS_BELOW_MS: i64 = 10_000;
    match ms.max(0) {
        ms if ms < TENTHS_BELOW_MS => format!("{}.{}s", ms / 1_000, ms / 100 % 10),
        ms => brief(ms / 1_000),
    }
}

/// What will become of a job, or what to do about it; nothing when there is nothing to say.
pub(crate) fn next(
    job: &Job,
    successor: Option<&Job>,
    queue: &QueueView,
    before: Option<usize>,
    now: UtcSecond,
) -> Option<String> {
    let id = job.job_id;
    Some(match (job.state, job.retry_decision) {
        (JobState::Queued, _) => {
            let turn = match before {
                Some(0) => "it is the first in the queue".to_owned(),
                Some(ahead) => format!("{} before it", are(ahead as u64, "job")),
                None => "its turn has not come".to_owned(),
            };
            match obstacle(job, queue) {
                Some(obstacle) => format!("{turn}; it waits: {obstacle}"),
                None => format!("{turn}; it starts when its turn comes"),
            }
        }
        (JobState::Delayed, _) => match job.not_before {
            Some(at) => format!("it may start at {}", moment(at, now)),
            None => return None,
        },
        (JobState::Blocked, _) => {
            "it waits for the jobs of its group that are before it".to_owned()
        }
        (JobState::Running, _) if job.cancel_requested_at.is_some() => {
            "somebody cancelled it: its process is being ended".to_owned()
        }
        (JobState::Running, _) => match handler(queue, &job.job_type) {
            Some(handler) if handler.retries_max > job.attempt => format!(
                "if it fails it is retried, {} more at most",
                count((handler.retries_max - job.attempt).into(), "time")
            ),
            _ => "if it fails it is not retried any more".to_owned(),
        },
        (_, Some(RetryDecision::Retried)) => match successor {
            Some(successor) => format!("job {} repeats it, {}", successor.job_id, successor.state),
            None => "another job repeats it".to_owned(),
        },
        (_, Some(RetryDecision::Exhausted)) => {
            format!("it failed too often to be retried; `kron queue retry {id}` does so once more")
        }
        (_, Some(RetryDecision::LostExhausted)) => format!(
            "it was lost to crashes too often to be retried; `kron queue retry {id}` does so once \
             more"
        ),
        (JobState::Failed, Some(RetryDecision::Direct)) => {
            format!("it ran directly and is not retried; `kron queue retry {id}` does so")
        }
        (JobState::Cancelled, _) => {
            format!("cancelled jobs are not retried; `kron queue retry {id}` does so")
        }
        _ => return None,
    })
}

/// `1 job is`, `2 jobs are`.
fn are(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "is" } else { "are" })
}

/// Parameters on one line; an empty object is nothing.
pub(crate) fn params(params: &Value) -> String {
    match params {
        Value::Object(fields) if fields.is_empty() => String::new(),
        other => other.to_string(),
    }
}

/// A text without what a terminal would obey.
pub(crate) fn one_line(text: &str) -> String {
    shortened(text, &Style::default())
}

#[cfg(test)]
mod tests;
