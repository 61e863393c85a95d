//! The attendant's rules, one situation at a time, without a disk or a process.

use std::collections::BTreeMap;

use kron_config::{Action, Execution, HandlerTarget, RetrySettings, SpoolSettings};
use kron_core::Seconds;
use kron_spool::Fault;
use kron_state::{Cause, ExitStatus, FileVersion, Operation, RunEnd};

use super::*;

/// An attendant whose steps are looked at instead of carried out.
struct World {
    attendant: Attendant,
    now: Moment,
    /// Every step that has not been looked at, but for the log.
    steps: Vec<Step>,
    /// The events of the log.
    said: Vec<&'static str>,
    happened: Vec<Happened>,
    /// What is in `pending/`.
    files: BTreeMap<TaskId, Task>,
}

fn settings(workers_max: u32, types: &[&str]) -> SpoolSettings {
    let retry = RetrySettings {
        retries_max: 2,
        lost_retries_max: 1,
        backoff: Seconds::new(10),
        backoff_max: Seconds::new(15),
    };
    let handler = |task_type: &&str| Handler {
        job_type: (*task_type).to_owned(),
        target: HandlerTarget::Command(Action::Program(vec!["true".to_owned()].into())),
        execution: Arc::new(Execution::default()),
        skip_codes: vec![75],
        workers_max: None,
        retry,
    };
    SpoolSettings {
        name: "s".to_owned(),
        dir: "/s".to_owned(),
        workers_max,
        retry,
        keep: Seconds::new(1),
        stop_grace: Seconds::new(20),
        producers: Vec::new(),
        handlers: types.iter().map(handler).collect(),
    }
}

fn task(id: &str, task_type: &str, created_second: u32) -> Task {
    task_with(id, task_type, created_second, "")
}

fn task_with(id: &str, task_type: &str, created_second: u32, more: &str) -> Task {
    let text = format!(
        r#"{{ "taskId": "{id}", "state": "PENDING", "createdAt": "2027-01-15T08:00:{created_second:02}Z",
              "payload": {{ "type": "{task_type}", "data": null }}{more} }}"#
    );
    Task::parse(text.as_bytes(), &TaskId::new(id).unwrap(), State::Pending).unwrap()
}

fn process(pid: i32) -> Process {
    Process { pid, start_ticks: 1 }
}

fn exit(code: i32) -> Report {
    let end = RunEnd {
        status: ExitStatus::ExitCode(code),
        cause: Cause::Own,
        at: kron_core::UtcSecond::from_unix(0).unwrap(),
        output_bytes: 0,
        output_dropped: 0,
    };
    Report { record: Some(RunRecord::Ended(end)), reaped: None }
}

const LOST: Report = Report { record: None, reaped: None };
const NOT_RELEASED: Report = Report { record: Some(RunRecord::NotReleased), reaped: None };

fn refused() -> SpoolError {
    let source = std::io::Error::from_raw_os_error(28);
    SpoolError::Io { operation: Operation::Write, path: "a file".to_owned(), source }
}

fn broken() -> SpoolError {
    SpoolError::Broken { path: "a directory".to_owned() }
}

fn failure() -> StartFailure {
    StartFailure {
        category: Category::Execution,
        operation: "setuid".to_owned(),
        message: "no such user".to_owned(),
    }
}

impl World {
    fn new(workers_max: u32, types: &[&str]) -> World {
        World::of(&settings(workers_max, types))
    }

    fn of(settings: &SpoolSettings) -> World {
        let wall = kron_queue::Timestamp::from_unix_ms(1_800_000_000_000).unwrap();
        World {
            attendant: Attendant::new("s", Rules::of(settings), 1),
            now: Moment { wall, boot: Duration::from_secs(1_000) },
            steps: Vec::new(),
            said: Vec::new(),
            happened: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    /// Takes what the attendant wants.
    fn take(&mut self) {
        for step in self.attendant.take_steps() {
            match step {
                Step::Log(entry) => self.said.push(entry.event),
                other => self.steps.push(other),
            }
        }
        self.happened.extend(self.attendant.take_happened());
    }

    /// Everything wanted since this was last asked.
    fn all(&mut self) -> Vec<Step> {
        self.take();
        std::mem::take(&mut self.steps)
    }

    fn one(&mut self) -> Step {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[track_caller]
    fn nothing(&mut self) {
        let all = self.all();
        assert!(all.is_empty(), "{all:?}");
    }

    fn pass(&mut self, seconds: u64) {
        self.now.boot += Duration::from_secs(seconds);
        self.now.wall = self.now.wall.saturating_add_ms(seconds as i64 * 1_000);
        self.attendant.tick(self.now);
    }

    fn sleep(&self) -> u64 {
        self.attendant.sleep(self.now).as_secs()
    }

    /// Tasks wait that were looked at together.
    fn wait(&mut self, tasks: &[Task]) {
        let looked = tasks.iter().map(|task| Looked::Waits(waiter(task))).collect();
        self.files.extend(tasks.iter().map(|task| (task.id.clone(), task.clone())));
        self.attendant.looked(self.now, looked);
    }

    /// The tasks that are to be read.
    #[track_caller]
    fn fetches(&mut self) -> Vec<(RunId, String)> {
        let fetch = |step| match step {
            Step::Fetch(run, id) => (run, id.to_string()),
            other => panic!("{other:?}"),
        };
        self.all().into_iter().map(fetch).collect()
    }

    #[track_caller]
    fn fetch(&mut self, id: &str) -> RunId {
        let mut fetches = self.fetches();
        assert_eq!(fetches.len(), 1, "{fetches:?}");
        assert_eq!(fetches[0].1, id);
        fetches.remove(0).0
    }

    fn found(&self, id: &str) -> Found {
        let task = self.files[&TaskId::new(id).unwrap()].clone();
        Found {
            task,
            version: FileVersion { device: 1, inode: 1, changed_ns: 1, modified_ns: 1, bytes: 1 },
        }
    }

    /// The one task that is to be read is, and its command is on its way to the gate.
    #[track_caller]
    fn launch(&mut self, id: &str) -> RunId {
        let run = self.fetch(id);
        self.attendant.fetched(self.now, &run, Ok(self.found(id)));
        match self.one() {
            Step::Launch(launch) => assert_eq!(launch.run, run),
            other => panic!("{other:?}"),
        }
        run
    }

    fn arm(&mut self, run: &RunId) {
        self.attendant.armed(run, process(42), process(43), "boot".to_owned());
    }

    /// Its command is at the gate, and its task to be moved.
    #[track_caller]
    fn gate(&mut self, id: &str) -> (RunId, Task) {
        let run = self.launch(id);
        self.arm(&run);
        let Step::Start(of, start) = self.one() else { panic!("no start") };
        assert_eq!((of, start.run.supervisor.pid, start.run.command.pid), (run.clone(), 42, 43));
        let mut task = start.found.task;
        task.state = State::Running;
        task.attempts += 1;
        task.not_before = None;
        task.started_at = Some(self.now.wall.0);
        task.run = Some(start.run);
        (run, task)
    }

    /// It runs.
    #[track_caller]
    fn run(&mut self, id: &str) -> RunId {
        let (run, task) = self.gate(id);
        self.nothing();
        self.attendant.started(self.now, &run, Ok(task));
        assert!(matches!(self.one(), Step::LetGo(of) if of == run), "only when that is durable");
        run
    }

    /// It has ended, and this is to be recorded.
    #[track_caller]
    fn end(&mut self, run: &RunId, report: &Report) -> Finish {
        self.attendant.ended(self.now, run, report);
        match self.one() {
            Step::Finish(of, finish) if of == *run => *finish,
            other => panic!("{other:?}"),
        }
    }

    /// That is recorded.
    fn record(&mut self, run: &RunId, finish: &Finish) -> Task {
        let mut task = finish.task.clone();
        task.state = State::Pending;
        task.run = None;
        match &finish.next {
            Next::Completed(result) => {
                task.state = State::Completed;
                task.result = Some(result.clone());
            }
            Next::Again { error, not_before } => {
                task.last_error = Some(error.clone());
                task.not_before = Some(*not_before);
            }
            Next::Lost { .. } => task.lost_attempts += 1,
            Next::NotStarted => task.attempts -= 1,
        }
        if task.state == State::Pending {
            self.files.insert(task.id.clone(), task.clone());
        }
        self.attendant.finished(self.now, run, Ok(task.clone()));
        task
    }
}

#[test]
fn a_command_is_let_go_when_its_task_is_moved_and_acknowledged_when_its_end_is() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    assert!(world.attendant.owns(&run));
    let finish = world.end(&run, &exit(0));
    let Next::Completed(result) = &finish.next else { panic!("{finish:?}") };
    assert_eq!((result.outcome, result.exit_code), (Outcome::Succeeded, Some(0)));
    world.nothing();
    world.record(&run, &finish);
    assert!(matches!(world.one(), Step::Acknowledge(of) if of == run));
    assert!(world.attendant.is_idle() && !world.attendant.owns(&run));
    assert!(matches!(
        world.happened[..],
        [Happened::Started { .. }, Happened::Ended { outcome: Outcome::Succeeded, .. }]
    ));
}

#[test]
fn the_oldest_goes_first_and_ties_go_by_id() {
    let mut world = World::new(1, &["a", "b"]);
    let tasks = [task("d", "a", 3), task("c", "b", 2), task("b", "a", 1), task("a", "b", 2)];
    world.wait(&tasks);
    let mut order = Vec::new();
    for _ in tasks {
        let (run, id) = world.fetches().remove(0);
        order.push(id.clone());
        world.attendant.fetched(world.now, &run, Err(Looked::Gone(format!("{id}.json"))));
    }
    assert_eq!(order, ["b", "a", "c", "d"]);
    assert!(world.attendant.is_idle());
}

#[test]
fn as_many_run_as_there_are_workers_and_the_next_when_one_has_ended() {
    let mut world = World::new(2, &["a"]);
    world.wait(&[task("1", "a", 1), task("2", "a", 2), task("3", "a", 3)]);
    let fetches = world.fetches();
    assert_eq!(fetches.len(), 2);
    world.attendant.fetched(world.now, &fetches[0].0, Ok(world.found("1")));
    assert!(matches!(world.one(), Step::Launch(_)), "and nothing more");
    world.attendant.fetched(world.now, &fetches[1].0, Err(Looked::Gone("2.json".to_owned())));
    world.fetch("3");
    assert_eq!(world.attendant.running_len(), 2);
}

#[test]
fn a_type_has_its_own_limit_and_does_not_keep_others_waiting() {
    let mut settings = settings(3, &["a", "b"]);
    settings.handlers[0].workers_max = Some(1);
    let mut world = World::of(&settings);
    world.wait(&[task("1", "a", 1), task("2", "a", 2), task("3", "b", 3)]);
    let ids: Vec<String> = world.fetches().into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, ["1", "3"]);
}

#[test]
fn a_type_without_a_handler_waits_until_it_has_one() {
    let mut world = World::new(2, &["a"]);
    world.wait(&[task("1", "other", 1), task("2", "a", 2)]);
    let run = world.run("2");
    assert_eq!(world.attendant.waiting().unhandled_len(["a"].into_iter()), 1);
    world.pass(100_000);
    world.nothing();
    world.attendant.reconfigure(world.now, Rules::of(&settings(2, &["other"])));
    world.fetch("1");
    // What runs goes on as it was begun, with the codes of the handler it had.
    let finish = world.end(&run, &exit(75));
    let Next::Completed(result) = finish.next else { panic!("{finish:?}") };
    assert_eq!(result.outcome, Outcome::Skipped);
}

#[test]
fn a_reload_changes_how_many_run() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("1", "a", 1), task("2", "a", 2), task("3", "a", 3)]);
    assert_eq!(world.fetches().len(), 1);
    world.attendant.reconfigure(world.now, Rules::of(&settings(3, &["a"])));
    assert_eq!(world.fetches().len(), 2);
    let mut world = World::new(3, &["a"]);
    world.attendant.reconfigure(world.now, Rules::of(&settings(1, &["a"])));
    world.wait(&[task("1", "a", 1), task("2", "a", 2)]);
    assert_eq!(world.fetches().len(), 1);
}

#[test]
fn a_task_is_not_started_before_its_time() {
    let mut world = World::new(1, &["a"]);
    let later = r#", "notBefore": "2027-01-15T08:00:30Z""#;
    world.wait(&[task_with("t", "a", 0, later)]);
    world.nothing();
    assert_eq!((world.sleep(), world.attendant.waiting().delayed_len()), (30, 1));
    world.pass(29);
    world.nothing();
    world.pass(4);
    world.run("t");
    let waited = Duration::from_secs(3);
    assert_eq!(world.happened, [Happened::Started { waited }], "since it was due");
}

#[test]
fn one_that_was_put_off_while_it_is_read_waits_for_its_new_time() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.fetch("t");
    let later = task_with("t", "a", 0, r#", "notBefore": "2027-01-15T08:00:30Z""#);
    let found = Found { task: later.clone(), ..world.found("t") };
    world.attendant.fetched(world.now, &run, Ok(found));
    world.nothing();
    assert_eq!(world.sleep(), 30);
    world.files.insert(later.id.clone(), later);
    world.pass(30);
    world.launch("t");
}

#[test]
fn one_that_was_replaced_by_another_type_while_it_is_read_waits_as_that() {
    let mut world = World::new(1, &["a", "b"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.fetch("t");
    let found = Found { task: task("t", "b", 0), ..world.found("t") };
    world.attendant.fetched(world.now, &run, Ok(found));
    let again = world.fetch("t");
    assert_ne!(run, again);
    world.attendant.fetched(
        world.now,
        &again,
        Ok(Found { task: task("t", "b", 0), ..world.found("t") }),
    );
    assert!(matches!(world.one(), Step::Launch(launch) if launch.handler.job_type == "b"));
}

#[test]
fn a_failure_is_tried_again_after_a_wait_that_doubles_and_then_ends() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    // Doubled to 20 s, and cut at the longest, 15 s.
    for wait in [10, 15] {
        let run = world.run("t");
        let finish = world.end(&run, &exit(1));
        let Next::Again { error, not_before } = &finish.next else { panic!("{finish:?}") };
        assert_eq!(error, "exit code 1");
        assert_eq!(not_before.unix_ms() - world.now.wall.unix_ms(), wait * 1_000);
        world.record(&run, &finish);
        assert!(matches!(world.one(), Step::Acknowledge(_)), "and not started at once");
        assert_eq!(world.sleep(), wait as u64);
        world.pass(wait as u64);
    }
    let run = world.run("t");
    let finish = world.end(&run, &exit(1));
    let Next::Completed(result) = &finish.next else { panic!("{finish:?}") };
    assert_eq!((result.outcome, result.exit_code), (Outcome::Failed, Some(1)));
    world.record(&run, &finish);
    world.all();
    world.pass(100_000);
    world.nothing();
    let retried = world.happened.iter().filter(|it| matches!(it, Happened::Retried { .. }));
    assert_eq!(retried.count(), 2);
}

#[test]
fn a_lost_run_is_started_again_at_once_and_has_its_own_cap() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    let finish = world.end(&run, &LOST);
    assert!(matches!(finish.next, Next::Lost { .. }));
    world.record(&run, &finish);
    let steps = world.all();
    assert!(matches!(&steps[..], [Step::Acknowledge(_), Step::Fetch(..)]), "{steps:?}");
    let Step::Fetch(run, _) = &steps[1] else { panic!() };
    world.steps.push(Step::Fetch(run.clone(), TaskId::new("t").unwrap()));
    let run = world.run("t");
    let finish = world.end(&run, &LOST);
    let Next::Completed(result) = finish.next else { panic!("{finish:?}") };
    assert_eq!(result.outcome, Outcome::Failed);
    assert_eq!(world.happened.iter().filter(|it| **it == Happened::Lost).count(), 2);
}

#[test]
fn commands_that_cannot_be_started_make_their_type_wait_and_touch_no_task() {
    let mut world = World::new(1, &["a", "b"]);
    world.wait(&[task("1", "a", 1), task("2", "b", 2)]);
    for pause in [10, 20, 40, 80, 160, 300, 300] {
        let run = world.launch("1");
        world.attendant.not_launched(world.now, &run, &failure());
        if pause == 10 {
            let other = world.fetch("2");
            world.attendant.fetched(world.now, &other, Err(Looked::Gone("2.json".to_owned())));
        }
        world.nothing();
        assert_eq!(world.sleep(), pause);
        world.pass(pause - 1);
        world.nothing();
        world.pass(1);
    }
    // Once one has come through, it begins anew.
    let run = world.run("1");
    let finish = world.end(&run, &exit(0));
    assert_eq!(finish.task.attempts, 1, "what was not started is no attempt");
    world.record(&run, &finish);
    world.all();
    world.wait(&[task("3", "a", 3)]);
    let run = world.launch("3");
    world.attendant.not_launched(world.now, &run, &failure());
    assert_eq!(world.sleep(), 10);
    // And a reload may have mended it.
    world.attendant.reconfigure(world.now, Rules::of(&settings(1, &["a"])));
    world.launch("3");
}

#[test]
fn a_command_that_was_let_go_and_cannot_be_executed_has_failed() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    world.attendant.not_launched(world.now, &run, &failure());
    let Step::Finish(_, finish) = world.one() else { panic!("no end") };
    let Next::Again { error, .. } = finish.next else { panic!("{finish:?}") };
    assert_eq!(error, "it could not be started: setuid: no such user");
}

#[test]
fn one_that_was_not_released_counts_for_nothing_and_waits_for_its_type() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    let finish = world.end(&run, &NOT_RELEASED);
    assert_eq!(finish.next, Next::NotStarted);
    assert_eq!(world.record(&run, &finish).attempts, 0);
    assert!(matches!(world.one(), Step::Acknowledge(_)), "not in a circle");
    world.pass(10);
    world.launch("t");
}

#[test]
fn one_that_goes_away_from_its_gate_while_its_task_is_moved_is_moved_back() {
    for report in [NOT_RELEASED, LOST] {
        let mut world = World::new(1, &["a"]);
        world.wait(&[task("t", "a", 0)]);
        let (run, running) = world.gate("t");
        world.attendant.ended(world.now, &run, &report);
        world.nothing();
        world.attendant.started(world.now, &run, Ok(running));
        let steps = world.all();
        let [Step::Abandon(_), Step::Finish(_, finish)] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(finish.next, Next::NotStarted, "nobody had let it go");
        let finish = finish.clone();
        world.record(&run, &finish);
        assert!(matches!(world.one(), Step::Acknowledge(_)));
        world.pass(10);
        world.launch("t");
    }
}

#[test]
fn a_disk_that_refuses_a_start_is_asked_again_later() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0), task("u", "a", 1)]);
    let (run, _) = world.gate("t");
    world.attendant.started(world.now, &run, Err(refused()));
    let steps = world.all();
    assert!(matches!(&steps[..], [Step::Abandon(_), Step::Acknowledge(_)]), "{steps:?}");
    assert!(world.attendant.failure().is_none());
    assert_eq!((world.sleep(), world.attendant.waiting().len()), (5, 2));
    world.wait(&[task("v", "a", 2)]);
    world.pass(4);
    world.nothing();
    world.pass(1);
    world.run("t");
}

#[test]
fn a_disk_that_refuses_an_end_is_asked_again_and_the_supervisor_waits() {
    let mut world = World::new(2, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    let finish = world.end(&run, &exit(0));
    world.attendant.finished(world.now, &run, Err(refused()));
    world.nothing();
    assert_eq!(world.sleep(), 5);
    world.wait(&[task("u", "a", 1)]);
    world.nothing();
    world.pass(5);
    let steps = world.all();
    let [Step::Finish(of, again), Step::Fetch(..)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((of, &again.next), (&run, &finish.next));
    world.record(&run, &finish);
    assert!(matches!(world.one(), Step::Acknowledge(of) if of == run));
}

#[test]
fn when_nothing_more_can_be_promised_it_rests_and_lets_nothing_go() {
    let mut world = World::new(3, &["a"]);
    world.wait(&[task("1", "a", 1)]);
    let (starting, moved) = world.gate("1");
    world.wait(&[task("2", "a", 2)]);
    let launching = world.launch("2");
    world.wait(&[task("3", "a", 3)]);
    let fetching = world.fetch("3");
    world.wait(&[task("4", "a", 4)]);
    world.attendant.fail("gone".to_owned());
    assert_eq!(world.attendant.failure(), Some("gone"));
    world.arm(&launching);
    world.attendant.fetched(world.now, &fetching, Ok(world.found("3")));
    let steps = world.all();
    assert!(matches!(&steps[..], [Step::Abandon(_), Step::Acknowledge(_)]), "{steps:?}");
    world.attendant.started(world.now, &starting, Ok(moved));
    let steps = world.all();
    assert!(matches!(&steps[..], [Step::Abandon(_), Step::Finish(..)]), "{steps:?}");
    world.attendant.finished(world.now, &starting, Err(broken()));
    world.attendant.came(vec!["5.json".to_owned()]);
    world.attendant.scan();
    world.pass(1_000);
    world.nothing();
    assert_eq!(world.said.iter().filter(|event| **event == "spool_rests").count(), 1);
    world.attendant.stop(world.now, StopMode::Leave);
    world.now.boot += Duration::from_secs(20);
    assert!(world.attendant.may_leave(world.now), "what cannot be recorded keeps nobody");
}

#[test]
fn a_final_failure_of_a_start_or_an_end_rests_it() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let (run, _) = world.gate("t");
    world.attendant.started(world.now, &run, Err(broken()));
    assert!(world.attendant.failure().is_some());
    world.all();
    world.pass(1_000);
    world.nothing();

    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    world.end(&run, &exit(0));
    world.attendant.finished(world.now, &run, Err(broken()));
    world.pass(1_000);
    world.nothing();
    assert!(world.attendant.owns(&run), "its supervisor is not told to leave");
}

#[test]
fn a_task_that_is_taken_back_while_its_command_gets_ready_is_not_run() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let (run, _) = world.gate("t");
    let gone = SpoolError::Gone { path: "t".to_owned() };
    world.attendant.started(world.now, &run, Err(gone));
    let steps = world.all();
    let [Step::Abandon(_), Step::Acknowledge(_), Step::Look(names)] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert_eq!(names, &["t.json"], "another may be in its place");
    world.attendant.looked(world.now, vec![Looked::Gone("t.json".to_owned())]);
    world.nothing();
    assert!(world.attendant.is_idle());
}

#[test]
fn a_task_that_is_removed_while_it_waits_is_forgotten() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("1", "a", 1), task("2", "a", 2)]);
    let run = world.fetch("1");
    world.attendant.left("2.json");
    world.attendant.left("no task's name");
    world.attendant.fetched(world.now, &run, Err(Looked::Gone("1.json".to_owned())));
    world.nothing();
    assert_eq!(world.attendant.waiting().len(), 0);
}

#[test]
fn what_is_told_twice_is_started_once() {
    let mut world = World::new(3, &["a"]);
    let t = task("t", "a", 0);
    world.wait(&[t.clone(), t.clone()]);
    let (run, moved) = world.gate("t");
    world.wait(std::slice::from_ref(&t));
    world.nothing();
    // Events of processes that come twice, or too late, do nothing.
    world.arm(&run);
    world.nothing();
    world.attendant.started(world.now, &run, Ok(moved));
    assert!(matches!(world.one(), Step::LetGo(_)));
    world.wait(&[t]);
    world.nothing();
    let finish = world.end(&run, &exit(0));
    world.attendant.ended(world.now, &run, &exit(1));
    world.attendant.not_launched(world.now, &run, &failure());
    world.nothing();
    world.record(&run, &finish);
    assert!(matches!(world.one(), Step::Acknowledge(_)));
    world.attendant.finished(world.now, &run, Ok(finish.task));
    world.attendant.ended(world.now, &run, &exit(1));
    world.nothing();
}

#[test]
fn what_is_not_ready_is_looked_at_again_then() {
    let mut world = World::new(1, &["a"]);
    let at = world.now.wall.0.saturating_add_ms(2_000);
    world.attendant.looked(world.now, vec![Looked::NotYet("x".to_owned(), at)]);
    world.nothing();
    assert_eq!(world.sleep(), 2);
    world.pass(2);
    assert!(matches!(world.one(), Step::Look(names) if names == ["x"]));
    assert_eq!(world.sleep(), SLEEP_MAX.as_secs());
}

#[test]
fn what_could_not_be_looked_at_is_told_once_and_tried_until_it_can() {
    let mut world = World::new(1, &["a"]);
    for _ in 0..3 {
        let stuck = Looked::Stuck("t.json".to_owned(), "no room".to_owned());
        world.attendant.looked_at(world.now, vec![stuck]);
        world.nothing();
        assert_eq!(world.sleep(), 5);
        world.pass(5);
        assert!(matches!(world.one(), Step::Look(names) if names == ["t.json"]));
    }
    assert_eq!(world.said, ["spool_stuck"]);
    world.wait(&[task("t", "a", 0)]);
    world.run("t");
    world.attendant.looked(world.now, vec![Looked::StuckNoText("no room".to_owned())]);
    world.pass(5);
    assert!(matches!(world.one(), Step::Scan));
}

#[test]
fn a_flood_of_changes_makes_one_look_at_a_time_and_no_more_names_than_there_are() {
    let mut world = World::new(1, &["a"]);
    let names = |range: std::ops::Range<usize>| range.map(|at| format!("t{at}.json")).collect();
    world.attendant.came(names(0..1));
    assert!(matches!(world.one(), Step::Look(names) if names == ["t0.json"]));
    for _ in 0..1_000 {
        world.attendant.came(names(1..3));
    }
    world.nothing();
    world.attendant.looked_at(world.now, Vec::new());
    assert!(matches!(world.one(), Step::Look(names) if names == ["t1.json", "t2.json"]));
    world.attendant.looked_at(world.now, Vec::new());
    world.nothing();
    // What is looked at together is bounded, and nothing is left out.
    world.attendant.came(names(0..LOOK_STEP + 1));
    let Step::Look(first) = world.one() else { panic!() };
    world.attendant.looked_at(world.now, Vec::new());
    let Step::Look(second) = world.one() else { panic!() };
    assert_eq!((first.len(), second.len()), (LOOK_STEP, 1));
    assert!(!first.contains(&second[0]));
    // Beyond the bound everything is looked at instead.
    world.attendant.came(names(0..NAMES_MAX + 1));
    assert!(matches!(world.one(), Step::Scan));
    world.attendant.looked_at(world.now, Vec::new());
    world.nothing();
}

#[test]
fn what_could_not_be_put_in_order_is_tried_until_it_is() {
    let mut world = World::new(1, &["a"]);
    for _ in 0..2 {
        world.attendant.unrecovered(world.now, 1);
        assert_eq!(world.sleep(), 5);
        world.pass(5);
        assert!(matches!(world.one(), Step::Recover));
    }
    world.attendant.unrecovered(world.now, 0);
    world.pass(3_600);
    world.nothing();
}

#[test]
fn a_task_that_was_given_up_at_its_gate_is_started_when_its_spool_stays() {
    let mut world = World::new(2, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.launch("t");
    world.attendant.stop(world.now, StopMode::Wait);
    world.arm(&run);
    let steps = world.all();
    assert!(matches!(&steps[..], [Step::Abandon(_), Step::Acknowledge(_)]), "{steps:?}");
    world.attendant.stay();
    world.attendant.reconfigure(world.now, Rules::of(&settings(2, &["a"])));
    world.launch("t");
}

#[test]
fn a_clock_that_was_set_back_holds_up_no_look() {
    let mut world = World::new(1, &["a"]);
    let in_two_seconds = world.now.wall.0.saturating_add_ms(2_000);
    let not_yet = Looked::NotYet("t.json".to_owned(), in_two_seconds);
    world.attendant.looked(world.now, vec![not_yet]);
    world.now.wall = world.now.wall.saturating_add_ms(-3_600_000);
    assert_eq!(world.sleep(), 2);
    world.now.boot += Duration::from_secs(2);
    world.attendant.tick(world.now);
    assert!(matches!(world.one(), Step::Look(names) if names == ["t.json"]));
}

#[test]
fn a_scan_that_fails_is_tried_again_and_one_that_fails_for_good_is_not() {
    let mut world = World::new(1, &["a"]);
    world.attendant.not_scanned(world.now, &refused());
    assert_eq!((world.sleep(), world.attendant.failure()), (5, None));
    world.pass(5);
    assert!(matches!(world.one(), Step::Scan));
    world.attendant.not_scanned(world.now, &broken());
    assert!(world.attendant.failure().is_some());
    world.pass(5);
    world.nothing();
}

#[test]
fn what_was_set_aside_or_dropped_is_told_and_counted() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "other", 0), task("u", "other", 0)]);
    let aside = SetAside {
        name: "t.json".to_owned(),
        path: "rejected/t.json".to_owned(),
        fault: Fault::NotText,
    };
    let repeated = Looked::Repeated(TaskId::new("u").unwrap(), State::Completed);
    world.attendant.looked(world.now, vec![Looked::SetAside(aside), repeated]);
    world.nothing();
    assert_eq!(world.said, ["spool_rejected", "spool_repeated"]);
    assert_eq!(world.happened, [Happened::SetAside]);
    assert_eq!(world.attendant.waiting().len(), 0);
}

#[test]
fn more_than_memory_has_room_for_are_looked_for_when_there_is() {
    let mut world = World::new(1, &["a"]);
    world.attendant.waiting = Waiting::of_at_most(2);
    let tasks: Vec<Task> = (0..9).map(|n| task(&n.to_string(), "a", n)).collect();
    world.wait(&tasks);
    let run = world.fetch("0");
    assert_eq!(world.said, ["spool_overfull"], "told once");
    world.attendant.fetched(world.now, &run, Err(Looked::Gone("0.json".to_owned())));
    let steps = world.all();
    let [Step::Fetch(_, id), Step::Scan] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(id.as_str(), "1");
}

#[test]
fn too_many_names_that_are_not_ready_make_a_scan_later_and_no_circle() {
    let mut world = World::new(1, &["a"]);
    let at = world.now.wall.0.saturating_add_ms(60_000);
    let looked = (0..=UNSETTLED_MAX).map(|n| Looked::NotYet(n.to_string(), at)).collect();
    world.attendant.looked(world.now, looked);
    world.nothing();
    assert_eq!(world.sleep(), 5);
    world.pass(5);
    assert!(matches!(world.one(), Step::Scan));
}

#[test]
fn a_daemon_that_leaves_starts_nothing_more_and_waits_for_the_grace() {
    let mut world = World::new(2, &["a"]);
    world.wait(&[task("1", "a", 1)]);
    let run = world.run("1");
    world.wait(&[task("2", "a", 2)]);
    let launching = world.launch("2");
    assert!(!world.attendant.may_leave(world.now), "nobody told it to");
    world.attendant.stop(world.now, StopMode::Leave);
    world.arm(&launching);
    let steps = world.all();
    assert!(matches!(&steps[..], [Step::Abandon(_), Step::Acknowledge(_)]), "{steps:?}");
    world.wait(&[task("3", "a", 3)]);
    world.nothing();
    assert_eq!((world.sleep(), world.attendant.may_leave(world.now)), (20, false));
    world.pass(20);
    assert!(world.attendant.may_leave(world.now), "what runs is left to its supervisor");
    world.pass(1_000);
    assert_eq!(world.sleep(), SLEEP_MAX.as_secs(), "another may still be waited for");
    world.end(&run, &exit(0));
}

#[test]
fn other_settings_do_not_change_when_a_daemon_leaves() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    world.run("t");
    world.attendant.stop(world.now, StopMode::Leave);
    world.pass(10);
    let other = SpoolSettings { stop_grace: Seconds::new(1_000), ..settings(2, &["a"]) };
    world.attendant.reconfigure(world.now, Rules::of(&other));
    world.pass(9);
    assert!(!world.attendant.may_leave(world.now), "what runs has its grace");
    world.pass(1);
    assert!(world.attendant.may_leave(world.now), "and not more");
    world.nothing();
}

#[test]
fn a_daemon_that_leaves_waits_a_little_for_an_end_that_is_not_recorded() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    world.attendant.stop(world.now, StopMode::Leave);
    world.pass(20);
    let finish = world.end(&run, &exit(0));
    assert!(!world.attendant.may_leave(world.now));
    assert_eq!(world.sleep(), 10);
    world.pass(9);
    assert!(!world.attendant.may_leave(world.now));
    let later = Moment { boot: world.now.boot + Duration::from_secs(1), ..world.now };
    assert!(world.attendant.may_leave(later), "as after a crash, which loses nothing");
    world.record(&run, &finish);
    assert!(world.attendant.may_leave(world.now));
}

#[test]
fn a_daemon_that_waits_does_until_all_have_ended() {
    let mut world = World::new(1, &["a"]);
    world.wait(&[task("t", "a", 0)]);
    let run = world.run("t");
    world.attendant.stop(world.now, StopMode::Wait);
    world.pass(100_000);
    assert!(!world.attendant.may_leave(world.now));
    let finish = world.end(&run, &exit(1));
    assert!(!world.attendant.may_leave(world.now));
    world.record(&run, &finish);
    assert!(world.attendant.may_leave(world.now));
    world.all();
    world.pass(100_000);
    world.nothing();
}

#[test]
fn a_daemon_that_kills_ends_what_runs_and_lets_nothing_go_that_does_not() {
    let mut world = World::new(3, &["a"]);
    world.wait(&[task("1", "a", 1)]);
    let running = world.run("1");
    world.wait(&[task("2", "a", 2)]);
    let (starting, moved) = world.gate("2");
    world.wait(&[task("3", "a", 3)]);
    let fetching = world.fetch("3");
    world.attendant.stop(world.now, StopMode::Wait);
    world.nothing();
    world.attendant.stop(world.now, StopMode::Kill);
    assert!(matches!(world.one(), Step::End(of, Urgency::Terminate) if of == running));
    world.attendant.stop(world.now, StopMode::Wait);
    world.attendant.fetched(world.now, &fetching, Ok(world.found("3")));
    world.nothing();
    world.attendant.started(world.now, &starting, Ok(moved));
    let steps = world.all();
    let [Step::Abandon(_), Step::Finish(_, finish)] = &steps[..] else { panic!("{steps:?}") };
    let finish = finish.clone();
    assert_eq!(finish.next, Next::NotStarted);
    world.record(&starting, &finish);
    world.attendant.ended(world.now, &running, &exit(1));
    let steps = world.all();
    let [Step::Acknowledge(_), Step::Finish(_, finish)] = &steps[..] else { panic!("{steps:?}") };
    assert!(!world.attendant.may_leave(world.now));
    let finish = finish.clone();
    world.record(&running, &finish);
    assert!(world.attendant.may_leave(world.now));
}

#[test]
fn one_that_was_told_to_stop_may_go_on() {
    let mut world = World::new(1, &["a"]);
    world.attendant.stop(world.now, StopMode::Wait);
    world.wait(&[task("t", "a", 0)]);
    world.nothing();
    world.attendant.stay();
    world.attendant.reconfigure(world.now, Rules::of(&settings(1, &["a"])));
    world.launch("t");
}

#[test]
fn a_run_of_an_earlier_daemon_takes_a_worker_and_ends_as_any_other() {
    let mut world = World::new(1, &["a"]);
    let mut adopted = task("t", "a", 0);
    adopted.state = State::Running;
    adopted.attempts = 1;
    let run = RunId::from_bits(7);
    world.attendant.adopt(run.clone(), adopted.clone());
    // Somebody put it again: it is not run beside itself.
    world.wait(&[task("t", "a", 0), task("u", "a", 1)]);
    world.nothing();
    let finish = world.end(&run, &exit(75));
    let Next::Completed(result) = &finish.next else { panic!("{finish:?}") };
    assert_eq!(result.outcome, Outcome::Skipped, "by the handler of its type");
    world.attendant.left("t.json");
    world.record(&run, &finish);
    let steps = world.all();
    let [Step::Acknowledge(_), Step::Fetch(_, id)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(id.as_str(), "u");
}

#[test]
fn one_that_runs_already_is_not_started_beside_itself() {
    let mut world = World::new(2, &["a"]);
    let mut adopted = task("t", "a", 0);
    adopted.state = State::Running;
    adopted.attempts = 1;
    world.attendant.adopt(RunId::from_bits(7), adopted);
    world.wait(&[task("t", "a", 0)]);
    world.nothing();
}
