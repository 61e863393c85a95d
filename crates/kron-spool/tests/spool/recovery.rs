//! Which of several files of a task counts after a crash: DESIGN §4.26 as a table.

use std::path::Path;

use kron_spool::{Fate, Finish, Look, Next, RetryError, Spool, Start, State};
use kron_testkit::files::scratch;
use serde_json::Value;

use crate::made::{a_run, again, at, ended, far_future, id, new_task, open, policy, recover, text};
use crate::promises::Listing;

use Fate::{Alive, Lost, NotStarted, Unknown};

/// What is in one directory before: nothing, or a task with so many attempts and this payload, or
/// what is no task.
#[derive(Clone, Copy, Debug)]
enum Had {
    Nothing,
    Same(u32),
    Other(u32),
    Garbage,
}
use Had::{Garbage, Nothing, Other, Same};

struct Row {
    pending: Had,
    running: Had,
    completed: Had,
    fate: Fate,
    /// Where the task is afterwards, with how many attempts and how many of them lost.
    task: &'static str,
    /// What is set aside, and what its report says.
    aside: Option<(&'static str, &'static str)>,
}

const fn row(
    [pending, running, completed]: [Had; 3],
    fate: Fate,
    task: &'static str,
    aside: Option<(&'static str, &'static str)>,
) -> Row {
    Row { pending, running, completed, fate, task, aside }
}

const COMPLETED: &str =
    "another task of this id is completed already, with another payload; ids are for ever";
const RUNNING: &str =
    "another task of this id is running already, with another payload; ids are for ever";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // One file.
    row([Same(0), Nothing, Nothing], Lost, "pending 0/0", None),
    row([Nothing, Same(1), Nothing], Lost, "pending 1/1", None),
    row([Nothing, Same(1), Nothing], NotStarted, "pending 0/0", None),
    row([Nothing, Same(1), Nothing], Alive, "running 1/0", None),
    row([Nothing, Same(1), Nothing], Unknown, "running 1/0", None),
    row([Nothing, Nothing, Same(1)], Lost, "completed 1/0", None),
    row([Nothing, Garbage, Nothing], Lost, "", Some(("running", "it has no `taskId`"))),
    // A start that was not finished: more attempts.
    row([Same(0), Same(1), Nothing], Lost, "pending 1/1", None),
    row([Same(0), Same(1), Nothing], NotStarted, "pending 0/0", None),
    row([Same(3), Same(4), Nothing], Lost, "pending 4/1", None),
    // A failure whose end was not finished: on a tie the one that waits.
    row([Same(1), Same(1), Nothing], Lost, "pending 1/0", None),
    row([Same(1), Same(1), Nothing], NotStarted, "pending 1/0", None),
    row([Same(2), Same(1), Nothing], Lost, "pending 2/0", None),
    // What may live stays where it is, and nothing of its id waits beside it.
    row([Same(0), Same(1), Nothing], Alive, "running 1/0", None),
    row([Same(1), Same(1), Nothing], Alive, "running 1/0", None),
    row([Same(0), Same(1), Nothing], Unknown, "running 1/0", None),
    row([Other(0), Same(1), Nothing], Alive, "running 1/0", Some(("pending", RUNNING))),
    // Completed wins over everything.
    row([Nothing, Same(1), Same(1)], Lost, "completed 1/0", None),
    row([Nothing, Same(9), Same(1)], NotStarted, "completed 1/0", None),
    row([Same(0), Nothing, Same(1)], Lost, "completed 1/0", None),
    row([Same(9), Nothing, Same(1)], Lost, "completed 1/0", None),
    row([Same(0), Same(1), Same(1)], Lost, "completed 1/0", None),
    // What loses and was to do something else is set aside, not deleted.
    row([Other(0), Nothing, Same(1)], Lost, "completed 1/0", Some(("pending", COMPLETED))),
    row([Nothing, Other(1), Same(1)], Lost, "completed 1/0", Some(("running", COMPLETED))),
    row([Other(0), Same(1), Nothing], Lost, "pending 1/1", Some(("pending", RUNNING))),
    row([Other(1), Same(1), Nothing], Lost, "pending 1/1", Some(("pending", RUNNING))),
    row([Other(9), Same(1), Nothing], NotStarted, "pending 0/0", Some(("pending", RUNNING))),
    // What is completed has ended, whatever has become of its file.
    row([Nothing, Same(1), Garbage], Lost, "", Some(("running", COMPLETED))),
    row([Same(0), Nothing, Garbage], Lost, "", Some(("pending", COMPLETED))),
    // What is no task does not keep one from waiting.
    row([Garbage, Same(1), Nothing], Lost, "pending 1/1", Some(("pending", "it has no `taskId`"))),
];

fn write(spool: &Path, directory: &str, had: Had) {
    let path = spool.join("tasks").join(directory).join("a.json");
    let result = match directory {
        "completed" => r#""result":{"outcome":"SUCCEEDED","exitCode":0},"#,
        _ => "",
    };
    let of = |attempts: u32| {
        text("a", &directory.to_uppercase(), &format!(r#""attempts":{attempts},{result}"#))
    };
    let text = match had {
        Nothing => return,
        Same(attempts) => of(attempts),
        Other(attempts) => of(attempts).replace(r#""of":"a""#, r#""of":"somebody else's""#),
        Garbage => "{}".to_owned(),
    };
    std::fs::write(path, text).unwrap();
}

/// Where the task is, in the words of the table.
fn found(listing: &Listing) -> String {
    let tasks = listing.0.iter().filter(|(directory, ..)| *directory != "rejected");
    let words = tasks.filter_map(|(directory, _, bytes)| {
        let task: Value = serde_json::from_slice(bytes).unwrap();
        task["payload"].is_object().then(|| {
            assert_eq!(task["payload"]["data"]["of"], "a");
            let count = |field: &str| task[field].as_u64().unwrap_or(0);
            format!("{directory} {}/{}", count("attempts"), count("lostAttempts"))
        })
    });
    words.collect::<Vec<_>>().join(" and ")
}

#[test]
fn what_counts_of_several() {
    for Row { pending, running, completed, fate, task, aside } in ROWS {
        let told = format!("{pending:?}, {running:?}, {completed:?}, {fate:?}");
        let parent = scratch();
        let path = parent.path().join("spool");
        let spool = open(&path);
        write(&path, "pending", *pending);
        write(&path, "running", *running);
        write(&path, "completed", *completed);
        let recovered = recover(&spool, *fate).unwrap();
        assert!(recovered.failed.is_empty(), "{told}: {:?}", recovered.failed);
        let listing = Listing::of(&path);
        assert_eq!(found(&listing), *task, "{told}: {:?}", listing.names());
        let report = listing.0.iter().find(|(_, name, _)| name == "a.json.report");
        let report: Option<Value> =
            report.map(|(.., bytes)| serde_json::from_slice(bytes).unwrap());
        let said = report.as_ref().map(|report| {
            assert_eq!(report["name"], "a.json", "{told}");
            assert_eq!(report["rejectedAt"], at(1_000).to_string(), "{told}");
            (report["directory"].as_str().unwrap(), report["reason"].as_str().unwrap())
        });
        assert_eq!(said, *aside, "{told}");
        assert_eq!(recovered.adopted.len(), usize::from(*fate == Alive), "{told}");
        assert_eq!(recovered.undecided.len(), usize::from(*fate == Unknown), "{told}");
        // It stays so.
        let again = recover(&spool, *fate).unwrap();
        assert!(again.removed.is_empty() && again.set_aside.is_empty(), "{told}: {again:?}");
    }
}

/// A run that lives on keeps its file although its task is completed, and neither purge nor retry
/// takes away that it is.
#[test]
fn a_run_that_lives_on_beside_its_completion_ends_before_that_is_forgotten() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    write(&path, "running", Same(1));
    write(&path, "completed", Same(1));
    let adopted = recover(&spool, Alive).unwrap().adopted.pop().unwrap();
    assert_eq!(Listing::of(&path).names(), ["completed/a.json", "running/a.json"]);
    assert_eq!(spool.purge(far_future(), at(0)).unwrap().completed, 0);
    assert!(matches!(spool.retry(&id("a"), at(150)), Err(RetryError::NotCompleted(_))));
    let end = Finish { task: adopted, next: Next::Completed(ended(1)) };
    spool.finish(vec![end], at(50)).pop().unwrap().unwrap();
    assert_eq!(found(&Listing::of(&path)), "completed 1/0");
    let kept = spool.read(State::Completed, &id("a")).unwrap().unwrap().unwrap();
    assert_eq!(kept.task.result.unwrap().exit_code, Some(0), "what was completed stays");
    assert_eq!(spool.purge(far_future(), at(0)).unwrap().completed, 1);
    assert_eq!(Listing::of(&path).names(), [""; 0]);
}

#[test]
fn temporary_files_are_ignored_and_removed() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    for directory in ["pending", "running", "completed"] {
        let file = |name| path.join("tasks").join(directory).join(name);
        std::fs::write(file(".tmp-a.json"), text("a", "PENDING", "")).unwrap();
        std::fs::write(file(".hidden"), "{").unwrap();
    }
    // A directory of that name cannot be removed, and keeps nothing from being recovered.
    std::fs::create_dir(path.join("tasks/running/.tmp-d")).unwrap();
    write(&path, "running", Same(1));
    let recovered = recover(&spool, Lost).unwrap();
    assert_eq!(recovered.returned.len(), 1);
    let failed: Vec<&str> = recovered.failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(failed, [".tmp-d"]);
    // A producer may be writing its own; after a day it is not.
    let left = [
        "completed/.hidden",
        "pending/.hidden",
        "pending/.tmp-a.json",
        "pending/a.json",
        "running/.hidden",
        "running/.tmp-d",
    ];
    assert_eq!(Listing::of(&path).names(), left);
    assert!(matches!(spool.look(".tmp-a.json", far_future()).unwrap(), Look::Ignored));
    let now = crate::made::machine_now();
    assert_eq!(spool.purge(at(0), now).unwrap().temporary, 0);
    assert_eq!(spool.purge(at(0), now.saturating_add_ms(90_000_000)).unwrap().temporary, 1);
}

/// A temporary file's age is that of its last change, whatever time its writer has given it; a
/// completed task's that of its last writing, whatever else has changed since. Files are not opened
/// for that, and a part of them can be purged at a time.
#[test]
fn what_is_purged_is_told_by_its_times_and_in_parts() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let old: std::time::SystemTime =
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let made = |name: &str| {
        let there = path.join("tasks").join(name);
        std::fs::write(&there, "{").unwrap();
        std::fs::File::options().write(true).open(&there).unwrap().set_modified(old).unwrap();
    };
    // As `cp -p` makes it, which still writes.
    made("pending/.tmp-copied");
    for name in ["a", "b", "c"] {
        made(&format!("completed/{name}.json"));
    }
    std::fs::write(path.join("tasks/completed/young.json"), "{").unwrap();
    std::fs::create_dir(path.join("tasks/completed/strange.json")).unwrap();
    let names = spool.purge_names().unwrap();
    let expected = [".tmp-copied", "a.json", "b.json", "c.json", "strange.json", "young.json"];
    assert_eq!(names, expected);
    let now = crate::made::machine_now();
    let hour_ago = now.saturating_add_ms(-3_600_000);
    let purged = spool.purge_some(&names[..3], hour_ago, now).unwrap();
    assert_eq!((purged.completed, purged.temporary), (2, 0));
    let purged = spool.purge_some(&names[3..], hour_ago, now).unwrap();
    assert_eq!((purged.completed, purged.temporary), (1, 0));
    let left = ["completed/strange.json", "completed/young.json", "pending/.tmp-copied"];
    assert_eq!(Listing::of(&path).names(), left);
    let tomorrow = now.saturating_add_ms(90_000_000);
    let purged = spool.purge_some(&names, tomorrow, tomorrow).unwrap();
    assert_eq!((purged.completed, purged.temporary), (1, 1));
}

/// Every end of a run, by the rules for retries and losses.
#[test]
fn a_task_goes_through_its_states_as_the_policy_says() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let rules = policy("T");
    spool.put(&[new_task("a")], at(0)).pop().unwrap().unwrap();
    let start = |spool: &Spool| {
        let Look::Task(found) = spool.look("a.json", far_future()).unwrap() else { panic!() };
        let start = Start { found: *found, run: a_run(7) };
        spool.start(vec![start], at(10)).pop().unwrap().unwrap()
    };
    // Three retries with doubled waits, and then it has failed for good.
    for (attempt, wait) in [(1, Some(10)), (2, Some(20)), (3, Some(40)), (4, None)] {
        let task = start(&spool);
        assert_eq!((task.attempts, task.state), (attempt, State::Running));
        assert_eq!(task.run, Some(a_run(7)));
        let next = rules.after(&task, ended(1), at(100));
        let task = spool.finish(vec![Finish { task, next }], at(100)).pop().unwrap().unwrap();
        assert_eq!(task.not_before, wait.map(|wait| at(100 + wait)));
        assert_eq!(task.last_error.as_deref(), Some("it exited with 1"));
        assert_eq!(task.run, None);
        assert_eq!(task.state == State::Completed, wait.is_none());
    }
    let failed = spool.read(State::Completed, &id("a")).unwrap().unwrap().unwrap().task;
    assert_eq!(failed.result, Some(ended(1)));
    // By hand it begins anew.
    let task = spool.retry(&id("a"), at(150)).unwrap();
    assert_eq!((task.attempts, task.state, task.result), (0, State::Pending, None));
    for lost in 0..10 {
        assert_eq!(start(&spool).lost_attempts, lost);
        assert_eq!(recover(&spool, Lost).unwrap().returned[0].lost_attempts, lost + 1);
    }
    start(&spool);
    let last = recover(&spool, Lost).unwrap().returned.pop().unwrap();
    assert_eq!(last.result.unwrap().error.unwrap(), "it was lost to a crash, for the 11. time");
    // What did what it should is not tried again.
    spool.retry(&id("a"), at(150)).unwrap();
    let task = start(&spool);
    let end = Finish { task, next: Next::Completed(ended(0)) };
    spool.finish(vec![end], at(200)).pop().unwrap().unwrap();
    let refused = spool.retry(&id("a"), at(150)).unwrap_err();
    assert_eq!(refused.to_string(), "task `a` has succeeded");
    let missing = spool.retry(&id("b"), at(150)).unwrap_err();
    assert_eq!(missing.to_string(), "task `b` is not completed");
}

/// A task that comes back finds its place taken by what a producer has put there meanwhile.
#[test]
fn a_task_comes_back_although_its_place_is_taken() {
    for (had, aside) in
        [(Same(0), None), (Other(0), Some(RUNNING)), (Garbage, Some("it has no `taskId`"))]
    {
        let parent = scratch();
        let path = parent.path().join("spool");
        let spool = open(&path);
        write(&path, "running", Same(1));
        write(&path, "pending", had);
        let task = spool.read(State::Running, &id("a")).unwrap().unwrap().unwrap().task;
        let finish = Finish { task, next: again(40) };
        spool.finish(vec![finish], far_future()).pop().unwrap().unwrap();
        let listing = Listing::of(&path);
        assert_eq!(found(&listing), "pending 1/0", "{had:?}");
        let report = listing.0.iter().find(|(_, name, _)| name == "a.json.report");
        let reason = report.map(|(.., bytes)| {
            let report: Value = serde_json::from_slice(bytes).unwrap();
            report["reason"].as_str().unwrap().to_owned()
        });
        assert_eq!(reason.as_deref(), aside, "{had:?}");
    }
}

/// Somebody uses an id again: the same task is nothing new, another one is set aside.
#[test]
fn a_used_id_is_used_for_ever() {
    for (had, state, words) in [
        (Same(0), "running", None),
        (Same(0), "completed", None),
        (Other(0), "running", Some(RUNNING)),
        (Other(0), "completed", Some(COMPLETED)),
    ] {
        let parent = scratch();
        let path = parent.path().join("spool");
        let spool = open(&path);
        write(&path, state, Same(1));
        write(&path, "pending", had);
        let Look::Repeat(repeat) = spool.look("a.json", far_future()).unwrap() else { panic!() };
        assert_eq!(repeat.other.directory(), state);
        let aside = spool.drop_repeat(&repeat, at(7)).unwrap();
        assert_eq!(aside.map(|aside| aside.fault.to_string()).as_deref(), words, "{had:?}");
        assert_eq!(found(&Listing::of(&path)), format!("{state} 1/0"));
        assert_eq!(spool.counts().unwrap().rejected, usize::from(words.is_some()));
    }
}

/// What is tried again by hand takes the place of what somebody else has put there.
#[test]
fn a_retry_finds_its_place_taken() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let failed = r#""attempts":4,"result":{"outcome":"FAILED","exitCode":1},"#;
    std::fs::write(path.join("tasks/completed/a.json"), text("a", "COMPLETED", failed)).unwrap();
    write(&path, "pending", Other(0));
    spool.retry(&id("a"), at(150)).unwrap();
    let listing = Listing::of(&path);
    assert_eq!(found(&listing), "pending 0/0");
    let report = listing.0.iter().find(|(_, name, _)| name == "a.json.report").unwrap();
    let report: Value = serde_json::from_slice(&report.2).unwrap();
    let expected = serde_json::json!({
        "name": "a.json",
        "directory": "pending",
        "rejectedAt": at(150).to_string(),
        "reason": COMPLETED,
    });
    assert_eq!(report, expected);
}
