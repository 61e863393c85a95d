//! Who is told what became of a job: tables `[hook.NAME]` of a TOML job file.
//!
//! A hook names the events it is about, the jobs, and how it is told: by a command that reads the
//! event as JSON, or by a web request that carries it. Nothing is looked up or connected to here.

use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds};

use crate::settings;
use crate::value::{self, Value, wrong_kind};
use crate::web::{self, Headers};

/// The keys of a hook.
pub(crate) const KEYS: [&str; 9] =
    ["on", "jobs", "command", "user", "url", "headers", "token_file", "timeout", "retry_for"];

/// Hooks that a set of files may have.
pub(crate) const HOOKS_MAX: usize = 64;
/// Patterns of jobs that a hook may have.
const PATTERNS_MAX: usize = 64;
/// How long a delivery may take.
const TIMEOUT_DEFAULT: Seconds = Seconds::new(30);
/// The longest a delivery may be given.
const TIMEOUT_MAX: Seconds = Seconds::new(600);
/// For how long a delivery is tried.
const RETRY_DEFAULT: Seconds = Seconds::new(86_400);

/// What can be told of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// It ran and said that all is well.
    Succeeded,
    /// It ran and said otherwise, or was ended by a signal.
    Failed,
    /// It ran out of time.
    TimedOut,
    /// It may have run; how it ended is unknown.
    Lost,
    /// A later period took its place.
    Replaced,
    /// It was ended with the daemon.
    Stopped,
    /// It did not run in time.
    Missed,
    /// It was not to run.
    Skipped,
    /// No second of its window was allowed.
    Unschedulable,
}

impl HookEvent {
    /// Every event.
    pub const ALL: [HookEvent; 9] = [
        HookEvent::Succeeded,
        HookEvent::Failed,
        HookEvent::TimedOut,
        HookEvent::Lost,
        HookEvent::Replaced,
        HookEvent::Stopped,
        HookEvent::Missed,
        HookEvent::Skipped,
        HookEvent::Unschedulable,
    ];
    /// What hooks are told that do not say: whatever somebody may have to look after.
    const USUAL: [HookEvent; 6] = [
        HookEvent::Failed,
        HookEvent::TimedOut,
        HookEvent::Lost,
        HookEvent::Missed,
        HookEvent::Skipped,
        HookEvent::Unschedulable,
    ];

    /// As it is written in a job file and told to hooks.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            HookEvent::Succeeded => "succeeded",
            HookEvent::Failed => "failed",
            HookEvent::TimedOut => "timed_out",
            HookEvent::Lost => "lost",
            HookEvent::Replaced => "replaced",
            HookEvent::Stopped => "stopped",
            HookEvent::Missed => "missed",
            HookEvent::Skipped => "skipped",
            HookEvent::Unschedulable => "unschedulable",
        }
    }
}

/// A hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// What it is told, in the order of [`HookEvent::ALL`].
    pub on: Vec<HookEvent>,
    /// The jobs it is about, as names in which `*` stands for anything; all when empty.
    pub jobs: Vec<String>,
    /// How it is told.
    pub target: HookTarget,
    /// How long one attempt may take.
    pub timeout: Seconds,
    /// For how long failed attempts are followed by others.
    pub retry_for: Seconds,
}

/// How a hook is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookTarget {
    /// A program reads the event on standard input, without any shell.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The user it runs as, where it is not the daemon's.
        user: Option<String>,
    },
    /// The event is posted.
    Web {
        /// Where to.
        url: String,
        /// Headers of the request beside its own.
        headers: Vec<(String, String)>,
        /// A file with a token that authorises the request; read for each.
        token_file: Option<String>,
    },
}

impl Hook {
    /// Whether it is told this of this job.
    #[must_use]
    pub fn wants(&self, event: HookEvent, identity: &str) -> bool {
        self.on.contains(&event)
            && (self.jobs.is_empty() || self.jobs.iter().any(|pattern| matches(pattern, identity)))
    }
}

/// Whether a text is as the pattern says, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        // The earliest place leaves the most for the others.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A hook in the making.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    on: Option<Vec<HookEvent>>,
    jobs: Vec<String>,
    command: Option<Vec<String>>,
    user: Option<(String, Range<usize>)>,
    url: Option<String>,
    headers: Option<(Headers, Range<usize>)>,
    token_file: Option<(String, Range<usize>)>,
    timeout: Option<Seconds>,
    retry_for: Option<Seconds>,
    /// Whether its target was given and refused.
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
            "on" => self.on = Some(events(value, span)?),
            "jobs" => self.jobs = words(value, span)?,
            "command" => {
                self.refused = true;
                self.command = Some(settings::words(value, span)?);
                self.refused = false;
            }
            "user" => self.user = Some((value::account(value, span).map_err(one)?, span.clone())),
            "url" => {
                self.refused = true;
                self.url = Some(web::url(value, span).map_err(one)?);
                self.refused = false;
            }
            "headers" => self.headers = Some((web::headers(value, span)?, span.clone())),
            "token_file" => {
                let path = value::absolute_path(value, span).map_err(one)?;
                self.token_file = Some((path, span.clone()));
            }
            "timeout" => {
                let timeout = value::positive(value, span).map_err(one)?;
                if timeout > TIMEOUT_MAX {
                    let message = format!("`timeout` of a hook is at most {TIMEOUT_MAX}");
                    return Err(vec![Finding::validation(span.clone(), message)]);
                }
                self.timeout = Some(timeout);
            }
            _ => self.retry_for = Some(value::duration(value, span).map_err(one)?),
        }
        Ok(())
    }

    /// The hook of this name, which stands at `span`.
    pub(crate) fn finish(
        self,
        name: &str,
        span: &Range<usize>,
        findings: &mut Vec<Finding>,
    ) -> Option<Hook> {
        let misplaced = |span: &Range<usize>, key: &str, other: &str| {
            Finding::configuration(span.clone(), format!("`{key}` goes with `{other}`"))
        };
        let target = match (self.command, self.url) {
            (Some(argv), None) => {
                let of_web = self.headers.as_ref().map(|(_, span)| (span, "headers"));
                let of_web =
                    of_web.or(self.token_file.as_ref().map(|(_, span)| (span, "token_file")));
                if let Some((span, key)) = of_web {
                    findings.push(misplaced(span, key, "url"));
                }
                Some(HookTarget::Command { argv, user: self.user.map(|(user, _)| user) })
            }
            (None, Some(url)) => {
                if let Some((_, span)) = &self.user {
                    findings.push(misplaced(span, "user", "command"));
                }
                Some(HookTarget::Web {
                    url,
                    headers: self.headers.map(|(headers, _)| headers).unwrap_or_default(),
                    token_file: self.token_file.map(|(path, _)| path),
                })
            }
            (None, None) if self.refused => None,
            (None, None) => {
                let message = format!("hook `{}` has neither `command` nor `url`", excerpt(name));
                findings.push(
                    Finding::configuration(span.clone(), message)
                        .help("as in `command = [\"/usr/bin/notify\"]` or `url = \"https://…\"`"),
                );
                None
            }
            (Some(_), Some(_)) => {
                let message = format!("hook `{}` has both `command` and `url`", excerpt(name));
                findings.push(
                    Finding::configuration(span.clone(), message).help("make two hooks of it"),
                );
                None
            }
        };
        Some(Hook {
            name: name.to_owned(),
            on: self.on.unwrap_or_else(|| HookEvent::USUAL.to_vec()),
            jobs: self.jobs,
            target: target?,
            timeout: self.timeout.unwrap_or(TIMEOUT_DEFAULT),
            retry_for: self.retry_for.unwrap_or(RETRY_DEFAULT),
        })
    }
}

fn events(value: &Value<'_>, span: &Range<usize>) -> Result<Vec<HookEvent>, Vec<Finding>> {
    let Value::List(items) = value else {
        let expected = "a list such as `[\"failed\", \"missed\"]`";
        return Err(vec![wrong_kind(value, span, expected)]);
    };
    let known = HookEvent::ALL.map(HookEvent::as_str);
    let mut events = Vec::new();
    let mut faults = Vec::new();
    for (item, span) in items {
        let word = match value::inner_text(item, span) {
            Ok(word) => word,
            Err(finding) => {
                faults.push(finding);
                continue;
            }
        };
        match HookEvent::ALL.into_iter().find(|event| event.as_str() == word) {
            Some(event) => events.push(event),
            None => faults.push(
                Finding::configuration(span.clone(), format!("unknown event `{}`", excerpt(word)))
                    .nearest(word, known, format!("expected {}", known.join(", "))),
            ),
        }
    }
    if faults.is_empty() && events.is_empty() {
        faults.push(Finding::validation(span.clone(), "a hook that is never told anything"));
    }
    events.sort_unstable();
    events.dedup();
    if faults.is_empty() { Ok(events) } else { Err(faults) }
}

fn words(value: &Value<'_>, span: &Range<usize>) -> Result<Vec<String>, Vec<Finding>> {
    let Value::List(items) = value else {
        return Err(vec![wrong_kind(value, span, "a list such as `[\"db-*\"]`")]);
    };
    if items.is_empty() || items.len() > PATTERNS_MAX {
        let message = format!("expected 1 to {PATTERNS_MAX} names");
        return Err(vec![Finding::validation(span.clone(), message)]);
    }
    let text = |(item, span): &(Value<'_>, Range<usize>)| {
        value::inner_text(item, span).map(str::to_owned).map_err(|finding| vec![finding])
    };
    items.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "anything/at all", true),
            ("db-*", "db-backup", true),
            ("db-*", "web", false),
            ("*-backup", "db-backup", true),
            ("*-backup", "db-backup-2", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
