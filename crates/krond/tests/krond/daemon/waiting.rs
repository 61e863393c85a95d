//! Learning how a run ended, however late one asks and however little is kept.

use std::collections::BTreeMap;

use kron_testkit::krond::{seldom, wait_for_permit};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;

use crate::new_world;

#[test]
fn how_a_run_by_hand_ended_is_told_even_when_its_history_has_dropped_it() {
    let (seldom, wait) = (seldom(), wait_for_permit("permit"));
    let world = new_world(&format!(
        "[daemon]\nhistory = 1\n\
         [job.short]\nschedule = \"{seldom}\"\nshell = true\n\
         command = \"echo >> {{dir}}/ran; n=$(wc -l < {{dir}}/ran); \
         echo >> {{dir}}/counted; {wait}; exit $n\"\n",
    ));
    let mut krond = world.start();
    // The exit codes of the runs, as the order of their starts will have them.
    let mut started = BTreeMap::new();
    for code in 1..=3 {
        let (status, answer) =
            world.ask("POST", "/api/v1/scheduler/jobs/short/run", "{\"force\": true}");
        assert_eq!(status, 200, "{answer}");
        started.insert(answer["run_id"].as_str().unwrap().to_owned(), (code, answer));
        eventually("it has its number", || {
            (world.testimony("counted").len() == code).then_some(())
        });
    }
    world.permit("permit");
    for _ in 0..started.len() {
        krond.wait_for("finished");
    }
    eventually("their ends are recorded", || {
        world.document("short")["ActiveExecution"].is_null().then_some(())
    });
    assert_eq!(world.history("short").len(), 1, "the history is as short as it was told to be");
    for (run, (code, answer)) in started {
        let (status, state) =
            world.ask("GET", &format!("/api/v1/scheduler/jobs/short/runs/{run}"), "");
        assert_eq!(status, 200, "{state}");
        assert_eq!(state["is_active"], false, "{state}");
        let outcome = &state["outcome"];
        assert_eq!((&outcome["exit_code"], &outcome["ending"]), (&code.into(), &"exited".into()));
        assert_eq!(
            (&outcome["run_id"], &outcome["period_id"]),
            (&run.into(), &answer["period_id"])
        );
        assert!(outcome["started_at"].is_string() && outcome["completed_at"].is_string());
    }
    let (status, _) = world.ask("GET", "/api/v1/scheduler/jobs/short/runs/0123456789abcdef", "");
    assert_eq!(status, 404, "what never was is still not there");
    krond.stop();
}

#[test]
fn a_supervisor_that_cannot_record_an_end_says_so_in_the_form_of_the_log() {
    let (seldom, wait) = (seldom(), wait_for_permit("permit"));
    let world = new_world(&format!(
        "[job.orphan]\nschedule = \"{seldom}\"\nshell = true\noutput = \"discard\"\n\
         command = \"{wait}\"\n",
    ));
    let mut krond = world.start();
    let (status, started) = world.ask("POST", "/api/v1/scheduler/jobs/orphan/run", "");
    assert_eq!(status, 200, "{started}");
    krond.signal(Signal::SIGKILL);
    krond.wait();
    std::fs::remove_dir_all(world.state_dir()).unwrap();
    world.permit("permit");
    // The daemon has ended: no line of the log but its supervisor's can come, and none comes after
    // the supervisor's end.
    krond.wait_for_supervisors();
    let lost = krond.events("record_lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    let lost = &lost[0];
    for (key, value) in [
        ("level", "error"),
        ("component", "supervisor"),
        ("identity", "orphan"),
        ("error_type", "PersistenceError"),
        ("operation", "write run record"),
    ] {
        assert_eq!(lost[key], value, "{lost}");
    }
    assert_eq!((&lost["period_id"], &lost["run_id"]), (&started["period_id"], &started["run_id"]));
    let time = lost["time"].as_str().unwrap();
    assert_eq!(time.len(), "2026-03-01T00:00:00.000000000Z".len(), "{lost}");
}
