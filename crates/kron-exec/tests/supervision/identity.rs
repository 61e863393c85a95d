//! Processes are never confused with others of the same number.

use std::io::Write;
use std::process::{Child, Command};

use kron_exec::{Held, ProcessId, Signal, boot_id};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::place::{PATIENCE, wait_readable, wait_until};
use crate::runner::{CASE_FLAG, Case, NOTHING, ROOT};

pub(crate) const CASES: &[Case] = &[
    ("identity::a_held_process_is_signalled_and_seen_to_end", NOTHING, held),
    (RECYCLED, ROOT, recycled),
    (RECYCLED_WHILE_HELD, ROOT, recycled_while_held),
    ("identity::an_orphan_is_signalled_with_its_group", NOTHING, orphan),
];

const RECYCLED: &str = "identity::a_recycled_number_is_not_held";
const RECYCLED_WHILE_HELD: &str = "identity::an_ended_process_is_not_signalled_through_its_number";
/// Says that this process has numbers of processes of its own.
const OWN_NUMBERS: &str = "KRON_TEST_OWN_NUMBERS";

fn sleeper() -> (Child, ProcessId) {
    let child = Command::new("sleep").arg("1000").spawn().expect("a sleep");
    let pid = child.id() as i32;
    (child, ProcessId { pid, start_ticks: start_ticks(pid) })
}

/// Read by other means than the crate's.
fn start_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a status");
    let fields = stat.rsplit_once(')').expect("a name").1;
    fields.split_ascii_whitespace().nth(19).expect("a field").parse().expect("a number")
}

fn open(process: ProcessId) -> Option<Held> {
    Held::open(&boot_id().expect("a boot id"), process).expect("an answer")
}

fn held() {
    let (mut child, process) = sleeper();
    let held = open(process).expect("it is there");
    assert!(!held.has_ended().expect("an answer"));
    assert!(held.signal(Signal::Terminate).expect("signalled"));
    assert!(wait_readable(std::os::fd::AsFd::as_fd(&held), PATIENCE));
    assert!(held.has_ended().expect("an answer"));
    // It has ended but nobody has reaped it: it is still itself.
    assert!(open(process).is_some());
    child.wait().expect("reaped");
    assert!(open(process).is_none());
    assert!(!held.signal(Signal::Kill).expect("an answer"));
}

/// Starts processes until one has this number; a number is free again once its owner is reaped.
fn recycle(pid: i32, ticks: u64) -> Child {
    // The kernel counts start times in hundredths of a second; the next owner must differ.
    wait_until("the clock ticks", || {
        let mut probe = Command::new("true").spawn().expect("a process");
        let now = start_ticks(probe.id() as i32);
        probe.wait().expect("reaped");
        now > ticks
    });
    let mut stranger = None;
    wait_until("the number is given out again", || {
        let mut last = std::fs::File::create("/proc/sys/kernel/ns_last_pid").expect("root");
        last.write_all((pid - 1).to_string().as_bytes()).expect("set");
        let mut child = Command::new("sleep").arg("1000").spawn().expect("a sleep");
        if child.id() as i32 == pid {
            stranger = Some(child);
            return true;
        }
        child.kill().expect("killed");
        child.wait().expect("reaped");
        false
    });
    stranger.expect("a stranger")
}

/// Whether this process shares the numbers of processes with others, which a number that is given
/// out again could confuse. If so, the case has run in a namespace of its own, and passed.
fn is_among_others(case: &str) -> bool {
    if std::env::var_os(OWN_NUMBERS).is_some() {
        return false;
    }
    let status = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().expect("this program"))
        .args([CASE_FLAG, case])
        .env(OWN_NUMBERS, "yes")
        .status()
        .expect("`unshare` of util-linux");
    assert!(status.success(), "{status}");
    true
}

fn recycled() {
    if is_among_others(RECYCLED) {
        return;
    }
    let (mut child, process) = sleeper();
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let mut stranger = recycle(process.pid, process.start_ticks);
    assert!(open(process).is_none(), "a stranger was taken for the recorded process");
    stranger.kill().expect("killed");
    stranger.wait().expect("reaped");
}

fn recycled_while_held() {
    if is_among_others(RECYCLED_WHILE_HELD) {
        return;
    }
    let (mut child, process) = sleeper();
    let held = open(process).expect("it is there");
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let mut stranger = recycle(process.pid, process.start_ticks);
    assert!(!held.signal(Signal::Terminate).expect("an answer"));
    assert!(!held.signal(Signal::Kill).expect("an answer"));
    assert!(!held.signal_orphan(Signal::Terminate).expect("an answer"));
    assert!(!held.signal_orphan(Signal::Kill).expect("an answer"));
    assert!(stranger.try_wait().expect("an answer").is_none(), "a stranger was signalled");
    stranger.kill().expect("killed");
    stranger.wait().expect("reaped");
}

fn orphan() {
    use std::os::unix::process::CommandExt;
    let directory = tempfile::tempdir().expect("a directory");
    let ready = directory.path().join("ready");
    let script =
        format!("sleep 1000 & sleep 1000 & echo > {}; kill -STOP $$; wait", ready.display());
    let mut child =
        Command::new("sh").args(["-c", &script]).process_group(0).spawn().expect("a shell");
    let pid = child.id() as i32;
    crate::place::wait_for_text(&ready);
    wait_until("it is stopped", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a status").contains(") T ")
    });
    let held = open(ProcessId { pid, start_ticks: start_ticks(pid) }).expect("it is there");
    assert!(held.signal_orphan(Signal::Terminate).expect("signalled"));
    child.wait().expect("reaped");
    // Its children were in its group and are adopted by this process. Older kernels cannot signal
    // them safely, so they are left alone there.
    if !knows_groups() {
        crate::gate::kill(-pid, "TERM");
    }
    for _ in 0..2 {
        waitid(WaitId::All, WaitIdOptions::EXITED).expect("a member of the group");
    }
    assert!(!held.signal_orphan(Signal::Kill).expect("an answer"));
}

/// Whether this kernel, Linux 6.9 or later, signals a held process's group.
fn knows_groups() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|text| text.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(9))
}
