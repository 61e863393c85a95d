//! The daemon as its other threads see it.
//!
//! A [`Handle`] is how the control API reaches the loop: a bounded channel in, an answer back. It
//! also lends out what may be read without the loop, because the loop never waits for a disk: the
//! store and the settings in force. It decides nothing, and it never blocks a thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use kron_config::DaemonSettings;
use kron_core::Category;
use kron_state::{HistoryEntry, RealDirectory, RunId, Store};
use tokio::sync::{mpsc, oneshot};

use super::inbox::{Asked, Wake};
use super::logs;
use super::queue::QueueHandle;
use super::reload::{Order, Origin};
use super::spool::SpoolsHandle;
use crate::api::EndedRuns;
use crate::machine::{Reply, Request};
use crate::metrics::Metrics;

/// Reaches a running daemon from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// What all handles of one daemon share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) requests: mpsc::Sender<Asked>,
    pub(super) wake: Arc<Wake>,
    pub(super) reloads: mpsc::Sender<Order>,
    pub(super) store: Arc<Store<RealDirectory>>,
    pub(super) settings: RwLock<Arc<DaemonSettings>>,
    pub(super) state_dir: PathBuf,
    /// Fed by the loop, asked by the control API.
    pub(super) ended: EndedRuns,
    pub(super) metrics: Arc<Metrics>,
    /// The queue, where the configuration has one.
    pub(super) queue: Option<QueueHandle>,
    /// The spools.
    pub(super) spools: SpoolsHandle,
    /// What somebody on the network must bear to be trusted.
    pub(super) token: RwLock<Option<Arc<str>>>,
}

/// The daemon is leaving and answers nobody any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the daemon is leaving")]
pub struct Gone;

/// A reload that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadView {
    /// Jobs that are defined now.
    pub job_count: usize,
    /// Doubts about the definitions, as `kron lint` shows them; empty when there are none.
    pub diagnostics: String,
}

/// Why a reload changed nothing. The definitions of before stay in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadFailure {
    /// The definitions have errors.
    #[error("the definitions have errors; the old ones stay in force")]
    Invalid {
        /// All of them, as `kron lint` shows them.
        diagnostics: String,
    },
    /// A file could not be read.
    #[error("{message}; the old definitions stay in force")]
    Unreadable {
        /// Whose fault it is.
        category: Category,
        /// Which file, and why.
        message: String,
    },
    /// The daemon is leaving.
    #[error("the daemon is leaving")]
    Gone,
}

impl ReloadFailure {
    /// The category of the error.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            ReloadFailure::Invalid { .. } => Category::Configuration,
            ReloadFailure::Unreadable { category, .. } => *category,
            ReloadFailure::Gone => Category::System,
        }
    }
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Handle {
        Handle { shared }
    }

    /// Asks the machine, and waits for its answer.
    ///
    /// # Errors
    /// When the daemon leaves before it has answered.
    pub async fn ask(&self, request: Request) -> Result<Reply, Gone> {
        let (reply, answer) = oneshot::channel();
        self.shared.requests.send(Asked { request, reply }).await.map_err(|_| Gone)?;
        self.shared.wake.up();
        answer.await.map_err(|_| Gone)
    }

    /// Reads the definitions again, off the loop's thread, and puts them in force when they have
    /// no errors.
    ///
    /// # Errors
    /// When they have errors or cannot be read; the old ones then stay in force.
    pub async fn reload(&self) -> Result<ReloadView, ReloadFailure> {
        let (reply, answer) = oneshot::channel();
        let order = Order { origin: Origin::Request(reply) };
        self.shared.reloads.send(order).await.map_err(|_| ReloadFailure::Gone)?;
        answer.await.map_err(|_| ReloadFailure::Gone)?
    }

    /// What is recorded. Reading it needs no leave of the loop; writing is the loop's alone.
    #[must_use]
    pub fn store(&self) -> &Arc<Store<RealDirectory>> {
        &self.shared.store
    }

    /// The daemon's settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<DaemonSettings> {
        self.shared.settings()
    }

    /// How a run by hand ended, if it did not long ago, whatever its history keeps.
    pub(crate) fn ended_run(&self, identity: &str, run: &RunId) -> Option<HistoryEntry> {
        self.shared.ended.find(identity, run)
    }

    /// What the daemon has counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The token by which somebody on the network is known, if there is one.
    pub(crate) fn token(&self) -> Option<Arc<str>> {
        self.shared.token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The queue, if the daemon has one.
    pub(crate) fn queue(&self) -> Option<&QueueHandle> {
        self.shared.queue.as_ref()
    }

    /// The spools, if the daemon has any.
    pub(crate) fn spools(&self) -> &SpoolsHandle {
        &self.shared.spools
    }

    /// The state directory.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.shared.state_dir
    }

    /// Where the output of a run is kept, if it is kept at all.
    #[must_use]
    pub fn log_path(&self, identity: &str, run: &RunId) -> PathBuf {
        logs::path(&self.shared.state_dir, identity, run)
    }
}

impl Shared {
    pub(super) fn settings(&self) -> Arc<DaemonSettings> {
        // A reader cannot leave the settings half changed, so a poisoned lock means nothing.
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_token(&self, token: Option<Arc<str>>) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    pub(super) fn set_settings(&self, settings: DaemonSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
