//! Jobs that run: waited for, run directly, their output and files.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::json;

use super::{add, go, queue, show, wait_state};
use crate::daemon::krond::{Daemon, bytes, wait_for};

#[test]
fn a_job_is_waited_for_and_so_are_its_retries() {
    let daemon = queue();
    let run = daemon.kron(&["queue", "add", "echo", "--wait"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let (id, end) = run.out.split_once('\n').unwrap();
    assert!(end.starts_with("completed, exit code 0, after "), "{end}");
    let ended = daemon.ask(&["queue", "add", "echo", "--wait"]);
    assert_eq!(ended["state"], "completed");
    assert_ne!(ended["job_id"], json!(id));

    let run = daemon.kron(&["queue", "add", "bad", "--wait"]);
    assert_eq!(run.code, Some(1));
    let (first, end) = run.out.split_once('\n').unwrap();
    assert!(end.starts_with("failed, exit code 3, after "), "{end}");
    assert!(
        run.err.starts_with(&format!("note: {} failed and is repeated at ", &first[28..])),
        "{run:?}"
    );
    let shown = show(&daemon, first);
    assert_eq!(shown["chain"].as_array().unwrap().len(), 2, "the original and its retry");
    let last = shown["chain"][1]["job_id"].as_str().unwrap();
    assert!(
        shown["next"].as_str().unwrap().starts_with(&format!("job {last} repeats it, failed")),
        "{shown}"
    );
    let shown = show(&daemon, last);
    assert!(
        shown["next"].as_str().unwrap().contains(&format!("`kron queue retry {last}`")),
        "{shown}"
    );
    let text = daemon.kron(&["queue", "show", last]).ok();
    for part in [
        format!("{first} failed\n"),
        format!("{last} failed, this one\n"),
        ", failed, exit code 3, after ".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    let run = daemon.kron(&["queue", "add", "skip", "--wait"]);
    assert_eq!(run.code, Some(1));
    assert!(run.out.contains("\nskipped, exit code 75, after "), "{run:?}");
}

#[test]
fn waiting_ends_when_the_job_is_cancelled() {
    let daemon = queue();
    daemon.kron(&["queue", "pause", "--reason", "x"]).ok();
    let mut command = daemon.command(&["queue", "add", "echo", "--wait"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut id = String::new();
    out.read_line(&mut id).unwrap();
    daemon.kron(&["queue", "cancel", id.trim_end()]).ok();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut end = String::new();
    out.read_to_string(&mut end).unwrap();
    assert_eq!(end, "cancelled\n");
}

#[test]
fn a_direct_run_gives_its_output_and_its_end() {
    let daemon = queue();
    let run = daemon.kron(&["queue", "direct", "echo", "--param", "a=1"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "{\"a\":1}\n"));
    assert!(run.err.contains(": completed, exit code 0, after "), "{run:?}");
    let run = daemon.kron(&["queue", "direct", "bad"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), "oops\n"));
    assert!(run.err.contains(": failed, exit code 3, after "), "{run:?}");
    let run = daemon.kron(&["queue", "direct", "skip", "--format", "json"]);
    assert_eq!(run.code, Some(1));
    let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&answer["run"]["status"], &answer["job"]["state"]),
        (&json!("SKIPPED"), &json!("skipped"))
    );
    let run = daemon.kron(&["queue", "direct", "slow", "--timeout", "1s"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.ends_with(": timed out\n"), "{run:?}");

    // One worker, and it is busy.
    let slow = add(&daemon, &["slow"]);
    wait_state(&daemon, &slow, "running");
    let busy = daemon.kron(&["queue", "direct", "echo"]).no(1);
    assert!(busy.starts_with("error: no slot became free"), "{busy}");
    let waiting = daemon
        .command(&["queue", "direct", "echo", "--wait", "1h"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the reservation", || {
        (!daemon.ask(&["queue", "stats"])["reservation"].is_null()).then_some(())
    });
    let behind = add(&daemon, &["echo"]);
    let shown = show(&daemon, &behind);
    assert!(
        shown["next"].as_str().unwrap().ends_with("it waits: a direct run has the next slot"),
        "{shown}"
    );
    go(&daemon);
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!((waited.status.code(), &waited.stdout[..]), (Some(0), &b"{}\n"[..]));
    wait_state(&daemon, &behind, "completed");
}

/// Reads the output of `kron queue logs --follow` line by line, while it comes.
fn follow(
    daemon: &Daemon,
    job: &str,
) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut command = daemon.command(&["queue", "logs", job, "--follow"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("kron runs");
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    (child, out)
}

#[test]
fn output_is_followed_from_before_the_start_to_the_end() {
    let daemon = queue();
    daemon.kron(&["queue", "pause", "--reason", "x"]).ok();
    let job = add(&daemon, &["slow"]);
    let told = daemon.kron(&["queue", "logs", &job]).no(1);
    assert_eq!(
        told,
        format!("error: no output of job `{job}`\nhint: it has not run: it is queued\n")
    );
    let (mut child, mut out) = follow(&daemon, &job[28..]);
    daemon.kron(&["queue", "resume"]).ok();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    assert!(child.try_wait().unwrap().is_none(), "it goes on while the job does");
    let shown = wait_for("progress", || {
        let shown = show(&daemon, &job);
        (!shown["run"]["progress"].is_null()).then_some(shown)
    });
    assert_eq!(shown["run"]["progress"], json!({"percent": 40.0, "text": "half way"}));
    assert_eq!(shown["next"], "if it fails it is not retried any more");
    let text = daemon.kron(&["queue", "show", &job]).ok();
    assert!(text.contains("\n  progress  40%, half way\n"), "{text}");
    go(&daemon);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "kron-progress: 40 half way\nended\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));

    // By its run, whole and in part.
    wait_state(&daemon, &job, "completed");
    let run = show(&daemon, &job)["run"]["run_id"].as_str().unwrap().to_owned();
    for text in [run.as_str(), &run[28..], &job] {
        let logs = daemon.kron(&["queue", "logs", text]).ok();
        assert!(logs.starts_with("begun\n") && logs.ends_with("ended\n"), "{logs}");
    }
    let unknown = "0198c5d1-7a10-7000-8c3f-5f215f21c09a";
    assert!(daemon.kron(&["queue", "logs", unknown]).no(1).contains(unknown));
}

#[test]
fn following_ends_with_a_job_that_never_starts() {
    let daemon = queue();
    daemon.kron(&["queue", "pause", "--reason", "x"]).ok();
    let job = add(&daemon, &["slow"]);
    let (mut child, _out) = follow(&daemon, &job);
    daemon.kron(&["queue", "cancel", &job]).ok();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn files_are_listed_fetched_and_compared() {
    let daemon = queue();
    let job =
        daemon.ask(&["queue", "add", "echo", "--wait"])["job_id"].as_str().unwrap().to_owned();
    let listed = daemon.kron(&["queue", "artifacts", &job[28..]]).ok();
    assert!(listed.lines().nth(1).unwrap().starts_with("d/out.txt  5      d117fa00"), "{listed}");
    let shown = show(&daemon, &job);
    assert_eq!(shown["run"]["artifacts"][0]["path"], "d/out.txt");
    let get = ["queue", "artifacts", &job, "--get", "d/out.txt"];
    assert_eq!(daemon.kron(&get).ok(), "done\n");
    let to = daemon.path("fetched.txt");
    daemon.kron(&[&get[..], &["-o", to.to_str().unwrap()]].concat()).ok();
    assert_eq!(bytes(&to), b"done\n");
    let told = daemon.kron(&["queue", "artifacts", &job, "--get", "d/out.tx"]).no(1);
    assert_eq!(told, "error: no file `d/out.tx`\nhint: did you mean `d/out.txt`?\n");
    for nowhere in ["../../../queue.db", "/etc/passwd", "d/../d/out.txt", "d"] {
        assert_eq!(
            daemon.kron(&["queue", "artifacts", &job, "--get", nowhere]).code,
            Some(1),
            "{nowhere}"
        );
    }
    let unwritable = daemon.path("nowhere/at/all");
    let told = daemon.kron(&[&get[..], &["-o", unwritable.to_str().unwrap()]].concat()).no(6);
    assert!(told.starts_with("error: cannot make `"), "{told}");

    // Somebody changes the file afterwards.
    let run = shown["run"]["run_id"].as_str().unwrap();
    let kept = daemon.state_dir().join("queue/artifacts").join(run).join("d/out.txt");
    std::fs::write(kept, "DONE\n").unwrap();
    let told = daemon.kron(&get).no(6);
    assert!(told.starts_with("error: `d/out.txt` is not what was recorded"), "{told}");

    let none = daemon.kron(&["queue", "add", "skip", "--wait"]);
    let none = none.out.lines().next().unwrap().to_owned();
    assert_eq!(daemon.kron(&["queue", "artifacts", &none]).ok(), "it has produced no files\n");
}
