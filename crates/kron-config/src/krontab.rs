//! Krontab lines: a schedule with its modifiers, then `key=value` settings, one job a line.
//!
//! ```text
//! 0 3 * * * @win(after,2h) name=db-backup command="/usr/bin/backup --full" user=backup timeout=2h
//! ```
//!
//! A value with blanks stands in double or single quotes; in double quotes `\"` and `\\` stand for
//! themselves. A command is split into words without a shell, unless `shell=true`.

use std::ops::Range;

use kron_core::finding::excerpt;
use kron_core::{Draft, Fields, Finding, Piece};

use crate::job::Job;
use crate::load::{LINE_BYTES_MAX, Loader, check_name};
use crate::settings::{KEYS, Settings, Value};
use crate::source::Source;

pub(crate) fn load(loader: &mut Loader, source: &Source) {
    for index in 0..source.line_count() {
        if loader.is_cut_short() {
            return;
        }
        let range = source.line_range(index);
        let line = Piece { text: &source.text()[range.clone()], at: range.start };
        let first = line.text.trim_start();
        if first.is_empty() || first.starts_with('#') {
            continue;
        }
        if line.text.len() > LINE_BYTES_MAX {
            loader.report(
                source,
                Finding::validation(range, format!("a line of more than {LINE_BYTES_MAX} bytes")),
            );
            continue;
        }
        load_line(loader, source, line);
    }
}

fn load_line(loader: &mut Loader, source: &Source, line: Piece<'_>) {
    let mut findings = Vec::new();
    // The identity stands at the end of the line and is needed at its beginning, so settings are
    // read before the schedule, from where the schedule ends.
    let mut probe = Draft::new("probe", Default::default());
    let mut ignored = Vec::new();
    let rest = loader.parser().expression(&mut probe, line, Fields::Any, &mut ignored);
    let schedule = line.slice(0..rest.at - line.at);
    let mut settings = Settings::default();
    let mut name: Option<(String, Range<usize>)> = None;
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = rest;
    while !rest.text.is_empty() {
        let (key, value, span, after) = match split_setting(rest) {
            Ok(setting) => setting,
            Err(finding) => {
                findings.push(finding);
                break;
            }
        };
        rest = after;
        let Some(known) = KEYS.iter().find(|known| **known == key.text) else {
            findings.push(
                Finding::configuration(
                    key.span(),
                    format!("unknown setting `{}`", excerpt(key.text)),
                )
                .nearest(key.text, KEYS, format!("expected {}", KEYS.join(", "))),
            );
            continue;
        };
        if seen.contains(known) && *known != "env" {
            findings.push(Finding::configuration(key.span(), format!("`{known}` is given twice")));
            continue;
        }
        seen.push(known);
        if *known == "name" {
            findings.extend(check_name(&value, &span).err());
            name = Some((value, span));
        } else {
            findings.extend(settings.set(known, &Value::Text(&value), span).err());
        }
    }
    let Some((name, name_span)) = name else {
        findings.push(
            Finding::configuration(schedule.span(), "a job without `name=`")
                .help("every job has a name that never changes, as in `name=db-backup`"),
        );
        findings.extend(ignored.into_iter().filter(Finding::is_error));
        return findings.into_iter().for_each(|finding| loader.report(source, finding));
    };
    let options = loader.options().clone();
    let mut draft = Draft::new(&name, options.host());
    loader.parser().expression(&mut draft, schedule, Fields::Any, &mut findings);
    let timing = loader.parser().finish(draft, &mut findings);
    let action = settings.split_line().and_then(|()| settings.action(&name_span));
    findings.extend(action.as_ref().err().cloned());
    let faulty = findings.iter().any(Finding::is_error);
    for finding in findings {
        loader.report(source, finding);
    }
    if let (Some(timing), Ok(action), false) = (timing, action, faulty) {
        let job = Job {
            timing,
            action,
            execution: settings.execution(),
            duration: settings.duration,
            description: settings.description,
            origin: source.location(line.at),
        };
        loader.define(source, job, name_span);
    }
}

/// Key, value, the value's place, and what follows.
type Setting<'a> = (Piece<'a>, String, Range<usize>, Piece<'a>);

/// Splits `key=value rest`.
fn split_setting(piece: Piece<'_>) -> Result<Setting<'_>, Finding> {
    let (word, _) = piece.split_word();
    let Some(equals) = word.text.find('=').filter(|&equals| equals > 0) else {
        return Err(Finding::configuration(
            word.span(),
            format!("`{}` is not a setting", excerpt(word.text)),
        )
        .help("settings are `key=value`, as in `name=db-backup`; quote values with blanks"));
    };
    let key = piece.slice(0..equals);
    // Quotes may stand anywhere in a value: `env=GREETING="hello world"`.
    let mut value = String::new();
    let mut start = equals + 1;
    let mut at = start;
    let bytes = piece.text.as_bytes();
    while at < bytes.len() && !bytes[at].is_ascii_whitespace() {
        let quote = bytes[at];
        if quote != b'"' && quote != b'\'' {
            at += 1;
            continue;
        }
        value += &piece.text[start..at];
        let (inner, end) = unquote(&piece.text[at..]).ok_or_else(|| {
            Finding::configuration(piece.at + at..piece.at + at + 1, "this quote is never closed")
        })?;
        value += &inner;
        at += end;
        start = at;
    }
    value += &piece.text[start..at];
    let rest = piece.slice(at..piece.text.len()).trim_start();
    Ok((key, value, piece.at + equals + 1..piece.at + at, rest))
}

/// The content of the quoted text this begins with, and the byte after it.
fn unquote(text: &str) -> Option<(String, usize)> {
    let mut characters = text.char_indices();
    let (_, quote) = characters.next()?;
    let mut inner = String::new();
    loop {
        match characters.next()? {
            (at, end) if end == quote => return Some((inner, at + 1)),
            (_, '\\') if quote == '"' => match characters.next()? {
                (_, escaped @ ('"' | '\\')) => inner.push(escaped),
                (_, other) => inner.extend(['\\', other]),
            },
            (_, plain) => inner.push(plain),
        }
    }
}
