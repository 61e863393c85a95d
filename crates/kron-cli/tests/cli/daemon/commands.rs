//! Every command, once, and what it says and answers.

use kron_testkit::krond::seldom;
use serde_json::json;

use crate::daemon::krond::Daemon;

/// Lagos is an hour ahead of UTC in winter and in summer.
fn jobs() -> String {
    const JOBS: &str = r#"
[job.greet]
schedule = "SELDOM @tz(Africa/Lagos) @win(after,2h)"
command = ["/bin/sh", "-c", "echo \"hello $KRON_IDENTITY\"; exit 3"]
description = "says hello"

[job.quick]
schedule = "SELDOM"
command = ["/bin/true"]

[job.resting]
schedule = "SELDOM @policy(suspend=true)"
command = ["/bin/true"]

[job."täglich/a b#%?"]
schedule = "SELDOM"
command = ["/bin/echo", "odd"]
"#;
    JOBS.replace("SELDOM", seldom())
}

#[test]
fn a_day_with_the_daemon() {
    let mut daemon = Daemon::start(&jobs());

    let status = daemon.ask(&["status"]);
    assert_eq!(status["daemon"]["job_count"], 4);
    assert_eq!(status["daemon"]["suspended_count"], 1);
    assert_eq!(status["daemon"]["active_count"], 0);
    let names: Vec<&str> = status["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["identity"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["greet", "quick", "resting", "täglich/a b#%?"]);
    let table = daemon.kron(&["status"]).ok();
    let line = |job: &str| table.lines().find(|line| line.starts_with(job)).unwrap().to_owned();
    assert!(table.starts_with("krond 0.1.0, process "), "{table}");
    assert!(line("greet").contains("+01:00"), "in the job's own zone: {table}");
    assert!(line("resting").contains("suspended by definition"), "{table}");

    let one = daemon.kron(&["status", "greet"]).ok();
    for word in ["says hello", "@win(after,2h)", "jobs.toml:2:6", "nothing is recorded"] {
        assert!(one.contains(word), "{word}: {one}");
    }
    assert_eq!(
        daemon.kron(&["status", "gret"]).no(1),
        "error: no job `gret`\nhint: did you mean `greet`?\n"
    );

    // A run by hand that fails, waited for.
    let run = daemon.kron(&["run", "greet", "--wait"]);
    assert_eq!((run.code, run.err.as_str()), (Some(1), ""));
    let (id, end) = run.out.split_once('\n').unwrap();
    assert!(end.starts_with("exited 3 after "), "{end}");
    assert_eq!(daemon.kron(&["logs", "greet"]).ok(), "hello greet\n");
    assert_eq!(daemon.kron(&["logs", "greet", "--run", id]).ok(), "hello greet\n");
    assert_eq!(daemon.kron(&["logs", "greet", "--follow"]).ok(), "hello greet\n");
    let history = daemon.ask(&["history", "greet"]);
    let entry = &history["entries"][0];
    assert_eq!(
        (&entry["run_id"], &entry["exit_code"], &entry["ending"]),
        (&json!(id), &json!(3), &json!("exited"))
    );
    let listed = daemon.kron(&["history", "greet"]).ok();
    assert!(listed.contains("exited 3") && listed.contains(id), "{listed}");
    let manual = entry["period_id"].as_str().unwrap();
    let why = daemon.kron(&["why", "greet", "--at", manual]).ok();
    assert!(why.contains("Somebody asked for this run by hand"), "{why}");
    assert!(why.contains("exit code 3"), "{why}");

    // One that works, as JSON.
    let ended = daemon.ask(&["run", "quick", "--wait"]);
    assert_eq!(ended["outcome"]["exit_code"], 0);
    let started = daemon.ask(&["run", "quick"]);
    assert_eq!(started["run_id"].as_str().unwrap().len(), 16);
    daemon.entry("quick", |entry| entry["run_id"] == started["run_id"] && entry["exit_code"] == 0);

    // Nothing has run of these.
    assert!(daemon.kron(&["logs", "resting"]).no(1).contains("has never run"));
    let unknown = ["logs", "greet", "--run", "0123456789abcdef"];
    assert!(daemon.kron(&unknown).no(1).contains("has no run"));
    assert!(daemon.kron(&["history", "resting"]).ok().contains("nothing is recorded"));
    let why = daemon.kron(&["why", "resting"]).ok();
    assert!(why.contains("fell due before the job was created"), "{why}");
    assert!(why.contains("suspended by its definition"), "{why}");

    // Suspending, twice, and lifting it.
    assert_eq!(daemon.kron(&["suspend", "quick"]).ok(), "quick is suspended\n");
    assert_eq!(daemon.kron(&["suspend", "quick"]).no(1), "error: it is suspended already\n");
    assert_eq!(daemon.ask(&["status", "quick"])["suspended_by"], "hand");
    assert_eq!(daemon.ask(&["run", "quick", "--wait"])["outcome"]["exit_code"], 0);
    assert_eq!(daemon.ask(&["resume", "quick"])["done"], "resumed");
    assert_eq!(daemon.ask(&["status", "quick"])["suspended_by"], json!(null));

    assert!(daemon.kron(&["clock", "accept"]).no(1).contains("believed already"));
    let stopped = daemon.stop(&[]);
    assert!(stopped.out.starts_with("stopped: process "), "{stopped:?}");
    assert!(daemon.kron(&["status"]).no(1).contains("no daemon answers at"));
}

#[test]
fn names_may_hold_anything_but_control_characters() {
    let daemon = Daemon::start(&jobs());
    let name = "täglich/a b#%?";
    assert_eq!(daemon.ask(&["status", name])["identity"], name);
    assert_eq!(daemon.ask(&["run", name, "--wait"])["outcome"]["exit_code"], 0);
    assert_eq!(daemon.kron(&["logs", name]).ok(), "odd\n");
    assert_eq!(daemon.ask(&["history", name])["identity"], name);
    assert_eq!(daemon.ask(&["why", name])["identity"], name);
    assert_eq!(daemon.ask(&["suspend", name])["done"], "suspended");
    assert_eq!(daemon.ask(&["resume", name])["done"], "resumed");
    for name in ["täglich", "a b#%?", "..", "%2e%2e", ""] {
        assert_eq!(daemon.kron(&["why", name]).code, Some(1), "{name}");
    }
}

#[test]
fn a_reload_takes_effect_or_changes_nothing() {
    let daemon = Daemon::start(&jobs());
    daemon.kron(&["run", "quick", "--wait"]).ok();
    daemon.define(&format!(
        "[job.another]\nschedule = \"{} @win(after,2h) @only(dom=1)\"\ncommand = [\"x\"]\n",
        seldom()
    ));
    let reloaded = daemon.kron(&["reload"]);
    assert_eq!((reloaded.code, reloaded.out.as_str()), (Some(0), "reloaded: 1 job\n"));
    assert_eq!(daemon.ask(&["status"])["jobs"][0]["identity"], "another");

    // What is not defined any more has a past, and nothing else.
    assert!(daemon.kron(&["status", "quick"]).no(1).contains("no job `quick`"));
    assert!(daemon.kron(&["run", "quick"]).no(1).contains("no job `quick`"));
    let history = daemon.kron(&["history", "quick"]).ok();
    assert!(history.contains("not defined any more") && history.contains("exited 0"), "{history}");
    let why = daemon.kron(&["why", "quick"]).ok();
    assert!(why.contains("The job is not defined any more."), "{why}");

    daemon.define("[job.another]\nschedule = \"not a schedule\"\ncommand = [\"x\"]\n");
    let refused = daemon.kron(&["reload"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""));
    assert!(refused.err.contains("not a schedule"), "the error is shown: {}", refused.err);
    assert!(refused.err.contains("jobs.toml:2:"), "with its place: {}", refused.err);
    assert!(refused.err.contains("the old ones stay in force"), "{}", refused.err);
    assert_eq!(daemon.ask(&["status"])["jobs"][0]["identity"], "another");
}

#[test]
fn thousands_of_jobs_are_listed() {
    let jobs: String = (0..3_000)
        .map(|n| format!("[job.j{n:04}]\nschedule = \"H H * * *\"\ncommand = [\"/bin/true\"]\n"))
        .collect();
    let daemon = Daemon::start(&jobs);
    let status = daemon.ask(&["status"]);
    let listed = status["jobs"].as_array().unwrap();
    assert_eq!(listed.len(), 3_000);
    for (n, job) in listed.iter().enumerate() {
        assert_eq!(job["identity"], format!("j{n:04}"));
        assert!(job["next"]["chosen_time"].is_string(), "{job}");
    }
    assert_eq!(daemon.kron(&["status"]).ok().lines().count(), 3_003);
}
