//! Telling hooks, each in threads of its own: commands take their time, and the network even more.
//!
//! A command is run as jobs are, under a supervisor, without a shell, and reads what it is told on
//! standard input; it was told when it exits with 0. A web request carries the same text; it was
//! told when the answer is a success. Nothing is followed anywhere else: an address that answers
//! with another one was not told. Which hooks are told what, and when again, is the machine's.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kron_config::{Hook, HookTarget};
use kron_exec::{Message, Output, Plan, Signal, clean_environment};
use kron_state::{Delivery, ExitStatus, RunId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::inbox::{Done, Results};
use super::launch::{self, Host};
use super::{clock, worker};
use crate::api;
use crate::api::view::OutcomeView;
use crate::log::told;
use crate::web::{self, Reach, Request};

/// How often one hook is told at once. Each has threads of its own, so that one that takes its time
/// keeps no other waiting.
const AT_ONCE: usize = 2;
/// How long a command has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);
/// What a supervisor may need beyond its command's time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something to tell.
#[derive(Debug)]
pub(super) struct Telling {
    pub(super) identity: Arc<str>,
    pub(super) hook: Arc<Hook>,
    pub(super) delivery: Arc<Delivery>,
}

/// What hooks have still to be told, and the threads that do it.
#[derive(Debug)]
pub(super) struct Hooks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<HashMap<String, Waiting>>,
    host: Host,
    path: String,
    results: Results,
}

/// What one hook has still to be told. Its threads end when that is nothing.
#[derive(Debug, Default)]
struct Waiting {
    tellings: VecDeque<Telling>,
    threads: usize,
}

impl Hooks {
    pub(super) fn new(host: Host, path: String, results: Results) -> Hooks {
        Hooks { shared: Arc::new(Shared { waiting: Mutex::default(), host, path, results }) }
    }

    pub(super) fn order(&self, telling: Telling) {
        let name = telling.hook.name.clone();
        {
            let mut waiting = self.shared.lock();
            let waiting = waiting.entry(name.clone()).or_default();
            waiting.tellings.push_back(telling);
            if waiting.threads == AT_ONCE {
                return;
            }
            waiting.threads += 1;
        }
        let shared = self.shared.clone();
        let thread = name.clone();
        if let Err(error) = worker::spawn("hook".to_owned(), move || shared.tell_all(&thread)) {
            self.shared.not_now(&name, &error);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a hook whatever it has to be told, until that is nothing.
    fn tell_all(&self, name: &str) {
        while let Some(telling) = self.next(name) {
            let result = tell(&telling, &self.host, &self.path);
            self.results.send(Done::Told { id: telling.delivery.id, result });
        }
    }

    fn next(&self, name: &str) -> Option<Telling> {
        let mut all = self.lock();
        let waiting = all.get_mut(name)?;
        let next = waiting.tellings.pop_front();
        if next.is_none() {
            waiting.threads -= 1;
            if waiting.threads == 0 {
                all.remove(name);
            }
        }
        next
    }

    /// There was no thread to be had. Unless another is at it, this hook is told later.
    fn not_now(&self, name: &str, error: &io::Error) {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(name) else { return };
        waiting.threads -= 1;
        if waiting.threads == 0 {
            let untold = all.remove(name).unwrap_or_default();
            for telling in untold.tellings {
                let result = Err(format!("there is no thread for it: {error}"));
                self.results.send(Done::Told { id: telling.delivery.id, result });
            }
        }
    }
}

/// What a hook is told.
#[derive(Serialize)]
struct Told<'a> {
    delivery_id: String,
    hook: &'a str,
    event: &'a str,
    identity: &'a str,
    #[serde(flatten)]
    outcome: OutcomeView,
}

fn tell(telling: &Telling, host: &Host, path: &str) -> Result<(), String> {
    let Telling { identity, hook, delivery } = telling;
    let told = Told {
        delivery_id: delivery.id.to_string(),
        hook: &hook.name,
        event: &delivery.event,
        identity,
        outcome: api::outcome(&delivery.entry),
    };
    let text = serde_json::to_string(&told).map_err(|error| error.to_string())?;
    let timeout = Duration::from_secs(hook.timeout.get());
    match &hook.target {
        HookTarget::Command { argv, user } => {
            let plan = plan(telling, argv, user.as_deref(), text, timeout, host, path)?;
            run(&plan, host, timeout)
        }
        HookTarget::Web { url, headers, token_file } => {
            post(url, headers, token_file.as_deref(), &told, &text, timeout)
        }
    }
}

fn plan(
    telling: &Telling,
    argv: &[String],
    user: Option<&str>,
    text: String,
    timeout: Duration,
    host: &Host,
    path: &str,
) -> Result<Plan, String> {
    let Telling { identity, hook, delivery } = telling;
    let account = launch::find_account(user, None).map_err(|error| told(&error))?;
    let kron = [
        ("KRON_IDENTITY", identity.to_string()),
        ("KRON_PERIOD_ID", delivery.entry.period.to_string()),
        ("KRON_HOOK", hook.name.clone()),
        ("KRON_EVENT", delivery.event.to_string()),
        ("KRON_DELIVERY_ID", delivery.id.to_string()),
    ];
    let mut bits = [0; 8];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| errno.to_string())?;
    Ok(Plan {
        run: RunId::from_bits(u64::from_ne_bytes(bits)),
        argv: argv.to_vec(),
        env: clean_environment(&account, &[("PATH".to_owned(), path.to_owned())], &kron),
        credentials: account.to_assume(),
        no_new_privileges: false,
        cwd: None,
        umask: 0o077,
        nice: None,
        limits: launch::limits(&[], host.open_files),
        stdin: Some(text),
        output: Output::Discard,
        timeout: Some(timeout),
        grace: GRACE,
        state_dir: host.state_dir.clone(),
        identity: Some(identity.to_string()),
        period_id: Some(delivery.entry.period.to_string()),
        log_format: host.log_format,
    })
}

/// Runs a hook's command to its end. Nothing of it is recorded: a hook may be told twice.
fn run(plan: &Plan, host: &Host, timeout: Duration) -> Result<(), String> {
    let supervisor = {
        let _no_reaping = host.nursery.read().unwrap_or_else(PoisonError::into_inner);
        host.launcher.launch(plan).map_err(|error| told(&error))?
    };
    let until = clock::now().boot + timeout + GRACE + PATIENCE;
    let result = loop {
        let left = until.saturating_sub(clock::now().boot);
        if left.is_zero() {
            let _ = supervisor.signal(Signal::Kill);
            break Err("it does not end".to_owned());
        }
        let wait = Timespec { tv_sec: left.as_secs() as i64 + 1, tv_nsec: 0 };
        let socket = supervisor.as_fd();
        let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&wait));
        match supervisor.receive().map_err(|error| error.to_string())? {
            None | Some(Message::Executing) => {}
            Some(Message::Armed { .. }) => {
                supervisor.release().map_err(|error| error.to_string())?;
            }
            Some(Message::Refused { message, .. } | Message::ExecFailed { message, .. }) => {
                break Err(message);
            }
            Some(Message::Closed) => break Err("its supervisor is gone".to_owned()),
            Some(Message::Ended(end)) => {
                break match (end.cause, end.status) {
                    (kron_state::Cause::Timeout, _) => {
                        Err(format!("it took longer than {} s", timeout.as_secs()))
                    }
                    (_, ExitStatus::ExitCode(0)) => Ok(()),
                    (_, ExitStatus::ExitCode(code)) => Err(format!("it exited with {code}")),
                    (_, ExitStatus::Signal(signal)) => Err(format!("signal {signal} ended it")),
                };
            }
        }
    };
    // Whoever hears it leaves nothing behind.
    let _ = supervisor.acknowledge();
    result
}

fn post(
    url: &str,
    headers: &[(String, String)],
    token_file: Option<&str>,
    told: &Told<'_>,
    text: &str,
    timeout: Duration,
) -> Result<(), String> {
    let own =
        [("X-Kron-Delivery", told.delivery_id.clone()), ("X-Kron-Event", told.event.to_owned())];
    let request =
        Request { url, headers, own_headers: &own, token_file, timeout, reach: Reach::Any };
    let answer = web::post(&request, text)?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(format!("the answer was {}", answer.status()))
}
