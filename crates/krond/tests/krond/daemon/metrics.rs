//! What a daemon tells those who watch it: metrics, and when jobs are expected.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use kron_testkit::krond::{Krond, World, seldom};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::new_world;

fn jobs() -> String {
    format!(
        r#"
        [job."every \"second\""]
        schedule = "* * * * * *"
        command = "exit 3"
        shell = true

        [job.yearly]
        schedule = "{} @win(after,2h) @policy(deadline=1h)"
        command = ["/bin/true"]

        [job.asleep]
        schedule = "* * * * * @policy(suspend=true)"
        command = ["/bin/true"]
        "#,
        seldom()
    )
}

/// A daemon that also listens on the network, and where.
fn listening(world: &World) -> (Krond, String) {
    let mut command = world.command();
    command.args(["--listen", "127.0.0.1:0"]);
    let mut krond = Krond::spawn(&mut command);
    let address = krond.wait_for("listening")["address"].as_str().unwrap().to_owned();
    krond.wait_for("ready");
    (krond, address)
}

fn ask(address: &str, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    assert!(!chunked, "{head}");
    (code, body.to_owned())
}

fn value(text: &str, name: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn metrics_count_what_happens_and_say_what_is_next() {
    let world = new_world(&jobs());
    let (mut krond, address) = listening(&world);
    krond.wait_for("finished");
    let text = eventually("a failure and a start in time are counted", || {
        let (code, text) = ask(&address, "GET", "/metrics", &address);
        assert_eq!(code, 200, "{text}");
        let is_counted = value(&text, "kron_outcomes_total{event=\"failed\"}") >= Some(1.0);
        // On a busy machine the first runs may be late; there are seconds in which they are not.
        let in_time = value(&text, "kron_start_lateness_seconds_bucket{le=\"2.5\"}");
        (is_counted && in_time >= Some(1.0)).then_some(text)
    });
    assert_eq!(value(&text, "kron_jobs"), Some(3.0), "{text}");
    assert_eq!(value(&text, "kron_jobs_suspended"), Some(1.0));
    assert!(value(&text, "kron_start_lateness_seconds_count") >= Some(1.0), "{text}");
    let of_job = |name: &str| value(&text, &format!("{name}{{identity=\"every \\\"second\\\"\"}}"));
    assert_eq!(of_job("kron_job_last_succeeded"), Some(0.0), "{text}");
    assert!(of_job("kron_job_last_start_timestamp_seconds") > Some(1.7e9), "{text}");
    assert!(value(&text, "kron_state_write_seconds_count") >= Some(1.0), "{text}");
    let job = r#"{identity="every \"second\""}"#;
    let next = value(&text, &format!("kron_job_next_run_timestamp_seconds{job}"));
    assert!(next.is_some(), "{text}");
    let expected = value(&text, &format!("kron_job_expected_by_timestamp_seconds{job}"));
    assert_eq!(expected.unwrap() - next.unwrap(), 60.0);
    let asleep = r#"kron_job_next_run_timestamp_seconds{identity="asleep"}"#;
    assert_eq!(value(&text, asleep), None, "what is suspended is not expected");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }

    let (code, feed) = ask(&address, "GET", "/api/v1/expected", "localhost");
    assert_eq!(code, 200, "{feed}");
    let feed: Value = serde_json::from_str(&feed).unwrap();
    let yearly = feed["jobs"].as_array().unwrap().iter().find(|job| job["identity"] == "yearly");
    let yearly = yearly.unwrap();
    let decision = &world.ask("GET", "/api/v1/scheduler/jobs/yearly", "").1["next"];
    assert_eq!(yearly["chosen_time"], decision["chosen_time"]);
    assert_eq!(yearly["grace_seconds"], 3_600);
    krond.signal(Signal::SIGTERM);
    assert_eq!(krond.wait().code(), Some(0));
}

#[test]
fn over_the_network_nothing_is_changed_and_no_page_reads_along() {
    let world = new_world(&jobs());
    let (krond, address) = listening(&world);
    assert_eq!(ask(&address, "GET", "/api/v1/status", &address).0, 200);
    for path in ["/api/v1/scheduler/jobs/yearly/run", "/api/v1/stop", "/api/v1/reload"] {
        assert_eq!(ask(&address, "POST", path, &address).0, 403, "{path}");
    }
    assert_eq!(ask(&address, "GET", "/api/v1/status", "evil.example.org").0, 403);
    krond.stop();
}

#[test]
fn an_address_that_is_taken_refuses_the_start() {
    let world = new_world(&jobs());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = world.command();
    let mut krond = Krond::spawn(command.args(["--listen", &address]));
    assert_eq!(krond.wait().code(), Some(6));
    let said = krond.said.concat();
    assert!(said.contains(&address) && said.contains("refused_to_start"), "{said}");
}

#[test]
fn a_period_that_does_not_begin_is_seen_to_be_overdue() {
    let world = new_world("");
    let mut krond = world.start();
    let nominal = world.due_soon("late", |schedule| {
        format!(
            r#"
            [job.late]
            schedule = "{schedule} @policy(deadline=1h)"
            command = ["/no/such/program"]
            "#
        )
    });
    krond.wait_for("start_failed");
    let (_, feed) = world.ask("GET", "/api/v1/expected", "");
    assert_eq!(feed["jobs"][0]["period_id"], nominal.as_str(), "{feed}");
    let (_, job) = world.ask("GET", "/api/v1/scheduler/jobs/late", "");
    assert_ne!(job["next"]["period_id"], nominal.as_str(), "{job}");
}
