//! The dispatcher's rules, over a real database and imagined processes.

use std::collections::BTreeMap;
use std::time::Duration;

use kron_config::{Action, Execution, Handler, HandlerTarget, QueueSettings, RetrySettings};
use kron_core::Category;
use kron_queue::{
    Cancel, Enqueue, JobState, Liveness, NewJob, Queue, Recover, Reserve, SetRules, StoreError,
    Timestamp,
};
use kron_state::{ExitStatus, Process, RunId, RunRecord};
use serde_json::json;

use super::super::rules;
use super::*;
use crate::machine::{Report, StartFailure};

/// A dispatcher whose steps are carried out at once, as far as the database goes.
struct World {
    _directory: tempfile::TempDir,
    queue: Queue,
    dispatcher: Dispatcher,
    now: Moment,
    /// Steps that concern processes and callers, in order.
    seen: Vec<Step>,
    /// Whether the database answers that it has no room.
    is_busy: bool,
}

fn settings(workers_max: u32) -> QueueSettings {
    let handler = |job_type: &str, target| Handler {
        job_type: job_type.to_owned(),
        target,
        execution: Arc::new(Execution::default()),
        skip_codes: vec![75],
        workers_max: None,
        retry: RetrySettings::default(),
    };
    let command = || HandlerTarget::Command(Action::Program(vec!["true".to_owned()].into()));
    let web = HandlerTarget::Web {
        url: "http://localhost".to_owned(),
        headers: Vec::new(),
        token_file: None,
        allow_private: true,
    };
    QueueSettings {
        workers_max,
        handlers: vec![handler("a", command()), handler("web", web)],
        ..QueueSettings::default()
    }
}

fn process(pid: i32) -> Process {
    Process { pid, start_ticks: 1 }
}

fn exit(code: i32) -> Report {
    let end = kron_state::RunEnd {
        status: ExitStatus::ExitCode(code),
        cause: kron_state::Cause::Own,
        at: kron_core::UtcSecond::from_unix(0).unwrap(),
        output_bytes: 0,
        output_dropped: 0,
    };
    Report { record: Some(RunRecord::Ended(end)), reaped: None }
}

impl World {
    fn new(workers_max: u32) -> World {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(workers_max);
        let path = directory.path().join("state").join("queue.db");
        let queue = Queue::open(&path, rules(&settings)).unwrap();
        let owner = ProcessIdentity { boot_id: "boot".to_owned(), pid: 1, start_ticks: 1 };
        let dispatcher = Dispatcher::new(Handlers::of(&settings), owner, Duration::from_secs(10));
        let wall = Timestamp::from_unix_ms(1_800_000_000_000).unwrap();
        let now = Moment { wall, boot: Duration::from_secs(1_000) };
        World { _directory: directory, queue, dispatcher, now, seen: Vec::new(), is_busy: false }
    }

    fn add(&mut self, job_type: &str) -> JobId {
        self.add_after(job_type, 0)
    }

    fn add_after(&mut self, job_type: &str, delay_ms: i64) -> JobId {
        let not_before = (delay_ms > 0).then(|| self.now.wall.saturating_add_ms(delay_ms));
        let job = NewJob { not_before, ..NewJob::of_type(job_type, json!({})) };
        let added = self.queue.call(Enqueue { jobs: vec![job], now: self.now.wall }).unwrap();
        self.dispatcher.look(self.now);
        self.work();
        added[0].job().job_id
    }

    fn pass(&mut self, time: Duration) {
        self.now.boot += time;
        self.now.wall = self.now.wall.saturating_add_ms(time.as_millis() as i64);
        self.dispatcher.tick(self.now);
        self.work();
    }

    /// Carries out what the database is asked for, and notes the rest.
    fn work(&mut self) {
        loop {
            let steps = self.dispatcher.take_steps();
            if steps.is_empty() {
                return;
            }
            for step in steps {
                self.step(step);
            }
        }
    }

    fn step(&mut self, step: Step) {
        let (now, dispatcher, queue) = (self.now, &mut self.dispatcher, &self.queue);
        match step {
            Step::Claim(claim) => dispatcher.claimed(now, queue.call(claim)),
            Step::Trigger(trigger) => dispatcher.triggered(now, queue.call(trigger)),
            Step::Reserve(id, reserve) => dispatcher.reserved(now, id, queue.call(reserve)),
            Step::StartDirect(id, start) => dispatcher.started_direct(now, id, queue.call(start)),
            Step::Renew(renew) => queue.call(renew).unwrap(),
            Step::SetRules(rules) if self.is_busy => {
                dispatcher.rules_set(now, rules, Err(StoreError::Busy));
            }
            Step::SetRules(rules) => {
                let result = queue.call(SetRules { rules: (*rules).clone() });
                dispatcher.rules_set(now, rules, result);
            }
            Step::GiveBack(release) => dispatcher.gave_back(now, release, &queue.call(release)),
            Step::Collect(run, _) => dispatcher.collected(now, &run, Vec::new(), None),
            Step::Finish(run, _) if self.is_busy => {
                dispatcher.finished(now, &run, Err(StoreError::Busy.into()));
            }
            Step::Finish(run, finish) => dispatcher.finished(now, &run, queue.call(*finish)),
            Step::Log(_) => {}
            other => self.seen.push(other),
        }
    }

    /// The one step that was seen since this was last asked.
    fn one(&mut self) -> Step {
        let mut seen = std::mem::take(&mut self.seen);
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    fn launched(&mut self) -> RunId {
        match self.one() {
            Step::Launch(start) => start.run,
            other => panic!("{other:?}"),
        }
    }

    /// Brings a run to its gate and lets the database record its process.
    fn arm(&mut self, run: &RunId) -> AttachProcess {
        self.dispatcher.armed(run, process(42), process(43), "boot".to_owned());
        self.work();
        match self.one() {
            Step::Attach(of, attach) if of == *run => attach,
            other => panic!("{other:?}"),
        }
    }

    fn attach(&mut self, run: &RunId, attach: AttachProcess) {
        let result = self.queue.call(attach);
        self.dispatcher.attached(run, result);
        self.work();
    }

    /// Brings a run to the point where it runs.
    fn let_go(&mut self, run: &RunId) {
        let attach = self.arm(run);
        self.attach(run, attach);
        assert!(matches!(self.one(), Step::LetGo(of) if of == *run));
    }

    fn end(&mut self, run: &RunId, report: &Report) {
        self.dispatcher.ended(run, report);
        self.work();
    }

    fn state(&self, job: JobId) -> JobState {
        self.queue.job(job).unwrap().unwrap().state
    }

    fn direct(&mut self, id: u64, wait: Duration) {
        let call = DirectCall {
            job: NewJob::of_type("a", json!({})),
            wait,
            timeout: None,
            reserved_by: "a test".to_owned(),
        };
        self.dispatcher.direct(self.now, DirectId(id), call);
        self.work();
    }

    fn answer(&mut self) -> (u64, Result<Finished, DirectRefusal>) {
        match self.one() {
            Step::Answer(id, answer) => (id.0, *answer),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_command_is_let_go_only_when_its_process_is_recorded() {
    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    let attach = world.arm(&run);
    assert!(world.seen.is_empty(), "not before it is durable");
    assert_eq!(attach.process.pid, 42);
    world.attach(&run, attach);
    assert!(matches!(world.one(), Step::LetGo(_)));
    world.end(&run, &exit(0));
    assert!(matches!(world.one(), Step::Acknowledge(of) if of == run), "after its end is durable");
    assert_eq!(world.state(job), JobState::Completed);
}

#[test]
fn as_many_are_claimed_as_there_are_workers_and_the_next_when_one_has_ended() {
    let mut world = World::new(2);
    let jobs: Vec<JobId> = (0..3).map(|_| world.add("a")).collect();
    let runs: Vec<RunId> = std::mem::take(&mut world.seen)
        .into_iter()
        .map(|step| match step {
            Step::Launch(start) => start.run,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(runs.len(), 2);
    world.let_go(&runs[0]);
    world.end(&runs[0], &exit(1));
    let seen = std::mem::take(&mut world.seen);
    assert!(matches!(&seen[..], [Step::Acknowledge(_), Step::Launch(_)]), "{seen:?}");
    assert_eq!(world.state(jobs[0]), JobState::Failed);
    assert_eq!(world.state(jobs[2]), JobState::Running);
}

#[test]
fn exit_codes_mean_what_the_handler_says() {
    for (code, state) in [(0, JobState::Completed), (75, JobState::Skipped), (1, JobState::Failed)]
    {
        let mut world = World::new(1);
        let job = world.add("a");
        let run = world.launched();
        world.let_go(&run);
        world.end(&run, &exit(code));
        assert_eq!(world.state(job), state, "{code}");
        let run = world.queue.run_of(job).unwrap().unwrap();
        assert_eq!(run.exit_code, Some(i64::from(code)));
    }
}

#[test]
fn a_delayed_job_is_waited_for_and_not_looked_for() {
    let mut world = World::new(1);
    world.add_after("a", 1_500);
    assert!(world.seen.is_empty());
    assert_eq!(world.dispatcher.sleep(world.now), Duration::from_millis(1_500));
    world.pass(Duration::from_millis(1_499));
    assert!(world.seen.is_empty());
    world.pass(Duration::from_millis(1));
    world.launched();
}

#[test]
fn a_job_that_nobody_handles_waits_and_keeps_nobody_waiting() {
    let mut world = World::new(1);
    let job = world.add("unknown");
    assert!(world.seen.is_empty(), "nothing was launched: {:?}", world.seen);
    assert_eq!(world.state(job), JobState::Queued);
    world.add("a");
    world.launched();
    assert_eq!(world.state(job), JobState::Queued);
}

#[test]
fn a_cancelled_job_is_never_let_go_from_its_gate_and_is_ended_where_it_runs() {
    for stage in 0..4 {
        let mut world = World::new(1);
        let job = world.add("a");
        let run = world.launched();
        let cancel = |world: &mut World| {
            world.queue.call(Cancel { job_id: job, now: world.now.wall }).unwrap();
            world.dispatcher.cancel(job);
            world.work();
        };
        match stage {
            // On its way to the gate.
            0 => {
                cancel(&mut world);
                assert!(world.seen.is_empty());
                world.dispatcher.armed(&run, process(42), process(43), "boot".to_owned());
                world.work();
            }
            // While its process is being recorded, told before that is done.
            1 => {
                let attach = world.arm(&run);
                cancel(&mut world);
                world.attach(&run, attach);
            }
            // The same, not told: the recorded job says so.
            2 => {
                let attach = world.arm(&run);
                world.queue.call(Cancel { job_id: job, now: world.now.wall }).unwrap();
                world.attach(&run, attach);
            }
            // While it runs.
            _ => {
                world.let_go(&run);
                cancel(&mut world);
                assert!(matches!(world.one(), Step::End(_, Urgency::Terminate)));
                world.end(&run, &exit(143));
                assert!(matches!(world.one(), Step::Acknowledge(_)));
                assert_eq!(world.state(job), JobState::Cancelled);
                continue;
            }
        }
        let seen = std::mem::take(&mut world.seen);
        assert!(matches!(&seen[..], [Step::Abandon(_), Step::Acknowledge(_)]), "{stage}: {seen:?}");
        assert_eq!(world.state(job), JobState::Cancelled, "{stage}");
    }
}

#[test]
fn a_process_that_cannot_be_recorded_is_never_let_go() {
    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    world.arm(&run);
    world.dispatcher.attached(&run, Err(StoreError::Busy.into()));
    world.work();
    let seen = std::mem::take(&mut world.seen);
    assert!(matches!(&seen[..], [Step::Abandon(_), Step::Acknowledge(_)]), "{seen:?}");
    assert_eq!(world.state(job), JobState::Failed);

    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    world.arm(&run);
    world.dispatcher.attached(&run, Err(StoreError::Stopped.into()));
    world.work();
    let seen = std::mem::take(&mut world.seen);
    assert!(matches!(&seen[..], [Step::Abandon(_), Step::Fatal(_)]), "{seen:?}");
    assert_eq!(world.state(job), JobState::Running, "whoever starts next decides");
}

#[test]
fn what_was_not_started_is_a_failed_run_that_is_retried() {
    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    let failure = StartFailure {
        category: Category::Execution,
        operation: "execute".to_owned(),
        message: "no such file".to_owned(),
    };
    world.dispatcher.not_started(&run, &failure);
    world.work();
    let chain = world.queue.chain(job).unwrap();
    assert_eq!(chain.len(), 2, "{chain:?}");
    let error = world.queue.run_of(job).unwrap().unwrap().error.unwrap();
    assert_eq!(error, "it could not be started: execute: no such file");
}

#[test]
fn an_end_that_the_database_has_no_room_for_is_recorded_later() {
    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    world.let_go(&run);
    world.is_busy = true;
    world.end(&run, &exit(0));
    assert!(world.seen.is_empty(), "its supervisor waits");
    assert_eq!(world.state(job), JobState::Running);
    world.is_busy = false;
    world.pass(AGAIN);
    assert!(matches!(world.one(), Step::Acknowledge(_)));
    assert_eq!(world.state(job), JobState::Completed);
}

#[test]
fn exactly_one_end_wins_and_the_loser_is_acknowledged_all_the_same() {
    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    world.let_go(&run);
    // Somebody else's recovery, as if another program had the database.
    let open = world.queue.open_runs().unwrap();
    let runs: BTreeMap<_, _> = open.iter().map(|run| (run.run_id, Liveness::Dead)).collect();
    let recover = Recover {
        runs,
        reservation_owner: Liveness::Dead,
        reservation_lasts_ms: 1_000,
        now: world.now.wall,
    };
    world.queue.call(recover).unwrap();
    world.end(&run, &exit(0));
    assert!(matches!(world.one(), Step::Acknowledge(_)));
    assert_eq!(world.state(job), JobState::Failed, "the first end stands");
}

#[test]
fn an_endpoints_job_is_posted_and_its_answer_is_the_end() {
    let mut world = World::new(1);
    let job = world.add("web");
    let Step::Post(start) = world.one() else { panic!() };
    world.dispatcher.answered(&start.run, RunEnd::new(Outcome::Completed));
    world.work();
    assert_eq!(world.state(job), JobState::Completed);
    assert!(world.seen.is_empty(), "there is no supervisor: {:?}", world.seen);

    let job = world.add("web");
    let Step::Post(start) = world.one() else { panic!() };
    world.queue.call(Cancel { job_id: job, now: world.now.wall }).unwrap();
    world.dispatcher.cancel(job);
    world.work();
    assert_eq!(world.state(job), JobState::Cancelled, "its answer is not waited for");
    world.dispatcher.answered(&start.run, RunEnd::new(Outcome::Completed));
    world.work();
    assert_eq!(world.state(job), JobState::Cancelled);
}

#[test]
fn a_direct_run_takes_the_next_slot_and_nobody_is_claimed_meanwhile() {
    let mut world = World::new(1);
    let first = world.add("a");
    let run = world.launched();
    world.let_go(&run);
    let queued = world.add("a");
    world.direct(1, Duration::from_secs(60));
    assert!(world.seen.is_empty(), "nothing is pre-empted");
    world.end(&run, &exit(0));
    let seen = std::mem::take(&mut world.seen);
    let [Step::Acknowledge(_), Step::Launch(start)] = &seen[..] else { panic!("{seen:?}") };
    assert!(start.claimed.run.reservation_id.is_some(), "the direct one, not the queued one");
    assert_eq!((world.state(first), world.state(queued)), (JobState::Completed, JobState::Queued));
    let run = start.run.clone();
    world.let_go(&run);
    world.end(&run, &exit(7));
    let seen = std::mem::take(&mut world.seen);
    let [Step::Acknowledge(_), Step::Answer(DirectId(1), answer), Step::Launch(next)] = &seen[..]
    else {
        panic!("{seen:?}")
    };
    assert_eq!(answer.as_ref().as_ref().unwrap().run.exit_code, Some(7));
    assert_eq!(next.claimed.job.job_id, queued, "the queue goes on where it was");
}

#[test]
fn who_wants_to_wait_for_nothing_is_told_at_once_and_others_when_their_time_is_over() {
    let mut world = World::new(1);
    world.direct(1, Duration::ZERO);
    let run = world.launched();
    world.let_go(&run);
    world.direct(2, Duration::ZERO);
    assert!(matches!(world.answer(), (2, Err(DirectRefusal::Busy))));
    world.direct(3, Duration::from_secs(5));
    world.direct(4, Duration::from_secs(20));
    assert!(world.seen.is_empty());
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.answer(), (3, Err(DirectRefusal::Busy))));
    world.end(&run, &exit(0));
    let seen = std::mem::take(&mut world.seen);
    let [Step::Acknowledge(_), Step::Answer(DirectId(1), _), Step::Launch(start)] = &seen[..]
    else {
        panic!("{seen:?}")
    };
    let run = start.run.clone();
    world.let_go(&run);
    world.end(&run, &exit(0));
    let seen = std::mem::take(&mut world.seen);
    let [Step::Acknowledge(_), Step::Answer(DirectId(4), answer)] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert!(answer.is_ok());
    assert!(world.queue.reservation().unwrap().is_none(), "nothing stays reserved");
}

#[test]
fn a_caller_who_has_gone_gives_its_place_up() {
    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    world.let_go(&run);
    world.direct(1, Duration::from_secs(60));
    assert!(world.queue.reservation().unwrap().is_some());
    world.dispatcher.direct_gone(world.now, DirectId(1));
    world.work();
    assert!(world.queue.reservation().unwrap().is_none());
    world.seen.clear();
    world.end(&run, &exit(0));
    assert_eq!(world.state(job), JobState::Completed);
}

#[test]
fn a_reservation_of_others_is_waited_for() {
    let mut world = World::new(1);
    let reserve = Reserve {
        reserved_by: "somebody".to_owned(),
        owner: ProcessIdentity { boot_id: "boot".to_owned(), pid: 9, start_ticks: 9 },
        lasts_ms: 5_000,
        now: world.now.wall,
    };
    let other = world.queue.call(reserve).unwrap();
    world.direct(1, Duration::from_secs(60));
    assert!(world.seen.is_empty());
    world
        .queue
        .call(Release { reservation_id: other.reservation_id, now: world.now.wall })
        .unwrap();
    // The database's observer tells it.
    world.dispatcher.look(world.now);
    world.work();
    world.launched();
}

#[test]
fn a_daemon_that_stops_claims_nothing_and_leaves_runs_to_their_supervisors_after_the_grace() {
    let mut world = World::new(2);
    world.add("a");
    let run = world.launched();
    world.let_go(&run);
    world.dispatcher.stop(world.now, StopMode::Leave);
    let queued = world.add("a");
    assert!(world.seen.is_empty(), "{:?}", world.seen);
    assert_eq!(world.state(queued), JobState::Queued);
    assert!(!world.dispatcher.may_leave(world.now));
    world.direct(1, Duration::from_secs(60));
    assert!(matches!(world.answer(), (1, Err(DirectRefusal::Stopping))));
    world.pass(Duration::from_secs(10));
    assert!(world.dispatcher.may_leave(world.now));

    let mut world = World::new(2);
    world.add("a");
    let run = world.launched();
    world.dispatcher.stop(world.now, StopMode::Leave);
    world.pass(Duration::from_secs(10));
    assert!(
        !world.dispatcher.may_leave(world.now),
        "what stands at its gate is brought on its way"
    );
    world.let_go(&run);
    assert!(world.dispatcher.may_leave(world.now));

    let mut world = World::new(2);
    world.add("a");
    let run = world.launched();
    world.let_go(&run);
    world.dispatcher.stop(world.now, StopMode::Wait);
    world.pass(Duration::from_secs(1_000));
    assert!(!world.dispatcher.may_leave(world.now));
    world.dispatcher.stop(world.now, StopMode::Kill);
    world.work();
    assert!(matches!(world.one(), Step::End(_, Urgency::Terminate)));
    world.end(&run, &exit(143));
    assert!(world.dispatcher.may_leave(world.now));
}

#[test]
fn a_stop_gives_back_what_waits_for_its_slot() {
    let mut world = World::new(1);
    world.add("a");
    let run = world.launched();
    world.let_go(&run);
    world.direct(1, Duration::from_secs(60));
    assert!(world.queue.reservation().unwrap().is_some());
    world.dispatcher.stop(world.now, StopMode::Wait);
    world.work();
    assert!(matches!(world.answer(), (1, Err(DirectRefusal::Stopping))));
    assert!(world.queue.reservation().unwrap().is_none());
}

#[test]
fn a_direct_call_for_a_type_that_is_full_keeps_no_other_type_waiting() {
    let mut world = World::new(2);
    let mut settings = settings(2);
    settings.handlers[0].workers_max = Some(1);
    let handlers = Handlers::of(&settings);
    world.dispatcher.reconfigure(world.now, handlers, rules(&settings), Duration::ZERO);
    world.work();
    world.add("a");
    let run = world.launched();
    world.let_go(&run);
    world.direct(1, Duration::from_secs(60));
    assert!(world.queue.reservation().unwrap().is_none(), "nothing is held for it");
    world.add("web");
    assert!(matches!(world.one(), Step::Post(_)), "another type goes on");
    world.dispatcher.ended(&run, &exit(0));
    world.work();
    let seen = std::mem::take(&mut world.seen);
    assert!(matches!(&seen[..], [Step::Acknowledge(_)]), "{seen:?}");
    // The database's observer tells of the end.
    world.dispatcher.slots_changed();
    world.dispatcher.look(world.now);
    world.work();
    let Step::Launch(start) = world.one() else { panic!() };
    assert!(start.claimed.run.reservation_id.is_some());
}

#[test]
fn rules_that_the_database_has_no_room_for_are_put_in_force_later() {
    let mut world = World::new(1);
    let job = world.add("new");
    let mut settings = settings(1);
    settings.handlers.push(Handler { job_type: "new".to_owned(), ..settings.handlers[0].clone() });
    settings.handlers.sort_by(|one, other| one.job_type.cmp(&other.job_type));
    world.is_busy = true;
    let handlers = Handlers::of(&settings);
    world.dispatcher.reconfigure(world.now, handlers, rules(&settings), Duration::ZERO);
    world.work();
    assert_eq!(world.state(job), JobState::Queued);
    world.is_busy = false;
    world.pass(AGAIN);
    world.launched();
}

#[test]
fn an_end_is_recorded_even_when_what_the_run_left_is_refused() {
    let mut world = World::new(1);
    let job = world.add("a");
    let run = world.launched();
    world.let_go(&run);
    world.dispatcher.ended(&run, &exit(3));
    let Some(Step::Collect(..)) = world.dispatcher.take_steps().pop() else { panic!() };
    let bad = Artifact { path: "a\nb".to_owned(), size_bytes: 1, sha256: "00".to_owned() };
    world.dispatcher.collected(world.now, &run, vec![bad], None);
    world.work();
    assert!(matches!(world.one(), Step::Acknowledge(_)));
    assert_eq!(world.queue.run_of(job).unwrap().unwrap().exit_code, Some(3));
}

#[test]
fn a_daemon_that_leaves_fails_what_has_no_supervisor_as_any_failure() {
    let mut world = World::new(1);
    let job = world.add("web");
    world.one();
    world.dispatcher.stop(world.now, StopMode::Leave);
    world.work();
    assert!(!world.dispatcher.may_leave(world.now));
    world.pass(Duration::from_secs(10));
    assert!(world.dispatcher.may_leave(world.now));
    let run = world.queue.run_of(job).unwrap().unwrap();
    assert!(!run.lost, "{run:?}");
    assert_eq!(world.queue.chain(job).unwrap().len(), 2, "it is retried");
}
