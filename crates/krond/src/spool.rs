//! Spools inside the daemon: which task is started when, what runs it, and what is left after a
//! crash.
//!
//! The files and their rules are those of `kron-spool`. Here is what only a daemon can do: processes
//! and the time. [`attendant`] decides for one spool and touches nothing; [`keeper`] is the thread
//! that alone touches its directories; the rest carries out.

pub(crate) mod attendant;
pub(crate) mod keeper;
pub(crate) mod plan;
pub(crate) mod recovery;
pub(crate) mod waiting;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kron_config::{Handler, RetrySettings, SpoolSettings};
use kron_spool::RetryPolicy;
use kron_state::RunId;

use crate::queue::ms;

/// The directory of what the daemon keeps about spools, in the state directory.
const DIRECTORY: &str = "spool";

/// Digits of the hash that stands for a spool's name, which may have anything in it.
const NAME_DIGITS: usize = 16;

/// Where the logs of a spool's runs are kept.
pub(crate) fn log_directory(state_dir: &Path, spool: &str) -> PathBuf {
    let hash = kron_state::document_file(spool);
    state_dir.join(DIRECTORY).join(&hash[..hash.len().min(NAME_DIGITS)])
}

/// Where the output of a run is kept.
pub(crate) fn log_path(state_dir: &Path, spool: &str, run: &RunId) -> PathBuf {
    log_directory(state_dir, spool).join(format!("{run}.log"))
}

/// What a spool does with tasks, as its settings say.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) settings: Arc<SpoolSettings>,
    handlers: Arc<HashMap<String, Arc<Handler>>>,
}

impl Rules {
    pub(crate) fn of(settings: &SpoolSettings) -> Rules {
        let handlers = settings.handlers.iter();
        let handlers =
            handlers.map(|handler| (handler.job_type.clone(), Arc::new(handler.clone())));
        Rules { handlers: Arc::new(handlers.collect()), settings: Arc::new(settings.clone()) }
    }

    /// The types that have a handler.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        self.handlers.keys().map(String::as_str)
    }

    /// Who handles tasks of a type.
    pub(crate) fn handler(&self, task_type: &str) -> Option<&Arc<Handler>> {
        self.handlers.get(task_type)
    }

    /// What happens after a failure of a task of this type.
    pub(crate) fn policy(&self, task_type: &str) -> RetryPolicy {
        let own = self.handler(task_type).map(|handler| handler.retry);
        policy(&own.unwrap_or(self.settings.retry))
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
