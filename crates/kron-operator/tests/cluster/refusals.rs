//! Jobs that cannot be made: the server refuses the template, a quota is used up, the name is taken.

use std::cell::Cell;
use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::control_plane::OPERATOR;
use crate::judge::{JobKey, Judge, period_label};
use crate::operator::Operator;
use crate::proxy::{Fault, Matching, Often, Proxy};
use crate::pulse::Pulse;
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
    // Each is due in a second of every minute, so that no later period supersedes one that a busy
    // machine is late with.
    let sound = [("sound-0", 3), ("sound-1", 6)];
    for (name, lead_s) in sound {
        let minutely = in_seconds(lead_s).strftime("%-S * * * * *").to_string();
        let late = json!({ "policy": { "deadline": "55s" } });
        scene.create(name, &spec_with(&minutely, &late));
    }
    let trouble = scene.await_condition("broken", "SchedulingError", "True");
    assert_eq!(trouble["reason"], "JobNotCreated");
    assert!(text(&trouble["message"]).contains("restartPolicy"), "{trouble}");
    let ready = scene.await_condition("broken", "Ready", "False");
    assert_eq!(ready["reason"], "SchedulingError");
    let note = scene.await_event("broken", "JobNotCreated");
    assert_eq!(note["type"], "Warning");
    assert!(text(&note["note"]).contains("restartPolicy"), "{note}");
    for (name, _) in sound {
        scene.await_outcome(name, "executed");
        let status = scene.kronjob(name)["status"].take();
        assert_eq!(records(&status, "missed"), Vec::<Value>::new(), "others go on");
    }

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
        "spec": { "hard": { "count/jobs.batch": "9" } },
    });
    api.post(&path, &quota).expect(201);
    // No controller counts here: the test says how much is used.
    let use_up = |used: &str| {
        let status = json!({ "status": {
            "hard": { "count/jobs.batch": "9" },
            "used": { "count/jobs.batch": used },
        } });
        api.patch(&format!("{path}/few/status"), &status).expect(200);
    };
    use_up("9");
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
    // One is due once. The other is due in a second of every minute: a period counts if the
    // operator asked for its Job within the deadline, and after one in which the machine stalled
    // comes another.
    let due = scene.create_before(5, |due| {
        let with_deadline = |schedule: &str, deadline: &str| {
            spec_with(schedule, &json!({ "policy": { "deadline": deadline } }))
        };
        let minutely = due.strftime("%-S * * * * *").to_string();
        vec![
            ("waiting", with_deadline(&once_at(due), "1h")),
            ("late", with_deadline(&minutely, "10s")),
        ]
    });
    for name in ["waiting", "late"] {
        let trouble = scene.await_condition(name, "SchedulingError", "True");
        assert!(text(&trouble["message"]).contains("exceeded quota"), "{trouble}");
    }
    let missed = scene.await_status("late", "a period is missed, and why", |status| {
        let missed = records(status, "missed");
        missed.into_iter().find(|record| text(&record["reason"]).contains("exceeded quota"))
    });
    assert!(text(&missed["reason"]).starts_with("deadline exceeded, "), "{missed}");
    assert_eq!(scene.created_once("late").len(), 0);
    use_up("0");
    let executed = scene.await_outcome("waiting", "executed");
    assert_eq!(time(&executed["periodId"]), due);
    scene.await_condition("waiting", "SchedulingError", "False");
    assert_eq!(scene.created_once("waiting").len(), 1);
    // Later periods of it may run now; this one never does.
    let made = scene.created_once("late");
    assert!(!made.contains_key(&period_label(time(&missed["periodId"]))), "{made:?}");
}

#[test]
fn a_foreign_job_of_the_name_is_left_alone() {
    let scene = Scene::shared("foreign");
    // Due in a second of every minute; the names of several minutes are taken. A period counts if
    // the operator asked for its Job within the deadline; after one in which the machine stalled
    // comes another.
    let second = in_seconds(8);
    let labels = json!({ "kron.dev/kronjob": "taken", "kron.dev/period": "20000101T000000Z" });
    let foreign: Vec<(Timestamp, Value)> = (0..MINUTES_TAKEN)
        .map(|minutes| {
            let due = second + SignedDuration::from_mins(minutes);
            let foreign = json!({
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": { "name": job_name("taken", due), "labels": labels },
                "spec": spec("@daily")["jobTemplate"]["spec"],
            });
            (due, scene.plane.api().post(&scene.jobs_path(), &foreign).expect(201))
        })
        .collect();
    let schedule = second.strftime("%-S * * * * *").to_string();
    scene.create("taken", &spec_with(&schedule, &json!({ "policy": { "deadline": "10s" } })));
    let expected = |due: Timestamp| {
        let name = job_name("taken", due);
        format!("a Job `{name}` exists that does not belong to this KronJob")
    };
    let trouble = scene.await_condition("taken", "SchedulingError", "True");
    let is_named = |(due, _): &(Timestamp, Value)| trouble["message"] == expected(*due);
    assert!(foreign.iter().any(is_named), "{trouble}");
    let missed = scene.await_status("taken", "a period is missed, and why", |status| {
        let missed = records(status, "missed");
        let says_why =
            |record: &Value| text(&record["reason"]).contains(&expected(time(&record["periodId"])));
        missed.into_iter().find(says_why)
    });
    let due = time(&missed["periodId"]);
    assert!(foreign.iter().any(|(taken, _)| *taken == due), "{missed}");
    assert!(text(&missed["reason"]).starts_with("deadline exceeded, "), "{missed}");
    for (due, foreign) in &foreign {
        let path = format!("{}/{}", scene.jobs_path(), job_name("taken", *due));
        let kept = scene.plane.api().get(&path).expect(200);
        assert_eq!(kept["metadata"]["uid"], foreign["metadata"]["uid"], "nobody touched it");
    }
}

/// The minutes whose names are taken: more than a test lasts.
const MINUTES_TAKEN: i64 = 10;

/// So many requests of one namespace hang at least.
const STRUCK_MIN: usize = 20;
/// How many KronJobs hang: more than all the requests that are under way at once.
const HANGING: usize = 40;
/// How many KronJobs there are in the other namespace. One is due in every second, and each has as
/// long as its deadline until a later period supersedes this one.
const SOUND: i64 = 60;
/// How late a Job of the other namespace may be on a machine that is not busy. One that waits for
/// those that hang is up to ten seconds late, because so long the operator waits for an answer.
const LATE_MAX: SignedDuration = SignedDuration::from_secs(5);
/// So many requests and timers there are one after the other until a Job is made: each may take as
/// much longer as the machine is slow.
const STEPS: u32 = 6;

#[test]
fn a_namespace_whose_creations_hang_keeps_no_other_waiting() {
    // A machine that stalls for as long as requests hang has shown nothing, and is asked again.
    let judged = (0..3).any(|_| hanging_creations_keep_no_other_waiting());
    assert!(judged, "no Job was made before the operator gave up those that hang");
}

/// Whether a Job of the other namespace was made while all those that were sent first hung.
fn hanging_creations_keep_no_other_waiting() -> bool {
    let hung = Scene::quiet("hung");
    let sound = Scene::quiet("sound");
    let proxy = Proxy::start(hung.plane);
    let path_part = format!("/namespaces/{}/", hung.namespace).leak();
    let matching = Matching { path_part, ..Matching::JOB_CREATION };
    proxy.inject(matching, Fault::HoldRequest, Often::Always);
    let args = [
        ["--namespace", &hung.namespace],
        ["--namespace", &sound.namespace],
        ["--lease-namespace", &hung.namespace],
        // No request is given up sooner because a lease ends.
        ["--lease-duration", "60s"],
    ];
    let mut operator = Operator::start(&proxy.kubeconfig(OPERATOR), args.as_flattened());
    operator.await_event("planned", PATIENCE);
    let sound_name = |second: i64| format!("sound-{second:02}");
    for second in 0..SOUND {
        let patch = json!({
            "policy": { "deadline": "55s" },
            "jobTemplate": { "spec": { "suspend": true } },
        });
        sound.create(&sound_name(second), &spec_with(&format!("{second} * * * * *"), &patch));
    }
    for second in 0..SOUND {
        sound.await_condition(&sound_name(second), "Ready", "True");
    }
    let names: Vec<String> = (0..HANGING).map(|number| format!("hung-{number}")).collect();
    // Those of an attempt that was too slow do not count.
    let struck_before = Cell::new(0);
    let due = hung.create_before(10, |due| {
        struck_before.set(proxy.struck());
        let mut late = spec(&once_at(due));
        late["policy"]["deadline"] = "1h".into();
        names.iter().map(|name| (name.as_str(), late.clone())).collect()
    });
    let pulse = Pulse::start(sound.plane, &sound.namespace);
    // As many hang as may be under way.
    wait_for_clock(due);
    hung.await_that("they hang", || {
        (proxy.struck() >= struck_before.get() + STRUCK_MIN).then_some(())
    });
    let hanging = wall();

    // How many of those that hang the operator has given up, and the Jobs of the other namespace.
    let given_up = || {
        let ours = format!("{}/", hung.namespace);
        let mut failed = operator.events("request_failed");
        failed.retain(|event| {
            event["operation"] == "create_job" && text(&event["identity"]).starts_with(&ours)
        });
        failed.len()
    };
    let made = || -> BTreeSet<String> {
        let list = sound.plane.api().get(&sound.jobs_path()).expect(200);
        let jobs = list["items"].as_array().unwrap().iter();
        jobs.map(|job| text(&job["metadata"]["name"]).to_owned()).collect()
    };
    let sound_job = |second: i64| {
        job_name(&sound_name(second.rem_euclid(SOUND)), Timestamp::from_second(second).unwrap())
    };
    // The first Job of a second that came after they hung is made before any of them is given up.
    let first = hanging.as_second() + 1;
    sound.await_that("a Job is made while they hang", || {
        let made = made();
        (first..=wall().as_second()).any(|second| made.contains(&sound_job(second))).then_some(())
    });
    let was_first = given_up() == 0;

    // The first that hang are given up after ten seconds; then they are tried again.
    hung.await_that("they are given up", || (given_up() >= STRUCK_MIN).then_some(()));
    let struck = proxy.struck();
    hung.await_that("they are tried again", || (proxy.struck() > struck).then_some(()));
    wait_for_clock(hanging + SignedDuration::from_secs(20));
    let meanwhile = first..=wall().as_second();
    let sound_key = |second: i64| JobKey {
        namespace: sound.namespace.clone(),
        kronjob: sound_name(second.rem_euclid(SOUND)),
        period: period_label(Timestamp::from_second(second).unwrap()),
    };
    let judge: Judge = sound.await_that("every second has its Job", || {
        let judge = sound.plane.judge(&sound.namespace);
        let is_made = |second: i64| judge.created().contains_key(&sound_key(second));
        meanwhile.clone().all(is_made).then_some(judge)
    });
    sound.await_event(&sound_name(first.rem_euclid(SOUND)), "JobCreated");
    let late_max = LATE_MAX + SignedDuration::try_from(pulse.longest_beat() * STEPS).unwrap();
    proxy.heal();
    proxy.release();
    assert_eq!(judge.doubled(), [], "a period has at most one Job");
    for second in meanwhile {
        let due = Timestamp::from_second(second).unwrap();
        let late = judge.created()[&sound_key(second)][0].received.duration_since(due);
        assert!(late < late_max, "{due}: {late:#} late, allowed are {late_max:#}");
    }
    for second in 0..SOUND {
        let status = sound.kronjob(&sound_name(second))["status"].take();
        assert_eq!(records(&status, "missed"), Vec::<Value>::new());
    }
    // Those that hung come right, once each.
    for number in 0..HANGING {
        hung.await_outcome(&format!("hung-{number}"), "executed");
    }
    assert_eq!(hung.created_once("hung-0").len(), 1);
    assert!(operator.stop().success());
    was_first
}
