//! The queue's settings: tables `[queue]`, `[queue.handler.TYPE]` and `[queue.webhook.NAME]`.
//!
//! A daemon has a queue when one of these tables is there. What is not written has its default.
//! Nothing is looked up or connected to here. Table `[api]` is here too.
//!
//! [`tables`] gathers what the files of a set say; [`handler`] and [`webhook`] read one table each.

pub(crate) mod handler;
pub(crate) mod tables;
pub(crate) mod webhook;

use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds};

use crate::job::{Action, Execution};
use crate::value::{self, Value};

/// The keys of table `[queue]`.
pub(crate) const KEYS: [&str; 7] =
    ["workers", "retries", "lost_retries", "backoff", "backoff_max", "keep", "stop_grace"];
/// The keys of table `[api]`.
pub(crate) const API_KEYS: [&str; 2] = ["listen", "token_file"];

/// Bytes of a job type, as the queue has it.
const JOB_TYPE_BYTES_MAX: usize = 64;
/// How many jobs may run at once.
pub(crate) const WORKERS: RangeInclusive<u32> = 1..=1_024;
/// How many retries there may be.
const RETRIES: RangeInclusive<u32> = 0..=100;

/// What the queue does, and with whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// `workers`: how many jobs run at once, 1 to 1,024.
    pub workers_max: u32,
    /// `retries`, `lost_retries`, `backoff`, `backoff_max`: what happens after a failure, for
    /// handlers without their own.
    pub retry: RetrySettings,
    /// `keep`: how long jobs stay after they have ended.
    pub keep: Seconds,
    /// `stop_grace`: how long a daemon that stops waits for jobs that run before it leaves them to
    /// their supervisors.
    pub stop_grace: Seconds,
    /// Tables `[queue.handler.TYPE]`, in the order of their types.
    pub handlers: Vec<Handler>,
    /// Tables `[queue.webhook.NAME]`, in the order of their names.
    pub webhooks: Vec<QueueWebhook>,
}

impl Default for QueueSettings {
    fn default() -> QueueSettings {
        QueueSettings {
            workers_max: 1,
            retry: RetrySettings::default(),
            keep: Seconds::new(30 * 86_400),
            stop_grace: Seconds::new(10),
            handlers: Vec::new(),
            webhooks: Vec::new(),
        }
    }
}

impl QueueSettings {
    /// The handler of a type.
    #[must_use]
    pub fn handler(&self, job_type: &str) -> Option<&Handler> {
        let at = self.handlers.binary_search_by(|handler| handler.job_type.as_str().cmp(job_type));
        at.ok().map(|at| &self.handlers[at])
    }

    /// Applies `key = value`; the key is one of [`KEYS`].
    pub(crate) fn set(
        &mut self,
        key: &str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Finding> {
        match key {
            "workers" => self.workers_max = value::count(key, value, span, &WORKERS)?,
            "keep" => self.keep = value::positive(value, span)?,
            "stop_grace" => self.stop_grace = value::duration(value, span)?,
            _ => self.retry.set(key, value, span)?,
        }
        Ok(())
    }
}

/// What happens after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// `retries`: after the original, 0 to 100.
    pub retries_max: u32,
    /// `lost_retries`: how many runs of a chain may be lost to a crash and still be retried, 0 to
    /// 100.
    pub lost_retries_max: u32,
    /// `backoff`: the wait before the first retry; it doubles with each.
    pub backoff: Seconds,
    /// `backoff_max`: the longest wait.
    pub backoff_max: Seconds,
}

impl Default for RetrySettings {
    fn default() -> RetrySettings {
        RetrySettings {
            retries_max: 3,
            lost_retries_max: 1,
            backoff: Seconds::new(10),
            backoff_max: Seconds::new(3_600),
        }
    }
}

impl RetrySettings {
    /// Applies `retries`, `lost_retries`, `backoff` or `backoff_max`.
    pub(crate) fn set(
        &mut self,
        key: &str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Finding> {
        match key {
            "retries" => self.retries_max = value::count(key, value, span, &RETRIES)?,
            "lost_retries" => self.lost_retries_max = value::count(key, value, span, &RETRIES)?,
            "backoff" => self.backoff = value::duration(value, span)?,
            _ => self.backoff_max = value::duration(value, span)?,
        }
        Ok(())
    }
}

/// What is done with jobs of one type in the queue, or with tasks of one type in a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// The type.
    pub job_type: String,
    /// What is run.
    pub target: HandlerTarget,
    /// How its process is set up: `user`, `group`, `cwd`, `env`, `umask`, `nice`, `timeout`,
    /// `grace`, `log_size`, `limits`, `no_new_privileges`. An endpoint has `timeout` alone.
    pub execution: Arc<Execution>,
    /// `skip_codes`: exit codes that mean that there was nothing to do, 1 to 255.
    pub skip_codes: Vec<u8>,
    /// `workers`: how many jobs of the type run at once; as many as of all when absent.
    pub workers_max: Option<u32>,
    /// `retries` and the like, the queue's where it does not say.
    pub retry: RetrySettings,
}

/// What handles a job or task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerTarget {
    /// A program, or a line for a shell, which reads the parameters or the payload on standard
    /// input.
    Command(Action),
    /// An endpoint to which the job is posted.
    Web {
        /// Where to.
        url: String,
        /// Headers of the request beside its own.
        headers: Vec<(String, String)>,
        /// A file with a token that authorises the request; read for each.
        token_file: Option<String>,
        /// `allow_private`: whether addresses of this machine and of private networks will do.
        allow_private: bool,
    },
}

/// Who is told what became of jobs in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueWebhook {
    /// Its name.
    pub name: String,
    /// Where to.
    pub url: String,
    /// `on`: the events it wants, such as `job.failed`; all when empty.
    pub on: Vec<String>,
    /// Headers of the request beside its own.
    pub headers: Vec<(String, String)>,
    /// `secret_file`: a file with the secret by which requests are signed; read for each.
    pub secret_file: Option<String>,
    /// `timeout`: how long one try may take.
    pub timeout: Seconds,
    /// `allow_private`: whether addresses of this machine and of private networks will do.
    pub allow_private: bool,
}

/// A job of the queue that a scheduled job makes: `enqueue = { type = "…", params = {…} }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnqueueSettings {
    /// `type`: its type.
    pub job_type: Box<str>,
    /// `params`: what it is told, a JSON object as text.
    pub params: Box<str>,
    /// `priority`: higher ones first.
    pub priority: i64,
}

/// The API's settings: table `[api]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiSettings {
    /// `listen`: an address on which the API is served beside the control socket.
    pub listen: Option<SocketAddr>,
    /// `token_file`: a file with the token that requests from the network must bear.
    pub token_file: Option<String>,
}

impl ApiSettings {
    /// Applies `key = value`; the key is one of [`API_KEYS`].
    pub(crate) fn set(
        &mut self,
        key: &str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Finding> {
        if key == "token_file" {
            self.token_file = Some(value::absolute_path(value, span)?);
            return Ok(());
        }
        let text = value::text(value, span)?;
        let address = text.parse().map_err(|_| {
            let message = format!("`{}` is not an address with a port", excerpt(text));
            Finding::configuration(span.clone(), message)
                .help("expected numbers, as in `127.0.0.1:7070` or `[::1]:7070`")
        })?;
        self.listen = Some(address);
        Ok(())
    }
}

/// Checks the type of a job as the queue does, or that of a task, which is like one; `what` says
/// which.
pub(crate) fn check_type(what: &str, job_type: &str, span: &Range<usize>) -> Result<(), Finding> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let fault = if job_type.is_empty() {
        format!("an empty {what}")
    } else if job_type.len() > JOB_TYPE_BYTES_MAX {
        format!("a {what} of more than {JOB_TYPE_BYTES_MAX} bytes")
    } else if !job_type.chars().all(plain) {
        format!("`{}` is not a {what}", excerpt(job_type))
    } else {
        return Ok(());
    };
    Err(Finding::validation(span.clone(), fault)
        .help(format!("a {what} is made of letters, digits, `_`, `-` and `.`")))
}
