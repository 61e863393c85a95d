//! Jobs that cannot be made: the server refuses the template, a quota is used up, the name is taken.

use std::cell::Cell;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::control_plane::OPERATOR;
use crate::judge::period_label;
use crate::operator::Operator;
use crate::proxy::{Fault, Matching, Often, Proxy};
use crate::scene::{
    PATIENCE, Scene, in_seconds, job_name, once_at, records, spec, spec_with, text, time,
    wait_for_clock, wall,
};

#[test]
fn a_template_that_the_server_refuses_is_shown_and_mended_by_an_edit() {
    let scene = Scene::shared("refused");
    // A Job's pods may not restart always, which only the server knows.
    let always = json!({ "jobTemplate": { "spec": { "template": {
        "spec": { "restartPolicy": "Always" },
    } } } });
    scene.create("broken", &spec_with("*/2 * * * * *", &always));
    // Five seconds are time enough that none is missed on a busy machine.
    scene.create("sound", &spec("*/5 * * * * *"));
    let trouble = scene.await_condition("broken", "SchedulingError", "True");
    assert_eq!(trouble["reason"], "JobNotCreated");
    assert!(text(&trouble["message"]).contains("restartPolicy"), "{trouble}");
    let ready = scene.await_condition("broken", "Ready", "False");
    assert_eq!(ready["reason"], "SchedulingError");
    let note = scene.await_event("broken", "JobNotCreated");
    assert_eq!(note["type"], "Warning");
    assert!(text(&note["note"]).contains("restartPolicy"), "{note}");
    scene.await_outcomes("sound", "executed", 2);
    let sound = scene.kronjob("sound")["status"].take();
    assert_eq!(records(&sound, "missed"), Vec::<Value>::new(), "others go on");

    scene.edit(
        "broken",
        &json!({ "jobTemplate": { "spec": { "template": {
        "spec": { "restartPolicy": "Never" },
    } } } }),
    );
    scene.await_outcome("broken", "executed");
    scene.await_condition("broken", "Ready", "True");
    scene.await_condition("broken", "SchedulingError", "False");
    scene.created_once("broken");
    assert_eq!(scene.events("broken", "JobNotCreated").len(), 1, "told once");
}

#[test]
fn a_used_up_quota_delays_a_job_until_its_deadline() {
    let scene = Scene::shared("quota");
    let api = scene.plane.api();
    let path = format!("/api/v1/namespaces/{}/resourcequotas", scene.namespace);
    let quota = json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": { "name": "few" },
        "spec": { "hard": { "count/jobs.batch": "1" } },
    });
    api.post(&path, &quota).expect(201);
    // No controller counts here: the test says how much is used.
    let use_up = |used: &str| {
        let status = json!({ "status": {
            "hard": { "count/jobs.batch": "1" },
            "used": { "count/jobs.batch": used },
        } });
        api.patch(&format!("{path}/few/status"), &status).expect(200);
    };
    use_up("1");
    // The API server keeps quotas in memory for a moment.
    let probe = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": "probe" },
        "spec": spec("@daily")["jobTemplate"]["spec"],
    });
    scene.await_that("the quota is in force", || {
        let answer = api.post(&format!("{}?dryRun=All", scene.jobs_path()), &probe);
        (answer.status == 403).then_some(())
    });
    let due = scene.create_before(5, |due| {
        let with_deadline = |deadline: &str| {
            spec_with(&once_at(due), &json!({ "policy": { "deadline": deadline } }))
        };
        vec![("waiting", with_deadline("1h")), ("late", with_deadline("5s"))]
    });
    for name in ["waiting", "late"] {
        let trouble = scene.await_condition(name, "SchedulingError", "True");
        assert!(text(&trouble["message"]).contains("exceeded quota"), "{trouble}");
    }
    let missed = scene.await_outcome("late", "missed");
    assert!(text(&missed["reason"]).contains("exceeded quota"), "it says why: {missed}");
    use_up("0");
    let executed = scene.await_outcome("waiting", "executed");
    assert_eq!(time(&executed["periodId"]), due);
    scene.await_condition("waiting", "SchedulingError", "False");
    assert_eq!(scene.created_once("waiting").len(), 1);
    assert_eq!(scene.created_once("late").len(), 0);
}

#[test]
fn a_foreign_job_of_the_name_is_left_alone() {
    let scene = Scene::shared("foreign");
    // Due in a second of every minute; the names of several minutes are taken.
    let second = in_seconds(8);
    let labels = json!({ "kron.dev/kronjob": "taken", "kron.dev/period": "20000101T000000Z" });
    let foreign: Vec<Value> = (0..5)
        .map(|minutes| {
            let name = job_name("taken", second + SignedDuration::from_mins(minutes));
            let foreign = json!({
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": { "name": name, "labels": labels },
                "spec": spec("@daily")["jobTemplate"]["spec"],
            });
            scene.plane.api().post(&scene.jobs_path(), &foreign).expect(201)
        })
        .collect();
    let schedule = second.strftime("%-S * * * * *").to_string();
    let taken =
        scene.create("taken", &spec_with(&schedule, &json!({ "policy": { "deadline": "5s" } })));
    let created_at = time(&taken["metadata"]["creationTimestamp"]);
    let minutes = (0..5).find(|minutes| second + SignedDuration::from_mins(*minutes) > created_at);
    let due = second + SignedDuration::from_mins(minutes.unwrap());
    let foreign = &foreign[usize::try_from(minutes.unwrap()).unwrap()];
    let name = job_name("taken", due);
    let trouble = scene.await_condition("taken", "SchedulingError", "True");
    let expected = format!("a Job `{name}` exists that does not belong to this KronJob");
    assert_eq!(trouble["message"], expected);
    let missed = scene.await_outcome("taken", "missed");
    assert_eq!(time(&missed["periodId"]), due);
    assert!(text(&missed["reason"]).starts_with("deadline exceeded, "), "{missed}");
    assert!(text(&missed["reason"]).contains("does not belong"), "{missed}");
    let kept = scene.plane.api().get(&format!("{}/{name}", scene.jobs_path())).expect(200);
    assert_eq!(kept["metadata"]["uid"], foreign["metadata"]["uid"], "nobody touched it");
}

/// So many requests of one namespace hang at least.
const STRUCK_MIN: usize = 20;
/// How many KronJobs hang: more than all the requests that are under way at once.
const HANGING: usize = 40;
/// How long their creations take, which is longer than the operator waits for.
const HANG: Duration = Duration::from_secs(12);
/// How late a Job of another namespace may be. One that waits for those that hang is ten seconds
/// late, because so long the operator waits for an answer.
const LATE_MAX: SignedDuration = SignedDuration::from_secs(9);

#[test]
fn a_namespace_whose_creations_hang_keeps_no_other_waiting() {
    let hung = Scene::quiet("hung");
    let sound = Scene::quiet("sound");
    let proxy = Proxy::start(hung.plane);
    let path_part = format!("/namespaces/{}/", hung.namespace).leak();
    let matching = Matching { path_part, ..Matching::JOB_CREATION };
    proxy.inject(matching, Fault::DelayRequest(HANG), Often::Always);
    let args = [
        ["--namespace", &hung.namespace],
        ["--namespace", &sound.namespace],
        ["--lease-namespace", &hung.namespace],
        ["--lease-duration", "15s"],
    ];
    let mut operator = Operator::start(&proxy.kubeconfig(OPERATOR), args.as_flattened());
    operator.await_event("planned", PATIENCE);
    sound.create("sound", &spec("*/10 * * * * *"));
    sound.await_condition("sound", "Ready", "True");
    let names: Vec<String> = (0..HANGING).map(|number| format!("hung-{number}")).collect();
    // Those of an attempt that was too slow do not count.
    let struck_before = Cell::new(0);
    let due = hung.create_before(10, |due| {
        struck_before.set(proxy.struck());
        let mut late = spec(&once_at(due));
        late["policy"]["deadline"] = "1h".into();
        names.iter().map(|name| (name.as_str(), late.clone())).collect()
    });
    // As many hang as may be under way.
    wait_for_clock(due);
    hung.await_that("they hang", || {
        (proxy.struck() >= struck_before.get() + STRUCK_MIN).then_some(())
    });
    let hanging = wall();

    // The first that hang are given up after ten seconds; then they are tried again. Two periods of
    // the other come meanwhile.
    wait_for_clock(hanging + SignedDuration::from_secs(20) + LATE_MAX);
    proxy.heal();
    let made = sound.created_once("sound");
    let seconds = hanging.as_second() + 1..=hanging.as_second() + 20;
    for second in seconds.filter(|second| second % 10 == 0) {
        let period = Timestamp::from_second(second).unwrap();
        let at = made.get(&period_label(period));
        assert!(at.is_some_and(|at| *at < period + LATE_MAX), "{period}: {at:?}");
    }
    let status = sound.kronjob("sound")["status"].take();
    assert_eq!(records(&status, "missed"), Vec::<Value>::new());
    assert!(!sound.events("sound", "JobCreated").is_empty(), "Events are told meanwhile");
    // Those that hung come right, once each.
    for number in 0..HANGING {
        hung.await_outcome(&format!("hung-{number}"), "executed");
    }
    assert_eq!(hung.created_once("hung-0").len(), 1);
    assert!(operator.stop().success());
}
