//! Somebody was at the state directory.
//!
//! Everything in it is put in the place of, given away, opened to others, linked to, cut short and
//! bent, and a daemon is started over it. It never follows, never waits, never runs from it, and
//! says which file it is about and what to do. What a planted link points at stays as it is.
//!
//! What is sampled: documents are cut short and bent at a few places only; the store's own tests do
//! that at every byte.

use std::cell::RefCell;
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
    chown, lchown, symlink,
};
use std::path::{Path, PathBuf};

use kron_testkit::files::{read, write_private};
use kron_testkit::krond::{Krond, World, seldom};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::eventually;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::faults::scene::{all, document_name, judge, line_of, witnesses};
use crate::faults::starting::Crashed;
use crate::new_world;

/// A user who is not this one.
const STRANGER: u32 = 65_534;

/// What planted links point at holds this before and after.
const BAIT: &str = "{\"bait\":true}\n";

/// What is done to a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trick {
    /// A link to a copy of it, or to anything where it is no file.
    Symlink,
    /// A link that leads nowhere.
    Dangling,
    /// A pipe that nobody writes to.
    Pipe,
    /// A directory in the place of a file, or a file in the place of a directory.
    OtherKind,
    /// A second name.
    HardLink,
    /// Another owner.
    Owner,
    /// Permissions for others.
    Mode,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The start is refused with this code.
    Refused(i32),
    /// The daemon works all the same, and has touched nothing that is not its own.
    Works,
}

struct Case {
    /// Which file, below the state directory; empty for that itself.
    name: String,
    trick: Trick,
    expected: Expected,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for `{}`: {:?}", self.trick, self.name, self.expected)
    }
}

#[test]
fn nothing_that_was_tampered_with_is_followed_or_used() {
    if left_out("tampering", &[Need::Root]) {
        return;
    }
    let crashed = Crashed::new();
    let files = [
        document_name("careful"),
        "known.json".to_owned(),
        "epochs.jsonl".to_owned(),
        "lock".to_owned(),
        format!("runs/{}", crashed.run_file),
    ];
    let mut cases = Vec::new();
    for name in files {
        for trick in [
            Trick::Symlink,
            Trick::Dangling,
            Trick::Pipe,
            Trick::OtherKind,
            Trick::HardLink,
            Trick::Owner,
            Trick::Mode,
        ] {
            cases.push(Case { name: name.clone(), trick, expected: Expected::Refused(3) });
        }
    }
    for name in ["", "runs"] {
        for trick in [
            Trick::Symlink,
            Trick::Dangling,
            Trick::Pipe,
            Trick::OtherKind,
            Trick::Owner,
            Trick::Mode,
        ] {
            cases.push(Case { name: name.to_owned(), trick, expected: Expected::Refused(3) });
        }
    }
    // What is no socket is in the way. One of a stranger's is no different from any that is left over.
    for trick in [Trick::Symlink, Trick::Dangling, Trick::Pipe, Trick::OtherKind] {
        let name = "krond.sock".to_owned();
        cases.push(Case { name, trick, expected: Expected::Refused(6) });
    }
    for trick in [Trick::Owner, Trick::Mode] {
        cases.push(Case { name: "krond.sock".to_owned(), trick, expected: Expected::Works });
    }
    all(&cases, |case| play(&crashed, case));
}

fn play(crashed: &Crashed, case: &Case) {
    let world = crashed.copy();
    let before = witnesses(&world);
    let bait = Bait::new(&world);
    let path =
        if case.name.is_empty() { world.state_dir() } else { world.state_dir().join(&case.name) };
    let aside = world.state_dir().with_extension("aside");
    let _pipe = Pipe(&path);
    bait.plant(case.trick, &path, &aside);
    match case.expected {
        Expected::Refused(code) => {
            let mut krond = Krond::spawn(&mut world.command());
            let status = krond.wait();
            assert_eq!(status.code(), Some(code), "{}", krond.said.join("\n"));
            let line = line_of(&krond.said, "refused_to_start");
            let message = line["message"].as_str().unwrap();
            assert!(message.contains(path.to_str().unwrap()), "which file: {line}");
            if code == 3 {
                let hint = line["hint"].as_str().unwrap_or_default();
                assert!(!hint.is_empty(), "no hint: {line}");
            }
        }
        Expected::Works => {
            let mut krond = world.start();
            krond.wait_for("finished");
            krond.stop();
        }
    }
    bait.assert_untouched();
    assert_eq!(witnesses(&world), before, "something ran");
    // Once it is put right, everything is as it was.
    if case.expected != Expected::Works {
        bait.undo(case.trick, &path, &aside);
    }
    crashed.recover(&world);
}

#[test]
fn who_finds_the_place_of_the_socket_taken_is_told_what_to_do() {
    let world = Crashed::new().copy();
    let socket = world.state_dir().join("krond.sock");
    fs::remove_file(&socket).unwrap();
    write_private(&socket, BAIT);
    let (code, said) = world.run_to_end();
    assert_eq!(code, 6, "{said}");
    let said: Vec<String> = said.lines().map(str::to_owned).collect();
    let line = line_of(&said, "refused_to_start");
    assert!(line["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "no hint: {line}");
    assert_eq!(read(&socket).as_deref(), Some(BAIT));
}

/// Where a pipe may be. It is removed before anything of the test itself reads from it.
struct Pipe<'a>(&'a Path);

impl Drop for Pipe<'_> {
    fn drop(&mut self) {
        if fs::symlink_metadata(self.0).is_ok_and(|found| found.file_type().is_fifo()) {
            let _ = fs::remove_file(self.0);
        }
    }
}

/// Things outside the state directory that planted links point at.
struct Bait {
    file: PathBuf,
    directory: PathBuf,
}

impl Bait {
    fn new(world: &World) -> Bait {
        let bait = Bait { file: world.witness("bait"), directory: world.witness("baits") };
        write_private(&bait.file, BAIT);
        fs::DirBuilder::new().mode(0o700).create(&bait.directory).unwrap();
        // What a daemon that follows might take for its own and tidy up.
        write_private(&bait.directory.join("0123456789abcdef.json"), BAIT);
        write_private(&bait.directory.join(".known.json.0.tmp"), BAIT);
        bait
    }

    /// Plays a trick on `path`. What was there is kept `aside` if something else takes its place.
    fn plant(&self, trick: Trick, path: &Path, aside: &Path) {
        let is_directory = path.is_dir();
        let target = if is_directory { &self.directory } else { &self.file };
        match trick {
            Trick::Owner => return lchown(path, Some(STRANGER), Some(STRANGER)).unwrap(),
            Trick::Mode => {
                let mode = if is_directory { 0o755 } else { 0o644 };
                return fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            Trick::HardLink => return fs::hard_link(path, aside).unwrap(),
            Trick::Symlink | Trick::Dangling | Trick::Pipe | Trick::OtherKind => {}
        }
        fs::rename(path, aside).unwrap();
        match trick {
            // Even one to the very same contents.
            Trick::Symlink if !is_directory && aside.is_file() => symlink(aside, path).unwrap(),
            Trick::Symlink => symlink(target, path).unwrap(),
            Trick::Dangling => symlink(self.file.with_extension("nowhere"), path).unwrap(),
            Trick::Pipe => mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap(),
            _ if is_directory => write_private(path, BAIT),
            _ => fs::DirBuilder::new().mode(0o700).create(path).unwrap(),
        }
    }

    /// Puts everything back.
    fn undo(&self, trick: Trick, path: &Path, aside: &Path) {
        match trick {
            Trick::Owner => chown(path, Some(0), Some(0)).unwrap(),
            Trick::Mode => {
                let mode = if path.is_dir() { 0o700 } else { 0o600 };
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            Trick::HardLink => fs::remove_file(aside).unwrap(),
            Trick::OtherKind if path.is_dir() => {
                fs::remove_dir(path).unwrap();
                fs::rename(aside, path).unwrap();
            }
            Trick::OtherKind | Trick::Symlink | Trick::Dangling | Trick::Pipe => {
                fs::remove_file(path).unwrap();
                fs::rename(aside, path).unwrap();
            }
        }
    }

    /// Nobody was led astray.
    fn assert_untouched(&self) {
        assert_eq!(read(&self.file).as_deref(), Some(BAIT));
        let names = self.directory.read_dir().unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [".known.json.0.tmp", "0123456789abcdef.json"]);
        for name in names {
            assert_eq!(read(&self.directory.join(&name)).as_deref(), Some(BAIT), "{name}");
        }
        assert!(!self.file.with_extension("nowhere").exists(), "something was made elsewhere");
        assert_eq!(fs::metadata(&self.directory).unwrap().mode() & 0o7777, 0o700);
    }
}

/// What is left over is removed at a start, and whatever has such a name may be anything.
#[test]
fn what_looks_left_over_is_not_followed_either() {
    if left_out("tampering with leftovers", &[Need::Root]) {
        return;
    }
    let crashed = Crashed::new();
    let names =
        ["runs/00000000deadbeef.json", "runs/.00000000deadbeef.json.0.tmp", ".known.json.0.tmp"];
    let mut cases = Vec::new();
    for name in names {
        for trick in [Trick::Symlink, Trick::Dangling, Trick::Pipe, Trick::OtherKind, Trick::Owner]
        {
            cases.push(Case { name: name.to_owned(), trick, expected: Expected::Works });
        }
    }
    all(&cases, |case| {
        let world = crashed.copy();
        let before = witnesses(&world);
        let bait = Bait::new(&world);
        let path = world.state_dir().join(&case.name);
        write_private(&path, "{}");
        let _pipe = Pipe(&path);
        bait.plant(case.trick, &path, &world.state_dir().with_extension("aside"));
        let mut krond = Krond::spawn(&mut world.command());
        if has_left(&mut krond) {
            assert_eq!(krond.wait().code(), Some(3), "{}", krond.said.join("\n"));
            let line = line_of(&krond.said, "refused_to_start");
            assert!(line["message"].as_str().unwrap().contains(&case.name), "which file: {line}");
        } else {
            krond.wait_for("finished");
            krond.stop();
        }
        bait.assert_untouched();
        assert_eq!(witnesses(&world), before, "something ran");
    });
}

/// The file of the lock is removed while a daemon holds it.
#[test]
fn a_lock_that_was_removed_lets_no_second_daemon_in() {
    let world = new_world(&format!(
        "[job.careful]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n",
        seldom()
    ));
    let krond = world.start();
    fs::remove_file(world.state_dir().join("lock")).unwrap();
    let (code, said) = world.run_to_end();
    assert!(matches!(code, 4 | 6), "{code}: {said}");
    krond.stop();
}

/// Logs are made when a run starts, so that is when it shows.
#[test]
fn logs_are_not_led_astray_either() {
    if left_out("tampering with logs", &[Need::Root]) {
        return;
    }
    let hash = document_name("careful").trim_end_matches(".json").to_owned();
    let job_logs = format!("logs/{hash}");
    let mut cases = Vec::new();
    for name in ["logs", &job_logs] {
        for trick in [Trick::Symlink, Trick::Dangling, Trick::Pipe, Trick::OtherKind, Trick::Owner]
        {
            let name = name.to_owned();
            cases.push(Case { name, trick, expected: Expected::Works });
        }
    }
    all(&cases, |case| {
        let world = new_world(&format!(
            "[job.careful]\nschedule = \"{}\"\n\
             command = \"echo something\"\nshell = true\n[daemon]\nlog_runs = 1\n",
            seldom()
        ));
        let bait = Bait::new(&world);
        // What a daemon that tidies up there would remove.
        let old = bait.directory.join(&hash);
        fs::DirBuilder::new().mode(0o700).create(&old).unwrap();
        for number in 1..=3 {
            write_private(&old.join(format!("{number:016x}.log")), BAIT);
            write_private(&bait.directory.join(format!("{number:016x}.log")), BAIT);
        }
        let path = world.state_dir().join(&case.name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
        let _pipe = Pipe(&path);
        bait.plant(case.trick, &path, &world.state_dir().with_extension("aside"));
        // Either it does not start, or it starts nothing that it could not log; either is told.
        let mut krond = Krond::spawn(&mut world.command());
        let line = if has_left(&mut krond) {
            assert_eq!(krond.wait().code(), Some(3), "{}", krond.said.join("\n"));
            line_of(&krond.said, "refused_to_start")
        } else {
            let (status, answer) = world.ask("POST", "/api/v1/scheduler/jobs/careful/run", "{}");
            assert_eq!(status, 500, "{answer}");
            let line = krond.wait_for("start_failed");
            assert_eq!(line["identity"], "careful", "{line}");
            krond.stop();
            line
        };
        let message = line["message"].as_str().unwrap();
        assert!(message.contains(path.to_str().unwrap()), "which file: {line}");
        let mut names = Vec::new();
        for directory in [&bait.directory, &old] {
            names.extend(directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name()));
        }
        assert_eq!(names.len(), 2 + 1 + 3 + 3, "something was made or removed there: {names:?}");
        assert!(!bait.file.with_extension("nowhere").exists(), "something was made elsewhere");
    });
}

/// Whether a daemon has refused to start; else it is ready.
fn has_left(krond: &mut Krond) -> bool {
    let krond = RefCell::new(krond);
    eventually("it is ready, or has left", || {
        let said = |event| !krond.borrow_mut().events(event).is_empty();
        if said("refused_to_start") { Some(true) } else { said("ready").then_some(false) }
    })
}

/// Old logs are removed after every run, also of a job that keeps none any more.
#[test]
fn what_a_planted_link_points_at_is_not_tidied_up() {
    let hash = document_name("careful").trim_end_matches(".json").to_owned();
    let world = new_world(&format!(
        "[job.careful]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n\
         output = \"discard\"\n[daemon]\nlog_runs = 1\n",
        seldom()
    ));
    let elsewhere = world.witness("elsewhere");
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700).create(&elsewhere).unwrap();
    for number in 1..=3 {
        write_private(&elsewhere.join(format!("{number:016x}.log")), BAIT);
    }
    private.create(world.state_dir().join("logs")).unwrap();
    symlink(&elsewhere, world.state_dir().join("logs").join(hash)).unwrap();
    let mut krond = Krond::spawn(&mut world.command());
    if !has_left(&mut krond) {
        // By the end of the second run, what follows the first is over or under way; a third makes
        // sure.
        for _ in 0..3 {
            world.run_now("careful");
            krond.wait_for("finished");
        }
        krond.stop();
    }
    assert_eq!(elsewhere.read_dir().unwrap().count(), 3, "logs elsewhere were removed");
}

/// How a document is damaged.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// It ends after this many hundredths of its length.
    Cut(u64),
    /// One bit is another after this many hundredths of its length.
    Bent(u64),
}

struct Damaged {
    name: String,
    damage: Damage,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of `{}`", self.damage, self.name)
    }
}

#[test]
fn what_is_damaged_is_set_aside_or_refused_and_never_run_from() {
    let crashed = Crashed::new();
    let names = [
        document_name("careful"),
        "known.json".to_owned(),
        format!("runs/{}", crashed.run_file),
        "epochs.jsonl".to_owned(),
    ];
    let mut cases = Vec::new();
    for name in names {
        for hundredths in [0, 3, 50, 97] {
            cases.push(Damaged { name: name.clone(), damage: Damage::Cut(hundredths) });
            cases.push(Damaged { name: name.clone(), damage: Damage::Bent(hundredths) });
        }
    }
    all(&cases, |case| {
        let world = crashed.copy();
        let path = world.state_dir().join(&case.name);
        damage(&path, case.damage);
        let damaged = fs::metadata(&path).unwrap().len();
        let mut krond = world.start();
        let whole = |value: &Value| !value.is_null();
        match case.name.as_str() {
            "known.json" | "epochs.jsonl" => {
                eventually("the run is recorded", || {
                    world.readable_document("careful")?["ActiveExecution"].is_null().then_some(())
                });
            }
            name if name.starts_with("runs/") => {
                let finished = krond.wait_for("finished");
                assert_eq!(finished["ending"], "lost", "{finished}");
                assert_eq!(krond.events("run_record_unreadable").len(), 1);
            }
            _ => {
                assert_eq!(krond.events("state_lost").len(), 1, "{}", krond.said.join("\n"));
                eventually("it is replaced", || {
                    let document = world.readable_document("careful").filter(whole)?;
                    (document["LastHandledPeriodID"] == *crashed.nominal).then_some(())
                });
            }
        }
        if case.name.ends_with(".json") {
            let told = krond.events("state_unreadable").into_iter();
            let told: Vec<Value> = told.chain(krond.events("run_record_unreadable")).collect();
            let file = path.file_name().unwrap().to_str().unwrap();
            let stem = file.trim_end_matches(".json");
            assert!(told.iter().any(|line| line.to_string().contains(stem)), "{told:?}");
            // The damaged bytes are kept for people to look at.
            let kept = eventually("they are kept", || {
                let prefix = format!("{file}.corrupt.");
                let entries = path.parent().unwrap().read_dir().unwrap();
                entries
                    .map(|entry| entry.unwrap())
                    .find(|entry| entry.file_name().to_str().unwrap().starts_with(&prefix))
            });
            assert_eq!(kept.metadata().unwrap().len(), damaged);
        }
        krond.stop();
        assert_eq!(witnesses(&world).get(&crashed.nominal), Some(&1), "it ran again");
        // The next start finds nothing wrong any more, and starts nothing either.
        let mut krond = world.start();
        assert!(krond.events("state_unreadable").is_empty(), "{}", krond.said.join("\n"));
        krond.stop();
        assert_eq!(witnesses(&world).get(&crashed.nominal), Some(&1), "it ran again");
    });
}

fn damage(path: &Path, damage: Damage) {
    let mut file = File::options().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    match damage {
        Damage::Cut(hundredths) => file.set_len(length * hundredths / 100).unwrap(),
        Damage::Bent(hundredths) => {
            let at = length * hundredths / 100;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 0x10;
            file.write_all_at(&byte, at).unwrap();
            file.flush().unwrap();
        }
    }
}

#[test]
fn an_undamaged_copy_recovers() {
    let crashed = Crashed::new();
    let world = crashed.copy();
    crashed.recover(&world);
    judge(&world, "careful");
}
