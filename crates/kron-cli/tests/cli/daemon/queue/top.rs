//! `kron queue top`, looked at and left.

use kron_testkit::needs::{Need, left_out};

use super::{add, go, queue, wait_state};
use crate::daemon::krond::Daemon;
use crate::daemon::terminal::Terminal;

fn top(daemon: &Daemon, columns: u32, rows: u32) -> Terminal {
    let state_dir = daemon.state_dir();
    let words = ["queue", "top", "--state-dir", state_dir.to_str().expect("text")];
    Terminal::start(&daemon.path(""), columns, rows, &words)
}

/// The line of a job.
fn line<'a>(frame: &'a str, job: &str) -> Option<&'a str> {
    frame.lines().find(|line| line.starts_with(&job[28..]))
}

#[test]
fn it_shows_what_runs_and_waits_and_pauses() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let daemon = queue();
    let running = add(&daemon, &["slow"]);
    wait_state(&daemon, &running, "running");
    let last = add(&daemon, &["echo", "--param", "n=1"]);
    let first = add(&daemon, &["echo", "--priority", "9"]);
    let mut top = top(&daemon, 120, 20);
    let frame = top.see("the jobs", |frame| line(frame, &last).is_some());
    assert!(
        frame.starts_with("2 queued, 1 running on 1 worker; in the last day 0 completed"),
        "{frame}"
    );
    let order: Vec<Option<usize>> =
        [&running, &first, &last].map(|job| frame.find(&job[28..])).to_vec();
    assert!(order.is_sorted() && order[0].is_some(), "what runs, then what is next: {frame}");
    assert!(line(&frame, &last).unwrap().ends_with("1 worker busy  {\"n\":1}"), "{frame}");
    top.see("progress", |frame| {
        line(frame, &running).is_some_and(|line| line.contains("40%, half way"))
    });
    assert!(frame.contains("p pause and resume   q quit"), "{frame}");

    top.press("p");
    top.see("a pause", |frame| frame.contains("the queue is paused since "));
    go(&daemon);
    top.see("the end of what ran", |frame| frame.contains("0 running"));
    assert_eq!(daemon.ask(&["queue", "stats"])["counts"]["queued"], 2, "nothing more starts");
    top.press("p");
    let frame = top.see("the rest done", |frame| frame.contains("nothing runs, and nothing waits"));
    assert!(frame.contains("3 completed") && !frame.contains("paused"), "{frame}");
    top.press("q");
    assert_eq!(top.end(), (0, String::new()));
}

#[test]
fn it_fits_scrolls_and_needs_a_terminal() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let daemon = queue();
    daemon.kron(&["queue", "pause", "--reason", "x"]).ok();
    let jobs: Vec<String> =
        (0..12).map(|_| add(&daemon, &["echo", "--param", "text=long enough to be cut"])).collect();
    let mut top = top(&daemon, 40, 12);
    let frame = top.see("some jobs", |frame| frame.contains("of 12 jobs"));
    assert!(frame.lines().all(|line| line.chars().count() <= 40), "{frame}");
    assert!(line(&frame, &jobs[0]).is_some() && line(&frame, &jobs[11]).is_none(), "{frame}");
    top.press("jjjjjjjjjjjj");
    top.see("the last", |frame| line(frame, &jobs[11]).is_some());
    top.press("q");
    assert_eq!(top.end().0, 0);
    let refused = daemon.kron(&["queue", "top"]).no(2);
    assert!(refused.contains("no terminal") && refused.contains("`kron queue stats`"), "{refused}");
}

#[test]
fn a_daemon_without_a_queue_is_told() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let daemon = Daemon::start("");
    let mut top = top(&daemon, 100, 20);
    top.see("why there is nothing", |frame| frame.contains("this daemon has no queue"));
    top.press("q");
    assert_eq!(top.end().0, 0);
}
