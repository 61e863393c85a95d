//! What happens when a period falls due while a run of the job is active.

use kron_testkit::krond::{World, wait_for_permit};
use kron_testkit::waiting::eventually;
use serde_json::Value;

use crate::new_world;

/// A job that is due every second and runs until it is permitted to end. It ends at the first
/// signal, and nothing kills it before, however long that takes.
fn every_second(concurrency: &str) -> World {
    let wait = wait_for_permit("permit");
    new_world(&format!(
        r#"
        [job.busy]
        schedule = "* * * * * * @policy(concurrency={concurrency})"
        command = "echo $KRON_PERIOD_ID $$ >> {{dir}}/started; {wait}; echo $KRON_PERIOD_ID >> {{dir}}/ended"
        shell = true
        grace = "1h"
        "#
    ))
}

#[test]
fn forbid_skips_what_falls_due_meanwhile() {
    let world = every_second("forbid");
    let mut krond = world.start();
    let started = krond.wait_for("started");
    for _ in 0..2 {
        let skipped = krond.wait_for("skipped");
        assert_ne!(skipped["period_id"], started["period_id"]);
    }
    eventually("the command has begun", || world.testimony("started").pop());
    assert_eq!(world.testimony("started").len(), 1);
    let entry = eventually("the skip is recorded", || {
        world.history("busy").into_iter().find(|entry| entry["Outcome"] == "skipped")
    });
    assert!(entry["Reason"].is_string(), "{entry}");
    let active = world.document("busy")["ActiveExecution"].clone();
    assert_eq!(active["PeriodID"], started["period_id"], "the active run stays recorded");
    world.permit("permit");
    let finished = krond.wait_for("finished");
    assert_eq!(finished["period_id"], started["period_id"]);
}

#[test]
fn allow_runs_both_and_records_both() {
    let world = every_second("allow");
    let mut krond = world.start();
    let first = krond.wait_for("started");
    let second = krond.wait_for("started");
    assert_ne!(first["period_id"], second["period_id"]);
    // Those that are armed at once may say in any order that they have started.
    let active = eventually("both are recorded", || {
        let document = world.document("busy");
        let others = document["OtherActive"].as_array().into_iter().flatten();
        let all = others.chain([&document["ActiveExecution"]]);
        let periods: Vec<Value> = all.map(|active| active["PeriodID"].clone()).collect();
        let are_both = [&first, &second].iter().all(|run| periods.contains(&run["period_id"]));
        are_both.then_some(periods)
    });
    assert!(active.is_sorted_by_key(|period| period.as_str().unwrap()), "{active:?}");
    world.permit("permit");
    krond.wait_for("finished");
    krond.wait_for("finished");
    let started = world.testimony("started");
    let mut periods: Vec<&str> =
        started.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let all = periods.len();
    periods.sort_unstable();
    periods.dedup();
    assert_eq!(periods.len(), all, "no period runs twice: {started:?}");
}

#[test]
fn replace_ends_the_old_run_before_the_new_one_starts() {
    let world = every_second("replace");
    let mut krond = world.start();
    // A run may be replaced before it has said that it has started.
    let replacing = krond.wait_for("replacing");
    let finished = krond.wait_for("finished");
    assert_eq!(finished["ending"], "replaced");
    let first = krond.events("started").remove(0);
    assert_eq!(finished["period_id"], first["period_id"]);
    let second = krond.wait_for("started");
    assert_ne!(second["period_id"], first["period_id"]);
    assert!(second["period_id"].as_str() >= replacing["period_id"].as_str());
    let entry = eventually("the end is recorded", || {
        let mut history = world.history("busy").into_iter();
        history.find(|entry| entry["PeriodID"] == first["period_id"] && !entry["Ending"].is_null())
    });
    assert_eq!(entry["Ending"], "replaced");
    assert_eq!(entry["Signal"], 15);
    assert!(world.testimony("ended").is_empty(), "no run came to its own end");
}
