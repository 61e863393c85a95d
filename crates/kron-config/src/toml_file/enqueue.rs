//! Key `enqueue` of a job: what is put into the queue, with parameters of any shape.
//!
//! The bounds are the queue's own, so that what is loaded is never refused when its time comes.

use std::ops::RangeInclusive;

use kron_core::Finding;
use kron_core::finding::excerpt;
use serde_json::{Map, Number, Value as Json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::{in_file_order, kind_of, setting_value};
use crate::queue::{EnqueueSettings, check_job_type};
use crate::value;

const KEYS: [&str; 3] = ["type", "params", "priority"];

/// Bytes of a job's parameters as JSON.
const PARAMS_BYTES_MAX: usize = 256 * 1024;
/// How deeply arrays and objects in parameters may be nested, the outermost counted.
const PARAMS_DEPTH_MAX: usize = 32;
/// What priorities there are.
const PRIORITY: RangeInclusive<i64> = -1_000_000..=1_000_000;

/// What a job enqueues; `None` when it is at fault.
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    findings: &mut Vec<Finding>,
) -> Option<EnqueueSettings> {
    let DeValue::Table(table) = value.get_ref() else {
        let message = format!("expected a table, found {}", kind_of(value.get_ref()));
        let finding = Finding::configuration(value.span(), message);
        findings.push(finding.help("as in `enqueue = { type = \"resize\" }`"));
        return None;
    };
    let before = findings.len();
    let mut job_type = None;
    let mut params = Some("{}".into());
    let mut priority = 0;
    for (key, value) in in_file_order(table) {
        let word = key.get_ref().as_ref();
        let setting = setting_value(value.get_ref());
        let result = match word {
            "type" => value::text(&setting, &value.span()).and_then(|text| {
                job_type = Some(text.into());
                check_job_type(text, &value.span())
            }),
            "params" => {
                params = params_text(value, findings);
                Ok(())
            }
            "priority" => value::integer(&setting, &value.span()).and_then(|number| {
                priority = number;
                let message =
                    format!("`priority` goes from {} to {}", PRIORITY.start(), PRIORITY.end());
                let fault = || Finding::validation(value.span(), message);
                PRIORITY.contains(&number).then_some(()).ok_or_else(fault)
            }),
            _ => {
                let message = format!("unknown key `{}` of `enqueue`", excerpt(word));
                let all = format!("the keys of `enqueue` are {}", KEYS.join(", "));
                Err(Finding::configuration(key.span(), message).nearest(word, KEYS, all))
            }
        };
        findings.extend(result.err());
    }
    if !table.contains_key("type") {
        findings.push(
            Finding::configuration(value.span(), "`enqueue` without `type`")
                .help("as in `enqueue = { type = \"resize\" }`"),
        );
    }
    let sound = findings.len() == before;
    let settings = EnqueueSettings { job_type: job_type?, params: params?, priority };
    sound.then_some(settings)
}

/// Parameters as JSON; a table in, an object out.
fn params_text(value: &Spanned<DeValue<'_>>, findings: &mut Vec<Finding>) -> Option<Box<str>> {
    let DeValue::Table(table) = value.get_ref() else {
        let message = format!(
            "expected a table such as `{{ width = 300 }}`, found {}",
            kind_of(value.get_ref())
        );
        findings.push(Finding::configuration(value.span(), message));
        return None;
    };
    let before = findings.len();
    let object = object(table, PARAMS_DEPTH_MAX - 1, findings);
    if findings.len() > before {
        return None;
    }
    let text = object.to_string();
    if text.len() > PARAMS_BYTES_MAX {
        let message = format!(
            "`params` has {} bytes as JSON; at most {PARAMS_BYTES_MAX} are allowed",
            text.len()
        );
        findings.push(Finding::validation(value.span(), message));
        return None;
    }
    Some(text.into())
}

/// An object in which others may be nested `depth_left` deep.
fn object(table: &DeTable<'_>, depth_left: usize, findings: &mut Vec<Finding>) -> Json {
    let mut fields = Map::new();
    for (key, value) in in_file_order(table) {
        fields.insert(key.get_ref().as_ref().to_owned(), json(value, depth_left, findings));
    }
    Json::Object(fields)
}

/// A value as JSON; whatever when there is a finding.
fn json(value: &Spanned<DeValue<'_>>, depth_left: usize, findings: &mut Vec<Finding>) -> Json {
    let fault = match value.get_ref() {
        DeValue::Array(_) | DeValue::Table(_) if depth_left == 0 => {
            format!("`params` is nested more than {PARAMS_DEPTH_MAX} deep")
        }
        DeValue::Array(items) => {
            return items.iter().map(|item| json(item, depth_left - 1, findings)).collect();
        }
        DeValue::Table(table) => return object(table, depth_left - 1, findings),
        DeValue::String(text) => return Json::from(text.as_ref()),
        DeValue::Boolean(value) => return Json::from(*value),
        DeValue::Datetime(date) => return Json::from(date.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => return Json::from(number),
            Err(_) => "a whole number of more than 64 bits".to_owned(),
        },
        DeValue::Float(number) => match number.as_str().parse().ok().and_then(Number::from_f64) {
            Some(number) => return Json::Number(number),
            None => format!("JSON has no number `{}`", excerpt(number.as_str())),
        },
    };
    findings.push(Finding::validation(value.span(), fault));
    Json::Null
}
