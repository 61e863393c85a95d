//! Bodies of requests, and the parameters that people give.
//!
//! What people write as JSON is sent as they wrote it: the daemon is strict about keys that are
//! given twice and numbers that cannot be kept, and a detour through values here would hide them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use kron_config::files::ReadError;
use kron_core::finding::excerpt;
use kron_core::{Finding, Seconds};
use kron_queue::Timestamp;
use kron_queue_api::limits::BODY_BYTES_MAX;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{ParamsArgs, StartArgs};
use crate::clock;
use crate::failure::Failure;

/// An object that grows field by field.
#[derive(Debug, Default)]
pub(crate) struct Body(String);

impl Body {
    pub(crate) fn new() -> Body {
        Body::default()
    }

    /// A field with this value; one without a value is left out.
    pub(crate) fn field(self, name: &str, value: Option<impl Serialize>) -> Result<Body, Failure> {
        let text = value.map(|value| serde_json::to_string(&value)).transpose()?;
        Ok(self.raw(name, text.as_deref()))
    }

    /// A field whose value is JSON already; one without a value is left out.
    pub(crate) fn raw(mut self, name: &str, json: Option<&str>) -> Body {
        if let Some(json) = json {
            self.0.push(if self.0.is_empty() { '{' } else { ',' });
            self.0.push_str(&format!("{}:{json}", Value::from(name)));
        }
        self
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0
    }
}

/// The parameters that were given, as JSON; `None` when none were.
pub(crate) fn params(args: &ParamsArgs) -> Result<Option<String>, Failure> {
    let wrong = Failure::argument("--params");
    let (mut text, mut keys) = match &args.params {
        None if args.param.is_empty() => return Ok(None),
        None => ("{}".to_owned(), Map::new()),
        Some(given) => {
            let text = params_text(given)?;
            let keys = serde_json::from_str::<Map<String, Value>>(&text).map_err(|error| {
                let finding = Finding::configuration(0..0, format!("no JSON object: {error}"));
                wrong(finding.help("such as `{\"width\": 300}`, `@FILE` or `-`"))
            })?;
            (text.trim().to_owned(), keys)
        }
    };
    for pair in &args.param {
        let wrong = Failure::argument("--param");
        let Some((key, value)) = pair.split_once('=') else {
            let message = format!("`{}` has no `=`", excerpt(pair));
            return Err(wrong(
                Finding::configuration(0..0, message).help("`--param KEY=VALUE` is expected"),
            ));
        };
        if keys.insert(key.to_owned(), Value::Null).is_some() {
            let message = format!("`{}` is given twice", excerpt(key));
            return Err(wrong(Finding::configuration(0..0, message)));
        }
        let value = match serde_json::from_str::<Value>(value) {
            Ok(_) => value.to_owned(),
            Err(_) => Value::from(value).to_string(),
        };
        // The object ends with a brace, before which there is room.
        text.pop();
        let comma = if text.trim_end() == "{" { "" } else { "," };
        text.push_str(&format!("{comma}{}:{value}}}", Value::from(key)));
    }
    Ok(Some(text))
}

fn params_text(given: &str) -> Result<String, Failure> {
    match given.strip_prefix('@') {
        Some(path) => {
            let path = Path::new(path);
            let refused = |source| ReadError::Io { path: path.to_owned(), source };
            let file = File::open(path).map_err(refused)?;
            bounded(file).map_err(refused).map_err(Failure::from)
        }
        None if given == "-" => {
            let refused = |source| ReadError::Io { path: "-".into(), source };
            bounded(io::stdin().lock()).map_err(refused).map_err(Failure::from)
        }
        None => Ok(given.to_owned()),
    }
}

/// A text that is not longer than what the daemon takes.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(BODY_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > BODY_BYTES_MAX {
        let message = format!("it has more than {BODY_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// The time before which a job may not start, if one was given.
pub(crate) fn not_before(args: &StartArgs) -> Result<Option<Timestamp>, Failure> {
    if let Some(text) = &args.at {
        return Ok(Some(crate::jobs::time("--at", Some(text))?.into()));
    }
    let Some(text) = &args.delay else { return Ok(None) };
    let wrong = Failure::argument("--delay");
    let delay = Seconds::parse(text).map_err(&wrong)?;
    let at = delay.get_signed().checked_mul(1_000);
    let at = at.and_then(|ms| Timestamp::from_unix_ms(clock::now_unix_ms().checked_add(ms)?));
    let late = || wrong(Finding::validation(0..0, "that is after the year 9999"));
    Ok(Some(at.ok_or_else(late)?))
}

/// A length of time given as an argument, in milliseconds.
pub(crate) fn duration_ms(name: &'static str, text: &str) -> Result<i64, Failure> {
    let seconds = Seconds::parse(text).map_err(Failure::argument(name))?;
    Ok(seconds.get_signed().saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(params: Option<&str>, param: &[&str]) -> Result<Option<String>, String> {
        let param = param.iter().map(|&text| text.to_owned()).collect();
        let args = ParamsArgs { params: params.map(str::to_owned), param };
        super::params(&args).map_err(|failure| failure.to_string())
    }

    #[test]
    fn parameters_are_sent_as_they_were_written() {
        for (params, param, expected) in [
            (None, &[][..], None),
            (Some("{}"), &[], Some("{}")),
            (
                Some(r#" {"a": 12345678901234567890123} "#),
                &[],
                Some(r#"{"a": 12345678901234567890123}"#),
            ),
            (Some(r#"{"a":1,"a":2}"#), &[], Some(r#"{"a":1,"a":2}"#)),
            (Some("{ }"), &["w=3"], Some(r#"{ "w":3}"#)),
            (
                None,
                &["w=3", "s=x y", "t=\"3\"", "e=", "j=[1,{}]", "n=null"],
                Some(r#"{"w":3,"s":"x y","t":"3","e":"","j":[1,{}],"n":null}"#),
            ),
            (Some(r#"{"a":1}"#), &["b=a=b"], Some(r#"{"a":1,"b":"a=b"}"#)),
            (None, &["\"=\""], Some(r#"{"\"":"\""}"#)),
        ] {
            assert_eq!(given(params, param).expect("sound").as_deref(), expected);
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (params, param, expected) in [
            (Some("[1]"), &[][..], "--params: no JSON object"),
            (Some("{"), &[], "--params: no JSON object"),
            (Some("{} {}"), &[], "--params: no JSON object"),
            (None, &["width"], "--param: `width` has no `=`"),
            (None, &["a=1", "a=2"], "--param: `a` is given twice"),
            (Some(r#"{"a":1}"#), &["a=2"], "--param: `a` is given twice"),
            (Some("@/nowhere/at/all"), &[], "/nowhere/at/all"),
        ] {
            let told = given(params, param).expect_err("unsound");
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn bodies_hold_what_was_given() {
        let body = Body::new().field("a", Some(1)).unwrap().field("b", None::<i64>).unwrap();
        assert_eq!(body.raw("c", Some("{}")).raw("d", None).finish(), r#"{"a":1,"c":{}}"#);
        assert_eq!(Body::new().finish(), "{}");
    }
}
