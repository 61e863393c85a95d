//! Values of settings, and what each kind of setting makes of them.
//!
//! Formats give a [`Value`]; the readers here turn it into what a setting means, or into a finding
//! at the value's place. They know no keys: which key takes what is said where the key is.

use std::ops::{Range, RangeInclusive};

use kron_core::finding::excerpt;
use kron_core::{Finding, Piece, Seconds};

use crate::job::Output;

/// Bytes a single setting may have.
const SETTING_BYTES_MAX: usize = 64 * 1024;
/// Bytes the name of a user or group may have.
const ACCOUNT_BYTES_MAX: usize = 256;
/// The units of sizes, smallest first.
const SIZE_UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// What a log file of one run may be capped at.
pub(crate) const LOG_BYTES: RangeInclusive<u64> = 4 * 1024..=1024 * 1024 * 1024;

/// A value as its format gives it. Krontab lines know only texts. A list or table inside another
/// is there without its contents, since no setting goes that deep.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Integer { text: &'a str, radix: u32 },
    Decimal,
    Boolean(bool),
    Date,
    List(Vec<(Value<'a>, Range<usize>)>),
    Table(Vec<(Piece<'a>, Value<'a>, Range<usize>)>),
}

impl Value<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Integer { .. } => "a number",
            Value::Decimal => "a decimal number",
            Value::Boolean(_) => "a truth value",
            Value::Date => "a date or time",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

pub(crate) fn wrong_kind(value: &Value<'_>, span: &Range<usize>, expected: &str) -> Finding {
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

pub(crate) fn text<'a>(value: &Value<'a>, span: &Range<usize>) -> Result<&'a str, Finding> {
    match value {
        Value::Text(text) => {
            check_text(text, span)?;
            Ok(text)
        }
        other => Err(wrong_kind(other, span, "a text")),
    }
}

/// A text inside a list or table, where a number is easily written without its quotes.
pub(crate) fn inner_text<'a>(value: &Value<'a>, span: &Range<usize>) -> Result<&'a str, Finding> {
    text(value, span).map_err(|finding| match value {
        Value::Integer { .. } | Value::Decimal | Value::Boolean(_) => {
            finding.help("put it in quotes")
        }
        _ => finding,
    })
}

/// The name of a user or group.
pub(crate) fn account(value: &Value<'_>, span: &Range<usize>) -> Result<String, Finding> {
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
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ':' | '/' | '*');
    !name.is_empty() && name.len() <= ACCOUNT_BYTES_MAX && !name.contains(odd)
}

pub(crate) fn absolute_path(value: &Value<'_>, span: &Range<usize>) -> Result<String, Finding> {
    let path = text(value, span)?;
    if !path.starts_with('/') {
        return Err(Finding::validation(
            span.clone(),
            format!("`{}` is not an absolute path", excerpt(path)),
        ));
    }
    Ok(path.to_owned())
}

pub(crate) fn boolean(value: &Value<'_>, span: &Range<usize>) -> Result<bool, Finding> {
    match value {
        Value::Boolean(value) => Ok(*value),
        Value::Text("true") => Ok(true),
        Value::Text("false") => Ok(false),
        other => Err(wrong_kind(other, span, "`true` or `false`")),
    }
}

pub(crate) fn integer(value: &Value<'_>, span: &Range<usize>) -> Result<i64, Finding> {
    let parsed = match value {
        Value::Integer { text, radix } => i64::from_str_radix(text, *radix),
        Value::Text(text) => text.parse(),
        other => return Err(wrong_kind(other, span, "a whole number")),
    };
    parsed.map_err(|_| Finding::configuration(span.clone(), "not a whole number"))
}

/// A number of `key` within `range`.
pub(crate) fn count(
    key: &str,
    value: &Value<'_>,
    span: &Range<usize>,
    range: &RangeInclusive<u32>,
) -> Result<u32, Finding> {
    let count = u32::try_from(integer(value, span)?).ok().filter(|count| range.contains(count));
    count.ok_or_else(|| {
        let message = format!("`{key}` goes from {} to {}", range.start(), range.end());
        Finding::validation(span.clone(), message)
    })
}

/// A mask in octal: a text such as `027`, or a TOML number such as `0o27`.
pub(crate) fn umask(value: &Value<'_>, span: &Range<usize>) -> Result<u32, Finding> {
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

pub(crate) fn duration(value: &Value<'_>, span: &Range<usize>) -> Result<Seconds, Finding> {
    let text = text(value, span).map_err(|finding| match value {
        Value::Integer { .. } | Value::Decimal => {
            finding.help("durations have units and stand in quotes, such as `\"90s\"`")
        }
        _ => finding,
    })?;
    Seconds::parse(text).map_err(|mut finding| {
        finding.span = span.clone();
        finding
    })
}

pub(crate) fn positive(value: &Value<'_>, span: &Range<usize>) -> Result<Seconds, Finding> {
    let duration = duration(value, span)?;
    if duration == Seconds::ZERO {
        return Err(Finding::validation(span.clone(), "must be longer than 0s"));
    }
    Ok(duration)
}

/// Where output goes.
pub(crate) fn output(value: &Value<'_>, span: &Range<usize>) -> Result<Output, Finding> {
    let word = text(value, span)?;
    Output::ALL.into_iter().find(|output| output.as_str() == word).ok_or_else(|| {
        Finding::configuration(span.clone(), format!("unknown output `{}`", excerpt(word))).nearest(
            word,
            Output::ALL.map(Output::as_str),
            format!("expected {}", Output::ALL.map(Output::as_str).join(", ")),
        )
    })
}

/// What the log file of one run is capped at.
pub(crate) fn log_bytes(value: &Value<'_>, span: &Range<usize>) -> Result<u64, Finding> {
    let parsed = match value {
        Value::Integer { text, radix } => u64::from_str_radix(text, *radix).ok(),
        Value::Text(written) => {
            let size = text(value, span).and_then(|text| size(text, span))?;
            Some(size.ok_or_else(|| not_a_size(written, span))?)
        }
        other => {
            return Err(wrong_kind(other, span, "a number of bytes or a size such as `10MiB`"));
        }
    };
    parsed.filter(|bytes| LOG_BYTES.contains(bytes)).ok_or_else(|| {
        let (least, most) = (shown_size(*LOG_BYTES.start()), shown_size(*LOG_BYTES.end()));
        Finding::validation(span.clone(), format!("`log_size` goes from {least} to {most}"))
    })
}

/// Says that a text is no size; most often only its unit is written in another way.
fn not_a_size(text: &str, span: &Range<usize>) -> Finding {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let meant = SIZE_UNITS.iter().map(|(known, _)| *known).find(|known| {
        let same_letter =
            unit.get(..1).is_some_and(|first| first.eq_ignore_ascii_case(&known[..1]));
        digits > 0 && same_letter && unit.len() <= known.len()
    });
    let help = match meant {
        Some(meant) => format!("did you mean `{}{meant}`?", excerpt(number)),
        None => {
            let known = SIZE_UNITS.map(|(unit, _)| unit).join(", ");
            format!("expected bytes such as `4096`, or with a unit: {known}")
        }
    };
    Finding::configuration(span.clone(), format!("`{}` is not a size", excerpt(text))).help(help)
}

/// The bytes that a text such as `4096` or `10MiB` means; `None` when it is no size.
pub(crate) fn size(text: &str, span: &Range<usize>) -> Result<Option<u64>, Finding> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = if unit.is_empty() { "B" } else { unit };
    let Some((_, bytes)) = SIZE_UNITS.iter().find(|(known, _)| *known == unit) else {
        return Ok(None);
    };
    if number.is_empty() {
        return Ok(None);
    }
    let total = number.parse().ok().and_then(|number: u64| number.checked_mul(*bytes));
    total.map(Some).ok_or_else(|| {
        Finding::validation(span.clone(), format!("`{}` is too large", excerpt(text)))
    })
}

/// A number of bytes as people write it.
pub(crate) fn shown_size(bytes: u64) -> String {
    let whole = |&&(_, unit): &&(&str, u64)| bytes >= unit && bytes.is_multiple_of(unit);
    let (name, unit) = SIZE_UNITS.iter().rev().find(whole).unwrap_or(&SIZE_UNITS[0]);
    format!("{}{name}", bytes / unit)
}
