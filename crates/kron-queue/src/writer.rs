//! The one who writes, and how one commit serves many.
//!
//! A thread takes whatever waits, runs each operation in a savepoint of one transaction, commits once,
//! and then answers. A lone operation waits for nobody: the thread commits as soon as nothing else
//! is there, and what arrives during a commit shares the next one. Who asks while nobody else does
//! need not even wake the thread: [`Shift::alone`] does it where it is called.
//!
//! **Invariant:** an operation is answered well only after the commit that carries it returned. An
//! operation that fails takes back only itself. When a commit fails, everybody in it is told; when
//! the disk failed, nothing more is written (`StoreError::Stopped`), because nobody knows what a
//! failed write left behind. A panic while it writes is a broken invariant of ours or of whoever
//! asked: everybody who waits is told, and nothing more is written either. A full disk and a lock
//! that another program holds are told to those they hit, and do not stop the queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use rusqlite::Connection;

use crate::change::{Change, Observers};
use crate::error::{StoreError, is_fatal};
use crate::id::{ClaimToken, IdSource};
use crate::limits::BATCH_OPERATIONS_MAX;
use crate::purge::PurgePermit;
use crate::rules::Rules;
use crate::schedule::Timings;
use crate::timestamp::Timestamp;

/// Something that changes the queue, as one transaction.
pub trait Operation: Send + 'static {
    /// What it answers.
    type Output: Send + 'static;
    /// Why it may be refused.
    type Error: AreaError;

    /// Does a bounded piece of what has to be done first, and says whether there is more of it.
    /// What it did is kept, and other operations may come between the pieces.
    ///
    /// # Errors
    /// When the database fails.
    fn prepare(&self, context: &mut Context<'_>) -> Result<Prepared, Self::Error> {
        let _ = context;
        Ok(Prepared::Ready)
    }

    /// Does it. What it wrote is taken back when this fails.
    ///
    /// # Errors
    /// When the queue's rules refuse it, or the database fails.
    fn execute(self, context: &mut Context<'_>) -> Result<Self::Output, Self::Error>;
}

/// Whether an operation can be carried out in this transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It can.
    Ready,
    /// There is more to be done first, in the next one.
    More,
}

/// The errors of one area, which the database's own are among.
pub trait AreaError: std::error::Error + From<StoreError> + Send + 'static {
    /// The database's error, if it is one.
    fn store(&self) -> Option<&StoreError>;
}

impl AreaError for StoreError {
    fn store(&self) -> Option<&StoreError> {
        Some(self)
    }
}

/// What an operation works with.
pub struct Context<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) rules: &'a mut Arc<Rules>,
    pub(crate) permit: &'a PurgePermit,
    pub(crate) timings: &'a mut Timings,
    ids: &'a mut IdSource,
    changes: &'a mut Vec<Change>,
}

impl Context<'_> {
    pub(crate) fn id(&mut self, now: Timestamp) -> Result<uuid::Uuid, StoreError> {
        self.ids.next(now).map_err(|error| StoreError::Entropy(Arc::new(error)))
    }

    pub(crate) fn token(&mut self) -> Result<ClaimToken, StoreError> {
        self.ids.token().map_err(|error| StoreError::Entropy(Arc::new(error)))
    }

    /// Tells observers, once the commit has returned.
    pub(crate) fn announce(&mut self, change: Change) {
        self.changes.push(change);
    }
}

/// An operation and the way back to who asked for it.
pub(crate) trait Waiting: Send {
    /// Runs it, or a piece of what comes first; `Err` says that it is to be taken back, and whether
    /// the disk failed.
    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Refused>;
    /// Whether it was not carried out yet.
    fn is_open(&self) -> bool;
    fn answer(self: Box<Self>, commit: Result<(), StoreError>);
}

/// How an operation failed.
pub(crate) struct Refused {
    fatal: bool,
}

/// The one [`Waiting`] there is.
pub(crate) struct Call<O: Operation, R> {
    operation: Option<O>,
    result: Option<Result<O::Output, O::Error>>,
    reply: R,
}

impl<O, R> Call<O, R>
where
    O: Operation,
    R: FnOnce(Result<O::Output, O::Error>) + Send,
{
    pub(crate) fn new(operation: O, reply: R) -> Call<O, R> {
        Call { operation: Some(operation), result: None, reply }
    }
}

impl<O, R> Waiting for Call<O, R>
where
    O: Operation,
    R: FnOnce(Result<O::Output, O::Error>) + Send,
{
    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Refused> {
        let Some(operation) = &self.operation else { return Ok(()) };
        let result = match operation.prepare(context) {
            Ok(Prepared::More) => return Ok(()),
            Ok(Prepared::Ready) => {
                let Some(operation) = self.operation.take() else { return Ok(()) };
                operation.execute(context)
            }
            Err(error) => {
                self.operation = None;
                Err(error)
            }
        };
        let refused = result
            .as_ref()
            .err()
            .map(|error| Refused { fatal: error.store().is_some_and(StoreError::is_fatal) });
        self.result = Some(result);
        refused.map_or(Ok(()), Err)
    }

    fn is_open(&self) -> bool {
        self.operation.is_some()
    }

    fn answer(self: Box<Self>, commit: Result<(), StoreError>) {
        let answer = match (commit, self.result) {
            // What was refused was refused, whatever became of the others.
            (_, Some(Err(error))) => Err(error),
            (Ok(()), Some(Ok(output))) => Ok(output),
            (Ok(()), None) => Err(StoreError::Closed.into()),
            (Err(error), _) => Err(error.into()),
        };
        (self.reply)(answer);
    }
}

/// What it takes to write.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) ids: IdSource,
    pub(crate) rules: Arc<Rules>,
    pub(crate) permit: PurgePermit,
    pub(crate) timings: Timings,
    pub(crate) observers: Arc<Observers>,
    pub(crate) stopped: Arc<AtomicBool>,
    /// What observers have not heard yet.
    pub(crate) untold: Vec<Change>,
}

/// What the writer's thread is told.
pub(crate) enum Message {
    Operation(Box<dyn Waiting>),
    /// Somebody who was alone has changed something.
    News,
}

/// The writer, whose turn it is, and how many want something of it.
pub(crate) struct Shift {
    writer: Mutex<Writer>,
    /// Operations that were asked for and not answered yet.
    open: AtomicUsize,
    observers: Arc<Observers>,
    stopped: Arc<AtomicBool>,
}

/// What came of carrying an operation out alone.
pub(crate) enum Alone {
    /// It was answered.
    Answered,
    /// It was answered, and observers are to be told, by the thread.
    AnsweredWithNews,
    /// Somebody else writes, or there is more to be done first.
    NotDone(Box<dyn Waiting>),
}

impl Shift {
    pub(crate) fn new(writer: Writer) -> Shift {
        Shift {
            open: AtomicUsize::new(0),
            observers: Arc::clone(&writer.observers),
            stopped: Arc::clone(&writer.stopped),
            writer: Mutex::new(writer),
        }
    }

    /// Says that an operation is asked for, and whether it is the only one.
    pub(crate) fn asked(&self) -> Company {
        if self.open.fetch_add(1, Ordering::AcqRel) == 0 { Company::None } else { Company::Others }
    }

    /// Says that an operation was answered, or will never be.
    pub(crate) fn answered(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Carries an operation out on this thread if nobody else writes. Only its own answer is given
    /// here: what others want to hear, they hear from the writer's thread, so that nobody's code
    /// runs where nobody expects it.
    pub(crate) fn alone(&self, operation: Box<dyn Waiting>) -> Alone {
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Alone::NotDone(operation),
        };
        // Observers that do not keep up hold everybody up, and not our memory.
        if writer.untold.len() >= BATCH_OPERATIONS_MAX {
            return Alone::NotDone(operation);
        }
        let mut batch = vec![operation];
        writer.turn(&mut batch, || self.answered());
        match batch.pop() {
            Some(operation) => Alone::NotDone(operation),
            None if writer.untold.is_empty() => Alone::Answered,
            None => Alone::AnsweredWithNews,
        }
    }

    /// Serves until every sender is gone.
    pub(crate) fn serve(&self, waiting: &Receiver<Message>) {
        let mut batch: Vec<Box<dyn Waiting>> = Vec::new();
        loop {
            if batch.is_empty() {
                match waiting.recv() {
                    Ok(Message::Operation(first)) => batch.push(first),
                    Ok(Message::News) => {}
                    Err(_) => return,
                }
            }
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            while batch.len() < BATCH_OPERATIONS_MAX {
                match waiting.try_recv() {
                    Ok(Message::Operation(next)) => batch.push(next),
                    Ok(Message::News) => {}
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            if !batch.is_empty() {
                writer.turn(&mut batch, || self.answered());
            }
            let news = std::mem::take(&mut writer.untold);
            drop(writer);
            if catch_unwind(AssertUnwindSafe(|| self.observers.tell(&news))).is_err() {
                self.stopped.store(true, Ordering::Release);
            }
        }
    }
}

/// Whether others ask for something at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    None,
    Others,
}

/// By now a client has its answer, though the machine be busy. Waiting longer only does more harm.
#[cfg(kron_canary)]
const ANSWERED: std::time::Duration = std::time::Duration::from_secs(1);

impl Writer {
    /// One transaction for all, and their answers. What could not be carried out yet stays, to be
    /// first in the next one.
    fn turn(&mut self, batch: &mut Vec<Box<dyn Waiting>>, answered: impl Fn()) {
        let mut changes = Vec::new();
        let commit = self.commit(batch, &mut changes);
        #[cfg(kron_canary)]
        let enqueues = changes.iter().any(|change| matches!(change, Change::Enqueued { .. }));
        if commit.is_ok() && !self.observers.is_empty() {
            self.untold.append(&mut changes);
        }
        for operation in std::mem::take(batch) {
            if commit.is_ok() && operation.is_open() {
                batch.push(operation);
                continue;
            }
            answered();
            // The reply is somebody else's code.
            if catch_unwind(AssertUnwindSafe(|| operation.answer(commit.clone()))).is_err() {
                self.stop();
            }
        }
        #[cfg(kron_canary)]
        if kron_canary::Canary::QueueAnswersBeforeCommit.is_active() {
            if enqueues {
                std::thread::sleep(ANSWERED);
            }
            let _ = self.execute("COMMIT");
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    fn commit(
        &mut self,
        batch: &mut [Box<dyn Waiting>],
        changes: &mut Vec<Change>,
    ) -> Result<(), StoreError> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        let rules = Arc::clone(&self.rules);
        // Whatever a panic leaves half done in memory is not used again, but for answering.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.transaction(batch, changes)));
        let reason = match outcome {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => {
                if is_fatal(&error) {
                    self.stop();
                }
                error.to_string()
            }
            Err(_) => {
                self.stop();
                "an operation panicked".to_owned()
            }
        };
        self.rules = rules;
        if !self.connection.is_autocommit() && self.execute("ROLLBACK").is_err() {
            self.stop();
        }
        Err(StoreError::Commit { reason })
    }

    fn transaction(
        &mut self,
        batch: &mut [Box<dyn Waiting>],
        changes: &mut Vec<Change>,
    ) -> rusqlite::Result<()> {
        self.execute("BEGIN IMMEDIATE")?;
        // Alone, an operation is the transaction, and needs nothing that takes back only itself.
        let alone = batch.len() == 1;
        for operation in batch {
            let announced = changes.len();
            if !alone {
                self.execute("SAVEPOINT operation")?;
            }
            let mut context = Context {
                db: &self.connection,
                rules: &mut self.rules,
                permit: &self.permit,
                timings: &mut self.timings,
                ids: &mut self.ids,
                changes,
            };
            if let Err(refused) = operation.run(&mut context) {
                changes.truncate(announced);
                if refused.fatal {
                    self.stop();
                }
                if alone {
                    // Some failures take the transaction back by themselves.
                    return if self.connection.is_autocommit() {
                        Ok(())
                    } else {
                        self.execute("ROLLBACK")
                    };
                }
                // Some failures take the whole transaction back; then this fails too, and with it
                // everybody's commit.
                self.execute("ROLLBACK TO operation")?;
            }
            if !alone {
                self.execute("RELEASE operation")?;
            }
        }
        #[cfg(kron_canary)]
        if kron_canary::Canary::QueueAnswersBeforeCommit.is_active() {
            return Ok(());
        }
        self.execute("COMMIT")
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute(()).map(|_| ())
    }
}
