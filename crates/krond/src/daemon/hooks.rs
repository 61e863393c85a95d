//! Telling hooks, in a few threads: commands take their time, and the network even more.
//!
//! A command is run as jobs are, under a supervisor, without a shell, and reads what it is told on
//! standard input; it was told when it exits with 0. A web request carries the same text; it was
//! told when the answer is a success. Nothing is followed anywhere else: an address that answers
//! with another one was not told. Which hooks are told what, and when again, is the machine's.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
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

/// Threads that tell hooks: so many are told at once.
const THREADS: usize = 4;
/// How long a command has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);
/// What a supervisor may need beyond its command's time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that a file with a token may have.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Something to tell.
#[derive(Debug)]
pub(super) struct Telling {
    pub(super) identity: Arc<str>,
    pub(super) hook: Arc<Hook>,
    pub(super) delivery: Arc<Delivery>,
}

/// The threads' queue. Dropping it ends them when it is empty.
#[derive(Debug)]
pub(super) struct Hooks {
    sender: mpsc::Sender<Telling>,
}

impl Hooks {
    pub(super) fn start(host: Host, path: String, results: &Results) -> io::Result<Hooks> {
        let (sender, receiver) = mpsc::channel::<Telling>();
        let receiver = Arc::new(Mutex::new(receiver));
        let host = Arc::new((host, path));
        for number in 1..=THREADS {
            let (receiver, host, results) = (receiver.clone(), host.clone(), results.clone());
            worker::spawn(format!("hook-{number}"), move || {
                loop {
                    let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(telling) = next else { return };
                    let result = tell(&telling, &host.0, &host.1);
                    results.send(Done::Told { id: telling.delivery.id, result });
                }
            })?;
        }
        Ok(Hooks { sender })
    }

    pub(super) fn order(&self, telling: Telling) {
        // The threads live as long as this sender does.
        let _ = self.sender.send(telling);
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
    let supervisor = host.launcher.launch(plan).map_err(|error| told(&error))?;
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
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("krond/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut request = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("X-Kron-Delivery", &told.delivery_id)
        .header("X-Kron-Event", told.event);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(path) = token_file {
        request = request.header("Authorization", format!("Bearer {}", token(path)?));
    }
    let answer = request.send(text).map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(format!("the answer was {}", answer.status()))
}

fn token(path: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read `{path}`: {error}");
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(TOKEN_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text.trim().to_owned())
}
