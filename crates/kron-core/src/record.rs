//! Requests and decisions as data: what `kron decide` reads and writes, and what a log's
//! `decision` event carries.
//!
//! The names of the fields are fixed: tools, logs and other parts of Kron rely on them. A record
//! contains everything needed to decide again, so that any recorded decision can be replayed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::constraint::{ConstraintParser, Constraints, Side};
use crate::decision::{Decision, Placement, UNSCHEDULABLE_REASON};
use crate::distribution::Parameter;
use crate::duration::Seconds;
use crate::expression::{Argument, TimingParser, distribution_of, word};
use crate::finding::{Finding, Piece, excerpt};
use crate::seed::SeedStrategy;
use crate::time::UtcSecond;
use crate::window::{Window, WindowMode};
use crate::zone::tzdb_version;

/// A request for one decision. Everything but `identity` and `nominal_time` has a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// The job's identity.
    pub identity: Option<String>,
    /// The nominal time, RFC 3339.
    pub nominal_time: Option<String>,
    /// The exact name of the zone; `UTC` by default.
    pub timezone: Option<String>,
    /// `after` (the default), `around` or `before`.
    pub window_mode: Option<String>,
    /// The window's length; `0s` by default.
    pub window_duration: Option<String>,
    /// The distribution; uniform by default.
    #[serde(deserialize_with = "object")]
    pub distribution: Option<DistributionRecord>,
    /// `stable` (the default), `daily`, `weekly` or `fixed`.
    pub seed_strategy: Option<String>,
    /// The salt, taken literally; empty by default.
    pub salt: Option<String>,
    /// The constraints; none by default.
    #[serde(deserialize_with = "object")]
    pub constraints: Option<ConstraintsRecord>,
}

/// A distribution's name and parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionRecord {
    /// The name.
    pub name: String,
    /// The parameters; absent ones have defaults.
    #[serde(default, deserialize_with = "parameters")]
    pub params: Option<BTreeMap<String, ParameterRecord>>,
}

/// A parameter's value: a number or a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a parameter is a number or a text")]
pub enum ParameterRecord {
    /// A whole number, so that 2 is written `2`.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A word, a duration, or a number as text.
    Text(String),
}

/// The two sides of a job's constraints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConstraintsRecord {
    /// The allowed set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<ClausesRecord>,
    /// The forbidden set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avoid: Option<ClausesRecord>,
}

/// Clauses as one text with `;` or as a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "clauses are a text or a list of texts")]
pub enum ClausesRecord {
    /// Clauses separated by `;`.
    Text(String),
    /// A list of clauses.
    List(Vec<String>),
}

/// Reads an object or null. Without this, serde would take a list as the fields in their order.
fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Object<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    deserializer.deserialize_any(Object(PhantomData))
}

/// Reads parameters, each once.
fn parameters<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, ParameterRecord>>, D::Error> {
    struct Parameters;
    impl<'de> Visitor<'de> for Parameters {
        type Value = Option<BTreeMap<String, ParameterRecord>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of parameters")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut parameters = BTreeMap::new();
            while let Some((name, value)) = map.next_entry::<String, ParameterRecord>()? {
                if parameters.contains_key(&name) {
                    let message = format!("the parameter `{}` is given twice", excerpt(&name));
                    return Err(serde::de::Error::custom(message));
                }
                parameters.insert(name, value);
            }
            Ok(Some(parameters))
        }
    }
    deserializer.deserialize_any(Parameters)
}

impl Request {
    /// The request that a placement answers with [`Placement::decide`].
    #[must_use]
    pub fn of(placement: &Placement, nominal: UtcSecond) -> Request {
        let clauses = |side| {
            let clauses = placement.constraints().clauses(side);
            (!clauses.is_empty()).then_some(ClausesRecord::List(clauses))
        };
        let constraints =
            ConstraintsRecord { only: clauses(Side::Only), avoid: clauses(Side::Avoid) };
        Request {
            identity: Some(placement.identity().to_owned()),
            nominal_time: Some(nominal.to_string()),
            timezone: Some(placement.zone().name().to_owned()),
            window_mode: Some(placement.window().mode().as_str().to_owned()),
            window_duration: Some(placement.window().length().to_string()),
            distribution: Some(DistributionRecord::of(placement)),
            seed_strategy: Some(placement.seed_strategy().as_str().to_owned()),
            salt: Some(placement.salt().to_owned()),
            constraints: Some(constraints),
        }
    }

    /// The placement and nominal time that this request asks about. `parser` remembers zones.
    ///
    /// # Errors
    /// The first fault, with its category.
    pub fn resolve(&self, parser: &mut TimingParser) -> Result<(Placement, UtcSecond), Finding> {
        fn required<'a>(name: &str, value: Option<&'a String>) -> Result<&'a str, Finding> {
            value
                .map(String::as_str)
                .ok_or_else(|| Finding::configuration(0..0, format!("`{name}` is missing")))
        }
        let named = |name: &'static str| {
            move |mut finding: Finding| {
                finding.message = format!("{name}: {}", finding.message);
                finding
            }
        };
        let identity = required("identity", self.identity.as_ref())?;
        let nominal_time = required("nominal_time", self.nominal_time.as_ref())?;
        let nominal = UtcSecond::parse(nominal_time).map_err(named("nominal_time"))?;
        let zone = parser
            .zone(Piece::whole(self.timezone.as_deref().unwrap_or("UTC")))
            .map_err(named("timezone"))?;
        let mode = self.window_mode.as_deref().unwrap_or("after");
        let mode = word("window mode", mode, &(0..mode.len()), &WindowMode::WORDS)?;
        let length = self.window_duration.as_deref().unwrap_or("0s");
        let length = Seconds::parse(length).map_err(named("window_duration"))?;
        let window = Window::new(mode, length).map_err(named("window_duration"))?;
        let distribution = match &self.distribution {
            None => Default::default(),
            Some(record) => {
                let texts = record.params.iter().flatten().map(|(key, value)| Argument {
                    key: Some(Piece::whole(key)),
                    value: value.text(),
                    span: 0..0,
                });
                distribution_of(&record.name, &(0..record.name.len()), &texts.collect::<Vec<_>>())
                    .map_err(named("distribution"))?
            }
        };
        let strategy = self.seed_strategy.as_deref().unwrap_or("stable");
        let strategy = word("seed strategy", strategy, &(0..strategy.len()), &SeedStrategy::WORDS)?;
        let constraints = match &self.constraints {
            None => Constraints::none(),
            Some(record) => record.resolve().map_err(named("constraints"))?,
        };
        let placement = Placement::new(identity, zone)
            .map_err(named("identity"))?
            .with_spread(window, distribution)
            .map_err(named("distribution"))?
            .with_salt(self.salt.as_deref().unwrap_or(""))
            .map_err(named("salt"))?
            .with_seed_strategy(strategy)
            .with_constraints(constraints);
        Ok((placement, nominal))
    }
}

impl ParameterRecord {
    fn text(&self) -> Cow<'_, str> {
        match self {
            ParameterRecord::Integer(number) => number.to_string().into(),
            ParameterRecord::Number(number) => number.to_string().into(),
            ParameterRecord::Text(text) => text.into(),
        }
    }
}

impl ConstraintsRecord {
    fn resolve(&self) -> Result<Constraints, Finding> {
        let mut parser = ConstraintParser::default();
        let mut findings = Vec::new();
        for (side, clauses) in [(Side::Only, &self.only), (Side::Avoid, &self.avoid)] {
            match clauses {
                None => {}
                Some(ClausesRecord::Text(text)) => {
                    parser.side(side, Piece::whole(text), &mut findings);
                }
                Some(ClausesRecord::List(list)) => {
                    for text in list {
                        parser.side(side, Piece::whole(text), &mut findings);
                    }
                }
            }
        }
        match findings.into_iter().find(Finding::is_error) {
            Some(finding) => Err(finding),
            None => Ok(parser.finish()),
        }
    }
}

impl DistributionRecord {
    /// A placement's distribution with every default filled in.
    #[must_use]
    pub fn of(placement: &Placement) -> DistributionRecord {
        let distribution = placement.distribution();
        let params = distribution
            .parameters(placement.window())
            .into_iter()
            .map(|(name, value)| {
                let value = match value {
                    Parameter::Number(number) if number == number.trunc() => {
                        ParameterRecord::Integer(number as i64)
                    }
                    Parameter::Number(number) => ParameterRecord::Number(number),
                    Parameter::Word(word) => ParameterRecord::Text(word.to_owned()),
                    Parameter::Duration(duration) => ParameterRecord::Text(duration.to_string()),
                };
                (name.to_owned(), value)
            })
            .collect();
        DistributionRecord { name: distribution.name().to_owned(), params: Some(params) }
    }
}

/// A decision as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The period: its nominal time.
    pub period_id: String,
    /// The nominal time.
    pub nominal_time: String,
    /// First second of the window.
    pub window_start: String,
    /// Last second of the window.
    pub window_end: String,
    /// The chosen time; null when unschedulable.
    pub chosen_time: Option<String>,
    /// Whether no candidate was allowed.
    pub unschedulable: bool,
    /// Why there is no chosen time; null when there is one.
    pub reason: Option<String>,
    /// The zone as written.
    pub timezone: String,
    /// The distribution with defaults filled in.
    pub distribution: DistributionRecord,
    /// The seed strategy.
    pub seed_strategy: String,
    /// The salt.
    pub salt: String,
    /// What the seed was renewed by.
    pub period_key: String,
    /// The seed.
    pub seed_hash: String,
    /// Candidates tried.
    pub attempts: u32,
    /// The constraints in canonical form.
    pub constraints_applied: AppliedRecord,
    /// The version of the zone database.
    pub tzdb: String,
}

/// Canonical clauses; both sides are always there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRecord {
    /// The allowed set.
    pub only: Vec<String>,
    /// The forbidden set.
    pub avoid: Vec<String>,
}

impl DecisionRecord {
    /// The record of a decision that `placement` made.
    #[must_use]
    pub fn of(placement: &Placement, decision: &Decision) -> DecisionRecord {
        let unschedulable = decision.chosen.is_none();
        DecisionRecord {
            period_id: decision.period_id(),
            nominal_time: decision.nominal.to_string(),
            window_start: decision.window_start.to_string(),
            window_end: decision.window_end.to_string(),
            chosen_time: decision.chosen.map(|chosen| chosen.to_string()),
            unschedulable,
            reason: unschedulable.then(|| UNSCHEDULABLE_REASON.to_owned()),
            timezone: placement.zone().name().to_owned(),
            distribution: DistributionRecord::of(placement),
            seed_strategy: placement.seed_strategy().as_str().to_owned(),
            salt: placement.salt().to_owned(),
            period_key: decision.period_key.as_str().to_owned(),
            seed_hash: decision.seed_hash.to_string(),
            attempts: decision.attempts,
            constraints_applied: AppliedRecord {
                only: placement.constraints().clauses(Side::Only),
                avoid: placement.constraints().clauses(Side::Avoid),
            },
            tzdb: tzdb_version().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_objects_all_the_way_down_and_say_things_once() {
        let read = |part: &str| {
            let text =
                format!("{{\"identity\":\"a\",\"nominal_time\":\"2026-03-01T00:00:00Z\",{part}}}");
            serde_json::from_str::<Request>(&text)
        };
        for good in [
            r#""distribution":null,"constraints":null,"salt":null"#,
            r#""distribution":{"name":"uniform","params":null}"#,
            r#""distribution":{"name":"skewEarly","params":{"shape":"2.5"}}"#,
            r#""constraints":{"only":[],"avoid":"hours=1;dow=MON"}"#,
        ] {
            let request = read(good).expect(good);
            request.resolve(&mut TimingParser::new()).expect(good);
        }
        for bad in [
            r#""distribution":["skewEarly"]"#,
            r#""distribution":"uniform""#,
            r#""distribution":{"params":{}}"#,
            r#""distribution":{"name":"skewEarly","params":[["shape",2]]}"#,
            r#""distribution":{"name":"skewEarly","params":{"shape":2,"shape":3}}"#,
            r#""distribution":{"name":"uniform","name":"normal"}"#,
            r#""constraints":["hours=0"]"#,
            r#""constraints":{"only":5}"#,
            r#""constraints":{"never":"hours=1"}"#,
            r#""window_duration":60"#,
            r#""salt":"a","salt":"b""#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
