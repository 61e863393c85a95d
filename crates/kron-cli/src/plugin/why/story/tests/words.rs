//! The recorded status and Events have the words of the operator: its planner says the same.

use kron_operator::job::period_of;
use kron_operator::plan::{
    Definition, JOB_AGE_S_MIN, JobState, Keep, Note, OwnedJob, Step, Subject, plan,
};

use super::*;

const EVENTS: &str = include_str!("../../../../../tests/fixtures/cluster/events-poll.json");

/// What the operator stores and tells at a time, of the recorded KronJob with this status.
fn operator(status: &Value, jobs: &[OwnedJob], now: &str) -> (KronJobStatus, Vec<Note>) {
    let object = serde_json::from_str(POLL).unwrap();
    let kronjob = KronJob::read(&mut TimingParser::new(), object);
    let timing = kronjob.timing.unwrap();
    let decision_hash = timing.decision_hash().to_string();
    let keep = Keep { succeeded: 3, failed: 1, ttl_s: None };
    let status: KronJobStatus = serde_json::from_value(status.clone()).unwrap();
    let subject = Subject {
        generation: 1,
        created_at: kronjob.metadata.creation_timestamp.unwrap(),
        definition: Ok(&Definition { timing, decision_hash, keep }),
        status: &status,
        jobs,
        trouble: None,
        mended: false,
    };
    match plan(&subject, "operator-0/1", JOB_AGE_S_MIN, now.parse().unwrap()).step {
        Step::Store { status, notes, .. } => (*status, notes),
        other => panic!("{other:?}"),
    }
}

/// An Event as the operator tells a note.
fn event(note: &Note) -> (String, String, String) {
    let period = note.period.map_or(String::new(), |period| format!("period {period}: "));
    let kind = if note.kind.is_warning() { "Warning" } else { "Normal" };
    (note.kind.reason().to_owned(), kind.to_owned(), format!("{period}{}", note.text))
}

#[test]
fn they_are_those_of_the_operator() {
    let recorded = poll();
    let events: Value = serde_json::from_str(EVENTS).unwrap();
    let told = |index: usize| {
        let of = |field: &str| events["items"][index][field].as_str().unwrap().to_owned();
        (of("reason"), of("type"), of("message"))
    };
    // Of what came before, the first period is recorded.
    let mut before = recorded["status"].clone();
    before["recent"] = json!([recorded["status"]["recent"][2]]);
    before["last"] = recorded["status"]["recent"][2].clone();
    before["lastHandledPeriod"] = json!("2026-11-16T03:20:00Z");
    before["conditions"] = json!([]);
    let (status, notes) = operator(&before, &[], "2026-11-16T03:36:00Z");
    assert_eq!(notes.iter().map(event).collect::<Vec<_>>(), [told(0)]);
    let record = serde_json::to_value(&status.recent[0]).unwrap();
    assert_eq!(record, recorded["status"]["recent"][1]);
    let job = OwnedJob {
        name: "poll-20261116t034000z".into(),
        uid: "3ab7bb98-9005-4fae-ad3d-00dac25382f5".into(),
        period: period_of("20261116T034000Z"),
        chosen: "2026-11-16T03:40:24Z".parse().ok(),
        created_at: "2026-11-16T03:40:24Z".parse().unwrap(),
        state: JobState::Active,
        deleting: false,
    };
    let status = serde_json::to_value(&status).unwrap();
    let (status, notes) = operator(&status, &[job], "2026-11-16T03:40:24Z");
    assert_eq!(notes.iter().map(event).collect::<Vec<_>>(), [told(1)]);
    let mut stored = serde_json::to_value(&status).unwrap();
    // Since when a condition holds is another matter.
    for condition in stored["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!("2026-11-16T03:19:12Z");
    }
    assert_eq!(stored, recorded["status"]);
}
