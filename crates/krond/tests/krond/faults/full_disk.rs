//! A disk on which there is really no room left.
//!
//! The state directory, or only the logs in it, is a small file system of its own.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kron_testkit::krond::{Krond, World, seldom, wait_for_permit};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::process;
use kron_testkit::tmpfs_mount::{NEEDS, PAGE, TmpfsMount};
use kron_testkit::waiting::{eventually, wait_until_blocked};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::faults::scene::{
    assert_ran_once, assert_tells, before_due, before_due_in, careful, document_name, judge,
    line_of, settle, thread_named, unfinished, wait_for_end, wait_for_witness, witnesses,
    witnesses_of,
};
use crate::faults::strace::Tracing;
use crate::new_world;

/// Runs of which a daemon has more to say than a pipe of one page holds.
const RUNS_MAX: usize = 24;
/// Runs when nothing more can be said.
const RUNS_UNHEARD: usize = 8;

/// The number of the call in which a log waits for room.
#[cfg(target_arch = "x86_64")]
const WRITE: &str = "1";
#[cfg(target_arch = "aarch64")]
const WRITE: &str = "64";

/// A world whose state is on a small file system.
struct SmallWorld {
    // Before the world, whose directory it is in, it is dropped.
    mount: TmpfsMount,
    world: World,
}

impl SmallWorld {
    fn new() -> SmallWorld {
        let world = new_world("");
        let mount = TmpfsMount::at(world.state_dir(), 1 << 10);
        SmallWorld { world, mount }
    }
}

impl Borrow<World> for SmallWorld {
    fn borrow(&self) -> &World {
        &self.world
    }
}

/// The daemon says why it leaves, and leaves with 5.
fn assert_leaves(krond: &mut Krond) {
    let fatal = krond.wait_for("fatal");
    assert_tells(&fatal, "PersistenceError");
    assert!(fatal["message"].as_str().unwrap().contains("No space left"), "{fatal}");
    assert_eq!(krond.wait().code(), Some(5));
}

#[test]
fn nothing_starts_that_there_is_no_room_to_record() {
    if left_out("a full disk", NEEDS) {
        return;
    }
    let fill = |place: &SmallWorld, _: &Krond| place.mount.fill_but(0);
    let (place, mut first, (), nominal) = before_due_in(SmallWorld::new, "true", "", fill);
    let SmallWorld { world, mount } = place;
    assert_leaves(&mut first);
    // Nor is anything when a daemon starts on a disk that is full.
    let mut second = Krond::spawn(&mut world.command());
    assert_leaves(&mut second);
    mount.make_room();
    // What was released has run by the end of its supervisor, which leaves once there is room for it.
    for krond in [&mut first, &mut second] {
        krond.wait_for_supervisors();
    }
    assert!(witnesses(&world).is_empty(), "it ran without a record");
    let krond = world.start();
    wait_for_end(&world);
    krond.stop();
    assert_ran_once(&world, &nominal);
}

#[test]
fn an_end_that_there_is_no_room_for_is_kept_until_there_is() {
    if left_out("a full disk", NEEDS) {
        return;
    }
    let SmallWorld { world, mount } = SmallWorld::new();
    let mut krond = world.start();
    let wait = wait_for_permit("permit");
    let nominal = world.due_soon("careful", |schedule| careful(schedule, &wait, ""));
    eventually("the start is recorded", || world.history("careful").pop());
    settle(&world, &krond);
    mount.fill_but(0);
    world.permit("permit");
    assert_leaves(&mut krond);
    assert!(world.run_records().is_empty(), "there is no room for that either");
    mount.make_room();
    eventually("the supervisor has kept it", || world.run_records().pop());
    let krond = world.start();
    wait_for_end(&world);
    krond.stop();
    assert_ran_once(&world, &nominal);
}

/// A document longer than the room that is left: the disk takes a part of it and then no more.
#[test]
fn a_record_that_fits_in_part_takes_the_place_of_nothing() {
    if left_out("short writes", &[Need::Root, Need::Mount, Need::Strace]) {
        return;
    }
    const ROOM_PAGES: usize = 2;
    let earlier = long_document();
    let new = || {
        let place = SmallWorld::new();
        place.world.write_document("careful", &earlier.to_string());
        place
    };
    let prepare = |place: &SmallWorld, krond: &Krond| {
        let name = unfinished(&document_name("careful"));
        let tracing = Tracing::new(&place.world.state_dir(), &[&name], None);
        let attached = tracing.attach(&[thread_named(krond, "sync-1")]);
        place.mount.fill_but(ROOM_PAGES);
        (tracing, attached)
    };
    let (place, mut krond, (tracing, attached), nominal) = before_due_in(new, "true", "", prepare);
    let SmallWorld { world, mount } = place;
    assert_leaves(&mut krond);
    attached.ended();
    let calls = tracing.calls();
    let writes: Vec<_> = calls.iter().filter(|call| call.name == "write").collect();
    let (short, none) = (writes[0], writes[1]);
    assert_eq!(short.result, (ROOM_PAGES * PAGE).to_string(), "a part of it was taken");
    assert!(none.result.contains("ENOSPC"), "{none:?}");
    assert_eq!(world.document("careful"), earlier, "the old document is in its place");
    assert!(witnesses(&world).is_empty(), "it ran without a record");
    mount.make_room();
    let krond = world.start();
    wait_for_witness(&world, &nominal);
    wait_for_end(&world);
    krond.stop();
    assert_eq!(world.history("careful").len(), earlier["History"].as_array().unwrap().len() + 1);
}

/// A document with so much history that it takes several pages.
fn long_document() -> serde_json::Value {
    let history: Vec<_> = (10..60)
        .map(|second| {
            let period = format!("2026-01-01T00:00:{second}Z");
            serde_json::json!({
                "PeriodID": period, "Outcome": "missed", "NominalTime": period,
                "ChosenTime": period, "CompletedAt": period, "ExitCode": null,
                "Reason": "deadline exceeded",
            })
        })
        .collect();
    let last = "2026-01-01T00:00:59Z";
    serde_json::json!({
        "Version": "1", "Identity": "careful", "LastHandledPeriodID": last,
        "LastOutcome": "missed", "LastChosenTime": last, "LastNominalTime": last,
        "ActiveExecution": null, "History": history,
    })
}

/// A limit on the size of files is a disk that is full at that size.
#[test]
fn a_record_that_no_file_may_hold_is_a_failure_like_any_other() {
    if left_out("limits on file sizes", &[Need::Root]) {
        return;
    }
    let (world, mut krond, (), nominal) = before_due("true", "", |world, krond| {
        // Longer than what a supervisor is told, which is a file as well.
        world.write_document("careful", &long_document().to_string());
        let status = Command::new("prlimit")
            .args(["--pid", &krond.pid().to_string(), "--fsize=8000:"])
            .status()
            .expect("prlimit; install the Debian package `util-linux`");
        assert!(status.success());
    });
    let status = krond.wait();
    assert!(witnesses(&world).is_empty(), "it ran without a record");
    assert_eq!(status.code(), Some(5), "{status}: {}", krond.said.join("\n"));
    assert_tells(&line_of(&krond.said, "fatal"), "PersistenceError");
    assert_eq!(world.document("careful"), long_document(), "the old document is in its place");
    let krond = world.start();
    wait_for_witness(&world, &nominal);
    wait_for_end(&world);
    krond.stop();
    assert_eq!(witnesses(&world).len(), 1);
}

#[test]
fn output_that_there_is_no_room_for_ends_no_run() {
    if left_out("a full disk of logs", NEEDS) {
        return;
    }
    let world = new_world("");
    let logs = TmpfsMount::at(world.state_dir().join("logs"), 64);
    let krond = world.start();
    let nominal = world.due_soon("careful", |schedule| {
        careful(schedule, "head -c 3000000 /dev/zero || exit 1", "")
    });
    wait_for_end(&world);
    krond.stop();
    assert_ran_once(&world, &nominal);
    let entry = world.history("careful").pop().unwrap();
    assert!(entry["OutputDropped"].as_u64().is_some_and(|bytes| bytes > 2_000_000), "{entry}");
    drop(logs);
}

/// A daemon whose log goes elsewhere.
struct Unheard(Child);

impl Unheard {
    /// Starts it, and waits until it can be asked.
    fn start(world: &World, log: impl Into<Stdio>) -> Unheard {
        let krond = Unheard(world.command().stdin(Stdio::null()).stderr(log).spawn().unwrap());
        let socket = world.state_dir().join("krond.sock");
        eventually("it listens", || UnixStream::connect(&socket).ok());
        krond
    }

    /// Waits until the thread that writes the log waits for room.
    fn wait_until_stuck(&self) {
        let pid = self.0.id() as i32;
        let threads = process::threads(pid).into_iter();
        let tids: Vec<i32> =
            threads.filter(|(_, name)| name == "log").map(|(tid, _)| tid).collect();
        assert_eq!(tids.len(), 1, "the thread that writes the log");
        wait_until_blocked(tids[0], &[WRITE]);
    }

    fn stop(mut self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The daemon's own log goes to a device that is always full.
#[test]
fn a_log_that_takes_nothing_ends_no_daemon_and_no_run() {
    let world = new_world("");
    let full = File::options().write(true).open(Path::new("/dev/full")).unwrap();
    let krond = Unheard::start(&world, full);
    let nominal = world.due_soon("careful", |schedule| careful(schedule, "true", ""));
    wait_for_end(&world);
    krond.stop(Signal::SIGTERM);
    assert_ran_once(&world, &nominal);
    judge(&world, "careful");
}

/// No reader takes what the daemon says, and there is no room for more of it.
#[test]
fn a_log_that_nobody_reads_holds_up_no_run() {
    let talk = format!(
        "[job.talk]\nschedule = \"{}\"\nshell = true\n\
         command = \"mktemp {{dir}}/ran.talk.${{KRON_PERIOD_ID#manual/}}.XXXXXXXX > /dev/null\"\n",
        seldom()
    );
    let world = new_world(&talk);
    let (_unread, log) = std::io::pipe().unwrap();
    // One page, of which the first lines take a part.
    nix::fcntl::fcntl(&log, nix::fcntl::FcntlArg::F_SETPIPE_SZ(PAGE as i32)).unwrap();
    let krond = Unheard::start(&world, log);
    let mut periods = BTreeMap::new();
    let mut run = || {
        let period = world.run_now("talk")["period_id"].as_str().unwrap().to_owned();
        eventually("its end is recorded", || {
            let document = world.document("talk");
            let entry = world.history("talk").pop()?;
            let is_over = entry["PeriodID"] == *period && entry["ExitCode"] == 0;
            (is_over && document["ActiveExecution"].is_null()).then_some(())
        });
        periods.insert(period.trim_start_matches("manual/").to_owned(), 1);
    };
    // Each run is worth several lines of the log, and all of them more than a page.
    for _ in 0..RUNS_MAX {
        run();
    }
    krond.wait_until_stuck();
    for _ in 0..RUNS_UNHEARD {
        run();
    }
    // What falls due is decided on as well, and the definitions of it are loaded.
    let nominal = world
        .due_soon("careful", |schedule| [talk.as_str(), &careful(schedule, "true", "")].concat());
    wait_for_end(&world);
    krond.wait_until_stuck();
    krond.stop(Signal::SIGINT);
    assert_eq!(witnesses_of(&world, "talk"), periods, "each ran once");
    assert_eq!(world.history("talk").len(), RUNS_MAX + RUNS_UNHEARD);
    assert_ran_once(&world, &nominal);
}
