//! What stands in the daemon's tables and must not be shown: a diagnostic quotes the line it is about,
//! and the daemon writes it to its log.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::queue::handler::Owner;
use crate::queue::{self, webhook};
use crate::{hook, spool, web};

/// The places of values in which secrets stand, or may stand: headers, addresses with a key in them,
/// and whatever has a key that nobody knows, such as the `secret` of one who should write
/// `secret_file`.
pub(super) fn secrets(root: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (key, value) in root {
        match key.get_ref().as_ref() {
            "hook" => look_in_each(value, &hook::KEYS, &mut found),
            "api" => look_in(value, &queue::API_KEYS, &mut found),
            "queue" => {
                let handler = ("handler", &*Owner::Queue.keys());
                look_below(
                    value,
                    &queue::KEYS,
                    &[handler, ("webhook", &webhook::KEYS)],
                    &mut found,
                );
            }
            "spool" => {
                let handler = ("handler", &*Owner::Spool.keys());
                match value.get_ref() {
                    DeValue::Table(spools) => spools.values().for_each(|spool| {
                        look_below(spool, &spool::KEYS, &[handler], &mut found);
                    }),
                    _ => add_leaves(value, &mut found),
                }
            }
            _ => {}
        }
    }
    found
}

/// Looks at a table that has `keys`, and at those below it that each stand under a word and a name.
fn look_below(
    table: &Spanned<DeValue<'_>>,
    keys: &[&str],
    below: &[(&str, &[&str])],
    found: &mut Vec<Range<usize>>,
) {
    let words = below.iter().map(|(word, _)| *word);
    let known: Vec<&str> = keys.iter().copied().chain(words).collect();
    look_in(table, &known, found);
    for (word, keys) in below {
        let tables = table.get_ref().as_table().and_then(|table| table.get(*word));
        tables.into_iter().for_each(|tables| look_in_each(tables, keys, found));
    }
}

/// Looks at the tables in a table.
fn look_in_each(tables: &Spanned<DeValue<'_>>, known: &[&str], found: &mut Vec<Range<usize>>) {
    match tables.get_ref() {
        DeValue::Table(tables) => tables.values().for_each(|table| look_in(table, known, found)),
        _ => add_leaves(tables, found),
    }
}

fn look_in(table: &Spanned<DeValue<'_>>, known: &[&str], found: &mut Vec<Range<usize>>) {
    let DeValue::Table(entries) = table.get_ref() else { return add_leaves(table, found) };
    for (key, value) in entries {
        let word = key.get_ref().as_ref();
        let address = value.get_ref().as_str().filter(|_| word == "url");
        if word == "headers" || !known.contains(&word) || address.is_some_and(web::has_key) {
            add_leaves(value, found);
        }
    }
}

/// The places of what has no parts, however deep.
fn add_leaves(value: &Spanned<DeValue<'_>>, found: &mut Vec<Range<usize>>) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value.get_ref() {
            DeValue::Table(table) => open.extend(table.values()),
            DeValue::Array(items) => open.extend(items.iter()),
            _ => found.push(value.span()),
        }
    }
}

/// Whether the line of a syntax error at byte `at` of a section may have a secret on it, as far as
/// that can be told of what could not be parsed: headers may go on over many lines.
pub(super) fn may_show_secret(section: &str, at: usize) -> bool {
    let at = crate::source::floor_boundary(section, at.min(section.len()));
    let end = section[at..].find('\n').map_or(section.len(), |end| at + end);
    let start = section[..at].rfind('\n').map_or(0, |start| start + 1);
    let line = &section[start..end];
    section[..end].contains("headers")
        || ["secret", "token"].iter().any(|word| line.contains(word))
        || web::has_key(line)
}
