//! Reading a table `[queue.handler.TYPE]` or `[spool.NAME.handler.TYPE]`.
//!
//! A handler is a command or an endpoint, and the keys that go with one do not go with the other; a
//! spool's is a command. What it does not say about retries stays open until every file is read,
//! since the table `[queue]` or `[spool.NAME]` may stand in any of them.

use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds};

use super::{Handler, HandlerTarget, RETRIES, RetrySettings, WORKERS};
use crate::load::Loader;
use crate::settings::Settings;
use crate::value::{self, Value, wrong_kind};
use crate::web::{self, Headers};

/// The keys of a handler of the queue.
const KEYS: [&str; 23] = [
    "command",
    "shell",
    "user",
    "group",
    "cwd",
    "env",
    "umask",
    "nice",
    "timeout",
    "grace",
    "log_size",
    "limits",
    "no_new_privileges",
    "skip_codes",
    "url",
    "headers",
    "token_file",
    "allow_private",
    "workers",
    "retries",
    "lost_retries",
    "backoff",
    "backoff_max",
];

/// The keys that go with `command` alone.
const OF_COMMAND: [&str; 12] = [
    "shell",
    "user",
    "group",
    "cwd",
    "env",
    "umask",
    "nice",
    "grace",
    "log_size",
    "limits",
    "no_new_privileges",
    "skip_codes",
];
/// The keys that go with `url` alone.
const OF_WEB: [&str; 3] = ["headers", "token_file", "allow_private"];

/// Exit codes that may be listed: there are no more.
const SKIP_CODES_MAX: usize = 255;

/// Whose handler it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Queue,
    Spool,
}

impl Owner {
    /// What the owner is called.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Owner::Queue => "queue",
            Owner::Spool => "spool",
        }
    }

    /// What its handlers are called.
    pub(crate) const fn handler(self) -> &'static str {
        match self {
            Owner::Queue => "handler",
            Owner::Spool => "spool's handler",
        }
    }

    /// What the types of its handlers are called.
    pub(crate) const fn type_word(self) -> &'static str {
        match self {
            Owner::Queue => "job type",
            Owner::Spool => "task type",
        }
    }

    /// The keys of its handlers.
    pub(crate) fn keys(self) -> Vec<&'static str> {
        KEYS.into_iter().filter(|key| !self.lacks(key)).collect()
    }

    /// Whether this is a key of handlers, and not of this owner's.
    pub(crate) fn lacks(self, key: &str) -> bool {
        self == Owner::Spool && (key == "url" || OF_WEB.contains(&key))
    }
}

/// What a handler says about retries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnRetry {
    retries_max: Option<u32>,
    lost_retries_max: Option<u32>,
    backoff: Option<Seconds>,
    backoff_max: Option<Seconds>,
}

impl OwnRetry {
    /// What holds for it: its own, else its owner's.
    pub(crate) fn over(self, owner: RetrySettings) -> RetrySettings {
        RetrySettings {
            retries_max: self.retries_max.unwrap_or(owner.retries_max),
            lost_retries_max: self.lost_retries_max.unwrap_or(owner.lost_retries_max),
            backoff: self.backoff.unwrap_or(owner.backoff),
            backoff_max: self.backoff_max.unwrap_or(owner.backoff_max),
        }
    }

    /// Whether it says anything about how long to wait.
    pub(crate) fn has_backoff(self) -> bool {
        self.backoff.is_some() || self.backoff_max.is_some()
    }
}

/// A handler in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    owner: Owner,
    /// Every key that was given, sound or not, and where its value stands.
    given: Vec<(&'static str, Range<usize>)>,
    settings: Settings,
    url: Option<String>,
    headers: Headers,
    token_file: Option<String>,
    allow_private: bool,
    skip_codes: Vec<u8>,
    workers_max: Option<u32>,
    retry: OwnRetry,
}

impl Draft {
    /// A handler that says nothing yet.
    pub(crate) fn of(owner: Owner) -> Draft {
        Draft {
            owner,
            given: Vec::new(),
            settings: Settings::default(),
            url: None,
            headers: Headers::default(),
            token_file: None,
            allow_private: false,
            skip_codes: Vec::new(),
            workers_max: None,
            retry: OwnRetry::default(),
        }
    }

    /// Applies `key = value`; the key is one of [`Owner::keys`].
    pub(crate) fn set(
        &mut self,
        key: &'static str,
        value: &Value<'_>,
        span: &Range<usize>,
        findings: &mut Vec<Finding>,
    ) {
        self.given.push((key, span.clone()));
        if key == "timeout"
            || key == "command"
            || (OF_COMMAND.contains(&key) && key != "skip_codes")
        {
            return self.settings.set(key, value, span.clone(), findings);
        }
        let faults = match key {
            "headers" => web::headers(value, span).map(|headers| self.headers = headers),
            "skip_codes" => skip_codes(value, span).map(|codes| self.skip_codes = codes),
            _ => self.set_one(key, value, span).map_err(|finding| vec![finding]),
        };
        findings.extend(faults.err().into_iter().flatten());
    }

    fn set_one(
        &mut self,
        key: &str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Finding> {
        let retry = &mut self.retry;
        match key {
            "url" => self.url = Some(web::url(value, span)?),
            "token_file" => self.token_file = Some(value::absolute_path(value, span)?),
            "allow_private" => self.allow_private = value::boolean(value, span)?,
            "workers" => self.workers_max = Some(value::count(key, value, span, &WORKERS)?),
            "retries" => retry.retries_max = Some(value::count(key, value, span, &RETRIES)?),
            "lost_retries" => {
                retry.lost_retries_max = Some(value::count(key, value, span, &RETRIES)?);
            }
            "backoff" => retry.backoff = Some(value::duration(value, span)?),
            _ => retry.backoff_max = Some(value::duration(value, span)?),
        }
        Ok(())
    }

    fn has(&self, key: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == key)
    }

    /// The handler of this type, which stands at `span`, with the defaults' retries, and what it
    /// says about them itself.
    pub(crate) fn finish(
        mut self,
        job_type: &str,
        span: &Range<usize>,
        loader: &mut Loader,
        findings: &mut Vec<Finding>,
    ) -> Option<(Handler, OwnRetry)> {
        let (strangers, other): (&[&str], _) = match (self.has("command"), self.has("url")) {
            (true, false) => (&OF_WEB, "url"),
            (false, true) => (&OF_COMMAND, "command"),
            (true, true) => {
                let message =
                    format!("handler `{}` has both `command` and `url`", excerpt(job_type));
                findings.push(Finding::configuration(span.clone(), message).help(
                    "a type has one handler; leave one of them out, or make two types of it",
                ));
                return None;
            }
            (false, false) => {
                let (lacks, help) = match self.owner {
                    Owner::Queue => (
                        "has neither `command` nor `url`",
                        "as in `command = [\"/usr/bin/resize\"]` or `url = \"https://…\"`",
                    ),
                    Owner::Spool => {
                        ("has no `command`", "as in `command = [\"/usr/local/bin/send-mail\"]`")
                    }
                };
                let message = format!("handler `{}` {lacks}", excerpt(job_type));
                findings.push(Finding::configuration(span.clone(), message).help(help));
                return None;
            }
        };
        for (key, span) in self.given.iter().filter(|(key, _)| strangers.contains(key)) {
            let message = format!("`{key}` goes with `{other}`");
            findings.push(Finding::configuration(span.clone(), message));
        }
        let target = if self.has("command") {
            let missing = || Finding::configuration(span.clone(), "a handler without `command`");
            HandlerTarget::Command(self.settings.action(missing, findings)?)
        } else {
            HandlerTarget::Web {
                url: self.url?,
                headers: self.headers,
                token_file: self.token_file,
                allow_private: self.allow_private,
            }
        };
        let handler = Handler {
            job_type: job_type.to_owned(),
            target,
            execution: self.settings.into_execution(loader),
            skip_codes: self.skip_codes,
            workers_max: self.workers_max,
            retry: RetrySettings::default(),
        };
        Some((handler, self.retry))
    }
}

/// Exit codes that mean that there was nothing to do; 0 means that all was done.
fn skip_codes(value: &Value<'_>, span: &Range<usize>) -> Result<Vec<u8>, Vec<Finding>> {
    let Value::List(items) = value else {
        return Err(vec![wrong_kind(value, span, "a list such as `[75]`")]);
    };
    if items.len() > SKIP_CODES_MAX {
        let message = format!("more than {SKIP_CODES_MAX} exit codes");
        return Err(vec![Finding::validation(span.clone(), message)]);
    }
    let mut codes = Vec::new();
    let mut faults = Vec::new();
    for (item, span) in items {
        match value::count("skip_codes", item, span, &(1..=u32::from(u8::MAX))) {
            Ok(code) => codes.extend(u8::try_from(code)),
            Err(finding) => faults.push(finding),
        }
    }
    codes.sort_unstable();
    codes.dedup();
    if faults.is_empty() { Ok(codes) } else { Err(faults) }
}
