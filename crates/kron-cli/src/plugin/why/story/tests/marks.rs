//! What is answered when a wrong clock has marked periods as handled that are still to come.

use super::*;

/// The mark, which the operator has noticed at 03:45.
fn mark(kronjob: &mut Value) {
    kronjob["status"]["lastHandledPeriod"] = json!("2027-11-16T03:40:00Z");
    kronjob["status"]["recent"] = json!([]);
    kronjob["status"]["last"] = Value::Null;
    kronjob["status"]["next"] = json!({
        "periodId": "2027-11-16T03:50:00Z", "nominalTime": "2027-11-16T03:50:00Z",
        "chosenTime": "2027-11-16T03:51:00Z",
    });
    let ready = &mut kronjob["status"]["conditions"][0];
    ready["status"] = json!("False");
    ready["reason"] = json!("HandledInFuture");
    ready["lastTransitionTime"] = json!("2026-11-16T03:45:00Z");
}

const REASON: &str = "the mark of what is handled lies in the future";
const WHAT_TO_DO: [&str; 2] =
    ["Nothing runs before 2027-11-16T03:40:00Z", "Delete the KronJob and create it again."];

#[test]
fn what_is_to_come_before_it_never_runs() {
    let (due, after) = ("2026-11-16T03:50:00Z", "2026-11-16T03:53:40Z");
    check(mark, (due, NOW), ("none", Some(REASON)), &WHAT_TO_DO);
    check(mark, (due, after), ("none", Some(REASON)), &WHAT_TO_DO);
}

#[test]
fn what_was_before_it_was_noticed_may_have_run() {
    check(mark, ("2026-11-16T03:40:00Z", NOW), ("unknown", Some(REASON)), &WHAT_TO_DO);
    // That needs no mark to be so.
    let created = ("none", Some("fell due before the job was created"));
    check(mark, ("2026-11-16T03:10:00Z", NOW), created, &WHAT_TO_DO);
}

#[test]
fn what_comes_after_it_waits() {
    let next = "2027-11-16T03:50:00Z";
    check(mark, (next, NOW), ("waiting", None), &WHAT_TO_DO);
    let mut kronjob = poll();
    mark(&mut kronjob);
    let said = ask(&kronjob, r#"{"items":[]}"#, None, NOW);
    assert!(said.text.contains(&format!("The next period is {next}")), "{}", said.text);
}

#[test]
fn a_mark_that_time_has_reached_is_like_any_other() {
    let asked = ("2026-11-16T03:50:00Z", "2027-11-16T03:41:00Z");
    check(mark, asked, ("unknown", Some("already handled")), &["the latest 10 are kept"]);
}

#[test]
fn it_is_remarked_instead_of_what_the_operator_says_is_next() {
    let mut kronjob = poll();
    mark(&mut kronjob);
    let object = serde_json::from_str(&kronjob.to_string()).unwrap();
    let kronjob = KronJob::read(&mut TimingParser::new(), object);
    assert_eq!(
        kronjob.remarks(NOW.parse().unwrap()),
        ["nothing runs before 2027-11-16T03:40:00Z, which a wrong clock has marked as handled"]
    );
}
