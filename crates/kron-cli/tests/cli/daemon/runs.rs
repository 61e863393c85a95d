//! Runs that take a while: followed, refused, forced, left alone and ended.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use kron_testkit::krond::seldom;
use serde_json::json;

use crate::daemon::krond::{Daemon, bytes, wait_for};

/// A job that says `one`, waits for a file, and says `two`. A daemon that ends it waits for that,
/// however slow the machine is.
fn patient(daemon_dir: &str) -> String {
    format!(
        r#"
[job.patient]
schedule = "{}"
command = "echo one; while [ ! -e {daemon_dir}/go ]; do sleep 0.05; done; echo two"
shell = true
grace = "10m"
"#,
        seldom()
    )
}

fn started() -> Daemon {
    let mut daemon = Daemon::prepare("");
    let dir = daemon.path("").display().to_string();
    daemon.define(&patient(&dir));
    daemon.up();
    daemon
}

fn go(daemon: &Daemon) {
    std::fs::write(daemon.path("go"), "").expect("the sign to go on");
}

#[test]
fn following_ends_by_itself_with_the_run() {
    let daemon = started();
    daemon.kron(&["run", "patient"]).ok();
    let mut following = daemon
        .command(&["logs", "patient", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(following.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n", "what is there comes at once");
    assert!(following.try_wait().unwrap().is_none(), "it goes on");
    // Without following, what is there is all.
    assert_eq!(daemon.kron(&["logs", "patient"]).ok(), "one\n");
    go(&daemon);
    let ended = wait_for("it to end by itself", || following.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    let (mut rest, mut said) = (String::new(), String::new());
    out.read_to_string(&mut rest).unwrap();
    following.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((rest.as_str(), said.as_str()), ("two\n", ""));
}

#[test]
fn a_second_run_is_refused_unless_forced() {
    let daemon = started();
    let first = daemon.kron(&["run", "patient"]).ok();
    let refused = daemon.kron(&["run", "patient"]).no(1);
    assert_eq!(
        refused,
        format!(
            "error: run `{}` is active, and the job's policy forbids another\n\
             hint: `--force` runs it all the same\n",
            first.trim_end()
        )
    );
    let second = daemon.kron(&["run", "patient", "--force"]).ok();
    let job = daemon.ask(&["status", "patient"]);
    let active: Vec<&str> = job["active"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    assert_eq!(active, [first.trim_end(), second.trim_end()]);
    // It is answered when it is ordered, and is told to run when that is recorded.
    wait_for("two that run", || {
        let history = daemon.kron(&["history", "patient"]).ok();
        (history.matches("running").count() == 2).then_some(())
    });
    // The latest is the second one.
    let latest = daemon.ask(&["history", "patient"])["entries"][0]["run_id"].clone();
    assert_eq!(latest, second.trim_end());
    go(&daemon);
    for run in [first, second] {
        daemon
            .entry("patient", |entry| entry["run_id"] == run.trim_end() && entry["exit_code"] == 0);
    }
}

#[test]
fn the_latest_run_is_the_one_that_started_last() {
    let mut daemon = Daemon::prepare("");
    let dir = daemon.path("");
    let dir = dir.to_str().unwrap();
    daemon.define(&format!(
        "[job.patient]\nschedule = \"{} @policy(concurrency=allow)\"\nshell = true\n\
         command = \"if [ -e {dir}/first ]; then echo second; exit; fi; touch {dir}/first; \
         echo first; while [ ! -e {dir}/go ]; do sleep 0.05; done\"\n",
        seldom()
    ));
    daemon.up();
    daemon.kron(&["run", "patient"]).ok();
    wait_for("the first run", || daemon.path("first").exists().then_some(()));
    daemon.kron(&["run", "patient", "--wait"]).ok();
    assert_eq!(daemon.kron(&["logs", "patient"]).ok(), "second\n");
    go(&daemon);
}

#[test]
fn stopping_waits_for_what_runs() {
    let mut daemon = started();
    daemon.kron(&["run", "patient"]).ok();
    let mut stopping = daemon.command(&["stop"]);
    let stopping = stopping.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the daemon to stop starting", || {
        (daemon.ask(&["status"])["daemon"]["stopping"] == "wait").then_some(())
    });
    let status = daemon.kron(&["status"]).ok();
    assert!(status.contains("stopping: nothing more is started, 1 run to wait for"), "{status}");
    assert!(daemon.kron(&["run", "patient"]).no(1).contains("is stopping"));
    go(&daemon);
    let output = stopping.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"waiting for 1 run to end\n");
    assert_eq!(daemon.kron(&["status"]).code, Some(1));
    daemon.forget();
    let document = daemon.ask(&["state", "show", "patient"]);
    assert_eq!(document["History"][0]["ExitCode"], 0);
}

#[test]
fn a_run_outlives_a_daemon_that_leaves_and_one_that_crashes() {
    let mut daemon = started();
    let run = daemon.kron(&["run", "patient"]).ok();
    daemon.stop(&["--now"]);
    daemon.up();
    let active = daemon.ask(&["status", "patient"])["active"][0]["run_id"].clone();
    assert_eq!(active, run.trim_end(), "it is adopted");
    daemon.crash();
    daemon.up();
    let following = daemon.command(&["logs", "patient", "--follow"]).stdout(Stdio::piped()).spawn();
    go(&daemon);
    let output = following.unwrap().wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"one\ntwo\n"[..]));
    let entry = daemon.entry("patient", |entry| !entry["completed_at"].is_null());
    assert_eq!((&entry["exit_code"], &entry["ending"]), (&json!(0), &json!("exited")));
}

#[test]
fn killing_ends_what_runs() {
    let mut daemon = started();
    daemon.kron(&["run", "patient"]).ok();
    let stopped = daemon.stop(&["--kill"]);
    assert_eq!(stopped.err, "waiting for 1 run to end\n");
    let document = daemon.ask(&["state", "show", "patient"]);
    assert_eq!(document["History"][0]["Ending"], "stopped");
    assert_eq!(document["ActiveExecution"], json!(null));
}

#[test]
fn a_long_log_comes_whole() {
    // Three pieces and a bit, of bytes that are no text.
    let mut daemon = Daemon::prepare("");
    let copy = daemon.path("copy");
    daemon.define(&format!(
        "[job.loud]\nschedule = \"{}\"\nshell = true\n\
         command = \"head -c 3500000 /dev/urandom | tee {}\"\n",
        seldom(),
        copy.display()
    ));
    daemon.up();
    daemon.kron(&["run", "loud", "--wait"]).ok();
    let shown = daemon.command(&["logs", "loud"]).output().unwrap();
    assert_eq!(shown.status.code(), Some(0));
    assert!(shown.stdout == bytes(&copy), "{} bytes", shown.stdout.len());
    assert_eq!(shown.stdout.len(), 3_500_000);
}

#[test]
fn what_is_not_kept_is_said() {
    let seldom = seldom();
    let daemon = Daemon::start(&format!(
        r#"
[job.quiet]
schedule = "{seldom}"
command = ["/bin/echo", "unheard"]
output = "discard"

[job.broken]
schedule = "{seldom}"
command = ["/no/such/program"]
"#,
    ));
    daemon.kron(&["run", "quiet", "--wait"]).ok();
    let said = daemon.kron(&["logs", "quiet"]).no(1);
    assert!(said.contains("no output of run") && said.contains("`output` is `discard`"), "{said}");
    let said = daemon.kron(&["run", "broken"]).no(6);
    assert!(said.starts_with("error: not started: "), "{said}");
    assert!(said.contains("/no/such/program"), "{said}");
    assert!(daemon.kron(&["logs", "broken"]).no(1).contains("has never run"));
}
