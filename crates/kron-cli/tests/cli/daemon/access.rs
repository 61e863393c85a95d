//! Who may do what, seen from other users' processes. Only root can start those.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kron_testkit::krond::seldom;
use kron_testkit::needs::{Need, left_out};

use crate::daemon::krond::{Daemon, Run};

/// Nobody's number, on every system this runs on.
const STRANGER: u32 = 65_534;

/// A daemon with its socket where anybody can get to it.
fn open_daemon() -> Daemon {
    let jobs = format!(
        "[daemon]\nsocket_group = \"daemon\"\n\
         [job.a]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n",
        seldom()
    );
    let mut daemon = Daemon::prepare(&jobs).with_socket("open/krond.sock");
    // The directory of the socket itself is made by the daemon.
    set_mode(&daemon.path(""), 0o755);
    daemon.up();
    daemon
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
}

/// `kron` where anybody may run it, without what only a debugger reads: that is most of it.
fn copy_of_kron(daemon: &Daemon) -> PathBuf {
    let path = daemon.path("kron");
    let mut strip = Command::new("strip");
    let status = strip.arg("-o").arg(&path).arg(env!("CARGO_BIN_EXE_kron")).status();
    assert!(status.expect("strip runs").success());
    set_mode(&path, 0o755);
    path
}

/// Runs `kron` as another user, in another group.
fn as_other(daemon: &Daemon, group: &str, words: &[&str]) -> Run {
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={STRANGER}")).arg(format!("--regid={group}"));
    command.arg("--clear-groups").arg(daemon.path("kron")).args(words);
    command.arg("--socket").arg(daemon.socket()).output().expect("setpriv runs").into()
}

#[test]
fn strangers_are_refused_twice() {
    if left_out("commands of another user", &[Need::Root]) {
        return;
    }
    let daemon = open_daemon();
    copy_of_kron(&daemon);
    // By the socket's mode…
    let said = as_other(&daemon, "65534", &["status"]).no(6);
    assert!(said.contains("may not be used"), "{said}");
    // …and where that is lax, by the daemon.
    set_mode(&daemon.socket(), 0o666);
    for words in [&["status"][..], &["why", "a"], &["run", "a"], &["stop"], &["reload"]] {
        let said = as_other(&daemon, "65534", words).no(6);
        assert!(said.contains("only root, the daemon's own user and the socket's group"), "{said}");
    }
    assert_eq!(daemon.ask(&["history", "a"])["kept_count"], 0, "nothing was started");
}

#[test]
fn the_group_reads_and_changes_nothing() {
    if left_out("commands of another user", &[Need::Root]) {
        return;
    }
    let daemon = open_daemon();
    copy_of_kron(&daemon);
    let group = |words: &[&str]| as_other(&daemon, "daemon", words);
    for words in [&["status"][..], &["status", "a"], &["history", "a"], &["why", "a"]] {
        group(words).ok();
    }
    for words in [
        &["run", "a"][..],
        &["suspend", "a"],
        &["resume", "a"],
        &["reload"],
        &["stop", "--kill"],
        &["clock", "accept"],
    ] {
        let said = group(words).no(6);
        assert!(said.contains("only root and the daemon's own user may change"), "{said}");
    }
    assert_eq!(daemon.ask(&["status"])["daemon"]["generation"], 1);
    assert_eq!(daemon.ask(&["status", "a"])["suspended_by"], serde_json::Value::Null);
    assert_eq!(daemon.ask(&["history", "a"])["kept_count"], 0);
}

/// Who may ask the daemon is told what it knows of a spool, although its directories are closed.
#[test]
fn the_group_sees_what_the_daemon_says_of_a_spool() {
    if left_out("commands of another user", &[Need::Root]) {
        return;
    }
    let mut daemon = Daemon::prepare("").with_socket("open/krond.sock");
    let dir = daemon.path("mail");
    daemon.define(&format!(
        "[daemon]\nsocket_group = \"daemon\"\n[spool.mail]\ndir = \"{}\"\n\
         [spool.mail.handler.T]\ncommand = [\"/bin/true\"]\n",
        dir.display()
    ));
    set_mode(&daemon.path(""), 0o755);
    daemon.up();
    copy_of_kron(&daemon);
    daemon.kron(&["spool", "put", "--type", "T", "--not-before", "1h"]).ok();
    let stats = crate::daemon::krond::wait_for("the daemon to see its task", || {
        let run = as_other(&daemon, "daemon", &["spool", "stats"]);
        run.out.starts_with("1 pending, ").then_some(run)
    });
    assert_eq!(stats.code, Some(0), "{stats:?}");
    assert!(stats.err.contains("this is what the daemon says"), "{stats:?}");
    let said = as_other(&daemon, "daemon", &["spool", "ls"]).no(6);
    assert!(said.contains("a spool is for root and its daemon's user alone"), "{said}");
}
