//! The order in which jobs began.
//!
//! Of one type only one job runs at a time, so a job of it was chosen after its predecessor had
//! ended. Whoever was acknowledged before that and stood before it in the queue had to be first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use super::{Judge, ORDERED, Wrong, text};

pub(super) fn check(judge: &mut Judge<'_>) {
    ordered(judge);
    groups(judge);
}

/// Where a job stands in the queue.
fn place(job: &Value) -> (Reverse<i64>, i64, &str) {
    let number = |field: &str| job[field].as_i64().unwrap_or_default();
    (Reverse(number("priority")), number("position"), text(job, "created_at"))
}

fn ordered(judge: &mut Judge<'_>) {
    // Retries and delayed jobs have times of their own.
    let plain = |job: &&Value| {
        job["job_type"] == ORDERED && job["retry_of"].is_null() && job["not_before"].is_null()
    };
    let mut begun: Vec<(usize, u64, &Value)> = Vec::new();
    for job in judge.story.jobs.iter().filter(plain) {
        let testimony = judge.said.get(text(job, "job_id"));
        if let Some((at, at_ns)) = testimony.and_then(|said| said.began.first()) {
            begun.push((*at, *at_ns, job));
        }
    }
    begun.sort_by_key(|(at, ..)| *at);
    let told: BTreeMap<&str, u64> =
        judge.story.acks.iter().rev().map(|ack| (ack.job.as_str(), ack.at_ns)).collect();
    let mut faults = Vec::new();
    for pair in begun.windows(2) {
        let [(_, began_ns, _), (at, _, chosen)] = pair else { continue };
        for (later, _, passed) in &begun {
            let acknowledged = told.get(text(passed, "job_id"));
            let was_there = acknowledged.is_some_and(|told_ns| told_ns < began_ns);
            if later > at && was_there && place(passed) < place(chosen) {
                faults.push(format!("{chosen} began before {passed}"));
            }
        }
    }
    for fault in faults {
        judge.fault(Wrong::OutOfOrder, fault);
    }
}

/// Members of a sequential group begin one after the other, and none after one that stops it.
fn groups(judge: &mut Judge<'_>) {
    let mut groups: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for job in judge.story.jobs.iter().filter(|job| !job["group_id"].is_null()) {
        groups.entry(text(job, "group_id")).or_default().push(job);
    }
    let mut faults = Vec::new();
    for members in groups.values() {
        let index = |job: &Value| job["group_index"].as_i64().unwrap_or_default();
        for job in members {
            let Some(said) = judge.said.get(text(job, "job_id")) else { continue };
            let Some((began, _)) = said.began.first() else { continue };
            for before in members.iter().filter(|before| index(before) < index(job)) {
                let Some(said) = judge.said.get(text(before, "job_id")) else { continue };
                let run = judge.run_of(text(before, "job_id"));
                let killed = run.is_some_and(|run| {
                    judge.supervisor_was_killed(text(run, "run_id"))
                        || judge.was_cancelled(text(before, "job_id"))
                });
                let over = said.ended.is_some_and(|(ended, _)| ended < *began);
                if !said.began.is_empty() && !over && !killed {
                    faults.push(format!("{job} began before the end of {before}"));
                }
                // The last of its chain failed for good, and the group stops there.
                let stops = job["params"]["on_failure"] == "stop"
                    && before["state"] == "failed"
                    && before["retry_decision"] != "retried";
                if stops {
                    faults.push(format!("{job} began although {before} failed"));
                }
            }
        }
    }
    for fault in faults {
        judge.fault(Wrong::GroupOrder, fault);
    }
}
