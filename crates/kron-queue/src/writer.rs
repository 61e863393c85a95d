//! The one thread that writes, and how one commit serves many.
//!
//! It takes whatever waits, runs each operation in a savepoint of one transaction, commits once,
//! and then answers. A lone operation waits for nobody: the thread commits as soon as nothing else
//! is there, and what arrives during a commit shares the next one.
//!
//! **Invariant:** an operation is answered well only after the commit that carries it returned. An
//! operation that fails takes back only itself. When a commit fails, everybody in it is told; when
//! the disk failed, nothing more is written (`StoreError::Stopped`), because nobody knows what a
//! failed write left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};

use rusqlite::Connection;

use crate::change::{Change, Observers};
use crate::error::{StoreError, is_fatal};
use crate::id::{ClaimToken, IdSource};
use crate::limits::BATCH_OPERATIONS_MAX;
use crate::rules::Rules;
use crate::schedule::Timings;
use crate::timestamp::Timestamp;

/// Something that changes the queue, as one transaction.
pub trait Operation: Send + 'static {
    /// What it answers.
    type Output: Send + 'static;
    /// Why it may be refused.
    type Error: AreaError;

    /// Does it. What it wrote is taken back when this fails.
    ///
    /// # Errors
    /// When the queue's rules refuse it, or the database fails.
    fn execute(self, context: &mut Context<'_>) -> Result<Self::Output, Self::Error>;
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
    pub(crate) rules: &'a mut Rules,
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
    /// Runs it; `Err` says that it is to be taken back, and whether the disk failed.
    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Refused>;
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
        let Some(operation) = self.operation.take() else { return Ok(()) };
        let result = operation.execute(context);
        let refused = result
            .as_ref()
            .err()
            .map(|error| Refused { fatal: error.store().is_some_and(StoreError::is_fatal) });
        self.result = Some(result);
        refused.map_or(Ok(()), Err)
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

/// The thread's own things.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) ids: IdSource,
    pub(crate) rules: Rules,
    pub(crate) timings: Timings,
    pub(crate) observers: Arc<Observers>,
    pub(crate) stopped: Arc<AtomicBool>,
}

impl Writer {
    /// Serves until every sender is gone.
    pub(crate) fn serve(mut self, waiting: &Receiver<Box<dyn Waiting>>) {
        let mut batch = Vec::new();
        while let Ok(first) = waiting.recv() {
            batch.push(first);
            while batch.len() < BATCH_OPERATIONS_MAX {
                match waiting.try_recv() {
                    Ok(next) => batch.push(next),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            let mut changes = Vec::new();
            let commit = self.commit(&mut batch, &mut changes);
            if commit.is_err() {
                changes.clear();
            }
            for operation in batch.drain(..) {
                operation.answer(commit.clone());
            }
            self.observers.tell(&changes);
        }
    }

    fn commit(
        &mut self,
        batch: &mut [Box<dyn Waiting>],
        changes: &mut Vec<Change>,
    ) -> Result<(), StoreError> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(StoreError::Stopped);
        }
        let outcome = self.transaction(batch, changes);
        if let Err(error) = &outcome {
            if is_fatal(error) {
                self.stopped.store(true, Ordering::Release);
            }
            if !self.connection.is_autocommit() && self.execute("ROLLBACK").is_err() {
                self.stopped.store(true, Ordering::Release);
            }
        }
        outcome.map_err(|error| StoreError::Commit { reason: error.to_string() })
    }

    fn transaction(
        &mut self,
        batch: &mut [Box<dyn Waiting>],
        changes: &mut Vec<Change>,
    ) -> rusqlite::Result<()> {
        self.execute("BEGIN IMMEDIATE")?;
        for operation in batch {
            let announced = changes.len();
            self.execute("SAVEPOINT operation")?;
            let mut context = Context {
                db: &self.connection,
                rules: &mut self.rules,
                timings: &mut self.timings,
                ids: &mut self.ids,
                changes,
            };
            if let Err(refused) = operation.run(&mut context) {
                changes.truncate(announced);
                if refused.fatal {
                    self.stopped.store(true, Ordering::Release);
                }
                // Some failures take the whole transaction back; then this fails too, and with it
                // everybody's commit.
                self.execute("ROLLBACK TO operation")?;
            }
            self.execute("RELEASE operation")?;
        }
        self.execute("COMMIT")
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute(()).map(|_| ())
    }
}
