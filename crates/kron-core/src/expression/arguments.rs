//! The syntax of modifiers: names, parentheses, quotes, `key=value`.

use std::borrow::Cow;
use std::ops::Range;

use super::{Argument, at};
use crate::duration::{self, Seconds};
use crate::finding::{Finding, Piece, excerpt};

/// Whether a text begins like `@name(`.
pub(super) fn opens_modifier(piece: Piece<'_>) -> bool {
    let Some(rest) = piece.text.strip_prefix('@') else { return false };
    let name = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    name > 0 && rest.as_bytes().get(name) == Some(&b'(')
}

/// Splits `@name(arguments) rest`.
pub(super) fn split_modifier(
    piece: Piece<'_>,
) -> Result<(Piece<'_>, Piece<'_>, Piece<'_>), Finding> {
    if !opens_modifier(piece) {
        let (word, _) = piece.split_word();
        return Err(Finding::configuration(
            word.span(),
            format!("`{}` is not a modifier", word.shown()),
        )
        .help("a modifier has parentheses, as in `@win(after,2h)`; a nickname stands first"));
    }
    let open = piece.text.find('(').unwrap_or(0);
    let name = piece.slice(0..open);
    let mut quoted = false;
    let mut escaped = false;
    for (index, character) in piece.text.char_indices().skip(open + 1) {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ')' if !quoted => {
                let after = piece.slice(index + 1..piece.text.len());
                if let Some(next) = after.text.chars().next().filter(|c| !c.is_whitespace()) {
                    return Err(Finding::configuration(
                        after.at..after.at + next.len_utf8(),
                        format!("`{}` right after `)`", excerpt(next.encode_utf8(&mut [0; 4]))),
                    )
                    .help("put a blank between modifiers"));
                }
                return Ok((name, piece.slice(open + 1..index), after));
            }
            _ => {}
        }
    }
    Err(Finding::configuration(name.span(), format!("`{}(` is never closed", name.shown()))
        .help("add the missing `)`"))
}

/// Splits arguments at commas outside quotes, and keys from values.
pub(super) fn split_arguments(piece: Piece<'_>) -> Result<Vec<Argument<'_>>, Finding> {
    const ARGUMENTS_MAX: usize = 16;
    let mut arguments = Vec::new();
    if piece.text.trim().is_empty() {
        return Ok(arguments);
    }
    let mut start = 0;
    let mut quoted = false;
    let mut escaped = false;
    let ends = piece.text.char_indices().map(Some).chain([None]);
    for step in ends {
        let end = match step {
            Some((_, _)) if escaped => {
                escaped = false;
                continue;
            }
            Some((_, '\\')) if quoted => {
                escaped = true;
                continue;
            }
            Some((_, '"')) => {
                quoted = !quoted;
                continue;
            }
            Some((index, ',')) if !quoted => index,
            Some(_) => continue,
            None => piece.text.len(),
        };
        arguments.push(argument(piece.slice(start..end).trim())?);
        if arguments.len() > ARGUMENTS_MAX {
            return Err(Finding::configuration(piece.span(), "too many arguments"));
        }
        start = end + 1;
    }
    Ok(arguments)
}

fn argument(piece: Piece<'_>) -> Result<Argument<'_>, Finding> {
    let (key, value) = match piece.split_once('=') {
        Some((key, value)) if !key.text.contains('"') => (Some(key.trim()), value.trim()),
        _ => (None, piece),
    };
    let span = value.span();
    let value = match value.text.strip_prefix('"') {
        None => Cow::Borrowed(value.text),
        Some(inner) => Cow::Owned(unquote(inner).ok_or_else(|| {
            Finding::configuration(
                value.span(),
                format!("`{}` is not a quoted text", value.shown()),
            )
            .help("quotes open and close with `\"`; `\\\"` and `\\\\` stand for themselves")
        })?),
    };
    Ok(Argument { key, value, span })
}

/// The text up to the closing quote, which must be the end.
fn unquote(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return characters.next().is_none().then_some(value),
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => value.push(escaped),
                _ => return None,
            },
            plain => value.push(plain),
        }
    }
}

/// The value that goes with a word.
pub(crate) fn word<T: Copy>(
    what: &str,
    text: &str,
    span: &Range<usize>,
    words: &[(&'static str, T)],
) -> Result<T, Finding> {
    match words.iter().find(|(known, _)| *known == text) {
        Some(&(_, value)) => Ok(value),
        None => {
            let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
            Err(Finding::configuration(span.clone(), format!("unknown {what} `{}`", excerpt(text)))
                .nearest(text, known.iter().copied(), format!("expected {}", known.join(", "))))
        }
    }
}

pub(super) fn duration_of(argument: &Argument<'_>) -> Result<Seconds, Finding> {
    duration::parse(Piece { text: &argument.value, at: argument.span.start })
        .map_err(|finding| at(&argument.span, finding))
}

/// Splits arguments into the leading bare one and the `key=value` ones.
pub(super) fn leading<'r, 'a>(
    arguments: &'r [Argument<'a>],
) -> (Option<&'r Argument<'a>>, &'r [Argument<'a>]) {
    match arguments.split_first() {
        Some((first, rest)) if first.key.is_none() => (Some(first), rest),
        _ => (None, arguments),
    }
}

/// Goes over `key=value` arguments, each key once.
pub(super) fn each_key<'a>(
    what: &str,
    arguments: &[Argument<'a>],
    keys: &[&str],
    mut apply: impl FnMut(&str, &Argument<'a>) -> Result<(), Finding>,
) -> Result<(), Finding> {
    let mut seen: Vec<&str> = Vec::new();
    for argument in arguments {
        let Some(key) = &argument.key else {
            return Err(Finding::configuration(
                argument.span.clone(),
                format!("`{}` is not a parameter of {what}", excerpt(&argument.value)),
            )
            .help(if keys.is_empty() {
                format!("{what} takes no more parameters")
            } else {
                format!("expected `key=value` with {}", keys.join(", "))
            }));
        };
        let Some(known) = keys.iter().find(|known| **known == key.text) else {
            return Err(Finding::configuration(
                key.span(),
                format!("unknown parameter `{}` of {what}", key.shown()),
            )
            .nearest(
                key.text,
                keys.iter().copied(),
                if keys.is_empty() {
                    format!("{what} takes no parameters")
                } else {
                    format!("expected {}", keys.join(", "))
                },
            ));
        };
        if seen.contains(known) {
            return Err(Finding::configuration(key.span(), format!("`{known}` is given twice")));
        }
        seen.push(known);
        apply(known, argument)?;
    }
    Ok(())
}
