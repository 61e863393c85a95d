//! A world with a queue in it.

use kron_testkit::krond::World;
use kron_testkit::waiting::eventually;
use serde_json::{Value, json};

use crate::new_world;

pub(crate) const JOBS: &str = "/api/v1/jobs";

/// A world whose configuration has these tables beside a queue that retries soon.
pub(crate) fn world(tables: &str) -> World {
    new_world(&format!("[queue]\nbackoff = \"1s\"\nstop_grace = \"0s\"\n{tables}"))
}

/// A handler that runs this line of shell.
pub(crate) fn handler(job_type: &str, line: &str) -> String {
    format!("[queue.handler.{job_type}]\ncommand = [\"/bin/sh\", \"-c\", {line:?}]\n")
}

pub(crate) trait Site {
    fn post(&self, path: &str, body: &Value) -> Value;
    fn get(&self, path: &str) -> Value;
    fn add(&self, job_type: &str, params: Value) -> String;
    fn job(&self, id: &str) -> Value;
    fn run(&self, id: &str) -> Value;
    fn chain(&self, id: &str) -> Vec<Value>;
    fn reaches(&self, id: &str, state: &str) -> Value;
}

impl Site for World {
    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn add(&self, job_type: &str, params: Value) -> String {
        let job = self.post(JOBS, &json!({ "job_type": job_type, "params": params }));
        job["job_id"].as_str().unwrap().to_owned()
    }

    fn job(&self, id: &str) -> Value {
        self.get(&format!("{JOBS}/{id}"))
    }

    /// The run of a job.
    fn run(&self, id: &str) -> Value {
        self.get(&format!("{JOBS}/{id}/runs"))["items"][0].clone()
    }

    fn chain(&self, id: &str) -> Vec<Value> {
        self.get(&format!("{JOBS}/{id}/chain"))["items"].as_array().unwrap().clone()
    }

    /// Waits until a job is in this state; answers with its run.
    fn reaches(&self, id: &str, state: &str) -> Value {
        eventually(&format!("{id} {state}"), || (self.job(id)["state"] == state).then_some(()));
        self.run(id)
    }
}
