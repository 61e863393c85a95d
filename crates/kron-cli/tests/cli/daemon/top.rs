//! `kron top`, looked at and left.

use kron_testkit::krond::seldom;
use kron_testkit::needs::{Need, left_out};

use crate::daemon::krond::Daemon;
use crate::daemon::terminal::Terminal;

fn jobs() -> String {
    const JOBS: &str = r#"
[job.alpha]
schedule = "SELDOM"
command = ["/bin/true"]

[job.beta]
schedule = "SELDOM"
command = ["/bin/false"]

# A second that is late is run as well: what is seen is a row of runs.
[job.often]
schedule = "* * * * * * @policy(deadline=1h)"
command = ["/bin/true"]
"#;
    JOBS.replace("SELDOM", seldom())
}

/// What [`seldom`] means, in words.
fn seldom_in_words() -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month: usize = seldom().split(' ').nth(3).and_then(|it| it.parse().ok()).expect("a month");
    format!("yearly on {} 1 at 00:00", MONTHS[month - 1])
}

fn top(daemon: &Daemon, columns: u32, rows: u32) -> Terminal {
    let state_dir = daemon.state_dir();
    let state_dir = state_dir.to_str().expect("text");
    Terminal::start(&daemon.path(""), columns, rows, &["top", "--state-dir", state_dir])
}

/// The jobs in the order in which they are shown.
fn order(frame: &str) -> Vec<&str> {
    let names = ["alpha", "beta", "often"];
    let first = |line: &'_ str| names.into_iter().find(|name| line.starts_with(name));
    frame.lines().filter_map(first).collect()
}

#[test]
fn it_shows_sorts_fits_and_leaves() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let daemon = Daemon::start(&jobs());
    daemon.kron(&["run", "beta", "--wait"]);
    let mut top = top(&daemon, 150, 20);
    let frame = top.see("runs going by", |frame| frame.contains("✓✓✓"));
    assert_eq!(order(&frame)[0], "often", "what is due soonest comes first: {frame}");
    assert!(frame.contains(&seldom_in_words()), "{frame}");
    let beta = frame.lines().find(|line| line.starts_with("beta")).expect("its line");
    assert!(beta.contains("exited 1 in ") && beta.contains('✗'), "{frame}");

    top.press("a");
    top.see("names", |frame| order(frame) == ["alpha", "beta", "often"]);
    top.press("l");
    top.see("what was last", |frame| order(frame) == ["often", "beta", "alpha"]);

    top.resize(40, 12);
    // Columns and rows are set one after the other.
    let narrow = top
        .see("a narrow table", |frame| !frame.contains("schedule") && frame.lines().count() <= 12);
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    assert_eq!(order(&narrow).len(), 3);

    top.press("q");
    assert_eq!(top.end(), (0, String::new()));
}

#[test]
fn a_daemon_that_goes_away_is_waited_for() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let mut daemon = Daemon::start(&jobs());
    let top = top(&daemon, 120, 20);
    top.see("the jobs", |frame| order(frame).len() == 3);
    daemon.crash();
    let frame = top.see("that nobody answers", |frame| frame.contains("no answer since "));
    assert_eq!(order(&frame).len(), 3, "what was last known stays: {frame}");
    daemon.up();
    top.see("the daemon again", |frame| !frame.contains("no answer"));
    // A signal ends it as a key does.
    top.signal("TERM");
    assert_eq!(top.end().0, 0);
}

#[test]
fn it_waits_for_a_daemon_and_needs_a_terminal() {
    if left_out("a terminal", &[Need::Terminal]) {
        return;
    }
    let mut daemon = Daemon::prepare(&jobs());
    let mut top = top(&daemon, 120, 20);
    top.see("that it waits", |frame| frame.contains("waiting for a daemon at "));
    let refused = daemon.kron(&["top"]).no(2);
    assert!(refused.contains("no terminal") && refused.contains("`kron status`"), "{refused}");
    daemon.up();
    top.see("the jobs", |frame| order(frame).len() == 3);
    top.press("\x03");
    assert_eq!(top.end().0, 0);
}
