//! The schema that an API server gets, and the faults that each bad spec has.

use kron_core::TimingParser;
use serde_json::{Value, json};

use super::*;

/// What an API server takes in one annotation of `kubectl apply`.
const APPLIED_BYTES_MAX: usize = 262_144;

fn schema() -> Value {
    let crd = serde_json::to_value(crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn spec(change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({ "schedule": "0 3 * * *", "jobTemplate": { "spec": {} } });
    change(&mut spec);
    spec
}

fn read(spec: Value) -> Result<kron_core::Timing, Vec<Fault>> {
    let spec: KronJobSpec = serde_json::from_value(spec).unwrap();
    timing(&mut TimingParser::new(), "shop/nightly", &spec)
}

#[test]
fn the_definition_says_how_it_is_shown() {
    let crd = serde_json::to_value(crd()).unwrap();
    let spec = &crd["spec"];
    assert_eq!(crd["metadata"]["name"], "kronjobs.kron.dev");
    assert_eq!((&spec["group"], &spec["scope"]), (&json!("kron.dev"), &json!("Namespaced")));
    assert_eq!(
        spec["names"],
        json!({
            "kind": "KronJob",
            "plural": "kronjobs",
            "singular": "kronjob",
            "shortNames": ["kj"],
            "categories": ["all"],
        })
    );
    let version = &spec["versions"][0];
    assert_eq!(
        (&version["name"], &version["served"], &version["storage"]),
        (&json!("v1alpha1"), &json!(true), &json!(true))
    );
    assert_eq!(version["subresources"], json!({ "status": {} }));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let columns: Vec<(&str, &str, i64)> = columns
        .iter()
        .map(|column| {
            let path = column["jsonPath"].as_str().unwrap();
            (column["name"].as_str().unwrap(), path, column["priority"].as_i64().unwrap_or(0))
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("Schedule", ".spec.schedule", 0),
            ("Zone", ".spec.timeZone", 1),
            ("Suspend", ".spec.policy.suspend", 0),
            ("Ready", ".status.conditions[?(@.type==\"Ready\")].status", 0),
            ("Next", ".status.next.chosenTime", 0),
            ("Last", ".status.last.outcome", 0),
            ("Active", ".status.activeCount", 0),
            ("Result", ".status.last.result", 1),
            ("Reason", ".status.last.reason", 1),
            ("Age", ".metadata.creationTimestamp", 0),
        ]
    );
    // Every column shows something that is in the schema.
    for (name, path, _) in columns {
        let mut node = &schema();
        for part in path.trim_start_matches('.').split('.').take_while(|part| !part.contains('[')) {
            if part == "metadata" {
                break;
            }
            node = &node["properties"][part];
            assert!(node.is_object(), "{name}: {path} at {part}");
        }
    }
}

#[test]
fn it_is_small_enough_to_be_applied() {
    let text = serde_json::to_string(&crd()).unwrap();
    assert!(text.len() < APPLIED_BYTES_MAX, "{} bytes", text.len());
}

/// What an API server asks of a structural schema: every value has a type, or is said to have
/// none; and none of the keywords that it refuses.
fn check_structural(path: &str, node: &Value) {
    let object = node.as_object().unwrap_or_else(|| panic!("{path} is no schema: {node}"));
    let untyped = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"]
        .iter()
        .any(|key| object.get(*key) == Some(&json!(true)));
    assert!(
        object.get("type").is_some_and(Value::is_string) || untyped,
        "{path} has no type: {node}"
    );
    for key in [
        "$ref",
        "$schema",
        "definitions",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "patternProperties",
        "const",
    ] {
        assert!(!object.contains_key(key), "{path} has {key}");
    }
    assert!(
        !(object.contains_key("properties") && object.contains_key("additionalProperties")),
        "{path}"
    );
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        check_structural(&format!("{path}.{name}"), property);
    }
    if let Some(items) = object.get("items") {
        check_structural(&format!("{path}[]"), items);
    }
    if let Some(values) = object.get("additionalProperties").filter(|values| !values.is_boolean()) {
        check_structural(&format!("{path}{{}}"), values);
    }
    if object.get("type") == Some(&json!("array")) {
        assert!(object.contains_key("items"), "{path} is an array of what");
    }
    for required in node["required"].as_array().into_iter().flatten() {
        let name = required.as_str().unwrap();
        assert!(node["properties"][name].is_object(), "{path} requires {name}, which it has not");
    }
}

#[test]
fn the_schema_is_structural() {
    check_structural("", &schema());
}

fn check_described(path: &str, node: &Value, count: &mut usize) {
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let description = property["description"].as_str().unwrap_or_default();
        assert!(description.len() > 5, "{path} is not explained");
        *count += 1;
        if name != "jobTemplate" {
            check_described(&path, property, count);
            check_described(&format!("{path}[]"), &property["items"], count);
        }
    }
}

#[test]
fn every_field_of_ours_is_explained() {
    let mut count = 0;
    check_described("", &schema(), &mut count);
    assert!(count > 50, "only {count} fields");
}

#[test]
fn defaults() {
    let schema = schema();
    let spec = &schema["properties"]["spec"]["properties"];
    let rows = [
        ("/timeZone", json!("UTC")),
        ("/window/properties/mode", json!("after")),
        ("/window/properties/duration", json!("0s")),
        ("/distribution/properties/name", json!("uniform")),
        ("/seed/properties/strategy", json!("stable")),
        ("/seed/properties/salt", json!("")),
        ("/dst/properties/gap", json!("shift")),
        ("/dst/properties/overlap", json!("auto")),
        ("/policy/properties/concurrency", json!("forbid")),
        ("/policy/properties/deadline", json!("0s")),
        ("/policy/properties/suspend", json!(false)),
        ("/successfulJobsHistoryLimit", json!(3)),
        ("/failedJobsHistoryLimit", json!(1)),
    ];
    for (path, expected) in rows {
        let node = spec.pointer(path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(node["default"], expected, "{path}");
    }
    let required = schema["properties"]["spec"]["required"].as_array().unwrap();
    assert_eq!(*required, [json!("jobTemplate"), json!("schedule")].to_vec());
    // What the server fills in is what is read where nothing was filled in.
    let read: KronJobSpec = serde_json::from_value(self::spec(|_| {})).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    for (path, expected) in [
        ("/window", json!({ "mode": "after", "duration": "0s" })),
        ("/timeZone", json!("UTC")),
        ("/successfulJobsHistoryLimit", json!(3)),
    ] {
        assert_eq!(written.pointer(path), Some(&expected));
    }
}

#[test]
fn defaults_decide_the_same_written_or_not() {
    let bare = read(spec(|_| {})).unwrap();
    let written = read(spec(|spec| {
        spec["timeZone"] = "UTC".into();
        spec["window"] = json!({ "mode": "after", "duration": "0s" });
        spec["distribution"] = json!({ "name": "uniform", "params": {} });
        spec["seed"] = json!({ "strategy": "stable", "salt": "" });
        spec["constraints"] = json!({ "only": [], "avoid": [] });
        spec["dst"] = json!({ "gap": "shift", "overlap": "auto" });
        spec["policy"] = json!({ "concurrency": "forbid", "deadline": "0s", "suspend": false });
    }))
    .unwrap();
    assert_eq!(bare.decision_hash(), written.decision_hash());
    assert_eq!(bare, written);
    let window = |spec: &mut Value| spec["window"] = json!({ "duration": "1h" });
    let shaped = |shape: Value| {
        read(spec(|spec| {
            window(spec);
            spec["distribution"] = json!({ "name": "skewEarly", "params": { "shape": shape } });
        }))
        .unwrap()
    };
    let default = read(spec(|spec| {
        window(spec);
        spec["distribution"] = json!({ "name": "skewEarly" });
    }));
    for shape in [json!(2), json!(2.0), json!("2"), json!("2.0"), json!(null)] {
        let shaped = shaped(shape.clone());
        assert_eq!(shaped.decision_hash(), default.as_ref().unwrap().decision_hash(), "{shape}");
    }
    assert_ne!(shaped(json!(3)).decision_hash(), shaped(json!(2)).decision_hash());
    assert_ne!(read(spec(window)).unwrap().decision_hash(), bare.decision_hash());
    // Policy decides nothing.
    let policy = read(spec(|spec| spec["policy"] = json!({ "deadline": "1h" }))).unwrap();
    assert_eq!(policy.decision_hash(), bare.decision_hash());
}

/// Each bad spec: which field is named, and what the message has in it.
#[test]
fn faults_name_their_field() {
    type Change = fn(&mut Value);
    let rows: [(Change, &str, &str); 27] = [
        (|s| s["schedule"] = "".into(), "spec.schedule", ""),
        (|s| s["schedule"] = "0 3 * *".into(), "spec.schedule", ""),
        (|s| s["schedule"] = "61 3 * * *".into(), "spec.schedule", "61"),
        (|s| s["schedule"] = "@sometimes".into(), "spec.schedule", "@sometimes"),
        (
            |s| s["schedule"] = "0 3 * * * @tz(Europe/Paris)".into(),
            "spec.schedule",
            "only cron fields belong here",
        ),
        (
            |s| s["schedule"] = "0 3 * * * run-me".into(),
            "spec.schedule",
            "`run` is not a day-of-week",
        ),
        (
            |s| s["schedule"] = "@daily @win(after,1h)".into(),
            "spec.schedule",
            "only cron fields belong here",
        ),
        (|s| s["timeZone"] = "Europe/Atlantis".into(), "spec.timeZone", "Europe/Atlantis"),
        (|s| s["timeZone"] = "".into(), "spec.timeZone", ""),
        (|s| s["timeZone"] = "Local".into(), "spec.timeZone", ""),
        (|s| s["window"] = json!({ "mode": "beside", "duration": "1h" }), "spec.window", "beside"),
        (|s| s["window"] = json!({ "mode": "after", "duration": "-1h" }), "spec.window", "-1h"),
        (|s| s["window"] = json!({ "mode": "after", "duration": "1.5s" }), "spec.window", ""),
        (|s| s["window"] = json!({ "mode": "after", "duration": "an hour" }), "spec.window", ""),
        (|s| s["window"] = json!({ "mode": "after", "duration": "25h" }), "spec", "can overlap"),
        (|s| s["distribution"] = json!({ "name": "lumpy" }), "spec.distribution", "lumpy"),
        (
            |s| s["distribution"] = json!({ "name": "uniform", "params": { "shape": 2 } }),
            "spec.distribution",
            "shape",
        ),
        (
            |s| {
                s["window"] = json!({ "duration": "1h" });
                s["distribution"] = json!({ "name": "skewEarly", "params": { "shape": 0 } });
            },
            "spec.distribution",
            "",
        ),
        (
            |s| {
                s["window"] = json!({ "duration": "1h" });
                s["distribution"] = json!({ "name": "skewEarly", "params": { "shape": [] } });
            },
            "spec.distribution",
            "",
        ),
        (|s| s["seed"] = json!({ "strategy": "hourly" }), "spec.seed", "hourly"),
        (|s| s["seed"] = json!({ "salt": "%H" }), "spec.seed", ""),
        (|s| s["dst"] = json!({ "gap": "jump" }), "spec.dst", "jump"),
        (|s| s["dst"] = json!({ "overlap": "never" }), "spec.dst", "never"),
        (|s| s["policy"] = json!({ "concurrency": "Allow" }), "spec.policy", "Allow"),
        (|s| s["policy"] = json!({ "deadline": "-5s" }), "spec.policy", "-5s"),
        (|s| s["constraints"] = json!({ "only": ["hours=25"] }), "spec.constraints.only", "25"),
        (
            |s| s["constraints"] = json!({ "avoid": ["weather=rain"] }),
            "spec.constraints.avoid",
            "weather",
        ),
    ];
    for (change, field, fragment) in rows {
        let spec = spec(change);
        let faults = read(spec.clone()).expect_err(&spec.to_string());
        let fault = &faults[0];
        // What stands in the schedule and does not belong there is read all the same.
        let alone = faults.len() == 1 || spec["schedule"] != "0 3 * * *";
        assert!(alone, "{spec}: {faults:?}");
        assert_eq!(fault.field, field, "{spec}: {fault}");
        assert!(fault.message.contains(fragment) && !fault.message.is_empty(), "{spec}: {fault}");
        assert!(!fault.message.contains('\n'), "{fault}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let faults = read(spec(|spec| {
        spec["timeZone"] = "Europe/Atlantis".into();
        spec["policy"] = json!({ "deadline": "-5s" });
        spec["constraints"] = json!({ "only": ["hours=25"], "avoid": ["dow=NEVER"] });
    }))
    .unwrap_err();
    let fields: Vec<&str> = faults.iter().map(|fault| fault.field).collect();
    assert_eq!(
        fields,
        ["spec.timeZone", "spec.policy", "spec.constraints.only", "spec.constraints.avoid"]
    );
    let faults = read(spec(|spec| spec["window"] = json!({ "duration": "25h" }))).unwrap_err();
    let text = faults[0].to_string();
    assert!(
        text.starts_with("spec: windows of ") && text.contains("use a window of at most"),
        "{text}"
    );
}

#[test]
fn what_can_be_written() {
    for schedule in ["@daily", "  0 3 * * *  ", "0 0 3 * * *", "H H * * *", "0 3 * * MON-FRI"] {
        read(spec(|spec| spec["schedule"] = schedule.into())).unwrap();
    }
    let timing = read(spec(|spec| {
        spec["timeZone"] = "Europe/Paris".into();
        spec["window"] = json!({ "mode": "around", "duration": "90m" });
        spec["distribution"] =
            json!({ "name": "normal", "params": { "mu": "end", "sigma": "10m" } });
        spec["seed"] = json!({ "strategy": "weekly", "salt": "pepper, and \"salt\"" });
        spec["constraints"] =
            json!({ "only": ["hours=1-5", "dow=MON-FRI"], "avoid": ["date=2026-12-24"] });
        spec["policy"] = json!({ "concurrency": "replace", "deadline": "1h30m", "suspend": true });
    }))
    .unwrap();
    assert_eq!(timing.placement().identity(), "shop/nightly");
    assert_eq!(timing.placement().salt(), "pepper, and \"salt\"");
    assert_eq!(timing.policy.deadline.get(), 5_400);
    assert!(timing.policy.suspend);
}
