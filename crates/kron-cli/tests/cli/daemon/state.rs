//! `kron state` on the files that a real daemon wrote.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use kron_core::{Outcome, UtcSecond};
use kron_state::{Change, EpochEvent, RealDirectory, Store, document_file};
use kron_testkit::krond::seldom;
use serde_json::json;

use crate::daemon::krond::{Daemon, bytes};

pub(crate) fn jobs() -> String {
    let seldom = seldom();
    format!(
        "[job.a]\nschedule = \"{seldom}\"\ncommand = [\"/bin/true\"]\n\
         [job.b]\nschedule = \"{seldom}\"\ncommand = [\"/bin/true\"]\n"
    )
}

pub(crate) fn at(text: &str) -> UtcSecond {
    UtcSecond::parse(text).expect(text)
}

/// A daemon that has run both jobs and is stopped.
pub(crate) fn stopped() -> Daemon {
    let mut daemon = Daemon::start(&jobs());
    for job in ["a", "b"] {
        daemon.kron(&["run", job, "--wait"]).ok();
    }
    daemon.stop(&[]);
    daemon
}

fn document(daemon: &Daemon, job: &str) -> PathBuf {
    daemon.state_dir().join(document_file(job))
}

pub(crate) fn store(daemon: &Daemon) -> Store<RealDirectory> {
    let directory = RealDirectory::open(&daemon.state_dir()).expect("the directory");
    Store::open(directory, 100).expect("the store")
}

/// Records outcomes of periods, as a daemon with a wrong clock would.
fn handle(daemon: &Daemon, job: &str, periods: &[&str]) {
    for period in periods {
        let change = Change::Handle {
            nominal: at(period),
            chosen: Some(at(period)),
            outcome: Outcome::Missed,
            reason: "superseded".to_owned(),
            stretch: None,
            at: at(period),
        };
        store(daemon).commit(job, &[change]).expect("it is recorded");
    }
}

#[test]
fn looking_disturbs_nobody_and_mending_waits_for_the_daemon_to_go() {
    let mut daemon = Daemon::start(&jobs());
    daemon.kron(&["run", "a", "--wait"]).ok();
    let listed = daemon.kron(&["state", "ls"]).ok();
    assert_eq!(
        listed,
        "job  handled  outcome  active  history\na    -        -        0       1\n"
    );
    assert_eq!(daemon.ask(&["state", "ls"])["identity"], "a");
    let shown = daemon.ask(&["state", "show", "a"]);
    assert_eq!((&shown["Identity"], &shown["Version"]), (&json!("a"), &json!("1")));
    assert!(daemon.kron(&["state", "show", "b"]).no(1).contains("no job `b`"));
    assert_eq!(daemon.kron(&["state", "check"]).ok(), "1 document, nothing to mend\n");
    let said = daemon.kron(&["state", "reset", "a"]).no(4);
    assert!(said.starts_with("error: a daemon runs on this state directory, process "), "{said}");
    daemon.stop(&[]);
    assert_eq!(daemon.kron(&["state", "ls"]).ok(), listed);
    assert_eq!(daemon.kron(&["state", "reset", "a"]).code, Some(1), "nothing to reset");
}

#[test]
fn marks_in_the_future_are_found_mended_and_remembered() {
    let mut daemon = stopped();
    handle(&daemon, "a", &["2026-01-01T00:00:00Z", "9000-01-01T00:00:00Z"]);
    handle(&daemon, "b", &["2026-01-01T00:00:00Z"]);
    let checked = daemon.kron(&["state", "check"]);
    assert_eq!(checked.code, Some(1));
    assert!(checked.out.contains("mend: `a` counts everything up to 9000-01-01"), "{checked:?}");
    assert!(!checked.out.contains("`b`"), "{checked:?}");

    daemon.up();
    let why = daemon.kron(&["why", "a", "--at", "8000-01-01T00:00:00Z"]).ok();
    assert!(why.contains("kron state reset"), "{why}");
    daemon.stop(&[]);

    let reset = daemon.kron(&["state", "reset", "--all-future"]).ok();
    assert_eq!(reset, "a: the mark went from 9000-01-01T00:00:00Z to 2026-01-01T00:00:00Z\n");
    assert_eq!(daemon.kron(&["state", "check"]).ok(), "2 documents, nothing to mend\n");
    let again = daemon.kron(&["state", "reset", "--all-future"]).ok();
    assert_eq!(again, "nothing lies in the future\n");
    let life = store(&daemon).epochs().unwrap();
    let recorded = EpochEvent::Reset {
        identity: "a".to_owned(),
        from: Some(at("9000-01-01T00:00:00Z")),
        to: Some(at("2026-01-01T00:00:00Z")),
    };
    assert_eq!(life.epochs.iter().filter(|epoch| epoch.event == recorded).count(), 1);

    // By name, and to a period of one's own.
    handle(&daemon, "b", &["9000-01-01T00:00:00Z"]);
    let to = ["state", "reset", "b", "--to", "2026-02-01T00:00:00Z"];
    assert_eq!(daemon.ask(&to)["to"], "2026-02-01T00:00:00Z");
    let future = ["state", "reset", "b", "--to", "9000-02-01T00:00:00Z"];
    assert!(daemon.kron(&future).no(2).contains("lies in the future"));
    daemon.up();
    assert_eq!(daemon.ask(&["status", "b"])["last_handled_period_id"], "2026-02-01T00:00:00Z");
}

#[test]
fn damage_is_found_and_nothing_is_touched() {
    let daemon = stopped();
    let (a, b) = (document(&daemon, "a"), document(&daemon, "b"));
    let whole = bytes(&a);
    std::fs::write(&a, &whole[..whole.len() / 2]).unwrap();
    let before = std::fs::read_dir(daemon.state_dir()).unwrap().count();
    let checked = daemon.kron(&["state", "check"]);
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.out.starts_with("lost: "), "{checked:?}");
    let listed = daemon.kron(&["state", "ls"]);
    assert_eq!(listed.code, Some(3));
    assert!(listed.out.contains("\nb "), "the rest is listed: {listed:?}");
    assert_eq!(daemon.kron(&["state", "show", "a"]).code, Some(3));
    std::fs::write(&a, &whole).unwrap();

    std::fs::write(daemon.state_dir().join("known.json"), "{").unwrap();
    let checked = daemon.kron(&["state", "check"]);
    assert_eq!(checked.code, Some(3));
    assert!(checked.out.contains("every job counts as new"), "{checked:?}");

    std::fs::set_permissions(&b, std::fs::Permissions::from_mode(0o644)).unwrap();
    let checked = daemon.kron(&["state", "check"]);
    assert_eq!(checked.code, Some(3));
    assert!(checked.out.starts_with("refused: "), "{checked:?}");
    assert!(checked.out.contains("chmod 0600"), "{checked:?}");
    let after = std::fs::read_dir(daemon.state_dir()).unwrap().count();
    assert_eq!(before, after, "nothing was set aside or made");
}
