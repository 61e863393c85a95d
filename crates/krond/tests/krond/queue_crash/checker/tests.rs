//! The judge is judged: each fault, made by hand, must be seen, and a sound story must not be.

use serde_json::{Value, json};

use super::*;

fn job(id: &str, name: &str, state: &str) -> Value {
    json!({
        "job_id": id, "job_type": "plain", "params": { "name": name }, "state": state,
        "priority": 0, "position": 100, "created_at": "2026-03-01T00:00:00.000Z",
        "retry_of": null, "attempt": 0, "not_before": null, "schedule_id": null, "period_id": null,
        "group_id": null, "group_index": null, "idempotency_key": null, "finished_at": "t",
        "retry_decision": if state == "failed" { "exhausted" } else { "none" },
    })
}

fn run(id: &str, status: &str, code: Option<i64>) -> Value {
    json!({
        "run_id": format!("run-of-{id}"), "job_id": id, "status": status, "exit_code": code,
        "lost": false, "error": null, "reservation_id": null, "finished_at": "t",
    })
}

fn begin(at_ns: u64, id: &str) -> Said {
    let (job, run) = (id.to_owned(), format!("run-of-{id}"));
    let (retry_of, name) = ("-".to_owned(), "n".to_owned());
    Said { at_ns, line: Line::Begin { job, run, attempt: 0, retry_of, name } }
}

fn end(at_ns: u64, id: &str, code: i64) -> Said {
    Said { at_ns, line: Line::End { job: id.to_owned(), run: format!("run-of-{id}"), code } }
}

fn ack(name: &str, id: &str, at_ns: u64) -> Ack {
    Ack { name: name.to_owned(), job: id.to_owned(), at_ns }
}

/// Two ordered jobs and a direct one that went well; one that was cancelled while it waited; one
/// that failed, was lost once with its supervisor, and failed for good; a group; a period.
fn sound() -> Story {
    let mut story = Story::default();
    let mut add = |name: &str, job: Value, run: Option<Value>| {
        story.asked.insert(name.to_owned(), Asked { together: vec![name.to_owned()] });
        story.acks.push(ack(name, job["job_id"].as_str().unwrap(), 1));
        story.jobs.push(job);
        story.runs.extend(run);
    };
    for (id, position) in [("o1", 100), ("o2", 200), ("o3", 300)] {
        let mut job = job(id, id, "completed");
        job["job_type"] = ORDERED.into();
        job["position"] = position.into();
        add(id, job, Some(run(id, "COMPLETED", Some(0))));
    }
    let mut direct_run = run("d", "FAILED", Some(5));
    direct_run["reservation_id"] = "r".into();
    let mut direct = job("d", "d", "failed");
    direct["retry_decision"] = "direct".into();
    add("d", direct.clone(), Some(direct_run.clone()));
    add("c", job("c", "c", "cancelled"), None);
    for (id, index) in [("g0", 0), ("g1", 1)] {
        let mut member = job(id, id, "completed");
        member["group_id"] = "g".into();
        member["group_index"] = index.into();
        member["params"]["on_failure"] = "stop".into();
        add(id, member, Some(run(id, "COMPLETED", Some(0))));
    }
    let mut first = job("f0", "f", "failed");
    first["retry_decision"] = "retried".into();
    add("f", first, Some(run("f0", "FAILED", Some(9))));
    for (id, parent, attempt, decision) in
        [("f1", "f0", 1, "retried"), ("f2", "f1", RETRIES, "exhausted")]
    {
        let mut next = job(id, "f", "failed");
        next["retry_of"] = parent.into();
        next["attempt"] = attempt.into();
        next["retry_decision"] = decision.into();
        story.jobs.push(next);
    }
    story.runs.push(run("f1", "FAILED", None));
    story.runs.last_mut().unwrap()["lost"] = true.into();
    story.runs.push(run("f2", "FAILED", Some(9)));
    story.directs.push(("d".into(), json!({ "job": direct, "run": direct_run })));
    story.directs.push(("busy".into(), Value::Null));
    story.asked.insert("busy".into(), Asked { together: vec!["busy".into()] });
    story.cancels.push(("c".into(), 200));
    let mut period = job("p", "-", "completed");
    period["schedule_id"] = "s".into();
    period["period_id"] = "2026-03-01T00:00:00Z".into();
    story.jobs.push(period);
    story.runs.push(run("p", "COMPLETED", Some(0)));
    let again = |said: Said, attempt, parent: &str| {
        let Line::Begin { job, run, name, .. } = said.line else { return said };
        let line = Line::Begin { job, run, attempt, retry_of: parent.to_owned(), name };
        Said { line, ..said }
    };
    story.lines = vec![
        begin(10, "o1"),
        end(11, "o1", 0),
        begin(12, "o2"),
        end(13, "o2", 0),
        begin(14, "o3"),
        end(15, "o3", 0),
        begin(16, "d"),
        end(17, "d", 5),
        begin(18, "g0"),
        end(19, "g0", 0),
        begin(20, "g1"),
        end(21, "g1", 0),
        begin(22, "f0"),
        end(23, "f0", 9),
        again(begin(24, "f2"), RETRIES, "f1"),
        end(25, "f2", 9),
        begin(26, "p"),
        end(27, "p", 0),
    ];
    for job in &story.jobs {
        let (id, event) = (text(job, "job_id"), format!("job.{}", text(job, "state")));
        story.heard.insert((id.to_owned(), event.clone()));
        let payload = json!({ "job": { "job_id": id } });
        let delivery = json!({ "payload": payload, "event": event, "status": "delivered" });
        story.deliveries.push(delivery);
    }
    story
}

/// The row of a job or a run.
fn row<'a>(rows: &'a mut [Value], id: &str) -> &'a mut Value {
    rows.iter_mut().find(|row| row["job_id"] == id).unwrap()
}

fn line(story: &mut Story, at_ns: u64) -> &mut Said {
    story.lines.iter_mut().find(|said| said.at_ns == at_ns).unwrap()
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
        ("an acknowledged job is gone", Wrong::Vanished, |s| {
            s.jobs.retain(|job| job["job_id"] != "o3");
        }),
        ("an acknowledged job is another", Wrong::Vanished, |s| {
            row(&mut s.jobs, "o1")["params"]["name"] = "o9".into();
        }),
        ("a key is forgotten", Wrong::Doubled, |s| {
            s.jobs.push(job("o4", "o1", "completed"));
            s.runs.push(run("o4", "COMPLETED", None));
        }),
        ("a repeated request is told another job", Wrong::Doubled, |s| {
            s.acks.push(ack("o1", "o2", 5));
        }),
        ("half a batch", Wrong::Torn, |s| {
            let together = vec!["o1".to_owned(), "o9".to_owned()];
            s.asked.insert("o9".into(), Asked { together });
        }),
        ("a job of nobody's", Wrong::MadeUp, |s| {
            s.asked.remove("o1");
        }),
        ("a job begins twice", Wrong::RanTwice, |s| s.lines.push(begin(90, "o1"))),
        ("a run that nobody knows", Wrong::Unrecorded, |s| {
            s.runs.retain(|run| run["job_id"] != "o1");
        }),
        ("a run under another number", Wrong::Unrecorded, |s| {
            row(&mut s.runs, "o1")["run_id"] = "other".into();
        }),
        ("a retry that calls itself the first", Wrong::Unrecorded, |s| {
            *line(s, 24) = begin(24, "f2");
        }),
        ("a run without an end", Wrong::NoOneOutcome, |s| {
            row(&mut s.runs, "o1")["status"] = Value::Null;
        }),
        ("a job that still waits", Wrong::NoOneOutcome, |s| {
            row(&mut s.jobs, "c")["state"] = "queued".into();
        }),
        ("two runs of a job", Wrong::NoOneOutcome, |s| {
            s.runs.push(run("o1", "FAILED", None));
        }),
        ("a live run is failed as dead", Wrong::FalselyLost, |s| {
            row(&mut s.runs, "f0")["lost"] = true.into();
        }),
        ("an end that was forgotten", Wrong::FalselyLost, |s| {
            row(&mut s.runs, "f0")["exit_code"] = Value::Null;
        }),
        ("another exit code", Wrong::ExitCode, |s| {
            row(&mut s.runs, "f0")["exit_code"] = 8.into();
        }),
        ("an exit code of nobody's", Wrong::ExitCode, |s| {
            row(&mut s.runs, "f1")["exit_code"] = 9.into();
        }),
        ("an outcome that its code is not", Wrong::ExitCode, |s| {
            row(&mut s.runs, "o1")["status"] = "SKIPPED".into();
            row(&mut s.jobs, "o1")["state"] = "skipped".into();
        }),
        ("a retry is lost", Wrong::RetryLost, |s| s.jobs.retain(|job| job["job_id"] != "f2")),
        ("nothing was decided", Wrong::RetryLost, |s| {
            row(&mut s.jobs, "f2")["retry_decision"] = Value::Null;
        }),
        ("enough too early", Wrong::RetryLost, |s| {
            row(&mut s.jobs, "f2")["attempt"] = 1.into();
        }),
        ("lost too often too early", Wrong::RetryLost, |s| {
            row(&mut s.jobs, "f2")["retry_decision"] = "lost_exhausted".into();
        }),
        ("a retry is doubled", Wrong::RetryDoubled, |s| {
            let mut twin = row(&mut s.jobs, "f2").clone();
            twin["job_id"] = "f3".into();
            s.jobs.push(twin);
        }),
        ("a completed job is retried", Wrong::RetryDoubled, |s| {
            row(&mut s.jobs, "f1")["retry_of"] = "o1".into();
        }),
        ("a retry of another kind", Wrong::RetryDoubled, |s| {
            row(&mut s.jobs, "f1")["priority"] = 7.into();
        }),
        ("a cancelled job runs", Wrong::CancelForgotten, |s| s.lines.push(begin(90, "c"))),
        ("a cancelled job fails", Wrong::CancelForgotten, |s| s.cancels.push(("f0".into(), 202))),
        ("a direct caller hears another code", Wrong::Untrue, |s| {
            s.directs[0].1["run"]["exit_code"] = 0.into();
        }),
        ("a direct caller hears of a job that is gone", Wrong::Untrue, |s| {
            s.directs[0].1["job"]["job_id"] = "other".into();
        }),
        ("busy, and yet it ran", Wrong::Untrue, |s| s.directs[1].0 = "o1".into()),
        ("a period makes two jobs", Wrong::PeriodTwice, |s| {
            let mut twin = row(&mut s.jobs, "p").clone();
            twin["job_id"] = "p2".into();
            s.jobs.push(twin);
        }),
        ("a scheduled job is enqueued without its key", Wrong::PeriodTwice, |s| {
            for id in ["h1", "h2"] {
                let mut twin = job(id, "-", "completed");
                twin["job_type"] = HANDED_OVER.into();
                s.jobs.push(twin);
            }
        }),
        ("a job is passed over", Wrong::OutOfOrder, |s| {
            row(&mut s.jobs, "o2")["position"] = 400.into();
        }),
        ("an urgent job is passed over", Wrong::OutOfOrder, |s| {
            row(&mut s.jobs, "o3")["priority"] = 5.into();
        }),
        ("a member does not wait for its turn", Wrong::GroupOrder, |s| {
            let (one, other) = (line(s, 19).clone(), line(s, 20).clone());
            *line(s, 19) = other;
            *line(s, 20) = one;
            s.lines
                .sort_by_key(|said| matches!(said.line, Line::End { ref job, .. } if job == "g0"));
        }),
        ("a group goes on that should stop", Wrong::GroupOrder, |s| {
            row(&mut s.jobs, "g0")["state"] = "failed".into();
        }),
        ("a reservation stays", Wrong::ReservationStays, |s| s.reservation = json!({ "id": 1 })),
        ("an end that nobody is told", Wrong::Untold, |s| {
            s.deliveries.remove(0);
        }),
        ("a delivery that nobody got", Wrong::Untold, |s| s.heard.clear()),
        ("a server error", Wrong::Strange, |s| s.strange.push("500".into())),
    ];
    for (what, wrong, spoil) in rows {
        let mut story = sound();
        spoil(&mut story);
        let faults = check(&story);
        assert!(faults.iter().any(|fault| fault.wrong == *wrong), "{what}: {faults:?}");
    }
}

#[test]
fn a_killed_supervisor_excuses_a_loss_and_nothing_else() {
    let mut story = sound();
    // Its id's second half names it.
    let id = "01890000-0000-7000-8000-00000000000a";
    for said in &mut story.lines {
        let (Line::Begin { job, run, .. } | Line::End { job, run, .. }) = &mut said.line;
        if job == "o1" {
            *run = id.to_owned();
        }
    }
    let lost = row(&mut story.runs, "o1");
    lost["run_id"] = id.into();
    lost["lost"] = true.into();
    lost["exit_code"] = Value::Null;
    assert!(check(&story).iter().any(|fault| fault.wrong == Wrong::FalselyLost));
    story.killed_supervisors.insert("800000000000000a".into());
    assert!(!check(&story).iter().any(|fault| fault.wrong == Wrong::FalselyLost));
}
