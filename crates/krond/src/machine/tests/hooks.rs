//! Hooks: told at least once, and only of what is recorded.

use kron_config::{Hook, HookEvent, HookTarget};
use kron_core::Seconds;
use kron_state::{Delivery, DeliveryId};

use super::*;

fn hook(on: &[HookEvent]) -> Hook {
    Hook {
        name: "pager".to_owned(),
        on: on.to_vec(),
        jobs: Vec::new(),
        target: HookTarget::Command { argv: vec!["/bin/page".to_owned()], user: None },
        timeout: Seconds::new(5),
        retry_for: Seconds::new(60),
    }
}

fn rig(on: &[HookEvent]) -> Rig {
    Rig::booted(Boot { jobs: jobs(EVERY_MINUTE), hooks: vec![hook(on)], ..Boot::default() })
}

impl Rig {
    fn told(&self) -> Vec<Delivery> {
        let told = |action: &Action| match action {
            Action::Deliver { delivery, .. } => Some((**delivery).clone()),
            _ => None,
        };
        self.actions.iter().filter_map(told).collect()
    }

    fn noted(&self) -> Vec<DeliveryId> {
        let noted = |change: Change| match change {
            Change::Notify(delivery) => Some(delivery.id),
            _ => None,
        };
        self.changes().into_iter().filter_map(noted).collect()
    }
}

#[test]
fn a_hook_is_told_when_what_it_is_told_is_durable_and_with_it() {
    let mut rig = rig(&[HookEvent::Failed]);
    rig.pass(60);
    let run = rig.execute();
    rig.actions.clear();
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(3));
    let [Action::Commit { changes, .. }] = rig
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Commit { .. }))
        .collect::<Vec<_>>()[..]
    else {
        panic!("one write: {:?}", rig.actions);
    };
    assert!(matches!(&changes[..], [Change::Finish { .. }, Change::Notify(_)]), "{changes:?}");
    assert!(rig.told().is_empty());
    rig.make_durable();
    let told = rig.told();
    assert_eq!(told.len(), 1);
    assert_eq!((&*told[0].event, told[0].entry.exit_code), ("failed", Some(3)));
    assert_eq!(told[0].entry.run, Some(run));
    rig.feed(Event::Delivered { id: told[0].id, result: Ok(()) });
    assert_eq!(rig.changes().last(), Some(&Change::Delivered(told[0].id)));
    assert!(rig.machine.deliveries.is_empty());
}

#[test]
fn only_what_a_hook_wants_is_told() {
    for (on, code, told) in [
        (HookEvent::Failed, 0, 0),
        (HookEvent::Succeeded, 0, 1),
        (HookEvent::Succeeded, 1, 0),
        (HookEvent::Missed, 1, 0),
    ] {
        let mut rig = rig(&[on]);
        rig.pass(60);
        let run = rig.execute();
        rig.end(&run, Cause::Own, ExitStatus::ExitCode(code));
        rig.make_durable();
        assert_eq!(rig.told().len(), told, "{on:?} {code}");
    }
    let mut rig = rig(&[HookEvent::Skipped, HookEvent::TimedOut]);
    rig.pass(60);
    let run = rig.execute();
    rig.pass(60);
    rig.end(&run, Cause::Timeout, ExitStatus::Signal(15));
    rig.make_durable();
    let events: Vec<_> = rig.told().into_iter().map(|told| told.event.to_string()).collect();
    assert_eq!(events, ["skipped", "timed_out"]);
}

#[test]
fn what_could_not_be_told_is_told_again_and_given_up_in_the_end() {
    let mut rig = rig(&[HookEvent::Failed]);
    rig.pass(60);
    let run = rig.execute();
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(3));
    rig.make_durable();
    let id = rig.told()[0].id;
    rig.machine.jobs[0].suspend_override = Some(true);
    let mut attempts = 1;
    for pause in [10, 20, 40] {
        rig.feed(Event::Delivered { id, result: Err("no".to_owned()) });
        rig.pass(pause - 1);
        assert_eq!(rig.told().len(), attempts);
        rig.pass(1);
        attempts += 1;
        assert_eq!(rig.told().len(), attempts);
    }
    rig.feed(Event::Delivered { id, result: Err("no".to_owned()) });
    assert!(rig.logged("notification_dropped"));
    assert_eq!(rig.changes().last(), Some(&Change::Delivered(id)));
}

#[test]
fn the_next_daemon_tells_what_this_one_had_still_to_tell() {
    let mut first = rig(&[HookEvent::Failed]);
    first.pass(60);
    let run = first.execute();
    first.end(&run, Cause::Own, ExitStatus::ExitCode(3));
    first.make_durable();
    let told = first.told();
    let recorded = |deliveries| Recorded { deliveries, ..recorded("2026-06-01T12:01:00Z") };
    let boot = |hooks| Boot {
        jobs: Vec::new(),
        hooks,
        recorded: vec![recorded(told.clone())],
        ..Boot::default()
    };
    // Even of a job that is not defined any more.
    let mut next = Rig::booted(boot(vec![hook(&[HookEvent::Missed])]));
    assert_eq!(next.told(), told);
    next.feed(Event::Delivered { id: told[0].id, result: Ok(()) });
    next.make_durable();
    assert!(next.machine.names.is_empty(), "and it is forgotten then");
    // A hook that is gone cannot be told, and that is told.
    let next = Rig::booted(boot(Vec::new()));
    assert!(next.told().is_empty() && next.logged("notification_dropped"));
    assert_eq!(next.changes(), [Change::Delivered(told[0].id)]);
}

#[test]
fn hooks_that_cannot_be_told_do_not_fill_the_disk() {
    let mut rig = rig(&[HookEvent::Failed]);
    for _ in 0..105 {
        rig.pass(60);
        let run = rig.execute();
        rig.end(&run, Cause::Own, ExitStatus::ExitCode(3));
        rig.make_durable();
    }
    assert_eq!(rig.noted().len(), 105);
    assert_eq!(rig.machine.deliveries.len(), 100);
    assert!(rig.logged("notification_dropped"));
}

#[test]
fn a_clock_that_is_not_believed_gives_nothing_up() {
    let mut rig = rig(&[HookEvent::Failed]);
    rig.pass(60);
    let run = rig.execute();
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(3));
    rig.make_durable();
    let id = rig.told()[0].id;
    rig.set_clock(2 * 86_400);
    assert!(rig.logged("clock_held"));
    rig.feed(Event::Delivered { id, result: Err("no".to_owned()) });
    assert!(!rig.logged("notification_dropped"));
}

#[test]
fn a_removed_job_that_has_still_to_be_told_of_is_not_counted_as_loaded() {
    let mut rig = rig(&[HookEvent::Failed]);
    rig.pass(60);
    let run = rig.execute();
    rig.end(&run, Cause::Own, ExitStatus::ExitCode(3));
    rig.make_durable();
    rig.actions.clear();
    rig.feed(Event::Load { jobs: jobs(""), request: None });
    let loaded = |action: &Action| match action {
        Action::Epoch(kron_state::EpochEvent::Load { jobs, .. }) => Some(*jobs),
        _ => None,
    };
    assert_eq!(rig.actions.iter().find_map(loaded), Some(0));
}
