//! Start-up: definitions first, then the lock and the recorded past, then threads, then the loop.
//!
//! Nothing is scheduled, and nothing of the past is changed, before all of it has been read and
//! found sound.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use kron_config::{DaemonSettings, QueueSettings, SpoolSettings};
use kron_core::{Category, UtcSecond};
use kron_queue::{JobRun, ProcessIdentity, Queue};
use kron_spool::SpoolError;
use kron_state::{
    Epoch, EpochEvent, KnownRead, Lock, LockError, RealDirectory, RunId, Scan, Store, StoreError,
};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::control::ControlServer;
use super::definitions::{self, DefinitionsError, Sources};
use super::event_loop::{EventLoop, Own};
use super::handle::{Handle, Shared};
use super::hooks::Hooks;
use super::inbox::Inbox;
use super::launch::{self, Host, Launchers};
use super::logs::{self, ActiveRuns};
use super::poll::Poll;
use super::queue::QueueWorks;
use super::runs::Runs;
use super::socket::{self, Admission, SocketError, SocketFile};
use super::spool::{OpenError, SpoolWorks, Surroundings};
use super::sync::SyncPool;
use super::sync_queue::{Order, RunOf};
use super::{EXIT_CONFIGURATION, EXIT_LOCKED, EXIT_STATE, EXIT_SYSTEM};
use super::{clock, notify, reload};
use crate::api::{self, EndedRuns};
use crate::log::{Log, told};
use crate::machine::{Boot, Entry, Level, Machine, Preparation, Recorded};
use crate::metrics::Metrics;
use crate::options::RunOptions;
use crate::queue::recovery;
use crate::queue::time::Believed;
use crate::spool::plan::spool_of;
use crate::web;

/// How many runs stand at their gates ahead of a burst at most.
const READY_MAX: usize = 1_000;
/// What such a run takes, about: a supervisor and a process that has yet to execute.
const READY_BYTES: u64 = 512 * 1024;
/// They may take one part in so many of the machine's memory.
const READY_SHARE: u64 = 16;

/// Bytes that a token has at least.
const TOKEN_BYTES_MIN: usize = 16;
/// How long a lock is waited for, so that a restart need not wait for its predecessor's end.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Files that the daemon makes are its own: nobody else reads them unless they are told so.
const UMASK: u32 = 0o077;

/// A daemon that is ready to run.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) event_loop: EventLoop,
    pub(super) control: ControlServer,
    pub(super) lock: Lock,
}

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Definitions(#[from] DefinitionsError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Queue(#[from] kron_queue::StoreError),
    #[error("cannot put the queue in order")]
    Recovery(#[source] kron_queue::RunError),
    #[error("cannot use the spool `{name}`")]
    Spool { name: String, source: OpenError },
    #[error("{0}")]
    Token(String),
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot start supervisors from `{}`", .path.display())]
    Supervisor { path: PathBuf, source: io::Error },
    #[error("cannot {operation}")]
    System { operation: &'static str, source: io::Error },
}

impl StartError {
    pub(super) fn category(&self) -> Category {
        match self {
            StartError::Lock(error) => error.category(),
            StartError::Store(error) => error.category(),
            StartError::Definitions(error) => error.category(),
            StartError::Queue(error) => error.category(),
            StartError::Recovery(_) => Category::Persistence,
            StartError::Spool { source, .. } => source.category(),
            StartError::Supervisor { .. } | StartError::Token(_) => Category::Validation,
            StartError::Socket(_) | StartError::Listen { .. } | StartError::System { .. } => {
                Category::System
            }
        }
    }

    pub(super) fn operation(&self) -> &'static str {
        match self {
            StartError::Lock(_) => "lock the state directory",
            StartError::Store(_) => "read state",
            StartError::Definitions(_) => "load definitions",
            StartError::Queue(_) => "open the queue",
            StartError::Recovery(_) => "recover the queue",
            StartError::Spool { .. } => "open a spool",
            StartError::Socket(_) => "make the control socket",
            StartError::Token(_) => "read the token",
            StartError::Listen { .. } => "listen",
            StartError::Supervisor { .. } => "open the supervisor's program",
            StartError::System { operation, .. } => operation,
        }
    }

    pub(super) fn hint(&self) -> Option<String> {
        match self {
            StartError::Lock(LockError::Held { .. }) => Some(
                "one daemon runs per state directory; `kron status`, with its `--state-dir`, asks it how it is"
                    .to_owned(),
            ),
            StartError::Lock(LockError::Store(error)) | StartError::Store(error) => error.hint(),
            StartError::Socket(error) => error.hint().map(str::to_owned),
            StartError::Spool { source: OpenError::Spool(error), .. } => spool_hint(error),
            StartError::Spool { .. } => None,
            StartError::Definitions(_)
            | StartError::Queue(_)
            | StartError::Recovery(_)
            | StartError::Token(_)
            | StartError::Listen { .. }
            | StartError::Supervisor { .. }
            | StartError::System { .. } => None,
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            StartError::Lock(LockError::Held { .. }) => EXIT_LOCKED,
            StartError::Lock(LockError::Store(error)) | StartError::Store(error) => {
                match error.category() {
                    Category::System => EXIT_SYSTEM,
                    _ => EXIT_STATE,
                }
            }
            StartError::Definitions(error) => match error.category() {
                Category::System => EXIT_SYSTEM,
                _ => EXIT_CONFIGURATION,
            },
            StartError::Queue(error) => match error.category() {
                Category::System => EXIT_SYSTEM,
                _ => EXIT_STATE,
            },
            StartError::Recovery(_) => EXIT_STATE,
            StartError::Spool { source: OpenError::Spool(SpoolError::Held { .. }), .. } => {
                EXIT_LOCKED
            }
            StartError::Spool { source, .. } => match source.category() {
                Category::Validation => EXIT_CONFIGURATION,
                Category::System => EXIT_SYSTEM,
                _ => EXIT_STATE,
            },
            StartError::Supervisor { .. } | StartError::Token(_) => EXIT_CONFIGURATION,
            StartError::Socket(_) | StartError::Listen { .. } | StartError::System { .. } => {
                EXIT_SYSTEM
            }
        }
    }
}

/// What to do about a spool that cannot be used.
fn spool_hint(error: &SpoolError) -> Option<String> {
    match error {
        SpoolError::Held { .. } => {
            Some("one daemon has a spool at a time; give this one another `dir`".to_owned())
        }
        SpoolError::Refused { path, .. } => Some(format!(
            "nobody but the daemon's user may change `{path}`; producers write into `tasks/pending` alone"
        )),
        _ => None,
    }
}

pub(super) fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> StartError {
    move |error| StartError::System { operation, source: error.into() }
}

/// Brings the daemon to the point where it is ready to run.
pub(super) fn start(options: &RunOptions, log: Log) -> Result<Started, StartError> {
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    kron_exec::keep_little_memory();
    kron_exec::become_subreaper().map_err(system("become the parent of orphans"))?;
    let open_files = raise_open_files(log);
    let boot_id = kron_exec::boot_id().map_err(system("read the boot id"))?;

    let state_dir =
        std::path::absolute(&options.state_dir).map_err(system("find the state directory"))?;
    // Before the lock, which makes the state directory: a start that is refused for what it was
    // told leaves nothing behind.
    let launcher = launch::launcher(options.supervisor.as_deref()).map_err(|source| {
        StartError::Supervisor { source, path: options.supervisor.clone().unwrap_or_default() }
    })?;
    let sources = Sources::of(options, log);
    let found = sources.load()?;
    definitions::show(log, &found.diagnostics, false);
    let lock = Lock::acquire(&state_dir, LOCK_PATIENCE)?;

    let directory = RealDirectory::open(&state_dir)?;
    let logs = Arc::new(logs::open(&directory)?);
    let store = Arc::new(Store::open(directory, found.settings.history_entries_max as usize)?);
    let mut past = Past::read(&store, log)?;
    let opened = found.settings.queue.as_ref();
    let opened = opened.map(|settings| OpenedQueue::open(&state_dir, settings)).transpose()?;
    let holds_records = match &opened {
        Some(opened) => Some(opened.runs.clone()),
        None => resting_runs(&state_dir, log),
    };
    let of_queue = |runs: &[JobRun], run: &RunId| {
        runs.iter().any(|open| crate::queue::supervised(open.run_id) == *run)
    };
    past.stale_runs.retain(|run| holds_records.as_ref().is_some_and(|runs| !of_queue(runs, run)));
    let believed = Arc::new(Believed::new());
    let mut spools = Vec::new();
    for settings in &found.settings.spools {
        let opened = SpoolWorks::open(settings, &store, &believed)
            .map_err(|source| StartError::Spool { name: settings.name.clone(), source })?;
        let left = &opened.recovered;
        let of_spool = |run: &RunId| {
            let is =
                |task: &kron_spool::Task| task.run.as_ref().is_some_and(|it| it.run_id == *run);
            // Of one whose fate is unknown nothing is removed.
            let unclear = !left.undecided.is_empty() || !left.failed.is_empty();
            unclear || left.adopted.iter().any(is)
        };
        past.stale_runs.retain(|run| !of_spool(run));
        spools.push((settings.clone(), opened));
    }
    for run in mem::take(&mut past.stale_runs) {
        if !is_resting(&store, &run, &found.settings.spools)? {
            past.stale_runs.push(run);
        }
    }

    let socket_path = options.socket.clone().unwrap_or_else(|| api::socket_path(&state_dir));
    let (listener, socket) = socket::bind(&socket_path)?;
    admit(&socket, &found.settings.socket_group, log)?;

    let token = token(&found.settings)?;
    let address = options.listen.or(found.settings.api.listen);
    let readers =
        address.map(|address| listen(address, Knows::of(token.as_ref()), log)).transpose()?;
    let (inbox, results, requests) = Inbox::new().map_err(system("make a descriptor"))?;
    let poll = Poll::new(&inbox.wake).map_err(system("make a descriptor"))?;
    let thread = system("start a thread");
    let active = ActiveRuns::default();
    let metrics = Arc::new(Metrics::default());
    let sync_threads = usize::from(options.sync_threads);
    let sync = SyncPool::start(sync_threads, store.clone(), results.clone(), metrics.clone(), log)
        .map_err(&thread)?;
    let nursery = launch::Nursery::default();
    let host = Host {
        state_dir: state_dir.clone(),
        logs,
        launcher,
        open_files,
        log_format: log.format().into(),
        nursery: nursery.clone(),
    };
    let launchers = Launchers::start(host.clone(), &results).map_err(&thread)?;
    let hooks = Hooks::new(host, found.settings.path.clone(), results.clone());
    let retention =
        logs::start_retention(state_dir.clone(), active.clone(), log).map_err(&thread)?;
    let reloads = reload::start(sources.clone(), results.clone(), log).map_err(&thread)?;
    let (queue, recovered, queue_handle) = match opened {
        None => (None, None, None),
        Some(opened) => {
            let settings = found.settings.queue.clone().unwrap_or_default();
            let owner = own_process(&boot_id)?;
            let clock = believed.clone();
            let (works, handle) = QueueWorks::new(
                opened.queue.clone(),
                &settings,
                owner,
                results.clone(),
                state_dir.clone(),
                clock.clone(),
                log,
            );
            // After whoever counts is there.
            let recovered = recovery::recover(&opened.queue, &opened.runs, &store, clock.now())
                .map_err(StartError::Recovery)?;
            (Some(works), Some(recovered), Some(handle))
        }
    };
    let (spool_works, spool_handle) = SpoolWorks::new(Surroundings {
        results,
        store: store.clone(),
        state_dir: state_dir.clone(),
        clock: believed.clone(),
        log,
        seed: seed()?,
    })
    .map_err(system("watch directories"))?;
    poll.watch_spools(&spool_works).map_err(system("watch directories"))?;
    let shared = Arc::new(Shared {
        requests,
        wake: inbox.wake.clone(),
        reloads: reloads.clone(),
        store: store.clone(),
        ended: EndedRuns::default(),
        settings: RwLock::new(Arc::new(found.settings.clone())),
        state_dir,
        metrics: metrics.clone(),
        queue: queue_handle,
        spools: spool_handle,
        token: RwLock::new(token),
    });
    let control = ControlServer::start(Handle::new(shared.clone()), listener, readers, log)
        .map_err(&thread)?;

    past.note_start(&store, boot_id.clone(), log);
    let now = clock::now();
    let boot = Boot {
        seed: seed()?,
        jobs: found.jobs,
        machine_id: sources.options.machine_id.unwrap_or_default(),
        known: past.known,
        recorded: past.scan.documents.into_iter().map(Recorded::from).collect(),
        unreadable: past
            .scan
            .unreadable
            .into_iter()
            .map(|file| (file.identity_hash, file.modified))
            .collect(),
        latest_seen: past.life.latest_seen,
        hooks: found.settings.hooks,
        preparation: preparation(options.burst),
    };
    let (machine, actions) = Machine::boot(now, boot);
    let mut event_loop = EventLoop {
        machine,
        poll,
        inbox,
        runs: Runs::new(boot_id, active, nursery, metrics, log),
        sync,
        launchers,
        hooks,
        retention,
        reloads,
        shared,
        socket,
        queue,
        spools: spool_works,
        believed,
        log,
        own: Own::alive_since(now.boot),
    };
    event_loop.perform(now, actions);
    for run in past.stale_runs {
        event_loop.sync.order(Order::RemoveRun(RunOf { run, of: None }));
    }
    if let Some(recovered) = recovered {
        event_loop.resume_queue(recovered);
    }
    for (settings, opened) in spools {
        let adopted = event_loop.spools.add(&settings, opened);
        event_loop.resume_spooled(&adopted);
    }
    event_loop.run_others();
    event_loop.chores().map_err(system("arm a timer"))?;
    // Reading the definitions and the past took more than they take now.
    kron_exec::give_back_memory();
    tell_ready(&socket_path, log);
    Ok(Started { event_loop, control, lock })
}

/// The queue's database, and what had not ended when it was last closed.
struct OpenedQueue {
    queue: Queue,
    runs: Vec<JobRun>,
}

impl OpenedQueue {
    fn open(state_dir: &Path, settings: &QueueSettings) -> Result<OpenedQueue, StartError> {
        let path = state_dir.join(crate::queue::DATABASE);
        let queue = Queue::open(&path, crate::queue::rules(settings))?;
        let runs = queue.open_runs()?;
        Ok(OpenedQueue { queue, runs })
    }
}

/// Runs of a queue that rests, because the configuration has none now: what their supervisors left
/// is kept until it is back. Nothing when that cannot be told; then everything is kept.
fn resting_runs(state_dir: &Path, log: Log) -> Option<Vec<JobRun>> {
    let path = state_dir.join(crate::queue::DATABASE);
    if !path.exists() {
        return Some(Vec::new());
    }
    let runs = Queue::open(&path, kron_queue::Rules::default()).and_then(|queue| queue.open_runs());
    match runs {
        Ok(runs) => Some(runs),
        Err(error) => {
            log.write(&Entry::new(Level::Warn, "queue_unreadable").error(
                error.category(),
                "look into the queue",
                &told(&error),
            ));
            None
        }
    }
}

/// Whether this record was left by a run of a spool that is not configured now: it may be again, and
/// the record is kept until it is.
///
/// # Errors
/// When the record cannot be read: whose it is must be known before it is removed. One that is not
/// to be trusted is nobody's; it is not removed either, which is told.
fn is_resting(
    store: &Store<RealDirectory>,
    run: &RunId,
    spools: &[SpoolSettings],
) -> Result<bool, StoreError> {
    let report = match store.run_report(run) {
        Err(StoreError::Refused { .. }) => None,
        report => report?,
    };
    let identity = report.and_then(|report| report.identity);
    let spool = identity.as_deref().and_then(spool_of);
    Ok(spool.is_some_and(|name| spools.iter().all(|spool| spool.name != name)))
}

/// This very process.
fn own_process(boot_id: &str) -> Result<ProcessIdentity, StartError> {
    let own = kron_exec::own_process().map_err(system("read this process's start time"))?;
    Ok(ProcessIdentity {
        boot_id: boot_id.to_owned(),
        pid: i64::from(own.pid),
        start_ticks: i64::try_from(own.start_ticks).unwrap_or(i64::MAX),
    })
}

/// When runs are brought to their gates ahead: as many as this machine's memory takes lightly.
fn preparation(burst: u16) -> Option<Preparation> {
    let info = rustix::system::sysinfo();
    let memory_bytes = info.totalram.saturating_mul(u64::from(info.mem_unit));
    let runs_max = usize::try_from(memory_bytes / READY_SHARE / READY_BYTES).unwrap_or(usize::MAX);
    let runs_max = runs_max.min(READY_MAX);
    (burst > 0).then_some(Preparation { burst_min: usize::from(burst), runs_max })
}

/// Whom the API trusts on a network.
#[derive(Clone, Copy)]
enum Knows {
    Token,
    Nobody,
}

impl Knows {
    fn of(token: Option<&Arc<str>>) -> Knows {
        token.map_or(Knows::Nobody, |_| Knows::Token)
    }
}

/// What somebody on the network must bear to be trusted.
pub(super) fn token(settings: &DaemonSettings) -> Result<Option<Arc<str>>, StartError> {
    let Some(path) = &settings.api.token_file else { return Ok(None) };
    let token = web::secret(path).map_err(StartError::Token)?;
    if token.len() < TOKEN_BYTES_MIN {
        let message = format!("the token in `{path}` has less than {TOKEN_BYTES_MIN} bytes");
        return Err(StartError::Token(message));
    }
    Ok(Some(token.into()))
}

/// Listens for whoever comes over a network.
fn listen(address: SocketAddr, knows_token: Knows, log: Log) -> Result<TcpListener, StartError> {
    let listener =
        TcpListener::bind(address).map_err(|source| StartError::Listen { address, source })?;
    let mut entry = Entry::new(Level::Info, "listening");
    if !address.ip().is_loopback() {
        entry = Entry::new(Level::Warn, "listening").with(
            "message",
            match knows_token {
                Knows::Token => {
                    "whoever reaches this address can read what jobs do, and who bears \
                    the token can do everything, in plain text"
                }
                Knows::Nobody => {
                    "whoever reaches this address can read what jobs do, though not change it"
                }
            },
        );
    }
    let address = listener.local_addr().unwrap_or(address);
    log.write(&entry.shown("address", address));
    Ok(listener)
}

/// What earlier daemons have recorded.
struct Past {
    scan: Scan,
    known: Option<kron_state::Known>,
    /// Records of runs that no document names any more.
    stale_runs: Vec<RunId>,
    life: Life,
}

impl Past {
    fn read(store: &Store<RealDirectory>, log: Log) -> Result<Past, StoreError> {
        let scan = store.scan()?;
        for file in &scan.unreadable {
            let message = format!("`{}.json`: {}", file.identity_hash, file.cause);
            log.write(&Entry::new(Level::Error, "state_unreadable").error(
                Category::Persistence,
                "read state",
                &message,
            ));
        }
        let known = match store.known()? {
            KnownRead::Known(known) => Some(known),
            KnownRead::Missing => None,
            KnownRead::Unreadable { cause, set_aside, .. } => {
                let message = format!(
                    "`known.json`: {cause}; it is kept as `{set_aside}`, and every job is new"
                );
                log.write(&Entry::new(Level::Error, "state_unreadable").error(
                    Category::Persistence,
                    "read state",
                    &message,
                ));
                None
            }
        };
        let active: HashSet<&RunId> = scan
            .documents
            .iter()
            .flat_map(|document| document.active.iter().map(|active| &active.run))
            .collect();
        let mut stale_runs = store.run_ids()?;
        for run in stale_runs.iter().filter(|run| active.contains(run)) {
            // It is read for good when its processes are known to be gone; a file that cannot be
            // trusted refuses the start.
            store.run_record(run)?;
        }
        stale_runs.retain(|run| !active.contains(run));
        Ok(Past { scan, known, stale_runs, life: Life::read(store)? })
    }

    /// Writes down that a daemon starts, and how the one before it ended.
    fn note_start(&self, store: &Store<RealDirectory>, boot_id: String, log: Log) {
        if let Err(error) = self.try_note_start(store, boot_id) {
            // It only explains; what must be recorded is refused soon enough.
            log.write(&Entry::new(Level::Error, "not_recorded").error(
                error.category(),
                "record epoch",
                &told(&error),
            ));
        }
    }

    fn try_note_start(
        &self,
        store: &Store<RealDirectory>,
        boot_id: String,
    ) -> Result<(), StoreError> {
        let at = clock::now().wall;
        if self.life.crashed {
            let event = EpochEvent::Crash { alive_until: self.life.alive_until };
            store.append_epoch(&Epoch { at, event })?;
        }
        let event = EpochEvent::Start {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            boot_id,
            previous_alive_until: self.life.alive_until,
        };
        store.append_epoch(&Epoch { at, event })?;
        store.alive(at)
    }
}

/// What is known about the daemons before this one.
struct Life {
    /// The last sign of life of the latest one.
    alive_until: Option<UtcSecond>,
    /// Whether it ended without saying so.
    crashed: bool,
    /// The latest time that any of them saw.
    latest_seen: Option<UtcSecond>,
}

impl Life {
    fn read(store: &Store<RealDirectory>) -> Result<Life, StoreError> {
        let log = store.epochs()?;
        let latest_told = log.latest();
        let in_doubt = log.ends_in_doubt();
        let epochs = log.epochs;
        let touched = store.last_alive()?;
        // A mark may be reset while no daemon runs.
        let daemons = |epoch: &&Epoch| !matches!(epoch.event, EpochEvent::Reset { .. });
        let last = epochs.iter().rfind(daemons);
        Ok(Life {
            alive_until: touched.max(last.map(|epoch| epoch.at)),
            crashed: last.is_some_and(|epoch| !matches!(epoch.event, EpochEvent::Stop { .. })),
            latest_seen: latest_told.max(touched.filter(|_| !in_doubt)),
        })
    }
}

fn admit(socket: &SocketFile, group: &str, log: Log) -> Result<(), SocketError> {
    let message = match socket.admit(socket::group_number(group)?)? {
        Admission::Admitted => return Ok(()),
        Admission::NoSuchGroup => "there is no such group",
        Admission::NotPermitted => "this user may not give files to the group",
    };
    log.write(
        &Entry::new(Level::Info, "socket_private")
            .with("group", group)
            .with("message", format!("{message}; only this user reaches the control socket")),
    );
    Ok(())
}

fn tell_ready(socket: &Path, log: Log) {
    log.write(
        &Entry::new(Level::Info, "ready")
            .with("version", env!("CARGO_PKG_VERSION"))
            .shown("pid", rustix::process::getpid().as_raw_nonzero())
            .shown("socket", socket.display()),
    );
    if let Err(error) = notify::tell(notify::State::Ready) {
        log.write(&Entry::new(Level::Warn, "notify_failed").error(
            Category::System,
            "tell the service manager",
            &error.to_string(),
        ));
    }
}

/// Random bits for run ids.
fn seed() -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    let length = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(system("draw random numbers"))?;
    debug_assert_eq!(length, bytes.len(), "the kernel gives up to 256 bytes at once");
    Ok(u64::from_ne_bytes(bytes))
}

/// Lets the daemon have as many descriptors as it may: every run needs a few. What it had before,
/// soft and hard, is what its commands get.
fn raise_open_files(log: Log) -> (Option<u64>, Option<u64>) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(errno) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        log.write(&Entry::new(Level::Warn, "limit_not_raised").error(
            Category::System,
            "raise the number of open files",
            &errno.to_string(),
        ));
    }
    (current, maximum)
}
