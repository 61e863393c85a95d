//! Which Jobs are removed: those that are over, recorded, old enough and too many.

use super::*;

/// A scene with finished Jobs of every tenth minute, the oldest first; `!` for one that failed and
/// `+` for one that is active.
fn scene(jobs: &str) -> Scene {
    let mut scene = Scene::new("*/10 * * * *");
    scene.keep(Keep { succeeded: 2, failed: 1, ttl_s: None });
    for (number, kind) in jobs.chars().enumerate() {
        let period = at(&format!("00:{number}0:00"));
        let ended = period.saturating_add(5);
        let state = match kind {
            '!' => JobState::Failed { at: ended },
            '+' => JobState::Active,
            _ => JobState::Succeeded { at: ended },
        };
        scene.jobs.push(owned(period, period, state));
        scene.status.last_handled_period = Some(period);
    }
    scene
}

#[test]
fn the_newest_of_each_kind_are_kept() {
    let rows: [(&str, &[usize]); 6] = [
        ("", &[]),
        ("..", &[]),
        ("...", &[0]),
        ("..!..", &[0, 1]),
        ("!.!", &[0]),
        ("+....", &[1, 2]),
    ];
    for (jobs, expected) in rows {
        let mut remove = scene(jobs).plan("02:00:00").remove;
        remove.sort_unstable();
        assert_eq!(remove, expected, "{jobs}");
    }
    let mut none = scene("..!");
    none.keep(Keep { succeeded: 0, failed: 0, ttl_s: None });
    assert_eq!(none.plan("02:00:00").remove.len(), 3);
}

#[test]
fn nothing_is_removed_that_is_not_recorded_or_young() {
    let mut scene = scene("...");
    scene.status.last_handled_period = None;
    assert_eq!(scene.plan("02:00:00").remove, [0; 0], "not recorded");
    // Recorded in the plan's own status is not recorded yet.
    let mut scene = Scene::new("*/10 * * * *");
    scene.keep(Keep { succeeded: 0, failed: 0, ttl_s: None });
    let ended = JobState::Succeeded { at: at("00:10:05") };
    scene.jobs.push(owned(at("00:10:00"), at("00:10:00"), ended));
    let plan = scene.plan("00:15:00");
    assert!(matches!(plan.step, Step::Store { .. }));
    assert_eq!(plan.remove, [0; 0]);
    scene.live("00:15:00");
    assert_eq!(scene.plan("00:15:00").remove, [0]);

    scene.jobs[0].created_at = at("00:12:01");
    let plan = scene.plan("00:15:00");
    assert_eq!((plan.remove, plan.wake), (vec![], Some(at("00:15:01"))), "179 s old");
    assert_eq!(scene.plan("00:15:01").remove, [0], "180 s old");
    scene.jobs[0].deleting = true;
    assert_eq!(scene.plan("00:15:01").remove, [0; 0], "it is being deleted");
    scene.jobs[0].deleting = false;
    scene.jobs[0].period = None;
    assert_eq!(scene.plan("00:15:01").remove, [0], "a Job of no period");
    scene.spoil("nonsense");
    assert_eq!(scene.plan("00:15:01").remove, [0; 0], "how many are kept is not known");
}

#[test]
fn the_age_from_which_jobs_are_removed_is_the_one_that_was_given() {
    let mut scene = scene("...");
    scene.jobs[0].created_at = at("01:59:56");
    scene.live("02:00:00");
    for (job_age_s_min, remove, wake) in [
        (0, vec![0], "02:10:00"),
        (4, vec![0], "02:10:00"),
        (5, vec![], "02:00:01"),
        // The next period comes first.
        (3600, vec![], "02:10:00"),
    ] {
        scene.job_age_s_min = job_age_s_min;
        let plan = scene.plan("02:00:00");
        assert_eq!((plan.remove, plan.wake), (remove, Some(at(wake))), "{job_age_s_min} s");
    }
    const { assert!(JOB_AGE_S_MIN > CREATE_UNDER_WAY_S_MAX) }
}

#[test]
fn what_has_expired_is_not_kept() {
    let mut scene = scene("..!");
    scene.keep(Keep { succeeded: 5, failed: 5, ttl_s: Some(3_600) });
    scene.live("00:25:00");
    let mut plan = scene.plan("01:00:04");
    assert_eq!((plan.remove, plan.wake), (vec![], Some(at("01:00:05"))));
    plan = scene.plan("01:00:05");
    assert_eq!(plan.remove, [0]);
    scene.jobs.remove(0);
    scene.spoil("nonsense");
    scene.edit("0 12 * * *");
    scene.keep(Keep { succeeded: 5, failed: 5, ttl_s: Some(3_600) });
    scene.live("01:00:05");
    assert_eq!(scene.plan("01:00:05").wake, Some(at("01:10:05")), "it wakes when the next expires");
    scene.keep(Keep { succeeded: 5, failed: 5, ttl_s: Some(0) });
    assert_eq!(scene.plan("01:00:05").remove.len(), 2);
    scene.jobs[0].created_at = at("01:00:00");
    let plan = scene.plan("01:00:05");
    assert_eq!((plan.remove.len(), plan.wake), (1, Some(at("01:03:00"))), "not before it is old");
}
