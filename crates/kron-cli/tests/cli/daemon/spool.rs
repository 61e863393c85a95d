//! `kron spool` and a daemon that has the spools.

use std::path::{Path, PathBuf};

use kron_testkit::krond::seldom;
use serde_json::{Value, json};

use crate::daemon::krond::{Daemon, Run, bytes, wait_for};
use crate::daemon::queue::{feed, json_lines};

/// A daemon with these spools, each with handlers that do and fail; `slow` waits for file `go`.
fn spools(names: &[&str], more: &str) -> Daemon {
    let daemon = Daemon::prepare("");
    let mut text = String::from(more);
    for name in names {
        let (dir, go) = (daemon.path(name), daemon.path("go"));
        text.push_str(&format!(
            r#"
[spool.{name}]
dir = "{}"
workers = 2
retries = 0

[spool.{name}.handler.echo]
command = ["/bin/sh", "-c", "cat"]

[spool.{name}.handler.bad]
command = ["/bin/sh", "-c", "echo oops; test -e {go} || exit 3", "bad"]

[spool.{name}.handler.slow]
command = ["/bin/sh", "-c", "until test -e {go}; do sleep 0.05; done"]
"#,
            dir.display(),
            go = go.display(),
        ));
    }
    daemon.define(&text);
    let mut daemon = daemon;
    daemon.up();
    daemon
}

fn go(daemon: &Daemon) {
    std::fs::write(daemon.path("go"), "").expect("a file");
}

#[track_caller]
fn put(daemon: &Daemon, words: &[&str]) -> String {
    daemon.kron(&[&["spool", "put"], words].concat()).ok().trim_end().to_owned()
}

/// Waits until a task of spool `mail` has ended, and returns its file.
#[track_caller]
fn ended(daemon: &Daemon, id: &str) -> Value {
    wait_for("the end of a task", || {
        let task = daemon.ask(&["spool", "show", id]);
        // Its file is in `running/`, too, until `completed/` is synced, and counts there.
        let has_left = !file(daemon, "mail", "running", id).exists();
        (task["state"] == "COMPLETED" && has_left).then_some(task)
    })
}

fn file(daemon: &Daemon, spool: &str, state: &str, id: &str) -> PathBuf {
    daemon.path(spool).join("tasks").join(state).join(format!("{id}.json"))
}

/// `kron spool` with `--dir`, which asks no daemon.
fn aside(dir: &Path, words: &[&str]) -> Run {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kron"));
    command.arg("spool").args(words).arg("--dir").arg(dir);
    command.output().expect("kron runs").into()
}

#[test]
fn the_only_spool_needs_no_name() {
    let daemon = spools(&["mail"], "");
    let id = put(&daemon, &["--type", "echo", "--data", r#"{"to":"ä"}"#]);
    let task = ended(&daemon, &id);
    assert_eq!(task["result"]["outcome"], "SUCCEEDED");
    let output = task["result"]["output"].as_str().expect("its output");
    let payload: Value = serde_json::from_str(output).expect(output);
    assert_eq!(payload, json!({"type": "echo", "data": {"to": "ä"}}), "the payload is its input");
    let shown = daemon.kron(&["spool", "show", &id]).ok();
    assert!(shown.contains("\n  outcome    succeeded\n"), "{shown}");

    // The same by its name, and by its directory.
    let named = put(&daemon, &["--type", "echo", "--spool", "mail", "--id", "named"]);
    assert_eq!(ended(&daemon, &named)["payload"]["data"], json!({}));
    let direct = aside(&daemon.path("mail"), &["put", "--type", "echo", "--id", "direct"]).ok();
    assert_eq!(direct, "direct\n");
    ended(&daemon, "direct");
    let again = daemon.kron(&["spool", "put", "--type", "echo", "--id", "direct"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "direct\n"));
    assert_eq!(again.err, "note: task `direct` is there already, completed\n");

    let lines = "1\n2\nnot JSON\n3\n";
    let run = feed(&daemon, &["spool", "put", "--stdin", "--type", "echo"], lines);
    assert_eq!((run.code, run.out.lines().count()), (Some(2), 3), "{run:?}");
    for id in run.out.lines() {
        ended(&daemon, id);
    }
    let listed = daemon.kron(&["spool", "ls", "--state", "completed", "--format", "json"]).ok();
    let rows = json_lines(&listed);
    assert_eq!(rows.len(), 6, "{listed}");
    assert!(rows.iter().all(|row| row["outcome"] == "succeeded"), "{listed}");
    assert_eq!(daemon.kron(&["spool", "ls"]).ok(), "there is no task that waits or runs\n");
}

#[test]
fn a_failed_task_is_retried_and_old_ones_go() {
    let daemon = spools(&["mail"], "");
    let id = put(&daemon, &["--type", "bad", "--id", "b-1"]);
    let task = ended(&daemon, &id);
    assert_eq!((&task["result"]["outcome"], &task["attempts"]), (&json!("FAILED"), &json!(1)));
    let row = daemon.kron(&["spool", "ls", "--state", "completed"]).ok();
    assert!(row.contains("failed, exit code 3, "), "{row}");

    // The daemon has the lock.
    let told = aside(&daemon.path("mail"), &["retry", "b-1"]).no(4);
    assert!(told.contains("hint: if a daemon has it, say `--spool NAME`"), "{told}");
    aside(&daemon.path("mail"), &["purge"]).no(4);

    go(&daemon);
    assert_eq!(daemon.kron(&["spool", "retry", "b-1"]).ok(), "b-1: it waits again\n");
    assert_eq!(ended(&daemon, "b-1")["result"]["outcome"], "SUCCEEDED");
    let told = daemon.kron(&["spool", "retry", "b-1"]).no(1);
    assert!(told.contains("task `b-1` has succeeded"), "{told}");
    let told = daemon.kron(&["spool", "retry", "nothing"]).no(1);
    assert!(told.contains("task `nothing` is not completed"), "{told}");
    let both = daemon.kron(&["spool", "retry", "nothing", "b-1"]);
    assert_eq!((both.code, both.err.matches("error: ").count()), (Some(1), 2), "{both:?}");

    assert_eq!(daemon.kron(&["spool", "purge"]).ok(), "there was nothing to remove\n");
    let completed = file(&daemon, "mail", "completed", "b-1");
    assert!(completed.exists());
    let purged = wait_for("it to be old enough", || {
        let purged = daemon.ask(&["spool", "purge", "--older-than", "1s"]);
        (purged["completed"] == 1).then_some(purged)
    });
    assert_eq!(purged, json!({"completed": 1, "rejected": 0, "temporary": 0}));
    assert!(!completed.exists());
    let told = daemon.kron(&["spool", "show", "b-1"]).no(1);
    assert!(told.starts_with("error: no task `b-1`\nhint: "), "{told}");
}

#[test]
fn what_cannot_be_a_task_is_listed_and_removed() {
    let daemon = spools(&["mail"], "");
    let strange = file(&daemon, "mail", "pending", "strange");
    let draft = daemon.path("strange.json");
    std::fs::write(&draft, "[]").expect("a file");
    std::fs::rename(&draft, &strange).expect("it is put");
    let rows = wait_for("it to be set aside", || {
        let rows = daemon.kron(&["spool", "ls", "--state", "rejected", "--format", "json"]).ok();
        (!rows.is_empty()).then(|| json_lines(&rows))
    });
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["name"], &rows[0]["directory"]),
        (&json!("strange.json"), &json!("pending"))
    );
    assert!(rows[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{rows:?}");
    let shown = daemon.kron(&["spool", "show", "strange"]).ok();
    assert!(shown.starts_with("strange.json\n  state     rejected\n"), "{shown}");
    assert_eq!(daemon.ask(&["spool", "stats"])["rejected"], 1);
    wait_for("it to be old enough", || {
        let purged = daemon.ask(&["spool", "purge", "--rejected", "--older-than", "1s"]);
        (purged["rejected"] == 1).then_some(())
    });
    assert_eq!(
        daemon.kron(&["spool", "ls", "--state", "rejected"]).ok(),
        "there is no thing that was set aside\n"
    );
}

#[test]
fn several_spools_are_told_apart_and_counted() {
    let daemon = spools(&["mail", "reports"], "");
    let told = daemon.kron(&["spool", "ls"]).no(2);
    assert_eq!(
        told,
        "error: the daemon has 2 spools: `mail`, `reports`\nhint: say which one with `--spool NAME`\n"
    );
    let told = daemon.kron(&["spool", "stats", "--spool", "report"]).no(1);
    assert_eq!(told, "error: no spool `report`\nhint: did you mean `reports`?\n");
    let told = daemon.kron(&["spool", "put", "--type", "T", "--spool", "xyz"]).no(1);
    assert_eq!(told, "error: no spool `xyz`\nhint: the daemon has `mail`, `reports`\n");

    for words in [
        &["--type", "slow", "--id", "s"][..],
        &["--type", "nobody", "--id", "n"],
        &["--type", "echo", "--id", "later", "--not-before", "1d"],
    ] {
        put(&daemon, &[words, &["--spool", "mail"]].concat());
    }
    let stats = wait_for("the daemon to have seen them", || {
        let stats = daemon.ask(&["spool", "stats", "--spool", "mail"]);
        let seen = &stats["daemon"];
        let has_seen = seen["running"] == 1 && seen["unhandled"] == 1 && seen["delayed"] == 1;
        // The daemon counts a task from its pick on, and its file gets to `running/` after that.
        let has_moved = stats["pending"] == 2 && stats["running"] == 1;
        (has_seen && has_moved).then_some(stats)
    });
    assert_eq!(stats["daemon"]["workers_max"], 2);
    assert_eq!(stats["daemon"]["error"], Value::Null);
    let text = daemon.kron(&["spool", "stats", "--spool", "mail"]).ok();
    let expected = "spool `mail`: 2 workers, 1 waiting for their time, 1 without a handler\n";
    assert!(text.contains(expected), "{text}");
    let listed = daemon.kron(&["spool", "ls", "--spool", "mail"]).ok();
    let first: Vec<&str> = listed.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(first, ["task", "s", "later", "n"], "what runs comes first: {listed}");
    assert_eq!(daemon.ask(&["spool", "stats", "--spool", "reports"])["pending"], 0);
    go(&daemon);
    wait_for("the slow one", || file(&daemon, "mail", "completed", "s").exists().then_some(()));
}

#[test]
fn a_daemon_without_spools_says_how_to_make_one() {
    let daemon = Daemon::start("");
    for words in [&["ls"][..], &["put", "--type", "T"], &["stats", "--spool", "mail"]] {
        let told = daemon.kron(&[&["spool"], words].concat()).no(1);
        assert!(
            told.starts_with("error: the daemon has no spool\nhint: a table `[spool.NAME]`"),
            "{told}"
        );
    }
}

#[test]
fn a_job_that_spools_is_shown_so() {
    let job = format!(
        "[job.digest]\nschedule = \"{}\"\n\
         spool = {{ name = \"mail\", type = \"echo\", data = {{ to = \"all\" }} }}\n",
        seldom()
    );
    let daemon = spools(&["mail"], &job);
    let shown = daemon.kron(&["status", "digest"]).ok();
    assert!(shown.contains("a task of type `echo` into `mail`\n"), "{shown}");
    daemon.kron(&["run", "digest"]);
    let row = wait_for("its task", || {
        let rows = daemon.kron(&["spool", "ls", "--state", "completed", "--format", "json"]).ok();
        json_lines(&rows).pop()
    });
    let id = row["task_id"].as_str().expect("an id");
    let stored = bytes(&file(&daemon, "mail", "completed", id));
    let task: Value = serde_json::from_slice(&stored).expect("JSON");
    assert_eq!(task["payload"], json!({"type": "echo", "data": {"to": "all"}}));
}
