//! Retries: neither lost nor doubled, and each decided once.

use std::collections::HashMap;

use serde_json::Value;

use super::{Judge, LOST_RETRIES, RETRIES, Wrong, text};

pub(super) fn check(judge: &mut Judge<'_>) {
    let mut successors: HashMap<&str, Vec<&Value>> = HashMap::new();
    for job in &judge.story.jobs {
        if let Some(parent) = job["retry_of"].as_str() {
            successors.entry(parent).or_default().push(job);
        }
    }
    for job in &judge.story.jobs {
        let next = successors.remove(text(job, "job_id")).unwrap_or_default();
        let decision = text(job, "retry_decision");
        let told = || format!("{job}\n  successors {next:?}");
        let may_have_one = job["state"] == "failed" && decision == "retried";
        if next.len() > 1 || (!may_have_one && !next.is_empty()) {
            judge.fault(Wrong::RetryDoubled, told());
        }
        if job["state"] == "failed" && next.is_empty() && !is_enough(judge, job, decision) {
            judge.fault(Wrong::RetryLost, told());
        }
        for next in &next {
            let same = ["job_type", "params", "priority", "group_id", "schedule_id", "period_id"];
            let attempt = job["attempt"].as_i64().map(|attempt| attempt + 1);
            if same.iter().any(|field| next[field] != job[field])
                || next["attempt"].as_i64() != attempt
            {
                judge.fault(Wrong::RetryDoubled, format!("another job follows: {}", told()));
            }
        }
    }
    for (parent, next) in successors {
        judge.fault(Wrong::MadeUp, format!("{next:?} repeat {parent}, which is not there"));
    }
}

/// Whether a failed job without a successor has a reason for that.
fn is_enough(judge: &Judge<'_>, job: &Value, decision: &str) -> bool {
    let run = judge.run_of(text(job, "job_id"));
    match decision {
        "exhausted" => job["attempt"].as_i64() >= Some(RETRIES),
        "lost_exhausted" => lost_in_chain(judge, job) > LOST_RETRIES,
        "direct" => run.is_some_and(|run| !run["reservation_id"].is_null()),
        _ => false,
    }
}

fn lost_in_chain(judge: &Judge<'_>, job: &Value) -> i64 {
    let mut lost = 0;
    let mut at = Some(job);
    while let Some(job) = at {
        let run = judge.run_of(text(job, "job_id"));
        lost += i64::from(run.is_some_and(|run| run["lost"] == true));
        at = job["retry_of"].as_str().and_then(|parent| judge.jobs.get(parent).copied());
    }
    lost
}
