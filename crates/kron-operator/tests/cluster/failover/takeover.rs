//! How long it takes until another leads.

use std::time::Duration;

use jiff::Timestamp;

use super::load::Schedule;
use super::replica::{LEASE, Replica, await_leader, await_starts, pair};
use super::verdict::Ledger;
use super::{PATIENCE, say, wall};
use crate::control_plane::ControlPlane;
use crate::process::{now, wait_until};
use crate::pulse::Pulse;

/// After a leader was killed, another leads within the lease and this.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// After a leader was told to end, another leads within this.
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

#[test]
fn another_leads_within_the_lease_after_a_kill_and_at_once_after_an_orderly_end() {
    let plane = ControlPlane::quiet();
    let namespace = plane.namespace("takeover");
    let schedule = Schedule::new(&namespace, "every-second", 1, 0);
    schedule.create(plane);
    let mut pair = pair(plane, &namespace);
    await_starts(&pair);
    let mut took = |losses: usize, loss: Loss| -> Vec<(Timestamp, Duration)> {
        (0..losses).map(|_| lose(plane, &mut pair, loss)).collect()
    };
    let pulse = Pulse::start(plane, &namespace);
    let killed = took(2, Loss::Kill);
    let ended = took(3, Loss::Terminate);
    let beat = pulse.longest_beat();
    let slowness = beat * STEPS;
    say(&format!("a slow machine is allowed {slowness:.2?} more"));

    let ledger = Ledger::read(plane, &namespace);
    let first_jobs = |losses: &[(Timestamp, Duration)]| -> Vec<Duration> {
        let after = losses.iter().map(|(at, _)| ledger.first_job(*at).unwrap().duration_since(*at));
        after.map(Duration::try_from).map(Result::unwrap).collect()
    };
    let until_leading = |losses: &[(Timestamp, Duration)]| -> Vec<Duration> {
        losses.iter().map(|(_, took)| *took).collect()
    };
    let (leading, jobs) = (until_leading(&killed), first_jobs(&killed));
    say(&format!(
        "after SIGKILL another leads in {leading:.2?}, the first Job is made in {jobs:.2?}"
    ));
    assert!(leading.iter().all(|took| *took <= LEASE + AFTER_KILL + slowness), "{leading:?}");
    assert!(jobs.iter().all(|took| *took <= LEASE + AFTER_KILL + JOB_GRACE + slowness), "{jobs:?}");
    let (leading, jobs) = (until_leading(&ended), first_jobs(&ended));
    say(&format!(
        "after SIGTERM another leads in {leading:.2?}, the first Job is made in {jobs:.2?}"
    ));
    // None waits for the lease to end.
    assert!(leading.iter().all(|took| *took <= AFTER_TERM + slowness), "{leading:?}");
    assert!(jobs.iter().all(|took| *took <= LEASE + JOB_GRACE + slowness), "{jobs:?}");

    assert_eq!(ledger.wrong(&schedule, wall(), wall()), []);
    // The last request of a leader that was killed may arrive when another has claimed.
    assert_eq!(ledger.without_claim_before(beat), []);
}

/// Loses the leader: when, and how long it took until the other led.
fn lose(plane: &ControlPlane, pair: &mut [Replica<'_>; 2], loss: Loss) -> (Timestamp, Duration) {
    let leader = await_leader(plane, pair);
    let other = 1 - leader;
    // Who is only being started cannot take over.
    wait_until("the other stands by", PATIENCE, || {
        let replica = &pair[other];
        (replica.count("standing_by") > 0 && replica.count("read") > 0).then_some(())
    });
    await_starts(pair);
    let before = pair[other].count("leading");
    let (at, began) = (wall(), now());
    match loss {
        Loss::Kill => pair[leader].operator.kill(),
        Loss::Terminate => pair[leader].operator.terminate(),
    }
    pair[other].operator.await_events("leading", before + 1, PATIENCE);
    let took = began.elapsed();
    await_starts(pair);
    if loss == Loss::Terminate {
        assert!(pair[leader].operator.wait(PATIENCE).success());
    }
    pair[leader].restart();
    (at, took)
}
