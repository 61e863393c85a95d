//! Health, readiness and metrics of operators that really run.

use std::net::TcpListener;

use kron_testkit::waiting::now;
use serde_json::json;

use crate::control_plane::OPERATOR;
use crate::operator::Operator;
use crate::scene::{PATIENCE, Scene, endless_spec, seldom, spec, spec_with};

/// The value of a series, by its name and labels as they are written.
fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no `{series}`:\n{page}")).parse().unwrap()
}

#[test]
fn a_leader_and_a_standby_are_healthy_and_ready_and_count() {
    let scene = Scene::quiet("pages");
    let begun = now();
    let mut leader = scene.start_patient_operator();
    leader.await_event("leading", PATIENCE);
    let mut standby = scene.start_patient_operator();
    standby.await_event("standing_by", PATIENCE);
    scene.create("run", &spec("* * * * * *"));
    scene.create("later", &spec(&seldom()));
    scene.create("skip", &endless_spec("*/2 * * * * *", "forbid"));
    scene.create("wrong", &spec_with("@daily", &json!({ "timeZone": "Mars/Base" })));
    scene.create("paused", &spec_with("@daily", &json!({ "policy": { "suspend": true } })));
    scene.await_outcomes("run", "executed", 3);
    scene.await_outcome("skip", "skipped");
    scene.await_condition("wrong", "InvalidSpec", "True");
    for operator in [&mut leader, &mut standby] {
        assert_eq!(operator.page("/healthz").unwrap().0, 200);
        scene.await_that("it is ready", || {
            (operator.page("/readyz").unwrap().0 == 200).then_some(())
        });
        assert_eq!(operator.page("/secrets").unwrap().0, 404);
    }

    // The gauges are set once a second.
    let page = scene.await_that("the gauges say how KronJobs stand", || {
        let page = leader.page("/metrics").unwrap().1;
        (value(&page, "kron_kronjobs{state=\"valid\"}") >= 3.0
            && value(&page, "kron_kronjobs{state=\"invalid\"}") >= 1.0
            && value(&page, "kron_kronjobs{state=\"suspended\"}") >= 1.0)
            .then_some(page)
    });
    let executed = value(&page, "kron_outcomes_total{outcome=\"executed\"}");
    // `run` once a second, and `skip` once.
    assert!((4.0..begun.elapsed().as_secs_f64() + 3.0).contains(&executed), "{page}");
    assert!(value(&page, "kron_outcomes_total{outcome=\"skipped\"}") >= 1.0);
    assert_eq!(value(&page, "kron_outcomes_total{outcome=\"unschedulable\"}").to_string(), "0");
    let created =
        value(&page, "kron_api_requests_total{verb=\"create\",resource=\"jobs\",code=\"201\"}");
    assert!((created - executed).abs() <= 2.0, "{created} {executed}");
    let late = value(&page, "kron_start_lateness_seconds_count");
    assert!((late - created).abs() <= 2.0, "{late} {created}");
    assert!(value(&page, "kron_start_lateness_seconds_sum") > 0.0);
    assert!(value(&page, "kron_start_lateness_seconds_sum") < 10.0 * late, "{page}");
    assert_eq!(value(&page, "kron_leader").to_string(), "1");
    assert_eq!(value(&page, "kron_kronjobs{state=\"suspended\"}").to_string(), "1");
    assert!(value(&page, "kron_queue_depth{queue=\"due\"}") >= 1.0, "{page}");
    let page = standby.page("/metrics").unwrap().1;
    assert_eq!(value(&page, "kron_leader").to_string(), "0");
    assert_eq!(value(&page, "kron_outcomes_total{outcome=\"executed\"}").to_string(), "0");
    assert!(!page.contains("verb=\"create\",resource=\"jobs\""), "{page}");
    assert!(leader.stop().success());
    assert!(standby.stop().success());
}

#[test]
fn without_an_api_server_it_is_healthy_but_not_ready() {
    let scene = Scene::quiet("alone");
    // Taken, and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = scene.plane.kubeconfig_through(silent.local_addr().unwrap(), OPERATOR);
    let mut operator = Operator::start(&kubeconfig, &["--lease-duration", "3s"]);
    assert_eq!(operator.page("/healthz").unwrap().0, 200);
    assert_eq!(operator.page("/readyz").unwrap().0, 503);
    assert!(operator.stop().success(), "{}", operator.log_text());
}
