//! `kubectl kron why`: why a period of a KronJob ran or did not.
//!
//! Everything that a cluster knows about it is gathered here, and [`story`] makes the answer of it.
//! Jobs and Events may be kept from whoever asks; the answer is then made without them, and says so.

mod story;

use std::io::Write;

use kron_operator::resource::{ConditionKind, LABEL_KRONJOB};
use krond::api::view::WhyView;
use serde::{Deserialize, Serialize};

use self::story::Asked;
use super::kronjobs::{self, KronJob, Metadata};
use super::kubectl::{Kubectl, KubectlError};
use super::period;
use crate::args::{OutputFormat, PluginWhyArgs};
use crate::clock;
use crate::command::why::write_text;
use crate::failure::{Exit, Failure};
use crate::text::{write_json, write_table};

/// Events that are shown, the latest ones.
const EVENTS_MAX: usize = 10;

pub(crate) fn run(
    args: &PluginWhyArgs,
    kubectl: &Kubectl<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let asked = match &args.period {
        Some(text) => Asked::At(period::time("PERIOD", Some(text))?),
        None => Asked::Now,
    };
    let kronjob = kronjobs::fetch_one(kubectl, &args.name)?;
    let Metadata { name, namespace, uid, .. } = &kronjob.metadata;
    let jobs =
        kubectl.select("jobs.batch", namespace, format!("--selector={LABEL_KRONJOB}={name}"));
    let events = kubectl.select(
        "events",
        namespace,
        format!("--field-selector=involvedObject.kind=KronJob,involvedObject.uid={uid}"),
    );
    let mut unseen = Vec::new();
    let jobs: Vec<JobObject> = seen("Jobs", jobs, &mut unseen)?;
    let mut events: Vec<EventObject> = seen("Events", events, &mut unseen)?;
    events.sort_by(|a, b| a.time().cmp(b.time()));
    events.drain(..events.len().saturating_sub(EVENTS_MAX));
    let story = story::tell(&kronjob, &jobs, asked, clock::now());
    let why = Why {
        is_known: story.is_known,
        job: story.job.map(JobRecord::of),
        active: story.active,
        conditions: conditions(&kronjob),
        events: events.iter().map(EventRecord::of).collect(),
        unseen,
        view: story.view,
    };
    match args.format {
        OutputFormat::Json => write_json(out, &why)?,
        OutputFormat::Text => why.write_text(out)?,
    }
    Ok(if why.is_known { Exit::Ok } else { Exit::No })
}

/// What was answered; or, where the cluster said no, nothing, and a word about that.
fn seen<T>(
    what: &'static str,
    answer: Result<Vec<T>, KubectlError>,
    unseen: &mut Vec<&'static str>,
) -> Result<Vec<T>, Failure> {
    match answer {
        Ok(objects) => Ok(objects),
        Err(KubectlError::Failed { .. } | KubectlError::Forbidden { .. }) => {
            unseen.push(what);
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

/// A Job, as far as it matters here.
#[derive(Debug, Deserialize)]
struct JobObject {
    metadata: Metadata,
    #[serde(default)]
    status: JobStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobStatus {
    start_time: Option<String>,
    completion_time: Option<String>,
    active: i32,
    succeeded: i32,
    failed: i32,
    conditions: Vec<JobCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
    last_transition_time: Option<String>,
}

impl JobObject {
    fn condition(&self, kind: &str) -> Option<&JobCondition> {
        self.status.conditions.iter().find(|it| it.kind == kind && it.status == "True")
    }

    /// How it stands, in a word.
    fn state(&self) -> &'static str {
        if self.condition("Complete").is_some() {
            "succeeded"
        } else if self.condition("Failed").is_some() {
            "failed"
        } else if self.metadata.deletion_timestamp.is_some() {
            "being deleted"
        } else if self.condition("Suspended").is_some() {
            "suspended"
        } else if self.status.active > 0 {
            "running"
        } else {
            "waiting for its pods"
        }
    }
}

/// An Event, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventObject {
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
    count: Option<i64>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<EventSeries>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventSeries {
    count: Option<i64>,
    last_observed_time: Option<String>,
}

impl EventObject {
    /// When it was last seen.
    fn time(&self) -> &str {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time.as_deref());
        let time = series.or(self.last_timestamp.as_deref()).or(self.event_time.as_deref());
        time.unwrap_or_default()
    }
}

/// The answer.
#[derive(Serialize)]
struct Why {
    #[serde(flatten)]
    view: WhyView,
    #[serde(skip)]
    is_known: bool,
    job: Option<JobRecord>,
    active: Vec<String>,
    conditions: Vec<ConditionRecord>,
    events: Vec<EventRecord>,
    /// What the cluster would not show.
    unseen: Vec<&'static str>,
}

#[derive(Serialize)]
struct JobRecord {
    name: String,
    state: &'static str,
    created_at: Option<String>,
    started_at: Option<String>,
    ended_at: Option<String>,
    pods_active: i32,
    pods_succeeded: i32,
    pods_failed: i32,
    reason: Option<String>,
    message: Option<String>,
}

impl JobRecord {
    fn of(job: &JobObject) -> JobRecord {
        let failed = job.condition("Failed");
        let ended = job.condition("Complete").or(failed);
        JobRecord {
            name: job.metadata.name.clone(),
            state: job.state(),
            created_at: job.metadata.creation_timestamp.map(|at| at.to_string()),
            started_at: job.status.start_time.clone(),
            ended_at: job
                .status
                .completion_time
                .clone()
                .or_else(|| ended.and_then(|it| it.last_transition_time.clone())),
            pods_active: job.status.active,
            pods_succeeded: job.status.succeeded,
            pods_failed: job.status.failed,
            reason: failed.and_then(|it| it.reason.clone()),
            message: failed.and_then(|it| it.message.clone()),
        }
    }
}

#[derive(Serialize)]
struct ConditionRecord {
    #[serde(rename = "type")]
    kind: ConditionKind,
    status: String,
    since: String,
    reason: String,
    message: String,
}

fn conditions(kronjob: &KronJob) -> Vec<ConditionRecord> {
    let conditions = kronjob.status.iter().flat_map(|status| &status.conditions);
    conditions
        .map(|condition| ConditionRecord {
            kind: condition.kind,
            status: condition.status.clone(),
            since: condition.last_transition_time.to_string(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
        .collect()
}

#[derive(Serialize)]
struct EventRecord {
    time: String,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
    count: i64,
}

impl EventRecord {
    fn of(event: &EventObject) -> EventRecord {
        let repeated = event.series.as_ref().and_then(|series| series.count);
        EventRecord {
            time: whole_seconds(event.time()),
            kind: event.kind.clone(),
            reason: event.reason.clone(),
            message: event.message.clone(),
            count: repeated.or(event.count).unwrap_or(1),
        }
    }
}

/// A time without what is less than a second of it.
fn whole_seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}

impl Why {
    fn write_text(&self, out: &mut dyn Write) -> Result<(), Failure> {
        write_text(out, &self.view)?;
        // Conditions that are as they should be say nothing.
        let telling = |it: &&ConditionRecord| {
            let should_be = if it.kind == ConditionKind::Ready { "True" } else { "False" };
            it.status != should_be
        };
        let conditions: Vec<Vec<String>> = self
            .conditions
            .iter()
            .filter(telling)
            .map(|it| {
                let what = format!("{:?}={}", it.kind, it.status);
                vec![what, it.since.clone(), it.reason.clone(), it.message.clone()]
            })
            .collect();
        let events: Vec<Vec<String>> = self
            .events
            .iter()
            .map(|event| {
                let count =
                    if event.count > 1 { format!(" (×{})", event.count) } else { String::new() };
                let message = event.message.replace('\n', " ");
                vec![event.time.clone(), event.reason.clone(), format!("{message}{count}")]
            })
            .collect();
        for (title, rows) in [("conditions", conditions), ("events", events)] {
            if !rows.is_empty() {
                writeln!(out, "\n{title}")?;
                write_table(out, "  ", &rows)?;
            }
        }
        for what in &self.unseen {
            writeln!(out, "\n{what} could not be looked at; what they tell is missing here")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_every_age_tell_when_and_how_often() {
        for (event, expected) in [
            (
                json!({"eventTime": "2026-11-16T03:36:00.004127Z", "lastTimestamp": null}),
                ("2026-11-16T03:36:00Z", 1),
            ),
            (
                json!({"eventTime": null, "lastTimestamp": "2026-11-16T03:36:00Z", "count": 7}),
                ("2026-11-16T03:36:00Z", 7),
            ),
            (
                json!({
                    "eventTime": "2026-11-16T03:36:00.000000Z",
                    "series": {"count": 3, "lastObservedTime": "2026-11-16T03:38:00.500000Z"},
                }),
                ("2026-11-16T03:38:00Z", 3),
            ),
        ] {
            let event: EventObject = serde_json::from_value(event).unwrap();
            let record = EventRecord::of(&event);
            assert_eq!((record.time.as_str(), record.count), expected);
        }
    }
}
