//! How many requests a run takes, and in which order they come, by the API server's audit log.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::audit::{self, Request};
use crate::control_plane::OPERATOR;
use crate::scene::{
    Scene, endless, in_seconds, once_at, spec, spec_with, text, time, wait_for_clock, wall,
};

const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// How many KronJobs a burst has.
const BURST: usize = 100;
/// How long before they are due the KronJobs of a burst are made. A machine that needs longer is
/// given longer.
const LEAD_S: i64 = 10;
/// How often that is doubled; by then the time of a test is over.
const DOUBLED: u32 = 8;
/// How many requests the operator has under way at most, of the kind that goes first.
const AT_ONCE: usize = 32;

fn counted(calls: &[(&str, usize)]) -> BTreeMap<String, usize> {
    calls.iter().map(|&(call, count)| (call.to_owned(), count)).collect()
}

#[test]
fn a_run_takes_two_requests_and_an_event_and_an_idle_kronjob_none() {
    // Its Job runs until its pod is allowed to end, so that its start is recorded before its end. A
    // machine that is too slow to make it before it is due is given longer, in another namespace.
    let attempt = |lead_s: i64| {
        let scene = Scene::shared("calls");
        let due = in_seconds(lead_s);
        let made = scene.create("single", &spec_with(&once_at(due), &endless()));
        (time(&made["metadata"]["creationTimestamp"]) < due).then_some((scene, due))
    };
    let (scene, due) = (0..DOUBLED).find_map(|doubled| attempt(LEAD_S << doubled)).unwrap();
    let calls = |requests: &[Request]| audit::calls(requests, OPERATOR);
    let started = scene.await_outcome("single", "executed");
    scene.end_endless(text(&started["job"]));
    scene.await_status("single", "the Job succeeded", |status| {
        (status["last"]["result"] == "succeeded").then_some(())
    });
    scene.await_event("single", "JobCreated");
    // Nothing comes after.
    wait_for_clock(wall() + SECOND * 3);
    let requests = scene.requests();
    let all = [("create jobs", 1), ("patch kronjobs/status", 3), ("create events", 1)];
    assert_eq!(calls(&requests), counted(&all), "{requests:#?}");
    let ours: Vec<&Request> = requests.iter().filter(|request| request.user == OPERATOR).collect();
    assert!(ours.iter().all(|request| request.succeeded()), "{ours:#?}");
    // The claim and nothing else before the Job; its record; and its end.
    let made = ours.iter().position(|request| request.resource == "jobs").unwrap();
    let statuses = ours.iter().filter(|request| request.resource == "kronjobs/status");
    let statuses: Vec<_> = statuses.map(|request| request.given["status"].clone()).collect();
    assert_eq!(made, 1);
    assert_eq!(time(&statuses[0]["next"]["periodId"]), due);
    assert_eq!(statuses[1]["last"]["outcome"], "executed");
    assert_eq!(statuses[1]["activeCount"], 1);
    assert!(time(&statuses[1]["next"]["periodId"]) > due);
    assert_eq!(statuses[2]["last"]["result"], "succeeded");
    assert_eq!(statuses[2]["activeCount"], 0);
}

/// The Jobs of a burst, as they were asked for, with the seconds that were chosen.
fn creations(requests: &[Request]) -> Vec<(Timestamp, Timestamp)> {
    let created = requests.iter().filter(|request| {
        request.resource == "jobs" && request.verb == "create" && request.succeeded()
    });
    let mut created: Vec<_> = created
        .map(|request| {
            let chosen = &request.given["metadata"]["annotations"]["kron.dev/chosen-time"];
            (request.received, time(chosen))
        })
        .collect();
    created.sort();
    created
}

#[test]
fn a_burst_is_made_at_once_and_told_of_afterwards() {
    // A machine that needs longer to make the KronJobs is given longer.
    let judged = (0..DOUBLED).any(|doubled| burst_is_made_at_once(LEAD_S << doubled));
    assert!(judged, "{BURST} KronJobs are never made before they are due");
}

/// Whether all KronJobs of a burst were claimed before they were due, so that it could be judged.
fn burst_is_made_at_once(lead_s: i64) -> bool {
    let scene = Scene::quiet("burst");
    let mut operator = scene.start_patient_operator();
    let due = in_seconds(lead_s);
    for number in 0..BURST {
        scene.create(&format!("due-{number:03}"), &spec(&once_at(due)));
    }
    for number in 0..BURST {
        scene.await_condition(&format!("due-{number:03}"), "Ready", "True");
    }
    if wall() >= due {
        return false;
    }
    for number in 0..BURST {
        scene.await_outcome(&format!("due-{number:03}"), "executed");
    }
    // The log is long: it is not read more often than it must be.
    scene.await_that("all Events are told", || {
        let page = operator.page("/metrics")?.1;
        let series = "kron_api_requests_total{verb=\"create\",resource=\"events\",code=\"201\"}";
        let told = page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        (told == Some(BURST)).then_some(())
    });
    let requests = scene.operator_requests();
    let made = creations(&requests);
    assert_eq!(made.len(), BURST, "each once: {}", operator.log_text());
    let (first, last) = (made[0].0, made[BURST - 1].0);
    assert!(first >= due);
    let told = requests.iter().filter(|request| request.resource == "events");
    let earliest = told.map(|request| request.received).min().unwrap();
    assert!(earliest >= last, "an Event at {earliest}, before the last Job at {last}");
    // All at once: within ten seconds, or as fast as an API server on a busy machine lets four at a
    // time through.
    let creations = requests.iter().filter(|r| r.resource == "jobs" && r.verb == "create");
    let took: SignedDuration = creations.map(|r| r.answered.duration_since(r.received)).sum();
    assert!(last < due + SECOND * 10 || last.duration_since(due) * 4 < took, "{last} {took}");
    let page = operator.page("/metrics").unwrap().1;
    assert!(page.contains("kron_outcomes_total{outcome=\"executed\"} 100"), "{page}");
    assert!(operator.stop().success());
    true
}

#[test]
fn what_waited_for_an_operator_is_made_in_the_order_of_chosen_times() {
    let scene = Scene::quiet("order");
    let names: Vec<String> = (0..BURST).map(|number| format!("waiting-{number:03}")).collect();
    let due = scene.create_before(LEAD_S, |due| {
        let late = |number: usize| {
            // Neither the order of creation nor that of names is the order of time.
            let at = due + SECOND * i32::try_from(number * 7 % 4).unwrap();
            spec_with(&once_at(at), &json!({ "policy": { "deadline": "1h" } }))
        };
        names.iter().enumerate().map(|(number, name)| (name.as_str(), late(number))).collect()
    });
    wait_for_clock(due + SECOND * 4);
    let mut operator = scene.start_patient_operator();
    assert!(wall() > due);
    for number in 0..BURST {
        scene.await_outcome(&format!("waiting-{number:03}"), "executed");
    }
    let made = creations(&scene.operator_requests());
    assert_eq!(made.len(), BURST, "{}", operator.log_text());
    let mut sorted: Vec<Timestamp> = made.iter().map(|(_, chosen)| *chosen).collect();
    sorted.sort();
    for (place, (_, chosen)) in made.iter().enumerate() {
        let first = sorted.partition_point(|known| known < chosen);
        let last = sorted.partition_point(|known| known <= chosen);
        // Those under way at once may overtake each other.
        assert!(
            place + AT_ONCE >= first && place < last + AT_ONCE,
            "{chosen} is at {place} instead of {first} to {last}"
        );
    }
    assert!(operator.stop().success());
}
