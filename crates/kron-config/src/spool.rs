//! The settings of spools: tables `[spool.NAME]` and `[spool.NAME.handler.TYPE]`.
//!
//! A spool is a directory of tasks, each a file. What is not written has its default; `dir` alone has
//! none. Nothing is looked up here: whether the directory or a user is there is found out by the
//! daemon.
//!
//! [`tables`] gathers what the files of a set say.

pub(crate) mod tables;

use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds};

use crate::queue::{Handler, RetrySettings, WORKERS};
use crate::value::{self, Value, wrong_kind};

/// The keys of a table `[spool.NAME]`.
pub(crate) const KEYS: [&str; 9] = [
    "dir",
    "workers",
    "retries",
    "lost_retries",
    "backoff",
    "backoff_max",
    "keep",
    "stop_grace",
    "producers",
];

/// Bytes of a spool's directory: a path has 4,096 at most, and the names of its files come after it.
const DIR_BYTES_MAX: usize = 3_072;
/// Users that may be listed, repeats counted.
const PRODUCERS_MAX: usize = 64;

/// What is done with the tasks of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// Its name.
    pub name: String,
    /// `dir`: its directory, an absolute path without `.`, `..`, empty parts or a `/` at its end.
    /// No other spool's directory is the same, contains it or is inside it, as far as the paths
    /// tell.
    pub dir: String,
    /// `workers`: how many of its tasks run at once, 1 to 1,024.
    pub workers_max: u32,
    /// `retries`, `lost_retries`, `backoff`, `backoff_max`: what happens after a failure, for
    /// handlers without their own.
    pub retry: RetrySettings,
    /// `keep`: how long tasks stay after they have ended.
    pub keep: Seconds,
    /// `stop_grace`: how long a daemon that stops waits for tasks that run before it leaves them to
    /// their supervisors.
    pub stop_grace: Seconds,
    /// `producers`: the users, by name or number, whose files are accepted beside root's and the
    /// daemon's own; each once, in order.
    pub producers: Vec<String>,
    /// Tables `[spool.NAME.handler.TYPE]`, in the order of their types; each is a command.
    pub handlers: Vec<Handler>,
}

impl SpoolSettings {
    /// A spool of this name with nothing but defaults, and no directory yet.
    fn new(name: &str) -> SpoolSettings {
        SpoolSettings {
            name: name.to_owned(),
            dir: String::new(),
            workers_max: 1,
            // A task is run at least once, so that a crash alone does not end it soon.
            retry: RetrySettings { lost_retries_max: 10, ..RetrySettings::default() },
            keep: Seconds::new(30 * 86_400),
            stop_grace: Seconds::new(10),
            producers: Vec::new(),
            handlers: Vec::new(),
        }
    }

    /// The handler of a type.
    #[must_use]
    pub fn handler(&self, task_type: &str) -> Option<&Handler> {
        let at = self.handlers.binary_search_by(|handler| handler.job_type.as_str().cmp(task_type));
        at.ok().map(|at| &self.handlers[at])
    }

    /// Applies `key = value`; the key is one of [`KEYS`].
    fn set(
        &mut self,
        key: &str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Vec<Finding>> {
        let one = |finding| vec![finding];
        match key {
            "dir" => self.dir = directory(value, span).map_err(one)?,
            "producers" => self.producers = producers(value, span)?,
            "workers" => {
                self.workers_max = value::count(key, value, span, &WORKERS).map_err(one)?;
            }
            "keep" => self.keep = value::positive(value, span).map_err(one)?,
            "stop_grace" => self.stop_grace = value::duration(value, span).map_err(one)?,
            _ => self.retry.set(key, value, span).map_err(one)?,
        }
        Ok(())
    }
}

/// A task that a scheduled job drops into a spool: `spool = { name = "…", type = "…", data = … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolDrop {
    /// `name`: the spool.
    pub spool: Box<str>,
    /// `type`: the task's type.
    pub task_type: Box<str>,
    /// `data`: what it is told, any JSON value as text.
    pub data: Box<str>,
}

/// A directory by the plainest path that means it. `..` is refused: what it means hangs on symbolic
/// links, and spools could lie inside each other unseen.
fn directory(value: &Value<'_>, span: &Range<usize>) -> Result<String, Finding> {
    let path = value::absolute_path(value, span)?;
    let mut plain = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            let message = format!("`{}` has a part `..`", excerpt(&path));
            return Err(Finding::validation(span.clone(), message)
                .help("write the path of the directory itself"));
        }
        plain.push('/');
        plain.push_str(part);
    }
    if plain.is_empty() {
        return Err(Finding::validation(span.clone(), "`/` is no directory of a spool's own"));
    }
    if plain.len() > DIR_BYTES_MAX {
        let message = format!("`dir` has more than {DIR_BYTES_MAX} bytes");
        return Err(Finding::validation(span.clone(), message)
            .help("the names of the spool's files come after it"));
    }
    Ok(plain)
}

/// The users of a list, each once.
fn producers(value: &Value<'_>, span: &Range<usize>) -> Result<Vec<String>, Vec<Finding>> {
    let Value::List(items) = value else {
        return Err(vec![wrong_kind(value, span, "a list such as `[\"www-data\"]`")]);
    };
    if items.len() > PRODUCERS_MAX {
        let message = format!("more than {PRODUCERS_MAX} producers");
        return Err(vec![Finding::validation(span.clone(), message)]);
    }
    let mut users = Vec::new();
    let mut faults = Vec::new();
    for (item, span) in items {
        let user = value::inner_text(item, span).and_then(|_| value::account(item, span));
        match user {
            Ok(user) => users.push(user),
            Err(finding) => faults.push(finding),
        }
    }
    users.sort_unstable();
    users.dedup();
    if faults.is_empty() { Ok(users) } else { Err(faults) }
}
