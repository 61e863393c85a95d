//! Deaths at random moments, under load.
//!
//! Jobs of every kind fall due every second or two while the daemon, supervisors and commands are
//! killed at moments drawn from a seed, and the daemon is started again each time. The moments are
//! not exact, so that the same seed does not give the same story; what must hold, holds in all.

use std::io::Write as _;
use std::time::Duration;

use kron_testkit::chance::{Seeded, number};
use kron_testkit::krond::Krond;
use kron_testkit::process;
use kron_testkit::waiting::{eventually, now};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::crash::checker::{Job, Overlap, Periods, active, history, mark, period_of};
use crate::crash::chronicle::Chronicle;
use crate::crash::civil;
use crate::crash::progress::Progress;
use crate::crash::witness::{self, wall};

/// What is a burst to a daemon that is told nothing else.
const BURST: u16 = 16;
/// Deaths in the suite, and where there is more time; `KRON_CRASH_KILLS` makes them more or fewer.
const KILLS: u64 = 30;
const KILLS_OF_FULL: u64 = 100;
/// Where random numbers come from; `KRON_CRASH_SEED` sets another.
const SEED: u64 = 20_260_301;
/// The longest time between two deaths.
const PAUSE_MS_MAX: u64 = 500;
/// One daemon in so many comes back only after a while, at most so long.
const ABSENT_ONE_IN: u64 = 10;
const ABSENT_MS_MAX: u64 = 2_500;
/// Of so many deaths' number one command at least was executed.
const KILLS_PER_RUN: u64 = 4;

/// The name of a job, its step and deadline in seconds, its policy, and what its command does.
type Row = (&'static str, i64, i64, Overlap, &'static str);

const JOBS: &[Row] = &[
    ("quick", 1, 0, Overlap::Allow, ""),
    ("quick-late", 1, 5, Overlap::Forbid, ""),
    ("beside", 1, 2, Overlap::Allow, "sleep 2.3"),
    ("behind", 1, 10, Overlap::Forbid, "sleep 0.7"),
    ("long", 2, 3, Overlap::Forbid, "sleep 3.1"),
    ("instead", 2, 0, Overlap::Replace, "sleep 1.2; sleep 1.2"),
    ("instead-late", 1, 4, Overlap::Replace, "sleep 0.6"),
    ("stubborn", 2, 1, Overlap::Replace, "trap : TERM; sleep 0.9; sleep 0.9; sleep 0.9"),
];

fn chronicle() -> Chronicle {
    let mut config = "[daemon]\nhistory = 10000\ngrace = \"1s\"\n".to_owned();
    let mut jobs = Vec::new();
    for (identity, step, deadline_s, overlap, body) in JOBS {
        let concurrency = match overlap {
            Overlap::Allow => "allow",
            Overlap::Forbid => "forbid",
            Overlap::Replace => "replace",
        };
        let command = witness::command(body);
        config.push_str(&format!(
            "[job.{identity}]\n\
             schedule = \"*/{step} * * * * * @policy(concurrency={concurrency},deadline={deadline_s}s)\"\n\
             command = '''{command}'''\n\
             shell = true\n"
        ));
        jobs.push(Job {
            identity: (*identity).to_owned(),
            periods: Periods::Every(*step),
            deadline_s: *deadline_s,
            overlap: *overlap,
        });
    }
    Chronicle::new(jobs, &config)
}

/// The supervisors of all runs that are recorded as active, or below the daemon.
fn supervisors(chronicle: &Chronicle, krond: &Krond) -> Vec<i32> {
    let mut found: Vec<i32> =
        process::supervisors(krond.pid()).into_iter().map(|(pid, _)| pid).collect();
    for (identity, ..) in JOBS {
        let document = chronicle.world.document(identity);
        for active in active(&document) {
            let pid = active["Supervisor"]["PID"].as_i64().unwrap_or_default() as i32;
            // A number that has another owner by now does not name this run.
            if process::run_of(pid).as_deref() == active["RunID"].as_str() && !found.contains(&pid)
            {
                found.push(pid);
            }
        }
    }
    found
}

/// Kills somebody; whether that was the daemon, alone or with all the others.
fn kill_somebody(chronicle: &mut Chronicle, krond: &Krond, seeded: &mut Seeded) -> bool {
    match seeded.below(100) {
        0..60 => {
            process::signal(krond.pid(), Signal::SIGKILL);
            true
        }
        60..80 => {
            if let Some(pid) = seeded.one_of(&supervisors(chronicle, krond)) {
                chronicle.kill_supervisor(pid);
            }
            false
        }
        80..90 => {
            let supervisors = supervisors(chronicle, krond);
            let commands: Vec<i32> =
                supervisors.iter().flat_map(|pid| process::children(*pid)).collect();
            if let Some(pid) = seeded.one_of(&commands) {
                chronicle.kill_command(pid);
            }
            false
        }
        _ => {
            // As when the power goes: nobody sees another's end.
            let supervisors = supervisors(chronicle, krond);
            process::signal(krond.pid(), Signal::SIGSTOP);
            chronicle.kill_runs(&supervisors);
            process::signal(krond.pid(), Signal::SIGKILL);
            true
        }
    }
}

/// The last period of a job for which something is decided.
fn decided(document: &Value) -> Option<i64> {
    let last = |entry: &Value| {
        entry["LastPeriodID"].as_str().and_then(civil::parse).or_else(|| period_of(entry))
    };
    history(document).iter().filter_map(last).chain(active(document).filter_map(period_of)).max()
}

/// How many commands are on record as executed.
fn executed(chronicle: &Chronicle) -> u64 {
    let documents = JOBS.iter().map(|(identity, ..)| chronicle.world.document(identity));
    let of_job = |document: Value| {
        history(&document).iter().filter(|entry| entry["Outcome"] == "executed").count() as u64
    };
    documents.map(of_job).sum()
}

#[test]
fn whoever_is_killed_at_random_nothing_runs_twice_or_goes_unrecorded() {
    kill_at_random(KILLS);
}

#[test]
#[ignore = "full: a hundred deaths"]
fn whoever_is_killed_a_hundred_times_nothing_runs_twice_or_goes_unrecorded() {
    kill_at_random(KILLS_OF_FULL);
}

fn kill_at_random(usual: u64) {
    let usual_kills = number("KRON_CRASH_KILLS", usual);
    let mut kills = 0;
    let seed = number("KRON_CRASH_SEED", SEED);
    let mut seeded = Seeded(seed);
    let mut chronicle = chronicle();
    let began = now();
    let mut krond = chronicle.start();
    let mut marks: Vec<Option<i64>> = vec![None; JOBS.len()];
    let executed_min = usual_kills / KILLS_PER_RUN;
    let mut progress = Progress::new((0, executed_min));
    // A machine on which little is executed meanwhile has more of them.
    loop {
        let executed = executed(&chronicle);
        progress.note((executed, executed_min));
        if kills >= usual_kills && executed > executed_min {
            break;
        }
        kills += 1;
        std::thread::sleep(Duration::from_millis(seeded.below(PAUSE_MS_MAX)));
        for ((identity, ..), before) in JOBS.iter().zip(&mut marks) {
            let after = mark(&chronicle.world.document(identity));
            assert!(after >= *before, "mark moved back of `{identity}`: {before:?}, {after:?}");
            *before = after;
        }
        if kill_somebody(&mut chronicle, &krond, &mut seeded) {
            krond.wait();
            if seeded.below(ABSENT_ONE_IN) == 0 {
                std::thread::sleep(Duration::from_millis(seeded.below(ABSENT_MS_MAX)));
            }
            // One daemon after the other brings even single runs to their gates ahead.
            chronicle.world.burst = if seeded.below(2) == 0 { 1 } else { BURST };
            krond = chronicle.start();
        }
    }
    // What is due by now is decided; then nothing more starts, and all runs end.
    let until = wall().as_secs() as i64;
    for (identity, step, ..) in JOBS {
        eventually("what is due is decided", || {
            let last = decided(&chronicle.world.document(identity))?;
            (last >= until - until % step).then_some(())
        });
    }
    krond.signal(Signal::SIGINT);
    let status = krond.wait();
    assert_eq!(status.code(), Some(0), "{}", krond.said.join("\n"));
    let faults = chronicle.judge(until);

    let entries =
        || JOBS.iter().flat_map(|(identity, ..)| history(&chronicle.story.documents[*identity]));
    let count = |outcome: &str| {
        let of_outcome = entries().filter(|entry| entry["Outcome"] == outcome);
        of_outcome.map(|entry| entry["Count"].as_u64().unwrap_or(1)).sum::<u64>()
    };
    let lost = entries().filter(|entry| entry["Ending"] == "lost").count();
    let line = format!(
        "{kills} random deaths (seed {seed}): {} daemons, {} executed ({lost} lost), {} skipped, {} missed ({} s)",
        chronicle.story.lives.len(),
        count("executed"),
        count("skipped"),
        count("missed"),
        now().duration_since(began).as_secs(),
    );
    writeln!(std::io::stdout(), "     {line}").expect("written");
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{line}\n{}", faults.join("\n"));
    assert!(count("executed") > executed_min, "{line}");
}
