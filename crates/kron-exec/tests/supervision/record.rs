//! Last words that nobody takes: what a supervisor records, and what it says in its daemon's log
//! when it cannot.

use std::fs;

use kron_core::UtcSecond;
use kron_exec::{LogFormat, Output, Plan};
use kron_state::{PeriodRef, RealDirectory, RunId, RunRecord, RunReport, Store};
use kron_testkit::waiting::wall_seconds;
use rustix::stdio::{dup2_stderr, stderr};
use serde_json::{Value, json};

use crate::place::{Place, wait_for_everybody, wait_for_text};
use crate::runner::{Case, NOTHING};

pub(crate) const CASES: &[Case] = &[
    ("record::a_record_names_its_job_and_period", NOTHING, named),
    ("record::what_is_not_told_is_not_recorded", NOTHING, unnamed),
    ("record::a_lost_record_is_told_in_the_daemons_own_words", NOTHING, told_as_text),
    ("record::a_lost_record_is_told_as_json_where_the_log_is", NOTHING, told_as_json),
    ("record::a_plan_without_words_for_the_log_is_followed", NOTHING, told_without_words),
];

fn named() {
    let report = left(|plan| plan);
    assert!(matches!(report.record, RunRecord::Ended(_)), "{report:?}");
    assert_eq!(report.identity.as_deref(), Some("job"));
    let period = UtcSecond::parse("2026-03-01T00:00:00Z").expect("a time");
    assert_eq!(report.period, Some(PeriodRef::Period(period)));
    const BY_HAND: &str = "manual/2026-03-01T00:00:00Z-1a2b";
    let report = left(|plan| Plan { period_id: Some(BY_HAND.to_owned()), ..plan });
    assert_eq!(report.period.map(String::from).as_deref(), Some(BY_HAND));
}

fn unnamed() {
    let report = left(|plan| Plan { identity: None, period_id: None, ..plan });
    assert!(matches!(report.record, RunRecord::Ended(_)), "{report:?}");
    assert_eq!((report.identity, report.period), (None, None));
    // What a later daemon may call a period is no reason to lose the end of its run.
    let report = left(|plan| Plan { period_id: Some("the day after".to_owned()), ..plan });
    assert!(matches!(report.record, RunRecord::Ended(_)), "{report:?}");
    assert_eq!((report.identity.as_deref(), report.period), (Some("job"), None));
}

/// What a supervisor leaves whose daemon is gone.
fn left(edit: fn(Plan) -> Plan) -> RunReport {
    let place = Place::new();
    let (supervisor, _) = place.execute(&edit(place.plan("")));
    drop(supervisor);
    wait_for_everybody();
    let directory = RealDirectory::open_existing(&place.state).expect("a state directory");
    let store = Store::view(directory, 1).expect("a store");
    store.run_report(&RunId::from_bits(0x1234)).expect("an answer").expect("a record")
}

fn told_as_text() {
    let since = wall_seconds();
    let line = lost(|plan| plan);
    let (time, rest) = line.split_once(' ').expect("a time in front");
    check_time(time, since);
    let (known, message) = rest.split_once(" message=").expect("a message");
    assert_eq!(
        known,
        "level=error component=supervisor event=record_lost identity=\"my job\" \
         period_id=2026-03-01T00:00:00Z run_id=0000000000001234 error_type=PersistenceError \
         operation=\"write run record\""
    );
    assert!(message.contains("/state`: No such file or directory"), "{line}");
}

fn told_as_json() {
    let since = wall_seconds();
    let line = lost(|plan| Plan { log_format: LogFormat::Json, ..plan });
    assert!(line.starts_with("{\"time\":"), "{line}");
    let mut value: Value = serde_json::from_str(&line).expect("an object");
    let fields = value.as_object_mut().expect("an object");
    check_time(
        fields
            .remove("time")
            .and_then(|time| time.as_str().map(str::to_owned))
            .as_deref()
            .expect("a time"),
        since,
    );
    let message = fields.remove("message").expect("a message");
    assert!(message.as_str().is_some_and(|text| !text.is_empty()), "{line}");
    assert_eq!(
        value,
        json!({
            "level": "error", "component": "supervisor", "event": "record_lost",
            "identity": "my job", "period_id": "2026-03-01T00:00:00Z",
            "run_id": "0000000000001234", "error_type": "PersistenceError",
            "operation": "write run record",
        })
    );
}

fn told_without_words() {
    let line = lost(|plan| Plan { identity: None, period_id: None, ..plan });
    assert!(
        line.contains(
            " level=error component=supervisor event=record_lost run_id=0000000000001234 "
        ),
        "{line}"
    );
}

/// What a supervisor says whose daemon is gone, and its state directory with it.
fn lost(edit: fn(Plan) -> Plan) -> String {
    let place = Place::new();
    let (said, go) = (place.open.join("said"), place.open.join("go"));
    let plan = edit(Plan {
        identity: Some("my job".to_owned()),
        output: Output::Discard,
        ..place.plan(&format!("while [ ! -e {} ]; do sleep 0.01; done", go.display()))
    });
    let (supervisor, _) =
        saying_into(&fs::File::create(&said).expect("a file"), || place.execute(&plan));
    drop(supervisor);
    fs::remove_dir_all(&place.state).expect("removed");
    fs::write(go, "").expect("written");
    let line = wait_for_text(&said);
    wait_for_everybody();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// Starts something whose standard error goes into a file.
fn saying_into<T>(file: &fs::File, start: impl FnOnce() -> T) -> T {
    let own = rustix::io::fcntl_dupfd_cloexec(stderr(), 3).expect("a descriptor");
    dup2_stderr(file).expect("redirected");
    let started = start();
    dup2_stderr(own).expect("put back");
    started
}

/// A time from this second to now, in RFC 3339 with nanoseconds.
fn check_time(time: &str, since: u64) {
    assert_eq!(time.len(), "2026-03-01T00:00:00.000000000Z".len(), "{time}");
    let (seconds, nanoseconds) = time.split_once('.').expect("a fraction");
    assert!(nanoseconds.strip_suffix('Z').is_some_and(|digits| digits.parse::<u32>().is_ok()));
    let second = UtcSecond::parse(&format!("{seconds}Z")).expect("a time");
    let possible = since as i64..=wall_seconds() as i64;
    assert!(possible.contains(&second.unix()), "{time} is not in {possible:?}");
}
