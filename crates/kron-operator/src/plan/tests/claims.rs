//! What must be stored before a Job is made, by whom, and when nothing is written.

use super::*;

const LAX: &str = "*/10 * * * * @policy(deadline=1h,concurrency=replace)";

/// What of a stored status keeps a start from being planned.
#[test]
fn no_start_without_a_stored_claim_of_this_very_term() {
    type Spoil = fn(&mut Scene);
    let spoil: [(&str, Spoil); 11] = [
        ("no claim", |scene| scene.status.next = None),
        ("nobody's claim", |scene| scene.status.next.as_mut().unwrap().claimed_by = None),
        ("an earlier term's", |scene| claim(scene).push('0')),
        ("another process's", |scene| *claim(scene) = "two/1".to_owned()),
        ("of another period", |scene| {
            scene.status.next.as_mut().unwrap().period_id = at("00:20:00");
        }),
        ("of another second", |scene| {
            scene.status.next.as_mut().unwrap().chosen_time = Some(at("00:10:01"));
        }),
        ("an edit that is not stored", |scene| scene.status.decision_hash = Some("other".into())),
        ("a definition that is not stored", |scene| scene.status.decision_hash = None),
        ("a lift that is not stored", |scene| scene.status.suspended_at = Some(at("00:01:00"))),
        ("an empty status", |scene| scene.status = KronJobStatus::default()),
        ("an active Job whose replacement is not stored", |scene| {
            scene.jobs.push(owned(at("00:00:00"), at("00:00:00"), JobState::Active));
            scene.status.last_handled_period = Some(at("00:00:00"));
        }),
    ];
    let sound = Scene::new(LAX);
    assert!(matches!(sound.plan("00:10:00").step, Step::Start { .. }));
    for (what, spoil) in spoil {
        let mut scene = Scene::new(LAX);
        spoil(&mut scene);
        let plan = scene.plan("00:10:00");
        assert!(matches!(plan.step, Step::Store { .. }), "{what}: {:?}", plan.step);
    }
}

fn claim(scene: &mut Scene) -> &mut String {
    scene.status.next.as_mut().unwrap().claimed_by.as_mut().unwrap()
}

#[test]
fn a_start_waits_for_the_claim_and_says_so() {
    let mut scene = Scene::new(LAX);
    scene.term = "two/2".to_owned();
    let Step::Store { status, urgent, notes } = scene.plan("00:10:00").step else { panic!() };
    assert_eq!((urgent, notes.len()), (Some(at("00:10:00")), 0));
    let next = status.next.unwrap();
    assert_eq!(next.claimed_by.as_deref(), Some("two/2"));
    assert_eq!(next.period_id, at("00:10:00"));
    assert_eq!(scene.live("00:10:00"), "store, start 00:10:00, JobCreated 00:10:00");
    // Nothing waits for a status that only tells.
    let Step::Store { urgent, .. } = Scene::unseen(LAX).plan("00:00:01").step else { panic!() };
    assert_eq!(urgent, None);
}

#[test]
fn the_claim_of_an_earlier_term_is_renewed_near_the_time() {
    let mut scene = Scene::new(LAX);
    scene.term = "two/2".to_owned();
    for time in ["00:00:02", "00:05:00", "00:09:29"] {
        let plan = scene.plan(time);
        assert_eq!((plan.step, plan.wake), (Step::Rest, Some(at("00:09:30"))), "at {time}");
    }
    assert_eq!(scene.live("00:09:30"), "store");
    assert_eq!(claim(&mut scene), "two/2");
    assert_eq!(scene.plan("00:09:30").wake, Some(at("00:10:00")));
    assert_eq!(scene.live("00:10:00"), "start 00:10:00, JobCreated 00:10:00");
    // A status that is written anyway takes the claim along.
    let mut scene = Scene::new(LAX);
    scene.term = "two/2".to_owned();
    scene.generation += 1;
    assert_eq!(scene.live("00:05:00"), "store");
    assert_eq!(claim(&mut scene), "two/2");
}

#[test]
fn what_has_not_changed_is_not_written() {
    let texts = [
        "*/10 * * * *",
        "*/10 * * * * @policy(suspend=true)",
        "*/10 * * * * @win(around,4m) @avoid(hours=0-22)",
        "0 0 30 2 *",
    ];
    for text in texts {
        let scene = Scene::new(text);
        for time in ["00:00:01", "00:00:02", "00:04:00"] {
            assert_eq!(scene.plan(time).step, Step::Rest, "{text} at {time}");
        }
    }
    let mut scene = Scene::new("*/10 * * * *");
    scene.live("00:10:00");
    assert_eq!(scene.plan("00:15:00").step, Step::Rest, "while its Job runs");
    scene.trouble = Some("no room".to_owned());
    scene.live("00:15:00");
    assert_eq!(scene.plan("00:16:00").step, Step::Rest, "while trouble stays the same");
}

/// A Job that is there is the proof that its period ran, whatever else is stored.
#[test]
fn a_job_proves_its_period() {
    for term in [TERM, "two/2"] {
        let mut scene = Scene::new(LAX);
        scene.term = term.to_owned();
        let finished = JobState::Succeeded { at: at("00:10:03") };
        scene.jobs.push(owned(at("00:10:00"), at("00:10:01"), finished));
        assert_eq!(scene.live("00:10:05"), "JobCreated 00:10:00");
        assert_eq!(scene.handled(), "00:10:00");
        assert_eq!(scene.status.last.as_ref().unwrap().result.as_deref(), Some("succeeded"));
    }
    let mut scene = Scene::new(LAX);
    scene.jobs.push(owned(at("00:10:00"), at("00:10:01"), JobState::Active));
    scene.edit("*/10 * * * * @policy(deadline=1h,suspend=true)");
    assert_eq!(scene.live("00:10:05"), "JobCreated 00:10:00", "while suspended");
    let mut scene = Scene::new(LAX);
    scene.live("00:10:00");
    scene.finish("00:10:10");
    scene.live("00:10:10");
    scene.jobs.clear();
    assert_eq!(scene.live("00:11:00"), "", "and it is not run again when the Job is gone");
}

#[test]
fn what_is_recorded_never_moves_back() {
    let mut scene = Scene::new("*/10 * * * * @policy(deadline=1h)");
    scene.status.last_handled_period = Some(at("05:00:00"));
    scene.jobs.push(owned(at("00:10:00"), at("00:10:00"), JobState::Active));
    for time in ["00:10:00", "00:20:00", "04:50:00", "05:00:00"] {
        scene.live(time);
        assert_eq!(scene.handled(), "05:00:00", "at {time}");
    }
    assert_eq!(scene.jobs.len(), 1);
    assert_eq!(scene.live("05:10:00"), "PeriodSkipped 05:10:00");
}

/// A claim without a Job and without an outcome, as a crash leaves it.
#[test]
fn a_claim_without_a_job_is_made_good_within_the_deadline() {
    let mut scene = Scene::new("*/10 * * * * @policy(deadline=1m)");
    scene.term = "two/2".to_owned();
    assert_eq!(scene.live("00:10:59"), "store, start 00:10:00, JobCreated 00:10:00");
    let mut scene = Scene::new("*/10 * * * * @policy(deadline=1m)");
    scene.term = "two/2".to_owned();
    assert_eq!(scene.live("00:11:01"), "PeriodMissed 00:10:00");
}
