//! Templates and schedules.

use kron_testkit::krond::seldom;
use serde_json::json;

use super::{common_beginning, json_lines, ls, queue, show};
use crate::daemon::krond::wait_for;

#[test]
fn templates_are_made_found_changed_and_deleted() {
    let daemon = queue();
    assert_eq!(daemon.kron(&["template", "ls"]).ok(), "there is no template\n");
    let words = [
        "template",
        "add",
        "thumbnails",
        "--type",
        "echo",
        "--param",
        "width=300",
        "--priority",
        "-2",
    ];
    let id = daemon.kron(&words).ok().trim_end().to_owned();
    assert!(daemon.kron(&words).no(1).contains("`thumbnails` is taken"));
    for text in ["thumbnails", &id, &id[28..], &id[..24]] {
        let template = daemon.ask(&["template", "show", text]);
        assert_eq!(
            (&template["template_id"], &template["params"]),
            (&json!(id), &json!({"width": 300})),
            "{text}"
        );
    }
    assert_eq!(
        daemon.kron(&["template", "show", "thumbnail"]).no(1),
        "error: no template `thumbnail`\nhint: did you mean `thumbnails`?\n"
    );
    let other = daemon.ask(&["template", "add", "report", "--type", "bad"]);
    assert_eq!(other["priority"], 0);
    let other = other["template_id"].as_str().expect("an id");
    let told = daemon.kron(&["template", "rm", common_beginning(&id, other)]).no(2);
    assert!(told.contains("means 2 templates") && told.contains("thumbnails"), "{told}");
    let listed = daemon.kron(&["template", "ls"]).ok();
    let names: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["name", "report", "thumbnails"], "{listed}");
    assert!(listed.contains(&id[28..]), "{listed}");

    let job =
        daemon.kron(&["queue", "add", "--template", "thumbnails", "--param", "file=a.png"]).ok();
    let job = show(&daemon, job.trim_end());
    assert_eq!(job["job"]["params"], json!({"width": 300, "file": "a.png"}));
    assert_eq!((&job["job"]["priority"], &job["job"]["template_id"]), (&json!(-2), &json!(id)));

    let edited = daemon
        .kron(&[
            "template",
            "edit",
            "thumbnails",
            "--name",
            "large",
            "--params",
            "{}",
            "--priority",
            "4",
        ])
        .ok();
    assert!(edited.starts_with("large\n") && edited.contains("\n  priority  4\n"), "{edited}");
    assert_eq!(daemon.ask(&["template", "show", &id])["params"], json!({}));
    assert!(
        daemon.kron(&["template", "edit", "large", "--name", "report"]).no(1).contains("taken")
    );
    daemon.kron(&["schedule", "add", "yearly", "--template", "large", "--cron", seldom()]).ok();
    assert!(daemon.kron(&["template", "rm", "large"]).no(1).contains("is used by schedule"));
    assert_eq!(daemon.kron(&["template", "rm", "report"]).ok(), "report is deleted\n");
    assert_eq!(json_lines(&daemon.kron(&["template", "ls", "--format", "json"]).ok()).len(), 1);
}

#[test]
fn schedules_are_checked_made_looked_at_and_changed() {
    let daemon = queue();
    daemon.kron(&["template", "add", "report", "--type", "echo", "--param", "a=1"]).ok();
    let add = |words: &[&str]| {
        daemon.kron(&[&["schedule", "add", "nightly", "--template", "report"], words].concat())
    };
    // With a caret at what is wrong, before anything is sent.
    let told = add(&["--cron", "0 3 * * * @win(after,2x)"]).no(2);
    assert!(told.contains(" --> --cron:1:") && told.contains('^'), "{told}");
    assert!(add(&["--cron", "0 3 * * *", "--timezone", "Mars/Base"]).no(2).contains("Mars/Base"));
    let told = add(&["--cron", "0 3 * * * @tz(Europe/Paris)", "--timezone", "UTC"]).no(2);
    assert!(told.contains("say it in one place"), "{told}");
    assert!(
        daemon
            .kron(&["schedule", "add", "x", "--template", "reprt", "--cron", "0 3 * * *"])
            .no(1)
            .contains("did you mean `report`?")
    );
    assert_eq!(daemon.kron(&["schedule", "ls"]).ok(), "there is no schedule\n");

    let words = [
        "--cron",
        "0 3 * * * @tz(Europe/Paris) @win(after,2h)",
        "--params",
        r#"{"b": 2}"#,
        "--disabled",
    ];
    let id = add(&words).ok().trim_end().to_owned();
    let listed = daemon.kron(&["schedule", "ls"]).ok();
    let line = listed.lines().nth(1).unwrap();
    assert!(
        line.starts_with(&format!("nightly  {}  report", &id[28..])) && line.ends_with("disabled"),
        "{listed}"
    );
    let shown = daemon.ask(&["schedule", "show", &id[28..]]);
    assert_eq!((&shown["enabled"], &shown["timezone"]), (&json!(false), &json!("Europe/Paris")));
    assert!(daemon.kron(&["schedule", "show", "nihtly"]).no(1).contains("did you mean `nightly`?"));
    let enabled = daemon.kron(&["schedule", "enable", "nightly"]).ok();
    assert!(enabled.contains("\n  next      2") && enabled.contains("+0"), "{enabled}");
    let words = ["schedule", "next", "nightly", "-n", "2", "--after", "2026-03-01T00:00:00Z"];
    let next = json_lines(&daemon.kron(&[&words[..], &["--format", "json"]].concat()).ok());
    assert_eq!(next[0]["nominal_time"], "2026-03-01T02:00:00Z");
    assert_eq!(next.len(), 2);
    let text = daemon.kron(&words).ok();
    assert!(
        text.starts_with("nightly: times in Europe/Paris\n\nnominal")
            && text.contains("2026-03-01 03:00:00+01:00"),
        "{text}"
    );
    assert!(
        daemon.kron(&["schedule", "outcomes", "nightly"]).ok().ends_with("nothing is recorded\n")
    );

    let told = daemon.kron(&["schedule", "edit", "nightly", "--cron", "0 25 * * *"]).no(2);
    assert!(told.contains(" --> --cron:1:3"), "{told}");
    let edited = daemon.ask(&[
        "schedule",
        "edit",
        "nightly",
        "--cron",
        "0 4 * * *",
        "--no-timezone",
        "--no-params",
        "--name",
        "early",
    ]);
    assert_eq!(
        (&edited["timezone"], &edited["param_overrides"], &edited["name"]),
        (&json!("UTC"), &json!(null), &json!("early"))
    );
    let disabled = daemon.kron(&["schedule", "disable", "early"]).ok();
    assert!(disabled.contains("it is disabled"), "{disabled}");
    assert_eq!(daemon.ask(&["schedule", "rm", "early"])["done"], "deleted");
    assert!(daemon.kron(&["schedule", "rm", "early"]).no(1).contains("no schedule `early`"));
}

#[test]
fn a_schedule_makes_jobs_and_tells_which() {
    let daemon = queue();
    daemon.kron(&["template", "add", "tick", "--type", "echo", "--param", "a=1"]).ok();
    daemon
        .kron(&[
            "schedule",
            "add",
            "often",
            "--template",
            "tick",
            "--cron",
            "* * * * * *",
            "--param",
            "b=2",
        ])
        .ok();
    let record = wait_for("an executed period", || {
        let told = daemon.kron(&["schedule", "outcomes", "often", "--format", "json"]).ok();
        json_lines(&told).into_iter().find(|record| record["outcome"] == "executed")
    });
    let job = record["job_id"].as_str().unwrap();
    let shown = show(&daemon, job);
    assert_eq!(shown["job"]["params"], json!({"a": 1, "b": 2}));
    assert_eq!(shown["job"]["period_id"], record["first_period"]);
    daemon.kron(&["schedule", "disable", "often"]).ok();
    let text = daemon.kron(&["schedule", "outcomes", "often", "-n", "1000"]).ok();
    assert!(text.lines().any(|line| line.ends_with(job) && line.contains("executed")), "{text}");
    assert!(!ls(&daemon, &["--type", "echo"]).is_empty());
}
