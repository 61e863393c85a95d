//! Deaths at random moments, with 8 producers at work.
//!
//! The moments are not exact, so that the same seed does not give the same story; what must hold,
//! holds in all. Producers rest while much waits, so that they are at work to the end.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kron_testkit::chance::{Seeded, number};
use kron_testkit::needs::left_out;
use kron_testkit::strace::NEEDS;
use kron_testkit::waiting::now;
use nix::sys::signal::Signal;

use crate::crash::progress::Progress;
use crate::spool_crash::checker::{Asked, Kind};
use crate::spool_crash::chronicle::{Chronicle, Dropping, Point, conclude};
use crate::spool_crash::producers::{PRODUCERS, Place, Way};

/// How many tasks there are, in the suite and where there is more time; `KRON_SPOOL_CRASH_TASKS`
/// makes it more.
const TASKS: u64 = 480;
const TASKS_OF_FULL: u64 = 2_000;
/// Where random numbers come from; `KRON_CRASH_SEED` sets another.
const SEED: u64 = 20_260_302;
/// Tasks that run at once.
const WORKERS: u32 = 16;
/// Tasks that may wait before producers rest.
const WAITING_MAX: usize = 150;
const REST: Duration = Duration::from_millis(20);
/// The longest time between two deaths, and how many tasks are put in it at most.
const PAUSE_MS_MAX: u64 = 1_000;
const PAUSE_TASKS_MAX: u64 = 100;
/// How long a run is looked for whose supervisor can be killed.
const SUPERVISED: Duration = Duration::from_millis(500);
/// One daemon in so many comes back only after a while, at most so long.
const ABSENT_ONE_IN: u64 = 8;
const ABSENT_MS_MAX: u64 = 600;
/// How many calls of one kind a keeper makes at most that is to die at one of them.
const CALLS_MAX: u64 = 120;
/// The calls by which a keeper changes the spool.
const CALLS: [&str; 5] = ["fsync", "renameat,renameat2", "unlinkat", "openat", "write"];
/// A death for so many tasks is the least that makes this a test.
const TASKS_PER_DEATH: u64 = 300;

/// How far the producers are, and how far they may go.
#[derive(Default)]
struct Pace {
    put: AtomicUsize,
    allowed: AtomicUsize,
    /// Whether the test has failed, and nothing more is put.
    is_over: AtomicBool,
}

impl Pace {
    /// Lets so many more be put as may wait beside those that do.
    fn set(&self, open: usize) {
        let put = self.put.load(Ordering::Relaxed);
        self.allowed.store(put + WAITING_MAX.saturating_sub(open), Ordering::Relaxed);
    }

    fn put(&self) -> u64 {
        self.put.load(Ordering::Relaxed) as u64
    }
}

/// Ends the producers when it is dropped: a test that has failed would wait for them for ever.
struct UntilDropped<'a>(&'a Pace);

impl Drop for UntilDropped<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// [It must hold: 10,000 tasks from 8 producers with random kills of the daemon]
#[test]
fn what_producers_know_to_be_durable_survives_every_death() {
    load(TASKS);
}

#[test]
#[ignore = "full: more tasks"]
fn what_producers_know_to_be_durable_survives_many_deaths() {
    load(TASKS_OF_FULL);
}

fn load(usual_tasks: u64) {
    if left_out("what producers know to be durable survives every death", NEEDS) {
        return;
    }
    let tasks = number("KRON_SPOOL_CRASH_TASKS", usual_tasks);
    let deaths_min = tasks / TASKS_PER_DEATH;
    let seed = number("KRON_CRASH_SEED", SEED);
    writeln!(std::io::stdout(), "     seed {seed}").expect("written");
    let began = now();
    let mut chronicle = Chronicle::new(WORKERS, Dropping::Always);
    let plans: Vec<(Way, Vec<(String, Asked)>)> = (0..PRODUCERS)
        .map(|producer| (Way::of(producer), planned(producer, tasks / PRODUCERS, seed)))
        .collect();
    let all = plans.iter().flat_map(|(_, tasks)| tasks.iter().cloned());
    chronicle.story.asked = all.collect::<BTreeMap<String, Asked>>();
    let mut krond = chronicle.world.start();
    let (pace, place) = (Pace::default(), chronicle.place.clone());
    std::thread::scope(|scope| {
        let producers: Vec<_> = plans
            .iter()
            .map(|(way, tasks)| scope.spawn(|| produce(*way, tasks, &place, &pace)))
            .collect();
        // They have put everything when the loop below ends, unless it fails.
        let _producers = UntilDropped(&pace);
        let mut seeded = Seeded(seed);
        let mut progress = Progress::new((0, 0, false, 0));
        loop {
            let finished = producers.iter().filter(|producer| producer.is_finished()).count();
            let has_executed = !chronicle.executed().is_empty();
            let deaths = chronicle.deaths.min(deaths_min);
            progress.note((pace.put(), finished, has_executed, deaths));
            if finished == producers.len() && has_executed && deaths == deaths_min {
                break;
            }
            let pause_until = now() + Duration::from_millis(seeded.below(PAUSE_MS_MAX));
            let pause_put = pace.put() + seeded.below(PAUSE_TASKS_MAX);
            while now() < pause_until && pace.put() <= pause_put {
                pace.set(chronicle.open());
                std::thread::sleep(REST);
            }
            match seeded.below(100) {
                0..20 => {
                    // Few run for long, so that one is waited for.
                    let patience = now() + SUPERVISED;
                    let mut found = Vec::new();
                    while found.is_empty() && now() < patience {
                        found = chronicle.supervisors();
                        std::thread::sleep(REST);
                    }
                    if let Some(supervisor) = seeded.one_of(&found) {
                        chronicle.kill_supervisor(supervisor);
                    }
                    // Either the daemon hears of it, or the next one finds out.
                    if seeded.below(2) == 0 {
                        continue;
                    }
                    chronicle.kill(&mut krond);
                }
                20..45 => {
                    let call = seeded.one_of(&CALLS).unwrap().to_owned();
                    let number = seeded.below(CALLS_MAX) as usize + 1;
                    let strace = chronicle.trap(&krond, &Point { call, number });
                    chronicle.spring(&mut krond, strace);
                }
                45..50 => {
                    krond.signal(Signal::SIGTERM);
                    assert_eq!(krond.wait().code(), Some(0), "{}", krond.said.join("\n"));
                    chronicle.glance();
                }
                _ => chronicle.kill(&mut krond),
            }
            if seeded.below(ABSENT_ONE_IN) == 0 {
                std::thread::sleep(Duration::from_millis(seeded.below(ABSENT_MS_MAX)));
            }
            krond = chronicle.world.start();
        }
    });
    let deaths = chronicle.deaths;
    let (story, faults) = chronicle.end(krond);
    let took = now().duration_since(began).as_secs();
    conclude(&format!("8 producers (seed {seed})"), deaths, took, &story, &faults);
    let known: std::collections::BTreeSet<&String> = story.acks.iter().collect();
    assert_eq!(known.len(), story.asked.len(), "every producer put everything");
    assert!(deaths >= deaths_min, "too little happened");
    assert!(!story.periods.is_empty(), "no period was handed over");
}

/// What a producer puts.
fn planned(producer: u64, tasks: u64, seed: u64) -> Vec<(String, Asked)> {
    let mut seeded = Seeded(seed ^ (producer + 1).wrapping_mul(0x5851_F42D_4C95_7F2D));
    let mut plan = |n: u64| {
        let kind = match seeded.below(100) {
            0..70 => Kind::Ok,
            70..80 => Kind::Once,
            80..85 => Kind::Fail,
            85..92 => Kind::Slow,
            92..95 => Kind::Skip,
            _ => Kind::Nobody,
        };
        // Attempts of one that is put anew count anew, so that it must need only one.
        let repeated = matches!(kind, Kind::Ok | Kind::Slow | Kind::Nobody)
            && Way::of(producer).repeats(&mut seeded);
        let mark = format!("m{:x}", seeded.below(u64::MAX));
        (format!("p{producer}-{n:05}"), Asked { kind, mark, repeated })
    };
    (0..tasks).map(&mut plan).collect()
}

fn produce(way: Way, tasks: &[(String, Asked)], place: &Place, pace: &Pace) {
    for tasks in tasks.chunks(way.batch()) {
        while pace.put.load(Ordering::Relaxed) >= pace.allowed.load(Ordering::Relaxed) {
            if pace.is_over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(REST);
        }
        pace.put.fetch_add(tasks.len(), Ordering::Relaxed);
        place.put(way, tasks);
    }
}
