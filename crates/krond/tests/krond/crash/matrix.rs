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
//! How often threads wait for one another and wake one another differs from run to run
//! ([`depends_on_the_others`]), and so does the number of pieces in which a file is read
//! ([`is_next_piece`]). Where so many calls of a name in the list are of that kind, so many fewer may
//! be made another time, and the points with the highest numbers are not reached; all others must
//! be. Points that are not reached must be few ([`MISSED_ONE_IN`]).
//!
//! Half a minute after the first record of a new job the daemon writes that there is one, and a run
//! may take longer than that on a busy machine. So the threads that decide and that write state die
//! in the run of a job whose document the daemon found at its start, which makes it write nothing
//! more. Only at the calls of the first record, before which nothing else is written, the writing
//! thread dies in the run of a new job, and so does everything that has no part in that.
//!
//! The tests of the suite play a selection ([`chosen`]), their twins every point.
//!
//! Left out are calls whose effect nobody but the caller can see ([`UNSEEN`]): a death there and a
//! death at the next call leave the same behind. So are the calls of the loader before a
//! supervisor's own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kron_testkit::chance::{has_subset, is_selected, may_be_selected};
use kron_testkit::needs::left_out;
use kron_testkit::strace::{Call, NEEDS, calls};
use kron_testkit::waiting::now;

use crate::Past;
use crate::crash::checker::Fault;
use crate::crash::strike::{Blow, Came, Point, Restart, Scene, Who};

/// Scenes that are played at once: they mostly wait for the job to fall due.
const AT_ONCE: usize = 6;
/// A deadline that is over long after the test.
pub(crate) const GENEROUS_S: i64 = 3_600;
/// One of so many points may be missed, and one more.
const MISSED_ONE_IN: usize = 10;

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

/// Calls by which threads wait for one another, for time and for others' messages.
const WAITING: &[&str] =
    &["futex", "epoll_wait", "epoll_pwait", "poll", "ppoll", "sched_yield", "restart_syscall"];

/// How the names of calls begin of which the suite's selection leaves out none; with them go writes
/// and files that are made ([`is_decisive`]).
const ALWAYS: &[&str] = &[
    "fsync",
    "fdatasync",
    "ftruncate",
    "link",
    "mkdir",
    "rename",
    "unlink",
    "send",
    "recv",
    "execve",
];

/// How many of the points are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every one by which a file changes or becomes durable, or by which something is said or
    /// executed; of all other calls the first of each name, for each of those who make them.
    Selection,
    Everything,
}

/// The calls of an undisturbed run, of those whose points were asked for so far. Tests that share a
/// process share them; a test that has one to itself traces no more than it needs.
static BASELINE: Mutex<BTreeMap<Who, Vec<Point>>> = Mutex::new(BTreeMap::new());

/// What one of them does for one run.
fn undisturbed_points(who: Who) -> Vec<Point> {
    let past = match who {
        Who::Loop | Who::Sync => Past::Known,
        _ => Past::New,
    };
    let calls = undisturbed_calls(who, past);
    let mut found = points(who, past, &calls);
    if who == Who::Sync {
        let first = first_record(&calls);
        let count_in_first =
            |point: &Point| first.iter().filter(|call| call.name == point.call).count();
        found.retain(|point| point.number > count_in_first(point));
        let calls = undisturbed_calls(who, Past::New);
        found.splice(..0, points(who, Past::New, first_record(&calls)));
    }
    found
}

/// What one of them calls for one run of a job with this past.
fn undisturbed_calls(who: Who, past: Past) -> Vec<Call> {
    let (mut scene, (strace, _)) =
        Scene::prepared_with(past, GENEROUS_S, |scene| scene.trace(who, &[]));
    scene.recover(Restart::AtOnce);
    let (came, faults) = scene.judge();
    undisturbed(came, &[Came::Executed], &faults);
    // The daemon was killed, and its run has ended.
    strace.wait();
    let text = strace.text();
    let is_disturbed = past == Past::Known && text.contains("known.json");
    assert!(!is_disturbed, "calls that are none of the run's");
    calls(&text)
}

/// Those of these calls by which the first record becomes durable: a file takes its place, and the
/// directory is synced.
fn first_record(calls: &[Call]) -> &[Call] {
    let after = |from: usize, name: &str| {
        let found = calls[from..].iter().position(|call| call.name.starts_with(name));
        from + found.unwrap_or_else(|| panic!("no `{name}` from call {from} on: {calls:?}")) + 1
    };
    &calls[..after(after(0, "rename"), "fsync")]
}

/// Requires that all is well when nobody is killed.
pub(crate) fn undisturbed(came: Came, allowed: &[Came], faults: &[Fault]) {
    let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
    let well = allowed.contains(&came) && faults.is_empty();
    assert!(well, "undisturbed: {came}\n{}", faults.join("\n"));
}

/// The points among these calls, in the run of a job with this past.
pub(crate) fn points(who: Who, past: Past, calls: &[Call]) -> Vec<Point> {
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
    let mut certain: HashMap<(Option<i32>, &str), usize> = HashMap::new();
    let mut previous: HashMap<Option<i32>, &Call> = HashMap::new();
    for call in calls {
        let goes_on = previous.insert(call.tid, call).is_some_and(|it| is_next_piece(it, call));
        if !depends_on_the_others(who, call) && !goes_on {
            *certain.entry((call.tid, &call.name)).or_default() += 1;
        }
    }
    let before = |call: &Call| call.number - 1;
    let mut points: Vec<Point> = Vec::new();
    for call in calls {
        let unseen = UNSEEN.contains(&call.name.as_str())
            || call.name == "fcntl" && call.text.contains("F_GET");
        if unseen {
            continue;
        }
        // Several threads of one kind have numbers of their own.
        let known = |point: &&mut Point| point.call == call.name && point.number == call.number;
        if let Some(point) = points.iter_mut().find(known) {
            point.is_decisive |= is_decisive(call);
            continue;
        }
        let own = certain.iter().filter(|((_, name), _)| *name == call.name);
        points.push(Point {
            who,
            call: call.name.clone(),
            number: call.number,
            is_certain: own.map(|(_, count)| *count).max().unwrap_or(0) > before(call),
            is_decisive: is_decisive(call),
            past,
        });
    }
    points
}

/// Whether files or other processes are not the same before a call and after it. What wakes another
/// thread of the same process, and what is logged, is not meant.
fn is_decisive(call: &Call) -> bool {
    let name = call.name.as_str();
    ALWAYS.iter().any(|word| name.starts_with(word))
        || name == "openat" && call.text.contains("O_CREAT")
        || matches!(name, "write" | "pwrite64") && !wakes_or_logs(call)
}

/// Whether a call is made once more or once less when threads come to their work in another order:
/// those that wait, those that wake another thread or take notice of it, what the log's own thread
/// writes, which is as many lines as there are. The daemon also looks after every child that has
/// ended, among which may be one that a tracer left. And it looks at the recorded processes of an
/// earlier daemon, which are there until the machine's first process reaps them.
fn depends_on_the_others(who: Who, call: &Call) -> bool {
    let in_vain = call.text.contains("EAGAIN") || call.text.contains("<unfinished");
    let reaps = who != Who::Supervisor && call.name == "waitid";
    WAITING.contains(&call.name.as_str())
        || wakes_or_logs(call)
        || in_vain
        || reaps
        || who == Who::Daemon && looks_at_a_process(call)
}

/// Whether a call opens what the kernel says about a process with a number.
fn looks_at_a_process(call: &Call) -> bool {
    let number = |(_, rest): (&str, &str)| rest.starts_with(|first: char| first.is_ascii_digit());
    call.name == "openat" && call.text.split_once("\"/proc/").is_some_and(number)
}

/// Whether a call wakes another thread or takes notice of it, or writes to the log.
fn wakes_or_logs(call: &Call) -> bool {
    let is_wake = call.text.contains("\"\\1\\0\\0\\0\\0\\0\\0\\0\", 8");
    matches!(call.name.as_str(), "read" | "write") && is_wake || call.text.starts_with("write(2,")
}

/// Whether a call reads on where the one before it ended. Into how many pieces a file falls depends
/// on its length, and what the kernel tells about a process gets longer while that starts.
fn is_next_piece(before: &Call, call: &Call) -> bool {
    let file = |call: &Call| call.text.split(',').next().map(str::to_owned);
    before.name == "read" && call.name == "read" && file(before) == file(call)
}

/// The points of these that are played.
fn points_of(extent: Extent, whom: &[Who]) -> Vec<Point> {
    // A test that failed while it held this has left nothing in it that is wrong.
    let mut baseline = BASELINE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_missing = |who: &Who| !baseline.contains_key(who) && may_be_selected(&format!("{who}:"));
    let missing: Vec<Who> = whom.iter().copied().filter(is_missing).collect();
    let traced = at_once(&missing, |who| undisturbed_points(*who));
    baseline.extend(missing.into_iter().zip(traced));
    chosen(extent, whom.iter().filter_map(|who| baseline.get(who)).flatten().cloned().collect())
}

/// What is played of these points. `KRON_CRASH_SUBSET` takes the place of any extent: each of its
/// words, such as `sync:fsync`, is what a point's name may start with.
pub(crate) fn chosen(extent: Extent, mut points: Vec<Point>) -> Vec<Point> {
    if has_subset() {
        points.retain(|point| is_selected(&point.to_string()));
        return points;
    }
    let mut named = BTreeSet::new();
    points.retain(|point| {
        let is_first = named.insert((point.who, point.call.clone()));
        extent == Extent::Everything || is_first || point.is_decisive
    });
    points
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
    blow: Blow,
    restart: Restart,
    allowed: &'static [Came],
}

fn play(rules: &Rules, points: &[Point]) {
    play_each(rules.what, rules.allowed, points, |point| {
        let (mut scene, trap) =
            Scene::prepared_with(point.past, GENEROUS_S, |scene| scene.trap(point, rules.blow));
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
        if came == Came::NotReached && point.is_certain {
            wrong.push(format!("{point}: {came}"));
        } else if came == Came::NotReached {
            unreached.push(point.to_string());
        } else if !allowed.contains(&came) {
            wrong.push(format!("{point}: {came}"));
        }
    }
    let counts: Vec<String> = tally.iter().map(|(came, count)| format!("{count} {came}")).collect();
    let seconds = now().duration_since(began).as_secs();
    let line = format!(
        "{what}: {} points: {} ({seconds} s) {}",
        points.len(),
        counts.join(", "),
        unreached.join(" ")
    );
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
    krond_killed(Extent::Selection);
}

#[test]
#[ignore = "full: every call"]
fn krond_is_killed_at_really_every_call_and_the_job_runs_once() {
    krond_killed(Extent::Everything);
}

fn krond_killed(extent: Extent) {
    let rules = Rules {
        what: "krond killed",
        blow: Blow::Victim,
        restart: Restart::AtOnce,
        // Its supervisor sees the run to its end, or proves that there was none.
        allowed: &[Came::Executed, Came::Retried],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    play(&rules, &points_of(extent, DAEMON));
}

#[test]
fn krond_is_killed_and_comes_back_after_the_deadline() {
    krond_killed_past_the_deadline(Extent::Selection);
}

#[test]
#[ignore = "full: every call"]
fn krond_is_killed_at_every_call_and_comes_back_after_the_deadline() {
    krond_killed_past_the_deadline(Extent::Everything);
}

fn krond_killed_past_the_deadline(extent: Extent) {
    let rules = Rules {
        what: "krond killed, deadline over",
        blow: Blow::Victim,
        restart: Restart::PastDeadline,
        allowed: &[Came::Executed, Came::Missed],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    let points = points_of(extent, DAEMON).into_iter().filter(weighty);
    play(&rules, &points.collect::<Vec<Point>>());
}

#[test]
fn a_supervisor_is_killed_at_every_call() {
    supervisor_killed(Extent::Selection);
}

#[test]
#[ignore = "full: every call"]
fn a_supervisor_is_killed_at_really_every_call() {
    supervisor_killed(Extent::Everything);
}

fn supervisor_killed(extent: Extent) {
    let rules = Rules {
        what: "supervisor killed",
        blow: Blow::Victim,
        restart: Restart::AtOnce,
        allowed: &[Came::Executed, Came::Retried, Came::Lost],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    let mut points = points_of(extent, &[Who::Supervisor]);
    // On its way to become a supervisor.
    let spawn = |call: &str| Point {
        who: Who::Spawn,
        call: call.to_owned(),
        number: 1,
        is_certain: true,
        is_decisive: true,
        past: Past::New,
    };
    points.extend(chosen(extent, vec![spawn("setpgid"), spawn("execve")]));
    play(&rules, &points);
}

#[test]
fn a_command_is_killed_at_every_call_before_its_execution() {
    command_killed(Extent::Selection);
}

#[test]
#[ignore = "full: every call"]
fn a_command_is_killed_at_really_every_call_before_its_execution() {
    command_killed(Extent::Everything);
}

fn command_killed(extent: Extent) {
    let rules = Rules {
        what: "command killed",
        blow: Blow::Victim,
        restart: Restart::AtOnce,
        allowed: &[Came::Executed, Came::Retried, Came::Signalled],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    play(&rules, &points_of(extent, &[Who::Command]));
}

#[test]
fn the_power_goes_at_every_call() {
    everybody_killed(Extent::Selection);
}

#[test]
#[ignore = "full: every call"]
fn the_power_goes_at_really_every_call() {
    everybody_killed(Extent::Everything);
}

fn everybody_killed(extent: Extent) {
    let rules = Rules {
        what: "everybody killed",
        blow: Blow::Everybody,
        restart: Restart::AtOnce,
        allowed: &[Came::Executed, Came::Retried, Came::Lost],
    };
    if left_out(rules.what, NEEDS) {
        return;
    }
    play(&rules, &points_of(extent, &[DAEMON, &[Who::Supervisor]].concat()));
}
