//! The settings of a job beside its timing, the same in every native format.

use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Finding, Piece, Seconds, Timing};

use crate::job::{Action, Execution, Job};
use crate::source::Location;

/// The keys of a job that are not about time.
pub(crate) const KEYS: [&str; 14] = [
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
    "duration",
    "description",
    "name",
];

/// Bytes a single setting may have.
const SETTING_BYTES_MAX: usize = 64 * 1024;
/// Variables an environment may have.
pub(crate) const ENV_MAX: usize = 256;
/// The longest usual length of a run, as long as the longest window.
const DURATION_MAX: Seconds = Seconds::new(366 * 86_400);
/// Arguments a command may have.
const ARGUMENTS_MAX: usize = 4_096;

/// A value as its format gives it. Krontab lines know only texts.
pub(crate) enum Value<'a> {
    Text(&'a str),
    Integer { text: &'a str, radix: u32 },
    Boolean(bool),
    List(Vec<(&'a str, Range<usize>)>),
    Table(Vec<(Piece<'a>, &'a str, Range<usize>)>),
}

impl Value<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Integer { .. } => "a number",
            Value::Boolean(_) => "a truth value",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// Settings in the making.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    command: Option<(Command, Range<usize>)>,
    shell: Option<bool>,
    env: Vec<(String, String)>,
    execution: Execution,
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
        key: &str,
        value: &Value<'_>,
        span: Range<usize>,
        findings: &mut Vec<Finding>,
    ) {
        if key == "env" {
            self.set_env(value, &span, findings);
        } else if let Err(finding) = self.set_one(key, value, span) {
            self.refuse(key);
            findings.push(finding);
        }
    }

    /// Notes that `key` was given with a value that cannot be used.
    pub(crate) fn refuse(&mut self, key: &str) {
        self.refused |= matches!(key, "command" | "shell");
    }

    fn set_one(&mut self, key: &str, value: &Value<'_>, span: Range<usize>) -> Result<(), Finding> {
        match key {
            "command" => self.command = Some((command(value, &span)?, span)),
            "shell" => self.shell = Some(boolean(value, &span)?),
            "user" => self.execution.user = Some(name(value, &span)?),
            "group" => self.execution.group = Some(name(value, &span)?),
            "cwd" => {
                let path = text(value, &span)?;
                if !path.starts_with('/') {
                    return Err(Finding::validation(
                        span,
                        format!("`{}` is not an absolute path", excerpt(path)),
                    ));
                }
                self.execution.cwd = Some(path.to_owned());
            }
            "umask" => self.execution.umask = Some(umask(value, &span)?),
            "nice" => {
                let nice = integer(value, &span)?;
                let nice = i8::try_from(nice).ok().filter(|nice| (-20..=19).contains(nice));
                self.execution.nice = Some(
                    nice.ok_or_else(|| Finding::validation(span, "`nice` goes from -20 to 19"))?,
                );
            }
            "timeout" => self.execution.timeout = Some(positive(value, &span)?),
            "grace" => self.execution.grace = Some(duration(value, &span)?),
            "stdin" => self.execution.stdin = Some(text(value, &span)?.to_owned()),
            "duration" => {
                let duration = positive(value, &span)?;
                if duration > DURATION_MAX {
                    let message = format!("`duration` is at most {DURATION_MAX}");
                    return Err(Finding::validation(span, message));
                }
                self.duration = Some(duration);
            }
            _ => self.description = Some(text(value, &span)?.to_owned()),
        }
        Ok(())
    }

    fn set_env(&mut self, value: &Value<'_>, span: &Range<usize>, findings: &mut Vec<Finding>) {
        let mut add = |key: &str, key_span: Range<usize>, value: &str, value_span: Range<usize>| {
            check_variable(key, &key_span)?;
            check_text(value, &value_span)?;
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
        let result = match value {
            Value::Table(entries) => {
                findings.extend(entries.iter().filter_map(|(key, value, span)| {
                    add(key.text, key.span(), value, span.clone()).err()
                }));
                Ok(())
            }
            Value::Text(text) => match text.split_once('=') {
                Some((key, value)) => add(key, span.clone(), value, span.clone()),
                None => Err(Finding::configuration(
                    span.clone(),
                    format!("`{}` is not `NAME=value`", excerpt(text)),
                )),
            },
            other => Err(wrong_kind(other, span, "a table such as `{ MODE = \"prod\" }`")),
        };
        findings.extend(result.err());
    }

    /// The job that these settings, its timing and its action make.
    pub(crate) fn into_job(self, timing: Timing, action: Action, origin: Location) -> Job {
        Job {
            timing,
            action,
            execution: Execution { env: self.env.into(), ..self.execution },
            duration: self.duration,
            description: self.description,
            origin,
        }
    }

    /// The action these settings describe; `job` is the place to point at when there is none.
    pub(crate) fn action(
        &mut self,
        job: &Range<usize>,
        example: &str,
        findings: &mut Vec<Finding>,
    ) -> Option<Action> {
        if self.refused {
            return None;
        }
        let Some((command, span)) = self.command.take() else {
            findings.push(
                Finding::configuration(job.clone(), "a job without `command`")
                    .help(format!("a job needs something to run, as in `{example}`")),
            );
            return None;
        };
        let action = match (command, self.shell.unwrap_or(false)) {
            (Command::Line(line), true) => Ok(Action::Shell { shell: "/bin/sh".to_owned(), line }),
            (Command::Arguments(_), true) => Err(Finding::configuration(
                span,
                "`shell` goes with a command line, not with a list of words",
            )
            .help("write the command as one text, or leave `shell` out")),
            (Command::Arguments(arguments), false) => Ok(Action::Program(arguments)),
            (Command::Line(_), false) => {
                Err(Finding::configuration(span, "a command line needs `shell = true`")
                    .help("or write the command as a list of words, which no shell touches"))
            }
        };
        action.map_err(|finding| findings.push(finding)).ok()
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

fn wrong_kind(value: &Value<'_>, span: &Range<usize>, expected: &str) -> Finding {
    Finding::configuration(span.clone(), format!("expected {expected}, found {}", value.kind()))
}

fn check_text(text: &str, span: &Range<usize>) -> Result<(), Finding> {
    if text.len() > SETTING_BYTES_MAX {
        return Err(Finding::validation(
            span.clone(),
            format!("longer than {SETTING_BYTES_MAX} bytes"),
        ));
    }
    if text.contains('\0') {
        return Err(Finding::validation(span.clone(), "a text with a NUL character"));
    }
    Ok(())
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

fn text<'a>(value: &Value<'a>, span: &Range<usize>) -> Result<&'a str, Finding> {
    match value {
        Value::Text(text) => {
            check_text(text, span)?;
            Ok(text)
        }
        other => Err(wrong_kind(other, span, "a text")),
    }
}

fn name(value: &Value<'_>, span: &Range<usize>) -> Result<String, Finding> {
    let name = text(value, span)?;
    if !is_account(name) {
        return Err(Finding::validation(
            span.clone(),
            format!("`{}` is not a user or group", excerpt(name)),
        ));
    }
    Ok(name.to_owned())
}

/// Whether a user or group can be called this. Systems differ in what they allow; none allows what
/// would end a field of its account database, or be a path or a schedule's field.
pub(crate) fn is_account(name: &str) -> bool {
    const ACCOUNT_BYTES_MAX: usize = 256;
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ':' | '/' | '*');
    !name.is_empty() && name.len() <= ACCOUNT_BYTES_MAX && !name.contains(odd)
}

fn boolean(value: &Value<'_>, span: &Range<usize>) -> Result<bool, Finding> {
    match value {
        Value::Boolean(value) => Ok(*value),
        Value::Text("true") => Ok(true),
        Value::Text("false") => Ok(false),
        other => Err(wrong_kind(other, span, "`true` or `false`")),
    }
}

fn integer(value: &Value<'_>, span: &Range<usize>) -> Result<i64, Finding> {
    let parsed = match value {
        Value::Integer { text, radix } => i64::from_str_radix(text, *radix),
        Value::Text(text) => text.parse(),
        other => return Err(wrong_kind(other, span, "a whole number")),
    };
    parsed.map_err(|_| Finding::configuration(span.clone(), "not a whole number"))
}

/// A mask in octal: a text such as `027`, or a TOML number such as `0o27`.
fn umask(value: &Value<'_>, span: &Range<usize>) -> Result<u32, Finding> {
    let parsed = match value {
        Value::Text(text) if text.len() <= 4 => u32::from_str_radix(text, 8).ok(),
        Value::Integer { text, radix: 8 } => u32::from_str_radix(text, 8).ok(),
        _ => None,
    };
    parsed.filter(|mask| *mask <= 0o777).ok_or_else(|| {
        Finding::configuration(span.clone(), "not a file mode mask")
            .help("expected octal digits in quotes, such as `\"027\"`")
    })
}

fn duration(value: &Value<'_>, span: &Range<usize>) -> Result<Seconds, Finding> {
    Seconds::parse(text(value, span)?).map_err(|mut finding| {
        finding.span = span.clone();
        finding
    })
}

fn positive(value: &Value<'_>, span: &Range<usize>) -> Result<Seconds, Finding> {
    let duration = duration(value, span)?;
    if duration == Seconds::ZERO {
        return Err(Finding::validation(span.clone(), "must be longer than 0s"));
    }
    Ok(duration)
}

fn command(value: &Value<'_>, span: &Range<usize>) -> Result<Command, Finding> {
    let empty = || Finding::configuration(span.clone(), "an empty command");
    match value {
        Value::Text(line) => {
            check_text(line, span)?;
            if line.trim().is_empty() {
                return Err(empty());
            }
            Ok(Command::Line((*line).to_owned()))
        }
        Value::List(words) => {
            if words.len() > ARGUMENTS_MAX {
                return Err(Finding::validation(
                    span.clone(),
                    format!("more than {ARGUMENTS_MAX} words"),
                ));
            }
            words.iter().try_for_each(|(word, span)| check_text(word, span))?;
            if words.first().is_none_or(|(word, _)| word.is_empty()) {
                return Err(empty());
            }
            Ok(Command::Arguments(words.iter().map(|(word, _)| (*word).to_owned()).collect()))
        }
        other => Err(wrong_kind(other, span, "a list of words, or a line with `shell = true`")),
    }
}
