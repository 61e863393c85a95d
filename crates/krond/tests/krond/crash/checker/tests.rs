//! The judge itself is judged: a story in which all is well, and what it says about others.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Job, Life, Overlap, Periods, Story, Wrong, check, exit_code};
use crate::crash::civil;
use crate::crash::witness::Witness;

const JOB: &str = "ten";
/// A time at which a period begins.
const NOON: i64 = 1_794_744_000;
const STEP: i64 = 10;

fn period(number: i64) -> i64 {
    NOON + number * STEP
}

fn text(number: i64) -> String {
    civil::format(period(number))
}

fn executed(number: i64) -> Value {
    json!({
        "PeriodID": text(number), "Outcome": "executed", "NominalTime": text(number),
        "ChosenTime": text(number), "CompletedAt": civil::format(period(number) + 2),
        "ExitCode": exit_code(period(number)), "RunID": format!("run-{number}"),
        "Ending": "exited",
    })
}

fn missed(first: i64, last: i64) -> Value {
    let mut entry = json!({
        "PeriodID": text(first), "Outcome": "missed", "NominalTime": text(first),
        "ChosenTime": "", "CompletedAt": text(last), "ExitCode": null, "Reason": "superseded",
    });
    if last > first {
        entry["LastPeriodID"] = text(last).into();
        entry["Count"] = (last - first + 1).into();
    }
    entry
}

fn document(mark: i64, history: &[Value]) -> Value {
    json!({ "LastHandledPeriodID": text(mark), "ActiveExecution": null, "History": history })
}

fn active(number: i64) -> Value {
    json!({ "PeriodID": text(number), "RunID": format!("run-{number}") })
}

/// Seconds since boot are seconds since noon here, and some.
fn since_boot(seconds: i64) -> Duration {
    Duration::from_secs((1_000 + seconds) as u64)
}

fn witness(number: i64, forked_s: i64) -> Witness {
    Witness {
        identity: JOB.to_owned(),
        period: period(number),
        pid: 100 + number as i32,
        forked_since_boot: Some(since_boot(forked_s)),
        ended_since_boot: Some(since_boot(forked_s + 1)),
    }
}

fn life(at_s: i64, found: Value, witnessed: &[i64]) -> Life {
    Life {
        since_boot: since_boot(at_s),
        wall: NOON + at_s,
        found: HashMap::from([(JOB.to_owned(), found)]),
        witnessed: witnessed.iter().map(|number| (JOB.to_owned(), period(*number))).collect(),
    }
}

/// A daemon runs from before noon, dies after two periods and is back after two more.
fn story() -> Story {
    let before = vec![executed(0), executed(1)];
    let after = [before.clone(), vec![missed(2, 3), executed(4)]].concat();
    Story {
        jobs: vec![Job {
            identity: JOB.to_owned(),
            periods: Periods::Every(STEP),
            deadline_s: 5,
            overlap: Overlap::Forbid,
        }],
        lives: vec![life(-5, Value::Null, &[]), life(38, document(1, &before), &[0, 1])],
        killed_supervisors: HashSet::new(),
        killed_commands: HashSet::new(),
        witnesses: vec![witness(0, 0), witness(1, 10), witness(4, 40)],
        documents: HashMap::from([(JOB.to_owned(), document(4, &after))]),
        known: json!({ "Jobs": { JOB: { "CreatedAt": civil::format(NOON - 5) } } }),
        until: period(4),
    }
}

fn end(story: &mut Story) -> &mut Value {
    story.documents.get_mut(JOB).expect("the job's document")
}

fn found(story: &mut Story) -> &mut Value {
    story.lives[1].found.get_mut(JOB).expect("the job's document")
}

fn says(change: impl FnOnce(&mut Story)) -> HashSet<Wrong> {
    let mut story = story();
    change(&mut story);
    check(&story).into_iter().map(|fault| fault.wrong).collect()
}

#[test]
fn all_is_well() {
    assert_eq!(says(|_| {}), HashSet::new());
}

#[test]
fn a_fault_of_every_kind_is_found() {
    type Row = (&'static str, &'static [Wrong], fn(&mut Story));
    let rows: &[Row] = &[
        ("a second execution", &[Wrong::Duplicate], |story| {
            story.witnesses.push(Witness { pid: 7, ..witness(4, 42) });
        }),
        ("an execution nobody recorded", &[Wrong::Unrecorded], |story| {
            story.witnesses.push(witness(3, 39));
            story.jobs[0].deadline_s = 60;
        }),
        ("an execution recorded too late", &[Wrong::Unrecorded], |story| {
            *found(story) = document(0, &[executed(0)]);
        }),
        (
            "an execution at no time of the schedule",
            &[Wrong::NoSuchPeriod, Wrong::Unrecorded],
            |story| {
                let odd = Witness { period: period(4) + 3, ..witness(4, 43) };
                story.witnesses.push(odd);
            },
        ),
        ("a period that had been handled", &[Wrong::Replay], |story| {
            story.witnesses[1].forked_since_boot = Some(since_boot(39));
            story.jobs[0].deadline_s = 60;
        }),
        ("a period whose deadline was over", &[Wrong::Replay, Wrong::RecordChanged], |story| {
            *found(story) = document(0, &[executed(0), missed(1, 1)]);
            story.lives[1].witnessed.pop();
            story.witnesses[1].forked_since_boot = Some(since_boot(39));
        }),
        ("two at once", &[Wrong::Overlap], |story| {
            story.witnesses[0].ended_since_boot = Some(since_boot(11));
        }),
        ("an execution without a witness", &[Wrong::NoWitness, Wrong::ExitCodeMadeUp], |story| {
            story.witnesses.remove(2);
        }),
        ("an exit code that was seen", &[Wrong::ExitCodeLost], |story| {
            end(story)["History"][3]["ExitCode"] = Value::Null;
        }),
        ("an exit code of somebody else", &[Wrong::ExitCodeMadeUp], |story| {
            end(story)["History"][3]["ExitCode"] = 125.into();
        }),
        ("a mark that is not the latest", &[Wrong::MarkMovedBack], |story| {
            end(story)["LastHandledPeriodID"] = text(3).into();
        }),
        ("a mark that moved back", &[Wrong::MarkMovedBack, Wrong::Replay], |story| {
            found(story)["LastHandledPeriodID"] = text(6).into();
        }),
        ("a run without an end", &[Wrong::ActiveForEver], |story| {
            end(story)["ActiveExecution"] = active(4);
        }),
        ("another run without an end", &[Wrong::ActiveForEver], |story| {
            end(story)["OtherActive"] = json!([active(4)]);
        }),
        ("an entry without an end", &[Wrong::ActiveForEver], |story| {
            end(story)["History"][3]["CompletedAt"] = "".into();
        }),
        ("a period that nobody remembers", &[Wrong::NoOutcome], |story| {
            story.until = period(5);
        }),
        ("a period in the middle that nobody remembers", &[Wrong::NoOutcome], |story| {
            end(story)["History"][2] = missed(3, 3);
        }),
        ("a job that nobody knows", &[Wrong::NoOutcome], |story| story.known = Value::Null),
        ("a period that ran and was missed", &[Wrong::TwoOutcomes], |story| {
            end(story)["History"][2] = missed(2, 4);
        }),
        ("a stretch that counts wrongly", &[Wrong::NoSuchPeriod], |story| {
            end(story)["History"][2]["Count"] = 3.into();
        }),
        ("a record that was different before", &[Wrong::RecordChanged], |story| {
            found(story)["History"][0]["CompletedAt"] = text(2).into();
        }),
        ("a record that is gone", &[Wrong::RecordChanged], |story| {
            found(story)["History"].as_array_mut().expect("a list").push(missed(-1, -1));
        }),
    ];
    let told = rows.iter().map(|(what, _, change)| (*what, says(change)));
    let wanted = rows.iter().map(|(what, wrong, _)| (*what, wrong.iter().copied().collect()));
    assert_eq!(told.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
}

#[test]
fn what_a_killing_explains_is_no_fault() {
    let lost = |story: &mut Story| {
        end(story)["History"][3]["ExitCode"] = Value::Null;
        end(story)["History"][3]["Ending"] = "lost".into();
    };
    type Row<'a> = (&'static str, &'a dyn Fn(&mut Story));
    let rows: [Row<'_>; 5] = [
        ("a run whose supervisor was killed", &|story| {
            lost(story);
            story.killed_supervisors.insert("run-4".to_owned());
        }),
        ("the same, before its command could leave a witness", &|story| {
            lost(story);
            story.killed_supervisors.insert("run-4".to_owned());
            story.witnesses.pop();
        }),
        ("a command that was killed", &|story| {
            lost(story);
            end(story)["History"][3]["Signal"] = 9.into();
            story.killed_commands.insert(104);
        }),
        ("a run that was replaced", &|story| {
            lost(story);
            end(story)["History"][3]["Ending"] = "replaced".into();
            story.jobs[0].overlap = Overlap::Replace;
        }),
        ("a replacement that had begun before its deadline was over", &|story| {
            story.jobs[0].deadline_s = -2;
            found(story)["Replacing"] = json!({ "PeriodID": text(4) });
            story.lives[0].wall = NOON - 60;
            story.lives[1].wall = NOON + 39;
        }),
    ];
    for (what, change) in rows {
        assert_eq!(says(change), HashSet::new(), "{what}");
    }
    // Somebody else's death explains nothing.
    let unexplained = says(|story| {
        lost(story);
        story.killed_supervisors.insert("run-1".to_owned());
    });
    assert_eq!(unexplained, HashSet::from([Wrong::ExitCodeLost]));
}
