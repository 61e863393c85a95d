//! Every call of a start fails, once and for good, in a directory that a crash left behind.
//!
//! A daemon was killed while a run of its was under way; the run has ended since, and its
//! supervisor has left the exit code. Beside that lie a record that nobody needs, unfinished files
//! and a socket on which nobody listens. Every start of this chapter gets a copy of that directory.
//!
//! The calls are those of the first thread on anything in the state directory, from the first look at
//! it until the daemon is ready, enumerated from a start in which nothing fails. The suite plays
//! every call by which something changes or becomes durable, which fails once and for good, and the
//! first call of each other name in each part of the start, which fails once; the six errors turn
//! with the call's place. `full` plays every call, once with each of two errors and for good with a
//! third. What the thread that writes state does during a start fails by file:
//! [`what_a_start_records_fails`] has a row for each of its steps.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use kron_testkit::files::write_private;
use kron_testkit::krond::{Krond, World, wait_for_permit};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::eventually;
use nix::sys::signal::Signal;
use rustix::net::{Shutdown, shutdown};

use crate::faults::scene::{
    CODE, all, assert_tells, careful, document_name, judge, line_of, unfinished, wait_for_witness,
    witnesses,
};
use crate::faults::strace::{Call, Effect, Extent, Injection, Tracing, When};
use crate::new_world;

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EDQUOT", "EMFILE", "EACCES", "EROFS"];

/// A run of nobody's.
const STALE_RUN: &str = "0123456789abcdef";

/// A run of a spool that is not configured.
const RESTING_RUN: &str = "0023456789abcdef";

/// What a crash left behind, to be copied.
pub(crate) struct Crashed {
    config: String,
    pub(crate) nominal: String,
    /// The record that the supervisor left, in `runs/`.
    pub(crate) run_file: String,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Crashed {
    pub(crate) fn new() -> Crashed {
        let (world, krond, config, nominal) = running();
        eventually("the start is recorded", || world.history("careful").pop());
        wait_for_witness(&world, &nominal);
        krond.kill();
        world.permit("permit");
        let mut record = eventually("the supervisor leaves a record", || world.run_records().pop());
        let run_file = format!("{}.json", record["RunID"].as_str().unwrap());
        let state_dir = world.state_dir();
        record["RunID"] = STALE_RUN.into();
        record.as_object_mut().unwrap().remove("Checksum");
        let stale_file = format!("runs/{STALE_RUN}.json");
        write_private(&state_dir.join(&stale_file), &record.to_string());
        write_private(&state_dir.join("runs").join(unfinished(&run_file)), "{");
        write_private(&state_dir.join(unfinished("known.json")), "{");
        let mut files = Vec::new();
        collect(&state_dir, Path::new(""), &mut files);
        Crashed { config, nominal, run_file, files }
    }

    /// A world with a copy of the directory, and of the one witness.
    pub(crate) fn copy(&self) -> World {
        let world = new_world(&self.config);
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(world.state_dir().join("runs")).unwrap();
        for (name, bytes) in &self.files {
            let path = world.state_dir().join(name);
            private.create(path.parent().unwrap()).unwrap();
            let mut options = fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(&path);
            std::io::Write::write_all(&mut file.unwrap(), bytes).unwrap();
        }
        // A socket on which nobody listens any more.
        let listener = UnixListener::bind(world.state_dir().join("krond.sock")).unwrap();
        // Closing it is not enough: a process that another test starts may have it for a moment.
        shutdown(&listener, Shutdown::Both).unwrap();
        // Nothing that starts now may wait for anything.
        world.permit("permit");
        world.permit(&format!("ran.careful.{}.before", self.nominal));
        world
    }

    fn tracing(&self, world: &World, injection: Option<&Injection>) -> Tracing {
        let document = document_name("careful");
        let run = format!("runs/{}", self.run_file);
        let stale = format!("runs/{STALE_RUN}.json");
        let names = [
            "",
            "lock",
            &document,
            "known.json",
            "runs",
            &run,
            &stale,
            "epochs.jsonl",
            "krond.sock",
        ];
        Tracing::new(&world.state_dir(), &names, injection)
    }

    /// A clean start, after which everything is as if nothing had failed.
    pub(crate) fn recover(&self, world: &World) {
        let over = || {
            let document = world.document("careful");
            (document["ActiveExecution"].is_null() && world.run_records().is_empty()).then_some(())
        };
        let mut krond = world.start();
        eventually("what the supervisor left is recorded", over);
        assert!(krond.events("state_unreadable").is_empty());
        krond.stop();
        let history = world.history("careful");
        assert_eq!(history.len(), 1, "{history:?}");
        assert_eq!(history[0]["PeriodID"], *self.nominal);
        assert_eq!(history[0]["ExitCode"], CODE, "{history:?}");
        judge(world, "careful");
        let names = world.state_dir().read_dir().unwrap();
        for name in names.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
            assert!(!name.ends_with(".tmp") && !name.contains("corrupt"), "{name} is left over");
        }
    }
}

/// A daemon whose one job, `careful`, is due, with its configuration and the period; the run waits
/// for its permit.
fn running() -> (World, Krond, String, String) {
    let world = new_world("");
    let krond = world.start();
    let config = RefCell::new(String::new());
    let nominal = world.due_soon("careful", |schedule| {
        config.replace(careful(schedule, &wait_for_permit("permit"), ""));
        config.borrow().clone()
    });
    (world, krond, config.into_inner(), nominal)
}

fn collect(state_dir: &Path, below: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in state_dir.join(below).read_dir().unwrap() {
        let entry = entry.unwrap();
        let name = below.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            collect(state_dir, &name, files);
        } else if kind.is_file() {
            let text = kron_testkit::files::read(&entry.path()).unwrap_or_default();
            files.push((name, text.into_bytes()));
        }
    }
}

/// What comes of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The start is refused with this code.
    Refused(i32),
    /// It is told as an error of this type, and the daemon works: what failed only explains.
    Told(&'static str),
    /// It is refused with 6, or there is another way.
    RefusedOrUnharmed,
    /// The daemon leaves with 5 because it cannot record anything.
    Fatal,
}

#[derive(Debug)]
struct Case {
    call: Call,
    error: &'static str,
    when: When,
    expected: Expected,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of `{}`: {:?}", self.injection(), self.call.about, self.expected)
    }
}

impl Case {
    fn injection(&self) -> Injection {
        let effect = Effect::Error(self.error);
        Injection { calls: self.call.name.clone(), effect, when: self.when }
    }
}

/// A part of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The state is read and put in order.
    State,
    /// The control socket is made.
    ControlSocket,
    /// The start is noted.
    Noting,
}

impl Part {
    /// What comes of a failure in it.
    fn expected(self, call: &Call, error: &str, when: When) -> Expected {
        match self {
            Part::State => state(call, error),
            Part::ControlSocket => control_socket(call, when),
            Part::Noting => noting(call, error),
        }
    }
}

/// Every call of a start in which nothing fails, and the part it is in.
fn calls(crashed: &Crashed) -> Vec<(Part, Call)> {
    let world = crashed.copy();
    let tracing = crashed.tracing(&world, None);
    let mut krond = Krond::spawn(&mut tracing.around(&world.command()));
    krond.wait_for("ready");
    let calls = tracing.calls();
    krond.kill();
    let about = |about: &str| calls.iter().position(|call| call.about.contains(about));
    // The lock comes first and the socket last; then the start is noted.
    let lock = about("S lock").expect("the lock is taken");
    let socket = about("S/krond.sock").expect("the socket is made");
    let noted = calls.iter().rposition(|call| call.about.contains("krond.sock")).unwrap() + 1;
    assert!(lock < socket && noted < calls.len(), "{calls:?}");
    // Its directory is looked at first.
    let socket = socket - 1;
    let stale = format!("S/runs/{STALE_RUN}.json");
    for name in ["fstat", "read"] {
        let looks = |call: &Call| call.name == name && call.about == stale;
        assert!(calls.iter().any(looks), "{name} of the record of nobody's: {calls:?}");
    }
    for name in ["flock", "getdents64", "fsync", "read", "unlinkat", "write", "utimensat"] {
        assert!(calls.iter().any(|call| call.name == name), "{name}: {calls:?}");
    }
    let part = |place: usize| match place {
        _ if place < socket => Part::State,
        _ if place < noted => Part::ControlSocket,
        _ => Part::Noting,
    };
    calls.iter().enumerate().map(|(place, call)| (part(place), call.clone())).collect()
}

/// State that cannot be read refuses the start. A directory is synced when one in it is opened.
fn state(call: &Call, error: &str) -> Expected {
    let opens = error == "EMFILE" && (&*call.name, &*call.about) == ("fsync", "S");
    Expected::Refused(if opens || is_shortage(call, error) { 6 } else { 3 })
}

/// So does a control socket that cannot be made; that its directory cannot be looked at is no
/// reason as long as it can be made.
fn control_socket(call: &Call, when: When) -> Expected {
    match when {
        When::Once(_) if call.about.ends_with("S") => Expected::RefusedOrUnharmed,
        When::Once(_) | When::ForGood(_) => Expected::Refused(6),
    }
}

/// The daemon's own history only explains; but a directory that cannot be synced is the end.
fn noting(call: &Call, error: &str) -> Expected {
    match (&*call.name, &*call.about) {
        ("fsync", "S") => Expected::Fatal,
        _ if is_shortage(call, error) => Expected::Told("SystemError"),
        _ => Expected::Told("PersistenceError"),
    }
}

/// That descriptors have run out is the system's fault, unless something was to be changed.
fn is_shortage(call: &Call, error: &str) -> bool {
    let changes = ["fsync", "unlinkat", "write", "renameat"];
    error == "EMFILE" && !changes.contains(&&*call.name)
}

/// The calls of a start with their share of the errors.
fn cases(crashed: &Crashed, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for (place, (part, call)) in extent.of(&calls(crashed)).into_iter().enumerate() {
        let once = When::Once(call.number);
        let mut rows = vec![(ERRORS[place % 6], once)];
        if extent == Extent::Every {
            rows.push((ERRORS[(place + 3) % 6], once));
        }
        if extent == Extent::Every || call.changes() {
            rows.push((ERRORS[(place + 1) % 6], When::ForGood(call.number)));
        }
        for (error, when) in rows {
            let expected = part.expected(&call, error, when);
            cases.push(Case { call: call.clone(), error, when, expected });
        }
    }
    cases
}

#[test]
fn a_failure_of_a_start_is_told_and_loses_nothing() {
    if !left_out("failures of a start", &[Need::Root, Need::Strace]) {
        starts_fail(Extent::Weighty);
    }
}

#[test]
#[ignore = "full: every call"]
fn a_failure_at_every_call_of_a_start_is_told_and_loses_nothing() {
    if !left_out("failures of a start", &[Need::Root, Need::Strace]) {
        starts_fail(Extent::Every);
    }
}

fn starts_fail(extent: Extent) {
    let crashed = Crashed::new();
    let mut cases = cases(&crashed, extent);
    cases.retain(|case| case.expected != Expected::RefusedOrUnharmed);
    all(&cases, |case| start(&crashed, case));
}

#[test]
fn a_state_directory_that_cannot_be_looked_at_stays_private() {
    if left_out("failures of a start", &[Need::Root, Need::Strace]) {
        return;
    }
    let crashed = Crashed::new();
    let mut cases = cases(&crashed, Extent::Every);
    cases.retain(|case| case.expected == Expected::RefusedOrUnharmed);
    all(&cases, |case| start(&crashed, case));
}

fn start(crashed: &Crashed, case: &Case) {
    let world = crashed.copy();
    let tracing = crashed.tracing(&world, Some(&case.injection()));
    let mut krond = Krond::spawn(&mut tracing.around(&world.command()));
    // Before anything is judged: what comes of it is that of this very call.
    let hit = eventually("the call fails", || tracing.injected().into_iter().next());
    assert_eq!((&hit.name, &hit.about), (&case.call.name, &case.call.about));
    match case.expected {
        Expected::Refused(code) => {
            let status = krond.wait();
            assert_eq!(status.code(), Some(code), "{}", krond.said.join("\n"));
            let line = line_of(&krond.said, "refused_to_start");
            assert_tells(&line, if code == 3 { "PersistenceError" } else { "SystemError" });
            let message = line["message"].as_str().unwrap();
            assert!(message.contains(world.state_dir().to_str().unwrap()), "which file: {line}");
            for name in [&crashed.run_file, &format!("{STALE_RUN}.json")] {
                let path = world.state_dir().join("runs").join(name);
                assert!(path.exists(), "{name} is removed by a start that is refused");
            }
        }
        Expected::Told(error_type) => {
            assert_tells(&krond.wait_for("not_recorded"), error_type);
            krond.wait_for("finished");
            krond.stop();
        }
        Expected::RefusedOrUnharmed => {
            let shared = RefCell::new(krond);
            let said = |event| !shared.borrow_mut().events(event).is_empty();
            eventually("it is ready, or has left", || {
                (said("ready") || said("refused_to_start")).then_some(())
            });
            let ready = said("ready");
            krond = shared.into_inner();
            if ready {
                krond.signal(Signal::SIGTERM);
            }
            assert_eq!(krond.wait().code(), Some(if ready { 0 } else { 6 }));
            let mode = fs::metadata(world.state_dir()).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700, "nobody else may look into the state directory");
        }
        Expected::Fatal => {
            assert_tells(&krond.wait_for("fatal"), "PersistenceError");
            assert_eq!(krond.wait().code(), Some(5));
        }
    }
    assert_eq!(witnesses(&world).get(&crashed.nominal), Some(&1), "it ran again");
    crashed.recover(&world);
}

/// A spool that is not configured now may be again, and then needs what its runs have left. Whether
/// a record is such a one is known only once it is read.
#[test]
fn what_a_run_of_a_resting_spool_left_outlasts_a_start_that_cannot_read_it() {
    if left_out("failures of a start", &[Need::Root, Need::Strace]) {
        return;
    }
    let crashed = Crashed::new();
    all(&["openat", "fstat", "read"], |call| {
        let world = crashed.copy();
        let file = format!("runs/{RESTING_RUN}.json");
        let path = world.state_dir().join(&file);
        let mut record = world.run_records().pop().unwrap();
        record["RunID"] = RESTING_RUN.into();
        record["Identity"] = "spool/resting".into();
        record.as_object_mut().unwrap().remove("Checksum");
        write_private(&path, &record.to_string());

        let (effect, when) = (Effect::Error("EIO"), When::Once(1));
        let injection = Injection { calls: (*call).to_owned(), effect, when };
        let names = [&*file, &format!("{RESTING_RUN}.json")];
        let tracing = Tracing::new(&world.state_dir(), &names, Some(&injection));
        let mut krond = Krond::spawn(&mut tracing.around(&world.command()));
        assert_eq!(krond.wait().code(), Some(3), "{}", krond.said.join("\n"));
        let line = line_of(&krond.said, "refused_to_start");
        assert_tells(&line, "PersistenceError");
        assert!(line["message"].as_str().unwrap().contains(&file), "which file: {line}");

        // The others go, this one stays. A daemon that has stopped has removed all that it wanted to.
        let krond = world.start();
        let others = || world.run_records().into_iter().filter(|left| left["RunID"] != RESTING_RUN);
        eventually("what nobody needs is removed", || (others().count() == 0).then_some(()));
        krond.stop();
        assert_eq!(kron_testkit::files::read(&path), Some(record.to_string()));
    });
}

/// One step of what the writing thread does during a start.
#[derive(Debug)]
struct Step {
    /// The file it is about, by the name in the call.
    file: String,
    calls: &'static str,
    error: &'static str,
    when: When,
    expected: Expected,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { file, calls, error, when, expected } = self;
        write!(f, "{calls} of `{file}`: {error} {when:?}: {expected:?}")
    }
}

#[test]
fn what_a_start_records_fails() {
    if left_out("failures of what a start records", &[Need::Root, Need::Strace]) {
        return;
    }
    let crashed = Crashed::new();
    let mut steps = Vec::new();
    let known = unfinished("known.json");
    let document = unfinished(&document_name("careful"));
    for file in [known, document] {
        for (calls, error) in [
            ("openat", "EDQUOT"),
            ("openat", "EROFS"),
            ("openat", "EMFILE"),
            ("write", "ENOSPC"),
            ("fsync", "EIO"),
            ("renameat", "EACCES"),
        ] {
            for when in [When::Once(1), When::ForGood(1)] {
                let expected = match (error, when) {
                    // It is waited for as long as it takes.
                    ("EMFILE", When::Once(_)) => Expected::Told("SystemError"),
                    ("EMFILE", When::ForGood(_)) => continue,
                    _ => Expected::Fatal,
                };
                steps.push(Step { file: file.clone(), calls, error, when, expected });
            }
        }
    }
    for file in [crashed.run_file.clone(), format!("{STALE_RUN}.json")] {
        let expected = Expected::Told("PersistenceError");
        let when = When::Once(1);
        steps.push(Step { file, calls: "unlinkat", error: "EIO", when, expected });
    }
    all(&steps, |step| {
        let world = crashed.copy();
        let injection = Injection {
            calls: step.calls.to_owned(),
            effect: Effect::Error(step.error),
            when: step.when,
        };
        let tracing = Tracing::new(&world.state_dir(), &[&step.file], Some(&injection));
        // An unfinished file of a daemon before is in nobody's way.
        let _ = fs::remove_file(world.state_dir().join(unfinished("known.json")));
        let mut krond = Krond::spawn(&mut tracing.around_all(&world.command()));
        match step.expected {
            Expected::Told(error_type) => {
                let event =
                    if error_type == "SystemError" { "write_failed" } else { "not_recorded" };
                assert_tells(&krond.wait_for(event), error_type);
                krond.stop();
            }
            _ => {
                assert_tells(&krond.wait_for("fatal"), "PersistenceError");
                assert_eq!(krond.wait().code(), Some(5));
            }
        }
        crashed.recover(&world);
    });
}

#[test]
fn a_lock_is_waited_for_a_moment_and_then_believed() {
    if left_out("a lock that is held", &[Need::Root, Need::Strace]) {
        return;
    }
    let crashed = Crashed::new();
    let start = |when| {
        let world = crashed.copy();
        let effect = Effect::Error("EAGAIN");
        let injection = Injection { calls: "flock".to_owned(), effect, when };
        let tracing = crashed.tracing(&world, Some(&injection));
        (Krond::spawn(&mut tracing.around(&world.command())), world)
    };
    let (mut krond, world) = start(When::Once(1));
    krond.wait_for("ready");
    krond.stop();
    crashed.recover(&world);

    let (mut krond, world) = start(When::ForGood(1));
    assert_eq!(krond.wait().code(), Some(4));
    let line = line_of(&krond.said, "refused_to_start");
    assert_tells(&line, "SystemError");
    assert!(line["hint"].is_string(), "{line}");
    crashed.recover(&world);
}
