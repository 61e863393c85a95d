//! Texts as TOML has them: quoted so that they read best, and comments without what TOML forbids.

/// A text in quotes, in the kind that needs the fewest escapes.
pub(super) fn quoted(text: &str) -> String {
    let control = text.contains(char::is_control);
    let plain = !control && !text.contains(['"', '\\']);
    if plain {
        format!("\"{text}\"")
    } else if !control && !text.contains('\'') {
        format!("'{text}'")
    } else if !control && !text.contains("'''") && !text.starts_with('\'') && !text.ends_with('\'')
    {
        format!("'''{text}'''")
    } else {
        let escaped: String = text.chars().map(escaped).collect();
        format!("\"{escaped}\"")
    }
}

fn escaped(character: char) -> String {
    match character {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        control if control.is_control() => format!("\\u{:04X}", u32::from(control)),
        plain => plain.to_string(),
    }
}

/// A part of a table's name, in quotes where it needs them.
pub(crate) fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

/// A comment on one line; control characters other than tabs may not stand in one.
pub(super) fn comment(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\t', "·")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_in_the_plainest_way() {
        for (text, expected) in [
            ("", "\"\""),
            ("a b # c", "\"a b # c\""),
            ("it's", "\"it's\""),
            ("say \"x\"", "'say \"x\"'"),
            ("a\\b", "'a\\b'"),
            ("it's \"x\"", "'''it's \"x\"'''"),
            ("'it' \"x\"", "\"'it' \\\"x\\\"\""),
            ("''' \"", "\"''' \\\"\""),
            ("a\nb\t\u{7}", "\"a\\nb\\t\\u0007\""),
            ("a\u{85}", "\"a\\u0085\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn names_and_comments() {
        assert_eq!(key("ann-sync_2"), "ann-sync_2");
        assert_eq!(key("ann.sync"), "\"ann.sync\"");
        assert_eq!(comment("# a\tb\u{7}c\r"), "# a\tb·c·");
    }
}
