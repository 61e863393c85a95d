//! Bounds of processor time.
//!
//! A bound of the clock on the wall fails on a machine that is busy with something else, and one of
//! processor time on a machine with a slower processor. Here a bound is of processor time, and on a
//! slower processor it is as many times larger as a fixed piece of work takes longer there.

use std::fmt::Debug;
use std::hint::black_box;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::chance::Seeded;

/// What the yardstick takes, in the profile `dev`, on the processor that bounds are written for.
const YARDSTICK: Duration = Duration::from_millis(200);
const YARDSTICK_STEPS: u64 = 10_000_000;
/// Neighbours on a busy machine empty the caches of this thread and share its core, so that the
/// fastest of so many runs counts.
const RUNS: usize = 3;

/// Runs `work`, which takes no more than `most` of this thread's processor time. It is run again only
/// if it took more.
///
/// # Panics
///
/// If it takes more than that, and more than a slow processor explains.
pub fn bounded<T>(what: &dyn Debug, most: Duration, mut work: impl FnMut() -> T) -> T {
    let mut fastest = Duration::MAX;
    let mut answer = None;
    for _ in 0..RUNS {
        let (done, took) = timed(&mut work);
        answer = Some(done);
        fastest = fastest.min(took);
        if fastest < most {
            break;
        }
    }
    let most = if fastest < most { most } else { most.mul_f64(slowness()) };
    assert!(fastest < most, "{what:?} took {fastest:?} of processor time, not {most:?} at most");
    answer.expect("it was run")
}

/// As [`bounded`], for a program that the kernel ends after a number of seconds of processor time:
/// `run` gets that number, and returns nothing if the program was ended by the limit. The kernel
/// counts whole seconds.
///
/// # Panics
///
/// If the program takes more than that, and more than a slow processor explains.
pub fn bounded_program<T>(
    what: &dyn Debug,
    most_s: u64,
    mut run: impl FnMut(u64) -> Option<T>,
) -> T {
    if let Some(done) = run(most_s) {
        return done;
    }
    let slow_s = Duration::from_secs(most_s).mul_f64(slowness()).as_secs_f64().ceil() as u64;
    let done = (0..RUNS).find_map(|_| run(slow_s));
    done.unwrap_or_else(|| panic!("{what:?} takes more than {slow_s} s of processor time"))
}

fn timed<T>(work: &mut impl FnMut() -> T) -> (T, Duration) {
    let start = cpu_time();
    let done = work();
    (done, cpu_time() - start)
}

/// The processor time that this thread has used.
fn cpu_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap())
}

/// How many times longer than on the processor that bounds are written for a piece of work takes here;
/// at least 1.
fn slowness() -> f64 {
    let mut yardstick = || {
        let mut seeded = Seeded(1);
        for _ in 0..YARDSTICK_STEPS {
            black_box(seeded.below(1_000));
        }
    };
    let fastest = (0..RUNS).map(|_| timed(&mut yardstick).1).min().expect("a run");
    (fastest.as_secs_f64() / YARDSTICK.as_secs_f64()).max(1.0)
}

#[test]
fn what_is_too_slow_by_far_is_noticed_on_any_processor() {
    let effort = |steps: u64| {
        bounded(&steps, Duration::from_millis(20), || {
            let mut seeded = Seeded(1);
            (0..steps).fold(0, |sum: u64, _| sum.wrapping_add(black_box(seeded.below(9))))
        })
    };
    assert!(effort(9) > 0);
    // It takes the time of the yardstick, wherever it is.
    let result = std::panic::catch_unwind(|| effort(YARDSTICK_STEPS));
    let said = *result.expect_err("it took too long").downcast::<String>().unwrap();
    assert!(said.contains("of processor time"), "{said}");
}

#[test]
fn a_program_gets_more_seconds_only_on_a_slower_processor() {
    let mut limits = Vec::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        bounded_program(&"endless", 3, |limit_s| -> Option<()> {
            limits.push(limit_s);
            None
        });
    }));
    let said = *result.expect_err("it is never done").downcast::<String>().unwrap();
    assert!(said.contains("\"endless\" takes more than"), "{said}");
    assert_eq!((limits[0], limits.len()), (3, 1 + RUNS));
    assert!(limits[1..].iter().all(|limit_s| *limit_s >= 3 && *limit_s == limits[1]));
    // What needs no more than its bound is run once.
    let mut runs = 0;
    let used = |limit_s| {
        runs += 1;
        (limit_s >= 3).then_some(limit_s)
    };
    assert_eq!(bounded_program(&"short", 3, used), 3);
    assert_eq!(runs, 1);
}
