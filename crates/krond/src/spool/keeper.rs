//! The keeper of one spool: the thread that alone touches its directories.
//!
//! Because there is one, no look at a file ever meets a transition half way, and whatever has come
//! together goes together: tasks that start or end in the same moment share their syncs. A scan of
//! everything that waits makes way for whatever else is wanted.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, UNIX_EPOCH};

use kron_config::SpoolSettings;
use kron_core::Timestamp;
use kron_spool::{
    Fate, Fault, Finish, Found, Look, NewTask, Next, OUTPUT_BYTES_MAX, Purged, Put, PutError,
    Recovered, RetryError, Spool, SpoolError, SpoolLock, Start, State, Task, TaskId,
};
use kron_state::{RealDirectory, RunId, Store};
use tokio::sync::oneshot;

use super::attendant::{Looked, waiter};
use super::{Rules, log_directory, log_path, recovery};
use crate::daemon::worker;
use crate::queue::time::Believed;

/// Orders that are taken together.
const ORDERS_MAX: usize = 256;
/// Names of a scan that are looked at before other orders are: less than a millisecond, since a
/// task that starts and one that ends may wait for it.
const SCAN_STEP: usize = 32;
/// Old tasks that are removed before other orders are looked at; they share their syncs.
const PURGE_STEP: usize = 256;
/// How long a log is left alone after its last change: its run may be about to start.
const LOG_PATIENCE: Duration = Duration::from_secs(60);

/// Something that the keeper is to do.
#[derive(Debug)]
pub(crate) enum Order {
    Scan,
    /// Put in order what an earlier daemon left and could not be put in order before.
    Recover(Rules),
    /// See whether the directories are still where they should be.
    Check,
    Look(Vec<String>),
    Fetch(RunId, TaskId),
    Start(RunId, Box<Start>),
    Finish(RunId, Box<Finish>),
    /// Put a task there for a job of the scheduler's.
    Put(RunId, Box<NewTask>),
    Retry(TaskId, oneshot::Sender<Result<Task, RetryError>>),
    Purge(Purge, Option<Reply>),
}

/// What is to be removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purge {
    pub(crate) before: Timestamp,
    pub(crate) what: Old,
}

/// Which old things are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    Completed,
    Rejected,
}

/// What the keeper has done.
#[derive(Debug)]
pub(crate) enum Done {
    /// Some of what a scan has found.
    Looked(Vec<Looked>),
    /// What was to be looked at.
    LookedAt(Vec<Looked>),
    Recovered(Box<Result<Recovered, SpoolError>>),
    /// Nothing more can be promised about it, or its directories are not where they should be.
    Broken(String),
    Fetched(RunId, Box<Result<Found, Looked>>),
    Started(RunId, Box<Result<Task, SpoolError>>),
    Finished(RunId, Box<Result<Task, SpoolError>>),
    Put(RunId, Result<Put, PutError>),
    /// It could not go over everything that waits.
    NotScanned(SpoolError),
    /// Old things could not be removed.
    NotPurged(SpoolError),
    /// It has ended, and its lock is free.
    Closed,
}

/// A spool that was opened and in which everything is in order.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) spool: Spool,
    lock: SpoolLock,
    pub(crate) recovered: Recovered,
    /// How many of the runs that were found are lost.
    pub(crate) lost_len: usize,
}

/// Opens a spool and puts in order what an earlier daemon left.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn open(
    rules: &Rules,
    producers: &[u32],
    store: &Store<RealDirectory>,
    clock: &Believed,
) -> Result<Opened, SpoolError> {
    let (spool, lock) = Spool::open(Path::new(&rules.settings.dir), producers)?;
    let mut lost: HashSet<TaskId> = HashSet::new();
    let mut judge = |task: &Task| {
        let fate = recovery::judge(task, store);
        if fate == Fate::Lost {
            lost.insert(task.id.clone());
        }
        fate
    };
    let recovered =
        spool.recover(clock.now().wall.0, &mut judge, &|task_type| rules.policy(task_type))?;
    // Leftovers of what has ended are not among these.
    let lost_len = recovered.returned.iter().filter(|task| lost.contains(&task.id)).count();
    Ok(Opened { spool, lock, recovered, lost_len })
}

/// Starts the keeper. It ends when nobody can order anything any more, and lets the lock go then.
///
/// # Errors
/// When there is no thread for it.
pub(crate) fn start(
    settings: &SpoolSettings,
    opened: Opened,
    state_dir: &Path,
    clock: Arc<Believed>,
    store: Arc<Store<RealDirectory>>,
    tell: impl Fn(Done) + Send + 'static,
) -> io::Result<(Sender<Order>, Recovered)> {
    let (name, dir) = (settings.name.as_str(), PathBuf::from(&settings.dir));
    let (sender, orders) = channel();
    let Opened { spool, lock, recovered, lost_len: _ } = opened;
    let logs = log_directory(state_dir, name);
    std::fs::create_dir_all(&logs)
        .map_err(|error| io::Error::other(format!("`{}`: {error}", logs.display())))?;
    let state_dir = state_dir.to_owned();
    let name = name.to_owned();
    let active = recovered.adopted.iter().filter_map(|task| task.run.as_ref());
    let active: HashSet<RunId> = active.map(|run| run.run_id.clone()).collect();
    worker::spawn(format!("spool-{name}"), move || {
        let scan = VecDeque::new();
        let (scan_again, is_wrong) = (false, false);
        let mut keeper = Keeper {
            spool,
            name,
            state_dir,
            clock,
            tell,
            scan,
            scan_again,
            purges: VecDeque::new(),
            active,
            store,
            dir,
            is_wrong,
        };
        keeper.run(&orders);
        drop(lock);
        (keeper.tell)(Done::Closed);
    })?;
    Ok((sender, recovered))
}

struct Keeper<T> {
    spool: Spool,
    name: String,
    state_dir: PathBuf,
    clock: Arc<Believed>,
    tell: T,
    /// Names that are still to be looked at.
    scan: VecDeque<String>,
    /// Whether everything is to be looked at again after that.
    scan_again: bool,
    /// What is being removed.
    purges: VecDeque<Purging>,
    /// Runs that have not ended.
    active: HashSet<RunId>,
    store: Arc<Store<RealDirectory>>,
    /// Where the spool should be.
    dir: PathBuf,
    /// Whether it was told that something is wrong with it.
    is_wrong: bool,
}

/// Who wants to know what was removed.
type Reply = oneshot::Sender<Result<Purged, SpoolError>>;

/// Old tasks that are being removed.
struct Purging {
    names: VecDeque<String>,
    before: Timestamp,
    purged: Purged,
    reply: Option<Reply>,
}

/// Orders that are carried out together.
#[derive(Default)]
struct Batch {
    starts: Vec<(RunId, Box<Start>)>,
    finishes: Vec<(RunId, Box<Finish>)>,
    puts: Vec<(RunId, Box<NewTask>)>,
}

impl<T: Fn(Done)> Keeper<T> {
    fn run(&mut self, orders: &Receiver<Order>) {
        loop {
            let first = if self.scan.is_empty() && self.purges.is_empty() {
                orders.recv().ok()
            } else {
                match orders.try_recv() {
                    Ok(order) => Some(order),
                    Err(TryRecvError::Disconnected) => None,
                    Err(TryRecvError::Empty) => {
                        self.scan_on();
                        self.purge_on();
                        continue;
                    }
                }
            };
            let Some(first) = first else { return };
            let mut batch = Batch::default();
            let more = orders.try_iter().take(ORDERS_MAX - 1);
            for order in std::iter::once(first).chain(more) {
                self.take(order, &mut batch);
            }
            self.carry_out(batch);
            if self.spool.check().is_err() {
                self.check();
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now().wall.0
    }

    fn take(&mut self, order: Order, batch: &mut Batch) {
        match order {
            Order::Start(run, start) => batch.starts.push((run, start)),
            Order::Finish(run, finish) => batch.finishes.push((run, finish)),
            Order::Put(run, task) => batch.puts.push((run, task)),
            // One that is under way is brought to its end first, so that every name has its turn.
            Order::Scan if !self.scan.is_empty() => self.scan_again = true,
            Order::Scan => self.scan(),
            Order::Recover(rules) => {
                let recovered = self.recover(&rules);
                (self.tell)(Done::Recovered(Box::new(recovered)));
            }
            Order::Check => self.check(),
            Order::Look(names) => {
                let now = self.now();
                (self.tell)(Done::LookedAt(self.look_at(names, now)));
            }
            Order::Fetch(run, id) => {
                let fetched = self.fetch(&id);
                (self.tell)(Done::Fetched(run, Box::new(fetched)));
            }
            // Whoever asked may have gone.
            Order::Retry(id, reply) => drop(reply.send(self.spool.retry(&id, self.now()))),
            Order::Purge(purge, reply) => self.purge(purge, reply),
        }
    }

    /// Reports tasks as started, and waits until the daemon has released their commands and they
    /// have ended.
    #[cfg(kron_canary)]
    fn tell_of_starts_too_early(&self, runs: &[RunId], starts: &[Start], now: Timestamp) {
        for (run, start) in runs.iter().zip(starts) {
            let mut task = start.found.task.clone();
            task.state = State::Running;
            task.attempts += 1;
            task.started_at = Some(now);
            task.run = Some(start.run.clone());
            (self.tell)(Done::Started(run.clone(), Box::new(Ok(task))));
        }
        for start in starts {
            worker::wait_until_gone(i64::from(start.run.command.pid));
        }
    }

    fn carry_out(&mut self, batch: Batch) {
        let now = self.now();
        // Ends first: they make room, and somebody waits for the acknowledgement.
        if !batch.finishes.is_empty() {
            #[cfg(kron_canary)]
            if kron_canary::Canary::SpoolAcknowledgedBeforeRecorded.is_active() {
                wait_for_supervisors(&batch.finishes);
            }
            let (runs, finishes): (Vec<(RunId, Told)>, Vec<Finish>) = batch
                .finishes
                .into_iter()
                .map(|(run, finish)| {
                    let (finish, told) = self.with_output(&run, *finish);
                    ((run, told), finish)
                })
                .unzip();
            let results = self.spool.finish(finishes, now);
            for ((run, told), result) in runs.into_iter().zip(results) {
                if result.is_ok() {
                    self.active.remove(&run);
                }
                if told == Told::All && result.is_ok() {
                    // What cannot be removed is with the next tidying.
                    let _ = std::fs::remove_file(log_path(&self.state_dir, &self.name, &run));
                }
                (self.tell)(Done::Finished(run, Box::new(result)));
            }
        }
        if !batch.starts.is_empty() {
            let (runs, starts): (Vec<RunId>, Vec<Start>) =
                batch.starts.into_iter().map(|(run, start)| (run, *start)).unzip();
            #[cfg(kron_canary)]
            if kron_canary::Canary::SpoolLetGoBeforeRecorded.is_active() {
                self.tell_of_starts_too_early(&runs, &starts, now);
            }
            for (run, result) in runs.into_iter().zip(self.spool.start(starts, now)) {
                if result.is_ok() {
                    self.active.insert(run.clone());
                }
                #[cfg(kron_canary)]
                if kron_canary::Canary::SpoolLetGoBeforeRecorded.is_active() {
                    continue;
                }
                (self.tell)(Done::Started(run, Box::new(result)));
            }
        }
        if !batch.puts.is_empty() {
            // Nobody would find a task again that is put into a directory that was moved away.
            self.check();
            let (runs, tasks): (Vec<RunId>, Vec<NewTask>) =
                batch.puts.into_iter().map(|(run, task)| (run, *task)).unzip();
            let gone = || SpoolError::Gone { path: self.dir.display().to_string() };
            let results = match self.is_wrong {
                true => tasks.iter().map(|_| Err(gone().into())).collect(),
                false => self.spool.put(&tasks, now),
            };
            for (run, result) in runs.into_iter().zip(results) {
                (self.tell)(Done::Put(run, result));
            }
        }
    }

    /// Goes over everything in `pending/`.
    fn scan(&mut self) {
        let now = self.now();
        let names = self.spool.set_aside_no_texts(now).and_then(|aside| {
            let aside = aside.into_iter().map(|result| match result {
                Ok(aside) => Looked::SetAside(aside),
                Err(error) => Looked::StuckNoText(crate::log::told(&error)),
            });
            (self.tell)(Done::Looked(aside.collect()));
            self.spool.pending_names()
        });
        match names {
            Ok(names) => self.scan = names.into(),
            Err(error) => (self.tell)(Done::NotScanned(error)),
        }
    }

    fn scan_on(&mut self) {
        if self.scan.is_empty() {
            return;
        }
        let now = self.now();
        let step = self.scan.len().min(SCAN_STEP);
        let names: Vec<String> = self.scan.drain(..step).collect();
        (self.tell)(Done::Looked(self.look_at(names, now)));
        if self.scan.is_empty() && std::mem::take(&mut self.scan_again) {
            self.scan();
        }
    }

    /// Puts in order what could not be put in order before. What this daemon has started is alive.
    fn recover(&self, rules: &Rules) -> Result<Recovered, SpoolError> {
        let mut judge = |task: &Task| match &task.run {
            Some(run) if self.active.contains(&run.run_id) => Fate::Alive,
            _ => recovery::judge(task, &self.store),
        };
        let policy = |task_type: &str| rules.policy(task_type);
        let mut recovered = self.spool.recover(self.now(), &mut judge, &policy)?;
        let is_known =
            |task: &Task| task.run.as_ref().is_some_and(|run| self.active.contains(&run.run_id));
        recovered.adopted.retain(|task| !is_known(task));
        Ok(recovered)
    }

    /// Tells when nothing more can be promised, or when others would look for it elsewhere.
    fn check(&mut self) {
        let wrong = match (self.spool.check(), self.spool.is_at(&self.dir)) {
            (Err(error), _) => crate::log::told(&error),
            (Ok(()), Ok(false)) => {
                format!("`{}` was moved away, deleted or replaced", self.dir.display())
            }
            (Ok(()), _) => return,
        };
        if !std::mem::replace(&mut self.is_wrong, true) {
            (self.tell)(Done::Broken(wrong));
        }
    }

    /// Looks at names, and does what follows at once. What is set aside together shares its syncs.
    fn look_at(&self, names: Vec<String>, now: Timestamp) -> Vec<Looked> {
        let (mut looked, mut unfit) = (Vec::new(), Vec::new());
        for name in names {
            match self.look(name, now) {
                Ok(it) => looked.push(it),
                Err(thing) => unfit.push(thing),
            }
        }
        let aside = self.spool.set_aside_all(State::Pending, &unfit, now).into_iter();
        looked.extend(aside.zip(unfit).map(|(aside, (name, fault))| match aside {
            Ok(aside) => Looked::SetAside(aside),
            Err(error) => Looked::Stuck(name, format!("{fault}; {}", crate::log::told(&error))),
        }));
        looked
    }

    /// Looks at a name; the error is something to be set aside.
    fn look(&self, name: String, now: Timestamp) -> Result<Looked, (String, Fault)> {
        let stuck = |name: String, error: &SpoolError| Looked::Stuck(name, crate::log::told(error));
        Ok(match self.spool.look(&name, now) {
            Ok(Look::Task(found)) => Looked::Waits(waiter(&found.task)),
            Ok(Look::NotYet(at)) => Looked::NotYet(name, at),
            Ok(Look::Gone | Look::Ignored) => Looked::Gone(name),
            Ok(Look::Unfit(fault)) => return Err((name, fault)),
            Ok(Look::Repeat(repeat)) => match self.spool.drop_repeat(&repeat, now) {
                Ok(None) => Looked::Repeated(repeat.found.task.id.clone(), repeat.other),
                Ok(Some(aside)) => Looked::SetAside(aside),
                Err(error) => stuck(name, &error),
            },
            Err(error) => stuck(name, &error),
        })
    }

    /// Reads a task again that is to be started.
    fn fetch(&self, id: &TaskId) -> Result<Found, Looked> {
        let now = self.now();
        match self.spool.look(&id.file_name(), now) {
            Ok(Look::Task(found)) => Ok(*found),
            _ => {
                let name = id.file_name();
                let looked = self.look_at(vec![name.clone()], now).pop();
                Err(looked.unwrap_or(Looked::Gone(name)))
            }
        }
    }

    /// Adds the end of what the command wrote to its result, and says whether that is all of it.
    fn with_output(&self, run: &RunId, finish: Finish) -> (Finish, Told) {
        let Finish { task, next: Next::Completed(mut result) } = finish else {
            return (finish, Told::InPart);
        };
        let log = log_path(&self.state_dir, &self.name, run);
        let told = match tail(&log) {
            Ok((output, told)) => {
                result.output = output;
                told
            }
            // It stays, for people.
            Err(_) => Told::InPart,
        };
        (Finish { task, next: Next::Completed(result) }, told)
    }

    /// Removes what is old. Completed tasks may be very many: they make way for whatever else is
    /// wanted.
    fn purge(&mut self, purge: Purge, reply: Option<Reply>) {
        let names = match purge.what {
            Old::Rejected => {
                return self.purged(self.spool.purge_rejected(purge.before), reply);
            }
            Old::Completed => self.spool.purge_names(),
        };
        self.purge_logs(purge.before);
        match names {
            Ok(names) => self.purges.push_back(Purging {
                names: names.into(),
                before: purge.before,
                purged: Purged::default(),
                reply,
            }),
            Err(error) => self.purged(Err(error), reply),
        }
    }

    fn purge_on(&mut self) {
        let Some(mut purging) = self.purges.pop_front() else { return };
        let step = purging.names.len().min(PURGE_STEP);
        let names: Vec<String> = purging.names.drain(..step).collect();
        match self.spool.purge_some(&names, purging.before, self.now()) {
            Err(error) => self.purged(Err(error), purging.reply),
            Ok(purged) => {
                purging.purged.completed += purged.completed;
                purging.purged.temporary += purged.temporary;
                if purging.names.is_empty() {
                    self.purged(Ok(purging.purged), purging.reply);
                } else {
                    self.purges.push_front(purging);
                }
            }
        }
    }

    fn purged(&self, purged: Result<Purged, SpoolError>, reply: Option<Reply>) {
        match (reply, purged) {
            // Whoever asked may have gone.
            (Some(reply), purged) => drop(reply.send(purged)),
            (None, Err(error)) => (self.tell)(Done::NotPurged(error)),
            (None, Ok(_)) => {}
        }
    }

    /// Removes logs that are as old. They only help people; what goes wrong here does no harm.
    fn purge_logs(&self, before: Timestamp) {
        let directory = log_directory(&self.state_dir, &self.name);
        let before = before.unix_ms().min(self.now().unix_ms() - LOG_PATIENCE.as_millis() as i64);
        let before = Duration::from_millis(u64::try_from(before).unwrap_or_default());
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "log") || self.is_active(&path)
            {
                continue;
            }
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let changed = changed.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            if changed.is_some_and(|at| at < before) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Whether this is the log of a run that has not ended.
    fn is_active(&self, log: &Path) -> bool {
        let of = log.file_stem();
        self.active.iter().any(|run| of == Some(OsStr::new(run.as_str())))
    }
}

/// Waits until the supervisors of these tasks, which may exit, are gone.
#[cfg(kron_canary)]
fn wait_for_supervisors(finishes: &[(RunId, Box<Finish>)]) {
    for run in finishes.iter().filter_map(|(_, finish)| finish.task.run.as_ref()) {
        worker::wait_until_gone(i64::from(run.supervisor.pid));
    }
}

/// How much of a log is in a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    All,
    InPart,
}

/// The end of a file, as text; nothing when it is empty.
fn tail(path: &Path) -> io::Result<(Option<String>, Told)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES_MAX as u64)))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // What is no text is changed, and takes more room than is kept.
    let all = length <= bytes.len() as u64 && matches!(text, std::borrow::Cow::Borrowed(_));
    let told = if all { Told::All } else { Told::InPart };
    Ok(((!text.is_empty()).then(|| text.into_owned()), told))
}
