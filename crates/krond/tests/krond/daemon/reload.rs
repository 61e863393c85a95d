//! Reading definitions again.

use kron_testkit::krond::{second_of, seldom};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;

use crate::new_world;

/// A job that notes its periods.
fn job(name: &str, schedule: &str) -> String {
    format!(
        "[job.{name}]\nschedule = \"{schedule}\"\n\
         command = \"echo $KRON_PERIOD_ID >> {{dir}}/{name}\"\nshell = true\n"
    )
}

fn secondly(name: &str) -> String {
    job(name, "* * * * * *")
}

#[test]
fn a_broken_file_changes_nothing_and_a_sound_one_takes_effect() {
    let world = new_world(&secondly("old"));
    let mut krond = world.start();
    krond.wait_for_job("finished", "old");

    world.configure("[job.new]\nschedule = \"nonsense\"\n");
    krond.signal(Signal::SIGHUP);
    let failed = krond.wait_for("reload_failed");
    assert_eq!(failed["error_type"], "ConfigurationError");
    krond.wait_for("diagnostic");
    krond.wait_for_job("finished", "old");

    std::fs::remove_file(world.config_path()).unwrap();
    krond.signal(Signal::SIGHUP);
    let failed = krond.wait_for("reload_failed");
    assert!(failed["message"].as_str().unwrap().contains("jobs.toml"), "{failed}");
    krond.wait_for_job("finished", "old");
    assert!(world.document("new").is_null());

    world.configure(&secondly("new"));
    krond.signal(Signal::SIGHUP);
    let loaded = krond.wait_for("loaded");
    assert_eq!((&loaded["added"], &loaded["removed"]), (&1.into(), &1.into()));
    krond.wait_for_job("finished", "new");
    krond.wait_for_job("finished", "new");
    // A run of a period before may still have been on its way.
    let removed = second_of(loaded["time"].as_str().unwrap());
    let old = world.testimony("old");
    assert!(old.iter().all(|period| second_of(period) <= removed), "it was removed: {old:?}");
    eventually("both loads are recorded", || {
        let epochs = world.epochs();
        (epochs.iter().filter(|epoch| epoch["Event"] == "load").count() == 2).then_some(())
    });
}

#[test]
fn whoever_asks_for_a_reload_hears_how_it_went() {
    let world = new_world(&job("old", seldom()));
    let mut krond = world.start();
    world.configure("[job.new]\nschedule = \"nonsense\"\n");
    let (status, answer) = world.ask("POST", "/api/v1/reload", "{}");
    assert!((400..500).contains(&status), "{status} {answer}");
    assert!(answer.to_string().contains("nonsense"), "it shows the fault: {answer}");
    world.run_now("old");
    krond.wait_for_job("finished", "old");
    world.configure(&job("new", seldom()));
    let (status, answer) = world.ask("POST", "/api/v1/reload", "{}");
    assert_eq!(status, 200, "{answer}");
    world.run_now("new");
    krond.wait_for_job("finished", "new");
}

#[test]
fn a_run_goes_on_while_its_job_is_removed() {
    let wait = kron_testkit::krond::wait_for_permit("permit");
    let world = new_world(&format!(
        "[job.leaving]\nschedule = \"{}\"\ncommand = \"{wait}; exit 5\"\nshell = true\n",
        seldom()
    ));
    let mut krond = world.start();
    let started = world.run_now("leaving");
    world.configure(&job("staying", seldom()));
    krond.signal(Signal::SIGHUP);
    krond.wait_for("loaded");
    world.permit("permit");
    let finished = krond.wait_for_job("finished", "leaving");
    assert_eq!(finished["run_id"], started["run_id"]);
    eventually("its end is recorded", || {
        let history = world.history("leaving");
        history.iter().find(|entry| entry["ExitCode"] == 5).map(drop)
    });
}
