//! Where web requests go and what they carry beside their own: the keys `url` and `headers` of
//! hooks, webhooks and handlers.
//!
//! Nothing is connected to here. No message shows the value of a header, nor the parts of an
//! address in which secrets are put.

use std::ops::Range;

use kron_core::Finding;
use kron_core::finding::excerpt;

use crate::value::{self, Value, wrong_kind};

/// Headers that a request may have beside its own.
const HEADERS_MAX: usize = 64;
/// Headers that follow from what is sent, or from whom it is sent to.
const RESERVED: [&str; 5] =
    ["Connection", "Content-Length", "Content-Type", "Host", "Transfer-Encoding"];
/// What the names of Kron's own headers begin with.
const OWN_PREFIX: &str = "x-kron-";

/// Names and values.
pub(crate) type Headers = Vec<(String, String)>;

/// An address of the web: `http://` or `https://`, a host, and nothing that ends a line.
pub(crate) fn url(value: &Value<'_>, span: &Range<usize>) -> Result<String, Finding> {
    let text = value::text(value, span)?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    let fault = if rest.is_none() {
        "is neither `http://` nor `https://`"
    } else if host.is_empty() {
        "has no host"
    } else if host.contains('@') {
        "has a user or password in it, which would be logged; use `headers`"
    } else if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        "has a space or control character"
    } else {
        return Ok(text.to_owned());
    };
    let shown =
        if has_key(text) { "the address".to_owned() } else { format!("`{}`", excerpt(text)) };
    Err(Finding::validation(span.clone(), format!("{shown} {fault}")))
}

/// Whether an address has a place in which secrets are put: before an `@`, or behind a `?`.
pub(crate) fn has_key(address: &str) -> bool {
    address.contains(['@', '?'])
}

pub(crate) fn headers(value: &Value<'_>, span: &Range<usize>) -> Result<Headers, Vec<Finding>> {
    let Value::Table(entries) = value else {
        return Err(vec![wrong_kind(value, span, "a table such as `{ X-Key = \"…\" }`")]);
    };
    if entries.len() > HEADERS_MAX {
        let message = format!("more than {HEADERS_MAX} headers");
        return Err(vec![Finding::validation(span.clone(), message)]);
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let mut headers = Vec::new();
    let mut faults = Vec::new();
    for (key, value, span) in entries {
        match value::inner_text(value, span) {
            Err(finding) => faults.push(finding),
            Ok(_) if key.text.is_empty() || !key.text.chars().all(is_token) => {
                faults.push(Finding::validation(
                    key.span(),
                    format!("`{}` is no header's name", excerpt(key.text)),
                ));
            }
            Ok(_) if is_reserved(key.text) => {
                let message = format!("`{}` is set by krond itself", key.text);
                faults.push(Finding::validation(key.span(), message));
            }
            Ok(text) if text.chars().any(|c| c.is_control() || !c.is_ascii()) => faults.push(
                Finding::validation(span.clone(), "a header with a character that it cannot hold"),
            ),
            Ok(text) => headers.push((key.text.to_owned(), text.to_owned())),
        }
    }
    if faults.is_empty() { Ok(headers) } else { Err(faults) }
}

/// Whether Kron itself says what stands in this header.
fn is_reserved(name: &str) -> bool {
    let own = name.get(..OWN_PREFIX.len());
    own.is_some_and(|start| start.eq_ignore_ascii_case(OWN_PREFIX))
        || RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}
