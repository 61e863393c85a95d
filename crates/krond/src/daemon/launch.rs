//! Bringing commands to their gates, in a few threads: looking users up may ask the network, and
//! starting a process takes a while.
//!
//! A thread turns a [`Launch`] into a [`Plan`], starts a supervisor with it and hands that to the
//! loop. Whatever fails here fails before anything of the command exists.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

use kron_config::{DaemonSettings, Limit as ConfigLimit, Output as ConfigOutput, Resource};
use kron_core::{Category, Seconds};
use kron_exec::{
    Account, AccountError, Credentials, LaunchError, Launcher, Limit, LogFormat, Output, Plan,
    Supervisor, TAG_BYTES_MAX, account, clean_environment,
};
use kron_state::RealDirectory;
use nix::errno::Errno;
use nix::unistd::{getegid, geteuid, getgroups};

use super::errand::Launching;
use super::inbox::{Done, Results};
use super::logs;
use super::worker;
use crate::log::told;
use crate::machine::{Launch, StartFailure};
use crate::queue::dispatcher::Start;
use crate::queue::{self, artifacts};
use crate::spool;

/// Threads that start supervisors. Each mostly waits for the kernel.
const THREADS: usize = 4;

/// What all plans of a daemon have in common.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// The state directory, absolute.
    pub(crate) state_dir: PathBuf,
    /// The directory of all logs.
    pub(super) logs: Arc<RealDirectory>,
    /// How supervisors are started.
    pub(super) launcher: Launcher,
    /// How many files commands may have open unless told otherwise: what the daemon had before it
    /// raised its own limit, soft and hard.
    pub(crate) open_files: (Option<u64>, Option<u64>),
    /// How the daemon's log is written, which supervisors share.
    pub(crate) log_format: LogFormat,
    /// Held while a child is started whose number the loop does not know.
    pub(super) nursery: Nursery,
}

/// Children are reaped by the loop alone, and not while somebody holds this for reading: a child
/// that has just been started must not vanish before it is held.
pub(super) type Nursery = Arc<RwLock<()>>;

/// Starts supervisors from this program, or from the one that is running. A library that was
/// preloaded into the daemon, such as another clock, is preloaded into them too; commands see
/// nothing of that.
///
/// # Errors
/// When the program cannot be executed, or is no supervisor.
pub(super) fn launcher(program: Option<&Path>) -> io::Result<Launcher> {
    let preloaded = |(name, _): &(OsString, OsString)| {
        let name = name.as_encoded_bytes();
        name == b"LD_PRELOAD" || name.starts_with(b"FAKETIME")
    };
    let mut launcher = program.map_or_else(|| Ok(Launcher::current()), Launcher::of)?;
    launcher.environment = std::env::vars_os().filter(preloaded).collect();
    if program.is_some() {
        launcher.probe()?;
    }
    Ok(launcher)
}

/// The threads' queue. Dropping it ends them when it is empty.
#[derive(Debug)]
pub(super) struct Launchers {
    sender: mpsc::Sender<(Order, Arc<DaemonSettings>)>,
}

/// What is to be started.
#[derive(Debug)]
enum Order {
    /// A job of the scheduler's.
    Job(Launch),
    /// A job of the queue's.
    Queued(Box<Start>),
    /// A task of a spool's.
    Spooled(Box<spool::attendant::Launch>),
}

impl Launchers {
    pub(super) fn start(host: Host, results: &Results) -> io::Result<Launchers> {
        let (sender, receiver) = mpsc::channel::<(Order, Arc<DaemonSettings>)>();
        let receiver = Arc::new(Mutex::new(receiver));
        let host = Arc::new(host);
        for number in 1..=THREADS {
            let (receiver, host, results) = (receiver.clone(), host.clone(), results.clone());
            let name = format!("launch-{number}");
            worker::spawn(name, move || {
                loop {
                    let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((order, settings)) = next else { return };
                    let (run, result) = match order {
                        Order::Job(launch) => {
                            let result = start(&launch, &settings, &host);
                            (launch.run, result)
                        }
                        Order::Queued(queued) => {
                            let result = start_queued(&queued, &settings, &host);
                            (queued.run, result)
                        }
                        Order::Spooled(spooled) => {
                            let result = start_spooled(&spooled, &settings, &host);
                            (spooled.run, result)
                        }
                    };
                    results.send(Done::Launched { run, result });
                }
            })?;
        }
        Ok(Launchers { sender })
    }

    pub(super) fn order(&self, launch: Launch, settings: Arc<DaemonSettings>) {
        // The threads live as long as this sender does.
        let _ = self.sender.send((Order::Job(launch), settings));
    }

    /// Starts a job of the queue's or a task of a spool's.
    pub(super) fn order_other(&self, launching: Launching, settings: Arc<DaemonSettings>) {
        let order = match launching {
            Launching::Queued(start) => Order::Queued(start),
            Launching::Spooled(launch) => Order::Spooled(launch),
        };
        let _ = self.sender.send((order, settings));
    }
}

fn start_queued(
    start: &Start,
    settings: &DaemonSettings,
    host: &Host,
) -> Result<Supervisor, StartFailure> {
    let execution = &start.handler.execution;
    let account = find_account(execution.user.as_deref(), execution.group.as_deref())
        .map_err(|error| failure(account_category(&error), "look up user", told(&error)))?;
    let owner = account.to_assume().map(|credentials| (credentials.uid, credentials.gid));
    let artifacts = artifacts::prepare(&host.state_dir, start.claimed.run.run_id, owner)
        .map_err(|error| failure(Category::System, "prepare artifacts", told(&error)))?;
    let plan = queue::plan::plan(start, settings, host, &account, &artifacts);
    host.launcher
        .launch(&plan)
        .map_err(|error| failure(launch_category(&error), "launch", told(&error)))
}

fn start_spooled(
    launch: &spool::attendant::Launch,
    settings: &DaemonSettings,
    host: &Host,
) -> Result<Supervisor, StartFailure> {
    let execution = &launch.handler.execution;
    let account = find_account(execution.user.as_deref(), execution.group.as_deref())
        .map_err(|error| failure(account_category(&error), "look up user", told(&error)))?;
    let plan = spool::plan::plan(launch, settings, host, &account);
    host.launcher
        .launch(&plan)
        .map_err(|error| failure(launch_category(&error), "launch", told(&error)))
}

fn start(
    launch: &Launch,
    settings: &DaemonSettings,
    host: &Host,
) -> Result<Supervisor, StartFailure> {
    let execution = &launch.definition.job.execution;
    let account = find_account(execution.user.as_deref(), execution.group.as_deref())
        .map_err(|error| failure(account_category(&error), "look up user", told(&error)))?;
    let plan = plan(launch, settings, host, &account);
    if matches!(plan.output, Output::Log { .. }) {
        logs::prepare(&host.logs, launch.definition.job.identity())
            .map_err(|error| failure(error.category(), "prepare the log", told(&error)))?;
    }
    host.launcher
        .launch(&plan)
        .map_err(|error| failure(launch_category(&error), "launch", told(&error)))
}

fn failure(category: Category, operation: &str, message: String) -> StartFailure {
    StartFailure { category, operation: operation.to_owned(), message }
}

fn account_category(error: &AccountError) -> Category {
    match error {
        AccountError::NoUser(_) | AccountError::NoGroup(_) => Category::Execution,
        AccountError::Lookup { .. } => Category::System,
    }
}

fn launch_category(error: &LaunchError) -> Category {
    match error {
        LaunchError::Plan(_) | LaunchError::Encode(_) | LaunchError::PlanSize { .. } => {
            Category::Execution
        }
        LaunchError::Socket(_)
        | LaunchError::HandOver(_)
        | LaunchError::Spawn(_)
        | LaunchError::Hold(_) => Category::System,
    }
}

/// Whose fault it is when a supervisor could not prepare or execute its command: the system's when
/// it had too little of something at that moment, else the command's.
pub(super) fn category_of(errno: i32) -> Category {
    match Errno::from_raw(errno) {
        Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN | Errno::ENOMEM => Category::System,
        _ => Category::Execution,
    }
}

/// The account a command runs as. A daemon whose own user is in no list, as in some containers,
/// runs commands as that user all the same.
pub(super) fn find_account(
    user: Option<&str>,
    group: Option<&str>,
) -> Result<Account, AccountError> {
    match account(user, group) {
        Err(AccountError::NoUser(name)) if user.is_none() && group.is_none() => {
            let groups = getgroups().map_err(|errno| AccountError::Lookup {
                name: name.clone(),
                source: errno.into(),
            })?;
            Ok(Account {
                name,
                home: "/".to_owned(),
                shell: "/bin/sh".to_owned(),
                credentials: Credentials {
                    uid: geteuid().as_raw(),
                    gid: getegid().as_raw(),
                    groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
                },
            })
        }
        result => result,
    }
}

fn plan(launch: &Launch, settings: &DaemonSettings, host: &Host, account: &Account) -> Plan {
    let job = &launch.definition.job;
    let execution = &job.execution;
    let run = settings.for_job(execution);
    Plan {
        run: launch.run.clone(),
        argv: job.action.to_argv(),
        env: environment(launch, settings, account),
        credentials: account.to_assume(),
        no_new_privileges: execution.no_new_privileges,
        cwd: Some(working_directory(execution.cwd.as_deref(), &account.home)),
        umask: run.umask,
        nice: execution.nice,
        limits: limits(&execution.limits, host.open_files),
        stdin: execution.stdin.clone(),
        output: match run.output {
            ConfigOutput::Log => Output::Log {
                path: logs::path(&host.state_dir, job.identity(), &launch.run),
                bytes_max: run.log_bytes_max,
            },
            ConfigOutput::Inherit => Output::Inherit,
            ConfigOutput::Discard => Output::Discard,
            ConfigOutput::Syslog => Output::Syslog { tag: syslog_tag(job.identity()) },
        },
        timeout: run.timeout.map(duration),
        grace: duration(run.grace),
        state_dir: host.state_dir.clone(),
        identity: Some(job.identity().to_owned()),
        period_id: Some(launch.period.to_string()),
        log_format: host.log_format,
    }
}

pub(crate) fn duration(seconds: Seconds) -> Duration {
    Duration::from_secs(seconds.get())
}

/// Nothing of the daemon's own environment: the account's, then the job's, then what the run is.
/// A run by hand has no period, and the variables about one are there and empty.
fn environment(
    launch: &Launch,
    settings: &DaemonSettings,
    account: &Account,
) -> Vec<(String, String)> {
    let job = &launch.definition.job;
    let mut variables = vec![("PATH".to_owned(), settings.path.clone())];
    variables.extend(job.execution.env.iter().cloned());
    let decided = launch.decision.as_ref();
    let kron = [
        ("KRON_IDENTITY", job.identity().to_owned()),
        ("KRON_PERIOD_ID", launch.period.to_string()),
        ("KRON_NOMINAL_TIME", decided.map(|d| d.nominal.to_string()).unwrap_or_default()),
        ("KRON_CHOSEN_TIME", launch.chosen.to_string()),
        ("KRON_SEED_HASH", decided.map(|d| d.seed_hash.to_string()).unwrap_or_default()),
    ];
    clean_environment(account, &variables, &kron)
}

/// Where the command starts: where its job says, or at home as with cron, or at the root when
/// there is no home to go to.
pub(crate) fn working_directory(wanted: Option<&str>, home: &str) -> PathBuf {
    match wanted {
        Some(cwd) => PathBuf::from(cwd),
        None if Path::new(home).is_absolute() && Path::new(home).is_dir() => PathBuf::from(home),
        None => PathBuf::from("/"),
    }
}

pub(crate) fn limits(
    wanted: &[ConfigLimit],
    (soft, hard): (Option<u64>, Option<u64>),
) -> Vec<Limit> {
    let mut limits: Vec<Limit> = wanted
        .iter()
        .map(|limit| Limit {
            resource: resource(limit.resource),
            soft: limit.soft,
            hard: limit.hard,
        })
        .collect();
    let says_itself = wanted.iter().any(|limit| limit.resource == Resource::Nofile);
    if !says_itself {
        limits.push(Limit { resource: kron_exec::Resource::OpenFiles, soft, hard });
    }
    limits
}

fn resource(resource: Resource) -> kron_exec::Resource {
    match resource {
        Resource::As => kron_exec::Resource::AddressSpace,
        Resource::Core => kron_exec::Resource::CoreSize,
        Resource::Cpu => kron_exec::Resource::CpuSeconds,
        Resource::Data => kron_exec::Resource::DataSize,
        Resource::Fsize => kron_exec::Resource::FileSize,
        Resource::Memlock => kron_exec::Resource::LockedMemory,
        Resource::Nofile => kron_exec::Resource::OpenFiles,
        Resource::Nproc => kron_exec::Resource::Processes,
        Resource::Stack => kron_exec::Resource::StackSize,
    }
}

/// The identity as far as the system log takes it for a tag.
fn syslog_tag(identity: &str) -> String {
    let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, ':' | '[' | ']');
    identity.chars().map(|c| if allowed(c) { c } else { '_' }).take(TAG_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_identity_gives_a_tag() {
        assert_eq!(syslog_tag("db-backup"), "db-backup");
        assert_eq!(syslog_tag("a b:c[1]é"), "a_b_c_1__");
        assert_eq!(syslog_tag(&"x".repeat(1_000)).len(), TAG_BYTES_MAX);
    }

    #[test]
    fn a_command_starts_where_its_job_says_or_at_home() {
        assert_eq!(working_directory(Some("/var"), "/root"), Path::new("/var"));
        assert_eq!(working_directory(None, "/tmp"), Path::new("/tmp"));
        assert_eq!(working_directory(None, "/nonexistent"), Path::new("/"));
        assert_eq!(working_directory(None, ""), Path::new("/"));
    }

    #[test]
    fn the_usual_number_of_open_files_is_put_back_unless_the_job_has_its_own() {
        let open_files = (Some(1_024), None);
        let usual = limits(&[], open_files);
        assert_eq!(
            usual,
            [Limit { resource: kron_exec::Resource::OpenFiles, soft: Some(1_024), hard: None }]
        );
        let own = [ConfigLimit { resource: Resource::Nofile, soft: Some(9), hard: Some(9) }];
        assert_eq!(limits(&own, open_files).len(), 1);
        assert_eq!(limits(&own, open_files)[0].soft, Some(9));
    }

    #[test]
    fn shortage_is_the_systems_fault_and_everything_else_the_commands() {
        assert_eq!(category_of(Errno::EMFILE as i32), Category::System);
        assert_eq!(category_of(Errno::ENOENT as i32), Category::Execution);
        assert_eq!(category_of(0), Category::Execution);
    }
}
