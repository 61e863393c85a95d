//! What becomes of periods: executed, skipped, missed, unschedulable; and concurrency.

use jiff::SignedDuration;
use kron_core::{DecisionEvent, TimingParser};
use serde_json::{Value, json};

use crate::control_plane::OPERATOR;
use crate::judge::period_label;
use crate::operator::Operator;
use crate::proxy::{Fault, Matching, Often, Proxy};
use crate::pulse::Pulse;
use crate::scene::{
    PATIENCE, Scene, condition, endless_spec, in_seconds, job_name, once_at, records, spec,
    spec_with, text, time, wait_for_clock, wall,
};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[test]
fn a_period_becomes_one_job_that_tells_all_about_itself() {
    let scene = Scene::shared("executed");
    let patch = json!({
        "timeZone": "Europe/Paris",
        "window": { "mode": "after", "duration": "2s" },
        "distribution": { "name": "skewLate", "params": { "shape": 2.5 } },
        "seed": { "salt": "a salt" },
        "jobTemplate": { "metadata": {
            "labels": { "team": "blue" },
            "annotations": { "note": "kept", "argocd.argoproj.io/tracking-id": "left out" },
        } },
    });
    let pulse = Pulse::start(scene.plane, &scene.namespace);
    // The chosen seconds of two periods are eighteen seconds apart at least: a later one supersedes
    // one that is due only when the machine stalls for that long.
    let created = scene.create("report", &spec_with("*/20 * * * * *", &patch));
    let created_at = time(&created["metadata"]["creationTimestamp"]);
    scene.await_outcomes("report", "executed", 3);
    let jobs = scene.jobs("report");
    let made = scene.created_once("report");

    // A Job is asked for within its second, which takes a timer and the way to the API server.
    let late_max = SECOND + SignedDuration::try_from(pulse.longest_beat() * 2).unwrap();
    for job in &jobs[..3] {
        let metadata = &job["metadata"];
        let period = text(&metadata["labels"]["kron.dev/period"]);
        let decision = text(&metadata["annotations"]["kron.dev/decision"]);
        let event = DecisionEvent::parse(decision).unwrap().expect("a decision");
        let computed = event.replay(&mut TimingParser::new()).unwrap();
        assert_eq!(computed, [], "replayed, it comes out the same");
        let field = |name: &str| &event.fields()[name];
        assert_eq!(field("identity"), &format!("{}/report", scene.namespace));
        assert_eq!(field("salt"), "a salt");
        assert_eq!(field("distribution")["params"]["shape"], 2.5);
        let nominal = time(field("nominal_time"));
        let chosen = time(field("chosen_time"));
        assert_eq!(period, period_label(nominal));
        assert_eq!(nominal.as_second() % 20, 0);
        assert!(nominal <= chosen && chosen <= nominal + SECOND * 2, "{nominal} {chosen}");
        assert!(chosen > created_at, "nothing before it was created: {chosen} {created_at}");
        assert_eq!(time(&metadata["annotations"]["kron.dev/chosen-time"]), chosen);

        assert_eq!(text(&metadata["name"]), job_name("report", nominal));
        assert_eq!(metadata["labels"]["kron.dev/kronjob"], "report");
        assert_eq!(metadata["labels"]["team"], "blue");
        assert_eq!(metadata["annotations"]["note"], "kept");
        assert_eq!(metadata["annotations"]["argocd.argoproj.io/tracking-id"], Value::Null);
        let owners = metadata["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!(owners[0]["uid"], created["metadata"]["uid"]);
        assert_eq!(owners[0]["controller"], true);
        let pod = &job["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"]["kron.dev/period"], period);
        let told = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let told = |name: &str| told.iter().find(|known| known["name"] == name).unwrap();
        assert_eq!(time(&told("KRON_CHOSEN_TIME")["value"]), chosen);
        assert_eq!(&told("KRON_SEED_HASH")["value"], field("seed_hash"));
        assert_eq!(&told("KRON_IDENTITY")["value"], field("identity"));

        let asked = made[period];
        assert!(asked >= chosen, "not before its time: {asked} {chosen}");
        assert!(asked < chosen + late_max, "not after its second: {asked} {chosen} {late_max}");
    }

    // The first period after the creation was not left out, and nothing before it was told of. It
    // is about the second that was chosen, whenever the Job was made: a period and a window later
    // at most.
    let first = time(&jobs[0]["metadata"]["annotations"]["kron.dev/chosen-time"]);
    assert!(first <= created_at + SECOND * 22, "{first} {created_at}");
    let status = scene.await_status("report", "a Job succeeded", |status| {
        let done = records(status, "executed").iter().any(|record| record["result"] == "succeeded");
        done.then(|| status.clone())
    });
    for outcome in ["missed", "skipped", "unschedulable"] {
        assert_eq!(records(&status, outcome), Vec::<Value>::new());
    }
    let last = &status["last"];
    assert_eq!(last["outcome"], "executed");
    assert_eq!(last["periodId"], status["lastHandledPeriod"]);
    assert_eq!(text(&last["job"]), job_name("report", time(&last["periodId"])));
    assert!(time(&status["next"]["periodId"]) > time(&last["periodId"]));
    assert!(time(&status["next"]["chosenTime"]) >= time(&status["next"]["nominalTime"]));
    let note = scene.await_event("report", "JobCreated");
    assert_eq!(note["type"], "Normal");
    assert!(text(&note["note"]).contains("made Job report-"), "{note}");
}

#[test]
fn forbid_skips_while_a_job_is_active() {
    let scene = Scene::shared("forbid");
    scene.create("lone", &endless_spec("*/2 * * * * *", "forbid"));
    let skipped = scene.await_outcomes("lone", "skipped", 2).remove(0);
    assert_eq!(skipped["reason"], "an execution is active");
    assert_eq!(skipped["job"], Value::Null);
    assert!(time(&skipped["chosenTime"]) == time(&skipped["periodId"]));
    let note = scene.await_event("lone", "PeriodSkipped");
    assert!(text(&note["note"]).contains("an execution is active"), "{note}");
    assert_eq!(scene.created_once("lone").len(), 1);

    // When the Job is gone the next period runs.
    let job = text(&scene.jobs("lone")[0]["metadata"]["name"]).to_owned();
    let path = format!("{}/{job}?propagationPolicy=Background", scene.jobs_path());
    scene.plane.api().delete(&path).expect(200);
    // Of all that were ever stored: a status has the latest ten, and between the two that were
    // executed as many are skipped as fall due before the Job is gone.
    scene.await_that("the next period is executed", || {
        (scene.all_records("lone", "executed").len() == 2).then_some(())
    });
    assert_eq!(scene.created_once("lone").len(), 2);
}

#[test]
fn allow_runs_beside_what_is_active() {
    let scene = Scene::shared("allow");
    scene.create("many", &endless_spec("*/2 * * * * *", "allow"));
    scene.await_status("many", "two Jobs are active", |status| {
        let active = status["active"].as_array()?;
        (active.len() >= 2 && status["activeCount"] == active.len()).then_some(())
    });
    let jobs = scene.jobs("many");
    let ended = |job: &Value| job["status"]["conditions"].as_array().is_some_and(|c| !c.is_empty());
    assert!(jobs.len() >= 2 && !jobs.iter().any(ended), "all of them run: {jobs:#?}");
}

#[test]
fn replace_removes_what_is_active_and_then_runs() {
    let scene = Scene::shared("replace");
    // Twenty seconds are time enough for a busy machine to remove and make a Job before the next
    // period supersedes this one.
    scene.create("fresh", &endless_spec("*/20 * * * * *", "replace"));
    scene.await_outcomes("fresh", "executed", 2);
    let note = scene.await_event("fresh", "JobReplaced");
    assert!(text(&note["note"]).contains("removed the active Job fresh-"), "{note}");
    let made = scene.created_once("fresh");
    let periods: Vec<&String> = made.keys().collect();
    let (first, second) = (periods[0].to_lowercase(), periods[1].clone());
    scene.await_that("the first Job is gone", || {
        let path = format!("{}/fresh-{first}", scene.jobs_path());
        (scene.plane.api().get(&path).status == 404).then_some(())
    });

    // Told before the first is removed, and removed before the second is made.
    let requests = scene.operator_requests();
    let told = requests.iter().find(|request| {
        request.resource == "kronjobs/status"
            && request.given["status"]["next"]["replacingSince"].is_string()
    });
    let removed = requests.iter().find(|request| request.verb == "delete");
    let (told, removed) = (told.expect("a claim"), removed.expect("a removal"));
    let claimed = time(&told.given["status"]["next"]["periodId"]);
    assert_eq!(period_label(claimed), second);
    assert!(removed.uri.contains(&first), "{}", removed.uri);
    assert!(told.answered <= removed.received, "{told:?} {removed:?}");
    assert!(removed.answered <= made[&second], "{removed:?} {made:?}");
    // What was claimed for the removal does not stay.
    let status = scene.kronjob("fresh")["status"].take();
    assert_ne!(status["next"]["periodId"], told.given["status"]["next"]["periodId"]);
}

#[test]
fn constraints_that_leave_no_second_make_a_period_unschedulable() {
    let scene = Scene::shared("unschedulable");
    let never = json!({ "constraints": { "only": ["date=2020-02-29"] } });
    scene.create("never", &spec_with("*/2 * * * * *", &never));
    let record = scene.await_outcomes("never", "unschedulable", 2).remove(0);
    assert_eq!(record["chosenTime"], Value::Null);
    assert_eq!(record["reason"], "no candidate accepted within MaxAttempts");
    let barren = scene.await_condition("never", "Unschedulable", "True");
    assert!(text(&barren["message"]).contains("the constraints"), "{barren}");
    let note = scene.await_event("never", "PeriodUnschedulable");
    assert_eq!(note["type"], "Warning");
    assert_eq!(scene.created_once("never").len(), 0);

    scene.edit("never", &json!({ "constraints": null }));
    scene.await_outcome("never", "executed");
    scene.await_condition("never", "Unschedulable", "False");
}

#[test]
fn deadlines_are_judged_when_an_operator_comes_late() {
    let scene = Scene::quiet("missed");
    let due = scene.create_before(5, |due| {
        let with_deadline = |deadline: &str| {
            spec_with(&once_at(due), &json!({ "policy": { "deadline": deadline } }))
        };
        vec![
            ("none", with_deadline("0s")),
            ("short", with_deadline("1s")),
            ("long", with_deadline("1h")),
        ]
    });
    let steady = scene.create("steady", &spec("* * * * * *"));
    wait_for_clock(due + SECOND * 3);
    let mut operator = scene.start_patient_operator();

    // Of what fell due meanwhile only the latest is run; the others are one record, which others
    // push out of the status soon.
    let stretch = scene.await_that("a stretch is missed", || {
        scene.all_records("steady", "missed").into_iter().next()
    });
    assert_eq!(stretch["reason"], "superseded");
    let (first, last) = (time(&stretch["firstPeriodId"]), time(&stretch["periodId"]));
    assert_eq!(first, time(&steady["metadata"]["creationTimestamp"]) + SECOND);
    assert_eq!(stretch["count"], last.as_second() - first.as_second() + 1);
    scene.await_outcomes("steady", "executed", 3);
    let made = scene.created_once("steady");
    assert_eq!(made.keys().next(), Some(&period_label(last + SECOND)), "{made:#?}");
    let note = scene.await_event("steady", "PeriodMissed");
    assert!(text(&note["note"]).contains(&format!("{} periods from", stretch["count"])), "{note}");

    for name in ["none", "short"] {
        let missed = scene.await_outcome(name, "missed");
        assert_eq!(time(&missed["periodId"]), due);
        assert_eq!(time(&missed["chosenTime"]), due);
        assert!(text(&missed["reason"]).starts_with("deadline exceeded, "), "{missed}");
        let note = scene.await_event(name, "PeriodMissed");
        assert_eq!(note["type"], "Warning");
        assert_eq!(scene.created_once(name).len(), 0);
    }
    let executed = scene.await_outcome("long", "executed");
    assert_eq!(time(&executed["periodId"]), due);
    assert_eq!(scene.created_once("long").len(), 1);

    assert!(operator.stop().success());

    // While it is away again; then nothing that it did is done again.
    let handled = time(&scene.kronjob("steady")["status"]["lastHandledPeriod"]);
    wait_for_clock(in_seconds(3));
    let mut operator = scene.start_patient_operator();
    scene.await_status("steady", "it goes on", |status| {
        (time(&status["last"]["periodId"]) > handled + SECOND * 4).then_some(())
    });
    let missed = scene.all_records("steady", "missed");
    let stretch = missed.iter().find(|record| {
        record["reason"] == "superseded"
            && record["firstPeriodId"].is_string()
            && time(&record["firstPeriodId"]) > handled
    });
    // A Job that was made as the last thing before the end is recorded by the next operator.
    let first = time(&stretch.unwrap_or_else(|| panic!("{missed:#?}"))["firstPeriodId"]);
    assert!(first <= handled + SECOND * 2, "{missed:#?}");
    scene.created_once("steady");
    assert_eq!(scene.created_once("long").len(), 1);
    assert!(operator.stop().success());
}

#[test]
fn a_deadline_of_nothing_is_met_within_the_second() {
    let scene = Scene::shared("strict");
    scene.create("strict", &spec_with("*/2 * * * * *", &json!({ "policy": { "deadline": "0s" } })));
    // A machine that is busy may be late; then the period is missed and never made.
    let executed = scene.await_outcomes("strict", "executed", 2);
    let made = scene.created_once("strict");
    for record in executed {
        assert!(made.contains_key(&period_label(time(&record["periodId"]))), "{record}");
    }
    let status = scene.kronjob("strict")["status"].take();
    for record in records(&status, "missed") {
        assert!(!made.contains_key(&period_label(time(&record["periodId"]))), "{record}");
    }
}

#[test]
fn nothing_runs_while_suspended_and_nothing_of_that_time_after() {
    let scene = Scene::shared("suspend");
    scene.create("pausing", &spec("* * * * * *"));
    scene.await_outcome("pausing", "executed");
    scene.edit("pausing", &json!({ "policy": { "suspend": true } }));
    scene.await_condition("pausing", "Suspended", "True");
    let status = scene.kronjob("pausing")["status"].take();
    let suspended = time(&status["suspendedAt"]);
    assert_eq!(status["next"], Value::Null);
    assert_eq!(condition(&status, "Ready").unwrap()["reason"], "Suspended");
    wait_for_clock(suspended + SECOND * 4);
    let still = scene.kronjob("pausing")["status"].take();
    assert_eq!(still["lastHandledPeriod"], status["lastHandledPeriod"], "nothing is handled");
    assert_eq!(still["last"]["periodId"], status["last"]["periodId"]);

    scene.edit("pausing", &json!({ "policy": { "suspend": false } }));
    let resumed = time(&scene.kronjob("pausing")["status"]["resumedAt"]);
    assert!(resumed >= suspended + SECOND * 4);
    let status = scene.await_status("pausing", "it runs again", |status| {
        (time(&status["lastHandledPeriod"]) > resumed).then(|| status.clone())
    });
    assert_eq!(status["suspendedAt"], Value::Null);
    let (from, to) = (period_label(suspended), period_label(resumed));
    let made = scene.created_once("pausing");
    assert!(made.keys().any(|period| *period > to), "{made:?}");
    let meanwhile = |period: &&String| **period > from && **period <= to;
    assert_eq!(made.keys().filter(meanwhile).collect::<Vec<_>>(), Vec::<&String>::new());
    for record in status["recent"].as_array().unwrap() {
        let period = time(&record["periodId"]);
        assert!(period <= suspended || period > resumed, "no outcome meanwhile: {record}");
    }
}

/// How late a period may be that falls due while a status is on its way, and how long before it
/// falls due the status is sent. The operator waits ten seconds for an answer: both and a second
/// fit in.
const ON_ITS_WAY_DEADLINE_S: i32 = 4;
const ON_ITS_WAY_LEAD_S: i32 = 3;
/// How long before it falls due its KronJob is made.
const READY_S: i64 = 10;

#[test]
fn what_falls_due_while_a_status_is_on_its_way_is_not_late() {
    // A machine that needs longer is given longer.
    let judged = (0..4).any(|doubled| what_falls_due_meanwhile_is_not_late(READY_S << doubled));
    assert!(judged, "this machine was too slow each time");
}

/// Whether the status was on its way when the period fell due, and the machine did not stall then,
/// so that it could be judged.
fn what_falls_due_meanwhile_is_not_late(lead_s: i64) -> bool {
    let scene = Scene::quiet("on-its-way");
    let proxy = Proxy::start(scene.plane);
    let args = [
        ["--namespace", &scene.namespace],
        ["--lease-namespace", &scene.namespace],
        // No request is given up sooner because a lease ends.
        ["--lease-duration", "60s"],
    ];
    let mut operator = Operator::start(&proxy.kubeconfig(OPERATOR), args.as_flattened());
    operator.await_event("leading", PATIENCE);
    let deadline = json!({ "policy": { "deadline": format!("{ON_ITS_WAY_DEADLINE_S}s") } });
    let due =
        scene.create_before(lead_s, |due| vec![("strict", spec_with(&once_at(due), &deadline))]);
    scene.await_condition("strict", "Ready", "True");
    if wall() >= due - SECOND * ON_ITS_WAY_LEAD_S {
        return false;
    }
    let pulse = Pulse::start(scene.plane, &scene.namespace);
    // The server answers only when the deadline is over.
    proxy.inject(Matching::STATUS, Fault::HoldAnswer, Often::Next(1));
    wait_for_clock(due - SECOND * ON_ITS_WAY_LEAD_S);
    let edit = json!({ "spec": { "failedJobsHistoryLimit": 2 } });
    scene.plane.api().patch(&scene.path("strict"), &edit).expect(200);
    scene.await_that("the status is sent", || (proxy.struck() == 1).then_some(()));
    if wall() >= due {
        pulse.longest_beat();
        return false;
    }
    let over = due + SECOND * (ON_ITS_WAY_DEADLINE_S + 1);
    wait_for_clock(over);
    proxy.release();
    let record = scene.await_status("strict", "there is a record", |status| {
        status["last"].is_object().then(|| status["last"].clone())
    });
    let beat = SignedDuration::try_from(pulse.longest_beat()).unwrap();
    if record["outcome"] == "missed" && beat >= SECOND * (ON_ITS_WAY_DEADLINE_S - 1) {
        // The operator may not have run when the second came.
        return false;
    }
    assert_eq!(proxy.struck(), 1);
    assert_eq!(record["outcome"], "executed", "{record} {beat:#}");
    let made = scene.created_once("strict")[&period_label(due)];
    assert!(made >= over, "it had to wait for the answer: {made}");
    assert!(operator.stop().success());
    true
}
