//! What the cases have in common: a job that leaves witnesses, and how it is judged.
//!
//! A command makes a file that is named after its period and ends in something random, which
//! cannot exist already. So two runs of one period leave two files, whatever anybody records.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kron_testkit::krond::{Krond, LEADS_S, World, second_of};
use kron_testkit::process::{self, wait_until_idle};
use kron_testkit::waiting::{eventually, wall_seconds};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::new_world;

/// The shell command by which a run leaves its witness.
pub(crate) const TESTIFY: &str =
    "mktemp {dir}/ran.$KRON_IDENTITY.$KRON_PERIOD_ID.XXXXXXXX > /dev/null";

/// The exit code by which a command of these tests is known.
pub(crate) const CODE: i64 = 7;

/// Cases that go on at the same time: they mostly wait.
const AT_ONCE: usize = 8;

/// The number of runs of every period of `careful` that ran.
pub(crate) fn witnesses(world: &World) -> BTreeMap<String, usize> {
    witnesses_of(world, "careful")
}

/// The number of runs of every period of a job that ran.
pub(crate) fn witnesses_of(world: &World, identity: &str) -> BTreeMap<String, usize> {
    let prefix = format!("ran.{identity}.");
    let mut runs = BTreeMap::new();
    for entry in world.witness("").read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some((period, _)) = name.strip_prefix(&prefix).and_then(|name| name.rsplit_once('.'))
        {
            *runs.entry(period.to_owned()).or_default() += 1;
        }
    }
    runs
}

/// The definition of a job, `careful`, that is due at this schedule, whenever that was. It leaves its
/// witness, runs `script` and exits with [`CODE`]; `settings` are further lines of its definition.
pub(crate) fn careful(schedule: &str, script: &str, settings: &str) -> String {
    format!(
        r#"
        [job.careful]
        schedule = "{schedule} @policy(deadline=1h)"
        command = "{TESTIFY}; {script}; exit {CODE}"
        shell = true
        {settings}
        "#
    )
}

/// A daemon whose one job, [`careful`], is about to fall due, and what was prepared before it is. A
/// machine that was too slow for that gets more time.
pub(crate) fn before_due<T>(
    script: &str,
    settings: &str,
    prepare: impl Fn(&World, &Krond) -> T,
) -> (World, Krond, T, String) {
    before_due_in(|| new_world(""), script, settings, prepare)
}

/// As [`before_due`], in the worlds that `new` makes.
pub(crate) fn before_due_in<W: Borrow<World>, T>(
    new: impl Fn() -> W,
    script: &str,
    settings: &str,
    prepare: impl Fn(&W, &Krond) -> T,
) -> (W, Krond, T, String) {
    for lead_s in LEADS_S {
        let place = new();
        let world = place.borrow();
        let krond = world.start();
        let config = |schedule: &str| careful(schedule, script, settings);
        let Some(nominal) = world.load_due_in(lead_s, "careful", config) else { continue };
        settle(world, &krond);
        let prepared = prepare(&place, &krond);
        if wall_seconds() < second_of(&nominal) {
            return (place, krond, prepared, nominal);
        }
    }
    panic!("this machine is too slow");
}

/// Waits until a run of the job is recorded from its start to its end.
pub(crate) fn wait_for_end(world: &World) {
    eventually("the end is recorded", || {
        let document = world.document("careful");
        let entry = world.history("careful").pop()?;
        (document["ActiveExecution"].is_null() && !entry["Ending"].is_null()).then_some(())
    });
}

/// It ran once with its exit code, and that is all that is recorded.
pub(crate) fn assert_ran_once(world: &World, nominal: &str) {
    judge(world, "careful");
    assert_eq!(witnesses(world).get(nominal), Some(&1));
    let history = world.history("careful");
    assert_eq!(history.len(), 1, "{history:?}");
    assert_eq!(history[0]["ExitCode"], CODE, "{history:?}");
    assert_eq!(world.document("careful")["LastHandledPeriodID"], nominal);
}

/// Waits until this period has run, once.
pub(crate) fn wait_for_witness(world: &World, period: &str) {
    let runs = eventually("the command runs", || witnesses(world).get(period).copied());
    assert_eq!(runs, 1, "{period}");
}

/// Judges everything a job did: no period ran twice, every run is recorded as one, and everything
/// recorded as a run was one.
pub(crate) fn judge(world: &World, identity: &str) {
    let document = world.document(identity);
    let history = world.history(identity);
    let executed = |period: &str| {
        let entries = history.iter().filter(|entry| entry["PeriodID"] == period);
        entries.filter(|entry| entry["Outcome"] == "executed").count()
    };
    let ran = witnesses_of(world, identity);
    for (period, runs) in &ran {
        assert_eq!(*runs, 1, "{period} ran {runs} times: {document}");
        assert_eq!(executed(period), 1, "{period} ran and is not recorded: {document}");
        assert!(
            document["LastHandledPeriodID"].as_str().is_some_and(|mark| mark >= period.as_str()),
            "{period} is beyond the mark: {document}"
        );
    }
    for entry in &history {
        let period = entry["PeriodID"].as_str().unwrap();
        if entry["Outcome"] == "executed" && entry["Ending"] == "exited" {
            assert!(ran.contains_key(period), "{period} is recorded and did not run: {document}");
        }
        let same = history.iter().filter(|other| other["PeriodID"] == period).count();
        assert_eq!(same, 1, "{period} is recorded {same} times: {document}");
    }
}

/// The name of a job's document.
pub(crate) fn document_name(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}.json")
}

/// The name of a file on its way to becoming `name`.
pub(crate) fn unfinished(name: &str) -> String {
    format!(".{name}.0.tmp")
}

/// Checks that a line of the log says what every error must say.
pub(crate) fn assert_tells(line: &Value, error_type: &str) {
    assert_eq!(line["level"], "error", "{line}");
    assert_eq!(line["component"], "krond", "{line}");
    assert_eq!(line["error_type"], error_type, "{line}");
    for field in ["operation", "message"] {
        assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {line}");
    }
}

/// The line of this event in what a daemon said that has ended.
pub(crate) fn line_of(said: &[String], event: &str) -> Value {
    let lines = said.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut lines = lines.filter(|line| line["event"] == event);
    lines.next().unwrap_or_else(|| panic!("no `{event}`:\n{}", said.join("\n")))
}

/// The thread of this name.
pub(crate) fn thread_named(krond: &Krond, name: &str) -> i32 {
    let threads = threads_named(krond, name);
    assert_eq!(threads.len(), 1, "{name}");
    threads[0]
}

/// The threads whose names begin so.
pub(crate) fn threads_named(krond: &Krond, name: &str) -> Vec<i32> {
    process::threads_named(krond.pid(), name)
}

/// Waits until a daemon that is ready, or has answered a reload, has written everything it writes
/// then, so that what its threads do next is about what happens next.
pub(crate) fn settle(world: &World, krond: &Krond) {
    eventually("the load is recorded", || {
        let epochs = world.epochs();
        let start = epochs.iter().rposition(|epoch| epoch["Event"] == "start")?;
        epochs[start..].iter().any(|epoch| epoch["Event"] == "load").then_some(())
    });
    let known = world.state_dir().join("known.json");
    eventually("its jobs are known", || known.exists().then_some(()));
    wait_until_idle(krond.pid());
}

/// Runs every case, several at a time, and fails with all that went wrong.
pub(crate) fn all<C: Sync + std::fmt::Display>(cases: &[C], run: impl Fn(&C) + Sync) {
    assert!(!cases.is_empty(), "there is something to try");
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = panic::catch_unwind(AssertUnwindSafe(|| run(case)));
                    if let Err(panic) = result {
                        let text = panic.downcast_ref::<String>().cloned();
                        let text = text.or_else(|| Some((*panic.downcast_ref::<&str>()?).into()));
                        let text = text.unwrap_or_default();
                        failures.lock().unwrap().push(format!("--- {case}\n{text}\n"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let count = failures.len();
    assert!(count == 0, "{count} of {} failed\n{}", cases.len(), failures.join("\n"));
}

/// Waits until the wall clock shows this second.
pub(crate) fn wait_until_second(second: u64) {
    eventually("the time comes", || (wall_seconds() >= second).then_some(()));
}
