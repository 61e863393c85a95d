//! Crontab files as they are: system files with a user column, and users' own.
//!
//! What cron accepts is accepted: environment lines, `CRON_TZ`, `%` as newline, nicknames. What it
//! would do and Kron does not is said in a warning. A bad line is reported and left out. Modifiers
//! may follow the five fields.

use std::sync::Arc;

use kron_core::finding::excerpt;
use kron_core::{Concurrency, Draft, Fields, Finding, Modifier, Piece, Zone};
use sha2::{Digest as _, Sha256};

use crate::job::{Action, Execution, Job};
use crate::load::{CrontabOwner, LINE_BYTES_MAX, Loader};
use crate::settings::{ENV_MAX, check_variable};
use crate::source::Source;
use crate::value::is_account;

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
    zone: Option<Zone>,
    /// Whether the last `CRON_TZ` is no zone; then nobody knows when the entries below it run.
    zone_unknown: bool,
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
        zone_unknown: false,
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
        } else if let Some(at) = line.text.find('\0') {
            let at = line.at + at;
            loader.report(source, Finding::validation(at..at + 1, "a line with a NUL character"));
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
    Some((unquoted(name).unwrap_or(name), Piece { text: value, at: value_at }))
}

/// The piece without the quotes around it, if it has any; `None` when what begins with a quote does
/// not end with the next one.
fn unquoted(piece: Piece<'_>) -> Option<Piece<'_>> {
    let Some(quote) = piece.text.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Some(piece);
    };
    let close = piece.text[1..].find(quote)? + 1;
    (close + 1 == piece.text.len()).then(|| piece.slice(1..close))
}

fn set_variable(
    loader: &mut Loader,
    source: &Source,
    surroundings: &mut Surroundings,
    name: Piece<'_>,
    value: Piece<'_>,
) {
    let warning = |message: &str, help: &str| Finding::warning(name.span(), message).help(help);
    let Some(value) = unquoted(value) else {
        surroundings.zone_unknown |= name.text == "CRON_TZ";
        let finding = Finding::configuration(value.span(), "a value that is only partly in quotes");
        return loader.report(source, finding.help("quotes go round the whole value"));
    };
    match name.text {
        "CRON_TZ" => {
            let zone = loader.parser().zone(value);
            surroundings.zone_unknown = zone.is_err();
            match zone {
                Ok(zone) => surroundings.zone = Some(zone),
                Err(finding) => loader.report(source, finding),
            }
        }
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
        "SHELL" if !value.text.starts_with('/') => loader.report(
            source,
            Finding::validation(
                value.span(),
                format!("`{}` is not an absolute path", excerpt(value.text)),
            )
            .help("`SHELL` is the program that runs the commands, such as `/bin/bash`"),
        ),
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
    let options = loader.options().clone();
    let mut probed = Vec::new();
    let mut probe = Draft::new("probe", options.host());
    let rest = loader.parser().expression(&mut probe, line, Fields::Five, &mut probed);
    let schedule = line.slice(0..rest.at - line.at);
    let (user, command) = match owner {
        CrontabOwner::User(user) => (user.as_str(), rest),
        CrontabOwner::System => {
            let (user, command) = rest.split_word();
            if !user.text.is_empty() && !is_account(user.text) {
                findings.push(
                    Finding::validation(
                        user.span(),
                        format!("`{}` is not a user", excerpt(user.text)),
                    )
                    .help("an entry of a system crontab is five fields, a user and a command"),
                );
            }
            (user.text, command)
        }
    };
    // Blanks at the end of a line are invisible, so they tell no two entries apart.
    let command = command.text.trim_end();
    if command.is_empty() && !probed.iter().any(Finding::is_error) {
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
    let identity = loader.crontab_identity(user, &fields.join(" "), command);
    let mut draft = Draft::new(&identity, options.host());
    draft.policy.concurrency = Concurrency::Allow;
    loader.parser().expression(&mut draft, schedule, Fields::Five, &mut findings);
    if surroundings.zone_unknown && !draft.has(Modifier::Tz) {
        let message = "left out, because the `CRON_TZ` above it is not a zone";
        findings.push(Finding::configuration(line.span(), message));
    } else if let Some(zone) = &surroundings.zone {
        draft.default_zone(zone);
    }
    let timing = loader.parser().finish(draft, &mut findings);
    let sound = loader.report_all(source, findings);
    let (Some(timing), true) = (timing, sound) else { return };
    let Some(env) = surroundings.env() else {
        let message = format!("environments of more than {} MiB", ENV_BYTES_MAX / 1024 / 1024);
        return loader.report(source, Finding::validation(line.span(), message));
    };
    let (shell_line, stdin) = split_percent(command);
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
/// further `%` a newline, and a newline at its end. `\%` is a percent sign; a backslash before
/// another one takes it along, so that the `%` in `\\%` is not escaped.
fn split_percent(command: &str) -> (String, Option<String>) {
    let mut line = String::with_capacity(command.len());
    let mut stdin: Option<String> = None;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = (character == '\\')
            .then(|| characters.next_if(|next| matches!(next, '%' | '\\')))
            .flatten();
        match (&mut stdin, character) {
            (stdin, _) if escaped == Some('%') => stdin.as_mut().unwrap_or(&mut line).push('%'),
            (stdin, _) if escaped.is_some() => stdin.as_mut().unwrap_or(&mut line).push_str("\\\\"),
            (None, '%') => stdin = Some(String::new()),
            (Some(input), '%') => input.push('\n'),
            (Some(input), other) => input.push(other),
            (None, other) => line.push(other),
        }
    }
    if let Some(input) = stdin.as_mut().filter(|input| !input.is_empty() && !input.ends_with('\n'))
    {
        input.push('\n');
    }
    (line, stdin)
}

/// The sixteen digits that tell one entry of a user from another.
pub(crate) fn entry_hash(schedule: &str, command: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(schedule.as_bytes());
    hasher.update(b"\n");
    hasher.update(command.as_bytes());
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
