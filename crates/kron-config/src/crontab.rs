//! Crontab files as they are: system files with a user column, and users' own.
//!
//! What cron accepts is accepted: environment lines, `CRON_TZ`, `%` as newline, nicknames. What it
//! would do and Kron does not is said in a warning. A bad line is reported and left out; the bad lines
//! of a file beyond [`ERRORS_MAX`] of a load are only counted, and what has more than [`BAD_LINES_MAX`]
//! of them is hardly a crontab: the rest of it is left out. Modifiers may follow the five fields.
//!
//! What an entry's process is given is what cron gives it: the shell, `SHELL`, a `PATH` of two
//! directories, every variable of the file above the entry, and `HOME` as its directory. Whether
//! users, shells and directories exist is not looked at.

mod environment;
mod percent;

use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Concurrency, Draft, Fields, Finding, Modifier, Piece, Seconds};
use sha2::{Digest as _, Sha256};

use crate::job::{Action, Execution, Job};
use crate::load::{CrontabOwner, ERRORS_MAX, LINE_BYTES_MAX, Loader};
use crate::source::Source;
use crate::value::is_account;
use environment::Surroundings;

/// How late an entry may start that says nothing about it. Cron looks once a minute and never
/// looks back; so a daemon that is restarted within the minute loses nothing, and what was due
/// before that is not made up for.
const DEADLINE_DEFAULT: Seconds = Seconds::new(60);

/// Bad lines of one file after which the rest of it is not read: to say which zone of the whole
/// database somebody may have meant takes so long that ten thousand such lines would be felt.
const BAD_LINES_MAX: usize = 2_000;

/// What stands in a text for bytes that are no character.
const NO_CHARACTER: char = char::REPLACEMENT_CHARACTER;

pub(crate) fn load(loader: &mut Loader, source: &Source, owner: &CrontabOwner) {
    let mut surroundings = Surroundings::new(loader.crontab_zone());
    let mut bad_lines = BadLines::default();
    for index in 0..source.line_count() {
        if loader.is_cut_short() || bad_lines.count == BAD_LINES_MAX {
            let rest = &source.text()[source.line_range(index).start..];
            bad_lines.unread_from = Some(index).filter(|_| !rest.trim().is_empty());
            break;
        }
        let range = source.line_range(index);
        let before = loader.crontab_errors();
        load_line(loader, source, owner, &mut surroundings, index);
        let after = loader.crontab_errors();
        bad_lines.count += usize::from(before != after);
        if before.told == after.told && before.untold != after.untold {
            bad_lines.untold += 1;
            bad_lines.first_untold.get_or_insert(range);
        }
    }
    surroundings.forget_zone(loader);
    bad_lines.untold += surroundings.untold_entries();
    bad_lines.tell(loader, source);
}

/// The bad lines of one file.
#[derive(Default)]
struct BadLines {
    count: usize,
    /// Those that no diagnostic is about, and the entries under such a zone.
    untold: usize,
    first_untold: Option<Range<usize>>,
    /// The index of the first line that was not read.
    unread_from: Option<usize>,
}

impl BadLines {
    /// Says what was not said line by line.
    fn tell(self, loader: &mut Loader, source: &Source) {
        let Some(place) = self.first_untold else { return };
        let (lines, are) = if self.untold == 1 { ("line", "is") } else { ("lines", "are") };
        let mut message = format!("{} more {lines} of this file {are} left out", self.untold);
        if let Some(index) = self.unread_from {
            message += &format!(", and what follows from line {} on is not read", index + 1);
        }
        let help = format!("the first {ERRORS_MAX} errors are told one by one; is it a crontab?");
        loader.tell_of_file(source, Finding::configuration(place, message).help(help));
    }
}

fn load_line(
    loader: &mut Loader,
    source: &Source,
    owner: &CrontabOwner,
    surroundings: &mut Surroundings,
    index: usize,
) {
    let range = source.line_range(index);
    let line = Piece { text: &source.text()[range.clone()], at: range.start }.trim_start();
    if line.text.is_empty() || line.text.starts_with('#') {
        return;
    }
    match (unreadable(line, range), environment::assignment(line)) {
        (Some(finding), Some((name, _))) => surroundings.refuse(loader, source, name, finding),
        (Some(finding), None) => loader.report(source, finding),
        (None, Some((name, value))) => surroundings.set(loader, source, name, value),
        (None, None) => {
            let mut findings = Vec::new();
            if index + 1 == source.line_count() {
                let end = line.span().end;
                findings.push(
                    Finding::warning(
                        end..end,
                        "the last line does not end; cron would leave it out, and Kron runs it",
                    )
                    .help("cron wants a line feed at the end of every line"),
                );
            }
            load_entry(loader, source, owner, surroundings, line, findings);
        }
    }
}

/// Why a line cannot be read, whatever it says.
fn unreadable(line: Piece<'_>, range: Range<usize>) -> Option<Finding> {
    if line.text.len() > LINE_BYTES_MAX {
        let message = format!("a line of more than {LINE_BYTES_MAX} bytes");
        return Some(Finding::validation(range, message));
    }
    if let Some(at) = line.text.find('\0') {
        let at = line.at + at;
        return Some(Finding::validation(at..at + 1, "a line with a NUL character"));
    }
    let at = line.at + line.text.find(NO_CHARACTER)?;
    Some(
        Finding::validation(at..at + NO_CHARACTER.len_utf8(), "a line that is not UTF-8")
            .help("only comments may be written in another encoding"),
    )
}

/// Whether a line of a crontab is to be an entry: it is not empty, and neither a comment nor sets a
/// variable.
pub(crate) fn is_entry(line: &str) -> bool {
    let line = Piece::whole(line).trim_start();
    !line.text.is_empty() && !line.text.starts_with('#') && environment::assignment(line).is_none()
}

fn load_entry(
    loader: &mut Loader,
    source: &Source,
    owner: &CrontabOwner,
    surroundings: &mut Surroundings,
    line: Piece<'_>,
    mut findings: Vec<Finding>,
) {
    let whole = line;
    let mut line = line;
    if let Some(rest) = line.text.strip_prefix('-') {
        findings.push(Finding::warning(
            line.at..line.at + 1,
            "a leading `-` silences cron's log; Kron always records its runs",
        ));
        line = Piece { text: rest, at: line.at + 1 };
    }
    if let Some(finding) = at_boot(line, owner) {
        loader.count_entry_without_time();
        return loader.report(source, finding);
    }
    // The identity depends on the command at the end of the line, so the first reading only
    // finds where the schedule ends; the second one, with the identity, counts.
    let options = loader.options().clone();
    let mut probed = Vec::new();
    let mut probe = Draft::new("probe", options.host());
    let rest = loader.parser().expression(&mut probe, line, Fields::Five, &mut probed);
    let schedule = line.slice(0..rest.at - line.at);
    let (user, command) = split_user(rest, owner, &mut findings);
    // Blanks at the end of a line are invisible, so they tell no two entries apart.
    let written = command.text.trim_end();
    let command = percent::without_options(command, &mut findings);
    percent::doubt(command, &mut findings);
    let (shell_line, stdin) = percent::split(command.text);
    let faulty = probed.iter().chain(&findings).any(Finding::is_error);
    if shell_line.trim().is_empty() && !faulty {
        let help = match owner {
            CrontabOwner::System => "expected five fields, a user and a command",
            CrontabOwner::User(_) => "expected five fields and a command",
        };
        findings
            .push(Finding::configuration(whole.span(), "an entry without a command").help(help));
    }
    let identity = loader.crontab_identity(user, &fields_of(schedule.text).join(" "), written);
    let mut draft = Draft::new(&identity, options.host());
    draft.policy.concurrency = Concurrency::Allow;
    draft.policy.deadline = DEADLINE_DEFAULT;
    loader.parser().expression(&mut draft, schedule, Fields::Five, &mut findings);
    let has_zone = draft.has(Modifier::Tz) || !surroundings.is_zone_unknown();
    if let Some(zone) = surroundings.zone() {
        draft.default_zone(zone);
    }
    let timing = loader.parser().finish(draft, &mut findings);
    let sound = loader.report_all(source, findings);
    let (Some(timing), true) = (timing, sound) else { return };
    if !has_zone {
        // Told where the zone is, once for all of them.
        loader.count_entry_without_time();
        return surroundings.count_entry_without_zone();
    }
    let env = match surroundings.shared_env() {
        Ok(env) => env,
        Err(message) => return loader.report(source, Finding::validation(whole.span(), message)),
    };
    let job = Job {
        timing,
        action: Action::Shell { shell: surroundings.shell().into(), line: shell_line.into() },
        execution: loader.shared(Execution {
            user: Some(user.to_owned()),
            cwd: surroundings.home().map(str::to_owned),
            env,
            stdin,
            ..Execution::default()
        }),
        duration: None,
        description: None,
        origin: source.location(line.at),
    };
    loader.define(source, job, whole.span());
}

/// The fields of a schedule, or its nickname, without what follows them.
pub(crate) fn fields_of(schedule: &str) -> Vec<&str> {
    let count = if schedule.trim_start().starts_with('@') { 1 } else { 5 };
    schedule.split_whitespace().take(count).collect()
}

/// What is said about an entry that is to run at boot.
fn at_boot(line: Piece<'_>, owner: &CrontabOwner) -> Option<Finding> {
    let (word, rest) = line.split_word();
    if word.text != "@reboot" {
        return None;
    }
    let user = match owner {
        CrontabOwner::System => rest.split_word().0.text,
        CrontabOwner::User(user) => user,
    };
    Some(
        Finding::validation(
            word.span(),
            "`@reboot` is not supported: it is not a time, so it has no period",
        )
        .help(format!(
            "the entry is left out; a systemd unit does this: `Type=oneshot`, `User={}`, \
             `ExecStart=/bin/sh -c '…'`, and `WantedBy=multi-user.target` in its `[Install]`",
            excerpt(user)
        )),
    )
}

/// Whose entry it is, and its command.
fn split_user<'a>(
    rest: Piece<'a>,
    owner: &'a CrontabOwner,
    findings: &mut Vec<Finding>,
) -> (&'a str, Piece<'a>) {
    match owner {
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
    }
}

/// The sixteen digits that tell one entry of a user from another.
pub(crate) fn entry_hash(schedule: &str, command: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(schedule.as_bytes());
    hasher.update(b"\n");
    hasher.update(command.as_bytes());
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
