//! How long it takes until another leads.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kron_testkit::waiting::{PATIENCE, now};

use super::load::Schedule;
use super::replica::{
    LEASE, Replica, await_leader, await_starts, leader, pair, pair_with_long_lease,
};
use super::verdict::{LeaseWrite, Ledger};
use super::{say, wall};
use crate::control_plane::ControlPlane;
use crate::process::wait_until;
use crate::pulse::Pulse;

/// After at least one kill of a leader, another leads within the lease and this.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// After at least one orderly end of a leader, another leads within this.
const AFTER_TERM: Duration = Duration::from_secs(1);
/// Between a Job's time and the next one's, and as much again.
const JOB_GRACE: Duration = Duration::from_secs(2);
/// So many requests and timers there are one after the other until another leads and makes a Job:
/// each may take as much longer as the machine is slow.
const STEPS: u32 = 6;
/// How often a leader is lost in each way.
const LOSSES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Kill,
    Terminate,
}

/// A leader that was lost.
struct Lost {
    at: Timestamp,
    /// The users of the one that was lost, and of the one that took over.
    users: [&'static str; 2],
    /// How long it took until the other led.
    took: Duration,
}

#[test]
fn another_leads_within_the_lease_after_a_kill_and_at_once_after_an_orderly_end() {
    let plane = ControlPlane::quiet();
    let killed = plane.namespace("takeover-kill");
    measure(plane, &killed, pair(plane, &killed), Loss::Kill);
    // A lease that lasts longer than the test waits: one that waited for its end would never lead.
    let ended = plane.namespace("takeover-end");
    measure(plane, &ended, pair_with_long_lease(plane, &ended), Loss::Terminate);
}

/// Loses leaders, and checks for each that another took the lease in the right order and made Jobs.
///
/// At least one loss is followed in time. The beat measures the API server and not the operators: one
/// that the machine does not run for a while is late once, and not every time.
fn measure(plane: &ControlPlane, namespace: &str, mut pair: [Replica<'_>; 2], loss: Loss) {
    let schedule = Schedule::new(namespace, "every-second", 1, 0);
    schedule.create(plane);
    await_starts(&pair);
    let mut pulse = Pulse::start(plane, namespace);
    let mut longest_beat = Duration::ZERO;
    let mut prompt: Vec<bool> = Vec::new();
    for _ in 0..LOSSES {
        let lost = lose(plane, &mut pair, loss);
        let ended = std::mem::replace(&mut pulse, Pulse::start(plane, namespace));
        let beat = ended.longest_beat();
        longest_beat = longest_beat.max(beat);
        prompt.push(is_followed_in_time(&Ledger::read(plane, namespace), loss, &lost, beat));
    }
    longest_beat = longest_beat.max(pulse.longest_beat());
    assert!(prompt.contains(&true), "{loss:?}: no loss was followed in time");
    let ledger = Ledger::read(plane, namespace);
    assert_eq!(ledger.wrong(&schedule, wall(), wall(), longest_beat), []);
    // The last request of a leader that was killed may arrive when another has claimed, later by as
    // much as the machine is slow; its Job is the only one of its period all the same.
    assert_eq!(ledger.without_claim(|_| longest_beat), []);
}

/// Checks that the lease changed hands as it must, and made Jobs; whether that was soon enough.
fn is_followed_in_time(ledger: &Ledger, loss: Loss, lost: &Lost, beat: Duration) -> bool {
    let Lost { at, users: [old, new], took } = *lost;
    let handover = ledger.handover(new, at);
    let taken = match loss {
        Loss::Kill => check_expiry(&handover, old, new),
        // The other has not waited for the end of the lease, which lasts longer than the test waits.
        Loss::Terminate => check_release(&handover, at, old, new),
    };
    let job = ledger.first_job(taken).unwrap().duration_since(at);
    let job = Duration::try_from(job).unwrap();
    let slowness = beat * STEPS;
    say(&format!(
        "{loss:?}: another leads in {took:.2?}, the first Job is made in {job:.2?}; a slow machine \
         is allowed {slowness:.2?} more"
    ));
    let took_max = slowness
        + match loss {
            Loss::Kill => LEASE + AFTER_KILL,
            Loss::Terminate => AFTER_TERM,
        };
    took <= took_max && job <= took_max + JOB_GRACE
}

/// When the other took the lease. The one that was killed had renewed it and gave nothing back.
#[track_caller]
fn check_expiry(handover: &[LeaseWrite<'_>], old: &str, new: &str) -> Timestamp {
    let [.., renewed, taken] = handover else {
        panic!("the lease was not taken over: {handover:?}");
    };
    assert!(renewed.is_held_by(old) && taken.is_held_by(new), "{handover:?}");
    taken.received
}

/// When the other took the lease. Before that, and after this moment, the old leader gave it back as
/// its last write.
#[track_caller]
fn check_release(handover: &[LeaseWrite<'_>], at: Timestamp, old: &str, new: &str) -> Timestamp {
    let [renewals @ .., released, taken] = handover else {
        panic!("the lease was not handed over: {handover:?}");
    };
    let mut renewals = renewals.iter().filter(|write| write.received > at);
    assert!(renewals.all(|write| write.is_held_by(old)), "{handover:?}");
    assert_eq!((released.user, released.holder), (old, ""), "{handover:?}");
    assert!(released.received > at && taken.is_held_by(new), "{handover:?}");
    taken.received
}

/// A leader that is stopped, and certainly leads.
struct Stopped {
    place: usize,
    at: Timestamp,
    began: Instant,
    /// How often the other had led before.
    other_led: usize,
}

/// Stops the leader. The lease is looked at again once it stands still: on a busy machine another
/// may lead by the time that it stops, and losing this one then would prove nothing.
fn stop_leader(plane: &ControlPlane, pair: &[Replica<'_>; 2]) -> Stopped {
    loop {
        let place = await_leader(plane, pair);
        let other = &pair[1 - place];
        // A replica that has only been started cannot take over.
        wait_until("the other stands by", PATIENCE, || {
            (other.count("standing_by") > 0 && other.count("read") > 0).then_some(())
        });
        await_starts(pair);
        let (at, began) = (wall(), now());
        pair[place].operator.suspend();
        let other_led = other.count("leading");
        if leader(plane, pair) == Some(place) {
            return Stopped { place, at, began, other_led };
        }
        pair[place].operator.resume();
    }
}

/// Loses the leader, and begins a new life of it when the other leads.
fn lose(plane: &ControlPlane, pair: &mut [Replica<'_>; 2], loss: Loss) -> Lost {
    let Stopped { place, mut at, mut began, other_led } = stop_leader(plane, pair);
    let other = 1 - place;
    match loss {
        // It renews nothing from its stop on.
        Loss::Kill => pair[place].operator.kill(),
        Loss::Terminate => {
            (at, began) = (wall(), now());
            pair[place].operator.terminate();
            pair[place].operator.resume();
        }
    }
    pair[other].operator.await_events("leading", other_led + 1, PATIENCE);
    let took = began.elapsed();
    await_starts(pair);
    if loss == Loss::Terminate {
        assert!(pair[place].operator.wait(PATIENCE).success());
    }
    pair[place].restart();
    Lost { at, users: [pair[place].user, pair[other].user], took }
}
