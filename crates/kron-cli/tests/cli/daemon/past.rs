//! What `kron why` tells of a past that really was: downtime, crashes, suspension, edits, misses.

use kron_core::UtcSecond;
use kron_testkit::krond::{LEADS_S, due_in};
use kron_testkit::waiting::wall_seconds;
use serde_json::Value;

use crate::daemon::krond::{Daemon, wait_for};

/// A job that is due every second, and late after that.
const TICK: &str = "[job.tick]\nschedule = \"* * * * * *\"\ncommand = [\"/bin/true\"]\n";

fn time(value: &Value) -> UtcSecond {
    UtcSecond::parse(value.as_str().expect("a time")).expect("a time")
}

/// The clock of this machine, which is the daemon's, too.
fn wall() -> UtcSecond {
    UtcSecond::from_unix(wall_seconds() as i64).expect("a time")
}

/// The daemon's clock.
fn now(daemon: &Daemon) -> UtcSecond {
    time(&daemon.ask(&["status"])["daemon"]["time"])
}

fn is_executed(entry: &Value) -> bool {
    entry["outcome"] == "executed" && entry["exit_code"] == 0
}

fn sentences(why: &Value) -> Vec<&str> {
    let sentences = why["sentences"].as_array().expect("a list").iter();
    sentences.map(|sentence| sentence.as_str().expect("a text")).collect()
}

#[test]
fn downtime_after_a_stop_is_named() {
    check_downtime(|daemon| drop(daemon.stop(&["--now"])), "stopped (`leave`)");
}

#[test]
fn downtime_after_a_crash_is_named() {
    check_downtime(Daemon::crash, "without saying so");
}

fn check_downtime(end: impl Fn(&mut Daemon), reason: &str) {
    // The history keeps what is asked for, however long the test takes.
    let mut daemon = Daemon::start(&format!("[daemon]\nhistory = 1000\n{TICK}"));
    let before = daemon.entry("tick", is_executed);
    end(&mut daemon);
    let gone = wall();
    let until = gone.saturating_add(4);
    wait_for("periods to pass without a daemon", || (wall() >= until).then_some(()));
    let returns = wall();
    daemon.up();
    let up = wall();
    // A busy machine may have made others late before and after: the one that is meant has all
    // periods in which there was no daemon.
    let missed = daemon.entry("tick", |entry| {
        entry["reason"] == "superseded"
            && time(&entry["period_id"]) <= gone.saturating_add(1)
            && time(&entry["last_period_id"]) >= gone.saturating_add(2)
    });
    let (first, last) = (time(&missed["period_id"]), time(&missed["last_period_id"]));
    assert!(missed["count"].as_u64() >= Some(2), "{missed}");
    assert!(time(&before["period_id"]) < first);
    // The first, one between, and the last tell the same story.
    for period in [first, first.saturating_add(1), last] {
        let why = daemon.ask(&["why", "tick", "--at", &period.to_string()]);
        assert_eq!((&why["answer"], &why["reason"]), (&"missed".into(), &"superseded".into()));
        assert_eq!(why["period_id"], period.to_string());
        assert_eq!(time(&why["superseded_by"]), last.saturating_add(1));
        let down = &why["down"][0];
        // It went after its last run and before its process was gone. Its start is recorded after
        // it was called, and before it answered.
        assert!(time(&down["from"]) <= gone, "{why}");
        assert!(time(&down["from"]) >= time(&before["started_at"]), "{why}");
        assert!((returns..=up).contains(&time(&down["to"])), "{why}");
        let said = sentences(&why).join(" ");
        assert!(said.contains("krond was down from "), "{said}");
        assert!(said.contains(reason), "{said}");
        assert!(said.contains(&format!("from {first} to {last}")), "{said}");
    }
    let text = daemon.kron(&["why", "tick", "--at", &first.to_string()]).ok();
    assert!(text.contains("answer     missed: superseded"), "{text}");
    assert!(text.contains("krond was down from "), "{text}");
}

#[test]
fn a_suspension_is_named() {
    let daemon = Daemon::start(TICK);
    daemon.entry("tick", is_executed);
    daemon.kron(&["suspend", "tick"]).ok();
    let since = now(&daemon);
    let period = since.saturating_add(1);
    wait_for("a period to pass", || (now(&daemon) > period).then_some(()));
    let why = daemon.ask(&["why", "tick", "--at", &period.to_string()]);
    assert_eq!((&why["answer"], &why["reason"]), (&"none".into(), &"suspended".into()));
    daemon.kron(&["resume", "tick"]).ok();
    daemon.entry("tick", |entry| is_executed(entry) && time(&entry["period_id"]) > period);
    let why = daemon.ask(&["why", "tick", "--at", &period.to_string()]);
    assert_eq!(
        (&why["answer"], &why["reason"]),
        (&"none".into(), &"fell due while suspended".into())
    );
    let said = sentences(&why).join(" ");
    assert!(said.contains("The job was suspended by hand from "), "{said}");
    assert!(time(&why["suspended"][0]["from"]) <= since, "{why}");
}

#[test]
fn what_was_on_time_what_comes_and_what_nobody_knows_any_more() {
    let daemon = Daemon::start(&format!("[daemon]\nhistory = 2\n{TICK}"));
    // The history is so short that the entry may be gone before it is asked about.
    let (entry, why) = wait_for("a period that ran and is not forgotten", || {
        let entry = daemon.entry("tick", is_executed);
        let why = daemon.ask(&["why", "tick", "--at", entry["period_id"].as_str().unwrap()]);
        (why["answer"] == "executed").then_some((entry, why))
    });
    let period = entry["period_id"].as_str().unwrap();
    assert_eq!(why["outcome"]["run_id"], entry["run_id"]);
    assert_eq!(why["decision"]["period_id"], period);
    let late = time(&entry["started_at"]).since(time(&entry["chosen_time"]));
    assert_eq!(why["late_seconds"], late);

    let future = "9000-01-01T00:00:00Z";
    let why = daemon.ask(&["why", "tick", "--at", future]);
    assert_eq!(why["answer"], "waiting");
    assert!(sentences(&why)[1].starts_with("It is not yet due: that is in "), "{why}");

    let why = wait_for("the history to forget", || {
        let why = daemon.ask(&["why", "tick", "--at", period]);
        (why["answer"] == "unknown").then_some(why)
    });
    let said = sentences(&why).join(" ");
    assert!(said.contains("the history keeps 2 entries") && said.contains("no longer"), "{said}");
}

#[test]
fn an_edit_is_named() {
    let daemon = Daemon::start(TICK);
    let old = daemon.entry("tick", is_executed);
    let odd = "[job.tick]\nschedule = \"1-59/2 * * * * *\"\ncommand = [\"/bin/true\"]\n";
    let even = odd.replace("1-59/2", "0-58/2");
    // Whichever half of the seconds the old period is not in.
    let is_even = time(&old["period_id"]).unix() % 2 == 0;
    daemon.define(if is_even { odd } else { &even });
    daemon.kron(&["reload"]).ok();
    let changed = daemon.ask(&["status", "tick"])["effective_from"].clone();
    let why = daemon.ask(&["why", "tick", "--at", old["period_id"].as_str().unwrap()]);
    assert_eq!(why["answer"], "executed");
    assert_eq!(why["decision"], Value::Null);
    assert_eq!(why["definition_changed_at"], changed);
    let said = sentences(&why).join(" ");
    assert!(said.contains("It was decided by an earlier definition"), "{said}");
}

#[test]
fn a_start_that_fails_is_told_while_it_fails_and_after() {
    let daemon = Daemon::start("[daemon]\nhistory = 100\n");
    let define = |schedule: &str, deadline: &str| {
        daemon.define(&format!(
            "[job.broken]\nschedule = \"{schedule} @policy(deadline={deadline})\"\n\
             command = [\"/no/such/program\"]\n"
        ));
        daemon.kron(&["reload"]).ok();
    };
    // A period is the job's own if the daemon knew of the job before.
    let mut periods = LEADS_S.into_iter().map(due_in);
    let schedule = periods.find_map(|(schedule, nominal)| {
        define(&schedule, "1h");
        let job = daemon.ask(&["status", "broken"]);
        let since = [&job["created_at"], &job["effective_from"]];
        let is_own = since.iter().filter_map(|at| at.as_str()).all(|at| at < &*nominal);
        is_own.then_some(schedule)
    });
    let schedule = schedule.expect("a period that the job was known before");
    let why = wait_for("a failing start", || {
        let why = daemon.ask(&["why", "broken"]);
        (why["answer"] == "failing").then_some(why)
    });
    let said = sentences(&why).join(" ");
    assert!(said.contains("/no/such/program") && said.contains("is tried again"), "{said}");
    wait_for("a failing start in the table", || {
        daemon.kron(&["status"]).ok().contains("not started, tried ").then_some(())
    });
    // The next try is past another deadline.
    define(&schedule, "0s");
    let entry = daemon.entry("broken", |entry| entry["outcome"] == "missed");
    let why = daemon.ask(&["why", "broken", "--at", entry["period_id"].as_str().unwrap()]);
    assert_eq!(why["answer"], "missed");
    assert!(sentences(&why)[1].contains("past its deadline"), "{why}");
}
