//! The queue inside the daemon: who claims jobs, what runs them, and what is left after a crash.
//!
//! The rules of the queue are those of `kron-queue`, which owns the database and its thread. Here
//! is what only a daemon can do: processes, endpoints, files and the time. [`dispatcher`] decides
//! and touches nothing; the rest carries out.

pub(crate) mod artifacts;
pub(crate) mod dispatcher;
pub(crate) mod end;
pub(crate) mod plan;
pub(crate) mod post;
pub(crate) mod recovery;
pub(crate) mod time;
pub(crate) mod webhooks;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kron_config::{Handler, QueueSettings, RetrySettings};
use kron_queue::{RetryPolicy, Rules, Webhook};

/// The database's name in the state directory.
pub(crate) const DATABASE: &str = "queue.db";
/// The directory of everything else that is the queue's.
const DIRECTORY: &str = "queue";
/// Where output is kept.
const LOGS: &str = "logs";
/// Digits of an identity's hash that stand for it in a key.
const KEY_HASH_DIGITS: usize = 32;
/// Where runs leave files.
const ARTIFACTS: &str = "artifacts";

/// Where the output of a run is kept, in the state directory.
pub(crate) fn log_path(run: kron_queue::RunId) -> String {
    format!("{DIRECTORY}/{LOGS}/{run}.log")
}

/// Where a run leaves its files.
pub(crate) fn artifacts_path(state_dir: &Path, run: kron_queue::RunId) -> PathBuf {
    state_dir.join(DIRECTORY).join(ARTIFACTS).join(run.to_string())
}

/// The key under which a period of a job is in the queue.
pub(crate) fn key_of(identity: &str, period: &kron_state::PeriodRef) -> String {
    let hash = kron_state::document_file(identity);
    format!("job/{}/{period}", &hash[..hash.len().min(KEY_HASH_DIGITS)])
}

/// Removes logs and artifacts of runs that the queue does not know any more.
///
/// # Errors
/// When a directory or the database cannot be read; what was removed is removed.
pub(crate) fn sweep(queue: &kron_queue::Queue, state_dir: &Path) -> io::Result<()> {
    for (directory, suffix) in [(LOGS, ".log"), (ARTIFACTS, "")] {
        let entries = match std::fs::read_dir(state_dir.join(DIRECTORY).join(directory)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            result => result?,
        };
        for entry in entries {
            let name = entry?.file_name();
            // What has no run's name is nobody's of ours.
            let Some(run) = name
                .to_str()
                .and_then(|name| name.strip_suffix(suffix))
                .and_then(|name| name.parse::<kron_queue::RunId>().ok())
            else {
                continue;
            };
            if queue.run(run).map_err(io::Error::other)?.is_none() {
                match suffix {
                    "" => artifacts::remove(state_dir, run)?,
                    _ => std::fs::remove_file(state_dir.join(log_path(run)))?,
                }
            }
        }
    }
    for run in artifacts::staged(state_dir)? {
        let is_open =
            queue.run(run).map_err(io::Error::other)?.is_some_and(|found| found.status.is_none());
        if !is_open {
            artifacts::remove_staged(state_dir, run)?;
        }
    }
    Ok(())
}

/// The name under which supervisors know a run. The random half of an id is enough to tell it from
/// every other.
pub(crate) fn supervised(run: kron_queue::RunId) -> kron_state::RunId {
    kron_state::RunId::from_bits(run.0.as_u128() as u64)
}

/// The handlers in force, by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handlers(Arc<HashMap<String, Arc<Handler>>>);

impl Handlers {
    pub(crate) fn of(settings: &QueueSettings) -> Handlers {
        let handlers = settings.handlers.iter();
        Handlers(Arc::new(
            handlers.map(|handler| (handler.job_type.clone(), Arc::new(handler.clone()))).collect(),
        ))
    }

    pub(crate) fn of_type(&self, job_type: &str) -> Option<Arc<Handler>> {
        self.0.get(job_type).cloned()
    }
}

/// What the settings mean for the database's rules.
pub(crate) fn rules(settings: &QueueSettings) -> Rules {
    let limits = settings.handlers.iter().filter_map(|handler| {
        handler.workers_max.map(|workers_max| (handler.job_type.clone(), workers_max))
    });
    let retries = settings.handlers.iter();
    let retries = retries.map(|handler| (handler.job_type.clone(), policy(&handler.retry)));
    let webhooks = settings.webhooks.iter();
    Rules {
        workers_max: settings.workers_max,
        type_limits: limits.collect::<BTreeMap<_, _>>(),
        types_handled: Some(settings.handlers.iter().map(|h| h.job_type.clone()).collect()),
        retry: policy(&settings.retry),
        retry_of_type: retries.collect(),
        webhooks: webhooks
            .map(|webhook| Webhook { target: webhook.name.clone(), events: webhook.on.clone() })
            .collect(),
    }
}

fn policy(retry: &RetrySettings) -> RetryPolicy {
    RetryPolicy {
        retries_max: retry.retries_max,
        lost_retries_max: retry.lost_retries_max,
        backoff_first_ms: ms(retry.backoff),
        backoff_max_ms: ms(retry.backoff_max),
    }
}

/// A duration as the database takes it.
pub(crate) fn ms(seconds: kron_core::Seconds) -> i64 {
    i64::try_from(seconds.get()).unwrap_or(i64::MAX).saturating_mul(1_000)
}
