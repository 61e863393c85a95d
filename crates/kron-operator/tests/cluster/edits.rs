//! Edits, removals and new beginnings: none of them runs the past.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::judge::period_label;
use crate::scene::{
    Scene, in_seconds, records, seldom, spec, spec_with, text, time, wait_for_clock,
};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[test]
fn another_schedule_runs_nothing_of_the_past() {
    let scene = Scene::shared("schedule");
    let created = scene.create("moved", &spec(&seldom()));
    scene.await_condition("moved", "Ready", "True");
    let created_at = time(&created["metadata"]["creationTimestamp"]);
    wait_for_clock(created_at + SECOND * 4);
    scene.edit("moved", &json!({ "schedule": "* * * * * *" }));
    scene.await_outcomes("moved", "executed", 2);
    let status = scene.kronjob("moved")["status"].take();
    let effective = time(&status["effectiveFrom"]);
    assert!(effective >= created_at + SECOND * 4);
    let made = scene.created_once("moved");
    let early = made.keys().filter(|period| **period <= period_label(effective));
    assert_eq!(early.collect::<Vec<_>>(), Vec::<&String>::new());

    // What fell due under the new definition before it was one is told: the latest, and a stretch.
    let skipped = scene.all_records("moved", "skipped");
    assert_eq!(skipped.len(), 2, "{skipped:#?}");
    assert!(skipped.iter().all(|record| record["reason"] == "definition changed"), "{skipped:#?}");
    assert_eq!(time(&skipped[1]["periodId"]), effective);
    assert_eq!(time(&skipped[0]["periodId"]), effective - SECOND);
    assert_eq!(time(&skipped[0]["firstPeriodId"]), created_at + SECOND);
    assert_eq!(skipped[0]["count"], effective.as_second() - created_at.as_second() - 1);
    let note = scene.await_event("moved", "PeriodSkipped");
    assert!(text(&note["note"]).contains("definition changed"), "{note}");
}

#[test]
fn another_salt_neither_repeats_nor_runs_the_past() {
    let scene = Scene::shared("salt");
    let window = json!({ "window": { "duration": "3s" }, "policy": { "deadline": "1h" } });
    scene.create("salted", &spec_with("*/3 * * * * *", &window));
    scene.await_outcome("salted", "executed");
    for number in 0..6 {
        scene.edit("salted", &json!({ "seed": { "salt": format!("salt {number}") } }));
        // Each edit at another place of the window.
        wait_for_clock(in_seconds(1));
    }
    let status = scene.kronjob("salted")["status"].take();
    let effective = time(&status["effectiveFrom"]);
    scene.await_status("salted", "it runs under the last salt", |status| {
        let executed = records(status, "executed");
        executed.iter().any(|record| time(&record["chosenTime"]) > effective).then_some(())
    });
    scene.created_once("salted");
    let skipped = records(&status, "skipped");
    assert!(skipped.iter().all(|record| record["reason"] == "definition changed"), "{status:#}");

    // No Job was made under a definition for a second before that definition.
    let mut effective = String::new();
    for request in scene.operator_requests().iter().filter(|request| request.succeeded()) {
        if request.resource == "kronjobs/status" {
            if let Some(from) = request.given["status"]["effectiveFrom"].as_str() {
                effective = from.to_owned();
            }
        } else if request.resource == "jobs" && request.verb == "create" {
            let chosen = text(&request.given["metadata"]["annotations"]["kron.dev/chosen-time"]);
            assert!(chosen > effective.as_str(), "{chosen} is not after {effective}");
        }
    }
    assert!(!effective.is_empty());
}

#[test]
fn another_template_is_that_of_the_next_job() {
    let scene = Scene::shared("template");
    scene.create("painted", &spec("*/2 * * * * *"));
    scene.await_outcome("painted", "executed");
    let hash = scene.kronjob("painted")["status"]["decisionHash"].take();
    let template = |image: &str| {
        json!({ "jobTemplate": { "spec": { "template": {
            "spec": { "containers": [{ "name": "main", "image": image }] },
        } } } })
    };
    scene.edit("painted", &template("blue"));
    let image =
        |job: &Value| text(&job["spec"]["template"]["spec"]["containers"][0]["image"]).to_owned();
    let before = scene.jobs("painted");
    let known = before.last().map(|job| job["metadata"]["labels"]["kron.dev/period"].clone());
    let known = text(&known.unwrap()).to_owned();
    let jobs = scene.await_that("a blue Job", || {
        let jobs = scene.jobs("painted");
        jobs.iter().any(|job| image(job) == "blue").then_some(jobs)
    });
    assert!(jobs.iter().any(|job| image(job) == "none"), "older Jobs stay as they were");
    for job in jobs {
        let later = text(&job["metadata"]["labels"]["kron.dev/period"]) > known.as_str();
        assert!(!later || image(&job) == "blue", "every Job after the edit has it");
    }
    let status = scene.kronjob("painted")["status"].take();
    assert_eq!(status["decisionHash"], hash, "what decides is the same");
    assert_eq!(status["effectiveFrom"], Value::Null);
    assert_eq!(records(&status, "skipped"), Vec::<Value>::new());
}

#[test]
fn a_removed_kronjob_takes_its_jobs_along_and_a_new_one_begins_anew() {
    let scene = Scene::shared("removed");
    let first = scene.create("again", &spec("* * * * * *"));
    scene.await_outcomes("again", "executed", 2);
    scene.plane.api().delete(&scene.path("again")).expect(200);
    // At once. An operator that has not heard of it yet may make one more Job for the first, of a
    // period of the second.
    let second = scene.create("again", &spec("* * * * * *"));
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    let created_at = time(&second["metadata"]["creationTimestamp"]);
    scene.await_outcomes("again", "executed", 2);
    let owner = |job: &Value| job["metadata"]["ownerReferences"][0]["uid"].clone();
    let jobs = scene.await_that("only Jobs of the second are there", || {
        let jobs = scene.jobs("again");
        jobs.iter().all(|job| owner(job) == second["metadata"]["uid"]).then_some(jobs)
    });
    assert!(jobs.len() >= 2);
    for job in &jobs {
        let chosen = time(&job["metadata"]["annotations"]["kron.dev/chosen-time"]);
        assert!(chosen > created_at, "{chosen} {created_at}");
    }
    let status = scene.kronjob("again")["status"].take();
    for record in status["recent"].as_array().unwrap() {
        assert!(time(&record["periodId"]) > created_at, "its status is its own: {record}");
    }
    scene.created_once("again");

    scene.plane.api().delete(&scene.path("again")).expect(200);
    scene.await_that("all Jobs are gone", || scene.jobs("again").is_empty().then_some(()));
}

#[test]
fn a_kronjob_that_waits_for_its_jobs_to_go_makes_no_more() {
    let scene = Scene::shared("foreground");
    scene.create("leaving", &spec("* * * * * *"));
    scene.await_outcomes("leaving", "executed", 2);
    // Held back by a finalizer, as something that cleans up behind it would.
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    scene.plane.api().patch(&scene.path("leaving"), &held).expect(200);
    let path = format!("{}?propagationPolicy=Foreground", scene.path("leaving"));
    scene.plane.api().delete(&path).expect(200);
    let leaving = scene.kronjob("leaving");
    assert!(leaving["metadata"]["deletionTimestamp"].is_string(), "{leaving:#}");
    // The operator has seen that it is going once it has seen what came later.
    scene.create("later", &spec(&seldom()));
    scene.await_condition("later", "Ready", "True");
    let since = in_seconds(0);
    wait_for_clock(since + SECOND * 3);
    let made = scene.created_once("leaving");
    // A request may have been under way.
    let late = made.keys().filter(|period| **period > period_label(since));
    assert_eq!(late.collect::<Vec<_>>(), Vec::<&String>::new(), "no Jobs for what is going");
    let path = scene.path("leaving");
    scene.await_that("it is gone", || {
        let found = scene.plane.api().get(&path);
        if found.status == 404 {
            return Some(());
        }
        // The garbage collector takes its own finalizer away when the Jobs are gone, at any time; a
        // patch that would bring it back is refused.
        let all = found.body["metadata"]["finalizers"].as_array().into_iter().flatten();
        let others: Vec<_> = all.filter(|name| **name != "example.com/held").collect();
        let free = json!({ "metadata": { "finalizers": others } });
        scene.plane.api().patch(&path, &free);
        None
    });
    scene.await_that("its Jobs are gone", || scene.jobs("leaving").is_empty().then_some(()));
}

#[test]
fn a_job_that_somebody_deletes_is_not_made_again() {
    let scene = Scene::shared("deleted");
    scene.create("once", &spec("* * * * * *"));
    let record = scene.await_outcome("once", "executed");
    let path = format!("{}/{}", scene.jobs_path(), text(&record["job"]));
    scene.plane.api().delete(&format!("{path}?propagationPolicy=Background")).expect(200);
    let deleted = in_seconds(0);
    scene.await_status("once", "it goes on", |status| {
        (time(&status["lastHandledPeriod"]) > deleted + SECOND * 3).then_some(())
    });
    assert_eq!(scene.plane.api().get(&path).status, 404);
    let made = scene.created_once("once");
    assert!(made.contains_key(&period_label(time(&record["periodId"]))), "{made:?}");
}
