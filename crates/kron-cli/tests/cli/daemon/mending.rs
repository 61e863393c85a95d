//! `kron state check` and `kron state reset` on what wrong clocks, other hands and other
//! implementations left.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use kron_core::{Outcome, UtcSecond};
use kron_state::{
    ActiveState, Change, Document, Ending, EpochEvent, ExitStatus, KnownRead, PeriodRef, Process,
    RealDirectory, RunId, Store, document_file,
};

use crate::daemon::krond::{Daemon, Run, bytes};
use crate::daemon::state::{at, stopped, store};

const PAST: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-02-01T00:00:00Z";
const FUTURE: &str = "9000-01-01T00:00:00Z";

/// Records the run of a period as a daemon that keeps no history does.
fn execute_without_history(daemon: &Daemon, job: &str, period: &str, ends: Ends) {
    let directory = RealDirectory::open(&daemon.state_dir()).expect("the directory");
    let store = Store::open(directory, 0).expect("the store");
    let run = RunId::from_bits(0xabc);
    let armed = ActiveState {
        period: PeriodRef::Period(at(period)),
        pid: 1,
        started_at: at(period),
        chosen_time: at(period),
        run: run.clone(),
        start_ticks: 1,
        supervisor: Process { pid: 1, start_ticks: 1 },
        boot_id: "another boot".to_owned(),
        executed: false,
        unknown: serde_json::Map::new(),
    };
    let finish = Change::Finish {
        run,
        ending: Ending::Exited,
        status: Some(ExitStatus::ExitCode(0)),
        at: at(period),
        output_dropped: 0,
    };
    let mut changes = vec![Change::Arm(armed)];
    changes.extend((ends == Ends::Yes).then_some(finish));
    store.commit(job, &changes).expect("it is recorded");
}

#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Yes,
    No,
}

fn missed(daemon: &Daemon, job: &str, nominal: &str, chosen: &str) {
    let change = Change::Handle {
        nominal: at(nominal),
        chosen: Some(at(chosen)),
        outcome: Outcome::Missed,
        reason: "superseded".to_owned(),
        stretch: None,
        at: at(chosen),
    };
    store(daemon).commit(job, &[change]).expect("it is recorded");
}

fn document(daemon: &Daemon, job: &str) -> Document {
    store(daemon).read(job).expect("it can be read").expect("a document")
}

/// The mark is where it is, and everything that the format says of it is said.
#[track_caller]
fn check_mark(document: &Document, mark: UtcSecond, outcome: Outcome, chosen: Option<UtcSecond>) {
    let found = (document.last_handled, document.last_outcome, document.last_chosen_time);
    assert_eq!(found, (Some(mark), Some(outcome), chosen));
    assert_eq!(document.last_nominal_time, Some(mark));
    assert!(document.history.iter().all(|entry| entry.outcome.is_some()), "{document:?}");
}

#[test]
fn what_ran_does_not_run_again_when_the_history_does_not_tell() {
    let daemon = stopped();
    // Of the mark's own period.
    execute_without_history(&daemon, "a", LATER, Ends::Yes);
    let said = daemon.kron(&["state", "reset", "a", "--to", PAST]).no(2);
    assert!(said.contains("period 2026-02-01T00:00:00Z was executed after 2026-01-01"), "{said}");
    assert_eq!(document(&daemon, "a").last_handled, Some(at(LATER)));
    // Of an active run's.
    missed(&daemon, "b", LATER, LATER);
    execute_without_history(&daemon, "b", "2026-03-01T00:00:00Z", Ends::No);
    let said = daemon.kron(&["state", "reset", "b", "--to", PAST]).no(2);
    assert!(said.contains("period 2026-03-01T00:00:00Z was executed after"), "{said}");

    // What a wrong clock ran ahead of its time is remembered when the mark comes back.
    execute_without_history(&daemon, "a", FUTURE, Ends::Yes);
    assert_eq!(document(&daemon, "a").history, []);
    daemon.kron(&["state", "reset", "--all-future"]).ok();
    let mended = document(&daemon, "a");
    assert_eq!(mended.executed_ahead, [at(FUTURE)]);
    let now = mended.last_handled.expect("a mark");
    check_mark(&mended, now, Outcome::Missed, Some(now));
}

#[test]
fn what_the_history_has_forgotten_is_not_gone_behind() {
    let daemon = stopped();
    missed(&daemon, "a", LATER, LATER);
    missed(&daemon, "a", FUTURE, FUTURE);
    let said = daemon.kron(&["state", "reset", "a", "--to", PAST]).no(2);
    assert!(said.contains("the history reaches back to period 2026-02-01T00:00:00Z"), "{said}");
    assert!(said.contains("hint: without `--to`"), "{said}");
    assert_eq!(document(&daemon, "a").last_handled, Some(at(FUTURE)));
    daemon.kron(&["state", "reset", "a", "--to", LATER]).ok();
    check_mark(&document(&daemon, "a"), at(LATER), Outcome::Missed, Some(at(LATER)));
    let again = daemon.kron(&["state", "reset", "a", "--to", LATER]);
    assert_eq!((again.code, again.out.as_str()), (Some(1), "the mark is there\n"));
}

#[test]
fn a_window_before_the_nominal_time_is_no_fault() {
    let daemon = stopped();
    missed(&daemon, "a", FUTURE, PAST);
    assert_eq!(daemon.kron(&["state", "check"]).ok(), "2 documents, nothing to mend\n");
    let reset = daemon.kron(&["state", "reset", "--all-future"]).ok();
    assert_eq!(reset, "nothing lies in the future\n");
    check_mark(&document(&daemon, "a"), at(FUTURE), Outcome::Missed, Some(at(PAST)));
}

#[test]
fn what_is_known_comes_back_from_the_future() {
    let mut daemon = Daemon::start(&crate::daemon::state::jobs());
    assert_eq!(daemon.kron(&["state", "reset", "--all-future"]).code, Some(4));
    daemon.stop(&[]);
    let KnownRead::Known(mut known) = store(&daemon).known().unwrap() else {
        panic!("it is known")
    };
    let before = known.clone();
    let job = known.jobs.get_mut("a").expect("it is known");
    job.created_at = at(FUTURE);
    job.effective_from = Some(at("8000-01-01T00:00:00Z"));
    let job = known.jobs.get_mut("b").expect("it is known");
    job.resumed_at = Some(at(FUTURE));
    store(&daemon).save_known(&known).unwrap();

    let checked = daemon.kron(&["state", "check"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for said in [
        "mend: `a` counts as created at 9000-01-01T00:00:00Z, and nothing of it runs before",
        "mend: the definition of `a` counts as in force from 8000-01-01T00:00:00Z",
        "mend: the suspension of `b` counts as lifted at 9000-01-01T00:00:00Z",
        "`kron state reset`, with the daemon stopped",
    ] {
        assert!(checked.out.contains(said), "{said}: {checked:?}");
    }

    // By name, although nothing has happened to the job so far.
    let reset = daemon.kron(&["state", "reset", "b"]).ok();
    assert!(reset.starts_with("b: ResumedAt went from 9000-01-01T00:00:00Z to 2"), "{reset}");
    assert!(daemon.kron(&["state", "reset", "c"]).no(1).contains("no job `c`"));
    let reset = daemon.kron(&["state", "reset", "--all-future", "--format", "json"]).ok();
    let lines: Vec<serde_json::Value> =
        reset.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 2, "{reset}");
    assert_eq!((&lines[0]["identity"], &lines[0]["field"]), (&"a".into(), &"CreatedAt".into()));
    assert_eq!((&lines[1]["field"], &lines[0]["from"]), (&"EffectiveFrom".into(), &FUTURE.into()));
    assert_eq!(daemon.kron(&["state", "check"]).ok(), "0 documents, nothing to mend\n");

    let KnownRead::Known(after) = store(&daemon).known().unwrap() else { panic!("it is known") };
    for (identity, job) in &after.jobs {
        assert!(job.created_at >= before.jobs[identity].created_at, "nothing of the past runs");
        assert_eq!(job.decision_hash, before.jobs[identity].decision_hash);
    }
    let life = store(&daemon).epochs().unwrap().epochs;
    let resets = life.iter().filter_map(|epoch| match &epoch.event {
        EpochEvent::Reset { identity, from, to } => Some((identity.as_str(), *from, *to)),
        _ => None,
    });
    let resets: Vec<_> = resets.collect();
    let back = |job: &str| {
        after.jobs[job].created_at.max(after.jobs[job].resumed_at.unwrap_or(UtcSecond::MIN))
    };
    assert_eq!(
        resets,
        [("b", Some(at(FUTURE)), Some(back("b"))), ("a", Some(at(FUTURE)), Some(back("a")))]
    );
    daemon.up();
    daemon.kron(&["run", "a", "--wait"]).ok();
}

#[test]
fn whatever_refuses_a_start_is_found_beforehand() {
    let daemon = stopped();
    let state = daemon.state_dir();
    let logs_of_a = format!("logs/{}", document_file("a").trim_end_matches(".json"));
    let check = |what: &str, exit: i32, said: &str| {
        let checked = daemon.kron(&["state", "check"]);
        assert_eq!(checked.code, Some(exit), "{what}: {checked:?}");
        assert!(checked.out.contains(said), "{what}: {checked:?}");
        assert!(checked.out.contains(what), "{what}: {checked:?}");
        assert!(checked.out.ends_with("2 documents, 1 finding\n"), "{what}: {checked:?}");
    };
    let refused = |what: &str, exit: i32| assert_eq!(daemon.refused(), Some(exit), "{what}");

    for (name, mode, sound) in [
        ("lock", 0o644, 0o600),
        ("known.json", 0o640, 0o600),
        ("epochs.jsonl", 0o604, 0o600),
        (&document_file("b"), 0o644, 0o600),
        ("logs", 0o777, 0o700),
        ("runs", 0o755, 0o700),
    ] {
        let path = state.join(name);
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        check(name, 3, &format!("chmod {sound:04o} '{}'", path.display()));
        refused(name, 3);
        fs::set_permissions(&path, Permissions::from_mode(sound)).unwrap();
    }
    for name in [".x.tmp", "runs/.x.tmp"] {
        fs::create_dir(state.join(name)).unwrap();
        check(name, 3, "it is a directory, not a regular file");
        refused(name, 3);
        fs::remove_dir(state.join(name)).unwrap();
    }
    fs::write(state.join("krond.sock"), "").unwrap();
    check("krond.sock", 3, "choose another place with `krond run --socket`");
    refused("krond.sock", 6);
    fs::remove_file(state.join("krond.sock")).unwrap();

    // What keeps one job from running does not refuse the start.
    fs::set_permissions(state.join(&logs_of_a), Permissions::from_mode(0o777)).unwrap();
    check(&logs_of_a, 1, "its job is not started");
    fs::set_permissions(state.join(&logs_of_a), Permissions::from_mode(0o700)).unwrap();

    // What a start tidies up is no fault, and looking leaves it to the start.
    fs::write(state.join(".known.json.0.tmp"), "half").unwrap();
    fs::write(state.join("logs/notes.txt"), "not krond's").unwrap();
    assert_eq!(daemon.kron(&["state", "check"]).ok(), "2 documents, nothing to mend\n");
    assert!(state.join(".known.json.0.tmp").exists());
}

#[test]
fn one_finding_does_not_hide_another() {
    let daemon = stopped();
    let state = daemon.state_dir();
    for name in ["runs", "logs", "lock"] {
        fs::set_permissions(state.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(state.join(document_file("a")), "{").unwrap();
    let checked = daemon.kron(&["state", "check"]);
    for name in ["runs", "logs", "lock", &document_file("a")] {
        assert!(checked.out.contains(&format!("{name}`")), "{name}: {checked:?}");
    }
    assert!(checked.out.ends_with("2 documents, 4 findings\n"), "{checked:?}");
}

/// `kron` on a directory that is not a state directory.
fn ls(state_dir: &Path) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kron"));
    command.args(["state", "ls", "--state-dir"]).arg(state_dir).output().expect("kron runs").into()
}

#[test]
fn nobody_is_told_to_change_what_is_not_krond_s() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    for path in [dir.path(), Path::new("/etc/passwd")] {
        let said = ls(path).no(3);
        assert!(said.contains("is refused as state directory: "), "{said}");
        assert!(
            said.contains("hint: name a directory of krond's own with `--state-dir`"),
            "{said}"
        );
        for harm in ["chmod", "chown", "move"] {
            assert!(!said.contains(harm), "{said}");
        }
    }
    let daemon = stopped();
    let state = daemon.state_dir();
    fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
    let said = ls(&state).no(3);
    assert!(said.contains(&format!("chmod 0700 '{}'", state.display())), "{said}");
}

#[test]
fn what_cannot_be_used_is_said_once_and_with_what_comes_of_it() {
    let daemon = stopped();
    let file = daemon.state_dir().join(document_file("a"));
    let mut value: serde_json::Value = serde_json::from_slice(&bytes(&file)).unwrap();
    value["Version"] = "2".into();
    value.as_object_mut().unwrap().remove("Checksum");
    fs::write(&file, value.to_string()).unwrap();
    let said = daemon.kron(&["state", "show", "a"]).no(3);
    let expected = format!("error: `{}` is not usable: its version is `2`", file.display());
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("the current period too, does not run"), "{said}");
    let checked = daemon.kron(&["state", "check"]);
    assert!(checked.out.contains("` is not usable: its version is `2`"), "{checked:?}");

    fs::write(&file, "{").unwrap();
    fs::write(daemon.state_dir().join("known.json"), "{").unwrap();
    let checked = daemon.kron(&["state", "check"]);
    assert_eq!(checked.out.matches("is not readable: EOF").count(), 2, "{checked:?}");
    assert!(!checked.out.contains("not usable"), "{checked:?}");
}
