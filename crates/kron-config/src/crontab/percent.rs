//! The command at the end of an entry: its options, its percent signs, and what it reads.

use kron_core::{Finding, Piece};

/// Splits a command at its first unescaped `%`. What follows is standard input, with every further
/// `%` a newline, and a newline at its end; `\%` is a percent sign on either side.
///
/// The two sides differ in one point, as they do in cron: in the command a backslash before another
/// one takes it along, so that the `%` in `\\%` is not escaped; in the input it is.
pub(super) fn split(command: &str) -> (String, Option<String>) {
    let mut line = String::with_capacity(command.len());
    let mut rest = command.char_indices();
    while let Some((at, character)) = rest.next() {
        match character {
            '%' => return (line, Some(input(&command[at + 1..]))),
            '\\' => match rest.next() {
                Some((_, '%')) => line.push('%'),
                Some((_, other)) => line.extend(['\\', other]),
                None => line.push('\\'),
            },
            other => line.push(other),
        }
    }
    // A backslash makes the blank after it count.
    let trimmed = line.trim_end().len();
    if !line[..trimmed].ends_with('\\') {
        line.truncate(trimmed);
    }
    (line, None)
}

/// What a command reads.
fn input(text: &str) -> String {
    let mut input = String::with_capacity(text.len() + 1);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.next_if_eq(&'%').is_some() => input.push('%'),
            '%' => input.push('\n'),
            other => input.push(other),
        }
    }
    if !input.is_empty() && !input.ends_with('\n') {
        input.push('\n');
    }
    input
}

/// The command without the options that some crons take before it.
pub(super) fn without_options<'a>(
    mut command: Piece<'a>,
    findings: &mut Vec<Finding>,
) -> Piece<'a> {
    loop {
        let (word, rest) = command.split_word();
        let message = match word.text {
            "-n" => "`-n` before a command asks for mail only when it fails; Kron sends no mail",
            "-q" => "`-q` before a command silences cron's log; Kron always records its runs",
            _ => return command,
        };
        findings.push(Finding::warning(word.span(), message));
        command = rest;
    }
}

/// Says what a command is when that may surprise: crons disagree, or a percent sign was not meant.
pub(super) fn doubt(command: Piece<'_>, findings: &mut Vec<Finding>) {
    let mut characters = command.text.char_indices();
    let mut doubled = None;
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                if let Some((_, '\\')) = characters.next() {
                    doubled = doubled.or(Some(command.at + at));
                }
            }
            '%' => {
                if command.text[..at].trim_end_matches(['"', '\'']).ends_with('+') {
                    let at = command.at + at;
                    findings.push(
                        Finding::warning(
                            at..at + 1,
                            "the command ends at this `%`, and what follows is its input, as in cron",
                        )
                        .help("write `\\%` for a percent sign, as in `date +\\%F`"),
                    );
                }
                break;
            }
            _ => {}
        }
    }
    if let Some(at) = doubled {
        findings.push(
            Finding::warning(
                at..at + 2,
                "`\\\\` is handed to the shell as it is, as most crons do; \
                 Debian's makes one backslash of it",
            )
            .help("write one backslash if Debian's cron ran this entry"),
        );
    }
}
