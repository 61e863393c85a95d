//! Runs that stand at their gates before they fall due.

use super::*;

/// Three jobs, every minute.
fn trio(more: &str) -> String {
    ["a", "b", "c"].map(|name| format!("* * * * * {more} name={name} command=/bin/true\n")).concat()
}

fn prepared(lines: &str, burst_min: usize, runs_max: usize) -> Rig {
    let preparation = Some(Preparation { burst_min, runs_max });
    Rig::booted(Boot { jobs: jobs(lines), preparation, ..Boot::default() })
}

impl Rig {
    /// Runs whose records were asked for.
    fn recorded(&self) -> Vec<RunId> {
        let armed = |change: Change| match change {
            Change::Arm(active) => Some(active.run),
            _ => None,
        };
        self.changes().into_iter().filter_map(armed).collect()
    }

    fn dismissed(&self) -> Vec<RunId> {
        let abandoned = |action: &Action| match action {
            Action::Abandon(run) => Some(run.clone()),
            _ => None,
        };
        let runs: Vec<RunId> = self.actions.iter().filter_map(abandoned).collect();
        for run in &runs {
            let forgets = |action: &Action| matches!(action, Action::Acknowledge(id) if id == run);
            assert!(self.actions.iter().any(forgets), "{run} is never forgotten");
        }
        runs
    }
}

#[test]
fn a_burst_stands_ready_and_is_recorded_and_released_at_its_time() {
    let mut rig = prepared(&trio(""), 3, 10);
    assert_eq!(rig.machine.next_wakeup().wall, Some(at("2026-06-01T12:00:52Z")));
    rig.pass(51);
    assert!(rig.launched().is_empty());
    rig.pass(1);
    let runs = rig.launched();
    assert_eq!(runs.len(), 3);
    assert!(rig.logged("prepared") && !rig.logged("decision"));
    assert_eq!(rig.machine.next_wakeup().wall, Some(at("2026-06-01T12:01:00Z")));
    for run in &runs {
        rig.come_to_gate(run);
    }
    rig.pass(7);
    assert!(rig.recorded().is_empty() && !rig.did("Release"), "not before its time");
    rig.pass(1);
    assert_eq!(rig.launched(), runs, "nothing else is started");
    let (mut recorded, mut wanted) = (rig.recorded(), runs);
    recorded.sort();
    wanted.sort();
    assert_eq!(recorded, wanted);
    assert!(rig.logged("decision") && !rig.did("Release"), "not before it is recorded");
    rig.make_durable();
    assert_eq!(rig.actions.iter().filter(|a| matches!(a, Action::Release(_))).count(), 3);
    rig.pass(1);
    assert_eq!(rig.dismissed(), []);
}

#[test]
fn few_jobs_are_no_burst_and_only_so_many_stand_ready() {
    let mut rig = prepared(&trio(""), 4, 10);
    rig.pass(59);
    assert!(rig.launched().is_empty());
    let mut rig = prepared(&trio(""), 2, 2);
    rig.pass(59);
    assert_eq!(rig.launched().len(), 2);
    rig.pass(1);
    assert_eq!(rig.launched().len(), 3, "the third is started as always");
}

#[test]
fn what_is_late_at_its_gate_is_recorded_when_it_gets_there() {
    let mut rig = prepared(&trio(""), 3, 10);
    rig.pass(59);
    let runs = rig.launched();
    rig.pass(1);
    assert!(rig.recorded().is_empty());
    rig.come_to_gate(&runs[0]);
    assert_eq!(rig.recorded(), runs[..1]);
    // And whatever never gets there is given up, as any start is.
    rig.pass(60);
    assert!(rig.handled().contains(&(Outcome::Missed, "start stalled".to_owned())));
}

#[test]
fn whoever_dies_at_the_gate_is_replaced_at_the_time() {
    let mut rig = prepared(&trio(""), 3, 10);
    rig.pass(59);
    let runs = rig.launched();
    rig.come_to_gate(&runs[0]);
    rig.feed(Event::Ended { run: runs[0].clone(), report: Report::default() });
    rig.feed(Event::LaunchFailed { run: runs[1].clone(), failure: failure() });
    assert!(rig.did("Acknowledge") && !rig.logged("start_failed"), "nothing was to be started yet");
    rig.pass(1);
    assert_eq!(rig.launched().len(), 5);
    assert!(rig.handled().is_empty() && rig.recorded().is_empty());
}

#[test]
fn new_definitions_send_everybody_away_and_are_prepared_anew() {
    let mut rig = prepared(&trio(""), 3, 10);
    rig.pass(57);
    let before = rig.launched();
    rig.come_to_gate(&before[0]);
    rig.feed(Event::Load { jobs: jobs(&trio("@policy(deadline=9s)")), request: None });
    assert_eq!(rig.dismissed().len(), 3);
    let after = rig.launched().split_off(3);
    assert_eq!(after.len(), 3);
    // Too late: it is none of ours any more.
    rig.come_to_gate(&before[1]);
    rig.come_to_gate(&after[0]);
    rig.pass(3);
    assert_eq!(rig.recorded(), after[..1]);
    assert_eq!(rig.launched().len(), 6);
}

#[test]
fn a_job_that_was_suspended_meanwhile_does_not_run() {
    let mut rig = prepared(&trio(""), 3, 10);
    rig.pass(59);
    let runs = rig.launched();
    for run in &runs {
        rig.come_to_gate(run);
    }
    rig.request(Request::Suspend("b".to_owned()));
    rig.pass(1);
    assert_eq!(rig.recorded().len(), 2);
    let dismissed = rig.dismissed();
    assert_eq!(dismissed.len(), 1);
    assert!(!rig.recorded().contains(&dismissed[0]));
}

#[test]
fn a_clock_that_was_set_and_a_daemon_that_stops_send_everybody_away() {
    let mut rig = prepared(&trio(""), 3, 10);
    rig.pass(59);
    rig.set_clock(-30);
    assert_eq!(rig.dismissed().len(), 3);
    rig.pass(23);
    assert_eq!(rig.launched().len(), 6, "they are brought back in time");
    rig.actions.clear();
    rig.feed(Event::Stop(StopMode::Wait));
    assert_eq!(rig.dismissed().len(), 3);
    rig.make_durable();
    assert!(rig.did("Exit") && rig.recorded().is_empty());
}

#[test]
fn whoever_would_be_skipped_is_not_prepared() {
    let mut rig = prepared(EVERY_MINUTE, 1, 10);
    rig.pass(60);
    let run = rig.execute();
    rig.pass(59);
    assert_eq!(rig.launched().len(), 1, "it is still running");
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(0));
    rig.pass(1);
    assert_eq!(rig.launched().len(), 2, "and is started as always");
    let mut rig = prepared(&EVERY_MINUTE.replace("30s", "30s,concurrency=allow"), 1, 10);
    rig.pass(60);
    rig.execute();
    rig.pass(59);
    assert_eq!(rig.launched().len(), 2, "both may run");
}
