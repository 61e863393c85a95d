//! Crontab files as they are: system files with a user column, and users' own.
//!
//! What cron accepts is accepted: environment lines, `CRON_TZ`, `%` as newline, nicknames. What it
//! would do and Kron does not is said in a warning. A bad line is reported and left out. Modifiers
//! may follow the five fields.

use std::sync::Arc;

use kron_core::finding::excerpt;
use kron_core::{Concurrency, Draft, Fields, Finding, Modifier, Piece};
use sha2::{Digest as _, Sha256};

use crate::job::{Action, Execution, Job};
use crate::load::{CrontabOwner, LINE_BYTES_MAX, Loader};
use crate::settings::{ENV_MAX, check_variable};
use crate::source::Source;

/// Bytes that the environments of one file's entries may have together.
const ENV_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What the lines so far have set for those that follow.
struct Surroundings {
    env: Vec<(String, String)>,
    /// The same, shared by the entries that follow; `None` after a change.
    shared_env: Option<Arc<[(String, String)]>>,
    /// Bytes of all environments shared so far.
    shared_bytes: usize,
    shell: String,
    zone: Option<kron_core::Zone>,
}

impl Surroundings {
    /// The environment of the next entry; `None` when all of them together are too large.
    fn env(&mut self) -> Option<Arc<[(String, String)]>> {
        if self.shared_env.is_none() {
            let bytes: usize =
                self.env.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
            self.shared_bytes += bytes;
            if self.shared_bytes > ENV_BYTES_MAX {
                return None;
            }
            self.shared_env = Some(self.env.clone().into());
        }
        self.shared_env.clone()
    }
}

pub(crate) fn load(loader: &mut Loader, source: &Source, owner: &CrontabOwner) {
    let mut surroundings = Surroundings {
        env: Vec::new(),
        shared_env: None,
        shared_bytes: 0,
        shell: "/bin/sh".to_owned(),
        zone: loader.crontab_zone(),
    };
    for index in 0..source.line_count() {
        if loader.is_cut_short() {
            return;
        }
        let range = source.line_range(index);
        let text = &source.text()[range.clone()];
        let line = Piece { text, at: range.start }.trim_start();
        if line.text.is_empty() || line.text.starts_with('#') {
            continue;
        }
        if line.text.len() > LINE_BYTES_MAX {
            loader.report(
                source,
                Finding::validation(range, format!("a line of more than {LINE_BYTES_MAX} bytes")),
            );
        } else if let Some((name, value)) = environment_line(line) {
            set_variable(loader, source, &mut surroundings, name, value);
        } else {
            load_entry(loader, source, owner, &mut surroundings, line);
        }
    }
}

/// `NAME = value`, either of them possibly in quotes; `None` when the line is an entry.
fn environment_line(line: Piece<'_>) -> Option<(Piece<'_>, Piece<'_>)> {
    let bytes = line.text.as_bytes();
    let name_end = match bytes[0] {
        quote @ (b'"' | b'\'') => line.text[1..].find(quote as char)? + 2,
        _ => line.text.find(|c: char| c.is_whitespace() || c == '=')?,
    };
    let after = line.text[name_end..].trim_start();
    let value = after.strip_prefix('=')?.trim();
    let value_at = line.at + (value.as_ptr() as usize - line.text.as_ptr() as usize);
    let name = Piece { text: &line.text[..name_end], at: line.at };
    Some((unquoted(name), unquoted(Piece { text: value, at: value_at })))
}

/// The piece without a pair of quotes around it.
fn unquoted(piece: Piece<'_>) -> Piece<'_> {
    let bytes = piece.text.as_bytes();
    match bytes {
        [quote @ (b'"' | b'\''), .., last] if quote == last => {
            Piece { text: &piece.text[1..piece.text.len() - 1], at: piece.at + 1 }
        }
        _ => piece,
    }
}

fn set_variable(
    loader: &mut Loader,
    source: &Source,
    surroundings: &mut Surroundings,
    name: Piece<'_>,
    value: Piece<'_>,
) {
    let warning = |message: &str, help: &str| Finding::warning(name.span(), message).help(help);
    match name.text {
        "CRON_TZ" => match loader.parser().zone(value) {
            Ok(zone) => surroundings.zone = Some(zone),
            Err(finding) => loader.report(source, finding),
        },
        "MAILTO" | "MAILFROM" => {
            // An empty MAILTO asks for no mail, which is what happens.
            if !value.text.is_empty() {
                loader.report(
                    source,
                    warning(
                        &format!("`{}` is accepted, but Kron sends no mail", name.text),
                        "a run's output is kept with the run",
                    ),
                );
            }
        }
        "RANDOM_DELAY" => loader.report(
            source,
            warning(
                "`RANDOM_DELAY` is ignored",
                &format!(
                    "`@win(after,{}m)` after the five fields spreads reproducibly",
                    excerpt(value.text)
                ),
            ),
        ),
        "TZ" => {
            loader.report(
                source,
                warning(
                    "`TZ` is set for the commands, and does not move the schedule",
                    "`CRON_TZ` is the zone the schedule is read in",
                ),
            );
            set_plain(loader, source, surroundings, name, value);
        }
        "SHELL" => {
            surroundings.shell = value.text.to_owned();
            set_plain(loader, source, surroundings, name, value);
        }
        _ => match check_variable(name.text, &name.span()) {
            Ok(()) => set_plain(loader, source, surroundings, name, value),
            Err(finding) => loader.report(source, finding),
        },
    }
}

fn set_plain(
    loader: &mut Loader,
    source: &Source,
    surroundings: &mut Surroundings,
    name: Piece<'_>,
    value: Piece<'_>,
) {
    surroundings.env.retain(|(known, _)| known != name.text);
    if surroundings.env.len() == ENV_MAX {
        let message = format!("more than {ENV_MAX} variables");
        return loader.report(source, Finding::validation(name.span(), message));
    }
    surroundings.shared_env = None;
    surroundings.env.push((name.text.to_owned(), value.text.to_owned()));
}

fn load_entry(
    loader: &mut Loader,
    source: &Source,
    owner: &CrontabOwner,
    surroundings: &mut Surroundings,
    line: Piece<'_>,
) {
    let mut findings = Vec::new();
    let mut line = line;
    if let Some(rest) = line.text.strip_prefix('-') {
        findings.push(Finding::warning(
            line.at..line.at + 1,
            "a leading `-` silences cron's log; Kron always records its runs",
        ));
        line = Piece { text: rest, at: line.at + 1 };
    }
    // The identity depends on the command at the end of the line, so the first reading only
    // finds where the schedule ends; the second one, with the identity, counts.
    let mut ignored = Vec::new();
    let mut probe = Draft::new("probe", Default::default());
    let rest = loader.parser().expression(&mut probe, line, Fields::Five, &mut ignored);
    let schedule = line.slice(0..rest.at - line.at);
    let (user, command) = match owner {
        CrontabOwner::User(user) => (user.as_str(), rest),
        CrontabOwner::System => {
            let (user, command) = rest.split_word();
            (user.text, command)
        }
    };
    if command.text.trim().is_empty() && !ignored.iter().any(Finding::is_error) {
        let (message, help) = match owner {
            CrontabOwner::System => {
                ("an entry without a command", "expected five fields, a user and a command")
            }
            CrontabOwner::User(_) => {
                ("an entry without a command", "expected five fields and a command")
            }
        };
        findings.push(Finding::configuration(line.span(), message).help(help));
    }
    let fields: Vec<&str> = schedule.text.split_whitespace().collect();
    let fields = &fields[..fields.len().min(if schedule.text.starts_with('@') { 1 } else { 5 })];
    let identity = loader.crontab_identity(user, &fields.join(" "), command.text);
    let options = loader.options().clone();
    let mut draft = Draft::new(&identity, options.host());
    draft.policy.concurrency = Concurrency::Allow;
    loader.parser().expression(&mut draft, schedule, Fields::Five, &mut findings);
    if let Some(zone) = &surroundings.zone
        && !draft.has(Modifier::Tz)
    {
        draft.default_zone(zone);
    }
    let timing = loader.parser().finish(draft, &mut findings);
    let faulty = findings.iter().any(Finding::is_error);
    for finding in findings {
        loader.report(source, finding);
    }
    let (Some(timing), false) = (timing, faulty) else { return };
    let Some(env) = surroundings.env() else {
        let message = format!("environments of more than {} MiB", ENV_BYTES_MAX / 1024 / 1024);
        return loader.report(source, Finding::validation(line.span(), message));
    };
    let (shell_line, stdin) = split_percent(command.text.trim_end());
    let job = Job {
        timing,
        action: Action::Shell { shell: surroundings.shell.clone(), line: shell_line },
        execution: Execution { user: Some(user.to_owned()), env, stdin, ..Execution::default() },
        duration: None,
        description: None,
        origin: source.location(line.at),
    };
    loader.define(source, job, line.span());
}

/// Splits a command at its first unescaped `%`; what follows is standard input, with every
/// further `%` a newline. `\%` is a percent sign.
fn split_percent(command: &str) -> (String, Option<String>) {
    let mut line = String::with_capacity(command.len());
    let mut stdin: Option<String> = None;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        let percent = character == '\\' && characters.next_if_eq(&'%').is_some();
        match (&mut stdin, character) {
            (stdin, _) if percent => stdin.as_mut().unwrap_or(&mut line).push('%'),
            (None, '%') => stdin = Some(String::new()),
            (Some(input), '%') => input.push('\n'),
            (Some(input), other) => input.push(other),
            (None, other) => line.push(other),
        }
    }
    (line, stdin.map(|input| input + "\n"))
}

/// The sixteen digits that tell one entry of a user from another.
pub(crate) fn entry_hash(schedule: &str, command: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(schedule.as_bytes());
    hasher.update(b"\n");
    hasher.update(command.as_bytes());
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
