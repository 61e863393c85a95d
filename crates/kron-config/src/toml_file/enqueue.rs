//! Key `enqueue` of a job: what is put into the queue, with parameters of any shape.
//!
//! The bounds are the queue's own, so that what is loaded is never refused when its time comes.

use std::ops::RangeInclusive;

use kron_core::Finding;
use kron_core::finding::excerpt;
use toml::Spanned;
use toml::de::DeValue;

use super::json::Bounds;
use super::values::{in_file_order, kind_of, setting_value};
use crate::queue::handler::Owner;
use crate::queue::{EnqueueSettings, check_type};
use crate::value;

const KEYS: [&str; 3] = ["type", "params", "priority"];

/// What a job may be told.
const PARAMS: Bounds = Bounds { key: "params", bytes_max: 256 * 1024, depth_max: 32 };
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
                check_type(Owner::Queue.type_word(), text, &value.span())
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
    if !value.get_ref().is_table() {
        let message = format!(
            "expected a table such as `{{ width = 300 }}`, found {}",
            kind_of(value.get_ref())
        );
        findings.push(Finding::configuration(value.span(), message));
        return None;
    }
    PARAMS.json_text(value, findings)
}
