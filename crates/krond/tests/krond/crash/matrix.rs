//! The crash matrix: every system call on the way of a run, and a death at each of them.
//!
//! One job falls due once. A first, undisturbed run of each scene is traced and gives the list of
//! calls; then the scene is played again for every call of the list, somebody is killed at it,
//! another daemon is started, and the checker judges what it finds. Which call it is, is exact:
//!
//! - The daemon's threads are traced one kind at a time, by a tracer attached to them alone once
//!   the daemon has come to rest, with one thread that writes state.
//! - A supervisor is stopped as soon as it is executed, and a command's process when it takes its
//!   first descriptor, before a tracer of its own is attached. Of a supervisor's own calls none is
//!   missing, of a command's process the first two.
//!
//! Threads wait for one another in ways that differ from run to run, so that now and then a call
//! of the list is not made: such points are counted, and must be few.
//!
//! Left out are calls whose effect nobody but the caller can see ([`UNSEEN`]): a death there and a
//! death at the next call leave the same behind. So are the calls of the loader before a
//! supervisor's own.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kron_testkit::needs::left_out;
use kron_testkit::strace::{Call, NEEDS, calls};
use kron_testkit::waiting::now;

use crate::crash::checker::Fault;
use crate::crash::strike::{Blow, Came, Point, Restart, Scene, Who};

/// Scenes that are played at once: they mostly wait for the job to fall due.
const AT_ONCE: usize = 8;
/// A deadline that is over only when everything else has failed.
pub(crate) const GENEROUS_S: i64 = 30;
/// Of so many points one may be missed.
const MISSED_ONE_IN: usize = 10;
/// What the command does: long enough that its start is recorded before its end.
const BODY: &str = "sleep 0.1";

/// Calls whose effect nobody but the caller can see.
const UNSEEN: &[&str] = &[
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
    "getpid",
    "gettid",
    "geteuid",
    "getuid",
    "prlimit64",
    "clock_gettime",
    "clock_adjtime",
    "fstat",
    "newfstatat",
    "statx",
    "lseek",
    "getdents64",
    "access",
    "getrandom",
    "umask",
    "chdir",
    "prctl",
    "getsid",
    "rseq",
    "set_robust_list",
];

const DAEMON: &[Who] = &[Who::Loop, Who::Sync, Who::Launch, Who::Retention];

/// The calls of an undisturbed run, of those whose points were asked for so far. Tests that share a
/// process share them; a test that has one to itself traces no more than it needs.
static BASELINE: Mutex<BTreeMap<Who, Vec<Point>>> = Mutex::new(BTreeMap::new());

/// What one of them does for one run.
fn undisturbed_points(who: Who) -> Vec<Point> {
    let (mut scene, (strace, _)) = Scene::prepared(GENEROUS_S, BODY, |scene| scene.trace(who, &[]));
    scene.recover(Restart::AtOnce);
    let (came, faults) = scene.judge();
    undisturbed(came, &[Came::Executed], &faults);
    points(who, &calls(&strace.text()))
}

/// Requires that all is well when nobody is killed.
pub(crate) fn undisturbed(came: Came, allowed: &[Came], faults: &[Fault]) {
    let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
    let well = allowed.contains(&came) && faults.is_empty();
    assert!(well, "undisturbed: {came}\n{}", faults.join("\n"));
}

/// The points among these calls.
pub(crate) fn points(who: Who, calls: &[Call]) -> Vec<Point> {
    // The daemon is killed at the end of the undisturbed run.
    let own = match who {
        Who::Supervisor => calls.iter().position(|call| call.name == "getsockopt").unwrap_or(0),
        _ => 0,
    };
    let end = match who {
        // From here on it is another program.
        Who::Command => calls.iter().position(|call| call.name == "execve").map(|at| at + 1),
        _ => None,
    };
    let calls = &calls[own..end.unwrap_or(calls.len())];
    let mut points: Vec<Point> = Vec::new();
    for call in calls {
        let unseen = UNSEEN.contains(&call.name.as_str())
            || call.name == "fcntl" && call.text.contains("F_GET");
        // Several threads of one kind have numbers of their own.
        let known = |point: &Point| point.call == call.name && point.number == call.number;
        if !unseen && !points.iter().any(known) {
            points.push(Point { who, call: call.name.clone(), number: call.number });
        }
    }
    points
}

/// Every point of these that `KRON_CRASH_SUBSET` leaves.
fn points_of(whom: &[Who]) -> Vec<Point> {
    // A test that failed while it held this has left nothing in it that is wrong.
    let mut baseline = BASELINE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_missing = |who: &Who| !baseline.contains_key(who) && may_be_selected(*who);
    let missing: Vec<Who> = whom.iter().copied().filter(is_missing).collect();
    let traced = at_once(&missing, |who| undisturbed_points(*who));
    baseline.extend(missing.into_iter().zip(traced));
    selected(whom.iter().filter_map(|who| baseline.get(who)).flatten().cloned().collect())
}

/// What `KRON_CRASH_SUBSET` leaves of these points: each of its words, such as `sync:fsync`, is
/// what a point's name may start with.
pub(crate) fn selected(mut points: Vec<Point>) -> Vec<Point> {
    let subset = subset();
    points.retain(|point| {
        let name = point.to_string();
        subset.is_empty() || subset.split(',').any(|word| name.starts_with(word))
    });
    points
}

/// Whether any point of theirs can be selected.
fn may_be_selected(who: Who) -> bool {
    let (subset, whose) = (subset(), format!("{who}:"));
    let is_theirs = |word: &str| whose.starts_with(word) || word.starts_with(&whose);
    subset.is_empty() || subset.split(',').any(is_theirs)
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
fn subset() -> String {
    std::env::var("KRON_CRASH_SUBSET").unwrap_or_default()
}

/// Calls by which processes change the world or one another.
pub(crate) fn weighty(point: &Point) -> bool {
    const WEIGHTY: &[&str] = &[
        "openat",
        "write",
        "fsync",
        "rename",
        "unlink",
        "send",
        "recv",
        "clone",
        "execve",
        "wait",
        "close_range",
        "mkdir",
        "pidfd_open",
    ];
    WEIGHTY.iter().any(|word| point.call.starts_with(word))
}

/// How a blow is dealt, and what may come of it.
struct Rules {
    what: &'static str,
    deadline_s: i64,
    blow: Blow,
    restart: Restart,
    allowed: &'static [Came],
}

fn play(rules: &Rules, points: &[Point]) {
    play_each(rules.what, rules.allowed, points, |point| {
        let (mut scene, trap) =
            Scene::prepared(rules.deadline_s, BODY, |scene| scene.trap(point, rules.blow));
        let reached = scene.strike(trap);
        scene.recover(rules.restart);
        scene.judge_if(reached)
    });
}

/// Plays every point and requires that nothing went wrong, and nothing came of it but what may.
pub(crate) fn play_each(
    what: &str,
    allowed: &[Came],
    points: &[Point],
    play: impl Fn(&Point) -> (Came, Vec<Fault>) + Sync,
) {
    let began = now();
    let results = at_once(points, |point| {
        // A daemon that does not start again, say, is a fault like any other.
        catch_unwind(AssertUnwindSafe(|| play(point))).ok()
    });
    let mut tally: BTreeMap<Came, usize> = BTreeMap::new();
    let (mut wrong, mut unreached) = (Vec::new(), Vec::new());
    for (point, result) in points.iter().zip(results) {
        let Some((came, faults)) = result else {
            wrong.push(format!("{point}: it broke off"));
            continue;
        };
        *tally.entry(came).or_default() += 1;
        wrong.extend(faults.iter().map(|fault| format!("{point}: {fault}")));
        if came == Came::NotReached {
            unreached.push(point.to_string());
        } else if !allowed.contains(&came) {
            wrong.push(format!("{point}: {came}"));
        }
    }
    let counts: Vec<String> = tally.iter().map(|(came, count)| format!("{count} {came}")).collect();
    let seconds = now().duration_since(began).as_secs();
    let line = format!("{what}: {} points: {} ({seconds} s)", points.len(), counts.join(", "));
    writeln!(std::io::stdout(), "     {line}").expect("written");
    assert!(wrong.is_empty(), "{line}\n{}", wrong.join("\n"));
    assert!(!points.is_empty(), "{line}");
    let missed_max = 1 + points.len() / MISSED_ONE_IN;
    assert!(unreached.len() <= missed_max, "{line}\nnot reached: {}", unreached.join(" "));
}

/// Applies a function to all items, a few at a time.
pub(crate) fn at_once<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = f(item);
                    *results[at].lock().expect("nobody panics while holding it") = Some(result);
                }
            });
        }
    });
    let taken = results.into_iter().map(|result| result.into_inner().expect("as above"));
    taken.map(|result| result.expect("every item was worked on")).collect()
}

#[test]
fn krond_is_killed_at_every_call_and_the_job_runs_once() {
    let rules = Rules {
        what: "krond killed",
        deadline_s: GENEROUS_S,
        blow: Blow::Victim,
        restart: Restart::AtOnce,
        // Its supervisor sees the run to its end, or proves that there was none.
        allowed: &[Came::Executed, Came::Retried],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    play(&rules, &points_of(DAEMON));
}

#[test]
fn krond_is_killed_and_comes_back_after_the_deadline() {
    let rules = Rules {
        what: "krond killed, deadline over",
        deadline_s: 0,
        blow: Blow::Victim,
        restart: Restart::PastDeadline,
        allowed: &[Came::Executed, Came::Missed],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    let points: Vec<Point> = points_of(DAEMON).into_iter().filter(weighty).collect();
    play(&rules, &points);
}

#[test]
fn a_supervisor_is_killed_at_every_call() {
    let rules = Rules {
        what: "supervisor killed",
        deadline_s: GENEROUS_S,
        blow: Blow::Victim,
        restart: Restart::AtOnce,
        allowed: &[Came::Executed, Came::Retried, Came::Lost],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    let mut points = points_of(&[Who::Supervisor]);
    // On its way to become a supervisor.
    let spawn = |call: &str| Point { who: Who::Spawn, call: call.to_owned(), number: 1 };
    points.extend(selected(vec![spawn("setpgid"), spawn("execve")]));
    play(&rules, &points);
}

#[test]
fn a_command_is_killed_at_every_call_before_its_execution() {
    let rules = Rules {
        what: "command killed",
        deadline_s: GENEROUS_S,
        blow: Blow::Victim,
        restart: Restart::AtOnce,
        allowed: &[Came::Executed, Came::Retried, Came::Signalled],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    play(&rules, &points_of(&[Who::Command]));
}

#[test]
fn the_power_goes_at_every_call() {
    let rules = Rules {
        what: "everybody killed",
        deadline_s: GENEROUS_S,
        blow: Blow::Everybody,
        restart: Restart::AtOnce,
        allowed: &[Came::Executed, Came::Retried, Came::Lost],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    play(&rules, &points_of(&[DAEMON, &[Who::Supervisor]].concat()));
}
