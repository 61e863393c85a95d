//! Jobs that the clock makes: schedules of the queue, and jobs of the scheduler that enqueue.

use kron_testkit::waiting::eventually;
use serde_json::json;

use crate::queue::site::{JOBS, Site as _, handler, world};

#[test]
fn a_schedule_makes_one_job_for_each_period_over_crashes() {
    let world = world(&handler("tick", "echo $KRON_PERIOD_ID >> {dir}/periods"));
    let krond = world.start();
    let template = world.post(
        "/api/v1/job-templates",
        &json!({ "name": "t", "job_type": "tick", "params": {"a": 1} }),
    );
    let schedule = world.post(
        "/api/v1/schedules",
        &json!({ "name": "every-second", "template_id": template["template_id"],
            "cron_expression": "* * * * * *", "param_overrides": { "b": 2 } }),
    );
    let id = schedule["schedule_id"].as_str().unwrap().to_owned();
    eventually("two periods", || (world.testimony("periods").len() >= 2).then_some(()));
    krond.kill();
    let krond = world.start();
    let before = world.testimony("periods").len();
    eventually("two more", || (world.testimony("periods").len() >= before + 2).then_some(()));
    world.ask("PATCH", &format!("/api/v1/schedules/{id}"), r#"{"enabled":false}"#);
    krond.stop();
    let mut periods = world.testimony("periods");
    let all = periods.len();
    periods.sort();
    periods.dedup();
    assert_eq!(periods.len(), all, "no period ran twice: {periods:?}");
    let krond = world.start();
    let jobs = world.get(&format!("{JOBS}?schedule_id={id}&limit=1000"));
    let job = &jobs["items"][0];
    assert_eq!(job["params"], json!({ "a": 1, "b": 2 }));
    let seen = world.get(&format!("/api/v1/schedules/{id}"));
    assert!(seen["last_triggered_at"].is_string(), "{seen}");
    krond.stop();
}

#[test]
fn a_scheduled_job_enqueues_once_for_each_period_and_is_executed_when_that_is_durable() {
    let tables = handler("t", "echo $KRON_JOB_ID >> {dir}/ran")
        + "[job.tick]\nschedule = \"* * * * * *\"\n\
           enqueue = { type = \"t\", params = { deep = { list = [1, 2] } }, priority = 3 }\n\
           [daemon]\nhistory = 10000\n";
    let world = world(&tables);
    let mut krond = world.start();
    let handed = krond.wait_for_job("handed_over", "tick");
    krond.wait_for_job("handed_over", "tick");
    // The job is durable when that is logged; the record of its period is written after it.
    eventually("the period is recorded", || {
        let history = world.history("tick");
        history.iter().any(|entry| entry["PeriodID"] == handed["period_id"]).then_some(())
    });
    krond.kill();
    let krond = world.start();
    eventually("more", || (world.testimony("ran").len() >= 3).then_some(()));
    // A second that the daemon was late for is another entry, and none pushes this one out.
    let mut entries = world.history("tick").into_iter();
    let entry = entries.find(|entry| entry["PeriodID"] == handed["period_id"]).unwrap();
    assert_eq!(entry["Outcome"], "executed", "{entry}");
    assert!(world.document("tick")["ActiveExecution"].is_null());
    let to = handed["to"].as_str().unwrap();
    let id = to.strip_prefix("enqueued as job ").unwrap();
    let job = world.job(id);
    assert_eq!(job["params"], json!({ "deep": { "list": [1, 2] } }));
    assert_eq!(job["priority"], 3);
    let (_, why) = world.ask(
        "GET",
        &format!("/api/v1/scheduler/jobs/tick/why?at={}", handed["period_id"].as_str().unwrap()),
        "",
    );
    assert!(why["sentences"].to_string().contains("It was enqueued as job"), "{why}");
    world.configure("[queue]\n");
    krond.stop();
    let mut ran = world.testimony("ran");
    let all = ran.len();
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), all);
}

#[test]
fn a_burst_of_jobs_that_enqueue_is_not_enqueued_ahead_of_its_time() {
    const BURST: usize = 20;
    let jobs: String = (0..BURST)
        .map(|n| {
            format!("[job.j{n}]\nschedule = \"*/3 * * * * *\"\nenqueue = {{ type = \"t\" }}\n")
        })
        .collect();
    let world = world(&(handler("t", "true") + &jobs));
    let mut krond = world.start();
    // For the second period the daemon had all the time to be too early in.
    let handed = krond.heard("handed_over", 2 * BURST);
    for handed in handed {
        let id = handed["to"].as_str().unwrap().strip_prefix("enqueued as job ").unwrap();
        let job = world.job(id);
        let made = job["created_at"].as_str().unwrap();
        let period = handed["period_id"].as_str().unwrap();
        assert!(made[..19] >= period[..19], "{made} for {period}");
    }
    krond.stop();
}
