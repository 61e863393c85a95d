//! The handle by which everybody uses the queue.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension as _};

use crate::change::{Change, Interest, Observers};
use crate::database::{Access, connect, migrate, prepare};
use crate::error::StoreError;
use crate::id::{Entropy, IdSource, JobId, KernelEntropy};
use crate::limits::WAITING_OPERATIONS_MAX;
use crate::purge::PurgePermit;
use crate::readers::Readers;
use crate::rules::Rules;
use crate::schedule::Timings;
use crate::writer::{Alone, Call, Company, Message, Operation, Shift, Waiting, Writer};

/// The queue. Clones are the same queue; the last one to go closes it, after everything that was
/// asked for is done.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    sender: Mutex<Option<SyncSender<Message>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    shift: Arc<Shift>,
    readers: Readers,
    observers: Arc<Observers>,
    stopped: Arc<AtomicBool>,
    path: PathBuf,
}

impl Queue {
    /// Opens the database, creating it or bringing it to the present version.
    ///
    /// # Errors
    /// When the file cannot be used, is not private, or is of a newer version or of another
    /// program.
    pub fn open(path: &Path, rules: Rules) -> Result<Queue, StoreError> {
        Queue::open_with(path, rules, Box::new(KernelEntropy))
    }

    /// As [`Queue::open`], with random bytes from elsewhere.
    ///
    /// # Errors
    /// As [`Queue::open`].
    pub fn open_with(
        path: &Path,
        rules: Rules,
        entropy: Box<dyn Entropy>,
    ) -> Result<Queue, StoreError> {
        let path = prepare(path)?;
        let connection = connect(&path, Access::Write)?;
        Queue::start(connection, path, rules, entropy)
    }

    /// Brings the database to the present version and starts the writer.
    pub(crate) fn start(
        mut connection: Connection,
        path: PathBuf,
        rules: Rules,
        entropy: Box<dyn Entropy>,
    ) -> Result<Queue, StoreError> {
        let permit = PurgePermit::install(&connection)?;
        migrate(&mut connection, &path)?;
        let latest: Option<JobId> = connection
            .query_row("SELECT job_id FROM jobs ORDER BY seq DESC LIMIT 1", (), |row| row.get(0))
            .optional()?;
        let observers = Arc::new(Observers::default());
        let stopped = Arc::new(AtomicBool::new(false));
        let writer = Writer {
            connection,
            ids: IdSource::new(entropy, latest.map(|id| id.0)),
            rules: Arc::new(rules),
            permit,
            timings: Timings::default(),
            observers: Arc::clone(&observers),
            stopped: Arc::clone(&stopped),
            untold: Vec::new(),
        };
        let shift = Arc::new(Shift::new(writer));
        let serving = Arc::clone(&shift);
        let (sender, receiver) = sync_channel(WAITING_OPERATIONS_MAX);
        let thread = std::thread::Builder::new()
            .name("kron-queue".into())
            .spawn(move || serving.serve(&receiver))
            .map_err(|source| StoreError::File {
                what: "cannot start the writer of",
                path: path.display().to_string(),
                source: Some(Arc::new(source)),
            })?;
        let shared = Shared {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            shift,
            readers: Readers::new(path.clone()),
            observers,
            stopped,
            path,
        };
        Ok(Queue { shared: Arc::new(shared) })
    }

    /// Does `operation` and waits until it is durable.
    ///
    /// # Errors
    /// When the queue's rules refuse it, or it did not become durable.
    pub fn call<O: Operation>(&self, operation: O) -> Result<O::Output, O::Error> {
        let (reply, answer) = sync_channel(1);
        // Whoever waits below is there until the answer comes.
        let call = Call::new(operation, move |result| drop(reply.send(result)));
        let mut call: Box<dyn Waiting> = Box::new(call);
        let answered = || answer.try_recv().unwrap_or_else(|_| Err(StoreError::Closed.into()));
        if self.shared.shift.asked() == Company::None {
            match self.shared.shift.alone(call) {
                Alone::NotDone(open) => call = open,
                Alone::Answered => return answered(),
                Alone::AnsweredWithNews => {
                    // When there is no room, the thread has enough to do and will come to it.
                    let _ = self.sender().map(|sender| sender.try_send(Message::News));
                    return answered();
                }
            }
        }
        let sent = self.sender().and_then(|sender| {
            sender.send(Message::Operation(call)).map_err(|_| StoreError::Closed)
        });
        if let Err(error) = sent {
            self.shared.shift.answered();
            return Err(error.into());
        }
        answer.recv().unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Does `operation` without waiting: `reply` is called on the writer's thread when it is
    /// durable or has failed, and must not take long. It is always called; if it panics, the queue
    /// stops.
    pub fn submit<O: Operation>(
        &self,
        operation: O,
        reply: impl FnOnce(Result<O::Output, O::Error>) + Send + 'static,
    ) {
        let call: Box<dyn Waiting> = Box::new(Call::new(operation, reply));
        self.shared.shift.asked();
        let (call, error) = match self.sender() {
            Err(error) => (call, error),
            Ok(sender) => match sender.try_send(Message::Operation(call)) {
                Err(TrySendError::Full(Message::Operation(call))) => (call, StoreError::Busy),
                Err(TrySendError::Disconnected(Message::Operation(call))) => {
                    (call, StoreError::Closed)
                }
                Ok(()) | Err(_) => return,
            },
        };
        self.shared.shift.answered();
        call.answer(Err(error));
    }

    /// Receives changes; when more than `changes_max` wait, the rest is [`Change::Lagged`].
    #[must_use]
    pub fn subscribe(&self, changes_max: usize) -> Receiver<Change> {
        self.shared.observers.subscribe(changes_max)
    }

    /// Calls `observer` on the writer's thread after each commit that changed something. It must
    /// not take long, and must not call the queue and wait.
    pub fn observe(&self, observer: impl FnMut(&[Change]) -> Interest + Send + 'static) {
        self.shared.observers.add(Box::new(observer));
    }

    /// Whether a write failed in a way after which no more are taken, or the writer's thread met a
    /// panic.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// Where the database is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(crate) fn read<T, E: From<StoreError>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.shared.readers.read(read)
    }

    fn sender(&self) -> Result<SyncSender<Message>, StoreError> {
        let sender = self.shared.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.clone().ok_or(StoreError::Closed)
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.sender.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The last clone may go in a reply, on the writer's own thread.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // Its panics are caught where they can be told.
            let _ = thread.join();
        }
    }
}
