//! Jobs that wait: put in, found, listed, moved, changed, cancelled.

use serde_json::json;

use super::{add, common_beginning, feed, go, ids, json_lines, ls, queue, show, wait_state};
use crate::daemon::krond::Daemon;

/// The id of no job: those that are made begin with a later time.
const UNKNOWN: &str = "0198c5d1-7a10-7000-8c3f-5f215f21c09a";
const PAUSE: [&str; 4] = ["queue", "pause", "--reason", "for a test"];

#[test]
fn a_job_is_found_by_either_end_of_its_id() {
    let daemon = queue();
    daemon.kron(&PAUSE).ok();
    let first = add(&daemon, &["echo", "--param", "n=1", "--param", "s=x y"]);
    let second = add(&daemon, &["echo", "--priority", "-7"]);
    assert_eq!(first.len(), 36, "{first}");

    let shown = show(&daemon, &first);
    assert_eq!(shown["job"]["params"], json!({"n": 1, "s": "x y"}));
    assert_eq!(shown["run"], json!(null));
    assert!(
        shown["next"]
            .as_str()
            .unwrap()
            .starts_with("it is the first in the queue; it waits: the queue is paused: for a test"),
        "{shown}"
    );
    assert_eq!(show(&daemon, &second)["job"]["priority"], -7);

    // The last digits, as tables show them, whichever case, and the first.
    for text in [&first[28..], &first[24..], &first[28..].to_uppercase(), &first[..24]] {
        assert_eq!(show(&daemon, text)["job"]["job_id"], json!(first), "{text}");
    }
    let table = daemon.kron(&["queue", "ls"]).ok();
    for id in [&first, &second] {
        let line = table.lines().find(|line| line.starts_with(&id[28..])).expect("its line");
        assert!(line.contains("the queue is paused: for a test"), "{table}");
    }
    let text = daemon.kron(&["queue", "show", &first]).ok();
    assert!(text.starts_with(&format!("{first}\n  type     echo\n")), "{text}");

    let common = common_beginning(&first, &second);
    let told = daemon.kron(&["queue", "show", common]).no(2);
    let expected = format!("error: `{common}` means 2 jobs\nhint: give more digits:\n");
    assert!(told.starts_with(&expected), "{told}");
    assert!(told.contains(&first[28..]) && told.contains(&second[28..]), "{told}");
    let told = daemon.kron(&["queue", "cancel", common]).no(2);
    assert!(told.contains("means 2 jobs"), "{told}");
    assert_eq!(show(&daemon, &first)["job"]["state"], "queued");

    for words in [
        &["queue", "show", UNKNOWN][..],
        &["queue", "prio", UNKNOWN, "3"],
        &["queue", "move", UNKNOWN, "--top"],
        &["queue", "edit", UNKNOWN, "--now"],
        &["queue", "cancel", UNKNOWN],
        &["queue", "retry", UNKNOWN],
    ] {
        let told = daemon.kron(words).no(1);
        assert_eq!(told, format!("error: there is no job `{UNKNOWN}`\n"), "{words:?}");
    }
    // More digits than an id has by chance.
    let end = &UNKNOWN[24..];
    for words in [["queue", "show", end], ["queue", "logs", end]] {
        let told = daemon.kron(&words).no(1);
        assert!(told.starts_with("error: no job") && told.contains(&format!("`{end}`")), "{told}");
    }
}

#[test]
fn what_the_daemon_refuses_is_told() {
    let daemon = queue();
    for (words, code, expected) in [
        (&["add", "no such type"][..], 2, "job_type"),
        (&["add", "echo", "--priority", "9999999"], 2, "priority"),
        (&["add", "echo", "--params", r#"{"a":1,"a":2}"#], 2, "`a` is given twice"),
        (
            &["add", "echo", "--params", r#"{"a":12345678901234567890123}"#],
            2,
            "12345678901234567890123",
        ),
        (&["add", "--template", "nope"], 1, "no template `nope`"),
        (&["direct", "nothing"], 2, "there is no handler for type `nothing`"),
        (&["direct", "echo", "--wait", "2h"], 2, "wait_ms"),
        (&["resume"], 1, "the queue is not paused"),
        (&["resume", "--type", "echo"], 1, "not paused"),
        (&["ls", "--type", "no such type"], 2, "job_type"),
    ] {
        let told = daemon.kron(&[&["queue"], words].concat()).no(code);
        assert!(told.starts_with("error: ") && told.contains(expected), "{words:?}: {told}");
    }
    assert_eq!(ls(&daemon, &[]).len(), 0, "nothing came of it");
    assert_eq!(daemon.kron(&["queue", "ls"]).ok(), "there is no job\n");
    assert_eq!(daemon.kron(&["queue", "ls", "--state", "failed"]).ok(), "there is no such job\n");
}

#[test]
fn a_daemon_without_a_queue_says_how_to_make_one() {
    let daemon = Daemon::start("");
    for words in [
        &["queue", "add", "echo"][..],
        &["queue", "ls"],
        &["queue", "stats"],
        &["queue", "show", "5f21c09a"],
        &["queue", "direct", "echo"],
        &["template", "ls"],
        &["schedule", "show", "nightly"],
    ] {
        let told = daemon.kron(words).no(1);
        assert!(told.starts_with("error: this daemon has no queue\nhint: "), "{words:?}: {told}");
        assert!(told.contains("`[queue]`"), "{told}");
    }
}

#[test]
fn jobs_are_moved_and_changed_while_they_wait() {
    let daemon = queue();
    daemon.kron(&PAUSE).ok();
    let jobs: Vec<String> = (0..4).map(|_| add(&daemon, &["echo"])).collect();
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| jobs[at].as_str());
    let check = |words: &[&str], expected: [&str; 4]| {
        let said = daemon.kron(&[&["queue"], words].concat()).ok();
        assert_eq!(ids(&ls(&daemon, &["--order"])), expected, "{words:?}");
        said
    };
    let said = check(&["move", d, "--top"], [d, a, b, c]);
    assert_eq!(said, format!("{d}: moved to the top\n"));
    check(&["move", d, "--bottom"], [a, b, c, d]);
    let said = check(&["move", &c[28..], "--before", &a[28..]], [c, a, b, d]);
    assert_eq!(said, format!("{c}: moved before {a}\n"));
    check(&["move", c, "--after", b], [a, b, c, d]);
    let said = check(&["prio", d, "5"], [d, a, b, c]);
    assert_eq!(said, format!("{d}: priority 5\n"));
    let said = check(&["move", d, "--top"], [d, a, b, c]);
    assert_eq!(said, format!("{d}: moved to the top of priority 5\n"));
    check(&["prio", a, "-1"], [d, b, c, a]);
    assert!(daemon.kron(&["queue", "move", a, "--before", d]).no(1).contains("priority"));
    assert_eq!(daemon.kron(&["queue", "move", a, "--before", a]).code, Some(2));

    // Those of one type or state come alone.
    add(&daemon, &["bad"]);
    assert_eq!(ls(&daemon, &["--type", "bad"]).len(), 1);
    assert_eq!(ls(&daemon, &["--state", "running"]).len(), 0);
    assert_eq!(ls(&daemon, &["--limit", "2"]).len(), 2);
    assert_eq!(ls(&daemon, &["--all"]).len(), 5);
    let cut = daemon.kron(&["queue", "ls", "-n", "2"]).ok();
    assert!(
        cut.ends_with("\n2 jobs; there are more, which `--all` or `--limit N` shows\n"),
        "{cut}"
    );

    let edited = daemon.ask(&["queue", "edit", b, "--params", r#"{"w": 3}"#, "--delay", "1h"]);
    assert_eq!((&edited["params"], &edited["state"]), (&json!({"w": 3}), &json!("delayed")));
    let shown = show(&daemon, b);
    assert!(shown["next"].as_str().unwrap().starts_with("it may start at 2"), "{shown}");
    let edited = daemon.ask(&["queue", "edit", b, "--now"]);
    assert_eq!((&edited["params"], &edited["state"]), (&json!({"w": 3}), &json!("queued")));
    let edited = daemon.ask(&["queue", "edit", b, "--at", "2046-03-01T01:00:00+01:00"]);
    assert_eq!(edited["not_before"], "2046-03-01T00:00:00.000Z");
    let later = add(&daemon, &["echo", "--delay", "1h", "--params", "{}"]);
    assert_eq!(show(&daemon, &later)["job"]["state"], "delayed");

    // One that is unknown does not save the others.
    let run = daemon.kron(&["queue", "cancel", a, UNKNOWN, c]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.out, format!("{a}: cancelled\n{c}: cancelled\n"));
    assert_eq!(run.err, format!("error: there is no job `{UNKNOWN}`\n"));
    assert!(daemon.kron(&["queue", "cancel", a]).no(1).starts_with("error: "));
    assert!(daemon.kron(&["queue", "move", a, "--top"]).no(1).contains("not queued"));
    let shown = show(&daemon, a);
    assert!(shown["next"].as_str().unwrap().contains("`kron queue retry"), "{shown}");
    let again = daemon.kron(&["queue", "retry", a]).ok();
    let again = show(&daemon, again.trim_end());
    assert_eq!(
        (&again["job"]["retry_of"], &again["chain"][1]["job_id"]),
        (&json!(a), &again["job"]["job_id"])
    );
    assert!(daemon.kron(&["queue", "retry", d]).no(1).contains("not ended"));
}

#[test]
fn a_key_gives_the_same_job_again() {
    let daemon = queue();
    daemon.kron(&PAUSE).ok();
    let words = ["queue", "add", "echo", "--key", "k 1"];
    let first = daemon.kron(&words).ok();
    let again = daemon.kron(&words);
    assert_eq!((again.code, &again.out), (Some(0), &first));
    assert_eq!(again.err, "note: it was there already, under its key, and is queued\n");
    let other = daemon.kron(&["queue", "add", "bad", "--key", "k 1"]).no(1);
    assert!(other.starts_with("error: "), "{other}");
    assert_eq!(ls(&daemon, &[]).len(), 1);
}

#[test]
fn what_nothing_handles_is_noted_and_waits() {
    let daemon = queue();
    let run = daemon.kron(&["queue", "add", "odd"]);
    assert_eq!(run.code, Some(0));
    assert!(
        run.err.starts_with(
            "note: it waits because nothing handles type `odd`; a table `[queue.handler.odd]`"
        ),
        "{run:?}"
    );
    let shown = show(&daemon, run.out.trim_end());
    assert!(
        shown["next"].as_str().unwrap().ends_with("it waits: nothing handles its type"),
        "{shown}"
    );
    let table = daemon.kron(&["queue", "ls"]).ok();
    assert!(table.contains("nothing handles its type"), "{table}");
    let stats = daemon.kron(&["queue", "stats"]).ok();
    let line = stats.lines().find(|line| line.starts_with("odd ")).expect("its line");
    assert!(line.ends_with("none"), "{stats}");
}

#[test]
fn many_jobs_come_from_lines() {
    let daemon = queue();
    daemon.kron(&PAUSE).ok();
    let words = ["queue", "add", "--stdin-jobs"];
    let line = |n: usize| format!("{{\"job_type\": \"echo\", \"params\": {{\"n\": {n}}}}}\n");
    // More than one request takes, with a fault in the second of them.
    let mut input: String = (1..=1_200).map(line).collect();
    let fine = feed(&daemon, &words, &input);
    assert_eq!((fine.code, fine.err.as_str()), (Some(0), ""));
    let told: Vec<&str> = fine.out.lines().collect();
    assert_eq!(told.len(), 1_200);
    assert_eq!(ids(&ls(&daemon, &["--order", "--all"])), told, "in the order of the lines");
    let last = show(&daemon, told[1_199]);
    assert_eq!(last["job"]["params"]["n"], 1_200);

    input.push_str("\n{\"job_type\": \"echo\", \"prams\": {}}\n");
    let faulty = feed(&daemon, &words, &input);
    assert_eq!(faulty.code, Some(2));
    assert_eq!(faulty.out.lines().count(), 1_000, "the first batch was taken, and is told");
    assert!(
        faulty.err.starts_with("error: line 1202: ") && faulty.err.contains("`params`"),
        "{}",
        faulty.err
    );
    assert_eq!(ls(&daemon, &["--all"]).len(), 2_200, "of the second nothing is there");
    for (input, expected) in [
        ("[1]\n", "error: jobs: line 1: no JSON object"),
        ("\n\n{\"job_type\": \"echo\"} x\n", "error: jobs: line 3: no JSON object"),
    ] {
        let told = feed(&daemon, &words, input).no(2);
        assert!(told.starts_with(expected), "{told}");
    }
    assert_eq!(feed(&daemon, &words, "").ok(), "");
    let told = feed(&daemon, &["queue", "add", "--stdin-jobs", "--format", "json"], &line(1)).ok();
    assert_eq!(json_lines(&told)[0]["new"], true);
    let from =
        feed(&daemon, &["queue", "add", "echo", "--params", "-"], "{\"from\": \"here\"}\n").ok();
    assert_eq!(show(&daemon, from.trim_end())["job"]["params"]["from"], "here");
}

#[test]
fn pauses_are_shown_until_they_are_lifted() {
    let daemon = queue();
    let said = daemon.kron(&["queue", "pause", "--type", "echo", "--reason", "disk is full"]).ok();
    assert_eq!(said, "type echo is paused\n");
    let waits = add(&daemon, &["echo"]);
    let table = daemon.kron(&["queue", "ls"]).ok();
    assert!(table.starts_with("type echo is paused since "), "{table}");
    assert!(table.contains("its type is paused: disk is full"), "{table}");
    assert_eq!(daemon.ask(&["queue", "stats"])["pauses"][0]["reason"], "disk is full");
    // Another type goes on.
    daemon.kron(&["queue", "add", "skip", "--wait"]).no(1);
    let both = daemon.ask(&["queue", "pause", "--reason", "all"]);
    assert_eq!(both["pauses"].as_array().unwrap().len(), 2);
    let said = daemon.kron(&["queue", "resume"]).ok();
    assert!(said.starts_with("the queue is resumed\ntype echo is paused since "), "{said}");
    assert_eq!(show(&daemon, &waits)["job"]["state"], "queued");
    assert_eq!(daemon.kron(&["queue", "resume", "--type", "echo"]).ok(), "type echo is resumed\n");
    wait_state(&daemon, &waits, "completed");
    let table = daemon.kron(&["queue", "ls"]).ok();
    assert!(!table.contains("paused"), "{table}");
}

#[test]
fn a_running_job_is_ended_by_cancelling_it() {
    let daemon = queue();
    let job = add(&daemon, &["slow"]);
    wait_state(&daemon, &job, "running");
    let said = daemon.kron(&["queue", "cancel", &job]).ok();
    assert_eq!(said, format!("{job}: it runs, and its process is being ended\n"));
    wait_state(&daemon, &job, "cancelled");
    go(&daemon);
}

#[test]
fn groups_are_made_shown_and_cancelled() {
    let daemon = queue();
    let jobs = "{\"job_type\": \"slow\"}\n{\"job_type\": \"echo\"}\n{\"job_type\": \"echo\"}\n";
    std::fs::write(daemon.path("jobs.jsonl"), jobs).unwrap();
    let file = daemon.path("jobs.jsonl");
    let words = [
        "queue",
        "group",
        "add",
        "--mode",
        "sequential",
        "--name",
        "release",
        file.to_str().unwrap(),
    ];
    let group = daemon.kron(&words).ok().trim_end().to_owned();
    let shown = daemon.ask(&["queue", "group", "show", &group[28..]]);
    assert_eq!(shown["group_id"], json!(group));
    assert_eq!(shown["on_failure"], "stop");
    let states: Vec<&str> = shown["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member["state"].as_str().unwrap())
        .collect();
    assert_eq!(states[1..], ["blocked", "blocked"]);
    let member = shown["members"][1]["job_id"].as_str().unwrap();
    assert!(show(&daemon, member)["next"].as_str().unwrap().contains("group"), "{shown}");
    let text = daemon.kron(&["queue", "group", "show", &group]).ok();
    assert!(
        text.starts_with(&format!("{group} release: ")) && text.contains(&member[28..]),
        "{text}"
    );
    let listed = daemon.kron(&["queue", "group", "ls"]).ok();
    assert!(
        listed
            .lines()
            .nth(1)
            .unwrap()
            .starts_with(&format!("{}  release  sequential  stop", &group[28..])),
        "{listed}"
    );
    wait_state(&daemon, shown["members"][0]["job_id"].as_str().unwrap(), "running");
    let said = daemon.kron(&["queue", "group", "cancel", &group[28..]]).ok();
    assert_eq!(said, format!("{group}: 2 jobs cancelled, 1 being ended\n"));

    let on_stdin = ["queue", "group", "add", "--mode", "parallel", "--on-failure", "continue", "-"];
    let told =
        feed(&daemon, &on_stdin, "{\"job_type\": \"echo\"}\n\n{\"job_typ\": \"echo\"}\n").no(2);
    assert!(told.starts_with("error: line 3: ") && told.contains("`job_type`"), "{told}");
    assert_eq!(feed(&daemon, &on_stdin, "{\"job_type\": \"echo\"}\n").code, Some(0));
    assert!(
        daemon.kron(&["queue", "group", "show", "5f21c09a"]).no(1).starts_with("error: no group")
    );
    assert_eq!(daemon.ask(&["queue", "group", "cancel", &group])["cancelled"], 0);
}
