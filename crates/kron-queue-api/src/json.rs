//! Reading a request's body: strictly, and only so much.
//!
//! A body is one JSON value of bounded size and depth in which no key is given twice and no whole
//! number is too large to be kept exactly. What is wrong is told with its place. Nothing here knows
//! what a field means.

use std::fmt;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::limits::{BODY_DEPTH_MAX, BODY_DRAINED_BYTES_MAX, BODY_INLINE_BYTES_MAX};
use crate::problem::{Problem, excerpt};

/// Reads the body of a request.
pub(crate) async fn body(request: Request, bytes_max: usize) -> Result<Value, Problem> {
    let type_of = request.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or(""));
    if !type_of.is_some_and(is_json) {
        let given = type_of.map_or("nothing".to_owned(), |text| format!("`{}`", excerpt(text)));
        let detail = format!("`Content-Type` says {given}; `application/json` is expected");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail));
    }
    let announced: Option<u64> =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|bytes| bytes > BODY_DRAINED_BYTES_MAX as u64) {
        return Err(too_large(bytes_max));
    }
    let bytes = collect(request.into_body(), bytes_max).await?;
    if bytes.len() <= BODY_INLINE_BYTES_MAX {
        return parse(&bytes);
    }
    tokio::task::spawn_blocking(move || parse(&bytes))
        .await
        .unwrap_or_else(|_| Err(Problem::unavailable("stopping", "the daemon is stopping")))
}

fn is_json(text: &str) -> bool {
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().is_some_and(|part| part.eq_ignore_ascii_case("application/json"));
    essence
        && parts.all(|part| {
            let Some((name, value)) = part.split_once('=') else { return false };
            !name.eq_ignore_ascii_case("charset")
                || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body has more than {bytes_max} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
}

/// Reads a body. What is too large is read and thrown away for a while, because a client that is
/// still sending when the connection ends never sees the answer.
async fn collect(mut body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let (mut kept, mut seen) = (Vec::new(), 0_usize);
    while seen <= BODY_DRAINED_BYTES_MAX
        && let Some(frame) = body.frame().await
    {
        let cut = |_| Problem::malformed("body-cut", "the body ended before its time");
        let Ok(data) = frame.map_err(cut)?.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= bytes_max {
            kept.extend_from_slice(&data);
        } else {
            kept = Vec::new();
        }
    }
    if seen > bytes_max { Err(too_large(bytes_max)) } else { Ok(kept) }
}

fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(Problem::malformed("not-utf-8", "the body is not UTF-8"));
    };
    if let Some(number) = inexact(text) {
        let detail = format!("the number `{}` is too large to be kept exactly", excerpt(number));
        return Err(Problem::malformed("number-too-large", detail));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Strict { depth_max: BODY_DEPTH_MAX }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    read.map_err(|error| {
        Problem::malformed("bad-json", format!("the body cannot be read: {error}"))
    })
}

/// The first whole number that neither 64 bits with a sign nor 64 bits without can keep; the
/// parser would silently make it a fraction.
fn inexact(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = at;
                let is_part = |byte: u8| {
                    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
                };
                while at < bytes.len() && is_part(bytes[at]) {
                    at += 1;
                }
                let number = &text[start..at];
                let whole = !number.contains(['.', 'e', 'E']);
                if whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    // What is no number at all is for the parser to refuse.
                    return Some(number).filter(|number| number.parse::<f64>().is_ok());
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// Reads a value of bounded depth without doubled keys.
struct Strict {
    depth_max: usize,
}

impl Strict {
    fn inner<E: serde::de::Error>(&self) -> Result<Strict, E> {
        let depth_max = self.depth_max.checked_sub(1);
        let too_deep = || E::custom(format!("it is nested more than {BODY_DEPTH_MAX} deep"));
        depth_max.map(|depth_max| Strict { depth_max }).ok_or_else(too_deep)
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner()?)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("`{}` is given twice", excerpt(&key))));
            }
            let value = entries.next_value_seed(self.inner()?)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_kept_exactly_is_read() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(deep(BODY_DEPTH_MAX).as_bytes()).is_ok());
        for (text, code) in [
            (deep(BODY_DEPTH_MAX + 1), "bad-json"),
            (deep(100_000), "bad-json"),
            (r#"{"a":1,"a":2}"#.into(), "bad-json"),
            (r#"{"x":[{"a":1,"b":{"c":1,"c":1}}]}"#.into(), "bad-json"),
            ("18446744073709551616".into(), "number-too-large"),
            ("[-9223372036854775809]".into(), "number-too-large"),
            ("1e400".into(), "bad-json"),
            (r#""\ud800""#.into(), "bad-json"),
            (String::new(), "bad-json"),
            ("{} {}".into(), "bad-json"),
            ("NaN".into(), "bad-json"),
            ("--1".into(), "bad-json"),
            ("\"\\".into(), "bad-json"),
        ] {
            let problem = parse(text.as_bytes()).unwrap_err();
            let expected = Problem::malformed(code, "").field("");
            let same = format!("{problem:?}").contains(&format!("{code:?}"));
            assert!(same, "{}: {problem:?}, not {expected:?}", excerpt(&text));
        }
        assert!(parse(b"\xff").is_err());
        for kept in ["18446744073709551615", "-9223372036854775808", r#""18446744073709551616""#] {
            assert_eq!(parse(kept.as_bytes()).unwrap().to_string(), kept);
        }
        assert_eq!(parse(b"{\"a\":\"\\u0000\"}").unwrap()["a"], "\0");
    }

    #[test]
    fn only_json_in_utf_8_is_json() {
        for yes in ["application/json", "Application/JSON; charset=UTF-8", "application/json;x=y"] {
            assert!(is_json(yes), "{yes}");
        }
        for no in ["", "text/json", "application/json; charset=latin1", "application/jsonx"] {
            assert!(!is_json(no), "{no}");
        }
    }
}
