//! Every call that records a run fails, once and for good.
//!
//! The thread that writes state is traced through one run: the record before the release, the
//! record of the start, the record of the end. The calls are enumerated from a run in which
//! nothing fails, so the matrix follows the code.
//!
//! Half a minute after the first record of a job, the thread also writes that there is one, and from
//! then on a call of the same number may be another one. So only the first record is looked at in a
//! new job, before which nothing else is written; the others are looked at in a job that the daemon
//! knows to have records, about which it writes nothing more ([`Past`]).
//!
//! The suite plays every call by which something changes or becomes durable, and the first call of
//! each other name in each of the three records. Each fails once and for good, with one of the six
//! errors for either, turning with the call's place so that all six occur; EMFILE comes to every
//! such call that opens something. The same is played for a run that an earlier daemon started,
//! through what its supervisor left.
//!
//! `full` plays every call of the path, in the first case with every error.

use std::fmt;

use kron_testkit::krond::{Krond, World, seldom, wait_for_permit};
use kron_testkit::needs::{Need, left_out};
use kron_testkit::waiting::eventually;

use crate::faults::scene::{
    CODE, all, assert_ran_once, assert_tells, before_due, before_due_in, careful, document_name,
    settle, thread_named, unfinished, wait_for_end, wait_for_witness, witnesses,
};
use crate::faults::strace::{Attached, Call, Effect, Extent, Injection, Tracing, When};
use crate::{Past, new_world, write_empty_document};

const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EDQUOT", "EMFILE", "EACCES", "EROFS"];

/// How many failures in a row show that it is waited for something to pass.
const PATIENT_ATTEMPTS: usize = 3;

/// The records of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// Before the command is let go.
    Armed,
    /// That it was executed.
    Started,
    /// How it ended.
    Ended,
}

/// One thing that goes wrong.
#[derive(Debug)]
struct Case {
    record: Record,
    call: Call,
    effect: Effect,
    when: When,
}

impl Record {
    /// The past of the job in which the record is looked at.
    fn past(self) -> Past {
        match self {
            Record::Armed => Past::New,
            Record::Started | Record::Ended => Past::Known,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { record, call, .. } = self;
        write!(f, "{record:?}: {} of `{}`", self.injection(), call.about)
    }
}

impl Case {
    fn injection(&self) -> Injection {
        Injection { calls: self.call.name.clone(), effect: self.effect, when: self.when }
    }

    /// A daemon in which this goes wrong.
    fn traced(&self) -> Traced {
        traced(self.record.past(), Some(&self.injection()))
    }

    /// Whether nothing has been changed and something has run out that may come back.
    fn may_pass(&self) -> bool {
        let opens = matches!(&*self.call.name, "open" | "openat" | "fstat" | "read");
        opens && self.effect == Effect::Error("EMFILE")
    }
}

/// A daemon with a run ahead of it, its writing thread traced.
struct Traced {
    world: World,
    krond: Krond,
    tracing: Tracing,
    attached: Attached,
    nominal: String,
}

/// Starts a daemon and traces it before its job, which has this past, falls due.
fn traced(past: Past, injection: Option<&Injection>) -> Traced {
    let wait = wait_for_permit("permit");
    let new = || match past {
        Past::New => new_world(""),
        Past::Known => known(),
    };
    let prepare = |world: &World, krond: &Krond| {
        let document = document_name("careful");
        let names = ["", &*document, &unfinished(&document)];
        let tracing = Tracing::new(&world.state_dir(), &names, injection);
        let attached = tracing.attach(&[thread_named(krond, "sync-1")]);
        (tracing, attached)
    };
    let (world, krond, (tracing, attached), nominal) = before_due_in(new, &wait, "", prepare);
    Traced { world, krond, tracing, attached, nominal }
}

/// A world whose daemon finds the document of its job, and notes that at its start.
fn known() -> World {
    let world = new_world(&careful(seldom(), "true", ""));
    write_empty_document(&world, "careful");
    world
}

/// Whether a record is complete with this call: its directory is synced.
fn completes(call: &Call) -> bool {
    matches!(&*call.name, "fsync" | "fdatasync") && call.about == "S"
}

/// Every call of the thread that writes state, through a run in which nothing fails.
fn calls() -> Vec<(Record, Call)> {
    let mut calls = calls_of(Past::New, &[Record::Armed]);
    let later = calls_of(Past::Known, &[Record::Armed, Record::Started, Record::Ended]);
    calls.extend(later.into_iter().filter(|(record, _)| record.past() == Past::Known));
    calls
}

/// The calls by which the first records of a run are made, in a job with this past.
fn calls_of(past: Past, records: &[Record]) -> Vec<(Record, Call)> {
    let Traced { world, mut krond, tracing, attached, nominal } = traced(past, None);
    krond.wait_for("started");
    eventually("the start is recorded", || world.history("careful").pop());
    world.permit("permit");
    eventually("they are durable", || {
        let count = tracing.calls().iter().filter(|call| completes(call)).count();
        (count >= records.len()).then_some(())
    });
    wait_for_witness(&world, &nominal);
    krond.kill();
    attached.ended();
    let mut traced = tracing.calls().into_iter().peekable();
    let mut calls = Vec::new();
    for record in records {
        let mut is_durable = false;
        while let Some(call) = traced.next_if(|_| !is_durable) {
            is_durable = completes(&call);
            calls.push((*record, call));
        }
        assert!(is_durable, "{record:?} is not durable: {calls:?}");
    }
    let rest: Vec<Call> = traced.collect();
    assert!(past == Past::New || rest.is_empty(), "more than these records: {rest:?}");
    calls
}

#[test]
fn a_failure_of_a_record_neither_repeats_nor_hides_it() {
    if left_out("failures while recording", &[Need::Root, Need::Strace]) {
        return;
    }
    let mut cases = Vec::new();
    for (place, (record, call)) in Extent::Weighty.of(&calls()).into_iter().enumerate() {
        let mut case = |error: &'static str, when| {
            cases.push(Case { record, call: call.clone(), effect: Effect::Error(error), when });
        };
        let number = call.number;
        if matches!(&*call.name, "open" | "openat") {
            case("EMFILE", When::Once(number));
            case("EMFILE", When::ForGood(number));
        } else {
            case(ERRORS[place % 6], When::Once(number));
        }
        case(ERRORS[(place + 3) % 6], When::ForGood(number));
    }
    for error in ERRORS {
        assert!(cases.iter().any(|case| case.effect == Effect::Error(error)), "{error}");
    }
    all(&cases, run);
}

#[test]
#[ignore = "full: every call"]
fn every_error_at_every_call() {
    if left_out("every error at every call", &[Need::Root, Need::Strace]) {
        return;
    }
    let mut cases = Vec::new();
    for (record, call) in calls() {
        for error in ERRORS {
            for when in [When::Once(call.number), When::ForGood(call.number)] {
                let effect = Effect::Error(error);
                cases.push(Case { record, call: call.clone(), effect, when });
            }
        }
    }
    all(&cases, run);
}

fn run(case: &Case) {
    let Traced { world, mut krond, tracing, attached, nominal } = case.traced();
    if case.record == Record::Ended {
        krond.wait_for("started");
        eventually("the start is recorded", || world.history("careful").pop());
        world.permit("permit");
    }
    if case.may_pass() {
        waited_out(case, &world, krond, attached, &nominal);
    } else {
        let fatal = krond.wait_for("fatal");
        assert_tells(&fatal, "PersistenceError");
        assert_eq!(krond.wait().code(), Some(5), "{}", krond.said.join("\n"));
        attached.ended();
        if case.record == Record::Armed {
            // The next daemon would not look for a record that is written after its start.
            krond.wait_for_supervisors();
        }
        fatal_for(case, &world, &nominal);
    }
    let hit = tracing.injected();
    let first = hit.first().expect("something failed");
    assert_eq!((&first.name, &first.about), (&case.call.name, &case.call.about));
    assert!(matches!(case.when, When::ForGood(_)) || hit.len() == 1, "{hit:?}");
    assert_ran_once(&world, &nominal);
}

/// The daemon waits and tries again, and nothing is handled meanwhile.
fn waited_out(case: &Case, world: &World, mut krond: Krond, attached: Attached, nominal: &str) {
    let attempts = match case.when {
        When::Once(_) => 1,
        When::ForGood(_) => PATIENT_ATTEMPTS,
    };
    for _ in 0..attempts {
        let delayed = krond.wait_for("write_failed");
        assert_tells(&delayed, "SystemError");
        assert_eq!(delayed["identity"], "careful");
    }
    if matches!(case.when, When::ForGood(_)) {
        match case.record {
            Record::Armed => {
                assert!(witnesses(world).is_empty(), "it runs without a record");
                assert!(world.document("careful").is_null());
            }
            Record::Started => wait_for_witness(world, nominal),
            Record::Ended => {
                assert!(!world.document("careful")["ActiveExecution"].is_null());
            }
        }
    }
    // What had run out is there again.
    drop(attached);
    world.permit("permit");
    eventually("the end is recorded", || {
        let document = world.document("careful");
        (!document.is_null() && document["ActiveExecution"].is_null()).then_some(())
    });
    krond.stop();
}

/// The daemon has left. What it left must be as recoverable as a crash.
fn fatal_for(case: &Case, world: &World, nominal: &str) {
    let document = world.document("careful");
    let is_over = !document.is_null() && document["ActiveExecution"].is_null();
    let mut krond = match case.record {
        Record::Armed => {
            assert!(witnesses(world).is_empty(), "it ran without a record");
            // Whether the record got to the disk is not known; that the command never ran is.
            if !world.document("careful")["ActiveExecution"].is_null() {
                let record = eventually("the supervisor says so", || world.run_records().pop());
                assert!(record.to_string().contains("not_released"), "{record}");
            }
            assert!(witnesses(world).is_empty(), "it ran without a record");
            world.permit("permit");
            world.start()
        }
        Record::Started => {
            // Nothing disturbs what runs.
            wait_for_witness(world, nominal);
            // Every other case finds it running, the others find what its supervisor left.
            if case.call.number.is_multiple_of(2) {
                let krond = world.start();
                world.permit("permit");
                krond
            } else {
                world.permit("permit");
                eventually("the supervisor leaves a record", || world.run_records().pop());
                world.start()
            }
        }
        Record::Ended => {
            eventually("the supervisor leaves a record", || world.run_records().pop());
            world.start()
        }
    };
    // The last failure of all comes after the end is in its place: then that is known already.
    if !is_over {
        let finished = krond.wait_for_job("finished", "careful");
        assert_eq!(finished["period_id"], nominal);
        assert_eq!(finished["exit_code"], CODE, "{finished}");
    }
    eventually("the end is recorded", || {
        world.document("careful")["ActiveExecution"].is_null().then_some(())
    });
    eventually("its record is removed", || world.run_records().is_empty().then_some(()));
    krond.stop();
}

/// A daemon that has adopted a run, its writing thread traced.
fn adopted(injection: Option<&Injection>) -> Traced {
    let (world, krond, (), nominal) = before_due(&wait_for_permit("permit"), "", |_, _| ());
    wait_for_witness(&world, &nominal);
    eventually("the start is recorded", || world.history("careful").pop());
    krond.kill();
    let krond = world.start();
    settle(&world, &krond);
    let run = world.document("careful")["ActiveExecution"]["RunID"].as_str().unwrap().to_owned();
    let (file, path) = (format!("{run}.json"), format!("runs/{run}.json"));
    let document = document_name("careful");
    let names = ["", "runs", &*file, &*path, &*document, &unfinished(&document)];
    let tracing = Tracing::new(&world.state_dir(), &names, injection);
    let attached = tracing.attach(&[thread_named(&krond, "sync-1")]);
    Traced { world, krond, tracing, attached, nominal }
}

#[test]
fn a_failure_of_a_recovery_loses_nothing() {
    if !left_out("failures of recoveries", &[Need::Root, Need::Strace]) {
        recoveries_fail(Extent::Weighty);
    }
}

#[test]
#[ignore = "full: every call"]
fn a_failure_at_every_call_of_a_recovery_loses_nothing() {
    if !left_out("failures of recoveries", &[Need::Root, Need::Strace]) {
        recoveries_fail(Extent::Every);
    }
}

/// The run of an earlier daemon ends: what its supervisor left is read, recorded and removed.
fn recoveries_fail(extent: Extent) {
    let Traced { world, krond, tracing, attached, nominal } = adopted(None);
    world.permit("permit");
    eventually("what was left is removed", || {
        tracing.calls().iter().find(|call| call.name == "unlinkat").map(drop)
    });
    krond.kill();
    attached.ended();
    assert_ran_once(&world, &nominal);
    let calls = tracing.calls();
    let recorded = calls.iter().position(completes).expect("a record that is durable");
    assert!(calls[0].about.starts_with("S/runs "), "what was left is read first: {calls:?}");
    // Nothing rests on what has been recorded elsewhere.
    let is_aftermath = |(place, call): (usize, Call)| (place > recorded, call);
    let calls: Vec<_> = calls.into_iter().enumerate().map(is_aftermath).collect();
    let calls = extent.of(&calls);
    let mut cases = Vec::new();
    for (place, (aftermath, call)) in calls.into_iter().enumerate() {
        let number = call.number;
        for (turn, when) in [(0, When::Once(number)), (1, When::ForGood(number))] {
            let effect = Effect::Error(ERRORS[(place + turn) % 6]);
            let case = Case { record: Record::Ended, call: call.clone(), effect, when };
            cases.push(Recovery { case, aftermath });
        }
    }
    all(&cases, recover);
}

struct Recovery {
    case: Case,
    /// Whether everything is recorded by then, and only tidied up.
    aftermath: bool,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.case.fmt(f)
    }
}

fn recover(Recovery { case, aftermath }: &Recovery) {
    let Traced { world, mut krond, tracing, attached, nominal } = adopted(Some(&case.injection()));
    world.permit("permit");
    if *aftermath {
        let error_type = if case.may_pass() { "SystemError" } else { "PersistenceError" };
        assert_tells(&krond.wait_for("not_recorded"), error_type);
        krond.stop();
        attached.ended();
    } else if case.may_pass() {
        let reads = case.call.about.starts_with("S/runs");
        let told = krond.wait_for(if reads { "read_failed" } else { "write_failed" });
        assert_tells(&told, "SystemError");
        drop(attached);
        wait_for_end(&world);
        krond.stop();
    } else {
        assert_tells(&krond.wait_for("fatal"), "PersistenceError");
        assert_eq!(krond.wait().code(), Some(5));
        attached.ended();
    }
    assert!(!tracing.injected().is_empty(), "something failed");
    let krond = world.start();
    wait_for_end(&world);
    eventually("what was left is removed", || world.run_records().is_empty().then_some(()));
    krond.stop();
    assert_ran_once(&world, &nominal);
}

/// The document as this leaves it is garbage, and nobody noticed when it was written.
#[test]
fn a_disk_that_lies_about_what_it_took_costs_a_record_and_no_second_run() {
    if left_out("lying disks", &[Need::Root, Need::Strace]) {
        return;
    }
    let cases: Vec<Case> = calls()
        .into_iter()
        .filter(|(_, call)| call.name == "write")
        .map(|(record, call)| {
            let when = When::Once(call.number);
            Case { record, call, effect: Effect::Returns(9), when }
        })
        .collect();
    assert_eq!(cases.len(), 3, "a write for each record: {cases:?}");
    all(&cases, believed);
}

/// The daemon believes that this write was a whole one.
fn believed(case: &Case) {
    let Traced { world, mut krond, tracing, attached, nominal } = case.traced();
    wait_for_witness(&world, &nominal);
    // Else start and end might be one record.
    if case.record == Record::Ended {
        eventually("the start is recorded", || world.history("careful").pop());
    } else {
        eventually("the record is lost", || tracing.injected().pop());
    }
    world.permit("permit");
    if case.record == Record::Ended {
        // Nothing is read after the last write, so nothing is found out before the next start.
        krond.wait_for("finished");
        eventually("the supervisor is told to leave", || {
            kron_testkit::files::read(&world.state_dir().join(document_name("careful")))?
                .starts_with('"')
                .then_some(())
        });
        // What a daemon writes when it stops is none of the run's.
        drop(attached);
        krond.stop();
    } else {
        assert_tells(&krond.wait_for("fatal"), "PersistenceError");
        assert_eq!(krond.wait().code(), Some(5));
        drop(attached);
    }
    let mut krond = world.start();
    assert_tells(&krond.events("state_unreadable")[0], "PersistenceError");
    assert_eq!(krond.events("state_lost")[0]["identity"], "careful");
    eventually("it is replaced", || {
        let document = serde_json::from_str::<serde_json::Value>(&kron_testkit::files::read(
            &world.state_dir().join(document_name("careful")),
        )?);
        (document.ok()?["LastHandledPeriodID"] == *nominal).then_some(())
    });
    krond.stop();
    assert_eq!(witnesses(&world).get(&nominal), Some(&1), "it ran again");
}

#[test]
fn a_disk_that_takes_nothing_is_a_failure_and_an_interruption_is_none() {
    if left_out("writes of nothing", &[Need::Root, Need::Strace]) {
        return;
    }
    let mut cases = Vec::new();
    for (record, call) in calls() {
        let when = When::Once(call.number);
        if call.name == "write" {
            cases.push(Case { record, call, effect: Effect::Returns(0), when });
        } else if matches!(&*call.name, "openat" | "read" | "renameat") {
            cases.push(Case { record, call, effect: Effect::Error("EINTR"), when });
        }
    }
    all(&cases, |case| {
        if case.effect == Effect::Returns(0) {
            return run(case);
        }
        let Traced { world, krond, tracing, attached, nominal } = case.traced();
        // Else start and end might be one record.
        eventually("the start is recorded", || world.history("careful").pop());
        world.permit("permit");
        wait_for_end(&world);
        // What a daemon writes when it stops is none of the run's.
        drop(attached);
        krond.stop();
        assert_eq!(tracing.injected().len(), 1);
        assert_ran_once(&world, &nominal);
    });
}

/// What cannot be written cannot be cleaned up either; the next start does.
#[test]
fn what_a_failed_write_leaves_is_removed_by_the_next_start() {
    if left_out("leftovers", &[Need::Root, Need::Strace]) {
        return;
    }
    let calls = "fsync,unlinkat".to_owned();
    let injection = Injection { calls, effect: Effect::Error("EROFS"), when: When::ForGood(1) };
    let Traced { world, mut krond, attached, nominal, .. } = traced(Past::New, Some(&injection));
    assert_tells(&krond.wait_for("fatal"), "PersistenceError");
    assert_eq!(krond.wait().code(), Some(5));
    attached.ended();
    let left = world.state_dir().join(unfinished(&document_name("careful")));
    assert!(left.exists(), "the case is what it says");
    world.permit("permit");
    let krond = world.start();
    wait_for_end(&world);
    krond.stop();
    assert!(!left.exists());
    assert_ran_once(&world, &nominal);
}

#[test]
fn a_fatal_failure_names_the_job_it_was_about() {
    if left_out("fatal lines", &[Need::Root, Need::Strace]) {
        return;
    }
    let injection = Injection {
        calls: "fsync".to_owned(),
        effect: Effect::Error("EIO"),
        when: When::ForGood(1),
    };
    let Traced { world, mut krond, attached, nominal, .. } = traced(Past::New, Some(&injection));
    let fatal = krond.wait_for("fatal");
    assert_tells(&fatal, "PersistenceError");
    assert_eq!(fatal["identity"], "careful", "{fatal}");
    assert_eq!(fatal["period_id"], *nominal, "{fatal}");
    assert_eq!(krond.wait().code(), Some(5));
    attached.ended();
    assert!(witnesses(&world).is_empty());
}
