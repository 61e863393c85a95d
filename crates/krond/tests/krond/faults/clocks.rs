//! Another clock: set forward, set back, leaping, asleep, and on the two odd days of the year.
//!
//! The daemon is given a clock of its own by preloading `libfaketime`, whose offset from the real
//! one is in a file that is read at every question. The time since boot stays real, as it does
//! when somebody sets the clock. What the kernel does then, cancelling the timer that waits for a
//! wall time, nobody does here; so after every change the daemon is asked for its status, which
//! makes the loop look at the clock. Supervisors and commands live in real time.
//!
//! This clock goes on while a test waits, and a busy machine makes it wait long. So a clock that is
//! started shows a time that is further from the next period than a start may take ([`AHEAD`]), and
//! what is to be done before a period begins, or its deadline passes, has half an hour of this clock
//! from the moment it was set ([`HALF`]): ten waits of three minutes, each of which fails its test
//! when it takes longer ([`PATIENCE`]), and no test waits that often before it sets the clock again.
//!
//! There are two shorter bounds. On the odd days a job is due every five minutes, with a deadline of
//! four: the daemon decides on a period when it answers the question that follows the change of its
//! clock, which is one wait, and a period that falls due before the next change of the clock is
//! decided on all the same. And where the kernel's clock is synchronised, a leap is believed after a
//! minute, which nothing but real time decides. What a test looks at while a leap is not believed is
//! two or three answers of the daemon, which takes milliseconds: its state is in memory, so that no
//! answer waits for a disk.

use std::fs;
use std::path::PathBuf;

use kron_core::UtcSecond;
use kron_testkit::krond::{Krond, World, second_of};
use kron_testkit::needs::{Need, left_out, preloaded_clock};
use kron_testkit::process::{is_stopped, threads};
use kron_testkit::waiting::{PATIENCE, eventually, now, wall_seconds};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::faults::scene::{TESTIFY, judge, wait_until_second, witnesses, witnesses_of};
use crate::{new_world, new_world_in_memory};

const MINUTE: u64 = 60;
const HALF: u64 = 30 * MINUTE;
const _: () = assert!(HALF >= 10 * PATIENCE.as_secs(), "a test may wait several times");
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long before its first period a daemon is started.
const AHEAD: u64 = 4 * MINUTE;
const _: () = assert!(AHEAD > PATIENCE.as_secs(), "a daemon may take that long to start");

/// A clock that is the daemon's alone.
struct Clock {
    file: PathBuf,
}

impl Clock {
    /// A clock that shows this time.
    fn showing(world: &World, second: u64) -> Clock {
        let clock = Clock { file: world.state_dir().with_extension("clock") };
        clock.write(second);
        clock
    }

    fn write(&self, second: u64) {
        let offset = second as i64 - wall_seconds() as i64;
        // In one step, so that nobody reads half of it.
        let new = self.file.with_extension("clock.new");
        fs::write(&new, format!("{offset:+}")).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Sets the clock of a running daemon, which notices.
    fn set(&self, world: &World, second: u64) {
        self.write(second);
        assert_eq!(world.ask("GET", "/api/v1/status", "").0, 200);
    }

    /// Starts a daemon that goes by this clock.
    fn start(&self, world: &World) -> Krond {
        let mut command = world.command();
        command
            .env("LD_PRELOAD", preloaded_clock().unwrap())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1");
        let before = wall_seconds() as i64;
        let mut krond = Krond::spawn(&mut command);
        let ready = krond.wait_for("ready");
        let shown = second_of(ready["time"].as_str().unwrap()) as i64 - self.offset();
        let after = wall_seconds() as i64;
        assert!((before..=after).contains(&shown), "it does not go by the clock: {ready}");
        krond
    }

    fn offset(&self) -> i64 {
        kron_testkit::files::read(&self.file).unwrap().trim_start_matches('+').parse().unwrap()
    }
}

fn left_out_clocks(test: &str) -> bool {
    left_out(test, &[Need::Faketime])
}

fn second(text: &str) -> u64 {
    text.parse::<UtcSecond>().unwrap().unix() as u64
}

fn text(second: u64) -> String {
    UtcSecond::from_unix(second as i64).unwrap().to_string()
}

/// A quiet day, far from every change of the clocks.
fn noon() -> u64 {
    second("2027-06-16T12:00:00Z")
}

fn careful(schedule: &str) -> String {
    format!("[job.careful]\nschedule = \"{schedule}\"\ncommand = \"{TESTIFY}\"\nshell = true\n")
}

/// Makes sure that everything the daemon has said is heard, and tells which periods it started.
fn decided(world: &World, krond: &mut Krond) -> usize {
    assert_eq!(world.ask("POST", "/api/v1/reload", "{}").0, 200);
    krond.wait_for("loaded");
    krond.events("decision").len()
}

#[test]
fn a_clock_set_forward_is_followed_and_deadlines_are_judged_by_it() {
    if left_out_clocks("clocks set forward") {
        return;
    }
    let world = new_world_in_memory(
        &[
            careful("0 30 14 * * * @policy(deadline=8h)"),
            careful("0 0 17 * * * @policy(deadline=1h)").replace("careful", "strict"),
            careful("0 */30 * * * * @policy(deadline=30m)").replace("careful", "frequent"),
        ]
        .concat(),
    );
    let began = now();
    let clock = Clock::showing(&world, noon());
    let mut krond = clock.start(&world);
    // Six halves of an hour: late for what was due half an hour ago, and in time. What follows has the
    // rest of this clock's half-hour.
    clock.set(&world, noon() + 6 * HALF + 1);
    let step = krond.wait_for("clock_step");
    assert_eq!(step["level"], "info", "{step}");
    // Six halves, less what went by since the clock was made.
    let went_by = began.elapsed().as_secs() as i64 + 1;
    let expected = 6 * HALF as i64 + 1;
    let range = expected - went_by..=expected + 1;
    assert!(range.contains(&step["step_s"].as_i64().unwrap()), "{range:?}: {step}");
    let started = krond.wait_for_job("started", "careful");
    assert_eq!(started["period_id"], *text(noon() + 5 * HALF));
    wait_for_last(&world, "careful", noon() + 5 * HALF);
    wait_for_last(&world, "frequent", noon() + 6 * HALF);
    // Seven hours more: the deadline of the other has passed.
    clock.set(&world, noon() + 20 * HALF + 1);
    let missed = krond.wait_for_job("missed", "strict");
    assert_eq!(missed["level"], "info", "{missed}");
    assert!(missed["reason"].as_str().unwrap().contains("deadline"), "{missed}");
    eventually("it is recorded", || {
        (world.document("strict")["LastOutcome"] == "missed").then_some(())
    });
    wait_for_last(&world, "frequent", noon() + 20 * HALF);
    krond.stop();
    assert!(witnesses_of(&world, "strict").is_empty(), "it ran after its deadline");
    assert_eq!(world.history("careful").len(), 1);
    // Two jumps: a stretch of missed periods and one run after each.
    assert_covered(&world, "frequent", HALF);
    let history = world.history("frequent");
    let stretches: Vec<&Value> =
        history.iter().filter(|entry| entry["Outcome"] == "missed").collect();
    assert_eq!(stretches.len(), 2, "{history:?}");
    for (stretch, count) in stretches.iter().zip([5, 13]) {
        assert_eq!(stretch["Reason"], "superseded", "{stretch}");
        assert_eq!(stretch["Count"], count, "{stretch}");
    }
    assert_eq!(witnesses_of(&world, "frequent").len(), 2, "nothing is replayed");
    for job in ["careful", "strict", "frequent"] {
        judge(&world, job);
    }
}

/// Waits until this is the last period that a job has handled, and nothing of it runs.
fn wait_for_last(world: &World, identity: &str, period: u64) {
    eventually("the period is over", || {
        let document = world.document(identity);
        let last = document["LastHandledPeriodID"] == *text(period);
        (last && document["ActiveExecution"].is_null()).then_some(())
    });
}

/// Checks that the history of a job of even periods accounts for every one exactly once.
fn assert_covered(world: &World, identity: &str, interval: u64) {
    let mut next = None;
    // It is in the order of recording, and a run is recorded when it is executed.
    let mut history = world.history(identity);
    history.sort_by_key(|entry| entry["PeriodID"].to_string());
    for entry in history {
        let first = second(entry["PeriodID"].as_str().unwrap());
        assert_eq!(first, next.unwrap_or(first), "a gap or an overlap before {entry}");
        let count = entry["Count"].as_u64().unwrap_or(1);
        let last = entry["LastPeriodID"].as_str().map_or(first, second);
        assert_eq!(last, first + (count - 1) * interval, "{entry}");
        next = Some(last + interval);
    }
    let document = world.document(identity);
    let mark = second(document["LastHandledPeriodID"].as_str().unwrap());
    assert_eq!(Some(mark + interval), next, "{document}");
}

#[test]
fn a_clock_set_back_repeats_nothing() {
    if left_out_clocks("clocks set back") {
        return;
    }
    let world = new_world_in_memory(&careful("0 */30 * * * * @policy(deadline=29m)"));
    let clock = Clock::showing(&world, noon() - AHEAD);
    let mut krond = clock.start(&world);
    for half in 0..3 {
        clock.set(&world, noon() + half * HALF + 1);
        let finished = krond.wait_for("finished");
        assert_eq!(finished["period_id"], *text(noon() + half * HALF));
        wait_for_last(&world, "careful", noon() + half * HALF);
    }
    let before = decided(&world, &mut krond);
    let document = world.document("careful");
    clock.set(&world, noon() - HOUR + 1);
    let step = krond.wait_for("clock_step");
    assert_eq!(step["level"], "warn", "{step}");
    assert!(step["step_s"].as_i64().unwrap() < -7_100, "{step}");
    // Through the hours again, as it were.
    for minute in [30, 60, 90, 120] {
        clock.set(&world, noon() - HOUR + minute * MINUTE + 2);
        assert_eq!(decided(&world, &mut krond), before, "minute {minute} runs again");
    }
    assert_eq!(world.document("careful"), document, "nothing is recorded, nothing moves back");
    // A daemon that starts then is no wiser.
    clock.write(noon() - HOUR / 2);
    krond.kill();
    let mut krond = clock.start(&world);
    assert_eq!(decided(&world, &mut krond), 0);
    assert_eq!(krond.events("mark_in_future").len(), 2, "it is told at every load");
    // What comes after the mark comes.
    clock.set(&world, noon() + 3 * HALF + 1);
    let finished = krond.wait_for("finished");
    assert_eq!(finished["period_id"], *text(noon() + 3 * HALF));
    krond.stop();
    let ran: Vec<(String, usize)> = witnesses(&world).into_iter().collect();
    let expected: Vec<(String, usize)> =
        (0..4).map(|half| (text(noon() + half * HALF), 1)).collect();
    assert_eq!(ran, expected);
    judge(&world, "careful");
}

#[test]
fn a_leap_of_days_is_not_believed_until_somebody_says_so() {
    if left_out_clocks("leaps") {
        return;
    }
    let world = new_world_in_memory(&careful("0 0 * * * * @policy(deadline=30m)"));
    let clock = Clock::showing(&world, noon() - AHEAD);
    let mut krond = clock.start(&world);
    clock.set(&world, noon() + 1);
    krond.wait_for("finished");
    // A leap that is taken back leaves nothing behind.
    let before = decided(&world, &mut krond);
    clock.set(&world, noon() + 3 * DAY + 1);
    let held = krond.wait_for("clock_held");
    assert_eq!(held["level"], "warn", "{held}");
    assert_eq!(decided(&world, &mut krond), before, "it judges by a clock it does not believe");
    clock.set(&world, noon() + 10);
    let (_, status) = world.ask("GET", "/api/v1/status", "");
    assert!(status["clock_held_since"].is_null(), "{status}");
    clock.set(&world, noon() + HOUR + 1);
    assert_eq!(krond.wait_for("finished")["period_id"], *text(noon() + HOUR));
    let (code, refused) = world.ask("POST", "/api/v1/clock/accept", "{}");
    assert_eq!(code, 409, "there is nothing to accept: {refused}");
    // One that stays.
    let before = decided(&world, &mut krond);
    clock.set(&world, noon() + 3 * DAY + 1);
    krond.wait_for("clock_held");
    assert_eq!(decided(&world, &mut krond), before);
    let (_, status) = world.ask("GET", "/api/v1/status", "");
    assert!(status["clock_held_since"].is_string(), "{status}");
    let mark = world.document("careful")["LastHandledPeriodID"].clone();
    assert_eq!(mark, *text(noon() + HOUR), "no mark lies in the future");
    let (code, answer) = world.ask("POST", "/api/v1/clock/accept", "{}");
    assert_eq!(code, 200, "{answer}");
    krond.wait_for("clock_accepted");
    assert_eq!(krond.wait_for("finished")["period_id"], *text(noon() + 3 * DAY));
    wait_for_last(&world, "careful", noon() + 3 * DAY);
    krond.stop();
    assert_eq!(witnesses(&world).len(), 3, "nothing is replayed");
    assert_covered(&world, "careful", HOUR);
    let events: Vec<Value> = world.epochs().iter().map(|epoch| epoch["Event"].clone()).collect();
    for event in ["clock_step", "clock_held", "clock_accepted"] {
        assert!(events.iter().any(|found| found == event), "{event}: {events:?}");
    }
    judge(&world, "careful");
}

/// A machine without a battery starts in the past and is set right by the network.
#[test]
fn a_daemon_that_wakes_up_in_another_century_does_no_harm() {
    if left_out_clocks("clocks of long ago") {
        return;
    }
    let world = new_world_in_memory(&careful("0 0 * * * * @policy(deadline=30m)"));
    let clock = Clock::showing(&world, noon() - AHEAD);
    let mut krond = clock.start(&world);
    clock.set(&world, noon() + 1);
    krond.wait_for("finished");
    krond.stop();
    clock.write(second("1970-01-02T12:00:00Z") - AHEAD);
    let mut krond = clock.start(&world);
    assert_eq!(krond.events("mark_in_future").len(), 1);
    clock.set(&world, second("1970-01-02T12:00:01Z"));
    assert_eq!(decided(&world, &mut krond), 0, "what is long past does not run");
    clock.set(&world, noon() + HOUR + 1);
    krond.wait_for("clock_held");
    assert_eq!(decided(&world, &mut krond), 0);
    assert_eq!(world.ask("POST", "/api/v1/clock/accept", "{}").0, 200);
    assert_eq!(krond.wait_for("finished")["period_id"], *text(noon() + HOUR));
    krond.stop();
    assert_eq!(witnesses(&world).len(), 2);
    judge(&world, "careful");
}

#[test]
fn a_daily_job_runs_once_on_the_days_the_clocks_change_and_a_frequent_one_never_pauses() {
    if left_out_clocks("daylight saving") {
        return;
    }
    // The day, and when half past two is: after the hour that is left out, and before the one
    // that is repeated.
    for (day, daily) in
        [("2027-03-28", "2027-03-28T01:30:00Z"), ("2027-10-31", "2027-10-31T00:30:00Z")]
    {
        let zone = "@tz(Europe/Berlin) @policy(deadline=4m)";
        // Each of the runs waits for several syncs, and the next step for the run.
        let world = new_world_in_memory(
            &[
                careful(&format!("30 2 * * * {zone}")),
                careful(&format!("*/5 * * * * {zone}")).replace("careful", "often"),
            ]
            .concat(),
        );
        let start = second(&format!("{day}T00:10:00Z"));
        let clock = Clock::showing(&world, start - AHEAD);
        let mut krond = clock.start(&world);
        let mut expected = Vec::new();
        for step in 0..=24 {
            let due = start + step * 5 * MINUTE;
            clock.set(&world, due + 1);
            let finished = krond.wait_for_job("finished", "often");
            assert_eq!(finished["period_id"], *text(due), "{day}");
            expected.push((text(due), 1));
        }
        // What has been decided is heard before the daemon leaves.
        decided(&world, &mut krond);
        eventually("all is over", || {
            let over = |job| world.document(job)["ActiveExecution"].is_null();
            (over("often") && over("careful")).then_some(())
        });
        krond.stop();
        // What fell due meanwhile, if this took so long, is judged below.
        let mut often: Vec<(String, usize)> = witnesses_of(&world, "often").into_iter().collect();
        let last = text(start + 24 * 5 * MINUTE);
        often.retain(|(period, _)| *period <= last);
        assert_eq!(often, expected, "{day}");
        let ran: Vec<(String, usize)> = witnesses(&world).into_iter().collect();
        assert_eq!(ran, [(daily.to_owned(), 1)], "{day}");
        assert_covered(&world, "often", 5 * MINUTE);
        judge(&world, "often");
        judge(&world, "careful");
    }
}

#[test]
fn a_sleep_is_one_record_and_nothing_is_made_up_for() {
    // All of it is judged, however many seconds that takes.
    let history = "[daemon]\nhistory = 1000\n";
    let world = new_world(&[history, &careful("* * * * * * @policy(deadline=0s)")].concat());
    let mut krond = world.start();
    krond.wait_for("finished");
    krond.signal(Signal::SIGSTOP);
    eventually("all its threads are stopped", || {
        threads(krond.pid()).iter().all(|(tid, _)| is_stopped(*tid)).then_some(())
    });
    let asleep = wall_seconds();
    wait_until_second(asleep + 5);
    // Before it wakes up: what falls due from then on may run.
    let awake = wall_seconds();
    krond.signal(Signal::SIGCONT);
    loop {
        let finished = krond.wait_for("finished");
        if second(finished["period_id"].as_str().unwrap()) > awake {
            break;
        }
    }
    krond.signal(Signal::SIGINT);
    assert_eq!(krond.wait().code(), Some(0), "{}", krond.said.join("\n"));
    judge(&world, "careful");
    assert_covered(&world, "careful", 1);
    let slept = asleep + 1..awake;
    for period in witnesses(&world).keys() {
        assert!(!slept.contains(&second(period)), "{period} was slept through and ran");
    }
    let history = world.history("careful");
    // A stretch may begin before the sleep, if the daemon lagged behind already.
    let is_slept_through = |entry: &&Value| {
        let first = second(entry["PeriodID"].as_str().unwrap());
        let last = entry["LastPeriodID"].as_str().map_or(first, second);
        first < slept.end && last >= slept.start
    };
    let stretches: Vec<&Value> = history.iter().filter(is_slept_through).collect();
    assert!(
        stretches.len() <= 2 && stretches.iter().any(|entry| entry["Count"].as_u64() >= Some(3)),
        "one stretch, and the present period: {history:?}"
    );
}
