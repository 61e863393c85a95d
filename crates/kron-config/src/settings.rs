//! The settings of a job beside its timing, the same in every native format.

use std::ops::Range;
use std::sync::Arc;

use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds, Timing};

use crate::job::{Action, Execution, Job};
use crate::limit::{self, Limit, Resource};
use crate::load::Loader;
use crate::queue::EnqueueSettings;
use crate::source::Location;
use crate::spool::SpoolDrop;
use crate::value::{self, Value, wrong_kind};

/// The keys of a job that are not about time and are the same in every native format. A TOML file
/// also has `limits`; a krontab line has `name`, and a setting of its own for each limit.
pub(crate) const KEYS: [&str; 16] = [
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
    "stdin",
    "output",
    "log_size",
    "no_new_privileges",
    "duration",
    "description",
];

/// The keys that say what a job does; it has one of them.
const OF_ACTION: [&str; 3] = ["command", "enqueue", "spool"];
/// The keys that a job which hands its work over has beside the one that says so.
const OF_HANDED_OVER: [&str; 1] = ["description"];

/// Variables an environment may have.
pub(crate) const ENV_MAX: usize = 256;
/// The longest usual length of a run, as long as the longest window.
const DURATION_MAX: Seconds = Seconds::new(366 * 86_400);
/// Arguments a command may have.
const ARGUMENTS_MAX: usize = 4_096;

/// Settings in the making.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    command: Option<(Command, Range<usize>)>,
    shell: Option<bool>,
    env: Vec<(String, String)>,
    limits: Vec<Limit>,
    execution: Execution,
    /// What is handed over.
    handed_over: Option<Action>,
    /// The keys that were given, sound or not, and where their values stand.
    given: Vec<(&'static str, Range<usize>)>,
    /// Whether a command or its shell was given and refused, so that nothing is missing.
    refused: bool,
    duration: Option<Seconds>,
    description: Option<String>,
}

#[derive(Debug)]
enum Command {
    Line(String),
    Arguments(Vec<String>),
}

impl Settings {
    /// Applies `key = value`.
    pub(crate) fn set(
        &mut self,
        key: &'static str,
        value: &Value<'_>,
        span: Range<usize>,
        findings: &mut Vec<Finding>,
    ) {
        self.given.push((key, span.clone()));
        match key {
            "command" => match command(value, &span) {
                Ok(command) => self.command = Some((command, span)),
                Err(faults) => {
                    self.refused = true;
                    findings.extend(faults);
                }
            },
            "env" => self.set_env(value, &span, findings),
            "limits" => self.set_limits(value, &span, findings),
            _ => {
                if let Err(finding) = self.set_one(key, value, span) {
                    self.refused |= key == "shell";
                    findings.push(finding);
                }
            }
        }
    }

    /// Applies `enqueue = {…}`, whose value was read already; `None` when it was refused.
    pub(crate) fn set_enqueue(&mut self, enqueue: Option<EnqueueSettings>, span: Range<usize>) {
        self.given.push(("enqueue", span));
        self.handed_over = enqueue.map(|enqueue| Action::Enqueue(Box::new(enqueue)));
    }

    /// Applies `spool = {…}`, whose value was read already; `None` when it was refused.
    pub(crate) fn set_spool(&mut self, drop: Option<SpoolDrop>, span: Range<usize>) {
        self.given.push(("spool", span));
        self.handed_over = drop.map(|drop| Action::Spool(Box::new(drop)));
    }

    fn set_one(&mut self, key: &str, value: &Value<'_>, span: Range<usize>) -> Result<(), Finding> {
        if let Some(resource) = Resource::of_setting(key) {
            self.limits.push(limit::limit(resource, value, &span)?);
            return Ok(());
        }
        let execution = &mut self.execution;
        match key {
            "shell" => self.shell = Some(value::boolean(value, &span)?),
            "user" => execution.user = Some(value::account(value, &span)?),
            "group" => execution.group = Some(value::account(value, &span)?),
            "cwd" => execution.cwd = Some(value::absolute_path(value, &span)?),
            "umask" => execution.umask = Some(value::umask(value, &span)?),
            "nice" => {
                let nice = value::integer(value, &span)?;
                let nice = i8::try_from(nice).ok().filter(|nice| (-20..=19).contains(nice));
                execution.nice = Some(
                    nice.ok_or_else(|| Finding::validation(span, "`nice` goes from -20 to 19"))?,
                );
            }
            "timeout" => execution.timeout = Some(value::positive(value, &span)?),
            "grace" => execution.grace = Some(value::duration(value, &span)?),
            "stdin" => execution.stdin = Some(value::text(value, &span)?.to_owned()),
            "output" => execution.output = Some(value::output(value, &span)?),
            "log_size" => execution.log_bytes_max = Some(value::log_bytes(value, &span)?),
            "no_new_privileges" => execution.no_new_privileges = value::boolean(value, &span)?,
            "duration" => {
                let duration = value::positive(value, &span)?;
                if duration > DURATION_MAX {
                    let message = format!("`duration` is at most {DURATION_MAX}");
                    return Err(Finding::validation(span, message));
                }
                self.duration = Some(duration);
            }
            _ => self.description = Some(value::text(value, &span)?.to_owned()),
        }
        Ok(())
    }

    fn set_env(&mut self, value: &Value<'_>, span: &Range<usize>, findings: &mut Vec<Finding>) {
        let mut add =
            |key: &str, key_span: Range<usize>, value: &Value<'_>, value_span: &Range<usize>| {
                check_variable(key, &key_span)?;
                let value = value::inner_text(value, value_span)?;
                if self.env.iter().any(|(known, _)| known == key) {
                    return Err(Finding::configuration(key_span, format!("`{key}` is set twice")));
                }
                if self.env.len() == ENV_MAX {
                    return Err(Finding::validation(
                        key_span,
                        format!("more than {ENV_MAX} variables"),
                    ));
                }
                self.env.push((key.to_owned(), value.to_owned()));
                Ok(())
            };
        let result =
            match value {
                Value::Table(entries) => {
                    findings.extend(entries.iter().filter_map(|(key, value, span)| {
                        add(key.text, key.span(), value, span).err()
                    }));
                    Ok(())
                }
                Value::Text(text) => match text.split_once('=') {
                    Some((key, value)) => add(key, span.clone(), &Value::Text(value), span),
                    None => Err(Finding::configuration(
                        span.clone(),
                        format!("`{}` is not `NAME=value`", excerpt(text)),
                    )),
                },
                other => Err(wrong_kind(other, span, "a table such as `{ MODE = \"prod\" }`")),
            };
        findings.extend(result.err());
    }

    fn set_limits(&mut self, value: &Value<'_>, span: &Range<usize>, findings: &mut Vec<Finding>) {
        let Value::Table(entries) = value else {
            findings.push(wrong_kind(value, span, "a table such as `{ nofile = 1024 }`"));
            return;
        };
        for (key, value, span) in entries {
            let limit = match Resource::named(key.text) {
                Some(resource) => limit::limit(resource, value, span),
                None => Err(limit::unknown(key.text, key.span())),
            };
            match limit {
                Ok(limit) => self.limits.push(limit),
                Err(finding) => findings.push(finding),
            }
        }
    }

    /// The job that these settings, its timing and its action make.
    pub(crate) fn into_job(
        mut self,
        timing: Timing,
        action: Action,
        origin: Location,
        loader: &mut Loader,
    ) -> Job {
        let duration = self.duration.take();
        let description = self.description.take().map(String::into_boxed_str);
        Job {
            timing,
            action,
            execution: self.into_execution(loader),
            duration,
            description,
            origin,
        }
    }

    /// How the process is set up that these settings describe.
    pub(crate) fn into_execution(mut self, loader: &mut Loader) -> Arc<Execution> {
        // In one order, so that moving a limit about in the file is no change of the job.
        self.limits.sort_by_key(|limit| limit.resource);
        loader.shared(Execution {
            // An empty list is shared, too.
            env: if self.env.is_empty() { Arc::default() } else { self.env.into() },
            limits: self.limits.into(),
            ..self.execution
        })
    }

    /// The action these settings describe; `missing` says that there is none.
    pub(crate) fn action(
        &mut self,
        missing: impl FnOnce() -> Finding,
        findings: &mut Vec<Finding>,
    ) -> Option<Action> {
        let is_handed_over = |key: &str| OF_ACTION.contains(&key) && key != "command";
        if let Some((key, span)) = self.given.iter().rev().find(|(key, _)| is_handed_over(key)) {
            findings.extend(self.beside(key, span));
            return self.handed_over.take();
        }
        if self.refused {
            return None;
        }
        let Some((command, span)) = self.command.take() else {
            findings.push(missing());
            return None;
        };
        let action = match (command, self.shell.unwrap_or(false)) {
            (Command::Line(line), true) => {
                Ok(Action::Shell { shell: "/bin/sh".into(), line: line.into() })
            }
            (Command::Arguments(_), true) => Err(Finding::configuration(
                span,
                "`shell` goes with a command line, not with a list of words",
            )
            .help("write the command as one text, or leave `shell` out")),
            (Command::Arguments(arguments), false) => Ok(Action::Program(arguments.into())),
            (Command::Line(_), false) => {
                Err(Finding::configuration(span, "a command line needs `shell = true`")
                    .help("or write the command as a list of words, which no shell touches"))
            }
        };
        action.map_err(|finding| findings.push(finding)).ok()
    }

    /// What does not go with `action`, which is `enqueue` or `spool` and stands at `span`: a job
    /// that hands its work over runs nothing.
    fn beside(&self, action: &str, span: &Range<usize>) -> Vec<Finding> {
        let has = |action: &&str| self.given.iter().any(|(key, _)| key == action);
        let several = match OF_ACTION.iter().filter(|action| has(action)).collect::<Vec<_>>()[..] {
            [one, other] => Some((format!("both `{one}` and `{other}`"), "make two jobs of it")),
            [one, other, third] => {
                Some((format!("`{one}`, `{other}` and `{third}`"), "make three jobs of it"))
            }
            _ => None,
        };
        if let Some((actions, help)) = several {
            let message = format!("a job with {actions}");
            return vec![Finding::configuration(span.clone(), message).help(help)];
        }
        let help = if action == "enqueue" {
            "how a job of the queue runs is said in `[queue.handler.TYPE]`"
        } else {
            "how a task of a spool runs is said in `[spool.NAME.handler.TYPE]`"
        };
        let is_stranger = |key: &str| key != action && !OF_HANDED_OVER.contains(&key);
        let strangers = self.given.iter().filter(|(key, _)| is_stranger(key));
        let findings = strangers.map(|(key, span)| {
            let message = format!("`{key}` goes with `command`, not with `{action}`");
            Finding::configuration(span.clone(), message).help(help)
        });
        findings.collect()
    }

    /// Splits a command line into words without a shell: what a krontab line means.
    pub(crate) fn split_line(&mut self, findings: &mut Vec<Finding>) {
        if self.shell == Some(true) {
            return;
        }
        let Some((Command::Line(line), span)) = &self.command else { return };
        let fault = match shlex::split(line) {
            None => format!("`{}` has an unclosed quote", excerpt(line)),
            Some(words) if words.first().is_none_or(String::is_empty) => {
                format!("`{}` has no word that could be a program", excerpt(line))
            }
            Some(words) => {
                self.command = Some((Command::Arguments(words), span.clone()));
                return;
            }
        };
        findings.push(
            Finding::configuration(span.clone(), fault)
                .help("a command is split into words as a shell would; `shell=true` runs a shell"),
        );
        self.refused = true;
    }
}

/// A variable's name: letters, digits and underscores, and none of Kron's own.
pub(crate) fn check_variable(name: &str, span: &Range<usize>) -> Result<(), Finding> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || !plain || name.as_bytes()[0].is_ascii_digit() {
        return Err(Finding::configuration(
            span.clone(),
            format!("`{}` is not a variable's name", excerpt(name)),
        )
        .help("expected letters, digits and underscores, not starting with a digit"));
    }
    if name.starts_with("KRON_") {
        return Err(Finding::validation(span.clone(), format!("`{name}` is set by Kron itself")));
    }
    Ok(())
}

/// The words of a command that no shell touches.
pub(crate) fn words(value: &Value<'_>, span: &Range<usize>) -> Result<Vec<String>, Vec<Finding>> {
    match command(value, span)? {
        Command::Arguments(words) => Ok(words),
        Command::Line(_) => {
            Err(vec![wrong_kind(value, span, "a list of words such as `[\"/usr/bin/notify\"]`")])
        }
    }
}

/// What a command is: a line, or words, each of which may be at fault.
fn command(value: &Value<'_>, span: &Range<usize>) -> Result<Command, Vec<Finding>> {
    let empty = || vec![Finding::configuration(span.clone(), "an empty command")];
    match value {
        Value::Text(_) => {
            let line = value::text(value, span).map_err(|finding| vec![finding])?;
            if line.trim().is_empty() {
                return Err(empty());
            }
            Ok(Command::Line(line.to_owned()))
        }
        Value::List(items) => {
            if items.len() > ARGUMENTS_MAX {
                let message = format!("more than {ARGUMENTS_MAX} words");
                return Err(vec![Finding::validation(span.clone(), message)]);
            }
            let mut words = Vec::with_capacity(items.len());
            let mut faults = Vec::new();
            for (item, span) in items {
                match value::inner_text(item, span) {
                    Ok(word) => words.push(word.to_owned()),
                    Err(finding) => faults.push(finding),
                }
            }
            if !faults.is_empty() {
                return Err(faults);
            }
            if words.first().is_none_or(String::is_empty) {
                return Err(empty());
            }
            Ok(Command::Arguments(words))
        }
        other => {
            Err(vec![wrong_kind(other, span, "a list of words, or a line with `shell = true`")])
        }
    }
}
