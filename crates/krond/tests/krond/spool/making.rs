//! Jobs of the scheduler that drop tasks into a spool.

use kron_testkit::krond::{LEADS_S, due_in};
use kron_testkit::waiting::eventually;
use serde_json::json;

use crate::spool::site::{Site as _, handler, spool, world};

const RAN: &str = "echo $KRON_TASK_ID >> {dir}/ran";

fn job(schedule: &str) -> String {
    format!(
        "[job.tick]\nschedule = \"{schedule}\"\n\
         spool = {{ name = \"s\", type = \"t\", data = {{ deep = [1, \"x\"] }} }}\n"
    )
}

/// The id of the task of a period.
fn id_of(period: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(b"tick");
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}-{}", period.replace(':', ""))
}

#[test]
fn a_period_yields_one_task_over_crashes_and_is_executed_when_it_is_durable() {
    // A second that the daemon was late for is another entry: none may push the first one out.
    let tables = handler("t", RAN) + &job("* * * * * *") + "[daemon]\nhistory = 10000\n";
    let world = world("workers = 4", &tables);
    let mut krond = world.start();
    let handed = krond.wait_for_job("handed_over", "tick");
    krond.wait_for_job("handed_over", "tick");
    // The task is durable when that is logged; the record of its period is written after it.
    eventually("the period is recorded", || {
        let history = world.history("tick");
        history.iter().any(|entry| entry["PeriodID"] == handed["period_id"]).then_some(())
    });
    krond.kill();
    let krond = world.start();
    world.says("ran", 3);
    let period = handed["period_id"].as_str().unwrap();
    let id = id_of(period);
    assert_eq!(handed["to"], format!("spooled as task {id}"));
    let task = world.completed(&id);
    assert_eq!(task["payload"], json!({ "type": "t", "data": { "deep": [1, "x"] } }));
    let entry = world.history("tick").into_iter().find(|entry| entry["PeriodID"] == period);
    assert_eq!(entry.as_ref().unwrap()["Outcome"], "executed", "{entry:?}");
    assert!(world.document("tick")["ActiveExecution"].is_null());
    let why = format!("/api/v1/scheduler/jobs/tick/why?at={period}");
    let (_, why) = world.ask("GET", &why, "");
    let words = format!("It was spooled as task {id}");
    assert!(why["sentences"].to_string().contains(&words), "{why}");
    let (_, shown) = world.ask("GET", "/api/v1/scheduler/jobs/tick", "");
    assert!(shown.to_string().contains("\"spools\":\"s/t\""), "{shown}");
    world.configure(&spool("", &(handler("t", RAN) + "[daemon]\nhistory = 10000\n")));
    world.reload();
    eventually("nothing waits", || {
        let is_empty = |it: &str| world.names(it).is_empty();
        (is_empty("tasks/pending") && is_empty("tasks/running")).then_some(())
    });
    krond.stop();
    let mut ran = world.testimony("ran");
    let all = ran.len();
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), all, "a period ran twice");
}

#[test]
fn a_period_whose_task_is_there_already_makes_no_second() {
    let world = world("", &handler("t", RAN));
    let mut krond = world.start();
    let mut ran = Vec::new();
    // As after a crash between the task and the record of its period: the task is there before the
    // daemon knows of the period.
    let mut periods = LEADS_S.into_iter().map(due_in);
    let nominal = periods.find_map(|(schedule, nominal)| {
        let id = id_of(&nominal);
        world.put(&id, "t");
        world.completed(&id);
        ran.push(id);
        let job = job(&format!("{schedule} @policy(deadline=1h)"));
        let config = spool("", &(handler("t", RAN) + &job));
        world.is_loaded_before(&nominal, "tick", &config).then_some(nominal)
    });
    let nominal = nominal.expect("a period that the job was known before");
    let id = id_of(&nominal);
    let handed = krond.wait_for_job("handed_over", "tick");
    assert_eq!(handed["period_id"], nominal.as_str());
    assert_eq!(handed["to"], format!("spooled as task {id}, which is completed"));
    assert_eq!(world.testimony("ran"), ran);
    krond.stop();
}

#[test]
fn runs_by_hand_make_tasks_of_their_own() {
    let (schedule, _) = due_in(40_000);
    let world = world("", &(handler("t", RAN) + &job(&schedule)));
    let mut krond = world.start();
    for round in 1..=2 {
        let (status, answer) = world.ask("POST", "/api/v1/scheduler/jobs/tick/run", "{}");
        assert_eq!(status, 200, "{answer}");
        let handed = krond.wait_for_job("handed_over", "tick");
        assert!(handed["period_id"].as_str().unwrap().starts_with("manual/"), "{handed}");
        let ran = world.says("ran", round);
        world.completed(&ran[round - 1]);
        assert_eq!(handed["to"], format!("spooled as task {}", ran[round - 1]));
    }
    let mut ran = world.testimony("ran");
    ran.dedup();
    assert_eq!(ran.len(), 2, "two of them");
    assert_eq!(world.document("tick")["LastHandledPeriodID"], "");
    krond.stop();
}

/// A task that is put where nobody looks for it would be an execution that never happened.
#[test]
fn a_spool_whose_directory_was_moved_away_takes_nothing_and_says_so() {
    let world = world("", &(handler("t", RAN) + &job("* * * * * *")));
    let mut krond = world.start();
    world.says("ran", 1);
    std::fs::rename(world.spool_path(""), world.witness("elsewhere")).unwrap();
    world.make_pending();
    let told = krond.wait_for("spool_rests");
    assert!(told["message"].as_str().unwrap().contains("was moved away"), "{told}");
    let failed = krond.wait_for_job("start_failed", "tick");
    assert_eq!(failed["operation"], "spool", "{failed}");
    // What is shown is gathered after what is told.
    eventually("it is shown, too", || {
        let view = world.view();
        view["error"].as_str().is_some_and(|error| error.contains("was moved away")).then_some(())
    });
    krond.stop();
}
