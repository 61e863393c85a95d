//! Values of the TOML parser as settings take them, in the order of the file.

use std::borrow::Cow;

use kron_core::Piece;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::value::Value;

/// A setting's value, one level deep.
pub(super) fn setting_value<'a>(value: &'a DeValue<'_>) -> Value<'a> {
    match value {
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| (flat(item.get_ref()), item.span())).collect())
        }
        DeValue::Table(table) => {
            let entries = in_file_order(table).into_iter().map(|(key, entry)| {
                let key = Piece { text: key.get_ref(), at: key.span().start };
                (key, flat(entry.get_ref()), entry.span())
            });
            Value::Table(entries.collect())
        }
        flat_value => flat(flat_value),
    }
}

/// A value without what it contains.
fn flat<'a>(value: &'a DeValue<'_>) -> Value<'a> {
    match value {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) => Value::Integer { text: number.as_str(), radix: number.radix() },
        DeValue::Float(_) => Value::Decimal,
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(_) => Value::List(Vec::new()),
        DeValue::Table(_) => Value::Table(Vec::new()),
    }
}

/// The text of a value that has no parts.
pub(super) fn scalar<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<Cow<'a, str>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Cow::Borrowed(text.as_ref())),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().into()),
        DeValue::Float(number) => Some(number.as_str().into()),
        DeValue::Boolean(value) => Some(value.to_string().into()),
        _ => None,
    }
}

/// The entries of a table as they stand in the file; the parser has them by name.
pub(super) fn in_file_order<'t, 'a>(
    table: &'t DeTable<'a>,
) -> Vec<(&'t Spanned<Cow<'a, str>>, &'t Spanned<DeValue<'a>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// What a value is, in the words that settings use.
pub(super) fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
