//! The judge is judged: each fault, made by hand, must be seen, and a sound story must not be.

use serde_json::{Value, json};

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

fn run_of(id: &str, attempt: i64) -> String {
    format!("{id}-run-{attempt}")
}

fn begin(at_ns: u64, id: &str, attempt: i64) -> Said {
    let (task, run, mark) = (id.to_owned(), run_of(id, attempt), format!("of-{id}"));
    Said { at_ns, line: Line::Begin { task, run, attempt, mark } }
}

fn end(at_ns: u64, id: &str, attempt: i64, code: i64) -> Said {
    let (task, run) = (id.to_owned(), run_of(id, attempt));
    Said { at_ns, line: Line::End { task, run, code } }
}

fn completed(id: &str, kind: Kind, attempts: i64, lost: i64, code: i64) -> Filed {
    let outcome = match code {
        0 => "SUCCEEDED",
        SKIP_CODE => "SKIPPED",
        _ => "FAILED",
    };
    let mut json = json!({
        "taskId": id, "state": "COMPLETED", "createdAt": "2026-01-06T10:15:30Z",
        "payload": { "type": kind.name(), "data": { "mark": format!("of-{id}") } },
        "attempts": attempts, "startedAt": "t", "completedAt": "t",
        "result": {
            "outcome": outcome, "exitCode": code,
            "output": format!("running 1 test\n{}\n", printed(id, attempts)),
        },
    });
    if lost > 0 {
        json["lostAttempts"] = lost.into();
    }
    Filed { directory: "completed", id: id.to_owned(), json }
}

/// Two that went well, one of them dropped by a job; one that failed once and one for good; one
/// that had nothing to do; one that was lost with its supervisor; one that nobody handles; one that
/// was put twice; something unfit. And one death in the midst of it.
fn sound() -> Story {
    let mut story = Story::default();
    let dropped = dropped_id("2026-03-01T00:00:00Z");
    let mut ask = |id: &str, kind, repeated| {
        let asked = Asked { kind, mark: format!("of-{id}"), repeated };
        story.asked.insert(id.to_owned(), asked);
        story.acks.push(id.to_owned());
    };
    for (id, kind) in [
        ("good", Kind::Ok),
        ("once", Kind::Once),
        ("bad", Kind::Fail),
        ("idle", Kind::Skip),
        ("lost", Kind::Slow),
        ("nobody", Kind::Nobody),
    ] {
        ask(id, kind, false);
    }
    ask("twice", Kind::Ok, true);
    story.unfit.insert("unfit.json".to_owned());
    story.rejected =
        ["unfit.json.1", "unfit.json.1.report", "unfit.json.report"].map(str::to_owned).to_vec();
    story.periods.push("2026-03-01T00:00:00Z".to_owned());
    let mut of_drop = begin(30, &dropped, 1);
    if let Line::Begin { mark, .. } = &mut of_drop.line {
        *mark = DROPPED.to_owned();
    }
    story.lines = vec![
        begin(10, "good", 1),
        end(11, "good", 1, 0),
        begin(12, "once", 1),
        end(13, "once", 1, 3),
        begin(14, "bad", 1),
        end(15, "bad", 1, 7),
        begin(16, "lost", 1),
        // The death is here.
        begin(20, "bad", 2),
        end(21, "bad", 2, 7),
        begin(22, "idle", 1),
        end(23, "idle", 1, SKIP_CODE),
        begin(24, "lost", 2),
        end(25, "lost", 2, 0),
        begin(26, "twice", 1),
        end(27, "twice", 1, 0),
        of_drop,
        end(31, &dropped, 1, 0),
        begin(13 + SECOND_NS, "once", 2),
        end(14 + SECOND_NS, "once", 2, 0),
    ];
    story.killed_supervisors.insert(run_of("lost", 1));
    story.glances.push(Glance {
        acks_len: 5,
        lines_len: 7,
        open: ["once", "bad", "idle", "lost"].map(str::to_owned).to_vec(),
        completed: vec!["good".to_owned()],
    });
    let mut of_drop = completed(&dropped, Kind::Ok, 1, 0, 0);
    of_drop.json["payload"]["data"]["mark"] = DROPPED.into();
    let waits = json!({
        "taskId": "nobody", "state": "PENDING", "createdAt": "2026-01-06T10:15:30Z",
        "payload": { "type": "nobody", "data": { "mark": "of-nobody" } },
    });
    story.files = vec![
        completed("good", Kind::Ok, 1, 0, 0),
        completed("once", Kind::Once, 2, 0, 0),
        completed("bad", Kind::Fail, 2, 0, 7),
        completed("idle", Kind::Skip, 1, 0, SKIP_CODE),
        completed("lost", Kind::Slow, 2, 1, 0),
        completed("twice", Kind::Ok, 1, 0, 0),
        Filed { directory: "pending", id: "nobody".to_owned(), json: waits },
        of_drop,
    ];
    story
}

fn json_of<'a>(story: &'a mut Story, id: &str) -> &'a mut Value {
    &mut story.files.iter_mut().find(|filed| filed.id == id).unwrap().json
}

fn remove(story: &mut Story, id: &str) {
    story.files.retain(|filed| filed.id != id);
}

#[test]
fn a_sound_story_has_no_faults() {
    let faults = check(&sound());
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn every_fault_is_seen() {
    type Spoil = fn(&mut Story);
    let rows: &[(&str, Wrong, Spoil)] = &[
        ("an acknowledged task is gone", Wrong::Vanished, |s| remove(s, "nobody")),
        ("a task that ran is gone", Wrong::Vanished, |s| remove(s, "idle")),
        ("it was gone for a while", Wrong::Vanished, |s| {
            s.glances[0].open.retain(|id| id != "bad");
        }),
        ("a period's task is gone", Wrong::Vanished, |s| {
            s.periods.push("2026-03-01T00:00:01Z".to_owned());
        }),
        ("a task is there twice", Wrong::TwoPlaces, |s| {
            let mut copy = s.files[0].clone();
            copy.directory = "pending";
            copy.json["state"] = "PENDING".into();
            s.files.push(copy);
        }),
        ("a task of nobody's", Wrong::MadeUp, |s| {
            s.asked.remove("good");
        }),
        ("a run of nobody's", Wrong::MadeUp, |s| s.lines.push(begin(90, "other", 1))),
        ("a run of what nobody handles", Wrong::MadeUp, |s| s.lines.push(begin(90, "nobody", 1))),
        ("it still runs", Wrong::NotOver, |s| s.files[0].directory = "running"),
        ("it still waits", Wrong::NotOver, |s| s.files[1].directory = "pending"),
        ("it is completed, and nobody handles it", Wrong::NotOver, |s| {
            s.files[6].directory = "completed";
        }),
        ("it is completed and never ran", Wrong::NeverRan, |s| {
            s.lines.retain(|said| said.line.task() != "good");
        }),
        ("it runs after it was completed", Wrong::RanAgain, |s| {
            s.lines.extend([begin(90, "good", 2), end(91, "good", 2, 0)]);
            json_of(s, "good")["attempts"] = 2.into();
        }),
        ("the kernel's lock is taken", Wrong::AtOnce, |s| {
            let (task, run) = ("lost".to_owned(), run_of("lost", 2));
            s.lines.push(Said { at_ns: 24, line: Line::Overlap { task, run } });
        }),
        ("it begins before it has ended", Wrong::AtOnce, |s| {
            s.lines[5].at_ns = 20 + 1;
            s.lines.swap(5, 7);
        }),
        ("a run that is not counted", Wrong::Unrecorded, |s| {
            json_of(s, "bad")["attempts"] = 1.into();
        }),
        ("two runs of one number", Wrong::Unrecorded, |s| {
            if let Line::Begin { attempt, .. } = &mut s.lines[7].line {
                *attempt = 1;
            }
        }),
        ("a run that is counted and was not", Wrong::FalselyLost, |s| {
            json_of(s, "good")["attempts"] = 2.into();
        }),
        ("a run counts as lost that was not", Wrong::FalselyLost, |s| {
            s.killed_supervisors.clear();
        }),
        ("an end was forgotten, and it runs again", Wrong::FalselyLost, |s| {
            let good = json_of(s, "good");
            good["attempts"] = 2.into();
            good["lostAttempts"] = 1.into();
            s.glances.clear();
            s.lines.extend([begin(90, "good", 2), end(91, "good", 2, 0)]);
        }),
        ("it is not tried again", Wrong::Attempts, |s| {
            s.lines.retain(|said| !matches!(said.at_ns, 20 | 21));
        }),
        ("it is tried too often", Wrong::Attempts, |s| {
            s.lines.extend([begin(90, "bad", 3), end(91, "bad", 3, 7)]);
            json_of(s, "bad")["attempts"] = 3.into();
        }),
        ("it has succeeded, and is tried again", Wrong::Attempts, |s| {
            s.lines.extend([begin(90, "idle", 2), end(91, "idle", 2, SKIP_CODE)]);
            json_of(s, "idle")["attempts"] = 2.into();
        }),
        ("it was to start anew, and does not", Wrong::Attempts, |s| {
            s.retried.insert("bad".to_owned(), true);
        }),
        ("it starts anew, and is given up too soon", Wrong::Attempts, |s| {
            s.retried.insert("bad".to_owned(), false);
            s.lines.extend([begin(90, "bad", 1), end(91, "bad", 1, 7)]);
        }),
        ("it is tried again at once", Wrong::TooSoon, |s| {
            for said in s.lines.iter_mut().filter(|said| said.at_ns > SECOND_NS) {
                said.at_ns -= SECOND_NS / 2;
            }
        }),
        ("another exit code", Wrong::Untrue, |s| {
            json_of(s, "bad")["result"]["exitCode"] = 9.into();
        }),
        ("another outcome", Wrong::Untrue, |s| {
            json_of(s, "bad")["result"]["outcome"] = "SUCCEEDED".into();
        }),
        ("the output of another attempt", Wrong::Untrue, |s| {
            json_of(s, "bad")["result"]["output"] = printed("bad", 1).into();
        }),
        ("no result", Wrong::Untrue, |s| json_of(s, "good")["result"] = Value::Null),
        ("processes of one that has ended", Wrong::Untrue, |s| {
            json_of(s, "good")["run"] = json!({ "runId": "x" });
        }),
        ("a state that is not its directory's", Wrong::Untrue, |s| {
            json_of(s, "good")["state"] = "RUNNING".into();
        }),
        ("another payload", Wrong::Untrue, |s| {
            json_of(s, "nobody")["payload"]["data"]["mark"] = "other".into();
        }),
        ("a handler got another payload", Wrong::Untrue, |s| {
            if let Line::Begin { mark, .. } = &mut s.lines[0].line {
                *mark = "other".to_owned();
            }
        }),
        ("a file that is no JSON", Wrong::Untrue, |s| *json_of(s, "good") = Value::Null),
        ("a task is set aside", Wrong::SetAside, |s| {
            s.rejected.extend(["good.json".to_owned(), "good.json.report".to_owned()]);
        }),
        ("something is set aside twice", Wrong::SetAside, |s| {
            s.rejected.push("unfit.json".to_owned());
        }),
        ("something is set aside without a word", Wrong::SetAside, |s| {
            s.rejected.retain(|name| name != "unfit.json.1.report");
        }),
        ("something unfit is gone", Wrong::SetAside, |s| s.rejected.clear()),
    ];
    for (what, wrong, spoil) in rows {
        let mut story = sound();
        spoil(&mut story);
        let faults = check(&story);
        let seen = faults.iter().any(|fault| fault.wrong == *wrong);
        assert!(seen, "{what}: {faults:?}");
    }
    let seen: BTreeSet<Wrong> = rows.iter().map(|(_, wrong, _)| *wrong).collect();
    assert_eq!(seen.len(), 13, "a kind of fault has no row");
}

#[test]
fn what_the_test_itself_killed_or_repeated_is_no_fault() {
    let mut story = sound();
    // The supervisor died when its command had succeeded: nobody heard of it, and it ran again.
    story.lines.insert(7, end(17, "lost", 1, 0));
    // Whoever puts a task anew makes it count anew.
    story.lines.splice(13..13, [begin(25, "twice", 2), end(26, "twice", 2, 0)]);
    story.glances[0].lines_len += 1;
    json_of(&mut story, "twice")["result"]["output"] = printed("twice", 1).into();
    // Somebody wanted it to start anew, was told nothing, and it does.
    story.retried.insert("bad".to_owned(), false);
    for (at, attempt) in [(90, 1), (92, 2)] {
        let mut again = [begin(at, "bad", attempt), end(at + 1, "bad", attempt, 7)];
        for said in &mut again {
            let (Line::Begin { run, .. } | Line::End { run, .. } | Line::Overlap { run, .. }) =
                &mut said.line;
            run.push_str("-anew");
        }
        story.lines.extend(again);
    }
    story.glances.push(Glance {
        acks_len: 0,
        lines_len: 12,
        open: Vec::new(),
        completed: vec!["bad".to_owned()],
    });
    let faults = check(&story);
    assert!(faults.is_empty(), "{faults:?}");
}
