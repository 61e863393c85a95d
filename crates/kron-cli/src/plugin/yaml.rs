//! Manifests as YAML that every reader takes for what it is.
//!
//! Kubernetes reads YAML 1.1, in which `yes` is true and `0o17` and `1_000` are numbers; others read
//! YAML 1.2. So a string is plain only when no reader can take it for anything else; any other is
//! quoted as JSON is, and a text of several lines is a block, so that scripts stay readable.

use std::fmt::Write as _;

use serde_json::Value;

/// A value as a YAML document, without a line that begins it.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_value(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => write_value(&mut text, value, 0),
        scalar => {
            write_scalar(&mut text, scalar, 0);
            text.push('\n');
        }
    }
    text
}

/// Writes a map or a list that has something in it, each entry on lines of its own.
fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                indent(text, depth);
                write_string(text, key);
                text.push(':');
                write_entry(text, value, depth);
            }
        }
        Value::Array(items) => {
            for item in items {
                indent(text, depth);
                text.push('-');
                write_entry(text, item, depth);
            }
        }
        scalar => write_scalar(text, scalar, depth),
    }
}

/// Writes what follows a key or a dash.
fn write_entry(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            if text.ends_with('-') {
                // The first key goes on the line of the dash.
                let mut inner = String::new();
                write_value(&mut inner, value, depth + 1);
                text.push(' ');
                text.push_str(inner.trim_start());
            } else {
                text.push('\n');
                write_value(text, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            write_value(text, value, depth + 1);
        }
        scalar => {
            text.push(' ');
            write_scalar(text, scalar, depth);
            text.push('\n');
        }
    }
}

fn write_scalar(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::String(string) if is_block(string) => write_block(text, string, depth + 1),
        Value::String(string) => write_string(text, string),
        // Numbers, booleans, null and what is empty are written as in JSON.
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

fn write_string(text: &mut String, string: &str) {
    if is_plain(string) {
        text.push_str(string);
        return;
    }
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            shown if is_printable(shown) => text.push(shown),
            hidden if u32::from(hidden) <= 0xFFFF => {
                let _ = write!(text, "\\u{:04X}", u32::from(hidden));
            }
            hidden => {
                let _ = write!(text, "\\U{:08X}", u32::from(hidden));
            }
        }
    }
    text.push('"');
}

/// Whether a character may stand for itself. Line separators may not, nor what ends a stream.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Whether no reader takes a string for anything else when it is not quoted.
fn is_plain(string: &str) -> bool {
    const OTHERWISE: [&str; 10] =
        ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];
    let mut bytes = string.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
    let goes_on = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-./@+,=%".contains(&byte));
    begins && goes_on && !OTHERWISE.iter().any(|word| string.eq_ignore_ascii_case(word))
}

/// Whether a text can be a block: several lines, nothing that a block cannot hold, and no blanks
/// where a reader might take them for indentation.
fn is_block(string: &str) -> bool {
    let lines = string.strip_suffix('\n').unwrap_or(string);
    lines.contains('\n')
        && !lines.starts_with([' ', '\n', '\t'])
        && !lines.ends_with('\n')
        && string.chars().all(|character| character == '\n' || is_printable(character))
        && lines.split('\n').all(|line| !line.ends_with(' '))
}

fn write_block(text: &mut String, string: &str, depth: usize) {
    let lines = string.strip_suffix('\n');
    text.push_str(if lines.is_some() { "|" } else { "|-" });
    for line in lines.unwrap_or(string).split('\n') {
        text.push('\n');
        if !line.is_empty() {
            indent(text, depth);
            text.push_str(line);
        }
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_reads_as_people_write_it() {
        let value = json!({
            "apiVersion": "kron.dev/v1alpha1",
            "empty": {"list": [], "map": {}, "text": ""},
            "env": [{"name": "A", "value": "yes"}, {"name": "B", "value": "9"}],
            "nested": [["a", "b"], []],
            "number": 1.5,
            "schedule": "*/5 * * * *",
            "script": "set -eu\n\n  echo a: b # c\n",
            "spaced": " a\nb",
            "unended": "a\nb",
        });
        let expected = r#"apiVersion: kron.dev/v1alpha1
empty:
  list: []
  map: {}
  text: ""
env:
  - name: A
    value: "yes"
  - name: B
    value: "9"
nested:
  -
    - a
    - b
  - []
number: 1.5
schedule: "*/5 * * * *"
script: |
  set -eu

    echo a: b # c
spaced: " a\nb"
unended: |-
  a
  b
"#;
        assert_eq!(document(&value), expected);
    }

    #[test]
    fn what_looks_like_something_else_is_quoted() {
        for string in [
            "",
            "y",
            "No",
            "ON",
            "true",
            "null",
            "~",
            "0",
            "012",
            "0x1F",
            "1e3",
            "1_000",
            "-1",
            ".inf",
            "12:30:45",
            "2026-03-01",
            "a: b",
            "a #b",
            "- a",
            "? a",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "'a'",
            "\"a\"",
            "%a",
            "@a",
            "`a`",
            "{a}",
            "[a]",
            "a\u{85}b",
            "a\u{2028}b",
            "\u{7f}",
            "\u{1f600} x",
            "=",
            "<<",
        ] {
            assert!(document(&json!(string)).starts_with('"'), "{string:?}");
        }
        for string in ["a", "registry.example/app", "/bin/sh", "Never", "kron.dev/v1alpha1"] {
            assert_eq!(document(&json!(string)), format!("{string}\n"));
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let string = prop_oneof![
            any::<String>(),
            "[ -~\n\t\u{e9}\u{85}]{0,12}",
            "(yes|no|on|off|true|null|~|[0-9]{1,3}|0x1|1e3|[-?:,\\[\\]{}#&*!|>'\"%@` a\n]{1,6})",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e6..1e6).prop_map(|number: f64| json!((number * 8.0).round() / 8.0)),
            string.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(string.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read_again(value in values()) {
            let text = document(&value);
            let read: Value = serde_saphyr::from_str(&text).expect(&text);
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
