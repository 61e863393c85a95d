//! What clients do, one operation at a time, each written down before it is asked and after it was
//! answered.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::queue_crash::checker::{Ack, Asked, ORDERED, Story};
use crate::queue_crash::client::{Answer, Client};
use crate::queue_crash::witness::now_ns;

/// How long a direct caller waits for its slot.
const DIRECT_WAIT_MS: u64 = 3_000;
/// The jobs of a batch or a group.
const TOGETHER: usize = 3;

/// Somebody who writes down what he asks and what he is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Actor<'a> {
    pub(crate) client: &'a Client,
    pub(crate) story: &'a Mutex<Story>,
}

/// Nobody answered: whether it was heard will be seen.
#[derive(Debug)]
pub(crate) struct Unanswered;

/// What a handler is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deed {
    pub(crate) code: i64,
    pub(crate) ms: u64,
    /// Whether it goes on until it is released.
    pub(crate) held: bool,
}

impl Deed {
    pub(crate) fn new(code: i64, ms: u64) -> Deed {
        Deed { code, ms, held: false }
    }
}

impl Actor<'_> {
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Answer, Unanswered> {
        self.client.ask(method, path, body).map_err(|_| Unanswered)
    }

    /// Notes jobs that are asked for at once.
    fn asks(&self, names: &[String]) {
        let mut story = self.story.lock().unwrap();
        for name in names {
            story.asked.insert(name.clone(), Asked { together: names.to_vec() });
        }
    }

    fn told<'v>(&self, jobs: impl Iterator<Item = &'v Value>) {
        let at_ns = now_ns();
        let mut story = self.story.lock().unwrap();
        for job in jobs {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (name, job) = (text(&job["params"]["name"]), text(&job["job_id"]));
            story.acks.push(Ack { name, job, at_ns });
        }
    }

    fn strange(&self, what: &str, answer: &Answer) {
        let line = format!("{what}: {} {}", answer.status, answer.body);
        self.story.lock().unwrap().strange.push(line);
    }

    /// One job. Under a key it may be asked for again.
    pub(crate) fn enqueue(
        &self,
        name: &str,
        job_type: &str,
        deed: Deed,
        priority: i64,
        key: Option<&str>,
    ) -> Result<(), Unanswered> {
        self.asks(&[name.to_owned()]);
        let mut body =
            json!({ "job_type": job_type, "priority": priority, "params": params(name, deed) });
        if let Some(key) = key {
            body["idempotency_key"] = key.into();
        }
        let answer = self.ask("POST", "jobs", &body)?;
        match answer.is_success() {
            true => self.told([&answer.body].into_iter()),
            false => self.strange("enqueue", &answer),
        }
        Ok(())
    }

    /// Several jobs, all or none.
    pub(crate) fn batch(&self, name: &str, deed: Deed) -> Result<(), Unanswered> {
        let names = several(name);
        self.asks(&names);
        let job = |name: &String| json!({ "job_type": ORDERED, "params": params(name, deed) });
        let jobs: Vec<Value> = names.iter().map(job).collect();
        let answer = self.ask("POST", "jobs/batch", &json!({ "jobs": jobs }))?;
        match answer.body["jobs"].as_array() {
            Some(jobs) if answer.is_success() => self.told(jobs.iter().map(|one| &one["job"])),
            _ => self.strange("batch", &answer),
        }
        Ok(())
    }

    /// A group whose second member ends with the code that is given.
    pub(crate) fn group(&self, name: &str, on_failure: &str, deed: Deed) -> Result<(), Unanswered> {
        let names = several(name);
        self.asks(&names);
        let job = |(at, name): (usize, &String)| {
            let code = if at == 1 { deed.code } else { 0 };
            let mut params = params(name, Deed { code, ..deed });
            params["on_failure"] = on_failure.into();
            json!({ "job_type": "member", "params": params })
        };
        let jobs: Vec<Value> = names.iter().enumerate().map(job).collect();
        let body = json!({ "mode": "sequential", "on_failure": on_failure, "jobs": jobs });
        let answer = self.ask("POST", "job-groups", &body)?;
        match answer.body["jobs"].as_array() {
            Some(jobs) if answer.is_success() => self.told(jobs.iter()),
            _ => self.strange("group", &answer),
        }
        Ok(())
    }

    pub(crate) fn direct(&self, name: &str, deed: Deed) -> Result<(), Unanswered> {
        self.asks(&[name.to_owned()]);
        let body = json!({ "job_type": "direct", "params": params(name, deed), "wait_ms": DIRECT_WAIT_MS });
        let answer = self.ask("POST", "direct", &body)?;
        let told = match answer.status {
            200 => {
                self.told([&answer.body["job"]].into_iter());
                answer.body
            }
            409 => Value::Null,
            _ => {
                self.strange("direct", &answer);
                return Ok(());
            }
        };
        self.story.lock().unwrap().directs.push((name.to_owned(), told));
        Ok(())
    }

    /// Asks for the end of a job.
    pub(crate) fn cancel(&self, job: &str) -> Result<(), Unanswered> {
        let at = {
            let cancels = &mut self.story.lock().unwrap().cancels;
            cancels.push((job.to_owned(), 0));
            cancels.len() - 1
        };
        let answer = self.ask("DELETE", &format!("jobs/{job}"), &Value::Null)?;
        match answer.status {
            status @ (200 | 202 | 409) => self.story.lock().unwrap().cancels[at].1 = status,
            _ => self.strange("cancel", &answer),
        }
        Ok(())
    }

    /// Looks at a job that was acknowledged.
    pub(crate) fn look(&self, job: &str) -> Result<(), Unanswered> {
        let answer = self.ask("GET", &format!("jobs/{job}"), &Value::Null)?;
        if answer.status != 200 {
            self.strange(&format!("look at {job}"), &answer);
        }
        Ok(())
    }

    /// A job that was acknowledged before; the last one in most cases, since that may still run.
    pub(crate) fn known(&self, back: usize) -> Option<String> {
        let story = self.story.lock().unwrap();
        let at = story.acks.len().checked_sub(back + 1)?;
        story.acks.get(at).map(|ack| ack.job.clone())
    }
}

fn params(name: &str, deed: Deed) -> Value {
    json!({ "name": name, "code": deed.code, "ms": deed.ms, "held": deed.held })
}

fn several(name: &str) -> Vec<String> {
    (0..TOGETHER).map(|at| format!("{name}.{at}")).collect()
}

/// A client of the daemon in this state directory.
pub(crate) fn client(state_dir: &Path) -> Client {
    Client::new(state_dir)
}
