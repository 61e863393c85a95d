//! A world with a queue in it, and its [`Story`], which is written down while things happen.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kron_testkit::krond::{Krond, World};
use kron_testkit::process;
use kron_testkit::strace::{Follow, Strace, inject};
use kron_testkit::waiting::{GLANCE, PATIENCE, now};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::new_world;
use crate::queue::web::Receiver;
use crate::queue_crash::act::Actor;
use crate::queue_crash::checker::{
    Fault, HANDED_OVER, LOST_RETRIES, ORDERED, RETRIES, SKIP_CODE, Story, check,
};
use crate::queue_crash::client::Client;
use crate::queue_crash::witness::{self, FILE, Line, handler};

/// Faults that are told in full.
const FAULTS_SHOWN: usize = 5;
/// The thread of the daemon's that owns the database.
const QUEUE_THREAD: &str = "kron-queue";
/// The calls by which the database changes, and by which that becomes durable.
pub(crate) const WRITE: &str = "pwrite64";
pub(crate) const SYNC: &str = "fsync,fdatasync";
/// How long a daemon that is to die at a call of its own may take to make it.
const TRAPPED: Duration = Duration::from_secs(3);

/// A world whose story is being written.
pub(crate) struct Chronicle {
    pub(crate) world: World,
    pub(crate) client: Client,
    pub(crate) story: Arc<Mutex<Story>>,
    receiver: Receiver,
    tables: String,
    making: Making,
    pub(crate) deaths: u64,
}

/// Who makes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    ClientsOnly,
    /// A schedule of the queue's and a job of the scheduler's, too, every second.
    ClockToo,
}

/// The work that a daemon has not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenWork {
    jobs: u64,
    /// Pending webhook deliveries.
    deliveries: u64,
}

/// What one life of a daemon is to end with.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) call: String,
    /// Which call of this name by the thread that owns the database, counted from 1.
    pub(crate) number: usize,
}

impl Chronicle {
    pub(crate) fn new(making: Making) -> Chronicle {
        let receiver = Receiver::new(|_| "200 OK".to_owned());
        let tables = format!(
            "[queue]\nworkers = 6\nbackoff = \"0s\"\nstop_grace = \"30s\"\n\
             retries = {RETRIES}\nlost_retries = {LOST_RETRIES}\n{}{}{}{}{}{}\
             [queue.webhook.all]\nurl = \"http://{}/\"\nallow_private = true\ntimeout = \"5s\"\n\
             on = [\"job.completed\", \"job.failed\", \"job.skipped\", \"job.cancelled\"]\n",
            handler("plain", &format!("skip_codes = [{SKIP_CODE}]")),
            handler(ORDERED, "workers = 1"),
            handler("member", ""),
            handler("direct", ""),
            handler("period", ""),
            handler(HANDED_OVER, ""),
            receiver.address,
        );
        let clockwork = format!(
            "[job.handed]\nschedule = \"* * * * * * @policy(deadline=5s)\"\n\
             enqueue = {{ type = \"{HANDED_OVER}\" }}\n"
        );
        let world = match making {
            Making::ClientsOnly => new_world(&tables),
            Making::ClockToo => new_world(&format!("{tables}{clockwork}")),
        };
        let client = crate::queue_crash::act::client(&world.state_dir());
        Chronicle { world, client, story: Arc::default(), receiver, tables, making, deaths: 0 }
    }

    pub(crate) fn actor(&self) -> Actor<'_> {
        Actor { client: &self.client, story: &self.story }
    }

    /// Starts the first daemon.
    pub(crate) fn begin(&self) -> Krond {
        let krond = self.world.start();
        if self.making == Making::ClientsOnly {
            return krond;
        }
        let template = json!({ "name": "t", "job_type": "period" });
        let template = self.client.must("POST", "job-templates", &template);
        let schedule = json!({ "name": "s", "template_id": template["template_id"],
            "cron_expression": "* * * * * *" });
        self.client.must("POST", "schedules", &schedule);
        krond
    }

    pub(crate) fn kill(&mut self, krond: &mut Krond) {
        self.deaths += 1;
        process::signal(krond.pid(), Signal::SIGKILL);
        krond.wait();
    }

    /// Has this daemon die at a call of the thread that owns the database.
    pub(crate) fn trap(&self, krond: &Krond, point: &Point) -> Strace {
        let options = inject(&point.call, Signal::SIGKILL, point.number);
        let options = options.each_ref().map(String::as_str);
        let file = self.world.state_dir().with_file_name("trace");
        Strace::attach(&[queue_thread(krond)], Follow::Nobody, &options, &file)
    }

    /// Waits until a trapped daemon is dead, or kills it after a while.
    pub(crate) fn spring(&mut self, krond: &mut Krond, strace: Strace) {
        let deadline = now() + TRAPPED;
        while !process::has_ended(krond.pid()) && now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill(krond);
        strace.detach();
    }

    /// Waits until a trapped daemon dies of it. Whenever it has nothing left to do before, it is
    /// given `more`.
    pub(crate) fn die(
        &mut self,
        krond: &mut Krond,
        strace: Strace,
        mut more: impl FnMut(Actor<'_>),
    ) {
        // Each call of the thread that is traced is another line.
        let (mut last, mut since) = (0, now());
        while !process::has_ended(krond.pid()) {
            if self.is_quiet(krond) {
                more(self.actor());
            }
            let trace = strace.text();
            if trace.len() != last {
                (last, since) = (trace.len(), now());
            }
            let is_alive = now() < since + PATIENCE;
            assert!(is_alive, "no more calls within {PATIENCE:?}, and it does not die: {trace}");
            std::thread::sleep(GLANCE);
        }
        self.kill(krond);
        strace.detach();
    }

    /// Whether every job has ended, no webhook delivery is pending, and the daemon waits for work.
    pub(crate) fn is_quiet(&self, krond: &Krond) -> bool {
        let is_done = |work: OpenWork| work.jobs == 0 && work.deliveries == 0;
        self.open_work().is_some_and(is_done) && process::is_idle(krond.pid())
    }

    /// The work that is left, if a daemon is there to say so. One answer, because a job that goes from
    /// one state to another between two requests is in neither answer.
    fn open_work(&self) -> Option<OpenWork> {
        let answer = self.client.ask("GET", "queue", &Value::Null).ok()?;
        let counts = &answer.body["counts"];
        let of_state = |state: &str| counts[state].as_u64();
        let jobs: Option<u64> =
            ["queued", "delayed", "blocked", "running"].into_iter().map(of_state).sum();
        Some(OpenWork { jobs: jobs?, deliveries: counts["deliveries_pending"].as_u64()? })
    }

    /// The supervisors of handlers that have begun and not ended.
    pub(crate) fn supervisors(&self) -> Vec<i32> {
        let mut open = BTreeSet::new();
        for said in witness::lines(&self.world.witness(FILE)) {
            match said.line {
                Line::Begin { run, .. } => open.insert(half(&run)),
                Line::End { run, .. } => open.remove(&half(&run)),
            };
        }
        // Not those of other tests, which may run beside this one.
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| process::run_of(*pid).is_some_and(|run| open.contains(&run))).collect()
    }

    /// Kills a supervisor and notes whose it was.
    pub(crate) fn kill_supervisor(&mut self, pid: i32) {
        if let Some(run) = process::run_of(pid) {
            self.deaths += 1;
            self.story.lock().unwrap().killed_supervisors.insert(run);
            process::signal(pid, Signal::SIGKILL);
        }
    }

    /// Lets a last daemon finish everything that was begun, and judges what it says.
    pub(crate) fn end(mut self, mut krond: Krond) -> (Story, Vec<Fault>) {
        if !process::has_ended(krond.pid()) {
            self.kill(&mut krond);
        }
        self.world.configure(&self.tables);
        let krond = self.world.start();
        for schedule in self.client.all("schedules") {
            let path = format!("schedules/{}", schedule["schedule_id"].as_str().unwrap());
            self.client.must("PATCH", &path, &json!({ "enabled": false }));
        }
        // Whatever never ends is judged for it, when nothing else has happened for long.
        let happened = || {
            let open = self.open_work().map(|work| work.jobs);
            (open, witness::lines(&self.world.witness(FILE)).len())
        };
        let (mut last, mut since) = (happened(), now());
        while last.0 != Some(0) && now() < since + PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
            let seen = happened();
            if seen != last {
                (last, since) = (seen, now());
            }
        }
        let mut story = std::mem::take(&mut *self.story.lock().unwrap());
        story.jobs = self.client.all("jobs");
        story.runs = self.client.all("job-runs");
        story.deliveries = self.client.all("webhook-deliveries");
        story.reservation = self.client.get("queue")["reservation"].clone();
        story.lines = witness::lines(&self.world.witness(FILE));
        for request in self.receiver.requests.try_iter() {
            // One that was cut short by a death counts for nothing.
            let Ok(told) = serde_json::from_str::<Value>(&request.body) else { continue };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            story.heard.insert((text(&told["job"]["job_id"]), text(&told["event"])));
        }
        krond.stop();
        let faults = check(&story);
        (story, faults)
    }
}

/// The thread of a daemon that owns the database.
pub(crate) fn queue_thread(krond: &Krond) -> i32 {
    let named = process::threads_named(krond.pid(), QUEUE_THREAD);
    named.into_iter().next().expect("a thread that owns the database")
}

/// The part of a run's id under which its supervisor knows it.
fn half(run: &str) -> String {
    run.replace('-', "").get(16..).unwrap_or_default().to_owned()
}

/// Says what was done, and fails with what is wrong.
pub(crate) fn conclude(what: &str, deaths: u64, seconds: u64, story: &Story, faults: &[Fault]) {
    let begun = story.lines.iter().filter(|said| matches!(said.line, Line::Begin { .. })).count();
    let lost = story.runs.iter().filter(|run| run["lost"] == true).count();
    let retried = story.jobs.iter().filter(|job| !job["retry_of"].is_null()).count();
    let line = format!(
        "{what}: {deaths} deaths, {} asked, {} acknowledged, {} jobs ({retried} retries), \
         {begun} begun, {lost} lost, {} direct, {} deliveries ({seconds} s)",
        story.asked.len(),
        story.acks.len(),
        story.jobs.len(),
        story.directs.len(),
        story.deliveries.len(),
    );
    writeln!(std::io::stdout(), "     {line}").expect("written");
    let total = faults.len();
    let faults: Vec<String> = faults.iter().take(FAULTS_SHOWN).map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{line}\n{total} faults:\n{}", faults.join("\n"));
}
