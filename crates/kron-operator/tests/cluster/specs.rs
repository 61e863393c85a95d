//! Bad specs, each of which is either refused or shown as `InvalidSpec` and never hurts another
//! object; and what people and their tools see of good ones.

use std::process::Output;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::control_plane::ADMIN;
use crate::operator::printed_crd;
use crate::scene::{
    Scene, condition, in_seconds, kronjob, seldom, shared_operator, spec, spec_with, text,
    wait_for_clock, wall,
};

const HOURLY: &str = "0 * * * *";
const HALF_A_DAY_S: i64 = 12 * 3600;

/// What `kubectl apply` refuses, and what it says then.
fn refused() -> Vec<(&'static str, Value, &'static str)> {
    let with = |patch: Value| spec_with(HOURLY, &patch);
    vec![
        (
            "mode",
            with(json!({ "window": { "mode": "beside" } })),
            r#"supported values: "after", "around", "before""#,
        ),
        (
            "negative-window",
            with(json!({ "window": { "duration": "-1s" } })),
            "spec.window.duration",
        ),
        (
            "wordy-window",
            with(json!({ "window": { "duration": "an hour" } })),
            "spec.window.duration",
        ),
        (
            "negative-deadline",
            with(json!({ "policy": { "deadline": "-5m" } })),
            "spec.policy.deadline",
        ),
        (
            "concurrency",
            with(json!({ "policy": { "concurrency": "Forbid" } })),
            r#"supported values: "allow", "forbid", "replace""#,
        ),
        (
            "distribution",
            with(json!({ "distribution": { "name": "poisson" } })),
            r#"supported values: "uniform""#,
        ),
        ("strategy", with(json!({ "seed": { "strategy": "hourly" } })), "spec.seed.strategy"),
        (
            "host-salt",
            with(json!({ "seed": { "salt": "on %H" } })),
            "a KronJob runs on no host in particular",
        ),
        ("local", with(json!({ "timeZone": "Local" })), "`Local` is no zone"),
        ("offset", with(json!({ "timeZone": "UTC+1:00" })), "spec.timeZone"),
        ("modifier", spec("0 * * * * @tz(Europe/Paris)"), "only cron fields belong here"),
        ("no-schedule", spec(""), "spec.schedule"),
        (
            "clause",
            with(json!({ "constraints": { "only": ["weekday=MON"] } })),
            "spec.constraints.only",
        ),
        (
            "history",
            with(json!({ "successfulJobsHistoryLimit": -1 })),
            "greater than or equal to 0",
        ),
        ("no-template", with(json!({ "jobTemplate": null })), "spec.jobTemplate: Required value"),
        (
            "empty-template",
            {
                let mut s = spec(HOURLY);
                s["jobTemplate"] = json!({});
                s
            },
            "spec.jobTemplate.spec: Required value",
        ),
        ("type", with(json!({ "policy": { "suspend": "yes" } })), "spec.policy.suspend"),
        ("field", with(json!({ "timezone": "UTC" })), r#"unknown field "spec.timezone""#),
        (
            "pod-field",
            with(
                json!({ "jobTemplate": { "spec": { "template": { "spec": { "contaners": [] } } } } }),
            ),
            "contaners",
        ),
        (
            "a-name-that-is-too-long-for-the-label-that-its-jobs-carry-in-this-cluster",
            spec(HOURLY),
            "at most 63 characters",
        ),
    ]
}

/// What only the engine sees, and what the condition says then.
fn invalid() -> Vec<(&'static str, Value, &'static str)> {
    let with = |patch: Value| spec_with(HOURLY, &patch);
    let skew = |params: Value| {
        with(
            json!({ "window": { "duration": "10m" }, "distribution": { "name": "skewEarly", "params": params } }),
        )
    };
    vec![
        ("zone", with(json!({ "timeZone": "Mars/Base" })), "spec.timeZone: "),
        ("overlap", with(json!({ "window": { "duration": "61m" } })), "overlap"),
        ("minute", spec("61 * * * *"), "spec.schedule: "),
        ("fields", spec("* * *"), "spec.schedule: "),
        ("nickname", spec("@sometimes"), "spec.schedule: "),
        (
            "closed",
            with(json!({ "constraints": { "avoid": ["hours=0-23"] } })),
            "the constraints can never match",
        ),
        (
            "hours",
            with(json!({ "constraints": { "only": ["hours=25"] } })),
            "spec.constraints.only: ",
        ),
        (
            "dates",
            with(json!({ "constraints": { "avoid": ["date=2026-02-30"] } })),
            "spec.constraints.avoid: ",
        ),
        ("shape", skew(json!({ "shape": 1000 })), "spec.distribution: "),
        ("shape-text", skew(json!({ "shape": "steep" })), "spec.distribution: "),
        ("shape-list", skew(json!({ "shape": [2] })), "spec.distribution: "),
        ("shape-map", skew(json!({ "shape": { "of": 2 } })), "spec.distribution: "),
        ("other-param", skew(json!({ "lambda": 2 })), "spec.distribution: "),
        ("half-second", with(json!({ "window": { "duration": "1500ms" } })), "spec.window: "),
        ("half-deadline", with(json!({ "policy": { "deadline": "0.5s" } })), "spec.policy: "),
        ("too-long", with(json!({ "window": { "duration": "9000h" } })), "spec.window: "),
        (
            "control",
            with(json!({ "seed": { "salt": "a\u{7}b" } })),
            "the salt contains a control character",
        ),
    ]
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn apply(scene: &Scene, manifests: &str, more: &[&str]) -> Output {
    let mut args = vec!["apply", "-n", &scene.namespace, "-f", "-"];
    args.extend_from_slice(more);
    scene.plane.kubectl_as(ADMIN, &args, manifests)
}

#[test]
fn kubectl_apply_refuses_what_the_schema_sees() {
    let scene = Scene::shared("rejected");
    let manifests: Vec<String> =
        refused().iter().map(|(name, spec, _)| kronjob(name, spec).to_string()).collect();
    let output = apply(&scene, &manifests.join("\n---\n"), &[]);
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    for (name, _, expected) in refused() {
        // What cannot even be decoded is refused without its name.
        let about = |line: &&str| name.ends_with("field") || line.contains(&format!("\"{name}\""));
        assert!(said.lines().any(|line| about(&line) && line.contains(expected)), "{name}: {said}");
    }
    let output = scene.plane.kubectl(&["get", "kj", "-n", &scene.namespace, "-o", "name"]);
    assert_eq!(out(&output), "", "nothing of it was made");

    // Whoever turns the checks of kubectl off is still refused by the server, or the field is left
    // out: a misspelt one is not there.
    let manifests: Vec<String> = refused()
        .iter()
        .filter(|(name, ..)| !name.ends_with("field"))
        .map(|(name, spec, _)| kronjob(name, spec).to_string())
        .collect();
    let output = apply(&scene, &manifests.join("\n---\n"), &["--validate=false"]);
    assert!(!output.status.success());
    let output = scene.plane.kubectl(&["get", "kj", "-n", &scene.namespace, "-o", "name"]);
    assert_eq!(out(&output), "");
}

#[test]
fn what_only_the_engine_sees_becomes_a_condition_and_hurts_nobody() {
    let scene = Scene::shared("invalid");
    scene.create("sound", &spec("* * * * * *"));
    for (name, spec, _) in invalid() {
        scene.create(name, &spec);
    }
    for (name, _, expected) in invalid() {
        let wrong = scene.await_condition(name, "InvalidSpec", "True");
        assert!(text(&wrong["message"]).contains(expected), "{name}: {wrong}");
        let status = scene.kronjob(name)["status"].take();
        assert_eq!(condition(&status, "Ready").unwrap()["status"], "False", "{name}");
        assert_eq!(status["next"], Value::Null, "{name}");
        assert_eq!(status["observedGeneration"], 1, "{name}");
        let note = scene.await_event(name, "InvalidSpec");
        assert_eq!(note["type"], "Warning");
        assert!(text(&note["note"]).contains(expected), "{note}");
    }

    // Something else about it changes; that is no news.
    let label = json!({ "metadata": { "labels": { "touched": "yes" } } });
    for (name, ..) in invalid() {
        scene.plane.api().patch(&scene.path(name), &label).expect(200);
    }
    // A valid spec makes it whole.
    let mended: Vec<_> = invalid().into_iter().map(|(name, ..)| name).take(6).collect();
    for name in &mended {
        let whole = json!({ "spec": {
            "schedule": "* * * * * *", "timeZone": "UTC", "window": null, "constraints": null,
            "distribution": null, "seed": null,
        } });
        scene.plane.api().patch(&scene.path(name), &whole).expect(200);
    }
    for name in &mended {
        scene.await_condition(name, "Ready", "True");
        scene.await_condition(name, "InvalidSpec", "False");
        scene.await_outcome(name, "executed");
        let status = scene.kronjob(name)["status"].take();
        let effective = text(&status["effectiveFrom"]);
        let first =
            status["recent"].as_array().unwrap().iter().filter(|r| r["outcome"] == "executed");
        for record in first {
            assert!(
                text(&record["chosenTime"]) > effective,
                "{name}: nothing of the past: {status:#}"
            );
        }
    }
    for (name, ..) in invalid() {
        assert_eq!(scene.events(name, "InvalidSpec").len(), 1, "{name}: told once");
    }
    // A valid one that becomes invalid stops.
    scene.edit("sound", &json!({ "timeZone": "Mars/Base" }));
    scene.await_condition("sound", "InvalidSpec", "True");
    let made = scene.created_once("sound").len();
    assert!(made > 0);
    wait_for_clock(wall() + SignedDuration::from_secs(2));
    assert_eq!(scene.created_once("sound").len(), made);

    let operator = shared_operator();
    assert!(operator.is_running());
    assert!(!operator.log_text().contains("panicked"), "{}", operator.log_text());
}

#[test]
fn kubectl_shows_explains_and_waits() {
    let scene = Scene::shared("kubectl");
    // Half a day from now, so that what is shown does not change meanwhile.
    let schedule = in_seconds(HALF_A_DAY_S).strftime("H %-H * * *").to_string();
    let mut daily = spec(&schedule);
    daily["window"] = json!({ "duration": "30m" });
    let output = apply(&scene, &kronjob("nightly", &daily).to_string(), &[]);
    assert_eq!(out(&output).trim(), "kronjob.kron.dev/nightly created");
    let kubectl = |args: &[&str]| {
        let all: Vec<&str> = ["-n", &scene.namespace].iter().chain(args).copied().collect();
        scene.plane.kubectl(&all)
    };
    out(&kubectl(&["wait", "--for=condition=Ready", "--timeout=180s", "kj/nightly"]));
    let text = out(&kubectl(&["get", "kj"]));
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let expected = ["NAME", "SCHEDULE", "SUSPEND", "READY", "NEXT", "LAST", "ACTIVE", "AGE"];
    assert_eq!(columns, expected, "{text}");
    let row = lines.next().unwrap();
    let next = scene.kronjob("nightly")["status"]["next"]["chosenTime"].take();
    assert!(
        row.starts_with(&format!("nightly   {schedule}   false     True    "))
            && row.contains(next.as_str().unwrap()),
        "{text}"
    );
    let text = out(&kubectl(&["get", "kj", "-o", "wide"]));
    for column in ["ZONE", "RESULT", "REASON"] {
        assert!(text.contains(column), "{text}");
    }
    assert!(out(&kubectl(&["get", "all"])).contains("kronjob.kron.dev/nightly"), "category all");
    let text = out(&kubectl(&["explain", "kronjob.spec.window"]));
    assert!(text.contains("How far from its nominal time a period may run"), "{text}");
    assert!(text.contains("Where the window lies: `after` the nominal time"), "{text}");
    let text = out(&kubectl(&["explain", "kronjob.spec.policy.deadline"]));
    assert!(text.contains("How late a Job may be made"), "{text}");

    // The definition fits into the annotation that a plain `kubectl apply` writes.
    let args = ["apply", "--dry-run=server", "-f", "-"];
    let output = scene.plane.kubectl_as(ADMIN, &args, &printed_crd());
    assert!(out(&output).contains("customresourcedefinition"));
}

#[test]
fn tools_that_compare_specs_see_no_change_and_an_idle_kronjob_is_not_written() {
    let scene = Scene::shared("gitops");
    let manifest = kronjob("declared", &spec(&seldom())).to_string();
    apply(&scene, &manifest, &[]);
    let created = scene.kronjob("declared");
    scene.await_condition("declared", "Ready", "True");
    let busy = kronjob("busy", &spec("* * * * * *")).to_string();
    apply(&scene, &busy, &[]);
    scene.await_outcomes("busy", "executed", 2);

    let before = scene.kronjob("declared");
    wait_for_clock(wall() + SignedDuration::from_secs(3));
    let after = scene.kronjob("declared");
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);

    for (name, manifest) in [("declared", &manifest), ("busy", &busy)] {
        let said = out(&apply(&scene, manifest, &[]));
        assert_eq!(said.trim(), format!("kronjob.kron.dev/{name} unchanged"));
        let diff = ["diff", "-n", &scene.namespace, "-f", "-"];
        let output = scene.plane.kubectl_as(ADMIN, &diff, manifest);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let now = scene.kronjob(name);
        assert_eq!(now["metadata"]["generation"], 1);
        let managers = now["metadata"]["managedFields"].as_array().unwrap();
        let ours: Vec<&Value> =
            managers.iter().filter(|manager| manager["manager"] == "kron-operator").collect();
        assert!(!ours.is_empty());
        for manager in ours {
            assert_eq!(manager["subresource"], "status");
            let fields: Vec<&String> = manager["fieldsV1"].as_object().unwrap().keys().collect();
            assert_eq!(fields, ["f:status"], "{manager:#}");
        }
    }
    assert_eq!(created["spec"], after["spec"]);
    assert_eq!(created["metadata"]["annotations"], after["metadata"]["annotations"]);
}
