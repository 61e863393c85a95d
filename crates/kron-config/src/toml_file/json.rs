//! TOML values as JSON, for what a job hands over: tables become objects, dates and times texts.
//!
//! The result is bounded in size and depth, so that whoever takes it never refuses it later.

use kron_core::Finding;
use kron_core::finding::excerpt;
use serde_json::{Map, Number, Value as Json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::in_file_order;

/// How large the value of a key may be.
pub(super) struct Bounds {
    /// The key, for messages.
    pub(super) key: &'static str,
    /// Bytes as JSON.
    pub(super) bytes_max: usize,
    /// How deeply arrays and objects may be nested, the outermost counted.
    pub(super) depth_max: usize,
}

impl Bounds {
    /// A value as JSON text; `None` when it is at fault.
    pub(super) fn json_text(
        &self,
        value: &Spanned<DeValue<'_>>,
        findings: &mut Vec<Finding>,
    ) -> Option<Box<str>> {
        let before = findings.len();
        let json = self.json(value, self.depth_max, findings);
        if findings.len() > before {
            return None;
        }
        let text = json.to_string();
        if text.len() > self.bytes_max {
            let message = format!(
                "`{}` has {} bytes as JSON; at most {} are allowed",
                self.key,
                text.len(),
                self.bytes_max
            );
            findings.push(Finding::validation(value.span(), message));
            return None;
        }
        Some(text.into())
    }

    /// A value as JSON, nested at most `depth_left` deep; whatever when there is a finding.
    fn json(
        &self,
        value: &Spanned<DeValue<'_>>,
        depth_left: usize,
        findings: &mut Vec<Finding>,
    ) -> Json {
        let fault = match value.get_ref() {
            DeValue::Array(_) | DeValue::Table(_) if depth_left == 0 => {
                format!("`{}` is nested more than {} deep", self.key, self.depth_max)
            }
            DeValue::Array(items) => {
                return items
                    .iter()
                    .map(|item| self.json(item, depth_left - 1, findings))
                    .collect();
            }
            DeValue::Table(table) => return self.object(table, depth_left - 1, findings),
            DeValue::String(text) => return Json::from(text.as_ref()),
            DeValue::Boolean(value) => return Json::from(*value),
            DeValue::Datetime(date) => return Json::from(date.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => return Json::from(number),
                    Err(_) => "a whole number of more than 64 bits".to_owned(),
                }
            }
            DeValue::Float(number) => {
                match number.as_str().parse().ok().and_then(Number::from_f64) {
                    Some(number) => return Json::Number(number),
                    None => format!("JSON has no number `{}`", excerpt(number.as_str())),
                }
            }
        };
        findings.push(Finding::validation(value.span(), fault));
        Json::Null
    }

    /// An object in which others may be nested `depth_left` deep.
    fn object(&self, table: &DeTable<'_>, depth_left: usize, findings: &mut Vec<Finding>) -> Json {
        let mut fields = Map::new();
        for (key, value) in in_file_order(table) {
            let json = self.json(value, depth_left, findings);
            fields.insert(key.get_ref().as_ref().to_owned(), json);
        }
        Json::Object(fields)
    }
}
