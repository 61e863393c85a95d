//! What a status tells people: conditions, trouble, results, and how much of the past.

use super::*;
use crate::plan::NoteKind;
use crate::resource::{ACTIVE_MAX, RECENT_MAX};

#[test]
fn every_condition_is_always_there() {
    use ConditionKind::{InvalidSpec, Ready, SchedulingError, Suspended, Unschedulable};
    let all = [Ready, InvalidSpec, SchedulingError, Unschedulable, Suspended];
    let mut spoilt = Scene::unseen("* * * * *");
    spoilt.spoil("spec.window: nonsense");
    spoilt.live("00:00:01");
    let scenes = [
        (Scene::new("*/10 * * * *"), vec![Ready]),
        (Scene::new("*/10 * * * * @policy(suspend=true)"), vec![Ready, Suspended]),
        (Scene::new("*/10 * * * * @avoid(hours=0-22)"), vec![Ready, Unschedulable]),
        (spoilt, vec![InvalidSpec]),
    ];
    for (scene, holding) in scenes {
        let kinds: Vec<_> = scene.status.conditions.iter().map(|known| known.kind).collect();
        assert_eq!(kinds, all);
        assert_eq!(scene.holding(), holding);
        let generation = scene.status.observed_generation;
        assert_eq!(generation, Some(scene.generation));
        assert!(
            scene.status.conditions.iter().all(|known| known.observed_generation == generation)
        );
    }
    let invalid = scene_condition(&spoilt_scene(), InvalidSpec);
    assert_eq!(invalid, "spec.window: nonsense");
}

fn spoilt_scene() -> Scene {
    let mut scene = Scene::new("* * * * *");
    scene.spoil("spec.window: nonsense");
    scene.live("00:00:05");
    scene
}

fn scene_condition(scene: &Scene, kind: ConditionKind) -> String {
    scene.status.condition(kind).unwrap().message.clone()
}

#[test]
fn a_mark_in_the_future_is_said_and_nothing_runs_before_it() {
    let why = |scene: &Scene| scene.status.condition(ConditionKind::Ready).unwrap().reason.clone();
    let mut scene = Scene::new("*/10 * * * *");
    assert_eq!(why(&scene), "Scheduled");
    // As a clock that was two days ahead left it.
    scene.status.last_handled_period = Some("2026-03-03T00:00:00Z".parse().unwrap());
    scene.live("00:05:00");
    assert_eq!((why(&scene).as_str(), scene.holding()), ("HandledInFuture", vec![]));
    scene.live("00:10:00");
    scene.live("23:50:00");
    assert_eq!(scene.jobs.len(), 0);
    scene.live_at("2026-03-03T00:10:00Z".parse().unwrap());
    assert_eq!((why(&scene).as_str(), scene.jobs.len()), ("Scheduled", 1));
}

#[test]
fn a_transition_keeps_its_time() {
    let mut scene = Scene::new("*/10 * * * *");
    let since =
        |scene: &Scene| scene.status.condition(ConditionKind::Ready).unwrap().last_transition_time;
    scene.live("00:10:00");
    assert_eq!(since(&scene), at("00:00:01"));
    scene.trouble = Some("no room".to_owned());
    scene.live("00:12:00");
    assert_eq!(since(&scene), at("00:12:00"));
    scene.trouble = Some("still no room".to_owned());
    scene.live("00:13:00");
    assert_eq!(since(&scene), at("00:12:00"));
    scene.trouble = None;
    scene.finish("00:14:00");
    scene.live("00:20:00");
    assert_eq!(since(&scene), at("00:20:00"));
}

#[test]
fn trouble_is_told_once_and_with_the_miss() {
    use ConditionKind::{Ready, SchedulingError};
    let mut scene = Scene::new("*/10 * * * * @policy(deadline=1m)");
    scene.trouble = Some("quota exceeded (403)".to_owned());
    // It is told before the next attempt, and does not keep it.
    let Step::Store { status, notes, urgent } = scene.plan("00:10:05").step else { panic!() };
    assert_eq!((notes.len(), notes[0].kind), (1, NoteKind::Failed));
    assert_eq!(urgent, Some(at("00:10:00")));
    scene.status = *status;
    assert!(matches!(scene.plan("00:10:05").step, Step::Start { .. }));
    assert_eq!(scene.live("00:11:01"), "PeriodMissed 00:10:00");
    assert_eq!(scene.holding(), [SchedulingError]);
    let (outcome, reason) = scene.last();
    assert_eq!(outcome, Outcome::Missed);
    assert_eq!(reason, "deadline exceeded, 1m1s late; quota exceeded (403)");
    scene.trouble = Some("quota exceeded again (403)".to_owned());
    assert_eq!(scene.live("00:12:00"), "store", "told once");
    scene.trouble = None;
    assert_eq!(scene.live("00:13:00"), "", "believed until a Job is made");
    assert_eq!(scene.live("00:20:00"), "start 00:20:00, JobCreated 00:20:00");
    assert_eq!(scene.holding(), [Ready]);
    scene.trouble = Some("quota exceeded (403)".to_owned());
    scene.live("00:21:00");
    scene.trouble = None;
    scene.edit("*/10 * * * * @policy(deadline=2m)");
    scene.live("00:22:00");
    assert_eq!(scene.holding(), [Ready], "or the spec is another");
}

#[test]
fn results_arrive_later() {
    let mut scene = Scene::new("*/10 * * * * @policy(concurrency=allow)");
    scene.live("00:10:00");
    scene.live("00:20:00");
    scene.jobs[0].state = JobState::Failed { at: at("00:21:00") };
    assert_eq!(scene.live("00:21:00"), "store");
    let results: Vec<_> =
        scene.status.recent.iter().map(|record| record.result.as_deref()).collect();
    assert_eq!(results, [None, Some("failed")], "newest first");
    assert_eq!(scene.status.last.as_ref().unwrap().result, None);
    assert_eq!(scene.status.active_count, 1);
    assert_eq!(scene.status.last_successful_time, None);
    scene.finish("00:22:00");
    scene.live("00:22:00");
    assert_eq!(scene.status.last_successful_time, Some(at("00:22:00")));
    assert_eq!(scene.status.last.as_ref().unwrap().result.as_deref(), Some("succeeded"));
    scene.jobs.clear();
    scene.live("00:23:00");
    assert_eq!(scene.status.recent[1].result.as_deref(), Some("failed"), "it outlives the Job");
    assert_eq!(scene.status.last_successful_time, Some(at("00:22:00")));
}

#[test]
fn of_many_active_jobs_the_latest_are_named_and_all_are_counted() {
    let mut scene = Scene::new("* * * * * @policy(concurrency=allow)");
    for minute in 1..=25 {
        scene.live(&format!("00:{minute:02}:00"));
    }
    assert_eq!(scene.status.active_count, 25);
    let periods: Vec<_> = scene.status.active.iter().filter_map(|job| job.period_id).collect();
    assert_eq!(periods.len(), ACTIVE_MAX);
    assert_eq!((periods[0], periods[ACTIVE_MAX - 1]), (at("00:06:00"), at("00:25:00")));
}

#[test]
fn the_past_is_bounded_and_newest_first() {
    let mut scene = Scene::new("* * * * * @policy(concurrency=allow)");
    for minute in 1..=15 {
        scene.live(&format!("00:{minute:02}:00"));
    }
    let periods: Vec<_> = scene.status.recent.iter().map(|record| record.period_id).collect();
    assert_eq!(periods.len(), RECENT_MAX);
    assert_eq!(periods[0], at("00:15:00"));
    assert!(periods.is_sorted_by(|a, b| a > b));
    assert_eq!(scene.status.recent.first(), scene.status.last.as_ref());
}

#[test]
fn notes_have_their_reasons_and_kinds() {
    let rows = [
        (NoteKind::Created, "JobCreated", false),
        (NoteKind::Skipped, "PeriodSkipped", false),
        (NoteKind::Missed, "PeriodMissed", true),
        (NoteKind::Unschedulable, "PeriodUnschedulable", true),
        (NoteKind::Replaced, "JobReplaced", false),
        (NoteKind::Invalid, "InvalidSpec", true),
        (NoteKind::Failed, "JobNotCreated", true),
    ];
    for (kind, reason, warning) in rows {
        assert_eq!((kind.reason(), kind.is_warning()), (reason, warning));
    }
}

/// What is stored is read back as it was written.
#[test]
fn a_status_survives_its_storage() {
    let mut scene = Scene::new("*/10 * * * * @policy(concurrency=replace)");
    scene.live("00:10:00");
    let Step::Store { status, .. } = scene.plan("00:20:00").step else { panic!() };
    let text = serde_json::to_string(&status).unwrap();
    let read: KronJobStatus = serde_json::from_str(&text).unwrap();
    assert_eq!(read, *status);
    scene.live("03:00:00");
    let text = serde_json::to_string(&scene.status).unwrap();
    assert_eq!(serde_json::from_str::<KronJobStatus>(&text).unwrap(), scene.status);
    assert!(text.contains(r#""outcome":"missed""#), "{text}");
}
