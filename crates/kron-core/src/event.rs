//! The `decision` event of a log: a request and its answer in one line, as JSON or as `key=value`
//! text, and back.
//!
//! The line carries every field of both, so that anybody can compute the decision again. Where a
//! request and a decision share a field (the zone, the distribution with its defaults filled in)
//! it stands once.

use serde_json::{Map, Value};

use crate::decision::{Decision, Placement};
use crate::expression::TimingParser;
use crate::finding::{Finding, excerpt, foreign_message};
use crate::record::{DecisionRecord, Request};

/// Fields whose text is JSON in a `key=value` line.
const STRUCTURED: [&str; 3] = ["distribution", "constraints", "constraints_applied"];
/// Fields that may be null, and are left out of a `key=value` line when they are.
const NULLABLE: [&str; 2] = ["chosen_time", "reason"];

/// A decision as a log tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionEvent {
    fields: Map<String, Value>,
}

/// A field in which a recorded decision differs from the one computed now.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The field.
    pub field: String,
    /// What was recorded; `None` when the field is missing.
    pub recorded: Option<Value>,
    /// What comes out now.
    pub computed: Value,
}

impl DecisionEvent {
    /// The event of a decision that `placement` made.
    #[must_use]
    pub fn of(placement: &Placement, decision: &Decision) -> DecisionEvent {
        let mut fields = Map::new();
        fields.insert("event".to_owned(), "decision".into());
        // Serialising plain data into a `Value` cannot fail.
        let request = serde_json::to_value(Request::of(placement, decision.nominal));
        let record = serde_json::to_value(DecisionRecord::of(placement, decision));
        for part in [request, record] {
            if let Ok(Value::Object(part)) = part {
                fields.extend(part);
            }
        }
        DecisionEvent { fields }
    }

    /// The fields, `event` among them.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The event in `line`, if it is a `decision` event in either form.
    ///
    /// # Errors
    /// A configuration error when the line says it is one and cannot be read.
    pub fn parse(line: &str) -> Result<Option<DecisionEvent>, Finding> {
        let broken = |what: &str| Finding::configuration(0..line.len(), what.to_owned());
        let fields = if line.trim_start().starts_with('{') {
            match serde_json::from_str(line) {
                Ok(Value::Object(fields)) => fields,
                Ok(_) => return Ok(None),
                Err(_) if !line.contains("decision") => return Ok(None),
                Err(error) => {
                    let error = foreign_message(&error.to_string());
                    return Err(broken(&format!("not a JSON object: {error}")));
                }
            }
        } else {
            if !line.split_whitespace().any(|word| word == "event=decision") {
                return Ok(None);
            }
            text_fields(line)?
        };
        if fields.get("event").and_then(Value::as_str) != Some("decision") {
            return Ok(None);
        }
        Ok(Some(DecisionEvent { fields }))
    }

    /// `key=value` pairs, quoted where needed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut words = Vec::with_capacity(self.fields.len());
        let first = ["event", "identity", "period_id"];
        let rest = self.fields.keys().map(String::as_str).filter(|key| !first.contains(key));
        for key in first.into_iter().chain(rest) {
            let text = match self.fields.get(key) {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            words.push(format!("{key}={}", quoted(&text)));
        }
        words.join(" ")
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        Value::Object(self.fields.clone()).to_string()
    }

    /// The request this event records.
    ///
    /// # Errors
    /// A configuration error when a field is missing or of the wrong kind.
    pub fn request(&self) -> Result<Request, Finding> {
        let names = [
            "identity",
            "nominal_time",
            "timezone",
            "window_mode",
            "window_duration",
            "distribution",
            "seed_strategy",
            "salt",
            "constraints",
        ];
        let mut fields = Map::new();
        for name in names {
            let Some(value) = self.fields.get(name) else {
                return Err(Finding::configuration(0..0, format!("the event has no `{name}`")));
            };
            fields.insert(name.to_owned(), value.clone());
        }
        serde_json::from_value(Value::Object(fields))
            .map_err(|error| Finding::configuration(0..0, foreign_message(&error.to_string())))
    }

    /// The version of the zone database the decision was made with.
    #[must_use]
    pub fn tzdb(&self) -> Option<&str> {
        self.fields.get("tzdb").and_then(Value::as_str)
    }

    /// Decides again and says where the outcome differs. The zone database's version is an input
    /// that cannot be chosen here, and does not count as a difference of its own.
    ///
    /// # Errors
    /// When the recorded request is not one.
    pub fn replay(&self, parser: &mut TimingParser) -> Result<Vec<Difference>, Finding> {
        let (placement, nominal) = self.request()?.resolve(parser)?;
        let decision = placement.decide(nominal)?;
        let computed = serde_json::to_value(DecisionRecord::of(&placement, &decision))
            .map_err(|error| Finding::configuration(0..0, foreign_message(&error.to_string())))?;
        let mut differences = Vec::new();
        for (field, computed) in computed.as_object().into_iter().flatten() {
            let recorded = self.fields.get(field);
            let absent_null =
                recorded.is_none() && computed.is_null() && NULLABLE.contains(&field.as_str());
            let same = recorded.is_some_and(|recorded| equal(recorded, computed));
            if field != "tzdb" && !absent_null && !same {
                differences.push(Difference {
                    field: field.clone(),
                    recorded: recorded.cloned(),
                    computed: computed.clone(),
                });
            }
        }
        Ok(differences)
    }
}

/// Whether two values are the same, numbers by value: whoever stored the log may have written `2`
/// as `2.0`.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// A value as it stands in a `key=value` line of a log: as it is, or as a JSON string where blanks,
/// quotes or control characters would make it ambiguous.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text
            .chars()
            .all(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\'));
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// The fields of a `key=value` line; words without `=`, such as the time, are passed over.
fn text_fields(line: &str) -> Result<Map<String, Value>, Finding> {
    let mut fields = Map::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let word_end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let Some(equals) = rest[..word_end].find('=') else {
            rest = rest[word_end..].trim_start();
            continue;
        };
        let (key, after) = (&rest[..equals], &rest[equals + 1..]);
        let (text, after) = if after.starts_with('"') {
            let mut values = serde_json::Deserializer::from_str(after).into_iter::<String>();
            match values.next() {
                Some(Ok(text)) => (text, &after[values.byte_offset()..]),
                _ => {
                    return Err(Finding::configuration(
                        0..0,
                        format!("the value of `{}` is not a quoted text", excerpt(key)),
                    ));
                }
            }
        } else {
            let end = after.find(char::is_whitespace).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        };
        fields.insert(key.to_owned(), typed(key, text)?);
        rest = after.trim_start();
    }
    Ok(fields)
}

/// A field's text as the kind of value the field has.
fn typed(key: &str, text: String) -> Result<Value, Finding> {
    if STRUCTURED.contains(&key) || matches!(key, "attempts" | "unschedulable") {
        return serde_json::from_str(&text).map_err(|error| {
            let error = foreign_message(&error.to_string());
            Finding::configuration(0..0, format!("the value of `{key}` is not JSON: {error}"))
        });
    }
    Ok(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    fn events() -> Vec<DecisionEvent> {
        let mut parser = TimingParser::new();
        let texts = [
            "0 3 * * *",
            "0 3 * * * @tz(Europe/Paris) @win(around,90m) @dist(skewLate,shape=2.5) @seed(daily,salt=\"a b=\\\"c\\\"\")",
            "0 3 * * * @win(after,2h) @dist(normal,mu=end) @only(hours=3;dow=MON-FRI) @avoid(dom=1)",
            "0 3 * * * @only(hours=5)",
        ];
        let mut events = Vec::new();
        for text in texts {
            let timing = parser.parse(text, "a job=\"x\"", Host::default()).unwrap();
            let from = "2026-03-01T00:00:00Z".parse().unwrap();
            for decision in timing.periods_after(from).take(3) {
                events.push(DecisionEvent::of(timing.placement(), &decision));
            }
        }
        events
    }

    #[test]
    fn both_forms_are_read_back_and_replay_without_difference() {
        let mut parser = TimingParser::new();
        for event in events() {
            let text = format!("2026-03-01T00:00:00.000000001Z level=info {}", event.to_text());
            for line in [text, event.to_json()] {
                let read = DecisionEvent::parse(&line).unwrap().unwrap();
                assert_eq!(read.replay(&mut parser).unwrap(), [], "{line}");
                assert_eq!(read.request().unwrap(), event.request().unwrap());
            }
        }
    }

    #[test]
    fn a_changed_field_is_noticed() {
        let mut parser = TimingParser::new();
        for event in events() {
            for field in ["chosen_time", "seed_hash", "attempts", "window_end", "period_key"] {
                let mut changed = event.clone();
                changed.fields.insert(field.to_owned(), "x".into());
                let differences = changed.replay(&mut parser).unwrap();
                assert_eq!(differences.len(), 1);
                assert_eq!(differences[0].field, field);
            }
            let mut changed = event.clone();
            changed.fields.insert("tzdb".to_owned(), "1999a".into());
            let attempts = changed.fields["attempts"].as_f64().unwrap();
            changed.fields.insert("attempts".to_owned(), Value::from(attempts));
            assert_eq!(changed.replay(&mut parser).unwrap(), []);
            changed.fields.remove("seed_hash");
            assert_eq!(changed.replay(&mut parser).unwrap().len(), 1);
            changed.fields.remove("identity");
            assert!(changed.replay(&mut parser).is_err());
        }
    }

    #[test]
    fn other_lines_are_passed_over_and_broken_ones_are_not() {
        for line in
            ["", "hello", "{}", "[1]", "{\"event\":\"start\"}", "x event=start a=\"b", "{nonsense"]
        {
            assert_eq!(DecisionEvent::parse(line), Ok(None), "{line}");
        }
        for line in
            ["event=decision salt=\"x", "{\"event\":\"decision\"", "event=decision attempts=x"]
        {
            assert!(DecisionEvent::parse(line).is_err(), "{line}");
        }
    }
}
