//! The machine's rules, one situation at a time. What they add up to is the simulation's business.

use std::time::Duration;

use kron_config::{Format, Job, Loader, Options, Source};
use kron_core::{Category, Outcome, UtcSecond};
use kron_state::{
    Cause, Change, Ending, ExitStatus, Known, Process, RunEnd, RunId, RunRecord, document_file,
};

use super::*;

mod hooks;
mod memory;
mod standby;

const NOON: &str = "2026-06-01T12:00:00Z";

fn at(text: &str) -> UtcSecond {
    text.parse().expect("a time")
}

fn jobs(lines: &str) -> Vec<Job> {
    let mut loader = Loader::new(Options::default());
    loader.load(&Source::new("test.krontab", lines), &Format::Krontab);
    let loaded = loader.finish();
    assert!(loaded.is_usable(), "{:?}", loaded.diagnostics);
    loaded.jobs
}

/// A machine with a clock, and everything it ever asked for.
struct Rig {
    machine: Machine,
    now: Now,
    actions: Vec<Action>,
}

impl Rig {
    fn new(lines: &str) -> Rig {
        Rig::booted(Boot { jobs: jobs(lines), ..Boot::default() })
    }

    fn booted(boot: Boot) -> Rig {
        let now = Now { wall: at(NOON), boot: Duration::from_secs(1_000) };
        let (machine, actions) = Machine::boot(now, boot);
        let mut rig = Rig { machine, now, actions };
        rig.make_durable();
        rig
    }

    fn feed(&mut self, event: Event) {
        let actions = self.machine.handle(self.now, event);
        self.actions.extend(actions);
    }

    /// Time passes on both clocks.
    fn pass(&mut self, seconds: u64) {
        self.now.wall = self.now.wall.saturating_add(seconds as i64);
        self.now.boot += Duration::from_secs(seconds);
        self.feed(Event::Tick { synchronised: false });
    }

    /// Somebody sets the clock.
    fn set_clock(&mut self, seconds: i64) {
        self.now.wall = self.now.wall.saturating_add(seconds);
        self.feed(Event::Tick { synchronised: false });
    }

    /// Everything that was asked to be durable becomes so.
    fn make_durable(&mut self) {
        loop {
            let tickets: Vec<Ticket> = self.machine.pending.keys().copied().collect();
            if tickets.is_empty() {
                return;
            }
            for ticket in tickets {
                self.feed(Event::Durable(ticket));
            }
        }
    }

    fn launched(&self) -> Vec<RunId> {
        let launch = |action: &Action| match action {
            Action::Launch(launch) => Some(launch.run.clone()),
            _ => None,
        };
        self.actions.iter().filter_map(launch).collect()
    }

    /// The newest run stands at its gate.
    fn arm(&mut self) -> RunId {
        let run = self.launched().pop().expect("a launched run");
        self.come_to_gate(&run);
        run
    }

    /// This run stands at its gate.
    fn come_to_gate(&mut self, run: &RunId) {
        let process = Process { pid: 7, start_ticks: 7 };
        self.feed(Event::Armed {
            run: run.clone(),
            supervisor: process,
            command: process,
            boot_id: "boot".to_owned(),
        });
    }

    /// The newest run is executed.
    fn execute(&mut self) -> RunId {
        let run = self.arm();
        self.make_durable();
        self.feed(Event::Executing { run: run.clone() });
        self.make_durable();
        run
    }

    fn end(&mut self, run: &RunId, cause: Cause, status: ExitStatus) {
        let at = self.now.wall;
        let end = RunEnd { status, cause, at, output_bytes: 0, output_dropped: 0 };
        let report = Report { record: Some(RunRecord::Ended(end)), reaped: None };
        self.feed(Event::Ended { run: run.clone(), report });
    }

    fn request(&mut self, request: Request) -> Option<Reply> {
        self.actions.clear();
        self.feed(Event::Request { id: RequestId(1), request });
        self.reply()
    }

    fn reply(&self) -> Option<Reply> {
        self.actions.iter().rev().find_map(|action| match action {
            Action::Reply { reply, .. } => Some(reply.clone()),
            _ => None,
        })
    }

    fn changes(&self) -> Vec<Change> {
        let committed = |action: &Action| match action {
            Action::Commit { changes, .. } => Some(changes.clone()),
            _ => None,
        };
        self.actions.iter().filter_map(committed).flatten().collect()
    }

    /// Outcomes of periods that did not run, with their reasons.
    fn handled(&self) -> Vec<(Outcome, String)> {
        let handled = |change: Change| match change {
            Change::Handle { outcome, reason, .. } => Some((outcome, reason)),
            _ => None,
        };
        self.changes().into_iter().filter_map(handled).collect()
    }

    fn did(&self, wanted: &str) -> bool {
        self.actions.iter().any(|action| format!("{action:?}").starts_with(wanted))
    }

    fn logged(&self, event: &str) -> bool {
        self.actions
            .iter()
            .any(|action| matches!(action, Action::Log(entry) if entry.event == event))
    }
}

fn failure() -> StartFailure {
    StartFailure {
        category: Category::System,
        operation: "spawn".to_owned(),
        message: "no".to_owned(),
    }
}

const EVERY_MINUTE: &str = "* * * * * @policy(deadline=30s) name=a command=/bin/true\n";

#[test]
fn a_command_is_released_only_after_its_record_is_durable() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    let run = rig.arm();
    assert!(matches!(rig.changes().last(), Some(Change::Arm(active)) if active.run == run));
    assert!(!rig.did("Release"));
    rig.make_durable();
    assert!(rig.did("Release"));
}

#[test]
fn a_new_job_never_runs_the_past() {
    let mut rig = Rig::new(EVERY_MINUTE);
    assert!(rig.launched().is_empty() && rig.logged("left") && rig.handled().is_empty());
    rig.pass(59);
    assert!(rig.launched().is_empty());
    rig.pass(1);
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn a_period_on_its_way_is_not_started_again() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    for _ in 0..3 {
        rig.pass(1);
        rig.feed(Event::Load { jobs: jobs(EVERY_MINUTE), request: None });
    }
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn a_burst_is_judged_before_anything_is_started() {
    let mut rig = Rig::new(&format!("{EVERY_MINUTE}{}", EVERY_MINUTE.replace("name=a", "name=b")));
    rig.actions.clear();
    rig.pass(60);
    let first_launch = rig.actions.iter().position(|a| matches!(a, Action::Launch(_)));
    let last_decision = rig
        .actions
        .iter()
        .rposition(|action| matches!(action, Action::Log(entry) if entry.event == "decision"));
    assert!(last_decision < first_launch && last_decision.is_some());
}

#[test]
fn a_failed_start_is_tried_again_until_its_deadline() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    let mut attempts = 0;
    for _ in 0..59 {
        if rig.launched().len() > attempts {
            attempts = rig.launched().len();
            let run = rig.launched().pop().expect("a run");
            rig.feed(Event::LaunchFailed { run, failure: failure() });
        }
        rig.pass(1);
    }
    // At 0, 1, 3, 7 and 15 seconds; at 31 the deadline has passed.
    assert_eq!(attempts, 5);
    assert_eq!(rig.handled(), [(Outcome::Missed, "deadline exceeded, 31s late".to_owned())]);
}

#[test]
fn a_command_that_cannot_be_executed_leaves_its_period_unhandled() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    let run = rig.arm();
    rig.make_durable();
    rig.feed(Event::ExecFailed { run: run.clone(), failure: failure() });
    assert_eq!(rig.changes().last(), Some(&Change::Disarm(run)));
    assert!(!rig.did("Acknowledge"));
    rig.make_durable();
    assert!(rig.did("Acknowledge") && rig.handled().is_empty());
    rig.pass(1);
    assert_eq!(rig.launched().len(), 2);
}

#[test]
fn a_start_that_takes_a_minute_is_given_up() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    let run = rig.arm();
    // The write takes for ever.
    rig.now.boot += Duration::from_secs(61);
    rig.feed(Event::Tick { synchronised: false });
    // Its processes may hang as well; nobody waits for them.
    assert!(rig.did("Abandon"));
    assert!(rig.changes().contains(&Change::Disarm(run.clone())));
    assert_eq!(rig.handled(), [(Outcome::Missed, "start stalled".to_owned())]);
    rig.make_durable();
    assert!(!rig.did("Release") && rig.did("Acknowledge"));
    let report = Report { record: Some(RunRecord::NotReleased), reaped: None };
    let before = rig.changes().len();
    rig.feed(Event::Ended { run, report });
    assert_eq!(rig.changes().len(), before);
}

#[test]
fn a_daemon_that_leaves_does_not_wait_for_a_start_that_hangs() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    rig.feed(Event::Stop(StopMode::Leave));
    assert!(!rig.did("Exit"), "it may come to its gate any moment");
    rig.now.boot += Duration::from_secs(61);
    rig.feed(Event::Tick { synchronised: false });
    assert_eq!(rig.handled(), [(Outcome::Missed, "start stalled".to_owned())]);
    assert!(!rig.did("Exit"), "that is not recorded yet");
    rig.make_durable();
    assert!(rig.did("Exit"));
}

#[test]
fn forbid_skips_and_allow_runs_beside() {
    for (policy, launches, skipped) in [("forbid", 1, 1), ("allow", 2, 0)] {
        let line = format!("* * * * * @policy(concurrency={policy}) name=a command=/bin/true\n");
        let mut rig = Rig::new(&line);
        rig.pass(60);
        rig.execute();
        rig.pass(60);
        assert_eq!(rig.launched().len(), launches, "{policy}");
        assert_eq!(rig.handled().len(), skipped, "{policy}");
    }
}

const REPLACING: &str =
    "* * * * * @policy(concurrency=replace,deadline=5s) name=a command=/bin/true grace=3s\n";

#[test]
fn replace_records_its_intention_before_it_signals() {
    let mut rig = Rig::new(REPLACING);
    rig.pass(60);
    let first = rig.execute();
    rig.pass(60);
    assert!(matches!(rig.changes().last(), Some(Change::Replace(Some(_)))));
    assert!(!rig.did("End"));
    rig.make_durable();
    assert!(rig.did("End"));
    assert_eq!(rig.launched().len(), 1);
    // Ending it takes longer than the deadline, which was judged before.
    rig.pass(7);
    rig.end(&first, Cause::Asked, ExitStatus::Signal(15));
    let finish = rig.changes().into_iter().rev().find(|c| matches!(c, Change::Finish { .. }));
    assert!(matches!(finish, Some(Change::Finish { ending: Ending::Replaced, .. })));
    assert_eq!(rig.launched().len(), 2);
}

#[test]
fn a_replacement_that_fails_is_judged_again() {
    let mut rig = Rig::new(REPLACING);
    rig.pass(60);
    rig.execute();
    rig.pass(60);
    rig.make_durable();
    rig.pass(14);
    assert!(rig.logged("termination_failed"));
    assert_eq!(rig.handled(), [(Outcome::Missed, "deadline exceeded, 14s late".to_owned())]);
}

#[test]
fn downtime_is_one_record_and_only_the_current_period_is_judged() {
    let mut rig = Rig::new("* * * * * @policy(deadline=90s) name=a command=/bin/true\n");
    rig.now.boot += Duration::from_secs(600);
    rig.set_clock(600);
    assert_eq!(rig.handled(), [(Outcome::Missed, "superseded".to_owned())]);
    let stretch = rig.changes().into_iter().find_map(|change| match change {
        Change::Handle { stretch, .. } => stretch,
        _ => None,
    });
    assert_eq!(stretch, Some((at("2026-06-01T12:09:00Z"), 9)));
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn an_edit_never_runs_the_past() {
    let mut rig = Rig::new("0 13 * * * @policy(deadline=2h) name=a command=/bin/true\n");
    let edited = "50 11 * * * @policy(deadline=2h) name=a command=/bin/true\n";
    rig.feed(Event::Load { jobs: jobs(edited), request: None });
    assert!(rig.launched().is_empty());
    // The period of today exists under the new definition, but not for this job's eyes.
    assert!(rig.handled().is_empty(), "{:?}", rig.handled());
    rig.pass(86_400);
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn suspending_handles_nothing_and_resuming_runs_no_past() {
    let mut rig = Rig::new(EVERY_MINUTE);
    assert!(rig.request(Request::Suspend("a".to_owned())).is_none());
    rig.make_durable();
    assert!(matches!(rig.reply(), Some(Reply::Done)));
    rig.pass(150);
    rig.request(Request::Resume("a".to_owned()));
    rig.make_durable();
    assert!(rig.launched().is_empty() && rig.handled().is_empty());
    rig.pass(30);
    assert_eq!(rig.launched().len(), 1);
    assert!(rig.handled().is_empty());
}

#[test]
fn a_suspension_by_hand_outlives_the_daemon() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.request(Request::Suspend("a".to_owned()));
    let known = rig.actions.iter().rev().find_map(|action| match action {
        Action::SaveKnown { known, .. } => Some((**known).clone()),
        _ => None,
    });
    let boot = Boot { jobs: jobs(EVERY_MINUTE), known, ..Boot::default() };
    let mut next = Rig::booted(boot);
    next.pass(120);
    assert!(next.launched().is_empty());
    assert!(matches!(
        next.request(Request::Suspend("a".to_owned())),
        Some(Reply::Refused(Refusal::Unchanged { .. }))
    ));
}

#[test]
fn runs_by_hand_touch_no_mark_and_respect_forbid() {
    let mut rig = Rig::new(EVERY_MINUTE);
    let run = |overlap| Request::Run { identity: "a".to_owned(), overlap };
    assert!(rig.request(run(ManualOverlap::Respect)).is_none());
    let id = rig.execute();
    assert!(matches!(rig.reply(), Some(Reply::Started { run, .. }) if run == id));
    assert!(matches!(
        rig.request(run(ManualOverlap::Respect)),
        Some(Reply::Refused(Refusal::Active { run })) if run == id
    ));
    assert!(rig.request(run(ManualOverlap::Force)).is_none());
    assert!(matches!(
        rig.request(Request::Run { identity: "b".to_owned(), overlap: ManualOverlap::Force }),
        Some(Reply::Refused(Refusal::NoSuchJob { .. }))
    ));
    assert_eq!(rig.machine.jobs[0].past.last_handled, None);
    // A period that falls due meanwhile is skipped, for the run by hand counts as active.
    rig.actions.clear();
    rig.pass(60);
    assert_eq!(rig.handled(), [(Outcome::Skipped, "an execution is active".to_owned())]);
}

#[test]
fn removed_jobs_are_supervised_to_their_end() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    let run = rig.execute();
    rig.feed(Event::Load { jobs: Vec::new(), request: None });
    rig.pass(60);
    assert_eq!(rig.launched().len(), 1);
    assert!(!rig.did("End"));
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(3));
    assert!(rig.changes().iter().any(|c| matches!(c, Change::Finish { .. })));
    // Defined again, it is new, and its mark is remembered.
    rig.feed(Event::Load { jobs: jobs(EVERY_MINUTE), request: None });
    assert_eq!(rig.machine.jobs[0].past.last_handled, Some(at("2026-06-01T12:01:00Z")));
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn a_failed_write_gives_up_what_is_gated_and_leaves() {
    let mut rig = Rig::new(&format!("{EVERY_MINUTE}{}", EVERY_MINUTE.replace("name=a", "name=b")));
    rig.pass(60);
    let gated = rig.arm();
    let ticket = *rig.machine.pending.keys().next_back().expect("a write on its way");
    rig.actions.clear();
    let (identity, period) = (Some("a".into()), Some(kron_state::PeriodRef::Period(rig.now.wall)));
    let message = "input/output error".to_owned();
    let operation = "write state";
    rig.feed(Event::NotDurable { ticket, operation, identity, period, message });
    assert!(rig.did(&format!("Abandon({gated:?})")));
    assert!(matches!(rig.actions.last(), Some(Action::Exit(ExitReason::Persistence { .. }))));
    rig.actions.clear();
    rig.pass(600);
    assert!(rig.actions.is_empty());
    assert_eq!(rig.machine.next_wakeup(), Wakeup::default());
}

#[test]
fn a_leap_of_more_than_a_day_is_not_believed_at_once() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.actions.clear();
    rig.set_clock(3 * 86_400);
    assert!(rig.logged("clock_held"));
    assert_eq!(rig.machine.next_wakeup().wall, None);
    rig.pass(59);
    rig.feed(Event::Tick { synchronised: true });
    assert!(rig.launched().is_empty() && rig.handled().is_empty());
    rig.pass(1);
    assert!(rig.handled().is_empty(), "it is not synchronised");
    // Asked again after another minute.
    rig.now.boot += Duration::from_secs(60);
    rig.now.wall = rig.now.wall.saturating_add(60);
    rig.feed(Event::Tick { synchronised: true });
    assert!(rig.logged("clock_accepted"));
    assert_eq!(rig.handled()[0], (Outcome::Missed, "superseded".to_owned()));
}

#[test]
fn a_leap_that_is_taken_back_leaves_no_trace() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.set_clock(3 * 86_400);
    rig.set_clock(-3 * 86_400);
    rig.pass(60);
    assert_eq!(rig.launched().len(), 1);
    assert!(rig.handled().is_empty());
}

#[test]
fn a_leap_can_be_accepted_by_hand() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.set_clock(3 * 86_400);
    assert!(matches!(rig.request(Request::AcceptClock), Some(Reply::Done)));
    assert!(!rig.launched().is_empty());
    assert!(matches!(
        rig.request(Request::AcceptClock),
        Some(Reply::Refused(Refusal::Unchanged { .. }))
    ));
}

#[test]
fn a_clock_that_goes_back_runs_nothing_again() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    let run = rig.execute();
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(0));
    rig.make_durable();
    rig.set_clock(-600);
    assert!(rig.logged("clock_step"));
    rig.pass(600);
    assert_eq!(rig.launched().len(), 1);
    rig.pass(60);
    assert_eq!(rig.launched().len(), 2);
}

fn recorded(last_handled: &str) -> Recorded {
    Recorded {
        identity: "a".to_owned(),
        last_handled: Some(at(last_handled)),
        last: None,
        active: Vec::new(),
        replacing: None,
        owed: Vec::new(),
        executed_ahead: Vec::new(),
        deliveries: Vec::new(),
        recent: Default::default(),
    }
}

fn known_since(created: &str) -> Known {
    let mut rig = Rig::new(EVERY_MINUTE);
    let known = rig.actions.drain(..).find_map(|action| match action {
        Action::SaveKnown { known, .. } => Some(*known),
        _ => None,
    });
    let mut known = known.expect("a load is made durable");
    for job in known.jobs.values_mut() {
        job.created_at = at(created);
    }
    known
}

#[test]
fn a_restart_within_the_deadline_runs_the_current_period_once() {
    let known = Some(known_since("2026-06-01T10:00:00Z"));
    let with = |recorded| Boot {
        jobs: jobs(EVERY_MINUTE),
        known: known.clone(),
        recorded: vec![recorded],
        ..Boot::default()
    };
    assert_eq!(Rig::booted(with(recorded("2026-06-01T11:59:00Z"))).launched().len(), 1);
    assert!(Rig::booted(with(recorded(NOON))).launched().is_empty());
}

#[test]
fn lost_state_runs_nothing_that_may_have_run() {
    let unreadable = document_file("a").trim_end_matches(".json").to_owned();
    let known = Some(known_since("2026-06-01T10:00:00Z"));
    let boot = |latest_seen| Boot {
        jobs: jobs(EVERY_MINUTE),
        known: known.clone(),
        unreadable: vec![(unreadable.clone(), at("2026-06-01T11:00:00Z"))],
        latest_seen,
        ..Boot::default()
    };
    let mut rig = Rig::booted(boot(None));
    assert!(rig.launched().is_empty() && rig.did("Restore") && rig.logged("state_lost"));
    rig.pass(60);
    assert_eq!(rig.launched().len(), 1);
    // Somebody saw a later time on this clock.
    let mut rig = Rig::booted(boot(Some(at("2026-06-01T12:05:00Z"))));
    rig.pass(300);
    assert!(rig.launched().is_empty());
    rig.pass(60);
    assert_eq!(rig.launched().len(), 1);
}

#[test]
fn a_document_that_vanished_is_lost_and_not_new() {
    let mut known = known_since("2026-06-01T10:00:00Z");
    let boot = |known| Boot { jobs: jobs(EVERY_MINUTE), known: Some(known), ..Boot::default() };
    assert_eq!(Rig::booted(boot(known.clone())).launched().len(), 1);
    for job in known.jobs.values_mut() {
        job.has_state = true;
    }
    let rig = Rig::booted(boot(known));
    assert!(rig.launched().is_empty());
    assert_eq!(rig.handled(), [(Outcome::Missed, "state lost".to_owned())]);
}

#[test]
fn a_copied_state_directory_runs_no_past() {
    let boot = Boot {
        jobs: jobs(EVERY_MINUTE),
        known: Some(known_since("2026-06-01T10:00:00Z")),
        recorded: vec![recorded("2026-06-01T11:59:00Z")],
        machine_id: "another".to_owned(),
        ..Boot::default()
    };
    let rig = Rig::booted(boot);
    assert!(rig.launched().is_empty() && rig.logged("machine_changed"));
    assert_eq!(rig.handled(), [(Outcome::Skipped, "definition changed".to_owned())]);
}

#[test]
fn stopping_waits_for_what_the_mode_says() {
    for (mode, leaves_at_once, ends) in [
        (StopMode::Leave, true, false),
        (StopMode::Wait, false, false),
        (StopMode::Kill, false, true),
    ] {
        let mut rig = Rig::new(EVERY_MINUTE);
        rig.pass(60);
        let run = rig.execute();
        rig.feed(Event::Stop(mode));
        rig.make_durable();
        assert_eq!(rig.did("Exit"), leaves_at_once, "{mode:?}");
        assert_eq!(rig.did("End"), ends, "{mode:?}");
        if !leaves_at_once {
            // Less than the grace and patience of those that are ended.
            rig.pass(if ends { 15 } else { 60 });
            assert_eq!(rig.launched().len(), 1, "{mode:?} starts nothing more");
            rig.end(&run, Cause::Asked, ExitStatus::Signal(15));
            assert!(!rig.did("Exit"), "{mode:?} waits for the record");
            rig.make_durable();
            assert!(rig.did("Exit"), "{mode:?}");
        }
    }
}

#[test]
fn a_start_on_its_way_is_finished_before_leaving() {
    let mut rig = Rig::new(EVERY_MINUTE);
    rig.pass(60);
    rig.feed(Event::Stop(StopMode::Leave));
    assert!(!rig.did("Exit"));
    rig.execute();
    assert!(rig.did("Release") && rig.did("Exit"));
}

#[test]
fn a_start_that_is_overtaken_before_it_is_recorded_is_owed_an_outcome() {
    let mut rig = Rig::new("*/30 * * * * * name=a command=/bin/true\n");
    rig.pass(30);
    rig.pass(29);
    rig.actions.clear();
    // The first is still being launched when the second falls due, and is skipped.
    rig.pass(1);
    let first = at("2026-06-01T12:00:30Z");
    assert_eq!(rig.changes()[0], Change::Owe(first));
    assert_eq!(rig.handled(), [(Outcome::Skipped, "an execution is active".to_owned())]);
    // A crash: the next daemon finds the debt.
    let boot = Boot {
        jobs: jobs(EVERY_MINUTE),
        known: Some(known_since("2026-06-01T10:00:00Z")),
        recorded: vec![Recorded {
            owed: vec![at("2026-06-01T11:50:00Z")],
            ..recorded("2026-06-01T12:00:00Z")
        }],
        ..Boot::default()
    };
    let rig = Rig::booted(boot);
    assert_eq!(rig.handled(), [(Outcome::Missed, "superseded".to_owned())]);
    assert!(rig.launched().is_empty());
}

#[test]
fn what_is_cleared_and_the_outcome_it_leaves_are_one_write() {
    let mut rig = Rig::new("* * * * * name=a command=/bin/true\n");
    rig.pass(60);
    let run = rig.arm();
    rig.make_durable();
    rig.pass(60);
    rig.actions.clear();
    rig.feed(Event::ExecFailed { run: run.clone(), failure: failure() });
    let changes = rig.changes();
    assert_eq!(changes[0], Change::Disarm(run));
    assert!(matches!(&changes[1], Change::Handle { reason, .. } if reason == "superseded"));
    let commits = rig.actions.iter().filter(|action| matches!(action, Action::Commit { .. }));
    assert_eq!(commits.count(), 1);
}

#[test]
fn what_ran_ahead_of_a_mark_that_was_moved_back_does_not_run_again() {
    let ahead = at("2026-06-01T12:02:00Z");
    let boot = Boot {
        jobs: jobs(EVERY_MINUTE),
        known: Some(known_since("2026-06-01T10:00:00Z")),
        recorded: vec![Recorded {
            executed_ahead: vec![ahead],
            ..recorded("2026-06-01T12:00:00Z")
        }],
        ..Boot::default()
    };
    let mut rig = Rig::booted(boot);
    for expected in [1, 1, 2] {
        rig.pass(60);
        if rig.launched().len() == expected && !rig.machine.runs.is_empty() {
            let run = rig.execute();
            rig.end(&run, Cause::Own, ExitStatus::ExitCode(0));
            rig.make_durable();
        }
        assert_eq!(rig.launched().len(), expected, "at {}", rig.now.wall);
    }
}
