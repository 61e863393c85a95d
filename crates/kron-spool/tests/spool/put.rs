//! Putting tasks: once for every id, whoever puts it and wherever it has got to.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use kron_spool::{
    Fault, Finish, IdSource, Look, NewTask, Next, Put, PutError, Spool, Start, State,
    TASK_BYTES_MAX, TASK_DEPTH_MAX,
};
use kron_testkit::files::scratch;
use kron_testkit::needs::{Need, left_out};
use serde_json::Value;

use crate::child;
use crate::made::{
    STRANGER, a_run, at, data, ended, far_future, id, machine_now, new_task, open, open_with, text,
};
use crate::promises::Listing;

fn put(spool: &Spool, tasks: &[NewTask]) -> Vec<Result<Put, String>> {
    let results = spool.put(tasks, at(0));
    results.into_iter().map(|result| result.map_err(|error| error.to_string())).collect()
}

/// It is there already, to do the same.
fn there(state: State) -> Put {
    Put::Present { state, same: Some(true) }
}

fn start(spool: &Spool, name: &str) -> kron_spool::Task {
    let Look::Task(found) = spool.look(name, far_future()).unwrap() else { panic!("{name}") };
    spool.start(vec![Start { found: *found, run: a_run(1) }], at(1)).pop().unwrap().unwrap()
}

#[test]
fn a_task_is_put_once_wherever_it_has_got_to() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    assert_eq!(put(&spool, &[new_task("a")]), [Ok(Put::New)]);
    let first = Listing::of(&path).0;
    assert_eq!(put(&spool, &[new_task("a")]), [Ok(there(State::Pending))]);
    assert_eq!(Listing::of(&path).0, first);
    let task = start(&spool, "a.json");
    assert_eq!(put(&spool, &[new_task("a")]), [Ok(there(State::Running))]);
    spool.finish(vec![Finish { task, next: Next::Completed(ended(0)) }], at(2));
    assert_eq!(put(&spool, &[new_task("a")]), [Ok(there(State::Completed))]);
    assert_eq!(Listing::of(&path).names(), ["completed/a.json"]);
}

#[test]
fn a_batch_with_an_id_twice_puts_it_once() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let other = NewTask::new(id("a"), "T", "7").unwrap();
    let batch = [new_task("a"), new_task("b"), other, new_task("b")];
    let other = Ok(Put::Present { state: State::Pending, same: Some(false) });
    let expected = [Ok(Put::New), Ok(Put::New), other, Ok(there(State::Pending))];
    assert_eq!(put(&spool, &batch), expected);
    assert_eq!(Listing::of(&path).names(), ["pending/a.json", "pending/b.json"]);
    let kept = spool.read(State::Pending, &id("a")).unwrap().unwrap().unwrap();
    assert!(kept.task.payload.text().contains(&data("a")), "the first counts");
}

/// One of an id that cannot be put does not count as the first of that id.
#[test]
fn a_repeat_of_what_was_not_put_is_not_acknowledged() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let long = NewTask::new(id("a"), "T", &format!("\"{}\"", "x".repeat(TASK_BYTES_MAX))).unwrap();
    let results = put(&spool, &[long.clone(), new_task("a")]);
    assert_eq!(results, [Err("it has more than 262144 bytes".to_owned()), Ok(Put::New)]);
    assert_eq!(Listing::of(&path).names(), ["pending/a.json"]);
    let results = put(&spool, &[long]);
    assert_eq!(results, [Ok(Put::Present { state: State::Pending, same: Some(false) })]);
}

#[test]
fn what_is_in_the_way_and_no_task_is_not_taken_for_one() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    std::fs::write(path.join("tasks/pending/a.json"), "{").unwrap();
    let shown = path.join("tasks/pending/a.json").display().to_string();
    let words = format!("`{shown}` is in the way: its JSON ends before it is complete");
    assert_eq!(put(&spool, &[new_task("a"), new_task("b")]), [Err(words), Ok(Put::New)]);
    let others = spool.put(&[new_task("a")], at(0)).pop().unwrap().unwrap_err();
    assert!(matches!(others, PutError::InTheWay { fault: Fault::CutShort, .. }));
}

#[test]
fn what_cannot_be_a_task_is_not_put() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let told = |task_type: &str, data: &str| {
        NewTask::new(id("a"), task_type, data).map(|_| ()).map_err(|fault| fault.to_string())
    };
    // With what surrounds it in its file.
    assert_eq!(told("T", &deep(TASK_DEPTH_MAX - 2)), Ok(()));
    let too_deep = Err("its JSON is nested more than 64 deep".to_owned());
    assert_eq!(told("T", &deep(TASK_DEPTH_MAX - 1)), too_deep);
    assert_eq!(told("T", &deep(100_000)), too_deep);
    assert_eq!(
        told("T", "{"),
        Err("`data`: it is not JSON: EOF while parsing an object at line 1 column 1".to_owned())
    );
    assert_eq!(told("", "1"), Err("`type`: a type has 1 to 64 bytes".to_owned()));
    assert_eq!(
        told("a b", "1"),
        Err("`type`: `a b`: a type is made of letters, digits, `_`, `-` and `.`".to_owned())
    );
    // The longest and the deepest that can be put can be read.
    let parent = scratch();
    let spool = open(&parent.path().join("spool"));
    let around = Listing::of(&parent.path().join("spool")).0.len();
    assert_eq!(around, 0);
    let longest = |bytes: usize| {
        NewTask::new(id("long"), "T", &format!("\"{}\"", "x".repeat(bytes))).unwrap()
    };
    let fits = (TASK_BYTES_MAX - 400..TASK_BYTES_MAX)
        .rev()
        .find(|bytes| put(&spool, &[longest(*bytes)])[0].is_ok())
        .unwrap();
    let path = parent.path().join("spool/tasks/pending/long.json");
    assert_eq!(std::fs::metadata(path).unwrap().len(), TASK_BYTES_MAX as u64, "{fits}");
    let deepest = NewTask::new(id("deep"), "T", &deep(TASK_DEPTH_MAX - 2)).unwrap();
    assert_eq!(put(&spool, &[deepest]), [Ok(Put::New)]);
    for name in ["long.json", "deep.json"] {
        assert!(matches!(spool.look(name, far_future()), Ok(Look::Task(_))), "{name}");
        // Also with all that is written into it later.
        let task = start(&spool, name);
        let mut worst = ended(1);
        worst.error = Some("\u{1}".repeat(10_000));
        worst.output = Some("\u{1}".repeat(10_000));
        let again = Next::Again { error: "\u{1}".repeat(10_000), not_before: at(5) };
        spool.finish(vec![Finish { task, next: again }], at(4)).pop().unwrap().unwrap();
        let task = start(&spool, name);
        let end = Finish { task, next: Next::Completed(worst) };
        let task = spool.finish(vec![end], at(6)).pop().unwrap().unwrap();
        let read = spool.read(State::Completed, &task.id).unwrap().unwrap().unwrap();
        let result = read.task.result.unwrap();
        assert_eq!(result.output.unwrap().len(), kron_spool::OUTPUT_BYTES_MAX);
        assert_eq!(result.error.unwrap().len(), 1_024);
    }
}

#[test]
fn ids_of_uuids_come_in_the_order_in_which_they_were_made() {
    let parent = scratch();
    let spool = open(&parent.path().join("spool"));
    let source = IdSource::default();
    let now = machine_now();
    let made: Vec<_> =
        (0..300).map(|n| source.next(now.saturating_add_ms(n / 50)).unwrap()).collect();
    let tasks: Vec<_> =
        made.iter().map(|id| NewTask::new(id.clone(), "T", "null").unwrap()).collect();
    assert!(put(&spool, &tasks).iter().all(|put| *put == Ok(Put::New)));
    assert_eq!(spool.ids(State::Pending).unwrap(), made);
}

#[test]
fn a_task_says_before_when_it_is_not_to_be_started() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    assert_eq!(put(&spool, &[new_task("a").not_before(at(90))]), [Ok(Put::New)]);
    let [(_, _, bytes)] = &Listing::of(&path).0[..] else { panic!() };
    let task: Value = serde_json::from_slice(bytes).unwrap();
    let expected = serde_json::json!({
        "taskId": "a",
        "state": "PENDING",
        "createdAt": "2026-03-01T00:00:00.000Z",
        "payload": { "type": "T", "data": { "of": "a" } },
        "notBefore": "2026-03-01T00:01:30.000Z",
    });
    assert_eq!(task, expected);
    let found = spool.read(State::Pending, &id("a")).unwrap().unwrap().unwrap();
    assert_eq!(found.task.not_before, Some(at(90)));
    assert_eq!(start(&spool, "a.json").not_before, None);
}

/// Exactly one file each, all of them whole, and everybody is told that they are there.
fn check_two_hundred(path: &Path, said: &[Vec<String>]) {
    let mut new = 0;
    for lines in said {
        assert_eq!(lines.len(), 200, "{lines:?}");
        for (number, line) in lines.iter().enumerate() {
            match line.strip_prefix(&format!("t{number} ")) {
                Some("New") => new += 1,
                Some("Present { state: Pending, same: Some(true) }") => {}
                _ => panic!("{line}"),
            }
        }
    }
    assert_eq!(new, 200, "each is new to one of them");
    let listing = Listing::of(path);
    assert_eq!(listing.0.len(), 200, "{:?}", listing.names());
    let spool = Spool::open_to_read(path).unwrap();
    for id in spool.ids(State::Pending).unwrap() {
        let task = spool.read(State::Pending, &id).unwrap().unwrap().unwrap().task;
        assert!(task.payload.text().contains(&data(id.as_str())), "{id}: {:?}", task.payload);
    }
}

#[test]
fn processes_that_put_the_same_at_once_are_all_acknowledged() {
    let parent = scratch();
    let path = parent.path().join("spool");
    drop(open(&path));
    let mut children: Vec<_> = (0..4).map(|_| child::start("put_two_hundred", &path)).collect();
    let said = children.iter_mut().map(|child| std::iter::from_fn(|| child.said()).collect());
    check_two_hundred(&path, &said.collect::<Vec<Vec<String>>>());
}

/// Each thread has a spool of its own, as two producers in containers may have the same process id.
#[test]
fn threads_that_put_the_same_at_once_are_all_acknowledged() {
    let parent = scratch();
    let path = parent.path().join("spool");
    drop(open(&path));
    let put_all = || {
        let spool = Spool::open_to_put(&path).unwrap();
        let names = (0..200).map(|number| format!("t{number}"));
        let lines = names.map(|name| {
            let put = spool.put(&[new_task(&name)], at(0)).pop().unwrap();
            put.map_or_else(|error| format!("{name} {error}"), |put| format!("{name} {put:?}"))
        });
        lines.collect::<Vec<String>>()
    };
    let said: Vec<Vec<String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(put_all)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    check_two_hundred(&path, &said);
}

/// Others use the same spool while its holder starts and ends what they put: what is acknowledged
/// is there, or was.
#[test]
fn a_put_that_meets_a_start_is_acknowledged_and_nothing_runs_twice() {
    let parent = scratch();
    let path = parent.path().join("spool");
    let spool = open(&path);
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut starts = std::collections::BTreeMap::<String, u32>::new();
    std::thread::scope(|scope| {
        let producers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let producer = Spool::open_to_put(&path).unwrap();
                    for number in 0..150 {
                        let name = format!("t{number}");
                        for put in producer.put(&[new_task(&name)], at(0)) {
                            put.unwrap();
                        }
                    }
                })
            })
            .collect();
        let holder = scope.spawn(|| {
            let mut starts = std::collections::BTreeMap::<String, u32>::new();
            loop {
                let last = done.load(std::sync::atomic::Ordering::Acquire);
                for name in spool.pending_names().unwrap() {
                    let found = match spool.look(&name, far_future()).unwrap() {
                        Look::Task(found) => *found,
                        Look::Repeat(repeat) => {
                            assert!(repeat.same);
                            spool.drop_repeat(&repeat, at(0)).unwrap();
                            continue;
                        }
                        Look::Ignored | Look::Gone => continue,
                        other => panic!("{other:?}"),
                    };
                    let start = Start { found, run: a_run(1) };
                    let task = spool.start(vec![start], at(1)).pop().unwrap().unwrap();
                    *starts.entry(name).or_default() += 1;
                    let end = Finish { task, next: Next::Completed(ended(0)) };
                    spool.finish(vec![end], at(2)).pop().unwrap().unwrap();
                }
                if last {
                    return starts;
                }
            }
        });
        for producer in producers {
            producer.join().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Release);
        starts = holder.join().unwrap();
    });
    assert_eq!(starts.len(), 150);
    assert!(starts.values().all(|count| *count == 1), "{starts:?}");
    let names = Listing::of(&path).names();
    assert_eq!(names.len(), 150, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("completed/")), "{names:?}");
}

/// Another user, who may neither look into `running/` nor into `completed/`.
#[test]
fn a_producer_needs_nothing_but_pending() {
    let name = "a producer needs nothing but `pending/`";
    if left_out(name, &[Need::Root]) {
        return;
    }
    // Neither the test program nor the spool may be where only root can go.
    let parent = tempfile::tempdir().unwrap();
    let open_to = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open_to(parent.path(), 0o755);
    let path = parent.path().join("spool");
    let spool = open_with(&path, &[STRANGER]);
    let ran = || child::run_as(STRANGER, "put_two_hundred", &path);
    let shown = path.display();
    assert_eq!(ran(), [format!("not opened: cannot open the directory `{shown}/tasks/pending`")]);
    // It need not see what else there is.
    open_to(&path, 0o711);
    open_to(&path.join("tasks"), 0o711);
    open_to(&path.join("tasks/pending"), 0o1777);
    let said = ran();
    assert_eq!(said.first().map(String::as_str), Some("t0 New"), "{said:?}");
    let said = ran();
    assert_eq!(
        said.first().map(String::as_str),
        Some("t0 Present { state: Pending, same: Some(true) }"),
        "{said:?}"
    );
    assert_eq!(Listing::of(&path).0.len(), 200);
    // They are read, and are the daemon's from then on.
    start(&spool, "t0.json");
    assert_eq!(put(&spool, &[new_task("t0")]), [Ok(there(State::Running))]);
    // Who may not see that it is further on puts it again, which nobody runs.
    assert_eq!(ran()[0], "t0 New");
    match spool.look("t0.json", far_future()).unwrap() {
        Look::Repeat(repeat) => {
            assert!(repeat.same && repeat.other == State::Running);
            spool.drop_repeat(&repeat, at(0)).unwrap();
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(spool.look("t0.json", far_future()).unwrap(), Look::Gone));
    // One that is no producer is refused.
    let foreign = path.join("tasks/pending/x.json");
    std::fs::write(&foreign, text("x", "PENDING", "")).unwrap();
    chown(&foreign, Some(STRANGER + 1), None).unwrap();
    let Look::Unfit(fault) = spool.look("x.json", far_future()).unwrap() else { panic!() };
    assert_eq!(fault.to_string(), "it belongs to user 12346, whose files are not accepted here");
}

/// A daemon that is not root: what root puts is its, and what others put can be read by it, or is not
/// put.
#[test]
fn a_daemon_that_is_not_root_can_read_what_is_put() {
    let name = "a daemon that is not root can read what is put";
    if left_out(name, &[Need::Root]) {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let open_to = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open_to(parent.path(), 0o755);
    let path = parent.path().join("spool");
    drop(open(&path));
    let daemon = STRANGER + 1;
    for directory in ["", "tasks", "tasks/pending", "tasks/running", "tasks/completed", "rejected"]
    {
        chown(path.join(directory), Some(daemon), Some(daemon)).unwrap();
    }
    let root = Spool::open_to_put(&path).unwrap();
    assert_eq!(put(&root, &[new_task("of-root")]), [Ok(Put::New)]);
    assert_eq!(child::run_as(daemon, "look_at_all", &path), ["of-root.json: a task"]);
    // Others could put files there that it cannot read, unless the directory gives them its group.
    open_to(&path, 0o711);
    open_to(&path.join("tasks"), 0o711);
    let pending = path.join("tasks/pending");
    open_to(&pending, 0o1777);
    let said = child::run_as(STRANGER, "put_two_hundred", &path);
    let words = format!(
        "not opened: user {daemon}, whom `{}` belongs to, could not read a task that was put \
         there: it would have another group than the directory",
        pending.display()
    );
    assert_eq!(said, [words]);
    open_to(&pending, 0o3777);
    let said = child::run_hiding_as(STRANGER, "put_two_hundred", &path);
    assert_eq!(said.first().map(String::as_str), Some("t0 New"), "{said:?}");
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata(pending.join("t0.json")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (STRANGER, daemon, 0o640));
}
