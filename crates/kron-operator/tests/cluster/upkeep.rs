//! Old Jobs: which are kept, which are removed, and that it is the operator who does it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::process::now;
use crate::scene::{Scene, endless_spec, merge, spec, text, time, wall};

/// How old a Job must be before it is removed, as `kubectl explain kronjob.spec` says.
const YOUNG: SignedDuration = SignedDuration::from_secs(180);
/// How much later it is gone for certain.
const SLACK: SignedDuration = SignedDuration::from_secs(60);

fn keeping_nothing(schedule: &str) -> Value {
    let mut spec = spec(schedule);
    let patch = json!({
        "successfulJobsHistoryLimit": 0,
        "failedJobsHistoryLimit": 0,
        "jobTemplate": { "spec": { "ttlSecondsAfterFinished": 0 } },
    });
    merge(&mut spec, &patch);
    spec
}

#[test]
fn a_young_job_is_kept_whatever_the_limits_say() {
    let scene = Scene::shared("young");
    scene.create("brief", &keeping_nothing("*/2 * * * * *"));
    scene.await_status("brief", "three Jobs succeeded", |status| {
        let recent = status["recent"].as_array()?;
        let done = recent.iter().filter(|record| record["result"] == "succeeded").count();
        (done >= 3).then_some(())
    });
    let jobs = scene.jobs("brief");
    for job in &jobs {
        // Else the cluster would remove it before its period is recorded.
        assert_eq!(job["spec"]["ttlSecondsAfterFinished"], Value::Null);
    }
    let removed = scene
        .requests()
        .into_iter()
        .find(|request| request.resource == "jobs" && request.verb.starts_with("delete"));
    assert!(removed.is_none(), "{removed:?}");
    assert!(jobs.len() >= 3);
}

#[test]
fn a_job_that_is_taken_from_its_kronjob_is_let_go() {
    let scene = Scene::shared("detached");
    scene.create("single", &endless_spec("*/2 * * * * *", "forbid"));
    scene.await_outcome("single", "executed");
    scene.await_outcome("single", "skipped");
    let jobs = scene.jobs("single");
    assert_eq!(jobs.len(), 1);
    // Somebody keeps it for themselves; it has its labels yet.
    let path = format!("{}/{}", scene.jobs_path(), text(&jobs[0]["metadata"]["name"]));
    let freed = json!({ "metadata": { "ownerReferences": null } });
    scene.plane.api().patch(&path, &freed).expect(200);
    scene.await_that("another Job is made", || (scene.jobs("single").len() == 2).then_some(()));
    scene.await_status("single", "the other one is active", |status| {
        let active = status["active"].as_array()?;
        (active.len() == 1 && active[0]["uid"] != jobs[0]["metadata"]["uid"]).then_some(())
    });
    scene.plane.api().get(&path).expect(200);
}

#[test]
#[ignore = "waits five minutes until Jobs are old enough"]
fn old_jobs_go_by_number_and_by_time() {
    let scene = Scene::shared("old");
    scene.create("none", &keeping_nothing("*/10 * * * * *"));
    let mut two = spec("*/10 * * * * *");
    merge(&mut two, &json!({ "successfulJobsHistoryLimit": 2 }));
    scene.create("two", &two);
    let mut failing = spec("*/10 * * * * *");
    merge(
        &mut failing,
        &json!({ "failedJobsHistoryLimit": 1, "jobTemplate": { "spec": {
        "template": { "metadata": { "labels": { "kron.test/fail": "" } } },
    } } }),
    );
    scene.create("failing", &failing);
    let mut timed = spec("*/10 * * * * *");
    merge(
        &mut timed,
        &json!({
            "successfulJobsHistoryLimit": 100,
            "jobTemplate": { "spec": { "ttlSecondsAfterFinished": 70 } },
        }),
    );
    scene.create("timed", &timed);

    let end = now() + Duration::from_secs(300);
    let mut shrunk = [false; 4];
    let names = ["none", "two", "failing", "timed"];
    while now() < end {
        for (name, shrunk) in names.iter().zip(&mut shrunk) {
            let jobs = scene.jobs(name);
            let made = scene.created_once(name).len();
            *shrunk |= jobs.len() < made;
            let kept = jobs.iter().map(|job| text(&job["metadata"]["name"])).collect::<Vec<_>>();
            assert!(made < 3 || kept.len() >= 3, "all within three minutes stay: {kept:?}");
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    assert_eq!(shrunk, [true; 4], "old Jobs of {names:?} are removed");
    let mut created = BTreeMap::new();
    let mut removed = 0;
    for request in scene.requests() {
        if request.resource != "jobs" || !request.succeeded() {
            continue;
        }
        let metadata = &request.given["metadata"];
        if request.verb == "create" {
            created
                .insert(text(&metadata["name"]).to_owned(), time(&metadata["creationTimestamp"]));
        } else if request.verb == "delete" {
            assert_eq!(request.user, crate::control_plane::OPERATOR);
            let name = request.uri.split('?').next().and_then(|path| path.rsplit('/').next());
            assert!(request.received >= created[name.unwrap()] + YOUNG, "{request:?}");
            removed += 1;
        }
    }
    assert!(removed >= names.len(), "{removed} removed");
    for name in names {
        let jobs = scene.jobs(name);
        let old = jobs
            .iter()
            .filter(|job| time(&job["metadata"]["creationTimestamp"]) + YOUNG + SLACK < wall());
        let old = old.count();
        assert!(old == 0, "{name} has {old} Jobs that should be gone");
        scene.created_once(name);
    }
}
