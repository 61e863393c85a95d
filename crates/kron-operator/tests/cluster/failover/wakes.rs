//! A leader that was stopped, or cut off from its lease, while another took its place.

use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kron_testkit::process::is_stopped;
use kron_testkit::waiting::PATIENCE;

use super::load::{Schedule, await_jobs};
use super::replica::{LEASE, Replica, await_leader, await_starts, leader, pair};
use super::verdict::Ledger;
use super::wall;
use crate::control_plane::ControlPlane;
use crate::process::wait_until;
use crate::proxy::{Fault, Matching, Often};
use crate::pulse::Pulse;

/// How often a costly condition is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// A namespace with two replicas, of which one leads and makes Jobs.
struct Scene<'a> {
    plane: &'a ControlPlane,
    namespace: String,
    schedules: Vec<Schedule>,
    pair: [Replica<'a>; 2],
    leader: usize,
    from: Timestamp,
}

impl Scene<'_> {
    fn set(name: &str, schedules: impl FnOnce(&str) -> Vec<Schedule>) -> Scene<'static> {
        let plane = ControlPlane::quiet();
        let namespace = plane.namespace(name);
        let schedules = schedules(&namespace);
        for schedule in &schedules {
            schedule.create(plane);
        }
        let pair = pair(plane, &namespace);
        let leader = await_leader(plane, &pair);
        // What fell due before anybody led may rightly have been passed over.
        let from = wall();
        wait_until("the other stands by", PATIENCE, || {
            (pair[1 - leader].count("read") > 0).then_some(())
        });
        Scene { plane, namespace, schedules, pair, leader, from }
    }

    fn other(&self) -> usize {
        1 - self.leader
    }

    /// Stops the replica that leads. On a busy machine that may be another than before.
    fn suspend_leader(&mut self) {
        loop {
            self.leader = await_leader(self.plane, &self.pair);
            self.pair[self.leader].operator.suspend();
            if leader(self.plane, &self.pair) == Some(self.leader) {
                return;
            }
            self.pair[self.leader].operator.resume();
        }
    }

    /// Stops the replica that asks for a Job of the only schedule while the proxy holds its request.
    /// Gives the period of that Job.
    ///
    /// An operator waits for an answer no longer than its lease lasts. On a machine that is slow to
    /// stop it, it may have given the request up, and the proxy with it: then it goes on, and what
    /// it asks for next is held in turn.
    fn suspend_while_its_request_is_held(&mut self) -> Timestamp {
        loop {
            let place = wait_until("the Job is asked for", PATIENCE, || {
                self.pair.iter().position(|replica| replica.proxy.held() > 0)
            });
            let Replica { proxy, operator, user, .. } = &self.pair[place];
            operator.suspend();
            wait_until("it stands still", PATIENCE, || is_stopped(operator.id()).then_some(()));
            // What it did before, such as closing a connection, the proxy knows when it has answered.
            proxy.api(user).get("/version").expect(200);
            let now = wall();
            let schedule = &self.schedules[0];
            let times = schedule.times(now - Duration::from_secs(60), now + Duration::from_secs(1));
            let due = times.last().copied().unwrap();
            // With enough time left for another to make the Job.
            if proxy.held() == 1 && now < due + schedule.deadline / 2 {
                self.leader = place;
                return due;
            }
            operator.resume();
            wait_until("it gives the request up", PATIENCE, || (proxy.held() == 0).then_some(()));
            // A period whose requests were all held is rightly missed.
            self.from = now;
        }
    }

    /// Cuts the leader off from its lease in time for it to ask for something while it leads. Gives
    /// the moment of the cut.
    ///
    /// On a busy machine the lease may be over before that, or another lead already: then this cut
    /// proves nothing, and the one who leads is cut off instead.
    fn cut_leader_off(&mut self) -> Timestamp {
        wait_until("a leader that is cut off asks for something", PATIENCE, || {
            self.leader = await_leader(self.plane, &self.pair);
            let [old, new] = [self.leader, self.other()].map(|place| &self.pair[place]);
            old.proxy.inject(Matching::LEASE, Fault::Drop, Often::Always);
            let cut_off = wall();
            let asks = || {
                thread::sleep(LOOK);
                let ledger = self.ledger();
                let taken = ledger.lease_written(new.user, cut_off);
                let has_asked = ledger.asked(old.user, cut_off, taken.unwrap_or_else(wall)) > 0;
                (has_asked || taken.is_some()).then_some(has_asked)
            };
            if leader(self.plane, &self.pair) == Some(self.leader)
                && wait_until("it asks, or another leads", PATIENCE, asks)
            {
                return Some(cut_off);
            }
            old.proxy.heal();
            None
        })
    }

    /// Waits until the other leads and makes Jobs.
    fn await_other(&self) {
        wait_until("the other leads", PATIENCE, || {
            (leader(self.plane, &self.pair) == Some(self.other())).then_some(())
        });
        wait_until("the other makes Jobs", PATIENCE, || {
            (self.pair[self.other()].count("started") > 0).then_some(())
        });
    }

    fn ledger(&self) -> Ledger {
        Ledger::read(self.plane, &self.namespace)
    }

    /// Every schedule is as it must be between two moments, and every Job was claimed by its maker,
    /// whose request may have been on its way for so long.
    fn check(&self, ledger: &Ledger, from: Timestamp, to: Timestamp, on_its_way: Duration) {
        for schedule in &self.schedules {
            assert_eq!(ledger.wrong(schedule, from, to, on_its_way), []);
        }
        assert_eq!(ledger.without_claim(|_| on_its_way), []);
    }
}

/// How often a [`bunch`] is due.
const BUNCH_S: i64 = 10;

/// KronJobs of which twenty are due in the same second, and each only once a minute: on the busiest
/// machine, too, another leads before a later period supersedes this one.
fn bunch(namespace: &str) -> Vec<Schedule> {
    let member = |offset_s: i64, count: i32| {
        let name = format!("bunch-{offset_s:02}-{count:02}");
        Schedule::new(namespace, &name, 60, offset_s).with_deadline(Duration::from_secs(55))
    };
    let offsets_s = (0..60 / BUNCH_S).map(|count| count * BUNCH_S);
    offsets_s.flat_map(|offset_s| (0..20).map(move |count| member(offset_s, count))).collect()
}

/// Waits for a moment between two times of a [`bunch`] at which nothing is under way.
fn await_quiet() {
    wait_until("between two times", PATIENCE, || {
        (5..=6).contains(&wall().as_second().rem_euclid(BUNCH_S)).then_some(())
    });
}

#[test]
fn a_stopped_leader_asks_for_nothing_when_it_wakes() {
    let mut scene = Scene::set("wakes", bunch);
    await_starts(&scene.pair);
    let pulse = Pulse::start(scene.plane, &scene.namespace);
    await_quiet();
    scene.suspend_leader();
    scene.await_other();
    // Past the next time of the bunch: it wakes with everything due and its claims in its memory.
    thread::sleep(LEASE / 2);
    let woken = wall();
    let standing_by = scene.pair[scene.leader].count("standing_by");
    scene.pair[scene.leader].operator.resume();
    wait_until("it stands by", PATIENCE, || {
        (scene.pair[scene.leader].count("standing_by") > standing_by).then_some(())
    });
    await_starts(&scene.pair);
    let end = wall();

    // The other is lost in turn: the one that woke knows what happened meanwhile.
    scene.pair[scene.other()].operator.kill();
    wait_until("the first leads again", PATIENCE, || {
        (leader(scene.plane, &scene.pair) == Some(scene.leader)).then_some(())
    });
    await_starts(&scene.pair);
    await_jobs(scene.plane, &scene.schedules, scene.from, end);
    let on_its_way = pulse.longest_beat();
    let ledger = scene.ledger();
    let user = scene.pair[scene.leader].user;
    // On a busy machine the other may lose the lease meanwhile, and this one lead again.
    let led = ledger.lease_written(user, woken).map_or(end, |written| written.min(end));
    assert_eq!(ledger.asked(user, woken, led), 0, "what `{user}` asked for without leading");
    // What the leader had sent when it was stopped may arrive later, by as much as the machine is
    // slow, and then makes the one Job of its period.
    scene.check(&ledger, scene.from, end, on_its_way);
}

#[test]
fn a_leader_that_is_cut_off_from_its_lease_asks_for_nothing_once_another_leads() {
    let mut scene = Scene::set("cut-off", |namespace| {
        let name = |count: i32| format!("often-{count}");
        (0..5).map(|count| Schedule::new(namespace, &name(count), 1, 0)).collect()
    });
    await_starts(&scene.pair);
    let pulse = Pulse::start(scene.plane, &scene.namespace);
    let cut_off = scene.cut_leader_off();
    scene.await_other();
    // Several times have come.
    for _ in 0..3 {
        await_starts(&scene.pair);
    }
    let end = wall();
    // What was sent in time may arrive later, by as much as the machine is slow.
    let on_its_way = pulse.longest_beat();
    let ledger = scene.ledger();
    let [old, new] = [scene.leader, scene.other()].map(|place| scene.pair[place].user);
    let taken = ledger.lease_written(new, cut_off).unwrap();
    let asked = ledger.asked(old, taken + on_its_way, end);
    assert_eq!(asked, 0, "what `{old}` asked for without leading");
    scene.check(&ledger, end, end, on_its_way);
}

#[test]
fn a_request_that_arrives_after_another_took_over_makes_no_second_job() {
    let mut scene = Scene::set("late-request", |_| Vec::new());
    for replica in &scene.pair {
        replica.proxy.inject(Matching::JOB_CREATION, Fault::HoldRequest, Often::Always);
    }
    // Due once a minute, and soon. Another leads long before the deadline, and makes the Job.
    let offset_s = (wall().as_second() + 4).rem_euclid(60);
    let schedule = Schedule::new(&scene.namespace, "once", 60, offset_s);
    scene.schedules.push(schedule.with_deadline(Duration::from_secs(55)));
    // What fell due before it was made is rightly not run.
    scene.from = scene.schedules[0].create(scene.plane);
    let due = scene.suspend_while_its_request_is_held();
    let [old, new] = [scene.leader, scene.other()];
    scene.pair[new].proxy.heal();
    let schedule = &scene.schedules[0];
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", scene.namespace);
    wait_until("the other makes the Job", PATIENCE, || {
        let job = scene.plane.api().get(&format!("{jobs}/{}", schedule.job(due)));
        (job.status == 200).then_some(())
    });
    scene.pair[old].proxy.release();
    let key = schedule.key(due);
    let ledger = wait_until("the late request arrives", PATIENCE, || {
        thread::sleep(LOOK);
        let ledger = scene.ledger();
        (!ledger.answers(scene.pair[old].user, &key).is_empty()).then_some(ledger)
    });
    let answers = ledger.answers(scene.pair[old].user, &key);
    assert_eq!(answers, [409], "it came after the Job was made");
    let planned = scene.pair[old].count("planned");
    scene.pair[old].operator.resume();
    scene.pair[new].operator.kill();
    wait_until("the first leads again", PATIENCE, || {
        (leader(scene.plane, &scene.pair) == Some(old)).then_some(())
    });
    wait_until("it has planned", PATIENCE, || {
        (scene.pair[old].count("planned") > planned).then_some(())
    });
    let ledger = scene.ledger();
    assert!(ledger.has(&scene.schedules[0], due));
    scene.check(&ledger, scene.from, due + Duration::from_secs(1), Duration::ZERO);
}
