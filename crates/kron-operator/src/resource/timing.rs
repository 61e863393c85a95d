//! From a spec to a [`Timing`]: the engine reads every field as it reads a job file, and each fault
//! names the field it is in.

use std::borrow::Cow;
use std::fmt;

use kron_core::{Argument, Draft, Finding, Host, Modifier, Piece, Timing, TimingParser};
use serde_json::Value;

use super::KronJobSpec;

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field's path, such as `spec.window`.
    pub field: &'static str,
    /// What is wrong, and what helps.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// The timing of a KronJob with this identity (`namespace/name`).
///
/// # Errors
/// Every fault that the engine found.
pub fn timing(
    parser: &mut TimingParser,
    identity: &str,
    spec: &KronJobSpec,
) -> Result<Timing, Vec<Fault>> {
    let mut faults = Faults::default();
    // Salts may not name the host: a KronJob runs on none in particular.
    let mut draft = Draft::new(identity, Host::default());
    let schedule = spec.schedule.trim();
    faults.gather("spec.schedule", |findings| {
        let rest =
            parser.expression(&mut draft, Piece::whole(schedule), kron_core::Fields::Any, findings);
        let nickname = schedule.starts_with('@') && !schedule.contains('(');
        if !rest.text.is_empty() || (schedule.contains('@') && !nickname) {
            findings.push(
                Finding::configuration(0..schedule.len(), "only cron fields belong here").help(
                    "the zone, the window and everything else have fields of their own, such as \
                     `spec.timeZone`",
                ),
            );
        }
    });
    let mut say = |field, modifier, arguments: &[(&'static str, &str)]| {
        let arguments: Vec<Argument<'_>> = arguments
            .iter()
            .map(|(key, value)| Argument {
                key: (!key.is_empty()).then(|| Piece::whole(key)),
                value: Cow::Borrowed(value),
                span: 0..value.len(),
            })
            .collect();
        faults.gather(field, |findings| {
            parser.modifier(&mut draft, modifier, &arguments, 0..0, findings);
        });
    };
    say("spec.timeZone", Modifier::Tz, &[("", &spec.time_zone)]);
    let window = &spec.window;
    say("spec.window", Modifier::Win, &[("", &window.mode), ("", &window.duration)]);
    let params = &spec.distribution.params;
    let number = |value: &Option<Value>| match value {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    let named = [
        ("shape", number(&params.shape)),
        ("lambda", number(&params.lambda)),
        ("dir", params.dir.clone()),
        ("mu", params.mu.clone()),
        ("sigma", params.sigma.clone()),
    ];
    let mut arguments = vec![("", &*spec.distribution.name)];
    arguments.extend(named.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?))));
    say("spec.distribution", Modifier::Dist, &arguments);
    let seed = &spec.seed;
    say("spec.seed", Modifier::Seed, &[("", &seed.strategy), ("salt", &seed.salt)]);
    let dst = &spec.dst;
    say("spec.dst", Modifier::Dst, &[("gap", &dst.gap), ("overlap", &dst.overlap)]);
    let policy = &spec.policy;
    let suspend = if policy.suspend { "true" } else { "false" };
    say(
        "spec.policy",
        Modifier::Policy,
        &[
            ("concurrency", &policy.concurrency),
            ("deadline", &policy.deadline),
            ("suspend", suspend),
        ],
    );
    let sides = [
        ("spec.constraints.only", Modifier::Only, &spec.constraints.only),
        ("spec.constraints.avoid", Modifier::Avoid, &spec.constraints.avoid),
    ];
    for (field, modifier, clauses) in sides {
        for clause in clauses {
            faults.gather(field, |findings| {
                parser.modifier_text(&mut draft, modifier, Piece::whole(clause), findings);
            });
        }
    }
    // What is left to find is about how the fields go together; the window is most of it.
    let mut timing = None;
    faults.gather("spec", |findings| timing = parser.finish(draft, findings));
    match timing {
        Some(timing) if faults.0.is_empty() => Ok(timing),
        _ => Err(faults.0),
    }
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn gather(&mut self, field: &'static str, read: impl FnOnce(&mut Vec<Finding>)) {
        let mut findings = Vec::new();
        read(&mut findings);
        self.0.extend(findings.into_iter().filter(Finding::is_error).map(|finding| {
            let message = match &finding.help {
                Some(help) => format!("{} ({help})", finding.message),
                None => finding.message.clone(),
            };
            Fault { field, message }
        }));
    }
}
