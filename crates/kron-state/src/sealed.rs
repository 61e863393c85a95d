//! JSON objects that carry a checksum of themselves.
//!
//! A sealed object is one line of compact JSON whose last field is `Checksum`, the SHA-256 in hex
//! of every byte before that field. It is checked on the raw bytes, so that neither the order of
//! keys nor fields that nobody here knows matter. An object without the field was written by
//! another implementation and is taken as it is; one with a field that does not match is damaged.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The key of the checksum.
const KEY: &str = "Checksum";
/// What stands before and after the digits of the checksum.
const OPENING: &[u8] = b",\"Checksum\":\"";
const CLOSING: &[u8] = b"\"}";
/// Hex digits of a SHA-256.
const DIGITS: usize = 64;

/// The sealed form of `object`, which must serialise to a JSON object with at least one field.
pub(crate) fn seal(object: &impl Serialize) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec(object).expect("structs with text keys always have a JSON form");
    let brace = bytes.pop();
    debug_assert_eq!(brace, Some(b'}'), "only objects are sealed");
    let digits = hex(&Sha256::digest(&bytes));
    bytes.reserve(OPENING.len() + DIGITS + CLOSING.len() + 1);
    bytes.extend_from_slice(OPENING);
    bytes.extend_from_slice(digits.as_bytes());
    bytes.extend_from_slice(CLOSING);
    bytes.push(b'\n');
    bytes
}

/// Whether a text carries a checksum; a wrong one is an error instead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seal {
    Intact,
    Absent,
}

impl Seal {
    /// Takes the checksum out of the fields that were read, where it would pass for an unknown one.
    ///
    /// # Errors
    /// When there is a checksum that was not checked because it is not where it belongs.
    pub(crate) fn remove_from(self, fields: &mut Map<String, Value>) -> Result<(), String> {
        match (fields.remove(KEY), self) {
            (Some(_), Seal::Absent) => Err("its checksum is not where it belongs".to_owned()),
            (Some(_), Seal::Intact) | (None, Seal::Absent | Seal::Intact) => Ok(()),
        }
    }
}

/// The text of `bytes`, with its checksum compared.
///
/// # Errors
/// When the bytes are no text, or their checksum is wrong.
pub(crate) fn open(bytes: &[u8]) -> Result<(&str, Seal), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("it is no text: {error}"))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let sealed = line.strip_suffix(CLOSING).and_then(|line| line.split_last_chunk::<DIGITS>());
    let Some((before, digits)) = sealed else { return Ok((text, Seal::Absent)) };
    let Some(content) = before.strip_suffix(OPENING) else { return Ok((text, Seal::Absent)) };
    if hex(&Sha256::digest(content)).as_bytes() != digits {
        return Err("its checksum does not match".to_owned());
    }
    Ok((text, Seal::Intact))
}

/// Lower-case hex digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGIT: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGIT[usize::from(byte >> 4)]));
        text.push(char::from(DIGIT[usize::from(byte & 15)]));
    }
    text
}
