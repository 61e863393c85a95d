//! The spools' place in the loop: their attendants' steps are carried out here, and whatever comes
//! of them is told to them.
//!
//! The loop waits for nothing: each spool has a keeper, a thread that touches its directories, and
//! commands go the same way as the scheduler's. What comes into `pending/` is told by the kernel.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use kron_config::{Action, DaemonSettings, SpoolDrop, SpoolSettings};
use kron_core::Category;
use kron_spool::{NewTask, Put, PutError, Recovered, SpoolError, State, TaskId, scheduled_id};
use kron_state::{RealDirectory, RunId, Store};
use nix::unistd::User;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::errand::{Errand, Launching};
use super::inbox::{Done, Results};
use super::worker;
use crate::api::view::SpoolView;
use crate::log::{Log, told};
use crate::machine::{Entry, Event, Launch, Level, StartFailure, StopMode};
use crate::metrics::{SpoolMetrics, write_spools};
use crate::queue::dispatcher::Moment;
use crate::queue::time::Believed;
use crate::random::Random;
use crate::spool::attendant::{Attendant, Happened, Step};
use crate::spool::keeper::{self, Old, Opened, Order, Purge};
use crate::spool::{Rules, plan};

/// How often old tasks are looked for.
const TIDY_INTERVAL: Duration = Duration::from_secs(3_600);
/// Bytes of events that are taken from the kernel at once.
const EVENTS_BYTES: usize = 64 * 1024;
/// Events after which others have their turn; the kernel keeps the rest.
const EVENTS_MAX: usize = 4_096;
/// What is to be told of `pending/`. A file may be renamed or linked into it, or written there.
const WATCHED: WatchFlags = WatchFlags::MOVED_TO
    .union(WatchFlags::CREATE)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Names a spool for as long as this daemon has it; another of the same name is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SpoolNumber(u64);

/// What has happened to a spool.
#[derive(Debug)]
pub(super) enum SpoolDone {
    Kept(keeper::Done),
    Opened(Box<Result<Opened, OpenError>>),
}

/// Why a spool cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("`producers`: there is no user `{name}`")]
    NoSuchUser { name: String },
    #[error("`producers`: cannot look for the user `{name}`")]
    Users { name: String, source: io::Error },
    #[error("cannot set it up")]
    SetUp(#[source] io::Error),
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl OpenError {
    pub(super) fn category(&self) -> Category {
        match self {
            OpenError::NoSuchUser { .. } => Category::Validation,
            OpenError::Users { .. } | OpenError::SetUp(_) => Category::System,
            OpenError::Spool(error) => error.category(),
        }
    }
}

/// All spools as the loop has them.
#[derive(Debug)]
pub(super) struct SpoolWorks {
    spools: HashMap<SpoolNumber, Work>,
    next_number: u64,
    watch: OwnedFd,
    handle: SpoolsHandle,
    /// Tasks that are being put for jobs of the scheduler's.
    handed: HashMap<RunId, TaskId>,
    random: Random,
    results: Results,
    store: Arc<Store<RealDirectory>>,
    state_dir: PathBuf,
    clock: Arc<Believed>,
    stopping: Option<StopMode>,
    log: Log,
}

/// One spool.
#[derive(Debug)]
struct Work {
    rules: Rules,
    attendant: Attendant,
    /// How its keeper is reached, once it is open.
    orders: Option<Sender<Order>>,
    /// Whether it is being opened.
    opening: bool,
    watched_as: Option<i32>,
    shared: Arc<SpoolShared>,
    /// Whether the configuration has it no more, so that it goes when nothing of it runs.
    leaving: bool,
    tidied_at: Option<Duration>,
    /// Tasks of an earlier daemon that could not be put in order so far.
    unrecovered: usize,
}

/// A spool as other threads see it.
#[derive(Debug)]
pub(crate) struct SpoolShared {
    view: Mutex<SpoolView>,
    orders: Mutex<Option<Sender<Order>>>,
    metrics: SpoolMetrics,
    clock: Arc<Believed>,
}

/// The spools as other threads see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpoolsHandle(Arc<RwLock<Vec<Arc<SpoolShared>>>>);

impl SpoolsHandle {
    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<SpoolShared>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        let all = self.all();
        let all: Vec<_> = all.iter().map(|spool| (spool.view(), &spool.metrics)).collect();
        write_spools(out, &all)
    }
}

impl SpoolShared {
    pub(crate) fn view(&self) -> SpoolView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks its keeper for something; `false` when there is none.
    pub(crate) fn order(&self, order: Order) -> bool {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
    }

    /// What a purge of everything older than this is.
    pub(crate) fn older_than(&self, seconds: u64, what: Old) -> Purge {
        let ms = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000);
        Purge { before: self.clock.now().wall.0.saturating_add_ms(-ms), what }
    }
}

/// What the spools need of the daemon.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) results: Results,
    pub(super) store: Arc<Store<RealDirectory>>,
    pub(super) state_dir: PathBuf,
    pub(super) clock: Arc<Believed>,
    pub(super) log: Log,
    pub(super) seed: u64,
}

/// A run of a spool's that goes on from an earlier daemon.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) spool: String,
    pub(super) task: TaskId,
    pub(super) run: kron_spool::Run,
}

impl SpoolWorks {
    pub(super) fn new(surroundings: Surroundings) -> io::Result<(SpoolWorks, SpoolsHandle)> {
        let Surroundings { results, store, state_dir, clock, log, seed } = surroundings;
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let handle = SpoolsHandle::default();
        let works = SpoolWorks {
            spools: HashMap::new(),
            next_number: 0,
            watch,
            handle: handle.clone(),
            handed: HashMap::new(),
            random: Random::of(seed),
            results,
            store,
            state_dir,
            clock,
            stopping: None,
            log,
        };
        Ok((works, handle))
    }

    /// Opens a spool as a daemon that starts does it: at once, or not at all.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(
        settings: &SpoolSettings,
        store: &Store<RealDirectory>,
        clock: &Believed,
    ) -> Result<Opened, OpenError> {
        Ok(keeper::open(&Rules::of(settings), &producers(settings)?, store, clock)?)
    }

    /// Takes charge of a spool that was opened. Its runs that go on are to be watched.
    pub(super) fn add(&mut self, settings: &SpoolSettings, opened: Opened) -> Vec<Adopted> {
        let number = self.insert(settings);
        let adopted = self.opened(number, Ok(opened));
        self.publish();
        adopted
    }

    fn insert(&mut self, settings: &SpoolSettings) -> SpoolNumber {
        self.next_number += 1;
        let number = SpoolNumber(self.next_number);
        let rules = Rules::of(settings);
        let attendant = Attendant::new(&settings.name, rules.clone(), self.random.next());
        let view = SpoolView {
            name: settings.name.clone(),
            dir: settings.dir.clone(),
            workers_max: settings.workers_max,
            pending: 0,
            delayed: 0,
            unhandled: 0,
            running: 0,
            error: None,
        };
        let shared = SpoolShared {
            view: Mutex::new(view),
            orders: Mutex::new(None),
            metrics: SpoolMetrics::default(),
            clock: self.clock.clone(),
        };
        let work = Work {
            rules,
            attendant,
            orders: None,
            opening: false,
            watched_as: None,
            shared: Arc::new(shared),
            leaving: false,
            tidied_at: None,
            unrecovered: 0,
        };
        self.spools.insert(number, work);
        number
    }

    /// A spool was opened, or could not be.
    fn opened(&mut self, number: SpoolNumber, opened: Result<Opened, OpenError>) -> Vec<Adopted> {
        let Some(work) = self.spools.get_mut(&number) else { return Vec::new() };
        work.opening = false;
        let name = work.rules.settings.name.clone();
        let results = self.results.clone();
        let tell = move |done| results.send(Done::Spool(number, SpoolDone::Kept(done)));
        let started = opened.and_then(|opened| {
            (0..opened.lost_len).for_each(|_| work.shared.metrics.count(Happened::Lost));
            let (clock, store) = (self.clock.clone(), self.store.clone());
            keeper::start(&work.rules.settings, opened, &self.state_dir, clock, store, tell)
                .map_err(OpenError::SetUp)
        });
        let (orders, recovered) = match started {
            Ok(started) => started,
            Err(error) => {
                let message = told(&error);
                let entry = Entry::new(Level::Error, "spool_not_opened").with("spool", name);
                self.log.write(&entry.error(error.category(), "open the spool", &message));
                work.shared.set_error(Some(message));
                return Vec::new();
            }
        };
        *work.shared.orders.lock().unwrap_or_else(PoisonError::into_inner) = Some(orders.clone());
        work.orders = Some(orders);
        work.shared.set_error(None);
        let pending = Path::new(&work.rules.settings.dir).join("tasks").join("pending");
        match inotify::add_watch(&self.watch, &pending, WATCHED) {
            Ok(watched_as) => work.watched_as = Some(watched_as),
            Err(errno) => {
                let message = format!(
                    "`{}` cannot be watched: {}; see `fs.inotify.max_user_watches`",
                    pending.display(),
                    io::Error::from(errno)
                );
                work.attendant.fail(message);
            }
        }
        let adopted = work.recover(self.clock.now(), recovered, self.log);
        // After the watch, so that nothing comes in between.
        work.attendant.scan();
        if let Some(mode) = self.stopping {
            work.attendant.stop(self.clock.now(), mode);
        }
        adopted
    }

    /// Other settings are in force. Spools that are new are opened in threads; those that are gone
    /// start nothing more, and go when nothing of them runs.
    pub(super) fn reconfigure(&mut self, settings: &[SpoolSettings]) {
        // One that leaves opens nothing, and waits for nothing longer than it was told to.
        if self.stopping.is_some() {
            return;
        }
        let now = self.clock.now();
        for work in self.spools.values_mut().filter(|work| !work.leaving) {
            match settings.iter().find(|settings| work.is_of(settings)) {
                Some(settings) => work.reconfigure(now, settings),
                None => {
                    work.leaving = true;
                    work.attendant.stop(now, StopMode::Wait);
                }
            }
        }
        for settings in settings {
            if self.spools.values().any(|work| !work.leaving && work.is_of(settings)) {
                continue;
            }
            // One that was about to leave stays.
            if let Some(work) = self.spools.values_mut().find(|work| work.is_of(settings)) {
                work.leaving = false;
                if self.stopping.is_none() {
                    work.attendant.stay();
                }
                work.reconfigure(now, settings);
                continue;
            }
            self.insert(settings);
        }
        self.open_closed();
        self.publish();
    }

    /// Opens what is not open and can be.
    fn open_closed(&mut self) {
        let taken = |dir: &str| {
            self.spools.values().any(|work| work.leaving && work.rules.settings.dir == dir)
        };
        let (mut closed, mut waits) = (Vec::new(), Vec::new());
        for (number, work) in self.spools.iter().filter(|(_, work)| work.is_closed()) {
            let to = if taken(&work.rules.settings.dir) { &mut waits } else { &mut closed };
            to.push(*number);
        }
        if self.stopping.is_some() {
            return;
        }
        for number in waits {
            if let Some(work) = self.spools.get(&number) {
                let message = "it is opened when what runs in its directory has ended";
                work.shared.set_error(Some(message.to_owned()));
            }
        }
        for number in closed {
            self.open_aside(number);
        }
    }

    /// Opens a spool in a thread of its own.
    fn open_aside(&mut self, number: SpoolNumber) {
        let Some(work) = self.spools.get_mut(&number) else { return };
        work.opening = true;
        let (rules, store, clock) = (work.rules.clone(), self.store.clone(), self.clock.clone());
        let (results, failed) = (self.results.clone(), self.results.clone());
        let spawned = worker::spawn("spool-open".to_owned(), move || {
            let opened = SpoolWorks::open(&rules.settings, &store, &clock);
            results.send(Done::Spool(number, SpoolDone::Opened(Box::new(opened))));
        });
        if let Err(error) = spawned {
            let error = Err(OpenError::SetUp(error));
            failed.send(Done::Spool(number, SpoolDone::Opened(Box::new(error))));
        }
    }

    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.spools.is_empty()
    }

    pub(super) fn owns(&self, run: &RunId) -> bool {
        self.spools.values().any(|work| work.attendant.owns(run))
    }

    /// The kernel has told something about the directories.
    pub(super) fn watched(&mut self) {
        let mut buffer = [MaybeUninit::<u8>::uninit(); EVENTS_BYTES];
        let mut came: HashMap<i32, Vec<String>> = HashMap::new();
        let mut scans: HashSet<i32> = HashSet::new();
        let mut reader = inotify::Reader::new(&self.watch, &mut buffer);
        let mut seen = 0;
        // What was taken from the kernel must be looked at.
        while seen < EVENTS_MAX || !reader.is_buffer_empty() {
            seen += 1;
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let (flags, number) = (event.events(), event.wd());
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                // Something was not told: everything is looked at.
                self.spools.values_mut().for_each(|work| work.attendant.scan());
                continue;
            }
            let of = |work: &&mut Work| work.watched_as == Some(number);
            let Some(work) = self.spools.values_mut().find(of) else { continue };
            if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED)
            {
                work.attendant.fail("its `pending/` was moved away or deleted".to_owned());
                continue;
            }
            let Some(name) = event.file_name() else { continue };
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            let leaves = flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
            let Ok(name) = name.to_str() else {
                if !leaves {
                    // The scan knows what to do with it.
                    scans.insert(number);
                }
                continue;
            };
            if leaves {
                work.attendant.left(name);
            } else {
                let names = came.entry(number).or_default();
                // A file that is written is told when it is made and when it is closed.
                if names.last().map(String::as_str) != Some(name) {
                    names.push(name.to_owned());
                }
            }
        }
        for (number, names) in came {
            let of = |work: &&mut Work| work.watched_as == Some(number);
            if let Some(work) = self.spools.values_mut().find(of) {
                work.attendant.came(names);
            }
        }
        for number in scans {
            let of = |work: &&mut Work| work.watched_as == Some(number);
            if let Some(work) = self.spools.values_mut().find(of) {
                work.attendant.scan();
            }
        }
    }

    /// Something was done for a spool.
    pub(super) fn done(&mut self, number: SpoolNumber, done: SpoolDone) -> Vec<Adopted> {
        let now = self.clock.now();
        let done = match done {
            SpoolDone::Opened(opened) => return self.opened(number, *opened),
            // Somebody waits for these also when the spool has gone meanwhile.
            SpoolDone::Kept(keeper::Done::Put(run, result)) => {
                if let Some(id) = self.handed.remove(&run) {
                    let result = handed_over(&id, result);
                    self.results.send(Done::HandedOver { run, result });
                }
                return Vec::new();
            }
            SpoolDone::Kept(keeper::Done::Closed) => {
                self.open_closed();
                return Vec::new();
            }
            SpoolDone::Kept(done) => done,
        };
        let Some(work) = self.spools.get_mut(&number) else { return Vec::new() };
        let attendant = &mut work.attendant;
        match done {
            keeper::Done::LookedAt(looked) => attendant.looked_at(now, looked),
            keeper::Done::Broken(message) => attendant.fail(message),
            keeper::Done::Recovered(result) => match *result {
                Ok(recovered) => return work.recover(now, recovered, self.log),
                Err(error) => attendant.fail(told(&error)),
            },
            keeper::Done::Looked(looked) => attendant.looked(now, looked),
            keeper::Done::Fetched(run, result) => attendant.fetched(now, &run, *result),
            keeper::Done::Started(run, result) => attendant.started(now, &run, *result),
            keeper::Done::Finished(run, result) => attendant.finished(now, &run, *result),
            keeper::Done::NotScanned(error) => attendant.not_scanned(now, &error),
            keeper::Done::NotPurged(error) => {
                let entry = Entry::new(Level::Error, "spool_not_tidied");
                let entry = entry.with("spool", work.rules.settings.name.as_str());
                self.log.write(&entry.error(error.category(), "remove old tasks", &told(&error)));
            }
            keeper::Done::Put(..) | keeper::Done::Closed => {}
        }
        Vec::new()
    }

    /// Puts into a spool what a job of the scheduler wants done. Asking twice for the same period
    /// puts it there once.
    ///
    /// # Errors
    /// When it cannot be put.
    pub(super) fn hand_over(&mut self, launch: &Launch) -> Result<(), StartFailure> {
        let Action::Spool(drop) = &launch.definition.job.action else {
            return Err(not_spooled(Category::Execution, "the job has a command".to_owned()));
        };
        let SpoolDrop { spool, task_type, data } = &**drop;
        let id = scheduled_id(launch.definition.job.identity(), &launch.period.to_string())
            .map_err(|error| not_spooled(Category::Execution, error.to_string()))?;
        let task = NewTask::new(id.clone(), task_type, data)
            .map_err(|error| not_spooled(Category::Execution, error.to_string()))?;
        let of = |work: &&Work| !work.leaving && work.rules.settings.name == **spool;
        let Some(work) = self.spools.values().find(of) else {
            return Err(not_spooled(Category::Execution, format!("there is no spool `{spool}`")));
        };
        if let Some(failure) = work.attendant.failure() {
            let why = format!("the spool `{spool}` rests: {failure}");
            return Err(not_spooled(Category::System, why));
        }
        let order = Order::Put(launch.run.clone(), Box::new(task));
        if work.orders.as_ref().is_none_or(|orders| orders.send(order).is_err()) {
            let why = format!("the spool `{spool}` is not open");
            return Err(not_spooled(Category::System, why));
        }
        self.handed.insert(launch.run.clone(), id);
        Ok(())
    }

    /// A run of a spool's has come a step further.
    pub(super) fn run_event(&mut self, event: Event) {
        let now = self.clock.now();
        let Some(run) = event.run().cloned() else { return };
        let of = |work: &&mut Work| work.attendant.owns(&run);
        let Some(work) = self.spools.values_mut().find(of) else { return };
        match event {
            Event::Armed { supervisor, command, boot_id, .. } => {
                work.attendant.armed(&run, supervisor, command, boot_id);
            }
            Event::LaunchFailed { failure, .. } | Event::ExecFailed { failure, .. } => {
                work.attendant.not_launched(now, &run, &failure);
            }
            Event::Ended { report, .. } => work.attendant.ended(now, &run, &report),
            _ => {}
        }
    }

    /// Time has passed, or something has.
    pub(super) fn tick(&mut self) {
        let now = self.clock.now();
        self.spools.values_mut().for_each(|work| work.attendant.tick(now));
    }

    pub(super) fn sleep(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.spools.values().map(|work| work.attendant.sleep(now)).min()
    }

    /// The daemon stops.
    pub(super) fn stop(&mut self, mode: StopMode) {
        if self.stopping != Some(mode) {
            self.stopping = Some(mode);
            let now = self.clock.now();
            self.spools.values_mut().for_each(|work| work.attendant.stop(now, mode));
        }
    }

    pub(super) fn may_leave(&self) -> bool {
        let now = self.clock.now();
        self.spools.values().all(|work| work.attendant.may_leave(now)) && self.handed.is_empty()
    }

    /// Carries out what the attendants want, as far as the loop is not needed for it.
    pub(super) fn work(&mut self) -> Vec<Errand> {
        let mut errands = Vec::new();
        for work in self.spools.values_mut() {
            for step in work.attendant.take_steps() {
                errands.extend(work.step(step, self.log));
            }
            for happened in work.attendant.take_happened() {
                work.shared.metrics.count(happened);
            }
            work.show();
        }
        let before = self.spools.len();
        let log = self.log;
        let watch = &self.watch;
        self.spools.retain(|_, work| {
            let goes = work.leaving && work.attendant.is_idle() && !work.opening;
            if goes {
                if let Some(watched_as) = work.watched_as {
                    // The kernel may have removed it already.
                    let _ = inotify::remove_watch(watch, watched_as);
                }
                *work.shared.orders.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let name = work.rules.settings.name.as_str();
                log.write(&Entry::new(Level::Info, "spool_closed").with("spool", name));
            }
            !goes
        });
        if self.spools.len() != before {
            self.publish();
        }
        errands
    }

    /// What nothing waits for: old tasks, and spools that could not be opened.
    pub(super) fn chores(&mut self) {
        let now = self.clock.now();
        for work in self.spools.values_mut().filter(|work| !work.leaving) {
            let recent = work.tidied_at.is_some_and(|at| now.boot < at + TIDY_INTERVAL);
            if let (Some(orders), false) = (&work.orders, recent) {
                work.tidied_at = Some(now.boot);
                let keep_s = work.rules.settings.keep.get();
                let purge = work.shared.older_than(keep_s, Old::Completed);
                // A keeper that is gone took its spool with it.
                let _ = orders.send(Order::Purge(purge, None));
            }
            if let Some(orders) = &work.orders {
                let _ = orders.send(Order::Check);
            }
        }
        self.open_closed();
    }

    /// Shows others which spools there are.
    fn publish(&self) {
        let mut all: Vec<_> = self
            .spools
            .values()
            .filter(|work| !work.leaving)
            .map(|work| work.shared.clone())
            .collect();
        all.sort_by_key(|spool| spool.view().name);
        *self.handle.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

impl AsFd for SpoolWorks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

impl Work {
    /// Whether these are settings of the same spool.
    fn is_of(&self, settings: &SpoolSettings) -> bool {
        let own = &self.rules.settings;
        (&own.name, &own.dir, &own.producers)
            == (&settings.name, &settings.dir, &settings.producers)
    }

    fn is_closed(&self) -> bool {
        self.orders.is_none() && !self.opening && !self.leaving
    }

    fn reconfigure(&mut self, now: Moment, settings: &SpoolSettings) {
        self.rules = Rules::of(settings);
        self.attendant.reconfigure(now, self.rules.clone());
    }

    fn step(&mut self, step: Step, log: Log) -> Option<Errand> {
        let order = match step {
            Step::Scan => Order::Scan,
            Step::Look(names) => Order::Look(names),
            Step::Recover => Order::Recover(self.rules.clone()),
            Step::Fetch(run, id) => Order::Fetch(run, id),
            Step::Start(run, start) => Order::Start(run, start),
            Step::Finish(run, finish) => Order::Finish(run, finish),
            Step::Launch(launch) => return Some(Errand::Launch(Launching::Spooled(launch))),
            Step::LetGo(run) => return Some(Errand::LetGo(run)),
            Step::Abandon(run) => return Some(Errand::Abandon(run)),
            Step::End(run, urgency) => return Some(Errand::End(run, urgency)),
            Step::Acknowledge(run) => return Some(Errand::Acknowledge(run)),
            Step::Log(entry) => {
                log.write(&entry);
                return None;
            }
        };
        if let Some(orders) = &self.orders {
            // A keeper that is gone has taken the daemon with it.
            let _ = orders.send(order);
        }
        None
    }

    /// Tells what was found and put in order, and takes charge of what goes on.
    fn recover(&mut self, now: Moment, recovered: Recovered, log: Log) -> Vec<Adopted> {
        let name = self.rules.settings.name.as_str();
        let identity: Arc<str> = plan::identity(name).into();
        let entry = |level, event| Entry::new(level, event).of(&identity).with("spool", name);
        // What is not in order is told once, and tried until it is.
        let left = recovered.undecided.len() + recovered.failed.len();
        let is_news = std::mem::replace(&mut self.unrecovered, left) != left;
        self.attendant.unrecovered(now, left);
        for task in &recovered.returned {
            let entry = entry(Level::Warn, "spool_task_returned");
            let entry = entry.shown("task_id", &task.id).shown("state", task.state);
            let why = task.last_error.as_deref().unwrap_or("it was never let go");
            log.write(&entry.with("attempts", task.attempts).with("reason", why));
        }
        for (id, state) in &recovered.removed {
            let entry = entry(Level::Info, "spool_leftover_removed");
            log.write(&entry.shown("task_id", id).shown("state", state));
        }
        for aside in &recovered.set_aside {
            self.shared.metrics.count(Happened::SetAside);
            let entry = entry(Level::Warn, "spool_rejected").with("name", aside.name.as_str());
            log.write(&entry.with("path", aside.path.as_str()).error(
                Category::Validation,
                "look at a task",
                &aside.fault.to_string(),
            ));
        }
        for id in recovered.undecided.iter().filter(|_| is_news) {
            let entry = entry(Level::Error, "spool_task_undecided").shown("task_id", id);
            log.write(&entry.error(
                Category::System,
                "look for the process",
                "whether it is alive could not be told; it is looked at again",
            ));
        }
        for (file, error) in recovered.failed.iter().filter(|_| is_news) {
            let entry = entry(Level::Error, "spool_stuck").with("name", file.as_str());
            log.write(&entry.error(error.category(), "put in order", &told(error)));
        }
        let mut adopted = Vec::new();
        for task in recovered.adopted {
            let Some(run) = task.run.clone() else { continue };
            log.write(&entry(Level::Info, "spool_task_adopted").shown("task_id", &task.id));
            adopted.push(Adopted {
                spool: name.to_owned(),
                task: task.id.clone(),
                run: run.clone(),
            });
            self.attendant.adopt(run.run_id, task);
        }
        adopted
    }

    /// Shows others how it is.
    fn show(&self) {
        let (waiting, rules) = (self.attendant.waiting(), self.attendant.rules());
        let mut view = self.shared.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.workers_max = rules.settings.workers_max;
        view.pending = waiting.len();
        view.delayed = waiting.delayed_len();
        view.unhandled = waiting.unhandled_len(rules.types());
        view.running = self.attendant.running_len();
        if let Some(failure) = self.attendant.failure() {
            view.error = Some(failure.to_owned());
        }
    }
}

impl SpoolShared {
    fn set_error(&self, error: Option<String>) {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).error = error;
    }
}

/// What runs of a spool are called among the scheduler's.
pub(super) fn named(spool: &str, task: &TaskId) -> (Arc<str>, kron_state::PeriodRef) {
    let period = kron_state::PeriodRef::Manual(task.to_string().into());
    (plan::identity(spool).into(), period)
}

/// Whether all users are there whose files are accepted.
///
/// # Errors
/// The first who is not.
pub(super) fn check_producers(settings: &DaemonSettings) -> Result<(), OpenError> {
    settings.spools.iter().try_for_each(|spool| producers(spool).map(|_| ()))
}

/// The numbers of the users whose files are accepted.
fn producers(settings: &SpoolSettings) -> Result<Vec<u32>, OpenError> {
    let number = |name: &String| {
        if let Ok(number) = name.parse() {
            return Ok(number);
        }
        match User::from_name(name) {
            Ok(Some(user)) => Ok(user.uid.as_raw()),
            Ok(None) => Err(OpenError::NoSuchUser { name: name.clone() }),
            Err(errno) => Err(OpenError::Users { name: name.clone(), source: errno.into() }),
        }
    };
    settings.producers.iter().map(number).collect()
}

fn not_spooled(category: Category, message: String) -> StartFailure {
    StartFailure { category, operation: "spool".to_owned(), message }
}

fn handed_over(id: &TaskId, result: Result<Put, PutError>) -> Result<String, StartFailure> {
    match result {
        Ok(Put::New | Put::Present { state: State::Pending, .. }) => {
            Ok(format!("spooled as task {id}"))
        }
        Ok(Put::Present { state, .. }) => Ok(format!("spooled as task {id}, which is {state}")),
        Err(error @ (PutError::Unfit(_) | PutError::InTheWay { .. })) => {
            Err(not_spooled(Category::Execution, told(&error)))
        }
        Err(PutError::Spool(error)) => Err(not_spooled(Category::System, told(&error))),
    }
}
