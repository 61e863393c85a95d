//! Names, labels and bodies of Jobs.

use std::collections::HashSet;

use kron_core::{DecisionEvent, Host, Timing, TimingParser};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn second(text: &str) -> UtcSecond {
    text.parse().unwrap()
}

fn timing(text: &str) -> Timing {
    TimingParser::new().parse(text, "shop/nightly", Host::default()).unwrap()
}

/// The Job of the first period of 2026-03-02.
fn made(text: &str, template: &Value) -> Value {
    let timing = timing(text);
    let decision = timing.periods_after(second("2026-03-01T23:59:59Z")).next().unwrap();
    let owner = Owner { namespace: "shop", name: "nightly", uid: "0b5e" };
    body(owner, template, timing.placement(), &decision)
}

fn template() -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main" }] } } } })
}

#[test]
fn names() {
    let period = second("2026-03-01T00:00:00Z");
    let longest = "n".repeat(46);
    let rows = [
        ("nightly", "nightly-20260301t000000z".to_owned()),
        ("a", "a-20260301t000000z".to_owned()),
        ("shop.nightly", "shop.nightly-20260301t000000z".to_owned()),
        (&longest, format!("{longest}-20260301t000000z")),
    ];
    for (kronjob, expected) in rows {
        assert_eq!(name(kronjob, period), expected);
    }
}

#[test]
fn long_names_are_cut_and_told_apart() {
    let period = second("2026-03-01T00:00:00Z");
    let mut seen = HashSet::new();
    for length in 1..=253 {
        let text = name(&"n".repeat(length), period);
        assert!(text.len() <= NAME_BYTES_MAX, "{length}: {text}");
        assert!(seen.insert(text), "{length}");
    }
    assert_eq!(name(&"n".repeat(46), period).len(), NAME_BYTES_MAX);
    // They differ only behind the cut.
    let (one, other) = (format!("{}-one", "n".repeat(60)), format!("{}-two", "n".repeat(60)));
    assert_ne!(name(&one, period), name(&other, period));
    assert_eq!(name(&one, period), name(&one, period));
    // What stands at the cut is no part of a name that could end there.
    for end in ["-", ".", "--", ".-", "-."] {
        let kronjob = format!("{}{end}{}", "n".repeat(CUT_NAME_BYTES - end.len()), "m".repeat(30));
        let text = name(&kronjob, period);
        let hash = text.strip_prefix(&"n".repeat(CUT_NAME_BYTES - end.len())).unwrap();
        assert_eq!(hash.find('-'), Some(0), "{text}");
        assert_ne!(hash.find("--"), Some(0), "{text}");
        assert_eq!(hash.len(), 1 + HASH_DIGITS + PERIOD_BYTES, "{text}");
    }
    // Names of objects are ASCII; whatever else comes makes no difference and no panic.
    let _ = name(&"ä".repeat(100), period);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_name_is_one_that_pods_can_have(
        kronjob in "[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?",
        unix in 0_i64..253_402_300_799,
        later in 1_i64..1_000_000,
    ) {
        prop_assume!(!kronjob.contains("..") && !kronjob.contains(".-") && !kronjob.contains("-."));
        let period = UtcSecond::from_unix(unix).unwrap();
        let text = name(&kronjob, period);
        prop_assert!(text.len() <= NAME_BYTES_MAX);
        prop_assert!(text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.')));
        for part in text.split('.') {
            prop_assert!(!part.is_empty() && !part.starts_with('-') && !part.ends_with('-'), "{}", text);
        }
        let other = period.saturating_add(later);
        if other != period {
            prop_assert_ne!(name(&kronjob, other), text);
        }
        prop_assert_eq!(period_of(&compact(period)), Some(period));
    }
}

#[test]
fn periods_as_labels() {
    assert_eq!(compact(second("2026-03-01T12:34:56Z")), "20260301T123456Z");
    for extreme in [UtcSecond::MIN, UtcSecond::MAX] {
        assert_eq!(period_of(&compact(extreme)), Some(extreme));
    }
    let none = [
        "",
        "x",
        "20260301",
        "20260301T0000",
        "20260230T000000Z",
        "2026-03-01T00:00:00Z",
        "2026030äT000000Z",
        "manual",
    ];
    for text in none {
        assert_eq!(period_of(text), None, "{text}");
    }
}

#[test]
fn the_body_says_whose_it_is() {
    let job = made("0 3 * * * @win(after,2h)", &template());
    assert_eq!(job["apiVersion"], "batch/v1");
    assert_eq!(job["kind"], "Job");
    let metadata = &job["metadata"];
    assert_eq!(metadata["name"], "nightly-20260302t030000z");
    assert_eq!(metadata["namespace"], "shop");
    let labels = json!({ "kron.dev/kronjob": "nightly", "kron.dev/period": "20260302T030000Z" });
    assert_eq!(metadata["labels"], labels);
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(
        metadata["ownerReferences"],
        json!([{
            "apiVersion": "kron.dev/v1alpha1",
            "kind": "KronJob",
            "name": "nightly",
            "uid": "0b5e",
            "controller": true,
            "blockOwnerDeletion": true,
        }])
    );
    let chosen = metadata["annotations"]["kron.dev/chosen-time"].as_str().unwrap();
    let chosen = second(chosen);
    assert!(second("2026-03-02T03:00:00Z") <= chosen && chosen <= second("2026-03-02T05:00:00Z"));
}

#[test]
fn the_decision_replays() {
    let texts = [
        "0 3 * * *",
        "0 3 * * * @tz(Europe/Paris) @win(around,90m) @dist(skewLate,shape=2.5) @seed(daily,salt=\"a b\")",
        "0 3 * * * @win(after,2h) @dist(normal,mu=end) @only(hours=3-6) @avoid(dom=1)",
    ];
    let mut parser = TimingParser::new();
    for text in texts {
        let job = made(text, &template());
        let line = job["metadata"]["annotations"]["kron.dev/decision"].as_str().unwrap();
        let event = DecisionEvent::parse(line).unwrap().unwrap();
        assert_eq!(event.replay(&mut parser).unwrap(), [], "{text}");
        assert_eq!(event.fields()["identity"], "shop/nightly");
        assert_eq!(
            event.fields()["chosen_time"],
            job["metadata"]["annotations"]["kron.dev/chosen-time"],
        );
    }
}

#[test]
fn what_the_template_says_is_kept() {
    let template = json!({
        "metadata": {
            "labels": { "team": "a", "kron.dev/kronjob": "forged", "argocd.argoproj.io/instance": "x" },
            "annotations": {
                "note": "b",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "kustomize.toolkit.fluxcd.io/name": "x",
                "helm.toolkit.fluxcd.io/name": "x",
                "argocd.argoproj.io/tracking-id": "x",
            },
            "finalizers": ["x"],
            "name": "forged",
        },
        "spec": {
            "ttlSecondsAfterFinished": 5,
            "backoffLimit": 2,
            "template": {
                "metadata": { "labels": { "app": "c", "kron.dev/period": "forged" }, "annotations": { "d": "e" } },
                "spec": {
                    "restartPolicy": "Never",
                    "initContainers": [{ "name": "first" }],
                    "containers": [
                        { "name": "main", "env": [
                            { "name": "KRON_IDENTITY", "value": "mine" },
                            { "name": "PATH", "value": "/bin" },
                        ] },
                        { "name": "side" },
                    ],
                },
            },
        },
    });
    let job = made("0 3 * * *", &template);
    let metadata = &job["metadata"];
    assert_eq!(metadata["name"], "nightly-20260302t030000z");
    assert_eq!(metadata["finalizers"], Value::Null);
    assert_eq!(
        metadata["labels"],
        json!({
            "team": "a",
            "kron.dev/kronjob": "nightly",
            "kron.dev/period": "20260302T030000Z",
        })
    );
    let annotations = metadata["annotations"].as_object().unwrap();
    let keys: Vec<&str> = annotations.keys().map(String::as_str).collect();
    assert_eq!(keys, ["kron.dev/chosen-time", "kron.dev/decision", "note"]);
    let spec = &job["spec"];
    assert_eq!(spec["ttlSecondsAfterFinished"], Value::Null);
    assert_eq!(spec["backoffLimit"], 2);
    let pod = &spec["template"];
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "c",
            "kron.dev/kronjob": "nightly",
            "kron.dev/period": "20260302T030000Z",
        })
    );
    assert_eq!(pod["metadata"]["annotations"], json!({ "d": "e" }));
    let value = |container: &Value, key: &str| {
        let variables = container["env"].as_array().unwrap();
        let mut found = variables.iter().filter(|variable| variable["name"] == key);
        let value = found.next().map(|variable| variable["value"].clone());
        assert!(found.next().is_none(), "{key} twice");
        value.unwrap_or_default()
    };
    let main = &pod["spec"]["containers"][0];
    assert_eq!(value(main, "KRON_IDENTITY"), "mine", "what the template says itself stays");
    assert_eq!(value(main, "PATH"), "/bin");
    for container in [main, &pod["spec"]["containers"][1], &pod["spec"]["initContainers"][0]] {
        assert_eq!(value(container, "KRON_PERIOD_ID"), "2026-03-02T03:00:00Z");
        assert_eq!(value(container, "KRON_NOMINAL_TIME"), "2026-03-02T03:00:00Z");
        assert_eq!(value(container, "KRON_CHOSEN_TIME"), "2026-03-02T03:00:00Z");
        assert_eq!(value(container, "KRON_SEED_HASH").as_str().unwrap().len(), 64);
    }
    assert_eq!(value(&pod["spec"]["containers"][1], "KRON_IDENTITY"), "shop/nightly");
}

#[test]
fn a_template_with_little_or_nothing_in_it() {
    let templates = [
        json!({}),
        json!(null),
        json!({ "spec": {} }),
        json!({ "spec": { "template": {} } }),
        json!({ "spec": { "template": { "metadata": null, "spec": { "containers": [] } } } }),
        json!({ "metadata": null, "spec": { "template": { "metadata": { "labels": null }, "spec": { "containers": [{ "name": "x", "env": null }] } } } }),
    ];
    for template in &templates {
        let job = made("0 3 * * *", template);
        assert_eq!(job["metadata"]["labels"]["kron.dev/kronjob"], "nightly", "{template}");
    }
    // Nothing written is the same as nothing there.
    let job = made("0 3 * * *", &templates[5]);
    let pod = &job["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["kron.dev/kronjob"], "nightly");
    assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "KRON_IDENTITY");
}
