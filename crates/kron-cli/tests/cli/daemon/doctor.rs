//! `kron doctor`: what might go wrong, told before it does.

use kron_testkit::krond::seldom;
use serde_json::Value;

use crate::daemon::krond::{Daemon, Run};

fn strict() -> String {
    format!(
        "[job.strict]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n\
         policy = {{ deadline = \"0s\" }}\n",
        seldom()
    )
}

/// What is said about one thing. The clock of the machine is its own affair.
fn about(run: &Run, what: &str) -> Vec<Value> {
    let lines = run.out.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    lines.filter(|line: &Value| line["what"] == what).collect()
}

#[test]
fn a_job_that_a_restart_would_make_miss_a_run_is_named() {
    let daemon = Daemon::start(&strict());
    let run = daemon.kron(&["doctor", "--format", "json"]);
    assert_eq!(run.code, Some(1), "{}", run.out);
    let said = &about(&run, "deadlines")[0];
    assert_eq!(said["verdict"], "warning", "{said}");
    assert!(said["message"].as_str().is_some_and(|it| it.contains("`strict`")), "{said}");
    assert!(said["hint"].as_str().is_some_and(|it| it.contains("deadline=60s")), "{said}");
    let holder = about(&run, "lock")[0]["message"].as_str().map(str::to_owned);
    let said = about(&run, "daemon")[0]["message"].as_str().map(str::to_owned).expect("a text");
    let pid = said.split("process ").nth(1).and_then(|rest| rest.split(',').next()).expect("a pid");
    assert_eq!(holder, Some(format!("process {pid} holds the state directory")));
    for what in ["daemon", "space", "state"] {
        assert_eq!(about(&run, what)[0]["verdict"], "ok", "{what}: {}", run.out);
    }
    // Whether a disk is slow is for the machine that is tested on to say.
    let said = &about(&run, "disk")[0];
    let took = said["message"].as_str().and_then(|it| it.strip_suffix(" ms")?.rsplit(' ').next());
    let took_ms: f64 = took.and_then(|it| it.parse().ok()).expect("a time");
    // What is shown was rounded: 50.0 may have been more or less.
    if took_ms != 50.0 {
        assert_eq!(said["verdict"], if took_ms > 50.0 { "warning" } else { "ok" }, "{said}");
    }
    daemon.define(&strict().replace("0s", "1m"));
    daemon.kron(&["reload"]).ok();
    let run = daemon.kron(&["doctor", "--format", "json"]);
    assert_eq!(about(&run, "deadlines")[0]["verdict"], "ok", "{}", run.out);
    assert!(!daemon.state_dir().join(".kron-doctor.tmp").exists(), "it leaves nothing behind");
}

#[test]
fn what_lies_in_the_future_and_a_daemon_that_is_not_there_are_told() {
    let mut daemon = Daemon::start(&strict());
    daemon.stop(&[]).ok();
    let change = kron_state::Change::Handle {
        nominal: "9000-01-01T00:00:00Z".parse().expect("a time"),
        chosen: None,
        outcome: kron_core::Outcome::Missed,
        reason: "superseded".to_owned(),
        stretch: None,
        at: "2026-01-01T00:00:00Z".parse().expect("a time"),
    };
    crate::daemon::state::store(&daemon).commit("strict", &[change]).expect("recorded");
    let run = daemon.kron(&["doctor", "--format", "json"]);
    assert_eq!(run.code, Some(1));
    assert_eq!(about(&run, "daemon")[0]["verdict"], "warning", "{}", run.out);
    let said = &about(&run, "state")[0];
    assert_eq!(said["verdict"], "problem", "{said}");
    assert!(said["message"].as_str().is_some_and(|it| it.contains("`strict`")), "{said}");
    let text = daemon.kron(&["doctor"]).out;
    assert!(text.contains("problem  state: ") && text.contains("kron state reset"), "{text}");
}

#[test]
fn a_daemon_that_listens_elsewhere_is_told_from_none() {
    let daemon = Daemon::prepare(&strict()).with_socket("elsewhere.sock");
    let mut daemon = daemon;
    daemon.up();
    let state_dir = daemon.state_dir();
    let doctor = |state_dir: &std::path::Path| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kron"))
            .args(["doctor", "--state-dir"])
            .arg(state_dir)
            .output()
            .expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let said = doctor(&state_dir);
    assert!(said.contains("nobody listens") && said.contains("name its socket"), "{said}");
    assert!(said.contains(" holds the state directory"), "{said}");
    daemon.stop(&[]).ok();
    let said = doctor(&state_dir);
    assert!(said.contains("krond run --config JOBS --state-dir"), "{said}");
    assert!(said.contains("nobody holds the state directory"), "{said}");
}
