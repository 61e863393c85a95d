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

use crate::limit::Resource;
use crate::load::{LINE_BYTES_MAX, Loader, check_name};
use crate::settings::{KEYS, Settings};
use crate::source::Source;
use crate::value::Value;

/// What a job is called while its line gives it no valid name.
const NAMELESS: &str = "nameless";

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
    let options = loader.options().clone();
    let mut probe = Draft::new(NAMELESS, options.host());
    let mut probed = Vec::new();
    let rest = loader.parser().expression(&mut probe, line, Fields::Any, &mut probed);
    if rest.text.is_empty() && probed.iter().any(Finding::is_error) {
        // The settings may be there, behind a parenthesis that was never closed.
        loader.report_all(source, probed);
        return;
    }
    let schedule = line.slice(0..rest.at - line.at);
    let mut settings = Settings::default();
    let mut name: Option<String> = None;
    let mut name_span = schedule.trim().span();
    let mut seen: Vec<&'static str> = Vec::new();
    let mut rest = rest;
    while !rest.text.is_empty() {
        let (word, after_word) = rest.split_word();
        if word.text.starts_with('#') {
            findings.push(
                Finding::configuration(word.span(), "a comment after a job")
                    .help("comments stand on lines of their own"),
            );
            break;
        }
        let Some(equals) = word.text.find('=').filter(|&equals| equals > 0) else {
            findings.push(
                Finding::configuration(
                    word.span(),
                    format!("`{}` is not a setting", excerpt(word.text)),
                )
                .help("settings are `key=value`, as in `name=db-backup`; quote values with blanks"),
            );
            rest = after_word;
            continue;
        };
        let (key, value, span, after) = match split_setting(rest, equals) {
            Ok(setting) => setting,
            Err(finding) => {
                // Where the value ends is anybody's guess, and so is what else the line says.
                findings.push(finding);
                loader.report_all(source, findings);
                return;
            }
        };
        rest = after;
        let Some(known) = known_settings().find(|known| *known == key.text) else {
            let known: Vec<&str> = known_settings().collect();
            findings.push(
                Finding::configuration(
                    key.span(),
                    format!("unknown setting `{}`", excerpt(key.text)),
                )
                .nearest(
                    key.text,
                    known_settings(),
                    format!("expected {}", known.join(", ")),
                ),
            );
            continue;
        };
        if seen.contains(&known) && known != "env" {
            findings.push(Finding::configuration(key.span(), format!("`{known}` is given twice")));
            continue;
        }
        seen.push(known);
        if known == "name" {
            name_span = span;
            match check_name("job", &value, &name_span) {
                Ok(()) => name = Some(value),
                Err(finding) => findings.push(finding),
            }
        } else {
            settings.set(known, &Value::Text(&value), span, &mut findings);
        }
    }
    if !seen.contains(&"name") {
        findings.push(
            Finding::configuration(name_span.clone(), "a job without `name=`")
                .help("every job has a name that never changes, as in `name=db-backup`"),
        );
    }
    let mut draft = Draft::new(name.as_deref().unwrap_or(NAMELESS), options.host());
    loader.parser().expression(&mut draft, schedule, Fields::Any, &mut findings);
    let timing = loader.parser().finish(draft, &mut findings);
    settings.split_line(&mut findings);
    let missing = || {
        Finding::configuration(name_span.clone(), "a job without `command`")
            .help("a job needs something to run, as in `command=\"/usr/bin/backup --full\"`")
    };
    let action = settings.action(missing, &mut findings);
    let sound = loader.report_all(source, findings);
    if let (Some(timing), Some(action), true) = (timing, action, sound) {
        let job = settings.into_job(timing, action, source.location(line.at), loader);
        loader.define(source, job, name_span);
    }
}

/// What a line may set.
fn known_settings() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().chain(["name"]).chain(Resource::ALL.map(Resource::setting))
}

/// Key, value, the value's place, and what follows.
type Setting<'a> = (Piece<'a>, String, Range<usize>, Piece<'a>);

/// Splits `key=value rest`, which has its `=` at byte `equals`.
fn split_setting(piece: Piece<'_>, equals: usize) -> Result<Setting<'_>, Finding> {
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
                .help("in double quotes, `\\\"` stands for a quote")
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
