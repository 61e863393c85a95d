//! Deaths at random moments, with 64 clients at work.
//!
//! The moments are not exact, so that the same seed does not give the same story; what must hold,
//! holds in all.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kron_testkit::chance::{Seeded, number};
use kron_testkit::needs::left_out;
use kron_testkit::strace::NEEDS;
use kron_testkit::waiting::now;

use crate::crash::progress::Progress;
use crate::queue_crash::act::{Actor, Deed};
use crate::queue_crash::checker::{ORDERED, SKIP_CODE};
use crate::queue_crash::chronicle::{Chronicle, Making, Point, SYNC, WRITE, conclude};

/// How long the load lasts at least, in the suite and where there is more time;
/// `KRON_QUEUE_CRASH_SECONDS` makes it longer.
const SECONDS: u64 = 6;
const SECONDS_OF_FULL: u64 = 12;
/// Fewer deaths are no test.
const DEATHS_MIN: u64 = 10;
/// Where random numbers come from; `KRON_CRASH_SEED` sets another.
const SEED: u64 = 20_260_302;
const CLIENTS: u64 = 64;
/// Jobs that may wait before clients rest: what is asked for must be done in the end.
const WAITING_MAX: usize = 40;
/// The longest time between two deaths.
const PAUSE_MS_MAX: u64 = 600;
/// One daemon in so many comes back only after a while, at most so long.
const ABSENT_ONE_IN: u64 = 5;
const ABSENT_MS_MAX: u64 = 1_200;
/// How many calls a daemon makes at most that is to die at one of them.
const CALLS_MAX: u64 = 120;
const PRIORITIES: u64 = 3;

/// What all clients share.
struct Shared {
    is_over: AtomicBool,
    waiting: AtomicUsize,
}

/// Ends the clients when it is dropped: a test that has failed would wait for them for ever.
struct UntilDropped<'a>(&'a Shared);

impl Drop for UntilDropped<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_clients_were_told_survives_every_death() {
    load(SECONDS);
}

#[test]
#[ignore = "full: a longer load"]
fn what_clients_were_told_survives_many_deaths() {
    load(SECONDS_OF_FULL);
}

fn load(usual_seconds: u64) {
    if left_out("what clients were told survives every death", NEEDS) {
        return;
    }
    let seconds = number("KRON_QUEUE_CRASH_SECONDS", usual_seconds);
    let (deaths_min, acks_min) = (DEATHS_MIN.max(seconds / 2), 10 * seconds);
    let seed = number("KRON_CRASH_SEED", SEED);
    writeln!(std::io::stdout(), "     seed {seed}").expect("written");
    let began = now();
    let mut chronicle = Chronicle::new(Making::ClockToo);
    let mut krond = chronicle.begin();
    let shared = Shared { is_over: AtomicBool::new(false), waiting: AtomicUsize::new(0) };
    let story = chronicle.story.clone();
    let client = chronicle.client.clone();
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (shared, actor) = (&shared, Actor { client: &client, story: &story });
            scope.spawn(move || work(actor, shared, seed, number));
        }
        let _clients = UntilDropped(&shared);
        let mut seeded = Seeded(seed);
        let mut progress = Progress::new((0, acks_min));
        // A machine on which little happens in that time takes more.
        loop {
            let acks = story.lock().unwrap().acks.len() as u64;
            progress.note((acks, acks_min));
            let is_long_enough = now() >= began + Duration::from_secs(seconds);
            if is_long_enough && chronicle.deaths >= deaths_min && acks > acks_min {
                break;
            }
            std::thread::sleep(Duration::from_millis(seeded.below(PAUSE_MS_MAX)));
            if let Ok(answer) =
                client.ask("GET", "jobs?state=queued&limit=1000", &serde_json::Value::Null)
            {
                let queued = answer.body["items"].as_array().map_or(0, Vec::len);
                shared.waiting.store(queued, Ordering::Relaxed);
            }
            match seeded.below(100) {
                0..20 => {
                    if let Some(pid) = seeded.one_of(&chronicle.supervisors()) {
                        chronicle.kill_supervisor(pid);
                    }
                    continue;
                }
                20..45 => {
                    let call = seeded.one_of(&[WRITE, SYNC]).unwrap().to_owned();
                    let number = seeded.below(CALLS_MAX) as usize + 1;
                    let strace = chronicle.trap(&krond, &Point { call, number });
                    chronicle.spring(&mut krond, strace);
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
    conclude(&format!("64 clients (seed {seed})"), deaths, took, &story, &faults);
    assert!(deaths >= deaths_min && story.acks.len() as u64 > acks_min, "too little happened");
}

/// What one client does until it is enough.
fn work(actor: Actor<'_>, shared: &Shared, seed: u64, number: u64) {
    let mut seeded = Seeded(seed ^ (number + 1).wrapping_mul(0x5851_F42D_4C95_7F2D));
    for n in 0_u64.. {
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("{number}-{n}");
        let result = match shared.waiting.load(Ordering::Relaxed) > WAITING_MAX {
            true => actor.known(seeded.below(50) as usize).map_or(Ok(()), |job| actor.look(&job)),
            false => deed(actor, shared, &mut seeded, &name),
        };
        let pause_ms = if result.is_err() { 50 } else { 200 + seeded.below(2_000) };
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
}

fn deed(
    actor: Actor<'_>,
    shared: &Shared,
    seeded: &mut Seeded,
    name: &str,
) -> Result<(), crate::queue_crash::act::Unanswered> {
    let code = match seeded.below(10) {
        0..6 => 0,
        6 => SKIP_CODE,
        _ => 1 + seeded.below(60) as i64,
    };
    let deed = Deed::new(code, [0, 0, 5, 300][seeded.below(4) as usize]);
    // Only one type knows a code that means that there was nothing to do.
    let plain = Deed { code: if code == SKIP_CODE { 3 } else { code }, ..deed };
    let priority = seeded.below(PRIORITIES) as i64;
    match seeded.below(100) {
        0..25 => actor.enqueue(name, "plain", deed, priority, None),
        25..50 => {
            // It is asked for until it is there, over as many deaths as that takes.
            let mut done = actor.enqueue(name, "plain", deed, priority, Some(name));
            while done.is_err() && !shared.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                done = actor.enqueue(name, "plain", deed, priority, Some(name));
            }
            done
        }
        50..70 => actor.enqueue(name, ORDERED, Deed { ms: 0, ..plain }, priority, None),
        70..75 => actor.batch(name, Deed { ms: 0, ..plain }),
        75..80 => {
            let on_failure = seeded.one_of(&["stop", "continue", "skip"]).unwrap();
            actor.group(name, on_failure, plain)
        }
        80..88 => actor.direct(name, plain),
        _ => {
            let back = seeded.below(12) as usize;
            actor.known(back).map_or(Ok(()), |job| actor.cancel(&job))
        }
    }
}
