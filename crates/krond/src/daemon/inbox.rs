//! What reaches the loop from other threads.
//!
//! Requests of people come through a bounded channel, so that a flood of them waits outside.
//! Results of the daemon's own workers come through another that needs no bound of its own: there
//! are never more of them than orders the loop itself gave. Either way the sender writes first and
//! then wakes the loop, so nothing is left lying.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc;

use kron_config::{DaemonSettings, Job};
use kron_exec::Supervisor;
use kron_state::{DeliveryId, PeriodRef, RunId, RunRead};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::Gid;
use tokio::sync::{mpsc as tokio_mpsc, oneshot};

use super::handle::{ReloadFailure, ReloadView};
use super::queue::QueueDone;
use super::socket::SocketError;
use super::spool::{SpoolDone, SpoolNumber};
use crate::machine::{Reply, Request, StartFailure, Ticket};

/// Requests that may wait for the loop; further ones wait in their connections.
pub(super) const REQUESTS_MAX: usize = 64;

/// A request and where its answer goes.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What a worker has done.
#[derive(Debug)]
pub(super) enum Done {
    /// A run was launched, or could not be.
    Launched { run: RunId, result: Result<Supervisor, StartFailure> },
    /// Writes are durable, or could not be made so.
    Synced { tickets: Vec<Ticket>, result: Result<(), WriteFailure> },
    /// What a supervisor left behind was looked for, or the disk did not say.
    RunRead { run: RunId, result: Result<RunRead, String> },
    /// A hook was told, or could not be.
    Told { id: DeliveryId, result: Result<(), String> },
    /// What a job wants done is in the queue or a spool, or could not be put there.
    HandedOver { run: RunId, result: Result<String, StartFailure> },
    /// Something of the queue's.
    Queue(QueueDone),
    /// Something of a spool's.
    Spool(SpoolNumber, SpoolDone),
    /// Definitions were read and are sound.
    Loaded(Box<NewDefinitions>),
}

/// State that could not be written.
#[derive(Clone, Debug)]
pub(super) struct WriteFailure {
    /// Whose it was, where it was one job's.
    pub(super) identity: Option<Arc<str>>,
    /// The period that it was about, where it was about one.
    pub(super) period: Option<PeriodRef>,
    pub(super) message: String,
}

/// Sound definitions on their way into force.
#[derive(Debug)]
pub(super) struct NewDefinitions {
    pub(super) jobs: Vec<Job>,
    pub(super) settings: DaemonSettings,
    /// The number of the group that may look, looked up where that may take a while.
    pub(super) socket_group: Result<Option<Gid>, SocketError>,
    /// What somebody on the network must bear to be trusted, or why that could not be read.
    pub(super) token: Result<Option<Arc<str>>, String>,
    /// Doubts about them, for whoever asked.
    pub(super) diagnostics: String,
    pub(super) reply: Option<oneshot::Sender<Result<ReloadView, ReloadFailure>>>,
}

/// Wakes the loop.
#[derive(Debug)]
pub(super) struct Wake(EventFd);

impl Wake {
    pub(super) fn new() -> nix::Result<Wake> {
        EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map(Wake)
    }

    /// A counter that is full means that the loop is awake already.
    pub(super) fn up(&self) {
        while self.0.write(1) == Err(Errno::EINTR) {}
    }

    /// Forgets the calls so far. What was sent before them must be looked at after this.
    pub(super) fn hush(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The workers' end.
#[derive(Clone, Debug)]
pub(super) struct Results {
    sender: mpsc::Sender<Done>,
    wake: Arc<Wake>,
}

impl Results {
    /// Tells the loop. Once it has left, nobody wants to know.
    pub(super) fn send(&self, done: Done) {
        let _ = self.sender.send(done);
        self.wake.up();
    }
}

/// The loop's end.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) wake: Arc<Wake>,
    requests: tokio_mpsc::Receiver<Asked>,
    results: mpsc::Receiver<Done>,
}

/// One thing out of the inbox.
#[derive(Debug)]
pub(super) enum Arrived {
    Done(Done),
    Asked(Asked),
}

impl Inbox {
    /// An inbox and the ends of those who write to it.
    pub(super) fn new() -> nix::Result<(Inbox, Results, tokio_mpsc::Sender<Asked>)> {
        let wake = Arc::new(Wake::new()?);
        let (asker, requests) = tokio_mpsc::channel(REQUESTS_MAX);
        let (sender, results) = mpsc::channel();
        let workers = Results { sender, wake: wake.clone() };
        Ok((Inbox { wake, requests, results }, workers, asker))
    }

    /// The next thing that has arrived; what was already done comes before what is asked for.
    pub(super) fn take(&mut self) -> Option<Arrived> {
        if let Ok(done) = self.results.try_recv() {
            return Some(Arrived::Done(done));
        }
        self.requests.try_recv().ok().map(Arrived::Asked)
    }
}
