//! Old Jobs: which are kept, which are removed, and that it is the operator who does it.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kron_testkit::waiting::now;
use serde_json::{Value, json};

use crate::audit::Request;
use crate::control_plane::OPERATOR;
use crate::scene::{PATIENCE, Scene, condition, endless_spec, merge, spec, text, time, wall};

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

/// The shared operator has the age of everyday, which is three minutes.
#[test]
fn a_young_job_is_kept_whatever_the_limits_say() {
    let scene = Scene::shared("young");
    scene.create("brief", &keeping_nothing("*/2 * * * * *"));
    // Of the Jobs themselves: a status has the latest ten periods, and on a busy machine a Job may
    // take longer than these.
    let third = scene.await_that("three Jobs succeeded", || {
        let jobs = scene.jobs("brief");
        let done = jobs.iter().filter_map(|job| condition(&job["status"], "Complete"));
        let mut ends: Vec<Timestamp> = done.map(|done| time(&done["lastTransitionTime"])).collect();
        ends.sort();
        ends.get(2).copied()
    });
    // The operator sees Jobs end in order, and records them with what it has seen.
    scene.await_status("brief", "a later Job has succeeded", |status| {
        let last = &status["lastSuccessfulTime"];
        (last.is_string() && time(last) > third).then_some(())
    });
    let jobs = scene.jobs("brief");
    for job in &jobs {
        // Else the cluster would remove it before its period is recorded.
        assert_eq!(job["spec"]["ttlSecondsAfterFinished"], Value::Null);
    }
    // A test that takes so long that they are old sees them go.
    let requests = scene.requests();
    let made = creations(&requests);
    for removed in requests
        .iter()
        .filter(|request| request.resource == "jobs" && request.verb.starts_with("delete"))
    {
        let is_old = |(_, created): (&String, &Timestamp)| {
            removed.received.duration_since(*created) >= SignedDuration::from_secs(180)
        };
        let of_this = made.iter().filter(|(name, _)| removed.uri.contains(name.as_str()));
        assert!(of_this.map(is_old).eq([true]), "{removed:?}");
    }
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

/// What differs between the test of every day and the one in real time.
struct Pace {
    /// How old a Job must be before it is removed.
    young: SignedDuration,
    /// How often Jobs are made.
    schedule: &'static str,
    /// For how long a Job is kept after its end where there is no other limit.
    ttl_s: i64,
    /// For how long Jobs are watched at least.
    watched: Duration,
}

#[test]
fn old_jobs_go_by_number_and_by_time() {
    let scene = Scene::quiet("old");
    let mut operator = scene.start_operator_with(&["--minimum-job-age", "5s"]);
    let warning = operator.await_event("removed_jobs_may_run_again", PATIENCE);
    assert_eq!(warning["minimum_job_age_s"], 5);
    let pace = Pace {
        young: SignedDuration::from_secs(5),
        schedule: "*/2 * * * * *",
        ttl_s: 3,
        watched: Duration::ZERO,
    };
    check_that_old_jobs_go(&scene, &pace);
    assert!(operator.stop().success());
}

#[test]
#[ignore = "in real time: watches for five minutes that Jobs go when they are three minutes old"]
fn old_jobs_go_three_minutes_after_they_were_made() {
    let scene = Scene::shared("old");
    let pace = Pace {
        // As `kubectl explain kronjob.spec` says.
        young: SignedDuration::from_secs(180),
        schedule: "*/10 * * * * *",
        ttl_s: 70,
        watched: Duration::from_secs(300),
    };
    check_that_old_jobs_go(&scene, &pace);
    // By then every Job is long gone that was to be removed.
    for name in NAMES {
        let jobs = scene.jobs(name);
        let gone = wall() - (pace.young + SignedDuration::from_secs(60));
        let old = jobs.iter().filter(|job| time(&job["metadata"]["creationTimestamp"]) < gone);
        let old = old.count();
        assert!(old == 0, "{name} has {old} Jobs that should be gone");
    }
}

/// KronJobs that keep Jobs by different limits.
const NAMES: [&str; 4] = ["none", "two", "failing", "timed"];

fn create_those_with_limits(scene: &Scene, pace: &Pace) {
    let limited = |patch: Value| {
        let mut spec = spec(pace.schedule);
        merge(&mut spec, &patch);
        spec
    };
    scene.create("none", &keeping_nothing(pace.schedule));
    scene.create("two", &limited(json!({ "successfulJobsHistoryLimit": 2 })));
    let failing = json!({ "failedJobsHistoryLimit": 1, "jobTemplate": { "spec": {
        "template": { "metadata": { "labels": { "kron.test/fail": "" } } },
    } } });
    scene.create("failing", &limited(failing));
    let timed = json!({
        "successfulJobsHistoryLimit": 100,
        "jobTemplate": { "spec": { "ttlSecondsAfterFinished": pace.ttl_s } },
    });
    scene.create("timed", &limited(timed));
}

/// The operator, and only the operator, removes Jobs of each KronJob, and none before it is old
/// enough.
fn check_that_old_jobs_go(scene: &Scene, pace: &Pace) {
    create_those_with_limits(scene, pace);
    let begun = now();
    let deadline = begun + pace.watched + Duration::try_from(pace.young).unwrap() + PATIENCE;
    loop {
        let made = creations(&scene.requests());
        let mut removed = [false; NAMES.len()];
        for (name, removed) in NAMES.iter().zip(&mut removed) {
            scene.created_once(name);
            let jobs = scene.jobs(name);
            let there: BTreeSet<&str> =
                jobs.iter().map(|job| text(&job["metadata"]["name"])).collect();
            // What is young now was young when the list was made.
            let old = wall() - pace.young;
            let of_this = made.iter().filter(|(job, _)| job.starts_with(&format!("{name}-")));
            for (job, created) in of_this {
                let is_there = there.contains(job.as_str());
                assert!(is_there || *created <= old, "{job} is young and gone: {there:?}");
                *removed |= !is_there;
            }
        }
        if removed == [true; NAMES.len()] && begun.elapsed() >= pace.watched {
            break;
        }
        assert!(now() < deadline, "old Jobs of {NAMES:?} are removed: {removed:?}");
        thread::sleep(LOOK);
    }
    let requests = scene.requests();
    let made = creations(&requests);
    let mut removed: BTreeSet<&str> = BTreeSet::new();
    for request in requests.iter().filter(|request| {
        request.resource == "jobs" && request.verb == "delete" && request.succeeded()
    }) {
        assert_eq!(request.user, OPERATOR);
        let path = request.uri.split('?').next().unwrap();
        let name = path.rsplit('/').next().unwrap();
        assert!(request.received >= made[name] + pace.young, "{request:?}");
        removed.insert(name);
    }
    assert!(removed.len() >= NAMES.len(), "{removed:?}");
    for name in NAMES {
        scene.created_once(name);
    }
}

/// How often the Jobs are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// When each Job was made, by its name.
fn creations(requests: &[Request]) -> BTreeMap<String, Timestamp> {
    let made = requests.iter().filter(|request| {
        request.resource == "jobs" && request.verb == "create" && request.succeeded()
    });
    made.map(|request| {
        let metadata = &request.given["metadata"];
        (text(&metadata["name"]).to_owned(), time(&metadata["creationTimestamp"]))
    })
    .collect()
}
