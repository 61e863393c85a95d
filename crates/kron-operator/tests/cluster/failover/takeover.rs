//! How long it takes until another leads.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kron_testkit::waiting::{PATIENCE, now};

use super::load::Schedule;
use super::replica::{
    LEASE, Replica, await_leader, await_starts, leader, pair, pair_with_long_lease,
};
use super::verdict::Ledger;
use super::{say, wall};
use crate::control_plane::ControlPlane;
use crate::process::wait_until;
use crate::pulse::Pulse;

/// After a leader was killed, another leads within the lease and this.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// After one orderly end of a leader at least, another leads within this.
const AFTER_TERM: Duration = Duration::from_secs(1);
/// Between a Job's time and the next one's, and as much again.
const JOB_GRACE: Duration = Duration::from_secs(2);
/// So many requests and timers there are one after the other until another leads and makes a Job:
/// each may take as much longer as the machine is slow.
const STEPS: u32 = 6;

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
    measure(plane, &killed, pair(plane, &killed), &[Loss::Kill; 2]);
    // A lease that lasts longer than the test waits: one that waited for its end would never lead.
    let ended = plane.namespace("takeover-end");
    measure(plane, &ended, pair_with_long_lease(plane, &ended), &[Loss::Terminate; 3]);
}

/// Loses leaders, and checks how long it took until another led and made Jobs.
fn measure(plane: &ControlPlane, namespace: &str, mut pair: [Replica<'_>; 2], losses: &[Loss]) {
    let schedule = Schedule::new(namespace, "every-second", 1, 0);
    schedule.create(plane);
    await_starts(&pair);
    let pulse = Pulse::start(plane, namespace);
    let lost: Vec<(Loss, Lost)> =
        losses.iter().map(|loss| (*loss, lose(plane, &mut pair, *loss))).collect();
    let beat = pulse.longest_beat();
    let slowness = beat * STEPS;
    say(&format!("a slow machine is allowed {slowness:.2?} more"));

    let ledger = Ledger::read(plane, namespace);
    let mut prompt: Vec<bool> = Vec::new();
    for (loss, Lost { at, users, took }) in &lost {
        let job = ledger.first_job(*at).unwrap().duration_since(*at);
        let job = Duration::try_from(job).unwrap();
        say(&format!("{loss:?}: another leads in {took:.2?}, the first Job is made in {job:.2?}"));
        match loss {
            Loss::Kill => {
                assert!(*took <= LEASE + AFTER_KILL + slowness, "{took:?}");
                assert!(job <= LEASE + AFTER_KILL + JOB_GRACE + slowness, "{job:?}");
            }
            Loss::Terminate => {
                // The other has not waited for the end of the lease, which lasts longer than the test
                // waits.
                check_handover(&ledger.handover(*at), *users);
                let job_max = AFTER_TERM + JOB_GRACE + slowness;
                prompt.push(*took <= AFTER_TERM + slowness && job <= job_max);
            }
        }
    }
    // The beat does not measure the operators themselves: one whose pages the machine evicted is late
    // once, and not every time.
    assert!(prompt.is_empty() || prompt.contains(&true), "no orderly end was followed at once");

    assert_eq!(ledger.wrong(&schedule, wall(), wall()), []);
    // The last request of a leader that was killed may arrive when another has claimed, later by as
    // much as the machine is slow; its Job is the only one of its period all the same.
    assert_eq!(ledger.without_claim(beat), []);
}

/// The old leader gave the lease back as its last write, and the other took it after that.
#[track_caller]
fn check_handover(handover: &[(&str, &str)], [old, new]: [&str; 2]) {
    let [renewals @ .., released, taken] = handover else {
        panic!("the lease was not handed over: {handover:?}");
    };
    let held_by = |user: &str, holder: &str| holder.starts_with(&format!("{user}-"));
    assert!(renewals.iter().all(|(user, holder)| held_by(user, holder)), "{handover:?}");
    assert_eq!(*released, (old, ""), "{handover:?}");
    assert_eq!(taken.0, new, "{handover:?}");
    assert!(held_by(new, taken.1), "{handover:?}");
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
